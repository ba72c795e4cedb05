/* SPDX-License-Identifier: BSD-3-Clause */
/* Inner loops of separable filters (separable.h has the arithmetic), built once for each instruction set. Private to
 * separable.c, to convolve_isa.c (conversion of samples), tests and benchmarks. */
#pragma once

#include "local/separable.h"

/* Maximum of outputs made together; columns side by side where the filter runs along x. */
enum { VP_SEPARABLE_BLOCK = 8, VP_SEPARABLE_COLUMNS = 16 };

/* An output near an edge: taps of its own, or (order 0) its edge sample g[at] with weight -t[e] and scale[e] of
 * separable.h; scale 0: the output is not near an edge. */
struct vp_separable_edge {
    const float *up, *down;
    int at;
    float weight, scale;
};

/* `count` outputs along an axis, each of n neighbours across it: output b is at out + b * step, made of samples at ...
 * at + n - 1 of g[b - radius] ... g[b + radius]. All of g[-radius] ... g[radius + block - 1] are readable, also if
 * count < block. */
struct vp_separable_line {
    const float *const *g;
    int order, radius, count;
    const float *t;                       /* interior taps; NULL: those of edge[] */
    const struct vp_separable_edge *edge; /* edges of `block` outputs; NULL: none is near an edge */
    bool add;                             /* accumulate into `out` */
    float *out;
    int64_t step, at, n;                  /* samples; n: a multiple of VP_SEPARABLE_COLUMNS */
};

struct vp_separable_isa {
    int block;                            /* outputs made together */
    void (*line)(const struct vp_separable_line *l);
    /* Converts n samples of u8 u16 i16 f32 to float. */
    void (*load)(float *dst, const void *src, enum vp_type type, int64_t n);
    /* Converts n floats to `type`: rounded to nearest even and clamped, NaN 0. `bypass`: non-temporal stores (f32). */
    void (*store)(void *dst, enum vp_type type, const float *src, int64_t n, bool bypass);
    /* Transposes: column[i * 16 + r] = row[r][i], i < n, and back. In steps of 16: up to 15 more are written (columns)
     * or read and written (rows). */
    void (*columns)(float *column, const float *const *row, int64_t n);
    void (*rows)(float *const *row, const float *column, int64_t n);
};

extern const struct vp_separable_isa vp_separable_avx512, vp_separable_avx2, vp_separable_generic;
