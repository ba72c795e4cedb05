/* SPDX-License-Identifier: BSD-3-Clause */
/* The three passes of summed area tables as they were made before carries went through one: first every tile tells the sums
 * of its rows and of its columns (sums_kernel), then these are added up along x (rows_kernel) and down the segments
 * (segments_kernel), which are small; then every tile is made once more, now with what is left of it and above it
 * (table_kernel). The samples are read twice, and nobody waits for anybody. The same order of additions as cuda/sat.cuh, so
 * the same bits. For sat_gpu.cu alone. */
#ifndef VP_SAT_THREE_CUH
#define VP_SAT_THREE_CUH

#include "launch.cuh"
#include "local.h"

extern "C" {
#include "base/size.h"
#include "image/sat.h"
}

#include <cstdio>
#include <cstring>
#include <type_traits>

namespace vp
{
namespace three
{

enum { WARPS = 8, TILES = 4 }; /* of a block; of a segment, at most */

/* What a block of threads makes: `rows` of a warp, `groups` of `each` columns a lane. */
template <class A> struct shape;
template <> struct shape<double> { enum { rows = 4, each = 2, groups = 4 }; };
template <> struct shape<uint64_t> { enum { rows = 4, each = 2, groups = 4 }; };
template <> struct shape<uint32_t> { enum { rows = 8, each = 4, groups = 2 }; };

template <class A> VP_ANYWHERE constexpr int high() { return shape<A>::rows * WARPS; }
template <class A> VP_ANYWHERE constexpr int wide() { return 32 * shape<A>::each * shape<A>::groups; }

/* ---- vectors of samples ---- */

template <class T, int N> struct alignas(sizeof(T) * N) vec { T v[N]; };

template <class T, int N> __device__ __forceinline__ vec<T, N> load_vec(const T *p)
{
    return *(const vec<T, N> *)p;
}

template <class T, int N> __device__ __forceinline__ void store_once(T *p, const vec<T, N> &r)
{
    if constexpr (sizeof(r) == 16) {
        uint4 x;
        memcpy(&x, &r, 16);
        __stcs((uint4 *)p, x);
    } else {
        uint2 x;
        memcpy(&x, &r, 8);
        __stcs((uint2 *)p, x);
    }
}

/* ---- what the kernels share ---- */

struct job {
    const void *in;
    void *out;
    int64_t nx, ny, planes;        /* of the part; images: rows are ny, planes 1 */
    int64_t in_row, in_plane, out_row, out_plane; /* samples from one to the next */
    int across, down;              /* tiles */
    int64_t width, high;           /* of all tiles */
    int segment;                   /* tiles */
    bool nothing;                  /* was before: what is carried in counts as 0 */
    bool volume;
    void *carried;                 /* a row, in volumes a plane of rows of carried_row numbers */
    int64_t carried_row;
    /* of each plane: sums of the rows of tiles, then of all to the left (across x high); of the columns of tiles (down x
     * width); of the last rows of segments, before the last group and of that (segments x width each), then what is above
     * each segment; what is left of tiles (down x across) */
    void *rows, *columns, *ends, *above, *corners;
    int64_t per_plane;             /* numbers of all these */
    int64_t first;                 /* plane of a launch */
};

template <class A> __device__ __forceinline__ A *of_plane(void *p, const job &j, int64_t plane)
{
    return (A *)p + plane * j.per_plane;
}

/* A row of a tile, in the columns of this lane: sums along x. Returns the sum of all of it. */
template <class In, class A, bool SQUARE>
__device__ __forceinline__ A sum_row(const job &j, const In *row, int64_t x0, bool here, A v[][shape<A>::each])
{
    constexpr int V = shape<A>::each, G = shape<A>::groups;
    const int lane = threadIdx.x & 31;
    vec<In, V> raw[G];
#pragma unroll
    for (int g = 0; g < G; g++) { /* of columns that are not there anything will do: nothing depends on them */
        const int64_t x = x0 + (g * 32 + lane) * V;
        if (here && x < j.nx)
            raw[g] = load_vec<In, V>(row + x);
        else
            memset(&raw[g], 0, sizeof raw[g]);
    }
    A left = 0;
#pragma unroll
    for (int g = 0; g < G; g++) {
#pragma unroll
        for (int k = 0; k < V; k++) {
            A a = (A)raw[g].v[k];
            if constexpr (std::is_same<A, double>::value)
                a = SQUARE ? __dmul_rn(a, a) : a;
            else
                a = SQUARE ? a * a : a;
            v[g][k] = k ? v[g][k - 1] + a : a;
        }
        A s = v[g][V - 1];
#pragma unroll
        for (int d = 1; d < 32; d *= 2) {
            const A t = __shfl_up_sync(~0u, s, d);
            if (lane >= d)
                s += t;
        }
        A e = __shfl_up_sync(~0u, s, 1);
        e = (lane ? e : (A)0) + left;
        left += __shfl_sync(~0u, s, 31);
#pragma unroll
        for (int k = 0; k < V; k++)
            v[g][k] += e;
    }
    return left;
}

/* ---- sums of tiles ---- */

template <class In, class A, bool SQUARE> __global__ void __launch_bounds__(WARPS * 32, 4) sums_kernel(const job j)
{
    constexpr int R = shape<A>::rows, V = shape<A>::each, G = shape<A>::groups, TW = 32 * V * G;
    __shared__ __align__(16) A sum_of[WARPS][TW];
    const int tid = threadIdx.x, warp = tid >> 5, lane = tid & 31;
    const int64_t tiles = (int64_t)j.across * j.down, plane = blockIdx.x / tiles, tile = blockIdx.x % tiles;
    const int64_t tx = tile % j.across, ty = tile / j.across, x0 = tx * TW, y0 = (ty * WARPS + warp) * R;
    const In *const in = (const In *)j.in + plane * j.in_plane;
    A sum[G][V], own = 0;
#pragma unroll
    for (int r = 0; r < R; r++) {
        A v[G][V];
        const A all = sum_row<In, A, SQUARE>(j, in + (y0 + r) * j.in_row, x0, y0 + r < j.ny, v);
        if (lane == r)
            own = all;
#pragma unroll
        for (int g = 0; g < G; g++)
#pragma unroll
            for (int k = 0; k < V; k++)
                sum[g][k] = r ? sum[g][k] + v[g][k] : v[g][k];
    }
    if (lane < R)
        of_plane<A>(j.rows, j, plane)[tx * j.high + y0 + lane] = own;
#pragma unroll
    for (int g = 0; g < G; g++) {
        vec<A, V> s;
#pragma unroll
        for (int k = 0; k < V; k++)
            s.v[k] = sum[g][k];
        *(vec<A, V> *)&sum_of[warp][(g * 32 + lane) * V] = s;
    }
    __syncthreads();
    A o = 0;
#pragma unroll
    for (int w = 0; w < WARPS - 1; w++)
        o += sum_of[w][tid];
    const A last = sum_of[WARPS - 1][tid];
    of_plane<A>(j.columns, j, plane)[ty * j.width + x0 + tid] = o + last;
    if (ty % j.segment == j.segment - 1) {
        A *const ends = of_plane<A>(j.ends, j, plane) + ty / j.segment * 2 * j.width + x0 + tid;
        ends[0] = o;
        ends[j.width] = last;
    }
}

/* ---- sums of sums ---- */

/* The rows of a row of tiles: what is left of each tile, and the sum of that over a tile's rows. */
template <class A> __global__ void rows_kernel(const job j)
{
    constexpr int R = shape<A>::rows, TH = R * WARPS;
    __shared__ A total[2][WARPS];
    const int tid = threadIdx.x;
    const int64_t plane = j.first + blockIdx.y, ty = blockIdx.x;
    A *const rows = of_plane<A>(j.rows, j, plane) + ty * TH + tid;
    A *const corners = of_plane<A>(j.corners, j, plane) + ty * j.across;
    enum { AHEAD = 8 };
    A l = 0, next[AHEAD];
    for (int x0 = 0; x0 < j.across; x0 += AHEAD) {
#pragma unroll
        for (int i = 0; i < AHEAD; i++)
            next[i] = x0 + i < j.across ? rows[(x0 + i) * j.high] : (A)0;
#pragma unroll
        for (int i = 0; i < AHEAD; i++) {
            if (x0 + i < j.across) {
                rows[(x0 + i) * j.high] = l;
                A h = l;
#pragma unroll
                for (int d = 1; d < R; d *= 2) {
                    const A t = __shfl_up_sync(~0u, h, d);
                    if (tid % R >= d)
                        h += t;
                }
                if (tid % R == R - 1)
                    total[i & 1][tid / R] = h;
                __syncthreads();
                if (tid == 0) {
                    A q = 0;
                    for (int w = 0; w < WARPS; w++)
                        q += total[i & 1][w];
                    corners[x0 + i] = q;
                }
                l += next[i];
            }
        }
    }
}

/* What is above each segment: the last row of the one before. In images the last row of all is carried on. */
template <class A> __global__ void __launch_bounds__(64) segments_kernel(const job j)
{
    const int64_t x = blockIdx.x * (int64_t)64 + threadIdx.x, plane = j.first + blockIdx.y;
    const int segments = (j.down + j.segment - 1) / j.segment;
    const A *const columns = of_plane<A>(j.columns, j, plane) + x, *const ends = of_plane<A>(j.ends, j, plane) + x;
    const A *const corners = of_plane<A>(j.corners, j, plane) + x / wide<A>();
    A *const above = of_plane<A>(j.above, j, plane) + x;
    if (x >= j.width)
        return;
    A p = !j.volume && !j.nothing && x < j.nx ? ((const A *)j.carried)[x] : (A)0;
    enum { AHEAD = 4 };
    for (int s0 = 0; s0 < segments; s0 += AHEAD) {
        A term[AHEAD];
#pragma unroll
        for (int i = 0; i < AHEAD; i++) {
            const int64_t ty = (int64_t)(s0 + i) * j.segment;
            A a = 0, t = 0;
            term[i] = 0;
            if (ty + j.segment > j.down)
                continue;
            for (int k = 0; k < j.segment - 1; k++) {
                a += columns[(ty + k) * j.width];
                t += corners[(ty + k) * j.across];
            }
            const A *const e = ends + (s0 + i) * 2 * j.width;
            term[i] = e[j.width] + (corners[(ty + j.segment - 1) * j.across] + (e[0] + (t + a)));
        }
#pragma unroll
        for (int i = 0; i < AHEAD; i++)
            if (s0 + i < segments) {
                above[(s0 + i) * j.width] = p;
                p = p + term[i];
            }
    }
}

/* ---- tables of tiles ---- */

template <class In, class A, class Out, bool SQUARE, bool VOLUME>
__global__ void __launch_bounds__(WARPS * 32, 2) table_kernel(const job j)
{
    constexpr int R = shape<A>::rows, V = shape<A>::each, G = shape<A>::groups, TW = 32 * V * G;
    __shared__ __align__(16) A sum_of[WARPS][TW]; /* of the columns of each warp, then of the warps before it */
    __shared__ __align__(16) A above[TW], carried[TW];
    __shared__ A beside[WARPS], corner;
    const int tid = threadIdx.x, warp = tid >> 5, lane = tid & 31;
    const int64_t tx = blockIdx.x % j.across, ty = blockIdx.x / j.across, x0 = tx * TW, y0 = (ty * WARPS + warp) * R;
    const int in_segment = (int)(ty % j.segment);
    for (int64_t plane = 0; plane < j.planes; plane++) { /* of an image there is one */
        const In *const in = (const In *)j.in + plane * j.in_plane;
        Out *const out = (Out *)j.out + plane * j.out_plane;
        A v[R][G][V];
#pragma unroll
        for (int r = 0; r < R; r++)
            sum_row<In, A, SQUARE>(j, in + (y0 + r) * j.in_row, x0, y0 + r < j.ny, v[r]);
#pragma unroll
        for (int r = 1; r < R; r++)
#pragma unroll
            for (int g = 0; g < G; g++)
#pragma unroll
                for (int k = 0; k < V; k++)
                    v[r][g][k] += v[r - 1][g][k];
        /* what is left of the rows */
        A l = lane < R ? of_plane<A>(j.rows, j, plane)[tx * j.high + y0 + lane] : (A)0;
#pragma unroll
        for (int d = 1; d < R; d *= 2) {
            const A t = __shfl_up_sync(~0u, l, d);
            if (lane >= d)
                l += t;
        }
        if (VOLUME && plane)
            __syncthreads(); /* of what the plane before was made with */
        if (lane == R - 1)
            beside[warp] = l;
#pragma unroll
        for (int g = 0; g < G; g++) {
            vec<A, V> last;
#pragma unroll
            for (int k = 0; k < V; k++)
                last.v[k] = v[R - 1][g][k];
            *(vec<A, V> *)&sum_of[warp][(g * 32 + lane) * V] = last;
        }
        /* what is above the columns: the tiles of the segment, and the last row before it */
        static_assert(TW == WARPS * 32, "");
        const A *const columns = of_plane<A>(j.columns, j, plane) + (ty - in_segment) * j.width + x0 + tid;
        A a = 0;
        for (int i = 0; i < in_segment; i++)
            a += columns[i * j.width];
        above[tid] = a;
        carried[tid] = of_plane<A>(j.above, j, plane)[ty / j.segment * j.width + x0 + tid];
        if (tid == 0) {
            const A *const corners = of_plane<A>(j.corners, j, plane) + (ty - in_segment) * j.across + tx;
            A t = 0;
            for (int i = 0; i < in_segment; i++)
                t += corners[(int64_t)i * j.across];
            corner = t;
        }
        __syncthreads();
        A o = 0;
#pragma unroll
        for (int w = 0; w < WARPS; w++) {
            const A s = sum_of[w][tid];
            sum_of[w][tid] = o;
            o += s;
        }
        A q = 0;
        for (int w = 0; w < warp; w++)
            q += beside[w];
        const A c = q + l; /* of row `lane` */
        __syncthreads();

#pragma unroll
        for (int g = 0; g < G; g++) {
            const int k0 = (g * 32 + lane) * V;
            const int64_t x = x0 + k0;
            A off[V], p[V];
#pragma unroll
            for (int k = 0; k < V; k++) {
                off[k] = sum_of[warp][k0 + k] + (corner + above[k0 + k]);
                p[k] = carried[k0 + k];
            }
#pragma unroll
            for (int r = 0; r < R; r++) {
                const A cr = __shfl_sync(~0u, c, r);
                const int64_t y = y0 + r;
                if (x >= j.nx || y >= j.ny)
                    continue;
                const bool all = x + V <= j.nx;
                vec<A, V> made, before;
                vec<Out, V> result;
                A *const kept = (A *)j.carried + (VOLUME ? y * j.carried_row : 0) + x;
                if (VOLUME) {
                    const Out *const last = out - j.out_plane + y * j.out_row + x; /* what this thread has written */
                    if (plane == 0 && j.nothing)
                        memset(&before, 0, sizeof before);
                    else if constexpr (std::is_same<A, Out>::value)
                        before = plane > 0 ? load_vec<A, V>(last) : load_vec<A, V>(kept);
                    else
                        before = load_vec<A, V>(kept);
                }
#pragma unroll
                for (int k = 0; k < V; k++) {
                    A m = p[k] + (v[r][g][k] + (cr + off[k]));
                    if (VOLUME)
                        m = before.v[k] + m;
                    made.v[k] = m;
                    result.v[k] = (Out)m;
                }
                if (VOLUME ? !std::is_same<A, Out>::value || plane == j.planes - 1 : y == j.ny - 1)
                    for (int k = 0; k < V; k++)
                        if (x + k < j.nx)
                            kept[k] = made.v[k];
                Out *const to = out + y * j.out_row + x;
                if (!all)
                    for (int k = 0; k < V; k++) {
                        if (x + k < j.nx)
                            to[k] = result.v[k];
                    }
                else if (VOLUME)
                    *(vec<Out, V> *)to = result;
                else
                    store_once<Out, V>(to, result);
            }
        }
    }
}

/* ---- launching ---- */

struct sizes { int64_t across, down, width, high, segments, rows, columns, ends, above, corners, per_plane; };

static inline int64_t whole(int64_t n)
{
    return (n + 31) / 32 * 32;
}

template <class A> sizes sizes_of(int64_t nx, int64_t ny, int segment)
{
    sizes s;
    s.across = (nx + wide<A>() - 1) / wide<A>();
    s.down = (ny + high<A>() - 1) / high<A>();
    s.width = s.across * wide<A>();
    s.high = s.down * high<A>();
    s.segments = (s.down + segment - 1) / segment;
    s.rows = whole(s.across * s.high);
    s.columns = s.down * s.width;
    s.ends = 2 * s.segments * s.width;
    s.above = s.segments * s.width;
    s.corners = whole(s.down * s.across);
    s.per_plane = s.rows + s.columns + s.ends + s.above + s.corners;
    return s;
}

/* Of a segment in tiles: integers may have any. */
template <class A> int segment_of(const struct vp_sat *p)
{
    return std::is_same<A, double>::value ? (int)(p->segment / high<A>()) : (int)TILES;
}

template <class A> uint64_t bytes_of(const struct vp_sat *p, const int64_t out[3])
{
    const sizes s = sizes_of<A>(out[0], p->volume ? out[1] : out[2], segment_of<A>(p));
    return (uint64_t)(s.per_plane * (p->volume ? out[2] : 1)) * sizeof(A);
}

template <class In, class A, class Out, bool SQUARE>
int run(const struct vp_op *op, const struct vp_work *args, const struct vp_area *out, char *state, struct vp_err *err)
{
    const struct vp_sat *const p = (const struct vp_sat *)op->params;
    const vp_area &in = args->in[0];
    const cudaStream_t stream = args->queue->stream;
    job j = {};
    j.volume = p->volume;
    j.nx = op->image[0];
    j.ny = p->volume ? op->image[1] : vp_box_size(&out->box, 2);
    j.planes = p->volume ? vp_box_size(&out->box, 2) : 1;
    j.in = (const In *)in.data + (out->box.lo[2] - in.box.lo[2]) * in.plane;
    j.out = out->data;
    j.in_row = p->volume ? in.pitch : in.plane;
    j.out_row = p->volume ? out->pitch : out->plane;
    j.in_plane = in.plane;
    j.out_plane = out->plane;
    j.segment = segment_of<A>(p);
    j.nothing = args->visit == VP_LOCAL || out->box.lo[2] == 0;
    j.carried = state;
    j.carried_row = p->width;
    const sizes s = sizes_of<A>(j.nx, j.ny, j.segment);
    j.across = (int)s.across;
    j.down = (int)s.down;
    j.width = s.width;
    j.high = s.high;
    j.rows = args->scratch;
    j.columns = (A *)j.rows + s.rows;
    j.ends = (A *)j.columns + s.columns;
    j.above = (A *)j.ends + s.ends;
    j.corners = (A *)j.above + s.above;
    j.per_plane = s.per_plane;
    const dim3 block(WARPS * 32);
    const unsigned planes = (unsigned)j.planes, tiles = (unsigned)(s.across * s.down);
    if (vp_start(err, stream, sums_kernel<In, A, SQUARE>, dim3(tiles * planes), block, 0, j))
        return -1;
    enum { MOST = 65535 };
    for (; j.first < j.planes; j.first += MOST) {
        const unsigned n = (unsigned)vp_min64(MOST, j.planes - j.first);
        if (vp_start(err, stream, rows_kernel<A>, dim3((unsigned)s.down, n), dim3(high<A>()), 0, j)
            || vp_start(err, stream, segments_kernel<A>, dim3((unsigned)(s.width / 64), n), dim3(64), 0, j))
            return -1;
    }
    return p->volume ? vp_start(err, stream, table_kernel<In, A, Out, SQUARE, true>, dim3(tiles), block, 0, j)
                     : vp_start(err, stream, table_kernel<In, A, Out, SQUARE, false>, dim3(tiles), block, 0, j);
}

} // namespace three
} // namespace vp

#endif
