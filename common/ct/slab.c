/* SPDX-License-Identifier: BSD-3-Clause */
/* Slabs of a volume, on the CPU and on devices with memory of their own.
 *
 * There, three queues. `up` copies pieces of views into a ring of raw pieces in device memory. `work` filters a piece,
 * packs it into slots of orbits, and back-projects ("runs") orbits, in increasing order, when enough are together that
 * the traffic of the volume is hidden. `down` copies finished slices to the host. A run keeps every multiprocessor
 * to its end, so what is filtered and packed waits for it; the ring holds the views of a whole run or more, so that
 * the bus does not wait as well.
 *
 * When the last view has come, the orbits that were not run yet are run part by part of the slab: the first slices
 * leave the device while the others are worked on. Where all orbits have a slot and stay there, parts are run by
 * themselves from the beginning: the lower ones follow the upload, the others as far as that leaves the device idle,
 * and most of what they lack is run at the end, while the lower ones leave. */
#include "ct/slab.h"

#include "base/err.h"
#include "base/size.h"
#include "ct/backproject.h"
#include "ct/helix.h"
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

/* On the device; the filter's tables, the ring, and filtered views where they are wider. */
enum memory { VOLUME, PACKED, FIXED, TABLES, RAW, WIDE, MEMORIES };

/* What a slab takes of a device, and where. */
struct layout {
    struct vp_bp_plan out; /* of it `together`: orbits from which on a run pays */
    double *P;             /* matrices of all views */
    struct vp_devbp_problem problem;
    struct vp_devbp_plan plan;
    struct vp_devfilter_plan filter;
    int64_t o0, o1;        /* orbits that come */
    int64_t slots;         /* orbits that are packed and not yet run, at most */
    int64_t piece_views, pieces;
    uint64_t piece_bytes, bytes[MEMORIES];
};

struct span {
    struct vp_event *from, *to;
};

/* Seconds between pairs of events. */
struct clock {
    struct span *span;
    int n, room;
};

struct piece {
    struct vp_event *uploaded, *consumed;
};

/* What takes time on the device. */
enum work { RUN, PACK, FILTER, WORKS };

struct vp_slab {
    const struct vp_backend *backend;
    const struct vp_backproject_kernels *kernels;
    const struct vp_filter_kernels *filters;
    struct vp_bp_job job;
    struct vp_backproject *host; /* on the CPU this is all */
    struct layout l;
    struct vp_devbp *b;
    struct vp_devfilter *filter;
    struct vp_queue *up, *work, *down;
    void *memory[MEMORIES];
    struct piece *piece; /* of the ring */
    bool adding;       /* views come; between back-projections they do not, */
    bool holds;        /* and then, or at the first of them, the volume holds something */
    uint64_t turn;     /* pieces so far */
    int64_t packed;    /* orbits before this one are complete */
    int parts;         /* 1 until flush, unless views stay */
    int64_t next[PARTS]; /* orbit to be run next, of each part */
    struct vp_event *ready[PARTS], *opened, *copied;
    double lead;       /* seconds from the call of open to `opened` */
    struct clock clock[WORKS];
    uint64_t bytes_up, bytes_down;
};

/* ---- what it takes ---- */

static void keep_a_row(int64_t nv, int64_t *v0, int64_t *v1)
{
    if (*v0 >= *v1) { /* the slab sees nothing: a row that nothing is taken from */
        *v0 = vp_min64(*v0, nv - 1);
        *v1 = *v0 + 1;
    }
}

static double *matrices(const struct vp_bp_job *job, struct vp_err *err)
{
    double *P = vp_alloc_raw((size_t)job->n_views, 12 * sizeof *P, "the matrices", err);
    for (int64_t s = 0; P && s < job->n_views; s++)
        vp_backproject_matrix(&job->views[s], job->grid, P + 12 * s);
    return P;
}

static double scale_of(const void *of, int64_t view, int64_t k)
{
    const struct vp_bp_job *job = of;
    return vp_helix_scale(job->helix, job->views[view].turn, job->grid, k);
}

/* The detector of a helix goes on with its edge rows; views count by the section, each by itself. */
static void lay_out_helix(const struct vp_bp_job *job, struct layout *l)
{
    struct vp_devbp_problem *p = &l->problem;
    p->margin = vp_helix_margin(job->helix, job->views, job->n_views, job->nv, job->grid);
    p->nv += 2 * p->margin;
    p->single = true;
    p->scale = scale_of;
    p->scale_of = job;
    p->section = vp_helix_section(job->helix, job->grid);
    for (int64_t s = 0; s < job->n_views; s++)
        for (int i = 0; i < 4; i++)
            l->P[12 * s + 4 + i] += (double)p->margin * l->P[12 * s + 8 + i];
}

/* Sizes of the rings, for runs of about `run` orbits, and for `ahead` orbits before them. */
static void size_rings(const struct vp_bp_job *job, struct layout *l, int64_t run, int64_t ahead)
{
    const int64_t R = l->plan.views_per_orbit, rows = l->out.v1 - l->out.v0, orbits = l->o1 - l->o0;
    const uint64_t view = (uint64_t)rows * (uint64_t)job->in_nu * sizeof(float);
    int64_t piece = (int64_t)(PIECE_BYTES / view);
    piece = piece < 1 ? 1 : vp_min64(piece, MOST_PIECE);
    l->out.together = vp_min64(run, orbits);
    l->piece_views = vp_min64(piece, l->out.together);
    ahead = vp_min64(ahead > l->out.together ? ahead : l->out.together, orbits);
    l->pieces = (ahead * R + l->piece_views - 1) / l->piece_views + 2;
    l->slots = job->stay || (R == 2 && !job->any_order) ? orbits : vp_min64(ahead + 2 * l->out.together, orbits);
    l->piece_bytes = (uint64_t)l->piece_views * view;
    l->bytes[VOLUME] = l->plan.bytes_volume;
    l->bytes[PACKED] = (uint64_t)l->slots * l->plan.bytes_orbit;
    l->bytes[FIXED] = l->plan.bytes_fixed;
    l->bytes[TABLES] = l->filter.bytes;
    l->bytes[RAW] = (uint64_t)l->pieces * l->piece_bytes;
    if (job->filter && l->filter.nu_out != job->in_nu)
        l->bytes[WIDE] = (uint64_t)(l->piece_views * rows * l->filter.nu_out) * sizeof(float);
    l->out.device = 0;
    for (enum memory i = 0; i < MEMORIES; i++)
        l->out.device += l->bytes[i];
}

/* The problem as the kernels see it, and what it takes: rings as large as they are useful if there is room for them,
 * smaller ones otherwise. Pairs of views half a turn apart need the whole scan on the device if the views come in
 * increasing order; where it cannot hold them, or a part of the views is wanted, views go alone. l->P is to be
 * freed. */
static int lay_out(const struct vp_backend *backend, const struct vp_bp_job *job, struct layout *l, struct vp_err *err)
{
    struct vp_device_info device;
    memset(l, 0, sizeof *l);
    const struct vp_backproject_kernels *kernels = backend->kernels("backproject");
    const struct vp_filter_kernels *filters = backend->kernels("filter");
    if (!kernels || (job->filter && !filters))
        return vp_fail_hint(err, VP_ERESOURCE, "use --device cpu", "device %s: its plugin has no kernels for %s",
                            backend->name, kernels ? "filtering projections" : "back-projection");
    if (backend->info(job->device, &device, err))
        return -1;
    l->out.room = device.free > device.driver ? device.free - device.driver : 0;
    if (job->device_memory && job->device_memory < l->out.room)
        l->out.room = job->device_memory;

    if (!(l->P = matrices(job, err)))
        return -1;
    struct vp_devbp_problem *p = &l->problem;
    *p = (struct vp_devbp_problem){.P = l->P, .n_views = job->n_views, .nu = job->nu, .nv = job->nv,
                                   .n = {job->grid->n[0], job->grid->n[1], job->grid->n[2]}, .z0 = job->z0,
                                   .z1 = job->z1, .mirrored = job->mirrored, .device = job->device,
                                   .single = !job->pairs && (job->first > 0 || job->last < job->n_views)};
    if (job->helix)
        lay_out_helix(job, l);
    if (job->filter && filters->plan(job->filter, job->device, &l->filter, err))
        return -1;
    for (;;) {
        if (kernels->plan(p, &l->plan, err))
            return -1;
        l->out.v0 = vp_min64(vp_max64(l->plan.v0 - p->margin, 0), job->nv);
        l->out.v1 = vp_min64(vp_max64(l->plan.v1 - p->margin, 0), job->nv);
        keep_a_row(job->nv, &l->out.v0, &l->out.v1);
        const int64_t R = l->plan.views_per_orbit;
        if (job->pairs && R != 2)
            return vp_fail(err, VP_ERUN, "pairs of views were given for a scan that has none");
        l->o0 = R == 1 || job->pairs ? job->first : 0;
        l->o1 = R == 1 || job->pairs ? job->last : l->plan.orbits;
        const uint64_t orbit = (uint64_t)(R * (l->out.v1 - l->out.v0) * job->in_nu) * sizeof(float);
        int64_t run = vp_min64(l->plan.good_batch, (int64_t)(RUN_BYTES / orbit));
        run = vp_min64(run, (l->o1 - l->o0) / 4); /* the last runs leave the device in parts */
        run = run < 8 ? 8 : run;
        size_rings(job, l, run, (int64_t)(RING_BYTES / orbit));
        if (l->out.device > l->out.room)
            size_rings(job, l, run, run);
        for (; l->out.device > l->out.room && run > 1; size_rings(job, l, run, run))
            run /= 2;
        if (l->out.device <= l->out.room || R == 1 || job->any_order)
            break;
        p->single = true;
    }
    p->orbits = l->slots;
    snprintf(l->out.kernel, sizeof l->out.kernel, "%s", l->plan.kernel);
    snprintf(l->out.filter, sizeof l->out.filter, "%s", l->filter.kernel);
    l->out.filter_seconds = l->filter.seconds;
    l->out.host = (uint64_t)job->n_views * 12 * sizeof *l->P;
    l->out.partner = l->plan.views_per_orbit == 2 ? l->plan.orbits : 0;
    l->out.z_step = l->plan.z_step;
    l->out.mirror = l->plan.mirror;
    return 0;
}

int vp_slab_plan(const struct vp_backend *backend, const struct vp_bp_job *job, struct vp_bp_plan *plan, struct vp_err *err)
{
    struct layout l;
    if (backend->on_host) {
        const int rc = vp_backproject_plan(job, plan, err);
        keep_a_row(job->nv, &plan->v0, &plan->v1);
        return rc;
    }
    const int rc = lay_out(backend, job, &l, err);
    free(l.P);
    *plan = l.out;
    return rc;
}

/* ---- clocks ---- */

static int clock_start(struct vp_slab *s, enum work work, struct vp_err *err)
{
    struct clock *c = &s->clock[work];
    if (c->n == c->room) {
        const int room = c->room ? 2 * c->room : 64;
        struct span *grown = realloc(c->span, (size_t)room * sizeof *grown);
        if (!grown)
            return vp_fail(err, VP_ERESOURCE, "out of memory");
        c->span = grown;
        c->room = room;
    }
    struct span *t = &c->span[c->n++];
    *t = (struct span){.from = NULL};
    if (s->backend->event_create(s->job.device, false, &t->from, err) || s->backend->event_create(s->job.device, false, &t->to, err))
        return -1;
    return s->backend->event_record(s->work, t->from, err);
}

static int clock_stop(struct vp_slab *s, enum work work, struct vp_err *err)
{
    const struct clock *c = &s->clock[work];
    return s->backend->event_record(s->work, c->span[c->n - 1].to, err);
}

static double clock_seconds(const struct vp_slab *s, enum work work)
{
    const struct clock *c = &s->clock[work];
    double sum = 0;
    for (int i = 0; i < c->n; i++)
        sum += s->backend->event_elapsed(c->span[i].from, c->span[i].to);
    return sum;
}

/* ---- life ---- */

static void close_on_device(struct vp_slab *s)
{
    const struct vp_backend *k = s->backend;
    k->queue_destroy(s->up); /* waits */
    k->queue_destroy(s->work);
    k->queue_destroy(s->down);
    if (s->b)
        s->kernels->close(s->b);
    if (s->filter)
        s->filters->close(s->filter);
    for (int64_t i = 0; s->piece && i < s->l.pieces; i++) {
        k->event_destroy(s->piece[i].uploaded);
        k->event_destroy(s->piece[i].consumed);
    }
    for (int i = 0; i < PARTS; i++)
        k->event_destroy(s->ready[i]);
    k->event_destroy(s->copied);
    k->event_destroy(s->opened);
    for (const struct clock *c = s->clock; c < s->clock + WORKS; c++) {
        for (int i = 0; i < c->n; i++) {
            k->event_destroy(c->span[i].from);
            k->event_destroy(c->span[i].to);
        }
        free(c->span);
    }
    for (enum memory i = 0; i < MEMORIES; i++)
        if (s->memory[i])
            k->release(s->job.device, s->memory[i]);
    free(s->piece);
    free(s->l.P);
}

void vp_slab_close(struct vp_slab *s)
{
    if (!s)
        return;
    if (s->backend->on_host)
        vp_backproject_close(s->host);
    else
        close_on_device(s);
    free(s);
}

static int make_queues(struct vp_slab *s, struct vp_err *err)
{
    const struct vp_backend *k = s->backend;
    const int device = s->job.device;
    if (k->queue_create(device, &s->up, err) || k->queue_create(device, &s->work, err) || k->queue_create(device, &s->down, err))
        return -1;
    for (int64_t i = 0; i < s->l.pieces; i++)
        if (k->event_create(device, true, &s->piece[i].uploaded, err) || k->event_create(device, true, &s->piece[i].consumed, err))
            return -1;
    for (int i = 0; i < PARTS; i++)
        if (k->event_create(device, true, &s->ready[i], err))
            return -1;
    if (k->event_create(device, true, &s->copied, err) || k->event_create(device, false, &s->opened, err))
        return -1;
    return k->event_record(s->work, s->opened, err);
}

/* Allocate what the layout says. */
static int fill(struct vp_slab *s, struct vp_err *err)
{
    const struct vp_bp_job *job = &s->job;
    const struct vp_backend *k = s->backend;
    void **const memory = s->memory;
    if (make_queues(s, err))
        return -1;
    for (enum memory i = 0; i < MEMORIES; i++)
        if (s->l.bytes[i] && k->alloc(job->device, s->l.bytes[i], &memory[i], err))
            return -1;
    const struct vp_devbp_memory its = {memory[VOLUME], memory[PACKED], memory[FIXED]};
    if (s->kernels->open(&s->b, &s->l.problem, &its, s->work, err))
        return -1;
    return job->filter ? s->filters->open(&s->filter, job->filter, job->device, memory[TABLES], s->work, err) : 0;
}

/* An error for want of memory: what was wanted. */
static int too_little(const struct vp_slab *s, struct vp_err *err)
{
    *err = (struct vp_err)VP_ERR_INIT;
    return vp_fail(err, VP_ERESOURCE, "device %d: the slab needs %s, the device had %s", s->job.device,
                   vp_bytes_text(s->l.out.device).text, vp_bytes_text(s->l.out.room).text);
}

static int open_on_device(struct vp_slab *s, struct vp_err *err)
{
    const double start = vp_now();
    if (lay_out(s->backend, &s->job, &s->l, err)
        || !(s->piece = vp_alloc((size_t)s->l.pieces, sizeof *s->piece, "the ring", err)))
        return -1;
    s->lead = vp_now() - start;
    /* with less memory than there was for the plan, the rings may be too short for the order that it asked for */
    if (s->l.plan.views_per_orbit == 2 && s->l.slots < s->job.together)
        return too_little(s, err);
    if (fill(s, err))
        return err->code == VP_ERESOURCE ? too_little(s, err) : -1;
    return 0;
}

int vp_slab_open(struct vp_slab **out, const struct vp_backend *backend, const struct vp_bp_job *job, struct vp_err *err)
{
    struct vp_slab *s = vp_alloc(1, sizeof *s, "the slab", err);
    *out = NULL;
    if (!s)
        return -1;
    s->backend = backend;
    if (!backend->on_host) {
        s->kernels = backend->kernels("backproject");
        s->filters = backend->kernels("filter");
    }
    s->job = *job;
    assert(!backend->on_host || (!job->filter && !job->mirrored));
    if (backend->on_host ? vp_backproject_open(&s->host, job, NULL, err) : open_on_device(s, err)) {
        vp_slab_close(s);
        return -1;
    }
    *out = s;
    return 0;
}

/* ---- the work ---- */

/* The first of some views. */
static void begin(struct vp_slab *s)
{
    s->adding = true;
    s->packed = s->l.o0;
    /* half as many as at the end, when they are run once: what is left over when a run ends counts more here */
    s->parts = s->job.stay ? (s->kernels->parts(s->b, 2 * PARTS) + 1) / 2 : 1;
    for (int i = 0; i < PARTS; i++)
        s->next[i] = s->packed;
}

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
    if (clock_start(s, RUN, err)
        || s->kernels->run(s->b, first, n, part, s->parts, first == s->l.o0 && !s->holds, err)
        || clock_stop(s, RUN, err))
        return -1;
    s->next[part] += n;
    return 0;
}

/* Runs that the device has not finished, 2 for two or more. */
static int waiting_runs(const struct vp_slab *s)
{
    const struct clock *runs = &s->clock[RUN];
    int n = 0;
    while (n < 2 && n < runs->n && !s->backend->event_query(runs->span[runs->n - 1 - n].to))
        n++;
    return n;
}

/* The part of which a run pays: the lowest, or, if the device has nothing else to do, the one that lacks most. -1: no
 * part. */
static int useful_part(const struct vp_slab *s)
{
    const int64_t idle = s->clock[RUN].n ? IDLE_RUN : FIRST_RUN;
    int most = 0, first = -1;
    for (int i = s->parts - 1; i >= 0; i--) {
        most = pending(s, i) >= pending(s, most) ? i : most;
        first = pending(s, i) >= s->l.out.together ? i : first;
    }
    const int busy = pending(s, most) >= vp_min64(s->l.out.together, idle) ? waiting_runs(s) : 2;
    return busy == 2 ? -1 : first >= 0 ? first : busy == 0 ? most : -1;
}

/* Run what is complete if that is enough. What waits here is what can leave the device in parts at the end, so no more
 * is queued than keeps the device busy. */
static int run_if_useful(struct vp_slab *s, struct vp_err *err)
{
    int part, rc = 0;
    while (!rc && (part = useful_part(s)) >= 0) {
        const int64_t n = pending(s, part);
        rc = run(s, part, s->parts > 1 ? vp_min64(n, 2 * s->l.out.together) : n, err);
    }
    return rc;
}

/* Into the ring; then `work` may have it. */
static int upload(struct vp_slab *s, const struct piece *p, float *raw, int64_t k, int64_t v0, int64_t v1,
                  const float *proj, struct vp_err *err)
{
    const struct vp_backend *backend = s->backend;
    const int64_t row = s->job.in_nu * (int64_t)sizeof(float), bytes = (s->l.out.v1 - s->l.out.v0) * row;
    const struct vp_pitched to = {raw, bytes, bytes * k},
                            from = {(float *)(uintptr_t)proj + (s->l.out.v0 - v0) * s->job.in_nu, (v1 - v0) * row,
                                    (v1 - v0) * row * k};
    s->bytes_up += (uint64_t)(k * bytes);
    if (backend->queue_wait(s->up, p->consumed, err)
        || backend->copy(s->up, &to, &from, (const int64_t[3]){bytes, k, 1}, VP_UP, err)
        || backend->event_record(s->up, p->uploaded, err))
        return -1;
    return backend->queue_wait(s->work, p->uploaded, err);
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
    float *raw = (float *)s->memory[RAW] + at * (l->piece_bytes / sizeof(float));
    float *filtered = s->memory[WIDE] ? s->memory[WIDE] : raw;

    /* the slots of these orbits may hold some that were not run */
    if (orbit + k - s->next[0] > l->slots && s->parts == 1 && run(s, 0, pending(s, 0), err))
        return -1;
    if (orbit + k - s->next[0] > l->slots)
        return vp_fail(err, VP_ERUN, "views came in another order than was planned");
    if (upload(s, p, raw, k, v0, v1, proj, err)
        || (s->filter
            && (clock_start(s, FILTER, err)
                || s->filters->run(s->filter, first, k, l->out.v0, l->out.v1, raw, filtered, err)
                || clock_stop(s, FILTER, err)))
        || clock_start(s, PACK, err)
        || s->kernels->pack(s->b, orbit, k, l->out.v0 + l->problem.margin, l->out.v1 + l->problem.margin,
                                      second ? NULL : filtered, second ? filtered : NULL, err)
        || clock_stop(s, PACK, err) || s->backend->event_record(s->work, p->consumed, err))
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
    if (s->backend->on_host) {
        s->adding = true;
        return vp_backproject_add(s->host, first, n, v0, v1, proj, err);
    }
    const int64_t half = s->l.plan.views_per_orbit == 2 ? s->l.plan.orbits : s->job.n_views;
    if (v0 > s->l.out.v0 || v1 < s->l.out.v1)
        return vp_fail(err, VP_ERUN, "detector rows %lld to %lld were given, %lld to %lld are needed", (long long)v0,
                       (long long)v1, (long long)s->l.out.v0, (long long)s->l.out.v1);
    if (!s->adding)
        begin(s);
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
    return ticket ? s->backend->event_synchronize(s->piece[(ticket - 1) % (uint64_t)s->l.pieces].uploaded, err) : 0;
}

static int flush_on_device(struct vp_slab *s, struct vp_err *err)
{
    if (!s->adding || s->packed <= s->l.o0)
        return vp_fail(err, VP_ERUN, "no views came");
    if (s->parts == 1 && pending(s, 0) > 0) {
        s->parts = s->kernels->parts(s->b, PARTS);
        for (int i = 1; i < s->parts; i++)
            s->next[i] = s->next[0];
    }
    for (int i = 0; i < s->parts; i++)
        if (run(s, i, pending(s, i), err) || s->backend->event_record(s->work, s->ready[i], err))
            return -1;
    return 0;
}

int vp_slab_flush(struct vp_slab *s, struct vp_err *err)
{
    if (s->backend->on_host)
        vp_backproject_flush(s->host);
    else if (flush_on_device(s, err))
        return -1;
    s->adding = false;
    s->holds = true;
    return 0;
}

/* ---- what is kept ---- */

static int copy_slices(struct vp_slab *s, struct vp_queue *queue, int64_t z, int64_t n, float *slices, enum vp_way way,
                       struct vp_err *err)
{
    const int64_t page = s->job.grid->n[0] * s->job.grid->n[1];
    while (n > 0) {
        int64_t k = 0;
        float *const at = s->kernels->where(s->b, z, &k);
        if (!at)
            return vp_fail(err, VP_ERUN, "slice %lld is not in the slab", (long long)z);
        k = vp_min64(k, n);
        const int64_t bytes = k * page * (int64_t)sizeof(float);
        const struct vp_pitched here = {slices, bytes, bytes}, there = {at, bytes, bytes};
        const bool up = way == VP_UP;
        if (s->backend->copy(queue, up ? &there : &here, up ? &here : &there, (const int64_t[3]){bytes, 1, 1}, way, err))
            return -1;
        *(up ? &s->bytes_up : &s->bytes_down) += (uint64_t)bytes;
        slices += k * page;
        z += k;
        n -= k;
    }
    return 0;
}

int vp_slab_parts(const struct vp_slab *s)
{
    return s->backend->on_host ? 1 : s->parts;
}

int vp_slab_part_of(const struct vp_slab *s, int64_t z)
{
    return vp_slab_parts(s) > 1 ? s->kernels->part_of(s->b, z, s->parts) : 0;
}

bool vp_slab_has(const struct vp_slab *s, int64_t z)
{
    const int64_t mirrored = s->job.mirrored ? s->job.grid->n[2] - 1 - z : -1;
    return (z >= s->job.z0 && z < s->job.z1) || (mirrored >= s->job.z0 && mirrored < s->job.z1);
}

bool vp_slab_wants(const struct vp_slab *s, int64_t view)
{
    const int64_t of = s->job.pairs && view >= s->l.plan.orbits ? view - s->l.plan.orbits : view;
    return of >= s->job.first && of < s->job.last;
}

static int views_come(struct vp_err *err)
{
    return vp_fail(err, VP_ERUN, "the volume was asked for while views come");
}

/* All of it is as `work` has left it. */
static int settle(struct vp_slab *s, struct vp_err *err)
{
    s->holds = true;
    s->parts = 1;
    return s->backend->event_record(s->work, s->ready[0], err);
}

/* What nothing was added to is zero. */
static int clear(struct vp_slab *s, struct vp_err *err)
{
    if (s->holds)
        return 0;
    return s->kernels->blend(s->b, 0, NULL, 0, err) || settle(s, err) ? -1 : 0;
}

int vp_slab_put(struct vp_slab *s, int64_t z, int64_t n, const float *slices, struct vp_err *err)
{
    if (s->adding)
        return views_come(err);
    if (s->backend->on_host) {
        vp_backproject_put(s->host, z, n, slices);
        return 0;
    }
    const int rc = clear(s, err) || copy_slices(s, s->work, z, n, (float *)(uintptr_t)slices, VP_UP, err);
    return settle(s, err) || s->backend->event_synchronize(s->ready[0], err) || rc ? -1 : 0;
}

static bool same_layout(const struct vp_slab *a, const struct vp_slab *b)
{
    const struct vp_bp_job *i = &a->job, *k = &b->job;
    return a->backend == b->backend && i->device == k->device && i->z0 == k->z0 && i->z1 == k->z1
           && i->mirrored == k->mirrored && !memcmp(i->grid->n, k->grid->n, sizeof i->grid->n)
           && a->l.plan.bytes_volume == b->l.plan.bytes_volume && !strcmp(a->l.plan.kernel, b->l.plan.kernel);
}

int vp_slab_blend(struct vp_slab *y, float a, struct vp_slab *x, float keep, struct vp_err *err)
{
    const struct vp_backend *k = y->backend;
    if (x && !same_layout(y, x))
        return vp_fail(err, VP_ERUN, "the slabs lie differently in memory: %s, and %s", y->l.plan.kernel,
                       x->l.plan.kernel);
    if (y->adding || (x && x->adding))
        return views_come(err);
    if (k->on_host)
        return vp_backproject_blend(y->host, a, x ? x->host : NULL, keep, err);
    if (clear(y, err) || (x && (clear(x, err) || k->queue_wait(y->work, x->ready[x->parts - 1], err)))
        || y->kernels->blend(y->b, a, x ? x->memory[VOLUME] : NULL, keep, err) || settle(y, err))
        return -1;
    return x ? k->queue_wait(x->work, y->ready[0], err) : 0;
}

int vp_slab_slices(struct vp_slab *s, int64_t z, int64_t n, float *out, struct vp_err *err)
{
    const struct vp_backend *k = s->backend;
    int part = 0;
    if (s->adding)
        return views_come(err);
    if (k->on_host) {
        vp_backproject_slices(s->host, z, n, out);
        return 0;
    }
    if (clear(s, err))
        return -1;
    for (int64_t i = z; i < z + n && s->parts > 1; i++) {
        const int of = vp_slab_part_of(s, i);
        part = of > part ? of : part;
    }
    if (k->queue_wait(s->down, s->ready[part], err))
        return -1;
    const int rc = copy_slices(s, s->down, z, n, out, VP_DOWN, err);
    /* what was queued before an error goes into `out` as well */
    return k->event_record(s->down, s->copied, err) || k->event_synchronize(s->copied, err) || rc ? -1 : 0;
}

void vp_slab_stats(struct vp_slab *s, struct vp_bp_stats *stats)
{
    const struct clock *runs = &s->clock[RUN];
    struct vp_err ignored = VP_ERR_INIT;
    *stats = (struct vp_bp_stats){.kernel = 0};
    if (s->backend->on_host || s->backend->event_synchronize(s->ready[s->parts - 1], &ignored))
        return;
    *stats = (struct vp_bp_stats){.kernel = clock_seconds(s, RUN) + clock_seconds(s, PACK),
                                  .filter = clock_seconds(s, FILTER),
                                  .first = s->lead + s->backend->event_elapsed(s->opened, runs->span[0].from),
                                  .phase = s->lead + s->backend->event_elapsed(s->opened, runs->span[runs->n - 1].to),
                                  .uploaded = s->bytes_up, .downloaded = s->bytes_down};
}
