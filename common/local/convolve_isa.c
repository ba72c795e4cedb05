/* SPDX-License-Identifier: BSD-3-Clause */
#include "local/convolve_internal.h"

#include "base/isa.h"
#include "base/size.h"
#include "local/separable_isa.h"

#include <math.h>
#include <string.h>

typedef double vd __attribute__((vector_size(4 * LANES)));
typedef double vd_u __attribute__((vector_size(4 * LANES), aligned(8)));

/* Copies n samples minus a constant. True if one is not finite; it becomes 0. */
#define COPY(T, V, V_U) \
    static bool copy_##T(T *to, const T *from, int64_t n, T less) \
    { \
        enum { EACH = sizeof(V) / sizeof(T) }; \
        V sum = {0}; \
        T rest = 0; \
        int64_t i = 0; \
        for (; i + EACH <= n; i += EACH) { \
            const V v = *(const V_U *)(from + i); \
            *(V_U *)(to + i) = v - less; \
            sum += v - v; /* 0, or NaN */ \
        } \
        for (; i < n; i++) { \
            to[i] = from[i] - less; \
            rest += from[i] - from[i]; \
        } \
        for (int l = 0; l < EACH; l++) \
            rest += sum[l]; \
        if (rest == 0) \
            return false; \
        for (i = 0; i < n; i++) \
            to[i] = isfinite(from[i]) ? from[i] - less : 0; \
        return true; \
    }
COPY(float, vf, vf_u)
COPY(double, vd, vd_u)

static bool load(void *to, const void *from, enum vp_type type, int64_t n, double less)
{
    if (type == VP_F32)
        return copy_float(to, from, n, (float)less);
    if (type == VP_F64)
        return copy_double(to, from, n, less);
    PASTE(vp_separable_, VP_ISA).load(to, from, type, n);
    for (int64_t i = 0; i < n; i++)
        ((float *)to)[i] -= (float)less;
    return false;
}

static double most(const void *x, bool wide, int64_t n)
{
    double m = 0;
    float f = 0;

    for (int64_t i = 0; i < n && !wide; i++)
        f = fabsf(((const float *)x)[i]) > f ? fabsf(((const float *)x)[i]) : f;
    for (int64_t i = 0; i < n && wide; i++)
        m = fabs(((const double *)x)[i]) > m ? fabs(((const double *)x)[i]) : m;
    return wide ? m : f;
}

/* Non-temporal stores: ordinary ones would fetch every line first, and lines of rows a power of two apart would evict
 * one another. */
static void store(void *to, enum vp_type type, const float *from, int64_t n)
{
    PASTE(vp_separable_, VP_ISA).store(to, type, from, n, true);
}

/* Number of vectors of columns whose maxima are in registers. */
enum { SIDE = 8, AHEAD = 2 };

typedef int32_t vi __attribute__((vector_size(4 * LANES)));

/* Magnitudes are compared by their bits, in which NaN is the largest. */
INLINE void load_side(float *to, int64_t pitch, const void *const *row, int64_t rows, int64_t at, int vectors,
                      float less, float *most)
{
    vi m[SIDE];

#pragma GCC unroll 8
    for (int v = 0; v < vectors; v++)
        m[v] = (vi){0};
    for (int64_t r = 0; r < rows; r++, to += pitch) {
        if (!row[r]) {
            memset(to, 0, (size_t)vectors * sizeof(vf));
            continue;
        }
        const float *const from = (const float *)row[r] + at;
        const void *const next = r + AHEAD < rows ? row[r + AHEAD] : NULL;
        if (next)
#pragma GCC unroll 8
            for (int v = 0; v < vectors; v += 16 / LANES)
                __builtin_prefetch((const float *)next + at + v * LANES);
#pragma GCC unroll 8
        for (int v = 0; v < vectors; v++) {
            const vf x = *(const vf_u *)(from + v * LANES) - less;
            const vi bits = (vi)x & 0x7fffffff;
            *(vf_u *)(to + v * LANES) = x;
            const vi more = bits > m[v];
            m[v] = (bits & more) | (m[v] & ~more);
        }
    }
#pragma GCC unroll 8
    for (int v = 0; v < vectors; v++)
        *(vf_u *)(most + v * LANES) = (vf)m[v];
}

static void load_rows(float *to, int64_t pitch, const void *const *row, int64_t rows, int64_t at, enum vp_type type,
                      int64_t n, float less, float *most)
{
    if (type != VP_F32) {
        memset(most, 0, (size_t)n * sizeof *most);
        for (int64_t r = 0; r < rows; r++, to += pitch)
            if (row[r])
                load(to, (const char *)row[r] + at * (int64_t)vp_type_size(type), type, n, less);
            else
                memset(to, 0, (size_t)n * sizeof *to);
        return;
    }
    int64_t i = 0;
    for (; i + SIDE * LANES <= n; i += SIDE * LANES)
        load_side(to + i, pitch, row, rows, at + i, SIDE, less, most + i);
    for (; i < n; i += LANES)
        load_side(to + i, pitch, row, rows, at + i, 1, less, most + i);
}

static void store_rows(float *to, int64_t stride, const float *from, int64_t pitch, int64_t rows, float more, int64_t n)
{
    for (int64_t r = 0; r < rows; r++, to += stride, from += pitch) {
        const int64_t head = vp_min64(-(int64_t)((uintptr_t)to / sizeof *to) & (LANES - 1), n);
        int64_t i = 0;
        for (; i < head; i++)
            to[i] = from[i] + more;
        for (; i + LANES <= n; i += LANES)
            put_past(to + i, *(const vf_u *)(from + i) + more);
        for (; i < n; i++)
            to[i] = from[i] + more;
    }
}

static void add(float *x, float more, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        x[i] += more;
}

static void scale(float *x, float s, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        x[i] *= s;
}

static void blend(float *to, const float *a, float u, const float *b, float v, int64_t n)
{
    INDEPENDENT
    for (int64_t i = 0; i < n; i++)
        to[i] = a[i] * u + b[i] * v;
}

/* Four rows of output and two vectors of columns in registers. */
enum { VECTORS = LANES == 16 ? 2 : 1 };

/* Adds a row of taps to each sum: taps of row i are at i * `next_taps`, its samples at i * `next_row`. Each row of taps
 * is summed separately, for small rounding errors. */
INLINE void add_taps(vf sum[4][VECTORS], const float *s, int64_t next_row, const float *t, int64_t next_taps, int64_t n)
{
    vf part[4][VECTORS];

#pragma GCC unroll 4
    for (int i = 0; i < 4; i++)
#pragma GCC unroll 2
        for (int v = 0; v < VECTORS; v++)
            if (n == 1)
                sum[i][v] += vf_at(s + i * next_row + v * LANES) * t[i * next_taps];
            else
                part[i][v] = (vf){0};
    if (n == 1)
        return;
    for (int64_t k = 0; k < n; k++)
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++)
#pragma GCC unroll 2
            for (int v = 0; v < VECTORS; v++)
                part[i][v] += vf_at(s + i * next_row + k + v * LANES) * t[k + i * next_taps];
    for (int i = 0; i < 4; i++)
        for (int v = 0; v < VECTORS; v++)
            sum[i][v] += part[i][v];
}

static void rows(const struct vp_convolve_rows *r)
{
    for (int64_t x = 0; x < r->n; x += VECTORS * LANES) {
        vf sum[4][VECTORS];
        for (int i = 0; i < 4; i++)
            for (int v = 0; v < VECTORS; v++)
                sum[i][v] = (vf){0};
        for (int64_t z = 0; z < r->nz; z++) {
            const float *const plane = (const float *)r->from + z * r->plane + x;
            /* row y of samples has tap row y - i for output row i; the first row of zeros is tap row -3 */
            const float *const taps = (const float *)r->taps + (z * (r->ny + 6) + 3) * r->nx;
            if (r->ny == 1) /* no row of samples is shared */
                add_taps(sum, plane, r->row, taps, 0, r->nx);
            for (int64_t y = 0; r->ny > 1 && y < r->ny + 3; y++)
                add_taps(sum, plane + y * r->row, 0, taps + y * r->nx, -r->nx, r->nx);
        }
        for (int i = 0; i < 4; i++)
            for (int v = 0; v < VECTORS && r->to[i]; v++)
                if (x + v * LANES < r->n)
                    *(vf_u *)((float *)r->to[i] + x + v * LANES) = sum[i][v];
    }
}

/* One row of output and four vectors of columns. */
INLINE void row_f64(const struct vp_convolve_rows *r, int i)
{
    enum { V = 4, EACH = LANES / 2 };

    for (int64_t x = 0; x < r->n; x += V * EACH) {
        vd sum[V], part[V];
        for (int v = 0; v < V; v++)
            sum[v] = (vd){0};
        for (int64_t z = 0; z < r->nz; z++)
            for (int64_t y = 0; y < r->ny; y++) {
                const double *const s = (const double *)r->from + z * r->plane + (y + i) * r->row + x;
                const double *const t = (const double *)r->taps + (z * (r->ny + 6) + 3 + y) * r->nx;
#pragma GCC unroll 4
                for (int v = 0; v < V; v++)
                    part[v] = (vd){0};
                for (int64_t k = 0; k < r->nx; k++)
#pragma GCC unroll 4
                    for (int v = 0; v < V; v++)
                        part[v] += *(const vd_u *)(s + k + v * EACH) * t[k];
#pragma GCC unroll 4
                for (int v = 0; v < V; v++)
                    sum[v] += part[v];
            }
#pragma GCC unroll 4
        for (int v = 0; v < V; v++)
            *(vd_u *)((double *)r->to[i] + x + v * EACH) = sum[v];
    }
}

static void rows_f64(const struct vp_convolve_rows *r)
{
    for (int i = 0; i < 4 && r->to[i]; i++)
        row_f64(r, i);
}

const struct vp_convolve_isa PASTE(vp_convolve_, VP_ISA) = {
    load, most, store, load_rows, store_rows, add, scale, blend, rows, rows_f64,
};
