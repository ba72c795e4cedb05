/* SPDX-License-Identifier: BSD-3-Clause */
#include "local/resize_isa.h"

#include "base/isa.h"

#define EACH(T, OP)                                                                                                    \
    do {                                                                                                               \
        const T *const s = row;                                                                                        \
        for (int64_t i = 0; i < n; i++)                                                                                \
            to[i] OP (double)s[i];                                                                                     \
    } while (0)
#define EACH_OF(type, OP)                                                                                              \
    switch (type) {                                                                                                    \
    case VP_U8: EACH(uint8_t, OP); break;                                                                              \
    case VP_U16: EACH(uint16_t, OP); break;                                                                            \
    case VP_U32: EACH(uint32_t, OP); break;                                                                            \
    case VP_I8: EACH(int8_t, OP); break;                                                                               \
    case VP_I16: EACH(int16_t, OP); break;                                                                             \
    case VP_I32: EACH(int32_t, OP); break;                                                                             \
    case VP_F32: EACH(float, OP); break;                                                                               \
    default: EACH(double, OP); break;                                                                                  \
    }

static void widen(double *restrict to, const void *restrict row, enum vp_type type, int64_t n)
{
    EACH_OF(type, =)
}

static void narrow(float *restrict to, const double *restrict from, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        to[i] = (float)from[i];
}

static void add(double *restrict to, const double *restrict first, const void *restrict row, enum vp_type type,
                int64_t n)
{
    if (first) {
        const double *const s = row;
        for (int64_t i = 0; i < n; i++)
            to[i] += s[i] - first[i];
        return;
    }
    EACH_OF(type, +=)
}

static void tap(double *restrict sum, const double *restrict row, const double *restrict centre, double weight,
                int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        sum[i] += weight * (row[i] - centre[i]);
}

static void bins(double *restrict out, const double *restrict sum, int64_t bin, int64_t m)
{
    if (bin == 2) {
        for (int64_t i = 0; i < m; i++)
            out[i] = sum[2 * i] + sum[2 * i + 1];
        return;
    }
    for (int64_t i = 0; i < m; i++) {
        double s = sum[i * bin];
        for (int64_t k = 1; k < bin; k++)
            s += sum[i * bin + k];
        out[i] = s;
    }
}

enum { BLOCK = 256 };

/* Blocks of voxels, so that the sums stay in the first-level cache and each loop is over neighbours. */
static void across(double *restrict out, const double *restrict line, const int32_t *restrict at,
                   const int32_t *restrict mid, const double *restrict weight, int64_t stride, int64_t taps, int32_t x0,
                   int64_t m)
{
    double centre[BLOCK];
    for (int64_t i = 0; i < m; i += BLOCK) {
        const int64_t n = m - i < BLOCK ? m - i : BLOCK;
        double *const o = out + i;
        for (int64_t j = 0; j < n; j++)
            o[j] = centre[j] = line[mid[i + j] - x0];
        for (int64_t k = 0; k < taps; k++) {
            const int32_t *const from = at + k * stride + i;
            const double *const w = weight + k * stride + i;
            for (int64_t j = 0; j < n; j++)
                o[j] += w[j] * (line[from[j] - x0] - centre[j]);
        }
    }
}

const struct vp_resize_isa PASTE(vp_resize_, VP_ISA) = {widen, narrow, add, tap, bins, across};
