/* SPDX-License-Identifier: BSD-3-Clause */
#include "pages/plot.h"

#include "base/err.h"
#include "base/size.h"
#include "pages/label.h"
#include "pages/scale_bar.h"
#include "pages/statistics.h"

#include <float.h>
#include <math.h>
#include <stdio.h>

enum { INK = 0x303030, GRID = 0xe2e2e2, PAPER = 0xffffff, BARS = 0x4878a8, LINE = 0x1f5f9f };

enum { WIDTH = 800, HEIGHT = 500, LEAST_WIDTH = 200, LEAST_HEIGHT = 120 };

int vp_plot_new(struct vp_canvas *c, const int64_t size[2], uint64_t memory, struct vp_err *err)
{
    const int64_t w = size[0] ? size[0] : WIDTH, h = size[0] ? size[1] : HEIGHT;

    if (w < LEAST_WIDTH || h < LEAST_HEIGHT)
        return vp_fail_hint(err, VP_EUSAGE, "blocks of a terminal are too coarse for it: use sixel, kitty or -o plot.png",
                            "a plot needs %d x %d pixels, got %lld x %lld", LEAST_WIDTH, LEAST_HEIGHT, (long long)w,
                            (long long)h);
    if ((double)w * (double)h * 4 > (double)memory) /* with one byte for the line */
        return vp_fail_hint(err, VP_ERESOURCE, "allow more with --memory", "a plot of %lld x %lld pixels needs %s, the "
                            "memory limit is %s", (long long)w, (long long)h,
                            vp_bytes_text((uint64_t)((double)w * (double)h * 4)).text, vp_bytes_text(memory).text);
    return vp_canvas_new(c, w, h, 3, PAPER, err);
}

void vp_plot_name_values(const struct vp_stack *in, char text[96])
{
    const char *const quantity = vp_meta_get(&in->meta, "quantity"), *const unit = vp_meta_get(&in->meta, "value-unit");

    snprintf(text, 96, unit ? "%.40s (%.40s)" : "%.40s", quantity ? quantity : "value", unit);
}

/* One of the two axes; log: the ends are logarithms to base 10. */
struct plot_axis {
    double lo, hi;
    bool log, counts;
    double step;        /* between ticks */
    double from, to;    /* ends in pixels */
};

static double pixels_of(const struct plot_axis *a, double v)
{
    return a->from + (v - a->lo) / (a->hi - a->lo) * (a->to - a->from);
}

/* Returns the smallest of 1, 2 and 5 times a power of ten that is at least x. */
static double round_up(double x)
{
    const double below = vp_round_down(x);

    return below >= x * (1 - 1e-9) ? below : vp_round_down(below * 2.5 * (1 + 1e-9));
}

/* Writes the number at a tick: counts with the suffixes of thousands, millions and so on. */
static void tick_label(const struct plot_axis *a, double v, char text[32])
{
    const double most = fmax(fabs(a->lo), fabs(a->hi));
    const int thousands = a->counts ? (int)fmin(4, floor(log10(a->step) / 3 + 1e-9)) : 0;
    const double shown = fabs(v) < 1e-9 * a->step ? 0 : v / pow(1000, fmax(0, thousands));

    if (a->log)
        snprintf(text, 32, "%.0f", v < 3.5 ? pow(10, v) : 10);
    else if (thousands > 0)
        snprintf(text, 32, v > 0 ? "%.0f%c" : "0", shown, " kMGT"[thousands]);
    else if (most < 1e6 && a->step >= 0.99e-5)
        snprintf(text, 32, "%.*f", (int)fmax(0, ceil(-log10(a->step) - 1e-9)), shown);
    else
        snprintf(text, 32, "%.6g", shown);
}

/* Returns the width of the text at a tick, in units of the font. */
static double tick_width(const struct plot_axis *a, double v, char text[32])
{
    char power[8];

    tick_label(a, v, text);
    if (!a->log || v < 3.5)
        return vp_text_width(text);
    snprintf(power, sizeof power, "%.0f", v);
    return vp_text_width(text) + 1 + 0.7 * vp_text_width(power);
}

/* Draws the text at a tick, with its upper left corner at (x, y); a power of ten above 1000 with its exponent. */
static void draw_tick(struct vp_canvas *c, const struct plot_axis *a, double v, double x, double y, double size)
{
    char text[32], power[8];

    tick_label(a, v, text);
    vp_text_draw(c, x, y, size, 0, INK, text);
    if (!a->log || v < 3.5)
        return;
    snprintf(power, sizeof power, "%.0f", v);
    vp_text_draw(c, x + (vp_text_width(text) + 1) * size, y - 2.5 * size, 0.7 * size, 0, INK, power);
}

static double first_tick(const struct plot_axis *a)
{
    return ceil(a->lo / a->step - 1e-9) * a->step;
}

/* Sets the distance of ticks, at most `most` of them; whole decades on a logarithmic axis, and whole counts. */
static void set_ticks(struct plot_axis *a, double most)
{
    const double step = round_up((a->hi - a->lo) / fmax(1, most));

    a->step = a->log || a->counts ? fmax(1, step) : step;
    a->step = fmax(a->step, 8 * DBL_EPSILON * fmax(fabs(a->lo), fabs(a->hi))); /* a tick is less than the next one */
}

/* A frame on a canvas. */
struct plot_frame {
    struct plot_axis across, up;
    double size; /* size of the text */
};

/* Clears the canvas and draws the frame, its grid and all text. The axes have their ends in numbers. */
static void draw_frame(struct vp_canvas *c, struct plot_frame *f, const struct vp_plot_labels *labels)
{
    const double s = f->size = fmax(1, 0.0042 * (double)(c->h < c->w ? c->h : c->w)), thin = fmax(1, rint(s / 2));
    const double row = VP_TEXT_HEIGHT * s;
    struct plot_axis *const across = &f->across, *const up = &f->up;
    double widest = 0;
    char text[32];

    up->from = rint((double)c->h - 2 * row - 9 * s);
    up->to = rint(row + 9 * s);
    set_ticks(up, (up->from - up->to) / (4 * row));
    for (double v = first_tick(up); v <= up->hi + 1e-9 * up->step; v += up->step)
        widest = fmax(widest, tick_width(up, v, text));
    across->from = rint((widest + 6) * s);
    across->to = rint((double)c->w - 10 * s);
    set_ticks(across, (across->to - across->from) / (40 * s));
    for (double wide = 0; wide < 2; wide++) { /* once more if the labels are too wide for the number of ticks */
        double longest = 0;
        for (double v = first_tick(across); v <= across->hi + 1e-9 * across->step; v += across->step)
            longest = fmax(longest, tick_width(across, v, text));
        const double room = across->step / (across->hi - across->lo) * (across->to - across->from);
        if ((longest + 8) * s > room)
            set_ticks(across, (across->to - across->from) / ((longest + 8) * s));
    }
    vp_canvas_fill(c, 0, 0, (double)c->w, (double)c->h, PAPER);
    for (double v = first_tick(up); v <= up->hi + 1e-9 * up->step; v += up->step) {
        const double y = floor(pixels_of(up, v));
        vp_canvas_fill(c, across->from, y, across->to, y + thin, GRID);
        draw_tick(c, up, v, across->from - 3 * s - tick_width(up, v, text) * s, y + thin / 2 - row / 2, s);
    }
    for (double v = first_tick(across); v <= across->hi + 1e-9 * across->step; v += across->step) {
        const double x = floor(pixels_of(across, v));
        vp_canvas_fill(c, x, up->to, x + thin, up->from, GRID);
        vp_canvas_fill(c, x, up->from, x + thin, up->from + 2 * s, INK);
        draw_tick(c, across, v, x + thin / 2 - tick_width(across, v, text) * s / 2, up->from + 4 * s, s);
    }
    const double middle = (across->from + across->to) / 2 - vp_text_width(labels->across) * s / 2;
    vp_text_draw(c, middle, up->from + 7 * s + row, s, 0, INK, labels->across);
    vp_text_draw(c, 3 * s, 3 * s, s, 0, INK, labels->up);
}

/* Draws the two axes themselves, over what the frame holds. */
static void draw_axes(struct vp_canvas *c, const struct plot_frame *f)
{
    const double thin = fmax(1, rint(f->size / 2));

    vp_canvas_fill(c, f->across.from - thin, f->up.to, f->across.from, f->up.from + thin, INK);
    vp_canvas_fill(c, f->across.from - thin, f->up.from, f->across.to, f->up.from + thin, INK);
}

#define LEAST_COUNT 0.5 /* lower end of a logarithmic axis: one sample has a bar */

void vp_plot_histogram(struct vp_canvas *c, const struct vp_histogram *h, bool log, const struct vp_plot_labels *labels)
{
    struct plot_frame f = {.across = {.lo = h->lo, .hi = h->hi}, .up = {.log = log, .counts = !log}};
    double most = 1;

    for (int i = 0; i < h->bins; i++)
        most = fmax(most, (double)h->count[i]);
    f.up.lo = log ? log10(LEAST_COUNT) : 0;
    f.up.hi = log ? fmax(1, log10(most) + 0.1) : 1.05 * most;
    draw_frame(c, &f, labels);
    for (int i = 0; i < h->bins; i++) {
        const double x0 = rint(pixels_of(&f.across, h->edge[i])), x1 = rint(pixels_of(&f.across, h->edge[i + 1]));
        const double n = (double)h->count[i];
        if (n > 0)
            vp_canvas_fill(c, x0, pixels_of(&f.up, log ? log10(n) : n), fmax(x1, x0 + 1), f.up.from, BARS);
    }
    draw_axes(c, &f);
}

int vp_plot_line(struct vp_canvas *c, double *x, double *y, int64_t n, const double *range,
                 const struct vp_plot_labels *labels, struct vp_err *err)
{
    double lo = HUGE_VAL, hi = -HUGE_VAL;

    for (int64_t i = 0; i < n; i++)
        if (isfinite(y[i])) {
            lo = fmin(lo, y[i]);
            hi = fmax(hi, y[i]);
        }
    if (range) {
        lo = range[0];
        hi = range[1];
    } else {
        const double pad = hi > lo ? 0.06 * (hi - lo) : hi == lo && hi != 0 ? 0.5 * fabs(hi) : 1;
        lo = isfinite(lo) ? lo - pad : 0;
        hi = isfinite(hi) ? hi + pad : 1;
    }
    struct plot_frame f = {.across = {.lo = x[0], .hi = x[n - 1] > x[0] ? x[n - 1] : x[0] + 1},
                           .up = {.lo = lo, .hi = hi}};
    draw_frame(c, &f, labels);
    for (int64_t i = 0; i < n; i++) {
        x[i] = pixels_of(&f.across, x[i]);
        y[i] = isfinite(y[i]) ? pixels_of(&f.up, fmax(lo, fmin(hi, y[i]))) : NAN;
    }
    if (vp_canvas_lines(c, x, y, n, fmax(1.5, 0.9 * f.size), LINE, err))
        return -1;
    draw_axes(c, &f);
    return 0;
}
