/* SPDX-License-Identifier: BSD-3-Clause */
/* Plots: a frame with ticks at round numbers, a histogram or a line in it. */
#pragma once

#include "pages/canvas.h"

#include <stdbool.h>

struct vp_err;
struct vp_histogram;

struct vp_stack;

/* Makes the canvas of a plot: of size[0] x size[1] pixels, or 800 x 500 if size[0] is 0. VP_EUSAGE: less than
 * 200 x 120; VP_ERESOURCE: it does not fit `memory`. */
int vp_plot_new(struct vp_canvas *c, const int64_t size[2], uint64_t memory, struct vp_err *err);
/* Writes the label of an axis of values: the quantity of the samples with its unit, or "value". */
void vp_plot_name_values(const struct vp_stack *in, char text[96]);

/* Titles of the axes, UTF-8. */
struct vp_plot_labels { const char *across, *up; };

/* Draws a histogram. `log`: counts are on a logarithmic axis, from 0.5 on. */
void vp_plot_histogram(struct vp_canvas *c, const struct vp_histogram *h, bool log, const struct vp_plot_labels *labels);
/* Draws the line through n points with x ascending, and changes them; NaN and infinities leave a gap. range: lower and
 * upper end of the axis of y; NULL: from the points. */
int vp_plot_line(struct vp_canvas *c, double *x, double *y, int64_t n, const double *range,
                 const struct vp_plot_labels *labels, struct vp_err *err);
