/* SPDX-License-Identifier: BSD-3-Clause */
/* Boxes of another size for every voxel: the tables are made along x, y and, of volumes, z, and read at the corners. */
#include "local/radius_map.h"

#include "base/err.h"
#include "base/size.h"

#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef unsigned __int128 u128;

enum {
    SUM_BITS = 94, DEVIATION_BITS = 47, /* between a step and the largest number */
    COLUMNS = 64,                       /* cells that a thread adds up along y at a time */
    KINDS = 3                           /* NaN, +infinity, -infinity */
};

static bool spreads(const struct vp_radius_map *p)
{
    return p->stat == VP_RADIUS_VAR || p->stat == VP_RADIUS_STD;
}

/* True if the sums of samples have 64 bits. */
static bool narrow(const struct vp_radius_map *p)
{
    return p->whole && !spreads(p);
}

/* Tables over a box of the image: cell (x, y, z) has the sums of the samples before x, y and (volumes) z in the box.
 * Sums are modulo 2^64 or 2^128, counts modulo 2^32. */
struct radius_tables {
    struct vp_box box;
    int64_t row, plane, planes; /* cells of a row, of a plane; planes */
    uint64_t *small;            /* sums of samples, if narrow() */
    u128 *sum, *square;         /* else sums of samples, and for deviations of their squares */
    uint32_t *odd[KINDS];       /* counts, of floats */
    void *results;              /* rows of results, one for each thread: f64, or int64_t if they are sums of integers */
};

static struct vp_box seen_by(const struct vp_op *op, const struct vp_box *out)
{
    struct vp_box b;

    for (int a = 0; a < 3; a++) {
        b.lo[a] = vp_max64(out->lo[a] - op->halo[a], 0);
        b.hi[a] = vp_min64(out->hi[a] + op->halo[a], op->image[a]);
    }
    return b;
}

/* Returns NULL for nothing. */
static void *take(void *mem, size_t *bytes, size_t n)
{
    return n ? vp_place(mem, bytes, n) : NULL;
}

/* Fills the pointers into mem (NULL: only counts). Returns the bytes. */
static uint64_t lay_out(struct radius_tables *t, const struct vp_op *op, const struct vp_box *out, int threads,
                        void *mem)
{
    const struct vp_radius_map *p = op->params;
    size_t bytes = 0;

    t->box = seen_by(op, out);
    t->row = vp_box_size(&t->box, 0) + 1;
    t->plane = t->row * (vp_box_size(&t->box, 1) + 1);
    t->planes = vp_box_size(&t->box, 2) + p->volume;
    const size_t cells = (size_t)(t->plane * t->planes);
    t->small = take(mem, &bytes, narrow(p) ? cells * sizeof *t->small : 0);
    t->sum = take(mem, &bytes, narrow(p) ? 0 : cells * sizeof *t->sum);
    t->square = take(mem, &bytes, spreads(p) ? cells * sizeof *t->square : 0);
    for (int k = 0; k < KINDS; k++)
        t->odd[k] = take(mem, &bytes, p->whole ? 0 : cells * sizeof **t->odd);
    t->results = vp_place(mem, &bytes, (size_t)vp_box_size(out, 0) * (size_t)threads * sizeof(double));
    return bytes;
}

static uint64_t scratch(const struct vp_op *op, const struct vp_box *in, const struct vp_box *out, int threads)
{
    struct radius_tables t;

    (void)in;
    return lay_out(&t, op, out, threads, NULL);
}

/* ---- making the tables ---- */

static double sample_at(enum vp_type in, const void *row, int64_t i)
{
    return in == VP_F32 ? (double)((const float *)row)[i] : ((const double *)row)[i];
}

/* Sums a row of samples along x, into the cells from `at` on. */
static void sum_row(const struct vp_op *op, const struct radius_tables *t, const void *row, int64_t at)
{
    const struct vp_radius_map *p = op->params;
    const double half = ldexp(1, p->shift / 2), rest = ldexp(1, p->shift - p->shift / 2);
    uint64_t small = 0;
    u128 sum = 0, square = 0;
    uint32_t odd[KINDS] = {0};

    for (int64_t i = 0; i < t->row - 1; i++) {
        const double v = sample_at(op->in, row, i);
        if (narrow(p)) {
            t->small[at + i + 1] = small += (uint64_t)(int64_t)v;
            continue;
        }
        const bool is_finite = v - v == 0;
        const __int128 n = !is_finite ? 0 : p->whole ? (__int128)v : (__int128)rint((v - p->base) * half * rest);
        t->sum[at + i + 1] = sum += (u128)n;
        if (t->square)
            t->square[at + i + 1] = square += (u128)(n * n);
        for (int k = 0; !p->whole && k < KINDS; k++)
            t->odd[k][at + i + 1] = odd[k] += !is_finite && (k == 0 ? v != v : k == 1 ? v > 0 : v < 0);
    }
}

/* Adds n cells from `from` on to those at `to`. */
static void add_cells(const struct radius_tables *t, int64_t to, int64_t from, int64_t n)
{
    for (int64_t i = 0; i < n && t->small; i++)
        t->small[to + i] += t->small[from + i];
    for (int64_t i = 0; i < n && t->sum; i++)
        t->sum[to + i] += t->sum[from + i];
    for (int64_t i = 0; i < n && t->square; i++)
        t->square[to + i] += t->square[from + i];
    for (int k = 0; k < KINDS; k++)
        for (int64_t i = 0; i < n && t->odd[k]; i++)
            t->odd[k][to + i] += t->odd[k][from + i];
}

/* Sets n cells to 0. */
static void clear_cells(const struct radius_tables *t, int64_t at, int64_t n)
{
    if (t->small)
        memset(t->small + at, 0, (size_t)n * sizeof *t->small);
    if (t->sum)
        memset(t->sum + at, 0, (size_t)n * sizeof *t->sum);
    if (t->square)
        memset(t->square + at, 0, (size_t)n * sizeof *t->square);
    for (int k = 0; k < KINDS && t->odd[k]; k++)
        memset(t->odd[k] + at, 0, (size_t)n * sizeof *t->odd[k]);
}

/* Makes all tables; every thread of the team calls it. */
static void make_tables(const struct vp_op *op, const struct radius_tables *t, const struct vp_part *in)
{
    const struct vp_radius_map *p = op->params;
    const int64_t rows = vp_box_size(&t->box, 1) + 1, first = p->volume; /* plane 0 of a volume's table is 0 */
    const int64_t strips = vp_div_up(t->row, COLUMNS);

    #pragma omp for schedule(static)
    for (int64_t i = 0; i < t->planes * rows; i++) {
        const int64_t y = i % rows, z = i / rows, at = z * t->plane + y * t->row;
        if (z < first || y == 0) {
            clear_cells(t, at, t->row);
            continue;
        }
        clear_cells(t, at, 1);
        const void *const row = vp_part_at(in, vp_type_size(op->in), t->box.lo[0], t->box.lo[1] + y - 1,
                                           t->box.lo[2] + z - first);
        sum_row(op, t, row, at);
    }
    #pragma omp for schedule(static)
    for (int64_t i = 0; i < (t->planes - first) * strips; i++) {
        const int64_t x = i % strips * COLUMNS, at = (i / strips + first) * t->plane + x;
        for (int64_t y = 1; y < rows; y++)
            add_cells(t, at + y * t->row, at + (y - 1) * t->row, vp_min64(COLUMNS, t->row - x));
    }
    if (!p->volume)
        return;
    #pragma omp for schedule(static)
    for (int64_t y = 0; y < rows; y++)
        for (int64_t z = 1; z < t->planes; z++)
            add_cells(t, z * t->plane + y * t->row, (z - 1) * t->plane + y * t->row, t->row);
}

/* ---- reading them ---- */

/* Places of a box's corners in a table, and the number of its samples. */
struct radius_corners { int64_t at[4], below, n; };

static struct radius_corners corners_of(const struct vp_op *op, const struct radius_tables *t, const int64_t at[3],
                                        int64_t r)
{
    const struct vp_radius_map *p = op->params;
    int64_t lo[3], hi[3];
    struct radius_corners c = {.n = 1};

    for (int a = 0; a < 3; a++) {
        const int64_t reach = a < 2 || p->volume ? r : 0;
        lo[a] = vp_max64(at[a] - reach, 0) - t->box.lo[a];
        hi[a] = vp_min64(at[a] + reach, op->image[a] - 1) + 1 - t->box.lo[a];
        c.n *= hi[a] - lo[a];
    }
    const int64_t plane = (p->volume ? hi[2] : lo[2]) * t->plane;
    const int64_t top = plane + hi[1] * t->row, bottom = plane + lo[1] * t->row;
    c.at[0] = top + hi[0];
    c.at[1] = top + lo[0];
    c.at[2] = bottom + hi[0];
    c.at[3] = bottom + lo[0];
    c.below = p->volume ? (hi[2] - lo[2]) * t->plane : 0;
    return c;
}

#define INSIDE(table, c) \
    ((table)[(c)->at[0]] - (table)[(c)->at[1]] - (table)[(c)->at[2]] + (table)[(c)->at[3]])
#define WITHIN(table, c, T) \
    ((T)(INSIDE(table, c) - ((c)->below ? INSIDE((table) - (c)->below, c) : 0)))

/* Returns n^2 times the variance of n numbers of a sum and a sum of squares. Squares are moved to the mean first, so
 * that nothing overflows, and the difference is exact unless it has more than 53 bits. */
static double deviations(u128 sum, u128 square, int64_t n)
{
    const __int128 s = (__int128)sum;
    __int128 mean = s / n;
    const __int128 twice = 2 * (s - mean * n);

    mean += twice > n ? 1 : twice < -(__int128)n ? -1 : 0;
    const __int128 rest = s - mean * n;
    const u128 about = square - (u128)mean * (u128)(2 * s - mean * n);

    if (about >> 94)
        return (double)about * (double)n;
    return (double)(about * (u128)n - (u128)(rest * rest));
}

static double finish(const struct vp_radius_map *p, const struct radius_tables *t, const struct radius_corners *c)
{
    const double n = (double)c->n;

    if (narrow(p))
        return (double)(int64_t)WITHIN(t->small, c, uint64_t) / (p->stat == VP_RADIUS_SUM ? 1 : n);
    if (!p->whole) {
        const uint32_t nan = WITHIN(t->odd[0], c, uint32_t), up = WITHIN(t->odd[1], c, uint32_t);
        const uint32_t down = WITHIN(t->odd[2], c, uint32_t);
        if (nan || (up && down) || ((up || down) && spreads(p)))
            return NAN;
        if (up || down)
            return up ? INFINITY : -INFINITY;
    }
    const u128 sum = WITHIN(t->sum, c, u128);
    if (!spreads(p))
        return ldexp((double)(__int128)sum / (p->stat == VP_RADIUS_SUM ? 1 : n), -p->shift);
    const double by = p->sample ? n - 1 : n;
    const double var = by > 0 ? deviations(sum, WITHIN(t->square, c, u128), c->n) / (n * by) : 0;
    return p->stat == VP_RADIUS_STD ? ldexp(sqrt(var), -p->shift) : ldexp(var, -2 * p->shift);
}

static void make_row(const struct vp_op *op, const struct radius_tables *t, const struct vp_part *radii,
                     const struct vp_part *out, int64_t y, int64_t z)
{
    const struct vp_radius_map *p = op->params;
    const bool exact = p->stat == VP_RADIUS_SUM && p->whole; /* integers stay integers, whatever their size */
    const bool negative = p->from != VP_U8 && p->from != VP_U16 && p->from != VP_U32;
    const int64_t x0 = out->box.lo[0], n = vp_box_size(&out->box, 0);
    const void *const radius = vp_part_at(radii, vp_type_size(op->in), x0, y, z);
    double *const real = (double *)t->results + n * omp_get_thread_num();
    int64_t *const integer = (int64_t *)t->results + n * omp_get_thread_num();

    for (int64_t i = 0; i < n; i++) {
        const int64_t r = vp_min64((int64_t)sample_at(op->in, radius, i), p->reach);
        const struct radius_corners c = corners_of(op, t, (const int64_t[3]){x0 + i, y, z}, r);
        if (exact)
            integer[i] = (int64_t)WITHIN(t->small, &c, uint64_t);
        else
            real[i] = finish(p, t, &c);
    }
    void *const to = vp_part_at(out, vp_type_size(op->out), x0, y, z);
    if (exact)
        vp_convert(to, op->out, integer, negative ? VP_I64 : VP_U64, n, 1, 0);
    else
        vp_convert(to, op->out, real, VP_F64, n, 1, 0);
}

static int run(const struct vp_op *op, const struct vp_part *in, const struct vp_part *out, void *mem, int threads,
               struct vp_err *err)
{
    const int64_t rows = vp_box_size(&out->box, 1), all = rows * vp_box_size(&out->box, 2);
    struct radius_tables t;

    (void)err;
    lay_out(&t, op, &out->box, threads, mem);
    #pragma omp parallel num_threads(threads)
    {
        make_tables(op, &t, &in[0]);
        #pragma omp for schedule(dynamic, 4)
        for (int64_t i = 0; i < all; i++)
            make_row(op, &t, &in[1], out, out->box.lo[1] + i % rows, out->box.lo[2] + i / rows);
    }
    return 0;
}

/* ---- make ---- */

/* Sets the step of floats from their range. */
static void set_step(struct vp_radius_map *p)
{
    int exponent;

    if (p->whole)
        return;
    if (spreads(p))
        p->base = p->lo / 2 + p->hi / 2;
    frexp(fmax(fabs(p->lo - p->base), fabs(p->hi - p->base)), &exponent);
    p->shift = (spreads(p) ? DEVIATION_BITS : SUM_BITS) - exponent;
}

int vp_radius_map_local(struct vp_op *op, const struct vp_radius_map *want, const int64_t image[3], enum vp_type in,
                        enum vp_type out, struct vp_err *err)
{
    static const char *const names[] = {"mean", "sum", "var", "std"};
    double most = 1;

    *op = (struct vp_op){.kernel = "radius_map", .inputs = 2, .from = {~0, ~1}, .in = in, .out = out, .free = free};
    for (int a = 0; a < 3; a++) {
        op->image[a] = image[a];
        op->halo[a] = a < 2 || want->volume ? vp_min64(want->reach, image[a] - 1) : 0;
        most *= fmin(2 * (double)op->halo[a] + 1, (double)image[a]);
    }
    if (most >= 0x1p31)
        return vp_fail(err, VP_EUSAGE, "--radius-map: a box of %.3g voxels is too large", most);
    struct vp_radius_map *const p = vp_alloc(1, sizeof *p, "radii", err);
    if (!p)
        return -1;
    *p = *want;
    set_step(p);
    op->params = p;
    op->scratch = scratch;
    op->run = run;
    op->cost = narrow(p) ? 8 : spreads(p) ? 40 : 20;
    snprintf(op->text, sizeof op->text, "%s, boxes of a map of radii up to %lld, exact sums of %s", names[p->stat],
             (long long)p->reach, p->whole ? "integers" : "steps of a power of two");
    return 0;
}
