/* SPDX-License-Identifier: BSD-3-Clause */
/* Gaussian of a small radius R, the same along x, y and z: all three passes of local/separable.h in one kernel, which reads
 * the volume once and writes it once. The bits equal those of the passes in sequence.
 *
 * Overview: a block marches along z with a tile of TX x TY columns. Planes of the tile with their halo are copied
 *   asynchronously into a ring of STAGES stages while earlier ones are processed: each is filtered along x into shared
 *   memory, from there along y, and along z in registers. Three variants of the loop: QUICK without edges for tiles
 *   inside the image, EDGES with branches, SLOW for samples from elsewhere along x and for high-pass.
 * Mapping: along x a thread has RUN outputs of a row, and the lanes of a warp have the same columns of consecutive
 *   rows, so that few warps meet the image's edge. Along y and z a thread has OWN rows of one column, for each of them
 *   the last 2 R differences and R samples along z. Loops over planes are unrolled PERIOD times, so that registers and
 *   stages have constant indices.
 * Synchronisation: one barrier a plane; between two barriers y and z of plane t and x of plane t + 1. A stage is
 *   refilled after the barrier that follows its filter along x.
 * Global memory: a plane is read (TX + 2 R) (TY + 2 R) / (TX TY) times, all but once from the L2 cache. Prefetching
 *   more than AHEAD planes is slower: blocks drift apart, and shared halos are read twice from device memory.
 * Limits: requests to the L2 cache (pieces of rows: 1.25 times a copy of the volume even without arithmetic) and
 *   instructions, which alone take as long as the copy; they overlap only in part. */
#include "separable_sample.cuh"

#include <algorithm>

namespace vp
{
namespace
{

constexpr int RUN = 8;   /* outputs of a thread along x */
constexpr int AHEAD = 4; /* plane t + AHEAD is prefetched while plane t is processed */

/* Shape of a block and its tile. */
template <int R> struct fused_shape {
    static constexpr int TX = R <= 4 ? 64 : 32;   /* columns: whole warps */
    static constexpr int BANDS = 8;               /* groups of OWN rows */
    static constexpr int OWN = R <= 5 ? 4 : 3;    /* rows of a thread */
    static constexpr int BLOCKS = R <= 4 ? 1 : 2; /* resident blocks of a multiprocessor: 128 registers a thread */
    static constexpr int TY = OWN * BANDS;
    static constexpr int THREADS = TX * BANDS;
    static constexpr int FRONT = (R + 3) / 4 * 4;                         /* columns of the halo before the tile */
    static constexpr int FOURS = (TX + 2 * FRONT) / 4;                    /* groups of four columns */
    static constexpr int ROWS = TY + 2 * R;
    static constexpr int PITCH = 4 * (FOURS + 1 - FOURS % 2);             /* odd in groups: no bank conflicts of rows */
    static constexpr int MADE_PITCH = TX + 4;                             /* likewise */
    static constexpr int GROUPS = (ROWS * FOURS + THREADS - 1) / THREADS; /* groups that a thread loads */
    static constexpr int PERIOD = R <= 2 ? 4 : R == 3 ? 6 : R;            /* planes of the unrolled loop */
    static constexpr int STAGES = PERIOD;
    static constexpr int RING = (STAGES * ROWS * PITCH + 15) / 16 * 16;   /* samples, padded for alignment */
    static_assert(AHEAD <= STAGES && PERIOD % R == 0 && TX % 32 == 0, "");
    static_assert(ROWS * (TX / RUN) <= THREADS, "along x: one run a thread");
};

struct fused_axis {
    int n, rule;
    bool clip;
    float t[FUSED_LONGEST], scale[FUSED_LONGEST]; /* as in separable.h */
};

struct fused_args {
    volume in, out;
    fused_axis axis[3];
    int first_x, tiles_x, tiles_y; /* first column; tiles along x, along y */
    int chunks, planes;            /* chunks along z, planes of a chunk */
    bool highpass;
    unsigned flip;                 /* 16-bit samples: as in floats_of() */
    float zero;
};

/* Returns the bytes of shared memory: the ring; two planes filtered along x; the end samples along z; clip_of() along x
 * and y; sources of planes outside the image and of columns. */
template <class Sample, int R> constexpr size_t fused_shared()
{
    using S = fused_shape<R>;
    return sizeof(Sample) * S::RING + sizeof(float) * (2 * S::ROWS * S::MADE_PITCH + S::OWN * S::THREADS) +
           sizeof(float2) * (S::TX + S::TY) + sizeof(int) * (2 * R + 1 + 4 * S::FOURS);
}

/* Load four samples, or one, from shared memory. */
template <class Sample> __device__ __forceinline__ float4 four_of(const Sample *p, const fused_args &a)
{
    if constexpr (sizeof(Sample) == 4)
        return *reinterpret_cast<const float4 *>(p);
    else if constexpr (sizeof(Sample) == 2)
        return floats_of(*reinterpret_cast<const uint2 *>(p), a.flip, a.zero);
    else
        return floats_of(*reinterpret_cast<const unsigned *>(p));
}

template <class Sample> __device__ __forceinline__ float one_of(const Sample *p, const fused_args &a)
{
    return sizeof(Sample) == 2 ? float_of<0x7410>((unsigned)*p ^ a.flip, a.zero) : (float)*p;
}

/* Returns the output from the sum acc and the sample x of a voxel; clip: (-t, scale) of separable.h, scale 0 if all weights
 * are inside. Without a branch, since edges come in groups. */
__device__ __forceinline__ float finish(float2 clip, float end, float x, float acc)
{
    const float y = __fmaf_rn(clip.y, __fmaf_rn(clip.x, end - x, acc), x), plain = x + acc;
    return clip.y != 0 ? y : plain;
}

/* Returns clip of voxel i. */
__device__ __forceinline__ float2 clip_of(const fused_axis &a, int radius, int i)
{
    const int e = min(i, a.n - 1 - i);
    return a.clip && e >= 0 && e < radius ? make_float2(-a.t[e], a.scale[e]) : make_float2(0, 0);
}

/* Adds to acc the sums of COUNT outputs; v has samples i - R ... i + COUNT + R - 1. */
template <int R, int COUNT>
__device__ __forceinline__ void sums_of(const fused_axis &a, const float *v, float (&acc)[COUNT])
{
    float d[COUNT + 2 * R - 1];
#pragma unroll
    for (int q = 0; q < COUNT + 2 * R - 1; q++)
        d[q] = v[q + 1] - v[q];
#pragma unroll
    for (int k = R - 1; k >= 0; k--)
#pragma unroll
        for (int j = 0; j < COUNT; j++)
            acc[j] = __fmaf_rn(a.t[k], d[R + j + k] - d[R + j - 1 - k], acc[j]);
}

/* History of OWN columns along z; plane t is at index t mod 2 R of d, t mod R of x. */
template <int R> struct history {
    float d[fused_shape<R>::OWN][2 * R]; /* d[t]: sample t less sample t - 1 */
    float x[fused_shape<R>::OWN][R];
};

/* Enters plane t = at (mod 2 R): x becomes plane t - R, and acc, initially 0, its sum. */
template <int R>
__device__ __forceinline__ void along_z(const fused_axis &a, int at, history<R> &p,
                                        const float (&v)[fused_shape<R>::OWN], float (&x)[fused_shape<R>::OWN],
                                        float (&acc)[fused_shape<R>::OWN])
{
#pragma unroll
    for (int j = 0; j < fused_shape<R>::OWN; j++) {
        x[j] = p.x[j][at % R];
        p.d[j][at % (2 * R)] = v[j] - p.x[j][(at + R - 1) % R];
        p.x[j][at % R] = v[j];
        /* differences of separable.h: d[i + k] is that of plane t - R + k + 1 here, d[i - 1 - k] that of t - R - k */
#pragma unroll
        for (int k = R - 1; k >= 0; k--)
            acc[j] = __fmaf_rn(a.t[k], p.d[j][(at + R + k + 1) % (2 * R)] - p.d[j][(at + R - k) % (2 * R)], acc[j]);
    }
}

/* Rotates the history so that the next plane is at index 0, after one at index `by` - 1. */
template <int R> __device__ __forceinline__ void rotate_history(history<R> &p, int by)
{
    const history<R> q = p;
#pragma unroll
    for (int j = 0; j < fused_shape<R>::OWN; j++) {
#pragma unroll
        for (int k = 0; k < 2 * R; k++)
            p.d[j][k] = q.d[j][(k + by) % (2 * R)];
#pragma unroll
        for (int k = 0; k < R; k++)
            p.x[j][k] = q.x[j][(k + by) % R];
    }
}

/* Makes x opaque to the optimiser, which keeps it in a register then instead of recomputing it, and does not hoist
 * values derived from it that only edges need. */
template <class T> __device__ __forceinline__ void pin(T &x)
{
    asm volatile("" : "+r"(x));
}

/* Finds the tile of a block: first the border tiles of all chunks, then the others. */
__device__ __forceinline__ void find_tile(const fused_args &a, int block, int &x, int &y, int &chunk)
{
    const int inner_x = max(a.tiles_x - 2, 0), inner_y = max(a.tiles_y - 2, 0), inner = inner_x * inner_y;
    const int border = a.tiles_x * a.tiles_y - inner;
    if (block >= border * a.chunks) {
        const int i = block - border * a.chunks;
        chunk = i / inner;
        x = 1 + i % inner % inner_x;
        y = 1 + i % inner / inner_x;
        return;
    }
    const int i = block % border, ends = inner ? 2 * a.tiles_x : border;
    chunk = block / border;
    if (i >= ends) { /* left and right */
        x = (i - ends) % 2 * (a.tiles_x - 1);
        y = 1 + (i - ends) / 2;
    } else { /* first and last row; all rows if there are no inner tiles */
        x = i % a.tiles_x;
        y = inner ? i / a.tiles_x * (a.tiles_y - 1) : i / a.tiles_x;
    }
}

/* Stores the first `rows` of OWN outputs of a column. */
template <bool FLOAT, int OWN>
__device__ __forceinline__ void store_own(const fused_args &a, long long to, const float (&v)[OWN], int rows)
{
    typed(a.out.data, FLOAT ? VP_F32 : a.out.type, [&](auto *q) {
        q += to;
#pragma unroll
        for (int j = 0; j < OWN; j++, q += a.out.step[1])
            if (j < rows)
                *q = sample_of<std::remove_reference_t<decltype(*q)>>(v[j]);
    });
}

/* Compile-time variants of the loop: for any tile; for tiles that need no other samples than those of the rows as they
 * are in memory, so nearly all; for tiles away from edges. */
enum { SLOW, EDGES, QUICK };
template <int MODE> struct mode_of {
    __device__ constexpr operator int() const { return MODE; }
};

__device__ __forceinline__ bool unlikely(bool yes)
{
    return __builtin_expect(yes, false);
}

template <class Sample, int R, bool FLOAT>
__global__ void __launch_bounds__(fused_shape<R>::THREADS, fused_shape<R>::BLOCKS)
    k_fused(const __grid_constant__ fused_args a)
{
    using S = fused_shape<R>;
    constexpr int TX = S::TX, TY = S::TY, OWN = S::OWN, THREADS = S::THREADS, FRONT = S::FRONT, PITCH = S::PITCH;
    constexpr int STAGES = S::STAGES, PERIOD = S::PERIOD, MADE_PITCH = S::MADE_PITCH;
    constexpr int STAGE = S::ROWS * PITCH, MADE = S::ROWS * MADE_PITCH, ITEMS = S::ROWS * (TX / RUN);
    constexpr int ZERO = -1, NOTHING = -2;
    extern __shared__ __align__(16) char shared_bytes[];
    Sample *const stages = reinterpret_cast<Sample *>(shared_bytes);
    float *const made = reinterpret_cast<float *>(shared_bytes + S::RING * sizeof(Sample));
    float *const ends = made + 2 * MADE; /* samples next to the edge along z */
    float2 *const clip_x = reinterpret_cast<float2 *>(ends + OWN * THREADS), *const clip_y = clip_x + TX;
    int *const outer = reinterpret_cast<int *>(clip_y + TY); /* sources of planes -R ... 0 and n ... n + R - 1 */
    int *const columns = outer + 2 * R + 1;                  /* sources of the columns of a row */
    const int tid = threadIdx.x, lane = tid % 32, warp = tid / 32;
    int tile_x, tile_y, chunk;
    find_tile(a, blockIdx.x, tile_x, tile_y, chunk);
    const int x0 = a.first_x + tile_x * TX, y0 = a.out.lo[1] + tile_y * TY;
    const int z0 = a.out.lo[2] + chunk * a.planes, planes = min(a.planes, a.out.hi[2] - z0) + 2 * R;

    /* the groups of four samples of each plane that this thread loads, as a whole or sample by sample; columns that
     * repeat the image's first or last one are filled in registers */
    const bool extends = repeats(a.axis[0].rule);
    unsigned from[S::GROUPS]; /* index in groups within the plane, which has fewer than 2^32 of them */
    unsigned whole = 0, pieces = 0; /* bit g: group g is loaded as a whole, in pieces */
    int load_to[S::GROUPS];
    for (int c = tid; c < 4 * S::FOURS; c += THREADS) {
        const int s = edge_from(a.axis[0].rule, x0 - FRONT + c, a.axis[0].n);
        columns[c] = s < 0 ? ZERO : s >= a.in.lo[0] && s < a.in.hi[0] ? s - a.in.lo[0] : NOTHING;
    }
    for (int i = tid; i < TX + TY; i += THREADS)
        clip_x[i] = i < TX ? clip_of(a.axis[0], R, x0 + i) : clip_of(a.axis[1], R, y0 + i - TX);
    if (tid <= 2 * R)
        outer[tid] = edge_from(a.axis[2].rule, tid <= R ? tid - R : a.axis[2].n - R - 1 + tid, a.axis[2].n);
#pragma unroll
    for (int g = 0; g < S::GROUPS; g++) {
        const int r = (tid + g * THREADS) / S::FOURS, c = (tid + g * THREADS) % S::FOURS;
        const int x = x0 - FRONT + 4 * c, y = edge_from(a.axis[1].rule, y0 - R + r, a.axis[1].n);
        const bool needed = r < S::ROWS && y0 - R + r < min(y0 + TY, a.out.hi[1]) + R &&
                            x < min(x0 + TX, a.out.hi[0]) + R && x + 4 > max(x0, a.out.lo[0]) - R;
        const bool all = x >= a.in.lo[0] &&
                         (x + 4 <= a.in.hi[0] || (x < a.in.hi[0] && (a.in.hi[0] < a.axis[0].n || extends)));
        whole |= (unsigned)(needed && y >= 0 && all) << g;
        pieces |= (unsigned)(needed && y >= 0 && !all && !extends) << g;
        load_to[g] = r * PITCH + 4 * c;
        from[g] = (unsigned)(((y - a.in.lo[1]) * a.in.step[1] + (all ? x - a.in.lo[0] : 0)) / 4);
        if (needed && y < 0)
            for (int s = 0; s < STAGES; s++)
                for (int q = 0; q < 4; q++)
                    stages[s * STAGE + load_to[g] + q] = 0;
        pin(load_to[g]);
        pin(from[g]);
    }
    pin(whole);
    const long long plane = (long long)sizeof(Sample) * a.in.step[2];
    const char *plane_at = a.in.data + (z0 - R - 1 - a.in.lo[2]) * plane; /* the plane that was loaded last */
    const auto load = [&](auto mode, int t, int slot) {
        if (t < planes) {
            int z = mode == QUICK ? 1 : z0 - R + t;
            plane_at += plane;
            if (mode != QUICK && unlikely(z <= 0 || z >= a.axis[2].n)) {
                z = outer[z <= 0 ? z + R : z - a.axis[2].n + R + 1];
                plane_at = a.in.data + (z - a.in.lo[2]) * plane;
            }
#pragma unroll
            for (int g = 0; g < S::GROUPS; g++) {
                Sample *const to = stages + slot * STAGE + load_to[g];
                const char *const at = plane_at + from[g] * (4ull * sizeof(Sample));
                if (mode != QUICK && unlikely(z < 0)) {
                    for (int q = 0; ((whole | pieces) >> g & 1) && q < 4; q++)
                        to[q] = 0;
                } else if ((mode == QUICK && (g + 1) * THREADS <= S::ROWS * S::FOURS) || (whole >> g & 1)) {
                    copy_async<4 * sizeof(Sample)>(to, at);
                } else if (mode == SLOW && (pieces >> g & 1)) {
#pragma unroll 1
                    for (int q = 0; q < 4; q++) {
                        const int s = columns[4 * ((tid + g * THREADS) % S::FOURS) + q];
                        const Sample *const p = reinterpret_cast<const Sample *>(at) + s;
                        if (s >= 0) {
                            if constexpr (sizeof(Sample) == 4)
                                copy_async<4>(to + q, p);
                            else
                                to[q] = __ldg(p);
                        } else if (s == ZERO) {
                            to[q] = 0;
                        }
                    }
                }
            }
        }
        copies_close();
    };

    /* along x: different warps are idle in blocks that share a multiprocessor */
    const int item = ITEMS > THREADS - 32 ? tid : (tid + 32 * (blockIdx.x / 4)) % THREADS;
    const int item_row = item % S::ROWS, item_at = item / S::ROWS * RUN, item_x = x0 + item_at;
    const bool edge_x = extends && (item_x < R || item_x + RUN > a.axis[0].n - R);
    int x_from = item_row * PITCH + item_at, x_to = item_row * MADE_PITCH + item_at;
    pin(x_from);
    pin(x_to);
    const auto along_x = [&](auto mode, int slot, int which) {
        const Sample *const p = stages + slot * STAGE + x_from;
        float v[RUN + 2 * FRONT], acc[RUN] = {};
#pragma unroll
        for (int q = 0; q < RUN + 2 * FRONT; q += 4) {
            const float4 f = four_of(p + q, a);
            v[q] = f.x;
            v[q + 1] = f.y;
            v[q + 2] = f.z;
            v[q + 3] = f.w;
        }
        const auto at_end = [&](bool far) {
            const int i = far ? a.axis[0].n - 1 - item_x : -item_x;
            return i >= -FRONT && i < RUN + FRONT ? one_of(p + FRONT + i, a) : 0;
        };
        if (mode != QUICK && unlikely(edge_x)) {
            const float first = at_end(false), last = at_end(true);
            int i = item_x;
            pin(i);
#pragma unroll
            for (int q = FRONT - R; q < FRONT + RUN + R; q++)
                v[q] = i - FRONT + q < 0 ? first : i - FRONT + q >= a.axis[0].n ? last : v[q];
        }
        sums_of<R>(a.axis[0], v + FRONT - R, acc);
        if (mode != QUICK && unlikely(edge_x && a.axis[0].clip)) {
            const float first = at_end(false), last = at_end(true);
            int i = 2 * item_x - (a.axis[0].n - 1);
            pin(i);
#pragma unroll
            for (int j = 0; j < RUN; j++)
                acc[j] = finish(clip_x[item_at + j], i + 2 * j < 0 ? first : last, v[FRONT + j], acc[j]);
        } else {
#pragma unroll
            for (int j = 0; j < RUN; j++)
                acc[j] = v[FRONT + j] + acc[j];
        }
        float4 *const to = reinterpret_cast<float4 *>(made + which * MADE + x_to);
        to[0] = make_float4(acc[0], acc[1], acc[2], acc[3]);
        to[1] = make_float4(acc[4], acc[5], acc[6], acc[7]);
    };

    const int x = x0 + warp % (TX / 32) * 32 + lane, row = warp / (TX / 32) * OWN, y = y0 + row;
    const bool column = x >= a.out.lo[0] && x < a.out.hi[0];
    const bool edge_y = a.axis[1].clip && (y < R || y + OWN > a.axis[1].n - R);
    const int rows = column ? min(OWN, a.out.hi[1] - y) : 0; /* rows that are stored */
    /* planes [clip_lo, clip_hi) do not depend on the ends along z */
    const int z_end = a.axis[2].n - 1;
    const int clip_lo = a.axis[2].clip ? R : -VP_FAR, clip_hi = a.axis[2].clip ? z_end - R : VP_FAR;
    long long to = place_of(a.out, x, y, z0);
    int y_from = row * MADE_PITCH + warp % (TX / 32) * 32 + lane;
    pin(y_from);
    history<R> p = {};
    __syncthreads();
#pragma unroll 1
    for (int t = 0; t < AHEAD - 1; t++)
        load(mode_of<SLOW>(), t, t);
    const auto next_plane = [] { /* plane t + 2 is in shared memory, and all warps have finished plane t */
        copies_wait<AHEAD - 2>();
        __syncthreads();
    };
    next_plane();
    int t = -1;
    /* filters plane t along y and z, plane t + 1 along x; plane t + 1 is in stage `slot`, plane t at index `at` */
    const auto step = [&](auto mode, int slot, int at) {
        load(mode, t + AHEAD, (slot + AHEAD - 1) % STAGES);
        const int which = PERIOD % 2 || mode == SLOW ? (t + 1) % 2 : slot % 2;
        const float *const q = made + (1 - which) * MADE + y_from;
        float v[OWN + 2 * R], w[OWN] = {}, centre[OWN], out[OWN] = {};
#pragma unroll
        for (int r = 0; r < OWN + 2 * R; r++)
            v[r] = q[r * MADE_PITCH];
        sums_of<R>(a.axis[1], v, w);
        if (mode != QUICK && unlikely(edge_y)) {
            int i = y;
            pin(i);
            const float first = i < R ? q[(R - i) * MADE_PITCH] : 0;
            const float last = i + OWN > a.axis[1].n - R && i < a.axis[1].n
                                   ? q[(R + a.axis[1].n - 1 - i) * MADE_PITCH] : 0;
#pragma unroll
            for (int j = 0; j < OWN; j++)
                w[j] = finish(clip_y[row + j], 2 * (i + j) < a.axis[1].n - 1 ? first : last, v[R + j], w[j]);
        } else {
#pragma unroll
            for (int j = 0; j < OWN; j++)
                w[j] = v[R + j] + w[j];
        }
        along_z<R>(a.axis[2], at, p, w, centre, out);
        const int z = z0 + t - 2 * R; /* the output of this step; z + R is its last input */
        if (mode != QUICK && unlikely(z < clip_lo || z >= clip_hi)) {
            const float2 c = clip_of(a.axis[2], R, z);
#pragma unroll
            for (int j = 0; j < OWN; j++) {
                float *const end = ends + j * THREADS + tid;
                out[j] = finish(c, *end, centre[j], out[j]);
                if (z + R <= 0 || z + R >= z_end)
                    *end = w[j];
            }
        } else {
#pragma unroll
            for (int j = 0; j < OWN; j++)
                out[j] = centre[j] + out[j];
        }
        if (t >= 2 * R && t < planes) {
            if (mode != SLOW || !a.highpass) {
                store_own<FLOAT, OWN>(a, to, out, mode == QUICK ? OWN : rows);
            } else {
                int i = y;
                pin(i);
                const long long at_in = place_of(a.in, x, i, z);
#pragma unroll
                for (int j = 0; j < OWN; j++)
                    if (j < rows)
                        store_sample(a.out.data, to + j * a.out.step[1], a.out.type,
                                     load_sample(a.in.data, at_in + j * a.in.step[1], a.in.type) - out[j]);
            }
            to += a.out.step[2];
        }
        if (ITEMS == THREADS || item < ITEMS)
            along_x(mode, slot, which);
        t++;
        next_plane();
    };
    const bool inside_x = x0 >= max(a.out.lo[0], R) && x0 + TX <= min(a.out.hi[0], a.axis[0].n - R) &&
                          x0 - FRONT >= a.in.lo[0] &&
                          (x0 + TX + FRONT <= a.in.hi[0] || a.in.hi[0] < a.axis[0].n);
    const bool inside = inside_x && y0 >= R && y0 + TY <= min(a.out.hi[1], a.axis[1].n - R);
    if (a.highpass || !(extends || inside_x)) {
#pragma unroll 1
        while (t < planes) {
            step(mode_of<SLOW>(), (t + 1) % STAGES, 0);
            rotate_history<R>(p, 1);
        }
        return;
    }
    const auto period = [&](auto mode) {
#pragma unroll
        for (int u = 0; u < PERIOD; u++)
            step(mode, u, u);
        rotate_history<R>(p, PERIOD);
    };
    /* steps t in [quick_from, quick_end) do not depend on the ends along z */
    const int quick_from = (max(max(clip_lo - z0 + 2 * R, R + 1 - z0), -1) + PERIOD) / PERIOD * PERIOD - 1;
    const int quick_end = z0 - R + planes - 1 > z_end ? z_end - z0 + R - AHEAD + 1 : VP_FAR;
    int until = inside ? min(quick_from, planes) : planes;
#pragma unroll 1
    for (;;) {
#pragma unroll 1
        while (t < until)
            period(mode_of<EDGES>());
        if (t >= planes)
            break;
#pragma unroll 1
        while (t < planes && t + PERIOD <= quick_end)
            period(mode_of<QUICK>());
        until = planes;
    }
}

/* Returns the planes of a block. Blocks take about the same time, so `resident` of them run as a wave; the cost is the
 * number of waves times the planes of a block, those of the halo and the start of the ring included. Long waves end
 * less evenly, which counts as a fifth of a wave. */
int block_planes(int64_t tiles, int n, int radius, int64_t resident)
{
    int best = n;
    double least = 1e300;

    for (int chunks = 1; chunks <= 64; chunks++) {
        const int planes = (n + chunks - 1) / chunks;
        const int64_t blocks = tiles * ((n + planes - 1) / planes);
        const double waves = (double)((blocks + resident - 1) / resident) + 0.2;
        const double time = waves * (planes + 2 * radius + AHEAD);
        if (time < least) {
            least = time;
            best = planes;
        }
    }
    return best;
}

template <class Sample, int R, bool FLOAT> int launch_one(fused_args &a, const vp_work *args, vp_err *err)
{
    using S = fused_shape<R>;
    void (*const kernel)(fused_args) = k_fused<Sample, R, FLOAT>;
    a.tiles_x = (a.out.hi[0] - a.first_x + S::TX - 1) / S::TX;
    a.tiles_y = (a.out.hi[1] - a.out.lo[1] + S::TY - 1) / S::TY;
    const int64_t tiles = (int64_t)a.tiles_x * a.tiles_y;
    const int n = a.out.hi[2] - a.out.lo[2];
    int each = 1;

    const int shared = (int)fused_shared<Sample, R>();
    static_assert(fused_shared<Sample, R>() <= 99 << 10, "what every device with 16-byte copies has");
    cudaError_t e = vp_allow_shared(kernel, shared);
    if (e == cudaSuccess)
        e = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, kernel, S::THREADS, shared);
    if (vp_gpu_check(err, e, "cannot start a CUDA kernel"))
        return -1;
    a.planes = block_planes(tiles, n, R, (int64_t)std::max(each, 1) * args->queue->sms);
    a.chunks = (n + a.planes - 1) / a.planes;
    const int64_t blocks = tiles * a.chunks;
    return vp_start(err, args->queue->stream, kernel, dim3((unsigned)blocks), dim3(S::THREADS), shared, a);
}

template <class Sample> int launch(int radius, fused_args &a, const vp_work *args, vp_err *err)
{
    const auto by_radius = [radius](auto is_float) {
        return code_for(radius, radii<1, 2, 3, 4, 5, FUSED_LONGEST>(), [](auto r) {
            return launch_one<Sample, decltype(r)::value, decltype(is_float)::value>;
        });
    };
    return (a.out.type == VP_F32 ? by_radius(std::true_type()) : by_radius(std::false_type()))(a, args, err);
}

}

bool fused_handles(const vp_op *op, const vp_separable &s)
{
    const int radius = s.taps[0][0].radius;
    if (s.filters != 1 || radius < 1 || radius > FUSED_LONGEST)
        return false;
    for (int a = 0; a < 3; a++) {
        const vp_taps *t = &s.taps[a][0];
        if (t->order != 0 || t->radius != radius || (t->edge == VP_EDGE_RENORMALIZE && op->image[a] < 2 * radius))
            return false;
    }
    return true;
}

int fused_launch(const vp_op *op, const vp_separable &s, const vp_work *args, vp_err *err)
{
    const int radius = s.taps[0][0].radius;
    fused_args a = {};
    a.in = volume_of(*args->in, op->in);
    a.out = volume_of(*args->out, op->out);
    for (int i = 0; i < 3; i++) {
        const vp_taps *t = &s.taps[i][0];
        const axis ax = axis_of(op, t, i);
        a.axis[i].n = ax.n;
        a.axis[i].rule = ax.rule;
        a.axis[i].clip = t->scale;
        for (int k = 0; k < radius; k++) {
            a.axis[i].t[k] = t->t[k];
            a.axis[i].scale[k] = t->scale ? t->scale[k] : 0;
        }
    }
    a.first_x = a.out.lo[0] - (a.out.lo[0] - a.in.lo[0]) % 4; /* groups of four that are aligned */
    a.highpass = s.highpass;
    a.flip = op->in == VP_I16 ? FLIP_I16 : 0;
    a.zero = op->in == VP_I16 ? ZERO_I16 : FLOAT_ZERO;
    switch (op->in) {
    case VP_U8: return launch<unsigned char>(radius, a, args, err);
    case VP_U16:
    case VP_I16: return launch<unsigned short>(radius, a, args, err);
    default: return launch<float>(radius, a, args, err);
    }
}

}
