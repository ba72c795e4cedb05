/* SPDX-License-Identifier: BSD-3-Clause */
/* Convolution with a grid of kernels whose weights belong to the samples (local/convolve.h), image by image.
 *
 * Tiles are those of one kernel (convolve.cu). Rows are transformed once for each node across that a pair of tiles
 * sees, times the node's weights along x; a block of the columns goes through the nodes that its tile sees, takes the
 * weights along y as it loads, and adds up the products with the nodes' spectra, so all nodes share one way back.
 * Samples outside the image have the weights of the places where they would be: both tables of weights reach over the
 * edge by the kernel.
 *
 * VP_EDGE_RENORMALIZE: voxels whose kernel crosses the edge add up their weights one by one (renormalize_kernel). */
#include "convolve_edge.cuh"
#include "convolve_grid.h"
#include "launch.cuh"

#include <cmath>

namespace vp
{
namespace
{

enum { ROWS_THREADS = 128, GROUP = 8 };
constexpr uint64_t WORK = (uint64_t)768 << 20;

/* Weights along an axis, for positions -behind ... size + centre - 1: between nodes cell - 1 and cell, the latter's. */
struct source_weights {
    const int *cell;
    const float *after;
    int behind, nodes;

    __device__ float of(int node, int p) const
    {
        const int c = __ldg(cell + p + behind);
        const float w = __ldg(after + p + behind);
        return c == node ? w : c == node + 1 ? 1 - w : 0;
    }
    /* nodes that have a weight at positions [from, to) */
    __device__ int first(int from) const { return max(__ldg(cell + from + behind) - 1, 0); }
    __device__ int last(int to) const { return min(__ldg(cell + to - 1 + behind), nodes - 1); }
};

struct source_args {
    vp_area in, out;
    int type;
    convolve_axis axis[2];
    source_weights weights[2];
    int pair0, pairs, slots;   /* slots: of nodes across that a pair sees */
    int tile0, y0, rows, out_y0, out_rows, z0;
    cx *lines, *mean;          /* [plane][pair][slot][row] */
    cx *back, *means;          /* [plane][pair][row] */
    const cx *spectra;         /* [node] */
    int64_t spectrum;
    const float *sums;         /* [node][y]: rows summed up */
    const float *kernels;
    float *factor;             /* of VP_EDGE_RENORMALIZE, [y][x] of the output */
    int *bad;
    const cx *twiddle[2];
};

/* Positions that the outputs of a pair, or of a tile, see. */
__device__ __forceinline__ void seen(const convolve_axis &a, int tile, int tiles, int &from, int &to)
{
    from = tile * a.valid - a.behind();
    to = min((tile + tiles) * a.valid, a.size) + a.centre;
}

/* AGAIN: as in rows_kernel (convolve_pass.cuh). */
template <class L, bool AGAIN> __global__ void __launch_bounds__(ROWS_THREADS) source_rows(const source_args a)
{
    if (AGAIN && !*a.bad)
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
    const int64_t at = (((int64_t)blockIdx.z * a.pairs + pair) * a.slots + slot) * a.rows + row;
    const bool live = row < a.rows && (!AGAIN || !is_finite(a.lines[at * L::T]));
    cx *const sm = shared + line * L::row_size;
    cx v[L::values];

    typed((char *)a.in.data, a.type, [&](auto *data) {
        const auto *const p = data + (a.z0 + blockIdx.z - a.in.box.lo[2]) * a.in.plane
                              + (a.y0 + row - a.in.box.lo[1]) * a.in.pitch - a.in.box.lo[0];
        const auto weighted = [&](int i, int at) {
            const int q = live && i < samples ? sample_from(x, at) : -1;
            return q < 0 ? 0 : (float)__ldg(p + q) * a.weights[0].of(node, at);
        };
        each<L::R1>([&](auto j) {
            const int i = t + L::R2 * j;
            v[j] = {weighted(i, x0 + i), weighted(i, x0 + x.valid + i)};
        });
    });
    if (AGAIN) {
        make_finite<L>(v);
        __syncwarp();
    }
    const cx m = line_mean<L>(v);
    line_forward<L>(v, m, sm, t, a.twiddle[0]);
    if (!live)
        return;
    if (!AGAIN && !is_finite(v[0]))
        *a.bad = 1;
    if (t == 0)
        a.mean[at] = m;
    cx *const out = hidden(a.lines + at * L::T + t);
    each<L::batches>([&](auto b) { each<L::R2>([&](auto k) { out[b * L::R2 + L::R1 * k] = v[b * L::R2 + k]; }); });
}

/* Both axes have the same length. */
template <class L, int BLOCKS> __global__ void __launch_bounds__(GROUP *L::threads, BLOCKS)
    source_columns(const source_args a)
{
    extern __shared__ cx shared[];
    constexpr int P = columns_of<L, GROUP>::pitch, block = GROUP * L::threads;
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
            const int t = hidden_index(threadIdx.x) / GROUP;
            const cx *const in =
                hidden(a.lines + ((((int64_t)plane * a.pairs + pair) * a.slots + node - first) * a.rows - a.y0) * L::T
                       + column);
            each<L::R1>([&](auto j) {
                const int p = y0 + t + L::R2 * j, q = p < y1 ? sample_from(y, p) : -1;
                v[j] = {0, 0};
                if (q >= 0) {
                    const float w = a.weights[1].of(down, p);
                    const cx e = load_far(in + (int64_t)q * L::T);
                    v[j] = {w * e.re, w * e.im};
                }
            });
            __syncthreads(); /* who reads what the round before exchanged */
            samples_out<L, P, GROUP>(v, sm, t, a.twiddle[1]);
            __syncthreads();
            frequencies_in<L, P, GROUP>(v, sm, t);
            const cx *const h = hidden(a.spectra + (down * a.weights[0].nodes + node) * a.spectrum
                                       + (int64_t)blockIdx.x * (L::frequencies * block) + 2 * threadIdx.x);
            each<L::frequencies / 2>([&](auto r) {
                const float4 f = __ldcg((const float4 *)(h + r * 2 * block));
                sum[2 * r] = times_plus(v[2 * r], cx{f.x, f.y}, sum[2 * r]);
                sum[2 * r + 1] = times_plus(v[2 * r + 1], cx{f.z, f.w}, sum[2 * r + 1]);
            });
        }
    const int t = threadIdx.x / GROUP;
    __syncthreads();
    frequencies_out<L, P, GROUP>(sum, sm, t);
    __syncthreads();
    samples_in<L, P, GROUP>(v, sm, t, a.twiddle[1]);
    const int out = tile * y.valid, n = min(y.valid, y.size - out), place = t - y.behind();
    cx *const o =
        hidden(a.back + (((int64_t)plane * a.pairs + pair) * a.out_rows + out + place - a.out_y0) * L::T + column);
    each<L::R1>([&](auto j) {
        if ((unsigned)(place + L::R2 * j) < (unsigned)n)
            o[(int64_t)L::R2 * L::T * j] = v[j];
    });
}

__global__ void __launch_bounds__(128) source_means(const source_args a)
{
    const int row = blockIdx.x * blockDim.x + threadIdx.x, pair = blockIdx.y, plane = blockIdx.z;
    if (row >= a.out_rows)
        return;
    const convolve_axis y = a.axis[1];
    const int p = a.out_y0 + row;
    int from, to;
    seen(a.axis[0], 2 * (a.pair0 + pair), 2, from, to);
    const int first = a.weights[0].first(from), last = a.weights[0].last(to);
    double re = 0, im = 0;
    for (int node = first; node <= last; node++) {
        const cx *const mean = a.mean + ((((int64_t)plane * a.pairs + pair) * a.slots + node - first) * a.rows - a.y0);
        for (int k0 = 0; k0 < y.taps; k0 += 8) {
            cx s = {0, 0};
            for (int k = k0; k < min(k0 + 8, y.taps); k++) {
                const int at = p - k + y.centre, q = sample_from(y, at);
                if (q < 0)
                    continue;
                const int c = __ldg(a.weights[1].cell + at + a.weights[1].behind);
                const float w = __ldg(a.weights[1].after + at + a.weights[1].behind);
                const int up = max(c - 1, 0), down = min(c, a.weights[1].nodes - 1), nodes = a.weights[0].nodes;
                const float f = fmaf(w, __ldg(a.sums + (int64_t)(down * nodes + node) * y.taps + k),
                                     (1 - w) * __ldg(a.sums + (int64_t)(up * nodes + node) * y.taps + k));
                const cx m = load_far(mean + q);
                s = scaled_plus(f, m, s);
            }
            re += s.re;
            im += s.im;
        }
    }
    a.means[((int64_t)plane * a.pairs + pair) * a.out_rows + row] = {(float)re, (float)im};
}

/* A warp a voxel of a plane. */
__global__ void __launch_bounds__(256) renormalize_kernel(const source_args a)
{
    const int64_t i = (blockIdx.x * (int64_t)blockDim.x + threadIdx.x) / 32, nx = a.out.box.hi[0] - a.out.box.lo[0];
    const int lane = threadIdx.x % 32;
    const int x = (int)(a.out.box.lo[0] + i % nx), y = (int)(a.out.box.lo[1] + i / nx);
    if (y >= a.out.box.hi[1])
        return;
    if (!(clips(a.axis[0], x) || clips(a.axis[1], y))) {
        if (lane == 0)
            a.factor[i] = 1;
        return;
    }
    const int n = a.axis[0].taps, taps = n * a.axis[1].taps, nodes = a.weights[0].nodes;
    int x0, x1, y0, y1;
    taps_inside(a.axis[0], x, x0, x1);
    taps_inside(a.axis[1], y, y0, y1);
    double all = 0, inside = 0;
    for (int k = lane; k < taps; k += 32) {
        const int kx = k % n, ky = k / n, px = x - kx + a.axis[0].centre + a.weights[0].behind,
                  py = y - ky + a.axis[1].centre + a.weights[1].behind;
        const int cx_ = __ldg(a.weights[0].cell + px), cy = __ldg(a.weights[1].cell + py);
        const float u = __ldg(a.weights[0].after + px), v = __ldg(a.weights[1].after + py);
        const int l = max(cx_ - 1, 0), r = min(cx_, nodes - 1), up = max(cy - 1, 0),
                  down = min(cy, a.weights[1].nodes - 1);
        const auto at = [&](int j, int c) { return __ldg(a.kernels + (int64_t)(j * nodes + c) * taps + k); };
        const float high = fmaf(u, at(up, r), (1 - u) * at(up, l)), low = fmaf(u, at(down, r), (1 - u) * at(down, l));
        const float w = fmaf(v, low, (1 - v) * high);
        all += w;
        if (kx >= x0 && kx < x1 && ky >= y0 && ky < y1)
            inside += w;
    }
    for (int o = 16; o; o >>= 1) {
        all += __shfl_xor_sync(~0u, all, o);
        inside += __shfl_xor_sync(~0u, inside, o);
    }
    if (lane == 0)
        a.factor[i] = (float)(all / inside);
}

/* ---- one length ---- */

template <class L, int BLOCKS> struct source_length_of {
    static int image(vp_err *err, cudaStream_t stream, const source_args &a, int tiles, int planes)
    {
        constexpr int ROWS = ROWS_THREADS / L::threads;
        const dim3 rows((unsigned)vp_groups(a.rows, ROWS), (unsigned)(a.pairs * a.slots), (unsigned)planes);
        const dim3 means((unsigned)vp_groups(a.out_rows, 128), (unsigned)a.pairs, (unsigned)planes);
        const dim3 columns(L::T / GROUP, (unsigned)tiles, (unsigned)(a.pairs * planes));
        return vp_start(err, stream, source_rows<L, false>, rows, dim3(ROWS_THREADS), sizeof(cx) * ROWS * L::row_size,
                        a)
                       || vp_start(err, stream, source_rows<L, true>, rows, dim3(ROWS_THREADS),
                                   sizeof(cx) * ROWS * L::row_size, a)
                       || vp_start(err, stream, source_means, means, dim3(128), 0, a)
                       || vp_start(err, stream, source_columns<L, BLOCKS>, columns, dim3(GROUP * L::threads),
                                   sizeof(cx) * columns_of<L, GROUP>::size, a)
                   ? -1
                   : 0;
    }
};

const struct source_length {
    const convolve_length *passes;
    int (*image)(vp_err *err, cudaStream_t stream, const source_args &a, int tiles, int planes);
} lengths[] = {{&convolve_128, source_length_of<line<16, 8>, 6>::image},
               {&convolve_256, source_length_of<line<16, 16>, 4>::image},
               {&convolve_512, source_length_of<line<32, 16>, 2>::image}};

/* ---- host ---- */

struct source_cut {
    const source_length *length;
    int T, valid[2];
    int slots;
    std::vector<int> cell[2];    /* see source_weights */
    std::vector<float> after[2];
};

void weights_along(const vp_op *op, int axis, std::vector<int> &cell, std::vector<float> &after)
{
    const vp_convolve_params *const p = params_of(op);
    const double *const node = p->node[axis];
    const int64_t behind = p->n[axis] - 1 - p->centre[axis], nodes = p->nodes[axis];
    int64_t c = 0;
    for (int64_t q = -behind; q < op->image[axis] + p->centre[axis]; q++) {
        while (c < nodes && (double)q >= node[c])
            c++;
        cell.push_back((int)c);
        after.push_back(c == 0 ? 1 : c == nodes ? 0 : (float)(((double)q - node[c - 1]) / (node[c] - node[c - 1])));
    }
}

source_cut make_cut(const vp_op *op)
{
    const vp_convolve_params *const p = params_of(op);
    source_cut c = {};
    double least = 0;
    for (const source_length &l : lengths) {
        const int64_t T = l.passes->T, x = (T - p->n[0] + 1) / 4 * 4, y = T - p->n[1] + 1;
        if (x < 4 || y < 1)
            continue;
        const double across = 1 + (double)(2 * x + p->n[0]) * (double)p->nodes[0] / (double)op->image[0];
        const double down = 1 + (double)T * (double)p->nodes[1] / (double)op->image[1]; /* nodes that a tile sees */
        const double cost = (double)(vp_groups(op->image[0], 2 * x) * vp_groups(op->image[1], y) * T * T)
                            * (std::min(across, (double)p->nodes[0]) * (std::min(down, (double)p->nodes[1]) + 1) + 1);
        if (c.length && cost >= least)
            continue;
        least = cost;
        c.length = &l;
        c.T = (int)T;
        c.valid[0] = (int)x;
        c.valid[1] = (int)y;
    }
    if (!c.length)
        return c;
    for (int a = 0; a < 2; a++)
        weights_along(op, a, c.cell[a], c.after[a]);
    const int64_t wide = 2 * (int64_t)c.valid[0], behind = p->n[0] - 1 - p->centre[0];
    for (int64_t x = 0; x < op->image[0]; x += wide) {
        const int64_t to = std::min(x + wide, op->image[0]) + p->centre[0]; /* from x - behind on */
        const int first = std::max(c.cell[0][(size_t)x] - 1, 0);
        const int last = std::min(c.cell[0][(size_t)(to - 1 + behind)], (int)p->nodes[0] - 1);
        c.slots = std::max(c.slots, last - first + 1);
    }
    return c;
}

const source_cut &source_cut_of(const vp_op *op)
{
    static thread_local cut_kept<source_cut> kept;
    return kept.of(op, make_cut);
}

struct source_table {
    float *kernels, *sums, *after[2];
    int *cell[2];
    cx *twiddle;
    uint64_t bytes;
    cx *spectra, *work;
    uint64_t made;
};

int64_t spectrum_of(const source_cut &c)
{
    return (int64_t)(c.T / c.length->passes->group) * c.length->passes->spectrum;
}

source_table source_table_of(const vp_op *op, const source_cut &c, void *base)
{
    const vp_convolve_params *const p = params_of(op);
    const uint64_t nodes = (uint64_t)(p->nodes[0] * p->nodes[1]);
    pieces all = {(char *)base, 0};
    source_table t = {};
    t.kernels = all.take<float>(nodes * (uint64_t)(p->n[0] * p->n[1]));
    t.sums = all.take<float>(nodes * (uint64_t)p->n[1]);
    for (int a = 0; a < 2; a++) {
        t.after[a] = all.take<float>(c.after[a].size());
        t.cell[a] = all.take<int>(c.cell[a].size());
    }
    t.twiddle = all.take<cx>((uint64_t)c.T);
    t.bytes = all.used;
    t.spectra = all.take<cx>(nodes * (uint64_t)spectrum_of(c));
    t.work = all.take<cx>((uint64_t)(p->n[1] * c.T));
    t.made = all.used - t.bytes;
    return t;
}

struct source_room {
    int *bad;
    cx *lines, *mean, *back, *means;
    float *factor;
    int pairs, planes;
    uint64_t bytes;
};

source_room source_room_of(const source_cut &c, int64_t rows, const int64_t out[3], void *base)
{
    pieces all = {(char *)base, 0};
    source_room r = {};
    const int64_t pairs = vp_groups(out[0], 2 * (int64_t)c.valid[0]), out_rows = out[1], planes = out[2];
    const uint64_t one = (uint64_t)((c.slots * rows + out_rows) * (c.T + 1)) * sizeof(cx),
                   most = std::max<uint64_t>(1, WORK / one);
    r.pairs = (int)std::min<uint64_t>({(uint64_t)pairs, most, (uint64_t)(65535 / c.slots)});
    r.planes = r.pairs < pairs ? 1 : (int)std::min<uint64_t>((uint64_t)planes, std::max<uint64_t>(1, std::min<uint64_t>(
                                                                 most, 65535) / (uint64_t)pairs));
    const uint64_t n = (uint64_t)r.pairs * (uint64_t)r.planes;
    r.bad = all.take<int>(1);
    r.factor = all.take<float>((uint64_t)(out[0] * out[1]));
    const uint64_t before = all.used;
    r.lines = all.take<cx>(n * (uint64_t)(c.slots * rows * c.T));
    r.back = all.take<cx>(n * (uint64_t)(out_rows * c.T));
    r.mean = all.take<cx>(n * (uint64_t)(c.slots * rows));
    r.means = all.take<cx>(n * (uint64_t)out_rows);
    r.bytes = std::max(all.used, before + room_for(one, (uint64_t)(pairs * planes), WORK));
    return r;
}

}

bool source_fits(const vp_op *op)
{
    return source_cut_of(op).length;
}

uint64_t source_table_bytes(const vp_op *op)
{
    return source_table_of(op, source_cut_of(op), nullptr).bytes;
}

uint64_t source_made_bytes(const vp_op *op)
{
    return source_table_of(op, source_cut_of(op), nullptr).made;
}

void source_fill(const vp_op *op, void *base)
{
    const vp_convolve_params *const p = params_of(op);
    const source_cut &c = source_cut_of(op);
    const source_table t = source_table_of(op, c, base);
    std::copy(p->kernels, p->kernels + p->nodes[0] * p->nodes[1] * p->n[0] * p->n[1], t.kernels);
    row_sums(p, t.sums);
    for (int a = 0; a < 2; a++) {
        std::copy(c.after[a].begin(), c.after[a].end(), t.after[a]);
        std::copy(c.cell[a].begin(), c.cell[a].end(), t.cell[a]);
    }
    fill_twiddle(c.T, c.length->passes->R1, c.length->passes->R2, (complex_value *)t.twiddle);
}

int source_make(const vp_op *op, void *base, vp_queue *queue, vp_err *err)
{
    const vp_convolve_params *const p = params_of(op);
    const source_cut &c = source_cut_of(op);
    const source_table t = source_table_of(op, c, base);
    taps_args rows = {};
    rows.n = rows.pitch = (int)p->n[0];
    rows.centre = (int)p->centre[0];
    rows.rows = p->n[1];
    rows.out = (complex_value *)t.work;
    rows.twiddle = (const complex_value *)t.twiddle;
    columns_args columns = {};
    columns.in = rows.out;
    columns.in_pitch = columns.out_pitch = c.T;
    columns.twiddle = rows.twiddle;
    columns.axis = axis_of(op, 1, c.valid[1]);
    columns.lanes = c.T;
    columns.repeats = columns.tiles = columns.outers = 1;
    columns.scale = (float)(1 / ((double)c.T * c.T));
    for (int64_t i = 0; i < p->nodes[0] * p->nodes[1]; i++) {
        rows.taps = t.kernels + i * p->n[0] * p->n[1];
        columns.spectrum = (complex_value *)(t.spectra + i * spectrum_of(c));
        if (c.length->passes->taps(err, queue->stream, rows)
            || c.length->passes->columns(err, queue->stream, columns, COLUMNS_SPECTRUM))
            return -1;
    }
    return 0;
}

void source_demand(const vp_op *op, int64_t step[3], int64_t halo[3])
{
    const vp_convolve_params *const p = params_of(op);
    const source_cut &c = source_cut_of(op);
    if (!c.length)
        return;
    for (int a = 0; a < 3; a++) {
        step[a] = a == 0 ? 2 * c.valid[0] : a == 1 ? c.valid[1] : 1;
        halo[a] = std::max(p->centre[a], p->n[a] - 1 - p->centre[a]) + 2 * std::max(op->before[a], op->behind[a]);
    }
}

uint64_t source_scratch(const vp_op *op, const int64_t in[3], const int64_t out[3])
{
    const source_cut &c = source_cut_of(op);
    return source_room_of(c, in[1], out, nullptr).bytes;
}

int source_launch(const vp_op *op, const vp_work *work, int **bad, vp_err *err)
{
    const vp_convolve_params *const p = params_of(op);
    const source_cut &c = source_cut_of(op);
    const source_table t = source_table_of(op, c, (void *)work->table);
    const vp_box &in = work->in[0].box, &out = work->out->box;
    const cudaStream_t stream = work->queue->stream;
    source_args a = {};
    a.in = work->in[0];
    a.out = *work->out;
    a.type = op->in;
    for (int i = 0; i < 2; i++) {
        a.axis[i] = axis_of(op, i, c.valid[i]);
        a.weights[i] = {t.cell[i], t.after[i], a.axis[i].behind(), (int)p->nodes[i]};
        a.twiddle[i] = t.twiddle;
    }
    const int pair0 = (int)(out.lo[0] / (2 * c.valid[0])),
              pairs = (int)vp_groups(out.hi[0], 2 * (int64_t)c.valid[0]) - pair0;
    const int64_t planes = vp_box_size(&out, 2);
    a.y0 = (int)std::max<int64_t>(in.lo[1], a.axis[1].first);
    a.rows = (int)std::min<int64_t>(in.hi[1], a.axis[1].first + a.axis[1].count) - a.y0;
    a.out_y0 = (int)out.lo[1];
    a.out_rows = (int)vp_box_size(&out, 1);
    a.tile0 = a.out_y0 / c.valid[1];
    const int tiles = (int)vp_groups(out.hi[1], c.valid[1]) - a.tile0;
    const int64_t out_size[3] = {vp_box_size(&out, 0), vp_box_size(&out, 1), planes};
    const source_room r = source_room_of(c, vp_box_size(&in, 1), out_size, work->scratch);
    a.slots = c.slots;
    a.lines = r.lines;
    a.mean = r.mean;
    a.back = r.back;
    a.means = r.means;
    a.spectra = t.spectra;
    a.spectrum = spectrum_of(c);
    a.sums = t.sums;
    a.kernels = t.kernels;
    a.factor = r.factor;
    *bad = a.bad = r.bad;
    back_args back = {};
    back.in = (const complex_value *)r.back;
    back.in_pair = (int64_t)a.out_rows * c.T;
    back.mean = (const complex_value *)r.means;
    back.mean_pair = a.out_rows;
    back.out = a.out;
    back.type = op->out;
    for (int i = 0; i < 3; i++)
        back.axis[i] = axis_of(op, i, i < 2 ? c.valid[i] : 1);
    back.y0 = a.out_y0;
    back.rows = a.out_rows;
    back.twiddle = (const complex_value *)t.twiddle;
    if (vp_gpu_check(err, cudaMemsetAsync(r.bad, 0, sizeof *r.bad, stream), "cannot clear CUDA memory"))
        return -1;
    if (p->sums) {
        back.factor = r.factor;
        back.factor_pitch = out_size[0];
        if (vp_start(err, stream, renormalize_kernel, dim3((unsigned)vp_groups(out_size[0] * out_size[1], 8)),
                     dim3(256), 0, a))
            return -1;
    }
    for (int q = 0; q < pairs; q += r.pairs)
        for (int64_t z = 0; z < planes; z += r.planes) {
            const int n = (int)std::min<int64_t>(r.planes, planes - z);
            a.pair0 = back.pair0 = pair0 + q;
            a.pairs = std::min(r.pairs, pairs - q);
            a.z0 = back.z0 = (int)(out.lo[2] + z);
            back.in_plane = back.in_pair * a.pairs;
            back.mean_plane = back.mean_pair * a.pairs;
            if (c.length->image(err, stream, a, tiles, n) || c.length->passes->back(err, stream, back, a.pairs, n))
                return -1;
        }
    return 0;
}

}
