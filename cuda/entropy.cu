/* SPDX-License-Identifier: BSD-3-Clause */
/* Entropy of a neighbourhood: kernel "entropy" of local/entropy.h.
 *
 * First every sample becomes the number of its bin. Then a thread walks along a row with a histogram of its own: at
 * each step every line of the window gains one sample and loses one, and the sum of t(c) over the bins, being integers,
 * follows exactly, so the result is the CPU's to the bit. Histograms of neighbouring threads are interleaved: the
 * threads of a warp never meet in a bank of shared memory.
 *
 * Registers: samples in the histogram and the sum. Shared memory: the histograms of a block's THREADS_SHARED threads,
 * up to SHARED_MOST; larger ones lie in global memory, for THREADS_GLOBAL threads at most. Global: bins as u16, t(c)
 * and its steps.
 * Cost: a step gives a line of the window one addition and one removal, a walk of WALK voxels begins with a whole
 * window and an empty histogram. Limits: memory. */
#include "footprint.cuh"
#include "local/entropy.h"

#include <cstdio>

namespace
{

enum { WALK = 64, THREADS_SHARED = 64, SHARED_MOST = 96 << 10, THREADS_GLOBAL = 16384 };

template <class S>
__global__ void __launch_bounds__(256) bins_kernel(vp_area in, vp_area out, struct vp_entropy_params p)
{
    int64_t x, y;
    if (!vp_own_column(in.box, x, y))
        return;
    for (int64_t z = in.box.lo[2] + blockIdx.z; z < in.box.hi[2]; z += gridDim.z)
        *vp_at<uint16_t>(out, x, y, z) = vp_entropy_bin(&p, (double)*vp_at<S>(in, x, y, z));
}

/* COUNT: u16 where a window has fewer than 65536 samples. */
template <class COUNT> struct histogram {
    COUNT *count; /* of bin 0 */
    int stride;   /* from bin to bin */
    int bins, n;  /* samples in it */
    int64_t sum;  /* of t(c) */
    const int64_t *step;

    __device__ __forceinline__ void add(int bin)
    {
        if (bin == bins)
            return; /* NaN */
        const COUNT c = count[bin * stride];
        count[bin * stride] = (COUNT)(c + 1);
        sum += __ldg(step + c);
        n++;
    }
    __device__ __forceinline__ void remove(int bin)
    {
        if (bin == bins)
            return;
        const COUNT c = (COUNT)(count[bin * stride] - 1);
        count[bin * stride] = c;
        sum -= __ldg(step + c);
        n--;
    }
};

struct walk {
    vp_area in, out; /* bins; f32 */
    int3 reach;
    const int4 *span; /* NULL: a box */
    int spans;
    int bins;
    const int64_t *t, *step;
    void *global;         /* histograms, or NULL: shared memory */
    int64_t rows, pieces; /* y and z together; walks along x */
};

template <class COUNT> __global__ void __launch_bounds__(THREADS_SHARED) walk_kernel(walk w)
{
    extern __shared__ uint32_t shared[];
    const int threads = gridDim.x * blockDim.x, own = blockIdx.x * blockDim.x + threadIdx.x;
    const int64_t ny = w.out.box.hi[1] - w.out.box.lo[1], last = w.in.box.hi[0] - 1;
    const int lines = w.span ? w.spans : (2 * w.reach.y + 1) * (2 * w.reach.z + 1);
    histogram<COUNT> h;
    h.count = w.global ? (COUNT *)w.global + own : (COUNT *)shared + threadIdx.x;
    h.stride = w.global ? threads : blockDim.x;
    h.bins = w.bins;
    h.step = w.step;

    /* neighbouring threads take neighbouring rows, whose windows share most samples */
    for (int64_t task = own; task < w.rows * w.pieces; task += threads) {
        const int64_t row = task % w.rows, y = w.out.box.lo[1] + row % ny, z = w.out.box.lo[2] + row / ny;
        const int64_t from = w.out.box.lo[0] + task / w.rows * WALK, to = min(from + WALK, w.out.box.hi[0]);
        float *const out = vp_at<float>(w.out, from, y, z);
        h.n = 0;
        h.sum = 0;
        for (int b = 0; b < w.bins; b++)
            h.count[b * h.stride] = 0;
        for (int64_t x = from; x < to; x++) {
            for (int l = 0; l < lines; l++) {
                const int rows = 2 * w.reach.y + 1;
                const int4 e =
                    w.span ? w.span[l] : make_int4(l / rows - w.reach.z, l % rows - w.reach.y, -w.reach.x, w.reach.x);
                const int64_t sy = y + e.y, sz = z + e.x;
                if (sy < w.in.box.lo[1] || sy >= w.in.box.hi[1] || sz < w.in.box.lo[2] || sz >= w.in.box.hi[2])
                    continue;
                const uint16_t *const line = vp_at<uint16_t>(w.in, 0, sy, sz);
                if (x == from) {
                    const int64_t end = min(x + e.w, last);
                    for (int64_t i = max(x + e.z, w.in.box.lo[0]); i <= end; i++)
                        h.add(line[i]);
                } else {
                    if (x + e.w <= last)
                        h.add(line[x + e.w]);
                    if (x + e.z > w.in.box.lo[0])
                        h.remove(line[x + e.z - 1]);
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
    if (op->out == VP_F32 && (VP_ENTROPY_TYPES & 1u << op->in))
        return true;
    snprintf(why, size, "no kernel for %s", vp_type_name(op->in));
    return false;
}

uint64_t table_numbers(const struct vp_entropy_params *p)
{
    return 2 * ((uint64_t)p->n + 1);
}

uint64_t table(const struct vp_op *op)
{
    const struct vp_entropy_params *p = params(op);
    return table_numbers(p) * sizeof(int64_t) + vp_spans_bytes(&p->f);
}

void fill(const struct vp_op *op, void *to)
{
    const struct vp_entropy_params *p = params(op);
    int64_t *const t = (int64_t *)to;
    for (int64_t i = 0; i <= p->n; i++) {
        t[i] = p->t[i];
        t[p->n + 1 + i] = p->step[i];
    }
    vp_spans_fill(&p->f, t + table_numbers(p));
}

size_t count_bytes(const struct vp_entropy_params *p)
{
    return p->n < 65536 ? 2 : 4;
}

size_t shared_bytes(const struct vp_entropy_params *p)
{
    return (size_t)p->bins * THREADS_SHARED * count_bytes(p);
}

enum { BINS_UNIT = 64 }; /* rows of bins have a multiple of it */

uint64_t bins_bytes(const int64_t in[3])
{
    return (uint64_t)vp_round_up(vp_round_up(in[0], BINS_UNIT) * in[1] * in[2] * (int64_t)sizeof(uint16_t),
                                 VP_ALIGN);
}

/* Threads whose histograms lie in global memory, for parts of so many samples. */
int64_t threads_global(const int64_t out[3])
{
    const int64_t walks = vp_groups(out[0], WALK) * out[1] * out[2];
    return vp_min64(vp_round_up(walks, THREADS_SHARED), THREADS_GLOBAL);
}

uint64_t scratch(const struct vp_op *op, const int64_t in[3], const int64_t out[3])
{
    const struct vp_entropy_params *p = params(op);
    return bins_bytes(in) +
           (shared_bytes(p) <= SHARED_MOST ? 0 : (uint64_t)p->bins * (uint64_t)threads_global(out) * count_bytes(p));
}

template <class COUNT>
int walk_all(const walk &w, const struct vp_entropy_params *p, const struct vp_work *args, struct vp_err *err)
{
    const int64_t out[3] = {vp_box_size(&args->out->box, 0), vp_box_size(&args->out->box, 1),
                            vp_box_size(&args->out->box, 2)};
    const int64_t blocks = vp_groups(w.rows * w.pieces, THREADS_SHARED);
    const int64_t chosen = w.global ? threads_global(out) / THREADS_SHARED : vp_min64(blocks, args->queue->sms * 16);
    return vp_start(err, args->queue->stream, walk_kernel<COUNT>, dim3((unsigned)chosen), dim3(THREADS_SHARED),
                    w.global ? 0 : shared_bytes(p), w);
}

int launch(const struct vp_op *op, const struct vp_work *args, struct vp_err *err)
{
    const struct vp_entropy_params *p = params(op);
    const vp_area in = args->in[0], bins = vp_packed_part(in.box, BINS_UNIT, args->scratch);
    const int64_t size[3] = {vp_box_size(&in.box, 0), vp_box_size(&in.box, 1), vp_box_size(&in.box, 2)};
    const vp_grid_of g(in.box);

    if (vp_by_type(op->in, [&](auto s) {
            return vp_start(err, args->queue->stream, bins_kernel<decltype(s)>, g.grid, g.threads, 0, in, bins, *p);
        }))
        return -1;
    walk w = {};
    w.in = bins;
    w.out = *args->out;
    w.reach = vp_reach(&p->f, op->image);
    w.t = (const int64_t *)args->table;
    w.step = w.t + p->n + 1;
    w.span = p->f.shape == VP_BOX ? NULL : (const int4 *)(w.t + table_numbers(p));
    w.spans = (int)p->f.spans;
    w.bins = (int)p->bins;
    w.global = shared_bytes(p) <= SHARED_MOST ? NULL : (char *)args->scratch + bins_bytes(size);
    w.rows = vp_box_size(&args->out->box, 1) * vp_box_size(&args->out->box, 2);
    w.pieces = vp_groups(vp_box_size(&args->out->box, 0), WALK);
    return count_bytes(p) == 2 ? walk_all<uint16_t>(w, p, args, err) : walk_all<uint32_t>(w, p, args, err);
}

} // namespace

const struct vp_kernel vp_gpu_entropy = {"entropy", has, scratch, table, fill, launch};
