/* SPDX-License-Identifier: BSD-3-Clause */
/* Tap tables of one 1-D Gaussian filter or derivative; separable.h has the arithmetic. */
#pragma once

#include "engine/edge.h"
#include "base/err.h"

enum { VP_TAPS_MAX_RADIUS = 2048 };

struct vp_taps {
    int order;        /* order of the derivative: 0, 1, 2 */
    int radius;       /* R; 0 (only with order 0): the identity */
    int reach;        /* radius of the interior weights: R, or 1 where only the edges need R = 2 (order 1) */
    enum vp_edge edge;
    double sigma;     /* voxels */
    double gain;      /* factor of all weights of a derivative: 1 / spacing^order, a scale; 1 for order 0 */
    double *bell;     /* unnormalised Gaussian at 0 ... R */
    float *t;         /* R interior taps */
    float *scale;     /* R factors; VP_EDGE_RENORMALIZE and order 0, else NULL */
    /* VP_EDGE_RENORMALIZE and order 1 or 2, else NULL: tables of R x R. hi >= R: row lo (0 ... R-1) has the R taps
     * up[lo * R + k] and down[lo * R + k], 0 beyond the edge. hi < R, lo >= R: row hi of far_up and far_down (up' =
     * s down, down' = s up with s = -1 for order 2, 1 for order 1). lo, hi < R: vp_taps_edge. */
    float *up, *down, *far_up, *far_down;
    /* The same tables in f64, or NULL. */
    struct vp_taps_f64 { double *t, *scale, *up, *down, *far_up, *far_down; } f64;
};

/* Makes the tables. Radius: (int)(truncate * sigma + 0.5) as in SciPy, but at least `order` voxels for derivatives, and
 * 2 where the edges need three samples. sigma in voxels, truncate in sigmas. VP_EUSAGE: radius above
 * VP_TAPS_MAX_RADIUS; VP_ERESOURCE: out of memory. The caller frees *t with vp_taps_free. */
int vp_taps_make(struct vp_taps *t, double sigma, double truncate, int order, double gain, enum vp_edge edge,
                 struct vp_err *err);
/* Adds the tables in f64 to taps that are made. VP_ERESOURCE; the caller frees *t in any case. */
int vp_taps_make_f64(struct vp_taps *t, struct vp_err *err);
void vp_taps_free(struct vp_taps *t);
/* Fills the R taps up[] and R taps down[] of a voxel with lo voxels before and hi voxels after it along the axis (any
 * lo, hi >= 0; only the first R count). For VP_EDGE_RENORMALIZE. The rows of t->up and t->down equal these. */
void vp_taps_edge(const struct vp_taps *t, int64_t lo, int64_t hi, float *up, float *down);
void vp_taps_edge_f64(const struct vp_taps *t, int64_t lo, int64_t hi, double *up, double *down);
/* Returns the number of floats in up, down, far_up and far_down together. */
static inline size_t vp_taps_edge_floats(const struct vp_taps *t)
{
    return t->up ? 4 * (size_t)t->radius * (size_t)t->radius : 0;
}
