/* SPDX-License-Identifier: BSD-3-Clause */
#include "local/convolve_isa.h"

#include "base/isa.h"
#include "base/size.h"

#include <math.h>
#include <string.h>

static bool load_f32(float *to, const float *from, int64_t n)
{
    vf sum = {0};
    float rest = 0;
    int64_t i = 0;

    for (; i + LANES <= n; i += LANES) {
        const vf v = *(const vf_u *)(from + i);
        *(vf_u *)(to + i) = v;
        sum += v - v; /* 0, or NaN */
    }
    for (; i < n; i++) {
        to[i] = from[i];
        rest += from[i] - from[i];
    }
    for (int l = 0; l < LANES; l++)
        rest += sum[l];
    if (rest == 0)
        return false;
    for (i = 0; i < n; i++)
        to[i] = isfinite(from[i]) ? from[i] : 0;
    return true;
}

static bool load(float *to, const void *from, enum vp_type type, int64_t n)
{
    switch (type) {
    case VP_U8:
        for (int64_t i = 0; i < n; i++)
            to[i] = ((const uint8_t *)from)[i];
        return false;
    case VP_U16:
        for (int64_t i = 0; i < n; i++)
            to[i] = ((const uint16_t *)from)[i];
        return false;
    case VP_I16:
        for (int64_t i = 0; i < n; i++)
            to[i] = ((const int16_t *)from)[i];
        return false;
    default:
        return load_f32(to, from, n);
    }
}

/* Whole lines of the cache past it: else every one of them would be fetched first, and those of rows that lie a
 * power of two apart would evict one another. */
static void store_f32(float *to, const float *from, int64_t n)
{
    const int64_t head = -(int64_t)((uintptr_t)to / sizeof *to) & (LANES - 1);
    int64_t i = 0;

    if (n >= head + LANES) {
        memcpy(to, from, (size_t)head * sizeof *to);
        for (i = head; i + LANES <= n; i += LANES)
            put_past(to + i, *(const vf_u *)(from + i));
    }
    memcpy(to + i, from + i, (size_t)(n - i) * sizeof *to);
}

static void store(void *to, enum vp_type type, const float *from, int64_t n)
{
    switch (type) {
    case VP_U8:
        for (int64_t i = 0; i < n; i++)
            ((uint8_t *)to)[i] = (uint8_t)rintf(from[i] < 0 ? 0 : from[i] > 255 ? 255 : from[i]);
        return;
    case VP_U16:
        for (int64_t i = 0; i < n; i++)
            ((uint16_t *)to)[i] = (uint16_t)rintf(from[i] < 0 ? 0 : from[i] > 65535 ? 65535 : from[i]);
        return;
    case VP_I16:
        for (int64_t i = 0; i < n; i++)
            ((int16_t *)to)[i] = (int16_t)rintf(from[i] < -32768 ? -32768 : from[i] > 32767 ? 32767 : from[i]);
        return;
    default:
        store_f32(to, from, n);
    }
}

/* So many vectors of columns are summed in registers. */
enum { SIDE = 8, AHEAD = 2 };

INLINE void load_side(float *to, int64_t pitch, const void *const *row, int64_t rows, int64_t at, int vectors, float *sum)
{
    vf s[SIDE];

#pragma GCC unroll 8
    for (int v = 0; v < vectors; v++)
        s[v] = (vf){0};
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
            const vf x = *(const vf_u *)(from + v * LANES);
            *(vf_u *)(to + v * LANES) = x;
            s[v] += x;
        }
    }
#pragma GCC unroll 8
    for (int v = 0; v < vectors; v++)
        *(vf_u *)(sum + v * LANES) = s[v];
}

static void load_rows(float *to, int64_t pitch, const void *const *row, int64_t rows, int64_t at, enum vp_type type,
                      int64_t n, float *sum)
{
    if (type != VP_F32) {
        memset(sum, 0, (size_t)n * sizeof *sum);
        for (int64_t r = 0; r < rows; r++, to += pitch) {
            if (!row[r]) {
                memset(to, 0, (size_t)n * sizeof *to);
                continue;
            }
            load(to, (const char *)row[r] + at * (int64_t)vp_type_size(type), type, n);
            for (int64_t i = 0; i < n; i++)
                sum[i] += to[i];
        }
        return;
    }
    int64_t i = 0;
    for (; i + SIDE * LANES <= n; i += SIDE * LANES)
        load_side(to + i, pitch, row, rows, at + i, SIDE, sum + i);
    for (; i < n; i += LANES)
        load_side(to + i, pitch, row, rows, at + i, 1, sum + i);
}

static void store_rows(float *to, int64_t stride, const float *from, int64_t pitch, int64_t rows, const float *more,
                       int64_t n)
{
    for (int64_t r = 0; r < rows; r++, to += stride, from += pitch) {
        const int64_t head = vp_min64(-(int64_t)((uintptr_t)to / sizeof *to) & (LANES - 1), n);
        int64_t i = 0;
        for (; i < head; i++)
            to[i] = from[i] + more[i];
        for (; i + LANES <= n; i += LANES)
            put_past(to + i, *(const vf_u *)(from + i) + *(const vf_u *)(more + i));
        for (; i < n; i++)
            to[i] = from[i] + more[i];
    }
}

static void add(float *sum, const float *x, int64_t n)
{
    INDEPENDENT
    for (int64_t i = 0; i < n; i++)
        sum[i] += x[i];
}

static void scale(float *x, float s, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        x[i] *= s;
}

static void plus(float *to, const float *a, const float *c, int64_t n)
{
    INDEPENDENT
    for (int64_t i = 0; i < n; i++)
        to[i] = a[i] + c[i];
}

static void blend(float *to, const float *a, const float *c, float u, const float *b, const float *d, float v, int64_t n)
{
    INDEPENDENT
    for (int64_t i = 0; i < n; i++)
        to[i] = (a[i] + c[i]) * u + (b[i] + d[i]) * v;
}

static void line(float *to, const double *x, const double *taps, int64_t n_taps, int64_t n)
{
    enum { WIDE = 2 * LANES };

    for (int64_t i = 0; i < n; i += WIDE) {
        double sum[WIDE] = {0};
        const int64_t m = n - i < WIDE ? n - i : WIDE;
        if (m == WIDE)
            for (int64_t k = 0; k < n_taps; k++)
                for (int64_t l = 0; l < WIDE; l++)
                    sum[l] += x[i + k + l] * taps[k];
        else
            for (int64_t k = 0; k < n_taps; k++)
                for (int64_t l = 0; l < m; l++)
                    sum[l] += x[i + k + l] * taps[k];
        for (int64_t l = 0; l < m; l++)
            to[i + l] = (float)sum[l];
    }
}

/* Four rows of output and two vectors of columns in registers: a row of samples serves all of them. Every row of taps
 * is a sum of its own, so that rounding errors stay small. */
static void rows(const struct vp_convolve_rows *r)
{
    enum { V = LANES == 16 ? 2 : 1 };

    for (int64_t x = 0; x < r->n; x += V * LANES) {
        vf sum[4][V];
        for (int i = 0; i < 4; i++)
            for (int v = 0; v < V; v++)
                sum[i][v] = (vf){0};
        for (int64_t z = 0; z < r->nz; z++) {
            const float *const plane = r->from + z * r->plane + x;
            /* row y of samples has tap row y - i for output row i; the first row of zeros is tap row -3 */
            const float *const taps = r->taps + z * (r->ny + 6) * r->nx + 3 * r->nx;
            if (r->ny == 1 && r->nx == 1) { /* no row of samples serves two */
#pragma GCC unroll 4
                for (int i = 0; i < 4; i++)
#pragma GCC unroll 2
                    for (int v = 0; v < V; v++)
                        sum[i][v] += *(const vf_u *)(plane + i * r->row + v * LANES) * taps[0];
                continue;
            }
            if (r->ny == 1) {
                vf part[4][V];
                for (int i = 0; i < 4; i++)
                    for (int v = 0; v < V; v++)
                        part[i][v] = (vf){0};
                for (int64_t k = 0; k < r->nx; k++)
#pragma GCC unroll 4
                    for (int i = 0; i < 4; i++)
#pragma GCC unroll 2
                        for (int v = 0; v < V; v++)
                            part[i][v] += *(const vf_u *)(plane + i * r->row + k + v * LANES) * taps[k];
                for (int i = 0; i < 4; i++)
                    for (int v = 0; v < V; v++)
                        sum[i][v] += part[i][v];
                continue;
            }
            for (int64_t y = 0; y < r->ny + 3; y++) {
                const float *const s = plane + y * r->row, *const t = taps + y * r->nx;
                vf part[4][V];
                if (r->nx == 1) {
#pragma GCC unroll 2
                    for (int v = 0; v < V; v++)
#pragma GCC unroll 4
                        for (int i = 0; i < 4; i++)
                            sum[i][v] += *(const vf_u *)(s + v * LANES) * t[-i];
                    continue;
                }
                for (int i = 0; i < 4; i++)
                    for (int v = 0; v < V; v++)
                        part[i][v] = (vf){0};
                for (int64_t k = 0; k < r->nx; k++) {
                    vf c[V];
#pragma GCC unroll 2
                    for (int v = 0; v < V; v++)
                        c[v] = *(const vf_u *)(s + k + v * LANES);
#pragma GCC unroll 4
                    for (int i = 0; i < 4; i++)
#pragma GCC unroll 2
                        for (int v = 0; v < V; v++)
                            part[i][v] += c[v] * t[k - i * r->nx];
                }
                for (int i = 0; i < 4; i++)
                    for (int v = 0; v < V; v++)
                        sum[i][v] += part[i][v];
            }
        }
        for (int i = 0; i < 4; i++)
            for (int v = 0; v < V && r->to[i]; v++)
                if (x + v * LANES < r->n)
                    *(vf_u *)(r->to[i] + x + v * LANES) = sum[i][v];
    }
}

typedef double vd __attribute__((vector_size(4 * LANES)));
typedef double vd_u __attribute__((vector_size(4 * LANES), aligned(8)));

static void products(const struct vp_convolve_products *p)
{
    enum { V = 4, EACH = LANES / 2 };

    for (int64_t x = 0; x < p->n; x += V * EACH) {
        vd sum[V], part[V];
        for (int v = 0; v < V; v++)
            sum[v] = (vd){0};
        for (int64_t z = 0; z < p->nz; z++)
            for (int64_t y = 0; y < p->ny; y++) {
                const double *const s = p->from + z * p->plane + y * p->row + x, *const t = p->taps + (z * p->ny + y) * p->nx;
#pragma GCC unroll 4
                for (int v = 0; v < V; v++)
                    part[v] = (vd){0};
                for (int64_t k = 0; k < p->nx; k++)
#pragma GCC unroll 4
                    for (int v = 0; v < V; v++)
                        part[v] += *(const vd_u *)(s + k + v * EACH) * t[k];
#pragma GCC unroll 4
                for (int v = 0; v < V; v++)
                    sum[v] += part[v];
            }
#pragma GCC unroll 4
        for (int v = 0; v < V; v++)
            *(vd_u *)(p->to + x + v * EACH) = sum[v];
    }
}

const struct vp_convolve_isa PASTE(vp_convolve_, VP_ISA) = {TEXT(VP_ISA), load, store, load_rows, store_rows, add, scale, plus, blend, line,
                                                           rows, products};
