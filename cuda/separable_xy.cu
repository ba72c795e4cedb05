/* SPDX-License-Identifier: BSD-3-Clause */
/* Separable filters along x and then y, reading and writing once. */
#include "separable_ring.cuh"

#include <algorithm>

namespace vp
{

constexpr int WIDTH = 128;            /* columns of a block */
constexpr int THREADS = 2 * WIDTH;    /* = 32 lanes x WIDTH / UNIT warps: both phases of k_xy fill the block */
constexpr int RING_PITCH = WIDTH + 4; /* 4 mod 32: lanes on consecutive rows do not meet in a bank */

/* The same as its base, but all is read before any of it is taken: another order for the compiler to begin with. */
struct read_row : read_line<1> {
    template <int R> __device__ __forceinline__ void around(float (&v)[UNIT + 2 * R]) const
    {
        constexpr int FRONT = (R + 3) / 4 * 4, ALL = UNIT + 2 * FRONT;
        float all[ALL];
#pragma unroll
        for (int q = 0; q < ALL; q += 4)
            *reinterpret_cast<float4 *>(&all[q]) = *reinterpret_cast<const float4 *>(p - FRONT + q);
#pragma unroll
        for (int q = 0; q < UNIT + 2 * R; q++)
            v[q] = all[FRONT - R + q];
    }
};

struct xy_args {
    view in;
    char *out[2]; /* NF = 1: the result. NF = 2: p, q of local/log.h; either may be NULL */
    long long out_pitch, out_plane;
    int out_type, out_lo[3], out_hi[3];
    axis x, y;
    taps fx[2], fy[2]; /* NF = 2: order 0, order 2 */
    int strips, chunks, chunk_rows, stages;
    bool highpass;
};

__host__ __device__ constexpr int stage_pitch(int radius)
{
    return WIDTH + 2 * padded(radius) + 4; /* 4 mod 32, as RING_PITCH */
}

/* `stages`: 2 where they fit twice into a multiprocessor, see k_xy. */
__host__ __device__ constexpr int xy_ring_rows(int ry, int stages)
{
    return stages * STEP + (2 * padded(ry) + STEP - 1) / STEP * STEP;
}

__host__ __device__ constexpr size_t xy_shared(int nf, int rx, int ry, int stages)
{
    return sizeof(float) * ((size_t)stages * STEP * stage_pitch(rx) +
                            (size_t)nf * xy_ring_rows(ry, stages) * RING_PITCH +
                            (size_t)nf * (padded(rx) + padded(ry)));
}

/* The part of stage_four that is out of the way: other places, edges. Integers are floats at once. */
static __device__ __noinline__ void stage_four_slowly(const char *data, int type, int lo, int hi, int rule, int n,
                                                      float *to, long long line, int x)
{
    float v[4];
#pragma unroll
    for (int e = 0; e < 4; e++) {
        const int from = edge_from(rule, x + e, n);
        const bool there = from >= lo && from < hi;
        v[e] = there && type != VP_F32 ? load_sample(data, line + from - lo, type) : 0;
        if (there && type == VP_F32)
            copy_async<4>(to + e, data + 4 * (line + from - lo));
        else if (type == VP_F32)
            to[e] = 0;
    }
    if (type != VP_F32)
        *reinterpret_cast<float4 *>(to) = make_float4(v[0], v[1], v[2], v[3]);
}

/* The four integers that samples x ... x + 3 are made of, counted from in.lo[0]: their own or, where the image ends and
 * repeats its last one, those that it is among; -1: it is not as simple. */
__device__ __forceinline__ int integers_of(const view &in, const axis &a, int x)
{
    const int c = x - in.lo[0], near = min(max(x, 0), a.n - 1) - in.lo[0];
    if (c % 4 != 0)
        return -1;
    if (c >= 0 && x + 4 <= in.hi[0])
        return c;
    return repeats(a.rule) && near >= 0 && near < in.hi[0] - in.lo[0] ? near / 4 * 4 : -1;
}

/* Samples x ... x + 3 of a line (where sample in.lo[0] is number `line` of the part), by the edge rule; those that the
 * part has not got are not needed. Integers are converted later. */
template <bool FLOATS>
__device__ __forceinline__ void stage_four(const view &in, const axis &a, float *to, long long line, int x)
{
    const int c = FLOATS ? x - in.lo[0] : integers_of(in, a, x);
    if (!FLOATS && c >= 0) {
        copy_four(to, in.data + sample_size(in.type) * (line + c), in.type);
    } else if (FLOATS && c >= 0 && c % 4 == 0 && x + 4 <= in.hi[0]) {
        copy_async<16>(to, in.data + 4 * (line + c));
    } else if (FLOATS && repeats(a.rule) && (x + 4 <= 0 || x >= a.n)) {
        const int from = x < 0 ? 0 : a.n - 1;
        if (from >= in.lo[0] && from < in.hi[0])
#pragma unroll
            for (int e = 0; e < 4; e++)
                copy_async<4>(to + e, in.data + 4 * (line + from - in.lo[0]));
    } else {
        stage_four_slowly(in.data, in.type, in.lo[0], in.hi[0], a.rule, a.n, to, line, x);
    }
}

/* What came for x ... x + 3, if anything did. */
template <class Four>
__device__ __forceinline__ void convert_four(const view &in, const axis &a, float *at, int x)
{
    const int c = integers_of(in, a, x);
    if (c < 0)
        return;
    *reinterpret_cast<float4 *>(at) = floats_at<Four>(at);
    if (c + in.lo[0] == x && x + 4 <= a.n)
        return;
    float v[4];
#pragma unroll
    for (int e = 0; e < 4; e++)
        v[e] = at[min(max(x + e, 0), a.n - 1) - in.lo[0] - c];
    *reinterpret_cast<float4 *>(at) = make_float4(v[0], v[1], v[2], v[3]);
}

/* Rows [row, row + STEP) x columns [x0 - R, x0 + WIDTH + R), before `end`, of one plane; rows outside [lo, hi) are not
 * needed. A warp does whole rows, and then groups of four columns on both sides of all rows, so that its lanes agree
 * where the image ends. */
struct stage {
    int at; /* in shared memory, floats: a pointer that a call hands on is one to any memory */
    int radius, x0, end, row, lo, hi;
};

__device__ __forceinline__ float *stage_origin(const stage &s)
{
    extern __shared__ __align__(16) float shared[];
    return shared + s.at + padded(s.radius);
}

constexpr int STAGE_WARPS = THREADS / 32, STAGE_ROUNDS = STEP / STAGE_WARPS;

/* Whether the part has the four columns of a lane in all rows just as they are needed. */
__device__ __forceinline__ bool stage_is_plain(const view &in, const axis &y, const stage &s, int column)
{
    const int c = column - in.lo[0];
    return c >= 0 && c % 4 == 0 && column + 4 <= in.hi[0] && column < s.end && s.row >= s.lo && s.row + STEP <= s.hi &&
           y.rule != VP_EDGE_WRAP;
}

template <int BYTES>
__device__ __forceinline__ void stage_plain(float *to, int pitch, const char *from, long long step)
{
#pragma unroll
    for (int q = 0; q < STAGE_ROUNDS; q++, to += STAGE_WARPS * pitch, from += step)
        copy_async<BYTES>(to, from);
}

template <bool FLOATS>
__device__ __forceinline__ void stage_rows(const view &in, const axis &x, const axis &y, const stage &s, int z)
{
    const int pitch = stage_pitch(s.radius), lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int groups = (s.radius + 3) / 4, column = s.x0 + 4 * lane;
    const int row_size = (int)in.pitch; /* the row of an image is an int: one multiplication */
    const long long plane = (long long)(z - in.lo[2]) * in.plane;
    float *const origin = stage_origin(s);
    const auto line_of = [&](int r) {
        const int from = y.rule == VP_EDGE_WRAP ? edge_from(VP_EDGE_WRAP, r, y.n) : r;
        return plane + (long long)(from - in.lo[1]) * row_size;
    };
    if (stage_is_plain(in, y, s, column)) {
        float *const to = origin + warp * pitch + 4 * lane;
        const int size = FLOATS ? 4 : sample_size(in.type);
        const char *const from =
            in.data + size * (plane + (long long)(s.row + warp - in.lo[1]) * row_size + (column - in.lo[0]));
        const long long step = (long long)(STAGE_WARPS * size) * row_size;
        if (FLOATS)
            stage_plain<16>(to, pitch, from, step);
        else if (in.type == VP_U8)
            stage_plain<4>(to, pitch, from, step);
        else
            stage_plain<8>(to, pitch, from, step);
    } else if (column < s.end) {
#pragma unroll 1
        for (int r = warp; r < STEP; r += STAGE_WARPS)
            if (s.row + r >= s.lo && s.row + r < s.hi)
                stage_four<FLOATS>(in, x, origin + r * pitch + 4 * lane, line_of(s.row + r), column);
    }
    const int r = s.row + lane;
    if (r < s.lo || r >= s.hi)
        return;
#pragma unroll 1
    for (int g = warp; g < 2 * groups; g += STAGE_WARPS) {
        const int side = g < groups ? -4 * (g + 1) : WIDTH + 4 * (g - groups);
        if (s.x0 + side < s.end)
            stage_four<FLOATS>(in, x, origin + lane * pitch + side, line_of(r), s.x0 + side);
    }
}

/* Not in line, for what floats need would be spread out; arguments in registers. */
static __device__ __noinline__ void stage_integers(view in, axis x, axis y, stage s, int z)
{
    stage_rows<false>(in, x, y, s, z);
}

/* What stage_integers asked for, each thread its own. */
template <class Four>
__device__ __forceinline__ void convert_rows(const view &in, const axis &x, const axis &y, const stage &s)
{
    const int pitch = stage_pitch(s.radius), lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int groups = (s.radius + 3) / 4, column = s.x0 + 4 * lane;
    float *const origin = stage_origin(s);
    if (stage_is_plain(in, y, s, column)) {
        float *const at = origin + warp * pitch + 4 * lane;
        float4 v[STAGE_ROUNDS];
#pragma unroll
        for (int q = 0; q < STAGE_ROUNDS; q++)
            v[q] = floats_at<Four>(at + q * STAGE_WARPS * pitch);
#pragma unroll
        for (int q = 0; q < STAGE_ROUNDS; q++)
            *reinterpret_cast<float4 *>(at + q * STAGE_WARPS * pitch) = v[q];
    } else if (column < s.end) {
#pragma unroll 1
        for (int r = warp; r < STEP; r += STAGE_WARPS)
            if (s.row + r >= s.lo && s.row + r < s.hi)
                convert_four<Four>(in, x, origin + r * pitch + 4 * lane, column);
    }
    if (s.row + lane < s.lo || s.row + lane >= s.hi)
        return;
#pragma unroll 1
    for (int g = warp; g < 2 * groups; g += STAGE_WARPS) {
        const int side = g < groups ? -4 * (g + 1) : WIDTH + 4 * (g - groups);
        if (s.x0 + side < s.end)
            convert_four<Four>(in, x, origin + lane * pitch + side, s.x0 + side);
    }
}

static __device__ __noinline__ void convert_integers(view in, axis x, axis y, stage s)
{
    switch (in.type) {
    case VP_U8: convert_rows<uchar4>(in, x, y, s); break;
    case VP_U16: convert_rows<ushort4>(in, x, y, s); break;
    default: convert_rows<short4>(in, x, y, s);
    }
}

/* Rows of the ring outside the image: what the edge rule puts there. */
__device__ __forceinline__ void extend_ring(const ring &r, const axis &a, int lo, int hi)
{
    const int lane = threadIdx.x % 32;
#pragma unroll 1
    for (int row = lo + (int)threadIdx.x / 32; row < hi; row += THREADS / 32) {
        const int from = edge_from(a.rule, row, a.n);
        const float4 zero = make_float4(0, 0, 0, 0);
        reinterpret_cast<float4 *>(ring_row(r, row))[lane] =
            from < 0 ? zero : reinterpret_cast<const float4 *>(ring_row(r, from))[lane];
    }
}

/* Overview: a block makes WIDTH columns x chunk_rows rows of one plane, STEP rows at a time: they come into a stage,
 *   are filtered along x into the ring, and what the ring then allows is filtered along y and written. With two
 *   stages the rows of the next step are on their way meanwhile, and y works on the step before (one barrier a step);
 *   with one stage the next rows are asked for when x is done (two barriers; other blocks fill the gap).
 * Mapping: along x a warp has UNIT columns and a lane is a row; along y a lane is a column.
 * Registers: see separable_line.cuh. Shared: the stages (STEP rows of WIDTH + 2 R), a ring of 2 R + STEP * stages
 *   rows a filter, the taps where the radius is not known to the compiler: xy_shared().
 * Memory: reads its rows 1 + 2 R / WIDTH times (neighbouring blocks through the cache) and 2 R of them twice where two
 *   chunks meet, writes once.
 * Limits: shared memory for one stage; radii up to LONGEST have their taps in the arguments. */
template <int NF, int R, bool ALONG_Y, bool ROWS>
__global__ void __launch_bounds__(THREADS, NF == 1 ? 2 : 1) k_xy(const __grid_constant__ xy_args a)
{
    extern __shared__ __align__(16) float shared[];
    const int rx = R ? R : a.fx[0].radius, ry = !ALONG_Y ? 0 : R ? R : a.fy[0].radius;
    const int tid = threadIdx.x, lane = tid % 32, warp = tid / 32, late = a.stages - 1;
    float *at = shared + a.stages * STEP * stage_pitch(rx);
    ring rings[NF];
    const int ring_rows = xy_ring_rows(ry, a.stages);
#pragma unroll
    for (int n = 0; n < NF; n++, at += ring_rows * RING_PITCH)
        rings[n] = {at, ring_rows, RING_PITCH, 0};
    const float *tx[NF], *ty[NF];
    if (R == 0)
#pragma unroll
        for (int n = 0; n < NF; n++) {
            for (int k = tid; k < padded(rx); k += THREADS)
                at[k] = a.fx[n].t[k];
            tx[n] = at;
            at += padded(rx);
            for (int k = tid; k < padded(ry); k += THREADS)
                at[k] = a.fy[n].t[k];
            ty[n] = at;
            at += padded(ry);
        }

    const unsigned block = blockIdx.x;
    const int x0 = a.out_lo[0] + (int)(block % a.strips) * WIDTH;
    const int chunk = (int)(block / a.strips % a.chunks), z = a.out_lo[2] + (int)(block / a.strips / a.chunks);
    const int begin = a.out_lo[1] + chunk * a.chunk_rows;
    const march m = march_over(a.y, ry, begin, min(begin + a.chunk_rows, a.out_hi[1]), STEP);
    const int column = tid % WIDTH, x = x0 + column, steps = m.blocks + m.lag;
    const bool floats = a.in.type == VP_F32;
    int first_step = 0;
    while (!step_needed(m, first_step))
        first_step++;
    int slot = (first_step - 2) * STEP; /* of the first row of step t in the rings */
    const auto stage_of = [&](int t) {
        const int at = (t & late) * STEP * stage_pitch(rx);
        return stage{at, rx, x0, min(x0 + WIDTH, a.out_hi[0]) + rx, step_row(m, t), m.need_lo, m.need_hi};
    };
    const auto ask = [&](int t) {
        if (floats)
            stage_rows<true>(a.in, a.x, a.y, stage_of(t), z);
        else
            stage_integers(a.in, a.x, a.y, stage_of(t), z);
    };
#pragma unroll
    for (int n = 0; n < NF; n++)
        rings[n].first = step_row(m, 0);

#pragma unroll 1
    for (int t = first_step - 1; t < steps + late; t++) {
        const bool more = t + 1 < steps && step_needed(m, t + 1);
        const bool here = t >= first_step && t < steps && step_needed(m, t);
        slot += STEP;
        slot -= slot >= ring_rows ? ring_rows : 0;
        copies_done();
        if (!floats && here)
            convert_integers(a.in, a.x, a.y, stage_of(t));
        __syncthreads();
        if (late && more)
            ask(t + 1);
        if (here && x0 + warp * UNIT < a.out_hi[0]) {
            const read_row read = {shared + ((t & late) * STEP + lane) * stage_pitch(rx) + padded(rx) + warp * UNIT};
            float *to[NF];
#pragma unroll
            for (int n = 0; n < NF; n++)
                to[n] = rings[n].data + (slot + lane) * RING_PITCH + warp * UNIT;
            filter_line<NF, R, ROWS>(
                read, a.x, a.fx, tx, x0 + warp * UNIT,
                [&](unsigned mask, const float(&v)[NF][UNIT]) {
#pragma unroll
                    for (int n = 0; n < NF; n++)
#pragma unroll
                        for (int j = 0; j < UNIT; j += 4) /* the others too: they are overwritten */
                            *reinterpret_cast<float4 *>(to[n] + j) =
                                make_float4(v[n][j], v[n][j + 1], v[n][j + 2], v[n][j + 3]);
                    (void)mask;
                },
                [&](int j, unsigned mask, const float(&v)[NF][FEW]) {
#pragma unroll
                    for (int n = 0; n < NF; n++)
#pragma unroll
                        for (int e = 0; e < FEW; e++)
                            if (mask >> e & 1)
                                to[n][j + e] = v[n][e];
                });
        }
        if (!late) {
            __syncthreads();
            if (more)
                ask(t + 1);
        }
        const int s = t - late; /* the step that y may use */
        if (s < m.lag)
            continue;
        /* Rows before the image when all that follows is there for the first time, behind it as they are reached. */
        const int from_row = s == m.lag ? m.begin - ry : step_row(m, s), to_row = step_row(m, s) + STEP;
        const bool before = s == m.lag && m.begin - ry < 0, behind = to_row > a.y.n && from_row < m.end + ry;
        if (a.y.rule != VP_EDGE_WRAP && (before || behind)) {
#pragma unroll
            for (int n = 0; n < NF; n++) {
                if (before)
                    extend_ring(rings[n], a.y, m.begin - ry, 0);
                if (behind)
                    extend_ring(rings[n], a.y, max(from_row, a.y.n), min(to_row, m.end + ry));
            }
            __syncthreads();
        }
        const int i = m.begin + (s - m.lag) * STEP + tid / WIDTH * UNIT;
        if (x >= a.out_hi[0] || i >= m.end)
            continue;
        const unsigned there = first_of(m.end - i);
        const long long to = (long long)(z - a.out_lo[2]) * a.out_plane + (long long)(i - a.out_lo[1]) * a.out_pitch +
                             (x - a.out_lo[0]);
        int at_i = slot + i - step_row(m, t);
        at_i += at_i < 0 ? ring_rows : 0;
        const read_ring ring_a(rings[0], at_i, column), ring_b(rings[NF - 1], at_i, column);
        if constexpr (NF == 1) {
            const long long from = (long long)(z - a.in.lo[2]) * a.in.plane +
                                   (long long)(i - a.in.lo[1]) * a.in.pitch + (x - a.in.lo[0]);
            const auto finish = [&](unsigned mask, float(&v)[1][UNIT]) {
                if (a.highpass)
                    subtract_line(a.in.data, from, a.in.pitch, a.in.type, v[0], mask & there);
                store_line(a.out[0], to, a.out_pitch, a.out_type, v[0], mask & there);
            };
            if constexpr (ALONG_Y) {
                filter_line<1, R, ROWS>(
                    ring_a, a.y, a.fy, ty, i, finish,
                    [&](int j, unsigned mask, float(&v)[1][FEW]) {
                        store_few(a.out[0], to + j * a.out_pitch, a.out_pitch, a.out_type, a.highpass, a.in,
                                  from + j * a.in.pitch, a.in.pitch, v[0], mask & there >> j);
                    });
            } else {
                float v[1][UNIT];
                ring_a.template around<0>(v[0]);
                finish(there, v);
            }
        } else {
            /* q = Gy(a), p = Gy(b) + G''y(a) */
            const unsigned mask = ROWS && ry ? row_mask(a.y, a.fy[1], i) : 0, inside = there & ~mask;
            if (inside) {
                float v[2][UNIT], w[1][UNIT];
                filter_unit<2, R>(ring_a, a.y, a.fy, ty, i, v);
                if (a.out[1])
                    store_line(a.out[1], to, a.out_pitch, VP_F32, v[0], inside);
                if (a.out[0] && rx) {
                    filter_unit<1, R>(ring_b, a.y, a.fy, ty, i, w);
#pragma unroll
                    for (int j = 0; j < UNIT; j++)
                        v[1][j] = ry ? w[0][j] + v[1][j] : w[0][j];
                }
                if (a.out[0])
                    store_line(a.out[0], to, a.out_pitch, VP_F32, v[1], inside);
            }
            if constexpr (ROWS)
#pragma unroll 1
                for (int j = 0; j < UNIT; j += FEW) {
                    const unsigned some = mask >> j & ((1u << FEW) - 1);
                    float v[2][FEW], w[1][FEW];
                    if (!some)
                        continue;
                    filter_few<2>(ring_a, a.y, a.fy, i, j, some, v);
                    if (a.out[1])
                        store_few(a.out[1], to + j * a.out_pitch, a.out_pitch, VP_F32, false, a.in, 0, 0, v[0],
                                  some & there >> j);
                    if (!a.out[0])
                        continue;
                    if (rx) {
                        filter_few<1>(ring_b, a.y, a.fy, i, j, some, w);
#pragma unroll
                        for (int e = 0; e < FEW; e++)
                            v[1][e] = w[0][e] + v[1][e];
                    }
                    store_few(a.out[0], to + j * a.out_pitch, a.out_pitch, VP_F32, false, a.in, 0, 0, v[1],
                              some & there >> j);
                }
        }
    }
}

size_t xy_least(int filters, int rx, int ry)
{
    return xy_shared(filters, rx, ry, 1);
}

int run_xy(const pass &p, const vp_area *const out[2], vp_type type, bool along_y, bool highpass, vp_err *err)
{
    const vp_area &to = out[0] ? *out[0] : *out[1];
    const bool two = p.s->filters == 2;
    xy_args a = {};
    a.in = p.source;
    for (int i = 0; i < 2; i++)
        a.out[i] = out[i] ? (char *)out[i]->data : NULL;
    a.out_pitch = to.pitch;
    a.out_plane = to.plane;
    a.out_type = type;
    for (int i = 0; i < 3; i++) {
        a.out_lo[i] = (int)to.box.lo[i];
        a.out_hi[i] = (int)to.box.hi[i];
    }
    a.x = axis_at(p, 0);
    a.y = axis_at(p, 1);
    std::copy(p.f[0], p.f[0] + 2, a.fx);
    if (along_y)
        std::copy(p.f[1], p.f[1] + 2, a.fy);
    else
        a.y.rule = VP_EDGE_NEAREST; /* no row outside the image is looked at */
    const int rx = a.fx[0].radius, ry = a.fy[0].radius, rows = a.out_hi[1] - a.out_lo[1];
    if (by_line(p, 0) && !ry)
        return run_line(p, volume_of(p.source), volume_of(view_of(&to, type)), 0, highpass, err);
    a.strips = (a.out_hi[0] - a.out_lo[0] + WIDTH - 1) / WIDTH;
    const int64_t planes = vp_box_size(&to.box, 2);
    a.chunk_rows = march_length(a.strips * planes, rows, ry, p.args->queue->sms);
    a.chunks = (rows + a.chunk_rows - 1) / a.chunk_rows;
    a.highpass = highpass;
    a.stages = xy_shared(p.s->filters, rx, ry, 2) <= half_of_shared() ? 2 : 1;
    const bool rows_x = a.fx[0].edge, rows_y = a.fy[0].edge;
    const int same = rx == ry ? rx : 0;
    void (*const kernel)(xy_args) =
        two                ? code_for(same, radii<4, 6, 8, 12>(),
                                      [](auto r) { return k_xy<2, decltype(r)::value, true, true>; })
        : rows_x || rows_y ? k_xy<1, 0, true, true>
        : along_y          ? code_for(same, radii<2, 3, 4, 6, 8, 10, 12, 16>(),
                                      [](auto r) { return k_xy<1, decltype(r)::value, true, false>; })
                           : k_xy<1, 0, false, false>;
    return vp_start(err, p.args->queue->stream, kernel, dim3((unsigned)(a.strips * planes * a.chunks)), dim3(THREADS),
                    xy_shared(p.s->filters, rx, ry, a.stages), a);
}

}
