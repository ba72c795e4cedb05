/* SPDX-License-Identifier: BSD-3-Clause */
#include "pages/scale_bar.h"

#include "base/err.h"
#include "pages/label.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define LARGEST_SHARE 0.3 /* share of the width of the picture, if the length is chosen */
#define TEXT_SHARE 0.005  /* share of the mean side of the picture, for a unit of the font */
#define TEXT_MOST 0.01    /* share of its shorter side */

double vp_round_down(double x)
{
    const double power = pow(10, floor(log10(x))), part = x / power * (1 + 1e-12);

    return part >= 10 ? 10 * power : (part >= 5 ? 5 : part >= 2 ? 2 : 1) * power;
}

/* Heights and distances, in units of the font. */
#define BAR_HEIGHT 1.6
#define MARGIN 4.0
#define BETWEEN 2.5
#define OUTLINE 0.6

/* Writes a length with its unit: short millimetres as micrometres or nanometres. */
static void make_label(char label[48], double length, const char *unit)
{
    const bool metric = unit && !strcmp(unit, "mm");
    const int thousands = metric && length < 0.9999e-4 ? 2 : metric && length < 0.0999 ? 1 : 0;
    const char *const name = thousands == 2 ? "nm" : thousands ? "\xc2\xb5m" : unit ? unit : "";

    snprintf(label, 48, "%.6g %.32s", length * pow(1000, thousands), !strcmp(name, "pixel") ? "px" : name);
}

int vp_scale_bar_make(struct vp_scale_bar *b, double length, double pixel, const char *unit, int64_t w, int64_t h,
                      struct vp_err *err)
{
    const double shorter = (double)(w < h ? w : h), mean = sqrt((double)w * (double)h);

    b->size = fmax(1, fmin(TEXT_MOST * shorter, TEXT_SHARE * mean));
    b->length = length > 0 ? length : vp_round_down(LARGEST_SHARE * (double)w * pixel);
    b->pixels = rint(b->length / pixel);
    make_label(b->label, b->length, unit);
    const double text = vp_text_width(b->label) * b->size, margins = 2 * MARGIN * b->size;
    const double high = (VP_TEXT_HEIGHT + BETWEEN + BAR_HEIGHT) * b->size + margins;
    if (!(b->pixels >= 1))
        return vp_fail(err, VP_EUSAGE, "--scale-bar: %s is less than a pixel of the picture (%.6g)", b->label, pixel);
    if (b->pixels + margins > (double)w)
        return vp_fail(err, VP_EUSAGE, "--scale-bar: %s is too long for a picture of %.6g", b->label,
                       (double)w * pixel);
    if (text + margins > (double)w || high > (double)h)
        return vp_fail_hint(err, VP_EUSAGE, "--zoom N enlarges the picture",
                            "--scale-bar: expected a picture of %.0f x %.0f pixels or more, got %lld x %lld",
                            ceil(text + margins), ceil(high), (long long)w, (long long)h);
    return 0;
}

void vp_scale_bar_draw(const struct vp_scale_bar *b, struct vp_canvas *c)
{
    const double text = vp_text_width(b->label) * b->size, wide = fmax(text, b->pixels), margin = rint(MARGIN * b->size);
    const double outline = fmax(1, rint(OUTLINE * b->size)), high = fmax(2, rint(BAR_HEIGHT * b->size));
    const double right = (double)c->w - margin, middle = right - wide / 2;
    const double x0 = floor(middle - b->pixels / 2), y0 = (double)c->h - margin - high;
    const double tx = rint(middle - text / 2), ty = rint(y0 - (BETWEEN + VP_TEXT_HEIGHT) * b->size);

    vp_canvas_fill(c, x0 - outline, y0 - outline, x0 + b->pixels + outline, y0 + high + outline, 0x000000);
    vp_text_draw(c, tx, ty, b->size, outline, 0x000000, b->label);
    vp_canvas_fill(c, x0, y0, x0 + b->pixels, y0 + high, 0xffffff);
    vp_text_draw(c, tx, ty, b->size, 0, 0xffffff, b->label);
}
