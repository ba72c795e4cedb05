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
    vp_area in[2], out; /* marker and mask, or the mask alone */
    struct vp_box box;
    int64_t image[3], seed[3];
    recon_shape s;
    enum vp_morphrecon_marker marker;
    enum vp_morphrecon_result result;
    bool erosion, flat;
    double h;
    key<S> floor, lowest;
    recon_control *control;
    key<S> *value, *mask;
};

template <class S> struct run_of {
    enum { N = 16 / sizeof(S) };
    alignas(16) S v[N];
};

/* Samples [x, x + N) of a row, those that are there (`n` of them). */
template <class S>
__device__ __forceinline__ run_of<S> read_run(const vp_area &a, int64_t x, int64_t y, int64_t z, int n)
{
    run_of<S> r = {};
    const S *const from = vp_at<S>(a, x, y, z);
    if (n == run_of<S>::N && (uintptr_t)from % 16 == 0)
        return *(const run_of<S> *)from;
    for (int i = 0; i < run_of<S>::N; i++)
        if (i < n)
            r.v[i] = from[i];
    return r;
}

template <class S, class T> __device__ __forceinline__ void write_run(const vp_area &a, int64_t x, int64_t y, int64_t z, int n, const T *v)
{
    S *const to = vp_at<S>(a, x, y, z);
    constexpr int N = 16 / sizeof(T);
    struct alignas(sizeof(S) * N) run {
        S v[N];
    } r;
    if (n == N && (uintptr_t)to % sizeof(run) == 0) {
#pragma unroll
        for (int i = 0; i < N; i++)
            r.v[i] = (S)v[i];
        *(run *)to = r;
    } else {
        for (int i = 0; i < N; i++)
            if (i < n)
                to[i] = (S)v[i];
    }
}

/* Where run number i of the tiles is, in voxels of the box; samples of it that are in the box. */
template <class S, bool FLAT> __device__ __forceinline__ int place_run(const recon_shape &s, int64_t i, int &x, int &y, int &z)
{
    constexpr int T = tile_side<key<S>, FLAT>, N = run_of<S>::N, DEPTH = FLAT ? 1 : T, RUNS = T * T * DEPTH / N;
    const int tile = (int)(i / RUNS), r = (int)(i % RUNS);
    x = tile % s.t[0] * T + r % (T / N) * N;
    y = tile / s.t[0] % s.t[1] * T + r / (T / N) % T;
    z = tile / (s.t[0] * s.t[1]) * DEPTH + r / (T / N * T);
    return y < s.n[1] && z < s.n[2] ? min(N, max(s.n[0] - x, 0)) : 0;
}

__device__ __forceinline__ float lowered(float v, double h, bool erosion) { return erosion ? v + (float)h : v - (float)h; }
__device__ __forceinline__ double lowered(double v, double h, bool erosion) { return erosion ? v + h : v - h; }

template <class S> __device__ __forceinline__ key<S> marker_of(const sample_job<S> &j, S v, key<S> g, S given, int64_t x, int64_t y, int64_t z)
{
    typedef key<S> U;
    switch (j.marker) {
    case VP_MARKER_GIVEN:
        return given != given ? j.lowest : key_of(given, j.erosion);
    case VP_MARKER_SHIFT:
        if constexpr (sizeof(S) >= 4)
            return key_of(lowered(v, j.h, j.erosion), j.erosion);
        else
            return (U)(g > (uint32_t)j.h ? g - (uint32_t)j.h : 0);
    case VP_MARKER_LESS:
        return (U)(g > 0 ? g - 1 : 0);
    case VP_MARKER_BORDER:
        return vp_morphrecon_at_border(j.image, x, y, z) ? g : j.floor;
    default:
        return x == j.seed[0] && y == j.seed[1] && z == j.seed[2] ? g : j.floor;
    }
}

template <class S, bool FLAT> __global__ void __launch_bounds__(256) take_kernel(sample_job<S> j)
{
    typedef key<S> U;
    constexpr int T = tile_side<U, FLAT>, N = run_of<S>::N, RUNS = T * T * (FLAT ? 1 : T) / N;
    const int64_t runs = (int64_t)j.s.tiles * RUNS;
    const bool given = j.marker == VP_MARKER_GIVEN;
    uint32_t clipped = 0, nan = 0;

    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < runs; i += (int64_t)gridDim.x * blockDim.x) {
        int rx, ry, rz;
        const int n = place_run<S, FLAT>(j.s, i, rx, ry, rz);
        const int64_t x = j.box.lo[0] + rx, y = j.box.lo[1] + ry, z = j.box.lo[2] + rz;
        run_of<U> value = {}, mask = {};
        if (n > 0) {
            const run_of<S> v = read_run<S>(j.in[given], x, y, z, n);
            run_of<S> m = {};
            if (given)
                m = read_run<S>(j.in[0], x, y, z, n);
#pragma unroll
            for (int k = 0; k < N; k++) {
                if (k >= n)
                    break;
                const U g = key_of(v.v[k], j.erosion);
                const U raw = marker_of(j, v.v[k], g, m.v[k], x + k, y, z);
                clipped += given && raw > g;
                nan += v.v[k] != v.v[k] || (given && m.v[k] != m.v[k]);
                value.v[k] = min(raw, g);
                mask.v[k] = g;
            }
        }
        *(run_of<U> *)(j.value + i * N) = value;
        *(run_of<U> *)(j.mask + i * N) = mask;
    }
    clipped = __reduce_add_sync(~0u, clipped);
    nan = __reduce_add_sync(~0u, nan);
    if (threadIdx.x % 32 == 0) {
        if (clipped)
            atomicAdd(&j.control->clipped, (unsigned long long)clipped);
        if (nan)
            atomicAdd(&j.control->nan, (unsigned long long)nan);
    }
}

__device__ __forceinline__ float difference(uint32_t g, uint32_t r, bool erosion)
{
    const float v = vp_f32_of_key(g, erosion), o = vp_f32_of_key(r, erosion);
    return g == 0 ? v : r == g ? 0 : erosion ? o - v : v - o;
}
__device__ __forceinline__ double difference(uint64_t g, uint64_t r, bool erosion)
{
    const double v = vp_f64_of_key(g, erosion), o = vp_f64_of_key(r, erosion);
    return g == 0 ? v : r == g ? 0 : erosion ? o - v : v - o;
}

template <class S, bool FLAT> __global__ void __launch_bounds__(256) give_kernel(sample_job<S> j)
{
    typedef key<S> U;
    constexpr int T = tile_side<U, FLAT>, N = run_of<S>::N, RUNS = T * T * (FLAT ? 1 : T) / N;
    const int64_t runs = (int64_t)j.s.tiles * RUNS;

    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < runs; i += (int64_t)gridDim.x * blockDim.x) {
        int rx, ry, rz;
        const int n = place_run<S, FLAT>(j.s, i, rx, ry, rz);
        if (n <= 0)
            continue;
        const int64_t x = j.box.lo[0] + rx, y = j.box.lo[1] + ry, z = j.box.lo[2] + rz;
        const run_of<U> value = *(const run_of<U> *)(j.value + i * N);
        run_of<U> mask;
        S v[N];
        if (j.result != VP_RECON_VALUE)
            mask = *(const run_of<U> *)(j.mask + i * N);
        if (j.result == VP_RECON_MARK) {
            U mark[N];
#pragma unroll
            for (int k = 0; k < N; k++)
                mark[k] = value.v[k] != mask.v[k];
            write_run<uint8_t>(j.out, x, y, z, n, mark);
            continue;
        }
#pragma unroll
        for (int k = 0; k < N; k++) {
            if (j.result == VP_RECON_VALUE) {
                sample_of(value.v[k], j.erosion, v[k]);
            } else if constexpr (sizeof(S) >= 4) {
                v[k] = difference(mask.v[k], value.v[k], j.erosion);
            } else {
                const int d = mask.v[k] - value.v[k];
                v[k] = (S)(S(-1) < 0 ? min(d, 32767) : d);
            }
        }
        write_run<S>(j.out, x, y, z, n, v);
    }
}

/* ---- the queue of tiles at first: all of them ---- */

__global__ void __launch_bounds__(256) queue_kernel(recon_control *c, uint32_t *slot, uint32_t slots, uint32_t *state, uint32_t tiles)
{
    for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < slots; i += gridDim.x * blockDim.x) {
        slot[i] = i < tiles ? i + 1 : 0;
        if (i < tiles)
            state[i] = 1;
    }
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        c->tail = tiles;
        c->pending = (int)tiles;
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
template <class U, int CONN> uint64_t lay_out(const recon_shape &s, bool box, void *scratch, recon_buffers<U> *b)
{
    typedef tile_of<U, CONN> TILE;
    const uint64_t tiles = (uint64_t)s.tiles, voxels = tiles * TILE::P, nodes = tiles * TILE::RIM,
                   edges = nodes + tiles * TILE::crossings();
    cutter c = {(char *)scratch};
    b->slots = 4096;
    while (b->slots < 2 * tiles)
        b->slots *= 2;
    c.cut(b->control, 1);
    c.cut(b->value, voxels);
    c.cut(b->mask, voxels);
    if (TILE::FLAT) {
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
    if (box) {
        c.cut(b->beyond, nodes);
        c.cut(b->number, nodes);
    }
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

#ifndef RECON_THREADS
#define RECON_THREADS 256
#endif
#ifndef RECON_PACKED
#define RECON_PACKED true
#endif

static void told(const recon_times *t, const char *what)
{
    if (t)
        t->mark(t->data, what);
}

/* Kernels whose threads wait for each other, for so many nodes at most. */
template <class U>
int meet(void (*kernel)(solve_job<U>), const solve_job<U> &job, int64_t nodes, const struct vp_queue *q, struct vp_err *err)
{
    const size_t sums = SOLVE_THREADS / 32 * sizeof(uint32_t);
    const int64_t useful = vp_groups(nodes, SOLVE_THREADS), fit = together(kernel, q, SOLVE_THREADS, sums),
                  most = q->sms > 0 ? 4 * q->sms : 4;
    return vp_gpu_check(err,
                        launch_together(q->stream, kernel, dim3((unsigned)vp_min64(vp_min64(useful, fit), most)),
                                        dim3(SOLVE_THREADS), sums, job),
                        "cannot start a CUDA kernel");
}

/* The graph of the tiles. */
template <class U, int CONN>
int contract(const recon_buffers<U> &b, const recon_shape &s, const struct vp_shell *shell, const struct vp_queue *q,
             const recon_times *t, struct vp_err *err)
{
    constexpr int THREADS = RECON_THREADS;
    contract_job<U> job = {b, s, {}};
    for (int a = 0; a < 3 && shell; a++) {
        job.outside[2 * a] = shell->lo[a];
        job.outside[2 * a + 1] = shell->hi[a];
    }
    auto *const tiles = contract_kernel<U, CONN, THREADS>;
    auto *const between = cross_kernel<U, CONN>;
    const size_t shared = sizeof(contract_memory<U, CONN>), table = sizeof(cross_memory<U>);
    const unsigned n1 = together(tiles, q, THREADS, shared), n2 = together(between, q, CROSS_THREADS, table);
    if (vp_start(err, q->stream, tiles, dim3((unsigned)vp_min64(s.tiles, n1)), dim3(THREADS), shared, job))
        return -1;
    told(t, "contract");
    if (vp_start(err, q->stream, between, dim3((unsigned)vp_min64(s.tiles, n2)), dim3(CROSS_THREADS), table, job))
        return -1;
    told(t, "cross");
    return 0;
}

/* What the queue has left. */
template <class U, int CONN>
int complete(const recon_buffers<U> &b, const recon_shape &s, const struct vp_queue *q, const recon_times *t, struct vp_err *err)
{
    typedef tile_of<U, CONN> TILE;
    const unsigned n = together(apply_kernel<U>, q, 256, 0);
    if (contract<U, CONN>(b, s, NULL, q, t, err) || meet(solve_kernel<U>, {b, NULL, NULL, 0}, (int64_t)s.tiles * TILE::RIM, q, err))
        return -1;
    told(t, "solve");
    const unsigned quads = (unsigned)vp_min64(vp_groups((int64_t)s.tiles * TILE::P, 1024), n);
    if (vp_start(err, q->stream, apply_kernel<U>, dim3(quads), dim3(256), 0, b, s.tiles, TILE::P))
        return -1;
    told(t, "apply");
    return 0;
}

template <class U, int CONN, bool PACKED = sizeof(U) == 1 && RECON_PACKED>
int wave(const recon_buffers<U> &b, const recon_shape &s, const struct vp_queue *q, const recon_times *t, struct vp_err *err)
{
    const size_t shared = sizeof(tile_memory<U, PACKED>);
    auto *const kernel = flat_kernel<U, PACKED, CONN == 8>;
    const unsigned n = together(kernel, q, 32, shared);
    flat_job<U> job = {b, s.t[0], s.t[1], s.tiles, 0, 0, 0, 1};
    /* A visit takes 5 to 20 us, and n are under way at a time: on a winding path one. */
    job.least = 200000;
    job.each = 60 * 132 / (q->sms > 0 ? q->sms : 1) + 1;
    job.most = 300000 + (uint64_t)s.tiles * 400 * 132 / (q->sms > 0 ? q->sms : 1);
    if (vp_start(err, q->stream, queue_kernel, dim3((unsigned)vp_min64(vp_groups(b.slots, 256), 1024)), dim3(256), 0, b.control, b.slot,
                 b.slots, b.state, (uint32_t)s.tiles))
        return -1;
    told(t, "queue");
    if (vp_start(err, q->stream, kernel, dim3(n), dim3(32), shared, job))
        return -1;
    told(t, "wave");
    return 0;
}

/* The whole of it, marker and mask being in their tiles and the counters 0. */
template <class U, int CONN>
int fill(const recon_buffers<U> &b, const recon_shape &s, const struct vp_queue *q, const recon_times *t, struct vp_err *err)
{
    if constexpr (CONN == 4 || CONN == 8) {
        if (wave<U, CONN>(b, s, q, t, err))
            return -1;
    } else if (vp_gpu_check(err, cudaMemsetAsync(&b.control->contract, 1, 1, q->stream), "the CUDA device failed")) {
        return -1;
    }
    return complete<U, CONN>(b, s, q, t, err);
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
template <class U, bool FLAT> __device__ int64_t shell_voxel(const shell_job<U> &j, int64_t i, int64_t &place)
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
    place = (((v[2] / DEPTH) * j.s.t[1] + v[1] / T) * j.s.t[0] + v[0] / T) * (int64_t)(T * T * DEPTH)
            + (v[2] % DEPTH * T + v[1] % T) * T + v[0] % T;
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
        int64_t p;
        const int64_t v = shell_voxel<U, FLAT>(j, i, p);
        if (v < 0)
            continue;
        U *const values = (U *)(j.entry + vp_entry_value());
        if (STEP == SHELL_RAISE) {
            j.b.value[p] = min(max(j.b.value[p], values[v]), j.b.mask[p]);
            continue;
        }
        const uint32_t in_tile = j.b.node[p], node = in_tile == NO_NODE ? 0 : j.b.base[p / (tile_side<U, FLAT> * tile_side<U, FLAT> * (FLAT ? 1 : tile_side<U, FLAT>))] + in_tile;
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
                (uint32_t)v, j.voxels + j.b.number[node], min((U)j.b.result[node], j.b.high[p])};
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
    const dim3 all((unsigned)vp_min64(vp_groups((int64_t)j.s.tiles * TILE::P / run_of<S>::N, 256), most)),
        rim((unsigned)vp_min64(vp_groups(faces, 256), most)), threads(256);
    if (vp_gpu_check(err, cudaMemsetAsync(b.control, 0, sizeof *b.control, q->stream), "the CUDA device failed")
        || vp_start(err, q->stream, take_kernel<S, FLAT>, all, threads, 0, j))
        return -1;
    told(t, "take");
    if (visit == VP_FINISH
        && vp_start(err, q->stream, shell_kernel<U, FLAT, SHELL_RAISE>, rim, threads, 0, shell, faces))
        return -1;
    if (fill<U, CONN>(b, j.s, q, t, err))
        return -1;
    if (visit != VP_SUMMARY) {
        if (vp_start(err, q->stream, give_kernel<S, FLAT>, all, threads, 0, j))
            return -1;
        told(t, "give");
        return visit == VP_MAKE && shell.entry ? vp_start(err, q->stream, told_kernel<U>, dim3(1), dim3(1), 0, shell, false) : 0;
    }
    struct vp_morphrecon_entry *const e = (struct vp_morphrecon_entry *)shell.entry;
    const solve_job<U> job = {b, &e->edges, shell.entry + vp_entry_edge(shell.key, shell.voxels), shell.voxels};
    if (vp_start(err, q->stream, again_kernel<U>, dim3(1), dim3(1), 0, b, e)
        || contract<U, CONN>(b, j.s, &shell.shell, q, t, err)
        || vp_start(err, q->stream, clear_kernel<U>, rim, threads, 0, b)
        || vp_start(err, q->stream, shell_kernel<U, FLAT, SHELL_COUNT>, rim, threads, 0, shell, faces)
        || meet(summary_kernel<U>, job, (int64_t)j.s.tiles * TILE::RIM, q, err)
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
    if (t == VP_U8 || t == VP_U16 || t == VP_I16 || t == VP_F32 || t == VP_F64)
        return true;
    snprintf(why, size, "no kernel for %s", vp_type_name(t));
    return false;
}

/* Whether the image may be cut into such boxes. */
bool boxes(const struct vp_op *op, const int64_t out[3])
{
    return out[0] < op->image[0] || out[1] < op->image[1] || out[2] < op->image[2];
}

uint64_t scratch(const struct vp_op *op, const int64_t in[3], const int64_t out[3])
{
    (void)in;
    return by_kind(params(op), [=](auto s, auto conn) -> uint64_t {
        typedef key<decltype(s)> U;
        recon_buffers<U> b;
        return lay_out<U, conn.value>(recon_shape_of<U, tile_of<U, conn.value>::FLAT>(out), boxes(op, out), NULL, &b);
    });
}

uint64_t state(const struct vp_op *op, const int64_t out[3])
{
    struct vp_shell s;
    for (int a = 0; a < 3; a++) {
        s.size[a] = out[a];
        s.lo[a] = s.hi[a] = out[a] < op->image[a];
    }
    return boxes(op, out) ? vp_entry_bytes(params(op)->key, (uint64_t)vp_shell_voxels(&s)) : sizeof(struct vp_morphrecon_entry);
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
        shell.shell = vp_shell_of(&j.box, op->image);
        shell.s = j.s = recon_shape_of<U, tile_of<U, conn.value>::FLAT>(shell.shell.size);
        shell.key = p->key;
        shell.voxels = (uint32_t)vp_shell_voxels(&shell.shell);
        shell.entry = (char *)work->state;
        lay_out<U, conn.value>(j.s, boxes(op, shell.shell.size), work->scratch, &shell.b);
        for (int a = 0; a < 3; a++) {
            j.image[a] = op->image[a];
            j.seed[a] = p->seed[a];
        }
        j.marker = p->marker;
        j.result = p->result;
        j.erosion = p->erosion;
        j.h = p->h;
        j.floor = (U)p->floor;
        j.lowest = (U)vp_key_lowest(p->key);
        j.control = shell.b.control;
        j.value = shell.b.value;
        j.mask = shell.b.mask;
        return make<S, conn.value>(j, shell, work->visit, work->queue, NULL, err);
    });
}

} // namespace

const struct vp_kernel vp_gpu_morphrecon = {"morphrecon", has, scratch, NULL, NULL, launch, state};
