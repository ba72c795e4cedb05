/* SPDX-License-Identifier: BSD-3-Clause */
/* The stages of a reconstruction and the threads around them. The order of the stages is that of
 * iFDK (Chen et al. 2019, fig. 3): load, filter, back-project, store, each overlapping its neighbours.
 *
 * Views that lie half a turn apart are read together where the input is seekable and the kernel works on them
 * together: neither has then to wait for the other. Subsets of the views are read in turn, so that no device waits.
 *
 * The first views are read while the devices allocate their slabs, the buffers of the output are made while the views
 * are worked on, and a pass begins while the slices of the one before it are written. */
#include "ct/reconstruct_internal.h"

#include "base/err.h"
#include "base/progress.h"
#include "base/ring.h"
#include "base/size.h"
#include "base/stats.h"
#include "run/ranks.h"
#include "run/thread.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_SLOTS = VP_RECONSTRUCT_SLOTS,
    ATTEMPTS = 3   /* to open a pass */
};

/* Slots are kept from one pass to the next, and to the end: to free memory that a device copies from, it would have to
 * stop. `wide`: views that the host filters into longer rows. `partial`: slices of the second and later subsets. */
struct buffers {
    float *in[MOST_SLOTS], *wide[MOST_SLOTS];
    float **out, **partial; /* of p->group slices each */
};

/* A reader thread fills slots with batches of views. */
struct source {
    int64_t v0, v1; /* rows that are read */
    struct vp_ring ring;
    int64_t first[MOST_SLOTS];
    int count[MOST_SLOTS], subset[MOST_SLOTS];
    int partners[MOST_SLOTS]; /* that many more follow, from view first + partner on */
    bool count_bad;  /* the first pass counts, the others see the same samples */
    double begun, done; /* when the first view was there, and the last */
    struct vp_thread thread;
};

/* A thread makes the slots of the output while views are worked on. */
struct maker {
    atomic_bool enough;
    struct vp_thread thread;
};

/* Slices for the writer. */
struct filled {
    const float *slices;
    int count;
    int64_t page; /* of the first */
};

/* A writer thread empties slots of slices, pass after pass. */
struct sink {
    struct vp_writer *writer;
    struct vp_ring ring;
    struct filled *slot; /* in any order if `any_order` */
    bool any_order;
    atomic_bool failed;
    struct vp_thread thread;
};

/* What a device is at, that makes part i of a plan. */
struct worker {
    struct vp_slab *slab;
    double began;                /* to be opened */
    uint64_t ticket[MOST_SLOTS]; /* of the views in each slot */
};

/* Of all passes. */
struct totals {
    struct vp_bp_stats sum;
    double start, busy, first_view, first_kernel, last_view;
};

struct run {
    const struct vp_reconstruct *r;
    const struct vp_reconstruct_plan *p; /* of this pass: that of the beginning, or `own` */
    struct vp_reconstruct_plan own;
    struct vp_reconstruct_result *result;
    struct worker *worker; /* n_devices, */
    double *took;          /* and what the kernels of each took in the last pass; 0: not measured */
    struct buffers buffers;
    struct source source;
    struct maker maker;
    struct sink sink;
    struct totals all;
    int64_t together; /* views that are handed over before their partners */
    double start;     /* of the pass */
};

static bool on_host(const struct run *w)
{
    return w->r->kind->on_host;
}

/* A buffer that the devices copy fast from and to. */
static float *take(const struct run *w, uint64_t count, const char *what, struct vp_err *err)
{
    char text[16];
    if (on_host(w))
        return vp_alloc_raw(count, sizeof(float), what, err);
    const double t = vp_now();
    float *p = w->r->kind->host_alloc(count * sizeof(float));
    vp_stats_time(w->r->stats, "buffers", vp_now() - t);
    if (!p)
        vp_fail(err, VP_ERESOURCE, "no page-locked memory for %s: expected %s", what,
                vp_format_bytes(text, sizeof text, count * sizeof(float)));
    return p;
}

/* Page-locked memory belongs to the device of the thread that asks for it. */
static void join_device(const struct run *w)
{
    struct vp_device_info ignored;
    struct vp_err err = VP_ERR_INIT;
    if (!on_host(w))
        w->r->kind->info(w->r->devices[0], &ignored, &err);
}

static void give_back(const struct run *w, float **p)
{
    if (*p)
        w->r->kind->host_free(*p);
    *p = NULL;
}

static void free_inputs(struct run *w)
{
    for (int i = 0; i < MOST_SLOTS; i++) {
        give_back(w, &w->buffers.in[i]);
        give_back(w, &w->buffers.wide[i]);
    }
}

static void free_outputs(struct run *w)
{
    struct buffers *b = &w->buffers;
    for (int i = 0; b->out && i < w->p->out_slots; i++)
        give_back(w, &b->out[i]);
    for (int i = 0; b->partial && i < w->r->n_devices; i++)
        give_back(w, &b->partial[i]);
    free(b->out);
    free(b->partial);
}

/* Rows that a slot has room for: those of the pass, or all if others follow, which may need more. */
static int64_t rows_of_slot(const struct run *w)
{
    return on_host(w) || w->p->passes > 1 || w->p->made > 0 ? w->r->nv : w->source.v1 - w->source.v0;
}

/* ---- reading ---- */

static int read_run(struct run *w, int64_t first, int n, float *to, struct vp_err *err)
{
    const struct source *s = &w->source;
    const struct vp_reconstruct_feed *feed = w->r->feed;
    if (feed)
        return feed->read(feed->ctx, first, n, s->v0, s->v1, to, err);
    const int64_t got = vp_views_read_many(w->r->source, first, n, s->v0, s->v1, to,
                                           s->count_bad ? &w->result->bad : NULL, w->r->threads, err);
    if (got == n)
        return 0;
    return got < 0 ? -1 : vp_fail(err, VP_ERUN, "%s ends after %lld views, expected %lld", vp_views_name(w->r->source),
                                  (long long)(first + got), (long long)w->r->n_views);
}

/* Views [first, end) of a subset, and their partners, into the next slot. 1, 0 if no more are wanted, -1 on errors. */
static int read_batch(struct run *w, int subset, int64_t first, int64_t end, int most, struct vp_err *err)
{
    struct source *s = &w->source;
    const int64_t partner = w->p->partner;
    const int64_t width = vp_reconstruct_in_width(w->p);
    const size_t view = (size_t)width * (size_t)(s->v1 - s->v0);
    const uint64_t room = (partner ? 2 : 1) * (uint64_t)most * (uint64_t)(width * rows_of_slot(w));
    const int slot = vp_ring_fill(&s->ring), n = (int)(end - first);
    if (slot < 0)
        return 0;
    if (w->r->ranks && vp_ranks_check(w->r->ranks, err))
        return -1;
    float **const to = &w->buffers.in[slot];
    if (!*to && !(*to = take(w, room, "the projections", err)))
        return -1;
    const double t = vp_now();
    s->first[slot] = first;
    s->count[slot] = n;
    s->subset[slot] = subset;
    s->partners[slot] = partner ? n : 0;
    if (read_run(w, first, n, *to, err) || (partner && read_run(w, first + partner, n, *to + (size_t)n * view, err)))
        return -1;
    vp_stats_time(w->r->stats, "read", vp_now() - t);
    if (s->begun == 0)
        s->begun = vp_now();
    vp_ring_filled(&s->ring);
    return 1;
}

/* Batches from all subsets in turn. They end at multiples of the batch, so that the back-projection can take each at
 * once. */
static int read_views(void *arg, struct vp_err *err)
{
    struct run *w = arg;
    const struct vp_reconstruct_plan *p = w->p;
    const int step = p->partner ? p->batch / 2 : p->batch;
    bool more = true;
    int rc = 1;

    join_device(w);
    for (int64_t round = 0; more && rc > 0; round++) {
        more = false;
        for (int c = 0; c < p->subsets && rc > 0; c++) {
            const struct vp_bp_part *part = &p->part[c]; /* of the first slab */
            const int64_t last = p->partner ? vp_min64(part->last, p->partner) : part->last;
            const int64_t end = vp_min64((part->first / step + round + 1) * step, last);
            const int64_t first = round ? (part->first / step + round) * step : part->first;
            if (first < end) {
                more = true;
                rc = read_batch(w, c, first, end, step, err);
            }
        }
    }
    w->source.done = vp_now();
    vp_ring_end(&w->source.ring);
    return rc < 0 ? -1 : 0;
}

static int start_reader(struct run *w, struct vp_err *err)
{
    vp_ring_init(&w->source.ring, vp_reconstruct_in_slots(w->p));
    if (!vp_thread_start(&w->source.thread, read_views, w, true, err))
        return 0;
    vp_ring_destroy(&w->source.ring);
    return -1;
}

/* now: do not wait for views that are not wanted any more; the reader may wait for a pipe that has nothing to say. */
static int stop_reader(struct run *w, bool now, struct vp_err *err)
{
    struct source *s = &w->source;
    if (!s->thread.running)
        return 0;
    vp_ring_stop(&s->ring);
    if (now)
        vp_thread_wake(&s->thread);
    const int rc = vp_thread_join(&s->thread, err);
    vp_ring_destroy(&s->ring);
    return rc;
}

/* ---- the beginning of a pass ---- */

static void close_slabs(struct run *w)
{
    for (int i = 0; i < w->p->parts; i++) {
        vp_slab_close(w->worker[i].slab);
        w->worker[i].slab = NULL;
    }
}

/* Every device allocates for itself. */
static int open_slabs(struct run *w, struct vp_err *err)
{
    int rc = 0;
#pragma omp parallel for num_threads(w->p->parts) schedule(static, 1) reduction(min : rc) if (w->p->parts > 1)
    for (int i = 0; i < w->p->parts; i++) {
        const struct vp_bp_job job = vp_reconstruct_job(w->p, &w->p->part[i]);
        struct vp_err why = VP_ERR_INIT;
        w->worker[i].began = vp_now() - w->start;
        if (vp_slab_open(&w->worker[i].slab, w->r->kind, &job, &why))
            rc = vp_err_keep(err, &why);
    }
    return rc;
}

static void begin_source(struct run *w)
{
    struct source *s = &w->source;
    *s = (struct source){.v0 = w->r->nv, .count_bad = w->p->made == 0};
    w->together = w->r->n_views;
    for (int i = 0; i < w->p->parts; i++) {
        const struct vp_bp_plan *plan = &w->p->part[i].plan;
        s->v0 = vp_min64(s->v0, plan->v0);
        s->v1 = vp_max64(s->v1, plan->v1);
        w->together = vp_min64(w->together, plan->together);
    }
    /* normalisation looks at whole views; and every sample is looked at once */
    if (!w->r->feed && (w->r->normalize || (w->p->made == 0 && w->p->passes > 1))) {
        s->v0 = 0;
        s->v1 = w->r->nv;
    }
}

/* For the slices that are left after the last pass, or instead of a plan for which memory fell short. */
static int plan_again(struct run *w, int64_t made, bool shortage, struct vp_err *err)
{
    const struct vp_reconstruct_done done = {.plan = w->p, .made = made, .took = shortage ? NULL : w->took,
                                             .shortage = shortage};
    struct vp_reconstruct_plan next;
    if (shortage)
        *err = (struct vp_err)VP_ERR_INIT;
    if (vp_reconstruct_plan(&next, w->r, &done, err))
        return -1;
    if (shortage || next.batch != w->p->batch || next.partner != w->p->partner
        || next.filter_device != w->p->filter_device)
        free_inputs(w);
    vp_reconstruct_plan_free(&w->own);
    w->own = next;
    w->p = &w->own;
    return 0;
}

/* The slabs of a pass, opened, and the reader at work: what can be read again is read from the beginning while the
 * devices allocate. Memory of a device may have gone since the plan was made: then a smaller one. */
static int open_pass(struct run *w, struct vp_err *err)
{
    const bool early = vp_views_seekable(w->r->source) && !on_host(w);

    w->start = vp_now();
    for (int attempt = 1;; attempt++) {
        begin_source(w);
        if (early && start_reader(w, err))
            return -1;
        if (!open_slabs(w, err))
            return early ? 0 : start_reader(w, err);
        const bool again = err->code == VP_ERESOURCE && !on_host(w) && attempt < ATTEMPTS;
        /* what a pipe has brought of sinograms, which are held, must not be lost */
        stop_reader(w, !again, err);
        close_slabs(w);
        w->result->bad = w->p->made ? w->result->bad : 0;
        if (!again || plan_again(w, w->p->made, true, err))
            return -1;
    }
}

/* ---- computing ---- */

static int wait_slot(struct run *w, int slot, struct vp_err *err)
{
    for (int i = 0; i < w->p->parts; i++)
        if (vp_slab_wait(w->worker[i].slab, w->worker[i].ticket[slot], err))
            return -1;
    return 0;
}

/* n views from `first`: normalise them, and filter them into q unless the devices do it. Where they are then. */
static float *prepare(struct run *w, int64_t first, int n, float *p, float *q)
{
    const struct vp_reconstruct *r = w->r;
    const struct source *s = &w->source;
    double t = vp_now(), t1;

    if (r->feed)
        return p;
    if (r->normalize) {
#pragma omp parallel for schedule(dynamic) num_threads(r->threads)
        for (int i = 0; i < n; i++)
            vp_normalize_view(r->normalize, first + i, p + (size_t)(i * (s->v1 - s->v0) * r->in_nu),
                              s->count_bad ? &w->result->repaired : NULL);
        t1 = vp_now();
        vp_stats_time(r->stats, "normalize", t1 - t);
        t = t1;
    }
    if (!r->filter || w->p->filter_device)
        return p;
    vp_filter_rows(r->filter, first, n, s->v0, s->v1, p, q);
    vp_stats_time(r->stats, "filter", vp_now() - t);
    return q;
}

/* On the host whole views are wanted. The rows that were not read hold anything: nothing is taken from them. */
static void spread(const struct run *w, int n, float *q)
{
    const int64_t v0 = w->source.v0, rows = w->source.v1 - v0, nu = w->r->nu, nv = w->r->nv;
    if (on_host(w) && rows < nv)
        for (int64_t i = n - 1; i >= 0; i--)
            memmove(q + (i * nv + v0) * nu, q + i * rows * nu, (size_t)(rows * nu) * sizeof *q);
}

/* To all devices that sum up the subset. */
static int hand_over(struct run *w, int slot, int64_t first, int64_t n, const float *p, struct vp_err *err)
{
    const double t = vp_now();
    const int64_t v0 = on_host(w) ? 0 : w->source.v0, v1 = on_host(w) ? w->r->nv : w->source.v1;
    for (int i = 0; i < w->p->parts; i++) {
        struct worker *d = &w->worker[i];
        if (w->p->part[i].subset != w->source.subset[slot])
            d->ticket[slot] = 0;
        else if (vp_slab_add(d->slab, first, n, v0, v1, p, &d->ticket[slot], err))
            return -1;
    }
    vp_stats_time(w->r->stats, "backproject", vp_now() - t);
    vp_progress_add(w->r->progress, n);
    return 0;
}

/* What is in a slot; `wide`, if not NULL, is where the host filters to. */
static int add(struct run *w, int slot, float *wide, struct vp_err *err)
{
    const struct source *s = &w->source;
    const int n = s->count[slot];
    const size_t rows = (size_t)(s->v1 - s->v0), in = rows * (size_t)vp_reconstruct_in_width(w->p);
    const size_t out = rows * (size_t)(w->p->filter_device ? w->r->in_nu : w->r->nu);
    float *p = w->buffers.in[slot];
    float *a = prepare(w, s->first[slot], n, p, wide ? wide : p);

    spread(w, n, a);
    if (!s->partners[slot])
        return hand_over(w, slot, s->first[slot], n, a, err);
    p += (size_t)n * in;
    const int64_t partner = w->p->partner;
    const float *b = prepare(w, s->first[slot] + partner, n, p, wide ? wide + (size_t)n * out : p);
    for (int64_t i = 0; i < n; i += w->together) {
        const int64_t k = vp_min64(w->together, n - i), first = s->first[slot] + i;
        if (hand_over(w, slot, first, k, a + (size_t)i * out, err) ||
            hand_over(w, slot, first + partner, k, b + (size_t)i * out, err))
            return -1;
    }
    return 0;
}

static int make_output(const struct run *w, float **slot, struct vp_err *err)
{
    const uint64_t count = (uint64_t)w->p->group * (uint64_t)w->r->grid->n[0] * (uint64_t)w->r->grid->n[1];
    return *slot || (*slot = take(w, count, "the slices", err)) ? 0 : -1;
}

static int make_slots(void *arg, struct vp_err *err)
{
    struct run *w = arg;
    int rc = 0;
    join_device(w);
    for (int i = 0; i < w->p->out_slots && !w->maker.enough && !rc; i++)
        rc = make_output(w, &w->buffers.out[i], err);
    return rc;
}

/* What comes from the reader, until it ends. */
static int add_all(struct run *w, struct vp_err *err)
{
    struct source *s = &w->source;
    struct vp_err ignored = VP_ERR_INIT;
    int rc = 0, slot, before = -1, handled = 0;

    while ((slot = vp_ring_look(&s->ring, before >= 0)) >= 0) {
        /* the writer says why */
        if ((rc = w->sink.failed ? -1 : add(w, slot, w->buffers.wide[on_host(w) ? 0 : slot], err)))
            break;
        /* the host goes on with the next slot while this one is copied */
        if (on_host(w)) {
            vp_ring_taken(&s->ring);
            continue;
        }
        /* not before the reader has its own: it is waited for */
        if (++handled == vp_reconstruct_in_slots(w->p))
            vp_thread_start(&w->maker.thread, make_slots, w, false, &ignored);
        if (before >= 0) {
            const double t = vp_now();
            if ((rc = wait_slot(w, before, err)))
                break;
            vp_stats_time(w->r->stats, "upload", vp_now() - t);
            vp_ring_taken(&s->ring);
        }
        before = slot;
    }
    /* where the work failed that is the error, whatever the reader has to say */
    if (stop_reader(w, rc != 0, rc ? &ignored : err))
        rc = -1;
    const double t = vp_now();
    for (int i = 0; i < w->p->parts && !rc; i++)
        rc = vp_slab_flush(w->worker[i].slab, err);
    if (before >= 0 && !rc)
        rc = wait_slot(w, before, err);
    vp_stats_time(w->r->stats, "backproject", vp_now() - t);
    return rc;
}

/* All views through the stages into the slabs of one pass. */
static int accumulate(struct run *w, struct vp_err *err)
{
    struct buffers *b = &w->buffers;
    const uint64_t wide = (uint64_t)w->p->batch * (uint64_t)(rows_of_slot(w) * w->r->nu);
    struct vp_err ignored = VP_ERR_INIT;

    w->maker.enough = false;
    if (!b->out && !(b->out = calloc((size_t)w->p->out_slots, sizeof *b->out)))
        return vp_fail(err, VP_ERESOURCE, "out of memory");
    for (int i = 0; i < vp_reconstruct_wide_slots(w->p); i++)
        if (!b->wide[i] && !(b->wide[i] = take(w, wide, "the filtered projections", err)))
            return -1;
    const int rc = add_all(w, err);
    w->maker.enough = true;
    /* if it failed, store_range() tries again and says so */
    vp_thread_join(&w->maker.thread, &ignored);
    return rc;
}

/* ---- writing ---- */

static int write_slot(struct run *w, const struct filled *f, struct vp_err *err)
{
    const struct sink *s = &w->sink;
    const struct vp_reconstruct_sink *to = w->r->sink;
    if (to)
        return to->put(to->ctx, f->page + w->r->z0, f->count, f->slices, err);
    return s->any_order ? vp_writer_bands(s->writer, f->page, f->count, 0, w->r->grid->n[1], f->slices, w->r->threads,
                                          err)
                        : vp_writer_pages(s->writer, f->count, f->slices, w->r->threads, err);
}

static int write_slices(void *arg, struct vp_err *err)
{
    struct run *w = arg;
    struct sink *s = &w->sink;
    int slot;

    while ((slot = vp_ring_take(&s->ring)) >= 0) {
        const double t = vp_now();
        if (!s->failed && write_slot(w, &s->slot[slot], err))
            s->failed = true;
        vp_stats_time(w->r->stats, "write", vp_now() - t);
        /* after a failure the slots are still taken, so that the producer is not left waiting */
        vp_ring_taken(&s->ring);
    }
    return s->failed ? -1 : 0;
}

static int start_writer(struct run *w, struct vp_err *err)
{
    struct sink *s = &w->sink;
    if (s->thread.running)
        return 0;
    if (!s->slot && !(s->slot = calloc((size_t)w->p->out_slots, sizeof *s->slot)))
        return vp_fail(err, VP_ERESOURCE, "out of memory");
    vp_ring_init(&s->ring, w->p->out_slots);
    s->any_order = w->r->sink ? !w->r->sink->in_order && w->p->stay
                              : (w->p->mirrored && w->p->passes > 1) || (w->r->any_order && w->p->stay);
    if (!vp_thread_start(&s->thread, write_slices, w, false, err))
        return 0;
    vp_ring_destroy(&s->ring);
    return -1;
}

/* Waits for what is still to be written. */
static int finish_writer(struct run *w, struct vp_err *err)
{
    struct sink *s = &w->sink;
    int rc = 0;
    if (s->thread.running) {
        vp_ring_end(&s->ring);
        rc = vp_thread_join(&s->thread, err);
        vp_ring_destroy(&s->ring);
    }
    free(s->slot);
    s->slot = NULL;
    return rc;
}

/* n slices of the slab that part i and those of the other subsets make: one's, or the sums, added in their order. */
static int fetch(struct run *w, int i, int64_t z, int64_t n, float *out, struct vp_err *err)
{
    const int64_t count = n * w->r->grid->n[0] * w->r->grid->n[1];
    const int subsets = w->p->subsets;
    float **const partial = w->buffers.partial;
    int rc = 0;

    if (subsets == 1)
        return vp_slab_slices(w->worker[i].slab, z, n, out, err);
#pragma omp parallel for num_threads(subsets) schedule(static, 1) reduction(min : rc)
    for (int c = 0; c < subsets; c++) {
        struct vp_err why = VP_ERR_INIT;
        if (vp_slab_slices(w->worker[i + c].slab, z, n, c ? partial[c - 1] : out, &why))
            rc = vp_err_keep(err, &why);
    }
    if (rc)
        return rc;
#pragma omp parallel for num_threads(w->r->threads) schedule(static)
    for (int64_t k = 0; k < count; k++)
        for (int c = 1; c < subsets; c++)
            out[k] += partial[c - 1][k];
    return 0;
}

/* Slices [z0, z1) of a slab, slot by slot. */
static int store_range(struct run *w, int i, int64_t z0, int64_t z1, struct vp_err *err)
{
    struct sink *s = &w->sink;
    for (int64_t z = z0; z < z1 && !s->failed; z += w->p->group) {
        const int slot = vp_ring_fill(&s->ring);
        const int n = (int)vp_min64(w->p->group, z1 - z);
        float **const to = &w->buffers.out[slot];
        if (make_output(w, to, err))
            return -1;
        const double t = vp_now();
        if (fetch(w, i, z, n, *to, err))
            return -1;
        s->slot[slot] = (struct filled){*to, n, z - w->r->z0};
        vp_stats_time(w->r->stats, "slice", vp_now() - t);
        vp_ring_filled(&s->ring);
    }
    return 0;
}

/* The upper half of a mirrored slab; the middle slice is its own image. */
static void upper_half(const struct run *w, const struct vp_bp_part *part, int64_t *z0, int64_t *z1)
{
    const int64_t nz = w->r->grid->n[2];
    *z0 = w->p->mirrored ? vp_max64(nz - part->z1, part->z1) : 0;
    *z1 = w->p->mirrored ? nz - part->z0 : 0;
}

/* The slices of [z0, z1) that are in one part of their slab. */
static int store_part(struct run *w, int i, int of, int64_t z0, int64_t z1, struct vp_err *err)
{
    int rc = 0;
    for (int64_t z = z0, end; z < z1 && !rc; z = end) {
        for (end = z; end < z1 && vp_slab_part_of(w->worker[i].slab, end) == of;)
            end++;
        rc = store_range(w, i, z, end, err);
        end += end == z;
    }
    return rc;
}

/* All slices of a pass as they are ready: part by part of all slabs. */
static int store_parts(struct run *w, struct vp_err *err)
{
    int parts = 1, rc = 0;
    for (int i = 0; i < w->p->parts; i += w->p->subsets)
        parts = (int)vp_max64(parts, vp_slab_parts(w->worker[i].slab));
    for (int of = 0; of < parts; of++)
        for (int i = 0; i < w->p->parts && !rc; i += w->p->subsets) {
            const struct vp_bp_part *part = &w->p->part[i];
            int64_t z0, z1;
            upper_half(w, part, &z0, &z1);
            rc = store_part(w, i, of, part->z0, part->z1, err) || store_part(w, i, of, z0, z1, err) ? -1 : 0;
        }
    return rc;
}

/* The lowest first. */
static int store_in_order(struct run *w, struct vp_err *err)
{
    const struct vp_reconstruct_plan *p = w->p;
    int rc = 0;
    for (int i = 0; i < p->parts && !rc; i += p->subsets)
        rc = store_range(w, i, p->part[i].z0, p->part[i].z1, err);
    for (int i = p->parts - p->subsets; i >= 0 && !rc; i -= p->subsets) {
        int64_t z0, z1;
        upper_half(w, &p->part[i], &z0, &z1);
        rc = store_range(w, i, z0, z1, err);
    }
    return rc;
}

/* All slices of a pass. */
static int store(struct run *w, struct vp_err *err)
{
    const struct vp_reconstruct_plan *p = w->p;
    float ***const partial = &w->buffers.partial;
    int rc;

    if (p->subsets > 1 && !*partial && !(*partial = calloc((size_t)w->r->n_devices, sizeof **partial)))
        return vp_fail(err, VP_ERESOURCE, "out of memory");
    for (int i = 0; i < p->subsets - 1; i++)
        if (make_output(w, &(*partial)[i], err))
            return -1;
    if (start_writer(w, err))
        return -1;
    rc = p->stay && w->sink.any_order ? store_parts(w, err) : store_in_order(w, err);
    return rc || w->sink.failed ? -1 : 0;
}

/* ---- all of it ---- */

/* Sums over devices; of the seconds of kernels and of the phase, those of the slowest device in each pass. */
static void add_stats(struct run *w)
{
    struct totals *all = &w->all;
    double kernel = 0, phase = 0, first = 0;
    for (int i = 0; i < w->p->parts; i++) {
        const double began = w->worker[i].began;
        struct vp_bp_stats one;
        vp_slab_stats(w->worker[i].slab, &one);
        w->took[i] = one.kernel;
        all->sum.filter += one.filter;
        all->sum.uploaded += one.uploaded;
        all->sum.downloaded += one.downloaded;
        kernel = one.kernel > kernel ? one.kernel : kernel;
        phase = began + one.phase > phase ? began + one.phase : phase;
        first = began + one.first > first ? began + one.first : first;
    }
    all->sum.kernel += kernel;
    all->sum.phase += phase;
    if (w->p->made == 0) {
        all->first_view = w->source.begun - all->start;
        all->first_kernel = w->start + first - all->start;
    }
    all->last_view = w->source.done;
    w->result->used = w->p->used > w->result->used ? w->p->used : w->result->used;
    w->result->passes++;
}

static int run_pass(struct run *w, struct vp_err *err)
{
    struct vp_err ignored = VP_ERR_INIT;
    double t = vp_now();
    int rc = open_pass(w, err);

    vp_stats_time(w->r->stats, "prepare", vp_now() - t);
    t = vp_now();
    rc = rc || accumulate(w, err) ? -1 : 0;
    /* the end of the input is checked before the volume is called good */
    if (!rc && w->p->made == 0 && w->r->last == w->r->n_views)
        rc = vp_views_finish(w->r->source, err);
    w->all.busy += vp_now() - t;
    if (!rc)
        rc = store(w, err);
    if (!rc)
        add_stats(w);
    t = vp_now();
    stop_reader(w, true, &ignored);
    close_slabs(w);
    vp_stats_time(w->r->stats, "close", vp_now() - t);
    return rc;
}

/* Pass after pass, until nothing is left. */
static int run_passes(struct run *w, struct vp_err *err)
{
    for (;;) {
        int64_t lo, hi;
        if (run_pass(w, err))
            return -1;
        vp_reconstruct_domain(w->p, &lo, &hi);
        const int64_t end = w->p->part[w->p->parts - 1].z1;
        if (end >= hi)
            return 0;
        if (plan_again(w, w->p->made + end - lo, false, err))
            return -1;
    }
}

static void tell(const struct run *w)
{
    const struct vp_reconstruct *r = w->r;
    const struct totals *all = &w->all;
    const double slices = (double)((r->half ? 2 : 1) * (r->z1 - r->z0));
    const double gigaupdates = (double)r->grid->n[0] * (double)r->grid->n[1] * slices * (double)(r->last - r->first) /
                               w->p->columns / 1073741824.0;
    vp_stats_text(r->stats, "kernel", w->p->kernel);
    vp_stats_number(r->stats, "passes", (double)w->result->passes);
    vp_stats_number(r->stats, "gups", all->busy > 0 ? gigaupdates / all->busy : 0);
    vp_stats_number(r->stats, "gups_end_to_end", gigaupdates / (vp_now() - all->start));
    vp_stats_number(r->stats, "seconds_to_first_view", all->first_view);
    if (!on_host(w))
        vp_stats_number(r->stats, "seconds_to_first_kernel", all->first_kernel);
    vp_stats_number(r->stats, "seconds_to_last_view", all->last_view - all->start);
    vp_stats_number(r->stats, "seconds_after_last_view", vp_now() - all->last_view);
    if (on_host(w))
        return;
    vp_stats_number(r->stats, "devices", w->result->used);
    vp_stats_number(r->stats, "subsets", w->p->subsets);
    vp_stats_number(r->stats, "kernel_seconds", all->sum.kernel);
    vp_stats_number(r->stats, "kernel_gups", all->sum.kernel > 0 ? gigaupdates / all->sum.kernel : 0);
    vp_stats_number(r->stats, "compute_seconds", all->sum.phase);
    vp_stats_number(r->stats, "device_filter_seconds", all->sum.filter);
    vp_stats_count(r->stats, "bytes_uploaded", all->sum.uploaded);
    vp_stats_count(r->stats, "bytes_downloaded", all->sum.downloaded);
}

int vp_reconstruct_run(const struct vp_reconstruct_plan *p, struct vp_writer *writer,
                       struct vp_reconstruct_result *result, struct vp_err *err)
{
    const struct vp_reconstruct *r = p->of;
    struct run w = {.r = r, .p = p, .result = result, .sink = {.writer = writer}, .all = {.start = vp_now()}};
    int rc = 0;

    memset(result, 0, sizeof *result);
    w.worker = calloc((size_t)r->n_devices, sizeof *w.worker);
    w.took = calloc((size_t)r->n_devices, sizeof *w.took);
    if (!w.worker || !w.took)
        rc = vp_fail(err, VP_ERESOURCE, "out of memory");
    vp_progress_start(r->progress, "reconstructing", "views", (r->last - r->first) * p->passes);
    if (!rc)
        rc = run_passes(&w, err);
    if (finish_writer(&w, err))
        rc = -1;
    free_inputs(&w);
    free_outputs(&w);
    if (!rc) {
        result->read = w.all.last_view - w.all.start;
        result->compute = on_host(&w) ? w.all.busy : w.all.sum.phase;
        tell(&w);
    }
    vp_reconstruct_plan_free(&w.own);
    free(w.worker);
    free(w.took);
    return rc;
}
