/* SPDX-License-Identifier: BSD-3-Clause */
/* Gaussian of a small radius R, the same along x, y and z: all three passes of ops/gauss.h in one kernel, which reads
 * the volume once and writes it once. Bits are those of the passes one after the other.
 *
 * Overview: a block marches along z with a tile of TILE x TILE columns. Planes of it with their halo come into a ring
 *   of STAGES stages while older ones are worked on; each is filtered along x into shared memory, from there along y,
 *   and along z from registers. Tiles at the image's edges take longer and come first.
 * Mapping: along x a thread makes 8 outputs of a row; along y and z it has OWN rows of one column, for each of them the
 *   last 2 R differences and R samples along z. Which register holds which of them is known to the compiler: there is
 *   code for each of the 2 R places in the ring.
 * Sync: one barrier a plane: between two of them y and z of plane t and x of plane t + 1.
 * Memory: a plane is read (TILE + 2 R) / TILE times in both directions, all but one of them from the L2 cache.
 * Limit: memory for R <= 4. */
#include "separable.cuh"

#include <algorithm>

namespace vp
{
namespace
{

constexpr int TILE = 32, OWN = 4, FUSED_THREADS = TILE * TILE / OWN, STAGES = 4, RUN = 8;
constexpr int MADE_PITCH = TILE + 4; /* 16-byte units: odd, so that neighbouring rows do not meet in a bank */

/* A tile with its halo. */
template <int R> struct halo {
    static constexpr int FRONT = (R + 3) / 4 * 4;             /* columns before it */
    static constexpr int FOURS = (TILE + 2 * FRONT) / 4;      /* groups of four columns */
    static constexpr int ROWS = TILE + 2 * R;
    static constexpr int PITCH = 4 * (FOURS + 1 - FOURS % 2); /* groups: odd, see MADE_PITCH */
    static constexpr int GROUPS = (ROWS * FOURS + FUSED_THREADS - 1) / FUSED_THREADS; /* that a thread loads */
};

struct fused_axis {
    int n, rule;
    bool clip;
    float t[FUSED_LONGEST], outside[FUSED_LONGEST], scale[FUSED_LONGEST]; /* of gauss.h: t, -t, scale */
};

struct fused_args {
    view in;
    char *out;
    long long out_pitch, out_plane;
    int out_type, out_lo[3], out_hi[3];
    fused_axis axis[3];
    int first_x, tiles_x, tiles_y, chunks, planes; /* planes of a chunk */
    bool highpass;
    unsigned flip; /* 16-bit samples: bits to turn over in two of them, and what to add then (i16) */
    float offset;
};

template <class Sample, int R> constexpr size_t fused_shared()
{
    return STAGES * sizeof(Sample) * halo<R>::ROWS * halo<R>::PITCH + 2 * sizeof(float) * halo<R>::ROWS * MADE_PITCH +
           4 * sizeof(int) * halo<R>::FOURS;
}

/* Four samples in shared memory. */
__device__ __forceinline__ float4 four_of(const float *p, const fused_args &)
{
    return *reinterpret_cast<const float4 *>(p);
}

__device__ __forceinline__ float4 four_of(const unsigned short *p, const fused_args &a)
{
    const uint2 v = *reinterpret_cast<const uint2 *>(p);
    const unsigned l = v.x ^ a.flip, h = v.y ^ a.flip;
    return make_float4((float)(l & 0xffff) + a.offset, (float)(l >> 16) + a.offset, (float)(h & 0xffff) + a.offset,
                       (float)(h >> 16) + a.offset);
}

__device__ __forceinline__ float4 four_of(const unsigned char *p, const fused_args &)
{
    const unsigned v = *reinterpret_cast<const unsigned *>(p);
    return make_float4((float)(v & 0xff), (float)(v >> 8 & 0xff), (float)(v >> 16 & 0xff), (float)(v >> 24));
}

__device__ __forceinline__ float one_of(const float *p, const fused_args &)
{
    return *p;
}

__device__ __forceinline__ float one_of(const unsigned short *p, const fused_args &a)
{
    return (float)(*p ^ (a.flip & 0xffff)) + a.offset;
}

__device__ __forceinline__ float one_of(const unsigned char *p, const fused_args &)
{
    return (float)*p;
}

/* The sum acc of voxel i, a sample x, becomes the output. */
__device__ __forceinline__ float finish(const fused_axis &a, int radius, int i, float first, float last, float x,
                                        float acc)
{
    const int lo = i, hi = a.n - 1 - i, e = min(lo, hi);
    if (e >= radius || e < 0)
        return x + acc;
    return __fmaf_rn(a.scale[e], __fmaf_rn(a.outside[e], (lo < hi ? first : last) - x, acc), x);
}

/* Whether outputs i ... i + n - 1 are near an edge where weights are rescaled. */
__device__ __forceinline__ bool near(const fused_axis &a, int radius, int i, int n)
{
    return a.clip && (i < radius || i + n > a.n - radius);
}

/* COUNT outputs from v: samples i - R ... i + COUNT + R - 1. */
template <int R, int COUNT>
__device__ __forceinline__ void sums_of(const fused_axis &a, const float *v, float (&acc)[COUNT])
{
    float d[COUNT + 2 * R - 1];
#pragma unroll
    for (int q = 0; q < COUNT + 2 * R - 1; q++)
        d[q] = v[q + 1] - v[q];
#pragma unroll
    for (int j = 0; j < COUNT; j++)
        acc[j] = 0;
#pragma unroll
    for (int k = R - 1; k >= 0; k--)
#pragma unroll
        for (int j = 0; j < COUNT; j++)
            acc[j] = __fmaf_rn(a.t[k], d[R + j + k] - d[R + j - 1 - k], acc[j]);
}

/* What a thread keeps of OWN columns along z; plane t is at place t mod 2 R (mod R). */
template <int R> struct past {
    float d[OWN][2 * R]; /* d[t]: sample t less sample t - 1 */
    float x[OWN][R];
    float end[OWN];      /* the sample next to the edge */
};

/* Plane t = AT (mod 2 R) has come: x is plane t - R and acc its sum. */
template <int R, int AT>
__device__ __forceinline__ void along_z(const fused_axis &a, past<R> &p, const float (&v)[OWN],
                                        float (&x)[OWN], float (&acc)[OWN])
{
#pragma unroll
    for (int j = 0; j < OWN; j++) {
        x[j] = p.x[j][AT % R];
        acc[j] = 0;
        p.d[j][AT] = v[j] - p.x[j][(AT + R - 1) % R];
        p.x[j][AT % R] = v[j];
        /* differences of gauss.h: d[i + k] is that of plane t - R + k + 1 here, d[i - 1 - k] that of t - R - k */
#pragma unroll
        for (int k = R - 1; k >= 0; k--)
            acc[j] = __fmaf_rn(a.t[k], p.d[j][(AT + R + k + 1) % (2 * R)] - p.d[j][(AT + R - k) % (2 * R)], acc[j]);
    }
}

template <int R>
__device__ __forceinline__ void along_z(const fused_axis &a, int at, past<R> &p, const float (&v)[OWN],
                                        float (&x)[OWN], float (&acc)[OWN])
{
#define PLACE(AT)                                             \
    case AT:                                                  \
        if constexpr (AT < 2 * R)                             \
            along_z<R, AT>(a, p, v, x, acc);                  \
        break;
    switch (at) {
        PLACE(0) PLACE(1) PLACE(2) PLACE(3) PLACE(4) PLACE(5) PLACE(6) PLACE(7) PLACE(8) PLACE(9) PLACE(10) PLACE(11)
    }
#undef PLACE
}

/* The compiler is to keep x in a register, not to work it out again, and not to work out before a loop what only edges
 * make of it. */
template <class T> __device__ __forceinline__ void keep(T &x)
{
    asm volatile("" : "+r"(x));
}

/* The tile of a block: first those on the border of all chunks, then the others. */
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
    } else { /* first and last row; or no inside: all rows */
        x = i % a.tiles_x;
        y = inner ? i / a.tiles_x * (a.tiles_y - 1) : i / a.tiles_x;
    }
}

/* OWN outputs one below the other. */
__device__ __forceinline__ void store_own(const fused_args &a, long long to, const float (&v)[OWN])
{
    if (a.out_type == VP_F32) {
        float *row = reinterpret_cast<float *>(a.out) + to;
#pragma unroll
        for (int j = 0; j < OWN; j++, row += a.out_pitch)
            __stcs(row, v[j]);
        return;
    }
    const float least = a.out_type == VP_I16 ? -32768 : 0;
    const float most = a.out_type == VP_U8 ? 255 : a.out_type == VP_I16 ? 32767 : 65535;
#pragma unroll
    for (int j = 0; j < OWN; j++, to += a.out_pitch) {
        const int w = to_integer(v[j], least, most);
        if (a.out_type == VP_U8)
            a.out[to] = (char)w;
        else
            reinterpret_cast<unsigned short *>(a.out)[to] = (unsigned short)w;
    }
}

/* Known to the compiler. */
template <bool B> struct choice {
    __device__ constexpr operator bool() const { return B; }
};

template <class Sample, int R>
__global__ void __launch_bounds__(FUSED_THREADS, R <= 2 ? 3 : 2) k_fused(const __grid_constant__ fused_args a)
{
    using H = halo<R>;
    constexpr int STAGE = H::ROWS * H::PITCH, MADE = H::ROWS * MADE_PITCH, ITEMS = H::ROWS * (TILE / RUN);
    constexpr int ZERO = -1, NOTHING = -2, WHOLE = 1, PIECES = 2;
    using slow = choice<false>;
    using quick = choice<true>;
    static_assert(ITEMS <= FUSED_THREADS, "one a thread");
    extern __shared__ __align__(16) char shared_bytes[];
    Sample *const stages = reinterpret_cast<Sample *>(shared_bytes);
    float *const made = reinterpret_cast<float *>(shared_bytes + STAGES * STAGE * sizeof(Sample));
    int *const columns = reinterpret_cast<int *>(made + 2 * MADE); /* where those of a row are taken from */
    const int tid = threadIdx.x, lane = tid % 32, warp = tid / 32;
    int tile_x, tile_y, chunk;
    find_tile(a, blockIdx.x, tile_x, tile_y, chunk);
    const int x0 = a.first_x + tile_x * TILE, y0 = a.out_lo[1] + tile_y * TILE;
    const int z0 = a.out_lo[2] + chunk * a.planes, planes = min(a.planes, a.out_hi[2] - z0) + 2 * R;

    /* the groups of four samples that this thread loads of each plane: as they are, or sample by sample; columns that
     * repeat the image's first or last are made in registers */
    const bool extends = repeats(a.axis[0].rule);
    const char *from[H::GROUPS];
    int load_to[H::GROUPS], kind[H::GROUPS];
    if (tid < 4 * H::FOURS) {
        const int s = edge_from(a.axis[0].rule, x0 - H::FRONT + tid, a.axis[0].n);
        columns[tid] = s < 0 ? ZERO : s >= a.in.lo[0] && s < a.in.hi[0] ? s - a.in.lo[0] : NOTHING;
    }
#pragma unroll
    for (int g = 0; g < H::GROUPS; g++) {
        const int r = (tid + g * FUSED_THREADS) / H::FOURS, c = (tid + g * FUSED_THREADS) % H::FOURS;
        const int x = x0 - H::FRONT + 4 * c, y = edge_from(a.axis[1].rule, y0 - R + r, a.axis[1].n);
        const bool needed = r < H::ROWS && y0 - R + r < min(y0 + TILE, a.out_hi[1]) + R &&
                            x < min(x0 + TILE, a.out_hi[0]) + R && x + 4 > max(x0, a.out_lo[0]) - R;
        const bool whole = x >= a.in.lo[0] &&
                           (x + 4 <= a.in.hi[0] || (x < a.in.hi[0] && (a.in.hi[0] < a.axis[0].n || extends)));
        kind[g] = !needed || y < 0 ? 0 : whole ? WHOLE : extends ? 0 : PIECES;
        load_to[g] = r * H::PITCH + 4 * c;
        from[g] = a.in.data + (long long)sizeof(Sample) *
                                  ((y - a.in.lo[1]) * a.in.pitch + (whole ? x - a.in.lo[0] : 0));
        if (needed && y < 0)
            for (int s = 0; s < STAGES; s++)
                for (int q = 0; q < 4; q++)
                    stages[s * STAGE + load_to[g] + q] = 0;
        keep(load_to[g]);
        keep(kind[g]);
    }
    const long long plane = (long long)sizeof(Sample) * a.in.plane;
    long long plane_at = (z0 - R - 1 - a.in.lo[2]) * plane; /* of the plane loaded last */
    int load_stage = 0;
    const auto load = [&](auto fast, int t) {
        int z = z0 - R + t;
        if (fast) {
            plane_at += plane;
#pragma unroll
            for (int g = 0; g < H::GROUPS; g++)
                if ((g + 1) * FUSED_THREADS <= H::ROWS * H::FOURS || kind[g])
                    copy_async<4 * sizeof(Sample)>(stages + load_stage + load_to[g], from[g] + plane_at);
        } else if (t < planes) {
            plane_at += plane;
            if (z <= 0 || z >= a.axis[2].n) {
                z = edge_from(a.axis[2].rule, z, a.axis[2].n);
                plane_at = (z - a.in.lo[2]) * plane;
            }
#pragma unroll
            for (int g = 0; g < H::GROUPS; g++) {
                Sample *const to = stages + load_stage + load_to[g];
                if (kind[g] == WHOLE && z >= 0) {
                    copy_async<4 * sizeof(Sample)>(to, from[g] + plane_at);
                } else if (kind[g]) {
#pragma unroll 1
                    for (int q = 0; q < 4; q++) {
                        const int c = (tid + g * FUSED_THREADS) % H::FOURS, s = z < 0 ? ZERO : columns[4 * c + q];
                        const Sample *const p = reinterpret_cast<const Sample *>(from[g] + plane_at) + s;
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
        asm volatile("cp.async.commit_group;" ::: "memory");
        load_stage = load_stage == (STAGES - 1) * STAGE ? 0 : load_stage + STAGE;
    };

    /* along x: other warps in blocks that are neighbours on a multiprocessor */
    const int item = (tid + 32 * (blockIdx.x / 4)) % FUSED_THREADS;
    const int item_x = x0 + item % (TILE / RUN) * RUN;
    const bool edge_x = extends && (item_x < R || item_x + RUN > a.axis[0].n - R);
    int x_from = item / (TILE / RUN) * H::PITCH + item % (TILE / RUN) * RUN, x_stage = 0;
    int x_to = item / (TILE / RUN) * MADE_PITCH + item % (TILE / RUN) * RUN, made_x = 0;
    keep(x_from);
    keep(x_to);
    const auto along_x = [&](auto fast) {
        const Sample *const p = stages + x_stage + x_from;
        float v[RUN + 2 * H::FRONT], acc[RUN];
#pragma unroll
        for (int q = 0; q < RUN + 2 * H::FRONT; q += 4) {
            const float4 f = four_of(p + q, a);
            v[q] = f.x;
            v[q + 1] = f.y;
            v[q + 2] = f.z;
            v[q + 3] = f.w;
        }
        float first = 0, last = 0;
        if (!fast && edge_x) {
            const int n = a.axis[0].n;
            int i = item_x;
            keep(i);
            if (i < R)
                first = one_of(p + H::FRONT - i, a);
            if (i + RUN > n - R)
                last = one_of(p + H::FRONT + (n - 1 - i), a);
#pragma unroll
            for (int q = H::FRONT - R; q < H::FRONT + RUN + R; q++)
                v[q] = i - H::FRONT + q < 0 ? first : i - H::FRONT + q >= n ? last : v[q];
        }
        sums_of<R>(a.axis[0], v + H::FRONT - R, acc);
        if (!fast && edge_x && a.axis[0].clip) {
            int i = item_x;
            keep(i);
#pragma unroll
            for (int j = 0; j < RUN; j++)
                acc[j] = finish(a.axis[0], R, i + j, first, last, v[H::FRONT + j], acc[j]);
        } else {
#pragma unroll
            for (int j = 0; j < RUN; j++)
                acc[j] = v[H::FRONT + j] + acc[j];
        }
        float4 *const to = reinterpret_cast<float4 *>(made + made_x + x_to);
        to[0] = make_float4(acc[0], acc[1], acc[2], acc[3]);
        to[1] = make_float4(acc[4], acc[5], acc[6], acc[7]);
    };

    const int x = x0 + lane, y = y0 + OWN * warp, rows = min(OWN, a.out_hi[1] - y);
    const bool column = x >= a.out_lo[0] && x < a.out_hi[0], edge_y = near(a.axis[1], R, y, OWN);
    const bool plain = !a.highpass && rows == OWN;
    const bool interior = !a.highpass && x0 >= max(a.out_lo[0], R) &&
                          x0 + TILE <= min(a.out_hi[0], a.axis[0].n - R) && x0 - H::FRONT >= a.in.lo[0] &&
                          (x0 + TILE + H::FRONT <= a.in.hi[0] || a.in.hi[0] < a.axis[0].n) && y0 >= R &&
                          y0 + TILE <= min(a.out_hi[1], a.axis[1].n - R);
    /* planes of which the last and the next are z: their outputs are ordinary ones */
    const int z_end = a.axis[2].n - 1, clip_lo = a.axis[2].clip ? R : -FAR, clip_hi = a.axis[2].clip ? z_end - R : FAR;
    long long to = (z0 - a.out_lo[2]) * a.out_plane + (y - a.out_lo[1]) * a.out_pitch + (x - a.out_lo[0]);
    int y_from = OWN * warp * MADE_PITCH + lane, at = 0;
    keep(y_from);
    past<R> p = {};
#pragma unroll 1
    for (int t = 0; t < 2; t++) {
        __syncthreads();
        load(slow(), t);
    }
    asm volatile("cp.async.wait_group 1;" ::: "memory");
    __syncthreads();
    int t = -1;
    const auto march = [&](auto fast, int end) {
#pragma unroll 1
        for (; t < end; t++) {
            load(fast, t + 3);
            if (fast || (t >= 0 && rows > 0)) {
                const float *const q = made + (MADE - made_x) + y_from;
                float v[OWN + 2 * R], w[OWN], centre[OWN], out[OWN];
#pragma unroll
                for (int r = 0; r < OWN + 2 * R; r++)
                    v[r] = q[r * MADE_PITCH];
                sums_of<R>(a.axis[1], v, w);
                if (!fast && edge_y) {
                    int i = y;
                    keep(i);
                    const float first = i < R ? q[(R - i) * MADE_PITCH] : 0;
                    const float last = i + OWN > a.axis[1].n - R ? q[(R + a.axis[1].n - 1 - i) * MADE_PITCH] : 0;
#pragma unroll
                    for (int j = 0; j < OWN; j++)
                        w[j] = finish(a.axis[1], R, i + j, first, last, v[R + j], w[j]);
                } else {
#pragma unroll
                    for (int j = 0; j < OWN; j++)
                        w[j] = v[R + j] + w[j];
                }
                along_z<R>(a.axis[2], at, p, w, centre, out);
                at = at == 2 * R - 1 ? 0 : at + 1;
                const int z = z0 + t - 2 * R; /* is made now; z + R has come */
                if (!fast && (z < clip_lo || z > clip_hi)) {
#pragma unroll
                    for (int j = 0; j < OWN; j++)
                        out[j] = finish(a.axis[2], R, z, p.end[j], p.end[j], centre[j], out[j]);
                } else {
#pragma unroll
                    for (int j = 0; j < OWN; j++)
                        out[j] = centre[j] + out[j];
                }
                if (!fast && (z + R <= 0 || z + R >= z_end))
#pragma unroll
                    for (int j = 0; j < OWN; j++)
                        p.end[j] = w[j];
                if (fast || t >= 2 * R) {
                    if (fast || (plain && column)) {
                        store_own(a, to, out);
                    } else if (column) {
                        int i = y;
                        keep(i);
                        const long long at_in = (z - a.in.lo[2]) * a.in.plane + (i - a.in.lo[1]) * a.in.pitch +
                                                (x - a.in.lo[0]);
#pragma unroll
                        for (int j = 0; j < OWN; j++)
                            if (j < rows) {
                                if (a.highpass)
                                    out[j] = load_sample(a.in.data, at_in + j * a.in.pitch, a.in.type) - out[j];
                                store_sample(a.out, to + j * a.out_pitch, a.out_type, out[j]);
                            }
                    }
                    to += a.out_plane;
                }
            }
            if ((fast || t + 1 < planes) && item < ITEMS)
                along_x(fast);
            x_stage = x_stage == (STAGES - 1) * STAGE ? 0 : x_stage + STAGE;
            made_x = MADE - made_x;
            asm volatile("cp.async.wait_group 1;" ::: "memory");
            __syncthreads();
        }
    };
    /* planes t of which nothing is near an edge, in a tile of which nothing is */
    const int fast_from = max(max(2 * R, clip_lo - z0 + 2 * R), R + 1 - z0);
    const int fast_end = min(min(planes - 3, clip_hi - z0 + 2 * R + 1), z_end - z0 + R - 2);
    int end = interior && fast_from < fast_end ? fast_from : planes;
#pragma unroll 1
    for (;;) {
        march(slow(), end);
        if (end == planes)
            break;
        march(quick(), fast_end);
        end = planes;
    }
}

/* Planes of a block: enough blocks for those at the image's edges, which take longer, to find others beside them, of
 * which `resident` are worked on at a time; but few planes that are done twice. */
int block_planes(int64_t tiles, int n, int radius, int64_t resident)
{
    int best = n;
    double least = 1e300;

    for (int chunks = 1; chunks <= 64; chunks++) {
        const int planes = (n + chunks - 1) / chunks;
        const int64_t blocks = tiles * ((n + planes - 1) / planes);
        const double turns = blocks <= resident ? 1.4 : (double)blocks / (double)resident + 0.5;
        const double time = turns * (planes + 2 * radius + STAGES);
        if (time < least) {
            least = time;
            best = planes;
        }
    }
    return best;
}

template <class Sample, int R> int launch(fused_args &a, const vp_gpu_args *args, vp_err *err)
{
    void (*const kernel)(fused_args) = k_fused<Sample, R>;
    const int64_t tiles = (int64_t)a.tiles_x * a.tiles_y;
    const int n = a.out_hi[2] - a.out_lo[2];
    int each = 1;

    const int shared = (int)fused_shared<Sample, R>();
    cudaError_t e = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared);
    if (e == cudaSuccess)
        e = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, kernel, FUSED_THREADS, shared);
    if (e != cudaSuccess)
        return vp_gpu_fail(err, e, "cannot start a CUDA kernel");
    a.planes = block_planes(tiles, n, R, (int64_t)std::max(each, 1) * args->sms);
    a.chunks = (n + a.planes - 1) / a.planes;
    const int64_t blocks = tiles * a.chunks;
    kernel<<<(unsigned)blocks, FUSED_THREADS, shared, args->stream>>>(a);
    return 0;
}

template <class Sample> int launch(int radius, fused_args &a, const vp_gpu_args *args, vp_err *err)
{
    switch (radius) {
    case 1: return launch<Sample, 1>(a, args, err);
    case 2: return launch<Sample, 2>(a, args, err);
    case 3: return launch<Sample, 3>(a, args, err);
    case 4: return launch<Sample, 4>(a, args, err);
    case 5: return launch<Sample, 5>(a, args, err);
    default: return launch<Sample, 6>(a, args, err);
    }
}

}

bool fused_does(const vp_local *op, const separable &s)
{
    const int radius = s.filter[0][0]->radius;
    if (s.filters != 1 || radius < 1 || radius > FUSED_LONGEST)
        return false;
    for (int a = 0; a < 3; a++) {
        const vp_taps *t = s.filter[a][0];
        if (t->order != 0 || t->radius != radius || (t->edge == VP_EDGE_RENORMALIZE && op->image[a] < 2 * radius))
            return false;
    }
    return true;
}

int fused_launch(const vp_local *op, const separable &s, const vp_gpu_args *args, vp_err *err)
{
    const vp_gpu_part &in = *args->in, &out = *args->out;
    const int radius = s.filter[0][0]->radius;
    fused_args a = {};
    a.in = view_of(&in, op->in);
    const view to = view_of(&out, op->out);
    a.out = (char *)out.data;
    a.out_pitch = to.pitch;
    a.out_plane = to.plane;
    a.out_type = to.type;
    for (int i = 0; i < 3; i++) {
        const vp_taps *t = s.filter[i][0];
        const axis ax = axis_of(op, t, i);
        a.out_lo[i] = to.lo[i];
        a.out_hi[i] = to.hi[i];
        a.axis[i].n = ax.n;
        a.axis[i].rule = ax.rule;
        a.axis[i].clip = t->scale;
        for (int k = 0; k < radius; k++) {
            a.axis[i].t[k] = t->t[k];
            a.axis[i].outside[k] = -t->t[k];
            a.axis[i].scale[k] = t->scale ? t->scale[k] : 0;
        }
    }
    a.first_x = to.lo[0] - (to.lo[0] - a.in.lo[0]) % 4; /* groups of four that are aligned */
    a.tiles_x = (to.hi[0] - a.first_x + TILE - 1) / TILE;
    a.tiles_y = (to.hi[1] - to.lo[1] + TILE - 1) / TILE;
    a.highpass = s.highpass;
    if (op->in == VP_I16) {
        a.flip = 0x80008000u;
        a.offset = -32768;
    }
    switch (op->in) {
    case VP_U8: return launch<unsigned char>(radius, a, args, err);
    case VP_U16:
    case VP_I16: return launch<unsigned short>(radius, a, args, err);
    default: return launch<float>(radius, a, args, err);
    }
}

}
