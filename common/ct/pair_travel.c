/* SPDX-License-Identifier: BSD-3-Clause */
/* Slabs that travel: a device holds one, and projects or sums all views of a block, before it takes its next. Slab i is on
 * device i modulo their number, so that projections can be added from the first slab to the last while others are made.
 * With memory for two, the next slab is brought, and the sum of the one before fetched, beside the kernels. */
#include "ct/pair_internal.h"

#include "base/err.h"
#include "base/size.h"
#include "base/spill.h"
#include "device/device.h"
#include "engine/thread.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* One direction, for a block of views. */
struct travel {
    const int64_t *view;
    int64_t n, page;            /* views, and their pixels */
    /* projection */
    float *sum;
    int *added;                 /* slabs that are in the sum, of each VP_PAIR_VIEWS views */
    bool stopped;
    pthread_mutex_t lock;
    pthread_cond_t moved;
    /* transpose */
    const float *y;
    vp_pair_slices *take;
    void *ctx;
};

/* A slab on its way to a device, or from it. */
struct journey {
    struct vp_pair *p;
    struct travel *t;
    struct vp_thread thread;
    int slab, stage;
    struct vp_pair_device *device;
};

static int open_slab(struct journey *j, unsigned use, struct vp_err *err)
{
    struct vp_pair *const p = j->p;
    const struct vp_pair_slab *s = &p->slabs[j->slab];
    const struct vp_pair_lane *lane = &p->lanes[s->owner];
    return vp_pair_device_open_planned(&j->device, &s->part, &s->shape, use, p->backend, lane->number, lane->stage[j->stage],
                                       NULL, err);
}

static void close_slab(struct journey *j)
{
    double project, back;
    if (!j->device)
        return;
    vp_pair_device_seconds(j->device, &project, &back);
    struct vp_pair_lane *const lane = &j->p->lanes[j->p->slabs[j->slab].owner];
    lane->project += project;
    lane->back += back;
    vp_pair_device_close(j->device);
    j->device = NULL;
}

static void stop(void *ctx)
{
    struct travel *const t = ctx;
    pthread_mutex_lock(&t->lock);
    t->stopped = true;
    pthread_cond_broadcast(&t->moved);
    pthread_mutex_unlock(&t->lock);
}

/* True if another device has failed. */
static bool stopped(struct travel *t)
{
    pthread_mutex_lock(&t->lock);
    const bool yes = t->stopped;
    pthread_mutex_unlock(&t->lock);
    return yes;
}

/* ---- projection ---- */

static int bring(void *ctx, struct vp_err *err)
{
    struct journey *const j = ctx;
    const struct vp_pair_slab *s = &j->p->slabs[j->slab];
    return open_slab(j, VP_PAIR_PROJECTS, err)
        || vp_pair_device_load(j->device, j->p->from + s->z0 * j->p->n[0] * j->p->n[1], err) ? -1 : 0;
}

/* Views of a slab that are added to the sum. */
struct views_added {
    struct vp_pair *p;
    struct travel *t;
    struct vp_thread thread;
    int slab;
    int64_t batch;
    const float *y;
};

static int add_views(void *ctx, struct vp_err *err)
{
    const struct views_added *a = ctx;
    struct travel *const t = a->t;
    const int64_t first = a->batch * VP_PAIR_VIEWS, n = vp_min64(VP_PAIR_VIEWS, t->n - first) * t->page;
    float *const sum = t->sum + first * t->page;
    bool stopped;
    (void)err;
    pthread_mutex_lock(&t->lock);
    while (t->added[a->batch] < a->slab && !t->stopped)
        pthread_cond_wait(&t->moved, &t->lock);
    stopped = t->stopped;
    pthread_mutex_unlock(&t->lock);
    if (stopped)
        return 0; /* another device has the error */
    const int threads = vp_pair_give_threads(a->p);
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t i = 0; i < n; i++)
        sum[i] = a->slab ? sum[i] + a->y[i] : a->y[i];
    pthread_mutex_lock(&t->lock);
    t->added[a->batch]++;
    pthread_cond_broadcast(&t->moved);
    pthread_mutex_unlock(&t->lock);
    return 0;
}

/* Projects the views of one slab; they are added to the sum while the next ones are made. */
static int project_slab(struct vp_pair *p, struct travel *t, const struct journey *j, struct vp_err *err)
{
    struct vp_pair_lane *const lane = &p->lanes[p->slabs[j->slab].owner];
    struct views_added a = {.p = p, .t = t, .slab = j->slab};
    int rc = 0;
    for (int64_t first = 0; first < t->n && !rc && !stopped(t); first += VP_PAIR_VIEWS) {
        float *const y = lane->y[first / VP_PAIR_VIEWS % 2];
        rc = vp_pair_device_forward(j->device, t->view + first, (int)vp_min64(VP_PAIR_VIEWS, t->n - first), y, err);
        rc = vp_thread_join(&a.thread, err) || rc ? -1 : 0;
        a.batch = first / VP_PAIR_VIEWS;
        a.y = y;
        rc = rc || vp_thread_start(&a.thread, add_views, &a, false, err) ? -1 : 0;
    }
    return vp_thread_join(&a.thread, err) || rc ? -1 : 0;
}

static int project(struct vp_pair *p, int device, void *ctx, struct vp_err *err)
{
    struct travel *const t = ctx;
    struct journey way[2] = {{.p = p, .t = t, .slab = device}, {.p = p, .t = t, .stage = 1}};
    int rc = bring(&way[0], err), at = 0;
    for (int i = device; i < p->n_slabs && !rc && !stopped(t); i += p->n_devices) {
        struct journey *const now = &way[at], *const next = &way[p->ahead ? !at : at];
        const int coming = i + p->n_devices;
        if (p->ahead && coming < p->n_slabs) {
            next->slab = coming;
            rc = vp_thread_start(&next->thread, bring, next, false, err);
        }
        rc = rc || project_slab(p, t, now, err) ? -1 : 0;
        if (rc)
            stop(t); /* other devices wait for the sum */
        close_slab(now);
        rc = vp_thread_join(&next->thread, err) || rc ? -1 : 0;
        if (!p->ahead && coming < p->n_slabs && !rc) {
            now->slab = coming;
            rc = bring(now, err);
        }
        at = p->ahead ? !at : at;
    }
    if (rc)
        stop(t);
    close_slab(&way[0]);
    close_slab(&way[1]);
    return rc;
}

int vp_pair_travel_project(struct vp_pair *p, const int64_t *view, int64_t n, float *y, struct vp_err *err)
{
    struct travel t = {.view = view, .n = n, .page = p->nu * p->nv, .sum = y, .lock = PTHREAD_MUTEX_INITIALIZER,
                       .moved = PTHREAD_COND_INITIALIZER};
    if (!(t.added = vp_alloc((size_t)vp_div_up(n, VP_PAIR_VIEWS), sizeof *t.added, "the views", err)))
        return -1;
    const int rc = vp_pair_on_devices(p, project, &t, stop, err);
    free(t.added);
    return rc;
}

/* ---- transpose ---- */

/* Sets slices of the volume to the sum. */
static void put(void *ctx, int64_t z, int64_t n, const float *sum)
{
    const struct vp_pair *p = ctx;
    const int64_t page = p->n[0] * p->n[1];
    float *const x = p->to + (z - p->z0) * page;
    const int threads = vp_pair_give_threads(p);
    if (!vp_spill_fetch(x, (uint64_t)(n * page) * sizeof *x, true))
        return; /* vp_spill_check() */
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t i = 0; i < n * page; i++)
        x[i] = 0.0f + sum[i]; /* no negative zeros, as where it is added to 0 */
    vp_spill_leave(x, (uint64_t)(n * page) * sizeof *x, true);
}

/* Brings the sum of a slab back. */
static int fetch(void *ctx, struct vp_err *err)
{
    struct journey *const j = ctx;
    const struct vp_pair *p = j->p;
    const struct vp_pair_slab *s = &p->slabs[j->slab];
    int64_t z0, z1;
    if (!vp_pair_part(p, s, &z0, &z1))
        return 0;
    struct vp_pair_gift g = {j->t->take, j->t->ctx, s->z0};
    const int rc = vp_pair_device_take(j->device, z0 - s->z0, z1 - s->z0, vp_pair_pass_on, &g, err);
    close_slab(j);
    return rc;
}

/* Opens a slab and adds the views to its sum. */
static int sum_views(struct journey *j, struct vp_err *err)
{
    struct vp_pair *const p = j->p;
    struct travel *const t = j->t;
    const struct vp_pair_slab *s = &p->slabs[j->slab];
    int64_t z0, z1;
    if (!vp_pair_part(p, s, &z0, &z1))
        return 0;
    if (open_slab(j, VP_PAIR_SUMS, err)
        || (p->begun && vp_pair_device_raise(j->device, z0 - s->z0, z1 - s->z0, p->to + (z0 - p->z0) * p->n[0] * p->n[1], err)))
        return -1;
    for (int64_t first = 0; first < t->n && !stopped(t); first += VP_PAIR_VIEWS)
        if (vp_pair_device_adjoint(j->device, t->y + first * t->page, t->view + first,
                                   (int)vp_min64(VP_PAIR_VIEWS, t->n - first), err))
            return -1;
    return 0;
}

static int back(struct vp_pair *p, int device, void *ctx, struct vp_err *err)
{
    struct travel *const t = ctx;
    struct journey way[2] = {{.p = p, .t = t}, {.p = p, .t = t, .stage = 1}};
    int rc = 0, at = 0;
    for (int i = device; i < p->n_slabs && !rc && !stopped(t); i += p->n_devices) {
        int64_t z0, z1;
        if (!vp_pair_part(p, &p->slabs[i], &z0, &z1))
            continue;
        struct journey *const now = &way[at], *const before = &way[!at];
        now->slab = i;
        rc = sum_views(now, err);
        rc = vp_thread_join(&before->thread, err) || rc ? -1 : 0;
        if (!rc)
            rc = p->ahead ? vp_thread_start(&now->thread, fetch, now, false, err) : fetch(now, err);
        at = p->ahead ? !at : at;
    }
    for (int i = 0; i < 2; i++) {
        rc = vp_thread_join(&way[i].thread, err) || rc ? -1 : 0;
        close_slab(&way[i]);
    }
    if (rc)
        stop(t); /* sums of other devices are not needed */
    return rc;
}

int vp_pair_travel_back(struct vp_pair *p, const float *y, const int64_t *view, int64_t n, vp_pair_slices *take, void *ctx,
                        struct vp_err *err)
{
    struct travel t = {.view = view, .n = n, .page = p->nu * p->nv, .y = y, .take = take ? take : put,
                       .ctx = take ? ctx : p, .lock = PTHREAD_MUTEX_INITIALIZER, .moved = PTHREAD_COND_INITIALIZER};
    const int rc = vp_pair_on_devices(p, back, &t, stop, err);
    p->begun = true;
    return rc;
}
