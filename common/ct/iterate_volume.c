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
    struct vp_volume_sums all = {.min = INFINITY, .max = -INFINITY};
#pragma omp parallel for num_threads(it->job->threads) schedule(dynamic, 1)
    for (int64_t i = 0; i < n; i++) {
        const int64_t at = i / parts * it->page + i % parts * PART, end = (i / parts + 1) * it->page;
        it->slices[i] = (struct vp_volume_sums){.min = INFINITY, .max = -INFINITY};
        work(ctx, at, vp_min64(PART, end - at), &it->slices[i]);
    }
    for (int64_t i = 0; i < n; i++) {
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

struct vp_volume_sums vp_iterate_update(struct vp_iteration *it, vp_slice_work *work, struct vp_update u)
{
    u.job = it->job;
    u.mask = it->job->mask;
    return vp_iterate_slices(it, work, &u);
}

/* x += factor by */
static void add_multiple(void *ctx, int64_t at, int64_t n, struct vp_volume_sums *sums)
{
    const struct vp_update *u = ctx;
    for (int64_t i = at; i < at + n; i++) {
        const float before = u->x[i];
        u->x[i] = (float)((double)before + u->factor * (double)u->by[i]);
        vp_update_count(sums, before, u->x[i]);
    }
}

struct vp_volume_sums vp_iterate_add(struct vp_iteration *it, float *x, double factor, const float *by)
{
    return vp_iterate_update(it, add_multiple, (struct vp_update){.x = x, .by = by, .factor = factor});
}

static void cut_out(void *ctx, int64_t at, int64_t n, struct vp_volume_sums *sums)
{
    const struct vp_update *u = ctx;
    (void)sums;
    for (int64_t i = at; i < at + n && u->mask; i++)
        u->x[i] = u->mask[i] != 0 ? u->x[i] : 0;
}

void vp_iterate_cut_out(struct vp_iteration *it, float *x)
{
    vp_iterate_update(it, cut_out, (struct vp_update){.x = x});
}

static void fill(void *ctx, int64_t at, int64_t n, struct vp_volume_sums *sums)
{
    const struct vp_update *u = ctx;
    (void)sums;
    for (int64_t i = at; i < at + n; i++)
        u->x[i] = !u->mask || u->mask[i] != 0 ? (float)u->factor : 0;
}

void vp_iterate_fill(struct vp_iteration *it, float *x, double value)
{
    vp_iterate_update(it, fill, (struct vp_update){.x = x, .factor = value});
}
