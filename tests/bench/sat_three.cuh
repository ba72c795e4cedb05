/* SPDX-License-Identifier: BSD-3-Clause */
/* Summed area tables by reduce-then-scan, without look-back: a baseline for sat_gpu.cu alone. sums_kernel reduces every
 * tile to the sums of its rows and its last row; rows_kernel and columns_kernel scan these along x and y; table_kernel
 * reads the samples again and stores the table. No block waits for another. Tiles and the order of additions are those
 * of cuda/sat.cuh, so the bits are the same. */
#pragma once

#include "sat.cuh"

namespace vp
{
namespace three
{

using namespace sat;

/* Intermediate sums, each with per_plane elements a plane: b, then h of the rows ([tile along x][row]); the last rows
 * of tiles, and p above tiles (both [tile along y][column]). */
struct pass_sums { void *rows, *ends, *above; int64_t per_plane; };

template <class A> __device__ __forceinline__ A *of_plane(void *p, const pass_sums &m, int64_t plane)
{
    return (A *)p + plane * m.per_plane;
}

__device__ __forceinline__ tile_place tile_of(const table_job &j, unsigned n)
{
    const unsigned tiles = j.tiles_x * j.tiles_y;
    return tile_place{(int)(n % tiles % j.tiles_x), (int)(n % tiles / j.tiles_x), n / tiles, true};
}

template <class In, class A, int WARPS, bool SQUARE>
__global__ void __launch_bounds__(32 * WARPS, WARPS > BASE_WARPS ? 2 : 3)
    sums_kernel(const table_job j, const pass_sums m)
{
    constexpr int R = tile_shape<In, A>::rows, TW = tile_columns<In, A>();
    extern __shared__ __align__(16) char staged[];
    __shared__ shared_sums<In, A, WARPS> s;
    const tile_place tile = tile_of(j, blockIdx.x);
    load_tile<In, A, WARPS>(j, tile, staged);
    thread_tile<In, A, WARPS, SQUARE> t(staged);
    copies_wait<0>();
    __syncwarp();
    A own = t.sum_columns(s);
    __syncthreads();
    t.sum_above(s);
    own = t.row_prefix(s, own);
    if (t.lane < R)
        of_plane<A>(m.rows, m, tile.plane)
            [(int64_t)tile.x * j.padded_rows + (tile.y * WARPS + t.warp) * R + t.lane] = own;
    if (t.warp < WARPS - 1)
        return;
    A last[t.G][LANE_COLUMNS];
    t.last_row(last);
    for (int g = 0; g < t.G; g++)
        s.store(of_plane<A>(m.ends, m, tile.plane) + (int64_t)tile.y * j.padded_columns + tile.x * TW, g, t.lane,
                last[g]);
}

template <class A> __global__ void __launch_bounds__(64) rows_kernel(const table_job j, const pass_sums m)
{
    enum { AHEAD = 8 };
    const unsigned y = blockIdx.x * 64 + threadIdx.x;
    A *const rows = of_plane<A>(m.rows, m, blockIdx.y) + y;
    A sum = 0, next[AHEAD];
    if (y >= j.padded_rows)
        return;
    for (unsigned x0 = 0; x0 < j.tiles_x; x0 += AHEAD) {
#pragma unroll
        for (unsigned i = 0; i < AHEAD; i++)
            next[i] = x0 + i < j.tiles_x ? rows[(int64_t)(x0 + i) * j.padded_rows] : (A)0;
#pragma unroll
        for (unsigned i = 0; i < AHEAD; i++)
            if (x0 + i < j.tiles_x) {
                rows[(int64_t)(x0 + i) * j.padded_rows] = sum;
                sum += next[i];
            }
    }
}

template <class A> __global__ void __launch_bounds__(64)
    columns_kernel(const table_job j, const pass_sums m, int rows_of_tile, int columns_of_tile)
{
    enum { AHEAD = 8 };
    const unsigned x = blockIdx.x * 64 + threadIdx.x;
    const A *const ends = of_plane<A>(m.ends, m, blockIdx.y) + x;
    const A *const h =
        of_plane<A>(m.rows, m, blockIdx.y) + (int64_t)(x / columns_of_tile) * j.padded_rows + rows_of_tile - 1;
    A *const above = of_plane<A>(m.above, m, blockIdx.y) + x;
    A last[AHEAD];
    if (x >= j.padded_columns)
        return;
    const int64_t column = column_of<A>(x);
    A p = !j.volume && !j.no_carry && column < j.nx ? ((const A *)j.carry)[column] : (A)0;
    for (unsigned y0 = 0; y0 < j.tiles_y; y0 += AHEAD) {
#pragma unroll
        for (unsigned i = 0; i < AHEAD; i++)
            last[i] = y0 + i < j.tiles_y
                          ? ends[(int64_t)(y0 + i) * j.padded_columns] + h[(int64_t)(y0 + i) * rows_of_tile] : (A)0;
#pragma unroll
        for (unsigned i = 0; i < AHEAD; i++)
            if (y0 + i < j.tiles_y) {
                above[(int64_t)(y0 + i) * j.padded_columns] = p;
                p = p + last[i];
            }
    }
}

template <class In, class A, class Out, int WARPS, bool SQUARE>
__global__ void __launch_bounds__(32 * WARPS, blocks_per_sm<In, A, Out, WARPS>())
    table_kernel(const table_job j, const pass_sums m)
{
    constexpr int R = tile_shape<In, A>::rows, TW = tile_columns<In, A>();
    extern __shared__ __align__(16) char staged[];
    __shared__ shared_sums<In, A, WARPS> s;
    const tile_place tile = tile_of(j, blockIdx.x);
    load_tile<In, A, WARPS>(j, tile, staged);
    thread_tile<In, A, WARPS, SQUARE> t(staged);
    if (t.lane < R)
        s.left[t.warp][t.lane] =
            of_plane<A>(m.rows, m, tile.plane)
                [(int64_t)tile.x * j.padded_rows + (tile.y * WARPS + t.warp) * R + t.lane];
    for (int c = threadIdx.x; c < TW; c += 32 * WARPS)
        s.above[c] = of_plane<A>(m.above, m, tile.plane)[(int64_t)tile.y * j.padded_columns + tile.x * TW + c];
    copies_wait<0>();
    __syncwarp();
    t.sum_columns(s);
    __syncthreads();
    t.sum_above(s);
    if (t.warp == WARPS - 1) {
        A last[t.G][LANE_COLUMNS];
        t.last_row(last);
        for (int g = 0; g < t.G; g++) {
            for (int k = 0; k < LANE_COLUMNS; k++)
                last[g][k] = last[g][k] + s.left[t.warp][R - 1];
            s.store(s.column_sum[WARPS - 1], g, t.lane, last[g]);
        }
    }
    t.template store_rows<Out>(j, tile, s);
}

/* ---- launching ---- */

struct pass_sizes { int64_t rows, ends, per_plane; };

template <class In, class A> pass_sizes pass_sizes_of(const table_sizes &s)
{
    const int64_t rows = s.tiles_x * s.padded_rows, ends = s.tiles_y * s.padded_columns;
    return {rows, ends, rows + 2 * ends};
}

template <class In, class A, int WARPS> uint64_t bytes_of(const struct vp_sat *p, const int64_t out[3])
{
    const table_sizes s = table_sizes_of<In, A, WARPS>(out[0], p->volume ? out[1] : out[2], p->volume ? out[2] : 1);
    return (uint64_t)(pass_sizes_of<In, A>(s).per_plane * (p->volume ? out[2] : 1)) * sizeof(A);
}

template <class In, class A, class Out, int WARPS, bool SQUARE>
int run(const table_part &made, const struct vp_work *args, struct vp_err *err)
{
    const cudaStream_t stream = args->queue->stream;
    table_job j = {made};
    const table_sizes s = table_sizes_of<In, A, WARPS>(j.nx, j.ny, j.planes);
    const pass_sizes r = pass_sizes_of<In, A>(s);
    set_tiles<In, A>(j, s);
    pass_sums m = {args->scratch, (A *)args->scratch + r.rows, (A *)args->scratch + r.rows + r.ends, r.per_plane};
    const size_t shared = sizeof(In) * tile_rows<In, A, WARPS>() * tile_columns<In, A>();
    const unsigned planes = (unsigned)j.planes; /* at most 65535, the limit of a grid */
    const dim3 tiles((unsigned)(s.tiles_x * s.tiles_y) * planes), block(32 * WARPS);
    if (vp_start(err, stream, sums_kernel<In, A, WARPS, SQUARE>, tiles, block, shared, j, m)
        || vp_start(err, stream, rows_kernel<A>, dim3((j.padded_rows + 63) / 64, planes), dim3(64), 0, j, m)
        || vp_start(err, stream, columns_kernel<A>, dim3((j.padded_columns + 63) / 64, planes), dim3(64), 0, j, m,
                    tile_rows<In, A, WARPS>(), tile_columns<In, A>())
        || vp_start(err, stream, table_kernel<In, A, Out, WARPS, SQUARE>, tiles, block, shared, j, m))
        return -1;
    return j.volume ? accumulate<A, Out>(j, stream, err) : 0;
}

} // namespace three
} // namespace vp
