/* SPDX-License-Identifier: BSD-3-Clause */
/* Laplacian of Gaussian: operation "log". Sum over the axes of the second derivative along one (order 2)
 * and the Gaussian (order 0) along the others, in seven 1-D passes of separable.h's arithmetic instead of nine:
 *
 *     a = Gx(in)   b = G''x(in)
 *     q = Gy(a)    p = Gy(b) + G''y(a)
 *     out = Gz(p) + G''z(q)                 (2-D: out = p)
 *
 * each term rounded to binary32, then added. Terms of axes that are left out (radius 0) are left out: their G is
 * the identity, their G'' is 0 (so are b without x, and p without x and y).
 * With VP_EDGE_RENORMALIZE zero on constants and ramps and exact on quadratics up to the last voxel (separable.h). */
#pragma once

#include "local/separable.h"

struct vp_log_params {
    double sigma[3];          /* voxels; 0: axis left out */
    double truncate;          /* sigmas */
    double spacing[3];        /* units per voxel: second derivatives are per unit^2 (1: per voxel^2) */
    bool normalize;           /* multiply by sigma^2 of each axis, in the same unit: comparable between scales */
    enum vp_edge edge;
};

/* Appends one stage to the chain, as vp_gauss_chain; out: f32. Both filters of an axis have the same radius; the gain of
 * the second derivative holds units and scale. VP_EUSAGE for invalid parameters, naming --sigma or --truncate. */
int vp_log_chain(struct vp_chain *c, const struct vp_log_params *p, const int64_t size[3], enum vp_type in,
                 struct vp_err *err);
