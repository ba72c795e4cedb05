/* SPDX-License-Identifier: BSD-3-Clause */
/* Inner loops of rotate.c. */
#pragma once

#include "stack/stack.h"

/* An axis of a row of voxels: position i is clamp(step[i] + at), from -1/2 to n - 1/2. */
struct vp_rotate_axis {
    const double *step;
    double at;
    int64_t n;
    int64_t lo;     /* first sample in the tile */
};

enum { VP_ROTATE_PIECE = 64 }; /* most voxels of a call, which is filled up to a multiple of 4 */

/* Taps of a piece of a row. */
struct vp_rotate_taps {
    int32_t at[VP_ROTATE_PIECE];      /* place in the tile of the sample before the position */
    double t[2][VP_ROTATE_PIECE];     /* distance from it along the row's axis and the other */
    double f[2][VP_ROTATE_PIECE];     /* its index in the image */
};

struct vp_rotate_isa {
    /* Converts n samples of f32, or of an integer type of at most 16 bits. */
    void (*widen)(float *to, const void *row, enum vp_type type, int64_t n);
    /* Fills taps for n voxels; the tile has rows of `stride` samples. */
    void (*place)(struct vp_rotate_taps *to, const struct vp_rotate_axis axis[2], int64_t stride, int64_t n);
    /* Fill out[0..n) from a tile of f32 ([0]) or f64 ([1]). n may be exceeded up to a multiple of 4. */
    void (*linear[2])(double *out, const void *tile, int64_t stride, const struct vp_rotate_taps *k, int64_t n);
    /* The same with weights of Keys. size: NULL if all taps exist, else the samples of the image along the two axes;
     * samples beyond it have no weight. */
    void (*cubic[2])(double *out, const void *tile, int64_t stride, const struct vp_rotate_taps *k,
                     const int64_t *size, int64_t n);
    /* True if one of n values is NaN. */
    bool (*has_nan)(const double *v, int64_t n);
};

extern const struct vp_rotate_isa vp_rotate_avx512, vp_rotate_avx2, vp_rotate_generic;
