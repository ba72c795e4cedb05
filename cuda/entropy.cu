/* SPDX-License-Identifier: BSD-3-Clause */
/* Entropy of a neighbourhood: kernel "entropy" of local/entropy.h.
 *
 * Overview: every sample is first replaced by its bin index. Then each thread slides a window along a row, with a
 *   private histogram: at each step every line of the window adds one sample and removes one, and the sum of t(c) over
 *   the bins is updated. The terms are integers, so the results equal the CPU's to the bit.
 * Registers: the number of samples and the sum.
 * Shared memory: the histograms of a block's THREADS_SHARED threads, up to SHARED_MOST bytes; larger ones are in global
 *   memory, for at most THREADS_GLOBAL threads. Histograms of neighbouring threads are interleaved, so that a warp has
 *   no bank conflicts.
 * Global memory: bin indices as u16, t(c) and its differences.
 * Cost: one addition and one removal for each line of the window and step; each walk of WALK voxels begins with an
 *   empty histogram and a whole window.
 * Limits: memory. */
#include "footprint.cuh"
#include "local/entropy.h"

#include <algorithm>

namespace
{

enum { WALK = 64, THREADS_SHARED = 64, SHARED_MOST = 96 << 10, THREADS_GLOBAL = 16384 };

/* Replaces samples by bin indices. */
template <class S>
__global__ void __launch_bounds__(256) bins_kernel(vp_area in, vp_area out, struct vp_entropy_params p)
{
    vp_each_voxel(in.box, [&](int64_t x, int64_t y, int64_t z) {
        *vp_at<uint16_t>(out, x, y, z) = vp_entropy_bin(&p, (double)*vp_at<S>(in, x, y, z));
    });
}

/* A thread's histogram. COUNT is u16 if a window has fewer than 65536 samples, else u32. */
template <class COUNT> struct histogram {
    COUNT *count; /* count of bin 0 */
    int stride;   /* from bin to bin */
    int bins, n;  /* bins; samples */
    int64_t sum;  /* sum of t(count) over the bins */
    const int64_t *step; /* t(c + 1) - t(c) */

    /* Adds (SIGN 1) or removes (-1) a sample. */
    template <int SIGN> __device__ __forceinline__ void count_one(int bin)
    {
        if (bin == bins)
            return; /* NaN */
        const COUNT before = count[bin * stride], after = (COUNT)(before + (COUNT)SIGN);
        count[bin * stride] = after;
        sum += SIGN * __ldg(step + (SIGN > 0 ? before : after));
        n += SIGN;
    }
};

struct walk {
    vp_area in, out;      /* bin indices, u16; entropy, f32 */
    vp_lines window;
    int bins;
    const int64_t *t, *step;
    void *global;         /* histograms in global memory, or NULL: shared memory */
    int64_t rows, pieces; /* rows of all planes; walks of a row */
};

/* Computes the walks, each by one thread. */

template <class COUNT> __global__ void __launch_bounds__(THREADS_SHARED) walk_kernel(walk w)
{
    extern __shared__ uint32_t shared[];
    const int threads = gridDim.x * blockDim.x, own = blockIdx.x * blockDim.x + threadIdx.x;
    const int64_t ny = w.out.box.hi[1] - w.out.box.lo[1], last = w.in.box.hi[0] - 1;
    histogram<COUNT> h;
    h.count = w.global ? (COUNT *)w.global + own : (COUNT *)shared + threadIdx.x;
    h.stride = w.global ? threads : blockDim.x;
    h.bins = w.bins;
    h.step = w.step;

    /* neighbouring threads have neighbouring rows, whose windows share most samples */
    for (int64_t task = own; task < w.rows * w.pieces; task += threads) {
        const int64_t row = task % w.rows, y = w.out.box.lo[1] + row % ny, z = w.out.box.lo[2] + row / ny;
        const int64_t from = w.out.box.lo[0] + task / w.rows * WALK, to = min(from + WALK, w.out.box.hi[0]);
        float *const out = vp_at<float>(w.out, from, y, z);
        h.n = 0;
        h.sum = 0;
        for (int b = 0; b < w.bins; b++)
            h.count[b * h.stride] = 0;
        for (int64_t x = from; x < to; x++) {
            for (int l = 0; l < w.window.n; l++) {
                const int4 e = w.window.span ? w.window.line<true>(l) : w.window.line<false>(l); /* dz, dy, x0, x1 */
                const int64_t sy = y + e.y, sz = z + e.x;
                if (sy < w.in.box.lo[1] || sy >= w.in.box.hi[1] || sz < w.in.box.lo[2] || sz >= w.in.box.hi[2])
                    continue;
                const uint16_t *const line = vp_at<uint16_t>(w.in, 0, sy, sz);
                if (x == from) {
                    const int64_t end = min(x + e.w, last);
                    for (int64_t i = max(x + e.z, w.in.box.lo[0]); i <= end; i++)
                        h.template count_one<1>(line[i]);
                } else {
                    if (x + e.w >= w.in.box.lo[0] && x + e.w <= last)
                        h.template count_one<1>(line[x + e.w]);
                    if (x + e.z > w.in.box.lo[0] && x + e.z - 1 <= last)
                        h.template count_one<-1>(line[x + e.z - 1]);
                }
            }
            out[x - from] = h.n ? (float)((double)(__ldg(w.t + h.n) - h.sum) / (4294967296.0 * (double)h.n))
                                : __int_as_float(0x7fc00000);
        }
    }
}

/* ---- host ---- */

constexpr auto params = vp_params<vp_entropy_params>;

bool has(const struct vp_op *op, char *why, size_t size)
{
    return vp_has_types(op->out == VP_F32 && (VP_ENTROPY_TYPES & 1u << op->in), op, why, size);
}

uint64_t table_numbers(const struct vp_entropy_params *p)
{
    return 2 * ((uint64_t)p->n + 1);
}

uint64_t table(const struct vp_op *op)
{
    const struct vp_entropy_params *p = params(op);
    return table_numbers(p) * sizeof(int64_t) + vp_spans_bytes(op);
}

void fill(const struct vp_op *op, void *to)
{
    const struct vp_entropy_params *p = params(op);
    int64_t *const t = (int64_t *)to;
    std::copy(p->t, p->t + p->n + 1, t);
    std::copy(p->step, p->step + p->n + 1, t + p->n + 1);
    vp_spans_fill(op, t + table_numbers(p));
}

size_t count_bytes(const struct vp_entropy_params *p)
{
    return p->n < 65536 ? 2 : 4;
}

size_t shared_bytes(const struct vp_entropy_params *p)
{
    return (size_t)p->bins * THREADS_SHARED * count_bytes(p);
}

enum { BINS_UNIT = 64 }; /* rows of bin indices are padded to a multiple of it */

uint64_t bins_bytes(int64_t nx, int64_t ny, int64_t nz)
{
    return (uint64_t)vp_round_up(vp_round_up(nx, BINS_UNIT) * ny * nz * (int64_t)sizeof(uint16_t), VP_ALIGN);
}

/* Returns the number of threads with histograms in global memory for `walks` walks; 0: they fit in shared memory. */
int64_t threads_global(const struct vp_entropy_params *p, int64_t walks)
{
    return shared_bytes(p) <= SHARED_MOST ? 0 : vp_min64(vp_round_up(walks, THREADS_SHARED), THREADS_GLOBAL);
}

uint64_t scratch(const struct vp_op *op, const int64_t in[3], const int64_t out[3])
{
    const struct vp_entropy_params *p = params(op);
    return bins_bytes(in[0], in[1], in[2]) +
           (uint64_t)(p->bins * threads_global(p, vp_div_up(out[0], WALK) * out[1] * out[2])) * count_bytes(p);
}

int launch(const struct vp_op *op, const struct vp_work *args, struct vp_err *err)
{
    const struct vp_entropy_params *p = params(op);
    const vp_area in = args->in[0], bins = vp_packed_part(in.box, BINS_UNIT, args->scratch);
    const struct vp_box *const i = &in.box, *const o = &args->out->box;

    if (vp_by_type(op->in, [&](auto s) {
            return vp_start_voxels(err, args, in.box, bins_kernel<decltype(s)>, in, bins, *p);
        }))
        return -1;
    walk w = {};
    w.in = bins;
    w.out = *args->out;
    w.t = (const int64_t *)args->table;
    w.step = w.t + p->n + 1;
    w.window = vp_lines_of(&p->f, op->image, w.t + table_numbers(p));
    w.bins = (int)p->bins;
    w.rows = vp_box_size(o, 1) * vp_box_size(o, 2);
    w.pieces = vp_div_up(vp_box_size(o, 0), WALK);
    const int64_t threads = threads_global(p, w.rows * w.pieces);
    if (threads)
        w.global = (char *)args->scratch + bins_bytes(vp_box_size(i, 0), vp_box_size(i, 1), vp_box_size(i, 2));
    const int64_t blocks = threads ? threads / THREADS_SHARED
                                   : vp_min64(vp_div_up(w.rows * w.pieces, THREADS_SHARED), args->queue->sms * 16);
    return vp_start(err, args->queue->stream, count_bytes(p) == 2 ? walk_kernel<uint16_t> : walk_kernel<uint32_t>,
                    dim3((unsigned)blocks), dim3(THREADS_SHARED), threads ? 0 : shared_bytes(p), w);
}

} // namespace

VP_GPU_KERNEL(entropy, has, scratch, table, fill, launch);
