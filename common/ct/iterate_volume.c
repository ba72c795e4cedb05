/* SPDX-License-Identifier: BSD-3-Clause */
/* Volumes of an iteration, slice by slice: sums do not depend on threads. */
#include "ct/iterate_internal.h"

#include "base/size.h"

#include <math.h>
#include <string.h>

struct vp_volume_sums vp_iterate_slices(struct vp_iteration *it, vp_slice_work *work, void *ctx)
{
    enum { PART = 1 << 16 }; /* a large slice is several parts, for threads */
    const int64_t parts = vp_div_up(it->page, PART), n = it->job->grid->n[2] * parts;
    struct vp_err err = VP_ERR_INIT;
    struct vp_volume_sums all = {.min = INFINITY, .max = -INFINITY};
#pragma omp parallel for num_threads(it->job->threads) schedule(dynamic, 1)
    for (int64_t i = it->z0 * parts; i < it->z1 * parts; i++) {
        const int64_t at = i / parts * it->page + i % parts * PART, end = (i / parts + 1) * it->page;
        it->slices[i] = (struct vp_volume_sums){.min = INFINITY, .max = -INFINITY};
        work(ctx, at, vp_min64(PART, end - at), &it->slices[i]);
    }
    if (!it->trouble.code
        && vp_share_all(&it->job->share, it->slices, it->job->grid->n[2], it->grain, (uint64_t)parts * sizeof *it->slices, &err))
        vp_err_keep(&it->trouble, &err);
    for (int64_t i = 0; i < n && !it->trouble.code; i++) {
        const struct vp_volume_sums *s = &it->slices[i];
        all.min = fmin(all.min, s->min);
        all.max = fmax(all.max, s->max);
        all.sum += s->sum;
        all.square += s->square;
        all.change += s->change;
        all.product += s->product;
    }
    return all;
}

void vp_iterate_next(struct vp_iteration *it, float *x, bool after)
{
    struct vp_err err = VP_ERR_INIT;
    if (!it->trouble.code && vp_share_next(&it->job->share, x, it->job->grid->n[2], it->grain, (uint64_t)it->page * sizeof *x,
                                           after, &err))
        vp_err_keep(&it->trouble, &err);
}

struct pair_of_volumes { const float *a, *b; };

static void multiply(void *ctx, int64_t at, int64_t n, struct vp_volume_sums *sums)
{
    const struct pair_of_volumes *v = ctx;
    for (int64_t i = at; i < at + n; i++)
        sums->product += (double)v->a[i] * (double)v->b[i];
}

double vp_iterate_dot(struct vp_iteration *it, const float *a, const float *b)
{
    return vp_iterate_slices(it, multiply, &(struct pair_of_volumes){a, b}).product;
}

static void clear(void *ctx, int64_t at, int64_t n, struct vp_volume_sums *sums)
{
    (void)sums;
    memset((float *)ctx + at, 0, (size_t)n * sizeof(float));
}

void vp_iterate_clear(struct vp_iteration *it, float *x)
{
    vp_iterate_slices(it, clear, x);
}
