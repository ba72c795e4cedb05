/* SPDX-License-Identifier: BSD-3-Clause */
#include "local/rotate_isa.h"

#include "base/isa.h"

/* Four voxels at a time, whatever the instruction set: their samples come from anywhere. */
typedef double v4 __attribute__((vector_size(32)));
typedef double v4_u __attribute__((vector_size(32), aligned(8), may_alias));
typedef double v2 __attribute__((vector_size(16)));
typedef double v2_u __attribute__((vector_size(16), aligned(8), may_alias));
typedef float f4 __attribute__((vector_size(16)));
typedef float f4_u __attribute__((vector_size(16), aligned(4), may_alias));
typedef double two_floats __attribute__((aligned(4), may_alias));

#define EACH(T)                                                                                                        \
    do {                                                                                                               \
        const T *const s = row;                                                                                        \
        for (int64_t i = 0; i < n; i++)                                                                                \
            to[i] = (float)s[i];                                                                                       \
    } while (0)

static void widen(float *restrict to, const void *restrict row, enum vp_type type, int64_t n)
{
    switch (type) {
    case VP_U8: EACH(uint8_t); break;
    case VP_I8: EACH(int8_t); break;
    case VP_U16: EACH(uint16_t); break;
    case VP_I16: EACH(int16_t); break;
    default: EACH(float); break;
    }
}

/* Sums only, so that no product is fused here and rounded elsewhere. */
static void place(struct vp_rotate_taps *restrict to, const struct vp_rotate_axis axis[2], int64_t stride, int64_t n)
{
    double *restrict t, *restrict f;
    for (int a = 0; a < 2; a++) {
        const double *restrict const step = axis[a].step;
        const double at = axis[a].at, most = (double)axis[a].n - 0.5;
        t = to->t[a];
        f = to->f[a];
        for (int64_t i = 0; i < n; i++) {
            double p = step[i] + at;
            p = p > -0.5 ? p : -0.5;
            p = p < most ? p : most;
            double whole = (double)(int32_t)p;
            whole = whole > p ? whole - 1 : whole;
            f[i] = whole;
            t[i] = p - whole;
        }
    }
    const double lo = (double)axis[0].lo, row = (double)axis[1].lo;
    for (int64_t i = 0; i < n; i++)
        to->at[i] = (int32_t)(to->f[1][i] - row) * (int32_t)stride + (int32_t)(to->f[0][i] - lo);
    for (int64_t i = n; i % 4; i++) {
        to->at[i] = to->at[n - 1];
        for (int a = 0; a < 2; a++) {
            to->t[a][i] = to->t[a][n - 1];
            to->f[a][i] = to->f[a][n - 1];
        }
    }
}

/* Sets a and b, the samples of four voxels and those after them. */
#define PAIRS_float(a, b, p0, p1, p2, p3)                                                                              \
    do {                                                                                                               \
        const f4 lo_ = (f4)(v2){*(const two_floats *)(p0), *(const two_floats *)(p1)},                                 \
                 hi_ = (f4)(v2){*(const two_floats *)(p2), *(const two_floats *)(p3)};                                 \
        a = __builtin_convertvector(__builtin_shufflevector(lo_, hi_, 0, 2, 4, 6), v4);                                \
        b = __builtin_convertvector(__builtin_shufflevector(lo_, hi_, 1, 3, 5, 7), v4);                                \
    } while (0)
#define PAIRS_double(a, b, p0, p1, p2, p3)                                                                             \
    do {                                                                                                               \
        const v4 lo_ = __builtin_shufflevector(*(const v2_u *)(p0), *(const v2_u *)(p1), 0, 2, 1, 3),                  \
                 hi_ = __builtin_shufflevector(*(const v2_u *)(p2), *(const v2_u *)(p3), 0, 2, 1, 3);                  \
        a = __builtin_shufflevector(lo_, hi_, 0, 1, 4, 5);                                                             \
        b = __builtin_shufflevector(lo_, hi_, 2, 3, 6, 7);                                                             \
    } while (0)

#define LINEAR(T)                                                                                                      \
    static void linear_##T(double *restrict out, const void *restrict tile, int64_t stride,                            \
                           const struct vp_rotate_taps *restrict k, int64_t n)                                         \
    {                                                                                                                  \
        for (int64_t i = 0; i < n; i += 4) {                                                                           \
            const T *const p0 = (const T *)tile + k->at[i], *const p1 = (const T *)tile + k->at[i + 1],                \
                    *const p2 = (const T *)tile + k->at[i + 2], *const p3 = (const T *)tile + k->at[i + 3];            \
            const v4 t = *(const v4_u *)&k->t[0][i], u = *(const v4_u *)&k->t[1][i];                                   \
            v4 a, b, c, d;                                                                                             \
            PAIRS_##T(a, b, p0, p1, p2, p3);                                                                           \
            PAIRS_##T(c, d, p0 + stride, p1 + stride, p2 + stride, p3 + stride);                                       \
            const v4 x = a + t * (b - a), y = c + t * (d - c);                                                         \
            *(v4_u *)&out[i] = x + u * (y - x);                                                                        \
        }                                                                                                              \
    }

LINEAR(float)
LINEAR(double)

struct weights { double w[3][VP_ROTATE_PIECE]; }; /* weights of samples -1, 1 and 2; 0 is the one before the position */

/* Fills the weights of Keys; samples outside [0, size) have none, and the others sum to one. */
static void keys(struct weights *restrict to, const double *restrict t, const double *restrict f, const int64_t *size,
                 int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        const double x = t[i];
        to->w[0][i] = ((-0.5 * x + 1) * x - 0.5) * x;
        to->w[1][i] = ((-1.5 * x + 2) * x + 0.5) * x;
        to->w[2][i] = (0.5 * x - 0.5) * x * x;
    }
    if (!size)
        return;
    const double last = (double)*size - 1;
    for (int64_t i = 0; i < n; i++) {
        const double x = t[i];
        const double own = f[i] >= 0 ? (1.5 * x - 2.5) * x * x + 1 : 0, before = f[i] >= 1 ? to->w[0][i] : 0,
                     after = f[i] < last ? to->w[1][i] : 0, further = f[i] < last - 1 ? to->w[2][i] : 0,
                     sum = own + before + after + further;
        to->w[0][i] = before / sum;
        to->w[1][i] = after / sum;
        to->w[2][i] = further / sum;
    }
}

#define ROW_float(p) __builtin_convertvector(*(const f4_u *)(p), v4)
#define ROW_double(p) (*(const v4_u *)(p))

/* Sets sum to that of four rows, at the samples around a voxel. */
#define ROWS(T, sum, l)                                                                                                \
    do {                                                                                                               \
        const T *const p_ = (const T *)tile + k->at[i + l] - 1;                                                        \
        const v4 own_ = ROW_##T(p_);                                                                                   \
        sum = own_ + v.w[0][i + l] * (ROW_##T(p_ - stride) - own_) + v.w[1][i + l] * (ROW_##T(p_ + stride) - own_)     \
              + v.w[2][i + l] * (ROW_##T(p_ + 2 * stride) - own_);                                                     \
    } while (0)

#define CUBIC(T)                                                                                                       \
    static void cubic_##T(double *restrict out, const void *restrict tile, int64_t stride,                             \
                          const struct vp_rotate_taps *restrict k, const int64_t *size, int64_t n)                     \
    {                                                                                                                  \
        struct weights u, v;                                                                                           \
        n = (n + 3) / 4 * 4;                                                                                           \
        keys(&u, k->t[0], k->f[0], size, n);                                                                           \
        keys(&v, k->t[1], k->f[1], size ? size + 1 : NULL, n);                                                         \
        for (int64_t i = 0; i < n; i += 4) {                                                                           \
            v4 a, b, c, d;                                                                                             \
            ROWS(T, a, 0);                                                                                             \
            ROWS(T, b, 1);                                                                                             \
            ROWS(T, c, 2);                                                                                             \
            ROWS(T, d, 3);                                                                                             \
            const v4 ab = __builtin_shufflevector(a, b, 0, 4, 2, 6), cd = __builtin_shufflevector(c, d, 0, 4, 2, 6),   \
                     ba = __builtin_shufflevector(a, b, 1, 5, 3, 7), dc = __builtin_shufflevector(c, d, 1, 5, 3, 7);   \
            const v4 before = __builtin_shufflevector(ab, cd, 0, 1, 4, 5),                                             \
                     after = __builtin_shufflevector(ab, cd, 2, 3, 6, 7),                                              \
                     own = __builtin_shufflevector(ba, dc, 0, 1, 4, 5),                                                \
                     further = __builtin_shufflevector(ba, dc, 2, 3, 6, 7);                                            \
            *(v4_u *)&out[i] = own + *(const v4_u *)&u.w[0][i] * (before - own)                                        \
                               + *(const v4_u *)&u.w[1][i] * (after - own)                                             \
                               + *(const v4_u *)&u.w[2][i] * (further - own);                                          \
        }                                                                                                              \
    }

CUBIC(float)
CUBIC(double)

static bool has_nan(const double *v, int64_t n)
{
    int64_t found = 0;
    for (int64_t i = 0; i < n; i++)
        found += v[i] != v[i];
    return found > 0;
}

const struct vp_rotate_isa PASTE(vp_rotate_, VP_ISA) = {
    widen, place, {linear_float, linear_double}, {cubic_float, cubic_double}, has_nan,
};
