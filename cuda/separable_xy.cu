/* SPDX-License-Identifier: BSD-3-Clause */
/* Separable filters along x and then y in one pass over memory. */
#include "separable_ring.cuh"

#include <algorithm>

namespace vp
{

constexpr int WIDTH = 128;            /* columns of a block */
constexpr int THREADS = 2 * WIDTH;    /* = 32 lanes x WIDTH / UNIT warps: both phases of k_xy fill the block */
constexpr int RING_PITCH = WIDTH + 4; /* 4 mod 32: no bank conflicts of lanes on consecutive rows */

/* read_line<1> that loads all samples before it uses any: another order for the compiler's scheduler. */
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
    volume in, out[2]; /* out: of one box; NF = 1: the result; NF = 2: p, q of local/log.h, data may be NULL */
    axis x, y;
    taps fx[2], fy[2]; /* NF = 2: orders 0 and 2 */
    int strips, chunks, chunk_rows, stages;
    bool highpass;
};

__host__ __device__ constexpr int stage_pitch(int radius)
{
    return WIDTH + 2 * padded(radius) + 4; /* 4 mod 32, as RING_PITCH */
}

/* `stages`: 2 if two such blocks fit into a multiprocessor, else 1 (k_xy). */
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

/* stage_four() for unaligned samples and edges. Integers are converted at once. */
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

/* Returns the first of the four integers, relative to in.lo[0], that samples x ... x + 3 are computed from: these
 * samples themselves, or if the edge repeats the last sample, the group of that one; -1: neither. */
__device__ __forceinline__ int integers_of(const volume &in, const axis &a, int x)
{
    const int c = x - in.lo[0], near = min(max(x, 0), a.n - 1) - in.lo[0];
    if (c % 4 != 0)
        return -1;
    if (c >= 0 && x + 4 <= in.hi[0])
        return c;
    return repeats(a.rule) && near >= 0 && near < in.hi[0] - in.lo[0] ? near / 4 * 4 : -1;
}

/* Loads samples x ... x + 3 of a line by the edge rule; sample in.lo[0] of the line has index `line` in the part.
 * Samples outside the part are not needed. Integers are converted later. */
template <bool FLOATS>
__device__ __forceinline__ void stage_four(const volume &in, const axis &a, float *to, long long line, int x)
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

/* Converts the integers loaded for x ... x + 3, if any. */
template <class Four>
__device__ __forceinline__ void convert_four(const volume &in, const axis &a, float *at, int x)
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
 * needed. A warp loads whole rows, and then groups of four columns on both sides of all rows, so that its lanes take
 * the same branches at the image's edge. */
struct stage {
    int at; /* offset in shared memory, in floats: a pointer passed to a function would become a generic address */
    int radius, x0, end, row, lo, hi;
};

__device__ __forceinline__ float *stage_origin(const stage &s)
{
    extern __shared__ __align__(16) float shared[];
    return shared + s.at + padded(s.radius);
}

constexpr int STAGE_WARPS = THREADS / 32, STAGE_ROUNDS = STEP / STAGE_WARPS;

/* True if the part contains the four columns of a lane in all rows, aligned. */
__device__ __forceinline__ bool stage_is_plain(const volume &in, const axis &y, const stage &s, int column)
{
    const int c = column - in.lo[0];
    return c >= 0 && c % 4 == 0 && column + 4 <= in.hi[0] && column < s.end && s.row >= s.lo && s.row + STEP <= s.hi &&
           y.rule != VP_EDGE_WRAP;
}

/* Calls plain(to, pitch) if a lane's four columns are plain in all rows of its warp, and four(to, row, column) for all
 * other groups of four that are needed. */
template <class Plain, class Four>
__device__ __forceinline__ void each_group(const volume &in, const axis &y, const stage &s, const Plain &plain,
                                           const Four &four)
{
    const int pitch = stage_pitch(s.radius), lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int groups = (s.radius + 3) / 4, column = s.x0 + 4 * lane;
    float *const origin = stage_origin(s);
    if (stage_is_plain(in, y, s, column)) {
        plain(origin + warp * pitch + 4 * lane, pitch);
    } else if (column < s.end) {
#pragma unroll 1
        for (int r = warp; r < STEP; r += STAGE_WARPS)
            if (s.row + r >= s.lo && s.row + r < s.hi)
                four(origin + r * pitch + 4 * lane, s.row + r, column);
    }
    if (s.row + lane < s.lo || s.row + lane >= s.hi)
        return;
#pragma unroll 1
    for (int g = warp; g < 2 * groups; g += STAGE_WARPS) {
        const int side = g < groups ? -4 * (g + 1) : WIDTH + 4 * (g - groups);
        if (s.x0 + side < s.end)
            four(origin + lane * pitch + side, s.row + lane, s.x0 + side);
    }
}

template <bool FLOATS>
__device__ __forceinline__ void stage_rows(const volume &in, const axis &x, const axis &y, const stage &s, int z)
{
    const int row_size = (int)in.step[1]; /* rows are shorter than 2^31: one multiplication */
    const long long plane = (long long)(z - in.lo[2]) * in.step[2];
    each_group(
        in, y, s,
        [&](float *to, int pitch) {
            const int size = FLOATS ? 4 : sample_size(in.type), row = s.row + (int)threadIdx.x / 32 - in.lo[1];
            const int column = s.x0 + 4 * ((int)threadIdx.x % 32) - in.lo[0];
            const char *from = in.data + size * (plane + (long long)row * row_size + column);
            const long long step = (long long)(STAGE_WARPS * size) * row_size;
#pragma unroll
            for (int q = 0; q < STAGE_ROUNDS; q++, to += STAGE_WARPS * pitch, from += step)
                if (FLOATS)
                    copy_async<16>(to, from);
                else
                    copy_four(to, from, in.type);
        },
        [&](float *to, int row, int column) {
            const int from = y.rule == VP_EDGE_WRAP ? edge_from(VP_EDGE_WRAP, row, y.n) : row;
            stage_four<FLOATS>(in, x, to, plane + (long long)(from - in.lo[1]) * row_size, column);
        });
}

/* Not inlined, so that the code for floats stays compact; arguments by value are passed in registers. */
static __device__ __noinline__ void stage_integers(volume in, axis x, axis y, stage s, int z)
{
    stage_rows<false>(in, x, y, s, z);
}

/* Converts the integers of stage_integers(), each thread those that it has loaded. */
template <class Four>
__device__ __forceinline__ void convert_rows(const volume &in, const axis &x, const axis &y, const stage &s)
{
    each_group(
        in, y, s,
        [&](float *at, int pitch) {
            float4 v[STAGE_ROUNDS];
#pragma unroll
            for (int q = 0; q < STAGE_ROUNDS; q++)
                v[q] = floats_at<Four>(at + q * STAGE_WARPS * pitch);
#pragma unroll
            for (int q = 0; q < STAGE_ROUNDS; q++)
                *reinterpret_cast<float4 *>(at + q * STAGE_WARPS * pitch) = v[q];
        },
        [&](float *at, int, int column) { convert_four<Four>(in, x, at, column); });
}

static __device__ __noinline__ void convert_integers(volume in, axis x, axis y, stage s)
{
    switch (in.type) {
    case VP_U8: convert_rows<uchar4>(in, x, y, s); break;
    case VP_U16: convert_rows<ushort4>(in, x, y, s); break;
    default: convert_rows<short4>(in, x, y, s);
    }
}

/* Fills rows of the ring outside the image by the edge rule. */
__device__ __forceinline__ void extend_ring(const ring &r, const axis &a, int lo, int hi)
{
    const int lane = threadIdx.x % 32;
#pragma unroll 1
    for (int row = lo + (int)threadIdx.x / 32; row < hi; row += THREADS / 32) {
        const int from = edge_from(a.rule, row, a.n);
        const float4 zero = make_float4(0, 0, 0, 0);
        reinterpret_cast<float4 *>(r.row(row))[lane] =
            from < 0 ? zero : reinterpret_cast<const float4 *>(r.row(from))[lane];
    }
}

/* Overview: a block filters WIDTH columns x chunk_rows rows of one plane, STEP rows at a time: rows are loaded into a
 *   stage, filtered along x into the ring, and as soon as the ring has all samples of a step of outputs, these are
 *   filtered along y and stored. With two stages the rows of the next step are prefetched meanwhile, and y processes
 *   the previous step (one barrier a step); with one stage the next rows are loaded after x (two barriers; other blocks
 *   hide the latency).
 * Mapping: along x a warp has UNIT columns and a lane is a row; along y a lane is a column.
 * Registers: as in separable_line.cuh.
 * Shared memory: the stages (STEP rows of WIDTH + 2 R samples), a ring of 2 R + STEP * stages rows for each filter, the
 *   taps unless the radius is a compile-time constant (xy_shared()).
 * Global memory: rows are read 1 + 2 R / WIDTH times (halos through the caches), 2 R of them twice where chunks meet;
 *   written once.
 * Limits: shared memory for one stage. */
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
            tx[n] = share_taps(a.fx[n], rx, at);
            ty[n] = share_taps(a.fy[n], ry, at);
        }

    const unsigned block = blockIdx.x;
    const int x0 = a.out[0].lo[0] + (int)(block % a.strips) * WIDTH;
    const int chunk = (int)(block / a.strips % a.chunks), z = a.out[0].lo[2] + (int)(block / a.strips / a.chunks);
    const int begin = a.out[0].lo[1] + chunk * a.chunk_rows;
    const march m = march_over(a.y, ry, begin, min(begin + a.chunk_rows, a.out[0].hi[1]), STEP);
    const int column = tid % WIDTH, x = x0 + column, steps = m.blocks + m.lag;
    const bool floats = a.in.type == VP_F32;
    int first_step = 0;
    while (!m.needed(first_step))
        first_step++;
    int slot = (first_step - 2) * STEP; /* slot of the first row of step t in the rings */
    const auto stage_of = [&](int t) {
        const int at = (t & late) * STEP * stage_pitch(rx);
        return stage{at, rx, x0, min(x0 + WIDTH, a.out[0].hi[0]) + rx, m.row(t), m.need_lo, m.need_hi};
    };
    const auto load_stage = [&](int t) {
        if (floats)
            stage_rows<true>(a.in, a.x, a.y, stage_of(t), z);
        else
            stage_integers(a.in, a.x, a.y, stage_of(t), z);
    };
#pragma unroll
    for (int n = 0; n < NF; n++)
        rings[n].first = m.row(0);

#pragma unroll 1
    for (int t = first_step - 1; t < steps + late; t++) {
        const bool more = t + 1 < steps && m.needed(t + 1);
        const bool here = t >= first_step && t < steps && m.needed(t);
        slot += STEP;
        slot -= slot >= ring_rows ? ring_rows : 0;
        copies_done();
        if (!floats && here)
            convert_integers(a.in, a.x, a.y, stage_of(t));
        __syncthreads();
        if (late && more)
            load_stage(t + 1);
        if (here && x0 + warp * UNIT < a.out[0].hi[0]) {
            const read_row read = {shared + ((t & late) * STEP + lane) * stage_pitch(rx) + padded(rx) + warp * UNIT};
            float *to[NF];
#pragma unroll
            for (int n = 0; n < NF; n++)
                to[n] = rings[n].data + (slot + lane) * RING_PITCH + warp * UNIT;
            filter_line<NF, R, ROWS>(
                read, a.x, a.fx, tx, x0 + warp * UNIT,
                [&](unsigned, const float(&v)[NF][UNIT]) { /* all; outputs with individual taps are overwritten */
#pragma unroll
                    for (int n = 0; n < NF; n++)
#pragma unroll
                        for (int j = 0; j < UNIT; j += 4)
                            *reinterpret_cast<float4 *>(to[n] + j) =
                                make_float4(v[n][j], v[n][j + 1], v[n][j + 2], v[n][j + 3]);
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
                load_stage(t + 1);
        }
        const int s = t - late; /* the step that is complete for y */
        if (s < m.lag)
            continue;
        /* rows before the image as soon as the rows that they copy are in the ring, rows after it when they are
         * reached */
        const int from_row = s == m.lag ? m.begin - ry : m.row(s), to_row = m.row(s) + STEP;
        const bool before = s == m.lag && m.begin - ry < 0, after = to_row > a.y.n && from_row < m.end + ry;
        if (a.y.rule != VP_EDGE_WRAP && (before || after)) {
#pragma unroll
            for (int n = 0; n < NF; n++) {
                if (before)
                    extend_ring(rings[n], a.y, m.begin - ry, 0);
                if (after)
                    extend_ring(rings[n], a.y, max(from_row, a.y.n), min(to_row, m.end + ry));
            }
            __syncthreads();
        }
        const int i = m.begin + (s - m.lag) * STEP + tid / WIDTH * UNIT;
        if (x >= a.out[0].hi[0] || i >= m.end)
            continue;
        const unsigned there = first_of(m.end - i);
        int at_i = slot + i - m.row(t);
        at_i += at_i < 0 ? ring_rows : 0;
        const read_ring ring_a = {rings[0].data + column, ring_rows, RING_PITCH, at_i};
        const read_ring ring_b = {rings[NF - 1].data + column, ring_rows, RING_PITCH, at_i};
        samples to = samples_of(a.out[0], 1, x, i, z);
        if constexpr (NF == 1) {
            const samples from = samples_of(a.in, 1, x, i, z);
            const auto finish = [&](unsigned mask, float(&v)[1][UNIT]) {
                if (a.highpass)
                    subtract_line(from, v[0], mask & there);
                store_line(to, v[0], mask & there);
            };
            if constexpr (ALONG_Y) {
                filter_line<1, R, ROWS>(ring_a, a.y, a.fy, ty, i, finish,
                                        [&](int j, unsigned mask, float(&v)[1][FEW]) {
                                            store_few(to, a.highpass, from, j, v[0], mask & there >> j);
                                        });
            } else {
                float v[1][UNIT];
                ring_a.template around<0>(v[0]);
                finish(there, v);
            }
        } else {
            /* q = Gy(a), p = Gy(b) + G''y(a) */
            to.type = VP_F32;
            samples to_q = to;
            to_q.data = a.out[1].data;
            filter_line<2, R, ROWS>(
                ring_a, a.y, a.fy, ty, i,
                [&](unsigned mask, float(&v)[2][UNIT]) {
                    float w[1][UNIT] = {};
                    if (to_q.data)
                        store_line(to_q, v[0], mask & there);
                    if (!to.data)
                        return;
                    if (rx) {
                        filter_unit<1, R>(ring_b, a.y, a.fy, ty, i, w);
#pragma unroll
                        for (int j = 0; j < UNIT; j++)
                            v[1][j] = ry ? w[0][j] + v[1][j] : w[0][j];
                    }
                    store_line(to, v[1], mask & there);
                },
                [&](int j, unsigned mask, float(&v)[2][FEW]) {
                    float w[1][FEW];
                    if (to_q.data)
                        store_few(to_q, false, to_q, j, v[0], mask & there >> j);
                    if (!to.data)
                        return;
                    if (rx) {
                        filter_few<1>(ring_b, a.y, a.fy, i, j, mask, w);
#pragma unroll
                        for (int e = 0; e < FEW; e++)
                            v[1][e] = w[0][e] + v[1][e];
                    }
                    store_few(to, false, to, j, v[1], mask & there >> j);
                });
        }
    }
}

size_t xy_least(int filters, int rx, int ry)
{
    return xy_shared(filters, rx, ry, 1);
}

int run_xy(const pass &p, const volume *one, const volume *two, bool along_y, bool highpass, vp_err *err)
{
    const volume &to = one ? *one : *two;
    xy_args a = {};
    a.in = p.source;
    a.out[0] = a.out[1] = to;
    a.out[0].data = one ? one->data : NULL;
    a.out[1].data = two ? two->data : NULL;
    a.x = axis_at(p, 0);
    a.y = axis_at(p, 1);
    std::copy(p.f[0], p.f[0] + 2, a.fx);
    if (along_y)
        std::copy(p.f[1], p.f[1] + 2, a.fy);
    else
        a.y.rule = VP_EDGE_NEAREST; /* no row outside the image is read */
    const int rx = a.fx[0].radius, ry = a.fy[0].radius, rows = to.hi[1] - to.lo[1];
    if (by_line(p, 0) && !ry)
        return run_line(p, p.source, to, 0, highpass, err);
    a.strips = (to.hi[0] - to.lo[0] + WIDTH - 1) / WIDTH;
    const int64_t planes = to.hi[2] - to.lo[2];
    a.chunk_rows = march_length(a.strips * planes, rows, ry, p.args->queue->sms);
    a.chunks = (rows + a.chunk_rows - 1) / a.chunk_rows;
    a.highpass = highpass;
    a.stages = xy_shared(p.s->filters, rx, ry, 2) <= half_of_shared() ? 2 : 1;
    const bool rows_x = a.fx[0].edge, rows_y = a.fy[0].edge;
    const int same = rx == ry ? rx : 0;
    void (*const kernel)(xy_args) =
        p.s->filters == 2  ? code_for(same, radii<0, 4, 6, 8, 12>(),
                                      [](auto r) { return k_xy<2, decltype(r)::value, true, true>; })
        : rows_x || rows_y ? k_xy<1, 0, true, true>
        : along_y          ? code_for(same, radii<0, 2, 3, 4, 6, 8, 10, 12, 16>(),
                                      [](auto r) { return k_xy<1, decltype(r)::value, true, false>; })
                           : k_xy<1, 0, false, false>;
    return vp_start(err, p.args->queue->stream, kernel, dim3((unsigned)(a.strips * planes * a.chunks)), dim3(THREADS),
                    xy_shared(p.s->filters, rx, ry, a.stages), a);
}

}
