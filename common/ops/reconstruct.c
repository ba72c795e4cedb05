/* SPDX-License-Identifier: BSD-3-Clause */
/* The stages of a reconstruction and the threads around them. The order of the stages is that of
 * iFDK (Chen et al. 2019, fig. 3): load, filter, back-project, store, each overlapping its neighbours.
 *
 * Views that lie half a turn apart are read together where the input is seekable and the kernel works on them
 * together: neither has then to wait for the other. Subsets of the views are read in turn, so that no device waits.
 *
 * The first views are read while the devices allocate their slabs, the buffers of the output are made while the views
 * are worked on, and a pass begins while the slices of the one before it are written. */
#include "ops/reconstruct_internal.h"

#include "base/err.h"
#include "base/progress.h"
#include "base/ring.h"
#include "base/size.h"
#include "base/stats.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    MOST_SLOTS = VP_RECONSTRUCT_SLOTS,
    ATTEMPTS = 3   /* to open a pass */
};

/* Slots are kept from one pass to the next, and to the end: to free memory that a device copies from, it would have to
 * stop. `wide`: views that the host filters into longer rows. `partial`: slices of the second and later subsets. */
struct buffers {
    float *in[MOST_SLOTS], *wide[MOST_SLOTS];
    float **out, **partial; /* r->group slices each */
};

/* A reader thread fills slots with batches of views. */
struct source {
    struct vp_reconstruct *job;
    int64_t v0, v1; /* rows that are read */
    struct vp_ring ring;
    float **slot; /* made when they are needed */
    int64_t first[MOST_SLOTS];
    int count[MOST_SLOTS], subset[MOST_SLOTS];
    int partners[MOST_SLOTS]; /* that many more follow, from view first + partner on */
    bool count_bad;  /* the first pass counts, the others see the same samples */
    double begun, done; /* when the first view was there, and the last */
    int wake[2]; /* a pipe: what is written into it ends a read that waits for the input */
    struct vp_err err;
    bool failed, running;
    pthread_t thread;
};

/* All devices in one pass. */
struct pass {
    struct source source;
    int64_t together; /* views that are handed over before their partners */
    double start;
};

/* A thread makes the slots of the output while views are worked on. */
struct maker {
    const struct vp_reconstruct *job;
    struct buffers *buffers;
    struct vp_err err;
    pthread_t thread;
    bool running;
    atomic_bool enough;
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
    struct vp_stats *stats;
    struct vp_ring ring;
    struct filled *slot; /* in any order if `any_order` */
    bool any_order;
    int64_t nx, ny;
    int threads;
    struct vp_err err;
    atomic_bool failed;
    bool running;
    pthread_t thread;
};

/* Of all passes. */
struct totals {
    struct vp_bp_stats sum;
    double start, busy, first_view, first_kernel, last_view;
    int64_t passes;
};

static bool on_host(const struct vp_reconstruct *r)
{
    return vp_reconstruct_on_host(r);
}

/* A buffer that the devices copy fast from and to. */
static float *take(const struct vp_reconstruct *r, uint64_t count, const char *what, struct vp_err *err)
{
    char text[16];
    if (on_host(r))
        return vp_alloc_raw(count, sizeof(float), what, err);
    const double t = vp_now();
    float *p = r->kind->host_alloc(count * sizeof(float));
    vp_stats_time(r->stats, "buffers", vp_now() - t);
    if (!p)
        vp_fail(err, VP_ERESOURCE, "no page-locked memory for %s: expected %s", what,
                vp_format_bytes(text, sizeof text, count * sizeof(float)));
    return p;
}

/* Page-locked memory belongs to the device of the thread that asks for it. */
static void join_device(const struct vp_reconstruct *r)
{
    struct vp_device_info ignored;
    struct vp_err err = VP_ERR_INIT;
    if (!on_host(r))
        r->kind->info(r->devices[0], &ignored, &err);
}

static void give_back(const struct vp_reconstruct *r, float **p)
{
    if (*p)
        r->kind->host_free(*p);
    *p = NULL;
}

static void free_inputs(const struct vp_reconstruct *r, struct buffers *b)
{
    for (int i = 0; i < MOST_SLOTS; i++) {
        give_back(r, &b->in[i]);
        give_back(r, &b->wide[i]);
    }
}

static void free_outputs(const struct vp_reconstruct *r, struct buffers *b)
{
    for (int i = 0; b->out && i < r->out_slots; i++)
        give_back(r, &b->out[i]);
    for (int i = 0; b->partial && i < r->n_devices; i++)
        give_back(r, &b->partial[i]);
    free(b->out);
    free(b->partial);
}

/* Rows that a slot has room for: those of the pass, or all if others follow, which may need more. */
static int64_t rows_of_slot(const struct source *s)
{
    const struct vp_reconstruct *r = s->job;
    return on_host(r) || r->passes > 1 || r->made > 0 ? r->nv : s->v1 - s->v0;
}

/* ---- reading ---- */

static int read_run(struct source *s, int64_t first, int n, float *to)
{
    struct vp_reconstruct *r = s->job;
    const int64_t got = vp_views_read_many(r->source, first, n, s->v0, s->v1, to, s->count_bad ? &r->bad : NULL,
                                           r->threads, &s->err);
    if (got == n)
        return 0;
    if (got >= 0)
        vp_fail(&s->err, VP_ERUN, "%s ends after %lld views, expected %lld", vp_views_name(r->source),
                (long long)(first + got), (long long)r->n_views);
    return -1;
}

/* Views [first, end) of a subset, and their partners, into the next slot. 1, 0 if no more are wanted, -1 on errors. */
static int read_batch(struct source *s, int subset, int64_t first, int64_t end, int most)
{
    struct vp_reconstruct *r = s->job;
    const size_t view = (size_t)r->in_nu * (size_t)(s->v1 - s->v0);
    const size_t room = (size_t)r->in_nu * (size_t)rows_of_slot(s);
    const int slot = vp_ring_fill(&s->ring), n = (int)(end - first);
    if (slot < 0)
        return 0;
    if (!s->slot[slot] &&
        !(s->slot[slot] = take(r, (r->partner ? 2 : 1) * (uint64_t)most * room, "the projections", &s->err)))
        return -1;
    const double t = vp_now();
    s->first[slot] = first;
    s->count[slot] = n;
    s->subset[slot] = subset;
    s->partners[slot] = r->partner ? n : 0;
    if (read_run(s, first, n, s->slot[slot]) ||
        (r->partner && read_run(s, first + r->partner, n, s->slot[slot] + (size_t)n * view)))
        return -1;
    vp_stats_time(r->stats, "read", vp_now() - t);
    if (s->begun == 0)
        s->begun = vp_now();
    vp_ring_filled(&s->ring);
    return 1;
}

/* Batches from all subsets in turn. They end at multiples of the batch, so that the back-projection can take each at
 * once. */
static void read_views(struct source *s)
{
    struct vp_reconstruct *r = s->job;
    const int step = r->partner ? r->batch / 2 : r->batch;
    bool more = true;
    int rc = 1;

    for (int64_t round = 0; more && rc > 0; round++) {
        more = false;
        for (int c = 0; c < r->subsets && rc > 0; c++) {
            const struct vp_bp_part *p = &r->part[c]; /* of the first slab */
            const int64_t last = r->partner ? vp_min64(p->last, r->partner) : p->last;
            const int64_t end = vp_min64((p->first / step + round + 1) * step, last);
            const int64_t first = round ? (p->first / step + round) * step : p->first;
            if (first < end) {
                more = true;
                rc = read_batch(s, c, first, end, step);
            }
        }
    }
    s->failed = rc < 0;
    s->done = vp_now();
    vp_ring_end(&s->ring);
}

static void *read_main(void *arg)
{
    struct source *s = arg;
    vp_input_wake(s->wake[0]);
    join_device(s->job);
    read_views(s);
    return NULL;
}

static int start_reader(struct source *s, struct vp_err *err)
{
    vp_ring_init(&s->ring, vp_reconstruct_in_slots(s->job));
    s->running = true;
    if (pipe2(s->wake, O_CLOEXEC)) {
        s->wake[0] = s->wake[1] = -1;
        vp_fail_errno(err, "a pipe cannot be made");
    } else if (pthread_create(&s->thread, NULL, read_main, s)) {
        vp_fail(err, VP_ERESOURCE, "cannot start a reader thread");
    } else {
        return 0;
    }
    for (int i = 0; i < 2 && s->wake[i] >= 0; i++)
        close(s->wake[i]);
    vp_ring_destroy(&s->ring);
    s->running = false;
    return -1;
}

/* now: do not wait for views that are not wanted any more. */
static void stop_reader(struct source *s, bool now)
{
    if (!s->running)
        return;
    vp_ring_stop(&s->ring);
    /* the reader may wait for a pipe that has nothing to say */
    if (now)
        (void)!write(s->wake[1], "", 1);
    pthread_join(s->thread, NULL);
    close(s->wake[0]);
    close(s->wake[1]);
    vp_ring_destroy(&s->ring);
    s->running = false;
}

/* ---- the beginning of a pass ---- */

static void close_parts(struct vp_reconstruct *r)
{
    for (int i = 0; i < r->parts; i++) {
        vp_slab_close(r->part[i].slab);
        r->part[i].slab = NULL;
    }
}

/* Every device allocates for itself. */
static int open_parts(struct vp_reconstruct *r, double start, struct vp_err *err)
{
    int rc = 0;
#pragma omp parallel for num_threads(r->parts) schedule(static, 1) reduction(min : rc) if (r->parts > 1)
    for (int i = 0; i < r->parts; i++) {
        struct vp_bp_part *p = &r->part[i];
        const struct vp_bp_job job = vp_reconstruct_job(r, p);
        struct vp_err why = VP_ERR_INIT;
        p->began = vp_now() - start;
        if (vp_slab_open(&p->slab, r->kind, &job, &why))
            rc = vp_err_keep(err, &why);
    }
    return rc;
}

static void begin_source(struct vp_reconstruct *r, struct pass *p, struct buffers *b)
{
    p->source = (struct source){.job = r, .slot = b->in, .v0 = r->nv, .err = VP_ERR_INIT, .count_bad = r->made == 0,
                                .wake = {-1, -1}};
    p->together = r->n_views;
    for (int i = 0; i < r->parts; i++) {
        const struct vp_bp_plan *plan = &r->part[i].plan;
        p->source.v0 = vp_min64(p->source.v0, plan->v0);
        p->source.v1 = p->source.v1 > plan->v1 ? p->source.v1 : plan->v1;
        p->together = vp_min64(p->together, plan->together);
    }
    /* normalisation looks at whole views; and every sample is looked at once */
    if (r->normalize || (r->made == 0 && r->passes > 1)) {
        p->source.v0 = 0;
        p->source.v1 = r->nv;
    }
}

static int plan_again(struct vp_reconstruct *r, struct buffers *b, struct vp_err *err)
{
    free_inputs(r, b); /* the batch may be another */
    *err = (struct vp_err)VP_ERR_INIT;
    return vp_reconstruct_plan(r, err);
}

/* The slabs of the next pass, opened, and the reader at work: what can be read again is read from the beginning while
 * the devices allocate. A slab may see more than that of the first pass, for which the plan was made, and memory of a
 * device may have gone since: then a smaller one. */
static int open_pass(struct vp_reconstruct *r, struct pass *p, struct buffers *b, struct vp_err *err)
{
    const bool early = vp_views_seekable(r->source) && !on_host(r);

    p->source.running = false;
    p->start = vp_now();
    /* the plan has placed the first pass */
    if (r->made > 0 && vp_reconstruct_place(r, err))
        return -1;
    if (r->device_memory && r->device_bytes > r->device_memory && plan_again(r, b, err))
        return -1;
    for (int attempt = 1;; attempt++) {
        begin_source(r, p, b);
        if (early && start_reader(&p->source, err))
            return -1;
        if (!open_parts(r, p->start, err))
            return early ? 0 : start_reader(&p->source, err);
        const bool again = err->code == VP_ERESOURCE && !on_host(r) && attempt < ATTEMPTS;
        /* what a pipe has brought of sinograms, which are held, must not be lost */
        stop_reader(&p->source, !again);
        close_parts(r);
        r->bad = r->made ? r->bad : 0;
        if (!again || plan_again(r, b, err))
            return -1;
    }
}

/* ---- computing ---- */

static int wait_slot(struct vp_reconstruct *r, int slot, struct vp_err *err)
{
    for (int i = 0; i < r->parts; i++)
        if (vp_slab_wait(r->part[i].slab, r->part[i].ticket[slot], err))
            return -1;
    return 0;
}

/* n views from `first`: normalise them, and filter them into q unless the devices do it. Where they are then. */
static float *prepare(struct vp_reconstruct *r, const struct source *s, int64_t first, int n, float *p, float *q)
{
    double t = vp_now(), t1;

    if (r->normalize) {
#pragma omp parallel for schedule(dynamic) num_threads(r->threads)
        for (int i = 0; i < n; i++)
            vp_normalize_view(r->normalize, first + i, p + (size_t)(i * (s->v1 - s->v0) * r->in_nu),
                              s->count_bad ? &r->repaired : NULL);
        t1 = vp_now();
        vp_stats_time(r->stats, "normalize", t1 - t);
        t = t1;
    }
    if (!r->filter || r->filter_device)
        return p;
    vp_filter_rows(r->filter, first, n, s->v0, s->v1, p, q);
    vp_stats_time(r->stats, "filter", vp_now() - t);
    return q;
}

/* On the host whole views are wanted. The rows that were not read hold anything: nothing is taken from them. */
static void spread(const struct vp_reconstruct *r, const struct source *s, int n, float *q)
{
    const int64_t rows = s->v1 - s->v0;
    if (on_host(r) && rows < r->nv)
        for (int64_t i = n - 1; i >= 0; i--)
            memmove(q + (i * r->nv + s->v0) * r->nu, q + i * rows * r->nu, (size_t)(rows * r->nu) * sizeof *q);
}

/* To all devices that sum up the subset. */
static int hand_over(struct vp_reconstruct *r, const struct source *s, int slot, int64_t first, int64_t n,
                     const float *p, struct vp_err *err)
{
    const double t = vp_now();
    const int64_t v0 = on_host(r) ? 0 : s->v0, v1 = on_host(r) ? r->nv : s->v1;
    for (int i = 0; i < r->parts; i++) {
        struct vp_bp_part *part = &r->part[i];
        if (part->subset != s->subset[slot])
            part->ticket[slot] = 0;
        else if (vp_slab_add(part->slab, first, n, v0, v1, p, &part->ticket[slot], err))
            return -1;
    }
    vp_stats_time(r->stats, "backproject", vp_now() - t);
    vp_progress_add(r->progress, n);
    return 0;
}

/* What is in a slot; `wide`, if not NULL, is where the host filters to. */
static int add(struct vp_reconstruct *r, struct pass *pass, int slot, float *wide, struct vp_err *err)
{
    const struct source *s = &pass->source;
    const int n = s->count[slot];
    const size_t rows = (size_t)(s->v1 - s->v0), in = rows * (size_t)r->in_nu;
    const size_t out = rows * (size_t)(r->filter_device ? r->in_nu : r->nu);
    float *p = s->slot[slot];
    float *a = prepare(r, s, s->first[slot], n, p, wide ? wide : p);

    spread(r, s, n, a);
    if (!s->partners[slot])
        return hand_over(r, s, slot, s->first[slot], n, a, err);
    p += (size_t)n * in;
    const float *b = prepare(r, s, s->first[slot] + r->partner, n, p, wide ? wide + (size_t)n * out : p);
    for (int64_t i = 0; i < n; i += pass->together) {
        const int64_t k = vp_min64(pass->together, n - i), first = s->first[slot] + i;
        if (hand_over(r, s, slot, first, k, a + (size_t)i * out, err) ||
            hand_over(r, s, slot, first + r->partner, k, b + (size_t)i * out, err))
            return -1;
    }
    return 0;
}

static int make_output(const struct vp_reconstruct *r, float **slot, struct vp_err *err)
{
    const uint64_t count = (uint64_t)r->group * (uint64_t)r->grid->n[0] * (uint64_t)r->grid->n[1];
    return *slot || (*slot = take(r, count, "the slices", err)) ? 0 : -1;
}

static void *make_main(void *arg)
{
    struct maker *m = arg;
    struct buffers *b = m->buffers;
    int rc = 0;
    join_device(m->job);
    /* if it fails, store_range() tries again and says so */
    for (int i = 0; i < m->job->out_slots && !m->enough && !rc; i++)
        rc = make_output(m->job, &b->out[i], &m->err);
    return NULL;
}

/* All views through the stages into the slabs of one pass. */
static int accumulate(struct vp_reconstruct *r, struct pass *pass, struct buffers *b, const struct sink *sink,
                      struct vp_err *err)
{
    struct source *s = &pass->source;
    const uint64_t out = (uint64_t)rows_of_slot(s) * (uint64_t)r->nu;
    struct maker maker = {.job = r, .buffers = b, .err = VP_ERR_INIT};
    int rc = 0, slot, before = -1, handled = 0;

    if (!b->out && !(b->out = calloc((size_t)r->out_slots, sizeof *b->out)))
        rc = vp_fail(err, VP_ERESOURCE, "out of memory");
    for (int i = 0; i < vp_reconstruct_wide_slots(r) && !rc; i++)
        if (!b->wide[i] && !(b->wide[i] = take(r, (uint64_t)r->batch * out, "the filtered projections", err)))
            rc = -1;
    while (!rc && (slot = vp_ring_look(&s->ring, before >= 0)) >= 0) {
        /* the writer says why */
        if ((rc = sink->failed ? -1 : add(r, pass, slot, b->wide[on_host(r) ? 0 : slot], err)))
            break;
        /* the host goes on with the next slot while this one is copied */
        if (on_host(r)) {
            vp_ring_taken(&s->ring);
            continue;
        }
        /* not before the reader has its own: it is waited for */
        if (++handled == vp_reconstruct_in_slots(r))
            maker.running = !pthread_create(&maker.thread, NULL, make_main, &maker);
        if (before >= 0) {
            const double t = vp_now();
            if ((rc = wait_slot(r, before, err)))
                break;
            vp_stats_time(r->stats, "upload", vp_now() - t);
            vp_ring_taken(&s->ring);
        }
        before = slot;
    }
    stop_reader(s, rc != 0);
    if (!rc && s->failed) {
        *err = s->err;
        rc = -1;
    }
    const double t = vp_now();
    for (int i = 0; i < r->parts && !rc; i++)
        rc = vp_slab_flush(r->part[i].slab, err);
    if (before >= 0 && !rc)
        rc = wait_slot(r, before, err);
    vp_stats_time(r->stats, "backproject", vp_now() - t);
    maker.enough = true;
    if (maker.running)
        pthread_join(maker.thread, NULL);
    return rc;
}

/* ---- writing ---- */

static int write_slot(struct sink *s, const struct filled *f)
{
    return s->any_order ? vp_writer_bands(s->writer, f->page, f->count, 0, s->ny, f->slices, s->threads, &s->err)
                        : vp_writer_pages(s->writer, f->count, f->slices, s->threads, &s->err);
}

static void *write_slices(void *arg)
{
    struct sink *s = arg;
    int slot;

    while ((slot = vp_ring_take(&s->ring)) >= 0) {
        const double t = vp_now();
        if (!s->failed && write_slot(s, &s->slot[slot]))
            s->failed = true;
        vp_stats_time(s->stats, "write", vp_now() - t);
        /* after a failure the slots are still taken, so that the producer is not left waiting */
        vp_ring_taken(&s->ring);
    }
    return NULL;
}

static int start_writer(const struct vp_reconstruct *r, struct sink *s, struct vp_err *err)
{
    if (s->running)
        return 0;
    if (!s->slot && !(s->slot = calloc((size_t)r->out_slots, sizeof *s->slot)))
        return vp_fail(err, VP_ERESOURCE, "out of memory");
    vp_ring_init(&s->ring, r->out_slots);
    s->any_order = r->mirrored && r->passes > 1;
    if (pthread_create(&s->thread, NULL, write_slices, s)) {
        vp_ring_destroy(&s->ring);
        return vp_fail(err, VP_ERESOURCE, "cannot start a writer thread");
    }
    s->running = true;
    return 0;
}

/* Waits for what is still to be written. */
static int finish_writer(struct sink *s, struct vp_err *err)
{
    if (!s->running)
        return 0;
    vp_ring_end(&s->ring);
    pthread_join(s->thread, NULL);
    vp_ring_destroy(&s->ring);
    s->running = false;
    free(s->slot);
    s->slot = NULL;
    if (s->failed && err->code == 0) /* else another was first */
        *err = s->err;
    return s->failed ? -1 : 0;
}

/* n slices of a slab: one part's, or the sums of all subsets, added in their order. */
static int fetch(struct vp_reconstruct *r, const struct vp_bp_part *part, int64_t z, int64_t n, float *out,
                 float **partial, struct vp_err *err)
{
    const int64_t count = n * r->grid->n[0] * r->grid->n[1];
    int rc = 0;

    if (r->subsets == 1)
        return vp_slab_slices(part->slab, z, n, out, err);
#pragma omp parallel for num_threads(r->subsets) schedule(static, 1) reduction(min : rc)
    for (int c = 0; c < r->subsets; c++) {
        struct vp_err why = VP_ERR_INIT;
        if (vp_slab_slices(part[c].slab, z, n, c ? partial[c - 1] : out, &why))
            rc = vp_err_keep(err, &why);
    }
    if (rc)
        return rc;
#pragma omp parallel for num_threads(r->threads) schedule(static)
    for (int64_t i = 0; i < count; i++)
        for (int c = 1; c < r->subsets; c++)
            out[i] += partial[c - 1][i];
    return 0;
}

/* Slices [z0, z1) of a slab, slot by slot. */
static int store_range(struct vp_reconstruct *r, struct sink *s, struct buffers *b, const struct vp_bp_part *part,
                       int64_t z0, int64_t z1, struct vp_err *err)
{
    for (int64_t z = z0; z < z1 && !s->failed; z += r->group) {
        const int slot = vp_ring_fill(&s->ring);
        const int n = (int)vp_min64(r->group, z1 - z);
        if (make_output(r, &b->out[slot], err))
            return -1;
        const double t = vp_now();
        if (fetch(r, part, z, n, b->out[slot], b->partial, err))
            return -1;
        s->slot[slot] = (struct filled){b->out[slot], n, z - r->z0};
        vp_stats_time(r->stats, "slice", vp_now() - t);
        vp_ring_filled(&s->ring);
    }
    return 0;
}

/* All slices of a pass, the lowest first. */
static int store(struct vp_reconstruct *r, struct sink *s, struct buffers *b, struct vp_err *err)
{
    const int64_t nz = r->grid->n[2];
    int rc = 0;

    if (r->subsets > 1 && !b->partial && !(b->partial = calloc((size_t)r->n_devices, sizeof *b->partial)))
        return vp_fail(err, VP_ERESOURCE, "out of memory");
    for (int i = 0; i < r->subsets - 1; i++)
        if (make_output(r, &b->partial[i], err))
            return -1;
    if (start_writer(r, s, err))
        return -1;
    for (int i = 0; i < r->parts && !rc; i += r->subsets)
        rc = store_range(r, s, b, &r->part[i], r->part[i].z0, r->part[i].z1, err);
    for (int i = r->parts - r->subsets; r->mirrored && i >= 0 && !rc; i -= r->subsets) {
        const struct vp_bp_part *p = &r->part[i];
        const int64_t from = nz - p->z1 > p->z1 ? nz - p->z1 : p->z1; /* the middle slice is its own image */
        rc = store_range(r, s, b, p, from, nz - p->z0, err);
    }
    return rc || s->failed ? -1 : 0;
}

/* ---- all of it ---- */

/* Sums over devices; of the seconds of kernels and of the phase, those of the slowest device in each pass. */
static void add_stats(struct vp_reconstruct *r, const struct pass *p, struct totals *all)
{
    double kernel = 0, phase = 0, first = 0;
    for (int i = 0; i < r->parts; i++) {
        const double began = r->part[i].began;
        struct vp_bp_stats one;
        vp_slab_stats(r->part[i].slab, &one);
        r->part[i].took = one.kernel;
        all->sum.filter += one.filter;
        all->sum.uploaded += one.uploaded;
        all->sum.downloaded += one.downloaded;
        kernel = one.kernel > kernel ? one.kernel : kernel;
        phase = began + one.phase > phase ? began + one.phase : phase;
        first = began + one.first > first ? began + one.first : first;
    }
    all->sum.kernel += kernel;
    all->sum.phase += phase;
    if (r->made == 0) {
        all->first_view = p->source.begun - all->start;
        all->first_kernel = p->start + first - all->start;
    }
    all->last_view = p->source.done;
    all->passes++;
}

static int run_pass(struct vp_reconstruct *r, struct buffers *b, struct sink *sink, struct totals *all,
                    struct vp_err *err)
{
    struct pass p;
    double t = vp_now();
    int64_t lo, hi;
    int rc = open_pass(r, &p, b, err);

    vp_stats_time(r->stats, "prepare", vp_now() - t);
    t = vp_now();
    rc = rc || accumulate(r, &p, b, sink, err) ? -1 : 0;
    /* the end of the input is checked before the volume is called good */
    if (!rc && r->made == 0 && r->last == r->n_views)
        rc = vp_views_finish(r->source, err);
    all->busy += vp_now() - t;
    if (!rc)
        rc = store(r, sink, b, err);
    if (!rc)
        add_stats(r, &p, all);
    t = vp_now();
    stop_reader(&p.source, true);
    close_parts(r);
    vp_stats_time(r->stats, "close", vp_now() - t);
    vp_reconstruct_domain(r, &lo, &hi);
    if (rc)
        return -1;
    r->made += r->part[r->parts - 1].z1 - lo;
    vp_reconstruct_share_again(r);
    return 0;
}

static void tell(struct vp_reconstruct *r, const struct totals *all)
{
    const double gigaupdates = (double)r->grid->n[0] * (double)r->grid->n[1] * (double)(r->z1 - r->z0) *
                               (double)(r->last - r->first) / 1073741824.0;
    vp_stats_text(r->stats, "kernel", r->kernel);
    vp_stats_number(r->stats, "passes", (double)all->passes);
    vp_stats_number(r->stats, "gups", all->busy > 0 ? gigaupdates / all->busy : 0);
    vp_stats_number(r->stats, "gups_end_to_end", gigaupdates / (vp_now() - all->start));
    vp_stats_number(r->stats, "seconds_to_first_view", all->first_view);
    if (!on_host(r))
        vp_stats_number(r->stats, "seconds_to_first_kernel", all->first_kernel);
    vp_stats_number(r->stats, "seconds_to_last_view", all->last_view - all->start);
    vp_stats_number(r->stats, "seconds_after_last_view", vp_now() - all->last_view);
    if (on_host(r))
        return;
    vp_stats_number(r->stats, "devices", r->used);
    vp_stats_number(r->stats, "subsets", r->subsets);
    vp_stats_number(r->stats, "kernel_seconds", all->sum.kernel);
    vp_stats_number(r->stats, "kernel_gups", all->sum.kernel > 0 ? gigaupdates / all->sum.kernel : 0);
    vp_stats_number(r->stats, "compute_seconds", all->sum.phase);
    vp_stats_number(r->stats, "device_filter_seconds", all->sum.filter);
    vp_stats_count(r->stats, "bytes_uploaded", all->sum.uploaded);
    vp_stats_count(r->stats, "bytes_downloaded", all->sum.downloaded);
}

int vp_reconstruct_run(struct vp_reconstruct *r, struct vp_writer *writer, struct vp_err *err)
{
    struct totals all = {.start = vp_now()};
    struct buffers buffers = {.out = NULL};
    struct sink sink = {.writer = writer, .stats = r->stats, .err = VP_ERR_INIT,
                        .threads = r->threads, .nx = r->grid->n[0], .ny = r->grid->n[1]};
    int64_t lo, hi;
    int rc = 0;

    r->bad = 0;
    memset(&r->repaired, 0, sizeof r->repaired);
    vp_progress_start(r->progress, "reconstructing", "views", (r->last - r->first) * r->passes);
    for (vp_reconstruct_domain(r, &lo, &hi); lo < hi && !rc && !sink.failed; vp_reconstruct_domain(r, &lo, &hi))
        rc = run_pass(r, &buffers, &sink, &all, err);
    if (finish_writer(&sink, err))
        rc = -1;
    free_inputs(r, &buffers);
    free_outputs(r, &buffers);
    if (!rc)
        tell(r, &all);
    return rc;
}
