/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the kernels of morphological reconstruction: tiles, neighbours, and buffers in the scratch.
 *
 * All kernels work on unsigned keys (global/morphrecon.h). Marker and mask are stored tile by tile, padded with key 0
 * at the image's edge: key 0 raises no neighbour, so kernels need not test for the edge of the image. */
#pragma once

#include "launch.cuh"

#include <stdint.h>

/* Declares the dynamic shared memory of a thread block as a struct. */
#define VP_SHARED(type, name)                                                                                          \
    extern __shared__ uint4 vp_shared_memory[];                                                                        \
    type &name = *(type *)vp_shared_memory

namespace vp
{

/* ---- tiles ---- */

/* Side of a tile in voxels: flat tiles have the width that a warp holds in one row, bricks have 4096 voxels. */
template <class U, bool FLAT> constexpr int tile_side = FLAT ? (sizeof(U) <= 2 ? 64 : 32) : 16;

/* Size of an image. Flat tiles have one plane. */
struct recon_shape {
    int n[3], t[3], tiles; /* voxels and tiles along x, y, z; all tiles */
};

template <class U, bool FLAT> inline recon_shape recon_shape_of(const int64_t size[3])
{
    const int side = tile_side<U, FLAT>;
    recon_shape s;
    for (int a = 0; a < 3; a++) {
        s.n[a] = (int)size[a];
        s.t[a] = (int)(a == 2 && FLAT ? size[a] : vp_div_up(size[a], side));
    }
    s.tiles = s.t[0] * s.t[1] * s.t[2];
    return s;
}

/* Strips of flat tiles, WIDE x HIGH voxels in 16 bytes. voxel_at() returns the index of voxel (x, y, z) in its tile.
 * Bricks are in row-major order. Flat tiles are in the order in which a warp loads them into registers: a lane has one
 * or two columns, 16 bytes of them at a time, so that 32 lanes load 512 contiguous bytes, and a column of a
 * neighbouring tile lies in few pieces. */
template <class U> struct strip_of {
    enum { WIDE = sizeof(U) <= 2 ? 2 : 1, HIGH = 16 / (WIDE * (int)sizeof(U)) };
};
template <class U, bool FLAT> __host__ __device__ __forceinline__ int voxel_at(int x, int y, int z)
{
    enum { WIDE = strip_of<U>::WIDE, HIGH = strip_of<U>::HIGH };
    if (!FLAT)
        return (z * 16 + y) * 16 + x;
    return ((y / HIGH * 32 + x / WIDE) * HIGH + y % HIGH) * WIDE + x % WIDE;
}

/* Directions to neighbours, one of each opposite pair: flat 4 and 8, solid 6, 18 and 26. A table for each axis: with
 * one for all three the compiler uses 70 registers instead of 56. */
template <int CONN> struct directions {
    static constexpr bool FLAT = CONN == 4 || CONN == 8;
    static constexpr int N = CONN / 2;
    __host__ __device__ static constexpr int x(int k)
    {
        constexpr int t[13] = {1, 0, 0, 1, -1, 1, -1, 0, 0, 1, -1, 1, -1};
        return t[FLAT && k >= 2 ? k + 1 : k];
    }
    __host__ __device__ static constexpr int y(int k)
    {
        constexpr int t[13] = {0, 1, 0, 1, 1, 0, 0, 1, -1, 1, 1, -1, -1};
        return t[FLAT && k >= 2 ? k + 1 : k];
    }
    __host__ __device__ static constexpr int z(int k)
    {
        constexpr int t[13] = {0, 0, 1, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1};
        return t[FLAT && k >= 2 ? k + 1 : k];
    }
};

/* The type of a key for atomicMax in device and shared memory. */
template <class U> struct wide_of {
    typedef uint32_t type;
};
template <> struct wide_of<uint64_t> {
    typedef unsigned long long type;
};
template <class U> using wide = typename wide_of<U>::type;

/* ---- buffers ---- */

enum { RECON_VOTES = 8 };

/* Counters of one launch; all 0 at first. */
struct recon_control {
    /* the queue of tiles, each counter in a cache line of its own */
    uint32_t head, unused0[31];  /* tickets drawn by consumers */
    uint32_t tail, unused1[31];  /* tickets drawn by producers */
    int pending;                 /* tiles queued or in process */
    uint32_t unused2[31];
    uint32_t stop;               /* the queue was abandoned */
    uint32_t contract;           /* the contraction has work */
    uint32_t unused3[30];
    struct {
        uint32_t ticket[2];      /* tiles drawn by the two stages of the contraction */
        uint32_t nodes;          /* nodes of all tiles */
        uint32_t kept;           /* nodes of a box that are part of its entry */
        unsigned long long crossing; /* edges between tiles; like nodes they are counted beyond the room for them */
    } graph;
    struct {
        uint32_t barrier, vote[RECON_VOTES];
    } grid;
    unsigned long long clipped, nan; /* samples counted for the report */
};

template <class U> struct recon_buffers {
    recon_control *control;
    U *value, *mask;  /* keys, by tiles */
    U *transposed;    /* masks of flat tiles with x and y exchanged */
    uint32_t *slot;   /* ring buffer of the queue */
    uint32_t slots;   /* its size, a power of two */
    uint32_t *state;  /* flags of each tile */
    /* contraction, for each voxel in row-major order within its tile */
    U *low, *high;    /* value = max(low, min(high, result of the node)) */
    uint16_t *node;   /* node index in its tile, or NO_NODE */
    uint32_t node_room, edge_room; /* numbers for which there is room below: no fewer edges than nodes */
    /* for each tile */
    uint32_t *base;   /* index of its first node */
    /* for each node */
    uint32_t *label, *parent;
    wide<U> *marker, *through, *result;
    wide<U> *beyond;  /* boxes: capacity of the best way out of the box */
    uint32_t *number; /* boxes: index in the entry */
    unsigned long long *best;
    uint32_t *which;  /* keys of 64 bits only */
    /* for each edge; the index of an edge within a tile is that of a node, edges between tiles follow */
    uint32_t *from, *to;
    U *capacity;
};

enum { NO_NODE = 0xffff };

/* Flags of a tile: it is queued (by a neighbour above, below or at a corner, or by one on the left or right), it is in
 * process. */
enum : uint32_t { QUEUED = 1, UNDER_WAY = 2, FROM_ROW = 4, FROM_COLUMN = 8 };

__device__ __forceinline__ uint32_t load_now(const uint32_t *p)
{
    uint32_t v;
    asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
    return v;
}

/* Orders memory accesses of this thread at device scope (acquire and release). */
__device__ __forceinline__ void fence()
{
    asm volatile("fence.acq_rel.gpu;" ::: "memory");
}

__device__ __forceinline__ uint64_t nanoseconds()
{
    uint64_t t;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
    return t;
}

/* Launches a kernel whose blocks synchronise with each other, so that all must be resident (cooperative launch). */
template <class... P, class... A>
cudaError_t launch_cooperative(cudaStream_t stream, void (*kernel)(P...), dim3 blocks, dim3 threads, size_t shared,
                               const A &...args)
{
    cudaLaunchAttribute cooperative = {};
    cooperative.id = cudaLaunchAttributeCooperative;
    cooperative.val.cooperative = 1;
    return vp_launch_with(&cooperative, stream, kernel, blocks, threads, shared, args...);
}

}
