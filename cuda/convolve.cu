/* SPDX-License-Identifier: BSD-3-Clause */
/* Convolution with one kernel of any size by overlap-save: kernel "convolve" of local/convolve.h.
 *
 * Images: rows forward, two tiles as one complex line; columns forward, times the spectrum, back; rows back. Volumes:
 * rows, y forward, z (forward, times the spectrum, back), y back, rows back, pair after pair of tiles along x. See
 * convolve_pass.cuh for the kernels. A tile has T samples and makes T - taps + 1 outputs along an axis; T is the
 * cheapest by the samples that all tiles together transform.
 *
 * Constants. Of each plane of a pair of tiles, in some rows of tiles (group_rows), a constant is taken off, and added to
 * the results times the sum of the kernel: rounding is then relative to the contrast, not to the brightness. Tiles in
 * which samples stand out by far are summed up directly (direct_kernel).
 *
 * Samples that are not finite count as the constant in the transforms and raise a flag; then bad_kernel writes NaN wherever a
 * kernel reaches one. */
#include "convolve.h"
#include "convolve_edge.cuh"

#include <cmath>
#include <cstdio>

namespace vp
{
namespace
{

/* All lengths, ascending, and what a value costs in rows and in columns, for one of the second. */
const struct {
    const convolve_length *length;
    double row, column;
} lengths[] = {{&convolve_128, 1.1, 1.1},   {&convolve_256, 1, 1},       {&convolve_288, 1.03, 1.03},
               {&convolve_320, 1.04, 1.04}, {&convolve_384, 1.05, 1.05}, {&convolve_512, 1.02, 1.02},
               {&convolve_640, 1.08, 1.12}, {&convolve_1024, 1.05, 1.28}};

enum {
    DEEP_MOST = 320,
    LEAST_VALID = 4, /* outputs of a tile along x are a multiple of it */
};

int clamped(int64_t n)
{
    return (int)std::min<int64_t>(n, VP_FAR);
}

/* The length for `size` outputs; of rows, two tiles are transformed at once. */
const convolve_length *choose(int64_t size, int taps, bool rows)
{
    const convolve_length *best = nullptr;
    double least = 0;
    for (const auto &l : lengths) {
        const int valid = (l.length->T - taps + 1) / LEAST_VALID * LEAST_VALID;
        if (valid < LEAST_VALID)
            continue;
        const double tiles = (double)vp_round_up(vp_div_up(size, valid), rows ? 2 : 1);
        const double cost = tiles * l.length->T * (rows ? l.row : l.column);
        if (!best || cost < least) {
            best = l.length;
            least = cost;
        }
    }
    return best;
}

/* Along z, where it may be that nobody knows how many there will be: as along y, but a stack of few planes is not to be
 * transformed as if it had many. */
const convolve_length *choose_deep(const convolve_length *y, int taps)
{
    if (y->T <= DEEP_MOST && y->T >= 2 * taps)
        return y;
    for (const auto &l : lengths)
        if (l.length->T >= 4 * taps || l.length->T == DEEP_MOST)
            if (l.length->T >= taps + LEAST_VALID)
                return l.length;
    return choose(1 << 20, taps, false);
}

/* ---- kernels of their own ---- */

struct base_args {
    vp_area in;
    int type;
    convolve_axis axis[3];
    int pair0, y0, y1;             /* the first pair; outputs along y */
    int planes_in, planes_out;
    convolve_ending ending;
};

__global__ void __launch_bounds__(128) base_kernel(const base_args a)
{
    const int i = (int)(blockIdx.x * blockDim.x + threadIdx.x), pair = i % a.ending.pairs, plane = i / a.ending.pairs;
    if (plane >= a.planes_in)
        return;
    const convolve_axis x = a.axis[0];
    const int lo[2] = {2 * (a.pair0 + pair) * x.valid, a.y0}, hi[2] = {min(lo[0] + 2 * x.valid, x.size), a.y1};
    a.ending.base[i] = box_constant(a.in, a.type, a.axis, lo, hi, a.ending.base_z0 + plane);
}

/* Parts that inner results lack; beyond the stack the nearest plane stands for the result's. */
__global__ void __launch_bounds__(128) more_kernel(const base_args a)
{
    const int i = (int)(blockIdx.x * blockDim.x + threadIdx.x), pair = i % a.ending.pairs, plane = i / a.ending.pairs;
    if (plane >= a.planes_out)
        return;
    const convolve_axis z = a.axis[2];
    const int p = a.ending.more_z0 + plane;
    const auto base_of = [&](int q) { return (double)a.ending.base[(int64_t)(q - a.ending.base_z0) * a.ending.pairs + pair]; };
    const double base = base_of(min(max(p, z.first), z.first + z.count - 1));
    double more = base * a.ending.total;
    for (int k = 0; k < z.taps && z.taps > 1; k++) {
        const int q = sample_from(z, p + z.centre - k);
        more += q < 0 ? 0 : (base_of(q) - base) * a.ending.planes[k];
    }
    a.ending.more[i] = (float)more;
}

/* See direct_kernel. Tiles of a pair side by side are one here, which shares its lines. */
struct direct_one {
    vp_area in, out;
    int type_in, type_out;
    convolve_axis axis[3];
    int pair0, tile0, y0, rows, z0; /* pairs, tiles along y; rows and planes that there are lines of */
    int out_lo[2], out_hi[2];      /* along y and z: results that are made now */
    int planes;                    /* of a tile */
    const float *most;
    const float *kernel;
    convolve_ending ending;

    struct box {
        int lo[3], hi[3], strip, y, z; /* y, z: where its lines begin */
    };

    __device__ box tile(int i, int strip) const
    {
        const convolve_axis x = axis[0], y = axis[1];
        const int from_z = (out_lo[1] / planes + strip / ending.pairs) * planes;
        box b;
        b.strip = strip % ending.pairs;
        b.lo[0] = 2 * (pair0 + b.strip) * x.valid;
        b.lo[1] = (tile0 + i) * y.valid;
        b.lo[2] = max(from_z, out_lo[1]);
        b.hi[0] = min(b.lo[0] + 2 * x.valid, (int)out.box.hi[0]);
        b.hi[1] = min(b.lo[1] + y.valid, out_hi[0]);
        b.hi[2] = min(from_z + planes, out_hi[1]);
        b.y = b.lo[1] - y.behind();
        b.z = from_z - axis[2].behind();
        return b;
    }
    __device__ int lines(const box &) const { return samples_of(axis[1]) * (planes + axis[2].taps - 1); }
    __device__ float most_of(const box &b, int i) const
    {
        const int n = samples_of(axis[1]), y = sample_from(axis[1], b.y + i % n), z = sample_from(axis[2], b.z + i / n);
        return y < 0 || z < 0 ? 0 : most[((int64_t)(z - z0) * ending.pairs + b.strip) * rows + y - y0];
    }
    __device__ float base(const box &b, int z) const
    {
        const int q = min(max(z, axis[2].first), axis[2].first + axis[2].count - 1);
        return ending.base[(int64_t)(q - ending.base_z0) * ending.pairs + b.strip];
    }
    __device__ float weight(const box &, int kx, int ky, int kz, const int *, int, int) const
    {
        return __ldg(kernel + ((int64_t)kz * axis[1].taps + ky) * axis[0].taps + kx);
    }
    __device__ float completed(const box &b, float v, const int p[3]) const
    {
        return vp::completed(ending, axis, v, b.strip, p[0], p[1], p[2]);
    }
};

struct bad_args {
    vp_area in, out;
    convolve_axis axis[3];
    const int *bad;
};

/* Positions that outputs see, also outside the image: who holds a sample that is not finite writes NaN to all whose
 * kernel it is in; where the position before holds one, too, only to those that are new. */
__global__ void __launch_bounds__(256) bad_kernel(const bad_args a)
{
    if (!*a.bad)
        return;
    int lo[3];
    int64_t n[3];
    for (int i = 0; i < 3; i++) {
        lo[i] = (int)a.out.box.lo[i] - a.axis[i].behind();
        n[i] = a.out.box.hi[i] + a.axis[i].centre - lo[i];
    }
    const auto is_bad = [&](int x, int y, int z) {
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
        if (!is_bad(p[0], p[1], p[2]))
            continue;
        int64_t from[3], to[3];
        for (int k = 0; k < 3; k++) {
            from[k] = max(p[k] - (int64_t)a.axis[k].centre, a.out.box.lo[k]);
            to[k] = min(p[k] + (int64_t)a.axis[k].behind() + 1, a.out.box.hi[k]);
        }
        if (p[0] > lo[0] && is_bad(p[0] - 1, p[1], p[2]))
            from[0] = max(from[0], p[0] + (int64_t)a.axis[0].behind());
        for (int64_t z = from[2]; z < to[2]; z++)
            for (int64_t y = from[1]; y < to[1]; y++)
                for (int64_t x = from[0]; x < to[0]; x++)
                    ((float *)a.out.data)[(z - a.out.box.lo[2]) * a.out.plane + (y - a.out.box.lo[1]) * a.out.pitch
                                          + (x - a.out.box.lo[0])] = __int_as_float(0x7fc00000);
    }
}

}

/* ---- what all ways share ---- */

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

void kernel_table::take(vp_pieces &all, const vp_convolve_params *p, bool summed)
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
    if (sums)
        std::copy(p->sums, p->sums + nodes * (p->n[0] + 1) * (p->n[1] + 1) * (p->n[2] + 1), sums);
    for (int64_t k = 0; k < p->n[2]; k++) {
        planes[k] = 0;
        for (int64_t i = 0; i < plane; i++)
            planes[k] += p->kernels[k * plane + i];
    }
}

void fill_twiddle(int T, int R1, int R2, cx *to)
{
    for (int k = 0; k < R1; k++)
        for (int n = 0; n < R2; n++) {
            const double turn = -2 * PI * (double)(k * n % T) / T;
            to[k * R2 + n] = {(float)std::cos(turn), (float)std::sin(turn)};
        }
}

int make_spectrum(const vp_op *op, const convolve_cut &c, const float *kernel, cx *const twiddle[3], cx *work,
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

convolve_part part_of(const vp_op *op, const vp_work *work, const convolve_cut &c)
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

/* Distance of samples from an output that sees them. */
static int64_t reach_of(const vp_op *op, int axis)
{
    const vp_convolve_params *const p = params_of(op);
    const bool grid = p->nodes[0] > 1 || p->nodes[1] > 1;
    const bool seen_again = grid || p->edge == VP_EDGE_NEAREST || p->edge == VP_EDGE_MIRROR;
    return std::max(p->centre[axis], p->n[axis] - 1 - p->centre[axis])
           + (seen_again ? 2 * std::max(p->pad_lo[axis], p->pad_hi[axis]) : 0);
}

/* Rows of outputs that have their constants in common: enough that few rows are transformed for two of them. */
static int64_t group_rows(const vp_op *op, const convolve_cut &c)
{
    enum { LEAST = 1024, TIMES = 16 };
    const int64_t rows = std::max<int64_t>(LEAST, TIMES * (params_of(op)->n[1] - 1));
    return op->halo[1] >= VP_UNKNOWN ? op->image[1] : std::max<int64_t>(1, rows / c.valid[1]) * c.valid[1];
}

convolve_part first_group(const vp_op *op, const convolve_cut &c, const convolve_part &all)
{
    convolve_part p = all;
    p.out_n[1] = 0;
    next_group(op, c, all, p);
    return p;
}

bool next_group(const vp_op *op, const convolve_cut &c, const convolve_part &all, convolve_part &p)
{
    const int64_t lo = p.out_lo[1] + p.out_n[1], end = all.out_lo[1] + all.out_n[1], rows = group_rows(op, c);
    const int64_t hi = std::min(end, (lo / rows + 1) * rows), reach = reach_of(op, 1), in_end = all.in_lo[1] + all.in_n[1];
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

int launch_base(const vp_op *op, const vp_work *work, const convolve_part &p, int pair0, const convolve_ending &e,
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
    a.ending = e;
    const auto blocks = [&](int n) { return dim3((unsigned)vp_div_up((int64_t)n * e.pairs, 128)); };
    return vp_start(err, work->queue->stream, base_kernel, blocks(planes[0]), dim3(128), 0, a)
                   || (e.more && vp_start(err, work->queue->stream, more_kernel, blocks(planes[1]), dim3(128), 0, a))
               ? -1 : 0;
}

back_args back_of(const vp_op *op, const vp_work *work, const convolve_part &p, int T, const convolve_room &r)
{
    back_args a = {};
    a.in = r.back;
    a.in_pair = (int64_t)p.out_n[1] * T;
    a.out = *work->out;
    a.type = op->out;
    std::copy(p.axis, p.axis + 3, a.axis);
    a.y0 = p.out_lo[1];
    a.rows = p.out_n[1];
    return a;
}

convolve_room room_of_images(vp_pieces &all, int T, int slots, int64_t pairs, const int64_t in[3], const int64_t out[3])
{
    const uint64_t rows_in = (uint64_t)(slots * in[1]), rows_out = (uint64_t)out[1], x = (uint64_t)T,
                   one = (rows_in + rows_out) * (x + 1) * sizeof(cx), most = std::max<uint64_t>(1, WORK / one),
                   before = all.used;
    convolve_room r = {};
    r.pairs = (int)std::min<uint64_t>({(uint64_t)pairs, most, (uint64_t)(65535 / slots)});
    r.planes = r.pairs < pairs ? 1 : (int)std::min<uint64_t>((uint64_t)out[2], std::max<uint64_t>(1, std::min<uint64_t>(
                                                                 most, 65535) / (uint64_t)pairs));
    const uint64_t n = (uint64_t)r.pairs * (uint64_t)r.planes;
    all.take(r.lines, n * rows_in * x);
    all.take(r.back, n * rows_out * x);
    all.take(r.base, n);
    all.take(r.more, n);
    all.take(r.most, n * (uint64_t)in[1]);
    all.used = std::max(all.used, before + room_for(one, (uint64_t)(pairs * out[2]), WORK));
    return r;
}

void steps_of(const vp_op *op, const convolve_cut &c, int64_t step[3])
{
    for (int a = 0; a < 3; a++)
        step[a] = !c.length[a] ? 1 : a == 0 ? 2 * c.valid[a] : a == 1 && op->halo[1] < VP_UNKNOWN ? group_rows(op, c) : c.valid[a];
}

namespace
{

/* ---- one kernel ---- */

bool is_deep(const vp_op *op)
{
    return params_of(op)->n[2] > 1;
}

/* No lengths: they are too short. */
convolve_cut cut_of(const vp_op *op)
{
    const vp_convolve_params *const p = params_of(op);
    convolve_cut c = {};
    for (int a = 0; a < (is_deep(op) ? 3 : 2); a++) {
        const int taps = (int)std::min<int64_t>(p->n[a], 1 << 20);
        c.length[a] = a == 2 && op->halo[2] < VP_UNKNOWN ? choose_deep(c.length[1], taps) : choose(op->image[a], taps, a == 0);
        if (!c.length[a])
            return {};
        c.valid[a] = c.length[a]->T - taps + 1;
        if (a == 0)
            c.valid[a] = c.valid[a] / LEAST_VALID * LEAST_VALID;
    }
    return c;
}

bool fits_one(const vp_op *op)
{
    return cut_of(op).length[0];
}

/* The table: what the host fills, and behind it what the device makes. */
struct one_table {
    kernel_table kernel;
    cx *twiddle[3], *spectrum, *work;
    uint64_t bytes, made;
};

one_table table_of(const vp_op *op, const convolve_cut &c, void *base)
{
    const vp_convolve_params *const p = params_of(op);
    vp_pieces all = {(char *)base, 0};
    one_table t = {};
    t.kernel.take(all, p, true);
    for (int a = 0; a < 3 && c.length[a]; a++)
        all.take(t.twiddle[a], (uint64_t)c.length[a]->T);
    t.bytes = all.used;
    const convolve_length *const last = c.length[is_deep(op) ? 2 : 1];
    const uint64_t x = (uint64_t)c.length[0]->T, y = (uint64_t)c.length[1]->T, lanes = is_deep(op) ? x * y : x;
    all.take(t.spectrum, lanes / (uint64_t)last->group * (uint64_t)last->spectrum);
    all.take(t.work, (uint64_t)(p->n[1] * p->n[2]) * x + (is_deep(op) ? (uint64_t)p->n[2] * lanes : 0));
    t.made = all.used - t.bytes;
    return t;
}

uint64_t table_one(const vp_op *op, bool made)
{
    const one_table t = table_of(op, cut_of(op), nullptr);
    return made ? t.made : t.bytes;
}

void fill_one(const vp_op *op, void *to)
{
    const convolve_cut c = cut_of(op);
    const one_table t = table_of(op, c, to);
    t.kernel.fill(params_of(op));
    for (int a = 0; a < 3 && c.length[a]; a++)
        fill_twiddle(c.length[a]->T, c.length[a]->R1, c.length[a]->R2, t.twiddle[a]);
}

int make_one(const vp_op *op, void *base, vp_queue *queue, vp_err *err)
{
    const convolve_cut c = cut_of(op);
    const one_table t = table_of(op, c, base);
    return make_spectrum(op, c, t.kernel.kernels, t.twiddle, t.work, t.spectrum, queue, err);
}

/* What a launch works in. Volumes: a pair of tiles at a time. */
struct one_room : convolve_room {
    cx *tiles, *product;
    uint64_t bytes;
};

one_room room_of(const vp_op *op, const convolve_cut &c, int64_t pairs, const int64_t in[3], const int64_t out[3],
                 int64_t tiles, void *base)
{
    vp_pieces all = {(char *)base, 0};
    one_room r = {};
    const uint64_t x = (uint64_t)c.length[0]->T, rows_in = (uint64_t)(in[1] * in[2]),
                   rows_out = (uint64_t)(out[1] * out[2]);
    all.take<int>(1);
    if (is_deep(op)) {
        const uint64_t lanes = (uint64_t)(tiles * c.length[1]->T) * x;
        r.pairs = r.planes = 1;
        all.take(r.lines, std::max(rows_in, rows_out) * x);
        r.back = r.lines;
        all.take(r.tiles, lanes * (uint64_t)in[2]);
        all.take(r.product, lanes * (uint64_t)out[2]);
        all.take(r.base, (uint64_t)in[2]);
        all.take(r.more, (uint64_t)out[2]);
        all.take(r.most, rows_in);
    } else {
        (convolve_room &)r = room_of_images(all, (int)x, 1, pairs, in, out);
    }
    r.bytes = all.used;
    return r;
}

uint64_t scratch_one(const vp_op *op, const int64_t in[3], const int64_t out[3])
{
    const convolve_cut c = cut_of(op);
    return room_of(op, c, vp_div_up(out[0], 2 * (int64_t)c.valid[0]), in, out, vp_div_up(out[1], c.valid[1]),
                   nullptr).bytes;
}

void demand_one(const vp_op *op, int64_t step[3], int64_t[3])
{
    steps_of(op, cut_of(op), step);
}

struct launching {
    const vp_op *op;
    const vp_work *work;
    vp_err *err;
    convolve_cut cut;
    one_table table;
    convolve_part part;
    one_room r;
    cudaStream_t stream;
};

rows_args rows_of(const launching &l)
{
    rows_args a = {};
    a.in = l.work->in[0];
    a.type = l.op->in;
    a.x = l.part.axis[0];
    a.y0 = l.part.in_lo[1];
    a.rows = l.part.in_n[1];
    a.out = l.r.lines;
    a.base = l.r.base;
    a.most = l.op->in == VP_F32 ? l.r.most : nullptr;
    a.out_pair = (int64_t)a.rows * l.cut.length[0]->T;
    a.bad = (int *)l.work->scratch;
    a.twiddle = l.table.twiddle[0];
    return a;
}

/* Planes of samples from in_z and results from out_z on. */
back_args back_of(const launching &l, int pairs, int in_z, int out_z)
{
    back_args a = back_of(l.op, l.work, l.part, l.cut.length[0]->T, l.r);
    a.z0 = out_z;
    a.twiddle = l.table.twiddle[0];
    convolve_ending &e = a.ending;
    e.base = l.r.base;
    e.base_z0 = in_z;
    e.more = l.r.more;
    e.more_z0 = out_z;
    e.pairs = pairs;
    e.sums = l.table.kernel.sums;
    e.planes = l.table.kernel.planes;
    e.total = params_of(l.op)->total[0];
    e.renormalize = params_of(l.op)->edge == VP_EDGE_RENORMALIZE;
    return a;
}

/* The constants, and the rows, of planes[0] planes of samples. */
int launch_rows(const launching &l, const rows_args &rows, const back_args &back, const int planes[2])
{
    const int pairs = back.ending.pairs;
    const size_t bytes = (size_t)planes[0] * (size_t)pairs * (size_t)rows.rows * sizeof *rows.most;
    if (launch_base(l.op, l.work, l.part, back.pair0, back.ending, planes, l.err)
        || (rows.most && !l.cut.length[0]->in_warp
            && vp_gpu_check(l.err, cudaMemsetAsync(rows.most, 0, bytes, l.stream), "cannot clear CUDA memory")))
        return -1;
    return l.cut.length[0]->rows(l.err, l.stream, rows, pairs, planes[0]);
}

int launch_direct(const launching &l, const rows_args &rows, const back_args &back, const int planes[2])
{
    direct_one d = {};
    const convolve_part &p = l.part;
    if (!rows.most)
        return 0;
    d.in = rows.in;
    d.out = back.out;
    d.type_in = rows.type;
    d.type_out = back.type;
    std::copy(back.axis, back.axis + 3, d.axis);
    d.pair0 = back.pair0;
    d.tile0 = p.tile0;
    d.y0 = rows.y0;
    d.rows = rows.rows;
    d.z0 = rows.z0;
    d.out_lo[0] = p.out_lo[1];
    d.out_hi[0] = p.out_lo[1] + p.out_n[1];
    d.out_lo[1] = back.z0;
    d.out_hi[1] = back.z0 + planes[1];
    d.planes = is_deep(l.op) ? l.cut.valid[2] : 1;
    d.most = rows.most;
    d.kernel = l.table.kernel.kernels;
    d.ending = back.ending;
    const int tiles_z = (int)vp_div_up(d.out_hi[1], d.planes) - d.out_lo[1] / d.planes;
    const dim3 grid(DIRECT_BLOCKS, (unsigned)p.tiles, (unsigned)(tiles_z * back.ending.pairs));
    return vp_start(l.err, l.stream, direct_kernel<direct_one>, grid, dim3(256), 0, d);
}

columns_args columns_of_axis(const launching &l, int axis)
{
    columns_args a = {};
    a.axis = l.part.axis[axis];
    a.twiddle = l.table.twiddle[axis];
    a.in_first = l.part.in_lo[axis];
    a.out_first = l.part.out_lo[axis];
    a.tile0 = l.part.out_lo[axis] / a.axis.valid;
    a.tiles = (int)vp_div_up(l.part.out_lo[axis] + l.part.out_n[axis], a.axis.valid) - a.tile0;
    a.lanes = l.cut.length[0]->T;
    a.repeats = a.outers = 1;
    return a;
}

/* Planes by themselves. */
int launch_images(const launching &l)
{
    const int T = l.cut.length[0]->T, pairs = l.part.pairs;
    for (int p = 0; p < pairs; p += l.r.pairs)
        for (int z = 0; z < l.part.out_n[2]; z += l.r.planes) {
            const int n = std::min(l.r.pairs, pairs - p), z0 = l.part.out_lo[2] + z;
            const int planes[2] = {std::min(l.r.planes, l.part.out_n[2] - z), std::min(l.r.planes, l.part.out_n[2] - z)};
            rows_args rows = rows_of(l);
            rows.pair0 = l.part.pair0 + p;
            rows.z0 = z0;
            rows.out_plane = rows.out_pair * n;
            columns_args columns = columns_of_axis(l, 1);
            columns.in = l.r.lines;
            columns.out = l.r.back;
            columns.in_pitch = columns.out_pitch = T;
            columns.in_outer = rows.out_pair;
            columns.out_outer = (int64_t)l.part.out_n[1] * T;
            columns.spectrum = l.table.spectrum;
            columns.outers = n * planes[0];
            columns.backwards = true;
            back_args back = back_of(l, n, z0, z0);
            back.pair0 = rows.pair0;
            back.in_plane = back.in_pair * n;
            if (launch_rows(l, rows, back, planes)
                || l.cut.length[1]->columns(l.err, l.stream, columns, COLUMNS_CONVOLVE)
                || l.cut.length[0]->back(l.err, l.stream, back, n, planes[1]) || launch_direct(l, rows, back, planes))
                return -1;
        }
    return 0;
}

int launch_volume(const launching &l)
{
    const int x = l.cut.length[0]->T, y = l.cut.length[1]->T, planes[2] = {l.part.in_n[2], l.part.out_n[2]};
    for (int p = 0; p < l.part.pairs; p++) {
        rows_args rows = rows_of(l);
        rows.pair0 = l.part.pair0 + p;
        rows.z0 = l.part.in_lo[2];
        rows.out_plane = rows.out_pair;
        columns_args to = columns_of_axis(l, 1), across = columns_of_axis(l, 2);
        const int64_t lanes = (int64_t)to.tiles * x * y;
        to.in = l.r.lines;
        to.out = l.r.tiles;
        to.in_pitch = to.out_pitch = x;
        to.in_outer = rows.out_pair;
        to.out_outer = lanes;
        to.outers = planes[0];
        across.in = l.r.tiles;
        across.out = l.r.product;
        across.in_pitch = across.out_pitch = lanes;
        across.lanes = x * y;
        across.repeats = to.tiles;
        across.spectrum = l.table.spectrum;
        columns_args from = to;
        to.out_first = to.tile0;
        from.in = l.r.product;
        from.out = l.r.back;
        from.in_outer = lanes;
        from.out_outer = (int64_t)l.part.out_n[1] * x;
        from.in_first = from.tile0;
        from.outers = planes[1];
        back_args back = back_of(l, 1, rows.z0, l.part.out_lo[2]);
        back.pair0 = rows.pair0;
        back.in_plane = back.in_pair;
        if (launch_rows(l, rows, back, planes) || l.cut.length[1]->columns(l.err, l.stream, to, COLUMNS_FORWARD)
            || l.cut.length[2]->columns(l.err, l.stream, across, COLUMNS_CONVOLVE)
            || l.cut.length[1]->columns(l.err, l.stream, from, COLUMNS_BACK)
            || l.cut.length[0]->back(l.err, l.stream, back, 1, planes[1]) || launch_direct(l, rows, back, planes))
            return -1;
    }
    return 0;
}

int launch_one(const vp_op *op, const vp_work *work, vp_err *err)
{
    const vp_box &in = work->in[0].box, &out = work->out->box;
    const int64_t in_size[3] = {vp_box_size(&in, 0), vp_box_size(&in, 1), vp_box_size(&in, 2)};
    const int64_t out_size[3] = {vp_box_size(&out, 0), vp_box_size(&out, 1), vp_box_size(&out, 2)};
    launching l = {op, work, err, cut_of(op)};
    l.table = table_of(op, l.cut, (void *)work->table);
    const convolve_part all = part_of(op, work, l.cut);
    l.r = room_of(op, l.cut, all.pairs, in_size, out_size, vp_div_up(out_size[1], l.cut.valid[1]), work->scratch);
    l.stream = work->queue->stream;
    l.part = first_group(op, l.cut, all);
    do {
        if (is_deep(op) ? launch_volume(l) : launch_images(l))
            return -1;
    } while (next_group(op, l.cut, all, l.part));
    return 0;
}

constexpr convolve_way convolve_one = {fits_one,   table_one,   fill_one,  make_one,
                                       demand_one, scratch_one, launch_one};

/* ---- the kernel ---- */

bool is_grid(const vp_op *op)
{
    return params_of(op)->nodes[0] > 1 || params_of(op)->nodes[1] > 1;
}

const convolve_way &way_of(const vp_op *op)
{
    return !is_grid(op) ? convolve_one : params_of(op)->weights == VP_WEIGHTS_SOURCE ? convolve_source : convolve_grid;
}

bool has(const vp_op *op, char *why, size_t size)
{
    const vp_convolve_params *const p = params_of(op);
    if (!(VP_CONVOLVE_TYPES & 1u << op->in))
        snprintf(why, size, "no kernel for %s", vp_type_name(op->in));
    else if (is_grid(op) && is_deep(op))
        snprintf(why, size, "no kernel for grids of three-dimensional kernels");
    else if (!way_of(op).fits(op))
        snprintf(why, size, "no kernel for kernels of %lld x %lld x %lld", (long long)p->n[0], (long long)p->n[1],
                 (long long)p->n[2]);
    else
        return vp_has_sizes(op, why, size);
    return false;
}

uint64_t table(const vp_op *op)
{
    return way_of(op).table(op, false);
}

uint64_t made(const vp_op *op)
{
    return way_of(op).table(op, true);
}

void fill(const vp_op *op, void *to)
{
    way_of(op).fill(op, to);
}

int make(const vp_op *op, void *base, vp_queue *queue, vp_err *err)
{
    return way_of(op).make(op, base, queue, err);
}

uint64_t scratch(const vp_op *op, const int64_t in[3], const int64_t out[3])
{
    return way_of(op).scratch(op, in, out);
}

void demand(const vp_op *op, int64_t step[3], int64_t halo[3])
{
    if (!way_of(op).fits(op))
        return;
    for (int a = 0; a < 3; a++)
        halo[a] = reach_of(op, a);
    way_of(op).demand(op, step, halo);
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
    bad_args b = {*work->in, *work->out, {}, (int *)work->scratch};
    const cudaStream_t stream = work->queue->stream;
    if (vp_gpu_check(err, cudaMemsetAsync(work->scratch, 0, sizeof *b.bad, stream), "cannot clear CUDA memory")
        || way_of(op).launch(op, work, err))
        return -1;
    if (op->in != VP_F32 || op->out != VP_F32)
        return 0;
    for (int a = 0; a < 3; a++)
        b.axis[a] = axis_of(op, a, 0);
    return vp_start(err, stream, bad_kernel, dim3((unsigned)work->queue->sms * 4), dim3(256), 0, b);
}

}

}

extern "C" const vp_kernel vp_gpu_convolve = {"convolve", vp::has, vp::scratch, vp::table, vp::fill, vp::launch,
                                                nullptr, vp::demand, vp::made, vp::make};
