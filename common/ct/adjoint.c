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
    return vp_pair_bytes(a->scan, a->grid, a->threads)
         + (uint64_t)(voxels_of(a) + vp_max64(a->block, VP_PAIR_VIEWS) * a->scan->nu * a->scan->nv) * sizeof(float);
}

static int sum_views(struct vp_adjoint *a, struct vp_pair *pair, int64_t block, int64_t *view, float *batch,
                     struct vp_err *err)
{
    vp_progress_start(a->progress, "back-project", "views", a->last - a->first);
    for (int64_t first = a->first, n; first < a->last; first += n) {
        const double t = vp_now();
        n = vp_min64(block, a->last - first);
        const int64_t got = vp_views_read(a->scan->source, first, n, 0, a->scan->nv, batch, &a->bad, a->threads, err);
        if (got < 0)
            return -1;
        if (got < n)
            return vp_fail(err, VP_ERUN, "%s: expected %lld views, got %lld", vp_views_name(a->scan->source),
                           (long long)a->scan->n_views, (long long)(first + got));
        for (int64_t i = 0; i < n; i++)
            view[i] = first + i;
        const double read = vp_now();
        if (vp_pair_back(pair, batch, view, n, err))
            return -1;
        vp_stats_time(a->stats, "read", read - t);
        vp_stats_time(a->stats, "back-project", vp_now() - read);
        vp_progress_add(a->progress, n);
    }
    return a->last == a->scan->n_views ? vp_views_finish(a->scan->source, err) : 0;
}

int vp_adjoint_run(struct vp_adjoint *a, struct vp_err *err)
{
    struct vp_pair *pair = NULL;
    float *batch = NULL, *x = NULL;
    int64_t *view = NULL;
    int rc = vp_pair_open(&pair, a->scan, a->grid, a->threads, NULL, err) || vp_pair_use(pair, &a->place, err) ? -1 : 0;
    const int64_t block = a->place.travels ? vp_max64(a->block, VP_PAIR_VIEWS) : VP_PAIR_VIEWS;
    a->bad = 0;
    if (rc || !(batch = vp_pair_room(pair, block, err))
        || !(view = vp_alloc((size_t)block, sizeof *view, "the views", err))
        || !(x = vp_alloc((size_t)voxels_of(a), sizeof(float), "the volume", err))
        || vp_pair_begin(pair, a->z0, a->z1, x, err) || sum_views(a, pair, block, view, batch, err) || vp_pair_end(pair, err))
        rc = -1;
    const double t = vp_now();
    if (!rc)
        rc = vp_writer_pages(a->writer, a->z1 - a->z0, x, a->threads, err);
    vp_stats_time(a->stats, "write", vp_now() - t);
    vp_pair_leave(pair, batch);
    vp_pair_close(pair);
    free(view);
    free(x);
    return rc;
}
