/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the tables of volumes of integers (sat_volume.cu) and of floats (sat_volume_floats.cu). */
#pragma once

#include "copy.cuh"
#include "sat.cuh"

namespace vp::sat
{

enum { WIDE = 128 }; /* columns of a tile */

/* A part and its tiles of WIDE columns; padded_columns and padded_rows are those of all tiles together. */
struct tiled_part : table_part {
    int64_t tiles_x, tiles_y, padded_columns, padded_rows;

    void cut(int rows)
    {
        tiles_x = vp_div_up(nx, WIDE);
        tiles_y = vp_div_up(ny, rows);
        padded_columns = tiles_x * WIDE;
        padded_rows = tiles_y * rows;
    }
};

/* N samples in the words that they were loaded as. (The compiler would unpack a vector of bytes into registers.) */
template <class In, int N> struct packed {
    static constexpr int BYTES = (int)sizeof(In) * N;
    using few = std::conditional_t<BYTES == 4, unsigned, unsigned short>;
    using words = std::conditional_t<BYTES == 16, uint4, std::conditional_t<BYTES == 8, uint2, few>>;
    unsigned word[(BYTES + 3) / 4];
    __device__ __forceinline__ void load(const In *p)
    {
        const words w = *(const words *)p;
        if constexpr (BYTES == 2)
            word[0] = w;
        else
            memcpy(word, &w, BYTES);
    }
    __device__ __forceinline__ In at(int k) const
    {
        if constexpr (sizeof(In) == 8)
            return (In)((uint64_t)word[2 * k + 1] << 32 | word[2 * k]);
        else if constexpr (std::is_same<In, float>::value)
            return __uint_as_float(word[k]);
        else if constexpr (sizeof(In) == 4)
            return (In)word[k];
        else if constexpr (sizeof(In) == 2)
            return (In)(word[k / 2] >> 16 * (k % 2));
        else
            return (In)(word[k / 4] >> 8 * (k % 4));
    }
};

/* Sums each of N values over the lanes whose indices differ in bits FIRST ... LAST / 2 only. Each step halves the
 * number of values of a lane: a lane whose bit is set keeps the upper half. So the sums end up spread over the lanes:
 * lane l has those from value left_of(l) on, in v[0] ... */
template <int N, int FIRST, int LAST, class T> __device__ __forceinline__ void sum_lanes(T *v, int lane)
{
    if constexpr (FIRST < LAST && N > 1) {
        const bool upper = lane & FIRST;
#pragma unroll
        for (int i = 0; i < N / 2; i++) {
            const T kept = upper ? v[i + N / 2] : v[i], sent = upper ? v[i] : v[i + N / 2];
            v[i] = kept + __shfl_xor_sync(~0u, sent, FIRST);
        }
        sum_lanes<N / 2, 2 * FIRST, LAST>(v, lane);
    } else if constexpr (FIRST < LAST) {
        v[0] += __shfl_xor_sync(~0u, v[0], FIRST);
        sum_lanes<1, 2 * FIRST, LAST>(v, lane);
    }
}

/* Returns the index of the value whose sum sum_lanes() leaves in v[0]. */
template <int N, int FIRST> __device__ __forceinline__ int left_of(int lane)
{
    int at = 0;
#pragma unroll
    for (int n = N / 2, d = FIRST; n && d < 32; n /= 2, d *= 2)
        at += lane & d ? n : 0;
    return at;
}

/* Returns the inclusive prefix sum over the lanes, by doubling. */
template <class T> __device__ __forceinline__ T scan_lanes(T s, int lane)
{
#pragma unroll
    for (int d = 1; d < 32; d *= 2) {
        const T t = __shfl_up_sync(~0u, s, d);
        if (lane >= d)
            s += t;
    }
    return s;
}

/* Copies the table of the last plane to the carry. */
template <class A> int carry_on(const table_part &j, cudaStream_t stream, struct vp_err *err)
{
    const A *const last = (const A *)j.out + (j.planes - 1) * j.out_plane;
    const cudaError_t e = cudaMemcpy2DAsync(j.carry, (size_t)j.carry_pitch * sizeof(A), last,
                                            (size_t)j.out_row * sizeof(A), (size_t)j.nx * sizeof(A), (size_t)j.ny,
                                            cudaMemcpyDeviceToDevice, stream);
    return vp_gpu_check(err, e, "cannot copy on the CUDA device");
}

} // namespace vp::sat
