/* SPDX-License-Identifier: BSD-3-Clause */
/* What all kernels of a convolution know of edges, of samples that are not finite, and of a line's mean. */
#ifndef VP_CONVOLVE_EDGE_CUH
#define VP_CONVOLVE_EDGE_CUH

#include "convolve_line.cuh"
#include "convolve_pass.h"
#include "sample.cuh"

#include <cfloat>

namespace vp
{
namespace
{

/* Where position p of an axis takes its sample from; -1: it is 0. Beyond `samples` of its tile nobody looks. */
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

/* Taps of an axis that meet samples when they make output p: [lo, hi). */
__device__ __forceinline__ void taps_inside(const convolve_axis &a, int p, int &lo, int &hi)
{
    const int last = p + a.centre - a.first;
    lo = min(max(0, last - a.count + 1), a.taps);
    hi = max(min(a.taps, last + 1), lo);
}

__device__ __forceinline__ bool clips(const convolve_axis &a, int p)
{
    return p < a.first + a.behind() || p >= a.first + a.count - a.centre;
}

/* ---- a line ---- */

/* About the mean of a line that one warp has: of four values of each thread, the same in all. */
template <class L> __device__ __forceinline__ cx line_mean(const cx *v)
{
    constexpr int q = L::R1 / 4;
    static_assert(L::in_warp);
    cx m = (v[q / 2] + v[q / 2 + q]) + (v[q / 2 + 2 * q] + v[q / 2 + 3 * q]);
    for (int o = L::threads / 2; o; o >>= 1) {
        m.re += __shfl_xor_sync(~0u, m.re, o);
        m.im += __shfl_xor_sync(~0u, m.im, o);
    }
    return {m.re * (0.25f / L::threads), m.im * (0.25f / L::threads)};
}

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

/* In natural order. */
template <class L> __device__ __forceinline__ void store_row(cx *out, const cx *v, int t)
{
    out = hidden(out + t);
    each_frequency<L>(t, [&](auto i, auto k) { out[k] = v[i]; });
}

/* A line without its mean forward; all threads of the block are here. A sample that is not finite leaves no frequency
 * that is. */
template <class L> __device__ __forceinline__ void line_forward(cx *v, cx m, cx *sm, int t, const cx *twiddle)
{
    each<L::R1>([&](auto j) { v[j] = v[j] - m; });
    samples_out<L, L::row_pitch, 1>(v, sm, t, twiddle);
    meet_line<L>();
    frequencies_in<L, L::row_pitch, 1>(v, sm, t);
}

}
}

#endif
