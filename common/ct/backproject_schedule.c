/* SPDX-License-Identifier: BSD-3-Clause */
/* The order of the work on a device with memory of its own.
 *
 * Two queues. `up` copies pieces of views into a ring of raw pieces in device memory. `work` filters a piece, packs it
 * into slots of orbits, and runs the back-projection of orbits, in increasing order, when there are enough of them to
 * hide the traffic of the volume. A run keeps every multiprocessor busy to its end, so filtering and packing wait for
 * it; the ring holds the views of a whole run or more, so that the bus does not wait as well. The volume has a third
 * queue for its slices.
 *
 * An orbit is what the kernel works on at once: one view, or two that lie half a turn apart.
 *
 * After the last view the orbits that were not run yet are run part by part of the slab: the first slices leave the
 * device while the others are worked on. If all orbits have a slot and stay there (resident), parts are run one by one
 * from the beginning: the lower ones follow the upload, the others as far as that leaves the device idle, and most of
 * what they lack is run at the end, while the lower ones leave. */
#include "ct/backproject_schedule.h"

#include "base/err.h"
#include "base/size.h"
#include "ct/helix.h"
#include "ct/kernels.h"
#include "device/clock.h"
#include "device/device.h"

#include <stdlib.h>
#include <string.h>

enum {
    PARTS = VP_BP_PARTS,
    IDLE_RUN = 16,  /* orbits that are run at once if the device is idle, */
    FIRST_RUN = 8,  /* and at the beginning: such a run only writes the volume */
    MOST_PIECE = 64 /* views a piece */
};
static const uint64_t PIECE_BYTES = 32 << 20;  /* large enough for the bus */
static const uint64_t RUN_BYTES = (uint64_t)2 << 30;  /* raw views of a run, at most */
static const uint64_t RING_BYTES = (uint64_t)4 << 30; /* ring, at most; the same for orbits that wait */

/* Device memory beside the slab: packed orbits, the kernel's own, tables of the filter, the ring of raw pieces, and
 * filtered views if they are wider. */
enum bp_memory { PACKED, FIXED, TABLES, RAW, WIDE, MEMORIES };

/* The rings of a slab. */
struct layout {
    struct vp_bp_job job;  /* with all that is set for the kernels */
    struct vp_bp_plan plan;
    double *P;             /* job.P */
    int64_t orbits;        /* number of orbits of the scan */
    int64_t o0, o1;        /* orbits that come */
    int64_t piece_views, pieces;
    uint64_t piece_bytes, bytes[MEMORIES];
};

struct piece {
    struct vp_event *uploaded, *consumed;
};

/* The work that is timed. */
enum work { RUN, PACK, FILTER, WORKS };

struct vp_bp_schedule {
    const struct vp_backend *backend;
    const struct vp_backproject_kernels *kernels;
    const struct vp_filter_kernels *filters;
    struct layout l;
    struct vp_devbp *b;
    struct vp_devfilter *filter;
    struct vp_queue *up, *work;
    void *memory[MEMORIES];
    struct piece *piece; /* the ring */
    float *voxels;       /* the slab that views are added to */
    bool set;            /* it holds nothing yet */
    uint64_t turn;       /* pieces so far */
    int64_t packed;      /* orbits before this one are complete */
    int parts;           /* 1 until the end, unless views are resident */
    int64_t next[PARTS]; /* orbit to be run next, of each part */
    struct vp_event *ready[PARTS], *opened;
    double lead;         /* seconds from the call of open to `opened` */
    struct vp_clock clock[WORKS];
    uint64_t uploaded;   /* bytes */
};

/* ---- the layout ---- */

/* Returns the matrices of all views, malloc'd, rows counted with the margin. */
static double *matrices(const struct vp_bp_job *job, struct vp_err *err)
{
    const struct vp_projections *p = job->projections;
    double *P = vp_alloc_raw((size_t)p->n_views, 12 * sizeof *P, "the matrices", err);
    for (int64_t s = 0; P && s < p->n_views; s++) {
        vp_backproject_matrix(&p->views[s], job->grid, P + 12 * s);
        for (int i = 0; i < 4; i++)
            P[12 * s + 4 + i] += (double)job->margin * P[12 * s + 8 + i];
    }
    return P;
}

/* Returns the views of an orbit. */
static int64_t orbit_views(const struct layout *l)
{
    return l->plan.opposite > 0 ? 2 : 1;
}

/* Sizes the rings for runs of about `run` orbits, and for `ahead` orbits before them. */
static void size_rings(struct layout *l, int64_t run, int64_t ahead)
{
    const struct vp_bp_job *job = &l->job;
    const int64_t R = orbit_views(l), rows = l->plan.v1 - l->plan.v0, orbits = l->o1 - l->o0;
    const uint64_t view = (uint64_t)rows * (uint64_t)job->in_nu * sizeof(float);
    int64_t piece = (int64_t)(PIECE_BYTES / view);
    piece = piece < 1 ? 1 : vp_min64(piece, MOST_PIECE);
    l->plan.batch = vp_min64(run, orbits);
    l->piece_views = vp_min64(piece, l->plan.batch);
    ahead = vp_min64(ahead > l->plan.batch ? ahead : l->plan.batch, orbits);
    l->pieces = (ahead * R + l->piece_views - 1) / l->piece_views + 2;
    l->job.slots = job->resident || (R == 2 && !job->any_order) ? orbits : vp_min64(ahead + 2 * l->plan.batch, orbits);
    l->piece_bytes = (uint64_t)l->piece_views * view;
    l->bytes[PACKED] = (uint64_t)l->job.slots * l->plan.slot;
    l->bytes[FIXED] = l->plan.fixed;
    l->bytes[TABLES] = l->plan.filter.bytes;
    l->bytes[RAW] = (uint64_t)l->pieces * l->piece_bytes;
    if (job->filter && l->plan.filter.nu_out != job->in_nu)
        l->bytes[WIDE] = (uint64_t)(l->piece_views * rows * l->plan.filter.nu_out) * sizeof(float);
    l->plan.device = vp_slab_bytes(job->grid, job->z0, job->z1, job->mirrored);
    for (enum bp_memory i = 0; i < MEMORIES; i++)
        l->plan.device += l->bytes[i];
}

/* Finds the tables of kernels that a job needs. */
static int find_kernels(const struct vp_backend *backend, const struct vp_bp_job *job,
                        const struct vp_backproject_kernels **kernels, const struct vp_filter_kernels **filters,
                        struct vp_err *err)
{
    *kernels = backend->kernels("backproject");
    *filters = backend->kernels("filter");
    if (*kernels && (*filters || !job->filter))
        return 0;
    return vp_fail_hint(err, VP_ERESOURCE, "use --device cpu", "device %s: its plugin has no kernels for %s",
                        backend->name, *kernels ? "filtering projections" : "back-projection");
}

/* Chooses the kernel and lays out the rings: as large as they are useful if there is room for them, smaller ones
 * otherwise. Pairs of opposite views need the whole scan on the device if the views come in increasing order; if it
 * cannot hold them, or only a part of the views is wanted, views go alone. l->P is to be freed. */
static int lay_out(const struct vp_backend *backend, const struct vp_bp_job *given, struct layout *l,
                   struct vp_err *err)
{
    const struct vp_backproject_kernels *kernels;
    const struct vp_filter_kernels *filters;
    const struct vp_projections *p = given->projections;
    struct vp_bp_job *const job = &l->job;
    struct vp_bp_plan *const plan = &l->plan;
    struct vp_devfilter_plan filter = {.kernel = ""};
    struct vp_device_info device;

    *l = (struct layout){.job = *given};
    if (find_kernels(backend, job, &kernels, &filters, err) || backend->info(job->device, &device, err))
        return -1;
    uint64_t room = device.free > device.driver ? device.free - device.driver : 0;
    if (job->device_memory && job->device_memory < room)
        room = job->device_memory;

    job->margin = p->helix ? vp_helix_margin(p->helix, p->views, p->n_views, p->nv, job->grid) : 0;
    job->single = p->helix || (!job->pairs && (job->first > 0 || job->last < p->n_views));
    job->slots = 0;
    if (!(job->P = l->P = matrices(job, err)) || (job->filter && filters->plan(job->filter, job->device, &filter, err)))
        return -1;
    for (;;) {
        memset(plan, 0, sizeof *plan);
        if (kernels->plan(job, plan, err))
            return -1;
        plan->room = room;
        plan->filter = filter;
        plan->host = (uint64_t)p->n_views * 12 * sizeof *l->P;
        plan->v0 = vp_min64(vp_max64(plan->v0 - job->margin, 0), p->nv);
        plan->v1 = vp_min64(vp_max64(plan->v1 - job->margin, 0), p->nv);
        vp_bp_keep_row(plan, p->nv);
        const int64_t R = orbit_views(l);
        if (job->pairs && R != 2)
            return vp_fail(err, VP_ERUN, "pairs of views were given for a scan that has none");
        l->orbits = p->n_views / R;
        l->o0 = R == 1 || job->pairs ? job->first : 0;
        l->o1 = R == 1 || job->pairs ? job->last : l->orbits;
        const uint64_t orbit = (uint64_t)(R * (plan->v1 - plan->v0) * job->in_nu) * sizeof(float);
        int64_t run = vp_min64(plan->batch, (int64_t)(RUN_BYTES / orbit));
        run = vp_min64(run, (l->o1 - l->o0) / 4); /* the last runs leave the device in parts */
        run = run < 8 ? 8 : run;
        size_rings(l, run, (int64_t)(RING_BYTES / orbit));
        if (plan->device > room)
            size_rings(l, run, run);
        for (; plan->device > room && run > 1; size_rings(l, run, run))
            run /= 2;
        if (plan->device <= room || R == 1 || job->any_order)
            return 0;
        job->single = true;
    }
}

int vp_bp_schedule_plan(const struct vp_backend *backend, const struct vp_bp_job *job, struct vp_bp_plan *plan,
                        struct vp_err *err)
{
    struct layout l;
    const int rc = lay_out(backend, job, &l, err);
    free(l.P);
    *plan = l.plan;
    return rc;
}

/* ---- life ---- */

void vp_bp_schedule_close(struct vp_bp_schedule *s)
{
    if (!s)
        return;
    const struct vp_backend *k = s->backend;
    k->queue_destroy(s->up); /* waits */
    k->queue_destroy(s->work);
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
    k->event_destroy(s->opened);
    for (enum work i = 0; i < WORKS; i++)
        vp_clock_close(&s->clock[i]);
    for (enum bp_memory i = 0; i < MEMORIES; i++)
        if (s->memory[i])
            k->release(s->l.job.device, s->memory[i]);
    free(s->piece);
    free(s->l.P);
    free(s);
}

static int create_queues(struct vp_bp_schedule *s, struct vp_err *err)
{
    const struct vp_backend *k = s->backend;
    const int device = s->l.job.device;
    if (k->queue_create(device, &s->up, err) || k->queue_create(device, &s->work, err))
        return -1;
    for (int64_t i = 0; i < s->l.pieces; i++)
        if (k->event_create(device, true, &s->piece[i].uploaded, err)
            || k->event_create(device, true, &s->piece[i].consumed, err))
            return -1;
    for (int i = 0; i < PARTS; i++)
        if (k->event_create(device, true, &s->ready[i], err))
            return -1;
    return k->event_create(device, false, &s->opened, err) || k->event_record(s->work, s->opened, err) ? -1 : 0;
}

/* Allocates what the layout says. */
static int allocate(struct vp_bp_schedule *s, struct vp_err *err)
{
    const struct vp_bp_job *job = &s->l.job;
    void **const memory = s->memory;
    if (create_queues(s, err))
        return -1;
    for (enum bp_memory i = 0; i < MEMORIES; i++)
        if (s->l.bytes[i] && s->backend->alloc(job->device, s->l.bytes[i], &memory[i], err))
            return -1;
    if (s->kernels->open(&s->b, job, memory[PACKED], memory[FIXED], s->work, err))
        return -1;
    return job->filter ? s->filters->open(&s->filter, job->filter, job->device, memory[TABLES], s->work, err) : 0;
}

int vp_bp_schedule_open(struct vp_bp_schedule **out, const struct vp_backend *backend, const struct vp_bp_job *job,
                        struct vp_err *err)
{
    const double start = vp_now();
    struct vp_bp_schedule *s = *out = vp_alloc(1, sizeof *s, "the schedule", err);
    if (!s)
        return -1;
    s->backend = backend;
    for (enum work i = 0; i < WORKS; i++)
        s->clock[i] = (struct vp_clock){.backend = backend, .device = job->device};
    int rc = lay_out(backend, job, &s->l, err) || find_kernels(backend, job, &s->kernels, &s->filters, err)
             || !(s->piece = vp_alloc((size_t)s->l.pieces, sizeof *s->piece, "the ring", err)) ? -1 : 0;
    s->lead = vp_now() - start;
    /* with less memory than there was for the plan, the rings may be too short for the planned order */
    if (!rc && s->l.plan.opposite && s->l.job.slots < job->batch)
        rc = vp_bp_shortage(job, &s->l.plan, err);
    else if (!rc && allocate(s, err))
        rc = err->code == VP_ERESOURCE ? vp_bp_shortage(job, &s->l.plan, err) : -1;
    if (rc) {
        vp_bp_schedule_close(s);
        *out = NULL;
    }
    return rc;
}

/* ---- the work ---- */

void vp_bp_schedule_begin(struct vp_bp_schedule *s, float *voxels, bool set)
{
    s->voxels = voxels;
    s->set = set;
    s->packed = s->l.o0;
    /* half the number at the end, when they are run once: idle multiprocessors at the end of a run count more here */
    s->parts = s->l.job.resident ? (s->kernels->parts(s->b, 2 * PARTS) + 1) / 2 : 1;
    for (int i = 0; i < PARTS; i++)
        s->next[i] = s->packed;
}

/* Returns the orbits that are complete and were not run into this part. */
static int64_t pending(const struct vp_bp_schedule *s, int part)
{
    return s->packed - s->next[part];
}

static int run(struct vp_bp_schedule *s, int part, int64_t n, struct vp_err *err)
{
    const int64_t first = s->next[part];
    if (n <= 0)
        return 0;
    if (vp_clock_start(&s->clock[RUN], s->work, err)
        || s->kernels->run(s->b, s->voxels, first, n, part, s->parts, first == s->l.o0 && s->set, err)
        || vp_clock_stop(&s->clock[RUN], s->work, err))
        return -1;
    s->next[part] += n;
    return 0;
}

/* Returns the part of which a run pays: the lowest, or, if the device is idle, the one that lacks most. -1: no part. */
static int useful_part(const struct vp_bp_schedule *s)
{
    const int64_t idle = s->clock[RUN].n ? IDLE_RUN : FIRST_RUN;
    int most = 0, first = -1;
    for (int i = s->parts - 1; i >= 0; i--) {
        most = pending(s, i) >= pending(s, most) ? i : most;
        first = pending(s, i) >= s->l.plan.batch ? i : first;
    }
    const int busy = pending(s, most) >= vp_min64(s->l.plan.batch, idle) ? vp_clock_pending(&s->clock[RUN], 2) : 2;
    return busy == 2 ? -1 : first >= 0 ? first : busy == 0 ? most : -1;
}

/* Runs complete orbits if there are enough. Those that wait here can leave the device in parts at the end, so no more
 * is queued than keeps the device busy. */
static int run_if_useful(struct vp_bp_schedule *s, struct vp_err *err)
{
    int part, rc = 0;
    while (!rc && (part = useful_part(s)) >= 0) {
        const int64_t n = pending(s, part);
        rc = run(s, part, s->parts > 1 ? vp_min64(n, 2 * s->l.plan.batch) : n, err);
    }
    return rc;
}

/* Copies a piece into the ring; `work` waits for it. */
static int upload(struct vp_bp_schedule *s, const struct piece *p, float *raw, int64_t k, const struct vp_batch *views,
                  const float *samples, struct vp_err *err)
{
    const struct vp_backend *backend = s->backend;
    const struct vp_bp_plan *plan = &s->l.plan;
    const int64_t nu = s->l.job.in_nu, row = nu * (int64_t)sizeof(float), bytes = (plan->v1 - plan->v0) * row;
    const int64_t given = (views->v1 - views->v0) * row;
    const struct vp_pitched to = {raw, bytes, bytes * k},
                            from = {(float *)(uintptr_t)samples + (plan->v0 - views->v0) * nu, given, given * k};
    s->uploaded += (uint64_t)(k * bytes);
    if (backend->queue_wait(s->up, p->consumed, err)
        || backend->copy(s->up, &to, &from, (const int64_t[3]){bytes, k, 1}, VP_UP, err)
        || backend->event_record(s->up, p->uploaded, err))
        return -1;
    return backend->queue_wait(s->work, p->uploaded, err);
}

/* Adds one piece: k views from `first`, all in the same half of the scan. */
static int add_piece(struct vp_bp_schedule *s, int64_t first, int64_t k, const struct vp_batch *views,
                     const float *samples, struct vp_err *err)
{
    const struct layout *l = &s->l;
    const struct vp_bp_plan *plan = &l->plan;
    const bool second = plan->opposite && first >= plan->opposite;
    const int64_t orbit = second ? first - plan->opposite : first, margin = l->job.margin;
    const size_t at = (size_t)(s->turn % (uint64_t)l->pieces);
    const struct piece *p = &s->piece[at];
    float *raw = (float *)s->memory[RAW] + at * (l->piece_bytes / sizeof(float));
    float *filtered = s->memory[WIDE] ? s->memory[WIDE] : raw;
    struct vp_clock *const clock = s->clock;

    /* the slots of these orbits may hold some that were not run */
    if (orbit + k - s->next[0] > l->job.slots && s->parts == 1 && run(s, 0, pending(s, 0), err))
        return -1;
    if (orbit + k - s->next[0] > l->job.slots)
        return vp_fail(err, VP_ERUN, "views came in another order than was planned");
    if (upload(s, p, raw, k, views, samples, err)
        || (s->filter
            && (vp_clock_start(&clock[FILTER], s->work, err)
                || s->filters->run(s->filter, first, k, plan->v0, plan->v1, raw, filtered, err)
                || vp_clock_stop(&clock[FILTER], s->work, err)))
        || vp_clock_start(&clock[PACK], s->work, err)
        || s->kernels->pack(s->b, orbit, k, plan->v0 + margin, plan->v1 + margin, second ? NULL : filtered,
                            second ? filtered : NULL, err)
        || vp_clock_stop(&clock[PACK], s->work, err) || s->backend->event_record(s->work, p->consumed, err))
        return -1;
    s->turn++;
    if (!plan->opposite || second)
        s->packed = orbit + k;
    return 0;
}

int vp_bp_schedule_add(struct vp_bp_schedule *s, const struct vp_batch *views, uint64_t *ticket, struct vp_err *err)
{
    const struct vp_bp_plan *plan = &s->l.plan;
    const int64_t half = plan->opposite ? plan->opposite : s->l.orbits, end = views->first + views->n;
    const float *samples = views->samples;
    if (views->v0 > plan->v0 || views->v1 < plan->v1)
        return vp_fail(err, VP_ERUN, "detector rows %lld to %lld were given, %lld to %lld are needed",
                       (long long)views->v0, (long long)views->v1, (long long)plan->v0, (long long)plan->v1);
    for (int64_t first = views->first, k; first < end; first += k) {
        k = vp_min64(end - first, s->l.piece_views);
        if (first < half && first + k > half)
            k = half - first;
        if (add_piece(s, first, k, views, samples, err) || run_if_useful(s, err))
            return -1;
        samples += k * (views->v1 - views->v0) * s->l.job.in_nu;
    }
    *ticket = s->turn;
    return 0;
}

int vp_bp_schedule_wait(struct vp_bp_schedule *s, uint64_t ticket, struct vp_err *err)
{
    /* uploads are in order, so a later one in the same place will do */
    return s->backend->event_synchronize(s->piece[(ticket - 1) % (uint64_t)s->l.pieces].uploaded, err);
}

int vp_bp_schedule_end(struct vp_bp_schedule *s, struct vp_err *err)
{
    if (s->packed <= s->l.o0)
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

/* ---- the slices ---- */

int vp_bp_schedule_parts(const struct vp_bp_schedule *s)
{
    return s->parts;
}

int vp_bp_schedule_part_of(const struct vp_bp_schedule *s, int64_t z)
{
    return s->parts > 1 ? s->kernels->part_of(s->b, z, s->parts) : 0;
}

struct vp_event *vp_bp_schedule_ready(const struct vp_bp_schedule *s, int part)
{
    return s->ready[part];
}

void vp_bp_schedule_stats(struct vp_bp_schedule *s, struct vp_bp_stats *stats)
{
    const struct vp_clock *runs = &s->clock[RUN];
    const struct vp_backend *k = s->backend;
    struct vp_err ignored = VP_ERR_INIT;
    if (k->event_synchronize(s->ready[s->parts - 1], &ignored))
        return;
    *stats = (struct vp_bp_stats){.kernel = vp_clock_seconds(runs) + vp_clock_seconds(&s->clock[PACK]),
                                  .filter = vp_clock_seconds(&s->clock[FILTER]),
                                  .first = s->lead + k->event_elapsed(s->opened, runs->span[0].from),
                                  .phase = s->lead + k->event_elapsed(s->opened, runs->span[runs->n - 1].to),
                                  .uploaded = s->uploaded};
}
