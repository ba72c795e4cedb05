/* SPDX-License-Identifier: BSD-3-Clause */
#include "ct/margin.h"

#include "base/size.h"
#include "ct/backproject.h"
#include "ct/orbit.h"

#include <math.h>

void vp_margin_of(const struct vp_projections *scan, const struct vp_grid *grid, int64_t *below, int64_t *above)
{
    enum { AROUND = 32 };
    const int64_t *n = grid->n;
    const double radius = 0.5 * (double)vp_min64(n[0], n[1]), slices = (double)n[2];
    double lo = -0.5, hi = slices - 0.5;
    for (int64_t s = 0; s < scan->n_views && !(scan->nv == 1 && n[2] == 1); s++) {
        double P[12];
        vp_backproject_matrix(&scan->views[s], grid, P);
        if (!vp_orbit_upright(P, scan->nu + scan->nv, n))
            continue;
        for (int at = 0; at < 2 * AROUND; at++) {
            const double angle = 2 * M_PI * (at / 2) / AROUND, edge = at % 2 ? (double)scan->nv - 0.5 : -0.5;
            const double i = 0.5 * (double)(n[0] - 1) + radius * cos(angle), j = 0.5 * (double)(n[1] - 1) + radius * sin(angle);
            /* height at which the edge of the detector sees the point (i, j) */
            const double k = (edge * vp_orbit_dot(P + 8, i, j, 0) - vp_orbit_dot(P + 4, i, j, 0)) / (P[6] - edge * P[10]);
            if (isfinite(k) && vp_orbit_dot(P + 8, i, j, k) > VP_ORBIT_NEAREST) {
                lo = fmin(lo, k);
                hi = fmax(hi, k);
            }
        }
    }
    *below = (int64_t)ceil(-0.5 - lo - 1e-6);
    *above = (int64_t)ceil(hi - (slices - 0.5) - 1e-6);
}
