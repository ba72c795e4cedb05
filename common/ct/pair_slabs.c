/* SPDX-License-Identifier: BSD-3-Clause */
/* The pair on devices, in slabs of VP_PAIR_SLAB slices that the grid fixes: each is a grid of its own, on one device,
 * seen by the same views. Projections of slabs are added from the first to the last, so that bits do not depend on the
 * number of devices. */
#include "ct/pair_internal.h"

#include "base/err.h"
#include "base/size.h"

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

int vp_pair_slabs_open(struct vp_pair *p, const struct vp_pair_place *place, struct vp_err *err)
{
    const int64_t height = place->slab > 0 ? place->slab : VP_PAIR_SLAB, n = vp_div_up(p->n[2], height);
    const size_t y = (size_t)(p->nu * p->nv) * VP_PAIR_VIEWS;
    if (!(p->slabs = vp_alloc((size_t)n, sizeof *p->slabs, "slabs", err)))
        return -1;
    p->n_slabs = (int)n;
    p->n_devices = (int)vp_min64(place->n_devices, n);
    for (int64_t i = 0; i < n; i++) {
        struct vp_pair_slab *const s = &p->slabs[i];
        s->owner = (int)(i * p->n_devices / n);
        if (cut(s, p, i * height, vp_min64(height, p->n[2] - i * height), err)
            || (n > 1 && !(s->y = vp_alloc_raw(y, sizeof *s->y, "projections of slabs", err)))
            || vp_pair_device_open(&s->device, &s->part, place->backend, place->devices[s->owner], err))
            return -1;
    }
    return 0;
}

void vp_pair_slabs_close(struct vp_pair *p)
{
    for (int i = 0; i < p->n_slabs; i++) {
        vp_pair_device_close(p->slabs[i].device);
        free(p->slabs[i].part.views);
        free(p->slabs[i].y);
    }
    free(p->slabs);
    p->slabs = NULL;
    p->n_slabs = 0;
}

/* Calls work() for all slabs, those of different devices at once. The first failure counts. */
static int on_slabs(struct vp_pair *p, int (*work)(struct vp_pair *p, struct vp_pair_slab *s, void *ctx, struct vp_err *err),
                    void *ctx, struct vp_err *err)
{
    struct vp_err why[VP_PAIR_DEVICES];
    bool failed[VP_PAIR_DEVICES] = {false};
    #pragma omp parallel for num_threads(p->n_devices) schedule(static, 1)
    for (int d = 0; d < p->n_devices; d++) {
        why[d] = (struct vp_err)VP_ERR_INIT;
        for (int i = 0; i < p->n_slabs && !failed[d]; i++)
            failed[d] = p->slabs[i].owner == d && work(p, &p->slabs[i], ctx, &why[d]);
    }
    for (int d = 0; d < p->n_devices; d++)
        if (failed[d])
            return vp_err_keep(err, &why[d]);
    return 0;
}

static int load(struct vp_pair *p, struct vp_pair_slab *s, void *ctx, struct vp_err *err)
{
    (void)ctx;
    return vp_pair_device_load(s->device, p->from + s->z0 * p->n[0] * p->n[1], err);
}

int vp_pair_slabs_load(struct vp_pair *p, struct vp_err *err)
{
    return on_slabs(p, load, NULL, err);
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

int vp_pair_slabs_project(struct vp_pair *p, const int64_t *view, int n, float *y, struct vp_err *err)
{
    const int64_t all = n * p->nu * p->nv;
    if (on_slabs(p, forward, &(struct views){.view = view, .n = n, .to = y}, err))
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
    (void)p, (void)ctx;
    return vp_pair_device_clear(s->device, err);
}

int vp_pair_slabs_begin(struct vp_pair *p, struct vp_err *err)
{
    return on_slabs(p, clear, NULL, err);
}

static int adjoint(struct vp_pair *p, struct vp_pair_slab *s, void *ctx, struct vp_err *err)
{
    const struct views *v = ctx;
    (void)p;
    return vp_pair_device_adjoint(s->device, v->y, v->view, v->n, err);
}

int vp_pair_slabs_back(struct vp_pair *p, const float *y, const int64_t *view, int n, struct vp_err *err)
{
    return on_slabs(p, adjoint, &(struct views){.view = view, .n = n, .y = y}, err);
}

static int add(struct vp_pair *p, struct vp_pair_slab *s, void *ctx, struct vp_err *err)
{
    const int64_t z0 = vp_max64(p->z0, s->z0), z1 = vp_min64(p->z1, s->z0 + s->part.n[2]);
    (void)ctx;
    return z0 < z1 ? vp_pair_device_add(s->device, z0 - s->z0, z1 - s->z0, p->to + (z0 - p->z0) * p->n[0] * p->n[1], err) : 0;
}

int vp_pair_slabs_end(struct vp_pair *p, struct vp_err *err)
{
    return on_slabs(p, add, NULL, err);
}

void vp_pair_slabs_seconds(const struct vp_pair *p, double *project, double *back)
{
    *project = *back = 0;
    for (int d = 0; d < p->n_devices; d++) {
        double own[2] = {0, 0}, one[2];
        for (int i = 0; i < p->n_slabs; i++)
            if (p->slabs[i].owner == d) {
                vp_pair_device_seconds(p->slabs[i].device, &one[0], &one[1]);
                own[0] += one[0];
                own[1] += one[1];
            }
        *project = own[0] > *project ? own[0] : *project;
        *back = own[1] > *back ? own[1] : *back;
    }
}
