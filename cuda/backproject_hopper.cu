/* SPDX-License-Identifier: BSD-3-Clause */
/* Back-projection with tensor tiles (compute capability 9.0 and 10.0, compiled for sm_90a and sm_100a only): a producer
 * warp copies the detector tile of each view to shared memory with the bulk copy engine, which fills rows and columns
 * outside the detector with zeros, and consumer warps march through it. */
#include <limits.h>

#include "backproject_matrix.cuh"
#include "launch.cuh"
#include "tile_ring.cuh"

namespace vp
{
namespace
{

/* ---- columns ---- */

/* Overview: one persistent block for each multiprocessor. A tile is 8 WX x 4 WY columns (times R rotated copies) by K
 *   slices (times Z mirror slices). The last warp group is the producer: its first warp draws tiles from a global
 *   counter, computes for each view and copy the box that the tile's corners span, and issues one tensor copy into a
 *   ring of stages. The WX WY consumer warps, 8 x 4 columns each, keep R Z K sums a thread in registers for all views
 *   of the launch. The ring continues across tiles, so that the volume traffic of one tile overlaps the boxes of the
 *   next.
 * Shared memory: stages x box_rows x PITCH texels of R Z floats. PITCH = 4 mod 8 (float4), 8 mod 16 (float2), 16 mod 32
 *   (float): neighbouring columns fall on different banks even if their rows differ by one.
 * Cost: a row of the window is read once for K voxels: (K + 2) / K * 2 * 4 bytes an update at s = 1, and about 8
 *   instructions (R Z = 4, K = 16). Pieces whose window lies outside the detector are skipped.
 *   Measured on an H100 80GB HBM3, 1024 views, packing included, in 2^30 updates a second (skipped ones counted):
 *     detector -> volume   half turn and mirror   mirror   half turn   neither
 *     512^2  -> 512^3                      2593     2033        2172      1296
 *     1024^2 -> 1024^3                     2810     2157
 *     512^2  -> 1024^3                     3349
 *     2048^2 -> 1024^3                     1366
 *   256^2 -> 1024^3, half turn and mirror, on an H200: 3375 (s to 0.4; 2000 with the method for any s).
 *   1024^2 -> 1024^3 in launches of 128, 64, 32 orbits: 2759, 2656, 2460. Shared memory is 77 % busy at s = 1, 86 % at
 *   s = 2.
 * Limits: s within the bins of Method; the box must hold every tile (launch_column_extent computes the largest). */
template <int R, int Z, int K, int WX, int WY, class Method, int PITCH>
__global__ void __launch_bounds__((WX * WY + 4) * 32, 1)
    k_backproject_column_tiled(const __grid_constant__ CUtensorMap map, const __grid_constant__ column_args a,
                               int stages, int lo, int hi)
{
    constexpr int M = R * Z, WARPS = WX * WY, TILE_X = 8 * WX, TILE_Y = 4 * WY;
    extern __shared__ __align__(1024) unsigned char shared[];
    const int pitch = PITCH ? PITCH : a.box_pitch, box_bytes = pitch * a.box_rows * M * (int)sizeof(float);
    const int stage_bytes = box_stride(box_bytes);
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
            if (R == 2 && (lane & 4))
                corner.x = -corner.x, corner.y = -corner.y;
#pragma unroll 1
            for (int o = 0; o < a.n; o++) {
                double u, v;
                project(a.view[o], corner, u, v);
                const int iu = whole(u - TILE_MARGIN), iv = whole(v - TILE_MARGIN) + lo;
#pragma unroll
                for (int copy = 0; copy < R; copy++) {
                    const bool mine = R == 1 || (lane >> 2 & 1) == copy;
                    const int u0 = __reduce_min_sync(~0u, mine ? iu : INT_MAX) & -(4 / M);
                    const int v0 = __reduce_min_sync(~0u, mine ? iv : INT_MAX);
                    produce_box(c, stage, stages, shared, box_bytes, map, u0, v0, u0 * M / map_floats(M),
                                v0 - a.row_base, a.slot + o);
                }
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
        each_landing<R>(a, place, seen, [&](auto copy, const landing &l, int, auto &&next) {
            constexpr int COPY = decltype(copy)::value;
            barrier_wait(&c.full[stage.at()], stage.wrap());
            if (l.skip) {
                next.all();
            } else {
                const int2 origin = c.origin[stage.at()];
                const texel<M> *box = reinterpret_cast<const texel<M> *>(shared + stage.at() * stage_bytes);
                const texel_rows<M, PITCH, false> rows{box + (l.v - origin.y) * pitch + (l.u - origin.x), pitch};
                Method::template apply<COPY>(rows, l, sum, next);
            }
            release_stage(c, stage, stages);
        });
        store_sums(a.out, a.nz, place, sum);
    }
}

/* ---- general matrices ---- */

/* Overview: a block of 8 consumer warps has 16 x 16 columns of 16 slices for all views of the launch; a thread holds
 *   one column. The middle of its piece is projected in float64 and split into texel and fraction; the distance of u
 *   from it, q (m2 - u_mid m10) / (w_mid + q m10), is a small float32 number. A ninth warp copies the boxes.
 * Shared memory: 3 stages of box_rows x PITCH pairs (q(u), q(u + 1)): the four neighbours are two 8-byte loads.
 * Cost: about 28 instructions and 16 bytes from shared memory an update (LEVEL: 24). Measured on an H100,
 *   512^2 x 1024 -> 512^3: 897, LEVEL 1001; 1024^2 x 1024 -> 1024^3 LEVEL: 1010.
 * Limits: w > 1 / 1024 in the whole grid; the box must hold every tile (launch_matrix_extent). */
constexpr int MATRIX_STAGES = 3;

template <int PITCH, bool LEVEL>
__global__ void __launch_bounds__(288, 3)
    k_backproject_matrix_tiled(const __grid_constant__ CUtensorMap map, const __grid_constant__ matrix_args a)
{
    extern __shared__ __align__(1024) unsigned char shared[];
    const int box_bytes = PITCH * a.box_rows * (int)sizeof(float2), stage_bytes = box_stride(box_bytes);
    control &c = *reinterpret_cast<control *>(shared + MATRIX_STAGES * stage_bytes);
    const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
    const tile t = tile_of(a, (int)blockIdx.x);

    if (threadIdx.x == 0)
        for (int s = 0; s < MATRIX_STAGES; s++)
            barrier_init(&c.full[s], 1), barrier_init(&c.empty[s], 8);
    barriers_ready();

    ring_position stage;
    if (warp == 8) {
        const spot corner = matrix_corner(a, t, lane);
#pragma unroll 1
        for (int o = 0; o < a.n; o++) {
            const int2 at = matrix_texel(a.view[o], corner, -TILE_MARGIN);
            const int u0 = __reduce_min_sync(~0u, at.x) & -2, v0 = __reduce_min_sync(~0u, at.y);
            produce_box(c, stage, MATRIX_STAGES, shared, box_bytes, map, u0, v0, u0 + MATRIX_PAD, v0 + MATRIX_PAD,
                        a.slot + o);
        }
        return;
    }

    const spot place = spot_of<MATRIX_K, 2, 4>(a, t, warp, lane);
    float sum[1][1][MATRIX_K];
    load_sums(a.out, 0, place, sum);

    matrix_landing next = matrix_land(a.view[0], place);
#pragma unroll 1
    for (int o = 0; o < a.n; o++) {
        const matrix_landing l = next;
        next = matrix_land(a.view[min(o + 1, a.n - 1)], place);
        barrier_wait(&c.full[stage.at()], stage.wrap());
        const int2 origin = c.origin[stage.at()];
        /* byte addresses modulo 2^32, so that subtracting FLOOR_BITS takes no instruction */
        const unsigned middle = shared_address(shared) + stage.at() * stage_bytes +
                                8u * ((l.v - origin.y) * PITCH + (l.u - origin.x)) -
                                8u * (PITCH + 1) * (unsigned)FLOOR_BITS;
        matrix_march<LEVEL>(l, sum[0][0], [&](int u, int v, float2 &low, float2 &high) {
            const unsigned at = middle + (unsigned)v * (8u * PITCH) + (unsigned)u * 8u;
            asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(low.x), "=f"(low.y) : "r"(at));
            asm volatile("ld.shared.v2.f32 {%0, %1}, [%2 + %3];"
                         : "=f"(high.x), "=f"(high.y)
                         : "r"(at), "n"(8 * PITCH));
        });
        release_stage(c, stage, MATRIX_STAGES);
    }
    store_sums(a.out, 0, place, sum);
}

/* ---- choice and launch ---- */

template <column_set SET> struct slices16 : method<16, bins<>> {
};
template <> struct slices16<SET_HALF> : method<16, bins<bin<2, 5, 6, 13>, bin<6, 13, 8, 15>, bin<8, 15, 2, 3>>> {
};
template <>
struct slices16<SET_UNIT> : method<16, bins<bin<4, 5, 6, 7>, bin<6, 7, 14, 15>, bin<14, 15, 16, 15>, bin<16, 15, 8, 7>,
                                            bin<8, 7, 5, 4>>> {
};
template <>
struct slices16<SET_DOUBLE> : method<16, bins<bin<8, 5, 26, 15>, bin<26, 15, 28, 15>, bin<28, 15, 2, 1>,
                                              bin<2, 1, 32, 15>, bin<32, 15, 34, 15>, bin<34, 15, 38, 15>>> {
};
template <>
struct slices16<SET_QUARTER> : method<16, bins<bin<0, 1, 2, 15>, bin<2, 15, 2, 13>, bin<2, 13, 2, 11>,
                                               bin<2, 11, 2, 9>, bin<2, 9, 4, 15>, bin<4, 15, 2, 7>, bin<2, 7, 4, 13>,
                                               bin<4, 13, 4, 11>, bin<4, 11, 2, 5>>> {
};

/* Warps of a tile: the limit set by registers (64 to 16 sums a thread), in whole warp groups. With fewer, the latency
 * of shared memory is exposed (12 instead of 16 for R Z = 4: 5 % slower as measured). */
struct warps {
    int x, y;
};
constexpr warps warps_of(int M)
{
    return M == 4 ? warps{2, 8} : M == 2 ? warps{3, 8} : warps{4, 6};
}

constexpr int square_root_up(int n)
{
    int r = 0;
    while (r * r < n)
        r++;
    return r;
}

/* Returns the pitch of shared rows in texels: the tile's diagonal at the set's largest s, aligned to banks as above. */
constexpr int shared_pitch(int M, column_set set)
{
    const int x = 8 * warps_of(M).x - 1, y = 4 * warps_of(M).y - 1, step = 32 / M;
    /* texels a 100 voxels: the bins' upper s */
    const int most = set == SET_QUARTER ? 40 : set == SET_HALF ? 67 : set == SET_UNIT ? 125 : 254;
    const int need = square_root_up((x * x + y * y) * 100) * most / 1000 + 2 + 4 / M - 1;
    return set == SET_ANY ? 0 : (need + step / 2 - 1) / step * step + step / 2;
}

using column_function = void (*)(const CUtensorMap, const column_args, int, int, int);

column_function column_pointer(int views, int channels_z, column_set set)
{
    return with_variant(views, channels_z, set, [](auto r, auto z, auto s) -> column_function {
        constexpr int R = decltype(r)::value, Z = decltype(z)::value;
        constexpr column_set SET = decltype(s)::value;
        constexpr warps w = warps_of(R * Z);
        return k_backproject_column_tiled<R, Z, 16, w.x, w.y, slices16<SET>, shared_pitch(R * Z, SET)>;
    });
}

} // namespace

bool column_tiled(int views, int channels_z, column_set set, column_kernel *k)
{
    const int M = views * channels_z;
    *k = column_kernel{};
    k->views = views, k->channels_z = channels_z, k->set = set, k->K = 16;
    k->tile_x = 8 * warps_of(M).x, k->tile_y = 4 * warps_of(M).y;
    k->pitch = shared_pitch(M, set), k->pitch_step = 32 / M;
    /* 1024^2 -> 1024^3 on an H200: 2666 with 4 stages, 2630 with 8, 2636 with 3 */
    k->stages = 2, k->stages_most = M == 4 && set == SET_UNIT ? 4 : MAX_STAGES;
    /* If the detector is much finer than the volume, throughput depends on the L2 cache: it misses when blocks drift
     * apart in view, and short launches realign them (s = 2: 1313 with 256 orbits a launch, 1361 with 64). */
    k->batch = set == SET_DOUBLE ? VIEW_BATCH / 2 / views : VIEW_BATCH;
    with_variant(1, 1, set, [=](auto, auto, auto s) { describe_bins<slices16<decltype(s)::value>>(k); });
    return cudaFuncSetAttribute(column_pointer(views, channels_z, set), cudaFuncAttributeMaxDynamicSharedMemorySize,
                                0) == cudaSuccess ||
           (cudaGetLastError(), false);
}

size_t column_tiled_shared(const column_kernel &k, int box_pitch, int box_rows, int stages)
{
    return (size_t)stages * box_stride(box_pitch * box_rows * k.views * k.channels_z * (int)sizeof(float)) +
           sizeof(control);
}

cudaError_t launch_column_tiled(const column_kernel &k, const CUtensorMap &map, const column_args &a, int stages,
                                int processors, cudaStream_t stream)
{
    const column_function f = column_pointer(k.views, k.channels_z, k.set);
    const int shared = (int)column_tiled_shared(k, a.box_pitch, a.box_rows, stages);
    const int tiles = a.tiles_x * a.tiles_y * a.segments, blocks = tiles < processors ? tiles : processors;
    cudaError_t e = cudaFuncSetAttribute(f, cudaFuncAttributeMaxDynamicSharedMemorySize, shared);
    if (e != cudaSuccess)
        return e;
    e = cudaMemsetAsync(a.next_tile, 0, sizeof(int), stream);
    if (e != cudaSuccess)
        return e;
    const int threads = (k.tile_x / 8 * (k.tile_y / 4) + 4) * 32;
    return vp_launch(stream, f, dim3(blocks), dim3(threads), shared, map, a, stages, k.lo, k.hi);
}

bool matrix_tiled(int extent_u, int *pitch)
{
    *pitch = extent_u <= 40 ? 40 : 72;
    return extent_u <= 72;
}

size_t matrix_tiled_shared(int pitch, int box_rows)
{
    return (size_t)MATRIX_STAGES * box_stride(pitch * box_rows * (int)sizeof(float2)) + sizeof(control);
}

cudaError_t launch_matrix_tiled(int pitch, bool level, const CUtensorMap &map, const matrix_args &a,
                                cudaStream_t stream)
{
    const auto f = pitch == 40 ? (level ? k_backproject_matrix_tiled<40, true> : k_backproject_matrix_tiled<40, false>)
                               : (level ? k_backproject_matrix_tiled<72, true> : k_backproject_matrix_tiled<72, false>);
    const int shared = (int)matrix_tiled_shared(pitch, a.box_rows);
    const cudaError_t e = cudaFuncSetAttribute(f, cudaFuncAttributeMaxDynamicSharedMemorySize, shared);
    if (e != cudaSuccess)
        return e;
    return vp_launch(stream, f, dim3((unsigned)(a.tiles_x * a.tiles_y * a.segments)), dim3(288), shared, map, a);
}

} // namespace vp
