/* SPDX-License-Identifier: BSD-3-Clause */
/* Voxel-driven back-projection: the plan, the buffers, the way in and out. The kernels are in
 * backproject_isa.c.
 *
 * Where the detector's rows are parallel to the orbit's plane (P[2] = P[10] = 0), u, the depth and the
 * weight are the same for a whole column of voxels, and v is linear along it; if the detector's centre row
 * lies in the volume's middle plane, v(k) + v(nz - 1 - k) is constant (Chen et al. 2019, iFDK, theorems 1
 * to 3). The matrices are tested for both (ct/orbit.h); nothing is assumed of the orbit. */
#include "ct/backproject_internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/isa.h"
#include "base/size.h"
#include "ct/helix.h"
#include "ct/orbit.h"

void vp_backproject_matrix(const struct vp_view *view, const struct vp_grid *grid, double P[12])
{
    vp_view_on_grid(view, grid, P);
    const double scale = view->sod > 0 ? 1 / view->sod : 1;
    for (int i = 0; i < 12; i++)
        P[i] *= scale;
}

/* First and one past the last row that interpolation at v in `v` needs, with a row to spare, within [lo,
 * hi). */
static void rows_of(struct vp_extent v, int64_t lo, int64_t hi, int64_t *r0, int64_t *r1)
{
    *r0 = (int64_t)fmin(fmax(floor(v.lo) - 1, (double)lo), (double)hi);
    *r1 = (int64_t)fmin(fmax(floor(v.hi) + 3, (double)*r0), (double)hi);
}

void vp_backproject_rows(const struct vp_view *views, int64_t n_views, int64_t nv, const struct vp_grid *grid,
                         int64_t z0, int64_t z1, bool mirrored, int64_t *v0, int64_t *v1)
{
    struct vp_extent v = VP_EXTENT_NONE, w = VP_EXTENT_NONE;
    const int64_t nz = grid->n[2];
    *v0 = 0;
    *v1 = nv;
    for (int64_t s = 0; s < n_views; s++) {
        double P[12];
        vp_backproject_matrix(&views[s], grid, P);
        if (!vp_orbit_box(P, grid->n, z0, z1, &v, &w)
            || (mirrored && !vp_orbit_box(P, grid->n, nz - z1, nz - z0, &v, &w)))
            return;
    }
    if (n_views > 0)
        rows_of(v, 0, nv, v0, v1);
}

/* --- plan ----------------------------------------------------------------------------------------------- */

/* Rows, and rows per voxel, that the kernels' fixed point holds, with room to spare. */
#define FIXED_POINT_ROWS 0x1p18
#define FIXED_POINT_STEP 0x1p9

static bool column_kernels_do(const struct vp_backproject *b)
{
    for (int64_t s = 0; s < b->n_views; s++) {
        const double *P = b->views[s].P, f = 1 / vp_orbit_nearest(P, b->n);
        const double far = fabs(P[4]) * (double)b->n[0] + fabs(P[5]) * (double)b->n[1]
                         + fabs(P[6]) * (double)b->n[2] + fabs(P[7]);
        if (!(vp_orbit_upright(P, b->nu + b->nv, b->n) && far * f <= FIXED_POINT_ROWS
              && fabs(P[6]) * f <= FIXED_POINT_STEP))
            return false;
    }
    return true;
}

/* v(k) + v(nz - 1 - k) the same integer in all views? (In each view's own frame of rows.) */
static bool mirrored(const struct vp_backproject *b, int64_t *sum)
{
    const double *Q = b->views[0].P;
    const double i = (double)(b->n[0] - 1) / 2, j = (double)(b->n[1] - 1) / 2, k = (double)(b->n[2] - 1) / 2;
    const double twice = 2 * vp_orbit_dot(Q + 4, i, j, k) / vp_orbit_dot(Q + 8, i, j, k);
    /* far off centre the halves share few rows: not worth it, and the lines would grow */
    if (b->n[2] < 2 || !(fabs(twice - (double)(b->rows - 1)) <= (double)b->rows / 4))
        return false;
    *sum = llround(twice);
    for (int64_t s = 0; s < b->n_views; s++)
        if (!vp_orbit_mirrored(b->views[s].P, *sum, b->n))
            return false;
    return true;
}

/* Which kernels, and the views' matrices in the frame of the lines. */
static void plan_views(struct vp_backproject *b)
{
    b->lines = b->nu;
    b->rows = b->nv;
    b->refine = 1;
    b->few = b->n[2] <= FEW_SLICES || (b->helix.pitch != 0 && vp_helix_section(&b->helix, &b->grid) < BLOCK);
    b->segment = b->few ? 1 : b->helix.pitch != 0 ? BLOCK : SEGMENT;
    if (b->few)
        return;
    b->fast = column_kernels_do(b);
    if (!b->fast) {
        double along_u = 0, along_v = 0;
        for (int64_t s = 0; s < b->n_views; s++) {
            const double *P = b->views[s].P; /* du/dk and dv/dk at the volume's centre */
            const double i = (double)(b->n[0] - 1) / 2, j = (double)(b->n[1] - 1) / 2, k = (double)(b->n[2] - 1) / 2;
            const double w = vp_orbit_dot(P + 8, i, j, k);
            along_u += fabs(P[2] - P[10] * vp_orbit_dot(P, i, j, k) / w);
            along_v += fabs(P[6] - P[10] * vp_orbit_dot(P + 4, i, j, k) / w);
        }
        b->swap = along_u > along_v;
        if (b->swap) {
            b->lines = b->nv;
            b->rows = b->nu;
            for (int64_t s = 0; s < b->n_views; s++)
                for (double *P = b->views[s].P, *end = P + 4; P < end; P++) {
                    const double u = P[0];
                    P[0] = P[4];
                    P[4] = u;
                }
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
    b->mirror = b->helix.pitch == 0 && mirrored(b, &b->mirror_sum);
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
    const int64_t low_end = b->mirror ? (b->n[2] + 1) / 2 : b->n[2];
    *lo = h == 0 ? b->z0 : b->n[2] - b->z1;
    *hi = h == 0 ? vp_min64(b->z1, low_end) : b->n[2] - vp_max64(b->z0, low_end);
    if (*hi <= *lo || (h == 1 && !b->mirror))
        *lo = *hi = 0;
}

/* The segments that the slab needs, and the floats of a tile. */
static int plan_segments(struct vp_backproject *b, struct vp_err *err)
{
    const int64_t step = b->segment;
    int64_t lo[2], hi[2];
    for (int h = 0; h < 2; h++)
        half_range(b, h, &lo[h], &hi[h]);
    b->segments = vp_alloc((size_t)vp_div_up(b->n[2], step), sizeof *b->segments, "the segments", err);
    if (!b->segments)
        return -1;
    for (int64_t k = b->few ? b->z0 : 0; k < vp_max64(hi[0], hi[1]); k += step) {
        struct vp_bp_segment seg = {.k = k, .offset = b->tile_floats};
        int64_t first = step, last = 0;
        for (int h = 0; h < 2; h++) {
            const int64_t a = vp_max64(lo[h] - k, 0), e = vp_min64(hi[h] - k, step);
            if (a >= e)
                continue;
            seg.high = h && !seg.halves;
            seg.halves++;
            first = vp_min64(first, a);
            last = vp_max64(last, e);
        }
        if (!seg.halves)
            continue;
        seg.first = (int)(first / BLOCK);
        seg.count = (int)vp_div_up(last, BLOCK) - seg.first;
        b->tile_floats += b->few ? COLUMNS : (int64_t)COLUMNS * BLOCK * seg.count * seg.halves;
        b->segments[b->n_segments++] = seg;
    }
    return 0;
}

/* Rows of the lines that the slab needs, in the lines' frame. */
static void plan_rows(struct vp_backproject *b)
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
    struct vp_extent v = VP_EXTENT_NONE, w = VP_EXTENT_NONE;
    for (int h = 0; h < 2; h++) {
        int64_t k0, k1;
        half_range(b, h, &k0, &k1);
        for (int64_t s = 0; s < b->n_views && k0 < k1; s++)
            if (!vp_orbit_box(b->views[s].P, b->n, k0, k1, &v, &w))
                return;
    }
    rows_of(v, lo, hi, &b->row0, &b->row1);
}

/* Shares of sections, and the rows by which the detector goes on. */
static int plan_helix(struct vp_backproject *b, const struct vp_bp_job *job, struct vp_err *err)
{
    if (!job->helix)
        return 0;
    b->helix = *job->helix;
    b->grid = *job->grid;
    b->margin = vp_helix_margin(&b->helix, job->views, job->n_views, job->nv, job->grid);
    b->nv += 2 * b->margin;
    if (!(b->turn = vp_alloc_raw((size_t)b->n_views, sizeof *b->turn, "the views", err)))
        return -1;
    for (int64_t s = 0; s < b->n_views; s++)
        b->turn[s] = job->views[s].turn;
    return 0;
}

static int plan(struct vp_backproject *b, const struct vp_bp_job *job, struct vp_err *err)
{
    bool parallel = true;
    if (plan_helix(b, job, err))
        return -1;
    for (int64_t s = 0; s < b->n_views; s++) {
        double *const P = b->views[s].P;
        vp_backproject_matrix(&job->views[s], job->grid, P);
        for (int i = 0; i < 4; i++)
            P[4 + i] += (double)b->margin * P[8 + i];
        parallel = parallel && vp_view_parallel(&job->views[s]);
    }
    plan_views(b);
    plan_rows(b);
    const char *kernels = b->few ? b->n[2] <= FEW_SLICES ? "few slices" : "slices one by one" : !b->fast ? "3x4 matrices"
                        : parallel ? "parallel beam" : "circular orbit";
    snprintf(b->text, sizeof b->text, "%s%s%s, %s", b->turn ? "helix, " : "", kernels, b->mirror ? ", z mirror" : "",
             b->isa->name);

    const int64_t line = vp_div_up(b->row1 - b->row0 + PAD, BLOCK) * BLOCK;
    b->mirror_offset = b->mirror ? line : 0;
    b->pitch = ((line + b->mirror_offset) / BLOCK | 1) * BLOCK; /* an odd number of cache lines: neighbours do not fall
                                                                   into one set */
    b->view_floats = (b->lines + 2) * b->pitch + PAD;
    b->batch = BATCH / b->refine;
    b->tiles_x = vp_div_up(b->n[0], TILE);
    b->tiles = b->tiles_x * vp_div_up(b->n[1], TILE);
    if (plan_segments(b, err))
        return -1;
    b->scale = b->turn ? vp_alloc((size_t)b->n_segments, BATCH * sizeof *b->scale, "the shares of views", err) : NULL;
    return b->turn && !b->scale ? -1 : 0;
}

/* --- open, close ---------------------------------------------------------------------------------------- */

/* Planned, but without the buffers of views and of the volume. */
static struct vp_backproject *create(const struct vp_bp_job *job, const char *isa, struct vp_err *err)
{
    const int64_t *n = job->grid->n;
    struct vp_backproject *b = NULL;
    if (job->n_views < 1 || job->z0 < 0 || job->z0 >= job->z1 || job->z1 > n[2])
        vp_fail(err, VP_EUSAGE, "nothing to back-project: %lld views into slices %lld to %lld of %lld",
                (long long)job->n_views, (long long)job->z0, (long long)job->z1, (long long)n[2]);
    else
        b = vp_alloc(1, sizeof *b, "the back-projection", err);
    if (!b)
        return NULL;
    *b = (struct vp_backproject){.isa = VP_ISA_FIND(vp_bp_isa, isa),
                                 .n_views = job->n_views, .nu = job->nu, .nv = job->nv,
                                 .n = {n[0], n[1], n[2]}, .z0 = job->z0, .z1 = job->z1,
                                 .threads = job->threads > 0 ? job->threads : vp_cores()};
    if (!b->isa)
        vp_fail(err, VP_ERESOURCE, "this processor does not have the instruction set %s", isa);
    else if ((b->views = vp_alloc((size_t)b->n_views, sizeof *b->views, "the views", err)) && !plan(b, job, err))
        return b;
    vp_backproject_close(b);
    return NULL;
}

int vp_backproject_open(struct vp_backproject **out, const struct vp_bp_job *job, const char *isa, struct vp_err *err)
{
    struct vp_backproject *const b = *out = create(job, isa, err);
    if (!b)
        return -1;
    b->transposed = vp_alloc((size_t)b->view_floats, (size_t)b->batch * sizeof(float),
                             "the transposed projections", err);
    b->volume = vp_alloc_raw((size_t)b->tiles, (size_t)b->tile_floats * sizeof(float), "the volume", err);
    if (!b->transposed || !b->volume) {
        vp_backproject_close(b);
        *out = NULL;
        return -1;
    }
#pragma omp parallel for num_threads(b->threads)
    for (int64_t t = 0; t < b->tiles; t++)
        memset(b->volume + t * b->tile_floats, 0, (size_t)b->tile_floats * sizeof(float));
    return 0;
}

/* Alignment and bookkeeping of an allocation at most; vp_alloc aligns large ones to 2 MiB. */
enum { SLACK = 1 << 21 };

int vp_backproject_plan(const struct vp_bp_job *job, struct vp_bp_plan *plan, struct vp_err *err)
{
    struct vp_backproject *b = create(job, NULL, err);
    *plan = (struct vp_bp_plan){.z_step = 1};
    if (!b)
        return -1;
    snprintf(plan->kernel, sizeof plan->kernel, "%s", b->text);
    vp_backproject_rows(job->views, job->n_views, job->nv, job->grid, job->z0, job->z1, false, &plan->v0, &plan->v1);
    plan->host = sizeof *b + (uint64_t)b->n_views * (sizeof *b->views + (b->turn ? sizeof *b->turn : 0))
               + (uint64_t)b->n_segments * (sizeof *b->segments + (b->scale ? BATCH * sizeof *b->scale : 0))
               + (uint64_t)(b->tiles * b->tile_floats + b->batch * b->view_floats) * sizeof(float) + 2 * SLACK;
    vp_backproject_close(b);
    return 0;
}

void vp_backproject_close(struct vp_backproject *b)
{
    if (!b)
        return;
    free(b->volume);
    free(b->turn);
    free(b->scale);
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

/* Shares of the batch's views; the segments [*s0, *s1) in which one of them has one. */
static void share_batch(struct vp_backproject *b, int *s0, int *s1)
{
    *s0 = b->n_segments;
    *s1 = 0;
    for (int s = 0; s < b->n_segments; s++)
        for (int slot = 0; slot < b->batch; slot++) {
            double *const to = &b->scale[s * BATCH + slot];
            *to = b->present[slot] ? vp_helix_scale(&b->helix, b->turn[b->batch_first + slot], &b->grid, b->segments[s].k)
                                   : 0;
            if (*to > 0) {
                *s0 = s < *s0 ? s : *s0;
                *s1 = s + 1;
            }
        }
}

static void process_batch(struct vp_backproject *b)
{
    int s0 = 0, s1 = b->n_segments;
    if (!b->pending)
        return;
    if (b->scale)
        share_batch(b, &s0, &s1);
    const int64_t segments = s1 > s0 ? s1 - s0 : 0;
    /* square after square, so that tiles close in time are close in space and find the same lines in the cache */
    const int64_t squares_x = vp_div_up(b->tiles_x, SQUARE);
    const int64_t items = squares_x * vp_div_up(b->tiles / b->tiles_x, SQUARE) * SQUARE * SQUARE;
    /* few tiles (a tall thin volume): cut them along z so that all threads have work */
    const int64_t wanted = 8 * (int64_t)b->threads;
    const int64_t parts = b->tiles >= wanted ? 1 : vp_min64(segments, vp_div_up(wanted, b->tiles));
    const bool worth = b->tiles * b->tile_floats * b->batch >= WORTH_THREADS;
#pragma omp parallel for num_threads(b->threads) schedule(dynamic, 4) if (worth)
    for (int64_t item = 0; item < items * parts; item++) {
        const int64_t part = item / items, n = item % items, square = n / (SQUARE * SQUARE);
        const int64_t x = square % squares_x * SQUARE + n % SQUARE;
        const int64_t tile = (square / squares_x * SQUARE + n / SQUARE % SQUARE) * b->tiles_x + x;
        if (x < b->tiles_x && tile < b->tiles) /* else the square sticks out there */
            b->isa->tile(b, tile, s0 + (int)(part * segments / parts), s0 + (int)((part + 1) * segments / parts));
    }
    memset(b->present, 0, sizeof b->present);
    b->pending = false;
}

int vp_backproject_add(struct vp_backproject *b, int64_t first, int64_t n, int64_t v0, int64_t v1, const float *proj,
                       struct vp_err *err)
{
    if (first < b->next_view || n < 0 || first > b->n_views - n)
        return vp_fail(err, VP_ERUN, "views %lld to %lld out of order, or not of %lld", (long long)first,
                       (long long)(first + n), (long long)b->n_views);
    enum { STRIP = 64 };
    const int64_t strips = vp_div_up(b->lines, STRIP), size = (v1 - v0) * b->nu;
    b->v0 = v0 + b->margin;
    b->v1 = v1 + b->margin;
    for (int64_t s = first; s < first + n;) {
        const int64_t batch = s / b->batch * b->batch, end = vp_min64(batch + b->batch, first + n);
        if (batch != b->batch_first)
            process_batch(b);
        b->batch_first = batch;
        const bool worth = (end - s) * size >= WORTH_THREADS;
#pragma omp parallel for num_threads(b->threads) schedule(dynamic, 4) if (worth)
        for (int64_t item = 0; item < (end - s) * strips; item++) {
            const int64_t view = s + item / strips, l0 = item % strips * STRIP;
            b->isa->transpose(b, (int)(view - batch), &b->views[view], proj + (view - first) * size, l0,
                              vp_min64(l0 + STRIP, b->lines));
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

void vp_backproject_flush(struct vp_backproject *b)
{
    process_batch(b);
    b->next_view = 0;
}

/* --- slices out and in ---------------------------------------------------------------------------------- */

/* Slices that are copied together: two cache lines of a column. */
enum { RUN = 2 * BLOCK };

/* Slices that lie next to each other in memory: how many, perhaps `down`, the last one first; where voxels of the one
 * that is first there are in a tile's column 0, and the floats from column to column. */
struct run { int64_t n; bool down; float *voxels; int64_t column; };

/* From slice z on, at most n of them, and RUN. */
static struct run run_from(const struct vp_backproject *b, int64_t z, int64_t n)
{
    const int64_t middle = (b->n[2] + 1) / 2;
    const bool high = b->mirror && z >= middle;
    int64_t k = high ? b->n[2] - 1 - z : z;
    const struct vp_bp_segment *seg = b->segments;
    if (b->few)
        return (struct run){.n = 1, .voxels = b->volume + seg[z - b->z0].offset, .column = 1};
    n = vp_min64(b->mirror && !high ? vp_min64(n, middle - z) : n, high ? k % RUN + 1 : RUN - k % RUN);
    k -= high ? n - 1 : 0;
    while (seg->k + b->segment <= k)
        seg++;
    n = vp_min64(n, high ? n : seg->k + b->segment - k);
    const int64_t depth = (int64_t)seg->count * BLOCK, other = seg->halves == 2 && high ? depth : 0;
    return (struct run){.n = n, .down = high, .column = depth * seg->halves,
                        .voxels = b->volume + seg->offset + other + (k - seg->k - (int64_t)seg->first * BLOCK)};
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

/* Row y of the slices of a run. */
static void copy_row(const struct vp_backproject *b, const struct run *r, int64_t y, float *out)
{
    enum { STRIP = 16 * TILE, PITCH = STRIP + 16 };
    /* slices are often a power of two apart: written straight, they would collide in the cache */
    float strip[RUN * PITCH];
    const int64_t slice = b->n[0] * b->n[1], column = r->column, run = r->n;
    const float *src = r->voxels + y / TILE * b->tiles_x * b->tile_floats + y % TILE * TILE * column;
    for (int64_t x0 = 0; x0 < b->n[0]; x0 += STRIP) {
        const int64_t width = vp_min64(STRIP, b->n[0] - x0);
        for (int64_t x = 0; x < width; x += TILE, src += b->tile_floats) {
            if (x0 + x + TILE < b->n[0])
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
            memcpy(out + (r->down ? run - 1 - d : d) * slice + y * b->n[0] + x0, strip + d * PITCH,
                   (size_t)width * sizeof *out);
    }
}

static void put_row(const struct vp_backproject *b, const struct run *r, int64_t y, const float *in)
{
    float *const to = r->voxels + y / TILE * b->tiles_x * b->tile_floats + y % TILE * TILE * r->column;
    for (int64_t x = 0; x < b->n[0]; x++)
        for (int64_t d = 0; d < r->n; d++)
            to[x / TILE * b->tile_floats + x % TILE * r->column + d] =
                in[((r->down ? r->n - 1 - d : d) * b->n[1] + y) * b->n[0] + x];
}

/* Slices z, ..., z + n - 1: out of the volume, or, where there is `in`, into it. */
static void copy_slices(const struct vp_backproject *b, int64_t z, int64_t n, float *out, const float *in)
{
    const int64_t slice = b->n[0] * b->n[1];
    struct run run;
    for (int64_t done = 0; done < n; done += run.n) {
        run = run_from(b, z + done, n - done);
        const bool worth = run.n * slice >= WORTH_THREADS;
#pragma omp parallel for num_threads(b->threads) schedule(static, TILE) if (worth)
        for (int64_t y = 0; y < b->n[1]; y++)
            if (in)
                put_row(b, &run, y, in + done * slice);
            else
                copy_row(b, &run, y, out + done * slice);
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
    return !memcmp(a->n, b->n, sizeof a->n) && a->z0 == b->z0 && a->z1 == b->z1 && a->few == b->few
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
