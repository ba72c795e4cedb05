/* SPDX-License-Identifier: BSD-3-Clause */
/* Conversion of samples to keys in tiles, with the marker (load_kernel), and of keys to samples (store_kernel). */
#pragma once

#include "footprint.cuh"
#include "global/morphrecon.h"
#include "morphrecon.cuh"
#include "sample.cuh"

namespace vp
{

/* ---- samples and keys ---- */

__device__ __forceinline__ uint8_t key_of(uint8_t v, bool erosion) { return vp_key_u8(v, erosion); }
__device__ __forceinline__ uint16_t key_of(uint16_t v, bool erosion) { return vp_key_u16(v, erosion); }
__device__ __forceinline__ uint16_t key_of(int16_t v, bool erosion) { return vp_key_i16(v, erosion); }
__device__ __forceinline__ uint32_t key_of(float v, bool erosion) { return vp_key_f32(v, erosion); }
__device__ __forceinline__ uint64_t key_of(double v, bool erosion) { return vp_key_f64(v, erosion); }
__device__ __forceinline__ void sample_of(uint8_t k, bool erosion, uint8_t &v) { v = vp_key_u8(k, erosion); }
__device__ __forceinline__ void sample_of(uint16_t k, bool erosion, uint16_t &v) { v = vp_key_u16(k, erosion); }
__device__ __forceinline__ void sample_of(uint16_t k, bool erosion, int16_t &v) { v = vp_i16_of_key(k, erosion); }
__device__ __forceinline__ void sample_of(uint32_t k, bool erosion, float &v) { v = vp_f32_of_key(k, erosion); }
__device__ __forceinline__ void sample_of(uint64_t k, bool erosion, double &v) { v = vp_f64_of_key(k, erosion); }

template <class S> struct key_type {
    typedef decltype(key_of(S(), false)) type;
};
template <class S> using key = typename key_type<S>::type;

template <class S> struct sample_job {
    vp_area in[2], out; /* marker and mask, or the mask alone twice */
    struct vp_box box;
    int64_t image[3], seed[3];
    recon_shape s;
    int first, last; /* tiles [first, last) are converted */
    enum vp_morphrecon_marker marker;
    enum vp_morphrecon_result result;
    bool erosion;
    double h;
    key<S> floor, lowest;
    recon_buffers<key<S>> b;
};

/* Loads samples [x, x + N) of a row, of which n exist. Not load_run(): with that load_kernel<float> needs 46 registers
 * instead of 31. */
template <int N, class S>
__device__ __forceinline__ run_of<S, N> read_run(const vp_area &a, int64_t x, int64_t y, int64_t z, int n)
{
    run_of<S, N> r = {};
    const S *const from = vp_at<S>(a, x, y, z);
    if (n == N && (uintptr_t)from % sizeof r == 0)
        return *(const run_of<S, N> *)from;
#pragma unroll
    for (int i = 0; i < N; i++)
        if (i < n)
            r.v[i] = from[i];
    return r;
}

template <int N, class S>
__device__ __forceinline__ void write_run(const vp_area &a, int64_t x, int64_t y, int64_t z, int n,
                                          const run_of<S, N> &r)
{
    S *const to = vp_at<S>(a, x, y, z);
    store_run<N>(to, n, (uintptr_t)to % sizeof r == 0, r);
}

template <class S> __device__ __forceinline__ S lowered(S v, double h, bool erosion)
{
    return erosion ? v + (S)h : v - (S)h;
}

/* Counts of samples, for the report. */
struct tally {
    uint32_t clipped, nan;
};

/* Computes the keys of samples [x, x + N), of which n exist: mask and marker. */
template <int N, class S>
__device__ __forceinline__ void keys_of(const sample_job<S> &j, int64_t x, int64_t y, int64_t z, int n,
                                        run_of<key<S>, N> &mask, run_of<key<S>, N> &value, tally &t)
{
    typedef key<S> U;
    const bool given = j.marker == VP_MARKER_GIVEN;
    const run_of<S, N> v = read_run<N, S>(j.in[1], x, y, z, n);
#pragma unroll
    for (int k = 0; k < N; k++) {
        mask.v[k] = k < n ? key_of(v.v[k], j.erosion) : U(0);
        if (sizeof(S) >= 4)
            t.nan += k < n && v.v[k] != v.v[k];
    }
    if (given) {
        const run_of<S, N> m = read_run<N, S>(j.in[0], x, y, z, n);
#pragma unroll
        for (int k = 0; k < N; k++) {
            const U raw = m.v[k] != m.v[k] ? j.lowest : key_of(m.v[k], j.erosion);
            t.clipped += k < n && raw > mask.v[k] && (sizeof(S) < 4 || mask.v[k] > 0);
            if (sizeof(S) >= 4)
                t.nan += k < n && m.v[k] != m.v[k];
            value.v[k] = min(raw, mask.v[k]);
        }
    } else if (j.marker == VP_MARKER_SHIFT) {
#pragma unroll
        for (int k = 0; k < N; k++) {
            if constexpr (sizeof(S) >= 4) {
                value.v[k] = min(key_of(lowered(v.v[k], j.h, j.erosion), j.erosion), mask.v[k]);
            } else {
                value.v[k] = min((U)(j.h >= mask.v[k] - (int)j.floor ? j.floor : mask.v[k] - (int)j.h), mask.v[k]);
            }
        }
    } else if (j.marker == VP_MARKER_LESS) {
#pragma unroll
        for (int k = 0; k < N; k++)
            value.v[k] = (U)(mask.v[k] - (mask.v[k] > j.lowest));
    } else {
        const bool border = j.marker == VP_MARKER_BORDER;
        const int64_t inner[3] = {1, j.image[1], j.image[2]};
        const bool row = border && vp_morphrecon_at_border(inner, 0, y, z), wide = j.image[0] > 1;
        const int64_t first = border ? (wide ? -x : -1) : y == j.seed[1] && z == j.seed[2] ? j.seed[0] - x : -1,
                      last = border && wide ? j.image[0] - 1 - x : -1;
#pragma unroll
        for (int k = 0; k < N; k++)
            value.v[k] = row || k == first || k == last ? mask.v[k] : min(j.floor, mask.v[k]);
    }
}

/* A flat tile in shared memory, by rows, for the conversion to and from strips. */
template <class U> struct staged_tile {
    static constexpr int T = tile_side<U, true>, N = 16 / (int)sizeof(U), PITCH = T + N, PIECES = T * T / N,
                         WIDE = strip_of<U>::WIDE, HIGH = strip_of<U>::HIGH;
    alignas(16) U v[T * PITCH];

    __device__ __forceinline__ run_of<U, N> &run(int piece)
    {
        return *(run_of<U, N> *)(v + piece / (T / N) * PITCH + piece % (T / N) * N);
    }
    /* Return strip `piece` of the tile, and of the tile with x and y exchanged. */
    __device__ __forceinline__ run_of<U, N> strip(int piece) const
    {
        const U *const from = v + piece / 32 * HIGH * PITCH + piece % 32 * WIDE;
        run_of<U, N> to;
#pragma unroll
        for (int r = 0; r < HIGH; r++)
            *(run_of<U, WIDE> *)(to.v + r * WIDE) = *(const run_of<U, WIDE> *)(from + r * PITCH);
        return to;
    }
    __device__ __forceinline__ run_of<U, N> transposed_strip(int piece) const
    {
        const U *const from = v + piece % 32 * WIDE * PITCH + piece / 32 * HIGH;
        run_of<U, N> to;
#pragma unroll
        for (int r = 0; r < WIDE; r++) {
            const run_of<U, HIGH> row = *(const run_of<U, HIGH> *)(from + r * PITCH);
#pragma unroll
            for (int k = 0; k < HIGH; k++)
                to.v[k * WIDE + r] = row.v[k];
        }
        return to;
    }
    __device__ __forceinline__ void put_strip(int piece, const run_of<U, N> &from)
    {
        U *const to = v + piece / 32 * HIGH * PITCH + piece % 32 * WIDE;
#pragma unroll
        for (int r = 0; r < HIGH; r++)
            *(run_of<U, WIDE> *)(to + r * PITCH) = *(const run_of<U, WIDE> *)(from.v + r * WIDE);
    }
};

enum { SAMPLE_THREADS = 256 };

/* Sets x, y, z to the first voxel of tile t. */
template <int SIDE, int DEPTH>
__device__ __forceinline__ void first_voxel(const recon_shape &s, int t, int &x, int &y, int &z)
{
    x = t % s.t[0] * SIDE;
    y = t / s.t[0] % s.t[1] * SIDE;
    z = t / (s.t[0] * s.t[1]) * DEPTH;
}

/* Returns the initial position of a flat tile in the queue: first every second tile of every second row, then those
 * that touch these at corners, then the others, so that neighbours are not in process at once, and most tiles find
 * updated neighbours. */
__device__ __forceinline__ int queue_position(const recon_shape &s, int tile)
{
    const int nx = s.t[0], ny = s.t[1], tx = tile % nx, ty = tile / nx % ny, plane = tile / (nx * ny);
    const int even = (nx + 1) / 2, odd = nx / 2, high = (ny + 1) / 2, low = ny / 2;
    const int before = ty % 2 == 0 ? (tx % 2 == 0 ? 0 : even * high + odd * low)
                                   : (tx % 2 == 1 ? even * high : even * high + odd * low + odd * high);
    return plane * nx * ny + before + ty / 2 * (tx % 2 ? odd : even) + tx / 2;
}

/* Converts samples to keys of mask and marker, a tile at a time in each thread block; queues all flat tiles. */
template <class S, bool FLAT> __global__ void __launch_bounds__(SAMPLE_THREADS) load_kernel(sample_job<S> j)
{
    typedef key<S> U;
    constexpr int T = tile_side<U, FLAT>, DEPTH = FLAT ? 1 : T, N = 16 / (int)sizeof(U), PIECES = T * T * DEPTH / N;
    typedef staged_tile<U> staged[2];
    VP_SHARED(staged, by_rows);
    tally t = {0, 0};

    for (int tile = j.first + (int)blockIdx.x; tile < j.last; tile += gridDim.x) {
        int tx, ty, tz;
        first_voxel<T, DEPTH>(j.s, tile, tx, ty, tz);
        run_of<U, N> *const masks = (run_of<U, N> *)j.b.mask + (int64_t)tile * PIECES,
                            *const values = (run_of<U, N> *)j.b.value + (int64_t)tile * PIECES,
                            *const transposed = FLAT ? (run_of<U, N> *)j.b.transposed + (int64_t)tile * PIECES : NULL;
        for (int piece = threadIdx.x; piece < PIECES; piece += SAMPLE_THREADS) {
            const int x = tx + piece % (T / N) * N, y = ty + piece / (T / N) % T, z = tz + piece / (T / N * T);
            const int n = min(N, j.s.n[0] - x);
            run_of<U, N> mask = {}, value = {};
            if (n > 0 && y < j.s.n[1] && z < j.s.n[2])
                keys_of<N, S>(j, j.box.lo[0] + x, j.box.lo[1] + y, j.box.lo[2] + z, n, mask, value, t);
            (FLAT ? by_rows[0].run(piece) : masks[piece]) = mask;
            (FLAT ? by_rows[1].run(piece) : values[piece]) = value;
        }
        if (!FLAT)
            continue;
        __syncthreads();
        for (int piece = threadIdx.x; piece < PIECES; piece += SAMPLE_THREADS) {
            masks[piece] = by_rows[0].strip(piece);
            values[piece] = by_rows[1].strip(piece);
            transposed[piece] = by_rows[0].transposed_strip(piece);
        }
        __syncthreads();
    }
    if (FLAT) { /* queue all tiles */
        for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < j.b.slots; i += gridDim.x * blockDim.x) {
            if (i < (uint32_t)j.s.tiles) {
                j.b.slot[queue_position(j.s, (int)i)] = i + 1;
                j.b.state[i] = QUEUED | FROM_ROW;
            } else {
                j.b.slot[i] = 0;
            }
        }
        if (blockIdx.x == 0 && threadIdx.x == 0)
            j.b.control->tail = (uint32_t)(j.b.control->pending = j.s.tiles);
    }
    t.clipped = __reduce_add_sync(~0u, t.clipped);
    t.nan = __reduce_add_sync(~0u, t.nan);
    if (threadIdx.x % 32 == 0) {
        if (t.clipped)
            atomicAdd(&j.b.control->clipped, (unsigned long long)t.clipped);
        if (t.nan)
            atomicAdd(&j.b.control->nan, (unsigned long long)t.nan);
    }
}

/* Returns the difference of a sample v with mask key g and its result r; NaN remains. */
template <class S> __device__ __forceinline__ S difference(S v, key<S> g, key<S> r, bool erosion)
{
    S o;
    sample_of(r, erosion, o);
    return g == 0 ? v : r == g ? S(0) : erosion ? o - v : v - o;
}

/* Stores the results of samples [x, x + N), of which n exist. */
template <int N, class S>
__device__ __forceinline__ void results_of(const sample_job<S> &j, int64_t x, int64_t y, int64_t z, int n,
                                           const key<S> *value, const key<S> *mask)
{
    if (j.result == VP_RECON_MARK) {
        run_of<uint8_t, N> mark;
#pragma unroll
        for (int k = 0; k < N; k++)
            mark.v[k] = value[k] != mask[k];
        write_run<N, uint8_t>(j.out, x, y, z, n, mark);
    } else if (j.result == VP_RECON_VALUE) {
        run_of<S, N> v;
#pragma unroll
        for (int k = 0; k < N; k++)
            sample_of(value[k], j.erosion, v.v[k]);
        write_run<N, S>(j.out, x, y, z, n, v);
    } else if constexpr (sizeof(S) >= 4) {
        run_of<S, N> v;
        const run_of<S, N> of_mask = read_run<N, S>(j.in[1], x, y, z, n);
#pragma unroll
        for (int k = 0; k < N; k++)
            v.v[k] = difference(of_mask.v[k], mask[k], value[k], j.erosion);
        write_run<N, S>(j.out, x, y, z, n, v);
    } else {
        run_of<key<S>, N> v;
#pragma unroll
        for (int k = 0; k < N; k++)
            v.v[k] = (key<S>)(mask[k] - value[k]);
        write_run<N, key<S>>(j.out, x, y, z, n, v);
    }
}

/* Converts keys to results. */
template <class S, bool FLAT> __global__ void __launch_bounds__(SAMPLE_THREADS) store_kernel(sample_job<S> j)
{
    typedef key<S> U;
    constexpr int T = tile_side<U, FLAT>, DEPTH = FLAT ? 1 : T, N = 16 / (int)sizeof(U), PIECES = T * T * DEPTH / N;
    typedef staged_tile<U> staged[2];
    VP_SHARED(staged, by_rows);
    const bool masked = j.result != VP_RECON_VALUE;

    for (int tile = j.first + (int)blockIdx.x; tile < j.last; tile += gridDim.x) {
        int tx, ty, tz;
        first_voxel<T, DEPTH>(j.s, tile, tx, ty, tz);
        run_of<U, N> *const masks = (run_of<U, N> *)j.b.mask + (int64_t)tile * PIECES,
                            *const values = (run_of<U, N> *)j.b.value + (int64_t)tile * PIECES;
        if (FLAT) {
            __syncthreads();
            for (int piece = threadIdx.x; piece < PIECES; piece += SAMPLE_THREADS) {
                by_rows[1].put_strip(piece, values[piece]);
                if (masked)
                    by_rows[0].put_strip(piece, masks[piece]);
            }
            __syncthreads();
        }
        for (int piece = threadIdx.x; piece < PIECES; piece += SAMPLE_THREADS) {
            const int x = tx + piece % (T / N) * N, y = ty + piece / (T / N) % T, z = tz + piece / (T / N * T);
            const int n = min(N, j.s.n[0] - x);
            if (n <= 0 || y >= j.s.n[1] || z >= j.s.n[2])
                continue;
            const run_of<U, N> value = FLAT ? by_rows[1].run(piece) : values[piece];
            run_of<U, N> mask = {};
            if (masked)
                mask = FLAT ? by_rows[0].run(piece) : masks[piece];
            results_of<N, S>(j, j.box.lo[0] + x, j.box.lo[1] + y, j.box.lo[2] + z, n, value.v, mask.v);
        }
    }
}

}
