/* SPDX-License-Identifier: BSD-3-Clause */
/* The transpose of the projection with boxes of the views in shared memory (compiled for sm_90a and sm_100a only).
 *
 * Overview: as k_backproject_column_tiled (backproject_hopper.cu): a persistent block, tiles of 8 WX x 4 WY columns by
 *   COLLECT_K slices (times Z mirror slices, times R columns half a turn apart), a producer warp that copies a box of
 *   each view. A view's weights are areas: 2 to 4 lines of the view are mixed by their overlap with the column, and voxels
 *   take the overlap of their edges with the rows.
 * Coordinates: depth, u and row of the column in float64; the distances of the column's two edges from its middle in
 *   float32, since they are small.
 * Cost, 2^30 updates a second (H200): 1024^3 from 512 views of 1024^2 with half turns and mirrors 2,198 (10 instructions
 *   an update, 71 % of the issue slots, shared memory 67 % busy), with mirrors 1,856 (14 instructions, 80 %).
 * Registers: up to 84 bytes of spills. Shared memory, synchronisation: as there. Views are weighted with the length of rays
 *   when they are packed. */
#include <limits.h>

#include "launch.cuh"
#include "pair.cuh"
#include "tile_ring.cuh"

namespace vp
{
namespace
{

/* ---- landings ---- */

/* A column in a view: first line u; shares of lines u, u + 1, ...; row v and fraction f of its middle edge; rows a
 * voxel. */
struct area_landing {
    int u, v;
    float share[4], f, s;
    bool skip;
};

/* Returns 1 / x within 1 ulp. */
__device__ __forceinline__ float approximate_reciprocal(float x)
{
    float r;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
    return r;
}

/* Returns -x if `turned`, by its sign bit. */
__device__ __forceinline__ double turn(double x, bool turned)
{
    return __hiloint2double(__double2hiint(x) ^ (turned ? (int)0x80000000 : 0), __double2loint(x));
}

/* The landing of a view that march_area() computes after its rows: between them (approach, backproject_column.cuh) its
 * registers would be spilled. `turned`: of the column half a turn away. */
struct area_approach {
    const area_view &view;
    const spot &place;
    const sight &seen;
    bool turned;
    area_landing &l;

    __device__ __forceinline__ area_approach(const area_view &view, const spot &place, const sight &seen, bool turned,
                                             area_landing &l)
        : view(view), place(place), seen(seen), turned(turned), l(l)
    {
    }

    __device__ __forceinline__ void land() const
    {
        const double x = turn(place.x, turned), y = turn(place.y, turned);
        const double t = fma(view.ux, x, fma(view.uy, y, view.uc)), w = fma(view.wx, x, fma(view.wy, y, view.wc));
        const double z = fma(view.vx, x, fma(view.vy, y, fma(view.vz, place.k_mid, view.vc)));
        const float depth = (float)w;
        const double r = reciprocal(w), middle = t * r, v = fma(z, r, SPLIT);
        /* u (edge) - u = +-(u wa - ua) / 2 / (w -+ wa / 2) */
        const float half = 0.5f * fmaf((float)middle, view.wa, -view.ua), step = copysignf(0.5f * view.wa, half * view.wa);
        const float before = fabsf(half) * approximate_reciprocal(depth + step);
        const float after = fabsf(half) * approximate_reciprocal(depth - step);
        const double u = middle + (SPLIT - (double)before);
        const float from = fraction(u), end = from + (before + after);
        l.u = whole(u), l.v = whole(v);
        l.f = fraction(v), l.s = (float)(r * view.vz);
        l.share[0] = fminf(end, 1.0f) - from;
        l.share[1] = __saturatef(end - 1.0f);
        l.share[2] = __saturatef(end - 2.0f);
        l.share[3] = __saturatef(end - 3.0f);
        l.skip = seen.idle || !((unsigned)(l.u + 3) < (unsigned)(seen.nu + 3))
              || !((unsigned)(l.v + seen.hi) < (unsigned)(seen.nv + seen.hi - seen.lo));
    }
};

/* ---- the march ---- */

/* Adds the rows of a piece, which are mixed of LINES lines, to its voxels. The edges of voxel k are k - K/2 and the next
 * one, times s, from the middle one. */
template <class B, int LINES, int PITCH, int R, int Z, int K>
__device__ __forceinline__ void march_area(const texel<R * Z> *at, const area_landing &l, float (&sum)[R][Z][K],
                                           const area_approach &next)
{
    constexpr int M = R * Z, bottom = B::first(-K), n_rows = B::last(K) + 1 - bottom;
    float row[n_rows][LINES][M];
    const auto load = [&](int n) {
#pragma unroll
        for (int t = 0; t < LINES; t++)
            spread<M>(at[(bottom + n) * PITCH + t], row[n][t]);
    };
    load(0);
#pragma unroll
    for (int n = 0; n < n_rows; n++) {
        const int j = bottom + n;
        if (n + 1 < n_rows)
            load(n + 1);
        float mixed[M], below[K + 1];
#pragma unroll
        for (int m = 0; m < M; m++) {
            mixed[m] = fmaf(l.share[1], row[n][1][m], l.share[0] * row[n][0][m]);
#pragma unroll
            for (int t = 2; t < LINES; t++)
                mixed[m] = fmaf(l.share[t], row[n][t][m], mixed[m]);
        }
        const float f = l.f - (float)j;
#pragma unroll
        for (int e = 0; e <= K; e++) { /* part of row j below edge e */
            const int q2 = 2 * e - K;
            below[e] = j < B::first(q2) ? 1.0f : j > B::last(q2) ? 0.0f : __saturatef(fmaf(0.5f * (float)q2, l.s, f));
        }
#pragma unroll
        for (int k = 0; k < K; k++) {
            const int q2 = 2 * k - K;
            if (j >= B::first(q2) && j <= B::last(q2 + 2))
                add<0, R, Z, K>(below[k + 1] - below[k], mixed, k, sum);
        }
    }
    next.land();
}

template <int K, class Bins> struct areas;

template <int K, class First, class... More> struct areas<K, bins<First, More...>> {
    using rest = areas<K, bins<More...>>;
    static constexpr bool last = sizeof...(More) == 0;
    static constexpr float lower = First::lower, upper = last ? First::upper : rest::upper;
    static_assert(lower < upper, "bins in order");
    static constexpr int lo = last || First::first(-K) < rest::lo ? First::first(-K) : rest::lo;
    static constexpr int hi = last || First::last(K) > rest::hi ? First::last(K) : rest::hi;

    template <int LINES, int PITCH, int R, int Z>
    static __device__ __forceinline__ void apply(const texel<R * Z> *at, const area_landing &l, float (&sum)[R][Z][K],
                                                 const area_approach &next)
    {
        if (last || l.s <= First::upper)
            march_area<First, LINES, PITCH>(at, l, sum, next);
        else
            rest::template apply<LINES, PITCH>(at, l, sum, next);
    }
};

template <int K> struct areas<K, bins<>> {
    [[maybe_unused]] static constexpr float lower = 0, upper = 0;
    static constexpr int lo = 0, hi = 0;
    template <int LINES, int PITCH, int R, int Z>
    static __device__ __forceinline__ void apply(const texel<R * Z> *, const area_landing &, float (&)[R][Z][K],
                                                 const area_approach &)
    {
    }
};

/* ---- the kernel ---- */

constexpr int K = COLLECT_K;

template <column_set SET> struct areas_of : areas<K, bins<>> {
};
template <> struct areas_of<SET_HALF> : areas<K, bins<bin<2, 5, 4, 9>, bin<4, 9, 1, 2>, bin<1, 2, 5, 9>, bin<5, 9, 2, 3>>> {
};
template <>
struct areas_of<SET_UNIT> : areas<K, bins<bin<4, 5, 6, 7>, bin<6, 7, 14, 15>, bin<14, 15, 1, 1>, bin<1, 1, 16, 15>,
                                          bin<16, 15, 8, 7>, bin<8, 7, 5, 4>>> {
};
template <>
struct areas_of<SET_DOUBLE> : areas<K, bins<bin<8, 5, 26, 15>, bin<26, 15, 28, 15>, bin<28, 15, 2, 1>, bin<2, 1, 32, 15>,
                                            bin<32, 15, 34, 15>, bin<34, 15, 38, 15>>> {
};

/* Warps of a tile, by the registers of their sums. */
struct warp_grid {
    int x, y;
};
__host__ __device__ constexpr warp_grid warps_of(int M)
{
    return M == 4 ? warp_grid{2, 8} : M == 2 ? warp_grid{3, 8} : warp_grid{4, 6};
}

/* Lines that a column meets in most places; at most one more. */
constexpr int few_lines(column_set set)
{
    return set == SET_DOUBLE ? 3 : 2;
}

/* Returns the pitch of shared rows in texels: as in backproject_hopper.cu, with the column's width and a third line. */
constexpr int shared_pitch(int M, column_set set)
{
    const int x = 8 * warps_of(M).x - 1, y = 4 * warps_of(M).y - 1, step = 32 / M;
    const int most = set == SET_HALF ? 67 : set == SET_UNIT ? 125 : 254;
    int root = 0;
    while (root * root < (x * x + y * y) * 100)
        root++;
    const int need = root * most / 1000 + 6 + 4 / M - 1;
    return (need + step / 2 - 1) / step * step + step / 2;
}

/* Projects the lower edge in u, and the middle edge in v, to split coordinates. */
__device__ __forceinline__ void land(const area_view &view, const spot &s, double *u, double *v)
{
    const double t = fma(view.ux, s.x, fma(view.uy, s.y, view.uc)), w = fma(view.wx, s.x, fma(view.wy, s.y, view.wc));
    const double z = fma(view.vx, s.x, fma(view.vy, s.y, fma(view.vz, s.k_mid, view.vc)));
    const double a = (t - 0.5 * view.ua) / (w - 0.5 * view.wa), b = (t + 0.5 * view.ua) / (w + 0.5 * view.wa);
    *u = fmin(a, b) + SPLIT;
    *v = z / w + SPLIT;
}

/* R = 2: slots are pairs of views half a turn apart. Copy 1 of a column is turned by half a turn about the axis: the first
 * view sees it where the second one sees copy 0. A slot has a plane for each copy, with the views in the order of the
 * copies, so that both share one code; and copy 0 of all views comes before copy 1, since copies, one near to the source
 * and one far from it, are in different bins: else the instruction cache misses. */
template <int R, int Z, class Method, int PITCH, int FEW>
__global__ void __launch_bounds__((warps_of(R * Z).x * warps_of(R * Z).y + 4) * 32, 1)
    k_pair_collect_tiled(const __grid_constant__ CUtensorMap map, const __grid_constant__ area_args a, int stages, int lo,
                         int hi)
{
    constexpr int M = R * Z, WX = warps_of(M).x, WY = warps_of(M).y, WARPS = WX * WY, TILE_X = 8 * WX, TILE_Y = 4 * WY;
    extern __shared__ __align__(1024) unsigned char shared[];
    const int box_bytes = PITCH * a.box_rows * M * (int)sizeof(float), stage_bytes = box_stride(box_bytes);
    control &c = *reinterpret_cast<control *>(shared + stages * stage_bytes);
    const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
    const int tiles = a.tiles_x * a.tiles_y * a.segments;

    open_ring(c, stages, WARPS);
    if (warp >= WARPS) { /* producer */
        asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(PRODUCER_REGISTERS));
        if (warp > WARPS)
            return;
        ring_position stage, ticket;
        for (;;) {
            const int index = draw_ticket(c, ticket, a.next_tile);
            if (index >= tiles)
                return;
            const tile t = tile_of(a, index);
            spot corner = spot_at<K>(a, t.x * TILE_X + (lane & 1) * (TILE_X - 1),
                                     t.y * TILE_Y + (lane >> 1 & 1) * (TILE_Y - 1), t.segment);
#pragma unroll 1
            for (int n = 0; n < a.n * R; n++) {
                const int copy = n >= a.n, o = copy ? n - a.n : n;
                double u, v;
                if (R == 2 && n == a.n)
                    corner.x = -corner.x, corner.y = -corner.y;
                land(a.view[o], corner, &u, &v);
                const int u0 = __reduce_min_sync(~0u, whole(u - TILE_MARGIN)) & -(4 / M);
                const int v0 = __reduce_min_sync(~0u, whole(v - TILE_MARGIN)) + lo;
                produce_box(c, stage, stages, shared, box_bytes, map, u0, v0, u0 * M / map_floats(M), v0,
                            (a.slot + o) * R + copy);
            }
        }
    }

    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(consumer_registers(WARPS)));
    ring_position stage, ticket;
    for (;;) {
        const int index = take_ticket(c, ticket);
        if (index >= tiles)
            return;
        const spot place = spot_of<K, WX, WY>(a, tile_of(a, index), warp, lane);
        float sum[R][Z][K];
        const sight seen{a.nu, a.nv, lo, hi, !place.mine};
        load_sums(a.out, a.nz, place, sum);
        area_landing l;
        area_approach(a.view[0], place, seen, false, l).land();
#pragma unroll 1
        for (int n = 0; n < a.n * R; n++) { /* copy 0 of all views, then copy 1 */
            const bool turned = R == 2 && n + 1 >= a.n;
            area_landing following;
            const area_approach next(a.view[min(turned ? n + 1 - a.n : n + 1, a.n - 1)], place, seen, turned, following);
            const bool more = __any_sync(~0u, !l.skip && l.share[FEW] > 0);
            barrier_wait(&c.full[stage.at()], stage.wrap());
            if (l.skip) {
                next.land();
            } else {
                const int2 origin = c.origin[stage.at()];
                const texel<M> *const box = reinterpret_cast<const texel<M> *>(shared + stage.at() * stage_bytes);
                const texel<M> *const at = box + (l.v - origin.y) * PITCH + (l.u - origin.x);
                if (more)
                    Method::template apply<FEW + 1, PITCH>(at, l, sum, next);
                else
                    Method::template apply<FEW, PITCH>(at, l, sum, next);
            }
            release_stage(c, stage, stages);
            l = following;
        }
        store_sums(a.out, a.nz, place, sum);
    }
}

/* ---- extents ---- */

/* A thread takes tiles and views in turn. */
__global__ void __launch_bounds__(256) k_pair_extent(const __grid_constant__ area_args a, int tile_x, int tile_y,
                                                     int last_segment, int copies, int *extent)
{
    const int64_t all = (int64_t)a.tiles_x * a.tiles_y * a.n * 4;
    int most_u = 0, most_v = 0;
    for (int64_t at = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; at < all; at += (int64_t)gridDim.x * blockDim.x) {
        const tile t = tile_of(a, (int)(at / 4 / a.n));
        const double turned = copies == 2 && (at & 2) ? -1 : 1;
        int u0 = INT_MAX, u1 = INT_MIN, v0 = INT_MAX, v1 = INT_MIN;
        for (int k = 0; k < 4; k++) {
            spot corner = spot_at<K>(a, t.x * tile_x + (k & 1) * (tile_x - 1), t.y * tile_y + (k >> 1) * (tile_y - 1),
                                     at & 1 ? last_segment : 0);
            corner.x *= turned, corner.y *= turned;
            double u, v;
            land(a.view[at / 4 % a.n], corner, &u, &v);
            u0 = min(u0, whole(u - TILE_MARGIN)), u1 = max(u1, whole(u + TILE_MARGIN));
            v0 = min(v0, whole(v - TILE_MARGIN)), v1 = max(v1, whole(v + TILE_MARGIN));
        }
        most_u = max(most_u, u1 - u0 + 4);
        most_v = max(most_v, v1 - v0 + 1);
    }
    atomicMax(&extent[0], most_u);
    atomicMax(&extent[1], most_v);
}

using collect_function = void (*)(const CUtensorMap, const area_args, int, int, int);

collect_function function_of(const collect_kernel &k)
{
    return with_variant(k.R, k.Z, k.set, [](auto r, auto z, auto set) -> collect_function {
        constexpr int R = decltype(r)::value, Z = decltype(z)::value;
        constexpr column_set SET = decltype(set)::value;
        if constexpr (SET == SET_ANY || SET == SET_QUARTER) /* no bins */
            return NULL;
        else
            return k_pair_collect_tiled<R, Z, areas_of<SET>, shared_pitch(R * Z, SET), few_lines(SET)>;
    });
}

} // namespace

bool collect_tiled(int R, int Z, column_set set, collect_kernel *k)
{
    const int M = R * Z;
    *k = collect_kernel{};
    k->set = set, k->R = R, k->Z = Z;
    k->tile_x = 8 * warps_of(M).x, k->tile_y = 4 * warps_of(M).y;
    k->pitch = shared_pitch(M, set), k->stages = 2, k->lines = few_lines(set) + 1;
    with_variant(1, 1, set, [=](auto, auto, auto s) { describe_bins<areas_of<decltype(s)::value>>(k); });
    return cudaFuncSetAttribute(function_of(*k), cudaFuncAttributeMaxDynamicSharedMemorySize, 0) == cudaSuccess ||
           (cudaGetLastError(), false);
}

size_t collect_tiled_shared(const collect_kernel &k, int box_rows, int stages)
{
    return (size_t)stages * box_stride(k.pitch * box_rows * k.R * k.Z * (int)sizeof(float)) + sizeof(control);
}

cudaError_t launch_collect_tiled(const collect_kernel &k, const CUtensorMap &map, const area_args &a, int processors,
                                 int stages, cudaStream_t stream)
{
    const collect_function f = function_of(k);
    const size_t shared = collect_tiled_shared(k, a.box_rows, stages);
    const int64_t tiles = (int64_t)a.tiles_x * a.tiles_y * a.segments;
    cudaError_t e = vp_allow_shared(f, shared);
    if (e == cudaSuccess)
        e = cudaMemsetAsync(a.next_tile, 0, sizeof(int), stream);
    if (e != cudaSuccess)
        return e;
    return vp_launch(stream, f, dim3((unsigned)vp_min64(tiles, processors)), dim3((k.tile_x / 8 * (k.tile_y / 4) + 4) * 32),
                     shared, map, a, stages, k.lo, k.hi);
}

cudaError_t launch_collect_extent(const collect_kernel &k, const area_args &a, int last_segment, int *extent,
                                  cudaStream_t stream)
{
    const int64_t all = (int64_t)a.tiles_x * a.tiles_y * a.n * 4;
    return vp_launch(stream, k_pair_extent, dim3((unsigned)vp_min64(vp_div_up(all, 256), 1 << 12)), dim3(256), 0, a,
                     k.tile_x, k.tile_y, last_segment, k.R, extent);
}

} // namespace vp
