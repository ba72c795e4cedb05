/* SPDX-License-Identifier: BSD-3-Clause */
/* Iterations on several ranks. Each projects a part of the views, of the whole volume, and sums all views into its part of the
 * slices: so every sum has the order of one process, whatever the geometry. */
#include "ct/iterate_internal.h"

#include "base/size.h"

int64_t vp_iterate_unit(const struct vp_iterate *job)
{
    const int64_t slab = job->place.slab > 0 ? job->place.slab : VP_PAIR_SLAB;
    return job->place.used && job->place.slabs >= job->share.size ? slab : 1; /* a device sums whole slabs */
}

uint64_t vp_iterate_part_bytes(const struct vp_iterate *job)
{
    const int64_t *const n = job->grid->n;
    int64_t from, to;
    vp_share_own(&job->share, n[2], vp_iterate_unit(job), &from, &to);
    return (uint64_t)(n[0] * n[1] * (to - from)) * sizeof(float);
}

int64_t vp_iterate_turn(const struct vp_iterate *job, int64_t block)
{
    return vp_share_turn(&job->share, job->place.travels, block, job->last - job->first);
}

int vp_iterate_agree(struct vp_iterate *job, int rc, struct vp_err *err)
{
    const struct vp_share *const share = &job->share;
    while ((rc = vp_share_place(share, job->pair, &job->place, vp_iterate_unit(job), rc, err)) > 0) {
        vp_iterate_divide(job);
        rc = 0;
    }
    if (rc)
        return -1;
    const int64_t views = job->last - job->first;
    int64_t kept = job->kept, travels = -(int64_t)job->place.travels; /* -1: on a rank */
    if (vp_share_least(share, &travels, err))
        return -1;
    /* bits of slabs that travel depend on their blocks, so a rank that holds its slabs takes these */
    job->turn = travels && !job->place.travels ? views : vp_iterate_turn(job, job->block);
    if (vp_share_least(share, &job->turn, err) || vp_share_least(share, &kept, err))
        return -1;
    int64_t given = job->given && (!job->place.travels || job->turn >= views);
    if (vp_share_least(share, &given, err)) /* else they would not exchange the same sums */
        return -1;
    job->kept = kept;
    job->given = given;
    return 0;
}

static int plan(struct vp_iterate *job, struct vp_err *err)
{
    if (vp_pair_open(&job->pair, job->scan, job->grid, job->threads, NULL, err) || vp_pair_plan(job->pair, &job->place, err))
        return -1;
    vp_iterate_divide(job);
    if (job->place.used && job->place.automatic && vp_iterate_bytes(job) > job->memory) {
        vp_pair_refuse(job->pair, &job->place, "the host's memory is too small for the views of a block");
        vp_iterate_divide(job);
    }
    return 0;
}

int vp_iterate_plan(struct vp_iterate *job, struct vp_err *err)
{
    return vp_iterate_agree(job, plan(job, err), err);
}
