/* SPDX-License-Identifier: BSD-3-Clause */
/* The worker of a device: puts parts of columns into its lanes, and smaller ones where its memory runs short. Planes
 * that two parts share are copied in the queue of uploads, from a buffer that the same queue filled, so they need no
 * event. */
#include "base/err.h"
#include "base/size.h"
#include "engine/execute_internal.h"
#include "engine/store.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static const struct vp_op *last_of(const struct worker *w)
{
    return &w->device->chain->stage[w->device->chain->n - 1];
}

static struct lane *lane_of(const struct worker *w, int64_t part)
{
    return &w->device->lane[part % w->lanes];
}

static bool fits(const struct vp_box *box, const int64_t most[3])
{
    for (int a = 0; a < 3; a++)
        if (vp_box_size(box, a) < 1 || vp_box_size(box, a) > most[a])
            return false;
    return true;
}

/* ---- copies ---- */

/* Copies n[0] bytes of each of n[1] rows of n[2] planes between the device and the host. */
static int copy(struct worker *w, struct vp_queue *q, enum vp_way way, const struct vp_pitched *there,
                const struct vp_pitched *here, const int64_t n[3], struct vp_err *err)
{
    *(way == VP_UP ? &w->up : &w->down) += (uint64_t)(n[0] * n[1] * n[2]);
    return w->device->backend->copy(q, way == VP_UP ? there : here, way == VP_UP ? here : there, n, way, err);
}

/* Copies the planes of a part from z on, in as few copies as the host's plane pointers allow. */
static int copy_planes(struct worker *w, struct vp_queue *q, enum vp_way way, void *data, const struct vp_part *h,
                       int64_t z, enum vp_type t, struct vp_err *err)
{
    const struct vp_area d = vp_lanes_area(data, &h->box, t);
    const int64_t size = (int64_t)vp_type_size(t), nz = vp_box_size(&h->box, 2), rows = vp_box_size(&h->box, 1);
    const int64_t width = vp_box_size(&h->box, 0) * size, row = h->stride * size;
    for (int64_t n; z < nz; z += n) {
        char *const host = h->plane[z];
        const int64_t step = z + 1 < nz ? (char *)h->plane[z + 1] - host : 0;
        for (n = 1; step >= row * rows && z + n < nz; n++) /* planes that follow each other at equal steps */
            if ((char *)h->plane[z + n] - (char *)h->plane[z + n - 1] != step)
                break;
        const struct vp_pitched there = {(char *)d.data + z * d.plane * size, d.pitch * size, d.plane * size},
                                here = {host, row, n > 1 ? step : row * rows};
        if (copy(w, q, way, &there, &here, (const int64_t[3]){width, rows, n}, err))
            return -1;
    }
    return 0;
}

static int copy_state(struct worker *w, const struct lane *lane, struct vp_queue *q, enum vp_way way,
                      struct vp_err *err)
{
    const int64_t n = (int64_t)lane->bytes;
    const struct vp_pitched there = {lane->state, n, n}, here = {lane->on_host, n, n};
    return copy(w, q, way, &there, &here, (const int64_t[3]){n, 1, 1}, err);
}

/* Copies the last `n` planes of the part before to the first of this one. */
static int carry_planes(struct worker *w, void *to, const void *from, const struct vp_box *before,
                        const struct vp_box *box, int64_t n, enum vp_type t, struct vp_err *err)
{
    const int64_t page = vp_lanes_area(to, box, t).plane * (int64_t)vp_type_size(t);
    const int64_t first = vp_box_size(before, 2) - n;
    /* in place: in steps that do not overlap */
    const int64_t most = to == from ? first : n;
    for (int64_t z = 0; most > 0 && z < n; z += most) {
        const int64_t bytes = vp_min64(n - z, most) * page;
        const struct vp_pitched a = {(char *)to + z * page, bytes, bytes},
                                b = {(char *)(uintptr_t)from + (z + first) * page, bytes, bytes};
        if (w->device->backend->copy(w->device->up, &a, &b, (const int64_t[3]){bytes, 1, 1}, VP_WITHIN, err))
            return -1;
    }
    return 0;
}

static bool same_column(const struct column *a, const struct column *b)
{
    return a->time == b->time && a->channel == b->channel && a->ix == b->ix && a->iy == b->iy;
}

/* Returns the planes of input box `in` of a lane's part that the part before left on the device, which had `was`. */
static int64_t carried(const struct worker *w, const struct lane *lane, const struct vp_box *was,
                       const struct vp_box *in)
{
    const struct vp_engine *r = w->r;
    const struct column *b = &w->before, *c = &lane->column;
    if (r->e->pass != VP_MAKE || r->plan->offset || !b->slab || !same_column(b, c) || b->z != c->z)
        return 0;
    return vp_max64(0, was->hi[2] - in->lo[2]);
}

static int upload(struct worker *w, struct lane *lane, const struct vp_part *in, struct vp_err *err)
{
    const struct lanes *d = w->device;
    const struct lane *before = lane_of(w, w->submitted + w->lanes - 1);
    const struct vp_box was = before->box;
    const enum vp_type t = d->chain->stage[0].in;
    const int64_t carry = carried(w, lane, &was, &in->box);
    /* the kernels that read these buffers last, and those that read what is carried within one buffer */
    int rc = d->backend->queue_wait(d->up, lane->worked, err);
    assert(fits(&in->box, d->in) && (!carry || in->box.lo[2] + carry == was.hi[2]));
    for (int i = 0; i < d->chain->stacks && !rc; i++)
        rc = (carry && carry_planes(w, lane->in[i], before->in[i], &was, &in->box, carry, t, err))
             || copy_planes(w, d->up, VP_UP, lane->in[i], &in[i], carry, t, err);
    lane->box = in->box;
    return rc || d->backend->event_record(d->up, lane->uploaded, err) ? -1 : 0;
}

/* ---- work ---- */

static int run_stages(const struct worker *w, const struct lane *lane, enum vp_pass pass, struct vp_err *err)
{
    const struct lanes *d = w->device;
    const struct vp_chain *c = d->chain;
    const struct vp_box *out = &lane->made[0].box;
    struct vp_box given[VP_MAX_INPUTS];
    vp_chain_boxes(c, out, d->made, given);
    for (int s = pass == VP_SCATTER ? c->n - 1 : 0; s < c->n; s++) {
        const struct vp_op *op = &c->stage[s];
        struct vp_area in[VP_MAX_INPUTS];
        for (int i = 0; i < op->inputs; i++) {
            const int f = op->from[i];
            in[i] = f < 0 ? vp_lanes_area(lane->in[~f], &lane->box, op->in)
                          : vp_lanes_area(d->stage[f].result, &d->made[f], op->in);
        }
        const bool last = s == c->n - 1;
        const struct vp_box *box = &d->made[s];
        if (vp_box_size(box, 0) <= 0 || vp_box_size(box, 1) <= 0 || vp_box_size(box, 2) <= 0)
            continue; /* no stage reads it */
        assert(fits(box, d->stage[s].made));
        struct vp_area to[2] = {vp_lanes_area(last ? lane->out[0] : d->stage[s].result, box, op->out)};
        if (op->second)
            to[1] = vp_lanes_area(lane->out[1], box, *op->second);
        void *const state = pass == VP_MAKE && !op->report ? d->lane[0].state : lane->state;
        const struct vp_work work = {.pass = last ? pass : VP_MAKE, .state = state,
                                     .in = in, .out = to, .table = d->stage[s].table,
                                     .scratch = last && d->image ? d->image : d->scratch, .queue = d->work};
        if (d->stage[s].kernel->launch(op, &work, err))
            return -1;
    }
    return 0;
}

/* Queues a lane's part: its upload, all stages, and the download of the result or of the state. VP_APPLY: the
 * result is on the device, and the prefix before it in lane->on_host. */
static int queue_part(struct worker *w, struct lane *lane, enum vp_pass pass, const struct vp_part *in,
                      struct vp_err *err)
{
    const struct lanes *d = w->device;
    const struct vp_backend *k = d->backend;
    const struct vp_op *op = last_of(w);
    const bool state = pass == VP_LOCAL || pass == VP_SUMMARY;
    if ((pass == VP_APPLY || pass == VP_FINISH) && copy_state(w, lane, d->work, VP_UP, err))
        return -1;
    if (pass != VP_APPLY && pass != VP_SCATTER
        && (upload(w, lane, in, err) || k->queue_wait(d->work, lane->uploaded, err)))
        return -1;
    if (k->event_record(d->work, lane->started, err) || run_stages(w, lane, pass, err)
        || k->event_record(d->work, lane->worked, err) || k->queue_wait(d->down, lane->worked, err))
        return -1;
    for (int i = 0; i < w->r->outputs && !state && pass != VP_GATHER; i++)
        if (copy_planes(w, d->down, VP_DOWN, lane->out[i], &lane->made[i], 0, i ? *op->second : op->out, err))
            return -1;
    if ((state || (pass == VP_MAKE && op->report)) && copy_state(w, lane, d->down, VP_DOWN, err))
        return -1;
    return k->event_record(d->down, lane->downloaded, err);
}

static int wait_lane(struct worker *w, struct lane *lane, struct vp_err *err)
{
    const struct vp_backend *k = w->device->backend;
    if (k->event_synchronize(lane->downloaded, err))
        return -1;
    w->device_s += k->event_elapsed(lane->started, lane->worked);
    return 0;
}

/* Submits the next part of a column; its lane is free. */
static int submit(struct worker *w, struct column *c, struct vp_err *err)
{
    struct vp_engine *r = w->r;
    struct lane *lane = lane_of(w, w->submitted);
    const struct vp_op *op = last_of(w);
    const enum vp_pass pass = r->plan->offset ? VP_LOCAL : r->e->pass;
    struct vp_part in[VP_MAX_INPUTS];

    if (!lane->pointers && !(lane->pointers = vp_engine_pointers(r, err)))
        return -1;
    lane->column = *c;
    vp_engine_next_part(r, c, w->depth, in, lane->made, lane->pointers);
    lane->ends = c->z == c->z1 ? c->slab : NULL;
    const struct vp_box *box = &lane->made[0].box;
    const int64_t size[3] = {vp_box_size(box, 0), vp_box_size(box, 1), vp_box_size(box, 2)};
    const bool boxes = r->e->pass == VP_SUMMARY || r->e->pass == VP_FINISH;
    lane->number = boxes ? vp_engine_box(r, &lane->column, box) : 0;
    lane->bytes = pass == VP_MAKE     ? (op->report ? op->report->bytes : 0)
                  : pass == VP_GATHER || pass == VP_SCATTER ? 0
                  : pass == VP_FINISH ? vp_store_bytes(r->e->store, lane->number)
                                       : w->device->stage[w->device->chain->n - 1].kernel->state(op, size);
    if ((pass == VP_FINISH && vp_store_get(r->e->store, lane->number, lane->on_host, err))
        || queue_part(w, lane, pass, in, err)) {
        *c = lane->column;
        return -1;
    }
    w->before = *c;
    w->submitted++;
    w->parts++;
    return 0;
}

/* Waits for the prefix of a segment, adds the segment's aggregate to it for the next one, and queues VP_APPLY. Segments
 * are taken in order, so workers wait only for segments before their own. */
static int apply(struct worker *w, struct lane *lane, struct vp_err *err)
{
    struct vp_engine *r = w->r;
    const struct vp_box *box = &lane->made[0].box;
    const int64_t start = vp_engine_start(r, lane->column.time);
    const size_t n = (size_t)lane->bytes;
    struct carried *carried = vp_engine_carried(r, &lane->column);
    int rc = 0;
    if (wait_lane(w, lane, err))
        return -1;
    pthread_mutex_lock(&r->lock);
    while (!r->stop && carried->g != start + box->lo[2])
        pthread_cond_wait(&r->moved, &r->lock);
    if (r->stop || (!carried->value && !(carried->value = malloc(2 * n)))) {
        rc = r->stop ? vp_fail(err, VP_ERUN, "stopped") : vp_fail(err, VP_ERESOURCE, "out of memory");
    } else {
        char *const now = carried->value, *const before = now + n;
        if (box->lo[2] == 0)
            memset(now, 0, n);
        memcpy(before, now, n);
        r->scan->carry->combine(r->scan, now, lane->on_host, n);
        memcpy(lane->on_host, before, n);
        carried->g = start + box->hi[2];
        pthread_cond_broadcast(&r->moved);
    }
    pthread_mutex_unlock(&r->lock);
    if (rc || queue_part(w, lane, VP_APPLY, NULL, err))
        return -1;
    w->applied++;
    return 0;
}

/* Completes the oldest part in flight. */
static int finish(struct worker *w, struct vp_err *err)
{
    struct vp_engine *r = w->r;
    struct lane *lane = lane_of(w, w->finished);
    const struct vp_op *op = last_of(w);
    uint64_t bytes;
    if (wait_lane(w, lane, err))
        return -1;
    if (r->e->pass == VP_MAKE && !r->plan->offset && op->report)
        op->report->add(op, lane->on_host);
    if (r->e->pass == VP_SUMMARY) {
        memcpy(&bytes, lane->on_host, sizeof bytes);
        if (vp_store_put(r->e->store, lane->number, lane->on_host, bytes, err))
            return -1;
    }
    if (lane->ends) {
        pthread_mutex_lock(&r->lock);
        vp_engine_column_done(r, lane->ends);
        pthread_mutex_unlock(&r->lock);
    }
    w->finished++;
    return 0;
}

/* ---- memory that runs short ---- */

static void size_of_parts(const struct worker *w, int64_t in[3], int64_t out[3])
{
    const struct vp_engine *r = w->r;
    memcpy(in, r->plan->in, sizeof r->plan->in);
    memcpy(out, r->plan->part, sizeof r->plan->part);
    out[2] = w->depth;
    in[2] = vp_min64(in[2], vp_chain_extent(r->e->chain, 2, w->depth));
}

int vp_engine_open_device(struct worker *w, struct vp_err *err)
{
    int64_t in[3], out[3];
    size_of_parts(w, in, out);
    w->device = vp_lanes_open(w->r->p->backend, w->number, w->r->e->chain, in, out, w->lanes,
                              w->r->plan->held > 0, err);
    return w->device ? 0 : -1;
}

/* True if the input of a column is in the window until the column is done. Planes that a stream has carried along on
 * the device are not, even if they are still there because another device is late. */
static bool is_here(const struct vp_engine *r, const struct column *c)
{
    if (r->flow)
        return true;
    if (r->scan && r->plan->stream && c->z > 0) /* the value was on the device */
        return false;
    const struct vp_box out = {{0, 0, c->z}, {r->nx, r->ny, c->z + 1}};
    return vp_engine_input_start(r, c->time) + vp_engine_region(r, &out).lo[2] >= vp_engine_kept(r, c->slab->g0);
}

/* Fails: there is no smaller part. */
static int not_enough(const struct worker *w, const struct vp_err *why, struct vp_err *err)
{
    const struct vp_engine *r = w->r;
    int64_t in[3], out[3];
    size_of_parts(w, in, out);
    *err = (struct vp_err)VP_ERR_INIT;
    vp_fail(err, VP_ERESOURCE, "%s: the work takes %s of the device's memory", why->msg,
            vp_bytes_text(vp_lanes_bytes(r->p->backend, r->e->chain, in, out, w->lanes, false)).text);
    return vp_hint(err, "close what else uses the device, or use --device cpu");
}

/* Opens a device that ran short of memory again for smaller parts, and queues its columns in flight to be done again
 * (`now` could not be submitted, or is NULL). Nothing of these slabs has been written yet. -1 with the first error. */
static int make_smaller(struct worker *w, const struct column *now, struct vp_err *err)
{
    struct vp_engine *r = w->r;
    struct column all[VP_MAX_LANES + 1];
    const struct vp_err why = *err;
    int n = 0;

    for (int64_t i = w->finished; i <= w->submitted; i++) {
        const struct column *c = i < w->submitted ? &lane_of(w, i)->column : now;
        if (c && !(n && all[n - 1].slab == c->slab && same_column(&all[n - 1], c)))
            all[n++] = *c;
    }
    for (int i = 0; i < n; i++)
        if (!is_here(r, &all[i]))
            return not_enough(w, &why, err);
    vp_lanes_close(w->device);
    w->device = NULL;
    w->before.slab = NULL;
    w->submitted = w->finished = 0;
    do {
        if (w->depth > r->step)
            w->depth = ((w->depth + 1) / 2 + r->step - 1) / r->step * r->step;
        else if (w->lanes > 1)
            w->lanes--;
        else
            return not_enough(w, &why, err);
        *err = (struct vp_err)VP_ERR_INIT;
    } while (vp_engine_open_device(w, err) && err->code == VP_ERESOURCE);
    if (!w->device)
        return -1;
    while (n > 0)
        w->again[w->n_again++] = all[--n];
    pthread_mutex_lock(&r->lock);
    r->e->smaller++;
    pthread_mutex_unlock(&r->lock);
    return 0;
}

/* ---- all of it ---- */

/* Gets the next column: one to be done again, or a new one. */
static bool get_column(struct worker *w, bool block, struct column *c)
{
    if (w->n_again) {
        *c = w->again[--w->n_again];
        return true;
    }
    pthread_mutex_lock(&w->r->lock);
    const bool go = vp_engine_await(w->r, w, block, c);
    pthread_mutex_unlock(&w->r->lock);
    return go;
}

int vp_engine_device(struct worker *w, struct vp_err *err)
{
    struct column c = {0};
    int rc = 0;
    const double t = vp_now();

    for (;;) {
        const int64_t busy = w->submitted - w->finished;
        const bool more = busy < w->lanes && (c.z < c.z1 || get_column(w, busy == 0, &c));
        if (!more && !busy)
            break;
        if (more)
            rc = submit(w, &c, err);
        else if (w->r->plan->offset && w->applied < w->submitted)
            rc = apply(w, lane_of(w, w->applied), err);
        else
            rc = finish(w, err);
        if (rc && err->code == VP_ERESOURCE && w->device && !w->r->plan->offset && !w->device->held
            && !make_smaller(w, more ? &c : NULL, err)) {
            rc = 0;
            c.z = c.z1;
        }
        if (rc)
            break;
    }
    for (; w->finished < w->submitted && w->device; w->finished++) /* the first failure is reported */
        wait_lane(w, lane_of(w, w->finished), NULL);
    w->before.slab = NULL;
    w->work_s += vp_now() - t;
    return rc;
}
