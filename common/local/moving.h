/* SPDX-License-Identifier: BSD-3-Clause */
/* Windows that move along x: the lines of the image that they reach, which gain and lose one sample each at every step.
 * Private to rank.c and entropy.c. */
#ifndef VP_MOVING_H
#define VP_MOVING_H

#include "local/window.h"

/* Samples x0 ... x1 (offsets from the voxel, both inside) of one input row. */
struct vp_line { const char *row; int64_t x0, x1; };

static inline const char *vp_part_row(const struct vp_part *part, int64_t y, int64_t z, size_t size)
{
    return (const char *)part->plane[z - part->box.lo[2]] + (size_t)((y - part->box.lo[1]) * part->stride) * size;
}

/* How many lines a window has at most. */
static inline int64_t vp_lines_most(const struct vp_footprint *f, const struct vp_box *in)
{
    if (f->shape == VP_BALL)
        return f->spans;
    return vp_min64(2 * f->reach[1] + 1, vp_box_size(in, 1)) * vp_min64(2 * f->reach[2] + 1, vp_box_size(in, 2));
}

/* The lines inside the image of windows around row y, z; returns how many. `row` is where the part's first sample of
 * that row is. */
static inline int64_t vp_lines(struct vp_line *line, const struct vp_footprint *f, const int64_t *image,
                               const struct vp_part *part, size_t size, int64_t y, int64_t z)
{
    int64_t n = 0;

    if (f->shape == VP_BOX) {
        const int64_t y0 = vp_max64(y - f->reach[1], 0), y1 = vp_min64(y + f->reach[1], image[1] - 1);
        const int64_t z0 = vp_max64(z - f->reach[2], 0), z1 = vp_min64(z + f->reach[2], image[2] - 1);
        for (int64_t sz = z0; sz <= z1; sz++)
            for (int64_t sy = y0; sy <= y1; sy++)
                line[n++] = (struct vp_line){vp_part_row(part, sy, sz, size), -f->reach[0], f->reach[0]};
        return n;
    }
    for (int64_t i = 0; i < f->spans; i++) {
        const int64_t sy = y + f->span[i].dy, sz = z + f->span[i].dz;
        if (sy >= 0 && sy < image[1] && sz >= 0 && sz < image[2])
            line[n++] = (struct vp_line){vp_part_row(part, sy, sz, size), f->span[i].x0, f->span[i].x1};
    }
    return n;
}

#endif
