/* SPDX-License-Identifier: BSD-3-Clause */
/* Convolution of f64 samples, in f64 throughout: overlap-save by the transforms of the program (base/fft64.h), in tiles
 * that begin at multiples of their outputs from the image's first voxel on.
 *
 * A grid's tile with weights of the output is transformed once and multiplied by the spectrum of every node that has a
 * weight in it; each product is transformed back and weighted. With weights of the source it is weighted and
 * transformed for every node, and the products are added before the inverse transform. A constant is subtracted from
 * each tile first; a tile with samples far above the others is computed by vp_convolve_sum().
 *
 * A kernel is transformed whole: tiles are always larger than the kernel. */
#include "local/convolve_internal.h"

#include "base/err.h"
#include "base/size.h"

#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

/* Nanoseconds of an AVX-512 core at 4 GHz, other than those of cost_of(). */
static const double MOVE = 2, PRODUCT = 1;
/* Maximum bytes of a grid's spectra that stay; more are made again when needed. */
static const uint64_t SPECTRA = 256 << 20;

/* ---- tiles ---- */

struct convolve_f64_work {
    double *real, *freq, *product; /* samples or results of a tile; frequencies; products of a grid */
    double *samples, *result;      /* samples and results of a grid */
    struct vp_convolve_ones ones;
    double *most;                  /* largest magnitudes of rows of samples */
    double *weight[2];             /* weights of a node, along x and y of a tile */
    double *spectrum;              /* spectrum that does not stay */
};

static double *take(void *mem, size_t *at, int64_t n)
{
    return vp_place(mem, at, (size_t)n * sizeof(double));
}

static size_t lay_out_tile(struct convolve_f64_work *w, const struct vp_convolve_params *p, void *mem)
{
    const struct vp_convolve_cpu *c = p->cpu;
    const struct vp_convolve_f64 *f = c->exact;
    const bool grid = vp_convolve_is_grid(p), source = p->weights == VP_WEIGHTS_SOURCE;
    const int64_t outputs = c->out[0] * c->out[1] * c->out[2];
    size_t at = 0;

    w->real = take(mem, &at, f->samples);
    w->freq = take(mem, &at, f->values);
    w->product = take(mem, &at, grid ? f->values : 0);
    w->samples = take(mem, &at, grid && source ? f->samples : 0);
    w->result = take(mem, &at, grid ? outputs : 0);
    vp_convolve_ones_place(&w->ones, p, mem, &at);
    w->most = take(mem, &at, c->tile[1] * c->tile[2]);
    for (int a = 0; a < 2; a++)
        w->weight[a] = take(mem, &at, grid ? c->tile[a] : 0);
    w->spectrum = take(mem, &at, f->keeps ? 0 : f->values);
    return at;
}

/* Sets `to` to a times b, or adds it. */
static void multiply(double *to, const double *a, const double *b, int64_t values, bool more)
{
    for (int64_t i = 0; i < values; i += 2) {
        const double re = a[i] * b[i] - a[i + 1] * b[i + 1], im = a[i] * b[i + 1] + a[i + 1] * b[i];
        to[i] = more ? to[i] + re : re;
        to[i + 1] = more ? to[i + 1] + im : im;
    }
}

static void spectrum_of(const struct vp_convolve_params *p, struct convolve_f64_work *w, int64_t node, double *to)
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

/* Transforms that may overwrite w->real. */
static const double *spectrum_at(const struct vp_convolve_params *p, struct convolve_f64_work *w, int64_t node)
{
    const struct vp_convolve_f64 *f = p->cpu->exact;

    if (f->keeps)
        return f->spectra + node * f->values;
    spectrum_of(p, w, node, w->spectrum);
    return w->spectrum;
}

/* Returns the row of results (y, z) of a tile that was transformed back. */
static double *row_of(const struct vp_convolve_params *p, const struct convolve_f64_work *w, int64_t y, int64_t z)
{
    const int64_t *tile = p->cpu->tile;

    return w->real + ((p->n[2] - 1 + z) * tile[1] + p->n[1] - 1 + y) * tile[0] + p->n[0] - 1;
}

/* Loads the samples of a tile from origin[] on, minus `base`. */
static bool load_tile(const struct vp_convolve_job *j, double *to, const int64_t origin[3], double base, double *most)
{
    const int64_t *tile = j->c->tile;
    bool bad = false;

    for (int64_t z = 0; z < tile[2]; z++)
        for (int64_t y = 0; y < tile[1]; y++, to += tile[0]) {
            bad |= vp_convolve_load(j, to, origin[0], tile[0], origin[1] + y, origin[2] + z, base);
            most[z * tile[1] + y] = j->c->isa->most(to, true, tile[0]);
        }
    return bad;
}

/* Fills the weights of a node along an axis from `at` on. */
static void weigh(const struct vp_convolve_params *p, double *to, int axis, int64_t node, int64_t at, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        to[i] = vp_convolve_weight(p, axis, node, at + i);
}

static void results_of_output(const struct vp_convolve_job *j, struct convolve_f64_work *w, const int64_t at[3])
{
    const struct vp_convolve_params *p = j->p;
    const struct vp_convolve_cpu *c = j->c;
    const struct vp_convolve_f64 *f = c->exact;
    const int64_t *out = c->out;
    int64_t lo[2], hi[2];

    memset(w->result, 0, (size_t)(out[0] * out[1] * out[2]) * sizeof *w->result);
    f->fft->forward(f->plan, w->real, w->freq);
    for (int a = 0; a < 2; a++)
        vp_convolve_nodes_near(p, a, at[a], at[a] + out[a], &lo[a], &hi[a]);
    for (int64_t v = lo[1]; v <= hi[1]; v++)
        for (int64_t u = lo[0]; u <= hi[0]; u++) {
            multiply(w->product, w->freq, spectrum_at(p, w, v * p->nodes[0] + u), f->values, false);
            f->fft->back(f->plan, w->product, w->real);
            weigh(p, w->weight[0], 0, u, at[0], out[0]);
            weigh(p, w->weight[1], 1, v, at[1], out[1]);
            double *to = w->result;
            for (int64_t y = 0; y < out[1]; y++, to += out[0])
                for (int64_t x = 0; x < out[0]; x++)
                    to[x] += w->weight[1][y] * w->weight[0][x] * row_of(p, w, y, 0)[x];
        }
}

static void results_of_source(const struct vp_convolve_job *j, struct convolve_f64_work *w, const int64_t at[3])
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
                for (int64_t x = 0; x < tile[0]; x++, i++)
                    w->real[i] = w->weight[1][y] * w->weight[0][x] * w->samples[i];
            f->fft->forward(f->plan, w->real, w->freq);
            multiply(w->product, w->freq, spectrum, f->values, more);
            more = true;
        }
    f->fft->back(f->plan, w->product, w->real);
    for (int64_t y = 0; y < c->out[1]; y++)
        memcpy(w->result + y * c->out[0], row_of(p, w, y, 0), (size_t)c->out[0] * sizeof *w->result);
}

static int make_tile(const struct vp_convolve_job *j, const struct vp_box *box, void *mem, bool *bad,
                     struct vp_err *err)
{
    const struct vp_convolve_params *p = j->p;
    const struct vp_convolve_cpu *c = j->c;
    const struct vp_convolve_f64 *f = c->exact;
    const bool source = p->weights == VP_WEIGHTS_SOURCE, grid = vp_convolve_is_grid(p);
    const int64_t *at = box->lo, *out = c->out;
    const struct vp_box all = {{at[0], at[1], at[2]}, {at[0] + out[0], at[1] + out[1], at[2] + out[2]}};
    struct vp_convolve_less less = {.base = vp_convolve_constant(j, &all, at[2])};
    int64_t origin[3];
    struct convolve_f64_work w;

    lay_out_tile(&w, p, mem);
    for (int a = 0; a < 3; a++)
        origin[a] = at[a] + p->centre[a] - (p->n[a] - 1);
    *bad = load_tile(j, source ? w.samples : w.real, origin, less.base, w.most);
    if (vp_convolve_is_spiked(p, w.most, c->tile[1] * c->tile[2], less.base)) {
        if (vp_convolve_sum(j, &all, less.base, source ? w.result : NULL, err))
            return -1;
        if (!source)
            return 0;
    } else if (!grid) {
        f->fft->forward(f->plan, w.real, w.freq);
        multiply(w.freq, w.freq, spectrum_at(p, &w, 0), f->values, false);
        f->fft->back(f->plan, w.freq, w.real);
    } else if (source) {
        results_of_source(j, &w, at);
    } else {
        results_of_output(j, &w, at);
    }
    if (source) {
        vp_convolve_store_source(j, &w.ones, at, w.result, less.base);
        return 0;
    }
    for (int64_t z = 0; z < out[2]; z++)
        for (int64_t y = 0; y < out[1]; y++)
            vp_convolve_store(j, grid ? w.result + y * out[0] : row_of(p, &w, y, z), at[0], out[0], at[1] + y, at[2] + z,
                              &less);
    return 0;
}

/* ---- a box ---- */

uint64_t vp_convolve_f64_scratch(const struct vp_op *op, int threads)
{
    struct convolve_f64_work w;

    return (uint64_t)lay_out_tile(&w, op->params, NULL) * (uint64_t)threads;
}

/* Makes all spectra, once: in the first call. */
static int keep_spectra(const struct vp_convolve_params *p, char *scratch, size_t bytes, int threads,
                        struct vp_err *err)
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
            struct convolve_f64_work w;
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
    struct convolve_f64_work w;
    const size_t bytes = lay_out_tile(&w, j->p, NULL);

    if (keep_spectra(j->p, scratch, bytes, threads, err))
        return -1;
    return vp_convolve_tiles(j, j->c->out, bytes, scratch, threads, make_tile, err);
}

/* ---- the choice of tiles ---- */

/* Returns the next length that estimated plans are fast at: a power of two, times 1, 3 or 5. */
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

/* Returns nanoseconds a sample of a tile for transform, product and inverse transform. Powers of two are faster, in
 * small tiles and volumes by far. */
static double cost_of(const int64_t tile[3])
{
    const double n = (double)tile[0] * (double)tile[1] * (double)tile[2], mib = n * 8 / (1 << 20);
    double slow = 1;

    for (int a = 0; a < 3; a++)
        if (tile[a] & (tile[a] - 1))
            slow *= tile[2] > 1 ? 1.35 : tile[a] < 256 ? 1.2 : 1;
    return slow * (0.28 * log2(n) + fmin((tile[2] > 1 ? 0.15 : 0.7) * mib, 12));
}

/* Returns nanoseconds an output. */
static double price(const struct vp_convolve_params *p, const int64_t image[3], const int64_t size[3],
                    const int64_t tile[3], const int64_t out[3])
{
    const double samples = (double)tile[0] * (double)tile[1] * (double)tile[2], both = cost_of(tile);
    const bool source = p->weights == VP_WEIGHTS_SOURCE;
    double nodes = 1, share = 1, outputs = 1;

    for (int a = 0; a < 3; a++) {
        if (a < 2 && p->nodes[a] > 1)
            nodes *= fmin((double)p->nodes[a], 2 + (double)(source ? tile[a] : out[a]) * (double)p->nodes[a] / (double)size[a]);
        outputs *= (double)out[a];
        if (image[a] < VP_UNKNOWN && (a < 2 || p->n[2] > 1)) /* results outside the image are made, too */
            share *= (double)image[a] / (ceil((double)image[a] / (double)out[a]) * (double)out[a]);
    }
    const double ways = vp_convolve_is_grid(p) ? both / 2 + nodes * (both / 2 + PRODUCT) : both;
    return samples * (ways + MOVE) / (outputs * share);
}

double vp_convolve_f64_choose(struct vp_convolve_params *p, const int64_t given[3], const int64_t image[3],
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
        length[a][0] = used ? given[a] : 1;
        count[a] = 1;
        if (!length[a][0])
            count[a] = quick_lengths(length[a], MOST, vp_max64(p->n[a], 16), 4 * vp_max64(p->n[a], deep ? 64 : 512));
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

int vp_convolve_f64_make(struct vp_convolve_params *p, struct vp_err *err)
{
    struct vp_convolve_cpu *c = p->cpu;
    struct vp_convolve_f64 *f = c->exact;

    for (int a = 0; a < 3; a++) {
        c->piece[a] = p->n[a];
        c->pieces[a] = 1;
    }
    f->samples = c->tile[0] * c->tile[1] * c->tile[2];
    f->values = (c->tile[0] / 2 + 1) * 2 * c->tile[1] * c->tile[2];
    f->values = (f->values + 7) / 8 * 8; /* every spectrum is aligned */
    f->keeps = !vp_convolve_is_grid(p) || vp_convolve_f64_spectra(p) <= SPECTRA;
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
    free(f->spectra);
    free(f);
}
