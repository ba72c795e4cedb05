/* SPDX-License-Identifier: BSD-3-Clause */
/* Planes of the stream are numbered through: plane g holds the pages of slice g % nz of the images of time g / nz,
 * of input and output each. Input plane g lies in slot g % window; the window starts at the lowest plane that the
 * oldest unfinished slab needs. Threads wait on one condition; all state that they share is under one lock. */
#include "engine/execute_internal.h"
#include "base/err.h"
#include "base/progress.h"
#include "base/size.h"
#include "base/stats.h"
#include "engine/pages.h"
#include "engine/store.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum {
    /* A slab that is cut short makes its halo again; a page does not. */
    PATIENCE_NS = 500 * 1000 * 1000,
    PATIENCE_OF_PAGES_NS = 10 * 1000 * 1000
};

static void *host_alloc(struct vp_engine *r, size_t n, size_t bytes, const char *what, struct vp_err *err)
{
    size_t all;
    if (!r->by_device)
        return vp_alloc_raw(n, bytes, what, err);
    return vp_mul_size(&all, n, bytes) ? r->p->backend->host_alloc(all) : NULL;
}

static void release(struct vp_engine *r)
{
    void (*const give_back)(void *) = r->by_device ? r->p->backend->host_free : free;
    for (int k = 0; k < r->stacks; k++) {
        if (r->input[k])
            give_back(r->input[k]);
        r->input[k] = NULL;
    }
    for (int i = 0; r->slab && i < 2 * r->plan->slabs; i++) {
        char **out = &r->slab[i / 2].out[i % 2];
        if (*out)
            give_back(*out);
        *out = NULL;
    }
}

static int allocate(struct vp_engine *r, struct vp_err *err)
{
    const struct vp_plan *plan = r->plan;
    const struct vp_pages *p = r->e->pages;
    const int64_t ny = r->input_n[1];
    const int64_t rows = plan->bands == 1 ? ny : r->e->chain ? vp_chain_extent(r->e->chain, 1, plan->band) : plan->band;
    const size_t page = p ? r->e->page_in : (size_t)(r->input_n[0] * rows) * r->in_size;
    const size_t samples = (size_t)(r->nx * plan->band * r->inner);
    const bool none = r->e->pass == VP_GATHER || (r->e->pass == VP_SUMMARY && r->by_device)
                      || (p && (!p->writer || p->in_place));
    const int outs = none ? 0 : plan->slabs * r->outputs;
    bool ok = true;

    r->slot = page * (size_t)r->inner;
    for (int k = 0; k < r->stacks && ok; k++) {
        r->input[k] = r->p->single[k] && !r->flow ? host_alloc(r, 1, page, "a page", err)
                                                  : host_alloc(r, (size_t)plan->window, r->slot,
                                                               p ? "input pages" : "the window of input", err);
        ok = r->input[k];
    }
    for (int i = 0; i < outs && ok; i++) {
        const int which = i % r->outputs;
        char **slab = &r->slab[i / r->outputs].out[which];
        *slab = host_alloc(r, (size_t)plan->slab, p ? r->e->page_out : samples * r->out_size[which],
                           p ? "output pages" : "slabs of output", err);
        ok = *slab;
    }
    if (ok || !r->by_device)
        return ok ? 0 : -1;
    release(r); /* not enough pinned memory: the device copies from ordinary memory, more slowly */
    r->by_device = false;
    return allocate(r, err);
}

/* Opens one worker for the CPU, or the plan's for devices. *full: a device had less memory than planned. */
static int open_workers(struct vp_engine *r, bool *full, struct vp_err *err)
{
    const struct vp_plan *plan = r->plan;
    for (int i = 0; i < plan->workers; i++) {
        struct worker *w = &r->worker[i];
        w->r = r;
        w->index = i;
        if (!plan->device)
            continue;
        w->number = r->e->device[i % r->p->devices];
        w->depth = plan->depth[i % r->p->devices];
        w->lanes = plan->lanes;
        w->device = r->e->lanes; /* it holds the image */
        r->e->lanes = NULL;
        if (w->depth && !w->device && vp_engine_open_device(w, err)) {
            if (full && err->code == VP_ERESOURCE)
                *full = true;
            return -1;
        }
    }
    return 0;
}

/* Ends a thread: the first error of all threads is that of the run, and stops the others. The reader, which may wait
 * for a pipe, is woken. */
static int ended(struct vp_engine *r, bool reader, int rc, const struct vp_err *err)
{
    pthread_mutex_lock(&r->lock);
    if (rc)
        vp_err_keep(r->err, err);
    r->stop = r->stop || rc;
    pthread_cond_broadcast(&r->moved);
    pthread_mutex_unlock(&r->lock);
    if (rc && !reader)
        vp_thread_wake(&r->reader);
    return rc;
}

static int reader_main(void *ctx, struct vp_err *err)
{
    return ended(ctx, true, vp_engine_read(ctx, err), err);
}

static int writer_main(void *ctx, struct vp_err *err)
{
    return ended(ctx, false, vp_engine_write(ctx, err), err);
}

static int worker_main(void *ctx, struct vp_err *err)
{
    struct worker *w = ctx;
    const int rc = !w->r->plan->device ? vp_engine_cpu(w, err) : w->device ? vp_engine_device(w, err) : 0;
    return ended(w->r, false, rc, err);
}

static int run_threads(struct vp_engine *r, struct vp_err *err)
{
    struct vp_err own = VP_ERR_INIT;
    r->err = err;
    int rc = (!r->from_nothing && vp_thread_start(&r->reader, reader_main, r, true, &own))
             || vp_thread_start(&r->writer, writer_main, r, false, &own) ? -1 : 0;
    for (int i = 1; i < r->plan->workers && !rc; i++)
        rc = vp_thread_start(&r->worker[i].thread, worker_main, &r->worker[i], false, &own);
    if (rc)
        ended(r, false, rc, &own);
    else
        worker_main(&r->worker[0], &own);
    for (int i = 1; i < r->plan->workers; i++)
        vp_thread_join(&r->worker[i].thread, &own);
    vp_thread_join(&r->writer, &own);
    vp_thread_join(&r->reader, &own); /* last: the others may wake it */
    return r->stop ? -1 : 0;
}

struct band_rows vp_engine_rows(const struct vp_engine *r, int64_t band)
{
    if (r->plan->bands == 1) /* pages are read whole */
        return (struct band_rows){0, r->ny, 0, r->input_n[1]};
    const int64_t y0 = band * r->plan->band, y1 = vp_min64(y0 + r->plan->band, r->ny);
    const struct vp_box in = vp_engine_region(r, &(struct vp_box){{0, y0, 0}, {r->nx, y1, 1}});
    return (struct band_rows){y0, y1, in.lo[1], in.hi[1]};
}

static int run_band(struct vp_engine *r, int64_t band, struct vp_err *err)
{
    const struct band_rows rows = r->rows = vp_engine_rows(r, band);
    r->page_in = (size_t)(r->input_n[0] * (rows.yb - rows.ya)) * r->in_size;
    for (int i = 0; i < r->outputs; i++)
        r->page_out[i] = (size_t)(r->nx * (rows.y1 - rows.y0)) * r->out_size[i];
    r->across = vp_div_up(r->nx, r->plan->part[0]);
    r->along = vp_div_up(rows.y1 - rows.y0, r->plan->part[1]);
    r->have = r->from_nothing ? r->input_total : 0;
    r->next = r->made = r->done = r->written = 0;
    r->end = r->from_nothing;
    r->settled = r->total < VP_UNKNOWN;
    for (int i = 0; i < r->plan->workers; i++)
        r->worker[i].slab = r->worker[i].segment = 0;
    const int64_t columns = r->across * r->along * r->inner;
    if ((r->goes_on || r->plan->offset) && !(r->carried = calloc((size_t)columns, sizeof *r->carried)))
        return vp_fail(err, VP_ERESOURCE, "out of memory");
    const int rc = run_threads(r, err);
    for (int64_t i = 0; r->carried && i < columns; i++)
        free(r->carried[i].value);
    free(r->carried);
    r->carried = NULL;
    return rc;
}

static void add_stats(struct vp_engine *r, double elapsed)
{
    struct vp_stats *stats = r->e->stats;
    double work = 0;
    int64_t parts = 0;

    for (int i = 0; i < r->plan->workers; i++) {
        struct worker *w = &r->worker[i];
        work += w->work_s;
        parts += w->parts;
        if (!r->plan->device)
            continue;
        vp_stats_time(stats, "device", w->device_s);
        vp_stats_count(stats, "bytes_up", w->up);
        vp_stats_count(stats, "bytes_down", w->down);
    }
    if (!r->from_nothing)
        vp_stats_time(stats, "read", r->read_s);
    vp_stats_time(stats, !r->e->pages ? "compute" : r->e->pages->stage ? r->e->pages->stage : "work", work);
    if (!r->e->pages || r->e->writer)
        vp_stats_time(stats, "write", r->write_s);
    if (r->e->pages)
        return;
    vp_stats_count(stats, "parts", (uint64_t)parts);
    if (r->e->pass == VP_SUMMARY || r->e->pass == VP_GATHER)
        return;
    if (r->e->pass == VP_FINISH || r->e->pass == VP_SCATTER)
        elapsed = vp_now() - r->e->began;
    const double pages = (double)r->total * (double)r->inner / (double)(r->flow ? r->plan->bands : 1);
    const double voxels = pages * (double)r->nx * (double)r->ny;
    const double bytes = voxels * (double)(r->p->stored_in + r->p->stored_out);
    vp_stats_count(stats, "voxels", (uint64_t)voxels);
    if (elapsed > 0) {
        vp_stats_number(stats, "voxels_per_second", voxels / elapsed);
        vp_stats_number(stats, "megabytes_per_second", bytes / elapsed * 1e-6); /* in and out */
    }
}

static void describe(struct vp_engine *r)
{
    static const struct vp_op nothing;
    const struct vp_execute *e = r->e;
    const struct vp_problem *p = r->p;
    const struct vp_chain none = {0}, *c = e->chain ? e->chain : &none;
    const struct vp_op *last = c->n ? &c->stage[c->n - 1] : &nothing;
    r->nx = p->image[0];
    r->ny = p->image[1];
    r->nz = p->image[2];
    r->flow = r->plan->flow;
    r->inner = r->flow ? 1 : p->inner;
    r->from_nothing = e->pass == VP_SCATTER || (e->pages && !e->reader[0]);
    r->by_device = r->plan->device;
    r->goes_on = r->plan->stream && !r->plan->device;
    r->patience = e->pages ? PATIENCE_OF_PAGES_NS : PATIENCE_NS;
    r->stacks = r->from_nothing ? 0 : e->pages ? 1 : c->stacks;
    r->outputs = last->second ? 2 : 1;
    r->in_size = vp_type_size(e->held);
    r->out_size[0] = vp_type_size(last->out);
    r->out_size[1] = last->second ? vp_type_size(*last->second) : 0;
    r->step = r->plan->twice || (vp_chain_twice(c) && last->step[2] != 1) ? r->plan->part[2] : 1;
    for (int s = 0; s < c->n; s++) {
        r->step = vp_max64(r->step, c->stage[s].step[2]);
        r->scan = vp_op_scans(&c->stage[s]) ? &c->stage[s] : r->scan;
    }
    for (int k = 0; k < r->stacks; k++)
        r->pipe = r->pipe || (!p->single[k] && !vp_reader_seekable(e->reader[k]));
    /* with all threads reading, writing and working at once, each would wait for the others at every barrier */
    const int busy = e->pages ? 1 : r->plan->device ? 2 : 4;
    r->io_threads = (p->threads + busy - 1) / busy;
    for (int a = 0; a < 3; a++)
        r->input_n[a] = c->n && c->stage[0].mapping ? c->stage[0].input[a] : p->image[a];
    const bool endless = r->nz >= VP_UNKNOWN || p->outer >= VP_UNKNOWN;
    const int64_t slices = endless ? 0 : p->outer * (r->flow ? p->inner * r->plan->bands : 1); /* planes of each z */
    r->total = endless ? VP_UNKNOWN : r->nz * slices;
    r->input_total = endless ? VP_UNKNOWN : r->input_n[2] * slices;
}

int vp_execute(struct vp_execute *e, bool *full, struct vp_err *err)
{
    const struct vp_problem *p = e->problem;
    struct vp_engine *r = calloc(1, sizeof *r);
    pthread_condattr_t attr;
    int rc = -1;

    if (full)
        *full = false;
    if (!r)
        return vp_fail(err, VP_ERESOURCE, "out of memory");
    r->e = e;
    r->p = p;
    r->plan = e->plan;
    describe(r);
    pthread_mutex_init(&r->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&r->moved, &attr);
    pthread_condattr_destroy(&attr);
    r->slab = calloc((size_t)e->plan->slabs, sizeof *r->slab);

    if (!r->slab)
        vp_fail(err, VP_ERESOURCE, "out of memory");
    else if (!open_workers(r, full, err) && !allocate(r, err)) {
        const int64_t streams = r->flow ? 1 : e->plan->bands;
        vp_progress_start(e->progress, e->pages ? e->pages->stage : e->chain->stage[0].kernel,
                          p->lines  ? "rows"
                          : r->flow ? "bands"
                                    : "pages", r->total >= VP_UNKNOWN ? -1 : r->total * r->inner * streams);
        const double t = vp_now();
        rc = 0;
        for (int64_t b = 0; b < streams && !rc; b++)
            rc = run_band(r, b, err);
        if (!rc)
            add_stats(r, vp_now() - t);
    }
    if (!rc && e->pass == VP_GATHER) {
        e->lanes = r->worker[0].device;
        r->worker[0].device = NULL;
    }
    for (int i = 0; i < VP_MAX_WORKERS; i++)
        vp_lanes_close(r->worker[i].device);
    release(r);
    pthread_cond_destroy(&r->moved);
    pthread_mutex_destroy(&r->lock);
    free(r->slab);
    free(r);
    return rc;
}

/* ---- two passes ---- */

static int64_t boxes_of(const struct vp_problem *p, const struct vp_plan *plan, int64_t n[3])
{
    for (int a = 0; a < 3; a++)
        n[a] = vp_div_up(p->image[a], plan->part[a]);
    return n[0] * n[1] * n[2];
}

int64_t vp_engine_box(const struct vp_engine *r, const struct column *c, const struct vp_box *box)
{
    const int64_t *part = r->plan->part;
    int64_t n[3];
    const int64_t image = boxes_of(r->p, r->plan, n);
    const int64_t number = r->flow ? c->slab->g0 / r->plan->bands : c->time * r->inner + c->channel;
    return number * image
           + (box->lo[2] / part[2] * n[1] + box->lo[1] / part[1]) * n[0] + box->lo[0] / part[0];
}

int vp_execute_twice(struct vp_execute *e, bool *full, struct vp_err *err)
{
    struct vp_op *op = vp_chain_twice(e->chain);
    int64_t n[3];
    const int64_t boxes = boxes_of(e->problem, e->plan, n) * e->problem->inner * e->problem->outer;
    const uint64_t memory = e->problem->memory, held = e->plan->entries;
    int rc = vp_store_open(&e->store, boxes, held > 0 ? held : 1, err);
    if (!rc) {
        e->pass = VP_SUMMARY;
        e->began = vp_now();
        rc = vp_execute(e, full, err);
    }
    for (int k = 0; k < e->chain->stacks && !rc; k++)
        rc = vp_reader_seek(e->reader[k], 0, err);
    const double t = vp_now();
    if (!rc)
        rc = op->two_pass->solve(op, e->store, e->plan->part, memory > held ? memory - held : 1, e->problem->threads,
                                 err);
    if (!rc) {
        vp_stats_time(e->stats, "solve", vp_now() - t);
        vp_stats_count(e->stats, "visits", 2);
        vp_stats_count(e->stats, "boxes", (uint64_t)boxes);
        vp_stats_count(e->stats, "bytes_spilled", vp_store_spilled(e->store));
        e->pass = VP_FINISH;
        rc = (e->solved && e->solved(e->ctx, e, err)) || vp_execute(e, full, err) ? -1 : 0;
    }
    vp_store_close(e->store);
    e->store = NULL;
    e->pass = VP_MAKE;
    return rc;
}

/* ---- an image that a device holds ---- */

/* Settles the image between its passes; adds the counts of the run. */
static int settle(struct vp_execute *e, struct vp_err *err)
{
    struct lanes *d = e->lanes;
    const struct vp_op *op = &e->chain->stage[e->chain->n - 1];
    void *counts = op->report ? calloc(1, op->report->bytes) : NULL;
    if (op->report && !counts)
        return vp_fail(err, VP_ERESOURCE, "out of memory");
    const int rc = d->stage[d->chain->n - 1].kernel->settle(op, d->image, counts, d->work, err);
    if (!rc && op->report)
        op->report->add(op, counts);
    free(counts);
    return rc;
}

int vp_execute_held(struct vp_execute *e, bool *full, struct vp_err *err)
{
    e->pass = VP_GATHER;
    e->began = vp_now();
    int rc = vp_execute(e, full, err);
    const double t = vp_now();
    if (!rc && (rc = settle(e, err)) && err->code == VP_ERESOURCE) {
        bool again = true;
        struct vp_err late = VP_ERR_INIT;
        for (int k = 0; k < e->chain->stacks; k++)
            again = again && !vp_reader_seek(e->reader[k], 0, &late);
        if (full)
            *full = again;
    }
    if (!rc) {
        vp_stats_time(e->stats, "settle", vp_now() - t);
        e->pass = VP_SCATTER;
        rc = (e->solved && e->solved(e->ctx, e, err)) || vp_execute(e, full, err) ? -1 : 0;
        if (rc && full) /* the output has begun */
            *full = false;
    }
    vp_lanes_close(e->lanes);
    e->lanes = NULL;
    e->pass = VP_MAKE;
    return rc;
}

int vp_execute_plan(struct vp_execute *e, bool *full, struct vp_err *err)
{
    return e->plan->held    ? vp_execute_held(e, full, err)
           : e->plan->twice ? vp_execute_twice(e, full, err)
                            : vp_execute(e, full, err);
}
