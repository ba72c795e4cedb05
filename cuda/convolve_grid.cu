/* SPDX-License-Identifier: BSD-3-Clause */
/* Convolution with a grid of kernels whose weights belong to the output voxel (local/convolve.h), image by image.
 *
 * A tile lies in one cell, so its voxels have the same nodes. The weights along y go round the transforms: with rows
 * h0, h1 of the two nodes, v(y) the weight of the second, c the tile's centre and D the cell's height
 *
 *     (1 - v(y)) (h0 * I)(y) + v(y) (h1 * I)(y) = (g0 * I)(y) + (g1 * (r I))(y)        r(y) = (y - c) / D
 *     g1 = h1 - h0,  g0(k) = h0(k) + (v(c) + k / D) g1(k)                for v(y) = v(c) + r(y - k) + k / D
 *
 * so a tile takes two transforms of columns forward (of I and r I), a 2 x 2 matrix of spectra (g0, g1 of the nodes on
 * the left and on the right), and two back; left and right share a complex row and are blended along x when it is back.
 * Rows y and y + R2 share a complex row on the way there, which columns want together in one thread. Spectra of a row
 * are kept for frequencies 0 ... T / 2 and for their negatives, beside each other (half_of): a column of a real image.
 *
 * A block of the columns walks along x and keeps the right node's spectra, the next cell's left ones, in registers.
 * Tiles begin anywhere. Every tile that a part cuts is made whole, from all of its samples: the halo is larger by a tile.
 * Each has its own rows and its own constant that is taken off, which comes back times the sum of the kernels, with their
 * weights; what stands out of one by far is summed up directly (direct_kernel). */
#include "convolve.h"
#include "convolve_edge.cuh"

namespace vp
{
namespace
{

enum { GROUP = 8, ROWS = 8, WALK = 17 };
constexpr uint64_t SPECTRA = (uint64_t)1 << 30; /* that are kept; else they are made for tiles as they are needed, */
constexpr uint64_t BAND = (uint64_t)256 << 20;  /* so many at a time */

template <class L> struct half_of {
    static constexpr int size = (L::T / 2 + 1 + GROUP - 1) / GROUP * GROUP, row = 2 * size, groups = size / GROUP;
    static constexpr int spectrum = L::frequencies * GROUP * L::threads; /* float4 of a group */
};

/* Outputs [lo, lo + n) of one cell, between two nodes (or at one), from samples that begin at `origin`. The weight of
 * the node on the right is middle at sample T / 2 of the tile, and grows by slope. */
struct grid_tile {
    int lo, n, origin, left, right;
    float middle, slope;
};

struct grid_args {
    vp_area in, out;
    int type_in, type_out;
    convolve_axis axis[2];
    const grid_tile *tile[2]; /* all of the image */
    const float *after[2];
    int nodes[2];
    int strip0, strips, row0, rows; /* tiles that are made */
    int y0, outputs;                /* rows that tiles make */
    int z0;
    const float *kernels;
    const double *total, *inside;   /* sums of kernels; see convolve_ending.sums */
    bool renormalize;
    cx *lines, *back;               /* [plane][strip][row of tiles][pair of rows], [plane][strip][row] */
    float *base, *most;             /* [plane][strip][row of tiles], and those [pair of rows]; NULL: not wanted */
    cx *kernel_lines;               /* [node][pair of rows] */
    float4 *spectra;                /* [row of tiles][node across], from spectra_row0 on */
    int spectra_row0, spectra_rows;
    int before_blocks, after_blocks; /* of kernel rows that are not 0: behind place 0, and at the end */
    int walk;
    int *bad;
    float scale;
    const cx *twiddle;
};

/* Where row y of a tile takes its samples from; -1: they count as the constant, or no output sees them. */
__device__ __forceinline__ int row_from(const grid_args &a, const grid_tile &tile, int y)
{
    return y < tile.lo + tile.n + a.axis[1].centre ? sample_from(a.axis[1], y) : -1;
}

__global__ void __launch_bounds__(128) grid_base(const grid_args a, int planes)
{
    const int i = (int)(blockIdx.x * blockDim.x + threadIdx.x), strip = i / a.rows % a.strips, plane = i / a.rows / a.strips;
    if (plane >= planes)
        return;
    const grid_tile x = a.tile[0][a.strip0 + strip], y = a.tile[1][a.row0 + i % a.rows];
    const int lo[2] = {x.lo, y.lo}, hi[2] = {x.lo + x.n, y.lo + y.n};
    a.base[i] = box_constant(a.in, a.type_in, a.axis, lo, hi, a.z0 + plane);
}

/* A row to its place in both halves; 0 and T / 2 are in both. */
template <class L> __device__ __forceinline__ void store_halves(cx *z, const cx *v, int t)
{
    constexpr int S = half_of<L>::size;
    static_assert(L::even && L::in_warp && L::R2 % 2 == 0);
    cx *const p = hidden(z + t), *const q = hidden(z + S + L::T - t);
    each_frequency<L>(t, [&](auto i, auto k) {
        if constexpr (2 * k < L::T)
            p[k] = v[i];
        else
            q[-k] = v[i];
    });
    if (t == 0) {
        z[S] = v[0];
        z[L::T / 2] = v[L::R2 / 2];
    }
}

/* AGAIN: as in rows_kernel (convolve_pass.cuh). */
template <class L, bool AGAIN> __global__ void __launch_bounds__(ROWS *L::threads, 6) grid_rows(const grid_args a)
{
    if (AGAIN && !*a.bad)
        return;
    extern __shared__ cx shared[];
    constexpr int pairs = L::T / 2;
    static_assert(pairs % ROWS == 0);
    const int t = threadIdx.x % L::threads, line = threadIdx.x / L::threads;
    const int row = (int)blockIdx.x * ROWS / pairs, pair = ((int)blockIdx.x * ROWS + line) % pairs;
    const int64_t at_tile = ((int64_t)blockIdx.z * a.strips + blockIdx.y) * a.rows + row, at_pair = at_tile * pairs + pair;
    cx *const out = a.lines + at_pair * half_of<L>::row;
    const bool live = !AGAIN || !is_finite(*out);
    const grid_tile tile = a.tile[0][a.strip0 + blockIdx.y], down_tile = a.tile[1][a.row0 + row];
    const int y = down_tile.origin + pair / L::R2 * 2 * L::R2 + pair % L::R2;
    const int samples = tile.n + a.axis[0].taps - 1, at = (int)a.in.box.lo[0];
    const float base = a.base[at_tile];
    cx *const sm = shared + line * L::row_size;
    cx v[L::values];

    const int p = live ? row_from(a, down_tile, y) : -1, q = live ? row_from(a, down_tile, y + L::R2) : -1;
    const convolve_axis x = a.axis[0];
    typed((char *)a.in.data, a.type_in, [&](auto *data) {
        const auto *const plane = data + (a.z0 + blockIdx.z - a.in.box.lo[2]) * a.in.plane;
        const auto *const up = plane + (p - a.in.box.lo[1]) * a.in.pitch,
                          *const down = plane + (q - a.in.box.lo[1]) * a.in.pitch;
        if (p >= 0 && q >= 0 && tile.origin >= x.first && tile.origin + samples <= x.first + x.count) {
            const auto *const r = hidden(up + (tile.origin - at + t)), *const s = hidden(down + (tile.origin - at + t));
            each<L::R1>([&](auto j) {
                v[j] = {0, 0};
                if (t + L::R2 * j < samples)
                    v[j] = {(float)__ldg(r + L::R2 * j) - base, (float)__ldg(s + L::R2 * j) - base};
            });
        } else {
            each<L::R1>([&](auto j) {
                const int i = t + L::R2 * j, from = i < samples ? sample_from(x, tile.origin + i) : -1;
                v[j] = {from >= 0 && p >= 0 ? (float)__ldg(up + (from - at)) - base : 0,
                        from >= 0 && q >= 0 ? (float)__ldg(down + (from - at)) - base : 0};
            });
        }
    });
    if (AGAIN) {
        make_finite<L>(v);
        __syncwarp();
    }
    if (a.most)
        store_most<L>(a.most + at_pair, v, t, live);
    line_forward<L>(v, sm, t, a.twiddle);
    if (!live)
        return;
    if (!AGAIN && !is_finite(v[0]))
        *a.bad = 1;
    store_halves<L>(out, v, t);
}

/* Rows of a kernel, which begins at its centre: only pairs that are not 0. */
template <class L> __global__ void __launch_bounds__(ROWS *L::threads) grid_taps(const grid_args a)
{
    extern __shared__ cx shared[];
    const int t = threadIdx.x % L::threads, line = threadIdx.x / L::threads, pair = blockIdx.x * ROWS + line;
    const int pairs = (a.before_blocks + a.after_blocks) * L::R2, n = a.axis[0].taps, m = a.axis[1].taps;
    const bool live = pair < pairs;
    const int b = pair / L::R2,
              block = b < a.before_blocks ? b : b - a.before_blocks - a.after_blocks + L::T / (2 * L::R2);
    const int i = block * 2 * L::R2 + pair % L::R2;
    const auto tap = [&](int at, int centre) { return at + centre >= L::T ? at + centre - L::T : at + centre; };
    const int up = tap(i, a.axis[1].centre), down = tap(i + L::R2, a.axis[1].centre);
    const float *const kernel = hidden(a.kernels + (int64_t)blockIdx.y * n * m);
    cx v[L::values];

    each<L::R1>([&](auto j) {
        const int k = tap(t + L::R2 * j, a.axis[0].centre);
        v[j] = {live && k < n && up < m ? __ldg(kernel + up * n + k) : 0,
                live && k < n && down < m ? __ldg(kernel + down * n + k) : 0};
    });
    line_forward<L>(v, shared + line * L::row_size, t, a.twiddle);
    if (live)
        store_halves<L>(a.kernel_lines + ((int64_t)blockIdx.y * pairs + pair) * half_of<L>::row, v, t);
}

/* Two columns at once, with the same twiddle factors. */
template <class L> __device__ __forceinline__ void two_forward(cx *v, cx *w, cx *sm, int t, const cx *twiddle)
{
    constexpr int P = columns_of<L, GROUP>::pitch, size = columns_of<L, GROUP>::size;
    fourier<L::R1, false>(v);
    fourier<L::R1, false>(w);
    cx *const to = sm + t * GROUP;
    twiddle = hidden(twiddle + t);
    to[0] = v[0];
    to[size] = w[0];
    each<L::R1 - 1>([&](auto i) {
        constexpr int k = (int)decltype(i)::value + 1;
        const cx e = twiddle[k * L::R2];
        to[k * P] = times(v[k], e);
        to[size + k * P] = times(w[k], e);
    });
    __syncthreads();
    frequencies_in<L, P, GROUP>(v, sm, t);
    frequencies_in<L, P, GROUP>(w, sm + size, t);
}

template <class L> __device__ __forceinline__ void two_back(cx *v, cx *w, cx *sm, int t, const cx *twiddle)
{
    constexpr int P = columns_of<L, GROUP>::pitch, size = columns_of<L, GROUP>::size;
    frequencies_out<L, P, GROUP>(v, sm, t);
    frequencies_out<L, P, GROUP>(w, sm + size, t);
    __syncthreads();
    const cx *const from = sm + t * GROUP;
    twiddle = hidden(twiddle + t);
    v[0] = from[0];
    w[0] = from[size];
    each<L::R1 - 1>([&](auto i) {
        constexpr int k = (int)decltype(i)::value + 1;
        const cx e = twiddle[k * L::R2];
        v[k] = times_conj(from[k * P], e);
        w[k] = times_conj(from[size + k * P], e);
    });
    fourier<L::R1, true>(v);
    fourier<L::R1, true>(w);
}

/* Of a pair of rows x at k and y at -k: twice the first row at k, twice the second. */
__device__ __forceinline__ cx first_of(cx x, cx y)
{
    return {x.re + y.re, x.im - y.im};
}

__device__ __forceinline__ cx second_of(cx x, cx y)
{
    return {x.im + y.im, y.re - x.re};
}

/* Columns of g0 and g1 for a row of tiles and a node across. */
template <class L> __global__ void __launch_bounds__(GROUP *L::threads) grid_spectra(const grid_args a)
{
    extern __shared__ cx shared[];
    using half = half_of<L>;
    const int lane = threadIdx.x % GROUP, t = threadIdx.x / GROUP;
    const grid_tile tile = a.tile[1][a.spectra_row0 + blockIdx.z];
    const int pairs = (a.before_blocks + a.after_blocks) * L::R2;
    const auto lines_of = [&](int down) {
        return hidden(a.kernel_lines + ((int64_t)(down * a.nodes[0] + (int)blockIdx.y) * pairs + t) * half::row
                      + blockIdx.x * GROUP + lane);
    };
    const cx *const h0 = lines_of(tile.left), *const h1 = lines_of(tile.right);
    cx v[L::values], w[L::values];

    each<L::R1 / 2>([&](auto m) {
        const int from_end = (int)m - L::R1 / 2 + a.after_blocks;
        const int block = m < a.before_blocks ? (int)m : from_end >= 0 ? a.before_blocks + from_end : -1;
        v[2 * m] = v[2 * m + 1] = w[2 * m] = w[2 * m + 1] = {0, 0};
        if (block < 0)
            return;
        const int64_t at = (int64_t)block * L::R2 * half::row;
        const cx x = load_far(h0 + at), y = load_far(h0 + at + half::size), p = load_far(h1 + at),
                 q = load_far(h1 + at + half::size);
        each<2>([&](auto second) {
            const int i = t + L::R2 * (2 * m + second), k = i + a.axis[1].centre >= L::T ? i - L::T : i;
            const cx u = second ? second_of(x, y) : first_of(x, y), d = (second ? second_of(p, q) : first_of(p, q)) - u;
            const float mix = fmaf((float)k, tile.slope, tile.middle);
            v[2 * m + second] = scaled_plus(mix, d, u);
            w[2 * m + second] = d;
        });
    });
    two_forward<L>(v, w, shared + lane, t, a.twiddle);
    float4 *const to = hidden(
        a.spectra + (((int64_t)blockIdx.z * a.nodes[0] + blockIdx.y) * half::groups + blockIdx.x) * half::spectrum
        + threadIdx.x);
    each<L::frequencies>([&](auto r) {
        to[r * (GROUP * L::threads)] =
            make_float4(v[r].re * a.scale, v[r].im * a.scale, w[r].re * a.scale, w[r].im * a.scale);
    });
}

template <class L, int BLOCKS> __global__ void __launch_bounds__(GROUP *L::threads, BLOCKS)
    grid_columns(const grid_args a)
{
    extern __shared__ cx shared[];
    using half = half_of<L>;
    constexpr int block = GROUP * L::threads;
    const int lane = threadIdx.x % GROUP, column = blockIdx.x * GROUP + lane;
    const int walks = (a.strips + a.walk - 1) / a.walk, plane = blockIdx.z / walks;
    const int s0 = blockIdx.z % walks * a.walk, s1 = min(s0 + a.walk, a.strips);
    const grid_tile tile = a.tile[1][a.row0 + blockIdx.y];
    const float4 *const spectra =
        a.spectra
        + ((int64_t)(a.row0 + (int)blockIdx.y - a.spectra_row0) * a.nodes[0] * half::groups + blockIdx.x)
              * half::spectrum
        + threadIdx.x;
    const auto spectrum_of = [&](int node) { return hidden(spectra + (int64_t)node * half::groups * half::spectrum); };
    cx *const sm = shared + lane;
    cx v[L::values], w[L::values];
    float4 left[L::frequencies];
    int kept = -1;

    for (int s = s0; s < s1; s++) {
        const int t = hidden_index(threadIdx.x) / GROUP;
        const int l = a.tile[0][a.strip0 + s].left, r = a.tile[0][a.strip0 + s].right;
        const int64_t strip = (int64_t)plane * a.strips + s;
        const cx *const z = hidden(a.lines + ((strip * a.rows + blockIdx.y) * (L::T / 2) + t) * half::row + column);
        if (l != kept) {
            const float4 *const from = spectrum_of(l);
            each<L::frequencies>([&](auto i) { left[i] = __ldcg(from + i * block); });
        }
        each<L::R1 / 2>([&](auto m) {
            const cx x = load_far(z + m * L::R2 * half::row), y = load_far(z + m * L::R2 * half::row + half::size);
            const float r0 = (float)(t + L::R2 * 2 * m - L::T / 2) * tile.slope,
                        r1 = (float)(t + L::R2 * (2 * m + 1) - L::T / 2) * tile.slope;
            v[2 * m] = first_of(x, y);
            v[2 * m + 1] = second_of(x, y);
            w[2 * m] = {r0 * v[2 * m].re, r0 * v[2 * m].im};
            w[2 * m + 1] = {r1 * v[2 * m + 1].re, r1 * v[2 * m + 1].im};
        });
        two_forward<L>(v, w, sm, t, a.twiddle);
        const float4 *const right = spectrum_of(r);
        each<L::frequencies>([&](auto i) {
            const float4 p = left[i], q = __ldcg(right + i * block);
            const cx f = v[i], e = w[i];
            left[i] = q;
            v[i] = times_plus(e, cx{p.z, p.w}, times(f, cx{p.x, p.y}));
            w[i] = times_plus(e, cx{q.z, q.w}, times(f, cx{q.x, q.y}));
        });
        kept = r;
        two_back<L>(v, w, sm, t, a.twiddle);
        cx *const o = hidden(a.back + (strip * a.outputs + tile.origin + t - a.y0) * half::row + column);
        const int lo = tile.lo - tile.origin - t;
        each<L::R1>([&](auto j) {
            if ((unsigned)(L::R2 * j - lo) < (unsigned)tile.n) {
                o[L::R2 * j * (int64_t)half::row] = {v[j].re - w[j].im, v[j].im + w[j].re};
                o[L::R2 * j * (int64_t)half::row + half::size] = {v[j].re + w[j].im, w[j].re - v[j].im};
            }
        });
        __syncthreads();
    }
}

/* A result of a tile whose kernels the edge clips, with what it lacks. */
__device__ __forceinline__ float grid_clipped(const grid_args &a, const grid_tile &tx, const grid_tile &ty, float value,
                                              float base, int x, int y)
{
    const int n = a.axis[0].taps, m = a.axis[1].taps;
    int x0, x1, y0, y1;
    taps_inside(a.axis[0], x, x0, x1);
    taps_inside(a.axis[1], y, y0, y1);
    const double u = __ldg(a.after[0] + x), v = __ldg(a.after[1] + y);
    double all = 0, inside = 0;
    for (int c = 0; c < 4; c++) {
        const int node = (c / 2 ? ty.right : ty.left) * a.nodes[0] + (c % 2 ? tx.right : tx.left);
        const double weight = (c / 2 ? v : 1 - v) * (c % 2 ? u : 1 - u);
        const double *const s = a.inside + (int64_t)node * 2 * (n + 1) * (m + 1) + (n + 1) * (m + 1);
        const auto at = [&](int i, int j) { return __ldg(s + j * (n + 1) + i); };
        all += weight * __ldg(a.total + node);
        inside += weight * (at(x1, y1) - at(x0, y1) - (at(x1, y0) - at(x0, y0)));
    }
    if (!a.renormalize)
        return (float)(value + base * inside);
    return inside != 0 ? (float)(value * (all / inside) + base * all) : 0;
}

/* Parts that inner results of row y lack: first + the weight along x of the node on the right * second. */
__device__ __forceinline__ void row_lacks(const grid_args &a, const grid_tile &tx, const grid_tile &ty, float base, int y,
                                          double &first, double &second)
{
    const double v = __ldg(a.after[1] + y);
    const auto sum = [&](int node) {
        const double up = __ldg(a.total + ty.left * a.nodes[0] + node), down = __ldg(a.total + ty.right * a.nodes[0] + node);
        return base * (up + v * (down - up));
    };
    first = sum(tx.left);
    second = sum(tx.right) - first;
}

__device__ __forceinline__ bool is_clipped(const grid_args &a, int x, int y)
{
    return a.inside && (clips(a.axis[0], x) || clips(a.axis[1], y));
}

/* See direct_kernel: tiles of a part, planes one after another. */
struct direct_grid {
    vp_area in, out;
    int type_in, type_out;
    convolve_axis axis[3];
    grid_args a;
    int pairs;                      /* of rows of a tile */

    struct box {
        int lo[3], hi[3];
        grid_tile x, y;
        int64_t at;
    };

    __device__ box tile(int i, int strip) const
    {
        box b;
        b.x = a.tile[0][a.strip0 + strip % a.strips];
        b.y = a.tile[1][a.row0 + i];
        b.lo[0] = max(b.x.lo, (int)out.box.lo[0]);
        b.hi[0] = min(b.x.lo + b.x.n, (int)out.box.hi[0]);
        b.lo[1] = max(b.y.lo, (int)out.box.lo[1]);
        b.hi[1] = min(b.y.lo + b.y.n, (int)out.box.hi[1]);
        b.lo[2] = a.z0 + strip / a.strips;
        b.hi[2] = b.lo[2] + 1;
        b.at = (int64_t)strip * a.rows + i;
        return b;
    }
    __device__ int lines(const box &) const { return pairs; }
    __device__ float most_of(const box &b, int i) const { return a.most[b.at * pairs + i]; }
    __device__ float base(const box &b, int) const { return a.base[b.at]; }
    __device__ double weight(const box &b, int kx, int ky, int, const int p[3], int, int) const
    {
        const double u = __ldg(a.after[0] + p[0]), v = __ldg(a.after[1] + p[1]);
        const auto tap = [&](int down, int across) {
            return (double)__ldg(a.kernels + ((int64_t)(down * a.nodes[0] + across) * axis[1].taps + ky) * axis[0].taps + kx);
        };
        return (1 - v) * ((1 - u) * tap(b.y.left, b.x.left) + u * tap(b.y.left, b.x.right))
               + v * ((1 - u) * tap(b.y.right, b.x.left) + u * tap(b.y.right, b.x.right));
    }
    __device__ float completed(const box &b, float value, const int p[3]) const
    {
        if (is_clipped(a, p[0], p[1]))
            return grid_clipped(a, b.x, b.y, value, base(b, 0), p[0], p[1]);
        double first, second;
        row_lacks(a, b.x, b.y, base(b, 0), p[1], first, second);
        return value + (float)(first + __ldg(a.after[0] + p[0]) * second);
    }
};

template <class L> __global__ void __launch_bounds__(ROWS *L::threads, 6) grid_back(const grid_args a)
{
    extern __shared__ cx shared[];
    constexpr int S = half_of<L>::size;
    const int t = threadIdx.x % L::threads, line = threadIdx.x / L::threads, row = blockIdx.x * ROWS + line,
              y = a.y0 + row;
    const bool live = row < a.outputs && y >= a.out.box.lo[1] && y < a.out.box.hi[1];
    const grid_tile tile = a.tile[0][a.strip0 + blockIdx.y];
    const int64_t at = ((int64_t)blockIdx.z * a.strips + blockIdx.y) * a.outputs + row;
    cx *const sm = shared + line * L::row_size;
    cx v[L::values];

    each<L::values>([&](auto j) { v[j] = {0, 0}; });
    if (live) {
        const cx *const p = hidden(a.back + at * half_of<L>::row + t), *const q = hidden(a.back + at * half_of<L>::row
                                                                                         + S + L::T - t);
        each_frequency<L>(t, [&](auto i, auto k) { v[i] = load_far(2 * k < L::T ? p + k : q - k); });
    }
    frequencies_out<L, L::row_pitch, 1>(v, sm, t);
    __syncwarp();
    samples_in<L, L::row_pitch, 1>(v, sm, t, a.twiddle);
    if (!live)
        return;
    const int z = a.z0 + (int)blockIdx.z, lo = max(tile.lo, (int)a.out.box.lo[0]),
              hi = min(tile.lo + tile.n, (int)a.out.box.hi[0]);
    const int x0 = tile.origin + t;
    const float after = fmaf((float)(t - L::T / 2), tile.slope, tile.middle);
    int row_of = 0; /* of tiles */
    for (int end = a.rows; end - row_of > 1;) {
        const int middle = (row_of + end) / 2;
        (y >= a.tile[1][a.row0 + middle].lo ? row_of : end) = middle;
    }
    const grid_tile down = a.tile[1][a.row0 + row_of];
    const float base = a.base[((int64_t)blockIdx.z * a.strips + blockIdx.y) * a.rows + row_of];
    double first, second;
    row_lacks(a, tile, down, base, y, first, second);
    const float left = (float)first, more = (float)second;
    const bool edge = a.inside && (clips(a.axis[0], lo) || clips(a.axis[0], hi - 1) || clips(a.axis[1], y));
    typed((char *)a.out.data, a.type_out, [&](auto *data) {
        auto *const o = hidden(data + (z - a.out.box.lo[2]) * a.out.plane + (y - a.out.box.lo[1]) * a.out.pitch
                               + (x0 - a.out.box.lo[0]));
        each<L::R1>([&](auto j) {
            const int x = x0 + L::R2 * j;
            if (x >= lo && x < hi) {
                const cx s = v[j];
                const float weight = fmaf((float)(L::R2 * j), tile.slope, after);
                float value = fmaf(weight, s.im - s.re, s.re);
                if (edge && is_clipped(a, x, y))
                    value = grid_clipped(a, tile, down, value, base, x, y);
                else
                    value += fmaf(weight, more, left);
                store_as(o + L::R2 * j, value);
            }
        });
    });
}

/* ---- one length ---- */

struct grid_length {
    int T, R1, R2, row, spectrum; /* complex values of a row; float4 of a tile's node */
    int (*spectra)(vp_err *err, cudaStream_t stream, const grid_args &a);
    int (*taps)(vp_err *err, cudaStream_t stream, const grid_args &a);
    int (*image)(vp_err *err, cudaStream_t stream, const grid_args &a, int planes);
};

template <class L, int BLOCKS> struct grid_length_of {
    using half = half_of<L>;
    static constexpr size_t row_shared = sizeof(cx) * ROWS * L::row_size;
    static constexpr size_t column_shared = sizeof(cx) * 2 * columns_of<L, GROUP>::size;

    static int spectra(vp_err *err, cudaStream_t stream, const grid_args &a)
    {
        return vp_start(err, stream, grid_spectra<L>,
                        dim3(half::groups, (unsigned)a.nodes[0], (unsigned)a.spectra_rows), dim3(GROUP * L::threads),
                        column_shared, a);
    }
    static int taps(vp_err *err, cudaStream_t stream, const grid_args &a)
    {
        return vp_start(err, stream, grid_taps<L>,
                        dim3((unsigned)vp_div_up((a.before_blocks + a.after_blocks) * L::R2, ROWS),
                             (unsigned)(a.nodes[0] * a.nodes[1])), dim3(ROWS * L::threads), row_shared, a);
    }
    static int image(vp_err *err, cudaStream_t stream, const grid_args &a, int planes)
    {
        const dim3 rows((unsigned)(a.rows * (L::T / 2) / ROWS), (unsigned)a.strips, (unsigned)planes);
        const dim3 columns(half::groups, (unsigned)a.rows, (unsigned)(vp_div_up(a.strips, a.walk) * planes));
        const dim3 back((unsigned)vp_div_up(a.outputs, ROWS), (unsigned)a.strips, (unsigned)planes);
        direct_grid d = {a.in, a.out, a.type_in, a.type_out, {a.axis[0], a.axis[1], {}}, a, L::T / 2};
        d.axis[2].size = d.axis[2].count = VP_FAR;
        d.axis[2].taps = 1;
        const dim3 bases((unsigned)vp_div_up((int64_t)a.rows * a.strips * planes, 128));
        return vp_start(err, stream, grid_base, bases, dim3(128), 0, a, planes)
                       || vp_start(err, stream, grid_rows<L, false>, rows, dim3(ROWS * L::threads), row_shared, a)
                       || vp_start(err, stream, grid_rows<L, true>, rows, dim3(ROWS * L::threads), row_shared, a)
                       || vp_start(err, stream, grid_columns<L, BLOCKS>, columns, dim3(GROUP * L::threads),
                                   column_shared, a)
                       || vp_start(err, stream, grid_back<L>, back, dim3(ROWS * L::threads), row_shared, a)
                       || (a.most && vp_start(err, stream, direct_kernel<direct_grid>,
                                              dim3(DIRECT_BLOCKS, (unsigned)a.rows, (unsigned)(a.strips * planes)), dim3(256),
                                              0, d))
                   ? -1
                   : 0;
    }
    static constexpr grid_length table = {L::T,    L::R1, L::R2, half::row, half::groups * half::spectrum,
                                          spectra, taps,  image};
};

const grid_length lengths[] = {grid_length_of<line<16, 8>, 6>::table, grid_length_of<line<16, 16>, 3>::table};

/* ---- tiles ---- */

/* All tiles along an axis; none if a tile of T samples has no output. */
std::vector<grid_tile> tiles_along(const vp_op *op, int axis, int T)
{
    const vp_convolve_params *const p = params_of(op);
    const int64_t n = p->n[axis], behind = n - 1 - p->centre[axis];
    std::vector<grid_tile> all;
    for (int64_t c = 0; c <= p->nodes[axis]; c++)
        for (int64_t lo = p->start[axis][c], end = p->start[axis][c + 1]; lo < end;) {
            const int64_t origin = lo - behind, most = T - (n - 1);
            if (most < 1)
                return {};
            grid_tile t = {};
            t.lo = (int)lo;
            t.n = (int)std::min(most, end - lo);
            t.origin = (int)origin;
            t.left = (int)std::max<int64_t>(c - 1, 0);
            t.right = (int)std::min(c, p->nodes[axis] - 1);
            if (c > 0 && c < p->nodes[axis]) {
                const double from = p->node[axis][c - 1], far = p->node[axis][c] - from;
                t.slope = (float)(1 / far);
                t.middle = (float)(((double)(origin + T / 2) - from) / far);
            }
            all.push_back(t);
            lo += t.n;
        }
    return all;
}

struct grid_cut {
    const grid_length *length;
    std::vector<grid_tile> tile[2];
    int most[2]; /* outputs of a tile */
};

grid_cut make_cut(const vp_op *op)
{
    grid_cut best = {};
    double least = 0;
    for (const grid_length &l : lengths) {
        grid_cut c = {};
        c.length = &l;
        for (int a = 0; a < 2; a++)
            c.tile[a] = tiles_along(op, a, l.T);
        const double cost = (double)(c.tile[0].size() * c.tile[1].size()) * l.T * l.T;
        if (c.tile[0].empty() || c.tile[1].empty() || (best.length && cost >= least))
            continue;
        least = cost;
        best = c;
    }
    for (int a = 0; a < 2; a++)
        for (const grid_tile &t : best.tile[a])
            best.most[a] = std::max(best.most[a], t.n);
    return best;
}

const grid_cut &grid_cut_of(const vp_op *op)
{
    return cut_kept(op, make_cut);
}

/* Blocks of kernel rows that are not 0, of R1 / 2. */
void blocks_of(const grid_length &l, const vp_convolve_params *p, int &before, int &after)
{
    const int64_t unit = 2 * l.R2;
    before = (int)vp_div_up(p->n[1] - p->centre[1], unit);
    after = (int)vp_div_up(p->centre[1], unit);
    before = std::min(before, l.R1 / 2 - after); /* one may have both */
}

/* Bytes of the spectra of a row of tiles. */
uint64_t row_bytes(const vp_op *op, const grid_cut &c)
{
    return (uint64_t)params_of(op)->nodes[0] * (uint64_t)c.length->spectrum * sizeof(float4);
}

bool keeps_spectra(const vp_op *op, const grid_cut &c)
{
    return c.tile[1].size() * row_bytes(op, c) <= SPECTRA;
}

struct grid_table {
    kernel_table kernel;
    float *after[2];
    grid_tile *tile[2];
    cx *twiddle, *kernel_lines;
    float4 *spectra; /* NULL: too many to be kept */
    uint64_t bytes, made;
};

grid_table table_of(const vp_op *op, const grid_cut &c, void *base)
{
    const vp_convolve_params *const p = params_of(op);
    vp_pieces all = {(char *)base, 0};
    grid_table t = {};
    int before, after;
    blocks_of(*c.length, p, before, after);
    t.kernel.take(all, p, true);
    for (int a = 0; a < 2; a++) {
        all.take(t.after[a], (uint64_t)op->image[a]);
        all.take(t.tile[a], c.tile[a].size());
    }
    all.take(t.twiddle, (uint64_t)c.length->T);
    t.bytes = all.used;
    all.take(t.kernel_lines, (uint64_t)(p->nodes[0] * p->nodes[1] * (before + after) * c.length->R2 * c.length->row));
    if (keeps_spectra(op, c))
        all.take(t.spectra, c.tile[1].size() * row_bytes(op, c) / sizeof(float4));
    t.made = all.used - t.bytes;
    return t;
}

/* Rows of tiles whose spectra are made at a time. */
int band_of(const vp_op *op, const grid_cut &c)
{
    return keeps_spectra(op, c) ? 65535 : (int)std::max<uint64_t>(1, BAND / row_bytes(op, c));
}

struct grid_room {
    cx *lines, *back;
    float *base, *most;
    float4 *spectra;
    int planes;
    uint64_t bytes;
};

/* For `strips` and `rows` of tiles; `outputs` rows that they make. */
grid_room room_of(const vp_op *op, const grid_cut &c, int64_t strips, int64_t rows, int64_t outputs, int64_t planes,
                  void *base)
{
    vp_pieces all = {(char *)base, 0};
    grid_room r = {};
    const int64_t band = std::min<int64_t>(rows, band_of(op, c)), lines = band * c.length->T;
    const uint64_t one = (uint64_t)(strips * ((lines / 2 + outputs) * (c.length->row + 1))) * sizeof(cx);
    r.planes =
        (int)std::max<uint64_t>(1, std::min<uint64_t>({(uint64_t)planes, BAND / one, (uint64_t)(65535 / strips)}));
    all.take<int>(1);
    all.take(r.lines, (uint64_t)(r.planes * strips * lines / 2 * c.length->row));
    all.take(r.back, (uint64_t)(r.planes * strips * outputs * c.length->row));
    all.take(r.base, (uint64_t)(r.planes * strips * band));
    all.take(r.most, (uint64_t)(r.planes * strips * lines / 2));
    all.used = std::max(all.used, room_for(one, (uint64_t)planes, BAND));
    if (!keeps_spectra(op, c))
        all.take(r.spectra, (uint64_t)band * row_bytes(op, c) / sizeof(float4));
    r.bytes = all.used;
    return r;
}

grid_args args_of(const vp_op *op, const grid_cut &c, const grid_table &t)
{
    const vp_convolve_params *const p = params_of(op);
    grid_args a = {};
    for (int i = 0; i < 2; i++) {
        a.axis[i] = axis_of(op, i, 0);
        a.tile[i] = t.tile[i];
        a.after[i] = t.after[i];
        a.nodes[i] = (int)p->nodes[i];
    }
    a.kernels = t.kernel.kernels;
    a.total = t.kernel.total;
    a.inside = t.kernel.sums;
    a.renormalize = p->edge == VP_EDGE_RENORMALIZE;
    a.kernel_lines = t.kernel_lines;
    a.spectra = t.spectra;
    a.spectra_rows = (int)c.tile[1].size();
    blocks_of(*c.length, p, a.before_blocks, a.after_blocks);
    a.scale = (float)(0.25 / ((double)c.length->T * c.length->T));
    a.twiddle = t.twiddle;
    return a;
}

/* Tiles that outputs [lo, hi) are in. */
void tiles_of(const std::vector<grid_tile> &tile, int64_t lo, int64_t hi, int &first, int &n)
{
    first = 0;
    while (tile[(size_t)first].lo + tile[(size_t)first].n <= lo)
        first++;
    n = 0;
    while ((size_t)(first + n) < tile.size() && tile[(size_t)(first + n)].lo < hi)
        n++;
}

/* The most tiles that `outputs` can be in: as many as the shortest run of tiles that is longer, and one. */
int64_t most_tiles(const std::vector<grid_tile> &tile, int64_t outputs, int64_t &longest)
{
    int64_t most = 0;
    longest = 0;
    size_t end = 0;
    for (size_t i = 0; i < tile.size(); i++) { /* a part that begins with the last output of tile i */
        const int64_t last = tile[i].lo + tile[i].n - 1;
        while (end < tile.size() && tile[end].lo < last + outputs)
            end++;
        most = std::max<int64_t>(most, (int64_t)(end - i));
        longest = std::max<int64_t>(longest, tile[end - 1].lo + tile[end - 1].n - tile[i].lo);
    }
    return most;
}

/* ---- for convolve.cu ---- */

bool fits(const vp_op *op)
{
    return grid_cut_of(op).length;
}

uint64_t table(const vp_op *op, bool made)
{
    const grid_table t = table_of(op, grid_cut_of(op), nullptr);
    return made ? t.made : t.bytes;
}

void fill(const vp_op *op, void *base)
{
    const vp_convolve_params *const p = params_of(op);
    const grid_cut &c = grid_cut_of(op);
    const grid_table t = table_of(op, c, base);
    t.kernel.fill(p);
    for (int a = 0; a < 2; a++) {
        std::copy(p->after[a], p->after[a] + op->image[a], t.after[a]);
        std::copy(c.tile[a].begin(), c.tile[a].end(), t.tile[a]);
    }
    fill_twiddle(c.length->T, c.length->R1, c.length->R2, t.twiddle);
}

int make(const vp_op *op, void *base, vp_queue *queue, vp_err *err)
{
    const grid_cut &c = grid_cut_of(op);
    const grid_args a = args_of(op, c, table_of(op, c, base));
    if (c.length->taps(err, queue->stream, a))
        return -1;
    return keeps_spectra(op, c) ? c.length->spectra(err, queue->stream, a) : 0;
}

void demand(const vp_op *op, int64_t step[3], int64_t halo[3])
{
    const grid_cut &c = grid_cut_of(op);
    for (int a = 0; a < 3; a++)
        step[a] = 1;
    for (int a = 0; a < 2; a++)
        halo[a] += c.most[a] - 1;
}

uint64_t scratch(const vp_op *op, const int64_t[3], const int64_t out[3])
{
    const grid_cut &c = grid_cut_of(op);
    int64_t wide, high;
    const int64_t strips = most_tiles(c.tile[0], out[0], wide), rows = most_tiles(c.tile[1], out[1], high);
    return room_of(op, c, strips, rows, high, out[2], nullptr).bytes;
}

int launch(const vp_op *op, const vp_work *work, vp_err *err)
{
    const grid_cut &c = grid_cut_of(op);
    const vp_box &out = work->out->box;
    grid_args a = args_of(op, c, table_of(op, c, (void *)work->table));
    int row0, rows;
    a.in = work->in[0];
    a.out = *work->out;
    a.type_in = op->in;
    a.type_out = op->out;
    tiles_of(c.tile[0], out.lo[0], out.hi[0], a.strip0, a.strips);
    tiles_of(c.tile[1], out.lo[1], out.hi[1], row0, rows);
    const auto ends = [&](int i) { return c.tile[1][(size_t)i].lo + c.tile[1][(size_t)i].n; };
    const int64_t planes = vp_box_size(&out, 2);
    const grid_room r =
        room_of(op, c, a.strips, rows, ends(row0 + rows - 1) - c.tile[1][(size_t)row0].lo, planes, work->scratch);
    a.bad = (int *)work->scratch;
    a.lines = r.lines;
    a.back = r.back;
    a.base = r.base;
    a.most = op->in == VP_F32 ? r.most : nullptr;
    if (r.spectra)
        a.spectra = r.spectra;
    const int band = band_of(op, c);
    for (int b = 0; b < rows; b += band) {
        a.row0 = row0 + b;
        a.rows = std::min(band, rows - b);
        a.y0 = c.tile[1][(size_t)a.row0].lo;
        a.outputs = ends(a.row0 + a.rows - 1) - a.y0;
        if (r.spectra) {
            a.spectra_row0 = a.row0;
            a.spectra_rows = a.rows;
            if (c.length->spectra(err, work->queue->stream, a))
                return -1;
        }
        for (int64_t z = 0; z < planes; z += r.planes) {
            const int n = (int)std::min<int64_t>(r.planes, planes - z);
            a.z0 = (int)(out.lo[2] + z);
            /* enough blocks for all multiprocessors */
            const int64_t groups = (int64_t)c.length->row / 2 / GROUP * a.rows * n,
                          want = 6 * (int64_t)work->queue->sms;
            a.walk = (int)std::max<int64_t>(1, std::min<int64_t>(WALK, groups * a.strips / want));
            if (c.length->image(err, work->queue->stream, a, n))
                return -1;
        }
    }
    return 0;
}

}

const convolve_way convolve_grid = {fits, table, fill, make, demand, scratch, launch};

}
