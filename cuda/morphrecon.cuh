/* SPDX-License-Identifier: BSD-3-Clause */
/* What the kernels of morphological reconstruction share: keys, tiles, neighbours, and what lies where in the scratch.
 *
 * All of them work on unsigned keys (global/morphrecon.h), marker and mask in tiles of their own, one after another in
 * memory and filled up with key 0 at the image's edge: key 0 brings nothing anywhere, so a tile knows no edge of the
 * image. */
#ifndef VP_MORPHRECON_CUH
#define VP_MORPHRECON_CUH

#include "launch.cuh"

#include <stdint.h>

/* The dynamic shared memory of a thread block as a struct. */
#define VP_SHARED(type, name)                                                                                          \
    extern __shared__ uint4 vp_shared_memory[];                                                                        \
    type &name = *(type *)vp_shared_memory

namespace vp
{

/* ---- tiles ---- */

/* Side of a tile: flat ones are as wide as a warp holds in one row, bricks have 4096 voxels. */
template <class U, bool FLAT> constexpr int tile_side = FLAT ? (sizeof(U) <= 2 ? 64 : 32) : 16;

/* n voxels, in t tiles, along x, y, z. Flat tiles have one plane. */
struct recon_shape {
    int n[3], t[3], tiles;
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

/* Where voxel (x, y, z) of a tile lies in it. Bricks are plain; flat tiles are as a warp takes them into registers: a
 * lane has one or two columns, 16 bytes of them at a time, so that 32 lanes read 512 bytes in a row, and a column of
 * the tile beside this one lies in few pieces. */
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

/* Directions: one of each pair of opposite ones. Flat 4 and 8, solid 6, 18 and 26. A table
 * for each axis: with one for all three the compiler took 70 registers instead of 56. */
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

/* Words that device memory and shared memory have an atomic maximum for. */
template <class U> struct wide_of {
    typedef uint32_t type;
};
template <> struct wide_of<uint64_t> {
    typedef unsigned long long type;
};
template <class U> using wide = typename wide_of<U>::type;

/* ---- what is where ---- */

enum { RECON_VOTES = 8 };

/* Counters of one launch; all 0 at first. */
struct recon_control {
    uint32_t head, unused0[31]; /* the queue of tiles: tickets taken, tickets given, */
    uint32_t tail, unused1[31];
    int pending; /* and tiles that are queued or under way */
    uint32_t unused2[31];
    uint32_t stop;   /* the queue was given up */
    uint32_t contract; /* what follows the queue has something to do */
    uint32_t unused3[30];
    struct {
        uint32_t ticket[2]; /* tiles taken by the kernels of the contraction */
        uint32_t nodes, crossing;
        uint32_t kept;      /* nodes of a box that become its entry's */
    } graph;
    struct {
        uint32_t barrier, vote[RECON_VOTES];
    } meeting;
    unsigned long long clipped, nan;
};

template <class U> struct recon_buffers {
    recon_control *control;
    U *value, *mask;  /* tiles */
    U *turned;        /* masks of flat tiles with x and y exchanged */
    uint32_t *slot;   /* the queue, a power of two of them */
    uint32_t slots;
    uint32_t *state;  /* of a tile */
    /* The contraction: of voxels */
    U *low, *high;    /* value = max(low, min(high, value of the node)) */
    uint16_t *node;   /* number in its tile, NO_NODE */
    uint32_t *base;   /* of a tile: the number of its first node */
    /* of nodes */
    uint32_t *label, *parent;
    wide<U> *marker, *through, *result;
    wide<U> *beyond;  /* the best way out of the box, and the number in its entry: for those of boxes only */
    uint32_t *number;
    unsigned long long *best;
    uint32_t *which;  /* keys of 64 bits only */
    /* of edges: those within tiles have the number of a node, the others follow */
    uint32_t *from, *to;
    U *capacity;
};

enum { NO_NODE = 0xffff };

/* Tiles: whether one is to be visited (and who asked for it: a tile above, below or at a corner, one at the left or
 * right), and whether somebody is there. */
enum : uint32_t { QUEUED = 1, UNDER_WAY = 2, FROM_ROW = 4, FROM_COLUMN = 8 };

__device__ __forceinline__ uint32_t load_now(const uint32_t *p)
{
    uint32_t v;
    asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
    return v;
}

/* What was written before is seen by whoever sees what is written after; reads after it see what was seen before. */
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

/* Launches that must be on the device all at once, because they wait for each other. */
template <class... P, class... A>
cudaError_t launch_together(cudaStream_t stream, void (*kernel)(P...), dim3 blocks, dim3 threads, size_t shared,
                            const A &...args)
{
    cudaLaunchAttribute together = {};
    together.id = cudaLaunchAttributeCooperative;
    together.val.cooperative = 1;
    return vp_launch_with(&together, stream, kernel, blocks, threads, shared, args...);
}

}

#endif
