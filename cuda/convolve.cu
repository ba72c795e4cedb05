/* SPDX-License-Identifier: BSD-3-Clause */
/* Convolution of images and volumes with kernels of any size by overlap-save: kernel "convolve" of local/convolve.h.
 * This file chooses the method and has what the methods share: tiles and parts, offsets, samples that are not finite.
 *
 *   convolve_single.cu   one kernel; images and volumes
 *   convolve_grid.cu     a grid of kernels, weights belong to the output; images
 *   convolve_source.cu   a grid of kernels, weights belong to the source; images
 *
 * Tiles: a tile has T samples along an axis, the length of the transform, and T - taps + 1 valid outputs.
 * Offset: of the samples of a tile an offset close to their median is subtracted before the transforms, and restored in
 *   the results times the sum of the kernel, so that rounding errors are relative to the contrast, not to the
 *   brightness. Tiles with samples that exceed all others by far are summed directly (direct_kernel in
 *   convolve_edge.cuh).
 * Samples that are not finite count as the offset in the transforms and raise a flag; then nonfinite_kernel writes NaN
 *   to all outputs whose kernel reaches one. */
#include "convolve.h"
#include "convolve_edge.cuh"

#include <cmath>
#include <cstdio>

namespace vp
{
namespace
{

int clamped(int64_t n)
{
    return (int)std::min<int64_t>(n, VP_FAR);
}

/* ---- kernels ---- */

struct base_args {
    vp_area in;
    int type;              /* enum vp_type */
    convolve_axis axis[3];
    int pair0, y0, y1;     /* first pair; rows [y0, y1) of the outputs */
    int planes_in, planes_out;
    convolve_offset offset;
};

/* Chooses the offsets: a thread for each pair and plane. */

__global__ void __launch_bounds__(128) base_kernel(const base_args a)
{
    const int i = (int)(blockIdx.x * blockDim.x + threadIdx.x), pair = i % a.offset.pairs, plane = i / a.offset.pairs;
    if (plane >= a.planes_in)
        return;
    const convolve_axis x = a.axis[0];
    const int lo[2] = {2 * (a.pair0 + pair) * x.valid, a.y0}, hi[2] = {min(lo[0] + 2 * x.valid, x.size), a.y1};
    a.offset.base[i] = box_constant(a.in, a.type, a.axis, lo, hi, a.offset.base_z0 + plane);
}

/* Computes offset.restore from the offsets of the planes that a result depends on; beyond the stack the nearest plane's
 * offset is used. */
__global__ void __launch_bounds__(128) restore_kernel(const base_args a)
{
    const int i = (int)(blockIdx.x * blockDim.x + threadIdx.x), pair = i % a.offset.pairs, plane = i / a.offset.pairs;
    if (plane >= a.planes_out)
        return;
    const convolve_axis z = a.axis[2];
    const int p = a.offset.restore_z0 + plane;
    const auto base_of = [&](int q) {
        return (double)a.offset.base[(int64_t)(q - a.offset.base_z0) * a.offset.pairs + pair];
    };
    const double base = base_of(min(max(p, z.first), z.first + z.count - 1));
    double restore = base * a.offset.total;
    for (int k = 0; k < z.taps && z.taps > 1; k++) {
        const int q = sample_from(z, p + z.centre - k);
        restore += q < 0 ? 0 : (base_of(q) - base) * a.offset.planes[k];
    }
    a.offset.restore[i] = (float)restore;
}

struct nonfinite_args {
    vp_area in, out;
    convolve_axis axis[3];
    const int *nonfinite;
};

/* Writes NaN to all outputs whose kernel reaches a sample that is not finite. A thread for each position in reach of
 * the outputs, also outside the image; if the position before it has such a sample, too, only the outputs that are
 * new. */
__global__ void __launch_bounds__(256) nonfinite_kernel(const nonfinite_args a)
{
    if (!*a.nonfinite)
        return;
    int lo[3];
    int64_t n[3];
    for (int i = 0; i < 3; i++) {
        lo[i] = (int)a.out.box.lo[i] - a.axis[i].pad_before();
        n[i] = a.out.box.hi[i] + a.axis[i].centre - lo[i];
    }
    const auto is_nonfinite = [&](int x, int y, int z) {
        const int p[3] = {x, y, z};
        int64_t at = 0;
        for (int i = 0; i < 3; i++) {
            const int q = edge_from(a.axis[i].rule, p[i] - a.axis[i].first, a.axis[i].count);
            if (q < 0)
                return false;
            at += (q + a.axis[i].first - a.in.box.lo[i]) * (i == 0 ? 1 : i == 1 ? a.in.pitch : a.in.plane);
        }
        return !(fabsf(((const float *)a.in.data)[at]) <= FLT_MAX);
    };
    for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; i < n[0] * n[1] * n[2];
         i += (int64_t)gridDim.x * blockDim.x) {
        const int p[3] = {lo[0] + (int)(i % n[0]), lo[1] + (int)(i / n[0] % n[1]), lo[2] + (int)(i / n[0] / n[1])};
        if (!is_nonfinite(p[0], p[1], p[2]))
            continue;
        int64_t from[3], to[3];
        for (int k = 0; k < 3; k++) {
            from[k] = max(p[k] - (int64_t)a.axis[k].centre, a.out.box.lo[k]);
            to[k] = min(p[k] + (int64_t)a.axis[k].pad_before() + 1, a.out.box.hi[k]);
        }
        if (p[0] > lo[0] && is_nonfinite(p[0] - 1, p[1], p[2]))
            from[0] = max(from[0], p[0] + (int64_t)a.axis[0].pad_before());
        for (int64_t z = from[2]; z < to[2]; z++)
            for (int64_t y = from[1]; y < to[1]; y++)
                for (int64_t x = from[0]; x < to[0]; x++)
                    ((float *)a.out.data)[(z - a.out.box.lo[2]) * a.out.plane + (y - a.out.box.lo[1]) * a.out.pitch
                                          + (x - a.out.box.lo[0])] = __int_as_float(0x7fc00000);
    }
}

}

/* ---- shared by all methods ---- */

convolve_axis axis_of(const vp_op *op, int axis, int valid)
{
    const vp_convolve_params *const p = params_of(op);
    convolve_axis a = {};
    a.size = clamped(op->image[axis]);
    a.first = (int)p->pad_lo[axis];
    a.count = clamped(op->image[axis] - p->pad_lo[axis] - p->pad_hi[axis]);
    a.rule = p->edge == VP_EDGE_RENORMALIZE ? VP_EDGE_ZERO : p->edge;
    a.taps = (int)p->n[axis];
    a.centre = (int)p->centre[axis];
    a.valid = valid;
    return a;
}

void kernel_table::take(vp_arena &all, const vp_convolve_params *p, bool summed)
{
    const uint64_t nodes = (uint64_t)(p->nodes[0] * p->nodes[1]);
    all.take(kernels, nodes * (uint64_t)(p->n[0] * p->n[1] * p->n[2]));
    all.take(total, nodes);
    all.take(planes, (uint64_t)p->n[2]);
    all.take(sums, summed && p->sums ? nodes * (uint64_t)((p->n[0] + 1) * (p->n[1] + 1) * (p->n[2] + 1)) : 0);
}

void kernel_table::fill(const vp_convolve_params *p) const
{
    const int64_t nodes = p->nodes[0] * p->nodes[1], plane = p->n[0] * p->n[1];
    std::copy(p->kernels, p->kernels + nodes * p->n[2] * plane, kernels);
    std::copy(p->total, p->total + nodes, total);
    std::copy(p->plane, p->plane + p->n[2], planes);
    if (sums)
        std::copy(p->sums, p->sums + nodes * (p->n[0] + 1) * (p->n[1] + 1) * (p->n[2] + 1), sums);
}

void fill_twiddle(int T, int R1, int R2, cx *to)
{
    for (int k = 0; k < R1; k++)
        for (int n = 0; n < R2; n++) {
            const double turn = -2 * PI * (double)(k * n % T) / T;
            to[k * R2 + n] = {(float)std::cos(turn), (float)std::sin(turn)};
        }
}

int make_spectrum(const vp_op *op, const convolve_tiling &c, const float *kernel, cx *const twiddle[3], cx *work,
                  cx *spectrum, vp_queue *queue, vp_err *err)
{
    const vp_convolve_params *const p = params_of(op);
    const convolve_length *const *const length = c.length;
    const int x = length[0]->T, y = length[1]->T, last = length[2] ? 2 : 1;
    taps_args r = {};
    r.taps = kernel;
    r.n = r.pitch = (int)p->n[0];
    r.centre = (int)p->centre[0];
    r.rows = p->n[1] * p->n[2];
    r.out = work;
    r.twiddle = twiddle[0];
    columns_args a = {};
    a.in = work;
    a.in_pitch = a.out_pitch = x;
    a.twiddle = twiddle[1];
    a.axis = axis_of(op, 1, c.valid[1]);
    a.lanes = x;
    a.repeats = a.tiles = a.outers = 1;
    if (length[0]->taps(err, queue->stream, r))
        return -1;
    if (last == 2) {
        a.out = work + r.rows * x;
        a.outers = (int)p->n[2];
        a.in_outer = p->n[1] * x;
        a.out_outer = (int64_t)x * y;
        if (length[1]->columns(err, queue->stream, a, COLUMNS_TAPS))
            return -1;
        a.in = a.out;
        a.in_pitch = (int64_t)x * y;
        a.twiddle = twiddle[2];
        a.axis = axis_of(op, 2, c.valid[2]);
        a.lanes = x * y;
        a.outers = 1;
    }
    a.spectrum = spectrum;
    a.scale = (float)(1 / ((double)x * y * (last == 2 ? length[2]->T : 1)));
    return length[last]->columns(err, queue->stream, a, COLUMNS_SPECTRUM);
}

convolve_part part_of(const vp_op *op, const vp_work *work, const convolve_tiling &c)
{
    const vp_box &in = work->in[0].box, &out = work->out->box;
    convolve_part p;
    for (int a = 0; a < 3; a++) {
        p.axis[a] = axis_of(op, a, c.length[a] ? c.valid[a] : 1);
        p.in_lo[a] = (int)std::max<int64_t>(in.lo[a], p.axis[a].first);
        p.in_n[a] = (int)std::min<int64_t>(in.hi[a], p.axis[a].first + p.axis[a].count) - p.in_lo[a];
        p.out_lo[a] = (int)out.lo[a];
        p.out_n[a] = (int)vp_box_size(&out, a);
    }
    p.pair0 = p.out_lo[0] / (2 * c.valid[0]);
    p.pairs = (int)vp_div_up(out.hi[0], 2 * (int64_t)c.valid[0]) - p.pair0;
    p.tile0 = p.out_lo[1] / c.valid[1];
    p.tiles = (int)vp_div_up(out.hi[1], c.valid[1]) - p.tile0;
    return p;
}

/* Returns the largest distance of a sample from an output that depends on it. */
static int64_t reach_of(const vp_op *op, int axis)
{
    const vp_convolve_params *const p = params_of(op);
    const bool grid = p->nodes[0] > 1 || p->nodes[1] > 1;
    const bool seen_again = grid || p->edge == VP_EDGE_NEAREST || p->edge == VP_EDGE_MIRROR;
    return std::max(p->centre[axis], p->n[axis] - 1 - p->centre[axis])
           + (seen_again ? 2 * std::max(p->pad_lo[axis], p->pad_hi[axis]) : 0);
}

/* Returns the rows of a group of outputs with common offsets: large, since rows in reach of two groups are transformed
 * twice. */
static int64_t group_rows(const vp_op *op, const convolve_tiling &c)
{
    enum { LEAST = 1024, TIMES = 16 };
    const int64_t rows = std::max<int64_t>(LEAST, TIMES * (params_of(op)->n[1] - 1));
    return op->halo[1] >= VP_UNKNOWN ? op->image[1] : std::max<int64_t>(1, rows / c.valid[1]) * c.valid[1];
}

convolve_part first_group(const vp_op *op, const convolve_tiling &c, const convolve_part &all)
{
    convolve_part p = all;
    p.out_n[1] = 0;
    next_group(op, c, all, p);
    return p;
}

bool next_group(const vp_op *op, const convolve_tiling &c, const convolve_part &all, convolve_part &p)
{
    const int64_t lo = p.out_lo[1] + p.out_n[1], end = all.out_lo[1] + all.out_n[1], rows = group_rows(op, c);
    const int64_t hi = std::min(end, (lo / rows + 1) * rows), reach = reach_of(op, 1),
                  in_end = all.in_lo[1] + all.in_n[1];
    if (lo >= end)
        return false;
    p.out_lo[1] = (int)lo;
    p.out_n[1] = (int)(hi - lo);
    p.tile0 = (int)(lo / c.valid[1]);
    p.tiles = (int)vp_div_up(hi, c.valid[1]) - p.tile0;
    p.group[0] = (int)(lo / rows * rows);
    p.group[1] = (int)std::min(p.group[0] + rows, op->image[1]);
    if (op->halo[1] < VP_UNKNOWN) {
        p.in_lo[1] = (int)std::max<int64_t>(all.in_lo[1], lo - reach);
        p.in_n[1] = (int)(std::min(in_end, hi + reach) - p.in_lo[1]);
    }
    return true;
}

int launch_base(const vp_op *op, const vp_work *work, const convolve_part &p, int pair0, const convolve_offset &e,
                const int planes[2], vp_err *err)
{
    base_args a = {};
    a.in = work->in[0];
    a.type = op->in;
    std::copy(p.axis, p.axis + 3, a.axis);
    a.pair0 = pair0;
    a.y0 = p.group[0];
    a.y1 = p.group[1];
    a.planes_in = planes[0];
    a.planes_out = planes[1];
    a.offset = e;
    const auto blocks = [&](int n) { return dim3((unsigned)vp_div_up((int64_t)n * e.pairs, 128)); };
    return vp_start(err, work->queue->stream, base_kernel, blocks(planes[0]), dim3(128), 0, a)
                   || (e.restore
                       && vp_start(err, work->queue->stream, restore_kernel, blocks(planes[1]), dim3(128), 0, a))
               ? -1 : 0;
}

inverse_args inverse_args_of(const vp_op *op, const vp_work *work, const convolve_part &p, int T,
                             const convolve_workspace &r)
{
    inverse_args a = {};
    a.in = r.results;
    a.in_pair = (int64_t)p.out_n[1] * T;
    a.out = *work->out;
    a.type = op->out;
    std::copy(p.axis, p.axis + 3, a.axis);
    a.y0 = p.out_lo[1];
    a.rows = p.out_n[1];
    return a;
}

convolve_workspace workspace_of_images(vp_arena &all, int T, int slots, int64_t pairs, const int64_t in[3],
                                       const int64_t out[3])
{
    const uint64_t rows_in = (uint64_t)(slots * in[1]), rows_out = (uint64_t)out[1], x = (uint64_t)T,
                   one = (rows_in + rows_out) * (x + 1) * sizeof(cx), most = std::max<uint64_t>(1, WORK / one),
                   before = all.used;
    convolve_workspace r = {};
    r.pairs = (int)std::min<uint64_t>({(uint64_t)pairs, most, (uint64_t)(65535 / slots)});
    r.planes = r.pairs < pairs ? 1 : (int)std::min<uint64_t>((uint64_t)out[2], std::max<uint64_t>(1, std::min<uint64_t>(
                                                                 most, 65535) / (uint64_t)pairs));
    const uint64_t n = (uint64_t)r.pairs * (uint64_t)r.planes;
    all.take(r.lines, n * rows_in * x);
    all.take(r.results, n * rows_out * x);
    all.take(r.base, n);
    all.take(r.restore, n);
    all.take(r.peaks, n * (uint64_t)in[1]);
    all.used = std::max(all.used, before + workspace_bytes(one, (uint64_t)(pairs * out[2]), WORK));
    return r;
}

void steps_of(const vp_op *op, const convolve_tiling &c, int64_t step[3])
{
    for (int a = 0; a < 3; a++)
        step[a] = !c.length[a] ? 1
                  : a == 0     ? 2 * c.valid[a]
                               : a == 1 && op->halo[1] < VP_UNKNOWN ? group_rows(op, c) : c.valid[a];
}

namespace
{

/* ---- the kernel ---- */

bool is_grid(const vp_op *op)
{
    return params_of(op)->nodes[0] > 1 || params_of(op)->nodes[1] > 1;
}

const convolve_method &method_of(const vp_op *op)
{
    return !is_grid(op)                                    ? convolve_single
           : params_of(op)->weights == VP_WEIGHTS_SOURCE ? convolve_source
                                                         : convolve_grid;
}

bool has(const vp_op *op, char *why, size_t size)
{
    const vp_convolve_params *const p = params_of(op);
    if (!(VP_CONVOLVE_TYPES & 1u << op->in))
        snprintf(why, size, "no kernel for %s", vp_type_name(op->in));
    else if (is_grid(op) && is_volume(op))
        snprintf(why, size, "no kernel for grids of three-dimensional kernels");
    else if (!method_of(op).fits(op))
        snprintf(why, size, "no kernel for kernels of %lld x %lld x %lld", (long long)p->n[0], (long long)p->n[1],
                 (long long)p->n[2]);
    else
        return vp_has_sizes(op, why, size);
    return false;
}

uint64_t table(const vp_op *op)
{
    return method_of(op).table(op, false);
}

uint64_t made(const vp_op *op)
{
    return method_of(op).table(op, true);
}

void fill(const vp_op *op, void *to)
{
    method_of(op).fill(op, to);
}

int make(const vp_op *op, void *base, vp_queue *queue, vp_err *err)
{
    return method_of(op).make(op, base, queue, err);
}

uint64_t scratch(const vp_op *op, const int64_t in[3], const int64_t out[3])
{
    return method_of(op).scratch(op, in, out);
}

void demand(const vp_op *op, int64_t step[3], int64_t halo[3])
{
    if (!method_of(op).fits(op))
        return;
    for (int a = 0; a < 3; a++)
        halo[a] = reach_of(op, a);
    method_of(op).demand(op, step, halo);
    for (int a = 0; a < 3; a++)
        if (vp_convolve_wraps(params_of(op), a))
            halo[a] = VP_UNKNOWN;
}

int launch(const vp_op *op, const vp_work *given, vp_err *err)
{
    vp_area in = *given->in; /* in the coordinates of the result */
    vp_work moved = *given, *const work = &moved;
    for (int a = 0; a < 3; a++) {
        in.box.lo[a] += params_of(op)->pad_lo[a];
        in.box.hi[a] += params_of(op)->pad_lo[a];
    }
    moved.in = &in;
    nonfinite_args b = {*work->in, *work->out, {}, (int *)work->scratch};
    const cudaStream_t stream = work->queue->stream;
    if (vp_gpu_check(err, cudaMemsetAsync(work->scratch, 0, sizeof *b.nonfinite, stream), "cannot clear CUDA memory")
        || method_of(op).launch(op, work, err))
        return -1;
    if (op->in != VP_F32 || op->out != VP_F32)
        return 0;
    for (int a = 0; a < 3; a++)
        b.axis[a] = axis_of(op, a, 0);
    return vp_start(err, stream, nonfinite_kernel, dim3((unsigned)work->queue->sms * 4), dim3(256), 0, b);
}

}

}

VP_GPU_KERNEL(convolve, vp::has, vp::scratch, vp::table, vp::fill, vp::launch,
              nullptr, vp::demand, vp::made, vp::make);
