/* Footprint: the neighbourhood of a voxel in window operations, a box or an ellipsoid around it, or any set of offsets.
 * Shared by minimum, maximum, moments, ranks and entropy, on every device.
 *
 * A voxel belongs to the footprint if its centre is no farther than the radius from the middle: |dx| <= rx, |dy| <= ry,
 * |dz| <= rz for a box, (dx/rx)^2 + (dy/ry)^2 + (dz/rz)^2 <= 1 for a ball (of radius 1: the six neighbours and the
 * voxel itself; of radius 1.5: the 18 that share a face or an edge with it). Radii get 1e-6 voxels on top, so that
 * 0.3 mm in voxels of 0.1 mm are 3.
 *
 * At the edge of the image the footprint is clipped to the image. */
#pragma once

#include "engine/op.h"

#define VP_RADIUS_MAX 1e6

#define VP_FOOTPRINT_MAX (1 << 20) /* samples of the grid that a set of offsets is given on */

enum vp_shape { VP_BOX, VP_BALL, VP_OFFSETS };

/* Offsets (x0..x1, dy, dz), both ends inside. */
struct vp_span { int32_t dz, dy, x0, x1; };

/* Boxes and balls are symmetric in each axis and contain the voxel itself; sets need not. */
struct vp_footprint {
    enum vp_shape shape;
    double radius[3];       /* requested x, y, z, voxels; not of a set */
    int64_t lo[3], hi[3];   /* smallest and largest dx, dy, dz */
    int64_t reach[3];       /* largest |dx|, |dy|, |dz|: the halo */
    int64_t count;          /* voxels */
    int64_t spans;          /* ball: one for each (dz, dy); set: one or more; dz slowest, each ascending. Box: 0 */
    struct vp_span *span;   /* NULL for a box */
};

/* Makes a footprint of radii in voxels, each in [0, VP_RADIUS_MAX]; a ball of at most 2^31 voxels (radius 644), else
 * VP_EUSAGE. The caller frees it with vp_footprint_free. */
int vp_footprint_init(struct vp_footprint *f, enum vp_shape shape, const double radius[3], struct vp_err *err);
void vp_footprint_free(struct vp_footprint *f);

/* Makes a footprint of the offsets p - center of all positions p of a grid of n[0] x n[1] x n[2] <= VP_FOOTPRINT_MAX
 * samples that are not 0 (x fastest); at least one is not. A set that is a box or a ball becomes that: all of a box
 * around the centre; an ellipsoid whose radii are its reach, or half a voxel more, or one radius for all axes. The
 * caller frees it with vp_footprint_free. VP_ERESOURCE. */
int vp_footprint_set(struct vp_footprint *f, const uint8_t *sample, const int64_t n[3], const int64_t center[3],
                     struct vp_err *err);
/* Makes the footprint of the opposite offsets, which the caller frees. VP_ERESOURCE. */
int vp_footprint_reflect(struct vp_footprint *to, const struct vp_footprint *f, struct vp_err *err);
/* True if the voxel itself is part of it. */
bool vp_footprint_centered(const struct vp_footprint *f);

/* Begins an operation over a footprint: one input, stack 0 (set op->from[0] for another); halo: the reach, limited by
 * the image's size. Returns its params: `size` bytes that begin with a copy of f, else zeros, released by op->free
 * (vp_footprint_op_free). NULL: VP_ERESOURCE. */
void *vp_footprint_op(struct vp_op *op, const char *kernel, size_t size, const struct vp_footprint *f,
                      const int64_t image[3], enum vp_type in, enum vp_type out, struct vp_err *err);
void vp_footprint_op_free(void *params);
/* Returns the maximum number of samples of a neighbourhood in the image of such an operation. */
double vp_footprint_most(const struct vp_footprint *f, const struct vp_op *op);

/* "box 31 x 31 x 1", "ball of radius 5 5 2.5, 203 voxels", "footprint 4 x 4 x 1, 12 voxels" */
const char *vp_footprint_text(const struct vp_footprint *f, char *text, size_t size);
/* Returns the maximum number of image rows of a neighbourhood. */
static inline int64_t vp_footprint_rows(const struct vp_footprint *f)
{
    return f->shape != VP_BOX ? f->spans : (2 * f->reach[1] + 1) * (2 * f->reach[2] + 1);
}
