/* SPDX-License-Identifier: BSD-3-Clause */
/* Convolution by transforms: overlap-save in tiles that lie where the image says, not the box that is made.
 *
 * A tile has tile[] samples; of its products with a kernel (or a piece of one) of piece[] samples the results from
 * piece - 1 on are those of a convolution that nothing wraps into. Along the first axis (y, of volumes z) columns of real
 * samples are transformed, 16 (or 8, or 4) side by side, along y of volumes the frequencies of z; for x blocks of
 * frequencies are transposed, so that rows lie in the lanes, transformed, multiplied, transformed back and transposed
 * back while they are in the first-level cache.
 *
 * Rounding errors of a transform are a matter of the largest value in it, which is the mean of the samples. So the mean
 * of each column is taken off before, and what a kernel makes of it is added in the end: that does not depend on the row
 * within the tile, it is a sum over columns in double (of volumes, one mean is taken off the whole tile).
 *
 * Cells: where four nodes have their weights, a tile is transformed once, multiplied with four spectra, and the rows are
 * transformed back four times. The weights along x are the same in all rows, also in those of frequencies of y, so the
 * two nodes side by side are added up there; two transforms up the columns are left, and the sum along y is made of what
 * they give. */
#include "local/convolve_internal.h"

#include "base/err.h"
#include "base/size.h"

#include <assert.h>
#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

enum {
    CHUNK = 8,   /* blocks of columns that are loaded, and stored, together */
    GROUP = 4,   /* frequencies of z that are transformed along y together */
    MOST = 4096 / 4, /* blocks of a tile */
    PAST = 64    /* floats beside a row that may be touched */
};

struct sizes {
    int64_t lanes, e;         /* floats of an element: 2 lanes */
    int64_t blocks;           /* of columns of a tile */
    int64_t half, rows;       /* frequencies along the first axis; with those that fill up lanes */
    int64_t groups;           /* of rows, each of `lanes` */
    int64_t mid;              /* transforms along y of volumes; 1 */
    int64_t x;                /* elements of a row */
    int64_t spectrum;         /* floats */
    int64_t load;             /* floats from a row to the next of what is loaded or stored */
};

static struct sizes sizes_of(const struct vp_convolve_cpu *c, int64_t lanes)
{
    struct sizes s = {.lanes = lanes, .e = 2 * lanes, .blocks = c->tile[0] / lanes, .half = c->tile[c->first] / 2,
                      .mid = c->first == 2 ? c->tile[1] : 1, .x = c->tile[0]};

    s.groups = (s.half + lanes - 1) / lanes;
    s.rows = s.groups * lanes;
    s.spectrum = s.mid * s.groups * s.x * s.e;
    s.load = (CHUNK + 1) * 16;
    return s;
}

/* A thread's buffers. */
struct work {
    struct sizes s;
    float *f;                 /* [block][mid][row]: columns' frequencies */
    float *g[2];              /* cells, strips: of what comes back */
    float *x, *y[2];          /* rows */
    float *sum;               /* products of several terms: [mid][group][x] */
    float *load, *store[2];   /* rows of samples */
    float *wide;
    float *less;              /* means of columns, for each of a strip's or tile's, and behind them */
    double *means;            /* the same */
    float *more[2];           /* what kernels make of them, for each column of output */
    float *image;             /* weights of the source at an edge that is renormalised: the tile's results, */
    double *ones[2];          /* the same of ones, everywhere and in the image, */
    double *rows[2], *place;  /* and what they are made of: sums along x, weights along it */
    bool bad;
};

static float *take(char *mem, size_t *at, int64_t floats)
{
    float *const p = mem ? (float *)(void *)(mem + *at) : NULL;

    *at += vp_round64((size_t)(floats + PAST) * sizeof *p);
    return p;
}

/* Columns that a strip's or a run of tiles' means are kept for. */
static int64_t columns_of(const struct vp_convolve_cpu *c, const struct vp_box *out)
{
    return vp_box_size(out, 0) + 4 * c->tile[0] + 2 * PAST;
}

static size_t lay_out(struct work *w, const struct vp_convolve_params *p, const struct vp_box *out, char *mem)
{
    const struct vp_convolve_cpu *c = p->cpu;
    const struct sizes s = sizes_of(c, c->fft->lanes);
    const bool cells = c->tiles == VP_CELLS, general = c->tiles == VP_GENERAL;
    const bool masked = p->edge == VP_EDGE_RENORMALIZE && p->weights == VP_WEIGHTS_SOURCE;
    const int64_t f = s.blocks * s.mid * s.rows * s.e, rows = c->tile[c->first];
    size_t at = 0;

    *w = (struct work){.s = s};
    w->f = take(mem, &at, f);
    w->g[0] = take(mem, &at, general ? 0 : f);
    w->g[1] = take(mem, &at, cells ? f : 0);
    w->x = take(mem, &at, s.x * s.e);
    w->y[0] = take(mem, &at, cells ? s.x * s.e : 0);
    w->y[1] = take(mem, &at, cells ? s.x * s.e : 0);
    w->sum = take(mem, &at, general ? s.spectrum : 0);
    w->load = take(mem, &at, rows * s.load);
    w->store[0] = take(mem, &at, rows * s.load);
    w->store[1] = take(mem, &at, cells ? rows * s.load : 0);
    w->wide = take(mem, &at, s.mid > 1 ? s.mid * GROUP * s.e : 0);
    w->less = take(mem, &at, columns_of(c, out));
    w->means = (double *)(void *)take(mem, &at, 2 * columns_of(c, out));
    w->more[0] = take(mem, &at, c->tile[0]);
    w->more[1] = take(mem, &at, c->tile[0]);
    w->image = take(mem, &at, masked ? c->out[0] * c->out[1] : 0);
    for (int i = 0; i < 2; i++) {
        w->ones[i] = (double *)(void *)take(mem, &at, masked ? 2 * c->out[0] * c->out[1] : 0);
        w->rows[i] = (double *)(void *)take(mem, &at, masked ? 2 * c->out[0] * p->n[1] : 0);
    }
    w->place = (double *)(void *)take(mem, &at, masked ? 2 * (c->out[0] + p->n[0]) : 0);
    return vp_round64(at);
}

uint64_t vp_convolve_fft_scratch(const struct vp_op *op, const struct vp_box *out, int threads)
{
    struct work w;

    return lay_out(&w, op->params, out, NULL) * (uint64_t)threads;
}

uint64_t vp_convolve_spectra(const struct vp_convolve_params *p)
{
    const struct vp_convolve_cpu *c = p->cpu;
    const struct sizes s = sizes_of(c, c->fft->lanes);

    return (uint64_t)(p->nodes[0] * p->nodes[1] * c->pieces[0] * c->pieces[1] * c->pieces[2] * s.spectrum) * sizeof(float);
}

/* ---- parts of the way ---- */

/* Along y of volumes, the frequencies of z, of one block of columns. */
static void along_y(const struct vp_convolve_cpu *c, const struct work *w, float *block, bool back)
{
    const struct sizes *s = &w->s;
    const struct vp_line *l = &c->along[1];

    for (int64_t k = 0; k < s->rows; k += GROUP) {
        for (int64_t y = 0; y < s->mid; y++)
            memcpy(w->wide + y * GROUP * s->e, block + (y * s->rows + k) * s->e, (size_t)(GROUP * s->e) * sizeof *block);
        (back ? c->fft->back : c->fft->forward)(l, w->wide, GROUP);
        for (int64_t y = 0; y < s->mid; y++)
            memcpy(block + (y * s->rows + k) * s->e, w->wide + y * GROUP * s->e, (size_t)(GROUP * s->e) * sizeof *block);
    }
}

/* The blocks of columns, from the middle index `mid` on. */
static void pointers(const struct sizes *s, float *f, int64_t mid, float **at, int64_t blocks)
{
    for (int64_t b = 0; b < blocks; b++)
        at[b] = f + (b * s->mid + mid) * s->rows * s->e;
}

/* ---- spectra ---- */

static void spectrum_of(const struct vp_convolve_params *p, const struct work *w, int64_t node, const int64_t piece[3],
                        float *to)
{
    static const float none[16];
    const struct vp_convolve_cpu *c = p->cpu;
    const struct sizes *s = &w->s;
    const int first = c->first;
    const int64_t rows = c->tile[first];
    const float scale = (float)(1 / ((double)s->half * (double)s->mid * (double)s->x));
    int64_t at[3], n[3];
    float *from[MOST];

    for (int a = 0; a < 3; a++) {
        at[a] = piece[a] * c->piece[a];
        n[a] = vp_min64(c->piece[a], p->n[a] - at[a]);
    }
    const int64_t blocks = (n[0] + s->lanes - 1) / s->lanes, mids = s->mid > 1 ? n[1] : 1;
    memset(w->f, 0, (size_t)(s->blocks * s->mid * s->rows * s->e) * sizeof *w->f);
    for (int64_t b = 0; b < blocks; b++) {
        const int64_t x = b * s->lanes, m = vp_min64(s->lanes, n[0] - x);
        for (int64_t mid = 0; mid < mids; mid++) {
            memset(w->load, 0, (size_t)(rows * s->lanes) * sizeof *w->load);
            for (int64_t r = 0; r < n[first]; r++) {
                const int64_t y = first == 1 ? r : mid, z = first == 1 ? 0 : r;
                const float *k = p->kernels + ((node * p->n[2] + at[2] + z) * p->n[1] + at[1] + y) * p->n[0] + at[0] + x;
                for (int64_t i = 0; i < m; i++)
                    w->load[r * s->lanes + i] = k[i] * scale;
            }
            c->fft->columns(&c->along[first], w->load, s->lanes, none, w->f + (b * s->mid + mid) * s->rows * s->e);
        }
        if (s->mid > 1)
            along_y(c, w, w->f + b * s->mid * s->rows * s->e, false);
    }
    for (int64_t mid = 0; mid < s->mid; mid++) {
        pointers(s, w->f, mid, from, blocks);
        for (int64_t g = 0; g < s->groups; g++, to += s->x * s->e) {
            c->fft->gather(to, (const float *const *)from, g * s->lanes, blocks);
            memset(to + blocks * s->lanes * s->e, 0, (size_t)((s->x - blocks * s->lanes) * s->e) * sizeof *to);
            c->fft->forward(&c->along[0], to, 1);
        }
    }
}

/* All spectra, once: whoever comes first makes them. */
static int make_spectra(const struct vp_convolve_params *p, char *scratch, size_t bytes, const struct vp_box *out,
                        int threads, struct vp_err *err)
{
    struct vp_convolve_cpu *c = p->cpu;
    const int64_t pieces = c->pieces[0] * c->pieces[1] * c->pieces[2], all = p->nodes[0] * p->nodes[1] * pieces;
    int rc = 0;

    pthread_mutex_lock(&c->lock);
    if (!c->spectra || c->made_for != c->fft) {
        const struct sizes s = sizes_of(c, c->fft->lanes);
        free(c->spectra);
        c->spectra = vp_alloc_raw((size_t)(all * s.spectrum), sizeof *c->spectra, "the kernels' transforms", err);
        rc = c->spectra ? 0 : -1;
        #pragma omp parallel for num_threads(threads) schedule(dynamic)
        for (int64_t i = 0; i < (rc ? 0 : all); i++) {
            const int64_t q = i % pieces;
            struct work w;
            lay_out(&w, p, out, scratch + (size_t)omp_get_thread_num() * bytes);
            spectrum_of(p, &w, i / pieces, (const int64_t[3]){q % c->pieces[0], q / c->pieces[0] % c->pieces[1],
                        q / c->pieces[0] / c->pieces[1]}, c->spectra + i * s.spectrum);
        }
        c->made_for = c->fft;
    }
    pthread_mutex_unlock(&c->lock);
    return rc;
}

/* ---- columns of samples ---- */

/* n columns from x on of all rows of a tile whose samples begin at y of plane z, each minus its mean, transformed into
 * blocks that ring() names; the means go to means[]. */
static void load_columns(const struct vp_convolve_job *j, struct work *w, int64_t x, int64_t n, int64_t y, int64_t z,
                         double *means, float *const *block)
{
    const struct vp_convolve_cpu *c = j->c;
    const struct sizes *s = &w->s;
    const int64_t rows = c->tile[1];
    float *const less = w->less;

    memset(less, 0, (size_t)n * sizeof *less);
    for (int64_t r = 0; r < rows; r++) {
        w->bad |= vp_convolve_load(j, w->load + r * s->load, x, n, y + r, z);
        c->isa->add(less, w->load + r * s->load, n);
    }
    c->isa->scale(less, 1 / (float)rows, n);
    for (int64_t i = 0; i < n; i++) {
        less[i] = isfinite(less[i]) ? less[i] : 0;
        means[i] = less[i];
    }
    for (int64_t b = 0; b * s->lanes < n; b++)
        c->fft->columns(&c->along[1], w->load + b * s->lanes, s->load, less + b * s->lanes, block[b]);
}

/* ---- strips: one kernel of images ---- */

/* Tiles from column x0 to x1 of the strip that begins at row y0. */
static int strip(const struct vp_convolve_job *j, struct work *w, int64_t x0, int64_t x1, int64_t y0, int64_t z,
                 struct vp_err *err)
{
    const struct vp_convolve_params *p = j->p;
    const struct vp_convolve_cpu *c = j->c;
    const struct sizes *s = &w->s;
    const int64_t lost = p->n[1] - 1, over = p->n[0] - 1, new = c->out[0] / s->lanes;
    const int64_t top = y0 + p->centre[1] - lost, left = x0 + p->centre[0] - over, block = s->rows * s->e;
    const int64_t hi = lost + vp_min64(c->out[1], j->out->box.hi[1] - y0);
    float *f[MOST], *g[MOST];
    int64_t have = 0;

    w->bad = false;
    for (int64_t b = 0; b < new; b++)
        g[b] = w->g[0] + b * block;
    for (int64_t x = x0, first = 0; x < x1; x += c->out[0], first += new) {
        while (have < first + s->blocks) {
            const int64_t n = vp_min64(first + s->blocks - have, CHUNK * 16 / s->lanes);
            for (int64_t b = 0; b < n; b++)
                f[b] = w->f + (have + b) % s->blocks * block;
            load_columns(j, w, left + have * s->lanes, n * s->lanes, top, z, w->means + have * s->lanes, f);
            have += n;
        }
        for (int64_t b = 0; b < s->blocks; b++)
            f[b] = w->f + (first + b) % s->blocks * block;
        for (int64_t q = 0; q < s->groups; q++) {
            c->fft->gather(w->x, (const float *const *)f, q * s->lanes, s->blocks);
            c->fft->convolve(&c->along[0], w->x, c->spectra + q * s->x * s->e);
            c->fft->scatter(w->x + over * s->e, g, q * s->lanes, new);
        }
        c->isa->line(w->more[0], w->means + first * s->lanes, c->across, p->n[0], c->out[0]);
        const int64_t n = vp_min64(c->out[0], x1 - x);
        for (int64_t i = 0; i < n; i += CHUNK * 16) {
            const int64_t m = vp_min64(n - i, CHUNK * 16);
            for (int64_t k = 0; k < m; k += s->lanes)
                c->fft->columns_back(&c->along[1], g[(i + k) / s->lanes], w->store[0] + k - lost * s->load, s->load, lost, hi);
            for (int64_t r = 0; r < hi - lost; r++) {
                float *const row = w->store[0] + r * s->load;
                c->isa->add(row, w->more[0] + i, m);
                vp_convolve_store(j, row, x + i, m, y0 + r, z);
            }
        }
    }
    const struct vp_box box = {{x0, y0, z}, {x1, y0 + c->out[1], z + 1}};
    return w->bad ? vp_convolve_spoil(j, &box, err) : 0;
}

/* ---- cells: a grid of kernels with weights of the output ---- */

/* What node's kernel makes of the means of the columns. */
static void make_more(const struct vp_convolve_job *j, struct work *w, int64_t node, float *to, int64_t n)
{
    j->c->isa->line(to, w->means, j->c->across + node * j->p->n[0], j->p->n[0], n);
}

static int cell(const struct vp_convolve_job *j, struct work *w, int64_t ix, int64_t iy, int64_t z, struct vp_err *err)
{
    const struct vp_convolve_params *p = j->p;
    const struct vp_convolve_cpu *c = j->c;
    const struct sizes *s = &w->s;
    const int64_t x0 = c->at[0][ix], y0 = c->at[1][iy], cx = c->cell[0][ix], cy = c->cell[1][iy];
    const int64_t n = c->at[0][ix + 1] - x0, rows = c->at[1][iy + 1] - y0, lost = p->n[1] - 1, over = p->n[0] - 1;
    const int64_t u0 = vp_max64(cx - 1, 0), u1 = vp_min64(cx, p->nodes[0] - 1);
    const int64_t v0 = vp_max64(cy - 1, 0), v1 = vp_min64(cy, p->nodes[1] - 1);
    const int64_t block = s->rows * s->e, new = (n + s->lanes - 1) / s->lanes;
    float before[MOST * 4], other[MOST * 4];
    float *f[MOST], *g[2][MOST];

    w->bad = false;
    for (int64_t b = 0; b < s->blocks; b++) {
        f[b] = w->f + b * block;
        g[0][b] = w->g[0] + b * block;
        g[1][b] = w->g[1] + b * block;
    }
    for (int64_t b = 0; b < s->blocks; b += CHUNK * 16 / s->lanes) {
        const int64_t m = vp_min64(s->blocks - b, CHUNK * 16 / s->lanes);
        load_columns(j, w, x0 + p->centre[0] - over + b * s->lanes, m * s->lanes, y0 + p->centre[1] - lost, z,
                     w->means + b * s->lanes, f + b);
    }
    const float *const after = p->after[0] + x0;
    for (int64_t i = 0; i < new * s->lanes; i++) {
        other[i] = i < n ? after[i] : 0;
        before[i] = i < n ? 1 - after[i] : 0;
    }
    for (int64_t q = 0; q < s->groups; q++) {
        c->fft->gather(w->x, (const float *const *)f, q * s->lanes, s->blocks);
        c->fft->forward(&c->along[0], w->x, 1);
        for (int64_t v = v0; v <= v1; v++) {
            for (int64_t u = u0; u <= u1; u++) {
                const float *const k = c->spectra + (v * p->nodes[0] + u) * s->spectrum + q * s->x * s->e;
                const float *const next = u < u1 ? k + s->spectrum
                                          : v < v1 ? k + (p->nodes[0] - (u1 - u0)) * s->spectrum : NULL;
                c->fft->product_back(&c->along[0], w->x, k, w->y[u - u0], next);
            }
            if (u1 > u0)
                c->fft->scatter_sum(w->y[0] + over * s->e, w->y[1] + over * s->e, before, other, g[v - v0], q * s->lanes, new);
            else
                c->fft->scatter(w->y[0] + over * s->e, g[v - v0], q * s->lanes, new);
        }
    }
    for (int64_t v = v0; v <= v1; v++) {
        make_more(j, w, v * p->nodes[0] + u0, w->more[v - v0], n);
        if (u1 > u0) {
            make_more(j, w, v * p->nodes[0] + u1, w->less, n);
            for (int64_t i = 0; i < n; i++)
                w->more[v - v0][i] = w->more[v - v0][i] * before[i] + w->less[i] * other[i];
        }
    }
    const int64_t hi = lost + rows;
    for (int64_t i = 0; i < n; i += CHUNK * 16) {
        const int64_t m = vp_min64(n - i, CHUNK * 16);
        for (int64_t v = v0; v <= v1; v++)
            for (int64_t k = 0; k < m; k += s->lanes)
                c->fft->columns_back(&c->along[1], g[v - v0][(i + k) / s->lanes], w->store[v - v0] + k - lost * s->load,
                                     s->load, lost, hi);
        for (int64_t r = 0; r < rows; r++) {
            float *const row = w->store[0] + r * s->load;
            const float second = p->after[1][y0 + r];
            if (v1 > v0)
                c->isa->blend(row, row, w->more[0] + i, 1 - second, w->store[1] + r * s->load, w->more[1] + i, second, m);
            else
                c->isa->add(row, w->more[0] + i, m);
            vp_convolve_store(j, row, x0 + i, m, y0 + r, z);
        }
    }
    const struct vp_box box = {{x0, y0, z}, {x0 + n, y0 + rows, z + 1}};
    return w->bad ? vp_convolve_spoil(j, &box, err) : 0;
}

/* ---- general tiles ---- */

/* A mean off the samples that exist. */
static void take_off(const struct vp_convolve_job *j, float *row, float mean, int64_t x, int64_t n, int64_t y, int64_t z)
{
    const int64_t a = vp_max64(j->lo[0] - x, 0), b = vp_min64(j->hi[0] - x, n);

    if (y < j->lo[1] || y >= j->hi[1] || z < j->lo[2] || z >= j->hi[2])
        return;
    for (int64_t i = a; i < b; i++)
        row[i] -= mean;
}

/* Samples of a tile from origin[] on into frequencies along the first axis and y; those of node (u, v) by their weights
 * where there are several. */
static void load_tile(const struct vp_convolve_job *j, struct work *w, const int64_t origin[3], int64_t v, float mean)
{
    const struct vp_convolve_params *p = j->p;
    const struct vp_convolve_cpu *c = j->c;
    const struct sizes *s = &w->s;
    const int64_t rows = c->tile[c->first];
    const bool weighted = p->nodes[0] * p->nodes[1] > 1;
    float less[16];

    for (int i = 0; i < 16; i++)
        less[i] = weighted ? 0 : mean;
    for (int64_t mid = 0; mid < s->mid; mid++)
        for (int64_t b = 0; b < s->blocks; b += CHUNK * 16 / s->lanes) {
            const int64_t n = vp_min64(s->blocks - b, CHUNK * 16 / s->lanes);
            for (int64_t r = 0; r < rows; r++) {
                const int64_t y = origin[1] + (c->first == 1 ? r : mid), z = origin[2] + (c->first == 1 ? 0 : r);
                float *const row = w->load + r * s->load;
                w->bad |= vp_convolve_load(j, row, origin[0] + b * s->lanes, n * s->lanes, y, z);
                if (weighted && mean != 0)
                    take_off(j, row, mean, origin[0] + b * s->lanes, n * s->lanes, y, z);
                if (weighted)
                    c->isa->scale(row, vp_convolve_weight(p, 1, v, y), n * s->lanes);
            }
            for (int64_t i = 0; i < n; i++)
                c->fft->columns(&c->along[c->first], w->load + i * s->lanes, s->load, less,
                                w->f + ((b + i) * s->mid + mid) * s->rows * s->e);
        }
    for (int64_t b = 0; b < s->blocks && s->mid > 1; b++)
        along_y(c, w, w->f + b * s->mid * s->rows * s->e, false);
}

/* The mean of some rows of a tile. */
static float mean_of(const struct vp_convolve_job *j, struct work *w, const int64_t origin[3])
{
    const struct vp_convolve_cpu *c = j->c;
    const int64_t step[3] = {0, c->tile[1] > 8 ? c->tile[1] / 8 : 1, c->tile[2] > 8 ? c->tile[2] / 8 : 1};
    double sum = 0, n = 0;

    for (int64_t z = 0; z < c->tile[2]; z += step[2])
        for (int64_t y = 0; y < c->tile[1]; y += step[1])
            for (int64_t x = 0; x < c->tile[0]; x += CHUNK * 16) {
                const int64_t m = vp_min64(CHUNK * 16, c->tile[0] - x);
                vp_convolve_load(j, w->load, origin[0] + x, m, origin[1] + y, origin[2] + z);
                for (int64_t i = 0; i < m; i++)
                    sum += w->load[i];
                n += (double)m;
            }
    return isfinite((float)(sum / n)) ? (float)(sum / n) : 0;
}

/* Nodes whose weight is not nothing somewhere in lo ... hi - 1. */
static void nodes_near(const struct vp_convolve_params *p, int axis, int64_t lo, int64_t hi, int64_t *a, int64_t *b)
{
    const int64_t n = p->nodes[axis];

    *a = 0;
    while (*a < n - 1 && p->node[axis][*a + 1] <= (double)lo)
        ++*a;
    *b = n - 1;
    while (*b > *a && p->node[axis][*b - 1] >= (double)(hi - 1))
        --*b;
}

/* The result of one tile at `at`, into the output, or to `to` if that is not NULL: [z][y][x] of out[], and with weights of
 * the source the result of samples that have `mean` taken off. */
static void tile(const struct vp_convolve_job *j, struct work *w, const int64_t at[3], float *to, float mean)
{
    const struct vp_convolve_params *p = j->p;
    const struct vp_convolve_cpu *c = j->c;
    const struct sizes *s = &w->s;
    const int first = c->first;
    const bool weighted = p->nodes[0] * p->nodes[1] > 1;
    const int64_t pieces = c->pieces[0] * c->pieces[1] * c->pieces[2], block = s->mid * s->rows * s->e;
    const int64_t lost = c->piece[first] - 1, over = c->piece[0] - 1, new = c->out[0] / s->lanes;
    float *f[MOST];
    bool more = false;

    for (int64_t q = 0; q < pieces; q++) {
        const int64_t piece[3] = {q % c->pieces[0], q / c->pieces[0] % c->pieces[1], q / c->pieces[0] / c->pieces[1]};
        int64_t origin[3], u0 = 0, u1 = 0, v0 = 0, v1 = 0;
        for (int a = 0; a < 3; a++)
            origin[a] = at[a] + p->centre[a] - piece[a] * c->piece[a] - (c->piece[a] - 1);
        if (weighted) {
            nodes_near(p, 0, origin[0], origin[0] + c->tile[0], &u0, &u1);
            nodes_near(p, 1, origin[1], origin[1] + c->tile[1], &v0, &v1);
        } else if (q == 0) {
            mean = mean_of(j, w, origin);
        }
        for (int64_t v = v0; v <= v1; v++) {
            load_tile(j, w, origin, v, mean);
            for (int64_t u = u0; u <= u1; u++) {
                const float *k = c->spectra + ((v * p->nodes[0] + u) * pieces + q) * s->spectrum;
                float *sum = w->sum;
                for (int64_t i = 0; weighted && i < s->x; i++)
                    w->more[1][i] = vp_convolve_weight(p, 0, u, origin[0] + i);
                for (int64_t mid = 0; mid < s->mid; mid++) {
                    pointers(s, w->f, mid, f, s->blocks);
                    for (int64_t g = 0; g < s->groups; g++, k += s->x * s->e, sum += s->x * s->e) {
                        c->fft->gather(w->x, (const float *const *)f, g * s->lanes, s->blocks);
                        for (int64_t i = 0; weighted && i < s->x; i++)
                            c->isa->scale(w->x + i * s->e, w->more[1][i], s->e);
                        c->fft->forward(&c->along[0], w->x, 1);
                        c->fft->product(sum, w->x, k, s->x, more);
                    }
                }
                more = true;
            }
        }
    }
    float *sum = w->sum;
    for (int64_t mid = 0; mid < s->mid; mid++) {
        pointers(s, w->f, mid, f, s->blocks);
        for (int64_t g = 0; g < s->groups; g++, sum += s->x * s->e) {
            c->fft->back(&c->along[0], sum, 1);
            c->fft->scatter(sum + over * s->e, f, g * s->lanes, new);
        }
    }
    const float add = weighted ? 0 : (float)((double)mean * c->total[0]);
    for (int64_t b = 0; b < new && s->mid > 1; b++)
        along_y(c, w, w->f + b * block, true);
    for (int64_t y = 0; y < (first == 2 ? c->out[1] : 1); y++) {
        const int64_t mid = first == 2 ? c->piece[1] - 1 + y : 0;
        for (int64_t i = 0; i < c->out[0]; i += CHUNK * 16) {
            const int64_t m = vp_min64(c->out[0] - i, CHUNK * 16);
            for (int64_t k = 0; k < m; k += s->lanes)
                c->fft->columns_back(&c->along[first], w->f + (i + k) / s->lanes * block + mid * s->rows * s->e,
                                     w->store[0] + k - lost * s->load, s->load, lost, lost + c->out[first]);
            for (int64_t r = 0; r < c->out[first]; r++) {
                float *const row = w->store[0] + r * s->load;
                const int64_t oy = first == 1 ? r : y, oz = first == 1 ? 0 : r;
                for (int64_t k = 0; k < m; k++)
                    row[k] += add;
                if (to)
                    memcpy(to + (oz * c->out[1] + oy) * c->out[0] + i, row, (size_t)m * sizeof *to);
                else
                    vp_convolve_store(j, row, at[0] + i, m, at[1] + oy, at[2] + oz);
            }
        }
    }
}

/* Whether a tile's samples are all in the image. */
static bool is_inside(const struct vp_convolve_job *j, const int64_t at[3])
{
    for (int a = 0; a < 3; a++)
        if (at[a] - (j->p->n[a] - 1 - j->p->centre[a]) < j->lo[a]
            || vp_min64(at[a] + j->c->out[a], j->op->image[a]) + j->p->centre[a] > j->hi[a])
            return false;
    return true;
}

/* What the kernels make of ones with the weights of the source, everywhere and where samples are, in double: w->ones. */
static void make_ones(const struct vp_convolve_job *j, struct work *w, const int64_t at[3])
{
    const struct vp_convolve_params *p = j->p;
    const struct vp_convolve_cpu *c = j->c;
    const int64_t wide = c->out[0], high = c->out[1], *n = p->n;
    const int64_t x0 = at[0] + p->centre[0] - (n[0] - 1), y0 = at[1] + p->centre[1] - (n[1] - 1);
    int64_t u0, u1, v0, v1;

    nodes_near(p, 0, x0, x0 + wide + n[0] - 1, &u0, &u1);
    nodes_near(p, 1, y0, y0 + high + n[1] - 1, &v0, &v1);
    for (int i = 0; i < 2; i++) {
        memset(w->ones[i], 0, (size_t)(wide * high) * sizeof *w->ones[i]);
        for (int64_t u = u0; u <= u1; u++) {
            for (int64_t x = 0; x < wide + n[0] - 1; x++) {
                const bool there = i == 0 || (x0 + x >= j->lo[0] && x0 + x < j->hi[0]);
                w->place[x] = there ? vp_convolve_weight(p, 0, u, x0 + x) : 0;
            }
            for (int64_t v = v0; v <= v1; v++) {
                const float *k = p->kernels + (v * p->nodes[0] + u) * n[0] * n[1];
                double *const rows = w->rows[i];
                memset(rows, 0, (size_t)(wide * n[1]) * sizeof *rows);
                for (int64_t ky = 0; ky < n[1]; ky++)
                    for (int64_t kx = 0; kx < n[0]; kx++)
                        for (int64_t x = 0; x < wide; x++)
                            rows[ky * wide + x] += k[ky * n[0] + kx] * w->place[x + n[0] - 1 - kx];
                for (int64_t y = 0; y < high; y++)
                    for (int64_t ky = 0; ky < n[1]; ky++) {
                        const int64_t q = y0 + y + n[1] - 1 - ky;
                        const double weight = i == 0 || (q >= j->lo[1] && q < j->hi[1]) ? vp_convolve_weight(p, 1, v, q) : 0;
                        for (int64_t x = 0; x < wide && weight != 0; x++)
                            w->ones[i][y * wide + x] += weight * rows[ky * wide + x];
                    }
            }
        }
    }
}

static int general(const struct vp_convolve_job *j, struct work *w, const int64_t at[3], struct vp_err *err)
{
    const struct vp_convolve_cpu *c = j->c;
    const bool masked = j->p->edge == VP_EDGE_RENORMALIZE && j->p->weights == VP_WEIGHTS_SOURCE && !is_inside(j, at);
    struct vp_box box;

    w->bad = false;
    const float mean = masked ? mean_of(j, w, at) : 0;
    tile(j, w, at, masked ? w->image : NULL, mean);
    if (masked) {
        make_ones(j, w, at);
        for (int64_t i = 0; i < c->out[0] * c->out[1]; i++)
            w->image[i] = (float)((w->image[i] / w->ones[1][i] + mean) * w->ones[0][i]);
        for (int64_t y = 0; y < c->out[1]; y++)
            vp_convolve_store(j, w->image + y * c->out[0], at[0], c->out[0], at[1] + y, at[2]);
    }
    for (int a = 0; a < 3; a++) {
        box.lo[a] = at[a];
        box.hi[a] = at[a] + c->out[a];
    }
    return w->bad ? vp_convolve_spoil(j, &box, err) : 0;
}

/* ---- all of a box ---- */

/* Tiles of cells that the box has a part of: a ... b - 1. */
static void cells_of(const struct vp_convolve_cpu *c, const struct vp_box *out, int axis, int64_t *a, int64_t *b)
{
    *a = 0;
    while (c->at[axis][*a + 1] <= out->lo[axis])
        ++*a;
    *b = *a;
    while (*b < c->n_at[axis] && c->at[axis][*b] < out->hi[axis])
        ++*b;
}

int vp_convolve_fft(struct vp_convolve_job *j, void *scratch, int threads, struct vp_err *err)
{
    const struct vp_convolve_params *p = j->p;
    const struct vp_convolve_cpu *c = j->c;
    const struct vp_box *out = &j->out->box;
    struct work ignored;
    const size_t bytes = lay_out(&ignored, p, out, NULL);
    int64_t from[3] = {out->lo[0], out->lo[1], out->lo[2]}, n[3];
    int rc = make_spectra(p, scratch, bytes, out, threads, err);

    for (int a = 0; a < 3; a++)
        n[a] = (vp_box_size(out, a) + c->out[a] - 1) / c->out[a];
    if (c->tiles == VP_CELLS)
        for (int a = 0; a < 2; a++) {
            cells_of(c, out, a, &from[a], &n[a]);
            n[a] -= from[a];
        }
    /* runs of tiles along x: as long as there is enough to do for all threads */
    int64_t run = c->tiles == VP_STRIPS ? n[0] : 1;
    while (c->tiles == VP_STRIPS && run > 2 && threads > 1 && (n[0] + run - 1) / run * n[1] * n[2] < 6 * threads)
        run = (run + 1) / 2;
    const int64_t runs = (n[0] + run - 1) / run, all = rc ? 0 : runs * n[1] * n[2];
    #pragma omp parallel num_threads(threads)
    {
        struct vp_err own = VP_ERR_INIT;
        struct work w;
        lay_out(&w, p, out, (char *)scratch + (size_t)omp_get_thread_num() * bytes);
        #pragma omp for schedule(dynamic)
        for (int64_t i = 0; i < all; i++) {
            const int64_t x = i % runs * run, y = i / runs % n[1], z = i / runs / n[1];
            int failed;
            if (c->tiles == VP_STRIPS)
                failed = strip(j, &w, from[0] + x * c->out[0], vp_min64(from[0] + (x + run) * c->out[0], out->hi[0]),
                               from[1] + y * c->out[1], from[2] + z, &own);
            else if (c->tiles == VP_CELLS)
                failed = cell(j, &w, from[0] + x, from[1] + y, from[2] + z, &own);
            else
                failed = general(j, &w, (const int64_t[3]){from[0] + x * c->out[0], from[1] + y * c->out[1],
                                 from[2] + z * c->out[2]}, &own);
            if (failed) {
                vp_err_keep(err, &own);
                #pragma omp atomic write
                rc = -1;
            }
        }
    }
    return rc;
}
