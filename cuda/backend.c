/* SPDX-License-Identifier: BSD-3-Clause */
/* The plugin's table: the back-projection of backproject_cuda.h behind the contract of backend.h.
 *
 * Views come from pageable host memory in batches. Each batch is copied into one of PINNED buffers, from there
 * (asynchronously) to the device, packed into slots of orbits, and back-projected when enough orbits have come
 * together that the traffic of the volume is hidden. Nothing waits for the device until a pinned buffer is needed
 * again, so the host prepares the next views while the device works. Orbits are run in increasing order, so the
 * result does not depend on the batches. */
#include "backend.h"
#include "backproject_cuda.h"
#include "base/err.h"

#include <cuda_runtime_api.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PINNED = 3, PINNED_VIEWS = 16, READ_SLICES = 16 };
static const uint64_t READ_BYTES = 64 << 20;

const struct vp_backend *vp_backend_plugin(void);

struct cuda_bp {
    struct vp_bpcuda *b;
    struct vp_bpcuda_plan plan;
    struct vp_bp_job job;
    double *P;
    int64_t slots;
    int64_t next;       /* orbit to be run next */
    int64_t packed;     /* orbits before this one are complete */
    cudaStream_t stream;
    float *pinned[PINNED], *staging, *reading;
    cudaEvent_t copied[PINNED];
    int turn;           /* pinned buffer to use next */
};

/* Slices that the pinned buffer for reading holds. */
static int64_t read_slices(const struct vp_bp_job *job)
{
    const uint64_t page = (uint64_t)job->grid->n[0] * (uint64_t)job->grid->n[1] * sizeof(float);
    const uint64_t most = READ_BYTES / page;
    return most < 1 ? 1 : most < READ_SLICES ? (int64_t)most : READ_SLICES;
}

static uint64_t read_bytes(const struct vp_bp_job *job)
{
    return (uint64_t)read_slices(job) * (uint64_t)job->grid->n[0] * (uint64_t)job->grid->n[1] * sizeof(float);
}

static int cuda_fail(struct vp_err *err, cudaError_t e, const char *what)
{
    return vp_fail(err, e == cudaErrorMemoryAllocation ? VP_ERESOURCE : VP_ERUN, "%s: %s", what, cudaGetErrorString(e));
}

static int kernel_fail(struct vp_err *err)
{
    return vp_fail(err, vp_bpcuda_failed_memory() ? VP_ERESOURCE : VP_ERUN, "%s", vp_bpcuda_error());
}

static int count(void)
{
    int n = 0;
    return cudaGetDeviceCount(&n) == cudaSuccess ? n : 0;
}

static int device_info(int device, struct vp_device *info, struct vp_err *err)
{
    struct cudaDeviceProp prop;
    size_t available = 0, total = 0;
    cudaError_t e = cudaSetDevice(device);
    if (e == cudaSuccess)
        e = cudaGetDeviceProperties(&prop, device);
    if (e == cudaSuccess)
        e = cudaMemGetInfo(&available, &total);
    if (e != cudaSuccess)
        return cuda_fail(err, e, "cannot use the CUDA device");
    snprintf(info->name, sizeof info->name, "%.*s", (int)sizeof info->name - 1, prop.name);
    info->free = available;
    info->total = total;
    return 0;
}

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

/* The problem as the kernels see it, and its plan. Pairs of views half a turn apart need the whole scan on the
 * device; where a part of the views is wanted, or the device cannot hold them, views go alone. */
static int choose(const struct vp_bp_job *job, const double *P, struct vp_bpcuda_problem *p, struct vp_bpcuda_plan *plan,
                  int64_t *slots, struct vp_err *err)
{
    struct vp_device info;
    if (device_info(job->device, &info, err))
        return -1;
    *p = (struct vp_bpcuda_problem){.P = P, .n_views = job->n_views, .nu = job->nu, .nv = job->nv,
                                    .nx = job->grid->n[0], .ny = job->grid->n[1], .nz = job->grid->n[2],
                                    .z0 = job->z0, .z1 = job->z1, .device = job->device};
    if (job->first > 0 || job->last < job->n_views)
        p->limit = VP_BPCUDA_NO_ROTATION;
    const uint64_t staging = (uint64_t)(PINNED_VIEWS * job->nu * job->nv) * sizeof(float);
    for (;;) {
        if (vp_bpcuda_plan(p, plan))
            return kernel_fail(err);
        const bool pairs = plan->views_per_orbit == 2;
        /* two runs' worth: one is filled while the other is worked on */
        const int64_t ring = 2 * (plan->good_batch > PINNED_VIEWS ? plan->good_batch : PINNED_VIEWS);
        *slots = pairs || ring > plan->orbits ? plan->orbits : ring;
        if (!pairs || plan->bytes_volume + (uint64_t)*slots * plan->bytes_orbit + plan->bytes_fixed + staging <= info.free)
            break;
        p->limit |= VP_BPCUDA_NO_ROTATION;
    }
    p->orbits = *slots;
    return 0;
}

static int bp_plan(const struct vp_bp_job *job, struct vp_bp_plan *out, struct vp_err *err)
{
    struct vp_bpcuda_problem p;
    struct vp_bpcuda_plan plan;
    int64_t slots;
    double *P = matrices(job);
    if (!P)
        return vp_fail(err, VP_ERESOURCE, "out of memory");
    const int rc = choose(job, P, &p, &plan, &slots, err);
    free(P);
    if (rc)
        return -1;
    const uint64_t view = (uint64_t)job->nu * (uint64_t)job->nv * sizeof(float);
    snprintf(out->kernel, sizeof out->kernel, "%s", plan.kernel);
    out->host = PINNED * PINNED_VIEWS * view + read_bytes(job) + (uint64_t)job->n_views * 12 * sizeof *P;
    out->device = plan.bytes_volume + (uint64_t)slots * plan.bytes_orbit + plan.bytes_fixed + PINNED_VIEWS * view;
    return 0;
}

static void bp_close(void *bp)
{
    struct cuda_bp *c = bp;
    if (!c)
        return;
    vp_bpcuda_close(c->b);
    for (int i = 0; i < PINNED; i++) {
        cudaFreeHost(c->pinned[i]);
        if (c->copied[i])
            cudaEventDestroy(c->copied[i]);
    }
    cudaFreeHost(c->reading);
    cudaFree(c->staging);
    if (c->stream)
        cudaStreamDestroy(c->stream);
    free(c->P);
    free(c);
}

static int bp_open(void **out, const struct vp_bp_job *job, struct vp_err *err)
{
    const size_t batch = (size_t)(PINNED_VIEWS * job->nu * job->nv) * sizeof(float);
    struct vp_bpcuda_problem p;
    cudaError_t e = cudaSuccess;
    struct cuda_bp *c = calloc(1, sizeof *c);
    *out = NULL;
    if (!c || !(c->P = matrices(job))) {
        bp_close(c);
        return vp_fail(err, VP_ERESOURCE, "out of memory");
    }
    c->job = *job;
    if (choose(job, c->P, &p, &c->plan, &c->slots, err))
        goto failed;
    e = cudaStreamCreateWithFlags(&c->stream, cudaStreamNonBlocking);
    if (e != cudaSuccess)
        goto cuda_failed;
    if (vp_bpcuda_open(&c->b, &p, c->stream)) {
        kernel_fail(err);
        goto failed;
    }
    e = cudaMalloc((void **)&c->staging, batch);
    for (int i = 0; i < PINNED && e == cudaSuccess; i++) {
        e = cudaMallocHost((void **)&c->pinned[i], batch);
        if (e == cudaSuccess)
            e = cudaEventCreateWithFlags(&c->copied[i], cudaEventDisableTiming);
    }
    if (e == cudaSuccess)
        e = cudaMallocHost((void **)&c->reading, read_bytes(job));
    if (e != cudaSuccess)
        goto cuda_failed;
    c->next = c->packed = c->plan.views_per_orbit == 1 ? job->first : 0;
    *out = c;
    return 0;
cuda_failed:
    cuda_fail(err, e, "cannot prepare the back-projection on the device");
failed:
    bp_close(c);
    return -1;
}

/* memcpy by several threads: one does not reach the speed of the bus. */
static void copy(float *to, const float *from, size_t n, int threads)
{
    enum { PIECE = 1 << 18 };
    const int64_t pieces = (int64_t)((n + PIECE - 1) / PIECE);
#pragma omp parallel for num_threads(threads) if (pieces > 1)
    for (int64_t i = 0; i < pieces; i++) {
        const size_t at = (size_t)i * PIECE, k = n - at < PIECE ? n - at : PIECE;
        memcpy(to + at, from + at, k * sizeof *to);
    }
}

/* Run what is complete, if that is enough or nothing more will come. */
static int run_packed(struct cuda_bp *c, bool all, struct vp_err *err)
{
    int64_t n = c->packed - c->next;
    const int64_t good = c->plan.good_batch < c->slots / 2 || c->slots < 2 ? c->plan.good_batch : c->slots / 2;
    if (n > 0 && (all || n >= good)) {
        if (vp_bpcuda_run(c->b, c->next, n))
            return kernel_fail(err);
        c->next += n;
    }
    return 0;
}

static int bp_add(void *bp, int64_t first, int64_t n, const float *proj, struct vp_err *err)
{
    struct cuda_bp *c = bp;
    const size_t view = (size_t)(c->job.nu * c->job.nv);
    const int64_t half = c->plan.views_per_orbit == 2 ? c->plan.orbits : c->job.n_views;

    while (n > 0) {
        const bool second = first >= half;
        int64_t k = n < PINNED_VIEWS ? n : PINNED_VIEWS;
        if (!second && first + k > half)
            k = half - first;
        /* a ring must not run into orbits that were not worked on yet */
        if (c->plan.views_per_orbit == 1 && first + k - c->next > c->slots && run_packed(c, true, err))
            return -1;
        if (k > c->slots)
            k = c->slots;
        const int t = c->turn;
        c->turn = (t + 1) % PINNED;
        const cudaError_t e = cudaEventSynchronize(c->copied[t]);
        if (e != cudaSuccess)
            return cuda_fail(err, e, "the device failed");
        copy(c->pinned[t], proj, (size_t)k * view, c->job.threads);
        const int64_t orbit = second ? first - half : first;
        if (vp_bpcuda_pack_host(c->b, orbit, k, second ? NULL : c->pinned[t], second ? c->pinned[t] : NULL, c->staging,
                                PINNED_VIEWS))
            return kernel_fail(err);
        const cudaError_t r = cudaEventRecord(c->copied[t], c->stream);
        if (r != cudaSuccess)
            return cuda_fail(err, r, "the device failed");
        if (c->plan.views_per_orbit == 1 || second)
            c->packed = orbit + k;
        if (run_packed(c, false, err))
            return -1;
        first += k;
        n -= k;
        proj += (size_t)k * view;
    }
    return 0;
}

static int bp_flush(void *bp, struct vp_err *err)
{
    struct cuda_bp *c = bp;
    if (run_packed(c, true, err))
        return -1;
    return vp_bpcuda_sync(c->b) ? kernel_fail(err) : 0;
}

static int bp_slices(void *bp, int64_t z, int64_t n, float *out, struct vp_err *err)
{
    struct cuda_bp *c = bp;
    const size_t page = (size_t)(c->job.grid->n[0] * c->job.grid->n[1]);
    const int64_t most = read_slices(&c->job);
    while (n > 0) {
        const int64_t k = n < most ? n : most;
        if (vp_bpcuda_read(c->b, z, k, c->reading) || vp_bpcuda_sync(c->b))
            return kernel_fail(err);
        copy(out, c->reading, (size_t)k * page, c->job.threads);
        out += (size_t)k * page;
        z += k;
        n -= k;
    }
    return 0;
}

static const struct vp_backend table = {
    .abi = VP_BACKEND_ABI,
    .name = "cuda",
    .count = count,
    .device = device_info,
    .bp_plan = bp_plan,
    .bp_open = bp_open,
    .bp_add = bp_add,
    .bp_flush = bp_flush,
    .bp_slices = bp_slices,
    .bp_close = bp_close,
};

__attribute__((visibility("default"))) const struct vp_backend *vp_backend_plugin(void)
{
    return &table;
}
