/* SPDX-License-Identifier: BSD-3-Clause */
/* Minimum and maximum over a box or ball: kernels "min" and "max" of ops/extremum.h.
 *
 * A box is three passes along x, y and z, each by van Herk (1992) and Gil and Werman (1993): the line is cut
 * into blocks of the window's length; a window is the end of one block and the beginning of the next, so the
 * maximum of it is that of a suffix and of a prefix, and a voxel costs three comparisons whatever the radius.
 * A warp walks along 32 lines at a time, with a ring of shared memory that holds little more than a window of
 * each: a sample is replaced by its suffix when its block is complete, and along x by the result, which waits
 * there to be written with its neighbours. Warps need nobody, so that those that load and those that compare
 * share a multiprocessor well.
 *
 * Everything is a maximum of unsigned keys: floats become keys in the order of the numbers (with NaN below
 * all and -0 below +0), a minimum is a maximum of the complements. Voxels outside the image are the key 0,
 * which changes nothing. A 32-bit word holds 4, 2 or 1 keys of as many lines: neighbours in x along y and z,
 * neighbouring rows along x. */
#include "footprint.cuh"
#include "ops/extremum.h"

#include <cstdio>

namespace
{

enum {
    LANES = 32,
    SHARED_GPU = 227 << 10, /* that the thread blocks of a multiprocessor share, */
    MOST_BLOCKS = 20,       /* of which there are at most so many (registers) */
    BATCH = 8,              /* samples looked at together */
    PASS_RADIUS = 256,      /* longer windows are made in turns, a window of windows, */
    PASSES = 64,            /* at most so many */
    PASS_RADIUS_MOST =
        340 /* and then of these: what 99 KiB of shared memory can hold, which all devices have */
};

/* ---- keys ---- */

template <int SIZE> struct word; /* keys of SIZE bytes in a word */
template <> struct word<1> {
    enum { KEYS = 4 };
    static __device__ uint32_t max(uint32_t a, uint32_t b) { return __vmaxu4(a, b); }
};
template <> struct word<2> {
    enum { KEYS = 2 };
    static __device__ uint32_t max(uint32_t a, uint32_t b) { return __vmaxu2(a, b); }
};
template <> struct word<4> {
    enum { KEYS = 1 };
    static __device__ uint32_t max(uint32_t a, uint32_t b) { return a > b ? a : b; }
};

/* Words of samples <-> words of keys. `flip` is the complement for minima. */
enum kind { UNSIGNED, SIGNED16, REAL };

template <int KIND> __device__ uint32_t to_keys(uint32_t w, uint32_t flip)
{
    if (KIND == SIGNED16)
        return (w ^ 0x80008000u) ^ flip;
    if (KIND == REAL) {
        const uint32_t k = (w ^ ((uint32_t)((int32_t)w >> 31) | 0x80000000u)) ^ flip;
        return (w & 0x7fffffffu) > 0x7f800000u ? 0 : k; /* NaN: below all, also of the complements */
    }
    return w ^ flip;
}

template <int KIND> __device__ uint32_t from_keys(uint32_t k, uint32_t flip)
{
    if (KIND == SIGNED16)
        return (k ^ flip) ^ 0x80008000u;
    if (KIND == REAL) {
        const uint32_t f = k ^ flip, w = f ^ ((uint32_t)((int32_t)~f >> 31) | 0x80000000u);
        return k == 0 ? 0x7fc00000u : w;
    }
    return k ^ flip;
}

/* One pass along an axis. Positions along the line are counted from the first output. */
struct line {
    const void *in; /* position 0 of the first line */
    void *out;
    int64_t in_step, out_step; /* y, z: words from one position to the next */
    int from, to;              /* there is input at from <= position < to */
    int n;                     /* outputs */
    int radius;
    int segment; /* outputs that one thread block makes */
    int slots;   /* of the ring */
    uint32_t flip;
    bool first, last; /* samples come in, go out (else keys) */
    /* y, z: words of a row, thread blocks for these, words from one row of lines to the next */
    int words, groups;
    int64_t in_other, out_other;
    /* x: rows, those of a plane, samples from one to the next */
    int64_t rows, ny, in_pitch, in_plane, out_pitch, out_plane;
};

/* The ring: slot s of every lane's line. Sample i is in slot i % slots. */
template <bool X> struct ring {
    enum { STEP = X ? LANES + 1 : LANES };
    uint32_t *own; /* slot 0 of this lane */
    int slots;
    __device__ int next(int slot, int n) const /* n <= slots */
    {
        slot += n;
        return slot >= slots ? slot - slots : slot;
    }
    __device__ uint32_t *at(int slot) const { return own + slot * STEP; }
};

/* N samples and what became of those a window before them. */
template <int SIZE, int KIND, bool X, int N, bool EMIT>
__device__ __forceinline__ void some(const line &l, const uint32_t *sample, uint32_t *suffix, uint32_t &best,
                                     uint32_t *&out, bool there)
{
    enum { STEP = ring<X>::STEP };
    uint32_t v[N], e[N];
#pragma unroll
    for (int k = 0; k < N; k++) {
        v[k] = sample[k * STEP];
        if (EMIT)
            e[k] = suffix[k * STEP];
    }
#pragma unroll
    for (int k = 0; k < N; k++) {
        best = word<SIZE>::max(best, v[k]);
        if (EMIT)
            e[k] = word<SIZE>::max(best, e[k]);
    }
    if (EMIT && X) {
#pragma unroll
        for (int k = 0; k < N; k++)
            suffix[k * STEP] = e[k];
    }
    if (EMIT && !X) {
        if (l.last)
#pragma unroll
            for (int k = 0; k < N; k++)
                e[k] = from_keys<KIND>(e[k], l.flip);
        if (there)
#pragma unroll
            for (int k = 0; k < N; k++)
                out[k * l.out_step] = e[k];
        out += N * l.out_step;
    }
}

template <int SIZE, int KIND, bool X, bool EMIT>
__device__ __forceinline__ void run(const line &l, int n, const uint32_t *sample, uint32_t *suffix,
                                    uint32_t &best, uint32_t *&out, bool there)
{
    enum { STEP = ring<X>::STEP };
    for (; n >= BATCH; n -= BATCH, sample += BATCH * STEP, suffix += BATCH * STEP)
        some<SIZE, KIND, X, BATCH, EMIT>(l, sample, suffix, best, out, there);
    for (; n >= 2; n -= 2, sample += 2 * STEP, suffix += 2 * STEP)
        some<SIZE, KIND, X, 2, EMIT>(l, sample, suffix, best, out, there);
    if (n)
        some<SIZE, KIND, X, 1, EMIT>(l, sample, suffix, best, out, there);
}

/* n samples before and at `at` become suffixes. */
template <int SIZE, int STEP> __device__ __forceinline__ void turn_back(uint32_t *at, int n, uint32_t &best)
{
    for (; n >= BATCH; n -= BATCH, at -= BATCH * STEP) {
        uint32_t v[BATCH];
#pragma unroll
        for (int k = 0; k < BATCH; k++)
            v[k] = at[-k * STEP];
#pragma unroll
        for (int k = 0; k < BATCH; k++) {
            best = word<SIZE>::max(best, v[k]);
            at[-k * STEP] = best;
        }
    }
    for (; n > 0; n--, at -= STEP)
        *at = best = word<SIZE>::max(best, *at);
}

/* ---- words of rows into words of positions, and back ----
 * Of 4 rows of u8 (2 of 16 bits) the words at one place become the words of 4 (2) positions with a key of
 * each row. */
template <int SIZE> __device__ __forceinline__ void transpose(uint32_t (&w)[word<SIZE>::KEYS]);
template <> __device__ __forceinline__ void transpose<4>(uint32_t (&)[1]) {}
template <> __device__ __forceinline__ void transpose<2>(uint32_t (&w)[2])
{
    const uint32_t lo = __byte_perm(w[0], w[1], 0x5410), hi = __byte_perm(w[0], w[1], 0x7632);
    w[0] = lo;
    w[1] = hi;
}
template <> __device__ __forceinline__ void transpose<1>(uint32_t (&w)[4])
{
    const uint32_t a = __byte_perm(w[0], w[1], 0x5140), b = __byte_perm(w[2], w[3], 0x5140);
    const uint32_t c = __byte_perm(w[0], w[1], 0x7362), d = __byte_perm(w[2], w[3], 0x7362);
    w[0] = __byte_perm(a, b, 0x5410);
    w[1] = __byte_perm(a, b, 0x7632);
    w[2] = __byte_perm(c, d, 0x5410);
    w[3] = __byte_perm(c, d, 0x7632);
}

/* A chunk is LANES positions of LANES groups of KEYS rows. A lane takes one word of a row: KEYS positions,
 * KEYS groups beside one another and all words of a chunk's rows make a warp, which then never meets in a
 * bank of the ring. */
template <int SIZE> __device__ __forceinline__ int word_of_lane()
{
    return threadIdx.x % (LANES / word<SIZE>::KEYS);
}
template <int SIZE> __device__ __forceinline__ int group_of_lane(int turn)
{
    return turn * word<SIZE>::KEYS + threadIdx.x / (LANES / word<SIZE>::KEYS);
}

/* Positions at ... at + LANES - 1 of all rows. */
template <int SIZE>
__device__ __forceinline__ void load_rows(const line &l, const int64_t *row, int at, uint32_t (&w)[LANES])
{
    enum { KEYS = word<SIZE>::KEYS };
    const int p = at + word_of_lane<SIZE>() * KEYS;
    const bool there = p >= l.from && p < l.to;
    const char *const from = (const char *)l.in + (int64_t)p * SIZE;
#pragma unroll
    for (int t = 0; t < LANES / KEYS; t++)
#pragma unroll
        for (int k = 0; k < KEYS; k++) {
            const int64_t offset = row[group_of_lane<SIZE>(t) * KEYS + k];
            w[t * KEYS + k] = there && offset >= 0 ? __ldg((const uint32_t *)(from + offset)) : 0;
        }
}

/* And as keys into the ring from `slot` on. */
template <int SIZE, int KIND>
__device__ __forceinline__ void keep_rows(const line &l, uint32_t *ring_from, int at,
                                          const uint32_t (&w)[LANES])
{
    enum { KEYS = word<SIZE>::KEYS, STEP = ring<true>::STEP };
    const int first = word_of_lane<SIZE>() * KEYS;
#pragma unroll
    for (int t = 0; t < LANES / KEYS; t++) {
        uint32_t v[KEYS];
#pragma unroll
        for (int k = 0; k < KEYS; k++)
            v[k] = w[t * KEYS + k];
        transpose<SIZE>(v);
#pragma unroll
        for (int k = 0; k < KEYS; k++) {
            const int p = at + first + k;
            const uint32_t key = l.first ? to_keys<KIND>(v[k], l.flip) : v[k];
            ring_from[(first + k) * STEP + group_of_lane<SIZE>(t)] = p >= l.from && p < l.to ? key : 0;
        }
    }
}

/* Positions at ... at + LANES - 1 of all rows from the ring, where `at` is in `slot`; those before `end`. */
template <int SIZE, int KIND>
__device__ __forceinline__ void store_rows(const line &l, const ring<true> &r, const uint32_t *all,
                                           const int64_t *row, int at, int slot, int end)
{
    enum { KEYS = word<SIZE>::KEYS };
    const int first = word_of_lane<SIZE>() * KEYS, p = at + first;
    if (p >= end)
        return;
    const uint32_t *from[KEYS];
#pragma unroll
    for (int k = 0; k < KEYS; k++)
        from[k] = all + r.next(slot, first + k) * ring<true>::STEP;
    char *const to = (char *)l.out + (int64_t)p * SIZE;
#pragma unroll
    for (int t = 0; t < LANES / KEYS; t++) {
        uint32_t w[KEYS];
#pragma unroll
        for (int k = 0; k < KEYS; k++) {
            w[k] = from[k][group_of_lane<SIZE>(t)];
            if (l.last)
                w[k] = from_keys<KIND>(w[k], l.flip);
        }
        transpose<SIZE>(w);
#pragma unroll
        for (int k = 0; k < KEYS; k++) {
            const int64_t offset = row[group_of_lane<SIZE>(t) * KEYS + k];
            if (offset >= 0)
                *(uint32_t *)(to + offset) = w[k];
        }
    }
}

/* Along y and z: the same of the words of a lane. */
__device__ __forceinline__ void load_columns(const line &l, const uint32_t *in, int at, int count,
                                             uint32_t (&w)[LANES])
{
    const uint32_t *from = in + at * l.in_step;
#pragma unroll
    for (int k = 0; k < LANES; k++, from += l.in_step)
        w[k] = k < count && at + k >= l.from && at + k < l.to ? __ldg(from) : 0;
}

template <int KIND>
__device__ __forceinline__ void keep_columns(const line &l, uint32_t *ring_from, int at,
                                             const uint32_t (&w)[LANES])
{
    enum { STEP = ring<false>::STEP };
    if (!l.first) { /* what does not exist is 0 already */
#pragma unroll
        for (int k = 0; k < LANES; k++)
            ring_from[k * STEP] = w[k];
        return;
    }
#pragma unroll
    for (int k = 0; k < LANES; k++)
        ring_from[k * STEP] = at + k >= l.from && at + k < l.to ? to_keys<KIND>(w[k], l.flip) : 0;
}

/* ---- the walk ----
 * One warp; blockIdx.x: the lines, blockIdx.y: the segment. */
template <int SIZE, int KIND, bool X> __global__ void __launch_bounds__(LANES) lines_kernel(line l)
{
    enum { CHUNK = LANES, ROWS = X ? LANES * word<SIZE>::KEYS : 1 };
    extern __shared__ uint32_t shared[];
    __shared__ int64_t in_row[ROWS], out_row[ROWS]; /* bytes from the first row, -1: there is none */
    const int start = blockIdx.y * l.segment, count = min(l.segment, l.n - start), w = 2 * l.radius + 1;
    const ring<X> r = {shared + threadIdx.x, l.slots};
    const uint32_t *in = NULL;
    uint32_t *out = NULL;
    bool there = true;
    int lead = 0; /* samples before the first window, to begin at a whole chunk */

    if constexpr (X) {
        for (int i = threadIdx.x; i < ROWS; i += LANES) {
            const int64_t row = (int64_t)blockIdx.x * ROWS + i, z = row / l.ny, y = row % l.ny;
            in_row[i] = row < l.rows ? (z * l.in_plane + y * l.in_pitch) * SIZE : -1;
            out_row[i] = row < l.rows ? (z * l.out_plane + y * l.out_pitch) * SIZE : -1;
        }
        /* the input's rows begin at l.from */
        const int behind = (start - l.radius - l.from) % CHUNK;
        lead = behind < 0 ? behind + CHUNK : behind;
        __syncwarp();
    } else {
        const int word_of = blockIdx.x % l.groups * LANES + threadIdx.x, other = blockIdx.x / l.groups;
        there = word_of < l.words;
        in = (const uint32_t *)l.in + other * l.in_other + word_of;
        out = (uint32_t *)l.out + other * l.out_other + word_of + start * l.out_step;
    }
    const int origin = start - l.radius - lead, m = count + w - 1 + lead; /* position of sample 0; samples */
    const int first_end = lead + w - 1; /* the sample that completes the first window */
    /* the sample, its place in its block, its slot, that of i - w + 1; outputs that have left the ring */
    int i = 0, place = 0, slot = 0, suffix = 0, made = 0;
    uint32_t best = 0;

    /* samples are on their way while those before them are looked at */
    uint32_t coming[CHUNK];
    if constexpr (X)
        load_rows<SIZE>(l, in_row, origin, coming);
    else
        load_columns(l, in, origin, there ? m : 0, coming);
    for (int chunk = 0, chunk_slot = 0; chunk < m; chunk += CHUNK, chunk_slot = r.next(chunk_slot, CHUNK)) {
        const int next = chunk + CHUNK;
        if constexpr (X) {
            __syncwarp();
            keep_rows<SIZE, KIND>(l, shared + chunk_slot * ring<X>::STEP, origin + chunk, coming);
            __syncwarp();
            if (next < m)
                load_rows<SIZE>(l, in_row, origin + next, coming);
        } else {
            keep_columns<KIND>(l, r.at(chunk_slot), origin + chunk, coming);
            load_columns(l, in, origin + next, there ? m - next : 0, coming);
        }
        const int end = min(chunk + CHUNK, m);
        while (i < end) {
            if (place == w - 1) {
                /* the block is complete: samples become suffixes, and the first of them is that of a window
                 */
                best = 0;
                const int here = min(w, slot + 1);
                turn_back<SIZE, ring<X>::STEP>(r.at(slot), here, best);
                turn_back<SIZE, ring<X>::STEP>(r.at(r.slots - 1), w - here, best);
                if (i >= first_end) {
                    if (!X && there)
                        *out = l.last ? from_keys<KIND>(best, l.flip) : best;
                    out += X ? 0 : l.out_step;
                }
                best = 0;
                place = 0;
                slot = r.next(slot, 1);
                if (i >= w - 1)
                    suffix = r.next(suffix, 1);
                i++;
                continue;
            }
            int n = min(end - i, min(w - 1 - place, r.slots - slot));
            if (i < w - 1) { /* in the first block, before there are suffixes */
                n = min(n, w - 1 - i);
                i += n; /* prefixes of it are not needed */
                place += n;
                slot = r.next(slot, n);
                continue;
            }
            n = min(n, r.slots - suffix);
            if (i < first_end) {
                n = min(n, first_end - i);
                run<SIZE, KIND, X, false>(l, n, r.at(slot), r.at(suffix), best, out, there);
            } else {
                run<SIZE, KIND, X, true>(l, n, r.at(slot), r.at(suffix), best, out, there);
            }
            i += n;
            place += n;
            slot = r.next(slot, n);
            suffix = r.next(suffix, n);
        }
        if constexpr (X) {
            __syncwarp();
            for (int ready = i - first_end; ready - made >= CHUNK || (i == m && made < count); made += CHUNK)
                store_rows<SIZE, KIND>(l, r, shared, out_row, start + made, (lead + made) % l.slots,
                                       start + count);
        }
    }
}

/* ---- samples alone, for balls ---- */

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

/* ---- balls: every span of every voxel ----
 * A thread block makes WIDE x HIGH x `deep` voxels (flat: WIDE x HIGH * deep) from keys in shared memory. */
enum { WIDE = 32, HIGH = 8, DEEP = 8 };

struct ball_job {
    vp_gpu_part in, out;
    int3 reach;
    const int4 *span;
    int spans;
    uint32_t flip;
    int deep;
    bool flat;
};

template <int SIZE, int KIND> __global__ void __launch_bounds__(WIDE *HIGH) ball_tile_kernel(ball_job j)
{
    typedef typename sample_of<SIZE>::type sample_t;
    extern __shared__ uint32_t tile[];
    const int rows = j.flat ? HIGH * j.deep : HIGH, depth = j.flat ? 1 : j.deep;
    const int pitch = WIDE + 2 * j.reach.x, ny = rows + 2 * j.reach.y, nz = depth + 2 * j.reach.z,
              plane = pitch * ny;
    const struct vp_box &o = j.out.box, &b = j.in.box;
    const int64_t x0 = o.lo[0] + (int64_t)blockIdx.x * WIDE, y0 = o.lo[1] + (int64_t)blockIdx.y * rows;

    for (int64_t z0 = o.lo[2] + (int64_t)blockIdx.z * depth; z0 < o.hi[2]; z0 += (int64_t)gridDim.z * depth) {
        __syncthreads();
        for (int r = threadIdx.y; r < ny * nz; r += HIGH) {
            const int64_t y = y0 - j.reach.y + r % ny, z = z0 - j.reach.z + r / ny;
            const bool there = y >= b.lo[1] && y < b.hi[1] && z >= b.lo[2] && z < b.hi[2];
            for (int i = threadIdx.x; i < pitch; i += WIDE) {
                const int64_t x = x0 - j.reach.x + i;
                tile[r * pitch + i] =
                    there && x >= b.lo[0] && x < b.hi[0]
                        ? one_key<SIZE>(to_keys<KIND>(*vp_at<sample_t>(j.in, x, y, z), j.flip))
                        : 0;
            }
        }
        __syncthreads();
        for (int i = 0; i < j.deep; i++) {
            const int row = j.flat ? threadIdx.y * j.deep + i : threadIdx.y, deep = j.flat ? 0 : i;
            const int64_t x = x0 + threadIdx.x, y = y0 + row, z = z0 + deep;
            if (x >= o.hi[0] || y >= o.hi[1] || z >= o.hi[2])
                continue;
            const uint32_t *const middle =
                tile + (deep + j.reach.z) * plane + (row + j.reach.y) * pitch + threadIdx.x + j.reach.x;
            uint32_t best = 0;
            for (int s = 0; s < j.spans; s++) {
                const int4 e = __ldg(j.span + s); /* dz, dy, x0, x1 */
                const uint32_t *const k = middle + e.x * plane + e.y * pitch;
#pragma unroll 4
                for (int h = e.z; h <= e.w; h++)
                    best = max(best, k[h]);
            }
            *vp_at<sample_t>(j.out, x, y, z) = (sample_t)from_keys<KIND>(best, j.flip);
        }
    }
}

/* Too large for that. */
template <int SIZE, int KIND>
__global__ void __launch_bounds__(256)
    ball_kernel(vp_gpu_part in, vp_gpu_part out, const int4 *span, int spans, uint32_t flip)
{
    typedef typename sample_of<SIZE>::type sample_t;
    const int64_t x = out.box.lo[0] + (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    const int64_t y = out.box.lo[1] + (int64_t)blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= out.box.hi[0] || y >= out.box.hi[1])
        return;
    for (int64_t z = out.box.lo[2] + blockIdx.z; z < out.box.hi[2]; z += gridDim.z) {
        uint32_t best = 0;
        for (int s = 0; s < spans; s++) {
            const int4 e = span[s]; /* dz, dy, x0, x1 */
            if (z + e.x < in.box.lo[2] || z + e.x >= in.box.hi[2] || y + e.y < in.box.lo[1] ||
                y + e.y >= in.box.hi[1])
                continue;
            const int64_t x0 = max(x + e.z, in.box.lo[0]);
            const int n = (int)(min(x + e.w, in.box.hi[0] - 1) - x0) + 1;
            const sample_t *const row = vp_at<sample_t>(in, x0, y + e.y, z + e.x);
            for (int i = 0; i < n; i++)
                best = max(best, one_key<SIZE>(to_keys<KIND>(row[i], flip)));
        }
        *vp_at<sample_t>(out, x, y, z) = (sample_t)from_keys<KIND>(best, flip);
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
    const int64_t in_a_row = VP_GPU_ROW_ALIGN / bytes;
    return (n + in_a_row - 1) / in_a_row * in_a_row;
}

/* Two buffers, each large enough for what any pass leaves. */
uint64_t buffer_bytes(const struct vp_local *op, const int64_t in[3], const int64_t out[3])
{
    (void)out;
    const int bytes = (int)vp_type_size(op->in);
    const uint64_t n =
        (uint64_t)row_samples(in[0], bytes) * (uint64_t)in[1] * (uint64_t)in[2] * (uint64_t)bytes;
    return (n + VP_GPU_ALIGN - 1) / VP_GPU_ALIGN * VP_GPU_ALIGN;
}

uint64_t scratch(const struct vp_local *op, const int64_t in[3], const int64_t out[3])
{
    return params(op)->f.shape == VP_BOX ? 2 * buffer_bytes(op, in, out) : 0;
}

uint64_t table(const struct vp_local *op)
{
    return vp_spans_bytes(&params(op)->f);
}

void fill(const struct vp_local *op, void *to)
{
    vp_spans_fill(&params(op)->f, to);
}

/* Outputs of a thread block: few thread blocks leave a device idle, many read the halo often. `unit`: what it
 * must be a multiple of. */
int choose_segment(int64_t n, int64_t lines, int radius, size_t shared, int sms, int unit)
{
    int64_t on_one = (int64_t)(SHARED_GPU / (shared + 1024));
    int64_t best = n;
    double cost = 1e30;

    on_one = on_one < 1 ? 1 : on_one > MOST_BLOCKS ? (int64_t)MOST_BLOCKS : on_one;
    for (int pieces = 1; pieces <= 16; pieces++) {
        const int64_t t = vp_groups(vp_groups(n, pieces), unit) * unit;
        const int64_t turns = vp_groups(lines * vp_groups(n, t), on_one * sms);
        /* half a unit more for getting started */
        const double c = (double)turns * ((double)t + 2 * radius + unit / 2);
        if (c < cost * .97) {
            best = t;
            cost = c;
        }
    }
    return (int)best;
}

struct setting {
    uint32_t flip;
    int sms;
    cudaStream_t stream;
    struct vp_err *err;
};

template <int SIZE, int KIND, bool X> int start(const setting &s, line &l, int64_t lines)
{
    l.slots = (2 * l.radius + 1 + (X ? 2 : 1) * LANES + LANES - 1) / LANES * LANES; /* whole chunks */
    const size_t shared = (size_t)l.slots * ring<X>::STEP * sizeof(uint32_t);
    l.segment = choose_segment(l.n, lines, l.radius, shared, s.sms, LANES);
    const cudaError_t e = cudaFuncSetAttribute(lines_kernel<SIZE, KIND, X>,
                                               cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared);
    if (e != cudaSuccess)
        return vp_gpu_fail(s.err, e, "the shared memory for a minimum or maximum");
    lines_kernel<SIZE, KIND, X>
        <<<dim3((unsigned)lines, (unsigned)vp_groups(l.n, l.segment)), LANES, shared, s.stream>>>(l);
    return 0;
}

/* in and out differ in their extent along `axis` only; along y and z also where their rows begin in memory is
 * alike. */
template <int SIZE, int KIND>
int pass(const setting &s, int axis, int radius, const vp_gpu_part *in, const vp_gpu_part *out, bool first,
         bool last)
{
    const int64_t nx = vp_box_size(&out->box, 0), ny = vp_box_size(&out->box, 1),
                  nz = vp_box_size(&out->box, 2);
    const int64_t keys = word<SIZE>::KEYS;
    const int64_t steps[3] = {1, in->pitch, in->plane}, out_steps[3] = {1, out->pitch, out->plane};
    line l = {};

    l.from = (int)(in->box.lo[axis] - out->box.lo[axis]);
    l.to = (int)(in->box.hi[axis] - out->box.lo[axis]);
    l.n = (int)(out->box.hi[axis] - out->box.lo[axis]);
    l.radius = radius;
    l.flip = s.flip;
    l.first = first;
    l.last = last;
    l.in = (const char *)in->data - l.from * steps[axis] * SIZE;
    l.out = out->data;
    if (axis == 0) {
        l.rows = ny * nz;
        l.ny = ny;
        l.in_pitch = in->pitch;
        l.in_plane = in->plane;
        l.out_pitch = out->pitch;
        l.out_plane = out->plane;
        return start<SIZE, KIND, true>(s, l, vp_groups(l.rows, LANES * keys));
    }
    const int other = axis == 1 ? 2 : 1;
    l.words = (int)vp_groups(nx, keys);
    l.groups = (int)vp_groups(l.words, LANES);
    l.in_step = steps[axis] / keys;
    l.out_step = out_steps[axis] / keys;
    l.in_other = steps[other] / keys;
    l.out_other = out_steps[other] / keys;
    return start<SIZE, KIND, false>(s, l, l.groups * (axis == 1 ? nz : ny));
}

template <int SIZE, int KIND>
int box(const setting &s, const struct vp_local *op, const struct vp_gpu_args *args)
{
    const struct vp_footprint *f = &params(op)->f;
    const int samples = VP_GPU_ROW_ALIGN / SIZE;
    struct {
        int axis, radius;
    } turn[3 * PASSES];
    int64_t left[3], buffer = 0;
    int n = 0;
    vp_gpu_part from = args->in[0];
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
        left[0] == 0 && left[1] + left[2] > 0 && (need.lo[0] - from.box.lo[0]) % word<SIZE>::KEYS == 0;
    if (!skip_x) {
        need.lo[0] = from.box.lo[0]; /* rows begin where words do */
        need.hi[0] = from.box.hi[0];
    }
    for (int a = 0; a < 3; a++) {
        int64_t r = left[a];
        const int64_t most = r > PASS_RADIUS * PASSES ? (r + PASSES - 1) / PASSES : (int64_t)PASS_RADIUS;
        for (bool once = a == 0 && !skip_x; r > 0 || once; once = false) {
            turn[n].axis = a;
            turn[n].radius = (int)(r < most ? r : most);
            r -= turn[n++].radius;
        }
    }
    /* only what is needed of the input */
    from.data =
        (char *)from.data + ((need.lo[2] - from.box.lo[2]) * from.plane +
                             (need.lo[1] - from.box.lo[1]) * from.pitch + (need.lo[0] - from.box.lo[0])) *
                                SIZE;
    from.box = need;
    for (int a = 0; a < 3; a++)
        buffer = a ? buffer * vp_box_size(&need, a) : vp_groups(vp_box_size(&need, 0), samples) * samples;
    buffer = vp_groups(buffer * SIZE, VP_GPU_ALIGN) * VP_GPU_ALIGN;
    for (int i = 0; i < n; i++) {
        const int a = turn[i].axis;
        vp_gpu_part to;
        left[a] -= turn[i].radius;
        to.box = from.box;
        /* what later turns along this axis need */
        to.box.lo[a] =
            args->out->box.lo[a] - left[a] > need.lo[a] ? args->out->box.lo[a] - left[a] : need.lo[a];
        to.box.hi[a] =
            args->out->box.hi[a] + left[a] < need.hi[a] ? args->out->box.hi[a] + left[a] : need.hi[a];
        if (i == n - 1) {
            to = *args->out;
        } else {
            to.pitch = vp_groups(vp_box_size(&to.box, 0), samples) * samples;
            to.plane = to.pitch * (to.box.hi[1] - to.box.lo[1]);
            to.data = (char *)args->scratch + (i & 1) * buffer;
        }
        if (pass<SIZE, KIND>(s, a, turn[i].radius, &from, &to, i == 0, i == n - 1))
            return -1;
        from = to;
    }
    return 0;
}

template <int SIZE, int KIND>
int ball(const setting &s, const struct vp_local *op, const struct vp_gpu_args *args)
{
    const struct vp_footprint *f = &params(op)->f;
    /* spans are not cut to the image: the tile holds them all */
    ball_job j = {args->in[0],
                  *args->out,
                  make_int3((int)f->reach[0], (int)f->reach[1], (int)f->reach[2]),
                  (const int4 *)args->table,
                  (int)f->spans,
                  s.flip,
                  DEEP,
                  f->reach[2] == 0};
    const size_t most = vp_shared_most();
    size_t shared;

    for (;; j.deep /= 2) {
        shared = sizeof(uint32_t) * (size_t)(WIDE + 2 * j.reach.x) *
                 (size_t)(HIGH * (j.flat ? j.deep : 1) + 2 * j.reach.y) *
                 (size_t)((j.flat ? 1 : j.deep) + 2 * j.reach.z);
        if (shared <= most / 4 || j.deep == 1)
            break;
    }
    if (shared > most) {
        const vp_grid_of g(args->out->box);
        ball_kernel<SIZE, KIND>
            <<<g.grid, g.threads, 0, s.stream>>>(args->in[0], *args->out, j.span, j.spans, s.flip);
        return 0;
    }
    const cudaError_t e = cudaFuncSetAttribute(ball_tile_kernel<SIZE, KIND>,
                                               cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared);
    if (e != cudaSuccess)
        return vp_gpu_fail(s.err, e, "the shared memory for a minimum or maximum");
    const int64_t nz = vp_groups(vp_box_size(&j.out.box, 2), j.flat ? 1 : j.deep);
    const dim3 grid((unsigned)vp_groups(vp_box_size(&j.out.box, 0), WIDE),
                    (unsigned)vp_groups(vp_box_size(&j.out.box, 1), HIGH * (j.flat ? j.deep : 1)),
                    (unsigned)(nz < 65535 ? nz : 65535));
    ball_tile_kernel<SIZE, KIND><<<grid, dim3(WIDE, HIGH), shared, s.stream>>>(j);
    return 0;
}

template <int SIZE, int KIND>
int shape(const struct vp_local *op, const struct vp_gpu_args *args, struct vp_err *err)
{
    const setting s = {params(op)->max ? 0u : 0xffffffffu, args->sms, args->stream, err};
    return params(op)->f.shape == VP_BOX ? box<SIZE, KIND>(s, op, args) : ball<SIZE, KIND>(s, op, args);
}

int launch(const struct vp_local *op, const struct vp_gpu_args *args, struct vp_err *err)
{
    switch (op->in) {
    case VP_U8:
        return shape<1, UNSIGNED>(op, args, err);
    case VP_U16:
        return shape<2, UNSIGNED>(op, args, err);
    case VP_I16:
        return shape<2, SIGNED16>(op, args, err);
    default:
        return shape<4, REAL>(op, args, err);
    }
}

} // namespace

const struct vp_gpu_kernel vp_gpu_min = {"min", has, scratch, table, fill, launch};
const struct vp_gpu_kernel vp_gpu_max = {"max", has, scratch, table, fill, launch};
