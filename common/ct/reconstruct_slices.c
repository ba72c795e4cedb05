/* SPDX-License-Identifier: BSD-3-Clause */
/* Slices out: a writer thread empties slots of them, pass after pass. The buffers of the output are made while the
 * views are worked on. */
#include "ct/reconstruct_internal.h"

#include "base/err.h"
#include "base/size.h"
#include "base/stats.h"

#include <stdlib.h>

int vp_stages_output(const struct vp_stages *w, float **slot, struct vp_err *err)
{
    const uint64_t count = (uint64_t)w->p->group * (uint64_t)w->r->grid->n[0] * (uint64_t)w->r->grid->n[1];
    return *slot || (*slot = vp_stages_take(w, count, "the slices", err)) ? 0 : -1;
}

static int write_slot(struct vp_stages *w, const struct vp_stages_filled *f, struct vp_err *err)
{
    const struct vp_stages_sink *s = &w->sink;
    const struct vp_reconstruct_sink *to = w->r->sink;
    if (to)
        return to->put(to->ctx, f->page + w->r->z0, f->count, f->slices, err);
    return s->any_order ? vp_writer_bands(s->writer, f->page, f->count, 0, w->r->grid->n[1], f->slices, w->r->threads,
                                          err)
                        : vp_writer_pages(s->writer, f->count, f->slices, w->r->threads, err);
}

static int write_slices(void *arg, struct vp_err *err)
{
    struct vp_stages *w = arg;
    struct vp_stages_sink *s = &w->sink;
    int slot;

    while ((slot = vp_ring_look(&s->ring, 0)) >= 0) {
        const double t = vp_now();
        if (!s->failed && write_slot(w, &s->slot[slot], err))
            s->failed = true;
        vp_stats_time(w->r->stats, "write", vp_now() - t);
        /* after a failure the slots are still taken, so that the producer is not left waiting */
        vp_ring_taken(&s->ring);
    }
    return s->failed ? -1 : 0;
}

static int start_writer(struct vp_stages *w, struct vp_err *err)
{
    struct vp_stages_sink *s = &w->sink;
    if (s->thread.running)
        return 0;
    vp_ring_init(&s->ring, w->p->out_slots);
    s->any_order = w->r->sink ? !w->r->sink->in_order && w->p->stay
                              : (w->p->mirrored && w->p->passes > 1) || (w->r->any_order && w->p->stay);
    if (!vp_thread_start(&s->thread, write_slices, w, false, err))
        return 0;
    vp_ring_destroy(&s->ring);
    return -1;
}

int vp_stages_finish(struct vp_stages *w, struct vp_err *err)
{
    struct vp_stages_sink *s = &w->sink;
    int rc = 0;
    if (s->thread.running) {
        vp_ring_end(&s->ring);
        rc = vp_thread_join(&s->thread, err);
        vp_ring_destroy(&s->ring);
    }
    return rc;
}

/* n slices of the slab that part i and those of the other subsets make: one's, or the sums, added in their order. */
static int fetch(struct vp_stages *w, int i, int64_t z, int64_t n, float *out, struct vp_err *err)
{
    const int64_t count = n * w->r->grid->n[0] * w->r->grid->n[1];
    const int subsets = w->p->subsets;
    float **const partial = w->buffers.partial;
    int rc = 0;

    if (subsets == 1)
        return vp_slab_slices(w->volume.slab[i], z, n, out, err);
#pragma omp parallel for num_threads(subsets) schedule(static, 1) reduction(min : rc)
    for (int c = 0; c < subsets; c++) {
        struct vp_err why = VP_ERR_INIT;
        if (vp_slab_slices(w->volume.slab[i + c], z, n, c ? partial[c - 1] : out, &why))
            rc = vp_err_keep(err, &why);
    }
    if (rc)
        return rc;
#pragma omp parallel for num_threads(w->r->threads) schedule(static)
    for (int64_t k = 0; k < count; k++)
        for (int c = 1; c < subsets; c++)
            out[k] += partial[c - 1][k];
    return 0;
}

/* Slices [z0, z1) of a slab, slot by slot. */
static int store_range(struct vp_stages *w, int i, int64_t z0, int64_t z1, struct vp_err *err)
{
    struct vp_stages_sink *s = &w->sink;
    for (int64_t z = z0; z < z1 && !s->failed; z += w->p->group) {
        struct vp_stages_filled *const to = &s->slot[vp_ring_fill(&s->ring)];
        if (vp_stages_output(w, &to->slices, err))
            return -1;
        const double t = vp_now();
        to->count = (int)vp_min64(w->p->group, z1 - z);
        to->page = z - w->r->z0;
        if (fetch(w, i, z, to->count, to->slices, err))
            return -1;
        vp_stats_time(w->r->stats, "slice", vp_now() - t);
        vp_ring_filled(&s->ring);
    }
    return 0;
}

/* The upper half of a mirrored slab; the middle slice is its own image. */
static void upper_half(const struct vp_stages *w, const struct vp_bp_part *part, int64_t *z0, int64_t *z1)
{
    const int64_t nz = w->r->grid->n[2];
    *z0 = w->p->mirrored ? vp_max64(nz - part->z1, part->z1) : 0;
    *z1 = w->p->mirrored ? nz - part->z0 : 0;
}

/* The slices of [z0, z1) that are in one part of their slab. */
static int store_part(struct vp_stages *w, int i, int of, int64_t z0, int64_t z1, struct vp_err *err)
{
    int rc = 0;
    for (int64_t z = z0, end; z < z1 && !rc; z = end) {
        for (end = z; end < z1 && vp_slab_part_of(w->volume.slab[i], end) == of;)
            end++;
        rc = store_range(w, i, z, end, err);
        end += end == z;
    }
    return rc;
}

/* All slices of a pass as they are ready: part by part of all slabs. */
static int store_parts(struct vp_stages *w, struct vp_err *err)
{
    int parts = 1, rc = 0;
    for (int i = 0; i < w->p->parts; i += w->p->subsets)
        parts = (int)vp_max64(parts, vp_slab_parts(w->volume.slab[i]));
    for (int of = 0; of < parts; of++)
        for (int i = 0; i < w->p->parts && !rc; i += w->p->subsets) {
            const struct vp_bp_part *part = &w->p->part[i];
            int64_t z0, z1;
            upper_half(w, part, &z0, &z1);
            rc = store_part(w, i, of, part->z0, part->z1, err) || store_part(w, i, of, z0, z1, err) ? -1 : 0;
        }
    return rc;
}

/* The lowest first. */
static int store_in_order(struct vp_stages *w, struct vp_err *err)
{
    const struct vp_reconstruct_plan *p = w->p;
    int rc = 0;
    for (int i = 0; i < p->parts && !rc; i += p->subsets)
        rc = store_range(w, i, p->part[i].z0, p->part[i].z1, err);
    for (int i = p->parts - p->subsets; i >= 0 && !rc; i -= p->subsets) {
        int64_t z0, z1;
        upper_half(w, &p->part[i], &z0, &z1);
        rc = store_range(w, i, z0, z1, err);
    }
    return rc;
}

int vp_stages_store(struct vp_stages *w, struct vp_err *err)
{
    const struct vp_reconstruct_plan *p = w->p;

    for (int i = 0; i < p->subsets - 1; i++)
        if (vp_stages_output(w, &w->buffers.partial[i], err))
            return -1;
    if (start_writer(w, err))
        return -1;
    const int rc = p->stay && w->sink.any_order ? store_parts(w, err) : store_in_order(w, err);
    return rc || w->sink.failed ? -1 : 0;
}
