/* SPDX-License-Identifier: BSD-3-Clause */
/* Convolution by transforms: general tiles, of volumes, of kernels in pieces, and of weights of the source. */
#include "local/convolve_internal.h"

#include "base/size.h"

#include <string.h>

/* Loops over a tile of samples from origin[] on. Node (u, v) of several: its samples are multiplied by their weights. */
struct convolve_tile {
    const struct vp_convolve_job *j;
    struct vp_convolve_work *w; /* the owner's */
    int64_t origin[3];
    int64_t u, v;              /* node */
    bool weighted, more;       /* several nodes; products are added to the sum */
    bool records;                /* largest magnitudes are recorded in w->most */
    double base;               /* constant that is subtracted */
    const float *k;            /* spectrum */
    const int64_t *at;         /* first result */
    float *to;                 /* results; NULL: the output */
};

/* Turn: loads plane or row `mid` of the tile and transforms it along the first axis. */
static void load_plane(const void *of, struct vp_convolve_work *w, int64_t mid)
{
    const struct convolve_tile *const t = of;
    const struct vp_convolve_cpu *c = t->j->c;
    const struct vp_convolve_sizes *s = &w->s;

    for (int64_t r = 0; r < c->tile[c->first]; r++) {
        const int64_t y = t->origin[1] + (c->first == 1 ? r : mid), z = t->origin[2] + (c->first == 1 ? 0 : r);
        float *const row = w->load + r * s->load;
        if (vp_convolve_load(t->j, row, t->origin[0], s->x, y, z, t->base))
            __atomic_store_n(&t->w->bad, true, __ATOMIC_RELAXED);
        if (t->records)
            t->w->most[mid * c->tile[c->first] + r] = c->isa->most(row, false, s->x);
        if (t->weighted)
            c->isa->scale(row, (float)vp_convolve_weight(t->j->p, 1, t->v, y), s->x);
    }
    for (int64_t b = 0; b < s->blocks; b++)
        c->fft->columns(&c->along[c->first], w->load + b * s->lanes, s->load, w->less,
                        t->w->f + (b * s->mid + mid) * s->rows * s->e);
}

/* Loads the tile and transforms it along the first axis and y. */
static void load_tile(const struct convolve_tile *t)
{
    const struct vp_convolve_sizes *s = &t->w->s;

    vp_convolve_together(t->w, s->mid, load_plane, t);
    if (s->mid > 1)
        vp_convolve_together(t->w, s->blocks, vp_convolve_along_y, &(struct vp_convolve_along_y){t->j->c, t->w->f, false});
}

/* Turn: convolves group i of rows with one kernel in one piece, in the blocks of columns. */
static void convolve_rows(const void *of, struct vp_convolve_work *w, int64_t i)
{
    const struct convolve_tile *const t = of;
    const struct vp_convolve_cpu *c = t->j->c;
    const struct vp_convolve_sizes *s = &w->s;
    const int64_t at = i % s->groups * s->lanes;
    float *f[VP_CONVOLVE_MAX_BLOCKS];

    vp_convolve_blocks_at(s, t->w->f, i / s->groups, f, s->blocks);
    c->fft->gather(w->x, (const float *const *)f, at, s->blocks);
    c->fft->convolve(&c->along[0], w->x, t->k + i * s->x * s->e);
    c->fft->scatter(w->x + (c->piece[0] - 1) * s->e, f, at, c->out[0] / s->lanes);
}

/* Turn: multiplies group i of rows by a spectrum, into or onto the sum; first by the weights of node u, if there are
 * several. */
static void add_rows(const void *of, struct vp_convolve_work *w, int64_t i)
{
    const struct convolve_tile *const t = of;
    const struct vp_convolve_cpu *c = t->j->c;
    const struct vp_convolve_sizes *s = &w->s;
    float *f[VP_CONVOLVE_MAX_BLOCKS];

    vp_convolve_blocks_at(s, t->w->f, i / s->groups, f, s->blocks);
    c->fft->gather(w->x, (const float *const *)f, i % s->groups * s->lanes, s->blocks);
    for (int64_t x = 0; t->weighted && x < s->x; x++)
        c->isa->scale(w->x + x * s->e, t->w->along[x], s->e);
    c->fft->forward(&c->along[0], w->x, 1);
    c->fft->product(t->w->sum + i * s->x * s->e, w->x, t->k + i * s->x * s->e, s->x, t->more);
}

/* Turn: transforms group i of the sum back to rows in the blocks of columns. */
static void sum_back(const void *of, struct vp_convolve_work *w, int64_t i)
{
    const struct convolve_tile *const t = of;
    const struct vp_convolve_cpu *c = t->j->c;
    const struct vp_convolve_sizes *s = &w->s;
    float *const sum = t->w->sum + i * s->x * s->e, *f[VP_CONVOLVE_MAX_BLOCKS];

    vp_convolve_blocks_at(s, t->w->f, i / s->groups, f, s->blocks);
    c->fft->back(&c->along[0], sum, 1);
    c->fft->scatter(sum + (c->piece[0] - 1) * s->e, f, i % s->groups * s->lanes, c->out[0] / s->lanes);
}

/* Turn: transforms columns back to results; of volumes those of row y. */
static void store_plane(const void *of, struct vp_convolve_work *w, int64_t y)
{
    const struct convolve_tile *const t = of;
    const struct vp_convolve_cpu *c = t->j->c;
    const struct vp_convolve_sizes *s = &w->s;
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

/* Makes the tile at `at`, from samples minus `base`, into the output, or into `to` ([z][y][x] of out[]) if that is not
 * NULL. False, and no result: some samples are far above the others. */
static bool tile(const struct vp_convolve_job *j, struct vp_convolve_work *w, const int64_t at[3], float *to,
                 double base)
{
    const struct vp_convolve_params *p = j->p;
    const struct vp_convolve_cpu *c = j->c;
    const struct vp_convolve_sizes *s = &w->s;
    const int64_t pieces = c->pieces[0] * c->pieces[1] * c->pieces[2], rows = s->mid * s->groups;
    struct convolve_tile t = {.j = j, .w = w, .weighted = vp_convolve_is_grid(p), .base = base, .k = w->spectra, .at = at,
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
            t.records = p->in == VP_F32 && t.v == v0;
            load_tile(&t);
            if (t.records && vp_convolve_is_spiked(p, w->most, c->tile[c->first] * s->mid, base))
                return false;
            for (t.u = u0; t.u <= u1 && vp_convolve_needs_sum(p); t.u++) {
                for (int64_t x = 0; t.weighted && x < s->x; x++)
                    w->along[x] = (float)vp_convolve_weight(p, 0, t.u, t.origin[0] + x);
                t.k = w->spectra + ((t.v * p->nodes[0] + t.u) * pieces + q) * s->spectrum;
                vp_convolve_together(w, rows, add_rows, &t);
                t.more = true;
            }
        }
    }
    vp_convolve_together(w, rows, vp_convolve_needs_sum(p) ? sum_back : convolve_rows, &t);
    if (s->mid > 1)
        vp_convolve_together(w, c->out[0] / s->lanes, vp_convolve_along_y, &(struct vp_convolve_along_y){c, w->f, true});
    vp_convolve_together(w, c->first == 2 ? c->out[1] : 1, store_plane, &t);
    return true;
}

int vp_convolve_general(const struct vp_convolve_job *j, struct vp_convolve_work *w, const int64_t at[3],
                        struct vp_err *err)
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
