/* SPDX-License-Identifier: BSD-3-Clause */
/* Options for samples that do not exist, and the mask as the images' second stack: local/missing.h has the rule. */
#pragma once

#include "base/opt.h"
#include "stack/stack.h"

struct vp_images;
struct vp_missing;
struct vp_run;

struct vp_missing_given {
    const char *missing, *mask;
    double coverage, fill;
    bool keeps;
};
extern const struct vp_opt vp_missing_options[];
extern const struct vp_opt vp_missing_mask_options[]; /* without --keep-missing and --fill, for results that are masks */

/* Fills im->missing from the options, for opened images of one stack, and opens the mask as their second
 * stack. -1: VP_EUSAGE, VP_ERUN (unreadable, another size or type). */
int vp_missing_open(struct vp_images *im, struct vp_run *run, const struct vp_missing_given *given,
                    struct vp_err *err);

/* Decides on the sample of a result of type `out` where there is none. -1: VP_EUSAGE, integers need one. */
int vp_missing_fill(struct vp_images *im, const struct vp_run *run, const struct vp_missing_given *given,
                    enum vp_type out, struct vp_err *err);

/* Computes the smallest and the largest finite sample that exists, as vp_images_range. */
int vp_missing_range(struct vp_images *im, struct vp_run *run, double range[2], struct vp_err *err);
