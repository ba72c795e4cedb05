/* SPDX-License-Identifier: BSD-3-Clause */
/* The stages of a reconstruction and the two threads around them. The order of the stages is that of
 * iFDK (Chen et al. 2019, fig. 3): load, filter, back-project, store, each overlapping its neighbours.
 *
 * Views that lie half a turn apart are read together where the input is seekable and the kernel works on them
 * together: neither has then to wait for the other. */
#include "ops/reconstruct.h"

#include "backend.h"
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
    IN_SLOTS = 3,
    OUT_SLOTS = 2,
    DEVICE_IN_SLOTS = 6,
    DEVICE_OUT_SLOTS = 3,
    MOST_SLOTS = 6,
    BATCH = 16,
    DEVICE_BATCH = 64,
    SLAB_STEP = 64,
    SLICES = 32,    /* copied together */
    BAND = 1 << 18  /* samples written together */
};
static const uint64_t SLOT_BYTES = 32 << 20;
static const uint64_t PROCESS_BYTES = 7 << 20; /* code, stacks and small things; 5.4 MiB were seen */

/* What a device makes in one pass. */
struct part {
    int device;
    int64_t z0, z1, v0, v1; /* slices (of the lower half, if mirrored); detector rows that they need */
    int64_t together;
    void *bp;
    uint64_t ticket[MOST_SLOTS]; /* of the views in each slot */
};

/* All devices in one pass. */
struct team {
    struct part *part;
    int n;
    int64_t v0, v1; /* rows that are read */
    int64_t together; /* views that are handed over before their partners */
};

/* Slots are kept from one pass to the next, and to the end: to free memory that a device copies from, it would have to
 * stop. `wide`: views that the host filters into longer rows. */
struct buffers {
    float *in[MOST_SLOTS], *wide[MOST_SLOTS], *out[MOST_SLOTS];
};

/* A reader thread fills slots with batches of views. */
struct source {
    struct vp_reconstruct *job;
    const struct team *team;
    struct vp_ring ring;
    float **slot; /* made when they are needed */
    int64_t first[MOST_SLOTS];
    int count[MOST_SLOTS];
    int partners[MOST_SLOTS]; /* that many more follow, from view first + partner on */
    int64_t partner;
    bool count_bad; /* the first pass counts, the others see the same samples */
    double done; /* when the last view was there */
    int wake[2]; /* a pipe: what is written into it ends a read that waits for the input */
    struct vp_err err;
    bool failed;
};

/* A writer thread empties slots of slices. */
struct sink {
    struct vp_writer *writer;
    struct vp_stats *stats;
    struct vp_ring ring;
    float **slot;
    int count[MOST_SLOTS];
    int64_t page[MOST_SLOTS]; /* of the first slice; in any order if `any_order` */
    bool any_order;
    int64_t nx, ny;
    int threads;
    struct vp_err err;
    atomic_bool failed;
};

static int64_t lesser(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Devices with memory of their own work while the host goes on. */
static bool on_host(const struct vp_reconstruct *r)
{
    return r->backend == &vp_backend_cpu;
}

/* A buffer that the backend copies fast from and to. */
static float *take(const struct vp_reconstruct *r, uint64_t count, const char *what, struct vp_err *err)
{
    char text[16];
    if (on_host(r))
        return vp_alloc_raw(count, sizeof(float), what, err);
    float *p = r->backend->host_alloc(count * sizeof(float));
    if (!p)
        vp_fail(err, VP_ERESOURCE, "no page-locked memory for %s: expected %s", what,
                vp_format_bytes(text, sizeof text, count * sizeof(float)));
    return p;
}

static void give_back(const struct vp_reconstruct *r, float *p)
{
    if (p)
        r->backend->host_free(p);
}

static int in_slots(const struct vp_reconstruct *r)
{
    return on_host(r) ? IN_SLOTS : DEVICE_IN_SLOTS;
}

static int out_slots(const struct vp_reconstruct *r)
{
    return on_host(r) ? OUT_SLOTS : DEVICE_OUT_SLOTS;
}

/* Does the host filter into rows of another length? Then every slot that a device reads from needs room for them. */
static int wide_slots(const struct vp_reconstruct *r)
{
    return r->nu == r->in_nu || r->filter_device ? 0 : on_host(r) ? 1 : DEVICE_IN_SLOTS;
}

/* Slices that one output slot holds, in a pass that makes `depth`: enough to write in large pieces, but only a
 * small part of the memory, which the volume needs. */
static int64_t slices_a_slot(const struct vp_reconstruct *r, int64_t depth)
{
    const uint64_t page = (uint64_t)r->grid->n[0] * (uint64_t)r->grid->n[1] * sizeof(float);
    const uint64_t most = r->memory / 32 < SLOT_BYTES ? r->memory / 32 : SLOT_BYTES;
    int64_t n = (int64_t)(most / (page > 0 ? page : 1));
    n = n < 1 ? 1 : n >= SLICES ? n / SLICES * SLICES : n;
    return n < depth ? n : depth;
}

static uint64_t slot_samples(const struct vp_reconstruct *r)
{
    return (uint64_t)slices_a_slot(r, r->slab) * (uint64_t)r->grid->n[0] * (uint64_t)r->grid->n[1];
}

/* ---- the plan ---- */

/* Slices that slabs are cut from: [*lo, *hi). */
static void domain(const struct vp_reconstruct *r, int64_t *lo, int64_t *hi)
{
    *lo = r->z0;
    *hi = r->mirrored ? (r->grid->n[2] + 1) / 2 : r->z1;
}

static struct vp_bp_job slab_job(const struct vp_reconstruct *r, int device, int64_t z0, int64_t z1)
{
    return (struct vp_bp_job){.views = r->views, .n_views = r->n_views, .first = r->first, .last = r->last,
                              .nu = r->nu, .nv = r->nv, .grid = r->grid, .z0 = z0, .z1 = z1,
                              .mirrored = r->mirrored, .filter = r->filter_device ? r->filter : NULL,
                              .in_nu = r->filter_device ? r->in_nu : r->nu,
                              .any_order = vp_views_seekable(r->source), .threads = r->threads,
                              .device = device, .device_memory = r->device_memory};
}

/* Plan the slab [z0, z1) on a device, and widen what a pass takes to it. */
static int widen(struct vp_reconstruct *r, int device, int64_t z0, int64_t z1, uint64_t *host, struct vp_bp_plan *plan,
                 struct vp_err *err)
{
    const struct vp_bp_job job = slab_job(r, device, z0, z1);
    if (r->backend->bp_plan(&job, plan, err))
        return -1;
    *host = plan->host > *host ? plan->host : *host;
    if (plan->device >= r->device_bytes) {
        r->device_bytes = plan->device;
        r->device_room = plan->room;
    }
    return 0;
}

/* What a pass that makes slabs of `depth` slices takes, into r->bytes and r->device_bytes. The device's share
 * counts only against what is free there. */
static int pass_bytes(struct vp_reconstruct *r, int64_t depth, struct vp_err *err)
{
    const uint64_t in = (uint64_t)r->in_nu * (uint64_t)r->nv * sizeof(float);
    const uint64_t wide = (uint64_t)r->nu * (uint64_t)r->nv * sizeof(float);
    const uint64_t slice = (uint64_t)r->grid->n[0] * (uint64_t)r->grid->n[1] * sizeof(float);
    struct vp_bp_plan plan;
    uint64_t host = 0;
    int64_t lo, hi;

    domain(r, &lo, &hi);
    r->device_bytes = r->device_room = 0;
    for (int d = 0; d < r->used && (d == 0 || lo + d * depth < hi); d++) {
        if (widen(r, r->devices[d], lo + d * depth, lesser(lo + (d + 1) * depth, hi), &host, &plan, err))
            return -1;
        if (d == 0) {
            snprintf(r->kernel, sizeof r->kernel, "%s", plan.kernel);
            snprintf(r->filter_kernel, sizeof r->filter_kernel, "%s", plan.filter);
        }
    }
    /* where the halves of a mirrored volume meet, a slab may take more than the first one */
    const int64_t middle = lo + (r->grid->n[2] / 2 - lo) / depth * depth;
    if (!r->mirrored && middle > lo && middle < hi &&
        widen(r, r->devices[0], middle, lesser(middle + depth, hi), &host, &plan, err))
        return -1;
    r->bytes = PROCESS_BYTES + vp_views_bytes(r->source) + host * (uint64_t)r->used +
               (uint64_t)r->batch * ((uint64_t)in_slots(r) * in + (uint64_t)wide_slots(r) * wide) +
               (uint64_t)out_slots(r) * (uint64_t)slices_a_slot(r, depth) * slice +
               (r->filter ? vp_filter_bytes(r->filter) : 0) +
               (r->normalize ? vp_normalize_bytes(r->normalize) : 0);
    return 0;
}

static bool fits(const struct vp_reconstruct *r)
{
    return r->bytes <= r->memory && r->device_bytes <= r->device_room;
}

/* The numbers of the last pass_bytes against their limits. */
static int too_large(const struct vp_reconstruct *r, const char *what, struct vp_err *err)
{
    char need[16], have[16];
    const bool host = r->bytes > r->memory;
    vp_format_bytes(need, sizeof need, host ? r->bytes : r->device_bytes);
    vp_format_bytes(have, sizeof have, host ? r->memory : r->device_room);
    return vp_fail(err, VP_ERESOURCE, "%s needs %s, %s %s", what, need,
                   host ? "the memory limit is" : "the device has", have);
}

/* The most slices of `all` that a device can make in one pass with r->batch, 0 if not even one. The bytes grow with the
 * depth: bisect on whole steps, then try the fractions of one. */
static int largest_slab(struct vp_reconstruct *r, int64_t all, int64_t *depth, struct vp_err *err)
{
    int64_t lo = 0, hi = (all + SLAB_STEP - 1) / SLAB_STEP;
    while (lo < hi) {
        const int64_t mid = (lo + hi + 1) / 2;
        if (pass_bytes(r, lesser(mid * SLAB_STEP, all), err))
            return -1;
        if (fits(r))
            lo = mid;
        else
            hi = mid - 1;
    }
    *depth = lo * SLAB_STEP;
    for (int64_t d = SLAB_STEP / 2; !*depth && d >= 1; d /= 2) {
        if (d > all)
            continue;
        if (pass_bytes(r, d, err))
            return -1;
        if (fits(r))
            *depth = d;
    }
    return 0;
}

/* Views a batch, at most: a device wants pieces that are worth a copy and all threads, but short ones, for the first
 * has to come before anything else can begin. */
static int largest_batch(const struct vp_reconstruct *r)
{
    const uint64_t view = (uint64_t)r->in_nu * (uint64_t)r->nv * sizeof(float);
    const uint64_t all = view * (uint64_t)(r->last - r->first);
    const uint64_t slot = all / 256 < SLOT_BYTES ? SLOT_BYTES : 2 * SLOT_BYTES;
    if (on_host(r))
        return BATCH;
    int batch = 2;
    while (batch < DEVICE_BATCH && 2 * (uint64_t)batch * view <= slot)
        batch *= 2;
    return batch;
}

static int smallest_batch(const struct vp_reconstruct *r)
{
    return on_host(r) ? 1 : 2; /* a pair */
}

/* One pass, if any batch allows it: 1, 0 if none does, -1 on errors. */
static int one_pass(struct vp_reconstruct *r, int64_t depth, struct vp_err *err)
{
    r->slab = depth;
    r->passes = 1;
    for (r->batch = largest_batch(r);; r->batch /= 2) {
        if (pass_bytes(r, depth, err))
            return -1;
        if (fits(r))
            return 1;
        if (r->batch <= smallest_batch(r))
            return 0;
    }
}

/* As many devices as have worthwhile slabs, and slabs as equal as whole steps allow. */
static int64_t share(struct vp_reconstruct *r, int64_t all, int64_t step)
{
    const int64_t steps = (all + step - 1) / step;
    r->used = (int)lesser(r->n_devices, steps);
    const int64_t depth = (steps + r->used - 1) / r->used * step;
    r->used = (int)((all + depth - 1) / depth);
    return r->used == 1 ? all : depth;
}

/* Filter on the device where that is asked for, or can be had; and what the slabs may be. */
static int choose(struct vp_reconstruct *r, struct vp_bp_plan *plan, struct vp_err *err)
{
    r->mirrored = false;
    r->filter_device = r->filter && !on_host(r) && r->filter_on != VP_FILTER_ON_CPU;
    for (;;) {
        const struct vp_bp_job job = slab_job(r, r->devices[0], r->z0, lesser(r->z0 + 1, r->z1));
        struct vp_err why = VP_ERR_INIT;
        if (!r->backend->bp_plan(&job, plan, &why))
            break;
        /* auto means whatever can do it */
        if (!r->filter_device || r->filter_on == VP_FILTER_ON_GPU) {
            *err = why;
            return -1;
        }
        r->filter_device = false;
    }
    if (r->filter_device && r->filter_on == VP_FILTER_ON_AUTO &&
        plan->filter_seconds > vp_filter_seconds(r->filter))
        r->filter_device = false;
    return 0;
}

int vp_reconstruct_plan(struct vp_reconstruct *r, struct vp_err *err)
{
    struct vp_bp_plan plan;
    char what[96];
    int64_t lo, hi;

    r->used = 1;
    if (choose(r, &plan, err))
        return -1;
    const bool whole = r->z0 == 0 && r->z1 == r->grid->n[2];
    const int64_t step = on_host(r) ? 1 : plan.z_step;
    r->mirrored = r->n_devices > 1 && plan.mirror && whole && r->grid->n[2] > 1;
    domain(r, &lo, &hi);
    int64_t depth = share(r, hi - lo, step);
    if (r->used == 1 && r->mirrored) { /* the whole volume is its own mirror image */
        r->mirrored = false;
        depth = r->z1 - r->z0;
    }
    int rc = one_pass(r, depth, err);
    if (rc)
        return rc < 0 ? -1 : 0;
    if (!vp_views_seekable(r->source)) {
        snprintf(what, sizeof what, "volume of %lld x %lld x %lld", (long long)r->grid->n[0],
                 (long long)r->grid->n[1], (long long)(r->z1 - r->z0));
        too_large(r, what, err);
        return vp_hint(err, "give the projections as files (they are then read several times), --slab for a "
                            "part, a coarser --voxel, or more --memory");
    }
    /* else the fewest passes, and of the batches that allow those the largest */
    r->mirrored = plan.mirror && whole && r->grid->n[2] > 1 && r->any_order;
    domain(r, &lo, &hi);
    const int64_t all = hi - lo;
    (void)share(r, all, step);
    int best = 0;
    int64_t slab = 0;
    const int64_t a_pass = r->used;
    for (r->batch = largest_batch(r); r->batch >= smallest_batch(r); r->batch /= 2) {
        if (largest_slab(r, all, &depth, err))
            return -1;
        if (depth > 0 && (!slab || (all + a_pass * depth - 1) / (a_pass * depth) <
                                       (all + a_pass * slab - 1) / (a_pass * slab))) {
            slab = depth;
            best = r->batch;
        }
    }
    r->batch = best ? best : smallest_batch(r);
    r->slab = slab ? slab : 1;
    r->passes = (all + a_pass * r->slab - 1) / (a_pass * r->slab);
    if (slab && !on_host(r)) { /* no more of it than an equal share of all passes */
        const int64_t steps = (all + step - 1) / step, slabs = r->passes * a_pass;
        r->slab = lesser(r->slab, (steps + slabs - 1) / slabs * step);
    }
    if (pass_bytes(r, r->slab, err))
        return -1;
    if (!slab) {
        too_large(r, "one slice at a time", err);
        return vp_hint(err, "allow more --memory");
    }
    return 0;
}

/* ---- reading ---- */

static int read_run(struct source *s, int64_t first, int n, float *to)
{
    struct vp_reconstruct *r = s->job;
    const int64_t got = vp_views_read_many(r->source, first, n, s->team->v0, s->team->v1, to,
                                           s->count_bad ? &r->bad : NULL, r->threads, &s->err);
    if (got == n)
        return 0;
    if (got >= 0)
        vp_fail(&s->err, VP_ERUN, "%s ends after %lld views, expected %lld", vp_views_name(r->source),
                (long long)(first + got), (long long)r->n_views);
    return -1;
}

static void read_views(struct source *s)
{
    struct vp_reconstruct *r = s->job;
    const size_t view = (size_t)r->in_nu * (size_t)(s->team->v1 - s->team->v0);
    const size_t room = (size_t)r->in_nu * (size_t)(on_host(r) ? r->nv : s->team->v1 - s->team->v0);
    const int64_t last = s->partner ? s->partner : r->last, step = s->partner ? r->batch / 2 : r->batch;

    for (int64_t k = r->first; k < last;) {
        const int slot = vp_ring_fill(&s->ring);
        if (slot < 0)
            return;
        const double t = vp_now();
        if (!s->slot[slot] &&
            !(s->slot[slot] = take(r, (s->partner ? 2 : 1) * (uint64_t)step * room, "the projections", &s->err))) {
            s->failed = true;
            break;
        }
        /* batches end at multiples of the batch, so that the back-projection can take each at once */
        const int64_t end = lesser((k / step + 1) * step, last);
        const int n = (int)(end - k);
        s->first[slot] = k;
        s->count[slot] = n;
        s->partners[slot] = s->partner ? n : 0;
        if (read_run(s, k, n, s->slot[slot]) ||
            (s->partner && read_run(s, k + s->partner, n, s->slot[slot] + (size_t)n * view))) {
            s->failed = true;
            break;
        }
        k = end;
        vp_stats_time(r->stats, "read", vp_now() - t);
        vp_ring_filled(&s->ring);
    }
    s->done = vp_now();
    vp_ring_end(&s->ring);
}

static void *read_main(void *arg)
{
    struct source *s = arg;
    vp_input_wake(s->wake[0]);
    if (!on_host(s->job)) { /* page-locked memory belongs to the device of the thread that asks for it */
        struct vp_device ignored;
        struct vp_err err = VP_ERR_INIT;
        s->job->backend->device(s->job->devices[0], &ignored, &err);
    }
    read_views(s);
    return NULL;
}

/* ---- computing ---- */

static void open_parts(struct vp_reconstruct *r, struct team *team, struct vp_err *err)
{
    bool failed = false;
#pragma omp parallel for num_threads(team->n) schedule(static, 1) if (team->n > 1)
    for (int i = 0; i < team->n; i++) {
        struct part *p = &team->part[i];
        const struct vp_bp_job job = slab_job(r, p->device, p->z0, p->z1);
        struct vp_err why = VP_ERR_INIT;
        struct vp_bp_plan plan;
        if (!r->backend->bp_open(&p->bp, &job, &why) && !r->backend->bp_plan(&job, &plan, &why)) {
            p->v0 = plan.v0;
            p->v1 = plan.v1;
            p->together = plan.together;
        }
        if (why.code)
#pragma omp critical(open_parts)
            if (!failed) {
                failed = true;
                *err = why;
            }
    }
}

/* The slabs of a pass, opened. */
static int open_team(struct vp_reconstruct *r, int64_t pass, struct team *team, struct vp_err *err)
{
    int64_t lo, hi;
    struct vp_err why = VP_ERR_INIT;

    domain(r, &lo, &hi);
    *team = (struct team){.part = calloc((size_t)r->used, sizeof *team->part), .v0 = r->nv, .together = r->n_views};
    if (!team->part)
        return vp_fail(err, VP_ERESOURCE, "out of memory");
    for (int d = 0; d < r->used; d++) {
        const int64_t z = lo + (pass * r->used + d) * r->slab;
        if (z < hi)
            team->part[team->n++] = (struct part){.device = r->devices[d], .z0 = z, .z1 = lesser(z + r->slab, hi)};
    }
    open_parts(r, team, &why);
    if (why.code) {
        *err = why;
        return -1;
    }
    for (int i = 0; i < team->n; i++) {
        team->v0 = lesser(team->v0, team->part[i].v0);
        team->v1 = team->v1 > team->part[i].v1 ? team->v1 : team->part[i].v1;
        team->together = lesser(team->together, team->part[i].together);
    }
    /* normalisation looks at whole views; and every sample is looked at once */
    if (r->normalize || (pass == 0 && r->passes > 1)) {
        team->v0 = 0;
        team->v1 = r->nv;
    }
    return 0;
}

static void close_team(struct vp_reconstruct *r, struct team *team)
{
    for (int i = 0; i < team->n; i++)
        if (team->part[i].bp)
            r->backend->bp_close(team->part[i].bp);
    free(team->part);
    *team = (struct team){0};
}

static int wait_slot(struct vp_reconstruct *r, const struct team *team, int slot, struct vp_err *err)
{
    for (int i = 0; i < team->n; i++)
        if (r->backend->bp_wait(team->part[i].bp, team->part[i].ticket[slot], err))
            return -1;
    return 0;
}

/* n views from `first`: normalise them, and filter them into q unless the devices do it. Where they are then. */
static float *prepare(struct vp_reconstruct *r, const struct team *team, int64_t first, int n, float *p, float *q,
                      bool first_pass)
{
    double t = vp_now(), t1;

    if (r->normalize) {
#pragma omp parallel for schedule(dynamic) num_threads(r->threads)
        for (int i = 0; i < n; i++)
            vp_normalize_view(r->normalize, first + i, p + (size_t)(i * (team->v1 - team->v0) * r->in_nu),
                              first_pass ? &r->repaired : NULL);
        t1 = vp_now();
        vp_stats_time(r->stats, "normalize", t1 - t);
        t = t1;
    }
    if (!r->filter || r->filter_device)
        return p;
    vp_filter_rows(r->filter, first, n, team->v0, team->v1, p, q);
    vp_stats_time(r->stats, "filter", vp_now() - t);
    return q;
}

/* On the host whole views are wanted. The rows that were not read hold anything: nothing is taken from them. */
static void spread(const struct vp_reconstruct *r, const struct team *team, int n, float *q)
{
    const int64_t rows = team->v1 - team->v0;
    if (on_host(r) && rows < r->nv)
        for (int64_t i = n - 1; i >= 0; i--)
            memmove(q + (i * r->nv + team->v0) * r->nu, q + i * rows * r->nu, (size_t)(rows * r->nu) * sizeof *q);
}

/* To all devices. */
static int hand_over(struct vp_reconstruct *r, struct team *team, int slot, int64_t first, int64_t n, const float *p,
                     struct vp_err *err)
{
    const double t = vp_now();
    const int64_t v0 = on_host(r) ? 0 : team->v0, v1 = on_host(r) ? r->nv : team->v1;
    for (int i = 0; i < team->n; i++)
        if (r->backend->bp_add(team->part[i].bp, first, n, v0, v1, p, &team->part[i].ticket[slot], err))
            return -1;
    vp_stats_time(r->stats, "backproject", vp_now() - t);
    vp_progress_add(r->progress, n);
    return 0;
}

/* What is in a slot; `wide`, if not NULL, is where the host filters to. */
static int add(struct vp_reconstruct *r, struct team *team, const struct source *s, int slot, float *wide,
               bool first_pass, struct vp_err *err)
{
    const int n = s->count[slot];
    const size_t rows = (size_t)(team->v1 - team->v0), in = rows * (size_t)r->in_nu;
    const size_t out = rows * (size_t)(r->filter_device ? r->in_nu : r->nu);
    float *p = s->slot[slot];
    float *a = prepare(r, team, s->first[slot], n, p, wide ? wide : p, first_pass);

    spread(r, team, n, a);
    if (!s->partners[slot])
        return hand_over(r, team, slot, s->first[slot], n, a, err);
    p += (size_t)n * in;
    const float *b = prepare(r, team, s->first[slot] + s->partner, n, p, wide ? wide + (size_t)n * out : p, first_pass);
    for (int64_t i = 0; i < n; i += team->together) {
        const int64_t k = lesser(team->together, n - i), first = s->first[slot] + i;
        if (hand_over(r, team, slot, first, k, a + (size_t)i * out, err) ||
            hand_over(r, team, slot, first + s->partner, k, b + (size_t)i * out, err))
            return -1;
    }
    return 0;
}

/* All views through the stages into the slabs of one pass. */
static int accumulate(struct vp_reconstruct *r, struct team *team, struct buffers *b, bool first_pass,
                      double *last_view, struct vp_err *err)
{
    struct source s = {.job = r, .team = team, .slot = b->in, .err = VP_ERR_INIT, .count_bad = first_pass,
                       .wake = {-1, -1}};
    const struct vp_bp_job job = slab_job(r, team->part[0].device, team->part[0].z0, team->part[0].z1);
    const uint64_t out = (uint64_t)(on_host(r) ? r->nv : team->v1 - team->v0) * (uint64_t)r->nu;
    struct vp_bp_plan plan;
    pthread_t thread;
    int rc = -1, slot, before = -1;

    vp_ring_init(&s.ring, in_slots(r));
    if (r->backend->bp_plan(&job, &plan, err))
        goto out;
    s.partner = job.any_order ? plan.partner : 0;
    for (int i = 0; i < wide_slots(r); i++)
        if (!b->wide[i] && !(b->wide[i] = take(r, (uint64_t)r->batch * out, "the filtered projections", err)))
            goto out;
    if (pipe2(s.wake, O_CLOEXEC)) {
        vp_fail_errno(err, "a pipe cannot be made");
        goto out;
    }
    if (pthread_create(&thread, NULL, read_main, &s)) {
        vp_fail(err, VP_ERESOURCE, "cannot start a reader thread");
        goto out;
    }
    for (int i = 0; i < out_slots(r) && !on_host(r) && !b->out[i]; i++) /* while the first views are read */
        if (!(b->out[i] = take(r, slot_samples(r), "the slices", err)))
            break;
    rc = on_host(r) || b->out[out_slots(r) - 1] ? 0 : -1;
    while (!rc && (slot = vp_ring_look(&s.ring, before >= 0)) >= 0) {
        if ((rc = add(r, team, &s, slot, b->wide[on_host(r) ? 0 : slot], first_pass, err)))
            break;
        /* the host goes on with the next slot while this one is copied */
        if (on_host(r)) {
            vp_ring_taken(&s.ring);
            continue;
        }
        if (before >= 0) {
            const double t = vp_now();
            if ((rc = wait_slot(r, team, before, err)))
                break;
            vp_stats_time(r->stats, "upload", vp_now() - t);
            vp_ring_taken(&s.ring);
        }
        before = slot;
    }
    vp_ring_stop(&s.ring);
    /* after an error the reader may wait for a pipe that has nothing to say */
    if (rc)
        (void)!write(s.wake[1], "", 1);
    pthread_join(thread, NULL);
    *last_view = s.done;
    if (!rc && s.failed) {
        *err = s.err;
        rc = -1;
    }
    const double t = vp_now();
    for (int i = 0; i < team->n && !rc; i++)
        rc = r->backend->bp_flush(team->part[i].bp, err);
    if (before >= 0 && !rc)
        rc = wait_slot(r, team, before, err);
    vp_stats_time(r->stats, "backproject", vp_now() - t);
out:
    /* what is still being copied from must not be given back */
    for (int i = 0; i < in_slots(r) && !on_host(r) && rc; i++) {
        struct vp_err ignored = VP_ERR_INIT;
        (void)wait_slot(r, team, i, &ignored);
    }
    for (int i = 0; i < 2; i++)
        if (s.wake[i] >= 0)
            close(s.wake[i]);
    vp_ring_destroy(&s.ring);
    return rc;
}

/* ---- writing ---- */

static int write_slot(struct sink *s, int slot)
{
    if (!s->any_order)
        return vp_writer_pages(s->writer, s->count[slot], s->slot[slot], s->threads, &s->err);
    bool failed = false;
    const int64_t band = BAND / s->nx > 1 ? lesser(BAND / s->nx, s->ny) : 1, bands = (s->ny + band - 1) / band;
#pragma omp parallel for num_threads(s->threads) schedule(dynamic)
    for (int64_t i = 0; i < s->count[slot] * bands; i++) {
        const int64_t page = i / bands, y0 = i % bands * band;
        struct vp_err why = VP_ERR_INIT;
        if (vp_writer_rows(s->writer, s->page[slot] + page, y0, lesser(y0 + band, s->ny),
                           s->slot[slot] + (size_t)((page * s->ny + y0) * s->nx), &why))
#pragma omp critical(write_slot)
            if (!failed) {
                failed = true;
                s->err = why;
            }
    }
    return failed ? -1 : 0;
}

static void *write_slices(void *arg)
{
    struct sink *s = arg;
    int slot;

    while ((slot = vp_ring_take(&s->ring)) >= 0) {
        const double t = vp_now();
        if (!s->failed && write_slot(s, slot))
            s->failed = true;
        vp_stats_time(s->stats, "write", vp_now() - t);
        /* after a failure the slots are still taken, so that the producer is not left waiting */
        vp_ring_taken(&s->ring);
    }
    return NULL;
}

/* Slices [z0, z1) of a part, slot by slot. */
static int store_range(struct vp_reconstruct *r, struct sink *s, const struct part *part, int64_t z0, int64_t z1,
                       int64_t group, struct vp_err *err)
{
    for (int64_t z = z0; z < z1 && !s->failed; z += group) {
        const int slot = vp_ring_fill(&s->ring);
        const int n = (int)lesser(group, z1 - z);
        const double t = vp_now();
        if (!s->slot[slot] && !(s->slot[slot] = take(r, slot_samples(r), "the slices", err)))
            return -1;
        if (r->backend->bp_slices(part->bp, z, n, s->slot[slot], err))
            return -1;
        s->count[slot] = n;
        s->page[slot] = z - r->z0;
        vp_stats_time(r->stats, "slice", vp_now() - t);
        vp_ring_filled(&s->ring);
    }
    return 0;
}

/* All slices of a pass, the lowest first. */
static int store(struct vp_reconstruct *r, const struct team *team, struct buffers *b, struct vp_writer *writer,
                 struct vp_err *err)
{
    const int64_t group = slices_a_slot(r, r->slab), nz = r->grid->n[2];
    struct sink s = {.writer = writer, .slot = b->out, .stats = r->stats, .err = VP_ERR_INIT, .threads = r->threads,
                     .any_order = r->mirrored && r->passes > 1, .nx = r->grid->n[0], .ny = r->grid->n[1]};
    pthread_t thread;
    int rc = 0;

    vp_ring_init(&s.ring, out_slots(r));
    if (pthread_create(&thread, NULL, write_slices, &s)) {
        vp_ring_destroy(&s.ring);
        return vp_fail(err, VP_ERESOURCE, "cannot start a writer thread");
    }
    for (int i = 0; i < team->n && !rc; i++)
        rc = store_range(r, &s, &team->part[i], team->part[i].z0, team->part[i].z1, group, err);
    for (int i = team->n - 1; r->mirrored && i >= 0 && !rc; i--) {
        const struct part *p = &team->part[i];
        const int64_t from = nz - p->z1 > p->z1 ? nz - p->z1 : p->z1; /* the middle slice is its own image */
        rc = store_range(r, &s, p, from, nz - p->z0, group, err);
    }
    vp_ring_end(&s.ring);
    pthread_join(thread, NULL);
    if (!rc && s.failed) {
        *err = s.err;
        rc = -1;
    }
    vp_ring_destroy(&s.ring);
    return rc;
}

/* ---- all of it ---- */

/* Memory of a device may have gone since the plan was made: then a smaller one. */
static int open_first(struct vp_reconstruct *r, struct team *team, struct vp_err *err)
{
    for (int attempt = 0;; attempt++) {
        if (!open_team(r, 0, team, err))
            return 0;
        if (err->code != VP_ERESOURCE || on_host(r) || attempt == 2)
            return -1;
        close_team(r, team);
        *err = (struct vp_err)VP_ERR_INIT;
        if (vp_reconstruct_plan(r, err))
            return -1;
    }
}

/* Sums over devices; of the seconds of kernels and of the phase, those of the slowest device in each pass. */
static void add_stats(struct vp_reconstruct *r, const struct team *team, struct vp_bp_stats *sum)
{
    double kernel = 0, phase = 0;
    for (int i = 0; i < team->n; i++) {
        struct vp_bp_stats one;
        r->backend->bp_stats(team->part[i].bp, &one);
        sum->filter += one.filter;
        sum->uploaded += one.uploaded;
        sum->downloaded += one.downloaded;
        kernel = one.kernel > kernel ? one.kernel : kernel;
        phase = one.phase > phase ? one.phase : phase;
    }
    sum->kernel += kernel;
    sum->phase += phase;
}

int vp_reconstruct_run(struct vp_reconstruct *r, struct vp_writer *writer, struct vp_err *err)
{
    const double gigaupdates = (double)r->grid->n[0] * (double)r->grid->n[1] * (double)(r->z1 - r->z0) *
                               (double)(r->last - r->first) / 1073741824.0;
    const double start = vp_now();
    struct vp_bp_stats sum = {0};
    struct buffers buffers = {{NULL}, {NULL}, {NULL}};
    double busy = 0, last_view = 0;

    int rc = 0;

    r->bad = 0;
    memset(&r->repaired, 0, sizeof r->repaired);
    vp_progress_start(r->progress, "reconstructing", "views", (r->last - r->first) * r->passes);
    for (int64_t pass = 0; pass < r->passes && !rc; pass++) {
        struct team team;
        double t = vp_now();
        if ((rc = pass == 0 ? open_first(r, &team, err) : open_team(r, pass, &team, err))) {
            close_team(r, &team);
            break;
        }
        vp_stats_time(r->stats, "prepare", vp_now() - t);
        t = vp_now();
        rc = accumulate(r, &team, &buffers, pass == 0, &last_view, err);
        /* the end of the input is checked before the volume is called good */
        if (!rc && pass == 0 && r->last == r->n_views)
            rc = vp_views_finish(r->source, err);
        busy += vp_now() - t;
        if (!rc)
            rc = store(r, &team, &buffers, writer, err);
        if (!rc)
            add_stats(r, &team, &sum);
        t = vp_now();
        close_team(r, &team);
        vp_stats_time(r->stats, "close", vp_now() - t);
    }
    for (int i = 0; i < MOST_SLOTS; i++) {
        give_back(r, buffers.in[i]);
        give_back(r, buffers.wide[i]);
        give_back(r, buffers.out[i]);
    }
    if (rc)
        return -1;
    vp_stats_text(r->stats, "kernel", r->kernel);
    vp_stats_number(r->stats, "passes", (double)r->passes);
    vp_stats_number(r->stats, "gups", busy > 0 ? gigaupdates / busy : 0);
    vp_stats_number(r->stats, "gups_end_to_end", gigaupdates / (vp_now() - start));
    vp_stats_number(r->stats, "seconds_to_last_view", last_view - start);
    vp_stats_number(r->stats, "seconds_after_last_view", vp_now() - last_view);
    if (!on_host(r)) {
        vp_stats_number(r->stats, "devices", r->used);
        vp_stats_number(r->stats, "kernel_seconds", sum.kernel);
        vp_stats_number(r->stats, "kernel_gups", sum.kernel > 0 ? gigaupdates / sum.kernel : 0);
        vp_stats_number(r->stats, "compute_seconds", sum.phase);
        vp_stats_number(r->stats, "device_filter_seconds", sum.filter);
        vp_stats_count(r->stats, "bytes_uploaded", sum.uploaded);
        vp_stats_count(r->stats, "bytes_downloaded", sum.downloaded);
    }
    return 0;
}
