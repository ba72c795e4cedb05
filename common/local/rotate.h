/* SPDX-License-Identifier: BSD-3-Clause */
/* Images turned by any angle about an axis through their centre: operation "rotate". Positions are in f64, and a result
 * is computed in f64 and rounded once, to the type of the output.
 *
 * Voxel o of the output shows the point that lies at M (o - c') + c of the input: c and c' are the centres of the two
 * images, M is the inverse turn, scaled for voxels that are not cubes. Samples cover squares: a position belongs to the
 * image from -1/2 to n - 1/2 along each axis.
 *   nearest  the sample next to the position; if two are equally near, the one with the larger index
 *   linear   weights 1 - |t| at the distance t along each of the two axes
 *   cubic    weights of Keys (1981) with a = -1/2 (Catmull-Rom), |t| < 2
 * Weights are those of the samples that exist, and sum to one. If every position is that of a sample, as for quarter
 * turns of cubes, samples are copied. */
#pragma once

#include "engine/chain.h"

enum vp_rotate_method { VP_ROTATE_NEAREST, VP_ROTATE_LINEAR, VP_ROTATE_CUBIC };

struct vp_rotate_params {
    int about;              /* axis of the turn: 0 x (from y to z), 1 y (from z to x), 2 z (from x to y) */
    double degrees;
    double voxel[3];        /* spacing of voxels, the same before and after */
    int64_t in[3], out[3];  /* voxels of the images; in[about] equals out[about] and may be VP_UNKNOWN */
    enum vp_rotate_method method;
    bool edge;              /* positions outside take the value of the nearest position inside */
    double outside;         /* sample for positions outside, unless edge */
};

/* Sets out[] for a result of the same size, or the smallest that contains the whole turned image. */
void vp_rotate_same(struct vp_rotate_params *p);
void vp_rotate_whole(struct vp_rotate_params *p);

/* True if every voxel is a sample, whatever the method. */
bool vp_rotate_exact(const struct vp_rotate_params *p);

/* Appends the stage; input and output are of one type. 64-bit integers with the method nearest or an exact turn only
 * (VP_EUSAGE). VP_ERESOURCE: memory. */
int vp_rotate_chain(struct vp_chain *c, const struct vp_rotate_params *p, enum vp_type type, struct vp_err *err);
