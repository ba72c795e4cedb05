/* SPDX-License-Identifier: BSD-3-Clause */
#include "pages/canvas.h"

#include "base/err.h"
#include "base/size.h"
#include "pages/render.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

int vp_canvas_new(struct vp_canvas *c, int64_t w, int64_t h, int samples, uint32_t colour, struct vp_err *err)
{
    *c = (struct vp_canvas){.w = w, .h = h, .samples = samples};
    if (w < 1 || h < 1 || w > VP_SIDE_MAX || h > VP_SIDE_MAX)
        return vp_fail(err, VP_ERESOURCE, "picture: expected sides of 1 to %d pixels, got %lld x %lld", VP_SIDE_MAX,
                       (long long)w, (long long)h);
    c->v = vp_alloc_raw((size_t)(w * samples), (size_t)h, "picture", err);
    for (int64_t i = 0; c->v && i < w * h; i++)
        vp_canvas_mix(c, i % w, i / w, colour, 1);
    return c->v ? 0 : -1;
}

void vp_canvas_free(struct vp_canvas *c)
{
    free(c->v);
    *c = (struct vp_canvas){0};
}

int vp_canvas_enlarge(struct vp_canvas *c, int zoom, struct vp_err *err)
{
    const int samples = c->samples;
    struct vp_canvas large;

    if (zoom == 1)
        return 0;
    if (vp_canvas_new(&large, c->w * zoom, c->h * zoom, samples, 0, err))
        return -1;
    for (int64_t i = 0; i < large.w * large.h; i++)
        memcpy(large.v + i * samples, c->v + (i / large.w / zoom * c->w + i % large.w / zoom) * samples, (size_t)samples);
    vp_canvas_free(c);
    *c = large;
    return 0;
}

void vp_canvas_mix(struct vp_canvas *c, int64_t x, int64_t y, uint32_t colour, double share)
{
    if (x < 0 || x >= c->w || y < 0 || y >= c->h || !(share > 0))
        return;
    uint8_t *const at = c->v + (y * c->w + x) * c->samples;
    for (int i = 0; i < c->samples; i++) {
        const double to = colour >> (c->samples == 3 ? 16 - 8 * i : 8) & 255;
        at[i] = (uint8_t)(at[i] + (to - at[i]) * fmin(share, 1) + 0.5);
    }
}

/* Returns the part of [i, i + 1) that lies in [a, b). */
static double covered(int64_t i, double a, double b)
{
    return fmax(0, fmin(b, (double)i + 1) - fmax(a, (double)i));
}

/* Returns a place as a number of a pixel, within one of the canvas. */
static int64_t pixel_of(double at, int64_t n)
{
    return (int64_t)floor(fmin((double)n, fmax(-1, at)));
}

void vp_canvas_fill(struct vp_canvas *c, double x0, double y0, double x1, double y1, uint32_t colour)
{
    for (int64_t y = pixel_of(y0, c->h); y <= pixel_of(y1, c->h); y++)
        for (int64_t x = pixel_of(x0, c->w); x <= pixel_of(x1, c->w); x++)
            vp_canvas_mix(c, x, y, colour, covered(x, x0, x1) * covered(y, y0, y1));
}

double vp_canvas_distance(double x, double y, double ax, double ay, double bx, double by)
{
    const double dx = bx - ax, dy = by - ay, length = dx * dx + dy * dy;
    const double t = length > 0 ? fmin(1, fmax(0, ((x - ax) * dx + (y - ay) * dy) / length)) : 0;

    return hypot(x - ax - t * dx, y - ay - t * dy);
}

/* Raises the shares (of 255) of the pixels that a line covers. */
static void cover(const struct vp_canvas *c, uint8_t *share, const double from[2], const double to[2], double half)
{
    const double reach = half + 1;

    for (int64_t y = pixel_of(fmin(from[1], to[1]) - reach, c->h); y <= pixel_of(fmax(from[1], to[1]) + reach, c->h); y++)
        for (int64_t x = pixel_of(fmin(from[0], to[0]) - reach, c->w); x <= pixel_of(fmax(from[0], to[0]) + reach, c->w);
             x++) {
            const double d = vp_canvas_distance((double)x + 0.5, (double)y + 0.5, from[0], from[1], to[0], to[1]);
            const double part = rint(255 * fmin(1, fmax(0, half + 0.5 - d)));
            if (x >= 0 && x < c->w && y >= 0 && y < c->h && part > share[y * c->w + x])
                share[y * c->w + x] = (uint8_t)part;
        }
}

int vp_canvas_lines(struct vp_canvas *c, const double *x, const double *y, int64_t n, double width, uint32_t colour,
                    struct vp_err *err)
{
    /* mixed in once, so that joints are no darker */
    uint8_t *const share = vp_alloc((size_t)c->w, (size_t)c->h, "picture", err);

    if (!share)
        return -1;
    for (int64_t i = 0; i < n; i++) {
        const bool next = i + 1 < n && isfinite(x[i + 1]) && isfinite(y[i + 1]);
        const int64_t k = next ? i + 1 : i;
        if (isfinite(x[i]) && isfinite(y[i]))
            cover(c, share, (const double[]){x[i], y[i]}, (const double[]){x[k], y[k]}, width / 2);
    }
    for (int64_t i = 0; i < c->w * c->h; i++)
        vp_canvas_mix(c, i % c->w, i / c->w, colour, share[i] / 255.0);
    free(share);
    return 0;
}
