/* SPDX-License-Identifier: BSD-3-Clause */
/* The pair: views, buffers, and the order in which a volume is walked. A projection is owned by one thread, or by
 * several for different columns of the detector, which each walk the volume; a tile of the volume is owned by one thread
 * in the transpose. So nothing is added atomically. */
#include "ct/pair_internal.h"

#include "base/err.h"
#include "base/isa.h"
#include "base/size.h"
#include "ct/backproject.h"
#include "ct/orbit.h"
#include "device/device.h"

#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHARED = 4 }; /* views that a thread projects at once */

/* ---- views ---- */

/* Returns the axis nearest to the ray through the centre of the grid. */
static int march_of(const struct vp_view *view, const struct vp_grid *grid, bool flat)
{
    double ray[3];
    int march = 0;
    vp_view_source(view, ray);
    for (int a = 0; a < 3 && !vp_view_parallel(view); a++)
        ray[a] -= grid->center[a];
    for (int a = 1; a < (flat ? 2 : 3); a++)
        if (fabs(ray[a]) > fabs(ray[march]))
            march = a;
    return march;
}

static void plan_view(struct vp_pair *p, const struct vp_view *from, const struct vp_grid *grid, struct vp_pair_view *to)
{
    const int64_t n[3] = {p->n[0], p->n[1], p->n[2] + 1}; /* and the edges of a single slice */
    vp_backproject_matrix(from, grid, to->P);
    vp_view_rays(from, to->ray);
    if (vp_view_parallel(from)) {
        vp_view_source(from, to->ray[2]);
        memset(to->ray, 0, 2 * sizeof *to->ray);
    }
    to->march = march_of(from, grid, p->flat);
    to->column = p->flat || (to->march < 2 && to->P[6] != 0 && vp_orbit_upright(to->P, p->nu + p->nv, n));
    to->flip = to->column && to->P[6] < 0;
    for (int c = 0; c < 4 && to->flip; c++)
        to->P[4 + c] = (double)(p->nv - 1) * to->P[8 + c] - to->P[4 + c];
}

/* Returns the length of a pixel's ray within a layer of voxels, mm. */
static double length_of(const struct vp_pair *p, const struct vp_pair_view *view, int64_t u, int64_t v)
{
    double ray[3];
    for (int a = 0; a < 3; a++)
        ray[a] = view->ray[0][a] * (double)u + view->ray[1][a] * (double)v + view->ray[2][a];
    const double along = fabs(ray[view->march]);
    const double size = sqrt(ray[0] * ray[0] + ray[1] * ray[1] + ray[2] * ray[2]);
    return along > 1e-6 * size ? p->voxel[view->march] * size / along : 0;
}

/* ---- memory ---- */

static int64_t pitch_of(const struct vp_projections *scan, const struct vp_grid *grid)
{
    return scan->nv == 1 && grid->n[2] == 1 ? 1 : vp_div_up(scan->nv, 16) * 16;
}

/* Returns the views that a thread projects at once, and the number of parts of the detector, for n views. */
static int shared_of(int threads, int n)
{
    return n >= SHARED * threads ? SHARED : n >= 2 * threads ? 2 : 1;
}

static int stripes_of(int threads, int n)
{
    return n >= threads ? 1 : (threads + n - 1) / n;
}

enum { TILE_FLOATS = PAIR_COLUMNS * PAIR_PITCH };

/* Returns the floats of a thread's part: a tile, scratch, and the sums of views. */
static int64_t part_of(const struct vp_projections *scan, const struct vp_grid *grid, int threads)
{
    const int64_t pitch = pitch_of(scan, grid), stripes = stripes_of(threads, VP_PAIR_VIEWS);
    const int64_t lines = vp_div_up(scan->nu, stripes) + 1;
    int64_t sums = shared_of(threads, VP_PAIR_VIEWS) * lines * pitch * 2;
    sums = vp_max64(sums, scan->nu * scan->nv * 2); /* float64, of other views */
    return vp_div_up(TILE_FLOATS + vp_pair_scratch(pitch) + sums, 16) * 16;
}

uint64_t vp_pair_bytes(const struct vp_projections *scan, const struct vp_grid *grid, int threads)
{
    const int64_t view = vp_max64(pitch_of(scan, grid), scan->nv) * scan->nu;
    return sizeof(struct vp_pair) + (uint64_t)scan->n_views * sizeof(struct vp_pair_view)
         + (uint64_t)(threads * part_of(scan, grid, threads) + VP_PAIR_VIEWS * view) * sizeof(float);
}

int vp_pair_open(struct vp_pair **out, const struct vp_projections *scan, const struct vp_grid *grid, int threads,
                 const char *isa, struct vp_err *err)
{
    struct vp_pair *const p = *out = vp_alloc(1, sizeof *p, "the projector", err);
    if (!p)
        return -1;
    *p = (struct vp_pair){.isa = VP_ISA_FIND(vp_pair_isa, isa), .n_views = scan->n_views, .nu = scan->nu, .nv = scan->nv,
                          .n = {grid->n[0], grid->n[1], grid->n[2]},
                          .voxel = {grid->voxel[0], grid->voxel[1], grid->voxel[2]},
                          .flat = scan->nv == 1 && grid->n[2] == 1, .threads = threads > 0 ? threads : vp_cores(),
                          .pitch = pitch_of(scan, grid), .tiles_x = vp_div_up(grid->n[0], PAIR_TILE)};
    p->tiles = p->tiles_x * vp_div_up(grid->n[1], PAIR_TILE);
    p->part = part_of(scan, grid, p->threads);
    if (!p->isa)
        vp_fail(err, VP_ERESOURCE, "this processor does not have the instruction set %s", isa ? isa : "generic");
    else if ((p->views = vp_alloc((size_t)p->n_views, sizeof *p->views, "the views", err))
             && (p->parts = vp_alloc_raw((size_t)p->threads * (size_t)p->part, sizeof(float), "the projector", err))
             && (p->lines = vp_alloc_raw((size_t)(p->nu * vp_max64(p->pitch, p->nv)), VP_PAIR_VIEWS * sizeof(float),
                                         "the views", err))) {
        bool columns = true;
        for (int64_t s = 0; s < p->n_views; s++) {
            plan_view(p, &scan->views[s], grid, &p->views[s]);
            columns = columns && p->views[s].column;
        }
        snprintf(p->text, sizeof p->text, "%s, %s", p->flat ? "fan" : columns ? "columns" : "3x4 matrices", p->isa->name);
        return 0;
    }
    vp_pair_close(p);
    *out = NULL;
    return -1;
}

void vp_pair_close(struct vp_pair *p)
{
    if (!p)
        return;
    vp_pair_slabs_close(p);
    free(p->views);
    free(p->parts);
    free(p->lines);
    free(p);
}

const char *vp_pair_describe(const struct vp_pair *p)
{
    return p->text;
}

/* ---- tiles ---- */

static struct vp_pair_tile tile_at(const struct vp_pair *p, int64_t tile, int64_t k0, float *samples)
{
    const int64_t i0 = tile % p->tiles_x * PAIR_TILE, j0 = tile / p->tiles_x * PAIR_TILE;
    const int n = (int)vp_min64(VP_PAIR_SEGMENT, p->n[2] - k0);
    return (struct vp_pair_tile){.i0 = i0, .j0 = j0, .k0 = k0, .ni = (int)vp_min64(PAIR_TILE, p->n[0] - i0),
                                 .nj = (int)vp_min64(PAIR_TILE, p->n[1] - j0), .n = n, .last = n, .samples = samples};
}

/* Copies a tile of a volume. False: it holds nothing but zeros. */
static bool load_tile(const struct vp_pair *p, const struct vp_pair_tile *t, const float *x)
{
    bool any = false;
    for (int k = 0; k < t->n; k++)
        for (int jj = 0; jj < t->nj; jj++) {
            const float *row = x + ((t->k0 + k) * p->n[1] + t->j0 + jj) * p->n[0] + t->i0;
            float *to = t->samples + jj * PAIR_TILE * PAIR_PITCH + PAIR_PAD + k;
            for (int ii = 0; ii < t->ni; ii++) {
                to[ii * PAIR_PITCH] = row[ii];
                any = any || row[ii] != 0;
            }
        }
    return any;
}

/* True if a column of the tile may meet lines [u0, u1). */
static bool tile_seen(const struct vp_pair_view *view, const struct vp_pair_tile *t, int64_t u0, int64_t u1)
{
    double lo = INFINITY, hi = -INFINITY;
    for (int corner = 0; corner < 4; corner++) {
        const double i = (double)t->i0 + (corner & 1 ? t->ni - 0.5 : -0.5);
        const double j = (double)t->j0 + (corner & 2 ? t->nj - 0.5 : -0.5);
        const double w = vp_orbit_dot(view->P + 8, i, j, 0);
        if (!(w > VP_ORBIT_NEAREST))
            return true;
        const double u = vp_orbit_dot(view->P, i, j, 0) / w + 0.5;
        lo = fmin(lo, u);
        hi = fmax(hi, u);
    }
    return hi > (double)u0 - 1e-6 && lo < (double)u1 + 1e-6;
}

/* ---- projection ---- */

/* A task: lines [u0, u1) of n views. */
struct task {
    const struct vp_pair_view *view[SHARED];
    float *y[SHARED];
    int n;
    int64_t u0, u1;
};

/* Adds a segment to the sums of the column views. */
static void spread_segment(const struct vp_pair *p, const struct task *task, const float *x, int64_t k0, float *part,
                           float *sums, int64_t stride)
{
    float *const scratch = part + TILE_FLOATS;
    memset(part, 0, TILE_FLOATS * sizeof *part);
    for (int64_t tile = 0; tile < p->tiles; tile++) {
        const struct vp_pair_tile t = tile_at(p, tile, k0, part);
        bool loaded = false;
        for (int s = 0; s < task->n; s++) {
            if (!task->view[s]->column || !tile_seen(task->view[s], &t, task->u0, task->u1))
                continue;
            if (!loaded && !load_tile(p, &t, x))
                break;
            loaded = true;
            p->isa->spread(p, task->view[s], &t, task->u0, task->u1, sums + s * stride, scratch);
        }
    }
}

static void store_lines(const struct vp_pair *p, const struct vp_pair_view *view, int64_t u0, int64_t u1,
                        const float *sums, float *y)
{
    for (int64_t v = 0; v < p->nv; v++) {
        const float *from = sums + (view->flip ? p->nv - 1 - v : v);
        for (int64_t u = u0; u < u1; u++)
            y[v * p->nu + u] = from[(u - u0) * p->pitch] * (float)length_of(p, view, u, v);
    }
}

/* Projects one view of any matrix. */
static void project_general(const struct vp_pair *p, const struct vp_pair_view *view, const float *x, int64_t u0,
                            int64_t u1, double *sums, float *y)
{
    for (int64_t v = 0; v < p->nv; v++)
        memset(sums + v * p->nu + u0, 0, (size_t)(u1 - u0) * sizeof *sums);
    vp_pair_general_spread(p, view, x, u0, u1, sums);
    for (int64_t v = 0; v < p->nv; v++)
        for (int64_t u = u0; u < u1; u++)
            y[v * p->nu + u] = (float)(sums[v * p->nu + u] * length_of(p, view, u, v));
}

static void project(const struct vp_pair *p, const struct task *task, const float *x, float *part)
{
    const int64_t stride = (task->u1 - task->u0) * p->pitch, all = task->n * stride;
    float *const totals = part + TILE_FLOATS + vp_pair_scratch(p->pitch), *const segment = totals + all;
    bool columns = false;
    for (int s = 0; s < task->n; s++)
        columns = columns || task->view[s]->column;
    if (columns) {
        memset(totals, 0, (size_t)all * sizeof *totals);
        spread_segment(p, task, x, 0, part, totals, stride);
        for (int64_t k0 = VP_PAIR_SEGMENT; k0 < p->n[2]; k0 += VP_PAIR_SEGMENT) {
            memset(segment, 0, (size_t)all * sizeof *segment);
            spread_segment(p, task, x, k0, part, segment, stride);
            for (int64_t i = 0; i < all; i++)
                totals[i] += segment[i];
        }
        for (int s = 0; s < task->n; s++)
            if (task->view[s]->column)
                store_lines(p, task->view[s], task->u0, task->u1, totals + s * stride, task->y[s]);
    }
    for (int s = 0; s < task->n; s++)
        if (!task->view[s]->column)
            project_general(p, task->view[s], x, task->u0, task->u1, (double *)totals, task->y[s]);
}

void vp_pair_forward(struct vp_pair *p, const float *x, const int64_t *view, int n, float *y)
{
    const int shared = shared_of(p->threads, n), stripes = (int)vp_min64(stripes_of(p->threads, n), p->nu);
    const int groups = (n + shared - 1) / shared;
#pragma omp parallel for num_threads(p->threads) schedule(dynamic, 1)
    for (int item = 0; item < groups * stripes; item++) {
        const int group = item / stripes, stripe = item % stripes;
        struct task task = {.n = (int)vp_min64(shared, n - group * shared), .u0 = stripe * p->nu / stripes,
                            .u1 = (stripe + 1) * p->nu / stripes};
        for (int s = 0; s < task.n; s++) {
            task.view[s] = &p->views[view[group * shared + s]];
            task.y[s] = y + (group * shared + s) * p->nu * p->nv;
        }
        project(p, &task, x, p->parts + omp_get_thread_num() * p->part);
    }
}

/* ---- transpose ---- */

/* Fills lines [u0, u1) of a view, weighted. */
static void load_lines(const struct vp_pair *p, const struct vp_pair_view *view, const float *y, int64_t u0, int64_t u1,
                       float *lines)
{
    if (!view->column) {
        for (int64_t v = 0; v < p->nv; v++)
            for (int64_t u = u0; u < u1; u++)
                lines[v * p->nu + u] = y[v * p->nu + u] * (float)length_of(p, view, u, v);
        return;
    }
    for (int64_t v = 0; v < p->nv; v++) {
        float *to = lines + (view->flip ? p->nv - 1 - v : v);
        for (int64_t u = u0; u < u1; u++)
            to[u * p->pitch] = y[v * p->nu + u] * (float)length_of(p, view, u, v);
    }
    for (int64_t u = u0; u < u1; u++)
        for (int64_t v = p->nv; v < p->pitch; v++)
            lines[u * p->pitch + v] = 0;
}

/* Adds n views to a tile of a segment. */
static void collect(const struct vp_pair *p, const int64_t *view, int n, int64_t tile, int64_t k0, int64_t z0, int64_t z1,
                    float *x, float *part)
{
    struct vp_pair_tile t = tile_at(p, tile, k0, part);
    const int64_t size = p->nu * vp_max64(p->pitch, p->nv);
    t.first = (int)vp_max64(z0 - k0, 0);
    t.last = (int)vp_min64(z1 - k0, t.n);
    for (int c = 0; c < PAIR_COLUMNS; c++) /* and what whole vectors add to */
        memset(part + c * PAIR_PITCH + PAIR_PAD, 0, (size_t)(t.n + 16) * sizeof *part);
    for (int s = 0; s < n; s++) {
        const struct vp_pair_view *from = &p->views[view[s]];
        const float *lines = p->lines + s * size;
        if (!from->column)
            vp_pair_general_collect(p, from, &t, lines);
        else if (tile_seen(from, &t, 0, p->nu))
            p->isa->collect(p, from, &t, lines, part + TILE_FLOATS);
    }
    for (int64_t k = t.first; k < t.last; k++)
        for (int jj = 0; jj < t.nj; jj++) {
            float *row = x + ((k0 + k - z0) * p->n[1] + t.j0 + jj) * p->n[0] + t.i0;
            const float *from = t.samples + jj * PAIR_TILE * PAIR_PITCH + PAIR_PAD + k;
            for (int ii = 0; ii < t.ni; ii++)
                row[ii] += from[ii * PAIR_PITCH];
        }
}

void vp_pair_adjoint(struct vp_pair *p, const float *y, const int64_t *view, int n, int64_t z0, int64_t z1, float *x)
{
    enum { STRIP = 64 };
    const int64_t strips = vp_div_up(p->nu, STRIP), size = p->nu * vp_max64(p->pitch, p->nv);
#pragma omp parallel for num_threads(p->threads) schedule(dynamic, 1)
    for (int64_t item = 0; item < n * strips; item++) {
        const int64_t s = item / strips, u0 = item % strips * STRIP;
        load_lines(p, &p->views[view[s]], y + s * p->nu * p->nv, u0, vp_min64(u0 + STRIP, p->nu), p->lines + s * size);
    }
    const int64_t first = z0 / VP_PAIR_SEGMENT, segments = vp_div_up(z1, VP_PAIR_SEGMENT) - first;
#pragma omp parallel for num_threads(p->threads) schedule(dynamic, 4)
    for (int64_t item = 0; item < p->tiles * segments; item++)
        collect(p, view, n, item % p->tiles, (first + item / p->tiles) * VP_PAIR_SEGMENT, z0, z1, x,
                p->parts + omp_get_thread_num() * p->part);
}

/* ---- on the CPU or on devices ---- */

void vp_pair_refuse(struct vp_pair *p, struct vp_pair_place *place, const char *why)
{
    vp_pair_slabs_close(p);
    place->used = place->travels = place->ahead = false;
    snprintf(place->refused, sizeof place->refused, "%.199s", why);
}

/* Fails for the reason `why`, or takes the work to the CPU. */
static int refuse(struct vp_pair *p, struct vp_pair_place *place, const struct vp_err *why, struct vp_err *err)
{
    vp_pair_refuse(p, place, why->msg);
    return place->automatic ? 0 : vp_err_keep(err, why);
}

int vp_pair_plan(struct vp_pair *p, struct vp_pair_place *place, struct vp_err *err)
{
    struct vp_err why = VP_ERR_INIT;
    if (p->planned)
        return 0;
    p->planned = true;
    p->use = place->use ? place->use : VP_PAIR_PROJECTS | VP_PAIR_SUMS;
    place->used = place->travels = place->ahead = false;
    place->refused[0] = '\0';
    if (!place->backend)
        return 0;
    place->used = true;
    return vp_pair_slabs_plan(p, place, &why) ? refuse(p, place, &why, err) : 0;
}

int vp_pair_use(struct vp_pair *p, struct vp_pair_place *place, struct vp_err *err)
{
    struct vp_err why = VP_ERR_INIT;
    if (vp_pair_plan(p, place, err))
        return -1;
    return p->slabs && vp_pair_slabs_open(p, &why) ? refuse(p, place, &why, err) : 0;
}

uint64_t vp_pair_holds(const struct vp_pair *p)
{
    const int64_t line = vp_max64(p->pitch, p->nv) * p->nu;
    const uint64_t views = (uint64_t)p->n_views * sizeof *p->views;
    return p->slabs ? views * (uint64_t)(p->n_slabs + 1) + vp_pair_slabs_holds(p)
                    : views + (uint64_t)(p->threads * p->part + VP_PAIR_VIEWS * line) * sizeof(float);
}

int64_t vp_pair_block(const struct vp_pair *p, int64_t views, uint64_t bytes)
{
    const int64_t view = p->nu * p->nv * (int64_t)sizeof(float);
    int64_t step = VP_PAIR_VIEWS;
    if (!p->travels)
        return VP_PAIR_VIEWS;
    for (int i = 0; i < p->n_slabs && p->use & VP_PAIR_SUMS; i++) {
        const int64_t own = vp_pair_device_step(&p->slabs[i].shape), unit = step;
        if (own == 0)
            return views;
        while (step % own)
            step += unit;
    }
    const int64_t room = (int64_t)(bytes / (uint64_t)view) / step * step;
    return vp_min64(vp_max64(room, step), views);
}

bool vp_pair_gives(const struct vp_pair *p, int64_t views, int64_t block)
{
    return p->slabs && (!p->travels || block >= views);
}

/* In front of memory for views; the rest of a cache line is empty. */
struct room_head { bool pinned; };
enum { HEAD = 64 };

float *vp_pair_room(const struct vp_pair *p, int64_t n, struct vp_err *err)
{
    const size_t view = (size_t)(p->nu * p->nv) * sizeof(float);
    size_t bytes;
    char *room = NULL;
    if (!vp_mul_size(&bytes, view, (size_t)n) || !vp_add_size(&bytes, bytes, HEAD))
        bytes = SIZE_MAX;
    else if (p->slabs)
        room = p->backend->host_alloc(bytes);
    const bool pinned = room != NULL;
    if (!room && !(room = vp_alloc_raw(bytes, 1, "the projections", err)))
        return NULL;
    *(struct room_head *)(void *)room = (struct room_head){pinned};
    return (float *)(void *)(room + HEAD);
}

void vp_pair_leave(const struct vp_pair *p, float *room)
{
    char *const at = room ? (char *)room - HEAD : NULL;
    if (at && ((const struct room_head *)(const void *)at)->pinned)
        p->backend->host_free(at);
    else
        free(at);
}

int vp_pair_load(struct vp_pair *p, const float *x, struct vp_err *err)
{
    p->from = x;
    return p->slabs ? vp_pair_slabs_load(p, err) : 0;
}

int vp_pair_project(struct vp_pair *p, const int64_t *view, int64_t n, float *y, struct vp_err *err)
{
    if (p->slabs)
        return vp_pair_slabs_project(p, view, n, y, err);
    vp_pair_forward(p, p->from, view, (int)n, y);
    return 0;
}

int vp_pair_begin(struct vp_pair *p, int64_t z0, int64_t z1, float *x, struct vp_err *err)
{
    p->to = x;
    p->z0 = z0;
    p->z1 = z1;
    p->begun = false;
    p->n_held = 0;
    return p->slabs ? vp_pair_slabs_begin(p, err) : 0;
}

int vp_pair_back(struct vp_pair *p, const float *y, const int64_t *view, int64_t n, struct vp_err *err)
{
    if (p->slabs)
        return vp_pair_slabs_back(p, y, view, n, err);
    vp_pair_adjoint(p, y, view, (int)n, p->z0, p->z1, p->to);
    return 0;
}

int vp_pair_end(struct vp_pair *p, struct vp_err *err)
{
    return p->slabs ? vp_pair_slabs_end(p, NULL, NULL, err) : 0;
}

int vp_pair_give(struct vp_pair *p, vp_pair_slices *take, void *ctx, struct vp_err *err)
{
    return vp_pair_slabs_end(p, take, ctx, err);
}

int vp_pair_give_threads(const struct vp_pair *p)
{
    return (int)vp_max64(1, p->threads / vp_max64(1, p->n_devices));
}

void vp_pair_seconds(const struct vp_pair *p, double *project, double *back)
{
    *project = *back = 0;
    if (p->slabs)
        vp_pair_slabs_seconds(p, project, back);
}
