/* SPDX-License-Identifier: BSD-3-Clause */
/* The worker that runs a chain of local operations on one CUDA device: buffers, copies, order.
 *
 * A lane has device buffers of its own for the inputs and the output of a part; what lies between (results of the
 * earlier stages, scratch) is there once, because the kernels of all lanes queue on one stream. Copies to the device
 * queue on a second stream, copies back on a third, so with two lanes an upload, kernels and a download of different
 * parts run at the same time (with three lanes none waits for another), and the order inside a stream is all the
 * order that carried planes need: they are copied on the upload stream, from a buffer that the same stream filled. */
#include "local.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One line for each operation; ends with NULL. */
static const struct vp_gpu_kernel *const kernels[] = {
    &vp_gpu_gauss, &vp_gpu_log,
    &vp_gpu_min, &vp_gpu_max, &vp_gpu_rank, &vp_gpu_entropy, &vp_gpu_mean, &vp_gpu_var, &vp_gpu_std, &vp_gpu_wiener,
    &vp_gpu_subtract, &vp_gpu_nlmeans, &vp_gpu_math, NULL,
};

enum { MAX_LANES = 16 };

struct stage {
    const struct vp_gpu_kernel *kernel;
    void *table;
    void *result; /* NULL for the last stage, whose result is the lane's output */
};

struct lane {
    void *in[VP_MAX_INPUTS], *out;
    cudaEvent_t uploaded, started, worked, downloaded;
    bool busy;
    struct vp_box box[VP_MAX_INPUTS]; /* what in[] holds */
};

struct worker {
    const struct vp_chain *chain;
    int device, sms, lanes;
    int64_t in[3], out[3];
    int64_t *made; /* 3 for each stage: the most voxels of its result */
    void *memory, *scratch;
    struct stage *stage;
    struct lane lane[MAX_LANES];
    int last; /* lane submitted last, -1: none */
    cudaStream_t up, work, down;
    double seconds;
    uint64_t bytes_up, bytes_down;
};

static const struct vp_gpu_kernel *find(const char *name)
{
    for (const struct vp_gpu_kernel *const *k = kernels; *k; k++)
        if (strcmp((*k)->name, name) == 0)
            return *k;
    return NULL;
}

bool vp_gpu_local_has(const struct vp_chain *chain, char *why, size_t size)
{
    char reason[160];
    for (int s = 0; s < chain->n; s++) {
        const struct vp_local *op = &chain->stage[s];
        const struct vp_gpu_kernel *k = find(op->kernel);
        snprintf(reason, sizeof reason, "no CUDA kernel of that name");
        if (k && k->has(op, reason, sizeof reason))
            continue;
        snprintf(why, size, "%s: %s", op->kernel, reason);
        return false;
    }
    return true;
}

static uint64_t round_up(uint64_t n, uint64_t step)
{
    return (n + step - 1) / step * step;
}

static int64_t pitch_of(int64_t nx, enum vp_type t)
{
    const size_t size = vp_type_size(t);
    return (int64_t)(round_up((uint64_t)nx * size, VP_GPU_ROW_ALIGN) / size);
}

static uint64_t part_bytes(const int64_t n[3], enum vp_type t)
{
    return round_up((uint64_t)pitch_of(n[0], t) * (uint64_t)n[1] * (uint64_t)n[2] * vp_type_size(t), VP_GPU_ALIGN);
}

static enum vp_type stack_type(const struct vp_chain *c, int stack)
{
    for (int s = 0; s < c->n; s++)
        for (int i = 0; i < c->stage[s].inputs; i++)
            if (c->stage[s].from[i] == ~stack)
                return c->stage[s].in;
    return VP_U8;
}

/* The most that each stage makes for parts of out[] voxels: grown by the halos of those that read it. */
static void most_made(const struct vp_chain *c, const int64_t out[3], int64_t *made)
{
    for (int s = 0; s < c->n; s++)
        for (int a = 0; a < 3; a++)
            made[3 * s + a] = s == c->n - 1 ? out[a] : 0;
    for (int s = c->n - 1; s >= 0; s--) {
        const struct vp_local *op = &c->stage[s];
        for (int i = 0; i < op->inputs; i++)
            for (int a = 0; op->from[i] >= 0 && a < 3; a++) {
                int64_t *m = &made[3 * op->from[i] + a], n = made[3 * s + a] + 2 * op->halo[a];
                if (op->whole[a] || n > op->image[a])
                    n = op->image[a];
                if (*m < n)
                    *m = n;
            }
    }
}

struct arena {
    char *base; /* NULL: only count */
    uint64_t at;
};

static void place(struct arena *a, uint64_t bytes, void **where)
{
    if (a->base && where)
        *where = bytes ? a->base + a->at : NULL;
    a->at += round_up(bytes, VP_GPU_ALIGN);
}

/* Where everything lies in the one allocation; w = NULL only counts. Returns the bytes. */
static uint64_t lay_out(const struct vp_chain *c, const int64_t in[3], const int64_t out[3], int lanes,
                        const int64_t *made, struct worker *w)
{
    struct arena a = {w ? w->memory : NULL, 0};
    uint64_t scratch = 0;
    for (int s = 0; s < c->n; s++) {
        const struct vp_local *op = &c->stage[s];
        const struct vp_gpu_kernel *k = find(op->kernel);
        int64_t most[3];
        for (int axis = 0; axis < 3; axis++) {
            most[axis] = 0;
            for (int i = 0; i < op->inputs; i++) {
                const int64_t n = op->from[i] < 0 ? in[axis] : made[3 * op->from[i] + axis];
                if (most[axis] < n)
                    most[axis] = n;
            }
        }
        const uint64_t need = k && k->scratch ? k->scratch(op, most, &made[3 * s]) : 0;
        if (scratch < need)
            scratch = need;
        place(&a, k && k->table ? k->table(op) : 0, w ? &w->stage[s].table : NULL);
        if (s < c->n - 1)
            place(&a, part_bytes(&made[3 * s], op->out), w ? &w->stage[s].result : NULL);
    }
    place(&a, scratch, w ? &w->scratch : NULL);
    for (int l = 0; l < lanes; l++) {
        for (int i = 0; i < c->stacks; i++)
            place(&a, part_bytes(in, stack_type(c, i)), w ? &w->lane[l].in[i] : NULL);
        place(&a, part_bytes(out, c->stage[c->n - 1].out), w ? &w->lane[l].out : NULL);
    }
    return a.at;
}

uint64_t vp_gpu_local_bytes(const struct vp_chain *chain, const int64_t in[3], const int64_t out[3], int lanes)
{
    int64_t *made = malloc((size_t)chain->n * 3 * sizeof *made);
    if (!made)
        return UINT64_MAX;
    most_made(chain, out, made);
    const uint64_t bytes = lay_out(chain, in, out, lanes, made, NULL);
    free(made);
    return bytes;
}

static int fill_tables(struct worker *w, struct vp_err *err)
{
    for (int s = 0; s < w->chain->n; s++) {
        const struct vp_local *op = &w->chain->stage[s];
        const struct vp_gpu_kernel *k = w->stage[s].kernel;
        const uint64_t bytes = k->table ? k->table(op) : 0;
        if (!bytes)
            continue;
        void *host = calloc(1, bytes);
        if (!host)
            return vp_fail(err, VP_ERESOURCE, "out of memory");
        k->fill(op, host);
        const cudaError_t e = cudaMemcpy(w->stage[s].table, host, bytes, cudaMemcpyHostToDevice);
        free(host);
        if (e != cudaSuccess)
            return vp_gpu_fail(err, e, "cannot copy to the CUDA device");
    }
    /* a copy from pageable memory returns when it is read, and the worker's streams do not wait for the default one */
    const cudaError_t e = cudaStreamSynchronize(NULL);
    return e == cudaSuccess ? 0 : vp_gpu_fail(err, e, "cannot copy to the CUDA device");
}

int vp_gpu_local_open(void **worker, const struct vp_chain *chain, int device, const int64_t in[3],
                      const int64_t out[3], int lanes, struct vp_err *err)
{
    char why[256];
    *worker = NULL;
    if (lanes < 1 || lanes > MAX_LANES || chain->n < 1)
        return vp_fail(err, VP_ERUN, "a CUDA worker has 1 to %d lanes and a stage or more", MAX_LANES);
    if (!vp_gpu_local_has(chain, why, sizeof why))
        return vp_fail(err, VP_ERESOURCE, "the CUDA device cannot do this: %s", why);
    struct worker *w = calloc(1, sizeof *w);
    if (!w)
        return vp_fail(err, VP_ERESOURCE, "out of memory");
    *worker = w;
    w->chain = chain;
    w->device = device;
    w->lanes = lanes;
    w->last = -1;
    memcpy(w->in, in, sizeof w->in);
    memcpy(w->out, out, sizeof w->out);
    w->stage = calloc((size_t)chain->n, sizeof *w->stage);
    w->made = calloc((size_t)chain->n * 3, sizeof *w->made);
    if (!w->stage || !w->made) {
        vp_fail(err, VP_ERESOURCE, "out of memory");
        goto fail;
    }
    for (int s = 0; s < chain->n; s++)
        w->stage[s].kernel = find(chain->stage[s].kernel);
    most_made(chain, out, w->made);

    cudaError_t e = cudaSetDevice(device);
    if (e == cudaSuccess)
        e = cudaDeviceGetAttribute(&w->sms, cudaDevAttrMultiProcessorCount, device);
    const uint64_t bytes = lay_out(chain, in, out, lanes, w->made, NULL);
    if (e == cudaSuccess) {
        e = cudaMalloc(&w->memory, bytes);
        if (e == cudaErrorMemoryAllocation) {
            cudaGetLastError(); /* not for the next call to find */
            w->memory = NULL;
            vp_fail(err, VP_ERESOURCE, "no %.1f MiB of memory left on CUDA device %d", (double)bytes / 1048576, device);
            goto fail;
        }
    }
    if (e == cudaSuccess)
        e = cudaStreamCreateWithFlags(&w->up, cudaStreamNonBlocking);
    if (e == cudaSuccess)
        e = cudaStreamCreateWithFlags(&w->work, cudaStreamNonBlocking);
    if (e == cudaSuccess)
        e = cudaStreamCreateWithFlags(&w->down, cudaStreamNonBlocking);
    for (int l = 0; e == cudaSuccess && l < lanes; l++) {
        struct lane *lane = &w->lane[l];
        e = cudaEventCreateWithFlags(&lane->uploaded, cudaEventDisableTiming);
        if (e == cudaSuccess)
            e = cudaEventCreate(&lane->started);
        if (e == cudaSuccess)
            e = cudaEventCreate(&lane->worked);
        if (e == cudaSuccess)
            e = cudaEventCreateWithFlags(&lane->downloaded, cudaEventDisableTiming | cudaEventBlockingSync);
    }
    if (e != cudaSuccess) {
        vp_gpu_fail(err, e, "cannot use the CUDA device");
        goto fail;
    }
    lay_out(chain, in, out, lanes, w->made, w);
    if (fill_tables(w, err))
        goto fail;
    return 0;
fail:
    vp_gpu_local_close(w);
    *worker = NULL;
    return -1;
}

void vp_gpu_local_close(void *worker)
{
    struct worker *w = worker;
    if (!w)
        return;
    cudaSetDevice(w->device);
    const cudaStream_t stream[3] = {w->up, w->work, w->down};
    for (int i = 0; i < 3; i++)
        if (stream[i]) {
            cudaStreamSynchronize(stream[i]);
            cudaStreamDestroy(stream[i]);
        }
    for (int l = 0; l < w->lanes; l++) {
        const struct lane *lane = &w->lane[l];
        const cudaEvent_t event[4] = {lane->uploaded, lane->started, lane->worked, lane->downloaded};
        for (int i = 0; i < 4; i++)
            if (event[i])
                cudaEventDestroy(event[i]);
    }
    cudaFree(w->memory);
    free(w->stage);
    free(w->made);
    free(w);
}

static struct vp_gpu_part device_part(void *data, const struct vp_box *box, enum vp_type t)
{
    const int64_t pitch = pitch_of(vp_box_size(box, 0), t);
    return (struct vp_gpu_part){.box = *box, .pitch = pitch, .plane = pitch * vp_box_size(box, 1), .data = data};
}

static bool fits(const struct vp_box *box, const int64_t most[3])
{
    for (int a = 0; a < 3; a++)
        if (vp_box_size(box, a) < 1 || vp_box_size(box, a) > most[a])
            return false;
    return true;
}

/* Planes [z, n) of a part between host and device: as few copies as the host's plane pointers allow. */
static cudaError_t copy_planes(const struct vp_gpu_part *d, const struct vp_part *h, int64_t z, size_t size,
                               enum cudaMemcpyKind kind, cudaStream_t stream, uint64_t *bytes)
{
    const int64_t nz = vp_box_size(&h->box, 2);
    const size_t rows = (size_t)vp_box_size(&h->box, 1), width = (size_t)vp_box_size(&h->box, 0) * size;
    const size_t host_pitch = (size_t)h->stride * size, pitch = (size_t)d->pitch * size, page = pitch * rows;
    *bytes += width * rows * (uint64_t)(nz - z);
    while (z < nz) {
        char *const host = h->plane[z], *const device = (char *)d->data + (size_t)z * page;
        /* planes that follow each other at equal steps */
        int64_t n = 1;
        const ptrdiff_t step = z + 1 < nz ? (char *)h->plane[z + 1] - host : 0;
        const bool regular = step >= (ptrdiff_t)(host_pitch * rows) && (size_t)step % host_pitch == 0;
        while (regular && z + n < nz && (char *)h->plane[z + n] - (char *)h->plane[z + n - 1] == step)
            n++;
        const bool to_device = kind == cudaMemcpyHostToDevice;
        cudaError_t e;
        if (n == 1 || (size_t)step == host_pitch * rows) {
            const size_t all = rows * (size_t)n;
            if (host_pitch == pitch && width == pitch)
                e = cudaMemcpyAsync(to_device ? device : host, to_device ? host : device, all * pitch, kind, stream);
            else
                e = cudaMemcpy2DAsync(to_device ? device : host, to_device ? pitch : host_pitch,
                                      to_device ? host : device, to_device ? host_pitch : pitch, width, all, kind,
                                      stream);
        } else {
            const struct cudaPitchedPtr at_host = {host, host_pitch, width, (size_t)step / host_pitch};
            const struct cudaPitchedPtr at_device = {device, pitch, width, rows};
            struct cudaMemcpy3DParms p = {.kind = kind, .extent = {width, rows, (size_t)n}};
            p.srcPtr = to_device ? at_host : at_device;
            p.dstPtr = to_device ? at_device : at_host;
            e = cudaMemcpy3DAsync(&p, stream);
        }
        if (e != cudaSuccess)
            return e;
        z += n;
    }
    return cudaSuccess;
}

/* The last `n` planes of the part before become the first of this one. */
static cudaError_t carry_planes(void *to, const void *from, const struct vp_box *before, const struct vp_box *box,
                                int64_t n, enum vp_type t, cudaStream_t stream)
{
    const size_t page = (size_t)(pitch_of(vp_box_size(box, 0), t) * vp_box_size(box, 1)) * vp_type_size(t);
    const int64_t first = vp_box_size(before, 2) - n;
    if (to != from)
        return cudaMemcpyAsync(to, (const char *)from + (size_t)first * page, (size_t)n * page,
                               cudaMemcpyDeviceToDevice, stream);
    /* in place: in steps that do not overlap */
    for (int64_t z = 0; first > 0 && z < n; z += first) {
        const size_t bytes = (size_t)(n - z < first ? n - z : first) * page;
        char *const at = (char *)to + (size_t)z * page;
        const cudaError_t e = cudaMemcpyAsync(at, at + (size_t)first * page, bytes, cudaMemcpyDeviceToDevice, stream);
        if (e != cudaSuccess)
            return e;
    }
    return cudaSuccess;
}

static bool can_carry(const struct vp_box *before, const struct vp_box *box, int64_t n)
{
    for (int a = 0; a < 2; a++)
        if (before->lo[a] != box->lo[a] || before->hi[a] != box->hi[a])
            return false;
    return n <= vp_box_size(before, 2) && n <= vp_box_size(box, 2) && box->lo[2] + n == before->hi[2];
}

static int upload(struct worker *w, struct lane *lane, const struct vp_part *in, int64_t carry, struct vp_err *err)
{
    const struct lane *before = w->last < 0 ? NULL : &w->lane[w->last];
    /* the kernels that read these buffers last, and those that read what is carried within one buffer */
    cudaError_t e = cudaStreamWaitEvent(w->up, lane->worked, 0);
    for (int i = 0; e == cudaSuccess && i < w->chain->stacks; i++) {
        const enum vp_type t = stack_type(w->chain, i);
        if (!fits(&in[i].box, w->in))
            return vp_fail(err, VP_ERUN, "a part is larger than the CUDA worker's buffers");
        if (carry > 0 && !(before && can_carry(&before->box[i], &in[i].box, carry)))
            return vp_fail(err, VP_ERUN, "a part does not continue the one before it");
        if (carry > 0)
            e = carry_planes(lane->in[i], before->in[i], &before->box[i], &in[i].box, carry, t, w->up);
        const struct vp_gpu_part d = device_part(lane->in[i], &in[i].box, t);
        if (e == cudaSuccess)
            e = copy_planes(&d, &in[i], carry, vp_type_size(t), cudaMemcpyHostToDevice, w->up, &w->bytes_up);
    }
    for (int i = 0; i < w->chain->stacks; i++)
        lane->box[i] = in[i].box;
    if (e == cudaSuccess)
        e = cudaEventRecord(lane->uploaded, w->up);
    return e == cudaSuccess ? 0 : vp_gpu_fail(err, e, "cannot copy to the CUDA device");
}

static int run_stages(struct worker *w, struct lane *lane, const struct vp_box *out, struct vp_err *err)
{
    const struct vp_chain *c = w->chain;
    struct vp_box *made = malloc((size_t)c->n * sizeof *made), given[VP_MAX_INPUTS];
    int rc = -1;
    if (!made)
        return vp_fail(err, VP_ERESOURCE, "out of memory");
    vp_chain_boxes(c, out, made, given);
    for (int s = 0; s < c->n; s++) {
        const struct vp_local *op = &c->stage[s];
        struct vp_gpu_part in[VP_MAX_INPUTS];
        for (int i = 0; i < op->inputs; i++) {
            const int f = op->from[i];
            in[i] = f < 0 ? device_part(lane->in[~f], &lane->box[~f], op->in)
                          : device_part(w->stage[f].result, &made[f], op->in);
        }
        void *const result = s == c->n - 1 ? lane->out : w->stage[s].result;
        const struct vp_box *box = s == c->n - 1 ? out : &made[s];
        if (vp_box_size(box, 0) <= 0 || vp_box_size(box, 1) <= 0 || vp_box_size(box, 2) <= 0)
            continue; /* nobody reads it */
        if (!fits(box, &w->made[3 * s])) {
            vp_fail(err, VP_ERUN, "a part is larger than the CUDA worker's buffers");
            goto done;
        }
        const struct vp_gpu_part to = device_part(result, box, op->out);
        const struct vp_gpu_args args = {.in = in, .out = &to, .table = w->stage[s].table, .scratch = w->scratch,
                                         .stream = w->work, .sms = w->sms};
        if (w->stage[s].kernel->launch(op, &args, err))
            goto done;
    }
    rc = 0;
done:
    free(made);
    return rc;
}

int vp_gpu_local_submit(void *worker, int lane_index, const struct vp_part *in, const struct vp_part *out,
                        int64_t carry, struct vp_err *err)
{
    struct worker *w = worker;
    struct lane *lane = &w->lane[lane_index];
    if (lane->busy && vp_gpu_local_wait(w, lane_index, err))
        return -1;
    cudaError_t e = cudaSetDevice(w->device);
    if (e != cudaSuccess)
        return vp_gpu_fail(err, e, "cannot use the CUDA device");
    if (upload(w, lane, in, carry, err))
        return -1;
    w->last = lane_index;

    e = cudaStreamWaitEvent(w->work, lane->uploaded, 0);
    if (e == cudaSuccess)
        e = cudaEventRecord(lane->started, w->work);
    if (e != cudaSuccess)
        return vp_gpu_fail(err, e, "the CUDA device failed");
    if (run_stages(w, lane, &out->box, err))
        return -1;
    e = cudaEventRecord(lane->worked, w->work);
    if (e == cudaSuccess)
        e = cudaStreamWaitEvent(w->down, lane->worked, 0);
    const enum vp_type t = w->chain->stage[w->chain->n - 1].out;
    const struct vp_gpu_part d = device_part(lane->out, &out->box, t);
    if (e == cudaSuccess)
        e = copy_planes(&d, out, 0, vp_type_size(t), cudaMemcpyDeviceToHost, w->down, &w->bytes_down);
    if (e == cudaSuccess)
        e = cudaEventRecord(lane->downloaded, w->down);
    lane->busy = true;
    return e == cudaSuccess ? 0 : vp_gpu_fail(err, e, "cannot copy from the CUDA device");
}

int vp_gpu_local_wait(void *worker, int lane_index, struct vp_err *err)
{
    struct worker *w = worker;
    struct lane *lane = &w->lane[lane_index];
    float ms = 0;
    if (!lane->busy)
        return 0;
    lane->busy = false;
    cudaError_t e = cudaEventSynchronize(lane->downloaded);
    if (e == cudaSuccess)
        e = cudaEventElapsedTime(&ms, lane->started, lane->worked);
    if (e != cudaSuccess)
        return vp_gpu_fail(err, e, "the CUDA device failed");
    w->seconds += (double)ms / 1000;
    return 0;
}

void vp_gpu_local_stats(void *worker, double *seconds, uint64_t *up, uint64_t *down)
{
    const struct worker *w = worker;
    *seconds = w->seconds;
    *up = w->bytes_up;
    *down = w->bytes_down;
}
