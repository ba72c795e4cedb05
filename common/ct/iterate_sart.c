/* SPDX-License-Identifier: BSD-3-Clause */
/* sirt, os-sart, mlem and osem: one step of weighted sums for each block of views. */
#include "ct/iterate_internal.h"

#include "base/err.h"

#include <math.h>

/* Returns the views of the block that begins at `at` of the order. */
static int64_t block_views(const struct vp_iteration *it, int64_t at)
{
    const int64_t b = it->order[at] - it->job->first;
    return (it->views - b + it->job->blocks - 1) / it->job->blocks;
}

/* x += factor by / over */
static void add_weighted(void *ctx, int64_t at, int64_t n, struct vp_volume_sums *sums)
{
    const struct vp_update *u = ctx;
    for (int64_t i = at; i < at + n; i++) {
        const float before = u->x[i];
        if (u->over[i] > 0 && (!u->mask || u->mask[i] != 0))
            u->x[i] = vp_update_bounded(u->job, (double)before + u->factor * (double)u->by[i] / (double)u->over[i]);
        vp_update_count(sums, before, u->x[i]);
    }
}

/* x *= by / over */
static void multiply_weighted(void *ctx, int64_t at, int64_t n, struct vp_volume_sums *sums)
{
    const struct vp_update *u = ctx;
    for (int64_t i = at; i < at + n; i++) {
        const float before = u->x[i];
        if (u->over[i] > 0 && (!u->mask || u->mask[i] != 0))
            u->x[i] = vp_update_bounded(u->job, (double)before * (double)u->by[i] / (double)u->over[i]);
        vp_update_count(sums, before, u->x[i]);
    }
}

/* Checks that there are weights, and rays that meet voxels that may change. */
static int check_weights(struct vp_iteration *it, const struct vp_pass_sums *sums, struct vp_err *err)
{
    if (!(sums->weights > 0))
        return vp_fail(err, VP_ERUN, "the weights of all pixels are 0");
    vp_iterate_cut_out(it, it->volume[1]);
    if (vp_iterate_dot(it, it->volume[1], it->volume[1]) > 0)
        return 0;
    return vp_fail_hint(err, VP_ERUN, "check --volume, --center, --mask and the geometry", "no ray meets the volume");
}

/* Volumes: the sum, and A'W. */
static int start_weighted(struct vp_iteration *it, struct vp_iterate_state *state, bool resumed, struct vp_err *err)
{
    struct vp_pass_sums sums;
    (void)state, (void)resumed;
    if (vp_iterate_sum_weights(it, it->order, it->views, it->volume[1], &sums, err) || check_weights(it, &sums, err))
        return -1;
    return 0;
}

/* Begins with the uniform volume that has the sum of the projections. */
static int start_likelihood(struct vp_iteration *it, struct vp_iterate_state *state, bool resumed, struct vp_err *err)
{
    struct vp_pass_sums sums;
    if (start_weighted(it, state, resumed, err) || resumed || it->job->started)
        return err->code ? -1 : 0;
    vp_iterate_clear(it, it->volume[0]);
    if (vp_iterate_pass(it, VP_ITERATE_SCALED, it->order, it->views, NULL, it->volume[0], &sums, err))
        return -1;
    if (!(sums.total > 0 && sums.ones > 0))
        return vp_fail(err, VP_ERUN, "the sum of the projections is %g: expected more than 0", sums.total);
    vp_iterate_fill(it, it->job->x, sums.total / sums.ones);
    return 0;
}

static int step_weighted(struct vp_iteration *it, struct vp_iterate_state *state, struct vp_iterate_line *line,
                         struct vp_volume_sums *sums, struct vp_err *err)
{
    struct vp_iterate *const job = it->job;
    const bool additive = !vp_iterate_positive(job->method);
    const enum vp_iterate_kind pass = additive ? VP_ITERATE_SCALED : VP_ITERATE_RATIO;
    double square = 0, data = 0, likelihood = 0, change = 0;
    for (int64_t at = 0, n; at < it->views; at += n) {
        struct vp_pass_sums t, ignored;
        n = job->blocks > 1 ? block_views(it, at) : it->views;
        vp_iterate_clear(it, it->volume[0]);
        if (vp_iterate_pass(it, pass, it->order + at, n, job->x, it->volume[0], &t, err)
            || (job->blocks > 1 && vp_iterate_sum_weights(it, it->order + at, n, it->volume[1], &ignored, err)))
            return -1;
        const struct vp_update u = {.x = job->x, .by = it->volume[0], .over = it->volume[1], .factor = job->relax};
        *sums = vp_iterate_update(it, additive ? add_weighted : multiply_weighted, u);
        square += t.square;
        data += t.data;
        likelihood += t.likelihood;
        change += sums->change;
    }
    sums->change = change;
    state->scalar[0] = data;
    line->residual = sqrt(square);
    line->relative = data > 0 ? sqrt(square / data) : 0;
    line->objective = additive ? square / 2 : likelihood;
    line->step = additive ? job->relax : 1;
    return 0;
}

const struct vp_method vp_method_sirt = {
    .name = "sirt", .options = " relax min max ", .iterations = 100, .volumes = 2, .kept = 1, .scalars = 1, .unit = true,
    .start = start_weighted, .step = step_weighted,
};

const struct vp_method vp_method_os_sart = {
    .name = "os-sart", .options = " blocks relax min max ", .iterations = 10, .volumes = 2, .kept = 1, .scalars = 1, .unit = true,
    .start = start_weighted, .step = step_weighted,
};

const struct vp_method vp_method_mlem = {
    .name = "mlem", .options = " min max ", .iterations = 20, .positive = true, .volumes = 2, .kept = 1, .scalars = 1, .unit = true,
    .start = start_likelihood, .step = step_weighted,
};

const struct vp_method vp_method_osem = {
    .name = "osem", .options = " blocks min max ", .iterations = 10, .positive = true, .volumes = 2, .kept = 1, .scalars = 1,
    .unit = true, .start = start_likelihood, .step = step_weighted,
};
