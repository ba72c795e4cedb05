/* SPDX-License-Identifier: BSD-3-Clause */
/* The option of img-local for a box of another size for every voxel: local/radius_map.h. */
#pragma once

#include "app/stat.h"

struct vp_radius_map_given { const char *file; };
extern const struct vp_opt vp_radius_map_options[];

/* Checks what does not depend on the input. -1: VP_EUSAGE. */
int vp_radius_map_check(const struct vp_radius_map_given *given, const struct vp_run *run,
                        const struct vp_stat_params *stat, struct vp_err *err);

/* Reads the radii, opens them as the second stack of opened images, and appends the operation to their chain. *result:
 * meaning of its samples. -1: VP_EUSAGE, VP_ERUN (unreadable, another size, radii that are negative or no whole
 * numbers), VP_ERESOURCE. */
int vp_radius_map_chain(struct vp_images *im, struct vp_run *run, const struct vp_radius_map_given *given,
                        const struct vp_stat_params *stat, struct vp_result *result, struct vp_err *err);
