/* SPDX-License-Identifier: BSD-3-Clause */
/* Back-projection on any device from compute capability 8.0 on, and the packing of projections for all kernels. */
#include <limits.h>

#include "backproject_matrix.cuh"
#include "launch.cuh"

namespace vp
{
namespace
{

/* ---- packing ---- */

/* Overview: one thread for each column of texels, u fastest; blockIdx.y selects PACK_ROWS rows of a slot, blockIdx.z
 *   the slots.
 * Global memory: reads each projection once (rows from both ends for the mirror), writes each texel once; if only one
 *   of the two views of an orbit is given, it writes half of each texel.
 * Cost: 8 bytes a detector pixel, at copy speed. */
constexpr int PACK_ROWS = 8;

/* PAIRS: channel z of a view is q(u + z). */
template <int R, int Z, bool PAIRS> __global__ void __launch_bounds__(256) k_backproject_pack(const pack_args a)
{
    const int column = (int)(blockIdx.x * blockDim.x + threadIdx.x), u = column - a.pad_u;
    if (column >= a.pitch)
        return;
    for (int o = (int)blockIdx.z; o < a.n; o += (int)gridDim.z) {
        float *slot = a.packed + (a.slot + o) * a.slot_floats;
        const float *q[R];
#pragma unroll
        for (int b = 0; b < R; b++)
            q[b] = a.q[b] ? a.q[b] + (int64_t)o * a.nu * a.given + u : NULL;
        const auto load = [](const float *p) { return PAIRS ? __ldg(p) : __ldcs(p); };
        const int row0 = (int)blockIdx.y * PACK_ROWS;
        float value[PACK_ROWS][R][Z];
#pragma unroll
        for (int n = 0; n < PACK_ROWS; n++) {
            const int v = row0 + n + a.row_base;
#pragma unroll
            for (int z = 0; z < Z; z++) {
                const int at = a.flip >> z & 1 ? a.nv - 1 - v : v, beside = PAIRS ? z : 0;
                const int row = max(a.margin, min(at, a.nv - 1 - a.margin)) - a.given_first;
                const bool inside = (unsigned)(u + beside) < (unsigned)a.nu && v >= 0 && v < a.nv
                                    && (unsigned)row < (unsigned)a.given;
#pragma unroll
                for (int b = 0; b < R; b++)
                    value[n][b][z] = inside && q[b] ? load(q[b] + (int64_t)row * a.nu + beside) : 0;
            }
        }
#pragma unroll
        for (int n = 0; n < PACK_ROWS; n++) {
            if (row0 + n >= a.rows)
                break;
            float *to = slot + ((int64_t)(row0 + n) * a.pitch + column) * (R * Z);
            if (R == 2 && q[0] && q[R - 1]) {
                if constexpr (R == 2 && Z == 2)
                    *reinterpret_cast<float4 *>(to) =
                        make_float4(value[n][0][0], value[n][0][1], value[n][1][0], value[n][1][1]);
                else if constexpr (R == 2)
                    *reinterpret_cast<float2 *>(to) = make_float2(value[n][0][0], value[n][1][0]);
                continue;
            }
#pragma unroll
            for (int b = 0; b < R; b++)
                if (q[b]) {
                    if constexpr (Z == 2)
                        *reinterpret_cast<float2 *>(to + b * Z) = make_float2(value[n][b][0], value[n][b][1]);
                    else
                        to[b] = value[n][b][0];
                }
        }
    }
}

/* ---- columns ---- */

/* Overview: 256 threads for 16 x 16 columns (times R rotated copies) by K slices (times Z mirror slices), one column
 *   piece a thread, R Z K sums in registers for all views of the launch.
 * Global memory: detector texels through the L1 cache; the packed slots have a margin of zero texels wider than the
 *   window, so positions outside the detector are clamped, not tested.
 * Cost: that of the tensor-tile kernel and the address arithmetic; bound by L1 wavefronts. Measured on
 *   an H100 (512^2 x 1024 -> 512^3, packing included, in 2^30 updates a second): 1818 with both
 *   symmetries, 1506 mirror only, 1009 without; 1014 at s = 2, 2556 at s = 0.5.
 * Limits: s within the bins of Method. */
template <int R, int Z, int K, class Method>
__global__ void __launch_bounds__(256, R *Z == 1    ? 4
                                       : R * Z == 2 ? 3
                                                    : 2)
    k_backproject_column(const __grid_constant__ column_args a, int lo, int hi)
{
    constexpr int M = R * Z;
    const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
    const spot place = spot_of<K, 2, 4>(a, tile_of(a, (int)blockIdx.x), warp, lane);
    if (!__any_sync(~0u, place.mine))
        return;
    float sum[R][Z][K];
    load_sums(a.out, a.nz, place, sum);

    const int64_t slot = (int64_t)a.rows * a.pitch;
    const texel<M> *packed = reinterpret_cast<const texel<M> *>(a.packed) + a.slot * slot;
    each_landing<R>(a, place, {a.nu, a.nv, lo, hi, false}, [&](auto copy, const landing &l, int o, auto &&next) {
        constexpr int COPY = decltype(copy)::value;
        if (l.skip) {
            next.all();
            return;
        }
        const int u = min(max(l.u, -2), a.nu) + 2, v = min(max(l.v - a.row_base + a.pad, -lo), a.rows - 1 - hi);
        const texel_rows<M, 0, true> rows{packed + o * slot + (int64_t)v * a.pitch + u, a.pitch};
        Method::template apply<COPY>(rows, l, sum, next);
    });
    store_sums(a.out, a.nz, place, sum);
}

/* ---- general matrices ---- */

/* Overview: 256 threads for 16 x 16 columns of 16 slices, one column piece a thread (matrix_landing).
 * Global memory: two 8-byte loads an update from a slot with a zero margin. A warp whose pieces lie inside the detector
 *   addresses it directly, any other clamps to the margin.
 * Cost: about 40 instructions an update; measured 580 on an H100 (512^2 x 1024 -> 512^3).
 * Limits: w > 1 / 1024 in the whole grid. */
__global__ void __launch_bounds__(256, 3) k_backproject_matrix(const __grid_constant__ matrix_args a)
{
    const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
    const spot place = spot_of<MATRIX_K, 2, 4>(a, tile_of(a, (int)blockIdx.x), warp, lane);
    if (!__any_sync(~0u, place.mine))
        return;
    float sum[1][1][MATRIX_K];
    load_sums(a.out, 0, place, sum);

    const int64_t slot = (int64_t)a.rows * a.pitch;
    const float2 *packed = reinterpret_cast<const float2 *>(a.packed) + a.slot * slot;
#pragma unroll 1
    for (int o = 0; o < a.n; o++, packed += slot) {
        const matrix_landing l = matrix_land(a.view[o], place);
        /* u and v are monotonic along the piece, so testing its ends suffices; one texel of margin covers rounding */
        bool inside = true;
#pragma unroll
        for (int end = -1; end <= 1; end += 2) {
            const float q = end * 0.5f * (MATRIX_K - 1), step = q / fmaf(q, l.dw, l.w);
            const float u = (float)l.u + fmaf(l.a, step, l.fu), v = (float)l.v + fmaf(l.b, step, l.fv);
            inside = inside && u >= 0 && u < (float)(a.nu - 1) && v >= 0 && v < (float)(a.nv - 1);
        }
        if (__all_sync(~0u, inside)) {
            const float2 *middle = packed + (int64_t)(l.v + MATRIX_PAD) * a.pitch + (l.u + MATRIX_PAD);
            matrix_march<false>(l, sum[0][0], [&](int u, int v, float2 &low, float2 &high) {
                const float2 *p = middle + (v - FLOOR_BITS) * a.pitch + (u - FLOOR_BITS);
                low = __ldg(p);
                high = __ldg(p + a.pitch);
            });
        } else {
            matrix_march<false>(l, sum[0][0], [&](int u, int v, float2 &low, float2 &high) {
                const int cu = min(max(l.u + (u - FLOOR_BITS), -MATRIX_PAD), a.nu) + MATRIX_PAD;
                const int cv = min(max(l.v + (v - FLOOR_BITS), -MATRIX_PAD), a.nv) + MATRIX_PAD;
                const float2 *p = packed + (int64_t)cv * a.pitch + cu;
                low = __ldg(p);
                high = __ldg(p + a.pitch);
            });
        }
    }
    store_sums(a.out, 0, place, sum);
}

/* Overview: the definition in float64, a thread for each piece of MATRIX_K voxels; no assumption about the matrices.
 * Cost: some 60 float64 operations an update. For volumes that reach the source, and for tests. */
__global__ void __launch_bounds__(256) k_backproject_plain(const __grid_constant__ matrix_args a)
{
    spot place = spot_of<MATRIX_K, 2, 4>(a, tile_of(a, (int)blockIdx.x), threadIdx.x >> 5, threadIdx.x & 31);
    float sum[1][1][MATRIX_K];
    load_sums(a.out, 0, place, sum);
    const int64_t slot = (int64_t)a.rows * a.pitch;
    const float2 *packed =
        reinterpret_cast<const float2 *>(a.packed) + a.slot * slot + (int64_t)MATRIX_PAD * a.pitch + MATRIX_PAD;
    for (int o = 0; o < a.n; o++, packed += slot)
#pragma unroll
        for (int k = 0; k < MATRIX_K; k++) {
            place.k_mid = place.k0 + k;
            const double *m = a.view[o].m, w = matrix_row(m + 8, place), r = 1 / w;
            const double u = matrix_row(m, place) * r, v = matrix_row(m + 4, place) * r;
            if (!(w > NEAREST && u > -1 && u < a.nu && v > -1 && v < a.nv))
                continue;
            const double right = u - floor(u), up = v - floor(v);
            const float2 *p = packed + (int64_t)floor(v) * a.pitch + (int64_t)floor(u);
            const float2 low = p[0], high = p[a.pitch];
            const double p0 = (1 - right) * low.x + right * low.y, p1 = (1 - right) * high.x + right * high.y;
            sum[0][0][k] = (float)(sum[0][0][k] + r * r * ((1 - up) * p0 + up * p1));
        }
    store_sums(a.out, 0, place, sum);
}

/* ---- extents ---- */

/* Computes the largest extent of tiles in texels: corner k of CORNERS of tile `at` lies within the texels low ... high
 * that corner(at, k, low, high) sets; MORE further rows belong to it. */
template <int CORNERS, int MORE, class Corner>
__device__ __forceinline__ void find_extents(int64_t tiles, int *extent, const Corner &corner)
{
    int2 most = {0, 0};
    for (int64_t at = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; at < tiles;
         at += (int64_t)gridDim.x * blockDim.x) {
        int2 lowest = {INT_MAX, INT_MAX}, highest = {INT_MIN, INT_MIN};
        for (int k = 0; k < CORNERS; k++) {
            int2 low, high;
            corner(at, k, low, high);
            lowest = make_int2(min(lowest.x, low.x), min(lowest.y, low.y));
            highest = make_int2(max(highest.x, high.x), max(highest.y, high.y));
        }
        most = make_int2(max(most.x, highest.x - lowest.x + 2), max(most.y, highest.y - lowest.y + MORE));
    }
    atomicMax(&extent[0], most.x);
    atomicMax(&extent[1], most.y);
}

/* Overview: one thread for each tile and view; the tile's corners at the first and the last segment bound all
 * others. */
__global__ void __launch_bounds__(256)
    k_column_extent(const __grid_constant__ column_args a, int tile_x, int tile_y, int K, int last_segment, int *extent)
{
    find_extents<4, 1>((int64_t)a.tiles_x * a.tiles_y * a.n * 4, extent, [&](int64_t at, int k, int2 &low, int2 &high) {
        const tile t = tile_of(a, (int)(at / 4 / a.n));
        spot place = spot_at<1>(a, t.x * tile_x + (k & 1) * (tile_x - 1), t.y * tile_y + (k >> 1) * (tile_y - 1), 0);
        if (at & 1)
            place.x = -place.x, place.y = -place.y;
        place.k_mid = (at & 2 ? last_segment : 0) * K + 0.5 * (K - 1);
        double u, v;
        project(a.view[at / 4 % a.n], place, u, v);
        low = make_int2(whole(u - TILE_MARGIN), whole(v - TILE_MARGIN));
        high = make_int2(whole(u + TILE_MARGIN), whole(v + TILE_MARGIN));
    });
}

__global__ void __launch_bounds__(256) k_matrix_extent(const __grid_constant__ matrix_args a, int *extent)
{
    const int64_t all = (int64_t)a.tiles_x * a.tiles_y * a.segments * a.n;
    find_extents<8, 2>(all, extent, [&](int64_t at, int k, int2 &low, int2 &high) {
        const spot place = matrix_corner(a, tile_of(a, (int)(at / a.n)), k);
        low = matrix_texel(a.view[at % a.n], place, -TILE_MARGIN);
        high = matrix_texel(a.view[at % a.n], place, TILE_MARGIN);
    });
}

/* ---- choice and launch ---- */

template <column_set SET> struct slices8 : method<8, bins<>> {
};
template <> struct slices8<SET_HALF> : method<8, bins<bin<2, 5, 4, 7>, bin<4, 7, 2, 3>>> {
};
template <>
struct slices8<SET_UNIT>
    : method<8, bins<bin<2, 3, 4, 5>, bin<4, 5, 6, 7>, bin<6, 7, 8, 7>, bin<8, 7, 6, 5>, bin<6, 5, 4, 3>>> {
};
template <>
struct slices8<SET_DOUBLE>
    : method<8, bins<bin<8, 5, 12, 7>, bin<12, 7, 2, 1>, bin<2, 1, 16, 7>, bin<16, 7, 12, 5>, bin<12, 5, 8, 3>>> {
};
template <> struct slices8<SET_QUARTER> : method<8, bins<bin<0, 1, 2, 7>, bin<2, 7, 2, 5>>> {
};

/* Returns the grid of blocks of 256 for `threads` threads, with a limit: kernels stride over the rest. */
dim3 blocks_for(int64_t threads)
{
    return dim3((unsigned)vp_min64(vp_div_up(threads, 256), 1 << 14));
}

/* Returns a grid with a block for each tile of columns and segment. */
template <class Args> dim3 tiles_of(const Args &a)
{
    return dim3((unsigned)(a.tiles_x * a.tiles_y * a.segments));
}

} // namespace

void column_portable(int views, int channels_z, column_set set, column_kernel *k)
{
    *k = column_kernel{};
    k->views = views, k->channels_z = channels_z, k->set = set, k->K = 8, k->tile_x = k->tile_y = 16;
    k->batch = VIEW_BATCH;
    with_variant(1, 1, set, [=](auto, auto, auto s) { describe_bins<slices8<decltype(s)::value>>(k); });
}

cudaError_t launch_column_portable(const column_kernel &k, const column_args &a, cudaStream_t stream)
{
    return with_variant(k.views, k.channels_z, k.set, [&](auto r, auto z, auto s) {
        return vp_launch(stream,
                         k_backproject_column<decltype(r)::value, decltype(z)::value, 8, slices8<decltype(s)::value>>,
                         tiles_of(a), dim3(256), 0, a, k.lo, k.hi);
    });
}

cudaError_t launch_pack(const pack_args &a, cudaStream_t stream)
{
    const dim3 blocks((unsigned)vp_div_up(a.pitch, 256), (unsigned)vp_div_up(a.rows, PACK_ROWS),
                      (unsigned)vp_min64(a.n, 65535));
    const auto kernel = a.pairs                              ? k_backproject_pack<1, 2, true>
                        : a.views == 1 && a.channels_z == 1 ? k_backproject_pack<1, 1, false>
                        : a.views == 1                      ? k_backproject_pack<1, 2, false>
                        : a.channels_z == 1                 ? k_backproject_pack<2, 1, false>
                                                            : k_backproject_pack<2, 2, false>;
    return vp_launch(stream, kernel, blocks, dim3(256), 0, a);
}

cudaError_t launch_column_extent(const column_kernel &k, const column_args &a, int last_segment, int *extent,
                                 cudaStream_t stream)
{
    return vp_launch(stream, k_column_extent, blocks_for((int64_t)a.tiles_x * a.tiles_y * a.n * 4), dim3(256), 0, a,
                     k.tile_x, k.tile_y, k.K, last_segment, extent);
}

cudaError_t launch_matrix_portable(const matrix_args &a, bool plain, cudaStream_t stream)
{
    return vp_launch(stream, plain ? k_backproject_plain : k_backproject_matrix, tiles_of(a), dim3(256), 0, a);
}

cudaError_t launch_matrix_extent(const matrix_args &a, int *extent, cudaStream_t stream)
{
    return vp_launch(stream, k_matrix_extent, blocks_for((int64_t)a.tiles_x * a.tiles_y * a.segments * a.n), dim3(256),
                     0, a, extent);
}

} // namespace vp
