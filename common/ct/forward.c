/* SPDX-License-Identifier: BSD-3-Clause */
#include "ct/forward.h"

#include "base/err.h"
#include "base/progress.h"
#include "base/size.h"
#include "base/stats.h"
#include "ct/phantom.h"
#include "stack/views.h"
#include "stack/writer.h"

#include <stdlib.h>
#include <string.h>

struct forward {
    struct vp_forward *f;
    struct vp_pair *pair;
    int64_t view, views;        /* samples of a view; number of views */
    float *batch;               /* a turn of views */
    float *other;               /* the same of the measured ones, or of rows of sinograms; or NULL */
    int64_t *numbers;           /* numbers of the views */
    float *held;                /* all sinograms, if they are written in order; or NULL */
};

static bool in_order(const struct vp_forward *f)
{
    return f->sinograms && f->share.rank == 0 && !(f->writer && vp_writer_random(f->writer));
}

/* True if a second block of views is needed: of measured projections, or of rows of sinograms. */
static bool two_blocks(const struct vp_forward *f)
{
    return f->scan->source || f->sinograms;
}

static int64_t turn_of(const struct vp_forward *f)
{
    return vp_share_turn(&f->share, f->place.travels, f->block, f->last - f->first);
}

uint64_t vp_forward_bytes(const struct vp_forward *f, bool held)
{
    const uint64_t view = (uint64_t)(f->scan->nu * f->scan->nv) * sizeof(float);
    return vp_pair_holds(f->pair) + (two_blocks(f) ? 2 : 1) * (uint64_t)turn_of(f) * view
         + (held ? (uint64_t)(f->last - f->first) * view : 0);
}

double vp_forward_traffic(const struct vp_forward *f)
{
    const double views = (double)(f->last - f->first) * (double)(f->scan->nu * f->scan->nv);
    const double volume = (double)f->grid->n[0] * (double)f->grid->n[1] * (double)f->grid->n[2];
    const double blocks = f->place.travels ? (double)vp_div_up(f->last - f->first, f->block) : 1;
    return (blocks * volume + views * (double)f->place.slabs) * sizeof(float);
}

/* Makes the turns of all ranks alike, after a step that has failed on this one if rc is not 0. */
static int agree(struct vp_forward *f, int rc, struct vp_err *err)
{
    while ((rc = vp_share_place(&f->share, f->pair, &f->place, 1, rc, err)) > 0) {
        f->block = VP_PAIR_VIEWS;
        rc = 0;
    }
    f->turn = rc ? 0 : turn_of(f);
    return rc || vp_share_least(&f->share, &f->turn, err) ? -1 : 0;
}

static int plan(struct vp_forward *f, uint64_t memory, bool held, struct vp_err *err)
{
    const int64_t views = f->last - f->first;
    f->place.use = VP_PAIR_PROJECTS;
    f->block = 0;
    if (vp_pair_open(&f->pair, f->scan, f->grid, f->threads, NULL, err) || vp_pair_plan(f->pair, &f->place, err))
        return -1;
    const uint64_t least = vp_forward_bytes(f, held), rest = memory > least ? memory - least : 0;
    f->block = vp_pair_block(f->pair, views, rest / (two_blocks(f) ? 2 : 1));
    if (f->place.used && f->place.automatic && vp_forward_bytes(f, held) > memory) {
        vp_pair_refuse(f->pair, &f->place, "the host's memory is too small for the views of a block");
        f->block = vp_pair_block(f->pair, views, rest);
    }
    return 0;
}

int vp_forward_plan(struct vp_forward *f, uint64_t memory, bool held, struct vp_err *err)
{
    return agree(f, plan(f, memory, held, err), err);
}

static int open_buffers(struct forward *w, struct vp_err *err)
{
    struct vp_forward *const f = w->f;
    w->pair = f->pair;
    w->view = f->scan->nu * f->scan->nv;
    w->views = f->last - f->first;
    const int rc = vp_pair_use(w->pair, &f->place, err);
    if (!f->place.travels)
        f->block = VP_PAIR_VIEWS; /* the devices may have failed */
    if (agree(f, rc, err) || vp_pair_load(w->pair, f->volume, err))
        return -1;
    return !(w->batch = vp_pair_room(w->pair, f->turn, err))
        || (two_blocks(f)
            && !(w->other = vp_alloc_raw((size_t)w->view, (size_t)f->turn * sizeof(float), "the projections", err)))
        || !(w->numbers = vp_alloc((size_t)w->views, sizeof *w->numbers, "the views", err))
        || (in_order(f) && !(w->held = vp_alloc_raw((size_t)w->view, (size_t)w->views * sizeof(float), "the sinograms", err)))
         ? -1 : 0;
}

/* Subtracts n projections, views from `first` on, from the measured ones. */
static int subtract(struct forward *w, float *batch, int64_t first, int64_t n, struct vp_err *err)
{
    struct vp_forward *f = w->f;
    const int64_t got = vp_views_read(f->scan->source, first, n, 0, f->scan->nv, w->other, &f->bad, f->threads, err);
    if (got < 0)
        return -1;
    if (got < n)
        return vp_fail(err, VP_ERUN, "%s: expected %lld views, got %lld", vp_views_name(f->scan->source),
                       (long long)f->scan->n_views, (long long)(first + got));
    for (int64_t i = 0; i < n * w->view; i++)
        batch[i] = w->other[i] - batch[i];
    return 0;
}

static void add_noise(struct forward *w, float *batch, int64_t first, int64_t n)
{
    const struct vp_forward *f = w->f;
#pragma omp parallel for num_threads(f->threads) schedule(dynamic, 1)
    for (int64_t row = 0; row < n * f->scan->nv; row++) {
        const int64_t s = row / f->scan->nv, v = row % f->scan->nv;
        vp_phantom_noise(batch + row * f->scan->nu, f->scan->nu, f->i0, f->counts, f->seed, first + s, v * f->scan->nu);
    }
}

/* Writes views [first, first + n). */
static int write_batch(struct forward *w, int64_t first, int64_t n, struct vp_err *err)
{
    const struct vp_forward *f = w->f;
    const int64_t nu = f->scan->nu, nv = f->scan->nv, at = first - f->first;
    if (vp_share_first(&f->share, w->batch, n, 1, (uint64_t)w->view * sizeof *w->batch, err))
        return -1;
    if (f->share.rank > 0)
        return 0;
    if (!f->sinograms)
        return vp_writer_pages(f->writer, n, w->batch, f->threads, err);
    /* row s of page v */
    float *const to = w->held ? w->held + at * nu : w->other;
    const int64_t page = (w->held ? w->views : n) * nu;
    for (int64_t s = 0; s < n; s++)
        for (int64_t v = 0; v < nv; v++)
            memcpy(to + v * page + s * nu, w->batch + (s * nv + v) * nu, (size_t)nu * sizeof(float));
    if (!w->held)
        return vp_writer_bands(f->writer, 0, nv, at, at + n, to, f->threads, err);
    return at + n < w->views ? 0 : vp_writer_pages(f->writer, nv, w->held, f->threads, err);
}

static int run(struct forward *w, struct vp_err *err)
{
    struct vp_forward *f = w->f;
    double t = vp_now();
    vp_progress_start(f->progress, "project", "views", w->views);
    for (int64_t i = 0; i < w->views; i++)
        w->numbers[i] = f->first + i;
    for (int64_t first = f->first, n; first < f->last; first += n) {
        n = vp_min64(f->turn, f->last - first);
        int64_t at, end;
        vp_share_own(&f->share, n, 1, &at, &end);
        const int64_t own = end - at;
        float *const batch = w->batch + at * w->view;
        for (int64_t s = 0, some; s < own; s += some) {
            some = vp_min64(f->block, own - s);
            if (vp_pair_project(w->pair, w->numbers + (first - f->first) + at + s, some, batch + s * w->view, err))
                return -1;
        }
        if (f->i0 > 0)
            add_noise(w, batch, first + at, own);
        vp_stats_time(f->stats, "project", vp_now() - t);
        t = vp_now();
        if (f->scan->source && subtract(w, batch, first + at, own, err))
            return -1;
        vp_stats_time(f->stats, "read", vp_now() - t);
        t = vp_now();
        if (write_batch(w, first, n, err))
            return -1;
        vp_stats_time(f->stats, "write", vp_now() - t);
        t = vp_now();
        vp_progress_add(f->progress, n);
    }
    if (f->scan->source && f->last == f->scan->n_views && vp_views_finish(f->scan->source, err))
        return -1;
    return vp_share_sum(&f->share, &f->bad, err);
}

int vp_forward_run(struct vp_forward *f, struct vp_err *err)
{
    struct forward w = {.f = f};
    f->bad = 0;
    const int rc = open_buffers(&w, err) ? -1 : run(&w, err);
    if (!rc || !f->share.ranks) /* else messages may still use it */
        vp_pair_leave(w.pair, w.batch);
    free(w.numbers);
    free(w.other);
    free(w.held);
    return rc;
}
