/* SPDX-License-Identifier: BSD-3-Clause */
/* Reconstruction by contraction, second part: the graph of all tiles (morphrecon_contract.cuh) is solved by the whole
 * device, for the values of all voxels, or for the summary of a box. */
#pragma once

#include "morphrecon_contract.cuh"

namespace vp
{

/* ---- all nodes ---- */

enum { SOLVE_THREADS = 256, SOLVE_STEPS = 32 };

/* Barrier of all threads of a grid whose blocks are all resident. */
struct grid_barrier {
    recon_control *c;
    uint32_t times;

    __device__ void wait()
    {
        __syncthreads();
        times++;
        if (threadIdx.x == 0) {
            __threadfence();
            atomicAdd(&c->grid.barrier, 1u);
            while (load_now(&c->grid.barrier) < times * gridDim.x)
                __nanosleep(20);
            __threadfence();
            if (blockIdx.x == 0)
                c->grid.vote[(times + RECON_VOTES / 2) % RECON_VOTES] = 0;
        }
        __syncthreads();
    }

    /* Barrier; true if `yes` is true in any thread of the grid. */
    __device__ bool any(bool yes)
    {
        uint32_t *const v = &c->grid.vote[times % RECON_VOTES];
        if (__syncthreads_or(yes) && threadIdx.x == 0)
            atomicExch(v, 1u);
        wait();
        return load_now(v) != 0;
    }
};

/* Purpose of the rounds. */
enum solving {
    ALL,    /* the result of every node */
    INSIDE, /* a box: components whose best edge leaves the box are not hooked */
    FOREST  /* the best paths between these: every edge that is used is stored */
};

template <class U> struct solve_job {
    recon_buffers<U> b;
    /* FOREST only */
    uint32_t *count; /* edges stored */
    void *edge;      /* edges (first + from, first + to, capacity) */
    uint32_t first;
};

template <class U> struct edge_of {
    uint32_t a, b, capacity;
};
template <> struct edge_of<uint64_t> {
    uint32_t a, b;
    uint64_t capacity;
};

/* Runs Boruvka's rounds over all nodes. Edges [first, end) belong to this thread block; edges within a component are
 * removed. */
template <class U, enum solving WHAT>
__device__ void solve(const solve_job<U> &job, grid_barrier &all, uint32_t *sums, uint32_t nodes, uint32_t first,
                      uint32_t &end)
{
    typedef wide<U> word;
    constexpr bool TWICE = sizeof(U) == 8;
    const recon_buffers<U> &b = job.b;
    const uint32_t me = blockIdx.x * blockDim.x + threadIdx.x, step = gridDim.x * blockDim.x;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;

    for (uint32_t c = me; c < nodes; c += step) {
        b.label[c] = b.parent[c] = c;
        b.best[c] = 0;
        if (TWICE)
            b.which[c] = 0;
    }
    all.wait();
    for (;;) {
        uint32_t kept = first;
        for (uint32_t e0 = first; e0 < end; e0 += SOLVE_THREADS) {
            const uint32_t e = e0 + threadIdx.x;
            uint32_t from = 0, to = 0;
            U capacity = 0;
            if (e < end && (capacity = b.capacity[e]) != 0) {
                from = __ldcg(b.label + b.from[e]);
                to = __ldcg(b.label + b.to[e]);
            }
            const bool keep = from != to;
            const uint32_t who = __ballot_sync(~0u, keep);
            if (lane == 0)
                sums[warp] = __popc(who);
            __syncthreads();
            uint32_t before = 0, sum = 0;
            for (int w = 0; w < SOLVE_THREADS / 32; w++) {
                before += w < warp ? sums[w] : 0;
                sum += sums[w];
            }
            if (keep) {
                const uint32_t i = kept + before + __popc(who & ((1u << lane) - 1));
                b.from[i] = from;
                b.to[i] = to;
                b.capacity[i] = capacity;
                const unsigned long long key =
                    TWICE ? (unsigned long long)capacity : (unsigned long long)capacity << 32 | (uint32_t)(i * MIX32);
                if (__ldcg(b.best + from) < key)
                    atomicMax(b.best + from, key);
                if (__ldcg(b.best + to) < key)
                    atomicMax(b.best + to, key);
            }
            kept += sum;
            __syncthreads();
        }
        end = kept;
        if (!all.any(end > first))
            break;
        if (TWICE) {
            for (uint32_t e = first + threadIdx.x; e < end; e += SOLVE_THREADS) {
                const unsigned long long capacity = b.capacity[e];
                const uint32_t id = e * MIX32;
                if (__ldcg(b.best + b.from[e]) == capacity)
                    atomicMax(b.which + b.from[e], id);
                if (__ldcg(b.best + b.to[e]) == capacity)
                    atomicMax(b.which + b.to[e], id);
            }
            all.wait();
        }
        bool hooked = false;
        for (uint32_t c = me; c < nodes; c += step) {
            if (__ldcg(b.label + c) != c)
                continue;
            const unsigned long long key = __ldcg(b.best + c);
            const word capacity = (word)(TWICE ? key : key >> 32);
            if (!key || (WHAT == INSIDE && capacity < __ldcg(b.beyond + c)))
                continue;
            const uint32_t id = TWICE ? __ldcg(b.which + c) : (uint32_t)key, e = id * UNMIX32;
            const uint32_t from = __ldcg(b.from + e), to = __ldcg(b.to + e), other = from == c ? to : from;
            /* if both ends choose this edge, the lower index is not hooked */
            if (c < other && __ldcg(b.best + other) == key && (!TWICE || __ldcg(b.which + other) == id)
                && (WHAT != INSIDE || capacity >= __ldcg(b.beyond + other)))
                continue;
            b.parent[c] = other;
            b.through[c] = capacity;
            hooked = true;
            if (WHAT == FOREST)
                ((edge_of<U> *)job.edge)[atomicAdd(job.count, 1u)] = {
                    job.first + __ldcg(b.number + c), job.first + __ldcg(b.number + other), (U)capacity};
        }
        if (!all.any(hooked))
            break;
        /* follow each chain of hooks, which may be long, to its end, SOLVE_STEPS at a time */
        for (bool more = true; more;) {
            more = false;
            for (uint32_t c = me; c < nodes; c += step) {
                const uint32_t was = __ldcg(b.label + c);
                uint32_t at = was, up = __ldcg(b.parent + at);
                for (int i = 0; i < SOLVE_STEPS && up != at; i++) {
                    at = up;
                    up = __ldcg(b.parent + at);
                }
                if (was == c) {
                    b.best[c] = 0;
                    if (TWICE)
                        b.which[c] = 0;
                }
                if (at == was)
                    continue;
                if (was == c)
                    b.parent[c] = at;
                if (up != at) {
                    more = true;
                    continue;
                }
                b.label[c] = at;
                if (was == c && WHAT == ALL) {
                    const word v = b.through[c], m = __ldcg(b.marker + c);
                    atomicMax(b.marker + at, v < m ? v : m);
                }
                if (was == c && WHAT == INSIDE)
                    atomicMax(b.beyond + at, __ldcg(b.beyond + c));
            }
            more = all.any(more);
        }
    }
    all.wait();
}

struct edge_part {
    uint32_t first, end;
};

__device__ __forceinline__ edge_part own_edges(uint32_t edges)
{
    const uint64_t part = ((uint64_t)edges + gridDim.x - 1) / gridDim.x, start = part * blockIdx.x;
    return {(uint32_t)(start < edges ? start : edges), (uint32_t)(start + part < edges ? start + part : edges)};
}

/* Computes the results of all nodes. */
template <class U> __device__ void solve_nodes(const recon_buffers<U> &b, grid_barrier &all, uint32_t *sums)
{
    typedef wide<U> word;
    const solve_job<U> job = {b, NULL, NULL, 0};
    const uint32_t nodes = load_now(&b.control->graph.nodes);
    edge_part mine = own_edges(nodes + (uint32_t)b.control->graph.crossing);
    solve<U, ALL>(job, all, sums, nodes, mine.first, mine.end);
    for (uint32_t c = blockIdx.x * blockDim.x + threadIdx.x; c < nodes; c += gridDim.x * blockDim.x) {
        word low = 0, high = (word)~(word)0;
        uint32_t at = c;
        for (uint32_t up; (up = __ldcg(b.parent + at)) != at; at = up) {
            low = max(low, min(high, (word)__ldcg(b.marker + at)));
            high = min(high, (word)__ldcg(b.through + at));
        }
        b.result[c] = max(low, min(high, (word)__ldcg(b.marker + at)));
    }
}

/* Contracts the nodes of a box to those of its entry. result[] becomes the smallest capacity on the path from a node to
 * the one that it is merged into, number[] the index of that, or NO_NUMBER if no path leads out of the box. */
enum : uint32_t { NO_NUMBER = 0xffffffffu };

template <class U> __global__ void __launch_bounds__(SOLVE_THREADS) summary_kernel(solve_job<U> job)
{
    typedef wide<U> word;
    typedef uint32_t memory[SOLVE_THREADS / 32];
    VP_SHARED(memory, sums);
    const recon_buffers<U> &b = job.b;
    grid_barrier all = {b.control, 0};
    const uint32_t nodes = load_now(&b.control->graph.nodes), me = blockIdx.x * blockDim.x + threadIdx.x,
                   step = gridDim.x * blockDim.x;
    edge_part mine = own_edges(nodes + (uint32_t)b.control->graph.crossing);
    solve<U, INSIDE>(job, all, sums, nodes, mine.first, mine.end);
    for (uint32_t c = me; c < nodes; c += step)
        b.number[c] = __ldcg(b.label + c) == c && __ldcg(b.beyond + c) ? atomicAdd(&b.control->graph.kept, 1u)
                                                                       : (uint32_t)NO_NUMBER;
    all.wait();
    for (uint32_t c = me; c < nodes; c += step) {
        word high = (word)~(word)0;
        uint32_t at = c;
        for (uint32_t up; (up = __ldcg(b.parent + at)) != at; at = up)
            high = min(high, (word)__ldcg(b.through + at));
        b.result[c] = high;
        if (at != c)
            b.number[c] = __ldcg(b.number + at);
    }
    all.wait();
    solve<U, FOREST>(job, all, sums, nodes, mine.first, mine.end);
}

/* ---- the kernel ---- */

/* Computes the values of all voxels from the results of the nodes. */
template <class U, int CONN> __device__ void apply(const recon_buffers<U> &b, int tiles)
{
    typedef tile_of<U, CONN> TILE;
    struct alignas(4 * sizeof(U)) key_quad {
        U v[4];
    };
    const int64_t n = (int64_t)tiles * TILE::P / 4, step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step) {
        const int64_t tile = 4 * i / TILE::P;
        int x, y, z;
        TILE::split((int)(4 * i % TILE::P), x, y, z);
        const uint32_t base = __ldcg(b.base + tile);
        const uint2 four = __ldcg((const uint2 *)(b.node + 4 * i));
        const uint32_t node[4] = {four.x & 0xffff, four.x >> 16, four.y & 0xffff, four.y >> 16};
        const key_quad low = *(const key_quad *)(b.low + 4 * i), high = *(const key_quad *)(b.high + 4 * i);
#pragma unroll
        for (int k = 0; k < 4; k++) {
            U v = low.v[k];
            if (node[k] != NO_NODE)
                v = max(v, min(high.v[k], (U)__ldcg(b.result + base + node[k])));
            b.value[tile * TILE::P + voxel_at<U, TILE::FLAT>(x + k, y, z)] = v;
        }
    }
}

/* The two steps of a held image after its graph is built, without the shared memory that limits the threads of
 * contract_kernel. All thread blocks of the first must be resident. */
template <class U> __global__ void __launch_bounds__(SOLVE_THREADS) solve_kernel(recon_buffers<U> b)
{
    typedef uint32_t memory[SOLVE_THREADS / 32];
    VP_SHARED(memory, sums);
    grid_barrier all = {b.control, 0};
    solve_nodes<U>(b, all, sums);
}

template <class U, int CONN> __global__ void __launch_bounds__(256) apply_kernel(recon_buffers<U> b, int tiles)
{
    apply<U, CONN>(b, tiles);
}

/* Builds the graph and solves it, to the end that the job names; returns at once if the queue of tiles left no work. All thread blocks must be
 * resident.
 * Shared memory: masks, labels and basins of a tile (about 14 bytes a voxel for keys of 8 bits). */
template <class U, int CONN, int THREADS>
__global__ void __launch_bounds__(THREADS, sizeof(U) == 1 ? 1024 / THREADS : 1) contract_kernel(contract_job<U> job)
{
    union memory {
        contract_memory<U, CONN> tile;
        cross_memory<U> cross;
        uint32_t sums[THREADS / 32];
    };
    VP_SHARED(memory, s);
    static_assert(THREADS == SOLVE_THREADS, "");
    if (!load_now(&job.b.control->contract))
        return;
    grid_barrier all = {job.b.control, 0};
    contract_tiles<U, CONN, THREADS>(job, s.tile);
    if (job.end == END_TILES)
        return;
    all.wait();
    cross_tiles<U, CONN, THREADS>(job, s.cross);
    if (job.end == END_EDGES)
        return;
    all.wait();
    solve_nodes<U>(job.b, all, s.sums);
    all.wait();
    apply<U, CONN>(job.b, job.s.tiles);
}

template <class U, int CONN> size_t contract_shared()
{
    return vp_max64(sizeof(contract_memory<U, CONN>), sizeof(cross_memory<U>));
}

}
