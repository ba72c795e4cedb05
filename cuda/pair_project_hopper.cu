/* SPDX-License-Identifier: BSD-3-Clause */
/* Projection with boxes of the volume in shared memory (compiled for sm_90a and sm_100a only).
 *
 * Overview: a block has PROJECT_WARPS warps, one for each view of a group and each run of U neighbouring pixels, and
 *   R * 32 rows (with mirrors M = 2 also those that mirror them). It marches through PROJECT_PLANES planes of the
 *   volume, of which a producer warp copies a box for all views into a ring of stages: neighbouring views meet nearly
 *   the same voxels. Blocks are parts of the middle plane, so that their views meet there.
 * Threads: a lane is R rows, 32 apart, of U pixels. All lanes meet the same columns of voxels: lane j makes the edge of
 *   column j on the detector (a table in shared memory), and the warp takes one column after the other. A column's line
 *   of rows is made once, in registers, and given to the 1 to 3 pixels that it meets; U = 8 pixels of a plane meet
 *   8 Q + 1 columns, Q being columns a pixel.
 * Positions: of a row in a column, 2^-32 voxels in 64 bits: its start, and steps from plane to plane, column to column
 *   and row to row are integers, so no bit depends on where a block begins. A row's mean is a + f (b - a) of the two
 *   (or, if rows are wider than voxels, three) voxels that it meets.
 * Registers: 112, no spills: U R M sums. Shared memory: stages of box_q x box_z voxels.
 * Global memory: the volume's box once for the views of a group; sums of a line once for each PROJECT_PLANES planes.
 * Cost: 1,003 x 2^30 updates a second at 1024^3, with mirrors (H100 80GB HBM3, 16 of 128 views a call).
 * Synchronisation: a launch may begin while the one before ends; it waits before it adds its sums.
 * Limits: box_q, box_z <= 256; at most PROJECT_TABLE columns a warp; up to 2 voxels a row. */
#include <limits.h>

#include "launch.cuh"
#include "pair.cuh"
#include "tile_ring.cuh"

namespace vp
{
namespace
{

constexpr int U = PROJECT_PIXELS, R = PROJECT_ROWS, WARPS = PROJECT_WARPS;

/* A column of a plane: 1 / (voxels a row); the shares of the pixel in which it begins, and of that in which it ends;
 * that pixel, counted from the warp's first. */
struct __align__(16) meeting {
    float per_row, first, last;
    int end;
};

/* Place of row edges in a column: z = (1 + planes dp + columns dq + rows dr) of this, 2^-32 voxels. */
struct rise {
    int64_t at, dp, dq;
};

__device__ __forceinline__ int64_t fixed(double z)
{
    return (int64_t)floor(z * 4294967296.0 + 0.5);
}

/* Returns the place of the edge below row r: z = ((r - 1/2) w - v) rows + 1/2. */
__device__ __forceinline__ rise rise_of(const project_view &v, double r)
{
    const double edge = r - 0.5;
    return {fixed(fma(fma(edge, v.w1, -v.v1), v.rows, 0.5)), fixed(fma(edge, v.wp, -v.vp) * v.rows),
            fixed(fma(edge, v.wq, -v.vq) * v.rows)};
}

/* The warp's pixels [first, first + count), and the places of their outer edges in plane p: at + p by. */
struct run {
    int first, count;
    double lo_at, lo_by, hi_at, hi_by;
};

__device__ __forceinline__ void edge_line(const project_view &v, int e, double *at, double *by)
{
    const double per = 1 / (v.eq - e * v.wq);
    *at = (e * v.w1 - v.e1) * per;
    *by = (e * v.wp - v.ep) * per;
}

/* Returns pixels [unit, unit + n) of those of block d, in units of U. */
__device__ __forceinline__ run run_of(const project_args &a, const project_view &v, int d, int unit, int n)
{
    const int begin = pixel_at(v, a.q0 + d * a.dq, a.middle), end = pixel_at(v, a.q0 + (d + 1) * a.dq, a.middle);
    run r;
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

/* Makes the table of the columns from q on, a lane each, for pixels from `first` on. */
__device__ __forceinline__ void make_table(const project_view &v, int q, double p, int first, meeting *table)
{
    const int lane = threadIdx.x & 31;
    const double w = fma(v.wq, (double)(q + lane), fma(v.wp, p, v.w1));
    const double far = fma(v.eq, q + lane + 0.5, fma(v.ep, p, v.e1)) * reciprocal(fma(0.5, v.wq, w)) - first;
    const double cell = fmax(floor(far), 0.0);
    const float share = (float)fmax(far - cell, 0.0);
    const int end = (int)fmin(cell, 1e6);
    const int begin_left = __shfl_up_sync(~0u, end, 1);
    const float share_left = __shfl_up_sync(~0u, share, 1);
    const int begin = lane ? begin_left : 0;
    const float from = lane ? share_left : 0;
    __syncwarp();
    table[lane] = {(float)reciprocal(w * v.rows), (end == begin ? share : 1.0f) - from, share, end};
    __syncwarp();
}

/* Adds the columns of a plane to the pixels. `column` is voxel 0 of the first one; the position of row r of a lane is
 * at + r rows, and those of the next column are dq and d_rows higher. */
template <int M, bool THREE>
__device__ __forceinline__ void add_plane(const meeting *table, const texel<M> *column, int pitch, int64_t at, int64_t dq,
                                          int64_t rows, int64_t d_rows, int count, float (&sum)[U][R][M])
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
            const float second = fmaf(-2.0f, c.per_row, 1.0f), third = second - c.per_row;
            int64_t z = at;
#pragma unroll
            for (int r = 0; r < R; r++) {
                const texel<M> *const voxel = column + (int)(z >> 32);
                const float place = __uint_as_float(__funnelshift_r((uint32_t)z, 0x7f, 9)); /* 1 + fraction */
                const float beyond = __saturatef(fmaf(place, c.per_row, second)); /* share beyond the first voxel */
                float x[M], y[M];
                spread<M>(voxel[0], x);
                spread<M>(voxel[1], y);
#pragma unroll
                for (int m = 0; m < M; m++)
                    line[r][m] = fmaf(beyond, y[m] - x[m], x[m]);
                if (THREE) {
                    const float most = __saturatef(fmaf(place, c.per_row, third));
                    if (most > 0) { /* of few lanes, so that few words are read */
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
            column += pitch;
            at += dq;
            rows += d_rows;
            end = c.end;
            last = c.last;
        } while (end <= i);
    }
}

/* Shared memory after the stages. */
struct __align__(16) board {
    meeting table[WARPS][PROJECT_TABLE];
    int2 origin[PROJECT_PLANES];  /* first column and voxel of each plane's box */
    uint64_t full[MAX_STAGES];
    int read[MAX_STAGES];         /* warps that have read a stage */
};

/* Sets the origins of every WARPS-th box: a lane is a view and a corner of its columns and rows. */
template <int M>
__device__ __forceinline__ void place_boxes(const project_args &a, int d, int row0, int first_view, board &b)
{
    const int lane = threadIdx.x & 31, slot = lane & (a.group - 1), mine = first_view + slot, corner = lane / a.group;
    const project_view &v = a.view[min(mine, a.views - 1)];
    const run r = run_of(a, v, d, 0, WARPS / a.group);
    const rise z = rise_of(v, row0 + (corner & 2 ? PROJECT_BLOCK_ROWS : 0));
    const bool counts = slot < a.sharing && mine < a.views && r.count > 0;
#pragma unroll 1
    for (int n = threadIdx.x >> 5; n < a.planes; n += WARPS) {
        const int plane = a.plane0 + n, begin = first_column(r, plane), end = last_column(r, plane);
        const int k = (int)((z.at + plane * z.dp + (corner & 1 ? end : begin) * z.dq) >> 32);
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

template <int M>
__global__ void __launch_bounds__(WARPS * 32, 2)
    k_pair_project_tiled(const __grid_constant__ CUtensorMap map, const __grid_constant__ project_args a)
{
    extern __shared__ __align__(1024) unsigned char shared[];
    const int box_bytes = a.box_q * a.box_z * M * (int)sizeof(float), stage_bytes = box_stride(box_bytes);
    board &b = *reinterpret_cast<board *>(shared + a.stages * stage_bytes);
    const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
    const int d = (int)blockIdx.y, row0 = a.row0 + (int)blockIdx.z * PROJECT_BLOCK_ROWS, first_view = (int)blockIdx.x * a.sharing;

    if (threadIdx.x == 0)
        for (int s = 0; s < a.stages; s++)
            barrier_init(&b.full[s], 1), b.read[s] = 0;
    place_boxes<M>(a, d, row0, first_view, b);
    barriers_ready();
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
    const auto fetch = [&](int n, int stage) {
        const int2 at = b.origin[n];
        barrier_expect(&b.full[stage], box_bytes);
        copy_box(shared + stage * stage_bytes, &map, at.y, a.march == 0 ? a.plane0 + n : at.x,
                 a.march == 0 ? at.x : a.plane0 + n, &b.full[stage]);
    };
    if (threadIdx.x == 0)
        for (int n = 0; n < min(a.stages, a.planes); n++)
            fetch(n, n);

    const int mine = first_view + warp % a.group;
    const project_view &v = a.view[min(mine, a.views - 1)];
    run r = run_of(a, v, d, warp / a.group, 1);
    if (warp % a.group >= a.sharing || mine >= a.views)
        r.count = 0;
    meeting *const table = b.table[warp];
    ring_position stage;
    const rise z = rise_of(v, row0 + lane);
    const rise rows = {fixed(32 * v.w1 * v.rows), fixed(32 * v.wp * v.rows), fixed(32 * v.wq * v.rows)};
    float sum[U][R][M] = {};
#pragma unroll 1
    for (int n = 0; n < a.planes; n++) {
        const int plane = a.plane0 + n;
        const int begin = first_column(r, plane), end = last_column(r, plane);
        const bool meets = r.count > 0 && end >= 0 && begin < a.across;
        if (meets)
            make_table(v, begin, plane, r.first, table);
        barrier_wait(&b.full[stage.at()], stage.wrap());
        if (meets) {
            const int2 origin = b.origin[n];
            const texel<M> *const box = reinterpret_cast<const texel<M> *>(shared + stage.at() * stage_bytes);
            const texel<M> *const column = box + (begin - origin.x) * a.box_z - origin.y;
            const int64_t at = z.at + plane * z.dp + begin * z.dq, step = rows.at + plane * rows.dp + begin * rows.dq;
            const double w = fma(v.wp, (double)plane, v.w1);
            const double most = fmax(fma(v.wq, (double)begin, w), fma(v.wq, (double)end, w)) * v.rows;
            if (most <= 1)
                add_plane<M, false>(table, column, a.box_z, at, z.dq, step, rows.dq, r.count, sum);
            else
                add_plane<M, true>(table, column, a.box_z, at, z.dq, step, rows.dq, r.count, sum);
        }
        __syncwarp();
        if (lane == 0 && atomicAdd(&b.read[stage.at()], 1) == WARPS - 1) { /* the last warp has it filled again */
            b.read[stage.at()] = 0;
            if (n + a.stages < a.planes)
                fetch(n + a.stages, (int)stage.at());
        }
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
    return (size_t)a.stages * box_stride(a.box_q * a.box_z * M * (int)sizeof(float)) + sizeof(board);
}

cudaError_t launch_project_tiled(int M, const CUtensorMap &map, const project_args &a, int blocks_q, bool early,
                                 cudaStream_t stream)
{
    const auto f = M == 2 ? k_pair_project_tiled<2> : k_pair_project_tiled<1>;
    const size_t shared = project_tiled_shared(M, a);
    const cudaError_t e = vp_allow_shared(f, shared);
    if (e != cudaSuccess)
        return e;
    cudaLaunchAttribute attribute = {};
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
    const dim3 blocks((unsigned)vp_div_up(a.views, a.sharing), (unsigned)blocks_q,
                      (unsigned)vp_div_up(a.rows - a.row0, PROJECT_BLOCK_ROWS));
    return vp_launch_with(early ? &attribute : NULL, stream, f, blocks, dim3(WARPS * 32), shared, map, a);
}

} // namespace vp
