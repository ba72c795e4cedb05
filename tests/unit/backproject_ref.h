/* Back-projection by its definition, per voxel, in float64: voxel (i, j, k) of the grid. */
#pragma once

#include "base/err.h"
#include "base/size.h"
#include "ct/backproject.h"
#include "ct/orbit.h"

#include <math.h>

/* Begins to back-project on the CPU to a slab of its own, malloc'd; NULL: out of memory. */
static inline float *backproject_begin(struct vp_backproject *b)
{
    struct vp_err err = VP_ERR_INIT;
    float *voxels = vp_alloc_raw((size_t)vp_tiles_floats(vp_backproject_tiles(b)), sizeof *voxels, "the slab", &err);
    if (voxels)
        vp_backproject_begin(b, voxels, true);
    return voxels;
}

static inline double backproject_ref(const struct vp_view *views, int64_t n_views, int64_t nu, int64_t nv,
                                     const struct vp_grid *grid, const float *proj, int64_t i, int64_t j, int64_t k)
{
    const double x = (double)i, y = (double)j, z = (double)k;
    double sum = 0, P[12];
    for (int64_t s = 0; s < n_views; s++) {
        vp_backproject_matrix(&views[s], grid, P);
        const double w = vp_orbit_dot(P + 8, x, y, z);
        const double u = vp_orbit_dot(P, x, y, z) / w, v = vp_orbit_dot(P + 4, x, y, z) / w;
        if (!(w > VP_ORBIT_NEAREST && u > -1 && u < (double)nu && v > -1 && v < (double)nv))
            continue;
        for (int c = 0; c < 4; c++) {
            const int64_t m = (int64_t)floor(u) + (c & 1), n = (int64_t)floor(v) + (c >> 1);
            const double hat = (1 - fabs(u - (double)m)) * (1 - fabs(v - (double)n));
            if (m >= 0 && m < nu && n >= 0 && n < nv)
                sum += hat * (double)proj[(s * nv + n) * nu + m] / (w * w);
        }
    }
    return sum;
}
