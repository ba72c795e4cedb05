/* SPDX-License-Identifier: BSD-3-Clause */
/* Volumes of an iteration, slice by slice: sums do not depend on threads. */
#include "ct/iterate_internal.h"

#include "base/size.h"
#include "base/spill.h"
#include "engine/thread.h"

#include <math.h>
#include <string.h>

enum { PART = 1 << 16, SLAB_BYTES = 32 << 20 }; /* a large slice is several parts, for threads */

/* Returns the slices that are in memory at once, of volumes in the scratch folder. */
static int64_t slab_of(const int64_t *n)
{
    return vp_max64(1, vp_min64(SLAB_BYTES / (n[0] * n[1] * (int64_t)sizeof(float)), n[2] / 16));
}

uint64_t vp_iterate_window(const int64_t *n)
{
    return 3 * (uint64_t)(slab_of(n) * n[0] * n[1]) * sizeof(float);
}

/* Slices [z0, z1) of the volumes that a loop uses. */
struct walked_slab {
    const struct vp_iteration *it;
    const struct vp_slice_use *use;
    int64_t z0, z1;
    struct vp_thread thread;
    bool bad;
};

static int fetch(void *ctx, struct vp_err *err)
{
    struct walked_slab *const s = ctx;
    const int64_t page = s->it->page;
    const uint64_t bytes = (uint64_t)((s->z1 - s->z0) * page) * sizeof(float);
    (void)err;
    for (int i = 0; i < VP_USE && !s->bad; i++)
        s->bad = (s->use->read[i] && !vp_spill_fetch(s->use->read[i] + s->z0 * page, bytes, false))
              || (s->use->write[i] && !vp_spill_fetch(s->use->write[i] + s->z0 * page, bytes, true));
    return 0;
}

static void leave(const struct walked_slab *s)
{
    const int64_t page = s->it->page;
    const uint64_t bytes = (uint64_t)((s->z1 - s->z0) * page) * sizeof(float);
    for (int i = 0; i < VP_USE; i++) {
        if (s->use->read[i])
            vp_spill_leave(s->use->read[i] + s->z0 * page, bytes, false);
        if (s->use->write[i])
            vp_spill_leave(s->use->write[i] + s->z0 * page, bytes, true);
    }
}

void vp_iterate_walk(struct vp_iteration *it, const struct vp_slice_use *use, void (*work)(void *ctx, int64_t z0, int64_t z1),
                     void *ctx)
{
    const int64_t n = it->job->grid->n[2], step = it->job->spilled ? slab_of(it->job->grid->n) : n;
    struct vp_err err = VP_ERR_INIT;
    if (!it->job->spilled) {
        work(ctx, it->z0, it->z1);
        return;
    }
    struct walked_slab slab[2] = {{.it = it, .use = use, .z1 = vp_min64(step, n)}, {.it = it, .use = use}};
    int at = 0;
    fetch(&slab[0], &err);
    for (int64_t z = 0; z < n; z += step, at ^= 1) { /* the next slab is read while this one is worked on */
        struct walked_slab *const now = &slab[at], *const next = &slab[!at];
        next->z0 = now->z1;
        next->z1 = vp_min64(now->z1 + step, n);
        const bool beside = next->z0 < n && !vp_thread_start(&next->thread, fetch, next, false, &err);
        if (!now->bad)
            work(ctx, now->z0, now->z1);
        if (beside)
            vp_thread_join(&next->thread, &err);
        else
            fetch(next, &err);
        leave(now);
        if (now->bad)
            return; /* vp_spill_check() */
    }
}

struct rows_worked {
    struct vp_iteration *it;
    vp_row_work *work;
    const void *ctx;
};

static void work_rows(void *ctx, int64_t z0, int64_t z1)
{
    const struct rows_worked *r = ctx;
    const int64_t ny = r->it->job->grid->n[1];
#pragma omp parallel for num_threads(r->it->job->threads) schedule(static)
    for (int64_t row = z0 * ny; row < z1 * ny; row++)
        r->work(r->ctx, row);
}

void vp_iterate_rows(struct vp_iteration *it, const struct vp_slice_use *use, vp_row_work *work, const void *ctx)
{
    vp_iterate_walk(it, use, work_rows, &(struct rows_worked){it, work, ctx});
}

struct slices_summed {
    struct vp_iteration *it;
    vp_slice_work *work;
    void *ctx;
};

static void sum_slab(void *ctx, int64_t z0, int64_t z1)
{
    const struct slices_summed *s = ctx;
    struct vp_iteration *const it = s->it;
    const int64_t parts = vp_div_up(it->page, PART);
#pragma omp parallel for num_threads(it->job->threads) schedule(dynamic, 1)
    for (int64_t i = z0 * parts; i < z1 * parts; i++) {
        const int64_t at = i / parts * it->page + i % parts * PART, end = (i / parts + 1) * it->page;
        it->slices[i] = (struct vp_volume_sums){.min = INFINITY, .max = -INFINITY};
        s->work(s->ctx, at, vp_min64(PART, end - at), &it->slices[i]);
    }
}

struct vp_volume_sums vp_iterate_slices(struct vp_iteration *it, const struct vp_slice_use *use, vp_slice_work *work, void *ctx)
{
    const int64_t parts = vp_div_up(it->page, PART), n = it->job->grid->n[2] * parts;
    struct vp_err err = VP_ERR_INIT;
    struct vp_volume_sums all = {.min = INFINITY, .max = -INFINITY};
    vp_iterate_walk(it, use, sum_slab, &(struct slices_summed){it, work, ctx});
    if (!it->trouble.code
        && vp_share_all(&it->job->share, it->slices, it->job->grid->n[2], it->grain, (uint64_t)parts * sizeof *it->slices, &err))
        vp_err_keep(&it->trouble, &err);
    for (int64_t i = 0; i < n && !it->trouble.code; i++) {
        const struct vp_volume_sums *s = &it->slices[i];
        all.min = fmin(all.min, s->min);
        all.max = fmax(all.max, s->max);
        all.sum += s->sum;
        all.square += s->square;
        all.change += s->change;
        all.product += s->product;
    }
    return all;
}

void vp_iterate_next(struct vp_iteration *it, float *x, bool after)
{
    struct vp_err err = VP_ERR_INIT;
    if (!it->trouble.code && vp_share_next(&it->job->share, x, it->job->grid->n[2], it->grain, (uint64_t)it->page * sizeof *x,
                                           after, &err))
        vp_err_keep(&it->trouble, &err);
}

struct pair_of_volumes { const float *a, *b; };

static void multiply(void *ctx, int64_t at, int64_t n, struct vp_volume_sums *sums)
{
    const struct pair_of_volumes *v = ctx;
    for (int64_t i = at; i < at + n; i++)
        sums->product += (double)v->a[i] * (double)v->b[i];
}

double vp_iterate_dot(struct vp_iteration *it, const float *a, const float *b)
{
    return vp_iterate_slices(it, &(struct vp_slice_use){.read = {a, b}}, multiply,
                             &(struct pair_of_volumes){a, b}).product;
}

static void clear(void *ctx, int64_t at, int64_t n, struct vp_volume_sums *sums)
{
    (void)sums;
    memset((float *)ctx + at, 0, (size_t)n * sizeof(float));
}

void vp_iterate_clear(struct vp_iteration *it, float *x)
{
    vp_iterate_slices(it, &(struct vp_slice_use){.write = {x}}, clear, x);
}

struct copy_of_volume { float *to; const float *from; };

static void copy(void *ctx, int64_t at, int64_t n, struct vp_volume_sums *sums)
{
    const struct copy_of_volume *c = ctx;
    (void)sums;
    memcpy(c->to + at, c->from + at, (size_t)n * sizeof *c->to);
}

void vp_iterate_copy(struct vp_iteration *it, float *to, const float *from)
{
    vp_iterate_slices(it, &(struct vp_slice_use){.read = {from}, .write = {to}}, copy, &(struct copy_of_volume){to, from});
}

struct vp_volume_sums vp_iterate_update(struct vp_iteration *it, vp_slice_work *work, struct vp_update u)
{
    u.job = it->job;
    u.mask = it->job->mask;
    const struct vp_slice_use use = {.read = {u.by, u.over, u.mask}, .write = {u.x, u.to, u.more}};
    return vp_iterate_slices(it, &use, work, &u);
}

/* x += factor by */
static void add_multiple(void *ctx, int64_t at, int64_t n, struct vp_volume_sums *sums)
{
    const struct vp_update *u = ctx;
    for (int64_t i = at; i < at + n; i++) {
        const float before = u->x[i];
        u->x[i] = (float)((double)before + u->factor * (double)u->by[i]);
        vp_update_count(sums, before, u->x[i]);
    }
}

struct vp_volume_sums vp_iterate_add(struct vp_iteration *it, float *x, double factor, const float *by)
{
    return vp_iterate_update(it, add_multiple, (struct vp_update){.x = x, .by = by, .factor = factor});
}

static void cut_out(void *ctx, int64_t at, int64_t n, struct vp_volume_sums *sums)
{
    const struct vp_update *u = ctx;
    (void)sums;
    for (int64_t i = at; i < at + n && u->mask; i++)
        u->x[i] = u->mask[i] != 0 ? u->x[i] : 0;
}

void vp_iterate_cut_out(struct vp_iteration *it, float *x)
{
    vp_iterate_update(it, cut_out, (struct vp_update){.x = x});
}

static void fill(void *ctx, int64_t at, int64_t n, struct vp_volume_sums *sums)
{
    const struct vp_update *u = ctx;
    (void)sums;
    for (int64_t i = at; i < at + n; i++)
        u->x[i] = !u->mask || u->mask[i] != 0 ? (float)u->factor : 0;
}

void vp_iterate_fill(struct vp_iteration *it, float *x, double value)
{
    vp_iterate_update(it, fill, (struct vp_update){.x = x, .factor = value});
}
