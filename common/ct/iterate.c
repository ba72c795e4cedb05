/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of methods, and the loop around them. */
#include "ct/iterate_internal.h"

#include "base/err.h"
#include "base/progress.h"
#include "base/size.h"
#include "base/spill.h"
#include "base/stats.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double TAU = 1.02;     /* factor of the noise in the discrepancy principle (Morozov 1966) */

/* ---- blocks of views ---- */

/* Returns the bits of b, of n numbers, in the opposite order. */
static int64_t reversed(int64_t b, int64_t n)
{
    int64_t r = 0;
    for (int64_t bit = 1; bit < n; bit *= 2, b /= 2)
        r = 2 * r + b % 2;
    return r;
}

/* Orders the views, block after block: block b has every views b, b + blocks, ..., and blocks far apart follow each
 * other, in the order of their reversed bits. */
static void order_views(struct vp_iteration *it)
{
    const int64_t blocks = it->job->blocks;
    int64_t power = 1, at = 0;
    while (power < blocks)
        power *= 2;
    for (int64_t i = 0; i < power; i++) {
        const int64_t b = reversed(i, power);
        for (int64_t s = b; b < blocks && s < it->views; s += blocks)
            it->order[at++] = it->job->first + s;
    }
}

#define ROW(id, name, method) [id] = &method,
static const struct vp_method *const methods[] = {VP_ITERATE_METHODS(ROW)};

const struct vp_method *vp_method_of(enum vp_iterate_method method)
{
    return methods[method];
}

const char *vp_iterate_name(enum vp_iterate_method method)
{
    return methods[method]->name;
}

int vp_iterate_usual(enum vp_iterate_method method)
{
    return methods[method]->iterations;
}

bool vp_iterate_has(enum vp_iterate_method method, const char *option)
{
    const size_t n = strlen(option);
    const char *at = methods[method]->options;
    while ((at = strstr(at, option)) && (at[-1] != ' ' || at[n] != ' '))
        at += n;
    return at != NULL;
}

bool vp_iterate_positive(enum vp_iterate_method method)
{
    return methods[method]->positive;
}

bool vp_iterate_rereads(const struct vp_iterate *it)
{
    return it->iterations > methods[it->method]->reads;
}

/* ---- memory ---- */

static int open_buffers(struct vp_iteration *it, struct vp_err *err)
{
    struct vp_iterate *const job = it->job;
    const struct vp_method *m = methods[job->method];
    const size_t view = (size_t)it->view, group = VP_PAIR_VIEWS * sizeof(float);
    const int64_t parts = job->grid->n[2] * (it->page / (1 << 16) + 2);
    if (!job->pair && vp_iterate_plan(job, err))
        return -1;
    it->pair = job->pair;
    const bool planned = job->place.used;
    const int64_t unit = vp_iterate_unit(job);
    const int rc = vp_pair_use(it->pair, &job->place, err);
    if (planned && !job->place.used) /* the devices have failed: the CPU takes other memory */
        vp_iterate_divide(job);
    if (vp_iterate_agree(job, rc, err))
        return -1;
    if (planned && !job->place.used && vp_iterate_bytes(job) > job->memory)
        return vp_fail(err, VP_ERESOURCE, "%s takes %s: expected at most %s", vp_iterate_name(job->method),
                       vp_bytes_text(vp_iterate_bytes(job)).text, vp_bytes_text(job->memory).text);
    it->block = job->block;
    it->turn = job->turn;
    it->kept = job->kept;
    it->grain = vp_iterate_unit(job);
    vp_share_own(&job->share, job->grid->n[2], it->grain, &it->z0, &it->z1);
    it->blocks = vp_iterate_buffers(job);
    if (it->grain != unit /* the CPU divides the slices otherwise than devices */
        && vp_share_all(&job->share, job->x, job->grid->n[2], unit, (uint64_t)it->page * sizeof *job->x, err))
        return -1;
    if (!(it->order = vp_alloc((size_t)it->views, sizeof *it->order, "the views", err))
        || !(it->y = vp_alloc_raw(view, group, "the projections", err))
        || !(it->projected = vp_pair_room(it->pair, it->blocks * it->turn, err))
        || !(it->weight = vp_alloc_raw(view, group, "the weights", err))
        || !(it->slices = vp_alloc((size_t)parts, sizeof *it->slices, "sums", err))
        || !(it->sums = vp_alloc((size_t)it->turn, sizeof *it->sums, "sums", err)))
        return -1;
    for (int64_t i = 0; !job->weights && !job->pixels && i < VP_PAIR_VIEWS * it->view; i++)
        it->weight[i] = 1;
    for (int i = 0; i < m->volumes - job->given; i++)
        if (!(it->volume[i] = vp_iterate_open_volume(job, VP_ITERATE_FIRST + i, err)))
            return -1;
    if (!m->unit)
        return 0;
    if (!(it->ones = vp_alloc_raw((size_t)(it->kept ? it->views : it->turn), view * sizeof(float), "the lengths of rays", err)))
        return -1;
    if (job->mask)
        it->unit = (float *)(uintptr_t)job->mask;
    else if (!(it->unit = vp_iterate_open_volume(job, VP_ITERATE_UNIT, err)))
        return -1;
    else if (job->share.size > 1) /* all of it: it is projected */
        for (int64_t i = 0; i < it->voxels; i++)
            it->unit[i] = 1;
    else
        vp_iterate_fill(it, it->unit, 1);
    return 0;
}

/* Frees the memory, but for what messages of ranks may still arrive in after a failure. */
static void close_buffers(struct vp_iteration *it, bool well)
{
    if (!well && it->job->share.ranks) {
        vp_pair_close(it->job->pair);
        it->job->pair = NULL;
        return;
    }
    vp_pair_leave(it->job->pair, it->projected);
    vp_pair_close(it->job->pair);
    it->job->pair = NULL;
    free(it->order);
    free(it->y);
    free(it->weight);
    free(it->slices);
    free(it->sums);
    free(it->ones);
    for (int i = 0; i < VP_ITERATE_VOLUMES; i++)
        vp_spill_close(it->volume[i]);
    if (it->unit != it->job->mask)
        vp_spill_close(it->unit);
}

/* ---- the loop ---- */

/* Returns the rule that ends the run, or NULL. */
static const char *stop_of(const struct vp_iteration *it, const struct vp_iterate_line *line, double weights)
{
    const struct vp_iterate_stop *stop = &it->job->stop;
    if (stop->residual > 0 && line->relative < stop->residual)
        return "residual";
    if (stop->noise > 0 && line->residual < TAU * stop->noise * sqrt(weights))
        return "noise";
    if (stop->change > 0 && line->change < stop->change)
        return "change";
    if (stop->gradient > 0 && line->gradient >= 0 && line->gradient < stop->gradient)
        return "gradient";
    return line->converged ? "convergence" : NULL;
}

/* Counts the weights of all pixels, for the noise. */
static int count_weights(struct vp_iteration *it, double *weights, struct vp_err *err)
{
    struct vp_pass_sums sums = {0};
    *weights = (double)(it->views * it->view);
    if (!(it->job->stop.noise > 0) || (!it->job->weights && !it->job->pixels))
        return 0;
    float *const last = it->volume[methods[it->job->method]->volumes - 1]; /* holds nothing yet; NULL: no sum is wanted */
    const int rc = vp_iterate_sum_weights(it, it->order, it->views, last, &sums, err);
    *weights = sums.weights;
    return rc;
}

/* Shows an iteration, its residual by that of the data, and how much that has changed. */
static void show_progress(struct vp_iteration *it, const struct vp_iterate_line *line, int64_t before, double last)
{
    const struct vp_iterate *const job = it->job;
    char text[120], change[40] = "";
    if (last > 0)
        snprintf(change, sizeof change, " (%+.1f %%)", 100 * (line->relative / last - 1));
    snprintf(text, sizeof text, "%s %lld/%lld, residual %.3g%s", vp_iterate_name(job->method), (long long)line->iteration,
             (long long)job->iterations, line->relative, change);
    vp_progress_reach(job->progress, text, (line->iteration - before) * it->views);
}

static int iterate(struct vp_iteration *it, struct vp_iterate_state *state, struct vp_err *err)
{
    struct vp_iterate *const job = it->job;
    const struct vp_method *m = methods[job->method];
    double weights;
    vp_progress_start(job->progress, m->name, "views", -1);
    if (count_weights(it, &weights, err))
        return -1;
    const int resumed = job->resume ? job->resume(job->ctx, state, err) : 0;
    if (resumed < 0 || (m->unit && vp_iterate_ones(it, err)) || m->start(it, state, resumed > 0, err))
        return -1;
    const int64_t before = state->iteration;
    double last = 0;
    vp_progress_start(job->progress, m->name, NULL, (job->iterations - before) * it->views);
    job->stopped_by = "iterations";
    while (state->iteration < job->iterations) {
        struct vp_volume_sums sums = {0};
        struct vp_iterate_line line = {.iteration = ++state->iteration, .gradient = -1};
        if (m->step(it, state, &line, &sums, err) || vp_spill_check(err) || (it->trouble.code && vp_err_keep(err, &it->trouble)))
            return -1;
        if (!isfinite(line.residual) || !isfinite(sums.square))
            return vp_fail(err, VP_ERUN, "%s diverges: iteration %lld has values that are not finite", m->name,
                           (long long)line.iteration);
        line.seconds = vp_now() - it->begun;
        line.min = sums.min;
        line.max = sums.max;
        line.mean = sums.sum / (double)it->voxels;
        line.change = sums.square > 0 ? sqrt(sums.change / sums.square) : 0;
        job->done = state->iteration;
        job->missed = it->measured > 0 ? it->missed / it->measured : 0;
        show_progress(it, &line, before, last);
        last = line.relative;
        const char *const stop = stop_of(it, &line, weights);
        if (job->each && job->each(job->ctx, &line, state, err))
            return -1;
        if (stop) {
            job->stopped_by = stop;
            break;
        }
    }
    return 0;
}

int vp_iterate_run(struct vp_iterate *job, struct vp_err *err)
{
    const int64_t *n = job->grid->n;
    struct vp_iteration it = {.job = job, .page = n[0] * n[1], .voxels = n[0] * n[1] * n[2],
                              .view = job->scan->nu * job->scan->nv, .views = job->last - job->first, .begun = vp_now()};
    struct vp_iterate_state state = {.volumes = methods[job->method]->kept, .scalars = methods[job->method]->scalars};
    int rc = -1;
    job->blocks = vp_iterate_has(job->method, "blocks") ? vp_min64(job->blocks, it.views) : 1;
    if (!open_buffers(&it, err)) {
        order_views(&it);
        state.volume[0] = job->x;
        for (int i = 1; i < state.volumes; i++)
            state.volume[i] = it.volume[i - 1];
        rc = iterate(&it, &state, err);
        double project, back;
        vp_pair_seconds(it.pair, &project, &back);
        if (project > 0)
            vp_stats_number(job->stats, "project_kernel_seconds", project);
        if (back > 0)
            vp_stats_number(job->stats, "back_project_kernel_seconds", back);
    }
    if (rc && it.trouble.code)
        *err = it.trouble;
    close_buffers(&it, !rc);
    return rc;
}
