/* SPDX-License-Identifier: BSD-3-Clause */
#include "local/deconvolve.h"

#include "base/err.h"
#include "base/size.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Minimum share of a kernel over data: voxels with less keep their initial value, since the data does not determine
 * them. (Zeros would bias the voxels next to them.) */
static const double LEAST = 1e-3;

/* Workspace: volumes on the frame. */
enum { DATA, X, Y, T, U, NORM, BEFORE, STEP, VOLUMES };

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

/* Loops over the rows of the frame, the voxels of row r, all voxels. */
#define ROWS(w) _Pragma("omp parallel for num_threads((w)->threads) schedule(static)") \
                for (int64_t r = 0; r < (w)->rows; r++)
#define OF_ROW(w) for (int64_t i = r * (w)->nx; i < (r + 1) * (w)->nx; i++)
#define VOXELS(w) ROWS(w) OF_ROW(w)

static void tell(const struct vp_deconvolve_params *p, int64_t page, int64_t iteration, double residual, bool last)
{
    if (p->g.tell)
        p->g.tell(p->g.ctx, page, iteration, residual, last);
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

/* ---- the operation ---- */

static uint64_t scratch(const struct vp_op *op, const struct vp_box *in, const struct vp_box *out, int threads)
{
    struct work_f32 f32;
    struct work_f64 f64;

    (void)in;
    (void)out;
    return op->in == VP_F64 ? workspace_layout_f64(&f64, op->params, NULL, threads) : workspace_layout_f32(&f32, op->params, NULL, threads);
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
                         .free = release, .scratch = scratch, .run = run};
    for (int a = 0; a < 3; a++) {
        op->image[a] = image[a];
        op->whole[a] = a < 2 || n[2] > 1;
        op->step[a] = op->whole[a] ? image[a] : 1; /* all results at once, too */
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
             g->method == VP_LEAST_SQUARES ? "Wiener deconvolution" : "Richardson-Lucy deconvolution", (long long)g->iterations,
             g->accelerate ? ", accelerated" : "", g->tv > 0 ? ", damped" : "", (long long)n[0], (long long)n[1],
             (long long)n[2], g->kernel.nodes[0] * g->kernel.nodes[1] > 1 ? " (a grid)" : "");
    return 0;
}
