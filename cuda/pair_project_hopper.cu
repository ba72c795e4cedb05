/* SPDX-License-Identifier: BSD-3-Clause */
/* Projection with boxes of the volume in shared memory (compiled for sm_90a and sm_100a only).
 *
 * Overview: a block has PROJECT_WARPS warps, one for each view of a group and each run of U neighbouring pixels, and
 *   R * 32 rows (with mirrors M = 2 also those that mirror them). It marches through PROJECT_PLANES planes of the
 *   volume, of which the producers copy a box for all views into a ring of stages: neighbouring views meet nearly the
 *   same voxels. Blocks are parts of the middle plane, so that their views meet there. Rows that the volume does not
 *   meet in any view are left out.
 * Threads: a lane is R rows, 32 apart, of U pixels. All lanes of a warp meet the same columns of voxels, of which the
 *   producers make a table in each stage, a lane for each column: all that needs float64. The warp takes one column
 *   after the other. A column's line of rows is made once, in registers, and given to the 1 to 3 pixels that it meets;
 *   U = 8 pixels of a plane meet 8 Q + 1 columns, Q being columns a pixel.
 * Positions: of a row in a column, 2^-32 voxels in 64 bits: that of the block's first row, and integer steps from row
 *   to row, so no bit depends on where a block begins across. A row's mean is a + f (b - a) of the two (or, if rows are
 *   wider than voxels, three) voxels that it meets. Only the lanes that meet the third one read it.
 * Registers: 96 after setmaxnreg, no spills: U R M = 64 sums. Shared memory: stages of a box and a table.
 * Global memory: the volume's box once for the views of a group; sums of a line once for each PROJECT_PLANES planes.
 * Cost, 2^30 updates a second (H200, 512 views, 16 a call): 1,272 at 1024^3 with mirrors, 944 of its upper half. The
 *   loop of a column is 61 instructions for 8 sums, of which 11 read shared memory. Fewer reads of third voxels brought
 *   11 %, the producers' tables 1 %.
 * Synchronisation: a launch may begin while the one before ends; it waits before it adds its sums.
 * Limits: box_q <= 256, box_z M <= 512; at most PROJECT_COLUMNS columns a warp; up to 2 voxels a row,
 *   from about 1.6 on without mirrors with half the rows a lane, since two boxes must fit. */
#include <limits.h>

#include "launch.cuh"
#include "pair.cuh"
#include "tile_ring.cuh"

namespace vp
{
namespace
{

constexpr int U = PROJECT_PIXELS, WARPS = PROJECT_WARPS, PRODUCERS = 4;
/* Registers after setmaxnreg. Two blocks of a multiprocessor are launched with 80 for each thread; more than these
 * together are never granted. */
constexpr int REGISTERS = 96, PRODUCER_SHARE = 48;
static_assert(WARPS * REGISTERS + PRODUCERS * PRODUCER_SHARE <= (WARPS + PRODUCERS) * 80, "registers of a block");

/* A column of a plane, as the pixels and rows of a warp meet it. */
struct __align__(16) meeting {
    float per_row;       /* 1 / (voxels a row) */
    float first, last;   /* shares of the pixel in which it begins, and of that in which it ends; */
    int end;             /* that pixel, counted from the warp's first */
    int64_t at;          /* place of the lower edge of the block's first row, 2^-32 texels of the box */
    uint32_t step;       /* voxels a row, 2^-31 */
    float second;        /* 1 - 2 per_row */
};

/* Returns the place of the edge below row r in column q of plane p, 2^-32 voxels: ((r - 1/2) w - v) rows + 1/2. */
__device__ __forceinline__ int64_t place_of_row(const project_view &v, int r, double w, double q, double p)
{
    const double z = fma(fma(r - 0.5, w, -fma(v.vq, q, fma(v.vp, p, v.v1))), v.rows, 0.5);
    return (int64_t)floor(fma(z, 4294967296.0, 0.5));
}

__device__ __forceinline__ double depth_at(const project_view &v, double q, double p)
{
    return fma(v.wq, q, fma(v.wp, p, v.w1));
}

/* A view's pixels [first, first + count), and the places of their outer edges in plane p: at + p by. */
struct run {
    int view, first, count;
    double lo_at, lo_by, hi_at, hi_by;
};

__device__ __forceinline__ void edge_line(const project_view &v, int e, double *at, double *by)
{
    const double per = 1 / (v.eq - e * v.wq);
    *at = (e * v.w1 - v.e1) * per;
    *by = (e * v.wp - v.ep) * per;
}

/* Returns pixels [unit, unit + n) of those of block d, in units of U. */
__device__ __forceinline__ run run_of(const project_args &a, int view, int d, int unit, int n)
{
    const project_view &v = a.view[view];
    const int begin = pixel_at(v, a.q0 + d * a.dq, a.middle), end = pixel_at(v, a.q0 + (d + 1) * a.dq, a.middle);
    run r;
    r.view = view;
    r.first = begin + unit * U;
    r.count = min(n * U, end - r.first);
    edge_line(v, r.first, &r.lo_at, &r.lo_by);
    edge_line(v, r.first + max(r.count, 0), &r.hi_at, &r.hi_by);
    return r;
}

__device__ __forceinline__ int first_column(const run &r, double p)
{
    return (int)floor(fma(r.lo_by, p, r.lo_at) + (0.5 - COLUMN_SLACK));
}
__device__ __forceinline__ int last_column(const run &r, double p)
{
    return (int)floor(fma(r.hi_by, p, r.hi_at) + (0.5 + COLUMN_SLACK));
}

/* Shared memory after the stages, each of which is a box and its columns. */
struct board {
    run runs[WARPS];
    int2 origin[PROJECT_PLANES];   /* first column and voxel of each plane's box */
    uint64_t full[MAX_STAGES], empty[MAX_STAGES];
    int taps[MAX_STAGES][WARPS];   /* voxels that a row meets, at most; 0: the warp's pixels do not meet the plane */
};

__host__ __device__ inline int table_bytes(const project_args &a)
{
    return box_stride(WARPS * a.columns * (int)sizeof(meeting));
}

/* Producer: makes the columns of a plane for all warps, a lane for each. */
__device__ __forceinline__ void make_columns(const project_args &a, const board &b, int producer, int plane, int row0,
                                             int2 origin, meeting *table, int *taps)
{
    const int lane = threadIdx.x & 31, at_once = 32 / a.columns, group = lane / a.columns, c = lane % a.columns;
    const unsigned mask = ~0u >> (32 - a.columns) << (group * a.columns & 31);
    const double p = plane;
#pragma unroll 1
    for (int w0 = producer * at_once; w0 < WARPS; w0 += PRODUCERS * at_once) {
        const int warp = w0 + group;
        const bool has = group < at_once && warp < WARPS;
        const run r = b.runs[has ? warp : 0];
        const project_view &v = a.view[r.view];
        const int q0 = first_column(r, p), count = last_column(r, p) - q0 + 1;
        const double q = q0 + c, w = depth_at(v, q, p), per_row = w * v.rows;
        const double far = fma(v.eq, q + 0.5, fma(v.ep, p, v.e1)) * reciprocal(fma(0.5, v.wq, w)) - r.first;
        const double cell = fmax(floor(far), 0.0);
        const float share = (float)fmax(far - cell, 0.0);
        const int end = (int)fmin(cell, 1e6);
        const int end_before = __shfl_up_sync(~0u, end, 1);
        const float share_before = __shfl_up_sync(~0u, share, 1);
        const unsigned three = __ballot_sync(~0u, c < count && per_row > 1);
        if (!has)
            continue;
        const bool meets = r.count > 0 && q0 + count > 0 && q0 < a.across;
        if (meets && count > a.columns)
            asm volatile("trap;");
        const float per = (float)reciprocal(per_row);
        const int from_pixel = c ? end_before : 0;
        const float from = c ? share_before : 0;
        table[warp * a.columns + c] = {per, (end == from_pixel ? share : 1.0f) - from, share, end,
                                       place_of_row(v, row0, w, q, p)
                                           + ((int64_t)((q0 + c - origin.x) * a.box_z - origin.y) << 32),
                                       (uint32_t)fmin(fma(per_row, 2147483648.0, 0.5), 4294967295.0),
                                       fmaf(-2.0f, per, 1.0f)};
        if (c == 0)
            taps[warp] = !meets ? 0 : three & mask ? 3 : 2;
    }
}

/* Adds the columns of a plane to the pixels. `row` is twice the lane's first row, counted from the block's. */
template <int R, int M, bool THREE>
__device__ __forceinline__ void add_plane(const meeting *table, const texel<M> *box, uint32_t row, int count,
                                          float (&sum)[U][R][M])
{
    float line[R][M], last = 0;
    int end = 0;
#pragma unroll
    for (int i = 0; i < U; i++) {
        if (i >= count)
            break;
        if (i) { /* the column that ends here or beyond */
            const float share = end > i ? 1.0f : last;
#pragma unroll
            for (int r = 0; r < R; r++)
#pragma unroll
                for (int m = 0; m < M; m++)
                    sum[i][r][m] = fmaf(share, line[r][m], sum[i][r][m]);
            if (end > i)
                continue;
        }
#pragma unroll 1
        do {
            const meeting c = *table++;
            const uint64_t rows = (uint64_t)c.step << 6;
            uint64_t z = (uint64_t)c.at + (uint64_t)row * c.step;
#pragma unroll
            for (int r = 0; r < R; r++) {
                const texel<M> *const voxel = box + (int)(z >> 32);
                const float place = __uint_as_float(__funnelshift_r((uint32_t)z, 0x7f, 9)); /* 1 + fraction */
                const float beyond = __saturatef(fmaf(place, c.per_row, c.second)); /* share beyond the first voxel */
                float x[M], y[M];
                spread<M>(voxel[0], x);
                spread<M>(voxel[1], y);
#pragma unroll
                for (int m = 0; m < M; m++)
                    line[r][m] = fmaf(beyond, y[m] - x[m], x[m]);
                if (THREE) {
                    const float most = __saturatef(fmaf(place, c.per_row, c.second - c.per_row));
                    if (most > 0) { /* true for few lanes, which read few words */
                        float t[M];
                        spread<M>(voxel[2], t);
#pragma unroll
                        for (int m = 0; m < M; m++)
                            line[r][m] = fmaf(most, t[m] - y[m], line[r][m]);
                    }
                }
#pragma unroll
                for (int m = 0; m < M; m++)
                    sum[i][r][m] = fmaf(c.first, line[r][m], sum[i][r][m]);
                z += rows;
            }
            end = c.end;
            last = c.last;
        } while (end <= i);
    }
}

/* Sets the origins of every WARPS-th box: a lane is a view and a corner of its columns and rows. */
template <int M>
__device__ __forceinline__ void place_boxes(const project_args &a, int d, int row0, int first_view, board &b)
{
    const int lane = threadIdx.x & 31, slot = lane & (a.group - 1), mine = first_view + slot, corner = lane / a.group;
    const run r = run_of(a, min(mine, a.views - 1), d, 0, WARPS / a.group);
    const project_view &v = a.view[r.view];
    const int row = row0 + (corner & 2 ? a.block_rows : 0);
    const bool counts = slot < a.sharing && mine < a.views && r.count > 0;
#pragma unroll 1
    for (int n = threadIdx.x >> 5; n < a.planes; n += WARPS) {
        const int plane = a.plane0 + n, begin = first_column(r, plane), end = last_column(r, plane);
        const double q = corner & 1 ? end : begin;
        /* less the rounding of places between the corners */
        const int k = (int)((place_of_row(v, row, depth_at(v, q, plane), q, plane) - 8) >> 32);
        int q0 = __reduce_min_sync(~0u, counts ? begin : INT_MAX), z0 = __reduce_min_sync(~0u, counts ? k : INT_MAX);
        const int q1 = -__reduce_min_sync(~0u, counts ? -end : INT_MAX);
        const int z1 = -__reduce_min_sync(~0u, counts ? -k : INT_MAX);
        z0 &= -(4 / M); /* boxes begin at multiples of 16 bytes */
        if (q0 > q1)
            q0 = z0 = 0;
        else if (q1 - q0 >= a.box_q || z1 + 2 - z0 >= a.box_z)
            asm volatile("trap;");
        if (lane == 0)
            b.origin[n] = make_int2(q0, z0);
    }
}

template <int M, int R>
__global__ void __launch_bounds__((WARPS + PRODUCERS) * 32, 2)
    k_pair_project_tiled(const __grid_constant__ CUtensorMap map, const __grid_constant__ project_args a)
{
    extern __shared__ __align__(1024) unsigned char shared[];
    const int box_bytes = a.box_q * a.box_z * M * (int)sizeof(float);
    const int table_at = box_stride(box_bytes), stage_bytes = table_at + table_bytes(a);
    board &b = *reinterpret_cast<board *>(shared + a.stages * stage_bytes);
    const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
    const int d = (int)blockIdx.y, row0 = a.row0 + (int)blockIdx.z * a.block_rows;
    const int first_view = (int)blockIdx.x * a.sharing;

    if (threadIdx.x == 0)
        for (int s = 0; s < a.stages; s++)
            barrier_init(&b.full[s], 1 + PRODUCERS), barrier_init(&b.empty[s], WARPS);
    run r = {};
    if (warp < WARPS) {
        const int mine = first_view + warp % a.group;
        r = run_of(a, min(mine, a.views - 1), d, warp / a.group, 1);
        if (warp % a.group >= a.sharing || mine >= a.views)
            r.count = 0;
        if (lane == 0)
            b.runs[warp] = r;
        place_boxes<M>(a, d, row0, first_view, b);
    }
    barriers_ready();
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");

    ring_position stage;
    if (warp >= WARPS) { /* producers */
        asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(PRODUCER_SHARE));
#pragma unroll 1
        for (int n = 0; n < a.planes; n++) {
            const int2 at = b.origin[n];
            uint64_t *const full = &b.full[stage.at()];
            unsigned char *const to = shared + stage.at() * stage_bytes;
            barrier_wait(&b.empty[stage.at()], stage.wrap() ^ 1);
            if (threadIdx.x == WARPS * 32) {
                barrier_expect(full, box_bytes);
                copy_box(to, &map, at.y * M / BOX_FLOATS, a.march == 0 ? a.plane0 + n : at.x,
                         a.march == 0 ? at.x : a.plane0 + n, full);
            }
            make_columns(a, b, warp - WARPS, a.plane0 + n, row0, at, reinterpret_cast<meeting *>(to + table_at),
                         b.taps[stage.at()]);
            __syncwarp();
            if (lane == 0)
                barrier_arrive(full);
            stage.step(a.stages);
        }
        return;
    }

    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(REGISTERS));
    const project_view &v = a.view[r.view];
    float sum[U][R][M] = {};
#pragma unroll 1
    for (int n = 0; n < a.planes; n++) {
        barrier_wait(&b.full[stage.at()], stage.wrap());
        const unsigned char *const from = shared + stage.at() * stage_bytes;
        const meeting *const table = reinterpret_cast<const meeting *>(from + table_at) + warp * a.columns;
        const texel<M> *const box = reinterpret_cast<const texel<M> *>(from);
        const int taps = b.taps[stage.at()][warp];
        if (taps == 2)
            add_plane<R, M, false>(table, box, 2 * lane, r.count, sum);
        else if (taps)
            add_plane<R, M, true>(table, box, 2 * lane, r.count, sum);
        __syncwarp();
        if (lane == 0)
            barrier_arrive(&b.empty[stage.at()]);
        stage.step(a.stages);
    }

    asm volatile("griddepcontrol.wait;" ::: "memory");
#pragma unroll
    for (int i = 0; i < U; i++) {
        if (i >= r.count)
            break;
        float *const line = a.lines + (v.line + (v.turned ? -1 - (r.first + i) : r.first + i)) * a.pitch;
#pragma unroll
        for (int k = 0; k < R; k++) {
            const int row = row0 + lane + 32 * k, other = a.nv - 1 - row;
            if (row < a.rows)
                line[row] += sum[i][k][0];
            if (M == 2 && row < a.rows && other != row)
                line[other] += sum[i][k][M - 1];
        }
    }
}

} // namespace

size_t project_tiled_shared(int M, const project_args &a)
{
    return (size_t)a.stages * (box_stride(a.box_q * a.box_z * M * (int)sizeof(float)) + table_bytes(a)) + sizeof(board);
}

cudaError_t launch_project_tiled(int M, const CUtensorMap &map, const project_args &a, int blocks_q, bool early,
                                 cudaStream_t stream)
{
    const auto f = M == 2                                     ? k_pair_project_tiled<2, project_rows(2)>
                   : a.block_rows == 32 * project_rows(1) ? k_pair_project_tiled<1, project_rows(1)>
                                                          : k_pair_project_tiled<1, project_rows(1, true)>;
    const size_t shared = project_tiled_shared(M, a);
    const cudaError_t e = vp_allow_shared(f, shared);
    if (e != cudaSuccess)
        return e;
    cudaLaunchAttribute attribute = {};
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
    const dim3 blocks((unsigned)vp_div_up(a.views, a.sharing), (unsigned)blocks_q,
                      (unsigned)vp_div_up(a.rows - a.row0, a.block_rows));
    return vp_launch_with(early ? &attribute : NULL, stream, f, blocks, dim3((WARPS + PRODUCERS) * 32), shared, map, a);
}

} // namespace vp
