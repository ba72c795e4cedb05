/* SPDX-License-Identifier: BSD-3-Clause */
/* Slices of a reconstruction on their way out: from the slabs through slots to a writer thread. */
#include "ct/reconstruct_internal.h"

#include "base/err.h"
#include "base/size.h"

#include <stdlib.h>

/* Slots that are made while views are worked on. */
enum { MADE_AHEAD = 3 };

static int take_slices(const struct vp_stages *w, float **slot, struct vp_err *err)
{
    const int64_t *n = w->r->grid->n;
    return vp_stages_take(w, slot, (uint64_t)(w->p->group * n[0] * n[1]), "the slices", err);
}

int vp_stages_make_slots(void *arg, struct vp_err *err)
{
    struct vp_stages *w = arg;
    int rc = 0;
    vp_stages_join_device(w);
    for (int i = 0; i < MADE_AHEAD && i < w->p->out_slots && !w->made && !rc; i++)
        rc = take_slices(w, &w->filled[i].slices, err);
    return rc;
}

/* Gives a slot without memory that of one whose slices are written, if there is one: memory is allocated only while the
 * writer is slower than the devices. */
static void reuse_slices(struct vp_stages *w, struct vp_stages_slices *to)
{
    const int n = w->p->out_slots;
    const int64_t written = w->written;
    for (int64_t i = vp_max64(0, w->stored - n + 1); i < written && !to->slices; i++) {
        struct vp_stages_slices *const from = &w->filled[i % n];
        to->slices = from->slices;
        from->slices = NULL;
    }
}

static int write_slices(void *arg, struct vp_err *err)
{
    struct vp_stages *w = arg;
    int slot;

    while ((slot = vp_ring_look(&w->slices, 0)) >= 0) {
        const double t = vp_now();
        const struct vp_stages_slices *f = &w->filled[slot];
        if (!w->failed && vp_volume_put(w->out, f->z, f->count, f->slices, err))
            w->failed = true;
        vp_stages_lap(w, "write", t);
        w->written++;
        /* after a failure the slots are still taken, so that the producer is not left waiting */
        vp_ring_taken(&w->slices);
    }
    return w->failed ? -1 : 0;
}

/* Fetches n slices of the slab that part i makes; with several subsets the sums of theirs, added in order. */
static int fetch(struct vp_stages *w, int i, int64_t z, int64_t n, float *out, struct vp_err *err)
{
    const int64_t count = n * w->r->grid->n[0] * w->r->grid->n[1];
    const int subsets = w->p->subsets;
    int rc = 0;

    if (subsets == 1)
        return vp_projector_slices(w->projector, i, z, n, out, err);
#pragma omp parallel for num_threads(subsets) schedule(static, 1) reduction(min : rc)
    for (int c = 0; c < subsets; c++) {
        struct vp_err why = VP_ERR_INIT;
        if (vp_projector_slices(w->projector, i + c, z, n, c ? w->partial[c - 1] : out, &why))
            rc = vp_err_keep(err, &why);
    }
    if (rc)
        return rc;
#pragma omp parallel for num_threads(w->r->threads) schedule(static)
    for (int64_t k = 0; k < count; k++)
        for (int c = 1; c < subsets; c++)
            out[k] += w->partial[c - 1][k];
    return 0;
}

/* Stores slices [z0, z1) of a slab, slot by slot. */
static int store_range(struct vp_stages *w, int i, int64_t z0, int64_t z1, struct vp_err *err)
{
    for (int64_t z = z0; z < z1 && !w->failed; z += w->p->group) {
        struct vp_stages_slices *const to = &w->filled[vp_ring_fill(&w->slices)];
        reuse_slices(w, to);
        if (take_slices(w, &to->slices, err))
            return -1;
        const double t = vp_now();
        to->count = (int)vp_min64(w->p->group, z1 - z);
        to->z = z;
        if (fetch(w, i, z, to->count, to->slices, err))
            return -1;
        vp_stages_lap(w, "slice", t);
        w->stored++;
        vp_ring_filled(&w->slices);
    }
    return 0;
}

/* Stores the slices of [z0, z1) that are in one part of their slab. */
static int store_part(struct vp_stages *w, int i, int of, int64_t z0, int64_t z1, struct vp_err *err)
{
    int rc = 0;
    for (int64_t z = z0, end; z < z1 && !rc; z = end) {
        for (end = z; end < z1 && vp_projector_part_of(w->projector, i, end) == of;)
            end++;
        rc = store_range(w, i, z, end, err);
        end += end == z;
    }
    return rc;
}

/* Passes all slices of a pass to the writer thread: the lowest first, or, if they can be written in any order and are
 * made part by part, as they are ready. The upper halves of mirrored slabs follow from the middle on; the middle slice
 * is its own image. */
int vp_stages_store(struct vp_stages *w, struct vp_err *err)
{
    const struct vp_reconstruct_plan *p = w->p;
    const int64_t nz = w->r->grid->n[2];
    int parts = 1, rc = 0;

    for (int i = 0; i < p->subsets - 1; i++)
        if (take_slices(w, &w->partial[i], err))
            return -1;
    if (!w->storer.running) {
        w->any_order = w->out->put ? w->out->any_order && p->resident
                                   : (p->mirrored && p->passes > 1) || (w->r->any_order && p->resident);
        w->out->any_order = w->out->put ? w->out->any_order : w->any_order;
        w->out->gives = vp_stages_on_host(w); /* page-locked memory stays where it is */
        if (vp_stages_start(w, &w->storer, &w->slices, p->out_slots, write_slices, err))
            return -1;
    }
    for (int i = 0; i < p->parts && p->resident && w->any_order; i += p->subsets)
        parts = (int)vp_max64(parts, vp_projector_parts(w->projector, i));
    for (int of = 0; of < parts; of++)
        for (int upper = 0; upper <= p->mirrored; upper++)
            for (int k = 0; k < p->parts && !rc; k += p->subsets) {
                const int i = upper ? p->parts - p->subsets - k : k;
                const struct vp_bp_job *part = &p->part[i].job;
                const int64_t z0 = upper ? vp_max64(nz - part->z1, part->z1) : part->z0;
                const int64_t z1 = upper ? nz - part->z0 : part->z1;
                rc = parts > 1 ? store_part(w, i, of, z0, z1, err) : store_range(w, i, z0, z1, err);
            }
    return rc || w->failed ? -1 : 0;
}
