/* SPDX-License-Identifier: BSD-3-Clause */
#include "local/convolve_model.h"

#include "base/err.h"
#include "base/size.h"
#include "base/text.h"
#include "engine/rates.h"
#include "local/convolve_internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- tiles ---- */

static const double LOOKS = 1 << 24; /* pixels whose weights are found, at most twice that */

static int add_tile(struct vp_convolve_layout *l, struct vp_convolve_tile tile, struct vp_err *err)
{
    if (l->n % 1024 == 0) {
        void *const more = realloc(l->tiles, (size_t)(l->n + 1024) * sizeof *l->tiles);
        if (!more)
            return vp_fail(err, VP_ERESOURCE, "out of memory");
        l->tiles = more;
    }
    l->tiles[l->n++] = tile;
    return 0;
}

/* Returns the results x ... x + n - 1 along an axis whose kernel lies in the image. */
static int64_t inside(const struct vp_op *op, const struct vp_convolve_params *p, int axis, int64_t x, int64_t n)
{
    const int64_t lo = vp_max64(x, p->pad_lo[axis] + p->n[axis] - 1 - p->centre[axis]);

    return vp_max64(vp_min64(x + n, op->image[axis] - p->pad_hi[axis] - p->centre[axis]) - lo, 0);
}

/* Returns the results of a tile that are completed one by one: of one kernel those near the ends of rows, of several
 * all near edges. */
static int64_t edge_of(const struct vp_op *op, const struct vp_convolve_params *p, const int64_t at[2],
                       const int64_t n[2])
{
    const int64_t across = inside(op, p, 0, at[0], n[0]);

    if (vp_convolve_makes_up(p) || !p->sums)
        return 0;
    return n[0] * n[1] - across * (vp_convolve_is_grid(p) ? inside(op, p, 1, at[1], n[1]) : n[1]);
}

/* Returns the nodes along an axis that have weights in cell c. */
static int64_t nodes_of(const struct vp_convolve_params *p, int axis, int64_t c)
{
    return vp_min64(c, p->nodes[axis] - 1) - vp_max64(c - 1, 0) + 1;
}

static int cut_by_cells(struct vp_convolve_layout *l, const struct vp_op *op, const struct vp_convolve_params *p,
                        struct vp_err *err)
{
    const struct vp_convolve_cpu *c = p->cpu;
    const bool one = c->tiles == VP_STRIPS;

    for (int64_t y = 0; y < c->n_at[1]; y++)
        for (int64_t x = 0; x < c->n_at[0]; x++) {
            const int64_t at[2] = {c->at[0][x], c->at[1][y]}, n[2] = {c->at[0][x + 1] - at[0], c->at[1][y + 1] - at[1]};
            const int64_t u = one ? 1 : nodes_of(p, 0, c->cell[0][x]), v = one ? 1 : nodes_of(p, 1, c->cell[1][y]);
            const struct vp_convolve_tile tile = {{(int32_t)n[0], (int32_t)n[1]}, (int32_t)(u * v), (int32_t)v, 0,
                                                  (int32_t)edge_of(op, p, at, n)};
            if (add_tile(l, tile, err))
                return -1;
        }
    return 0;
}

/* Tiles of out[] results from the image's origin on, of kernels in pieces. Weights anywhere are found in some tiles of
 * a large image; those between are taken as the one before. */
static int cut_evenly(struct vp_convolve_layout *l, const struct vp_op *op, const int64_t out[2], int64_t pieces,
                      struct vp_err *err)
{
    const struct vp_op *const one = l->anywhere ? vp_convolve_anywhere_node(op) : op;
    const struct vp_convolve_params *p = one->params;
    struct vp_convolve_near *const near = l->anywhere ? vp_convolve_anywhere_open(op, err) : NULL;

    if (l->anywhere && !near)
        return -1;
    const int64_t step = 1 + (int64_t)((double)op->image[0] * (double)op->image[1] / LOOKS);
    int64_t near_by = 1;

    for (int64_t y = 0; y < op->image[1]; y += out[1])
        for (int64_t x = 0; x < op->image[0]; x += out[0]) {
            const int64_t at[2] = {x, y};
            const int64_t n[2] = {vp_min64(out[0], op->image[0] - x), vp_min64(out[1], op->image[1] - y)};
            int64_t kernels = 1, rows = 1, ones = 1;
            if (l->anywhere) {
                if (l->n % step == 0)
                    near_by = vp_convolve_anywhere_near(near, &(struct vp_box){{x, y, 0}, {x + n[0], y + n[1], 1}});
                kernels = near_by;
            } else if (l->source) {
                const int64_t from[2] = {x + p->centre[0] - p->n[0] + 1, y + p->centre[1] - p->n[1] + 1};
                int64_t a[2], b[2];
                bool inside = true;
                for (int i = 0; i < 2; i++) {
                    vp_convolve_nodes_near(p, i, from[i], from[i] + l->tile[i], &a[i], &b[i]);
                    inside = inside && from[i] >= 0 && from[i] + l->tile[i] <= op->image[i];
                }
                ones += p->edge == VP_EDGE_RENORMALIZE && !inside;
                rows = b[1] - a[1] + 1;
                kernels = rows * (b[0] - a[0] + 1);
            }
            const struct vp_convolve_tile tile = {{(int32_t)n[0], (int32_t)n[1]}, (int32_t)(kernels * pieces),
                                                  (int32_t)(rows * pieces), (int32_t)ones,
                                                  (int32_t)edge_of(one, p, at, n)};
            if (add_tile(l, tile, err)) {
                vp_convolve_anywhere_done(near);
                return -1;
            }
        }
    vp_convolve_anywhere_done(near);
    return 0;
}

int vp_convolve_layout_make(struct vp_convolve_layout *l, const struct vp_op *op, double planes, struct vp_err *err)
{
    const bool anywhere = !strcmp(op->kernel, "convolve-anywhere");
    const struct vp_op *const one = anywhere ? vp_convolve_anywhere_node(op) : op;

    *l = (struct vp_convolve_layout){.anywhere = anywhere, .planes = planes};
    if (!anywhere && strcmp(op->kernel, "convolve"))
        return 1;
    const struct vp_convolve_params *p = one->params;
    const struct vp_convolve_cpu *c = p->cpu;
    const bool fft = c->method == VP_FFT;
    if (p->n[2] > 1 || p->exact)
        return 1;
    int64_t out[2];
    for (int a = 0; a < 2; a++) {
        const int64_t side = vp_max64(c->out[a], 1);
        out[a] = anywhere ? vp_max64(op->step[a], 1) : fft ? side : vp_max64(one->step[a], 1);
        l->kernel[a] = p->n[a];
        l->tile[a] = fft ? c->tile[a] : out[a] + p->n[a] - 1;
    }
    l->source = vp_convolve_is_grid(p) && p->weights == VP_WEIGHTS_SOURCE;
    l->strips = fft && c->tiles == VP_STRIPS;
    const int64_t pieces = fft ? c->pieces[0] * c->pieces[1] : 1;
    l->cells = anywhere ? vp_convolve_anywhere_kernels(op, &l->source) : p->nodes[0] * p->nodes[1];
    l->sum = !fft ? one->cost : 0;
    l->spectra = fft ? l->cells * pieces : 0;
    const int rc = fft && c->tiles != VP_GENERAL ? cut_by_cells(l, op, p, err) : cut_evenly(l, op, out, pieces, err);
    if (rc)
        vp_convolve_layout_free(l);
    return rc;
}

void vp_convolve_layout_free(struct vp_convolve_layout *l)
{
    free(l->tiles);
    *l = (struct vp_convolve_layout){0};
}

/* ---- work ---- */

struct vp_convolve_amounts vp_convolve_work_of(const struct vp_convolve_layout *l, const struct vp_convolve_tile *tile)
{
    struct vp_convolve_amounts w = {{0}};
    const double t1 = (double)l->tile[0], t2 = (double)l->tile[1], groups = ceil(t2 / 2 / 16);
    const double column = t2 / 2 * vp_line_cost(l->tile[1] / 2) / 2 / 16, row = t1 * vp_line_cost(l->tile[0]) / 2;

    if (!tile) {
        w.of[VP_WORK_LINE] = (double)l->kernel[0] * column + row * groups;
        w.of[VP_WORK_MOVE] = (double)l->kernel[0] * groups;
        return w;
    }
    const double n1 = tile->n[0], n2 = tile->n[1], results = n1 * n2;
    const double m = tile->kernels, v = tile->rows, apart = l->anywhere ? m : 1, of = m / apart;
    if (l->sum > 0) {
        w.of[VP_WORK_SUM] = l->sum * results * m;
    } else {
        /* ways there of columns, of rows; products; ways back of rows, of columns */
        const double there = l->anywhere ? 1 : l->source ? v : 1, rows = l->source && !l->anywhere ? m : 1;
        const double back = l->source ? 1 : of, columns = l->source || l->anywhere ? 1 : v;
        const double loaded = l->strips ? n1 : t1;
        w.of[VP_WORK_LINE] = apart * ((loaded * there + n1 * columns) * column + row * groups * (rows + back));
        w.of[VP_WORK_MOVE] = apart * groups * (t1 * rows + n1 * columns);
        w.of[VP_WORK_PRODUCT] = l->strips ? 0 : apart * groups * t1 * of; /* a single spectrum stays near */
        w.of[VP_WORK_LOAD] = apart * there * loaded * t2;
        w.of[VP_WORK_STORE] = apart * results;
    }
    w.of[VP_WORK_EDGE] = apart * tile->edge;
    if (l->anywhere) {
        w.of[VP_WORK_MIX] = m * (results + (l->source ? t1 * t2 : 0));
        w.of[VP_WORK_WEIGHT] = l->source ? t1 * t2 : results;
    } else if (l->source) {
        w.of[VP_WORK_ONES] = m * n1 * ((double)l->kernel[1] + n2) * tile->ones;
    }
    return w;
}

/* Returns the additions and multiplications of a tile: 2.5 L log2 L for a transform of L real samples, 5 L log2 L of
 * complex ones; 6 a product, 2 a product that is added. */
static double operations_of(const struct vp_convolve_layout *l, const struct vp_convolve_tile *tile)
{
    const double t1 = (double)l->tile[0], t2 = (double)l->tile[1], m = tile->kernels, v = tile->rows;
    const double n1 = tile->n[0], results = n1 * tile->n[1];
    const double column = 2.5 * t2 * log2(t2), row = 5 * t1 * log2(t1) * t2 / 2;

    if (l->sum > 0)
        return m * 2 * results * (double)(l->kernel[0] * l->kernel[1]);
    if (l->anywhere)
        return m * (t1 * column + 2 * row + 6 * t1 * t2 / 2 + n1 * column + 2 * results);
    if (l->source)
        return v * t1 * column + (m + 1) * row + m * 8 * t1 * t2 / 2 + n1 * column;
    return (l->strips ? n1 : t1) * column + (1 + m) * row + m * 6 * t1 * t2 / 2 + v * n1 * column;
}

/* ---- speed ---- */

void vp_convolve_speed(struct vp_convolve_speed *s, const struct vp_rates *r, const char *isa)
{
    s->vector = !strcmp(isa, "avx512") ? r->convolve_avx512
              : !strcmp(isa, "avx2")   ? r->convolve_avx2
                                       : r->convolve_generic;
    s->scalar = 1;
}

static int take_line(void *to, const char *path, int64_t number, char *line, struct vp_err *err)
{
    struct vp_convolve_speed *const s = to;
    char key[64];
    double value;
    const int found = vp_text_number(line, key, &value);
    if (!found)
        return 0;
    if (found < 0)
        return vp_fail(err, VP_EUSAGE, "%s:%lld: expected `key = number`", path, (long long)number);
    if (!strcmp(key, "convolve_vector"))
        s->vector = value;
    else if (!strcmp(key, "convolve_scalar"))
        s->scalar = value;
    return 0;
}

int vp_convolve_speed_read(struct vp_convolve_speed *s, const char *path, struct vp_err *err)
{
    *s = (struct vp_convolve_speed){0};
    if (vp_text_lines(path, take_line, s, err))
        return -1;
    if (s->vector > 0 && s->scalar > 0)
        return 0;
    return vp_fail_hint(err, VP_EUSAGE, "make model measures them",
                        "%s: expected convolve_vector and convolve_scalar above 0", path);
}

double vp_convolve_seconds(const struct vp_convolve_amounts *w, const struct vp_rates *r,
                           const struct vp_convolve_speed *speed)
{
    const double vector = w->of[VP_WORK_LINE] * 1e-9 + w->of[VP_WORK_MOVE] * r->convolve_move
                          + w->of[VP_WORK_PRODUCT] * r->convolve_product + w->of[VP_WORK_LOAD] * r->convolve_load
                          + w->of[VP_WORK_STORE] * r->convolve_store + w->of[VP_WORK_SUM] * 1e-9 * r->convolve_sum;
    const double scalar = w->of[VP_WORK_MIX] * r->convolve_mix + w->of[VP_WORK_WEIGHT] * r->convolve_weight
                          + w->of[VP_WORK_ONES] * r->convolve_ones + w->of[VP_WORK_EDGE] * r->convolve_edge;

    return vector * speed->vector + scalar * speed->scalar;
}

/* ---- n threads ---- */

/* Returns the largest share of n threads over the mean: tiles in their order, each to the thread that is free first. */
static double balance_of(const struct vp_convolve_layout *l, const struct vp_rates *rates,
                         const struct vp_convolve_speed *speed, double sum, int threads)
{
    enum { MOST = 1024 };
    double busy[MOST] = {0}, last = 0;
    const int n = threads < MOST ? threads : MOST, planes = (int)fmin(l->planes, ceil(64.0 * n / (double)l->n));

    if (n < 2 || sum <= 0)
        return 1;
    for (int k = 0; k < planes; k++)
        for (int64_t i = 0; i < l->n; i++) {
            const struct vp_convolve_amounts w = vp_convolve_work_of(l, &l->tiles[i]);
            int first = 0;
            for (int t = 1; t < n; t++)
                first = busy[t] < busy[first] ? t : first;
            busy[first] += vp_convolve_seconds(&w, rates, speed);
        }
    for (int t = 0; t < n; t++)
        last = fmax(last, busy[t]);
    return last / (sum * planes / n);
}

/* Returns the largest share over the mean of threads that take turns of others' loops: one turn may be left over. */
static double shared_balance(const struct vp_convolve_layout *l, double most, double sum, int threads)
{
    const double turns = fmax(fmin(ceil((double)l->tile[1] / 32), ceil((double)l->tile[0] / 128)), 1);

    return 1 + most / turns * (threads - 1) / sum;
}

void vp_convolve_predict(struct vp_convolve_times *t, const struct vp_convolve_layout *l, const struct vp_rates *rates,
                         const struct vp_convolve_speed *speed, int threads)
{
    const struct vp_convolve_amounts spectrum = vp_convolve_work_of(l, NULL);
    double sum = 0, most = 0, kernels = 0, results = 0, samples = 0, operations = 0;

    *t = (struct vp_convolve_times){.tiles = (double)l->n, .cells = (double)l->cells};
    for (int64_t i = 0; i < l->n; i++) {
        const struct vp_convolve_tile *const tile = &l->tiles[i];
        const struct vp_convolve_amounts w = vp_convolve_work_of(l, tile);
        const double s = vp_convolve_seconds(&w, rates, speed), all = (double)l->tile[0] * (double)l->tile[1];
        sum += s;
        most = fmax(most, s);
        kernels += tile->kernels;
        results += (double)tile->n[0] * tile->n[1];
        samples += all;
        operations += operations_of(l, tile);
    }
    const bool whole = l->anywhere || l->sum > 0; /* tiles are taken whole */
    t->spectra = (double)l->spectra * vp_convolve_seconds(&spectrum, rates, speed);
    t->compute = sum * l->planes;
    t->kernels = kernels / (double)l->n;
    t->border = samples / results - 1;
    t->communication = (samples - results) * l->planes * rates->convolve_load * speed->vector;
    t->operations = operations / (double)l->cells;
    t->balance = threads < 2 ? 1 : whole ? balance_of(l, rates, speed, sum, threads)
                 : shared_balance(l, most, t->compute + t->spectra, threads);
    const double one = t->spectra + t->compute + rates->part;
    t->seconds = (t->spectra + t->compute) / threads * t->balance + rates->part;
    t->efficiency = one / (threads * t->seconds);
}
