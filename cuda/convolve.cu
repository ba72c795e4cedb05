/* SPDX-License-Identifier: BSD-3-Clause */
/* Convolution with one kernel of any size by overlap-save: kernel "convolve" of local/convolve.h.
 *
 * Images: rows forward, two tiles as one complex line; columns forward, times the spectrum, back; rows back. Volumes:
 * rows, y forward, z (forward, times the spectrum, back), y back, rows back, pair after pair of tiles along x. See
 * convolve_pass.cuh for the kernels. A tile has T samples and makes T - taps + 1 outputs along an axis; T is the
 * cheapest by the samples that all tiles together transform.
 *
 * Means. A row of a tile is transformed without its mean; what the kernel makes of the means is added at the end:
 * mean(y - k) times the kernel's row sums, over its rows (means_kernel). Rounding is then relative to the contrast of a
 * row, not to its brightness.
 *
 * Samples that are not finite count as 0 in the transforms and raise a flag; then bad_kernel writes NaN wherever a
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

struct means_args {
    const cx *mean; /* [plane][pair][row], from in_z0 and in_y0 on */
    cx *out;        /* the same of outputs, from z0 and y0 on */
    int64_t mean_pair, mean_plane, out_pair, out_plane;
    int in_y0, in_z0, y0, z0, rows, planes;
    convolve_axis y, z;
    const float *sums; /* of the kernel's rows, [z][y] */
};

/* What the kernel makes of the means: a thread has a row of Z output planes, a block MEANS_ROWS of them and, in shared
 * memory, what they see of a plane of means, and the Z rows of weights that go with it, side by side. Few products are
 * summed up in f32, these sums in f64. */
enum { MEANS_ROWS = 128, MEANS_FEW = 16 };

template <int Z> __global__ void __launch_bounds__(MEANS_ROWS) means_kernel(const means_args a)
{
    extern __shared__ cx shared[];
    const int row = blockIdx.x * MEANS_ROWS + threadIdx.x, taps = a.y.taps, seen = MEANS_ROWS + taps - 1;
    const int z0 = a.z0 + (int)blockIdx.z * Z, first = a.y0 + (int)blockIdx.x * MEANS_ROWS - a.y.behind();
    cx *const means = shared;
    float *const weights = (float *)(shared + (seen + 1) / 2 * 2);
    double re[Z] = {}, im[Z] = {};

    for (int z = z0 - a.z.behind(); z < z0 + Z + a.z.centre; z++) {
        const int from_z = edge_from(a.z.rule, z - a.z.first, a.z.count);
        if (from_z < 0)
            continue;
        const cx *const plane = a.mean + blockIdx.y * a.mean_pair + (from_z + a.z.first - a.in_z0) * a.mean_plane;
        for (int i = threadIdx.x; i < seen; i += MEANS_ROWS) {
            const int from = sample_from(a.y, first + i);
            means[i] = from < 0 ? cx{0, 0} : load_far(plane + (from - a.in_y0));
        }
        for (int i = threadIdx.x; i < taps * Z; i += MEANS_ROWS) {
            const int k = z0 + i % Z - z + a.z.centre; /* the tap that takes this plane to that output */
            weights[i] = k >= 0 && k < a.z.taps ? __ldg(a.sums + (int64_t)k * taps + i / Z) : 0;
        }
        __syncthreads();
        const cx *const own = means + threadIdx.x + taps - 1;
        for (int k0 = 0; k0 < taps; k0 += MEANS_FEW) {
            cx s[Z] = {};
            for (int k = k0; k < min(k0 + MEANS_FEW, taps); k++) {
                const cx m = own[-k];
                each<Z>([&](auto i) { s[i] = scaled_plus(weights[k * Z + i], m, s[i]); });
            }
            each<Z>([&](auto i) {
                re[i] += s[i].re;
                im[i] += s[i].im;
            });
        }
        __syncthreads();
    }
    each<Z>([&](auto i) {
        if (row < a.rows && (int)blockIdx.z * Z + i < a.planes)
            a.out[((int64_t)blockIdx.z * Z + i) * a.out_plane + blockIdx.y * a.out_pair + row] = {(float)re[i],
                                                                                                  (float)im[i]};
    });
}

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
    a.first = (int)op->before[axis];
    a.count = clamped(op->image[axis] - op->before[axis] - op->behind[axis]);
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
    all.take(rows, nodes * (uint64_t)(p->n[1] * p->n[2]));
    all.take(sums, summed && p->edge == VP_EDGE_RENORMALIZE ? nodes * (uint64_t)((p->n[0] + 1) * (p->n[1] + 1) * (p->n[2] + 1)) : 0);
}

void kernel_table::fill(const vp_convolve_params *p) const
{
    const int64_t nodes = p->nodes[0] * p->nodes[1], lines = nodes * p->n[1] * p->n[2];
    std::copy(p->kernels, p->kernels + lines * p->n[0], kernels);
    if (sums)
        std::copy(p->sums, p->sums + nodes * (p->n[0] + 1) * (p->n[1] + 1) * (p->n[2] + 1), sums);
    for (int64_t r = 0; r < lines; r++) {
        double sum = 0;
        for (int64_t x = 0; x < p->n[0]; x++)
            sum += p->kernels[r * p->n[0] + x];
        rows[r] = (float)sum;
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

back_args back_of(const vp_op *op, const vp_work *work, const convolve_part &p, int T, const convolve_room &r)
{
    back_args a = {};
    a.in = r.back;
    a.mean = r.means;
    a.mean_pair = p.out_n[1];
    a.in_pair = a.mean_pair * T;
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
    all.take(r.mean, n * rows_in);
    all.take(r.means, n * rows_out);
    all.used = std::max(all.used, before + room_for(one, (uint64_t)(pairs * out[2]), WORK));
    return r;
}

void steps_of(const convolve_cut &c, int64_t step[3])
{
    for (int a = 0; a < 3; a++)
        step[a] = !c.length[a] ? 1 : a == 0 ? 2 * c.valid[a] : c.valid[a];
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
        c.length[a] = a == 2 && !op->whole[2] ? choose_deep(c.length[1], taps) : choose(op->image[a], taps, a == 0);
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
        all.take(r.mean, rows_in);
        all.take(r.means, rows_out);
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
    steps_of(cut_of(op), step);
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
    a.mean = l.r.mean;
    a.mean_pair = l.part.in_n[1];
    a.out_pair = a.mean_pair * l.cut.length[0]->T;
    a.bad = (int *)l.work->scratch;
    a.twiddle = l.table.twiddle[0];
    return a;
}

back_args back_of(const launching &l)
{
    back_args a = back_of(l.op, l.work, l.part, l.cut.length[0]->T, l.r);
    a.sums = l.table.kernel.sums;
    a.twiddle = l.table.twiddle[0];
    return a;
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

int launch_means(const launching &l, int pairs, int z_out, int z_in, int planes)
{
    means_args m = {};
    m.mean = l.r.mean;
    m.out = l.r.means;
    m.mean_pair = l.part.in_n[1];
    m.mean_plane = m.mean_pair * pairs;
    m.out_pair = l.part.out_n[1];
    m.out_plane = m.out_pair * pairs;
    m.in_y0 = l.part.in_lo[1];
    m.in_z0 = z_in;
    m.y0 = l.part.out_lo[1];
    m.z0 = z_out;
    m.rows = l.part.out_n[1];
    m.y = l.part.axis[1];
    m.z = l.part.axis[2];
    m.sums = l.table.kernel.rows;
    m.planes = planes;
    const size_t seen = (size_t)(MEANS_ROWS + m.y.taps) / 2 * 2 * sizeof(cx), taps = (size_t)m.y.taps * sizeof(float);
    const dim3 grid((unsigned)vp_div_up(m.rows, MEANS_ROWS), (unsigned)pairs, (unsigned)planes);
    if (m.z.taps == 1)
        return vp_start(l.err, l.stream, means_kernel<1>, grid, dim3(MEANS_ROWS), seen + taps, m);
    const dim3 fours(grid.x, grid.y, (grid.z + 3) / 4);
    return vp_start(l.err, l.stream, means_kernel<4>, fours, dim3(MEANS_ROWS), seen + 4 * taps, m);
}

/* Planes by themselves. */
int launch_images(const launching &l)
{
    const int T = l.cut.length[0]->T, pairs = l.part.pairs;
    for (int p = 0; p < pairs; p += l.r.pairs)
        for (int z = 0; z < l.part.out_n[2]; z += l.r.planes) {
            const int n = std::min(l.r.pairs, pairs - p), planes = std::min(l.r.planes, l.part.out_n[2] - z);
            rows_args rows = rows_of(l);
            rows.pair0 = l.part.pair0 + p;
            rows.z0 = l.part.out_lo[2] + z;
            rows.mean_plane = rows.mean_pair * n;
            rows.out_plane = rows.out_pair * n;
            columns_args columns = columns_of_axis(l, 1);
            columns.in = l.r.lines;
            columns.out = l.r.back;
            columns.in_pitch = columns.out_pitch = T;
            columns.in_outer = rows.out_pair;
            columns.out_outer = (int64_t)l.part.out_n[1] * T;
            columns.spectrum = l.table.spectrum;
            columns.outers = n * planes;
            columns.backwards = true;
            back_args back = back_of(l);
            back.pair0 = rows.pair0;
            back.z0 = rows.z0;
            back.mean_plane = back.mean_pair * n;
            back.in_plane = back.in_pair * n;
            if (l.cut.length[0]->rows(l.err, l.stream, rows, n, planes) || launch_means(l, n, rows.z0, rows.z0, planes)
                || l.cut.length[1]->columns(l.err, l.stream, columns, COLUMNS_CONVOLVE)
                || l.cut.length[0]->back(l.err, l.stream, back, n, planes))
                return -1;
        }
    return 0;
}

int launch_volume(const launching &l)
{
    const int x = l.cut.length[0]->T, y = l.cut.length[1]->T;
    for (int p = 0; p < l.part.pairs; p++) {
        rows_args rows = rows_of(l);
        rows.pair0 = l.part.pair0 + p;
        rows.z0 = l.part.in_lo[2];
        rows.mean_plane = rows.mean_pair;
        rows.out_plane = rows.out_pair;
        columns_args to = columns_of_axis(l, 1), across = columns_of_axis(l, 2);
        const int64_t lanes = (int64_t)to.tiles * x * y;
        to.in = l.r.lines;
        to.out = l.r.tiles;
        to.in_pitch = to.out_pitch = x;
        to.in_outer = rows.out_pair;
        to.out_outer = lanes;
        to.outers = l.part.in_n[2];
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
        from.outers = l.part.out_n[2];
        back_args back = back_of(l);
        back.pair0 = rows.pair0;
        back.z0 = l.part.out_lo[2];
        back.mean_plane = back.mean_pair;
        back.in_plane = back.in_pair;
        if (l.cut.length[0]->rows(l.err, l.stream, rows, 1, l.part.in_n[2])
            || launch_means(l, 1, l.part.out_lo[2], l.part.in_lo[2], l.part.out_n[2])
            || l.cut.length[1]->columns(l.err, l.stream, to, COLUMNS_FORWARD)
            || l.cut.length[2]->columns(l.err, l.stream, across, COLUMNS_CONVOLVE)
            || l.cut.length[1]->columns(l.err, l.stream, from, COLUMNS_BACK)
            || l.cut.length[0]->back(l.err, l.stream, back, 1, l.part.out_n[2]))
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
    l.part = part_of(op, work, l.cut);
    l.r = room_of(op, l.cut, l.part.pairs, in_size, out_size, vp_div_up(out_size[1], l.cut.valid[1]), work->scratch);
    l.stream = work->queue->stream;
    return is_deep(op) ? launch_volume(l) : launch_images(l);
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
    const vp_convolve_params *const p = params_of(op);
    const bool seen_again = is_grid(op) || p->edge == VP_EDGE_NEAREST || p->edge == VP_EDGE_MIRROR;
    if (!way_of(op).fits(op))
        return;
    for (int a = 0; a < 3; a++)
        halo[a] = std::max(p->centre[a], p->n[a] - 1 - p->centre[a])
                  + (seen_again ? 2 * std::max(op->before[a], op->behind[a]) : 0);
    way_of(op).demand(op, step, halo);
}

int launch(const vp_op *op, const vp_work *work, vp_err *err)
{
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
