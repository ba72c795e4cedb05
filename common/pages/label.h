/* SPDX-License-Identifier: BSD-3-Clause */
/* Text drawn into pictures. */
#pragma once

#include "pages/canvas.h"

enum { VP_LABEL_WIDTH = 6, VP_LABEL_HEIGHT = 9 }; /* cell of a character at zoom 1, pixels */

/* Draws text, white on black, into a gray picture of w x h pixels, with the upper left corner at (x, y). Characters
 * beyond ASCII are blank; what lies beyond the picture is left out. */
void vp_label_draw(uint8_t *pixels, int64_t w, int64_t h, int64_t x, int64_t y, int zoom, const char *text);

/* Text of smooth strokes at any size, in the same font. Capitals are seven units high; a unit is `size` pixels. The
 * text is UTF-8: ASCII and the micro sign; others are question marks. */
enum { VP_TEXT_HEIGHT = 7 };
/* Returns the width of a text in units: without the space after its last character. */
int vp_text_width(const char *text);
/* Draws it with the upper left corner of the first capital at (x, y). Each stroke is `bold` pixels thicker than usual: for
 * an outline the text is drawn twice. */
void vp_text_draw(struct vp_canvas *c, double x, double y, double size, double bold, uint32_t colour, const char *text);
