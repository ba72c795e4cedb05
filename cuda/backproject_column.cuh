/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the back-projection kernels: arguments, exact coordinates, and the interpolation of a whole piece of a
 * voxel column at once ("march").
 *
 * Along a column of voxels (i, j, .) of an untilted view, u, w and the weight are constant and v = v_mid + q s, with s
 * = dv / dk and q = k - k_mid. A thread holds K consecutive voxels of a column in registers, loads each detector row of
 * the window once, interpolates it in u once, and adds it with hat weights to the voxels that it contributes to. */
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>
#include <stdint.h>

#include <type_traits>

#include "ct/orbit.h"

namespace vp
{

/* Views of a launch. Their constants are kernel parameters (constant bank, at most 32764 bytes): no copies are
 * needed. */
constexpr int VIEW_BATCH = 256;

/* Destination of a thread's sums. Channel 0 is slice k of the working half, channel 1 its mirror slice:
 * element origin[c] + k * step[c] of vol, for begin[c] <= k < end[c]. */
struct slab {
    float *vol;
    int64_t origin[2], step[2];
    int begin[2], end[2];
    int nx, ny;
    bool fresh; /* the sums replace the volume instead of being added (beta = 0) */
};

/* Arguments of a launch except for the views. */
struct launch_args {
    slab out;
    int nz;                  /* slices of the grid */
    int half_x;              /* columns i < half_x are computed; the rest are their half-turn copies (matrices: all) */
    int nu, nv;              /* columns and rows of the detector */
    int row_base;            /* first detector row of a slot */
    int tiles_x, tiles_y, segment0, segments;
    int slot, n;             /* packed orbits slot .. slot + n - 1 */
    /* portable kernels only */
    const float *packed;
    int pitch, rows, pad;    /* texels of a row, rows of an orbit, zero rows on either side */
    /* tensor-tile kernels only */
    int box_pitch, box_rows; /* texels of a row, rows of a box */
    int *next_tile;
};

/* Arguments of a launch. */
template <class View> struct view_args : launch_args {
    View view[VIEW_BATCH];
};

/* A 3x4 matrix for x, y relative to the centre of the grid, k absolute. */
struct matrix_view {
    double m[12];
};

using column_args = view_args<vp_column_view>; /* with SPLIT added to cv */
using matrix_args = view_args<matrix_view>;    /* texels are (q(u), q(u + 1)), with MATRIX_PAD zeros on every side */

constexpr int MATRIX_PAD = 2;
constexpr double NEAREST = 1.0 / 1024;

static_assert(sizeof(column_args) <= 32000 && sizeof(matrix_args) <= 32000, "kernel parameters");

/* ---- coordinates: float64, spread over the K voxels and the channels of a thread ---- */

/* 1.5 * 2^20: added to a number below 2^19 it leaves the integer part in the high word and 32 bits of the fraction in
 * the low word. */
constexpr double SPLIT = 1572864.0;
constexpr int SPLIT_HIGH = 0x41380000;

__device__ __forceinline__ int whole(double split)
{
    return __double2hiint(split) - SPLIT_HIGH;
}

/* Returns the fraction of a split coordinate: its upper 23 bits become the mantissa of a number in [1, 2), from which 1
 * less half an ulp is subtracted, which centres the truncation. */
__device__ __forceinline__ float fraction(double split)
{
    return __uint_as_float(__funnelshift_r((uint32_t)__double2loint(split), 0x7f, 9)) - 0.99999994f;
}

__device__ __forceinline__ double first_reciprocal(double x)
{
    double r;
    asm("rcp.approx.ftz.f64 %0, %1;" : "=d"(r) : "d"(x));
    return r;
}

/* Returns 1 / x with a relative error below 2^-40: one Newton step squares the 2^-20 of the approximation. */
__device__ __forceinline__ double reciprocal(double x)
{
    const double r = first_reciprocal(x);
    return fma(r, fma(-x, r, 1.0), r);
}

/* ---- mapping of threads to columns ---- */

/* Return a lane's column among the 8 x 4 of a warp (32-byte runs along x), in an order in which each quarter of the
 * lanes is 2 x 4 and each half 4 x 4 columns: the fewest bank conflicts for loads of 16 and of 8 bytes. Simulated: 1.00
 * at s = 1, 1.22 (16 bytes) and 1.10 (8) at s = 2. */
__device__ __forceinline__ int lane_x(int lane)
{
    return (lane & 1) | (lane >> 2 & 6);
}
__device__ __forceinline__ int lane_y(int lane)
{
    return lane >> 1 & 3;
}

struct tile {
    int x, y, segment;
};

template <class Args> __device__ __forceinline__ tile tile_of(const Args &a, int index)
{
    const int row = index / a.tiles_x;
    return {index - row * a.tiles_x, row % a.tiles_y, a.segment0 + row / a.tiles_y};
}

/* A thread's piece of a column: slices from k0 on at (x, y) relative to the centre. `mine` is false if the thread is
 * outside the grid and repeats column (i, j) of another. */
struct spot {
    int i, j, k0;
    bool mine;
    double x, y, k_mid;
};

template <int K, class Args> __device__ __forceinline__ spot spot_at(const Args &a, int i_tile, int j_tile, int segment)
{
    const int i = min(i_tile, a.half_x - 1), j = min(j_tile, a.out.ny - 1), k0 = segment * K;
    return {i, j, k0, i == i_tile && j == j_tile, i - 0.5 * (a.out.nx - 1), j - 0.5 * (a.out.ny - 1),
            k0 + 0.5 * (K - 1)};
}

/* Returns the piece of a lane in a tile of WX x WY warps. */
template <int K, int WX, int WY, class Args>
__device__ __forceinline__ spot spot_of(const Args &a, const tile &t, int warp, int lane)
{
    return spot_at<K>(a, (t.x * WX + warp % WX) * 8 + lane_x(lane), (t.y * WY + warp / WX) * 4 + lane_y(lane),
                      t.segment);
}

/* ---- landings ---- */

/* A thread's column in one view: t and e are u w and w without their constant terms. */
struct facing {
    double t, e, zc;
};

__device__ __forceinline__ facing face(const vp_column_view &view, const spot &s)
{
    return {fma(view.ux, s.x, view.uy * s.y), fma(view.wx, s.x, view.wy * s.y), fma(view.vz, s.k_mid, view.vc)};
}

/* The window of a thread: rows v + lo .. v + hi of an nv x nu detector; none if it is idle. */
struct sight {
    int nu, nv, lo, hi;
    bool idle;
};

__device__ __forceinline__ bool sees(const sight &s, int u, int v)
{
    return !s.idle && (unsigned)(u + 1) <= (unsigned)s.nu && (unsigned)(v + s.hi) < (unsigned)(s.nv + s.hi - s.lo);
}

/* Projection of the middle of a thread's piece: texel (u, v), fraction f in v, weights a, b of columns u, u + 1. */
struct landing {
    int u, v;
    float a, b, f, s;
    bool skip;               /* the window lies outside the detector */
    double v_split, s_exact; /* interpolate() only */
};

/* Projects the middle of a piece to split coordinates. */
__device__ __forceinline__ void project(const vp_column_view &view, const spot &s, double &u, double &v)
{
    const facing at = face(view, s);
    const double r = reciprocal(view.wc + at.e);
    u = fma(view.uc + at.t, r, SPLIT);
    v = fma(at.zc, r, view.cv);
}

/* Computes a landing in steps, which march() interleaves with the rows of the previous view: a chain of dependent
 * float64 operations whose latency would otherwise be exposed. FACE: begins with face(); without it the result for copy
 * 0 is reused for copy 1, the column rotated by 180 degrees, at (-x, -y). */
constexpr int APPROACH_STEPS = 7;

template <int COPY, bool FACE> struct approach {
    const vp_column_view &view;
    const spot &place;
    const sight &seen;
    facing &at;
    landing &l;
    double w, r, u, v;
    float g, weight;

    __device__ __forceinline__ approach(const vp_column_view &view, const spot &place, const sight &seen, facing &at,
                                        landing &l)
        : view(view), place(place), seen(seen), at(at), l(l)
    {
    }

    __device__ __forceinline__ void step(int n)
    {
        if (n == 0) {
            if (FACE)
                at = face(view, place);
        } else if (n == 1) {
            w = COPY ? view.wc - at.e : view.wc + at.e;
            u = COPY ? view.uc - at.t : view.uc + at.t;
            r = first_reciprocal(w);
        } else if (n == 2) {
            w = fma(-w, r, 1.0);
        } else if (n == 3) {
            r = fma(r, w, r);
        } else if (n == 4) {
            u = fma(u, r, SPLIT);
            v = fma(at.zc, r, view.cv);
            g = (float)r;
        } else if (n == 5) {
            weight = g * g;
            l.u = whole(u), l.v = whole(v);
            l.b = weight * fraction(u), l.a = weight - l.b;
            l.f = fraction(v), l.s = g * (float)view.vz;
            l.v_split = v, l.s_exact = r * view.vz;
        } else if (n == 6) {
            l.skip = !sees(seen, l.u, l.v);
        }
    }

    __device__ __forceinline__ void all()
    {
#pragma unroll
        for (int n = 0; n < APPROACH_STEPS; n++)
            step(n);
    }
};

/* ---- static windows ---- */

__host__ __device__ constexpr int floor_div(int a, int b)
{
    return a >= 0 ? a / b : -((b - 1 - a) / b);
}

/* For LN / LD <= s <= HN / HD a voxel q2 / 2 above the middle has floor(f + q s) in first(q2) .. last(q2) for every f
 * in [0, 1): the rows that it can touch are known at compile time. */
template <int LN, int LD, int HN, int HD> struct bin {
    static constexpr float lower = (float)LN / LD, upper = (float)HN / HD;
    __host__ __device__ static constexpr int first(int q2)
    {
        return q2 > 0 ? floor_div(q2 * LN, 2 * LD) : floor_div(q2 * HN, 2 * HD);
    }
    __host__ __device__ static constexpr int last(int q2)
    {
        return q2 > 0 ? -floor_div(-q2 * HN, 2 * HD) : -floor_div(-q2 * LN, 2 * LD);
    }
};

template <class... B> struct bins {};

/* A tensor map's box has at most 256 elements a side, so texels of several floats are mapped as 8-byte elements. */
__host__ __device__ constexpr int map_floats(int M)
{
    return M == 1 ? 1 : 2;
}

/* Margin in texels for rounding: the extremes of a tile's coordinates are at its corners otherwise. */
constexpr double TILE_MARGIN = 1e-5;

template <int M> using texel = std::conditional_t<M == 1, float, std::conditional_t<M == 2, float2, float4>>;

template <int M> __device__ __forceinline__ void spread(const texel<M> &q, float (&c)[M])
{
    if constexpr (M == 1)
        c[0] = q;
    else if constexpr (M == 2)
        c[0] = q.x, c[1] = q.y;
    else
        c[0] = q.x, c[1] = q.y, c[2] = q.z, c[3] = q.w;
}

/* Texel rows in global or shared memory, PITCH texels apart, or `pitch` if PITCH is 0. */
template <int M, int PITCH, bool GLOBAL> struct texel_rows {
    const texel<M> *at;
    int pitch;
    __device__ __forceinline__ void pair(int row, float (&left)[M], float (&right)[M]) const
    {
        const texel<M> *p = GLOBAL ? at + (int64_t)row * pitch : at + row * (PITCH ? PITCH : pitch);
        spread<M>(GLOBAL ? __ldg(p) : p[0], left);
        spread<M>(GLOBAL ? __ldg(p + 1) : p[1], right);
    }
};

/* Adds the row's values p[channel] to sum[copy][z][k]: copy c projects in view b of an orbit to where copy c xor b
 * projects in view 0. */
template <int COPY, int R, int Z, int K>
__device__ __forceinline__ void add(float weight, const float (&p)[R * Z], int k, float (&sum)[R][Z][K])
{
#pragma unroll
    for (int b = 0; b < R; b++)
#pragma unroll
        for (int z = 0; z < Z; z++)
            sum[b ^ COPY][z][k] = fmaf(weight, p[b * Z + z], sum[b ^ COPY][z][k]);
}

/* Interpolates a piece row by row. Rows are loaded AHEAD rows before they are used; `next` computes the next landing
 * between the rows. FEW: the t of all voxels that a row is added to would fill the registers, so it is computed
 * anew for each row. */
template <class B, int COPY, int R, int Z, int K, class Rows, class Next>
__device__ __forceinline__ void march(const Rows &rows, const landing &l, float (&sum)[R][Z][K], Next &next)
{
    constexpr int bottom = B::first(1 - K), n_rows = B::last(K - 1) + 2 - bottom;
    constexpr bool FEW = 2 * n_rows <= K;
    constexpr int AHEAD = FEW ? 1 : 2;
    float left[n_rows][R * Z], right[n_rows][R * Z];
    float t[K]; /* v relative to the second row that voxel k can touch */
    const float s1 = l.s - 1.0f, f_half = l.f - 0.5f;
#pragma unroll
    for (int n = 0; n < AHEAD; n++)
        rows.pair(bottom + n, left[n], right[n]);
#pragma unroll
    for (int n = 0; n < n_rows; n++) {
        const int j = bottom + n;
        if (n + AHEAD < n_rows)
            rows.pair(j + AHEAD, left[n + AHEAD], right[n + AHEAD]);
        float p[R * Z];
#pragma unroll
        for (int m = 0; m < R * Z; m++)
            p[m] = fmaf(l.b, right[n][m], l.a * left[n][m]);
#pragma unroll
        for (int i = 0; i < APPROACH_STEPS; i++)
            if (i * n_rows / APPROACH_STEPS == n)
                next.step(i);
#pragma unroll
        for (int k = 0; k < K; k++) {
            const int q2 = 2 * k - (K - 1), first = B::first(q2), last = B::last(q2) + 1;
            if (j < first || j > last)
                continue;
            const auto place = [&](float sign) {
                return 2 * first + 2 - q2 == 1 ? fmaf(sign * 0.5f * (float)q2, s1, sign * f_half)
                                               : fmaf(sign * 0.5f * (float)q2, l.s, sign * (l.f - (float)(first + 1)));
            };
            if (FEW || j == first)
                t[k] = place(1);
            float weight;
            if (last - first == 2)
                weight = j == first  ? __saturatef(FEW ? place(-1) : -t[k])
                         : j == last ? __saturatef(t[k])
                                     : 1.0f - fabsf(t[k]);
            else
                weight = __saturatef(1.0f - fabsf(t[k] - (float)(j - first - 1)));
            add<COPY, R, Z, K>(weight, p, k, sum);
        }
    }
}

/* Interpolates a piece for any s: each voxel loads its own four neighbours. In float32 a large s times q would be too
 * coarse. */
template <int COPY, int R, int Z, int K, class Rows, class Next>
__device__ __forceinline__ void interpolate(const Rows &rows, const landing &l, float (&sum)[R][Z][K], Next &next)
{
    next.all();
#pragma unroll
    for (int k = 0; k < K; k++) {
        const double v = fma(k - 0.5 * (K - 1), l.s_exact, l.v_split);
        const int row = whole(v) - l.v;
        const float high = fraction(v);
#pragma unroll
        for (int n = 0; n < 2; n++) {
            float left[R * Z], right[R * Z], p[R * Z];
            rows.pair(row + n, left, right);
#pragma unroll
            for (int m = 0; m < R * Z; m++)
                p[m] = fmaf(l.b, right[m], l.a * left[m]);
            add<COPY, R, Z, K>(n ? high : 1.0f - high, p, k, sum);
        }
    }
}

/* The interpolation method of a kernel: reads rows lo .. hi around the middle; s must lie in [lower, upper]. Each lane
 * chooses its bin. s changes slowly, so few warps diverge; weights are continuous, so a choice rounded the wrong way is
 * harmless. There must be no warp-wide operation between the rows: it would split the basic block within which the
 * latency of loads is hidden. */
template <int K, class Bins> struct method;

template <int K, class First, class... More> struct method<K, bins<First, More...>> {
    using rest = method<K, bins<More...>>;
    static constexpr bool last = sizeof...(More) == 0;
    static constexpr float lower = First::lower, upper = last ? First::upper : rest::upper;
    static constexpr int lo = last || First::first(1 - K) < rest::lo ? First::first(1 - K) : rest::lo;
    static constexpr int hi = last || First::last(K - 1) + 1 > rest::hi ? First::last(K - 1) + 1 : rest::hi;

    template <int COPY, int R, int Z, class Rows, class Next>
    static __device__ __forceinline__ void apply(const Rows &rows, const landing &l, float (&sum)[R][Z][K], Next &next)
    {
        if (last || l.s <= First::upper)
            march<First, COPY>(rows, l, sum, next);
        else
            rest::template apply<COPY>(rows, l, sum, next);
    }
};

template <int K> struct method<K, bins<>> {
    static constexpr float lower = 0, upper = 1e30f;
    static constexpr int lo = 0, hi = 0; /* set by open_window() */
    template <int COPY, int R, int Z, class Rows, class Next>
    static __device__ __forceinline__ void apply(const Rows &rows, const landing &l, float (&sum)[R][Z][K], Next &next)
    {
        interpolate<COPY>(rows, l, sum, next);
    }
};

/* Calls use(copy, landing, orbit, approach to the next landing), with copy a compile-time constant, for every view of
 * the launch. */
template <int R, class Use>
__device__ __forceinline__ void each_landing(const column_args &a, const spot &place, const sight &seen, Use use)
{
    facing at;
    landing next;
    approach<0, true>(a.view[0], place, seen, at, next).all();
#pragma unroll 1
    for (int o = 0; o < a.n; o++) {
        const vp_column_view &following = a.view[min(o + 1, a.n - 1)];
        if constexpr (R == 2) {
            const landing first = next;
            use(std::integral_constant<int, 0>(), first, o, approach<1, false>(a.view[o], place, seen, at, next));
        }
        const landing last = next;
        use(std::integral_constant<int, R - 1>(), last, o, approach<0, true>(following, place, seen, at, next));
    }
}

/* ---- the thread's voxels ---- */

/* Calls f(sum, element) for every sum of the thread that has a voxel in the slab. A column in the middle is its own
 * rotated copy, and a slice in the middle its own mirror: they are visited once. */
template <int R, int Z, int K, class F>
__device__ __forceinline__ void visit(const slab &s, int nz, const spot &at, float (&sum)[R][Z][K], F f)
{
#pragma unroll
    for (int copy = 0; copy < R; copy++) {
        const int ii = copy ? s.nx - 1 - at.i : at.i, jj = copy ? s.ny - 1 - at.j : at.j;
        if (copy && ii == at.i)
            continue;
        float *column = s.vol + (int64_t)jj * s.nx + ii;
#pragma unroll
        for (int z = 0; z < Z; z++)
#pragma unroll
            for (int k = 0; k < K; k++) {
                const int kk = at.k0 + k;
                const bool once = Z == 1 || (z == 0 ? kk <= nz - 1 - kk : kk < nz - 1 - kk);
                if (once && kk >= s.begin[z] && kk < s.end[z])
                    f(sum[copy][z][k], column + (s.origin[z] + kk * s.step[z]));
            }
    }
}

template <int R, int Z, int K>
__device__ __forceinline__ void load_sums(const slab &s, int nz, const spot &at, float (&sum)[R][Z][K])
{
    memset(sum, 0, sizeof sum);
    if (at.mine && !s.fresh)
        visit(s, nz, at, sum, [](float &to, const float *from) { to = *from; });
}

template <int R, int Z, int K>
__device__ __forceinline__ void store_sums(const slab &s, int nz, const spot &at, float (&sum)[R][Z][K])
{
    if (at.mine)
        visit(s, nz, at, sum, [](float from, float *to) { *to = from; });
}

/* ---- launchers ---- */

/* Texels of R * Z channels: channel b * Z + z is view b of the orbit, z = 1 with rows counted from the other end. */
struct pack_args {
    const float *q[2];       /* first view of the batch, and its opposite view; NULL: the channel is left unchanged */
    float *packed;           /* slot 0 */
    int64_t slot_floats;
    int nu, nv, rows, pitch; /* columns, rows of the detector; rows of a slot; texels of a row */
    int given_first, given;  /* first row, rows that q holds; all others are 0, except that */
    int margin;              /* `margin` rows at either end repeat the nearest row inside */
    int row_base, pad_u;     /* texel (0, 0) is detector row row_base, column -pad_u */
    int channels_z, views;   /* Z, R */
    bool pairs;              /* texels are (q(u), q(u + 1)), for general matrices */
    unsigned flip;           /* bit z: channel z counts rows from the other end */
    int slot, n;             /* first slot, orbits */
};

cudaError_t launch_pack(const pack_args &a, cudaStream_t stream);

enum column_set { SET_HALF, SET_UNIT, SET_DOUBLE, SET_QUARTER, SET_ANY, SETS };

struct column_kernel {
    int views, channels_z; /* R, Z */
    column_set set;
    double s_lower, s_upper;
    int K, lo, hi;         /* slices of a piece; rows lo .. hi around its middle are read (SET_ANY: from s_max) */
    int tile_x, tile_y;
    int pitch, pitch_step; /* texels a shared row; 0: any multiple plus pitch_step / 2 (SET_ANY) */
    int stages, stages_most; /* tensor tiles in flight, at least and at most */
    int batch;             /* orbits a launch, at most */
};

/* Returns f(R, Z, set) with compile-time constants. */
template <class F> auto with_variant(int views, int channels_z, column_set set, const F &f)
{
    const auto of = [&](auto r, auto z) {
        switch (set) {
        case SET_HALF: return f(r, z, std::integral_constant<column_set, SET_HALF>());
        case SET_UNIT: return f(r, z, std::integral_constant<column_set, SET_UNIT>());
        case SET_DOUBLE: return f(r, z, std::integral_constant<column_set, SET_DOUBLE>());
        case SET_QUARTER: return f(r, z, std::integral_constant<column_set, SET_QUARTER>());
        default: return f(r, z, std::integral_constant<column_set, SET_ANY>());
        }
    };
    const std::integral_constant<int, 1> one;
    const std::integral_constant<int, 2> two;
    return views == 2 ? (channels_z == 2 ? of(two, two) : of(two, one))
                      : (channels_z == 2 ? of(one, two) : of(one, one));
}

/* Sets the limits of a kernel from the bins of its method. */
template <class Method, class Kernel> void describe_bins(Kernel *k)
{
    k->s_lower = Method::lower, k->s_upper = Method::upper, k->lo = Method::lo, k->hi = Method::hi;
}

void column_portable(int views, int channels_z, column_set set, column_kernel *k);
cudaError_t launch_column_portable(const column_kernel &k, const column_args &a, cudaStream_t stream);

/* Tensor-tile kernels: return false or an error if they are not compiled in or the device cannot run them. */
bool column_tiled(int views, int channels_z, column_set set, column_kernel *k);
size_t column_tiled_shared(const column_kernel &k, int box_pitch, int box_rows, int stages);
cudaError_t launch_column_tiled(const column_kernel &k, const CUtensorMap &map, const column_args &a, int stages,
                                int processors, cudaStream_t stream);

/* Computes the largest extents in texels, over all tiles, views and copies, of the box that a tile of a kernel needs
 * (general matrices: lo = hi = 0). extent[2] is device memory and must be 0 before. */
cudaError_t launch_column_extent(const column_kernel &k, const column_args &a, int last_segment, int *extent,
                                 cudaStream_t stream);

/* Launches the kernel for general matrices; `plain`: in float64, for any matrices. */
cudaError_t launch_matrix_portable(const matrix_args &a, bool plain, cudaStream_t stream);
cudaError_t launch_matrix_extent(const matrix_args &a, int *extent, cudaStream_t stream);
constexpr int MATRIX_K = 16, MATRIX_TILE = 16;
bool matrix_tiled(int extent_u, int *pitch);
size_t matrix_tiled_shared(int pitch, int box_rows);
cudaError_t launch_matrix_tiled(int pitch, bool level, const CUtensorMap &map, const matrix_args &a,
                                cudaStream_t stream);

} // namespace vp
