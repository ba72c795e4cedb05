/* SPDX-License-Identifier: BSD-3-Clause */
/* The matched pair on any device from compute capability 8.0 on (kernels "pair", ct/pair_device.h): projection of a volume
 * with area weights, and its transpose; and the table, which has the kernels with boxes (pair_boxes.cu) where they do, and
 * those for any matrix (pair_general.cu).
 *
 * Overview. project: a thread makes PIXELS pixels of a row, a block those of THREADS rows, so that all its threads meet
 * the same columns of voxels: four threads make the geometry of a layer (in float64: the columns that the pixels meet,
 * their weights, and the position of row 0 in voxels), then all march through the layers. A row's share of a column is
 * made once for all pixels of the thread. Neighbouring threads read neighbouring voxels of a column. collect: a warp
 * makes SLICES voxels of a column, a lane every 32nd; lane s makes the geometry of view s; rows of neighbouring voxels are
 * neighbours in a line.
 * Registers: no spills. Shared memory: project 16 KiB, collect 3 KiB a block. Synchronisation: __syncthreads around each
 * part of LAYERS layers; a warp's own memory with __syncwarp.
 * Global memory: at one voxel a row and pixel, 1.3 columns x 2 or 3 voxels a layer and pixel, from L1 and L2; a group of
 * 16 views reads and writes the volume once (collect).
 * Positions: 2^-30 samples in 64 bits, steps 2^-30 in 32 bits. Sums: a part of LAYERS layers by itself; a group of views
 * by itself. Bits depend on the volume, the views and, in collect, the groups.
 * Limits: u and depth constant along columns; at most 3.5 columns a pixel, 4 pixels a column, 5 rows or voxels a step. */
#include "launch.cuh"
#include "pair.cuh"
#include "ct/orbit.h"

namespace
{

constexpr int THREADS = 256, ACROSS = 4, WARPS = 4, SLICES = 128, EDGE = 5;
constexpr double ONE = 1073741824.0; /* 2^30 */

__device__ inline double dot(const double *row, double i, double j)
{
    return row[0] * i + row[1] * j + row[3];
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

/* Returns the position of number i. */
__device__ inline int64_t place_of(int64_t first, int i, uint32_t step)
{
    return first + (int64_t)((uint64_t)(uint32_t)i * step);
}

/* ---- projection ---- */

constexpr int LAYERS = THREADS / 4, COLUMNS = 8; /* four threads make a layer; columns that the pixels of a thread meet */

/* A column of voxels in a layer, as the pixels of a thread meet it. */
struct alignas(16) crossing {
    int64_t at;              /* position of row 0, */
    uint32_t step;           /* and voxels a row, 2^-30 */
    float weight[4];         /* for each pixel */
};

/* Makes columns q, q + 4, ... of a layer, for `pixels` pixels from u on. Sets the first column, and their number. */
__device__ void make_layer(const vp_pair_shape &s, const vp_pair_view &view, int64_t u, int pixels, int64_t number, int q,
                           crossing *to, int *first, int *count)
{
    const double *P = view.P;
    const int m = view.march, across = 1 - m;
    /* positions e across at which the outer edges meet the layer: P[across] e + a = u (P[8 + across] e + w) */
    const double a = P[m] * (double)number + P[3], w = P[8 + m] * (double)number + P[11];
    const double left = (double)u - 0.5, right = (double)(u + pixels) - 0.5;
    const double e = (left * w - a) / (P[across] - left * P[8 + across]);
    const double f = (right * w - a) / (P[across] - right * P[8 + across]);
    const double lo = fmin(e, f), hi = fmax(e, f), last = (double)(s.n[across] - 1);
    const bool meets = hi > -0.5 && lo < last + 0.5;
    const int64_t begin = meets ? (int64_t)fmax(floor(lo + 0.5), 0.0) : 0;
    const int64_t end = meets ? (int64_t)fmin(floor(hi + 0.5), last) + 1 : 0;
    const int n = (int)(end - begin < COLUMNS ? end - begin : COLUMNS);
    if (q == 0) {
        *first = (int)begin;
        *count = n;
    }
    for (int t = q; t < n; t += 4) {
        column_image c;
        const bool seen = m == 0 ? image_of(view, number, begin + t, &c) : image_of(view, begin + t, number, &c);
        const double width = seen ? 1 / c.step : 1;
        to[t].at = seen ? (int64_t)floor(-c.e0 * width * ONE) : 0;
        to[t].step = (uint32_t)(width * ONE + 0.5);
        for (int p = 0; p < pixels; p++)
            to[t].weight[p] = seen ? overlap(c, u + p) * (float)c.step : 0;
    }
}

/* A thread makes PIXELS pixels of a row: the voxels of a column that a row meets are the same for all of them. */
template <int TAPS, int PIXELS>
__global__ void __launch_bounds__(THREADS) project_kernel(vp_pair_shape s, const float *columns, float *y)
{
    __shared__ crossing crossings[LAYERS][COLUMNS];
    __shared__ int firsts[LAYERS], counts[LAYERS];
    const vp_pair_view &view = s.views[s.view[blockIdx.z]];
    const int64_t u = (int64_t)blockIdx.x * PIXELS;
    const int row = (int)(blockIdx.y * THREADS + threadIdx.x), mine = threadIdx.x / 4;
    const int64_t n = s.n[view.march], pitch = s.n[2] + 2 * EDGE;
    /* from a column to the next one across, and to that of the next layer */
    const int64_t side = (view.march == 0 ? s.n[0] : 1) * pitch, ahead = (view.march == 0 ? 1 : s.n[0]) * pitch;
    float total[PIXELS] = {};
    for (int64_t part = 0; part < n; part += LAYERS) {
        __syncthreads();
        if (part + mine < n)
            make_layer(s, view, u, PIXELS, part + mine, threadIdx.x % 4, crossings[mine], &firsts[mine], &counts[mine]);
        __syncthreads();
        const int layers = (int)(n - part < LAYERS ? n - part : LAYERS);
        float sum[PIXELS] = {};
        for (int l = 0; l < layers; l++) {
            const float *f = columns + firsts[l] * side + (part + l) * ahead + EDGE;
            const int count = counts[l];
            for (int t = 0; t < count; t++, f += side) {
                const crossing &c = crossings[l][t];
                const float value = interval<TAPS>(place_of(c.at, row, c.step), (float)c.step * 0x1p-30f, (int)s.n[2],
                                                   [=](int k) { return f[k]; });
#pragma unroll
                for (int p = 0; p < PIXELS; p++)
                    sum[p] += c.weight[p] * value;
            }
        }
#pragma unroll
        for (int p = 0; p < PIXELS; p++)
            total[p] += sum[p];
    }
    const int64_t v = view.flip ? s.nv - 1 - row : row;
    for (int p = 0; p < PIXELS && row < s.nv && u + p < s.nu; p++)
        y[(blockIdx.z * s.nv + v) * s.nu + u + p] = total[p] * vp::ray_length(s, view, u + p, v);
}

template <int PIXELS>
int project_pixels(struct vp_queue *q, const struct vp_pair_shape *s, const float *columns, float *y, struct vp_err *err)
{
    const dim3 blocks((unsigned)vp_div_up(s->nu, PIXELS), (unsigned)vp_div_up(s->nv, THREADS), (unsigned)s->count);
    const auto kernel = s->voxel_taps == 2 ? project_kernel<2, PIXELS>
                      : s->voxel_taps == 3 ? project_kernel<3, PIXELS>
                                           : project_kernel<5, PIXELS>;
    return vp_start(err, q->stream, kernel, blocks, dim3(THREADS), 0, *s, columns, y);
}

int project(struct vp_queue *q, const struct vp_pair_shape *s, const float *columns, float *work, float *y,
            struct vp_err *err)
{
    if (s->general)
        return vp_pair_project_general(q, s, columns, work, y, err);
    if (s->projector)
        return vp_pair_project_boxes(q, s, columns, work, y, err);
    if (vp_gpu_check(err, cudaSetDevice(q->device), "device"))
        return -1;
    return s->columns <= 7.0 / 4 ? project_pixels<4>(q, s, columns, y, err) : project_pixels<2>(q, s, columns, y, err);
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
        y[s.place[blockIdx.y] * s.nv * s.nu + i] * vp::ray_length(s, view, u, v);
}

int weigh(struct vp_queue *q, const struct vp_pair_shape *s, const float *y, float *lines, struct vp_err *err)
{
    if (s->general)
        return vp_pair_weigh_general(q, s, y, lines, err);
    if (s->collector)
        return vp_pair_weigh_boxes(q, s, y, lines, err);
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
    for (int t = 0; t < ACROSS; t++)
        to->weight[t] = t < to->count ? overlap(c, first + t) : 0;
}

/* LINES: lines that a column meets, at most. */
template <int TAPS, int LINES>
__global__ void __launch_bounds__(WARPS * 32) collect_kernel(vp_pair_shape s, const float *lines, float *columns)
{
    __shared__ sighting sights[WARPS][VP_PAIR_VIEWS];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int64_t column = (int64_t)blockIdx.x * WARPS + warp, pitch = s.nv + 2 * EDGE;
    const int k0 = (int)(blockIdx.y * SLICES) + lane;
    if (column >= s.n[0] * s.n[1])
        return;
    if (lane < s.count)
        make_sighting(s, s.views[s.view[lane]], column % s.n[0], column / s.n[0], &sights[warp][lane]);
    __syncwarp();
    float sum[SLICES / 32] = {};
    for (int n = 0; n < s.count; n++) {
        const sighting &at = sights[warp][n];
        const float width = (float)at.step * 0x1p-30f, *line[LINES];
        if (at.count == 0)
            continue;
#pragma unroll
        for (int t = 0; t < LINES; t++) /* those without weight are the last one */
            line[t] = lines + (n * s.nu + at.first + (t < at.count ? t : at.count - 1)) * pitch + EDGE;
#pragma unroll
        for (int part = 0; part < SLICES / 32; part++)
            sum[part] += interval<TAPS>(place_of(at.at, k0 + 32 * part, at.step), width, (int)s.nv, [&](int row) {
                float mixed = at.weight[0] * line[0][row];
#pragma unroll
                for (int t = 1; t < LINES; t++)
                    mixed += at.weight[t] * line[t][row];
                return mixed;
            });
    }
    float *const to = columns + column * (s.n[2] + 2 * EDGE) + EDGE;
#pragma unroll
    for (int part = 0; part < SLICES / 32; part++)
        if (k0 + 32 * part < s.n[2])
            to[k0 + 32 * part] += sum[part];
}

int collect(struct vp_queue *q, const struct vp_pair_shape *s, const float *lines, float *work, float *columns,
            struct vp_err *err)
{
    if (s->general)
        return vp_pair_collect_general(q, s, lines, columns, err);
    if (s->collector)
        return vp_pair_collect_boxes(q, s, lines, work, columns, err);
    const dim3 blocks((unsigned)vp_div_up(s->n[0] * s->n[1], WARPS), (unsigned)vp_div_up(s->n[2], SLICES));
    if (vp_gpu_check(err, cudaSetDevice(q->device), "device"))
        return -1;
    const bool few = s->line_taps <= 3;
    const auto kernel = s->row_taps == 2 ? few ? collect_kernel<2, 3> : collect_kernel<2, 4>
                      : s->row_taps == 3 ? few ? collect_kernel<3, 3> : collect_kernel<3, 4>
                                         : collect_kernel<5, 4>;
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

int lift(struct vp_queue *q, const struct vp_pair_shape *s, int64_t z, int64_t count, const float *slices, float *columns,
         struct vp_err *err)
{
    return s->general   ? vp_pair_lift_general(q, s, z, count, slices, columns, err)
         : s->projector ? vp_pair_lift_boxes(q, s, z, count, slices, columns, err)
                        : exchange(q, s->n, z, count, (float *)slices, columns, true, err);
}

int lower(struct vp_queue *q, const struct vp_pair_shape *s, int64_t z, int64_t count, const float *columns, float *slices,
          struct vp_err *err)
{
    return exchange(q, s->n, z, count, slices, (float *)columns, false, err);
}

int raise(struct vp_queue *q, const struct vp_pair_shape *s, int64_t z, int64_t count, const float *slices, float *columns,
          struct vp_err *err)
{
    return exchange(q, s->n, z, count, (float *)slices, columns, true, err);
}

int plan(int device, struct vp_pair_shape *s, struct vp_err *err)
{
    const uint64_t columns = (uint64_t)(s->n[0] * s->n[1] * (s->n[2] + 2 * EDGE)) * sizeof(float);
    s->projector = s->collector = 0;
    s->x_bytes = s->sum_bytes = columns;
    s->slots = VP_PAIR_VIEWS;
    s->slices = s->opposite = false;
    s->lines_bytes = (uint64_t)(s->slots * s->nu * (s->nv + 2 * EDGE)) * sizeof(float);
    s->work_bytes = VP_ALIGN;
    if (s->general) {
        vp_pair_plan_general(s);
        return 0;
    }
    return vp_pair_plan_boxes(device, s, err);
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
const struct vp_pair_kernels vp_gpu_pair = {plan, clear, lift, lower, project, weigh, collect, raise};
