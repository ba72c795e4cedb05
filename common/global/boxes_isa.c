/* SPDX-License-Identifier: BSD-3-Clause */
/* Exact sums of columns: the rounding error of each addition (Knuth's two-sum) is added to the next number of the sum;
 * where the last number rounds, too, the group reports it and stays unchanged. */
#include "global/boxes_isa.h"

#include "base/isa.h"

#ifdef __AVX__
#include <immintrin.h>
#endif

enum { WIDE = LANES / 2, PARTS = VP_BOXES_GROUP / WIDE };

typedef double vd __attribute__((vector_size(4 * LANES)));
typedef double vd_u __attribute__((vector_size(4 * LANES), aligned(8)));
typedef int32_t vi_half __attribute__((vector_size(2 * LANES)));
typedef int64_t vl __attribute__((vector_size(4 * LANES)));

/* Sets *s to the rounded sum. Returns the rounding error. */
INLINE vd two_sum(vd *s, vd x)
{
    const vd a = *s, sum = a + x, b = sum - a;
    *s = sum;
    return (a - (sum - b)) + (x - b);
}

/* Adds x to n numbers. Returns the bits of the last rounding error (NaN where x is not finite). */
INLINE vl add(vd *s, int n, vd x)
{
    for (int i = 0; i < n; i++)
        x = two_sum(&s[i], x);
    return (vl)x;
}

INLINE bool rounded(vl lost) /* no error, also if -0 */
{
#if defined(__AVX512F__)
    return _mm512_test_epi64_mask((__m512i)lost, _mm512_set1_epi64(INT64_MAX));
#elif defined(__AVX__)
    return !_mm256_testz_si256((__m256i)lost, _mm256_set1_epi64x(INT64_MAX));
#else
    return (lost[0] | lost[1]) & INT64_MAX;
#endif
}

/* Squares of 24 bits or fewer are exact. Others are made of two halves of 26 bits, whose products are. */
INLINE vl add_square(vd *q, vd x, bool is_long)
{
    if (!is_long)
        return add(q, VP_BOXES_SQUARES, x * x);
    const vd high = (vd)(((vl)x + (INT64_C(1) << 26)) & -(INT64_C(1) << 27)), low = x - high;
    return add(q, VP_BOXES_SQUARES, high * high) | add(q, VP_BOXES_SQUARES, 2 * high * low)
           | add(q, VP_BOXES_SQUARES, low * low);
}

/* Loads n numbers of each column; stores them. */
INLINE void take(vd *to, int n, double (*from)[VP_BOXES_GROUP], int part)
{
    for (int k = 0; k < n; k++)
        to[k] = *(const vd_u *)&from[k][part * WIDE];
}

INLINE void give(double (*to)[VP_BOXES_GROUP], int n, const vd *from, int part)
{
    for (int k = 0; k < n; k++)
        *(vd_u *)&to[k][part * WIDE] = from[k];
}

/* Widens samples of 8 and 16 bits to 32: compilers would convert one by one. */
#if defined(__AVX512F__)
#define LOAD_8(type, T, p) (vi_half)_mm256_cvt##type##_epi32(_mm_loadl_epi64((const __m128i *)(const void *)(p)))
#define LOAD_16(type, T, p) (vi_half)_mm256_cvt##type##_epi32(_mm_loadu_si128((const __m128i *)(const void *)(p)))
#elif defined(__AVX2__)
#define LOAD_8(type, T, p) (vi_half)_mm_cvt##type##_epi32(_mm_loadu_si32(p))
#define LOAD_16(type, T, p) (vi_half)_mm_cvt##type##_epi32(_mm_loadl_epi64((const __m128i *)(const void *)(p)))
#else
#define LOAD_8(type, T, p) LOAD(T, p, vi_half)
#define LOAD_16 LOAD_8
#endif

/* Sums of some of them, and of their squares, fit in one number. */
#define SUM_SHORT(load)                                               \
    vd sum = {0}, square = {0};                                       \
    for (int r = 0; r < rows; r++) {                                  \
        const vd x = __builtin_convertvector(load, vd);               \
        sum += x;                                                     \
        square += x * x;                                              \
    }                                                                 \
    lost |= add(s, VP_BOXES_SUM, sum) | add(q, VP_BOXES_SQUARES, square);

#define SUM_EACH(T, LONG)                                         \
    for (int r = 0; r < rows; r++) {                              \
        const vd x = LOAD(T, from + r * stride, vd);              \
        lost |= add(s, VP_BOXES_SUM, x) | add_square(q, x, LONG); \
    }

#define LOAD(T, p, to) __builtin_convertvector(*(const vector_##T *)(const void *)(p), to)

#define ROWS(NAME, T, SUM)                                                                                         \
    typedef T vector_##T __attribute__((vector_size(sizeof(T) * WIDE), aligned(sizeof(T))));                       \
    static int64_t rows_##NAME(const void *src, int64_t stride, int rows, int64_t first, int64_t groups,           \
                               struct vp_box_columns *to)                                                          \
    {                                                                                                              \
        for (int64_t g = first; g < groups; g++) {                                                                 \
            vd sums[PARTS][VP_BOXES_SUM], squares[PARTS][VP_BOXES_SQUARES];                                        \
            vl lost = {0};                                                                                         \
            _Pragma("GCC unroll 4") for (int i = 0; i < PARTS; i++)                                                \
            {                                                                                                      \
                const T *from = (const T *)src + g * VP_BOXES_GROUP + i * WIDE;                                    \
                vd *s = sums[i], *q = squares[i];                                                                  \
                take(s, VP_BOXES_SUM, to[g].sum, i);                                                               \
                take(q, VP_BOXES_SQUARES, to[g].squares, i);                                                       \
                SUM                                                                                                \
            }                                                                                                      \
            if (rounded(lost))                                                                                     \
                return g;                                                                                          \
            _Pragma("GCC unroll 4") for (int i = 0; i < PARTS; i++)                                                \
            {                                                                                                      \
                give(to[g].sum, VP_BOXES_SUM, sums[i], i);                                                         \
                give(to[g].squares, VP_BOXES_SQUARES, squares[i], i);                                              \
            }                                                                                                      \
        }                                                                                                          \
        return groups;                                                                                             \
    }

ROWS(u8, uint8_t, SUM_SHORT(LOAD_8(epu8, uint8_t, from + r * stride)))
ROWS(i8, int8_t, SUM_SHORT(LOAD_8(epi8, int8_t, from + r * stride)))
ROWS(u16, uint16_t, SUM_SHORT(LOAD_16(epu16, uint16_t, from + r * stride)))
ROWS(i16, int16_t, SUM_SHORT(LOAD_16(epi16, int16_t, from + r * stride)))
ROWS(f32, float, SUM_EACH(float, false))
ROWS(f64, double, SUM_EACH(double, true))

static bool fold(const double *src, int64_t stride, int64_t n, double (*to)[VP_BOXES_GROUP])
{
    vd s[PARTS][VP_BOXES_SQUARES];
    vl lost = {0};
    for (int i = 0; i < PARTS; i++) {
        take(s[i], VP_BOXES_SQUARES, to, i);
        for (int64_t g = 0; g < n; g++)
            lost |= add(s[i], VP_BOXES_SQUARES, *(const vd_u *)(src + g * stride + i * WIDE));
    }
    for (int i = 0; i < PARTS && !rounded(lost); i++)
        give(to, VP_BOXES_SQUARES, s[i], i);
    return !rounded(lost);
}

const struct vp_boxes_isa PASTE(vp_boxes_, VP_ISA) = {
    .name = TEXT(VP_ISA),
    .rows = {[VP_U8] = rows_u8, [VP_I8] = rows_i8, [VP_U16] = rows_u16, [VP_I16] = rows_i16, [VP_F32] = rows_f32,
             [VP_F64] = rows_f64},
    .fold = fold,
};
