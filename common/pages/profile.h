/* SPDX-License-Identifier: BSD-3-Clause */
/* Values along a line of a picture. */
#pragma once

#include "pages/render.h"

#include <stdio.h>

/* Prints "distance,x,y,value" and a line for each step of about one pixel from `from` to `to`, both included: values
 * between pixel centres are bilinear. Pixels are pixel[0] wide and pixel[1] high. -1: VP_EUSAGE, an end is
 * outside. */
int vp_profile_print(const struct vp_picture *p, const double from[2], const double to[2], const double pixel[2],
                     FILE *out, struct vp_err *err);
