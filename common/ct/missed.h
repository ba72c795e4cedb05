/* SPDX-License-Identifier: BSD-3-Clause */
/* Rays that miss a volume: what they measure is no part of it. */
#pragma once

#include "geom/geom.h"

/* The rays of a view, and the box of a grid, a voxel wider on each side. */
struct vp_missed {
    double ray[3][3];    /* ray[0] u + ray[1] v + ray[2]: direction (cone), or a point */
    double other[3];     /* source (cone), or direction */
    double lo[3], hi[3]; /* mm */
    double row_lo, row_hi; /* rows beyond them miss the box */
    bool cone;
};

void vp_missed_open(struct vp_missed *m, const struct vp_view *view, const struct vp_grid *grid);
/* True if the ray of pixel (u, v) does not meet the box. */
bool vp_missed(const struct vp_missed *m, double u, double v);
/* Sets the pixels [*u0, *u1) of row v, of nu, whose rays meet the box, in a few dozen tests: the image of a box is convex. */
void vp_missed_row(const struct vp_missed *m, int64_t v, int64_t nu, int64_t *u0, int64_t *u1);
