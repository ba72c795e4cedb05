/* SPDX-License-Identifier: BSD-3-Clause */
#include "ct/pair_internal.h"

#include "base/err.h"
#include "base/size.h"
#include "base/spill.h"
#include "ct/orbit.h"
#include "device/device.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Widest steps of kernels for columns: rows or voxels that they take at once, and columns that a pixel meets. */
static const double WIDEST_STEP = 3.9, WIDEST_PIXEL = 2.9;

enum { CHUNK_BYTES = 64 << 20 };

/* Views that wait on the device for their opposite ones, at most. */
static const int64_t WAITING_BYTES = (int64_t)5 << 29;

struct vp_pair_device {
    const struct vp_backend *backend;
    const struct vp_pair_kernels *kernels;
    int device;
    struct vp_queue *queue;
    struct vp_event *from, *to;
    struct vp_pair_shape shape;
    int64_t chunk;              /* slices that are copied at once */
    float *x, *sum, *y, *lines, *work, *slices;
    struct vp_pair_view *views;
    float *waiting;             /* room for views that are not added yet, in places */
    int room, n_waiting;
    int *view_at;               /* view for each place, -1: it is empty */
    int *order;                 /* places in the order in which their views came */
    int *place_of;              /* place for each view of the scan, -1: it does not wait */
    double project, collect;    /* seconds */
    struct vp_pair_stage *stage; /* pinned memory for copies of slices; or NULL */
    struct vp_pair_device *lead; /* the one whose memory for views, lines and slices is used: itself, or another one */
    struct vp_pair_device *next; /* next user of the same memory */
    bool sums;                  /* views are added to its sum */
};

static uint64_t batch_bytes(const struct vp_pair *p)
{
    return (uint64_t)(VP_PAIR_VIEWS * p->nu * p->nv) * sizeof(float);
}

static int64_t most_waiting(const struct vp_pair_shape *s)
{
    return WAITING_BYTES / (s->nu * s->nv * (int64_t)sizeof(float));
}

/* Returns the number of views that may wait. */
static int room_of(const struct vp_pair_shape *s, unsigned use)
{
    const int64_t room = s->opposite ? most_waiting(s) : s->slots;
    return use & VP_PAIR_SUMS ? (int)vp_min64(room, s->n_views) : 1;
}

static uint64_t waiting_bytes(const struct vp_pair_shape *s, unsigned use)
{
    return (uint64_t)(room_of(s, use) * s->nu * s->nv) * sizeof(float);
}

static int64_t chunk_of(const struct vp_pair *p)
{
    const int64_t page = p->n[0] * p->n[1] * (int64_t)sizeof(float);
    return vp_max64(1, vp_min64(p->n[2], CHUNK_BYTES / page));
}

static int taps_of(double step)
{
    return step <= 1 ? 2 : step <= 2 ? 3 : 5;
}

/* Sets the taps, or `general`. */
static void measure(struct vp_pair_shape *shape, const struct vp_pair *p)
{
    double rows = 0, least = INFINITY, voxels = 0, columns = 0, lines = 0;
    shape->flat = shape->general = p->flat;
    for (int64_t s = 0; s < p->n_views && !shape->general; s++) {
        const double *P = p->views[s].P;
        const int across = p->views[s].march == 0 ? 1 : 0;
        shape->general = !p->views[s].column;
        for (int corner = 0; corner < 4; corner++) {
            const double i = corner & 1 ? (double)p->n[0] - 0.5 : -0.5, j = corner & 2 ? (double)p->n[1] - 0.5 : -0.5;
            const double w = fmax(vp_orbit_dot(P + 8, i, j, 0), VP_ORBIT_NEAREST);
            const double u = vp_orbit_dot(P, i, j, 0) / w, width = fabs(P[across] - u * P[8 + across]) / w;
            rows = fmax(rows, P[6] / w);
            least = fmin(least, P[6] / w);
            voxels = fmax(voxels, w / P[6]);
            lines = fmax(lines, width);
            columns = fmax(columns, 1 / width);
        }
    }
    if (shape->general || !(rows < WIDEST_STEP && voxels < WIDEST_STEP && columns < WIDEST_PIXEL && lines < WIDEST_PIXEL)) {
        shape->general = true;
        return;
    }
    shape->rows_least = least;
    shape->rows_most = rows;
    shape->voxels_most = voxels;
    shape->row_taps = taps_of(rows);
    shape->voxel_taps = taps_of(voxels);
    shape->columns = columns;
    shape->line_taps = lines < 1.9 ? 3 : 4;
}

static int take(struct vp_pair_device *d, void *to, uint64_t bytes, struct vp_err *err)
{
    void *p = NULL;
    const int rc = d->backend->alloc(d->device, bytes, &p, err);
    memcpy(to, &p, sizeof p);
    return rc;
}

static int transfer(struct vp_pair_device *d, void *to, const void *from, uint64_t bytes, enum vp_way way,
                    struct vp_err *err)
{
    const int64_t n = (int64_t)bytes;
    const struct vp_pitched a = {to, n, n}, b = {(void *)(uintptr_t)from, n, n};
    return d->backend->copy(d->queue, &a, &b, (const int64_t[3]){n, 1, 1}, way, err);
}

/* Waits until all that is queued has been done. */
static int finish(struct vp_pair_device *d, struct vp_err *err)
{
    return d->backend->event_record(d->queue, d->to, err) || d->backend->event_synchronize(d->to, err) ? -1 : 0;
}

/* Empties all places. */
static void forget(struct vp_pair_device *d)
{
    d->n_waiting = 0;
    for (int i = 0; i < d->room; i++)
        d->view_at[i] = -1;
    for (int64_t i = 0; i < d->shape.n_views; i++)
        d->place_of[i] = -1;
}

int vp_pair_device_plan(struct vp_pair_shape *shape, const struct vp_pair *p, const struct vp_backend *backend, int device,
                        struct vp_err *err)
{
    const struct vp_pair_kernels *kernels = backend->kernels ? backend->kernels("pair") : NULL;
    *shape = (struct vp_pair_shape){.n = {p->n[0], p->n[1], p->n[2]}, .nu = p->nu, .nv = p->nv,
                                    .n_views = p->n_views, .scan = p->views,
                                    .voxel = {p->voxel[0], p->voxel[1], p->voxel[2]}};
    if (!kernels)
        return vp_fail(err, VP_ERESOURCE, "device %s: its plugin has no kernels for the pair", backend->name);
    measure(shape, p);
    shape->may_pair = most_waiting(shape) >= shape->n_views / 2 + VP_PAIR_VIEWS;
    return kernels->plan(device, shape, err);
}

/* Cuts the bytes of what is not used. */
static struct vp_pair_shape needed(const struct vp_pair_shape *shape, unsigned use)
{
    struct vp_pair_shape s = *shape;
    if (!(use & VP_PAIR_PROJECTS))
        s.x_bytes = VP_ALIGN;
    if (!(use & VP_PAIR_SUMS))
        s.sum_bytes = s.lines_bytes = VP_ALIGN;
    return s;
}

uint64_t vp_pair_device_bytes(const struct vp_pair_shape *shape, const struct vp_pair *p, unsigned use)
{
    const struct vp_pair_shape s = needed(shape, use);
    return s.x_bytes + s.sum_bytes + s.lines_bytes + s.work_bytes + batch_bytes(p) + waiting_bytes(&s, use)
         + (uint64_t)p->n_views * sizeof *p->views + (uint64_t)(chunk_of(p) * p->n[0] * p->n[1]) * sizeof(float);
}

uint64_t vp_pair_device_common(const struct vp_pair_shape *shape, const struct vp_pair *p, unsigned use)
{
    const struct vp_pair_shape s = needed(shape, use);
    return vp_pair_device_bytes(shape, p, use) - s.x_bytes - s.sum_bytes - (uint64_t)p->n_views * sizeof *p->views;
}

bool vp_pair_device_shares(const struct vp_pair_shape *a, const struct vp_pair_shape *b)
{
    /* lines keep zeros around views, so they must be laid out alike */
    return a->nu == b->nu && a->nv == b->nv && a->n[0] == b->n[0] && a->n[1] == b->n[1] && a->n[2] <= b->n[2]
        && a->slots == b->slots && a->opposite == b->opposite && a->lines_bytes == b->lines_bytes
        && a->work_bytes == b->work_bytes && a->projector == b->projector && a->collector == b->collector
        && a->channels == b->channels && a->set == b->set;
}

int64_t vp_pair_device_step(const struct vp_pair_shape *shape)
{
    return shape->opposite ? 0 : shape->slots; /* a view would wait for one of another block */
}

int vp_pair_device_open(struct vp_pair_device **out, const struct vp_pair *p, const struct vp_backend *backend,
                        int device, struct vp_err *err)
{
    struct vp_pair_shape shape;
    *out = NULL;
    return vp_pair_device_plan(&shape, p, backend, device, err)
        || vp_pair_device_open_planned(out, p, &shape, VP_PAIR_PROJECTS | VP_PAIR_SUMS, backend, device, NULL, NULL,
                                       err) ? -1 : 0;
}

/* Takes what several users may share: the queue, and memory for views, lines and slices. */
static int take_common(struct vp_pair_device *d, const struct vp_pair *p, unsigned use, struct vp_err *err)
{
    struct vp_pair_device *const lead = d->lead;
    if (lead != d) {
        d->queue = lead->queue;
        d->from = lead->from;
        d->to = lead->to;
        d->y = lead->y;
        d->lines = lead->lines;
        d->work = lead->work;
        d->slices = lead->slices;
        d->next = lead->next;
        lead->next = d;
        return 0;
    }
    return d->backend->queue_create(d->device, &d->queue, err) || d->backend->event_create(d->device, false, &d->from, err)
        || d->backend->event_create(d->device, false, &d->to, err) || take(d, &d->lines, d->shape.lines_bytes, err)
        || take(d, &d->work, d->shape.work_bytes, err) || take(d, &d->y, batch_bytes(p), err)
        || take(d, &d->waiting, waiting_bytes(&d->shape, use), err)
        || !(d->view_at = vp_alloc((size_t)d->room, sizeof *d->view_at, "views", err))
        || !(d->order = vp_alloc((size_t)d->room, sizeof *d->order, "views", err))
        || !(d->place_of = vp_alloc((size_t)p->n_views, sizeof *d->place_of, "views", err))
        || take(d, &d->slices, (uint64_t)(d->chunk * p->n[0] * p->n[1]) * sizeof(float), err)
        || d->kernels->clear(d->queue, d->lines, d->shape.lines_bytes, err) ? -1 : 0;
}

int vp_pair_device_open_planned(struct vp_pair_device **out, const struct vp_pair *p, const struct vp_pair_shape *planned,
                                unsigned use, const struct vp_backend *backend, int device, struct vp_pair_stage *stage,
                                struct vp_pair_device *lead, struct vp_err *err)
{
    const struct vp_pair_kernels *const kernels = backend->kernels("pair");
    const struct vp_pair_shape shape = needed(planned, use);
    struct vp_pair_device *d;
    *out = NULL;
    if (!(d = vp_alloc(1, sizeof *d, "the projector", err)))
        return -1;
    *d = (struct vp_pair_device){.backend = backend, .kernels = kernels, .device = device, .shape = shape,
                                 .chunk = chunk_of(p), .stage = stage, .lead = lead ? lead : d, .sums = true};
    d->room = lead ? 0 : room_of(&shape, use);
    const uint64_t views = (uint64_t)p->n_views * sizeof *p->views;
    if (!take_common(d, p, use, err) && !take(d, &d->x, shape.x_bytes, err) && !take(d, &d->sum, shape.sum_bytes, err)
        && !take(d, &d->views, views, err)
        && !transfer(d, d->views, p->views, views, VP_UP, err) && !kernels->clear(d->queue, d->x, shape.x_bytes, err)
        && !kernels->clear(d->queue, d->sum, shape.sum_bytes, err) && !finish(d, err)) {
        d->shape.views = d->views;
        if (!lead)
            forget(d);
        *out = d;
        return 0;
    }
    vp_pair_device_close(d);
    return -1;
}

void vp_pair_device_close(struct vp_pair_device *d)
{
    if (!d)
        return;
    const bool own = d->lead == d;
    void *const memory[] = {d->x, d->sum, d->views, own ? d->lines : NULL, own ? d->work : NULL, own ? d->y : NULL,
                            own ? d->slices : NULL, d->waiting};
    if (own) {
        d->backend->queue_destroy(d->queue);
        d->backend->event_destroy(d->from);
        d->backend->event_destroy(d->to);
    }
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++)
        if (memory[i])
            d->backend->release(d->device, memory[i]);
    free(d->view_at);
    free(d->order);
    free(d->place_of);
    free(d);
}

/* ---- slices ---- */

struct vp_pair_stage {
    const struct vp_backend *backend;
    float *half[2];             /* pinned, if there is such memory */
    bool pinned[2];
    struct vp_event *done[2];   /* the last copy from or to it */
    int threads;
};

uint64_t vp_pair_stage_bytes(const struct vp_pair *p)
{
    return (uint64_t)(2 * chunk_of(p) * p->n[0] * p->n[1]) * sizeof(float);
}

int vp_pair_stage_open(struct vp_pair_stage **out, const struct vp_pair *p, const struct vp_backend *backend, int device,
                       int threads, struct vp_err *err)
{
    const size_t n = (size_t)(chunk_of(p) * p->n[0] * p->n[1]);
    struct vp_pair_stage *const s = *out = vp_alloc(1, sizeof *s, "slices", err);
    if (!s)
        return -1;
    *s = (struct vp_pair_stage){.backend = backend, .threads = threads};
    for (int i = 0; i < 2; i++) {
        s->half[i] = backend->host_alloc(n * sizeof(float));
        s->pinned[i] = s->half[i] != NULL;
        if ((!s->half[i] && !(s->half[i] = vp_alloc_raw(n, sizeof(float), "slices", err)))
            || backend->event_create(device, true, &s->done[i], err))
            return -1;
    }
    return 0;
}

void vp_pair_stage_close(struct vp_pair_stage *s)
{
    if (!s)
        return;
    for (int i = 0; i < 2; i++) {
        s->backend->event_destroy(s->done[i]);
        if (s->pinned[i])
            s->backend->host_free(s->half[i]);
        else
            free(s->half[i]);
    }
    free(s);
}

static void copy_floats(float *to, const float *from, int64_t n, int threads)
{
    enum { PART = 1 << 18 };
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t at = 0; at < n; at += PART)
        memcpy(to + at, from + at, (size_t)vp_min64(PART, n - at) * sizeof *to);
}

/* Copies slices [z0, z1) to the device, chunk after chunk, each put in its place by lift() or raise(). */
static int send(struct vp_pair_device *d, int64_t z0, int64_t z1, const float *x, float *to, bool sum, struct vp_err *err)
{
    const int64_t page = d->shape.n[0] * d->shape.n[1];
    struct vp_pair_stage *const s = d->stage;
    int half = 0;
    for (int64_t z = z0, n; z < z1; z += n, half ^= 1) {
        const float *from = x + (z - z0) * page;
        float *const there = sum && d->shape.slices ? to + z * page : d->slices;
        n = vp_min64(d->chunk, z1 - z);
        if (s) {
            if (s->backend->event_synchronize(s->done[half], err))
                return -1;
            if (!vp_spill_fetch(from, (uint64_t)(n * page) * sizeof *x, false))
                return vp_spill_check(err);
            copy_floats(s->half[half], from, n * page, s->threads);
            vp_spill_leave(from, (uint64_t)(n * page) * sizeof *x, false);
            from = s->half[half];
        }
        if (transfer(d, there, from, (uint64_t)(n * page) * sizeof *x, VP_UP, err)
            || (s && s->backend->event_record(d->queue, s->done[half], err)))
            return -1;
        if (there == d->slices && (sum ? d->kernels->raise(d->queue, &d->shape, z, n, d->slices, to, err)
                                       : d->kernels->lift(d->queue, &d->shape, z, n, d->slices, to, err)))
            return -1;
    }
    return finish(d, err);
}

int vp_pair_device_load(struct vp_pair_device *d, const float *x, struct vp_err *err)
{
    return send(d, 0, d->shape.n[2], x, d->x, false, err);
}

int vp_pair_device_raise(struct vp_pair_device *d, int64_t z0, int64_t z1, const float *x, struct vp_err *err)
{
    return send(d, z0, z1, x, d->sum, true, err);
}

void vp_pair_device_rest(struct vp_pair_device *d)
{
    d->sums = false;
}

int vp_pair_device_clear(struct vp_pair_device *d, struct vp_err *err)
{
    forget(d->lead);
    d->sums = true;
    return d->kernels->clear(d->queue, d->sum, d->shape.sum_bytes, err);
}

/* Adds the views of the slots to the sum of one user. */
static int add_own_slots(struct vp_pair_device *d, struct vp_err *err)
{
    const struct vp_pair_shape *const s = &d->shape;
    if (d->backend->event_record(d->queue, d->from, err) || d->kernels->weigh(d->queue, s, d->lead->waiting, d->lines, err)
        || d->kernels->collect(d->queue, s, d->lines, d->work, d->sum, err) || finish(d, err))
        return -1;
    d->collect += d->backend->event_elapsed(d->from, d->to);
    return 0;
}

/* Adds the views of the slots to the sums of all users. */
static int add_slots(struct vp_pair_device *d, struct vp_err *err)
{
    const struct vp_pair_shape *const from = &d->shape;
    for (struct vp_pair_device *user = d; user && from->count > 0; user = user->next) {
        struct vp_pair_shape *const s = &user->shape;
        if (!user->sums)
            continue;
        for (int i = 0; i < from->count && user != d; i++) {
            s->view[i] = from->view[i];
            s->place[i] = from->place[i];
            s->other[i] = from->other[i];
            s->other_place[i] = from->other_place[i];
        }
        s->count = from->count;
        s->pairs = from->pairs;
        if (add_own_slots(user, err))
            return -1;
    }
    d->shape.count = 0;
    return 0;
}

/* Returns the place of the view half a turn away, if both wait, or -1. */
static int opposite_of(const struct vp_pair_device *d, int view)
{
    const int n = (int)d->shape.n_views;
    return view >= 0 && d->shape.opposite ? d->place_of[(view + n / 2) % n] : -1;
}

/* Puts a view, and its opposite one unless `other` is -1, into the next slot. */
static int add_waiting(struct vp_pair_device *d, int place, int other, struct vp_err *err)
{
    struct vp_pair_shape *const s = &d->shape;
    const int i = s->count++;
    s->view[i] = d->view_at[place];
    s->place[i] = place;
    s->other[i] = other < 0 ? -1 : d->view_at[other];
    s->other_place[i] = other;
    return s->count == s->slots ? add_slots(d, err) : 0;
}

/* Adds pairs of views that wait to the sum; then, if there were none or `all`, the other views. */
static int flush(struct vp_pair_device *d, bool all, struct vp_err *err)
{
    int left = 0;
    d->shape.count = 0;
    d->shape.pairs = true;
    for (int i = 0; i < d->n_waiting; i++) {
        const int place = d->order[i], view = d->view_at[place], other = opposite_of(d, view);
        if (view < 0 || other < 0)
            continue;
        if (add_waiting(d, place, other, err))
            return -1;
        d->place_of[view] = d->place_of[d->view_at[other]] = -1;
        d->view_at[place] = d->view_at[other] = -1;
    }
    if (add_slots(d, err))
        return -1;
    for (int i = 0; i < d->n_waiting; i++)
        if (d->view_at[d->order[i]] >= 0)
            d->order[left++] = d->order[i];
    if (left < d->n_waiting && !all) {
        d->n_waiting = left;
        return 0;
    }
    d->shape.pairs = false;
    for (int i = 0; i < left; i++)
        if (add_waiting(d, d->order[i], -1, err))
            return -1;
    if (add_slots(d, err))
        return -1;
    forget(d);
    return 0;
}

/* Queues the copy of slices [z, z + n) of the sum to the host. */
static int fetch(struct vp_pair_device *d, int64_t z, int64_t n, float *to, struct vp_event *done, struct vp_err *err)
{
    const int64_t page = d->shape.n[0] * d->shape.n[1];
    const float *const from = d->shape.slices ? d->sum + z * page : d->slices;
    return (!d->shape.slices && d->kernels->lower(d->queue, &d->shape, z, n, d->sum, d->slices, err))
        || transfer(d, to, from, (uint64_t)(n * page) * sizeof *to, VP_DOWN, err)
        || d->backend->event_record(d->queue, done, err) ? -1 : 0;
}

int vp_pair_device_take(struct vp_pair_device *d, int64_t z0, int64_t z1, vp_pair_slices *to, void *ctx, struct vp_err *err)
{
    const int64_t page = d->shape.n[0] * d->shape.n[1];
    struct vp_pair_stage *const s = d->stage;
    float *const own = s ? NULL : vp_alloc_raw((size_t)(d->chunk * page), sizeof *own, "slices", err);
    int rc = (s || own) && !flush(d->lead, true, err)
          && (!s || !fetch(d, z0, vp_min64(d->chunk, z1 - z0), s->half[0], s->done[0], err)) ? 0 : -1, half = 0;
    for (int64_t z = z0, n; z < z1 && !rc; z += n, half ^= 1) {
        const int64_t next = z + d->chunk;
        n = vp_min64(d->chunk, z1 - z);
        if (!s)
            rc = fetch(d, z, n, own, d->to, err) || d->backend->event_synchronize(d->to, err) ? -1 : 0;
        else
            rc = (next < z1 && fetch(d, next, vp_min64(d->chunk, z1 - next), s->half[!half], s->done[!half], err))
              || s->backend->event_synchronize(s->done[half], err) ? -1 : 0;
        if (!rc)
            to(ctx, z, n, s ? s->half[half] : own);
    }
    free(own);
    return rc;
}

struct slices_added { float *x; int64_t z0, page; int threads; };

static void add_slices(void *ctx, int64_t z, int64_t n, const float *sum)
{
    const struct slices_added *a = ctx;
    float *const x = a->x + (z - a->z0) * a->page;
    if (!vp_spill_fetch(x, (uint64_t)(n * a->page) * sizeof *x, true))
        return; /* vp_spill_check() */
#pragma omp parallel for num_threads(a->threads) schedule(static)
    for (int64_t i = 0; i < n * a->page; i++)
        x[i] += sum[i];
    vp_spill_leave(x, (uint64_t)(n * a->page) * sizeof *x, true);
}

int vp_pair_device_add(struct vp_pair_device *d, int64_t z0, int64_t z1, float *x, struct vp_err *err)
{
    struct slices_added a = {x, z0, d->shape.n[0] * d->shape.n[1], d->stage ? d->stage->threads : 1};
    return vp_pair_device_take(d, z0, z1, add_slices, &a, err);
}

static void choose(struct vp_pair_device *d, const int64_t *view, int n)
{
    d->shape.count = n;
    for (int i = 0; i < n; i++)
        d->shape.view[i] = (int)view[i];
}

int vp_pair_device_forward(struct vp_pair_device *d, const int64_t *view, int n, float *y, struct vp_err *err)
{
    const uint64_t bytes = (uint64_t)(n * d->shape.nu * d->shape.nv) * sizeof *y;
    choose(d, view, n);
    if (d->backend->event_record(d->queue, d->from, err) || d->kernels->project(d->queue, &d->shape, d->x, d->work, d->y, err)
        || finish(d, err))
        return -1;
    d->project += d->backend->event_elapsed(d->from, d->to);
    return transfer(d, y, d->y, bytes, VP_DOWN, err) || finish(d, err) ? -1 : 0;
}

int vp_pair_device_adjoint(struct vp_pair_device *d, const float *y, const int64_t *view, int n, struct vp_err *err)
{
    const int64_t page = d->shape.nu * d->shape.nv;
    bool sums = false;
    for (const struct vp_pair_device *user = d; user && d->lead == d; user = user->next)
        sums = sums || user->sums;
    if (!sums)
        return 0; /* its lead gets the views for it */
    for (int i = 0, place = 0, run; i < n; i += run, place += run) {
        if (d->n_waiting == d->room && flush(d, false, err))
            return -1;
        while (place == d->room || d->view_at[place] >= 0)
            place = place < d->room ? place + 1 : 0;
        for (run = 0; i + run < n && place + run < d->room && d->view_at[place + run] < 0; run++) {
            const int v = (int)view[i + run];
            d->view_at[place + run] = v;
            d->place_of[v] = place + run;
            d->order[d->n_waiting++] = place + run;
        }
        if (transfer(d, d->waiting + place * page, y + i * page, (uint64_t)(run * page) * sizeof *y, VP_UP, err))
            return -1;
    }
    return finish(d, err);
}

void vp_pair_device_seconds(const struct vp_pair_device *d, double *project, double *collect)
{
    *project = d->project;
    *collect = d->collect;
}
