/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of an iteration: volumes in memory and in the scratch folder, blocks of views, lengths of rays. */
#include "ct/iterate_internal.h"

#include "base/err.h"
#include "base/size.h"
#include "base/spill.h"
#include "engine/rates.h"

#include <math.h>

static uint64_t voxel_bytes(const struct vp_iterate *job)
{
    return (uint64_t)(job->grid->n[0] * job->grid->n[1] * job->grid->n[2]) * sizeof(float);
}

static uint64_t view_bytes(const struct vp_iterate *job)
{
    return (uint64_t)(job->scan->nu * job->scan->nv) * sizeof(float);
}

static bool has_unit(const struct vp_iterate *job)
{
    return vp_method_of(job->method)->unit;
}

static bool has_volume(const struct vp_iterate *job, int i)
{
    const struct vp_method *m = vp_method_of(job->method);
    const bool mask = job->mask || job->mask_held;
    return i == VP_ITERATE_MASK ? mask : i == VP_ITERATE_UNIT ? m->unit && !mask : i < VP_ITERATE_FIRST + m->volumes - job->given;
}

/* Returns the place of volume i, if it is one; or the number of volumes, for a large i. */
static int place_of(const struct vp_iterate *job, int i)
{
    int place = 0;
    for (int other = 0; other < i; other++)
        place += has_volume(job, other);
    return place;
}

static bool spills(const struct vp_iterate *job, int i)
{
    return place_of(job, i) < job->spilled;
}

int vp_iterate_volumes(const struct vp_iterate *job)
{
    return place_of(job, VP_ITERATE_FIRST + VP_ITERATE_VOLUMES);
}

/* x and the mask are whole on each rank, and one that is projected: ones, or the mask in place of them, or the method's. */
int vp_iterate_parts(const struct vp_iterate *job)
{
    return job->share.size > 1 ? vp_iterate_volumes(job) - 2 - (has_volume(job, VP_ITERATE_MASK) && !has_unit(job)) : 0;
}

float *vp_iterate_open_volume(const struct vp_iterate *job, int i, struct vp_err *err)
{
    const size_t n = (size_t)(voxel_bytes(job) / sizeof(float));
    return spills(job, i) ? vp_spill_open(job->scratch, voxel_bytes(job), "a volume", err)
         : i == VP_ITERATE_RESULT ? vp_alloc(n, sizeof(float), "a volume", err) : vp_alloc_raw(n, sizeof(float), "a volume", err);
}

float *vp_iterate_open_result(const struct vp_iterate *job, struct vp_err *err)
{
    return vp_iterate_open_volume(job, VP_ITERATE_RESULT, err);
}

float *vp_iterate_open_mask(const struct vp_iterate *job, struct vp_err *err)
{
    return vp_iterate_open_volume(job, VP_ITERATE_MASK, err);
}

int vp_iterate_buffers(const struct vp_iterate *job)
{
    return job->place.used && !job->place.travels && job->share.size <= 1 ? 2 : 1;
}

/* Returns the bytes without the kept lengths of rays, of blocks of `block` views. */
static uint64_t bytes_of(const struct vp_iterate *job, int64_t block)
{
    const int64_t turn = vp_iterate_turn(job, block), blocks = vp_iterate_buffers(job) + (has_unit(job) && !job->kept ? 1 : 0);
    const int parts = vp_iterate_parts(job);
    return vp_pair_holds(job->pair)
         + (uint64_t)(2 * VP_PAIR_VIEWS + blocks * turn) * view_bytes(job)
         + (uint64_t)turn * sizeof(struct vp_pass_sums) + (uint64_t)parts * vp_iterate_part_bytes(job)
         + (uint64_t)(vp_iterate_volumes(job) - parts - job->spilled) * voxel_bytes(job)
         + (uint64_t)job->spilled * vp_iterate_window(job->grid->n)
         + (uint64_t)(job->last - job->first) * (sizeof(int64_t) + 1);
}

static uint64_t kept_bytes(const struct vp_iterate *job)
{
    return job->kept ? (uint64_t)(job->last - job->first) * view_bytes(job) : 0;
}

uint64_t vp_iterate_bytes(const struct vp_iterate *job)
{
    /* views of a turn beyond its own blocks, if slabs travel on another rank */
    const uint64_t more = (uint64_t)vp_max64(0, job->turn - vp_iterate_turn(job, job->block));
    const uint64_t each = (has_unit(job) && !job->kept ? 2 : 1) * view_bytes(job) + sizeof(struct vp_pass_sums);
    return bytes_of(job, job->block) + kept_bytes(job) + more * each;
}

/* Returns the passes over all views, in both directions together: an ordered subset sums its weights anew, too, from lengths
 * of rays that are kept or are projections. */
static double passes_of(const struct vp_iterate *job)
{
    return job->blocks == 1 ? 2 : job->kept ? 3 : 4;
}

double vp_iterate_updates(const struct vp_iterate *job)
{
    return passes_of(job) * (double)(job->last - job->first) * (double)(voxel_bytes(job) / sizeof(float));
}

double vp_iterate_traffic(const struct vp_iterate *job)
{
    const int64_t views = job->last - job->first;
    const double blocks = job->place.travels ? (double)vp_div_up(views, job->block) : 1;
    const double visits = job->blocks > 1 ? (double)job->blocks : 1; /* passes over the volume */
    const double volumes = passes_of(job) * fmax(blocks, visits) + (blocks - 1); /* and the sum of the blocks before */
    return job->place.used ? volumes * (double)voxel_bytes(job)
                           + passes_of(job) * (double)views * (double)view_bytes(job) * (double)job->place.slabs : 0;
}

/* Divides the memory among blocks of views, lengths of rays and volumes, of which job->spilled are in the scratch folder. */
static void divide_rest(struct vp_iterate *job)
{
    const int64_t views = job->last - job->first;
    const int64_t least = vp_pair_block(job->pair, views, 0);
    job->given = vp_method_of(job->method)->gives && vp_pair_gives(job->pair, views, views);
    const int64_t all = vp_pair_gives(job->pair, views, least) ? least : views;
    job->kept = false;
    if (job->given && (all == least || bytes_of(job, all) <= job->memory)) {
        job->block = all;
        return;
    }
    /* lengths of rays are kept if there is room, else made anew in each iteration */
    job->given = false;
    job->kept = has_unit(job);
    job->kept = job->kept && bytes_of(job, least) + kept_bytes(job) <= job->memory;
    const uint64_t rest = bytes_of(job, 0) + kept_bytes(job), shares = has_unit(job) && !job->kept ? 2 : 1;
    job->block = vp_pair_block(job->pair, views, job->memory > rest ? (job->memory - rest) / shares : 0);
}

/* Returns the seconds that an iteration copies: to devices, and, three times for each visit of a volume, to a disk. */
static double copies_of(const struct vp_iterate *job)
{
    const double visits = job->place.travels ? (double)vp_div_up(job->last - job->first, job->block) : 1;
    return vp_iterate_traffic(job) / vp_rates.views_up
         + 3 * visits * (double)job->spilled * (double)voxel_bytes(job) * vp_rates.again;
}

void vp_iterate_divide(struct vp_iterate *job)
{
    double best = INFINITY;
    int chosen = 0;
    job->spilled = 0;
    divide_rest(job);
    if (vp_iterate_bytes(job) <= job->memory || !job->scratch || !job->place.used)
        return;
    for (int all = vp_iterate_volumes(job), n = 1; n <= all; n++) {
        job->spilled = n;
        divide_rest(job);
        if (n > vp_iterate_volumes(job) || vp_iterate_bytes(job) > job->memory || copies_of(job) >= best)
            continue;
        best = copies_of(job);
        chosen = n;
    }
    job->spilled = chosen;
    divide_rest(job);
}
