/* SPDX-License-Identifier: BSD-3-Clause */
/* The passes of a reconstruction and their stages; their order is that of iFDK (Chen et al. 2019, fig. 3). A reader
 * thread fills slots with batches of views, which are normalised, filtered unless a device does it, and projected back
 * to the slabs of a volume (ct/projector.h); then slices go through slots to a writer thread. The first views are read
 * while the devices allocate their slabs, and a pass begins while the slices of the one before it are written.
 *
 * Opposite views, half a turn apart, are read in pairs if the input is seekable and the kernel works on pairs: neither
 * then waits for the other. Subsets of the views are read in turn, so that no device waits. */
#include "ct/reconstruct_internal.h"

#include "base/err.h"
#include "base/progress.h"
#include "base/size.h"
#include "base/stats.h"
#include "device/device.h"
#include "device/ranks.h"

#include <stdlib.h>
#include <string.h>

enum { ATTEMPTS = 3 }; /* to open a pass */

/* Adds the time since then to a stage's; returns the time now. */
double vp_stages_lap(const struct vp_stages *w, const char *stage, double since)
{
    const double now = vp_now();
    vp_stats_time(w->r->stats, stage, now - since);
    return now;
}

/* ---- buffers ---- */

/* Allocates a buffer that the devices copy fast from and to, unless it exists. */
int vp_stages_take(const struct vp_stages *w, float **p, uint64_t count, const char *what, struct vp_err *err)
{
    if (*p)
        return 0;
    if (vp_stages_on_host(w))
        return (*p = vp_alloc_raw(count, sizeof(float), what, err)) ? 0 : -1;
    const double t = vp_now();
    *p = w->r->backend->host_alloc(count * sizeof(float));
    vp_stages_lap(w, "buffers", t);
    return *p ? 0 : vp_fail(err, VP_ERESOURCE, "no page-locked memory for %s: expected %s", what,
                            vp_bytes_text(count * sizeof(float)).text);
}

static void give_back(const struct vp_stages *w, float **p)
{
    if (*p)
        w->r->backend->host_free(*p);
    *p = NULL;
}

/* Makes a device current: page-locked memory belongs to that of the thread that allocates it. */
void vp_stages_join_device(const struct vp_stages *w)
{
    struct vp_device_info ignored;
    struct vp_err err = VP_ERR_INIT;
    if (!vp_stages_on_host(w))
        w->r->backend->info(w->r->devices[0], &ignored, &err);
}

static void free_inputs(struct vp_stages *w)
{
    for (int i = 0; i < VP_RECONSTRUCT_SLOTS; i++) {
        give_back(w, &w->batch[i].in);
        give_back(w, &w->batch[i].wide);
    }
}

/* Returns the rows that a slot of views has room for: those of the pass, or all if others follow, which may need
 * more. */
static int64_t rows_of_slot(const struct vp_stages *w)
{
    return w->p->passes > 1 || w->p->made > 0 ? w->r->projections.nv : w->v1 - w->v0;
}

/* Returns the rows of a view that comes in, and that a slot has room for. */
static int64_t rows_in(const struct vp_stages *w)
{
    return w->r->in_nv ? w->r->in_nv : w->v1 - w->v0;
}

static int64_t rows_of_input(const struct vp_stages *w)
{
    return w->r->in_nv ? w->r->in_nv : rows_of_slot(w);
}

/* Starts a thread at one end of a ring. */
int vp_stages_start(struct vp_stages *w, struct vp_thread *t, struct vp_ring *ring, int slots,
                 int (*work)(void *, struct vp_err *), struct vp_err *err)
{
    vp_ring_init(ring, slots);
    if (!vp_thread_start(t, work, w, t == &w->reader, err))
        return 0;
    vp_ring_destroy(ring);
    return -1;
}

static int join(struct vp_thread *t, struct vp_ring *ring, struct vp_err *err)
{
    const int rc = vp_thread_join(t, err);
    vp_ring_destroy(ring);
    return rc;
}

/* ---- reading ---- */

static int read_run(struct vp_stages *w, int64_t first, int n, float *to, struct vp_err *err)
{
    const struct vp_reconstruct *r = w->r;
    if (r->projections.read)
        return r->projections.read(r->projections.ctx, first, n, w->v0, w->v1, to, err);
    const int64_t v0 = r->in_nv ? 0 : w->v0;
    if (vp_reconstruct_read(r, first, n, v0, v0 + rows_in(w), to, w->count_bad ? &w->result->bad : NULL, err))
        return -1;
    if (w->count_bad && !r->normalize)
        vp_blank_look(&w->result->repaired.blank, to, first, n, r->in_nu * rows_in(w));
    return 0;
}

/* Reads views [first, end), all of one subset, and their opposite ones into the next slot. Returns 1, 0 if no more are
 * wanted, -1 on errors. */
static int read_batch(struct vp_stages *w, int64_t first, int64_t end, int most, struct vp_err *err)
{
    const int64_t n = end - first, view = w->need.width * rows_in(w);
    const int slot = vp_ring_fill(&w->views), runs = w->p->probe.opposite ? 2 : 1;
    if (slot < 0)
        return 0;
    if (w->r->ranks && vp_ranks_check(w->r->ranks, err))
        return -1;
    struct vp_stages_batch *const b = &w->batch[slot];
    if (vp_stages_take(w, &b->in, (uint64_t)(runs * most * w->need.width * rows_of_input(w)), "the projections", err))
        return -1;
    const double t = vp_now();
    b->first = first;
    b->n = (int)n;
    for (int i = 0; i < runs; i++)
        if (read_run(w, first + i * w->p->probe.opposite, b->n, b->in + i * n * view, err))
            return -1;
    w->last_view = vp_stages_lap(w, "read", t);
    if (w->first_view == 0)
        w->first_view = w->last_view;
    vp_ring_filled(&w->views);
    return 1;
}

/* Reads batches of all subsets in turn. They end at multiples of the batch, so that the back-projection can take each
 * at once. */
static int read_views(void *arg, struct vp_err *err)
{
    struct vp_stages *w = arg;
    const struct vp_reconstruct_plan *p = w->p;
    const int step = p->probe.opposite ? p->batch / 2 : p->batch;
    bool more = true;
    int rc = 1;

    vp_stages_join_device(w);
    for (int64_t round = 0; more && rc > 0; round++) {
        more = false;
        for (int c = 0; c < p->subsets && rc > 0; c++) {
            const struct vp_bp_job *part = &p->part[c].job; /* the subset's part of the first slab */
            const int64_t last = p->probe.opposite ? vp_min64(part->last, p->probe.opposite) : part->last;
            const int64_t end = vp_min64((part->first / step + round + 1) * step, last);
            const int64_t first = round ? (part->first / step + round) * step : part->first;
            if (first < end) {
                more = true;
                rc = read_batch(w, first, end, step, err);
            }
        }
    }
    vp_ring_end(&w->views);
    return rc < 0 ? -1 : 0;
}

/* Stops the reader. `now`: at once, for it may wait for a pipe on which nothing comes. */
static int stop_reading(struct vp_stages *w, bool now, struct vp_err *err)
{
    if (!w->reader.running)
        return 0;
    vp_ring_stop(&w->views);
    if (now)
        vp_thread_wake(&w->reader);
    return join(&w->reader, &w->views, err);
}

/* ---- computing ---- */

/* Normalises n views from `first` on, and filters them into q unless the devices do it. Returns where they are then. */
static const float *prepare(struct vp_stages *w, int64_t first, int n, float *p, float *q)
{
    const struct vp_reconstruct *r = w->r;
    double t = vp_now();

    if (r->projections.read)
        return p;
    if (r->normalize) {
        vp_normalize_pages(r->normalize, 0, first, n, p, p, w->count_bad ? &w->result->repaired : NULL);
        t = vp_stages_lap(w, "normalize", t);
    }
    if (r->filter && w->count_bad)
        vp_filter_look(r->filter, first, n, w->v0, w->v1, p, &w->result->truncation);
    if (!r->filter || w->p->filter_device)
        return p;
    vp_filter_rows(r->filter, first, n, w->v0, w->v1, p, q);
    vp_stages_lap(w, "filter", t);
    return q;
}

/* Projects views back on the devices of their subset. */
static int hand_over(struct vp_stages *w, uint64_t *ticket, int64_t first, int64_t n, const float *p,
                     struct vp_err *err)
{
    const double t = vp_now();
    const struct vp_batch views = {.first = first, .n = n, .v0 = w->v0, .v1 = w->v1, .samples = p};
    if (vp_projector_back(w->projector, &views, ticket, err))
        return -1;
    vp_stages_lap(w, "backproject", t);
    vp_progress_add(w->r->progress, n);
    return 0;
}

/* Adds the views of a slot; `wide`, if not NULL, is for those that the host filters. */
static int add(struct vp_stages *w, struct vp_stages_batch *at, float *wide, struct vp_err *err)
{
    const int n = at->n, runs = w->p->probe.opposite ? 2 : 1;
    const int64_t rows = w->v1 - w->v0, in = rows_in(w) * w->need.width;
    const int64_t out = rows * (w->p->filter_device ? w->r->in_nu : w->r->projections.nu);
    const int64_t step = w->p->probe.opposite ? w->run_views : n;
    const float *ready[2];

    for (int i = 0; i < runs; i++) {
        float *const p = at->in + i * n * in;
        ready[i] = prepare(w, at->first + i * w->p->probe.opposite, n, p, wide ? wide + i * n * out : p);
    }
    for (int64_t k = 0; k < n; k += step)
        for (int i = 0; i < runs; i++)
            if (hand_over(w, at->ticket, at->first + k + i * w->p->probe.opposite, vp_min64(step, n - k),
                          ready[i] + k * out, err))
                return -1;
    return 0;
}

/* Adds all views from the reader, until it ends. */
static int add_all(struct vp_stages *w, struct vp_err *err)
{
    struct vp_err ignored = VP_ERR_INIT;
    int rc = 0, slot, before = -1, handled = 0;

    while ((slot = vp_ring_look(&w->views, before >= 0)) >= 0) {
        /* the writer reports why */
        if ((rc = w->failed ? -1 : add(w, &w->batch[slot], w->batch[vp_stages_on_host(w) ? 0 : slot].wide, err)))
            break;
        /* the host goes on with the next slot while this one is copied */
        if (vp_stages_on_host(w)) {
            vp_ring_taken(&w->views);
            continue;
        }
        /* not before the reader has its own slots: the devices wait for those */
        if (++handled == w->need.in)
            vp_thread_start(&w->maker, vp_stages_make_slots, w, false, &ignored);
        if (before >= 0) {
            const double t = vp_now();
            if ((rc = vp_projector_wait(w->projector, w->batch[before].ticket, err)))
                break;
            vp_stages_lap(w, "upload", t);
            vp_ring_taken(&w->views);
        }
        before = slot;
    }
    /* an error of the work goes before one of the reader */
    if (stop_reading(w, rc != 0, rc ? &ignored : err))
        rc = -1;
    const double t = vp_now();
    rc = rc ? rc : vp_projector_end(w->projector, err);
    if (before >= 0 && !rc)
        rc = vp_projector_wait(w->projector, w->batch[before].ticket, err);
    vp_stages_lap(w, "backproject", t);
    return rc;
}

/* Adds all views to the slabs of one pass. */
static int accumulate(struct vp_stages *w, struct vp_err *err)
{
    const uint64_t wide = (uint64_t)w->p->batch * (uint64_t)(rows_of_slot(w) * w->r->projections.nu);
    struct vp_err ignored = VP_ERR_INIT;

    w->made = false;
    if (!w->filled && !(w->filled = vp_alloc((size_t)w->p->out_slots, sizeof *w->filled, "the slices", err)))
        return -1;
    for (int i = 0; i < w->need.wide; i++)
        if (vp_stages_take(w, &w->batch[i].wide, wide, "the filtered projections", err))
            return -1;
    const int rc = add_all(w, err);
    w->made = true;
    /* if it failed, store_range() tries again and reports it */
    vp_thread_join(&w->maker, &ignored);
    return rc;
}

/* ---- a pass ---- */

static void close_volume(struct vp_stages *w)
{
    vp_projector_close(w->projector);
    vp_volume_close(&w->volume);
    w->projector = NULL;
}

static int open_volume(struct vp_stages *w, struct vp_err *err)
{
    const struct vp_backend *k = w->r->backend;
    if (!vp_projector_open(&w->projector, k, w->p->part, w->p->parts, err)
        && !vp_volume_open(&w->volume, k, w->p->part, w->p->parts, err)
        && !vp_projector_begin(w->projector, &w->volume, VP_SET, err))
        return 0;
    close_volume(w);
    return -1;
}

static int begin_reading(struct vp_stages *w, struct vp_err *err)
{
    w->need = vp_reconstruct_buffers(w->p);
    w->count_bad = w->p->made == 0;
    w->first_view = w->count_bad ? 0 : w->first_view;
    w->v0 = w->r->projections.nv;
    w->v1 = 0;
    w->run_views = w->r->projections.n_views;
    for (int i = 0; i < w->p->parts; i++) {
        const struct vp_bp_plan *plan = &w->p->part[i].plan;
        w->v0 = vp_min64(w->v0, plan->v0);
        w->v1 = vp_max64(w->v1, plan->v1);
        w->run_views = vp_min64(w->run_views, plan->batch);
    }
    /* normalisation needs whole views; and every sample is checked once */
    if (!w->r->projections.read && !w->r->in_nv && (w->r->normalize || (w->p->made == 0 && w->p->passes > 1))) {
        w->v0 = 0;
        w->v1 = w->r->projections.nv;
    }
    return vp_stages_start(w, &w->reader, &w->views, w->need.in, read_views, err);
}

/* Plans the slices that are left after the last pass, or replaces a plan for which memory fell short. */
static int plan_again(struct vp_stages *w, int64_t made, bool shortage, struct vp_err *err)
{
    const struct vp_reconstruct_done done = {.plan = w->p, .made = made, .took = shortage ? NULL : w->took,
                                             .shortage = shortage};
    struct vp_reconstruct_plan next;
    if (shortage)
        *err = (struct vp_err)VP_ERR_INIT;
    if (vp_reconstruct_plan(&next, w->r, &done, err))
        return -1;
    if (shortage || next.batch != w->p->batch || next.probe.opposite != w->p->probe.opposite
        || next.filter_device != w->p->filter_device)
        free_inputs(w);
    w->own = next;
    w->p = &w->own;
    return 0;
}

/* Opens the slabs of a pass and starts the reader: seekable input is read from the beginning while the devices
 * allocate. Memory of a device may have gone since the plan was made: then a smaller one, unless other ranks count on
 * this one, for the parts of a batch or for the slices in their order. */
static int open_pass(struct vp_stages *w, struct vp_err *err)
{
    const bool early = vp_views_seekable(w->r->projections.source) && !vp_stages_on_host(w);
    const bool agreed = w->r->projections.read || (w->out->put && !w->out->any_order);

    w->start = vp_now();
    for (int attempt = 1;; attempt++) {
        if (early && begin_reading(w, err))
            return -1;
        if (!open_volume(w, err))
            return early ? 0 : begin_reading(w, err);
        const bool again = err->code == VP_ERESOURCE && !vp_stages_on_host(w) && !agreed && attempt < ATTEMPTS;
        /* sinograms from a pipe, which are held, must not be lost */
        stop_reading(w, !again, err);
        w->result->bad = w->p->made ? w->result->bad : 0;
        if (!again || plan_again(w, w->p->made, true, err))
            return -1;
    }
}

/* Adds the statistics of a pass: sums over devices; of the seconds of kernels and of the phase, those of the
 * slowest. */
static void add_stats(struct vp_stages *w)
{
    double kernel = 0, phase = 0, first = 0;
    for (int i = 0; i < w->p->parts; i++) {
        struct vp_bp_stats one;
        vp_projector_stats(w->projector, i, &one);
        w->took[i] = one.kernel;
        w->sum.filter += one.filter;
        w->sum.uploaded += one.uploaded;
        w->sum.downloaded += one.downloaded;
        kernel = one.kernel > kernel ? one.kernel : kernel;
        phase = one.phase > phase ? one.phase : phase;
        first = one.first > first ? one.first : first;
    }
    w->sum.kernel += kernel;
    w->sum.phase += phase;
    if (w->p->made == 0)
        w->first_kernel = w->start + first;
    w->result->used = w->p->used > w->result->used ? w->p->used : w->result->used;
    w->result->passes++;
}

static int run_pass(struct vp_stages *w, struct vp_err *err)
{
    struct vp_err ignored = VP_ERR_INIT;
    double t = vp_now();
    int rc = open_pass(w, err);

    t = vp_stages_lap(w, "prepare", t);
    rc = rc || accumulate(w, err) ? -1 : 0;
    /* the end of the input is checked before the volume is called good */
    if (!rc && w->p->made == 0 && w->r->last == w->r->projections.n_views)
        rc = vp_views_finish(w->r->projections.source, err);
    w->busy += vp_now() - t;
    if (!rc)
        rc = vp_stages_store(w, err);
    if (!rc)
        add_stats(w);
    t = vp_now();
    stop_reading(w, true, &ignored);
    close_volume(w);
    vp_stages_lap(w, "close", t);
    return rc;
}

/* Runs pass after pass until no slice is left. */
static int run_passes(struct vp_stages *w, struct vp_err *err)
{
    for (;;) {
        if (run_pass(w, err))
            return -1;
        const struct vp_reconstruct_domain d = vp_reconstruct_domain(w->p);
        const int64_t end = w->p->part[w->p->parts - 1].job.z1;
        if (end >= d.hi)
            return 0;
        if (plan_again(w, w->p->made + end - d.lo, false, err))
            return -1;
    }
}

/* ---- all of it ---- */

static void report(const struct vp_stages *w)
{
    const struct vp_reconstruct *r = w->r;
    struct vp_stats *const s = r->stats;
    const double slices = (double)((r->half ? 2 : 1) * (r->z1 - r->z0));
    const double gigaupdates = (double)r->grid->n[0] * (double)r->grid->n[1] * slices * (double)(r->last - r->first) /
                               w->p->columns / 1073741824.0;
    vp_stats_text(s, "kernel", w->p->part[0].plan.kernel);
    vp_stats_number(s, "passes", (double)w->result->passes);
    vp_stats_number(s, "gups", w->busy > 0 ? gigaupdates / w->busy : 0);
    vp_stats_number(s, "gups_end_to_end", gigaupdates / (vp_now() - w->begun));
    vp_stats_number(s, "seconds_to_first_view", w->first_view - w->begun);
    if (!vp_stages_on_host(w))
        vp_stats_number(s, "seconds_to_first_kernel", w->first_kernel - w->begun);
    vp_stats_number(s, "seconds_to_last_view", w->last_view - w->begun);
    vp_stats_number(s, "seconds_after_last_view", vp_now() - w->last_view);
    if (vp_stages_on_host(w))
        return;
    vp_stats_number(s, "devices", w->result->used);
    vp_stats_number(s, "subsets", w->p->subsets);
    vp_stats_number(s, "kernel_seconds", w->sum.kernel);
    vp_stats_number(s, "kernel_gups", w->sum.kernel > 0 ? gigaupdates / w->sum.kernel : 0);
    vp_stats_number(s, "compute_seconds", w->sum.phase);
    vp_stats_number(s, "device_filter_seconds", w->sum.filter);
    vp_stats_count(s, "bytes_uploaded", w->sum.uploaded);
    vp_stats_count(s, "bytes_downloaded", w->sum.downloaded);
}

int vp_reconstruct_run(const struct vp_reconstruct_plan *p, struct vp_volume *out,
                       struct vp_reconstruct_result *result, struct vp_err *err)
{
    const struct vp_reconstruct *r = p->of;
    struct vp_stages w = {.r = r, .p = p, .result = result, .out = out, .begun = vp_now()};

    memset(result, 0, sizeof *result);
    vp_progress_start(r->progress, "reconstructing", "views", (r->last - r->first) * p->passes);
    int rc = run_passes(&w, err);
    if (w.storer.running) {
        vp_ring_end(&w.slices);
        rc = join(&w.storer, &w.slices, err) ? -1 : rc;
    }
    if (!rc || !r->ranks) { /* else messages that were given up may still be on their way */
        free_inputs(&w);
        for (int i = 0; w.filled && i < w.p->out_slots; i++)
            give_back(&w, &w.filled[i].slices);
        for (int i = 0; i < VP_RECONSTRUCT_DEVICES; i++)
            give_back(&w, &w.partial[i]);
    }
    free(w.filled);
    if (!rc) {
        result->read = w.last_view - w.begun;
        result->compute = vp_stages_on_host(&w) ? w.busy : w.sum.phase;
        report(&w);
    }
    return rc;
}

/* ---- views, here and among ranks ---- */

int vp_reconstruct_read(const struct vp_reconstruct *r, int64_t first, int64_t n, int64_t v0, int64_t v1, float *to,
                        int64_t *bad, struct vp_err *err)
{
    const int64_t got = vp_views_read(r->projections.source, first, n, v0, v1, to, bad, r->threads, err);
    if (got == n)
        return 0;
    return got < 0 ? -1 : vp_fail(err, VP_ERUN, "%s ends after %lld views, expected %lld",
                                  vp_views_name(r->projections.source), (long long)(first + got),
                                  (long long)r->projections.n_views);
}
