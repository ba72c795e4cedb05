/* SPDX-License-Identifier: BSD-3-Clause */
/* Local entropy by a histogram that moves along x and a sum of table entries that moves with it. The table is in fixed
 * point, so adding and taking away leaves no trace, and it does not matter where a row or a chunk begins. */
#include "local/entropy.h"

#include "base/err.h"
#include "base/size.h"
#include "local/moving.h"

#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ONE 4294967296.0 /* the tables' unit is 2^-32 */

struct histogram {
    const struct vp_entropy_params *p;
    uint32_t *count;   /* bins + 1: the last is for NaN */
    int64_t sum;       /* of t(c) */
    int64_t n;         /* samples, NaN with them */
    struct vp_line *line;
    int64_t lines;
    int64_t nx, first; /* of the image; first sample of the rows */
};

static inline __attribute__((always_inline)) uint16_t bin_at(const struct vp_line *l, int64_t i)
{
    return ((const uint16_t *)(const void *)l->row)[i];
}

static inline __attribute__((always_inline)) void add(struct histogram *h, const int64_t *step, uint16_t bin)
{
    h->sum += step[h->count[bin]++];
}

static inline __attribute__((always_inline)) void leave(struct histogram *h, const int64_t *step, uint16_t bin)
{
    h->sum -= step[--h->count[bin]];
}

static void fill(struct histogram *h, int64_t x)
{
    for (int64_t i = 0; i < h->lines; i++) {
        const struct vp_line *l = &h->line[i];
        const int64_t from = vp_max64(x + l->x0, 0), to = vp_min64(x + l->x1, h->nx - 1);
        for (int64_t at = from; at <= to; at++)
            add(h, h->p->step, bin_at(l, at - h->first));
        h->n += vp_max64(to - from + 1, 0);
    }
}

/* From voxel x to the next. */
static void move_at_edge(struct histogram *h, int64_t x)
{
    for (int64_t i = 0; i < h->lines; i++) {
        const struct vp_line *l = &h->line[i];
        const int64_t out = x + l->x0, in = x + 1 + l->x1;
        if (out >= 0 && out < h->nx) {
            leave(h, h->p->step, bin_at(l, out - h->first));
            h->n--;
        }
        if (in >= 0 && in < h->nx) {
            add(h, h->p->step, bin_at(l, in - h->first));
            h->n++;
        }
    }
}

static void move_inside(struct histogram *restrict h, int64_t x)
{
    const struct vp_line *const end = h->line + h->lines;
    const int64_t *const step = h->p->step;
    uint32_t *const count = h->count;
    const int64_t at = x - h->first;
    int64_t sum = h->sum;

    for (const struct vp_line *l = h->line; l < end; l++) {
        const uint16_t out = bin_at(l, at + l->x0), in = bin_at(l, at + 1 + l->x1);
        sum -= step[--count[out]];
        sum += step[count[in]++];
    }
    h->sum = sum;
}

static float value(const struct histogram *h)
{
    const struct vp_entropy_params *p = h->p;
    const int64_t nan = h->count[p->bins], n = h->n - nan;

    if (!n)
        return NAN;
    return (float)((double)(p->t[n] - (h->sum - p->t[nan])) / (ONE * (double)n));
}

static void row(struct histogram *h, int64_t x0, int64_t x1, float *out)
{
    const int64_t reach = h->p->f.reach[0], bins = h->p->bins + 1;

    h->n = h->sum = 0;
    fill(h, x0);
    for (int64_t x = x0; x < x1; x++) {
        *out++ = value(h);
        if (x + 1 == x1)
            break;
        if (x >= reach && x + 1 + reach < h->nx)
            move_inside(h, x);
        else
            move_at_edge(h, x);
    }
    if (bins < 16 * h->n) {
        memset(h->count, 0, (size_t)bins * sizeof *h->count);
        return;
    }
    for (int64_t i = 0; i < h->lines; i++) {
        const struct vp_line *l = &h->line[i];
        for (int64_t x = vp_max64(x1 - 1 + l->x0, 0); x <= vp_min64(x1 - 1 + l->x1, h->nx - 1); x++)
            h->count[bin_at(l, x - h->first)] = 0;
    }
}

/* ---- bins of the input ---- */

static void bin_row(const struct vp_entropy_params *p, const uint16_t *table, const void *in, uint16_t *bin, int64_t n)
{
    switch (p->type) {
    case VP_U8:
        for (int64_t i = 0; i < n; i++)
            bin[i] = table[((const uint8_t *)in)[i]];
        break;
    case VP_U16:
        for (int64_t i = 0; i < n; i++)
            bin[i] = table[((const uint16_t *)in)[i]];
        break;
    case VP_I16:
        for (int64_t i = 0; i < n; i++)
            bin[i] = table[((const int16_t *)in)[i] - INT16_MIN];
        break;
    default:
        for (int64_t i = 0; i < n; i++)
            bin[i] = vp_entropy_bin(p, (double)((const float *)in)[i]);
    }
}

struct memory {
    size_t bins, planes, table, threads; /* places */
    size_t count, line;                  /* within a thread's */
    size_t each, bytes;
};

static size_t take(size_t *bytes, size_t n)
{
    const size_t at = *bytes;

    *bytes += vp_round64(n);
    return at;
}

static struct memory memory_of(const struct vp_entropy_params *p, const struct vp_box *in, int threads)
{
    struct memory m = {0};

    m.bins = take(&m.bytes, (size_t)(vp_box_size(in, 0) * vp_box_size(in, 1) * vp_box_size(in, 2)) * sizeof(uint16_t));
    m.planes = take(&m.bytes, (size_t)vp_box_size(in, 2) * sizeof(void *));
    m.table = take(&m.bytes, (UINT16_MAX + 1) * sizeof(uint16_t));
    m.count = take(&m.each, (size_t)(p->bins + 1) * sizeof(uint32_t));
    m.line = take(&m.each, (size_t)vp_lines_most(&p->f, in) * sizeof(struct vp_line));
    m.threads = take(&m.bytes, m.each * (size_t)threads);
    return m;
}

static uint64_t scratch(const struct vp_op *op, const struct vp_box *in, const struct vp_box *out, int threads)
{
    (void)out;
    return memory_of(op->params, in, threads).bytes;
}

static int run(const struct vp_op *op, const struct vp_part *in, const struct vp_part *out, void *mem, int threads,
               struct vp_err *err)
{
    const struct vp_entropy_params *p = op->params;
    const struct memory m = memory_of(p, &in->box, threads);
    const int64_t w = vp_box_size(&in->box, 0), h = vp_box_size(&in->box, 1), d = vp_box_size(&in->box, 2);
    const int64_t rows = vp_box_size(&out->box, 1), all = rows * vp_box_size(&out->box, 2);
    uint16_t *const bins = (uint16_t *)(void *)((char *)mem + m.bins);
    uint16_t *const table = (uint16_t *)(void *)((char *)mem + m.table);
    void **const plane = (void **)(void *)((char *)mem + m.planes);

    (void)err;
    for (int i = 0; p->type != VP_F32 && i <= (p->type == VP_U8 ? UINT8_MAX : UINT16_MAX); i++)
        table[i] = vp_entropy_bin(p, i + (p->type == VP_I16 ? INT16_MIN : 0));
    for (int64_t z = 0; z < d; z++)
        plane[z] = bins + z * w * h;
    const struct vp_part binned = {in->box, w, plane};
    #pragma omp parallel num_threads(threads)
    {
        char *const mine = (char *)mem + m.threads + (size_t)omp_get_thread_num() * m.each;
        struct histogram hist = {.p = p, .count = (uint32_t *)(void *)(mine + m.count), .nx = op->image[0],
                                 .line = (struct vp_line *)(void *)(mine + m.line), .first = in->box.lo[0]};
        memset(hist.count, 0, (size_t)(p->bins + 1) * sizeof *hist.count);
        #pragma omp for schedule(static)
        for (int64_t i = 0; i < h * d; i++)
            bin_row(p, table, vp_part_row(in, in->box.lo[1] + i % h, in->box.lo[2] + i / h, vp_type_size(p->type)),
                    bins + i * w, w);
        #pragma omp for schedule(dynamic)
        for (int64_t i = 0; i < all; i++) {
            const int64_t y = out->box.lo[1] + i % rows, z = i / rows;
            hist.lines = vp_lines(hist.line, &p->f, op->image, &binned, sizeof *bins, y, out->box.lo[2] + z);
            row(&hist, out->box.lo[0], out->box.hi[0], (float *)out->plane[z] + i % rows * out->stride);
        }
    }
    return 0;
}

/* ---- make ---- */

static void free_params(void *params)
{
    struct vp_entropy_params *p = params;

    if (!p)
        return;
    vp_footprint_free(&p->f);
    free((void *)(uintptr_t)p->t);
    free((void *)(uintptr_t)p->step);
    free(p);
}

static int64_t t_of(int64_t c)
{
    return c < 2 ? 0 : (int64_t)llround(ONE * ((double)c * log2((double)c)));
}

static int make_tables(struct vp_entropy_params *p, struct vp_err *err)
{
    int64_t *t = vp_alloc_raw((size_t)p->n + 1, sizeof *t, "table of logarithms", err);
    int64_t *step = vp_alloc_raw((size_t)p->n + 1, sizeof *step, "table of logarithms", err);

    p->t = t;
    p->step = step;
    if (!t || !step)
        return -1;
    for (int64_t c = 0; c <= p->n; c++)
        t[c] = t_of(c);
    for (int64_t c = 0; c < p->n; c++)
        step[c] = t[c + 1] - t[c];
    step[p->n] = 0;
    return 0;
}

static int check(const struct vp_footprint *f, int64_t bins, double lo, double hi, enum vp_type type,
                 struct vp_err *err)
{
    if (!(VP_ENTROPY_TYPES & 1u << type))
        return vp_fail(err, VP_EUSAGE, "entropy takes u8, u16, i16 and f32, not %s", vp_type_name(type));
    if (bins < 1 || bins > VP_ENTROPY_BINS)
        return vp_fail(err, VP_EUSAGE, "--bins: expected 1 to %d, got %lld", VP_ENTROPY_BINS, (long long)bins);
    if (!(lo <= hi && isfinite(hi - lo)))
        return vp_fail(err, VP_EUSAGE, "--range: expected two finite numbers in ascending order, got %g and %g", lo,
                       hi);
    if (f->count > VP_ENTROPY_VOXELS)
        return vp_fail(err, VP_EUSAGE, "--radius: entropy takes neighbourhoods of at most %d voxels, got %lld",
                       VP_ENTROPY_VOXELS, (long long)f->count);
    return 0;
}

int vp_entropy_local(struct vp_op *op, const struct vp_footprint *f, int64_t bins, double lo, double hi,
                     const int64_t image[3], enum vp_type type, struct vp_err *err)
{
    char shape[96];

    *op = (struct vp_op){0};
    if (check(f, bins, lo, hi, type, err))
        return -1;
    struct vp_entropy_params *p = calloc(1, sizeof *p);
    if (!p)
        return vp_fail(err, VP_ERESOURCE, "out of memory");
    *p = (struct vp_entropy_params){.type = type, .bins = bins, .lo = lo, .hi = hi, .n = f->count,
                                    .scale = hi > lo ? (double)bins / (hi - lo) : 0};
    if (vp_footprint_copy(&p->f, f, err) || make_tables(p, err)) {
        free_params(p);
        return -1;
    }
    const double lines = f->shape == VP_BALL ? (double)f->spans
                                             : (double)(2 * f->reach[1] + 1) * (double)(2 * f->reach[2] + 1);
    *op = (struct vp_op){.kernel = "entropy", .inputs = 1, .from = {~0}, .in = type, .out = VP_F32, .params = p,
                            .free = free_params, .cost = 10 + 4 * lines, .scratch = scratch, .run = run};
    memcpy(op->image, image, sizeof op->image);
    vp_footprint_halo(f, image, op->halo);
    snprintf(op->text, sizeof op->text, "entropy, %s, %lld bins over %.9g to %.9g",
             vp_footprint_text(f, shape, sizeof shape), (long long)bins, lo, hi);
    return 0;
}
