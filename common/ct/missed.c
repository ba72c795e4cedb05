/* SPDX-License-Identifier: BSD-3-Clause */
#include "ct/missed.h"

#include <math.h>

void vp_missed_open(struct vp_missed *m, const struct vp_view *view, const struct vp_grid *grid)
{
    vp_view_rays(view, m->ray);
    vp_view_source(view, m->other);
    m->cone = !vp_view_parallel(view);
    for (int a = 0; a < 3; a++) {
        const double half = (0.5 * (double)grid->n[a] + 1) * grid->voxel[a];
        m->lo[a] = grid->center[a] - half;
        m->hi[a] = grid->center[a] + half;
    }
}

bool vp_missed(const struct vp_missed *m, double u, double v)
{
    double from = m->cone ? 0 : -INFINITY, to = INFINITY;

    for (int a = 0; a < 3; a++) {
        const double y = m->ray[0][a] * u + m->ray[1][a] * v + m->ray[2][a];
        const double s = m->cone ? m->other[a] : y, d = m->cone ? y : m->other[a];
        if (d == 0 && (s < m->lo[a] || s > m->hi[a]))
            return true;
        if (d == 0)
            continue;
        const double one = (m->lo[a] - s) / d, two = (m->hi[a] - s) / d;
        from = fmax(from, fmin(one, two));
        to = fmin(to, fmax(one, two));
    }
    return from > to;
}
