/* SPDX-License-Identifier: BSD-3-Clause */
/* Morphological reconstruction: kernel "morphrecon" of image/morphrecon.h.
 *
 * Samples become keys in tiles (take), which are reconstructed, flat images by active tiles in registers first
 * (morphrecon_tiles.cuh), and what these leave, and solid images, by contraction (morphrecon_contract.cuh); then keys
 * become samples (give). Nothing is waited for: the queue of tiles decides on the device whether the contraction has
 * anything to do. */
#include "footprint.cuh"
#include "image/morphrecon.h"
#include "morphrecon_contract.cuh"
#include "morphrecon_tiles.cuh"

#include <cstdio>

namespace
{

using namespace vp;

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
    enum vp_morphrecon_marker marker;
    enum vp_morphrecon_result result;
    bool erosion;
    double h;
    key<S> floor, lowest;
    recon_buffers<key<S>> b;
};

template <class T, int N> struct alignas(sizeof(T) * N) run_of {
    T v[N];
};

/* Samples [x, x + N) of a row, of which `n` are there. */
template <int N, class S> __device__ __forceinline__ run_of<S, N> read_run(const vp_area &a, int64_t x, int64_t y, int64_t z, int n)
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
__device__ __forceinline__ void write_run(const vp_area &a, int64_t x, int64_t y, int64_t z, int n, const run_of<S, N> &r)
{
    S *const to = vp_at<S>(a, x, y, z);
    if (n == N && (uintptr_t)to % sizeof r == 0) {
        *(run_of<S, N> *)to = r;
        return;
    }
#pragma unroll
    for (int i = 0; i < N; i++)
        if (i < n)
            to[i] = r.v[i];
}

__device__ __forceinline__ float lowered(float v, double h, bool erosion) { return erosion ? v + (float)h : v - (float)h; }
__device__ __forceinline__ double lowered(double v, double h, bool erosion) { return erosion ? v + h : v - h; }

/* Samples that are counted. */
struct tally {
    uint32_t clipped, nan;
};

/* Keys of the n samples that are there of [x, x + N): mask and marker. */
template <int N, class S>
__device__ __forceinline__ void keys_of(const sample_job<S> &j, int64_t x, int64_t y, int64_t z, int n, run_of<key<S>, N> &mask,
                                        run_of<key<S>, N> &value, tally &t)
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
                value.v[k] = (U)(j.h >= mask.v[k] ? 0 : mask.v[k] - (int)j.h);
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

/* A flat tile on its way, by rows. */
template <class U> struct staged_tile {
    static constexpr int T = tile_side<U, true>, N = 16 / (int)sizeof(U), PITCH = T + N, PIECES = T * T / N,
                         WIDE = strip_of<U>::WIDE, HIGH = strip_of<U>::HIGH;
    alignas(16) U v[T * PITCH];

    __device__ __forceinline__ run_of<U, N> &run(int piece) { return *(run_of<U, N> *)(v + piece / (T / N) * PITCH + piece % (T / N) * N); }
    /* Strip number `piece` of the tile, or of the tile with x and y exchanged. */
    __device__ __forceinline__ run_of<U, N> strip(int piece) const
    {
        const U *const from = v + piece / 32 * HIGH * PITCH + piece % 32 * WIDE;
        run_of<U, N> to;
#pragma unroll
        for (int r = 0; r < HIGH; r++)
            *(run_of<U, WIDE> *)(to.v + r * WIDE) = *(const run_of<U, WIDE> *)(from + r * PITCH);
        return to;
    }
    __device__ __forceinline__ run_of<U, N> turned_strip(int piece) const
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

/* Where tile t begins, in voxels of the box. */
template <int SIDE, int DEPTH> __device__ __forceinline__ void begin_of(const recon_shape &s, int t, int &x, int &y, int &z)
{
    x = t % s.t[0] * SIDE;
    y = t / s.t[0] % s.t[1] * SIDE;
    z = t / (s.t[0] * s.t[1]) * DEPTH;
}

/* A thread block has a tile at a time. */
template <class S, bool FLAT> __global__ void __launch_bounds__(SAMPLE_THREADS) take_kernel(sample_job<S> j)
{
    typedef key<S> U;
    constexpr int T = tile_side<U, FLAT>, DEPTH = FLAT ? 1 : T, N = 16 / (int)sizeof(U), PIECES = T * T * DEPTH / N;
    typedef staged_tile<U> staged[2];
    VP_SHARED(staged, by_rows);
    tally t = {0, 0};

    for (int tile = blockIdx.x; tile < j.s.tiles; tile += gridDim.x) {
        int tx, ty, tz;
        begin_of<T, DEPTH>(j.s, tile, tx, ty, tz);
        run_of<U, N> *const masks = (run_of<U, N> *)j.b.mask + (int64_t)tile * PIECES,
                            *const values = (run_of<U, N> *)j.b.value + (int64_t)tile * PIECES,
                            *const turned = FLAT ? (run_of<U, N> *)j.b.turned + (int64_t)tile * PIECES : NULL;
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
            turned[piece] = by_rows[0].turned_strip(piece);
        }
        __syncthreads();
    }
    if (FLAT) { /* all tiles are in the queue */
        for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < j.b.slots; i += gridDim.x * blockDim.x) {
            const bool is = i < (uint32_t)j.s.tiles;
            j.b.slot[i] = is ? i + 1 : 0;
            if (is)
                j.b.state[i] = QUEUED | FROM_ROW;
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

/* v is a NaN where there is one. */
template <class S> __device__ __forceinline__ S difference(S v, key<S> g, key<S> r, bool erosion)
{
    S o;
    sample_of(r, erosion, o);
    return g == 0 ? v : r == g ? S(0) : erosion ? o - v : v - o;
}

/* The result of n samples, of keys that are `step` apart. */
template <int N, class S>
__device__ __forceinline__ void results_of(const sample_job<S> &j, int64_t x, int64_t y, int64_t z, int n, const key<S> *value,
                                           const key<S> *mask)
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

template <class S, bool FLAT> __global__ void __launch_bounds__(SAMPLE_THREADS) give_kernel(sample_job<S> j)
{
    typedef key<S> U;
    constexpr int T = tile_side<U, FLAT>, DEPTH = FLAT ? 1 : T, N = 16 / (int)sizeof(U), PIECES = T * T * DEPTH / N;
    typedef staged_tile<U> staged[2];
    VP_SHARED(staged, by_rows);
    const bool masked = j.result != VP_RECON_VALUE;

    for (int tile = blockIdx.x; tile < j.s.tiles; tile += gridDim.x) {
        int tx, ty, tz;
        begin_of<T, DEPTH>(j.s, tile, tx, ty, tz);
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

/* ---- what is where ---- */

struct cutter {
    char *at;
    template <class T> void cut(T *&p, uint64_t n)
    {
        p = (T *)at;
        at += (n * sizeof(T) + VP_ALIGN - 1) / VP_ALIGN * VP_ALIGN;
    }
};

/* The most nodes of a tile and the most edges between it and those behind it; slots of the queue. */
template <class U, int CONN> uint64_t lay_out(const recon_shape &s, void *scratch, recon_buffers<U> *b)
{
    typedef tile_of<U, CONN> TILE;
    const uint64_t tiles = (uint64_t)s.tiles, voxels = tiles * TILE::P, nodes = tiles * TILE::RIM,
                   edges = nodes + tiles * TILE::crossings();
    cutter c = {(char *)scratch};
    b->slots = 16384; /* more than twice the blocks of a launch */
    while (b->slots < 2 * tiles)
        b->slots *= 2;
    c.cut(b->control, 1);
    c.cut(b->value, voxels);
    c.cut(b->mask, voxels);
    if (TILE::FLAT) {
        c.cut(b->turned, voxels);
        c.cut(b->slot, b->slots);
        c.cut(b->state, tiles);
    }
    c.cut(b->low, voxels);
    c.cut(b->high, voxels);
    c.cut(b->node, voxels);
    c.cut(b->base, tiles);
    c.cut(b->label, nodes);
    c.cut(b->parent, nodes);
    c.cut(b->marker, nodes);
    c.cut(b->through, nodes);
    c.cut(b->result, nodes);
    c.cut(b->best, nodes);
    if (sizeof(U) == 8)
        c.cut(b->which, nodes);
    c.cut(b->beyond, nodes);
    c.cut(b->number, nodes);
    c.cut(b->from, edges);
    c.cut(b->to, edges);
    c.cut(b->capacity, edges);
    return (uint64_t)(c.at - (char *)scratch);
}

/* ---- the kernels in order ---- */

struct recon_times { /* for the benchmark: called between them */
    void (*mark)(void *data, const char *what);
    void *data;
};

/* As many blocks as are on the device together. */
template <class Kernel> unsigned together(Kernel *kernel, const struct vp_queue *q, int threads, size_t shared)
{
    int n = 1;
    if (shared) {
        vp_allow_shared(kernel, shared);
        cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout, 100);
    }
    if (cudaOccupancyMaxActiveBlocksPerMultiprocessor(&n, kernel, threads, shared) != cudaSuccess || n < 1)
        n = 1;
    return (unsigned)n * (unsigned)(q->sms > 0 ? q->sms : 1);
}

static void told(const recon_times *t, const char *what)
{
    if (t)
        t->mark(t->data, what);
}

/* Start a kernel whose thread blocks wait for each other: no more than are on the device together. */
template <class Job>
int meet(void (*kernel)(Job), const Job &job, int64_t blocks, size_t shared, const struct vp_queue *q, struct vp_err *err)
{
    const dim3 grid((unsigned)vp_min64(blocks, together(kernel, q, SOLVE_THREADS, shared)));
    return vp_gpu_check(err, launch_together(q->stream, kernel, grid, dim3(SOLVE_THREADS), shared, job),
                        "cannot start a CUDA kernel");
}

/* The contraction, or only its graph. */
template <class U, int CONN>
int contract(const recon_buffers<U> &b, const recon_shape &s, const struct vp_shell *shell, const struct vp_queue *q, struct vp_err *err)
{
    contract_job<U> job = {b, s, {}, !shell};
    for (int a = 0; a < 3 && shell; a++) {
        job.outside[2 * a] = shell->lo[a];
        job.outside[2 * a + 1] = shell->hi[a];
    }
    return meet(contract_kernel<U, CONN, SOLVE_THREADS>, job, s.tiles, contract_shared<U, CONN>(), q, err);
}

template <class U, bool DIAGONAL>
int wave(const recon_buffers<U> &b, const recon_shape &s, const struct vp_queue *q, struct vp_err *err)
{
    auto *const kernel = flat_kernel<U, DIAGONAL>;
    const size_t shared = sizeof(tile_memory<U>);
    const uint64_t sms = q->sms > 0 ? (uint64_t)q->sms : 1;
    flat_job<U> job = {b, s.t[0], s.t[1], s.tiles, 0, 0, 0, 1};
    /* A visit takes 5 to 20 us and as many are under way as there are blocks, but one at a time on a winding path. The
     * contraction takes about 0.25 us a tile. */
    job.least = 120000;
    job.each = 45 * 132 / sms + 1;
    job.most = 150000 + (uint64_t)s.tiles * 250 * 132 / sms;
    return vp_start(err, q->stream, kernel, dim3(together(kernel, q, 32, shared)), dim3(32), shared, job);
}

/* The whole of it, marker and mask being in their tiles, all of them in the queue and the counters 0. */
template <class U, int CONN>
int fill(const recon_buffers<U> &b, const recon_shape &s, const struct vp_queue *q, const recon_times *t, struct vp_err *err)
{
    if constexpr (CONN == 4 || CONN == 8) {
        if (wave<U, CONN == 8>(b, s, q, err))
            return -1;
        told(t, "wave");
    } else if (vp_gpu_check(err, cudaMemsetAsync(&b.control->contract, 1, 1, q->stream), "the CUDA device failed")) {
        return -1;
    }
    if (contract<U, CONN>(b, s, NULL, q, err))
        return -1;
    told(t, "contract");
    return 0;
}

/* ---- the shell of a box ---- */

template <class U> struct shell_job {
    recon_buffers<U> b;
    recon_shape s;
    struct vp_shell shell;
    enum vp_key key;
    uint32_t voxels;
    char *entry;
};

/* Number i of the voxels of all faces: its place in the tiles and its number in the shell; -1 if this face is not of the
 * shell or the voxel belongs to a face before it. */
struct shell_place {
    int64_t tile, plain, key; /* tile; voxel, as the contraction counts them and as keys lie */
};
template <class U, bool FLAT> __device__ int64_t shell_voxel(const shell_job<U> &j, int64_t i, shell_place &place)
{
    constexpr int T = tile_side<U, FLAT>, DEPTH = FLAT ? 1 : T;
    const int64_t *const n = j.shell.size, face[3] = {n[1] * n[2], n[0] * n[2], n[0] * n[1]};
    int64_t v[3];
    int a = 0, side = 0;
    for (; i >= face[a]; side ^= 1) {
        i -= face[a];
        a += side;
    }
    if (side ? !j.shell.hi[a] : !j.shell.lo[a])
        return -1;
    v[a] = side ? n[a] - 1 : 0;
    v[a == 0] = i % n[a == 0];
    v[a == 2 ? 1 : 2] = i / n[a == 0];
    for (int f = 0; f < a; f++)
        if (vp_shell_at(&j.shell, f, v[f]))
            return -1;
    if (side && j.shell.lo[a] && v[a] == 0)
        return -1;
    const int x = (int)(v[0] % T), y = (int)(v[1] % T), z = (int)(v[2] % DEPTH);
    place.tile = (v[2] / DEPTH * j.s.t[1] + v[1] / T) * j.s.t[0] + v[0] / T;
    place.plain = place.tile * (T * T * DEPTH) + (z * T + y) * T + x;
    place.key = place.tile * (T * T * DEPTH) + voxel_at<U, FLAT>(x, y, z);
    return vp_shell_index(&j.shell, v[0], v[1], v[2]);
}

template <class U> int64_t shell_faces(const shell_job<U> &j)
{
    const int64_t *const n = j.shell.size;
    return 2 * (n[1] * n[2] + n[0] * n[2] + n[0] * n[1]);
}

enum shell_step {
    SHELL_RAISE, /* values are those of the entry, where they are higher */
    SHELL_COUNT, /* the best way out of the box, to the nodes; */
    SHELL_TELL   /* values, masks and the ways to nodes, to the entry */
};

template <class U, bool FLAT, enum shell_step STEP> __global__ void __launch_bounds__(256) shell_kernel(shell_job<U> j, int64_t faces)
{
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < faces; i += (int64_t)gridDim.x * blockDim.x) {
        shell_place place;
        const int64_t v = shell_voxel<U, FLAT>(j, i, place), p = place.key;
        if (v < 0)
            continue;
        U *const values = (U *)(j.entry + vp_entry_value());
        if (STEP == SHELL_RAISE) {
            j.b.value[p] = min(max(j.b.value[p], values[v]), j.b.mask[p]);
            continue;
        }
        const uint32_t in_tile = j.b.node[place.plain], node = in_tile == NO_NODE ? 0 : j.b.base[place.tile] + in_tile;
        if (STEP == SHELL_COUNT) {
            if (in_tile != NO_NODE)
                atomicMax(&j.b.beyond[node], (wide<U>)j.b.mask[p]);
            continue;
        }
        values[v] = j.b.value[p];
        ((U *)(j.entry + vp_entry_mask(j.key, j.voxels)))[v] = j.b.mask[p];
        if (in_tile != NO_NODE && j.b.number[node] != NO_NUMBER) {
            struct vp_morphrecon_entry *const e = (struct vp_morphrecon_entry *)j.entry;
            ((edge_of<U> *)(j.entry + vp_entry_edge(j.key, j.voxels)))[atomicAdd(&e->edges, 1u)] = {
                (uint32_t)v, j.voxels + j.b.number[node], (U)min((U)j.b.result[node], j.b.high[place.plain])};
        }
    }
}

/* Counters for the second contraction of a launch. */
template <class U> __global__ void again_kernel(recon_buffers<U> b, struct vp_morphrecon_entry *e)
{
    recon_control *const c = b.control;
    for (int i = 0; i < 4; i++)
        c->ticket[i] = 0;
    for (int i = 0; i < RECON_VOTES; i++)
        c->vote[i] = 0;
    c->nodes = c->crossing = c->barrier = c->kept = 0;
    c->contract = 1;
    e->edges = 0;
}

template <class U> __global__ void __launch_bounds__(256) clear_kernel(recon_buffers<U> b)
{
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        b.control->barrier = 0;
        for (int i = 0; i < RECON_VOTES; i++)
            b.control->vote[i] = 0;
    }
    for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < b.control->nodes; i += gridDim.x * blockDim.x)
        b.beyond[i] = 0;
}

/* The header, last. */
template <class U> __global__ void told_kernel(shell_job<U> j, bool summary)
{
    const recon_control *const c = j.b.control;
    struct vp_morphrecon_entry *const e = (struct vp_morphrecon_entry *)j.entry;
    e->clipped = c->clipped;
    e->nan = c->nan;
    e->voxels = j.voxels;
    e->nodes = j.voxels + (summary ? c->kept : 0);
    if (!summary)
        e->edges = 0;
    e->bytes = summary ? vp_entry_edge(j.key, j.voxels) + e->edges * vp_entry_edge_size(j.key) : sizeof *e;
}

/* ---- what is to be made ---- */

template <class S, int CONN>
int make(const sample_job<S> &j, const shell_job<key<S>> &shell, enum vp_visit visit, const struct vp_queue *q, const recon_times *t,
         struct vp_err *err)
{
    typedef key<S> U;
    typedef tile_of<U, CONN> TILE;
    constexpr bool FLAT = TILE::FLAT;
    const recon_buffers<U> &b = shell.b;
    const int64_t most = (int64_t)(q->sms > 0 ? q->sms : 1) * 32, faces = shell_faces(shell);
    const size_t staged = FLAT ? 2 * sizeof(staged_tile<U>) : 0;
    const dim3 all((unsigned)vp_min64(j.s.tiles, most)), rim((unsigned)vp_min64(vp_groups(faces, 256), most)), threads(256);
    if (vp_gpu_check(err, cudaMemsetAsync(b.control, 0, sizeof *b.control, q->stream), "the CUDA device failed")
        || vp_start(err, q->stream, take_kernel<S, FLAT>, all, dim3(SAMPLE_THREADS), staged, j))
        return -1;
    told(t, "take");
    if (visit == VP_FINISH
        && vp_start(err, q->stream, shell_kernel<U, FLAT, SHELL_RAISE>, rim, threads, 0, shell, faces))
        return -1;
    if (fill<U, CONN>(b, j.s, q, t, err))
        return -1;
    if (visit != VP_SUMMARY) {
        if (vp_start(err, q->stream, give_kernel<S, FLAT>, all, dim3(SAMPLE_THREADS), staged, j))
            return -1;
        told(t, "give");
        return visit == VP_MAKE && shell.entry ? vp_start(err, q->stream, told_kernel<U>, dim3(1), dim3(1), 0, shell, false) : 0;
    }
    struct vp_morphrecon_entry *const e = (struct vp_morphrecon_entry *)shell.entry;
    const solve_job<U> job = {b, &e->edges, shell.entry + vp_entry_edge(shell.key, shell.voxels), shell.voxels};
    if (vp_start(err, q->stream, again_kernel<U>, dim3(1), dim3(1), 0, b, e)
        || contract<U, CONN>(b, j.s, &shell.shell, q, err)
        || vp_start(err, q->stream, clear_kernel<U>, rim, threads, 0, b)
        || vp_start(err, q->stream, shell_kernel<U, FLAT, SHELL_COUNT>, rim, threads, 0, shell, faces)
        || meet(summary_kernel<U>, job, vp_groups((int64_t)j.s.tiles * TILE::RIM, SOLVE_THREADS),
                SOLVE_THREADS / 32 * sizeof(uint32_t), q, err)
        || vp_start(err, q->stream, shell_kernel<U, FLAT, SHELL_TELL>, rim, threads, 0, shell, faces)
        || vp_start(err, q->stream, told_kernel<U>, dim3(1), dim3(1), 0, shell, true))
        return -1;
    told(t, "summary");
    return 0;
}

/* ---- host ---- */

constexpr auto params = vp_params<vp_morphrecon_params>;

/* f(a sample of the type, a connectivity) */
template <class F> auto by_kind(const struct vp_morphrecon_params *p, const F &f)
{
    const auto with = [&](auto s) {
        switch (p->connectivity) {
        case 4: return f(s, std::integral_constant<int, 4>());
        case 8: return f(s, std::integral_constant<int, 8>());
        case 6: return f(s, std::integral_constant<int, 6>());
        case 18: return f(s, std::integral_constant<int, 18>());
        default: return f(s, std::integral_constant<int, 26>());
        }
    };
    switch (p->type) {
    case VP_U8: return with(uint8_t());
    case VP_U16: return with(uint16_t());
    case VP_I16: return with(int16_t());
    case VP_F32: return with(float());
    default: return with(double());
    }
}

bool has(const struct vp_op *op, char *why, size_t size)
{
    const enum vp_type t = params(op)->type;
    const int c = params(op)->connectivity;
    if (t == VP_F64 && c != 4 && c != 8
        && contract_shared<uint64_t, 26>() > vp_shared_most()) {
        snprintf(why, size, "volumes of f64 take more shared memory than this device has");
        return false;
    }
    if (t == VP_U8 || t == VP_U16 || t == VP_I16 || t == VP_F32 || t == VP_F64)
        return true;
    snprintf(why, size, "no kernel for %s", vp_type_name(t));
    return false;
}

/* Images of one row and many planes are flat, too: then z is what y is elsewhere. */
bool lies(const struct vp_op *op)
{
    const int c = params(op)->connectivity;
    return op->image[1] == 1 && op->image[2] > 1 && (c == 4 || c == 8);
}

void lay_down(int64_t v[3])
{
    const int64_t y = v[1];
    v[1] = v[2];
    v[2] = y;
}

void lay_down(struct vp_box *b)
{
    lay_down(b->lo);
    lay_down(b->hi);
}

void lay_down(vp_area *a)
{
    const int64_t pitch = a->pitch;
    lay_down(&a->box);
    a->pitch = a->plane;
    a->plane = pitch;
}

uint64_t scratch(const struct vp_op *op, const int64_t in[3], const int64_t out[3])
{
    int64_t n[3] = {out[0], out[1], out[2]};
    (void)in;
    if (lies(op))
        lay_down(n);
    return by_kind(params(op), [&](auto s, auto conn) -> uint64_t {
        typedef key<decltype(s)> U;
        recon_buffers<U> b;
        return lay_out<U, conn.value>(recon_shape_of<U, tile_of<U, conn.value>::FLAT>(n), NULL, &b);
    });
}

uint64_t state(const struct vp_op *op, const int64_t out[3])
{
    struct vp_shell s;
    for (int a = 0; a < 3; a++) {
        s.size[a] = out[a];
        s.lo[a] = s.hi[a] = out[a] < op->image[a];
    }
    return vp_entry_bytes(params(op)->key, (uint64_t)vp_shell_voxels(&s));
}

int launch(const struct vp_op *op, const struct vp_work *work, struct vp_err *err)
{
    const struct vp_morphrecon_params *p = params(op);
    return by_kind(p, [=](auto s, auto conn) -> int {
        typedef decltype(s) S;
        typedef key<S> U;
        sample_job<S> j = {};
        shell_job<U> shell = {};
        const bool given = p->marker == VP_MARKER_GIVEN;
        j.in[0] = work->in[0];
        j.in[1] = work->in[given ? 1 : 0];
        j.out = *work->out;
        j.box = work->out->box;
        for (int a = 0; a < 3; a++) {
            j.image[a] = op->image[a];
            j.seed[a] = p->seed[a];
        }
        if (lies(op)) {
            lay_down(j.image);
            lay_down(j.seed);
            lay_down(&j.box);
            lay_down(&j.in[0]);
            lay_down(&j.in[1]);
            lay_down(&j.out);
        }
        shell.shell = vp_shell_of(&j.box, j.image);
        shell.s = j.s = recon_shape_of<U, tile_of<U, conn.value>::FLAT>(shell.shell.size);
        shell.key = p->key;
        shell.voxels = (uint32_t)vp_shell_voxels(&shell.shell);
        shell.entry = (char *)work->state;
        lay_out<U, conn.value>(j.s, work->scratch, &shell.b);
        j.marker = p->marker;
        j.result = p->result;
        j.erosion = p->erosion;
        j.h = p->h;
        j.floor = (U)p->floor;
        j.lowest = (U)vp_key_lowest(p->key);
        j.b = shell.b;
        return make<S, conn.value>(j, shell, work->visit, work->queue, NULL, err);
    });
}

} // namespace

const struct vp_kernel vp_gpu_morphrecon = {"morphrecon", has, scratch, NULL, NULL, launch, state};
