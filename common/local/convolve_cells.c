/* SPDX-License-Identifier: BSD-3-Clause */
/* Convolution by transforms: tiles of one kernel of images, in strips, and cells of a grid with weights of the output.
 *
 * Cells: where four nodes have weights, a tile is transformed once, multiplied by four spectra, and its rows are
 * transformed back four times. Weights along x are the same in all rows, also in rows of frequencies of y, so the two
 * nodes side by side are added there; two inverse transforms of the columns remain, whose results are added along y. */
#include "local/convolve_internal.h"

#include "base/size.h"

#include <math.h>
#include <string.h>

/* ---- columns of samples ---- */

/* Fills w->row with the addresses of the rows of a tile that begins at y of plane z. */
static void find_rows(const struct vp_convolve_job *j, struct vp_convolve_work *w, int64_t y, int64_t z)
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

/* Columns of a run of tiles, in blocks of lanes; those of the current tile are in the owner's f. */
struct convolve_columns {
    const struct vp_convolve_job *j;
    struct vp_convolve_work *w; /* the owner's */
    int64_t x, y, z;           /* first sample of block 0 */
    int64_t have, end;         /* end of the blocks that are loaded; of those to be loaded */
    double base;               /* constant that is subtracted */
};

/* Turn: loads and transforms the i-th VP_CONVOLVE_CHUNK * 16 columns of those to be loaded. */
static void load_columns(const void *of, struct vp_convolve_work *w, int64_t i)
{
    const struct convolve_columns *const t = of;
    const struct vp_convolve_job *const j = t->j;
    const struct vp_convolve_cpu *c = j->c;
    struct vp_convolve_work *const owner = t->w;
    const int64_t some = VP_CONVOLVE_CHUNK * 16 / w->s.lanes, from = t->have + i * some, blocks = vp_min64(t->end - from, some);
    const int64_t x = t->x + from * w->s.lanes, n = blocks * w->s.lanes;
    const struct vp_convolve_sizes *s = &w->s;
    const int64_t rows = c->tile[1];
    float most[VP_CONVOLVE_CHUNK * 16];
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

/* Loads the missing columns of the tile that begins at block `first`; f[] receives their addresses. */
static void load_tile_columns(struct convolve_columns *t, int64_t first, float **f)
{
    const struct vp_convolve_sizes *s = &t->w->s;
    const int64_t some = VP_CONVOLVE_CHUNK * 16 / s->lanes;

    t->have = vp_max64(t->have, first);
    t->end = first + s->blocks;
    vp_convolve_together(t->w, (t->end - t->have + some - 1) / some, load_columns, t);
    t->have = t->end;
    for (int64_t b = 0; b < s->blocks; b++)
        f[b] = t->w->f + (first + b) % s->blocks * s->rows * s->e;
}

/* True if results x ... x + n - 1 of rows y0 ... y1 - 1 are stored as they are: f32 of one kernel, away from edges. */
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

/* Stores n columns of rows y0 ... y1 - 1 from w->store[0]. */
static void store_columns(const struct vp_convolve_job *j, struct vp_convolve_work *w, int64_t x, int64_t n, int64_t y0,
                          int64_t y1, int64_t z, struct vp_convolve_less less)
{
    struct vp_convolve_ending ending[VP_CONVOLVE_CHUNK * 16];
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

static const float *spectrum_at(const struct vp_convolve_job *j, const struct vp_convolve_work *w, int64_t u, int64_t v)
{
    return w->spectra + (v % w->node_rows * j->p->nodes[0] + u) * w->s.spectrum;
}

/* Loop over groups of rows of a cell's tile: from the columns f to the columns g of each row of nodes. */
struct cell_rows {
    const struct vp_convolve_job *j;
    float *const *f, *const *g[2];
    int64_t u[2], v[2];        /* nodes */
    int64_t from, new;
    const float *before, *after;
};

static void cell_rows(const void *of, struct vp_convolve_work *w, int64_t q)
{
    const struct cell_rows *const t = of;
    const struct vp_convolve_cpu *c = t->j->c;
    const struct vp_convolve_sizes *s = &w->s;
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

/* Loop over groups of columns of a cell's tile: from the columns g of each row of nodes to results. */
struct cell_columns {
    const struct vp_convolve_job *j;
    float *const *g[2];
    int64_t x, n, y, rows, z;  /* first result of the tile, its columns and rows */
    int64_t v[2];              /* nodes */
    int64_t some;              /* columns of a turn */
    double base;
};

static void cell_columns(const void *of, struct vp_convolve_work *w, int64_t q)
{
    const struct cell_columns *const t = of;
    const struct vp_convolve_job *const j = t->j;
    const struct vp_convolve_cpu *c = j->c;
    const struct vp_convolve_sizes *s = &w->s;
    const int64_t i = q * t->some, m = vp_min64(t->n - i, t->some), lost = j->p->n[1] - 1, hi = lost + t->rows;

    for (int64_t b = 0; b <= t->v[1] - t->v[0]; b++)
        for (int64_t k = 0; k < m; k += s->lanes)
            c->fft->columns_back(&c->along[1], t->g[b][(i + k) / s->lanes], w->store[b] + k - lost * s->load, s->load, lost,
                                 hi);
    for (int64_t r = 0; t->v[1] > t->v[0] && r < t->rows; r++) {
        float *const row = w->store[0] + r * s->load;
        const float second = j->p->after[1][t->y + r];
        c->isa->blend(row, row, 1 - second, w->store[1] + r * s->load, second, m);
    }
    store_columns(j, w, t->x + i, m, t->y, t->y + t->rows, t->z, (struct vp_convolve_less){.base = t->base});
}

/* Returns the constant that tile ix of row iy shares with its run of tiles. */
static double base_of(const struct vp_convolve_job *j, int64_t ix, int64_t iy, int64_t z)
{
    const struct vp_convolve_cpu *c = j->c;
    const int64_t run = c->tiles == VP_STRIPS ? VP_RUN : 1, first = ix / run * run;
    const struct vp_box box = {{c->at[0][first], c->at[1][iy], z},
                               {c->at[0][vp_min64(first + run, c->n_at[0])], c->at[1][iy + 1], z + 1}};

    return vp_convolve_constant(j, &box, z);
}

/* Blocks of columns begin at multiples of 16 from the image's first tile on. */
int vp_convolve_cells(const struct vp_convolve_job *j, struct vp_convolve_work *w, int64_t x0, int64_t x1, int64_t iy,
                      int64_t z, struct vp_err *err)
{
    const struct vp_convolve_params *p = j->p;
    const struct vp_convolve_cpu *c = j->c;
    const struct vp_convolve_sizes *s = &w->s;
    const int64_t y0 = c->at[1][iy], cy = c->cell[1][iy], rows = c->at[1][iy + 1] - y0, lost = p->n[1] - 1, over = p->n[0] - 1;
    const int64_t v[2] = {vp_max64(cy - 1, 0), vp_min64(cy, p->nodes[1] - 1)}, top = y0 + p->centre[1] - lost;
    const int64_t left = p->centre[0] - over, block = s->rows * s->e;
    float before[VP_CONVOLVE_MAX_BLOCKS * 4], after[VP_CONVOLVE_MAX_BLOCKS * 4];
    float *f[VP_CONVOLVE_MAX_BLOCKS], *g[2][VP_CONVOLVE_MAX_BLOCKS];
    struct convolve_columns columns = {.j = j, .w = w, .x = left, .y = top, .z = z};

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
        if (w->await)
            w->await(w, u, v);
        vp_convolve_together(w, s->groups, cell_rows, &work);
        /* an idle thread takes a half of a cell */
        const int64_t some = VP_CONVOLVE_CHUNK * 16 / (w->loop && vp_convolve_is_grid(p) ? 2 : 1);
        const struct cell_columns results = {j, {g[0], g[1]}, x, n, y0, rows, z, {v[0], v[1]}, some, columns.base};
        vp_convolve_together(w, (n + some - 1) / some, cell_columns, &results);
    }
    const struct vp_box box = {{c->at[0][x0], y0, z}, {c->at[0][x1], y0 + rows, z + 1}};
    return w->bad ? vp_convolve_spoil(j, &box, err) : 0;
}
