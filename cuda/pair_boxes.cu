/* SPDX-License-Identifier: BSD-3-Clause */
/* The matched pair with boxes that the bulk copy engine brings to shared memory (compute capability 9.0 and 10.0): where
 * its kernels do, layout of the volume and of the views, launches.
 *
 * Volume: voxel k of column (x, y) is texel (y nx + x) pitch + k; with mirrors (v (k) + v (nz - 1 - k) = nv - 1 in every
 * view) a texel is voxels k and nz - 1 - k, of the lower half and MARGIN more. Sum: slice after slice.
 * Views, to be projected: line after line, and transposed at the end; to be summed: row after row, texels of one or
 * two rows. */
#include "launch.cuh"
#include "pair.cuh"
#include "tensor_map.h"

#include "ct/orbit.h"

#include <algorithm>
#include <math.h>

using namespace vp;

namespace
{

constexpr int MOST_SHARING = 4; /* views of a block */
constexpr double ROW_SLACK = 1e-6; /* a row that voxels meet by less is not met */
constexpr int ROWS_SEEN = 3; /* blocks of rows at which extents are looked at */
constexpr int MARGIN = 4, THREADS = 256, SIDE = 32, LINES = 8;
constexpr int64_t PLANES = PROJECT_PLANES;
constexpr int64_t LINES_BYTES = (int64_t)2 << 30; /* slots of the transpose */

/* ---- layouts ---- */

int64_t texels_of(const vp_pair_shape *s)
{
    return s->channels == 2 ? vp_round_up((s->n[2] + 1) / 2 + MARGIN, 2) : vp_round_up(s->n[2], 4);
}

int64_t line_pitch(const vp_pair_shape *s)
{
    return vp_round_up(s->nv, 32);
}

/* Returns the channels of a texel of the transpose: views of a slot times mirrored rows. */
int texel_of(const vp_pair_shape *s, bool pairs)
{
    return (pairs ? 2 : 1) * s->channels;
}

int64_t row_pitch(const vp_pair_shape *s, bool pairs)
{
    return vp_round_up(s->nu, 4 / texel_of(s, pairs));
}

/* Copies slices [z, z + n) to columns of texels. */
__global__ void __launch_bounds__(SIDE * LINES) k_pair_lift(vp_pair_shape s, int64_t z, int64_t n, int64_t texels,
                                                            const float *slices, float *x)
{
    __shared__ float tile[SIDE][SIDE + 1];
    const int64_t x0 = (int64_t)blockIdx.x * SIDE, j = blockIdx.y, k0 = (int64_t)blockIdx.z * SIDE;
    const int i = threadIdx.x % SIDE, line = threadIdx.x / SIDE;
    for (int l = line; l < SIDE; l += LINES)
        if (x0 + i < s.n[0] && k0 + l < n)
            tile[l][i] = slices[((k0 + l) * s.n[1] + j) * s.n[0] + x0 + i];
    __syncthreads();
    for (int l = line; l < SIDE; l += LINES) {
        if (x0 + l >= s.n[0] || k0 + i >= n)
            continue;
        float *const column = x + (j * s.n[0] + x0 + l) * texels * s.channels;
        const int64_t k = z + k0 + i, other = s.n[2] - 1 - k;
        if (k < texels)
            column[k * s.channels] = tile[i][l];
        if (s.channels == 2 && other < texels)
            column[other * 2 + 1] = tile[i][l];
    }
}

/* Sets views to their lines, times the length of rays. */
__global__ void __launch_bounds__(SIDE * LINES) k_pair_finish(vp_pair_shape s, int64_t pitch, const float *lines, float *y)
{
    __shared__ float tile[SIDE][SIDE + 1];
    const int64_t u0 = (int64_t)blockIdx.x * SIDE, row0 = (int64_t)blockIdx.y * SIDE;
    const int i = threadIdx.x % SIDE, line = threadIdx.x / SIDE;
    const vp_pair_view &view = s.views[s.view[blockIdx.z]];
    for (int l = line; l < SIDE; l += LINES)
        if (u0 + l < s.nu && row0 + i < s.nv)
            tile[l][i] = lines[(blockIdx.z * s.nu + u0 + l) * pitch + row0 + i];
    __syncthreads();
    for (int l = line; l < SIDE; l += LINES) {
        const int64_t u = u0 + i, row = row0 + l, v = view.flip ? s.nv - 1 - row : row;
        if (u < s.nu && row < s.nv)
            y[(blockIdx.z * s.nv + v) * s.nu + u] = tile[i][l] * ray_length(s, view, u, v);
    }
}

/* Returns a sample of a view, times the length of its ray; rows are counted so that they grow with k. */
__device__ float weighted(const vp_pair_shape &s, int number, int place, int64_t u, int64_t row, const float *y)
{
    const vp_pair_view &view = s.views[number];
    const int64_t v = view.flip ? s.nv - 1 - row : row;
    return y[(place * s.nv + v) * s.nu + u] * ray_length(s, view, u, v);
}

/* Fills slots with texels of R views times Z rows: a thread makes one texel of each of R planes, which begin with the
 * first and with the other view. */
template <int R, int Z>
__global__ void __launch_bounds__(THREADS) k_pair_weigh(const __grid_constant__ vp_pair_shape s, int64_t pitch,
                                                        const float *y, float *lines)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x, row = i / s.nu, u = i % s.nu;
    const int slot = (int)blockIdx.y;
    if (row >= s.nv)
        return;
    alignas(16) float value[R * Z];
    for (int copy = 0; copy < R; copy++) {
        for (int z = 0; z < Z; z++) {
            value[copy * Z + z] = weighted(s, s.view[slot], s.place[slot], u, z ? s.nv - 1 - row : row, y);
            if (R == 2)
                value[(1 - copy) * Z + z] = weighted(s, s.other[slot], s.other_place[slot], u, z ? s.nv - 1 - row : row, y);
        }
        texel<R * Z> *const to = (texel<R * Z> *)lines + ((slot * R + copy) * s.nv + row) * pitch + u;
        *to = *(const texel<R * Z> *)value;
    }
}

/* ---- projection: blocks and boxes ---- */

double depth_of(const project_view &v, double q, double p)
{
    return v.wq * q + v.wp * p + v.w1;
}

/* Returns a view for planes [p0, p1). False: the kernel does not do, as pixels do not grow with columns, or the source is
 * too near. */
bool make_view(const vp_pair_shape *s, int number, int64_t p0, int64_t p1, project_view *to)
{
    const vp_pair_view &view = s->scan[number];
    const double *P = view.P;
    const int m = view.march, across = 1 - m;
    project_view v = {};
    double lo = INFINITY, hi = -INFINITY;
    v.eq = P[across] + 0.5 * P[8 + across], v.ep = P[m] + 0.5 * P[8 + m], v.e1 = P[3] + 0.5 * P[11];
    v.wq = P[8 + across], v.wp = P[8 + m], v.w1 = P[11];
    v.vq = P[4 + across], v.vp = P[4 + m], v.v1 = P[7];
    v.rows = 1 / P[6];
    const double q = 0.5 * (double)s->n[across], p = 0.5 * (double)s->n[m], w = depth_of(v, q, p);
    v.turned = v.eq * w < (v.eq * q + v.ep * p + v.e1) * v.wq;
    if (v.turned)
        v.eq = -v.eq, v.ep = -v.ep, v.e1 = -v.e1;
    for (int corner = 0; corner < 4; corner++) {
        const double cq = corner & 1 ? (double)s->n[across] - 0.5 : -0.5, cp = (double)(corner & 2 ? p1 - 1 : p0);
        const double depth = depth_of(v, cq, cp), e = (v.eq * cq + v.ep * cp + v.e1) / depth;
        if (!(depth > VP_ORBIT_NEAREST && v.eq > e * v.wq))
            return false;
        lo = fmin(lo, e);
        hi = fmax(hi, e);
    }
    const double first = v.turned ? -(double)s->nu : 0, last = first + (double)s->nu;
    v.lo = (int)fmin(fmax(floor(lo), first), last);
    v.hi = (int)fmin(fmax(ceil(hi), first), last);
    *to = v;
    return v.eq > v.lo * v.wq && v.eq > v.hi * v.wq;
}

/* Sets the blocks of a launch. Returns their number along columns. */
int make_blocks(project_args *a)
{
    double lo = INFINITY, hi = -INFINITY, most = 0, least = INFINITY;
    for (int i = 0; i < a->views; i++) {
        const project_view &v = a->view[i];
        if (v.lo == v.hi)
            continue;
        for (int end = 0; end < 2; end++) {
            const double q = place_of_edge(v, end ? v.hi : v.lo, a->middle);
            lo = fmin(lo, q);
            hi = fmax(hi, q);
        }
    }
    if (!(lo < hi))
        return 0;
    for (int i = 0; i < a->views; i++)
        for (int end = 0; end < 2; end++) {
            const project_view &v = a->view[i];
            const double q = end ? hi : lo, w = depth_of(v, q, a->middle);
            const double slope = (v.eq * w - (v.eq * q + v.ep * a->middle + v.e1) * v.wq) / (w * w);
            if (v.lo == v.hi || !(w > VP_ORBIT_NEAREST))
                continue;
            most = fmax(most, slope);
            least = fmin(least, slope);
        }
    a->q0 = lo - 0.75 / least;
    a->dq = (PROJECT_WARPS / a->group * PROJECT_PIXELS - 0.01) / most;
    return (int)ceil((hi + 0.75 / least - a->q0) / a->dq);
}

/* Widens the box to that of views [first, first + sharing) in block d and plane p, for blocks from each of n rows on. */
void widen_box(const project_args &a, int first, int d, double p, const int *row, int n, int rows, double most[2])
{
    double q0 = INFINITY, q1 = -INFINITY, z0[ROWS_SEEN], z1[ROWS_SEEN];
    std::fill(z0, z0 + n, INFINITY);
    std::fill(z1, z1 + n, -INFINITY);
    for (int i = first; i < std::min(first + a.sharing, a.views); i++) {
        const project_view &v = a.view[i];
        const int begin = pixel_at(v, a.q0 + d * a.dq, a.middle), end = pixel_at(v, a.q0 + (d + 1) * a.dq, a.middle);
        if (begin >= end)
            continue;
        for (int side = 0; side < 2; side++) {
            const double q = floor(place_of_edge(v, side ? end : begin, p) + 0.5 + (side ? 2 : -2) * COLUMN_SLACK);
            const double per_row = depth_of(v, q, p) * v.rows, start = (v.vq * q + v.vp * p + v.v1) * v.rows;
            q0 = fmin(q0, q), q1 = fmax(q1, q);
            for (int r = 0; r < n; r++) {
                const double low = (row[r] - 0.5) * per_row - start, high = low + rows * per_row;
                z0[r] = fmin(z0[r], fmin(low, high)), z1[r] = fmax(z1[r], fmax(low, high));
            }
        }
    }
    most[0] = fmax(most[0], q1 - q0 + 1);
    for (int r = 0; r < n; r++)
        most[1] = fmax(most[1], z1[r] - z0[r] + 1);
}

/* Returns the columns that the pixels of a warp meet, at most: those at the ends of the first and the last plane. */
int most_columns(const project_args &a)
{
    double most = 0;
    for (int i = 0; i < a.views; i++)
        for (int end = 0; end < 4; end++) {
            const project_view &v = a.view[i];
            const double p = end & 1 ? a.plane0 + a.planes - 1 : a.plane0, q = end & 2 ? a.across - 0.5 : -0.5;
            const double e = (v.eq * q + v.ep * p + v.e1) / depth_of(v, q, p);
            for (int side = 0; side < 2; side++) { /* the first and the last pixels that meet this end */
                const double begin = fmax(fmin(side ? e : e - PROJECT_PIXELS, v.hi - PROJECT_PIXELS), v.lo);
                most = fmax(most, place_of_edge(v, fmin(begin + PROJECT_PIXELS, v.hi), p) - place_of_edge(v, begin, p));
            }
        }
    return (int)fmin(most, PROJECT_COLUMNS) + 3;
}

/* Sets the boxes of a launch, `sharing` views a block with room for `group`. False: they do not fit. */
bool make_boxes(const vp_pair_shape *s, project_args *a, int group, int sharing, size_t shared, int *blocks)
{
    double most[2] = {1, 1};
    a->group = group;
    a->sharing = sharing;
    *blocks = make_blocks(a);
    const int rows = a->block_rows, last = (a->rows - a->row0 - 1) / rows;
    const int row[ROWS_SEEN] = {a->row0, a->row0 + last / 2 * rows, a->row0 + last * rows};
    for (int first = 0; first < a->views; first += sharing)
        for (int at = 0; at < 11; at++)
            for (int end = 0; end < 2; end++)
                widen_box(*a, first, at < 5 ? (*blocks - 1) * at / 4 : std::max(at < 8 ? at - 4 : *blocks + 6 - at, 0),
                          end ? a->plane0 + a->planes - 1 : a->plane0, row, ROWS_SEEN, rows, most);
    /* between the places that were looked at, extents differ by a small part of a column or voxel */
    a->box_q = (int)most[0] + 4;
    a->box_z = (int)vp_round_up((int64_t)most[1] + 7 + 4 / s->channels, 4 / s->channels);
    a->columns = most_columns(*a);
    if (a->box_q > 256 || a->box_z > 256 * BOX_FLOATS / s->channels || a->columns > PROJECT_COLUMNS)
        return false;
    for (a->stages = 4; a->stages >= 2; a->stages--)
        if (project_tiled_shared(s->channels, *a) <= shared)
            return true;
    return false;
}

/* Fills the views [0, n) of a launch, all of which march alike. */
bool make_launch(const vp_pair_shape *s, const int *view, const int *line, int n, int64_t plane, project_args *a)
{
    *a = project_args{};
    a->march = s->scan[view[0]].march;
    a->plane0 = (int)plane;
    a->planes = (int)vp_min64(PLANES, s->n[a->march] - plane);
    a->middle = (double)plane + 0.5 * (a->planes - 1);
    a->across = (int)s->n[1 - a->march];
    a->nv = (int)s->nv;
    a->row0 = s->rows_met[0];
    a->rows = s->rows_met[1];
    a->block_rows = 32 * project_rows(s->channels, s->high_boxes);
    a->views = n;
    a->pitch = line_pitch(s);
    for (int i = 0; i < n; i++) {
        if (!make_view(s, view[i], plane, plane + a->planes, &a->view[i]))
            return false;
        a->view[i].line = (int)(line[i] * s->nu);
    }
    return true;
}

/* Shared memory of a block if two of them are to run on a multiprocessor of compute capability 9.0 and 10.0. */
constexpr size_t SHARED_OF_TWO = 113 << 10;

/* Widens boxes to the columns of all blocks: views whose ends are cut off differ there. */
bool settle_boxes(const vp_pair_shape *s, project_args *a, int blocks)
{
    double most = 1;
    for (int first = 0; first < a->views; first += a->sharing) {
        const int n = std::min(a->sharing, a->views - first);
        int begin[MOST_SHARING];
        double place[MOST_SHARING][2]; /* place of pixel `begin` in the first and the last plane */
        for (int d = 0; d <= blocks; d++) {
            double q0[2] = {INFINITY, INFINITY}, q1[2] = {-INFINITY, -INFINITY};
            for (int i = 0; i < n; i++) {
                const project_view &v = a->view[first + i];
                const int end = pixel_at(v, a->q0 + d * a->dq, a->middle);
                for (int p = 0; p < 2; p++) {
                    const double q = place_of_edge(v, end, p ? a->plane0 + a->planes - 1 : a->plane0) + 0.5;
                    if (d > 0 && end > begin[i]) {
                        q0[p] = fmin(q0[p], floor(place[i][p] - 2 * COLUMN_SLACK));
                        q1[p] = fmax(q1[p], floor(q + 2 * COLUMN_SLACK));
                    }
                    place[i][p] = q;
                }
                begin[i] = end;
            }
            most = fmax(most, fmax(q1[0] - q0[0], q1[1] - q0[1]) + 1);
        }
    }
    a->box_q = std::max(a->box_q, (int)most + 2);
    while (a->stages > 2 && project_tiled_shared(s->channels, *a) > SHARED_OF_TWO)
        a->stages--;
    return a->box_q <= 256 && project_tiled_shared(s->channels, *a) <= SHARED_OF_TWO;
}

/* Views of a block, and those that it has room for; 0: not chosen. */
struct block_views {
    int group, sharing;
};

/* Chooses groups and boxes: those with the fewest bytes for each warp that works. Views too far apart to share a box leave
 * warps idle. What was chosen for other planes is taken if it fits: the search would take longer than the kernel. */
bool choose_boxes(const vp_pair_shape *s, project_args *a, block_views *chosen, int *blocks)
{
    project_args best = *a;
    double least = INFINITY;
    if (chosen->group && make_boxes(s, &best, chosen->group, chosen->sharing, SHARED_OF_TWO, blocks)
        && settle_boxes(s, &best, *blocks)) {
        *a = best;
        return true;
    }
    for (int group = MOST_SHARING; group >= 1; group /= 2)
        for (int sharing = group; sharing >= 1; sharing /= 2) {
            int n;
            if ((sharing > 1 && sharing / 2 >= a->views) || !make_boxes(s, a, group, sharing, SHARED_OF_TWO, &n))
                continue;
            const double size = (double)(a->box_q * a->box_z) * group / sharing;
            if (size < least)
                best = *a, least = size, *blocks = n;
        }
    *a = best;
    *chosen = {best.group, best.sharing};
    return least < INFINITY && settle_boxes(s, a, *blocks);
}

int volume_map(const vp_pair_shape *s, const project_args &a, const float *x, CUtensorMap *map, vp_err *err)
{
    const int M = s->channels;
    const int64_t column = texels_of(s) * s->channels * (int64_t)sizeof(float);
    const int64_t size[3] = {texels_of(s) * M / BOX_FLOATS, s->n[0], s->n[1]}, stride[2] = {column, column * s->n[0]};
    const int box[3] = {a.box_z * M / BOX_FLOATS, a.march == 0 ? 1 : a.box_q, a.march == 0 ? a.box_q : 1};
    return vp_tensor_map(map, BOX_FLOATS, x, size, stride, box, err);
}

/* Returns the place at which the ray through the middle of the detector moves across, from plane to plane. */
double slope_of(const vp_pair_shape *s, int number)
{
    const double *P = s->scan[number].P, u = 0.5 * (double)(s->nu - 1);
    const int m = s->scan[number].march, across = 1 - m;
    return (u * P[8 + m] - P[m]) / (P[across] - u * P[8 + across]);
}

/* Returns the choice of an earlier call with n views of this scan, equally far apart, or none: a search takes a tenth of the
 * time of 16 views of 512^3. No bit depends on it. */
block_views &last_choice(const vp_pair_shape *s, const int *view, int n)
{
    static thread_local struct {
        const vp_pair_view *scan;
        int n, step;
        block_views chosen;
    } last[2]; /* by marching axis */
    const int step = n > 1 ? abs(view[1] - view[0]) : 0;
    auto &l = last[s->scan[view[0]].march];
    if (l.scan != s->views || l.n != n || l.step != step)
        l = {s->views, n, step, {}};
    return l.chosen;
}

int project_views(vp_queue *q, const vp_pair_shape *s, const int *view, const int *line, int n, const float *x, float *work,
                  vp_err *err)
{
    const int64_t planes = s->n[s->scan[view[0]].march];
    block_views &chosen = last_choice(s, view, n);
    project_args a;
    int blocks = 0;
    if (!chosen.group && make_launch(s, view, line, n, planes / 2 / PLANES * PLANES, &a))
        choose_boxes(s, &a, &chosen, &blocks);
    for (int64_t plane = 0; plane < planes; plane += PLANES) {
        CUtensorMap map;
        if (!make_launch(s, view, line, n, plane, &a) || !choose_boxes(s, &a, &chosen, &blocks))
            return vp_fail(err, VP_ERUN, "views %d to %d do not fit the kernel", view[0], view[n - 1]);
        a.lines = work;
        if (blocks <= 0 || a.rows <= a.row0)
            continue;
        if (volume_map(s, a, x, &map, err)
            || vp_gpu_check(err, launch_project_tiled(s->channels, map, a, blocks, plane > 0, q->stream), "cannot project"))
            return -1;
    }
    return 0;
}

/* ---- transpose ---- */

area_view area_of(const vp_pair_shape *s, int number)
{
    const double *P = s->scan[number].P, hx = 0.5 * (double)(s->n[0] - 1), hy = 0.5 * (double)(s->n[1] - 1);
    const int across = s->scan[number].march == 0 ? 1 : 0;
    double rows[12];
    for (int r = 0; r < 12; r++) /* counted from the detector's edge */
        rows[r] = P[r] + (r < 8 ? 0.5 * P[8 + r % 4] : 0);
    for (int r = 0; r < 12; r += 4)
        rows[r + 3] += hx * rows[r] + hy * rows[r + 1];
    return {rows[0], rows[1], rows[3], rows[8], rows[9], rows[11], rows[4], rows[5], rows[6], rows[7],
            (float)rows[across], (float)rows[8 + across]};
}

void fill_args(const vp_pair_shape *s, const collect_kernel &k, area_args *a)
{
    *a = area_args{};
    const int64_t page = s->n[0] * s->n[1];
    a->out.nx = (int)s->n[0], a->out.ny = (int)s->n[1];
    a->out.end[0] = a->out.end[1] = (int)s->n[2];
    a->out.step[0] = page, a->out.step[1] = -page, a->out.origin[1] = (s->n[2] - 1) * page;
    a->nz = (int)s->n[2], a->half_x = (int)(k.R == 2 ? (s->n[0] + 1) / 2 : s->n[0]);
    a->nu = (int)s->nu, a->nv = (int)s->nv;
    a->tiles_x = (int)vp_div_up(a->half_x, k.tile_x), a->tiles_y = (int)vp_div_up(s->n[1], k.tile_y);
    a->segments = (int)vp_div_up(s->channels == 2 ? (s->n[2] + 1) / 2 : s->n[2], COLLECT_K);
    a->box_rows = s->box_rows[k.R - 1];
}

int measure_boxes(const vp_pair_shape *s, const collect_kernel &k, int extent[2], vp_err *err)
{
    area_args a;
    int *device = NULL;
    fill_args(s, k, &a);
    cudaError_t e = cudaMalloc(&device, 2 * sizeof *device);
    if (e == cudaSuccess)
        e = cudaMemset(device, 0, 2 * sizeof *device);
    for (int64_t first = 0; e == cudaSuccess && first < s->n_views; first += VIEW_BATCH) {
        a.n = (int)vp_min64(VIEW_BATCH, s->n_views - first);
        for (int i = 0; i < a.n; i++)
            a.view[i] = area_of(s, (int)first + i);
        e = launch_collect_extent(k, a, a.segments - 1, device, NULL);
    }
    if (e == cudaSuccess)
        e = cudaMemcpy(extent, device, 2 * sizeof *device, cudaMemcpyDeviceToHost);
    cudaFree(device);
    return vp_gpu_check(err, e, "cannot measure the tiles");
}

/* Returns the kernel of the transpose for slots of R views, if it does. */
int choose_collector(vp_pair_shape *s, int R, size_t shared, bool *does, vp_err *err)
{
    const int M = R * s->channels;
    *does = false;
    for (int set = SET_HALF; set <= SET_DOUBLE; set++) {
        collect_kernel k;
        int extent[2] = {0, 0}, &rows = s->box_rows[R - 1], &stages = s->stages[R - 1];
        if (!collect_tiled(R, s->channels, (column_set)set, &k) || s->rows_least < k.s_lower || s->rows_most > k.s_upper
            || s->line_taps > k.lines || (R == 2 && set != s->set))
            continue;
        if (measure_boxes(s, k, extent, err))
            return -1;
        rows = extent[1] + k.hi - k.lo;
        if (extent[0] + 4 / M - 1 > k.pitch || rows > 256)
            continue;
        for (stages = 8; stages >= k.stages && collect_tiled_shared(k, rows, stages) > shared;)
            stages--;
        if (stages < k.stages)
            continue;
        s->set = set;
        *does = true;
        return 0;
    }
    return 0;
}

/* True if view n / 2 + i is view i of the grid turned by half a turn, for all i. */
bool opposed(const vp_pair_shape *s)
{
    const int64_t half = s->n_views / 2;
    bool all = s->n_views > 0 && s->n_views % 2 == 0;
    for (int64_t i = 0; i < half && all; i++)
        all = s->scan[i].march == s->scan[half + i].march
           && vp_orbit_opposed(s->scan[i].P, s->scan[half + i].P, s->nu + s->nv, s->n);
    return all;
}

/* Chooses the kernels of the transpose, and the number of slots. */
int plan_transpose(vp_pair_shape *s, size_t shared, vp_err *err)
{
    bool single = false;
    if (choose_collector(s, 1, shared, &single, err)
        || (single && s->may_pair && opposed(s) && choose_collector(s, 2, shared, &s->opposite, err)))
        return -1;
    if (!single)
        return 0;
    s->collector = 1;
    s->slices = true;
    s->sum_bytes = (uint64_t)(s->n[0] * s->n[1] * s->n[2]) * sizeof(float);
    const int64_t slot = s->nv * row_pitch(s, s->opposite) * texel_of(s, s->opposite) * (s->opposite ? 2 : 1)
                       * (int64_t)sizeof(float);
    s->slots = VP_PAIR_SLOTS; /* a power of two: blocks of views are multiples of it */
    while (s->slots > VP_PAIR_VIEWS / 2 && s->slots * slot > LINES_BYTES)
        s->slots /= 2;
    s->lines_bytes = (uint64_t)(s->slots * slot);
    return 0;
}

/* ---- where they do ---- */

/* Sets the rows that the volume meets in any view: those of a slab may be few. */
void meet_rows(vp_pair_shape *s)
{
    double lo = INFINITY, hi = -INFINITY;
    for (int64_t i = 0; i < s->n_views; i++)
        for (int corner = 0; corner < 8; corner++) {
            const double *P = s->scan[i].P;
            const double at[3] = {corner & 1 ? (double)s->n[0] - 0.5 : -0.5, corner & 2 ? (double)s->n[1] - 0.5 : -0.5,
                                  corner & 4 ? (double)s->n[2] - 0.5 : -0.5};
            const double w = fmax(vp_orbit_dot(P + 8, at[0], at[1], 0), VP_ORBIT_NEAREST);
            const double edge = vp_orbit_dot(P + 4, at[0], at[1], at[2]) / w + 0.5;
            lo = fmin(lo, edge);
            hi = fmax(hi, edge);
        }
    const double end = (double)(s->channels == 2 ? (s->nv + 1) / 2 : s->nv);
    s->rows_met[0] = (int)fmin(fmax(floor(lo + ROW_SLACK), 0), end);
    s->rows_met[1] = (int)fmin(fmax(ceil(hi - ROW_SLACK), 0), end);
}

/* True if every view can be projected, alone if need be. */
bool projects(const vp_pair_shape *s)
{
    if (s->voxels_most > 2)
        return false;
    for (int64_t i = 0; i < s->n_views; i++)
        for (int64_t plane = 0; plane < s->n[s->scan[i].march]; plane += PLANES) {
            const int view = (int)i, line = 0;
            project_args a;
            int blocks = 0;
            block_views alone = {};
            if (!make_launch(s, &view, &line, 1, plane, &a) || !choose_boxes(s, &a, &alone, &blocks))
                return false;
        }
    return true;
}

} // namespace

int vp_pair_plan_boxes(int device, struct vp_pair_shape *s, struct vp_err *err)
{
    cudaDeviceProp prop;
    if (vp_gpu_check(err, cudaSetDevice(device), "cannot use the device")
        || vp_gpu_check(err, cudaGetDeviceProperties(&prop, device), "cannot query the device"))
        return -1;
    if (!(prop.minor == 0 && (prop.major == 9 || prop.major == 10)))
        return 0;
    bool mirror = true;
    for (int64_t i = 0; i < s->n_views; i++)
        mirror = mirror && vp_orbit_mirrored(s->scan[i].P, s->nv - 1, s->n);
    s->channels = mirror ? 2 : 1;
    meet_rows(s);
    if (plan_transpose(s, prop.sharedMemPerBlockOptin, err))
        return -1;
    s->high_boxes = false;
    bool fits = projects(s);
    if (!fits && s->channels == 1) { /* for all views alike: rows are placed from the first one of a block */
        s->high_boxes = true;
        fits = projects(s);
    }
    if (fits) {
        s->projector = 1;
        s->x_bytes = (uint64_t)(s->n[0] * s->n[1] * texels_of(s) * s->channels) * sizeof(float);
        s->work_bytes = (uint64_t)(VP_PAIR_VIEWS * s->nu * line_pitch(s)) * sizeof(float);
    }
    return 0;
}

int vp_pair_lift_boxes(struct vp_queue *q, const struct vp_pair_shape *s, int64_t z, int64_t n, const float *slices,
                       float *x, struct vp_err *err)
{
    const dim3 blocks((unsigned)vp_div_up(s->n[0], SIDE), (unsigned)s->n[1], (unsigned)vp_div_up(n, SIDE));
    if (vp_gpu_check(err, cudaSetDevice(q->device), "device"))
        return -1;
    return vp_start(err, q->stream, k_pair_lift, blocks, dim3(SIDE * LINES), 0, *s, z, n, texels_of(s), slices, x);
}

int vp_pair_project_boxes(struct vp_queue *q, const struct vp_pair_shape *s, const float *x, float *work, float *y,
                          struct vp_err *err)
{
    const int64_t pitch = line_pitch(s);
    if (vp_gpu_check(err, cudaSetDevice(q->device), "device")
        || vp_gpu_check(err, cudaMemsetAsync(work, 0, (size_t)(s->count * s->nu * pitch) * sizeof *work, q->stream),
                        "cannot clear device memory"))
        return -1;
    for (int march = 0; march < 2; march++) {
        int view[VP_PAIR_VIEWS], line[VP_PAIR_VIEWS], n = 0;
        for (int i = 0; i < s->count; i++)
            if (s->scan[s->view[i]].march == march)
                line[n++] = i;
        std::sort(line, line + n, [=](int a, int b) { return slope_of(s, s->view[a]) < slope_of(s, s->view[b]); });
        for (int i = 0; i < n; i++)
            view[i] = s->view[line[i]];
        if (n && project_views(q, s, view, line, n, x, work, err))
            return -1;
    }
    const dim3 blocks((unsigned)vp_div_up(s->nu, SIDE), (unsigned)vp_div_up(s->nv, SIDE), (unsigned)s->count);
    return vp_start(err, q->stream, k_pair_finish, blocks, dim3(SIDE * LINES), 0, *s, pitch, work, y);
}

int vp_pair_weigh_boxes(struct vp_queue *q, const struct vp_pair_shape *s, const float *y, float *lines, struct vp_err *err)
{
    const dim3 blocks((unsigned)vp_div_up(s->nu * s->nv, THREADS), (unsigned)s->count);
    const auto kernel = s->pairs ? s->channels == 2 ? k_pair_weigh<2, 2> : k_pair_weigh<2, 1>
                                 : s->channels == 2 ? k_pair_weigh<1, 2> : k_pair_weigh<1, 1>;
    if (vp_gpu_check(err, cudaSetDevice(q->device), "device"))
        return -1;
    return vp_start(err, q->stream, kernel, blocks, dim3(THREADS), 0, *s, row_pitch(s, s->pairs), y, lines);
}

int vp_pair_collect_boxes(struct vp_queue *q, const struct vp_pair_shape *s, const float *lines, float *work, float *sum,
                          struct vp_err *err)
{
    const int R = s->pairs ? 2 : 1, M = texel_of(s, s->pairs), floats = map_floats(M), per = M / floats;
    const int64_t pitch = row_pitch(s, s->pairs), row = pitch * M * (int64_t)sizeof(float);
    /* beyond column nu lie rests of slots that had another texel */
    const int64_t size[3] = {s->nu * per, s->nv, s->slots * R}, stride[2] = {row, row * s->nv};
    collect_kernel k;
    area_args a;
    CUtensorMap map;
    if (vp_gpu_check(err, cudaSetDevice(q->device), "device"))
        return -1;
    if (!collect_tiled(R, s->channels, (column_set)s->set, &k))
        return vp_fail(err, VP_ERUN, "the device has no such kernel");
    const int box[3] = {k.pitch * per, s->box_rows[R - 1], 1};
    fill_args(s, k, &a);
    a.out.vol = sum;
    a.next_tile = (int *)work;
    a.n = s->count;
    for (int i = 0; i < a.n; i++)
        a.view[i] = area_of(s, s->view[i]);
    if (vp_tensor_map(&map, floats, lines, size, stride, box, err))
        return -1;
    return vp_gpu_check(err, launch_collect_tiled(k, map, a, q->sms, s->stages[R - 1], q->stream), "cannot back-project");
}
