/* SPDX-License-Identifier: BSD-3-Clause */
/* Rows of summed area tables. Integers wrap, so any order of additions gives their bits: eight rows at a time, each
 * summed up within a vector. Sums in f64 are taken in the order of sat.h: a vector holds one column of eight rows, so
 * that what goes along x there is one addition for all of them. */
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

typedef double vd __attribute__((vector_size(64)));

/* to[i][r] = from[r][i] */
INLINE void transpose(vd to[8], const vd from[8])
{
#if defined(__AVX512F__) && !defined(__clang__)
    typedef int64_t vx __attribute__((vector_size(64)));
    vd a[8], b[8];
    for (int i = 0; i < 8; i += 2) {
        a[i] = __builtin_shuffle(from[i], from[i + 1], (vx){0, 8, 2, 10, 4, 12, 6, 14});
        a[i + 1] = __builtin_shuffle(from[i], from[i + 1], (vx){1, 9, 3, 11, 5, 13, 7, 15});
    }
    for (int i = 0; i < 8; i += 4)
        for (int k = 0; k < 2; k++) { /* columns k, k + 4 and k + 2, k + 6 of rows i ... i + 3 */
            b[i + k] = __builtin_shuffle(a[i + k], a[i + k + 2], (vx){0, 1, 8, 9, 4, 5, 12, 13});
            b[i + k + 2] = __builtin_shuffle(a[i + k], a[i + k + 2], (vx){2, 3, 10, 11, 6, 7, 14, 15});
        }
    for (int k = 0; k < 4; k++) {
        to[k] = __builtin_shuffle(b[k], b[k + 4], (vx){0, 1, 2, 3, 8, 9, 10, 11});
        to[k + 4] = __builtin_shuffle(b[k], b[k + 4], (vx){4, 5, 6, 7, 12, 13, 14, 15});
    }
#elif defined(__AVX__) && !defined(__clang__)
    typedef double v4 __attribute__((vector_size(32)));
    typedef int64_t x4 __attribute__((vector_size(32)));
    const double *const f = (const double *)from;
    double *const t = (double *)to;
    for (int i = 0; i < 8; i += 4)
        for (int k = 0; k < 8; k += 4) { /* rows i ..., columns k ... */
            v4 r[4], a[4];
            for (int j = 0; j < 4; j++)
                memcpy(&r[j], f + (i + j) * 8 + k, sizeof r[j]);
            for (int j = 0; j < 4; j += 2) {
                a[j] = __builtin_shuffle(r[j], r[j + 1], (x4){0, 4, 2, 6});
                a[j + 1] = __builtin_shuffle(r[j], r[j + 1], (x4){1, 5, 3, 7});
            }
            for (int j = 0; j < 2; j++) {
                r[j] = __builtin_shuffle(a[j], a[j + 2], (x4){0, 1, 4, 5});
                r[j + 2] = __builtin_shuffle(a[j], a[j + 2], (x4){2, 3, 6, 7});
            }
            for (int j = 0; j < 4; j++)
                memcpy(t + (k + j) * 8 + i, &r[j], sizeof r[j]);
        }
#else
    for (int i = 0; i < 8; i++)
        for (int r = 0; r < 8; r++)
            to[i][r] = from[r][i];
#endif
}

/* A group of columns of a row in f64, or the squares. These are stored before anybody adds them: no compiler can round a
 * square and a sum at once. */
#define LOAD(IN, SUFFIX)                                                                                               \
    __attribute__((noinline)) static void load##SUFFIX(double *to, const void *from, int64_t x, bool square)           \
    {                                                                                                                  \
        const IN *const a = (const IN *)from + x;                                                                      \
        if (square)                                                                                                    \
            for (int i = 0; i < VP_SAT_GROUP; i++)                                                                     \
                to[i] = (double)a[i] * (double)a[i];                                                                   \
        else                                                                                                           \
            for (int i = 0; i < VP_SAT_GROUP; i++)                                                                     \
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

INLINE void put(const struct vp_sat_rows *b, int r, int64_t x, const vd *v, bool past)
{
    if (b->f32) {
        typedef float v8 __attribute__((vector_size(32)));
        const v8 narrow = __builtin_convertvector(*v, v8);
        memcpy((float *)b->dst[r] + x, &narrow, sizeof narrow);
    } else if (past) {
        double *to = (double *)b->dst[r] + x;
        vf piece[64 / sizeof(vf)];
        memcpy(piece, v, sizeof *v);
        for (size_t i = 0; i < 64 / sizeof(vf); i++)
            put_past((float *)to + i * LANES, piece[i]);
    } else {
        memcpy((double *)b->dst[r] + x, v, sizeof *v);
    }
}

/* The eight rows of a group of columns, in columns: sums along x within the tile; `before` is the sum of the groups
 * before in it. */
INLINE void sum_along(vd t[VP_SAT_GROUP], vd *before)
{
    enum { PAIRS = VP_SAT_GROUP / 2 };
    vd s[PAIRS];
    for (int i = 0; i < PAIRS; i++)
        s[i] = t[2 * i] + t[2 * i + 1];
    for (int d = 1; d < PAIRS; d *= 2)
        for (int i = PAIRS - 1; i >= d; i--)
            s[i] += s[i - d];
    for (int i = PAIRS - 1; i >= 0; i--) {
        const vd left = (i ? s[i - 1] : (vd){0}) + *before, pair = t[2 * i] + t[2 * i + 1];
        t[2 * i] += left;
        t[2 * i + 1] = pair + left;
    }
    *before += s[PAIRS - 1];
}

typedef void load_row(double *to, const void *from, int64_t x, bool square);

/* One row of t[] from every eight columns of eight rows. */
INLINE void load_group(vd t[VP_SAT_GROUP], const struct vp_sat_rows *b, int rows, int64_t x, load_row *load)
{
    vd all[VP_SAT_ROWS][VP_SAT_GROUP / 8];
    for (int r = 0; r < rows && load; r++)
        load((double *)all[r], b->src[r], x, b->square);
    for (int64_t i = 0; i < VP_SAT_GROUP; i += 8) {
        vd row[8] = {{0}};
        for (int r = 0; r < rows; r++) {
            typedef float v8 __attribute__((vector_size(32)));
            v8 from;
            if (load) {
                row[r] = all[r][i / 8];
                continue;
            }
            memcpy(&from, (const float *)b->src[r] + x + i, sizeof from);
            row[r] = __builtin_convertvector(from, vd);
        }
        transpose(t + i, row);
    }
}

/* `rows`, `past` and `planes` are constants; load: NULL: f32. */
INLINE void make_f64(const struct vp_sat_rows *b, int rows, bool past, bool planes, load_row *load)
{
    double *const above = b->above, *const left = b->left;
    vd lr;
    memcpy(&lr, left, sizeof lr);
    for (int64_t x0 = 0; x0 < b->columns; x0 += VP_SAT_WIDE) {
        const int64_t x1 = x0 + VP_SAT_WIDE < b->columns ? x0 + VP_SAT_WIDE : b->columns;
        double *const corner = b->corner + x0 / VP_SAT_WIDE, *const beside = b->beside + x0 / VP_SAT_WIDE;
        vd h = lr, in_tile = (vd){0};
        for (int d = 1; d < VP_SAT_FEW; d *= 2)
            for (int r = VP_SAT_FEW - 1; r >= d; r--) {
                h[r] += h[r - d];
                h[VP_SAT_FEW + r] += h[VP_SAT_FEW + r - d];
            }
        const double half = *beside + h[VP_SAT_FEW - 1];
        vd c;
        for (int r = 0; r < VP_SAT_ROWS; r++)
            c[r] = (r < VP_SAT_FEW ? *beside : half) + h[r];
        for (int64_t g = x0; g < x1; g += VP_SAT_GROUP) {
            vd t[VP_SAT_GROUP];
            load_group(t, b, rows, g, load);
            sum_along(t, &in_tile);
            for (int64_t i = 0; i < VP_SAT_GROUP; i += 8) {
                const int64_t x = g + i;
                vd row[8], v = {0}, out = {0}, p, a, o;
                transpose(row, t + i);
                memcpy(&p, above + x, sizeof p);
                memcpy(&a, b->tile + x, sizeof a);
                memcpy(&o, b->group + x, sizeof o);
                const vd above_tile = *corner + a;
                vd off = o + above_tile;
                for (int r = 0; r < rows; r++) {
                    if (r == VP_SAT_FEW) {
                        o += v;
                        off = o + above_tile;
                    }
                    v = r % VP_SAT_FEW ? v + row[r] : row[r];
                    out = p + (v + (c[r] + off));
                    vd to = out;
                    if (planes) {
                        double *const plane = (double *)b->plane[r] + x;
                        memcpy(&to, plane, sizeof to);
                        to += out;
                        memcpy(plane, &to, sizeof to);
                    }
                    put(b, r, x, &to, past);
                }
                o += v;
                if (b->ends_tile) {
                    a = b->ends_segment ? (vd){0} : a + o;
                    memcpy(b->tile + x, &a, sizeof a);
                    o = (vd){0};
                }
                memcpy(b->group + x, &o, sizeof o);
                if (b->ends_segment)
                    memcpy(above + x, &out, sizeof out);
            }
        }
        *beside = half + h[VP_SAT_ROWS - 1];
        if (b->ends_tile) {
            *corner = b->ends_segment ? 0 : *corner + *beside;
            *beside = 0;
        }
        lr += in_tile;
    }
    memcpy(left, &lr, sizeof lr);
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
#ifdef __AVX512F__
    const bool direct = true;
#else
    const bool direct = false; /* the compiler would convert one by one */
#endif
    if (b->rows < VP_SAT_ROWS || b->square || !direct)
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
