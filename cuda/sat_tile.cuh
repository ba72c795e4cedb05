/* SPDX-License-Identifier: BSD-3-Clause */
/* Tiles of summed area tables (sat.cuh): their shape, their order, and what one thread block does to the samples of one
 * tile. The names q, w, o, r, h and p are those of global/sat.h. */
#pragma once

#include "copy.cuh"
#include "launch.cuh"
#include "global/sat.h"
#include "sat_scan.cuh"

namespace vp::sat
{

/* ---- shape ---- */

/* Shape of a tile: `rows` of each warp, `groups` of 128 columns. A block has TALL_WARPS warps for images of f32, else
 * BASE_WARPS. For floats the shape is part of the order of summation (global/sat.h). */
enum { BASE_WARPS = 8, TALL_WARPS = 16 };
template <class In, class A> struct tile_shape {
    enum { rows = sizeof(In) < 4 ? 16 : 8, groups = 1 };
};
template <class In> struct tile_shape<In, uint32_t> {
    enum { rows = sizeof(In) == 1 ? 32 : 16, groups = sizeof(In) < 4 ? 2 : 1 };
};
/* Returns the number of blocks that shall be resident on a multiprocessor, as measured. */
template <class In, class A, class Out, int WARPS> constexpr int blocks_per_sm()
{
    if (WARPS > BASE_WARPS)
        return 2;
    return sizeof(In) < sizeof(A) && sizeof(A) == 8 && (sizeof(Out) == 4 || sizeof(In) < 4) ? 4 : 3;
}

/* Return the rows and the columns of a tile. */
template <class In, class A, int WARPS> VP_ANYWHERE constexpr int tile_rows()
{
    return tile_shape<In, A>::rows * WARPS;
}
template <class In, class A> VP_ANYWHERE constexpr int tile_columns()
{
    return 32 * LANE_COLUMNS * tile_shape<In, A>::groups;
}
static_assert(tile_rows<float, double, TALL_WARPS>() == VP_SAT_TALL
              && tile_rows<float, double, BASE_WARPS>() == VP_SAT_HIGH
              && tile_rows<double, double, BASE_WARPS>() == VP_SAT_HIGH && tile_columns<float, double>() == VP_SAT_WIDE
              && VP_SAT_HIGH / BASE_WARPS == VP_SAT_ROWS, "");

/* ---- order ---- */

/* Division by an invariant d of numbers below 2^31 (Granlund and Montgomery 1994). */
struct divisor { unsigned magic, shift; };

static inline divisor divisor_of(unsigned d)
{
    unsigned l = 0;
    while (((uint64_t)1 << l) < d)
        l++;
    return {(unsigned)((((uint64_t)1 << (31 + l)) + d - 1) / d), l};
}

__device__ __forceinline__ unsigned divide(unsigned n, divisor d)
{
    return __umulhi(2 * n, d.magic) >> d.shift;
}

/* A contiguous part of a table along y, or of a volume along z. In images planes is 1. */
struct table_part {
    const void *in;      /* sample (0, 0, 0) of the part */
    void *out;
    int64_t nx, ny, planes; /* samples, rows, planes */
    int64_t in_row, in_plane, out_row, out_plane; /* pitches in samples */
    bool volume;
    bool no_carry;       /* the carry-in counts as 0 */
    void *carry;         /* carry-in, replaced by the carry-out: a row, in volumes a plane */
    int64_t carry_pitch; /* pitch of a carried plane, in sums */
};

/* Arguments of the kernels. */
struct table_job : table_part {
    unsigned tiles_x, tiles_y;
    unsigned band;     /* rows of tiles of a band (place_of) */
    unsigned tiles;    /* positions of a plane: whole bands, also below the last row of tiles */
    unsigned corner;   /* positions on the growing diagonals at the beginning of a plane */
    divisor by_planes, by_band, by_tiles_x;
    unsigned padded_columns, padded_rows; /* columns and rows of all tiles together */
    uint64_t *rows;    /* published sums of rows: [plane][entry along x][row] */
    uint64_t *columns; /* published sums of columns: [plane][entry along y][column] */
    int64_t per_plane; /* words of both for one plane */
};

/* Coordinates of a tile; `exists` is false for positions below the last row of tiles. */
struct tile_place { int x, y; unsigned plane; bool exists; };

/* Returns the tile of block t. Rows of tiles advance in bands of j.band rows, each row one tile after the row above it.
 * So tiles are taken by diagonals, which grow at the beginning of a plane and shrink at its end; where a row of a band
 * ends, the corresponding row of the next band begins. The planes of a volume are interleaved: the same tile of all
 * planes comes in consecutive blocks, so that what a tile waits for was published long ago. */
__device__ __forceinline__ tile_place place_of(const table_job &j, unsigned t)
{
    unsigned plane = 0;
    if (j.planes > 1) {
        const unsigned n = divide(t, j.by_planes);
        plane = t - n * (unsigned)j.planes;
        t = n;
    }
    unsigned c, i;
    const unsigned k = min(t, j.tiles - 1 - t);
    if (k < j.corner) {
        c = (unsigned)((sqrtf((float)(8 * k + 1)) - 1) / 2);
        c -= c * (c + 1) / 2 > k;
        c += (c + 1) * (c + 2) / 2 <= k;
        i = k - c * (c + 1) / 2;
        if (k < t) {
            c = j.tiles / j.band + j.band - 2 - c;
            i = j.band - 1 - i;
        }
    } else {
        const unsigned n = divide(t - j.corner, j.by_band);
        c = j.band - 1 + n;
        i = t - j.corner - n * j.band;
    }
    const unsigned s = c - i, b = divide(s, j.by_tiles_x), y = b * j.band + i;
    return tile_place{(int)(s - b * j.tiles_x), (int)y, plane, y < j.tiles_y};
}

/* Issues asynchronous copies of a tile's samples to shared memory, 16 bytes a lane, a warp for its own rows. Samples
 * outside the image are left undefined: no output depends on them. */
template <class In, class A, int WARPS>
__device__ __forceinline__ void load_tile(const table_job &j, const tile_place &t, char *staged)
{
    constexpr int R = tile_shape<In, A>::rows, TW = tile_columns<In, A>(), E = 16 / sizeof(In);
    constexpr int ROW = TW / E; /* lanes of a row */
    constexpr int STEP = ROW < 32 ? 32 / ROW : 1, PER = ROW > 32 ? ROW / 32 : 1;
    const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
    const int c = lane % ROW * E, r0 = lane / ROW;
    const int64_t y0 = (int64_t)t.y * (R * WARPS) + warp * R + r0, x0 = (int64_t)t.x * TW + c;
    const In *in = (const In *)j.in + t.plane * j.in_plane + y0 * j.in_row + x0;
    char *const to = staged + ((warp * R + r0) * TW + c) * sizeof(In);
    const bool all = (int64_t)(t.x + 1) * TW <= j.nx && (int64_t)(t.y + 1) * (R * WARPS) <= j.ny;
    if (all) {
#pragma unroll
        for (int r = 0; r < R; r += STEP) {
#pragma unroll
            for (int k = 0; k < PER; k++)
                copy_async<16>(to + (r * TW + k * 32 * E) * sizeof(In), in + k * 32 * E);
            in += STEP * j.in_row;
        }
    } else {
#pragma unroll 1
        for (int r = 0; r < R; r += STEP) {
#pragma unroll
            for (int k = 0; k < PER; k++)
                if (x0 + k * 32 * E < j.nx && y0 + r < j.ny)
                    copy_async<16>(to + (r * TW + k * 32 * E) * sizeof(In), in + k * 32 * E);
            in += STEP * j.in_row;
        }
    }
    copies_close();
}

/* Sums that the warps of a block exchange. The column sums of the last warp are read by no other warp, so their place
 * takes the tile's last row (r + h). */
template <class In, class A, int WARPS> struct shared_sums {
    alignas(16) A column_sum[WARPS][tile_columns<In, A>()]; /* column sums over the rows of each warp */
    alignas(16) A above[tile_columns<In, A>()]; /* p */
    A left[WARPS][tile_shape<In, A>::rows];     /* h */
    A total[WARPS];                             /* sums of all samples of each warp */

    /* Store and load the four columns of a lane in pieces of 16 bytes; pieces of neighbouring lanes are adjacent. */
    static __device__ __forceinline__ void store(A *row, int g, int lane, const A (&v)[LANE_COLUMNS])
    {
#pragma unroll
        for (int k = 0; k < LANE_COLUMNS; k += PIECE) {
            vec<A, PIECE> x;
            memcpy(&x, &v[k], sizeof x);
            *(vec<A, PIECE> *)(row + offset_of(g, lane, k)) = x;
        }
    }
    static __device__ __forceinline__ void load(A (&v)[LANE_COLUMNS], const A *row, int g, int lane)
    {
#pragma unroll
        for (int k = 0; k < LANE_COLUMNS; k += PIECE) {
            const vec<A, PIECE> x = *(const vec<A, PIECE> *)(row + offset_of(g, lane, k));
            memcpy(&v[k], &x, sizeof x);
        }
    }
    enum { PIECE = 16 / sizeof(A) };
    static __device__ __forceinline__ int offset_of(int g, int lane, int k)
    {
        return (g * LANE_COLUMNS + k) * 32 + lane * PIECE;
    }
};

/* Returns the column of element i of a row in that layout. */
template <class A> __device__ __forceinline__ int64_t column_of(int64_t i)
{
    constexpr int PIECE = 16 / sizeof(A);
    const int at = (int)(i % (32 * LANE_COLUMNS)), lane = at / PIECE % 32, k = at / (32 * PIECE) * PIECE + at % PIECE;
    return i - at + lane * LANE_COLUMNS + k;
}

/* A thread's part of a tile: the rows of its warp, columns lane * LANE_COLUMNS ... of each group. Sums of column k are
 * those of the lane's columns 0 ... k, as q_k in global/sat.h. */
template <class In, class A, int WARPS, bool SQUARE> struct thread_tile {
    using quad_t = typename quad<In>::type;
    static constexpr bool FLOATS = std::is_same<A, double>::value;
    enum { R = tile_shape<In, A>::rows, G = tile_shape<In, A>::groups, TW = 32 * LANE_COLUMNS * G };
    const char *mine;     /* the thread's first sample in shared memory */
    int warp, lane;
    A w[G][LANE_COLUMNS]; /* sums down the warp's rows */
    A o[G][LANE_COLUMNS]; /* sums down the rows of the warps above */

    __device__ __forceinline__ thread_tile(const char *staged)
    {
        warp = threadIdx.x >> 5;
        lane = threadIdx.x & 31;
        mine = staged + (warp * R * TW + lane * LANE_COLUMNS) * sizeof(In);
    }
    __device__ __forceinline__ int column(int g) const { return (g * 32 + lane) * LANE_COLUMNS; }
    __device__ __forceinline__ quad_t samples(int r, int g) const
    {
        return *(const quad_t *)(mine + (r * TW + g * 32 * LANE_COLUMNS) * sizeof(In));
    }

    /* Sums the columns and the rows of the warp. Returns in lane r the sum of rows 0 ... r of the warp. */
    __device__ __forceinline__ A sum_columns(shared_sums<In, A, WARPS> &s)
    {
        memset(w, 0, sizeof w);
        A own = tree_sums<R, FLOATS>([&](int r) {
            A row = 0;
#pragma unroll
            for (int g = 0; g < G; g++)
                row += add_sums<In, A, SQUARE>(w[g], samples(r, g), FLOATS && r == 0);
            return FLOATS ? w[0][LANE_COLUMNS - 1] : row;
        }, lane);
        if constexpr (!FLOATS) {
#pragma unroll
            for (int d = 1; d < R; d *= 2) {
                const A t = __shfl_up_sync(~0u, own, d, R);
                if (lane % R >= d)
                    own += t;
            }
        }
        if (lane == R - 1)
            s.total[warp] = own;
#pragma unroll
        for (int g = 0; g < G; g++)
            s.store(s.column_sum[warp], g, lane, w[g]);
        return own;
    }

    /* Sets o, after sum_columns() of all warps and a barrier. For floats, which have many warps, one thread scans each
     * column over the warps. */
    __device__ __forceinline__ void sum_above(shared_sums<In, A, WARPS> &s)
    {
        if constexpr (FLOATS) {
            if (threadIdx.x < TW) {
                A v[WARPS], sum = 0;
#pragma unroll
                for (int i = 0; i < WARPS - 1; i++)
                    v[i] = s.column_sum[i][threadIdx.x];
#pragma unroll
                for (int i = 0; i < WARPS - 1; i++) {
                    s.column_sum[i][threadIdx.x] = sum;
                    sum += v[i];
                }
                s.column_sum[WARPS - 1][threadIdx.x] = sum;
            }
            __syncthreads();
            s.load(o[0], s.column_sum[warp], 0, lane);
        } else {
            memset(o, 0, sizeof o);
#pragma unroll
            for (int i = 0; i < WARPS - 1; i++)
                if (i < warp)
#pragma unroll
                    for (int g = 0; g < G; g++) {
                        A a[LANE_COLUMNS];
                        s.load(a, s.column_sum[i], g, lane);
#pragma unroll
                        for (int k = 0; k < LANE_COLUMNS; k++)
                            o[g][k] += a[k];
                    }
        }
    }

    /* Returns in lane r the sum of all rows of the tile down to row r of the warp; `own` is from sum_columns(). */
    __device__ __forceinline__ A row_prefix(const shared_sums<In, A, WARPS> &s, A own) const
    {
        A above = 0;
#pragma unroll
        for (int i = 0; i < WARPS - 1; i++)
            if (i < warp)
                above += s.total[i];
        return above + own;
    }

    /* Scans a row of the tile along x: r from the column sums u. Integers add `to_all` to every column; the order of
     * floats has no place for it. */
    static __device__ __forceinline__ void scan_row(const A (&u)[G][LANE_COLUMNS], A to_all, A (&r)[G][LANE_COLUMNS])
    {
        if constexpr (FLOATS) {
            const A e = shuffle_up<1>(warp_scan(u[0][LANE_COLUMNS - 1]));
#pragma unroll
            for (int k = 0; k < LANE_COLUMNS; k++)
                r[0][k] = u[0][k] + e;
        } else {
#pragma unroll
            for (int g = 0; g < G; g++) {
                const A all = u[g][LANE_COLUMNS - 1], s = warp_scan(all), e = s - all + to_all;
                if (g < G - 1)
                    to_all += __shfl_sync(~0u, s, 31);
#pragma unroll
                for (int k = 0; k < LANE_COLUMNS; k++)
                    r[g][k] = u[g][k] + e;
            }
        }
    }

    /* Sets r to the last row of the tile's own table; for the last warp. */
    __device__ __forceinline__ void last_row(A (&r)[G][LANE_COLUMNS]) const
    {
        A u[G][LANE_COLUMNS];
#pragma unroll
        for (int g = 0; g < G; g++)
#pragma unroll
            for (int k = 0; k < LANE_COLUMNS; k++)
                u[g][k] = o[g][k] + w[g][k];
        scan_row(u, 0, r);
    }

    /* Stores the warp's rows of the table, h and p included, and the table's last row to `carried` as well unless it is
     * NULL. ALL: the tile lies inside the image. */
    template <bool ALL, class Out>
    __device__ __forceinline__ void store_rows(const table_job &j, const tile_place &t,
                                               const shared_sums<In, A, WARPS> &s, A *carried)
    {
        const int64_t x0 = (int64_t)t.x * TW, y0 = ((int64_t)t.y * WARPS + warp) * R;
        Out *out = (Out *)j.out + t.plane * j.out_plane + y0 * j.out_row + x0 + lane * LANE_COLUMNS;
        const int rows = ALL ? (int)R : (int)min((int64_t)R, j.ny - y0);
        A p[G][LANE_COLUMNS];
#pragma unroll
        for (int g = 0; g < G; g++)
            s.load(p[g], s.above, g, lane);
        if constexpr (!FLOATS) { /* p enters the scan along x by its differences */
#pragma unroll
            for (int g = 0; g < G; g++) {
                const A first = __shfl_up_sync(~0u, p[g][LANE_COLUMNS - 1], 1),
                        before = lane ? first : g ? s.above[g * 32 * LANE_COLUMNS - 1] : (A)0;
#pragma unroll
                for (int k = 0; k < LANE_COLUMNS; k++)
                    o[g][k] += p[g][k] - before;
            }
        }
#pragma unroll(ALL ? (int)R : 1)
        for (int r = 0; r < (ALL ? (int)R : rows); r++) {
            const A h = s.left[warp][r];
            A m[G][LANE_COLUMNS];
            if constexpr (FLOATS) {
                if (r == R - 1 && warp == WARPS - 1) {
                    s.load(m[0], s.column_sum[WARPS - 1], 0, lane);
                } else {
                    add_sums<In, A, SQUARE>(o[0], samples(r, 0), false);
                    scan_row(o, 0, m);
#pragma unroll
                    for (int k = 0; k < LANE_COLUMNS; k++)
                        m[0][k] = m[0][k] + h;
                }
#pragma unroll
                for (int k = 0; k < LANE_COLUMNS; k++)
                    m[0][k] = p[0][k] + m[0][k];
            } else {
#pragma unroll
                for (int g = 0; g < G; g++)
                    add_sums<In, A, SQUARE>(o[g], samples(r, g), false);
                scan_row(o, h, m);
            }
#pragma unroll
            for (int g = 0; g < G; g++) {
                store_row<ALL, Out>(out + g * 32 * LANE_COLUMNS, m[g], x0 + column(g), j.nx);
                if ((!ALL || r == R - 1) && carried && y0 + r == j.ny - 1)
#pragma unroll
                    for (int k = 0; k < LANE_COLUMNS; k++)
                        if (ALL || x0 + column(g) + k < j.nx)
                            carried[x0 + column(g) + k] = m[g][k];
            }
            out += j.out_row;
        }
    }

    template <bool ALL, class Out>
    __device__ __forceinline__ void store_row(Out *out, const A (&m)[LANE_COLUMNS], int64_t x, int64_t nx) const
    {
        constexpr int N = 16 / sizeof(Out);
        if constexpr (ALL && N == LANE_COLUMNS) {
            vec<Out, N> v;
#pragma unroll
            for (int k = 0; k < N; k++)
                v.v[k] = (Out)m[k];
            store_once<Out, N>(out, v);
        } else if constexpr (ALL) { /* pairs of lanes exchange halves, so that each store of the warp is contiguous */
            const bool odd = lane & 1;
            vec<Out, N> first, second;
#pragma unroll
            for (int k = 0; k < N; k++) {
                const A got = __shfl_xor_sync(~0u, odd ? m[k] : m[k + N], 1);
                first.v[k] = (Out)(odd ? got : m[k]);
                second.v[k] = (Out)(odd ? m[k + N] : got);
            }
            Out *const to = out - (odd ? N : 0);
            store_once<Out, N>(to, first);
            store_once<Out, N>(to + LANE_COLUMNS, second);
        } else {
#pragma unroll
            for (int k = 0; k < LANE_COLUMNS; k++)
                if (x + k < nx)
                    out[k] = (Out)m[k];
        }
    }

    template <class Out>
    __device__ __forceinline__ void store_rows(const table_job &j, const tile_place &t,
                                               const shared_sums<In, A, WARPS> &s)
    {
        A *const carried = j.volume ? NULL : (A *)j.carry;
        if ((int64_t)(t.x + 1) * TW <= j.nx && (int64_t)(t.y + 1) * (R * WARPS) <= j.ny)
            store_rows<true, Out>(j, t, s, carried);
        else
            store_rows<false, Out>(j, t, s, carried);
    }
};

} // namespace vp::sat
