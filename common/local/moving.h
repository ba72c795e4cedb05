/* SPDX-License-Identifier: BSD-3-Clause */
/* Windows that move along x: image rows within a window, each of which gains and loses one sample at every step.
 * Private to rank.c and entropy.c. */
#pragma once

#include "local/window.h"

/* Samples x0 ... x1 (offsets from the voxel, both included) of one input row. */
struct vp_window_line { const char *row; int64_t x0, x1; };

/* Returns the maximum number of lines of a window. */
static inline int64_t vp_lines_most(const struct vp_footprint *f, const struct vp_box *in)
{
    if (f->shape != VP_BOX)
        return f->spans;
    return vp_min64(2 * f->reach[1] + 1, vp_box_size(in, 1)) * vp_min64(2 * f->reach[2] + 1, vp_box_size(in, 2));
}

#define VP_MOVING static inline __attribute__((always_inline))

/* Window of the voxels of a row of the image. */
struct vp_moving {
    struct vp_window_line *line;
    int64_t lines;
    int64_t nx, first; /* size of the image; x of the first sample of the lines' rows */
    int64_t n;         /* samples in it */
};

/* Moves the window to row y, z of the image: sets the lines inside the image. */
static inline void vp_moving_row(struct vp_moving *m, const struct vp_footprint *f, const int64_t *image,
                                 const struct vp_part *part, size_t size, int64_t y, int64_t z)
{
    const int64_t first = part->box.lo[0];

    m->lines = m->n = 0;
    m->nx = image[0];
    m->first = first;
    if (f->shape == VP_BOX) {
        const int64_t y0 = vp_max64(y - f->reach[1], 0), y1 = vp_min64(y + f->reach[1], image[1] - 1);
        const int64_t z0 = vp_max64(z - f->reach[2], 0), z1 = vp_min64(z + f->reach[2], image[2] - 1);
        for (int64_t sz = z0; sz <= z1; sz++)
            for (int64_t sy = y0; sy <= y1; sy++)
                m->line[m->lines++]
                    = (struct vp_window_line){vp_part_at(part, size, first, sy, sz), -f->reach[0], f->reach[0]};
        return;
    }
    for (int64_t i = 0; i < f->spans; i++) {
        const struct vp_span *s = &f->span[i];
        const int64_t sy = y + s->dy, sz = z + s->dz;
        if (sy >= 0 && sy < image[1] && sz >= 0 && sz < image[2])
            m->line[m->lines++] = (struct vp_window_line){vp_part_at(part, size, first, sy, sz), s->x0, s->x1};
    }
}

/* Loops over the samples of the window of voxel x. Returns their number. */
VP_MOVING int64_t vp_moving_all(const struct vp_moving *m, int64_t x,
                                void (*take)(void *to, const char *row, int64_t i), void *to)
{
    int64_t n = 0;

    for (int64_t k = 0; k < m->lines; k++) {
        const struct vp_window_line *l = &m->line[k];
        const int64_t from = vp_max64(x + l->x0, 0), end = vp_min64(x + l->x1, m->nx - 1) + 1;
        for (int64_t i = from; i < end; i++)
            take(to, l->row, i - m->first);
        n += vp_max64(end - from, 0);
    }
    return n;
}

/* Moves from voxel x to the next: loops over the samples that leave the window, and those that enter it, inside the
 * image. */
VP_MOVING void vp_moving_on(struct vp_moving *m, int64_t x, int64_t reach,
                            void (*leave)(void *to, const char *row, int64_t i),
                            void (*enter)(void *to, const char *row, int64_t i),
                            void (*both)(void *to, const char *row, int64_t leaves, int64_t enters), void *to)
{
    const struct vp_window_line *const end = m->line + m->lines;
    const bool inside = x >= reach && x + 1 + reach < m->nx;

    const int64_t at = x - m->first;

    for (const struct vp_window_line *l = m->line; inside && l < end; l++)
        both(to, l->row, at + l->x0, at + 1 + l->x1);
    for (const struct vp_window_line *l = m->line; !inside && l < end; l++) {
        const int64_t out = x + l->x0, in = x + 1 + l->x1;
        if (out >= 0 && out < m->nx) {
            leave(to, l->row, out - m->first);
            m->n--;
        }
        if (in >= 0 && in < m->nx) {
            enter(to, l->row, in - m->first);
            m->n++;
        }
    }
}
