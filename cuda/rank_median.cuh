/* SPDX-License-Identifier: BSD-3-Clause */
/* The median of 3 x 3 x 3 and 3 x 3 by networks on integer keys, parts of which neighbouring voxels share.
 *
 * Overview: three networks. Sort the triples along z (shared by three neighbours along x); sort the nine keys of a
 *   plane y = const from three sorted triples (shared by three neighbours along y); select the 14th of three sorted
 *   nines: of their elementwise sorted triples only 13 are candidates. Verified with all 0-1 inputs (Knuth 5.3.4).
 * Registers: all data: a lane's own triple and the sorted nines of three rows; triples of neighbours come by shuffles.
 * Shared memory: none.
 * Cost: 78 operations a voxel if a three-way minimum is one instruction.
 * Limits: windows of radius 1. */
#pragma once

#include "footprint.cuh"
#include "base/order.h"
#include "local/rank.h"

namespace
{

/* Samples as integer keys in their order. */
template <class S> struct keys {
    enum { LEAST = vp_limits<S>::LEAST, MOST = vp_limits<S>::MOST };
    static __device__ S value(int k) { return (S)k; }
};
template <> struct keys<float> {
    enum { LEAST = -0x7fffffff - 1, MOST = 0x7fffffff };
    static __device__ float value(int k)
    {
        return __int_as_float(vp_order_i32(min(k, VP_NAN_F32)));
    }
};

/* Returns the result of a window without samples. */
template <class S> __device__ __forceinline__ S nothing()
{
    return sizeof(S) == 4 ? keys<S>::value(keys<S>::MOST) : (S)0;
}

template <class S> __device__ __forceinline__ int key(S v)
{
    return v;
}
__device__ __forceinline__ int key(float v)
{
    /* a multiplication makes one NaN of all, 0x7fffffff, and changes nothing else */
    asm("fma.rn.f32 %0, %1, 0f3f800000, 0f80000000;" : "=f"(v) : "f"(v));
    return vp_order_i32(__float_as_int(v));
}

__device__ __forceinline__ void order(int &a, int &b)
{
    const int t = min(a, b);
    b = max(a, b);
    a = t;
}

__device__ __forceinline__ void order3(int &a, int &b, int &c)
{
    const int lo = __vimin3_s32(a, b, c), hi = __vimax3_s32(a, b, c);
    b = (a ^ b ^ c) ^ lo ^ hi;
    a = lo;
    c = hi;
}

__device__ __forceinline__ int middle3(int a, int b, int c)
{
    return max(min(a, b), min(max(a, b), c));
}

/* Sorts nine keys from three ascending triples. */
__device__ __forceinline__ void sort9(const int (&p)[3], const int (&q)[3], const int (&r)[3], int (&s)[9])
{
    int m[3][3];
#pragma unroll
    for (int i = 0; i < 3; i++) {
        m[i][0] = p[i];
        m[i][1] = q[i];
        m[i][2] = r[i];
        order3(m[i][0], m[i][1], m[i][2]);
    }
    /* rows and columns ascend, so the antidiagonals are nearly in order */
    order(m[0][1], m[1][0]);
    order(m[1][2], m[2][1]);
    order(m[0][2], m[2][0]);
    order(m[1][0], m[0][2]);
    order(m[2][0], m[1][2]);
    order(m[0][2], m[1][1]);
    order(m[1][1], m[2][0]);
    s[0] = m[0][0], s[1] = m[0][1], s[2] = m[1][0];
    s[3] = m[0][2], s[4] = m[1][1], s[5] = m[2][0];
    s[6] = m[1][2], s[7] = m[2][1], s[8] = m[2][2];
}

/* Returns the median of three sorted nines. */
__device__ __forceinline__ int median27(const int (&a)[9], const int (&b)[9], const int (&c)[9])
{
    int v[8], q[5];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        v[i] = __vimin3_s32(a[5 + i], b[5 + i], c[5 + i]);
        v[4 + i] = __vimax3_s32(a[i], b[i], c[i]);
    }
#pragma unroll
    for (int i = 0; i < 5; i++)
        q[i] = middle3(a[2 + i], b[2 + i], c[2 + i]);
    /* merge 4 + 4 (Batcher); the median is the 7th of the 13 candidates */
    order(v[0], v[4]);
    order(v[2], v[6]);
    order(v[2], v[4]);
    order(v[1], v[5]);
    order(v[3], v[7]);
    order(v[3], v[5]);
    order(v[1], v[2]);
    order(v[3], v[4]);
    order(v[5], v[6]);
    const int x = __vimin3_s32(v[6], max(v[5], q[0]), max(v[4], q[1]));
    return min(__vimin3_s32(x, max(v[3], q[2]), max(v[2], q[3])), max(v[1], q[4]));
}

/* Gets the triples of the lanes on both sides. */
__device__ __forceinline__ void neighbours(const int (&own)[3], int (&left)[3], int (&right)[3])
{
#pragma unroll
    for (int k = 0; k < 3; k++) {
        left[k] = __shfl_up_sync(~0u, own[k], 1);
        right[k] = __shfl_down_sync(~0u, own[k], 1);
    }
}

enum { MEDIAN_ROWS = 32, MEDIAN_PLANES = 4, MEDIAN_LANES = 30 };

/* A warp has 30 outputs along x (lanes 0 and 31 only supply their triples) and walks MEDIAN_ROWS rows along y; the
 * warps of a thread block are neighbours along z, so that most loads hit the L1 cache. `box` is at least one voxel
 * inside the image. */
template <class S>
__global__ void __launch_bounds__(32 * MEDIAN_PLANES)
    median27_kernel(vp_area in, vp_area out, struct vp_box box)
{
    const int lane = threadIdx.x;
    const int64_t x = box.lo[0] + (int64_t)blockIdx.x * MEDIAN_LANES + lane - 1;
    const int64_t z = box.lo[2] + (int64_t)blockIdx.z * MEDIAN_PLANES + threadIdx.y;
    const int64_t y0 = box.lo[1] + (int64_t)blockIdx.y * MEDIAN_ROWS;
    if (z >= box.hi[2])
        return; /* a whole warp */
    const int rows = (int)min((int64_t)MEDIAN_ROWS, box.hi[1] - y0);
    const bool stores = lane > 0 && lane < 31 && x < box.hi[0];
    /* lanes beyond the part read its last column; their triples are not used */
    const int64_t from = min(x, in.box.hi[0] - 1);
    const S *p = vp_at<S>(in, from, y0 - 1, z);
    S *q = vp_at<S>(out, x, y0, z);
    int s[3][9];

#pragma unroll 3
    for (int i = 0; i < rows + 2; i++) {
        int own[3] = {key(p[-in.plane]), key(p[0]), key(p[in.plane])}, left[3], right[3];
        p += in.pitch;
        order3(own[0], own[1], own[2]);
        neighbours(own, left, right);
#pragma unroll
        for (int k = 0; k < 9; k++) {
            s[0][k] = s[1][k];
            s[1][k] = s[2][k];
        }
        sort9(left, own, right, s[2]);
        if (i >= 2) {
            const int m = median27(s[0], s[1], s[2]);
            if (stores)
                *q = keys<S>::value(m);
            q += out.pitch;
        }
    }
}

__device__ __forceinline__ int median9(const int (&a)[3], const int (&b)[3], const int (&c)[3])
{
    return middle3(__vimax3_s32(a[0], b[0], c[0]), middle3(a[1], b[1], c[1]), __vimin3_s32(a[2], b[2], c[2]));
}

/* The same in a plane; the warps of a thread block are neighbours along y. */
template <class S>
__global__ void __launch_bounds__(32 * MEDIAN_PLANES) median9_kernel(vp_area in, vp_area out, struct vp_box box)
{
    const int lane = threadIdx.x;
    const int64_t x = box.lo[0] + (int64_t)blockIdx.x * MEDIAN_LANES + lane - 1, z = box.lo[2] + blockIdx.z;
    const int64_t y0 = box.lo[1] + ((int64_t)blockIdx.y * MEDIAN_PLANES + threadIdx.y) * MEDIAN_ROWS;
    if (y0 >= box.hi[1])
        return;
    const int rows = (int)min((int64_t)MEDIAN_ROWS, box.hi[1] - y0);
    const bool stores = lane > 0 && lane < 31 && x < box.hi[0];
    const S *p = vp_at<S>(in, min(x, in.box.hi[0] - 1), y0 - 1, z);
    S *q = vp_at<S>(out, x, y0, z);
    int a = key(p[0]), b = key(p[in.pitch]);

    p += 2 * in.pitch;
#pragma unroll 4
    for (int i = 0; i < rows; i++) {
        const int c = key(*p);
        int own[3] = {a, b, c}, left[3], right[3];
        order3(own[0], own[1], own[2]);
        neighbours(own, left, right);
        const int m = median9(left, own, right);
        if (stores)
            *q = keys<S>::value(m);
        a = b;
        b = c;
        p += in.pitch;
        q += out.pitch;
    }
}

/* The boxes along the edges of the image. */
struct faces {
    struct vp_box box[6];
    int64_t end[6]; /* voxels of the boxes up to and including this one */
};

/* The same for incomplete windows. If the result has rank q of the n samples that exist, the missing ones are replaced
 * by keys below and above all, in such numbers that the result is the median again. */

template <class S, bool PLANE>
__global__ void __launch_bounds__(128) median_edge_kernel(vp_area in, vp_area out, faces f, int64_t millionths)
{
    enum { DEPTH = PLANE ? 1 : 3, ALL = 9 * DEPTH };
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= f.end[5])
        return;
    struct vp_box b = f.box[0];
    int64_t begin = 0;
#pragma unroll
    for (int k = 1; k < 6; k++)
        if (i >= f.end[k - 1]) {
            b = f.box[k];
            begin = f.end[k - 1];
        }
    i -= begin;
    const int64_t nx = b.hi[0] - b.lo[0], ny = b.hi[1] - b.lo[1];
    const int64_t x = b.lo[0] + i % nx, y = b.lo[1] + i / nx % ny, z = b.lo[2] + i / nx / ny;
    int v[DEPTH][3][3];
    bool there[DEPTH][3][3];
    int n = 0;
#pragma unroll
    for (int k = 0; k < ALL; k++) {
        const int64_t sx = x + k % 3 - 1, sy = y + k / 3 % 3 - 1, sz = z + (PLANE ? 0 : k / 9 - 1);
        const bool is = sx >= in.box.lo[0] && sx < in.box.hi[0] && sy >= in.box.lo[1] && sy < in.box.hi[1] &&
                        sz >= in.box.lo[2] && sz < in.box.hi[2];
        there[k / 9][k / 3 % 3][k % 3] = is;
        n += is;
        v[k / 9][k / 3 % 3][k % 3] = is ? key(*vp_at<S>(in, sx, sy, sz)) : 0;
    }
    int low = ALL / 2 - (int)vp_rank_index(millionths, n);
#pragma unroll
    for (int k = 0; k < ALL; k++)
        if (!there[k / 9][k / 3 % 3][k % 3])
            v[k / 9][k / 3 % 3][k % 3] = low-- > 0 ? (int)keys<S>::LEAST : (int)keys<S>::MOST;
    int s[DEPTH][9];
#pragma unroll
    for (int k = 0; k < DEPTH; k++) {
#pragma unroll
        for (int r = 0; r < 3; r++)
            order3(v[k][r][0], v[k][r][1], v[k][r][2]);
        if (!PLANE)
            sort9(v[k][0], v[k][1], v[k][2], s[k]);
    }
    const int m = PLANE ? median9(v[0][0], v[0][1], v[0][2]) : median27(s[0], s[DEPTH / 2], s[DEPTH - 1]);
    *vp_at<S>(out, x, y, z) = keys<S>::value(m);
}

}
