/* SPDX-License-Identifier: BSD-3-Clause */
/* Reconstruction of flat images by active tiles: one warp a tile, its values in registers.
 *
 * Overview: a lane has one word of every row: two neighbouring voxels of 8 or 16 bits, one of 32 or 64. A phase sweeps
 *   columns from both ends to the middle and back, value = min(mask, max(value, value of the previous row)), after
 *   which no voxel can raise another of its column; diagonal neighbours are included on the way to the middle, with
 *   their values before the phase. Then the tile is transposed, and the same phase works along x. If a phase changes
 *   nothing after one of the other orientation, the tile is stable in all directions.
 * Queue: active tiles wait in a queue; a tile that can raise a voxel of a neighbour enqueues it. The result is the
 *   least fixed point, so the order does not matter, and a neighbour's border may be read while it changes: its warp
 *   checks our border afterwards. A visit costs the same however little it changes, and along a winding path visits are
 *   sequential. So the queue is abandoned when it takes too long for the tiles it has processed, and the contraction
 *   does the rest. */
#pragma once

#include "morphrecon.cuh"

namespace vp
{

/* ---- words ---- */

template <class U> struct word_of {
    typedef U type;
    enum { VOXELS = 1 };
    static __device__ __forceinline__ U larger(U a, U b) { return max(a, b); }
    static __device__ __forceinline__ U smaller(U a, U b) { return min(a, b); }
    static __device__ __forceinline__ U join(U a, U) { return a; }
    static __device__ __forceinline__ U last(U w) { return w; } /* voxel of a word */
    static __device__ __forceinline__ U first(U w) { return w; }
    static __device__ __forceinline__ U left(U, U before) { return before; } /* neighbours of a word's voxels */
    static __device__ __forceinline__ U right(U, U after) { return after; }
    static __device__ __forceinline__ U load(const U *p) { return __ldcg(p); }
};

struct word_of_pair {
    typedef uint32_t type;
    enum { VOXELS = 2 };
    static __device__ __forceinline__ uint32_t larger(uint32_t a, uint32_t b) { return __vmaxu2(a, b); }
    static __device__ __forceinline__ uint32_t smaller(uint32_t a, uint32_t b) { return __vminu2(a, b); }
    static __device__ __forceinline__ uint32_t join(uint32_t a, uint32_t b) { return a | b << 16; }
    static __device__ __forceinline__ uint32_t last(uint32_t w) { return w >> 16; }
    static __device__ __forceinline__ uint32_t first(uint32_t w) { return w & 0xffff; }
    static __device__ __forceinline__ uint32_t left(uint32_t w, uint32_t before)
    {
        return __byte_perm(before, w, 0x5432);
    }
    static __device__ __forceinline__ uint32_t right(uint32_t w, uint32_t after)
    {
        return __byte_perm(w, after, 0x5432);
    }
};
template <> struct word_of<uint8_t> : word_of_pair {
    static __device__ __forceinline__ uint32_t load(const uint8_t *p)
    {
        return __byte_perm(__ldcg((const uint16_t *)p), 0, 0x4140);
    }
};
template <> struct word_of<uint16_t> : word_of_pair {
    static __device__ __forceinline__ uint32_t load(const uint16_t *p) { return __ldcg((const uint32_t *)p); }
};

/* Returns for each voxel the larger of both neighbours along the row. Lanes 0 and 31 have no neighbour on one side and
 * use their own word there, which is harmless: those of its voxels that this reaches are neighbours as well. */
template <class W, class R> __device__ __forceinline__ R beside(R w)
{
    return W::larger(W::left(w, __shfl_up_sync(~0u, w, 1)), W::right(w, __shfl_down_sync(~0u, w, 1)));
}

/* ---- a tile in registers and in shared memory ---- */

/* Shared memory of a warp. Keys of 8 bits are expanded to 16. */
template <class U> struct tile_memory {
    typedef typename word_of<U>::type R;
    static constexpr int T = tile_side<U, true>;
    static constexpr int ROWS = 16 / (int)sizeof(R);                          /* rows of a load from here */
    static constexpr int HIGH = strip_of<U>::HIGH;                            /* rows of a load from a tile in memory */
    static constexpr int PITCH = sizeof(R) == 8 ? 33 : sizeof(U) == 2 ? 68 : 36; /* pitch of `buffer` */
    uint4 mask[2][T / ROWS * 32]; /* by rows, and by columns */
    /* above, below, left, right: values that enter, masks outside, and the tile's own border values */
    R in[4][32], beyond[4][32], end[4][32];
    R corner_mask[2][32];
    alignas(16) R buffer[32 * PITCH];
};

/* Expands 4 bytes, two voxels of two rows, to 16 bits each: a word for each row. */
__device__ __forceinline__ uint2 two_rows(uint32_t w)
{
    return make_uint2(__byte_perm(w, 0, 0x4140), __byte_perm(w, 0, 0x4342));
}

struct four_words {
    uint32_t w[4];
    __device__ __forceinline__ four_words(const uint4 &v) : w{v.x, v.y, v.z, v.w} {}
};

template <class U> __device__ __forceinline__ void load_mask(uint4 *to, const U *tile, int lane)
{
    typedef tile_memory<U> M;
    const uint4 *const from = (const uint4 *)tile + lane;
#pragma unroll
    for (int q = 0; q < M::T / M::HIGH; q++) {
        const uint4 v = __ldcg(from + q * 32);
        if constexpr (sizeof(U) == 1) {
            const uint2 a = two_rows(v.x), b = two_rows(v.y), c = two_rows(v.z), d = two_rows(v.w);
            to[2 * q * 32 + lane] = make_uint4(a.x, a.y, b.x, b.y);
            to[(2 * q + 1) * 32 + lane] = make_uint4(c.x, c.y, d.x, d.y);
        } else {
            to[q * 32 + lane] = v;
        }
    }
}

/* Unpacks the rows in the q-th 16 bytes of a column. */
template <class U> __device__ __forceinline__ void unpack_rows(typename word_of<U>::type *j, int q, const four_words &v)
{
#pragma unroll
    for (int k = 0; k < 4; k++) {
        if constexpr (sizeof(U) == 1) {
            const uint2 a = two_rows(v.w[k]);
            j[8 * q + 2 * k] = a.x;
            j[8 * q + 2 * k + 1] = a.y;
        } else if constexpr (sizeof(U) == 8) {
            if (k % 2)
                j[2 * q + k / 2] = (uint64_t)v.w[k] << 32 | v.w[k - 1];
        } else {
            j[4 * q + k] = v.w[k];
        }
    }
}

template <class U> __device__ __forceinline__ void load_tile(typename word_of<U>::type *j, const U *tile, int lane)
{
    typedef tile_memory<U> M;
    const uint4 *const from = (const uint4 *)tile + lane;
#pragma unroll
    for (int q = 0; q < M::T / M::HIGH; q++) {
        unpack_rows<U>(j, q, __ldcg(from + q * 32));
    }
}

template <class U> __device__ __forceinline__ void store_tile(const typename word_of<U>::type *j, U *tile, int lane)
{
    typedef tile_memory<U> M;
    uint4 *const to = (uint4 *)tile + lane;
#pragma unroll
    for (int q = 0; q < M::T / M::HIGH; q++) {
        uint32_t w[4];
#pragma unroll
        for (int k = 0; k < 4; k++) {
            if constexpr (sizeof(U) == 1)
                w[k] = __byte_perm((uint32_t)j[8 * q + 2 * k], (uint32_t)j[8 * q + 2 * k + 1], 0x6420);
            else if constexpr (sizeof(U) == 8)
                w[k] = (uint32_t)((uint64_t)j[2 * q + k / 2] >> (k % 2 * 32));
            else
                w[k] = (uint32_t)j[4 * q + k];
        }
        __stcg(to + q * 32, make_uint4(w[0], w[1], w[2], w[3]));
    }
}

/* Returns row k of the ROWS in 16 bytes of shared memory. */
template <class U> __device__ __forceinline__ typename word_of<U>::type row_of(const four_words &v, int k)
{
    if constexpr (sizeof(typename word_of<U>::type) == 8)
        return (uint64_t)v.w[2 * k + 1] << 32 | v.w[2 * k];
    else
        return v.w[k];
}

/* Transposes a tile. */
template <class U> __device__ __forceinline__ void transpose(typename word_of<U>::type *j, tile_memory<U> &s, int lane)
{
    typedef tile_memory<U> M;
#pragma unroll
    for (int k = 0; k < 32; k++) {
        if constexpr (sizeof(U) == 1) /* a word has 2 x 2 voxels, those of a column adjacent */
            s.buffer[k * M::PITCH + lane] = __byte_perm(j[2 * k], j[2 * k + 1], 0x6240);
        else if constexpr (sizeof(U) == 2)
            *(uint2 *)(s.buffer + k * M::PITCH + 2 * lane) =
                make_uint2(__byte_perm(j[2 * k], j[2 * k + 1], 0x5410), __byte_perm(j[2 * k], j[2 * k + 1], 0x7632));
        else
            s.buffer[k * M::PITCH + lane] = j[k];
    }
    __syncwarp();
    if constexpr (sizeof(U) == 8) {
#pragma unroll
        for (int k = 0; k < 32; k++)
            j[k] = s.buffer[lane * M::PITCH + k];
    } else {
        const uint4 *const from = (const uint4 *)(s.buffer + lane * M::PITCH);
#pragma unroll
        for (int q = 0; q < (sizeof(U) == 2 ? 16 : 8); q++)
            unpack_rows<U>(j, q, from[q]);
    }
    __syncwarp();
}

/* ---- a phase ---- */

/* Sweeps a tile along its columns: from both ends to the middle, with diagonals, and from the middle to both ends, in
 * two independent dependency chains. `first` is the row before row 0, `last` the row after the last one. Returns 0 if
 * nothing changed. Keys of 8 bits: values never decrease, and a sum of 64 fits 16 bits, so changes are detected by
 * comparing sums, which the integer multiply-add pipe computes (`one` is 1). */
template <class U, bool DIAGONAL>
__device__ __forceinline__ typename word_of<U>::type phase(typename word_of<U>::type *j, const uint4 *mask,
                                                           typename word_of<U>::type first,
                                                           typename word_of<U>::type last, int lane, uint32_t one)
{
    typedef word_of<U> W;
    typedef typename W::type R;
    typedef tile_memory<U> M;
    constexpr bool SUMS = sizeof(U) == 1;
    constexpr int T = M::T, ROWS = M::ROWS, GROUPS = T / ROWS;
    R down = first, up = last, changed = 0;
    R above = 0, here = DIAGONAL ? beside<W>(j[0]) : R(0), below = 0, there = DIAGONAL ? beside<W>(j[T - 1]) : R(0);
    uint32_t before = 0, after = 0;

#pragma unroll
    for (int q = 0; q < GROUPS / 2; q++) {
        const uint4 v = mask[q * 32 + lane], w = mask[(GROUPS - 1 - q) * 32 + lane];
#pragma unroll
        for (int k = 0; k < ROWS; k++) {
            const int y = q * ROWS + k, z = T - 1 - y;
            R mine = j[y], other = j[z];
            if (DIAGONAL) {
                const bool middle = y + 1 == T / 2;
                const R next = middle ? there : beside<W>(j[y + 1]), before_it = middle ? here : beside<W>(j[z - 1]);
                mine = W::larger(mine, W::larger(above, next));
                other = W::larger(other, W::larger(below, before_it));
                above = here;
                here = next;
                below = there;
                there = before_it;
            }
            down = W::smaller(row_of<U>(v, k), W::larger(mine, down));
            up = W::smaller(row_of<U>(w, ROWS - 1 - k), W::larger(other, up));
            if (SUMS) {
                before = (uint32_t)j[y] * one + before;
                before = (uint32_t)j[z] * one + before;
            } else {
                changed |= (down ^ j[y]) | (up ^ j[z]);
            }
            j[y] = down;
            j[z] = up;
        }
    }
    R rise = up, fall = down;
#pragma unroll
    for (int q = GROUPS / 2 - 1; q >= 0; q--) {
        const uint4 v = mask[q * 32 + lane], w = mask[(GROUPS - 1 - q) * 32 + lane];
#pragma unroll
        for (int k = ROWS - 1; k >= 0; k--) {
            const int y = q * ROWS + k, z = T - 1 - y;
            rise = W::smaller(row_of<U>(v, k), W::larger(j[y], rise));
            fall = W::smaller(row_of<U>(w, ROWS - 1 - k), W::larger(j[z], fall));
            if (SUMS) {
                after = (uint32_t)rise * one + after;
                after = (uint32_t)fall * one + after;
            } else {
                changed |= (rise ^ j[y]) | (fall ^ j[z]);
            }
            j[y] = rise;
            j[z] = fall;
        }
    }
    return SUMS ? R(before ^ after) : changed;
}

/* ---- a visit ---- */

template <class U> struct flat_job {
    recon_buffers<U> b;
    int across, along; /* tiles along x, along y */
    /* nanoseconds after which the queue is abandoned: `least` plus `each` for each visit, at most `most` */
    uint64_t least, each, most;
    uint32_t one; /* 1, as a run-time value */
};

/* Updates a tile until it is stable. Returns the neighbours to enqueue, as bits of the 3 x 3 tiles around it. Begins
 * with a phase along x if `transposed`. */
template <class U, bool DIAGONAL>
__device__ __forceinline__ uint32_t visit(const flat_job<U> &job, int tile, int transposed, tile_memory<U> &s, int lane)
{
    typedef word_of<U> W;
    typedef typename W::type R;
    constexpr int T = tile_side<U, true>, P = T * T, V = W::VOXELS;
    const int tx = tile % job.across, ty = tile / job.across % job.along;
    const int64_t at = (int64_t)tile * P, row = (int64_t)job.across * P;
    U *const value = job.b.value + at;
    const U *const mask = job.b.mask + at;
    const bool has[4] = {ty > 0, ty + 1 < job.along, tx > 0, tx + 1 < job.across};
    const bool at_corner = DIAGONAL && (lane == 0 ? has[2] : lane == 31 && has[3]);
    R halo[4], j[T], corner[2] = {0, 0}; /* corner: above, below; of the left side in lane 0, of the right in lane 31 */

    /* loads the row or column of a neighbour that touches this tile */
    const auto side = [&](const U *from, int e) -> R {
        if (!has[e])
            return 0;
        if (e < 2)
            return W::load(from + (e ? row : -row) + voxel_at<U, true>(V * lane, e ? 0 : T - 1, 0));
        const U *const p = from + (e == 2 ? -P : P);
        const int x = e == 2 ? T - 1 : 0;
        return W::join((R)__ldcg(p + voxel_at<U, true>(x, V * lane, 0)),
                       (R)__ldcg(p + voxel_at<U, true>(x, V * lane + V - 1, 0)));
    };
    const auto corner_of = [&](const U *from, int e) -> R {
        const U *const p = from + (e ? row : -row) + (lane ? P : -P);
        return at_corner && has[e] ? (R)__ldcg(p + voxel_at<U, true>(lane ? 0 : T - 1, e ? 0 : T - 1, 0)) : R(0);
    };
#pragma unroll
    for (int e = 0; e < 4; e++)
        halo[e] = side(value, e);
    if (DIAGONAL) {
        corner[0] = corner_of(value, 0);
        corner[1] = corner_of(value, 1);
    }
    load_tile<U>(j, value, lane);
    load_mask<U>(s.mask[0], mask, lane);
    load_mask<U>(s.mask[1], job.b.transposed + at, lane);
#pragma unroll
    for (int e = 0; e < 4; e++)
        s.beyond[e][lane] = side(mask, e);
    if (DIAGONAL) {
        s.corner_mask[0][lane] = corner_of(mask, 0);
        s.corner_mask[1][lane] = corner_of(mask, 1);
    }

    /* values that enter from outside: with diagonals the largest of the three that touch a voxel */
#pragma unroll
    for (int e = 0; e < 4; e++) {
        R in = halo[e];
        if (DIAGONAL) {
            R before = __shfl_up_sync(~0u, in, 1), after = __shfl_down_sync(~0u, in, 1);
            if (lane == 0)
                before = e < 2 ? W::join(corner[e & 1], corner[e & 1]) : R(0);
            if (lane == 31)
                after = e < 2 ? corner[e & 1] : R(0);
            in = W::larger(in, W::larger(W::left(in, before), W::right(in, after)));
        }
        s.in[e][lane] = in;
    }
    R any = 0;
    if (transposed)
        transpose<U>(j, s, lane);
    for (bool begin = true;; transposed ^= 1, begin = false) {
        const R c = phase<U, DIAGONAL>(j, s.mask[transposed], s.in[2 * transposed][lane],
                                       s.in[2 * transposed + 1][lane], lane, job.one);
        any |= c;
        s.end[2 * transposed][lane] = j[0];
        s.end[2 * transposed + 1][lane] = j[T - 1];
        const bool stable = !begin && !__any_sync(~0u, c != 0);
        if (!stable || transposed)
            transpose<U>(j, s, lane);
        if (stable)
            break;
    }
    if (!__any_sync(~0u, any != 0))
        return 0; /* neighbours that these values can raise were enqueued when the values arose, or will be */
    store_tile<U>(j, value, lane);

    /* neighbours that the new values raise, with their current values */
    uint32_t wake = 0;
#pragma unroll
    for (int e = 0; e < 4; e++) {
        const R own = s.end[e][lane], out = DIAGONAL ? W::larger(own, beside<W>(own)) : own, now = side(value, e);
        if (__any_sync(~0u, W::larger(W::smaller(s.beyond[e][lane], out), now) != now))
            wake |= 1u << (e == 0 ? 1 : e == 1 ? 7 : e == 2 ? 3 : 5);
    }
    if (DIAGONAL) {
#pragma unroll
        for (int e = 0; e < 2; e++) {
            const R own = s.end[e][lane], mine = lane ? W::last(own) : W::first(own);
            const uint32_t who = __ballot_sync(~0u, min(s.corner_mask[e][lane], mine) > corner_of(value, e));
            wake |= (who & 1) << (e ? 6 : 0) | who >> 31 << (e ? 8 : 2);
        }
    }
    return wake;
}

/* ---- the queue ---- */

enum : uint32_t { LEAVE = 0xffffffffu };

/* Makes all warps leave: each draws one more ticket, whose slot says LEAVE. */
__device__ __forceinline__ void dismiss_warps(recon_control *c, uint32_t *slot, uint32_t mask, int lane)
{
    uint32_t first = 0;
    if (lane == 0)
        first = atomicAdd(&c->tail, gridDim.x);
    first = __shfl_sync(~0u, first, 0);
    for (uint32_t i = lane; i < gridDim.x; i += 32)
        atomicExch(&slot[(first + i) & mask], (uint32_t)LEAVE);
}

__device__ __forceinline__ void enqueue(recon_control *c, uint32_t *slot, uint32_t mask, uint32_t tile)
{
    const uint32_t ticket = atomicAdd(&c->tail, 1u);
    atomicExch(&slot[ticket & mask], tile + 1);
}

/* Processes the queue, in blocks of one warp. Blocks need not all be resident: a waiting block only waits for resident
 * ones.
 * Registers: the tile.
 * Shared memory: the mask twice, the halo, and the buffer for transposition. */
template <class U, bool DIAGONAL>
__global__ void __launch_bounds__(32, sizeof(U) == 4 ? 14 : 8) flat_kernel(flat_job<U> job)
{
    typedef tile_memory<U> memory;
    VP_SHARED(memory, s);
    recon_control *const c = job.b.control;
    const int lane = (int)threadIdx.x;
    const uint64_t start = nanoseconds();
    const uint32_t mask = job.b.slots - 1;

    for (;;) {
        uint32_t id = 0, abandoned = 0, transposed = 0;
        if (lane == 0) {
            const uint32_t ticket = atomicAdd(&c->head, 1u);
            uint32_t *const slot = &job.b.slot[ticket & mask];
            while (!(id = load_now(slot))) {
                const uint64_t passed = nanoseconds() - start;
                if (passed > job.most || passed > job.least + job.each * ticket) {
                    abandoned = atomicExch(&c->stop, 1u) == 0;
                    id = LEAVE;
                    break;
                }
                __nanosleep(64);
            }
            if (id != LEAVE) {
                atomicExch(slot, 0u);
                const uint32_t why = atomicExch(&job.b.state[id - 1], (uint32_t)UNDER_WAY);
                transposed = (why & (FROM_ROW | FROM_COLUMN)) == FROM_COLUMN;
                if (load_now(&c->stop))
                    id = LEAVE;
                fence();
            }
        }
        id = __shfl_sync(~0u, id, 0);
        transposed = __shfl_sync(~0u, transposed, 0);
        __syncwarp();
        if (__shfl_sync(~0u, abandoned, 0))
            dismiss_warps(c, job.b.slot, mask, lane);
        if (id == LEAVE)
            break;
        const uint32_t tile = id - 1;
        const uint32_t wake = visit<U, DIAGONAL>(job, (int)tile, (int)transposed, s, lane);
        fence();
        __syncwarp();
        if (lane < 9 && (wake >> lane & 1)) {
            const uint32_t other = tile + (lane / 3 - 1) * job.across + (lane % 3 - 1);
            if (atomicOr(&job.b.state[other], QUEUED | (lane / 3 == 1 ? FROM_COLUMN : FROM_ROW)) == 0) {
                atomicAdd(&c->pending, 1);
                enqueue(c, job.b.slot, mask, other);
            }
        }
        __syncwarp();
        uint32_t last = 0;
        if (lane == 0) {
            if (atomicAnd(&job.b.state[tile], ~UNDER_WAY) & QUEUED)
                enqueue(c, job.b.slot, mask, tile);
            else
                last = atomicSub(&c->pending, 1) == 1;
        }
        if (__shfl_sync(~0u, last, 0))
            dismiss_warps(c, job.b.slot, mask, lane);
    }
    if (lane == 0 && load_now(&c->stop))
        c->contract = 1;
}

}
