/* SPDX-License-Identifier: BSD-3-Clause */
/* Samples as integer keys in their order, for rank.cu. */
#ifndef VP_RANK_CUH
#define VP_RANK_CUH

#include "footprint.cuh"
#include "local/rank.h"

namespace
{

__device__ __forceinline__ int key(uint8_t v)
{
    return v;
}
__device__ __forceinline__ int key(uint16_t v)
{
    return v;
}
__device__ __forceinline__ int key(int16_t v)
{
    return v;
}
__device__ __forceinline__ int key(float v)
{
    /* a multiplication makes one NaN of all, 0x7fffffff, and changes nothing else */
    asm("fma.rn.f32 %0, %1, 0f3f800000, 0f80000000;" : "=f"(v) : "f"(v));
    const int b = __float_as_int(v);
    return b ^ (b >> 31 & 0x7fffffff);
}

template <class S> struct keys;
template <> struct keys<uint8_t> {
    enum { LEAST = 0, MOST = 255 };
    static __device__ uint8_t value(int k) { return (uint8_t)k; }
};
template <> struct keys<uint16_t> {
    enum { LEAST = 0, MOST = 65535 };
    static __device__ uint16_t value(int k) { return (uint16_t)k; }
};
template <> struct keys<int16_t> {
    enum { LEAST = -32768, MOST = 32767 };
    static __device__ int16_t value(int k) { return (int16_t)k; }
};
template <> struct keys<float> {
    enum { LEAST = -0x7fffffff - 1, MOST = 0x7fffffff };
    static __device__ float value(int k)
    {
        k = min(k, 0x7fc00000);
        return __int_as_float(k ^ (k >> 31 & 0x7fffffff));
    }
};

}

#endif
