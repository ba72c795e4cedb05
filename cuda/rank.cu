/* SPDX-License-Identifier: BSD-3-Clause */
/* Median and percentiles: kernel "rank" of local/rank.h. Selects order-preserving integer keys of the samples, so the
 * results equal the CPU's to the bit.
 *
 * The median of 3 x 3 x 3 and 3 x 3 is a sorting network (rank_median.cuh), that of 5 x 5 to 11 x 11, too
 * (rank_network.cuh). Other windows of 25 samples and more go by the sorted samples of a tile (rank_order.cuh). Smaller
 * ones, and those too large for that, are a pivot search: the number of keys not above the pivot, the largest of these
 * and the smallest of the others bound the result, and often determine it. A thread walks along a line of voxels, on
 * which the result changes little: the previous result is the first pivot, and the next pivots are extrapolated by an
 * estimate of the gap between neighbouring keys. */
#include "rank_order.cuh"

#include <algorithm>
#include <type_traits>

namespace
{

/* ---- any rank of any window ---- */

enum { ABSENT = 0x7fffffff }; /* key of a sample that does not exist, above all; NaN has the same */

/* A window in the keys of a thread block, in shared memory. */
struct key_window {
    const int *key;   /* corner of the window (of a ball: its centre) */
    int pitch, plane;
    int3 reach;
    const int4 *span; /* balls and sets only */
    int spans;
};

/* Statistics of the keys of a window about a pivot. */
struct pivot_count {
    int count; /* keys not above the pivot */
    int below; /* the largest of these */
    int above; /* the smallest key above the pivot */

    __device__ __forceinline__ void add(int k, int pivot)
    {
        const bool is = k <= pivot;
        count += is;
        below = is ? max(below, k) : below;
        above = is ? above : min(above, k);
    }
};

/* Returns the statistics of a window. W: its width 2 reach.x + 1, 0: any width, -1: a ball or a
 * set. */
template <int W> __device__ __forceinline__ pivot_count count_about(const key_window &w, int pivot)
{
    pivot_count f = {0, -0x7fffffff - 1, ABSENT};
    if constexpr (W < 0) {
        for (int l = 0; l < w.spans; l++) {
            const int4 e = __ldg(w.span + l); /* dz, dy, x0, x1 */
            const int *const k = w.key + e.x * w.plane + e.y * w.pitch;
            for (int i = e.z; i <= e.w; i++)
                f.add(k[i], pivot);
        }
    } else {
        for (int z = 0; z <= 2 * w.reach.z; z++) {
            const int *k = w.key + z * w.plane;
#pragma unroll(W > 0 ? 3 : 1)
            for (int y = 0; y <= 2 * w.reach.y; y++, k += w.pitch) {
                if constexpr (W > 0) {
#pragma unroll
                    for (int i = 0; i < W; i++)
                        f.add(k[i], pivot);
                } else {
#pragma unroll 4
                    for (int i = 0; i <= 2 * w.reach.x; i++)
                        f.add(k[i], pivot);
                }
            }
        }
    }
    return f;
}

/* State of the search that a thread carries from one voxel to the next. */
struct search_state {
    int pivot; /* the last result */
    float gap; /* estimated distance of keys with neighbouring ranks, 0: unknown */
};

/* Returns a + b, saturated. */
__device__ __forceinline__ int moved(int a, float b)
{
    const float most = 2147483520.f;
    return (int)min(max((int64_t)a + (int64_t)min(max(b, -2 * most), 2 * most), (int64_t)(-0x7fffffff - 1)),
                    (int64_t)0x7fffffff);
}

/* Returns the key at rank `place` of the window. It lies in [lo, hi]; once known, lo has rank `less` and hi rank
 * `more` - 1. A pivot is the expected key; every fourth is the middle of [lo, hi], which bounds the number of steps. */
template <int W> __device__ __forceinline__ int search(const key_window &w, int place, search_state &m)
{
    int lo = -0x7fffffff - 1, hi = ABSENT, less = -1, more = -1, pivot = m.pivot;

    for (int turn = 1; lo < hi; turn++) {
        const pivot_count f = count_about<W>(w, pivot);
        const bool down = f.count > place;
        if (down) {
            hi = f.below;
            more = f.count;
        } else {
            lo = f.above;
            less = f.count;
        }
        if (f.count == place || f.count == place + 1) {
            lo = down ? hi : lo;
            break;
        }
        if (less >= 0 && more >= 0)
            m.gap = (float)((unsigned)hi - (unsigned)lo) / (float)max(more - less - 1, 1);
        else if (turn > 1)
            m.gap *= 2; /* the step was too short */
        if (turn % 4 == 0 || m.gap == 0)
            pivot = lo + (int)(((unsigned)hi - (unsigned)lo) >> 1);
        else
            pivot = down ? moved(hi, (float)(place - more + 1) * m.gap) : moved(lo, (float)(place - less) * m.gap);
        pivot = max(min(pivot, hi - 1), lo);
    }
    m.pivot = lo;
    return lo;
}

enum { TILE_X = 32, TILE_Y = 8 };

struct any_job {
    vp_area in, out;
    struct vp_box box;
    int3 reach;
    const int4 *span;
    int spans;
    int64_t count;      /* samples of a complete window */
    int64_t millionths; /* percentile in ppm */
    int64_t image[3];
    int walk;           /* voxels of a thread */
    bool flat;          /* walks go along y, else along z */
};

/* Returns the number of samples of the window that exist. */
__device__ int64_t samples_at(const any_job &j, bool ball, int64_t x, int64_t y, int64_t z)
{
    if (x >= j.reach.x && x + j.reach.x < j.image[0] && y >= j.reach.y && y + j.reach.y < j.image[1] &&
        z >= j.reach.z && z + j.reach.z < j.image[2])
        return j.count;
    if (!ball)
        return (min(x + j.reach.x, j.image[0] - 1) - max(x - j.reach.x, (int64_t)0) + 1) *
               (min(y + j.reach.y, j.image[1] - 1) - max(y - j.reach.y, (int64_t)0) + 1) *
               (min(z + j.reach.z, j.image[2] - 1) - max(z - j.reach.z, (int64_t)0) + 1);
    int64_t n = 0;
    for (int l = 0; l < j.spans; l++) {
        const int4 e = __ldg(j.span + l);
        if (z + e.x >= 0 && z + e.x < j.image[2] && y + e.y >= 0 && y + e.y < j.image[1])
            n += max(min(x + e.w, j.image[0] - 1) - max(x + e.z, (int64_t)0) + 1, (int64_t)0);
    }
    return n;
}

/* Mapping: a thread block has TILE_X x TILE_Y walks.
 * Registers: the state of the search.
 * Shared memory: the keys of all samples in the windows of these walks.
 * Cost: a count, a maximum and a minimum for every sample of the window and pivot.
 * Limits: shared memory. */
template <class S, int W> __global__ void __launch_bounds__(TILE_X *TILE_Y) tile_kernel(any_job j)
{
    extern __shared__ int tile[];
    const int rows = j.flat ? TILE_Y * j.walk : TILE_Y, depth = j.flat ? 1 : j.walk;
    const int pitch = TILE_X + 2 * j.reach.x, ny = rows + 2 * j.reach.y, nz = depth + 2 * j.reach.z;
    const int64_t x0 = j.box.lo[0] + (int64_t)blockIdx.x * TILE_X, y0 = j.box.lo[1] + (int64_t)blockIdx.y * rows;
    const int tx = threadIdx.x, ty = threadIdx.y;
    key_window w;
    search_state m = {0, 0};

    w.pitch = pitch;
    w.plane = pitch * ny;
    w.reach = j.reach;
    w.span = j.span;
    w.spans = j.spans;
    for (int64_t turn = blockIdx.z; j.box.lo[2] + turn * depth < j.box.hi[2]; turn += gridDim.z) {
        const int64_t z0 = j.box.lo[2] + turn * depth;
        __syncthreads();
        for (int r = ty; r < ny * nz; r += TILE_Y) {
            const int64_t y = y0 - j.reach.y + r % ny, z = z0 - j.reach.z + r / ny;
            const bool there = y >= j.in.box.lo[1] && y < j.in.box.hi[1] && z >= j.in.box.lo[2] && z < j.in.box.hi[2];
            for (int i = tx; i < pitch; i += TILE_X) {
                const int64_t x = x0 - j.reach.x + i;
                tile[r * pitch + i] =
                    there && x >= j.in.box.lo[0] && x < j.in.box.hi[0] ? key(*vp_at<S>(j.in, x, y, z)) : (int)ABSENT;
            }
        }
        __syncthreads();
        for (int i = 0; i < j.walk; i++) {
            const int row = j.flat ? ty * j.walk + i : ty, deep = j.flat ? 0 : i;
            const int64_t x = x0 + tx, y = y0 + row, z = z0 + deep;
            if (x >= j.box.hi[0] || y >= j.box.hi[1] || z >= j.box.hi[2])
                continue;
            w.key = tile + deep * w.plane + row * pitch + tx;
            if (W < 0)
                w.key += j.reach.z * w.plane + j.reach.y * pitch + j.reach.x;
            const int place = (int)vp_rank_index(j.millionths, samples_at(j, W < 0, x, y, z));
            const int found = search<W>(w, place, m);
            *vp_at<S>(j.out, x, y, z) = W < 0 && found == ABSENT ? nothing<S>() : keys<S>::value(found);
        }
    }
}

/* Windows too large for shared memory, and images with too many rows: bisection over the bits of the key, a thread for
 * each voxel, samples from global memory. Cost: a comparison for every sample of the window and bit of a key. */
template <class S, bool BALL> __global__ void __launch_bounds__(256) any_kernel(any_job j)
{
    const vp_lines lines = {j.span, j.reach, BALL ? j.spans : (2 * j.reach.y + 1) * (2 * j.reach.z + 1)};
    vp_each_voxel(j.box, [&](int64_t x, int64_t y, int64_t z) {
        const int64_t n = samples_at(j, BALL, x, y, z), place = vp_rank_index(j.millionths, n);
        if (BALL && n == 0) {
            *vp_at<S>(j.out, x, y, z) = nothing<S>();
            return;
        }
        int lo = keys<S>::LEAST, hi = keys<S>::MOST;
        while (lo < hi) {
            const int middle = lo + (int)(((unsigned)hi - (unsigned)lo) >> 1);
            int64_t below = 0;
            lines.each<S, BALL>(j.in, x, y, z, [&](const S *row, int n) {
                int here = 0;
#pragma unroll 8
                for (int i = 0; i < n; i++)
                    here += key(row[i]) <= middle;
                below += here;
            });
            if (below > place)
                hi = middle;
            else
                lo = middle + 1;
        }
        *vp_at<S>(j.out, x, y, z) = keys<S>::value(lo);
    });
}

/* ---- host ---- */

constexpr auto params = vp_params<vp_rank_params>;

bool has(const struct vp_op *op, char *why, size_t size)
{
    return vp_has_types(op->in == op->out && (VP_RANK_TYPES & 1u << op->in), op, why, size);
}

int64_t tile_rows(const any_job &j)
{
    return TILE_Y * (j.flat ? j.walk : 1);
}

template <class S, int W> int tiles(const any_job &j, size_t shared, const struct vp_work *args, struct vp_err *err)
{
    const dim3 grid = vp_grid(j.box, TILE_X, tile_rows(j), j.flat ? 1 : j.walk);
    return vp_start(err, args->queue->stream, tile_kernel<S, W>, grid, dim3(TILE_X, TILE_Y), shared, j);
}

/* Returns the bytes of shared memory for walks of `walk` voxels. */
size_t tile_bytes(const any_job &j, int walk)
{
    const double bytes = sizeof(int) * (TILE_X + 2. * j.reach.x) * (TILE_Y * (j.flat ? walk : 1) + 2. * j.reach.y) *
                         ((j.flat ? 1 : walk) + 2. * j.reach.z);
    return bytes < 1 << 30 ? (size_t)bytes : (size_t)1 << 30;
}

template <class S> int any(const struct vp_op *op, const struct vp_work *args, struct vp_err *err)
{
    const struct vp_rank_params *p = params(op);
    const vp_lines w = vp_lines_of(&p->f, op->image, args->table); /* the tile holds a ball that is not cut */
    any_job j = {};

    j.in = args->in[0];
    j.out = *args->out;
    j.box = args->out->box;
    j.reach = w.reach;
    j.span = w.span;
    j.spans = (int)p->f.spans;
    j.count = p->f.count;
    j.millionths = p->millionths;
    std::copy(op->image, op->image + 3, j.image);
    j.flat = j.reach.z == 0;
    /* long walks re-read less of the halo, short ones allow more resident thread blocks */
    const size_t most = vp_shared_most();
    j.walk = 8;
    while (j.walk > 1 && tile_bytes(j, j.walk) > most / 5)
        j.walk /= 2;
    const size_t shared = tile_bytes(j, j.walk);
    if (shared > most || !vp_grid_holds(j.box, tile_rows(j)))
        return vp_start_voxels(err, args, j.box, j.span ? any_kernel<S, true> : any_kernel<S, false>, j);
    return j.span           ? tiles<S, -1>(j, shared, args, err)
           : j.reach.x == 1 ? tiles<S, 3>(j, shared, args, err)
           : j.reach.x == 2 ? tiles<S, 5>(j, shared, args, err)
           : j.reach.x == 3 ? tiles<S, 7>(j, shared, args, err)
                            : tiles<S, 0>(j, shared, args, err);
}

/* ---- networks ---- */

/* True if the median of this box has a network. */
template <class S> bool has_network(const struct vp_op *op, const struct vp_box &box)
{
    const struct vp_footprint &f = params(op)->f;
    const int rows = network_block_rows(sizeof(S) < 4);
    const int64_t r = f.reach[0];
    return f.shape == VP_BOX && params(op)->millionths == 50000000 && r >= 2 && r <= 5 && f.reach[1] == r &&
           f.reach[2] == 0 && op->image[0] > 2 * r && op->image[1] >= rows + 2 * r && vp_grid_holds(box, rows);
}

template <class S> int network(const struct vp_op *op, const struct vp_work *args, struct vp_err *err)
{
    using V = std::conditional_t<sizeof(S) == 4, int, unsigned>;
    const network_job j = {args->in[0], *args->out, args->out->box, {op->image[0], op->image[1]}, op->in};
    const int64_t r = params(op)->f.reach[0];
    return vp_start(err, args->queue->stream, r == 2   ? network_kernel<V, 5>
                                              : r == 3 ? network_kernel<V, 7>
                                              : r == 4 ? network_kernel<V, 9>
                                                       : network_kernel<V, 11>,
                    vp_grid(j.box, 32, network_block_rows(sizeof(S) < 4), 1), dim3(32, NETWORK_WARPS), 0, j);
}

/* ---- order ---- */

/* Parts a ball or a set by its intervals along x. False if there are too many. */
bool order_part(const struct vp_footprint &f, order_parts *parts)
{
    parts->n = 0;
    for (int64_t i = 0; i < f.spans; i++) {
        const struct vp_span &s = f.span[i];
        int p = 0;
        while (p < parts->n && (parts->span[p].x != s.x0 || parts->span[p].y != s.x1))
            p++;
        if (p == ORDER_PARTS)
            return false;
        parts->span[p] = make_int2(s.x0, s.x1);
        parts->n = std::max(parts->n, p + 1);
    }
    return true;
}

/* True if the rank of this ball or set can go by order; fills *parts. */
bool order_takes(const struct vp_footprint &f, order_parts *parts)
{
    return f.reach[1] <= ORDER_REACH && f.reach[2] <= 255 && order_part(f, parts);
}

/* The table: the spans, and then order_job's dy. */
uint64_t table_bytes(const struct vp_op *op)
{
    const struct vp_footprint &f = params(op)->f;
    order_parts parts;
    const bool takes = f.shape != VP_BOX && order_takes(f, &parts);
    return vp_spans_bytes(op) + (takes ? (uint64_t)parts.n * (2 * f.reach[2] + 1) * sizeof(uint64_t) : 0);
}

void table_fill(const struct vp_op *op, void *table)
{
    const struct vp_footprint &f = params(op)->f;
    uint64_t *const dy = (uint64_t *)((char *)table + vp_spans_bytes(op));
    order_parts parts;

    vp_spans_fill(op, table);
    if (f.shape == VP_BOX || !order_takes(f, &parts))
        return;
    std::fill(dy, dy + parts.n * (2 * f.reach[2] + 1), 0);
    for (int64_t i = 0; i < f.spans; i++) {
        const struct vp_span &s = f.span[i];
        int p = 0;
        while (parts.span[p].x != s.x0 || parts.span[p].y != s.x1)
            p++;
        dy[p * (2 * f.reach[2] + 1) + f.reach[2] + s.dz] |= (uint64_t)1 << (63 - f.reach[1] - s.dy);
    }
}

/* True if the order is faster than the pivot search, as measured on an H100. */
template <class S> bool order_pays(const struct vp_footprint &f, int parts)
{
    const int volume = sizeof(S) == 4 ? 60 : 25;
    return f.count >= (f.shape == VP_BOX ? 25 : f.reach[2] == 0 ? 8 + 9 * parts : 20 + volume * parts);
}

/* Fills *j; true if the rank of this window has a kernel by order. */
template <class S> bool has_order(const struct vp_op *op, const struct vp_work *args, order_job *j)
{
    const struct vp_rank_params *p = params(op);
    const bool box = p->f.shape == VP_BOX;
    const size_t most = vp_shared_most() - sizeof(unsigned) * ORDER_WARPS;

    *j = {};
    j->in = args->in[0];
    j->out = *args->out;
    j->box = args->out->box;
    j->millionths = p->millionths;
    j->place = (int)vp_rank_index(p->millionths, p->f.count);
    std::copy(op->image, op->image + 3, j->image);
    j->lines = vp_lines_of(&p->f, op->image, args->table);
    j->reach = j->lines.reach;
    j->dy = (const uint64_t *)((const char *)args->table + vp_spans_bytes(op));
    j->ty = j->reach.z > 0 ? 8 : 32;
    j->tz = 32 / j->ty;
    j->parts.n = 1;
    if (!(box || order_takes(p->f, &j->parts)) || !vp_grid_holds(j->box, j->ty))
        return false;
    const double n = (32 + 2. * j->reach.x) * (j->ty + 2. * j->reach.y) * (j->tz + 2. * j->reach.z);
    if (n > most)
        return false;
    j->samples = (int)vp_round_up((int64_t)n, ORDER_UNIT);
    j->words = box ? j->samples / 32 : j->parts.n <= 3 ? 32 : j->parts.n <= 7 ? 16 : 8;
    if (order_bytes<S>(j->samples, j->words, j->parts.n) > most / 3)
        j->words = std::min(j->words, 32);
    return order_bytes<S>(j->samples, j->words, j->parts.n) <= most && order_pays<S>(p->f, j->parts.n);
}

template <class S> int order(const order_job &j, const struct vp_work *args, struct vp_err *err)
{
    return vp_start(err, args->queue->stream, j.lines.span ? order_kernel<S, true> : order_kernel<S, false>,
                    vp_grid(j.box, 32, j.ty, j.tz), dim3(32, ORDER_WARPS),
                    order_bytes<S>(j.samples, j.words, j.parts.n), j);
}

/* Returns the voxels of `rest` at least reach[] away from every edge of the image; faces[] receives the others. */
struct vp_box split(const int64_t image[3], const int64_t reach[3], struct vp_box rest, struct vp_box faces[6])
{
    for (int a = 2; a >= 0; a--) {
        struct vp_box low = rest, high = rest;
        low.hi[a] = vp_min64(vp_max64(reach[a], rest.lo[a]), rest.hi[a]);
        high.lo[a] = vp_max64(vp_min64(image[a] - reach[a], rest.hi[a]), low.hi[a]);
        rest.lo[a] = low.hi[a];
        rest.hi[a] = high.lo[a];
        faces[2 * a] = low;
        faces[2 * a + 1] = high;
    }
    return rest;
}

template <class S> int run(const struct vp_op *op, const struct vp_work *args, struct vp_err *err)
{
    const struct vp_footprint *f = &params(op)->f;
    const int64_t millionths = params(op)->millionths;
    const bool plane = f->reach[2] == 0;
    faces edge;
    order_job sorted;
    int64_t n = 0;

    if (has_network<S>(op, args->out->box))
        return network<S>(op, args, err);
    if (f->shape != VP_BOX || millionths != 50000000 || f->reach[0] != 1 || f->reach[1] != 1 || f->reach[2] > 1
        || !vp_grid_holds(args->out->box, plane ? MEDIAN_ROWS * MEDIAN_PLANES : (int)MEDIAN_ROWS))
        return has_order<S>(op, args, &sorted) ? order<S>(sorted, args, err) : any<S>(op, args, err);
    struct vp_box inner = split(op->image, f->reach, args->out->box, edge.box);
    for (int i = 0; i < 6; i++)
        edge.end[i] = n += vp_box_voxels(edge.box[i]);
    if (n && vp_start(err, args->queue->stream, plane ? median_edge_kernel<S, true> : median_edge_kernel<S, false>,
                      dim3((unsigned)vp_div_up(n, 128)), dim3(128), 0, args->in[0], *args->out, edge, millionths))
        return -1;
    if (vp_box_voxels(inner) == 0)
        return 0;
    const dim3 threads(32, MEDIAN_PLANES);
    /* several launches along z: a grid has at most 65535 planes */
    const int64_t end = inner.hi[2], turn = plane ? 65535 : 65535 * MEDIAN_PLANES;
    for (; inner.lo[2] < end; inner.lo[2] += turn) {
        inner.hi[2] = vp_min64(end, inner.lo[2] + turn);
        const dim3 blocks = plane ? vp_grid(inner, MEDIAN_LANES, MEDIAN_ROWS * MEDIAN_PLANES, 1)
                                  : vp_grid(inner, MEDIAN_LANES, MEDIAN_ROWS, MEDIAN_PLANES);
        if (vp_start(err, args->queue->stream, plane ? median9_kernel<S> : median27_kernel<S>, blocks, threads, 0,
                     args->in[0], *args->out, inner))
            return -1;
    }
    return 0;
}

int launch(const struct vp_op *op, const struct vp_work *args, struct vp_err *err)
{
    return vp_by_type(op->in, [=](auto s) { return run<decltype(s)>(op, args, err); });
}

} // namespace

VP_GPU_KERNEL(rank, has, NULL, table_bytes, table_fill, launch);
