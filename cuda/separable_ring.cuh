/* SPDX-License-Identifier: BSD-3-Clause */
/* Marching along an axis (y in separable_xy.cu, z or y in separable_z.cu): rows or planes are loaded step by step into
 * a ring in shared memory, so that every sample is read from device memory about once; outputs follow as soon as the
 * ring has all their samples. */
#pragma once

#include "separable_line.cuh"

namespace vp
{

/* A ring of rows (or planes). */
struct ring {
    float *data;
    int rows; /* a multiple of UNIT */
    int pitch;
    int first; /* row of slot 0 */

    __device__ __forceinline__ float *row(int r) const { return data + (r - first) % rows * pitch; }
};

/* Reads a column of a ring about row i. */
struct read_ring {
    const float *column;
    int rows, pitch;
    int slot; /* slot of row i, a multiple of 8 */

    struct cursor {
        const float *column;
        int at, size, pitch;
        __device__ __forceinline__ float next()
        {
            const float v = column[at];
            at += pitch;
            at -= at >= size ? size : 0;
            return v;
        }
        __device__ __forceinline__ float previous()
        {
            const float v = column[at];
            at -= pitch;
            at += at < 0 ? size : 0;
            return v;
        }
    };
    __device__ __forceinline__ int slot_of(int b) const
    {
        int s = slot + b;
        s += s < 0 ? rows : 0;
        s -= s >= rows ? rows : 0;
        return s;
    }
    __device__ __forceinline__ cursor at_sample(int b) const
    {
        return {column, slot_of(b) * pitch, rows * pitch, pitch};
    }

    __device__ __forceinline__ const float *block(int b) const
    {
        return column + slot_of(b) * pitch;
    }
    __device__ __forceinline__ void operator()(int b, float (&v)[CHUNK]) const
    {
        const float *p = block(b);
#pragma unroll
        for (int j = 0; j < CHUNK; j++)
            v[j] = p[j * pitch];
    }
    template <int R> __device__ __forceinline__ void around(float (&v)[UNIT + 2 * R]) const
    {
#pragma unroll
        for (int b = -padded(R); b < UNIT + R; b += 8) {
            const float *const p = block(b);
#pragma unroll
            for (int j = 0; j < 8; j++)
                if (b + j >= -R && b + j < UNIT + R)
                    v[R + b + j] = p[j * pitch];
        }
    }
};

/* Schedule of a march over outputs [begin, end) of an axis in steps of `step` rows: when step t is in the ring, block
 * t - lag of the outputs can be computed. */
struct march {
    int begin, end, blocks, lag, step, padded_radius;
    int need_lo, need_hi; /* rows to be loaded; outside the image only if the edge wraps around */

    __device__ __forceinline__ int row(int t) const { return begin - padded_radius + step * t; }
    __device__ __forceinline__ bool needed(int t) const { return row(t) < need_hi && row(t) + step > need_lo; }
};

__device__ __forceinline__ march march_over(const axis &a, int radius, int begin, int end, int step)
{
    march m;
    m.begin = begin;
    m.end = end;
    m.step = step;
    m.padded_radius = padded(radius);
    m.blocks = (end - begin + step - 1) / step;
    m.lag = (radius + m.padded_radius + step - 1) / step;
    m.need_lo = begin - radius;
    m.need_hi = end + radius;
    if (a.rule != VP_EDGE_WRAP) {
        m.need_lo = max(m.need_lo, 0);
        m.need_hi = min(m.need_hi, a.n);
    }
    return m;
}

}
