/* SPDX-License-Identifier: BSD-3-Clause */
/* Separable filters of ops/gauss.h on the device: the arithmetic of a line, and the kernels for one and two axes.
 *
 * k_xy filters along x and then y, reading and writing once; k_z filters along z. Both keep a ring of rows (planes) in
 * shared memory, so that every sample is read from device memory about once. k_line filters along one axis where the
 * radius is large; what its passes hand on has the axis that is next as the fastest one (TURNED). (For small radii
 * separable_fused.cu does all three axes at once.) The order of operations is that of ops/gauss.h, voxel by voxel, so
 * results equal those of a CPU with fused multiply-add to the bit.
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

#include "launch.cuh"
#include "separable.h"

#include <type_traits>

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
    const float2 *clip; /* VP_EDGE_RENORMALIZE, order 0: -t[e], scale[e] of a voxel e < R from the edge: of the first R
                           voxels, then of the last R ones; NULL: none */
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

constexpr int FAR = (1 << 30) - 1; /* an axis whose end is not known; twice as much is an int */

inline axis axis_of(const vp_local *op, const vp_taps *t, int a)
{
    const int n = op->image[a] < FAR ? (int)op->image[a] : FAR;
    return {n, (int)t->edge, t->edge == VP_EDGE_RENORMALIZE && n < 2 * t->radius};
}

inline view view_of(const vp_area *p, vp_type type)
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
int fused_launch(const vp_local *op, const separable &s, const vp_work *args, vp_err *err);

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

/* To nearest even, clamped; NaN is 0. */
template <class Sample> __device__ __forceinline__ Sample sample_of(float v)
{
    int w;
    if constexpr (sizeof(Sample) == 1)
        asm("cvt.rni.sat.u8.f32 %0, %1;" : "=r"(w) : "f"(v));
    else if constexpr ((Sample)-1 < 0)
        asm("cvt.rni.sat.s16.f32 %0, %1;" : "=r"(w) : "f"(v));
    else
        asm("cvt.rni.sat.u16.f32 %0, %1;" : "=r"(w) : "f"(v));
    return (Sample)w;
}

template <> __device__ __forceinline__ float sample_of<float>(float v)
{
    return v;
}

/* f(samples of the type at p). */
template <class F> __device__ __forceinline__ void typed(char *p, int type, const F &f)
{
    switch (type) {
    case VP_U8: f(reinterpret_cast<unsigned char *>(p)); break;
    case VP_U16: f(reinterpret_cast<unsigned short *>(p)); break;
    case VP_I16: f(reinterpret_cast<short *>(p)); break;
    default: f(reinterpret_cast<float *>(p));
    }
}

template <class Sample> __device__ __forceinline__ void store_as(Sample *q, float v)
{
    __stcs(q, sample_of<Sample>(v));
}

__device__ __forceinline__ void store_sample(char *p, long long i, int type, float v)
{
    typed(p, type, [&](auto *q) { store_as(q + i, v); });
}

/* The outputs in `mask` of a line. */
__device__ __forceinline__ void store_line(char *p, long long to, long long step, int type, const float (&v)[UNIT],
                                           unsigned mask)
{
    typed(p, type, [&](auto *q) {
        q += to;
        if (mask == (1u << UNIT) - 1) {
#pragma unroll
            for (int j = 0; j < UNIT; j++, q += step)
                store_as(q, v[j]);
            return;
        }
#pragma unroll
        for (int j = 0; j < UNIT; j++) {
            if (mask >> j & 1)
                store_as(q, v[j]);
            q += step;
            asm volatile("" : "+l"(q)); /* the address grows with the line: sixteen would be too many */
        }
    });
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

__device__ __forceinline__ int sample_size(int type)
{
    return type == VP_F32 ? 4 : type == VP_U8 ? 1 : 2;
}

/* Integers come into shared memory as they are, four to the place of four floats; the thread that asked for them turns
 * them into these when they are there. */
__device__ __forceinline__ void copy_four(float *to, const char *p, int type)
{
    if (type == VP_U8)
        copy_async<4>(to, p);
    else
        copy_async<8>(to, p);
}

/* Bytes of a word (a selection of __byte_perm whose others are those of FLOAT_OF) as a float: put into the last bits of
 * 2^23, a sample makes it larger by itself. Conversions have a fraction of the rate. */
constexpr unsigned FLOAT_OF = 0x4b000000;
constexpr float FLOAT_ZERO = 8388608;

template <unsigned BYTES> __device__ __forceinline__ float float_of(unsigned word, float zero = FLOAT_ZERO)
{
    return __uint_as_float(__byte_perm(word, FLOAT_OF, BYTES)) - zero;
}

__device__ __forceinline__ float4 floats_of(unsigned bytes)
{
    return make_float4(float_of<0x7440>(bytes), float_of<0x7441>(bytes), float_of<0x7442>(bytes),
                       float_of<0x7443>(bytes));
}

/* i16: `flip` has their sign bits, and zero is 2^15 more. */
__device__ __forceinline__ float4 floats_of(uint2 pairs, unsigned flip, float zero)
{
    const unsigned l = pairs.x ^ flip, h = pairs.y ^ flip;
    return make_float4(float_of<0x7410>(l, zero), float_of<0x7432>(l, zero), float_of<0x7410>(h, zero),
                       float_of<0x7432>(h, zero));
}

constexpr unsigned FLIP_I16 = 0x80008000;
constexpr float ZERO_I16 = FLOAT_ZERO + 32768;

template <class Four> __device__ __forceinline__ float4 floats_at(const float *at)
{
    if constexpr (std::is_same<Four, uchar4>::value)
        return floats_of(*reinterpret_cast<const unsigned *>(at));
    else if constexpr (std::is_same<Four, ushort4>::value)
        return floats_of(*reinterpret_cast<const uint2 *>(at), 0, FLOAT_ZERO);
    else
        return floats_of(*reinterpret_cast<const uint2 *>(at), FLIP_I16, ZERO_I16);
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
    unsigned rest = first_of(UNIT);
#pragma unroll
    for (int pass = 0; pass < 2; pass++) { /* one, but for a unit with voxels near both ends; no loop: it costs more */
        const bool end = pass || i >= radius;
        const int q = end ? i - (a.n - radius) : i; /* of the R voxels at this end */
        if (pass && (i >= radius || q <= -UNIT))
            break;
        const float outside = read.at_sample(end ? a.n - 1 - i : -i).next();
        const float2 *c = f.clip + end * radius + q;
        unsigned mine = first_of(max(radius - q, 0)) & ~first_of(max(-q, 0));
        rest &= ~mine;
        asm volatile("" : "+l"(c), "+r"(mine), "+r"(rest)); /* worked out once, not for each of them */
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

/* A column of it; the slot is a multiple of 8. */
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

    __device__ __forceinline__ read_ring(const ring &r, int slot, int x)
        : column(r.data + x), rows(r.rows), pitch(r.pitch), slot(slot)
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

/* The part of stage_four that is out of the way: other places, edges. Integers are floats at once. */
static __device__ __noinline__ void stage_four_slowly(const char *data, int type, int lo, int hi, int rule, int n,
                                                      float *to, long long line, int x)
{
    float v[4];
#pragma unroll
    for (int e = 0; e < 4; e++) {
        const int from = edge_from(rule, x + e, n);
        const bool there = from >= lo && from < hi;
        v[e] = there && type != VP_F32 ? load_sample(data, line + from - lo, type) : 0;
        if (there && type == VP_F32)
            copy_async<4>(to + e, data + 4 * (line + from - lo));
        else if (type == VP_F32)
            to[e] = 0;
    }
    if (type != VP_F32)
        *reinterpret_cast<float4 *>(to) = make_float4(v[0], v[1], v[2], v[3]);
}

/* The four integers that samples x ... x + 3 are made of, counted from in.lo[0]: their own or, where the image ends and
 * repeats its last one, those that it is among; -1: it is not as simple. */
__device__ __forceinline__ int integers_of(const view &in, const axis &a, int x)
{
    const int c = x - in.lo[0], near = min(max(x, 0), a.n - 1) - in.lo[0];
    if (c % 4 != 0)
        return -1;
    if (c >= 0 && x + 4 <= in.hi[0])
        return c;
    return repeats(a.rule) && near >= 0 && near < in.hi[0] - in.lo[0] ? near / 4 * 4 : -1;
}

/* Samples x ... x + 3 of a line (where sample in.lo[0] is number `line` of the part), by the edge rule; those that the
 * part has not got are not needed. Integers are converted later. */
template <bool FLOATS>
__device__ __forceinline__ void stage_four(const view &in, const axis &a, float *to, long long line, int x)
{
    const int c = FLOATS ? x - in.lo[0] : integers_of(in, a, x);
    if (!FLOATS && c >= 0) {
        copy_four(to, in.data + sample_size(in.type) * (line + c), in.type);
    } else if (FLOATS && c >= 0 && c % 4 == 0 && x + 4 <= in.hi[0]) {
        copy_async<16>(to, in.data + 4 * (line + c));
    } else if (FLOATS && repeats(a.rule) && (x + 4 <= 0 || x >= a.n)) {
        const int from = x < 0 ? 0 : a.n - 1;
        if (from >= in.lo[0] && from < in.hi[0])
#pragma unroll
            for (int e = 0; e < 4; e++)
                copy_async<4>(to + e, in.data + 4 * (line + from - in.lo[0]));
    } else {
        stage_four_slowly(in.data, in.type, in.lo[0], in.hi[0], a.rule, a.n, to, line, x);
    }
}

/* What came for x ... x + 3, if anything did. */
template <class Four>
__device__ __forceinline__ void convert_four(const view &in, const axis &a, float *at, int x)
{
    const int c = integers_of(in, a, x);
    if (c < 0)
        return;
    *reinterpret_cast<float4 *>(at) = floats_at<Four>(at);
    if (c + in.lo[0] == x && x + 4 <= a.n)
        return;
    float v[4];
#pragma unroll
    for (int e = 0; e < 4; e++)
        v[e] = at[min(max(x + e, 0), a.n - 1) - in.lo[0] - c];
    *reinterpret_cast<float4 *>(at) = make_float4(v[0], v[1], v[2], v[3]);
}

/* Rows [row, row + STEP) x columns [x0 - R, x0 + WIDTH + R), before `end`, of one plane; rows outside [lo, hi) are not
 * needed. A warp does whole rows, and then groups of four columns on both sides of all rows, so that its lanes agree
 * where the image ends. */
struct stage {
    int at; /* in shared memory, floats: a pointer that a call hands on is one to any memory */
    int radius, x0, end, row, lo, hi;
};

__device__ __forceinline__ float *stage_origin(const stage &s)
{
    extern __shared__ __align__(16) float shared[];
    return shared + s.at + padded(s.radius);
}

constexpr int STAGE_WARPS = THREADS / 32, STAGE_ROUNDS = STEP / STAGE_WARPS;

/* Whether the part has the four columns of a lane in all rows just as they are needed. */
__device__ __forceinline__ bool stage_is_plain(const view &in, const axis &y, const stage &s, int column)
{
    const int c = column - in.lo[0];
    return c >= 0 && c % 4 == 0 && column + 4 <= in.hi[0] && column < s.end && s.row >= s.lo && s.row + STEP <= s.hi &&
           y.rule != VP_EDGE_WRAP;
}

template <int BYTES>
__device__ __forceinline__ void stage_plain(float *to, int pitch, const char *from, long long step)
{
#pragma unroll
    for (int q = 0; q < STAGE_ROUNDS; q++, to += STAGE_WARPS * pitch, from += step)
        copy_async<BYTES>(to, from);
}

template <bool FLOATS>
__device__ __forceinline__ void stage_rows(const view &in, const axis &x, const axis &y, const stage &s, int z)
{
    const int pitch = stage_pitch(s.radius), lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int groups = (s.radius + 3) / 4, column = s.x0 + 4 * lane;
    const int row_size = (int)in.pitch; /* the row of an image is an int: one multiplication */
    const long long plane = (long long)(z - in.lo[2]) * in.plane;
    float *const origin = stage_origin(s);
    const auto line_of = [&](int r) {
        const int from = y.rule == VP_EDGE_WRAP ? edge_from(VP_EDGE_WRAP, r, y.n) : r;
        return plane + (long long)(from - in.lo[1]) * row_size;
    };
    if (stage_is_plain(in, y, s, column)) {
        float *const to = origin + warp * pitch + 4 * lane;
        const int size = FLOATS ? 4 : sample_size(in.type);
        const char *const from =
            in.data + size * (plane + (long long)(s.row + warp - in.lo[1]) * row_size + (column - in.lo[0]));
        const long long step = (long long)(STAGE_WARPS * size) * row_size;
        if (FLOATS)
            stage_plain<16>(to, pitch, from, step);
        else if (in.type == VP_U8)
            stage_plain<4>(to, pitch, from, step);
        else
            stage_plain<8>(to, pitch, from, step);
    } else if (column < s.end) {
#pragma unroll 1
        for (int r = warp; r < STEP; r += STAGE_WARPS)
            if (s.row + r >= s.lo && s.row + r < s.hi)
                stage_four<FLOATS>(in, x, origin + r * pitch + 4 * lane, line_of(s.row + r), column);
    }
    const int r = s.row + lane;
    if (r < s.lo || r >= s.hi)
        return;
#pragma unroll 1
    for (int g = warp; g < 2 * groups; g += STAGE_WARPS) {
        const int side = g < groups ? -4 * (g + 1) : WIDTH + 4 * (g - groups);
        if (s.x0 + side < s.end)
            stage_four<FLOATS>(in, x, origin + lane * pitch + side, line_of(r), s.x0 + side);
    }
}

/* Not in line, for what floats need would be spread out; arguments in registers. */
static __device__ __noinline__ void stage_integers(view in, axis x, axis y, stage s, int z)
{
    stage_rows<false>(in, x, y, s, z);
}

/* What stage_integers asked for, each thread its own. */
template <class Four>
__device__ __forceinline__ void convert_rows(const view &in, const axis &x, const axis &y, const stage &s)
{
    const int pitch = stage_pitch(s.radius), lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int groups = (s.radius + 3) / 4, column = s.x0 + 4 * lane;
    float *const origin = stage_origin(s);
    if (stage_is_plain(in, y, s, column)) {
        float *const at = origin + warp * pitch + 4 * lane;
        float4 v[STAGE_ROUNDS];
#pragma unroll
        for (int q = 0; q < STAGE_ROUNDS; q++)
            v[q] = floats_at<Four>(at + q * STAGE_WARPS * pitch);
#pragma unroll
        for (int q = 0; q < STAGE_ROUNDS; q++)
            *reinterpret_cast<float4 *>(at + q * STAGE_WARPS * pitch) = v[q];
    } else if (column < s.end) {
#pragma unroll 1
        for (int r = warp; r < STEP; r += STAGE_WARPS)
            if (s.row + r >= s.lo && s.row + r < s.hi)
                convert_four<Four>(in, x, origin + r * pitch + 4 * lane, column);
    }
    if (s.row + lane < s.lo || s.row + lane >= s.hi)
        return;
#pragma unroll 1
    for (int g = warp; g < 2 * groups; g += STAGE_WARPS) {
        const int side = g < groups ? -4 * (g + 1) : WIDTH + 4 * (g - groups);
        if (s.x0 + side < s.end)
            convert_four<Four>(in, x, origin + lane * pitch + side, s.x0 + side);
    }
}

static __device__ __noinline__ void convert_integers(view in, axis x, axis y, stage s)
{
    switch (in.type) {
    case VP_U8: convert_rows<uchar4>(in, x, y, s); break;
    case VP_U16: convert_rows<ushort4>(in, x, y, s); break;
    default: convert_rows<short4>(in, x, y, s);
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
    const bool floats = a.in.type == VP_F32;
    int first_step = 0;
    while (!step_needed(m, first_step))
        first_step++;
    int slot = (first_step - 2) * STEP; /* of the first row of step t in the rings */
    const auto stage_of = [&](int t) {
        const int at = (t & late) * STEP * stage_pitch(rx);
        return stage{at, rx, x0, min(x0 + WIDTH, a.out_hi[0]) + rx, step_row(m, t), m.need_lo, m.need_hi};
    };
    const auto ask = [&](int t) {
        if (floats)
            stage_rows<true>(a.in, a.x, a.y, stage_of(t), z);
        else
            stage_integers(a.in, a.x, a.y, stage_of(t), z);
    };
#pragma unroll
    for (int n = 0; n < NF; n++)
        rings[n].first = step_row(m, 0);

#pragma unroll 1
    for (int t = first_step - 1; t < steps + late; t++) {
        const bool more = t + 1 < steps && step_needed(m, t + 1);
        const bool here = t >= first_step && t < steps && step_needed(m, t);
        slot += STEP;
        slot -= slot >= ring_rows ? ring_rows : 0;
        copies_done();
        if (!floats && here)
            convert_integers(a.in, a.x, a.y, stage_of(t));
        __syncthreads();
        if (late && more)
            ask(t + 1);
        if (here && x0 + warp * UNIT < a.out_hi[0]) {
            const read_row read = {shared + ((t & late) * STEP + lane) * stage_pitch(rx) + padded(rx) + warp * UNIT};
            float *to[NF];
#pragma unroll
            for (int n = 0; n < NF; n++)
                to[n] = rings[n].data + (slot + lane) * RING_PITCH + warp * UNIT;
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
                ask(t + 1);
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
        int at_i = slot + i - step_row(m, t);
        at_i += at_i < 0 ? ring_rows : 0;
        const read_ring ring_a(rings[0], at_i, column), ring_b(rings[NF - 1], at_i, column);
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
    if (whole && plane >= max(m.begin - a.f[0].radius, 0) && plane + UNIT <= min(m.end + a.f[0].radius, a.z.n)) {
        const char *p = in.data + 4 * ((long long)(plane + lane / 8 - in.lo[2]) * in.plane + at);
#pragma unroll
        for (int r = 0; r < UNIT; r += 4, slot += 4 * 32, p += 16 * in.plane)
            copy_async<16>(slot, p);
        return;
    }
#pragma unroll 1
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
        const int slot = (i - mine.first) % ring_rows;
        const read_ring ring_a(mine, slot, lane), ring_b(mine, slot, lane + (NF - 1) * ring_rows * 32);
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
constexpr int LINE_ROUND = 5 * 128; /* samples of a row that are copied at a time: enough for 512 outputs, R = 40 */

/* Where lines lie in memory. */
enum line_form {
    ROWS,    /* samples of a line side by side, in the input and in the output */
    COLUMNS, /* lines side by side in both */
    TURNED   /* samples of a line in the input, lines in the output: the next axis is the fastest one there */
};

/* A volume as k_line sees it: steps (samples) along the lines, across the 32 lines of a block, and along the third
 * axis. */
struct line_volume {
    char *data; /* voxel 0, 0, 0 of the image, which may be outside the allocation */
    long long along, across, other;
    int type;
};

struct line_args {
    line_volume in, out, source; /* source: for highpass */
    int lo[3], hi[3];            /* of the output: along, across, other */
    int in_lo, in_hi;            /* of the input, along */
    axis along;
    taps f;     /* order 0 */
    int begin;  /* before lo[0] so that groups of four are aligned */
    int length; /* outputs of a block along the axis: whole steps */
    bool highpass, plain;   /* plain: not high-pass, f32 */
    bool aligned;           /* aligned: groups of four across the lines (COLUMNS) or in the rows of the output (ROWS) */
};

/* Samples of a line in shared memory. */
__host__ __device__ constexpr int line_samples(int length, int radius)
{
    return length + 2 * padded(radius);
}

__host__ __device__ constexpr size_t line_shared(line_form form, int length, int radius)
{
    const int line = line_samples(length, radius) + (form == COLUMNS ? 0 : 4) +
                     (form == ROWS ? LINE_WARPS * TURN_PITCH : 0);
    return sizeof(float) * (padded(radius) + (size_t)LINES * line);
}

/* A line in shared memory: p is sample i, the next one STEP floats on. */
template <line_form FORM> struct read_line {
    static constexpr int STEP = FORM == COLUMNS ? LINES : 1;
    const float *p;

    struct cursor {
        const float *p;
        __device__ __forceinline__ float next() const { return *p; }
    };
    __device__ __forceinline__ cursor at_sample(int b) const { return {p + STEP * b}; }
    __device__ __forceinline__ void operator()(int b, float (&v)[CHUNK]) const
    {
        const float *const q = p + STEP * b;
        if (FORM != COLUMNS)
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

/* What a block has in shared memory: place 0 of its lines is sample `from`; places [first, last) are in the input. */
struct piece {
    int at;    /* of its first line in shared memory, floats */
    int pitch; /* from line to line; COLUMNS: 1 */
    int from, first, last;
    int needed; /* places */
    int across, other;
};

/* What is rarely needed is not in line with the rest: code that is spread out is slower. */

__device__ __forceinline__ float *lines_of(const piece &b)
{
    extern __shared__ __align__(16) float shared[];
    return shared + b.at;
}

/* f(to, from) for all groups of four samples of the `rows` lines that the input has. A warp does 32 of a row at a
 * time. */
template <class Four, class F>
__device__ __forceinline__ void each_four(const line_volume &in, int rows, const piece &b, const F &f)
{
    const int warp = threadIdx.x / 32, at = b.first + 4 * (threadIdx.x % 32);
    const long long from = b.other * in.other + (b.across + warp) * in.across + b.from + at;
    const Four *p = reinterpret_cast<const Four *>(in.data + from * (long long)(sizeof(Four) / 4));
    float *q = lines_of(b) + warp * b.pitch + at;
#pragma unroll 1
    for (int c = at; c < b.last; c += LINE_ROUND, p += LINE_ROUND / 4, q += LINE_ROUND) {
        const Four *row = p;
        float *to = q;
#pragma unroll 1
        for (int r = warp; r < min(LINES, rows); r += LINE_WARPS) {
#pragma unroll
            for (int e = 0; e < LINE_ROUND; e += 128)
                if (c + e < b.last)
                    f(to + e, row + e / 4);
            row += LINE_WARPS / 4 * in.across;
            to += LINE_WARPS * b.pitch;
        }
    }
}

template <class Four> __device__ __forceinline__ void copy_rows(const line_volume &in, int rows, const piece &b)
{
    each_four<Four>(in, rows, b, [](float *to, const Four *from) { copy_async<sizeof(Four)>(to, from); });
}

/* Arguments in registers: others are loads that wait for each other. */
template <class Four> static __device__ __noinline__ void load_integers(line_volume in, int rows, piece b)
{
    copy_rows<Four>(in, rows, b);
    copies_done();
    each_four<Four>(in, rows, b,
                    [](float *at, const Four *) { *reinterpret_cast<float4 *>(at) = floats_at<Four>(at); });
}

__device__ __forceinline__ void load_rows(const line_args &a, const piece &b)
{
    const int rows = a.hi[1] - b.across;
    switch (a.in.type) {
    case VP_U8: load_integers<uchar4>(a.in, rows, b); break;
    case VP_U16: load_integers<ushort4>(a.in, rows, b); break;
    case VP_I16: load_integers<short4>(a.in, rows, b); break;
    default: copy_rows<float4>(a.in, rows, b);
    }
}

/* The same for columns. */
__device__ __forceinline__ void load_columns(const line_args &a, const piece &b)
{
    constexpr int PLACES = LINE_WARPS * 32 / 8; /* at a time */
    const int x = (int)threadIdx.x % 8 * 4, width = min(4, a.hi[1] - b.across - x);
    int place = b.first + (int)threadIdx.x / 8;
    const float *p = reinterpret_cast<const float *>(a.in.data) + b.other * a.in.other + (b.across + x) +
                     (b.from + place) * a.in.along;
    float *q = lines_of(b) + place * LINES + x;
    const long long step = PLACES * a.in.along;
    if (width <= 0)
        return;
    if (a.aligned) {
#pragma unroll 4
        for (; place < b.last; place += PLACES, p += step, q += PLACES * LINES)
            copy_async<16>(q, p);
        return;
    }
#pragma unroll 1
    for (; place < b.last; place += PLACES, p += step, q += PLACES * LINES)
#pragma unroll 1
        for (int e = 0; e < width; e++)
            copy_async<4>(q + e, p + e);
}

/* extend_lines for edges that do not repeat the last sample; `outside` places, `before` of them at the front. */
template <line_form FORM>
__device__ __noinline__ void extend_by_rule(const line_args &a, piece b, int before, int outside)
{
    constexpr int STEP = read_line<FORM>::STEP;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, beyond = before + b.needed - outside;
    const auto fill = [&](int line, int q) {
        const int place = q < before ? q : q - before + beyond;
        const int s = edge_from(a.along.rule, b.from + place, a.along.n), near = s - b.from;
        float *const p = lines_of(b) + line * b.pitch;
        float v = 0;
        if (s >= 0 && near >= b.first && near < b.last)
            v = p[near * STEP];
        else if (s >= a.in_lo && s < a.in_hi && line < a.hi[1] - b.across)
            v = load_sample(a.in.data, b.other * a.in.other + (b.across + line) * a.in.across + s * a.in.along,
                            a.in.type);
        p[place * STEP] = v;
    };
    if (FORM == COLUMNS)
#pragma unroll 1
        for (int q = warp; q < outside; q += LINE_WARPS)
            fill(lane, q);
    else
#pragma unroll 1
        for (int q = lane; q < outside; q += 32)
#pragma unroll 1
            for (int line = warp; line < LINES; line += LINE_WARPS)
                fill(line, q);
}

/* The places outside the image, when the others are there. */
template <line_form FORM> __device__ __forceinline__ void extend_lines(const line_args &a, const piece &b)
{
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int before = max(-b.from, 0), beyond = min(a.along.n - b.from, b.needed);
    if (!before && beyond == b.needed)
        return;
    if (!repeats(a.along.rule)) {
        extend_by_rule<FORM>(a, b, before, before + b.needed - beyond);
    } else if (FORM == COLUMNS) {
        const auto repeat = [&](int place, int end, int from) {
            float4 *const p = reinterpret_cast<float4 *>(lines_of(b)) + threadIdx.x % 8;
            const float4 v = p[from * (LINES / 4)];
#pragma unroll 1
            for (place += threadIdx.x / 8; place < end; place += LINE_WARPS * 4)
                p[place * (LINES / 4)] = v;
        };
        if (before)
            repeat(0, before, before);
        if (beyond < b.needed)
            repeat(beyond, b.needed, beyond - 1);
    } else {
        float *const line = lines_of(b) + warp * b.pitch;
        const int front = before / 4, behind = (beyond + 3) / 4, all = front + (b.needed + 3) / 4 - behind;
#pragma unroll 1
        for (int g = lane; g < all; g += 32) {
            const float *p = line + (g < front ? before : beyond - 1);
            float *to = line + 4 * (g < front ? g : g - front + behind);
#pragma unroll
            for (int r = 0; r < LINES; r += LINE_WARPS, p += LINE_WARPS * b.pitch, to += LINE_WARPS * b.pitch)
                *reinterpret_cast<float4 *>(to) = make_float4(*p, *p, *p, *p);
        }
        if (beyond + lane < 4 * behind)
#pragma unroll 1
            for (int r = 0; r < LINES; r += LINE_WARPS)
                line[r * b.pitch + beyond + lane] = line[r * b.pitch + beyond - 1];
    }
    __syncthreads();
}

/* Outputs i ... i + UNIT / 2 - 1 of all lines, in `turn`, to rows that are not plain, or where some do not exist. */
static __device__ __noinline__ void store_rows_specially(const line_args &a, int across, int other, int i, int end,
                                                            const float *turn)
{
#pragma unroll 1
    for (int e = threadIdx.x % 32; e < LINES * UNIT / 2; e += 32) {
        const int r = e / (UNIT / 2), x = i + e % (UNIT / 2), y = across + r;
        if (y >= a.hi[1] || x < a.lo[0] || x >= end)
            continue;
        const float v = turn[r * TURN_PITCH + e % (UNIT / 2)];
        const long long from = other * a.source.other + y * a.source.across + x;
        store_sample(a.out.data, other * a.out.other + y * a.out.across + x, a.out.type,
                     a.highpass ? load_sample(a.source.data, from, a.source.type) - v : v);
    }
}

/* Outputs i ... i + UNIT - 1, before `end`, of the warp's lines, as rows: through `turn`. */
__device__ __forceinline__ void store_rows(const line_args &a, const piece &p, int i, int end, float *turn,
                                           const float (&v)[UNIT])
{
    const int lane = threadIdx.x % 32, half = lane % 2 * 4;
    const bool whole = a.aligned && i + UNIT <= end && p.across + LINES <= a.hi[1];
    float *const row = reinterpret_cast<float *>(a.out.data) + p.other * a.out.other +
                       (p.across + lane / 2) * a.out.across + i + half;
#pragma unroll
    for (int b = 0; b < UNIT; b += UNIT / 2) {
#pragma unroll
        for (int j = 0; j < UNIT / 2; j += 4)
            *reinterpret_cast<float4 *>(turn + lane * TURN_PITCH + j) =
                make_float4(v[b + j], v[b + j + 1], v[b + j + 2], v[b + j + 3]);
        __syncwarp();
        if (whole) {
            const float *const from = turn + lane / 2 * TURN_PITCH + half;
            __stcs(reinterpret_cast<float4 *>(row + b), *reinterpret_cast<const float4 *>(from));
            __stcs(reinterpret_cast<float4 *>(row + b + 16 * a.out.across),
                   *reinterpret_cast<const float4 *>(from + 16 * TURN_PITCH));
        } else {
            store_rows_specially(a, p.across, p.other, i + b, end, turn);
        }
        __syncwarp();
    }
}

struct unit {
    float v[UNIT];
};

/* The outputs of a line that are `there`, to sample `to` on: integers, high-pass (from sample `from` of source on).
 * Arguments in registers. */
static __device__ __noinline__ void store_specially(line_volume out, line_volume source, bool highpass, long long to,
                                                    long long from, unit u, unsigned there)
{
    if (highpass)
        subtract_line(source.data, from, source.along, source.type, u.v, there);
    store_line(out.data, to, out.along, out.type, u.v, there);
}

/* Overview: a block has a piece of 32 lines in shared memory. Other blocks work while its samples are on their way.
 * Mapping: a lane is a line, a warp makes UNIT outputs of all at a time. Where the input has rows, a lane reads four
 *   samples at a time; where the output has columns, a warp's results are side by side. So the best of both is a
 *   volume that is turned from pass to pass; where rows are wanted, results go through shared memory, warp by warp.
 * Memory: reads (length + 2 R) / length times, writes once. Limit: multiplications. */
template <line_form FORM, int R>
__global__ void __launch_bounds__(32 * LINE_WARPS, 3) k_line(const __grid_constant__ line_args a)
{
    extern __shared__ __align__(16) float shared[];
    const int radius = R ? R : a.f.radius, pad = padded(radius), samples = line_samples(a.length, radius);
    const int tid = threadIdx.x, lane = tid % 32, warp = tid / 32, begin = a.begin + (int)blockIdx.z * a.length;
    const int end = min(begin + a.length, a.hi[0]);
    const float *const t[1] = {shared};
    piece b;
    b.at = pad;
    b.pitch = FORM == COLUMNS ? 1 : samples + 4;
    b.from = begin - pad;
    b.needed = min(samples, end + radius - b.from);
    b.first = max(a.in_lo - b.from, 0);
    b.last = min(a.in_hi - b.from, b.needed);
    b.across = a.lo[1] + (int)blockIdx.x * LINES;
    b.other = a.lo[2] + (int)blockIdx.y;
    if (R == 0)
        for (int k = tid; k < pad; k += 32 * LINE_WARPS)
            shared[k] = a.f.t[k];
    if (FORM == COLUMNS)
        load_columns(a, b);
    else
        load_rows(a, b);
    copies_done();
    __syncthreads();
    extend_lines<FORM>(a, b);

    constexpr int STEP = read_line<FORM>::STEP;
    read_line<FORM> read = {lines_of(b) + lane * b.pitch + STEP * (pad + warp * UNIT)};
    int i = begin + warp * UNIT;
    const int line = b.across + lane;
    long long to = b.other * a.out.other + line * a.out.across + i * a.out.along;
#pragma unroll 1
    for (; i < end; i += LINE_STEP, read.p += STEP * LINE_STEP, to += LINE_STEP * a.out.along) {
        float v[1][UNIT];
        filter_unit<1, R, true>(read, a.along, &a.f, t, i, v);
        if (FORM == ROWS) {
            store_rows(a, b, i, end, shared + pad + LINES * (samples + 4) + warp * LINES * TURN_PITCH, v[0]);
        } else if (line < a.hi[1]) {
            unsigned there = first_of(UNIT);
            if (i + UNIT > end || i < a.lo[0]) {
                there = first_of(end - i) & ~first_of(max(a.lo[0] - i, 0));
                asm volatile("" : "+r"(there)); /* a branch */
            }
            if (a.plain) {
                store_line(a.out.data, to, a.out.along, VP_F32, v[0], there);
            } else {
                unit u;
#pragma unroll
                for (int j = 0; j < UNIT; j++)
                    u.v[j] = v[0][j];
                const long long from = b.other * a.source.other + line * a.source.across + i * a.source.along;
                store_specially(a.out, a.source, a.highpass, to, from, u, there);
            }
        }
    }
}

}

#endif
