/* SPDX-License-Identifier: BSD-3-Clause */
/* Samples of the separable filters: loads and stores of any type, integers that are copied to shared memory unchanged
 * and converted to floats there, edges. */
#pragma once

#include "copy.cuh"
#include "sample.cuh"
#include "separable_pass.h"

namespace vp
{

/* A line in device memory from sample `at` on, `step` samples apart. */
struct samples {
    char *data;
    long long at, step;
    int type;
};

/* Returns the line from a voxel on along an axis. */
__device__ __forceinline__ samples samples_of(const volume &v, int axis, int x, int y, int z)
{
    return {v.data, place_of(v, x, y, z), v.step[axis], v.type};
}

/* Stores the outputs of a line that are in `mask`. */
__device__ __forceinline__ void store_line(const samples &to, const float (&v)[UNIT], unsigned mask)
{
    const long long step = to.step;
    typed(to.data, to.type, [&](auto *q) {
        q += to.at;
        if (mask == (1u << UNIT) - 1) {
#pragma unroll
            for (int j = 0; j < UNIT; j++, q += step)
                store_as(q, v[j]);
            return;
        }
#pragma unroll
        for (int j = 0; j < UNIT; j++) {
            if (mask >> j & 1)
                store_as(q, v[j]);
            q += step;
            asm volatile("" : "+l"(q)); /* keeps one running address instead of sixteen */
        }
    });
}

/* Sets v = sample - v (high-pass). */
__device__ __forceinline__ void subtract_line(const samples &from, float (&v)[UNIT], unsigned mask)
{
    long long at = from.at;
#pragma unroll
    for (int j = 0; j < UNIT; j++) {
        if (mask >> j & 1)
            v[j] = load_sample(from.data, at, from.type) - v[j];
        at += from.step;
        asm volatile("" : "+l"(at));
    }
}

/* Returns the mask of the first n of UNIT outputs. */
__device__ __forceinline__ unsigned first_of(int n)
{
    return n >= UNIT ? (1u << UNIT) - 1 : (1u << n) - 1;
}

__device__ __forceinline__ int sample_size(int type)
{
    return type == VP_F32 ? 4 : type == VP_U8 ? 1 : 2;
}

/* Copies four integers to the place of four floats in shared memory; the same thread converts them later. */
__device__ __forceinline__ void copy_four(float *to, const char *p, int type)
{
    if (type == VP_U8)
        copy_async<4>(to, p);
    else
        copy_async<8>(to, p);
}

/* Returns an integer in bytes of a word as a float: inserted into the low bits of the float 2^23 it adds its value.
 * BYTES: selector of __byte_perm, with the other bytes from FLOAT_OF. Conversion instructions have a fraction of the
 * throughput. */
constexpr unsigned FLOAT_OF = 0x4b000000;
constexpr float FLOAT_ZERO = 8388608;

template <unsigned BYTES> __device__ __forceinline__ float float_of(unsigned word, float zero = FLOAT_ZERO)
{
    return __uint_as_float(__byte_perm(word, FLOAT_OF, BYTES)) - zero;
}

__device__ __forceinline__ float4 floats_of(unsigned bytes)
{
    return make_float4(float_of<0x7440>(bytes), float_of<0x7441>(bytes), float_of<0x7442>(bytes),
                       float_of<0x7443>(bytes));
}

/* Converts two words of 16-bit integers. i16: `flip` inverts the sign bits, `zero` is larger by 2^15. */
__device__ __forceinline__ float4 floats_of(uint2 pairs, unsigned flip, float zero)
{
    const unsigned l = pairs.x ^ flip, h = pairs.y ^ flip;
    return make_float4(float_of<0x7410>(l, zero), float_of<0x7432>(l, zero), float_of<0x7410>(h, zero),
                       float_of<0x7432>(h, zero));
}

constexpr unsigned FLIP_I16 = 0x80008000;
constexpr float ZERO_I16 = FLOAT_ZERO + 32768;

template <class Four> __device__ __forceinline__ float4 floats_at(const float *at)
{
    if constexpr (std::is_same<Four, uchar4>::value)
        return floats_of(*reinterpret_cast<const unsigned *>(at));
    else if constexpr (std::is_same<Four, ushort4>::value)
        return floats_of(*reinterpret_cast<const uint2 *>(at), 0, FLOAT_ZERO);
    else
        return floats_of(*reinterpret_cast<const uint2 *>(at), FLIP_I16, ZERO_I16);
}

constexpr int FEW = 4; /* outputs at an edge that are computed together */

/* Stores those in `mask`, from output j of the line on; high-pass of `from`. */
__device__ __forceinline__ void store_few(const samples &to, bool highpass, const samples &from, int j,
                                          const float (&v)[FEW], unsigned mask)
{
#pragma unroll
    for (int e = 0; e < FEW; e++)
        if (mask >> e & 1) {
            const float s = highpass ? load_sample(from.data, from.at + (j + e) * from.step, from.type) - v[e] : v[e];
            store_sample(to.data, to.at + (j + e) * to.step, to.type, s);
        }
}

/* True if samples outside the image repeat the one at the edge. */
__device__ __forceinline__ bool repeats(int rule)
{
    return rule == VP_EDGE_RENORMALIZE || rule == VP_EDGE_NEAREST;
}

}
