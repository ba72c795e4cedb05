/* SPDX-License-Identifier: BSD-3-Clause */
/* Minimum and maximum over a window: shared by the kernels of boxes and balls.
 *
 * All kernels compute maxima of unsigned keys: floats become order-preserving keys (NaN below all, -0 below +0), a
 * minimum is the maximum of the complements. Voxels outside the image have key 0, the neutral element. A 32-bit word
 * holds 4, 2 or 1 keys of neighbours along x. */
#pragma once

#include "copy.cuh"
#include "footprint.cuh"
#include "base/order.h"
#include "local/extremum.h"

namespace
{

enum {
    LANES = 32,
    SHARED_GPU = 227 << 10,  /* bytes of shared memory of a multiprocessor */
    SHARED_LEAST = 99 << 10, /* bytes that a thread block can use on all devices */
    STRIP = 4 * LANES,       /* words of a row of a thread block along x and y; a warp has LANES of them */
    ROWS = 4,                /* rows that a warp has in shared memory */
    PLANE_ROWS = STRIP / LANES * ROWS, /* rows that a thread block has */
    PLANE_BLOCKS = 5         /* resident thread blocks of a multiprocessor, by registers: along x and y, or balls */
};

/* ---- keys ---- */

/* SPLIT: maxima of bytes by 16-bit maxima, for which newer devices have an instruction: the order of two 16-bit numbers
 * is that of their high bytes unless these are equal. */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
enum { SPLIT = 0 };
#else
enum { SPLIT = 1 };
#endif

/* The keys of a word in registers: take() keeps the larger of each pair (or three); word() returns the word, most() a
 * word filled with its largest key. */
template <int SIZE> struct keys;
template <> struct keys<4> {
    enum { IN_WORD = 1 };
    uint32_t a;
    __device__ explicit keys(uint32_t w = 0) : a(w) {}
    __device__ void take(keys o) { a = max(a, o.a); }
    __device__ void take(keys o, keys p) { a = __vimax3_u32(a, o.a, p.a); }
    __device__ uint32_t word() const { return a; }
    __device__ uint32_t most() const { return a; }
};
template <> struct keys<2> {
    enum { IN_WORD = 2 };
    uint32_t a;
    __device__ explicit keys(uint32_t w = 0) : a(w) {}
    __device__ void take(keys o) { a = __vmaxu2(a, o.a); }
    __device__ void take(keys o, keys p) { a = __vimax3_u16x2(a, o.a, p.a); }
    __device__ uint32_t word() const { return a; }
    __device__ uint32_t most() const
    {
        const uint32_t m = __vmaxu2(a, a >> 16);
        return __byte_perm(m, m, 0x1010);
    }
};
template <> struct keys<1> {
    enum { IN_WORD = 4 };
    uint32_t odd, even; /* without SPLIT, odd is the word */
    __device__ explicit keys(uint32_t w = 0) : odd(w), even(w << 8) {}
    __device__ void take(keys o)
    {
        odd = SPLIT ? __vmaxu2(odd, o.odd) : __vmaxu4(odd, o.odd);
        if (SPLIT)
            even = __vmaxu2(even, o.even);
    }
    __device__ void take(keys o, keys p)
    {
        odd = SPLIT ? __vimax3_u16x2(odd, o.odd, p.odd) : __vmaxu4(__vmaxu4(odd, o.odd), p.odd);
        if (SPLIT)
            even = __vimax3_u16x2(even, o.even, p.even);
    }
    __device__ uint32_t word() const { return SPLIT ? __byte_perm(even, odd, 0x7351) : odd; }
    __device__ uint32_t most() const
    {
        const uint32_t two = SPLIT ? __vmaxu2(odd, even) : __vmaxu4(odd, odd >> 8);
        const uint32_t m = SPLIT ? __vmaxu2(two, two >> 16) : __vmaxu4(two, two >> 16);
        return __byte_perm(m, m, SPLIT ? 0x1111 : 0);
    }
};

/* Words of samples <-> words of keys. `flip`: the complement for minima; in the sign bits of 16-bit integers
 * that have a sign the other way round. */
template <int SIZE> __device__ uint32_t to_keys(uint32_t w, uint32_t flip)
{
    if (SIZE < 4)
        return w ^ flip;
    const uint32_t k = vp_order_u32(w) ^ flip;
    return (w & 0x7fffffffu) > 0x7f800000u ? 0 : k; /* NaN: below all, also of the complements */
}

template <int SIZE> __device__ uint32_t from_keys(uint32_t k, uint32_t flip)
{
    const uint32_t f = k ^ flip;
    if (SIZE < 4)
        return f;
    return k == 0 ? VP_NAN_F32 : vp_order_u32_bits(f);
}

/* Arguments of a pass. Positions along the line (y or z) are counted from the first output. */
struct extremum_line {
    const void *in;              /* position 0 of the first line; along x: the first row */
    void *out;
    int64_t in_step, out_step;   /* words from one position to the next */
    int from, to;                /* input exists at from <= position < to */
    int n;                       /* outputs */
    int radius;
    int segment;                 /* outputs of a thread block */
    int slots;                   /* slots of the ring */
    uint32_t flip;               /* as in to_keys() */
    bool first, last;            /* input, output are samples (else keys) */
    int words, groups;           /* words of a row, thread blocks for them */
    int64_t in_other, out_other; /* words from one row of lines to the next */
    /* along x */
    int x_radius;
    int x_samples, x_shift;      /* samples of an input row; from its first to the output's first */
    int x_strip, x_rows;         /* outputs of a warp: words, rows */
    int x_words, x_pitch;        /* words of input for these; pitch of a row in shared memory */
    unsigned row_groups, planes; /* along x alone: groups of x_rows rows of a plane; planes */
};

/* ---- host ---- */

/* Parameters of a launch that all passes share. */
struct setting {
    uint32_t flip;
    int sms;
    cudaStream_t stream;
    struct vp_err *err;

    setting(const struct vp_op *op, const struct vp_work *args, struct vp_err *err)
        : flip((vp_params<vp_extremum_params>(op)->max ? 0u : 0xffffffffu) ^ (op->in == VP_I16 ? 0x80008000u : 0u)),
          sms(args->queue->sms), stream(args->queue->stream), err(err)
    {
    }
};

/* Returns the outputs of a thread block, a multiple of `unit`: few thread blocks leave a device idle, many re-read the
 * halo. `at_once`: resident thread blocks of a multiprocessor. */
inline int choose_segment(int64_t n, int64_t lines, int radius, int64_t at_once, int sms, int unit)
{
    int64_t best = n;
    double cost = 1e30;

    for (int pieces = 1; pieces <= 16; pieces++) {
        const int64_t t = vp_round_up(vp_div_up(n, pieces), unit);
        const int64_t waves = vp_div_up(lines * vp_div_up(n, t), at_once * sms);
        /* half a unit for starting up */
        const double c = (double)waves * ((double)t + 2 * radius + unit / 2);
        if (c < cost * .97) {
            best = t;
            cost = c;
        }
    }
    return (int)best;
}

inline int64_t blocks_at_once(size_t shared, int most)
{
    return vp_max64(1, vp_min64((int64_t)(SHARED_GPU / (shared + 1024)), most));
}

/* Describes the lines along an axis (1 or 2; the other one leads from line to line) at the origins of the areas. */
template <int SIZE>
extremum_line line_of(const setting &s, const vp_area &in, const vp_area &out, int axis, bool first, bool last)
{
    const int64_t per = keys<SIZE>::IN_WORD;
    extremum_line l = {};
    l.in = in.data;
    l.out = out.data;
    l.in_step = (axis == 1 ? in.pitch : in.plane) / per;
    l.out_step = (axis == 1 ? out.pitch : out.plane) / per;
    l.in_other = (axis == 1 ? in.plane : in.pitch) / per;
    l.out_other = (axis == 1 ? out.plane : out.pitch) / per;
    l.words = (int)vp_div_up(vp_box_size(&out.box, 0), per);
    l.x_samples = (int)vp_box_size(&in.box, 0);
    l.x_shift = (int)(out.box.lo[0] - in.box.lo[0]);
    l.flip = s.flip;
    l.first = first;
    l.last = last;
    return l;
}

/* Sets l.x_words and l.x_pitch for a strip of l.x_strip words. Returns the words of shared memory of a warp. */
template <int SIZE> int set_strip(extremum_line &l, int radius)
{
    const int block = 16 / SIZE;
    l.x_radius = radius;
    /* blocks from that of the sample before the first window to that of the last window's end */
    l.x_words = l.x_strip + 4 * (int)vp_div_up(2 * radius + block, block);
    l.x_pitch = l.x_words + 4; /* reads go one word beyond, two in growing windows */
    /* and one word beyond the last block */
    return (l.x_rows * (2 * l.x_pitch + (radius >= block ? 3 * l.x_words / 4 : 0)) + 4) / 4 * 4;
}

}
