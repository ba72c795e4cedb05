/* SPDX-License-Identifier: BSD-3-Clause */
/* Summed area tables of volumes of f32, in the order of global/sat.h. The samples are read twice, the table is written
 * once.
 *
 * edges_kernel and sides_kernel compute h and p of all tiles of all planes. Then a block takes one tile through all
 * planes (march_kernel), with a ring of STAGES planes and the sums that warps exchange in shared memory. sat.cuh
 * computes volumes whose planes have too few tiles to keep a device busy that way, and all volumes on devices with less
 * shared memory. */
#include "sat_volume.cuh"

namespace vp::sat
{
namespace
{

enum {
    HIGH = VP_SAT_HIGH,
    STRIPS = 8,  /* warps of a block, and rows of a warp */
    DEPTH = 8,   /* planes of a block of edges_kernel */
    STAGES = 3,  /* planes in shared memory */
    ENOUGH = 100 /* tiles that keep a device busy */
};
static_assert(HIGH == STRIPS * STRIPS && (int)WIDE == VP_SAT_WIDE, "");

struct float_job : tiled_part {
    /* [plane][tile along x][row], [plane][tile along y][column]: after edges_kernel b and the last row of the tile's
     * own table, after sides_kernel h and p */
    double *left, *above;
};

/* Four columns of a row, as a lane has them. Columns outside the image are undefined: no output depends on them. */
using quad_row = packed<float, 4>;

/* Adds a row to the column sums t of global/sat.h, or begins them with it if `first`. */
template <bool SQUARE> __device__ __forceinline__ void add_row(double (&t)[4], const quad_row &a, bool first)
{
    double q = 0;
#pragma unroll
    for (int k = 0; k < 4; k++) {
        q = k ? q + value_of<float, double, SQUARE>(a.at(k)) : value_of<float, double, SQUARE>(a.at(k));
        t[k] = first ? q : t[k] + q;
    }
}

/* Returns e of global/sat.h. */
__device__ __forceinline__ double sums_before(const double (&t)[4], int lane)
{
    const double before = __shfl_up_sync(~0u, scan_lanes(t[3], lane), 1);
    return lane ? before : 0;
}

/* Shares the warp's sums w with the block and sets o of global/sat.h: the sum over the warps above, in order. */
__device__ __forceinline__ void exchange_rows(double (&o)[4], const double (&w)[4], double (*of)[WIDE], int warp,
                                              int lane)
{
#pragma unroll
    for (int k = 0; k < 4; k += 2)
        *(vec<double, 2> *)&of[warp][lane * 4 + k] = vec<double, 2>{{w[k], w[k + 1]}};
    __syncthreads();
    memset(o, 0, sizeof o);
#pragma unroll
    for (int i = 0; i < STRIPS - 1; i++)
        if (i < warp)
#pragma unroll
            for (int k = 0; k < 4; k += 2) {
                const vec<double, 2> v = *(const vec<double, 2> *)&of[i][lane * 4 + k];
                o[k] += v.v[0];
                o[k + 1] += v.v[1];
            }
}

/* Computes for every tile of every plane b of its rows and the last row of its own table. */
template <bool SQUARE> __global__ void __launch_bounds__(STRIPS * 32, 2) edges_kernel(const float_job j)
{
    __shared__ __align__(16) double exchange[2][STRIPS][WIDE];
    __shared__ double last[2][STRIPS];
    const int tid = (int)threadIdx.x, warp = tid >> 5, lane = tid & 31;
    const int64_t tiles = j.tiles_x * j.tiles_y, tile = blockIdx.x % tiles, tx = tile % j.tiles_x,
                  ty = tile / j.tiles_x,
                  x0 = tx * WIDE + lane * 4, y0 = ty * HIGH + warp * STRIPS, z0 = blockIdx.x / tiles * DEPTH,
                  z1 = min(z0 + DEPTH, j.planes);
    const float *in = (const float *)j.in + z0 * j.in_plane + y0 * j.in_row + x0;
    const int rows = x0 < j.nx ? (int)min(j.ny - y0, (int64_t)STRIPS) : 0;
    quad_row raw[STRIPS], now[STRIPS];
    memset(raw, 0, sizeof raw);
#pragma unroll
    for (int r = 0; r < STRIPS; r++)
        if (r < rows)
            raw[r].load(in + r * j.in_row);
    for (int64_t z = z0; z < z1; z++) {
#pragma unroll
        for (int r = 0; r < STRIPS; r++)
            now[r] = raw[r];
        in += j.in_plane;
        if (z + 1 < z1)
#pragma unroll
            for (int r = 0; r < STRIPS; r++)
                if (r < rows)
                    raw[r].load(in + r * j.in_row);
        double w[4], o[4], above = 0;
        const double sum = tree_sums<STRIPS, true>([&](int r) {
            add_row<SQUARE>(w, now[r], r == 0);
            return w[3];
        }, lane);
        if (lane == STRIPS - 1)
            last[z & 1][warp] = sum;
        exchange_rows(o, w, exchange[z & 1], warp, lane);
        for (int i = 0; i < warp; i++)
            above += last[z & 1][i];
        if (warp == STRIPS - 1 && ty < j.tiles_y - 1) {
#pragma unroll
            for (int k = 0; k < 4; k++)
                w[k] = o[k] + w[k];
            const double e = sums_before(w, lane);
            double *const to = j.above + (z * j.tiles_y + ty) * j.padded_columns + x0;
#pragma unroll
            for (int k = 0; k < 4; k += 2)
                *(vec<double, 2> *)(to + k) = vec<double, 2>{{w[k] + e, w[k + 1] + e}};
        }
        if (lane < STRIPS)
            j.left[(z * j.tiles_x + tx) * j.padded_rows + y0 + lane] = above + sum;
    }
}

/* Scans over tiles, exclusively: b along x, which gives h of global/sat.h; ABOVE: last rows along y, which give p. */
template <bool ABOVE> __global__ void __launch_bounds__(128) sides_kernel(const float_job j)
{
    enum { AHEAD = 8 };
    const int64_t n = ABOVE ? j.tiles_y : j.tiles_x, pitch = ABOVE ? j.padded_columns : j.padded_rows;
    const int64_t i = blockIdx.x * (int64_t)128 + threadIdx.x, plane = i / pitch, at = i % pitch;
    if (plane >= j.planes)
        return;
    const double *left = j.left + (plane * j.tiles_x + at / WIDE) * j.padded_rows + HIGH - 1;
    double *p = (ABOVE ? j.above : j.left) + plane * n * pitch + at, sum = 0, next[AHEAD] = {}, corner[AHEAD] = {};
    for (int64_t t = 0; t < n; t += AHEAD, p += AHEAD * pitch, left += AHEAD * HIGH) {
#pragma unroll
        for (int a = 0; a < AHEAD; a++)
            if (t + a < n - ABOVE) {
                next[a] = p[a * pitch];
                if (ABOVE)
                    corner[a] = left[a * HIGH];
            }
#pragma unroll
        for (int a = 0; a < AHEAD; a++)
            if (t + a < n) {
                p[a * pitch] = sum;
                sum = sum + (ABOVE ? next[a] + corner[a] : next[a]);
            }
    }
}

enum { RAW = HIGH * WIDE * 4, STAGE = RAW + (WIDE + HIGH) * 8, EXCHANGE = 2 * STRIPS * WIDE * 8 }; /* bytes */

/* Takes one tile through all planes: out(z) = out(z - 1) + (p + (r + h)). */
template <bool SQUARE> __global__ void __launch_bounds__(STRIPS * 32, 1) march_kernel(const float_job j)
{
    extern __shared__ __align__(16) char stages[];
    __shared__ __align__(16) double exchange[2][STRIPS][WIDE];
    static_assert(sizeof exchange == EXCHANGE, "");
    const int tid = (int)threadIdx.x, warp = tid >> 5, lane = tid & 31;
    const int64_t tx = blockIdx.x % j.tiles_x, ty = blockIdx.x / j.tiles_x, x0 = tx * WIDE, x = x0 + lane * 4,
                  y0 = ty * HIGH + warp * STRIPS;
    const int rows = (int)max(min(j.ny - y0, (int64_t)STRIPS), (int64_t)0),
              columns = (int)max(min(j.nx - x, (int64_t)4), (int64_t)0);
    const auto load_plane = [&](int64_t z) {
        if (z < j.planes) {
            char *const to = stages + z % STAGES * STAGE;
            const float *const from = (const float *)j.in + z * j.in_plane + y0 * j.in_row + x;
#pragma unroll
            for (int r = 0; r < STRIPS; r++)
                if (r < rows && columns > 0)
                    copy_async<16>(to + ((warp * STRIPS + r) * WIDE + lane * 4) * 4, from + r * j.in_row);
            const double *const above = j.above + (z * j.tiles_y + ty) * j.padded_columns + x0,
                         *const left = j.left + (z * j.tiles_x + tx) * j.padded_rows + ty * HIGH;
            if (tid < (WIDE + HIGH) / 2)
                copy_async<16>(to + RAW + tid * 16, tid < WIDE / 2 ? above + tid * 2 : left + tid * 2 - WIDE);
        }
        copies_close();
    };
#pragma unroll
    for (int i = 0; i < STAGES - 1; i++)
        load_plane(i);
    double out[STRIPS][4]; /* the table of the previous plane */
    const double *const carried = (const double *)j.carry;
#pragma unroll
    for (int r = 0; r < STRIPS; r++)
#pragma unroll
        for (int k = 0; k < 4; k++)
            out[r][k] = !j.no_carry && r < rows && k < columns ? carried[(y0 + r) * j.carry_pitch + x + k] : 0;
    double *first = (double *)j.out + y0 * j.out_row + x;
    for (int64_t z = 0; z < j.planes; z++, first += j.out_plane) {
        copies_wait<STAGES - 2>();
        __syncwarp();
        const char *const stage = stages + z % STAGES * STAGE;
        const float *const raw = (const float *)stage + warp * STRIPS * WIDE + lane * 4;
        const double *const above = (const double *)(stage + RAW) + lane * 4,
                     *const left = (const double *)(stage + RAW) + WIDE + warp * STRIPS;
        double w[4], o[4], t[4], p[4];
        quad_row a;
#pragma unroll
        for (int r = 0; r < STRIPS; r++) {
            a.load(raw + r * WIDE);
            add_row<SQUARE>(w, a, r == 0);
        }
        exchange_rows(o, w, exchange[z & 1], warp, lane);
        load_plane(z + STAGES - 1); /* after the barrier: all warps have finished the previous plane */
#pragma unroll
        for (int k = 0; k < 4; k++)
            p[k] = above[k];
        double *at = first;
#pragma unroll
        for (int r = 0; r < STRIPS; r++, at += j.out_row) {
            a.load(raw + r * WIDE);
#pragma unroll
            for (int k = 0; k < 4; k++)
                t[k] = r ? t[k] : o[k];
            add_row<SQUARE>(t, a, false);
            if (r == STRIPS - 1 && warp == STRIPS - 1)
#pragma unroll
                for (int k = 0; k < 4; k++)
                    t[k] = o[k] + w[k];
            const double e = sums_before(t, lane), l = left[r];
#pragma unroll
            for (int k = 0; k < 4; k++)
                out[r][k] = out[r][k] + (p[k] + ((t[k] + e) + l));
            if (r < rows && columns == 4) {
#pragma unroll
                for (int k = 0; k < 4; k += 2)
                    store_once<double, 2>(at + k, vec<double, 2>{{out[r][k], out[r][k + 1]}});
            } else if (r < rows) {
#pragma unroll
                for (int k = 0; k < 3; k++)
                    if (k < columns)
                        at[k] = out[r][k];
            }
        }
    }
}

template <bool SQUARE> int run_march(const float_job &j, cudaStream_t stream, struct vp_err *err)
{
    const auto grid = [](int64_t n, int64_t each) { return dim3((unsigned)vp_div_up(n, each)); };
    const int64_t tiles = j.tiles_x * j.tiles_y;
    if (vp_start(err, stream, edges_kernel<SQUARE>, grid(tiles * vp_div_up(j.planes, DEPTH), 1), dim3(STRIPS * 32), 0,
                 j)
        || vp_start(err, stream, sides_kernel<false>, grid(j.planes * j.padded_rows, 128), dim3(128), 0, j)
        || vp_start(err, stream, sides_kernel<true>, grid(j.planes * j.padded_columns, 128), dim3(128), 0, j)
        || vp_start(err, stream, march_kernel<SQUARE>, grid(tiles, 1), dim3(STRIPS * 32), STAGES * STAGE, j))
        return -1;
    return carry_on<double>(j, stream, err);
}

} // namespace

bool marches(const struct vp_op *op)
{
    const int64_t tiles = vp_div_up(op->image[0], WIDE) * vp_div_up(op->image[1], HIGH);
    return vp_params<vp_sat>(op)->volume && op->in == VP_F32 && tiles >= ENOUGH
           && STAGES * STAGE + EXCHANGE <= vp_shared_least();
}

uint64_t march_bytes(const int64_t out[3])
{
    float_job j = {};
    j.nx = out[0];
    j.ny = out[1];
    j.cut(HIGH);
    return (uint64_t)(out[2] * (j.tiles_x * j.padded_rows + j.tiles_y * j.padded_columns)) * sizeof(double);
}

int march(const table_part &made, int which, const struct vp_work *work, struct vp_err *err)
{
    float_job j = {made};
    j.cut(HIGH);
    j.left = (double *)work->scratch;
    j.above = j.left + j.planes * j.tiles_x * j.padded_rows;
    return which ? run_march<true>(j, work->queue->stream, err) : run_march<false>(j, work->queue->stream, err);
}

} // namespace vp::sat
