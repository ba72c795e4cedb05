/* SPDX-License-Identifier: BSD-3-Clause */
/* Host side of the separable filters: which kernels, with which buffers and tables. */
#include "separable.cuh"

#include <algorithm>
#include <initializer_list>
#include <stdio.h>
#include <utility>
#include <vector>

namespace vp
{
namespace
{

uint64_t round_up(uint64_t n, uint64_t step)
{
    return (n + step - 1) / step * step;
}

/* Of as many rows as an axis can have. */
uint64_t row_bytes(const vp_taps *t)
{
    return t->edge == VP_EDGE_RENORMALIZE ? 2 * (uint64_t)t->radius * padded(t->radius) * sizeof(float2) : 0;
}

/* What is in the table beside t: rows of derivatives, or what clips order 0. */
uint64_t edge_bytes(const vp_taps *t)
{
    return t->up ? row_bytes(t) : t->scale ? 2 * (uint64_t)t->radius * sizeof(float2) : 0;
}

uint64_t taps_bytes(const vp_taps *t)
{
    return round_up(padded(t->radius) * sizeof(float), VP_ALIGN);
}

uint64_t one_table(const vp_taps *t)
{
    return taps_bytes(t) + round_up(edge_bytes(t), VP_ALIGN);
}

/* Tables of all filters follow each other, axis by axis; so do the edge rows of thin axes, in the scratch. */
template <class Size> uint64_t offset_of(const separable &s, int axis, int filter, Size size)
{
    uint64_t at = 0;
    for (int a = 0; a < 3; a++)
        for (int f = 0; f < s.filters; f++) {
            if (a == axis && f == filter)
                return at;
            at += size(s.filter[a][f]);
        }
    return at;
}

uint64_t thin_bytes(const vp_taps *t)
{
    return round_up(row_bytes(t), VP_ALIGN);
}

void fill_row(const vp_taps *t, int64_t lo, int64_t hi, float2 *row)
{
    std::vector<float> up(t->radius), down(t->radius);
    vp_taps_edge(t, lo, hi, up.data(), down.data());
    for (int k = 0; k < t->radius; k++)
        row[k] = make_float2(up[k], down[k]);
}

int64_t mid_pitch(int64_t nx)
{
    return (int64_t)round_up((uint64_t)nx, 4);
}

/* Whether y has a pass of its own. */
bool y_alone(const separable &s)
{
    return s.filters == 1 && s.filter[1][0]->radius > UNIT;
}

/* Volumes between the passes: of the planes that z needs, the first (y has a pass of its own) of the rows that y
 * needs. */
int mids(const vp_local *op, const separable &s)
{
    const bool x = s.filter[0][0]->radius, y = s.filter[1][0]->radius, z = s.filter[2][0]->radius;
    if (y_alone(s))
        return (x || op->in != VP_F32) + z;
    if (!z || (!x && !y && op->in == VP_F32))
        return 0;
    return s.filters == 2 && (x || y) ? 2 : 1;
}

/* Of a volume of n voxels, with whichever axis fastest that its passes ask for (run_line). */
uint64_t mid_bytes(const separable &s, const int64_t n[3])
{
    uint64_t most = 0;
    for (int a = 0; a < 3; a++)
        if (a == 0 || s.filter[a][0]->radius > UNIT)
            most = std::max(most, (uint64_t)mid_pitch(n[a]) * (uint64_t)n[(a + 1) % 3] * (uint64_t)n[(a + 2) % 3]);
    return round_up(most * sizeof(float), VP_ALIGN);
}

/* The filters of one axis as the kernels want them; rows for a thin axis go to the device first. */
int taps_of(const vp_local *op, const separable &s, int a, const vp_work *args, taps out[2], vp_err *err)
{
    for (int f = 0; f < s.filters; f++) {
        const vp_taps *t = s.filter[a][f];
        const char *table = (const char *)args->table + offset_of(s, a, f, one_table);
        out[f] = {(const float *)table, NULL, NULL, t->radius, t->order, t->order == 1 ? 1.0f : -1.0f, {}};
        std::copy(t->t, t->t + std::min(t->radius, LONGEST), out[f].few);
        if (t->edge != VP_EDGE_RENORMALIZE || !t->radius)
            continue;
        const axis ax = axis_of(op, t, a);
        (t->scale ? out[f].clip : out[f].edge) = (const float2 *)(table + taps_bytes(t));
        if (!ax.thin)
            continue;
        std::vector<float2> rows((size_t)ax.n * padded(t->radius));
        for (int i = 0; i < ax.n; i++)
            fill_row(t, i, ax.n - 1 - i, &rows[(size_t)i * padded(t->radius)]);
        char *to = (char *)args->scratch + offset_of(s, a, f, thin_bytes);
        /* from pageable memory: it is read before the call returns */
        const cudaError_t e =
            cudaMemcpyAsync(to, rows.data(), rows.size() * sizeof rows[0], cudaMemcpyHostToDevice, args->queue->stream);
        if (e != cudaSuccess)
            return vp_gpu_fail(err, e, "cannot copy to the CUDA device");
        out[f].edge = (const float2 *)to;
    }
    return 0;
}

/* Into how many pieces of whole steps a march over n rows is cut, so that every multiprocessor has work. */
int march_length(int64_t others, int n, int radius, int sms)
{
    const int64_t want = 8 * (int64_t)sms;
    const int64_t chunks = std::max<int64_t>(1, (want + others - 1) / others);
    const int64_t least = std::max(2 * STEP, radius);
    return (int)round_up((uint64_t)std::max<int64_t>(least, (n + chunks - 1) / chunks), STEP);
}

/* Radii that have code of their own (of order 0, with second derivatives, for k_line); others run the code for any. */
template <int... R> struct radii {
};
using smooth_code = radii<2, 3, 4, 6, 8, 10, 12, 16>;
using second_code = radii<4, 6, 8, 12>;
using long_code = radii<20, 40>;

template <int NF, bool ROWS, int... R> auto xy_kernel(int rx, int ry, radii<R...>)
{
    void (*kernel)(xy_args) = k_xy<NF, 0, true, ROWS>;
    (void)std::initializer_list<int>{(rx == R && ry == R ? kernel = k_xy<NF, R, true, ROWS>, 0 : 0)...};
    return kernel;
}

template <int NF, bool ROWS, int... R> auto z_kernel(int r, radii<R...>)
{
    void (*kernel)(z_args) = k_z<NF, 0, ROWS>;
    (void)std::initializer_list<int>{(r == R ? kernel = k_z<NF, R, ROWS>, 0 : 0)...};
    return kernel;
}

/* Shared memory of a block where two share a multiprocessor of the device in use. */
size_t half_of_shared()
{
    int device = 0, all = 0, one = 0;
    if (cudaGetDevice(&device) != cudaSuccess ||
        cudaDeviceGetAttribute(&all, cudaDevAttrMaxSharedMemoryPerMultiprocessor, device) != cudaSuccess ||
        cudaDeviceGetAttribute(&one, cudaDevAttrMaxSharedMemoryPerBlockOptin, device) != cudaSuccess)
        return 0;
    return (size_t)std::min(all / 2 - 1024, one); /* 1 KiB of each block is the driver's */
}

/* Shared memory that a block may have, on the devices of this machine. */
size_t shared_limit()
{
    int n = 0, least = 227 << 10, bytes;
    if (cudaGetDeviceCount(&n) != cudaSuccess)
        n = 0;
    for (int d = 0; d < n; d++)
        if (cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, d) == cudaSuccess && bytes < least)
            least = bytes;
    return (size_t)least;
}

}

bool separable_has(const vp_local *op, const separable &s, char *why, size_t size)
{
    const auto known = [](vp_type t) { return t == VP_U8 || t == VP_U16 || t == VP_I16 || t == VP_F32; };
    if (!known(op->in) || !known(op->out)) {
        snprintf(why, size, "no CUDA kernel for %s to %s", vp_type_name(op->in), vp_type_name(op->out));
        return false;
    }
    for (int a = 0; a < 3; a++)
        if (op->image[a] >= FAR && !(a == 2 && op->image[a] == VP_UNKNOWN)) {
            snprintf(why, size, "an image of %lld voxels along one axis is too large for the CUDA kernel",
                     (long long)op->image[a]);
            return false;
        }
    const int rx = s.filter[0][0]->radius, ry = s.filter[1][0]->radius, rz = s.filter[2][0]->radius;
    /* as if nothing were for k_line, but what is sure to be */
    const auto by_line = [&](int a) {
        const vp_taps *t = s.filter[a][0];
        return s.filters == 1 && t->order == 0 && t->radius > UNIT &&
               (t->edge != VP_EDGE_RENORMALIZE || (op->image[a] >= 2 * t->radius && op->image[a] < FAR));
    };
    const size_t need_y = !y_alone(s) ? 0 : by_line(1) ? line_shared(COLUMNS, LINE_STEP, ry) : z_shared(1, ry);
    const size_t need_z = by_line(2) ? line_shared(COLUMNS, LINE_STEP, rz) : z_shared(s.filters, rz);
    const size_t need_x = by_line(0) && (y_alone(s) || !ry) ? line_shared(ROWS, LINE_STEP, rx)
                                                            : xy_shared(s.filters, rx, y_alone(s) ? 0 : ry, 1);
    const size_t need = std::max(need_x, std::max(need_y, need_z));
    if (need > shared_limit()) {
        snprintf(why, size, "a radius of %d voxels is more than the CUDA kernel has shared memory for",
                 std::max(rx, std::max(ry, rz)));
        return false;
    }
    return true;
}

uint64_t separable_table(const separable &s)
{
    return offset_of(s, 3, 0, one_table);
}

void separable_fill(const separable &s, void *table)
{
    for (int a = 0; a < 3; a++)
        for (int f = 0; f < s.filters; f++) {
            const vp_taps *t = s.filter[a][f];
            char *const at = (char *)table + offset_of(s, a, f, one_table);
            std::copy(t->t, t->t + t->radius, (float *)at);
            float2 *const rows = (float2 *)(at + taps_bytes(t));
            for (int e = 0; t->scale && e < t->radius; e++)
                rows[e] = rows[2 * t->radius - 1 - e] = make_float2(-t->t[e], t->scale[e]);
            if (!t->up)
                continue;
            const size_t pitch = padded(t->radius);
            for (int i = 0; i < t->radius; i++) {
                const size_t from = (size_t)i * t->radius;
                const size_t to = (size_t)i * pitch, far = (size_t)(t->radius + i) * pitch;
                for (int k = 0; k < t->radius; k++) {
                    rows[to + k] = make_float2(t->up[from + k], t->down[from + k]);
                    rows[far + k] = make_float2(t->far_up[from + k], t->far_down[from + k]);
                }
            }
        }
}

uint64_t separable_scratch(const vp_local *op, const separable &s, const int64_t in[3], const int64_t out[3])
{
    const int64_t rows = y_alone(s) ? in[1] : out[1];
    int64_t planes = in[2];
    if (fused_does(op, s)) /* unless the image turns out to be thin */
        planes = op->image[2] < FAR ? 0 : std::min<int64_t>(planes, 2 * s.filter[2][0]->radius);
    const int64_t mid[3] = {out[0], rows, planes};
    return offset_of(s, 3, 0, thin_bytes) + (uint64_t)mids(op, s) * mid_bytes(s, mid);
}

namespace
{

/* What all passes of a launch share. */
struct pass {
    const vp_local *op;
    const separable *s;
    const vp_work *args;
    taps f[3][2];
    view source;
    char *free; /* scratch that is left */
};

axis axis_at(const pass &p, int a)
{
    return axis_of(p.op, p.s->filter[a][0], a);
}

/* A volume in the scratch: `box` grown along `along` by its radius, within the image. */
vp_area make_mid(pass &p, vp_box box, int along)
{
    const axis a = axis_at(p, along);
    const int64_t r = p.f[along][0].radius;
    if (r) {
        box.lo[along] = a.rule == VP_EDGE_WRAP ? 0 : std::max<int64_t>(0, box.lo[along] - r);
        box.hi[along] = a.rule == VP_EDGE_WRAP ? a.n : std::min<int64_t>(a.n, box.hi[along] + r);
    }
    vp_area mid = {box, mid_pitch(vp_box_size(&box, 0)), 0, p.free};
    mid.plane = mid.pitch * vp_box_size(&box, 1);
    const int64_t n[3] = {vp_box_size(&box, 0), vp_box_size(&box, 1), vp_box_size(&box, 2)};
    p.free += mid_bytes(*p.s, n);
    return mid;
}

/* Whether k_line does the axis. */
bool by_line(const pass &p, int a)
{
    return p.s->filters == 1 && p.f[a][0].radius > UNIT && !p.f[a][0].edge && p.f[a][0].order == 0;
}

/* A volume with any order of axes. */
struct volume {
    char *data; /* voxel lo[0], lo[1], lo[2] */
    int type;
    long long step[3]; /* samples */
    int lo[3], hi[3];
};

volume volume_of(const view &v)
{
    volume w = {(char *)v.data, v.type, {1, v.pitch, v.plane}, {}, {}};
    std::copy(v.lo, v.lo + 3, w.lo);
    std::copy(v.hi, v.hi + 3, w.hi);
    return w;
}

/* What make_mid made with another order of axes: `fastest`, then `next`. */
volume turned(const vp_area &mid, int fastest, int next)
{
    volume v = volume_of(view_of(&mid, VP_F32));
    v.step[fastest] = 1;
    v.step[next] = mid_pitch(v.hi[fastest] - v.lo[fastest]);
    v.step[3 - fastest - next] = v.step[next] * (v.hi[next] - v.lo[next]);
    return v;
}

line_volume line_volume_of(const volume &v, const int axes[3])
{
    long long first = 0;
    for (int a = 0; a < 3; a++)
        first += v.step[a] * v.lo[a];
    return {v.data - first * (long long)vp_type_size((vp_type)v.type), v.step[axes[0]], v.step[axes[1]],
            v.step[axes[2]], v.type};
}

template <line_form FORM, int... R> auto line_kernel(int r, radii<R...>)
{
    void (*kernel)(line_args) = k_line<FORM, 0>;
    (void)std::initializer_list<int>{(r == R ? kernel = k_line<FORM, R>, 0 : 0)...};
    return kernel;
}

/* Along one axis by k_line: lengths so that three blocks share a multiprocessor where the radius allows it, and all
 * multiprocessors have some. */
int run_line(const pass &p, const volume &in, const volume &out, int along, bool highpass, vp_err *err)
{
    constexpr int MOST = 65535; /* of a grid along y and z */
    const line_form form = in.step[along] != 1 ? COLUMNS : out.step[along] == 1 ? ROWS : TURNED;
    const int fastest = (int)(std::find(out.step, out.step + 3, 1) - out.step);
    const int across = form == ROWS ? 1 : fastest, axes[3] = {along, across, 3 - along - across};
    line_args a = {};
    a.in = line_volume_of(in, axes);
    a.out = line_volume_of(out, axes);
    a.source = line_volume_of(volume_of(p.source), axes);
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
    a.length = (int)round_up((uint64_t)((n + least - 1) / least), LINE_STEP);
    const int pieces = (n + a.length - 1) / a.length;
    void (*const kernel)(line_args) = form == TURNED ? line_kernel<TURNED>(r, long_code())
                                      : form == ROWS ? line_kernel<ROWS>(r, long_code())
                                                     : line_kernel<COLUMNS>(r, long_code());
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

/* Along x and, with `along_y`, y, from the source. NF = 2: out[0] is p, out[1] q; either may be NULL. */
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
    void (*const kernel)(xy_args) = two                ? xy_kernel<2, true>(rx, ry, second_code())
                                    : rows_x || rows_y ? xy_kernel<1, true>(rx, ry, radii<>())
                                    : along_y          ? xy_kernel<1, false>(rx, ry, smooth_code())
                                                       : k_xy<1, 0, false, false>;
    return vp_start(err, p.args->queue->stream, kernel, dim3((unsigned)(a.strips * planes * a.chunks)), dim3(THREADS),
                    xy_shared(p.s->filters, rx, ry, a.stages), a);
}

view swapped(view v, bool swap)
{
    if (swap) {
        std::swap(v.pitch, v.plane);
        std::swap(v.lo[1], v.lo[2]);
        std::swap(v.hi[1], v.hi[2]);
    }
    return v;
}

/* Along z, or along y, which is the same with another step. NF = 2: in[0] is p (may be NULL), in[1] q. */
int run_z(const pass &p, const view *const in[2], const vp_area &out, vp_type type, int along, bool highpass,
          vp_err *err)
{
    const bool two = p.s->filters == 2, swap = along == 1;
    if (by_line(p, along))
        return run_line(p, volume_of(*in[0]), volume_of(view_of(&out, type)), along, highpass, err);
    const view to = swapped(view_of(&out, type), swap);
    z_args a = {};
    for (int i = 0; i < 2; i++)
        if (in[i])
            a.in[i] = swapped(*in[i], swap);
    a.out = (char *)out.data;
    a.out_pitch = to.pitch;
    a.out_plane = to.plane;
    a.out_type = type;
    std::copy(to.lo, to.lo + 3, a.out_lo);
    std::copy(to.hi, to.hi + 3, a.out_hi);
    a.z = axis_at(p, along);
    std::copy(p.f[along], p.f[along] + 2, a.f);
    const int r = a.f[0].radius, rows = to.hi[1] - to.lo[1], planes = to.hi[2] - to.lo[2];
    a.strips = (to.hi[0] - to.lo[0] + 32 * Z_WARPS - 1) / (32 * Z_WARPS);
    a.chunk_planes = march_length((int64_t)a.strips * rows, planes, r, p.args->queue->sms);
    a.chunks = (planes + a.chunk_planes - 1) / a.chunk_planes;
    a.highpass = highpass;
    a.source = swapped(p.source, swap);
    void (*const kernel)(z_args) = two           ? z_kernel<2, true>(r, second_code())
                                   : a.f[0].edge ? z_kernel<1, true>(r, radii<>())
                                                 : z_kernel<1, false>(r, smooth_code());
    return vp_start(err, p.args->queue->stream, kernel, dim3((unsigned)((int64_t)a.strips * rows * a.chunks)),
                    dim3(32 * Z_WARPS), z_shared(p.s->filters, r), a);
}

}

int separable_launch(const vp_local *op, const separable &s, const vp_work *args, vp_err *err)
{
    if (fused_does(op, s))
        return fused_launch(op, s, args, err);
    const vp_area &out = *args->out;
    pass p = {};
    p.op = op;
    p.s = &s;
    p.args = args;
    p.source = view_of(args->in, op->in);
    p.free = (char *)args->scratch + offset_of(s, 3, 0, thin_bytes);
    for (int a = 0; a < 3; a++)
        if (taps_of(op, s, a, args, p.f[a], err))
            return -1;

    const int rx = p.f[0][0].radius, rz = p.f[2][0].radius, volumes = mids(op, s);
    if (y_alone(s)) {
        const vp_area y = rz ? make_mid(p, out.box, 2) : out;
        const bool turn = by_line(p, 0) && by_line(p, 1), turn_z = turn && by_line(p, 2);
        const volume whole = volume_of(view_of(&out, op->out));
        view from = p.source;
        if (turn) {
            const volume x = turned(make_mid(p, y.box, 1), 1, 0);
            const volume to = turn_z ? turned(y, 2, 1) : rz ? volume_of(view_of(&y, VP_F32)) : whole;
            if (run_line(p, volume_of(from), x, 0, false, err) || run_line(p, x, to, 1, s.highpass && !rz, err))
                return -1;
            if (turn_z)
                return run_line(p, to, whole, 2, s.highpass, err);
        } else {
            if (rx || op->in != VP_F32) {
                const vp_area x = make_mid(p, y.box, 1), *const to[2] = {&x, NULL};
                if (run_xy(p, to, VP_F32, false, false, err))
                    return -1;
                from = view_of(&x, VP_F32);
            }
            const view *const in[2] = {&from, NULL};
            if (run_z(p, in, y, rz ? VP_F32 : op->out, 1, s.highpass && !rz, err))
                return -1;
        }
        if (!rz)
            return 0;
        from = view_of(&y, VP_F32);
        const view *const in[2] = {&from, NULL};
        return run_z(p, in, out, op->out, 2, s.highpass, err);
    }
    if (!rz) {
        const vp_area *const to[2] = {&out, NULL};
        return run_xy(p, to, op->out, true, s.highpass, err);
    }
    view one = p.source, two = p.source;
    if (volumes) {
        const vp_area q = make_mid(p, out.box, 2), sum = volumes == 2 ? make_mid(p, out.box, 2) : q;
        const vp_area *const single[2] = {&q, NULL}, *const pair[2] = {volumes == 2 ? &sum : NULL, &q};
        if (run_xy(p, s.filters == 2 ? pair : single, VP_F32, true, false, err))
            return -1;
        one = view_of(&q, VP_F32);
        two = view_of(&sum, VP_F32);
    }
    const view *const single[2] = {&one, NULL}, *const pair[2] = {volumes == 2 ? &two : NULL, &one};
    return run_z(p, s.filters == 2 ? pair : single, out, op->out, 2, s.highpass, err);
}

}
