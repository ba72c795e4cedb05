/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of --plan. */
#ifndef VP_IMAGE_SHOW_H
#define VP_IMAGE_SHOW_H

#include "tool/image_plan.h"

void vp_images_show(const struct vp_images *im, struct vp_run *run, const struct vp_image_job *j,
                    enum vp_type stored_out);

#endif
