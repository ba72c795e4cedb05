/* SPDX-License-Identifier: BSD-3-Clause */
/* The arithmetic of a line, shared by the separable filters of one and two axes.
 *
 * Mapping: a thread computes UNIT consecutive outputs of one line. All lines of a warp are at the same position along
 *   the axis, so its lanes take the same branches at edges.
 * Registers: for small radii R all UNIT + 2 R - 1 differences; for others CHUNK taps at a time, from the outermost
 *   inwards, with two windows of UNIT + CHUNK - 1 differences that slide towards each other by CHUNK.
 * Shared memory: the samples, in lines or rings; for radii without specialised code the taps.
 * Cost: 2 R + 2 operations for each voxel, axis and filter (R subtractions, R fused multiply-adds, the sum).
 * Limits: arithmetic from radius 12 on, below it memory and the instruction cache: straight-line code of more than
 *   about 30 KB is several times slower. So a long list of taps is processed in a loop, and kernels with rows of edge
 *   taps (thin axes, derivatives) are separate. */
#pragma once

#include "separable_sample.cuh"

namespace vp
{

constexpr int CHUNK = 4; /* taps of a chunk */

/* Copies the taps of a filter to shared memory at `at`, by the whole block; advances `at`. Returns the copy. */
__device__ __forceinline__ const float *share_taps(const taps &f, int radius, float *&at)
{
    const float *const t = at;
    for (int k = threadIdx.x; k < padded(radius); k += blockDim.x)
        at[k] = f.t[k];
    at += padded(radius);
    return t;
}

/* True if a voxel with lo voxels before and hi voxels after it has individual taps (separable.h). */
__device__ __forceinline__ bool has_row(const taps &f, int lo, int hi)
{
    return f.edge && (f.order ? min(lo, hi) < f.radius : max(lo, hi) < f.radius);
}

/* Returns a mask: bit j is set if output i + j is in the image and has individual taps. */
__device__ __forceinline__ unsigned row_mask(const axis &a, const taps &f, int i)
{
    unsigned mask = 0;
    if (!f.edge || (i >= f.radius && i + UNIT <= a.n - f.radius))
        return 0;
#pragma unroll
    for (int j = 0; j < UNIT; j++)
        mask |= (unsigned)(i + j < a.n && has_row(f, i + j, a.n - 1 - i - j)) << j;
    return mask;
}

/* Returns the edge taps of output i. */
__device__ __forceinline__ const float2 *edge_row(const axis &a, const taps &f, int i)
{
    const int row = a.thin || i < f.radius ? i : f.radius + a.n - 1 - i;
    return f.edge + row * padded(f.radius);
}

/* Order 0: turns the sums acc into outputs i ... i + UNIT - 1; x: the samples there. */
template <class Read>
__device__ __forceinline__ void finish_line(const Read &read, const axis &a, const taps &f, int radius, int i,
                                            const float *x, float (&acc)[UNIT])
{
    if (!f.clip || (i >= radius && i + UNIT <= a.n - radius)) {
#pragma unroll
        for (int j = 0; j < UNIT; j++)
            acc[j] = x[j] + acc[j];
        return;
    }
    unsigned rest = first_of(UNIT);
#pragma unroll
    for (int pass = 0; pass < 2; pass++) { /* the second for units near both ends; unrolled, as a loop is slower */
        const bool end = pass || i >= radius;
        const int q = end ? i - (a.n - radius) : i; /* index among the R voxels at this end */
        if (pass && (i >= radius || q <= -UNIT))
            break;
        const float outside = read.at_sample(end ? a.n - 1 - i : -i).next();
        const float2 *c = f.clip + end * radius + q;
        unsigned mine = first_of(max(radius - q, 0)) & ~first_of(max(-q, 0));
        rest &= ~mine;
        asm volatile("" : "+l"(c), "+r"(mine), "+r"(rest)); /* computed once, not for each output */
#pragma unroll
        for (int j = 0; j < UNIT; j++)
            if (mine >> j & 1) {
                const float2 w = __ldg(c + j);
                acc[j] = __fmaf_rn(w.y, __fmaf_rn(w.x, outside - x[j], acc[j]), x[j]);
            }
    }
#pragma unroll
    for (int j = 0; j < UNIT; j++)
        if (rest >> j & 1)
            acc[j] = x[j] + acc[j];
}

/* Returns right + sign * left; EVEN: the sign is -1. */
template <bool EVEN> __device__ __forceinline__ float pair_of(float sign, float left, float right)
{
    return EVEN ? right - left : __fmaf_rn(sign, left, right);
}

constexpr int WINDOW = UNIT + CHUNK; /* differences that a chunk needs on one side, and one */

/* Adds the taps k + CHUNK - 1 down to k, only those below k + m unless ALL. left[q] = d[i - k - CHUNK + q], right[q] =
 * d[i + k + q], in circular buffers that begin at AT (left) and WINDOW - AT (right). */
template <int NF, bool EVEN, bool ALL, int AT>
__device__ __forceinline__ void add_taps(const float (&left)[WINDOW], const float (&right)[WINDOW],
                                         const float *const *shared, int k, int m, float sign, float (&acc)[NF][UNIT])
{
    float t[NF][CHUNK];
#pragma unroll
    for (int n = 0; n < NF; n++)
        *reinterpret_cast<float4 *>(t[n]) = *reinterpret_cast<const float4 *>(shared[n] + k);
#pragma unroll
    for (int q = CHUNK - 1; q >= 0; q--)
        if (ALL || q < m)
#pragma unroll
            for (int j = 0; j < UNIT; j++) {
                const float pair = pair_of<EVEN>(sign, left[(AT + j + CHUNK - 1 - q) % WINDOW],
                                                 right[(WINDOW - AT + j + q) % WINDOW]);
#pragma unroll
                for (int n = 0; n < NF; n++)
                    acc[n][j] = __fmaf_rn(t[n][q], pair, acc[n][j]);
            }
}

/* Adds chunks of taps from buffer position AT on until the buffers have wrapped around; true if no tap is left. The
 * windows slide by CHUNK for each. left_end = sample i - k + UNIT - CHUNK - 1 and right_end = sample i + k + CHUNK have
 * been read before. */
template <int NF, bool EVEN, int AT, class Read>
__device__ __forceinline__ bool add_chunks(const Read &read, const float *const *shared, int radius, int &k, float sign,
                                           float (&left)[WINDOW], float (&right)[WINDOW], float &left_end,
                                           float &right_end, float (&acc)[NF][UNIT])
{
    float v[CHUNK];
    read(UNIT - CHUNK - k, v);
    left[(AT + UNIT - 1) % WINDOW] = v[0] - left_end;
#pragma unroll
    for (int q = 0; q < CHUNK - 1; q++)
        left[(AT + UNIT + q) % WINDOW] = v[q + 1] - v[q];
    left_end = v[CHUNK - 1];
    read(k, v);
    right[(WINDOW - AT + CHUNK - 1) % WINDOW] = right_end - v[CHUNK - 1];
#pragma unroll
    for (int q = 0; q < CHUNK - 1; q++)
        right[(WINDOW - AT + q) % WINDOW] = v[q + 1] - v[q];
    right_end = v[0];
    if (AT || radius - k >= CHUNK) /* only the first chunk may be cut */
        add_taps<NF, EVEN, true, AT>(left, right, shared, k, CHUNK, sign, acc);
    else
        add_taps<NF, EVEN, false, AT>(left, right, shared, k, radius - k, sign, acc);
    if ((k -= CHUNK) < 0)
        return true;
    if constexpr (AT + CHUNK < WINDOW)
        return add_chunks<NF, EVEN, AT + CHUNK>(read, shared, radius, k, sign, left, right, left_end, right_end, acc);
    return false;
}

/* Reads UNIT samples from i + b on. */
template <class Read> __device__ __forceinline__ void read_unit(const Read &read, int b, float *v)
{
    float part[CHUNK];
#pragma unroll
    for (int c = 0; c < UNIT; c += CHUNK) {
        read(b + c, part);
#pragma unroll
        for (int j = 0; j < CHUNK; j++)
            v[c + j] = part[j];
    }
}

/* Adds to acc the sums of NF filters (of one radius; orders all even or all odd) for outputs i ... i + UNIT - 1 of a
 * line, for any radius. read(b, v) reads samples i + b ... i + b + CHUNK - 1, b a multiple of CHUNK; shared[n] are the
 * taps of filter n in shared memory. The windows are circular buffers of WINDOW registers, so no values are moved. */
template <int NF, bool EVEN, class Read>
__device__ __forceinline__ void line_sums(const Read &read, const taps *f, const float *const *shared,
                                          float (&acc)[NF][UNIT])
{
    static_assert(CHUNK == 4 && UNIT % CHUNK == 0, "taps are read four at a time, windows slide by whole chunks");
    const int radius = f[0].radius;
    float left[WINDOW], right[WINDOW], v[UNIT];
    int k = (radius - 1) / CHUNK * CHUNK;

    read_unit(read, -k - CHUNK, v);
#pragma unroll
    for (int q = 0; q < UNIT - 1; q++)
        left[q] = v[q + 1] - v[q];
    float left_end = v[UNIT - 1];
    read_unit(read, k + CHUNK, v);
#pragma unroll
    for (int q = 0; q < UNIT - 1; q++)
        right[CHUNK + q] = v[q + 1] - v[q];
    float right_end = v[0];
#pragma unroll 1
    while (!add_chunks<NF, EVEN, 0>(read, shared, radius, k, f[0].sign, left, right, left_end, right_end, acc)) {
    }
}

/* The same for a compile-time radius R. v: samples i - R ... i + UNIT + R - 1. */
template <int NF, bool EVEN, int R>
__device__ __forceinline__ void short_sums(const float (&v)[UNIT + 2 * R], const taps *f, float (&acc)[NF][UNIT])
{
    float d[UNIT + 2 * R - 1]; /* d[q] of local/separable.h at i - R + q */
#pragma unroll
    for (int q = 0; q < UNIT + 2 * R - 1; q++)
        d[q] = v[q + 1] - v[q];
#pragma unroll
    for (int k = R - 1; k >= 0; k--)
#pragma unroll
        for (int j = 0; j < UNIT; j++) {
            const float pair = pair_of<EVEN>(f[0].sign, d[R + j - 1 - k], d[R + j + k]);
#pragma unroll
            for (int n = 0; n < NF; n++)
                acc[n][j] = __fmaf_rn(f[n].few[k], pair, acc[n][j]);
        }
}

/* Computes outputs i ... i + UNIT - 1 of a line, without individual taps, into acc, which is 0 before. R: the radius at
 * compile time, 0: any. */
template <int NF, int R, bool EVEN = false, class Read>
__device__ __forceinline__ void filter_unit(const Read &read, const axis &a, const taps *f, const float *const *shared,
                                            int i, float (&acc)[NF][UNIT])
{
    const int radius = R ? R : f[0].radius;
    float v[UNIT + 2 * R];
    const float *const x = v + R;

    if constexpr (R > 0) {
        read.template around<R>(v);
        short_sums<NF, EVEN, R>(v, f, acc);
    } else {
        if (radius)
            line_sums<NF, EVEN>(read, f, shared, acc);
        read_unit(read, 0, v);
    }
#pragma unroll
    for (int n = 0; n < NF; n++) {
        if (!radius)
#pragma unroll
            for (int j = 0; j < UNIT; j++)
                acc[n][j] = x[j];
        else if (f[n].order == 0)
            finish_line(read, a, f[n], radius, i, x, acc[n]);
    }
}

/* Computes outputs i + j ... i + j + FEW - 1 of a line that are in `mask` (bit 0: i + j), with any taps. Compact and
 * slow code, for thin axes and for derivatives at edges. */
template <int NF, class Read>
__device__ __forceinline__ void filter_few(const Read &read, const axis &a, const taps *f, int i, int j, unsigned mask,
                                           float (&acc)[NF][FEW])
{
    const int radius = f[0].radius;
    const float2 *w[NF][FEW];
#pragma unroll
    for (int n = 0; n < NF; n++)
#pragma unroll
        for (int e = 0; e < FEW; e++) {
            const int p = i + j + e;
            w[n][e] = (mask >> e & 1) && has_row(f[n], p, a.n - 1 - p) ? edge_row(a, f[n], p) : NULL;
            acc[n][e] = 0;
        }
    /* left[e] = d[i + j + e - 1 - k], right[e] = d[i + j + e + k] */
    float left[FEW], right[FEW];
    typename Read::cursor before = read.at_sample(j - radius), after = read.at_sample(j + FEW - 1 + radius);
    float low = before.next(), high = after.previous();
#pragma unroll
    for (int e = 0; e < FEW - 1; e++) {
        const float l = before.next(), r = after.previous();
        left[e + 1] = l - low;
        right[FEW - 2 - e] = high - r;
        low = l;
        high = r;
    }
    /* shifted by one before each use */
#pragma unroll 1
    for (int k = radius - 1; k >= 0; k--) {
        const float l = before.next(), r = after.previous();
#pragma unroll
        for (int e = 0; e < FEW - 1; e++) {
            left[e] = left[e + 1];
            right[FEW - 1 - e] = right[FEW - 2 - e];
        }
        left[FEW - 1] = l - low;
        right[0] = high - r;
        low = l;
        high = r;
#pragma unroll
        for (int n = 0; n < NF; n++) {
            const float t = __ldg(f[n].t + k);
#pragma unroll
            for (int e = 0; e < FEW; e++)
                if (w[n][e]) {
                    const float2 pair = __ldg(w[n][e] + k);
                    acc[n][e] = __fmaf_rn(pair.x, right[e], acc[n][e]);
                    acc[n][e] = __fmaf_rn(pair.y, left[e], acc[n][e]);
                } else {
                    acc[n][e] = __fmaf_rn(t, __fmaf_rn(f[n].sign, left[e], right[e]), acc[n][e]);
                }
        }
    }
    typename Read::cursor centre = read.at_sample(j);
#pragma unroll
    for (int e = 0; e < FEW; e++) {
        const int lo = i + j + e, hi = a.n - 1 - lo, near = min(lo, hi);
        const float x = centre.next();
#pragma unroll
        for (int n = 0; n < NF; n++) {
            if (f[n].order != 0 || !(mask >> e & 1))
                continue;
            if (w[n][e] || !f[n].clip || near >= radius) {
                acc[n][e] = x + acc[n][e];
            } else {
                const float edge = read.at_sample(lo < hi ? -i : a.n - 1 - i).next();
                const float2 c = __ldg(f[n].clip + near);
                acc[n][e] = __fmaf_rn(c.y, __fmaf_rn(c.x, edge - x, acc[n][e]), x);
            }
        }
    }
}

/* Filters a unit of a line: calls most(mask, v) for the outputs without individual taps, and few(j, mask, v) for FEW at
 * a time of the others (only with ROWS). */
template <int NF, int R, bool ROWS, class Read, class Most, class Few>
__device__ __forceinline__ void filter_line(const Read &read, const axis &a, const taps *f,
                                            const float *const *shared, int i, const Most &most, const Few &few)
{
    constexpr unsigned ALL = (1u << UNIT) - 1;
    const unsigned mask = ROWS ? row_mask(a, f[NF - 1], i) : 0;
    if (mask != ALL) {
        float v[NF][UNIT] = {};
        filter_unit<NF, R>(read, a, f, shared, i, v);
        most(ALL & ~mask, v);
    }
    if constexpr (ROWS)
        if (mask)
#pragma unroll 1
            for (int j = 0; j < UNIT; j += FEW) {
                const unsigned some = mask >> j & ((1u << FEW) - 1);
                float v[NF][FEW];
                if (!some)
                    continue;
                filter_few<NF>(read, a, f, i, j, some, v);
                few(j, some, v);
            }
}

/* Reads a line in shared memory: p is sample i, the next one is DISTANCE floats further. */
template <int DISTANCE> struct read_line {
    const float *p;

    struct cursor {
        const float *p;
        __device__ __forceinline__ float next()
        {
            const float v = *p;
            p += DISTANCE;
            return v;
        }
        __device__ __forceinline__ float previous()
        {
            const float v = *p;
            p -= DISTANCE;
            return v;
        }
    };
    __device__ __forceinline__ cursor at_sample(int b) const { return {p + DISTANCE * b}; }
    __device__ __forceinline__ void operator()(int b, float (&v)[CHUNK]) const
    {
        const float *const q = p + DISTANCE * b;
        if (DISTANCE == 1)
            *reinterpret_cast<float4 *>(v) = *reinterpret_cast<const float4 *>(q);
        else
#pragma unroll
            for (int j = 0; j < CHUNK; j++)
                v[j] = q[DISTANCE * j];
    }
    template <int R> __device__ __forceinline__ void around(float (&v)[UNIT + 2 * R]) const
    {
        constexpr int FRONT = (R + 3) / 4 * 4;
#pragma unroll
        for (int b = -FRONT; b < UNIT + FRONT; b += CHUNK) {
            float part[CHUNK];
            (*this)(b, part);
#pragma unroll
            for (int j = 0; j < CHUNK; j++)
                if (b + j >= -R && b + j < UNIT + R)
                    v[R + b + j] = part[j];
        }
    }
};

}
