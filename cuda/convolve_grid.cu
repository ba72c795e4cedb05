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
 * Tiles begin anywhere, but their rows at multiples of 2 R2, for the sake of the pairs. Every tile that a part cuts is
 * made whole, from all of its samples: the halo is larger by a tile. Means as in convolve.cu, with weights. */
#include "convolve.h"
#include "convolve_edge.cuh"

namespace vp
{
namespace
{

enum { GROUP = 8, ROWS = 8, WALK = 17, MEANS_ROWS = 128 };
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
    int first_block, blocks;        /* of 2 R2 rows, from row first_block * 2 R2 on */
    int y0, outputs;                /* rows that tiles make */
    int z0;
    const float *kernels, *sums;    /* rows of kernels summed up */
    const double *inside;           /* sums for VP_EDGE_RENORMALIZE, or NULL */
    cx *lines, *back;               /* [plane][strip][pair of rows], [plane][strip][row] */
    float *mean;                    /* [plane][strip][row of the blocks] */
    cx *means;                      /* [plane][strip][row], left and right */
    cx *kernel_lines;               /* [node][pair of rows] */
    float4 *spectra;                /* [row of tiles][node across], from spectra_row0 on */
    int spectra_row0, spectra_rows;
    int before_blocks, after_blocks; /* of kernel rows that are not 0: behind place 0, and at the end */
    int walk;
    int *bad;
    float scale;
    const cx *twiddle;
};

/* Where row y takes its samples from; -1: they are 0, or nobody needs them: rows that a tile needs are in its input,
 * and so are those that they share a complex row with. */
__device__ __forceinline__ int row_from(const grid_args &a, int y)
{
    const int p = y < -a.axis[1].behind() ? -1 : sample_from(a.axis[1], y);
    return p >= a.in.box.lo[1] && p < a.in.box.hi[1] ? p : -1;
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
    const int t = threadIdx.x % L::threads, line = threadIdx.x / L::threads, pair = blockIdx.x * ROWS + line;
    const int64_t strip = (int64_t)blockIdx.z * a.strips + blockIdx.y;
    cx *const out = a.lines + (strip * a.blocks * L::R2 + pair) * half_of<L>::row;
    const bool live = pair < a.blocks * L::R2 && (!AGAIN || !is_finite(*out));
    const int row = pair / L::R2 * 2 * L::R2 + pair % L::R2, y = a.first_block * 2 * L::R2 + row;
    const grid_tile tile = a.tile[0][a.strip0 + blockIdx.y];
    const int samples = tile.n + a.axis[0].taps - 1, at = (int)a.in.box.lo[0];
    cx *const sm = shared + line * L::row_size;
    cx v[L::values];

    const int p = live ? row_from(a, y) : -1, q = live ? row_from(a, y + L::R2) : -1;
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
                    v[j] = {(float)__ldg(r + L::R2 * j), (float)__ldg(s + L::R2 * j)};
            });
        } else {
            each<L::R1>([&](auto j) {
                const int i = t + L::R2 * j, from = i < samples ? sample_from(x, tile.origin + i) : -1;
                v[j] = {from >= 0 && p >= 0 ? (float)__ldg(up + (from - at)) : 0,
                        from >= 0 && q >= 0 ? (float)__ldg(down + (from - at)) : 0};
            });
        }
    });
    if (AGAIN) {
        make_finite<L>(v);
        __syncwarp();
    }
    const cx m = line_mean<L>(v);
    line_forward<L>(v, m, sm, t, a.twiddle);
    if (!live)
        return;
    if (!AGAIN && !is_finite(v[0]))
        *a.bad = 1;
    if (t == 0) {
        float *const to = a.mean + strip * a.blocks * 2 * L::R2 + row;
        to[0] = m.re;
        to[L::R2] = m.im;
    }
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
    line_forward<L>(v, {0, 0}, shared + line * L::row_size, t, a.twiddle);
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
    const int first = tile.origin / (2 * L::R2) - a.first_block; /* the block of its rows that is the first */
    const int samples = tile.lo + tile.n + a.axis[1].centre - tile.origin;
    cx *const sm = shared + lane;
    cx v[L::values], w[L::values];
    float4 left[L::frequencies];
    int kept = -1;

    for (int s = s0; s < s1; s++) {
        const int t = hidden_index(threadIdx.x) / GROUP;
        const int l = a.tile[0][a.strip0 + s].left, r = a.tile[0][a.strip0 + s].right;
        const int64_t strip = (int64_t)plane * a.strips + s;
        const cx *const z = hidden(a.lines + ((strip * a.blocks + first) * L::R2 + t) * half::row + column);
        if (l != kept) {
            const float4 *const from = spectrum_of(l);
            each<L::frequencies>([&](auto i) { left[i] = __ldcg(from + i * block); });
        }
        each<L::R1 / 2>([&](auto m) {
            const int i = t + L::R2 * 2 * m; /* rows that no output of the tile needs are not the same in all parts */
            cx x = {0, 0}, y = {0, 0};
            if (i < samples) {
                x = load_far(z + m * L::R2 * half::row);
                y = load_far(z + m * L::R2 * half::row + half::size);
            }
            const float r0 = (float)(t + L::R2 * 2 * m - L::T / 2) * tile.slope,
                        r1 = (float)(t + L::R2 * (2 * m + 1) - L::T / 2) * tile.slope;
            v[2 * m] = first_of(x, y);
            v[2 * m + 1] = i + L::R2 < samples ? second_of(x, y) : cx{0, 0};
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

/* What the kernels of a tile make of the means, left and right, with the weights along y. A block has a tile; in shared
 * memory the means that it sees, and the four kernels' rows. */
template <class L> __global__ void __launch_bounds__(MEANS_ROWS) grid_means(const grid_args a)
{
    __shared__ float4 weights[L::T];
    __shared__ float means[L::T];
    const grid_tile tile = a.tile[1][a.row0 + blockIdx.y];
    const int s = blockIdx.z % a.strips, plane = blockIdx.z / a.strips, n = a.axis[1].taps, seen = tile.n + n - 1;
    const grid_tile across = a.tile[0][a.strip0 + s];
    const int64_t strip = (int64_t)plane * a.strips + s;
    const float *const m =
        a.mean + strip * a.blocks * 2 * L::R2 + (tile.lo - a.axis[1].behind() - a.first_block * 2 * L::R2);
    for (int i = threadIdx.x; i < seen; i += MEANS_ROWS)
        means[i] = m[i];
    for (int i = threadIdx.x; i < n; i += MEANS_ROWS) {
        const auto sum = [&](int down, int node) {
            return __ldg(a.sums + (int64_t)(down * a.nodes[0] + node) * n + i);
        };
        weights[i] = make_float4(sum(tile.left, across.left), sum(tile.right, across.left),
                                 sum(tile.left, across.right), sum(tile.right, across.right));
    }
    __syncthreads();
    for (int i = threadIdx.x; i < tile.n; i += MEANS_ROWS) {
        double sum[4] = {0, 0, 0, 0};
        for (int k0 = 0; k0 < n; k0 += 16) {
            float4 part = make_float4(0, 0, 0, 0);
            for (int k = k0; k < min(k0 + 16, n); k++) {
                const float e = means[i + n - 1 - k];
                const float4 w = weights[k];
                part =
                    make_float4(fmaf(e, w.x, part.x), fmaf(e, w.y, part.y), fmaf(e, w.z, part.z), fmaf(e, w.w, part.w));
            }
            sum[0] += part.x;
            sum[1] += part.y;
            sum[2] += part.z;
            sum[3] += part.w;
        }
        const int y = tile.lo + i;
        const double v = __ldg(a.after[1] + y);
        a.means[strip * a.outputs + (y - a.y0)] = {(float)(sum[0] + v * (sum[1] - sum[0])),
                                                   (float)(sum[2] + v * (sum[3] - sum[2]))};
    }
}

/* All weights of a voxel over those that meet samples. */
__device__ __forceinline__ float grid_renormalizing(const grid_args &a, const grid_tile &tx, const grid_tile &ty, int x,
                                                    int y)
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
        all += weight * at(n, m);
        inside += weight * (at(x1, y1) - at(x0, y1) - (at(x1, y0) - at(x0, y0)));
    }
    return (float)(all / inside);
}

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
    cx v[L::values], m = {0, 0};

    each<L::values>([&](auto j) { v[j] = {0, 0}; });
    if (live) {
        const cx *const p = hidden(a.back + at * half_of<L>::row + t), *const q = hidden(a.back + at * half_of<L>::row
                                                                                         + S + L::T - t);
        each_frequency<L>(t, [&](auto i, auto k) { v[i] = load_far(2 * k < L::T ? p + k : q - k); });
        m = load_far(a.means + at);
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
    const bool edge = a.inside && (clips(a.axis[0], lo) || clips(a.axis[0], hi - 1) || clips(a.axis[1], y));
    grid_tile down = {};
    if (edge) /* the one that this row is in */
        for (int i = 0; i < a.rows; i++)
            if (y >= a.tile[1][a.row0 + i].lo)
                down = a.tile[1][a.row0 + i];
    typed((char *)a.out.data, a.type_out, [&](auto *data) {
        auto *const o = hidden(data + (z - a.out.box.lo[2]) * a.out.plane + (y - a.out.box.lo[1]) * a.out.pitch
                               + (x0 - a.out.box.lo[0]));
        each<L::R1>([&](auto j) {
            const int x = x0 + L::R2 * j;
            if (x >= lo && x < hi) {
                const cx s = v[j] + m;
                float value = fmaf(fmaf((float)(L::R2 * j), tile.slope, after), s.im - s.re, s.re);
                if (edge)
                    value *= grid_renormalizing(a, tile, down, x, y);
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
        const dim3 rows((unsigned)vp_div_up(a.blocks * L::R2, ROWS), (unsigned)a.strips, (unsigned)planes);
        const dim3 means(1, (unsigned)a.rows, (unsigned)(a.strips * planes));
        const dim3 columns(half::groups, (unsigned)a.rows, (unsigned)(vp_div_up(a.strips, a.walk) * planes));
        const dim3 back((unsigned)vp_div_up(a.outputs, ROWS), (unsigned)a.strips, (unsigned)planes);
        return vp_start(err, stream, grid_rows<L, false>, rows, dim3(ROWS * L::threads), row_shared, a)
                       || vp_start(err, stream, grid_rows<L, true>, rows, dim3(ROWS * L::threads), row_shared, a)
                       || vp_start(err, stream, grid_means<L>, means, dim3(MEANS_ROWS), 0, a)
                       || vp_start(err, stream, grid_columns<L, BLOCKS>, columns, dim3(GROUP * L::threads),
                                   column_shared, a)
                       || vp_start(err, stream, grid_back<L>, back, dim3(ROWS * L::threads), row_shared, a)
                   ? -1
                   : 0;
    }
    static constexpr grid_length table = {L::T,    L::R1, L::R2, half::row, half::groups * half::spectrum,
                                          spectra, taps,  image};
};

const grid_length lengths[] = {grid_length_of<line<16, 8>, 6>::table, grid_length_of<line<16, 16>, 3>::table};

/* ---- tiles ---- */

/* Where the rows of a tile begin whose first output is `lo`, at a multiple of `unit`. */
int64_t origin_of(int64_t lo, int64_t behind, int64_t unit)
{
    const int64_t p = lo - behind;
    return p >= 0 ? p / unit * unit : -((-p + unit - 1) / unit * unit);
}

/* All tiles along an axis; none if a tile of T samples has no output. */
std::vector<grid_tile> tiles_along(const vp_op *op, int axis, int T, int unit)
{
    const vp_convolve_params *const p = params_of(op);
    const int64_t n = p->n[axis], behind = n - 1 - p->centre[axis];
    std::vector<grid_tile> all;
    for (int64_t c = 0; c <= p->nodes[axis]; c++)
        for (int64_t lo = p->start[axis][c], end = p->start[axis][c + 1]; lo < end;) {
            const int64_t origin = origin_of(lo, behind, unit), most = T - (n - 1) - (lo - behind - origin);
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
        c.tile[0] = tiles_along(op, 0, l.T, 1);
        c.tile[1] = tiles_along(op, 1, l.T, 2 * l.R2);
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
    cx *lines, *back, *means;
    float *mean;
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
    const int64_t unit = 2 * c.length->R2, band = std::min<int64_t>(rows, band_of(op, c));
    const int64_t lines = vp_div_up(outputs + c.length->T + unit, unit) * unit;
    const uint64_t one = (uint64_t)(strips * ((lines / 2 + outputs) * (c.length->row + 1))) * sizeof(cx);
    r.planes =
        (int)std::max<uint64_t>(1, std::min<uint64_t>({(uint64_t)planes, BAND / one, (uint64_t)(65535 / strips)}));
    all.take<int>(1);
    all.take(r.lines, (uint64_t)(r.planes * strips * lines / 2 * c.length->row));
    all.take(r.back, (uint64_t)(r.planes * strips * outputs * c.length->row));
    all.take(r.mean, (uint64_t)(r.planes * strips * lines));
    all.take(r.means, (uint64_t)(r.planes * strips * outputs));
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
    a.sums = t.kernel.rows;
    a.inside = t.kernel.sums;
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
        halo[a] += c.most[a] - 1 + (a == 1 ? 2 * c.length->R2 - 1 : 0);
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
    a.mean = r.mean;
    a.means = r.means;
    if (r.spectra)
        a.spectra = r.spectra;
    const int unit = 2 * c.length->R2, band = band_of(op, c);
    for (int b = 0; b < rows; b += band) {
        a.row0 = row0 + b;
        a.rows = std::min(band, rows - b);
        a.y0 = c.tile[1][(size_t)a.row0].lo;
        a.outputs = ends(a.row0 + a.rows - 1) - a.y0;
        a.first_block = c.tile[1][(size_t)a.row0].origin / unit;
        a.blocks = (int)vp_div_up(c.tile[1][(size_t)(a.row0 + a.rows - 1)].origin + c.length->T, unit) - a.first_block;
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
