/* SPDX-License-Identifier: BSD-3-Clause */
/* Boxes of another size for every voxel: kernel "radius_map" of local/radius_map.h. Sums are those of integers, which
 * are never rounded, so results equal the CPU's to the bit. The tables of sat.cu do not do: cells here have up to three
 * sums of 128 bits.
 *
 * Overview: the table of the part is made along x by a scan of each row, along y and (volumes) z by running sums, and
 *   read at the corners of each box. A cell has all sums of its place: 8 or 16 bytes for narrow integers, 32 or 48 for
 *   floats, whose sums have 128 bits and which count what is not finite.
 * Mapping: a block of 32 to THREADS threads for each row; a thread for each column, or SEGMENTS of them along y; a
 *   thread for each voxel.
 * Registers: a cell. Shared memory: a cell for each thread. Synchronisation: barriers of the scan of a row.
 * Global memory: cells are written once and read and written once more along y (twice read) and z; four or eight of
 *   them are read for a voxel.
 * Limits: samples of u8, u16, i16 and f32. */
#include "convert.cuh"
#include "footprint.cuh"
#include "local/radius_map.h"

namespace vp
{

namespace
{

typedef unsigned __int128 u128;

enum { THREADS = 256, COLUMNS = 32, SEGMENTS = 16, KINDS = 3 /* NaN, +infinity, -infinity */ };

/* ---- numbers ---- */

/* Returns v, a whole number below 2^126, as an integer. */
__device__ u128 whole_of(double v)
{
    const long long bits = __double_as_longlong(fabs(v));
    const int exponent = (int)(bits >> 52) - 1075;
    const u128 digits = (u128)(uint64_t)((bits & ((1ll << 52) - 1)) | 1ll << 52);
    const u128 n = v == 0 ? 0 : exponent >= 0 ? digits << exponent : exponent > -64 ? digits >> -exponent : 0;
    return v < 0 ? -n : n;
}

/* Returns the nearest double of a signed number, halves to even: the last of 64 digits stands for all that follow. */
__device__ double double_of(u128 signed_n)
{
    const bool below = (__int128)signed_n < 0;
    const u128 n = below ? -signed_n : signed_n;
    const uint64_t high = (uint64_t)(n >> 64);
    double v = (double)(uint64_t)n;
    if (high) {
        const int shift = 64 - __clzll((long long)high);
        const uint64_t top = (uint64_t)(n >> shift);
        v = ldexp((double)(top | ((u128)top << shift != n)), shift);
    }
    return below ? -v : v;
}

/* Returns s / n, towards 0, for 0 < n < 2^31. */
__device__ u128 divide(u128 s, uint32_t n)
{
    const bool below = (__int128)s < 0;
    const u128 of = below ? -s : s;
    u128 quotient = 0;
    uint64_t rest = 0;
    for (int shift = 96; shift >= 0; shift -= 32) {
        const uint64_t part = rest << 32 | (uint32_t)(of >> shift);
        quotient = quotient << 32 | part / n;
        rest = part % n;
    }
    return below ? -quotient : quotient;
}

/* ---- cells ---- */

struct radius_job {
    vp_radius_map p;
    double half, rest;         /* factors of a sample: 2^shift */
    vp_area in, radii, out;
    int out_type;
    vp_box box;                /* box that the table covers */
    int64_t image[3];
    int64_t row, plane, planes; /* cells of a row, of a plane; planes */
};

struct whole_sum {
    uint64_t sum;
    __device__ void set(const radius_job &, double v) { sum = (uint64_t)(int64_t)v; }
    __device__ void add(const whole_sum &o) { sum += o.sum; }
    __device__ void take(const whole_sum &o) { sum -= o.sum; }
};

struct whole_squares {
    uint64_t sum, square;
    __device__ void set(const radius_job &, double v)
    {
        sum = (uint64_t)(int64_t)v;
        square = sum * sum;
    }
    __device__ void add(const whole_squares &o)
    {
        sum += o.sum;
        square += o.square;
    }
    __device__ void take(const whole_squares &o)
    {
        sum -= o.sum;
        square -= o.square;
    }
};

template <bool SQUARES> struct real_cell {
    u128 sum, square[SQUARES ? 1 : 0];
    uint32_t odd[KINDS];
    __device__ void set(const radius_job &j, double v)
    {
        const bool is_finite = v - v == 0;
        sum = is_finite ? whole_of(rint(__dmul_rn(__dmul_rn(v - j.p.base, j.half), j.rest))) : 0;
        if constexpr (SQUARES)
            square[0] = sum * sum;
        odd[0] = v != v;
        odd[1] = !is_finite && v > 0;
        odd[2] = !is_finite && v < 0;
    }
    __device__ void add(const real_cell &o)
    {
        sum += o.sum;
        if constexpr (SQUARES)
            square[0] += o.square[0];
        for (int k = 0; k < KINDS; k++)
            odd[k] += o.odd[k];
    }
    __device__ void take(const real_cell &o)
    {
        sum -= o.sum;
        if constexpr (SQUARES)
            square[0] -= o.square[0];
        for (int k = 0; k < KINDS; k++)
            odd[k] -= o.odd[k];
    }
};

/* ---- the table ---- */

/* Sums each row along x; row 0 of a plane and plane 0 of a volume are 0. */
template <class Cell> __global__ void __launch_bounds__(THREADS) row_kernel(radius_job j, Cell *table)
{
    extern __shared__ uint4 shared[];
    Cell *const block = (Cell *)shared;
    const int64_t rows = j.box.hi[1] - j.box.lo[1] + 1, first = j.p.volume;
    const int n = blockDim.x, t = threadIdx.x;

    for (int64_t i = blockIdx.x; i < rows * j.planes; i += gridDim.x) {
        const int64_t y = i % rows, z = i / rows;
        Cell *const to = table + z * j.plane + y * j.row;
        const bool sums = z >= first && y > 0;
        Cell before = {};
        for (int64_t at = 0; at < j.row; at += n) {
            const int64_t x = at + t;
            Cell own = {};
            if (sums && x > 0 && x < j.row)
                own.set(j, (double)*vp_at<float>(j.in, j.box.lo[0] + x - 1, j.box.lo[1] + y - 1,
                                                 j.box.lo[2] + z - first));
            for (int by = 1; sums && by < n; by *= 2) {
                block[t] = own;
                __syncthreads();
                if (t >= by)
                    own.add(block[t - by]);
                __syncthreads();
            }
            own.add(before);
            if (x < j.row)
                to[x] = own;
            block[t] = own;
            __syncthreads();
            before = block[n - 1];
            __syncthreads();
        }
    }
}

/* Sums along y: each thread the rows of a segment, after the segments above it. */
template <class Cell> __global__ void __launch_bounds__(COLUMNS *SEGMENTS) column_kernel(radius_job j, Cell *table)
{
    extern __shared__ uint4 shared[];
    Cell *const block = (Cell *)shared;
    const int64_t x = (int64_t)blockIdx.x * COLUMNS + threadIdx.x, rows = j.box.hi[1] - j.box.lo[1] + 1;
    const int64_t each = (rows + SEGMENTS - 1) / SEGMENTS, from = threadIdx.y * each, to = min(from + each, rows);

    for (int64_t z = j.p.volume + blockIdx.z; z < j.planes; z += gridDim.z) {
        Cell *const column = table + z * j.plane + x;
        Cell sum = {};
        for (int64_t y = from; y < to && x < j.row; y++)
            sum.add(column[y * j.row]);
        block[threadIdx.y * COLUMNS + threadIdx.x] = sum;
        __syncthreads();
        sum = {};
        for (int s = 0; s < (int)threadIdx.y; s++)
            sum.add(block[s * COLUMNS + threadIdx.x]);
        for (int64_t y = from; y < to && x < j.row; y++) {
            sum.add(column[y * j.row]);
            column[y * j.row] = sum;
        }
        __syncthreads();
    }
}

/* Sums along z. */
template <class Cell> __global__ void __launch_bounds__(THREADS) depth_kernel(radius_job j, Cell *table)
{
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= j.plane)
        return;
    Cell sum = table[i];
    for (int64_t z = 1; z < j.planes; z++) {
        sum.add(table[z * j.plane + i]);
        table[z * j.plane + i] = sum;
    }
}

/* ---- reading it ---- */

__device__ double deviations(u128 sum, u128 square, int64_t n)
{
    const __int128 s = (__int128)sum;
    __int128 mean = (__int128)divide(sum, (uint32_t)n);
    const __int128 twice = 2 * (s - mean * n);

    mean += twice > n ? 1 : twice < -(__int128)n ? -1 : 0;
    const __int128 rest = s - mean * n;
    const u128 about = square - (u128)mean * (u128)(2 * s - mean * n);

    if (about >> 94)
        return __dmul_rn(double_of(about), (double)n);
    return double_of(about * (u128)n - (u128)(rest * rest));
}

__device__ double spread(const vp_radius_map &p, u128 sum, u128 square, int64_t samples)
{
    const double n = (double)samples, by = p.sample ? n - 1 : n;
    const double var = by > 0 ? deviations(sum, square, samples) / __dmul_rn(n, by) : 0;
    return p.stat == VP_RADIUS_STD ? ldexp(sqrt(var), -p.shift) : ldexp(var, -2 * p.shift);
}

__device__ double finish(const vp_radius_map &p, const whole_sum &c, int64_t n)
{
    return (double)(int64_t)c.sum / (p.stat == VP_RADIUS_SUM ? 1.0 : (double)n);
}

__device__ double finish(const vp_radius_map &p, const whole_squares &c, int64_t n)
{
    return spread(p, (u128)(__int128)(int64_t)c.sum, c.square, n);
}

template <bool SQUARES> __device__ double finish(const vp_radius_map &p, const real_cell<SQUARES> &c, int64_t n)
{
    const bool up = c.odd[1], down = c.odd[2];
    if (c.odd[0] || (up && down) || ((up || down) && SQUARES))
        return __longlong_as_double(0x7ff8000000000000ll);
    if (up || down)
        return up ? INFINITY : -INFINITY;
    if constexpr (SQUARES)
        return spread(p, c.sum, c.square[0], n);
    return ldexp(double_of(c.sum) / (p.stat == VP_RADIUS_SUM ? 1.0 : (double)n), -p.shift);
}

template <class Cell> __global__ void __launch_bounds__(THREADS) read_kernel(radius_job j, const Cell *table)
{
    vp_each_voxel(j.out.box, [&](int64_t x, int64_t y, int64_t z) {
        const int64_t at[3] = {x, y, z}, r = min((int64_t)*vp_at<float>(j.radii, x, y, z), j.p.reach);
        int64_t lo[3], hi[3], n = 1;
        for (int a = 0; a < 3; a++) {
            const int64_t reach = a < 2 || j.p.volume ? r : 0;
            lo[a] = max(at[a] - reach, (int64_t)0) - j.box.lo[a];
            hi[a] = min(at[a] + reach, j.image[a] - 1) + 1 - j.box.lo[a];
            n *= hi[a] - lo[a];
        }
        const auto inside = [&](int64_t plane) {
            const Cell *const top = table + plane * j.plane + hi[1] * j.row;
            const Cell *const bottom = table + plane * j.plane + lo[1] * j.row;
            Cell c = top[hi[0]];
            c.take(top[lo[0]]);
            c.take(bottom[hi[0]]);
            c.add(bottom[lo[0]]);
            return c;
        };
        Cell c = inside(j.p.volume ? hi[2] : lo[2]);
        if (j.p.volume)
            c.take(inside(lo[2]));
        const double v = finish(j.p, c, n);
        if (j.out_type == VP_F32)
            *vp_at<float>(j.out, x, y, z) = v != v ? __uint_as_float(0x7fc00000u) : (float)v;
        else
            convert_store(j.out.data, vp_place(j.out, x, y, z), j.out_type, v);
    });
}

/* ---- host ---- */

constexpr auto params = vp_params<vp_radius_map>;

bool has(const struct vp_op *op, char *why, size_t size)
{
    return vp_has_types(op->in == VP_F32, op, why, size) && vp_has_sizes(op, why, size);
}

/* Returns f(Cell()) with the cell that the operation needs. */
template <class F> auto by_cell(const vp_radius_map *p, const F &f)
{
    const bool squares = p->stat == VP_RADIUS_VAR || p->stat == VP_RADIUS_STD;
    return p->whole ? squares ? f(whole_squares()) : f(whole_sum())
           : squares ? f(real_cell<true>()) : f(real_cell<false>());
}

uint64_t scratch(const struct vp_op *op, const int64_t in[3], const int64_t[3])
{
    const uint64_t cells = (uint64_t)((in[0] + 1) * (in[1] + 1) * (in[2] + params(op)->volume));
    return by_cell(params(op), [=](auto c) { return cells * sizeof c; });
}

int launch(const struct vp_op *op, const struct vp_work *work, struct vp_err *err)
{
    radius_job j = {};

    j.p = *params(op);
    j.half = ldexp(1, j.p.shift / 2);
    j.rest = ldexp(1, j.p.shift - j.p.shift / 2);
    j.in = work->in[0];
    j.radii = work->in[1];
    j.out = *work->out;
    j.out_type = op->out;
    j.box = j.out.box;
    for (int a = 0; a < 3; a++) {
        j.image[a] = op->image[a];
        vp_box_grow(&j.box, a, op->halo[a], {{0, 0, 0}, {op->image[0], op->image[1], op->image[2]}});
    }
    j.row = vp_box_size(&j.box, 0) + 1;
    j.plane = j.row * (vp_box_size(&j.box, 1) + 1);
    j.planes = vp_box_size(&j.box, 2) + j.p.volume;
    return by_cell(&j.p, [&](auto cell) {
        using Cell = decltype(cell);
        Cell *const table = (Cell *)work->scratch;
        const int64_t rows = (vp_box_size(&j.box, 1) + 1) * j.planes;
        const unsigned threads = j.row > 128 ? THREADS : j.row > 32 ? 64 : 32;
        const dim3 columns((unsigned)vp_div_up(j.row, COLUMNS), 1, vp_grid_depth(j.planes - j.p.volume));
        return vp_start(err, work->queue->stream, row_kernel<Cell>, dim3((unsigned)vp_min64(rows, 1 << 16)),
                        dim3(threads), threads * sizeof(Cell), j, table) ||
               vp_start(err, work->queue->stream, column_kernel<Cell>, columns, dim3(COLUMNS, SEGMENTS),
                        COLUMNS * SEGMENTS * sizeof(Cell), j, table) ||
               (j.p.volume && vp_start(err, work->queue->stream, depth_kernel<Cell>,
                                       dim3((unsigned)vp_div_up(j.plane, THREADS)), dim3(THREADS), 0, j, table)) ||
               vp_start_voxels(err, work, j.out.box, read_kernel<Cell>, j, (const Cell *)table) ? -1 : 0;
    });
}

} // namespace

}

VP_GPU_KERNEL(radius_map, vp::has, vp::scratch, nullptr, nullptr, vp::launch);
