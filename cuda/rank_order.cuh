/* SPDX-License-Identifier: BSD-3-Clause */
/* Any rank of any window by the order of the samples of a tile.
 *
 * Overview: a thread block sorts all samples that the windows of its 32 x 32 voxels read. A bit mask over the sorted
 *   samples for each column of voxels, and one for each row, have the samples within the window's reach of it along x,
 *   and along y and z; `and`ed they are the window's samples in ascending order, whose bits are counted up to the rank.
 *   A ball or a set is parted by the intervals that its spans have along x: each is the product of such masks, and
 *   the window is their union. Samples that do not exist are not sorted, so edges need nothing else.
 * Mapping: rows of voxels are 32 x 1 along y and z, or 8 x 4; lanes lie along x, a warp has ORDER_ROWS rows. Sorting: a
 *   radix sort of 8 bits a pass, a thread for each bin; lanes with the same digit find each other by ballots. Masks: a
 *   lane makes the bits of a sample for all columns and all rows, and a warp transposes 32 of them; a part of the order
 *   at a time, until all voxels have their rank.
 * Registers: the state of the search of ORDER_ROWS voxels.
 * Shared memory: keys and places of the samples, their copy (later the masks), and counts of each warp and digit.
 * Cost: H100, 2048 x 2048 u16: about 6000 clocks of a multiprocessor per tile and 4 per sample of it, a third of these
 *   in the sort, which has 8 ballots a pass; 1.2 more per sample of f32.
 * Limits: shared memory: the samples of a tile are some 16000; sets: ORDER_PARTS intervals, 31 along y. */
#pragma once

#include "rank_network.cuh"

namespace
{

enum {
    ORDER_WARPS = 8, ORDER_THREADS = 32 * ORDER_WARPS, ORDER_DIGITS = 256, ORDER_ROWS = 32 / ORDER_WARPS,
    ORDER_GROUP = 8,    /* words whose bits are counted together */
    ORDER_PITCH = 36,   /* words between the masks of rows */
    ORDER_PARTS = 24,   /* most intervals of a set */
    ORDER_REACH = 31,   /* most reach of a set along y */
    ORDER_UNIT = 32 * 8 /* samples are made up to a multiple: whole chunks for all warps, whole groups of words */
};

/* Sample keys for sorting, and the place of the sample. */
template <class S> struct order_item {
    enum { PASSES = sizeof(S) };
    unsigned v; /* key << 16 | place */
    static __device__ order_item make(S s, unsigned place) { return {short_keys<S>::of(s) << 16 | place}; }
    static __device__ order_item last(unsigned place) { return {0xffff0000u | place}; }
    __device__ unsigned digit(int pass) const { return v >> (16 + 8 * pass) & 0xff; }
    __device__ unsigned place() const { return v & 0xffff; }
    __device__ S sample() const { return short_keys<S>::value(v >> 16); }
};
template <> struct order_item<float> {
    enum { PASSES = 4 };
    unsigned v, at;
    static __device__ order_item make(float s, unsigned place)
    {
        return {(unsigned)key(s) ^ 0x80000000u, place};
    }
    static __device__ order_item last(unsigned place) { return {~0u, place}; }
    __device__ unsigned digit(int pass) const { return v >> 8 * pass & 0xff; }
    __device__ unsigned place() const { return at; }
    __device__ float sample() const { return keys<float>::value((int)(v ^ 0x80000000u)); }
};

/* An array of items in shared memory. */
template <class S> struct order_array {
    enum { BYTES = sizeof(S) == 4 ? 6 : 4 };
    unsigned *v;
    unsigned short *at;

    __device__ order_array(void *data, int n) : v((unsigned *)data), at((unsigned short *)(v + n)) {}
    __device__ order_item<S> get(int i) const
    {
        if constexpr (sizeof(S) == 4)
            return {v[i], at[i]};
        else
            return {v[i]};
    }
    __device__ void put(int i, const order_item<S> &e) const
    {
        v[i] = e.v;
        if constexpr (sizeof(S) == 4)
            at[i] = (unsigned short)e.at;
    }
};

/* A set of offsets, parted by their intervals along x. */
struct order_parts {
    int n;
    int2 span[ORDER_PARTS]; /* x0, x1 */
};

struct order_job {
    vp_area in, out;
    struct vp_box box;
    int3 reach;
    int64_t millionths;
    int64_t image[3];
    int place;               /* rank in a complete window */
    int ty, tz;              /* rows of a tile along y and z: 32 x 1 or 8 x 4 */
    int samples;             /* most of a tile, made up */
    int words;               /* words of masks made at a time, a multiple of ORDER_GROUP */
    vp_lines lines;          /* a set's spans */
    const uint64_t *dy;      /* rows of each part and dz from -reach.z on: bit 63 - reach.y - dy */
    order_parts parts;       /* one of a box */
};

/* Returns the bytes of shared memory for n samples in a tile. */
template <class S> constexpr size_t order_bytes(size_t n, size_t words, size_t parts)
{
    const size_t copy = n * (order_array<S>::BYTES + sizeof(unsigned short)); /* with the ranks */
    const size_t masks = parts * words * sizeof(unsigned) * (32 + ORDER_PITCH);
    return sizeof(unsigned) * ORDER_WARPS * ORDER_DIGITS + n * order_array<S>::BYTES + (copy > masks ? copy : masks);
}

/* Sorts the n items of `from` by one digit into `to`; n is a multiple of ORDER_UNIT. */
template <class S>
__device__ __forceinline__ void order_pass(const order_array<S> &from, const order_array<S> &to, unsigned short *rank,
                                           unsigned *count, int n, int pass)
{
    __shared__ unsigned totals[ORDER_WARPS];
    const int lane = threadIdx.x, warp = threadIdx.y, t = warp * 32 + lane, chunk = n / ORDER_WARPS;
    unsigned *const mine = count + warp * ORDER_DIGITS;

    for (int i = lane; i < ORDER_DIGITS; i += 32)
        mine[i] = 0;
    __syncwarp();
    for (int i = warp * chunk + lane; i < (warp + 1) * chunk; i += 32) {
        const unsigned d = from.get(i).digit(pass);
        unsigned same = ~0u;
#pragma unroll
        for (int b = 0; b < 8; b++) {
            const unsigned with = __ballot_sync(~0u, d >> b & 1);
            same &= d >> b & 1 ? with : ~with;
        }
        const unsigned before = __popc(same & ((1u << lane) - 1));
        const unsigned sum = mine[d];
        __syncwarp();
        if (before == 0)
            mine[d] = sum + __popc(same);
        rank[i] = (unsigned short)(sum + before);
        __syncwarp();
    }
    __syncthreads();
    /* thread t has digit t: where its items begin, for each warp */
    unsigned sum = 0;
#pragma unroll
    for (int w = 0; w < ORDER_WARPS; w++)
        sum += count[w * ORDER_DIGITS + t];
    unsigned upto = sum;
#pragma unroll
    for (int by = 1; by < 32; by *= 2) {
        const unsigned left = __shfl_up_sync(~0u, upto, by);
        upto += lane >= by ? left : 0;
    }
    if (lane == 31)
        totals[warp] = upto;
    __syncthreads();
    unsigned begin = upto - sum;
    for (int w = 0; w < warp; w++)
        begin += totals[w];
#pragma unroll
    for (int w = 0; w < ORDER_WARPS; w++) {
        const unsigned here = count[w * ORDER_DIGITS + t];
        count[w * ORDER_DIGITS + t] = begin;
        begin += here;
    }
    __syncthreads();
    for (int i = warp * chunk + lane; i < (warp + 1) * chunk; i += 32) {
        const order_item<S> e = from.get(i);
        to.put((int)(mine[e.digit(pass)] + rank[i]), e);
    }
    __syncthreads();
}

/* Transposes a matrix of 32 x 32 bits: lane i has row i. */
__device__ __forceinline__ unsigned order_transposed(unsigned v)
{
    const int lane = threadIdx.x;
    unsigned low = 0x0000ffff;
#pragma unroll
    for (int by = 16; by > 0; by /= 2) {
        const unsigned other = __shfl_xor_sync(~0u, v, by);
        v = lane & by ? (v & ~low) | (other >> by & low) : (v & low) | (other << by & ~low);
        low ^= low << by / 2;
    }
    return v;
}

/* Returns the bits lo ... hi that are among the first n. */
__device__ __forceinline__ unsigned order_bits(int lo, int hi, int n)
{
    lo = max(lo, 0);
    hi = min(hi, n - 1);
    return hi < lo ? 0 : (~0u >> (31 - hi)) & (~0u << lo);
}

/* Returns the place of bit number n (from 0) of those that are set. */
__device__ __forceinline__ int order_select(unsigned v, int n)
{
    int at = 0;
#pragma unroll
    for (int half = 16; half > 0; half /= 2) {
        const int below = __popc(v >> at & ((1u << half) - 1));
        if (n >= below) {
            n -= below;
            at += half;
        }
    }
    return at;
}

__device__ __forceinline__ void add_bits(unsigned a, unsigned b, unsigned c, unsigned &one, unsigned &two)
{
    one = a ^ b ^ c;
    two = (a & b) | (c & (a | b));
}

/* Returns the bits of ORDER_GROUP words. */
__device__ __forceinline__ int order_count(const unsigned (&v)[ORDER_GROUP])
{
    unsigned a, b, c, p, q, r, s, t;
    add_bits(v[0], v[1], v[2], a, p);
    add_bits(v[3], v[4], v[5], b, q);
    add_bits(a, b, v[6], c, r);
    add_bits(p, q, r, s, t);
    return __popc(c) + __popc(v[7]) + 2 * __popc(s) + 4 * __popc(t);
}

/* Returns the rank that a voxel's window has, -1 if the window is empty. */
template <bool SET> __device__ int order_place(const order_job &j, int64_t x, int64_t y, int64_t z)
{
    int64_t n = 1;
    if constexpr (SET) {
        n = 0;
        for (int i = 0; i < j.lines.n; i++) {
            const int4 e = j.lines.line<true>(i);
            if (z + e.x >= 0 && z + e.x < j.image[2] && y + e.y >= 0 && y + e.y < j.image[1])
                n += max(min(x + e.w, j.image[0] - 1) - max(x + e.z, (int64_t)0) + 1, (int64_t)0);
        }
    } else {
        const int64_t at[3] = {x, y, z};
        const int reach[3] = {j.reach.x, j.reach.y, j.reach.z};
#pragma unroll
        for (int a = 0; a < 3; a++)
            n *= min(at[a] + reach[a], j.image[a] - 1) - max(at[a] - reach[a], (int64_t)0) + 1;
    }
    return n ? (int)vp_rank_index(j.millionths, n) : -1;
}

/* Returns the rows of the tile whose windows have a sample at (dy, dz) from the first one; `part` of a set. */
template <bool SET> __device__ __forceinline__ unsigned order_rows(const order_job &j, int dy, int dz, int part)
{
    const int ry = j.reach.y, rz = j.reach.z;
    if constexpr (!SET) {
        const unsigned rows = order_bits(dy - ry, dy + ry, j.ty);
        /* a byte for each plane */
        return j.tz == 1 ? rows : rows * (order_bits(dz - rz, dz + rz, j.tz) * 0x00204081u & 0x01010101u);
    } else {
        const int shift = dy + ry - 63;
        unsigned rows = 0;
        for (int z = 0; z < j.tz; z++) {
            if (dz - z < -rz || dz - z > rz)
                continue;
            const uint64_t bits = __ldg(j.dy + part * (2 * rz + 1) + (dz - z + rz));
            const unsigned here = (unsigned)(shift > 0 ? bits << shift : bits >> -shift);
            rows |= (here & (~0u >> (32 - j.ty))) << 8 * z;
        }
        return rows;
    }
}

template <class S, bool SET> __global__ void __launch_bounds__(ORDER_THREADS, SET ? 3 : 4) order_kernel(order_job j)
{
    extern __shared__ __align__(16) unsigned order_shared[];
    const int lane = threadIdx.x, warp = threadIdx.y, parts = SET ? j.parts.n : 1;
    unsigned *const count = order_shared;
    unsigned *const items = count + ORDER_WARPS * ORDER_DIGITS;
    unsigned *const columns = items + (size_t)j.samples * order_array<S>::BYTES / sizeof(unsigned); /* masks */
    unsigned *const rows = columns + parts * j.words * 32;
    unsigned short *const rank = (unsigned short *)((char *)columns + (size_t)j.samples * order_array<S>::BYTES);
    const order_array<S> copy(columns, j.samples), sorted(items, j.samples);
    const int64_t x0 = j.box.lo[0] + (int64_t)blockIdx.x * 32, y0 = j.box.lo[1] + (int64_t)blockIdx.y * j.ty;
    const int row = warp * ORDER_ROWS; /* a thread's first */

    for (int64_t turn = blockIdx.z; j.box.lo[2] + turn * j.tz < j.box.hi[2]; turn += gridDim.z) {
        const int64_t z0 = j.box.lo[2] + turn * j.tz;
        /* the box that the windows read */
        const int64_t ax = max(x0 - j.reach.x, (int64_t)0), ay = max(y0 - j.reach.y, (int64_t)0);
        const int64_t az = max(z0 - j.reach.z, (int64_t)0);
        const int64_t bx = min(x0 + 32, j.box.hi[0]) + j.reach.x, by = min(y0 + j.ty, j.box.hi[1]) + j.reach.y;
        const int64_t bz = min(z0 + j.tz, j.box.hi[2]) + j.reach.z;
        const int nx = (int)(min(bx, j.image[0]) - ax), ny = (int)(min(by, j.image[1]) - ay);
        const int nz = (int)(min(bz, j.image[2]) - az);
        const bool whole = ax == x0 - j.reach.x && ay == y0 - j.reach.y && az == z0 - j.reach.z &&
                           bx <= j.image[0] && by <= j.image[1] && bz <= j.image[2];
        const int n = nx * ny * nz, all = (n + ORDER_UNIT - 1) / ORDER_UNIT * ORDER_UNIT;
        const float per_x = 1.f / nx, per_y = 1.f / ny;
        const S *const from = vp_at<S>(j.in, ax, ay, az);

        __syncthreads();
        const order_array<S> &first = order_item<S>::PASSES % 2 ? copy : sorted;
        for (int i = warp * 32 + lane; i < all; i += ORDER_THREADS) {
            const int r = (int)((i + 0.5f) * per_x), z = (int)((r + 0.5f) * per_y);
            first.put(i, i < n ? order_item<S>::make(from[z * j.in.plane + (r - z * ny) * j.in.pitch + (i - r * nx)],
                                                     (unsigned)i)
                               : order_item<S>::last((unsigned)i));
        }
        __syncthreads();
#pragma unroll
        for (int pass = 0; pass < order_item<S>::PASSES; pass++)
            if ((pass + order_item<S>::PASSES) % 2)
                order_pass<S>(copy, sorted, rank, count, all, pass);
            else
                order_pass<S>(sorted, copy, rank, count, all, pass);

        const int64_t x = x0 + lane, y = y0 + (j.tz > 1 ? row % 8 : row), z = z0 + (j.tz > 1 ? row / 8 : 0);
        S *const to = vp_at<S>(j.out, x, y, z);
        const int own = x < j.box.hi[0] && z < j.box.hi[2] /* voxels of this thread */
                            ? (int)max(min(j.box.hi[1] - y, (int64_t)ORDER_ROWS), (int64_t)0) : 0;
        int left[ORDER_ROWS]; /* samples before the rank; -1: done */
        int wanted = 0;
#pragma unroll
        for (int k = 0; k < ORDER_ROWS; k++) {
            left[k] = k >= own ? -1 : whole ? j.place : order_place<SET>(j, x, y + k, z);
            if (SET && k < own && left[k] < 0)
                to[k * j.out.pitch] = nothing<S>();
            wanted += left[k] >= 0;
        }
        for (int base = 0;; base += j.words) {
            const int words = min(j.words, all / 32 - base);
            for (int w = warp; w < words; w += ORDER_WARPS) {
                const int i = (int)sorted.get((base + w) * 32 + lane).place();
                const int r = (int)((i + 0.5f) * per_x), pz = (int)((r + 0.5f) * per_y);
                const int dx = (int)(ax - x0) + i - r * nx, dy = (int)(ay - y0) + r - pz * ny, dz = (int)(az - z0) + pz;
                for (int p = 0; p < parts; p++) {
                    const int2 span = SET ? j.parts.span[p] : make_int2(-j.reach.x, j.reach.x);
                    const unsigned by_column = i < n ? order_bits(dx - span.y, dx - span.x, 32) : 0;
                    columns[(p * j.words + w) * 32 + lane] = order_transposed(by_column);
                    rows[(p * j.words + w) * ORDER_PITCH + lane] = order_transposed(order_rows<SET>(j, dy, dz, p));
                }
            }
            __syncthreads();
            int group[ORDER_ROWS];
#pragma unroll
            for (int k = 0; k < ORDER_ROWS; k++)
                group[k] = -1;
            for (int g = 0; g < words && __any_sync(~0u, wanted > 0); g += ORDER_GROUP) {
                unsigned v[ORDER_ROWS][ORDER_GROUP] = {};
                for (int p = 0; p < parts; p++) {
#pragma unroll
                    for (int u = 0; u < ORDER_GROUP; u++) {
                        const unsigned c = columns[(p * j.words + g + u) * 32 + lane];
                        const uint4 r = *(const uint4 *)(rows + (p * j.words + g + u) * ORDER_PITCH + row);
                        v[0][u] |= c & r.x;
                        v[1][u] |= c & r.y;
                        v[2][u] |= c & r.z;
                        v[3][u] |= c & r.w;
                    }
                }
#pragma unroll
                for (int k = 0; k < ORDER_ROWS; k++) {
                    const int sum = order_count(v[k]);
                    if (left[k] >= 0 && group[k] < 0) {
                        if (left[k] < sum) {
                            group[k] = g;
                            wanted--;
                        } else {
                            left[k] -= sum;
                        }
                    }
                }
            }
#pragma unroll
            for (int k = 0; k < ORDER_ROWS; k++) {
                if (group[k] < 0)
                    continue;
                unsigned v;
                int w = group[k];
                for (;; w++) {
                    v = 0;
                    for (int p = 0; p < parts; p++)
                        v |= columns[(p * j.words + w) * 32 + lane] & rows[(p * j.words + w) * ORDER_PITCH + row + k];
                    const int sum = __popc(v);
                    if (left[k] < sum)
                        break;
                    left[k] -= sum;
                }
                to[k * j.out.pitch] = sorted.get((base + w) * 32 + order_select(v, left[k])).sample();
                left[k] = -1;
            }
            if (!__syncthreads_or(wanted > 0))
                break;
        }
    }
}

}
