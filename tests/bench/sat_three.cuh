/* SPDX-License-Identifier: BSD-3-Clause */
/* The three passes of summed area tables as they were made before carries went through one: first every tile tells
 * the sums of its rows, and its last row (sums_kernel), then these are added up along x (rows_kernel) and down the
 * image (columns_kernel), which are small; then every tile is made once more, now with what is left of it and above
 * it (table_kernel). The samples are read twice, and nobody waits for anybody. Tiles are those of cuda/sat.cuh, in
 * the same order of additions, so the bits are the same. For sat_gpu.cu alone. */
#ifndef VP_SAT_THREE_CUH
#define VP_SAT_THREE_CUH

#include "sat.cuh"

namespace vp
{
namespace three
{

using namespace sat;

/* What the kernels share, of each plane: the sums of the rows of tiles, then of all to the left (across x high); the
 * last rows of tiles, and what is above them (down x wide). */
struct sums { void *rows, *ends, *above; int64_t per_plane; };

template <class A> __device__ __forceinline__ A *of_plane(void *p, const sums &m, int64_t plane)
{
    return (A *)p + plane * m.per_plane;
}

__device__ __forceinline__ place tile_of(const job &j, unsigned n)
{
    const unsigned tiles = j.across * j.down;
    return place{(int)(n % tiles % j.across), (int)(n % tiles / j.across), n / tiles, true};
}

template <class In, class A, int WARPS, bool SQUARE>
__global__ void __launch_bounds__(32 * WARPS, WARPS > FEW ? 2 : 3) sums_kernel(const job j, const sums m)
{
    constexpr int R = shape<In, A>::rows, TW = wide<In, A>();
    extern __shared__ __align__(16) char waiting[];
    __shared__ common<In, A, WARPS> s;
    const place tile = tile_of(j, blockIdx.x);
    ask<In, A, WARPS>(j, tile, waiting);
    piece<In, A, WARPS, SQUARE> t(waiting);
    copies_wait<0>();
    __syncwarp();
    A own = t.go_down(s);
    __syncthreads();
    t.take_above(s);
    own = t.sum_along(s, own);
    if (t.lane < R)
        of_plane<A>(m.rows, m, tile.plane)[(int64_t)tile.x * j.high + (tile.y * WARPS + t.warp) * R + t.lane] = own;
    if (t.warp < WARPS - 1)
        return;
    A end[t.G][EACH];
    t.end(end);
    for (int g = 0; g < t.G; g++)
        s.put(of_plane<A>(m.ends, m, tile.plane) + (int64_t)tile.y * j.wide + tile.x * TW, g, t.lane, end[g]);
}

template <class A> __global__ void __launch_bounds__(64) rows_kernel(const job j, const sums m)
{
    enum { AHEAD = 8 };
    const unsigned y = blockIdx.x * 64 + threadIdx.x;
    A *const rows = of_plane<A>(m.rows, m, blockIdx.y) + y;
    A sum = 0, next[AHEAD];
    if (y >= j.high)
        return;
    for (unsigned x0 = 0; x0 < j.across; x0 += AHEAD) {
#pragma unroll
        for (unsigned i = 0; i < AHEAD; i++)
            next[i] = x0 + i < j.across ? rows[(int64_t)(x0 + i) * j.high] : (A)0;
#pragma unroll
        for (unsigned i = 0; i < AHEAD; i++)
            if (x0 + i < j.across) {
                rows[(int64_t)(x0 + i) * j.high] = sum;
                sum += next[i];
            }
    }
}

template <class A> __global__ void __launch_bounds__(64) columns_kernel(const job j, const sums m, int tile_high, int tile_wide)
{
    enum { AHEAD = 8 };
    const unsigned x = blockIdx.x * 64 + threadIdx.x;
    const A *const ends = of_plane<A>(m.ends, m, blockIdx.y) + x;
    const A *const h = of_plane<A>(m.rows, m, blockIdx.y) + (int64_t)(x / tile_wide) * j.high + tile_high - 1;
    A *const above = of_plane<A>(m.above, m, blockIdx.y) + x;
    A end[AHEAD];
    if (x >= j.wide)
        return;
    const int64_t column = column_of<A>(x);
    A p = !j.volume && !j.nothing && column < j.nx ? ((const A *)j.carried)[column] : (A)0;
    for (unsigned y0 = 0; y0 < j.down; y0 += AHEAD) {
#pragma unroll
        for (unsigned i = 0; i < AHEAD; i++)
            end[i] = y0 + i < j.down ? ends[(int64_t)(y0 + i) * j.wide] + h[(int64_t)(y0 + i) * tile_high] : (A)0;
#pragma unroll
        for (unsigned i = 0; i < AHEAD; i++)
            if (y0 + i < j.down) {
                above[(int64_t)(y0 + i) * j.wide] = p;
                p = p + end[i];
            }
    }
}

template <class In, class A, class Out, int WARPS, bool SQUARE>
__global__ void __launch_bounds__(32 * WARPS, blocks<In, A, Out, WARPS>()) table_kernel(const job j, const sums m)
{
    constexpr int R = shape<In, A>::rows, TW = wide<In, A>();
    extern __shared__ __align__(16) char waiting[];
    __shared__ common<In, A, WARPS> s;
    const place tile = tile_of(j, blockIdx.x);
    ask<In, A, WARPS>(j, tile, waiting);
    piece<In, A, WARPS, SQUARE> t(waiting);
    if (t.lane < R)
        s.left[t.warp][t.lane] =
            of_plane<A>(m.rows, m, tile.plane)[(int64_t)tile.x * j.high + (tile.y * WARPS + t.warp) * R + t.lane];
    for (int c = threadIdx.x; c < TW; c += 32 * WARPS)
        s.above[c] = of_plane<A>(m.above, m, tile.plane)[(int64_t)tile.y * j.wide + tile.x * TW + c];
    copies_wait<0>();
    __syncwarp();
    t.go_down(s);
    __syncthreads();
    t.take_above(s);
    if (t.warp == WARPS - 1) {
        A end[t.G][EACH];
        t.end(end);
        for (int g = 0; g < t.G; g++) {
            for (int k = 0; k < EACH; k++)
                end[g][k] = end[g][k] + s.left[t.warp][R - 1];
            s.put(s.sum_of[WARPS - 1], g, t.lane, end[g]);
        }
    }
    t.template make<Out>(j, tile, s);
}

/* ---- launching ---- */

struct room { int64_t rows, ends, per_plane; };

template <class In, class A> room room_of(const sizes &s)
{
    const int64_t rows = s.across * s.high, ends = s.down * s.wide;
    return {rows, ends, rows + 2 * ends};
}

template <class In, class A, int WARPS> uint64_t bytes_of(const struct vp_sat *p, const int64_t out[3])
{
    const sizes s = sizes_of<In, A, WARPS>(out[0], p->volume ? out[1] : out[2], p->volume ? out[2] : 1);
    return (uint64_t)(room_of<In, A>(s).per_plane * (p->volume ? out[2] : 1)) * sizeof(A);
}

template <class In, class A, class Out, int WARPS, bool SQUARE>
int run(const part &made, const struct vp_work *args, struct vp_err *err)
{
    const cudaStream_t stream = args->queue->stream;
    job j = {made};
    const sizes s = sizes_of<In, A, WARPS>(j.nx, j.ny, j.planes);
    const room r = room_of<In, A>(s);
    take_tiles<In, A>(j, s);
    sums m = {args->scratch, (A *)args->scratch + r.rows, (A *)args->scratch + r.rows + r.ends, r.per_plane};
    const size_t shared = sizeof(In) * high<In, A, WARPS>() * wide<In, A>();
    const unsigned planes = (unsigned)j.planes; /* a grid has 65535 of them */
    const dim3 tiles((unsigned)(s.across * s.down) * planes), block(32 * WARPS);
    if (vp_start(err, stream, sums_kernel<In, A, WARPS, SQUARE>, tiles, block, shared, j, m)
        || vp_start(err, stream, rows_kernel<A>, dim3((j.high + 63) / 64, planes), dim3(64), 0, j, m)
        || vp_start(err, stream, columns_kernel<A>, dim3((j.wide + 63) / 64, planes), dim3(64), 0, j, m, high<In, A, WARPS>(),
                    wide<In, A>())
        || vp_start(err, stream, table_kernel<In, A, Out, WARPS, SQUARE>, tiles, block, shared, j, m))
        return -1;
    return j.volume ? pile<A, Out>(j, stream, err) : 0;
}

} // namespace three
} // namespace vp

#endif
