/* SPDX-License-Identifier: BSD-3-Clause */
/* Median and percentiles: kernel "rank" of ops/rank.h. Samples are selected as integer keys in the order of
 * the samples, so the result is the CPU's to the bit.
 *
 * The median of 3 x 3 x 3 and 3 x 3 is a network, which neighbouring voxels share where all samples exist.
 * Everything else is a search for the key: how many samples are not above a pivot, what the largest of those
 * is and the smallest of the others, tells on which side the wanted one lies, and often which it is. A thread
 * walks along a line of voxels, where the rank's key changes little: the last one is the first pivot, and the
 * distance between neighbouring keys is learnt on the way. */
#include "footprint.cuh"
#include "ops/rank.h"

#include <cstdio>

namespace
{

/* ---- keys ---- */

__device__ __forceinline__ int key(uint8_t v)
{
    return v;
}
__device__ __forceinline__ int key(uint16_t v)
{
    return v;
}
__device__ __forceinline__ int key(int16_t v)
{
    return v;
}
__device__ __forceinline__ int key(float v)
{
    /* a multiplication makes one NaN of all, 0x7fffffff, and changes nothing else */
    asm("fma.rn.f32 %0, %1, 0f3f800000, 0f80000000;" : "=f"(v) : "f"(v));
    const int b = __float_as_int(v);
    return b ^ (b >> 31 & 0x7fffffff);
}

template <class S> struct keys;
template <> struct keys<uint8_t> {
    enum { LEAST = 0, MOST = 255 };
    static __device__ uint8_t value(int k) { return (uint8_t)k; }
};
template <> struct keys<uint16_t> {
    enum { LEAST = 0, MOST = 65535 };
    static __device__ uint16_t value(int k) { return (uint16_t)k; }
};
template <> struct keys<int16_t> {
    enum { LEAST = -32768, MOST = 32767 };
    static __device__ int16_t value(int k) { return (int16_t)k; }
};
template <> struct keys<float> {
    enum { LEAST = -0x7fffffff - 1, MOST = 0x7fffffff };
    static __device__ float value(int k)
    {
        k = min(k, 0x7fc00000);
        return __int_as_float(k ^ (k >> 31 & 0x7fffffff));
    }
};

/* ---- the median of 27, in integers ----
 * Three networks: sort the triples along z (each serves three neighbours in x), sort the nine of a plane y =
 * const from three triples (each serves three neighbours in y), select the 14th of three sorted nines: of
 * their elementwise sorted triples only 13 can be it. Checked with all 0-1 inputs (Knuth 5.3.4). 78
 * operations a voxel where three-way minima are one instruction. */

__device__ __forceinline__ void order(int &a, int &b)
{
    const int t = min(a, b);
    b = max(a, b);
    a = t;
}

__device__ __forceinline__ void order3(int &a, int &b, int &c)
{
    const int lo = __vimin3_s32(a, b, c), hi = __vimax3_s32(a, b, c);
    b = (a ^ b ^ c) ^ lo ^ hi;
    a = lo;
    c = hi;
}

__device__ __forceinline__ int middle3(int a, int b, int c)
{
    return max(min(a, b), min(max(a, b), c));
}

/* s: nine ascending, from three ascending triples. */
__device__ __forceinline__ void sort9(const int (&p)[3], const int (&q)[3], const int (&r)[3], int (&s)[9])
{
    int m[3][3];
#pragma unroll
    for (int i = 0; i < 3; i++) {
        m[i][0] = p[i];
        m[i][1] = q[i];
        m[i][2] = r[i];
        order3(m[i][0], m[i][1], m[i][2]);
    }
    /* rows and columns ascend: the diagonals from corner to corner are nearly in order */
    order(m[0][1], m[1][0]);
    order(m[1][2], m[2][1]);
    order(m[0][2], m[2][0]);
    order(m[1][0], m[0][2]);
    order(m[2][0], m[1][2]);
    order(m[0][2], m[1][1]);
    order(m[1][1], m[2][0]);
    s[0] = m[0][0], s[1] = m[0][1], s[2] = m[1][0];
    s[3] = m[0][2], s[4] = m[1][1], s[5] = m[2][0];
    s[6] = m[1][2], s[7] = m[2][1], s[8] = m[2][2];
}

__device__ __forceinline__ int median27(const int (&a)[9], const int (&b)[9], const int (&c)[9])
{
    int v[8], q[5];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        v[i] = __vimin3_s32(a[5 + i], b[5 + i], c[5 + i]);
        v[4 + i] = __vimax3_s32(a[i], b[i], c[i]);
    }
#pragma unroll
    for (int i = 0; i < 5; i++)
        q[i] = middle3(a[2 + i], b[2 + i], c[2 + i]);
    /* merge 4 + 4 (Batcher); of the 13, the 7th is wanted */
    order(v[0], v[4]);
    order(v[2], v[6]);
    order(v[2], v[4]);
    order(v[1], v[5]);
    order(v[3], v[7]);
    order(v[3], v[5]);
    order(v[1], v[2]);
    order(v[3], v[4]);
    order(v[5], v[6]);
    const int x = __vimin3_s32(v[6], max(v[5], q[0]), max(v[4], q[1]));
    return min(__vimin3_s32(x, max(v[3], q[2]), max(v[2], q[3])), max(v[1], q[4]));
}

/* What the lanes on both sides hold. */
__device__ __forceinline__ void neighbours(const int (&own)[3], int (&left)[3], int (&right)[3])
{
#pragma unroll
    for (int k = 0; k < 3; k++) {
        left[k] = __shfl_up_sync(~0u, own[k], 1);
        right[k] = __shfl_down_sync(~0u, own[k], 1);
    }
}

enum { MEDIAN_ROWS = 32, MEDIAN_PLANES = 4, MEDIAN_LANES = 30 };

/* A warp takes 30 outputs in x (lanes 0 and 31 only bring their triples) and walks MEDIAN_ROWS rows in y; the
 * warps of a thread block lie above one another in z, so that most reads hit the first cache. `box` lies at
 * least one voxel inside the image. */
template <class S>
__global__ void __launch_bounds__(32 * MEDIAN_PLANES)
    median27_kernel(vp_area in, vp_area out, struct vp_box box)
{
    const int lane = threadIdx.x;
    const int64_t x = box.lo[0] + (int64_t)blockIdx.x * MEDIAN_LANES + lane - 1;
    const int64_t z = box.lo[2] + (int64_t)blockIdx.z * MEDIAN_PLANES + threadIdx.y;
    const int64_t y0 = box.lo[1] + (int64_t)blockIdx.y * MEDIAN_ROWS;
    if (z >= box.hi[2])
        return; /* a whole warp */
    const int rows = (int)min((int64_t)MEDIAN_ROWS, box.hi[1] - y0);
    const bool stores = lane > 0 && lane < 31 && x < box.hi[0];
    /* lanes beyond the part read its last column: they feed nobody */
    const int64_t from = min(x, in.box.hi[0] - 1);
    const S *p = vp_at<S>(in, from, y0 - 1, z);
    S *q = vp_at<S>(out, x, y0, z);
    int s[3][9];

#pragma unroll 3
    for (int i = 0; i < rows + 2; i++) {
        int own[3] = {key(p[-in.plane]), key(p[0]), key(p[in.plane])}, left[3], right[3];
        p += in.pitch;
        order3(own[0], own[1], own[2]);
        neighbours(own, left, right);
#pragma unroll
        for (int k = 0; k < 9; k++) {
            s[0][k] = s[1][k];
            s[1][k] = s[2][k];
        }
        sort9(left, own, right, s[2]);
        if (i >= 2) {
            const int m = median27(s[0], s[1], s[2]);
            if (stores)
                *q = keys<S>::value(m);
            q += out.pitch;
        }
    }
}

__device__ __forceinline__ int median9(const int (&a)[3], const int (&b)[3], const int (&c)[3])
{
    return middle3(__vimax3_s32(a[0], b[0], c[0]), middle3(a[1], b[1], c[1]), __vimin3_s32(a[2], b[2], c[2]));
}

/* The same in a plane; warps of a thread block lie beside one another in y. */
template <class S>
__global__ void __launch_bounds__(32 * MEDIAN_PLANES) median9_kernel(vp_area in, vp_area out, struct vp_box box)
{
    const int lane = threadIdx.x;
    const int64_t x = box.lo[0] + (int64_t)blockIdx.x * MEDIAN_LANES + lane - 1, z = box.lo[2] + blockIdx.z;
    const int64_t y0 = box.lo[1] + ((int64_t)blockIdx.y * MEDIAN_PLANES + threadIdx.y) * MEDIAN_ROWS;
    if (y0 >= box.hi[1])
        return;
    const int rows = (int)min((int64_t)MEDIAN_ROWS, box.hi[1] - y0);
    const bool stores = lane > 0 && lane < 31 && x < box.hi[0];
    const S *p = vp_at<S>(in, min(x, in.box.hi[0] - 1), y0 - 1, z);
    S *q = vp_at<S>(out, x, y0, z);
    int a = key(p[0]), b = key(p[in.pitch]);

    p += 2 * in.pitch;
#pragma unroll 4
    for (int i = 0; i < rows; i++) {
        const int c = key(*p);
        int own[3] = {a, b, c}, left[3], right[3];
        order3(own[0], own[1], own[2]);
        neighbours(own, left, right);
        const int m = median9(left, own, right);
        if (stores)
            *q = keys<S>::value(m);
        a = b;
        b = c;
        p += in.pitch;
        q += out.pitch;
    }
}

/* The same where samples are missing. Of n samples that exist the wanted one is at place q: the others are
 * made up, below and above all, so that it is in the middle again. */
struct faces {
    struct vp_box box[6];
    int64_t end[6]; /* voxels of the boxes up to this one */
};

template <class S, bool PLANE>
__global__ void __launch_bounds__(128) median_edge_kernel(vp_area in, vp_area out, faces f, int64_t millionths)
{
    enum { DEPTH = PLANE ? 1 : 3, ALL = 9 * DEPTH };
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= f.end[5])
        return;
    struct vp_box b = f.box[0];
    int64_t begin = 0;
#pragma unroll
    for (int k = 1; k < 6; k++)
        if (i >= f.end[k - 1]) {
            b = f.box[k];
            begin = f.end[k - 1];
        }
    i -= begin;
    const int64_t nx = b.hi[0] - b.lo[0], ny = b.hi[1] - b.lo[1];
    const int64_t x = b.lo[0] + i % nx, y = b.lo[1] + i / nx % ny, z = b.lo[2] + i / nx / ny;
    int v[DEPTH][3][3];
    bool there[DEPTH][3][3];
    int n = 0;
#pragma unroll
    for (int k = 0; k < ALL; k++) {
        const int64_t sx = x + k % 3 - 1, sy = y + k / 3 % 3 - 1, sz = z + (PLANE ? 0 : k / 9 - 1);
        const bool is = sx >= in.box.lo[0] && sx < in.box.hi[0] && sy >= in.box.lo[1] && sy < in.box.hi[1] &&
                        sz >= in.box.lo[2] && sz < in.box.hi[2];
        there[k / 9][k / 3 % 3][k % 3] = is;
        n += is;
        v[k / 9][k / 3 % 3][k % 3] = is ? key(*vp_at<S>(in, sx, sy, sz)) : 0;
    }
    int low = ALL / 2 - (int)vp_rank_index(millionths, n);
#pragma unroll
    for (int k = 0; k < ALL; k++)
        if (!there[k / 9][k / 3 % 3][k % 3])
            v[k / 9][k / 3 % 3][k % 3] = low-- > 0 ? (int)keys<S>::LEAST : (int)keys<S>::MOST;
    int s[DEPTH][9];
#pragma unroll
    for (int k = 0; k < DEPTH; k++) {
#pragma unroll
        for (int r = 0; r < 3; r++)
            order3(v[k][r][0], v[k][r][1], v[k][r][2]);
        if (!PLANE)
            sort9(v[k][0], v[k][1], v[k][2], s[k]);
    }
    const int m = PLANE ? median9(v[0][0], v[0][1], v[0][2]) : median27(s[0], s[DEPTH / 2], s[DEPTH - 1]);
    *vp_at<S>(out, x, y, z) = keys<S>::value(m);
}

/* ---- any rank of any window ---- */

enum { ABSENT = 0x7fffffff }; /* the key of a sample that does not exist; what has the same is a NaN */

/* Keys around the voxels of a thread block. */
struct window {
    const int *key; /* of the window's corner (of a ball: of its middle) */
    int pitch, plane;
    int3 reach;
    const int4 *span; /* ball */
    int spans;
};

/* Keys not above a pivot: how many, the largest; and the smallest of the others. */
struct found {
    int count, below, above;

    __device__ __forceinline__ void look(int k, int pivot)
    {
        const bool is = k <= pivot;
        count += is;
        below = is ? max(below, k) : below;
        above = is ? above : min(above, k);
    }
};

/* W: 2 reach.x + 1, 0: any; -1: a ball. */
template <int W> __device__ __forceinline__ found look_at(const window &w, int pivot)
{
    found f = {0, -0x7fffffff - 1, ABSENT};
    if constexpr (W < 0) {
        for (int l = 0; l < w.spans; l++) {
            const int4 e = __ldg(w.span + l); /* dz, dy, x0, x1 */
            const int *const k = w.key + e.x * w.plane + e.y * w.pitch;
            for (int i = e.z; i <= e.w; i++)
                f.look(k[i], pivot);
        }
    } else {
        for (int z = 0; z <= 2 * w.reach.z; z++) {
            const int *k = w.key + z * w.plane;
#pragma unroll(W > 0 ? 3 : 1)
            for (int y = 0; y <= 2 * w.reach.y; y++, k += w.pitch) {
                if constexpr (W > 0) {
#pragma unroll
                    for (int i = 0; i < W; i++)
                        f.look(k[i], pivot);
                } else {
#pragma unroll 4
                    for (int i = 0; i <= 2 * w.reach.x; i++)
                        f.look(k[i], pivot);
                }
            }
        }
    }
    return f;
}

/* What a thread remembers from one voxel to the next. */
struct memory {
    int pivot;
    float gap; /* between keys of neighbouring rank, 0: nothing is known yet */
};

/* a + b without overflow. */
__device__ __forceinline__ int moved(int a, float b)
{
    const float most = 2147483520.f;
    return (int)min(max((int64_t)a + (int64_t)min(max(b, -2 * most), 2 * most), (int64_t)(-0x7fffffff - 1)),
                    (int64_t)0x7fffffff);
}

/* The key at `place` of the sorted window: that of a sample in [lo, hi]. As soon as they are known lo is at
 * place `less` and hi at `more` - 1. A pivot is where the wanted key is expected; every fourth is the middle,
 * so that an end is near whatever the keys are. */
template <int W> __device__ __forceinline__ int search(const window &w, int place, memory &m)
{
    int lo = -0x7fffffff - 1, hi = ABSENT, less = -1, more = -1, pivot = m.pivot;

    for (int turn = 1; lo < hi; turn++) {
        const found f = look_at<W>(w, pivot);
        const bool down = f.count > place;
        if (down) {
            hi = f.below;
            more = f.count;
        } else {
            lo = f.above;
            less = f.count;
        }
        if (f.count == place || f.count == place + 1) {
            lo = down ? hi : lo;
            break;
        }
        if (less >= 0 && more >= 0)
            m.gap = (float)((unsigned)hi - (unsigned)lo) / (float)max(more - less - 1, 1);
        else if (turn > 1)
            m.gap *= 2; /* that was not far enough */
        if (turn % 4 == 0 || m.gap == 0)
            pivot = lo + (int)(((unsigned)hi - (unsigned)lo) >> 1);
        else
            pivot = down ? moved(hi, (float)(place - more + 1) * m.gap) : moved(lo, (float)(place - less) * m.gap);
        pivot = max(min(pivot, hi - 1), lo);
    }
    m.pivot = lo;
    return lo;
}

enum { TILE_X = 32, TILE_Y = 8 };

struct any_job {
    vp_area in, out;
    struct vp_box box;
    int3 reach;
    const int4 *span;
    int spans;
    int64_t count; /* samples where none is missing */
    int64_t millionths;
    int64_t image[3];
    int walk;  /* voxels of a thread, */
    bool flat; /* along y, else along z */
    bool tiled;
};

__device__ int64_t samples_at(const any_job &j, bool ball, int64_t x, int64_t y, int64_t z)
{
    if (x >= j.reach.x && x + j.reach.x < j.image[0] && y >= j.reach.y && y + j.reach.y < j.image[1] &&
        z >= j.reach.z && z + j.reach.z < j.image[2])
        return j.count;
    if (!ball)
        return (min(x + j.reach.x, j.image[0] - 1) - max(x - j.reach.x, (int64_t)0) + 1) *
               (min(y + j.reach.y, j.image[1] - 1) - max(y - j.reach.y, (int64_t)0) + 1) *
               (min(z + j.reach.z, j.image[2] - 1) - max(z - j.reach.z, (int64_t)0) + 1);
    int64_t n = 0;
    for (int l = 0; l < j.spans; l++) {
        const int4 e = __ldg(j.span + l);
        if (z + e.x >= 0 && z + e.x < j.image[2] && y + e.y >= 0 && y + e.y < j.image[1])
            n += max(min(x + e.w, j.image[0] - 1) - max(x + e.z, (int64_t)0) + 1, (int64_t)0);
    }
    return n;
}

/* A thread block makes TILE_X x TILE_Y walks, from keys in shared memory. */
template <class S, int W> __global__ void __launch_bounds__(TILE_X *TILE_Y) tile_kernel(any_job j)
{
    extern __shared__ int tile[];
    const int rows = j.flat ? TILE_Y * j.walk : TILE_Y, depth = j.flat ? 1 : j.walk;
    const int pitch = TILE_X + 2 * j.reach.x, ny = rows + 2 * j.reach.y, nz = depth + 2 * j.reach.z;
    const int64_t x0 = j.box.lo[0] + (int64_t)blockIdx.x * TILE_X, y0 = j.box.lo[1] + (int64_t)blockIdx.y * rows;
    const int tx = threadIdx.x, ty = threadIdx.y;
    window w;
    memory m = {0, 0};

    w.pitch = pitch;
    w.plane = pitch * ny;
    w.reach = j.reach;
    w.span = j.span;
    w.spans = j.spans;
    for (int64_t turn = blockIdx.z; j.box.lo[2] + turn * depth < j.box.hi[2]; turn += gridDim.z) {
        const int64_t z0 = j.box.lo[2] + turn * depth;
        __syncthreads();
        for (int r = ty; r < ny * nz; r += TILE_Y) {
            const int64_t y = y0 - j.reach.y + r % ny, z = z0 - j.reach.z + r / ny;
            const bool there = y >= j.in.box.lo[1] && y < j.in.box.hi[1] && z >= j.in.box.lo[2] && z < j.in.box.hi[2];
            for (int i = tx; i < pitch; i += TILE_X) {
                const int64_t x = x0 - j.reach.x + i;
                tile[r * pitch + i] =
                    there && x >= j.in.box.lo[0] && x < j.in.box.hi[0] ? key(*vp_at<S>(j.in, x, y, z)) : (int)ABSENT;
            }
        }
        __syncthreads();
        for (int i = 0; i < j.walk; i++) {
            const int row = j.flat ? ty * j.walk + i : ty, deep = j.flat ? 0 : i;
            const int64_t x = x0 + tx, y = y0 + row, z = z0 + deep;
            if (x >= j.box.hi[0] || y >= j.box.hi[1] || z >= j.box.hi[2])
                continue;
            w.key = tile + deep * w.plane + row * pitch + tx;
            if (W < 0)
                w.key += j.reach.z * w.plane + j.reach.y * pitch + j.reach.x;
            const int place = (int)vp_rank_index(j.millionths, samples_at(j, W < 0, x, y, z));
            *vp_at<S>(j.out, x, y, z) = keys<S>::value(search<W>(w, place, m));
        }
    }
}

/* Windows that do not fit there: bit by bit, from the input itself. */
template <class S, bool BALL>
__device__ int64_t count_up_to(const any_job &j, int64_t x, int64_t y, int64_t z, int most)
{
    int64_t below = 0;
    const int64_t last = j.in.box.hi[0] - 1;
    const int rows = 2 * j.reach.y + 1, lines = BALL ? j.spans : rows * (2 * j.reach.z + 1);

    for (int l = 0; l < lines; l++) {
        const int dz = BALL ? j.span[l].x : l / rows - j.reach.z, dy = BALL ? j.span[l].y : l % rows - j.reach.y;
        const int64_t sz = z + dz, sy = y + dy;
        if (sz < j.in.box.lo[2] || sz >= j.in.box.hi[2] || sy < j.in.box.lo[1] || sy >= j.in.box.hi[1])
            continue;
        const int64_t x0 = max(x + (BALL ? j.span[l].z : -j.reach.x), j.in.box.lo[0]);
        const int n = (int)(min(x + (BALL ? j.span[l].w : j.reach.x), last) - x0) + 1;
        const S *const row = vp_at<S>(j.in, x0, sy, sz);
        int here = 0;
#pragma unroll 8
        for (int i = 0; i < n; i++)
            here += key(row[i]) <= most;
        below += here;
    }
    return below;
}

template <class S, bool BALL> __global__ void __launch_bounds__(256) any_kernel(any_job j)
{
    int64_t x, y;
    if (!vp_own_column(j.box, x, y))
        return;
    for (int64_t z = j.box.lo[2] + blockIdx.z; z < j.box.hi[2]; z += gridDim.z) {
        const int64_t place = vp_rank_index(j.millionths, samples_at(j, BALL, x, y, z));
        int lo = keys<S>::LEAST, hi = keys<S>::MOST;
        while (lo < hi) {
            const int middle = lo + (int)((unsigned)(hi - lo) >> 1);
            if (count_up_to<S, BALL>(j, x, y, z, middle) > place)
                hi = middle;
            else
                lo = middle + 1;
        }
        *vp_at<S>(j.out, x, y, z) = keys<S>::value(lo);
    }
}

/* ---- host ---- */

constexpr auto params = vp_params<vp_rank_params>;

bool has(const struct vp_local *op, char *why, size_t size)
{
    if (op->in == op->out && (VP_RANK_TYPES & 1u << op->in))
        return true;
    snprintf(why, size, "no kernel for %s", vp_type_name(op->in));
    return false;
}

template <class S, int W> int tiles(const any_job &j, size_t shared, const struct vp_work *args, struct vp_err *err)
{
    const dim3 grid((unsigned)vp_groups(vp_box_size(&j.box, 0), TILE_X),
                    (unsigned)vp_groups(vp_box_size(&j.box, 1), TILE_Y * (j.flat ? j.walk : 1)),
                    vp_grid_depth(vp_groups(vp_box_size(&j.box, 2), j.flat ? 1 : j.walk)));
    return vp_start(err, args->queue->stream, tile_kernel<S, W>, grid, dim3(TILE_X, TILE_Y), shared, j);
}

/* For walks of so many voxels. */
size_t tile_bytes(const any_job &j, int walk)
{
    const double bytes = sizeof(int) * (TILE_X + 2. * j.reach.x) * (TILE_Y * (j.flat ? walk : 1) + 2. * j.reach.y) *
                         ((j.flat ? 1 : walk) + 2. * j.reach.z);
    return bytes < 1 << 30 ? (size_t)bytes : (size_t)1 << 30;
}

template <class S> int any(const struct vp_local *op, const struct vp_work *args, struct vp_err *err)
{
    const struct vp_rank_params *p = params(op);
    const bool ball = p->f.shape == VP_BALL;
    any_job j = {};

    j.in = args->in[0];
    j.out = *args->out;
    j.box = args->out->box;
    /* spans of a ball are not cut to the image: the tile holds them all */
    j.reach = ball ? make_int3((int)p->f.reach[0], (int)p->f.reach[1], (int)p->f.reach[2]) : vp_reach(&p->f, op->image);
    j.span = ball ? (const int4 *)args->table : NULL;
    j.spans = (int)p->f.spans;
    j.count = p->f.count;
    j.millionths = p->millionths;
    for (int a = 0; a < 3; a++)
        j.image[a] = op->image[a];
    j.flat = j.reach.z == 0;
    /* long walks read the halo less often, short ones leave room for more thread blocks */
    const size_t most = vp_shared_most();
    j.walk = 8;
    while (j.walk > 1 && tile_bytes(j, j.walk) > most / 5)
        j.walk /= 2;
    const size_t shared = tile_bytes(j, j.walk);
    if (shared <= most) {
        return ball             ? tiles<S, -1>(j, shared, args, err)
               : j.reach.x == 1 ? tiles<S, 3>(j, shared, args, err)
               : j.reach.x == 2 ? tiles<S, 5>(j, shared, args, err)
               : j.reach.x == 3 ? tiles<S, 7>(j, shared, args, err)
                                : tiles<S, 0>(j, shared, args, err);
    }
    const vp_grid_of g(j.box);
    return vp_start(err, args->queue->stream, ball ? any_kernel<S, true> : any_kernel<S, false>, g.grid, g.threads, 0, j);
}

template <class S> int run(const struct vp_local *op, const struct vp_work *args, struct vp_err *err)
{
    const struct vp_footprint *f = &params(op)->f;
    const int64_t millionths = params(op)->millionths;
    const bool plane = f->reach[2] == 0;
    struct vp_box inner;
    faces edge;
    int64_t n = 0;

    if (f->shape != VP_BOX || millionths != 50000000 || f->reach[0] != 1 || f->reach[1] != 1 || f->reach[2] > 1)
        return any<S>(op, args, err);
    vp_split(op->image, f->reach, &args->out->box, &inner, edge.box);
    for (int i = 0; i < 6; i++) {
        const struct vp_box *b = &edge.box[i];
        n += vp_box_empty(b) ? 0 : vp_box_size(b, 0) * vp_box_size(b, 1) * vp_box_size(b, 2);
        edge.end[i] = n;
    }
    if (n) {
        if (vp_start(err, args->queue->stream, plane ? median_edge_kernel<S, true> : median_edge_kernel<S, false>,
                     dim3((unsigned)vp_groups(n, 128)), dim3(128), 0, args->in[0], *args->out, edge, millionths))
            return -1;
    }
    if (vp_box_empty(&inner))
        return 0;
    const dim3 threads(32, MEDIAN_PLANES);
    const unsigned nx = (unsigned)vp_groups(vp_box_size(&inner, 0), MEDIAN_LANES);
    /* depth in turns: a grid has at most 65535 planes */
    const int64_t end = inner.hi[2], turn = plane ? 65535 : 65535 * MEDIAN_PLANES;
    for (; inner.lo[2] < end; inner.lo[2] += turn) {
        inner.hi[2] = end < inner.lo[2] + turn ? end : inner.lo[2] + turn;
        const int64_t ny = vp_box_size(&inner, 1), nz = vp_box_size(&inner, 2);
        const dim3 blocks =
            plane ? dim3(nx, (unsigned)vp_groups(ny, MEDIAN_ROWS * MEDIAN_PLANES), (unsigned)nz)
                  : dim3(nx, (unsigned)vp_groups(ny, MEDIAN_ROWS), (unsigned)vp_groups(nz, MEDIAN_PLANES));
        if (vp_start(err, args->queue->stream, plane ? median9_kernel<S> : median27_kernel<S>, blocks, threads, 0, args->in[0],
                     *args->out, inner))
            return -1;
    }
    return 0;
}

int launch(const struct vp_local *op, const struct vp_work *args, struct vp_err *err)
{
    return vp_by_type(op->in, [=](auto s) { return run<decltype(s)>(op, args, err); });
}

} // namespace

const struct vp_kernel vp_gpu_rank = {
    "rank", has, NULL, vp_spans_table<vp_rank_params>, vp_spans_table_fill<vp_rank_params>, launch};
