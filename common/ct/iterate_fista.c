/* SPDX-License-Identifier: BSD-3-Clause */
/* fista-tv: accelerated proximal gradients. */
#include "ct/iterate_internal.h"

#include "base/size.h"
#include "base/stats.h"

#include <math.h>

enum { TV_TIME, TV_NORM };

/* Volumes: v, three of the dual, z, and the next x. */
static int start_smooth(struct vp_iteration *it, struct vp_iterate_state *state, bool resumed, struct vp_err *err)
{
    struct vp_iterate *const job = it->job;
    if (resumed) {
        job->norm = state->scalar[TV_NORM];
        return 0;
    }
    if (vp_iterate_norm(it, err))
        return -1;
    state->scalar[TV_TIME] = 1;
    state->scalar[TV_NORM] = job->norm;
    vp_iterate_copy(it, it->volume[0], job->x);
    for (int a = 1; a <= 3; a++)
        vp_iterate_clear(it, it->volume[a]);
    return 0;
}

/* z = v + factor z within the mask, elsewhere x. */
static void descend(void *ctx, int64_t at, int64_t n, struct vp_volume_sums *sums)
{
    const struct vp_update *u = ctx;
    (void)sums;
    for (int64_t i = at; i < at + n; i++)
        u->to[i] = !u->mask || u->mask[i] != 0 ? (float)((double)u->by[i] + u->factor * (double)u->to[i]) : u->x[i];
}

/* The product of v - next and next - x, which is above 0 where the momentum points uphill. */
static void compare(void *ctx, int64_t at, int64_t n, struct vp_volume_sums *sums)
{
    const struct vp_update *u = ctx;
    for (int64_t i = at; i < at + n; i++)
        sums->product += ((double)u->by[i] - (double)u->to[i]) * ((double)u->to[i] - (double)u->x[i]);
}

/* v = next + factor (next - x), x = next */
static void advance(void *ctx, int64_t at, int64_t n, struct vp_volume_sums *sums)
{
    const struct vp_update *u = ctx;
    for (int64_t i = at; i < at + n; i++) {
        const float before = u->x[i], next = u->to[i];
        u->more[i] = (float)((double)next + u->factor * ((double)next - (double)before));
        u->x[i] = next;
        vp_update_count(sums, before, next);
    }
}

static int step_smooth(struct vp_iteration *it, struct vp_iterate_state *state, struct vp_iterate_line *line,
                       struct vp_volume_sums *sums, struct vp_err *err)
{
    struct vp_iterate *const job = it->job;
    float *const v = it->volume[0], *const z = it->volume[4], *const next = it->volume[5];
    struct vp_pass_sums t;
    vp_iterate_clear(it, z);
    if (vp_iterate_pass(it, VP_ITERATE_RESIDUAL, it->order, it->views, v, z, &t, err))
        return -1;
    const double begun = vp_now(), variation = vp_iterate_variation(it, v);
    vp_iterate_update(it, descend, (struct vp_update){.x = job->x, .by = v, .to = z, .factor = 1 / job->norm});
    vp_iterate_smooth(it, z, job->tv / job->norm, &it->volume[1], next);
    const double uphill = vp_iterate_update(it, compare, (struct vp_update){.x = job->x, .by = v, .to = next}).product;
    const double time = uphill > 0 ? 1 : state->scalar[TV_TIME], later = (1 + sqrt(1 + 4 * time * time)) / 2;
    *sums = vp_iterate_update(it, advance, (struct vp_update){.x = job->x, .to = next, .more = v, .factor = (time - 1) / later});
    vp_stats_time(job->stats, "prox", vp_now() - begun);
    state->scalar[TV_TIME] = later;
    line->residual = sqrt(t.square);
    line->relative = t.data > 0 ? sqrt(t.square / t.data) : 0;
    line->objective = t.square / 2 + job->tv * variation;
    line->step = 1 / job->norm;
    return 0;
}

const struct vp_method vp_method_fista_tv = {
    .name = "fista-tv", .options = " min max tv norm ", .iterations = 60, .volumes = 6, .kept = 5, .scalars = 2,
    .start = start_smooth, .step = step_smooth,
};
