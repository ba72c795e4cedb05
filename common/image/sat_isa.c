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
enum { WIDTH = LANES / 2, PAIRS = VP_SAT_HALF / LANES }; /* samples of a vector; vectors of the pairs of half a tile */

/* What is d lanes before b in a and b; of two vectors the even lanes, the odd ones, and these side by side again; the last
 * lane everywhere. */
#if LANES == 16
#define BEFORE(a, b, d)                                                                                                \
    __builtin_shufflevector(a, b, 8 - (d), 9 - (d), 10 - (d), 11 - (d), 12 - (d), 13 - (d), 14 - (d), 15 - (d))
#define EVENS(a, b) __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14)
#define ODDS(a, b) __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15)
#define FIRSTS(a, b) __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#define SECONDS(a, b) __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15)
#define LAST(a) __builtin_shufflevector(a, a, 7, 7, 7, 7, 7, 7, 7, 7)
#elif LANES == 8
#define BEFORE(a, b, d) __builtin_shufflevector(a, b, 4 - (d), 5 - (d), 6 - (d), 7 - (d))
#define EVENS(a, b) __builtin_shufflevector(a, b, 0, 2, 4, 6)
#define ODDS(a, b) __builtin_shufflevector(a, b, 1, 3, 5, 7)
#define FIRSTS(a, b) __builtin_shufflevector(a, b, 0, 4, 1, 5)
#define SECONDS(a, b) __builtin_shufflevector(a, b, 2, 6, 3, 7)
#define LAST(a) __builtin_shufflevector(a, a, 3, 3, 3, 3)
#else
#define BEFORE(a, b, d) __builtin_shufflevector(a, b, 2 - (d), 3 - (d))
#define EVENS(a, b) __builtin_shufflevector(a, b, 0, 2)
#define ODDS(a, b) __builtin_shufflevector(a, b, 1, 3)
#define FIRSTS(a, b) EVENS(a, b)
#define SECONDS(a, b) ODDS(a, b)
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

/* The columns of half a tile: `even` ones and `odd` ones. */
struct columns { vd even[PAIRS], odd[PAIRS]; };

INLINE void split(struct columns *to, const double *from)
{
    for (int i = 0; i < PAIRS; i++) {
        vd a, b;
        memcpy(&a, from + 2 * i * WIDTH, sizeof a);
        memcpy(&b, from + (2 * i + 1) * WIDTH, sizeof b);
        to->even[i] = EVENS(a, b);
        to->odd[i] = ODDS(a, b);
    }
}

/* load: NULL: f32 */
INLINE void load_half(struct columns *to, const struct vp_sat_rows *b, int r, int64_t x, load_row *load)
{
    typedef float narrow __attribute__((vector_size(2 * LANES)));
    if (load) {
        _Alignas(64) double row[VP_SAT_HALF];
        load(row, b->src[r], x, b->square);
        split(to, row);
        return;
    }
    for (int i = 0; i < PAIRS; i++) {
        narrow n[2];
        memcpy(n, (const float *)b->src[r] + x + i * LANES, sizeof n);
        const vd one = __builtin_convertvector(n[0], vd), two = __builtin_convertvector(n[1], vd);
        to->even[i] = EVENS(one, two);
        to->odd[i] = ODDS(one, two);
    }
}

/* Sums along x within half a tile, `left` being the sum of the half before; that of this one in all lanes. */
INLINE vd sum_along(struct columns *u, vd left)
{
    const vd zero = {0};
    vd pair[PAIRS], s[PAIRS];
    for (int i = 0; i < PAIRS; i++)
        s[i] = pair[i] = u->even[i] + u->odd[i];
    for (int i = PAIRS - 1; i >= 0; i--)
        s[i] += BEFORE(i ? s[i - 1] : zero, s[i], 1);
#if LANES > 4
    for (int i = PAIRS - 1; i >= 0; i--)
        s[i] += BEFORE(i ? s[i - 1] : zero, s[i], 2);
#endif
#if LANES > 8
    for (int i = PAIRS - 1; i >= 0; i--)
        s[i] += BEFORE(i ? s[i - 1] : zero, s[i], 4);
#endif
    for (int d = 1; d < PAIRS; d *= 2)
        for (int i = PAIRS - 1; i >= d; i--)
            s[i] += s[i - d];
    for (int i = 0; i < PAIRS; i++) {
        const vd e = BEFORE(i ? s[i - 1] : zero, s[i], 1) + left;
        u->even[i] += e;
        u->odd[i] = pair[i] + e;
    }
    return LAST(s[PAIRS - 1]);
}

INLINE void put(const struct vp_sat_rows *b, int r, int64_t x, vd v, bool past)
{
    typedef float narrow __attribute__((vector_size(2 * LANES)));
    if (b->f32) {
        const narrow n = __builtin_convertvector(v, narrow);
        memcpy((float *)b->dst[r] + x, &n, sizeof n);
    } else if (past) {
        put_past((float *)((double *)b->dst[r] + x), (vf)v);
    } else {
        memcpy((double *)b->dst[r] + x, &v, sizeof v);
    }
}

/* Row r from the sums u along y, and the sum h of what is left of the tile; p is the row above the tile. */
INLINE void put_half(const struct vp_sat_rows *b, int r, int64_t x, const struct columns *u, const struct columns *p, vd h,
                     bool past, bool planes)
{
    const bool keep = b->ends_tile && r == VP_SAT_ROWS - 1;
    for (int i = 0; i < PAIRS; i++) {
        const vd even = p->even[i] + (u->even[i] + h), odd = p->odd[i] + (u->odd[i] + h);
        vd out[2] = {FIRSTS(even, odd), SECONDS(even, odd)};
        if (keep)
            memcpy((double *)b->above + x + i * LANES, out, sizeof out);
        if (planes) {
            vd plane[2];
            double *const at = (double *)b->plane[r] + x + i * LANES;
            memcpy(plane, at, sizeof plane);
            out[0] = plane[0] + out[0];
            out[1] = plane[1] + out[1];
            memcpy(at, out, sizeof out);
        }
        put(b, r, x + i * LANES, out[0], past);
        put(b, r, x + i * LANES + WIDTH, out[1], past);
    }
}

/* `rows`, `past` and `planes` are constants; load: NULL: f32. */
INLINE void make_f64(const struct vp_sat_rows *b, int rows, bool past, bool planes, load_row *load)
{
    vd h[VP_SAT_ROWS], g[VP_SAT_ROWS];
    for (int r = 0; r < rows; r++)
        h[r] = (vd){0} + ((double *)b->left)[r];
    for (int64_t x = 0; x < b->columns; x += VP_SAT_HALF) {
        const bool first = x % VP_SAT_WIDE == 0;
        struct columns p, w, o, *const group = (struct columns *)(void *)(b->group + x);
        split(&p, (double *)b->above + x);
        memcpy(&o, group, sizeof o);
        for (int r = 0; r < rows; r++) {
            struct columns u;
            load_half(&u, b, r, x, load);
            for (int i = 0; i < PAIRS; i++) {
                w.even[i] = r ? w.even[i] + u.even[i] : u.even[i];
                w.odd[i] = r ? w.odd[i] + u.odd[i] : u.odd[i];
                u.even[i] = o.even[i] + w.even[i];
                u.odd[i] = o.odd[i] + w.odd[i];
            }
            const vd left = first ? (vd){0} : g[r];
            g[r] = left + sum_along(&u, left);
            put_half(b, r, x, &u, &p, h[r], past, planes);
            if (!first)
                h[r] += g[r];
        }
        for (int i = 0; i < PAIRS; i++) {
            o.even[i] = b->ends_tile ? (vd){0} : o.even[i] + w.even[i];
            o.odd[i] = b->ends_tile ? (vd){0} : o.odd[i] + w.odd[i];
        }
        memcpy(group, &o, sizeof o);
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
