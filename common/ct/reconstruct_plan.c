/* SPDX-License-Identifier: BSD-3-Clause */
/* The plan of a reconstruction: where views are filtered, the views of a batch, and the slices that each device makes
 * from which views. */
#include "ct/reconstruct.h"

#include "base/err.h"
#include "base/size.h"
#include "ct/backproject.h"
#include "device/device.h"
#include "engine/rates.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SLICES = 32,    /* copied at once */
    HOST_STEP = 64, /* slices; slabs on the host are cut finer only where they must be */
    ATTEMPTS = 8    /* to cut slabs that are a step smaller */
};

static const uint64_t SLOT_BYTES = 32 << 20;
static const uint64_t PROCESS_BYTES = 7 << 20; /* code, stacks and small things; 5.4 MiB were seen */

static const struct vp_rates *rates_of(const struct vp_reconstruct_plan *p)
{
    return p->of->rates ? p->of->rates : &vp_rates;
}

static uint64_t slice_bytes(const struct vp_reconstruct_plan *p)
{
    return (uint64_t)p->of->grid->n[0] * (uint64_t)p->of->grid->n[1] * sizeof(float);
}

/* Returns the rows of a view that is read. */
static uint64_t rows_in(const struct vp_reconstruct_plan *p)
{
    return (uint64_t)(p->of->in_nv ? p->of->in_nv : p->of->projections.nv);
}

/* ---- buffers ---- */

struct vp_reconstruct_buffers vp_reconstruct_buffers(const struct vp_reconstruct_plan *p)
{
    const uint64_t view = (uint64_t)p->of->in_nu * rows_in(p) * sizeof(float);
    const uint64_t all = view * (uint64_t)(p->of->last - p->of->first);
    const uint64_t slot = all / 256 < SLOT_BYTES ? SLOT_BYTES : 2 * SLOT_BYTES;
    struct vp_reconstruct_buffers b = {.least = 1, .most = VP_RECONSTRUCT_HOST_BATCH, .in = 3, .wide = 1, .out = 2};
    if (!p->of->backend->on_host) { /* pairs; every slot that a device reads from needs room for longer rows */
        b = (struct vp_reconstruct_buffers){.least = 2, .most = 2, .in = VP_RECONSTRUCT_SLOTS,
                                            .wide = VP_RECONSTRUCT_SLOTS, .out = 3};
        while (b.most < VP_RECONSTRUCT_BATCH && 2 * (uint64_t)b.most * view <= slot)
            b.most *= 2;
    }
    /* buffers of slices stay as they are after the first pass, for the writer may be at work on them */
    b.out = p->made > 0 ? p->out_slots : b.out;
    if ((p->of->projections.nu == p->of->in_nu && !p->of->in_nv) || p->filter_device || p->of->projections.read)
        b.wide = 0;
    b.width = p->of->projections.read && !p->filter_device ? p->of->projections.nu : p->of->in_nu;
    return b;
}

int64_t vp_reconstruct_group(const struct vp_grid *grid, uint64_t memory)
{
    const uint64_t most = memory / 32 < SLOT_BYTES ? memory / 32 : SLOT_BYTES;
    const int64_t n = (int64_t)(most / ((uint64_t)(grid->n[0] * grid->n[1]) * sizeof(float)));
    return n < 1 ? 1 : n >= SLICES ? n / SLICES * SLICES : n;
}

/* Slices of a slot of the output. */
static int64_t group_of(const struct vp_reconstruct_plan *p)
{
    return p->made > 0 ? p->group : vp_min64(vp_reconstruct_group(p->of->grid, p->of->memory), p->slab);
}

/* ---- who makes what ---- */

struct vp_reconstruct_domain vp_reconstruct_domain(const struct vp_reconstruct_plan *p)
{
    return (struct vp_reconstruct_domain){
        .lo = p->of->z0 + p->made, .hi = p->mirrored && !p->of->half ? (p->of->grid->n[2] + 1) / 2 : p->of->z1};
}

/* Returns the part of a device in a group, which makes slices [z0, z1) from a subset of the views. */
static struct vp_bp_part part_of(const struct vp_reconstruct_plan *p, int group, int subset, int64_t z0, int64_t z1)
{
    const struct vp_reconstruct *r = p->of;
    const int of = p->subsets * p->columns, it = (p->columns > 1 ? r->column * p->subsets : 0) + subset;
    const bool pairs = of > 1 && p->probe.opposite > 0;
    const int64_t lo = pairs ? 0 : r->first, n = pairs ? p->probe.opposite : r->last - r->first;
    return (struct vp_bp_part){.job = {.projections = &r->projections, .first = lo + n * it / of,
                                       .last = lo + n * (it + 1) / of, .pairs = pairs, .grid = r->grid, .z0 = z0,
                                       .z1 = z1, .mirrored = p->mirrored, .filter = p->filter_device ? r->filter : NULL,
                                       .in_nu = p->filter_device ? r->in_nu : r->projections.nu,
                                       .any_order = vp_views_seekable(r->projections.source), .threads = r->threads,
                                       .device = r->devices[group * p->subsets + subset],
                                       .device_memory = r->device_memory, .resident = p->resident}};
}

/* Plans n parts, side by side: each device takes a while. */
static int plan_parts(struct vp_reconstruct_plan *p, struct vp_bp_part *part, int n, struct vp_err *err)
{
    int rc = 0;
#pragma omp parallel for num_threads(n) schedule(static, 1) reduction(min : rc) if (n > 1)
    for (int i = 0; i < n; i++) {
        struct vp_err why = VP_ERR_INIT;
        if (vp_projector_plan(p->of->backend, &part[i].job, &part[i].plan, &why))
            rc = vp_err_keep(err, &why);
    }
    return rc;
}

/* Sets the bytes and the room of the device that fits least: the largest of those that do not, else the largest. */
static void device_bytes(struct vp_reconstruct_plan *p, const struct vp_bp_part *part, int n)
{
    p->device_bytes = p->device_room = 0;
    for (int i = 0; i < n; i++) {
        const struct vp_bp_plan *one = &part[i].plan;
        const bool fits = one->device <= one->room, fitted = p->device_bytes <= p->device_room;
        if (fits < fitted || (fits == fitted && one->device >= p->device_bytes)) {
            p->device_bytes = one->device;
            p->device_room = one->room;
        }
    }
}

/* Plans all parts of the pass. */
static int place(struct vp_reconstruct_plan *p, struct vp_err *err)
{
    struct vp_reconstruct_domain d = vp_reconstruct_domain(p);
    p->parts = 0;
    for (int i = 0; i < p->of->n_devices / p->subsets && d.lo < d.hi; i++) {
        const int64_t z1 = vp_min64(d.lo + p->device_group[i].depth, d.hi);
        for (int c = 0; c < p->subsets && z1 > d.lo; c++)
            p->part[p->parts++] = part_of(p, i, c, d.lo, z1);
        d.lo = z1;
    }
    if (plan_parts(p, p->part, p->parts, err))
        return -1;
    device_bytes(p, p->part, p->parts);
    return 0;
}

/* Divides the devices into groups of `subsets`, each of which could make all slices. */
static void form_groups(struct vp_reconstruct_plan *p, const struct vp_device_group *device, int subsets)
{
    const struct vp_reconstruct_domain all = vp_reconstruct_domain(p);
    p->subsets = subsets;
    for (int i = 0; i < p->of->n_devices / subsets; i++) {
        p->device_group[i] = device[i * subsets];
        for (int c = 1; c < subsets; c++) {
            const struct vp_device_group *d = &device[i * subsets + c];
            p->device_group[i].speed = d->speed < p->device_group[i].speed ? d->speed : p->device_group[i].speed;
            p->device_group[i].free = d->free < p->device_group[i].free ? d->free : p->device_group[i].free;
            p->device_group[i].total = d->total < p->device_group[i].total ? d->total : p->device_group[i].total;
        }
        p->device_group[i].most = all.hi - all.lo;
    }
}

/* Cuts slabs for one pass (or a part of it) by the groups' shares of `slices`. */
static void cut(struct vp_reconstruct_plan *p, int64_t slices, int64_t unit)
{
    (void)vp_device_groups_share(p->device_group, p->of->n_devices / p->subsets, slices, unit);
    p->used = 0;
    p->slab = 0;
    for (int i = 0; i < p->of->n_devices / p->subsets; i++) {
        p->used += p->device_group[i].depth > 0 ? p->subsets : 0;
        p->slab = vp_max64(p->slab, p->device_group[i].depth);
    }
    p->slab = vp_min64(p->slab, slices);
    p->unit = unit;
}

/* Shares out the slices of the next pass by the time that each group took for its slab of the last one. */
static void cut_again(struct vp_reconstruct_plan *p, const struct vp_reconstruct_plan *before, const double *took)
{
    const int groups = p->of->n_devices / p->subsets, used = p->used;
    const struct vp_reconstruct_domain d = vp_reconstruct_domain(p);
    int64_t slices = 0;
    if (before->parts < groups * p->subsets)
        return;
    for (int i = 0; i < before->parts; i++)
        if (took[i] <= 0)
            return;
    for (int i = 0; i < groups; i++) {
        const struct vp_bp_job *job = &before->part[i * p->subsets].job;
        double slowest = 0;
        for (int c = 0; c < p->subsets; c++)
            slowest = fmax(slowest, took[i * p->subsets + c]);
        p->device_group[i].speed = (double)(job->z1 - job->z0) / slowest;
        slices += p->device_group[i].depth;
    }
    cut(p, vp_min64(slices, d.hi - d.lo), p->unit);
    p->used = used > p->used ? used : p->used;
}

/* ---- what it takes ---- */

static bool within(const struct vp_reconstruct_plan *p)
{
    return p->bytes <= p->of->memory && p->device_bytes <= p->device_room;
}

/* Sets p->bytes and p->device_bytes for a pass of n parts. True if both keep to the limits. */
static bool fits(struct vp_reconstruct_plan *p, const struct vp_bp_part *part, int n)
{
    const struct vp_reconstruct_buffers slots = vp_reconstruct_buffers(p);
    const uint64_t in = (uint64_t)slots.width * rows_in(p) * sizeof(float);
    const uint64_t wide = (uint64_t)p->of->projections.nu * (uint64_t)p->of->projections.nv * sizeof(float);

    p->bytes = PROCESS_BYTES + vp_views_bytes(p->of->projections.source) +
               (uint64_t)p->batch * ((uint64_t)slots.in * in + (uint64_t)slots.wide * wide) +
               (uint64_t)(slots.out + p->subsets - 1) * (uint64_t)group_of(p) * slice_bytes(p) +
               (p->of->filter ? vp_filter_tables(p->of->filter)->bytes : 0) +
               (p->of->normalize ? vp_normalize_facts(p->of->normalize).bytes : 0);
    for (int i = 0; i < n; i++)
        p->bytes += part[i].plan.host;
    /* the devices' share counts only against what is free there */
    device_bytes(p, part, n);
    return within(p);
}

/* Plans the slabs as they are cut. Returns 1 if they fit, 0 if not, -1 on errors. */
static int check(struct vp_reconstruct_plan *p, struct vp_err *err)
{
    const struct vp_reconstruct_domain d = vp_reconstruct_domain(p);
    if (place(p, err))
        return -1;
    const bool good = fits(p, p->part, p->parts);
    /* a slab of a later pass at the middle of a mirrored volume may take more than the first one */
    const int64_t middle = p->of->grid->n[2] / 2, z = d.lo + (middle - d.lo) / p->slab * p->slab;
    if (good && !p->mirrored && middle > d.lo && z < d.hi && z >= p->part[p->parts - 1].job.z1) {
        struct vp_bp_part part = part_of(p, 0, 0, z, vp_min64(z + p->slab, d.hi));
        if (plan_parts(p, &part, 1, err))
            return -1;
        if (part.plan.device > p->device_bytes)
            device_bytes(p, &part, 1);
        if (part.plan.host > p->part[0].plan.host)
            p->bytes += part.plan.host - p->part[0].plan.host;
    }
    return within(p);
}

/* Reports the last sizes against their limits. */
static int too_large(struct vp_reconstruct_plan *p, const char *what, struct vp_err *err)
{
    const bool host = p->bytes > p->of->memory;
    p->too_large = true;
    return vp_fail(err, VP_ERESOURCE, "%s needs %s, %s %s", what,
                   vp_bytes_text(host ? p->bytes : p->device_bytes).text,
                   host ? "the memory limit is" : "the device has",
                   vp_bytes_text(host ? p->of->memory : p->device_room).text);
}

/* ---- one pass ---- */

/* Plans one pass with the largest batch that allows it. Returns 1, 0 if none does, -1 on errors. */
static int one_pass(struct vp_reconstruct_plan *p, struct vp_err *err)
{
    const struct vp_reconstruct_buffers batch = vp_reconstruct_buffers(p);
    p->passes = 1;
    for (p->batch = batch.most;; p->batch /= 2) {
        const int rc = check(p, err);
        if (rc || p->batch <= batch.least)
            return rc;
    }
}

/* Returns the detector rows of a slab. */
static int64_t rows_of(const struct vp_reconstruct_plan *p, int64_t z0, int64_t z1)
{
    int64_t v0, v1;
    vp_backproject_rows(&p->of->projections, p->of->grid, z0, z1, p->mirrored, &v0, &v1);
    return vp_max64(v1 - v0, 1);
}

static double volume_bytes(const struct vp_reconstruct_plan *p)
{
    return (double)slice_bytes(p) * (double)((p->of->half ? 2 : 1) * (p->of->z1 - p->of->z0));
}

/* Estimates the seconds that the slabs and subsets take in one pass: the slowest group's kernels (which do whole units
 * of slices) and filter; and its upload, or the reading. */
static void seconds(const struct vp_reconstruct_plan *p, int64_t unit, double *compute, double *feed)
{
    const struct vp_rates *rates = rates_of(p);
    const double views = (double)(p->of->last - p->of->first) / p->columns, mine = views / p->subsets;
    const double plane = (double)p->of->grid->n[0] * (double)p->of->grid->n[1], row = (double)p->of->in_nu;
    struct vp_reconstruct_domain d = vp_reconstruct_domain(p);
    const bool both = !p->mirrored && p->probe.mirror && d.lo == 0 && d.hi == p->of->grid->n[2]
                      && p->device_group[0].depth >= d.hi;
    *compute = 0;
    *feed = views * row * (double)rows_of(p, d.lo, d.hi) * sizeof(float) / rates->views_read;
    for (int i = 0; i < p->of->n_devices / p->subsets && d.lo < d.hi; i++) {
        const int64_t n = vp_min64(p->device_group[i].depth, d.hi - d.lo);
        if (n < 1)
            continue;
        const double slices = (double)(both ? 2 * vp_div_up((n + 1) / 2, unit) * unit : vp_div_up(n, unit) * unit);
        const double samples = mine * row * (double)rows_of(p, d.lo, d.lo + n);
        const double kernel = (p->mirrored ? 2 : 1) * slices * plane * mine /
                              (rates->gpu_updates * p->device_group[i].speed / rates->gpu_speed);
        *compute = fmax(*compute, kernel + (p->filter_device ? samples * p->probe.filter.seconds : 0));
        *feed = fmax(*feed, samples * sizeof(float) / rates->views_up);
        d.lo += n;
    }
}

/* Returns the views of a run, of the part that has least room for them. */
static int64_t run_views(const struct vp_reconstruct_plan *p)
{
    int64_t least = p->part[0].plan.batch;
    for (int i = 1; i < p->parts; i++)
        least = vp_min64(least, p->part[i].plan.batch);
    return least;
}

/* Keeps all views on the devices if there is room for them, so that the first slices are done long before the last, and
 * are written meanwhile. That pays if the kernels take longer than to feed them, and are no slower for it. */
static int keep_resident(struct vp_reconstruct_plan *p, int64_t unit, struct vp_err *err)
{
    const uint64_t bytes = p->device_bytes;
    const int64_t views = run_views(p);
    char kernel[sizeof p->part[0].plan.kernel];
    double compute, feed;

    if (p->of->backend->on_host)
        return 1;
    seconds(p, unit, &compute, &feed);
    const double saved = fmin(volume_bytes(p) / rates_of(p)->volume_write, compute - feed);
    if (saved <= 0)
        return 1;
    memcpy(kernel, p->part[0].plan.kernel, sizeof kernel);
    p->resident = true;
    const int rc = check(p, err);
    const double allocated = (double)(p->device_bytes - bytes) / rates_of(p)->device_alloc;
    if (rc < 0
        || (rc > 0 && !strcmp(kernel, p->part[0].plan.kernel) && run_views(p) >= views && allocated < saved))
        return rc;
    p->resident = false;
    return check(p, err);
}

/* Cuts slabs of equal thickness (in time) for one pass, made by groups of `subsets` devices. */
static void cut_once(struct vp_reconstruct_plan *p, const struct vp_device_group *device, int subsets, bool mirrored,
                     int64_t unit)
{
    p->mirrored = mirrored;
    form_groups(p, device, subsets);
    struct vp_reconstruct_domain d = vp_reconstruct_domain(p);
    cut(p, d.hi - d.lo, unit);
    if (p->used > subsets || p->of->half)
        return;
    /* the whole volume is its own mirror image */
    p->mirrored = mirrored && p->made > 0;
    d = vp_reconstruct_domain(p);
    p->slab = d.hi - d.lo;
    for (int i = 0; i < p->of->n_devices / subsets; i++)
        p->device_group[i].depth = p->device_group[i].depth > 0 ? p->slab : 0;
}

/* Returns the fewest subsets that keep the devices busy: one, unless more save enough. */
static int choose_subsets(struct vp_reconstruct_plan *p, const struct vp_device_group *device, bool mirrored,
                          int64_t unit)
{
    if (p->of->want_subsets > 0)
        return p->of->want_subsets;
    if (!vp_views_seekable(p->of->projections.source) || p->made > 0 || p->of->half || p->columns > 1)
        return 1;
    int best = 1;
    double least = 0, one = 0, compute, feed;
    const int64_t most = vp_min64(p->of->n_devices, (p->of->last - p->of->first) / 2);
    for (int subsets = 1; subsets <= most && p->of->n_devices > 1; subsets++) {
        cut_once(p, device, subsets, mirrored, unit);
        seconds(p, unit, &compute, &feed);
        /* and to fetch and add up the subsets */
        const double adding = subsets > 1 ? volume_bytes(p) * subsets / rates_of(p)->slabs_add : 0;
        const double t = fmax(compute, feed) + adding;
        one = subsets == 1 ? t : one;
        if (subsets == 1 || t < least) {
            best = subsets;
            least = t;
        }
    }
    /* they cost the promise of equal bits */
    return one - least > rates_of(p)->subsets_save && one - least > rates_of(p)->subsets_part * one ? best : 1;
}

/* ---- several passes ---- */

/* Returns 1 if a group can make n slices in a pass with p->batch, 0, or -1 on errors. Sets *host if it is the host's
 * memory that is too small. */
static int can_make(struct vp_reconstruct_plan *p, int group, int64_t n, bool *host, struct vp_err *err)
{
    const int64_t z = vp_reconstruct_domain(p).lo;
    for (int c = 0; c < p->subsets; c++)
        p->part[c] = part_of(p, group, c, z, z + n);
    if (plan_parts(p, p->part, p->subsets, err))
        return -1;
    p->slab = n;
    const bool good = fits(p, p->part, p->subsets);
    *host |= p->bytes > p->of->memory;
    return good;
}

/* Finds the most of `all` slices that a group can make in one pass, 0 if not even one. The bytes grow with the depth:
 * bisect on whole steps, then try the fractions of one. */
static int largest_slab(struct vp_reconstruct_plan *p, int group, int64_t all, int64_t step, bool *host,
                        struct vp_err *err)
{
    int64_t lo = 0, hi = vp_div_up(all, step), *const most = &p->device_group[group].most;
    int good = 0;

    while (lo < hi && good >= 0) {
        const int64_t mid = (lo + hi + 1) / 2;
        good = can_make(p, group, vp_min64(mid * step, all), host, err);
        *(good ? &lo : &hi) = good ? mid : mid - 1;
    }
    *most = vp_min64(lo * step, all);
    for (int64_t n = step / 2; *most == 0 && n >= 1 && good >= 0; n /= 2) {
        good = n <= all ? can_make(p, group, n, host, err) : 0;
        *most = good ? n : 0;
    }
    return good < 0 ? -1 : 0;
}

/* True if both groups can make the same: the same devices with about the same memory. */
static bool alike(const struct vp_device_group *a, const struct vp_device_group *b)
{
    const uint64_t apart = a->free > b->free ? a->free - b->free : b->free - a->free;
    return a->speed == b->speed && a->total == b->total && apart <= a->total / 64;
}

/* Cuts slabs that fit, for the fewest passes with p->batch. Returns their number, 0 if there are none, -1 on errors.
 * Sets *host if it was the host's memory that some did not fit into. */
static int64_t passes_of_batch(struct vp_reconstruct_plan *p, int64_t step, bool *host, struct vp_err *err)
{
    const int groups = p->of->n_devices / p->subsets;
    const struct vp_reconstruct_domain d = vp_reconstruct_domain(p);
    const int64_t all = d.hi - d.lo;
    int64_t room = 0, least = INT64_MAX;
    *host = false;
    for (int i = 0; i < groups; i++) {
        int like = 0;
        while (like < i && !alike(&p->device_group[like], &p->device_group[i]))
            like++;
        if (like < i)
            p->device_group[i].most = p->device_group[like].most;
        else if (largest_slab(p, i, all, step, host, err))
            return -1;
        least = p->device_group[i].most > 0 ? vp_min64(least, p->device_group[i].most) : least;
    }
    for (int attempt = 0; least > 0 && least < INT64_MAX; attempt++) {
        const int64_t unit = p->of->backend->on_host || least < step ? 1 : step;
        room = 0;
        for (int i = 0; i < groups; i++)
            room += vp_device_group_units(&p->device_group[i], all, unit) * unit;
        /* no more of it than an equal share of all passes */
        const int64_t a_pass = p->of->backend->on_host ? vp_min64(room, all) : vp_div_up(all, vp_div_up(all, room));
        cut(p, a_pass, unit);
        p->passes = vp_div_up(all, vp_div_up(a_pass, unit) * unit);
        const int rc = check(p, err);
        if (rc)
            return rc < 0 ? -1 : p->passes;
        *host |= p->bytes > p->of->memory;
        /* another slab than the first of a group takes more: smaller ones, later by more than a step */
        least = INT64_MAX;
        for (int i = 0; i < groups; i++) {
            int64_t *most = &p->device_group[i].most;
            const int64_t less = attempt < ATTEMPTS ? unit : vp_max64(unit, *most / 16 / unit * unit);
            *most -= *most > unit ? less : vp_div_up(*most, 2);
            least = *most > 0 ? vp_min64(least, *most) : least;
        }
    }
    return 0;
}

/* Cuts slabs for the fewest passes, with the largest of the batches that allow those. Returns their number, 0 if there
 * are none, -1 on errors. */
static int64_t fewest_passes(struct vp_reconstruct_plan *p, const struct vp_device_group *device, bool mirrored,
                             int64_t step, struct vp_err *err)
{
    const struct vp_reconstruct_buffers batch = vp_reconstruct_buffers(p);
    int64_t fewest = 0;
    int best = batch.least;
    bool host = true;

    p->mirrored = mirrored;
    form_groups(p, device, p->subsets);
    for (p->batch = batch.most; p->batch >= batch.least && host; p->batch /= 2) {
        const int64_t passes = passes_of_batch(p, step, &host, err);
        if (passes < 0)
            return -1;
        if (passes > 0 && (!fewest || passes < fewest)) {
            fewest = passes;
            best = p->batch;
        }
    }
    p->batch = best;
    return passes_of_batch(p, step, &host, err);
}

/* ---- all of it ---- */

/* Chooses where views are filtered, and plans one slice of all views into p->probe. */
static int probe(struct vp_reconstruct_plan *p, struct vp_err *err)
{
    const struct vp_reconstruct *r = p->of;
    const bool mirrored = p->mirrored;

    p->mirrored = false;
    p->subsets = p->columns = 1; /* opposite views are looked for among all views */
    p->filter_device = r->filter && !r->backend->on_host && r->filter_on != VP_FILTER_ON_CPU && !r->in_nv;
    for (;;) {
        const struct vp_bp_part part = part_of(p, 0, 0, r->z0, vp_min64(r->z0 + 1, r->z1));
        struct vp_err why = VP_ERR_INIT;
        if (!vp_projector_plan(r->backend, &part.job, &p->probe, &why))
            break;
        /* auto means any device that can */
        if (!p->filter_device || r->filter_on == VP_FILTER_ON_GPU) {
            *err = why;
            return -1;
        }
        p->filter_device = false;
    }
    if (p->filter_device && r->filter_on == VP_FILTER_ON_AUTO
        && p->probe.filter.seconds > vp_filter_seconds(r->filter, r->rates))
        p->filter_device = false;
    if (!vp_views_seekable(r->projections.source))
        p->probe.opposite = 0;
    p->mirrored = mirrored && p->made > 0;
    p->columns = r->columns > 1 ? r->columns : 1;
    return r->half && !p->probe.mirror ? vp_fail(err, VP_ERUN, "the scan has no mirror plane") : 0;
}

/* Checks the requested number of subsets. */
static int check_subsets(const struct vp_reconstruct_plan *p, struct vp_err *err)
{
    if (p->of->want_subsets <= 1)
        return 0;
    if (p->of->want_subsets > p->of->n_devices || p->of->backend->on_host)
        return vp_fail(err, VP_ERESOURCE, "%d subsets of the views need a GPU each, there %s %d", p->of->want_subsets,
                       p->of->n_devices == 1 && !p->of->backend->on_host ? "is" : "are",
                       p->of->backend->on_host ? 0 : p->of->n_devices);
    if (p->of->last - p->of->first < 2 * p->of->want_subsets)
        return vp_fail(err, VP_EUSAGE, "--subsets %d: expected at least %d views, got %lld", p->of->want_subsets,
                       2 * p->of->want_subsets, (long long)(p->of->last - p->of->first));
    if (!vp_views_seekable(p->of->projections.source))
        return vp_fail_hint(err, VP_EUSAGE, "give the projections as files",
                            "subsets of the views cannot be read from a pipe");
    return 0;
}

/* Gets speed and memory of each device. */
static int describe_devices(const struct vp_reconstruct_plan *p, struct vp_device_group *device, struct vp_err *err)
{
    for (int i = 0; i < p->of->n_devices; i++) {
        struct vp_device_info info = {0};
        if (!p->of->backend->on_host && p->of->backend->info(p->of->devices[i], &info, err))
            return -1;
        device[i] = (struct vp_device_group){.speed = info.speed > 0 ? info.speed : rates_of(p)->gpu_speed,
                                     .free = info.free, .total = info.total};
    }
    return 0;
}

static int make_plan(struct vp_reconstruct_plan *p, const struct vp_device_group *device, struct vp_err *err)
{
    const bool on_host = p->of->backend->on_host, whole = p->of->z0 == 0 && p->of->z1 == p->of->grid->n[2];
    const bool mirror = p->probe.mirror && whole && p->of->grid->n[2] > 1, again = p->made > 0;
    const int64_t step = on_host ? 1 : p->probe.z_step;
    const bool pairs = p->of->half || (again ? p->mirrored : mirror && p->of->n_devices > 1); /* in one pass */
    const int subsets = choose_subsets(p, device, pairs, step);
    char what[96];

    cut_once(p, device, subsets, pairs, step);
    int rc = one_pass(p, err);
    if (rc == 0 && subsets > 1 && p->of->want_subsets == 0) {
        cut_once(p, device, 1, pairs, step);
        rc = one_pass(p, err);
    }
    if (rc > 0)
        rc = keep_resident(p, step, err);
    if (rc)
        return rc < 0 ? -1 : 0;
    const bool once = !vp_views_seekable(p->of->projections.source);
    snprintf(what, sizeof what, "volume of %lld x %lld x %lld", (long long)p->of->grid->n[0],
             (long long)p->of->grid->n[1], (long long)(p->of->z1 - p->of->z0));
    too_large(p, what, err); /* unless there is another way */
    vp_hint(err, "give the projections as files (they are then read several times), --slab for a part, a coarser "
                 "--voxel, or more --memory");
    if (once && p->of->n_devices == 1)
        return -1;
    struct vp_err why = VP_ERR_INIT;
    const bool mirrored = p->of->half || again ? pairs : mirror && (p->of->any_order || once);
    int64_t passes = fewest_passes(p, device, mirrored, on_host ? HOST_STEP : step, &why);
    if (passes == 0 && mirrored && !again && !p->of->half) /* there may be room for a slice, but none for a pair */
        passes = fewest_passes(p, device, false, on_host ? HOST_STEP : step, &why);
    if (once && passes >= 0 && passes != 1)
        return -1;
    *err = why;
    p->too_large = false;
    if (passes)
        return passes < 0 ? -1 : 0;
    too_large(p, "one slice at a time", err);
    return vp_hint(err, p->bytes > p->of->memory ? "allow more --memory"
                                             : "allow more --device-memory, or use --device cpu or a coarser --voxel");
}

/* Adds buffers of slices in memory that is left if passes follow one another, so that the devices go on with the next
 * pass while slices are written. Not all of the memory: it is locked. Their number stays after the first pass. */
static void add_out_slots(struct vp_reconstruct_plan *p)
{
    const uint64_t left = p->of->memory - p->bytes, half = p->of->memory / 2;
    int64_t slices = 0;

    if (p->made > 0)
        return;
    p->out_slots = vp_reconstruct_buffers(p).out;
    p->group = group_of(p);
    const uint64_t slot = (uint64_t)p->group * slice_bytes(p);
    for (int i = 0; i < p->parts; i += p->subsets)
        slices += (p->part[i].job.z1 - p->part[i].job.z0) * (p->mirrored ? 2 : 1);
    const int64_t fit = (int64_t)((left < half ? left : half) / slot);
    const int64_t more = vp_min64(fit, vp_div_up(slices, p->group) - p->out_slots);
    if (p->passes == 1 || p->of->backend->on_host || more <= 0)
        return;
    p->out_slots += (int)more;
    p->bytes += (uint64_t)more * slot;
}

/* Plans the slices that are left like those before, at the same depths or, if all of the last pass was measured, by the
 * time that each took. Returns 1; 0 if that does not fit a device. */
static int continue_plan(struct vp_reconstruct_plan *p, const struct vp_reconstruct_done *done, struct vp_err *err)
{
    p->passes = vp_max64(p->passes - 1, 1);
    if (done->took)
        cut_again(p, done->plan, done->took);
    if (place(p, err))
        return -1;
    return !p->of->device_memory || p->device_bytes <= p->of->device_memory;
}

int vp_reconstruct_plan(struct vp_reconstruct_plan *p, const struct vp_reconstruct *r,
                        const struct vp_reconstruct_done *done, struct vp_err *err)
{
    struct vp_device_group device[VP_RECONSTRUCT_DEVICES];

    *p = (struct vp_reconstruct_plan){.of = r};
    if (r->n_devices > VP_RECONSTRUCT_DEVICES)
        return vp_fail(err, VP_ERESOURCE, "%d devices are too many, expected at most %d", r->n_devices,
                       VP_RECONSTRUCT_DEVICES);
    if (done) {
        /* decisions of the whole run, and the limits that the devices were found to have, stay */
        *p = *done->plan;
        p->made = done->made;
        p->resident = false;
    }
    const int continued = done && !done->shortage ? continue_plan(p, done, err) : 0;
    if (continued)
        return continued < 0 ? -1 : 0;
    if (check_subsets(p, err) || probe(p, err) || describe_devices(p, device, err) || make_plan(p, device, err))
        return -1;
    add_out_slots(p);
    return 0;
}

int vp_reconstruct_probe(const struct vp_reconstruct *r, struct vp_bp_plan *plan, bool *filter_device,
                         struct vp_err *err)
{
    struct vp_reconstruct_plan p = {.of = r};
    const int rc = probe(&p, err);
    *plan = p.probe;
    *filter_device = p.filter_device;
    return rc;
}
