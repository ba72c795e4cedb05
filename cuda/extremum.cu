/* SPDX-License-Identifier: BSD-3-Clause */
/* Minimum and maximum over a box or ball: kernels "min" and "max" of ops/extremum.h.
 *
 * Everything is a maximum of unsigned keys: floats become keys in the order of the numbers (with NaN below
 * all and -0 below +0), a minimum is a maximum of the complements. Voxels outside the image are the key 0,
 * which changes nothing. A 32-bit word holds 4, 2 or 1 keys that are neighbours in x.
 *
 * A box is a pass along x and y together and one along z, or one along each axis where windows are long.
 * - Along y and z a lane walks down a column of words, with a ring of shared memory that holds little more
 *   than a window. Windows are made as van Herk (1992) and Gil and Werman (1993) did: the line is cut into
 *   blocks of the window's length; a window is the end of one block and the beginning of the next, so the
 *   maximum of it is that of a suffix and of a prefix, and a voxel costs three comparisons whatever the
 *   radius. A sample is replaced by its suffix when its block is complete.
 * - Long windows have shorter blocks there, runs, each of them in the registers of a warp: a window is a
 *   suffix, whole runs and a prefix. More warps fit than with one window in each one's ring.
 * - Along x a warp has some rows in shared memory. Long windows: blocks are 16 bytes, what a lane holds.
 *   Short windows grow by overlapping: one of 3 a is three of a. */
#include "footprint.cuh"
#include "ops/extremum.h"

#include <cuda_pipeline.h>

#include <cstdio>

namespace
{

enum {
    LANES = 32,
    SHARED_GPU = 227 << 10,  /* that the thread blocks of a multiprocessor share */
    SHARED_LEAST = 99 << 10, /* of a thread block: what all devices have */
    BATCH = 8,               /* samples looked at together */
    SMALL = 4,               /* radii up to it: windows of the samples themselves */
    STRIP = 4 * LANES,       /* words of a row that a thread block makes along x and y, a warp LANES of them */
    ROWS = 4,                /* that a warp has in shared memory, */
    PLANE_ROWS = STRIP / LANES * ROWS, /* and a thread block */
    /* x and y are one pass if windows reach at most so many bytes along x and this is enough shared memory:
     * where it was faster (H100) */
    PLANE_REACH = 256,
    PLANE_SHARED = 52 << 10,
    PLANE_BLOCKS = 5,      /* thread blocks on a multiprocessor at most (registers): along x and y or balls, */
    LINE_BLOCKS = 20,      /* and along y or z */
    RUN = 16,              /* samples of a warp along y and z where windows are long, */
    LONG_RUN = 32,         /* and where they are so long that there are many runs in one: */
    LONG_RADIUS = 88,      /* from here on (H100) */
    RUN_WARPS = 8,         /* of a thread block */
    RUN_BLOCKS = 4,        /* thread blocks on a multiprocessor (registers) for the ones */
    LONG_RUN_BLOCKS = 3,   /* and the others */
    PASS_RADIUS = 256,     /* longer windows are made in turns, a window of windows, */
    PASSES = 64,           /* at most so many */
    PASS_RADIUS_MOST = 340 /* and then of these: what SHARED_LEAST can hold */
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
    const uint32_t k = (w ^ ((uint32_t)((int32_t)w >> 31) | 0x80000000u)) ^ flip;
    return (w & 0x7fffffffu) > 0x7f800000u ? 0 : k; /* NaN: below all, also of the complements */
}

template <int SIZE> __device__ uint32_t from_keys(uint32_t k, uint32_t flip)
{
    const uint32_t f = k ^ flip;
    if (SIZE < 4)
        return f;
    return k == 0 ? 0x7fc00000u : f ^ ((uint32_t)((int32_t)~f >> 31) | 0x80000000u);
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

/* ---- along y and z ----
 * The ring holds words of keys; STEP words from a slot to the next. Sample i is in slot i % slots, and
 * completes the window of output i - 2 radius. */
template <int SIZE, int STEP> struct walker {
    const line &l;
    uint32_t *const own; /* slot 0 of this lane */
    uint32_t *out;       /* of the next window */
    const int w, m;      /* window, samples */
    const bool there;    /* has outputs */
    /* the sample; its place in its block, its slot, that of i - w + 1 */
    int i, place, slot, suffix;
    keys<SIZE> best;
    uint32_t before[2 * SMALL]; /* the samples before i, if the window is small */

    __device__ walker(const line &line_, uint32_t *own_, uint32_t *out_, int count, bool there_)
        : l(line_), own(own_), out(out_), w(2 * line_.radius + 1), m(count + 2 * line_.radius), there(there_), i(0),
          place(0), slot(0), suffix(0), best(0)
    {
#pragma unroll
        for (int k = 0; k < 2 * SMALL; k++)
            before[k] = 0;
        if (l.radius <= SMALL) /* where the window of sample 0 would go */
            out -= 2 * l.radius * l.out_step;
    }

    __device__ __forceinline__ int next(int s, int n) const /* n <= slots */
    {
        s += n;
        return s >= l.slots ? s - l.slots : s;
    }
    __device__ __forceinline__ uint32_t *at(int s) const { return own + s * STEP; }

    /* Windows' keys as they go out. */
    template <int N> __device__ __forceinline__ void finish(uint32_t (&e)[N]) const
    {
        if (l.last)
#pragma unroll
            for (int k = 0; k < N; k++)
                e[k] = from_keys<SIZE>(e[k], l.flip);
    }

    /* Windows of 2 R + 1 samples. */
    template <int R> __device__ __forceinline__ void small(int end)
    {
#pragma unroll 1
        for (; i < end; i += BATCH, slot = next(slot, BATCH), out += BATCH * l.out_step) {
            uint32_t v[BATCH + 2 * R];
#pragma unroll
            for (int k = 0; k < 2 * R; k++)
                v[k] = before[k];
#pragma unroll
            for (int k = 0; k < BATCH; k++)
                v[2 * R + k] = at(slot)[k * STEP];
#pragma unroll
            for (int k = 0; k < 2 * R; k++)
                before[k] = v[BATCH + k];
            uint32_t e[BATCH];
#pragma unroll
            for (int k = 0; k < BATCH; k++) {
                keys<SIZE> a(v[k]);
#pragma unroll
                for (int j = 1; j < 2 * R + 1; j += 2)
                    a.take(keys<SIZE>(v[k + j]), keys<SIZE>(v[k + j + 1]));
                e[k] = a.word();
            }
            finish(e);
            if (!there)
                continue;
            if (i >= 2 * R && i + BATCH <= m) {
#pragma unroll
                for (int k = 0; k < BATCH; k++)
                    out[k * l.out_step] = e[k];
            } else {
#pragma unroll
                for (int k = 0; k < BATCH; k++)
                    if (i + k >= 2 * R && i + k < m)
                        out[k * l.out_step] = e[k];
            }
        }
    }

    /* N samples and what became of those a window before them. */
    template <int N> __device__ __forceinline__ void some(const uint32_t *sample, const uint32_t *suffix_)
    {
        uint32_t v[N], e[N];
#pragma unroll
        for (int k = 0; k < N; k++) {
            v[k] = sample[k * STEP];
            e[k] = suffix_[k * STEP];
        }
#pragma unroll
        for (int k = 0; k < N; k++) {
            best.take(keys<SIZE>(v[k]));
            keys<SIZE> a(e[k]);
            a.take(best);
            e[k] = a.word();
        }
        finish(e);
        if (there)
#pragma unroll
            for (int k = 0; k < N; k++)
                out[k * l.out_step] = e[k];
        out += N * l.out_step;
    }

    /* n samples before and at `from` become suffixes. */
    __device__ __forceinline__ void turn_back(uint32_t *from, int n)
    {
#pragma unroll 1
        for (; n >= BATCH; n -= BATCH, from -= BATCH * STEP) {
            uint32_t v[BATCH];
#pragma unroll
            for (int k = 0; k < BATCH; k++)
                v[k] = from[-k * STEP];
#pragma unroll
            for (int k = 0; k < BATCH; k++) {
                best.take(keys<SIZE>(v[k]));
                from[-k * STEP] = best.word();
            }
        }
#pragma unroll 1
        for (; n > 0; n--, from -= STEP) {
            best.take(keys<SIZE>(*from));
            *from = best.word();
        }
    }

    __device__ __forceinline__ void large(int end)
    {
        while (i < end) {
            if (place == w - 1) {
                /* the block is complete: samples become suffixes, and the first of them is that of a window
                 */
                best = keys<SIZE>(0);
                const int here = min(w, slot + 1);
                turn_back(at(slot), here);
                turn_back(at(l.slots - 1), w - here);
                uint32_t e[1] = {best.word()};
                finish(e);
                if (there)
                    *out = e[0];
                out += l.out_step;
                best = keys<SIZE>(0);
                place = 0;
                slot = next(slot, 1);
                suffix = next(suffix, 1);
                i++;
                continue;
            }
            int n = min(end - i, min(w - 1 - place, l.slots - slot));
            if (i < w - 1) { /* in the first block, before there are suffixes: prefixes of it are not needed */
                i += n;
                place += n;
                slot = next(slot, n);
                continue;
            }
            n = min(n, l.slots - suffix);
            const uint32_t *sample = at(slot), *old = at(suffix);
            i += n;
            place += n;
            slot = next(slot, n);
            suffix = next(suffix, n);
#pragma unroll 1
            for (; n >= BATCH; n -= BATCH, sample += BATCH * STEP, old += BATCH * STEP)
                some<BATCH>(sample, old);
#pragma unroll 1
            for (; n >= 2; n -= 2, sample += 2 * STEP, old += 2 * STEP)
                some<2>(sample, old);
            if (n)
                some<1>(sample, old);
        }
    }

    /* Samples before `end` are in the ring; what is in it behind sample m - 1, up to a batch, does not
     * matter. */
    __device__ __forceinline__ void to(int end)
    {
        switch (l.radius) {
        case 1: return small<1>(end);
        case 2: return small<2>(end);
        case 3: return small<3>(end);
        case 4: return small<4>(end);
        default: large(end);
        }
    }
};

/* One warp; blockIdx.x: the lines, blockIdx.y: the segment. Samples are on their way while those before them
 * are looked at. */
template <int SIZE> __global__ void __launch_bounds__(LANES) lines_kernel(line l)
{
    extern __shared__ uint4 shared[];
    uint32_t *const own = (uint32_t *)shared + threadIdx.x;
    const int start = blockIdx.y * l.segment, count = min(l.segment, l.n - start);
    const int word_of = blockIdx.x % l.groups * LANES + threadIdx.x, other = blockIdx.x / l.groups;
    const bool there = word_of < l.words;
    const uint32_t *from = (const uint32_t *)l.in + other * l.in_other + word_of + (start - l.radius) * l.in_step;
    walker<SIZE, LANES> walk(l, own, (uint32_t *)l.out + other * l.out_other + word_of + start * l.out_step, count,
                             there);
    /* samples there are */
    const int lo = there ? max(0, l.from - (start - l.radius)) : walk.m, hi = min(walk.m, l.to - (start - l.radius));
    uint32_t coming[LANES];

    for (int chunk = -LANES, slot = 0; chunk < walk.m; chunk += LANES) {
        const int next = chunk + LANES;
        if (chunk >= 0) {
#pragma unroll
            for (int k = 0; k < LANES; k++) {
                const uint32_t key = l.first ? to_keys<SIZE>(coming[k], l.flip) : coming[k];
                own[(slot + k) * LANES] = chunk + k >= lo && chunk + k < hi ? key : 0;
            }
            slot = walk.next(slot, LANES);
        }
        if (next < walk.m) {
#pragma unroll
            for (int k = 0; k < LANES; k++, from += l.in_step)
                coming[k] = next + k >= lo && next + k < hi ? __ldg(from) : 0;
        }
        if (chunk >= 0)
            walk.to(min(next, walk.m));
    }
}

/* ---- along y and z, long windows ----
 * A warp has a run of N samples of its columns in registers; the warps of a thread block have runs that
 * follow each other, and walk down together. In the ring are the runs' suffixes, the first of which is the
 * maximum of the run. With 2 radius = whole N + rest, the window that ends with sample k of a run begins with
 * sample k - rest of the run `whole` before it; where that is negative, with sample k - rest + N of the one
 * before. */
template <int SIZE, int N>
__global__ void __launch_bounds__(RUN_WARPS *LANES, N > RUN ? LONG_RUN_BLOCKS : RUN_BLOCKS) runs_kernel(line l)
{
    extern __shared__ uint4 shared[];
    const int lane = threadIdx.x % LANES, warp = threadIdx.x / LANES, warps = blockDim.x / LANES;
    const int start = blockIdx.y * l.segment, count = min(l.segment, l.n - start), origin = start - l.radius;
    const int reach = 2 * l.radius, m = count + reach, whole = reach / N, rest = reach % N;
    const int word_of = blockIdx.x % l.groups * LANES + lane, other = blockIdx.x / l.groups;
    const bool there = word_of < l.words; /* other lanes look at the last word */
    /* samples there are */
    const int lo = max(0, l.from - origin), hi = min(m, l.to - origin);
    /* slot 0; before it is a copy of the last one, so that the suffixes that belong to a run are in line */
    uint32_t *const ring = (uint32_t *)shared + N * LANES + lane;
    const uint32_t *from =
        (const uint32_t *)l.in + other * l.in_other + min(word_of, l.words - 1) + (origin + warp * N) * l.in_step;
    uint32_t *out = (uint32_t *)l.out + other * l.out_other + word_of + (start - reach + warp * N) * l.out_step;

    for (int chunk = 0, slot = warp; chunk < m; chunk += warps * N) {
        const int i = chunk + warp * N; /* the first sample */
        uint32_t v[N];
        const uint32_t *sample = from;
        if (i >= lo && i + N <= hi) {
#pragma unroll
            for (int k = 0; k < N; k++, sample += l.in_step)
                v[k] = __ldg(sample);
        } else {
            const uint32_t none = !l.first ? 0 : SIZE == 4 ? 0x7fffffffu : l.flip; /* has the key 0 */
#pragma unroll
            for (int k = 0; k < N; k++, sample += l.in_step)
                v[k] = i + k >= lo && i + k < hi ? __ldg(sample) : none;
        }
        if (l.first)
#pragma unroll
            for (int k = 0; k < N; k++)
                v[k] = to_keys<SIZE>(v[k], l.flip);
        keys<SIZE> best(0);
        uint32_t *const to = ring + slot * N * LANES;
#pragma unroll
        for (int k = N - 1; k >= 0; k--) {
            best.take(keys<SIZE>(v[k]));
            to[k * LANES] = best.word();
        }
        if (slot == l.slots - 1)
#pragma unroll 8
            for (int k = 0; k < N; k++)
                ring[(k - N) * LANES] = to[k * LANES];
        __syncthreads();
        if (i + N > reach && i < m) {
            int s = slot;
            const auto before = [&]() {
                s = s > 0 ? s - 1 : l.slots - 1;
                return ring + s * N * LANES;
            };
            keys<SIZE> middle(0), prefix(0);
#pragma unroll 1
            for (int b = 2; b < whole; b += 2) {
                const keys<SIZE> a(*before());
                middle.take(a, keys<SIZE>(*before()));
            }
            if (whole % 2 == 0)
                middle.take(keys<SIZE>(*before()));
            const uint32_t *const first = before(), *const suffix = first - rest * LANES;
            const keys<SIZE> others(middle);
            if (rest > 0) /* the first windows hold that run, too */
                middle.take(keys<SIZE>(*first));
#pragma unroll
            for (int k = 0; k < N; k++) {
                if (k > 0 && k % 2 == 0 && k == rest) /* which is even */
                    middle = others;
                prefix.take(keys<SIZE>(v[k]));
                keys<SIZE> a(prefix);
                a.take(keys<SIZE>(suffix[k * LANES]), middle);
                v[k] = l.last ? from_keys<SIZE>(a.word(), l.flip) : a.word();
            }
            uint32_t *p = out;
            if (there && i >= reach && i + N <= m) {
#pragma unroll
                for (int k = 0; k < N; k++, p += l.out_step)
                    *p = v[k];
            } else if (there) {
#pragma unroll
                for (int k = 0; k < N; k++, p += l.out_step)
                    if (i + k >= reach && i + k < m)
                        *p = v[k];
            }
        }
        from += warps * N * l.in_step;
        out += warps * N * l.out_step;
        slot += warps;
        slot -= slot >= l.slots ? l.slots : 0;
        __syncthreads(); /* the next suffixes replace some of these */
    }
}

/* ---- along x ---- */

/* Blocks of 4 words: `carry` has the keys' maximum so far in every key. */
template <int SIZE> __device__ __forceinline__ uint32_t suffixes(uint32_t w, uint32_t &carry)
{
    if constexpr (SIZE == 4)
        return carry = max(w, carry);
    if constexpr (SIZE == 2) {
        const uint32_t s = __vimax3_u16x2(w, w >> 16, carry);
        carry = __byte_perm(s, s, 0x1010);
        return s;
    }
    if constexpr (SPLIT) {
        const uint32_t even = w << 8, both = __vmaxu2(w, even), behind = both >> 16;
        const uint32_t e = __vimax3_u16x2(both, behind, carry), o = __vimax3_u16x2(w, behind, carry);
        carry = __byte_perm(e, e, 0x1111);
        return __byte_perm(e, o, 0x7351);
    }
    const uint32_t t = __vmaxu4(w, w >> 8), s = __vmaxu4(__vmaxu4(t, t >> 16), carry);
    carry = __byte_perm(s, s, 0);
    return s;
}

template <int SIZE> __device__ __forceinline__ uint32_t prefixes(uint32_t w, uint32_t &carry)
{
    if constexpr (SIZE == 4)
        return carry = max(w, carry);
    if constexpr (SIZE == 2) {
        const uint32_t s = __vimax3_u16x2(w, w << 16, carry);
        carry = __byte_perm(s, s, 0x3232);
        return s;
    }
    if constexpr (SPLIT) {
        const uint32_t even = w << 8, both = __vmaxu2(w, even), before = both << 16;
        const uint32_t e = __vimax3_u16x2(even, before, carry), o = __vimax3_u16x2(both, before, carry);
        carry = __byte_perm(o, o, 0x3333);
        return __byte_perm(e, o, 0x7351);
    }
    const uint32_t t = __vmaxu4(w, w << 8), s = __vmaxu4(__vmaxu4(t, t << 16), carry);
    carry = __byte_perm(s, s, 0x3333);
    return s;
}

/* Rows of a strip, by one warp. */
template <int SIZE> struct strip {
    enum { IN_WORD = keys<SIZE>::IN_WORD, BLOCK = 4 * IN_WORD };
    const line &l;
    uint32_t *const raw, *const aside; /* x_rows times x_pitch each */
    uint32_t *const most;              /* 3 times x_rows of a word for each block */
    const int lane, blocks;
    int base; /* the block of the input's row at which that of the strip begins */
    int off;  /* the sample of it at which the window of the first output begins, 1 or more */

    /* `first`: the first output of the strip, in samples */
    __device__ strip(const line &line_, uint32_t *mine, int first)
        : l(line_), raw(mine), aside(mine + line_.x_rows * line_.x_pitch),
          most(mine + 2 * line_.x_rows * line_.x_pitch), lane(threadIdx.x % LANES), blocks(line_.x_words / 4)
    {
        const int a = first + l.x_shift - l.x_radius - 1;
        base = a >= 0 ? a / BLOCK : -((BLOCK - 1 - a) / BLOCK);
        off = a + 1 - base * BLOCK;
    }

    /* Sets out to load n rows. */
    __device__ __forceinline__ void load(int row, int n, const uint32_t *from, int64_t step) const
    {
        const int end = min(blocks, (l.x_samples + BLOCK - 1) / BLOCK - base);
#pragma unroll 1
        for (int b = max(0, -base) + lane; b < end; b += LANES) {
            const uint32_t *p = from + 4 * (int64_t)(base + b);
            uint32_t *to = raw + row * l.x_pitch + 4 * b;
#pragma unroll 1
            for (int r = 0; r < n; r++, p += step, to += l.x_pitch)
                __pipeline_memcpy_async(to, p, 16);
        }
    }

    /* Which bytes of word j are of the image. */
    __device__ __forceinline__ uint32_t inside(int j) const
    {
        const int at = base * BLOCK + j * IN_WORD, left = l.x_samples - at;
        return at < 0 || left <= 0 ? 0 : left < IN_WORD ? (1u << (8 * SIZE * (left % IN_WORD))) - 1 : 0xffffffffu;
    }
    __device__ __forceinline__ uint32_t key(uint32_t w, uint32_t mask) const
    {
        return (l.first ? to_keys<SIZE>(w, l.flip) : w) & mask;
    }

    /* The keys from sample o of a row on, as word j of them: `word` is o's, `select` from select_at(o). */
    __device__ __forceinline__ uint32_t keys_at(const uint32_t *row, int j, int word, uint32_t select) const
    {
        return IN_WORD == 1 ? row[j + word] : __byte_perm(row[j + word], row[j + word + 1], select);
    }
    __device__ __forceinline__ static uint32_t select_at(int o) { return 0x3210u + 0x1111u * (o % IN_WORD * SIZE); }

    /* Windows of a = IN_WORD or 2 samples, from the keys of two words. */
    __device__ __forceinline__ static uint32_t grown(uint32_t k0, uint32_t k1, int a)
    {
        if constexpr (SIZE == 1) {
            const uint32_t f1 = __byte_perm(k0, k1, 0x4321), f2 = __byte_perm(k0, k1, 0x5432),
                           f3 = __byte_perm(k0, k1, 0x6543);
            if (!SPLIT)
                return a == 2 ? __vmaxu4(k0, f1) : __vmaxu4(__vmaxu4(k0, f1), __vmaxu4(f2, f3));
            if (a == 2)
                return __byte_perm(__vmaxu2(k0, f1), __vmaxu2(f1, f2), 0x7351);
            const uint32_t f = __vimax3_u16x2(f1, f2, f3);
            return __byte_perm(__vmaxu2(k0, f), __vmaxu2(f, k1), 0x7351);
        }
        return __vmaxu2(k0, __byte_perm(k0, k1, 0x5432));
    }

    /* Short windows, of ROWS rows. */
    template <class F> __device__ __forceinline__ void grow(const F &emit) const
    {
        const int w = 2 * l.x_radius + 1;
        int a = w >= IN_WORD ? (int)IN_WORD : w == 1 ? 1 : 2;
        /* the windows of a samples from each on; of split bytes: from the one behind each on */
        const int o = off - (SPLIT && SIZE == 1 && a > 1);
        for (int j = lane; j < l.x_words; j += LANES) {
            const uint32_t mask = inside(j), mask1 = inside(j + 1);
            uint32_t k0[ROWS], k1[ROWS];
#pragma unroll
            for (int r = 0; r < ROWS; r++) {
                k0[r] = key(raw[r * l.x_pitch + j], mask);
                if (IN_WORD > 1)
                    k1[r] = key(raw[r * l.x_pitch + j + 1], mask1);
            }
#pragma unroll
            for (int r = 0; r < ROWS; r++)
                aside[r * l.x_pitch + j] = IN_WORD > 1 && a > 1 ? grown(k0[r], k1[r], a) : k0[r];
        }
        __syncwarp();
        const uint32_t *from = aside;
        if (3 * a < w) {
            const int step = a / IN_WORD;
            for (int j = lane; j < l.x_words; j += LANES)
#pragma unroll
                for (int r = 0; r < ROWS; r++) {
                    const uint32_t *const v = aside + r * l.x_pitch + j;
                    keys<SIZE> best(v[0]);
                    best.take(keys<SIZE>(v[step]), keys<SIZE>(v[2 * step]));
                    raw[r * l.x_pitch + j] = best.word();
                }
            __syncwarp();
            from = raw;
            a *= 3;
        }
        const int o1 = o, o2 = o + a, o3 = o + w - a;
        const uint32_t s1 = select_at(o1), s2 = select_at(o2), s3 = select_at(o3);
        const int w1 = o1 / IN_WORD, w2 = o2 / IN_WORD, w3 = o3 / IN_WORD;
        for (int j = lane; j < l.x_strip; j += LANES)
#pragma unroll
            for (int r = 0; r < ROWS; r++) {
                const uint32_t *const v = from + r * l.x_pitch;
                keys<SIZE> best(keys_at(v, j, w1, s1)), end(keys_at(v, j, w3, s3));
                if (2 * a < w)
                    best.take(keys<SIZE>(keys_at(v, j, w2, s2)), end);
                else
                    best.take(end);
                const uint32_t e[1] = {best.word()};
                emit(r, j, e);
            }
    }

    /* Blocks [from, to) of all rows, of which there are 1, 2 or 4: f(block, its place in raw and aside, index
     * of both). */
    template <class F> __device__ __forceinline__ void each_block(int from, int to, const F &f) const
    {
        /* log2 of the lanes for a row */
        int wide = l.x_rows == 4 ? 3 : l.x_rows == 2 ? 4 : 5;
        while (wide < 5 && 1 << wide < to - from)
            wide++;
#pragma unroll 1
        for (int r = lane >> wide, b = from + (lane & ((1 << wide) - 1)); b < to;) {
            f(b, r * (l.x_pitch / 4) + b, r * blocks + b);
            r += LANES >> wide;
            if (r >= l.x_rows) {
                r = lane >> wide;
                b += 1 << wide;
            }
        }
    }

    /* Windows that hold a whole block or more: `whole` at least, whole + 1 at most. The suffixes get the
     * maximum of the `whole` blocks behind them, the prefixes that of the block before them. */
    template <class F> __device__ __forceinline__ void join(const F &emit) const
    {
        const int w = 2 * l.x_radius + 1, whole = (w - 1) / BLOCK - 1, n = l.x_rows * blocks;
        /* the blocks that the image has */
        const int lo = min(max(0, -base), blocks), hi = min(max(lo, (l.x_samples + BLOCK - 1) / BLOCK - base), blocks);
#pragma unroll 1
        for (int i = lane; i < (n + 3) / 4; i += LANES)
            ((uint4 *)most)[i] = make_uint4(0, 0, 0, 0);
        __syncwarp();
        each_block(lo, hi, [&](int b, int place, int i) {
            uint4 *const at = (uint4 *)raw + place;
            uint4 k = *at;
            if ((base + b + 1) * BLOCK > l.x_samples)
                k = make_uint4(key(k.x, inside(4 * b)), key(k.y, inside(4 * b + 1)), key(k.z, inside(4 * b + 2)),
                               key(k.w, inside(4 * b + 3)));
            else if (l.first)
                k = make_uint4(key(k.x, ~0u), key(k.y, ~0u), key(k.z, ~0u), key(k.w, ~0u));
            *at = k;
            keys<SIZE> all(k.x);
            all.take(keys<SIZE>(k.y), keys<SIZE>(k.z));
            all.take(keys<SIZE>(k.w));
            most[i] = all.most();
        });
        __syncwarp();
        const uint32_t *from = most;
        uint32_t *to = most + n;
        for (int a = 1; a < whole;) {
            const int more = min(4 * a, whole), s3 = more - a, s2 = min(2 * a, s3), s1 = min(a, s3);
#pragma unroll 2
            for (int i = lane; i < n - s3; i += LANES) /* those at a row's end are not needed */
                to[i] = __vimax3_u32(max(from[i], from[i + s1]), from[i + s2], from[i + s3]);
            __syncwarp();
            from = to;
            to = to == most + n ? to + n : most + n;
            a = more;
        }
        /* no window begins behind the image, and none ends before it */
        each_block(0, lo, [&](int, int place, int i) {
            const uint32_t behind = from[i + 1];
            ((uint4 *)raw)[place] = make_uint4(behind, behind, behind, behind);
        });
        each_block(hi, blocks, [&](int, int place, int i) {
            const uint32_t before = most[i - 1];
            ((uint4 *)aside)[place] = make_uint4(before, before, before, before);
        });
        each_block(lo, hi, [&](int, int place, int i) {
            uint4 *const at = (uint4 *)raw + place;
            const uint4 k = *at;
            uint32_t behind = from[i + 1], before = most[i - 1]; /* the last and the first do not matter */
            const uint32_t s3 = suffixes<SIZE>(k.w, behind), s2 = suffixes<SIZE>(k.z, behind),
                           s1 = suffixes<SIZE>(k.y, behind), s0 = suffixes<SIZE>(k.x, behind);
            *at = make_uint4(s0, s1, s2, s3);
            const uint32_t p0 = prefixes<SIZE>(k.x, before), p1 = prefixes<SIZE>(k.y, before),
                           p2 = prefixes<SIZE>(k.z, before), p3 = prefixes<SIZE>(k.w, before);
            ((uint4 *)aside)[place] = make_uint4(p0, p1, p2, p3);
        });
        __syncwarp();
        const int end = off + w - 1;
        const uint32_t s1 = select_at(off), s2 = select_at(end);
        const uint32_t *suffix = raw + off / IN_WORD, *prefix = aside + end / IN_WORD;
#pragma unroll 1
        for (int r = 0; r < l.x_rows; r++, suffix += l.x_pitch, prefix += l.x_pitch)
#pragma unroll 1
            for (int j = lane; j < l.x_strip; j += STRIP) {
                uint32_t e[STRIP / LANES];
#pragma unroll
                for (int k = 0; k < STRIP / LANES; k++) {
                    keys<SIZE> best(keys_at(suffix, j + k * LANES, 0, s1));
                    best.take(keys<SIZE>(keys_at(prefix, j + k * LANES, 0, s2)));
                    e[k] = best.word();
                }
                emit(r, j, e);
            }
    }

    /* What was loaded has come; emit(row, word j of the strip, keys of words j, j + LANES, ...). The rows can
     * be loaded again afterwards. */
    template <class F> __device__ __forceinline__ void make(const F &emit) const
    {
        if (l.x_radius >= BLOCK)
            join(emit);
        else
            grow(emit);
        __syncwarp();
    }
};

/* Along x and y: a warp makes the windows along x of every fourth group of rows, and walks down its own
 * columns. */
template <int SIZE> __global__ void __launch_bounds__(STRIP, PLANE_BLOCKS) plane_kernel(line l, int scratch)
{
    extern __shared__ uint4 shared[];
    uint32_t *const ring = (uint32_t *)shared;
    const int warp = threadIdx.x / LANES;
    const int group = blockIdx.x % l.groups, word_of = group * STRIP + threadIdx.x;
    const int64_t other = blockIdx.x / l.groups;
    const int start = blockIdx.y * l.segment, count = min(l.segment, l.n - start), origin = start - l.radius;
    const strip<SIZE> x(l, ring + l.slots * STRIP + warp * scratch, group * STRIP * keys<SIZE>::IN_WORD);
    walker<SIZE, STRIP> walk(l, ring + threadIdx.x,
                             (uint32_t *)l.out + other * l.out_other + word_of + start * l.out_step, count,
                             word_of < l.words);
    const uint32_t *const in = (const uint32_t *)l.in + other * l.in_other;
    unsigned exist = 0;

    for (int chunk = -PLANE_ROWS, slot = 0; chunk < walk.m; chunk += PLANE_ROWS) {
        if (chunk >= 0) {
            uint32_t *const to = ring + (slot + warp * ROWS) * STRIP;
            __pipeline_wait_prior(0);
            __syncwarp();
            if (exist)
                x.make([=](int r, int j, const auto &e) {
#pragma unroll
                    for (int k = 0; k < (int)(sizeof e / sizeof *e); k++)
                        to[r * STRIP + j + k * LANES] = exist >> r & 1 ? e[k] : 0;
                });
            else
#pragma unroll 1
                for (int j = threadIdx.x % LANES; j < ROWS * STRIP; j += LANES)
                    to[j] = 0;
            slot = walk.next(slot, PLANE_ROWS);
        }
        exist = 0;
        for (int r = 0; r < ROWS; r++) {
            const int i = chunk + PLANE_ROWS + warp * ROWS + r, y = origin + i;
            if (i >= walk.m || y < l.from || y >= l.to)
                continue;
            exist |= 1u << r;
            x.load(r, 1, in + y * l.in_step, 0);
        }
        __pipeline_commit();
        if (chunk < 0)
            continue;
        __syncthreads(); /* one is enough: the ring has room for the next rows */
        walk.to(min(chunk + PLANE_ROWS, walk.m));
    }
}

/* Along x alone: a warp makes x_rows rows of a strip; blockIdx.x: groups of rows, blockIdx.y: the strip. */
template <int SIZE> __global__ void __launch_bounds__(STRIP) rows_kernel(line l, int scratch)
{
    extern __shared__ uint4 shared[];
    const int warp = threadIdx.x / LANES;
    const unsigned job = blockIdx.x * (STRIP / LANES) + warp, z = job / l.row_groups;
    const int y = (int)(job - z * l.row_groups) * l.x_rows, rows = min(l.x_rows, l.n - y);
    const int first = blockIdx.y * l.x_strip, words = l.words - first;
    if (z >= l.planes)
        return;
    const strip<SIZE> x(l, (uint32_t *)shared + warp * scratch, first * keys<SIZE>::IN_WORD);
    const uint32_t *const in = (const uint32_t *)l.in + z * l.in_other + y * l.in_step;
    uint32_t *const out = (uint32_t *)l.out + z * l.out_other + y * l.out_step + first;
    x.load(0, rows, in, l.in_step);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncwarp();
    x.make([&](int r, int j, const auto &e) {
        uint32_t *const to = out + (uint64_t)(uint32_t)r * (uint32_t)l.out_step + j;
#pragma unroll
        for (int k = 0; k < (int)(sizeof e / sizeof *e); k++)
            if (j + k * LANES < words && r < rows)
                to[k * LANES] = l.last ? from_keys<SIZE>(e[k], l.flip) : e[k];
    });
}

/* ---- samples alone ---- */

template <int SIZE> struct sample_of;
template <> struct sample_of<1> {
    typedef uint8_t type;
};
template <> struct sample_of<2> {
    typedef uint16_t type;
};
template <> struct sample_of<4> {
    typedef uint32_t type;
};

template <int SIZE> __device__ uint32_t one_key(uint32_t w)
{
    return SIZE == 1 ? w & 0xffu : SIZE == 2 ? w & 0xffffu : w;
}

/* ---- balls ----
 * A ball is its chords along x. A thread block walks along z with LANES words of BALL_ROWS rows: of each row
 * of a plane it makes the windows of all chords' lengths, the shorter ones first, from these the maxima over
 * the ball's cuts, and these go to the outputs that the plane is in reach of. Where shared memory cannot hold
 * the windows of all lengths it makes some of them at a time. */
enum {
    BALL_ROWS = 16, /* multiple of ROWS */
    BALL_DEEP = 8   /* from this reach along z on twice as many warps: few thread blocks have room (H100) */
};

struct ball_job {
    line l; /* in, out: first row of the first plane; in_step: to the next row, in_other: to the next plane */
    int3 reach;
    int in_ny, in_nz, y_shift, z_shift; /* rows, planes of the input; from its first to the output's */
    int ny;
    int slots, batches; /* half lengths 0, 1, ... at a time, and how often */
    const int4 *chord;  /* of each batch the first in `chord` and that behind the last; then the chords: |dz|,
                           |dy|,  slot, whether it is the last of its |dz| */
};

template <int SIZE, int WARPS> __global__ void __launch_bounds__(WARPS *LANES) ball_rows_kernel(ball_job j)
{
    enum { MINE = BALL_ROWS / WARPS, IN_WORD = keys<SIZE>::IN_WORD };
    extern __shared__ uint4 shared[];
    const line &l = j.l;
    const int lane = threadIdx.x % LANES, warp = threadIdx.x / LANES;
    const int rows = (BALL_ROWS + 2 * j.reach.y + ROWS - 1) / ROWS * ROWS, around = 2 * j.reach.z + 1;
    uint32_t *const raw = (uint32_t *)shared, *const windows = raw + rows * l.x_pitch + lane,
                    *const made =
                        windows + j.slots * rows * LANES + warp * MINE * LANES; /* [around][BALL_ROWS][LANES] */
    const strip<SIZE> x(l, raw, blockIdx.x * LANES * IN_WORD);
    const int word_of = blockIdx.x * LANES + lane, y0 = blockIdx.y * BALL_ROWS, z0 = blockIdx.z * l.segment;
    const int planes = min(l.segment, l.n - z0) + 2 * j.reach.z;
    const int in_y = y0 - j.reach.y + j.y_shift, in_z = z0 - j.reach.z + j.z_shift;
    uint32_t *out = (uint32_t *)l.out + z0 * l.out_other + (y0 + warp * MINE) * l.out_step + word_of;
    const int outputs = word_of < l.words ? min((int)MINE, j.ny - y0 - warp * MINE) : 0;
    const int middle = x.off + j.reach.x;

    const auto load = [&](int p) {
        const int z = in_z + p;
        if (p < planes && z >= 0 && z < j.in_nz)
            for (int r = warp * MINE; r < rows; r += WARPS * MINE)
                for (int q = r; q < r + MINE; q++)
                    if (in_y + q >= 0 && in_y + q < j.in_ny)
                        x.load(q, 1, (const uint32_t *)l.in + z * l.in_other + (in_y + q) * l.in_step, 0);
        __pipeline_commit();
    };

    for (int i = 0; i < around; i++)
        for (int q = 0; q < MINE; q++)
            made[(i * BALL_ROWS + q) * LANES] = 0;
    load(0);
    /* the output whose first plane is p is in slot p % around */
    for (int p = 0, last = 0; p < planes; p++, last = last + 1 == around ? 0 : last + 1) {
        const bool exists = in_z + p >= 0 && in_z + p < j.in_nz;
        __pipeline_wait_prior(0);
        __syncwarp();
        if (exists) {
            for (int r = warp * MINE; r < rows; r += WARPS * MINE)
                for (int i = lane; i < l.x_words; i += LANES) {
                    uint32_t *const w = raw + r * l.x_pitch + i, mask = x.inside(i), k[MINE];
#pragma unroll
                    for (int q = 0; q < MINE; q++)
                        k[q] = w[q * l.x_pitch];
#pragma unroll
                    for (int q = 0; q < MINE; q++) {
                        const int y = in_y + r + q;
                        w[q * l.x_pitch] = x.key(k[q], y >= 0 && y < j.in_ny ? mask : 0);
                    }
                }
            __syncwarp();
        }
        for (int b = 0; exists && b < j.batches; b++) {
            const int4 part = __ldg(j.chord + b);
            for (int r = warp * MINE; r < rows; r += WARPS * MINE) {
                keys<SIZE> best[MINE];
                uint32_t *const to = windows + r * LANES;
                if (b > 0) /* on from the longest before */
#pragma unroll
                    for (int q = 0; q < MINE; q++)
                        best[q] = keys<SIZE>(to[((j.slots - 1) * rows + q) * LANES]);
                for (int h = b * j.slots; h < min((b + 1) * j.slots, j.reach.x + 1); h++) {
                    const int o1 = middle - h, o2 = middle + h, w1 = o1 / IN_WORD, w2 = o2 / IN_WORD;
                    const uint32_t s1 = x.select_at(o1), s2 = x.select_at(o2);
#pragma unroll
                    for (int q = 0; q < MINE; q++) {
                        const uint32_t *const row = raw + (r + q) * l.x_pitch;
                        best[q].take(keys<SIZE>(x.keys_at(row, lane, w1, s1)),
                                     keys<SIZE>(x.keys_at(row, lane, w2, s2)));
                        to[((h - b * j.slots) * rows + q) * LANES] = best[q].word();
                    }
                }
            }
            __syncthreads();
            if (b == j.batches - 1)
                load(p + 1);
            keys<SIZE> cut[MINE];
            for (int e = part.x; e < part.y; e++) {
                const int4 t = __ldg(j.chord + e);
                const uint32_t *const w = windows + (t.z * rows + j.reach.y + warp * MINE) * LANES;
#pragma unroll
                for (int q = 0; q < MINE; q++)
                    cut[q].take(keys<SIZE>(w[(q - t.y) * LANES]), keys<SIZE>(w[(q + t.y) * LANES]));
                if (!t.w)
                    continue;
                int s = last - j.reach.z - t.x, u = last - j.reach.z + t.x;
                s += s < 0 ? around : 0;
                u += u < 0 ? around : 0;
                uint32_t *const a = made + s * BALL_ROWS * LANES, *const c = made + u * BALL_ROWS * LANES;
#pragma unroll
                for (int q = 0; q < MINE; q++) {
                    keys<SIZE> k(a[q * LANES]);
                    k.take(cut[q]);
                    a[q * LANES] = k.word();
                    if (t.x) {
                        keys<SIZE> n(c[q * LANES]);
                        n.take(cut[q]);
                        c[q * LANES] = n.word();
                    }
                    cut[q] = keys<SIZE>(0);
                }
            }
            __syncthreads();
        }
        if (!exists)
            load(p + 1);
        uint32_t *const ready = made + (last + 1 == around ? 0 : last + 1) * BALL_ROWS * LANES;
        for (int q = 0; q < MINE; q++) {
            if (p >= 2 * j.reach.z && q < outputs)
                out[q * l.out_step] = from_keys<SIZE>(ready[q * LANES], l.flip);
            ready[q * LANES] = 0;
        }
        if (p >= 2 * j.reach.z)
            out += l.out_other;
    }
}

/* Too large for that. */
template <int SIZE>
__global__ void __launch_bounds__(256)
    ball_kernel(vp_area in, vp_area out, const int4 *span, int spans, uint32_t flip)
{
    typedef typename sample_of<SIZE>::type sample_t;
    int64_t x, y;
    if (!vp_own_column(out.box, x, y))
        return;
    for (int64_t z = out.box.lo[2] + blockIdx.z; z < out.box.hi[2]; z += gridDim.z) {
        uint32_t best = 0;
        for (int s = 0; s < spans; s++) {
            const int4 e = span[s]; /* dz, dy, x0, x1 */
            if (z + e.x < in.box.lo[2] || z + e.x >= in.box.hi[2] || y + e.y < in.box.lo[1] || y + e.y >= in.box.hi[1])
                continue;
            const int64_t x0 = max(x + e.z, in.box.lo[0]);
            const int n = (int)(min(x + e.w, in.box.hi[0] - 1) - x0) + 1;
            const sample_t *const row = vp_at<sample_t>(in, x0, y + e.y, z + e.x);
            for (int i = 0; i < n; i++)
                best = max(best, one_key<SIZE>(to_keys<SIZE>(row[i], flip)));
        }
        *vp_at<sample_t>(out, x, y, z) = (sample_t)from_keys<SIZE>(best, flip);
    }
}

/* ---- host ---- */

const struct vp_extremum_params *params(const struct vp_local *op)
{
    return (const struct vp_extremum_params *)op->params;
}

bool has(const struct vp_local *op, char *why, size_t size)
{
    const struct vp_footprint *f = &params(op)->f;
    if (op->in != op->out || !(VP_EXTREMUM_TYPES & 1u << op->in)) {
        snprintf(why, size, "no kernel for %s", vp_type_name(op->in));
        return false;
    }
    for (int a = 0; a < 3 && f->shape == VP_BOX; a++)
        if (f->reach[a] > PASSES * PASS_RADIUS_MOST && op->image[a] > PASSES * PASS_RADIUS_MOST) {
            snprintf(why, size, "no kernel for a radius above %d", PASSES * PASS_RADIUS_MOST);
            return false;
        }
    return true;
}

int64_t row_samples(int64_t n, int bytes)
{
    const int64_t in_a_row = VP_ROW_ALIGN / bytes;
    return (n + in_a_row - 1) / in_a_row * in_a_row;
}

/* Two buffers, each large enough for what any pass leaves. */
uint64_t buffer_bytes(const struct vp_local *op, const int64_t in[3], const int64_t out[3])
{
    (void)out;
    const int bytes = (int)vp_type_size(op->in);
    const uint64_t n = (uint64_t)row_samples(in[0], bytes) * (uint64_t)in[1] * (uint64_t)in[2] * (uint64_t)bytes;
    return (n + VP_ALIGN - 1) / VP_ALIGN * VP_ALIGN;
}

uint64_t scratch(const struct vp_local *op, const int64_t in[3], const int64_t out[3])
{
    return params(op)->f.shape == VP_BOX ? 2 * buffer_bytes(op, in, out) : 0;
}

/* Words of shared memory for a ball with windows of `slots` lengths. */
size_t ball_words(const struct vp_footprint *f, int bytes, int64_t slots)
{
    const int64_t rows = vp_groups(BALL_ROWS + 2 * f->reach[1], ROWS) * ROWS, block = 16 / bytes;
    const int64_t pitch = LANES + 4 * vp_groups(2 * f->reach[0] + block, block) + 4;
    return (size_t)(rows * pitch + slots * rows * LANES + (2 * f->reach[2] + 1) * BALL_ROWS * LANES);
}

/* How many lengths at a time, 0 if the ball is too large: all, or some and then as many thread blocks on a
 * multiprocessor as can be. */
int ball_slots(const struct vp_footprint *f, int bytes)
{
    const size_t most = vp_shared_most(), wanted[3] = {SHARED_GPU / 4 - 1024, SHARED_GPU / 2 - 1024, most};
    const size_t none = ball_words(f, bytes, 0), one = ball_words(f, bytes, 1) - none;
    const int64_t all = f->reach[0] + 1;
    int64_t n = 0;
    for (int i = 0; i < 3 && n < (all < 4 ? all : 4); i++) {
        const size_t words = (wanted[i] < most ? wanted[i] : most) / sizeof(uint32_t);
        n = words < none ? 0 : (int64_t)((words - none) / one);
    }
    return (int)(n < all ? n : all);
}

/* The spans, and for each of the lengths that are made together the chords of it. */
uint64_t table(const struct vp_local *op)
{
    const struct vp_footprint *f = &params(op)->f;
    return f->shape == VP_BOX ? 0 : 2 * vp_spans_bytes(f) + (uint64_t)(f->reach[0] + 1) * sizeof(int4);
}

void fill(const struct vp_local *op, void *to)
{
    const struct vp_footprint *f = &params(op)->f;
    const int slots = f->shape == VP_BOX ? 0 : ball_slots(f, (int)vp_type_size(op->in));
    int4 *const chord = (int4 *)((char *)to + vp_spans_bytes(f));

    vp_spans_fill(f, to);
    if (slots == 0)
        return;
    const int batches = (int)vp_groups(f->reach[0] + 1, slots);
    int n = batches;
    for (int b = 0; b < batches; b++) {
        chord[b] = make_int4(n, n, 0, 0);
        for (int64_t i = 0; i < f->spans; i++) {
            const struct vp_span *s = &f->span[i];
            if (s->dz < 0 || s->dy < 0 || s->x1 / slots != b)
                continue;
            if (n > chord[b].x)
                chord[n - 1].w = chord[n - 1].x != s->dz;
            chord[n++] = make_int4(s->dz, s->dy, s->x1 % slots, 1);
        }
        chord[b].y = n;
    }
}

/* Outputs of a thread block: few thread blocks leave a device idle, many read the halo often. `at_once`:
 * thread blocks of a multiprocessor; `unit`: what it must be a multiple of. */
int choose_segment(int64_t n, int64_t lines, int radius, int64_t at_once, int sms, int unit)
{
    int64_t best = n;
    double cost = 1e30;

    for (int pieces = 1; pieces <= 16; pieces++) {
        const int64_t t = vp_groups(vp_groups(n, pieces), unit) * unit;
        const int64_t turns = vp_groups(lines * vp_groups(n, t), at_once * sms);
        /* half a unit more for getting started */
        const double c = (double)turns * ((double)t + 2 * radius + unit / 2);
        if (c < cost * .97) {
            best = t;
            cost = c;
        }
    }
    return (int)best;
}

int64_t blocks_at_once(size_t shared, int most)
{
    const int64_t n = (int64_t)(SHARED_GPU / (shared + 1024));
    return n < 1 ? 1 : n > most ? most : n;
}

struct setting {
    uint32_t flip;
    int sms;
    cudaStream_t stream;
    struct vp_err *err;
};

/* 0, 1 and 2: axes; PLANE: x and y together. */
enum { PLANE = 3 };
struct turn {
    int axis, radius, x_radius;
};

/* What a warp needs of a strip of l.x_strip words: sets l.x_words and l.x_pitch, returns words of shared
 * memory. */
template <int SIZE> int set_strip(line &l, int radius)
{
    const int block = 16 / SIZE;
    l.x_radius = radius;
    /* from the block of the sample before the first window to that of the last one's end */
    l.x_words = l.x_strip + 4 * (int)vp_groups(2 * radius + block, block);
    l.x_pitch = l.x_words + 4; /* a word more is read, in growing windows two */
    /* a word more is read behind the last block, too */
    return (l.x_rows * (2 * l.x_pitch + (radius >= block ? 3 * l.x_words / 4 : 0)) + 4) / 4 * 4;
}

int plane_slots(int radius)
{
    return (int)vp_groups(2 * radius, PLANE_ROWS) * PLANE_ROWS + 2 * PLANE_ROWS;
}

template <int SIZE> size_t plane_shared(line &l, const turn &t)
{
    l.x_strip = STRIP;
    l.x_rows = ROWS;
    const size_t warps = STRIP / LANES, words = set_strip<SIZE>(l, t.x_radius);
    return sizeof(uint32_t) * (STRIP * (size_t)plane_slots(t.radius) + warps * words);
}

/* Whether the windows are short enough for x and y together. */
template <int SIZE> bool plane_pays(const turn &t)
{
    line l = {};
    return t.x_radius * SIZE <= PLANE_REACH && plane_shared<SIZE>(l, t) <= PLANE_SHARED;
}

/* Bytes of shared memory for runs of N samples; sets l.slots. */
template <int N> size_t runs_shared(line &l, int warps)
{
    l.slots = 2 * l.radius / N + 1 + warps;
    return sizeof(uint32_t) * LANES * N * (size_t)(l.slots + 1);
}

template <int SIZE, int N> int runs_launch(const setting &s, line &l, int64_t others, int warps)
{
    const size_t shared = runs_shared<N>(l, warps);
    l.groups = (int)vp_groups(l.words, LANES);
    const int64_t lines = l.groups * others;
    const int64_t at_once = blocks_at_once(shared, N > RUN ? LONG_RUN_BLOCKS : RUN_BLOCKS);
    l.segment = choose_segment(l.n, lines, l.radius, at_once, s.sms, warps * N);
    const dim3 blocks((unsigned)lines, (unsigned)vp_groups(l.n, l.segment));
    return vp_start(s.err, s.stream, runs_kernel<SIZE, N>, blocks, dim3(warps * LANES), shared, l);
}

template <int SIZE> int runs_pass(const setting &s, line &l, int64_t others)
{
    if (l.radius >= LONG_RADIUS && runs_shared<LONG_RUN>(l, RUN_WARPS) <= SHARED_LEAST)
        return runs_launch<SIZE, LONG_RUN>(s, l, others, RUN_WARPS);
    const bool few = runs_shared<RUN>(l, RUN_WARPS) > SHARED_LEAST;
    return runs_launch<SIZE, RUN>(s, l, others, few ? RUN_WARPS / 2 : RUN_WARPS);
}

/* in and out differ in their extent along the pass's axis (or axes) only; along y and z also where their rows
 * begin in memory is alike. */
template <int SIZE>
int pass(const setting &s, const turn &t, const vp_area *in, const vp_area *out, bool first, bool last)
{
    const int64_t ny = vp_box_size(&out->box, 1), nz = vp_box_size(&out->box, 2);
    const int64_t per = keys<SIZE>::IN_WORD;
    const int64_t steps[3] = {0, in->pitch / per, in->plane / per},
                  out_steps[3] = {0, out->pitch / per, out->plane / per};
    const int axis = t.axis == 2 ? 2 : 1, other = 3 - axis;
    line l = {};

    l.from = (int)(in->box.lo[axis] - out->box.lo[axis]);
    l.to = (int)(in->box.hi[axis] - out->box.lo[axis]);
    l.n = (int)(out->box.hi[axis] - out->box.lo[axis]);
    l.radius = t.radius;
    l.flip = s.flip;
    l.first = first;
    l.last = last;
    l.in = (const char *)in->data - l.from * steps[axis] * (int64_t)sizeof(uint32_t);
    l.out = out->data;
    l.words = (int)vp_groups(vp_box_size(&out->box, 0), per);
    l.in_step = steps[axis];
    l.out_step = out_steps[axis];
    l.in_other = steps[other];
    l.out_other = out_steps[other];
    l.x_samples = (int)vp_box_size(&in->box, 0);
    l.x_shift = (int)(out->box.lo[0] - in->box.lo[0]);
    if (t.axis == PLANE) {
        const size_t shared = plane_shared<SIZE>(l, t);
        const int scratch = set_strip<SIZE>(l, t.x_radius);
        l.groups = (int)vp_groups(l.words, STRIP);
        l.slots = plane_slots(t.radius);
        l.segment =
            choose_segment(l.n, l.groups * nz, t.radius, blocks_at_once(shared, PLANE_BLOCKS), s.sms, PLANE_ROWS);
        const dim3 blocks((unsigned)(l.groups * nz), (unsigned)vp_groups(l.n, l.segment));
        return vp_start(s.err, s.stream, plane_kernel<SIZE>, blocks, dim3(STRIP), shared, l, scratch);
    }
    if (t.axis == 0) {
        l.x_strip = STRIP;
        l.x_rows = ROWS;
        if (t.x_radius >= 16 / SIZE) { /* longer rows, where there are: what lies around them is made as well */
            const int wide = t.x_radius * SIZE / 4 > l.words ? t.x_radius * SIZE / 4 : l.words;
            while (l.x_rows > 1 && l.x_strip < wide) {
                l.x_strip *= 2;
                l.x_rows /= 2;
            }
        }
        const int scratch = set_strip<SIZE>(l, t.x_radius);
        const size_t shared = sizeof(uint32_t) * (size_t)scratch * (STRIP / LANES);
        l.row_groups = (unsigned)vp_groups(ny, l.x_rows);
        l.planes = (unsigned)nz;
        const dim3 blocks((unsigned)vp_groups((int64_t)l.row_groups * nz, STRIP / LANES),
                          (unsigned)vp_groups(l.words, l.x_strip));
        return vp_start(s.err, s.stream, rows_kernel<SIZE>, blocks, dim3(STRIP), shared, l, scratch);
    }
    if (t.radius >= RUN / 2)
        return runs_pass<SIZE>(s, l, axis == 1 ? nz : ny);
    l.slots = (int)vp_groups(2 * t.radius, LANES) * LANES + LANES; /* whole chunks */
    const size_t shared = sizeof(uint32_t) * LANES * (size_t)l.slots;
    l.groups = (int)vp_groups(l.words, LANES);
    const int64_t lines = l.groups * (axis == 1 ? nz : ny);
    l.segment = choose_segment(l.n, lines, t.radius, blocks_at_once(shared, LINE_BLOCKS), s.sms, LANES);
    const dim3 blocks((unsigned)lines, (unsigned)vp_groups(l.n, l.segment));
    return vp_start(s.err, s.stream, lines_kernel<SIZE>, blocks, dim3(LANES), shared, l);
}

template <int SIZE> int box(const setting &s, const struct vp_local *op, const struct vp_work *args)
{
    const struct vp_footprint *f = &params(op)->f;
    const int samples = VP_ROW_ALIGN / SIZE;
    turn turns[3 * PASSES];
    int64_t left[3], buffer = 0;
    int n = 0;
    vp_area from = args->in[0];
    struct vp_box need = args->out->box;

    for (int a = 0; a < 3; a++) {
        /* a window longer than the image sees no more than the image */
        const int64_t size = vp_box_size(&from.box, a);
        left[a] = f->reach[a] < size ? f->reach[a] : size;
        need.lo[a] = need.lo[a] - left[a] > from.box.lo[a] ? need.lo[a] - left[a] : from.box.lo[a];
        need.hi[a] = need.hi[a] + left[a] < from.box.hi[a] ? need.hi[a] + left[a] : from.box.hi[a];
    }
    /* x is left out only where words of the input's rows are words of the output's */
    const bool skip_x =
        left[0] == 0 && left[1] + left[2] > 0 && (need.lo[0] - from.box.lo[0]) % keys<SIZE>::IN_WORD == 0;
    if (!skip_x) {
        need.lo[0] = from.box.lo[0]; /* rows begin where words do */
        need.hi[0] = from.box.hi[0];
    }
    const turn plane = {PLANE, (int)left[1], (int)left[0]};
    const bool together =
        !skip_x && left[1] > 0 && left[0] <= PASS_RADIUS && left[1] <= PASS_RADIUS && plane_pays<SIZE>(plane);
    if (together)
        turns[n++] = plane;
    for (int a = together ? 2 : 0; a < 3; a++) {
        int64_t r = left[a];
        const int64_t most = r > PASS_RADIUS * PASSES ? (r + PASSES - 1) / PASSES : (int64_t)PASS_RADIUS;
        for (bool once = a == 0 && !skip_x; r > 0 || once; once = false) {
            const int radius = (int)(r < most ? r : most);
            turns[n++] = {a, radius, radius};
            r -= radius;
        }
    }
    /* only what is needed of the input */
    from.data = (char *)from.data + ((need.lo[2] - from.box.lo[2]) * from.plane +
                                     (need.lo[1] - from.box.lo[1]) * from.pitch + (need.lo[0] - from.box.lo[0])) *
                                        SIZE;
    from.box = need;
    for (int a = 0; a < 3; a++)
        buffer = a ? buffer * vp_box_size(&need, a) : vp_groups(vp_box_size(&need, 0), samples) * samples;
    buffer = vp_groups(buffer * SIZE, VP_ALIGN) * VP_ALIGN;
    for (int i = 0; i < n; i++) {
        const turn &t = turns[i];
        vp_area to;
        to.box = from.box;
        for (int a = 0; a < 3; a++) {
            const bool along = t.axis == a || (t.axis == PLANE && a < 2);
            if (!along)
                continue;
            left[a] -= t.axis == PLANE && a == 0 ? t.x_radius : t.radius;
            /* what later turns along this axis need */
            to.box.lo[a] = args->out->box.lo[a] - left[a] > need.lo[a] ? args->out->box.lo[a] - left[a] : need.lo[a];
            to.box.hi[a] = args->out->box.hi[a] + left[a] < need.hi[a] ? args->out->box.hi[a] + left[a] : need.hi[a];
        }
        if (i == n - 1) {
            to = *args->out;
        } else {
            to.pitch = vp_groups(vp_box_size(&to.box, 0), samples) * samples;
            to.plane = to.pitch * (to.box.hi[1] - to.box.lo[1]);
            to.data = (char *)args->scratch + (i & 1) * buffer;
        }
        if (pass<SIZE>(s, t, &from, &to, i == 0, i == n - 1))
            return -1;
        from = to;
    }
    return 0;
}

template <int SIZE> int ball(const setting &s, const struct vp_local *op, const struct vp_work *args)
{
    const struct vp_footprint *f = &params(op)->f;
    const vp_area &in = args->in[0], &out = *args->out;
    const int64_t per = keys<SIZE>::IN_WORD;
    ball_job j = {};

    j.slots = ball_slots(f, SIZE);
    if (j.slots == 0) {
        const vp_grid_of g(out.box);
        return vp_start(s.err, s.stream, ball_kernel<SIZE>, g.grid, g.threads, 0, in, out, (const int4 *)args->table,
                        (int)f->spans, s.flip);
    }
    const size_t shared = sizeof(uint32_t) * ball_words(f, SIZE, j.slots);
    line &l = j.l;
    l.in = in.data;
    l.out = out.data;
    l.in_step = in.pitch / per;
    l.in_other = in.plane / per;
    l.out_step = out.pitch / per;
    l.out_other = out.plane / per;
    l.n = (int)vp_box_size(&out.box, 2);
    l.words = (int)vp_groups(vp_box_size(&out.box, 0), per);
    l.flip = s.flip;
    l.first = l.last = true;
    l.x_strip = LANES;
    set_strip<SIZE>(l, (int)f->reach[0]);
    l.x_samples = (int)vp_box_size(&in.box, 0);
    l.x_shift = (int)(out.box.lo[0] - in.box.lo[0]);
    j.reach = make_int3((int)f->reach[0], (int)f->reach[1], (int)f->reach[2]);
    j.in_ny = (int)vp_box_size(&in.box, 1);
    j.in_nz = (int)vp_box_size(&in.box, 2);
    j.y_shift = (int)(out.box.lo[1] - in.box.lo[1]);
    j.z_shift = (int)(out.box.lo[2] - in.box.lo[2]);
    j.ny = (int)vp_box_size(&out.box, 1);
    j.batches = (int)vp_groups(f->reach[0] + 1, j.slots);
    j.chord = (const int4 *)((const char *)args->table + vp_spans_bytes(f));
    const int64_t strips = vp_groups(l.words, LANES), tiles = vp_groups(j.ny, BALL_ROWS);
    l.segment = choose_segment(l.n, strips * tiles, j.reach.z, blocks_at_once(shared, PLANE_BLOCKS), s.sms, 1);
    const dim3 grid((unsigned)strips, (unsigned)tiles, (unsigned)vp_groups(l.n, l.segment));
    const bool deep = j.reach.z >= BALL_DEEP;
    return vp_start(s.err, s.stream, deep ? ball_rows_kernel<SIZE, 8> : ball_rows_kernel<SIZE, 4>, grid,
                    dim3((deep ? 8 : 4) * LANES), shared, j);
}

template <int SIZE> int shape(const struct vp_local *op, const struct vp_work *args, struct vp_err *err)
{
    const uint32_t flip = (params(op)->max ? 0u : 0xffffffffu) ^ (op->in == VP_I16 ? 0x80008000u : 0u);
    const setting s = {flip, args->queue->sms, args->queue->stream, err};
    return params(op)->f.shape == VP_BOX ? box<SIZE>(s, op, args) : ball<SIZE>(s, op, args);
}

int launch(const struct vp_local *op, const struct vp_work *args, struct vp_err *err)
{
    switch (op->in) {
    case VP_U8: return shape<1>(op, args, err);
    case VP_U16:
    case VP_I16: return shape<2>(op, args, err);
    default: return shape<4>(op, args, err);
    }
}

} // namespace

const struct vp_kernel vp_gpu_min = {"min", has, scratch, table, fill, launch};
const struct vp_kernel vp_gpu_max = {"max", has, scratch, table, fill, launch};
