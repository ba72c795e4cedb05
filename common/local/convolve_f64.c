/* SPDX-License-Identifier: BSD-3-Clause */
/* Convolution of f64 samples, in f64 throughout: what sums of products need that is not in convolve_direct.c; else
 * overlap-save by the transforms that the program has brought (base/fft64.h), in tiles that begin at multiples of
 * their outputs from the image's first voxel on.
 *
 * A grid's tile with weights of the output is transformed once, multiplied with the spectrum of every node that has a
 * weight in it, and each result is transformed back and weighted; with weights of the source it is weighted and
 * transformed for every node, and the products are added up before the way back. Where that is to be renormalised at
 * an edge, images of ones go the same way.
 *
 * A kernel is transformed whole: tiles are larger than it, whatever it takes. */
#include "local/convolve_internal.h"

#include "base/err.h"
#include "base/size.h"
#include "local/gauss.h"

#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

/* Nanoseconds of an AVX-512 core at 4 GHz, as far as they are not in cost_of(). */
static const double DIRECT_MAC = 0.048, DIRECT_BASE = 2.8, SEPARABLE_TAP = 0.13, SEPARABLE_BASE = 1.9, MOVE = 2, PRODUCT = 1;
/* More spectra of a grid than that are made anew wherever they are needed. */
static const uint64_t SPECTRA = 256 << 20;

/* ---- samples and results ---- */

static double sample(const void *row, int64_t i)
{
    return ((const double *)row)[i];
}

/* As vp_convolve_load. */
static bool load(const struct vp_convolve_job *j, void *row_, int64_t x, int64_t n, int64_t y, int64_t z)
{
    double *const to = row_;
    const int64_t from_y = vp_convolve_place(j, 1, y), from_z = vp_convolve_place(j, 2, z);
    const int64_t a = vp_min64(vp_max64(j->lo[0] - x, 0), n), b = vp_max64(vp_min64(j->hi[0] - x, n), a);
    double odd = 0;

    if (from_y < 0 || from_z < 0) {
        memset(to, 0, (size_t)n * sizeof *to);
        return false;
    }
    const struct vp_box *box = &j->in->box;
    const double *const row = (const double *)j->in->plane[from_z - box->lo[2]] + (from_y - box->lo[1]) * j->in->stride
                              - box->lo[0];
    if (b > a)
        memcpy(to + a, row + x + a, (size_t)(b - a) * sizeof *to);
    for (int64_t i = 0; i < n; i++)
        if (i < a || i >= b) {
            const int64_t at = vp_convolve_place(j, 0, x + i);
            to[i] = at < 0 ? 0 : sample(row, at);
        }
    for (int64_t i = 0; i < n; i++)
        odd += to[i] - to[i]; /* 0, or NaN */
    if (odd == 0)
        return false;
    for (int64_t i = 0; i < n; i++)
        to[i] = isfinite(to[i]) ? to[i] : 0;
    return true;
}

/* As vp_convolve_store. */
static void store(const struct vp_convolve_job *j, void *row, int64_t x, int64_t n, int64_t y, int64_t z)
{
    double *const v = row;
    const struct vp_box *box = &j->out->box;
    const int64_t x0 = vp_max64(x, box->lo[0]), x1 = vp_min64(x + n, box->hi[0]);

    if (x1 <= x0 || y < box->lo[1] || y >= box->hi[1] || z < box->lo[2] || z >= box->hi[2])
        return;
    if (j->p->edge == VP_EDGE_RENORMALIZE && j->p->weights == VP_WEIGHTS_OUTPUT)
        for (int64_t q = x0; q < x1; q++)
            v[q - x] *= vp_convolve_scale(j, (const int64_t[]){q, y, z});
    void *const plane = j->out->plane[z - box->lo[2]];
    const int64_t at = (y - box->lo[1]) * j->out->stride - box->lo[0];
    if (j->p->out == VP_F64)
        memcpy((double *)plane + at + x0, v + x0 - x, (size_t)(x1 - x0) * sizeof *v);
    else
        for (int64_t q = x0; q < x1; q++)
            ((float *)plane)[at + q] = (float)v[q - x];
}

static double *take(char *mem, size_t *at, int64_t n)
{
    double *const p = mem ? (double *)(void *)(mem + *at) : NULL;

    *at += vp_round64((size_t)n * sizeof *p);
    return p;
}

/* ---- sums of products ---- */

static void four(const struct vp_convolve_job *j, const void *from, int64_t row, int64_t plane, int set, const int64_t n[3],
                 void *const *to, int64_t wide)
{
    for (int i = 0; i < 4 && to[i]; i++)
        j->c->isa->products(&(struct vp_convolve_products){.from = (const double *)from + i * row, .row = row, .plane = plane,
                                                           .taps = j->c->exact->taps[set], .nx = n[0], .ny = n[1], .nz = n[2],
                                                           .to = to[i], .n = wide});
}

const struct vp_convolve_sums vp_convolve_sums_f64 = {sizeof(double), load, four, store};

/* ---- tiles ---- */

struct work {
    double *real, *freq, *product; /* samples or results of a tile; frequencies; of a grid, products */
    double *samples, *result[3];   /* of a grid: samples, results; with weights of the source those of ones, too */
    double *weight[2];             /* of a node, along x and y of a tile */
    double *spectrum;              /* that is not kept */
};

static bool is_grid(const struct vp_convolve_params *p)
{
    return p->nodes[0] * p->nodes[1] > 1;
}

static size_t lay_out_tile(struct work *w, const struct vp_convolve_params *p, char *mem)
{
    const struct vp_convolve_cpu *c = p->cpu;
    const struct vp_convolve_f64 *f = c->exact;
    const bool grid = is_grid(p), source = p->weights == VP_WEIGHTS_SOURCE;
    const int64_t outputs = c->out[0] * c->out[1] * c->out[2];
    size_t at = 0;

    w->real = take(mem, &at, f->samples);
    w->freq = take(mem, &at, f->values);
    w->product = take(mem, &at, grid ? f->values : 0);
    w->samples = take(mem, &at, grid && source ? f->samples : 0);
    for (int i = 0; i < 3; i++)
        w->result[i] = take(mem, &at, grid && (i == 0 || source) ? outputs : 0);
    for (int a = 0; a < 2; a++)
        w->weight[a] = take(mem, &at, grid ? c->tile[a] : 0);
    w->spectrum = take(mem, &at, f->keeps ? 0 : f->values);
    return at;
}

/* to (+)= a times b */
static void multiply(double *to, const double *a, const double *b, int64_t values, bool more)
{
    for (int64_t i = 0; i < values; i += 2) {
        const double re = a[i] * b[i] - a[i + 1] * b[i + 1], im = a[i] * b[i + 1] + a[i + 1] * b[i];
        to[i] = more ? to[i] + re : re;
        to[i + 1] = more ? to[i + 1] + im : im;
    }
}

static void spectrum_of(const struct vp_convolve_params *p, struct work *w, int64_t node, double *to)
{
    const struct vp_convolve_cpu *c = p->cpu;
    const struct vp_convolve_f64 *f = c->exact;
    const double *k = p->exact + node * p->n[0] * p->n[1] * p->n[2], scale = 1 / (double)f->samples;

    memset(w->real, 0, (size_t)f->samples * sizeof *w->real);
    for (int64_t z = 0; z < p->n[2]; z++)
        for (int64_t y = 0; y < p->n[1]; y++)
            for (int64_t x = 0; x < p->n[0]; x++)
                w->real[(z * c->tile[1] + y) * c->tile[0] + x] = *k++ * scale;
    f->fft->forward(f->plan, w->real, to);
}

/* What may overwrite w->real. */
static const double *spectrum_at(const struct vp_convolve_params *p, struct work *w, int64_t node)
{
    const struct vp_convolve_f64 *f = p->cpu->exact;

    if (f->keeps)
        return f->spectra + node * f->values;
    spectrum_of(p, w, node, w->spectrum);
    return w->spectrum;
}

/* The row of results (y, z) of a tile that was transformed back. */
static double *row_of(const struct vp_convolve_params *p, const struct work *w, int64_t y, int64_t z)
{
    const int64_t *tile = p->cpu->tile;

    return w->real + ((p->n[2] - 1 + z) * tile[1] + p->n[1] - 1 + y) * tile[0] + p->n[0] - 1;
}

/* Samples of a tile from origin[] on. */
static bool load_tile(const struct vp_convolve_job *j, double *to, const int64_t origin[3])
{
    const int64_t *tile = j->c->tile;
    bool bad = false;

    for (int64_t z = 0; z < tile[2]; z++)
        for (int64_t y = 0; y < tile[1]; y++, to += tile[0])
            bad |= load(j, to, origin[0], tile[0], origin[1] + y, origin[2] + z);
    return bad;
}

/* Weights of a node along an axis from `at` on. */
static void weigh(const struct vp_convolve_params *p, double *to, int axis, int64_t node, int64_t at, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        to[i] = vp_convolve_weight_f64(p, axis, node, at + i);
}

static void results_of_output(const struct vp_convolve_job *j, struct work *w, const int64_t at[3])
{
    const struct vp_convolve_params *p = j->p;
    const struct vp_convolve_cpu *c = j->c;
    const struct vp_convolve_f64 *f = c->exact;
    const int64_t *out = c->out;
    int64_t lo[2], hi[2];

    memset(w->result[0], 0, (size_t)(out[0] * out[1] * out[2]) * sizeof *w->result[0]);
    f->fft->forward(f->plan, w->real, w->freq);
    for (int a = 0; a < 2; a++)
        vp_convolve_nodes_near(p, a, at[a], at[a] + out[a], &lo[a], &hi[a]);
    for (int64_t v = lo[1]; v <= hi[1]; v++)
        for (int64_t u = lo[0]; u <= hi[0]; u++) {
            multiply(w->product, w->freq, spectrum_at(p, w, v * p->nodes[0] + u), f->values, false);
            f->fft->back(f->plan, w->product, w->real);
            weigh(p, w->weight[0], 0, u, at[0], out[0]);
            weigh(p, w->weight[1], 1, v, at[1], out[1]);
            double *to = w->result[0];
            for (int64_t y = 0; y < out[1]; y++, to += out[0])
                for (int64_t x = 0; x < out[0]; x++)
                    to[x] += w->weight[1][y] * w->weight[0][x] * row_of(p, w, y, 0)[x];
        }
}

/* Of w->samples, or where those are not asked for, of ones: everywhere, or where samples are. */
static void results_of_source(const struct vp_convolve_job *j, struct work *w, const int64_t at[3], bool ones, bool there,
                              double *to)
{
    const struct vp_convolve_params *p = j->p;
    const struct vp_convolve_cpu *c = j->c;
    const struct vp_convolve_f64 *f = c->exact;
    const int64_t *tile = c->tile;
    int64_t origin[2], lo[2], hi[2];
    bool more = false;

    for (int a = 0; a < 2; a++) {
        origin[a] = at[a] + p->centre[a] - (p->n[a] - 1);
        vp_convolve_nodes_near(p, a, origin[a], origin[a] + tile[a], &lo[a], &hi[a]);
    }
    for (int64_t v = lo[1]; v <= hi[1]; v++)
        for (int64_t u = lo[0]; u <= hi[0]; u++) {
            const double *const spectrum = spectrum_at(p, w, v * p->nodes[0] + u);
            weigh(p, w->weight[0], 0, u, origin[0], tile[0]);
            weigh(p, w->weight[1], 1, v, origin[1], tile[1]);
            for (int64_t y = 0, i = 0; y < tile[1]; y++)
                for (int64_t x = 0; x < tile[0]; x++, i++) {
                    const int64_t q[2] = {origin[0] + x, origin[1] + y};
                    const bool here = q[0] >= j->lo[0] && q[0] < j->hi[0] && q[1] >= j->lo[1] && q[1] < j->hi[1];
                    const double s = !ones ? w->samples[i] : here || !there;
                    w->real[i] = w->weight[1][y] * w->weight[0][x] * s;
                }
            f->fft->forward(f->plan, w->real, w->freq);
            multiply(w->product, w->freq, spectrum, f->values, more);
            more = true;
        }
    f->fft->back(f->plan, w->product, w->real);
    for (int64_t y = 0; y < c->out[1]; y++)
        memcpy(to + y * c->out[0], row_of(p, w, y, 0), (size_t)c->out[0] * sizeof *to);
}

static bool is_inside(const struct vp_convolve_job *j, const int64_t at[3])
{
    for (int a = 0; a < 2; a++)
        if (at[a] - (j->p->n[a] - 1 - j->p->centre[a]) < j->lo[a] || at[a] + j->c->out[a] + j->p->centre[a] > j->hi[a])
            return false;
    return true;
}

/* The tile whose results begin at at[]; whether a sample is not finite. */
static bool make_tile(const struct vp_convolve_job *j, struct work *w, const int64_t at[3])
{
    const struct vp_convolve_params *p = j->p;
    const struct vp_convolve_cpu *c = j->c;
    const struct vp_convolve_f64 *f = c->exact;
    const bool source = p->weights == VP_WEIGHTS_SOURCE, grid = is_grid(p);
    const int64_t outputs = c->out[0] * c->out[1] * c->out[2];
    int64_t origin[3];

    for (int a = 0; a < 3; a++)
        origin[a] = at[a] + p->centre[a] - (p->n[a] - 1);
    const bool bad = load_tile(j, grid && source ? w->samples : w->real, origin);
    if (!grid) {
        f->fft->forward(f->plan, w->real, w->freq);
        multiply(w->freq, w->freq, spectrum_at(p, w, 0), f->values, false);
        f->fft->back(f->plan, w->freq, w->real);
    } else if (source) {
        results_of_source(j, w, at, false, false, w->result[0]);
    } else {
        results_of_output(j, w, at);
    }
    if (grid && source && p->edge == VP_EDGE_RENORMALIZE && !is_inside(j, at)) {
        results_of_source(j, w, at, true, false, w->result[1]);
        results_of_source(j, w, at, true, true, w->result[2]);
        for (int64_t i = 0; i < outputs; i++)
            w->result[0][i] *= w->result[2][i] != 0 ? w->result[1][i] / w->result[2][i] : 0;
    }
    for (int64_t z = 0; z < c->out[2]; z++)
        for (int64_t y = 0; y < c->out[1]; y++)
            store(j, grid ? w->result[0] + y * c->out[0] : row_of(p, w, y, z), at[0], c->out[0], at[1] + y, at[2] + z);
    return bad;
}

/* ---- a box ---- */

uint64_t vp_convolve_f64_scratch(const struct vp_op *op, int threads)
{
    struct work w;

    return (uint64_t)lay_out_tile(&w, op->params, NULL) * (uint64_t)threads;
}

/* All spectra, once: whoever comes first makes them. */
static int keep_spectra(const struct vp_convolve_params *p, char *scratch, size_t bytes, int threads, struct vp_err *err)
{
    struct vp_convolve_cpu *c = p->cpu;
    struct vp_convolve_f64 *f = c->exact;
    const int64_t nodes = p->nodes[0] * p->nodes[1];
    int rc = 0;

    pthread_mutex_lock(&c->lock);
    if (f->keeps && !f->spectra) {
        double *const s = vp_alloc_raw((size_t)nodes, (size_t)f->values * sizeof *s, "the kernels' transforms", err);
        #pragma omp parallel for num_threads(threads) schedule(dynamic) if (s)
        for (int64_t i = 0; i < (s ? nodes : 0); i++) {
            struct work w;
            lay_out_tile(&w, p, scratch + (size_t)omp_get_thread_num() * bytes);
            spectrum_of(p, &w, i, s + i * f->values);
        }
        f->spectra = s;
        rc = s ? 0 : -1;
    }
    pthread_mutex_unlock(&c->lock);
    return rc;
}

int vp_convolve_f64(struct vp_convolve_job *j, void *scratch, int threads, struct vp_err *err)
{
    const struct vp_convolve_params *p = j->p;
    const struct vp_box *out = &j->out->box;
    const int64_t n = vp_box_tiles(out, j->c->out);
    struct work ignored;
    const size_t bytes = lay_out_tile(&ignored, p, NULL);
    int rc = 0;

    if (keep_spectra(p, scratch, bytes, threads, err))
        return -1;
    #pragma omp parallel num_threads(threads)
    {
        struct vp_err own = VP_ERR_INIT;
        struct work w;
        lay_out_tile(&w, p, (char *)scratch + (size_t)omp_get_thread_num() * bytes);
        #pragma omp for schedule(dynamic)
        for (int64_t i = 0; i < n; i++) {
            const struct vp_box box = vp_box_tile(out, j->c->out, i);
            if (make_tile(j, &w, box.lo) && vp_convolve_spoil(j, &box, &own)) {
                vp_err_keep(err, &own);
                #pragma omp atomic write
                rc = -1;
            }
        }
    }
    return rc;
}

/* ---- the choice of a method ---- */

/* Lengths that estimated plans are quick at: a power of two, times 3 or 5. */
static int quick_lengths(int64_t *to, int most, int64_t least, int64_t end)
{
    int count = 0;

    for (int64_t n = 8; n < end && count < most; n *= 2) {
        const int64_t some[3] = {n, n / 4 * 5, n / 2 * 3};
        for (int i = 0; i < 3; i++)
            if (some[i] >= least && count < most)
                to[count++] = some[i];
    }
    return count;
}

/* Nanoseconds for a sample of a tile: there, times a spectrum, and back. Powers of two are quicker, in small tiles and
 * volumes by much. */
static double cost_of(const int64_t tile[3])
{
    const double n = (double)tile[0] * (double)tile[1] * (double)tile[2], mib = n * 8 / (1 << 20);
    double slow = 1;

    for (int a = 0; a < 3; a++)
        if (tile[a] & (tile[a] - 1))
            slow *= tile[2] > 1 ? 1.35 : tile[a] < 256 ? 1.2 : 1;
    return slow * (0.28 * log2(n) + fmin((tile[2] > 1 ? 0.15 : 0.7) * mib, 12));
}

/* Of an output. */
static double price(const struct vp_convolve_params *p, const int64_t image[3], const int64_t size[3], const int64_t tile[3],
                    const int64_t out[3])
{
    const double samples = (double)tile[0] * (double)tile[1] * (double)tile[2], both = cost_of(tile);
    const bool source = p->weights == VP_WEIGHTS_SOURCE;
    double nodes = 1, share = 1, outputs = 1;

    for (int a = 0; a < 3; a++) {
        if (a < 2 && p->nodes[a] > 1)
            nodes *= fmin((double)p->nodes[a], 2 + (double)(source ? tile[a] : out[a]) * (double)p->nodes[a] / (double)size[a]);
        outputs *= (double)out[a];
        if (image[a] < VP_UNKNOWN && (a < 2 || p->n[2] > 1)) /* what lies beyond the image is made, too */
            share *= (double)image[a] / (ceil((double)image[a] / (double)out[a]) * (double)out[a]);
    }
    const double ways = is_grid(p) ? both / 2 + nodes * (both / 2 + PRODUCT) : both;
    return samples * (ways + MOVE) / (outputs * share);
}

static double choose_tile(struct vp_convolve_params *p, const struct vp_convolve_given *g, const int64_t image[3],
                          const int64_t size[3])
{
    enum { MOST = 64 };
    struct vp_convolve_cpu *c = p->cpu;
    const bool deep = p->n[2] > 1;
    int64_t length[3][MOST];
    int count[3];
    double best = INFINITY;

    for (int a = 0; a < 3; a++) {
        const bool used = a < 2 || deep;
        count[a] = used && !g->tile[a] ? quick_lengths(length[a], MOST, vp_max64(p->n[a], 16), 4 * vp_max64(p->n[a], deep ? 64 : 512))
                                       : 1;
        if (!used || g->tile[a])
            length[a][0] = used ? g->tile[a] : 1;
    }
    for (int x = 0; x < count[0]; x++)
        for (int y = 0; y < count[1]; y++)
            for (int z = 0; z < count[2]; z++) {
                const int64_t tile[3] = {length[0][x], length[1][y], length[2][z]};
                const int64_t out[3] = {tile[0] - p->n[0] + 1, tile[1] - p->n[1] + 1, tile[2] - p->n[2] + 1};
                if (out[0] < 1 || out[1] < 1 || out[2] < 1)
                    continue;
                const double cost = price(p, image, size, tile, out);
                if (cost < best) {
                    best = cost;
                    memcpy(c->tile, tile, sizeof tile);
                    memcpy(c->out, out, sizeof out);
                }
            }
    return best;
}

/* In the order of samples. */
static double *make_taps(const double *k, int64_t n, struct vp_err *err)
{
    double *const t = vp_alloc_raw((size_t)n, sizeof *t, "the taps", err);

    for (int64_t i = 0; t && i < n; i++)
        t[i] = k[n - 1 - i];
    return t;
}

/* Whether the kernel is a product of one along each axis, to the precision of f64; then their taps are made. */
static bool make_separable(struct vp_convolve_params *p, struct vp_err *err)
{
    const int64_t n = p->n[0] * p->n[1] * p->n[2], step[3] = {1, p->n[0], p->n[0] * p->n[1]};
    double *factor[3] = {NULL, NULL, NULL}, off = 0, sum = 0;
    int64_t top = 0;

    for (int64_t i = 0; i < n; i++)
        top = fabs(p->exact[i]) > fabs(p->exact[top]) ? i : top;
    const int64_t at[3] = {top % p->n[0], top / p->n[0] % p->n[1], top / p->n[0] / p->n[1]};
    const int first = p->n[0] > 1 ? 0 : p->n[1] > 1 ? 1 : 2; /* has the scale: the others have 1 at the largest sample */
    bool ok = p->exact[top] != 0;
    for (int a = 0; a < 3 && ok; a++) {
        ok = (factor[a] = vp_alloc_raw((size_t)p->n[a], sizeof *factor[a], "the factors of the kernel", err));
        for (int64_t i = 0; ok && i < p->n[a]; i++)
            factor[a][i] = p->exact[top + (i - at[a]) * step[a]] / (a == first ? 1 : p->exact[top]);
    }
    for (int64_t i = 0; ok && i < n; i++) {
        const double product = factor[0][i % p->n[0]] * factor[1][i / p->n[0] % p->n[1]] * factor[2][i / p->n[0] / p->n[1]];
        off += fabs(product - p->exact[i]);
        sum += fabs(p->exact[i]);
    }
    ok = ok && off <= 1e-15 * sum;
    for (int a = 0; a < 3 && ok; a++)
        ok = (p->cpu->exact->taps[a] = make_taps(factor[a], p->n[a], err));
    for (int a = 0; a < 3; a++)
        free(factor[a]);
    return ok;
}

int vp_convolve_f64_make(struct vp_convolve_params *p, const struct vp_convolve_given *g, const int64_t image[3],
                         const int64_t size[3], double *cost, struct vp_err *err)
{
    struct vp_convolve_cpu *c = p->cpu;
    struct vp_convolve_f64 *f = c->exact = vp_alloc(1, sizeof *f, "convolution", err);
    const char *const name = g->method ? g->method : "";
    const bool one = !is_grid(p);
    const double macs = (double)p->n[0] * (double)p->n[1] * (double)p->n[2];
    const double separable = SEPARABLE_BASE + (double)(p->n[0] + p->n[1] + p->n[2] - 1) * SEPARABLE_TAP;

    if (!f)
        return -1;
    f->fft = g->fft;
    c->tiles = VP_GENERAL;
    c->first = p->n[2] > 1 ? 2 : 1;
    const double fft = choose_tile(p, g, image, size), direct = one && macs < 4096 ? DIRECT_BASE + macs * DIRECT_MAC : INFINITY;
    if (one && (!strcmp(name, "separable") || (!*name && separable < fmin(direct, fft) && macs > 3))) {
        if (make_separable(p, err)) {
            c->method = VP_SEPARABLE;
            *cost = separable;
            return 0;
        }
        if (err->code || *name)
            return vp_fail(err, VP_EUSAGE, "the kernel is not separable");
    }
    if (one && (!strcmp(name, "direct") || (!*name && direct < fft))) {
        c->method = VP_DIRECT;
        *cost = direct;
        return (f->taps[0] = make_taps(p->exact, p->n[0] * p->n[1] * p->n[2], err)) ? 0 : -1;
    }
    c->method = VP_FFT;
    *cost = fft;
    for (int a = 0; a < 3; a++) {
        c->piece[a] = p->n[a];
        c->pieces[a] = 1;
    }
    f->samples = c->tile[0] * c->tile[1] * c->tile[2];
    f->values = (c->tile[0] / 2 + 1) * 2 * c->tile[1] * c->tile[2];
    f->values = (f->values + 7) / 8 * 8; /* every spectrum is aligned */
    f->keeps = one || vp_convolve_f64_spectra(p) <= SPECTRA;
    f->plan = f->fft->make(c->tile);
    return f->plan ? 0 : vp_fail(err, VP_ERESOURCE, "no transforms of %lld x %lld x %lld samples", (long long)c->tile[0],
                                 (long long)c->tile[1], (long long)c->tile[2]);
}

uint64_t vp_convolve_f64_spectra(const struct vp_convolve_params *p)
{
    return (uint64_t)(p->nodes[0] * p->nodes[1] * p->cpu->exact->values) * sizeof(double);
}

void vp_convolve_f64_free(struct vp_convolve_f64 *f)
{
    if (!f)
        return;
    if (f->plan)
        f->fft->free(f->plan);
    for (int a = 0; a < 3; a++)
        free(f->taps[a]);
    free(f->spectra);
    free(f);
}
