/* SPDX-License-Identifier: BSD-3-Clause */
/* Drawing into 8-bit pictures: rectangles and lines with smooth edges; label.h adds text. Coordinates are in pixels
 * from the upper left corner of the picture, so the centre of the first pixel is at (0.5, 0.5). What lies beyond the
 * picture is left out. */
#pragma once

#include <stdint.h>

struct vp_err;

/* Pixels, row major, of one sample (gray) or three (red, green, blue). */
struct vp_canvas {
    uint8_t *v;
    int64_t w, h;
    int samples;
};

/* Colours are 0xrrggbb; a gray canvas takes their green. */

/* Allocates a canvas of one colour. VP_ERESOURCE if it is larger than VP_SIDE_MAX on a side or memory is short. */
int vp_canvas_new(struct vp_canvas *c, int64_t w, int64_t h, int samples, uint32_t colour, struct vp_err *err);
void vp_canvas_free(struct vp_canvas *c);
/* Enlarges it: each pixel becomes zoom x zoom. */
int vp_canvas_enlarge(struct vp_canvas *c, int zoom, struct vp_err *err);
/* Mixes `share` (0 to 1) of a colour into a pixel. */
void vp_canvas_mix(struct vp_canvas *c, int64_t x, int64_t y, uint32_t colour, double share);
/* Fills a rectangle; a pixel that it covers in part gets that share of the colour. */
void vp_canvas_fill(struct vp_canvas *c, double x0, double y0, double x1, double y1, uint32_t colour);
/* Draws the lines from each of n points to the next, `width` thick and with round ends. A point that is not finite is a
 * gap; one alone is a dot. */
int vp_canvas_lines(struct vp_canvas *c, const double *x, const double *y, int64_t n, double width, uint32_t colour,
                    struct vp_err *err);
/* Returns the distance of a point to the line from a to b. */
double vp_canvas_distance(double x, double y, double ax, double ay, double bx, double by);
