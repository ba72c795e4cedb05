/* SPDX-License-Identifier: BSD-3-Clause */
/* Back-projection on a CUDA device: which kernel the matrices and the device allow, memory, launches. */
#include "backproject_cuda.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include <new>
#include <vector>

#include "backproject_column.cuh"
#include "failure.cuh"

using namespace vp;

namespace
{

thread_local failure last;

#define fail(...) last.say(__VA_ARGS__) /* the compiler checks the format */

int check(cudaError_t e, const char *what)
{
    return last.check(e, what);
}

enum kind { COLUMN_TILED, COLUMN, MATRIX_TILED, MATRIX, PLAIN };

/* One set of slices in a row: [first, first + n), stored from slice `at` of the volume on. */
struct block {
    int64_t first, n, at;
};

struct choice {
    enum kind kind;
    vp_orbit_shape shape;
    int R, Z;
    bool upper; /* Z = 1 on a mirrored scan: the slab lies in the upper half and is worked on as its mirror */
    column_kernel column;
    int box_pitch, box_rows, stages;
    block blocks[2];
    int64_t half_x;                       /* columns worked on */
    int segment0, segments, last_segment; /* pieces of K slices; last_segment: of the whole grid */
    int64_t row_base;                     /* detector row of packed row 0, working direction */
    int64_t rows, pitch, pad;             /* of a slot */
    int64_t slots, slot_floats;
    slab out; /* without vol */
    int processors;
};

/* A working copy of what outlives the call. */
struct scan {
    std::vector<double> P;
    int64_t n_views, n[3], nu, nv;
};

int64_t round_up(int64_t a, int64_t step)
{
    return (a + step - 1) / step * step;
}
int64_t lesser(int64_t a, int64_t b)
{
    return a < b ? a : b;
}
int64_t greater(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

int validate(const vp_bpcuda_problem *p)
{
    constexpr int64_t most = 1 << 20;
    if (!p->P || p->n_views < 1 || p->n_views > 1 << 24)
        return fail("%lld views cannot be back-projected", (long long)p->n_views);
    if (p->nu < 1 || p->nv < 1 || p->nu > most / 4 || p->nv > most / 4)
        return fail("a detector of %lldx%lld pixels is out of range", (long long)p->nu, (long long)p->nv);
    if (p->nx < 1 || p->ny < 1 || p->nz < 1 || p->nx > most || p->ny > most || p->nz > most)
        return fail("a volume of %lldx%lldx%lld voxels is out of range", (long long)p->nx, (long long)p->ny,
                    (long long)p->nz);
    if (p->z0 < 0 || p->z1 <= p->z0 || p->z1 > p->nz || (p->mirrored && p->z1 > (p->nz + 1) / 2))
        return fail("slab [%lld, %lld) does not lie in %s of %lld slices", (long long)p->z0, (long long)p->z1,
                    p->mirrored ? "the lower half" : "a grid", (long long)p->nz);
    if (p->orbits < 0)
        return fail("a buffer of %lld orbits", (long long)p->orbits);
    for (int64_t i = 0; i < 12 * p->n_views; i++)
        if (!isfinite(p->P[i]))
            return fail("view %lld: the matrix is not finite", (long long)(i / 12));
    return 0;
}

/* Which slices the slab holds and which pieces of the working half produce them. */
void place_slab(const vp_bpcuda_problem *p, choice *c, bool mirror, int K)
{
    const int64_t nz = p->nz, half = (nz + 1) / 2, S = p->nx * p->ny;
    c->blocks[0] = {p->z0, p->z1 - p->z0, 0};
    c->blocks[1] = {0, 0, 0};
    if (p->mirrored) {
        const int64_t b0 = greater(nz - p->z1, p->z1);
        c->blocks[1] = {b0, greater(nz - p->z0 - b0, 0), p->z1 - p->z0};
    }
    slab &out = c->out;
    out.nx = (int)p->nx, out.ny = (int)p->ny;
    const auto direct = [&](int channel, const block &b) {
        out.origin[channel] = (b.at - b.first) * S, out.step[channel] = S;
        out.begin[channel] = (int)b.first, out.end[channel] = (int)(b.first + b.n);
    };
    const auto mirrored = [&](int channel, const block &b) {
        out.origin[channel] = (b.at + nz - 1 - b.first) * S, out.step[channel] = -S;
        out.begin[channel] = (int)(nz - b.first - b.n), out.end[channel] = (int)(nz - b.first);
    };
    out.begin[1] = out.end[1] = 0, out.origin[1] = out.step[1] = 0;
    if (c->upper)
        mirrored(0, c->blocks[0]);
    else
        direct(0, c->blocks[0]);
    if (c->Z == 2)
        mirrored(1, c->blocks[p->mirrored ? 1 : 0]);
    int64_t k0 = out.begin[0], k1 = out.end[0];
    if (c->Z == 2 && out.end[1] > out.begin[1])
        k0 = lesser(k0, out.begin[1]), k1 = greater(k1, out.end[1]);
    const int64_t depth = mirror ? half : nz;
    k1 = lesser(k1, depth);
    c->segment0 = (int)(k0 / K);
    c->segments = (int)((k1 + K - 1) / K) - c->segment0;
    c->last_segment = (int)((depth + K - 1) / K) - 1;
}

void fill_column_args(const scan &s, const choice &c, column_args *a)
{
    memset(a, 0, offsetof(column_args, view));
    a->out = c.out;
    a->nz = (int)s.n[2], a->half_x = (int)c.half_x;
    a->nu = (int)s.nu, a->nv = (int)s.nv, a->row_base = (int)c.row_base;
    a->tiles_x = (int)((c.half_x + c.column.tile_x - 1) / c.column.tile_x);
    a->tiles_y = (int)((s.n[1] + c.column.tile_y - 1) / c.column.tile_y);
    a->segment0 = c.segment0, a->segments = c.segments;
    a->pitch = (int)c.pitch, a->rows = (int)c.rows, a->pad = (int)c.pad;
    a->box_pitch = c.box_pitch, a->box_rows = c.box_rows;
}

void column_views(const scan &s, const choice &c, int64_t first, int n, column_args *a)
{
    for (int o = 0; o < n; o++) {
        a->view[o] = vp_orbit_column(&s.P[(size_t)(12 * (first + o))], s.nv, s.n, c.shape.flip_v);
        a->view[o].cv += SPLIT;
    }
    a->n = n;
}

void fill_matrix_args(const scan &s, const choice &c, matrix_args *a)
{
    memset(a, 0, offsetof(matrix_args, view));
    a->out = c.out;
    a->tiles_x = (int)((s.n[0] + MATRIX_TILE - 1) / MATRIX_TILE);
    a->tiles_y = (int)((s.n[1] + MATRIX_TILE - 1) / MATRIX_TILE);
    a->segment0 = c.segment0, a->segments = c.segments;
    a->nu = (int)s.nu, a->nv = (int)s.nv;
    a->pitch = (int)c.pitch, a->rows = (int)c.rows, a->box_rows = c.box_rows;
}

void matrix_views(const scan &s, int64_t first, int n, matrix_args *a)
{
    const double hx = 0.5 * (double)(s.n[0] - 1), hy = 0.5 * (double)(s.n[1] - 1);
    for (int o = 0; o < n; o++) {
        const double *P = &s.P[(size_t)(12 * (first + o))];
        for (int r = 0; r < 12; r += 4) {
            memcpy(a->view[o].m + r, P + r, 4 * sizeof *P);
            a->view[o].m[r + 3] += hx * P[r] + hy * P[r + 1];
        }
    }
    a->n = n;
}

/* Largest tile extents over the whole grid, so that the choice does not depend on the slab. */
template <class Measure>
int measure_extent(int64_t orbits, int batch, Measure measure, int extent[2])
{
    int *device = NULL;
    cudaError_t e = cudaMalloc(&device, 2 * sizeof *device);
    if (e == cudaSuccess)
        e = cudaMemset(device, 0, 2 * sizeof *device);
    for (int64_t o = 0; e == cudaSuccess && o < orbits; o += batch)
        e = measure(o, (int)lesser(batch, orbits - o), device);
    if (e == cudaSuccess)
        e = cudaMemcpy(extent, device, 2 * sizeof *device, cudaMemcpyDeviceToHost);
    cudaFree(device);
    return check(e, "cannot measure the tiles");
}

bool covers(const column_kernel &k, const vp_orbit_shape &shape)
{
    return shape.s_min >= k.s_lower && shape.s_max <= k.s_upper;
}

/* Rows around the middle when they are not fixed by bins. */
void open_window(column_kernel *k, const vp_orbit_shape &shape)
{
    if (k->set != SET_ANY)
        return;
    const double half = 0.5 * (k->K - 1) * shape.s_max;
    k->lo = -(int)half - 2, k->hi = (int)half + 3;
}

int choose_tiled(const scan &s, const vp_bpcuda_problem *p, choice *c, bool mirror, size_t shared_limit,
                 bool *found)
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
        if (!extent[0]) {
            column_args a;
            fill_column_args(s, *c, &a);
            if (measure_extent(
                    s.n_views / c->R, COLUMN_BATCH,
                    [&](int64_t o, int n, int *device) {
                        column_views(s, *c, o, n, &a);
                        return launch_column_extent(k, a, c->last_segment, device, NULL);
                    },
                    extent))
                return -1;
        }
        const int wide = extent[0] + 4 / M - 1; /* boxes begin at multiples of 16 bytes */
        c->box_rows = extent[1] + k.hi - k.lo;
        c->box_pitch =
            k.pitch ? k.pitch : (int)round_up(wide + k.pitch_step / 2, k.pitch_step) - k.pitch_step / 2;
        if (wide > c->box_pitch || c->box_pitch * M / map_floats(M) > 256 || c->box_rows > 256)
            continue;
        for (c->stages = 8; c->stages >= k.stages && !*found; c->stages--)
            *found = column_tiled_shared(k, c->box_pitch, c->box_rows, c->stages) <= shared_limit;
        c->stages++;
    }
    return 0;
}

/* Pixels a slice from which on float32 steps along a piece of MATRIX_K slices are too coarse for 2e-6. */
constexpr double MATRIX_STEP = 3;

int choose(const vp_bpcuda_problem *p, const scan &s, choice *c)
{
    *c = choice{};
    cudaDeviceProp device;
    if (check(cudaSetDevice(p->device), "cannot use the device") ||
        check(cudaGetDeviceProperties(&device, p->device), "cannot ask the device"))
        return -1;
    if (device.major < 8)
        return fail("%s has compute capability %d.%d, 8.0 or newer is needed", device.name, device.major,
                    device.minor);
    const bool tiles =
        device.minor == 0 && (device.major == 9 || device.major == 10) && !(p->limit & VP_BPCUDA_PORTABLE);
    const size_t shared_limit = device.sharedMemPerBlockOptin;
    c->processors = device.multiProcessorCount;
    c->shape = vp_orbit_test(s.P.data(), s.n_views, s.nv, s.n);
    c->R = c->Z = 1;
    c->half_x = p->nx;
    bool plain = !c->shape.positive || c->shape.reach > 1 << 18 || (p->limit & VP_BPCUDA_PLAIN);
    const bool columns = c->shape.columns && !plain && !(p->limit & VP_BPCUDA_MATRIX);
    plain |= !columns && c->shape.step > MATRIX_STEP;

    if (columns) {
        const bool mirror = c->shape.mirror && !(p->limit & VP_BPCUDA_NO_MIRROR);
        if (p->mirrored && !mirror)
            return fail("the scan has no mirror plane: its slabs have no mirror image");
        c->R = c->shape.half_turn && !(p->limit & VP_BPCUDA_NO_ROTATION) ? 2 : 1;
        c->half_x = c->R == 2 ? (p->nx + 1) / 2 : p->nx;
        if (mirror) {
            c->upper = !p->mirrored && p->z0 >= (p->nz + 1) / 2 && p->z0 > 0;
            c->Z = c->upper || (!p->mirrored && p->z1 <= (p->nz + 1) / 2 && p->z1 < p->nz) ? 1 : 2;
        }
        bool tiled = false;
        if (tiles && choose_tiled(s, p, c, mirror, shared_limit, &tiled))
            return -1;
        if (tiled && mirror) { /* slabs of one scan must not differ in kernel: the other shape of slab has to
                                  fit as well */
            choice other = *c;
            other.Z = 3 - c->Z, other.upper = false;
            vp_bpcuda_problem lower = *p;
            lower.z0 = 0, lower.z1 = other.Z == 2 ? p->nz : 1, lower.mirrored = false;
            if (choose_tiled(s, &lower, &other, mirror, shared_limit, &tiled))
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
        int64_t v1;
        vp_orbit_rows(s.P.data(), s.n_views, s.nv, s.n, c->shape.flip_v,
                      greater(0, c->segment0 * c->column.K),
                      (double)((c->segment0 + c->segments) * c->column.K - 1), &c->row_base, &v1);
        const int M = c->R * c->Z;
        c->pad = tiled ? 0 : c->column.hi - c->column.lo + 1;
        c->rows = greater(v1 - c->row_base, 1) + 2 * c->pad;
        c->pitch = tiled ? round_up(p->nu, greater(4 / M, 1)) : p->nu + 4;
        c->slot_floats = c->rows * c->pitch * M;
    } else {
        if (p->mirrored)
            return fail("the scan has no mirror plane: its slabs have no mirror image");
        c->kind = plain ? PLAIN : MATRIX;
        place_slab(p, c, false, MATRIX_K);
        c->pitch = round_up(p->nu + 2 * MATRIX_PAD, 2), c->rows = p->nv + 2 * MATRIX_PAD, c->pad = MATRIX_PAD;
        c->slot_floats = c->rows * c->pitch * 2;
        if (tiles && !plain) {
            choice whole = *c;
            whole.segment0 = 0, whole.segments = c->last_segment + 1;
            matrix_args a;
            fill_matrix_args(s, whole, &a);
            int extent[2];
            if (measure_extent(
                    s.n_views, MATRIX_BATCH,
                    [&](int64_t o, int n, int *device_extent) {
                        matrix_views(s, o, n, &a);
                        return launch_matrix_extent(a, device_extent, NULL);
                    },
                    extent))
                return -1;
            c->box_rows = extent[1];
            if (matrix_tiled(extent[0] + 1, &c->box_pitch) && c->box_rows <= 256 &&
                matrix_tiled_shared(c->box_pitch, c->box_rows) <= shared_limit / 2)
                c->kind = MATRIX_TILED;
        }
    }
    const int64_t tiles_max = ((p->nx + 15) / 16) * ((p->ny + 15) / 16) * (int64_t)(c->segments);
    if (tiles_max > INT32_MAX)
        return fail("the slab has too many voxels for one device");
    const int64_t orbits = s.n_views / c->R;
    c->slots = p->orbits ? lesser(p->orbits, orbits) : orbits;
    return 0;
}

void describe(const vp_bpcuda_problem *p, const choice &c, struct vp_bpcuda_plan *plan)
{
    static const char *const names[] = {"columns", "columns", "3x4 matrices", "3x4 matrices",
                                        "3x4 matrices in float64"};
    static const char *const sets[] = {"s 0.5", "s 1", "s 2", "any s"};
    const bool columns = c.kind == COLUMN || c.kind == COLUMN_TILED;
    memset(plan, 0, sizeof *plan);
    if (columns)
        snprintf(plan->kernel, sizeof plan->kernel, "%s%s%s, %s, %d slices a thread, %s", names[c.kind],
                 c.R == 2 ? ", half-turn pairs" : "", c.Z == 2 ? ", z mirror" : "", sets[c.column.set],
                 c.column.K, c.kind == COLUMN_TILED ? "tensor tiles" : "portable");
    else
        snprintf(plan->kernel, sizeof plan->kernel, "%s, %s", names[c.kind],
                 c.kind == MATRIX_TILED ? "tensor tiles" : "portable");
    plan->views_per_orbit = c.R;
    plan->mirror = columns && c.shape.mirror && !(p->limit & VP_BPCUDA_NO_MIRROR);
    plan->orbits = p->n_views / c.R;
    plan->v0 = 0, plan->v1 = p->nv;
    if (columns) {
        int64_t v0 = c.row_base, v1 = lesser(c.row_base + c.rows - 2 * c.pad, p->nv);
        const int64_t m0 = p->nv - v1, m1 = p->nv - v0;
        if (c.Z == 2)
            v0 = lesser(v0, m0), v1 = greater(v1, m1);
        else if (c.upper != c.shape.flip_v)
            v0 = m0, v1 = m1;
        plan->v0 = v0, plan->v1 = v1;
    }
    plan->z_step = columns ? c.column.K : MATRIX_K;
    plan->good_batch = lesser(columns ? c.column.batch : MATRIX_BATCH, plan->orbits);
    plan->bytes_volume =
        (uint64_t)p->nx * (uint64_t)p->ny * (uint64_t)(c.blocks[0].n + c.blocks[1].n) * sizeof(float);
    plan->bytes_orbit = (uint64_t)c.slot_floats * sizeof(float);
    plan->bytes_fixed = 1 << 20;
}

scan scan_of(const vp_bpcuda_problem *p)
{
    return {
        std::vector<double>(p->P, p->P + 12 * p->n_views), p->n_views, {p->nx, p->ny, p->nz}, p->nu, p->nv};
}

/* The packed buffer as the copy engine sees it: floats of a row (in pairs where a texel has several), rows,
 * slots. */
int make_map(const choice &c, float *packed, CUtensorMap *map)
{
    typedef CUresult (*encode_function)(CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *,
                                        const cuuint64_t *, const cuuint64_t *, const cuuint32_t *,
                                        const cuuint32_t *, CUtensorMapInterleave, CUtensorMapSwizzle,
                                        CUtensorMapL2promotion, CUtensorMapFloatOOBfill);
    void *symbol = NULL;
    cudaDriverEntryPointQueryResult found;
    if (check(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &symbol, 12000, cudaEnableDefault,
                                               &found),
              "tensor maps"))
        return -1;
    if (!symbol || found != cudaDriverEntryPointSuccess)
        return fail("the driver has no tensor maps");
    const int M = c.kind == COLUMN_TILED ? c.R * c.Z : 2, floats = map_floats(M);
    const cuuint64_t size[3] = {(cuuint64_t)(c.pitch * M / floats), (cuuint64_t)c.rows, (cuuint64_t)c.slots};
    const cuuint64_t stride[2] = {(cuuint64_t)(c.pitch * M) * sizeof(float),
                                  (cuuint64_t)c.slot_floats * sizeof(float)};
    const cuuint32_t box[3] = {(cuuint32_t)(c.box_pitch * M / floats), (cuuint32_t)c.box_rows, 1},
                     step[3] = {1, 1, 1};
    const CUresult r = ((encode_function)symbol)(
        map, floats == 2 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT64 : CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 3, packed, size,
        stride, box, step, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE,
        CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    return r == CUDA_SUCCESS ? 0 : fail("the driver refused a tensor map (error %d)", (int)r);
}

} // namespace

struct vp_bpcuda {
    scan s;
    choice c;
    struct vp_bpcuda_plan plan;
    int device;
    cudaStream_t stream;
    bool own_stream, fresh;
    float *vol, *packed;
    int *next_tile;
    CUtensorMap map;
};

const char *vp_bpcuda_error(void)
{
    return last.text;
}
bool vp_bpcuda_failed_memory(void)
{
    return last.memory;
}

int vp_bpcuda_plan(const struct vp_bpcuda_problem *p, struct vp_bpcuda_plan *plan)
{
    last.memory = false;
    choice c;
    if (validate(p) || choose(p, scan_of(p), &c))
        return -1;
    describe(p, c, plan);
    return 0;
}

int vp_bpcuda_open(struct vp_bpcuda **out, const struct vp_bpcuda_problem *p, void *stream)
{
    *out = NULL;
    last.memory = false;
    if (validate(p))
        return -1;
    vp_bpcuda *b = new (std::nothrow) vp_bpcuda();
    if (!b)
        return fail("out of memory");
    b->s = scan_of(p);
    b->device = p->device;
    b->stream = (cudaStream_t)stream;
    b->fresh = true;
    if (choose(p, b->s, &b->c))
        goto out;
    describe(p, b->c, &b->plan);
    if (!stream) {
        if (check(cudaStreamCreateWithFlags(&b->stream, cudaStreamNonBlocking), "cannot make a stream"))
            goto out;
        b->own_stream = true;
    }
    if (check(cudaMalloc(&b->vol, b->plan.bytes_volume), "no device memory for the volume") ||
        check(cudaMalloc(&b->packed, b->plan.bytes_orbit * (uint64_t)b->c.slots),
              "no device memory for the projections") ||
        check(cudaMalloc(&b->next_tile, sizeof *b->next_tile), "no device memory"))
        goto out;
    if ((b->c.kind == COLUMN_TILED || b->c.kind == MATRIX_TILED) && make_map(b->c, b->packed, &b->map))
        goto out;
    *out = b;
    return 0;
out:
    vp_bpcuda_close(b);
    return -1;
}

const struct vp_bpcuda_plan *vp_bpcuda_plan_of(const struct vp_bpcuda *b)
{
    return &b->plan;
}

/* Runs of orbits that lie in consecutive slots. */
template <class F>
static int each_run(const struct vp_bpcuda *b, int64_t first, int64_t n, int64_t most, F f)
{
    if (first < 0 || n < 0 || first + n > b->plan.orbits || n > b->c.slots)
        return fail("orbits [%lld, %lld) of %lld do not fit %lld slots", (long long)first,
                    (long long)(first + n), (long long)b->plan.orbits, (long long)b->c.slots);
    if (check(cudaSetDevice(b->device), "cannot use the device"))
        return -1;
    while (n > 0) {
        const int64_t slot = first % b->c.slots, run = lesser(lesser(n, b->c.slots - slot), most);
        if (f(first, slot, (int)run))
            return -1;
        first += run, n -= run;
    }
    return 0;
}

int vp_bpcuda_pack(struct vp_bpcuda *b, int64_t first, int64_t n, int64_t v0, int64_t v1, const float *q,
                   const float *half_turn)
{
    const choice &c = b->c;
    const bool columns = c.kind == COLUMN || c.kind == COLUMN_TILED;
    const int64_t view = b->s.nu * (v1 - v0), begin = first;
    if (v0 < 0 || v1 > b->s.nv || v0 > b->plan.v0 || v1 < b->plan.v1)
        return fail("detector rows [%lld, %lld) do not hold the slab's [%lld, %lld)", (long long)v0, (long long)v1,
                    (long long)b->plan.v0, (long long)b->plan.v1);
    return each_run(b, first, n, 1 << 20, [&](int64_t o, int64_t slot, int run) {
        pack_args a = {};
        a.q[0] = q ? q + (o - begin) * view : NULL;
        a.q[1] = half_turn && c.R == 2 ? half_turn + (o - begin) * view : NULL;
        if (!a.q[0] && !a.q[1])
            return 0;
        a.packed = b->packed, a.slot_floats = c.slot_floats;
        a.nu = (int)b->s.nu, a.nv = (int)b->s.nv, a.rows = (int)c.rows, a.pitch = (int)c.pitch;
        a.given_first = (int)v0, a.given = (int)(v1 - v0);
        a.row_base = (int)(c.row_base - c.pad);
        a.pad_u = c.kind == COLUMN_TILED ? 0 : 2;
        a.channels_z = c.Z, a.views = columns ? c.R : 0;
        a.flip = (unsigned)(c.shape.flip_v != c.upper) | (unsigned)!c.shape.flip_v << 1;
        a.slot = (int)slot, a.n = run;
        return check(launch_pack(a, b->stream), "cannot pack projections");
    });
}

/* Pieces [from, from + pieces) of the slab; `fresh`: they hold nothing yet. */
static int run_pieces(struct vp_bpcuda *b, int64_t first, int64_t n, int from, int pieces, bool fresh)
{
    const choice &c = b->c;
    if (c.kind == COLUMN || c.kind == COLUMN_TILED) {
        column_args a;
        fill_column_args(b->s, c, &a);
        a.segment0 += from, a.segments = pieces;
        a.out.vol = b->vol, a.packed = b->packed, a.next_tile = b->next_tile;
        return each_run(b, first, n, c.column.batch, [&](int64_t o, int64_t slot, int run) {
            column_views(b->s, c, o, run, &a);
            a.slot = (int)slot, a.out.fresh = fresh;
            fresh = false;
            return check(c.kind == COLUMN
                             ? launch_column_portable(c.column, a, b->stream)
                             : launch_column_tiled(c.column, b->map, a, c.stages, c.processors, b->stream),
                         "cannot back-project");
        });
    }
    matrix_args a;
    fill_matrix_args(b->s, c, &a);
    a.segment0 += from, a.segments = pieces;
    a.out.vol = b->vol, a.packed = b->packed;
    return each_run(b, first, n, MATRIX_BATCH, [&](int64_t o, int64_t slot, int run) {
        matrix_views(b->s, o, run, &a);
        a.slot = (int)slot, a.out.fresh = fresh;
        fresh = false;
        return check(c.kind == PLAIN ? launch_plain(a, b->stream)
                     : c.kind == MATRIX
                         ? launch_matrix_portable(a, b->stream)
                         : launch_matrix_tiled(c.box_pitch, c.shape.level, b->map, a, b->stream),
                     "cannot back-project");
    });
}

int vp_bpcuda_run(struct vp_bpcuda *b, int64_t first, int64_t n)
{
    if (run_pieces(b, first, n, 0, b->c.segments, b->fresh))
        return -1;
    b->fresh = b->fresh && n <= 0;
    return 0;
}

int vp_bpcuda_parts(const struct vp_bpcuda *b, int most)
{
    /* so many tiles for each multiprocessor that those that are left over at the end do not count */
    constexpr int64_t WAVES = 12;
    const choice &c = b->c;
    const bool columns = c.kind == COLUMN || c.kind == COLUMN_TILED;
    const int64_t wide = columns ? c.column.tile_x : MATRIX_TILE, high = columns ? c.column.tile_y : MATRIX_TILE;
    const int64_t tiles = ((c.half_x + wide - 1) / wide) * ((b->s.n[1] + high - 1) / high) * c.segments;
    return (int)greater(1, lesser(lesser(tiles / (WAVES * c.processors), most), c.segments));
}

int vp_bpcuda_run_part(struct vp_bpcuda *b, int64_t first, int64_t n, int part, int parts)
{
    const choice &c = b->c;
    if (part < 0 || part >= parts || parts > c.segments)
        return fail("part %d of %d of a slab of %d pieces", part, parts, c.segments);
    int from = (int)((int64_t)c.segments * part / parts), to = (int)((int64_t)c.segments * (part + 1) / parts);
    if (c.upper) { /* worked on from its far end */
        const int turned = c.segments - to;
        to = c.segments - from, from = turned;
    }
    if (run_pieces(b, first, n, from, to - from, b->fresh))
        return -1;
    if (part == parts - 1)
        b->fresh = b->fresh && n <= 0;
    return 0;
}

int vp_bpcuda_part_of(const struct vp_bpcuda *b, int64_t z, int parts)
{
    const choice &c = b->c;
    const int64_t nz = b->s.n[2];
    const int K = c.kind == COLUMN || c.kind == COLUMN_TILED ? c.column.K : MATRIX_K;
    const int64_t k = c.upper || (c.Z == 2 && z >= (nz + 1) / 2) ? nz - 1 - z : z;
    int64_t piece = k / K - c.segment0;
    if (c.upper)
        piece = c.segments - 1 - piece;
    int part = 0;
    while (part < parts - 1 && piece >= (int64_t)c.segments * (part + 1) / parts)
        part++;
    return part;
}

float *vp_bpcuda_slice(struct vp_bpcuda *b, int64_t z)
{
    for (const block &k : b->c.blocks)
        if (z >= k.first && z < k.first + k.n)
            return b->vol + (k.at + z - k.first) * b->s.n[0] * b->s.n[1];
    return NULL;
}

/* Nothing has been summed yet: what is read must be zero. */
static int settle(struct vp_bpcuda *b)
{
    if (!b->fresh)
        return 0;
    b->fresh = false;
    return check(cudaMemsetAsync(b->vol, 0, b->plan.bytes_volume, b->stream), "cannot clear the volume");
}

int vp_bpcuda_read(struct vp_bpcuda *b, int64_t z, int64_t n, float *out, void *stream)
{
    if (check(cudaSetDevice(b->device), "cannot use the device") || settle(b))
        return -1;
    const int64_t S = b->s.n[0] * b->s.n[1];
    while (n > 0) {
        const float *from = vp_bpcuda_slice(b, z);
        if (!from)
            return fail("slice %lld is not in the slab", (long long)z);
        int64_t run = 1;
        while (run < n && vp_bpcuda_slice(b, z + run) == from + run * S)
            run++;
        if (check(cudaMemcpyAsync(out, from, (size_t)(run * S) * sizeof(float), cudaMemcpyDeviceToHost,
                                  stream ? (cudaStream_t)stream : b->stream),
                  "cannot read the volume"))
            return -1;
        out += run * S, z += run, n -= run;
    }
    return 0;
}

int vp_bpcuda_clear(struct vp_bpcuda *b)
{
    b->fresh = true;
    return 0;
}

int vp_bpcuda_sync(struct vp_bpcuda *b)
{
    return check(cudaStreamSynchronize(b->stream), "the device failed");
}

void vp_bpcuda_close(struct vp_bpcuda *b)
{
    if (!b)
        return;
    cudaSetDevice(b->device);
    if (b->stream)
        cudaStreamSynchronize(b->stream);
    cudaFree(b->next_tile);
    cudaFree(b->packed);
    cudaFree(b->vol);
    if (b->own_stream)
        cudaStreamDestroy(b->stream);
    delete b;
}
