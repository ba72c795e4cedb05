/* SPDX-License-Identifier: BSD-3-Clause */
/* Reconstruction by contraction: rounds of Boruvka's algorithm over the voxels of each tile, then over the components
 * that remain. The time does not depend on how the paths wind.
 *
 * Overview: the capacity of an edge is the smaller mask of its ends. Let v be the largest capacity among the edges of a
 *   vertex u, and w the other end of such an edge. Then the result R(u) = max(marker(u), min(v, R(w))) exactly, since
 *   any path into u brings at most v, and the edge from w attains it. So u is hooked to w: its result follows from
 *   R(w), and w takes over its edges and its marker, as min(v, marker(u)). Capacities never decrease along a chain of
 *   hooks, so only its end matters: R(u) = max(marker(u), min(v, R(end))). Every round at least halves the number of
 *   components with edges. Ties are broken by hashed indices: a flat corridor would be one long chain otherwise.
 *     Within a tile a component whose best edge leaves the tile cannot be hooked: it becomes a node. The rest of the
 *     tile
 *   is summarised by a forest of the best paths between its nodes, found by the same rounds without the edges that
 *   leave the tile. Nodes are few (under one voxel in a hundred in most images, at most one for each voxel at the
 *   tile's border). They are solved with the edges between tiles in the same way, by the whole device
 *   (morphrecon_solve.cuh).
 *     A voxel whose value equals its mask is final: it passes its value to its neighbours and is left out. So little is
 *   left to contract after the queue of active tiles. */
#pragma once

#include "morphrecon.cuh"

#include <type_traits>

namespace vp
{

/* ---- tiles ---- */

/* Geometry of a tile, also with its halo of one voxel in shared memory. */
template <class U, int CONN> struct tile_of {
    typedef directions<CONN> D;
    static constexpr bool FLAT = D::FLAT;
    static constexpr int T = tile_side<U, FLAT>, DEPTH = FLAT ? 1 : T, P = T * T * DEPTH;
    static constexpr int W = T + 2, HALO = W * W * (FLAT ? 1 : W);
    static constexpr int RIM = FLAT ? 4 * T - 4 : P - (T - 2) * (T - 2) * (T - 2); /* voxels at the border */

    static __device__ __forceinline__ void split(int p, int &x, int &y, int &z)
    {
        x = p % T;
        y = p / T % T;
        z = p / (T * T);
    }
    static __device__ __forceinline__ int with_halo(int x, int y, int z)
    {
        return ((FLAT ? 0 : z + 1) * W + y + 1) * W + x + 1;
    }
    static __device__ __forceinline__ bool inside(int x, int y, int z)
    {
        return x >= 0 && x < T && y >= 0 && y < T && z >= 0 && z < DEPTH;
    }
    __host__ __device__ static constexpr int step(int k) /* in the tile */
    {
        return (D::z(k) * T + D::y(k)) * T + D::x(k);
    }
    __host__ __device__ static constexpr int halo_step(int k)
    {
        return (D::z(k) * W + D::y(k)) * W + D::x(k);
    }
    /* Returns the number of pairs of neighbours of which one is in this tile and one in a later tile. */
    static constexpr int crossings()
    {
        int n = 0;
        for (int k = 0; k < D::N; k++)
            n += P - (T - (D::x(k) != 0)) * (T - (D::y(k) != 0)) * (DEPTH - (D::z(k) != 0));
        return n;
    }
};

/* Returns the offset of the tile that contains voxel (x, y, z) next to this tile, and makes x, y, z relative to it; -1
 * outside the image. */
template <class TILE>
__device__ __forceinline__ int64_t tile_beside(const recon_shape &s, int tx, int ty, int tz, int &x, int &y, int &z)
{
    constexpr int T = TILE::T, DEPTH = TILE::DEPTH;
    tx += x < 0 ? -1 : x >= T;
    ty += y < 0 ? -1 : y >= T;
    tz += z < 0 ? -1 : z >= DEPTH;
    if (tx < 0 || ty < 0 || tz < 0 || tx >= s.t[0] || ty >= s.t[1] || tz >= s.t[2])
        return -1;
    x &= T - 1;
    y &= T - 1;
    z &= DEPTH - 1;
    return ((int64_t)(tz * s.t[1] + ty) * s.t[0] + tx) * TILE::P;
}

/* Returns a hash of a voxel's index in its tile, a bijection. */
__device__ __forceinline__ uint32_t mixed(uint32_t p)
{
    p ^= p >> 5;
    p = p * 0x2c5u & 0xfff;
    p ^= p >> 7;
    p = p * 0x58du & 0xfff;
    return p ^ p >> 6;
}

/* Hashes of edge indices: multiplication by an odd number, and its inverse. */
constexpr uint32_t inverse_of(uint32_t odd)
{
    uint32_t x = odd;
    for (int i = 0; i < 6; i++)
        x *= 2 - odd * x;
    return x;
}
constexpr uint32_t MIX16 = 0x9e3b, UNMIX16 = inverse_of(MIX16) & 0xffff;
constexpr uint32_t MIX32 = 0x9e3779b1u, UNMIX32 = inverse_of(MIX32);

/* ---- the best edge of a component of a tile ---- */

/* Word for the atomic maximum: capacity, then the hashed edge index with a bit above it; 0 is no edge. */
template <class U> struct best_words {
    typedef typename std::conditional<sizeof(U) == 1, uint32_t, unsigned long long>::type word;
    enum { SCANS = 1 };
};
template <> struct best_words<uint64_t> {
    typedef unsigned long long word;
    enum { SCANS = 2 }; /* first the capacity, then the edge index */
};

template <class U, int CONN> struct contract_memory {
    typedef tile_of<U, CONN> TILE;
    enum { MOST = TILE::P / 2 }; /* limit of basins: no two of their peaks are neighbours */
    U mask[TILE::HALO];
    uint16_t basin[TILE::P]; /* for each voxel: first a higher voxel, then its basin, then its node */
    union {
        uint16_t number[TILE::P]; /* basin index of a peak */
        struct {
            uint16_t label[MOST], parent[MOST];
        } of;
    };
    /* for each voxel its edges that are still in use, as bits of directions; private to one thread */
    typename std::conditional<(directions<CONN>::N > 8), uint16_t, uint8_t>::type live[TILE::P];
    alignas(16) U through[MOST];
    union {
        U final_value[TILE::HALO]; /* values of final voxels, 0 for others */
        struct {
            wide<U> marker[MOST], leaving[MOST];
            union {
                typename best_words<U>::word best[MOST];
                uint16_t node[MOST]; /* node of a component, between the rounds */
            };
            uint32_t which[sizeof(U) == 8 ? MOST : 1];
        } c;
    };
    int basins, nodes;
    uint32_t base, tile;
};

/* The last step of a launch: the graph within tiles; the edges between tiles; the values of all voxels. */
enum contract_end { END_TILES, END_EDGES, END_VALUES };

template <class U> struct contract_job {
    recon_buffers<U> b;
    recon_shape s;
    bool outside[6]; /* other boxes adjoin this one: below and above in x, y, z */
    int first, last; /* tiles [first, last) are contracted, by a ticket each */
    enum contract_end end;
};

template <class T> __device__ __forceinline__ void raise(T *p, T v)
{
    if (*(volatile T *)p < v)
        atomicMax(p, v);
}

/* Runs Boruvka's rounds over n vertices of a tile, to which voxels belong by s.basin[]. FOREST: edges that leave the
 * tile are ignored, and every edge that is used is stored. */
template <class U, int CONN, int THREADS, bool FOREST>
__device__ void rounds(contract_memory<U, CONN> &s, int n, const recon_buffers<U> &b)
{
    typedef tile_of<U, CONN> TILE;
    typedef directions<CONN> D;
    typedef typename best_words<U>::word word;
    constexpr int EACH = TILE::P / THREADS, SCANS = best_words<U>::SCANS;
    const int thread = (int)threadIdx.x;

    for (;;) {
        for (int c = thread; c < n; c += THREADS) {
            s.c.best[c] = 0;
            if (SCANS == 2)
                s.c.which[c] = 0;
        }
        __syncthreads();
#pragma unroll
        for (int scan = 0; scan < SCANS; scan++) {
#pragma unroll(D::N <= 4 ? 2 : 1)
            for (int i = 0; i < EACH; i++) {
                const int p = i * THREADS + thread;
                const uint32_t live = s.live[p];
                uint32_t left = live;
                if (!live)
                    continue;
                int x, y, z;
                TILE::split(p, x, y, z);
                const int h = TILE::with_halo(x, y, z);
                const uint32_t mine = s.of.label[s.basin[p]];
                const U g = s.mask[h];
                word own = 0;
                uint32_t own_which = 0;
#pragma unroll
                for (int k = 0; k < D::N; k++) {
                    if (!(live >> k & 1))
                        continue;
                    const uint32_t other = s.of.label[s.basin[p + TILE::step(k)]];
                    if (other == mine) {
                        left &= ~(1u << k);
                        continue;
                    }
                    const U capacity = min(g, s.mask[h + TILE::halo_step(k)]);
                    const uint32_t id = 1u << 16 | ((uint32_t)(p * D::N + k) * MIX16 & 0xffff);
                    if (SCANS == 1) {
                        const word key = (word)capacity << 17 | id;
                        own = max(own, key);
                        raise(&s.c.best[other], key);
                    } else if (scan == 0) {
                        own = max(own, (word)capacity);
                        raise(&s.c.best[other], (word)capacity);
                    } else {
                        if ((word)capacity == s.c.best[other])
                            raise(&s.c.which[other], id);
                        if ((word)capacity == s.c.best[mine])
                            own_which = max(own_which, id);
                    }
                }
                if (left != live)
                    s.live[p] = left;
                if (scan == 0 && own)
                    raise(&s.c.best[mine], own);
                if (scan == 1 && own_which)
                    raise(&s.c.which[mine], own_which);
            }
            __syncthreads();
        }
        int hooked = 0;
        for (int c = thread; c < n; c += THREADS) {
            if (s.of.label[c] != c)
                continue;
            const word key = s.c.best[c];
            const uint32_t id = SCANS == 1 ? (uint32_t)key & 0x1ffff : s.c.which[c];
            const U capacity = (U)(SCANS == 1 ? key >> 17 : key);
            if (!id || (!FOREST && capacity < (U)s.c.leaving[c]))
                continue;
            const uint32_t e = (id & 0xffff) * UNMIX16 & 0xffff;
            const int k = (int)(e % D::N), p = (int)(e / D::N);
            int q = p;
#pragma unroll
            for (int j = 0; j < D::N; j++)
                q += j == k ? TILE::step(j) : 0;
            const uint32_t at_p = s.of.label[s.basin[p]], at_q = s.of.label[s.basin[q]];
            const uint32_t other = at_p == (uint32_t)c ? at_q : at_p;
            /* if both ends choose this edge, the lower index is not hooked */
            const bool same = s.c.best[other] == key && (SCANS == 1 || s.c.which[other] == id)
                              && (FOREST || capacity >= (U)s.c.leaving[other]);
            if (same && (uint32_t)c < other)
                continue;
            s.of.parent[c] = (uint16_t)other;
            s.through[c] = capacity;
            hooked = 1;
            if (FOREST && s.base + c < b.node_room) {
                b.from[s.base + c] = s.base + s.basin[p];
                b.to[s.base + c] = s.base + s.basin[q];
                b.capacity[s.base + c] = capacity;
            }
        }
        if (!__syncthreads_or(hooked))
            break;
        for (int c = thread; c < n; c += THREADS) {
            const uint32_t was = s.of.label[c];
            uint32_t end = was, up;
            while ((up = *(volatile uint16_t *)&s.of.parent[end]) != end)
                end = up;
            s.of.label[c] = (uint16_t)end;
            if (was == (uint32_t)c && end != was) {
                s.of.parent[c] = (uint16_t)end;
                if (!FOREST) {
                    raise(&s.c.marker[end], (wide<U>)min((U)s.c.marker[c], s.through[c]));
                    raise(&s.c.leaving[end], s.c.leaving[c]);
                }
            }
        }
        __syncthreads();
    }
}

/* Builds the graph within tiles, one tile at a time. Cost: a few rounds over the voxels that still adjoin another
 * component. */
template <class U, int CONN, int THREADS>
__device__ void contract_tiles(const contract_job<U> &job, contract_memory<U, CONN> &s)
{
    typedef contract_memory<U, CONN> memory;
    typedef tile_of<U, CONN> TILE;
    typedef directions<CONN> D;
    constexpr int T = TILE::T, P = TILE::P, EACH = P / THREADS, BASINS = (memory::MOST + THREADS - 1) / THREADS;
    const recon_buffers<U> &b = job.b;
    const int thread = (int)threadIdx.x;

    for (;;) {
        __syncthreads();
        if (thread == 0) {
            s.tile = atomicAdd(&b.control->graph.ticket[0], 1u);
            s.basins = s.nodes = 0;
        }
        __syncthreads();
        const int tile = job.first + (int)s.tile;
        if (tile >= job.last)
            break;
        const int tx = tile % job.s.t[0], ty = tile / job.s.t[0] % job.s.t[1], tz = tile / (job.s.t[0] * job.s.t[1]);
        const int64_t at = (int64_t)tile * P;

        /* masks; final voxels pass on their values and are left out */
        for (int h = thread; h < TILE::HALO; h += THREADS) {
            int x = h % TILE::W - 1, y = h / TILE::W % TILE::W - 1, z = TILE::FLAT ? 0 : h / (TILE::W * TILE::W) - 1;
            const int64_t t = TILE::inside(x, y, z) ? at : tile_beside<TILE>(job.s, tx, ty, tz, x, y, z);
            const int i = voxel_at<U, TILE::FLAT>(x, y, z);
            const U g = t < 0 ? (U)0 : b.mask[t + i], v = t < 0 ? (U)0 : b.value[t + i];
            s.mask[h] = v == g ? (U)0 : g;
            s.final_value[h] = v == g ? g : (U)0;
        }
        __syncthreads();

        /* find the highest neighbour that is not lower */
#pragma unroll(D::N <= 4 ? 2 : 1)
        for (int i = 0; i < EACH; i++) {
            const int p = i * THREADS + thread;
            int x, y, z;
            TILE::split(p, x, y, z);
            const int h = TILE::with_halo(x, y, z);
            const U g = s.mask[h];
            const bool rim = x == 0 || y == 0 || x == T - 1 || y == T - 1 || (!TILE::FLAT && (z == 0 || z == T - 1));
            U value = b.value[at + voxel_at<U, TILE::FLAT>(x, y, z)], best = g, received = 0;
            uint32_t rank = mixed(p);
            int higher = p;
            if (g) {
#pragma unroll
                for (int k = 0; k < 2 * D::N; k++) {
                    const int sign = k < D::N ? 1 : -1, d = k < D::N ? k : k - D::N;
                    const int dx = sign * D::x(d), dy = sign * D::y(d), dz = sign * D::z(d);
                    const int to = h + sign * TILE::halo_step(d);
                    const U other = s.mask[to];
                    received = max(received, s.final_value[to]);
                    if (other < best || (rim && !TILE::inside(x + dx, y + dy, z + dz)))
                        continue;
                    const uint32_t r = mixed(p + sign * TILE::step(d));
                    if (other > best || r > rank) {
                        best = other;
                        rank = r;
                        higher = p + sign * TILE::step(d);
                    }
                }
                value = max(value, min(g, received));
            }
            b.low[at + p] = value;
            s.basin[p] = (uint16_t)higher;
        }
        __syncthreads();
        /* follow to the peak by pointer jumping: entries only change to higher voxels of the same path */
        for (;;) {
            int moved = 0;
#pragma unroll
            for (int i = 0; i < EACH; i++) {
                const int p = i * THREADS + thread;
                volatile uint16_t *const up = s.basin;
                const uint32_t q = up[p], r = up[q];
                if (r != q) {
                    up[p] = up[r];
                    moved = 1;
                }
            }
            if (!__syncthreads_or(moved))
                break;
        }
        /* number the basins */
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            const int p = i * THREADS + thread;
            int x, y, z;
            TILE::split(p, x, y, z);
            const bool peak = s.basin[p] == p && s.mask[TILE::with_halo(x, y, z)];
            const uint32_t peaks = __ballot_sync(~0u, peak);
            int first = 0;
            if (peaks) {
                if (thread % 32 == 0)
                    first = atomicAdd(&s.basins, __popc(peaks));
                first = __shfl_sync(~0u, first, 0);
            }
            if (s.basin[p] == p)
                s.number[p] = (uint16_t)(peak ? first + __popc(peaks & ((1u << thread % 32) - 1)) : NO_NODE);
        }
        __syncthreads();
        const int n = s.basins;
        uint16_t own[EACH];
#pragma unroll
        for (int i = 0; i < EACH; i++)
            own[i] = s.number[s.basin[i * THREADS + thread]];
        __syncthreads();
#pragma unroll
        for (int i = 0; i < EACH; i++)
            s.basin[i * THREADS + thread] = own[i];
        for (int c = thread; c < n; c += THREADS) {
            s.of.label[c] = s.of.parent[c] = (uint16_t)c;
            s.c.marker[c] = s.c.leaving[c] = 0;
        }
        __syncthreads();
        /* edges between basins, the best edge that leaves the tile, the highest marker */
#pragma unroll(D::N <= 4 ? 2 : 1)
        for (int i = 0; i < EACH; i++) {
            const int p = i * THREADS + thread;
            int x, y, z;
            TILE::split(p, x, y, z);
            const int h = TILE::with_halo(x, y, z);
            const U g = s.mask[h];
            uint32_t live = 0;
            s.live[p] = 0;
            if (!g)
                continue;
            const bool rim = x == 0 || y == 0 || x == T - 1 || y == T - 1 || (!TILE::FLAT && (z == 0 || z == T - 1));
            const uint32_t mine = s.basin[p];
            U leaving = 0;
#pragma unroll
            for (int k = 0; k < D::N; k++) {
                const U other = s.mask[h + TILE::halo_step(k)];
                if (rim && !TILE::inside(x + D::x(k), y + D::y(k), z + D::z(k)))
                    leaving = max(leaving, min(g, other));
                else if (other && s.basin[p + TILE::step(k)] != mine)
                    live |= 1u << k;
            }
            s.live[p] = live;
            if (rim) {
#pragma unroll
                for (int k = 0; k < D::N; k++)
                    if (!TILE::inside(x - D::x(k), y - D::y(k), z - D::z(k)))
                        leaving = max(leaving, min(g, s.mask[h - TILE::halo_step(k)]));
            }
            if ((job.outside[0] && x + tx * T == 0) || (job.outside[1] && x + tx * T == job.s.n[0] - 1)
                || (job.outside[2] && y + ty * T == 0) || (job.outside[3] && y + ty * T == job.s.n[1] - 1)
                || (job.outside[4] && z + tz * TILE::DEPTH == 0)
                || (job.outside[5] && z + tz * TILE::DEPTH == job.s.n[2] - 1))
                leaving = g;
            if (leaving)
                raise(&s.c.leaving[mine], (wide<U>)leaving);
            const U value = b.low[at + p];
            if (value)
                raise(&s.c.marker[mine], (wide<U>)value);
        }
        __syncthreads();
        rounds<U, CONN, THREADS, false>(s, n, b);

        /* components whose best edge leaves the tile are the nodes */
        for (int c = thread; c < n; c += THREADS)
            s.c.node[c] = s.of.label[c] == c && s.c.leaving[c] ? (uint16_t)atomicAdd(&s.nodes, 1) : (uint16_t)NO_NODE;
        __syncthreads();
        if (thread == 0)
            b.base[tile] = s.base = atomicAdd(&b.control->graph.nodes, (uint32_t)s.nodes);
        /* R = max(low, min(high, R of the component)); R of a component without edges is its marker */
        U low[BASINS], high[BASINS];
#pragma unroll
        for (int i = 0; i < BASINS; i++) {
            const int c = i * THREADS + thread;
            low[i] = 0;
            high[i] = (U)~(U)0;
            if (c >= n)
                continue;
            int end = c;
            for (int up; (up = s.of.parent[end]) != end; end = up) {
                low[i] = max(low[i], min(high[i], (U)s.c.marker[end]));
                high[i] = min(high[i], s.through[end]);
            }
            if (s.c.node[end] == NO_NODE) {
                low[i] = max(low[i], min(high[i], (U)s.c.marker[end]));
                high[i] = 0;
            }
        }
        __syncthreads();
        for (int c = thread; c < n; c += THREADS)
            if (s.c.node[c] != NO_NODE && s.base + s.c.node[c] < b.node_room) {
                b.marker[s.base + s.c.node[c]] = s.c.marker[c];
                b.capacity[s.base + s.c.node[c]] = 0;
            }
        __syncthreads();
#pragma unroll
        for (int i = 0; i < BASINS; i++) {
            const int c = i * THREADS + thread;
            if (c < n) {
                s.c.marker[c] = low[i];
                s.through[c] = high[i];
            }
        }
        __syncthreads();
        /* the same for voxels */
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            const int p = i * THREADS + thread;
            int x, y, z;
            TILE::split(p, x, y, z);
            const U g = s.mask[TILE::with_halo(x, y, z)];
            const uint32_t basin = s.basin[p];
            uint32_t node = NO_NODE;
            U upper = 0;
            if (basin != NO_NODE) {
                node = s.c.node[s.of.label[basin]];
                upper = node == NO_NODE ? (U)0 : min(g, s.through[basin]);
                const U lower = min(g, (U)s.c.marker[basin]);
                if (lower > b.low[at + p])
                    b.low[at + p] = lower;
            }
            b.high[at + p] = upper;
            b.node[at + p] = (uint16_t)node;
            own[i] = (uint16_t)node;
        }
        __syncthreads();
#pragma unroll
        for (int i = 0; i < EACH; i++)
            s.basin[i * THREADS + thread] = own[i];
        const int nodes = s.nodes;
        for (int c = thread; c < nodes; c += THREADS)
            s.of.label[c] = s.of.parent[c] = (uint16_t)c;
        __syncthreads();
#pragma unroll 1
        for (int i = 0; i < EACH; i++) {
            const int p = i * THREADS + thread;
            uint32_t live = s.live[p];
#pragma unroll
            for (int k = 0; k < D::N; k++)
                if ((live >> k & 1) && s.basin[p] == s.basin[p + TILE::step(k)])
                    live &= ~(1u << k);
            s.live[p] = live;
        }
        rounds<U, CONN, THREADS, true>(s, nodes, b);
    }
}

/* ---- edges between tiles ---- */

enum { CROSS_TABLE = 1024 };

template <class U> struct cross_memory {
    unsigned long long pair[CROSS_TABLE];
    wide<U> capacity[CROSS_TABLE];
    unsigned long long base;
    uint32_t count, tile;
};

/* Stores the edges between tiles, each pair of nodes once unless the hash table overflows. */
template <class U, int CONN, int THREADS> __device__ void cross_tiles(const contract_job<U> &job, cross_memory<U> &s)
{
    typedef tile_of<U, CONN> TILE;
    typedef directions<CONN> D;
    constexpr int T = TILE::T, P = TILE::P;
    const recon_buffers<U> &b = job.b;
    const int thread = (int)threadIdx.x;

    const uint32_t nodes = load_now(&b.control->graph.nodes);
    for (int i = thread; i < CROSS_TABLE; i += THREADS)
        s.pair[i] = s.capacity[i] = 0;
    for (;;) {
        __syncthreads();
        if (thread == 0) {
            s.tile = atomicAdd(&b.control->graph.ticket[1], 1u);
            s.count = 0;
        }
        __syncthreads();
        const int tile = (int)s.tile;
        if (tile >= job.s.tiles)
            break;
        const int tx = tile % job.s.t[0], ty = tile / job.s.t[0] % job.s.t[1], tz = tile / (job.s.t[0] * job.s.t[1]);
        const int64_t at = (int64_t)tile * P;
        const uint32_t base = b.base[tile];
        for (int i = thread; i < (TILE::FLAT ? 4 * T : 6 * T * T); i += THREADS) { /* the tile's faces */
            int x, y, z = 0;
            bool again; /* at a face before this one */
            if (TILE::FLAT) {
                const int f = i / T, j = i % T;
                x = f == 0 ? 0 : f == 1 ? T - 1 : j;
                y = f == 2 ? 0 : f == 3 ? T - 1 : j;
                again = f >= 2 && (x == 0 || x == T - 1);
            } else {
                const int f = i / (T * T), j = i % T, l = i / T % T;
                x = f == 0 ? 0 : f == 1 ? T - 1 : j;
                y = f == 2 ? 0 : f == 3 ? T - 1 : f < 2 ? j : l;
                z = f == 4 ? 0 : f == 5 ? T - 1 : l;
                again = (f >= 2 && (x == 0 || x == T - 1)) || (f >= 4 && (y == 0 || y == T - 1));
            }
            const int64_t p = at + (z * T + y) * T + x;
            if (again || b.node[p] == NO_NODE)
                continue;
            const U g = b.mask[at + voxel_at<U, TILE::FLAT>(x, y, z)];
            const uint32_t from = base + b.node[p];
#pragma unroll
            for (int k = 0; k < D::N; k++) {
                int qx = x + D::x(k), qy = y + D::y(k), qz = z + D::z(k);
                if (TILE::inside(qx, qy, qz))
                    continue;
                const int64_t t = tile_beside<TILE>(job.s, tx, ty, tz, qx, qy, qz), q = t + (qz * T + qy) * T + qx;
                if (t < 0 || b.node[q] == NO_NODE)
                    continue;
                const U capacity = min(g, b.mask[t + voxel_at<U, TILE::FLAT>(qx, qy, qz)]);
                const uint32_t to = b.base[t / P] + b.node[q];
                const unsigned long long pair = (unsigned long long)(from + 1) << 32 | to;
                uint32_t slot = from * 0x9e3779b1u ^ to * 0x85ebca6bu;
                slot = (slot ^ slot >> 15) & (CROSS_TABLE - 1);
                bool known = false;
                for (int turn = 0; turn < 16 && !known; turn++, slot = (slot + 1) & (CROSS_TABLE - 1)) {
                    unsigned long long there = *(volatile unsigned long long *)&s.pair[slot];
                    if (there == 0)
                        there = atomicCAS(&s.pair[slot], 0ull, pair);
                    known = there == 0 || there == pair;
                    if (known)
                        raise(&s.capacity[slot], (wide<U>)capacity);
                }
                if (!known) {
                    const uint64_t e = nodes + atomicAdd(&b.control->graph.crossing, 1ull);
                    if (e >= b.edge_room)
                        continue;
                    b.from[e] = from;
                    b.to[e] = to;
                    b.capacity[e] = capacity;
                }
            }
        }
        __syncthreads();
        uint32_t mine = 0;
        for (int i = thread; i < CROSS_TABLE; i += THREADS)
            mine += s.pair[i] != 0;
        uint64_t e = mine ? atomicAdd(&s.count, mine) : 0;
        __syncthreads();
        if (thread == 0)
            s.base = nodes + atomicAdd(&b.control->graph.crossing, (unsigned long long)s.count);
        __syncthreads();
        e += s.base;
        for (int i = thread; i < CROSS_TABLE; i += THREADS) {
            if (!s.pair[i])
                continue;
            if (e < b.edge_room) {
                b.from[e] = (uint32_t)(s.pair[i] >> 32) - 1;
                b.to[e] = (uint32_t)s.pair[i];
                b.capacity[e] = (U)s.capacity[i];
            }
            e++;
            s.pair[i] = s.capacity[i] = 0;
        }
    }
}

}
