/* SPDX-License-Identifier: BSD-3-Clause */
/* Separable filters: sums of 1-D filters along x, y and z, in a single pass over the image. Operations "gauss"
 * (gauss.h) and "log" (log.h) are made of them.
 *
 * Arithmetic. A 1-D filter sum_j w[j] x[i+j] is evaluated on first differences d[p] = x[p+1] - x[p] instead of samples
 * (summation by parts; t[k] = w[k+1] + w[k+2] + ... + w[R]):
 *
 *     order 0:  y[i] = x[i] + sum_k t[k] (d[i+k] - d[i-1-k])      k = 0 ... R-1
 *     order 1:  y[i] =        sum_k t[k] (d[i+k] + d[i-1-k])
 *     order 2:  y[i] =        sum_k t[k] (d[i+k] - d[i-1-k])
 *
 * The weights sum to one (order 0) or zero for any rounding of t: every constant is reproduced exactly, and away from
 * the edges so is a ramp whose differences are representable. Rounding errors scale with the local contrast, not with
 * the grey value.
 *
 * Order of operations, in every implementation (binary32, round to nearest, fused multiply-add where the processor has
 * it): acc = 0; k = R-1 down to 0: acc = fma(t[k], d[i+k] -+ d[i-1-k], acc); y = x[i] + acc (order 0) or acc. First
 * x, then y, then z, each result rounded to binary32; axes of radius 0 are left out. High-pass: input - y.
 * Integers are converted exactly on load; on store they are rounded to nearest even and clamped (NaN: 0).
 *
 * Edges. Samples outside the image follow the rule of enum vp_edge; the formulas above then hold. VP_EDGE_RENORMALIZE
 * extends the line by its first and last sample, x_edge, so differences outside are 0, and corrects the result. Let lo
 * and hi be the numbers of voxels before and after a voxel on its line. Order 0 divides the weights inside the image by
 * their sum: where one of the two is e < R and the other R or more, acc contains x_edge with the weight t[e] of all
 * samples outside, which is removed:
 *
 *     acc = fma(-t[e], x_edge - x[i], acc); y = fma(scale[e], acc, x[i])       scale[e] = 1 / (1 - t[e])
 *
 * Where both are less than R (lines of n < 2 R samples) that would cancel too much: those voxels, and for orders 1 and
 * 2 all voxels with lo or hi less than R, have taps of their own (vp_taps_edge):
 *
 *     acc = 0; k = R-1 down to 0: acc = fma(up[k], d[i+k], acc); acc = fma(down[k], d[i-1-k], acc)
 *
 * (interior: up = t, down = -t for even orders, +t for odd). The end of a line thus affects only voxels within R of
 * it. Clipped weights of derivatives are v = w + g (a + b j + c j^2), g the Gaussian, with sum v = 0, sum v j = 1
 * (order 1) or 0 (order 2), and sum v j^2 = 0 (order 1) or 2 (order 2): quadratics give the exact slope and curvature
 * up to the last voxel. Interior weights satisfy the same conditions; order 1 needs no c there, its weights are odd.
 * Where the axis has too few voxels for the conditions (1 for order 1, 2 for order 2) the derivative is 0; between two
 * voxels order 1 is their difference. */
#pragma once

#include "engine/chain.h"
#include "local/taps.h"

/* Sum of filtered channels: term[i] filters channel `from` of the pass before. */
struct vp_separable_sum { int n; struct { const struct vp_taps *taps; int from; } term[2]; };

/* op->params of "gauss" and "log": filters, and the three passes that vp_separable_connect makes of them. One input; in:
 * u8 u16 i16 f32; out: the same or f32; on the CPU f64, to f64, f32, u32 or i32, in f64 throughout. halo[a] = radius[a]. */
struct vp_separable {
    int filters;                      /* 1; 2: the sum of second derivatives of log.h */
    struct vp_taps taps[3][2];        /* filters of each axis; of two, the smooth one and the second derivative */
    int users;                        /* reference count: iterations share one set of tables */
    int channels_x, channels_y;       /* results of the passes along x and y */
    const struct vp_taps *x[2];       /* filters of the input */
    struct vp_separable_sum y[2], z;  /* sums of the channels of the pass before */
    int radius[3];                    /* maximum of each axis */
    enum vp_edge edge;
    bool highpass;                    /* result: input minus the filtered input */
};

/* Functions of the operation on the CPU. */
struct vp_separable_cpu {
    uint64_t (*scratch)(const struct vp_op *op, const struct vp_box *in, const struct vp_box *out, int threads);
    int (*run)(const struct vp_op *op, const struct vp_part *in, const struct vp_part *out, void *scratch, int threads,
               struct vp_err *err);
    const struct vp_carry *carry;
};
/* Those in f64 (separable_f64.c), which need taps in f64. */
extern const struct vp_separable_cpu vp_separable_f64;

/* Checks sigma (voxels), truncate (sigmas) and spacing (units per voxel) of each axis. VP_EUSAGE names the option. */
int vp_separable_check(const double sigma[3], double truncate, const double spacing[3], struct vp_err *err);
/* Makes the passes of the taps. */
void vp_separable_connect(struct vp_separable *p);
/* Frees them unless others use them; NULL is fine. */
void vp_separable_free(void *params);
/* Fills the rest of an operation on an image of `size` voxels whose params are a struct vp_separable: image, halo,
 * whole, cost, memory, functions, and text, to which `more` is appended. */
void vp_separable_stage(struct vp_op *op, const int64_t size[3], const double sigma[3], const char *more);
