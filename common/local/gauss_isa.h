/* SPDX-License-Identifier: BSD-3-Clause */
/* Inner part of separable filters (gauss.h says what is computed), built once for each instruction set, and what
 * gauss.c and log.c share. Private to these two and convolve*.c (samples of all types), their tests and benchmarks. */
#ifndef VP_GAUSS_ISA_H
#define VP_GAUSS_ISA_H

#include "local/gauss.h"

/* Outputs made together, at most; columns that lie side by side where x is the axis. */
enum { VP_LINE_BLOCK = 8, VP_LINE_COLUMNS = 16 };

/* An output near an edge: its own taps, or (order 0) its edge sample g[at] and the numbers of gauss.h that go with it,
 * scale 0 where it is not near after all. */
struct vp_border {
    const float *up, *down;
    int at;
    float weight, scale;
};

/* `count` outputs along an axis, of n neighbours across it each: out + b * step is output b, made of the samples from
 * `at` on of g[b - radius] ... g[b + radius]. All g[] from -radius to radius + block - 1 can be read, also if count <
 * block. */
struct vp_line {
    const float *const *g;
    int order, radius, count;
    const float *t;                   /* interior taps; NULL: those of border[] */
    const struct vp_border *border;   /* of `block` outputs; NULL: none is near an edge */
    bool add;                         /* to what `out` holds */
    float *out;
    int64_t step, at, n;              /* n: a multiple of VP_LINE_COLUMNS */
};

struct vp_gauss_isa {
    int block;                        /* outputs made together */
    void (*line)(const struct vp_line *l);
    /* dst[i] = src[i], i < n; u8 u16 i16 f32 */
    void (*load)(float *dst, const void *src, enum vp_type type, int64_t n);
    /* Back: rounded to nearest even and clamped, NaN 0. `past`: past the caches (f32), for what nobody reads soon. */
    void (*store)(void *dst, enum vp_type type, const float *src, int64_t n, bool past);
    /* column[i * 16 + r] = row[r][i], i < n, and back. In steps of 16: up to 15 more are written (columns) or read and
     * written (rows). */
    void (*columns)(float *column, const float *const *row, int64_t n);
    void (*rows)(float *const *row, const float *column, int64_t n);
};

extern const struct vp_gauss_isa vp_gauss_avx512, vp_gauss_avx2, vp_gauss_generic;

/* What vp_gauss_chain and vp_log_chain have in common. Refuse lengths that make no sense. */
int vp_passes_check(const double sigma[3], double truncate, const double spacing[3], struct vp_err *err);
/* Complete a stage of an image of `size` whose params begin with its passes: image, halo, whole, cost, the functions of
 * engine/op.h, and its text with what `more` there is to say. */
void vp_passes_stage(struct vp_op *op, const int64_t size[3], const double sigma[3], const char *more);

#endif
