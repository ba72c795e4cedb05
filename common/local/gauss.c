/* SPDX-License-Identifier: BSD-3-Clause */
/* Separable filters: taps, edges and the passes over a box; gauss.h has the arithmetic.
 *
 * A box is worked on in tiles of columns and rows that march along z. Of each new plane 16 rows at a time are turned so
 * that x runs along memory in steps of 16 columns, filtered along x and turned back into a small ring of rows; the rows
 * of the ring are filtered along y into a ring of planes; the planes of that one along z. So each sample is filtered
 * once along each axis (but for the rows that neighbouring tiles share), and what lies between the passes stays in
 * the caches; the rings of planes of all tiles are what a stream keeps from part to part. Edges are a matter of
 * pointers: the row or plane outside the image is that of the edge rule. */
#include "local/gauss.h"

#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/isa.h"
#include "base/size.h"
#include "local/gauss_isa.h"

enum {
    BLOCK = VP_LINE_BLOCK,
    COLUMNS = VP_LINE_COLUMNS,
    PIECE = 256,                   /* columns filtered at a time, more where the radius is large */
    NEAR = 512 << 10,              /* bytes of the ring of rows that blocks of columns are made for */
    RING = 6 << 20,                /* bytes of the ring of planes that tiles are made for, a thread */
    LARGE = 16 << 20               /* bytes of an output that no cache keeps */
};

static int64_t round_up(int64_t a, int64_t step) { return vp_div_up(a, step) * step; }
/* Samples between rows: whole cache lines, an odd number, so that the same column of many rows does not fall into
 * the same set of the cache. */
static int64_t row_step(int64_t n) { return round_up(n, 16) + vp_div_up(n, 16) % 2 * 16 + 16; }

/* ---- taps ---- */

int64_t vp_edge_from(enum vp_edge edge, int64_t p, int64_t n)
{
    if (p >= 0 && p < n)
        return p;
    if (edge == VP_EDGE_ZERO)
        return -1;
    if (edge == VP_EDGE_WRAP) {
        const int64_t r = p % n;
        return r < 0 ? r + n : r;
    }
    if (edge == VP_EDGE_MIRROR) {
        const int64_t q = p < 0 ? -1 - p : p, r = q % (2 * n);
        return r < n ? r : 2 * n - 1 - r;
    }
    return p < 0 ? 0 : n - 1;
}

/* The Gaussian at j, not normalised. */
static double bell(const struct vp_taps *t, int64_t j)
{
    return t->bell[j < 0 ? -j : j];
}

/* The Gaussian's derivative as weights of x[i + j]: of the sign that gives a ramp its slope. */
static double shape(const struct vp_taps *t, int64_t j)
{
    const double x = (double)j / t->sigma;
    return t->order == 1 ? x / t->sigma : (x * x - 1) / (t->sigma * t->sigma);
}

/* The clipped weights of a voxel are bell(j) * (shape(j) + p(j)) with the polynomial p that gives them the moments of
 * the derivative: of degree 2, or 1 where that is enough (order 1 between as many voxels on both sides). p is found in
 * polynomials orthogonal under the bell over the support, P0, P1 = j - c0, P2 = (j - c1) P1 - r P0, where each moment
 * has its own coefficient; order 0: p = 1 / sum. */
struct fit { int degree; double c0, c1, r, p[3]; };

static double weight(const struct vp_taps *t, const struct fit *f, int64_t j)
{
    const double p1 = (double)j - f->c0, p2 = ((double)j - f->c1) * p1 - f->r;

    if (t->order == 0)
        return bell(t, j) * f->p[0];
    return bell(t, j) * (shape(t, j) + f->p[0] + f->p[1] * p1 + (f->degree == 2 ? f->p[2] * p2 : 0)) * t->gain;
}

static struct fit fit_moments(const struct vp_taps *t, int64_t lo, int64_t hi)
{
    struct fit f = {.degree = t->order == 2 || (lo != hi && lo + hi > 1) ? 2 : 1};
    double s[4] = {0}, w[3] = {0}; /* squares and shape's products with P0 P1 P2 */

    for (int64_t j = -lo; j <= hi; j++) {
        s[0] += bell(t, j);
        s[1] += bell(t, j) * (double)j;
    }
    if (t->order == 0) {
        f.p[0] = 1 / s[0];
        return f;
    }
    f.c0 = s[1] / s[0];
    s[1] = 0;
    for (int64_t j = -lo; j <= hi; j++) {
        const double p1 = (double)j - f.c0;
        s[1] += bell(t, j) * p1 * p1;
        s[3] += bell(t, j) * p1 * p1 * (double)j;
    }
    f.c1 = s[3] / s[1];
    f.r = s[1] / s[0];
    for (int64_t j = -lo; j <= hi; j++) {
        const double g = bell(t, j), p1 = (double)j - f.c0, p2 = ((double)j - f.c1) * p1 - f.r;
        s[2] += g * p2 * p2;
        w[0] += g * shape(t, j);
        w[1] += g * shape(t, j) * p1;
        w[2] += g * shape(t, j) * p2;
    }
    /* what the derivative makes of P0, P1, P2 at j = 0 */
    f.p[0] = -w[0] / s[0];
    f.p[1] = ((t->order == 1 ? 1 : 0) - w[1]) / s[1];
    if (f.degree == 2)
        f.p[2] = ((t->order == 1 ? -f.c0 - f.c1 : 2) - w[2]) / s[2];
    return f;
}

void vp_taps_edge(const struct vp_taps *t, int64_t lo, int64_t hi, float *up, float *down)
{
    const int64_t r = t->radius;

    lo = vp_min64(lo, r);
    hi = vp_min64(hi, r);
    if (lo >= t->reach && hi >= t->reach)
        lo = hi = t->reach;
    memset(up, 0, (size_t)r * sizeof *up);
    memset(down, 0, (size_t)r * sizeof *down);
    if (lo + hi < t->order)
        return;
    const struct fit f = fit_moments(t, lo, hi);
    double sum = 0;
    for (int64_t k = hi - 1; k >= 0; k--) {
        sum += weight(t, &f, k + 1);
        up[k] = (float)sum;
    }
    sum = 0;
    for (int64_t k = lo - 1; k >= 0; k--) {
        sum += weight(t, &f, -k - 1);
        down[k] = (float)-sum;
    }
}

/* How many numbers the tables of taps at the edges have, which are not small where the radius is large. */
static size_t edge_taps(const struct vp_taps *t)
{
    return 4 * (size_t)t->radius * (size_t)t->radius;
}

void vp_taps_free(struct vp_taps *t)
{
    free(t->bell);
    free(t->t);
    free(t->up);
    t->bell = NULL;
    t->t = t->scale = t->up = t->down = t->far_up = t->far_down = NULL;
}

int vp_taps_make(struct vp_taps *t, double sigma, double truncate, int order, double gain, enum vp_edge edge,
                 struct vp_err *err)
{
    const double radius = floor(truncate * sigma + 0.5);

    *t = (struct vp_taps){.order = order, .edge = edge, .sigma = sigma, .gain = gain};
    if (!(radius <= VP_TAPS_MAX_RADIUS)) {
        vp_fail(err, VP_EUSAGE, "--sigma: %g voxels cut off at %g sigmas reach %g voxels far, the limit is %d", sigma,
                truncate, radius, VP_TAPS_MAX_RADIUS);
        return vp_hint(err, "make the image smaller before, or use a smaller --truncate");
    }
    t->reach = (int)radius < order ? order : (int)radius;
    t->radius = order == 1 && t->reach == 1 && edge == VP_EDGE_RENORMALIZE ? 2 : t->reach;
    if (t->radius == 0)
        return 0;
    const size_t r = (size_t)t->radius;
    t->bell = vp_alloc_raw(r + 1, sizeof *t->bell, "a filter's taps", err);
    t->t = vp_alloc_raw(2 * r, sizeof *t->t, "a filter's taps", err);
    if (!t->bell || !t->t) {
        vp_taps_free(t);
        return -1;
    }
    for (size_t j = 0; j <= r; j++)
        t->bell[j] = exp(-0.5 * ((double)j / sigma) * ((double)j / sigma));
    vp_taps_edge(t, t->radius, t->radius, t->t, t->t + r);
    if (edge != VP_EDGE_RENORMALIZE)
        return 0;
    if (order == 0) {
        t->scale = t->t + r; /* `down` is no longer needed */
        for (size_t e = 0; e < r; e++)
            t->scale[e] = (float)(1 / (1 - (double)t->t[e]));
        return 0;
    }
    t->up = vp_alloc_raw(edge_taps(t), sizeof *t->up, "a filter's taps at the edges", err);
    if (!t->up) {
        vp_taps_free(t);
        return -1;
    }
    t->down = t->up + r * r;
    t->far_up = t->down + r * r;
    t->far_down = t->far_up + r * r;
    const float s = order == 1 ? 1 : -1;
    for (size_t i = 0; i < r; i++)
        vp_taps_edge(t, (int64_t)i, t->radius, t->up + i * r, t->down + i * r);
    for (size_t i = 0; i < r * r; i++) {
        t->far_up[i] = s * t->down[i];
        t->far_down[i] = s * t->up[i];
    }
    return 0;
}

/* ---- the shape of the work ---- */

struct layout {
    int64_t span, tile;           /* output columns and rows worked on together along z */
    int64_t across;               /* so many times span are all columns */
    int64_t blocks, block, piece; /* blocks of columns, how wide they are, in pieces (a multiple of 16) */
    bool alone;                   /* each tile by one thread, with a ring of planes of its own */
    int64_t step_planes;          /* output planes made together */
    int64_t row_ring, plane_ring; /* rows and planes that the rings hold */
    int64_t row_width, ring_width, made_width; /* samples from row to row */
    int64_t column_rows;          /* columns that a thread's turned rows hold */
    int64_t reach;                /* rows or planes that a block of outputs looks at, at most */
    size_t tables, planes;        /* bytes: taps of short axes, ring of planes */
};

static bool is_short(const struct vp_passes *p, const struct vp_op *op, int axis)
{
    return p->edge == VP_EDGE_RENORMALIZE && op->image[axis] < 2 * (int64_t)p->radius[axis];
}

/* Taps of one filter along an axis that may turn out to be short: as many outputs as can then be. */
static size_t short_taps(const struct vp_passes *p, const struct vp_op *op, const struct vp_box *out, int axis)
{
    const int64_t r = p->radius[axis];

    if (p->edge != VP_EDGE_RENORMALIZE || (axis < 2 && !is_short(p, op, axis)))
        return 0;
    return (size_t)(vp_min64(vp_box_size(out, axis), 2 * r) * 2 * r);
}

/* kept: the ring of planes is the same whatever the depth of the part. */
static struct layout lay_out(const struct vp_passes *p, const struct vp_op *op, const struct vp_box *out,
                             int threads, bool kept)
{
    struct layout l = {0};
    const int64_t *const image = op->image, w = vp_box_size(out, 0), rows = vp_box_size(out, 1);
    const int64_t planes = vp_box_size(out, 2), rx = p->radius[0], ry = p->radius[1], rz = p->radius[2];

    const int64_t pieces = vp_max64(1, (w + PIECE / 2) / vp_max64(PIECE, 4 * rx));
    l.piece = round_up((w + pieces - 1) / pieces, COLUMNS);
    l.span = rz ? vp_min64(w, l.piece) : w;
    l.across = (w + l.span - 1) / l.span;
    l.row_ring = p->edge == VP_EDGE_WRAP && ry ? image[1] : 2 * ry + BLOCK + COLUMNS;
    l.block = l.piece * vp_max64(1, NEAR / (p->channels_x * l.row_ring * l.piece * (int64_t)sizeof(float)));
    l.block = vp_min64(l.block, round_up(l.span, l.piece));
    l.blocks = (l.span + l.block - 1) / l.block;
    l.row_width = row_step(l.block);
    l.made_width = row_step(l.piece);
    l.ring_width = row_step(l.blocks * l.block);
    l.step_planes = round_up(vp_max64(rz, 8), 8);
    if (!kept)
        l.step_planes = vp_min64(l.step_planes, round_up(planes, 8));
    l.plane_ring = !rz ? 0 : p->edge == VP_EDGE_WRAP ? image[2] : 2 * rz + l.step_planes;
    l.tile = rows;
    if (!rz)
        l.step_planes = planes;
    else {
        /* tiles for each thread, so that none waits for another; unless most of them would be rows of neighbours */
        const int64_t row = l.plane_ring * l.ring_width * p->channels_y * (int64_t)sizeof(float);
        const int64_t own = vp_min64(round_up(RING / row, 8), (rows * l.across + threads - 1) / threads);
        l.alone = own > 0 && own >= 6 * ry;
        const int64_t fits = l.alone ? own : vp_max64(round_up(RING * (int64_t)threads / row, 8), vp_max64(4 * ry, 32));
        int64_t tiles = (rows + fits - 1) / fits;
        while (l.alone && tiles * l.across % threads && tiles * l.across < 8 * threads)
            tiles++;
        l.tile = (rows + tiles - 1) / tiles;
    }
    l.column_rows = l.piece + 2 * rx + BLOCK;
    for (int a = 0; a < 3; a++)
        l.tables += 2 * short_taps(p, op, out, a) * sizeof(float);
    l.tables = vp_round64(l.tables);
    l.planes = (size_t)(l.plane_ring * l.tile * l.ring_width * p->channels_y) * sizeof(float);
    l.reach = 2 * vp_max64(ry, rz) + BLOCK;
    return l;
}

static int64_t tiles_of(const struct layout *l, const struct vp_box *out)
{
    return (vp_box_size(out, 1) + l->tile - 1) / l->tile * l->across;
}

/* What a thread has to itself. */
struct desk {
    int64_t left;                 /* of the tile in work */
    float *planes;                /* may be the team's */
    float *rows, *turned, *filtered, *read; /* filtered along x; turned; filtered then; as read */
    float *made, *zero, *junk, *input;      /* finished rows */
    const float **g[2], **columns; /* rows or planes of each channel; turned columns */
};

/* Returns its bytes. */
static size_t sit_down(struct desk *d, const struct layout *l, int channels, void *mem)
{
    const size_t column = COLUMNS * sizeof(float), made = (size_t)l->made_width * sizeof(float);
    size_t bytes = 0;

    d->rows = vp_place(mem, &bytes, (size_t)(channels * l->row_ring * l->row_width) * sizeof(float));
    d->turned = vp_place(mem, &bytes, (size_t)(l->column_rows + COLUMNS) * column);
    d->filtered = vp_place(mem, &bytes, (size_t)(l->column_rows + COLUMNS + BLOCK) * column);
    d->read = vp_place(mem, &bytes, (size_t)row_step(l->column_rows) * column);
    d->zero = vp_place(mem, &bytes, (size_t)l->row_width * sizeof(float));
    d->made = vp_place(mem, &bytes, BLOCK * made);
    d->junk = vp_place(mem, &bytes, made);
    d->input = vp_place(mem, &bytes, made);
    d->g[0] = vp_place(mem, &bytes, (size_t)l->reach * sizeof *d->g[0]);
    d->g[1] = vp_place(mem, &bytes, (size_t)l->reach * sizeof *d->g[1]);
    d->columns = vp_place(mem, &bytes, (size_t)l->column_rows * sizeof *d->columns);
    for (int64_t v = 0; mem && v < l->column_rows; v++)
        d->columns[v] = d->turned + v * COLUMNS;
    if (mem)
        memset(d->zero, 0, (size_t)l->row_width * sizeof *d->zero);
    return bytes;
}

static uint64_t scratch(const struct vp_op *op, const struct vp_box *in, const struct vp_box *out, int threads)
{
    const struct vp_passes *const p = op->params;
    const struct layout l = lay_out(p, op, out, threads, false);
    struct desk d;

    (void)in;
    return l.tables + (uint64_t)(l.alone ? threads : 1) * l.planes
           + (uint64_t)threads * sit_down(&d, &l, p->channels_x, NULL);
}

static uint64_t state_bytes(const struct vp_op *op, const struct vp_box *out, int threads)
{
    const struct vp_passes *const p = op->params;

    if (!p->radius[2] || p->edge == VP_EDGE_WRAP || p->highpass)
        return 0;
    const struct layout l = lay_out(p, op, out, threads, true);
    return (uint64_t)tiles_of(&l, out) * l.planes;
}

struct job {
    const struct vp_passes *p;
    const struct vp_op *op;
    const struct vp_part *in, *out;
    const struct vp_gauss_isa *isa;
    struct layout l;
    char *kept;                   /* rings of planes of all tiles; or NULL */
    struct { const struct vp_taps *taps; float *table; } brief[6]; /* taps of short axes */
    int briefs;
    bool cut[3];                  /* some outputs near the edges of the axis have taps of their own */
    bool past;                    /* output is larger than caches */
};

/* ---- lines ---- */

/* VP_EDGE_RENORMALIZE: whether the outputs from i on, of one block, have taps of their own. */
static bool own_taps(const struct job *j, const struct vp_taps *t, int axis, int64_t i)
{
    const int64_t r = t->radius, before = i, after = j->op->image[axis] - 1 - i;

    return t->order == 0 ? before < r && after < r : before < r || after < r;
}

/* The block of outputs from i on ends here: at `end`, or where taps of another kind may begin. */
static int64_t block_end(const struct job *j, int axis, int64_t i, int64_t end)
{
    const int64_t r = j->p->radius[axis], n = j->op->image[axis];
    const int64_t first = vp_min64(r, n - r), second = vp_max64(r, n - r);

    end = vp_min64(end, i + j->isa->block);
    if (!j->cut[axis])
        return end;
    return i < first ? vp_min64(end, first) : i < second ? vp_min64(end, second) : end;
}

static struct vp_border with_taps(const struct job *j, const struct vp_taps *t, int axis, int64_t i)
{
    const int64_t r = t->radius, after = j->op->image[axis] - 1 - i;

    for (int s = 0; s < j->briefs; s++)
        if (j->brief[s].taps == t) {
            const float *const row = j->brief[s].table + (i - j->out->box.lo[axis]) * 2 * r;
            return (struct vp_border){.up = row, .down = row + r};
        }
    return i < r ? (struct vp_border){.up = t->up + i * r, .down = t->down + i * r}
                 : (struct vp_border){.up = t->far_up + after * r, .down = t->far_down + after * r};
}

/* Order 0: output i of a block that begins at `first`. */
static struct vp_border with_scale(const struct job *j, const struct vp_taps *t, int axis, int64_t i, int64_t first)
{
    const int64_t last = j->op->image[axis] - 1, e = vp_min64(i, last - i);

    if (e >= t->radius)
        return (struct vp_border){.scale = 0};
    return (struct vp_border){.at = (int)((i == e ? 0 : last) - first), .weight = -t->t[e], .scale = t->scale[e]};
}

/* Outputs i ... i + count - 1 along the axis (one block), n samples of each from `at` on; g[c] points at sample i of
 * channel c. */
static void filter(const struct job *j, const struct vp_sum *sum, int axis, int64_t i, int64_t count,
                   const float *const *const *g, int64_t at, float *out, int64_t step, int64_t n)
{
    const bool inside = j->p->edge != VP_EDGE_RENORMALIZE
                        || vp_min64(i, j->op->image[axis] - i - count) >= j->p->radius[axis];

    for (int s = 0; s < sum->n; s++) {
        const struct vp_taps *const t = sum->term[s].taps;
        struct vp_line line = {.g = g[sum->term[s].from], .order = t->order, .radius = t->radius, .t = t->t,
                               .count = (int)count, .add = s > 0,
                               .out = out, .step = step, .at = at, .n = round_up(n, COLUMNS)};
        struct vp_border border[BLOCK];
        if (!inside) {
            const bool own = own_taps(j, t, axis, i);
            for (int b = 0; b < BLOCK; b++) {
                const int64_t here = b < count ? i + b : i;
                border[b] = own ? with_taps(j, t, axis, here) : with_scale(j, t, axis, here, i);
            }
            line.border = border;
            if (own)
                line.t = NULL;
        }
        j->isa->line(&line);
    }
}

/* The filters along an axis. */
static int taps_along(const struct vp_passes *p, int axis, const struct vp_taps *taps[4])
{
    int n = 0;

    for (int c = 0; axis == 0 && c < p->channels_x; c++)
        taps[n++] = p->x[c];
    for (int c = 0; axis > 0 && c < (axis == 1 ? p->channels_y : 1); c++) {
        const struct vp_sum *const s = axis == 1 ? &p->y[c] : &p->z;
        for (int i = 0; i < s->n; i++)
            taps[n++] = s->term[i].taps;
    }
    return n;
}

/* Taps of each output along short axes. */
static void fill_tables(struct job *j, float *table)
{
    const struct vp_passes *const p = j->p;

    for (int a = 0; a < 3; a++) {
        const int64_t lo = j->out->box.lo[a], n = vp_box_size(&j->out->box, a), r = p->radius[a];
        const struct vp_taps *taps[4];
        const int count = taps_along(p, a, taps);
        const bool brief = is_short(p, j->op, a);
        if (!r || p->edge != VP_EDGE_RENORMALIZE)
            continue;
        j->cut[a] = brief;
        for (int t = 0; t < count; t++) {
            bool known = !brief;
            j->cut[a] |= taps[t]->order > 0;
            for (int s = 0; s < j->briefs; s++)
                known |= j->brief[s].taps == taps[t];
            if (known)
                continue;
            j->brief[j->briefs].taps = taps[t];
            j->brief[j->briefs++].table = table;
            for (int64_t i = 0; i < n; i++, table += 2 * r)
                vp_taps_edge(taps[t], lo + i, j->op->image[a] - 1 - lo - i, table, table + r);
        }
    }
}

/* ---- passes ---- */

/* Sample (x, y, z) of the input. */
static const void *input(const struct job *j, int64_t x, int64_t y, int64_t z)
{
    return vp_part_at(j->in, vp_type_size(j->op->in), x, y, z);
}

/* Finished samples of an output row. */
static void finish(const struct job *j, struct desk *d, int64_t x, int64_t n, int64_t y, int64_t z, const float *made)
{
    if (j->p->highpass) {
        j->isa->load(d->input, input(j, x, y, z), j->op->in, n);
        for (int64_t i = 0; i < n; i++)
            d->input[i] -= made[i];
        made = d->input;
    }
    j->isa->store(vp_part_at(j->out, vp_type_size(j->op->out), x, y, z), j->op->out, made, n, j->past);
}

static float *ring_row(const struct job *j, const struct desk *d, int c, int64_t y)
{
    return d->rows + (c * j->l.row_ring + y % j->l.row_ring) * j->l.row_width;
}

/* Point d->g at what a block of outputs from sample i of the axis on looks at: `slots` of a ring, `pitch` samples
 * apart, for each channel. What has not been made yet only outputs that are not wanted look at. */
static void look(const struct job *j, struct desk *d, int axis, int64_t i, int64_t made, int channels,
                 const float *ring, int64_t slots, int64_t pitch, int64_t channel)
{
    const int64_t r = j->p->radius[axis], n = j->op->image[axis];
    int64_t last = -2, slot = 0;

    for (int64_t v = 0; v < 2 * r + BLOCK; v++) {
        const int64_t p = i - r + v, s = p >= 0 && p < n ? p : vp_edge_from(j->p->edge, p, n);
        if (s == last + 1 && slot + 1 < slots)
            slot++;
        else if (s >= 0 && s != last)
            slot = s % slots;
        last = s < 0 ? -2 : s;
        for (int c = 0; c < channels; c++)
            d->g[c][v] = s < 0 || s >= made ? d->zero : ring + c * channel + slot * pitch;
    }
}

static float *plane_row(const struct job *j, const struct desk *d, int c, int64_t x, int64_t row, int64_t z)
{
    const struct layout *const l = &j->l;
    return d->planes + ((c * l->plane_ring + z % l->plane_ring) * l->tile + row) * l->ring_width
           + x - d->left;
}

/* Ask for samples of the next rows while columns x + done ... x + end - 1 of these are worked on: a cache line for each
 * column, spread out so that they come while there is something else to do. */
static void ask(const void *const *next, enum vp_type type, int64_t done, int64_t end)
{
    const int64_t line = 64 / (int64_t)vp_type_size(type);
    for (int64_t q = done; q < end && q / COLUMNS * line < end; q++)
        __builtin_prefetch((const char *)next[q % COLUMNS] + q / COLUMNS * 64, 0, 2);
}

/* A piece: columns x ... x + n - 1 of `count` rows from y on, filtered along x, into the ring of rows of the block of
 * columns that begins at x - at. */
static void make_rows(const struct job *j, struct desk *d, int64_t x, int64_t at, int64_t n, int64_t y, int64_t count,
                      int64_t z)
{
    const int64_t r = j->p->radius[0], width = j->op->image[0], first = x - r;
    const int64_t from = vp_max64(first, 0), to = vp_min64(x + n + r, width), step = row_step(j->l.column_rows);

    if (r == 0) {
        for (int64_t i = 0; i < count; i++)
            j->isa->load(ring_row(j, d, 0, y + i) + at, input(j, x, y + i, z), j->op->in, n);
        return;
    }
    /* f32 is turned from where it lies, but for what 16 columns would reach beyond */
    const int64_t direct = j->op->in == VP_F32 ? (to - from) / COLUMNS * COLUMNS : 0;
    const float *rows[COLUMNS], *read[COLUMNS];
    const void *next[COLUMNS];
    for (int64_t i = 0; i < COLUMNS; i++) {
        const int64_t row = i < count ? i : 0, later = y + count + i < j->in->box.hi[1] ? y + count + i : y;
        next[i] = input(j, from, later, z);
        rows[i] = direct ? input(j, from, y + row, z) : NULL;
        read[i] = d->read + row * step;
        if (i < count && from + direct < to)
            j->isa->load(d->read + i * step, input(j, from + direct, y + i, z), j->op->in, to - from - direct);
    }
    j->isa->columns(d->turned + (from - first) * COLUMNS, rows, direct);
    j->isa->columns(d->turned + (from + direct - first) * COLUMNS, read, to - from - direct);
    for (int64_t v = first; v < x + n + r; v++) {
        if (v == from)
            v = to;
        if (v >= x + n + r)
            break;
        float *const column = d->turned + (v - first) * COLUMNS;
        const int64_t s = vp_edge_from(j->p->edge, v, width);
        if (s < 0)
            memset(column, 0, COLUMNS * sizeof *column);
        else if (s >= from && s < to)
            memcpy(column, d->turned + (s - first) * COLUMNS, COLUMNS * sizeof *column);
        else
            for (int64_t i = 0; i < COLUMNS; i++)
                j->isa->load(column + i, input(j, s, y + (i < count ? i : 0), z), j->op->in, 1);
    }
    for (int c = 0; c < j->p->channels_x; c++) {
        const struct vp_sum sum = {.n = 1, .term = {{j->p->x[c], 0}}};
        float *back[COLUMNS];
        for (int64_t i = x, end; i < x + n; i = end) {
            end = block_end(j, 0, i, x + n);
            const float *const *const g = d->columns + (i - first);
            if (c == 0)
                ask(next, j->op->in, i - x, end - x);
            filter(j, &sum, 0, i, end - i, &g, 0, d->filtered + (i - x) * COLUMNS, COLUMNS, COLUMNS);
        }
        for (int64_t i = 0; i < COLUMNS; i++)
            back[i] = i < count ? ring_row(j, d, c, y + i) + at : d->junk;
        j->isa->rows(back, d->filtered, n);
    }
}

/* Columns x ... x + n - 1 of rows y0 ... y1 - 1 of plane z, filtered along x and y: into the ring of planes of the tile
 * that begins at row `tile`, or finished. */
static void make_plane(const struct job *j, struct desk *d, int64_t x, int64_t n, int64_t y0, int64_t y1, int64_t z,
                       int64_t tile)
{
    const struct layout *const l = &j->l;
    const int64_t r = j->p->radius[1], height = j->op->image[1];
    const bool wrap = j->p->edge == VP_EDGE_WRAP && r;
    const int64_t limit = wrap ? height : vp_min64(height, y1 + r);
    int64_t next = wrap ? 0 : vp_max64(0, y0 - r);

    for (int64_t y = y0, end; y < y1; y = end) {
        end = block_end(j, 1, y, y1);
        for (const int64_t need = wrap ? limit : vp_min64(limit, end + r); next < need;) {
            const int64_t count = vp_min64(COLUMNS, limit - next);
            for (int64_t at = 0; at < n; at += l->piece)
                make_rows(j, d, x + at, at, vp_min64(l->piece, n - at), next, count, z);
            next += count;
        }
        look(j, d, 1, y, next, j->p->channels_x, ring_row(j, d, 0, 0), l->row_ring, l->row_width,
             l->row_ring * l->row_width);
        const float *const *const g[2] = {d->g[0] + r, d->g[1] + r};
        if (l->plane_ring) {
            for (int c = 0; c < j->p->channels_y; c++)
                filter(j, &j->p->y[c], 1, y, end - y, g, 0, plane_row(j, d, c, x, y - tile, z), l->ring_width, n);
            continue;
        }
        for (int64_t at = 0; at < n; at += l->piece) {
            const int64_t m = vp_min64(l->piece, n - at);
            filter(j, &j->p->y[0], 1, y, end - y, g, at, d->made, l->made_width, m);
            for (int64_t i = y; i < end; i++)
                finish(j, d, x + at, m, i, z, d->made + (i - y) * l->made_width);
        }
    }
}

/* Columns x ... x + n - 1 of row y of planes z0 ... z1 - 1: the ring of planes, filtered along z; all planes before
 * `made` are in it, or have been. */
static void make_depth(const struct job *j, struct desk *d, int64_t x, int64_t n, int64_t y, int64_t z0, int64_t z1,
                       int64_t tile, int64_t made)
{
    const struct layout *const l = &j->l;
    const int64_t r = j->p->radius[2];

    for (int64_t z = z0, end; z < z1; z = end) {
        end = block_end(j, 2, z, z1);
        look(j, d, 2, z, made, j->p->channels_y, plane_row(j, d, 0, x, y - tile, 0), l->plane_ring,
             l->tile * l->ring_width, l->plane_ring * l->tile * l->ring_width);
        const float *const *const g[2] = {d->g[0] + r, d->g[1] + r};
        for (int64_t at = 0; at < n; at += l->piece) {
            const int64_t m = vp_min64(l->piece, n - at);
            filter(j, &j->p->z, 2, z, end - z, g, at, d->made, l->made_width, m);
            for (int64_t i = z; i < end; i++)
                finish(j, d, x + at, m, y, i, d->made + (i - z) * l->made_width);
        }
    }
}

/* A step of a tile: columns x0 ... x1 - 1 of rows t0 ... t1 - 1 of planes z0 ... z1 - 1 are made, for which so many
 * planes from `next` on come into the ring, in strips of rows. */
struct march { int64_t x0, x1, t0, t1, z0, z1, next, planes, strips, strip; };

static void make_strip(const struct job *j, struct desk *d, const struct march *m, int64_t i)
{
    const struct layout *const l = &j->l;
    const int64_t b = i % l->blocks, s = i / l->blocks % m->strips, z = m->next + i / l->blocks / m->strips;
    const int64_t y0 = m->t0 + s * m->strip, y1 = vp_min64(m->t1, y0 + m->strip), x = m->x0 + b * l->block;

    if (y0 < y1 && x < m->x1)
        make_plane(j, d, x, vp_min64(l->block, m->x1 - x), y0, y1, z, m->t0);
}

static void make_row(const struct job *j, struct desk *d, const struct march *m, int64_t i)
{
    const struct layout *const l = &j->l;
    const int64_t x = m->x0 + i % l->blocks * l->block;

    if (x < m->x1)
        make_depth(j, d, x, vp_min64(l->block, m->x1 - x), m->t0 + i / l->blocks, m->z0, m->z1, m->t0,
                   m->next + m->planes);
}

/* Tile i, all planes: by this thread alone, or by all of the team. */
static void make_tile(const struct job *j, struct desk *d, int64_t i, int threads)
{
    const struct layout *const l = &j->l;
    const struct vp_box *const out = &j->out->box;
    const int64_t r = j->p->radius[2], ry = j->p->radius[1], depth = j->op->image[2];
    const bool wrap = j->p->edge == VP_EDGE_WRAP;
    const int64_t end = !r ? out->hi[2] : wrap ? depth : vp_min64(depth, out->hi[2] + r);
    struct march m = {.next = !r ? out->lo[2] : wrap ? 0 : vp_max64(0, out->lo[2] - r)};

    if (j->kept) {
        d->planes = (float *)(void *)(j->kept + (size_t)i * l->planes);
        m.next = vp_max64(m.next, j->in->box.lo[2]); /* those before are there */
    }

    m.x0 = d->left = out->lo[0] + i % l->across * l->span;
    m.x1 = vp_min64(out->hi[0], m.x0 + l->span);
    m.t0 = out->lo[1] + i / l->across * l->tile;
    m.t1 = vp_min64(out->hi[1], m.t0 + l->tile);
    const int64_t rows = m.t1 - m.t0;
    for (m.z0 = out->lo[2]; m.z0 < out->hi[2]; m.z0 = m.z1, m.next += m.planes) {
        m.z1 = vp_min64(out->hi[2], m.z0 + l->step_planes);
        m.planes = (r && wrap ? end : vp_min64(end, m.z1 + r)) - m.next;
        /* strips where planes and blocks are too few for the threads; each has rows of its own to begin with */
        const int64_t wanted = l->alone || threads == 1 || m.planes < 1 ? 1
                               : (4 * threads - 1) / (m.planes * l->blocks) + 1;
        m.strips = wrap ? 1 : vp_max64(1, vp_min64(wanted, rows / vp_max64(2 * ry, 16)));
        m.strip = (rows + m.strips - 1) / m.strips;
        const int64_t strips = m.planes * m.strips * l->blocks, lines = r ? rows * l->blocks : 0;
        if (l->alone) {
            for (int64_t s = 0; s < strips; s++)
                make_strip(j, d, &m, s);
            for (int64_t s = 0; s < lines; s++)
                make_row(j, d, &m, s);
        } else {
            #pragma omp for schedule(dynamic)
            for (int64_t s = 0; s < strips; s++)
                make_strip(j, d, &m, s);
            #pragma omp for schedule(dynamic, 4)
            for (int64_t s = 0; s < lines; s++)
                make_row(j, d, &m, s);
        }
    }
}

/* The kept memory are the rings of planes; NULL: they are in the scratch. */
static int advance(const struct vp_op *op, const struct vp_part *in, const struct vp_part *out, void *scratch,
                   void *kept, int threads, struct vp_err *err)
{
    struct job j = {.p = op->params, .op = op, .in = in, .out = out, .isa = VP_ISA_FIND(vp_gauss, NULL), .kept = kept};
    struct desk d;

    (void)err;
    j.l = lay_out(j.p, op, &out->box, threads, kept);
    j.past = op->out == VP_F32
             && vp_box_size(&out->box, 0) * vp_box_size(&out->box, 1) >= LARGE / 4 / vp_box_size(&out->box, 2);
    const int64_t tiles = tiles_of(&j.l, &out->box);
    fill_tables(&j, scratch);
    char *const planes = (char *)scratch + j.l.tables;
    char *const desks = planes + (kept ? 0 : j.l.planes * (size_t)(j.l.alone ? threads : 1));
    const size_t each = sit_down(&d, &j.l, j.p->channels_x, NULL);
    #pragma omp parallel num_threads(threads) private(d)
    {
        const size_t me = (size_t)omp_get_thread_num();

        sit_down(&d, &j.l, j.p->channels_x, desks + me * each);
        d.planes = (float *)(void *)(planes + (j.l.alone ? me * j.l.planes : 0));
        if (j.l.alone) {
            #pragma omp for schedule(dynamic)
            for (int64_t t = 0; t < tiles; t++)
                make_tile(&j, &d, t, threads);
        } else {
            for (int64_t t = 0; t < tiles; t++)
                make_tile(&j, &d, t, threads);
        }
        __atomic_thread_fence(__ATOMIC_SEQ_CST); /* what went past the caches has arrived */
    }
    return 0;
}

static int run(const struct vp_op *op, const struct vp_part *in, const struct vp_part *out, void *scratch,
               int threads, struct vp_err *err)
{
    return advance(op, in, out, scratch, NULL, threads, err);
}

/* ---- the operation ---- */

int vp_passes_check(const double sigma[3], double truncate, const double spacing[3], struct vp_err *err)
{
    for (int a = 0; a < 3; a++) {
        if (!(sigma[a] >= 0 && isfinite(sigma[a])))
            return vp_fail(err, VP_EUSAGE, "--sigma: expected 0 or more along %c, found %g", "xyz"[a], sigma[a]);
        if (!(spacing[a] > 0 && isfinite(spacing[a])))
            return vp_fail(err, VP_EUSAGE, "the voxel size along %c is %g: expected more than 0", "xyz"[a], spacing[a]);
    }
    if (!(truncate > 0 && isfinite(truncate)))
        return vp_fail(err, VP_EUSAGE, "--truncate: expected more than 0, found %g", truncate);
    return 0;
}

const char *vp_edge_name(enum vp_edge edge)
{
    static const char *const names[] = {"renormalised", "nearest", "mirrored", "zero", "wrapped"};
    return names[edge];
}

static const struct vp_carry carry = {.state_bytes = state_bytes, .advance = advance};

void vp_passes_stage(struct vp_op *op, const int64_t size[3], const double sigma[3], const char *more)
{
    const struct vp_passes *const p = op->params;
    const int *const radius = p->radius;
    double steps = 0;

    op->inputs = 1;
    for (int a = 0; a < 3; a++) {
        const struct vp_taps *taps[4];
        op->image[a] = size[a];
        op->halo[a] = p->edge == VP_EDGE_WRAP && p->radius[a] ? VP_UNKNOWN : p->radius[a];
        for (int t = taps_along(p, a, taps) - 1; t >= 0; t--)
            if (taps[t]->up)
                op->holds += edge_taps(taps[t]) * sizeof *taps[t]->up;
    }
    for (int c = 0; c < p->channels_x; c++)
        steps += p->radius[0];
    for (int c = 0; c < p->channels_y; c++)
        steps += p->y[c].n * p->radius[1];
    op->cost = 1.15 * p->channels_x + 0.036 * (steps + p->z.n * p->radius[2]);
    op->scratch = scratch;
    op->run = run;
    op->carry = &carry;
    snprintf(op->text, sizeof op->text, "%s sigma %g %g %g, %d x %d x %d taps%s, %s, %s", op->kernel, sigma[0], sigma[1],
             sigma[2], 2 * radius[0] + 1, 2 * radius[1] + 1, 2 * radius[2] + 1, more, vp_edge_name(p->edge),
             vp_isa_name());
}

static struct vp_passes passes(const struct vp_gauss *g, bool highpass)
{
    return (struct vp_passes){
        .channels_x = 1,
        .channels_y = 1,
        .x = {&g->axis[0]},
        .y = {{1, {{&g->axis[1], 0}}}},
        .z = {1, {{&g->axis[2], 0}}},
        .radius = {g->axis[0].radius, g->axis[1].radius, g->axis[2].radius},
        .edge = g->axis[0].edge,
        .highpass = highpass,
    };
}

static void free_params(void *params)
{
    struct vp_gauss *const g = params;

    if (!g || --g->users > 0)
        return;
    for (int a = 0; a < 3; a++)
        vp_taps_free(&g->axis[a]);
    free(g);
}

static int make(struct vp_gauss *g, const struct vp_gauss_params *p, struct vp_err *err)
{
    for (int a = 0; a < 3; a++) {
        if (p->order[a] && p->sigma[a] < 0.25) {
            vp_fail(err, VP_EUSAGE, "--derivative: needs a --sigma of at least 0.25 voxels along %c, found %g",
                    "xyz"[a], p->sigma[a]);
            return vp_hint(err, "--sigma 1 smooths by one voxel");
        }
        if (vp_taps_make(&g->axis[a], p->sigma[a], p->truncate, p->order[a], pow(p->spacing[a], -p->order[a]),
                         p->edge, err))
            return -1;
    }
    g->passes = passes(g, p->highpass);
    return 0;
}

int vp_gauss_chain(struct vp_chain *c, const struct vp_gauss_params *p, const int64_t size[3], enum vp_type in,
                   enum vp_type out, struct vp_err *err)
{
    const bool derivative = p->order[0] || p->order[1] || p->order[2];

    if (vp_passes_check(p->sigma, p->truncate, p->spacing, err))
        return -1;
    for (int a = 0; a < 3; a++)
        if (p->order[a] < 0 || p->order[a] > 2)
            return vp_fail(err, VP_EUSAGE, "--derivative: expected 0, 1 or 2 along %c, found %d", "xyz"[a],
                           p->order[a]);
    if (derivative && p->highpass)
        return vp_fail(err, VP_EUSAGE, "--derivative and --highpass exclude each other");
    if (p->iterations < 1)
        return vp_fail(err, VP_EUSAGE, "--iterations: expected 1 or more, found %lld", (long long)p->iterations);
    struct vp_gauss *const g = calloc(1, sizeof *g);
    if (!g)
        return vp_fail(err, VP_ERESOURCE, "out of memory");
    g->users = 1;
    int rc = make(g, p, err);
    for (int64_t i = 0; !rc && i < p->iterations; i++) {
        struct vp_op op = {.kernel = "gauss", .in = i ? VP_F32 : in, .out = i + 1 < p->iterations ? VP_F32 : out,
                              .from = {c->n ? c->n - 1 : ~0}, .params = g, .free = free_params};
        char more[48] = "";

        if (derivative)
            snprintf(more, sizeof more, ", derivative %d %d %d", p->order[0], p->order[1], p->order[2]);
        vp_passes_stage(&op, size, p->sigma, p->highpass ? ", high-pass" : more); /* one excludes the other */
        op.holds = i ? 0 : op.holds;
        g->users++; /* the chain's */
        rc = vp_chain_add(c, &op, err);
    }
    free_params(g);
    return rc;
}
