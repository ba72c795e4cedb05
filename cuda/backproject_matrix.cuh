/* SPDX-License-Identifier: BSD-3-Clause */
/* Device code of the kernels for general 3x4 matrices. */
#pragma once

#include "backproject_column.cuh"

namespace vp
{

/* Projection of the middle of a piece of MATRIX_K voxels: texel (u, v) with fractions fu, fv. q voxels above it w is
 * w + q dw, and u and v differ by exactly q a / (w + q dw) and q b / (w + q dw). */
struct matrix_landing {
    int u, v;
    float fu, fv, a, b, w, dw;
};

__device__ __forceinline__ double matrix_row(const double *m, const spot &s)
{
    return fma(m[0], s.x, fma(m[1], s.y, fma(m[2], s.k_mid, m[3])));
}

__device__ __forceinline__ matrix_landing matrix_land(const matrix_view &view, const spot &s)
{
    const double w = matrix_row(view.m + 8, s), r = reciprocal(w);
    const double u = matrix_row(view.m, s) * r, v = matrix_row(view.m + 4, s) * r;
    const double su = u + SPLIT, sv = v + SPLIT;
    return {whole(su),
            whole(sv),
            fraction(su),
            fraction(sv),
            (float)fma(-u, view.m[10], view.m[2]),
            (float)fma(-v, view.m[10], view.m[6]),
            (float)w,
            (float)view.m[10]};
}

/* Added with rounding down it leaves floor(x) in the low bits, |x| < 2^22. */
constexpr float FLOOR_SPLIT = 12582912.0f;
constexpr int FLOOR_BITS = 0x4B400000;

__device__ __forceinline__ float fast_reciprocal(float x)
{
    float r;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
    return r;
}

/* Adds a view to the sums of a piece. load(u, v, low, high) loads the pairs at texels (u, v) and (u, v + 1), relative
 * to the middle's texel; u and v are the bits of a float, too large by FLOOR_BITS. LEVEL: dw is 0. */
template <bool LEVEL, class Load>
__device__ __forceinline__ void matrix_march(const matrix_landing &l, float (&sum)[MATRIX_K], Load load)
{
    const float r0 = fast_reciprocal(l.w), a0 = l.a * r0, b0 = l.b * r0, weight0 = r0 * r0;
#pragma unroll
    for (int k = 0; k < MATRIX_K; k++) {
        const float q = (float)k - 0.5f * (MATRIX_K - 1);
        float u, v, weight;
        if (LEVEL) {
            u = fmaf(q, a0, l.fu), v = fmaf(q, b0, l.fv), weight = weight0;
        } else {
            const float r = fast_reciprocal(fmaf(q, l.dw, l.w)), step = q * r;
            u = fmaf(l.a, step, l.fu), v = fmaf(l.b, step, l.fv), weight = r * r;
        }
        const float us = __fadd_rd(u, FLOOR_SPLIT), vs = __fadd_rd(v, FLOOR_SPLIT);
        const float right = u - (us - FLOOR_SPLIT), up = v - (vs - FLOOR_SPLIT);
        float2 low, high;
        load(__float_as_int(us), __float_as_int(vs), low, high);
        const float p0 = fmaf(right, low.y - low.x, low.x), p1 = fmaf(right, high.y - high.x, high.x);
        sum[k] = fmaf(weight, fmaf(up, p1 - p0, p0), sum[k]);
    }
}

/* Returns corner lane % 8 of the block of voxels of a tile. */
__device__ __forceinline__ spot matrix_corner(const matrix_args &a, const tile &t, int lane)
{
    return spot_at<1>(a, t.x * MATRIX_TILE + (lane & 1) * (MATRIX_TILE - 1),
                      t.y * MATRIX_TILE + (lane >> 1 & 1) * (MATRIX_TILE - 1),
                      t.segment * MATRIX_K + (lane >> 2 & 1) * (MATRIX_K - 1));
}

__device__ __forceinline__ int2 matrix_texel(const matrix_view &view, const spot &s, double margin)
{
    const double r = reciprocal(matrix_row(view.m + 8, s));
    return make_int2(whole(fma(matrix_row(view.m, s), r, SPLIT + margin)),
                     whole(fma(matrix_row(view.m + 4, s), r, SPLIT + margin)));
}

} // namespace vp
