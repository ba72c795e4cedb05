/* SPDX-License-Identifier: BSD-3-Clause */
/* Scale bars. */
#pragma once

#include "pages/canvas.h"

/* Returns the largest of 1, 2 and 5 times a power of ten that is at most x > 0. */
double vp_round_down(double x);

struct vp_scale_bar {
    double length;   /* in the unit of the voxel size */
    double pixels;   /* the same in pixels of the picture */
    double size;     /* size of the text, see vp_text_draw() */
    char label[48];  /* "50 µm" */
};
/* Makes a scale bar for a picture of w x h pixels, each `pixel` wide in `unit` ("mm", or any other; NULL: none).
 * length 0: the largest round number that is at most 0.3 of the picture's width. VP_EUSAGE: it does not fit. */
int vp_scale_bar_make(struct vp_scale_bar *b, double length, double pixel, const char *unit, int64_t w, int64_t h,
                      struct vp_err *err);
/* Draws it at the lower right, white with a black outline. */
void vp_scale_bar_draw(const struct vp_scale_bar *b, struct vp_canvas *c);
