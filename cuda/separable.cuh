/* SPDX-License-Identifier: BSD-3-Clause */
/* Separable filters of ops/gauss.h on the device: the arithmetic of a line, and the kernels for one and two axes.
 *
 * k_xy filters along x and then y, reading and writing once; k_z filters along z. Both keep a ring of rows (planes) in
 * shared memory, so that every sample is read from device memory about once. k_line filters along one axis where the
 * radius is large. (For small radii separable_fused.cu does all three axes at once.) The order of operations is that
 * of ops/gauss.h, voxel by voxel, so results equal those of a CPU with fused multiply-add to the bit.
 *
 * A thread makes UNIT consecutive outputs of one line. For small radii all the differences they need are in registers;
 * for others CHUNK taps at a time are taken from the outermost inwards: two windows of UNIT + CHUNK - 1 differences
 * that slide towards each other by CHUNK. All lines of a warp are at the same place along the axis, so what edges
 * change is the same for its lanes.
 *
 * Limits: multiplications (2 R + 2 operations a voxel and axis) from radius 12 on, else memory and the instruction
 * cache: straight code of more than about 30 KB is several times slower. So taps come in a loop where there are many,
 * and rows of edge taps (thin axes, derivatives) are in kernels of their own. */
#ifndef VP_SEPARABLE_CUH
#define VP_SEPARABLE_CUH

#include "separable.h"

namespace vp
{

constexpr int UNIT = 16;              /* outputs of a thread */
constexpr int CHUNK = 4;              /* taps of a chunk */
constexpr int LONGEST = 40;           /* the largest radius that has code of its own */
constexpr int WIDTH = 128;            /* columns of a block */
constexpr int STEP = 2 * UNIT;        /* rows of a step */
constexpr int THREADS = 2 * WIDTH;    /* = 32 lanes x WIDTH / UNIT warps: both phases of k_xy fill the block */
constexpr int RING_PITCH = WIDTH + 4; /* 4 mod 32: lanes on consecutive rows do not meet in a bank */

/* Samples (taps) that a line has room for beside the outputs on either side. */
__host__ __device__ constexpr int padded(int radius)
{
    return (radius + 7) / 8 * 8;
}

/* A filter along an axis. */
struct taps {
    const float *t;     /* padded(R) */
    const float2 *clip; /* VP_EDGE_RENORMALIZE, order 0: -t[e], scale[e] of a voxel e < R from the edge; NULL: none */
    const float2 *edge; /* rows of padded(R) pairs up, down of voxels that have taps of their own; NULL: none */
    int radius, order;
    float sign;         /* of the difference on the left: -1, or 1 for order 1 */
    float few[LONGEST]; /* t where the radius is not larger: operands of instructions, not loads */
};

/* An axis of the image. */
struct axis {
    int n;     /* voxels of the image */
    int rule;  /* enum vp_edge */
    bool thin; /* VP_EDGE_RENORMALIZE, n < 2 R: there is a row of edge taps for every voxel, else R at each end */
};

/* Rows of samples in device memory; type is an enum vp_type. */
struct view {
    const char *data;
    long long pitch, plane; /* samples */
    int lo[3], hi[3];       /* box */
    int type;
};

constexpr int FAR = 1 << 30; /* an axis whose end is not known */

inline axis axis_of(const vp_local *op, const vp_taps *t, int a)
{
    const int n = op->image[a] < FAR ? (int)op->image[a] : FAR;
    return {n, (int)t->edge, t->edge == VP_EDGE_RENORMALIZE && n < 2 * t->radius};
}

inline view view_of(const vp_gpu_part *p, vp_type type)
{
    view v = {(const char *)p->data, p->pitch, p->plane, {}, {}, (int)type};
    for (int a = 0; a < 3; a++) {
        v.lo[a] = (int)p->box.lo[a];
        v.hi[a] = (int)p->box.hi[a];
    }
    return v;
}

/* Along x, y and z in one kernel (separable_fused.cu), which needs no scratch. Whether it does op, whose image[2] may
 * not be known yet: then it does if that turns out to be 2 R or more. */
constexpr int FUSED_LONGEST = 6;
bool fused_does(const vp_local *op, const separable &s);
int fused_launch(const vp_local *op, const separable &s, const vp_gpu_args *args, vp_err *err);

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

/* The outputs in `mask` of a line to q, q + step ... (the address grows with the line: sixteen would be too many). */
template <class Sample, class Value>
__device__ __forceinline__ void store_as(Sample *q, long long step, const Value (&v)[UNIT], unsigned mask)
{
#pragma unroll
    for (int j = 0; j < UNIT; j++) {
        if (mask >> j & 1)
            __stcs(q, (Sample)v[j]);
        q += step;
        asm volatile("" : "+l"(q));
    }
}

__device__ __forceinline__ void store_line(char *p, long long to, long long step, int type, const float (&v)[UNIT],
                                           unsigned mask)
{
    if (type == VP_F32) {
        float *q = reinterpret_cast<float *>(p) + to;
        if (mask != (1u << UNIT) - 1) {
            store_as(q, step, v, mask);
            return;
        }
#pragma unroll
        for (int j = 0; j < UNIT; j++, q += step)
            __stcs(q, v[j]);
        return;
    }
    const float least = type == VP_I16 ? -32768 : 0, most = type == VP_U8 ? 255 : type == VP_I16 ? 32767 : 65535;
    int w[UNIT];
#pragma unroll
    for (int j = 0; j < UNIT; j++)
        w[j] = to_integer(v[j], least, most);
    if (type == VP_U8)
        store_as(reinterpret_cast<unsigned char *>(p) + to, step, w, mask);
    else
        store_as(reinterpret_cast<unsigned short *>(p) + to, step, w, mask);
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

/* 16 bytes bypass the first cache. */
template <int BYTES> __device__ __forceinline__ void copy_async(void *to, const void *from)
{
    const unsigned a = (unsigned)__cvta_generic_to_shared(to);
    if (BYTES == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(a), "l"(from) : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(a), "l"(from), "n"(BYTES) : "memory");
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

/* Whether samples outside the image repeat the one at the edge. */
__device__ __forceinline__ bool repeats(int rule)
{
    return rule == VP_EDGE_RENORMALIZE || rule == VP_EDGE_NEAREST;
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

/* Whether a voxel with lo voxels before and hi voxels after it has taps of its own, as gauss.h has it. */
__device__ __forceinline__ bool has_row(const taps &f, int lo, int hi)
{
    return f.edge && (f.order ? min(lo, hi) < f.radius : max(lo, hi) < f.radius);
}

/* Bit j: output i + j is in the image and has taps of its own. */
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

/* The edge taps of output i. */
__device__ __forceinline__ const float2 *edge_row(const axis &a, const taps &f, int i)
{
    const int row = a.thin || i < f.radius ? i : f.radius + a.n - 1 - i;
    return f.edge + row * padded(f.radius);
}

/* acc is the sum for a voxel x of order 0 with lo, hi voxels before and after it; first, last: of the line. */
__device__ __forceinline__ float clipped(const taps &f, int radius, int lo, int hi, float first, float last, float x,
                                         float acc)
{
    const int e = min(lo, hi);
    if (e >= radius || e < 0)
        return x + acc;
    const float2 c = __ldg(f.clip + e);
    return __fmaf_rn(c.y, __fmaf_rn(c.x, (lo < hi ? first : last) - x, acc), x);
}

/* Order 0: sums acc become the outputs i ... i + UNIT - 1, x the samples there. */
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
    const float first = i < radius ? read.at_sample(-i).next() : 0;
    const float last = i + UNIT > a.n - radius ? read.at_sample(a.n - 1 - i).next() : 0;
#pragma unroll
    for (int j = 0; j < UNIT; j++)
        acc[j] = clipped(f, radius, i + j, a.n - 1 - i - j, first, last, x[j], acc[j]);
}

/* right + sign left; EVEN: the sign is known to be -1. */
template <bool EVEN> __device__ __forceinline__ float pair_of(float sign, float left, float right)
{
    return EVEN ? right - left : __fmaf_rn(sign, left, right);
}

constexpr int WINDOW = UNIT + CHUNK; /* differences that a chunk looks at on one side, and one */

/* The taps k + CHUNK - 1 down to k, those below k + m only. left[q] = d[i - k - CHUNK + q], right[q] = d[i + k + q],
 * from place AT (left) and WINDOW - AT (right) on of what goes round. */
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

/* Chunks from place AT on until all is gone round, or no tap is left (true): each time the windows slide by CHUNK.
 * left_end = sample i - k + UNIT - CHUNK - 1 and right_end = sample i + k + CHUNK were read before. */
template <int NF, bool EVEN, int AT, class Read>
__device__ __forceinline__ bool go_round(const Read &read, const float *const *shared, int radius, int &k, float sign,
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
        return go_round<NF, EVEN, AT + CHUNK>(read, shared, radius, k, sign, left, right, left_end, right_end, acc);
    return false;
}

/* UNIT samples from i + b on. */
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

/* Sums of NF filters (of one radius; orders both even or both odd) for outputs i ... i + UNIT - 1 of a line, for any
 * radius. read(b, v) gives samples i + b ... i + b + CHUNK - 1, b a multiple of CHUNK; shared[n] is t of filter n in
 * shared memory. The windows go round in WINDOW registers: nothing is moved. */
template <int NF, bool EVEN, class Read>
__device__ __forceinline__ void line_sums(const Read &read, const taps *f, const float *const *shared,
                                          float (&acc)[NF][UNIT])
{
    static_assert(CHUNK == 4 && UNIT % CHUNK == 0, "taps are read four at a time, windows go round in whole chunks");
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
    while (!go_round<NF, EVEN, 0>(read, shared, radius, k, f[0].sign, left, right, left_end, right_end, acc)) {
    }
}

/* The same for a radius R that the compiler knows. v: samples i - R ... i + UNIT + R - 1. */
template <int NF, bool EVEN, int R>
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
            const float pair = pair_of<EVEN>(f[0].sign, d[R + j - 1 - k], d[R + j + k]);
#pragma unroll
            for (int n = 0; n < NF; n++)
                acc[n][j] = __fmaf_rn(f[n].few[k], pair, acc[n][j]);
        }
}

/* Outputs i ... i + UNIT - 1 of a line, those that have no taps of their own. R: the radius if the compiler knows it,
 * 0: any. */
template <int NF, int R, bool EVEN = false, class Read>
__device__ __forceinline__ void filter_unit(const Read &read, const axis &a, const taps *f, const float *const *shared,
                                            int i, float (&acc)[NF][UNIT])
{
    const int radius = R ? R : f[0].radius;
    float v[UNIT + 2 * R];
    const float *const x = v + R;

#pragma unroll
    for (int n = 0; n < NF; n++)
#pragma unroll
        for (int j = 0; j < UNIT; j++)
            acc[n][j] = 0;
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

/* Outputs i + j ... i + j + FEW - 1 of a line, those of them that are in `mask` (bit 0: i + j), whatever taps they
 * have. Little code, and slow: for axes that are thin and for derivatives at the edges. */
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
    typename Read::cursor before = read.at_sample(j - radius), behind = read.at_sample(j + FEW - 1 + radius);
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
        const int lo = i + j + e, hi = a.n - 1 - lo;
        const float x = centre.next();
#pragma unroll
        for (int n = 0; n < NF; n++) {
            if (f[n].order != 0 || !(mask >> e & 1))
                continue;
            if (w[n][e] || !f[n].clip || min(lo, hi) >= radius)
                acc[n][e] = x + acc[n][e];
            else
                acc[n][e] = clipped(f[n], radius, lo, hi, read.at_sample(lo < hi ? -i : 0).next(),
                                    read.at_sample(lo < hi ? 0 : a.n - 1 - i).next(), x, acc[n][e]);
        }
    }
}

/* A whole line: most(mask, v) for the outputs that have no taps of their own, few(j, mask, v) for FEW at a time of
 * those that have (only with ROWS). */
template <int NF, int R, bool ROWS, class Read, class Most, class Few>
__device__ __forceinline__ void filter_line(const Read &read, const axis &a, const taps *f,
                                            const float *const *shared, int i, const Most &most, const Few &few)
{
    constexpr unsigned ALL = (1u << UNIT) - 1;
    const unsigned mask = ROWS ? row_mask(a, f[NF - 1], i) : 0;
    if (mask != ALL) {
        float v[NF][UNIT];
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

/* ---- samples in shared memory ---- */

/* A row: p is sample i. */
struct read_row {
    const float *p;

    struct cursor {
        const float *p;
        __device__ __forceinline__ float next() { return *p++; }
        __device__ __forceinline__ float previous() { return *p--; }
    };
    __device__ __forceinline__ cursor at_sample(int b) const { return {p + b}; }

    __device__ __forceinline__ void operator()(int b, float (&v)[CHUNK]) const
    {
#pragma unroll
        for (int j = 0; j < CHUNK; j += 4)
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

/* A column of it; i - r.first is a multiple of 8. */
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
    __device__ __forceinline__ cursor at_sample(int b) const
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
    __device__ __forceinline__ void operator()(int b, float (&v)[CHUNK]) const
    {
        const float *p = block(b);
#pragma unroll
        for (int j = 0; j < CHUNK; j++)
            v[j] = p[j * pitch];
    }
    template <int R> __device__ __forceinline__ void around(float (&v)[UNIT + 2 * R]) const
    {
#pragma unroll
        for (int b = -padded(R); b < UNIT + R; b += 8) {
            const float *const p = block(b);
#pragma unroll
            for (int j = 0; j < 8; j++)
                if (b + j >= -R && b + j < UNIT + R)
                    v[R + b + j] = p[j * pitch];
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
    return stages * STEP + (2 * padded(ry) + STEP - 1) / STEP * STEP;
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
            copy_async<4>(to + e, data + 4 * (line + from - lo));
        else
            to[e] = there ? load_sample(data, line + from - lo, type) : 0;
    }
}

/* Samples x ... x + 3 of a line (where sample in.lo[0] is number `line` of the part) as floats, by the edge rule; those
 * that the part has not got are not needed. */
__device__ __forceinline__ void stage_four(const view &in, const axis &a, float *to, long long line, int x)
{
    const int c = x - in.lo[0];
    if (c >= 0 && c % 4 == 0 && x + 4 <= in.hi[0] && in.type == VP_F32) {
        copy_async<16>(to, in.data + 4 * (line + c));
    } else if (in.type == VP_F32 && repeats(a.rule) && (x + 4 <= 0 || x >= a.n)) {
        const int from = x < 0 ? 0 : a.n - 1;
        if (from >= in.lo[0] && from < in.hi[0])
#pragma unroll
            for (int e = 0; e < 4; e++)
                copy_async<4>(to + e, in.data + 4 * (line + from - in.lo[0]));
    } else {
        stage_four_slowly(in.data, in.type, in.lo[0], in.hi[0], a.rule, a.n, to, line, x);
    }
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
    const int column = x0 + 4 * lane, c = column - a.in.lo[0];
    const bool whole = !wrap && c >= 0 && c % 4 == 0 && column + 4 <= a.in.hi[0] && a.in.type == VP_F32;
    const char *from = a.in.data + 4 * (plane + (row + warp - a.in.lo[1]) * a.in.pitch + c);
    float *to = origin + warp * pitch + 4 * lane;
#pragma unroll 1
    for (int r = row + warp; r < row + STEP; r += THREADS / 32) {
        if (r >= m.need_lo && r < m.need_hi && column < end) {
            if (whole)
                copy_async<16>(to, from);
            else
                stage_four(a.in, a.x, to,
                           plane + ((wrap ? edge_from(a.y.rule, r, a.y.n) : r) - a.in.lo[1]) * a.in.pitch, column);
        }
        from += 4 * (THREADS / 32) * a.in.pitch;
        to += THREADS / 32 * pitch;
    }
    const int y = wrap ? edge_from(a.y.rule, row + lane, a.y.n) : row + lane;
    if (row + lane < m.need_lo || row + lane >= m.need_hi)
        return;
    const long long line = plane + (long long)(y - a.in.lo[1]) * a.in.pitch;
#pragma unroll 1
    for (int g = warp; g < 2 * groups; g += THREADS / 32) {
        const int side = g < groups ? -4 * (g + 1) : WIDTH + 4 * (g - groups);
        if (x0 + side < end)
            stage_four(a.in, a.x, origin + lane * pitch + side, line, x0 + side);
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
template <int NF, int R, bool ALONG_Y, bool ROWS>
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
            filter_line<NF, R, ROWS>(
                read, a.x, a.fx, tx, x0 + warp * UNIT,
                [&](unsigned mask, const float(&v)[NF][UNIT]) {
#pragma unroll
                    for (int n = 0; n < NF; n++)
#pragma unroll
                        for (int j = 0; j < UNIT; j += 4) /* the others too: they are overwritten */
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
            if constexpr (ALONG_Y) {
                filter_line<1, R, ROWS>(
                    ring_a, a.y, a.fy, ty, i, finish,
                    [&](int j, unsigned mask, float(&v)[1][FEW]) {
                        store_few(a.out[0], to + j * a.out_pitch, a.out_pitch, a.out_type, a.highpass, a.in,
                                  from + j * a.in.pitch, a.in.pitch, v[0], mask & there >> j);
                    });
            } else {
                float v[1][UNIT];
                ring_a.template around<0>(v[0]);
                finish(there, v);
            }
        } else {
            /* q = Gy(a), p = Gy(b) + G''y(a) */
            const unsigned mask = ROWS && ry ? row_mask(a.y, a.fy[1], i) : 0, inside = there & ~mask;
            if (inside) {
                float v[2][UNIT], w[1][UNIT];
                filter_unit<2, R>(ring_a, a.y, a.fy, ty, i, v);
                if (a.out[1])
                    store_line(a.out[1], to, a.out_pitch, VP_F32, v[0], inside);
                if (a.out[0] && rx) {
                    filter_unit<1, R>(ring_b, a.y, a.fy, ty, i, w);
#pragma unroll
                    for (int j = 0; j < UNIT; j++)
                        v[1][j] = ry ? w[0][j] + v[1][j] : w[0][j];
                }
                if (a.out[0])
                    store_line(a.out[0], to, a.out_pitch, VP_F32, v[1], inside);
            }
            if constexpr (ROWS)
#pragma unroll 1
                for (int j = 0; j < UNIT; j += FEW) {
                    const unsigned some = mask >> j & ((1u << FEW) - 1);
                    float v[2][FEW], w[1][FEW];
                    if (!some)
                        continue;
                    filter_few<2>(ring_a, a.y, a.fy, i, j, some, v);
                    if (a.out[1])
                        store_few(a.out[1], to + j * a.out_pitch, a.out_pitch, VP_F32, false, a.in, 0, 0, v[0],
                                  some & there >> j);
                    if (!a.out[0])
                        continue;
                    if (rx) {
                        filter_few<1>(ring_b, a.y, a.fy, i, j, some, w);
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
            copy_async<16>(slot, p);
        else
            for (int e = 0; e < width; e++)
                copy_async<4>(slot + e, p + 4 * e);
    }
}

/* Overview: a warp makes 32 columns of one row of chunk_planes planes, UNIT planes at a time, from a ring of its own
 *   that is Z_AHEAD steps ahead. A lane is a column; warps have nothing to do with each other.
 * Memory: reads NF and writes one volume, a plane of a step in pieces of 128 bytes. */
template <int NF, int R, bool ROWS>
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
        const unsigned mask = ROWS ? row_mask(a.z, a.f[NF - 1], i) : 0, inside = there & ~mask;
        if (inside) {
            float v[1][UNIT], w[1][UNIT];
            filter_unit<1, R>(ring_b, a.z, a.f + NF - 1, tz + NF - 1, i, v);
            if (two) {
                filter_unit<1, R>(ring_a, a.z, a.f, tz, i, w);
#pragma unroll
                for (int j = 0; j < UNIT; j++)
                    v[0][j] = w[0][j] + v[0][j];
            }
            if (NF == 1 && a.highpass)
                subtract_line(a.source.data, from, a.source.plane, a.source.type, v[0], inside);
            store_line(a.out, to, a.out_plane, a.out_type, v[0], inside);
        }
        if constexpr (ROWS)
#pragma unroll 1
            for (int j = 0; j < UNIT; j += FEW) {
                const unsigned some = mask >> j & ((1u << FEW) - 1);
                float v[1][FEW], w[1][FEW];
                if (!some)
                    continue;
                filter_few<1>(ring_b, a.z, a.f + NF - 1, i, j, some, v);
                if (two) {
                    filter_few<1>(ring_a, a.z, a.f, i, j, some, w);
#pragma unroll
                    for (int e = 0; e < FEW; e++)
                        v[0][e] = w[0][e] + v[0][e];
                }
                store_few(a.out, to + j * a.out_plane, a.out_plane, a.out_type, NF == 1 && a.highpass, a.source,
                          from + j * a.source.plane, a.source.plane, v[0], some & there >> j);
            }
    }
}


/* ---- one axis, large radius ---- */

constexpr int LINES = 32, LINE_WARPS = 8, LINE_STEP = LINE_WARPS * UNIT, TURN_PITCH = UNIT / 2 + 4;

struct line_args {
    view in;
    char *out;
    long long out_pitch, out_plane;
    int out_type, out_lo[3], out_hi[3];
    axis along;
    taps f;             /* order 0 */
    int begin;          /* before out_lo so that groups of four are aligned (x) */
    int strips, length; /* blocks side by side; outputs of a block along the axis: whole steps */
    bool highpass;
    view source;        /* for highpass */
};

/* Samples of a line in shared memory. */
__host__ __device__ constexpr int line_samples(int length, int radius)
{
    return length + 2 * padded(radius);
}

__host__ __device__ constexpr size_t line_shared(bool along_x, int length, int radius)
{
    const int line = line_samples(length, radius) + (along_x ? 4 + LINE_WARPS * TURN_PITCH : 0);
    return sizeof(float) * (padded(radius) + (size_t)LINES * line);
}

/* A line of k_line's: p is sample i, the next one STEP floats on. */
template <bool ALONG_X> struct read_line {
    static constexpr int STEP = ALONG_X ? 1 : LINES;
    const float *p;

    struct cursor {
        const float *p;
        __device__ __forceinline__ float next() const { return *p; }
    };
    __device__ __forceinline__ cursor at_sample(int b) const { return {p + STEP * b}; }
    __device__ __forceinline__ void operator()(int b, float (&v)[CHUNK]) const
    {
        const float *const q = p + STEP * b;
        if (ALONG_X)
            *reinterpret_cast<float4 *>(v) = *reinterpret_cast<const float4 *>(q);
        else
#pragma unroll
            for (int j = 0; j < CHUNK; j++)
                v[j] = q[STEP * j];
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

/* Whether load_rows leaves to extend_rows what the image has not got. */
__device__ __forceinline__ bool extends(const line_args &a)
{
    return a.in.type == VP_F32 && repeats(a.along.rule);
}

/* The samples [from, from + count), before `end`, of the block's rows, by the edge rule. */
__device__ __forceinline__ void load_rows(const line_args &a, float *lines, int y0, int z, int from, int count, int end)
{
    const int lane = threadIdx.x % 32, rows = min(LINES, a.out_hi[1] - y0);
    if (extends(a)) {
        const int first = max(from, a.in.lo[0]) - from, last = min(min(from + count, end), a.in.hi[0]) - from;
        const long long step = LINE_WARPS * a.in.pitch;
        const float *row = reinterpret_cast<const float *>(a.in.data) + (z - a.in.lo[2]) * a.in.plane +
                           (y0 + (int)threadIdx.x / 32 - a.in.lo[1]) * a.in.pitch + (from - a.in.lo[0]);
#pragma unroll 1
        for (int r = threadIdx.x / 32; r < rows; r += LINE_WARPS, row += step)
#pragma unroll 1
            for (int c = first + 4 * lane; c < last; c += 4 * 32)
                copy_async<16>(lines + r * (count + 4) + c, row + c);
        return;
    }
#pragma unroll 1
    for (int r = threadIdx.x / 32; r < rows; r += LINE_WARPS)
#pragma unroll 1
        for (int c = 4 * lane; c < count && from + c < end; c += 4 * 32)
            stage_four(a.in, a.along, lines + r * (count + 4) + c,
                       (z - a.in.lo[2]) * a.in.plane + (y0 + r - a.in.lo[1]) * a.in.pitch, from + c);
}

/* What load_rows has left to do when the samples are there. */
__device__ __forceinline__ void extend_rows(const line_args &a, float *lines, int from, int count, int end)
{
    const int beyond = a.along.n - from, needed = min(count, end - from);
    if (!extends(a) || (from >= 0 && beyond >= needed))
        return;
#pragma unroll 1
    for (int r = threadIdx.x / 32; r < LINES; r += LINE_WARPS) {
        float *const row = lines + r * (count + 4);
        const float first = from < 0 ? row[-from] : 0, last = beyond < needed ? row[beyond - 1] : 0;
        for (int c = threadIdx.x % 32; c < -from; c += 32)
            row[c] = first;
        for (int c = beyond + (int)threadIdx.x % 32; c < needed; c += 32)
            row[c] = last;
    }
    __syncthreads();
}

/* The planes [from, from + count), before `end`, of the block's columns, by the edge rule. */
__device__ __forceinline__ void load_columns(const line_args &a, float *lines, int x0, int y, int from, int count,
                                             int end)
{
    constexpr int STEP = LINE_WARPS * 32 / 8; /* planes at a time */
    const int x = x0 + (int)threadIdx.x % 8 * 4, width = min(4, a.out_hi[0] - x), lo = a.in.lo[2], hi = a.in.hi[2];
    const float *const column = reinterpret_cast<const float *>(a.in.data) + (y - a.in.lo[1]) * a.in.pitch +
                                (x - a.in.lo[0]);
    const bool whole = width == 4 && (((y - a.in.lo[1]) * a.in.pitch + (x - a.in.lo[0])) & 3) == 0 &&
                       (a.in.plane & 3) == 0;
    const int last = min(from + count, end);
    const long long step = STEP * a.in.plane;
    int z = from + (int)threadIdx.x / 8;
    const float *next = column + (z - lo) * a.in.plane;
    float *to = lines + (int)threadIdx.x * 4; /* (z - from) LINES + x - x0 */
    const auto load = [&](int until) {
#pragma unroll 1
        for (; z < until; z += STEP, next += step, to += STEP * LINES) {
            const int s = edge_from(a.along.rule, z, a.along.n);
            const float *const p = column + (s - lo) * a.in.plane;
            if (s < 0)
                *reinterpret_cast<float4 *>(to) = make_float4(0, 0, 0, 0);
            else if (s < lo || s >= hi) /* not needed */
                continue;
            else if (whole)
                copy_async<16>(to, p);
            else
#pragma unroll 1
                for (int e = 0; e < width; e++)
                    copy_async<4>(to + e, p + e);
        }
    };
    load(min(last, lo));
    if (whole) {
#pragma unroll 4
        for (; z < min(last, hi); z += STEP, next += step, to += STEP * LINES)
            copy_async<16>(to, next);
    }
    load(last);
}

/* Outputs i ... i + UNIT - 1, before `end`, of the warp's lines: rows, through `turn`. */
__device__ __forceinline__ void store_rows(const line_args &a, int y0, int z, int i, int end, float *turn,
                                           float (&v)[UNIT])
{
    const int lane = threadIdx.x % 32, half = lane % 2 * 4;
    const long long to = (z - a.out_lo[2]) * a.out_plane + (y0 + lane / 2 - a.out_lo[1]) * a.out_pitch +
                         (i + half - a.out_lo[0]);
    const bool whole = a.out_type == VP_F32 && !a.highpass && i >= a.out_lo[0] && i + UNIT <= end &&
                       y0 + LINES <= a.out_hi[1] && ((i - a.out_lo[0]) & 3) == 0 &&
                       ((a.out_pitch | a.out_plane) & 3) == 0;
#pragma unroll
    for (int b = 0; b < UNIT; b += UNIT / 2) {
#pragma unroll
        for (int j = 0; j < UNIT / 2; j += 4)
            *reinterpret_cast<float4 *>(turn + lane * TURN_PITCH + j) =
                make_float4(v[b + j], v[b + j + 1], v[b + j + 2], v[b + j + 3]);
        __syncwarp();
        if (whole) {
            float *const row = reinterpret_cast<float *>(a.out) + to + b;
            const float *const from = turn + lane / 2 * TURN_PITCH + half;
            __stcs(reinterpret_cast<float4 *>(row), *reinterpret_cast<const float4 *>(from));
            __stcs(reinterpret_cast<float4 *>(row + 16 * a.out_pitch),
                   *reinterpret_cast<const float4 *>(from + 16 * TURN_PITCH));
        } else {
#pragma unroll 1
            for (int e = lane; e < LINES * UNIT / 2; e += 32) {
                const int r = e / (UNIT / 2), x = i + b + e % (UNIT / 2), y = y0 + r;
                if (y >= a.out_hi[1] || x < a.out_lo[0] || x >= end)
                    continue;
                float u = turn[r * TURN_PITCH + e % (UNIT / 2)];
                if (a.highpass)
                    u = load_sample(a.source.data, (z - a.source.lo[2]) * a.source.plane +
                                                       (y - a.source.lo[1]) * a.source.pitch + (x - a.source.lo[0]),
                                    a.source.type) -
                        u;
                store_sample(a.out, (z - a.out_lo[2]) * a.out_plane + (y - a.out_lo[1]) * a.out_pitch +
                                        (x - a.out_lo[0]), a.out_type, u);
            }
        }
        __syncwarp();
    }
}

/* The same for columns. */
__device__ __forceinline__ void store_columns(const line_args &a, int x, int y, int i, int end, float (&v)[UNIT])
{
    const long long to = (i - a.out_lo[2]) * a.out_plane + (y - a.out_lo[1]) * a.out_pitch + (x - a.out_lo[0]);
    const long long from = (i - a.source.lo[2]) * a.source.plane + (y - a.source.lo[1]) * a.source.pitch +
                           (x - a.source.lo[0]);
    const unsigned there = first_of(end - i);
    if (x >= a.out_hi[0])
        return;
    if (a.highpass)
        subtract_line(a.source.data, from, a.source.plane, a.source.type, v, there);
    store_line(a.out, to, a.out_plane, a.out_type, v, there);
}

/* Overview: a block has a piece of 32 lines in shared memory: along x rows, else (y as z with other strides) columns.
 *   Other blocks work while its samples are on their way.
 * Mapping: a lane is a line, a warp makes UNIT outputs of all at a time. Along x results go to rows through shared
 *   memory, warp by warp.
 * Memory: reads (length + 2 R) / length times, writes once. Limit: multiplications. */
template <bool ALONG_X, int R>
__global__ void __launch_bounds__(32 * LINE_WARPS, 3) k_line(const __grid_constant__ line_args a)
{
    extern __shared__ __align__(16) float shared[];
    constexpr int AXIS = ALONG_X ? 0 : 2, OTHER = ALONG_X ? 2 : 1;
    const int radius = R ? R : a.f.radius, pad = padded(radius), samples = line_samples(a.length, radius);
    const int tid = threadIdx.x, lane = tid % 32, warp = tid / 32;
    float *const lines = shared + pad;
    float *const turn = lines + LINES * (samples + 4) + warp * LINES * TURN_PITCH;
    const float *const t[1] = {shared};
    if (R == 0)
        for (int k = tid; k < pad; k += 32 * LINE_WARPS)
            shared[k] = a.f.t[k];

    const unsigned block = blockIdx.x, others = a.out_hi[OTHER] - a.out_lo[OTHER];
    const int strip = (int)(block % a.strips) * LINES, x0 = a.out_lo[0] + strip, y0 = a.out_lo[1] + strip;
    const int other = a.out_lo[OTHER] + (int)(block / a.strips % others);
    const int begin = a.begin + (int)(block / a.strips / others) * a.length;
    const int end = min(begin + a.length, a.out_hi[AXIS]);
    if (ALONG_X)
        load_rows(a, lines, y0, other, begin - pad, samples, end + radius);
    else
        load_columns(a, lines, x0, other, begin - pad, samples, end + radius);
    copies_done();
    __syncthreads();
    if (ALONG_X)
        extend_rows(a, lines, begin - pad, samples, end + radius);
    read_line<ALONG_X> read = {lines + (ALONG_X ? lane * (samples + 4) : lane) +
                               read_line<ALONG_X>::STEP * (pad + warp * UNIT)};
#pragma unroll 1
    for (int i = begin + warp * UNIT; i < end; i += LINE_STEP, read.p += read_line<ALONG_X>::STEP * LINE_STEP) {
        float v[1][UNIT];
        filter_unit<1, R, true>(read, a.along, &a.f, t, i, v);
        if (ALONG_X)
            store_rows(a, y0, other, i, end, turn, v[0]);
        else
            store_columns(a, x0 + lane, other, i, end, v[0]);
    }
}

}

#endif
