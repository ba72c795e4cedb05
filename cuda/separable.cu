/* SPDX-License-Identifier: BSD-3-Clause */
/* Gaussian filter and its derivatives, and the Laplacian of Gaussian: kernels "gauss" of local/gauss.h and "log" of
 * local/log.h, as 1-D filters along x, y and z. Chooses the passes and the intermediate volumes, and fills the
 * tables. */
#include "separable_pass.h"

#include <algorithm>
#include <stdio.h>
#include <vector>

namespace vp
{

int march_length(int64_t others, int n, int radius, int sms)
{
    const int64_t want = 8 * (int64_t)sms;
    const int64_t chunks = std::max<int64_t>(1, (want + others - 1) / others);
    const int64_t least = std::max(2 * STEP, radius);
    return (int)vp_round_up(std::max<int64_t>(least, vp_div_up(n, chunks)), STEP);
}

size_t half_of_shared()
{
    const int all = vp_attribute(cudaDevAttrMaxSharedMemoryPerMultiprocessor);
    /* the driver reserves 1 KiB for each block */
    return std::min((size_t)std::max(all / 2 - 1024, 0), vp_shared_most());
}

namespace
{

constexpr auto params = vp_params<vp_separable>;

/* A filter in device memory. */
struct filter_memory {
    float *taps;  /* table */
    float2 *rows; /* table: edge taps of derivatives, or the clip factors of order 0 */
    float2 *thin; /* scratch: edge taps of a thin axis, rows for the longest such axis */
};

/* Lays the filters out in the table or, `thin`, in the scratch (NULL: only sizes). Returns the bytes. */
uint64_t lay_out(const vp_separable &s, bool thin, const void *base, filter_memory m[3][2])
{
    vp_arena all = {(char *)base, 0};
    for (int a = 0; a < 3; a++)
        for (int f = 0; f < s.filters; f++) {
            const vp_taps *t = &s.taps[a][f];
            const uint64_t width = padded(t->radius), rows = t->edge == VP_EDGE_RENORMALIZE ? 2 * t->radius * width : 0;
            if (thin) {
                all.take(m[a][f].thin, rows);
            } else {
                all.take(m[a][f].taps, width);
                all.take(m[a][f].rows, t->up ? rows : t->scale ? 2 * (uint64_t)t->radius : 0);
            }
        }
    return all.used;
}

int64_t mid_pitch(int64_t nx)
{
    return vp_round_up(nx, 4);
}

/* True if y has a pass of its own. */
bool y_alone(const vp_separable &s)
{
    return s.filters == 1 && s.taps[1][0].radius > UNIT;
}

/* Returns the number of intermediate volumes. They hold the planes that z needs; the first, if y has a pass of its own,
 * also the rows that y needs. */
int mids(const vp_op *op, const vp_separable &s)
{
    const bool x = s.taps[0][0].radius, y = s.taps[1][0].radius, z = s.taps[2][0].radius;
    if (y_alone(s))
        return (x || op->in != VP_F32) + z;
    if (!z || (!x && !y && op->in == VP_F32))
        return 0;
    return s.filters == 2 && (x || y) ? 2 : 1;
}

/* Returns the bytes of an intermediate volume of n voxels, for any fastest axis that its passes may choose
 * (run_line). */
uint64_t mid_bytes(const vp_separable &s, const int64_t n[3])
{
    uint64_t most = 0;
    for (int a = 0; a < 3; a++)
        if (a == 0 || s.taps[a][0].radius > UNIT)
            most = std::max(most, (uint64_t)mid_pitch(n[a]) * (uint64_t)n[(a + 1) % 3] * (uint64_t)n[(a + 2) % 3]);
    return vp_round_up(most * sizeof(float), VP_ALIGN);
}

/* Fills out[] with the filters of one axis; uploads the edge taps of a thin axis. Returns 0 or -1. */
int taps_of(const vp_op *op, const vp_separable &s, int a, const filter_memory m[2], cudaStream_t stream, taps out[2],
            vp_err *err)
{
    for (int f = 0; f < s.filters; f++) {
        const vp_taps *t = &s.taps[a][f];
        out[f] = {m[f].taps, NULL, NULL, t->radius, t->order, t->order == 1 ? 1.0f : -1.0f, {}};
        std::copy(t->t, t->t + std::min(t->radius, LONGEST), out[f].few);
        if (t->edge != VP_EDGE_RENORMALIZE || !t->radius)
            continue;
        const axis ax = axis_of(op, t, a);
        (t->scale ? out[f].clip : out[f].edge) = m[f].rows;
        if (!ax.thin)
            continue;
        std::vector<float2> rows((size_t)ax.n * padded(t->radius));
        std::vector<float> up(t->radius), down(t->radius);
        for (int i = 0; i < ax.n; i++) {
            vp_taps_edge(t, i, ax.n - 1 - i, up.data(), down.data());
            for (int k = 0; k < t->radius; k++)
                rows[(size_t)i * padded(t->radius) + k] = make_float2(up[k], down[k]);
        }
        /* pageable memory, which is read before the call returns */
        if (vp_gpu_check(err, cudaMemcpyAsync(m[f].thin, rows.data(), rows.size() * sizeof rows[0],
                                              cudaMemcpyHostToDevice, stream), "cannot copy to the CUDA device"))
            return -1;
        out[f].edge = m[f].thin;
    }
    return 0;
}

bool has(const vp_op *op, char *why, size_t size)
{
    const vp_separable &s = *params(op);
    const auto known = [](vp_type t) { return t == VP_U8 || t == VP_U16 || t == VP_I16 || t == VP_F32; };
    if (!known(op->in) || !known(op->out)) {
        snprintf(why, size, "no CUDA kernel for %s to %s", vp_type_name(op->in), vp_type_name(op->out));
        return false;
    }
    if (!vp_has_sizes(op, why, size))
        return false;
    const int rx = s.taps[0][0].radius, ry = s.taps[1][0].radius, rz = s.taps[2][0].radius;
    /* k_line only where it is certain to be used */
    const auto by_line = [&](int a) {
        const vp_taps *t = &s.taps[a][0];
        return s.filters == 1 && t->order == 0 && t->radius > UNIT &&
               (t->edge != VP_EDGE_RENORMALIZE || (op->image[a] >= 2 * t->radius && op->image[a] < VP_FAR));
    };
    const size_t need_y = !y_alone(s) ? 0 : by_line(1) ? line_least(COLUMNS, ry) : z_least(1, ry);
    const size_t need_z = by_line(2) ? line_least(COLUMNS, rz) : z_least(s.filters, rz);
    const size_t need_x = by_line(0) && (y_alone(s) || !ry) ? line_least(ROWS, rx)
                                                            : xy_least(s.filters, rx, y_alone(s) ? 0 : ry);
    const size_t need = std::max(need_x, std::max(need_y, need_z));
    if (need > vp_shared_least()) {
        snprintf(why, size, "a radius of %d voxels is more than the CUDA kernel has shared memory for",
                 std::max(rx, std::max(ry, rz)));
        return false;
    }
    return true;
}

uint64_t table(const vp_op *op)
{
    filter_memory m[3][2];
    return lay_out(*params(op), false, NULL, m);
}

void fill(const vp_op *op, void *table)
{
    const vp_separable &s = *params(op);
    filter_memory m[3][2];
    lay_out(s, false, table, m);
    for (int a = 0; a < 3; a++)
        for (int f = 0; f < s.filters; f++) {
            const vp_taps *t = &s.taps[a][f];
            float2 *const rows = m[a][f].rows;
            std::copy(t->t, t->t + t->radius, m[a][f].taps);
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

uint64_t scratch(const vp_op *op, const int64_t in[3], const int64_t out[3])
{
    const vp_separable &s = *params(op);
    const int64_t rows = y_alone(s) ? in[1] : out[1];
    int64_t planes = in[2];
    if (fused_handles(op, s)) /* no volume, unless the image turns out to be thin */
        planes = op->image[2] < VP_FAR ? 0 : std::min<int64_t>(planes, 2 * s.taps[2][0].radius);
    const int64_t mid[3] = {out[0], rows, planes};
    filter_memory m[3][2];
    return lay_out(s, true, NULL, m) + (uint64_t)mids(op, s) * mid_bytes(s, mid);
}

/* Allocates an f32 volume in the scratch: the box of `of`, grown along `along` by the radius within the image. Axis
 * `fastest` is the fastest in memory, then `next`. */
volume make_mid(pass &p, const volume &of, int along, int fastest, int next)
{
    const axis a = axis_at(p, along);
    const int r = p.f[along][0].radius, other = 3 - fastest - next;
    volume v = of;
    if (r) {
        v.lo[along] = a.rule == VP_EDGE_WRAP ? 0 : std::max(0, v.lo[along] - r);
        v.hi[along] = a.rule == VP_EDGE_WRAP ? a.n : std::min(a.n, v.hi[along] + r);
    }
    const int64_t n[3] = {v.hi[0] - v.lo[0], v.hi[1] - v.lo[1], v.hi[2] - v.lo[2]};
    v.data = p.free;
    v.type = VP_F32;
    v.step[fastest] = 1;
    v.step[next] = mid_pitch(n[fastest]);
    v.step[other] = v.step[next] * n[next];
    p.free += mid_bytes(*p.s, n);
    return v;
}

int launch(const vp_op *op, const vp_work *args, vp_err *err)
{
    const vp_separable &s = *params(op);
    if (fused_handles(op, s))
        return fused_launch(op, s, args, err);
    const volume out = volume_of(*args->out, op->out);
    pass p = {};
    p.op = op;
    p.s = &s;
    p.args = args;
    p.source = volume_of(*args->in, op->in);
    filter_memory m[3][2];
    lay_out(s, false, args->table, m);
    p.free = (char *)args->scratch + lay_out(s, true, args->scratch, m);
    for (int a = 0; a < 3; a++)
        if (taps_of(op, s, a, m[a], args->queue->stream, p.f[a], err))
            return -1;

    const int rx = p.f[0][0].radius, rz = p.f[2][0].radius, volumes = mids(op, s);
    if (y_alone(s)) {
        /* transpose from pass to pass if the next one works on lines as well */
        const bool transpose = by_line(p, 0) && by_line(p, 1), transpose_z = transpose && by_line(p, 2);
        const volume y = !rz ? out : transpose_z ? make_mid(p, out, 2, 2, 1) : make_mid(p, out, 2, 0, 1);
        volume x = p.source;
        if (rx || op->in != VP_F32) {
            x = transpose ? make_mid(p, y, 1, 1, 0) : make_mid(p, y, 1, 0, 1);
            if (run_xy(p, &x, NULL, false, false, err))
                return -1;
        }
        if (run_z(p, &x, NULL, y, 1, s.highpass && !rz, err))
            return -1;
        return rz ? run_z(p, &y, NULL, out, 2, s.highpass, err) : 0;
    }
    if (!rz)
        return run_xy(p, &out, NULL, true, s.highpass, err);
    const bool pair = s.filters == 2;
    volume q = p.source, sum = q; /* a single filter has q alone */
    if (volumes) {
        q = make_mid(p, out, 2, 0, 1);
        sum = volumes == 2 ? make_mid(p, out, 2, 0, 1) : q;
    }
    const volume *const one = !pair ? &q : volumes == 2 ? &sum : NULL, *const two = pair ? &q : NULL;
    if (volumes && run_xy(p, one, two, true, false, err))
        return -1;
    return run_z(p, one, two, out, 2, s.highpass, err);
}

}

}

extern "C" {
VP_GPU_KERNEL(gauss, vp::has, vp::scratch, vp::table, vp::fill, vp::launch);
VP_GPU_KERNEL(log, vp::has, vp::scratch, vp::table, vp::fill, vp::launch);
}
