/* SPDX-License-Identifier: BSD-3-Clause */
/* Convolution by transforms: overlap-save in tiles that lie where the image says, not the box that is made.
 *
 * A tile has tile[] samples; of its products with a kernel (or a piece of one) of piece[] samples the results from
 * piece - 1 on are those of a convolution that nothing wraps into. Along the first axis (y, of volumes z) columns of
 * real samples are transformed, 16 (or 8, or 4) side by side, along y of volumes the frequencies of z; for x blocks
 * of frequencies are transposed, so that rows lie in the lanes, transformed, multiplied, transformed back and
 * transposed back while they are in the first-level cache.
 *
 * Rounding errors of a transform are a matter of the largest value in it. So a constant is taken off first (of volumes and
 * grids one of each tile, of the strips of one kernel one of each VP_RUN tiles side by side, which share columns), and a
 * tile in which samples stand out by far is left to vp_convolve_sum().
 *
 * Cells: where four nodes have their weights, a tile is transformed once, multiplied with four spectra, and the rows
 * are transformed back four times. The weights along x are the same in all rows, also in those of frequencies of y,
 * so the two nodes side by side are added up there; two transforms up the columns are left, and the sum along y is
 * made of what they give. */
#include "local/convolve_internal.h"

#include "base/err.h"
#include "base/size.h"
#include "base/team.h"

#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

enum {
    CHUNK = 8,   /* blocks of columns that are loaded, and stored, together */
    MOST = 4096 / 4, /* blocks of a tile */
    PAST = 64    /* floats beside a row that may be touched */
};

struct work;

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
    s.load = c->tiles == VP_GENERAL ? (c->tile[0] / 16 | 1) * 16 : (CHUNK + 1) * 16; /* odd: no two rows in one place of the cache */
    return s;
}

/* A thread's buffers. */
struct work {
    struct sizes s;
    struct vp_team_loop *loop; /* NULL: it is alone */
    const float *spectra;     /* [row of nodes modulo `node_rows`][node][piece] */
    int64_t node_rows;
    float *f;                 /* [block][mid][row]: columns' frequencies */
    float *g[2];              /* cells: of what comes back */
    float *x, *y[2];          /* rows */
    float *sum;               /* products of several terms: [mid][group][x] */
    float *load, *store[2];   /* rows of samples */
    double *most;             /* largest magnitudes of the columns that are in f; of general tiles, of rows */
    float *less, *along;      /* zeros, of a block; weights of the source along a row */
    const void **row;         /* where the samples of a cell's rows are; NULL: zeros */
    float *image;             /* weights of the source: the tile's results */
    struct vp_convolve_ones ones;
    bool bad;
};

static void *take(void *mem, size_t *at, int64_t floats)
{
    return vp_place(mem, at, (size_t)(floats + PAST) * sizeof(float));
}

/* Whether products of several terms are added up before the way back. */
static bool needs_sum(const struct vp_convolve_params *p)
{
    const struct vp_convolve_cpu *c = p->cpu;

    return c->tiles == VP_GENERAL && p->nodes[0] * p->nodes[1] * c->pieces[0] * c->pieces[1] * c->pieces[2] > 1;
}

static size_t lay_out(struct work *w, const struct vp_convolve_params *p, void *mem)
{
    const struct vp_convolve_cpu *c = p->cpu;
    const struct sizes s = sizes_of(c, c->fft->lanes);
    const bool grid = c->tiles == VP_CELLS, general = c->tiles == VP_GENERAL;
    const bool sources = p->weights == VP_WEIGHTS_SOURCE;
    const int64_t f = s.blocks * s.mid * s.rows * s.e, rows = c->tile[c->first];
    size_t at = 0;

    *w = (struct work){.s = s};
    w->f = take(mem, &at, f);
    w->g[0] = take(mem, &at, general ? 0 : f);
    w->g[1] = take(mem, &at, grid ? f : 0);
    w->x = take(mem, &at, s.x * s.e);
    w->y[0] = take(mem, &at, grid ? s.x * s.e : 0);
    w->y[1] = take(mem, &at, grid ? s.x * s.e : 0);
    w->sum = take(mem, &at, needs_sum(p) ? s.spectrum : 0);
    w->load = take(mem, &at, rows * s.load);
    w->store[0] = take(mem, &at, rows * s.load);
    w->store[1] = take(mem, &at, grid ? rows * s.load : 0);
    w->most = take(mem, &at, 2 * (general ? rows * s.mid : c->tile[0]));
    w->less = take(mem, &at, 16);
    w->along = take(mem, &at, general ? c->tile[0] : 0);
    if (mem)
        memset(w->less, 0, 16 * sizeof *w->less);
    w->row = take(mem, &at, general ? 0 : rows * (int64_t)(sizeof *w->row / sizeof(float)));
    w->image = take(mem, &at, sources ? c->out[0] * c->out[1] : 0);
    vp_convolve_ones_place(&w->ones, p, mem, &at);
    return vp_round64(at);
}

/* Rows of nodes whose spectra are in memory at a time. Few stay in the caches; several threads need more, or they
 * would wait for the rows of tiles before theirs. */
static int64_t node_rows(const struct vp_convolve_params *p, int threads)
{
    const int64_t rows = threads > 1 ? vp_min64(vp_max64(4, threads / 2 + 2), 16) : 2;

    return p->cpu->keeps ? p->nodes[1] : vp_min64(p->nodes[1], rows);
}

/* Bytes of the spectra that are in the scratch. */
static uint64_t rows_bytes(const struct vp_convolve_params *p, int threads)
{
    const struct vp_convolve_cpu *c = p->cpu;

    if (c->keeps)
        return 0;
    return vp_round64((size_t)(node_rows(p, threads) * p->nodes[0] * sizes_of(c, c->fft->lanes).spectrum) * sizeof(float));
}

uint64_t vp_convolve_fft_scratch(const struct vp_op *op, int threads)
{
    enum { SOME = 1 << 20, LARGE = 4 << 20 }; /* memory of that size gets large pages, without which 5 % are lost */
    struct work w;
    const uint64_t bytes = lay_out(&w, op->params, NULL) * (uint64_t)threads + rows_bytes(op->params, threads);

    return bytes > SOME && bytes < LARGE ? LARGE : bytes;
}

uint64_t vp_convolve_spectra(const struct vp_convolve_params *p)
{
    const struct vp_convolve_cpu *c = p->cpu;
    const struct sizes s = sizes_of(c, c->fft->lanes);

    return (uint64_t)(p->nodes[0] * p->nodes[1] * c->pieces[0] * c->pieces[1] * c->pieces[2] * s.spectrum) * sizeof(float);
}

/* ---- loops ---- */

struct turns { void (*turn)(const void *of, struct work *w, int64_t i); const void *of; };

static void take_turn(const void *ctx, void *thread, int64_t i)
{
    const struct turns *const t = ctx;

    t->turn(t->of, thread, i);
}

/* Runs turns 0 ... n - 1 of a loop of this thread: each with the buffers of the thread that takes it. */
static void together(struct work *w, int64_t n, void (*turn)(const void *of, struct work *w, int64_t i), const void *of)
{
    vp_team_run(w->loop, n, take_turn, &(struct turns){turn, of}, w);
}

/* ---- parts of the way ---- */

/* Blocks of columns of volumes along y, the frequencies of z. */
struct along_y { const struct vp_convolve_cpu *c; float *f; bool back; };

static void along_y(const void *of, struct work *w, int64_t b)
{
    const struct along_y *const t = of;
    const struct vp_line_isa *const isa = t->c->fft;

    (t->back ? isa->back : isa->forward)(&t->c->along[1], t->f + b * w->s.mid * w->s.rows * w->s.e, w->s.rows);
}

/* The blocks of columns, from the middle index `mid` on. */
static void pointers(const struct sizes *s, float *f, int64_t mid, float **at, int64_t blocks)
{
    for (int64_t b = 0; b < blocks; b++)
        at[b] = f + (b * s->mid + mid) * s->rows * s->e;
}

/* ---- spectra ---- */

static void spectrum_of(const struct vp_convolve_params *p, struct work *w, int64_t node, const int64_t piece[3],
                        float *to)
{
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
    const int64_t blocks = (n[0] + s->lanes - 1) / s->lanes, mids = s->mid > 1 ? n[1] : 1, some = CHUNK * 16;
    if (s->mid > 1)
        memset(w->f, 0, (size_t)(blocks * s->mid * s->rows * s->e) * sizeof *w->f);
    for (int64_t x = 0; x < n[0]; x += some) {
        const int64_t m = vp_min64(some, n[0] - x), b0 = x / s->lanes, b1 = vp_min64((x + some) / s->lanes, blocks);
        for (int64_t r = 0; r < rows; r++) { /* zeros beside and below the kernel */
            const int64_t i = r < n[first] ? m : 0;
            memset(w->load + r * s->load + i, 0, (size_t)((b1 - b0) * s->lanes - i) * sizeof *w->load);
        }
        for (int64_t mid = 0; mid < mids; mid++) {
            for (int64_t r = 0; r < n[first]; r++) {
                const int64_t y = first == 1 ? r : mid, z = first == 1 ? 0 : r;
                const float *k = p->kernels + ((node * p->n[2] + at[2] + z) * p->n[1] + at[1] + y) * p->n[0] + at[0] + x;
                for (int64_t i = 0; i < m; i++)
                    w->load[r * s->load + i] = k[i] * scale;
            }
            for (int64_t b = b0; b < b1; b++) {
                float *const f = w->f + (b * s->mid + mid) * s->rows * s->e;
                c->fft->columns(&c->along[first], w->load + (b - b0) * s->lanes, s->load, w->less, f);
                memset(f + s->half * s->e, 0, (size_t)((s->rows - s->half) * s->e) * sizeof *f);
            }
        }
        for (int64_t b = b0; b < b1 && s->mid > 1; b++)
            along_y(&(struct along_y){c, w->f, false}, w, b);
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

/* ---- columns of samples ---- */

/* Where the rows of a tile are whose samples begin at y of plane z. */
static void find_rows(const struct vp_convolve_job *j, struct work *w, int64_t y, int64_t z)
{
    const struct vp_box *box = &j->in->box;
    const int64_t from_z = vp_convolve_place(j, 2, z), size = (int64_t)vp_type_size(j->p->in);

    for (int64_t r = 0; r < j->c->tile[1]; r++) {
        const int64_t from = vp_convolve_place(j, 1, y + r);
        w->row[r] = from < 0 || from_z < 0 ? NULL
                    : (const char *)j->in->plane[from_z - box->lo[2]]
                          + ((from - box->lo[1]) * j->in->stride - box->lo[0]) * size;
    }
}

/* The columns of a run of tiles, in blocks of lanes: those of a tile stay in the owner's f. */
struct columns {
    const struct vp_convolve_job *j;
    struct work *w;            /* the owner's */
    int64_t x, y, z;           /* the sample where block 0 begins */
    int64_t have, end;         /* blocks that are loaded, and are to be */
    double base;               /* what is taken off */
};

/* Some more blocks, from number i on of CHUNK * 16 columns each. */
static void load_columns(const void *of, struct work *w, int64_t i)
{
    const struct columns *const t = of;
    const struct vp_convolve_job *const j = t->j;
    const struct vp_convolve_cpu *c = j->c;
    struct work *const owner = t->w;
    const int64_t some = CHUNK * 16 / w->s.lanes, from = t->have + i * some, blocks = vp_min64(t->end - from, some);
    const int64_t x = t->x + from * w->s.lanes, n = blocks * w->s.lanes;
    const struct sizes *s = &w->s;
    const int64_t rows = c->tile[1];
    float most[CHUNK * 16];
    bool again = x < j->lo[0] || x + n > j->hi[0];

    if (!again) {
        c->isa->load_rows(w->load, s->load, owner->row, rows, x, j->p->in, n, (float)t->base, most);
        for (int64_t k = 0; k < n; k++)
            again = again || !isfinite(most[k]);
    }
    if (again) {
        memset(most, 0, (size_t)n * sizeof *most);
        for (int64_t r = 0; r < rows; r++) {
            float *const row = w->load + r * s->load;
            if (vp_convolve_load(j, row, x, n, t->y + r, t->z, t->base))
                __atomic_store_n(&owner->bad, true, __ATOMIC_RELAXED);
            for (int64_t k = 0; k < n && j->p->in == VP_F32; k++)
                most[k] = fabsf(row[k]) > most[k] ? fabsf(row[k]) : most[k];
        }
    }
    for (int64_t b = 0; b < blocks; b++) {
        const int64_t to = (from + b) % s->blocks;
        for (int64_t k = 0; k < s->lanes; k++)
            owner->most[to * s->lanes + k] = most[b * s->lanes + k];
        c->fft->columns(&c->along[1], w->load + b * s->lanes, s->load, w->less, owner->f + to * s->rows * s->e);
    }
}

/* Those of the tile that begins at block `first`, as far as they are not there; f[] gets where they are. */
static void load_tile_columns(struct columns *t, int64_t first, float **f)
{
    const struct sizes *s = &t->w->s;
    const int64_t some = CHUNK * 16 / s->lanes;

    t->have = vp_max64(t->have, first);
    t->end = first + s->blocks;
    together(t->w, (t->end - t->have + some - 1) / some, load_columns, t);
    t->have = t->end;
    for (int64_t b = 0; b < s->blocks; b++)
        f[b] = t->w->f + (first + b) % s->blocks * s->rows * s->e;
}

/* True if results x ... x + n - 1 of rows y0 ... y1 - 1 can be stored as they are: f32 of one kernel, and no edge. */
static bool is_plain(const struct vp_convolve_job *j, int64_t x, int64_t n, int64_t y0, int64_t y1)
{
    const struct vp_convolve_params *p = j->p;
    const struct vp_box *box = &j->out->box;

    if (p->out != VP_F32 || vp_convolve_is_grid(p) || x < box->lo[0] || x + n > box->hi[0] || y0 < box->lo[1]
        || y1 > box->hi[1])
        return false;
    return vp_convolve_makes_up(p)
           || (x - (p->n[0] - 1 - p->centre[0]) >= j->lo[0] && x + n + p->centre[0] <= j->hi[0]
               && y0 - (p->n[1] - 1 - p->centre[1]) >= j->lo[1] && y1 + p->centre[1] <= j->hi[1]);
}

/* n columns of rows y0 ... y1 - 1 from w->store[0]. */
static void store_columns(const struct vp_convolve_job *j, struct work *w, int64_t x, int64_t n, int64_t y0, int64_t y1,
                          int64_t z, struct vp_convolve_less less)
{
    struct vp_convolve_ending ending[CHUNK * 16];
    const struct vp_box *box = &j->out->box;
    const int64_t load = w->s.load;

    if (is_plain(j, x, n, y0, y1)) {
        float *const to = (float *)j->out->plane[z - box->lo[2]] + (y0 - box->lo[1]) * j->out->stride + x - box->lo[0];
        j->c->isa->store_rows(to, j->out->stride, w->store[0], load, y1 - y0, (float)vp_convolve_more(j->p, &less), n);
        return;
    }
    less.ending = ending;
    for (int64_t r = 0; r < y1 - y0; r++)
        vp_convolve_store(j, w->store[0] + r * load, x, n, y0 + r, z, &less);
}

/* ---- cells: one kernel of images, or a grid with weights of the output ---- */

static const float *spectrum_at(const struct vp_convolve_job *j, const struct work *w, int64_t u, int64_t v)
{
    return w->spectra + (v % w->node_rows * j->p->nodes[0] + u) * w->s.spectrum;
}

/* Rows of a cell's tile: of columns at f to columns at g, of each row of nodes. */
struct cell_rows {
    const struct vp_convolve_job *j;
    float *const *f, *const *g[2];
    int64_t u[2], v[2];        /* nodes */
    int64_t from, new;
    const float *before, *after;
};

static void cell_rows(const void *of, struct work *w, int64_t q)
{
    const struct cell_rows *const t = of;
    const struct vp_convolve_cpu *c = t->j->c;
    const struct sizes *s = &w->s;
    const int64_t *u = t->u, *v = t->v, at = q * s->x * s->e, from = t->from * s->e;

    c->fft->gather(w->x, (const float *const *)t->f, q * s->lanes, s->blocks);
    if (!vp_convolve_is_grid(t->j->p)) {
        c->fft->convolve(&c->along[0], w->x, w->spectra + at);
        c->fft->scatter(w->x + from, t->g[0], q * s->lanes, t->new);
        return;
    }
    c->fft->forward(&c->along[0], w->x, 1);
    for (int64_t b = v[0]; b <= v[1]; b++) {
        for (int64_t a = u[0]; a <= u[1]; a++) {
            const float *const next = a < u[1]   ? spectrum_at(t->j, w, a + 1, b) + at
                                      : b < v[1] ? spectrum_at(t->j, w, u[0], b + 1) + at
                                      : q + 1 < s->groups ? spectrum_at(t->j, w, u[0], v[0]) + at + s->x * s->e : NULL;
            c->fft->product_back(&c->along[0], w->x, spectrum_at(t->j, w, a, b) + at, w->y[a - u[0]], next);
        }
        if (u[1] > u[0])
            c->fft->scatter_sum(w->y[0] + from, w->y[1] + from, t->before, t->after, t->g[b - v[0]], q * s->lanes, t->new);
        else
            c->fft->scatter(w->y[0] + from, t->g[b - v[0]], q * s->lanes, t->new);
    }
}

/* The tiles that have a constant in common with number ix of a row, and what it is. */
static double base_of(const struct vp_convolve_job *j, int64_t ix, int64_t iy, int64_t z)
{
    const struct vp_convolve_cpu *c = j->c;
    const int64_t run = c->tiles == VP_STRIPS ? VP_RUN : 1, first = ix / run * run;
    const struct vp_box box = {{c->at[0][first], c->at[1][iy], z},
                               {c->at[0][vp_min64(first + run, c->n_at[0])], c->at[1][iy + 1], z + 1}};

    return vp_convolve_constant(j, &box, z);
}

/* Tiles x0 ... x1 - 1 of row iy of tiles. Blocks of columns begin at multiples of 16 from the image's first tile on. */
static int cells(const struct vp_convolve_job *j, struct work *w, int64_t x0, int64_t x1, int64_t iy, int64_t z,
                 struct vp_err *err)
{
    const struct vp_convolve_params *p = j->p;
    const struct vp_convolve_cpu *c = j->c;
    const struct sizes *s = &w->s;
    const int64_t y0 = c->at[1][iy], cy = c->cell[1][iy], rows = c->at[1][iy + 1] - y0, lost = p->n[1] - 1, over = p->n[0] - 1;
    const int64_t v[2] = {vp_max64(cy - 1, 0), vp_min64(cy, p->nodes[1] - 1)}, top = y0 + p->centre[1] - lost;
    const int64_t left = p->centre[0] - over, block = s->rows * s->e, hi = lost + rows;
    float before[MOST * 4], after[MOST * 4];
    float *f[MOST], *g[2][MOST];
    struct columns columns = {.j = j, .w = w, .x = left, .y = top, .z = z};

    w->bad = false;
    find_rows(j, w, top, z);
    for (int64_t b = 0; b < s->blocks; b++) {
        g[0][b] = w->g[0] + b * block;
        g[1][b] = w->g[1] + b * block;
    }
    for (int64_t ix = x0; ix < x1; ix++) {
        const int64_t x = c->at[0][ix], n = c->at[0][ix + 1] - x, cx = c->cell[0][ix];
        const int64_t u[2] = {vp_max64(cx - 1, 0), vp_min64(cx, p->nodes[0] - 1)}, new = (n + s->lanes - 1) / s->lanes;
        const int64_t first = x / 16 * 16 / s->lanes, shift = x % 16;
        if (c->tiles == VP_CELLS || ix == x0 || ix % VP_RUN == 0) {
            columns.base = base_of(j, ix, iy, z);
            columns.have = first;
        }
        const struct vp_convolve_less less = {.base = columns.base};
        load_tile_columns(&columns, first, f);
        if (vp_convolve_is_spiked(p, w->most, c->tile[0], less.base)) {
            const struct vp_box box = {{x, y0, z}, {x + n, y0 + rows, z + 1}};
            if (vp_convolve_sum(j, &box, less.base, NULL, err))
                return -1;
            continue;
        }
        for (int64_t i = 0; u[1] > u[0] && i < new * s->lanes; i++) {
            after[i] = i < n ? p->after[0][x + i] : 0;
            before[i] = i < n ? 1 - after[i] : 0;
        }
        const struct cell_rows work = {j, f, {g[0], g[1]}, {u[0], u[1]}, {v[0], v[1]}, over + shift, new, before, after};
        together(w, s->groups, cell_rows, &work);
        for (int64_t i = 0; i < n; i += CHUNK * 16) {
            const int64_t m = vp_min64(n - i, CHUNK * 16);
            for (int64_t b = v[0]; b <= v[1]; b++)
                for (int64_t k = 0; k < m; k += s->lanes)
                    c->fft->columns_back(&c->along[1], g[b - v[0]][(i + k) / s->lanes],
                                         w->store[b - v[0]] + k - lost * s->load, s->load, lost, hi);
            for (int64_t r = 0; v[1] > v[0] && r < rows; r++) {
                float *const row = w->store[0] + r * s->load;
                const float second = p->after[1][y0 + r];
                c->isa->blend(row, row, 1 - second, w->store[1] + r * s->load, second, m);
            }
            store_columns(j, w, x + i, m, y0, y0 + rows, z, less);
        }
    }
    const struct vp_box box = {{c->at[0][x0], y0, z}, {c->at[0][x1], y0 + rows, z + 1}};
    return w->bad ? vp_convolve_spoil(j, &box, err) : 0;
}

/* ---- general tiles ---- */

/* Samples of a tile from origin[] on into frequencies along the first axis and y; those of node (u, v) by their weights
 * where there are several. */
struct tile {
    const struct vp_convolve_job *j;
    struct work *w;            /* the owner's */
    int64_t origin[3];
    int64_t u, v;              /* nodes */
    bool weighted, more;
    bool looks;                /* for what the largest magnitudes are */
    double base;
    const float *k;            /* the spectrum */
    const int64_t *at;         /* results */
    float *to;
};

static void load_plane(const void *of, struct work *w, int64_t mid)
{
    const struct tile *const t = of;
    const struct vp_convolve_cpu *c = t->j->c;
    const struct sizes *s = &w->s;

    for (int64_t r = 0; r < c->tile[c->first]; r++) {
        const int64_t y = t->origin[1] + (c->first == 1 ? r : mid), z = t->origin[2] + (c->first == 1 ? 0 : r);
        float *const row = w->load + r * s->load;
        if (vp_convolve_load(t->j, row, t->origin[0], s->x, y, z, t->base))
            __atomic_store_n(&t->w->bad, true, __ATOMIC_RELAXED);
        if (t->looks)
            t->w->most[mid * c->tile[c->first] + r] = c->isa->most(row, false, s->x);
        if (t->weighted)
            c->isa->scale(row, (float)vp_convolve_weight(t->j->p, 1, t->v, y), s->x);
    }
    for (int64_t b = 0; b < s->blocks; b++)
        c->fft->columns(&c->along[c->first], w->load + b * s->lanes, s->load, w->less,
                        t->w->f + (b * s->mid + mid) * s->rows * s->e);
}

static void load_tile(const struct tile *t)
{
    const struct sizes *s = &t->w->s;

    together(t->w, s->mid, load_plane, t);
    if (s->mid > 1)
        together(t->w, s->blocks, along_y, &(struct along_y){t->j->c, t->w->f, false});
}

/* Rows of a tile of one kernel in one piece: what they become stays in the blocks of columns. */
static void convolve_rows(const void *of, struct work *w, int64_t i)
{
    const struct tile *const t = of;
    const struct vp_convolve_cpu *c = t->j->c;
    const struct sizes *s = &w->s;
    const int64_t at = i % s->groups * s->lanes;
    float *f[MOST];

    pointers(s, t->w->f, i / s->groups, f, s->blocks);
    c->fft->gather(w->x, (const float *const *)f, at, s->blocks);
    c->fft->convolve(&c->along[0], w->x, t->k + i * s->x * s->e);
    c->fft->scatter(w->x + (c->piece[0] - 1) * s->e, f, at, c->out[0] / s->lanes);
}

/* Rows of a tile, times a spectrum, to or onto the sum; those of node u by its weights where there are several. */
static void add_rows(const void *of, struct work *w, int64_t i)
{
    const struct tile *const t = of;
    const struct vp_convolve_cpu *c = t->j->c;
    const struct sizes *s = &w->s;
    float *f[MOST];

    pointers(s, t->w->f, i / s->groups, f, s->blocks);
    c->fft->gather(w->x, (const float *const *)f, i % s->groups * s->lanes, s->blocks);
    for (int64_t x = 0; t->weighted && x < s->x; x++)
        c->isa->scale(w->x + x * s->e, t->w->along[x], s->e);
    c->fft->forward(&c->along[0], w->x, 1);
    c->fft->product(t->w->sum + i * s->x * s->e, w->x, t->k + i * s->x * s->e, s->x, t->more);
}

/* The sum back to rows in the blocks of columns. */
static void sum_back(const void *of, struct work *w, int64_t i)
{
    const struct tile *const t = of;
    const struct vp_convolve_cpu *c = t->j->c;
    const struct sizes *s = &w->s;
    float *const sum = t->w->sum + i * s->x * s->e, *f[MOST];

    pointers(s, t->w->f, i / s->groups, f, s->blocks);
    c->fft->back(&c->along[0], sum, 1);
    c->fft->scatter(sum + (c->piece[0] - 1) * s->e, f, i % s->groups * s->lanes, c->out[0] / s->lanes);
}

/* Columns back to results: of volumes those of a y. */
static void store_plane(const void *of, struct work *w, int64_t y)
{
    const struct tile *const t = of;
    const struct vp_convolve_cpu *c = t->j->c;
    const struct sizes *s = &w->s;
    const int first = c->first;
    const int64_t lost = c->piece[first] - 1, mid = first == 2 ? c->piece[1] - 1 + y : 0;

    for (int64_t b = 0; b < c->out[0] / s->lanes; b++)
        c->fft->columns_back(&c->along[first], t->w->f + (b * s->mid + mid) * s->rows * s->e,
                             w->store[0] + b * s->lanes - lost * s->load, s->load, lost, lost + c->out[first]);
    for (int64_t r = 0; r < c->out[first]; r++) {
        float *const row = w->store[0] + r * s->load;
        const int64_t oy = first == 1 ? r : y, oz = first == 1 ? 0 : r;
        if (t->to) {
            memcpy(t->to + (oz * c->out[1] + oy) * c->out[0], row, (size_t)c->out[0] * sizeof *t->to);
            continue;
        }
        vp_convolve_store(t->j, row, t->at[0], c->out[0], t->at[1] + oy, t->at[2] + oz,
                          &(struct vp_convolve_less){.base = t->base});
    }
}

/* The result of one tile at `at`, into the output, or to `to` if that is not NULL: [z][y][x] of out[], of samples that have
 * `base` taken off. False: none, for samples stand out. */
static bool tile(const struct vp_convolve_job *j, struct work *w, const int64_t at[3], float *to, double base)
{
    const struct vp_convolve_params *p = j->p;
    const struct vp_convolve_cpu *c = j->c;
    const struct sizes *s = &w->s;
    const int64_t pieces = c->pieces[0] * c->pieces[1] * c->pieces[2], rows = s->mid * s->groups;
    struct tile t = {.j = j, .w = w, .weighted = vp_convolve_is_grid(p), .base = base, .k = w->spectra, .at = at,
                     .to = to};

    for (int64_t q = 0; q < pieces; q++) {
        const int64_t piece[3] = {q % c->pieces[0], q / c->pieces[0] % c->pieces[1], q / c->pieces[0] / c->pieces[1]};
        int64_t u0 = 0, u1 = 0, v0 = 0, v1 = 0;
        for (int a = 0; a < 3; a++)
            t.origin[a] = at[a] + p->centre[a] - piece[a] * c->piece[a] - (c->piece[a] - 1);
        if (t.weighted) {
            vp_convolve_nodes_near(p, 0, t.origin[0], t.origin[0] + c->tile[0], &u0, &u1);
            vp_convolve_nodes_near(p, 1, t.origin[1], t.origin[1] + c->tile[1], &v0, &v1);
        }
        for (t.v = v0; t.v <= v1; t.v++) {
            t.looks = p->in == VP_F32 && t.v == v0;
            load_tile(&t);
            if (t.looks && vp_convolve_is_spiked(p, w->most, c->tile[c->first] * s->mid, base))
                return false;
            for (t.u = u0; t.u <= u1 && needs_sum(p); t.u++) {
                for (int64_t x = 0; t.weighted && x < s->x; x++)
                    w->along[x] = (float)vp_convolve_weight(p, 0, t.u, t.origin[0] + x);
                t.k = w->spectra + ((t.v * p->nodes[0] + t.u) * pieces + q) * s->spectrum;
                together(w, rows, add_rows, &t);
                t.more = true;
            }
        }
    }
    together(w, rows, needs_sum(p) ? sum_back : convolve_rows, &t);
    if (s->mid > 1)
        together(w, c->out[0] / s->lanes, along_y, &(struct along_y){c, w->f, true});
    together(w, c->first == 2 ? c->out[1] : 1, store_plane, &t);
    return true;
}

static int general(const struct vp_convolve_job *j, struct work *w, const int64_t at[3], struct vp_err *err)
{
    const struct vp_convolve_cpu *c = j->c;
    const bool sources = j->p->weights == VP_WEIGHTS_SOURCE;
    const struct vp_box box = {{at[0], at[1], at[2]}, {at[0] + c->out[0], at[1] + c->out[1], at[2] + c->out[2]}};
    const double base = vp_convolve_constant(j, &box, at[2]);

    w->bad = false;
    if (!tile(j, w, at, sources ? w->image : NULL, base) && vp_convolve_sum(j, &box, base, sources ? w->image : NULL, err))
        return -1;
    if (sources)
        vp_convolve_store_source(j, &w->ones, at, w->image, base);
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

/* What is left to do of a box: runs of tiles along x. Whoever takes one makes first those spectra that it needs and
 * nobody has begun, which so are in the caches of a processor that reads them, and then waits for the others. He
 * waits only for tiles that were taken before his, so nobody waits in a circle, and there is no point where all wait
 * for all. */
struct tasks {
    const struct vp_convolve_job *j;
    int64_t from[3], n[3];     /* tiles (of cells their numbers; of general ones voxels, and how many tiles) */
    int threads;
    bool make;                 /* the spectra, too */
    float *spectra;
    int64_t kinds;             /* of a row of nodes */
    int64_t ring;              /* rows of nodes that are in memory */
    pthread_mutex_t lock;      /* of what comes next: */
    int64_t y, z, x, left;     /* tiles, and how many */
    int64_t *made;             /* of each spectrum BEGUN or MADE */
    int64_t *done, tiles;      /* tiles of each row of tiles that are done, and of all */
    struct vp_team_loop *loop; /* of each thread */
};

enum { BEGUN = 1, MADE };

struct task { int64_t row, i, z, n; };

/* Rows of nodes that row y of tiles needs, v[0] ... v[1]. */
static void rows_of(const struct tasks *t, int64_t y, int64_t v[2])
{
    const struct vp_convolve_cpu *c = t->j->c;
    const int64_t last = t->j->p->nodes[1] - 1, cell = c->tiles == VP_GENERAL ? 0 : c->cell[1][t->from[1] + y];

    v[0] = vp_max64(cell - 1, 0);
    v[1] = c->tiles == VP_GENERAL ? last : vp_min64(cell, last);
}

static bool next_task(struct tasks *t, struct task *k)
{
    pthread_mutex_lock(&t->lock);
    const bool any = t->left > 0;
    if (any) { /* long runs at first, which share columns and spectra */
        int64_t n = t->threads > 1 ? t->left / t->threads : t->n[0];
        if (t->threads > 1 && t->ring < t->j->p->nodes[1]) /* all are within as many rows as have their spectra there */
            n = vp_min64(n, t->n[0] * t->n[2] * (t->ring - 3) / t->threads);
        n = t->j->c->tiles == VP_GENERAL ? 1 : vp_min64(vp_max64(n, 1), t->n[0] - t->x);
        *k = (struct task){.row = t->y, .i = t->x, .z = t->z, .n = n};
        t->left -= n;
        t->x += n;
        if (t->x == t->n[0]) {
            t->x = 0;
            t->z++;
        }
        if (t->z == t->n[2]) {
            t->z = 0;
            t->y++;
        }
    }
    pthread_mutex_unlock(&t->lock);
    return any;
}

static void make_spectrum(struct tasks *t, struct work *w, int64_t row, int64_t i)
{
    const struct vp_convolve_params *p = t->j->p;
    const int64_t *pieces = t->j->c->pieces, some = pieces[0] * pieces[1] * pieces[2], q = i % some;
    int64_t v[2];

    for (int64_t y = 0; y < t->n[1] && row >= t->ring; y++) { /* whose place it takes */
        rows_of(t, y, v);
        if (v[0] > row - t->ring)
            break;
        vp_team_wait(&t->done[y], t->n[0] * t->n[2]);
    }
    spectrum_of(p, w, row * p->nodes[0] + i / some,
                (const int64_t[3]){q % pieces[0], q / pieces[0] % pieces[1], q / pieces[0] / pieces[1]},
                t->spectra + (row % t->ring * t->kinds + i) * w->s.spectrum);
}

/* Spectra a ... b of rows v[0] ... v[1] of nodes, as far as nobody has begun them; and if they are wanted, all of
 * them. */
static void make_spectra(struct tasks *t, struct work *w, const int64_t v[2], int64_t a, int64_t b, bool wanted)
{
    for (int64_t row = v[0]; row <= v[1]; row++)
        for (int64_t i = a; i <= b; i++) {
            int64_t *const made = &t->made[row * t->kinds + i], none = 0;
            if (__atomic_compare_exchange_n(made, &none, BEGUN, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
                make_spectrum(t, w, row, i);
                __atomic_store_n(made, MADE, __ATOMIC_RELEASE);
            }
        }
    for (int64_t row = v[0]; row <= v[1] && wanted; row++)
        for (int64_t i = a; i <= b; i++)
            vp_team_wait(&t->made[row * t->kinds + i], MADE);
}

static int do_tiles(struct tasks *t, struct work *w, const struct task *k, struct vp_err *err)
{
    const struct vp_convolve_job *j = t->j;
    const struct vp_convolve_cpu *c = j->c;
    const int64_t x = t->from[0] + k->i, y = t->from[1] + k->row, z = t->from[2] + k->z;
    const bool cut = c->tiles != VP_GENERAL;
    int64_t v[2];
    int rc;

    rows_of(t, k->row, v);
    if (t->make)
        make_spectra(t, w, v, cut ? vp_max64(c->cell[0][x] - 1, 0) : 0,
                     cut ? vp_min64(c->cell[0][x + k->n - 1], t->kinds - 1) : t->kinds - 1, true);
    if (cut) {
        rc = cells(j, w, x, x + k->n, y, z, err);
    } else {
        const int64_t at[3] = {t->from[0] + k->i * c->out[0], t->from[1] + k->row * c->out[1], t->from[2] + k->z * c->out[2]};
        rc = general(j, w, at, err);
    }
    __atomic_add_fetch(&t->done[k->row], k->n, __ATOMIC_RELEASE);
    __atomic_add_fetch(&t->tiles, k->n, __ATOMIC_RELAXED);
    return rc;
}

/* Turns of the others' loops, until all tiles are done, or there was nothing to do for some milliseconds. */
static void help(struct tasks *t, struct work *w)
{
    enum { ENOUGH = 20000 };
    const int64_t all = t->n[0] * t->n[1] * t->n[2];

    for (int idle = 0; idle < ENOUGH && __atomic_load_n(&t->tiles, __ATOMIC_RELAXED) < all;) {
        idle = vp_team_help(t->loop, t->threads, w) ? 0 : idle + 1;
        vp_team_pause(idle);
    }
}

/* All of a box. */
static int run_tasks(struct tasks *t, char *scratch, size_t bytes, struct vp_err *err)
{
    const struct vp_convolve_params *p = t->j->p;
    const int64_t rows[2] = {0, p->nodes[1] - 1};
    int rc = 0;

    t->left = t->n[0] * t->n[1] * t->n[2];
    t->made = vp_alloc((size_t)(p->nodes[1] * t->kinds + t->n[1]), sizeof *t->made, "a list of tiles", err);
    t->loop = vp_alloc((size_t)t->threads, sizeof *t->loop, "a list of loops", err);
    if (!t->made || !t->loop) {
        free(t->made);
        free(t->loop);
        return -1;
    }
    t->done = t->made + p->nodes[1] * t->kinds;
    pthread_mutex_init(&t->lock, NULL);
    #pragma omp parallel num_threads(t->threads)
    {
        struct vp_err own = VP_ERR_INIT;
        struct task task;
        struct work w;
        lay_out(&w, p, scratch + (size_t)omp_get_thread_num() * bytes);
        w.spectra = t->spectra;
        w.node_rows = t->ring;
        w.loop = t->threads > 1 ? &t->loop[omp_get_thread_num()] : NULL;
        while (next_task(t, &task))
            if (do_tiles(t, &w, &task, &own)) {
                vp_err_keep(err, &own);
                #pragma omp atomic write
                rc = -1;
            }
        if (t->make && t->ring == p->nodes[1]) /* also those that this box has no use for, if they are to stay */
            make_spectra(t, &w, rows, 0, t->kinds - 1, false);
        if (t->threads > 1)
            help(t, &w);
    }
    pthread_mutex_destroy(&t->lock);
    free(t->loop);
    free(t->made);
    return rc;
}

/* With spectra that stay: whoever comes first makes them. */
static int run_keeping(struct tasks *t, char *scratch, size_t bytes, struct vp_err *err)
{
    struct vp_convolve_cpu *c = t->j->p->cpu;
    int rc = 0;

    pthread_mutex_lock(&c->lock);
    const bool make = t->make = !c->made;
    if (!c->spectra)
        c->spectra = vp_alloc_raw(1, (size_t)vp_convolve_spectra(t->j->p), "the kernels' transforms", err);
    t->spectra = c->spectra;
    if (!make)
        pthread_mutex_unlock(&c->lock);
    rc = t->spectra ? run_tasks(t, scratch, bytes, err) : -1;
    if (make) {
        c->made = !rc;
        pthread_mutex_unlock(&c->lock);
    }
    return rc;
}

int vp_convolve_fft(struct vp_convolve_job *j, void *scratch, int threads, struct vp_err *err)
{
    const struct vp_convolve_params *p = j->p;
    const struct vp_convolve_cpu *c = j->c;
    const struct vp_box *out = &j->out->box;
    struct work ignored;
    const size_t bytes = lay_out(&ignored, p, NULL);
    struct tasks t = {.j = j, .from = {out->lo[0], out->lo[1], out->lo[2]}, .threads = threads, .ring = node_rows(p, threads),
                      .kinds = p->nodes[0] * c->pieces[0] * c->pieces[1] * c->pieces[2]};

    for (int a = 0; a < 3; a++)
        t.n[a] = (vp_box_size(out, a) + c->out[a] - 1) / c->out[a];
    for (int a = 0; c->tiles != VP_GENERAL && a < 2; a++) {
        cells_of(c, out, a, &t.from[a], &t.n[a]);
        t.n[a] -= t.from[a];
    }
    if (c->keeps)
        return run_keeping(&t, scratch, bytes, err);
    t.make = true;
    t.spectra = scratch;
    return run_tasks(&t, (char *)scratch + rows_bytes(p, threads), bytes, err);
}
