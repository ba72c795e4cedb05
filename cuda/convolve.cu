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
#include "convolve_edge.cuh"
#include "convolve_grid.h"
#include "launch.cuh"

#include <algorithm>
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
constexpr uint64_t WORK = (uint64_t)768 << 20; /* of the passes' lines, where images can be done in pieces */

int clamped(int64_t n)
{
    return (int)std::min<int64_t>(n, 1 << 30);
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
        const double tiles = (double)vp_round_up(vp_groups(size, valid), rows ? 2 : 1);
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

}

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

namespace
{

/* One kernel: the lengths of the transforms along the axes (z: NULL for images) and the outputs of a tile. */
struct convolve_cut {
    const convolve_length *length[3];
    int valid[3];
    bool fits;
};

/* The table: what the host fills, and behind it what the device makes. */
struct convolve_table {
    float *kernel;                      /* [z][y][x] */
    float *rows;                        /* sums of its rows, [z][y] */
    double *sums;                       /* of VP_EDGE_RENORMALIZE */
    complex_value *twiddle[3];
    uint64_t bytes;
    complex_value *spectrum, *work;     /* made */
    uint64_t made;
};

convolve_cut cut_of(const vp_op *op)
{
    const vp_convolve_params *const p = params_of(op);
    convolve_cut c = {};
    c.fits = true;
    for (int a = 0; a < (is_deep(p) ? 3 : 2); a++) {
        const int taps = (int)std::min<int64_t>(p->n[a], 1 << 20);
        c.length[a] = a == 2 && !op->whole[2] ? choose_deep(c.length[1], taps) : choose(op->image[a], taps, a == 0);
        if (!c.length[a]) {
            c.fits = false;
            return c;
        }
        c.valid[a] = c.length[a]->T - taps + 1;
        if (a == 0)
            c.valid[a] = c.valid[a] / LEAST_VALID * LEAST_VALID;
    }
    return c;
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

/* ---- the table ---- */

}

void fill_twiddle(int T, int R1, int R2, complex_value *to)
{
    for (int k = 0; k < R1; k++)
        for (int n = 0; n < R2; n++) {
            const double turn = -2 * PI * (double)(k * n % T) / T;
            to[k * R2 + n] = {(float)std::cos(turn), (float)std::sin(turn)};
        }
}

void row_sums(const vp_convolve_params *p, float *to)
{
    for (int64_t r = 0; r < p->nodes[0] * p->nodes[1] * p->n[1] * p->n[2]; r++) {
        double sum = 0;
        for (int64_t x = 0; x < p->n[0]; x++)
            sum += p->kernels[r * p->n[0] + x];
        to[r] = (float)sum;
    }
}

namespace
{

uint64_t taps_of(const vp_convolve_params *p)
{
    return (uint64_t)(p->n[0] * p->n[1] * p->n[2]);
}

uint64_t sums_of(const vp_convolve_params *p)
{
    return p->sums ? (uint64_t)((p->n[0] + 1) * (p->n[1] + 1) * (p->n[2] + 1)) : 0;
}

convolve_table table_of(const vp_op *op, void *base)
{
    const vp_convolve_params *const p = params_of(op);
    const convolve_cut c = cut_of(op);
    pieces all = {(char *)base, 0};
    convolve_table t = {};
    t.kernel = all.take<float>(taps_of(p));
    t.rows = all.take<float>((uint64_t)(p->n[1] * p->n[2]));
    t.sums = all.take<double>(sums_of(p));
    for (int a = 0; a < 3; a++)
        if (c.length[a])
            t.twiddle[a] = all.take<complex_value>((uint64_t)c.length[a]->T);
    t.bytes = all.used;
    const convolve_length *const last = c.length[is_deep(p) ? 2 : 1];
    const uint64_t x = (uint64_t)c.length[0]->T, y = (uint64_t)c.length[1]->T;
    const uint64_t lanes = is_deep(p) ? x * y : x;
    t.spectrum = all.take<complex_value>(lanes / (uint64_t)last->group * (uint64_t)last->spectrum);
    t.work = all.take<complex_value>((uint64_t)(p->n[1] * p->n[2]) * x + (is_deep(p) ? (uint64_t)p->n[2] * lanes : 0));
    t.made = all.used - t.bytes;
    return t;
}

bool has(const vp_op *op, char *why, size_t size)
{
    const vp_convolve_params *const p = params_of(op);
    if (!(VP_CONVOLVE_TYPES & 1u << op->in))
        snprintf(why, size, "no kernel for %s", vp_type_name(op->in));
    else if (is_grid(p) && is_deep(p))
        snprintf(why, size, "no kernel for grids of three-dimensional kernels");
    else if (is_source(p) ? !source_fits(op) : is_grid(p) ? !grid_fits(op) : !cut_of(op).fits)
        snprintf(why, size, "no kernel for kernels of %lld x %lld x %lld", (long long)p->n[0], (long long)p->n[1],
                 (long long)p->n[2]);
    else
        return true;
    return false;
}

uint64_t table(const vp_op *op)
{
    return is_source(params_of(op)) ? source_table_bytes(op)
           : is_grid(params_of(op)) ? grid_table_bytes(op)
                                    : table_of(op, nullptr).bytes;
}

uint64_t made(const vp_op *op)
{
    return is_source(params_of(op)) ? source_made_bytes(op)
           : is_grid(params_of(op)) ? grid_made_bytes(op)
                                    : table_of(op, nullptr).made;
}

void fill(const vp_op *op, void *to)
{
    const vp_convolve_params *const p = params_of(op);
    if (is_grid(p)) {
        is_source(p) ? source_fill(op, to) : grid_fill(op, to);
        return;
    }
    const convolve_cut c = cut_of(op);
    const convolve_table t = table_of(op, to);
    std::copy(p->kernels, p->kernels + taps_of(p), t.kernel);
    if (p->sums)
        std::copy(p->sums, p->sums + sums_of(p), t.sums);
    row_sums(p, t.rows);
    for (int a = 0; a < 3; a++)
        if (c.length[a])
            fill_twiddle(c.length[a]->T, c.length[a]->R1, c.length[a]->R2, t.twiddle[a]);
}

/* The spectrum, by the passes of an image that is a kernel. */
int make_spectrum(const vp_op *op, const convolve_table &t, vp_queue *queue, vp_err *err)
{
    const vp_convolve_params *const p = params_of(op);
    const convolve_cut c = cut_of(op);
    const int x = c.length[0]->T, y = c.length[1]->T, deep = is_deep(p);
    taps_args r = {};
    r.taps = t.kernel;
    r.n = r.pitch = (int)p->n[0];
    r.centre = (int)p->centre[0];
    r.rows = p->n[1] * p->n[2];
    r.out = t.work;
    r.twiddle = t.twiddle[0];
    if (c.length[0]->taps(err, queue->stream, r))
        return -1;
    columns_args a = {};
    a.in = t.work;
    a.in_pitch = a.out_pitch = x;
    a.twiddle = t.twiddle[1];
    a.axis = axis_of(op, 1, c.valid[1]);
    a.lanes = x;
    a.repeats = a.tiles = a.outers = 1;
    a.scale = (float)(1 / ((double)x * y * (deep ? c.length[2]->T : 1)));
    if (!deep) {
        a.spectrum = t.spectrum;
        return c.length[1]->columns(err, queue->stream, a, COLUMNS_SPECTRUM);
    }
    a.out = t.work + r.rows * x;
    a.outers = (int)p->n[2];
    a.in_outer = p->n[1] * x;
    a.out_outer = (int64_t)x * y;
    if (c.length[1]->columns(err, queue->stream, a, COLUMNS_TAPS))
        return -1;
    a.in = a.out;
    a.in_pitch = (int64_t)x * y;
    a.twiddle = t.twiddle[2];
    a.axis = axis_of(op, 2, c.valid[2]);
    a.lanes = x * y;
    a.outers = 1;
    a.spectrum = t.spectrum;
    return c.length[2]->columns(err, queue->stream, a, COLUMNS_SPECTRUM);
}

int make(const vp_op *op, void *base, vp_queue *queue, vp_err *err)
{
    const vp_convolve_params *const p = params_of(op);
    if (is_grid(p))
        return is_source(p) ? source_make(op, base, queue, err) : grid_make(op, base, queue, err);
    return make_spectrum(op, table_of(op, base), queue, err);
}

/* ---- the passes ---- */

/* What a launch works in. Images: as many planes, or else as many pairs of one, as WORK holds. Volumes: a pair. */
struct room {
    int pairs, planes; /* at once */
    complex_value *lines, *back, *tiles, *product;
    complex_value *mean, *means;
    int *bad;
    uint64_t bytes;
};

room room_of(const convolve_cut &c, bool deep, int64_t pairs, const int64_t in[3], const int64_t out[3], int64_t tiles,
             void *base)
{
    pieces all = {(char *)base, 0};
    room r = {};
    const uint64_t x = (uint64_t)c.length[0]->T, rows_in = (uint64_t)in[1], rows_out = (uint64_t)out[1];
    r.bad = all.take<int>(1);
    if (deep) {
        const uint64_t lanes = (uint64_t)(tiles * c.length[1]->T) * x;
        const uint64_t lines = std::max(rows_in * (uint64_t)in[2], rows_out * (uint64_t)out[2]);
        r.pairs = r.planes = 1;
        r.lines = r.back = all.take<complex_value>(lines * x);
        r.tiles = all.take<complex_value>(lanes * (uint64_t)in[2]);
        r.product = all.take<complex_value>(lanes * (uint64_t)out[2]);
        r.mean = all.take<complex_value>(rows_in * (uint64_t)in[2]);
        r.means = all.take<complex_value>(rows_out * (uint64_t)out[2]);
    } else {
        const uint64_t one = (rows_in + rows_out) * (x + 1) * sizeof(complex_value),
                       most = std::max<uint64_t>(1, WORK / one);
        r.pairs = (int)std::min<uint64_t>((uint64_t)pairs, most);
        r.planes = r.pairs < pairs
                       ? 1
                       : (int)std::min<uint64_t>(
                           (uint64_t)out[2], std::max<uint64_t>(1, std::min<uint64_t>(most, 65535) / (uint64_t)pairs));
        const uint64_t n = (uint64_t)r.pairs * (uint64_t)r.planes;
        r.lines = all.take<complex_value>(n * rows_in * x);
        r.back = all.take<complex_value>(n * rows_out * x);
        r.mean = all.take<complex_value>(n * rows_in);
        r.means = all.take<complex_value>(n * rows_out);
        all.used = std::max(all.used, room_for(one, (uint64_t)(pairs * out[2]), WORK));
    }
    r.bytes = all.used;
    return r;
}

int64_t pairs_of(const convolve_cut &c, int64_t outputs)
{
    return vp_groups(outputs, 2 * (int64_t)c.valid[0]);
}

int64_t tiles_of(const convolve_cut &c, int axis, int64_t outputs)
{
    return vp_groups(outputs, c.valid[axis]);
}

uint64_t scratch(const vp_op *op, const int64_t in[3], const int64_t out[3])
{
    if (is_grid(params_of(op)))
        return is_source(params_of(op)) ? source_scratch(op, in, out) : grid_scratch(op, out);
    const convolve_cut c = cut_of(op);
    return room_of(c, is_deep(params_of(op)), pairs_of(c, out[0]), in, out, tiles_of(c, 1, out[1]), nullptr).bytes;
}

void demand(const vp_op *op, int64_t step[3], int64_t halo[3])
{
    const vp_convolve_params *const p = params_of(op);
    if (is_grid(p)) {
        is_source(p) ? source_demand(op, step, halo) : grid_demand(op, step, halo);
        return;
    }
    const convolve_cut c = cut_of(op);
    const bool seen_again = p->edge == VP_EDGE_NEAREST || p->edge == VP_EDGE_MIRROR;
    if (!c.fits)
        return;
    for (int a = 0; a < 3; a++) {
        step[a] = !c.length[a] ? 1 : a == 0 ? 2 * c.valid[a] : c.valid[a];
        halo[a] = std::max(p->centre[a], p->n[a] - 1 - p->centre[a]);
        if (seen_again)
            halo[a] += 2 * std::max(op->before[a], op->behind[a]);
    }
}

struct launching {
    const vp_op *op;
    const vp_convolve_params *p;
    const vp_work *work;
    vp_err *err;
    convolve_cut cut;
    convolve_table table;
    convolve_axis axis[3];
    room r;
    int in_lo[3], in_n[3]; /* samples that exist in the input */
    int out_lo[3], out_n[3];
    cudaStream_t stream;
};

rows_args rows_of(const launching &l)
{
    rows_args a = {};
    a.in = l.work->in[0];
    a.type = l.op->in;
    a.x = l.axis[0];
    a.y0 = l.in_lo[1];
    a.rows = l.in_n[1];
    a.out = l.r.lines;
    a.mean = l.r.mean;
    a.mean_pair = l.in_n[1];
    a.out_pair = a.mean_pair * l.cut.length[0]->T;
    a.bad = l.r.bad;
    a.twiddle = l.table.twiddle[0];
    return a;
}

back_args back_of(const launching &l)
{
    back_args a = {};
    a.in = l.r.back;
    a.mean = l.r.means;
    a.mean_pair = l.out_n[1];
    a.in_pair = a.mean_pair * l.cut.length[0]->T;
    a.out = *l.work->out;
    a.type = l.op->out;
    for (int i = 0; i < 3; i++)
        a.axis[i] = l.axis[i];
    a.y0 = l.out_lo[1];
    a.rows = l.out_n[1];
    a.sums = l.p->sums ? l.table.sums : nullptr;
    a.twiddle = l.table.twiddle[0];
    return a;
}

columns_args columns_of_axis(const launching &l, int axis)
{
    columns_args a = {};
    a.axis = l.axis[axis];
    a.twiddle = l.table.twiddle[axis];
    a.in_first = l.in_lo[axis];
    a.out_first = l.out_lo[axis];
    a.tile0 = l.out_lo[axis] / a.axis.valid;
    a.tiles = (int)vp_groups(l.out_lo[axis] + l.out_n[axis], a.axis.valid) - a.tile0;
    a.lanes = l.cut.length[0]->T;
    a.repeats = a.outers = 1;
    return a;
}

int launch_means(const launching &l, int pairs, int z_out, int z_in, int planes)
{
    means_args m = {};
    m.mean = (const cx *)l.r.mean;
    m.out = (cx *)l.r.means;
    m.mean_pair = l.in_n[1];
    m.mean_plane = m.mean_pair * pairs;
    m.out_pair = l.out_n[1];
    m.out_plane = m.out_pair * pairs;
    m.in_y0 = l.in_lo[1];
    m.in_z0 = z_in;
    m.y0 = l.out_lo[1];
    m.z0 = z_out;
    m.rows = l.out_n[1];
    m.y = l.axis[1];
    m.z = l.axis[2];
    m.sums = l.table.rows;
    m.planes = planes;
    const size_t seen = (size_t)(MEANS_ROWS + m.y.taps) / 2 * 2 * sizeof(cx), taps = (size_t)m.y.taps * sizeof(float);
    const dim3 grid((unsigned)vp_groups(m.rows, MEANS_ROWS), (unsigned)pairs, (unsigned)planes);
    if (m.z.taps == 1)
        return vp_start(l.err, l.stream, means_kernel<1>, grid, dim3(MEANS_ROWS), seen + taps, m);
    const dim3 fours(grid.x, grid.y, (grid.z + 3) / 4);
    return vp_start(l.err, l.stream, means_kernel<4>, fours, dim3(MEANS_ROWS), seen + 4 * taps, m);
}

/* Planes by themselves. */
int launch_images(const launching &l, int pair0, int pairs)
{
    const int T = l.cut.length[0]->T;
    for (int p = 0; p < pairs; p += l.r.pairs)
        for (int z = 0; z < l.out_n[2]; z += l.r.planes) {
            const int n = std::min(l.r.pairs, pairs - p), planes = std::min(l.r.planes, l.out_n[2] - z);
            rows_args rows = rows_of(l);
            rows.pair0 = pair0 + p;
            rows.z0 = l.out_lo[2] + z;
            rows.mean_plane = rows.mean_pair * n;
            rows.out_plane = rows.out_pair * n;
            columns_args columns = columns_of_axis(l, 1);
            columns.in = l.r.lines;
            columns.out = l.r.back;
            columns.in_pitch = columns.out_pitch = T;
            columns.in_outer = rows.out_pair;
            columns.out_outer = (int64_t)l.out_n[1] * T;
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

int launch_volume(const launching &l, int pair0, int pairs)
{
    const int x = l.cut.length[0]->T, y = l.cut.length[1]->T;
    for (int p = 0; p < pairs; p++) {
        rows_args rows = rows_of(l);
        rows.pair0 = pair0 + p;
        rows.z0 = l.in_lo[2];
        rows.mean_plane = rows.mean_pair;
        rows.out_plane = rows.out_pair;
        columns_args to = columns_of_axis(l, 1), across = columns_of_axis(l, 2);
        const int64_t lanes = (int64_t)to.tiles * x * y;
        to.in = l.r.lines;
        to.out = l.r.tiles;
        to.in_pitch = to.out_pitch = x;
        to.in_outer = rows.out_pair;
        to.out_outer = lanes;
        to.outers = l.in_n[2];
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
        from.out_outer = (int64_t)l.out_n[1] * x;
        from.in_first = from.tile0;
        from.outers = l.out_n[2];
        back_args back = back_of(l);
        back.pair0 = rows.pair0;
        back.z0 = l.out_lo[2];
        back.mean_plane = back.mean_pair;
        back.in_plane = back.in_pair;
        if (l.cut.length[0]->rows(l.err, l.stream, rows, 1, l.in_n[2])
            || launch_means(l, 1, l.out_lo[2], l.in_lo[2], l.out_n[2])
            || l.cut.length[1]->columns(l.err, l.stream, to, COLUMNS_FORWARD)
            || l.cut.length[2]->columns(l.err, l.stream, across, COLUMNS_CONVOLVE)
            || l.cut.length[1]->columns(l.err, l.stream, from, COLUMNS_BACK)
            || l.cut.length[0]->back(l.err, l.stream, back, 1, l.out_n[2]))
            return -1;
    }
    return 0;
}

int launch_bad(const vp_op *op, const vp_work *work, const int *bad, vp_err *err)
{
    bad_args b = {};
    if (op->in != VP_F32 || op->out != VP_F32)
        return 0;
    b.in = work->in[0];
    b.out = *work->out;
    for (int a = 0; a < 3; a++)
        b.axis[a] = axis_of(op, a, 0);
    b.bad = bad;
    return vp_start(err, work->queue->stream, bad_kernel, dim3((unsigned)work->queue->sms * 4), dim3(256), 0, b);
}

int launch_one(const vp_op *op, const vp_work *work, int **bad, vp_err *err)
{
    launching l = {};
    l.op = op;
    l.p = params_of(op);
    l.work = work;
    l.err = err;
    l.cut = cut_of(op);
    l.table = table_of(op, (void *)work->table);
    l.stream = work->queue->stream;
    const vp_box &in = work->in[0].box, &out = work->out->box;
    int64_t in_size[3], out_size[3];
    for (int a = 0; a < 3; a++) {
        l.axis[a] = axis_of(op, a, l.cut.length[a] ? l.cut.valid[a] : 1);
        in_size[a] = vp_box_size(&in, a);
        out_size[a] = vp_box_size(&out, a);
        l.in_lo[a] = (int)std::max<int64_t>(in.lo[a], l.axis[a].first);
        l.in_n[a] = (int)std::min<int64_t>(in.hi[a], l.axis[a].first + l.axis[a].count) - l.in_lo[a];
        l.out_lo[a] = (int)out.lo[a];
        l.out_n[a] = (int)out_size[a];
    }
    const int pair0 = l.out_lo[0] / (2 * l.cut.valid[0]);
    const int pairs = (int)vp_groups(out.hi[0], 2 * (int64_t)l.cut.valid[0]) - pair0;
    l.r = room_of(l.cut, is_deep(l.p), pairs, in_size, out_size, tiles_of(l.cut, 1, out_size[1]), work->scratch);
    if (vp_gpu_check(err, cudaMemsetAsync(l.r.bad, 0, sizeof *l.r.bad, l.stream), "cannot clear CUDA memory"))
        return -1;
    *bad = l.r.bad;
    return is_deep(l.p) ? launch_volume(l, pair0, pairs) : launch_images(l, pair0, pairs);
}

int launch(const vp_op *op, const vp_work *work, vp_err *err)
{
    const vp_convolve_params *const p = params_of(op);
    int *bad;
    const int rc = is_source(p) ? source_launch(op, work, &bad, err)
                   : is_grid(p) ? grid_launch(op, work, &bad, err)
                                : launch_one(op, work, &bad, err);
    return rc || launch_bad(op, work, bad, err) ? -1 : 0;
}

}

}

extern "C" const vp_kernel vp_gpu_convolve = {"convolve", vp::has, vp::scratch, vp::table, vp::fill, vp::launch,
                                                nullptr, vp::demand, vp::made, vp::make};
