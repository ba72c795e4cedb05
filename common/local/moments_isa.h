/* Inner loops of moments.c: rows of sums, built once for each instruction set. Private to moments.c. */
#pragma once

#include "local/moments.h"
#include "local/window.h"

/* Maximum number of merges for a window of w samples: doublings, and merges of the powers of two that add up to w. */
static inline int vp_moments_steps(int64_t w)
{
    int steps = 0;

    for (int64_t length = 2; length <= w; length *= 2)
        steps += 1 + ((w & length) != 0);
    return steps;
}

/* Offset in tile->rows, for rows of n voxels, of the cached counts of a row (8 + 4 n numbers), after the other rows. */
static inline size_t vp_moments_kept(const struct vp_sweep *w, int64_t n)
{
    const struct vp_moments_params *p = w->op->params;
    const int64_t r = w->op->halo[0];
    const int rows = p->sums != VP_SUM_SPREAD ? w->lanes
                   : w->f->shape != VP_BOX    ? 2 : 2 + 3 * vp_moments_steps(2 * r + 1);

    return vp_round64(vp_sweep_row(w->lane_size, n, r) * w->lane_size * (size_t)rows);
}

extern const struct vp_sweep_rows vp_moments_avx512[VP_N_TYPES][VP_SUM_N], vp_moments_avx2[VP_N_TYPES][VP_SUM_N],
    vp_moments_generic[VP_N_TYPES][VP_SUM_N];
