/* SPDX-License-Identifier: BSD-3-Clause */
/* Maxima of windows along x, by one warp for some rows of a strip.
 *
 * Overview: short windows are grown by overlapping: a window of 3 a samples is three of a. Long windows: a block is the
 *   16 bytes of a lane; a window is a suffix, whole blocks and a prefix.
 * Registers: a block or, for short windows, one word of ROWS rows.
 * Shared memory: the rows as loaded (raw) and as processed (aside); for long windows three words for each block.
 * Cost: short windows take at most three rounds; long ones a suffix and a prefix maximum for each sample, while the
 *   maxima of whole blocks grow fourfold in each round.
 * Limits: shared memory for x_rows rows of x_strip words and the window's length. */
#pragma once

#include "extremum.cuh"

namespace
{

/* Returns running maxima of a word's keys with all keys after (SUFFIX) or before it in a block of 4 words. `carry`
 * holds the maximum of the words so far in every key, and is updated. */
template <int SIZE, bool SUFFIX> __device__ __forceinline__ uint32_t running(uint32_t w, uint32_t &carry)
{
    const auto shifted = [](uint32_t v, int bits) { return SUFFIX ? v >> bits : v << bits; };
    if constexpr (SIZE == 4)
        return carry = max(w, carry);
    if constexpr (SIZE == 2) {
        const uint32_t s = __vimax3_u16x2(w, shifted(w, 16), carry);
        carry = __byte_perm(s, s, SUFFIX ? 0x1010 : 0x3232);
        return s;
    }
    if constexpr (SPLIT) {
        const uint32_t even = w << 8, both = __vmaxu2(w, even), next = shifted(both, 16);
        const uint32_t e = __vimax3_u16x2(SUFFIX ? both : even, next, carry);
        const uint32_t o = __vimax3_u16x2(SUFFIX ? w : both, next, carry);
        carry = SUFFIX ? __byte_perm(e, e, 0x1111) : __byte_perm(o, o, 0x3333);
        return __byte_perm(e, o, 0x7351);
    }
    const uint32_t t = __vmaxu4(w, shifted(w, 8)), s = __vmaxu4(__vmaxu4(t, shifted(t, 16)), carry);
    carry = __byte_perm(s, s, SUFFIX ? 0 : 0x3333);
    return s;
}

/* Rows of a strip in shared memory, processed by one warp. */
template <int SIZE> struct strip {
    enum { IN_WORD = keys<SIZE>::IN_WORD, BLOCK = 4 * IN_WORD };
    const extremum_line &l;
    uint32_t *const raw, *const aside; /* x_rows * x_pitch words each */
    uint32_t *const most;              /* maxima of blocks, 3 buffers of a word for each block */
    const int lane, blocks;
    int base; /* block of the input row at which the strip begins */
    int off;  /* sample of the strip at which the first output's window begins, 1 or more */

    /* `first`: sample index of the strip's first output */
    __device__ strip(const extremum_line &line_, uint32_t *mine, int first)
        : l(line_), raw(mine), aside(mine + line_.x_rows * line_.x_pitch),
          most(mine + 2 * line_.x_rows * line_.x_pitch), lane(threadIdx.x % LANES), blocks(line_.x_words / 4)
    {
        const int a = first + l.x_shift - l.x_radius - 1;
        base = a >= 0 ? a / BLOCK : -((BLOCK - 1 - a) / BLOCK);
        off = a + 1 - base * BLOCK;
    }

    /* Issues asynchronous copies of n rows. */
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

    /* Returns the mask of the bytes of word j that are inside the image. */
    __device__ __forceinline__ uint32_t inside(int j) const
    {
        const int at = base * BLOCK + j * IN_WORD, left = l.x_samples - at;
        return at < 0 || left <= 0 ? 0 : left < IN_WORD ? (1u << (8 * SIZE * (left % IN_WORD))) - 1 : 0xffffffffu;
    }
    __device__ __forceinline__ uint32_t key(uint32_t w, uint32_t mask) const
    {
        return (l.first ? to_keys<SIZE>(w, l.flip) : w) & mask;
    }

    /* Returns word j of the keys from sample o of a row on: `word` is o's word, `select` is select_at(o). */
    __device__ __forceinline__ uint32_t keys_at(const uint32_t *row, int j, int word, uint32_t select) const
    {
        return IN_WORD == 1 ? row[j + word] : __byte_perm(row[j + word], row[j + word + 1], select);
    }
    __device__ __forceinline__ static uint32_t select_at(int o) { return 0x3210u + 0x1111u * (o % IN_WORD * SIZE); }

    /* Returns windows of a = IN_WORD or 2 samples from the keys of two words. */
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

    /* Computes short windows of ROWS rows. */
    template <class F> __device__ __forceinline__ void grow(const F &emit) const
    {
        const int w = 2 * l.x_radius + 1;
        int a = w >= IN_WORD ? (int)IN_WORD : w == 1 ? 1 : 2;
        /* windows of a samples from each sample on; of split bytes: from the one after it on */
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

    /* Calls f(block, its index in raw and aside, its index in `most`) for blocks [from, to) of all x_rows rows, which
     * are 1, 2 or 4. */
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

    /* Computes long windows, which contain `whole` or whole + 1 whole blocks. The suffix maxima include the `whole`
     * blocks after them, the prefix maxima the block before them. */
    template <class F> __device__ __forceinline__ void join(const F &emit) const
    {
        const int w = 2 * l.x_radius + 1, whole = (w - 1) / BLOCK - 1, n = l.x_rows * blocks;
        /* blocks inside the image */
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
            for (int i = lane; i < n - s3; i += LANES) /* values at the end of a row are not needed */
                to[i] = __vimax3_u32(max(from[i], from[i + s1]), from[i + s2], from[i + s3]);
            __syncwarp();
            from = to;
            to = to == most + n ? to + n : most + n;
            a = more;
        }
        /* no window begins after the image, and none ends before it */
        each_block(0, lo, [&](int, int place, int i) {
            const uint32_t after = from[i + 1];
            ((uint4 *)raw)[place] = make_uint4(after, after, after, after);
        });
        each_block(hi, blocks, [&](int, int place, int i) {
            const uint32_t before = most[i - 1];
            ((uint4 *)aside)[place] = make_uint4(before, before, before, before);
        });
        each_block(lo, hi, [&](int, int place, int i) {
            uint4 *const at = (uint4 *)raw + place;
            const uint4 k = *at;
            uint32_t after = from[i + 1], before = most[i - 1]; /* unused in the last and the first block */
            const uint32_t s3 = running<SIZE, true>(k.w, after), s2 = running<SIZE, true>(k.z, after),
                           s1 = running<SIZE, true>(k.y, after), s0 = running<SIZE, true>(k.x, after);
            *at = make_uint4(s0, s1, s2, s3);
            const uint32_t p0 = running<SIZE, false>(k.x, before), p1 = running<SIZE, false>(k.y, before),
                           p2 = running<SIZE, false>(k.z, before), p3 = running<SIZE, false>(k.w, before);
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

    /* Computes windows of loaded rows and calls emit(row, word j, keys of words j, j + LANES, ...). The rows may be
     * reloaded afterwards. */
    template <class F> __device__ __forceinline__ void make(const F &emit) const
    {
        if (l.x_radius >= BLOCK)
            join(emit);
        else
            grow(emit);
        __syncwarp();
    }
};

}
