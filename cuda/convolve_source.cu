/* SPDX-License-Identifier: BSD-3-Clause */
/* Convolution of images by overlap-save with a grid of kernels whose bilinear weights belong to the samples
 * (local/convolve.h): the sum over nodes of the convolution of the node's kernel with the image times the node's
 * weights.
 *
 * Overview: tiles are those of a single kernel (convolve_single.cu).
 *     1. source_rows: rows forward along x, once for each node along x whose weights meet the pair of tiles, times
 *        these weights.
 *     2. source_columns: for every node in reach of the tile, the weights along y are applied to the loaded values,
 *        which are transformed forward along y and multiplied by the node's spectrum. The products are summed in
 *        registers, so all nodes share one inverse transform.
 *     3. Rows back, as for a single kernel.
 *   Samples outside the image have the weights of their positions there, so the tables of weights extend beyond the
 *   image by the kernel.
 * Offset: the offset of a pair of tiles is subtracted before the samples are weighted. It enters a result times the sum
 *   of all taps with their weights, which is computed in f64: along x for each row of the kernels (along_kernel), then
 *   along y (ones_kernel). Renormalised edges also need the sum over existing samples. */
#include "convolve.h"
#include "convolve_edge.cuh"

#include <cmath>

namespace vp
{
namespace
{

enum { ROWS_THREADS = 128, GROUP = 8, ONES_ROWS = 8 };

/* Weights along an axis for positions -pad_before ... size + centre - 1, of which position p lies between nodes cell -
 * 1 and cell; `right_weight` is the weight of the latter. */
struct source_weights {
    const int *cell;
    const float *right_weight;
    int pad_before, nodes;

    __device__ float of(int node, int p) const
    {
        const int c = __ldg(cell + p + pad_before);
        const float w = __ldg(right_weight + p + pad_before);
        return c == node ? w : c == node + 1 ? 1 - w : 0;
    }
    /* Return the first and the last node with a weight at positions [from, to). */
    __device__ int first(int from) const { return max(__ldg(cell + from + pad_before) - 1, 0); }
    __device__ int last(int to) const { return min(__ldg(cell + to - 1 + pad_before), nodes - 1); }
};

struct source_args {
    vp_area in, out;
    int type;
    convolve_axis axis[2];
    source_weights weights[2];
    int pair0, pairs;          /* first pair of tiles along x, pairs */
    int slots;                 /* largest number of nodes along x that meet a pair */
    int tile0;                 /* first tile along y */
    int y0, rows;              /* first row, rows of the samples */
    int out_y0, out_rows, z0;  /* first row, rows of the outputs; first plane */
    cx *lines;                 /* transformed rows, [plane][pair][slot][row] */
    cx *results;               /* transformed rows of results, [plane][pair][row] */
    const cx *spectra;         /* [node], `spectrum` values each */
    int64_t spectrum;
    const float *kernels;
    const float *base;         /* offsets, [plane][pair] */
    float *peaks;              /* peaks of lines, [plane][pair][row], or NULL */
    double *along[2];          /* sums of weighted taps along x over all positions, and over existing samples,
                                  [node along y][row of kernels][x of the output]; NULL: not wanted */
    double *ones;              /* sums of weighted taps, [y][x] of the output */
    float *factor;             /* factors of VP_EDGE_RENORMALIZE, [y][x], or NULL */
    int *nonfinite;
    const cx *twiddle[2];
};

/* Sets [from, to) to the positions that outputs of `tiles` tiles from `tile` on depend on. */
__device__ __forceinline__ void seen(const convolve_axis &a, int tile, int tiles, int &from, int &to)
{
    from = tile * a.valid - a.pad_before();
    to = min((tile + tiles) * a.valid, a.size) + a.centre;
}

/* Loads pairs of tiles of a row minus the offset, times the weights of a node, and transforms them along x. RETRY as in
 * rows_kernel (convolve_pass.cuh). */
template <class L, bool RETRY> __global__ void __launch_bounds__(ROWS_THREADS) source_rows(const source_args a)
{
    if (RETRY && !*a.nonfinite)
        return;
    extern __shared__ cx shared[];
    constexpr int ROWS = ROWS_THREADS / L::threads;
    const int t = threadIdx.x % L::threads, line = threadIdx.x / L::threads, row = blockIdx.x * ROWS + line;
    const int pair = blockIdx.y / a.slots, slot = blockIdx.y % a.slots;
    const convolve_axis x = a.axis[0];
    int from, to;
    seen(x, 2 * (a.pair0 + pair), 2, from, to);
    const int node = a.weights[0].first(from) + slot, x0 = from, samples = samples_of(x);
    if (node > a.weights[0].last(to))
        return;
    const int64_t at_pair = (int64_t)blockIdx.z * a.pairs + pair, at = (at_pair * a.slots + slot) * a.rows + row;
    const float base = a.base[at_pair];
    const bool live = row < a.rows && (!RETRY || !is_finite(a.lines[at * L::T]));
    cx *const sm = shared + line * L::row_size;
    cx v[L::values];

    typed((char *)a.in.data, a.type, [&](auto *data) {
        const auto *const p = data + (a.z0 + blockIdx.z - a.in.box.lo[2]) * a.in.plane
                              + (a.y0 + row - a.in.box.lo[1]) * a.in.pitch - a.in.box.lo[0];
        const auto weighted = [&](int i, int at) {
            const int q = live && i < samples ? sample_from(x, at) : -1;
            return q < 0 ? 0 : ((float)__ldg(p + q) - base) * a.weights[0].of(node, at);
        };
        each<L::R1>([&](auto j) {
            const int i = t + L::R2 * j;
            v[j] = {weighted(i, x0 + i), weighted(i, x0 + x.valid + i)};
        });
    });
    if (RETRY) {
        make_finite<L>(v);
        __syncwarp();
    }
    if (a.peaks) /* peak of the weighted samples: one node has a weight of at least 1 / 2 */
        store_peak<L, false>(a.peaks + at_pair * a.rows + row, v, t, live);
    line_forward<L>(v, sm, t, a.twiddle[0]);
    if (!live)
        return;
    if (!RETRY && !is_finite(v[0]))
        *a.nonfinite = 1;
    store_row<L>(a.lines + at * L::T, v, t);
}

/* Transforms columns along y for all nodes in reach, sums the products with their spectra and transforms back. Both
 * axes have the same length. */
template <class L, int BLOCKS> __global__ void __launch_bounds__(GROUP *L::threads, BLOCKS)
    source_columns(const source_args a)
{
    extern __shared__ cx shared[];
    constexpr int P = column_layout<L, GROUP>::pitch, block = GROUP * L::threads;
    const int lane = threadIdx.x % GROUP, column = blockIdx.x * GROUP + lane, tile = a.tile0 + (int)blockIdx.y;
    const int pair = blockIdx.z % a.pairs, plane = blockIdx.z / a.pairs;
    const convolve_axis y = a.axis[1];
    cx *const sm = shared + lane;
    cx v[L::values], sum[L::frequencies];
    int from, to, y0, y1;

    seen(a.axis[0], 2 * (a.pair0 + pair), 2, from, to);
    seen(y, tile, 1, y0, y1);
    const int first = a.weights[0].first(from), last = a.weights[0].last(to);
    const int top = a.weights[1].first(y0), bottom = a.weights[1].last(y1);
    each<L::frequencies>([&](auto i) { sum[i] = {0, 0}; });
    for (int node = first; node <= last; node++)
        for (int down = top; down <= bottom; down++) {
            const int t = opaque_index(threadIdx.x) / GROUP;
            const cx *const in =
                opaque(a.lines + ((((int64_t)plane * a.pairs + pair) * a.slots + node - first) * a.rows - a.y0) * L::T
                       + column);
            each<L::R1>([&](auto j) {
                const int p = y0 + t + L::R2 * j, q = p < y1 ? sample_from(y, p) : -1;
                v[j] = {0, 0};
                if (q >= 0) {
                    const float w = a.weights[1].of(down, p);
                    const cx e = load_l2(in + (int64_t)q * L::T);
                    v[j] = {w * e.re, w * e.im};
                }
            });
            __syncthreads(); /* the exchange of the previous node has been read */
            forward_begin<L, P, GROUP>(v, sm, t, a.twiddle[1]);
            __syncthreads();
            forward_end<L, P, GROUP>(v, sm, t);
            const cx *const h = opaque(a.spectra + (down * a.weights[0].nodes + node) * a.spectrum
                                       + (int64_t)blockIdx.x * (L::frequencies * block) + 2 * threadIdx.x);
            each<L::frequencies / 2>([&](auto r) {
                const float4 f = __ldcg((const float4 *)(h + r * 2 * block));
                sum[2 * r] = times_plus(v[2 * r], cx{f.x, f.y}, sum[2 * r]);
                sum[2 * r + 1] = times_plus(v[2 * r + 1], cx{f.z, f.w}, sum[2 * r + 1]);
            });
        }
    const int t = threadIdx.x / GROUP;
    __syncthreads();
    inverse_begin<L, P, GROUP>(sum, sm, t);
    __syncthreads();
    inverse_end<L, P, GROUP>(v, sm, t, a.twiddle[1]);
    const int out = tile * y.valid, n = min(y.valid, y.size - out), place = t - y.pad_before();
    cx *const o =
        opaque(a.results + (((int64_t)plane * a.pairs + pair) * a.out_rows + out + place - a.out_y0) * L::T + column);
    each<L::R1>([&](auto j) {
        if ((unsigned)(place + L::R2 * j) < (unsigned)n)
            o[(int64_t)L::R2 * L::T * j] = v[j];
    });
}

/* Sums the weighted taps of one row of the kernels along x, for one row of nodes. */
__global__ void __launch_bounds__(128) along_kernel(const source_args a)
{
    const int nx = (int)(a.out.box.hi[0] - a.out.box.lo[0]), i = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    const int n = a.axis[0].taps, ky = blockIdx.y, down = blockIdx.z, nodes = a.weights[0].nodes;
    if (i >= nx)
        return;
    const convolve_axis x = a.axis[0];
    const int p = (int)a.out.box.lo[0] + i;
    int lo, hi;
    taps_inside(x, p, lo, hi);
    double all = 0, inside = 0;
    for (int k = 0; k < n; k++) {
        const int at = p - k + x.centre + a.weights[0].pad_before, c = __ldg(a.weights[0].cell + at);
        const double u = __ldg(a.weights[0].right_weight + at);
        const auto tap = [&](int node) {
            return (double)__ldg(a.kernels + ((int64_t)(down * nodes + node) * a.axis[1].taps + ky) * n + k);
        };
        const double w = (1 - u) * tap(max(c - 1, 0)) + u * tap(min(c, nodes - 1));
        all += w;
        inside += k >= lo && k < hi ? w : 0;
    }
    const int64_t to = ((int64_t)down * a.axis[1].taps + ky) * nx + i;
    if (a.along[0])
        a.along[0][to] = all;
    if (a.along[1])
        a.along[1][to] = inside;
}

/* Sums along y over rows of the kernels and of nodes; a thread has ONES_ROWS results of a column. */
__global__ void __launch_bounds__(128) ones_kernel(const source_args a)
{
    const int nx = (int)(a.out.box.hi[0] - a.out.box.lo[0]), i = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    const convolve_axis y = a.axis[1];
    const int y0 = (int)a.out.box.lo[1] + (int)blockIdx.y * ONES_ROWS, y1 = min(y0 + ONES_ROWS, (int)a.out.box.hi[1]);
    if (i >= nx)
        return;
    double all[ONES_ROWS] = {}, inside[ONES_ROWS] = {};
    const int first = a.weights[1].first(y0 - y.pad_before()), last = a.weights[1].last(y1 + y.centre);
    for (int node = first; node <= last; node++)
        for (int k = 0; k < y.taps; k++) {
            const int64_t from = ((int64_t)node * y.taps + k) * nx + i;
            const double one = a.along[0] ? a.along[0][from] : 0, in = a.along[1] ? a.along[1][from] : 0;
            each<ONES_ROWS>([&](auto r) {
                const int p = y0 + r - k + y.centre;
                if (y0 + r >= y1)
                    return;
                const double w = a.weights[1].of(node, p);
                all[r] += w * one;
                inside[r] += p >= y.first && p < y.first + y.count ? w * in : 0;
            });
        }
    each<ONES_ROWS>([&](auto r) {
        const int64_t to = (int64_t)(y0 + r - (int)a.out.box.lo[1]) * nx + i;
        if (y0 + r >= y1)
            return;
        a.ones[to] = a.along[0] ? all[r] : inside[r];
        if (a.factor)
            a.factor[to] = inside[r] != 0 ? (float)(all[r] / inside[r]) : 0;
    });
}

/* Tiles for direct_kernel, as in convolve_single.cu. */
struct direct_source {
    vp_area in, out;
    int type_in, type_out;
    convolve_axis axis[3];
    source_args a;

    struct box {
        int lo[3], hi[3];
        int64_t pair;
    };

    __device__ box tile(int i, int strip) const
    {
        const convolve_axis x = axis[0], y = axis[1];
        box b;
        b.lo[0] = 2 * (a.pair0 + strip % a.pairs) * x.valid;
        b.hi[0] = min(b.lo[0] + 2 * x.valid, (int)out.box.hi[0]);
        b.lo[1] = (a.tile0 + i) * y.valid;
        b.hi[1] = min(b.lo[1] + y.valid, a.out_y0 + a.out_rows);
        b.lo[2] = a.z0 + strip / a.pairs;
        b.hi[2] = b.lo[2] + 1;
        b.pair = strip;
        return b;
    }
    __device__ int lines(const box &) const { return samples_of(axis[1]); }
    __device__ float peak_of(const box &b, int i) const
    {
        const int y = sample_from(axis[1], b.lo[1] - axis[1].pad_before() + i);
        return y < 0 ? 0 : a.peaks[b.pair * a.rows + y - a.y0];
    }
    __device__ float base(const box &b, int) const { return a.base[b.pair]; }
    __device__ double weight(const box &, int kx, int ky, int, const int *, int qx, int qy) const
    {
        const int px = qx + a.weights[0].pad_before, py = qy + a.weights[1].pad_before, n = axis[0].taps,
                  nodes = a.weights[0].nodes;
        const int cx_ = __ldg(a.weights[0].cell + px), cy = __ldg(a.weights[1].cell + py);
        const double u = __ldg(a.weights[0].right_weight + px), v = __ldg(a.weights[1].right_weight + py);
        const auto row = [&](int down) {
            const float *const k = a.kernels + ((int64_t)down * nodes * axis[1].taps + ky) * n + kx;
            const int64_t next = (int64_t)axis[1].taps * n;
            return (1 - u) * __ldg(k + max(cx_ - 1, 0) * next) + u * __ldg(k + min(cx_, nodes - 1) * next);
        };
        return (1 - v) * row(max(cy - 1, 0)) + v * row(min(cy, a.weights[1].nodes - 1));
    }
    __device__ float restored(const box &b, float value, const int p[3]) const
    {
        const int64_t at = (p[1] - out.box.lo[1]) * (out.box.hi[0] - out.box.lo[0]) + (p[0] - out.box.lo[0]);
        return (float)((a.factor ? (double)value * a.factor[at] : value) + (double)base(b, 0) * a.ones[at]);
    }
};

int launch_ones(vp_err *err, cudaStream_t stream, const source_args &a)
{
    const int64_t nx = vp_box_size(&a.out.box, 0), ny = vp_box_size(&a.out.box, 1);
    const dim3 along((unsigned)vp_div_up(nx, 128), (unsigned)a.axis[1].taps, (unsigned)a.weights[1].nodes);
    const dim3 ones((unsigned)vp_div_up(nx, 128), (unsigned)vp_div_up(ny, ONES_ROWS));
    return vp_start(err, stream, along_kernel, along, dim3(128), 0, a)
                   || vp_start(err, stream, ones_kernel, ones, dim3(128), 0, a)
               ? -1 : 0;
}

int launch_direct(vp_err *err, cudaStream_t stream, const source_args &a, int type_out, int tiles, int planes)
{
    direct_source d = {a.in, a.out, a.type, type_out, {a.axis[0], a.axis[1], {}}, a};
    d.axis[2].size = d.axis[2].count = VP_FAR;
    d.axis[2].taps = 1;
    return !a.peaks ? 0 : vp_start(err, stream, direct_kernel<direct_source>,
                                   dim3(DIRECT_BLOCKS, (unsigned)tiles, (unsigned)(a.pairs * planes)), dim3(256), 0, d);
}

/* ---- one length ---- */

template <class L, int BLOCKS> struct source_length_of {
    static int image(vp_err *err, cudaStream_t stream, const source_args &a, int tiles, int planes)
    {
        constexpr int ROWS = ROWS_THREADS / L::threads;
        const dim3 rows((unsigned)vp_div_up(a.rows, ROWS), (unsigned)(a.pairs * a.slots), (unsigned)planes);
        const dim3 columns(L::T / GROUP, (unsigned)tiles, (unsigned)(a.pairs * planes));
        return vp_start(err, stream, source_rows<L, false>, rows, dim3(ROWS_THREADS), sizeof(cx) * ROWS * L::row_size,
                        a)
                       || vp_start(err, stream, source_rows<L, true>, rows, dim3(ROWS_THREADS),
                                   sizeof(cx) * ROWS * L::row_size, a)
                       || vp_start(err, stream, source_columns<L, BLOCKS>, columns, dim3(GROUP * L::threads),
                                   sizeof(cx) * column_layout<L, GROUP>::size, a)
                   ? -1
                   : 0;
    }
};

const struct source_length {
    const convolve_length *passes;
    int (*image)(vp_err *err, cudaStream_t stream, const source_args &a, int tiles, int planes);
} lengths[] = {{&convolve_128, source_length_of<fft_shape<16, 8>, 6>::image},
               {&convolve_256, source_length_of<fft_shape<16, 16>, 4>::image},
               {&convolve_512, source_length_of<fft_shape<32, 16>, 2>::image}};

/* ---- host ---- */

struct source_tiling : convolve_tiling {
    const source_length *with;
    int T, slots;
    std::vector<int> cell[2];    /* as in source_weights */
    std::vector<float> right_weight[2];
};

void weights_along(const vp_op *op, int axis, std::vector<int> &cell, std::vector<float> &right_weight)
{
    const vp_convolve_params *const p = params_of(op);
    const double *const node = p->node[axis];
    const int64_t pad_before = p->n[axis] - 1 - p->centre[axis], nodes = p->nodes[axis];
    int64_t c = 0;
    for (int64_t q = -pad_before; q < op->image[axis] + p->centre[axis]; q++) {
        while (c < nodes && (double)q >= node[c])
            c++;
        cell.push_back((int)c);
        right_weight.push_back(c == 0       ? 1
                               : c == nodes ? 0
                                            : (float)(((double)q - node[c - 1]) / (node[c] - node[c - 1])));
    }
}

source_tiling make_tiling(const vp_op *op)
{
    const vp_convolve_params *const p = params_of(op);
    source_tiling c = {};
    double least = 0;
    for (const source_length &l : lengths) {
        const int64_t T = l.passes->T, x = (T - p->n[0] + 1) / 4 * 4, y = T - p->n[1] + 1;
        if (x < 4 || y < 1)
            continue;
        const double across = 1 + (double)(2 * x + p->n[0]) * (double)p->nodes[0] / (double)op->image[0];
        const double down = 1 + (double)T * (double)p->nodes[1] / (double)op->image[1]; /* nodes that meet a tile */
        const double cost = (double)(vp_div_up(op->image[0], 2 * x) * vp_div_up(op->image[1], y) * T * T)
                            * (std::min(across, (double)p->nodes[0]) * (std::min(down, (double)p->nodes[1]) + 1) + 1);
        if (c.with && cost >= least)
            continue;
        least = cost;
        c.with = &l;
        c.length[0] = c.length[1] = l.passes;
        c.T = (int)T;
        c.valid[0] = (int)x;
        c.valid[1] = (int)y;
    }
    if (!c.with)
        return c;
    for (int a = 0; a < 2; a++)
        weights_along(op, a, c.cell[a], c.right_weight[a]);
    const int64_t wide = 2 * (int64_t)c.valid[0], pad_before = p->n[0] - 1 - p->centre[0];
    for (int64_t x = 0; x < op->image[0]; x += wide) {
        const int64_t to = std::min(x + wide, op->image[0]) + p->centre[0]; /* positions [x - pad_before, to) */
        const int first = std::max(c.cell[0][(size_t)x] - 1, 0);
        const int last = std::min(c.cell[0][(size_t)(to - 1 + pad_before)], (int)p->nodes[0] - 1);
        c.slots = std::max(c.slots, last - first + 1);
    }
    return c;
}

const source_tiling &source_tiling_of(const vp_op *op)
{
    return cached_tiling(op, make_tiling);
}

struct source_table {
    kernel_table kernel;
    float *right_weight[2];
    int *cell[2];
    cx *twiddle[3], *spectra, *work;
    uint64_t bytes, made;
};

int64_t spectrum_of(const source_tiling &c)
{
    return (int64_t)(c.T / c.length[0]->group) * c.length[0]->spectrum;
}

source_table table_of(const vp_op *op, const source_tiling &c, void *base)
{
    const vp_convolve_params *const p = params_of(op);
    vp_arena all = {(char *)base, 0};
    source_table t = {};
    t.kernel.take(all, p, false);
    for (int a = 0; a < 2; a++) {
        all.take(t.right_weight[a], c.right_weight[a].size());
        all.take(t.cell[a], c.cell[a].size());
    }
    all.take(t.twiddle[0], (uint64_t)c.T);
    t.twiddle[1] = t.twiddle[0];
    t.bytes = all.used;
    all.take(t.spectra, (uint64_t)(p->nodes[0] * p->nodes[1] * spectrum_of(c)));
    all.take(t.work, (uint64_t)(p->n[1] * c.T));
    t.made = all.used - t.bytes;
    return t;
}

struct source_workspace : convolve_workspace {
    double *along[2], *ones;
    float *factor;
    uint64_t bytes;
};

/* Lays out the workspace. The sums over all positions are needed if the edge rule supplies samples or renormalises;
 * those over existing samples if it renormalises or supplies zeros. */
source_workspace workspace_of(const vp_op *op, const source_tiling &c, int64_t pairs, const int64_t in[3],
                              const int64_t out[3], void *base)
{
    vp_arena all = {(char *)base, 0};
    source_workspace r = {};
    all.take<int>(1);
    const vp_convolve_params *const p = params_of(op);
    const bool renormalize = p->edge == VP_EDGE_RENORMALIZE, wanted[2] = {p->edge != VP_EDGE_ZERO,
                                                                           renormalize || p->edge == VP_EDGE_ZERO};
    for (int i = 0; i < 2; i++)
        if (wanted[i])
            all.take(r.along[i], (uint64_t)(p->nodes[1] * p->n[1] * out[0]));
    all.take(r.ones, (uint64_t)(out[0] * out[1]));
    if (renormalize)
        all.take(r.factor, (uint64_t)(out[0] * out[1]));
    (convolve_workspace &)r = workspace_of_images(all, c.T, c.slots, pairs, in, out);
    r.bytes = all.used;
    return r;
}

/* ---- the method ---- */

bool fits(const vp_op *op)
{
    return source_tiling_of(op).with;
}

uint64_t table(const vp_op *op, bool made)
{
    const source_table t = table_of(op, source_tiling_of(op), nullptr);
    return made ? t.made : t.bytes;
}

void fill(const vp_op *op, void *base)
{
    const source_tiling &c = source_tiling_of(op);
    const source_table t = table_of(op, c, base);
    t.kernel.fill(params_of(op));
    for (int a = 0; a < 2; a++) {
        std::copy(c.right_weight[a].begin(), c.right_weight[a].end(), t.right_weight[a]);
        std::copy(c.cell[a].begin(), c.cell[a].end(), t.cell[a]);
    }
    fill_twiddle(c.T, c.length[0]->R1, c.length[0]->R2, t.twiddle[0]);
}

int make(const vp_op *op, void *base, vp_queue *queue, vp_err *err)
{
    const vp_convolve_params *const p = params_of(op);
    const source_tiling &c = source_tiling_of(op);
    const source_table t = table_of(op, c, base);
    for (int64_t i = 0; i < p->nodes[0] * p->nodes[1]; i++)
        if (make_spectrum(op, c, t.kernel.kernels + i * p->n[0] * p->n[1], t.twiddle, t.work,
                          t.spectra + i * spectrum_of(c), queue, err))
            return -1;
    return 0;
}

void demand(const vp_op *op, int64_t step[3], int64_t[3])
{
    steps_of(op, source_tiling_of(op), step);
}

uint64_t scratch(const vp_op *op, const int64_t in[3], const int64_t out[3])
{
    const source_tiling &c = source_tiling_of(op);
    return workspace_of(op, c, vp_div_up(out[0], 2 * (int64_t)c.valid[0]), in, out, nullptr).bytes;
}

int launch(const vp_op *op, const vp_work *work, vp_err *err)
{
    const source_tiling &c = source_tiling_of(op);
    const source_table t = table_of(op, c, (void *)work->table);
    const vp_box &in = work->in[0].box, &out = work->out->box;
    const int64_t in_size[3] = {vp_box_size(&in, 0), vp_box_size(&in, 1), vp_box_size(&in, 2)};
    const int64_t size[3] = {vp_box_size(&out, 0), vp_box_size(&out, 1), vp_box_size(&out, 2)};
    const convolve_part all = part_of(op, work, c);
    const source_workspace r = workspace_of(op, c, all.pairs, in_size, size, work->scratch);
    const cudaStream_t stream = work->queue->stream;
    source_args a = {};
    a.in = work->in[0];
    a.out = *work->out;
    a.type = op->in;
    for (int i = 0; i < 2; i++) {
        a.axis[i] = all.axis[i];
        a.weights[i] = {t.cell[i], t.right_weight[i], a.axis[i].pad_before(), (int)params_of(op)->nodes[i]};
        a.twiddle[i] = t.twiddle[i];
        a.along[i] = r.along[i];
    }
    a.slots = c.slots;
    a.lines = r.lines;
    a.results = r.results;
    a.spectra = t.spectra;
    a.spectrum = spectrum_of(c);
    a.kernels = t.kernel.kernels;
    a.base = r.base;
    a.peaks = op->in == VP_F32 ? r.peaks : nullptr;
    a.ones = r.ones;
    a.factor = r.factor;
    a.nonfinite = (int *)work->scratch;
    if (launch_ones(err, stream, a))
        return -1;
    convolve_part part = first_group(op, c, all);
    do {
        inverse_args inverse = inverse_args_of(op, work, part, c.T, r);
        inverse.twiddle = t.twiddle[0];
        inverse.ones = r.ones;
        inverse.factor = r.factor;
        inverse.pitch = size[0];
        a.y0 = part.in_lo[1];
        a.rows = part.in_n[1];
        a.out_y0 = part.out_lo[1];
        a.out_rows = part.out_n[1];
        a.tile0 = part.tile0;
        for (int q = 0; q < part.pairs; q += r.pairs)
            for (int64_t z = 0; z < size[2]; z += r.planes) {
                const int n = (int)std::min<int64_t>(r.planes, size[2] - z), planes[2] = {n, n};
                a.pair0 = inverse.pair0 = part.pair0 + q;
                a.pairs = inverse.offset.pairs = std::min(r.pairs, part.pairs - q);
                a.z0 = inverse.z0 = inverse.offset.base_z0 = (int)(out.lo[2] + z);
                inverse.in_plane = inverse.in_pair * a.pairs;
                inverse.offset.base = r.base;
                const size_t bytes = (size_t)n * (size_t)a.pairs * (size_t)a.rows * sizeof *a.peaks;
                if (launch_base(op, work, part, a.pair0, inverse.offset, planes, err)
                    || (a.peaks
                        && vp_gpu_check(err, cudaMemsetAsync(a.peaks, 0, bytes, stream), "cannot clear CUDA memory"))
                    || c.with->image(err, stream, a, part.tiles, n)
                    || c.with->passes->inverse(err, stream, inverse, a.pairs, n)
                    || launch_direct(err, stream, a, op->out, part.tiles, n))
                    return -1;
            }
    } while (next_group(op, c, all, part));
    return 0;
}

}

const convolve_method convolve_source = {fits, table, fill, make, demand, scratch, launch};

}
