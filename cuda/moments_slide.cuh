/* SPDX-License-Identifier: BSD-3-Clause */
/* Moments of integers in windows that are one plane deep, in one pass and in a time that does not depend on the window:
 * sums are exact modulo the range of their numbers, so what leaves the window may be taken away again.
 *
 * A thread block goes down a strip of COLUMNS columns. Each thread holds the sums of EACH columns of the window's rows;
 * with every row one comes in and one goes. Their running sums over the strip are in shared memory, and a window is the
 * difference of two of them.
 *
 * Registers: EACH column sums and what they were added up to. Shared memory: COLUMNS + 1 states. Global: every sample
 * is read twice, as four at once, and once as itself; the strips overlap by a window.
 * Limits: a window of at most COLUMNS / 4 * 3 columns. */
#ifndef VP_MOMENTS_SLIDE_CUH
#define VP_MOMENTS_SLIDE_CUH

#include "moments_result.cuh"

namespace
{

enum {
    SLIDERS = 256, /* threads */
    EACH = 4,
    COLUMNS = SLIDERS * EACH,
    REACH_MOST = COLUMNS * 3 / 8,
    SEGMENTS = 1056 /* thread blocks that fill a device */
};

template <class S> struct alignas(EACH * sizeof(S)) four {
    S v[EACH];
};

/* EACH column sums of N kinds. */
template <class A, int N> struct columns {
    A v[EACH][N];
};

/* The samples from column c of a row of n on come in, or go. */
template <bool IN, class S, class A, int N>
__device__ __forceinline__ void pass(columns<A, N> &sum, const S *row, int64_t c, int64_t n)
{
    if (c < 0 || c >= n)
        return;
    const four<S> s = *(const four<S> *)(row + c);
#pragma unroll
    for (int j = 0; j < EACH; j++) {
        const int32_t x = c + j < n ? (int32_t)s.v[j] : 0;
        sum.v[j][0] += (A)(int64_t)(IN ? x : -x);
        if (N == 2)
            sum.v[j][N - 1] += IN ? (A)((uint32_t)x * (uint32_t)x) : (A)0 - (A)((uint32_t)x * (uint32_t)x);
    }
}

/* A sum as the results want it: signed, of 64 bits. */
__device__ __forceinline__ uint64_t widened(uint32_t sum)
{
    return (uint64_t)(int64_t)(int32_t)sum;
}
__device__ __forceinline__ uint64_t widened(uint64_t sum)
{
    return sum;
}

template <class S, class O, class A, int N>
__global__ void __launch_bounds__(SLIDERS)
    slide_kernel(vp_area in, vp_area out, int2 reach, int64_t image_x, int64_t image_y, int width, int rows, finish f)
{
    __shared__ __align__(16) A edge[N][COLUMNS + EACH]; /* [i]: of the columns before i */
    __shared__ A warps[N][SLIDERS / 32];
    const int t = threadIdx.x, lane = t % 32, warp = t / 32;
    const int64_t x0 = out.box.lo[0] + (int64_t)blockIdx.x * width, x1 = min(x0 + width, out.box.hi[0]);
    const int64_t y0 = out.box.lo[1] + (int64_t)blockIdx.y * rows, y1 = min(y0 + rows, out.box.hi[1]);
    const int64_t n = in.box.hi[0] - in.box.lo[0], from = x0 - reach.x - in.box.lo[0];
    const int64_t strip = from - ((from % EACH) + EACH) % EACH, c = strip + t * EACH;
    const int shift = (int)(from - strip), span = 2 * reach.x + 1;
    double wide[EACH]; /* samples of a row of the windows that this thread completes */

#pragma unroll
    for (int i = 0; i < EACH; i++) {
        const int64_t x = x0 + t + i * SLIDERS;
        wide[i] = (double)(min(x + reach.x, image_x - 1) - max(x - reach.x, (int64_t)0) + 1);
    }
    for (int64_t z = out.box.lo[2] + blockIdx.z; z < out.box.hi[2]; z += gridDim.z) {
        const S *const plane = vp_at<S>(in, in.box.lo[0], in.box.lo[1], z);
        columns<A, N> sum = {};
        for (int64_t y = max(y0 - reach.y, in.box.lo[1]); y < min(y0 + reach.y, in.box.hi[1]); y++)
            pass<true>(sum, plane + (y - in.box.lo[1]) * in.pitch, c, n);
        for (int64_t y = y0; y < y1; y++) {
            const int64_t enters = y + reach.y, leaves = y - reach.y - 1;
            if (enters < in.box.hi[1])
                pass<true>(sum, plane + (enters - in.box.lo[1]) * in.pitch, c, n);
            if (y > y0 && leaves >= in.box.lo[1])
                pass<false>(sum, plane + (leaves - in.box.lo[1]) * in.pitch, c, n);
            A before[N];
#pragma unroll
            for (int k = 0; k < N; k++) {
                const A own = sum.v[0][k] + sum.v[1][k] + sum.v[2][k] + sum.v[3][k];
                A run = own;
#pragma unroll
                for (int d = 1; d < 32; d *= 2) {
                    const A other = __shfl_up_sync(~0u, run, d);
                    run += lane >= d ? other : (A)0;
                }
                if (lane == 31)
                    warps[k][warp] = run;
                before[k] = run - own;
            }
            __syncthreads();
#pragma unroll
            for (int k = 0; k < N; k++) {
#pragma unroll
                for (int w = 0; w < SLIDERS / 32; w++)
                    before[k] += w < warp ? warps[k][w] : (A)0;
#pragma unroll
                for (int j = 0; j < EACH; j++) {
                    edge[k][t * EACH + j] = before[k];
                    before[k] += sum.v[j][k];
                }
                if (t == SLIDERS - 1)
                    edge[k][COLUMNS] = before[k];
            }
            __syncthreads();
            const double tall = (double)(min(y + reach.y, image_y - 1) - max(y - reach.y, (int64_t)0) + 1);
            const S *const samples = vp_at<S>(in, x0, y, z);
            O *const to = vp_at<O>(out, x0, y, z);
#pragma unroll
            for (int i = 0; i < EACH; i++) {
                const int o = t + i * SLIDERS, a = o + shift;
                if (o >= x1 - x0)
                    break;
                state<uint64_t, N> s;
                s.v[0] = widened((A)(edge[0][a + span] - edge[0][a]));
                if (N == 2)
                    s.v[N - 1] = (A)(edge[N - 1][a + span] - edge[N - 1][a]);
                to[o] = stored<O>(result(f, s, wide[i] * tall, (double)samples[o], whole<O>::IS));
            }
        }
        __syncthreads(); /* before the next plane */
    }
}

bool slides(const struct vp_op *op)
{
    const int3 reach = vp_reach(&vp_params<vp_moments_params>(op)->f, op->image);
    return op->in != VP_F32 && vp_params<vp_moments_params>(op)->f.shape == VP_BOX && reach.z == 0 &&
           reach.x <= REACH_MOST;
}

/* Whether sums of 32 bits are enough. */
bool narrow(const struct vp_op *op, int3 reach, bool squares)
{
    const double top = op->in == VP_U8 ? 255 : op->in == VP_U16 ? 65535 : 32768;
    const double n = (double)vp_min64(2 * (int64_t)reach.x + 1, op->image[0]) *
                     (double)vp_min64(2 * (int64_t)reach.y + 1, op->image[1]);
    return n * top < 0x1p31 && (!squares || n * top * top < 0x1p32);
}

template <class S, class O, int N>
int slide(const struct vp_op *op, const vp_area &in, const vp_area &out, int3 reach, const finish &f,
          cudaStream_t stream, struct vp_err *err)
{
    const int width = (COLUMNS - EACH + 1 - 2 * reach.x) / 32 * 32;
    const int64_t strips = vp_groups(vp_box_size(&out.box, 0), width), high = vp_box_size(&out.box, 1);
    const int64_t planes = vp_box_size(&out.box, 2);
    int64_t rows = vp_min64(512, vp_max64(32, high * strips * planes / SEGMENTS));
    rows = vp_max64(rows, vp_groups(high, 65535));
    const dim3 grid((unsigned)strips, (unsigned)vp_groups(high, rows), vp_grid_depth(planes));
    const int2 two = make_int2(reach.x, reach.y);
    if (narrow(op, reach, N == 2))
        return vp_start(err, stream, slide_kernel<S, O, uint32_t, N>, grid, dim3(SLIDERS), 0, in, out, two,
                        op->image[0], op->image[1], width, (int)rows, f);
    return vp_start(err, stream, slide_kernel<S, O, uint64_t, N>, grid, dim3(SLIDERS), 0, in, out, two, op->image[0],
                    op->image[1], width, (int)rows, f);
}

} // namespace

#endif
