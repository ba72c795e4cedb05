/* SPDX-License-Identifier: BSD-3-Clause */
/* Kernels of the passes of convolve_pass.h for one length of transform.
 *
 * Rows: L::R2 threads a line; the values in registers, one exchange through shared memory; lines are stored in natural
 *   order. The offset is subtracted before the transforms, whose rounding errors would otherwise be proportional to it,
 *   and its convolution is added to the results.
 * Columns: GROUP adjacent lanes (64 or 128 bytes of a row) with R2 threads each; forward transform, product with the
 *   spectrum and inverse transform in one kernel, or one of these alone. A spectrum is stored in the order of the
 *   registers that use it, two adjacent values at a time. Positions outside the image re-read rows inside it, so no row
 *   is transformed twice.
 * Determinism: tiles are anchored to the image, a part holds all samples of the tiles that it computes, and positions
 *   that no output depends on count as 0, wherever the part ends. So results do not depend on the parts. */
#pragma once

#include "convolve_edge.cuh"
#include "launch.cuh"

namespace vp
{
namespace
{

/* ---- rows ---- */

/* Loads two tiles of a row minus the offset; `row` is the address of its sample at in.box.lo[0]. */
template <class L, class Sample>
__device__ __forceinline__ void load_pair(cx *v, const rows_args &a, const Sample *row, int x0, int t, float base)
{
    const int at = (int)a.in.box.lo[0], samples = samples_of(a.x), last = t + L::R2 * (L::R1 - 1);
    const convolve_axis x = a.x;
    if (x0 >= x.first && x0 + x.valid + L::T <= x.first + x.count) {
        const Sample *const p = opaque(row + (x0 - at + t)), *const q = opaque(p + x.valid);
        each<L::R1 - 1>([&](auto j) {
            v[j] = {(float)__ldg(p + L::R2 * j) - base, (float)__ldg(q + L::R2 * j) - base};
        });
        v[L::R1 - 1] = {0, 0}; /* valid + taps - 1 may be slightly less than T */
        if (last < samples)
            v[L::R1 - 1] = {(float)__ldg(p + L::R2 * (L::R1 - 1)) - base, (float)__ldg(q + L::R2 * (L::R1 - 1)) - base};
        return;
    }
    if (x.rule == VP_EDGE_ZERO) {
        const Sample *const p = opaque(row + (x0 - at + t)), *const q = opaque(p + x.valid);
        const int place = x0 - x.first + t;
        each<L::R1>([&](auto j) {
            const bool seen = j + 1 < L::R1 || last < samples;
            v[j] = {0, 0};
            if (seen && (unsigned)(place + L::R2 * j) < (unsigned)x.count)
                v[j].re = (float)__ldg(p + L::R2 * j) - base;
            if (seen && (unsigned)(place + x.valid + L::R2 * j) < (unsigned)x.count)
                v[j].im = (float)__ldg(q + L::R2 * j) - base;
        });
        return;
    }
    const Sample *const p = opaque(row - at);
    each<L::R1>([&](auto j) {
        const int i = t + L::R2 * j;
        const int from = i < samples ? sample_from(x, x0 + i) : -1;
        const int next = i < samples ? sample_from(x, x0 + x.valid + i) : -1;
        v[j] = {from < 0 ? 0 : (float)__ldg(p + from) - base, next < 0 ? 0 : (float)__ldg(p + next) - base};
    });
}

/* Transforms rows forward. RETRY: repeats lines that had a sample that is not finite, if there were any, with 0 in
 * place of such samples. */
template <class L, int ROWS, int BLOCKS, bool RETRY>
__global__ void __launch_bounds__(ROWS *L::threads, BLOCKS) rows_kernel(const rows_args a)
{
    if (RETRY && !*a.nonfinite)
        return;
    extern __shared__ cx shared[];
    const int t = threadIdx.x % L::threads, line = threadIdx.x / L::threads;
    const int row = blockIdx.x * ROWS + line;
    cx *const out = a.out + blockIdx.z * a.out_plane + blockIdx.y * a.out_pair + (int64_t)row * L::T;
    const bool live = row < a.rows && (!RETRY || !is_finite(*out));
    cx *const sm = shared + line * L::row_size;
    cx v[L::values];

    if (live) {
        const float base = a.base[(int64_t)blockIdx.z * gridDim.y + blockIdx.y];
        const int64_t at =
            (a.z0 + blockIdx.z - a.in.box.lo[2]) * a.in.plane + (a.y0 + row - a.in.box.lo[1]) * a.in.pitch;
        const int x0 = 2 * (a.pair0 + (int)blockIdx.y) * a.x.valid - a.x.pad_before();
        typed((char *)a.in.data, a.type, [&](auto *data) { load_pair<L>(v, a, data + at, x0, t, base); });
    } else {
        each<L::R1>([&](auto j) { v[j] = {0, 0}; });
    }
    if (RETRY) {
        make_finite<L>(v);
        sync_line<L>(); /* all threads have tested the old line */
    }
    if (a.peaks)
        store_peak<L>(a.peaks + ((int64_t)blockIdx.z * gridDim.y + blockIdx.y) * a.rows + row, v, t, live);
    line_forward<L>(v, sm, t, a.twiddle);
    if (!live)
        return;
    if (!RETRY && !is_finite(v[0]))
        *a.nonfinite = 1;
    store_row<L>(out, v, t);
}

template <class L, int ROWS> __global__ void __launch_bounds__(ROWS *L::threads) taps_kernel(const taps_args a)
{
    extern __shared__ cx shared[];
    const int t = threadIdx.x % L::threads, line = threadIdx.x / L::threads;
    const int64_t row = (int64_t)blockIdx.x * ROWS + line;
    const bool live = row < a.rows;
    cx v[L::values];

    each<L::R1>([&](auto j) {
        const int i = t + L::R2 * j + a.centre, k = i >= L::T ? i - L::T : i;
        v[j] = {live && k < a.n ? __ldg(a.taps + row * a.pitch + k) : 0, 0};
    });
    line_forward<L>(v, shared + line * L::row_size, t, a.twiddle);
    if (live)
        store_row<L>(a.out + row * L::T, v, t);
}

/* True if some of the results x0 ... x0 + n - 1 of a pair of tiles need more than offset.restore. */
__device__ __forceinline__ bool is_edge(const inverse_args &a, int x0, int n, int y, int z)
{
    return a.ones || (a.offset.sums && (clips(a.axis[0], x0) || clips(a.axis[0], x0 + n - 1) || clips(a.axis[1], y)
                                        || clips(a.axis[2], z)));
}

/* Stores a row of a pair of tiles, whose outputs are side by side in `pixel`; 16 bytes at a time if they are f32,
 * aligned and complete. */
template <class L>
__device__ __forceinline__ void store_pair(const inverse_args &a, const float *pixel, int t, int x0, int y, int z,
                                           bool edge)
{
    const vp_area &o = a.out;
    const int n = min(2 * a.axis[0].valid, (int)o.box.hi[0] - x0);
    const int64_t at = (z - o.box.lo[2]) * o.plane + (y - o.box.lo[1]) * o.pitch + (x0 - o.box.lo[0]);
    if (a.type == VP_F32 && !edge && at % 4 == 0 && (uintptr_t)o.data % 16 == 0) {
        float *const q = opaque((float *)o.data + at + 4 * t);
        const float4 *const p = (const float4 *)pixel + t;
        each<L::T / 2 / L::R2>([&](auto k) {
            const int i = 4 * (t + L::R2 * k);
            if (i + 3 < n)
                __stcs((float4 *)(q + 4 * L::R2 * k), p[L::R2 * k]);
            else if (i < n)
                for (int e = 0; i + e < n; e++)
                    q[4 * L::R2 * k + e] = pixel[i + e];
        });
        return;
    }
    const double base = a.ones ? a.offset.base[(int64_t)(z - a.offset.base_z0) * a.offset.pairs + blockIdx.y] : 0;
    for (int i = t; i < n; i += L::R2) {
        float v = pixel[i];
        if (edge && a.ones) {
            const int64_t voxel = (y - o.box.lo[1]) * a.pitch + (x0 + i - o.box.lo[0]);
            v = (float)((a.factor ? (double)v * a.factor[voxel] : v) + base * a.ones[voxel]);
        } else if (edge) {
            v = restored(a.offset, a.axis, v, (int)blockIdx.y, x0 + i, y, z);
        }
        store_sample((char *)o.data, at + i, a.type, v);
    }
}

template <class L, int ROWS, int BLOCKS>
__global__ void __launch_bounds__(ROWS *L::threads, BLOCKS) inverse_kernel(const inverse_args a)
{
    extern __shared__ cx shared[];
    const int t = threadIdx.x % L::threads, line = threadIdx.x / L::threads;
    const int row = blockIdx.x * ROWS + line;
    const bool live = row < a.rows;
    const convolve_axis x = a.axis[0];
    cx *const sm = shared + line * L::row_size;
    const int x0 = 2 * (a.pair0 + (int)blockIdx.y) * x.valid, y = a.y0 + row, z = a.z0 + (int)blockIdx.z;
    const bool edge = is_edge(a, x0, min(2 * x.valid, (int)a.out.box.hi[0] - x0), y, z);
    const float restore = edge ? 0 : a.offset.restore[(int64_t)(z - a.offset.restore_z0) * a.offset.pairs + blockIdx.y];
    cx v[L::values];

    if (live) {
        const cx *const in =
            opaque(a.in + blockIdx.z * a.in_plane + blockIdx.y * a.in_pair + (int64_t)row * L::T + t);
        each_frequency<L>(t, [&](auto i, auto k) { v[i] = load_l2(in + k); });
    } else {
        each<L::values>([&](auto j) { v[j] = {0, 0}; });
    }
    inverse_begin<L, L::row_pitch, 1>(v, sm, t);
    sync_line<L>();
    inverse_end<L, L::row_pitch, 1>(v, sm, t, a.twiddle);
    sync_line<L>(); /* the exchange is over; its memory is reused for the pixels */
    /* the two rows of a warp, half the banks apart */
    float *const pixel = (float *)sm + (L::R2 == 16 ? line % 2 * 16 : 0);
    static_assert(2 * L::row_size >= 2 * L::T + 16);
    const int first = t - x.pad_before();
    each<L::R1>([&](auto j) {
        const int i = first + L::R2 * j;
        if ((unsigned)i < (unsigned)x.valid) {
            pixel[i] = v[j].re + restore;
            pixel[i + x.valid] = v[j].im + restore;
        }
    });
    sync_line<L>();
    if (live)
        store_pair<L>(a, pixel, t, x0, y, z, edge);
}

/* ---- columns ---- */

/* Loads two adjacent values of a spectrum. */
__device__ __forceinline__ void load_two(cx *h, const cx *p)
{
    const float4 v = __ldcg((const float4 *)p);
    h[0] = {v.x, v.y};
    h[1] = {v.z, v.w};
}

/* Convolves a column: samples to samples. `spectrum` is this thread's first value; the next two are 2 * GROUP * R2
 * values further on. As much of the spectrum as registers allow is prefetched before the barrier. */
template <class L, int GROUP>
__device__ __forceinline__ void convolve_column(cx *v, cx *sm, int t, const cx *twiddle, const cx *spectrum)
{
    constexpr int P = column_layout<L, GROUP>::pitch, two = 2 * GROUP * L::R2;
    constexpr int ahead = L::R2 <= 16 ? L::R2 : L::R2 <= 20 ? 8 : 0;
    cx h[L::R2];

    forward_begin<L, P, GROUP>(v, sm, t, twiddle);
    spectrum = opaque(spectrum);
    each<ahead / 2>([&](auto r) { load_two(h + 2 * r, spectrum + r * two); });
    __syncthreads();
    each<L::batches>([&](auto b) {
        const int k1 = t + b * L::R2;
        const cx *const own = spectrum + b * (L::R2 / 2) * two;
        if constexpr (b == 0)
            each<(L::R2 - ahead) / 2>([&](auto r) { load_two(h + ahead + 2 * r, own + (r + ahead / 2) * two); });
        if (L::even || k1 < L::R1) {
            each<L::R2>([&](auto n) { v[n] = sm[k1 * P + n * GROUP]; });
            fourier<L::R2, false>(v);
            each<L::R2>([&](auto r) { v[r] = times(v[r], h[r]); });
            if constexpr (b + 1 < L::batches)
                each<L::R2 / 2>([&](auto r) { load_two(h + 2 * r, own + (L::R2 / 2 + r) * two); });
            fourier<L::R2, true>(v);
            each<L::R2>([&](auto n) { sm[k1 * P + n * GROUP] = v[n]; });
        }
    });
    __syncthreads();
    inverse_end<L, P, GROUP>(v, sm, t, twiddle);
}

/* Returns the pitch of rows: PITCH, a compile-time constant whose multiples need no registers, or `pitch` if that is
 * 0. */
template <int PITCH> __device__ __forceinline__ int64_t pitch_of(int64_t pitch)
{
    return PITCH ? PITCH : pitch;
}

template <class L, int PITCH, bool FOLD>
__device__ __forceinline__ void load_column(cx *v, const columns_args &a, const cx *in, int tile, int t)
{
    const int64_t pitch = pitch_of<PITCH>(a.in_pitch);
    const int y0 = tile * a.axis.valid - a.axis.pad_before();
    if constexpr (FOLD) {
        each<L::R1>([&](auto j) {
            const int i = t + L::R2 * j + a.axis.centre, k = i >= L::T ? i - L::T : i;
            v[j] = k < a.axis.taps ? load_l2(in + k * pitch) : cx{0, 0};
        });
    } else if (y0 >= a.axis.first && y0 + L::T <= a.axis.first + a.axis.count) {
        const cx *p = opaque(in + (y0 - a.in_first + t) * pitch);
        each<L::R1>([&](auto j) {
            if constexpr (PITCH) {
                v[j] = load_l2(p + (int64_t)L::R2 * PITCH * j);
            } else {
                v[j] = load_l2(p);
                p = opaque(p + L::R2 * pitch);
            }
        });
    } else if (a.axis.rule == VP_EDGE_ZERO) {
        const int place = y0 + t - a.axis.first, count = a.axis.count;
        const cx *p = opaque(in + (y0 - a.in_first + t) * pitch);
        each<L::R1>([&](auto j) {
            v[j] = {0, 0};
            if ((unsigned)(place + L::R2 * j) < (unsigned)count)
                v[j] = load_l2(PITCH ? p + (int64_t)L::R2 * PITCH * j : p);
            if constexpr (!PITCH)
                p = opaque(p + L::R2 * pitch);
        });
    } else {
        const cx *const p = opaque(in);
        const convolve_axis axis = a.axis;
        each<L::R1>([&](auto j) {
            const int from = sample_from(axis, y0 + t + L::R2 * j);
            v[j] = from < 0 ? cx{0, 0} : load_l2(p + (from - a.in_first) * pitch);
        });
    }
}

template <class L, int PITCH>
__device__ __forceinline__ void store_column(const cx *v, const columns_args &a, cx *out, int tile, int t)
{
    const int64_t pitch = pitch_of<PITCH>(a.out_pitch);
    const int y0 = tile * a.axis.valid, n = min(a.axis.valid, a.axis.size - y0), first = t - a.axis.pad_before();
    cx *p = opaque(out + (y0 + first - a.out_first) * pitch);
    each<L::R1>([&](auto j) {
        if ((unsigned)(first + L::R2 * j) < (unsigned)n) {
            if constexpr (PITCH)
                p[(int64_t)L::R2 * PITCH * j] = v[j];
            else
                *p = v[j];
        }
        if constexpr (!PITCH)
            p = opaque(p + L::R2 * pitch);
    });
}

template <class L, int GROUP, int BLOCKS, columns_mode MODE, int PITCH>
__global__ void __launch_bounds__(GROUP *L::threads, BLOCKS) columns_kernel(const columns_args a)
{
    extern __shared__ cx shared[];
    constexpr int P = column_layout<L, GROUP>::pitch, block = GROUP * L::threads;
    const int lane = threadIdx.x % GROUP, t = threadIdx.x / GROUP;
    const int groups = a.lanes / GROUP; /* consecutive blocks share a spectrum */
    int b = blockIdx.x, tile = blockIdx.y, outer = blockIdx.z;
    if (a.reversed) {
        tile = a.tiles - 1 - tile;
        outer = a.outers - 1 - outer;
    }
    int repeat = 0;
    if (a.repeats > 1) {
        repeat = b % a.repeats;
        b /= a.repeats;
    }
    const int64_t column = (int64_t)(repeat * groups + b) * GROUP + lane;
    const cx *const in = a.in + outer * a.in_outer + column;
    cx *const out = a.out + outer * a.out_outer + column;
    cx *const spectrum = a.spectrum + (int64_t)b * (L::frequencies * block) + 2 * threadIdx.x;
    const cx *const twiddle = a.twiddle;
    cx *const sm = shared + lane;
    cx v[L::values];
    tile += a.tile0;

    if constexpr (MODE == COLUMNS_INVERSE) {
        const int64_t pitch = pitch_of<PITCH>(a.in_pitch);
        const cx *const p = opaque(in + ((int64_t)(tile - a.in_first) * L::T + t) * pitch);
        each_frequency<L>(t, [&](auto i, auto k) { v[i] = load_l2(p + (int64_t)k * pitch); });
        inverse_begin<L, P, GROUP>(v, sm, t);
        __syncthreads();
        inverse_end<L, P, GROUP>(v, sm, t, twiddle);
        store_column<L, PITCH>(v, a, out, tile, t);
    } else {
        load_column<L, PITCH, MODE == COLUMNS_TAPS || MODE == COLUMNS_SPECTRUM>(v, a, in, tile, t);
        if constexpr (MODE == COLUMNS_CONVOLVE) {
            convolve_column<L, GROUP>(v, sm, t, twiddle, spectrum);
            store_column<L, PITCH>(v, a, out, tile, t);
        } else {
            forward_begin<L, P, GROUP>(v, sm, t, twiddle);
            __syncthreads();
            forward_end<L, P, GROUP>(v, sm, t);
            if constexpr (MODE == COLUMNS_SPECTRUM) {
                each<L::frequencies>([&](auto r) {
                    constexpr int i = (int)decltype(r)::value;
                    spectrum[i / 2 * 2 * block + i % 2] = {v[i].re * a.scale, v[i].im * a.scale};
                });
            } else {
                const int64_t pitch = pitch_of<PITCH>(a.out_pitch);
                cx *const p = opaque(out + ((int64_t)(tile - a.out_first) * L::T + t) * pitch);
                each_frequency<L>(t, [&](auto i, auto k) { p[(int64_t)k * pitch] = v[i]; });
            }
        }
    }
}

/* ---- one length ---- */

/* Launchers for one length: ROWS rows a block and ROW_BLOCKS resident blocks of a multiprocessor for the rows, GROUP
 * lanes a block and COLUMN_BLOCKS blocks for the columns. */
template <class L, int ROWS, int ROW_BLOCKS, int GROUP, int COLUMN_BLOCKS> struct length_of {
    static constexpr size_t row_shared = sizeof(cx) * ROWS * L::row_size;
    static constexpr size_t column_shared = sizeof(cx) * column_layout<L, GROUP>::size;

    static int rows(vp_err *err, cudaStream_t stream, const rows_args &a, int pairs, int planes)
    {
        const dim3 grid((unsigned)vp_div_up(a.rows, ROWS), (unsigned)pairs, (unsigned)planes), block(ROWS * L::threads);
        if (vp_start(err, stream, rows_kernel<L, ROWS, ROW_BLOCKS, false>, grid, block, row_shared, a))
            return -1;
        return a.type == VP_F32
                   ? vp_start(err, stream, rows_kernel<L, ROWS, ROW_BLOCKS, true>, grid, block, row_shared, a) : 0;
    }
    static int taps(vp_err *err, cudaStream_t stream, const taps_args &a)
    {
        return vp_start(err, stream, taps_kernel<L, ROWS>, dim3((unsigned)vp_div_up(a.rows, ROWS)),
                        dim3(ROWS * L::threads), row_shared, a);
    }
    static int inverse(vp_err *err, cudaStream_t stream, const inverse_args &a, int pairs, int planes)
    {
        return vp_start(err, stream, inverse_kernel<L, ROWS, ROW_BLOCKS>,
                        dim3((unsigned)vp_div_up(a.rows, ROWS), (unsigned)pairs, (unsigned)planes),
                        dim3(ROWS * L::threads), row_shared, a);
    }
    template <columns_mode MODE> static int start(vp_err *err, cudaStream_t stream, const columns_args &a)
    {
        const dim3 grid((unsigned)(a.lanes / GROUP * a.repeats), (unsigned)a.tiles, (unsigned)a.outers);
        const dim3 block(GROUP * L::threads);
        const bool known = a.in_pitch == L::T && a.out_pitch == L::T; /* the transform along x has the same length */
        if constexpr (MODE != COLUMNS_SPECTRUM && MODE != COLUMNS_TAPS)
            if (known)
                return vp_start(err, stream, columns_kernel<L, GROUP, COLUMN_BLOCKS, MODE, L::T>, grid, block,
                                column_shared, a);
        return vp_start(err, stream, columns_kernel<L, GROUP, COLUMN_BLOCKS, MODE, 0>, grid, block, column_shared, a);
    }
    static int columns(vp_err *err, cudaStream_t stream, const columns_args &a, columns_mode mode)
    {
        switch (mode) {
        case COLUMNS_CONVOLVE: return start<COLUMNS_CONVOLVE>(err, stream, a);
        case COLUMNS_FORWARD: return start<COLUMNS_FORWARD>(err, stream, a);
        case COLUMNS_INVERSE: return start<COLUMNS_INVERSE>(err, stream, a);
        case COLUMNS_TAPS: return start<COLUMNS_TAPS>(err, stream, a);
        default: return start<COLUMNS_SPECTRUM>(err, stream, a);
        }
    }
    static constexpr convolve_length table = {L::T,  L::R1, L::R2,   L::in_warp,
                                              GROUP, L::frequencies * GROUP * L::threads,
                                              rows,  taps,  columns, inverse};
};

}
}
