/* SPDX-License-Identifier: BSD-3-Clause */
/* Gaussian filter, its derivatives and its complement, separable: kernel "gauss" of engine/op.h.
 *
 * Arithmetic. A 1-D filter sum_j w[j] x[i+j] is taken over first differences d[p] = x[p+1] - x[p] instead of samples
 * (summation by parts; t[k] = w[k+1] + w[k+2] + ... + w[R]):
 *
 *     order 0:  y[i] = x[i] + sum_k t[k] (d[i+k] - d[i-1-k])      k = 0 ... R-1
 *     order 1:  y[i] =        sum_k t[k] (d[i+k] + d[i-1-k])
 *     order 2:  y[i] =        sum_k t[k] (d[i+k] - d[i-1-k])
 *
 * The weights sum to one (order 0) or zero whatever the rounding of t: constants come out exactly, every constant; and
 * away from the edges a ramp whose differences are representable does too. Rounding errors scale with the contrast
 * around the voxel, not with its value.
 *
 * Order of operations, in every implementation (binary32, round to nearest, fused multiply-add where the processor has
 * it): acc = 0; k = R-1 down to 0: acc = fma(t[k], d[i+k] -+ d[i-1-k], acc); y = x[i] + acc (order 0) or acc. First
 * x, then y, then z, each result rounded to binary32; axes of radius 0 are left out. High-pass: x - y of the input.
 * Integers are converted exactly on load; on store rounded to nearest even and clamped (NaN: 0).
 *
 * Edges. Samples outside the image are made by the rule of enum vp_edge, then everything is as above. With
 * VP_EDGE_RENORMALIZE the sample next to the edge stands for all beyond: their differences are 0. Be lo and hi the
 * voxels before and after a voxel on its line. Order 0 divides the weights inside the image by their sum. Where one of
 * the two is e < R and the other R or more, acc then holds too much by the weight t[e] of all that is outside, given to
 * the first (last) sample of the line, x_edge:
 *
 *     acc = fma(-t[e], x_edge - x[i], acc); y = fma(scale[e], acc, x[i])       scale[e] = 1 / (1 - t[e])
 *
 * Where both are less than R (the line has n < 2 R samples) that would cancel too much: such voxels, and with order 1
 * and 2 all those where lo or hi is less than R, have taps of their own (vp_taps_edge):
 *
 *     acc = 0; k = R-1 down to 0: acc = fma(up[k], d[i+k], acc); acc = fma(down[k], d[i-1-k], acc)
 *
 * (interior: up = t, down = -t for even orders, +t for odd). So the end of a line matters only to voxels within R of
 * it. The clipped weights v = w + g (a + b j + c j^2) of derivatives, with the Gaussian g, are such that sum v = 0,
 * sum v j = 1 (order 1) or 0 (order 2), and sum v j^2 = 0 (order 1) or 2 (order 2): quadratics give the exact slope and
 * curvature up to the last voxel. The same holds inside, where order 1 needs no c, for its weights are odd. Where the
 * image has too few voxels for that along the axis (1 for order 1, 2 for order 2) the derivative is 0, and of two
 * voxels order 1 is their difference. */
#ifndef VP_GAUSS_H
#define VP_GAUSS_H

#include "engine/chain.h"

enum { VP_TAPS_MAX_RADIUS = 2048 };

/* One 1-D filter, resolved. */
struct vp_taps {
    int order;        /* 0, 1, 2 */
    int radius;       /* R. 0 (only with order 0): nothing to do along this axis */
    int reach;        /* of the weights inside: R, or 1 where R is 2 for the sake of the edges alone (order 1) */
    enum vp_edge edge;
    double sigma;     /* voxels */
    double gain;      /* all taps of a derivative times this: 1 / spacing^order, a scale; 1 for order 0 */
    double *bell;     /* the Gaussian at 0 ... R, not normalised */
    float *t;         /* R */
    float *scale;     /* R. VP_EDGE_RENORMALIZE and order 0, else NULL */
    /* VP_EDGE_RENORMALIZE and order 1 or 2, else NULL. hi >= R: row lo (0 ... R-1) has R taps; up[lo * R + k],
     * down[lo * R + k], 0 beyond the edge. The same for hi < R, lo >= R in row hi of far_up and far_down (up' = s down,
     * down' = s up with s = -1 for order 2, 1 for order 1). Where both lo and hi are less than R: vp_taps_edge. */
    float *up, *down, *far_up, *far_down;
};

/* radius = (int)(truncate * sigma + 0.5) as SciPy has it, but at least `order` voxels for derivatives, and 2 where the
 * edges need three. */
int vp_taps_make(struct vp_taps *t, double sigma, double truncate, int order, double gain, enum vp_edge edge,
                 struct vp_err *err);
void vp_taps_free(struct vp_taps *t);
/* VP_EDGE_RENORMALIZE: the R taps up[] and R taps down[] of a voxel with lo voxels before and hi voxels after it along
 * the axis (any lo, hi >= 0; what is beyond R does not matter). Deterministic: the rows of t->up, t->down are these. */
void vp_taps_edge(const struct vp_taps *t, int64_t lo, int64_t hi, float *up, float *down);

/* A sum of filtered channels. */
struct vp_sum { int n; struct { const struct vp_taps *taps; int from; } term[2]; };

/* Channels x[] of the input, y[] sums of those, z the sum of those. */
struct vp_passes {
    int channels_x, channels_y;
    const struct vp_taps *x[2];
    struct vp_sum y[2], z;
    int radius[3];                    /* greatest of each axis */
    enum vp_edge edge;
    bool highpass;                    /* the input less that */
};

/* op->params of kernel "gauss". One input; in: u8 u16 i16 f32; out: the same or f32. halo[a] = axis[a].radius. */
struct vp_gauss {
    struct vp_passes passes;  /* first, as in every operation of separable filters */
    struct vp_taps axis[3];
    int users;                /* stages that share this, so that iterations have one set of tables */
};

struct vp_gauss_params {
    double sigma[3];          /* voxels; 0: axis untouched */
    double truncate;          /* in sigmas */
    int order[3];             /* derivative along each axis: 0, 1, 2 */
    double spacing[3];        /* of the voxels, for derivatives: per this unit (1: per voxel) */
    enum vp_edge edge;
    bool highpass;
    int64_t iterations;       /* >= 1 times all of it, one after the other, with f32 in between */
};

/* Append `iterations` stages to the chain: image `size` (size[2] may be VP_UNKNOWN) of stack 0 if the chain is empty,
 * else the last stage's result. VP_EUSAGE for parameters that make no sense, naming --sigma and --derivative. */
int vp_gauss_chain(struct vp_chain *c, const struct vp_gauss_params *p, const int64_t size[3], enum vp_type in,
                   enum vp_type out, struct vp_err *err);

#endif
