/* SPDX-License-Identifier: BSD-3-Clause */
/* The largest eigenvalue of A'W A, between two quotients of volumes before and after it. */
#include "ct/iterate_internal.h"

#include "base/err.h"

#include <math.h>

struct quotients { const float *z, *w; };

/* The largest quotient w / z as max, and the sums of squares of both. */
static void divide(void *ctx, int64_t at, int64_t n, struct vp_volume_sums *sums)
{
    const struct quotients *q = ctx;
    for (int64_t i = at; i < at + n; i++) {
        const double z = (double)q->z[i], w = (double)q->w[i];
        if (z > 0)
            sums->max = fmax(sums->max, w / z);
        sums->square += z * z;
        sums->product += w * w;
    }
}

int vp_iterate_norm(struct vp_iteration *it, struct vp_err *err)
{
    enum { STEPS = 5 };
    float *z = it->volume[0], *w = it->volume[1];
    double norm = INFINITY;
    if (it->job->norm > 0)
        return 0;
    vp_iterate_fill(it, z, 1);
    for (int step = 0; step < STEPS; step++) {
        struct vp_pass_sums sums;
        vp_iterate_clear(it, w);
        if (vp_iterate_pass(it, VP_ITERATE_NORMAL, it->order, it->views, z, w, &sums, err))
            return -1;
        if (!(sums.weights > 0))
            return vp_fail(err, VP_ERUN, "the weights of all pixels are 0");
        vp_iterate_cut_out(it, w);
        const struct vp_volume_sums q = vp_iterate_slices(it, &(struct vp_slice_use){.read = {z, w}}, divide,
                                                         &(struct quotients){z, w});
        if (!(q.product > 0))
            return vp_fail_hint(err, VP_ERUN, "check --volume, --center, --mask and the geometry", "no ray meets the volume");
        norm = fmin(norm, q.max * (1 + 1e-5)); /* float32 rounds each of the two products */
        it->job->least_norm = sqrt(q.product / q.square);
        /* z = w, of the size of 1 */
        vp_iterate_clear(it, z);
        vp_iterate_add(it, z, 1 / sqrt(q.product / q.square), w);
    }
    it->job->norm = norm;
    return 0;
}
