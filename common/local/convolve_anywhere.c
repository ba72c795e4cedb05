/* SPDX-License-Identifier: BSD-3-Clause */
/* Convolution with kernels whose nodes lie anywhere: one operation "convolve" for each kernel, run on the tiles in which
 * it has weights. Tiles lie where the image says, and kernels are added in their order, so bits do not depend on boxes. */
#include "local/convolve_internal.h"

#include "base/err.h"
#include "base/size.h"
#include "engine/chain.h"
#include "local/nodes.h"

#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct anywhere {
    struct vp_op *node;        /* n operations, of equal steps and halos */
    struct vp_nodes *nodes;
    int64_t n;
    bool source, wide;         /* weights of the source; f64 */
    int64_t side[3];           /* a tile */
    enum vp_type in, out, made; /* samples; results; those of a kernel */
};

/* Memory of a thread. */
struct anywhere_work {
    struct vp_node_weights *weights; /* at the tile's results, or at the samples that these need */
    unsigned char *mark;       /* kernels that have weights there */
    void *result, *samples;    /* a kernel's results; weighted samples */
    double *sum;
    void **plane[2];
    void *scratch;
};

/* Returns the largest input box of a tile along an axis. */
static int64_t most_input(const struct vp_op *op, const struct anywhere *a, int axis)
{
    return vp_min64(op->image[axis], a->side[axis] + 2 * vp_min64(a->node[0].halo[axis], op->image[axis]));
}

static size_t workspace_layout(struct anywhere_work *w, const struct vp_op *op, void *mem)
{
    const struct anywhere *a = op->params;
    const size_t results = (size_t)(a->side[0] * a->side[1]), size = vp_type_size(a->made);
    const size_t samples = a->source ? (size_t)(most_input(op, a, 0) * most_input(op, a, 1)) : results;
    const struct vp_box box = {{0, 0, 0}, {a->side[0], a->side[1], 1}};
    size_t at = 0;

    w->weights = vp_place(mem, &at, samples * sizeof *w->weights);
    w->mark = vp_place(mem, &at, (size_t)a->n);
    w->result = vp_place(mem, &at, results * size);
    w->samples = vp_place(mem, &at, a->source ? samples * size : 0);
    w->sum = vp_place(mem, &at, results * sizeof *w->sum);
    for (int i = 0; i < 2; i++)
        w->plane[i] = vp_place(mem, &at, sizeof *w->plane[i]);
    w->scratch = vp_place(mem, &at, (size_t)a->node[0].scratch(&a->node[0], &box, &box, 1));
    return vp_round64(at);
}

static uint64_t scratch(const struct vp_op *op, const struct vp_box *in, const struct vp_box *out, int threads)
{
    struct anywhere_work w;

    (void)in;
    (void)out;
    return workspace_layout(&w, op, NULL) * (uint64_t)threads;
}

static double weight_of(const struct vp_node_weights *w, int64_t node)
{
    double sum = 0;

    for (int i = 0; i < 3; i++)
        sum += w->node[i] == node ? w->weight[i] : 0;
    return sum;
}

/* Fills the weights of a box, and marks the kernels that have some. */
static void find_weights(const struct anywhere *a, struct anywhere_work *w, const struct vp_box *box)
{
    const int64_t nx = vp_box_size(box, 0);

    memset(w->mark, 0, (size_t)a->n);
    for (int64_t y = box->lo[1]; y < box->hi[1]; y++) {
        struct vp_node_weights *const row = w->weights + (y - box->lo[1]) * nx;
        vp_nodes_row(a->nodes, box->lo[0], nx, y, row);
        for (int64_t x = 0; x < nx; x++)
            for (int i = 0; i < 3; i++)
                if (row[x].weight[i] > 0)
                    w->mark[row[x].node[i]] = 1;
    }
}

/* Fills w->samples with the samples of a box times the weights of a kernel; samples without weight become 0. */
static void weigh(const struct anywhere *a, struct anywhere_work *w, const struct vp_part *in, const struct vp_box *box,
                  int64_t node)
{
    const int64_t nx = vp_box_size(box, 0);

    for (int64_t y = box->lo[1]; y < box->hi[1]; y++) {
        const int64_t at = (y - box->lo[1]) * nx;
        void *const row = (char *)w->samples + (size_t)at * vp_type_size(a->made);
        vp_convert(row, a->made, vp_part_at(in, vp_type_size(a->in), box->lo[0], y, box->lo[2]), a->in, nx, 1, 0);
        for (int64_t x = 0; x < nx; x++) {
            const double weight = weight_of(&w->weights[at + x], node);
            if (a->wide)
                ((double *)row)[x] = weight > 0 ? ((double *)row)[x] * weight : 0;
            else
                ((float *)row)[x] = weight > 0 ? (float)(((float *)row)[x] * weight) : 0;
        }
    }
}

static int make_tile(const struct vp_op *op, struct anywhere_work *w, const struct vp_part *in,
                     const struct vp_part *out,
                     const struct vp_box *box, struct vp_err *err)
{
    const struct anywhere *a = op->params;
    const int64_t nx = vp_box_size(box, 0), n = nx * vp_box_size(box, 1), z = box->lo[2];
    const struct vp_box need = vp_op_region(&a->node[0], box);
    struct vp_part from = {in->box, in->stride, &in->plane[z - in->box.lo[2]]};
    const struct vp_part to = {*box, nx, w->plane[1]};

    from.box.lo[2] = z;
    from.box.hi[2] = z + 1;
    find_weights(a, w, a->source ? &need : box);
    memset(w->sum, 0, (size_t)n * sizeof *w->sum);
    w->plane[1][0] = w->result;
    for (int64_t k = 0; k < a->n; k++) {
        if (!w->mark[k])
            continue;
        if (a->source) {
            weigh(a, w, in, &need, k);
            w->plane[0][0] = w->samples;
            from = (struct vp_part){need, vp_box_size(&need, 0), w->plane[0]};
        }
        if (a->node[k].run(&a->node[k], &from, &to, w->scratch, 1, err))
            return -1;
        for (int64_t i = 0; i < n; i++) {
            const double weight = a->source ? 1 : weight_of(&w->weights[i], k);
            if (weight > 0)
                w->sum[i] += weight * (a->wide ? ((double *)w->result)[i] : (double)((float *)w->result)[i]);
        }
    }
    for (int64_t y = box->lo[1]; y < box->hi[1]; y++)
        vp_convert(vp_part_at(out, vp_type_size(a->out), box->lo[0], y, z), a->out, w->sum + (y - box->lo[1]) * nx,
                   VP_F64,
                   nx, 1, 0);
    return 0;
}

static int run(const struct vp_op *op, const struct vp_part *in, const struct vp_part *out, void *mem, int threads,
               struct vp_err *err)
{
    const struct anywhere *a = op->params;
    const int64_t tiles = vp_box_tiles(&out->box, a->side);
    struct anywhere_work ignored;
    const size_t bytes = workspace_layout(&ignored, op, NULL);
    int rc = 0;

    #pragma omp parallel for num_threads(threads) schedule(dynamic) reduction(min : rc)
    for (int64_t i = 0; i < tiles; i++) {
        struct vp_err own = VP_ERR_INIT;
        struct anywhere_work w;
        const struct vp_box box = vp_box_tile(&out->box, a->side, i);
        workspace_layout(&w, op, (char *)mem + (size_t)omp_get_thread_num() * bytes);
        if (make_tile(op, &w, in, out, &box, &own))
            rc = vp_err_keep(err, &own);
    }
    return rc;
}

static void release(void *params)
{
    struct anywhere *a = params;

    for (int64_t i = 0; a->node && i < a->n; i++)
        if (a->node[i].free)
            a->node[i].free(a->node[i].params);
    free(a->node);
    vp_nodes_free(a->nodes);
    free(a);
}

static int check(const struct vp_convolve_given *g, const int64_t size[3], struct vp_err *err)
{
    if (g->n[2] > 1)
        return vp_fail(err, VP_ERUN, "kernels at positions: expected kernels of one plane, got %lld",
                       (long long)g->n[2]);
    if (g->crop != VP_CROP_SAME)
        return vp_fail(err, VP_EUSAGE, "kernels at positions that form no rectangular grid: expected --crop same");
    if (g->weights == VP_WEIGHTS_SOURCE && g->edge != VP_EDGE_ZERO)
        return vp_fail(err, VP_EUSAGE,
                       "weights of the source at positions that form no rectangular grid: expected --edge zero");
    (void)size;
    return 0;
}

/* Makes the operation of kernel i. */
static int make_node(struct anywhere *a, const struct vp_convolve_given *g, int64_t i, const int64_t size[3],
                     struct vp_err *err)
{
    enum { DIRECT = 81 }; /* samples up to which sums are quicker than transforms */
    const int64_t samples = g->n[0] * g->n[1];
    struct vp_convolve_given one = *g;

    one.nodes[0] = one.nodes[1] = 1;
    one.node[0] = one.node[1] = NULL;
    one.kernels = g->kernels ? g->kernels + i * samples : NULL;
    one.exact = g->exact ? g->exact + i * samples : NULL;
    one.weights = VP_WEIGHTS_OUTPUT;
    one.between = VP_BETWEEN_GRID;
    one.apart = true;
    one.method = samples <= DIRECT ? "direct" : "fft";
    if (vp_convolve_local(&a->node[i], &one, size, a->source ? a->made : a->in, a->made, err)) {
        const struct vp_err own = *err;
        const char *const at = strstr(own.msg, "kernel 0"); /* it is the only one of its operation */
        if (at)
            snprintf(err->msg, sizeof err->msg, "%.*skernel %lld%s", (int)(at - own.msg), own.msg, (long long)i,
                     at + strlen("kernel 0"));
        return -1;
    }
    return 0;
}

struct vp_convolve_near { const struct vp_op *op; struct anywhere_work w; };

struct vp_convolve_near *vp_convolve_anywhere_open(const struct vp_op *op, struct vp_err *err)
{
    struct anywhere_work ignored;
    struct vp_convolve_near *const n = vp_alloc(1, sizeof *n + 64 + workspace_layout(&ignored, op, NULL), "weights", err);

    if (n) {
        n->op = op;
        workspace_layout(&n->w, op, (char *)vp_round64((uintptr_t)(n + 1)));
    }
    return n;
}

void vp_convolve_anywhere_done(struct vp_convolve_near *n)
{
    free(n);
}

int64_t vp_convolve_anywhere_near(struct vp_convolve_near *n, const struct vp_box *box)
{
    const struct anywhere *a = n->op->params;
    const struct vp_box need = vp_op_region(&a->node[0], box);
    int64_t sum = 0;

    find_weights(a, &n->w, a->source ? &need : box);
    for (int64_t k = 0; k < a->n; k++)
        sum += n->w.mark[k];
    return sum;
}

const struct vp_op *vp_convolve_anywhere_node(const struct vp_op *op)
{
    return ((const struct anywhere *)op->params)->node;
}

int64_t vp_convolve_anywhere_kernels(const struct vp_op *op, bool *source)
{
    const struct anywhere *a = op->params;

    *source = a->source;
    return a->n;
}

/* Returns the kernels that have weights in a tile, on average over some tiles. */
static double kernels_of_tile(const struct vp_op *op, struct vp_err *err)
{
    enum { SOME = 12 };
    const struct anywhere *a = op->params;
    const struct vp_box image = {{0, 0, 0}, {op->image[0], op->image[1], 1}};
    const int64_t tiles = vp_box_tiles(&image, a->side), step = vp_max64(tiles / SOME, 1);
    struct vp_convolve_near *const near = vp_convolve_anywhere_open(op, err);
    double sum = 0, count = 0;

    if (!near)
        return -1;
    for (int64_t i = 0; i < tiles; i += step, count++) {
        const struct vp_box box = vp_box_tile(&image, a->side, i);
        sum += (double)vp_convolve_anywhere_near(near, &box);
    }
    vp_convolve_anywhere_done(near);
    return sum / count;
}

int vp_convolve_anywhere(struct vp_op *op, const struct vp_convolve_given *g, const int64_t size[3], enum vp_type in,
                         enum vp_type out, struct vp_err *err)
{
    *op = (struct vp_op){0};
    if (check(g, size, err) || vp_convolve_types("convolution", in, out, g->fft, err))
        return -1;
    struct anywhere *a = vp_alloc(1, sizeof *a, "convolution", err);
    if (!a)
        return -1;
    *a = (struct anywhere){.n = g->nodes[0], .source = g->weights == VP_WEIGHTS_SOURCE, .wide = in == VP_F64, .in = in, .out = out,
                           .made = in == VP_F64 ? VP_F64 : VP_F32};
    a->node = vp_alloc((size_t)a->n, sizeof *a->node, "convolution", err);
    a->nodes = a->node ? vp_nodes_make(g->node[0], g->node[1], a->n, g->between == VP_BETWEEN_NEAREST, err) : NULL;
    int rc = a->nodes ? 0 : -1;
    for (int64_t i = 0; i < a->n && !rc; i++)
        rc = make_node(a, g, i, size, err);
    *op = (struct vp_op){.kernel = "convolve-anywhere", .image = {size[0], size[1], size[2]}, .inputs = 1, .from = {~0},
                         .in = in, .out = out, .params = a, .free = release, .scratch = scratch, .run = run};
    for (int i = 0; i < 3 && !rc; i++) {
        a->side[i] = op->step[i] = vp_max64(a->node[0].step[i], 1);
        op->halo[i] = a->node[0].halo[i];
    }
    for (int64_t i = 0; i < a->n && !rc; i++)
        op->holds += a->node[i].holds;
    const double kernels = rc ? -1 : kernels_of_tile(op, err);
    if (kernels < 0) {
        release(a);
        *op = (struct vp_op){0};
        return -1;
    }
    op->cost = a->node[0].cost * kernels;
    snprintf(op->text, sizeof op->text, "convolution, %lld kernels of %lld x %lld anywhere, %s, weights of the %s; "
             "tiles of %lld x %lld, %.1f kernels each", (long long)a->n, (long long)g->n[0], (long long)g->n[1],
             g->between == VP_BETWEEN_NEAREST ? "the nearest" : "linear in triangles", a->source ? "source" : "output",
             (long long)a->side[0], (long long)a->side[1], kernels);
    return 0;
}
