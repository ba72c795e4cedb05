/* SPDX-License-Identifier: BSD-3-Clause */
/* Iterations on several ranks. Each projects a part of the views, of the whole volume, and sums all views into its part of the
 * slices: so every sum has the order of one process, whatever the geometry. */
#include "ct/iterate_internal.h"

#include "base/size.h"
#include "device/ranks.h"

#include <stdlib.h>

int64_t vp_iterate_unit(const struct vp_iterate *job)
{
    const int64_t slab = job->place.slab > 0 ? job->place.slab : VP_PAIR_SLAB;
    return job->place.used && job->place.slabs >= job->share.size ? slab : 1; /* a device sums whole slabs */
}

uint64_t vp_iterate_part_bytes(const struct vp_iterate *job)
{
    const struct vp_share *const s = &job->share;
    const int64_t nz = job->grid->n[2], unit = vp_iterate_unit(job);
    return (uint64_t)(job->grid->n[0] * job->grid->n[1]
                      * (vp_share_at(s, s->rank + 1, nz, unit) - vp_share_at(s, s->rank, nz, unit))) * sizeof(float);
}

int64_t vp_iterate_turn(const struct vp_iterate *job, int64_t block)
{
    return job->place.travels ? block : vp_min64(block * vp_max64(1, job->share.size), job->last - job->first);
}

/* Choices in which ranks must not differ: the turns of views that they exchange, and devices or CPUs, whose bits differ. */
struct alike {
    int64_t turn, slab;
    bool used, kept, given;
};

int vp_iterate_agree(struct vp_iterate *job, int rc, struct vp_err *err)
{
    job->turn = rc ? 0 : vp_iterate_turn(job, job->block);
    if (!job->share.ranks)
        return rc;
    for (bool again = true; again;) {
        const int64_t slab = job->place.used ? vp_iterate_unit(job) : 0;
        struct alike mine = {job->turn, slab, job->place.used, job->kept, job->given};
        struct alike *const all = vp_alloc((size_t)job->share.size, sizeof *all, "the plans of ranks", err);
        rc = vp_ranks_agree(job->share.ranks, rc || !all ? -1 : 0, &mine, sizeof mine, all, err);
        again = false;
        for (int i = 0; i < job->share.size && !rc; i++) {
            again = again || all[i].used != mine.used || all[i].slab != mine.slab;
            mine.kept = mine.kept && all[i].kept;
            mine.given = mine.given && all[i].given;
            mine.turn = vp_min64(mine.turn, all[i].turn);
        }
        free(all);
        if (rc)
            return -1;
        if (again) {
            if (job->place.used && !job->place.automatic)
                rc = vp_fail(err, VP_ERESOURCE, "the devices of ranks are not alike: expected GPUs on all, that hold the same slabs");
            else if (job->place.used)
                vp_pair_refuse(job->pair, &job->place, "the devices of ranks are not alike");
            vp_iterate_divide(job);
            job->turn = vp_iterate_turn(job, job->block);
            continue;
        }
        job->kept = mine.kept;
        job->given = mine.given && (!job->place.travels || mine.turn >= job->last - job->first);
        job->turn = mine.turn;
    }
    return 0;
}
