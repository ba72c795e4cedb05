/* SPDX-License-Identifier: BSD-3-Clause */
/* Passes over the views, a block at a time. */
#include "ct/iterate_internal.h"

#include "base/err.h"
#include "base/progress.h"
#include "base/size.h"
#include "base/stats.h"
#include "ct/missed.h"
#include "engine/thread.h"
#include "stack/views.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Returns the name of the projections, for messages. */
static const char *name_of(const struct vp_iteration *it)
{
    return it->job->scan->source ? vp_views_name(it->job->scan->source) : "the projections";
}

/* Reads n views, of which those that follow each other come at once; from NULL: of the scan's function. */
static int read_views(struct vp_iteration *it, struct vp_views *from, const int64_t *view, int64_t n, float *to,
                      struct vp_err *err)
{
    for (int64_t s = 0, run; s < n; s += run) {
        for (run = 1; s + run < n && view[s + run] == view[s] + run;)
            run++;
        const struct vp_projections *const scan = it->job->scan;
        if (!from && scan->read(scan->ctx, view[s], (int)run, 0, scan->nv, to + s * it->view, err))
            return -1;
        const int64_t got = !from ? run : vp_views_read(from, view[s], run, 0, scan->nv, to + s * it->view, NULL,
                                          it->job->threads, err);
        if (got < 0)
            return -1;
        if (got < run)
            return vp_fail(err, VP_ERUN, "%s: expected %lld views, got %lld", vp_views_name(from),
                           (long long)scan->n_views, (long long)(view[s] + got));
    }
    return 0;
}

/* Fills the weights of n views. */
static int weigh(struct vp_iteration *it, const int64_t *view, int64_t n, struct vp_err *err)
{
    const struct vp_iterate *job = it->job;
    if (job->weights && read_views(it, job->weights, view, n, it->weight, err))
        return -1;
    if (!job->weights && !job->pixels)
        return 0; /* they are 1 from the start */
    int64_t bad = 0;
    for (int64_t s = 0; s < n; s++)
        for (int64_t i = 0; i < it->view; i++) {
            float *const w = &it->weight[s * it->view + i];
            *w = (job->weights ? *w : 1) * (job->pixels ? job->pixels[i] : 1);
            bad += !(*w >= 0 && *w < INFINITY);
        }
    return bad ? vp_fail(err, VP_ERUN, "views %lld to %lld: %lld weights are negative, NaN or infinite", (long long)view[0],
                         (long long)view[n - 1], (long long)bad) : 0;
}

/* Sets [*from, *to) to those of the n views of a turn that this rank projects. */
static void own_views(const struct vp_iteration *it, int64_t n, int64_t *from, int64_t *to)
{
    vp_share_own(&it->job->share, n, 1, from, to);
}

/* Projects views [from, to) of a turn into their place in y. */
static int project(struct vp_iteration *it, const int64_t *view, int64_t from, int64_t to, float *y, struct vp_err *err)
{
    for (int64_t s = from, n; s < to; s += n) {
        n = vp_min64(it->block, to - s);
        if (vp_pair_project(it->pair, view + s, n, y + s * it->view, err))
            return -1;
    }
    return 0;
}

/* Makes A 1 of this rank's n views of a turn, unless it is kept of all. x is loaded after it. */
static int make_ones(struct vp_iteration *it, const int64_t *view, int64_t n, const float *x, struct vp_err *err)
{
    int64_t from, to;
    own_views(it, n, &from, &to);
    return it->kept ? 0
         : vp_pair_load(it->pair, it->unit, err) || project(it, view, from, to, it->ones, err)
        || (x && vp_pair_load(it->pair, x, err)) ? -1 : 0;
}

int vp_iterate_ones(struct vp_iteration *it, struct vp_err *err)
{
    if (!it->kept)
        return 0;
    int64_t *const view = vp_alloc((size_t)it->views, sizeof *view, "the views", err);
    int rc = view ? vp_pair_load(it->pair, it->unit, err) : -1;
    for (int64_t i = 0; i < it->views && !rc; i++)
        view[i] = it->job->first + i;
    for (int64_t s = 0, n, from, to; s < it->views && !rc; s += n) {
        float *const ones = it->ones + s * it->view;
        n = vp_min64(it->turn, it->views - s);
        own_views(it, n, &from, &to);
        rc = project(it, view + s, from, to, ones, err)
          || vp_share_all(&it->job->share, ones, n, 1, (uint64_t)it->view * sizeof *ones, err) ? -1 : 0;
        vp_progress_add(it->job->progress, n);
    }
    free(view);
    return rc;
}

/* Computes the pixels of a view that A' takes, in place of A x. */
static void pixels_of(const struct vp_iteration *it, enum vp_iterate_kind pass, const float *y, const float *weight,
                      const float *ones, float *ax, struct vp_pass_sums *sums)
{
    const double *voxel = it->job->grid->voxel;
    const float shortest = (float)fmin(voxel[0], fmin(voxel[1], voxel[2]));
    struct vp_pass_sums t = {0};
    for (int64_t i = 0; i < it->view; i++) {
        const double w = (double)weight[i], p = (double)ax[i], m = y ? (double)y[i] : 0;
        double r = 0;
        if (!(w > 0)) {
            ax[i] = 0;
            continue;
        }
        t.weights += w;
        if (!isfinite(m)) {
            t.bad++;
            ax[i] = 0;
            continue;
        }
        switch (pass) {
        case VP_ITERATE_RESIDUAL:
            r = w * (m - p);
            break;
        case VP_ITERATE_SCALED:
            r = ones[i] >= shortest ? w * (m - p) / (double)ones[i] : 0;
            t.ones += w * (double)ones[i];
            break;
        case VP_ITERATE_RATIO:
            r = p > 0 ? w * m / p : 0;
            t.likelihood += p > 0 ? w * (p - m * log(p)) : 0;
            t.negative += m < 0;
            break;
        case VP_ITERATE_NORMAL:
            r = w * p;
            break;
        case VP_ITERATE_WEIGHTS:
            r = w;
            break;
        }
        t.square += pass == VP_ITERATE_NORMAL ? w * p * p : w * (m - p) * (m - p);
        t.data += w * m * m;
        t.total += w * m;
        ax[i] = (float)r;
    }
    *sums = t;
}

/* Sums the samples of rays that miss the volume. */
static double sum_missed(const struct vp_iteration *it, int64_t view, const float *y, const float *weight)
{
    const int64_t nu = it->job->scan->nu, nv = it->job->scan->nv;
    struct vp_missed missed;
    double sum = 0;
    vp_missed_open(&missed, &it->job->scan->views[view], it->job->grid);
    for (int64_t v = 0; v < nv; v++) {
        int64_t u0, u1;
        vp_missed_row(&missed, v, nu, &u0, &u1);
        for (int64_t u = u0 > 0 ? 0 : u1; u < nu; u = u + 1 == u0 ? u1 : u + 1) {
            const int64_t i = v * nu + u;
            if (weight[i] > 0 && isfinite(y[i]))
                sum += (double)weight[i] * (double)y[i];
        }
    }
    return sum;
}

static void add_sums(struct vp_pass_sums *to, const struct vp_pass_sums *t)
{
    to->square += t->square;
    to->data += t->data;
    to->likelihood += t->likelihood;
    to->weights += t->weights;
    to->total += t->total;
    to->ones += t->ones;
    to->bad += t->bad;
    to->negative += t->negative;
}

/* Fails if samples cannot be reconstructed from. */
static int check(const struct vp_iteration *it, enum vp_iterate_kind pass, const struct vp_pass_sums *sums, struct vp_err *err)
{
    const char *const name = name_of(it);
    if (sums->bad)
        return vp_fail_hint(err, VP_ERUN, "--dead FILE or --pixel-weights FILE leaves pixels out, ct-normalize replaces them",
                            "%s: %lld samples are NaN or infinite", name, (long long)sums->bad);
    if (pass == VP_ITERATE_RATIO && sums->negative)
        return vp_fail_hint(err, VP_ERUN, "img-math 'max(a, 0)' cuts them off", "%s: %lld samples are negative: %s expects none",
                            name, (long long)sums->negative, vp_iterate_name(it->job->method));
    return 0;
}

/* Makes the pixels that A' takes of n views, at most VP_PAIR_VIEWS, from place `at` of a turn on, in place of A x. */
static int make_pixels(struct vp_iteration *it, enum vp_iterate_kind pass, const int64_t *view, int64_t at, int64_t n,
                       float *projected, bool looks, struct vp_err *err)
{
    const struct vp_iterate *job = it->job;
    const bool reads = pass != VP_ITERATE_NORMAL && pass != VP_ITERATE_WEIGHTS;
    if ((reads && read_views(it, job->scan->source, view, n, it->y, err)) || weigh(it, view, n, err))
        return -1;
#pragma omp parallel for num_threads(job->threads) schedule(dynamic, 1)
    for (int64_t s = 0; s < n; s++) {
        const float *ones = pass == VP_ITERATE_SCALED ? it->ones + (it->kept ? view[s] - job->first : at + s) * it->view : NULL;
        pixels_of(it, pass, reads ? it->y + s * it->view : NULL, it->weight + s * it->view, ones, projected + s * it->view,
                  &it->sums[at + s]);
        it->sums[at + s].missed = looks ? sum_missed(it, view[s], it->y + s * it->view, it->weight + s * it->view) : 0;
    }
    return 0;
}

/* True if the pass is a first look at its views: the first pass, or passes of blocks, have each view once. */
static bool looks_at(const struct vp_iteration *it, enum vp_iterate_kind pass)
{
    return pass != VP_ITERATE_NORMAL && pass != VP_ITERATE_WEIGHTS && it->looked < it->views;
}

/* Brings the pixels of n views of a turn, and their sums, to all ranks, and adds the sums. */
static int gather_pixels(struct vp_iteration *it, enum vp_iterate_kind pass, int64_t n, bool looks, struct vp_pass_sums *sums,
                         struct vp_err *err)
{
    const struct vp_share *const share = &it->job->share;
    if (vp_share_all(share, it->projected, n, 1, (uint64_t)it->view * sizeof *it->projected, err)
        || vp_share_all(share, it->sums, n, 1, sizeof *it->sums, err))
        return -1;
    for (int64_t s = 0; s < n; s++) {
        add_sums(sums, &it->sums[s]);
        it->missed += it->sums[s].missed;
        it->measured += looks ? it->sums[s].total : 0;
    }
    it->looked += looks ? n : 0;
    vp_progress_add(it->job->progress, pass == VP_ITERATE_WEIGHTS ? 0 : n); /* a second pass of a block */
    return 0;
}

/* Adds n views of a turn to the sum, in the same calls for any number of ranks. */
static int back_project(struct vp_iteration *it, const int64_t *view, int64_t n, struct vp_err *err)
{
    for (int64_t s = 0, some; s < n && it->z0 < it->z1; s += some) {
        some = vp_min64(it->block, n - s);
        if (vp_pair_back(it->pair, it->projected + s * it->view, view + s, some, err))
            return -1;
    }
    return 0;
}

/* Passes n views, at most a turn. */
static int pass_views(struct vp_iteration *it, enum vp_iterate_kind pass, const int64_t *view, int64_t n, const float *x,
                      struct vp_pass_sums *sums, struct vp_err *err)
{
    const struct vp_iterate *job = it->job;
    const bool looks = looks_at(it, pass);
    double t = vp_now(), next;
    int64_t from, to;
    own_views(it, n, &from, &to);
    if (pass == VP_ITERATE_SCALED && make_ones(it, view, n, x, err))
        return -1;
    if (x && project(it, view, from, to, it->projected, err))
        return -1;
    if (!x)
        memset(it->projected, 0, (size_t)(n * it->view) * sizeof *it->projected);
    vp_stats_time(job->stats, "project", (next = vp_now()) - t);
    for (int64_t s = from; s < to; s += VP_PAIR_VIEWS)
        if (make_pixels(it, pass, view + s, s, vp_min64(VP_PAIR_VIEWS, to - s), it->projected + s * it->view, looks, err))
            return -1;
    vp_stats_time(job->stats, "read", (t = vp_now()) - next);
    if (gather_pixels(it, pass, n, looks, sums, err))
        return -1;
    next = vp_now();
    if (job->share.ranks)
        vp_stats_time(job->stats, "exchange", next - t);
    t = next;
    if (back_project(it, view, n, err))
        return -1;
    vp_stats_time(job->stats, "back-project", vp_now() - t);
    return 0;
}

/* A block of views, whose pixels a thread makes. */
struct pixels {
    struct vp_iteration *it;
    enum vp_iterate_kind pass;
    const int64_t *view;
    int64_t n;
    float *projected;
    struct vp_pass_sums *sums;
    struct vp_thread thread;
};

static int run_pixels(void *ctx, struct vp_err *err)
{
    const struct pixels *p = ctx;
    const bool looks = looks_at(p->it, p->pass);
    return make_pixels(p->it, p->pass, p->view, 0, p->n, p->projected, looks, err)
        || gather_pixels(p->it, p->pass, p->n, looks, p->sums, err) ? -1 : 0;
}

/* Waits for the pixels of a block, and starts those of the next one, unless it is NULL. */
static int next_pixels(struct pixels *before, struct pixels *next, struct vp_err *err)
{
    const double t = vp_now();
    const int rc = vp_thread_join(&before->thread, err);
    vp_stats_time(before->it->job->stats, "read", vp_now() - t);
    return rc || (next && vp_thread_start(&next->thread, run_pixels, next, false, err)) ? -1 : 0;
}

/* Passes n views that devices hold all slabs for: the pixels of a block are made while the devices project the next one and
 * sum the one before. */
static int pass_ahead(struct vp_iteration *it, enum vp_iterate_kind pass, const int64_t *view, int64_t n, const float *x,
                      struct vp_pass_sums *sums, struct vp_err *err)
{
    struct pixels way[2];
    int at = 0, rc = 0;
    for (int i = 0; i < 2; i++)
        way[i] = (struct pixels){.it = it, .pass = pass, .projected = it->projected + i * it->block * it->view, .sums = sums};
    for (int64_t s = 0; s < n + it->block && !rc; s += it->block, at ^= 1) {
        struct pixels *const now = &way[at], *const before = &way[!at];
        const bool more = s < n;
        double t = vp_now();
        now->view = view + s;
        now->n = more ? vp_min64(it->block, n - s) : 0;
        if (more && x)
            rc = vp_pair_project(it->pair, now->view, now->n, now->projected, err);
        else
            memset(now->projected, 0, (size_t)(now->n * it->view) * sizeof *now->projected);
        vp_stats_time(it->job->stats, "project", vp_now() - t);
        rc = next_pixels(before, more && !rc ? now : NULL, err) || rc ? -1 : 0;
        t = vp_now();
        rc = rc || (before->n && vp_pair_back(it->pair, before->projected, before->view, before->n, err)) ? -1 : 0;
        vp_stats_time(it->job->stats, "back-project", vp_now() - t);
    }
    for (int i = 0; i < 2; i++)
        rc = vp_thread_join(&way[i].thread, err) || rc ? -1 : 0;
    return rc;
}

int vp_iterate_pass(struct vp_iteration *it, enum vp_iterate_kind pass, const int64_t *view, int64_t n, const float *x,
                    float *sum, struct vp_pass_sums *sums, struct vp_err *err)
{
    *sums = (struct vp_pass_sums){0};
    double t = vp_now();
    if (it->trouble.code)
        return vp_err_keep(err, &it->trouble);
    /* x has the slices of this rank; only the pass needs all */
    if (x && vp_share_all(&it->job->share, (float *)(uintptr_t)x, it->job->grid->n[2], it->grain, (uint64_t)it->page * sizeof *x,
                          err))
        return -1;
    if ((x && vp_pair_load(it->pair, x, err)) || vp_pair_begin(it->pair, it->z0, it->z1, sum ? sum + it->z0 * it->page : NULL, err))
        return -1;
    vp_stats_time(it->job->stats, "project", vp_now() - t);
    const bool ahead = it->blocks == 2 && (pass != VP_ITERATE_SCALED || it->kept);
    if (ahead && pass_ahead(it, pass, view, n, x, sums, err))
        return -1;
    for (int64_t s = 0; s < n && !ahead; s += it->turn)
        if (pass_views(it, pass, view + s, vp_min64(it->turn, n - s), x, sums, err))
            return -1;
    t = vp_now();
    if (sum && vp_pair_end(it->pair, err))
        return -1;
    vp_stats_time(it->job->stats, "back-project", vp_now() - t);
    return check(it, pass, sums, err);
}

int vp_iterate_sum_weights(struct vp_iteration *it, const int64_t *view, int64_t n, float *to, struct vp_pass_sums *sums,
                           struct vp_err *err)
{
    if (to)
        vp_iterate_clear(it, to);
    return vp_iterate_pass(it, VP_ITERATE_WEIGHTS, view, n, NULL, to, sums, err);
}
