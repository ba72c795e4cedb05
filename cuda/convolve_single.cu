/* SPDX-License-Identifier: BSD-3-Clause */
/* Convolution with a single kernel by overlap-save; convolve_pass.cuh has the kernels.
 *
 * Images: rows forward (two tiles as one complex line); columns forward, product with the spectrum, columns back in one
 *   kernel; rows back. Three passes over memory.
 * Volumes: rows forward, y forward, z (forward, product, back), y back, rows back, for one pair of tiles along x after
 *   another.
 * Length: T is chosen along each axis to minimise the samples that all tiles together transform, times a measured cost
 *   of a sample.
 * Offsets: one for each plane of a pair of tiles within a group of rows (group_rows). */
#include "convolve.h"
#include "convolve_edge.cuh"

namespace vp
{
namespace
{

/* ---- lengths ---- */

/* All lengths, ascending, and the cost of a value in rows and in columns, relative to the second length. */
const struct {
    const convolve_length *length;
    double row, column;
} lengths[] = {{&convolve_128, 1.1, 1.1},   {&convolve_256, 1, 1},       {&convolve_288, 1.03, 1.03},
               {&convolve_320, 1.04, 1.04}, {&convolve_384, 1.05, 1.05}, {&convolve_512, 1.02, 1.02},
               {&convolve_640, 1.08, 1.12}, {&convolve_1024, 1.05, 1.28}};

enum {
    Z_LONGEST = 320,
    LEAST_VALID = 4, /* outputs of a tile along x are a multiple of it */
};

/* Returns the cheapest length for `size` outputs, NULL if the kernel is too long. Rows transform two tiles at once. */
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

/* Returns the length along z if the number of planes is unknown: that of y, but bounded, as the stack may turn out to
 * have few planes. */
const convolve_length *choose_z(const convolve_length *y, int taps)
{
    if (y->T <= Z_LONGEST && y->T >= 2 * taps)
        return y;
    for (const auto &l : lengths)
        if (l.length->T >= 4 * taps || l.length->T == Z_LONGEST)
            if (l.length->T >= taps + LEAST_VALID)
                return l.length;
    return choose(1 << 20, taps, false);
}

/* ---- spikes ---- */

/* Tiles for direct_kernel: both tiles of a pair together, since they share their lines. */
struct direct_single {
    vp_area in, out;
    int type_in, type_out;
    convolve_axis axis[3];
    int pair0, tile0;         /* first pair along x, first tile along y */
    int y0, rows, z0;         /* first row, rows, first plane of the lines */
    int out_lo[2], out_hi[2]; /* results of this launch along y and z */
    int planes;               /* results of a tile along z */
    const float *peaks;       /* peaks of lines */
    const float *kernel;
    convolve_offset offset;

    struct box {
        int lo[3], hi[3], strip, y, z; /* y, z: first row and plane of its lines */
    };

    __device__ box tile(int i, int strip) const
    {
        const convolve_axis x = axis[0], y = axis[1];
        const int from_z = (out_lo[1] / planes + strip / offset.pairs) * planes;
        box b;
        b.strip = strip % offset.pairs;
        b.lo[0] = 2 * (pair0 + b.strip) * x.valid;
        b.lo[1] = (tile0 + i) * y.valid;
        b.lo[2] = max(from_z, out_lo[1]);
        b.hi[0] = min(b.lo[0] + 2 * x.valid, (int)out.box.hi[0]);
        b.hi[1] = min(b.lo[1] + y.valid, out_hi[0]);
        b.hi[2] = min(from_z + planes, out_hi[1]);
        b.y = b.lo[1] - y.pad_before();
        b.z = from_z - axis[2].pad_before();
        return b;
    }
    __device__ int lines(const box &) const { return samples_of(axis[1]) * (planes + axis[2].taps - 1); }
    __device__ float peak_of(const box &b, int i) const
    {
        const int n = samples_of(axis[1]), y = sample_from(axis[1], b.y + i % n), z = sample_from(axis[2], b.z + i / n);
        return y < 0 || z < 0 ? 0 : peaks[((int64_t)(z - z0) * offset.pairs + b.strip) * rows + y - y0];
    }
    __device__ float base(const box &b, int z) const
    {
        const int q = min(max(z, axis[2].first), axis[2].first + axis[2].count - 1);
        return offset.base[(int64_t)(q - offset.base_z0) * offset.pairs + b.strip];
    }
    __device__ float weight(const box &, int kx, int ky, int kz, const int *, int, int) const
    {
        return __ldg(kernel + ((int64_t)kz * axis[1].taps + ky) * axis[0].taps + kx);
    }
    __device__ float restored(const box &b, float v, const int p[3]) const
    {
        return vp::restored(offset, axis, v, b.strip, p[0], p[1], p[2]);
    }
};

/* ---- tiling and memory ---- */

/* Returns the tiling; length[0] is NULL if the kernel is too long. */
convolve_tiling tiling_of(const vp_op *op)
{
    const vp_convolve_params *const p = params_of(op);
    convolve_tiling c = {};
    for (int a = 0; a < (is_volume(op) ? 3 : 2); a++) {
        const int taps = (int)std::min<int64_t>(p->n[a], 1 << 20);
        c.length[a] = a == 2 && !op->whole[2] ? choose_z(c.length[1], taps) : choose(op->image[a], taps, a == 0);
        if (!c.length[a])
            return {};
        c.valid[a] = c.length[a]->T - taps + 1;
        if (a == 0)
            c.valid[a] = c.valid[a] / LEAST_VALID * LEAST_VALID;
    }
    return c;
}

bool fits_single(const vp_op *op)
{
    return tiling_of(op).length[0];
}

/* The table: `bytes` filled by the host, followed by `made` bytes computed on the device. */
struct single_table {
    kernel_table kernel;
    cx *twiddle[3];
    cx *spectrum, *work; /* made on the device: the spectrum, and its workspace */
    uint64_t bytes, made;
};

single_table table_of(const vp_op *op, const convolve_tiling &c, void *base)
{
    const vp_convolve_params *const p = params_of(op);
    vp_arena all = {(char *)base, 0};
    single_table t = {};
    t.kernel.take(all, p, true);
    for (int a = 0; a < 3 && c.length[a]; a++)
        all.take(t.twiddle[a], (uint64_t)c.length[a]->T);
    t.bytes = all.used;
    const convolve_length *const last = c.length[is_volume(op) ? 2 : 1];
    const uint64_t x = (uint64_t)c.length[0]->T, y = (uint64_t)c.length[1]->T, lanes = is_volume(op) ? x * y : x;
    all.take(t.spectrum, lanes / (uint64_t)last->group * (uint64_t)last->spectrum);
    all.take(t.work, (uint64_t)(p->n[1] * p->n[2]) * x + (is_volume(op) ? (uint64_t)p->n[2] * lanes : 0));
    t.made = all.used - t.bytes;
    return t;
}

uint64_t table_single(const vp_op *op, bool made)
{
    const single_table t = table_of(op, tiling_of(op), nullptr);
    return made ? t.made : t.bytes;
}

void fill_single(const vp_op *op, void *to)
{
    const convolve_tiling c = tiling_of(op);
    const single_table t = table_of(op, c, to);
    t.kernel.fill(params_of(op));
    for (int a = 0; a < 3 && c.length[a]; a++)
        fill_twiddle(c.length[a]->T, c.length[a]->R1, c.length[a]->R2, t.twiddle[a]);
}

int make_single(const vp_op *op, void *base, vp_queue *queue, vp_err *err)
{
    const convolve_tiling c = tiling_of(op);
    const single_table t = table_of(op, c, base);
    return make_spectrum(op, c, t.kernel.kernels, t.twiddle, t.work, t.spectrum, queue, err);
}

/* Workspace of a launch. Volumes take one pair of tiles at a time. */
struct single_workspace : convolve_workspace {
    cx *tiles, *product; /* volumes: transforms along x and y of samples, and of results */
    uint64_t bytes;
};

single_workspace workspace_of(const vp_op *op, const convolve_tiling &c, int64_t pairs, const int64_t in[3],
                              const int64_t out[3], int64_t tiles, void *base)
{
    vp_arena all = {(char *)base, 0};
    single_workspace r = {};
    const uint64_t x = (uint64_t)c.length[0]->T, rows_in = (uint64_t)(in[1] * in[2]),
                   rows_out = (uint64_t)(out[1] * out[2]);
    all.take<int>(1);
    if (is_volume(op)) {
        const uint64_t lanes = (uint64_t)(tiles * c.length[1]->T) * x;
        r.pairs = r.planes = 1;
        all.take(r.lines, std::max(rows_in, rows_out) * x);
        r.results = r.lines;
        all.take(r.tiles, lanes * (uint64_t)in[2]);
        all.take(r.product, lanes * (uint64_t)out[2]);
        all.take(r.base, (uint64_t)in[2]);
        all.take(r.restore, (uint64_t)out[2]);
        all.take(r.peaks, rows_in);
    } else {
        (convolve_workspace &)r = workspace_of_images(all, (int)x, 1, pairs, in, out);
    }
    r.bytes = all.used;
    return r;
}

uint64_t scratch_single(const vp_op *op, const int64_t in[3], const int64_t out[3])
{
    const convolve_tiling c = tiling_of(op);
    return workspace_of(op, c, vp_div_up(out[0], 2 * (int64_t)c.valid[0]), in, out, vp_div_up(out[1], c.valid[1]),
                   nullptr).bytes;
}

void demand_single(const vp_op *op, int64_t step[3], int64_t[3])
{
    steps_of(op, tiling_of(op), step);
}

/* ---- launches ---- */

struct launch_state {
    const vp_op *op;
    const vp_work *work;
    vp_err *err;
    convolve_tiling tiling;
    single_table table;
    convolve_part part;
    single_workspace r;
    cudaStream_t stream;
};

rows_args rows_of(const launch_state &l)
{
    rows_args a = {};
    a.in = l.work->in[0];
    a.type = l.op->in;
    a.x = l.part.axis[0];
    a.y0 = l.part.in_lo[1];
    a.rows = l.part.in_n[1];
    a.out = l.r.lines;
    a.base = l.r.base;
    a.peaks = l.op->in == VP_F32 ? l.r.peaks : nullptr;
    a.out_pair = (int64_t)a.rows * l.tiling.length[0]->T;
    a.nonfinite = (int *)l.work->scratch;
    a.twiddle = l.table.twiddle[0];
    return a;
}

/* Fills the arguments for planes of samples from in_z on and results from out_z on. */
inverse_args inverse_args_of(const launch_state &l, int pairs, int in_z, int out_z)
{
    inverse_args a = inverse_args_of(l.op, l.work, l.part, l.tiling.length[0]->T, l.r);
    a.z0 = out_z;
    a.twiddle = l.table.twiddle[0];
    convolve_offset &e = a.offset;
    e.base = l.r.base;
    e.base_z0 = in_z;
    e.restore = l.r.restore;
    e.restore_z0 = out_z;
    e.pairs = pairs;
    e.sums = l.table.kernel.sums;
    e.planes = l.table.kernel.planes;
    e.total = params_of(l.op)->total[0];
    e.renormalize = params_of(l.op)->edge == VP_EDGE_RENORMALIZE;
    return a;
}

/* Launches the offsets and the forward rows of planes[0] planes of samples. */
int launch_rows(const launch_state &l, const rows_args &rows, const inverse_args &inverse, const int planes[2])
{
    const int pairs = inverse.offset.pairs;
    const size_t bytes = (size_t)planes[0] * (size_t)pairs * (size_t)rows.rows * sizeof *rows.peaks;
    if (launch_base(l.op, l.work, l.part, inverse.pair0, inverse.offset, planes, l.err)
        || (rows.peaks && !l.tiling.length[0]->in_warp
            && vp_gpu_check(l.err, cudaMemsetAsync(rows.peaks, 0, bytes, l.stream), "cannot clear CUDA memory")))
        return -1;
    return l.tiling.length[0]->rows(l.err, l.stream, rows, pairs, planes[0]);
}

int launch_direct(const launch_state &l, const rows_args &rows, const inverse_args &inverse, const int planes[2])
{
    direct_single d = {};
    const convolve_part &p = l.part;
    if (!rows.peaks)
        return 0;
    d.in = rows.in;
    d.out = inverse.out;
    d.type_in = rows.type;
    d.type_out = inverse.type;
    std::copy(inverse.axis, inverse.axis + 3, d.axis);
    d.pair0 = inverse.pair0;
    d.tile0 = p.tile0;
    d.y0 = rows.y0;
    d.rows = rows.rows;
    d.z0 = rows.z0;
    d.out_lo[0] = p.out_lo[1];
    d.out_hi[0] = p.out_lo[1] + p.out_n[1];
    d.out_lo[1] = inverse.z0;
    d.out_hi[1] = inverse.z0 + planes[1];
    d.planes = is_volume(l.op) ? l.tiling.valid[2] : 1;
    d.peaks = rows.peaks;
    d.kernel = l.table.kernel.kernels;
    d.offset = inverse.offset;
    const int tiles_z = (int)vp_div_up(d.out_hi[1], d.planes) - d.out_lo[1] / d.planes;
    const dim3 grid(DIRECT_BLOCKS, (unsigned)p.tiles, (unsigned)(tiles_z * inverse.offset.pairs));
    return vp_start(l.err, l.stream, direct_kernel<direct_single>, grid, dim3(256), 0, d);
}

columns_args columns_of_axis(const launch_state &l, int axis)
{
    columns_args a = {};
    a.axis = l.part.axis[axis];
    a.twiddle = l.table.twiddle[axis];
    a.in_first = l.part.in_lo[axis];
    a.out_first = l.part.out_lo[axis];
    a.tile0 = l.part.out_lo[axis] / a.axis.valid;
    a.tiles = (int)vp_div_up(l.part.out_lo[axis] + l.part.out_n[axis], a.axis.valid) - a.tile0;
    a.lanes = l.tiling.length[0]->T;
    a.repeats = a.outers = 1;
    return a;
}

/* Convolves planes independently. */
int launch_images(const launch_state &l)
{
    const int T = l.tiling.length[0]->T, pairs = l.part.pairs;
    for (int p = 0; p < pairs; p += l.r.pairs)
        for (int z = 0; z < l.part.out_n[2]; z += l.r.planes) {
            const int n = std::min(l.r.pairs, pairs - p), z0 = l.part.out_lo[2] + z;
            const int nz = std::min(l.r.planes, l.part.out_n[2] - z), planes[2] = {nz, nz};
            rows_args rows = rows_of(l);
            rows.pair0 = l.part.pair0 + p;
            rows.z0 = z0;
            rows.out_plane = rows.out_pair * n;
            columns_args columns = columns_of_axis(l, 1);
            columns.in = l.r.lines;
            columns.out = l.r.results;
            columns.in_pitch = columns.out_pitch = T;
            columns.in_outer = rows.out_pair;
            columns.out_outer = (int64_t)l.part.out_n[1] * T;
            columns.spectrum = l.table.spectrum;
            columns.outers = n * planes[0];
            columns.reversed = true;
            inverse_args inverse = inverse_args_of(l, n, z0, z0);
            inverse.pair0 = rows.pair0;
            inverse.in_plane = inverse.in_pair * n;
            if (launch_rows(l, rows, inverse, planes)
                || l.tiling.length[1]->columns(l.err, l.stream, columns, COLUMNS_CONVOLVE)
                || l.tiling.length[0]->inverse(l.err, l.stream, inverse, n, planes[1])
                || launch_direct(l, rows, inverse, planes))
                return -1;
        }
    return 0;
}

/* Convolves a volume, pair by pair of tiles along x. */
int launch_volume(const launch_state &l)
{
    const int x = l.tiling.length[0]->T, y = l.tiling.length[1]->T, planes[2] = {l.part.in_n[2], l.part.out_n[2]};
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
        from.out = l.r.results;
        from.in_outer = lanes;
        from.out_outer = (int64_t)l.part.out_n[1] * x;
        from.in_first = from.tile0;
        from.outers = planes[1];
        inverse_args inverse = inverse_args_of(l, 1, rows.z0, l.part.out_lo[2]);
        inverse.pair0 = rows.pair0;
        inverse.in_plane = inverse.in_pair;
        if (launch_rows(l, rows, inverse, planes) || l.tiling.length[1]->columns(l.err, l.stream, to, COLUMNS_FORWARD)
            || l.tiling.length[2]->columns(l.err, l.stream, across, COLUMNS_CONVOLVE)
            || l.tiling.length[1]->columns(l.err, l.stream, from, COLUMNS_INVERSE)
            || l.tiling.length[0]->inverse(l.err, l.stream, inverse, 1, planes[1])
            || launch_direct(l, rows, inverse, planes))
            return -1;
    }
    return 0;
}

int launch_single(const vp_op *op, const vp_work *work, vp_err *err)
{
    const vp_box &in = work->in[0].box, &out = work->out->box;
    const int64_t in_size[3] = {vp_box_size(&in, 0), vp_box_size(&in, 1), vp_box_size(&in, 2)};
    const int64_t out_size[3] = {vp_box_size(&out, 0), vp_box_size(&out, 1), vp_box_size(&out, 2)};
    launch_state l = {op, work, err, tiling_of(op)};
    l.table = table_of(op, l.tiling, (void *)work->table);
    const convolve_part all = part_of(op, work, l.tiling);
    l.r = workspace_of(op, l.tiling, all.pairs, in_size, out_size, vp_div_up(out_size[1], l.tiling.valid[1]),
                       work->scratch);
    l.stream = work->queue->stream;
    l.part = first_group(op, l.tiling, all);
    do {
        if (is_volume(op) ? launch_volume(l) : launch_images(l))
            return -1;
    } while (next_group(op, l.tiling, all, l.part));
    return 0;
}

}

const convolve_method convolve_single = {fits_single,   table_single,   fill_single,  make_single,
                                       demand_single, scratch_single, launch_single};

}
