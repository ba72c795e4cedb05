/* SPDX-License-Identifier: BSD-3-Clause */
/* The pair on devices, in slabs of VP_PAIR_SLAB slices that the grid fixes: each is a grid of its own, on one device,
 * seen by the same views. Projections of slabs are added from the first to the last, so that bits do not depend on the
 * number of devices. If these do not hold all slabs, pair_travel.c brings them there in turn. */
#include "ct/pair_internal.h"

#include "base/err.h"
#include "base/size.h"
#include "device/device.h"
#include "engine/thread.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Makes slices [z0, z0 + n) of a pair a pair of their own. */
static int cut(struct vp_pair_slab *s, const struct vp_pair *p, int64_t z0, int64_t n, struct vp_err *err)
{
    s->z0 = z0;
    s->part = (struct vp_pair){.n_views = p->n_views, .nu = p->nu, .nv = p->nv, .n = {p->n[0], p->n[1], n},
                               .voxel = {p->voxel[0], p->voxel[1], p->voxel[2]}, .flat = p->flat};
    if (!(s->part.views = vp_alloc((size_t)p->n_views, sizeof *s->part.views, "the views", err)))
        return -1;
    memcpy(s->part.views, p->views, (size_t)p->n_views * sizeof *p->views);
    for (int64_t v = 0; v < p->n_views; v++)
        for (int row = 0; row < 3; row++)
            s->part.views[v].P[4 * row + 3] += (double)z0 * p->views[v].P[4 * row + 2];
    return 0;
}

/* True if slab i uses memory of the first slab on the same device. */
static bool shares(const struct vp_pair *p, int i)
{
    return i >= p->n_devices && vp_pair_device_shares(&p->slabs[i].shape, &p->slabs[i % p->n_devices].shape);
}

/* Chooses where slabs are: all on the devices, or on the way. */
static int place_slabs(struct vp_pair *p, struct vp_pair_place *place, struct vp_err *err)
{
    bool all = true, ahead = true;
    place->bytes = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (int d = 0; d < p->n_devices; d++) {
            struct vp_device_info info;
            uint64_t held = 0, largest = 0;
            if (place->backend->info(place->devices[d], &info, err))
                return -1;
            uint64_t room = info.free > info.driver ? info.free - info.driver : 0;
            if (place->memory && place->memory < room)
                room = place->memory;
            for (int i = d; i < p->n_slabs; i += p->n_devices) {
                const struct vp_pair_slab *const s = &p->slabs[i];
                const uint64_t in = vp_pair_device_bytes(&s->shape, &s->part, p->use & VP_PAIR_PROJECTS);
                const uint64_t out = vp_pair_device_bytes(&s->shape, &s->part, p->use & VP_PAIR_SUMS);
                const uint64_t most = in > out ? in : out;
                held += vp_pair_device_bytes(&s->shape, &s->part, p->use)
                      - (shares(p, i) ? vp_pair_device_common(&s->shape, &s->part, p->use) : 0);
                largest = most > largest ? most : largest;
            }
            if (pass == 0) {
                all = all && held <= room;
                ahead = ahead && 2 * largest <= room;
                place->room = d == 0 || room < place->room ? room : place->room;
                if (largest > room)
                    return vp_fail_hint(err, VP_ERESOURCE, "--device cpu needs no such memory",
                                        "device %d: a slab of %lld of %lld slices takes %s: expected at most %s", place->devices[d],
                                        (long long)p->slabs[0].part.n[2], (long long)p->n[2], vp_bytes_text(largest).text,
                                        vp_bytes_text(room).text);
            } else {
                const uint64_t own = all ? held : ahead ? 2 * largest : largest;
                place->bytes = own > place->bytes ? own : place->bytes;
            }
        }
    }
    p->travels = place->travels = !all;
    p->ahead = place->ahead = !all && ahead;
    return 0;
}

int vp_pair_slabs_plan(struct vp_pair *p, struct vp_pair_place *place, struct vp_err *err)
{
    const int64_t height = place->slab > 0 ? place->slab : VP_PAIR_SLAB, n = vp_div_up(p->n[2], height);
    if (!(p->slabs = vp_alloc((size_t)n, sizeof *p->slabs, "slabs", err)))
        return -1;
    p->n_slabs = (int)n;
    p->n_devices = (int)vp_min64(place->n_devices, n);
    p->backend = place->backend;
    place->slabs = n;
    if (!(p->lanes = vp_alloc((size_t)p->n_devices, sizeof *p->lanes, "devices", err)))
        return -1;
    for (int d = 0; d < p->n_devices; d++)
        p->lanes[d].number = place->devices[d];
    for (int64_t i = 0; i < n; i++) {
        struct vp_pair_slab *const s = &p->slabs[i];
        s->owner = (int)(i % p->n_devices);
        if (cut(s, p, i * height, vp_min64(height, p->n[2] - i * height), err)
            || vp_pair_device_plan(&s->shape, &s->part, p->backend, p->lanes[s->owner].number, err))
            return -1;
    }
    return place_slabs(p, place, err);
}

int vp_pair_slabs_open(struct vp_pair *p, struct vp_err *err)
{
    for (int d = 0; d < p->n_devices; d++) {
        struct vp_pair_lane *const lane = &p->lanes[d];
        for (int i = 0; i < (p->ahead ? 2 : 1); i++)
            if (vp_pair_stage_open(&lane->stage[i], &p->slabs[d].part, p->backend, lane->number, vp_pair_give_threads(p), err))
                return -1;
        for (int i = 0; i < 2 && p->travels; i++)
            if (!(lane->y[i] = vp_pair_room(p, VP_PAIR_VIEWS, err)))
                return -1;
    }
    for (int i = 0; i < p->n_slabs && !p->travels; i++) {
        struct vp_pair_slab *const s = &p->slabs[i];
        const struct vp_pair_lane *const lane = &p->lanes[s->owner];
        if ((p->n_slabs > 1 && !(s->y = vp_pair_room(p, VP_PAIR_VIEWS, err)))
            || vp_pair_device_open_planned(&s->device, &s->part, &s->shape, p->use, p->backend,
                                           lane->number, lane->stage[0],
                                           shares(p, i) ? p->slabs[i % p->n_devices].device : NULL, err))
            return -1;
    }
    return 0;
}

uint64_t vp_pair_slabs_holds(const struct vp_pair *p)
{
    const uint64_t batch = (uint64_t)(VP_PAIR_VIEWS * p->nu * p->nv) * sizeof(float);
    const int stages = p->ahead ? 2 : 1, batches = p->travels ? 2 * p->n_devices : p->n_slabs > 1 ? p->n_slabs : 0;
    return (uint64_t)(p->n_devices * stages) * vp_pair_stage_bytes(&p->slabs[0].part) + (uint64_t)batches * batch;
}

void vp_pair_slabs_close(struct vp_pair *p)
{
    for (int i = 0; i < p->n_slabs; i++) {
        vp_pair_device_close(p->slabs[i].device);
        vp_pair_leave(p, p->slabs[i].y);
        free(p->slabs[i].part.views);
    }
    for (int d = 0; d < p->n_devices && p->lanes; d++)
        for (int i = 0; i < 2; i++) {
            vp_pair_stage_close(p->lanes[d].stage[i]);
            vp_pair_leave(p, p->lanes[d].y[i]);
        }
    free(p->lanes);
    free(p->slabs);
    p->lanes = NULL;
    p->slabs = NULL;
    p->n_slabs = p->n_devices = 0;
    p->travels = p->ahead = false;
}

struct device_share {
    struct vp_pair *p;
    int device;
    int (*work)(struct vp_pair *p, int device, void *ctx, struct vp_err *err);
    void *ctx;
};

static int run_share(void *ctx, struct vp_err *err)
{
    const struct device_share *s = ctx;
    return s->work(s->p, s->device, s->ctx, err);
}

int vp_pair_on_devices(struct vp_pair *p, int (*work)(struct vp_pair *p, int device, void *ctx, struct vp_err *err), void *ctx,
                       void (*stop)(void *ctx), struct vp_err *err)
{
    struct vp_thread threads[VP_PAIR_DEVICES] = {{0}};
    struct device_share shares[VP_PAIR_DEVICES];
    int rc = 0;
    for (int d = 1; d < p->n_devices && !rc; d++) {
        shares[d] = (struct device_share){p, d, work, ctx};
        rc = vp_thread_start(&threads[d], run_share, &shares[d], false, err);
    }
    if (rc && stop)
        stop(ctx);
    rc = rc || work(p, 0, ctx, err) ? -1 : 0;
    for (int d = 1; d < p->n_devices; d++)
        rc = vp_thread_join(&threads[d], err) || rc ? -1 : 0;
    return rc;
}

struct slab_task {
    int (*work)(struct vp_pair *p, struct vp_pair_slab *s, void *ctx, struct vp_err *err);
    void *ctx;
};

static int run_task(struct vp_pair *p, int device, void *ctx, struct vp_err *err)
{
    const struct slab_task *t = ctx;
    for (int i = device; i < p->n_slabs; i += p->n_devices)
        if (t->work(p, &p->slabs[i], t->ctx, err))
            return -1;
    return 0;
}

/* Calls work() for all slabs, those of different devices at once. */
static int on_slabs(struct vp_pair *p, int (*work)(struct vp_pair *p, struct vp_pair_slab *s, void *ctx, struct vp_err *err),
                    void *ctx, struct vp_err *err)
{
    return vp_pair_on_devices(p, run_task, &(struct slab_task){work, ctx}, NULL, err);
}

static int load(struct vp_pair *p, struct vp_pair_slab *s, void *ctx, struct vp_err *err)
{
    (void)ctx;
    return vp_pair_device_load(s->device, p->from + s->z0 * p->n[0] * p->n[1], err);
}

int vp_pair_slabs_load(struct vp_pair *p, struct vp_err *err)
{
    return p->travels ? 0 : on_slabs(p, load, NULL, err);
}

struct views {
    const int64_t *view;
    int n;
    const float *y;
    float *to;
};

static int forward(struct vp_pair *p, struct vp_pair_slab *s, void *ctx, struct vp_err *err)
{
    const struct views *v = ctx;
    return vp_pair_device_forward(s->device, v->view, v->n, p->n_slabs > 1 ? s->y : v->to, err);
}

int vp_pair_slabs_project(struct vp_pair *p, const int64_t *view, int64_t n, float *y, struct vp_err *err)
{
    const int64_t all = n * p->nu * p->nv;
    if (p->travels)
        return vp_pair_travel_project(p, view, n, y, err);
    if (on_slabs(p, forward, &(struct views){.view = view, .n = (int)n, .to = y}, err))
        return -1;
    if (p->n_slabs == 1)
        return 0;
    #pragma omp parallel for num_threads(p->threads) schedule(static)
    for (int64_t i = 0; i < all; i++) {
        float sum = p->slabs[0].y[i];
        for (int s = 1; s < p->n_slabs; s++)
            sum += p->slabs[s].y[i];
        y[i] = sum;
    }
    return 0;
}

static int clear(struct vp_pair *p, struct vp_pair_slab *s, void *ctx, struct vp_err *err)
{
    int64_t z0, z1;
    (void)ctx;
    if (vp_pair_part(p, s, &z0, &z1))
        return vp_pair_device_clear(s->device, err);
    vp_pair_device_rest(s->device);
    return 0;
}

int vp_pair_slabs_begin(struct vp_pair *p, struct vp_err *err)
{
    return p->travels ? 0 : on_slabs(p, clear, NULL, err);
}

static int adjoint(struct vp_pair *p, struct vp_pair_slab *s, void *ctx, struct vp_err *err)
{
    const struct views *v = ctx;
    (void)p;
    return vp_pair_device_adjoint(s->device, v->y, v->view, v->n, err);
}

int vp_pair_slabs_back(struct vp_pair *p, const float *y, const int64_t *view, int64_t n, struct vp_err *err)
{
    if (!p->travels)
        return on_slabs(p, adjoint, &(struct views){.view = view, .n = (int)n, .y = y}, err);
    if (p->to)
        return vp_pair_travel_back(p, y, view, n, NULL, NULL, err);
    assert(!p->n_held); /* vp_pair_gives() */
    p->held = view;
    p->n_held = n;
    p->held_y = y;
    return 0;
}

void vp_pair_pass_on(void *ctx, int64_t z, int64_t n, const float *sum)
{
    const struct vp_pair_gift *g = ctx;
    g->take(g->ctx, g->z0 + z, n, sum);
}

static int end(struct vp_pair *p, struct vp_pair_slab *s, void *ctx, struct vp_err *err)
{
    struct vp_pair_gift g = *(const struct vp_pair_gift *)ctx;
    int64_t z0, z1;
    g.z0 = s->z0;
    return !vp_pair_part(p, s, &z0, &z1) ? 0
         : g.take ? vp_pair_device_take(s->device, z0 - s->z0, z1 - s->z0, vp_pair_pass_on, &g, err)
         : vp_pair_device_add(s->device, z0 - s->z0, z1 - s->z0, p->to + (z0 - p->z0) * p->n[0] * p->n[1], err);
}

int vp_pair_slabs_end(struct vp_pair *p, vp_pair_slices *take, void *ctx, struct vp_err *err)
{
    if (!p->travels)
        return on_slabs(p, end, &(struct vp_pair_gift){take, ctx, 0}, err);
    return take ? vp_pair_travel_back(p, p->held_y, p->held, p->n_held, take, ctx, err) : 0;
}

void vp_pair_slabs_seconds(const struct vp_pair *p, double *project, double *back)
{
    *project = *back = 0;
    for (int d = 0; d < p->n_devices; d++) {
        double own[2] = {p->lanes[d].project, p->lanes[d].back}, one[2];
        for (int i = d; i < p->n_slabs && !p->travels; i += p->n_devices) {
            vp_pair_device_seconds(p->slabs[i].device, &one[0], &one[1]);
            own[0] += one[0];
            own[1] += one[1];
        }
        *project = own[0] > *project ? own[0] : *project;
        *back = own[1] > *back ? own[1] : *back;
    }
}
