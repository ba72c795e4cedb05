/* SPDX-License-Identifier: BSD-3-Clause */
/* Inner loops of resize.c. */
#pragma once

#include "stack/stack.h"

struct vp_resize_isa {
    /* Widens n samples of f32 or an integer type of at most 32 bits, and rounds to f32. */
    void (*widen)(double *to, const void *row, enum vp_type type, int64_t n);
    void (*narrow)(float *to, const double *from, int64_t n);
    /* Adds n samples to `sum`; with `first`, their differences from it. */
    void (*add)(double *sum, const double *first, const void *row, enum vp_type type, int64_t n);
    /* Adds weight times the difference of `row` and `centre`. */
    void (*tap)(double *sum, const double *row, const double *centre, double weight, int64_t n);
    /* Fills m sums of `bin` neighbours each. */
    void (*bins)(double *out, const double *sum, int64_t bin, int64_t m);
    /* Fills out[i] = c + sum over k of weight[k * stride + i] (line[at[k * stride + i] - x0] - c), where c is
     * line[mid[i] - x0]. */
    void (*across)(double *out, const double *line, const int32_t *at, const int32_t *mid, const double *weight,
                   int64_t stride, int64_t taps, int32_t x0, int64_t m);
};

extern const struct vp_resize_isa vp_resize_avx512, vp_resize_avx2, vp_resize_generic;
