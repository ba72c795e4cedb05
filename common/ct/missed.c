/* SPDX-License-Identifier: BSD-3-Clause */
#include "ct/missed.h"

#include "base/size.h"
#include "ct/backproject.h"
#include "ct/orbit.h"

#include <math.h>

/* Returns the rows [*lo, *hi] that the corners of the box are seen in; all, if one of them is not in front of the source. */
static void rows_of(const struct vp_view *view, const struct vp_grid *grid, double *lo, double *hi)
{
    double P[12];
    vp_backproject_matrix(view, grid, P);
    *lo = INFINITY;
    *hi = -INFINITY;
    for (int corner = 0; corner < 8; corner++) {
        double at[3];
        for (int a = 0; a < 3; a++)
            at[a] = corner >> a & 1 ? (double)grid->n[a] + 0.5 : -1.5;
        const double w = vp_orbit_dot(P + 8, at[0], at[1], at[2]), v = vp_orbit_dot(P + 4, at[0], at[1], at[2]) / w;
        *lo = w > VP_ORBIT_NEAREST ? fmin(*lo, v - 1) : -INFINITY;
        *hi = w > VP_ORBIT_NEAREST ? fmax(*hi, v + 1) : INFINITY;
        if (!(w > VP_ORBIT_NEAREST))
            return;
    }
}

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
    rows_of(view, grid, &m->row_lo, &m->row_hi);
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

/* Returns the first of pixels (from, to) of the row that is missed, or not missed, as pixel `to` is and `from` is not. */
static int64_t edge(const struct vp_missed *m, int64_t v, int64_t from, int64_t to)
{
    const bool last = vp_missed(m, (double)to, (double)v);
    while (to - from > 1) {
        const int64_t u = (from + to) / 2;
        if (vp_missed(m, (double)u, (double)v) == last)
            to = u;
        else
            from = u;
    }
    return to;
}

void vp_missed_row(const struct vp_missed *m, int64_t v, int64_t nu, int64_t *u0, int64_t *u1)
{
    enum { STEP = 32 };
    int64_t first = -1, last = -1;
    *u0 = *u1 = 0;
    if ((double)v < m->row_lo || (double)v > m->row_hi)
        return;
    for (int64_t step = STEP; step >= 1 && first < 0; step = step > 1 ? 1 : 0) /* a row may meet less than a step */
        for (int64_t u = 0; u < nu; u += step)
            if (!vp_missed(m, (double)u, (double)v)) {
                first = first < 0 ? u : first;
                last = u;
            }
    if (first < 0)
        return;
    const int64_t end = vp_min64(last + STEP, nu - 1);
    *u0 = first == 0 ? 0 : edge(m, v, vp_max64(first - STEP, 0) - (first < STEP), first);
    *u1 = last == nu - 1 || !vp_missed(m, (double)end, (double)v) ? end + 1 : edge(m, v, last, end);
}
