/* SPDX-License-Identifier: BSD-3-Clause */
/* Moments of integers in windows of one plane by sliding sums, in one pass whose time does not depend on the window.
 * Sums are exact modulo their range, so rows that leave the window can be subtracted.
 *
 * Overview: a thread block walks down a strip of COLUMNS columns. Each thread holds the sums of EACH columns over the
 *   window's rows; each step adds the row that enters and subtracts the row that leaves, both prefetched one step
 *   before. The prefix sums over the strip go to shared memory, and a window is the difference of two of them.
 * Registers: EACH column sums, the entering and the leaving row.
 * Shared memory: COLUMNS + 1 states.
 * Global memory: every sample is read twice in groups of four, and once by itself; strips overlap by a window.
 * Cost: masks are decided in float32 for most samples, and in float64 for the others; all other results in float64.
 * Limits: a window of at most COLUMNS / 4 * 3 columns. */
#pragma once

#include "moments_result.cuh"

namespace
{

enum {
    SLIDERS = 256, /* threads */
    EACH = 4,
    COLUMNS = SLIDERS * EACH,
    RESIDENT = 4, /* resident thread blocks of a multiprocessor, at least */
    REACH_MOST = COLUMNS * 3 / 8,
    SEGMENTS = 1056 /* thread blocks that fill a device */
};

/* EACH samples or sums, loaded or stored at once. */
template <class S> struct alignas(EACH * sizeof(S)) group_of {
    S v[EACH];
};

/* EACH column sums of N kinds. */
template <class A, int N> struct column_sums {
    A v[EACH][N];
};

/* Loads EACH samples of a row at `at`; 0 for all but the first `left`, and if `row` is false. */
template <class S> __device__ __forceinline__ group_of<S> fetch(const S *at, int left, bool row)
{
    group_of<S> s = {};
    if (row && left > 0)
        s = *(const group_of<S> *)at;
#pragma unroll
    for (int j = 1; j < EACH; j++)
        if (j >= left)
            s.v[j] = 0;
    return s;
}

/* Adds (SIGN 1) or subtracts (-1) a row, modulo the range of A. */
template <int SIGN, class S, class A, int N>
__device__ __forceinline__ void add(column_sums<A, N> &sum, const group_of<S> &s)
{
#pragma unroll
    for (int j = 0; j < EACH; j++) {
        const int32_t x = (int32_t)s.v[j];
        sum.v[j][0] += (A)(int64_t)SIGN * (A)(int64_t)x;
        if (N == 2)
            sum.v[j][N - 1] += (A)(int64_t)SIGN * (A)((uint32_t)x * (uint32_t)x);
    }
}

/* The limit in float32, sufficient for samples not close to it. */
struct rough_limit {
    float base, mean, std, both;
    bool of_use;
};

/* Returns a sum as a signed number. */
template <class A> __device__ __forceinline__ std::make_signed_t<A> signed_sum(A sum)
{
    return (std::make_signed_t<A>)sum;
}

/* Decides in float32 whether x is above the limit for k samples with that sum and sum of squares, and sets `mark`.
 * False if x is too close to the limit: float32 may be wrong by about 2^-20 of the terms. (Float64 would take longer
 * than all the rest.) */
template <int N, class A>
__device__ __forceinline__ bool is_clear(const rough_limit &l, const struct vp_limit &limit, A sum, A squares,
                                         uint32_t k, int32_t x, uint8_t &mark)
{
    const float n = (float)k, s = (float)signed_sum(sum), mean = l.mean * s;
    float left = n * ((float)x - l.base) - mean, most = n * (fabsf((float)x) + fabsf(l.base)) + fabsf(mean);
    if (N == 2) {
        const uint64_t a = (uint64_t)(int64_t)signed_sum(sum);
        const uint64_t spread = (uint64_t)k * squares - a * a;
        const float root = sqrtf((float)(uint32_t)(spread >> 32) * 0x1p32f + (float)(uint32_t)spread);
        left = n * left - (n * l.std + l.both * s) * root;
        most = n * most + (n * fabsf(l.std) + fabsf(l.both * s)) * root;
    }
    mark = (left > 0) != limit.below ? limit.mark : 0;
    return fabsf(left) > most * 0x1p-17f;
}

/* Computes strips of `width` columns and `rows` rows. */
template <class S, class O, class A, int N>
__global__ void __launch_bounds__(SLIDERS, RESIDENT)
    slide_kernel(vp_area in, vp_area out, int2 reach, int64_t image_x, int64_t image_y, int width, int rows,
                 result_args f, rough_limit l)
{
    __shared__ __align__(32) A edge[N][COLUMNS + EACH]; /* [i]: sum of the columns before i */
    __shared__ A warps[N][SLIDERS / 32];
    const int t = threadIdx.x, lane = t % 32, warp = t / 32;
    const int64_t x0 = out.box.lo[0] + (int64_t)blockIdx.x * width, x1 = min(x0 + width, out.box.hi[0]);
    const int y0 = (int)out.box.lo[1] + (int)blockIdx.y * rows, y1 = (int)min((int64_t)y0 + rows, out.box.hi[1]);
    const int64_t n = in.box.hi[0] - in.box.lo[0], from = x0 - reach.x - in.box.lo[0];
    const int64_t strip = from - ((from % EACH) + EACH) % EACH, c = strip + t * EACH;
    const int shift = (int)(from - strip), span = 2 * reach.x + 1, out_n = (int)(x1 - x0);
    const int left = c < 0 ? 0 : (int)min(n - c, (int64_t)EACH); /* columns of this thread that exist */
    const int first = (int)in.box.lo[1], last = (int)in.box.hi[1];
    uint32_t wide[EACH]; /* width of the windows that this thread completes */

#pragma unroll
    for (int i = 0; i < EACH; i++) {
        const int64_t x = x0 + t + i * SLIDERS;
        wide[i] = (uint32_t)(min(x + reach.x, image_x - 1) - max(x - reach.x, (int64_t)0) + 1);
    }
    for (int64_t z = out.box.lo[2] + blockIdx.z; z < out.box.hi[2]; z += gridDim.z) {
        const S *const column = vp_at<S>(in, in.box.lo[0], in.box.lo[1], z) + (left > 0 ? c : 0);
        const auto row = [&](int y) {
            const bool is = y >= first && y < last;
            return fetch(column + (is ? (int64_t)(y - first) * in.pitch : 0), left, is);
        };
        column_sums<A, N> sum = {};
        for (int y = y0 - reach.y; y < y0 + reach.y; y++)
            add<1>(sum, row(y));
        group_of<S> entering = row(y0 + reach.y), leaving = {};
        for (int y = y0; y < y1; y++) {
            A before[N];
            S samples[EACH];
            add<1>(sum, entering);
            add<-1>(sum, leaving);
            /* prefetch */
            const S *const p = vp_at<S>(in, x0, y, z);
#pragma unroll
            for (int i = 0; i < EACH; i++)
                samples[i] = t + i * SLIDERS < out_n ? p[t + i * SLIDERS] : (S)0;
            entering = row(y + 1 + reach.y);
            leaving = row(y - reach.y);
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
                group_of<A> sums;
#pragma unroll
                for (int j = 0; j < EACH; j++) {
                    sums.v[j] = before[k];
                    before[k] += sum.v[j][k];
                }
                *(group_of<A> *)&edge[k][t * EACH] = sums;
                if (t == SLIDERS - 1)
                    edge[k][COLUMNS] = before[k];
            }
            __syncthreads();
            const uint32_t tall = (uint32_t)(min(y + reach.y, (int)image_y - 1) - max(y - reach.y, 0) + 1);
            O *const to = vp_at<O>(out, x0, y, z);
#pragma unroll
            for (int i = 0; i < EACH; i++) {
                const int o = t + i * SLIDERS, a = o + shift;
                if (o >= out_n)
                    break;
                const A one = edge[0][a + span] - edge[0][a];
                const A two = N == 2 ? edge[N - 1][a + span] - edge[N - 1][a] : (A)0;
                const uint32_t k = wide[i] * tall;
                uint8_t mark;
                if (sizeof(O) == 1 && l.of_use && is_clear<N>(l, f.limit, one, two, k, (int32_t)samples[i], mark)) {
                    to[o] = (O)mark;
                    continue;
                }
                state<uint64_t, N> s;
                s.v[0] = (uint64_t)(int64_t)signed_sum(one);
                if (N == 2)
                    s.v[N - 1] = two;
                to[o] = stored<O>(result(f, s, (double)k, (double)samples[i], WHOLE<O>));
            }
        }
        __syncthreads(); /* before the next plane */
    }
}

bool slides(const struct vp_op *op)
{
    const int3 reach = vp_reach(&vp_params<vp_moments_params>(op)->f, op->image);
    return op->in != VP_F32 && vp_params<vp_moments_params>(op)->f.shape == VP_BOX && reach.z == 0 &&
           reach.x <= REACH_MOST && op->image[1] <= VP_FAR;
}

template <class S, class O, int N>
int slide(const struct vp_op *op, const vp_area &in, const vp_area &out, int3 reach, const result_args &f,
          cudaStream_t stream, struct vp_err *err)
{
    const int width = (COLUMNS - EACH + 1 - 2 * reach.x) / 32 * 32;
    const int64_t strips = vp_div_up(vp_box_size(&out.box, 0), width), high = vp_box_size(&out.box, 1);
    const int64_t planes = vp_box_size(&out.box, 2);
    int64_t rows = vp_min64(512, vp_max64(32, high * strips * planes / SEGMENTS));
    rows = vp_max64(rows, vp_div_up(high, 65535));
    const dim3 grid = vp_grid(out.box, width, rows, 1);
    /* the largest sum of a window decides whether sums of 32 bits suffice, and whether n sum(x^2) fits 64 bits */
    const double n = (double)vp_min64(2 * (int64_t)reach.x + 1, op->image[0]) *
                     (double)vp_min64(2 * (int64_t)reach.y + 1, op->image[1]);
    const double top = op->in == VP_U8 ? 255 : op->in == VP_U16 ? 65535 : 32768, all = n * top;
    const bool narrow = all < 0x1p31 && (N == 1 || all * top < 0x1p32);
    const struct vp_limit &m = f.limit;
    const rough_limit l = {(float)m.base, (float)m.mean, (float)m.std, (float)m.both,
                     f.moment == VP_ABOVE && (N == 1 || all * all < 0x1p63)};
    return vp_start(err, stream, narrow ? slide_kernel<S, O, uint32_t, N> : slide_kernel<S, O, uint64_t, N>, grid,
                    dim3(SLIDERS), 0, in, out, make_int2(reach.x, reach.y), op->image[0], op->image[1], width,
                    (int)rows, f, l);
}

} // namespace
