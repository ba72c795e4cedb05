/* SPDX-License-Identifier: BSD-3-Clause */
#include "ct/helix.h"

#include "base/size.h"

#include <math.h>

/* Sections of a turn, at least. */
enum { SECTIONS = 16 };

int64_t vp_helix_section(const struct vp_helix *h, const struct vp_grid *grid)
{
    int64_t n = 1;
    while (n < VP_HELIX_SECTION && 2 * (double)n * grid->voxel[2] * SECTIONS <= fabs(h->pitch))
        n *= 2;
    return n;
}

/* Returns the distance, mm, from the source's height to the middle of the part of the axis that a view sees. */
static double middle(const struct vp_helix *h)
{
    return (h->above - h->below) / 2;
}

int64_t vp_helix_margin(const struct vp_helix *h, const struct vp_view *views, int64_t n_views, int64_t nv,
                        const struct vp_grid *grid)
{
    const double half = fabs(h->pitch) * (1 + h->slope) / 2
                        + 0.5 * (double)vp_helix_section(h, grid) * grid->voxel[2];
    double most = 0;
    for (int64_t k = 0; k < n_views; k++) {
        struct vp_view v = views[k];
        const double near = v.P[11] * (vp_view_parallel(&v) ? 1 : 1 - h->rim);
        vp_view_raise(&v, h->z0 + h->pitch * v.turn);
        for (int i = -1; i <= 1; i += 2) {
            const double row = v.P[7] / v.P[11] + v.P[6] * (middle(h) + i * half) / near;
            most = fmax(most, fmax(-row, row - (double)(nv - 1)));
        }
    }
    return (int64_t)fmin(ceil(most), (double)nv);
}

/* Rises from 0 to 1 as t does from -1/2 to 1/2; step(t) + step(-t) = 1. */
static double step(double t)
{
    return t <= -0.5 ? 0 : t >= 0.5 ? 1 : 0.5 * (1 + sin(M_PI * t));
}

double vp_helix_share(const struct vp_helix *h, double turn, const struct vp_grid *grid, int64_t k)
{
    const int64_t section = vp_helix_section(h, grid);
    const double slice = (double)(k / section * section) + 0.5 * (double)(section - 1) - 0.5 * (double)(grid->n[2] - 1);
    const double at = (grid->center[2] + slice * grid->voxel[2] - middle(h) - h->z0) / h->pitch, x = at - turn;
    const double room = 2 * fmin(at - h->lo, h->hi - at) - 1;
    const double slope = fmax(fmin(room, h->slope), h->shortest);
    return step((x + 0.5) / slope) - step((x - 0.5) / slope);
}

double vp_helix_scale(const struct vp_helix *h, double turn, const struct vp_grid *grid, int64_t k)
{
    const double share = vp_helix_share(h, turn, grid, k);
    return share > 1e-6 ? 1 / sqrt(share) : 0;
}
