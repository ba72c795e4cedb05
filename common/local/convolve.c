/* SPDX-License-Identifier: BSD-3-Clause */
/* Convolution: kernels, nodes and edges of a request, and the choice of a method. The choice depends on the request
 * alone (not on the number of planes, which a pipe does not have in advance), with costs measured once: another method
 * or another size of tiles has other rounding errors. */
#include "local/convolve_internal.h"

#include "base/err.h"
#include "base/isa.h"
#include "base/size.h"
#include "engine/chain.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Nanoseconds of an AVX-512 core at 4 GHz, for f32 samples and for f64. */
static const struct { double mac, direct, tap, separable; } SUMS[2] = {
    {0.0175, 0.65, 0.05, 0.8}, {0.048, 2.8, 0.13, 1.9},
};
static const double ROW = 5.5;       /* gather and scatter of an element of a row */
static const double LOAD = 0.17, STORE = 0.45; /* conversion of a sample */
/* Tile size that fits the L2 cache; largest tile allowed for volumes. Bytes. */
static const double NEAR = 1 << 20, MOST_BYTES = 11 << 20;
static const double LINE = 40;       /* start of a row of samples or results of a volume */

/* ---- tiles ---- */

enum { QUICK = 4096 };
/* Maximum bytes of a grid's spectra kept from part to part; larger ones are made a few rows of nodes at a time. */
static const uint64_t SPECTRA = 32 << 20;

/* Returns the factor of cost of a tile that does not fit the L2 cache. */
static double far(double bytes)
{
    return 1 + 0.4 * pow(fmin(bytes / NEAR, 4), 0.6);
}

struct trial { int64_t tile[3], piece[3], pieces[3], out[3]; double cost; };

/* Returns the number of tiles of at most `out` rows, over all cells. */
static int64_t tiles_along(const struct vp_convolve_params *p, int axis, int64_t out)
{
    int64_t n = 0;

    for (int64_t c = 0; c <= p->nodes[axis]; c++)
        n += (p->start[axis][c + 1] - p->start[axis][c] + out - 1) / out;
    return n;
}

/* Returns nanoseconds a voxel of output. */
static double price(const struct vp_convolve_params *p, const int64_t image[3], const struct trial *t)
{
    const struct vp_convolve_cpu *c = p->cpu;
    const int first = c->first;
    const double x = (double)t->tile[0], half = (double)t->tile[first] / 2, y = first == 2 ? (double)t->tile[1] : 1;
    const double rows = ceil(half / 16) * 16, blocks = x / 16, pieces = (double)(t->pieces[0] * t->pieces[1] * t->pieces[2]);
    const double column = half * vp_line_cost(t->tile[first] / 2) / 2, row = x * vp_line_cost(t->tile[0]) / 2;
    const double wide = first == 2 ? rows * y * (vp_line_cost(t->tile[1]) / 2 + 2) : 0;
    const double samples = x * y * half * 2, outputs = (double)(t->out[0] * t->out[1] * t->out[2]), move = x * ROW / 2;
    double there, back, tiles = 1, all = outputs, outside = 0;

    if (c->tiles == VP_STRIPS) {
        const double share = (double)t->out[0] / x;
        there = blocks * share * column + rows / 16 * (row + move) + samples * share * LOAD;
        back = rows / 16 * (row + move * share) + blocks * share * column;
    } else if (c->tiles == VP_CELLS) {
        there = blocks * column + rows / 16 * (row + move) + samples * LOAD;
        back = rows / 16 * (4 * row + 2 * move) + blocks * (double)t->out[0] / x * 2 * column;
        tiles = (double)tiles_along(p, 0, t->out[0]) * (double)tiles_along(p, 1, t->out[1]);
        all = (double)image[0] * (double)image[1];
    } else {
        double terms = 1; /* nodes near a tile */
        for (int a = 0; a < 2; a++)
            if (p->nodes[a] > 1)
                terms *= fmin((double)p->nodes[a], 2 + (double)t->tile[a] * (double)p->nodes[a] / (double)image[a]);
        there = pieces * (blocks * (y * column + wide) + samples * (LOAD + LINE / x)) * sqrt(terms)
                + pieces * terms * y * rows / 16 * (row + move * 1.5);
        back = y * rows / 16 * (row + move) + blocks * (y * column + wide) * (double)t->out[0] / x;
        outside = (double)t->out[1] * (double)t->out[2] * LINE;
    }
    for (int a = 0; a < 2 && c->tiles != VP_CELLS; a++) { /* results outside the image are made, too */
        const double tiles_a = ceil((double)image[a] / (double)t->out[a]);
        all *= (double)image[a] / (tiles_a * (double)t->out[a]);
    }
    return ((there + back) * far(samples * 4) * tiles + outputs * tiles * STORE + outside) / all;
}

/* True if such a tile exists; fills in its outputs. */
static bool fill_in(const struct vp_convolve_params *p, struct trial *t)
{
    const int first = p->cpu->first;

    for (int a = 0; a < 3; a++) {
        t->piece[a] = (p->n[a] + t->pieces[a] - 1) / t->pieces[a];
        if ((t->piece[a] * (t->pieces[a] - 1)) >= p->n[a])
            return false;
        t->out[a] = t->tile[a] - t->piece[a] + 1;
        if (a == 0)
            t->out[a] = (t->out[a] - p->cpu->shift) / 16 * 16;
        if (a > first)
            t->out[a] = 1;
        if (t->out[a] < 1)
            return false;
    }
    return (double)(t->tile[0] * t->tile[1] * t->tile[2]) * 4 <= (first == 2 ? MOST_BYTES : 1e9);
}

static int quick_lengths(int64_t *n, int64_t of, int64_t most)
{
    int count = 0;

    for (int64_t i = of; i <= most; i += of)
        if (vp_line_cost(i) > 0)
            n[count++] = i;
    return count;
}

/* Finds the cheapest tiles for these numbers of pieces, of the given lengths if there are any. */
static void search(const struct vp_convolve_params *p, const int64_t image[3], const int64_t given[3],
                   const int64_t pieces[3], struct trial *best)
{
    enum { MOST = 256 };
    const int first = p->cpu->first;
    int64_t wide[MOST], half[MOST], middle[MOST];
    const int n_wide = quick_lengths(wide, 16, QUICK), n_half = quick_lengths(half, 8, QUICK);
    const int n_middle = first == 2 ? quick_lengths(middle, 4, QUICK) : 1;
    struct trial t = {.pieces = {pieces[0], pieces[1], pieces[2]}};

    for (int i = 0; i < n_wide; i++)
        for (int k = 0; k < n_half; k++)
            for (int m = 0; m < n_middle; m++) {
                t.tile[0] = wide[i];
                t.tile[1] = first == 2 ? middle[m] : 2 * half[k];
                t.tile[2] = first == 2 ? 2 * half[k] : 1;
                bool wanted = true;
                for (int a = 0; a <= first; a++)
                    wanted = wanted && (!given[a] || given[a] == t.tile[a]);
                if (!wanted || !fill_in(p, &t))
                    continue;
                t.cost = price(p, image, &t);
                if (t.cost < best->cost)
                    *best = t;
            }
}

/* Returns the cost of the best tiles, INFINITY if there are none. */
static double choose_tiles(const struct vp_convolve_params *p, const int64_t image[3], const int64_t given[3],
                           struct trial *best)
{
    int64_t pieces[3] = {1, 1, 1};

    *best = (struct trial){.cost = INFINITY};
    search(p, image, given, pieces, best);
    if (best->cost < INFINITY || p->cpu->tiles == VP_CELLS)
        return best->cost;
    p->cpu->tiles = VP_GENERAL;
    /* pieces of similar sizes */
    for (int64_t most = p->cpu->first == 2 ? 48 : 512; most >= 16 && best->cost == INFINITY; most /= 2) {
        for (int a = 0; a < 3; a++) {
            pieces[a] = (p->n[a] + most - 1) / most;
            const int64_t piece = (p->n[a] + pieces[a] - 1) / pieces[a];
            pieces[a] = (p->n[a] + piece - 1) / piece;
        }
        search(p, image, given, pieces, best);
    }
    return best->cost;
}

/* ---- cells ---- */

/* Lists the first voxels of tiles along an axis. A single kernel has one cell, the image. */
static int cut_cells(struct vp_convolve_cpu *c, const struct vp_convolve_params *p, int axis, struct vp_err *err)
{
    const bool one = c->tiles == VP_STRIPS;
    const int64_t whole[2] = {0, p->start[axis][p->nodes[axis] + 1]}, *const start = one ? whole : p->start[axis];
    const int64_t cells = one ? 1 : p->nodes[axis] + 1;
    const size_t most = (size_t)(cells + start[cells] / c->out[axis]) + 1;
    int64_t k = 0;

    c->at[axis] = vp_alloc(most, sizeof *c->at[axis], "tiles", err);
    c->cell[axis] = vp_alloc(most, sizeof *c->cell[axis], "tiles", err);
    if (!c->at[axis] || !c->cell[axis])
        return -1;
    for (int64_t i = 0; i < cells; i++)
        for (int64_t x = start[i]; x < start[i + 1]; x += c->out[axis]) {
            c->at[axis][k] = x;
            c->cell[axis][k++] = i;
        }
    c->at[axis][k] = start[cells];
    c->n_at[axis] = k;
    return 0;
}

/* Computes the sums of kernels, and of the planes of a single one; normalised kernels have 1. */
static int add_up(struct vp_convolve_params *p, bool normalized, struct vp_err *err)
{
    const int64_t nodes = p->nodes[0] * p->nodes[1], n = p->n[0] * p->n[1] * p->n[2];
    double *const total = vp_alloc((size_t)nodes, sizeof *total, "sums of kernels", err);

    double *const plane = vp_alloc((size_t)p->n[2], sizeof *plane, "sums of kernels", err);
    p->total = total;
    p->plane = plane;
    if (!total || !plane)
        return -1;
    for (int64_t i = 0; i < nodes; i++) {
        long double sum = 0; /* for f64 samples the difference may matter, too */
        for (int64_t k = 0; k < n; k++) {
            sum += vp_convolve_kernel_at(p, i * n + k);
            plane[k / (p->n[0] * p->n[1])] += vp_convolve_kernel_at(p, i * n + k);
        }
        total[i] = normalized ? 1 : (double)sum;
    }
    return 0;
}

/* ---- the request ---- */

static void release(void *params)
{
    struct vp_convolve_params *p = params;
    struct vp_convolve_cpu *c = p ? p->cpu : NULL;

    if (c) {
        for (int a = 0; a < 3; a++) {
            free(c->taps[a]);
            vp_line_free(&c->along[a]);
        }
        for (int a = 0; a < 2; a++) {
            free(c->at[a]);
            free(c->cell[a]);
        }
        free(c->spectra);
        vp_convolve_f64_free(c->exact);
        pthread_mutex_destroy(&c->lock);
        free(c);
    }
    if (p) {
        for (int a = 0; a < 2; a++) {
            free((void *)(uintptr_t)p->start[a]);
            free((void *)(uintptr_t)p->after[a]);
            free((void *)(uintptr_t)p->node[a]);
        }
        free((void *)(uintptr_t)p->kernels);
        free((void *)(uintptr_t)p->exact);
        free((void *)(uintptr_t)p->sums);
        free((void *)(uintptr_t)p->total);
        free((void *)(uintptr_t)p->plane);
        free(p);
    }
}

static double given_at(const struct vp_convolve_given *g, bool exact, int64_t i)
{
    const double one = exact ? g->exact[i] : g->kernels[i];

    return g->positive && one < 0 ? 0 : one;
}

static int make_kernels(struct vp_convolve_params *p, const struct vp_convolve_given *g, struct vp_err *err)
{
    const int64_t n = p->n[0] * p->n[1] * p->n[2], nodes = p->nodes[0] * p->nodes[1];
    const bool exact = p->in == VP_F64;
    void *const k = vp_alloc_raw((size_t)(n * nodes), exact ? sizeof(double) : sizeof(float), "the kernels", err);

    p->exact = exact ? k : NULL;
    p->kernels = exact ? NULL : k;
    if (!k)
        return -1;
    for (int64_t i = 0; i < nodes; i++) {
        double sum = 0;
        for (int64_t v = i * n; v < (i + 1) * n; v++) {
            const double one = given_at(g, exact, v);
            sum += one;
            if (!isfinite(one))
                return vp_fail(err, VP_ERUN, "kernel %lld: sample %lld is not finite", (long long)i, (long long)(v - i * n));
        }
        if (g->normalize && (sum == 0 || isinf(sum)))
            return vp_fail(err, VP_ERUN, "kernel %lld cannot be normalized: its samples add up to %g", (long long)i,
                           sum);
        for (int64_t v = 0; v < n; v++) {
            const int64_t from = i * n + v, to = i * n + (g->correlate ? n - 1 - v : v);
            const double one = given_at(g, exact, from) / (g->normalize ? sum : 1);
            if (!isfinite(exact ? one : (float)one))
                return vp_fail(err, VP_ERUN, "kernel %lld: sample %lld is %g when the kernel is normalized",
                               (long long)i, (long long)v, one);
            if (exact)
                ((double *)k)[to] = one;
            else
                ((float *)k)[to] = (float)one;
        }
    }
    return 0;
}

static int64_t length(const struct vp_op *op, int axis, int64_t n)
{
    const struct vp_convolve_params *p = op->params;
    return n >= VP_UNKNOWN ? VP_UNKNOWN : n + p->pad_lo[axis] + p->pad_hi[axis];
}

static struct vp_box region(const struct vp_op *op, const struct vp_box *out)
{
    const struct vp_convolve_params *p = op->params;
    struct vp_box in;
    for (int a = 0; a < 3; a++) {
        in.lo[a] = vp_max64(0, out->lo[a] - p->pad_lo[a] - op->halo[a]);
        in.hi[a] = vp_min64(op->input[a], out->hi[a] - p->pad_lo[a] + op->halo[a]);
    }
    return in;
}

static int64_t extent(const struct vp_op *op, int axis, int64_t n)
{
    return vp_min64(op->input[axis], n + 2 * op->halo[axis]);
}

static const struct vp_mapping mapping = {length, region, extent, false};

/* Sets the range of results. Valid results are numbered from the voxel under the kernel's last sample, so that no voxel
 * of the image has a number below 0. */
static void make_crop(struct vp_op *op, const struct vp_convolve_given *g, const int64_t size[3])
{
    struct vp_convolve_params *p = op->params;

    for (int a = 0; a < 3; a++) {
        const int64_t over = p->n[a] - 1, centre = g->correlate ? over - p->n[a] / 2 : p->n[a] / 2;
        p->centre[a] = g->crop == VP_CROP_VALID ? over : centre;
        p->first[a] = g->crop == VP_CROP_VALID ? over - centre : g->crop == VP_CROP_FULL ? -centre : 0;
        p->pad_lo[a] = g->crop == VP_CROP_FULL ? centre : 0;
        p->pad_hi[a] = g->crop == VP_CROP_FULL ? over - centre : g->crop == VP_CROP_VALID ? -over : 0;
        op->input[a] = size[a];
        op->image[a] = length(op, a, size[a]);
    }
    op->mapping = g->crop == VP_CROP_SAME ? NULL : &mapping;
}

static int make_nodes(const struct vp_op *op, const struct vp_convolve_given *g, int axis, int64_t size,
                      struct vp_err *err)
{
    struct vp_convolve_params *p = op->params;
    const int64_t nodes = p->nodes[axis], n = op->image[axis];
    const double shift = (double)(p->weights == VP_WEIGHTS_SOURCE ? p->pad_lo[axis] : -p->first[axis]);
    double *node = vp_alloc_raw((size_t)nodes, sizeof *node, "nodes", err);
    int64_t *start = vp_alloc_raw((size_t)nodes + 2, sizeof *start, "nodes", err);
    float *after = vp_alloc_raw((size_t)n, sizeof *after, "weights", err);

    p->node[axis] = node;
    p->start[axis] = start;
    p->after[axis] = after;
    if (!node || !start || !after)
        return -1;
    for (int64_t i = 0; i < nodes; i++) {
        node[i] = (g->node[axis] ? g->node[axis][i] : ((double)i + 0.5) * (double)size / (double)nodes - 0.5)
                  + shift;
        if (!isfinite(node[i]) || (i && node[i] <= node[i - 1]))
            return vp_fail(err, VP_ERUN, "the nodes along %c: expected ascending positions, got %g after %g", 'x' + axis,
                           node[i], i ? node[i - 1] : 0);
    }
    int64_t c = 0;
    start[0] = 0;
    for (int64_t q = 0; q < n; q++) {
        while (c < nodes && node[c] <= (double)q)
            start[++c] = q;
        after[q] = c == nodes ? 0 : c == 0 ? 1 : vp_convolve_weight(p, axis, c, q);
    }
    while (c <= nodes)
        start[++c] = n;
    return 0;
}

/* True if results near an edge depend on the part of a kernel inside the image. */
static bool needs_sums(const struct vp_convolve_params *p)
{
    return p->edge == VP_EDGE_RENORMALIZE
           || (p->edge == VP_EDGE_ZERO && p->crop != VP_CROP_VALID && p->weights == VP_WEIGHTS_OUTPUT);
}

static int make_sums(struct vp_convolve_params *p, struct vp_err *err)
{
    const int64_t row = p->n[0] + 1, plane = row * (p->n[1] + 1), all = plane * (p->n[2] + 1);
    const int64_t nodes = p->nodes[0] * p->nodes[1];
    double *sums = vp_alloc((size_t)(nodes * all), sizeof *sums, "sums of kernels", err);
    int64_t k = 0;

    p->sums = sums;
    for (int64_t i = 0; sums && i < nodes; i++) {
        double *const s = sums + i * all, most = 0;
        for (int64_t z = 1; z <= p->n[2]; z++)
            for (int64_t y = 1; y <= p->n[1]; y++) {
                double along = 0;
                for (int64_t x = 1; x <= p->n[0]; x++, k++) {
                    double *const at = s + z * plane + y * row + x;
                    along += vp_convolve_kernel_at(p, k);
                    most += fabs(vp_convolve_kernel_at(p, k));
                    *at = along + at[-row] + at[-plane] - at[-plane - row];
                }
            }
        const double total = s[all - 1];
        if (p->edge == VP_EDGE_RENORMALIZE && !(total > 1e-3 * most)) {
            vp_fail(err, VP_EUSAGE, "--edge renormalize: the samples of kernel %lld add up to %g", (long long)i, total);
            return vp_hint(err, "give another rule, such as --edge nearest");
        }
    }
    return sums ? 0 : -1;
}

int vp_convolve_types(const char *what, enum vp_type in, enum vp_type out, const struct vp_fft64 *fft,
                      struct vp_err *err)
{
    if ((!(VP_CONVOLVE_TYPES & 1u << in) && in != VP_F64)
        || (out != in && out != VP_F32 && !(in == VP_F64 && VP_TYPES_WIDE & 1u << out)))
        return vp_fail(err, VP_EUSAGE, "%s takes u8, u16, i16, f32 and f64 to the same or f32, not %s to %s", what,
                       vp_type_name(in), vp_type_name(out));
    if (in != VP_F64 || fft)
        return 0;
    vp_fail(err, VP_ERUN, "samples of u32, i32 and f64 need transforms in f64, but this program was built without FFTW");
    return vp_hint(err, "img-convert --type f32 makes samples of f32; make FFTW=1 builds it with FFTW");
}

static int check(const struct vp_convolve_given *g, const int64_t size[3], enum vp_type in, enum vp_type out,
                 struct vp_err *err)
{
    if (vp_convolve_types("convolution", in, out, g->fft, err))
        return -1;
    if (g->n[2] > 1 && g->nodes[0] * g->nodes[1] > 1) {
        vp_fail(err, VP_ERUN, "a grid of kernels of %lld planes: expected kernels of one plane", (long long)g->n[2]);
        return vp_hint(err, "one kernel may have several");
    }
    for (int a = 0; a < 3; a++) {
        const int64_t most = g->n[2] > 1 ? 1024 : 16384;
        if (g->n[a] < 1 || g->n[a] > most)
            return vp_fail(err, VP_ERUN, "a kernel of %lld x %lld x %lld samples: expected at most %lld a side",
                           (long long)g->n[0], (long long)g->n[1], (long long)g->n[2], (long long)most);
    }
    for (int a = 0; a < 3 && g->crop == VP_CROP_VALID; a++)
        if (g->n[a] > size[a]) {
            vp_fail(err, VP_ERUN, "--crop valid: a kernel of %lld samples along %c, but the image has %lld: expected one that "
                    "fits into it", (long long)g->n[a], 'x' + a, (long long)size[a]);
            return vp_hint(err, "--crop same and full take any kernel");
        }
    if (g->crop == VP_CROP_FULL && g->edge == VP_EDGE_RENORMALIZE) {
        vp_fail(err, VP_EUSAGE, "--crop full --edge renormalize: at the border of the result almost no sample of a kernel "
                "is in the image: expected another rule");
        return vp_hint(err, "--edge zero is the full convolution; --crop same renormalizes");
    }
    return 0;
}

static int make_fft(struct vp_convolve_params *p, const struct trial *t, struct vp_err *err)
{
    struct vp_convolve_cpu *c = p->cpu;

    memcpy(c->tile, t->tile, sizeof c->tile);
    memcpy(c->piece, t->piece, sizeof c->piece);
    memcpy(c->pieces, t->pieces, sizeof c->pieces);
    memcpy(c->out, t->out, sizeof c->out);
    for (int a = 0; a <= c->first; a++)
        if (vp_line_make(&c->along[a], a == c->first ? c->tile[a] / 2 : c->tile[a], a != c->first, NULL, err))
            return -1;
    for (int a = 0; c->tiles != VP_GENERAL && a < 2; a++)
        if (cut_cells(c, p, a, err))
            return -1;
    c->keeps = c->tiles != VP_CELLS || vp_convolve_spectra(p) <= SPECTRA;
    return 0;
}

static int make_method(struct vp_convolve_params *p, const struct vp_convolve_given *g, const int64_t image[3],
                       const int64_t size[3], double *cost, struct vp_err *err)
{
    struct vp_convolve_cpu *c = p->cpu;
    const bool one = !vp_convolve_is_grid(p), exact = p->in == VP_F64;
    const double macs = (double)p->n[0] * (double)p->n[1] * (double)p->n[2];
    const char *const name = g->method ? g->method : "";
    struct trial best;

    if (exact && !(c->exact = vp_alloc(1, sizeof *c->exact, "convolution", err)))
        return -1;
    c->first = p->n[2] > 1 ? 2 : 1;
    c->tiles = exact || g->apart || c->first == 2 || (!one && p->weights == VP_WEIGHTS_SOURCE) ? VP_GENERAL
             : one ? VP_STRIPS : VP_CELLS;
    for (int64_t i = 0; c->tiles == VP_CELLS && i <= p->nodes[0]; i++)
        if (p->start[0][i] < p->start[0][i + 1])
            c->shift = vp_max64(c->shift, p->start[0][i] % 16);
    if (exact)
        c->exact->fft = g->fft;
    const double fft = exact ? vp_convolve_f64_choose(p, g->tile, image, size) : choose_tiles(p, image, g->tile, &best);
    const double direct = one && macs < 4096 ? SUMS[exact].direct + macs * SUMS[exact].mac : INFINITY;
    const double separable = SUMS[exact].separable + (double)(p->n[0] + p->n[1] + p->n[2] - 1) * SUMS[exact].tap;
    if (one && (!strcmp(name, "separable") || (!*name && separable < fmin(direct, fft) && macs > 3))) {
        if (vp_convolve_separable(p, err)) {
            c->method = VP_SEPARABLE;
            *cost = separable;
            return 0;
        }
        if (err->code || *name)
            return vp_fail(err, VP_EUSAGE, "the kernel is not separable");
    }
    if (one && (!strcmp(name, "direct") || (!*name && direct < fft))) {
        c->method = VP_DIRECT;
        *cost = direct;
        return vp_convolve_direct_make(p, err);
    }
    if (fft == INFINITY)
        return vp_fail(err, VP_ERUN, "kernels of %lld x %lld x %lld samples are too large for a grid", (long long)p->n[0],
                       (long long)p->n[1], (long long)p->n[2]);
    c->method = VP_FFT;
    *cost = fft;
    return exact ? vp_convolve_f64_make(p, err) : make_fft(p, &best, err);
}

/* ---- the operation ---- */

static uint64_t scratch(const struct vp_op *op, const struct vp_box *in, const struct vp_box *out, int threads)
{
    const struct vp_convolve_params *p = op->params;

    (void)in;
    (void)out;
    if (p->cpu->method != VP_FFT)
        return vp_convolve_direct_scratch(op, threads);
    return p->exact ? vp_convolve_f64_scratch(op, threads) : vp_convolve_fft_scratch(op, threads);
}

static int run(const struct vp_op *op, const struct vp_part *in, const struct vp_part *out, void *mem, int threads,
               struct vp_err *err)
{
    const struct vp_convolve_params *p = op->params;
    struct vp_part moved = *in; /* in the result's coordinates */
    struct vp_convolve_job j = {.op = op, .p = p, .c = p->cpu, .in = &moved, .out = out};

    for (int a = 0; a < 3; a++) {
        j.lo[a] = p->pad_lo[a];
        j.hi[a] = op->image[a] - p->pad_hi[a];
        moved.box.lo[a] += p->pad_lo[a];
        moved.box.hi[a] += p->pad_lo[a];
    }
    return (p->cpu->method != VP_FFT ? vp_convolve_direct : p->exact ? vp_convolve_f64 : vp_convolve_fft)(&j, mem, threads, err);
}

static void describe(struct vp_op *op)
{
    static const char *const crops[] = {"", "full, ", "valid, "};
    const struct vp_convolve_params *p = op->params;
    const struct vp_convolve_cpu *c = p->cpu;
    char kernels[96], how[96];

    if (!vp_convolve_is_grid(p))
        snprintf(kernels, sizeof kernels, "%lld x %lld x %lld", (long long)p->n[0], (long long)p->n[1], (long long)p->n[2]);
    else
        snprintf(kernels, sizeof kernels, "%lld x %lld kernels of %lld x %lld x %lld, weights of the %s",
                 (long long)p->nodes[0], (long long)p->nodes[1], (long long)p->n[0], (long long)p->n[1],
                 (long long)p->n[2], p->weights == VP_WEIGHTS_SOURCE ? "source" : "output");
    if (c->method == VP_FFT)
        snprintf(how, sizeof how, "tiles %lld x %lld x %lld of transforms %lld x %lld x %lld%s", (long long)c->out[0],
                 (long long)c->out[1], (long long)c->out[2], (long long)c->tile[0], (long long)c->tile[1],
                 (long long)c->tile[2], p->exact ? " in f64" : "");
    else
        snprintf(how, sizeof how, "%s%s", c->method == VP_DIRECT ? "direct" : "separable", p->exact ? " in f64" : "");
    const bool valid = p->crop == VP_CROP_VALID; /* no edge */
    const int n = snprintf(op->text, sizeof op->text, "convolution %s, %s%s%s", kernels, crops[p->crop],
                           valid ? "" : vp_edge_name(p->edge), valid ? "" : ", ");
    if (n > 0 && (size_t)n < sizeof op->text)
        snprintf(op->text + n, sizeof op->text - (size_t)n, "%s, %s", how, vp_isa_name());
}

/* Returns the halo along an axis: the whole tile, since all its samples affect the rounding of its results, and samples
 * that an edge rule takes from equally far on the other side. */
static int64_t halo_of(const struct vp_op *op, int axis)
{
    const struct vp_convolve_params *p = op->params;
    const struct vp_convolve_cpu *c = p->cpu;
    int64_t halo = vp_max64(p->centre[axis], p->n[axis] - 1 - p->centre[axis]);

    if (c->method == VP_FFT) {
        const int64_t cut = c->tiles == VP_CELLS ? c->out[axis] : 1; /* a box may have one row of a tile */
        halo = vp_max64(c->pieces[axis] * c->piece[axis] - 1 - p->centre[axis] + cut - 1,
                        p->centre[axis] + c->tile[axis] - c->piece[axis] - c->out[axis] + cut) + (axis == 0 ? c->shift : 0);
    }
    if (p->crop == VP_CROP_FULL && vp_convolve_makes_up(p))
        halo += 2 * vp_max64(p->pad_lo[axis], p->pad_hi[axis]);
    if (op->image[axis] >= VP_UNKNOWN)
        return halo;
    return vp_min64(halo, vp_max64(op->image[axis], vp_op_input(op, axis)) - 1);
}

int vp_convolve_local(struct vp_op *op, const struct vp_convolve_given *g, const int64_t size[3], enum vp_type in,
                      enum vp_type out, struct vp_err *err)
{
    if (g->between)
        return vp_convolve_anywhere(op, g, size, in, out, err);
    struct vp_convolve_params *p = calloc(1, sizeof *p);
    struct vp_convolve_cpu *c = calloc(1, sizeof *c);
    double cost = 1;

    *op = (struct vp_op){0};
    if (!p || !c) {
        free(p);
        free(c);
        return vp_fail(err, VP_ERESOURCE, "out of memory");
    }
    *p = (struct vp_convolve_params){.n = {g->n[0], g->n[1], g->n[2]}, .nodes = {g->nodes[0], g->nodes[1]},
                                     .edge = g->crop == VP_CROP_VALID ? VP_EDGE_ZERO : g->edge, .crop = g->crop, .in = in,
                                     .out = out, .cpu = c};
    p->weights = g->nodes[0] * g->nodes[1] == 1 ? VP_WEIGHTS_OUTPUT : g->weights;
    pthread_mutex_init(&c->lock, NULL);
    c->isa = VP_ISA_FIND(vp_convolve, NULL);
    c->fft = vp_line_isa(NULL);
    *op = (struct vp_op){.kernel = "convolve", .inputs = 1, .from = {~0}, .in = in, .out = out, .params = p,
                         .free = release, .scratch = scratch, .run = run};
    make_crop(op, g, size);
    if (check(g, size, in, out, err) || make_kernels(p, g, err) || make_nodes(op, g, 0, size[0], err)
        || make_nodes(op, g, 1, size[1], err) || (needs_sums(p) && make_sums(p, err))
        || add_up(p, g->normalize, err) || make_method(p, g, op->image, size, &cost, err)) {
        release(p);
        *op = (struct vp_op){0};
        return -1;
    }
    op->cost = cost;
    op->holds = (uint64_t)(p->nodes[0] * p->nodes[1] * p->n[0] * p->n[1] * p->n[2]) * vp_type_size(in == VP_F64 ? in : VP_F32);
    if (p->sums)
        op->holds += (uint64_t)(p->nodes[0] * p->nodes[1] * (p->n[0] + 1) * (p->n[1] + 1) * (p->n[2] + 1)) * sizeof(double);
    if (c->method == VP_FFT && (p->exact ? c->exact->keeps : c->keeps))
        op->holds += p->exact ? vp_convolve_f64_spectra(p) : vp_convolve_spectra(p);
    for (int a = 0; a < 3; a++) {
        op->halo[a] = vp_convolve_wraps(p, a) ? VP_UNKNOWN : halo_of(op, a);
        op->step[a] = c->method != VP_FFT || c->tiles == VP_GENERAL ? c->out[a] : c->tiles == VP_CELLS ? 1
                    : a == 0 ? VP_RUN * c->out[a] : c->out[a];
    }
    describe(op);
    return 0;
}
