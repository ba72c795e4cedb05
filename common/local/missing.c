/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations on samples of which some are missing: see missing.h. Tiles without one are the operation's own; in others
 * the rule of the operation (missing_window.c, missing_sums.c) makes the voxels that have one near. */
#include "local/missing.h"

#include "base/err.h"
#include "base/size.h"
#include "local/convolve.h"
#include "local/extremum.h"
#include "local/missing_internal.h"
#include "local/moments.h"
#include "local/nlmeans.h"
#include "local/separable.h"
#include "stack/stack.h"

#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- samples ---- */

enum vp_type vp_missing_type(enum vp_type type)
{
    return vp_type_size(type) < 4 || type == VP_F32 ? VP_F32 : VP_F64;
}

/* Loads n samples from (x, y, z) on as float64, NaN where they are missing; `other` has room for n. */
static void load_row(const struct vp_missing *m, const struct vp_part *in, enum vp_type type, bool first, int64_t x,
                     int64_t y, int64_t z, int64_t n, double *to, double *other)
{
    const size_t size = vp_type_size(type);

    vp_convert(to, VP_F64, vp_part_at(in, size, x, y, z), type, n, 1, 0);
    for (int64_t i = 0; i < n; i++) /* one NaN, whatever its bits were */
        to[i] = isnan(to[i]) || (first && m->valued && to[i] == m->value) ? NAN : to[i];
    if (!first || !m->masked)
        return;
    vp_convert(other, VP_F64, vp_part_at(&in[1], size, x, y, z), type, n, 1, 0);
    for (int64_t i = 0; i < n; i++)
        to[i] = other[i] == 0 ? NAN : to[i];
}

/* ---- a tile ---- */

static void place_tile(struct vp_missing_work *w, void *mem, size_t *bytes)
{
    const struct vp_missing_params *m = w->m;
    const size_t tile = (size_t)(m->side[0] * m->side[1] * m->side[2]);
    int64_t most[3];

    for (int a = 0; a < 3; a++)
        most[a] = m->side[a] + m->hi[a] - m->lo[a];
    const size_t rows = (size_t)(most[1] * most[2]), all = (size_t)most[0] * rows;
    w->v = vp_place(mem, bytes, all * sizeof *w->v);
    w->state = vp_place(mem, bytes, all);
    w->row = vp_place(mem, bytes, (size_t)most[0] * sizeof *w->row);
    w->near = vp_place(mem, bytes, tile * sizeof *w->near);
    w->counts[0] = vp_place(mem, bytes, (size_t)m->side[0] * rows * sizeof *w->near);
    w->counts[1] = vp_place(mem, bytes, (size_t)(m->side[0] * m->side[1] * most[2]) * sizeof *w->near);
    w->result = vp_place(mem, bytes, (size_t)m->side[0] * sizeof *w->result);
    w->what = vp_place(mem, bytes, (size_t)m->side[0]);
    w->own = vp_place(mem, bytes, 0);
    for (int a = 0; a < 3; a++)
        w->n[a] = most[a];
    if (m->rule->layout)
        *bytes += m->rule->layout(w, NULL);
}

/* Sets a row of `seen` from the row of the input that stands for it. */
static int64_t set_row(struct vp_missing_work *w, const struct vp_part *in, enum vp_type type, int64_t r, int64_t y,
                       int64_t z)
{
    const struct vp_missing_params *m = w->m;
    const int64_t n = w->n[0], x0 = w->seen.lo[0];
    double *const v = w->v + r * n, *const row = w->row;
    uint8_t *const state = w->state + r * n;
    const struct vp_box *have = &in->box;
    int64_t absent = 0;

    if (y < have->lo[1] || y >= have->hi[1] || z < have->lo[2] || z >= have->hi[2]) {
        const uint8_t beyond = m->edge == VP_EDGE_ZERO ? VP_PRESENT : VP_OUTSIDE;
        memset(v, 0, (size_t)n * sizeof *v);
        memset(state, beyond, (size_t)n);
        return 0;
    }
    /* samples in the image are loaded at once, those that an edge rule makes up one by one */
    const int64_t from = vp_min64(n, vp_max64(0, vp_max64(0, have->lo[0]) - x0));
    const int64_t to = vp_max64(from, vp_min64(n, have->hi[0] - x0));
    if (from < to)
        load_row(&m->given, in, type, m->first, x0 + from, y, z, to - from, v + from, row);
    for (int64_t i = 0; i < n; i++) {
        const int64_t p = x0 + i, at = vp_edge_from(m->edge, p, w->image[0]);
        const bool straight = i >= from && i < to, beyond = p < 0 || p >= w->image[0];
        if (!straight) {
            const bool made = beyond && m->edge != VP_EDGE_RENORMALIZE;
            v[i] = 0;
            state[i] = made && at < 0 ? VP_PRESENT : VP_OUTSIDE;
            if (!made || at < have->lo[0] || at >= have->hi[0])
                continue;
            load_row(&m->given, in, type, m->first, at, y, z, 1, v + i, row);
        }
        const bool gone = isnan(v[i]);
        state[i] = gone ? VP_ABSENT : VP_PRESENT;
        v[i] = gone ? 0 : v[i];
        absent += gone;
    }
    return absent;
}

/* Returns the row or plane that stands for position p; -1: zeros, or none. */
static int64_t stands_for(const struct vp_missing_work *w, int64_t p, int axis)
{
    return w->m->edge == VP_EDGE_RENORMALIZE && (p < 0 || p >= w->image[axis])
           ? -1 : vp_edge_from(w->m->edge, p, w->image[axis]);
}

/* Sets the samples around the tile. Returns the number of them that are missing. */
static int64_t load_tile(struct vp_missing_work *w, const struct vp_part *in, enum vp_type type)
{
    const struct vp_missing_params *m = w->m;
    int64_t absent = 0, r = 0;

    for (int a = 0; a < 3; a++) {
        w->seen.lo[a] = w->tile.lo[a] - m->shift[a] + m->lo[a];
        w->seen.hi[a] = w->tile.hi[a] - m->shift[a] + m->hi[a];
        w->n[a] = vp_box_size(&w->seen, a);
    }
    for (int64_t z = w->seen.lo[2]; z < w->seen.hi[2]; z++)
        for (int64_t y = w->seen.lo[1]; y < w->seen.hi[1]; y++)
            absent += set_row(w, in, type, r++, stands_for(w, y, 1), stands_for(w, z, 2));
    return absent;
}

/* Adds sums of `taps` numbers, `step` apart, that follow each other at distance `step`: n of them. */
static void slide(int32_t *to, const int32_t *from, int64_t step, int64_t taps, int64_t n, int64_t lines)
{
    for (int64_t i = 0; i < lines; i++) {
        int32_t sum = 0;
        for (int64_t k = 0; k < taps - 1; k++)
            sum += from[i + k * step];
        for (int64_t k = 0; k < n; k++) {
            sum += from[i + (k + taps - 1) * step];
            to[i + k * step] = sum;
            sum -= from[i + k * step];
        }
    }
}

/* Counts the missing samples within the reach of every voxel of the tile. */
static void count_near(struct vp_missing_work *w)
{
    const struct vp_missing_params *m = w->m;
    const int64_t nx = vp_box_size(&w->tile, 0), ny = vp_box_size(&w->tile, 1), nz = vp_box_size(&w->tile, 2);
    const int64_t rows = w->n[1] * w->n[2], taps = m->hi[0] - m->lo[0] + 1;

    for (int64_t r = 0; r < rows; r++) {
        const uint8_t *const s = w->state + r * w->n[0];
        int32_t *const to = w->counts[0] + r * nx, run = 0;
        for (int64_t i = 0; i < taps - 1; i++)
            run += s[i] == VP_ABSENT;
        for (int64_t x = 0; x < nx; x++) {
            run += s[x + taps - 1] == VP_ABSENT;
            to[x] = run;
            run -= s[x] == VP_ABSENT;
        }
    }
    for (int64_t z = 0; z < w->n[2]; z++)
        slide(w->counts[1] + z * nx * ny, w->counts[0] + z * nx * w->n[1], nx, m->hi[1] - m->lo[1] + 1, ny, nx);
    slide(w->near, w->counts[1], nx * ny, m->hi[2] - m->lo[2] + 1, nz, nx * ny);
}

/* ---- results ---- */

static void store_row(enum vp_type type, void *out, const double *result, const uint8_t *what, int64_t n, double none)
{
    const size_t size = vp_type_size(type);

    for (int64_t i = 0; i < n; i++) {
        const double v = what[i] == VP_MADE && !isnan(result[i]) ? result[i] : what[i] == VP_MADE ? NAN : none;
        if (what[i] == VP_AS_IS)
            continue;
        if (type == VP_F32)
            ((float *)out)[i] = (float)v;
        else
            vp_convert((char *)out + (size_t)i * size, type, &v, VP_F64, 1, 1, 0);
    }
}

static void make_tile(struct vp_missing_work *w, const struct vp_op *op, const struct vp_part *in,
                      const struct vp_part *out)
{
    const struct vp_missing_params *m = w->m;
    const struct vp_box *t = &w->tile;
    const int64_t n = vp_box_size(t, 0);

    if (!load_tile(w, in, op->in))
        return;
    count_near(w);
    if (m->rule->layout)
        m->rule->layout(w, w->own);
    if (m->rule->prepare)
        m->rule->prepare(w);
    for (int64_t z = t->lo[2]; z < t->hi[2]; z++)
        for (int64_t y = t->lo[1]; y < t->hi[1]; y++) {
            const int32_t *const near = vp_missing_near(w, y, z);
            int64_t x = 0;
            while (x < n && !near[x])
                x++;
            if (x == n)
                continue;
            memset(w->what, VP_AS_IS, (size_t)n);
            m->rule->row(w, y, z);
            store_row(op->out, vp_part_at(out, vp_type_size(op->out), t->lo[0], y, z), w->result, w->what, n, m->none);
        }
}

/* ---- the operation ---- */

/* Layout of the scratch: the copy of the input, the operation's own scratch, tiles. */
struct layout {
    void *copy, **plane, *own;
    size_t thread;             /* bytes of each */
    char *tiles;
};

static size_t lay_out(struct layout *l, const struct vp_op *op, const struct vp_box *in, const struct vp_box *out,
                      int threads, void *mem)
{
    const struct vp_missing_params *m = op->params;
    struct vp_missing_work w = {.m = m};
    struct vp_op inner = m->inner;
    size_t bytes = 0;

    memcpy(inner.image, op->image, sizeof inner.image);
    memcpy(inner.input, op->input, sizeof inner.input);
    const size_t planes = m->copies ? (size_t)vp_box_size(in, 2) : 0;
    const size_t page = (size_t)(vp_box_size(in, 0) * vp_box_size(in, 1)) * vp_type_size(op->in);
    l->copy = vp_place(mem, &bytes, planes * page);
    l->plane = vp_place(mem, &bytes, planes * sizeof *l->plane);
    l->own = vp_place(mem, &bytes, inner.scratch ? inner.scratch(&inner, in, out, threads) : 0);
    l->thread = 0;
    place_tile(&w, NULL, &l->thread);
    l->thread = vp_round64(l->thread);
    l->tiles = vp_place(mem, &bytes, (size_t)threads * l->thread);
    return bytes;
}

static uint64_t scratch(const struct vp_op *op, const struct vp_box *in, const struct vp_box *out, int threads)
{
    struct layout l;

    return lay_out(&l, op, in, out, threads, NULL);
}

/* Copies the input, NaN where it is missing. */
static void copy_input(const struct vp_op *op, const struct vp_part *in, const struct layout *l, struct vp_part *to,
                       int threads)
{
    const struct vp_missing_params *m = op->params;
    const struct vp_box *b = &in->box;
    const int64_t nx = vp_box_size(b, 0), ny = vp_box_size(b, 1), nz = vp_box_size(b, 2);
    const size_t size = vp_type_size(op->in);

    *to = (struct vp_part){*b, nx, l->plane};
    for (int64_t z = 0; z < nz; z++)
        l->plane[z] = (char *)l->copy + (size_t)(z * nx * ny) * size;
    #pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t i = 0; i < ny * nz; i++) {
        enum { PART = 512 };
        double v[PART], other[PART];
        for (int64_t x = 0; x < nx; x += PART) {
            const int64_t n = vp_min64(PART, nx - x), y = b->lo[1] + i % ny, z = b->lo[2] + i / ny;
            load_row(&m->given, in, op->in, m->first, b->lo[0] + x, y, z, n, v, other);
            vp_convert(vp_part_at(to, size, b->lo[0] + x, y, z), op->in, v, VP_F64, n, 1, 0);
        }
    }
}

static int run(const struct vp_op *op, const struct vp_part *in, const struct vp_part *out, void *mem, int threads,
               struct vp_err *err)
{
    const struct vp_missing_params *m = op->params;
    const int64_t tiles = vp_box_tiles(&out->box, m->side);
    struct vp_op inner = m->inner;
    struct vp_part copy;
    struct layout l;

    lay_out(&l, op, &in->box, &out->box, threads, mem);
    memcpy(inner.image, op->image, sizeof inner.image);
    memcpy(inner.input, op->input, sizeof inner.input);
    if (m->copies)
        copy_input(op, in, &l, &copy, threads);
    if (inner.run(&inner, m->copies ? &copy : in, out, l.own, threads, err))
        return -1;
    #pragma omp parallel num_threads(threads)
    {
        struct vp_missing_work w = {.m = m};
        size_t bytes = 0;
        place_tile(&w, l.tiles + (size_t)omp_get_thread_num() * l.thread, &bytes);
        for (int a = 0; a < 3; a++)
            w.image[a] = vp_op_input(op, a);
        #pragma omp for schedule(dynamic)
        for (int64_t i = 0; i < tiles; i++) {
            w.tile = vp_box_tile(&out->box, m->side, i);
            make_tile(&w, op, in, out);
        }
    }
    return 0;
}

static void release(void *params)
{
    struct vp_missing_params *m = params;

    if (m && m->inner.free)
        m->inner.free(m->inner.params);
    if (m)
        free(m->span);
    free(m);
}

/* An operation of another size has regions of its own. */
static const struct vp_op *inner_of(const struct vp_op *op)
{
    return &((const struct vp_missing_params *)op->params)->inner;
}

static int64_t length(const struct vp_op *op, int axis, int64_t n)
{
    return inner_of(op)->mapping->length(inner_of(op), axis, n);
}

static struct vp_box region(const struct vp_op *op, const struct vp_box *out)
{
    struct vp_op inner = *inner_of(op);

    memcpy(inner.image, op->image, sizeof inner.image);
    memcpy(inner.input, op->input, sizeof inner.input);
    return inner.mapping->region(&inner, out);
}

static int64_t extent(const struct vp_op *op, int axis, int64_t n)
{
    struct vp_op inner = *inner_of(op);

    memcpy(inner.image, op->image, sizeof inner.image);
    memcpy(inner.input, op->input, sizeof inner.input);
    return inner.mapping->extent(&inner, axis, n);
}

static const struct vp_mapping mapping = {.length = length, .region = region, .extent = extent};

/* ---- make ---- */

/* Lists the spans of a footprint within its reach, also those of a box. */
static int list_spans(struct vp_missing_params *m, const struct vp_footprint *f, struct vp_err *err)
{
    const int64_t ny = m->hi[1] - m->lo[1] + 1, nz = m->hi[2] - m->lo[2] + 1;
    const int64_t n = f->shape == VP_BOX ? ny * nz : f->spans;

    if (!(m->span = vp_alloc_raw((size_t)n, sizeof *m->span, "a neighbourhood", err)))
        return -1;
    for (int64_t i = 0; i < n; i++) {
        struct vp_span s = {(int32_t)(m->lo[2] + i / ny), (int32_t)(m->lo[1] + i % ny), (int32_t)m->lo[0],
                            (int32_t)m->hi[0]};
        if (f->shape != VP_BOX)
            s = f->span[i];
        s.x0 = (int32_t)vp_max64(s.x0, m->lo[0]);
        s.x1 = (int32_t)vp_min64(s.x1, m->hi[0]);
        if (s.dz < m->lo[2] || s.dz > m->hi[2] || s.dy < m->lo[1] || s.dy > m->hi[1] || s.x0 > s.x1)
            continue;
        m->span[m->spans++] = s;
        m->count += s.x1 - s.x0 + 1;
    }
    return 0;
}

static int of_footprint(struct vp_missing_params *m, const struct vp_footprint *f, enum vp_edge edge, struct vp_err *err)
{
    m->edge = edge;
    for (int a = 0; a < 3; a++) {
        const int64_t most = edge ? INT64_MAX : m->inner.image[a] - 1; /* beyond it nothing is, or is made up */
        m->lo[a] = vp_max64(vp_min64(f->lo[a], 0), -most); /* with the voxel itself */
        m->hi[a] = vp_min64(vp_max64(f->hi[a], 0), most);
    }
    return list_spans(m, f, err);
}

static int of_gauss(struct vp_missing_params *m, struct vp_err *err)
{
    const struct vp_separable *p = m->inner.params;

    m->edge = p->edge;
    for (int a = 0; a < 3; a++) {
        if (p->taps[a][0].order)
            return vp_fail(err, VP_EUSAGE, "--derivative: the slope of missing samples is not defined");
        m->lo[a] = -p->radius[a];
        m->hi[a] = p->radius[a];
    }
    return 0;
}

static int of_kernel(struct vp_missing_params *m, struct vp_err *err)
{
    const struct vp_convolve_params *p = m->inner.params;
    const int64_t n = p->n[0] * p->n[1] * p->n[2];
    double sum = 0;

    if (p->nodes[0] * p->nodes[1] > 1)
        return vp_fail(err, VP_EUSAGE, "a grid of kernels with missing samples: expected one kernel");
    for (int64_t i = 0; i < n; i++) {
        const double k = p->exact ? p->exact[i] : p->kernels[i];
        if (!(k >= 0))
            return vp_fail_hint(err, VP_EUSAGE, "fill the holes first, such as with img-gauss",
                                "a kernel with missing samples: expected weights of 0 or more, got %g", k);
        sum += k;
    }
    if (!(sum > 0))
        return vp_fail(err, VP_EUSAGE, "a kernel with missing samples: expected a sum above 0, got %g", sum);
    m->edge = p->edge;
    for (int a = 0; a < 3; a++) {
        m->lo[a] = p->centre[a] - (p->n[a] - 1);
        m->hi[a] = p->centre[a];
        m->shift[a] = p->pad_lo[a];
    }
    return 0;
}

static int of_nlmeans(struct vp_missing_params *m)
{
    const struct vp_nlmeans_params *p = m->inner.params;

    m->edge = VP_EDGE_RENORMALIZE;
    for (int a = 0; a < 3; a++) {
        m->hi[a] = p->search[a] + p->patch[a];
        m->lo[a] = -m->hi[a];
    }
    return 0;
}

/* Chooses the largest tile: wide rows, and no less than the reach, as what is around a tile is loaded with it. */
static void choose_side(struct vp_missing_params *m)
{
    static const int64_t least[3] = {128, 32, 8};

    for (int a = 0; a < 3; a++) {
        const int64_t reach = m->hi[a] - m->lo[a];
        m->side[a] = a == 2 && !reach ? 1 : vp_min64(m->inner.image[a], vp_max64(least[a], reach / 2));
    }
}

/* Replaces an operation by one that knows what is missing; unknown ones, and those that need no help, stay. */
static int replace(struct vp_op *op, const struct vp_missing *given, struct vp_err *err)
{
    static const struct { const char *kernel; const struct vp_missing_rule *rule; } rules[] = {
        {"gauss", &vp_missing_gauss}, {"convolve", &vp_missing_convolve}, {"nlmeans", &vp_missing_nlmeans},
        {"min", &vp_missing_extremum}, {"max", &vp_missing_extremum}, {"rank", &vp_missing_rank},
        {"entropy", &vp_missing_entropy}, {"mean", &vp_missing_moments}, {"var", &vp_missing_moments},
        {"std", &vp_missing_moments}, {"wiener", &vp_missing_moments}, {"above", &vp_missing_moments}};
    const struct vp_missing_rule *rule = NULL;

    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (!strcmp(op->kernel, rules[i].kernel))
            rule = rules[i].rule;
    if (!rule || (rule == &vp_missing_extremum && !given->keeps && !(given->coverage > 0)))
        return 0; /* NaN is left out already */
    struct vp_missing_params *m = calloc(1, sizeof *m);
    if (!m)
        return vp_fail(err, VP_ERESOURCE, "out of memory");
    m->inner = *op;
    m->rule = rule;
    m->given = *given;
    m->first = op->from[0] < 0;
    m->copies = m->first && vp_type_is_float(op->in) && (given->valued || given->masked);
    const bool above = !strcmp(op->kernel, "above");
    m->none = vp_type_is_float(op->out) ? NAN : above ? 0 : given->fill;
    *op = (struct vp_op){.kernel = "missing", .inputs = m->first && given->masked ? 2 : 1,
                         .from = {m->inner.from[0], ~1}, .in = m->inner.in, .out = m->inner.out,
                         .cost = 3 + 2 * m->inner.cost, .holds = m->inner.holds, .params = m, .free = release,
                         .scratch = scratch, .run = run, .mapping = m->inner.mapping ? &mapping : NULL};
    memcpy(op->image, m->inner.image, sizeof op->image);
    memcpy(op->input, m->inner.input, sizeof op->input);
    memcpy(op->halo, m->inner.halo, sizeof op->halo);
    memcpy(op->step, m->inner.step, sizeof op->step);
    snprintf(op->text, sizeof op->text, "%.*s, of samples that exist", (int)sizeof op->text - 32, m->inner.text);
    const int rc = rule == &vp_missing_gauss      ? of_gauss(m, err)
                   : rule == &vp_missing_convolve ? of_kernel(m, err)
                   : rule == &vp_missing_nlmeans  ? of_nlmeans(m)
                   : of_footprint(m, m->inner.params, rule == &vp_missing_moments
                                  ? ((const struct vp_moments_params *)m->inner.params)->edge : VP_EDGE_RENORMALIZE, err);
    op->holds += (uint64_t)m->spans * sizeof *m->span;
    choose_side(m);
    return rc;
}

int vp_missing_chain(struct vp_chain *c, const struct vp_missing *m, struct vp_err *err)
{
    for (int s = 0; m->on && s < c->n; s++) {
        if (replace(&c->stage[s], m, err))
            return -1;
        if (c->stage[s].inputs > 1 && c->stage[s].from[1] == ~1)
            c->stacks = 2;
    }
    const struct vp_op *const last = &c->stage[c->n - 1];
    if (!m->on || !m->filled || !vp_type_is_float(last->out))
        return 0;
    if (last->run != run)
        return vp_missing_store(c, m, last->out, err);
    ((struct vp_missing_params *)last->params)->none = m->fill;
    return 0;
}

/* ---- the first and the last stage ---- */

struct plain { struct vp_missing given; };

enum { RUN = 512 };

/* Calls work() for runs of at most RUN samples of the rows of out, from several threads. */
static void by_runs(const struct vp_op *op, const struct vp_part *in, const struct vp_part *out, int threads,
                    void (*work)(const struct vp_op *op, const struct vp_part *in, void *to, int64_t x, int64_t y, int64_t z,
                                 int64_t n))
{
    const struct vp_box *b = &out->box;
    const int64_t nx = vp_box_size(b, 0), ny = vp_box_size(b, 1), nz = vp_box_size(b, 2);

    #pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t i = 0; i < ny * nz; i++)
        for (int64_t at = 0; at < nx; at += RUN) {
            const int64_t x = b->lo[0] + at, y = b->lo[1] + i % ny, z = b->lo[2] + i / ny;
            work(op, in, vp_part_at(out, vp_type_size(op->out), x, y, z), x, y, z, vp_min64(RUN, nx - at));
        }
}

static void load_run(const struct vp_op *op, const struct vp_part *in, void *to, int64_t x, int64_t y, int64_t z, int64_t n)
{
    double v[RUN], other[RUN];

    load_row(&((const struct plain *)op->params)->given, in, op->in, true, x, y, z, n, v, other);
    vp_convert(to, op->out, v, VP_F64, n, 1, 0);
}

static void store_run(const struct vp_op *op, const struct vp_part *in, void *to, int64_t x, int64_t y, int64_t z, int64_t n)
{
    const double fill = ((const struct plain *)op->params)->given.fill;
    double v[RUN];

    vp_convert(v, VP_F64, vp_part_at(in, vp_type_size(op->in), x, y, z), op->in, n, 1, 0);
    for (int64_t k = 0; k < n; k++)
        v[k] = isnan(v[k]) ? fill : v[k];
    vp_convert(to, op->out, v, VP_F64, n, 1, 0);
}

static int load(const struct vp_op *op, const struct vp_part *in, const struct vp_part *out, void *mem, int threads,
                struct vp_err *err)
{
    (void)mem, (void)err;
    by_runs(op, in, out, threads, load_run);
    return 0;
}

static int store(const struct vp_op *op, const struct vp_part *in, const struct vp_part *out, void *mem, int threads,
                 struct vp_err *err)
{
    (void)mem, (void)err;
    by_runs(op, in, out, threads, store_run);
    return 0;
}

/* Appends a stage of single voxels, whose params begin with *m. */
static int add_plain(struct vp_chain *c, const struct vp_missing *m, const char *kernel, struct vp_op *op,
                     struct vp_err *err)
{
    struct plain *p = malloc(sizeof *p);

    if (!p)
        return vp_fail(err, VP_ERESOURCE, "out of memory");
    p->given = *m;
    op->kernel = kernel;
    op->params = p;
    op->free = free;
    op->cost = 1;
    return vp_chain_add(c, op, err);
}

int vp_missing_load(struct vp_chain *c, const struct vp_missing *m, const int64_t image[3], enum vp_type type,
                    struct vp_err *err)
{
    struct vp_op op = {.image = {image[0], image[1], image[2]}, .inputs = m->masked ? 2 : 1, .from = {~0, ~1},
                       .in = type, .out = vp_missing_type(type), .run = load,
                       .text = "missing samples become NaN"};

    return add_plain(c, m, "missing_load", &op, err);
}

int vp_missing_store(struct vp_chain *c, const struct vp_missing *m, enum vp_type type, struct vp_err *err)
{
    const struct vp_op *last = &c->stage[c->n - 1];
    struct vp_op op = {.image = {last->image[0], last->image[1], last->image[2]}, .inputs = 1, .from = {c->n - 1},
                       .in = last->out, .out = type, .run = store};

    snprintf(op.text, sizeof op.text, "to %s, %.9g where nothing is there", vp_type_name(type), m->fill);
    return add_plain(c, m, "missing_store", &op, err);
}
