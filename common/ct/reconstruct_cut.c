/* SPDX-License-Identifier: BSD-3-Clause */
#include "ct/reconstruct_internal.h"

#include "base/err.h"
#include "base/size.h"
#include "ct/backproject.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SLICES = 32 }; /* copied together */
static const uint64_t SLOT_BYTES = 32 << 20;
static const uint64_t PROCESS_BYTES = 7 << 20; /* code, stacks and small things; 5.4 MiB were seen */

/* ---- buffers ---- */

struct vp_reconstruct_buffers vp_reconstruct_buffers(const struct vp_reconstruct_plan *p)
{
    const uint64_t view = (uint64_t)p->of->in_nu * (uint64_t)p->of->nv * sizeof(float);
    const uint64_t all = view * (uint64_t)(p->of->last - p->of->first);
    const uint64_t slot = all / 256 < SLOT_BYTES ? SLOT_BYTES : 2 * SLOT_BYTES;
    struct vp_reconstruct_buffers b = {.least = 1, .most = 16, .in = 3, .out = 2};
    if (!p->of->kind->on_host) {
        b = (struct vp_reconstruct_buffers){.least = 2 /* a pair */, .most = 2, .in = VP_RECONSTRUCT_SLOTS, .out = 3};
        while (b.most < 64 && 2 * (uint64_t)b.most * view <= slot)
            b.most *= 2;
    }
    /* once slices were made theirs stay as they are, for the writer may be at work on them */
    b.out = p->made > 0 ? p->out_slots : b.out;
    return b;
}

/* Every slot that a device reads from needs room for the longer rows. */
int vp_reconstruct_wide_slots(const struct vp_reconstruct_plan *p)
{
    return p->of->nu == p->of->in_nu || p->filter_device || p->of->feed ? 0 : p->of->kind->on_host ? 1 : VP_RECONSTRUCT_SLOTS;
}

int64_t vp_reconstruct_in_width(const struct vp_reconstruct_plan *p)
{
    return p->of->feed && !p->filter_device ? p->of->nu : p->of->in_nu;
}

int64_t vp_cut_group(const struct vp_reconstruct_plan *p)
{
    if (p->made > 0)
        return p->group;
    const uint64_t page = (uint64_t)p->of->grid->n[0] * (uint64_t)p->of->grid->n[1] * sizeof(float);
    const uint64_t most = p->of->memory / 32 < SLOT_BYTES ? p->of->memory / 32 : SLOT_BYTES;
    int64_t n = (int64_t)(most / (page > 0 ? page : 1));
    n = n < 1 ? 1 : n >= SLICES ? n / SLICES * SLICES : n;
    return vp_min64(n, p->slab);
}

/* ---- who makes what ---- */

struct vp_reconstruct_domain vp_reconstruct_domain(const struct vp_reconstruct_plan *p)
{
    return (struct vp_reconstruct_domain){
        .lo = p->of->z0 + p->made, .hi = p->mirrored && !p->of->half ? (p->of->grid->n[2] + 1) / 2 : p->of->z1};
}

void vp_reconstruct_rows(const struct vp_reconstruct *r, int64_t z0, int64_t z1, bool mirrored, int64_t *v0, int64_t *v1)
{
    const int64_t nz = r->grid->n[2];
    vp_backproject_rows(r->views, r->n_views, r->nv, r->grid, z0, z1, v0, v1);
    if (mirrored) {
        int64_t w0, w1;
        vp_backproject_rows(r->views, r->n_views, r->nv, r->grid, nz - z1, nz - z0, &w0, &w1);
        *v0 = vp_min64(*v0, w0);
        *v1 = vp_max64(*v1, w1);
    }
}

struct vp_bp_job vp_reconstruct_job(const struct vp_reconstruct_plan *p, const struct vp_bp_part *part)
{
    const struct vp_reconstruct *r = p->of;
    return (struct vp_bp_job){.views = r->views, .n_views = r->n_views, .first = part->first, .last = part->last,
                              .pairs = p->subsets * p->columns > 1 && p->partner > 0, .nu = r->nu, .nv = r->nv, .grid = r->grid,
                              .z0 = part->z0, .z1 = part->z1, .mirrored = p->mirrored,
                              .filter = p->filter_device ? r->filter : NULL,
                              .in_nu = p->filter_device ? r->in_nu : r->nu,
                              .any_order = vp_views_seekable(r->source), .threads = r->threads,
                              .device = part->device, .device_memory = r->device_memory,
                              .together = part->plan.together, .stay = p->stay};
}

struct vp_bp_part vp_cut_part(const struct vp_reconstruct_plan *p, int crew, int subset, int64_t z0, int64_t z1)
{
    const int of = p->subsets * p->columns, it = (p->columns > 1 ? p->of->column * p->subsets : 0) + subset;
    const bool pairs = of > 1 && p->partner > 0;
    const int64_t lo = pairs ? 0 : p->of->first, n = pairs ? p->partner : p->of->last - p->of->first;
    const int device = p->of->devices[crew * p->subsets + subset];
    return (struct vp_bp_part){.device = device, .subset = subset, .z0 = z0, .z1 = z1,
                               .first = lo + n * it / of, .last = lo + n * (it + 1) / of};
}

int vp_cut_ask(struct vp_reconstruct_plan *p, struct vp_bp_part *part, int n, struct vp_err *err)
{
    int rc = 0;
#pragma omp parallel for num_threads(n) schedule(static, 1) reduction(min : rc) if (n > 1)
    for (int i = 0; i < n; i++) {
        const struct vp_bp_job job = vp_reconstruct_job(p, &part[i]);
        struct vp_err why = VP_ERR_INIT;
        if (vp_slab_plan(p->of->kind, &job, &part[i].plan, &why))
            rc = vp_err_keep(err, &why);
    }
    return rc;
}

/* The part that fits least: the largest of those that do not, else the largest. */
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

int vp_cut_place(struct vp_reconstruct_plan *p, struct vp_err *err)
{
    struct vp_reconstruct_domain d = vp_reconstruct_domain(p);
    p->parts = 0;
    for (int i = 0; i < p->of->n_devices / p->subsets && d.lo < d.hi; i++) {
        const int64_t z1 = vp_min64(d.lo + p->crew[i].depth, d.hi);
        for (int c = 0; c < p->subsets && z1 > d.lo; c++)
            p->part[p->parts++] = vp_cut_part(p, i, c, d.lo, z1);
        d.lo = z1;
    }
    if (vp_cut_ask(p, p->part, p->parts, err))
        return -1;
    device_bytes(p, p->part, p->parts);
    return 0;
}

int64_t vp_cut_units(const struct vp_crew *crew, int64_t slices, int64_t unit)
{
    return crew->most >= slices ? vp_div_up(slices, unit) : crew->most / unit;
}

int64_t vp_reconstruct_share(struct vp_crew *crew, int n, int64_t slices, int64_t unit)
{
    int64_t left = vp_div_up(slices, unit), room = 0;
    double none = 0, all = 0; /* times in which too little and enough can be done */

    for (int i = 0; i < n; i++) {
        crew[i].depth = 0;
        room += vp_cut_units(&crew[i], slices, unit);
        all = (double)(left + 1) / crew[i].speed > all ? (double)(left + 1) / crew[i].speed : all;
    }
    for (int k = 0; k < 64 && room > left; k++) {
        const double time = (none + all) / 2;
        int64_t done = 0;
        for (int i = 0; i < n; i++)
            done += vp_min64((int64_t)(time * crew[i].speed), vp_cut_units(&crew[i], slices, unit));
        *(done >= left ? &all : &none) = time;
    }
    const bool enough = room > left;
    for (int i = 0; i < n; i++) {
        const int64_t most = vp_cut_units(&crew[i], slices, unit), fair = enough ? (int64_t)(all * crew[i].speed) : most;
        const int64_t share = vp_min64(vp_min64(fair, most), left);
        crew[i].depth = share * unit;
        left -= share;
    }
    return left;
}

void vp_cut_muster(struct vp_reconstruct_plan *p, const struct vp_crew *device, int subsets)
{
    const struct vp_reconstruct_domain all = vp_reconstruct_domain(p);
    p->subsets = subsets;
    for (int i = 0; i < p->of->n_devices / subsets; i++) {
        p->crew[i] = device[i * subsets];
        for (int c = 1; c < subsets; c++) {
            const struct vp_crew *d = &device[i * subsets + c];
            p->crew[i].speed = d->speed < p->crew[i].speed ? d->speed : p->crew[i].speed;
            p->crew[i].free = d->free < p->crew[i].free ? d->free : p->crew[i].free;
            p->crew[i].total = d->total < p->crew[i].total ? d->total : p->crew[i].total;
        }
        p->crew[i].most = all.hi - all.lo;
    }
}

void vp_cut(struct vp_reconstruct_plan *p, int64_t slices, int64_t unit)
{
    (void)vp_reconstruct_share(p->crew, p->of->n_devices / p->subsets, slices, unit);
    p->used = 0;
    p->slab = 0;
    for (int i = 0; i < p->of->n_devices / p->subsets; i++) {
        p->used += p->crew[i].depth > 0 ? p->subsets : 0;
        p->slab = vp_max64(p->slab, p->crew[i].depth);
    }
    p->slab = vp_min64(p->slab, slices);
    p->unit = unit;
}

void vp_cut_again(struct vp_reconstruct_plan *p, const struct vp_reconstruct_plan *before, const double *took)
{
    const int crews = p->of->n_devices / p->subsets, used = p->used;
    const struct vp_reconstruct_domain d = vp_reconstruct_domain(p);
    int64_t slices = 0;
    if (before->parts < crews * p->subsets)
        return;
    for (int i = 0; i < before->parts; i++)
        if (took[i] <= 0)
            return;
    for (int i = 0; i < crews; i++) {
        const struct vp_bp_part *part = &before->part[i * p->subsets];
        double slowest = 0;
        for (int c = 0; c < p->subsets; c++)
            slowest = fmax(slowest, took[i * p->subsets + c]);
        p->crew[i].speed = (double)(part->z1 - part->z0) / slowest;
        slices += p->crew[i].depth;
    }
    vp_cut(p, vp_min64(slices, d.hi - d.lo), p->unit);
    p->used = used > p->used ? used : p->used;
}

/* ---- what it takes ---- */

static bool within(const struct vp_reconstruct_plan *p)
{
    return p->bytes <= p->of->memory && p->device_bytes <= p->device_room;
}

bool vp_cut_fits(struct vp_reconstruct_plan *p, const struct vp_bp_part *part, int n)
{
    const struct vp_reconstruct_buffers slots = vp_reconstruct_buffers(p);
    const uint64_t in = (uint64_t)vp_reconstruct_in_width(p) * (uint64_t)p->of->nv * sizeof(float);
    const uint64_t wide = (uint64_t)p->of->nu * (uint64_t)p->of->nv * sizeof(float);
    const uint64_t slice = (uint64_t)p->of->grid->n[0] * (uint64_t)p->of->grid->n[1] * sizeof(float);

    p->bytes = PROCESS_BYTES + vp_views_bytes(p->of->source) +
               (uint64_t)p->batch * ((uint64_t)slots.in * in +
                                     (uint64_t)vp_reconstruct_wide_slots(p) * wide) +
               (uint64_t)(slots.out + p->subsets - 1) * (uint64_t)vp_cut_group(p) * slice +
               (p->of->filter ? vp_filter_tables(p->of->filter)->bytes : 0) +
               (p->of->normalize ? vp_normalize_facts(p->of->normalize).bytes : 0);
    for (int i = 0; i < n; i++)
        p->bytes += part[i].plan.host;
    /* the devices' share counts only against what is free there */
    device_bytes(p, part, n);
    return within(p);
}

int vp_cut_check(struct vp_reconstruct_plan *p, struct vp_err *err)
{
    const struct vp_reconstruct_domain d = vp_reconstruct_domain(p);
    if (vp_cut_place(p, err))
        return -1;
    snprintf(p->kernel, sizeof p->kernel, "%s", p->part[0].plan.kernel);
    snprintf(p->filter_kernel, sizeof p->filter_kernel, "%s", p->part[0].plan.filter);
    const bool fits = vp_cut_fits(p, p->part, p->parts);
    /* where the halves of a mirrored volume meet, a slab of a later pass may take more than the first one */
    const int64_t middle = p->of->grid->n[2] / 2, z = d.lo + (middle - d.lo) / p->slab * p->slab;
    if (fits && !p->mirrored && middle > d.lo && z < d.hi && z >= p->part[p->parts - 1].z1) {
        struct vp_bp_part part = vp_cut_part(p, 0, 0, z, vp_min64(z + p->slab, d.hi));
        if (vp_cut_ask(p, &part, 1, err))
            return -1;
        if (part.plan.device > p->device_bytes)
            device_bytes(p, &part, 1);
        if (part.plan.host > p->part[0].plan.host)
            p->bytes += part.plan.host - p->part[0].plan.host;
    }
    return within(p);
}

int vp_cut_too_large(const struct vp_reconstruct_plan *p, const char *what, struct vp_err *err)
{
    char need[16], have[16];
    const bool host = p->bytes > p->of->memory;
    vp_format_bytes(need, sizeof need, host ? p->bytes : p->device_bytes);
    vp_format_bytes(have, sizeof have, host ? p->of->memory : p->device_room);
    return vp_fail(err, VP_ERESOURCE, "%s needs %s, %s %s", what, need,
                   host ? "the memory limit is" : "the device has", have);
}
