/* SPDX-License-Identifier: BSD-3-Clause */
/* Buffers of a worker on its device. A lane has buffers for the inputs and outputs of a part; the results of earlier
 * stages and the scratch are there once, because the kernels of all lanes are in one queue. Uploads are in a second
 * queue, downloads in a third, so with two lanes an upload, kernels and a download of different parts overlap (with
 * three lanes none waits for another). */
#include "engine/execute_internal.h"

#include "base/err.h"
#include "base/size.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool vp_lanes_have(const struct vp_backend *backend, const struct vp_chain *chain, char *why, size_t size)
{
    char reason[160];
    for (int s = 0; s < chain->n; s++) {
        const struct vp_op *op = &chain->stage[s];
        const struct vp_kernel *k = backend->kernel(op->kernel);
        snprintf(reason, sizeof reason, "no %s kernel of that name", backend->name);
        if (k && k->has(op, reason, sizeof reason))
            continue;
        snprintf(why, size, "%s: %s", op->kernel, reason);
        return false;
    }
    return true;
}

void vp_lanes_demand(const struct vp_backend *backend, struct vp_chain *chain)
{
    struct vp_op *op = &chain->stage[0];
    const struct vp_op own = *op;
    const struct vp_kernel *k = chain->n == 1 ? backend->kernel(op->kernel) : NULL;
    if (k && k->demand)
        k->demand(&own, op->step, op->halo);
}

bool vp_lanes_twice(const struct vp_backend *backend, const struct vp_chain *chain)
{
    const struct vp_op *op = &chain->stage[chain->n - 1];
    const struct vp_kernel *k = op->two_pass ? backend->kernel(op->kernel) : NULL;
    return k && k->state;
}

uint64_t vp_lanes_hold(const struct vp_backend *backend, const struct vp_chain *chain, int64_t *step)
{
    const struct vp_op *op = &chain->stage[chain->n - 1];
    const struct vp_kernel *k = backend->kernel(op->kernel);
    return k && k->hold ? k->hold(op, step) : 0;
}

/* ---- memory ---- */

static uint64_t round_up(uint64_t n, uint64_t step)
{
    return (n + step - 1) / step * step;
}

static int64_t pitch_of(int64_t nx, enum vp_type t)
{
    const size_t size = vp_type_size(t);
    return (int64_t)(round_up((uint64_t)nx * size, VP_ROW_ALIGN) / size);
}

struct vp_area vp_lanes_area(void *data, const struct vp_box *box, enum vp_type t)
{
    const int64_t pitch = pitch_of(vp_box_size(box, 0), t);
    return (struct vp_area){.box = *box, .pitch = pitch, .plane = pitch * vp_box_size(box, 1), .data = data};
}

static uint64_t area_bytes(const int64_t n[3], enum vp_type t)
{
    return round_up((uint64_t)pitch_of(n[0], t) * (uint64_t)n[1] * (uint64_t)n[2] * vp_type_size(t), VP_ALIGN);
}

/* Fills the most voxels that each stage makes for parts of out[]: the largest region of those that read it. */
static void most_made(const struct vp_chain *c, const int64_t out[3], struct device_stage *stage)
{
    for (int s = 0; s < c->n; s++)
        for (int a = 0; a < 3; a++)
            stage[s].made[a] = s == c->n - 1 ? out[a] : 0;
    for (int s = c->n - 1; s >= 0; s--) {
        const struct vp_op *op = &c->stage[s];
        for (int i = 0; i < op->inputs; i++)
            for (int a = 0; op->from[i] >= 0 && a < 3; a++) {
                int64_t *most = &stage[op->from[i]].made[a];
                *most = vp_max64(*most, vp_op_extent(op, a, stage[s].made[a]));
            }
    }
}

static void *place(void *memory, size_t *at, uint64_t bytes)
{
    void *const here = vp_place(memory, at, round_up(bytes, VP_ALIGN));
    return bytes ? here : NULL;
}

/* Lays out the one allocation, d->memory; without it only counts the bytes. */
static uint64_t lay_out(struct lanes *d)
{
    const struct vp_chain *c = d->chain;
    const struct vp_op *last = &c->stage[c->n - 1];
    uint64_t scratch = 0;
    size_t at = 0;
    for (int s = 0; s < c->n; s++) {
        const struct vp_op *op = &c->stage[s];
        struct device_stage *stage = &d->stage[s];
        const struct vp_kernel *k = stage->kernel;
        int64_t most[3] = {0};
        for (int axis = 0; axis < 3; axis++)
            for (int i = 0; i < op->inputs; i++)
                most[axis] = vp_max64(most[axis], op->from[i] < 0 ? d->in[axis] : d->stage[op->from[i]].made[axis]);
        const bool holds = d->held && s == c->n - 1;
        const uint64_t need = k->scratch && !holds ? k->scratch(op, most, stage->made) : 0;
        scratch = need > scratch ? need : scratch;
        stage->table = place(d->memory, &at, (k->table ? k->table(op) : 0) + (k->made ? k->made(op) : 0));
        if (s < c->n - 1)
            stage->result = place(d->memory, &at, area_bytes(stage->made, op->out));
    }
    d->scratch = place(d->memory, &at, scratch);
    d->image = place(d->memory, &at, d->held);
    for (struct lane *lane = d->lane; lane < d->lane + d->n; lane++) {
        for (int i = 0; i < c->stacks; i++)
            lane->in[i] = place(d->memory, &at, area_bytes(d->in, c->stage[0].in));
        lane->out[0] = place(d->memory, &at, area_bytes(d->out, last->out));
        if (last->second)
            lane->out[1] = place(d->memory, &at, area_bytes(d->out, *last->second));
        lane->state = place(d->memory, &at, d->state);
    }
    return at;
}

/* Fills kernels, all of which exist (vp_lanes_have), and sizes. */
static int describe(struct lanes *d, const struct vp_backend *backend, const struct vp_chain *chain,
                    const int64_t in[3], const int64_t out[3], int lanes, bool held)
{
    const size_t n = (size_t)chain->n;
    *d = (struct lanes){.backend = backend, .chain = chain, .n = lanes};
    memcpy(d->in, in, sizeof d->in);
    memcpy(d->out, out, sizeof d->out);
    if (!(d->stage = calloc(n, sizeof *d->stage + sizeof *d->made)))
        return -1;
    d->made = (struct vp_box *)(d->stage + n);
    for (size_t s = 0; s < n; s++)
        d->stage[s].kernel = backend->kernel(chain->stage[s].kernel);
    most_made(chain, out, d->stage);
    const struct vp_kernel *const k = d->stage[n - 1].kernel;
    int64_t step;
    d->held = held ? vp_lanes_hold(backend, chain, &step) : 0;
    d->state = k->state && !held ? k->state(&chain->stage[n - 1], out) : 0;
    return 0;
}

uint64_t vp_lanes_bytes(const struct vp_backend *backend, const struct vp_chain *chain, const int64_t in[3],
                        const int64_t out[3], int lanes, bool held)
{
    struct lanes d;
    if (describe(&d, backend, chain, in, out, lanes, held))
        return UINT64_MAX;
    const uint64_t bytes = lay_out(&d);
    free(d.stage);
    return bytes;
}

/* ---- life ---- */

static int fill_tables(struct lanes *d, struct vp_err *err)
{
    for (int s = 0; s < d->chain->n; s++) {
        const struct vp_op *op = &d->chain->stage[s];
        const struct vp_kernel *k = d->stage[s].kernel;
        const uint64_t bytes = k->table ? k->table(op) : 0;
        void *host = bytes ? calloc(1, bytes) : NULL;
        if (!bytes)
            continue;
        if (!host)
            return vp_fail(err, VP_ERESOURCE, "out of memory");
        k->fill(op, host);
        const struct vp_pitched from = {host, (int64_t)bytes, (int64_t)bytes},
                                to = {d->stage[s].table, (int64_t)bytes, (int64_t)bytes};
        const bool failed = d->backend->copy(d->work, &to, &from, (const int64_t[3]){(int64_t)bytes, 1, 1}, VP_UP, err)
                            || (k->make && k->make(op, d->stage[s].table, d->work, err));
        /* the copy may be in flight even if the rest failed */
        const bool late = d->backend->event_record(d->work, d->lane[0].worked, err)
                          || d->backend->event_synchronize(d->lane[0].worked, err);
        free(host);
        if (failed || late)
            return -1;
    }
    return 0;
}

static int make_queues(struct lanes *d, struct vp_err *err)
{
    const struct vp_backend *k = d->backend;
    if (k->queue_create(d->device, &d->up, err) || k->queue_create(d->device, &d->work, err)
        || k->queue_create(d->device, &d->down, err))
        return -1;
    for (int l = 0; l < d->n; l++) {
        struct lane *lane = &d->lane[l];
        if (d->state && !(lane->on_host = malloc((size_t)d->state)))
            return vp_fail(err, VP_ERESOURCE, "out of memory");
        if (k->event_create(d->device, true, &lane->uploaded, err)
            || k->event_create(d->device, false, &lane->started, err)
            || k->event_create(d->device, false, &lane->worked, err)
            || k->event_create(d->device, true, &lane->downloaded, err))
            return -1;
    }
    return 0;
}

struct lanes *vp_lanes_open(const struct vp_backend *backend, int device, const struct vp_chain *chain,
                            const int64_t in[3], const int64_t out[3], int n, bool held, struct vp_err *err)
{
    struct lanes *d = malloc(sizeof *d);
    if (!d || describe(d, backend, chain, in, out, n, held)) {
        free(d);
        vp_fail(err, VP_ERESOURCE, "out of memory");
        return NULL;
    }
    d->device = device;
    if (!backend->alloc(device, lay_out(d), &d->memory, err) && !make_queues(d, err)) {
        lay_out(d);
        if (!fill_tables(d, err))
            return d;
    }
    vp_lanes_close(d);
    return NULL;
}

void vp_lanes_close(struct lanes *d)
{
    if (!d)
        return;
    const struct vp_backend *k = d->backend;
    k->queue_destroy(d->up);
    k->queue_destroy(d->work);
    k->queue_destroy(d->down);
    for (int l = 0; l < d->n; l++) {
        struct lane *lane = &d->lane[l];
        free(lane->on_host);
        free(lane->pointers);
        k->event_destroy(lane->uploaded);
        k->event_destroy(lane->started);
        k->event_destroy(lane->worked);
        k->event_destroy(lane->downloaded);
    }
    if (d->memory)
        k->release(d->device, d->memory);
    free(d->stage);
    free(d);
}
