/* SPDX-License-Identifier: BSD-3-Clause */
/* Histograms, and masks of samples above a threshold: kernel "threshold" of global/threshold.h. Results equal the
 * CPU's.
 *
 * Shared memory: histograms of at most SHARED bins, one for each warp if they fit.
 * Global memory: samples are read once in each pass, GROUP at a time.
 * Cost: masks run at memory bandwidth; histograms are limited by atomics of a warp on the same bin. */
#include "footprint.cuh"
#include "global/threshold.h"
#include "sample.cuh"

#include <cstddef>
#include <type_traits>

namespace
{

using vp::load_run;
using vp::run_of;
using vp::store_run;

enum { THREADS = 256, SHARED = 4096, BLOCKS = 1056, GROUP = 16 };

/* ---- masks ---- */

template <class S, class L> __device__ __forceinline__ uint8_t marked(S x, L limit, uint8_t yes, uint8_t no)
{
    return x > limit ? yes : x <= limit ? no : 0;
}

/* True if all rows of the box begin at aligned groups of `a`. */
static inline bool in_groups(const vp_area &a, const struct vp_box &box, size_t size)
{
    return (size_t)(box.lo[0] - a.box.lo[0]) * size % 16 == 0 && (size_t)a.pitch * size % 16 == 0 &&
           (size_t)a.plane * size % 16 == 0 && (uintptr_t)a.data % 16 == 0;
}

/* Sets the group of this thread: `left` samples from x on of row y. False if it has none. */
__device__ __forceinline__ bool own_group(const vp_box &b, int64_t &x, int64_t &y, int &left)
{
    x = b.lo[0] + ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) * GROUP;
    y = b.lo[1] + (int64_t)blockIdx.y * blockDim.y + threadIdx.y;
    left = (int)min(b.hi[0] - x, (int64_t)GROUP);
    return left > 0 && y < b.hi[1];
}

/* Computes masks. The limit is that of `entry`, the solved summary of a box, or p.limit if it is NULL. */
template <class S>
__global__ void __launch_bounds__(THREADS)
    mask_kernel(vp_area in, vp_area out, vp_threshold_params p, const vp_threshold_entry *entry, bool grouped)
{
    const double limit = entry ? entry->limit : p.limit;
    const uint8_t yes = p.below ? 0 : p.mark, no = p.below ? p.mark : 0;
    const bool any = limit == limit;
    const int32_t whole = any ? vp_threshold_int(limit) : 0;
    const float real = vp_threshold_float(limit);
    int64_t x, y;
    int left;
    if (!own_group(out.box, x, y, left))
        return;
    for (int64_t z = out.box.lo[2] + blockIdx.z; z < out.box.hi[2]; z += gridDim.z) {
        const run_of<S, GROUP> g = load_run<GROUP>(vp_at<S>(in, x, y, z), left, grouped);
        run_of<uint8_t, GROUP> m;
#pragma unroll
        for (int i = 0; i < GROUP; i++)
            m.v[i] = !any ? 0 : sizeof(S) == 4 ? marked((float)g.v[i], real, yes, no)
                                               : marked((int32_t)g.v[i], whole, yes, no);
        store_run<GROUP>(vp_at<uint8_t>(out, x, y, z), left, grouped, m);
    }
}

/* ---- histograms ---- */

/* Clears the histogram of a box. */
__global__ void begin_kernel(vp_threshold_entry *e, int bins, bool first)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < bins; i += gridDim.x * blockDim.x)
        e->count[i] = 0;
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        e->bytes = offsetof(vp_threshold_entry, count) + (uint64_t)bins * sizeof(uint32_t);
        e->limit = NAN;
        e->first = first;
    }
}

template <class S> __device__ __forceinline__ int bin_of(const vp_threshold_params &p, S v)
{
    if constexpr (std::is_same<S, float>::value)
        return (int)vp_threshold_bin(&p, v);
    else
        return v - vp_limits<S>::LEAST;
}

/* Adds the samples of the box to its histogram. Each warp has a private table if they fit in shared memory. Successive
 * samples of a group with the same bin take one atomic. */
template <class S>
__global__ void __launch_bounds__(THREADS)
    histogram_kernel(vp_area in, vp_box box, vp_threshold_params p, vp_threshold_entry *e, int tables, bool grouped)
{
    __shared__ uint32_t own[SHARED];
    const int bins = (int)p.bins;
    uint32_t *const table = tables ? own + threadIdx.x / 32 % tables * bins : e->count;
    const int64_t nx = box.hi[0] - box.lo[0], ny = box.hi[1] - box.lo[1], rows = ny * (box.hi[2] - box.lo[2]);
    const int64_t groups = (nx + GROUP - 1) / GROUP, all = groups * rows, step = (int64_t)gridDim.x * THREADS;

    for (int i = threadIdx.x; i < tables * bins; i += THREADS)
        own[i] = 0;
    __syncthreads();
    for (int64_t k = (int64_t)blockIdx.x * THREADS + threadIdx.x; k < all; k += step) {
        const int64_t r = all <= UINT32_MAX ? (int64_t)((uint32_t)k / (uint32_t)groups) : k / groups;
        const int64_t x = (k - r * groups) * GROUP, y = rows <= UINT32_MAX ? (int64_t)((uint32_t)r % (uint32_t)ny)
                                                                          : r % ny;
        const int left = (int)min(nx - x, (int64_t)GROUP);
        const S *const from = vp_at<S>(in, box.lo[0] + x, box.lo[1] + y, box.lo[2] + (r - y) / ny);
        const run_of<S, GROUP> g = load_run<GROUP>(from, left, grouped);
        int before = bins, count = 0;
#pragma unroll
        for (int i = 0; i < GROUP; i++) {
            const int bin = i < left ? bin_of(p, g.v[i]) : bins;
            if (bin == before) {
                count++;
                continue;
            }
            if (before < bins)
                atomicAdd(table + before, (uint32_t)count);
            before = bin;
            count = 1;
        }
        if (before < bins)
            atomicAdd(table + before, (uint32_t)count);
    }
    __syncthreads();
    for (int i = threadIdx.x; tables && i < bins; i += THREADS) {
        uint32_t sum = 0;
        for (int t = 0; t < tables; t++)
            sum += own[t * bins + i];
        if (sum)
            atomicAdd(&e->count[i], sum);
    }
}

/* ---- host ---- */

constexpr auto params = vp_params<vp_threshold_params>;

bool has(const struct vp_op *op, char *why, size_t size)
{
    return vp_has_types(VP_THRESHOLD_TYPES & 1u << op->in, op, why, size);
}

template <class S> int run(const struct vp_op *op, const struct vp_work *args, struct vp_err *err)
{
    const vp_threshold_params *p = params(op);
    const struct vp_box &box = args->out->box;
    vp_threshold_entry *const e = (vp_threshold_entry *)args->state;
    cudaStream_t stream = args->queue->stream;

    const bool grouped = in_groups(args->in[0], box, sizeof(S)) &&
                         (args->visit == VP_SUMMARY || in_groups(*args->out, box, 1));
    if (args->visit == VP_SUMMARY) {
        const int64_t groups = vp_div_up(vp_box_size(&box, 0), GROUP) * vp_box_size(&box, 1) * vp_box_size(&box, 2);
        const bool first = !box.lo[0] && !box.lo[1] && !box.lo[2];
        const unsigned blocks = (unsigned)vp_min64(vp_div_up(groups, THREADS), BLOCKS);
        const int tables = p->bins > SHARED ? 0 : (int)vp_min64(SHARED / p->bins, THREADS / 32);
        if (vp_start(err, stream, begin_kernel, dim3(64), dim3(THREADS), 0, e, (int)p->bins, first))
            return -1;
        return vp_start(err, stream, histogram_kernel<S>, dim3(blocks), dim3(THREADS), 0, args->in[0], box, *p, e,
                        tables, grouped);
    }
    const dim3 threads = vp_threads(box, 32), grid = vp_grid(box, threads.x * GROUP, threads.y, 1);
    return vp_start(err, stream, mask_kernel<S>, grid, threads, 0, args->in[0], *args->out, *p,
                    (const vp_threshold_entry *)(args->visit == VP_FINISH ? e : nullptr), grouped);
}

int launch(const struct vp_op *op, const struct vp_work *args, struct vp_err *err)
{
    return vp_by_type(op->in, [=](auto s) { return run<decltype(s)>(op, args, err); });
}

uint64_t state(const struct vp_op *op, const int64_t[3])
{
    return params(op)->method == VP_AT ? 0 : offsetof(vp_threshold_entry, count)
                                                 + (uint64_t)params(op)->bins * sizeof(uint32_t);
}

} // namespace

VP_GPU_KERNEL(threshold, has, nullptr, nullptr, nullptr, launch, state);
