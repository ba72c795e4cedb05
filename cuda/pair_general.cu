/* SPDX-License-Identifier: BSD-3-Clause */
/* The pair for views of any 3x4 matrices, and for fans, on any device: as ct/pair_general.c, the edges of each voxel are
 * projected in float64, and its image is a box.
 *
 * Overview. project: a block has THREADS pixels, 16 x 16 or, of one row, THREADS x 1. For each layer of voxels across the
 *   marching axis it finds those that may meet its pixels, makes their boxes in shared memory, CELLS at a time, and a
 *   thread adds up those that its pixel may meet. The layer and the detector are related by a homography: voxels that
 *   meet a rectangle of pixels lie in the image of the rectangle, widened by the largest box (bound_of). Of small views
 *   blocks have PART layers each. collect: a thread makes a voxel, box by box of up to VP_PAIR_VIEWS views.
 * Positions: float64; boxes in shared memory are float32, counted from the block's first pixel.
 * Shared memory: project 26 KiB. Synchronisation: __syncthreads around each part of PART layers, and around each fill.
 * Sums: a part of PART layers by itself, in the order of layers; a view by itself. No bit depends on the order of blocks.
 * Cost, 2^30 updates a second: 256^3 from 128 views of 256^2, tilted by 3 degrees, 22 and 40 (H200).
 * Limits: none; layers that the ray of a pixel may run along are searched whole. */
#include "launch.cuh"
#include "pair.cuh"

namespace
{

constexpr int THREADS = 256, SIDE = 16, CELLS = 1024, WIDTH = 32, PART = 64;
constexpr int64_t SMALL = 1 << 15; /* pixels of a small view */

using vp::reciprocal;

/* A layer of a view: (u w, v w, w) = H (a, b, 1) for voxel (a, b), u and v counted from the detector's edge. */
struct layer {
    double H[3][3];
};

/* The axes of a layer. */
__device__ inline int first_axis(int march)
{
    return march == 0 ? 1 : 0;
}
__device__ inline int second_axis(int march)
{
    return march == 2 ? 1 : 2;
}

__device__ inline layer layer_of(const vp_pair_shape &s, const vp_pair_view &view, double place)
{
    const int m = view.march, a = first_axis(m), b = second_axis(m);
    const double *P = view.P;
    layer l;
    for (int r = 0; r < 3; r++) {
        const double half = r < 2 ? 0.5 : 0;
        l.H[r][0] = P[4 * r + a] + half * P[8 + a];
        l.H[r][1] = s.flat ? 0 : P[4 * r + b] + half * P[8 + b];
        l.H[r][2] = (P[4 * r + m] + half * P[8 + m]) * place + P[4 * r + 3] + half * P[11];
    }
    if (s.flat) /* one slice: b is 0, and v does not matter */
        l.H[1][0] = l.H[1][2] = 0, l.H[1][1] = 1;
    return l;
}

__device__ inline double at(const double *row, double a, double b)
{
    return fma(row[0], a, fma(row[1], b, row[2]));
}

/* Image of a voxel on the detector: a box, and the share of its area. */
struct box { double u0, u1, v0, v1, amount; };

/* False: the voxel has no weight. */
__device__ inline bool box_of(const vp_pair_shape &s, const layer &l, double a, double b, box *to)
{
    const double n[3] = {at(l.H[0], a, b), at(l.H[1], a, b), at(l.H[2], a, b)};
    double u[2][2], v[2][2]; /* [axis][end] */
    for (int x = 0; x < (s.flat ? 1 : 2); x++)
        for (int end = 0; end < 2; end++) {
            const double half = end - 0.5, w = fma(half, l.H[2][x], n[2]);
            if (!(w > VP_ORBIT_NEAREST))
                return false;
            const double per = reciprocal(w);
            u[x][end] = fma(half, l.H[0][x], n[0]) * per;
            v[x][end] = fma(half, l.H[1][x], n[1]) * per;
        }
    if (s.flat) {
        *to = {fmin(u[0][0], u[0][1]), fmax(u[0][0], u[0][1]), 0, 1, 1};
        return true;
    }
    const double du[2] = {u[0][1] - u[0][0], u[1][1] - u[1][0]}, dv[2] = {v[0][1] - v[0][0], v[1][1] - v[1][0]};
    const bool across = fabs(du[0] * dv[1]) >= fabs(du[1] * dv[0]); /* u grows along the first axis */
    const double area = across ? fabs(du[0] * dv[1]) : fabs(du[1] * dv[0]);
    if (!(area > 0))
        return false;
    to->u0 = across ? fmin(u[0][0], u[0][1]) : fmin(u[1][0], u[1][1]);
    to->u1 = across ? fmax(u[0][0], u[0][1]) : fmax(u[1][0], u[1][1]);
    to->v0 = across ? fmin(v[1][0], v[1][1]) : fmin(v[0][0], v[0][1]);
    to->v1 = across ? fmax(v[1][0], v[1][1]) : fmax(v[0][0], v[0][1]);
    to->amount = fabs(du[0] * dv[1] - du[1] * dv[0]) / area;
    return true;
}

/* ---- projection ---- */

/* Voxels [a0, a1) x [b0, b1) of a layer may meet the pixels of a block. */
struct region {
    int a0, a1, b0, b1;
    float reach_u, reach_v; /* pixels from a voxel's middle to the end of its box, at most */
    float G[3][3];          /* (a - a0, b - b0, 1) is in proportion to G (u - u0, v - v0, 1), u0, v0 the block's first pixel */
    bool whole;             /* G does not do */
};

/* Bounds the reach of the boxes of voxels [a0, a1) x [b0, b1): along axis x of the layer, from edge to edge, u moves by
 * (H[0][x] w - H[2][x] n) / (w+ w-), where n and w, linear, are those of the middle. False: no voxel has weight. */
__device__ bool bound_of(const vp_pair_shape &s, const layer &l, region *r)
{
    double most[2] = {0, 0}, nearest = INFINITY, farthest = -INFINITY;
    const double slope = 0.5 * fmax(fabs(l.H[2][0]), fabs(l.H[2][1]));
    for (int corner = 0; corner < 4; corner++) {
        const double a = corner & 1 ? r->a1 - 1 : r->a0, b = corner & 2 ? r->b1 - 1 : r->b0, w = at(l.H[2], a, b);
        nearest = fmin(nearest, w), farthest = fmax(farthest, w);
        for (int row = 0; row < 2; row++)
            for (int x = 0; x < 2; x++)
                most[row] = fmax(most[row], fabs(l.H[row][x] * w - l.H[2][x] * at(l.H[row], a, b)));
    }
    /* edges of voxels with weight are beyond VP_ORBIT_NEAREST */
    const double edge = fmax(nearest - slope, VP_ORBIT_NEAREST), middle = fmax(nearest, VP_ORBIT_NEAREST);
    const double part = 0.5 * fmin(2.0, 1 + slope / middle) / (edge * edge);
    r->reach_u = (float)fmin(most[0] * part * 1.001, 1e6);
    r->reach_v = s.flat ? 1 : (float)fmin(most[1] * part * 1.001, 1e6);
    return farthest + slope > VP_ORBIT_NEAREST;
}

/* Narrows the region to the image of pixels [u0, u1) x [v0, v1). False: it is empty. */
__device__ bool narrow(const vp_pair_shape &s, const double G[3][3], double u0, double u1, double v0, double v1, region *r)
{
    double lo[2] = {INFINITY, INFINITY}, hi[2] = {-INFINITY, -INFINITY};
    int in_front = 0;
    for (int corner = 0; corner < 4; corner++) {
        const double u = corner & 1 ? u1 + r->reach_u : u0 - r->reach_u, v = corner & 2 ? v1 + r->reach_v : v0 - r->reach_v;
        const double w = at(G[2], u, v);
        in_front += w > 0;
        for (int x = 0; x < 2; x++) {
            const double place = at(G[x], u, v) / w;
            lo[x] = fmin(lo[x], place), hi[x] = fmax(hi[x], place);
        }
    }
    if (in_front == 0)
        return false;
    r->whole = in_front < 4 || !(hi[0] - lo[0] < 1e6 && hi[1] - lo[1] < 1e6);
    if (r->whole)
        return true;
    r->a0 = (int)fmax(ceil(lo[0] - 0.01), (double)r->a0), r->a1 = (int)fmin(floor(hi[0] + 0.01) + 1, (double)r->a1);
    if (!s.flat)
        r->b0 = (int)fmax(ceil(lo[1] - 0.01), (double)r->b0), r->b1 = (int)fmin(floor(hi[1] + 0.01) + 1, (double)r->b1);
    return r->a0 < r->a1 && r->b0 < r->b1;
}

/* Sets the region of a layer for pixels [u0, u1) x [v0, v1). */
__device__ void make_region(const vp_pair_shape &s, const vp_pair_view &view, int number, double u0, double u1, double v0,
                            double v1, region *r)
{
    const layer l = layer_of(s, view, number);
    const double(*H)[3] = l.H;
    double G[3][3], det = 0;
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 3; k++)
            G[i][k] = H[(k + 1) % 3][(i + 1) % 3] * H[(k + 2) % 3][(i + 2) % 3]
                    - H[(k + 1) % 3][(i + 2) % 3] * H[(k + 2) % 3][(i + 1) % 3];
    for (int k = 0; k < 3; k++)
        det += H[0][k] * G[k][0];
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 3; k++)
            G[i][k] /= det;
    *r = region{0, (int)s.n[first_axis(view.march)], 0, (int)s.n[second_axis(view.march)]};
    bool meets = bound_of(s, l, r);
    r->whole = !(fabs(G[2][0]) + fabs(G[2][1]) + fabs(G[2][2]) < INFINITY);
    for (int i = 0; i < 2 && meets && !r->whole; i++) /* with the bound of the layer, then with that of the region */
        meets = narrow(s, G, u0, u1, v0, v1, r) && bound_of(s, l, r);
    if (!meets)
        r->a1 = r->a0;
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 3; k++)
            G[i][k] -= i == 0 ? r->a0 * G[2][k] : i == 1 ? r->b0 * G[2][k] : 0;
    const double size = 1 / (fabs(G[2][0]) * (u1 - u0) + fabs(G[2][1]) * (v1 - v0) + fabs(at(G[2], u0, v0)));
    for (int i = 0; i < 3; i++) {
        r->G[i][0] = (float)(G[i][0] * size), r->G[i][1] = (float)(G[i][1] * size);
        r->G[i][2] = (float)(at(G[i], u0, v0) * size);
    }
}

/* Sets the voxels of a region, counted from its first, that pixel (u, v) of the block may meet. */
__device__ inline void candidates(const region &r, float u, float v, bool flat, int *a0, int *a1, int *b0, int *b1)
{
    *a0 = *b0 = 0, *a1 = r.a1 - r.a0, *b1 = r.b1 - r.b0;
    if (r.whole)
        return;
    float lo[2] = {1e9f, 1e9f}, hi[2] = {-1e9f, -1e9f};
#pragma unroll
    for (int corner = 0; corner < 4; corner++) {
        const float x = corner & 1 ? u + 1 + r.reach_u : u - r.reach_u, y = corner & 2 ? v + 1 + r.reach_v : v - r.reach_v;
        const float per = 1 / fmaf(r.G[2][0], x, fmaf(r.G[2][1], y, r.G[2][2]));
#pragma unroll
        for (int k = 0; k < 2; k++) {
            const float place = fmaf(r.G[k][0], x, fmaf(r.G[k][1], y, r.G[k][2])) * per;
            lo[k] = fminf(lo[k], place), hi[k] = fmaxf(hi[k], place);
        }
    }
    *a0 = (int)ceilf(lo[0] - 0.03f - 1e-5f * (float)*a1), *a1 = min((int)floorf(hi[0] + 0.03f + 1e-5f * (float)*a1) + 1, *a1);
    *a0 = max(*a0, 0);
    if (flat)
        return;
    *b0 = (int)ceilf(lo[1] - 0.03f - 1e-5f * (float)*b1), *b1 = min((int)floorf(hi[1] + 0.03f + 1e-5f * (float)*b1) + 1, *b1);
    *b0 = max(*b0, 0);
}

/* Boxes of voxels, counted from the block's first pixel, and their samples times the shares of their areas. */
struct cells {
    float u0[CELLS], u1[CELLS], v0[CELLS], v1[CELLS], value[CELLS];
};

/* Adds the cells [a0, a1) x [b0, b1) of a tile `width` wide to a pixel. */
__device__ inline float sum_cells(const cells &c, int width, int a0, int a1, int b0, int b1, float u, float v)
{
    float sum = 0;
    for (int b = b0; b < b1; b++)
        for (int a = a0; a < a1; a++) {
            const int i = b * width + a;
            const float across = fminf(c.u1[i], u + 1) - fmaxf(c.u0[i], u), along = fminf(c.v1[i], v + 1) - fmaxf(c.v0[i], v);
            if (across > 0 && along > 0)
                sum = fmaf(across * along, c.value[i], sum);
        }
    return sum;
}

/* Block z is a view, and of the layers all (parts 1) or one part; sums of parts lie one after another. */
__global__ void __launch_bounds__(THREADS) k_pair_project_general(const __grid_constant__ vp_pair_shape s, int columns,
                                                                  int parts, const float *x, float *sums)
{
    __shared__ cells c;
    __shared__ region regions[PART];
    const int mine = (int)blockIdx.z / parts, only = (int)blockIdx.z % parts;
    const vp_pair_view &view = s.views[s.view[mine]];
    const int m = view.march, rows = THREADS / columns;
    const int from = parts > 1 ? only * PART : 0, layers = parts > 1 ? min((int)s.n[m], from + PART) : (int)s.n[m];
    const int64_t u0 = (int64_t)blockIdx.x * columns, v0 = (int64_t)blockIdx.y * rows;
    const float u = (float)((int)threadIdx.x % columns), v = (float)((int)threadIdx.x / columns);
    const int64_t stride[3] = {1, s.n[0], s.n[0] * s.n[1]};
    const int64_t step_a = stride[first_axis(m)], step_b = stride[second_axis(m)];
    float total = 0;
    for (int part = from; part < layers; part += PART) {
        const int n = min(PART, layers - part);
        __syncthreads();
        if ((int)threadIdx.x < n)
            make_region(s, view, part + (int)threadIdx.x, (double)u0, (double)(u0 + columns), (double)v0, (double)(v0 + rows),
                        &regions[threadIdx.x]);
        __syncthreads();
        float sum = 0;
        for (int k = 0; k < n; k++) {
            const region &r = regions[k];
            const int across = r.a1 - r.a0, along = r.b1 - r.b0;
            if (across <= 0)
                continue;
            const layer l = layer_of(s, view, part + k);
            const int width = min(across, along == 1 ? CELLS : WIDTH), height = min(along, CELLS / width);
            int ca0, ca1, cb0, cb1;
            candidates(r, u, v, s.flat, &ca0, &ca1, &cb0, &cb1);
            for (int b = 0; b < along; b += height)
                for (int a = 0; a < across; a += width) {
                    __syncthreads();
                    for (int i = threadIdx.x; i < width * height; i += THREADS) {
                        const int ia = r.a0 + a + i % width, ib = r.b0 + b + i / width;
                        box seen;
                        c.u0[i] = 1, c.u1[i] = 0;
                        if (ia >= r.a1 || ib >= r.b1)
                            continue;
                        const float value = x[(part + k) * stride[m] + ia * step_a + ib * step_b];
                        if (value == 0 || !box_of(s, l, ia, ib, &seen))
                            continue;
                        c.u0[i] = (float)(seen.u0 - (double)u0), c.u1[i] = (float)(seen.u1 - (double)u0);
                        c.v0[i] = (float)(seen.v0 - (double)v0), c.v1[i] = (float)(seen.v1 - (double)v0);
                        c.value[i] = value * (float)seen.amount;
                    }
                    __syncthreads();
                    sum += sum_cells(c, width, max(ca0 - a, 0), min(ca1 - a, width), max(cb0 - b, 0), min(cb1 - b, height),
                                     u, v);
                }
        }
        total += sum;
    }
    const int64_t column = u0 + (int)threadIdx.x % columns, row = v0 + (int)threadIdx.x / columns;
    if (column >= s.nu || row >= s.nv)
        return;
    sums[((only * s.count + mine) * s.nv + row) * s.nu + column] = total;
}

/* Sets views to their sums, times the length of rays. */
__global__ void __launch_bounds__(THREADS) k_pair_finish_general(const __grid_constant__ vp_pair_shape s, int parts,
                                                                 const float *sums, float *y)
{
    const int64_t page = s.nu * s.nv, i = (int64_t)blockIdx.x * THREADS + threadIdx.x, row = i / s.nu, u = i % s.nu;
    const vp_pair_view &view = s.views[s.view[blockIdx.y]];
    if (row >= s.nv)
        return;
    float total = 0;
    for (int part = 0; part < parts; part++)
        total += sums[(part * s.count + blockIdx.y) * page + i];
    const int64_t v = view.flip ? s.nv - 1 - row : row;
    y[blockIdx.y * page + v * s.nu + u] = total * vp::ray_length(s, view, u, v);
}

/* ---- transpose ---- */

__global__ void __launch_bounds__(THREADS) k_pair_weigh_general(const __grid_constant__ vp_pair_shape s, const float *y,
                                                                float *rows)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x, v = i / s.nu, u = i % s.nu;
    const vp_pair_view &view = s.views[s.view[blockIdx.y]];
    if (v < s.nv)
        rows[(blockIdx.y * s.nv + (view.flip ? s.nv - 1 - v : v)) * s.nu + u] =
            y[s.place[blockIdx.y] * s.nv * s.nu + i] * vp::ray_length(s, view, u, v);
}

__device__ inline double overlap(double lo, double hi, int64_t pixel)
{
    return fmin(hi, (double)(pixel + 1)) - fmax(lo, (double)pixel);
}

__global__ void __launch_bounds__(THREADS) k_pair_collect_general(const __grid_constant__ vp_pair_shape s, const float *rows,
                                                                  float *sum)
{
    const int64_t page = s.n[0] * s.n[1], i = (int64_t)blockIdx.x * THREADS + threadIdx.x, place = blockIdx.y * page + i;
    if (i >= page)
        return;
    const double voxel[3] = {(double)(i % s.n[0]), (double)(i / s.n[0]), (double)blockIdx.y};
    float all = 0;
    for (int slot = 0; slot < s.count; slot++) {
        const vp_pair_view &view = s.views[s.view[slot]];
        const int m = view.march;
        const layer l = layer_of(s, view, m == 0 ? voxel[0] : m == 1 ? voxel[1] : voxel[2]);
        box b;
        if (!box_of(s, l, m == 0 ? voxel[1] : voxel[0], m == 2 ? voxel[1] : voxel[2], &b))
            continue;
        const int64_t first = (int64_t)fmax(floor(b.u0), 0.0), last = (int64_t)fmin(ceil(b.u1), (double)s.nu);
        const int64_t end = (int64_t)fmin(ceil(b.v1), (double)s.nv);
        double part = 0;
        for (int64_t v = (int64_t)fmax(floor(b.v0), 0.0); v < end; v++) {
            const float *const row = rows + (slot * s.nv + v) * s.nu;
            double line = 0;
            for (int64_t u = first; u < last; u++)
                line = fma(overlap(b.u0, b.u1, u), (double)row[u], line);
            part = fma(overlap(b.v0, b.v1, v), line, part);
        }
        all += (float)(part * b.amount);
    }
    sum[place] += all;
}

} // namespace

/* Returns the number of parts in which views are projected: layers of more than one axis may be marched through. */
static int parts_of(const struct vp_pair_shape *s)
{
    const int64_t most = vp_max64(s->n[0], vp_max64(s->n[1], s->n[2]));
    return s->nu * s->nv <= SMALL ? (int)vp_div_up(most, PART) : 1;
}

void vp_pair_plan_general(struct vp_pair_shape *s)
{
    s->work_bytes = (uint64_t)(parts_of(s) * VP_PAIR_VIEWS * s->nu * s->nv) * sizeof(float);
    s->x_bytes = s->sum_bytes = (uint64_t)(s->n[0] * s->n[1] * s->n[2]) * sizeof(float);
    s->lines_bytes = (uint64_t)(s->slots * s->nu * s->nv) * sizeof(float);
    s->slices = true;
}

int vp_pair_lift_general(struct vp_queue *q, const struct vp_pair_shape *s, int64_t z, int64_t n, const float *slices,
                         float *x, struct vp_err *err)
{
    const int64_t page = s->n[0] * s->n[1];
    if (vp_gpu_check(err, cudaSetDevice(q->device), "device"))
        return -1;
    return vp_gpu_check(err, cudaMemcpyAsync(x + z * page, slices, (size_t)(n * page) * sizeof *x, cudaMemcpyDeviceToDevice,
                                             q->stream), "cannot copy in device memory");
}

int vp_pair_project_general(struct vp_queue *q, const struct vp_pair_shape *s, const float *x, float *work, float *y,
                            struct vp_err *err)
{
    const int columns = s->nv < SIDE ? THREADS : SIDE, rows = THREADS / columns, parts = parts_of(s);
    const dim3 blocks((unsigned)vp_div_up(s->nu, columns), (unsigned)vp_div_up(s->nv, rows), (unsigned)(s->count * parts));
    const dim3 pixels((unsigned)vp_div_up(s->nu * s->nv, THREADS), (unsigned)s->count);
    if (vp_gpu_check(err, cudaSetDevice(q->device), "device")
        || vp_start(err, q->stream, k_pair_project_general, blocks, dim3(THREADS), 0, *s, columns, parts, x, work))
        return -1;
    return vp_start(err, q->stream, k_pair_finish_general, pixels, dim3(THREADS), 0, *s, parts, work, y);
}

int vp_pair_weigh_general(struct vp_queue *q, const struct vp_pair_shape *s, const float *y, float *lines,
                          struct vp_err *err)
{
    const dim3 blocks((unsigned)vp_div_up(s->nu * s->nv, THREADS), (unsigned)s->count);
    if (vp_gpu_check(err, cudaSetDevice(q->device), "device"))
        return -1;
    return vp_start(err, q->stream, k_pair_weigh_general, blocks, dim3(THREADS), 0, *s, y, lines);
}

int vp_pair_collect_general(struct vp_queue *q, const struct vp_pair_shape *s, const float *lines, float *sum,
                            struct vp_err *err)
{
    const dim3 blocks((unsigned)vp_div_up(s->n[0] * s->n[1], THREADS), (unsigned)s->n[2]);
    if (vp_gpu_check(err, cudaSetDevice(q->device), "device"))
        return -1;
    return vp_start(err, q->stream, k_pair_collect_general, blocks, dim3(THREADS), 0, *s, lines, sum);
}
