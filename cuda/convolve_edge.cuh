/* SPDX-License-Identifier: BSD-3-Clause */
/* Edges, samples that are not finite, and the offset, for all kernels of a convolution. The offset is subtracted from
 * the samples of a tile and restored in its results, as on the CPU (local/convolve_rows.c). */
#pragma once

#include "convolve_line.cuh"
#include "convolve_pass.h"
#include "sample.cuh"

#include <cfloat>

namespace vp
{
namespace
{

/* Returns the position whose sample stands for position p of an axis; -1: the sample is 0, or no output depends on
 * it. */
__device__ __forceinline__ int sample_from(const convolve_axis &a, int p)
{
    if (p >= a.size + a.centre)
        return -1;
    const int q = edge_from(a.rule, p - a.first, a.count);
    return q < 0 ? -1 : q + a.first;
}

__device__ __forceinline__ int samples_of(const convolve_axis &a)
{
    return a.valid + a.taps - 1;
}

/* Sets [lo, hi) to the taps of an axis that meet samples for output p. */
__device__ __forceinline__ void taps_inside(const convolve_axis &a, int p, int &lo, int &hi)
{
    const int last = p + a.centre - a.first;
    lo = min(max(0, last - a.count + 1), a.taps);
    hi = max(min(a.taps, last + 1), lo);
}

__device__ __forceinline__ bool clips(const convolve_axis &a, int p)
{
    return p < a.first + a.pad_before() || p >= a.first + a.count - a.centre;
}

/* Returns result v of a pair of tiles with the offset restored. */
__device__ __forceinline__ float restored(const convolve_offset &e, const convolve_axis axis[3], float v, int pair,
                                          int x, int y, int z)
{
    int lo[3], hi[3];
    bool inner = true;
    for (int a = 0; a < 3; a++) {
        taps_inside(axis[a], a == 0 ? x : a == 1 ? y : z, lo[a], hi[a]);
        inner = inner && hi[a] - lo[a] == axis[a].taps;
    }
    if (!e.sums || inner)
        return v + e.restore[(int64_t)(z - e.restore_z0) * e.pairs + pair];
    const int64_t row = axis[0].taps + 1, plane = row * (axis[1].taps + 1);
    const auto at = [&](int i, int j, int k) { return __ldg(e.sums + k * plane + j * row + i); };
    const auto in_plane = [&](int k) {
        return at(hi[0], hi[1], k) - at(lo[0], hi[1], k) - (at(hi[0], lo[1], k) - at(lo[0], lo[1], k));
    };
    const auto base_of = [&](int p) {
        const int q = min(max(p, axis[2].first), axis[2].first + axis[2].count - 1);
        return (double)e.base[(int64_t)(q - e.base_z0) * e.pairs + pair];
    };
    const double base = base_of(z), in = in_plane(hi[2]) - in_plane(lo[2]);
    double off = 0; /* from planes with other offsets */
    for (int k = lo[2]; axis[2].taps > 1 && k < hi[2]; k++) {
        const double d = base_of(z + axis[2].centre - k) - base;
        off += d != 0 ? d * (in_plane(k + 1) - in_plane(k)) : 0;
    }
    if (!e.renormalize)
        return (float)(v + off + base * in);
    return in != 0 ? (float)((v + off) * (e.total / in) + base * e.total) : 0;
}

/* ---- a line ---- */

__device__ __forceinline__ bool is_finite(cx a)
{
    return fabsf(a.re) + fabsf(a.im) <= FLT_MAX;
}

__device__ __forceinline__ float finite_or_0(float a)
{
    return fabsf(a) <= FLT_MAX ? a : 0;
}

template <class L> __device__ __forceinline__ void make_finite(cx *v)
{
    each<L::R1>([&](auto j) { v[j] = {finite_or_0(v[j].re), finite_or_0(v[j].im)}; });
}

/* Stores a transformed line in natural order. */
template <class L> __device__ __forceinline__ void store_row(cx *out, const cx *v, int t)
{
    out = opaque(out + t);
    each_frequency<L>(t, [&](auto i, auto k) { out[k] = v[i]; });
}

/* Transforms a line forward; all threads of the block call it. A sample that is not finite makes all frequencies so. */
template <class L> __device__ __forceinline__ void line_forward(cx *v, cx *sm, int t, const cx *twiddle)
{
    forward_begin<L, L::row_pitch, 1>(v, sm, t, twiddle);
    sync_line<L>();
    forward_end<L, L::row_pitch, 1>(v, sm, t);
}

/* Stores the peak of a line: the largest magnitude of its finite samples. Not ALONE: several lines share *peak, which
 * is 0 before; it becomes the maximum. */
template <class L, bool ALONE = L::in_warp>
__device__ __forceinline__ void store_peak(float *peak, const cx *v, int t, bool live)
{
    float m = 0;
    each<L::R1>([&](auto j) {
        const float re = fabsf(v[j].re), im = fabsf(v[j].im);
        m = fmaxf(m, fmaxf(re <= FLT_MAX ? re : 0, im <= FLT_MAX ? im : 0));
    });
    if constexpr (L::in_warp)
        for (int o = L::threads / 2; o; o >>= 1)
            m = fmaxf(m, __shfl_xor_sync(~0u, m, o));
    if (!live || (L::in_warp && t > 0))
        return;
    if (ALONE)
        *peak = m;
    else
        atomicMax((int *)peak, __float_as_int(m)); /* floats that are not negative order like their bits */
}

/* ---- the offset of a box of outputs in plane z ---- */

/* Sets *median to the median of the finite v[]. False if none is finite. */
__device__ __forceinline__ bool median_of_five(const float v[5], float *median)
{
    float sorted[5];
    int n = 0;
    for (int i = 0; i < 5; i++) {
        if (!(fabsf(v[i]) <= FLT_MAX))
            continue;
        int k = n++;
        for (; k > 0 && sorted[k - 1] > v[i]; k--)
            sorted[k] = sorted[k - 1];
        sorted[k] = v[i];
    }
    *median = n ? sorted[n / 2] : 0;
    return n > 0;
}

/* Returns a median of medians of 25 samples. The rounding errors of a transform are proportional to the mean that is
 * left after the subtraction, so the offset must be close to the mean, in noise as well. It is one of the samples, so
 * that differences of integers are exact. */
__device__ __forceinline__ float box_constant(const vp_area &in, int type, const convolve_axis *axis, const int lo[2],
                                              const int hi[2], int z)
{
    /* positions from the middle, in quarters and then in tenths of the box */
    const int at[5][2] = {{0, 0}, {-1, -1}, {1, 1}, {1, -1}, {-1, 1}};
    float median[5];
    for (int i = 0; i < 5; i++) {
        float v[5];
        for (int j = 0; j < 5; j++) {
            int q[2];
            for (int a = 0; a < 2; a++)
                q[a] = min(max(lo[a] + (int)((int64_t)(hi[a] - lo[a]) * (10 + 5 * at[i][a] + 2 * at[j][a]) / 20),
                               axis[a].first), axis[a].first + axis[a].count - 1);
            v[j] = load_sample((const char *)in.data, (z - in.box.lo[2]) * in.plane + (q[1] - in.box.lo[1]) * in.pitch
                                                          + (q[0] - in.box.lo[0]), type);
        }
        if (!median_of_five(v, median + i))
            median[i] = NAN;
    }
    float all;
    median_of_five(median, &all);
    return all;
}

/* ---- tiles with spikes ---- */

/* Statistics of the peaks of lines, in shared memory: the bits of the largest, the number of those comparable to it,
 * whether there are smaller ones that are not 0. */
struct peaks {
    int largest, high, rest;
};

/* Computes vp_convolve_is_spiked() for n lines with peaks peak(i); all threads of the block call it. */
template <class Peak> __device__ __forceinline__ bool is_spiked(peaks &s, int n, float base, const Peak &peak)
{
    if (threadIdx.x == 0)
        s.largest = s.high = s.rest = 0;
    __syncthreads();
    float m = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        m = fmaxf(m, peak(i));
    if (m > 0)
        atomicMax(&s.largest, __float_as_int(m));
    __syncthreads();
    const float largest = __int_as_float(s.largest);
    if (largest == 0)
        return false;
    int high = 0, rest = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        const float one = peak(i);
        high += one > largest * (1 / 65536.0f);
        rest |= one > 0 && !(one > largest * (1 / 65536.0f));
    }
    if (high)
        atomicAdd(&s.high, high);
    if (rest)
        atomicOr(&s.rest, 1);
    __syncthreads();
    return largest > 1e30f || (4 * s.high < n && (s.rest || base != 0));
}

/* Computes tiles with spikes by the defining sum, since a transform would spread the rounding errors of a spike over
 * the tile. gridDim.x blocks share tile blockIdx.y of strip blockIdx.z; they return at once if it has no spike. `w` has
 * the method's tile(), its lines() and their peaks, its offset base(), weight() of a sample for an output, and
 * restored(), which restores the offset. */
template <class Tiles> __global__ void __launch_bounds__(256) direct_kernel(const Tiles w)
{
    __shared__ peaks shared;
    const auto tile = w.tile((int)blockIdx.y, (int)blockIdx.z);
    if (!is_spiked(shared, w.lines(tile), w.base(tile, tile.lo[2]), [&](int i) { return w.peak_of(tile, i); }))
        return;
    const vp_area &in = w.in, &out = w.out;
    const int nx = tile.hi[0] - tile.lo[0], ny = tile.hi[1] - tile.lo[1], nz = tile.hi[2] - tile.lo[2];
    for (int i = (int)(blockIdx.x * blockDim.x + threadIdx.x); i < nx * ny * nz; i += (int)(gridDim.x * blockDim.x)) {
        const int p[3] = {tile.lo[0] + i % nx, tile.lo[1] + i / nx % ny, tile.lo[2] + i / nx / ny};
        double sum = 0;
        for (int kz = 0; kz < w.axis[2].taps; kz++) {
            const int z = sample_from(w.axis[2], p[2] + w.axis[2].centre - kz);
            if (z < 0)
                continue;
            const float base = w.base(tile, z);
            for (int ky = 0; ky < w.axis[1].taps; ky++) {
                const int qy = p[1] + w.axis[1].centre - ky, y = sample_from(w.axis[1], qy);
                if (y < 0)
                    continue;
                const int64_t row = (z - in.box.lo[2]) * in.plane + (y - in.box.lo[1]) * in.pitch - in.box.lo[0];
                for (int kx = 0; kx < w.axis[0].taps; kx++) {
                    const int qx = p[0] + w.axis[0].centre - kx, x = sample_from(w.axis[0], qx);
                    const float v = x < 0 ? base : load_sample((const char *)in.data, row + x, w.type_in);
                    if (fabsf(v) <= FLT_MAX && v != base)
                        sum += (double)w.weight(tile, kx, ky, kz, p, qx, qy) * (v - base);
                }
            }
        }
        store_sample((char *)out.data, (p[2] - out.box.lo[2]) * out.plane + (p[1] - out.box.lo[1]) * out.pitch
                                           + (p[0] - out.box.lo[0]), w.type_out, w.restored(tile, (float)sum, p));
    }
}

enum { DIRECT_BLOCKS = 8 };

}
}
