/* SPDX-License-Identifier: BSD-3-Clause */
/* Rows of summed area tables. Integers wrap, so any order of additions gives their bits: eight rows at a time, each
 * summed up within a vector. Sums in f64 are taken in the order of sat.h: vectors hold every fourth column of a row, so
 * that its quads are sums of four of them. */
#include "global/sat_isa.h"

#include "base/isa.h"

#include <string.h>
#ifdef __AVX2__
#include <immintrin.h>
#endif

/* Bytes of a load before widening: a whole vector, a half, a quarter, an eighth. */
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

/* Source of lane i of a vector of n shifted by d; n: a zero. */
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
#define PLACES(d) OF32(PLACES)(d, N)
#define LASTS OF32(LASTS)(N - 1)
#define NAME u32
#include "global/sat_integers.inc"
INTEGERS(uint8_t, _u8, QUARTER, WIDER(epu8_epi32))
INTEGERS(uint16_t, _u16, HALF, WIDER(epu16_epi32))
INTEGERS(uint32_t, _u32, WHOLE, SAME)
INTEGERS(int8_t, _i8, QUARTER, WIDER(epi8_epi32))
INTEGERS(int16_t, _i16, HALF, WIDER(epi16_epi32))
INTEGERS(int32_t, _i32, WHOLE, SAME)
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
#define PLACES(d) OF64(PLACES)(d, N)
#define LASTS OF64(LASTS)(N - 1)
#define NAME u64
#include "global/sat_integers.inc"
INTEGERS(uint8_t, _u8, EIGHTH, WIDER(epu8_epi64))
INTEGERS(uint16_t, _u16, QUARTER, WIDER(epu16_epi64))
INTEGERS(uint32_t, _u32, HALF, WIDER(epu32_epi64))
INTEGERS(uint64_t, _u64, WHOLE, SAME)
INTEGERS(int8_t, _i8, EIGHTH, WIDER(epi8_epi64))
INTEGERS(int16_t, _i16, QUARTER, WIDER(epi16_epi64))
INTEGERS(int32_t, _i32, HALF, WIDER(epi32_epi64))
INTEGERS(int64_t, _i64, WHOLE, SAME)
#undef A
#undef V
#undef N
#undef NAME
#undef INTEGERS

/* ---- sums in f64 ---- */

typedef double vd __attribute__((vector_size(4 * LANES)));
enum {
    WIDTH = LANES / 2,                  /* samples of a vector */
    QUADS = VP_SAT_WIDE / (4 * WIDTH),  /* vectors of a column of four, of a tile */
    TOGETHER = LANES / 4                /* rows summed along x together: a single one is limited by latency */
};

/* Interleaves two vectors: the even lanes, the odd ones; shifts quads by d. Quads are in the order of `part`: of eight
 * 0 2 1 3 4 6 5 7. */
#if LANES == 16
#define EVENS(a, b) __builtin_shufflevector(a, b, 0, 8, 2, 10, 4, 12, 6, 14)
#define ODDS(a, b) __builtin_shufflevector(a, b, 1, 9, 3, 11, 5, 13, 7, 15)
#define BEFORE1(a, b) __builtin_shufflevector(a, b, 7, 10, 8, 9, 11, 14, 12, 13)
#define BEFORE2(a, b) __builtin_shufflevector(a, b, 5, 8, 7, 10, 9, 12, 11, 14)
#define BEFORE4(a, b) __builtin_shufflevector(a, b, 4, 5, 6, 7, 8, 9, 10, 11)
#elif LANES == 8
#define EVENS(a, b) __builtin_shufflevector(a, b, 0, 4, 2, 6)
#define ODDS(a, b) __builtin_shufflevector(a, b, 1, 5, 3, 7)
#define BEFORE1(a, b) __builtin_shufflevector(a, b, 3, 4, 5, 6)
#define BEFORE2(a, b) __builtin_shufflevector(a, b, 2, 3, 4, 5)
#else
#define EVENS(a, b) __builtin_shufflevector(a, b, 0, 2)
#define ODDS(a, b) __builtin_shufflevector(a, b, 1, 3)
#define BEFORE1(a, b) __builtin_shufflevector(a, b, 1, 2)
#endif

/* Transposes four vectors of columns to the first columns of all quads, the second ones ... */
INLINE void part(vd v[4])
{
    const vd a = v[0], b = v[1], c = v[2], d = v[3];
#if LANES == 16
    const vd ab0 = EVENS(a, b), ab1 = ODDS(a, b), cd0 = EVENS(c, d), cd1 = ODDS(c, d);
    v[0] = __builtin_shufflevector(ab0, cd0, 0, 1, 4, 5, 8, 9, 12, 13);
    v[1] = __builtin_shufflevector(ab1, cd1, 0, 1, 4, 5, 8, 9, 12, 13);
    v[2] = __builtin_shufflevector(ab0, cd0, 2, 3, 6, 7, 10, 11, 14, 15);
    v[3] = __builtin_shufflevector(ab1, cd1, 2, 3, 6, 7, 10, 11, 14, 15);
#elif LANES == 8
    const vd ab0 = EVENS(a, b), ab1 = ODDS(a, b), cd0 = EVENS(c, d), cd1 = ODDS(c, d);
    v[0] = __builtin_shufflevector(ab0, cd0, 0, 1, 4, 5);
    v[1] = __builtin_shufflevector(ab1, cd1, 0, 1, 4, 5);
    v[2] = __builtin_shufflevector(ab0, cd0, 2, 3, 6, 7);
    v[3] = __builtin_shufflevector(ab1, cd1, 2, 3, 6, 7);
#else
    v[0] = EVENS(a, c);
    v[1] = ODDS(a, c);
    v[2] = EVENS(b, d);
    v[3] = ODDS(b, d);
#endif
}

/* ... and back. */
INLINE void unite(vd v[4])
{
    const vd even01 = EVENS(v[0], v[1]), odd01 = ODDS(v[0], v[1]), even23 = EVENS(v[2], v[3]), odd23 = ODDS(v[2], v[3]);
#if LANES == 16
    v[0] = __builtin_shufflevector(even01, even23, 0, 1, 8, 9, 2, 3, 10, 11);
    v[1] = __builtin_shufflevector(odd01, odd23, 0, 1, 8, 9, 2, 3, 10, 11);
    v[2] = __builtin_shufflevector(even01, even23, 4, 5, 12, 13, 6, 7, 14, 15);
    v[3] = __builtin_shufflevector(odd01, odd23, 4, 5, 12, 13, 6, 7, 14, 15);
#elif LANES == 8
    v[0] = __builtin_shufflevector(even01, even23, 0, 1, 4, 5);
    v[1] = __builtin_shufflevector(odd01, odd23, 0, 1, 4, 5);
    v[2] = __builtin_shufflevector(even01, even23, 2, 3, 6, 7);
    v[3] = __builtin_shufflevector(odd01, odd23, 2, 3, 6, 7);
#else
    v[0] = even01;
    v[1] = even23;
    v[2] = odd01;
    v[3] = odd23;
#endif
}

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
    typedef float narrow __attribute__((vector_size(2 * LANES)));
    narrow v;
    memcpy(&v, from, sizeof v);
    return __builtin_convertvector(v, vd);
#endif
}

/* Row of a tile: for each quad the sums of one, two, three and four columns, of the sums along y. */
typedef vd quads[QUADS][4];

/* Sums the lanes of each of `rows` rows into to[r]: halves, then quarters and so on. */
INLINE void sum_lanes(double to[VP_SAT_ROWS], const vd rows[VP_SAT_ROWS])
{
#if LANES == 16
#define HALVES(a, b)                                                                                                   \
    (__builtin_shufflevector(a, b, 0, 1, 2, 3, 8, 9, 10, 11)                                                           \
     + __builtin_shufflevector(a, b, 4, 5, 6, 7, 12, 13, 14, 15))
    const vd ab = HALVES(rows[0], rows[2]), cd = HALVES(rows[1], rows[3]), ef = HALVES(rows[4], rows[6]),
             gh = HALVES(rows[5], rows[7]), v = EVENS(ab, cd) + ODDS(ab, cd), w = EVENS(ef, gh) + ODDS(ef, gh);
    set(to, __builtin_shufflevector(v, w, 0, 1, 4, 5, 8, 9, 12, 13)
                + __builtin_shufflevector(v, w, 2, 3, 6, 7, 10, 11, 14, 15));
#elif LANES == 8
#define HALVES(a, b) (__builtin_shufflevector(a, b, 0, 1, 4, 5) + __builtin_shufflevector(a, b, 2, 3, 6, 7))
    for (int r = 0; r < VP_SAT_ROWS; r += WIDTH) {
        const vd ab = HALVES(rows[r], rows[r + 2]), cd = HALVES(rows[r + 1], rows[r + 3]);
        set(to + r, EVENS(ab, cd) + ODDS(ab, cd));
    }
#else
    for (int r = 0; r < VP_SAT_ROWS; r += WIDTH)
        set(to + r, EVENS(rows[r], rows[r + 1]) + ODDS(rows[r], rows[r + 1]));
#endif
}

/* Makes these of all rows, and the sums of the rows (b of sat.h). Rows below continue from b->group. load NULL: f32. */
INLINE void sum_down(quads t[VP_SAT_ROWS], double sums[VP_SAT_ROWS], const struct vp_sat_rows *b, int rows, int64_t x,
                     load_row *load)
{
    _Alignas(64) double all[VP_SAT_ROWS][VP_SAT_WIDE];
    double *const group = b->group + x / VP_SAT_WIDE * VP_SAT_GROUP, *const above = group + VP_SAT_WIDE;
    const bool ends = b->ends_tile && rows == VP_SAT_ROWS;
    vd last[VP_SAT_ROWS][QUADS], row[VP_SAT_ROWS] = {{0}};
    for (int r = 0; r < rows && load; r++)
        load(all[r], b->src[r], x, b->square);
    for (int i = 0; i < QUADS; i++) {
        vd w[4] = {{0}}, u[4];
        #pragma GCC unroll 4
        for (int k = 0; k < 4; k++)
            u[k] = get(group + (i * 4 + k) * WIDTH);
        for (int r = 0; r < rows; r++) {
            vd v[4], sum = {0};
            #pragma GCC unroll 4
            for (int k = 0; k < 4; k++)
                v[k] = load ? get(all[r] + (i * 4 + k) * WIDTH)
                            : widen_f32((const float *)b->src[r] + x + (i * 4 + k) * WIDTH);
            part(v);
            #pragma GCC unroll 4
            for (int k = 0; k < 4; k++) {
                sum = k ? sum + v[k] : v[k];
                w[k] = r ? w[k] + sum : sum;
                u[k] = u[k] + sum;
                t[r][i][k] = u[k];
            }
            last[r][i] = w[3];
        }
        #pragma GCC unroll 4
        for (int k = 0; k < 4; k++) {
            const vd o = get(group + (i * 4 + k) * WIDTH) + w[k];
            if (ends)
                t[VP_SAT_ROWS - 1][i][k] = o;
            set(group + (i * 4 + k) * WIDTH, b->ends_tile ? (vd){0} : o);
        }
    }
    for (int r = 0; r < rows; r++) {
        #pragma GCC unroll 4
        for (int d = QUADS / 2; d; d /= 2)
            #pragma GCC unroll 8
            for (int i = 0; i < d; i++)
                last[r][i] += last[r][i + d];
        row[r] = last[r][0];
    }
    sum_lanes(sums, row);
    for (int r = 0; r < VP_SAT_ROWS; r++)
        sums[r] = above[0] + sums[r];
    above[0] = b->ends_tile ? 0 : sums[VP_SAT_ROWS - 1];
}

/* Makes the 32 exclusive prefix sums of quads, for n rows. */
INLINE void sum_along(vd to[][1 + QUADS], const quads *t, int n)
{
    const vd zero = {0};
    vd s[TOGETHER][QUADS];
    #pragma GCC unroll 8
    for (int r = 0; r < n; r++)
        #pragma GCC unroll 16
        for (int i = 0; i < QUADS; i++)
            s[r][i] = t[r][i][3];
#define ALL_BY(d)                                                                                                      \
    _Pragma("GCC unroll 16")                                                                                           \
    for (int i = QUADS - 1; i >= 0; i--)                                                                               \
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
    for (int d = 1; d < QUADS; d *= 2)
        #pragma GCC unroll 16
        for (int i = QUADS - 1; i >= d; i--)
            #pragma GCC unroll 8
            for (int r = 0; r < n; r++)
                s[r][i] += s[r][i - d];
    #pragma GCC unroll 8
    for (int r = 0; r < n; r++) {
        to[r][0] = zero;
        #pragma GCC unroll 16
        for (int i = 0; i < QUADS; i++)
            to[r][1 + i] = s[r][i];
    }
}

/* Makes four vectors of the result from column x of row r on. */
INLINE void put(const struct vp_sat_rows *b, int r, int64_t x, vd v[4], bool past, bool planes)
{
    if (b->ends_tile && r == VP_SAT_ROWS - 1)
        for (int k = 0; k < 4; k++)
            set((double *)b->above + x + k * WIDTH, v[k]);
    if (planes) {
        double *const plane = (double *)b->plane[r] + x;
        #pragma GCC unroll 4
        for (int k = 0; k < 4; k++) {
            v[k] = get(plane + k * WIDTH) + v[k];
            set(plane + k * WIDTH, v[k]);
        }
    }
    if (b->f32) {
        typedef float narrow __attribute__((vector_size(2 * LANES)));
        float *const to = (float *)b->dst[r] + x;
        for (int k = 0; k < 4; k++) {
            const narrow n = __builtin_convertvector(v[k], narrow);
            memcpy(to + k * WIDTH, &n, sizeof n);
        }
        return;
    }
    double *const to = (double *)b->dst[r] + x;
    #pragma GCC unroll 4
    for (int k = 0; k < 4; k++) {
        if (past)
            put_past((float *)(to + k * WIDTH), (vf)v[k]);
        else
            set(to + k * WIDTH, v[k]);
    }
}

/* `rows`, `past` and `planes` are constants; load NULL: f32. */
INLINE void make_f64(const struct vp_sat_rows *b, int rows, bool past, bool planes, load_row *load)
{
    const int together = rows == VP_SAT_ROWS ? TOGETHER : 1;
    double *const left = b->left;
    for (int64_t x0 = 0; x0 < b->columns; x0 += VP_SAT_WIDE) {
        quads t[VP_SAT_ROWS];
        vd s[VP_SAT_ROWS][1 + QUADS];
        double sums[VP_SAT_ROWS];
        sum_down(t, sums, b, rows, x0, load);
        for (int r = 0; r < rows; r += together)
            sum_along(s + r, t + r, together);
        for (int i = 0; i < QUADS; i++) { /* few columns of all rows, then the next */
            const int64_t x = x0 + i * 4 * WIDTH;
            vd p[4];
            #pragma GCC unroll 4
            for (int k = 0; k < 4; k++)
                p[k] = get((double *)b->above + x + k * WIDTH);
            part(p);
            for (int r = 0; r < rows; r++) {
                const vd e = BEFORE1(s[r][i], s[r][i + 1]), h = left[r] - (vd){0};
                vd out[4];
                #pragma GCC unroll 4
                for (int k = 0; k < 4; k++)
                    out[k] = p[k] + ((t[r][i][k] + e) + h);
                unite(out);
                put(b, r, x, out, past, planes);
            }
        }
        for (int r = 0; r < VP_SAT_ROWS; r++)
            left[r] += sums[r];
    }
}

static void make_any(const struct vp_sat_rows *b, load_row *load)
{
    if (b->rows == VP_SAT_ROWS && b->past && !b->plane[0])
        make_f64(b, VP_SAT_ROWS, true, false, load);
    else
        make_f64(b, b->rows, false, b->plane[0], load);
}

/* Converts a tile of a row to f64, or to squares. These are stored before they are added, so that no compiler fuses the
 * two. */
#define LOAD(IN, SUFFIX)                                                                                               \
    __attribute__((noinline)) static void load##SUFFIX(double *to, const void *from, int64_t x, bool square)           \
    {                                                                                                                  \
        const IN *const a = (const IN *)from + x;                                                                      \
        if (square)                                                                                                    \
            for (int i = 0; i < VP_SAT_WIDE; i++)                                                                      \
                to[i] = (double)a[i] * (double)a[i];                                                                   \
        else                                                                                                           \
            for (int i = 0; i < VP_SAT_WIDE; i++)                                                                      \
                to[i] = (double)a[i];                                                                                  \
    }

#define FLOATS(IN, SUFFIX)                                                                                             \
    LOAD(IN, SUFFIX)                                                                                                   \
                                                                                                                       \
    static void f64##SUFFIX(const struct vp_sat_rows *b)                                                               \
    {                                                                                                                  \
        make_any(b, load##SUFFIX);                                                                                     \
    }
FLOATS(uint8_t, _u8)
FLOATS(uint16_t, _u16)
FLOATS(uint32_t, _u32)
FLOATS(uint64_t, _u64)
FLOATS(int8_t, _i8)
FLOATS(int16_t, _i16)
FLOATS(int32_t, _i32)
FLOATS(int64_t, _i64)
FLOATS(double, _f64)
LOAD(float, _f32)

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
