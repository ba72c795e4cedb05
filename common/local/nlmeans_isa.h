/* SPDX-License-Identifier: BSD-3-Clause */
/* Inner loops of nlmeans.c, built once for each instruction set. Rows of floats: n is a multiple of VP_NLMEANS_LANES,
 * so that every voxel goes through the same instructions wherever it lies in its row; they need not be aligned.
 * Private to nlmeans.c. */
#pragma once

#include <stdint.h>

enum { VP_NLMEANS_LANES = 16 };

struct vp_nlmeans_isa {
    /* d = (a - b)^2 */
    void (*difference)(float *d, const float *a, const float *b, int64_t n);
    /* sum = row[0] + row[1] + ... from the first on */
    void (*add_rows)(float *sum, const float *const *row, int64_t rows, int64_t n);
    /* d2 = (sum[i] + ... + sum[i + taps - 1]) * (rx[i] * rate), a = min((noise - d2) * strength, 0), w = exp(a):
     * total += w, value += w * (there - here) */
    void (*weigh)(float *total, float *value, const float *sum, int64_t taps, const float *rx, float rate, float noise,
                  float strength, const float *here, const float *there, int64_t n);
    /* exp(a[i]) for a <= 0: also in place */
    void (*exponential)(float *e, const float *a, int64_t n);
};

extern const struct vp_nlmeans_isa vp_nlmeans_avx512, vp_nlmeans_avx2, vp_nlmeans_generic;
