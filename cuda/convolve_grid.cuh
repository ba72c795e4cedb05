/* SPDX-License-Identifier: BSD-3-Clause */
/* Device code of convolve_grid.cu: convolution of images by overlap-save with a grid of kernels whose bilinear weights
 * belong to the output voxel (local/convolve.h).
 *
 * Overview: a tile lies in one cell of the grid, so all its outputs have the same four nodes. An output is
 *
 *     (1 - u) ((1 - v) (h00 * I) + v (h10 * I)) + u ((1 - v) (h01 * I) + v (h11 * I))
 *
 *   with u(x), v(y) the weights of the right and of the lower nodes and * convolution. u is applied after the inverse
 *   transform along x. v is linear in y, so it can be moved from the output to the samples and the taps. Let h0, h1 be
 *   the upper and the lower kernel of one side, c the tile's centre, D the cell's height and r(y) = (y - c) / D, so
 *   that v(y) = v(c) + r(y - k) + k / D. Then
 *
 *     (1 - v(y)) (h0 * I)(y) + v(y) (h1 * I)(y) = (g0 * I)(y) + (g1 * (r I))(y)
 *     g1 = h1 - h0,  g0(k) = h0(k) + (v(c) + k / D) g1(k)
 *
 *   So a tile takes two forward transforms (of I and of r I), the product with a 2 x 2 matrix of spectra (g0 and g1 of
 *   the left and of the right side), and two inverse transforms (left, right), instead of one and four.
 *     1. grid_taps, grid_spectra: spectra of g0 and g1 for every row of tiles and every node along x.
 *     2. grid_base: an offset for each tile, close to its median, is subtracted from the samples before the transforms
 *        (their rounding errors are then relative to the contrast) and restored afterwards, times the sum of the
 *        kernels with their weights.
 *     3. grid_rows: rows forward along x. Rows y and y + R2 form one complex row; a thread of the columns needs both.
 *     4. grid_columns: forward along y, matrix product, back along y. Left and right form one complex row.
 *     5. grid_inverse: rows back along x, blend left and right, restore the offset.
 *     6. direct_kernel: tiles with samples that exceed all others by far are summed directly.
 * Mapping: rows: L::threads threads a row, ROWS rows a block. Columns: GROUP columns a block, L::threads threads a
 *   column. A block of grid_columns walks along x over `walk` strips: the right spectra of a cell are the left ones of
 *   the next and stay in registers.
 * Layout: a transformed row of a pair is stored as frequencies 0 ... T / 2 and, beside them, their negatives
 *   (half_spectrum), so that a thread finds both that it needs to separate the two real rows.
 * Limits: tiles begin at cell borders, wherever these lie. A part computes every tile that it meets as a whole, from
 *   all of the tile's samples, so results do not depend on the parts; the halo is larger by a tile. */
#pragma once

#include "convolve_edge.cuh"
#include "launch.cuh"

namespace vp
{
namespace
{

enum { GROUP = 8, ROWS = 8 }; /* columns, rows of a block */

/* Sizes of a transformed row in halves, in complex values, and of spectra. */
template <class L> struct half_spectrum {
    static constexpr int size = (L::T / 2 + 1 + GROUP - 1) / GROUP * GROUP, row = 2 * size, groups = size / GROUP;
    static constexpr int spectrum = L::frequencies * GROUP * L::threads; /* float4 of a group */
};

/* A tile along one axis: outputs [lo, lo + n) of one cell, from T samples that begin at `origin`. `left` and `right`
 * are the nodes on either side of the cell (the same one outside the grid); the weight of `right` is `middle` at sample
 * T / 2 and grows by `slope` a sample. */
struct grid_tile {
    int lo, n, origin, left, right;
    float middle, slope;
};

struct grid_args {
    vp_area in, out;
    int type_in, type_out;
    convolve_axis axis[2];
    const grid_tile *tile[2];       /* tiles of the whole image */
    const float *right_weight[2];   /* weight of the right node of each output position */
    int nodes[2];
    int strip0, strips;             /* first tile along x, tiles along x (strips) of this launch */
    int row0, rows;                 /* first row of tiles, rows of tiles of this launch */
    int y0, outputs;                /* first row, rows of the outputs of these tiles */
    int z0;                         /* first plane */
    const float *kernels;
    const double *total, *inside;   /* sums of kernels; summed area tables as convolve_offset.sums */
    bool renormalize;
    cx *lines;                      /* transformed rows, [plane][strip][row of tiles][pair of rows] */
    cx *results;                    /* products, transformed back along y, [plane][strip][row] */
    float *base;                    /* offsets subtracted from samples, [plane][strip][row of tiles] */
    float *peaks;                   /* peaks of lines, [plane][strip][row of tiles][pair of rows]; NULL: not wanted */
    cx *kernel_lines;               /* transformed rows of kernels, [node][pair of rows] */
    float4 *spectra;                /* (g0, g1), [row of tiles][node along x], from row spectra_row0 on */
    int spectra_row0, spectra_rows;
    int before_blocks, after_blocks; /* blocks of 2 R2 kernel rows that are not 0: from row 0 on, and at the end */
    int walk;                       /* strips of a block of grid_columns */
    int *nonfinite;
    float scale;
    const cx *twiddle;
};

/* Returns the row of the image that row y of a tile is loaded from; -1: its samples count as the offset, or no output
 * depends on them. */
__device__ __forceinline__ int row_from(const grid_args &a, const grid_tile &tile, int y)
{
    return y < tile.lo + tile.n + a.axis[1].centre ? sample_from(a.axis[1], y) : -1;
}

/* Chooses the offset of each tile; a thread for each. */
__global__ void __launch_bounds__(128) grid_base(const grid_args a, int planes)
{
    const int i = (int)(blockIdx.x * blockDim.x + threadIdx.x), strip = i / a.rows % a.strips,
              plane = i / a.rows / a.strips;
    if (plane >= planes)
        return;
    const grid_tile x = a.tile[0][a.strip0 + strip], y = a.tile[1][a.row0 + i % a.rows];
    const int lo[2] = {x.lo, y.lo}, hi[2] = {x.lo + x.n, y.lo + y.n};
    a.base[i] = box_constant(a.in, a.type_in, a.axis, lo, hi, a.z0 + plane);
}

/* Stores a transformed row as its two halves; frequencies 0 and T / 2 are in both. */
template <class L> __device__ __forceinline__ void store_halves(cx *z, const cx *v, int t)
{
    constexpr int S = half_spectrum<L>::size;
    static_assert(L::even && L::in_warp && L::R2 % 2 == 0);
    cx *const p = opaque(z + t), *const q = opaque(z + S + L::T - t);
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

/* Loads pairs of rows of tiles minus the offset and transforms them along x. RETRY as in rows_kernel
 * (convolve_pass.cuh). */
template <class L, bool RETRY> __global__ void __launch_bounds__(ROWS *L::threads, 6) grid_rows(const grid_args a)
{
    if (RETRY && !*a.nonfinite)
        return;
    extern __shared__ cx shared[];
    constexpr int pairs = L::T / 2;
    static_assert(pairs % ROWS == 0);
    const int t = threadIdx.x % L::threads, line = threadIdx.x / L::threads;
    const int row = (int)blockIdx.x * ROWS / pairs, pair = ((int)blockIdx.x * ROWS + line) % pairs;
    const int64_t at_tile = ((int64_t)blockIdx.z * a.strips + blockIdx.y) * a.rows + row,
                  at_pair = at_tile * pairs + pair;
    cx *const out = a.lines + at_pair * half_spectrum<L>::row;
    const bool live = !RETRY || !is_finite(*out);
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
            const auto *const r = opaque(up + (tile.origin - at + t)), *const s = opaque(down + (tile.origin - at + t));
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
    if (RETRY) {
        make_finite<L>(v);
        __syncwarp();
    }
    if (a.peaks)
        store_peak<L>(a.peaks + at_pair, v, t, live);
    line_forward<L>(v, sm, t, a.twiddle);
    if (!live)
        return;
    if (!RETRY && !is_finite(v[0]))
        *a.nonfinite = 1;
    store_halves<L>(out, v, t);
}

/* Transforms pairs of rows of the kernels along x, those that are not all 0. Tap (kx, ky) is at row ky - centre modulo
 * T, so that the kernel's centre is at the origin. */
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
    const float *const kernel = opaque(a.kernels + (int64_t)blockIdx.y * n * m);
    cx v[L::values];

    each<L::R1>([&](auto j) {
        const int k = tap(t + L::R2 * j, a.axis[0].centre);
        v[j] = {live && k < n && up < m ? __ldg(kernel + up * n + k) : 0,
                live && k < n && down < m ? __ldg(kernel + down * n + k) : 0};
    });
    line_forward<L>(v, shared + line * L::row_size, t, a.twiddle);
    if (live)
        store_halves<L>(a.kernel_lines + ((int64_t)blockIdx.y * pairs + pair) * half_spectrum<L>::row, v, t);
}

/* Transforms two columns forward along y at once, with common twiddle factors. */
template <class L> __device__ __forceinline__ void two_forward(cx *v, cx *w, cx *sm, int t, const cx *twiddle)
{
    constexpr int P = column_layout<L, GROUP>::pitch, size = column_layout<L, GROUP>::size;
    fourier<L::R1, false>(v);
    fourier<L::R1, false>(w);
    cx *const to = sm + t * GROUP;
    twiddle = opaque(twiddle + t);
    to[0] = v[0];
    to[size] = w[0];
    each<L::R1 - 1>([&](auto i) {
        constexpr int k = (int)decltype(i)::value + 1;
        const cx e = twiddle[k * L::R2];
        to[k * P] = times(v[k], e);
        to[size + k * P] = times(w[k], e);
    });
    __syncthreads();
    forward_end<L, P, GROUP>(v, sm, t);
    forward_end<L, P, GROUP>(w, sm + size, t);
}

/* Transforms two columns back. */
template <class L> __device__ __forceinline__ void two_inverse(cx *v, cx *w, cx *sm, int t, const cx *twiddle)
{
    constexpr int P = column_layout<L, GROUP>::pitch, size = column_layout<L, GROUP>::size;
    inverse_begin<L, P, GROUP>(v, sm, t);
    inverse_begin<L, P, GROUP>(w, sm + size, t);
    __syncthreads();
    const cx *const from = sm + t * GROUP;
    twiddle = opaque(twiddle + t);
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

/* Separate the transforms of two real rows from that of the complex row that has one as its real and the other as its
 * imaginary part, with values x at frequency k and y at -k. Return twice the first row and twice the second at k. */
__device__ __forceinline__ cx first_of(cx x, cx y)
{
    return {x.re + y.re, x.im - y.im};
}

__device__ __forceinline__ cx second_of(cx x, cx y)
{
    return {x.im + y.im, y.re - x.re};
}

/* Computes the spectra of g0 and g1 for a row of tiles and a node along x, GROUP columns a block. */
template <class L> __global__ void __launch_bounds__(GROUP *L::threads) grid_spectra(const grid_args a)
{
    extern __shared__ cx shared[];
    using half = half_spectrum<L>;
    const int lane = threadIdx.x % GROUP, t = threadIdx.x / GROUP;
    const grid_tile tile = a.tile[1][a.spectra_row0 + blockIdx.z];
    const int pairs = (a.before_blocks + a.after_blocks) * L::R2;
    const auto lines_of = [&](int down) {
        return opaque(a.kernel_lines + ((int64_t)(down * a.nodes[0] + (int)blockIdx.y) * pairs + t) * half::row
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
        const cx x = load_l2(h0 + at), y = load_l2(h0 + at + half::size), p = load_l2(h1 + at),
                 q = load_l2(h1 + at + half::size);
        each<2>([&](auto second) {
            const int i = t + L::R2 * (2 * m + second), k = i + a.axis[1].centre >= L::T ? i - L::T : i;
            const cx u = second ? second_of(x, y) : first_of(x, y), d = (second ? second_of(p, q) : first_of(p, q)) - u;
            const float mix = fmaf((float)k, tile.slope, tile.middle);
            v[2 * m + second] = scaled_plus(mix, d, u);
            w[2 * m + second] = d;
        });
    });
    two_forward<L>(v, w, shared + lane, t, a.twiddle);
    float4 *const to = opaque(
        a.spectra + (((int64_t)blockIdx.z * a.nodes[0] + blockIdx.y) * half::groups + blockIdx.x) * half::spectrum
        + threadIdx.x);
    each<L::frequencies>([&](auto r) {
        to[r * (GROUP * L::threads)] =
            make_float4(v[r].re * a.scale, v[r].im * a.scale, w[r].re * a.scale, w[r].im * a.scale);
    });
}

/* Transforms columns of a row of tiles along y, multiplies them by the spectra of the nodes on the left and on the
 * right, and transforms the products back. A block has GROUP columns (frequencies along x) and walks over a.walk
 * strips. */
template <class L, int BLOCKS> __global__ void __launch_bounds__(GROUP *L::threads, BLOCKS)
    grid_columns(const grid_args a)
{
    extern __shared__ cx shared[];
    using half = half_spectrum<L>;
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
    const auto spectrum_of = [&](int node) { return opaque(spectra + (int64_t)node * half::groups * half::spectrum); };
    cx *const sm = shared + lane;
    cx v[L::values], w[L::values];
    float4 left[L::frequencies];
    int loaded = -1;

    for (int s = s0; s < s1; s++) {
        const int t = opaque_index(threadIdx.x) / GROUP;
        const int l = a.tile[0][a.strip0 + s].left, r = a.tile[0][a.strip0 + s].right;
        const int64_t strip = (int64_t)plane * a.strips + s;
        const cx *const z = opaque(a.lines + ((strip * a.rows + blockIdx.y) * (L::T / 2) + t) * half::row + column);
        if (l != loaded) {
            const float4 *const from = spectrum_of(l);
            each<L::frequencies>([&](auto i) { left[i] = __ldcg(from + i * block); });
        }
        each<L::R1 / 2>([&](auto m) {
            const cx x = load_l2(z + m * L::R2 * half::row), y = load_l2(z + m * L::R2 * half::row + half::size);
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
        loaded = r;
        two_inverse<L>(v, w, sm, t, a.twiddle);
        cx *const o = opaque(a.results + (strip * a.outputs + tile.origin + t - a.y0) * half::row + column);
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

/* Returns a result whose kernels the edge clips, with the offset restored and renormalised if a.renormalize. */
__device__ __forceinline__ float restore_clipped(const grid_args &a, const grid_tile &tx, const grid_tile &ty,
                                                 float value, float base, int x, int y)
{
    const int n = a.axis[0].taps, m = a.axis[1].taps;
    int x0, x1, y0, y1;
    taps_inside(a.axis[0], x, x0, x1);
    taps_inside(a.axis[1], y, y0, y1);
    const double u = __ldg(a.right_weight[0] + x), v = __ldg(a.right_weight[1] + y);
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

/* Computes the offset that inner results of row y lack: first + (weight of the right node along x) * second. */
__device__ __forceinline__ void row_offset(const grid_args &a, const grid_tile &tx, const grid_tile &ty, float base,
                                           int y, double &first, double &second)
{
    const double v = __ldg(a.right_weight[1] + y);
    const auto sum = [&](int node) {
        const double up = __ldg(a.total + ty.left * a.nodes[0] + node),
                     down = __ldg(a.total + ty.right * a.nodes[0] + node);
        return base * (up + v * (down - up));
    };
    first = sum(tx.left);
    second = sum(tx.right) - first;
}

__device__ __forceinline__ bool is_clipped(const grid_args &a, int x, int y)
{
    return a.inside && (clips(a.axis[0], x) || clips(a.axis[1], y));
}

/* Tiles for direct_kernel; strip / a.strips is the plane. */
struct direct_grid {
    vp_area in, out;
    int type_in, type_out;
    convolve_axis axis[3];
    grid_args a;
    int pairs;                      /* pairs of rows of a tile */

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
    __device__ float peak_of(const box &b, int i) const { return a.peaks[b.at * pairs + i]; }
    __device__ float base(const box &b, int) const { return a.base[b.at]; }
    __device__ double weight(const box &b, int kx, int ky, int, const int p[3], int, int) const
    {
        const double u = __ldg(a.right_weight[0] + p[0]), v = __ldg(a.right_weight[1] + p[1]);
        const auto tap = [&](int down, int across) {
            return (double)__ldg(a.kernels + ((int64_t)(down * a.nodes[0] + across) * axis[1].taps + ky) * axis[0].taps
                                 + kx);
        };
        return (1 - v) * ((1 - u) * tap(b.y.left, b.x.left) + u * tap(b.y.left, b.x.right))
               + v * ((1 - u) * tap(b.y.right, b.x.left) + u * tap(b.y.right, b.x.right));
    }
    __device__ float restored(const box &b, float value, const int p[3]) const
    {
        if (is_clipped(a, p[0], p[1]))
            return restore_clipped(a, b.x, b.y, value, base(b, 0), p[0], p[1]);
        double first, second;
        row_offset(a, b.x, b.y, base(b, 0), p[1], first, second);
        return value + (float)(first + __ldg(a.right_weight[0] + p[0]) * second);
    }
};

/* Transforms rows back along x, blends the left and the right node's results, restores the offset and stores. */
template <class L> __global__ void __launch_bounds__(ROWS *L::threads, 6) grid_inverse(const grid_args a)
{
    extern __shared__ cx shared[];
    constexpr int S = half_spectrum<L>::size;
    const int t = threadIdx.x % L::threads, line = threadIdx.x / L::threads, row = blockIdx.x * ROWS + line,
              y = a.y0 + row;
    const bool live = row < a.outputs && y >= a.out.box.lo[1] && y < a.out.box.hi[1];
    const grid_tile tile = a.tile[0][a.strip0 + blockIdx.y];
    const int64_t at = ((int64_t)blockIdx.z * a.strips + blockIdx.y) * a.outputs + row;
    cx *const sm = shared + line * L::row_size;
    cx v[L::values];

    each<L::values>([&](auto j) { v[j] = {0, 0}; });
    if (live) {
        const cx *const from = a.results + at * half_spectrum<L>::row;
        const cx *const p = opaque(from + t), *const q = opaque(from + S + L::T - t);
        each_frequency<L>(t, [&](auto i, auto k) { v[i] = load_l2(2 * k < L::T ? p + k : q - k); });
    }
    inverse_begin<L, L::row_pitch, 1>(v, sm, t);
    __syncwarp();
    inverse_end<L, L::row_pitch, 1>(v, sm, t, a.twiddle);
    if (!live)
        return;
    const int z = a.z0 + (int)blockIdx.z, lo = max(tile.lo, (int)a.out.box.lo[0]),
              hi = min(tile.lo + tile.n, (int)a.out.box.hi[0]);
    const int x0 = tile.origin + t;
    const float first_weight = fmaf((float)(t - L::T / 2), tile.slope, tile.middle);
    int row_of = 0; /* row of tiles */
    for (int end = a.rows; end - row_of > 1;) {
        const int middle = (row_of + end) / 2;
        (y >= a.tile[1][a.row0 + middle].lo ? row_of : end) = middle;
    }
    const grid_tile down = a.tile[1][a.row0 + row_of];
    const float base = a.base[((int64_t)blockIdx.z * a.strips + blockIdx.y) * a.rows + row_of];
    double first, second;
    row_offset(a, tile, down, base, y, first, second);
    const float at_left = (float)first, difference = (float)second;
    const bool edge = a.inside && (clips(a.axis[0], lo) || clips(a.axis[0], hi - 1) || clips(a.axis[1], y));
    typed((char *)a.out.data, a.type_out, [&](auto *data) {
        auto *const o = opaque(data + (z - a.out.box.lo[2]) * a.out.plane + (y - a.out.box.lo[1]) * a.out.pitch
                               + (x0 - a.out.box.lo[0]));
        each<L::R1>([&](auto j) {
            const int x = x0 + L::R2 * j;
            if (x >= lo && x < hi) {
                const cx s = v[j];
                const float weight = fmaf((float)(L::R2 * j), tile.slope, first_weight);
                float value = fmaf(weight, s.im - s.re, s.re);
                if (edge && is_clipped(a, x, y))
                    value = restore_clipped(a, tile, down, value, base, x, y);
                else
                    value += fmaf(weight, difference, at_left);
                store_as(o + L::R2 * j, value);
            }
        });
    });
}

/* ---- one length ---- */

struct grid_length {
    int T, R1, R2;
    int row;      /* complex values of a transformed row */
    int spectrum; /* float4 of the spectra of a row of tiles and a node */
    int (*spectra)(vp_err *err, cudaStream_t stream, const grid_args &a);
    int (*taps)(vp_err *err, cudaStream_t stream, const grid_args &a);
    int (*image)(vp_err *err, cudaStream_t stream, const grid_args &a, int planes);
};

template <class L, int BLOCKS> struct grid_length_of {
    using half = half_spectrum<L>;
    static constexpr size_t row_shared = sizeof(cx) * ROWS * L::row_size;
    static constexpr size_t column_shared = sizeof(cx) * 2 * column_layout<L, GROUP>::size;

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
        const dim3 inverse((unsigned)vp_div_up(a.outputs, ROWS), (unsigned)a.strips, (unsigned)planes);
        direct_grid d = {a.in, a.out, a.type_in, a.type_out, {a.axis[0], a.axis[1], {}}, a, L::T / 2};
        d.axis[2].size = d.axis[2].count = VP_FAR;
        d.axis[2].taps = 1;
        const dim3 bases((unsigned)vp_div_up((int64_t)a.rows * a.strips * planes, 128));
        return vp_start(err, stream, grid_base, bases, dim3(128), 0, a, planes)
                       || vp_start(err, stream, grid_rows<L, false>, rows, dim3(ROWS * L::threads), row_shared, a)
                       || vp_start(err, stream, grid_rows<L, true>, rows, dim3(ROWS * L::threads), row_shared, a)
                       || vp_start(err, stream, grid_columns<L, BLOCKS>, columns, dim3(GROUP * L::threads),
                                   column_shared, a)
                       || vp_start(err, stream, grid_inverse<L>, inverse, dim3(ROWS * L::threads), row_shared, a)
                       || (a.peaks
                           && vp_start(err, stream, direct_kernel<direct_grid>,
                                       dim3(DIRECT_BLOCKS, (unsigned)a.rows, (unsigned)(a.strips * planes)), dim3(256),
                                       0, d))
                   ? -1
                   : 0;
    }
    static constexpr grid_length table = {L::T,    L::R1, L::R2, half::row, half::groups * half::spectrum,
                                          spectra, taps,  image};
};

}
}
