/* SPDX-License-Identifier: BSD-3-Clause */
/* Colour maps of pictures. */
#pragma once

#include "pages/render.h"

enum vp_colours {
    VP_COLOURS_GRAY, VP_COLOURS_VIRIDIS, VP_COLOURS_MAGMA, VP_COLOURS_INFERNO, VP_COLOURS_PLASMA, VP_COLOURS_HOT,
    VP_COLOURS_BLUE_RED, VP_COLOURS_LABELS
};
#define VP_COLOURS_CHOICES "gray|viridis|magma|inferno|plasma|hot|blue-red|labels"

/* Colours the samples of a picture: three bytes for each pixel into dst. Maps but the last go from lo to hi (reversed
 * with invert); labels are whole numbers, 0 is black and each other number has a colour of its own, whatever the
 * window. NaN is black. */
void vp_picture_colour(const struct vp_picture *p, enum vp_colours map, double lo, double hi, bool invert,
                       uint8_t *dst);
