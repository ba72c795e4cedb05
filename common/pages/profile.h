/* SPDX-License-Identifier: BSD-3-Clause */
/* Values along a line of a picture. */
#pragma once

#include "pages/render.h"

#include <stdio.h>

/* n points: their distance from the first, their place in pixels, and the values there. */
struct vp_profile {
    int64_t n;
    double *distance, *x, *y, *value; /* one allocation, that of distance */
};
/* Makes a point for each step of about one pixel from `from` to `to`, both included: values between pixel centres are
 * bilinear. Pixels are pixel[0] wide and pixel[1] high. -1: VP_EUSAGE, an end is outside; VP_ERESOURCE. */
int vp_profile_make(struct vp_profile *f, const struct vp_picture *p, const double from[2], const double to[2],
                    const double pixel[2], struct vp_err *err);
void vp_profile_free(struct vp_profile *f);
/* Prints "distance,x,y,value" and a line for each point. */
void vp_profile_print(const struct vp_profile *f, FILE *out);
