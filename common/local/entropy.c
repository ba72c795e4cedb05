/* SPDX-License-Identifier: BSD-3-Clause */
/* Local entropy by a histogram that moves along x and a sum of table entries that moves with it. The table is in fixed
 * point, so additions and subtractions cancel exactly, and results do not depend on where a row or a chunk begins. */
#include "local/entropy.h"

#include "base/err.h"
#include "base/size.h"
#include "local/moving.h"

#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ONE 4294967296.0 /* the tables' unit is 2^-32 */

struct entropy_histogram {
    const struct vp_entropy_params *p;
    struct vp_moving window; /* over rows of bins */
    uint32_t *count;         /* bins + 1: the last is for NaN */
    int64_t sum;             /* differences of t(c) */
};

VP_MOVING uint16_t bin_at(const char *row, int64_t i)
{
    return ((const uint16_t *)(const void *)row)[i];
}

VP_MOVING void add(struct entropy_histogram *h, uint16_t bin)
{
    h->sum += h->p->step[h->count[bin]++];
}

VP_MOVING void take(struct entropy_histogram *h, uint16_t bin)
{
    h->sum -= h->p->step[--h->count[bin]];
}

VP_MOVING void enter(void *to, const char *row, int64_t i) { add(to, bin_at(row, i)); }
VP_MOVING void leave(void *to, const char *row, int64_t i) { take(to, bin_at(row, i)); }

/* Reads both before either is counted, since the compiler must assume that they alias. */
VP_MOVING void both(void *to, const char *row, int64_t leaves, int64_t enters)
{
    const uint16_t old = bin_at(row, leaves), new = bin_at(row, enters);
    take(to, old);
    add(to, new);
}

VP_MOVING void forget(void *to, const char *row, int64_t i)
{
    ((struct entropy_histogram *)to)->count[bin_at(row, i)] = 0;
}

static float value(const struct entropy_histogram *h)
{
    const struct vp_entropy_params *p = h->p;
    const int64_t nan = h->count[p->bins], n = h->window.n - nan;

    if (!n)
        return NAN;
    return (float)((double)(p->t[n] - (h->sum - p->t[nan])) / (ONE * (double)n));
}

/* Counts in a histogram of its own, so that the compiler keeps the sum in a register. */
static void row(struct entropy_histogram mine, int64_t x0, int64_t x1, float *out)
{
    struct entropy_histogram *const h = &mine;
    const int64_t bins = h->p->bins + 1;

    h->sum = 0;
    h->window.n = vp_moving_all(&h->window, x0, enter, h);
    for (int64_t x = x0;; x++) {
        *out++ = value(h);
        if (x + 1 == x1)
            break;
        vp_moving_on(&h->window, x, h->p->f.reach[0], leave, enter, both, h);
    }
    if (bins < 16 * h->window.n)
        memset(h->count, 0, (size_t)bins * sizeof *h->count);
    else
        vp_moving_all(&h->window, x1 - 1, forget, h);
}

/* ---- bins of the input ---- */

#define BINS(T) \
    for (int64_t i = 0; i < n; i++) \
        bin[i] = vp_entropy_bin(p, (double)((const T *)in)[i]);

static void bin_row(const struct vp_entropy_params *p, const uint16_t *table, const void *in, uint16_t *bin, int64_t n)
{
    const enum vp_type type = p->type;

    if (type == VP_F32)
        BINS(float)
    else if (type == VP_F64)
        BINS(double)
    else if (type == VP_U32)
        BINS(uint32_t)
    else if (type == VP_I32)
        BINS(int32_t)
    else
        for (int64_t i = 0; i < n; i++)
            bin[i] = table[type == VP_U8 ? ((const uint8_t *)in)[i] : type == VP_U16 ? ((const uint16_t *)in)[i]
                           : ((const int16_t *)in)[i] - INT16_MIN];
}

/* Layout of the scratch: shared by all threads; private to each. */
struct entropy_work {
    uint16_t *bins, *table;
    void **plane;
    struct entropy_histogram mine;
};

static size_t workspace_layout(struct entropy_work *w, const struct vp_entropy_params *p, const struct vp_box *in,
                               int thread, void *mem)
{
    const size_t rows = (size_t)(vp_box_size(in, 1) * vp_box_size(in, 2));
    size_t bytes = 0;

    w->bins = vp_place(mem, &bytes, (size_t)vp_box_size(in, 0) * rows * sizeof *w->bins);
    w->plane = vp_place(mem, &bytes, (size_t)vp_box_size(in, 2) * sizeof *w->plane);
    w->table = vp_place(mem, &bytes, (UINT16_MAX + 1) * sizeof *w->table);
    w->mine = (struct entropy_histogram){.p = p};
    for (int t = 0; t <= thread; t++) {
        w->mine.count = vp_place(mem, &bytes, (size_t)(p->bins + 1) * sizeof *w->mine.count);
        w->mine.window.line = vp_place(mem, &bytes, (size_t)vp_lines_most(&p->f, in) * sizeof *w->mine.window.line);
    }
    return bytes;
}

static uint64_t scratch(const struct vp_op *op, const struct vp_box *in, const struct vp_box *out, int threads)
{
    struct entropy_work w;

    (void)out;
    return workspace_layout(&w, op->params, in, threads - 1, NULL);
}

static int run(const struct vp_op *op, const struct vp_part *in, const struct vp_part *out, void *mem, int threads,
               struct vp_err *err)
{
    const struct vp_entropy_params *p = op->params;
    const int64_t width = vp_box_size(&in->box, 0), height = vp_box_size(&in->box, 1), depth = vp_box_size(&in->box, 2);
    const int64_t rows = vp_box_size(&out->box, 1), all = rows * vp_box_size(&out->box, 2);
    struct entropy_work shared;

    (void)err;
    workspace_layout(&shared, p, &in->box, 0, mem);
    for (int i = 0; vp_type_size(p->type) < sizeof(float) && i <= (p->type == VP_U8 ? UINT8_MAX : UINT16_MAX); i++)
        shared.table[i] = vp_entropy_bin(p, i + (p->type == VP_I16 ? INT16_MIN : 0));
    for (int64_t z = 0; z < depth; z++)
        shared.plane[z] = shared.bins + z * width * height;
    const struct vp_part binned = {in->box, width, shared.plane};
    #pragma omp parallel num_threads(threads)
    {
        struct entropy_work w;
        workspace_layout(&w, p, &in->box, omp_get_thread_num(), mem);
        memset(w.mine.count, 0, (size_t)(p->bins + 1) * sizeof *w.mine.count);
        #pragma omp for schedule(static)
        for (int64_t i = 0; i < height * depth; i++) {
            const int64_t y = in->box.lo[1] + i % height, z = in->box.lo[2] + i / height;
            bin_row(p, w.table, vp_part_at(in, vp_type_size(p->type), in->box.lo[0], y, z), w.bins + i * width, width);
        }
        #pragma omp for schedule(dynamic)
        for (int64_t i = 0; i < all; i++) {
            const int64_t y = out->box.lo[1] + i % rows, z = out->box.lo[2] + i / rows;
            vp_moving_row(&w.mine.window, &p->f, op->image, &binned, sizeof *w.bins, y, z);
            row(w.mine, out->box.lo[0], out->box.hi[0], vp_part_at(out, sizeof(float), out->box.lo[0], y, z));
        }
    }
    return 0;
}

/* ---- make ---- */

static void free_params(void *params)
{
    struct vp_entropy_params *p = params;

    free((void *)(uintptr_t)p->t); /* and the steps */
    vp_footprint_op_free(p);
}

static int64_t t_of(int64_t c)
{
    return c < 2 ? 0 : (int64_t)llround(ONE * ((double)c * log2((double)c)));
}

static int make_tables(struct vp_entropy_params *p, struct vp_err *err)
{
    int64_t *const t = vp_alloc_raw(2 * ((size_t)p->n + 1), sizeof *t, "tables of logarithms", err);

    p->t = t;
    if (!t)
        return -1;
    p->step = t + p->n + 1;
    for (int64_t c = 0; c <= p->n; c++)
        t[c] = t_of(c);
    for (int64_t c = 0; c < p->n; c++)
        t[p->n + 1 + c] = t[c + 1] - t[c];
    t[2 * p->n + 1] = 0;
    return 0;
}

static int check(const struct vp_footprint *f, int64_t bins, double lo, double hi, enum vp_type type,
                 struct vp_err *err)
{
    if (!((VP_ENTROPY_TYPES | VP_TYPES_WIDE) & 1u << type))
        return vp_fail(err, VP_EUSAGE, "entropy takes u8, u16, u32, i16, i32, f32 and f64, not %s", vp_type_name(type));
    if (bins < 1 || bins > VP_ENTROPY_BINS)
        return vp_fail(err, VP_EUSAGE, "--bins: expected 1 to %d, got %lld", VP_ENTROPY_BINS, (long long)bins);
    if (!(lo <= hi && isfinite(hi - lo)))
        return vp_fail(err, VP_EUSAGE, "--range: expected two finite numbers in ascending order, got %g and %g", lo,
                       hi);
    if (f->count > VP_ENTROPY_VOXELS)
        return vp_fail(err, VP_EUSAGE, "entropy takes neighbourhoods of at most %d voxels, got %lld",
                       VP_ENTROPY_VOXELS, (long long)f->count);
    return 0;
}

int vp_entropy_local(struct vp_op *op, const struct vp_footprint *f, int64_t bins, double lo, double hi,
                     const int64_t image[3], enum vp_type type, struct vp_err *err)
{
    char shape[96];

    if (check(f, bins, lo, hi, type, err))
        return -1;
    struct vp_entropy_params *const p = vp_footprint_op(op, "entropy", sizeof *p, f, image, type, VP_F32, err);
    if (!p)
        return -1;
    p->type = type;
    p->bins = bins;
    p->lo = lo;
    p->hi = hi;
    p->n = (int64_t)vp_footprint_most(f, op);
    p->scale = hi > lo ? (double)bins / (hi - lo) : 0;
    if (make_tables(p, err)) {
        free_params(p);
        return -1;
    }
    op->free = free_params;
    op->holds += 2 * (uint64_t)(p->n + 1) * sizeof *p->t;
    op->cost = 10 + 4 * (double)vp_footprint_rows(f);
    op->scratch = scratch;
    op->run = run;
    snprintf(op->text, sizeof op->text, "entropy, %s, %lld bins over %.9g to %.9g",
             vp_footprint_text(f, shape, sizeof shape), (long long)bins, lo, hi);
    return 0;
}
