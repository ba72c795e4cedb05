/* SPDX-License-Identifier: BSD-3-Clause */
#include "local/deconvolve.h"

#include "base/err.h"
#include "base/places.h"
#include "base/size.h"
#include "engine/chain.h"
#include "engine/store.h"
#include "stack/outfile.h"
#include "stack/source.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Minimum share of a kernel over data: voxels with less keep their initial value, since the data does not determine
 * them. (Zeros would bias the voxels next to them.) */
static const double LEAST = 1e-3;

/* Volumes on the frame; sums of rows. */
enum { DATA, X, Y, T, U, NORM, BEFORE, STEP, VOLUMES, REST = NORM, LEFT = STEP, SUMS = 4 };

static int volumes(const struct vp_deconvolve_params *p)
{
    return p->g.method == VP_LEAST_SQUARES || p->g.accelerate ? VOLUMES : NORM + 1;
}

static uint64_t convolution_scratch(const struct vp_deconvolve_params *p, int threads)
{
    const struct vp_box all = {{0, 0, 0}, {p->frame[0], p->frame[1], p->frame[2]}};

    return (uint64_t)vp_max64((int64_t)p->forward.scratch(&p->forward, &all, &all, threads),
                              (int64_t)p->adjoint.scratch(&p->adjoint, &all, &all, threads));
}

/* Loops over the rows of the box, the voxels of row r, all voxels. */
#define ROWS(w) _Pragma("omp parallel for num_threads((w)->threads) schedule(static)") \
                for (int64_t r = 0; r < (w)->rows; r++)
#define OF_ROW(w) for (int64_t i = r * (w)->nx; i < (r + 1) * (w)->nx; i++)
#define VOXELS(w) ROWS(w) OF_ROW(w)

static void tell(const struct vp_deconvolve_params *p, int64_t page, int64_t iteration, double residual, bool last)
{
    if (p->g.tell)
        p->g.tell(p->g.ctx, page, iteration, residual, last);
}

/* An image: n[] voxels, from at[] on. In memory it is part `in`, fd is -1; else its samples are in the entries of boxes
 * of side[] from entry `first` on, and the volumes in file fd. */
struct deconvolve_data {
    int fd;
    const struct vp_part *in;
    struct vp_store *entries;
    int64_t at[3], n[3], first, side[3], boxes;
    struct vp_box image;       /* all planes of the entries */
};

/* Bytes before the samples of an entry. Its samples, and then the results in their place, are rows without gaps; planes
 * are as far apart as the larger of both needs. */
enum { ENTRY_HEAD = 64 };

static uint64_t plane_bytes(const struct vp_deconvolve_params *p, const struct vp_box *box)
{
    const size_t in = vp_type_size(p->in), out = vp_type_size(p->out);

    return (uint64_t)(vp_box_size(box, 0) * vp_box_size(box, 1)) * (in > out ? in : out);
}

/* Returns the position of a result in the entry of its box. */
static uint64_t entry_at(const struct vp_deconvolve_params *p, const struct vp_box *box, int64_t x, int64_t y,
                         int64_t z)
{
    return ENTRY_HEAD + (uint64_t)(z - box->lo[2]) * plane_bytes(p, box)
           + (uint64_t)((y - box->lo[1]) * vp_box_size(box, 0) + x - box->lo[0]) * vp_type_size(p->out);
}

/* Reads or writes bytes of the file of volumes. */
static int move_bytes(int fd, void *buffer, size_t bytes, uint64_t at, bool write, struct vp_err *err)
{
    if (write)
        return vp_write_two(fd, (off_t)at, buffer, bytes, NULL, 0, vp_tmpdir(), err);
    const int64_t got = vp_pread_all(fd, buffer, bytes, at);
    if (got < 0)
        return vp_fail_errno(err, "%s", vp_tmpdir());
    return (size_t)got < bytes ? vp_fail(err, VP_ERUN, "%s: the scratch file is cut", vp_tmpdir()) : 0;
}

/* Reads samples x0 ... x1 - 1 of row (y, z) of an image as `type`. */
static int read_samples(const struct deconvolve_data *d, const struct vp_deconvolve_params *p, int64_t x0, int64_t x1,
                        int64_t y, int64_t z, void *to, enum vp_type type, struct vp_err *err)
{
    enum { SOME = 1024 };
    const size_t size = vp_type_size(p->in);
    double read[SOME]; /* large enough and aligned for any type */

    if (d->fd < 0) {
        vp_convert(to, type, vp_part_at(d->in, size, d->at[0] + x0, d->at[1] + y, d->at[2] + z), p->in, x1 - x0, 1, 0);
        return 0;
    }
    z += d->at[2];
    const int64_t across = vp_div_up(d->n[0], d->side[0]), down = vp_div_up(d->n[1], d->side[1]);
    for (int64_t x = x0, some; x < x1; x += some) {
        const int64_t i = (z / d->side[2] * down + y / d->side[1]) * across + x / d->side[0];
        const struct vp_box box = vp_box_tile(&d->image, d->side, i);
        const int64_t at = (y - box.lo[1]) * vp_box_size(&box, 0) + x - box.lo[0];
        some = vp_min64(SOME, vp_min64(x1, box.hi[0]) - x);
        if (vp_store_read(d->entries, d->first + i, ENTRY_HEAD + (uint64_t)(z - box.lo[2]) * plane_bytes(p, &box)
                          + (uint64_t)at * size, read, (uint64_t)some * size, err))
            return -1;
        vp_convert((char *)to + (size_t)(x - x0) * vp_type_size(type), type, read, p->in, some, 1, 0);
    }
    return 0;
}

#define REAL float
#define TYPE VP_F32
#define NAME(name) name##_f32
#define ROOT sqrtf
#define FLOOR 1e-6f
#define ENOUGH 1e-13
#include "local/deconvolve_work.inc"
#undef REAL
#undef TYPE
#undef NAME
#undef ROOT
#undef FLOOR
#undef ENOUGH
#define REAL double
#define TYPE VP_F64
#define NAME(name) name##_f64
#define ROOT sqrt
#define FLOOR 1e-14
#define ENOUGH 1e-28
#include "local/deconvolve_work.inc"

/* ---- out of memory: entries of samples, iterations in a file, entries of results ---- */

static uint64_t summary(const struct vp_op *op, const struct vp_box *box)
{
    return ENTRY_HEAD + (uint64_t)vp_box_size(box, 2) * plane_bytes(op->params, box);
}

static int summarize(const struct vp_op *op, const struct vp_part *in, const struct vp_box *box, void *entry, void *mem,
                     int threads, struct vp_err *err)
{
    const struct vp_deconvolve_params *p = op->params;
    const uint64_t bytes = summary(op, box), plane = plane_bytes(p, box);
    const size_t row = (size_t)vp_box_size(box, 0) * vp_type_size(p->in);

    (void)mem, (void)threads, (void)err;
    memset(entry, 0, (size_t)bytes);
    memcpy(entry, &bytes, sizeof bytes);
    for (int64_t z = box->lo[2]; z < box->hi[2]; z++)
        for (int64_t y = box->lo[1]; y < box->hi[1]; y++)
            memcpy((char *)entry + ENTRY_HEAD + (uint64_t)(z - box->lo[2]) * plane + (uint64_t)(y - box->lo[1]) * row,
                   vp_part_at(in, vp_type_size(p->in), box->lo[0], y, z), row);
    return 0;
}

static int finish(const struct vp_op *op, const struct vp_part *in, const struct vp_part *out, const void *entry,
                  void *mem,
                  int threads, struct vp_err *err)
{
    const struct vp_box *const box = &out->box;
    const size_t size = vp_type_size(op->out), row = (size_t)vp_box_size(box, 0) * size;

    (void)in, (void)mem, (void)threads, (void)err;
    for (int64_t z = box->lo[2]; z < box->hi[2]; z++)
        for (int64_t y = box->lo[1]; y < box->hi[1]; y++)
            memcpy(vp_part_at(out, size, box->lo[0], y, z),
                   (const char *)entry + entry_at(op->params, box, box->lo[0], y, z), row);
    return 0;
}

/* Returns the bytes of the volumes of an image. */
static uint64_t file_bytes(const struct vp_op *op)
{
    const struct vp_deconvolve_params *p = op->params;

    return (uint64_t)volumes(p) * (uint64_t)(p->frame[0] * p->frame[1] * p->frame[2]) * (op->in == VP_F64
                                                                                         ? sizeof(double)
                                                                                             : sizeof(float));
}

static uint64_t least(const struct vp_op *op, int threads)
{
    static const int64_t one[3] = {1, 1, 1};
    struct work_f32 f32 = {0};
    struct work_f64 f64 = {0};
    const size_t bytes = op->in == VP_F64 ? set_sides_f64(&f64, op->params, one, threads)
        : set_sides_f32(&f32, op->params, one, threads);

    return bytes + (vp_scratch_in_memory() ? file_bytes(op) : 0);
}

static int solve(struct vp_op *op, struct vp_store *entries, const int64_t box[3], uint64_t memory, int threads,
                 struct vp_err *err)
{
    const uint64_t bytes = file_bytes(op);
    struct deconvolve_data d = {.entries = entries, .side = {box[0], box[1], box[2]},
                                .image.hi = {op->image[0], op->image[1], op->image[2]},
                                .n = {op->image[0], op->image[1], op->image[2]}};

    d.boxes = vp_box_tiles(&d.image, box);
    d.fd = vp_store_file(entries, bytes, memory, err);
    if (d.fd < 0)
        return -1;
    memory -= vp_scratch_in_memory() ? bytes : 0;
    const int rc = (op->in == VP_F64 ? solve_f64 : solve_f32)(op, &d, memory, threads, err);
    close(d.fd);
    return rc;
}

static const struct vp_two_pass two_pass = {summary, summarize, solve, finish, least};

/* ---- the operation ---- */

/* A box that is no whole image is worked on out of memory. */
static uint64_t scratch(const struct vp_op *op, const struct vp_box *in, const struct vp_box *out, int threads)
{
    const struct vp_deconvolve_params *p = op->params;
    struct work_f32 f32 = {0};
    struct work_f64 f64 = {0};

    (void)in;
    for (int a = 0; a < 3; a++)
        if ((a < 2 || p->frame[2] > 1) && vp_box_size(out, a) < op->image[a])
            return 0;
    return op->in == VP_F64 ? workspace_layout_f64(&f64, p, NULL, threads, false)
        : workspace_layout_f32(&f32, p, NULL, threads, false);
}

static int run(const struct vp_op *op, const struct vp_part *in, const struct vp_part *out, void *mem, int threads,
               struct vp_err *err)
{
    return (op->in == VP_F64 ? run_f64 : run_f32)(op, in, out, mem, threads, err);
}

static void release(void *params)
{
    struct vp_deconvolve_params *p = params;

    if (p->forward.free)
        p->forward.free(p->forward.params);
    if (p->adjoint.free)
        p->adjoint.free(p->adjoint.params);
    free(p);
}

static int make(struct vp_deconvolve_params *p, const struct vp_deconvolve_given *g, struct vp_err *err)
{
    struct vp_convolve_given k = g->kernel;
    const enum vp_type type = p->in == VP_F64 ? VP_F64 : VP_F32; /* bytes of the workspace */
    int rc = -1;

    k.positive = g->method == VP_RICHARDSON_LUCY;
    k.edge = VP_EDGE_ZERO;
    k.crop = VP_CROP_SAME; /* the frame is larger already */
    k.normalize = true;
    k.method = NULL;
    double *node[2] = {NULL, NULL};
    for (int a = 0; a < 2; a++) { /* position of the image in the frame */
        node[a] = vp_alloc_raw((size_t)k.nodes[a], sizeof *node[a], "nodes", err);
        const double size = (double)(p->frame[a] - (k.n[a] - 1));
        for (int64_t i = 0; node[a] && i < k.nodes[a]; i++)
            node[a][i] = (double)p->before[a] + (g->kernel.node[a] ? g->kernel.node[a][i]
                                                 : ((double)i + 0.5) * size / (double)k.nodes[a] - 0.5);
        k.node[a] = node[a];
    }
    if (node[0] && node[1]) {
        rc = vp_convolve_local(&p->forward, &k, p->frame, type, type, err);
        k.correlate = true;
        k.weights = k.weights == VP_WEIGHTS_SOURCE ? VP_WEIGHTS_OUTPUT : VP_WEIGHTS_SOURCE;
        rc = rc || vp_convolve_local(&p->adjoint, &k, p->frame, type, type, err) ? -1 : 0;
    }
    free(node[0]);
    free(node[1]);
    return rc;
}

static int check(const struct vp_deconvolve_given *g, enum vp_type in, enum vp_type out, struct vp_err *err)
{
    if (vp_convolve_types("deconvolution", in, out, g->kernel.fft, err))
        return -1;
    if (g->iterations < 1 || !(g->stop >= 0) || !(g->tv >= 0 && g->tv < 1) || !isfinite(g->background)
        || !(g->noise >= 0 && isfinite(g->noise)))
        return vp_fail(err, VP_EUSAGE, "expected at least an iteration, --tv below 1, and nothing negative");
    return 0;
}

int vp_deconvolve_local(struct vp_op *op, const struct vp_deconvolve_given *g, const int64_t image[3], enum vp_type in,
                        enum vp_type out, struct vp_err *err)
{
    struct vp_deconvolve_params *p;
    const int64_t *n = g->kernel.n;

    *op = (struct vp_op){0};
    if (check(g, in, out, err))
        return -1;
    p = calloc(1, sizeof *p);
    if (!p)
        return vp_fail(err, VP_ERESOURCE, "out of memory");
    *p = (struct vp_deconvolve_params){.g = *g, .in = in, .out = out};
    p->g.kernel = (struct vp_convolve_given){0};
    *op = (struct vp_op){.kernel = "deconvolve", .inputs = 1, .from = {~0}, .in = in, .out = out, .params = p,
                         .free = release, .scratch = scratch, .run = run, .two_pass = &two_pass};
    op->step[2] = n[2] == 1; /* planes stand alone */
    for (int a = 0; a < 3; a++) {
        op->image[a] = image[a];
        p->before[a] = n[a] - 1 - n[a] / 2;
        p->frame[a] = a == 2 && n[2] == 1 ? 1 : vp_min64(image[a] + n[a] - 1, VP_UNKNOWN);
    }
    if (make(p, g, err)) {
        release(p);
        *op = (struct vp_op){0};
        return -1;
    }
    op->holds = p->forward.holds + p->adjoint.holds;
    op->cost = (p->forward.cost + p->adjoint.cost + 4) * (double)g->iterations;
    snprintf(op->text, sizeof op->text, "%s, at most %lld iterations%s%s, kernel %lld x %lld x %lld%s",
             g->method == VP_LEAST_SQUARES ? "Wiener deconvolution" : "Richardson-Lucy deconvolution",
                 (long long)g->iterations,
             g->accelerate ? ", accelerated" : "", g->tv > 0 ? ", damped" : "", (long long)n[0], (long long)n[1],
             (long long)n[2], g->kernel.nodes[0] * g->kernel.nodes[1] > 1 ? " (a grid)" : "");
    return 0;
}
