/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/neighbourhood.h"

#include "tool/image.h"

const struct vp_opt vp_footprint_options[] = {
    VP_REALS(struct vp_footprint_params, radius, "radius", 'r', .metavar = "R|RX,RY,RZ", .def = "1",
             .min = 0, .max = VP_RADIUS_MAX, .group = "Neighbourhood",
             .help = "how far the neighbourhood reaches, in voxels",
             .more = "One number for all axes, or one for each of x, y, z; 0 leaves an axis out. The neighbourhood "
                     "holds the voxels whose centres are at most so far away: --radius 1 is 3 x 3 x 3 voxels as a "
                     "box and the six neighbours with the voxel itself as a ball. With --physical in the unit of the "
                     "voxel size. At the edge of the image the voxels that exist are used."),
    VP_CHOICE(struct vp_footprint_params, shape, "shape", 0, "box|ball", .metavar = "SHAPE", .def = "box",
              .help = "box or ball (an ellipsoid where the radii differ)"),
    VP_OPT_END,
};

int vp_footprint_make(struct vp_footprint *f, const struct vp_footprint_params *p, const struct vp_images *im,
                      struct vp_err *err)
{
    double radius[3];

    if (vp_image_lengths(im, "radius", &p->radius, radius, err))
        return -1;
    if (im->size[2] == 1)
        radius[2] = 0;
    return vp_footprint_init(f, p->shape ? VP_BALL : VP_BOX, radius, err);
}
