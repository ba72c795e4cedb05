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

/* Sum over the threads of a line, the same in all of them; `sm` is the line's part of the exchange, free before, and
 * after the next barrier. */
template <class L> __device__ __forceinline__ cx line_sum(cx m, cx *sm, int t)
{
    if constexpr (L::in_warp) {
        for (int o = L::threads / 2; o; o >>= 1) {
            m.re += __shfl_xor_sync(~0u, m.re, o);
            m.im += __shfl_xor_sync(~0u, m.im, o);
        }
        return m;
    } else {
        sm[t] = m;
        __syncthreads();
        cx s = {0, 0};
        for (int i = 0; i < L::threads; i++)
            s = s + sm[i];
        __syncthreads();
        return s;
    }
}

/* Whether it is so for any thread of those that meet. */
template <class L> __device__ __forceinline__ bool any_of_line(bool yes)
{
    return L::in_warp ? __any_sync(~0u, yes) : __syncthreads_or(yes);
}

template <class L> __device__ __forceinline__ cx sum_of(const cx *v)
{
    cx a = v[0], b = v[1];
    each<L::R1 / 2 - 1>([&](auto j) {
        a = a + v[2 * j + 2];
        b = b + v[2 * j + 3];
    });
    return a + b;
}

__device__ __forceinline__ bool is_finite(cx a)
{
    return fabsf(a.re) + fabsf(a.im) <= FLT_MAX;
}

__device__ __forceinline__ float finite_or_0(float a)
{
    return fabsf(a) <= FLT_MAX ? a : 0;
}

}
}

#endif
