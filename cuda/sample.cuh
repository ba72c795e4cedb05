/* SPDX-License-Identifier: BSD-3-Clause */
/* Loads and stores of samples of any type, and samples outside the image. */
#pragma once

#include "gpu.h"

namespace vp
{

__device__ __forceinline__ float load_sample(const char *p, long long i, int type)
{
    switch (type) {
    case VP_U8: return (float)__ldg(reinterpret_cast<const unsigned char *>(p) + i);
    case VP_U16: return (float)__ldg(reinterpret_cast<const unsigned short *>(p) + i);
    case VP_I16: return (float)__ldg(reinterpret_cast<const short *>(p) + i);
    default: return __ldg(reinterpret_cast<const float *>(p) + i);
    }
}

/* Converts to a sample type: rounds to nearest even, clamps; NaN becomes 0. */
template <class Sample> __device__ __forceinline__ Sample sample_of(float v)
{
    int w;
    if constexpr (sizeof(Sample) == 1)
        asm("cvt.rni.sat.u8.f32 %0, %1;" : "=r"(w) : "f"(v));
    else if constexpr ((Sample)-1 < 0)
        asm("cvt.rni.sat.s16.f32 %0, %1;" : "=r"(w) : "f"(v));
    else
        asm("cvt.rni.sat.u16.f32 %0, %1;" : "=r"(w) : "f"(v));
    return (Sample)w;
}

template <> __device__ __forceinline__ float sample_of<float>(float v)
{
    return v;
}

/* Calls f with p as a pointer to samples of the type. */
template <class F> __device__ __forceinline__ void typed(char *p, int type, const F &f)
{
    switch (type) {
    case VP_U8: f(reinterpret_cast<unsigned char *>(p)); break;
    case VP_U16: f(reinterpret_cast<unsigned short *>(p)); break;
    case VP_I16: f(reinterpret_cast<short *>(p)); break;
    default: f(reinterpret_cast<float *>(p));
    }
}

template <class Sample> __device__ __forceinline__ void store_as(Sample *q, float v)
{
    __stcs(q, sample_of<Sample>(v));
}

__device__ __forceinline__ void store_sample(char *p, long long i, int type, float v)
{
    typed(p, type, [&](auto *q) { store_as(q + i, v); });
}

/* N adjacent samples, loaded or stored at once if all exist and they are aligned (`whole`). */
template <class T, int N> struct alignas(sizeof(T) * N < 16 ? sizeof(T) * N : 16) run_of {
    T v[N];
};

/* Load and store the first n of them. */
template <int N, class T> __device__ __forceinline__ run_of<T, N> load_run(const T *from, int n, bool whole)
{
    if (whole && n >= N)
        return *(const run_of<T, N> *)from;
    run_of<T, N> r = {};
#pragma unroll
    for (int i = 0; i < N; i++)
        if (i < n)
            r.v[i] = from[i];
    return r;
}

template <int N, class T> __device__ __forceinline__ void store_run(T *to, int n, bool whole, const run_of<T, N> &r)
{
    if (whole && n >= N) {
        *(run_of<T, N> *)to = r;
        return;
    }
#pragma unroll
    for (int i = 0; i < N; i++)
        if (i < n)
            to[i] = r.v[i];
}

__device__ __forceinline__ int edge_from(int rule, int p, int n)
{
    return vp_edge_from32(rule, p, n);
}

}
