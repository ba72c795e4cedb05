/* SPDX-License-Identifier: BSD-3-Clause */
/* Summed area tables in one pass: a block of threads makes a tile and learns by look-back what is left of it and above it,
 * in the order of image/sat.h whoever comes first. Tiles are taken in the order of diagonals, so whatever a block waits
 * for is with blocks that came before it.
 *
 * A tile tells what is its own (the sums of its rows, of its columns, the corner) before it waits for anything; every
 * fourth adds what was before and tells that too. So a tile reads at most three numbers and one sum, whatever its place.
 * A number that has not come is all ones. Along y that sum is the last row of a segment. Of a volume the planes are made
 * side by side, and piled up in a second kernel. */
#ifndef VP_SAT_CUH
#define VP_SAT_CUH

#include "copy.cuh"
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
namespace sat
{

enum { WARPS = 8, TILES = 4 }; /* of a block; that tell their own between two sums of all */

/* What a block of threads makes: `rows` of a warp, `groups` of `each` columns a lane; blocks of a multiprocessor. */
template <class A> struct shape;
template <> struct shape<double> { enum { rows = 4, each = 2, groups = 4, blocks = 2 }; };
template <> struct shape<uint64_t> { enum { rows = 4, each = 2, groups = 4, blocks = 2 }; };
template <> struct shape<uint32_t> { enum { rows = 8, each = 4, groups = 2, blocks = 2 }; };

template <class A> constexpr int high() { return shape<A>::rows * WARPS; }
template <class A> constexpr int wide() { return 32 * shape<A>::each * shape<A>::groups; }

/* ---- numbers that are waited for ---- */

__device__ __forceinline__ uint64_t look(const uint64_t *p)
{
    uint64_t v;
    asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");
    return v;
}

__device__ __forceinline__ void tell(uint64_t *p, uint64_t v)
{
    asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(p), "l"(v) : "memory");
}

/* A number takes so many words, none of which is all ones. */
template <class A> struct slot;
template <> struct slot<double> {
    enum { words = 1 };
    static __device__ __forceinline__ void put(uint64_t *p, double v)
    {
        const uint64_t bits = (uint64_t)__double_as_longlong(v);
        tell(p, bits == ~0ull ? 0x7fffffffffffffffull : bits); /* one NaN for another */
    }
    static __device__ __forceinline__ bool get(const uint64_t *p, double &v)
    {
        const uint64_t bits = look(p);
        v = __longlong_as_double((long long)bits);
        return bits != ~0ull;
    }
};
template <> struct slot<uint32_t> {
    enum { words = 1 };
    static __device__ __forceinline__ void put(uint64_t *p, uint32_t v) { tell(p, v); }
    static __device__ __forceinline__ bool get(const uint64_t *p, uint32_t &v)
    {
        const uint64_t bits = look(p);
        v = (uint32_t)bits;
        return bits != ~0ull;
    }
};
template <> struct slot<uint64_t> {
    enum { words = 2 };
    static __device__ __forceinline__ void put(uint64_t *p, uint64_t v)
    {
        asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(p), "l"(v & 0xffffffffull) : "memory");
        asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(p + 1), "l"(v >> 32) : "memory");
    }
    static __device__ __forceinline__ bool get(const uint64_t *p, uint64_t &v)
    {
        const uint64_t lo = look(p), hi = look(p + 1);
        v = (hi << 32) | (lo & 0xffffffffull);
        return lo != ~0ull && hi != ~0ull;
    }
};

/* The sum before tile i of those that lie `step` numbers apart in `own`: that of the last four of four (at `all`), and
 * those since, in order. */
template <class A>
__device__ __forceinline__ A before(const uint64_t *own, const uint64_t *all, int64_t step, int64_t all_step, int i)
{
    constexpr int W = slot<A>::words;
    const int n = i % TILES, g = i / TILES;
    A part[TILES - 1], sum = 0;
    bool here;
    do {
        here = true;
#pragma unroll
        for (int k = 0; k < TILES - 1; k++)
            if (k < n && !slot<A>::get(own + ((int64_t)(g * TILES + k) * step) * W, part[k]))
                here = false;
        if (g > 0 && all && !slot<A>::get(all + (int64_t)(g - 1) * all_step * W, sum))
            here = false;
    } while (!here);
#pragma unroll
    for (int k = 0; k < TILES - 1; k++)
        if (k < n)
            sum += part[k];
    return sum;
}

/* ---- vectors of samples ---- */

template <class T, int N> struct alignas(sizeof(T) * N) vec { T v[N]; };

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

/* ---- the kernel ---- */

struct job {
    const void *in;
    void *out;
    int64_t nx, ny, planes;        /* of the part; images: rows are ny, planes 1 */
    int64_t in_row, in_plane, out_row, out_plane; /* samples from one to the next */
    int across, down;              /* tiles */
    int64_t width;                 /* of a row of numbers that are told */
    int segment;                   /* tiles */
    bool nothing;                  /* was before: what is carried in counts as 0 */
    void *carried;                 /* a row, in volumes a plane of rows of carried_row numbers */
    const void *start;             /* that row as it was before the launch */
    int64_t carried_row;
    bool volume;
    unsigned *ticket;
    uint64_t *rows, *rows_all, *columns, *segments, *corners; /* what is told, of each plane */
    int64_t per_plane;             /* words of all these */
};

/* Tile of the grid across x down with this place in the order of diagonals. */
__device__ __forceinline__ int2 tile_of(int64_t t, int across, int down)
{
    const int64_t small = min(across, down), large = max(across, down), all = small * large;
    const bool tail = t >= all - small * (small - 1) / 2;
    if (t >= small * (small - 1) / 2 && !tail) {
        t -= small * (small - 1) / 2;
        const int64_t d = small - 1 + t / small, first = max((int64_t)0, d - across + 1), i = first + t % small;
        return make_int2((int)(d - i), (int)i);
    }
    const int64_t u = tail ? all - 1 - t : t; /* the last diagonals are the first ones backwards */
    int64_t d = (int64_t)((sqrt(8.0 * (double)u + 1) - 1) / 2);
    while (d * (d + 1) / 2 > u)
        d--;
    while ((d + 1) * (d + 2) / 2 <= u)
        d++;
    const int64_t i = u - d * (d + 1) / 2;
    return tail ? make_int2((int)(across - 1 - (d - i)), (int)(down - 1 - i)) : make_int2((int)(d - i), (int)i);
}

/* Where samples wait in shared memory: each thread reads what it asked for itself. Of two bytes their word is taken. */
template <class In, class A> VP_ANYWHERE constexpr int piece()
{
    return sizeof(In) * shape<A>::each < 4 ? 4 : (int)sizeof(In) * shape<A>::each;
}

template <class In, class A> VP_ANYWHERE constexpr size_t waiting_bytes()
{
    return (size_t)piece<In, A>() * shape<A>::rows * shape<A>::groups * WARPS * 32;
}

/* A tile: its place in the order, and where that is. */
struct place { int64_t number; int x, y; int64_t plane; };

__device__ __forceinline__ place next_place(const job &j)
{
    place p;
    const int64_t tiles = (int64_t)j.across * j.down;
    p.number = atomicAdd(j.ticket, 1u);
    /* the same tile of all planes, so that what it waits for was made long ago */
    const int2 t = tile_of(min(p.number / j.planes, tiles - 1), j.across, j.down);
    p.plane = p.number / j.planes < tiles ? p.number % j.planes : j.planes;
    p.x = t.x;
    p.y = t.y;
    return p;
}

/* Ask for the samples of a tile; of columns that are not there anything will do, for nothing depends on them. */
template <class In, class A> __device__ __forceinline__ void ask(const job &j, const place &t, char *waiting)
{
    using S = shape<A>;
    constexpr int R = S::rows, V = S::each, G = S::groups, B = piece<In, A>();
    const int tid = threadIdx.x, lane = tid & 31;
    const int64_t y0 = ((int64_t)t.y * WARPS + (tid >> 5)) * R, x0 = (int64_t)t.x * (32 * V * G) + lane * V;
    const char *const in = (const char *)j.in + t.plane * j.in_plane * (int64_t)sizeof(In);
    if (t.plane < j.planes)
#pragma unroll
        for (int r = 0; r < R; r++)
#pragma unroll
            for (int g = 0; g < G; g++) {
                const int64_t x = x0 + g * (32 * V);
                if (x < j.nx && y0 + r < j.ny)
                    copy_async<B>(waiting + ((r * G + g) * (WARPS * 32) + tid) * B,
                                  (const char *)((uintptr_t)(in + ((y0 + r) * j.in_row + x) * (int64_t)sizeof(In)) & ~(uintptr_t)(B - 1)));
            }
    copies_close();
}

template <class In, class A, class Out, bool SQUARE>
__global__ void __launch_bounds__(WARPS * 32, shape<A>::blocks) table_kernel(const job j)
{
    using S = shape<A>;
    constexpr int R = S::rows, V = S::each, G = S::groups, TH = R * WARPS, TW = 32 * V * G, W = slot<A>::words;
    constexpr int B = piece<In, A>();
    extern __shared__ __align__(16) char waiting[];
    __shared__ __align__(16) A sum_of[WARPS][TW]; /* of the columns of each warp, then of the warps before it */
    __shared__ __align__(16) A above[TW], carried[TW];
    __shared__ A beside[WARPS], corner;
    __shared__ place coming[2];
    const int tid = threadIdx.x, warp = tid >> 5, lane = tid & 31;
    const int64_t high = (int64_t)j.down * TH;

    if (tid == 0) {
        coming[0] = next_place(j);
        coming[1] = next_place(j);
    }
    __syncthreads();
    place tile = coming[0];
    ask<In, A>(j, tile, waiting);
    for (int turn = 1; tile.plane < j.planes; turn ^= 1) {
        const int64_t plane = tile.plane;
        const int64_t x0 = (int64_t)tile.x * TW, y0 = (int64_t)tile.y * TH + warp * R;
        Out *const out = (Out *)j.out + plane * j.out_plane;
        const int64_t words = plane * j.per_plane;
        uint64_t *const rows = j.rows + words, *const rows_all = j.rows_all + words, *const columns = j.columns + words,
                        *const segments = j.segments + words, *const corners = j.corners + words;
        const int in_segment = tile.y % j.segment;
        const bool below = in_segment < j.segment - 1 && tile.y < j.down - 1; /* a tile of the segment */

        /* sums along x in the tile, then along y of the warp's rows */
        copies_wait<0>();
        A v[R][G][V], row_sum = 0;
#pragma unroll
        for (int r = 0; r < R; r++) {
            A left = 0;
#pragma unroll
            for (int g = 0; g < G; g++) {
                vec<In, V> raw;
                const char *const at = waiting + ((r * G + g) * (WARPS * 32) + tid) * B;
                memcpy(&raw, at + (sizeof raw < 4 ? (lane & 1) * 2 : 0), sizeof raw);
#pragma unroll
                for (int k = 0; k < V; k++) {
                    A a = (A)raw.v[k];
                    if constexpr (std::is_same<A, double>::value)
                        a = SQUARE ? __dmul_rn(a, a) : a;
                    else
                        a = SQUARE ? a * a : a;
                    v[r][g][k] = k ? v[r][g][k - 1] + a : a;
                }
                A s = v[r][g][V - 1];
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
                    v[r][g][k] += e;
            }
            if (lane == r)
                row_sum = left;
        }
        if (lane < R && tile.x < j.across - 1)
            slot<A>::put(rows + ((int64_t)tile.x * high + y0 + lane) * W, row_sum);
#pragma unroll
        for (int r = 1; r < R; r++)
#pragma unroll
            for (int g = 0; g < G; g++)
#pragma unroll
                for (int k = 0; k < V; k++)
                    v[r][g][k] += v[r - 1][g][k];
#pragma unroll
        for (int g = 0; g < G; g++) {
            vec<A, V> last;
#pragma unroll
            for (int k = 0; k < V; k++)
                last.v[k] = v[R - 1][g][k];
            *(vec<A, V> *)&sum_of[warp][(g * 32 + lane) * V] = last;
        }
        __syncthreads();

        /* the samples of the next tile come while this one waits for its neighbours */
        const place after = coming[turn];
        ask<In, A>(j, after, waiting);
        if (tid == 32)
            coming[turn ^ 1] = next_place(j);

        /* columns: a thread has one; its own are told before anything is waited for */
        static_assert(TW == WARPS * 32, "");
        A o = 0;
#pragma unroll
        for (int w = 0; w < WARPS; w++) {
            const A s = sum_of[w][tid];
            sum_of[w][tid] = o;
            o += s;
        }
        if (below)
            slot<A>::put(columns + ((int64_t)tile.y * j.width + x0 + tid) * W, o);
        /* a first look at what is above: the tiles of the segment, and the last row before it */
        const int64_t own = x0 + tid;
        A part[TILES - 1], p = 0;
        const auto look_above = [&] {
            bool here = true;
            if (own >= j.nx)
                return true;
#pragma unroll
            for (int i = 0; i < TILES - 1; i++)
                if (i < in_segment
                    && !slot<A>::get(columns + ((int64_t)(tile.y - in_segment + i) * j.width + own) * W, part[i]))
                    here = false;
            if (tile.y >= j.segment
                && !slot<A>::get(segments + ((int64_t)(tile.y / j.segment - 1) * j.width + own) * W, p))
                here = false;
            return here;
        };
        bool seen = look_above();
        /* what is left of the rows */
        A l = 0;
        if (lane < R) {
            l = before<A>(rows + (y0 + lane) * W, rows_all + (y0 + lane) * W, high, high, tile.x);
            if (tile.x % TILES == TILES - 1 && tile.x < j.across - 1)
                slot<A>::put(rows_all + ((int64_t)(tile.x / TILES) * high + y0 + lane) * W, l + row_sum);
        }
#pragma unroll
        for (int d = 1; d < R; d *= 2) {
            const A t = __shfl_up_sync(~0u, l, d);
            if (lane >= d)
                l += t;
        }
        if (lane == R - 1)
            beside[warp] = l;
        __syncthreads();
        A q = 0;
        for (int w = 0; w < warp; w++)
            q += beside[w];
        const A c = q + l; /* of row `lane` */
        if (warp == WARPS - 1 && lane == R - 1) {
            /* what is left of the tiles above in the segment */
            if (below)
                slot<A>::put(corners + ((int64_t)tile.y * j.across + tile.x) * W, q + l);
            corner = before<A>(corners + ((int64_t)(tile.y - in_segment) * j.across + tile.x) * W, NULL, j.across, 0,
                               in_segment);
        }
        while (!seen)
            seen = look_above();
        A a = 0;
#pragma unroll
        for (int i = 0; i < TILES - 1; i++)
            if (i < in_segment)
                a += part[i];
        if (tile.y < j.segment && !j.volume && !j.nothing && own < j.nx)
            p = ((const A *)j.start)[own];
        above[tid] = a;
        carried[tid] = p;
        __syncthreads();

        const bool told = in_segment == j.segment - 1 && warp == WARPS - 1 && tile.y < j.down - 1;
#pragma unroll
        for (int r = R - 1; r >= 0; r--) { /* others wait for the last row */
            const A cr = __shfl_sync(~0u, c, r);
            const int64_t y = y0 + r;
#pragma unroll
            for (int g = 0; g < G; g++) {
                const int k0 = (g * 32 + lane) * V;
                const int64_t x = x0 + k0;
                vec<Out, V> result;
                if (x >= j.nx || y >= j.ny)
                    continue;
                const bool all = x + V <= j.nx;
#pragma unroll
                for (int k = 0; k < V; k++) {
                    const A off = sum_of[warp][k0 + k] + (corner + above[k0 + k]);
                    const A m = carried[k0 + k] + (v[r][g][k] + (cr + off));
                    if (r == R - 1 && told)
                        slot<A>::put(segments + ((int64_t)(tile.y / j.segment) * j.width + x + k) * W, m);
                    if (y == j.ny - 1 && !j.volume && x + k < j.nx)
                        ((A *)j.carried)[x + k] = m;
                    result.v[k] = (Out)m;
                }
                Out *const to = out + y * j.out_row + x;
                if (all)
                    store_once<Out, V>(to, result);
                else
                    for (int k = 0; k < V; k++)
                        if (x + k < j.nx)
                            to[k] = result.v[k];
            }
        }
        __syncthreads(); /* of sum_of */
        tile = after;
    }
}

/* ---- launching ---- */

struct sizes {
    int64_t across, down, width, high, planes, segments;
    int64_t rows, rows_all, columns, segment_rows, corners; /* words of a plane */
    int64_t per_plane, words;
};

template <class A> sizes sizes_of(int64_t nx, int64_t ny, int64_t planes, int segment)
{
    constexpr int64_t W = slot<A>::words;
    sizes s;
    s.across = (nx + wide<A>() - 1) / wide<A>();
    s.down = (ny + high<A>() - 1) / high<A>();
    s.width = s.across * wide<A>();
    s.high = s.down * high<A>();
    s.planes = planes;
    s.segments = (s.down + segment - 1) / segment;
    s.rows = s.across * s.high * W;
    s.rows_all = (s.across + TILES - 1) / TILES * s.high * W;
    s.columns = s.down * s.width * W;
    s.segment_rows = s.segments * s.width * W;
    s.corners = s.down * s.across * W;
    s.per_plane = s.rows + s.rows_all + s.columns + s.segment_rows + s.corners;
    s.words = s.per_plane * planes;
    return s;
}

enum { TICKET = 256 }; /* bytes */

static inline uint64_t bytes_of(const sizes &s)
{
    return TICKET + (uint64_t)(s.words + s.width) * 8;
}

/* Of a segment in tiles: integers may have any. */
template <class A> int segment_of(const struct vp_sat *p)
{
    return std::is_same<A, double>::value ? (int)(p->segment / high<A>()) : (int)TILES;
}

template <class A> uint64_t bytes_of(const struct vp_sat *p, const int64_t out[3])
{
    return bytes_of(sizes_of<A>(out[0], p->volume ? out[1] : out[2], p->volume ? out[2] : 1, segment_of<A>(p)));
}

/* The tables of planes become that of the volume, from the plane that is carried on; a thread has some columns of a row. */
template <class A> __global__ void __launch_bounds__(128) pile_kernel(const job j)
{
    enum { N = 16 / sizeof(A), AHEAD = 8 };
    const int64_t x = (blockIdx.x * (int64_t)128 + threadIdx.x) * N;
    if (x >= j.nx)
        return;
    const bool all = x + N <= j.nx;
    for (int64_t y = blockIdx.y; y < j.ny; y += gridDim.y) {
        A *const kept = (A *)j.carried + y * j.carried_row + x, *out = (A *)j.out + y * j.out_row + x;
        vec<A, N> sum, next[AHEAD];
        if (j.nothing)
            memset(&sum, 0, sizeof sum);
        else
            sum = *(const vec<A, N> *)kept;
        for (int64_t z = 0; z < j.planes; z += AHEAD) {
#pragma unroll
            for (int i = 0; i < AHEAD; i++) /* rows are as long as vectors want */
                if (z + i < j.planes)
                    next[i] = *(const vec<A, N> *)(out + i * j.out_plane);
#pragma unroll
            for (int i = 0; i < AHEAD; i++)
                if (z + i < j.planes) {
#pragma unroll
                    for (int k = 0; k < N; k++)
                        sum.v[k] = sum.v[k] + next[i].v[k];
                    if (all)
                        store_once<A, N>(out + i * j.out_plane, sum);
                    else
                        for (int k = 0; k < N && x + k < j.nx; k++)
                            out[i * j.out_plane + k] = sum.v[k];
                }
            out += AHEAD * j.out_plane;
        }
        for (int k = 0; k < N && x + k < j.nx; k++)
            kept[k] = sum.v[k];
    }
}

/* What was before is added to a part that was made without: a row to all rows, in volumes a plane to all planes. */
template <class A> __global__ void __launch_bounds__(256) add_kernel(const job j)
{
    const int64_t row = (int64_t)blockIdx.y + (int64_t)blockIdx.z * gridDim.y, rows = j.ny * j.planes;
    if (row >= rows)
        return;
    const int64_t y = row % j.ny, plane = row / j.ny;
    A *const out = (A *)j.out + plane * j.out_plane + y * j.out_row;
    const A *const before = (const A *)j.carried + (j.volume ? y * j.carried_row : 0);
    for (int64_t x = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; x < j.nx; x += (int64_t)gridDim.x * blockDim.x)
        out[x] = before[x] + out[x];
}

template <class A>
int add(const struct vp_op *op, const struct vp_work *args, const struct vp_area *out, char *state, struct vp_err *err)
{
    const struct vp_sat *const p = (const struct vp_sat *)op->params;
    const int64_t deep = vp_box_size(&out->box, 2);
    job j = {};
    j.volume = p->volume;
    j.nx = op->image[0];
    j.ny = p->volume ? op->image[1] : deep;
    j.planes = p->volume ? deep : 1;
    j.out = out->data;
    j.out_row = p->volume ? out->pitch : out->plane;
    j.out_plane = out->plane;
    j.carried = state;
    j.carried_row = p->width;
    const int64_t rows = j.ny * j.planes, high = rows < 32768 ? rows : 32768;
    const dim3 grid((unsigned)((j.nx + 1023) / 1024), (unsigned)high, (unsigned)((rows + high - 1) / high));
    return vp_start(err, args->queue->stream, add_kernel<A>, grid, dim3(256), 0, j);
}

template <class In, class A, class Out, bool SQUARE>
int run(const struct vp_op *op, const struct vp_work *args, const struct vp_area *out, char *state, struct vp_err *err)
{
    const struct vp_sat *const p = (const struct vp_sat *)op->params;
    const vp_area &in = args->in[0];
    const int64_t deep = vp_box_size(&out->box, 2);
    job j = {};
    j.volume = p->volume;
    j.nx = op->image[0];
    j.ny = p->volume ? op->image[1] : deep;
    j.planes = p->volume ? deep : 1;
    const int64_t skip = out->box.lo[2] - in.box.lo[2];
    j.in = (const In *)in.data + skip * in.plane;
    j.out = out->data;
    j.in_row = p->volume ? in.pitch : in.plane;
    j.out_row = p->volume ? out->pitch : out->plane;
    j.in_plane = in.plane;
    j.out_plane = out->plane;
    j.segment = segment_of<A>(p);
    j.nothing = args->visit == VP_LOCAL || out->box.lo[2] == 0;
    j.carried = state;
    j.carried_row = p->width;
    const sizes s = sizes_of<A>(j.nx, j.ny, j.planes, j.segment);
    j.across = (int)s.across;
    j.down = (int)s.down;
    j.width = s.width;
    char *const scratch = (char *)args->scratch;
    j.ticket = (unsigned *)scratch;
    j.rows = (uint64_t *)(scratch + TICKET);
    j.rows_all = j.rows + s.rows;
    j.columns = j.rows_all + s.rows_all;
    j.segments = j.columns + s.columns;
    j.corners = j.segments + s.segment_rows;
    j.per_plane = s.per_plane;
    j.start = j.rows + s.words;
    const cudaStream_t stream = args->queue->stream;
    cudaError_t e = cudaMemsetAsync(scratch, 0, TICKET, stream);
    if (e == cudaSuccess)
        e = cudaMemsetAsync(j.rows, 0xff, (size_t)s.words * 8, stream);
    if (e == cudaSuccess && !j.volume && !j.nothing)
        e = cudaMemcpyAsync((void *)j.start, state, (size_t)j.nx * sizeof(A), cudaMemcpyDeviceToDevice, stream);
    if (e != cudaSuccess)
        return vp_gpu_fail(err, e, "cannot clear memory on the CUDA device");
    const int64_t tiles = s.across * s.down * s.planes, most = shape<A>::blocks * (int64_t)args->queue->sms;
    if (vp_start(err, stream, table_kernel<In, A, Out, SQUARE>, dim3((unsigned)vp_min64(tiles, most)), dim3(WARPS * 32),
                 waiting_bytes<In, A>(), j))
        return -1;
    if (!j.volume)
        return 0;
    enum { PILE = 128 * 16 / sizeof(A), ROWS = 32768 };
    const dim3 grid((unsigned)((j.nx + PILE - 1) / PILE), (unsigned)vp_min64(j.ny, ROWS));
    if constexpr (std::is_same<A, Out>::value)
        return vp_start(err, stream, pile_kernel<A>, grid, dim3(128), 0, j);
    else
        return vp_fail(err, VP_ERUN, "no kernel for volumes of rounded sums"); /* has() has refused them */
}

/* Table `which` of integers (sat_integers.cu); those of sums in f64 are in sat.cu. */
int integers(const struct vp_op *op, const struct vp_work *args, int which, char *state, struct vp_err *err);

} // namespace sat
} // namespace vp

#endif
