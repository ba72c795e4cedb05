/* SPDX-License-Identifier: BSD-3-Clause */
/* Minimum and maximum over a window: what the kernels of boxes and balls share.
 *
 * Everything is a maximum of unsigned keys: floats become keys in the order of the numbers (with NaN below all and -0
 * below +0), a minimum is a maximum of the complements. Voxels outside the image are the key 0, which changes nothing.
 * A 32-bit word holds 4, 2 or 1 keys that are neighbours in x. */
#ifndef VP_EXTREMUM_CUH
#define VP_EXTREMUM_CUH

#include "copy.cuh"
#include "footprint.cuh"
#include "base/order.h"
#include "local/extremum.h"

namespace
{

enum {
    LANES = 32,
    SHARED_GPU = 227 << 10,  /* that the thread blocks of a multiprocessor share */
    SHARED_LEAST = 99 << 10, /* of a thread block: what all devices have */
    STRIP = 4 * LANES,       /* words of a row that a thread block makes along x and y, a warp LANES of them */
    ROWS = 4,                /* that a warp has in shared memory, */
    PLANE_ROWS = STRIP / LANES * ROWS, /* and a thread block */
    PLANE_BLOCKS = 5         /* thread blocks on a multiprocessor at most (registers): along x and y or balls */
};

/* ---- keys ---- */

/* The maxima of bytes come from those of 16-bit numbers where the device has an instruction for these: a
 * number is as large as its high byte first, whatever the low one. */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
enum { SPLIT = 0 };
#else
enum { SPLIT = 1 };
#endif

/* The keys of a word, for comparing: take() leaves the larger ones; most() is a word of the largest. */
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
    uint32_t odd, even; /* not SPLIT: odd is the word */
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

/* One pass. Positions along the line (y or z) are counted from the first output. */
struct line {
    const void *in; /* position 0 of the first line; along x: the first row */
    void *out;
    int64_t in_step, out_step; /* words from one position to the next */
    int from, to;              /* there is input at from <= position < to */
    int n;                     /* outputs */
    int radius;
    int segment; /* outputs that one thread block makes */
    int slots;   /* of the ring */
    uint32_t flip;
    bool first, last; /* samples come in, go out (else keys) */
    /* words of a row, thread blocks for these, words from one row of lines to the next */
    int words, groups;
    int64_t in_other, out_other;
    /* x */
    int x_radius, x_samples, x_shift; /* samples of an input row, samples from its first to the output's */
    int x_strip, x_rows;              /* outputs of a warp: words, rows */
    int x_words, x_pitch;             /* input of these, words of shared memory for it */
    unsigned row_groups, planes;      /* x alone: groups of x_rows in a plane */
};

/* ---- host ---- */

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

/* Outputs of a thread block: few thread blocks leave a device idle, many read the halo often. `at_once`: thread blocks
 * of a multiprocessor; `unit`: what it must be a multiple of. */
inline int choose_segment(int64_t n, int64_t lines, int radius, int64_t at_once, int sms, int unit)
{
    int64_t best = n;
    double cost = 1e30;

    for (int pieces = 1; pieces <= 16; pieces++) {
        const int64_t t = vp_round_up(vp_div_up(n, pieces), unit);
        const int64_t turns = vp_div_up(lines * vp_div_up(n, t), at_once * sms);
        /* half a unit more for getting started */
        const double c = (double)turns * ((double)t + 2 * radius + unit / 2);
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

/* Lines along an axis (1 or 2, the other one is from line to line) that begin where the areas do. */
template <int SIZE>
line line_of(const setting &s, const vp_area &in, const vp_area &out, int axis, bool first, bool last)
{
    const int64_t per = keys<SIZE>::IN_WORD;
    line l = {};
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

/* What a warp needs of a strip of l.x_strip words: sets l.x_words and l.x_pitch, returns words of shared memory. */
template <int SIZE> int set_strip(line &l, int radius)
{
    const int block = 16 / SIZE;
    l.x_radius = radius;
    /* from the block of the sample before the first window to that of the last one's end */
    l.x_words = l.x_strip + 4 * (int)vp_div_up(2 * radius + block, block);
    l.x_pitch = l.x_words + 4; /* a word more is read, in growing windows two */
    /* a word more is read behind the last block, too */
    return (l.x_rows * (2 * l.x_pitch + (radius >= block ? 3 * l.x_words / 4 : 0)) + 4) / 4 * 4;
}

}

#endif
