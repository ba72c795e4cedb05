/* SPDX-License-Identifier: BSD-3-Clause */
/* Weighted sums of the present samples, in float64: Gaussians, kernels, non-local means; see missing.h. A voxel adds its
 * samples in an order that is fixed relative to it, so nothing depends on tiles. */
#include "base/isa.h"
#include "base/size.h"
#include "local/convolve.h"
#include "local/missing_internal.h"
#include "local/nlmeans.h"
#include "local/nlmeans_isa.h"
#include "local/separable.h"

#include <math.h>
#include <string.h>

/* Sums of weight x sample, of the weights of present samples, and of those of absent ones. */
enum { VALUE, WEIGHT, GONE, SUMS };

/* Splits n samples into three rows of factors of a weight. */
static void split(const double *v, const uint8_t *state, int64_t n, double *to[SUMS])
{
    for (int64_t i = 0; i < n; i++) {
        to[VALUE][i] = v[i];
        to[WEIGHT][i] = state[i] == VP_PRESENT;
        to[GONE][i] = state[i] == VP_ABSENT;
    }
}

static void add(double *restrict to, const double *restrict from, double weight, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        to[i] += weight * from[i];
}

/* ---- Gaussians: along x, y and z in turn ---- */

struct gauss {
    double *row[SUMS];         /* one row of `seen` */
    double *x[SUMS], *y[SUMS]; /* after the pass along x, and along y */
    double *z[SUMS];           /* one row of the tile */
};

static size_t gauss_layout(const struct vp_missing_work *w, void *own)
{
    const struct vp_missing_params *m = w->m;
    const int64_t nx = own ? vp_box_size(&w->tile, 0) : m->side[0], ny = own ? vp_box_size(&w->tile, 1) : m->side[1];
    struct gauss *kept, here;
    size_t bytes = 0;

    kept = vp_place(own, &bytes, sizeof *kept);
    for (int i = 0; i < SUMS; i++) {
        here.row[i] = vp_place(own, &bytes, (size_t)w->n[0] * sizeof(double));
        here.x[i] = vp_place(own, &bytes, (size_t)(nx * w->n[1] * w->n[2]) * sizeof(double));
        here.y[i] = vp_place(own, &bytes, (size_t)(nx * ny * w->n[2]) * sizeof(double));
        here.z[i] = vp_place(own, &bytes, (size_t)nx * sizeof(double));
    }
    if (kept)
        *kept = here;
    return bytes;
}

/* Adds 2 R + 1 rows, `step` apart, with the weights of an axis. */
static void add_rows(double *to, const double *from, int64_t step, const struct vp_taps *t, int64_t n)
{
    memset(to, 0, (size_t)n * sizeof *to);
    for (int64_t k = -t->radius; k <= t->radius; k++)
        add(to, from + (k + t->radius) * step, t->radius ? t->bell[k < 0 ? -k : k] : 1, n);
}

static void gauss_prepare(struct vp_missing_work *w)
{
    const struct vp_separable *p = w->m->inner.params;
    const struct gauss *g = w->own;
    const int64_t nx = vp_box_size(&w->tile, 0), ny = vp_box_size(&w->tile, 1), rows = w->n[1] * w->n[2];

    for (int64_t r = 0; r < rows; r++) {
        split(w->v + r * w->n[0], w->state + r * w->n[0], w->n[0], (double **)(uintptr_t)g->row);
        for (int i = 0; i < SUMS; i++)
            add_rows(g->x[i] + r * nx, g->row[i], 1, &p->taps[0][0], nx);
    }
    for (int64_t z = 0; z < w->n[2]; z++)
        for (int64_t y = 0; y < ny; y++)
            for (int i = 0; i < SUMS; i++)
                add_rows(g->y[i] + (z * ny + y) * nx, g->x[i] + (z * w->n[1] + y) * nx, nx, &p->taps[1][0], nx);
}

static void gauss_row(struct vp_missing_work *w, int64_t y, int64_t z)
{
    const struct vp_separable *p = w->m->inner.params;
    const struct gauss *g = w->own;
    const int64_t nx = vp_box_size(&w->tile, 0), ny = vp_box_size(&w->tile, 1);
    const int64_t at = ((z - w->tile.lo[2]) * ny + y - w->tile.lo[1]) * nx, first = vp_missing_at(w, w->tile.lo[0], y, z);
    const int32_t *const near = vp_missing_near(w, y, z);

    for (int i = 0; i < SUMS; i++)
        add_rows(g->z[i], g->y[i] + at, nx * ny, &p->taps[2][0], nx);
    for (int64_t x = 0; x < nx; x++) {
        if (!near[x])
            continue;
        w->what[x] = vp_missing_decide(w, first + x, g->z[WEIGHT][x], g->z[GONE][x]);
        w->result[x] = g->z[VALUE][x] / g->z[WEIGHT][x];
        if (p->highpass && w->state[first + x] == VP_ABSENT)
            w->what[x] = VP_HOLE;
        if (p->highpass)
            w->result[x] = w->v[first + x] - w->result[x];
    }
}

const struct vp_missing_rule vp_missing_gauss = {gauss_layout, gauss_prepare, gauss_row};

/* ---- any kernel ---- */

struct kernel {
    double *seen[SUMS];
    double *sum[SUMS]; /* one row of the tile */
};

static size_t kernel_layout(const struct vp_missing_work *w, void *own)
{
    const size_t all = (size_t)(w->n[0] * w->n[1] * w->n[2]);
    struct kernel *kept, here;
    size_t bytes = 0;

    kept = vp_place(own, &bytes, sizeof *kept);
    for (int i = 0; i < SUMS; i++) {
        here.seen[i] = vp_place(own, &bytes, all * sizeof(double));
        here.sum[i] = vp_place(own, &bytes, (size_t)w->m->side[0] * sizeof(double));
    }
    if (kept)
        *kept = here;
    return bytes;
}

static void kernel_prepare(struct vp_missing_work *w)
{
    const struct kernel *k = w->own;

    split(w->v, w->state, w->n[0] * w->n[1] * w->n[2], (double **)(uintptr_t)k->seen);
}

static void kernel_row(struct vp_missing_work *w, int64_t y, int64_t z)
{
    const struct vp_convolve_params *p = w->m->inner.params;
    const struct kernel *g = w->own;
    const int64_t n = vp_box_size(&w->tile, 0), first = vp_missing_at(w, w->tile.lo[0], y, z);
    const int64_t *const c = p->centre;
    const int32_t *const near = vp_missing_near(w, y, z);
    /* the sample at the place of the result: of a valid one it is not where the kernel's centre lies */
    const int64_t self = ((p->first[2] + p->pad_lo[2]) * w->n[1] + p->first[1] + p->pad_lo[1]) * w->n[0] + p->first[0]
                         + p->pad_lo[0];
    double total = 0;

    for (int i = 0; i < SUMS; i++)
        memset(g->sum[i], 0, (size_t)n * sizeof(double));
    for (int64_t k = 0, kz = 0; kz < p->n[2]; kz++)
        for (int64_t ky = 0; ky < p->n[1]; ky++)
            for (int64_t kx = 0; kx < p->n[0]; kx++, k++) {
                const double weight = p->exact ? p->exact[k] : p->kernels[k];
                const int64_t from = first + ((c[2] - kz) * w->n[1] + c[1] - ky) * w->n[0] + c[0] - kx;
                total += weight;
                for (int i = 0; i < SUMS && weight > 0; i++)
                    add(g->sum[i], g->seen[i] + from, weight, n);
            }
    for (int64_t x = 0; x < n; x++) {
        if (!near[x])
            continue;
        w->what[x] = vp_missing_decide(w, first + self + x, g->sum[WEIGHT][x], g->sum[GONE][x]);
        w->result[x] = g->sum[VALUE][x] / g->sum[WEIGHT][x] * (p->total ? p->total[0] : total);
    }
}

const struct vp_missing_rule vp_missing_convolve = {kernel_layout, kernel_prepare, kernel_row};

/* ---- non-local means ---- */

/* Sums of squared differences and of pairs, of one offset between voxel and candidate. */
enum { SQUARE, PAIRS, BOTH };

struct means {
    double *present;           /* 1 for present samples of `seen`, else 0 */
    double *d[BOTH];           /* tile grown by the patch */
    double *y[BOTH];           /* summed along y: grown in x and z */
    double *z[BOTH];           /* one row, summed along z, too: grown in x */
    double *x[BOTH];           /* and along x */
    float *power;              /* exponents of a row's weights, and the weights; */
    double *power_f64;         /* the same of f64 */
    double *total, *value;     /* sums of the tile */
    int32_t *there, *gone;     /* candidates of the tile's voxels that are present, and that are missing */
};

static size_t means_layout(const struct vp_missing_work *w, void *own)
{
    const struct vp_missing_params *m = w->m;
    const struct vp_nlmeans_params *p = m->inner.params;
    const size_t tile = (size_t)(m->side[0] * m->side[1] * m->side[2]);
    const size_t nx = (size_t)(m->side[0] + 2 * p->patch[0]), ny = (size_t)(m->side[1] + 2 * p->patch[1]);
    const size_t nz = (size_t)(m->side[2] + 2 * p->patch[2]);
    struct means *kept, here;
    size_t bytes = 0;

    kept = vp_place(own, &bytes, sizeof *kept);
    here.present = vp_place(own, &bytes, (size_t)(w->n[0] * w->n[1] * w->n[2]) * sizeof(double));
    for (int i = 0; i < BOTH; i++) {
        here.d[i] = vp_place(own, &bytes, nx * ny * nz * sizeof(double));
        here.y[i] = vp_place(own, &bytes, nx * (size_t)m->side[1] * nz * sizeof(double));
        here.z[i] = vp_place(own, &bytes, nx * sizeof(double));
        here.x[i] = vp_place(own, &bytes, (size_t)m->side[0] * sizeof(double));
    }
    here.power = vp_place(own, &bytes, ((size_t)m->side[0] + VP_NLMEANS_LANES) * sizeof *here.power);
    here.power_f64 = vp_place(own, &bytes, ((size_t)m->side[0] + VP_NLMEANS_LANES) * sizeof *here.power_f64);
    here.total = vp_place(own, &bytes, tile * sizeof(double));
    here.value = vp_place(own, &bytes, tile * sizeof(double));
    here.there = vp_place(own, &bytes, tile * sizeof(int32_t));
    here.gone = vp_place(own, &bytes, tile * sizeof(int32_t));
    if (kept)
        *kept = here;
    return bytes;
}

/* Fills a row of squared differences and of pairs; a, b: its two samples in `seen`. */
static void differ(const struct vp_missing_work *w, const struct means *k, int64_t a, int64_t b, int64_t n, int64_t to)
{
    double *const square = k->d[SQUARE] + to, *const pairs = k->d[PAIRS] + to;

    for (int64_t i = 0; i < n; i++) {
        const double both = k->present[a + i] * k->present[b + i], d = w->v[a + i] - w->v[b + i];
        square[i] = both * d * d;
        pairs[i] = both;
    }
}

/* Adds n rows, `step` apart, from the lowest on. */
static void gather(double *restrict to, const double *from, int64_t rows, int64_t step, int64_t n)
{
    memset(to, 0, (size_t)n * sizeof *to);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < n; i++)
            to[i] += from[r * step + i];
}

/* Makes the weights of a row of candidates from their sums, in the precision of the operation itself. */
static void weigh(const struct vp_missing_work *w, const struct means *k, int64_t n)
{
    const struct vp_nlmeans_params *p = w->m->inner.params;
    const double noise = 2 * p->sigma * p->sigma, strength = 1 / (p->h * p->h);
    const int64_t all = (n + VP_NLMEANS_LANES - 1) / VP_NLMEANS_LANES * VP_NLMEANS_LANES;
    const bool f64 = p->in == VP_F64;
    const double least = f64 ? -700 : -87;
    const struct vp_nlmeans_isa *isa = VP_ISA_FIND(vp_nlmeans, NULL);
    const struct vp_nlmeans_f64_isa *isa_f64 = VP_ISA_FIND(vp_nlmeans_f64, NULL);

    for (int64_t x = 0; x < n; x++) {
        const double d2 = k->x[SQUARE][x] / k->x[PAIRS][x], a = (noise - d2) * strength;
        const double power = k->x[PAIRS][x] > 0 && a > least ? (a < 0 ? a : 0) : -1e9;
        if (f64)
            k->power_f64[x] = power;
        else
            k->power[x] = (float)power;
    }
    if (f64)
        isa_f64->exponential(k->power_f64, k->power_f64, all);
    else
        isa->exponential(k->power, k->power, all);
}

/* Adds the candidates at offset s to a row of the tile. */
static void candidates(struct vp_missing_work *w, const int64_t s[3], int64_t row, int64_t at)
{
    const struct vp_nlmeans_params *p = w->m->inner.params;
    const struct means *k = w->own;
    const int64_t n = vp_box_size(&w->tile, 0), patch = 2 * p->patch[0] + 1;
    const bool f64 = p->in == VP_F64;
    const int64_t there = at + (s[2] * w->n[1] + s[1]) * w->n[0] + s[0];
    const double *const present = k->present + there;
    const uint8_t *const state = w->state + there;
    const double *const v = w->v + there;
    double *const total = k->total + row * n, *const value = k->value + row * n;
    int32_t *const gone = k->gone + row * n, *const found = k->there + row * n;

    gather(k->x[SQUARE], k->z[SQUARE], patch, 1, n);
    gather(k->x[PAIRS], k->z[PAIRS], patch, 1, n);
    weigh(w, k, n);
    for (int64_t x = 0; x < n; x++) {
        const double weight = (f64 ? k->power_f64[x] : (double)k->power[x]) * present[x];
        total[x] += weight;
        value[x] += weight * v[x];
    }
    for (int64_t x = 0; x < n; x++) {
        found[x] += state[x] == VP_PRESENT;
        gone[x] += state[x] == VP_ABSENT;
    }
}

static void one_offset(struct vp_missing_work *w, const int64_t s[3])
{
    const struct vp_nlmeans_params *p = w->m->inner.params;
    const struct means *k = w->own;
    const struct vp_box *t = &w->tile;
    const int64_t n = vp_box_size(t, 0) + 2 * p->patch[0], ny = vp_box_size(t, 1), tall = ny + 2 * p->patch[1];
    const int64_t deep = vp_box_size(t, 2) + 2 * p->patch[2], shift = (s[2] * w->n[1] + s[1]) * w->n[0] + s[0];

    for (int64_t z = 0; z < deep; z++) {
        for (int64_t y = 0; y < tall; y++) {
            const int64_t at = vp_missing_at(w, t->lo[0] - p->patch[0], t->lo[1] - p->patch[1] + y,
                                             t->lo[2] - p->patch[2] + z);
            differ(w, k, at, at + shift, n, (z * tall + y) * n);
        }
        for (int64_t y = 0; y < ny; y++)
            for (int i = 0; i < BOTH; i++)
                gather(k->y[i] + (z * ny + y) * n, k->d[i] + (z * tall + y) * n, 2 * p->patch[1] + 1, n, n);
    }
    for (int64_t z = t->lo[2], row = 0; z < t->hi[2]; z++)
        for (int64_t y = t->lo[1]; y < t->hi[1]; y++, row++) {
            for (int i = 0; i < BOTH; i++)
                gather(k->z[i], k->y[i] + row * n, 2 * p->patch[2] + 1, ny * n, n);
            candidates(w, s, row, vp_missing_at(w, t->lo[0], y, z));
        }
}

static void means_prepare(struct vp_missing_work *w)
{
    const struct vp_nlmeans_params *p = w->m->inner.params;
    const struct means *k = w->own;
    const struct vp_box *t = &w->tile;
    const size_t tile = (size_t)(vp_box_size(t, 0) * vp_box_size(t, 1) * vp_box_size(t, 2));
    int64_t s[3];

    for (int64_t i = 0; i < w->n[0] * w->n[1] * w->n[2]; i++)
        k->present[i] = w->state[i] == VP_PRESENT;
    memset(k->total, 0, tile * sizeof(double));
    memset(k->value, 0, tile * sizeof(double));
    memset(k->there, 0, tile * sizeof(int32_t));
    memset(k->gone, 0, tile * sizeof(int32_t));
    memset(k->power, 0, ((size_t)w->m->side[0] + VP_NLMEANS_LANES) * sizeof *k->power);
    memset(k->power_f64, 0, ((size_t)w->m->side[0] + VP_NLMEANS_LANES) * sizeof *k->power_f64);
    for (s[2] = -p->search[2]; s[2] <= p->search[2]; s[2]++)
        for (s[1] = -p->search[1]; s[1] <= p->search[1]; s[1]++)
            for (s[0] = -p->search[0]; s[0] <= p->search[0]; s[0]++)
                one_offset(w, s);
}

static void means_row(struct vp_missing_work *w, int64_t y, int64_t z)
{
    const struct means *k = w->own;
    const int64_t n = vp_box_size(&w->tile, 0), first = vp_missing_at(w, w->tile.lo[0], y, z);
    const int32_t *const near = vp_missing_near(w, y, z);
    const int64_t at = near - w->near;

    for (int64_t x = 0; x < n; x++) {
        if (!near[x])
            continue;
        w->what[x] = vp_missing_decide(w, first + x, (double)k->there[at + x], (double)k->gone[at + x]);
        if (!(k->total[at + x] > 0))
            w->what[x] = VP_HOLE; /* nothing can be compared, or nothing is alike */
        w->result[x] = k->value[at + x] / k->total[at + x];
    }
}

const struct vp_missing_rule vp_missing_nlmeans = {means_layout, means_prepare, means_row};
