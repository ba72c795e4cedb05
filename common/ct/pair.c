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

/* ---- memory ---- */

/* Returns the floats from line to line, an odd multiple of 16: lines side by side lie in different sets of the cache. */
static int64_t pitch_of(const struct vp_projections *scan, const struct vp_grid *grid)
{
    return scan->nv == 1 && grid->n[2] == 1 ? 1 : (vp_div_up(scan->nv, 16) | 1) * 16;
}

/* Returns the views of fans that a thread projects at once, for n views. */
static int shared_of(int threads, int n)
{
    return n >= SHARED * threads ? SHARED : n >= 2 * threads ? 2 : 1;
}

/* Returns the number of parts of the detector for n views, if a thread takes all of a view otherwise. */
static int parts_of(int threads, int n)
{
    return n >= threads ? 1 : (threads + n - 1) / n;
}

/* Returns the number of stripes of the detector where a thread takes all views of a call in a stripe: a few for each
 * thread, since those in the middle take longer. A tile is copied for each stripe that it meets. */
static int64_t stripes_of(int threads, int64_t nu)
{
    enum { LEAST = 16, MOST = 256 };
    const int64_t lines = threads > 1 ? vp_max64(LEAST, vp_div_up(nu, 3 * threads)) : nu;
    return vp_div_up(nu, vp_min64(lines, MOST));
}

enum { TILE_FLOATS = PAIR_COLUMNS * PAIR_PITCH };

/* Returns the floats of a thread's part: a tile, scratch, and the sums of views. */
static int64_t part_of(const struct vp_projections *scan, const struct vp_grid *grid, int threads)
{
    const int64_t pitch = pitch_of(scan, grid), stripe = vp_div_up(scan->nu, stripes_of(threads, scan->nu)) + 1;
    const int64_t part = vp_div_up(scan->nu, parts_of(threads, VP_PAIR_VIEWS)) + 1;
    int64_t sums = pitch == 1 ? shared_of(threads, VP_PAIR_VIEWS) * part : VP_PAIR_VIEWS * stripe * pitch;
    sums = 2 * vp_max64(sums, scan->nu * scan->nv); /* float64, of other views */
    return vp_div_up(TILE_FLOATS + vp_pair_scratch(pitch) + sums, 16) * 16;
}

static int64_t tiles_of(const struct vp_grid *grid)
{
    return vp_div_up(grid->n[0], PAIR_TILE) * vp_div_up(grid->n[1], PAIR_TILE);
}

uint64_t vp_pair_bytes(const struct vp_projections *scan, const struct vp_grid *grid, int threads)
{
    const int64_t view = vp_max64(pitch_of(scan, grid), scan->nv) * scan->nu;
    return sizeof(struct vp_pair) + (uint64_t)scan->n_views * sizeof(struct vp_pair_view)
         + (uint64_t)(threads * part_of(scan, grid, threads) + VP_PAIR_VIEWS * view) * sizeof(float)
         + (uint64_t)tiles_of(grid) * VP_PAIR_VIEWS * sizeof(struct vp_pair_extent);
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
    p->tiles = tiles_of(grid);
    p->part = part_of(scan, grid, p->threads);
    if (!p->isa)
        vp_fail(err, VP_ERESOURCE, "this processor does not have the instruction set %s", isa ? isa : "generic");
    else if ((p->views = vp_alloc((size_t)p->n_views, sizeof *p->views, "the views", err))
             && (p->parts = vp_alloc_raw((size_t)p->threads * (size_t)p->part, sizeof(float), "the projector", err))
             && (p->seen = vp_alloc_raw((size_t)p->tiles, VP_PAIR_VIEWS * sizeof *p->seen, "the projector", err))
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
    free(p->seen);
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

/* Returns the lines that columns of the tile may meet. */
static struct vp_pair_extent extent_of(const struct vp_pair_view *view, const struct vp_pair_tile *t)
{
    struct vp_pair_extent e = {INFINITY, -INFINITY};
    for (int corner = 0; corner < 4; corner++) {
        const double i = (double)t->i0 + (corner & 1 ? t->ni - 0.5 : -0.5);
        const double j = (double)t->j0 + (corner & 2 ? t->nj - 0.5 : -0.5);
        const double w = vp_orbit_dot(view->P + 8, i, j, 0);
        if (!(w > VP_ORBIT_NEAREST))
            return (struct vp_pair_extent){-INFINITY, INFINITY};
        const double u = vp_orbit_dot(view->P, i, j, 0) / w + 0.5, margin = 1e-6 * (1 + fabs(u)); /* and of float */
        e.lo = fminf(e.lo, (float)(u - margin));
        e.hi = fmaxf(e.hi, (float)(u + margin));
    }
    return e;
}

static bool meets(struct vp_pair_extent e, int64_t u0, int64_t u1)
{
    return e.hi > (float)u0 && e.lo < (float)u1;
}

/* Fetches slices [a, b) of a tile of a volume, which begins with slice z0, to the cache. */
static void fetch_tile(const struct vp_pair *p, const struct vp_pair_tile *t, const float *x, int64_t z0, int a, int b)
{
    for (int k = a; k < b; k++)
        for (int jj = 0; jj < t->nj; jj++)
            __builtin_prefetch(x + ((t->k0 + k - z0) * p->n[1] + t->j0 + jj) * p->n[0] + t->i0, 0, 2);
}

/* ---- projection ---- */

/* A task: lines [u0, u1) of n column views, or of one other view. */
struct task {
    const struct vp_pair_view *view[VP_PAIR_VIEWS];
    float *y[VP_PAIR_VIEWS];
    int number[VP_PAIR_VIEWS]; /* place in the call */
    int n;
    int64_t u0, u1;
};

/* Adds a segment to the sums of column views. */
static void spread_segment(const struct vp_pair *p, const struct task *task, const float *x, int64_t k0, float *part,
                           float *sums, int64_t stride)
{
    float *const scratch = part + TILE_FLOATS;
    memset(part, 0, TILE_FLOATS * sizeof *part);
    for (int64_t tile = 0; tile < p->tiles; tile++) {
        const struct vp_pair_tile t = tile_at(p, tile, k0, part);
        const struct vp_pair_tile next = tile_at(p, vp_min64(tile + 1, p->tiles - 1), k0, part);
        bool loaded = false;
        for (int s = 0; s < task->n; s++) {
            if (!meets(p->seen[tile * VP_PAIR_VIEWS + task->number[s]], task->u0, task->u1))
                continue;
            if (!loaded && !p->isa->load(p, &t, x))
                break;
            loaded = true;
            fetch_tile(p, &next, x, 0, next.n * s / task->n, next.n * (s + 1) / task->n);
            p->isa->spread(p, task->view[s], &t, task->u0, task->u1, sums + s * stride, scratch);
        }
    }
}

static void project_columns(const struct vp_pair *p, const struct task *task, const float *x, float *part)
{
    const int64_t stride = (task->u1 - task->u0) * p->pitch, all = task->n * stride;
    float *const totals = part + TILE_FLOATS + vp_pair_scratch(p->pitch), *const segment = totals + all;
    memset(totals, 0, (size_t)all * sizeof *totals);
    spread_segment(p, task, x, 0, part, totals, stride);
    for (int64_t k0 = VP_PAIR_SEGMENT; k0 < p->n[2]; k0 += VP_PAIR_SEGMENT) {
        memset(segment, 0, (size_t)all * sizeof *segment);
        spread_segment(p, task, x, k0, part, segment, stride);
        for (int64_t i = 0; i < all; i++)
            totals[i] += segment[i];
    }
    for (int s = 0; s < task->n; s++)
        p->isa->store(p, task->view[s], task->u0, task->u1, totals + s * stride, task->y[s]);
}

/* Projects a view of any matrix. */
static void project_general(const struct vp_pair *p, const struct task *task, const float *x, float *part)
{
    double *const sums = (double *)(part + TILE_FLOATS + vp_pair_scratch(p->pitch));
    for (int64_t v = 0; v < p->nv; v++)
        memset(sums + v * p->nu + task->u0, 0, (size_t)(task->u1 - task->u0) * sizeof *sums);
    vp_pair_general_spread(p, task->view[0], x, task->u0, task->u1, sums);
    for (int64_t v = 0; v < p->nv; v++)
        for (int64_t u = task->u0; u < task->u1; u++)
            task->y[0][v * p->nu + u] = (float)(sums[v * p->nu + u]
                                                * vp_pair_length(p, task->view[0], (double)u, (double)v));
}

/* Projects the views of `all`, `shared` at a time, in a number of parts of the detector. */
static void project(struct vp_pair *p, const struct task *all, int shared, int64_t parts, const float *x,
                    void (*work)(const struct vp_pair *p, const struct task *task, const float *x, float *part))
{
    const int64_t groups = vp_div_up(all->n, shared);
#pragma omp parallel for num_threads(p->threads) schedule(dynamic, 1)
    for (int64_t item = 0; item < groups * parts; item++) {
        const int64_t first = item / parts * shared, n = item % parts;
        struct task task = {.n = (int)vp_min64(shared, all->n - first), .u0 = n * p->nu / parts,
                            .u1 = (n + 1) * p->nu / parts};
        for (int s = 0; s < task.n; s++) {
            task.view[s] = all->view[first + s];
            task.y[s] = all->y[first + s];
            task.number[s] = all->number[first + s];
        }
        work(p, &task, x, p->parts + omp_get_thread_num() * p->part);
    }
}

/* Fills p->seen for the column views of a call. */
static void see(struct vp_pair *p, const int64_t *view, int n)
{
#pragma omp parallel for num_threads(p->threads)
    for (int64_t tile = 0; tile < p->tiles; tile++) {
        const struct vp_pair_tile t = tile_at(p, tile, 0, NULL);
        for (int s = 0; s < n; s++)
            if (p->views[view[s]].column)
                p->seen[tile * VP_PAIR_VIEWS + s] = extent_of(&p->views[view[s]], &t);
    }
}

void vp_pair_forward(struct vp_pair *p, const float *x, const int64_t *view, int n, float *y)
{
    struct task columns = {0}, others = {0};
    for (int s = 0; s < n; s++) {
        struct task *const to = p->views[view[s]].column ? &columns : &others;
        to->view[to->n] = &p->views[view[s]];
        to->y[to->n] = y + s * p->nu * p->nv;
        to->number[to->n++] = s;
    }
    see(p, view, n);
    if (columns.n > 0 && p->flat)
        project(p, &columns, shared_of(p->threads, columns.n), vp_min64(parts_of(p->threads, columns.n), p->nu), x,
                project_columns);
    else if (columns.n > 0)
        project(p, &columns, columns.n, stripes_of(p->threads, p->nu), x, project_columns);
    if (others.n > 0)
        project(p, &others, 1, vp_min64(parts_of(p->threads, others.n), p->nu), x, project_general);
}

/* ---- transpose ---- */

/* Fills lines [u0, u1) of a view, weighted. */
static void load_lines(const struct vp_pair *p, const struct vp_pair_view *view, const float *y, int64_t u0, int64_t u1,
                       float *lines)
{
    if (view->column) {
        p->isa->fill(p, view, y, u0, u1, lines);
        return;
    }
    for (int64_t v = 0; v < p->nv; v++)
        for (int64_t u = u0; u < u1; u++)
            lines[v * p->nu + u] = y[v * p->nu + u] * (float)vp_pair_length(p, view, (double)u, (double)v);
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
        const int slices = t.last - t.first;
        fetch_tile(p, &t, x, z0, t.first + slices * s / n, t.first + slices * (s + 1) / n);
        if (!from->column)
            vp_pair_general_collect(p, from, &t, lines);
        else if (meets(extent_of(from, &t), 0, p->nu))
            p->isa->collect(p, from, &t, lines, part + TILE_FLOATS);
    }
    p->isa->add(p, &t, z0, x);
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
                    : views + (uint64_t)(p->threads * p->part + VP_PAIR_VIEWS * line) * sizeof(float)
                      + (uint64_t)p->tiles * VP_PAIR_VIEWS * sizeof *p->seen;
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
