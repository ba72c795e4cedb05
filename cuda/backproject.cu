/* SPDX-License-Identifier: BSD-3-Clause */
/* Back-projection on a CUDA device: choice of the kernel from matrices and device, layout of the slab and of the packed
 * views, launches. */
#include "backproject_column.cuh"
#include "gpu.h"
#include "launch.cuh"
#include "tensor_map.h"

#include "ct/helix.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

using namespace vp;

namespace
{

/* ---- the choice ---- */

enum kind { COLUMN_TILED, COLUMN, MATRIX_TILED, MATRIX, PLAIN };

/* Consecutive slices [first, first + n), stored from slice `at` of the device's volume on. */
struct block {
    int64_t first, n, at;
};

/* The chosen kernel, and the arguments of launches except for buffers, views and tiles (out.vol is not set). */
struct choice : launch_args {
    enum kind kind;
    vp_orbit_shape shape;
    int R, Z;             /* views of an orbit, mirror slices */
    bool upper;           /* Z = 1 of a mirrored scan: the slab lies in the upper half and is computed as its mirror */
    column_kernel column; /* for matrices only its K, tile and batch */
    int stages;           /* tensor tiles in flight */
    int last_segment;     /* last segment of the whole grid */
    block blocks[2];      /* slices of the slab */
    int64_t slots;        /* orbits of the packed buffer */
    int64_t slot_floats;  /* floats of an orbit */
    int processors;       /* multiprocessors of the device */

    bool columns() const { return kind == COLUMN || kind == COLUMN_TILED; }
    bool tiled() const { return kind == COLUMN_TILED || kind == MATRIX_TILED; }
};

/* Rows of the detector, with the margin. */
int64_t rows_of(const vp_bp_job *p)
{
    return p->projections->nv + 2 * p->margin;
}

/* Fills the arguments of the kernels except for the buffers and the views. */
template <class View> void fill_args(const vp_bp_job *p, const choice &c, view_args<View> *a)
{
    (launch_args &)*a = c;
    a->tiles_x = (int)vp_div_up(c.half_x, c.column.tile_x), a->tiles_y = (int)vp_div_up(p->grid->n[1], c.column.tile_y);
}

int validate(const vp_bp_job *p, vp_err *err)
{
    constexpr int64_t most = 1 << 20;
    if (p->projections->n_views > 1 << 24)
        return vp_fail(err, VP_ERUN, "%lld views cannot be back-projected", (long long)p->projections->n_views);
    if (p->projections->nu > most / 4 || rows_of(p) > most / 4)
        return vp_fail(err, VP_ERUN, "a detector of %lldx%lld pixels is out of range", (long long)p->projections->nu,
                       (long long)rows_of(p));
    if (p->grid->n[0] > most || p->grid->n[1] > most || p->grid->n[2] > most)
        return vp_fail(err, VP_ERUN, "a volume of %lldx%lldx%lld voxels is out of range", (long long)p->grid->n[0],
                       (long long)p->grid->n[1], (long long)p->grid->n[2]);
    for (int64_t i = 0; i < 12 * p->projections->n_views; i++)
        if (!isfinite(p->P[i]))
            return vp_fail(err, VP_ERUN, "view %lld: the matrix is not finite", (long long)(i / 12));
    return 0;
}

/* Fills the slices that the slab holds and the pieces of the working half that produce them. */
void place_slab(const vp_bp_job *p, choice *c, bool mirror, int K)
{
    const int64_t nz = p->grid->n[2], half = (nz + 1) / 2, S = p->grid->n[0] * p->grid->n[1];
    c->blocks[0] = {p->z0, p->z1 - p->z0, 0};
    c->blocks[1] = {0, 0, 0};
    if (p->mirrored) {
        const int64_t b0 = vp_max64(nz - p->z1, p->z1);
        c->blocks[1] = {b0, vp_max64(nz - p->z0 - b0, 0), p->z1 - p->z0};
    }
    slab &out = c->out;
    out.nx = (int)p->grid->n[0], out.ny = (int)p->grid->n[1];
    const auto channel = [&](int z, const block &b, bool turned) {
        out.origin[z] = (turned ? b.at + nz - 1 - b.first : b.at - b.first) * S, out.step[z] = turned ? -S : S;
        out.begin[z] = (int)(turned ? nz - b.first - b.n : b.first), out.end[z] = out.begin[z] + (int)b.n;
    };
    out.begin[1] = out.end[1] = 0, out.origin[1] = out.step[1] = 0;
    channel(0, c->blocks[0], c->upper);
    if (c->Z == 2)
        channel(1, c->blocks[p->mirrored ? 1 : 0], true);
    int64_t k0 = out.begin[0], k1 = out.end[0];
    if (c->Z == 2 && out.end[1] > out.begin[1])
        k0 = vp_min64(k0, out.begin[1]), k1 = vp_max64(k1, out.end[1]);
    const int64_t depth = mirror ? half : nz;
    k1 = vp_min64(k1, depth);
    c->segment0 = (int)(k0 / K);
    c->segments = (int)((k1 + K - 1) / K) - c->segment0;
    c->last_segment = (int)((depth + K - 1) / K) - 1;
}

/* A view's matrix, scaled for the section of slice k (NO_SECTION: not scaled). */
struct matrix {
    double P[12];
};
constexpr int64_t NO_SECTION = -1;

/* Returns the factor of a view's matrix for the section of slice k of a helix; 0: the view does not count there. */
double scale_of(const vp_bp_job *p, int64_t view, int64_t k)
{
    return vp_helix_scale(p->projections->helix, p->projections->views[view].turn, p->grid, k);
}

matrix matrix_of(const vp_bp_job *p, int64_t view, int64_t k)
{
    matrix m;
    const double scale = k == NO_SECTION ? 1 : scale_of(p, view, k);
    for (int i = 0; i < 12; i++)
        m.P[i] = scale * p->P[12 * view + i];
    return m;
}

void fill_views(const vp_bp_job *p, const choice &c, int64_t first, int n, int64_t k, column_args *a)
{
    for (int o = 0; o < n; o++) {
        a->view[o] = vp_orbit_column(matrix_of(p, first + o, k).P, rows_of(p), p->grid->n, c.shape.flip_v);
        a->view[o].cv += SPLIT;
    }
    a->n = n;
}

void fill_views(const vp_bp_job *p, const choice &, int64_t first, int n, int64_t k, matrix_args *a)
{
    const double hx = 0.5 * (double)(p->grid->n[0] - 1), hy = 0.5 * (double)(p->grid->n[1] - 1);
    for (int o = 0; o < n; o++) {
        const matrix m = matrix_of(p, first + o, k);
        for (int r = 0; r < 12; r += 4) {
            memcpy(a->view[o].m + r, m.P + r, 4 * sizeof *m.P);
            a->view[o].m[r + 3] += hx * m.P[r] + hy * m.P[r + 1];
        }
    }
    a->n = n;
}

/* Measures the largest tile extents over the whole grid, so that the choice does not depend on the slab. */
template <class Args, class Launch>
int measure_extent(const vp_bp_job *p, const choice &c, Launch launch, int extent[2], vp_err *err)
{
    const int64_t orbits = p->projections->n_views / c.R;
    Args a = {};
    int *device = NULL;
    fill_args(p, c, &a);
    cudaError_t e = cudaMalloc(&device, 2 * sizeof *device);
    if (e == cudaSuccess)
        e = cudaMemset(device, 0, 2 * sizeof *device);
    for (int64_t o = 0; e == cudaSuccess && o < orbits; o += VIEW_BATCH) {
        fill_views(p, c, o, (int)vp_min64(VIEW_BATCH, orbits - o), NO_SECTION, &a);
        e = launch(a, device);
    }
    if (e == cudaSuccess)
        e = cudaMemcpy(extent, device, 2 * sizeof *device, cudaMemcpyDeviceToHost);
    cudaFree(device);
    return vp_gpu_check(err, e, "cannot measure the tiles");
}

bool covers(const column_kernel &k, const vp_orbit_shape &shape)
{
    return shape.s_min >= k.s_lower && shape.s_max <= k.s_upper;
}

/* Sets the rows around the middle of a kernel that has no bins. */
void open_window(column_kernel *k, const vp_orbit_shape &shape)
{
    if (k->set != SET_ANY)
        return;
    const double half = 0.5 * (k->K - 1) * shape.s_max;
    k->lo = -(int)half - 2, k->hi = (int)half + 3;
}

int choose_tiled(const vp_bp_job *p, choice *c, bool mirror, size_t shared_limit, bool *found, vp_err *err)
{
    const int M = c->R * c->Z;
    int extent[2] = {0, 0};
    *found = false;
    for (int set = 0; set < SETS && !*found; set++) {
        column_kernel k;
        if (!column_tiled(c->R, c->Z, (column_set)set, &k))
            return 0;
        if (!covers(k, c->shape))
            continue;
        open_window(&k, c->shape);
        c->column = k;
        place_slab(p, c, mirror, k.K);
        if (!extent[0]
            && measure_extent<column_args>(
                p, *c,
                [&](const column_args &a, int *device) {
                    return launch_column_extent(k, a, c->last_segment, device, NULL);
                },
                extent, err))
            return -1;
        const int wide = extent[0] + 4 / M - 1; /* boxes begin at multiples of 16 bytes */
        c->box_rows = extent[1] + k.hi - k.lo;
        c->box_pitch = k.pitch ? k.pitch : (int)vp_round_up(wide + k.pitch_step / 2, k.pitch_step) - k.pitch_step / 2;
        if (wide > c->box_pitch || c->box_pitch * M / map_floats(M) > 256 || c->box_rows > 256)
            continue;
        for (c->stages = k.stages_most; c->stages >= k.stages && !*found; c->stages--)
            *found = column_tiled_shared(k, c->box_pitch, c->box_rows, c->stages) <= shared_limit;
        c->stages++;
    }
    return 0;
}

/* Pixels a slice above which float32 steps along a piece of MATRIX_K slices exceed an error of 2e-6. */
constexpr double MATRIX_STEP = 3;

int choose_kernel(const vp_bp_job *p, choice *c, vp_err *err)
{
    *c = choice{};
    cudaDeviceProp device;
    if (vp_gpu_check(err, cudaSetDevice(p->device), "cannot use the device") ||
        vp_gpu_check(err, cudaGetDeviceProperties(&device, p->device), "cannot query the device"))
        return -1;
    if (device.major < 8)
        return vp_fail(err, VP_ERUN, "%s has compute capability %d.%d, 8.0 or newer is needed", device.name,
                       device.major, device.minor);
    const bool tiles = device.minor == 0 && (device.major == 9 || device.major == 10);
    const size_t shared_limit = device.sharedMemPerBlockOptin;
    c->processors = device.multiProcessorCount;
    c->shape = vp_orbit_test(p->P, p->projections->n_views, rows_of(p), p->grid->n);
    c->shape.mirror = c->shape.mirror && !p->projections->helix;
    c->R = c->Z = 1;
    c->nz = (int)p->grid->n[2], c->half_x = (int)p->grid->n[0];
    c->nu = (int)p->projections->nu, c->nv = (int)rows_of(p);
    bool plain = !c->shape.positive || c->shape.reach > 1 << 18;
    const bool columns = c->shape.columns && !plain, mirror = columns && c->shape.mirror;
    plain |= !columns && c->shape.step > MATRIX_STEP;

    if (p->mirrored && !mirror)
        return vp_fail(err, VP_ERUN, "the scan has no mirror plane: its slabs have no mirror image");
    if (columns) {
        c->R = c->shape.opposite && !p->single ? 2 : 1;
        c->half_x = c->R == 2 ? (c->half_x + 1) / 2 : c->half_x;
        if (mirror) {
            c->upper = !p->mirrored && p->z0 >= (p->grid->n[2] + 1) / 2 && p->z0 > 0;
            c->Z = c->upper || (!p->mirrored && p->z1 <= (p->grid->n[2] + 1) / 2 && p->z1 < p->grid->n[2]) ? 1 : 2;
        }
        bool tiled = false;
        if (tiles && choose_tiled(p, c, mirror, shared_limit, &tiled, err))
            return -1;
        if (tiled && mirror) { /* all slabs of a scan must use one kernel: the other shape of slab has to fit as well */
            choice other = *c;
            other.Z = 3 - c->Z, other.upper = false;
            vp_bp_job lower = *p;
            lower.z0 = 0, lower.z1 = other.Z == 2 ? p->grid->n[2] : 1, lower.mirrored = false;
            if (choose_tiled(&lower, &other, mirror, shared_limit, &tiled, err))
                return -1;
            tiled = tiled && other.column.set == c->column.set;
        }
        for (int set = 0; set < SETS && !tiled; set++) {
            column_portable(c->R, c->Z, (column_set)set, &c->column);
            if (covers(c->column, c->shape))
                break;
        }
        open_window(&c->column, c->shape);
        c->kind = tiled ? COLUMN_TILED : COLUMN;
        place_slab(p, c, mirror, c->column.K);
        int64_t v0, v1;
        vp_orbit_rows(p->P, p->projections->n_views, rows_of(p), p->grid->n, c->shape.flip_v,
                      vp_max64(0, c->segment0 * c->column.K),
                      (double)((c->segment0 + c->segments) * c->column.K - 1), &v0, &v1);
        const int M = c->R * c->Z;
        c->row_base = (int)v0;
        c->pad = tiled ? 0 : c->column.hi - c->column.lo + 1;
        c->rows = (int)vp_max64(v1 - v0, 1) + 2 * c->pad;
        c->pitch = tiled ? (int)vp_round_up(p->projections->nu, vp_max64(4 / M, 1)) : c->nu + 4;
        c->slot_floats = (int64_t)c->rows * c->pitch * M;
    } else {
        c->column.K = MATRIX_K, c->column.batch = VIEW_BATCH;
        c->column.tile_x = c->column.tile_y = MATRIX_TILE;
        c->kind = plain ? PLAIN : MATRIX;
        place_slab(p, c, false, MATRIX_K);
        c->pitch = (c->nu + 2 * MATRIX_PAD + 1) / 2 * 2, c->rows = c->nv + 2 * MATRIX_PAD, c->pad = MATRIX_PAD;
        c->slot_floats = (int64_t)c->rows * c->pitch * 2;
        if (tiles && !plain) {
            choice whole = *c;
            whole.segment0 = 0, whole.segments = c->last_segment + 1;
            int extent[2];
            if (measure_extent<matrix_args>(
                    p, whole, [](const matrix_args &a, int *device) { return launch_matrix_extent(a, device, NULL); },
                    extent, err))
                return -1;
            c->box_rows = extent[1];
            if (matrix_tiled(extent[0] + 1, &c->box_pitch) && c->box_rows <= 256 &&
                matrix_tiled_shared(c->box_pitch, c->box_rows) <= shared_limit / 2)
                c->kind = MATRIX_TILED;
        }
    }
    const int64_t tiles_max = ((p->grid->n[0] + 15) / 16) * ((p->grid->n[1] + 15) / 16) * (int64_t)c->segments;
    if (tiles_max > INT32_MAX)
        return vp_fail(err, VP_ERUN, "the slab has too many voxels for one device");
    const int64_t orbits = p->projections->n_views / c->R;
    c->slots = p->slots ? vp_min64(p->slots, orbits) : orbits;
    return 0;
}

void describe(const vp_bp_job *p, const choice &c, struct vp_bp_plan *plan)
{
    static const char *const names[] = {"columns", "columns", "3x4 matrices", "3x4 matrices",
                                        "3x4 matrices in float64"};
    static const char *const sets[] = {"s 0.5", "s 1", "s 2", "s to 0.4", "any s"};
    const bool columns = c.columns();
    memset(plan, 0, sizeof *plan);
    if (columns)
        snprintf(plan->kernel, sizeof plan->kernel, "%s%s%s, %s, %d slices a thread, %s", names[c.kind],
                 c.R == 2 ? ", half-turn pairs" : "", c.Z == 2 ? ", z mirror" : "", sets[c.column.set], c.column.K,
                 c.kind == COLUMN_TILED ? "tensor tiles" : "portable");
    else
        snprintf(plan->kernel, sizeof plan->kernel, "%s, %s", names[c.kind],
                 c.kind == MATRIX_TILED ? "tensor tiles" : "portable");
    const int64_t orbits = p->projections->n_views / c.R;
    plan->opposite = c.R == 2 ? orbits : 0;
    plan->mirror = columns && c.shape.mirror;
    plan->v0 = 0, plan->v1 = rows_of(p);
    if (columns) {
        int64_t v0 = c.row_base, v1 = vp_min64(c.row_base + c.rows - 2 * c.pad, rows_of(p));
        const int64_t m0 = rows_of(p) - v1, m1 = rows_of(p) - v0;
        if (c.Z == 2)
            v0 = vp_min64(v0, m0), v1 = vp_max64(v1, m1);
        else if (c.upper != c.shape.flip_v)
            v0 = m0, v1 = m1;
        plan->v0 = v0, plan->v1 = v1;
    }
    plan->z_step = c.column.K;
    plan->batch = vp_min64(c.column.batch, orbits);
    plan->slot = (uint64_t)c.slot_floats * sizeof(float);
    plan->fixed = 1 << 20;
}

/* Chooses the kernel; fails if the problem is not valid. */
int choose(const vp_bp_job *p, choice *c, vp_bp_plan *plan, vp_err *err)
{
    if (validate(p, err) || choose_kernel(p, c, err))
        return -1;
    describe(p, *c, plan);
    return 0;
}

/* ---- the work ---- */

/* Encodes the tensor map of the packed buffer: floats of a row (pairs if a texel has several), rows, slots. */
int make_map(const choice &c, float *packed, CUtensorMap *map, vp_err *err)
{
    const int M = c.kind == COLUMN_TILED ? c.R * c.Z : 2, floats = map_floats(M);
    const int64_t size[3] = {c.pitch * M / floats, c.rows, c.slots};
    const int64_t stride[2] = {(int64_t)(c.pitch * M) * (int64_t)sizeof(float), c.slot_floats * (int64_t)sizeof(float)};
    const int box[3] = {c.box_pitch * M / floats, c.box_rows, 1};
    return vp_tensor_map(map, floats, packed, size, stride, box, err);
}

} // namespace

struct vp_devbp {
    const struct vp_bp_job *p;
    choice c;
    cudaStream_t stream;
    float *packed;
    int *next_tile;
    CUtensorMap map;
};

namespace
{

int plan(const struct vp_bp_job *p, struct vp_bp_plan *plan, struct vp_err *err)
{
    choice c;
    return choose(p, &c, plan, err);
}

int open(struct vp_devbp **out, const struct vp_bp_job *p, void *packed, void *fixed, struct vp_queue *queue,
         struct vp_err *err)
{
    vp_bp_plan plan;
    *out = NULL;
    vp_devbp *const b = (vp_devbp *)vp_alloc(1, sizeof *b, "the back-projection", err);
    if (!b)
        return -1;
    b->p = p;
    b->stream = queue->stream;
    b->packed = (float *)packed;
    b->next_tile = (int *)fixed;
    if (choose(p, &b->c, &plan, err) || (b->c.tiled() && make_map(b->c, b->packed, &b->map, err))) {
        free(b);
        return -1;
    }
    *out = b;
    return 0;
}

/* Calls f(first orbit, slot, count) for runs of at most `most` orbits in consecutive slots. */
template <class F>
int each_run(const struct vp_devbp *b, int64_t first, int64_t n, int64_t most, struct vp_err *err, F f)
{
    if (vp_gpu_check(err, cudaSetDevice(b->p->device), "cannot use the device"))
        return -1;
    while (n > 0) {
        const int64_t slot = first % b->c.slots, run = vp_min64(vp_min64(n, b->c.slots - slot), most);
        if (f(first, slot, (int)run))
            return -1;
        first += run, n -= run;
    }
    return 0;
}

int pack(struct vp_devbp *b, int64_t first, int64_t n, int64_t v0, int64_t v1, const float *q, const float *opposite,
         struct vp_err *err)
{
    const choice &c = b->c;
    const int64_t view = b->p->projections->nu * (v1 - v0), begin = first;
    return each_run(b, first, n, 1 << 20, err, [&](int64_t o, int64_t slot, int run) {
        pack_args a = {};
        a.q[0] = q ? q + (o - begin) * view : NULL;
        a.q[1] = opposite && c.R == 2 ? opposite + (o - begin) * view : NULL;
        if (!a.q[0] && !a.q[1])
            return 0;
        a.packed = b->packed, a.slot_floats = c.slot_floats;
        a.nu = c.nu, a.nv = c.nv, a.rows = c.rows, a.pitch = c.pitch;
        a.given_first = (int)v0, a.given = (int)(v1 - v0), a.margin = (int)b->p->margin;
        a.row_base = c.row_base - c.pad;
        a.pad_u = c.kind == COLUMN_TILED ? 0 : 2;
        a.views = c.R, a.channels_z = c.Z, a.pairs = !c.columns();
        a.flip = a.pairs ? 0 : (unsigned)(c.shape.flip_v != c.upper) | (unsigned)!c.shape.flip_v << 1;
        a.slot = (int)slot, a.n = run;
        return vp_gpu_check(err, launch_pack(a, b->stream), "cannot pack projections");
    });
}

/* Adds to pieces [from, from + pieces) of the slab; `set`: they hold nothing yet (beta = 0). */
template <class Args, class Launch>
int run_pieces(struct vp_devbp *b, float *volume, int64_t first, int64_t n, int from, int pieces, bool set,
               Launch launch, struct vp_err *err)
{
    Args a = {};
    fill_args(b->p, b->c, &a);
    a.segment0 += from, a.segments = pieces;
    a.out.vol = volume, a.packed = b->packed, a.next_tile = b->next_tile;
    int64_t section = NO_SECTION;
    const auto add = [&](int64_t begin, int64_t count) {
        return each_run(b, begin, count, b->c.column.batch, err, [&](int64_t o, int64_t slot, int run) {
            fill_views(b->p, b->c, o, run, section, &a);
            a.slot = (int)slot, a.out.fresh = set;
            set = false;
            return vp_gpu_check(err, launch(a), "cannot back-project");
        });
    };
    if (!b->p->projections->helix)
        return add(first, n);

    /* a helix: section by section, only views with a weight there */
    const int K = b->c.column.K;
    const slab whole = a.out;
    const int64_t begin = vp_max64(whole.begin[0], (int64_t)a.segment0 * K);
    const int64_t end = vp_min64(whole.end[0], (int64_t)(a.segment0 + pieces) * K);
    if (set && begin < end
        && vp_gpu_check(err, cudaSetDevice(b->p->device), "cannot use the device"))
        return -1;
    if (set && begin < end
        && vp_gpu_check(err, cudaMemsetAsync(volume + whole.origin[0] + begin * whole.step[0], 0,
                                             (size_t)((end - begin) * whole.step[0]) * sizeof(float), b->stream),
                        "cannot clear the volume"))
        return -1;
    set = false;
    const int64_t slices = vp_helix_section(b->p->projections->helix, b->p->grid);
    for (int64_t k = begin, next; k < end; k = next) {
        section = k / slices * slices;
        next = vp_min64(section + slices, end);
        a.out.begin[0] = (int)k, a.out.end[0] = (int)next;
        a.segment0 = (int)(k / K), a.segments = (int)((next - 1) / K) + 1 - a.segment0;
        for (int64_t o = first, stop; o < first + n; o = stop) {
            const bool counts = scale_of(b->p, o, section) > 0;
            stop = o + 1;
            while (stop < first + n && scale_of(b->p, stop, section) > 0 == counts)
                stop++;
            if (counts && add(o, stop - o))
                return -1;
        }
    }
    return 0;
}

int parts(const struct vp_devbp *b, int most)
{
    /* waves of tiles: enough that the last, incomplete one is negligible */
    constexpr int64_t WAVES = 12;
    const choice &c = b->c;
    const int64_t tiles_y = vp_div_up(b->p->grid->n[1], c.column.tile_y);
    const int64_t tiles = vp_div_up(c.half_x, c.column.tile_x) * tiles_y * c.segments;
    return (int)vp_max64(1, vp_min64(vp_min64(tiles / (WAVES * c.processors), most), c.segments));
}

int run(struct vp_devbp *b, float *volume, int64_t first, int64_t n, int part, int parts, bool set, struct vp_err *err)
{
    const choice &c = b->c;
    int from = (int)((int64_t)c.segments * part / parts), to = (int)((int64_t)c.segments * (part + 1) / parts);
    if (c.upper) { /* computed from its far end */
        const int turned = c.segments - to;
        to = c.segments - from, from = turned;
    }
    if (c.columns())
        return run_pieces<column_args>(b, volume, first, n, from, to - from, set, [&](const column_args &a) {
            return c.kind == COLUMN ? launch_column_portable(c.column, a, b->stream)
                                    : launch_column_tiled(c.column, b->map, a, c.stages, c.processors, b->stream);
        }, err);
    return run_pieces<matrix_args>(b, volume, first, n, from, to - from, set, [&](const matrix_args &a) {
        return c.kind == MATRIX_TILED ? launch_matrix_tiled(c.box_pitch, c.shape.level, b->map, a, b->stream)
                                      : launch_matrix_portable(a, c.kind == PLAIN, b->stream);
    }, err);
}

int part_of(const struct vp_devbp *b, int64_t z, int parts)
{
    const choice &c = b->c;
    const int64_t nz = b->p->grid->n[2];
    const int64_t k = c.upper || (c.Z == 2 && z >= (nz + 1) / 2) ? nz - 1 - z : z;
    int64_t piece = k / c.column.K - c.segment0;
    if (c.upper)
        piece = c.segments - 1 - piece;
    int part = 0;
    while (part < parts - 1 && piece >= (int64_t)c.segments * (part + 1) / parts)
        part++;
    return part;
}

void close(struct vp_devbp *b)
{
    free(b);
}

} // namespace

const struct vp_backproject_kernels vp_gpu_backproject = {plan, open, pack, run, parts, part_of, close};
