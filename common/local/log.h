/* SPDX-License-Identifier: BSD-3-Clause */
/* Laplacian of Gaussian: kernel "log" of engine/op.h. Sum over the axes of the second derivative along one (order 2)
 * and the Gaussian (order 0) along the others, in seven 1-D passes of local/gauss.h's arithmetic instead of nine:
 *
 *     a = Gx(in)   b = G''x(in)
 *     q = Gy(a)    p = Gy(b) + G''y(a)
 *     out = Gz(p) + G''z(q)                 (2-D: out = p)
 *
 * each term rounded to binary32, then added. Terms of axes that are left out (radius 0) are left out: their G is
 * the identity, their G'' is nothing (so is b without x, and p without x and y).
 * With VP_EDGE_RENORMALIZE zero on constants and ramps and exact on quadratics up to the last voxel (gauss.h). */
#ifndef VP_LOG_H
#define VP_LOG_H

#include "local/gauss.h"

/* op->params of kernel "log". One input: u8 u16 i16 f32; out: f32. smooth[a] and second[a] have the same radius,
 * the halo. second[a].gain holds units and scale. */
struct vp_log {
    struct vp_passes passes; /* first */
    struct vp_taps smooth[3], second[3];
};

struct vp_log_params {
    double sigma[3];          /* voxels; 0: the axis has no part in it */
    double truncate;          /* in sigmas */
    double spacing[3];        /* second derivatives per square of this unit (1: per voxel^2) */
    bool normalize;           /* times sigma^2 of each axis, in the same unit: comparable between scales */
    enum vp_edge edge;
};

/* Append one stage, as vp_gauss_chain does. */
int vp_log_chain(struct vp_chain *c, const struct vp_log_params *p, const int64_t size[3], enum vp_type in,
                 struct vp_err *err);

#endif
