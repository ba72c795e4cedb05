/* SPDX-License-Identifier: BSD-3-Clause */
/* Voxel-driven back-projection: the plan, the buffers, the way in and out. The kernels are in
 * backproject_isa.c.
 *
 * Where the detector's rows are parallel to the orbit's plane (P[2] = P[10] = 0), u, the depth and the
 * weight are the same for a whole column of voxels, and v is linear along it; if the detector's centre row
 * lies in the volume's middle plane, v(k) + v(nz - 1 - k) is constant (Chen et al. 2019, iFDK, theorems 1
 * to 3). The matrices are tested for both; nothing is assumed of the orbit. */
#include "ct/backproject_internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/isa.h"
#include "base/size.h"

/* --- matrices ------------------------------------------------------------------------------------------- */

void vp_backproject_matrix(const struct vp_view *view, const struct vp_grid *grid, double P[12])
{
    vp_view_on_grid(view, grid, P);
    const double scale = view->sod > 0 ? 1 / view->sod : 1;
    for (int i = 0; i < 12; i++)
        P[i] *= scale;
}

static double row_dot(const double *row, double i, double j, double k)
{
    return row[0] * i + row[1] * j + row[2] * k + row[3];
}

struct range { double lo, hi; };

static void widen(struct range *r, double x)
{
    r->lo = fmin(r->lo, x);
    r->hi = fmax(r->hi, x);
}

/* Row coordinates and depths over the box [0, nx) x [0, ny) x [z0, z1). The extremes of v are at the
 * corners if the whole box is in front of the source; else false. */
static bool box_extremes(const double P[12], const struct vp_grid *grid, int64_t z0, int64_t z1,
                         struct range *v, struct range *w)
{
    bool in_front = true;
    for (int c = 0; c < 8; c++) {
        const double i = c & 1 ? (double)(grid->n[0] - 1) : 0, j = c & 2 ? (double)(grid->n[1] - 1) : 0;
        const double k = (double)(c & 4 ? z1 - 1 : z0);
        const double depth = row_dot(P + 8, i, j, k);
        widen(w, depth);
        if (depth > VP_BP_NEAREST)
            widen(v, row_dot(P + 4, i, j, k) / depth);
        else
            in_front = false;
    }
    return in_front && isfinite(v->lo) && isfinite(v->hi);
}

static const struct range EMPTY = {INFINITY, -INFINITY};

/* First and one past the last row that interpolation at v in `v` needs, with a row to spare, within [lo,
 * hi). */
static void rows_of(struct range v, int64_t lo, int64_t hi, int64_t *r0, int64_t *r1)
{
    *r0 = (int64_t)fmin(fmax(floor(v.lo) - 1, (double)lo), (double)hi);
    *r1 = (int64_t)fmin(fmax(floor(v.hi) + 3, (double)*r0), (double)hi);
}

void vp_backproject_rows(const struct vp_view *views, int64_t n_views, int64_t nv, const struct vp_grid *grid,
                         int64_t z0, int64_t z1, int64_t *v0, int64_t *v1)
{
    struct range v = EMPTY, w = EMPTY;
    *v0 = 0;
    *v1 = nv;
    for (int64_t s = 0; s < n_views; s++) {
        double P[12];
        vp_backproject_matrix(&views[s], grid, P);
        if (!box_extremes(P, grid, z0, z1, &v, &w))
            return;
    }
    if (n_views > 0)
        rows_of(v, 0, nv, v0, v1);
}

/* --- plan ----------------------------------------------------------------------------------------------- */

/* Errors of coordinates, in pixels over the whole volume, below which a dependence on k counts as none. */
#define NEGLIGIBLE 1e-7
/* Rows, and rows per voxel, that the kernels' fixed point holds, with room to spare. */
#define FIXED_POINT_ROWS 0x1p18
#define FIXED_POINT_STEP 0x1p9

static bool lines_and_depths_constant(const struct vp_backproject *b, const struct vp_grid *grid)
{
    for (int64_t s = 0; s < b->n_views; s++) {
        const double *P = b->views[s].P;
        struct range v = EMPTY, w = EMPTY;
        box_extremes(P, grid, 0, b->nz, &v, &w);
        const double f = 1 / fmax(w.lo, VP_BP_NEAREST), height = (double)(b->nz - 1);
        const double far = fabs(P[4]) * (double)b->nx + fabs(P[5]) * (double)b->ny
                         + fabs(P[6]) * (double)b->nz + fabs(P[7]);
        if (!(fabs(P[2]) * height * f <= NEGLIGIBLE &&
              fabs(P[10]) * height * f * (double)(b->nu + b->nv) <= NEGLIGIBLE &&
              far * f <= FIXED_POINT_ROWS && fabs(P[6]) * f <= FIXED_POINT_STEP))
            return false;
    }
    return true;
}

/* v(k) + v(nz - 1 - k) the same integer in all views? (In each view's own frame of rows.) */
static bool mirrored(const struct vp_backproject *b, const struct vp_grid *grid, int64_t *sum)
{
    const double *Q = b->views[0].P;
    const double i = (double)(b->nx - 1) / 2, j = (double)(b->ny - 1) / 2, k = (double)(b->nz - 1) / 2;
    const double twice = 2 * row_dot(Q + 4, i, j, k) / row_dot(Q + 8, i, j, k);
    /* far off centre the halves share few rows: not worth it, and the lines would grow */
    if (b->nz < 2 || !(fabs(twice - (double)(b->rows - 1)) <= (double)b->rows / 4))
        return false;
    *sum = llround(twice);
    for (int64_t s = 0; s < b->n_views; s++) {
        const double *P = b->views[s].P, m = (double)*sum;
        struct range v = EMPTY, w = EMPTY;
        box_extremes(P, grid, 0, b->nz, &v, &w);
        const double error = fabs(2 * P[4] - m * P[8]) * (double)b->nx
                           + fabs(2 * P[5] - m * P[9]) * (double)b->ny
                           + fabs(2 * P[7] + P[6] * (double)(b->nz - 1) - m * P[11]);
        if (!(error <= NEGLIGIBLE * fmax(w.lo, VP_BP_NEAREST)))
            return false;
    }
    return true;
}

static void swap_rows(double P[12])
{
    for (int i = 0; i < 4; i++) {
        const double t = P[i];
        P[i] = P[4 + i];
        P[4 + i] = t;
    }
}

/* Which kernels, and the views' matrices in the frame of the lines. */
static void plan_views(struct vp_backproject *b, const struct vp_grid *grid)
{
    b->lines = b->nu;
    b->rows = b->nv;
    b->refine = 1;
    b->few = b->nz <= FEW_SLICES;
    if (b->few)
        return;
    b->fast = lines_and_depths_constant(b, grid);
    if (!b->fast) {
        double along_u = 0, along_v = 0;
        for (int64_t s = 0; s < b->n_views; s++) {
            const double *P = b->views[s].P; /* du/dk and dv/dk at the volume's centre */
            const double i = (double)(b->nx - 1) / 2, j = (double)(b->ny - 1) / 2;
            const double k = (double)(b->nz - 1) / 2;
            const double w = row_dot(P + 8, i, j, k);
            along_u += fabs(P[2] - P[10] * row_dot(P, i, j, k) / w);
            along_v += fabs(P[6] - P[10] * row_dot(P + 4, i, j, k) / w);
        }
        b->swap = along_u > along_v;
        if (b->swap) {
            b->lines = b->nv;
            b->rows = b->nu;
            for (int64_t s = 0; s < b->n_views; s++)
                swap_rows(b->views[s].P);
        }
        return;
    }
    double step = 0;
    for (int64_t s = 0; s < b->n_views; s++) {
        struct vp_bp_view *view = &b->views[s];
        view->P[2] = view->P[10] = 0;
        view->flip = view->P[6] < 0;
        if (view->flip)
            for (int i = 0; i < 4; i++)
                view->P[4 + i] = (double)(b->rows - 1) * view->P[8 + i] - view->P[4 + i];
        step = fmax(step, view->P[6]);
    }
    b->mirror = mirrored(b, grid, &b->mirror_sum);
    if (b->isa->want_refine && step > 0 && step < 0.65) {
        b->refine = 2;
        b->mirror_sum *= 2;
        for (int64_t s = 0; s < b->n_views; s++)
            for (int i = 0; i < 4; i++)
                b->views[s].P[4 + i] *= 2;
    }
}

/* Half h needs [*lo, *hi) of its own count. */
static void half_range(const struct vp_backproject *b, int h, int64_t *lo, int64_t *hi)
{
    const int64_t low_end = b->mirror ? (b->nz + 1) / 2 : b->nz;
    *lo = h == 0 ? b->z0 : b->nz - b->z1;
    *hi = h == 0 ? vp_min64(b->z1, low_end) : b->nz - vp_max64(b->z0, low_end);
    if (*hi <= *lo || (h == 1 && !b->mirror))
        *lo = *hi = 0;
}

/* The segments that a slab needs, into `out` (if not NULL); their number, and the floats of a tile. */
static int plan_segments(struct vp_backproject *b, struct vp_bp_segment *out)
{
    int64_t lo[2], hi[2];
    if (b->few) {
        for (int64_t z = b->z0; z < b->z1 && out; z++)
            out[z - b->z0] = (struct vp_bp_segment){.k = z, .offset = (z - b->z0) * COLUMNS};
        b->tile_floats = (b->z1 - b->z0) * COLUMNS;
        return (int)(b->z1 - b->z0);
    }
    for (int h = 0; h < 2; h++)
        half_range(b, h, &lo[h], &hi[h]);
    const int64_t end = vp_max64(hi[0], hi[1]);
    int n = 0;
    b->tile_floats = 0;
    for (int64_t k = 0; k < end; k += SEGMENT) {
        int64_t first = SEGMENT, last = 0;
        int halves = 0;
        for (int h = 0; h < 2; h++) {
            const int64_t a = vp_max64(lo[h] - k, 0), e = vp_min64(hi[h] - k, SEGMENT);
            if (a >= e)
                continue;
            halves |= 1 << h;
            first = vp_min64(first, a);
            last = vp_max64(last, e);
        }
        if (!halves)
            continue;
        const int b0 = (int)(first / BLOCK), b1 = (int)((last + BLOCK - 1) / BLOCK);
        if (out)
            out[n] = (struct vp_bp_segment){.k = k, .first = b0, .count = b1 - b0, .halves = halves,
                                            .offset = b->tile_floats};
        b->tile_floats += (int64_t)COLUMNS * BLOCK * (b1 - b0) * (halves == (HALF_LOW | HALF_HIGH) ? 2 : 1);
        n++;
    }
    return n;
}

/* Rows of the lines that the slab needs, in the lines' frame. */
static void plan_rows(struct vp_backproject *b, const struct vp_grid *grid)
{
    /* with midpoints, half a row beyond the ends is not zero yet */
    int64_t lo = -(b->refine - 1), hi = (b->rows - 1) * b->refine + b->refine;
    if (b->mirror) {
        const int64_t l = lo, h = hi;
        lo = vp_min64(l, b->mirror_sum - (h - 1));
        hi = vp_min64(vp_max64(h, b->mirror_sum - l + 1), b->mirror_sum / 2 + 3); /* v grows up to the middle */
    }
    b->row0 = lo;
    b->row1 = hi;
    struct range v = EMPTY, w = EMPTY;
    for (int h = 0; h < 2; h++) {
        int64_t k0, k1;
        half_range(b, h, &k0, &k1);
        for (int64_t s = 0; s < b->n_views && k0 < k1; s++)
            if (!box_extremes(b->views[s].P, grid, k0, k1, &v, &w))
                return;
    }
    if (b->n_views > 0)
        rows_of(v, lo, hi, &b->row0, &b->row1);
}

/* --- open, close ---------------------------------------------------------------------------------------- */

static void describe(struct vp_backproject *b)
{
    bool parallel = true;
    for (int64_t s = 0; s < b->n_views; s++) {
        const double *P = b->views[s].P;
        parallel = parallel && P[8] == 0 && P[9] == 0 && P[10] == 0;
    }
    const char *kernels = b->few ? "few slices" : !b->fast ? "3x4 matrices"
                        : parallel ? "parallel beam" : "circular orbit";
    snprintf(b->text, sizeof b->text, "%s%s, %s", kernels, b->mirror ? ", z mirror" : "", b->isa->name);
}

static int plan(struct vp_backproject *b, const struct vp_view *views, const struct vp_grid *grid,
                struct vp_err *err)
{
    b->views = vp_alloc((size_t)b->n_views, sizeof *b->views, "the views", err);
    if (!b->views)
        return -1;
    for (int64_t s = 0; s < b->n_views; s++)
        vp_backproject_matrix(&views[s], grid, b->views[s].P);
    plan_views(b, grid);
    plan_rows(b, grid);
    describe(b);

    const int64_t line = (b->row1 - b->row0 + PAD + BLOCK - 1) / BLOCK * BLOCK;
    b->mirror_offset = b->mirror ? line : 0;
    b->pitch = ((line + b->mirror_offset) / BLOCK | 1) * BLOCK; /* an odd number of cache lines: neighbours do not fall
                                                                   into one set */
    b->view_floats = (b->lines + 2) * b->pitch + PAD;
    b->batch = BATCH / b->refine;
    b->n_segments = plan_segments(b, NULL);
    b->tiles_x = vp_div_up(b->nx, TILE);
    b->tiles = b->tiles_x * vp_div_up(b->ny, TILE);
    return 0;
}

static int allocate(struct vp_backproject *b, struct vp_err *err)
{
    b->transposed = vp_alloc((size_t)b->view_floats, (size_t)b->batch * sizeof(float),
                             "the transposed projections", err);
    b->segments = vp_alloc((size_t)b->n_segments, sizeof *b->segments, "the segments", err);
    b->volume = vp_alloc_raw((size_t)b->tiles, (size_t)b->tile_floats * sizeof(float), "the volume", err);
    if (!b->transposed || !b->segments || !b->volume)
        return -1;
    plan_segments(b, b->segments);
    const size_t tile_bytes = (size_t)b->tile_floats * sizeof(float);
#pragma omp parallel for num_threads(b->threads)
    for (int64_t t = 0; t < b->tiles; t++)
        memset(b->volume + t * b->tile_floats, 0, tile_bytes);
    return 0;
}

/* Planned, but without the buffers. */
static int create(struct vp_backproject **out, const struct vp_view *views, int64_t n_views, int64_t nu, int64_t nv,
                  const struct vp_grid *grid, int64_t z0, int64_t z1, int threads, const char *isa,
                  struct vp_err *err)
{
    *out = NULL;
    if (n_views < 1 || z0 < 0 || z0 >= z1 || z1 > grid->n[2])
        return vp_fail(err, VP_EUSAGE, "nothing to back-project: %lld views into slices %lld to %lld of %lld",
                       (long long)n_views, (long long)z0, (long long)z1, (long long)grid->n[2]);
    struct vp_backproject *b = vp_alloc(1, sizeof *b, "the back-projection", err);
    if (!b)
        return -1;
    b->n_views = n_views;
    b->nu = nu;
    b->nv = nv;
    b->nx = grid->n[0];
    b->ny = grid->n[1];
    b->nz = grid->n[2];
    b->z0 = z0;
    b->z1 = z1;
    b->threads = threads > 0 ? threads : vp_cores();
    b->isa = VP_ISA_FIND(vp_bp_isa, isa);
    if (!b->isa)
        vp_fail(err, VP_ERESOURCE, "no such instruction set here: %s", isa);
    if (!b->isa || plan(b, views, grid, err)) {
        vp_backproject_close(b);
        return -1;
    }
    *out = b;
    return 0;
}

int vp_backproject_open(struct vp_backproject **out, const struct vp_view *views, int64_t n_views, int64_t nu,
                        int64_t nv, const struct vp_grid *grid, int64_t z0, int64_t z1, int threads,
                        const char *isa, struct vp_err *err)
{
    if (create(out, views, n_views, nu, nv, grid, z0, z1, threads, isa, err))
        return -1;
    if (allocate(*out, err)) {
        vp_backproject_close(*out);
        *out = NULL;
        return -1;
    }
    return 0;
}

/* Alignment and bookkeeping of an allocation at most; vp_alloc aligns large ones to 2 MiB. */
enum { SLACK = 1 << 21 };

int vp_backproject_plan(const struct vp_view *views, int64_t n_views, int64_t nu, int64_t nv,
                        const struct vp_grid *grid, int64_t z0, int64_t z1, char *text, size_t size, uint64_t *bytes,
                        struct vp_err *err)
{
    struct vp_backproject *b;
    if (create(&b, views, n_views, nu, nv, grid, z0, z1, 1, NULL, err))
        return -1;
    snprintf(text, size, "%s", b->text);
    *bytes = (uint64_t)n_views * sizeof *b->views + (uint64_t)b->n_segments * sizeof *b->segments
           + (uint64_t)(b->tiles * b->tile_floats + b->batch * b->view_floats) * sizeof(float) + 2 * SLACK + sizeof *b;
    vp_backproject_close(b);
    return 0;
}

void vp_backproject_close(struct vp_backproject *b)
{
    if (!b)
        return;
    free(b->volume);
    free(b->segments);
    free(b->transposed);
    free(b->views);
    free(b);
}

const char *vp_backproject_describe(const struct vp_backproject *b)
{
    return b->text;
}

/* Tiles a side of the squares in which the volume is walked. */
enum { SQUARE = 8 };

/* Samples or updates below which waking other threads takes longer than the work. */
enum { WORTH_THREADS = 1 << 16 };

/* --- views in ------------------------------------------------------------------------------------------- */

/* Item `n` of the walk over all tiles: square after square, so that tiles close in time are close in space
 * and find the same lines in the cache. False where a square sticks out. */
static bool tile_of_item(const struct vp_backproject *b, int64_t n, int64_t *tile)
{
    const int64_t square = n / (SQUARE * SQUARE), squares_x = (b->tiles_x + SQUARE - 1) / SQUARE;
    const int64_t x = square % squares_x * SQUARE + n % SQUARE;
    const int64_t y = square / squares_x * SQUARE + n / SQUARE % SQUARE;
    *tile = y * b->tiles_x + x;
    return x < b->tiles_x && *tile < b->tiles;
}

static void process_batch(struct vp_backproject *b)
{
    if (!b->pending)
        return;
    const int64_t squares_x = (b->tiles_x + SQUARE - 1) / SQUARE, tiles_y = b->tiles / b->tiles_x;
    const int64_t items = squares_x * ((tiles_y + SQUARE - 1) / SQUARE) * SQUARE * SQUARE;
    /* few tiles (a tall thin volume): cut them along z so that all threads have work */
    const int64_t wanted = 8 * (int64_t)b->threads;
    const int64_t parts = b->tiles >= wanted ? 1 : vp_min64(b->n_segments, (wanted + b->tiles - 1) / b->tiles);
    const bool worth = b->tiles * b->tile_floats * b->batch >= WORTH_THREADS;
#pragma omp parallel for num_threads(b->threads) schedule(dynamic, 4) if (worth)
    for (int64_t item = 0; item < items * parts; item++) {
        const int64_t part = item / items;
        int64_t tile;
        if (tile_of_item(b, item % items, &tile))
            b->isa->tile(b, tile, (int)(part * b->n_segments / parts),
                         (int)((part + 1) * b->n_segments / parts));
    }
    memset(b->present, 0, sizeof b->present);
    b->pending = false;
}

int vp_backproject_add(struct vp_backproject *b, int64_t first, int64_t n, const float *proj,
                       struct vp_err *err)
{
    if (first < b->next_view || n < 0 || first > b->n_views - n)
        return vp_fail(err, VP_ERUN, "views %lld to %lld out of order, or not of %lld", (long long)first,
                       (long long)(first + n), (long long)b->n_views);
    enum { STRIP = 64 };
    const int64_t strips = (b->lines + STRIP - 1) / STRIP;
    for (int64_t s = first; s < first + n;) {
        const int64_t batch = s / b->batch * b->batch, end = vp_min64(batch + b->batch, first + n);
        if (batch != b->batch_first)
            process_batch(b);
        b->batch_first = batch;
        const bool worth = (end - s) * b->nu * b->nv >= WORTH_THREADS;
#pragma omp parallel for num_threads(b->threads) schedule(dynamic, 4) if (worth)
        for (int64_t item = 0; item < (end - s) * strips; item++) {
            const int64_t view = s + item / strips, l0 = item % strips * STRIP;
            b->isa->transpose(b, (int)(view - batch), &b->views[view], proj + (view - first) * b->nu * b->nv,
                              l0, vp_min64(l0 + STRIP, b->lines));
        }
        for (; s < end; s++)
            b->present[s - batch] = true;
        b->pending = true;
        b->next_view = end;
        if (end == batch + b->batch)
            process_batch(b);
    }
    return 0;
}

int vp_backproject_flush(struct vp_backproject *b, struct vp_err *err)
{
    (void)err;
    process_batch(b);
    b->next_view = 0;
    return 0;
}

/* --- slices out and in ---------------------------------------------------------------------------------- */

/* Where voxel z of a tile's column 0 lies, and the floats from column to column. */
static float *voxel_place(const struct vp_backproject *b, int64_t z, int64_t *column)
{
    if (b->few) {
        *column = 1;
        return b->volume + (z - b->z0) * COLUMNS;
    }
    const bool high = b->mirror && z >= (b->nz + 1) / 2;
    const int64_t k = high ? b->nz - 1 - z : z;
    const struct vp_bp_segment *seg = b->segments;
    while (seg->k + SEGMENT <= k)
        seg++;
    const int64_t depth = (int64_t)seg->count * BLOCK;
    const bool both = seg->halves == (HALF_LOW | HALF_HIGH);
    *column = both ? 2 * depth : depth;
    return b->volume + seg->offset + (both && high ? depth : 0) + (k - seg->k - (int64_t)seg->first * BLOCK);
}

/* Slices that are copied together: two cache lines of a column. */
enum { RUN = 2 * BLOCK };

/* How many slices from z on lie next to each other in memory, at most n and RUN, and whether backwards. */
static int64_t run_of_slices(const struct vp_backproject *b, int64_t z, int64_t n, bool *down)
{
    const int64_t middle = (b->nz + 1) / 2;
    const bool high = b->mirror && z >= middle;
    const int64_t k = high ? b->nz - 1 - z : z;
    *down = high;
    if (b->few)
        return 1;
    if (b->mirror && !high)
        n = vp_min64(n, middle - z);
    return vp_min64(n, high ? k % RUN + 1 : RUN - k % RUN);
}

typedef float four __attribute__((vector_size(16), aligned(4), may_alias));

/* to[z][c] = from[c][z] for 4 columns c, `column` floats apart, and 4 z. */
static inline void turn_four(const float *from, int64_t column, float *to, int64_t row)
{
    const four a = *(const four *)from, b = *(const four *)(from + column);
    const four c = *(const four *)(from + 2 * column), d = *(const four *)(from + 3 * column);
    const four ab = __builtin_shufflevector(a, b, 0, 4, 1, 5), cd = __builtin_shufflevector(c, d, 0, 4, 1, 5);
    const four ef = __builtin_shufflevector(a, b, 2, 6, 3, 7), gh = __builtin_shufflevector(c, d, 2, 6, 3, 7);
    *(four *)to = __builtin_shufflevector(ab, cd, 0, 1, 4, 5);
    *(four *)(to + row) = __builtin_shufflevector(ab, cd, 2, 3, 6, 7);
    *(four *)(to + 2 * row) = __builtin_shufflevector(ef, gh, 0, 1, 4, 5);
    *(four *)(to + 3 * row) = __builtin_shufflevector(ef, gh, 2, 3, 6, 7);
}

/* Row y of `run` slices; `from` is the lowest address of column 0's voxels. */
static void copy_row(const struct vp_backproject *b, const float *from, int64_t column, bool down,
                     int64_t run, int64_t y, float *out)
{
    enum { STRIP = 16 * TILE, PITCH = STRIP + 16 };
    /* slices are often a power of two apart: written straight, they would collide in the cache */
    float strip[RUN * PITCH];
    const int64_t slice = b->nx * b->ny;
    const float *src = from + y / TILE * b->tiles_x * b->tile_floats + y % TILE * TILE * column;
    for (int64_t x0 = 0; x0 < b->nx; x0 += STRIP) {
        const int64_t width = vp_min64(STRIP, b->nx - x0);
        for (int64_t x = 0; x < width; x += TILE, src += b->tile_floats) {
            if (x0 + x + TILE < b->nx)
                for (int64_t t = 0; t < TILE; t++)
                    for (int64_t d = 0; d < run; d += BLOCK)
                        __builtin_prefetch(src + b->tile_floats + t * column + d);
            for (int64_t t = 0; t < TILE; t += 4) {
                const float *p = src + t * column;
                int64_t d = 0;
                for (; d + 4 <= run; d += 4)
                    turn_four(p + d, column, strip + d * PITCH + x + t, PITCH);
                for (; d < run; d++)
                    for (int64_t c = 0; c < 4; c++)
                        strip[d * PITCH + x + t + c] = p[c * column + d];
            }
        }
        for (int64_t d = 0; d < run; d++)
            memcpy(out + (down ? run - 1 - d : d) * slice + y * b->nx + x0, strip + d * PITCH,
                   (size_t)width * sizeof *out);
    }
}

/* Row y of `run` slices; `to` is the lowest address of column 0's voxels. */
static void put_row(const struct vp_backproject *b, float *to, int64_t column, bool down, int64_t run, int64_t y,
                    const float *in)
{
    const int64_t slice = b->nx * b->ny;
    to += y / TILE * b->tiles_x * b->tile_floats + y % TILE * TILE * column;
    for (int64_t x = 0; x < b->nx; x++)
        for (int64_t d = 0; d < run; d++)
            to[x / TILE * b->tile_floats + x % TILE * column + d] = in[(down ? run - 1 - d : d) * slice + y * b->nx + x];
}

/* Slices z, ..., z + n - 1: out of the volume, or, where there is `in`, into it. */
static void copy_slices(const struct vp_backproject *b, int64_t z, int64_t n, float *out, const float *in)
{
    const int64_t slice = b->nx * b->ny;
    for (int64_t done = 0, run; done < n; done += run, z += run) {
        int64_t column;
        bool down;
        run = run_of_slices(b, z, n - done, &down);
        float *const voxels = voxel_place(b, down ? z + run - 1 : z, &column);
        const bool worth = run * slice >= WORTH_THREADS;
#pragma omp parallel for num_threads(b->threads) schedule(static, TILE) if (worth)
        for (int64_t y = 0; y < b->ny; y++)
            if (in)
                put_row(b, voxels, column, down, run, y, in + done * slice);
            else
                copy_row(b, voxels, column, down, run, y, out + done * slice);
    }
}

void vp_backproject_slices(const struct vp_backproject *b, int64_t z, int64_t n, float *out)
{
    copy_slices(b, z, n, out, NULL);
}

void vp_backproject_put(struct vp_backproject *b, int64_t z, int64_t n, const float *in)
{
    copy_slices(b, z, n, NULL, in);
}

static bool same_shape(const struct vp_backproject *a, const struct vp_backproject *b)
{
    return a->nx == b->nx && a->ny == b->ny && a->nz == b->nz && a->z0 == b->z0 && a->z1 == b->z1 && a->few == b->few
           && a->mirror == b->mirror && a->tile_floats == b->tile_floats;
}

int vp_backproject_blend(struct vp_backproject *b, float a, const struct vp_backproject *x, float keep,
                         struct vp_err *err)
{
    if (x && !same_shape(b, x))
        return vp_fail(err, VP_ERUN, "the volumes lie differently in memory: %s, and %s", b->text, x->text);
#pragma omp parallel for num_threads(b->threads) schedule(static)
    for (int64_t t = 0; t < b->tiles; t++) {
        float *to = b->volume + t * b->tile_floats;
        const float *from = x ? x->volume + t * x->tile_floats : NULL;
        for (int64_t i = 0; i < b->tile_floats; i++) {
            const float kept = keep != 0 ? keep * to[i] : 0;
            to[i] = !from ? kept : keep != 0 ? a * from[i] + kept : a * from[i];
        }
    }
    return 0;
}

/* --- definition ----------------------------------------------------------------------------------------- */

static double pixel(const float *q, int64_t nu, int64_t nv, int64_t u, int64_t v)
{
    return u >= 0 && u < nu && v >= 0 && v < nv ? (double)q[v * nu + u] : 0.0;
}

static double update(const double P[12], int64_t nu, int64_t nv, const float *q, double i, double j, double k)
{
    const double w = row_dot(P + 8, i, j, k);
    if (!(w > VP_BP_NEAREST))
        return 0;
    const double u = row_dot(P, i, j, k) / w, v = row_dot(P + 4, i, j, k) / w;
    if (!(u > -1 && u < (double)nu && v > -1 && v < (double)nv))
        return 0;
    const int64_t m = (int64_t)floor(u), n = (int64_t)floor(v);
    const double a = u - (double)m, c = v - (double)n;
    return ((1 - c) * ((1 - a) * pixel(q, nu, nv, m, n) + a * pixel(q, nu, nv, m + 1, n)) +
            c * ((1 - a) * pixel(q, nu, nv, m, n + 1) + a * pixel(q, nu, nv, m + 1, n + 1))) / (w * w);
}

double vp_backproject_ref(const struct vp_view *views, int64_t n_views, int64_t nu, int64_t nv,
                          const struct vp_grid *grid, const float *proj, int64_t i, int64_t j, int64_t k)
{
    double sum = 0;
    for (int64_t s = 0; s < n_views; s++) {
        double P[12];
        vp_backproject_matrix(&views[s], grid, P);
        sum += update(P, nu, nv, proj + s * nu * nv, (double)i, (double)j, (double)k);
    }
    return sum;
}
