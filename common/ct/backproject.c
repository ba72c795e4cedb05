/* SPDX-License-Identifier: BSD-3-Clause */
/* Voxel-driven back-projection: the plan, the buffers of views, batches. The kernels are in backproject_isa.c and its
 * neighbours.
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

int vp_bp_shortage(const struct vp_bp_job *job, const struct vp_bp_plan *plan, struct vp_err *err)
{
    *err = (struct vp_err)VP_ERR_INIT;
    return vp_fail(err, VP_ERESOURCE, "device %d: the slab needs %s, the device had %s", job->device,
                   vp_bytes_text(plan->device).text, vp_bytes_text(plan->room).text);
}

/* Sets the first and one past the last row that interpolation at v in `v` needs, with a row to spare, within [lo,
 * hi). */
static void rows_of(struct vp_extent v, int64_t lo, int64_t hi, int64_t *r0, int64_t *r1)
{
    *r0 = (int64_t)fmin(fmax(floor(v.lo) - 1, (double)lo), (double)hi);
    *r1 = (int64_t)fmin(fmax(floor(v.hi) + 3, (double)*r0), (double)hi);
}

void vp_backproject_rows(const struct vp_projections *p, const struct vp_grid *grid, int64_t z0, int64_t z1,
                         bool mirrored, int64_t *v0, int64_t *v1)
{
    struct vp_extent v = VP_EXTENT_NONE, w = VP_EXTENT_NONE;
    const int64_t nz = grid->n[2];
    *v0 = 0;
    *v1 = p->nv;
    for (int64_t s = 0; s < p->n_views; s++) {
        double P[12];
        vp_backproject_matrix(&p->views[s], grid, P);
        if (!vp_orbit_box(P, grid->n, z0, z1, &v, &w)
            || (mirrored && !vp_orbit_box(P, grid->n, nz - z1, nz - z0, &v, &w)))
            return;
    }
    if (p->n_views > 0)
        rows_of(v, 0, p->nv, v0, v1);
}

/* --- plan ----------------------------------------------------------------------------------------------- */

/* Rows, and rows per voxel, that the kernels' fixed point holds, with room to spare. */
#define FIXED_POINT_ROWS 0x1p18
#define FIXED_POINT_STEP 0x1p9

static bool column_kernels_do(const struct vp_backproject *b)
{
    for (int64_t s = 0; s < b->n_views; s++) {
        const double *P = b->views[s].P, f = 1 / vp_orbit_nearest(P, b->tiles.n);
        const double far = fabs(P[4]) * (double)b->tiles.n[0] + fabs(P[5]) * (double)b->tiles.n[1]
                         + fabs(P[6]) * (double)b->tiles.n[2] + fabs(P[7]);
        if (!(vp_orbit_upright(P, b->nu + b->nv, b->tiles.n) && far * f <= FIXED_POINT_ROWS
              && fabs(P[6]) * f <= FIXED_POINT_STEP))
            return false;
    }
    return true;
}

/* True if v(k) + v(nz - 1 - k) is the same integer in all views, in each view's own frame of rows. */
static bool mirrored(const struct vp_backproject *b, int64_t *sum)
{
    const double *Q = b->views[0].P;
    const int64_t *n = b->tiles.n;
    const double i = (double)(n[0] - 1) / 2, j = (double)(n[1] - 1) / 2, k = (double)(n[2] - 1) / 2;
    const double twice = 2 * vp_orbit_dot(Q + 4, i, j, k) / vp_orbit_dot(Q + 8, i, j, k);
    /* far off centre the halves share few rows: not worth it, and the lines would grow */
    if (b->tiles.n[2] < 2 || !(fabs(twice - (double)(b->rows - 1)) <= (double)b->rows / 4))
        return false;
    *sum = llround(twice);
    for (int64_t s = 0; s < b->n_views; s++)
        if (!vp_orbit_mirrored(b->views[s].P, *sum, b->tiles.n))
            return false;
    return true;
}

/* Chooses the kernels and puts the views' matrices into the frame of the lines. */
static void plan_views(struct vp_backproject *b)
{
    const int64_t *n = b->tiles.n;
    b->lines = b->nu;
    b->rows = b->nv;
    b->refine = 1;
    b->few = b->tiles.n[2] <= FEW_SLICES || (b->helix.pitch != 0 && vp_helix_section(&b->helix, &b->grid) < BLOCK);
    b->tiles.layout.segment = b->few ? 1 : b->helix.pitch != 0 ? BLOCK : SEGMENT;
    if (b->few)
        return;
    b->fast = column_kernels_do(b);
    if (!b->fast) {
        double along_u = 0, along_v = 0;
        for (int64_t s = 0; s < b->n_views; s++) {
            const double *P = b->views[s].P; /* du/dk and dv/dk at the volume's centre */
            const double i = (double)(n[0] - 1) / 2, j = (double)(n[1] - 1) / 2, k = (double)(n[2] - 1) / 2;
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
    b->tiles.layout.mirror = b->helix.pitch == 0 && mirrored(b, &b->mirror_sum);
    if (b->isa->want_refine && step > 0 && step < 0.65) {
        b->refine = 2;
        b->mirror_sum *= 2;
        for (int64_t s = 0; s < b->n_views; s++)
            for (int i = 0; i < 4; i++)
                b->views[s].P[4 + i] *= 2;
    }
}

/* Sets the rows of the lines that the slab needs, in the lines' frame. */
static void plan_rows(struct vp_backproject *b)
{
    /* with midpoints, half a row beyond the ends is not zero yet */
    int64_t lo = -(b->refine - 1), hi = (b->rows - 1) * b->refine + b->refine;
    if (b->tiles.layout.mirror) {
        const int64_t l = lo, h = hi;
        lo = vp_min64(l, b->mirror_sum - (h - 1));
        hi = vp_min64(vp_max64(h, b->mirror_sum - l + 1), b->mirror_sum / 2 + 3); /* v grows up to the middle */
    }
    b->row0 = lo;
    b->row1 = hi;
    struct vp_extent v = VP_EXTENT_NONE, w = VP_EXTENT_NONE;
    for (int h = 0; h < 2; h++) {
        int64_t k0, k1;
        vp_tiles_half(&b->tiles, h, &k0, &k1);
        for (int64_t s = 0; s < b->n_views && k0 < k1; s++)
            if (!vp_orbit_box(b->views[s].P, b->tiles.n, k0, k1, &v, &w))
                return;
    }
    rows_of(v, lo, hi, &b->row0, &b->row1);
}

/* Plans the shares of sections, and the rows by which the detector is extended. */
static int plan_helix(struct vp_backproject *b, const struct vp_bp_job *job, struct vp_err *err)
{
    const struct vp_projections *p = job->projections;
    if (!p->helix)
        return 0;
    b->helix = *p->helix;
    b->grid = *job->grid;
    b->margin = vp_helix_margin(&b->helix, p->views, p->n_views, p->nv, job->grid);
    b->nv += 2 * b->margin;
    if (!(b->turn = vp_alloc_raw((size_t)b->n_views, sizeof *b->turn, "the views", err)))
        return -1;
    for (int64_t s = 0; s < b->n_views; s++)
        b->turn[s] = p->views[s].turn;
    return 0;
}

static int plan(struct vp_backproject *b, const struct vp_bp_job *job, struct vp_err *err)
{
    bool parallel = true;
    if (plan_helix(b, job, err))
        return -1;
    for (int64_t s = 0; s < b->n_views; s++) {
        double *const P = b->views[s].P;
        vp_backproject_matrix(&job->projections->views[s], job->grid, P);
        for (int i = 0; i < 4; i++)
            P[4 + i] += (double)b->margin * P[8 + i];
        parallel = parallel && vp_view_parallel(&job->projections->views[s]);
    }
    plan_views(b);
    if (vp_tiles_open(&b->tiles, job->grid->n, job->z0, job->z1, b->tiles.layout, err))
        return -1;
    plan_rows(b);
    const char *kernels = b->few ? b->tiles.n[2] <= FEW_SLICES ? "few slices" : "slices one by one"
                        : !b->fast ? "3x4 matrices" : parallel ? "parallel beam" : "circular orbit";
    snprintf(b->text, sizeof b->text, "%s%s%s, %s", b->turn ? "helix, " : "", kernels,
             b->tiles.layout.mirror ? ", z mirror" : "", b->isa->name);

    const int64_t line = vp_div_up(b->row1 - b->row0 + PAD, BLOCK) * BLOCK;
    b->mirror_offset = b->tiles.layout.mirror ? line : 0;
    b->pitch = ((line + b->mirror_offset) / BLOCK | 1) * BLOCK; /* an odd number of cache lines: neighbours do not fall
                                                                   into one set */
    b->view_floats = (b->lines + 2) * b->pitch + PAD;
    b->batch = BATCH / b->refine;
    if (b->turn)
        b->scale = vp_alloc((size_t)b->tiles.n_segments, BATCH * sizeof *b->scale, "the shares of views", err);
    return b->turn && !b->scale ? -1 : 0;
}

/* --- open, close ---------------------------------------------------------------------------------------- */

/* Returns a planned one, without the buffers of views. */
static struct vp_backproject *create(const struct vp_bp_job *job, const char *isa, struct vp_err *err)
{
    const int64_t *n = job->grid->n;
    struct vp_backproject *b = NULL;
    if (job->projections->n_views < 1 || job->z0 < 0 || job->z0 >= job->z1 || job->z1 > n[2])
        vp_fail(err, VP_EUSAGE, "nothing to back-project: %lld views into slices %lld to %lld of %lld",
                (long long)job->projections->n_views, (long long)job->z0, (long long)job->z1, (long long)n[2]);
    else
        b = vp_alloc(1, sizeof *b, "the back-projection", err);
    if (!b)
        return NULL;
    *b = (struct vp_backproject){.isa = VP_ISA_FIND(vp_bp_isa, isa),
                                 .n_views = job->projections->n_views, .nu = job->projections->nu,
                                 .nv = job->projections->nv, .tiles = {.n = {n[0], n[1], n[2]}},
                                 .threads = job->threads > 0 ? job->threads : vp_cores()};
    if (!b->isa)
        vp_fail(err, VP_ERESOURCE, "this processor does not have the instruction set %s", isa ? isa : "generic");
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
    if (!b->transposed) {
        vp_backproject_close(b);
        *out = NULL;
        return -1;
    }
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
    plan->layout = b->tiles.layout;
    vp_backproject_rows(job->projections, job->grid, job->z0, job->z1, false, &plan->v0, &plan->v1);
    plan->host = sizeof *b + (uint64_t)b->n_views * (sizeof *b->views + (b->turn ? sizeof *b->turn : 0))
               + (uint64_t)b->tiles.n_segments * (sizeof *b->tiles.segments + (b->scale ? BATCH * sizeof *b->scale : 0))
               + (uint64_t)(vp_tiles_floats(&b->tiles) + b->batch * b->view_floats) * sizeof(float) + 2 * SLACK;
    vp_backproject_close(b);
    return 0;
}

void vp_backproject_close(struct vp_backproject *b)
{
    if (!b)
        return;
    free(b->turn);
    free(b->scale);
    vp_tiles_close(&b->tiles);
    free(b->transposed);
    free(b->views);
    free(b);
}

const char *vp_backproject_describe(const struct vp_backproject *b)
{
    return b->text;
}

const struct vp_tiles *vp_backproject_tiles(const struct vp_backproject *b)
{
    return &b->tiles;
}

/* Tiles a side of the squares in which the volume is walked. */
enum { SQUARE = 8 };

/* Samples or updates below which waking other threads takes longer than the work. */
enum { WORTH_THREADS = 1 << 16 };

/* --- views in ------------------------------------------------------------------------------------------- */

/* Fills the shares of the batch's views, and sets [*s0, *s1), the segments in which any of them has one. */
static void share_batch(struct vp_backproject *b, int *s0, int *s1)
{
    *s0 = b->tiles.n_segments;
    *s1 = 0;
    for (int s = 0; s < b->tiles.n_segments; s++)
        for (int slot = 0; slot < b->batch; slot++) {
            double *const to = &b->scale[s * BATCH + slot];
            const int64_t view = b->batch_first + slot, k = b->tiles.segments[s].k;
            *to = b->present[slot] ? vp_helix_scale(&b->helix, b->turn[view], &b->grid, k) : 0;
            if (*to > 0) {
                *s0 = s < *s0 ? s : *s0;
                *s1 = s + 1;
            }
        }
}

static void process_batch(struct vp_backproject *b)
{
    int s0 = 0, s1 = b->tiles.n_segments;
    if (!b->pending)
        return;
    if (b->scale)
        share_batch(b, &s0, &s1);
    const int64_t segments = s1 > s0 ? s1 - s0 : 0;
    /* square after square, so that tiles close in time are close in space and find the same lines in the cache */
    const int64_t squares_x = vp_div_up(b->tiles.tiles_x, SQUARE);
    const int64_t items = squares_x * vp_div_up(b->tiles.tiles / b->tiles.tiles_x, SQUARE) * SQUARE * SQUARE;
    /* few tiles (a tall thin volume): cut them along z so that all threads have work */
    const int64_t wanted = 8 * (int64_t)b->threads;
    const int64_t parts = b->tiles.tiles >= wanted ? 1 : vp_min64(segments, vp_div_up(wanted, b->tiles.tiles));
    const bool worth = b->tiles.tiles * b->tiles.tile_floats * b->batch >= WORTH_THREADS;
#pragma omp parallel for num_threads(b->threads) schedule(dynamic, 4) if (worth)
    for (int64_t item = 0; item < items * parts; item++) {
        const int64_t part = item / items, n = item % items, square = n / (SQUARE * SQUARE);
        const int64_t x = square % squares_x * SQUARE + n % SQUARE;
        const int64_t tile = (square / squares_x * SQUARE + n / SQUARE % SQUARE) * b->tiles.tiles_x + x;
        if (x < b->tiles.tiles_x && tile < b->tiles.tiles) /* else the square sticks out there */
            b->isa->tile(b, tile, s0 + (int)(part * segments / parts), s0 + (int)((part + 1) * segments / parts));
    }
    memset(b->present, 0, sizeof b->present);
    b->pending = false;
}

void vp_backproject_begin(struct vp_backproject *b, float *voxels, bool set)
{
    b->volume = voxels;
    b->next_view = 0;
    if (set)
        vp_tiles_clear(&b->tiles, voxels, b->threads);
}

int vp_backproject_add(struct vp_backproject *b, const struct vp_batch *views, struct vp_err *err)
{
    const int64_t first = views->first, n = views->n;
    if (first < b->next_view || n < 0 || first > b->n_views - n)
        return vp_fail(err, VP_ERUN, "views %lld to %lld out of order, or not of %lld", (long long)first,
                       (long long)(first + n), (long long)b->n_views);
    enum { STRIP = 64 };
    const int64_t strips = vp_div_up(b->lines, STRIP), size = (views->v1 - views->v0) * b->nu;
    b->v0 = views->v0 + b->margin;
    b->v1 = views->v1 + b->margin;
    for (int64_t s = first; s < first + n;) {
        const int64_t batch = s / b->batch * b->batch, end = vp_min64(batch + b->batch, first + n);
        if (batch != b->batch_first)
            process_batch(b);
        b->batch_first = batch;
        const bool worth = (end - s) * size >= WORTH_THREADS;
#pragma omp parallel for num_threads(b->threads) schedule(dynamic, 4) if (worth)
        for (int64_t item = 0; item < (end - s) * strips; item++) {
            const int64_t view = s + item / strips, l0 = item % strips * STRIP;
            b->isa->transpose(b, (int)(view - batch), &b->views[view], views->samples + (view - first) * size,
                              l0,
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

void vp_backproject_end(struct vp_backproject *b)
{
    process_batch(b);
}

