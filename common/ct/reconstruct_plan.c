/* SPDX-License-Identifier: BSD-3-Clause */
/* The plan of a reconstruction: where views are filtered, how many are read together, and which device makes which
 * slices from which views. */
#include "ct/reconstruct_internal.h"

#include "base/err.h"
#include "base/size.h"
#include "run/rates.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    HOST_STEP = 64, /* slices; slabs on the host are cut finer only where they must be */
    ATTEMPTS = 8    /* to cut slabs that are a step smaller */
};

static const struct vp_rates *rates_of(const struct vp_reconstruct_plan *p)
{
    return p->of->rates ? p->of->rates : &vp_rates;
}

/* ---- one pass ---- */

/* With any batch: 1, 0 if none allows it, -1 on errors. */
static int one_pass(struct vp_reconstruct_plan *p, struct vp_err *err)
{
    const struct vp_reconstruct_buffers batch = vp_reconstruct_buffers(p);
    p->passes = 1;
    for (p->batch = batch.most;; p->batch /= 2) {
        const int rc = vp_cut_check(p, err);
        if (rc || p->batch <= batch.least)
            return rc;
    }
}

/* Detector rows of a slab. */
static int64_t rows_of(const struct vp_reconstruct_plan *p, int64_t z0, int64_t z1)
{
    int64_t v0, v1;
    vp_reconstruct_rows(p->of, z0, z1, p->mirrored, &v0, &v1);
    return vp_max64(v1 - v0, 1);
}

static double volume_bytes(const struct vp_reconstruct_plan *p)
{
    const struct vp_reconstruct *r = p->of;
    const double slices = (double)((r->half ? 2 : 1) * (r->z1 - r->z0));
    return (double)r->grid->n[0] * (double)r->grid->n[1] * slices * sizeof(float);
}

/* Seconds that the slabs and subsets take in one pass, roughly: the slowest crew's kernels (which do whole units of
 * slices) and filter; and its upload, or the reading. */
static void seconds(const struct vp_reconstruct_plan *p, const struct vp_bp_plan *plan, int64_t unit, double *compute,
                    double *feed)
{
    const struct vp_rates *rates = rates_of(p);
    const double views = (double)(p->of->last - p->of->first) / p->columns, mine = views / p->subsets;
    const double plane = (double)p->of->grid->n[0] * (double)p->of->grid->n[1], row = (double)p->of->in_nu;
    struct vp_reconstruct_domain d = vp_reconstruct_domain(p);
    const bool both = !p->mirrored && plan->mirror && d.lo == 0 && d.hi == p->of->grid->n[2]
                      && p->crew[0].depth >= d.hi;
    *compute = 0;
    *feed = views * row * (double)rows_of(p, d.lo, d.hi) * sizeof(float) / rates->views_read;
    for (int i = 0; i < p->of->n_devices / p->subsets && d.lo < d.hi; i++) {
        const int64_t n = vp_min64(p->crew[i].depth, d.hi - d.lo);
        if (n < 1)
            continue;
        const double slices = (double)(both ? 2 * vp_div_up((n + 1) / 2, unit) * unit : vp_div_up(n, unit) * unit);
        const double samples = mine * row * (double)rows_of(p, d.lo, d.lo + n);
        const double kernel = (p->mirrored ? 2 : 1) * slices * plane * mine /
                              (rates->gpu_updates * p->crew[i].speed / rates->gpu_speed);
        const double work = kernel + (p->filter_device ? samples * plan->filter_seconds : 0);
        const double copies = samples * sizeof(float) / rates->views_up;
        *compute = fmax(*compute, work);
        *feed = fmax(*feed, copies);
        d.lo += n;
    }
}

/* Seconds to fetch and add up the subsets. */
static double adding(const struct vp_reconstruct_plan *p)
{
    return p->subsets > 1 ? volume_bytes(p) * p->subsets / rates_of(p)->slabs_add : 0;
}

/* Views that a device works on at once, of the part that has least room for them. */
static int64_t together(const struct vp_reconstruct_plan *p)
{
    int64_t least = p->part[0].plan.together;
    for (int i = 1; i < p->parts; i++)
        least = vp_min64(least, p->part[i].plan.together);
    return least;
}

/* Views may all stay on the devices where they have room for them, so that the first slices are done long before the
 * last, and are written meanwhile. That pays if the kernels take longer than to feed them, and are no slower for it. */
static int let_stay(struct vp_reconstruct_plan *p, const struct vp_bp_plan *plan, int64_t unit, struct vp_err *err)
{
    const uint64_t bytes = p->device_bytes;
    const int64_t at_once = together(p);
    char kernel[sizeof p->kernel];
    double compute, feed;

    if (p->of->kind->on_host)
        return 1;
    seconds(p, plan, unit, &compute, &feed);
    const double saved = fmin(volume_bytes(p) / rates_of(p)->volume_write, compute - feed);
    if (saved <= 0)
        return 1;
    memcpy(kernel, p->kernel, sizeof kernel);
    p->stay = true;
    const int rc = vp_cut_check(p, err);
    const double allocated = (double)(p->device_bytes - bytes) / rates_of(p)->device_alloc;
    if (rc < 0 || (rc > 0 && !strcmp(kernel, p->kernel) && together(p) >= at_once && allocated < saved))
        return rc;
    p->stay = false;
    return vp_cut_check(p, err);
}

/* Slabs of equal thickness (in time) for one pass, made by crews of `subsets` devices. */
static void cut_once(struct vp_reconstruct_plan *p, const struct vp_crew *device, int subsets, bool mirrored,
                     int64_t unit)
{
    p->mirrored = mirrored;
    vp_cut_muster(p, device, subsets);
    struct vp_reconstruct_domain d = vp_reconstruct_domain(p);
    vp_cut(p, d.hi - d.lo, unit);
    if (p->used > subsets || p->of->half)
        return;
    /* the whole volume is its own mirror image */
    p->mirrored = mirrored && p->made > 0;
    d = vp_reconstruct_domain(p);
    p->slab = d.hi - d.lo;
    for (int i = 0; i < p->of->n_devices / subsets; i++)
        p->crew[i].depth = p->crew[i].depth > 0 ? p->slab : 0;
}

/* As few subsets as keep the devices busy: one, unless more save enough. */
static int choose_subsets(struct vp_reconstruct_plan *p, const struct vp_crew *device, const struct vp_bp_plan *plan,
                          bool mirrored, int64_t unit)
{
    if (p->of->want_subsets > 0)
        return p->of->want_subsets;
    if (!vp_views_seekable(p->of->source) || p->made > 0 || p->of->half || p->columns > 1)
        return 1;
    int best = 1;
    double least = 0, one = 0, compute, feed;
    const int64_t most = vp_min64(p->of->n_devices, (p->of->last - p->of->first) / 2);
    for (int subsets = 1; subsets <= most && p->of->n_devices > 1; subsets++) {
        cut_once(p, device, subsets, mirrored, unit);
        seconds(p, plan, unit, &compute, &feed);
        const double t = fmax(compute, feed) + adding(p);
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

/* Can a crew make n slices in a pass, with p->batch? host: set if it was the host's memory that is too small. */
static int can_make(struct vp_reconstruct_plan *p, int crew, int64_t n, bool *good, bool *host, struct vp_err *err)
{
    const int64_t z = vp_reconstruct_domain(p).lo;
    for (int c = 0; c < p->subsets; c++)
        p->part[c] = vp_cut_part(p, crew, c, z, z + n);
    if (vp_cut_ask(p, p->part, p->subsets, err))
        return -1;
    p->slab = n;
    *good = vp_cut_fits(p, p->part, p->subsets);
    *host |= p->bytes > p->of->memory;
    return 0;
}

/* The most of `all` slices that a crew can make in one pass, 0 if not even one. The bytes grow with the depth: bisect
 * on whole steps, then try the fractions of one. */
static int largest_slab(struct vp_reconstruct_plan *p, int crew, int64_t all, int64_t step, bool *host,
                        struct vp_err *err)
{
    int64_t lo = 0, hi = vp_div_up(all, step);
    bool good = false;

    while (lo < hi) {
        const int64_t mid = (lo + hi + 1) / 2;
        if (can_make(p, crew, vp_min64(mid * step, all), &good, host, err))
            return -1;
        if (good)
            lo = mid;
        else
            hi = mid - 1;
    }
    p->crew[crew].most = vp_min64(lo * step, all);
    for (int64_t n = step / 2; lo == 0 && n >= 1; n = good ? 0 : n / 2) {
        if (n <= all && can_make(p, crew, n, &good, host, err))
            return -1;
        p->crew[crew].most = good ? n : 0;
    }
    return 0;
}

/* Crews of the same devices with about the same memory can make the same. */
static bool alike(const struct vp_crew *a, const struct vp_crew *b)
{
    const uint64_t apart = a->free > b->free ? a->free - b->free : b->free - a->free;
    return a->speed == b->speed && a->total == b->total && apart <= a->total / 64;
}

/* Cut slabs that fit, for the fewest passes with p->batch. Their number, 0 if there are none, -1 on errors. host: was
 * it the host's memory that some did not fit into? */
static int64_t passes_of_batch(struct vp_reconstruct_plan *p, int64_t step, bool *host, struct vp_err *err)
{
    const int crews = p->of->n_devices / p->subsets;
    const struct vp_reconstruct_domain d = vp_reconstruct_domain(p);
    const int64_t all = d.hi - d.lo;
    int64_t room = 0, least = INT64_MAX;
    *host = false;
    for (int i = 0; i < crews; i++) {
        int like = 0;
        while (like < i && !alike(&p->crew[like], &p->crew[i]))
            like++;
        if (like < i)
            p->crew[i].most = p->crew[like].most;
        else if (largest_slab(p, i, all, step, host, err))
            return -1;
        least = p->crew[i].most > 0 ? vp_min64(least, p->crew[i].most) : least;
    }
    for (int attempt = 0; least > 0 && least < INT64_MAX; attempt++) {
        const int64_t unit = p->of->kind->on_host || least < step ? 1 : step;
        room = 0;
        for (int i = 0; i < crews; i++)
            room += vp_cut_units(&p->crew[i], all, unit) * unit;
        /* no more of it than an equal share of all passes */
        const int64_t a_pass = p->of->kind->on_host ? vp_min64(room, all) : vp_div_up(all, vp_div_up(all, room));
        vp_cut(p, a_pass, unit);
        p->passes = vp_div_up(all, vp_div_up(a_pass, unit) * unit);
        const int rc = vp_cut_check(p, err);
        if (rc)
            return rc < 0 ? -1 : p->passes;
        *host |= p->bytes > p->of->memory;
        /* another slab than the first of a crew takes more: smaller ones, later by more than a step */
        least = INT64_MAX;
        for (int i = 0; i < crews; i++) {
            int64_t *most = &p->crew[i].most;
            const int64_t less = attempt < ATTEMPTS ? unit : vp_max64(unit, *most / 16 / unit * unit);
            *most -= *most > unit ? less : vp_div_up(*most, 2);
            least = *most > 0 ? vp_min64(least, *most) : least;
        }
    }
    return 0;
}

/* Cut slabs for the fewest passes, with the largest of the batches that allow those. Their number, 0 if there are none,
 * -1 on errors. */
static int64_t fewest_passes(struct vp_reconstruct_plan *p, const struct vp_crew *device, bool mirrored, int64_t step,
                             struct vp_err *err)
{
    const struct vp_reconstruct_buffers batch = vp_reconstruct_buffers(p);
    int64_t fewest = 0;
    int best = batch.least;
    bool host = true;

    p->mirrored = mirrored;
    vp_cut_muster(p, device, p->subsets);
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

/* Filter on the device where that is asked for, or can be had; and what the slabs may be. */
static int choose(struct vp_reconstruct_plan *p, struct vp_bp_plan *plan, struct vp_err *err)
{
    const bool mirrored = p->mirrored;

    p->mirrored = false;
    p->subsets = p->columns = 1; /* whether views have partners is asked of all views */
    p->filter_device = p->of->filter && !p->of->kind->on_host && p->of->filter_on != VP_FILTER_ON_CPU;
    for (;;) {
        const struct vp_bp_part part = vp_cut_part(p, 0, 0, p->of->z0, vp_min64(p->of->z0 + 1, p->of->z1));
        const struct vp_bp_job job = vp_reconstruct_job(p, &part);
        struct vp_err why = VP_ERR_INIT;
        if (!vp_slab_plan(p->of->kind, &job, plan, &why))
            break;
        /* auto means whatever can do it */
        if (!p->filter_device || p->of->filter_on == VP_FILTER_ON_GPU) {
            *err = why;
            return -1;
        }
        p->filter_device = false;
    }
    if (p->filter_device && p->of->filter_on == VP_FILTER_ON_AUTO &&
        plan->filter_seconds > vp_filter_seconds(p->of->filter, p->of->rates))
        p->filter_device = false;
    p->partner = vp_views_seekable(p->of->source) ? plan->partner : 0;
    p->mirrored = mirrored && p->made > 0;
    p->columns = p->of->columns > 1 ? p->of->columns : 1;
    return p->of->half && !plan->mirror ? vp_fail(err, VP_ERUN, "the scan has no mirror plane") : 0;
}

/* Subsets that are asked for. */
static int check_subsets(const struct vp_reconstruct_plan *p, struct vp_err *err)
{
    if (p->of->want_subsets <= 1)
        return 0;
    if (p->of->want_subsets > p->of->n_devices || p->of->kind->on_host)
        return vp_fail(err, VP_ERESOURCE, "%d subsets of the views need as many GPUs, there %s %d", p->of->want_subsets,
                       p->of->n_devices == 1 && !p->of->kind->on_host ? "is" : "are",
                       p->of->kind->on_host ? 0 : p->of->n_devices);
    if (p->of->last - p->of->first < 2 * p->of->want_subsets)
        return vp_fail(err, VP_EUSAGE, "--subsets %d: expected at least %d views, got %lld", p->of->want_subsets,
                       2 * p->of->want_subsets, (long long)(p->of->last - p->of->first));
    if (!vp_views_seekable(p->of->source)) {
        vp_fail(err, VP_EUSAGE, "subsets of the views cannot be taken from a pipe, which brings one after the other");
        return vp_hint(err, "give the projections as files");
    }
    return 0;
}

/* Speed and memory of each device. */
static struct vp_crew *ask_devices(const struct vp_reconstruct_plan *p, struct vp_err *err)
{
    struct vp_crew *device = calloc((size_t)p->of->n_devices, sizeof *device);
    if (!device)
        vp_fail(err, VP_ERESOURCE, "out of memory");
    for (int i = 0; device && i < p->of->n_devices; i++) {
        struct vp_device_info info = {0};
        if (!p->of->kind->on_host && p->of->kind->info(p->of->devices[i], &info, err)) {
            free(device);
            return NULL;
        }
        device[i] = (struct vp_crew){.speed = info.speed > 0 ? info.speed : rates_of(p)->gpu_speed,
                                     .free = info.free, .total = info.total};
    }
    return device;
}

static int make_plan(struct vp_reconstruct_plan *p, const struct vp_crew *device, const struct vp_bp_plan *plan,
                     struct vp_err *err)
{
    const bool on_host = p->of->kind->on_host, whole = p->of->z0 == 0 && p->of->z1 == p->of->grid->n[2];
    const bool mirror = plan->mirror && whole && p->of->grid->n[2] > 1, again = p->made > 0;
    const int64_t step = on_host ? 1 : plan->z_step;
    const bool pairs = p->of->half || (again ? p->mirrored : mirror && p->of->n_devices > 1); /* in one pass */
    const int subsets = choose_subsets(p, device, plan, pairs, step);
    char what[96];

    cut_once(p, device, subsets, pairs, step);
    int rc = one_pass(p, err);
    if (rc == 0 && subsets > 1 && p->of->want_subsets == 0) {
        cut_once(p, device, 1, pairs, step);
        rc = one_pass(p, err);
    }
    if (rc > 0)
        rc = let_stay(p, plan, step, err);
    if (rc)
        return rc < 0 ? -1 : 0;
    const bool once = !vp_views_seekable(p->of->source);
    snprintf(what, sizeof what, "volume of %lld x %lld x %lld", (long long)p->of->grid->n[0],
             (long long)p->of->grid->n[1], (long long)(p->of->z1 - p->of->z0));
    vp_cut_too_large(p, what, err); /* to be said unless there is another way */
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
    if (passes < 0)
        return -1;
    if (passes > 0)
        return 0;
    vp_cut_too_large(p, "one slice at a time", err);
    return vp_hint(err, p->bytes > p->of->memory ? "allow more --memory"
                                             : "allow more --device-memory, or use --device cpu or a coarser --voxel");
}

/* Where passes follow one another, memory that is left takes the slices of one, so that the devices go on with the next
 * while they are written. Not all of it: it is locked. What there is after the first pass stays. */
static void add_out_slots(struct vp_reconstruct_plan *p)
{
    const uint64_t left = p->of->memory - p->bytes, half = p->of->memory / 2;
    int64_t slices = 0;

    if (p->made > 0)
        return;
    p->out_slots = vp_reconstruct_buffers(p).out;
    p->group = vp_cut_group(p);
    const int64_t *n = p->of->grid->n;
    const uint64_t slot = (uint64_t)(p->group * n[0] * n[1]) * sizeof(float);
    for (int i = 0; i < p->parts; i += p->subsets)
        slices += (p->part[i].z1 - p->part[i].z0) * (p->mirrored ? 2 : 1);
    const int64_t fit = (int64_t)((left < half ? left : half) / slot);
    const int64_t more = vp_min64(fit, vp_div_up(slices, p->group) - p->out_slots);
    if (p->passes == 1 || p->of->kind->on_host || more <= 0)
        return;
    p->out_slots += (int)more;
    p->bytes += (uint64_t)more * slot;
}

/* The same for slices that are left, at the same depths or, where all of the last pass was measured, by what each took.
 * 1; 0 if that does not fit a device. */
static int go_on(struct vp_reconstruct_plan *p, const struct vp_reconstruct_done *done, struct vp_err *err)
{
    p->passes = vp_max64(p->passes - 1, 1);
    if (done->took)
        vp_cut_again(p, done->plan, done->took);
    if (vp_cut_place(p, err))
        return -1;
    return !p->of->device_memory || p->device_bytes <= p->of->device_memory;
}

/* All that is decided once, and the limits that the devices were found to have, as they were. */
static void take_over(struct vp_reconstruct_plan *p, const struct vp_reconstruct_done *done)
{
    struct vp_crew *const crew = p->crew;
    struct vp_bp_part *const part = p->part;
    memcpy(crew, done->plan->crew, (size_t)p->of->n_devices * sizeof *crew);
    *p = *done->plan;
    p->crew = crew;
    p->part = part;
    p->made = done->made;
    p->stay = false;
}

static int plan_all(struct vp_reconstruct_plan *p, struct vp_err *err)
{
    struct vp_bp_plan plan;
    if (check_subsets(p, err) || choose(p, &plan, err))
        return -1;
    struct vp_crew *device = ask_devices(p, err);
    const int rc = device ? make_plan(p, device, &plan, err) : -1;
    free(device);
    if (!rc)
        add_out_slots(p);
    return rc;
}

int vp_reconstruct_plan(struct vp_reconstruct_plan *p, const struct vp_reconstruct *r,
                        const struct vp_reconstruct_done *done, struct vp_err *err)
{
    int rc = 0;
    *p = (struct vp_reconstruct_plan){.of = r};
    p->crew = calloc((size_t)r->n_devices, sizeof *p->crew);
    p->part = calloc((size_t)r->n_devices, sizeof *p->part);
    if (!p->crew || !p->part)
        rc = vp_fail(err, VP_ERESOURCE, "out of memory");
    if (!rc && done)
        take_over(p, done);
    if (!rc && done && !done->shortage)
        rc = go_on(p, done, err);
    if (!rc)
        rc = plan_all(p, err);
    if (rc < 0)
        vp_reconstruct_plan_free(p);
    return rc < 0 ? -1 : 0;
}

int vp_reconstruct_probe(const struct vp_reconstruct *r, struct vp_bp_plan *plan, bool *filter_device,
                         struct vp_err *err)
{
    struct vp_reconstruct_plan p = {.of = r};
    const int rc = choose(&p, plan, err);
    *filter_device = p.filter_device;
    return rc;
}

void vp_reconstruct_plan_free(struct vp_reconstruct_plan *p)
{
    free(p->crew);
    free(p->part);
    p->crew = NULL;
    p->part = NULL;
}
