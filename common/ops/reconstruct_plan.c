/* SPDX-License-Identifier: BSD-3-Clause */
/* The plan of a reconstruction: where views are filtered, how many are read together, and which device makes which
 * slices from which views. */
#include "ops/reconstruct_internal.h"

#include "base/err.h"
#include "base/size.h"
#include "ops/backproject.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    IN_SLOTS = 3,
    OUT_SLOTS = 2,
    DEVICE_IN_SLOTS = 6,
    DEVICE_OUT_SLOTS = 3,
    BATCH = 16,
    DEVICE_BATCH = 64,
    HOST_STEP = 64, /* slices; slabs on the host are cut finer only where they must be */
    SLICES = 32,    /* copied together */
    ATTEMPTS = 8    /* to cut slabs that are a step smaller */
};
static const uint64_t SLOT_BYTES = 32 << 20;
static const uint64_t PROCESS_BYTES = 7 << 20; /* code, stacks and small things; 5.4 MiB were seen */

/* Rough rates for the choice of subsets: updates of a GPU of SPEED a second, and bytes. */
static const double UPDATES = 2e12, SPEED = 132 * 1.98, READ = 25e9, UPLOAD = 40e9, ADD = 10e9;
/* Subsets cost the promise of equal bits, so they have to save that much: seconds, and a part of the whole. */
static const double WORTH_SUBSETS = 0.1, WORTH_PART = 0.25;

static int64_t divided(int64_t a, int64_t by)
{
    return (a + by - 1) / by;
}

bool vp_reconstruct_on_host(const struct vp_reconstruct *r)
{
    return r->kind->on_host;
}

/* ---- buffers ---- */

int vp_reconstruct_in_slots(const struct vp_reconstruct *r)
{
    return vp_reconstruct_on_host(r) ? IN_SLOTS : DEVICE_IN_SLOTS;
}

/* At least; once slices were made they stay as they are, for the writer may be at work on them. */
static int out_slots(const struct vp_reconstruct *r)
{
    return r->made > 0 ? r->out_slots : vp_reconstruct_on_host(r) ? OUT_SLOTS : DEVICE_OUT_SLOTS;
}

/* Every slot that a device reads from needs room for the longer rows. */
int vp_reconstruct_wide_slots(const struct vp_reconstruct *r)
{
    return r->nu == r->in_nu || r->filter_device ? 0 : vp_reconstruct_on_host(r) ? 1 : DEVICE_IN_SLOTS;
}

/* Enough to write in large pieces, but only a small part of the memory, which the volume needs. */
static int64_t slices_a_slot(const struct vp_reconstruct *r)
{
    if (r->made > 0)
        return r->group;
    const uint64_t page = (uint64_t)r->grid->n[0] * (uint64_t)r->grid->n[1] * sizeof(float);
    const uint64_t most = r->memory / 32 < SLOT_BYTES ? r->memory / 32 : SLOT_BYTES;
    int64_t n = (int64_t)(most / (page > 0 ? page : 1));
    n = n < 1 ? 1 : n >= SLICES ? n / SLICES * SLICES : n;
    return vp_min64(n, r->slab);
}

/* Views a batch, at most: a device wants pieces that are worth a copy and all threads, but short ones, for the first
 * has to come before anything else can begin. */
static int largest_batch(const struct vp_reconstruct *r)
{
    const uint64_t view = (uint64_t)r->in_nu * (uint64_t)r->nv * sizeof(float);
    const uint64_t all = view * (uint64_t)(r->last - r->first);
    const uint64_t slot = all / 256 < SLOT_BYTES ? SLOT_BYTES : 2 * SLOT_BYTES;
    if (vp_reconstruct_on_host(r))
        return BATCH;
    int batch = 2;
    while (batch < DEVICE_BATCH && 2 * (uint64_t)batch * view <= slot)
        batch *= 2;
    return batch;
}

static int smallest_batch(const struct vp_reconstruct *r)
{
    return vp_reconstruct_on_host(r) ? 1 : 2; /* a pair */
}

/* ---- who makes what ---- */

void vp_reconstruct_domain(const struct vp_reconstruct *r, int64_t *lo, int64_t *hi)
{
    *lo = r->z0 + r->made;
    *hi = r->mirrored ? (r->grid->n[2] + 1) / 2 : r->z1;
}

struct vp_bp_job vp_reconstruct_job(const struct vp_reconstruct *r, const struct vp_bp_part *part)
{
    return (struct vp_bp_job){.views = r->views, .n_views = r->n_views, .first = part->first, .last = part->last,
                              .pairs = r->subsets > 1 && r->partner > 0, .nu = r->nu, .nv = r->nv, .grid = r->grid,
                              .z0 = part->z0, .z1 = part->z1, .mirrored = r->mirrored,
                              .filter = r->filter_device ? r->filter : NULL,
                              .in_nu = r->filter_device ? r->in_nu : r->nu,
                              .any_order = vp_views_seekable(r->source), .threads = r->threads,
                              .device = part->device, .device_memory = r->device_memory,
                              .together = part->plan.together};
}

static struct vp_bp_part part_of(const struct vp_reconstruct *r, int crew, int subset, int64_t z0, int64_t z1)
{
    const bool pairs = r->subsets > 1 && r->partner > 0;
    const int64_t lo = pairs ? 0 : r->first, n = pairs ? r->partner : r->last - r->first;
    return (struct vp_bp_part){.device = r->devices[crew * r->subsets + subset], .subset = subset, .z0 = z0, .z1 = z1,
                            .first = lo + n * subset / r->subsets, .last = lo + n * (subset + 1) / r->subsets};
}

/* Devices are asked side by side: each takes a while to answer. */
static int plan_parts(struct vp_reconstruct *r, struct vp_bp_part *part, int n, struct vp_err *err)
{
    int rc = 0;
#pragma omp parallel for num_threads(n) schedule(static, 1) reduction(min : rc) if (n > 1)
    for (int i = 0; i < n; i++) {
        const struct vp_bp_job job = vp_reconstruct_job(r, &part[i]);
        struct vp_err why = VP_ERR_INIT;
        if (vp_slab_plan(r->kind, &job, &part[i].plan, &why))
            rc = vp_err_keep(err, &why);
    }
    return rc;
}

/* The part that fits least: the largest of those that do not, else the largest. */
static void device_bytes(struct vp_reconstruct *r, const struct vp_bp_part *part, int n)
{
    r->device_bytes = r->device_room = 0;
    for (int i = 0; i < n; i++) {
        const struct vp_bp_plan *p = &part[i].plan;
        const bool fits = p->device <= p->room, fitted = r->device_bytes <= r->device_room;
        if (fits < fitted || (fits == fitted && p->device >= r->device_bytes)) {
            r->device_bytes = p->device;
            r->device_room = p->room;
        }
    }
}

int vp_reconstruct_place(struct vp_reconstruct *r, struct vp_err *err)
{
    int64_t z, hi;

    vp_reconstruct_domain(r, &z, &hi);
    r->parts = 0;
    for (int i = 0; i < r->n_devices / r->subsets && z < hi; i++) {
        const int64_t z1 = vp_min64(z + r->crew[i].depth, hi);
        for (int c = 0; c < r->subsets && z1 > z; c++)
            r->part[r->parts++] = part_of(r, i, c, z, z1);
        z = z1;
    }
    if (plan_parts(r, r->part, r->parts, err))
        return -1;
    device_bytes(r, r->part, r->parts);
    return 0;
}

/* Whole units that a crew can make: the last one may be cut short by the end of the volume. */
static int64_t units(const struct vp_crew *crew, int64_t slices, int64_t unit)
{
    return crew->most >= slices ? divided(slices, unit) : crew->most / unit;
}

int64_t vp_reconstruct_share(struct vp_crew *crew, int n, int64_t slices, int64_t unit)
{
    int64_t left = divided(slices, unit), room = 0;
    double none = 0, all = 0; /* times in which too little and enough can be done */

    for (int i = 0; i < n; i++) {
        crew[i].depth = 0;
        room += units(&crew[i], slices, unit);
        all = (double)(left + 1) / crew[i].speed > all ? (double)(left + 1) / crew[i].speed : all;
    }
    for (int k = 0; k < 64 && room > left; k++) {
        const double time = (none + all) / 2;
        int64_t done = 0;
        for (int i = 0; i < n; i++)
            done += vp_min64((int64_t)(time * crew[i].speed), units(&crew[i], slices, unit));
        *(done >= left ? &all : &none) = time;
    }
    const bool enough = room > left;
    for (int i = 0; i < n; i++) {
        const int64_t most = units(&crew[i], slices, unit), fair = enough ? (int64_t)(all * crew[i].speed) : most;
        const int64_t share = vp_min64(vp_min64(fair, most), left);
        crew[i].depth = share * unit;
        left -= share;
    }
    return left;
}

/* The devices in crews of `subsets`, of which every one could make all slices. */
static void muster(struct vp_reconstruct *r, const struct vp_crew *device, int subsets)
{
    int64_t lo, hi;

    vp_reconstruct_domain(r, &lo, &hi);
    r->subsets = subsets;
    for (int i = 0; i < r->n_devices / subsets; i++) {
        r->crew[i] = device[i * subsets];
        for (int c = 1; c < subsets; c++) {
            const struct vp_crew *d = &device[i * subsets + c];
            r->crew[i].speed = d->speed < r->crew[i].speed ? d->speed : r->crew[i].speed;
            r->crew[i].free = d->free < r->crew[i].free ? d->free : r->crew[i].free;
            r->crew[i].total = d->total < r->crew[i].total ? d->total : r->crew[i].total;
        }
        r->crew[i].most = hi - lo;
    }
}

/* Slabs for one pass (or a part of it) from the crews' shares of `slices`. */
static void cut(struct vp_reconstruct *r, int64_t slices, int64_t unit)
{
    (void)vp_reconstruct_share(r->crew, r->n_devices / r->subsets, slices, unit);
    r->used = 0;
    r->slab = 0;
    for (int i = 0; i < r->n_devices / r->subsets; i++) {
        r->used += r->crew[i].depth > 0 ? r->subsets : 0;
        r->slab = vp_max64(r->slab, r->crew[i].depth);
    }
    r->slab = vp_min64(r->slab, slices);
    r->unit = unit;
}

void vp_reconstruct_share_again(struct vp_reconstruct *r)
{
    const int crews = r->n_devices / r->subsets, used = r->used;
    int64_t lo, hi, slices = 0;

    vp_reconstruct_domain(r, &lo, &hi);
    if (lo >= hi || r->parts < crews * r->subsets)
        return;
    for (int i = 0; i < r->parts; i++)
        if (r->part[i].took <= 0)
            return;
    for (int i = 0; i < crews; i++) {
        const struct vp_bp_part *part = &r->part[i * r->subsets];
        double took = 0;
        for (int c = 0; c < r->subsets; c++)
            took = part[c].took > took ? part[c].took : took;
        r->crew[i].speed = (double)(part->z1 - part->z0) / took;
        slices += r->crew[i].depth;
    }
    cut(r, vp_min64(slices, hi - lo), r->unit);
    r->used = used > r->used ? used : r->used;
}

/* ---- what it takes ---- */

/* What a pass with these parts takes, into r->bytes and r->device_bytes. The devices' share counts only against what is
 * free there. */
static void count_bytes(struct vp_reconstruct *r, const struct vp_bp_part *part, int n)
{
    const uint64_t in = (uint64_t)r->in_nu * (uint64_t)r->nv * sizeof(float);
    const uint64_t wide = (uint64_t)r->nu * (uint64_t)r->nv * sizeof(float);
    const uint64_t slice = (uint64_t)r->grid->n[0] * (uint64_t)r->grid->n[1] * sizeof(float);

    r->bytes = PROCESS_BYTES + vp_views_bytes(r->source) +
               (uint64_t)r->batch * ((uint64_t)vp_reconstruct_in_slots(r) * in +
                                     (uint64_t)vp_reconstruct_wide_slots(r) * wide) +
               (uint64_t)(out_slots(r) + r->subsets - 1) *
                   (uint64_t)slices_a_slot(r) * slice +
               (r->filter ? vp_filter_bytes(r->filter) : 0) +
               (r->normalize ? vp_normalize_bytes(r->normalize) : 0);
    for (int i = 0; i < n; i++)
        r->bytes += part[i].plan.host;
    device_bytes(r, part, n);
}

static bool fits(const struct vp_reconstruct *r)
{
    return r->bytes <= r->memory && r->device_bytes <= r->device_room;
}

/* The slabs as they are cut: 1 if they fit, 0 if not, -1 on errors. */
static int check(struct vp_reconstruct *r, struct vp_err *err)
{
    int64_t lo, hi, z;

    vp_reconstruct_domain(r, &lo, &hi);
    if (vp_reconstruct_place(r, err))
        return -1;
    snprintf(r->kernel, sizeof r->kernel, "%s", r->part[0].plan.kernel);
    snprintf(r->filter_kernel, sizeof r->filter_kernel, "%s", r->part[0].plan.filter);
    count_bytes(r, r->part, r->parts);
    /* where the halves of a mirrored volume meet, a slab of a later pass may take more than the first one */
    const int64_t middle = r->grid->n[2] / 2;
    z = lo + (middle - lo) / r->slab * r->slab;
    if (fits(r) && !r->mirrored && middle > lo && z < hi && z >= r->part[r->parts - 1].z1) {
        struct vp_bp_part part = part_of(r, 0, 0, z, vp_min64(z + r->slab, hi));
        if (plan_parts(r, &part, 1, err))
            return -1;
        if (part.plan.device > r->device_bytes)
            device_bytes(r, &part, 1);
        if (part.plan.host > r->part[0].plan.host)
            r->bytes += part.plan.host - r->part[0].plan.host;
    }
    return fits(r);
}

/* The numbers of the last count against their limits. */
static int too_large(const struct vp_reconstruct *r, const char *what, struct vp_err *err)
{
    char need[16], have[16];
    const bool host = r->bytes > r->memory;
    vp_format_bytes(need, sizeof need, host ? r->bytes : r->device_bytes);
    vp_format_bytes(have, sizeof have, host ? r->memory : r->device_room);
    return vp_fail(err, VP_ERESOURCE, "%s needs %s, %s %s", what, need,
                   host ? "the memory limit is" : "the device has", have);
}

/* ---- one pass ---- */

/* With any batch: 1, 0 if none allows it, -1 on errors. */
static int one_pass(struct vp_reconstruct *r, struct vp_err *err)
{
    r->passes = 1;
    for (r->batch = largest_batch(r);; r->batch /= 2) {
        const int rc = check(r, err);
        if (rc || r->batch <= smallest_batch(r))
            return rc;
    }
}

/* Detector rows of a slab. */
static int64_t rows_of(const struct vp_reconstruct *r, int64_t z0, int64_t z1)
{
    int64_t v0, v1;
    vp_backproject_rows(r->views, r->n_views, r->nv, r->grid, z0, z1, &v0, &v1);
    if (r->mirrored) {
        int64_t w0, w1;
        vp_backproject_rows(r->views, r->n_views, r->nv, r->grid, r->grid->n[2] - z1, r->grid->n[2] - z0, &w0, &w1);
        v0 = vp_min64(v0, w0);
        v1 = vp_max64(v1, w1);
    }
    return vp_max64(v1 - v0, 1);
}

/* Seconds that the slabs and subsets take in one pass, roughly: the slowest crew's kernels (which do whole units of
 * slices) and filter, or its upload, or the reading; and to fetch and add up the subsets. */
static double seconds(const struct vp_reconstruct *r, const struct vp_bp_plan *plan, int64_t unit)
{
    const double views = (double)(r->last - r->first), mine = views / r->subsets;
    const double plane = (double)r->grid->n[0] * (double)r->grid->n[1], row = (double)r->in_nu;
    int64_t z, hi;

    vp_reconstruct_domain(r, &z, &hi);
    const bool both = !r->mirrored && plan->mirror && z == 0 && hi == r->grid->n[2] && r->crew[0].depth >= hi;
    const double added = r->subsets > 1 ? plane * (double)(r->z1 - r->z0) * sizeof(float) * r->subsets / ADD : 0;
    double slowest = views * row * (double)rows_of(r, z, hi) * sizeof(float) / READ;
    for (int i = 0; i < r->n_devices / r->subsets && z < hi; i++) {
        const int64_t n = vp_min64(r->crew[i].depth, hi - z);
        if (n < 1)
            continue;
        const double slices = (double)(both ? 2 * divided((n + 1) / 2, unit) * unit : divided(n, unit) * unit);
        const double samples = mine * row * (double)rows_of(r, z, z + n);
        const double kernel = (r->mirrored ? 2 : 1) * slices * plane * mine / (UPDATES * r->crew[i].speed / SPEED);
        const double work = kernel + (r->filter_device ? samples * plan->filter_seconds : 0);
        const double copies = samples * sizeof(float) / UPLOAD;
        slowest = work > slowest ? work : slowest;
        slowest = copies > slowest ? copies : slowest;
        z += n;
    }
    return slowest + added;
}

/* Slabs of equal thickness (in time) for one pass, made by crews of `subsets` devices. */
static void cut_once(struct vp_reconstruct *r, const struct vp_crew *device, int subsets, bool mirrored, int64_t unit)
{
    int64_t lo, hi;

    r->mirrored = mirrored;
    muster(r, device, subsets);
    vp_reconstruct_domain(r, &lo, &hi);
    cut(r, hi - lo, unit);
    if (r->used > subsets)
        return;
    /* the whole volume is its own mirror image */
    r->mirrored = mirrored && r->made > 0;
    vp_reconstruct_domain(r, &lo, &hi);
    for (int i = 0; i < r->n_devices / subsets; i++)
        r->crew[i].depth = r->crew[i].depth > 0 ? hi - lo : 0;
    r->slab = hi - lo;
}

/* As few subsets as keep the devices busy: one, unless more save enough. */
static int choose_subsets(struct vp_reconstruct *r, const struct vp_crew *device, const struct vp_bp_plan *plan,
                          bool mirrored, int64_t unit)
{
    if (r->want_subsets > 0)
        return r->want_subsets;
    if (!vp_views_seekable(r->source) || r->made > 0)
        return 1;
    int best = 1;
    double least = 0, one = 0;
    const int64_t most = vp_min64(r->n_devices, (r->last - r->first) / 2);
    for (int subsets = 1; subsets <= most && r->n_devices > 1; subsets++) {
        cut_once(r, device, subsets, mirrored, unit);
        const double t = seconds(r, plan, unit);
        one = subsets == 1 ? t : one;
        if (subsets == 1 || t < least) {
            best = subsets;
            least = t;
        }
    }
    return one - least > WORTH_SUBSETS && one - least > WORTH_PART * one ? best : 1;
}

/* ---- several passes ---- */

/* Can a crew make n slices in a pass, with r->batch? host: set if it was the host's memory that is too small. */
static int can_make(struct vp_reconstruct *r, int crew, int64_t n, bool *good, bool *host, struct vp_err *err)
{
    int64_t z, hi;

    vp_reconstruct_domain(r, &z, &hi);
    for (int c = 0; c < r->subsets; c++)
        r->part[c] = part_of(r, crew, c, z, z + n);
    if (plan_parts(r, r->part, r->subsets, err))
        return -1;
    r->slab = n;
    count_bytes(r, r->part, r->subsets);
    *good = fits(r);
    *host |= r->bytes > r->memory;
    return 0;
}

/* The most of `all` slices that a crew can make in one pass, 0 if not even one. The bytes grow with the depth: bisect
 * on whole steps, then try the fractions of one. */
static int largest_slab(struct vp_reconstruct *r, int crew, int64_t all, int64_t step, bool *host, struct vp_err *err)
{
    int64_t lo = 0, hi = divided(all, step);
    bool good = false;

    while (lo < hi) {
        const int64_t mid = (lo + hi + 1) / 2;
        if (can_make(r, crew, vp_min64(mid * step, all), &good, host, err))
            return -1;
        if (good)
            lo = mid;
        else
            hi = mid - 1;
    }
    r->crew[crew].most = vp_min64(lo * step, all);
    for (int64_t n = step / 2; lo == 0 && n >= 1; n = good ? 0 : n / 2) {
        if (n <= all && can_make(r, crew, n, &good, host, err))
            return -1;
        r->crew[crew].most = good ? n : 0;
    }
    return 0;
}

/* Crews of the same devices with about the same memory can make the same. */
static bool alike(const struct vp_crew *a, const struct vp_crew *b)
{
    const uint64_t apart = a->free > b->free ? a->free - b->free : b->free - a->free;
    return a->speed == b->speed && a->total == b->total && apart <= a->total / 64;
}

/* Cut slabs that fit, for the fewest passes with r->batch. Their number, 0 if there are none, -1 on errors. host: was
 * it the host's memory that some did not fit into? */
static int64_t passes_of_batch(struct vp_reconstruct *r, int64_t step, bool *host, struct vp_err *err)
{
    const int crews = r->n_devices / r->subsets;
    int64_t lo, hi, room = 0, least = INT64_MAX;

    vp_reconstruct_domain(r, &lo, &hi);
    const int64_t all = hi - lo;
    *host = false;
    for (int i = 0; i < crews; i++) {
        int like = 0;
        while (like < i && !alike(&r->crew[like], &r->crew[i]))
            like++;
        if (like < i)
            r->crew[i].most = r->crew[like].most;
        else if (largest_slab(r, i, all, step, host, err))
            return -1;
        least = r->crew[i].most > 0 ? vp_min64(least, r->crew[i].most) : least;
    }
    for (int attempt = 0; least > 0 && least < INT64_MAX; attempt++) {
        const int64_t unit = vp_reconstruct_on_host(r) || least < step ? 1 : step;
        room = 0;
        for (int i = 0; i < crews; i++)
            room += units(&r->crew[i], all, unit) * unit;
        /* no more of it than an equal share of all passes */
        const int64_t a_pass = vp_reconstruct_on_host(r) ? vp_min64(room, all) : divided(all, divided(all, room));
        cut(r, a_pass, unit);
        r->passes = divided(all, divided(a_pass, unit) * unit);
        const int rc = check(r, err);
        if (rc)
            return rc < 0 ? -1 : r->passes;
        *host |= r->bytes > r->memory;
        /* another slab than the first of a crew takes more: smaller ones, later by more than a step */
        least = INT64_MAX;
        for (int i = 0; i < crews; i++) {
            int64_t *most = &r->crew[i].most;
            const int64_t less = attempt < ATTEMPTS ? unit : vp_max64(unit, *most / 16 / unit * unit);
            *most -= *most > unit ? less : divided(*most, 2);
            least = *most > 0 ? vp_min64(least, *most) : least;
        }
    }
    return 0;
}

/* Cut slabs for the fewest passes, with the largest of the batches that allow those. Their number, 0 if there are none,
 * -1 on errors. */
static int64_t fewest_passes(struct vp_reconstruct *r, const struct vp_crew *device, bool mirrored, int64_t step,
                             struct vp_err *err)
{
    int64_t fewest = 0;
    int best = smallest_batch(r);
    bool host = true;

    r->mirrored = mirrored;
    muster(r, device, r->subsets);
    for (r->batch = largest_batch(r); r->batch >= smallest_batch(r) && host; r->batch /= 2) {
        const int64_t passes = passes_of_batch(r, step, &host, err);
        if (passes < 0)
            return -1;
        if (passes > 0 && (!fewest || passes < fewest)) {
            fewest = passes;
            best = r->batch;
        }
    }
    r->batch = best;
    return passes_of_batch(r, step, &host, err);
}

/* ---- all of it ---- */

/* Filter on the device where that is asked for, or can be had; and what the slabs may be. */
static int choose(struct vp_reconstruct *r, struct vp_bp_plan *plan, struct vp_err *err)
{
    const bool mirrored = r->mirrored;

    r->mirrored = false;
    r->subsets = 1;
    r->filter_device = r->filter && !vp_reconstruct_on_host(r) && r->filter_on != VP_FILTER_ON_CPU;
    for (;;) {
        const struct vp_bp_part part = part_of(r, 0, 0, r->z0, vp_min64(r->z0 + 1, r->z1));
        const struct vp_bp_job job = vp_reconstruct_job(r, &part);
        struct vp_err why = VP_ERR_INIT;
        if (!vp_slab_plan(r->kind, &job, plan, &why))
            break;
        /* auto means whatever can do it */
        if (!r->filter_device || r->filter_on == VP_FILTER_ON_GPU) {
            *err = why;
            return -1;
        }
        r->filter_device = false;
    }
    if (r->filter_device && r->filter_on == VP_FILTER_ON_AUTO &&
        plan->filter_seconds > vp_filter_seconds(r->filter))
        r->filter_device = false;
    r->partner = vp_views_seekable(r->source) ? plan->partner : 0;
    r->mirrored = mirrored && r->made > 0;
    return 0;
}

/* Subsets that are asked for. */
static int check_subsets(const struct vp_reconstruct *r, struct vp_err *err)
{
    if (r->want_subsets <= 1)
        return 0;
    if (r->want_subsets > r->n_devices || vp_reconstruct_on_host(r))
        return vp_fail(err, VP_ERESOURCE, "%d subsets of the views need as many GPUs, there %s %d", r->want_subsets,
                       r->n_devices == 1 && !vp_reconstruct_on_host(r) ? "is" : "are",
                       vp_reconstruct_on_host(r) ? 0 : r->n_devices);
    if (r->last - r->first < 2 * r->want_subsets)
        return vp_fail(err, VP_EUSAGE, "--subsets %d: expected at least %d views, got %lld", r->want_subsets,
                       2 * r->want_subsets, (long long)(r->last - r->first));
    if (!vp_views_seekable(r->source)) {
        vp_fail(err, VP_EUSAGE, "subsets of the views cannot be taken from a pipe, which brings one after the other");
        return vp_hint(err, "give the projections as files");
    }
    return 0;
}

/* Speed and memory of each device. */
static struct vp_crew *ask_devices(const struct vp_reconstruct *r, struct vp_err *err)
{
    struct vp_crew *device = calloc((size_t)r->n_devices, sizeof *device);
    if (!device)
        vp_fail(err, VP_ERESOURCE, "out of memory");
    for (int i = 0; device && i < r->n_devices; i++) {
        struct vp_device_info info = {0};
        if (!vp_reconstruct_on_host(r) && r->kind->info(r->devices[i], &info, err)) {
            free(device);
            return NULL;
        }
        device[i] = (struct vp_crew){.speed = info.speed > 0 ? info.speed : SPEED, .free = info.free,
                                     .total = info.total};
    }
    return device;
}

static int make_plan(struct vp_reconstruct *r, const struct vp_crew *device, const struct vp_bp_plan *plan,
                     struct vp_err *err)
{
    const bool on_host = vp_reconstruct_on_host(r), whole = r->z0 == 0 && r->z1 == r->grid->n[2];
    const bool mirror = plan->mirror && whole && r->grid->n[2] > 1, again = r->made > 0;
    const int64_t step = on_host ? 1 : plan->z_step;
    const bool pairs = again ? r->mirrored : mirror && r->n_devices > 1; /* in one pass */
    const int subsets = choose_subsets(r, device, plan, pairs, step);
    char what[96];

    cut_once(r, device, subsets, pairs, step);
    int rc = one_pass(r, err);
    if (rc == 0 && subsets > 1 && r->want_subsets == 0) {
        cut_once(r, device, 1, pairs, step);
        rc = one_pass(r, err);
    }
    if (rc)
        return rc < 0 ? -1 : 0;
    const bool once = !vp_views_seekable(r->source);
    snprintf(what, sizeof what, "volume of %lld x %lld x %lld", (long long)r->grid->n[0], (long long)r->grid->n[1],
             (long long)(r->z1 - r->z0));
    too_large(r, what, err); /* to be said unless there is another way */
    vp_hint(err, "give the projections as files (they are then read several times), --slab for a part, a coarser "
                 "--voxel, or more --memory");
    if (once && r->n_devices == 1)
        return -1;
    struct vp_err why = VP_ERR_INIT;
    const bool mirrored = again ? pairs : mirror && (r->any_order || once);
    int64_t passes = fewest_passes(r, device, mirrored, on_host ? HOST_STEP : step, &why);
    if (passes == 0 && mirrored && !again) /* there may be room for a slice, but none for a pair */
        passes = fewest_passes(r, device, false, on_host ? HOST_STEP : step, &why);
    if (once && passes >= 0 && passes != 1)
        return -1;
    *err = why;
    if (passes < 0)
        return -1;
    if (passes > 0)
        return 0;
    too_large(r, "one slice at a time", err);
    return vp_hint(err, r->bytes > r->memory ? "allow more --memory"
                                             : "allow more --device-memory, or use --device cpu or a coarser --voxel");
}

/* Where passes follow one another, memory that is left takes the slices of one, so that the devices go on with the next
 * while they are written. Not all of it: it is locked. What there is after the first pass stays. */
static void add_out_slots(struct vp_reconstruct *r)
{
    const uint64_t left = r->memory - r->bytes, half = r->memory / 2;
    int64_t slices = 0;

    if (r->made > 0)
        return;
    r->out_slots = out_slots(r);
    r->group = slices_a_slot(r);
    const uint64_t slot = (uint64_t)r->group * (uint64_t)r->grid->n[0] * (uint64_t)r->grid->n[1] * sizeof(float);
    for (int i = 0; i < r->parts; i += r->subsets)
        slices += (r->part[i].z1 - r->part[i].z0) * (r->mirrored ? 2 : 1);
    const int64_t fit = (int64_t)((left < half ? left : half) / slot);
    const int64_t more = vp_min64(fit, divided(slices, r->group) - r->out_slots);
    if (r->passes == 1 || vp_reconstruct_on_host(r) || more <= 0)
        return;
    r->out_slots += (int)more;
    r->bytes += (uint64_t)more * slot;
}

int vp_reconstruct_plan(struct vp_reconstruct *r, struct vp_err *err)
{
    struct vp_bp_plan plan;

    if (check_subsets(r, err) || choose(r, &plan, err))
        return -1;
    if (!r->crew && !(r->crew = calloc((size_t)r->n_devices, sizeof *r->crew)))
        return vp_fail(err, VP_ERESOURCE, "out of memory");
    if (!r->part && !(r->part = calloc((size_t)r->n_devices, sizeof *r->part)))
        return vp_fail(err, VP_ERESOURCE, "out of memory");
    struct vp_crew *device = ask_devices(r, err);
    const int rc = device ? make_plan(r, device, &plan, err) : -1;
    free(device);
    if (!rc)
        add_out_slots(r);
    return rc;
}

void vp_reconstruct_free(struct vp_reconstruct *r)
{
    free(r->crew);
    free(r->part);
    r->crew = NULL;
    r->part = NULL;
}
