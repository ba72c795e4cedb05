/* SPDX-License-Identifier: BSD-3-Clause */
/* A slab of a reconstruction on one device: the table of ops/slab.h over backproject_cuda.h and filter_cuda.h.
 *
 * Three streams. `up` copies pieces of views into a ring of raw pieces in device memory. `work` filters a piece, packs
 * it into slots of orbits, and back-projects ("runs") orbits when enough are together that the traffic of the volume is
 * hidden. `down` copies finished slices to the host. A run keeps every multiprocessor to its end, so what is filtered
 * and packed waits for it; the ring holds the views of a whole run or more, so that the bus does not wait as well, and
 * the input comes as fast as it can.
 *
 * When the last view has come, the orbits that were not run yet are run part by part of the slab: the first slices
 * leave the device while the others are worked on.
 *
 * Orbits are run in increasing order, so the bits of a voxel depend neither on batches nor on parts. */
#include "reconstruct_cuda.h"

#include "backproject_cuda.h"
#include "base/size.h"
#include "gpu_error.h"
#include "filter_cuda.h"
#include "queue.h"

#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    PARTS = 16,     /* of the slab, at the end, at most */
    IDLE_RUN = 16,  /* orbits that are run at once if the device has nothing else to do, */
    FIRST_RUN = 8,  /* and at the beginning: such a run only writes the volume */
    MOST_PIECE = 64 /* views a piece */
};
static const uint64_t PIECE_BYTES = 32 << 20;  /* large enough for the bus */
static const uint64_t RUN_BYTES = (uint64_t)2 << 30;  /* raw views of a run, at most */
static const uint64_t RING_BYTES = (uint64_t)4 << 30; /* of the ring; orbits that wait are as many */
static const uint64_t RESERVE = 128 << 20;     /* the driver's: code, local memory */

struct span {
    cudaEvent_t from, to;
};

/* Seconds between pairs of events. */
struct clock {
    struct span *span;
    int n, room;
};

struct layout {
    struct vp_bpcuda_problem problem;
    struct vp_bpcuda_plan plan;
    struct vp_filtercuda_plan filter;
    int64_t o0, o1;      /* orbits that come */
    int64_t run;         /* orbits from which on a run pays */
    int64_t slots;       /* orbits that are packed and not yet run, at most */
    int64_t v0, v1;      /* rows on the device */
    int64_t piece_views, pieces;
    uint64_t piece_bytes, wide_bytes, bytes;
    uint64_t room;       /* bytes that the device has */
};

struct cuda_bp {
    struct vp_bp_job job;
    struct layout l;
    double *P;
    struct vp_bpcuda *b;
    struct vp_filtercuda *filter;
    cudaStream_t up, work, down;
    float *raw, *wide; /* the ring; filtered views where they are wider */
    cudaEvent_t *uploaded, *consumed; /* of each piece of the ring */
    uint64_t turn;     /* pieces so far */
    int64_t next;      /* orbit to be run next */
    int64_t packed;    /* orbits before this one are complete */
    int parts;         /* after flush */
    cudaEvent_t ready[PARTS];
    cudaEvent_t opened, copied;
    double lead;       /* seconds from the call of open to `opened` */
    struct clock runs, packing, filtering;
    uint64_t bytes_up, bytes_down;
};

static int device_lost(struct vp_err *err, cudaError_t e)
{
    return vp_gpu_fail(err, e, "the device failed");
}

/* ---- the plan ---- */

/* Matrices on voxel indices with weight 1 / w^2; malloc'd. */
static double *matrices(const struct vp_bp_job *job)
{
    double *P = malloc((size_t)job->n_views * 12 * sizeof *P);
    for (int64_t s = 0; P && s < job->n_views; s++) {
        vp_view_on_grid(&job->views[s], job->grid, P + 12 * s);
        const double scale = job->views[s].sod > 0 ? 1 / job->views[s].sod : 1;
        for (int i = 0; i < 12; i++)
            P[12 * s + i] *= scale;
    }
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
    l->slots = R == 2 && !job->any_order ? orbits : vp_min64(ahead + 2 * l->run, orbits);
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
static int lay_out(const struct vp_bp_job *job, const double *P, struct layout *l, struct vp_err *err)
{
    size_t available = 0, total = 0;
    cudaError_t e = cudaSetDevice(job->device);
    if (e == cudaSuccess)
        e = cudaMemGetInfo(&available, &total);
    if (e != cudaSuccess)
        return vp_gpu_fail(err, e, "cannot use the CUDA device");
    uint64_t room = available > RESERVE ? available - RESERVE : 0;
    if (job->device_memory && job->device_memory < room)
        room = job->device_memory;
    l->room = room;

    struct vp_bpcuda_problem *p = &l->problem;
    *p = (struct vp_bpcuda_problem){.P = P, .n_views = job->n_views, .nu = job->nu, .nv = job->nv,
                                    .nx = job->grid->n[0], .ny = job->grid->n[1], .nz = job->grid->n[2],
                                    .z0 = job->z0, .z1 = job->z1, .mirrored = job->mirrored, .device = job->device};
    if (!job->pairs && (job->first > 0 || job->last < job->n_views))
        p->limit = VP_BPCUDA_NO_ROTATION;
    memset(&l->filter, 0, sizeof l->filter);
    if (job->filter && vp_filtercuda_plan(job->filter, job->device, &l->filter, err))
        return -1;
    for (;;) {
        if (vp_bpcuda_plan(p, &l->plan, err))
            return -1;
        l->v0 = l->plan.v0, l->v1 = l->plan.v1;
        if (l->v0 >= l->v1) { /* the slab sees nothing: a row that nothing is taken from */
            l->v0 = vp_min64(l->v0, job->nv - 1);
            l->v1 = l->v0 + 1;
        }
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
        if (l->bytes > room)
            size_rings(job, l, run, run);
        for (; l->bytes > room && run > 1; size_rings(job, l, run, run))
            run /= 2;
        if (l->bytes <= room || R == 1 || job->any_order)
            break;
        p->limit |= VP_BPCUDA_NO_ROTATION;
    }
    p->orbits = l->slots;
    return 0;
}

static int slab_plan(const struct vp_bp_job *job, struct vp_bp_plan *out, struct vp_err *err)
{
    struct layout l = {.bytes = 0};
    double *P = matrices(job);
    if (!P)
        return vp_fail(err, VP_ERESOURCE, "out of memory");
    const int rc = lay_out(job, P, &l, err);
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

/* ---- clocks ---- */

static cudaError_t clock_start(struct clock *c, cudaStream_t stream)
{
    if (c->n == c->room) {
        const int room = c->room ? 2 * c->room : 64;
        struct span *grown = realloc(c->span, (size_t)room * sizeof *grown);
        if (!grown)
            return cudaErrorUnknown;
        c->span = grown;
        c->room = room;
    }
    struct span *s = &c->span[c->n];
    s->from = s->to = NULL;
    cudaError_t e = cudaEventCreate(&s->from);
    if (e == cudaSuccess && (e = cudaEventCreate(&s->to)) != cudaSuccess)
        cudaEventDestroy(s->from);
    if (e != cudaSuccess)
        return e;
    c->n++;
    return cudaEventRecord(s->from, stream);
}

static cudaError_t clock_stop(struct clock *c, cudaStream_t stream)
{
    return cudaEventRecord(c->span[c->n - 1].to, stream);
}

/* Between two events, 0 if they did not happen. */
static double between(cudaEvent_t from, cudaEvent_t to)
{
    float ms = 0;
    return cudaEventElapsedTime(&ms, from, to) == cudaSuccess ? 1e-3 * (double)ms : 0;
}

static double clock_seconds(const struct clock *c)
{
    double sum = 0;
    for (int i = 0; i < c->n; i++)
        sum += between(c->span[i].from, c->span[i].to);
    return sum;
}

static void clock_free(struct clock *c)
{
    for (int i = 0; i < c->n; i++) {
        cudaEventDestroy(c->span[i].from);
        cudaEventDestroy(c->span[i].to);
    }
    free(c->span);
}

/* ---- life ---- */

static void slab_close(void *bp)
{
    struct cuda_bp *c = bp;
    if (!c)
        return;
    cudaSetDevice(c->job.device);
    if (c->up)
        cudaStreamSynchronize(c->up);
    vp_bpcuda_close(c->b); /* waits for `work` */
    vp_filtercuda_close(c->filter);
    for (int64_t i = 0; i < c->l.pieces; i++) {
        if (c->uploaded && c->uploaded[i])
            cudaEventDestroy(c->uploaded[i]);
        if (c->consumed && c->consumed[i])
            cudaEventDestroy(c->consumed[i]);
    }
    for (int i = 0; i < PARTS; i++)
        if (c->ready[i])
            cudaEventDestroy(c->ready[i]);
    if (c->copied)
        cudaEventDestroy(c->copied);
    if (c->opened)
        cudaEventDestroy(c->opened);
    clock_free(&c->runs);
    clock_free(&c->packing);
    clock_free(&c->filtering);
    cudaFree(c->raw);
    cudaFree(c->wide);
    if (c->up)
        cudaStreamDestroy(c->up);
    if (c->work)
        cudaStreamDestroy(c->work);
    if (c->down)
        cudaStreamDestroy(c->down);
    free(c->uploaded);
    free(c->consumed);
    free(c->P);
    free(c);
}

static cudaError_t make_streams(struct cuda_bp *c)
{
    const unsigned quiet = cudaEventDisableTiming | cudaEventBlockingSync;
    cudaError_t e = cudaStreamCreateWithFlags(&c->up, cudaStreamNonBlocking);
    if (e == cudaSuccess)
        e = cudaStreamCreateWithFlags(&c->work, cudaStreamNonBlocking);
    if (e == cudaSuccess)
        e = cudaStreamCreateWithFlags(&c->down, cudaStreamNonBlocking);
    for (int64_t i = 0; i < c->l.pieces && e == cudaSuccess; i++) {
        e = cudaEventCreateWithFlags(&c->uploaded[i], quiet);
        if (e == cudaSuccess)
            e = cudaEventCreateWithFlags(&c->consumed[i], quiet);
    }
    for (int i = 0; i < PARTS && e == cudaSuccess; i++)
        e = cudaEventCreateWithFlags(&c->ready[i], quiet);
    if (e == cudaSuccess)
        e = cudaEventCreateWithFlags(&c->copied, quiet);
    if (e == cudaSuccess)
        e = cudaEventCreate(&c->opened);
    return e == cudaSuccess ? cudaEventRecord(c->opened, c->work) : e;
}

/* Allocate what the layout says. */
static int fill(struct cuda_bp *c, struct vp_err *err)
{
    const struct vp_bp_job *job = &c->job;
    cudaError_t e = make_streams(c);
    if (e != cudaSuccess)
        return vp_gpu_fail(err, e, "cannot prepare the back-projection on the device");
    if (vp_bpcuda_open(&c->b, &c->l.problem, c->work, err) ||
        (job->filter && vp_filtercuda_open(&c->filter, job->filter, job->device, c->work, err)))
        return -1;
    e = cudaMalloc((void **)&c->raw, (uint64_t)c->l.pieces * c->l.piece_bytes);
    if (e == cudaSuccess && c->l.wide_bytes)
        e = cudaMalloc((void **)&c->wide, c->l.wide_bytes);
    return vp_gpu_check(err, e, "no device memory for the projections");
}

/* An error for want of memory: what was wanted. */
static int too_little(const struct cuda_bp *c, struct vp_err *err)
{
    char need[16], have[16];
    *err = (struct vp_err)VP_ERR_INIT;
    return vp_fail(err, VP_ERESOURCE, "device %d: the slab needs %s, the device had %s", c->job.device,
                   vp_format_bytes(need, sizeof need, c->l.bytes), vp_format_bytes(have, sizeof have, c->l.room));
}

static int slab_open(void **out, const struct vp_bp_job *job, struct vp_err *err)
{
    const double start = vp_now();
    struct cuda_bp *c = calloc(1, sizeof *c);
    *out = NULL;
    if (!c || !(c->P = matrices(job))) {
        free(c);
        return vp_fail(err, VP_ERESOURCE, "out of memory");
    }
    c->job = *job;
    if (lay_out(job, c->P, &c->l, err))
        goto failed;
    c->uploaded = calloc((size_t)c->l.pieces, sizeof(cudaEvent_t));
    c->consumed = calloc((size_t)c->l.pieces, sizeof(cudaEvent_t));
    if (!c->uploaded || !c->consumed) {
        vp_fail(err, VP_ERESOURCE, "out of memory");
        goto failed;
    }
    c->lead = vp_now() - start;
    /* with less memory than there was for the plan, the rings may be too short for the order that it asked for */
    if (c->l.plan.views_per_orbit == 2 && c->l.slots < job->together) {
        too_little(c, err);
        goto failed;
    }
    if (fill(c, err)) {
        if (err->code == VP_ERESOURCE)
            too_little(c, err);
        goto failed;
    }
    c->next = c->packed = c->l.o0;
    *out = c;
    return 0;
failed:
    slab_close(c);
    return -1;
}

/* ---- the work ---- */

static int run(struct cuda_bp *c, struct vp_err *err)
{
    const int64_t n = c->packed - c->next;
    if (n <= 0)
        return 0;
    cudaError_t e = clock_start(&c->runs, c->work);
    if (e == cudaSuccess) {
        if (vp_bpcuda_run(c->b, c->next, n, err))
            return -1;
        e = clock_stop(&c->runs, c->work);
    }
    c->next += n;
    return e == cudaSuccess ? 0 : device_lost(err, e);
}

/* Runs that the device has not finished, 2 for two or more. */
static int waiting_runs(const struct cuda_bp *c)
{
    int n = 0;
    while (n < 2 && n < c->runs.n && cudaEventQuery(c->runs.span[c->runs.n - 1 - n].to) == cudaErrorNotReady)
        n++;
    cudaGetLastError(); /* "not ready" is no error, but stays as the last one */
    return n;
}

/* Run what is complete if that is enough. What waits here is what can leave the device in parts at the end, so no more
 * is queued than keeps the device busy. */
static int run_if_useful(struct cuda_bp *c, struct vp_err *err)
{
    const int64_t n = c->packed - c->next, idle = c->runs.n ? IDLE_RUN : FIRST_RUN;
    const int busy = n >= vp_min64(c->l.run, idle) ? waiting_runs(c) : 2;
    return busy == 0 || (busy == 1 && n >= c->l.run) ? run(c, err) : 0;
}

/* One piece: k views from `first`, all in the same half of the scan. */
static int add_piece(struct cuda_bp *c, int64_t first, int64_t k, int64_t v0, int64_t v1, const float *proj,
                     struct vp_err *err)
{
    const struct vp_bp_job *job = &c->job;
    const struct layout *l = &c->l;
    const bool second = l->plan.views_per_orbit == 2 && first >= l->plan.orbits;
    const int64_t orbit = second ? first - l->plan.orbits : first, rows = l->v1 - l->v0;
    const size_t at = (size_t)(c->turn % (uint64_t)l->pieces), row = (size_t)job->in_nu * sizeof(float);
    float *raw = c->raw + at * (l->piece_bytes / sizeof(float)), *filtered = c->wide ? c->wide : raw;

    /* the slots of these orbits may hold some that were not run */
    if (orbit + k - c->next > l->slots && run(c, err))
        return -1;
    if (orbit + k - c->next > l->slots)
        return vp_fail(err, VP_ERUN, "views came in another order than was planned");
    cudaError_t e = cudaStreamWaitEvent(c->up, c->consumed[at], 0);
    if (e == cudaSuccess)
        e = cudaMemcpy2DAsync(raw, (size_t)rows * row, proj + (l->v0 - v0) * job->in_nu, (size_t)(v1 - v0) * row,
                              (size_t)rows * row, (size_t)k, cudaMemcpyHostToDevice, c->up);
    if (e == cudaSuccess)
        e = cudaEventRecord(c->uploaded[at], c->up);
    if (e == cudaSuccess)
        e = cudaStreamWaitEvent(c->work, c->uploaded[at], 0);
    if (e == cudaSuccess && c->filter) {
        e = clock_start(&c->filtering, c->work);
        if (e == cudaSuccess) {
            if (vp_filtercuda_run(c->filter, first, k, l->v0, l->v1, raw, filtered, err))
                return -1;
            e = clock_stop(&c->filtering, c->work);
        }
    }
    if (e == cudaSuccess)
        e = clock_start(&c->packing, c->work);
    if (e != cudaSuccess)
        return device_lost(err, e);
    if (vp_bpcuda_pack(c->b, orbit, k, l->v0, l->v1, second ? NULL : filtered, second ? filtered : NULL, err))
        return -1;
    e = clock_stop(&c->packing, c->work);
    if (e == cudaSuccess)
        e = cudaEventRecord(c->consumed[at], c->work);
    if (e != cudaSuccess)
        return device_lost(err, e);
    c->turn++;
    c->bytes_up += (uint64_t)(k * rows) * row;
    if (l->plan.views_per_orbit == 1 || second)
        c->packed = orbit + k;
    return 0;
}

static int slab_add(void *bp, int64_t first, int64_t n, int64_t v0, int64_t v1, const float *proj, uint64_t *ticket,
                   struct vp_err *err)
{
    struct cuda_bp *c = bp;
    const int64_t half = c->l.plan.views_per_orbit == 2 ? c->l.plan.orbits : c->job.n_views;

    const cudaError_t e = cudaSetDevice(c->job.device);
    if (e != cudaSuccess)
        return device_lost(err, e);
    if (v0 > c->l.v0 || v1 < c->l.v1)
        return vp_fail(err, VP_ERUN, "detector rows %lld to %lld were given, %lld to %lld are needed", (long long)v0,
                       (long long)v1, (long long)c->l.v0, (long long)c->l.v1);
    while (n > 0) {
        int64_t k = vp_min64(n, c->l.piece_views);
        if (first < half && first + k > half)
            k = half - first;
        if (add_piece(c, first, k, v0, v1, proj, err) || run_if_useful(c, err))
            return -1;
        first += k;
        n -= k;
        proj += k * (v1 - v0) * c->job.in_nu;
    }
    *ticket = c->turn;
    return 0;
}

static int slab_wait(void *bp, uint64_t ticket, struct vp_err *err)
{
    struct cuda_bp *c = bp;
    if (!ticket)
        return 0;
    /* uploads are in order, so a later one in the same place will do */
    const cudaError_t e = cudaEventSynchronize(c->uploaded[(ticket - 1) % (uint64_t)c->l.pieces]);
    return e == cudaSuccess ? 0 : device_lost(err, e);
}

static int slab_flush(void *bp, struct vp_err *err)
{
    struct cuda_bp *c = bp;
    const int64_t n = c->packed - c->next;
    cudaError_t e = cudaSetDevice(c->job.device);

    c->parts = n > 0 ? vp_bpcuda_parts(c->b, PARTS) : 1;
    for (int part = 0; part < c->parts && e == cudaSuccess; part++) {
        if (n > 0) {
            e = clock_start(&c->runs, c->work);
            if (e != cudaSuccess)
                break;
            if (vp_bpcuda_run_part(c->b, c->next, n, part, c->parts, err))
                return -1;
            e = clock_stop(&c->runs, c->work);
        }
        if (e == cudaSuccess)
            e = cudaEventRecord(c->ready[part], c->work);
    }
    if (n > 0)
        c->next += n;
    return e == cudaSuccess ? 0 : device_lost(err, e);
}

static int slab_slices(void *bp, int64_t z, int64_t n, float *out, struct vp_err *err)
{
    struct cuda_bp *c = bp;
    int part = 0;

    for (int64_t k = z; k < z + n && c->parts > 1; k++) {
        const int of = vp_bpcuda_part_of(c->b, k, c->parts);
        part = of > part ? of : part;
    }
    cudaError_t e = cudaSetDevice(c->job.device);
    if (e == cudaSuccess)
        e = cudaStreamWaitEvent(c->down, c->ready[part], 0);
    if (e != cudaSuccess)
        return device_lost(err, e);
    if (vp_bpcuda_read(c->b, z, n, out, c->down, err))
        return -1;
    e = cudaEventRecord(c->copied, c->down);
    if (e == cudaSuccess)
        e = cudaEventSynchronize(c->copied);
    c->bytes_down += (uint64_t)(n * c->job.grid->n[0] * c->job.grid->n[1]) * sizeof(float);
    return e == cudaSuccess ? 0 : device_lost(err, e);
}

static void slab_stats(void *bp, struct vp_bp_stats *stats)
{
    struct cuda_bp *c = bp;
    const struct span *runs = c->runs.span;
    cudaSetDevice(c->job.device);
    cudaStreamSynchronize(c->work);
    *stats = (struct vp_bp_stats){.kernel = clock_seconds(&c->runs) + clock_seconds(&c->packing),
                                  .filter = clock_seconds(&c->filtering),
                                  .first = c->lead + (c->runs.n ? between(c->opened, runs[0].from) : 0),
                                  .phase = c->lead + (c->runs.n ? between(c->opened, runs[c->runs.n - 1].to) : 0),
                                  .uploaded = c->bytes_up, .downloaded = c->bytes_down};
}

const struct vp_slabs vp_cuda_slabs = {
    .plan = slab_plan, .open = slab_open, .add = slab_add, .wait = slab_wait, .flush = slab_flush,
    .slices = slab_slices, .stats = slab_stats, .close = slab_close,
};
