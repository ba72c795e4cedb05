/* SPDX-License-Identifier: BSD-3-Clause */
/* Slabs of a volume, on the CPU and on devices with memory of their own.
 *
 * There, three queues. `up` copies pieces of views into a ring of raw pieces in device memory. `work` filters a piece,
 * packs it into slots of orbits, and back-projects ("runs") orbits when enough are together that the traffic of the
 * volume is hidden. `down` copies finished slices to the host. A run keeps every multiprocessor to its end, so what is
 * filtered and packed waits for it; the ring holds the views of a whole run or more, so that the bus does not wait as
 * well, and the input comes as fast as it can.
 *
 * When the last view has come, the orbits that were not run yet are run part by part of the slab: the first slices
 * leave the device while the others are worked on. Where all orbits have a slot and stay there, parts are run by
 * themselves from the beginning: the lower ones follow the upload, the others as far as that leaves the device idle,
 * and most of what they lack is run at the end, while the lower ones leave.
 *
 * Orbits are run in increasing order, so the bits of a voxel depend neither on batches nor on parts. */
#include "ct/slab.h"

#include "base/err.h"
#include "base/size.h"
#include "base/stats.h"
#include "ct/backproject.h"
#include "ct/slab_kernels.h"
#include "device/device.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    PARTS = VP_SLAB_PARTS,
    IDLE_RUN = 16,  /* orbits that are run at once if the device has nothing else to do, */
    FIRST_RUN = 8,  /* and at the beginning: such a run only writes the volume */
    MOST_PIECE = 64 /* views a piece */
};
static const uint64_t PIECE_BYTES = 32 << 20;  /* large enough for the bus */
static const uint64_t RUN_BYTES = (uint64_t)2 << 30;  /* raw views of a run, at most */
static const uint64_t RING_BYTES = (uint64_t)4 << 30; /* of the ring; orbits that wait are as many */

struct span {
    struct vp_event *from, *to;
};

/* Seconds between pairs of events. */
struct clock {
    struct span *span;
    int n, room;
};

struct layout {
    struct vp_devbp_problem problem;
    struct vp_devbp_plan plan;
    struct vp_devfilter_plan filter;
    int64_t o0, o1;      /* orbits that come */
    int64_t run;         /* orbits from which on a run pays */
    int64_t slots;       /* orbits that are packed and not yet run, at most */
    int64_t v0, v1;      /* rows on the device */
    int64_t piece_views, pieces;
    uint64_t piece_bytes, wide_bytes, bytes;
    uint64_t room;       /* bytes that the device has */
};

struct piece {
    struct vp_event *uploaded, *consumed;
};

struct vp_slab {
    const struct vp_kind *kind;
    struct vp_bp_job job;
    struct vp_backproject *host; /* on the CPU this is all */
    struct layout l;
    double *P;
    struct vp_devbp *b;
    struct vp_devfilter *filter;
    struct vp_queue *up, *work, *down;
    struct vp_devbp_memory memory;
    void *tables, *raw, *wide; /* the filter's; the ring; filtered views where they are wider */
    struct piece *piece;       /* of the ring */
    uint64_t turn;     /* pieces so far */
    int64_t packed;    /* orbits before this one are complete */
    int parts;         /* 1 until flush, unless views stay */
    int64_t next[PARTS]; /* orbit to be run next, of each part */
    struct vp_event *ready[PARTS], *opened, *copied;
    double lead;       /* seconds from the call of open to `opened` */
    struct clock runs, packing, filtering;
    uint64_t bytes_up, bytes_down;
};

/* ---- the plan ---- */

static void keep_a_row(int64_t nv, int64_t *v0, int64_t *v1)
{
    if (*v0 >= *v1) { /* the slab sees nothing: a row that nothing is taken from */
        *v0 = vp_min64(*v0, nv - 1);
        *v1 = *v0 + 1;
    }
}

static int plan_on_host(const struct vp_bp_job *j, struct vp_bp_plan *plan, struct vp_err *err)
{
    plan->host = vp_backproject_bytes(j->n_views, j->nu, j->nv, j->grid, j->z0, j->z1, j->threads);
    vp_backproject_rows(j->views, j->n_views, j->nv, j->grid, j->z0, j->z1, &plan->v0, &plan->v1);
    keep_a_row(j->nv, &plan->v0, &plan->v1);
    plan->z_step = 1;
    return vp_backproject_kernel(j->views, j->n_views, j->nu, j->nv, j->grid, plan->kernel, sizeof plan->kernel, err);
}

/* Matrices of all views; malloc'd. */
static double *matrices(const struct vp_bp_job *job)
{
    double *P = malloc((size_t)job->n_views * 12 * sizeof *P);
    for (int64_t s = 0; P && s < job->n_views; s++)
        vp_backproject_matrix(&job->views[s], job->grid, P + 12 * s);
    return P;
}

/* Sizes of the rings, for runs of about `run` orbits, and for `ahead` orbits before them. */
static void size_rings(const struct vp_bp_job *job, struct layout *l, int64_t run, int64_t ahead)
{
    const int64_t R = l->plan.views_per_orbit, rows = l->v1 - l->v0, orbits = l->o1 - l->o0;
    const uint64_t view = (uint64_t)rows * (uint64_t)job->in_nu * sizeof(float);
    int64_t piece = (int64_t)(PIECE_BYTES / view);
    piece = piece < 1 ? 1 : vp_min64(piece, MOST_PIECE);
    l->run = vp_min64(run, orbits);
    l->piece_views = vp_min64(piece, l->run);
    ahead = vp_min64(ahead > l->run ? ahead : l->run, orbits);
    l->pieces = (ahead * R + l->piece_views - 1) / l->piece_views + 2;
    l->slots = job->stay || (R == 2 && !job->any_order) ? orbits : vp_min64(ahead + 2 * l->run, orbits);
    l->piece_bytes = (uint64_t)l->piece_views * view;
    l->wide_bytes = job->filter && l->filter.nu_out != job->in_nu
                        ? (uint64_t)(l->piece_views * rows * l->filter.nu_out) * sizeof(float)
                        : 0;
    l->bytes = l->plan.bytes_volume + (uint64_t)l->slots * l->plan.bytes_orbit + l->plan.bytes_fixed +
               (uint64_t)l->pieces * l->piece_bytes + l->wide_bytes + (job->filter ? l->filter.bytes : 0);
}

/* The problem as the kernels see it, and what it takes: rings as large as they are useful if there is room for them,
 * smaller ones otherwise. Pairs of views half a turn apart need the whole scan on the device if the views come in
 * increasing order; where it cannot hold them, or a part of the views is wanted, views go alone. */
static int lay_out(const struct vp_kind *kind, const struct vp_bp_job *job, const double *P, struct layout *l,
                   struct vp_err *err)
{
    struct vp_device_info device;
    if (kind->info(job->device, &device, err))
        return -1;
    l->room = device.free > device.driver ? device.free - device.driver : 0;
    if (job->device_memory && job->device_memory < l->room)
        l->room = job->device_memory;

    struct vp_devbp_problem *p = &l->problem;
    *p = (struct vp_devbp_problem){.P = P, .n_views = job->n_views, .nu = job->nu, .nv = job->nv,
                                   .nx = job->grid->n[0], .ny = job->grid->n[1], .nz = job->grid->n[2],
                                   .z0 = job->z0, .z1 = job->z1, .mirrored = job->mirrored, .device = job->device};
    if (!job->pairs && (job->first > 0 || job->last < job->n_views))
        p->limit = VP_DEVBP_NO_ROTATION;
    memset(&l->filter, 0, sizeof l->filter);
    if (job->filter && kind->filter->plan(job->filter, job->device, &l->filter, err))
        return -1;
    for (;;) {
        if (kind->backproject->plan(p, &l->plan, err))
            return -1;
        l->v0 = l->plan.v0, l->v1 = l->plan.v1;
        keep_a_row(job->nv, &l->v0, &l->v1);
        const int64_t R = l->plan.views_per_orbit;
        if (job->pairs && R != 2)
            return vp_fail(err, VP_ERUN, "pairs of views were given for a scan that has none");
        l->o0 = R == 1 || job->pairs ? job->first : 0;
        l->o1 = R == 1 || job->pairs ? job->last : l->plan.orbits;
        const uint64_t orbit = (uint64_t)(R * (l->v1 - l->v0) * job->in_nu) * sizeof(float);
        int64_t run = vp_min64(l->plan.good_batch, (int64_t)(RUN_BYTES / orbit));
        run = vp_min64(run, (l->o1 - l->o0) / 4); /* the last runs leave the device in parts */
        run = run < 8 ? 8 : run;
        size_rings(job, l, run, (int64_t)(RING_BYTES / orbit));
        if (l->bytes > l->room)
            size_rings(job, l, run, run);
        for (; l->bytes > l->room && run > 1; size_rings(job, l, run, run))
            run /= 2;
        if (l->bytes <= l->room || R == 1 || job->any_order)
            break;
        p->limit |= VP_DEVBP_NO_ROTATION;
    }
    p->orbits = l->slots;
    return 0;
}

static int plan_on_device(const struct vp_kind *kind, const struct vp_bp_job *job, struct vp_bp_plan *out,
                          struct vp_err *err)
{
    struct layout l = {.bytes = 0};
    double *P = matrices(job);
    if (!P)
        return vp_fail(err, VP_ERESOURCE, "out of memory");
    const int rc = lay_out(kind, job, P, &l, err);
    free(P);
    if (rc)
        return -1;
    snprintf(out->kernel, sizeof out->kernel, "%s", l.plan.kernel);
    snprintf(out->filter, sizeof out->filter, "%s", l.filter.kernel);
    out->filter_seconds = l.filter.seconds;
    out->host = (uint64_t)job->n_views * 12 * sizeof *P;
    out->device = l.bytes;
    out->room = l.room;
    out->v0 = l.v0;
    out->v1 = l.v1;
    out->partner = l.plan.views_per_orbit == 2 ? l.plan.orbits : 0;
    out->together = l.run;
    out->z_step = l.plan.z_step;
    out->mirror = l.plan.mirror;
    return 0;
}

int vp_slab_plan(const struct vp_kind *kind, const struct vp_bp_job *job, struct vp_bp_plan *plan, struct vp_err *err)
{
    memset(plan, 0, sizeof *plan);
    return kind->on_host ? plan_on_host(job, plan, err) : plan_on_device(kind, job, plan, err);
}

/* ---- clocks ---- */

static int clock_start(struct vp_slab *s, struct clock *c, struct vp_err *err)
{
    if (c->n == c->room) {
        const int room = c->room ? 2 * c->room : 64;
        struct span *grown = realloc(c->span, (size_t)room * sizeof *grown);
        if (!grown)
            return vp_fail(err, VP_ERESOURCE, "out of memory");
        c->span = grown;
        c->room = room;
    }
    struct span *t = &c->span[c->n];
    t->from = t->to = NULL;
    if (s->kind->event(s->job.device, false, &t->from, err))
        return -1;
    if (s->kind->event(s->job.device, false, &t->to, err)) {
        s->kind->unevent(t->from);
        return -1;
    }
    c->n++;
    return s->kind->mark(s->work, t->from, err);
}

static int clock_stop(struct vp_slab *s, struct clock *c, struct vp_err *err)
{
    return s->kind->mark(s->work, c->span[c->n - 1].to, err);
}

static double clock_seconds(const struct vp_slab *s, const struct clock *c)
{
    double sum = 0;
    for (int i = 0; i < c->n; i++)
        sum += s->kind->between(c->span[i].from, c->span[i].to);
    return sum;
}

static void clock_free(struct vp_slab *s, struct clock *c)
{
    for (int i = 0; i < c->n; i++) {
        s->kind->unevent(c->span[i].from);
        s->kind->unevent(c->span[i].to);
    }
    free(c->span);
}

/* ---- life ---- */

static void give_back(const struct vp_slab *s, void *p)
{
    if (p)
        s->kind->release(s->job.device, p);
}

static void close_on_device(struct vp_slab *s)
{
    const struct vp_kind *k = s->kind;
    k->unqueue(s->up); /* waits */
    k->unqueue(s->work);
    k->unqueue(s->down);
    if (s->b)
        k->backproject->close(s->b);
    if (s->filter)
        k->filter->close(s->filter);
    for (int64_t i = 0; s->piece && i < s->l.pieces; i++) {
        k->unevent(s->piece[i].uploaded);
        k->unevent(s->piece[i].consumed);
    }
    for (int i = 0; i < PARTS; i++)
        k->unevent(s->ready[i]);
    k->unevent(s->copied);
    k->unevent(s->opened);
    clock_free(s, &s->runs);
    clock_free(s, &s->packing);
    clock_free(s, &s->filtering);
    give_back(s, s->memory.fixed);
    give_back(s, s->memory.packed);
    give_back(s, s->memory.volume);
    give_back(s, s->tables);
    give_back(s, s->raw);
    give_back(s, s->wide);
    free(s->piece);
    free(s->P);
}

void vp_slab_close(struct vp_slab *s)
{
    if (!s)
        return;
    if (s->kind->on_host)
        vp_backproject_close(s->host);
    else
        close_on_device(s);
    free(s);
}

static int make_queues(struct vp_slab *s, struct vp_err *err)
{
    const struct vp_kind *k = s->kind;
    const int device = s->job.device;
    if (k->queue(device, &s->up, err) || k->queue(device, &s->work, err) || k->queue(device, &s->down, err))
        return -1;
    for (int64_t i = 0; i < s->l.pieces; i++)
        if (k->event(device, true, &s->piece[i].uploaded, err) || k->event(device, true, &s->piece[i].consumed, err))
            return -1;
    for (int i = 0; i < PARTS; i++)
        if (k->event(device, true, &s->ready[i], err))
            return -1;
    return k->event(device, true, &s->copied, err) || k->event(device, false, &s->opened, err)
                   || k->mark(s->work, s->opened, err)
               ? -1
               : 0;
}

/* Allocate what the layout says. */
static int fill(struct vp_slab *s, struct vp_err *err)
{
    const struct vp_bp_job *job = &s->job;
    const struct layout *l = &s->l;
    const struct vp_kind *k = s->kind;
    if (make_queues(s, err) || k->alloc(job->device, l->plan.bytes_volume, &s->memory.volume, err)
        || k->alloc(job->device, (uint64_t)l->slots * l->plan.bytes_orbit, &s->memory.packed, err)
        || k->alloc(job->device, l->plan.bytes_fixed, &s->memory.fixed, err)
        || k->backproject->open(&s->b, &l->problem, &s->memory, s->work, err))
        return -1;
    if (job->filter && (k->alloc(job->device, l->filter.bytes, &s->tables, err)
                        || k->filter->open(&s->filter, job->filter, job->device, s->tables, s->work, err)))
        return -1;
    if (k->alloc(job->device, (uint64_t)l->pieces * l->piece_bytes, &s->raw, err))
        return -1;
    return l->wide_bytes ? k->alloc(job->device, l->wide_bytes, &s->wide, err) : 0;
}

/* An error for want of memory: what was wanted. */
static int too_little(const struct vp_slab *s, struct vp_err *err)
{
    char need[16], have[16];
    *err = (struct vp_err)VP_ERR_INIT;
    return vp_fail(err, VP_ERESOURCE, "device %d: the slab needs %s, the device had %s", s->job.device,
                   vp_format_bytes(need, sizeof need, s->l.bytes), vp_format_bytes(have, sizeof have, s->l.room));
}

static int open_on_device(struct vp_slab *s, struct vp_err *err)
{
    const double start = vp_now();
    if (!(s->P = matrices(&s->job)))
        return vp_fail(err, VP_ERESOURCE, "out of memory");
    if (lay_out(s->kind, &s->job, s->P, &s->l, err))
        return -1;
    if (!(s->piece = calloc((size_t)s->l.pieces, sizeof *s->piece)))
        return vp_fail(err, VP_ERESOURCE, "out of memory");
    s->lead = vp_now() - start;
    /* with less memory than there was for the plan, the rings may be too short for the order that it asked for */
    if (s->l.plan.views_per_orbit == 2 && s->l.slots < s->job.together)
        return too_little(s, err);
    if (fill(s, err))
        return err->code == VP_ERESOURCE ? too_little(s, err) : -1;
    s->packed = s->l.o0;
    /* half as many as at the end, when they are run once: what is left over when a run ends counts more here */
    s->parts = s->job.stay ? (s->kind->backproject->parts(s->b, 2 * PARTS) + 1) / 2 : 1;
    for (int i = 0; i < PARTS; i++)
        s->next[i] = s->packed;
    return 0;
}

static int open_on_host(struct vp_slab *s, struct vp_err *err)
{
    const struct vp_bp_job *j = &s->job;
    assert(!j->filter && !j->mirrored);
    return vp_backproject_open(&s->host, j->views, j->n_views, j->nu, j->nv, j->grid, j->z0, j->z1, j->threads, NULL,
                               err);
}

int vp_slab_open(struct vp_slab **out, const struct vp_kind *kind, const struct vp_bp_job *job, struct vp_err *err)
{
    struct vp_slab *s = calloc(1, sizeof *s);
    *out = NULL;
    if (!s)
        return vp_fail(err, VP_ERESOURCE, "out of memory");
    s->kind = kind;
    s->job = *job;
    if (kind->on_host ? open_on_host(s, err) : open_on_device(s, err)) {
        vp_slab_close(s);
        return -1;
    }
    *out = s;
    return 0;
}

/* ---- the work ---- */

/* Orbits that are complete and were not run into this part. */
static int64_t pending(const struct vp_slab *s, int part)
{
    return s->packed - s->next[part];
}

static int run(struct vp_slab *s, int part, int64_t n, struct vp_err *err)
{
    const int64_t first = s->next[part];
    if (n <= 0)
        return 0;
    if (clock_start(s, &s->runs, err)
        || s->kind->backproject->run(s->b, first, n, part, s->parts, first == s->l.o0, err)
        || clock_stop(s, &s->runs, err))
        return -1;
    s->next[part] += n;
    return 0;
}

/* Runs that the device has not finished, 2 for two or more. */
static int waiting_runs(const struct vp_slab *s)
{
    int n = 0;
    while (n < 2 && n < s->runs.n && !s->kind->passed(s->runs.span[s->runs.n - 1 - n].to))
        n++;
    return n;
}

/* The part of which a run pays: the lowest, or, if the device has nothing else to do, the one that lacks most. -1: no
 * part. */
static int useful_part(const struct vp_slab *s)
{
    const int64_t idle = s->runs.n ? IDLE_RUN : FIRST_RUN;
    int most = 0, first = -1;
    for (int i = s->parts - 1; i >= 0; i--) {
        most = pending(s, i) >= pending(s, most) ? i : most;
        first = pending(s, i) >= s->l.run ? i : first;
    }
    const int busy = pending(s, most) >= vp_min64(s->l.run, idle) ? waiting_runs(s) : 2;
    return busy == 2 ? -1 : first >= 0 ? first : busy == 0 ? most : -1;
}

/* Run what is complete if that is enough. What waits here is what can leave the device in parts at the end, so no more
 * is queued than keeps the device busy. */
static int run_if_useful(struct vp_slab *s, struct vp_err *err)
{
    int part, rc = 0;
    while (!rc && (part = useful_part(s)) >= 0) {
        const int64_t n = pending(s, part);
        rc = run(s, part, s->parts > 1 ? vp_min64(n, 2 * s->l.run) : n, err);
    }
    return rc;
}

/* Into the ring; then `work` may have it. */
static int upload(struct vp_slab *s, const struct piece *p, float *raw, int64_t k, int64_t v0, int64_t v1,
                  const float *proj, struct vp_err *err)
{
    const struct vp_kind *kind = s->kind;
    const int64_t row = s->job.in_nu * (int64_t)sizeof(float), bytes = (s->l.v1 - s->l.v0) * row;
    const struct vp_pitched to = {raw, bytes, bytes * k},
                            from = {(float *)(uintptr_t)proj + (s->l.v0 - v0) * s->job.in_nu, (v1 - v0) * row,
                                    (v1 - v0) * row * k};
    s->bytes_up += (uint64_t)(k * bytes);
    return kind->after(s->up, p->consumed, err)
                   || kind->copy(s->up, &to, &from, (const int64_t[3]){bytes, k, 1}, VP_UP, err)
                   || kind->mark(s->up, p->uploaded, err) || kind->after(s->work, p->uploaded, err)
               ? -1
               : 0;
}

static int filter(struct vp_slab *s, int64_t first, int64_t k, const float *raw, float *to, struct vp_err *err)
{
    return clock_start(s, &s->filtering, err)
                   || s->kind->filter->run(s->filter, first, k, s->l.v0, s->l.v1, raw, to, err)
                   || clock_stop(s, &s->filtering, err)
               ? -1
               : 0;
}

/* One piece: k views from `first`, all in the same half of the scan. */
static int add_piece(struct vp_slab *s, int64_t first, int64_t k, int64_t v0, int64_t v1, const float *proj,
                     struct vp_err *err)
{
    const struct layout *l = &s->l;
    const bool second = l->plan.views_per_orbit == 2 && first >= l->plan.orbits;
    const int64_t orbit = second ? first - l->plan.orbits : first;
    const size_t at = (size_t)(s->turn % (uint64_t)l->pieces);
    const struct piece *p = &s->piece[at];
    float *raw = (float *)s->raw + at * (l->piece_bytes / sizeof(float)), *filtered = s->wide ? s->wide : raw;

    /* the slots of these orbits may hold some that were not run */
    if (orbit + k - s->next[0] > l->slots && s->parts == 1 && run(s, 0, pending(s, 0), err))
        return -1;
    if (orbit + k - s->next[0] > l->slots)
        return vp_fail(err, VP_ERUN, "views came in another order than was planned");
    if (upload(s, p, raw, k, v0, v1, proj, err) || (s->filter && filter(s, first, k, raw, filtered, err))
        || clock_start(s, &s->packing, err)
        || s->kind->backproject->pack(s->b, orbit, k, l->v0, l->v1, second ? NULL : filtered,
                                      second ? filtered : NULL, err)
        || clock_stop(s, &s->packing, err) || s->kind->mark(s->work, p->consumed, err))
        return -1;
    s->turn++;
    if (l->plan.views_per_orbit == 1 || second)
        s->packed = orbit + k;
    return 0;
}

int vp_slab_add(struct vp_slab *s, int64_t first, int64_t n, int64_t v0, int64_t v1, const float *proj,
                uint64_t *ticket, struct vp_err *err)
{
    *ticket = 0;
    if (s->kind->on_host) /* whole views: the caller spreads what it has of one */
        return vp_backproject_add(s->host, first, n, proj, err);
    const int64_t half = s->l.plan.views_per_orbit == 2 ? s->l.plan.orbits : s->job.n_views;
    if (v0 > s->l.v0 || v1 < s->l.v1)
        return vp_fail(err, VP_ERUN, "detector rows %lld to %lld were given, %lld to %lld are needed", (long long)v0,
                       (long long)v1, (long long)s->l.v0, (long long)s->l.v1);
    while (n > 0) {
        int64_t k = vp_min64(n, s->l.piece_views);
        if (first < half && first + k > half)
            k = half - first;
        if (add_piece(s, first, k, v0, v1, proj, err) || run_if_useful(s, err))
            return -1;
        first += k;
        n -= k;
        proj += k * (v1 - v0) * s->job.in_nu;
    }
    *ticket = s->turn;
    return 0;
}

int vp_slab_wait(struct vp_slab *s, uint64_t ticket, struct vp_err *err)
{
    /* uploads are in order, so a later one in the same place will do */
    return ticket ? s->kind->wait(s->piece[(ticket - 1) % (uint64_t)s->l.pieces].uploaded, err) : 0;
}

static int flush_on_device(struct vp_slab *s, struct vp_err *err)
{
    if (s->packed <= s->l.o0)
        return vp_fail(err, VP_ERUN, "no views came");
    if (s->parts == 1 && pending(s, 0) > 0) {
        s->parts = s->kind->backproject->parts(s->b, PARTS);
        for (int i = 1; i < s->parts; i++)
            s->next[i] = s->next[0];
    }
    for (int i = 0; i < s->parts; i++)
        if (run(s, i, pending(s, i), err) || s->kind->mark(s->work, s->ready[i], err))
            return -1;
    return 0;
}

int vp_slab_flush(struct vp_slab *s, struct vp_err *err)
{
    return s->kind->on_host ? vp_backproject_flush(s->host, err) : flush_on_device(s, err);
}

static int copy_slices(struct vp_slab *s, int64_t z, int64_t n, float *out, struct vp_err *err)
{
    const int64_t page = s->job.grid->n[0] * s->job.grid->n[1];
    while (n > 0) {
        int64_t k = 0;
        const float *from = s->kind->backproject->where(s->b, z, &k);
        if (!from)
            return vp_fail(err, VP_ERUN, "slice %lld is not in the slab", (long long)z);
        k = vp_min64(k, n);
        const int64_t bytes = k * page * (int64_t)sizeof(float);
        const struct vp_pitched to = {out, bytes, bytes}, there = {(void *)(uintptr_t)from, bytes, bytes};
        if (s->kind->copy(s->down, &to, &there, (const int64_t[3]){bytes, 1, 1}, VP_DOWN, err))
            return -1;
        s->bytes_down += (uint64_t)bytes;
        out += k * page;
        z += k;
        n -= k;
    }
    return 0;
}

int vp_slab_parts(const struct vp_slab *s)
{
    return s->kind->on_host ? 1 : s->parts;
}

int vp_slab_part_of(const struct vp_slab *s, int64_t z)
{
    return vp_slab_parts(s) > 1 ? s->kind->backproject->part_of(s->b, z, s->parts) : 0;
}

int vp_slab_slices(struct vp_slab *s, int64_t z, int64_t n, float *out, struct vp_err *err)
{
    const struct vp_kind *k = s->kind;
    int part = 0;
    if (k->on_host) {
        vp_backproject_slices(s->host, z, n, out);
        return 0;
    }
    for (int64_t i = z; i < z + n && s->parts > 1; i++) {
        const int of = vp_slab_part_of(s, i);
        part = of > part ? of : part;
    }
    if (k->after(s->down, s->ready[part], err))
        return -1;
    const int rc = copy_slices(s, z, n, out, err);
    /* what was queued before an error goes into `out` as well */
    return k->mark(s->down, s->copied, err) || k->wait(s->copied, err) || rc ? -1 : 0;
}

void vp_slab_stats(struct vp_slab *s, struct vp_bp_stats *stats)
{
    const struct span *runs = s->runs.span;
    struct vp_err ignored = VP_ERR_INIT;
    const int last = s->runs.n - 1;
    *stats = (struct vp_bp_stats){.kernel = 0};
    if (s->kind->on_host || s->kind->wait(s->ready[s->parts - 1], &ignored))
        return;
    *stats = (struct vp_bp_stats){.kernel = clock_seconds(s, &s->runs) + clock_seconds(s, &s->packing),
                                  .filter = clock_seconds(s, &s->filtering),
                                  .first = s->lead + s->kind->between(s->opened, runs[0].from),
                                  .phase = s->lead + s->kind->between(s->opened, runs[last].to),
                                  .uploaded = s->bytes_up, .downloaded = s->bytes_down};
}
