/* SPDX-License-Identifier: BSD-3-Clause */
/* A lane has device buffers of its own for the inputs and the output of a part; what lies between (results of the
 * earlier stages, scratch) is there once, because the kernels of all lanes are in one queue. Copies to the device are
 * in a second queue, copies back in a third, so with two lanes an upload, kernels and a download of different parts run
 * at the same time (with three lanes none waits for another), and the order inside a queue is all the order that
 * carried planes need: they are copied in the queue of uploads, from a buffer that the same queue filled. */
#include "run/lanes.h"
#include "base/err.h"
#include "base/size.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct stage {
    const struct vp_kernel *kernel;
    void *table;
    void *result;    /* NULL for the last stage, whose result is the lane's output */
    int64_t made[3]; /* the most voxels of its result */
};

struct lane {
    void *in[VP_MAX_INPUTS], *out[2]; /* and the twin's */
    void *state;     /* of the device: a total, then what was before; carried in turn in the first lane's */
    void *told;      /* the same on the host, of so many bytes for the part that is made */
    uint64_t bytes;
    struct vp_event *uploaded, *started, *worked, *downloaded;
    bool busy, tells; /* what it has to tell is on its way to the host */
    struct vp_box box[VP_MAX_INPUTS]; /* what in[] holds */
};

struct vp_lanes {
    const struct vp_kind *kind;
    const struct vp_chain *chain;
    int device, lanes;
    int64_t in[3], out[3];
    void *memory, *scratch;
    uint64_t state; /* bytes */
    struct stage *stage;
    struct vp_box *made; /* of the part that is submitted: what each stage makes */
    struct lane lane[VP_MAX_LANES];
    int last; /* lane submitted last, -1: none */
    struct vp_queue *up, *work, *down;
    double seconds;
    uint64_t bytes_up, bytes_down;
};

bool vp_lanes_have(const struct vp_kind *kind, const struct vp_chain *chain, char *why, size_t size)
{
    char reason[160];
    for (int s = 0; s < chain->n; s++) {
        const struct vp_op *op = &chain->stage[s];
        const struct vp_kernel *k = kind->kernel(op->kernel);
        snprintf(reason, sizeof reason, "no %s kernel of that name", kind->name);
        if (k && k->has(op, reason, sizeof reason))
            continue;
        snprintf(why, size, "%s: %s", op->kernel, reason);
        return false;
    }
    return true;
}

void vp_lanes_demand(const struct vp_kind *kind, struct vp_chain *chain)
{
    const struct vp_kernel *k = chain->n == 1 ? kind->kernel(chain->stage[0].kernel) : NULL;
    struct vp_op *op = &chain->stage[0];
    int64_t step[3], halo[3];

    if (!k || !k->demand)
        return;
    memcpy(step, op->step, sizeof step);
    memcpy(halo, op->halo, sizeof halo);
    k->demand(op, step, halo);
    memcpy(op->step, step, sizeof step);
    memcpy(op->halo, halo, sizeof halo);
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

static uint64_t area_bytes(const int64_t n[3], enum vp_type t)
{
    return round_up((uint64_t)pitch_of(n[0], t) * (uint64_t)n[1] * (uint64_t)n[2] * vp_type_size(t), VP_ALIGN);
}

static const struct vp_op *last_of(const struct vp_chain *c)
{
    return &c->stage[c->n - 1];
}

static int outputs_of(const struct vp_op *op)
{
    return op->twin ? 2 : 1;
}

static enum vp_type type_of(const struct vp_op *op, int output)
{
    return output ? op->twin_out : op->out;
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
static void most_made(const struct vp_chain *c, const int64_t out[3], struct stage *stage)
{
    for (int s = 0; s < c->n; s++)
        for (int a = 0; a < 3; a++)
            stage[s].made[a] = s == c->n - 1 ? out[a] : 0;
    for (int s = c->n - 1; s >= 0; s--) {
        const struct vp_op *op = &c->stage[s];
        for (int i = 0; i < op->inputs; i++)
            for (int a = 0; op->from[i] >= 0 && a < 3; a++) {
                int64_t *m = &stage[op->from[i]].made[a], n = stage[s].made[a] + 2 * op->halo[a];
                if (op->whole[a] || n > op->image[a])
                    n = op->image[a];
                *m = vp_max64(*m, n);
            }
    }
}

struct arena {
    char *base; /* NULL: only count */
    uint64_t at;
};

static void place(struct arena *a, uint64_t bytes, void **where)
{
    if (a->base)
        *where = bytes ? a->base + a->at : NULL;
    a->at += round_up(bytes, VP_ALIGN);
}

/* Where everything lies in the one allocation, w->memory; without it the bytes are only counted. */
static uint64_t lay_out(struct vp_lanes *w)
{
    const struct vp_chain *c = w->chain;
    struct arena a = {w->memory, 0};
    uint64_t scratch = 0;
    for (int s = 0; s < c->n; s++) {
        const struct vp_op *op = &c->stage[s];
        struct stage *stage = &w->stage[s];
        const struct vp_kernel *k = stage->kernel;
        int64_t most[3] = {0};
        for (int axis = 0; axis < 3; axis++)
            for (int i = 0; i < op->inputs; i++)
                most[axis] = vp_max64(most[axis],
                                      op->from[i] < 0 ? w->in[axis] : w->stage[op->from[i]].made[axis]);
        const uint64_t need = k->scratch ? k->scratch(op, most, stage->made) : 0;
        scratch = need > scratch ? need : scratch;
        place(&a, (k->table ? k->table(op) : 0) + (k->made ? k->made(op) : 0), &stage->table);
        if (s < c->n - 1)
            place(&a, area_bytes(stage->made, op->out), &stage->result);
    }
    place(&a, scratch, &w->scratch);
    for (int l = 0; l < w->lanes; l++) {
        for (int i = 0; i < c->stacks; i++)
            place(&a, area_bytes(w->in, stack_type(c, i)), &w->lane[l].in[i]);
        for (int i = 0; i < outputs_of(last_of(c)); i++)
            place(&a, area_bytes(w->out, type_of(last_of(c), i)), &w->lane[l].out[i]);
        place(&a, w->state, &w->lane[l].state);
    }
    return a.at;
}

/* What can be said without a device: kernels and sizes. */
static int describe(struct vp_lanes *w, const struct vp_kind *kind, const struct vp_chain *chain, const int64_t in[3],
                    const int64_t out[3], int lanes)
{
    *w = (struct vp_lanes){.kind = kind, .chain = chain, .lanes = lanes, .last = -1};
    memcpy(w->in, in, sizeof w->in);
    memcpy(w->out, out, sizeof w->out);
    w->stage = calloc((size_t)chain->n, sizeof *w->stage);
    if (!w->stage)
        return -1;
    for (int s = 0; s < chain->n; s++)
        if (!(w->stage[s].kernel = kind->kernel(chain->stage[s].kernel))) {
            free(w->stage);
            return -1;
        }
    most_made(chain, out, w->stage);
    const struct vp_kernel *const k = w->stage[chain->n - 1].kernel;
    w->state = k->state ? k->state(&chain->stage[chain->n - 1], out) : 0;
    return 0;
}

uint64_t vp_lanes_bytes(const struct vp_kind *kind, const struct vp_chain *chain, const int64_t in[3],
                        const int64_t out[3], int lanes)
{
    struct vp_lanes w;
    if (describe(&w, kind, chain, in, out, lanes))
        return UINT64_MAX;
    const uint64_t bytes = lay_out(&w);
    free(w.stage);
    return bytes;
}

/* ---- life ---- */

static int fill_tables(struct vp_lanes *w, struct vp_err *err)
{
    for (int s = 0; s < w->chain->n; s++) {
        const struct vp_op *op = &w->chain->stage[s];
        const struct vp_kernel *k = w->stage[s].kernel;
        const uint64_t bytes = k->table ? k->table(op) : 0;
        void *host = bytes ? calloc(1, bytes) : NULL;
        if (!bytes)
            continue;
        if (!host)
            return vp_fail(err, VP_ERESOURCE, "not enough memory");
        k->fill(op, host);
        const struct vp_pitched from = {host, (int64_t)bytes, (int64_t)bytes},
                                to = {w->stage[s].table, (int64_t)bytes, (int64_t)bytes};
        int rc = w->kind->copy(w->work, &to, &from, (const int64_t[3]){(int64_t)bytes, 1, 1}, VP_UP, err)
                 || (k->make && k->make(op, w->stage[s].table, w->work, err));
        rc = rc || w->kind->mark(w->work, w->lane[0].worked, err) || w->kind->wait(w->lane[0].worked, err) ? -1 : 0;
        free(host);
        if (rc)
            return -1;
    }
    return 0;
}

static int make_queues(struct vp_lanes *w, struct vp_err *err)
{
    const struct vp_kind *k = w->kind;
    if (k->queue(w->device, &w->up, err) || k->queue(w->device, &w->work, err) || k->queue(w->device, &w->down, err))
        return -1;
    for (int l = 0; l < w->lanes; l++) {
        struct lane *lane = &w->lane[l];
        if (w->state && !(lane->told = malloc((size_t)w->state)))
            return vp_fail(err, VP_ERESOURCE, "not enough memory");
        if (k->event(w->device, true, &lane->uploaded, err) || k->event(w->device, false, &lane->started, err)
            || k->event(w->device, false, &lane->worked, err) || k->event(w->device, true, &lane->downloaded, err))
            return -1;
    }
    return 0;
}

int vp_lanes_open(struct vp_lanes **out_w, const struct vp_kind *kind, int device, const struct vp_chain *chain,
                  const int64_t in[3], const int64_t out[3], int lanes, struct vp_err *err)
{
    char why[256];
    *out_w = NULL;
    if (lanes < 1 || lanes > VP_MAX_LANES || chain->n < 1)
        return vp_fail(err, VP_ERUN, "a worker has 1 to %d lanes and a stage or more", VP_MAX_LANES);
    if (!vp_lanes_have(kind, chain, why, sizeof why))
        return vp_fail(err, VP_ERESOURCE, "the %s device cannot do this: %s", kind->name, why);
    struct vp_lanes *w = malloc(sizeof *w);
    if (!w || describe(w, kind, chain, in, out, lanes)) {
        free(w);
        return vp_fail(err, VP_ERESOURCE, "not enough memory");
    }
    w->device = device;
    if (!(w->made = calloc((size_t)chain->n, sizeof *w->made)))
        vp_fail(err, VP_ERESOURCE, "not enough memory");
    else if (!kind->alloc(device, lay_out(w), &w->memory, err) && !make_queues(w, err)) {
        lay_out(w);
        if (!fill_tables(w, err)) {
            *out_w = w;
            return 0;
        }
    }
    vp_lanes_close(w);
    return -1;
}

void vp_lanes_close(struct vp_lanes *w)
{
    if (!w)
        return;
    const struct vp_kind *k = w->kind;
    k->unqueue(w->up);
    k->unqueue(w->work);
    k->unqueue(w->down);
    for (int l = 0; l < w->lanes; l++) {
        struct lane *lane = &w->lane[l];
        free(lane->told);
        k->unevent(lane->uploaded);
        k->unevent(lane->started);
        k->unevent(lane->worked);
        k->unevent(lane->downloaded);
    }
    if (w->memory)
        k->release(w->device, w->memory);
    free(w->stage);
    free(w->made);
    free(w);
}

/* ---- copies ---- */

static struct vp_area area_of(void *data, const struct vp_box *box, enum vp_type t)
{
    const int64_t pitch = pitch_of(vp_box_size(box, 0), t);
    return (struct vp_area){.box = *box, .pitch = pitch, .plane = pitch * vp_box_size(box, 1), .data = data};
}

static bool fits(const struct vp_box *box, const int64_t most[3])
{
    for (int a = 0; a < 3; a++)
        if (vp_box_size(box, a) < 1 || vp_box_size(box, a) > most[a])
            return false;
    return true;
}

/* Planes from z on of a part between host and device: as few copies as the host's plane pointers allow. */
static int copy_planes(struct vp_lanes *w, struct vp_queue *q, const struct vp_area *d, const struct vp_part *h,
                       int64_t z, enum vp_type t, enum vp_way way, struct vp_err *err)
{
    const int64_t size = (int64_t)vp_type_size(t), nz = vp_box_size(&h->box, 2), rows = vp_box_size(&h->box, 1);
    const int64_t width = vp_box_size(&h->box, 0) * size, row = h->stride * size;
    *(way == VP_UP ? &w->bytes_up : &w->bytes_down) += (uint64_t)(width * rows * (nz - z));
    while (z < nz) {
        char *const host = h->plane[z];
        /* planes that follow each other at equal steps */
        int64_t n = 1;
        const int64_t step = z + 1 < nz ? (char *)h->plane[z + 1] - host : 0;
        while (step >= row * rows && z + n < nz && (char *)h->plane[z + n] - (char *)h->plane[z + n - 1] == step)
            n++;
        struct vp_pitched there = {(char *)d->data + z * d->plane * size, d->pitch * size, d->plane * size},
                          here = {host, row, n > 1 ? step : row * rows};
        int64_t box[3] = {width, rows, n};
        if (rows == 1) { /* planes of one row are rows of one plane */
            there.row = there.plane, here.row = here.plane;
            box[1] = n, box[2] = 1;
            there.plane *= n, here.plane *= n;
        }
        if (w->kind->copy(q, way == VP_UP ? &there : &here, way == VP_UP ? &here : &there, box, way, err))
            return -1;
        z += n;
    }
    return 0;
}

/* The last `n` planes of the part before become the first of this one. */
static int carry_planes(struct vp_lanes *w, void *to, const void *from, const struct vp_box *before,
                        const struct vp_box *box, int64_t n, enum vp_type t, struct vp_err *err)
{
    const int64_t page = pitch_of(vp_box_size(box, 0), t) * vp_box_size(box, 1) * (int64_t)vp_type_size(t);
    const int64_t first = vp_box_size(before, 2) - n;
    /* in place: in steps that do not overlap */
    const int64_t most = to == from ? first : n;
    for (int64_t z = 0; most > 0 && z < n; z += most) {
        const int64_t bytes = vp_min64(n - z, most) * page;
        const struct vp_pitched a = {(char *)to + z * page, bytes, bytes},
                                b = {(char *)(uintptr_t)from + (z + first) * page, bytes, bytes};
        if (w->kind->copy(w->up, &a, &b, (const int64_t[3]){bytes, 1, 1}, VP_WITHIN, err))
            return -1;
    }
    return 0;
}

static bool can_carry(const struct vp_box *before, const struct vp_box *box, int64_t n)
{
    for (int a = 0; a < 2; a++)
        if (before->lo[a] != box->lo[a] || before->hi[a] != box->hi[a])
            return false;
    return n <= vp_box_size(before, 2) && n <= vp_box_size(box, 2) && box->lo[2] + n == before->hi[2];
}

static int upload(struct vp_lanes *w, struct lane *lane, const struct vp_part *in, int64_t carry, struct vp_err *err)
{
    const struct lane *before = w->last < 0 ? NULL : &w->lane[w->last];
    /* the kernels that read these buffers last, and those that read what is carried within one buffer */
    if (w->kind->after(w->up, lane->worked, err))
        return -1;
    for (int i = 0; i < w->chain->stacks; i++) {
        const enum vp_type t = stack_type(w->chain, i);
        if (!fits(&in[i].box, w->in))
            return vp_fail(err, VP_ERUN, "a part is larger than the worker's buffers");
        if (carry > 0 && !(before && can_carry(&before->box[i], &in[i].box, carry)))
            return vp_fail(err, VP_ERUN, "a part does not continue the one before it");
        if (carry > 0
            && carry_planes(w, lane->in[i], before->in[i], &before->box[i], &in[i].box, carry, t, err))
            return -1;
        const struct vp_area d = area_of(lane->in[i], &in[i].box, t);
        if (copy_planes(w, w->up, &d, &in[i], carry, t, VP_UP, err))
            return -1;
    }
    for (int i = 0; i < w->chain->stacks; i++)
        lane->box[i] = in[i].box;
    return w->kind->mark(w->up, lane->uploaded, err);
}

/* ---- work ---- */

static int run_stages(struct vp_lanes *w, struct lane *lane, const struct vp_box *out, enum vp_visit visit,
                      struct vp_err *err)
{
    const struct vp_chain *c = w->chain;
    struct vp_box given[VP_MAX_INPUTS];
    vp_chain_boxes(c, out, w->made, given);
    for (int s = 0; s < c->n; s++) {
        const struct vp_op *op = &c->stage[s];
        struct vp_area in[VP_MAX_INPUTS];
        for (int i = 0; i < op->inputs; i++) {
            const int f = op->from[i];
            in[i] = f < 0 ? area_of(lane->in[~f], &lane->box[~f], op->in)
                          : area_of(w->stage[f].result, &w->made[f], op->in);
        }
        const bool last = s == c->n - 1;
        const struct vp_box *box = last ? out : &w->made[s];
        if (vp_box_size(box, 0) <= 0 || vp_box_size(box, 1) <= 0 || vp_box_size(box, 2) <= 0)
            continue; /* nobody reads it */
        if (!fits(box, w->stage[s].made))
            return vp_fail(err, VP_ERUN, "a part is larger than the worker's buffers");
        struct vp_area to[2] = {area_of(last ? lane->out[0] : w->stage[s].result, box, op->out)};
        if (op->twin)
            to[1] = area_of(lane->out[1], box, op->twin_out);
        void *const state = visit == VP_MAKE && !op->tells ? w->lane[0].state : lane->state;
        const struct vp_work work = {.visit = last ? visit : VP_MAKE, .state = state,
                                     .in = in, .out = to, .table = w->stage[s].table, .scratch = w->scratch,
                                     .queue = w->work};
        if (w->stage[s].kernel->launch(op, &work, err))
            return -1;
    }
    return 0;
}

/* Upload and kernels of one part. */
static int begin(struct vp_lanes *w, int lane_index, const struct vp_part *in, const struct vp_box *out, int64_t carry,
                 enum vp_visit visit, struct vp_err *err)
{
    const struct vp_kind *k = w->kind;
    struct lane *lane = &w->lane[lane_index];
    if (lane->busy && vp_lanes_wait(w, lane_index, err))
        return -1;
    if (upload(w, lane, in, carry, err))
        return -1;
    w->last = lane_index;
    return k->after(w->work, lane->uploaded, err) || k->mark(w->work, lane->started, err)
           || run_stages(w, lane, out, visit, err) || k->mark(w->work, lane->worked, err) ? -1 : 0;
}

/* Of a state between a lane and the host. */
static int copy_state(struct vp_lanes *w, struct lane *lane, struct vp_queue *q, enum vp_way way, struct vp_err *err)
{
    const int64_t n = (int64_t)lane->bytes;
    const struct vp_pitched there = {lane->state, n, n}, here = {lane->told, n, n};
    *(way == VP_UP ? &w->bytes_up : &w->bytes_down) += lane->bytes;
    return w->kind->copy(q, way == VP_UP ? &there : &here, way == VP_UP ? &here : &there, (const int64_t[3]){n, 1, 1},
                         way, err);
}

static int download(struct vp_lanes *w, struct lane *lane, const struct vp_part *out, struct vp_err *err)
{
    const struct vp_op *op = last_of(w->chain);
    if (w->kind->after(w->down, lane->worked, err))
        return -1;
    lane->busy = true;
    for (int i = 0; i < outputs_of(op); i++) {
        const struct vp_area d = area_of(lane->out[i], &out->box, type_of(op, i));
        if (copy_planes(w, w->down, &d, &out[i], 0, type_of(op, i), VP_DOWN, err))
            return -1;
    }
    if (lane->tells && copy_state(w, lane, w->down, VP_DOWN, err))
        return -1;
    return w->kind->mark(w->down, lane->downloaded, err);
}

int vp_lanes_submit(struct vp_lanes *w, int lane_index, const struct vp_part *in, const struct vp_part *out,
                    int64_t carry, struct vp_err *err)
{
    struct lane *lane = &w->lane[lane_index];
    if (begin(w, lane_index, in, &out->box, carry, VP_MAKE, err))
        return -1;
    lane->bytes = w->chain->stage[w->chain->n - 1].tells;
    lane->tells = lane->bytes > 0;
    return download(w, lane, out, err);
}

int vp_lanes_state(struct vp_lanes *w, int lane_index, enum vp_visit visit, const struct vp_part *in,
                   const struct vp_box *box, struct vp_err *err)
{
    struct lane *lane = &w->lane[lane_index];
    const int last = w->chain->n - 1;
    const int64_t size[3] = {vp_box_size(box, 0), vp_box_size(box, 1), vp_box_size(box, 2)};
    lane->bytes = w->stage[last].kernel->state(&w->chain->stage[last], size);
    if (begin(w, lane_index, in, box, 0, visit, err) || w->kind->after(w->down, lane->worked, err))
        return -1;
    lane->busy = true;
    return copy_state(w, lane, w->down, VP_DOWN, err) || w->kind->mark(w->down, lane->downloaded, err) ? -1 : 0;
}

int vp_lanes_finish(struct vp_lanes *w, int lane_index, const struct vp_part *in, const struct vp_part *out,
                    const void *entry, struct vp_err *err)
{
    struct lane *lane = &w->lane[lane_index];
    if (lane->busy && vp_lanes_wait(w, lane_index, err))
        return -1;
    memcpy(&lane->bytes, entry, sizeof lane->bytes);
    memcpy(lane->told, entry, (size_t)lane->bytes);
    return copy_state(w, lane, w->work, VP_UP, err) || begin(w, lane_index, in, &out->box, 0, VP_FINISH, err)
           || download(w, lane, out, err) ? -1 : 0;
}

const void *vp_lanes_total(struct vp_lanes *w, int lane_index, uint64_t *bytes, struct vp_err *err)
{
    *bytes = w->lane[lane_index].bytes;
    return vp_lanes_wait(w, lane_index, err) ? NULL : w->lane[lane_index].told;
}

int vp_lanes_apply(struct vp_lanes *w, int lane_index, const struct vp_part *out, const void *before,
                   struct vp_err *err)
{
    const struct vp_kind *k = w->kind;
    struct lane *lane = &w->lane[lane_index];
    const struct vp_op *op = last_of(w->chain);
    struct vp_area to[2] = {area_of(lane->out[0], &out->box, op->out)};
    if (op->twin)
        to[1] = area_of(lane->out[1], &out->box, op->twin_out);
    const struct vp_work work = {.visit = VP_APPLY, .state = lane->state, .out = to, .queue = w->work,
                                 .table = w->stage[w->chain->n - 1].table, .scratch = w->scratch};
    memcpy(lane->told, before, (size_t)lane->bytes);
    return copy_state(w, lane, w->work, VP_UP, err) || k->mark(w->work, lane->started, err)
           || w->stage[w->chain->n - 1].kernel->launch(op, &work, err) || k->mark(w->work, lane->worked, err)
           || download(w, lane, out, err) ? -1 : 0;
}

int vp_lanes_wait(struct vp_lanes *w, int lane_index, struct vp_err *err)
{
    struct lane *lane = &w->lane[lane_index];
    if (!lane->busy)
        return 0;
    lane->busy = false;
    if (w->kind->wait(lane->downloaded, err)) {
        lane->tells = false;
        return -1;
    }
    w->seconds += w->kind->between(lane->started, lane->worked);
    const struct vp_op *op = &w->chain->stage[w->chain->n - 1];
    if (lane->tells)
        op->tell(op, lane->told);
    lane->tells = false;
    return 0;
}

void vp_lanes_stats(const struct vp_lanes *w, double *seconds, uint64_t *up, uint64_t *down)
{
    *seconds = w->seconds;
    *up = w->bytes_up;
    *down = w->bytes_down;
}
