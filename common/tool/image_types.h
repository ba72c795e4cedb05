/* SPDX-License-Identifier: BSD-3-Clause */
/* The sample type that an operation gets of several stacks. */
#ifndef VP_IMAGE_TYPES_H
#define VP_IMAGE_TYPES_H

#include "tool/image.h"

/* im->type and im->all_i8: one of `types` (a mask) that holds the samples of all stacks, else refused with the way
 * out. */
int vp_images_type(struct vp_images *im, const struct vp_run *run, unsigned types, struct vp_err *err);

#endif
