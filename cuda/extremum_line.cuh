/* SPDX-License-Identifier: BSD-3-Clause */
/* Maxima of windows along y and z by the algorithm of van Herk (1992) and Gil and Werman (1993): the line is cut into
 * blocks of the window's length; a window is the end of one block and the beginning of the next, so its maximum is that
 * of a suffix maximum and a prefix maximum. A lane walks down a column of words, with a ring in shared memory that
 * holds little more than a window. */
#pragma once

#include "extremum.cuh"

namespace
{

enum {
    BATCH = 8,          /* samples processed together */
    SMALL = 4,          /* up to this radius windows are computed directly from their samples */
    LINE_BLOCKS = 20,   /* resident thread blocks of a multiprocessor, at most */
    RUN = 16,           /* samples of a run, for long windows (runs_kernel) */
    LONG_RUN = 32,      /* samples of a run from radius LONG_RADIUS on */
    LONG_RADIUS = 88,   /* as measured (H100) */
    RUN_WARPS = 8,      /* warps of a thread block of runs_kernel */
    RUN_BLOCKS = 4,     /* resident thread blocks of a multiprocessor, by registers, for RUN */
    LONG_RUN_BLOCKS = 3 /* and for LONG_RUN */
};

/* Stores the windows that samples i, i + 1, ... complete, those in [lo, hi), `step` words apart. */
template <int N>
__device__ __forceinline__ void store_windows(uint32_t *out, int64_t step, const uint32_t (&e)[N], int i, int lo,
                                              int hi)
{
    if (i >= lo && i + N <= hi) {
#pragma unroll
        for (int k = 0; k < N; k++, out += step)
            *out = e[k];
    } else {
#pragma unroll
        for (int k = 0; k < N; k++, out += step)
            if (i + k >= lo && i + k < hi)
                *out = e[k];
    }
}

/* ---- blocks of the window's length ----
 *
 * Sample i is in slot i % slots of the ring, and completes the window of output i - 2 radius. When a block is complete
 * its samples are replaced by suffix maxima.
 * Registers: the prefix maximum; for small windows the 2 SMALL samples before the next one.
 * Shared memory: the ring, `slots` words of keys a lane (2 radius and a chunk), STEP words from one slot to the next.
 * Cost: three comparisons a voxel for any radius; R three-way maxima for radii R up to SMALL.
 * Limits: shared memory for the ring. */
template <int SIZE, int STEP> struct line_walker {
    const extremum_line &l;
    uint32_t *const own; /* slot 0 of this lane */
    uint32_t *out;       /* next output */
    const int w, m;      /* length of a window, samples */
    const bool active;   /* the lane has outputs */
    int i = 0;           /* next sample */
    int place = 0;       /* its position in its block */
    int slot = 0;        /* its slot */
    int suffix = 0;      /* slot of sample i - w + 1 */
    keys<SIZE> best;
    uint32_t before[2 * SMALL] = {}; /* small windows: the samples before i */

    __device__ line_walker(const extremum_line &line_, uint32_t *own_, uint32_t *out_, int count, bool active_)
        : l(line_), own(own_), out(out_), w(2 * line_.radius + 1), m(count + 2 * line_.radius), active(active_)
    {
        if (l.radius <= SMALL) /* the (virtual) output of sample 0 */
            out -= 2 * l.radius * l.out_step;
    }

    __device__ __forceinline__ int next(int s, int n) const /* n <= slots */
    {
        s += n;
        return s >= l.slots ? s - l.slots : s;
    }
    __device__ __forceinline__ uint32_t *at(int s) const { return own + s * STEP; }

    /* Converts keys of windows to samples in the last pass. */
    template <int N> __device__ __forceinline__ void finish(uint32_t (&e)[N]) const
    {
        if (l.last)
#pragma unroll
            for (int k = 0; k < N; k++)
                e[k] = from_keys<SIZE>(e[k], l.flip);
    }

    /* Computes windows of 2 R + 1 samples directly. */
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
            if (active)
                store_windows(out, l.out_step, e, i, 2 * R, m);
        }
    }

    /* Completes N windows from samples and the suffix maxima one window before. */
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
        if (active)
#pragma unroll
            for (int k = 0; k < N; k++)
                out[k * l.out_step] = e[k];
        out += N * l.out_step;
    }

    /* Replaces the n samples up to `from` by suffix maxima. */
    __device__ __forceinline__ void make_suffixes(uint32_t *from, int n)
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
                /* the block is complete: its first suffix maximum is that of a window */
                best = keys<SIZE>(0);
                const int here = min(w, slot + 1);
                make_suffixes(at(slot), here);
                make_suffixes(at(l.slots - 1), w - here);
                uint32_t e[1] = {best.word()};
                finish(e);
                if (active)
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
            if (i < w - 1) { /* the first block has no window to complete yet */
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

    /* Processes samples up to `end`, which are in the ring. Up to a batch beyond sample m - 1 is read and ignored. */
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

/* A thread block is one warp; blockIdx.x selects the lines, blockIdx.y the segment. The next LANES samples are
 * prefetched into registers while the previous ones are processed. */
template <int SIZE> __global__ void __launch_bounds__(LANES) lines_kernel(extremum_line l)
{
    extern __shared__ uint4 shared[];
    uint32_t *const own = (uint32_t *)shared + threadIdx.x;
    const int start = blockIdx.y * l.segment, count = min(l.segment, l.n - start);
    const int word_of = blockIdx.x % l.groups * LANES + threadIdx.x, other = blockIdx.x / l.groups;
    const bool active = word_of < l.words;
    const uint32_t *from = (const uint32_t *)l.in + other * l.in_other + word_of + (start - l.radius) * l.in_step;
    line_walker<SIZE, LANES> walk(l, own, (uint32_t *)l.out + other * l.out_other + word_of + start * l.out_step, count,
                                  active);
    /* samples that exist */
    const int lo = active ? max(0, l.from - (start - l.radius)) : walk.m, hi = min(walk.m, l.to - (start - l.radius));
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

/* ---- runs ----
 *
 * Blocks shorter than the window ("runs"): a window is a suffix, whole runs and a prefix. All warps share one ring, so
 * more of them fit than with a ring of a whole window for each. With 2 radius = whole N + rest, the window that ends at
 * sample k of a run begins at sample k - rest of the run `whole` runs earlier, or if k < rest at sample k - rest + N of
 * the one before that.
 * Mapping: the warps of a thread block have consecutive runs of the same columns and advance together.
 * Registers: a run of N samples.
 * Shared memory: a ring of the suffix maxima of runs; the first of a run is its maximum.
 * Cost: three comparisons a voxel, and `whole` / 2 a lane for each run.
 * Limits: 2 radius / N + 1 + warps runs in shared memory. */
template <int SIZE, int N>
__global__ void __launch_bounds__(RUN_WARPS *LANES, N > RUN ? LONG_RUN_BLOCKS : RUN_BLOCKS) runs_kernel(extremum_line l)
{
    extern __shared__ uint4 shared[];
    const int lane = threadIdx.x % LANES, warp = threadIdx.x / LANES, warps = blockDim.x / LANES;
    const int start = blockIdx.y * l.segment, count = min(l.segment, l.n - start), origin = start - l.radius;
    const int reach = 2 * l.radius, m = count + reach, whole = reach / N, rest = reach % N;
    const int word_of = blockIdx.x % l.groups * LANES + lane, other = blockIdx.x / l.groups;
    const bool active = word_of < l.words; /* other lanes read the last word */
    /* samples that exist */
    const int lo = max(0, l.from - origin), hi = min(m, l.to - origin);
    /* slot 0; a copy of the last slot precedes it, so that the suffix maxima for a run are contiguous */
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
            if (rest > 0) /* the first `rest` windows contain that run, too */
                middle.take(keys<SIZE>(*first));
#pragma unroll
            for (int k = 0; k < N; k++) {
                if (k > 0 && k % 2 == 0 && k == rest) /* rest is even */
                    middle = others;
                prefix.take(keys<SIZE>(v[k]));
                keys<SIZE> a(prefix);
                a.take(keys<SIZE>(suffix[k * LANES]), middle);
                v[k] = l.last ? from_keys<SIZE>(a.word(), l.flip) : a.word();
            }
            if (active)
                store_windows(out, l.out_step, v, i, reach, m);
        }
        from += warps * N * l.in_step;
        out += warps * N * l.out_step;
        slot += warps;
        slot -= slot >= l.slots ? l.slots : 0;
        __syncthreads(); /* the next suffix maxima overwrite some of these */
    }
}

}
