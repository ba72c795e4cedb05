/* SPDX-License-Identifier: BSD-3-Clause */
#include "pages/profile.h"

#include "base/err.h"
#include "base/size.h"

#include <math.h>
#include <stdlib.h>

/* Returns the value at (x, y), within the picture; samples without a weight do not count, so their NaN does no harm. */
static double value_at(const struct vp_picture *p, double x, double y)
{
    const int64_t i = vp_min64((int64_t)x, vp_max64(p->w - 2, 0)), j = vp_min64((int64_t)y, vp_max64(p->h - 2, 0));
    const double fx = x - (double)i, fy = y - (double)j;
    double sum = 0;

    for (int k = 0; k < 4; k++) {
        const double w = (k & 1 ? fx : 1 - fx) * (k & 2 ? fy : 1 - fy);
        if (w > 0)
            sum += w * (double)p->v[(j + (k >> 1)) * p->w + i + (k & 1)];
    }
    return sum;
}

int vp_profile_make(struct vp_profile *f, const struct vp_picture *p, const double from[2], const double to[2],
                    const double pixel[2], struct vp_err *err)
{
    const double *const ends[] = {from, to};
    const double dx = to[0] - from[0], dy = to[1] - from[1];
    const int64_t steps = vp_max64(1, (int64_t)ceil(hypot(dx, dy) - 1e-9)), n = steps + 1;

    for (int e = 0; e < 2; e++)
        if (!(ends[e][0] >= 0 && ends[e][0] <= (double)(p->w - 1) && ends[e][1] >= 0
              && ends[e][1] <= (double)(p->h - 1)))
            return vp_fail(err, VP_EUSAGE, "--profile: expected positions from 0,0 to %lld,%lld, got %g,%g",
                           (long long)p->w - 1, (long long)p->h - 1, ends[e][0], ends[e][1]);
    double *const all = vp_alloc_raw((size_t)n, 4 * sizeof *all, "profile", err);
    if (!all)
        return -1;
    *f = (struct vp_profile){n, all, all + n, all + 2 * n, all + 3 * n};
    for (int64_t i = 0; i < n; i++) {
        const double t = (double)i / (double)steps;
        f->x[i] = from[0] + t * dx;
        f->y[i] = from[1] + t * dy;
        f->distance[i] = t * hypot(dx * pixel[0], dy * pixel[1]);
        f->value[i] = value_at(p, f->x[i], f->y[i]);
    }
    return 0;
}

void vp_profile_free(struct vp_profile *f)
{
    free(f->distance);
    *f = (struct vp_profile){0};
}

void vp_profile_print(const struct vp_profile *f, FILE *out)
{
    fprintf(out, "distance,x,y,value\n");
    for (int64_t i = 0; i < f->n; i++)
        fprintf(out, "%.9g,%.9g,%.9g,%.9g\n", f->distance[i], f->x[i], f->y[i], f->value[i]);
}
