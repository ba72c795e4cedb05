/* SPDX-License-Identifier: BSD-3-Clause */
/* Histograms, and masks of what is above a threshold: kernel "threshold" of image/threshold.h. The CPU's bits.
 *
 * Registers: few. Shared memory: the histogram where it has at most SHARED bins. Global: samples are read once a visit.
 * Cost: masks at the speed of the memory; histograms by what threads wait for each other at bins that they share: those
 * of a warp add what they have in common. */
#include "footprint.cuh"
#include "image/threshold.h"

#include <cstddef>
#include <cstdio>

namespace
{

enum { THREADS = 256, SHARED = 2048, BLOCKS = 1056 };

/* ---- masks ---- */

template <class S, class L> __device__ __forceinline__ uint8_t marked(S x, L limit, uint8_t yes, uint8_t no)
{
    return x > limit ? yes : x <= limit ? no : 0;
}

/* `entry`: of a box that is solved; else NULL, and the limit is p.limit. */
template <class S>
__global__ void __launch_bounds__(THREADS)
    mask_kernel(vp_area in, vp_area out, vp_threshold_params p, const vp_threshold_entry *entry)
{
    const double limit = entry ? entry->limit : p.limit;
    const uint8_t yes = p.below ? 0 : p.mark, no = p.below ? p.mark : 0;
    const bool any = limit == limit;
    const int32_t whole = any ? vp_threshold_int(limit) : 0;
    const float real = vp_threshold_float(limit);
    int64_t x, y;
    if (!vp_own_column(out.box, x, y))
        return;
    for (int64_t z = out.box.lo[2] + blockIdx.z; z < out.box.hi[2]; z += gridDim.z) {
        const S v = *vp_at<S>(in, x, y, z);
        *vp_at<uint8_t>(out, x, y, z) = !any ? 0 : sizeof(S) == 4 ? marked((float)v, real, yes, no)
                                                                  : marked((int32_t)v, whole, yes, no);
    }
}

/* ---- histograms ---- */

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

__device__ __forceinline__ int bin_of(const vp_threshold_params &p, float v)
{
    return (int)vp_threshold_bin(&p, v);
}
__device__ __forceinline__ int bin_of(const vp_threshold_params &, uint8_t v)
{
    return v;
}
__device__ __forceinline__ int bin_of(const vp_threshold_params &, uint16_t v)
{
    return v;
}
__device__ __forceinline__ int bin_of(const vp_threshold_params &, int16_t v)
{
    return v + 32768;
}

/* One for each of the threads that have the same bin, by one of them. */
__device__ __forceinline__ void count(uint32_t *table, int bin, bool is)
{
    const unsigned there = __ballot_sync(~0u, is);
    if (!is)
        return;
    const unsigned same = __match_any_sync(there, bin);
    if (__ffs(same) - 1 == (int)(threadIdx.x % 32))
        atomicAdd(table + bin, (uint32_t)__popc(same));
}

/* Rows of the box in turn, each by a whole thread block. */
template <class S>
__global__ void __launch_bounds__(THREADS)
    histogram_kernel(vp_area in, vp_box box, vp_threshold_params p, vp_threshold_entry *e, bool shared)
{
    __shared__ uint32_t own[SHARED];
    uint32_t *const table = shared ? own : e->count;
    const int64_t nx = box.hi[0] - box.lo[0], ny = box.hi[1] - box.lo[1], rows = ny * (box.hi[2] - box.lo[2]);

    for (int i = threadIdx.x; shared && i < p.bins; i += THREADS)
        own[i] = 0;
    __syncthreads();
    for (int64_t r = blockIdx.x; r < rows; r += gridDim.x) {
        const S *const row = vp_at<S>(in, box.lo[0], box.lo[1] + r % ny, box.lo[2] + r / ny);
        for (int64_t x = threadIdx.x; x - threadIdx.x < nx; x += THREADS) {
            const int bin = x < nx ? bin_of(p, row[x]) : (int)p.bins;
            count(table, bin, bin < p.bins);
        }
    }
    __syncthreads();
    for (int i = threadIdx.x; shared && i < p.bins; i += THREADS)
        if (own[i])
            atomicAdd(&e->count[i], own[i]);
}

/* ---- host ---- */

constexpr auto params = vp_params<vp_threshold_params>;

bool has(const struct vp_op *op, char *why, size_t size)
{
    if (VP_THRESHOLD_TYPES & 1u << op->in)
        return true;
    snprintf(why, size, "no kernel for %s", vp_type_name(op->in));
    return false;
}

template <class S> int run(const struct vp_op *op, const struct vp_work *args, struct vp_err *err)
{
    const vp_threshold_params *p = params(op);
    const struct vp_box &box = args->out->box;
    vp_threshold_entry *const e = (vp_threshold_entry *)args->state;
    cudaStream_t stream = args->queue->stream;

    if (args->visit == VP_SUMMARY) {
        const bool first = !box.lo[0] && !box.lo[1] && !box.lo[2];
        const unsigned rows = (unsigned)vp_min64(vp_box_size(&box, 1) * vp_box_size(&box, 2), BLOCKS);
        if (vp_start(err, stream, begin_kernel, dim3(64), dim3(THREADS), 0, e, (int)p->bins, first))
            return -1;
        return vp_start(err, stream, histogram_kernel<S>, dim3(rows), dim3(THREADS), 0, args->in[0], box, *p, e,
                        p->bins <= SHARED);
    }
    const vp_grid_of whole(box);
    return vp_start(err, stream, mask_kernel<S>, whole.grid, whole.threads, 0, args->in[0], *args->out, *p,
                    (const vp_threshold_entry *)(args->visit == VP_FINISH ? e : nullptr));
}

int launch(const struct vp_op *op, const struct vp_work *args, struct vp_err *err)
{
    return vp_by_type(op->in, [=](auto s) { return run<decltype(s)>(op, args, err); });
}

uint64_t state(const struct vp_op *op, const int64_t out[3])
{
    (void)out;
    return params(op)->method == VP_AT ? 0 : offsetof(vp_threshold_entry, count)
                                                 + (uint64_t)params(op)->bins * sizeof(uint32_t);
}

} // namespace

const struct vp_kernel vp_gpu_threshold = {"threshold", has, nullptr, nullptr, nullptr, launch, state};
