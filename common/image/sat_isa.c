/* SPDX-License-Identifier: BSD-3-Clause */
/* Rows of summed area tables. Integers wrap, so any order of additions gives their bits: eight rows at a time, each
 * summed up within a vector. Sums in f64 are taken in the order of sat.h: vectors hold every other column of a row, so that
 * its pairs are sums of two of them. */
#include "image/sat_isa.h"

#include "base/isa.h"

#include <string.h>
#ifdef __AVX2__
#include <immintrin.h>
#endif

/* Bytes as they are loaded to be widened: a whole vector, a half, a quarter, an eighth. */
#ifdef __AVX512F__
#define WHOLE(p) _mm512_loadu_si512(p)
#define HALF(p) _mm256_loadu_si256((const __m256i *)(p))
#define QUARTER(p) _mm_loadu_si128((const __m128i *)(p))
#define EIGHTH(p) _mm_loadl_epi64((const __m128i *)(p))
#define WIDER(what) _mm512_cvt##what
#else
#define WHOLE(p) _mm256_loadu_si256((const __m256i *)(p))
#define HALF(p) _mm_loadu_si128((const __m128i *)(p))
#define QUARTER(p) _mm_loadl_epi64((const __m128i *)(p))
#define EIGHTH(p) _mm_loadu_si32(p)
#define WIDER(what) _mm256_cvt##what
#endif
#define SAME(v) v

/* Lane i of a vector of n that is shifted by d: where it comes from, n being a zero. */
#define LANE(i, d, n) (i) >= (d) ? (i) - (d) : (n)
#define PLACES2(d, n) LANE(0, d, n), LANE(1, d, n)
#define PLACES4(d, n) PLACES2(d, n), LANE(2, d, n), LANE(3, d, n)
#define PLACES8(d, n) PLACES4(d, n), LANE(4, d, n), LANE(5, d, n), LANE(6, d, n), LANE(7, d, n)
#define PLACES16(d, n)                                                                                                 \
    PLACES8(d, n), LANE(8, d, n), LANE(9, d, n), LANE(10, d, n), LANE(11, d, n), LANE(12, d, n), LANE(13, d, n),       \
        LANE(14, d, n), LANE(15, d, n)
#define LASTS2(n) n, n
#define LASTS4(n) LASTS2(n), LASTS2(n)
#define LASTS8(n) LASTS4(n), LASTS4(n)
#define LASTS16(n) LASTS8(n), LASTS8(n)
#if LANES == 16
#define OF32(what) what##16
#define OF64(what) what##8
#elif LANES == 8
#define OF32(what) what##8
#define OF64(what) what##4
#else
#define OF32(what) what##4
#define OF64(what) what##2
#endif

#define A uint32_t
#define V vu
#define N LANES
#define PLACES(d) {OF32(PLACES)(d, N)}
#define LASTS {OF32(LASTS)(N - 1)}
#define NAME u32
#include "image/sat_integers.h"
WIDEN(uint8_t, _u8, QUARTER, WIDER(epu8_epi32))
WIDEN(uint16_t, _u16, HALF, WIDER(epu16_epi32))
WIDEN(uint32_t, _u32, WHOLE, SAME)
WIDEN(int8_t, _i8, QUARTER, WIDER(epi8_epi32))
WIDEN(int16_t, _i16, HALF, WIDER(epi16_epi32))
WIDEN(int32_t, _i32, WHOLE, SAME)
INTEGERS(uint8_t, _u8)
INTEGERS(uint16_t, _u16)
INTEGERS(uint32_t, _u32)
INTEGERS(int8_t, _i8)
INTEGERS(int16_t, _i16)
INTEGERS(int32_t, _i32)
#undef A
#undef V
#undef N
#undef NAME
#undef INTEGERS
#undef PLACES
#undef WIDEN
#undef LASTS

typedef uint64_t vw __attribute__((vector_size(4 * LANES)));
#define A uint64_t
#define V vw
#define N (LANES / 2)
#define PLACES(d) {OF64(PLACES)(d, N)}
#define LASTS {OF64(LASTS)(N - 1)}
#define NAME u64
#include "image/sat_integers.h"
WIDEN(uint8_t, _u8, EIGHTH, WIDER(epu8_epi64))
WIDEN(uint16_t, _u16, QUARTER, WIDER(epu16_epi64))
WIDEN(uint32_t, _u32, HALF, WIDER(epu32_epi64))
WIDEN(uint64_t, _u64, WHOLE, SAME)
WIDEN(int8_t, _i8, EIGHTH, WIDER(epi8_epi64))
WIDEN(int16_t, _i16, QUARTER, WIDER(epi16_epi64))
WIDEN(int32_t, _i32, HALF, WIDER(epi32_epi64))
WIDEN(int64_t, _i64, WHOLE, SAME)
INTEGERS(uint8_t, _u8)
INTEGERS(uint16_t, _u16)
INTEGERS(uint32_t, _u32)
INTEGERS(uint64_t, _u64)
INTEGERS(int8_t, _i8)
INTEGERS(int16_t, _i16)
INTEGERS(int32_t, _i32)
INTEGERS(int64_t, _i64)
#undef A
#undef V
#undef N
#undef NAME
#undef INTEGERS

/* ---- sums in f64 ---- */

typedef double vd __attribute__((vector_size(4 * LANES)));
enum {
    WIDTH = LANES / 2,            /* samples of a vector */
    PAIRS = VP_SAT_HALF / LANES,  /* vectors of the pairs of half a tile */
    TOGETHER = LANES / 4          /* rows whose sums along x are made at once, as one alone is waiting most of the time */
};

/* Two vectors of columns become one of the even columns and one of the odd ones, and the other way round. That swaps within
 * 128 bits, so pairs are in another order than columns: of eight 0 4 1 5 2 6 3 7. BEFORE(a, b, d): what is d pairs before
 * b in a and b; LAST: the last pair everywhere. */
#if LANES == 16
#define EVENS(a, b) __builtin_shufflevector(a, b, 0, 8, 2, 10, 4, 12, 6, 14)
#define ODDS(a, b) __builtin_shufflevector(a, b, 1, 9, 3, 11, 5, 13, 7, 15)
#define BEFORE1(a, b) __builtin_shufflevector(a, b, 7, 14, 8, 9, 10, 11, 12, 13)
#define BEFORE2(a, b) __builtin_shufflevector(a, b, 5, 12, 7, 14, 8, 9, 10, 11)
#define BEFORE4(a, b) __builtin_shufflevector(a, b, 1, 8, 3, 10, 5, 12, 7, 14)
#define LAST(a) __builtin_shufflevector(a, a, 7, 7, 7, 7, 7, 7, 7, 7)
#elif LANES == 8
#define EVENS(a, b) __builtin_shufflevector(a, b, 0, 4, 2, 6)
#define ODDS(a, b) __builtin_shufflevector(a, b, 1, 5, 3, 7)
#define BEFORE1(a, b) __builtin_shufflevector(a, b, 3, 6, 4, 5)
#define BEFORE2(a, b) __builtin_shufflevector(a, b, 1, 4, 3, 6)
#define LAST(a) __builtin_shufflevector(a, a, 3, 3, 3, 3)
#else
#define EVENS(a, b) __builtin_shufflevector(a, b, 0, 2)
#define ODDS(a, b) __builtin_shufflevector(a, b, 1, 3)
#define BEFORE1(a, b) __builtin_shufflevector(a, b, 1, 2)
#define LAST(a) ODDS(a, a)
#endif

/* Half a tile of a row in f64, or the squares. These are stored before anybody adds them: no compiler can round a square
 * and a sum at once. */
#define LOAD(IN, SUFFIX)                                                                                               \
    __attribute__((noinline)) static void load##SUFFIX(double *to, const void *from, int64_t x, bool square)           \
    {                                                                                                                  \
        const IN *const a = (const IN *)from + x;                                                                      \
        if (square)                                                                                                    \
            for (int i = 0; i < VP_SAT_HALF; i++)                                                                      \
                to[i] = (double)a[i] * (double)a[i];                                                                   \
        else                                                                                                           \
            for (int i = 0; i < VP_SAT_HALF; i++)                                                                      \
                to[i] = (double)a[i];                                                                                  \
    }
LOAD(uint8_t, _u8)
LOAD(uint16_t, _u16)
LOAD(uint32_t, _u32)
LOAD(uint64_t, _u64)
LOAD(int8_t, _i8)
LOAD(int16_t, _i16)
LOAD(int32_t, _i32)
LOAD(int64_t, _i64)
LOAD(float, _f32)
LOAD(double, _f64)

typedef void load_row(double *to, const void *from, int64_t x, bool square);

INLINE vd get(const double *from)
{
    vd v;
    memcpy(&v, from, sizeof v);
    return v;
}

INLINE void set(double *to, vd v)
{
    memcpy(to, &v, sizeof v);
}

INLINE vd widen_f32(const float *from)
{
#if defined(__AVX512F__)
    return _mm512_cvtps_pd(_mm256_loadu_ps(from));
#elif defined(__AVX2__)
    return _mm256_cvtps_pd(_mm_loadu_ps(from));
#else
    vd v;
    for (int i = 0; i < WIDTH; i++)
        v[i] = (double)from[i];
    return v;
#endif
}

/* Of half a tile: the sums along y of the even columns, and those of the pairs. */
struct sums { vd even[PAIRS], pair[PAIRS]; };

/* The sums along y of half a tile; what is below its rows goes on from b->group. load: NULL: f32. */
INLINE void sum_down(struct sums u[VP_SAT_ROWS], const struct vp_sat_rows *b, int rows, int64_t x, load_row *load)
{
    double *const group = b->group + x;
    vd w[2 * PAIRS] = {{0}};
    for (int r = 0; r < rows; r++) {
        _Alignas(64) double row[VP_SAT_HALF];
        if (load)
            load(row, b->src[r], x, b->square);
        #pragma GCC unroll 16
        for (int i = 0; i < PAIRS; i++) {
            const float *const f = (const float *)b->src[r] + x + i * LANES;
            const vd one = load ? get(row + i * LANES) : widen_f32(f);
            const vd two = load ? get(row + i * LANES + WIDTH) : widen_f32(f + WIDTH);
            const vd even = EVENS(one, two), odd = ODDS(one, two);
            w[2 * i] = r ? w[2 * i] + even : even;
            w[2 * i + 1] = r ? w[2 * i + 1] + odd : odd;
            const vd u0 = get(group + i * LANES) + w[2 * i], u1 = get(group + i * LANES + WIDTH) + w[2 * i + 1];
            u[r].even[i] = u0;
            u[r].pair[i] = u0 + u1;
        }
    }
    #pragma GCC unroll 32
    for (int i = 0; i < 2 * PAIRS; i++)
        set(group + i * WIDTH, b->ends_tile ? (vd){0} : get(group + i * WIDTH) + w[i]);
}

/* The 32 prefix sums of pairs, of n rows. */
INLINE void sum_along(vd s[][PAIRS], int n)
{
    const vd zero = {0};
#define ALL_BY(d)                                                                                                      \
    _Pragma("GCC unroll 16")                                                                                           \
    for (int i = PAIRS - 1; i >= 0; i--)                                                                               \
        _Pragma("GCC unroll 8")                                                                                        \
        for (int r = 0; r < n; r++)                                                                                    \
            s[r][i] += BEFORE##d(i ? s[r][i - 1] : zero, s[r][i]);
    ALL_BY(1)
#if LANES > 4
    ALL_BY(2)
#endif
#if LANES > 8
    ALL_BY(4)
#endif
#undef ALL_BY
    #pragma GCC unroll 4
    for (int d = 1; d < PAIRS; d *= 2)
        #pragma GCC unroll 16
        for (int i = PAIRS - 1; i >= d; i--)
            #pragma GCC unroll 8
            for (int r = 0; r < n; r++)
                s[r][i] += s[r][i - d];
}

INLINE void put(const struct vp_sat_rows *b, int r, int64_t x, vd v, bool past, bool planes)
{
    if (b->ends_tile && r == VP_SAT_ROWS - 1)
        set((double *)b->above + x, v);
    if (planes) {
        double *const plane = (double *)b->plane[r] + x;
        v = get(plane) + v;
        set(plane, v);
    }
    if (b->f32) {
        typedef float narrow __attribute__((vector_size(2 * LANES)));
        const narrow n = __builtin_convertvector(v, narrow);
        memcpy((float *)b->dst[r] + x, &n, sizeof n);
    } else if (past) {
        put_past((float *)((double *)b->dst[r] + x), (vf)v);
    } else {
        set((double *)b->dst[r] + x, v);
    }
}

/* Row r of half a tile: u are the sums along y, s the prefix sums of their pairs, `left` that of the half before, h of the
 * tiles before. */
INLINE void put_half(const struct vp_sat_rows *b, int r, int64_t x, const struct sums *u, const vd s[PAIRS], vd left,
                     const vd p[2 * PAIRS], vd h, bool past, bool planes)
{
    #pragma GCC unroll 16
    for (int i = 0; i < PAIRS; i++) {
        const vd e = BEFORE1(i ? s[i - 1] : (vd){0}, s[i]) + left;
        const vd even = p[2 * i] + ((u->even[i] + e) + h), odd = p[2 * i + 1] + ((u->pair[i] + e) + h);
        put(b, r, x + i * LANES, EVENS(even, odd), past, planes);
        put(b, r, x + i * LANES + WIDTH, ODDS(even, odd), past, planes);
    }
}

/* `rows`, `past` and `planes` are constants; load: NULL: f32. */
INLINE void make_f64(const struct vp_sat_rows *b, int rows, bool past, bool planes, load_row *load)
{
    const int together = rows == VP_SAT_ROWS ? TOGETHER : 1;
    vd h[VP_SAT_ROWS], g[VP_SAT_ROWS];
    for (int r = 0; r < rows; r++)
        h[r] = (vd){0} + ((double *)b->left)[r];
    for (int64_t x = 0; x < b->columns; x += VP_SAT_HALF) {
        const bool first = x % VP_SAT_WIDE == 0;
        vd p[2 * PAIRS];
        struct sums u[VP_SAT_ROWS];
        for (int i = 0; i < PAIRS; i++) {
            const double *const above = (double *)b->above + x + i * LANES;
            p[2 * i] = EVENS(get(above), get(above + WIDTH));
            p[2 * i + 1] = ODDS(get(above), get(above + WIDTH));
        }
        sum_down(u, b, rows, x, load);
        for (int r = 0; r < rows; r += together) {
            vd s[TOGETHER][PAIRS];
            #pragma GCC unroll 8
            for (int k = 0; k < together; k++)
                #pragma GCC unroll 16
                for (int i = 0; i < PAIRS; i++)
                    s[k][i] = u[r + k].pair[i];
            sum_along(s, together);
            #pragma GCC unroll 8
            for (int k = 0; k < together; k++) {
                const vd left = first ? (vd){0} : g[r + k];
                put_half(b, r + k, x, &u[r + k], s[k], left, p, h[r + k], past, planes);
                g[r + k] = left + LAST(s[k][PAIRS - 1]);
                if (!first)
                    h[r + k] += g[r + k];
            }
        }
    }
    for (int r = 0; r < rows; r++)
        ((double *)b->left)[r] = h[r][0];
}

static void make_any(const struct vp_sat_rows *b, load_row *load)
{
    if (b->rows == VP_SAT_ROWS && b->past && !b->plane[0])
        make_f64(b, VP_SAT_ROWS, true, false, load);
    else
        make_f64(b, b->rows, false, b->plane[0], load);
}

#define FLOATS(SUFFIX)                                                                                                 \
    static void f64##SUFFIX(const struct vp_sat_rows *b)                                                               \
    {                                                                                                                  \
        make_any(b, load##SUFFIX);                                                                                     \
    }
FLOATS(_u8)
FLOATS(_u16)
FLOATS(_u32)
FLOATS(_u64)
FLOATS(_i8)
FLOATS(_i16)
FLOATS(_i32)
FLOATS(_i64)
FLOATS(_f64)

static void f64_f32(const struct vp_sat_rows *b)
{
    if (b->rows < VP_SAT_ROWS || b->square)
        make_any(b, load_f32);
    else if (b->past && !b->plane[0])
        make_f64(b, VP_SAT_ROWS, true, false, NULL);
    else if (b->past)
        make_f64(b, VP_SAT_ROWS, true, true, NULL);
    else
        make_f64(b, VP_SAT_ROWS, false, b->plane[0], NULL);
}

const struct vp_sat_isa PASTE(vp_sat_, VP_ISA) = {
    .name = TEXT(VP_ISA),
    .line = sizeof(vf),
    .u32 = {[VP_U8] = u32_u8, [VP_U16] = u32_u16, [VP_U32] = u32_u32, [VP_I8] = u32_i8, [VP_I16] = u32_i16,
            [VP_I32] = u32_i32},
    .u64 = {[VP_U8] = u64_u8, [VP_U16] = u64_u16, [VP_U32] = u64_u32, [VP_U64] = u64_u64, [VP_I8] = u64_i8,
            [VP_I16] = u64_i16, [VP_I32] = u64_i32, [VP_I64] = u64_i64},
    .f64 = {f64_u8, f64_u16, f64_u32, f64_u64, f64_i8, f64_i16, f64_i32, f64_i64, f64_f32, f64_f64},
};
