/* SPDX-License-Identifier: BSD-3-Clause */
/* Convolution with a grid of kernels whose weights belong to the output: tiles, memory and launches. The algorithm is
 * described in convolve_grid.cuh. */
#include "convolve.h"
#include "convolve_grid.cuh"

namespace vp
{
namespace
{

enum { WALK = 17 };                             /* strips of a block of grid_columns, at most */
constexpr uint64_t SPECTRA = (uint64_t)1 << 30; /* bytes of spectra that the table holds at most; else */
constexpr uint64_t BAND = (uint64_t)256 << 20;  /* bytes of spectra in the scratch, for a band of rows of tiles */

const grid_length lengths[] = {grid_length_of<fft_shape<16, 8>, 6>::table, grid_length_of<fft_shape<16, 16>, 3>::table};

/* ---- tiles ---- */

/* Returns all tiles along an axis; none if a tile of T samples has no output. */
std::vector<grid_tile> tiles_along(const vp_op *op, int axis, int T)
{
    const vp_convolve_params *const p = params_of(op);
    const int64_t n = p->n[axis], pad_before = n - 1 - p->centre[axis];
    std::vector<grid_tile> all;
    for (int64_t c = 0; c <= p->nodes[axis]; c++)
        for (int64_t lo = p->start[axis][c], end = p->start[axis][c + 1]; lo < end;) {
            const int64_t origin = lo - pad_before, most = T - (n - 1);
            if (most < 1)
                return {};
            grid_tile t = {};
            t.lo = (int)lo;
            t.n = (int)std::min(most, end - lo);
            t.origin = (int)origin;
            t.left = (int)std::max<int64_t>(c - 1, 0);
            t.right = (int)std::min(c, p->nodes[axis] - 1);
            if (c > 0 && c < p->nodes[axis]) {
                const double from = p->node[axis][c - 1], far = p->node[axis][c] - from;
                t.slope = (float)(1 / far);
                t.middle = (float)(((double)(origin + T / 2) - from) / far);
            }
            all.push_back(t);
            lo += t.n;
        }
    return all;
}

/* The tiles of an image. */
struct grid_tiling {
    const grid_length *length; /* NULL: the kernels are too large */
    std::vector<grid_tile> tile[2];
    int largest[2];            /* outputs of the largest tile */
};

grid_tiling make_tiling(const vp_op *op)
{
    grid_tiling best = {};
    double least = 0;
    for (const grid_length &l : lengths) {
        grid_tiling c = {};
        c.length = &l;
        for (int a = 0; a < 2; a++)
            c.tile[a] = tiles_along(op, a, l.T);
        const double cost = (double)(c.tile[0].size() * c.tile[1].size()) * l.T * l.T;
        if (c.tile[0].empty() || c.tile[1].empty() || (best.length && cost >= least))
            continue;
        least = cost;
        best = c;
    }
    for (int a = 0; a < 2; a++)
        for (const grid_tile &t : best.tile[a])
            best.largest[a] = std::max(best.largest[a], t.n);
    return best;
}

const grid_tiling &grid_tiling_of(const vp_op *op)
{
    return cached_tiling(op, make_tiling);
}

/* Counts the blocks of kernel rows that are not 0, of R1 / 2 (grid_args). */
void blocks_of(const grid_length &l, const vp_convolve_params *p, int &before, int &after)
{
    const int64_t unit = 2 * l.R2;
    before = (int)vp_div_up(p->n[1] - p->centre[1], unit);
    after = (int)vp_div_up(p->centre[1], unit);
    before = std::min(before, l.R1 / 2 - after); /* one block may belong to both */
}

/* Returns the bytes of the spectra of a row of tiles. */
uint64_t row_bytes(const vp_op *op, const grid_tiling &c)
{
    return (uint64_t)params_of(op)->nodes[0] * (uint64_t)c.length->spectrum * sizeof(float4);
}

bool keeps_spectra(const vp_op *op, const grid_tiling &c)
{
    return c.tile[1].size() * row_bytes(op, c) <= SPECTRA;
}

struct grid_table {
    kernel_table kernel;
    float *right_weight[2];
    grid_tile *tile[2];
    cx *twiddle, *kernel_lines;
    float4 *spectra; /* NULL: computed in the scratch */
    uint64_t bytes, made;
};

grid_table table_of(const vp_op *op, const grid_tiling &c, void *base)
{
    const vp_convolve_params *const p = params_of(op);
    vp_arena all = {(char *)base, 0};
    grid_table t = {};
    int before, after;
    blocks_of(*c.length, p, before, after);
    t.kernel.take(all, p, true);
    for (int a = 0; a < 2; a++) {
        all.take(t.right_weight[a], (uint64_t)op->image[a]);
        all.take(t.tile[a], c.tile[a].size());
    }
    all.take(t.twiddle, (uint64_t)c.length->T);
    t.bytes = all.used;
    all.take(t.kernel_lines, (uint64_t)(p->nodes[0] * p->nodes[1] * (before + after) * c.length->R2 * c.length->row));
    if (keeps_spectra(op, c))
        all.take(t.spectra, c.tile[1].size() * row_bytes(op, c) / sizeof(float4));
    t.made = all.used - t.bytes;
    return t;
}

/* Returns the rows of tiles of one launch: all, or a band whose spectra fit in the scratch. */
int band_of(const vp_op *op, const grid_tiling &c)
{
    return keeps_spectra(op, c) ? 65535 : (int)std::max<uint64_t>(1, BAND / row_bytes(op, c));
}

struct grid_workspace {
    cx *lines, *results;
    float *base, *peaks;
    float4 *spectra;
    int planes;
    uint64_t bytes;
};

/* Lays out the workspace for `strips` x `rows` tiles with `outputs` rows of outputs. */
grid_workspace workspace_of(const vp_op *op, const grid_tiling &c, int64_t strips, int64_t rows, int64_t outputs,
                            int64_t planes, void *base)
{
    vp_arena all = {(char *)base, 0};
    grid_workspace r = {};
    const int64_t band = std::min<int64_t>(rows, band_of(op, c)), lines = band * c.length->T;
    const uint64_t one = (uint64_t)(strips * ((lines / 2 + outputs) * (c.length->row + 1))) * sizeof(cx);
    r.planes =
        (int)std::max<uint64_t>(1, std::min<uint64_t>({(uint64_t)planes, BAND / one, (uint64_t)(65535 / strips)}));
    all.take<int>(1);
    all.take(r.lines, (uint64_t)(r.planes * strips * lines / 2 * c.length->row));
    all.take(r.results, (uint64_t)(r.planes * strips * outputs * c.length->row));
    all.take(r.base, (uint64_t)(r.planes * strips * band));
    all.take(r.peaks, (uint64_t)(r.planes * strips * lines / 2));
    all.used = std::max(all.used, workspace_bytes(one, (uint64_t)planes, BAND));
    if (!keeps_spectra(op, c))
        all.take(r.spectra, (uint64_t)band * row_bytes(op, c) / sizeof(float4));
    r.bytes = all.used;
    return r;
}

grid_args args_of(const vp_op *op, const grid_tiling &c, const grid_table &t)
{
    const vp_convolve_params *const p = params_of(op);
    grid_args a = {};
    for (int i = 0; i < 2; i++) {
        a.axis[i] = axis_of(op, i, 0);
        a.tile[i] = t.tile[i];
        a.right_weight[i] = t.right_weight[i];
        a.nodes[i] = (int)p->nodes[i];
    }
    a.kernels = t.kernel.kernels;
    a.total = t.kernel.total;
    a.inside = t.kernel.sums;
    a.renormalize = p->edge == VP_EDGE_RENORMALIZE;
    a.kernel_lines = t.kernel_lines;
    a.spectra = t.spectra;
    a.spectra_rows = (int)c.tile[1].size();
    blocks_of(*c.length, p, a.before_blocks, a.after_blocks);
    a.scale = (float)(0.25 / ((double)c.length->T * c.length->T));
    a.twiddle = t.twiddle;
    return a;
}

/* Finds the tiles of outputs [lo, hi). */
void tiles_of(const std::vector<grid_tile> &tile, int64_t lo, int64_t hi, int &first, int &n)
{
    first = 0;
    while (tile[(size_t)first].lo + tile[(size_t)first].n <= lo)
        first++;
    n = 0;
    while ((size_t)(first + n) < tile.size() && tile[(size_t)(first + n)].lo < hi)
        n++;
}

/* Returns the largest number of tiles that `outputs` consecutive outputs may meet; `longest`: outputs of such tiles. */
int64_t most_tiles(const std::vector<grid_tile> &tile, int64_t outputs, int64_t &longest)
{
    int64_t most = 0;
    longest = 0;
    size_t end = 0;
    for (size_t i = 0; i < tile.size(); i++) { /* worst case: a part begins with the last output of tile i */
        const int64_t last = tile[i].lo + tile[i].n - 1;
        while (end < tile.size() && tile[end].lo < last + outputs)
            end++;
        most = std::max<int64_t>(most, (int64_t)(end - i));
        longest = std::max<int64_t>(longest, tile[end - 1].lo + tile[end - 1].n - tile[i].lo);
    }
    return most;
}

/* ---- the method ---- */

bool fits(const vp_op *op)
{
    return grid_tiling_of(op).length;
}

uint64_t table(const vp_op *op, bool made)
{
    const grid_table t = table_of(op, grid_tiling_of(op), nullptr);
    return made ? t.made : t.bytes;
}

void fill(const vp_op *op, void *base)
{
    const vp_convolve_params *const p = params_of(op);
    const grid_tiling &c = grid_tiling_of(op);
    const grid_table t = table_of(op, c, base);
    t.kernel.fill(p);
    for (int a = 0; a < 2; a++) {
        std::copy(p->after[a], p->after[a] + op->image[a], t.right_weight[a]);
        std::copy(c.tile[a].begin(), c.tile[a].end(), t.tile[a]);
    }
    fill_twiddle(c.length->T, c.length->R1, c.length->R2, t.twiddle);
}

int make(const vp_op *op, void *base, vp_queue *queue, vp_err *err)
{
    const grid_tiling &c = grid_tiling_of(op);
    const grid_args a = args_of(op, c, table_of(op, c, base));
    if (c.length->taps(err, queue->stream, a))
        return -1;
    return keeps_spectra(op, c) ? c.length->spectra(err, queue->stream, a) : 0;
}

void demand(const vp_op *op, int64_t step[3], int64_t halo[3])
{
    const grid_tiling &c = grid_tiling_of(op);
    for (int a = 0; a < 3; a++)
        step[a] = 1;
    for (int a = 0; a < 2; a++)
        halo[a] += c.largest[a] - 1;
}

uint64_t scratch(const vp_op *op, const int64_t[3], const int64_t out[3])
{
    const grid_tiling &c = grid_tiling_of(op);
    int64_t wide, high;
    const int64_t strips = most_tiles(c.tile[0], out[0], wide), rows = most_tiles(c.tile[1], out[1], high);
    return workspace_of(op, c, strips, rows, high, out[2], nullptr).bytes;
}

int launch(const vp_op *op, const vp_work *work, vp_err *err)
{
    const grid_tiling &c = grid_tiling_of(op);
    const vp_box &out = work->out->box;
    grid_args a = args_of(op, c, table_of(op, c, (void *)work->table));
    int row0, rows;
    a.in = work->in[0];
    a.out = *work->out;
    a.type_in = op->in;
    a.type_out = op->out;
    tiles_of(c.tile[0], out.lo[0], out.hi[0], a.strip0, a.strips);
    tiles_of(c.tile[1], out.lo[1], out.hi[1], row0, rows);
    const auto ends = [&](int i) { return c.tile[1][(size_t)i].lo + c.tile[1][(size_t)i].n; };
    const int64_t planes = vp_box_size(&out, 2);
    const grid_workspace r =
        workspace_of(op, c, a.strips, rows, ends(row0 + rows - 1) - c.tile[1][(size_t)row0].lo, planes, work->scratch);
    a.nonfinite = (int *)work->scratch;
    a.lines = r.lines;
    a.results = r.results;
    a.base = r.base;
    a.peaks = op->in == VP_F32 ? r.peaks : nullptr;
    if (r.spectra)
        a.spectra = r.spectra;
    const int band = band_of(op, c);
    for (int b = 0; b < rows; b += band) {
        a.row0 = row0 + b;
        a.rows = std::min(band, rows - b);
        a.y0 = c.tile[1][(size_t)a.row0].lo;
        a.outputs = ends(a.row0 + a.rows - 1) - a.y0;
        if (r.spectra) {
            a.spectra_row0 = a.row0;
            a.spectra_rows = a.rows;
            if (c.length->spectra(err, work->queue->stream, a))
                return -1;
        }
        for (int64_t z = 0; z < planes; z += r.planes) {
            const int n = (int)std::min<int64_t>(r.planes, planes - z);
            a.z0 = (int)(out.lo[2] + z);
            /* enough blocks for all multiprocessors */
            const int64_t groups = (int64_t)c.length->row / 2 / GROUP * a.rows * n,
                          want = 6 * (int64_t)work->queue->sms;
            a.walk = (int)std::max<int64_t>(1, std::min<int64_t>(WALK, groups * a.strips / want));
            if (c.length->image(err, work->queue->stream, a, n))
                return -1;
        }
    }
    return 0;
}

}

const convolve_method convolve_grid = {fits, table, fill, make, demand, scratch, launch};

}
