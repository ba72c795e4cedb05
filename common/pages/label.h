/* SPDX-License-Identifier: BSD-3-Clause */
/* Numbers drawn into pictures. */
#pragma once

#include <stdint.h>

enum { VP_LABEL_WIDTH = 6, VP_LABEL_HEIGHT = 9 }; /* cell of a character at zoom 1, pixels */

/* Draws digits, points, signs and stars, white on black, into a gray picture of w x h pixels, with the upper left corner
 * at (x, y). Other characters are blank; what lies beyond the picture is left out. */
void vp_label_draw(uint8_t *pixels, int64_t w, int64_t h, int64_t x, int64_t y, int zoom, const char *text);
