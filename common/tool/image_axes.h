/* SPDX-License-Identifier: BSD-3-Clause */
/* What the pages of the inputs are: images side by side, planes of one, images after one another. */
#ifndef VP_IMAGE_AXES_H
#define VP_IMAGE_AXES_H

#include "tool/image.h"

/* Which stacks are one page for all pages of the others, and whose axes and metadata count. */
int vp_images_compare(struct vp_images *im, struct vp_err *err);
/* Sizes, voxel and axes of that stack. */
int vp_images_axes(struct vp_images *im, struct vp_err *err);

#endif
