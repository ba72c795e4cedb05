/* SPDX-License-Identifier: BSD-3-Clause */
/* Slabs on the CPU. */
#include "ops/slab.h"
#include "base/err.h"
#include "device/device.h"
#include "ops/backproject.h"

#include <assert.h>
#include <string.h>

static int cpu_plan(const struct vp_bp_job *j, struct vp_bp_plan *plan, struct vp_err *err)
{
    memset(plan, 0, sizeof *plan);
    plan->host = vp_backproject_bytes(j->n_views, j->nu, j->nv, j->grid, j->z0, j->z1, j->threads);
    vp_backproject_rows(j->views, j->n_views, j->nv, j->grid, j->z0, j->z1, &plan->v0, &plan->v1);
    if (plan->v0 >= plan->v1) { /* the slab sees nothing: a row that nothing is taken from */
        plan->v0 = plan->v0 < j->nv ? plan->v0 : j->nv - 1;
        plan->v1 = plan->v0 + 1;
    }
    plan->z_step = 1;
    return vp_backproject_kernel(j->views, j->n_views, j->nu, j->nv, j->grid, plan->kernel, sizeof plan->kernel,
                                 err);
}

static int cpu_open(void **bp, const struct vp_bp_job *j, struct vp_err *err)
{
    struct vp_backproject *b = NULL;
    const int rc = vp_backproject_open(&b, j->views, j->n_views, j->nu, j->nv, j->grid, j->z0, j->z1, j->threads,
                                       NULL, err);
    assert(!j->filter && !j->mirrored);
    *bp = b;
    return rc;
}

static int cpu_add(void *bp, int64_t first, int64_t n, int64_t v0, int64_t v1, const float *proj, uint64_t *ticket,
                   struct vp_err *err)
{
    (void)v0;
    (void)v1; /* whole views: the caller spreads what it has of one */
    *ticket = 0;
    return vp_backproject_add(bp, first, n, proj, err);
}

static int cpu_wait(void *bp, uint64_t ticket, struct vp_err *err)
{
    (void)bp;
    (void)ticket;
    (void)err;
    return 0;
}

static int cpu_flush(void *bp, struct vp_err *err)
{
    return vp_backproject_flush(bp, err);
}

static int cpu_slices(void *bp, int64_t z, int64_t n, float *out, struct vp_err *err)
{
    (void)err;
    vp_backproject_slices(bp, z, n, out);
    return 0;
}

static void cpu_stats(void *bp, struct vp_bp_stats *stats)
{
    (void)bp;
    memset(stats, 0, sizeof *stats);
}

static void cpu_close(void *bp)
{
    vp_backproject_close(bp);
}

static const struct vp_slabs cpu_slabs = {
    .plan = cpu_plan, .open = cpu_open, .add = cpu_add, .wait = cpu_wait, .flush = cpu_flush, .slices = cpu_slices,
    .stats = cpu_stats, .close = cpu_close,
};

const struct vp_slabs *vp_slabs_of(const struct vp_kind *kind)
{
    return kind->on_host ? &cpu_slabs : kind->slabs;
}
