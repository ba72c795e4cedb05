/* SPDX-License-Identifier: BSD-3-Clause */
/* A writer of PNG and of animated PNG. */
#pragma once

#include <stdint.h>

struct vp_err;
struct vp_outfile;

/* Writes an 8-bit PNG of w x h pixels of one byte (gray) or three (red, green, blue), the same bytes for the same
 * pixels; each pixel becomes zoom x zoom. */
int vp_png_write(struct vp_outfile *f, const uint8_t *pixels, int colours, int64_t w, int64_t h, int zoom,
                 struct vp_err *err);

/* An animated PNG that is written frame by frame and repeats for ever. Programs that do not know it show the first
 * frame. */
struct vp_apng {
    struct vp_outfile *file;
    int64_t w, h;       /* pixels of a frame, before the zoom */
    int colours, zoom;
    int64_t frames;     /* promised */
    double rate;        /* frames per second, 0.1 to 60 */
    /* private to png.c */
    int64_t done;
    uint32_t sequence;
};
/* Writes what comes before the frames. */
int vp_apng_open(const struct vp_apng *a, struct vp_err *err);
/* Adds a frame, of pixels as for vp_png_write(). */
int vp_apng_add(struct vp_apng *a, const uint8_t *pixels, struct vp_err *err);
/* Writes the end, after all frames. */
int vp_apng_end(const struct vp_apng *a, struct vp_err *err);
