/* SPDX-License-Identifier: BSD-3-Clause */
/* Options of a voxel's neighbourhood: a box or an ellipsoid of given lengths, or the samples of a stack. */
#pragma once

#include "base/opt.h"
#include "local/footprint.h"

struct vp_images;
struct vp_run;

struct vp_footprint_params {
    struct vp_reals radius;
    int shape;               /* enum vp_shape */
    const char *file;        /* --footprint; NULL: none */
    struct vp_reals center;  /* its sample that lies on the voxel; none: number n / 2 of n along each axis */
};
extern const struct vp_opt vp_footprint_options[];
extern const struct vp_opt vp_footprint_file_options[]; /* --footprint and --center alone; the table above has them */

/* Makes a box or an ellipsoid. -1: VP_EUSAGE. */
int vp_footprint_make(struct vp_footprint *f, const struct vp_footprint_params *p, const struct vp_images *im,
                      struct vp_err *err);

/* Makes the neighbourhood that the options mean, for opened images; reads the file, whose pages are planes. -1:
 * VP_EUSAGE, VP_ERUN (unreadable; NaN; no sample that is not 0; more than VP_FOOTPRINT_MAX samples; several planes for
 * single images), VP_ERESOURCE. */
int vp_footprint_open(struct vp_footprint *f, struct vp_run *run, const struct vp_footprint_params *p,
                      const struct vp_images *im, struct vp_err *err);
