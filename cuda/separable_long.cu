/* SPDX-License-Identifier: BSD-3-Clause */
/* Separable filters of order 0 along one axis with a large radius. Intermediate volumes may be transposed, so that the
 * axis of the next pass is the fastest one (TRANSPOSED). */
#include "separable_line.cuh"

#include <algorithm>

namespace vp
{

constexpr int LINES = 32, LINE_WARPS = 8, LINE_STEP = LINE_WARPS * UNIT, TRANSPOSE_PITCH = UNIT / 2 + 4;
constexpr int LINE_ROUND = 5 * 128; /* samples of a row that are copied at a time: enough for 512 outputs, R = 40 */

/* A volume in terms of lines. */
struct line_volume {
    char *data; /* voxel (0, 0, 0) of the image, which may lie outside the allocation */
    long long along, across, other; /* pitches in samples: along lines, from line to line of a block, third axis */
    int type;
};

struct line_args {
    line_volume in, out, source; /* source: the samples for high-pass */
    int lo[3], hi[3];            /* range of the output: along, across, other */
    int in_lo, in_hi;            /* range of the input along the lines */
    axis along;
    taps f;        /* order 0 */
    int begin;     /* lo[0], or before it so that groups of four are aligned */
    int length;    /* outputs of a block along the axis, a multiple of LINE_STEP */
    bool highpass;
    bool plain;    /* output is f32, not high-pass */
    bool aligned;  /* groups of four are aligned: across the lines (COLUMNS), in the rows of the output (ROWS) */
};

/* Returns the samples of a line in shared memory. */
__host__ __device__ constexpr int line_samples(int length, int radius)
{
    return length + 2 * padded(radius);
}

__host__ __device__ constexpr size_t line_shared(line_form form, int length, int radius)
{
    const int line = line_samples(length, radius) + (form == COLUMNS ? 0 : 4) +
                     (form == ROWS ? LINE_WARPS * TRANSPOSE_PITCH : 0);
    return sizeof(float) * (padded(radius) + (size_t)LINES * line);
}

/* Distance of the samples of a line in shared memory, in floats. */
template <line_form FORM> constexpr int DISTANCE = FORM == COLUMNS ? LINES : 1;

/* The lines of a block in shared memory: place 0 is sample `from`; places [first, last) are in the input. */
struct piece {
    int at;            /* offset of the first line in shared memory, in floats */
    int pitch;         /* from line to line, in floats; COLUMNS: 1 */
    int from, first, last;
    int needed;        /* places that outputs depend on: [0, needed) */
    int across, other; /* position of the first line */
};

/* Rarely executed code is in functions that are not inlined: it would spread out the rest, which is slower. */

__device__ __forceinline__ float *lines_of(const piece &b)
{
    extern __shared__ __align__(16) float shared[];
    return shared + b.at;
}

/* Calls f(to, from) for all groups of four samples that exist of the block's lines, of which the input has `rows`. A
 * warp has 32 groups of a row at a time. */
template <class Four, class F>
__device__ __forceinline__ void each_four(const line_volume &in, int rows, const piece &b, const F &f)
{
    const int warp = threadIdx.x / 32, at = b.first + 4 * (threadIdx.x % 32);
    const long long from = b.other * in.other + (b.across + warp) * in.across + b.from + at;
    const Four *p = reinterpret_cast<const Four *>(in.data + from * (long long)(sizeof(Four) / 4));
    float *q = lines_of(b) + warp * b.pitch + at;
#pragma unroll 1
    for (int c = at; c < b.last; c += LINE_ROUND, p += LINE_ROUND / 4, q += LINE_ROUND) {
        const Four *row = p;
        float *to = q;
#pragma unroll 1
        for (int r = warp; r < min(LINES, rows); r += LINE_WARPS) {
#pragma unroll
            for (int e = 0; e < LINE_ROUND; e += 128)
                if (c + e < b.last)
                    f(to + e, row + e / 4);
            row += LINE_WARPS / 4 * in.across;
            to += LINE_WARPS * b.pitch;
        }
    }
}

template <class Four> __device__ __forceinline__ void copy_rows(const line_volume &in, int rows, const piece &b)
{
    each_four<Four>(in, rows, b, [](float *to, const Four *from) { copy_async<sizeof(Four)>(to, from); });
}

/* Copies integers and converts them. Arguments by value are passed in registers rather than loaded one after
 * another. */
template <class Four> static __device__ __noinline__ void load_integers(line_volume in, int rows, piece b)
{
    copy_rows<Four>(in, rows, b);
    copies_done();
    each_four<Four>(in, rows, b,
                    [](float *at, const Four *) { *reinterpret_cast<float4 *>(at) = floats_at<Four>(at); });
}

__device__ __forceinline__ void load_rows(const line_args &a, const piece &b)
{
    const int rows = a.hi[1] - b.across;
    switch (a.in.type) {
    case VP_U8: load_integers<uchar4>(a.in, rows, b); break;
    case VP_U16: load_integers<ushort4>(a.in, rows, b); break;
    case VP_I16: load_integers<short4>(a.in, rows, b); break;
    default: copy_rows<float4>(a.in, rows, b);
    }
}

/* The same for columns. */
__device__ __forceinline__ void load_columns(const line_args &a, const piece &b)
{
    constexpr int PLACES = LINE_WARPS * 32 / 8; /* at a time */
    const int x = (int)threadIdx.x % 8 * 4, width = min(4, a.hi[1] - b.across - x);
    int place = b.first + (int)threadIdx.x / 8;
    const float *p = reinterpret_cast<const float *>(a.in.data) + b.other * a.in.other + (b.across + x) +
                     (b.from + place) * a.in.along;
    float *q = lines_of(b) + place * LINES + x;
    const long long step = PLACES * a.in.along;
    if (width <= 0)
        return;
    if (a.aligned) {
#pragma unroll 4
        for (; place < b.last; place += PLACES, p += step, q += PLACES * LINES)
            copy_async<16>(q, p);
        return;
    }
#pragma unroll 1
    for (; place < b.last; place += PLACES, p += step, q += PLACES * LINES)
#pragma unroll 1
        for (int e = 0; e < width; e++)
            copy_async<4>(q + e, p + e);
}

/* extend_lines() for edges that do not repeat the last sample; `outside` places, `before` of them at the front. */
template <line_form FORM>
__device__ __noinline__ void extend_by_rule(const line_args &a, piece b, int before, int outside)
{
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, beyond = before + b.needed - outside;
    const auto fill = [&](int line, int q) {
        const int place = q < before ? q : q - before + beyond;
        const int s = edge_from(a.along.rule, b.from + place, a.along.n), near = s - b.from;
        float *const p = lines_of(b) + line * b.pitch;
        float v = 0;
        if (s >= 0 && near >= b.first && near < b.last)
            v = p[near * DISTANCE<FORM>];
        else if (s >= a.in_lo && s < a.in_hi && line < a.hi[1] - b.across)
            v = load_sample(a.in.data, b.other * a.in.other + (b.across + line) * a.in.across + s * a.in.along,
                            a.in.type);
        p[place * DISTANCE<FORM>] = v;
    };
    if (FORM == COLUMNS)
#pragma unroll 1
        for (int q = warp; q < outside; q += LINE_WARPS)
            fill(lane, q);
    else
#pragma unroll 1
        for (int q = lane; q < outside; q += 32)
#pragma unroll 1
            for (int line = warp; line < LINES; line += LINE_WARPS)
                fill(line, q);
}

/* Fills the places outside the image after the others are loaded. */
template <line_form FORM> __device__ __forceinline__ void extend_lines(const line_args &a, const piece &b)
{
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int before = max(-b.from, 0), beyond = min(a.along.n - b.from, b.needed);
    if (!before && beyond == b.needed)
        return;
    if (!repeats(a.along.rule)) {
        extend_by_rule<FORM>(a, b, before, before + b.needed - beyond);
    } else if (FORM == COLUMNS) {
        const auto repeat = [&](int place, int end, int from) {
            float4 *const p = reinterpret_cast<float4 *>(lines_of(b)) + threadIdx.x % 8;
            const float4 v = p[from * (LINES / 4)];
#pragma unroll 1
            for (place += threadIdx.x / 8; place < end; place += LINE_WARPS * 4)
                p[place * (LINES / 4)] = v;
        };
        if (before)
            repeat(0, before, before);
        if (beyond < b.needed)
            repeat(beyond, b.needed, beyond - 1);
    } else {
        float *const line = lines_of(b) + warp * b.pitch;
        const int front = before / 4, back = (beyond + 3) / 4, all = front + (b.needed + 3) / 4 - back;
#pragma unroll 1
        for (int g = lane; g < all; g += 32) {
            const float *p = line + (g < front ? before : beyond - 1);
            float *to = line + 4 * (g < front ? g : g - front + back);
#pragma unroll
            for (int r = 0; r < LINES; r += LINE_WARPS, p += LINE_WARPS * b.pitch, to += LINE_WARPS * b.pitch)
                *reinterpret_cast<float4 *>(to) = make_float4(*p, *p, *p, *p);
        }
        if (beyond + lane < 4 * back)
#pragma unroll 1
            for (int r = 0; r < LINES; r += LINE_WARPS)
                line[r * b.pitch + beyond + lane] = line[r * b.pitch + beyond - 1];
    }
    __syncthreads();
}

/* Stores outputs i ... i + UNIT / 2 - 1 of all lines, in `transpose`, to rows that are not plain or not complete. */
static __device__ __noinline__ void store_rows_slowly(const line_args &a, int across, int other, int i, int end,
                                                      const float *transpose)
{
#pragma unroll 1
    for (int e = threadIdx.x % 32; e < LINES * UNIT / 2; e += 32) {
        const int r = e / (UNIT / 2), x = i + e % (UNIT / 2), y = across + r;
        if (y >= a.hi[1] || x < a.lo[0] || x >= end)
            continue;
        const float v = transpose[r * TRANSPOSE_PITCH + e % (UNIT / 2)];
        const long long from = other * a.source.other + y * a.source.across + x;
        store_sample(a.out.data, other * a.out.other + y * a.out.across + x, a.out.type,
                     a.highpass ? load_sample(a.source.data, from, a.source.type) - v : v);
    }
}

/* Stores outputs i ... i + UNIT - 1, before `end`, of the warp's lines as rows, transposed in `transpose`. */
__device__ __forceinline__ void store_rows(const line_args &a, const piece &p, int i, int end, float *transpose,
                                           const float (&v)[UNIT])
{
    const int lane = threadIdx.x % 32, half = lane % 2 * 4;
    const bool whole = a.aligned && i + UNIT <= end && p.across + LINES <= a.hi[1];
    float *const row = reinterpret_cast<float *>(a.out.data) + p.other * a.out.other +
                       (p.across + lane / 2) * a.out.across + i + half;
#pragma unroll
    for (int b = 0; b < UNIT; b += UNIT / 2) {
#pragma unroll
        for (int j = 0; j < UNIT / 2; j += 4)
            *reinterpret_cast<float4 *>(transpose + lane * TRANSPOSE_PITCH + j) =
                make_float4(v[b + j], v[b + j + 1], v[b + j + 2], v[b + j + 3]);
        __syncwarp();
        if (whole) {
            const float *const from = transpose + lane / 2 * TRANSPOSE_PITCH + half;
            __stcs(reinterpret_cast<float4 *>(row + b), *reinterpret_cast<const float4 *>(from));
            __stcs(reinterpret_cast<float4 *>(row + b + 16 * a.out.across),
                   *reinterpret_cast<const float4 *>(from + 16 * TRANSPOSE_PITCH));
        } else {
            store_rows_slowly(a, p.across, p.other, i + b, end, transpose);
        }
        __syncwarp();
    }
}

struct unit {
    float v[UNIT];
};

/* Stores the outputs of a line in mask `there` to `to` on: integers, or high-pass of `from`. Arguments by value are
 * passed in registers. */
static __device__ __noinline__ void store_line_slowly(samples to, samples from, bool highpass, unit u, unsigned there)
{
    if (highpass)
        subtract_line(from, u.v, there);
    store_line(to, u.v, there);
}

/* Overview: a block has a piece of 32 lines in shared memory. Other blocks hide the latency of its loads.
 * Mapping: a lane is a line, a warp has UNIT outputs of all lines at a time. If the input has rows, a lane loads four
 *   samples at a time; if the output has columns, the results of a warp are adjacent. A volume that is transposed from
 *   pass to pass combines both; if rows are wanted, results are transposed in shared memory, warp by warp.
 * Registers: as in separable_line.cuh.
 * Shared memory: 32 lines of length + 2 R samples and the taps (line_shared()); three resident blocks of a
 *   multiprocessor if the radius allows it.
 * Global memory: read (length + 2 R) / length times, written once.
 * Cost: 2 R + 2 operations a voxel, which is also the limit. */
template <line_form FORM, int R>
__global__ void __launch_bounds__(32 * LINE_WARPS, 3) k_line(const __grid_constant__ line_args a)
{
    extern __shared__ __align__(16) float shared[];
    const int radius = R ? R : a.f.radius, pad = padded(radius), samples = line_samples(a.length, radius);
    const int tid = threadIdx.x, lane = tid % 32, warp = tid / 32, begin = a.begin + (int)blockIdx.z * a.length;
    const int end = min(begin + a.length, a.hi[0]);
    const float *const t[1] = {shared};
    piece b;
    b.at = pad;
    b.pitch = FORM == COLUMNS ? 1 : samples + 4;
    b.from = begin - pad;
    b.needed = min(samples, end + radius - b.from);
    b.first = max(a.in_lo - b.from, 0);
    b.last = min(a.in_hi - b.from, b.needed);
    b.across = a.lo[1] + (int)blockIdx.x * LINES;
    b.other = a.lo[2] + (int)blockIdx.y;
    if (R == 0)
        for (int k = tid; k < pad; k += 32 * LINE_WARPS)
            shared[k] = a.f.t[k];
    if (FORM == COLUMNS)
        load_columns(a, b);
    else
        load_rows(a, b);
    copies_done();
    __syncthreads();
    extend_lines<FORM>(a, b);

    read_line<DISTANCE<FORM>> read = {lines_of(b) + lane * b.pitch + DISTANCE<FORM> * (pad + warp * UNIT)};
    int i = begin + warp * UNIT;
    const int line = b.across + lane;
    long long to = b.other * a.out.other + line * a.out.across + i * a.out.along;
#pragma unroll 1
    for (; i < end; i += LINE_STEP, read.p += DISTANCE<FORM> * LINE_STEP, to += LINE_STEP * a.out.along) {
        float v[1][UNIT] = {};
        filter_unit<1, R, true>(read, a.along, &a.f, t, i, v);
        if (FORM == ROWS) {
            store_rows(a, b, i, end, shared + pad + LINES * (samples + 4) + warp * LINES * TRANSPOSE_PITCH, v[0]);
        } else if (line < a.hi[1]) {
            unsigned there = first_of(UNIT);
            if (i + UNIT > end || i < a.lo[0]) {
                there = first_of(end - i) & ~first_of(max(a.lo[0] - i, 0));
                asm volatile("" : "+r"(there)); /* a branch */
            }
            if (a.plain) {
                store_line({a.out.data, to, a.out.along, VP_F32}, v[0], there);
            } else {
                const long long from = b.other * a.source.other + line * a.source.across + i * a.source.along;
                store_line_slowly({a.out.data, to, a.out.along, a.out.type},
                                {a.source.data, from, a.source.along, a.source.type}, a.highpass,
                                  *reinterpret_cast<const unit *>(v[0]), there);
            }
        }
    }
}

static line_volume line_volume_of(const volume &v, const int axes[3])
{
    long long first = 0;
    for (int a = 0; a < 3; a++)
        first += v.step[a] * v.lo[a];
    return {v.data - first * (long long)vp_type_size((vp_type)v.type), v.step[axes[0]], v.step[axes[1]],
            v.step[axes[2]], v.type};
}

size_t line_least(line_form form, int radius)
{
    return line_shared(form, LINE_STEP, radius);
}

bool by_line(const pass &p, int a)
{
    return p.s->filters == 1 && p.f[a][0].radius > UNIT && !p.f[a][0].edge && p.f[a][0].order == 0;
}

/* Chooses the length such that three blocks share a multiprocessor if the radius allows it, and all have work. */
int run_line(const pass &p, const volume &in, const volume &out, int along, bool highpass, vp_err *err)
{
    constexpr int MOST = 65535; /* extent of a grid along y and z */
    const line_form form = in.step[along] != 1 ? COLUMNS : out.step[along] == 1 ? ROWS : TRANSPOSED;
    const int fastest = (int)(std::find(out.step, out.step + 3, 1) - out.step);
    const int across = form == ROWS ? 1 : fastest, axes[3] = {along, across, 3 - along - across};
    line_args a = {};
    a.in = line_volume_of(in, axes);
    a.out = line_volume_of(out, axes);
    a.source = line_volume_of(p.source, axes);
    for (int d = 0; d < 3; d++) {
        a.lo[d] = out.lo[axes[d]];
        a.hi[d] = out.hi[axes[d]];
    }
    a.in_lo = in.lo[along];
    a.in_hi = in.hi[along];
    a.along = axis_at(p, along);
    a.f = p.f[along][0];
    a.begin = a.lo[0] - (form == COLUMNS ? 0 : (a.lo[0] - a.in_lo) % 4);
    a.highpass = highpass;
    a.plain = !highpass && a.out.type == VP_F32;
    a.aligned = form == COLUMNS ? !((a.in.along | a.in.other | (a.lo[1] - in.lo[across])) & 3)
                                : a.plain && !((a.out.across | a.out.other) & 3) && a.begin == a.lo[0];
    const int r = a.f.radius, n = a.hi[0] - a.begin, others = a.hi[2] - a.lo[2];
    const int strips = (a.hi[1] - a.lo[1] + LINES - 1) / LINES;
    const size_t third = half_of_shared() / 3 * 2;
    int64_t length = LINE_STEP;
    while (length < n && line_shared(form, (int)length + LINE_STEP, r) <= third)
        length += LINE_STEP;
    const int64_t lines = (int64_t)strips * others, wanted = (6 * (int64_t)p.args->queue->sms + lines - 1) / lines;
    const int64_t least = std::max(wanted, (n + length - 1) / length);
    a.length = (int)vp_round_up(vp_div_up(n, least), LINE_STEP);
    const int pieces = (n + a.length - 1) / a.length;
    void (*const kernel)(line_args) = code_for(r, radii<0, 20, 40>(), [form](auto c) {
        constexpr int R = decltype(c)::value;
        return form == TRANSPOSED ? k_line<TRANSPOSED, R> : form == ROWS ? k_line<ROWS, R> : k_line<COLUMNS, R>;
    });
    const size_t shared = line_shared(form, a.length, r);
    line_args part = a;
    for (int z = 0; z < pieces; z += MOST, part.begin += MOST * a.length)
        for (int y = 0; y < others; y += MOST) {
            part.lo[2] = a.lo[2] + y;
            const dim3 grid(strips, std::min(others - y, MOST), std::min(pieces - z, MOST));
            if (vp_start(err, p.args->queue->stream, kernel, grid, dim3(32 * LINE_WARPS), shared, part))
                return -1;
        }
    return 0;
}

}
