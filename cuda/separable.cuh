/* SPDX-License-Identifier: BSD-3-Clause */
/* Separable filters of ops/gauss.h on the device: the arithmetic of a line, and two kernels that march along an axis.
 *
 * k_xy filters along x and then y, reading and writing once; k_z filters along z. Both keep a ring of rows (planes) in
 * shared memory, so that every sample is read from device memory about once whatever the radius. The order of
 * operations is that of ops/gauss.h, voxel by voxel, so results equal those of a CPU with fused multiply-add to the
 * bit.
 *
 * A thread makes UNIT consecutive outputs of one line. For radii that the compiler knows all the differences they need
 * are in registers; for others UNIT taps at a time are taken from the outermost inwards: two windows of 2 UNIT - 1
 * differences that slide towards each other by UNIT. All lines of a warp are at the same place along the axis, so what
 * edges change is the same for its lanes.
 *
 * Limits: multiplications (2 R + 2 operations a voxel and axis) from radius 12 on, else memory and the instruction
 * cache, for which code that is not on the usual way is kept small or out of line. */
#ifndef VP_SEPARABLE_CUH
#define VP_SEPARABLE_CUH

#include "separable.h"

namespace vp
{

constexpr int UNIT = 16;              /* outputs of a thread, taps of a chunk */
constexpr int LONGEST = 40;           /* the largest radius that has code of its own */
constexpr int WIDTH = 128;            /* columns of a block */
constexpr int STEP = 2 * UNIT;        /* rows of a step */
constexpr int THREADS = 2 * WIDTH;    /* = 32 lanes x WIDTH / UNIT warps: both phases of k_xy fill the block */
constexpr int RING_PITCH = WIDTH + 4; /* 4 mod 32: lanes on consecutive rows do not meet in a bank */

__host__ __device__ constexpr int padded(int radius)
{
    return (radius + UNIT - 1) / UNIT * UNIT;
}

/* A filter along an axis. */
struct taps {
    const float *t;     /* padded(R) */
    const float2 *edge; /* VP_EDGE_RENORMALIZE: rows of padded(R) pairs up, down; NULL: none */
    int radius, order;
    float sign;         /* of the difference on the left: -1, or 1 for order 1 */
    float few[LONGEST]; /* t where the radius is not larger: operands of instructions, not loads */
};

/* An axis of the image. */
struct axis {
    int n;     /* voxels of the image */
    int rule;  /* enum vp_edge */
    bool thin; /* VP_EDGE_RENORMALIZE, n < 2 R: every voxel has a row of edge taps, else R at each end */
};

/* Rows of samples in device memory; type is an enum vp_type. */
struct view {
    const char *data;
    long long pitch, plane; /* samples */
    int lo[3], hi[3];       /* box */
    int type;
};

/* ---- samples ---- */

__device__ __forceinline__ float load_sample(const char *p, long long i, int type)
{
    switch (type) {
    case VP_U8: return (float)__ldg(reinterpret_cast<const unsigned char *>(p) + i);
    case VP_U16: return (float)__ldg(reinterpret_cast<const unsigned short *>(p) + i);
    case VP_I16: return (float)__ldg(reinterpret_cast<const short *>(p) + i);
    default: return __ldg(reinterpret_cast<const float *>(p) + i);
    }
}

/* Four samples at a multiple of four. */
__device__ __forceinline__ float4 load_four(const char *p, long long i, int type)
{
    switch (type) {
    case VP_U8: {
        const uchar4 v = __ldg(reinterpret_cast<const uchar4 *>(p + i));
        return make_float4(v.x, v.y, v.z, v.w);
    }
    case VP_U16: {
        const ushort4 v = __ldg(reinterpret_cast<const ushort4 *>(p + 2 * i));
        return make_float4(v.x, v.y, v.z, v.w);
    }
    case VP_I16: {
        const short4 v = __ldg(reinterpret_cast<const short4 *>(p + 2 * i));
        return make_float4(v.x, v.y, v.z, v.w);
    }
    default: return __ldg(reinterpret_cast<const float4 *>(p + 4 * i));
    }
}

/* To nearest even, clamped; NaN is 0. */
__device__ __forceinline__ int to_integer(float v, float least, float most)
{
    return v == v ? __float2int_rn(fminf(fmaxf(v, least), most)) : 0;
}

__device__ __forceinline__ void store_sample(char *p, long long i, int type, float v)
{
    switch (type) {
    case VP_U8: p[i] = (char)to_integer(v, 0, 255); break;
    case VP_U16: reinterpret_cast<unsigned short *>(p)[i] = (unsigned short)to_integer(v, 0, 65535); break;
    case VP_I16: reinterpret_cast<short *>(p)[i] = (short)to_integer(v, -32768, 32767); break;
    default: __stcs(reinterpret_cast<float *>(p) + i, v);
    }
}

template <class Store>
__device__ __forceinline__ void store_each(const float (&v)[UNIT], unsigned mask, const Store &store)
{
#pragma unroll
    for (int j = 0; j < UNIT; j++)
        if (mask >> j & 1)
            store(j, v[j]);
}

/* The outputs in `mask` of a line to q, q + step ... (the address grows with the line: sixteen would be too many). */
template <class Sample, class Convert>
__device__ __forceinline__ void store_as(Sample *q, long long step, const float (&v)[UNIT], unsigned mask,
                                         const Convert &convert)
{
    if (mask == (1u << UNIT) - 1) {
#pragma unroll
        for (int j = 0; j < UNIT; j++, q += step)
            __stcs(q, (Sample)convert(v[j]));
        return;
    }
#pragma unroll
    for (int j = 0; j < UNIT; j++) {
        if (mask >> j & 1)
            __stcs(q, (Sample)convert(v[j]));
        q += step;
        asm volatile("" : "+l"(q));
    }
}

__device__ __forceinline__ void store_line(char *p, long long to, long long step, int type, const float (&v)[UNIT],
                                           unsigned mask)
{
    switch (type) {
    case VP_U8:
        store_as(reinterpret_cast<unsigned char *>(p) + to, step, v, mask,
                 [](float u) { return to_integer(u, 0, 255); });
        break;
    case VP_U16:
        store_as(reinterpret_cast<unsigned short *>(p) + to, step, v, mask,
                 [](float u) { return to_integer(u, 0, 65535); });
        break;
    case VP_I16:
        store_as(reinterpret_cast<short *>(p) + to, step, v, mask,
                 [](float u) { return to_integer(u, -32768, 32767); });
        break;
    default:
        store_as(reinterpret_cast<float *>(p) + to, step, v, mask, [](float u) { return u; });
    }
}

/* v = sample - v: high-pass. */
__device__ __forceinline__ void subtract_line(const char *p, long long from, long long step, int type,
                                              float (&v)[UNIT], unsigned mask)
{
#pragma unroll
    for (int j = 0; j < UNIT; j++) {
        if (mask >> j & 1)
            v[j] = load_sample(p, from, type) - v[j];
        from += step;
        asm volatile("" : "+l"(from));
    }
}

/* The first n of UNIT outputs. */
__device__ __forceinline__ unsigned first_of(int n)
{
    return n >= UNIT ? (1u << UNIT) - 1 : (1u << n) - 1;
}

__device__ __forceinline__ void copy_async(float *to, const void *from, int bytes)
{
    const unsigned a = (unsigned)__cvta_generic_to_shared(to);
    if (bytes == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(a), "l"(from) : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(a), "l"(from) : "memory");
}

__device__ __forceinline__ void copies_done()
{
    asm volatile("cp.async.commit_group;\n cp.async.wait_group 0;" ::: "memory");
}

constexpr int FEW = 4; /* outputs at an edge that are made together */

__device__ __forceinline__ void store_few(char *p, long long to, long long step, int type, bool highpass,
                                          const view &source, long long from, long long from_step,
                                          const float (&v)[FEW], unsigned mask)
{
#pragma unroll
    for (int e = 0; e < FEW; e++)
        if (mask >> e & 1) {
            const float s = highpass ? load_sample(source.data, from + e * from_step, source.type) - v[e] : v[e];
            store_sample(p, to + e * step, type, s);
        }
}

/* Where sample p of an axis of n is taken from, as vp_edge_from; -1: it is 0. */
__device__ __forceinline__ int edge_from(int rule, int p, int n)
{
    if (p >= 0 && p < n)
        return p;
    switch (rule) {
    case VP_EDGE_ZERO: return -1;
    case VP_EDGE_MIRROR: {
        const int q = p % (2 * n), r = q < 0 ? q + 2 * n : q;
        return r < n ? r : 2 * n - 1 - r;
    }
    case VP_EDGE_WRAP: {
        const int q = p % n;
        return q < 0 ? q + n : q;
    }
    default: return p < 0 ? 0 : n - 1;
    }
}

/* ---- a line ---- */

/* Bit j: output i + j is in the image and has edge taps. */
__device__ __forceinline__ unsigned edge_mask(const axis &a, const taps &f, int i)
{
    unsigned mask = 0;
    if (!f.edge || (i >= f.radius && i + UNIT <= a.n - f.radius))
        return 0;
#pragma unroll
    for (int j = 0; j < UNIT; j++)
        mask |= (unsigned)(i + j < a.n && (i + j < f.radius || i + j >= a.n - f.radius)) << j;
    return mask;
}

/* The edge taps of output i, two taps a float4. */
__device__ __forceinline__ const float4 *edge_row(const axis &a, const taps &f, int i)
{
    const int row = a.thin || i < f.radius ? i : f.radius + a.n - 1 - i;
    return reinterpret_cast<const float4 *>(f.edge) + row * (padded(f.radius) / 2);
}

/* The taps k + UNIT - 1 down to k, those below k + m only. */
template <int NF, bool ALL>
__device__ __forceinline__ void add_taps(const float (&left)[2 * UNIT], const float (&right)[2 * UNIT],
                                         const float *const *shared, int k, int m, float sign, float (&acc)[NF][UNIT])
{
#pragma unroll
    for (int four = UNIT - 4; four >= 0; four -= 4) {
        float t[NF][4];
#pragma unroll
        for (int n = 0; n < NF; n++)
            *reinterpret_cast<float4 *>(t[n]) = *reinterpret_cast<const float4 *>(shared[n] + k + four);
#pragma unroll
        for (int e = 3; e >= 0; e--) {
            const int q = four + e;
            if (ALL || q < m)
#pragma unroll
                for (int j = 0; j < UNIT; j++) {
                    const float pair = __fmaf_rn(sign, left[j + UNIT - 1 - q], right[j + q]);
#pragma unroll
                    for (int n = 0; n < NF; n++)
                        acc[n][j] = __fmaf_rn(t[n][e], pair, acc[n][j]);
                }
        }
    }
}

/* Sums of NF filters (of one radius; orders both even or both odd) for outputs i ... i + UNIT - 1 of a line, for any
 * radius. read(b, v) gives samples i + b ... i + b + UNIT - 1, b a multiple of UNIT; shared[n] is t of filter n in
 * shared memory. */
template <int NF, class Read>
__device__ __forceinline__ void line_sums(const Read &read, const taps *f, const float *const *shared,
                                          float (&acc)[NF][UNIT])
{
    const int radius = f[0].radius;
    float left[2 * UNIT], right[2 * UNIT], v[UNIT];
    int k = (radius - 1) / UNIT * UNIT;

    /* left[q] = d[i - k - UNIT + q], right[q] = d[i + k + q] */
    read(-k - UNIT, v);
#pragma unroll
    for (int q = 0; q < UNIT - 1; q++)
        left[q] = v[q + 1] - v[q];
    float left_end = v[UNIT - 1];
    read(k + UNIT, v);
#pragma unroll
    for (int q = 0; q < UNIT - 1; q++)
        right[UNIT + q] = v[q + 1] - v[q];
    float right_end = v[0];

#pragma unroll 1
    for (;;) {
        read(-k, v);
        left[UNIT - 1] = v[0] - left_end;
#pragma unroll
        for (int q = 0; q < UNIT - 1; q++)
            left[UNIT + q] = v[q + 1] - v[q];
        left_end = v[UNIT - 1];
        read(k, v);
        right[UNIT - 1] = right_end - v[UNIT - 1];
#pragma unroll
        for (int q = 0; q < UNIT - 1; q++)
            right[q] = v[q + 1] - v[q];
        right_end = v[0];

        const int m = radius - k; /* taps of this chunk, or more */
        if (m >= UNIT)
            add_taps<NF, true>(left, right, shared, k, m, f[0].sign, acc);
        else
            add_taps<NF, false>(left, right, shared, k, m, f[0].sign, acc);
        if (k == 0)
            break;
        k -= UNIT;
#pragma unroll
        for (int q = 0; q < UNIT - 1; q++) {
            left[q] = left[UNIT + q];
            right[UNIT + q] = right[q];
        }
    }
}

/* The same for a radius R that the compiler knows. v: samples i - R ... i + UNIT + R - 1. */
template <int NF, int R>
__device__ __forceinline__ void short_sums(const float (&v)[UNIT + 2 * R], const taps *f, float (&acc)[NF][UNIT])
{
    float d[UNIT + 2 * R - 1]; /* d[q] of ops/gauss.h at i - R + q */
#pragma unroll
    for (int q = 0; q < UNIT + 2 * R - 1; q++)
        d[q] = v[q + 1] - v[q];
#pragma unroll
    for (int k = R - 1; k >= 0; k--)
#pragma unroll
        for (int j = 0; j < UNIT; j++) {
            const float pair = __fmaf_rn(f[0].sign, d[R + j - 1 - k], d[R + j + k]);
#pragma unroll
            for (int n = 0; n < NF; n++)
                acc[n][j] = __fmaf_rn(f[n].few[k], pair, acc[n][j]);
        }
}

/* Outputs i ... i + UNIT - 1 of a line by the taps of the interior. R: the radius if the compiler knows it, 0:
 * any. */
template <int NF, int R, class Read>
__device__ __forceinline__ void filter_inside(const Read &read, const taps *f, const float *const *shared,
                                              float (&acc)[NF][UNIT])
{
#pragma unroll
    for (int n = 0; n < NF; n++)
#pragma unroll
        for (int j = 0; j < UNIT; j++)
            acc[n][j] = 0;
    if constexpr (R > 0) {
        float v[UNIT + 2 * R];
        read.template around<R>(v);
        short_sums<NF, R>(v, f, acc);
#pragma unroll
        for (int n = 0; n < NF; n++)
            if (f[n].order == 0)
#pragma unroll
                for (int j = 0; j < UNIT; j++)
                    acc[n][j] = v[R + j] + acc[n][j];
    } else {
        float v[UNIT];
        if (f[0].radius)
            line_sums<NF>(read, f, shared, acc);
        read(0, v);
#pragma unroll
        for (int n = 0; n < NF; n++)
            if (f[n].order == 0)
#pragma unroll
                for (int j = 0; j < UNIT; j++)
                    acc[n][j] = f[n].radius ? v[j] + acc[n][j] : v[j];
    }
}

/* Outputs i + j ... i + j + FEW - 1 of a line, those of them that are in `mask` (bit 0: i + j), by their edge taps.
 * Little code, which shares the instruction cache with the interior's. */
template <int NF, class Read>
__device__ __forceinline__ void filter_edge(const Read &read, const axis &a, const taps *f, int i, int j, unsigned mask,
                                            float (&acc)[NF][FEW])
{
    const int radius = f[0].radius;
    const float4 *w[NF][FEW];
#pragma unroll
    for (int n = 0; n < NF; n++)
#pragma unroll
        for (int e = 0; e < FEW; e++) {
            w[n][e] = edge_row(a, f[n], mask >> e & 1 ? i + j + e : 0);
            acc[n][e] = 0;
        }
    /* left[e] = d[i + j + e - 1 - k], right[e] = d[i + j + e + k] */
    float left[FEW], right[FEW];
    typename Read::cursor before = read.at(j - radius), behind = read.at(j + FEW - 1 + radius);
    float low = before.next(), high = behind.previous();
#pragma unroll
    for (int e = 0; e < FEW - 1; e++) {
        const float l = before.next(), r = behind.previous();
        left[e + 1] = l - low;
        right[FEW - 2 - e] = high - r;
        low = l;
        high = r;
    }
    /* shifted by one before each use */
#pragma unroll 1
    for (int k = radius - 1; k >= 0; k--) {
        const float l = before.next(), r = behind.previous();
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
        for (int n = 0; n < NF; n++)
#pragma unroll
            for (int e = 0; e < FEW; e++) {
                const float2 pair = __ldg(reinterpret_cast<const float2 *>(w[n][e]) + k);
                acc[n][e] = __fmaf_rn(pair.x, right[e], acc[n][e]);
                acc[n][e] = __fmaf_rn(pair.y, left[e], acc[n][e]);
            }
    }
    typename Read::cursor centre = read.at(j);
#pragma unroll
    for (int e = 0; e < FEW; e++) {
        const float v = centre.next();
#pragma unroll
        for (int n = 0; n < NF; n++)
            if (f[n].order == 0)
                acc[n][e] = v + acc[n][e];
    }
}

/* A whole line: inside(mask, v) for the outputs in the interior, edge(j, mask, v) for FEW at a time of the others. */
template <int NF, int R, class Read, class Inside, class Edge>
__device__ __forceinline__ void filter_line(const Read &read, const axis &a, const taps *f,
                                            const float *const *shared, int i, const Inside &inside, const Edge &edge)
{
    constexpr unsigned ALL = (1u << UNIT) - 1;
    const unsigned mask = R || f[0].radius ? edge_mask(a, f[0], i) : 0;
    if (mask != ALL) {
        float v[NF][UNIT];
        filter_inside<NF, R>(read, f, shared, v);
        inside(ALL & ~mask, v);
    }
    if (mask)
#pragma unroll 1
        for (int j = 0; j < UNIT; j += FEW) {
            const unsigned some = mask >> j & ((1u << FEW) - 1);
            float v[NF][FEW];
            if (!some)
                continue;
            filter_edge<NF>(read, a, f, i, j, some, v);
            edge(j, some, v);
        }
}

/* ---- samples in shared memory ---- */

/* A row: p is sample i. */
struct read_row {
    const float *p;

    struct cursor {
        const float *p;
        __device__ __forceinline__ float next() { return *p++; }
        __device__ __forceinline__ float previous() { return *p--; }
    };
    __device__ __forceinline__ cursor at(int b) const { return {p + b}; }

    __device__ __forceinline__ void operator()(int b, float (&v)[UNIT]) const
    {
#pragma unroll
        for (int j = 0; j < UNIT; j += 4)
            *reinterpret_cast<float4 *>(&v[j]) = *reinterpret_cast<const float4 *>(p + b + j);
    }
    template <int R> __device__ __forceinline__ void around(float (&v)[UNIT + 2 * R]) const
    {
        constexpr int FRONT = (R + 3) / 4 * 4, ALL = UNIT + 2 * FRONT;
        float all[ALL];
#pragma unroll
        for (int q = 0; q < ALL; q += 4)
            *reinterpret_cast<float4 *>(&all[q]) = *reinterpret_cast<const float4 *>(p - FRONT + q);
#pragma unroll
        for (int q = 0; q < UNIT + 2 * R; q++)
            v[q] = all[FRONT - R + q];
    }
};

/* Rows (planes) that pass by. */
struct ring {
    float *data;
    int rows; /* a multiple of UNIT */
    int pitch;
    int first; /* row of slot 0 */
};

__device__ __forceinline__ float *ring_row(const ring &r, int row)
{
    return r.data + (row - r.first) % r.rows * r.pitch;
}

/* A column of it; i - r.first is a multiple of UNIT. */
struct read_ring {
    const float *column;
    int rows, pitch, slot; /* of row i */

    struct cursor {
        const float *column;
        int at, size, pitch;
        __device__ __forceinline__ float next()
        {
            const float v = column[at];
            at += pitch;
            at -= at >= size ? size : 0;
            return v;
        }
        __device__ __forceinline__ float previous()
        {
            const float v = column[at];
            at -= pitch;
            at += at < 0 ? size : 0;
            return v;
        }
    };
    __device__ __forceinline__ cursor at(int b) const
    {
        int s = slot + b;
        s += s < 0 ? rows : 0;
        s -= s >= rows ? rows : 0;
        return {column, s * pitch, rows * pitch, pitch};
    }

    __device__ __forceinline__ read_ring(const ring &r, int i, int x)
        : column(r.data + x), rows(r.rows), pitch(r.pitch), slot((i - r.first) % r.rows)
    {
    }
    __device__ __forceinline__ const float *block(int b) const
    {
        int s = slot + b;
        s += s < 0 ? rows : 0;
        s -= s >= rows ? rows : 0;
        return column + s * pitch;
    }
    __device__ __forceinline__ void operator()(int b, float (&v)[UNIT]) const
    {
        const float *p = block(b);
#pragma unroll
        for (int j = 0; j < UNIT; j++)
            v[j] = p[j * pitch];
    }
    template <int R> __device__ __forceinline__ void around(float (&v)[UNIT + 2 * R]) const
    {
        constexpr int SIDE = padded(R) / UNIT;
#pragma unroll
        for (int b = -SIDE; b <= SIDE; b++) {
            const float *const p = block(b * UNIT);
#pragma unroll
            for (int j = 0; j < UNIT; j++)
                if (b * UNIT + j >= -R && b * UNIT + j < UNIT + R)
                    v[R + b * UNIT + j] = p[j * pitch];
        }
    }
};

/* Steps of `step` rows march over the outputs [begin, end) of an axis; when step t has come, block t - lag can be
 * made. */
struct march {
    int begin, end, blocks, lag, step, padded_radius;
    int need_lo, need_hi; /* rows to be read; outside the image only where it wraps around */
};

__device__ __forceinline__ march march_over(const axis &a, int radius, int begin, int end, int step)
{
    march m;
    m.begin = begin;
    m.end = end;
    m.step = step;
    m.padded_radius = padded(radius);
    m.blocks = (end - begin + step - 1) / step;
    m.lag = (radius + m.padded_radius + step - 1) / step;
    m.need_lo = begin - radius;
    m.need_hi = end + radius;
    if (a.rule != VP_EDGE_WRAP) {
        m.need_lo = max(m.need_lo, 0);
        m.need_hi = min(m.need_hi, a.n);
    }
    return m;
}

__device__ __forceinline__ int step_row(const march &m, int t)
{
    return m.begin - m.padded_radius + m.step * t;
}

__device__ __forceinline__ bool step_needed(const march &m, int t)
{
    const int row = step_row(m, t);
    return row < m.need_hi && row + m.step > m.need_lo;
}

/* ---- x and y ---- */

struct xy_args {
    view in;
    char *out[2]; /* NF = 1: the result. NF = 2: p, q of ops/log.h; either may be NULL */
    long long out_pitch, out_plane;
    int out_type, out_lo[3], out_hi[3];
    axis x, y;
    taps fx[2], fy[2]; /* NF = 2: order 0, order 2 */
    int strips, chunks, chunk_rows, stages;
    bool highpass;
};

__host__ __device__ constexpr int stage_pitch(int radius)
{
    return WIDTH + 2 * padded(radius) + 4; /* 4 mod 32, as RING_PITCH */
}

/* `stages`: 2 where they fit twice into a multiprocessor, see k_xy. */
__host__ __device__ constexpr int xy_ring_rows(int ry, int stages)
{
    return stages * STEP + 2 * padded(ry);
}

__host__ __device__ constexpr size_t xy_shared(int nf, int rx, int ry, int stages)
{
    return sizeof(float) * ((size_t)stages * STEP * stage_pitch(rx) +
                            (size_t)nf * xy_ring_rows(ry, stages) * RING_PITCH +
                            (size_t)nf * (padded(rx) + padded(ry)));
}

/* The part of stage_four that is out of the way: other types, other places, edges. */
static __device__ __noinline__ void stage_four_slowly(const char *data, int type, int lo, int hi, int rule, int n,
                                                      float *to, long long line, int x)
{
    const int c = x - lo;
    if (c >= 0 && c % 4 == 0 && x + 4 <= hi) {
        *reinterpret_cast<float4 *>(to) = load_four(data, line + c, type);
        return;
    }
#pragma unroll 1
    for (int e = 0; e < 4; e++) {
        const int from = edge_from(rule, x + e, n);
        const bool there = from >= lo && from < hi;
        if (there && type == VP_F32)
            copy_async(to + e, data + 4 * (line + from - lo), 4);
        else
            to[e] = there ? load_sample(data, line + from - lo, type) : 0;
    }
}

/* Samples x ... x + 3 of a line (where sample in.lo[0] is number `line` of the part) as floats, by the edge rule; those
 * that the part has not got are not needed. */
__device__ __forceinline__ void stage_four(const view &in, const axis &a, float *to, long long line, int x)
{
    const int c = x - in.lo[0];
    if (c >= 0 && c % 4 == 0 && x + 4 <= in.hi[0] && in.type == VP_F32)
        copy_async(to, in.data + 4 * (line + c), 16);
    else
        stage_four_slowly(in.data, in.type, in.lo[0], in.hi[0], a.rule, a.n, to, line, x);
}

/* Rows [row, row + STEP) x columns [x0 - R, x0 + WIDTH + R) of plane z. A warp copies whole rows, and then groups of
 * four columns on both sides of all rows, so that its lanes agree where the image ends. */
__device__ __forceinline__ void stage_rows(const xy_args &a, const march &m, float *stage, int x0, int row, int z)
{
    const int radius = a.fx[0].radius, pitch = stage_pitch(radius), lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int groups = (radius + 3) / 4, end = min(x0 + WIDTH, a.out_hi[0]) + radius;
    const bool wrap = a.y.rule == VP_EDGE_WRAP;
    const long long plane = (long long)(z - a.in.lo[2]) * a.in.plane;
    float *const origin = stage + padded(radius);
#pragma unroll 1
    for (int r = warp; r < STEP; r += THREADS / 32) {
        const int y = wrap ? edge_from(a.y.rule, row + r, a.y.n) : row + r;
        if (row + r >= m.need_lo && row + r < m.need_hi && x0 + 4 * lane < end)
            stage_four(a.in, a.x, origin + r * pitch + 4 * lane, plane + (long long)(y - a.in.lo[1]) * a.in.pitch,
                       x0 + 4 * lane);
    }
    const int y = wrap ? edge_from(a.y.rule, row + lane, a.y.n) : row + lane;
    if (row + lane < m.need_lo || row + lane >= m.need_hi)
        return;
    const long long line = plane + (long long)(y - a.in.lo[1]) * a.in.pitch;
#pragma unroll 1
    for (int g = warp; g < 2 * groups; g += THREADS / 32) {
        const int column = g < groups ? -4 * (g + 1) : WIDTH + 4 * (g - groups);
        if (x0 + column < end)
            stage_four(a.in, a.x, origin + lane * pitch + column, line, x0 + column);
    }
}

/* Rows of the ring outside the image: what the edge rule puts there. */
__device__ __forceinline__ void extend_ring(const ring &r, const axis &a, int lo, int hi)
{
    const int lane = threadIdx.x % 32;
#pragma unroll 1
    for (int row = lo + (int)threadIdx.x / 32; row < hi; row += THREADS / 32) {
        const int from = edge_from(a.rule, row, a.n);
        const float4 zero = make_float4(0, 0, 0, 0);
        reinterpret_cast<float4 *>(ring_row(r, row))[lane] =
            from < 0 ? zero : reinterpret_cast<const float4 *>(ring_row(r, from))[lane];
    }
}

/* Overview: a block makes WIDTH columns x chunk_rows rows of one plane, STEP rows at a time: they come into a stage,
 *   are filtered along x into the ring, and what the ring then allows is filtered along y and written. With two
 *   stages the rows of the next step are on their way meanwhile, and y works on the step before (one barrier a step);
 *   with one stage the next rows are asked for when x is done (two barriers; other blocks fill the gap).
 * Mapping: along x a warp has UNIT columns and a lane is a row; along y a lane is a column.
 * Memory: reads its rows 1 + 2 R / WIDTH times (neighbouring blocks through the cache), writes once. */
template <int NF, int R, bool ALONG_Y>
__global__ void __launch_bounds__(THREADS, NF == 1 ? 2 : 1) k_xy(const __grid_constant__ xy_args a)
{
    extern __shared__ __align__(16) float shared[];
    const int rx = R ? R : a.fx[0].radius, ry = !ALONG_Y ? 0 : R ? R : a.fy[0].radius;
    const int tid = threadIdx.x, lane = tid % 32, warp = tid / 32, late = a.stages - 1;
    float *at = shared + a.stages * STEP * stage_pitch(rx);
    ring rings[NF];
    const int ring_rows = xy_ring_rows(ry, a.stages);
#pragma unroll
    for (int n = 0; n < NF; n++, at += ring_rows * RING_PITCH)
        rings[n] = {at, ring_rows, RING_PITCH, 0};
    const float *tx[NF], *ty[NF];
    if (R == 0)
#pragma unroll
        for (int n = 0; n < NF; n++) {
            for (int k = tid; k < padded(rx); k += THREADS)
                at[k] = a.fx[n].t[k];
            tx[n] = at;
            at += padded(rx);
            for (int k = tid; k < padded(ry); k += THREADS)
                at[k] = a.fy[n].t[k];
            ty[n] = at;
            at += padded(ry);
        }

    const unsigned block = blockIdx.x;
    const int x0 = a.out_lo[0] + (int)(block % a.strips) * WIDTH;
    const int chunk = (int)(block / a.strips % a.chunks), z = a.out_lo[2] + (int)(block / a.strips / a.chunks);
    const int begin = a.out_lo[1] + chunk * a.chunk_rows;
    const march m = march_over(a.y, ry, begin, min(begin + a.chunk_rows, a.out_hi[1]), STEP);
    const int column = tid % WIDTH, x = x0 + column, steps = m.blocks + m.lag;
    int first_step = 0;
    while (!step_needed(m, first_step))
        first_step++;
#pragma unroll
    for (int n = 0; n < NF; n++)
        rings[n].first = step_row(m, 0);

#pragma unroll 1
    for (int t = first_step - 1; t < steps + late; t++) {
        copies_done();
        __syncthreads();
        float *const next = shared + ((t + 1) & late) * STEP * stage_pitch(rx);
        const bool more = t + 1 < steps && step_needed(m, t + 1);
        if (late && more)
            stage_rows(a, m, next, x0, step_row(m, t + 1), z);
        if (t >= first_step && t < steps && step_needed(m, t) && x0 + warp * UNIT < a.out_hi[0]) {
            const read_row read = {shared + ((t & late) * STEP + lane) * stage_pitch(rx) + padded(rx) + warp * UNIT};
            float *to[NF];
#pragma unroll
            for (int n = 0; n < NF; n++)
                to[n] = ring_row(rings[n], step_row(m, t) + lane) + warp * UNIT;
            filter_line<NF, R>(
                read, a.x, a.fx, tx, x0 + warp * UNIT,
                [&](unsigned mask, const float(&v)[NF][UNIT]) {
#pragma unroll
                    for (int n = 0; n < NF; n++)
#pragma unroll
                        for (int j = 0; j < UNIT; j += 4) /* edge outputs too: they are overwritten */
                            *reinterpret_cast<float4 *>(to[n] + j) =
                                make_float4(v[n][j], v[n][j + 1], v[n][j + 2], v[n][j + 3]);
                    (void)mask;
                },
                [&](int j, unsigned mask, const float(&v)[NF][FEW]) {
#pragma unroll
                    for (int n = 0; n < NF; n++)
#pragma unroll
                        for (int e = 0; e < FEW; e++)
                            if (mask >> e & 1)
                                to[n][j + e] = v[n][e];
                });
        }
        if (!late) {
            __syncthreads();
            if (more)
                stage_rows(a, m, next, x0, step_row(m, t + 1), z);
        }
        const int s = t - late; /* the step that y may use */
        if (s < m.lag)
            continue;
        /* Rows before the image when all that follows is there for the first time, behind it as they are reached. */
        const int from_row = s == m.lag ? m.begin - ry : step_row(m, s), to_row = step_row(m, s) + STEP;
        const bool before = s == m.lag && m.begin - ry < 0, behind = to_row > a.y.n && from_row < m.end + ry;
        if (a.y.rule != VP_EDGE_WRAP && (before || behind)) {
#pragma unroll
            for (int n = 0; n < NF; n++) {
                if (before)
                    extend_ring(rings[n], a.y, m.begin - ry, 0);
                if (behind)
                    extend_ring(rings[n], a.y, max(from_row, a.y.n), min(to_row, m.end + ry));
            }
            __syncthreads();
        }
        const int i = m.begin + (s - m.lag) * STEP + tid / WIDTH * UNIT;
        if (x >= a.out_hi[0] || i >= m.end)
            continue;
        const unsigned there = first_of(m.end - i);
        const long long to = (long long)(z - a.out_lo[2]) * a.out_plane + (long long)(i - a.out_lo[1]) * a.out_pitch +
                             (x - a.out_lo[0]);
        const read_ring ring_a(rings[0], i, column), ring_b(rings[NF - 1], i, column);
        if constexpr (NF == 1) {
            const long long from = (long long)(z - a.in.lo[2]) * a.in.plane +
                                   (long long)(i - a.in.lo[1]) * a.in.pitch + (x - a.in.lo[0]);
            const auto finish = [&](unsigned mask, float(&v)[1][UNIT]) {
                if (a.highpass)
                    subtract_line(a.in.data, from, a.in.pitch, a.in.type, v[0], mask & there);
                store_line(a.out[0], to, a.out_pitch, a.out_type, v[0], mask & there);
            };
            if constexpr (!ALONG_Y) {
                float v[1][UNIT];
                ring_a(0, v[0]);
                finish(there, v);
                continue;
            }
            filter_line<1, R>(
                ring_a, a.y, a.fy, ty, i, finish,
                [&](int j, unsigned mask, float(&v)[1][FEW]) {
                    store_few(a.out[0], to + j * a.out_pitch, a.out_pitch, a.out_type, a.highpass, a.in,
                              from + j * a.in.pitch, a.in.pitch, v[0], mask & there >> j);
                });
        } else {
            /* q = Gy(a), p = Gy(b) + G''y(a) */
            const unsigned mask = ry ? edge_mask(a.y, a.fy[0], i) : 0, inside = there & ~mask;
            if (inside) {
                float v[2][UNIT], w[1][UNIT];
                filter_inside<2, R>(ring_a, a.fy, ty, v);
                if (a.out[1])
                    store_line(a.out[1], to, a.out_pitch, VP_F32, v[0], inside);
                if (a.out[0] && rx) {
                    filter_inside<1, R>(ring_b, a.fy, ty, w);
#pragma unroll
                    for (int j = 0; j < UNIT; j++)
                        v[1][j] = ry ? w[0][j] + v[1][j] : w[0][j];
                }
                if (a.out[0])
                    store_line(a.out[0], to, a.out_pitch, VP_F32, v[1], inside);
            }
#pragma unroll 1
            for (int j = 0; j < UNIT; j += FEW) {
                const unsigned some = mask >> j & ((1u << FEW) - 1);
                float v[2][FEW], w[1][FEW];
                if (!some)
                    continue;
                filter_edge<2>(ring_a, a.y, a.fy, i, j, some, v);
                if (a.out[1])
                    store_few(a.out[1], to + j * a.out_pitch, a.out_pitch, VP_F32, false, a.in, 0, 0, v[0],
                              some & there >> j);
                if (!a.out[0])
                    continue;
                if (rx) {
                    filter_edge<1>(ring_b, a.y, a.fy, i, j, some, w);
#pragma unroll
                    for (int e = 0; e < FEW; e++)
                        v[1][e] = w[0][e] + v[1][e];
                }
                store_few(a.out[0], to + j * a.out_pitch, a.out_pitch, VP_F32, false, a.in, 0, 0, v[1],
                          some & there >> j);
            }
        }
    }
}

/* ---- z ---- */

constexpr int Z_WARPS = 4, Z_AHEAD = 2; /* steps that are on their way while one is worked on */

struct z_args {
    view in[2]; /* f32; NF = 1: the samples. NF = 2: p (data may be NULL: nothing), q */
    char *out;
    long long out_pitch, out_plane;
    int out_type, out_lo[3], out_hi[3];
    axis z;
    taps f[2];
    int strips, chunks, chunk_planes;
    bool highpass;
    view source; /* for highpass */
};

__host__ __device__ constexpr int z_ring_rows(int r)
{
    return (1 + Z_AHEAD) * UNIT + 2 * padded(r);
}

__host__ __device__ constexpr size_t z_shared(int nf, int r)
{
    return sizeof(float) * nf * ((size_t)Z_WARPS * z_ring_rows(r) * 32 + padded(r));
}

/* UNIT planes from `plane` on of 32 columns of row y, also planes outside the image, into a warp's ring. */
__device__ __forceinline__ void stage_planes(const z_args &a, const march &m, const view &in, const ring &to, int x0,
                                             int y, int plane)
{
    const int lane = threadIdx.x % 32, q = lane % 8, x = x0 + 4 * q, width = min(4, a.out_hi[0] - x);
    float *slot = ring_row(to, plane) + lane / 8 * 32 + 4 * q;
    const long long at = (long long)(y - in.lo[1]) * in.pitch + (x - in.lo[0]);
    const bool whole = width == 4 && ((in.plane | at) & 3) == 0;
    if (width <= 0)
        return;
#pragma unroll
    for (int r = 0; r < UNIT; r += 4, slot += 4 * 32) {
        const int z = plane + r + lane / 8;
        if (z < m.begin - a.f[0].radius || z >= m.end + a.f[0].radius)
            continue;
        const int from = edge_from(a.z.rule, z, a.z.n);
        const char *const p = in.data + 4 * ((long long)(from - in.lo[2]) * in.plane + at);
        if (from < 0)
            *reinterpret_cast<float4 *>(slot) = make_float4(0, 0, 0, 0);
        else if (whole)
            copy_async(slot, p, 16);
        else
            for (int e = 0; e < width; e++)
                copy_async(slot + e, p + 4 * e, 4);
    }
}

/* Overview: a warp makes 32 columns of one row of chunk_planes planes, UNIT planes at a time, from a ring of its own
 *   that is Z_AHEAD steps ahead. A lane is a column; warps have nothing to do with each other.
 * Memory: reads NF and writes one volume, a plane of a step in pieces of 128 bytes. */
template <int NF, int R>
__global__ void __launch_bounds__(32 * Z_WARPS, NF == 1 ? 4 : 3) k_z(const __grid_constant__ z_args a)
{
    extern __shared__ __align__(16) float shared[];
    const int radius = R ? R : a.f[0].radius, tid = threadIdx.x, lane = tid % 32, warp = tid / 32;
    const int ring_rows = z_ring_rows(radius);
    const float *tz[NF];
    float *at = shared + NF * Z_WARPS * ring_rows * 32;
    if (R == 0) {
#pragma unroll
        for (int n = 0; n < NF; n++) {
            for (int k = tid; k < padded(radius); k += 32 * Z_WARPS)
                at[k] = a.f[n].t[k];
            tz[n] = at;
            at += padded(radius);
        }
        __syncthreads();
    }
    const unsigned block = blockIdx.x;
    const int rows = a.out_hi[1] - a.out_lo[1];
    const int x0 = a.out_lo[0] + ((int)(block % a.strips) * Z_WARPS + warp) * 32;
    const int y = a.out_lo[1] + (int)(block / a.strips % rows), x = x0 + lane;
    const int begin = a.out_lo[2] + (int)(block / a.strips / rows) * a.chunk_planes;
    if (x0 >= a.out_hi[0])
        return;
    const march m = march_over(a.z, radius, begin, min(begin + a.chunk_planes, a.out_hi[2]), UNIT);
    ring mine = {shared + NF * warp * ring_rows * 32, ring_rows, 32, step_row(m, 0)};
    const bool two = NF == 2 && a.in[0].data;
    const int steps = m.blocks + m.lag;
#pragma unroll 1
    for (int t = -Z_AHEAD; t < steps; t++) {
        asm volatile("cp.async.wait_group %0;" ::"n"(Z_AHEAD - 1) : "memory");
        __syncwarp();
        if (t + Z_AHEAD < steps)
#pragma unroll 1
            for (int n = two ? 0 : NF - 1; n < NF; n++) {
                ring r = mine;
                r.data += n * ring_rows * 32;
                stage_planes(a, m, a.in[n], r, x0, y, step_row(m, t + Z_AHEAD));
            }
        asm volatile("cp.async.commit_group;" ::: "memory");
        const int i = m.begin + (t - m.lag) * UNIT;
        if (t < m.lag || x >= a.out_hi[0])
            continue;
        const unsigned there = first_of(m.end - i);
        const long long to = (long long)(i - a.out_lo[2]) * a.out_plane + (long long)(y - a.out_lo[1]) * a.out_pitch +
                             (x - a.out_lo[0]);
        const long long from = (long long)(i - a.source.lo[2]) * a.source.plane +
                               (long long)(y - a.source.lo[1]) * a.source.pitch + (x - a.source.lo[0]);
        const read_ring ring_a(mine, i, lane), ring_b(mine, i, lane + (NF - 1) * ring_rows * 32);
        const unsigned mask = edge_mask(a.z, a.f[0], i), inside = there & ~mask;
        if (inside) {
            float v[1][UNIT], w[1][UNIT];
            filter_inside<1, R>(ring_b, a.f + NF - 1, tz + NF - 1, v);
            if (two) {
                filter_inside<1, R>(ring_a, a.f, tz, w);
#pragma unroll
                for (int j = 0; j < UNIT; j++)
                    v[0][j] = w[0][j] + v[0][j];
            }
            if (NF == 1 && a.highpass)
                subtract_line(a.source.data, from, a.source.plane, a.source.type, v[0], inside);
            store_line(a.out, to, a.out_plane, a.out_type, v[0], inside);
        }
        if (mask)
#pragma unroll 1
            for (int j = 0; j < UNIT; j += FEW) {
                const unsigned some = mask >> j & ((1u << FEW) - 1);
                float v[1][FEW], w[1][FEW];
                if (!some)
                    continue;
                filter_edge<1>(ring_b, a.z, a.f + NF - 1, i, j, some, v);
                if (two) {
                    filter_edge<1>(ring_a, a.z, a.f, i, j, some, w);
#pragma unroll
                    for (int e = 0; e < FEW; e++)
                        v[0][e] = w[0][e] + v[0][e];
                }
                store_few(a.out, to + j * a.out_plane, a.out_plane, a.out_type, NF == 1 && a.highpass, a.source,
                          from + j * a.source.plane, a.source.plane, v[0], some & there >> j);
            }
    }
}

}

#endif
