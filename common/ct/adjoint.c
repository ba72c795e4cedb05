/* SPDX-License-Identifier: BSD-3-Clause */
#include "ct/adjoint.h"

#include "base/err.h"
#include "base/progress.h"
#include "base/size.h"
#include "base/stats.h"
#include "stack/views.h"
#include "stack/writer.h"

#include <stdlib.h>

static int64_t voxels_of(const struct vp_adjoint *a)
{
    return a->grid->n[0] * a->grid->n[1] * (a->z1 - a->z0);
}

uint64_t vp_adjoint_bytes(const struct vp_adjoint *a)
{
    return vp_pair_holds(a->pair) + (uint64_t)(voxels_of(a) + a->block * a->scan->nu * a->scan->nv) * sizeof(float);
}

double vp_adjoint_traffic(const struct vp_adjoint *a)
{
    const double views = (double)(a->last - a->first) * (double)(a->scan->nu * a->scan->nv);
    const double visits = a->place.travels ? 2 * (double)vp_div_up(a->last - a->first, a->block) - 1 : 1;
    return (visits * (double)voxels_of(a) + views * (double)a->place.slabs) * sizeof(float);
}

int vp_adjoint_plan(struct vp_adjoint *a, uint64_t memory, struct vp_err *err)
{
    const int64_t views = a->last - a->first;
    a->place.use = VP_PAIR_SUMS;
    a->block = 0;
    if (vp_pair_open(&a->pair, a->scan, a->grid, a->threads, NULL, err) || vp_pair_plan(a->pair, &a->place, err))
        return -1;
    const uint64_t least = vp_adjoint_bytes(a), rest = memory > least ? memory - least : 0;
    a->block = vp_pair_block(a->pair, views, rest);
    if (a->place.used && a->place.automatic && vp_adjoint_bytes(a) > memory) {
        vp_pair_refuse(a->pair, &a->place, "the host's memory is too small for the views of a block");
        a->block = vp_pair_block(a->pair, views, rest);
    }
    return 0;
}

static int sum_views(struct vp_adjoint *a, int64_t *view, float *batch, struct vp_err *err)
{
    vp_progress_start(a->progress, "back-project", "views", a->last - a->first);
    for (int64_t first = a->first, n; first < a->last; first += n) {
        const double t = vp_now();
        n = vp_min64(a->block, a->last - first);
        const int64_t got = vp_views_read(a->scan->source, first, n, 0, a->scan->nv, batch, &a->bad, a->threads, err);
        if (got < 0)
            return -1;
        if (got < n)
            return vp_fail(err, VP_ERUN, "%s: expected %lld views, got %lld", vp_views_name(a->scan->source),
                           (long long)a->scan->n_views, (long long)(first + got));
        for (int64_t i = 0; i < n; i++)
            view[i] = first + i;
        const double read = vp_now();
        if (vp_pair_back(a->pair, batch, view, n, err))
            return -1;
        vp_stats_time(a->stats, "read", read - t);
        vp_stats_time(a->stats, "back-project", vp_now() - read);
        vp_progress_add(a->progress, n);
    }
    return a->last == a->scan->n_views ? vp_views_finish(a->scan->source, err) : 0;
}

int vp_adjoint_run(struct vp_adjoint *a, struct vp_err *err)
{
    struct vp_pair *const pair = a->pair;
    float *batch = NULL, *x = NULL;
    int64_t *view = NULL;
    int rc = vp_pair_use(pair, &a->place, err);
    if (!a->place.travels)
        a->block = VP_PAIR_VIEWS; /* the devices may have failed */
    a->bad = 0;
    if (rc || !(batch = vp_pair_room(pair, a->block, err))
        || !(view = vp_alloc((size_t)a->block, sizeof *view, "the views", err))
        || !(x = vp_alloc((size_t)voxels_of(a), sizeof(float), "the volume", err))
        || vp_pair_begin(pair, a->z0, a->z1, x, err) || sum_views(a, view, batch, err) || vp_pair_end(pair, err))
        rc = -1;
    const double t = vp_now();
    if (!rc)
        rc = vp_writer_pages(a->writer, a->z1 - a->z0, x, a->threads, err);
    vp_stats_time(a->stats, "write", vp_now() - t);
    vp_pair_leave(pair, batch);
    free(view);
    free(x);
    return rc;
}
