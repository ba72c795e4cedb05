/* SPDX-License-Identifier: BSD-3-Clause */
/* Views in: a reader thread fills slots with batches of them, which are normalised, filtered unless a device does
 * it, and handed to the slabs that sum them up.
 *
 * Views that lie half a turn apart are read together where the input is seekable and the kernel works on them
 * together: neither has then to wait for the other. Subsets of the views are read in turn, so that no device waits. */
#include "ct/reconstruct_internal.h"

#include "base/err.h"
#include "base/progress.h"
#include "base/size.h"
#include "base/stats.h"
#include "run/ranks.h"

#include <stdlib.h>
#include <string.h>

/* Rows that a slot has room for: those of the pass, or all if others follow, which may need more. */
static int64_t rows_of_slot(const struct vp_stages *w)
{
    return vp_stages_on_host(w) || w->p->passes > 1 || w->p->made > 0 ? w->r->nv : w->source.v1 - w->source.v0;
}

/* ---- reading ---- */

static int read_run(struct vp_stages *w, int64_t first, int n, float *to, struct vp_err *err)
{
    const struct vp_stages_source *s = &w->source;
    const struct vp_reconstruct_feed *feed = w->r->feed;
    if (feed)
        return feed->read(feed->ctx, first, n, s->v0, s->v1, to, err);
    const int64_t got = vp_views_read(w->r->source, first, n, s->v0, s->v1, to,
                                           s->count_bad ? &w->result->bad : NULL, w->r->threads, err);
    if (got == n)
        return 0;
    return got < 0 ? -1 : vp_fail(err, VP_ERUN, "%s ends after %lld views, expected %lld", vp_views_name(w->r->source),
                                  (long long)(first + got), (long long)w->r->n_views);
}

/* Views [first, end), all of one subset, and their partners, into the next slot. 1, 0 if no more are wanted, -1 on
 * errors. */
static int read_batch(struct vp_stages *w, int64_t first, int64_t end, int most, struct vp_err *err)
{
    struct vp_stages_source *s = &w->source;
    const int64_t partner = w->p->partner;
    const int64_t width = vp_reconstruct_buffers(w->p).width;
    const size_t view = (size_t)width * (size_t)(s->v1 - s->v0);
    const uint64_t room = (partner ? 2 : 1) * (uint64_t)most * (uint64_t)(width * rows_of_slot(w));
    const int slot = vp_ring_fill(&s->ring), n = (int)(end - first);
    if (slot < 0)
        return 0;
    if (w->r->ranks && vp_ranks_check(w->r->ranks, err))
        return -1;
    float **const to = &w->buffers.in[slot];
    if (!*to && !(*to = vp_stages_take(w, room, "the projections", err)))
        return -1;
    const double t = vp_now();
    s->first[slot] = first;
    s->count[slot] = n;
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
    struct vp_stages *w = arg;
    const struct vp_reconstruct_plan *p = w->p;
    const int step = p->partner ? p->batch / 2 : p->batch;
    bool more = true;
    int rc = 1;

    vp_stages_join_device(w);
    for (int64_t round = 0; more && rc > 0; round++) {
        more = false;
        for (int c = 0; c < p->subsets && rc > 0; c++) {
            const struct vp_bp_part *part = &p->part[c]; /* of the first slab */
            const int64_t last = p->partner ? vp_min64(part->last, p->partner) : part->last;
            const int64_t end = vp_min64((part->first / step + round + 1) * step, last);
            const int64_t first = round ? (part->first / step + round) * step : part->first;
            if (first < end) {
                more = true;
                rc = read_batch(w, first, end, step, err);
            }
        }
    }
    w->source.done = vp_now();
    vp_ring_end(&w->source.ring);
    return rc < 0 ? -1 : 0;
}

int vp_stages_read(struct vp_stages *w, struct vp_err *err)
{
    vp_ring_init(&w->source.ring, vp_reconstruct_buffers(w->p).in);
    if (!vp_thread_start(&w->source.thread, read_views, w, true, err))
        return 0;
    vp_ring_destroy(&w->source.ring);
    return -1;
}

int vp_stages_stop_reading(struct vp_stages *w, bool now, struct vp_err *err)
{
    struct vp_stages_source *s = &w->source;
    if (!s->thread.running)
        return 0;
    vp_ring_stop(&s->ring);
    if (now)
        vp_thread_wake(&s->thread);
    const int rc = vp_thread_join(&s->thread, err);
    vp_ring_destroy(&s->ring);
    return rc;
}

/* ---- computing ---- */

/* n views from `first`: normalise them, and filter them into q unless the devices do it. Where they are then. */
static float *prepare(struct vp_stages *w, int64_t first, int n, float *p, float *q)
{
    const struct vp_reconstruct *r = w->r;
    const struct vp_stages_source *s = &w->source;
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
static void spread(const struct vp_stages *w, int n, float *q)
{
    const int64_t v0 = w->source.v0, rows = w->source.v1 - v0, nu = w->r->nu, nv = w->r->nv;
    if (vp_stages_on_host(w) && rows < nv)
        for (int64_t i = n - 1; i >= 0; i--)
            memmove(q + (i * nv + v0) * nu, q + i * rows * nu, (size_t)(rows * nu) * sizeof *q);
}

/* To the devices, of which each takes what is of its subset. */
static int hand_over(struct vp_stages *w, int slot, int64_t first, int64_t n, const float *p, struct vp_err *err)
{
    const double t = vp_now();
    const bool whole = vp_stages_on_host(w);
    const struct vp_projections views = {.first = first, .n = n, .v0 = whole ? 0 : w->source.v0,
                                         .v1 = whole ? w->r->nv : w->source.v1, .samples = p};
    if (vp_adjoint(&views, &w->volume, VP_WEIGHT_FDK, w->ticket[slot], err))
        return -1;
    vp_stats_time(w->r->stats, "backproject", vp_now() - t);
    vp_progress_add(w->r->progress, n);
    return 0;
}

/* What is in a slot; `wide`, if not NULL, is where the host filters to. */
static int add(struct vp_stages *w, int slot, float *wide, struct vp_err *err)
{
    const struct vp_stages_source *s = &w->source;
    const int n = s->count[slot];
    const size_t rows = (size_t)(s->v1 - s->v0), in = rows * (size_t)vp_reconstruct_buffers(w->p).width;
    const size_t out = rows * (size_t)(w->p->filter_device ? w->r->in_nu : w->r->nu);
    float *p = w->buffers.in[slot];
    float *a = prepare(w, s->first[slot], n, p, wide ? wide : p);

    const int64_t partner = w->p->partner;
    spread(w, n, a);
    if (!partner)
        return hand_over(w, slot, s->first[slot], n, a, err);
    p += (size_t)n * in;
    const float *b = prepare(w, s->first[slot] + partner, n, p, wide ? wide + (size_t)n * out : p);
    for (int64_t i = 0; i < n; i += w->together) {
        const int64_t k = vp_min64(w->together, n - i), first = s->first[slot] + i;
        if (hand_over(w, slot, first, k, a + (size_t)i * out, err) ||
            hand_over(w, slot, first + partner, k, b + (size_t)i * out, err))
            return -1;
    }
    return 0;
}

static int make_slots(void *arg, struct vp_err *err)
{
    struct vp_stages *w = arg;
    int rc = 0;
    vp_stages_join_device(w);
    for (int i = 0; i < w->p->out_slots && !w->made && !rc; i++)
        rc = vp_stages_output(w, &w->sink.slot[i].slices, err);
    return rc;
}

/* What comes from the reader, until it ends. */
static int add_all(struct vp_stages *w, struct vp_err *err)
{
    struct vp_stages_source *s = &w->source;
    struct vp_err ignored = VP_ERR_INIT;
    int rc = 0, slot, before = -1, handled = 0;

    while ((slot = vp_ring_look(&s->ring, before >= 0)) >= 0) {
        /* the writer says why */
        if ((rc = w->sink.failed ? -1 : add(w, slot, w->buffers.wide[vp_stages_on_host(w) ? 0 : slot], err)))
            break;
        /* the host goes on with the next slot while this one is copied */
        if (vp_stages_on_host(w)) {
            vp_ring_taken(&s->ring);
            continue;
        }
        /* not before the reader has its own: it is waited for */
        if (++handled == vp_reconstruct_buffers(w->p).in)
            vp_thread_start(&w->maker, make_slots, w, false, &ignored);
        if (before >= 0) {
            const double t = vp_now();
            if ((rc = vp_volume_wait(&w->volume, w->ticket[before], err)))
                break;
            vp_stats_time(w->r->stats, "upload", vp_now() - t);
            vp_ring_taken(&s->ring);
        }
        before = slot;
    }
    /* where the work failed that is the error, whatever the reader has to say */
    if (vp_stages_stop_reading(w, rc != 0, rc ? &ignored : err))
        rc = -1;
    const double t = vp_now();
    rc = rc ? rc : vp_adjoint_end(&w->volume, err);
    if (before >= 0 && !rc)
        rc = vp_volume_wait(&w->volume, w->ticket[before], err);
    vp_stats_time(w->r->stats, "backproject", vp_now() - t);
    return rc;
}

int vp_stages_accumulate(struct vp_stages *w, struct vp_err *err)
{
    struct vp_stages_buffers *b = &w->buffers;
    const uint64_t wide = (uint64_t)w->p->batch * (uint64_t)(rows_of_slot(w) * w->r->nu);
    struct vp_err ignored = VP_ERR_INIT;

    w->made = false;
    if (!w->sink.slot
        && !(w->sink.slot = vp_alloc((size_t)w->p->out_slots, sizeof *w->sink.slot, "the slices", err)))
        return -1;
    for (int i = 0; i < vp_reconstruct_buffers(w->p).wide; i++)
        if (!b->wide[i] && !(b->wide[i] = vp_stages_take(w, wide, "the filtered projections", err)))
            return -1;
    const int rc = add_all(w, err);
    w->made = true;
    /* if it failed, store_range() tries again and says so */
    vp_thread_join(&w->maker, &ignored);
    return rc;
}
