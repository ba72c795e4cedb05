/* SPDX-License-Identifier: BSD-3-Clause */
/* The matched pair (kernels "pair", ct/pair_device.h): projection of a volume with area weights, and its transpose.
 *
 * Overview. project: a thread makes one pixel. A block of THREADS pixels lies along one column u of the detector, so all
 * its threads meet the same columns of voxels: each thread makes the geometry of one layer (in float64: the columns that
 * the pixel meets, their weights, and the position of row 0 in voxels), then all march through the layers. Neighbouring
 * threads read neighbouring voxels of a column. collect: a warp makes SLICES voxels of a column, a lane every 32nd; lane
 * s makes the geometry of view s; rows of neighbouring voxels are neighbours in a line.
 * Registers: no spills. Shared memory: project 18 KiB, collect 3 KiB a block. Synchronisation: __syncthreads around each
 * part of THREADS layers; a warp's own memory with __syncwarp.
 * Global memory: at one voxel a row and pixel, 2.2 columns x 2 or 3 voxels a layer and pixel, from L1 and L2; a group of
 * 16 views reads and writes the volume once (collect).
 * Positions: 2^-30 samples in 64 bits, steps 2^-30 in 32 bits. Sums: a part of THREADS layers by itself; a group of views
 * by itself. Bits depend on the volume, the views and, in collect, the groups.
 * Limits: u and depth constant along columns; at most 4 columns a pixel, 4 pixels a column, 5 rows or voxels a step. */
#include "launch.cuh"
#include "ct/orbit.h"
#include "ct/pair_device.h"

namespace
{

constexpr int THREADS = 256, ACROSS = 4, WARPS = 4, SLICES = 128, EDGE = VP_PAIR_EDGE;
constexpr double ONE = 1073741824.0; /* 2^30 */

__device__ inline double dot(const double *row, double i, double j)
{
    return row[0] * i + row[1] * j + row[3];
}

/* Returns the length of a pixel's ray in a layer. */
__device__ float length_of(const vp_pair_shape &s, const vp_pair_view &view, int64_t u, int64_t v)
{
    double ray[3];
    for (int a = 0; a < 3; a++)
        ray[a] = view.ray[0][a] * (double)u + view.ray[1][a] * (double)v + view.ray[2][a];
    const double along = fabs(ray[view.march]);
    const double size = sqrt(ray[0] * ray[0] + ray[1] * ray[1] + ray[2] * ray[2]);
    return along > 1e-6 * size ? (float)(s.voxel[view.march] * size / along) : 0;
}

/* A column of voxels and a view: its edges on the detector, in pixels from the detector's edge, and its rows: row of the
 * lower edge of voxel k = e0 + k step. */
struct column_image { double lo, hi, e0, step, depth; };

/* False: the column has no weight. */
__device__ bool image_of(const vp_pair_view &view, int64_t i, int64_t j, column_image *c)
{
    const double *P = view.P;
    const int across = view.march == 0 ? 1 : 0;
    const double u = dot(P, (double)i, (double)j), w = dot(P + 8, (double)i, (double)j);
    const double near = w - 0.5 * P[8 + across], far = w + 0.5 * P[8 + across];
    if (!(near > VP_ORBIT_NEAREST && far > VP_ORBIT_NEAREST))
        return false;
    const double a = (u - 0.5 * P[across]) / near + 0.5, b = (u + 0.5 * P[across]) / far + 0.5;
    c->lo = fmin(a, b);
    c->hi = fmax(a, b);
    c->depth = w;
    c->step = P[6] / w;
    c->e0 = (dot(P + 4, (double)i, (double)j) - 0.5 * P[6]) / w + 0.5;
    return true;
}

__device__ inline float overlap(const column_image &c, int64_t u)
{
    const double length = fmin(c.hi, (double)(u + 1)) - fmax(c.lo, (double)u);
    return length > 0 ? (float)length : 0;
}

/* The sum of an interval of `width` samples that begins at `at`, 2^-30 samples; samples [-EDGE, n + EDGE) are there. */
template <int TAPS, class Sample>
__device__ inline float interval(int64_t at, float width, int n, const Sample &sample)
{
    const int64_t place = at >> 30;
    const int k = (int)(place < -EDGE ? -EDGE : place > n ? n : place);
    const float from = (float)((uint32_t)at & 0x3fffffffu) * 0x1p-30f, to = from + width;
    float sum = (fminf(to, 1) - from) * sample(k);
#pragma unroll
    for (int t = 1; t < TAPS; t++)
        sum += fminf(fmaxf(to - (float)t, 0), 1) * sample(k + t);
    return sum;
}

/* ---- projection ---- */

/* A layer of voxels, as the pixels of a column of the detector meet it. */
struct layer {
    int64_t at[ACROSS];      /* position of row 0, */
    uint32_t step[ACROSS];   /* and voxels a row, 2^-30 */
    float weight[ACROSS];
    int first, count;        /* columns */
};

__device__ void make_layer(const vp_pair_shape &s, const vp_pair_view &view, int64_t u, int64_t number, layer *to)
{
    const double *P = view.P;
    const int m = view.march, across = 1 - m;
    /* positions e across at which the pixel's edges meet the layer: P[across] e + a = u (P[8 + across] e + w) */
    const double a = P[m] * (double)number + P[3], w = P[8 + m] * (double)number + P[11];
    const double left = (double)u - 0.5, right = (double)u + 0.5;
    const double e = (left * w - a) / (P[across] - left * P[8 + across]);
    const double f = (right * w - a) / (P[across] - right * P[8 + across]);
    const double lo = fmin(e, f), hi = fmax(e, f), last = (double)(s.n[across] - 1);
    to->count = 0;
    to->first = 0;
    if (!(hi > -0.5 && lo < last + 0.5))
        return;
    const int64_t first = (int64_t)fmax(floor(lo + 0.5), 0.0), end = (int64_t)fmin(floor(hi + 0.5), last) + 1;
    to->first = (int)first;
    to->count = (int)(end - first < ACROSS ? end - first : ACROSS);
    for (int t = 0; t < to->count; t++) {
        column_image c;
        const bool seen = m == 0 ? image_of(view, number, first + t, &c) : image_of(view, first + t, number, &c);
        const double width = seen ? 1 / c.step : 1;
        to->weight[t] = seen ? overlap(c, u) * (float)c.step : 0;
        to->at[t] = seen ? (int64_t)floor(-c.e0 * width * ONE) : 0;
        to->step[t] = (uint32_t)(width * ONE + 0.5);
    }
}

template <int TAPS>
__global__ void __launch_bounds__(THREADS) project_kernel(vp_pair_shape s, const float *columns, float *y)
{
    __shared__ layer layers[THREADS];
    const vp_pair_view &view = s.views[s.view[blockIdx.z]];
    const int64_t u = blockIdx.x, row = (int64_t)blockIdx.y * THREADS + threadIdx.x;
    const int64_t n = s.n[view.march], pitch = s.n[2] + 2 * EDGE;
    /* from a column to the next one across, and to that of the next layer */
    const int64_t side = (view.march == 0 ? s.n[0] : 1) * pitch, ahead = (view.march == 0 ? 1 : s.n[0]) * pitch;
    float total = 0;
    for (int64_t part = 0; part < n; part += THREADS) {
        __syncthreads();
        if (part + threadIdx.x < n)
            make_layer(s, view, u, part + threadIdx.x, &layers[threadIdx.x]);
        __syncthreads();
        const int layers_here = (int)(n - part < THREADS ? n - part : THREADS);
        float sum = 0;
        for (int l = 0; l < layers_here; l++) {
            const layer &at = layers[l];
            const float *f = columns + at.first * side + (part + l) * ahead + EDGE;
            for (int t = 0; t < at.count; t++, f += side) {
                const float width = (float)at.step[t] * 0x1p-30f;
                sum += at.weight[t] * interval<TAPS>(at.at[t] + row * (int64_t)at.step[t], width, (int)s.n[2],
                                                     [=](int k) { return f[k]; });
            }
        }
        total += sum;
    }
    if (row >= s.nv)
        return;
    const int64_t v = view.flip ? s.nv - 1 - row : row;
    y[(blockIdx.z * s.nv + v) * s.nu + u] = total * length_of(s, view, u, v);
}

int project(struct vp_queue *q, const struct vp_pair_shape *s, const float *columns, float *y, struct vp_err *err)
{
    const dim3 blocks((unsigned)s->nu, (unsigned)vp_div_up(s->nv, THREADS), (unsigned)s->count);
    if (vp_gpu_check(err, cudaSetDevice(q->device), "device"))
        return -1;
    const auto kernel = s->voxel_taps == 2 ? project_kernel<2> : s->voxel_taps == 3 ? project_kernel<3> : project_kernel<5>;
    return vp_start(err, q->stream, kernel, blocks, dim3(THREADS), 0, *s, columns, y);
}

/* ---- transpose ---- */

__global__ void __launch_bounds__(THREADS) weigh_kernel(vp_pair_shape s, const float *y, float *lines)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x, v = i / s.nu, u = i % s.nu;
    const vp_pair_view &view = s.views[s.view[blockIdx.y]];
    if (v >= s.nv)
        return;
    const int64_t row = view.flip ? s.nv - 1 - v : v;
    lines[(blockIdx.y * s.nu + u) * (s.nv + 2 * EDGE) + EDGE + row] =
        y[blockIdx.y * s.nv * s.nu + i] * length_of(s, view, u, v);
}

int weigh(struct vp_queue *q, const struct vp_pair_shape *s, const float *y, float *lines, struct vp_err *err)
{
    const dim3 blocks((unsigned)vp_div_up(s->nu * s->nv, THREADS), (unsigned)s->count);
    if (vp_gpu_check(err, cudaSetDevice(q->device), "device"))
        return -1;
    return vp_start(err, q->stream, weigh_kernel, blocks, dim3(THREADS), 0, *s, y, lines);
}

/* A view, as a column of voxels sees it. */
struct sighting {
    int64_t at;              /* row of the lower edge of voxel 0, */
    uint32_t step;           /* and rows a voxel, 2^-30 */
    int first, count;        /* lines */
    float weight[ACROSS];
};

__device__ void make_sighting(const vp_pair_shape &s, const vp_pair_view &view, int64_t i, int64_t j, sighting *to)
{
    column_image c;
    to->count = 0;
    if (!image_of(view, i, j, &c) || !(c.hi > 0 && c.lo < (double)s.nu))
        return;
    const int64_t first = (int64_t)fmax(floor(c.lo), 0.0), end = (int64_t)fmin(ceil(c.hi), (double)s.nu);
    to->first = (int)first;
    to->count = (int)(end - first < ACROSS ? end - first : ACROSS);
    to->at = (int64_t)floor(c.e0 * ONE);
    to->step = (uint32_t)(c.step * ONE + 0.5);
    for (int t = 0; t < to->count; t++)
        to->weight[t] = overlap(c, first + t);
}

template <int TAPS>
__global__ void __launch_bounds__(WARPS * 32) collect_kernel(vp_pair_shape s, const float *lines, float *columns)
{
    __shared__ sighting sights[WARPS][VP_PAIR_VIEWS];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int64_t column = (int64_t)blockIdx.x * WARPS + warp, pitch = s.nv + 2 * EDGE;
    const int64_t k0 = (int64_t)blockIdx.y * SLICES + lane;
    if (column >= s.n[0] * s.n[1])
        return;
    if (lane < s.count)
        make_sighting(s, s.views[s.view[lane]], column % s.n[0], column / s.n[0], &sights[warp][lane]);
    __syncwarp();
    float sum[SLICES / 32] = {};
    for (int n = 0; n < s.count; n++) {
        const sighting &at = sights[warp][n];
        const float *line = lines + (n * s.nu + at.first) * pitch + EDGE;
        const float width = (float)at.step * 0x1p-30f;
        if (at.count == 0)
            continue;
#pragma unroll
        for (int part = 0; part < SLICES / 32; part++)
            sum[part] += interval<TAPS>(at.at + (k0 + 32 * part) * (int64_t)at.step, width, (int)s.nv, [&](int row) {
                float mixed = 0;
                for (int t = 0; t < at.count; t++)
                    mixed += at.weight[t] * line[t * pitch + row];
                return mixed;
            });
    }
    float *const to = columns + column * (s.n[2] + 2 * EDGE) + EDGE;
#pragma unroll
    for (int part = 0; part < SLICES / 32; part++)
        if (k0 + 32 * part < s.n[2])
            to[k0 + 32 * part] += sum[part];
}

int collect(struct vp_queue *q, const struct vp_pair_shape *s, const float *lines, float *columns, struct vp_err *err)
{
    const dim3 blocks((unsigned)vp_div_up(s->n[0] * s->n[1], WARPS), (unsigned)vp_div_up(s->n[2], SLICES));
    if (vp_gpu_check(err, cudaSetDevice(q->device), "device"))
        return -1;
    const auto kernel = s->row_taps == 2 ? collect_kernel<2> : s->row_taps == 3 ? collect_kernel<3> : collect_kernel<5>;
    return vp_start(err, q->stream, kernel, blocks, dim3(WARPS * 32), 0, *s, lines, columns);
}

/* ---- layouts ---- */

constexpr int SIDE = 32, LINES = 8;

/* Exchanges x and z of one y through shared memory, `up`: slices to columns. */
__global__ void __launch_bounds__(SIDE * LINES) exchange_kernel(int64_t nx, int64_t ny, int64_t nz, int64_t z, int64_t n,
                                                                float *slices, float *columns, bool up)
{
    __shared__ float tile[SIDE][SIDE + 1];
    const int64_t x0 = (int64_t)blockIdx.x * SIDE, j = blockIdx.y, k0 = (int64_t)blockIdx.z * SIDE;
    const int64_t pitch = nz + 2 * EDGE;
    const int i = threadIdx.x % SIDE, line = threadIdx.x / SIDE;
    for (int l = line; l < SIDE; l += LINES) {
        if (up && x0 + i < nx && k0 + l < n)
            tile[l][i] = slices[((k0 + l) * ny + j) * nx + x0 + i];
        if (!up && k0 + i < n && x0 + l < nx)
            tile[i][l] = columns[(j * nx + x0 + l) * pitch + EDGE + z + k0 + i];
    }
    __syncthreads();
    for (int l = line; l < SIDE; l += LINES) {
        if (!up && x0 + i < nx && k0 + l < n)
            slices[((k0 + l) * ny + j) * nx + x0 + i] = tile[l][i];
        if (up && k0 + i < n && x0 + l < nx)
            columns[(j * nx + x0 + l) * pitch + EDGE + z + k0 + i] = tile[i][l];
    }
}

int exchange(struct vp_queue *q, const int64_t n[3], int64_t z, int64_t count, float *slices, float *columns, bool up,
             struct vp_err *err)
{
    const dim3 blocks((unsigned)vp_div_up(n[0], SIDE), (unsigned)n[1], (unsigned)vp_div_up(count, SIDE));
    if (vp_gpu_check(err, cudaSetDevice(q->device), "device"))
        return -1;
    return vp_start(err, q->stream, exchange_kernel, blocks, dim3(SIDE * LINES), 0, n[0], n[1], n[2], z, count, slices,
                    columns, up);
}

int lift(struct vp_queue *q, const int64_t n[3], int64_t z, int64_t count, const float *slices, float *columns,
         struct vp_err *err)
{
    return exchange(q, n, z, count, (float *)slices, columns, true, err);
}

int lower(struct vp_queue *q, const int64_t n[3], int64_t z, int64_t count, const float *columns, float *slices,
          struct vp_err *err)
{
    return exchange(q, n, z, count, slices, (float *)columns, false, err);
}

int clear(struct vp_queue *q, float *p, uint64_t bytes, struct vp_err *err)
{
    cudaError_t e = cudaSetDevice(q->device);
    if (e == cudaSuccess)
        e = cudaMemsetAsync(p, 0, bytes, q->stream);
    return vp_gpu_check(err, e, "cannot clear device memory");
}

} // namespace

extern "C" const struct vp_pair_kernels vp_gpu_pair; /* device.c */
const struct vp_pair_kernels vp_gpu_pair = {clear, lift, lower, project, weigh, collect};
