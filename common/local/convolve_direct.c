/* SPDX-License-Identifier: BSD-3-Clause */
/* Convolution as a sum of products: with a small kernel, or axis by axis with one that is a product of three. A thread
 * has blocks of output that are small enough for the samples to stay in the second-level cache, and goes through the
 * planes of one in turn: each plane is filtered along x and y once, and the results are made whose last plane it is.
 * Any block of any box gives the same sums: taps are added up in one order, each row of them as a sum of its own. */
#include "local/convolve_internal.h"

#include "base/err.h"
#include "base/size.h"
#include "run/chain.h"

#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

enum { WIDE = 256, HIGH = 32, PAST = 64 };

/* Of f32 samples, or of f64. */
struct work {
    char *plane[2];              /* separable: of samples; after x */
    char *stack;                 /* planes of a block and what its kernel reaches, as the last filter finds them */
    char *out[4];
    int64_t row, rows, planes;   /* samples of a row, rows of a plane, planes */
};

static char *take(char *mem, size_t *at, int64_t bytes)
{
    char *const p = mem ? mem + *at : NULL;

    *at += vp_round64((size_t)bytes);
    return p;
}

static void four(const struct vp_convolve_job *j, const void *from, int64_t row, int64_t plane, int set, const int64_t n[3],
                 void *const *to, int64_t wide)
{
    const struct vp_convolve_rows r = {.from = from, .row = row, .plane = plane, .taps = j->c->taps[set], .nx = n[0],
                                       .ny = n[1], .nz = n[2], .to = {to[0], to[1], to[2], to[3]}, .n = wide};
    j->c->isa->rows(&r);
}

static const struct vp_convolve_sums *sums_of(const struct vp_convolve_params *p)
{
    static const struct vp_convolve_sums f32 = {sizeof(float), vp_convolve_load, four, vp_convolve_store};

    return p->cpu->exact ? &vp_convolve_sums_f64 : &f32;
}

/* Of a block; planes that are filtered before are worth more. */
static int64_t depth(const struct vp_convolve_params *p)
{
    return p->n[2] == 1 ? 1 : p->cpu->method == VP_SEPARABLE ? 64 : 8;
}

static size_t lay_out(struct work *w, const struct vp_convolve_params *p, char *mem)
{
    const int64_t size = (int64_t)sums_of(p)->size;
    size_t at = 0;

    w->row = (WIDE + p->n[0] - 1 + PAST + 15) / 16 * 16;
    w->rows = HIGH + p->n[1] - 1 + 3;
    w->planes = depth(p) + p->n[2] - 1;
    for (int i = 0; i < 2; i++)
        w->plane[i] = take(mem, &at, p->cpu->method == VP_SEPARABLE ? w->row * w->rows * size : 0);
    w->stack = take(mem, &at, w->row * w->rows * w->planes * size);
    for (int i = 0; i < 4; i++)
        w->out[i] = take(mem, &at, (WIDE + PAST) * size);
    return at;
}

uint64_t vp_convolve_direct_scratch(const struct vp_op *op, int threads)
{
    struct work w;

    return lay_out(&w, op->params, NULL) * (uint64_t)threads;
}

/* The results of a block from at[] on, of size[] voxels. */
static bool block(const struct vp_convolve_job *j, struct work *w, const int64_t at[3], const int64_t size[3])
{
    const struct vp_convolve_params *p = j->p;
    const struct vp_convolve_sums *const sums = sums_of(p);
    const bool separable = j->c->method == VP_SEPARABLE;
    const int64_t wide = size[0] + p->n[0] - 1, high = size[1] + p->n[1] - 1, deep = size[2] + p->n[2] - 1;
    const int64_t plane = w->row * w->rows, row_bytes = w->row * (int64_t)sums->size, plane_bytes = row_bytes * w->rows;
    const int final = !separable ? 0 : p->n[2] > 1 ? 2 : p->n[1] > 1 ? 1 : 0; /* the filter that makes the results */
    const int64_t last[3] = {!separable || final == 0 ? p->n[0] : 1, !separable || final == 1 ? p->n[1] : 1,
                             !separable || final == 2 ? p->n[2] : 1};
    int before[2], filters = 0;
    bool bad = false;

    for (int a = 0; a < final; a++)
        if (p->n[a] > 1) /* else its factor is 1 */
            before[filters++] = a;
    for (int64_t top = 0; top < deep; top++) {
        char *from = filters ? w->plane[0] : w->stack + top * plane_bytes;
        for (int64_t y = 0; y < high; y++)
            bad |= sums->load(j, from + y * row_bytes, at[0] + p->centre[0] - (p->n[0] - 1), wide,
                              at[1] + p->centre[1] - (p->n[1] - 1) + y, at[2] + p->centre[2] - (p->n[2] - 1) + top);
        for (int f = 0; f < filters; f++) {
            const int a = before[f];
            const int64_t n[3] = {a == 0 ? p->n[0] : 1, a == 1 ? p->n[1] : 1, 1}, rows = a == 0 ? high : size[1];
            char *const made = f == filters - 1 ? w->stack + top * plane_bytes : w->plane[1];
            for (int64_t y = 0; y < rows; y += 4) {
                void *to[4];
                for (int i = 0; i < 4; i++)
                    to[i] = y + i < rows ? made + (y + i) * row_bytes : NULL;
                sums->four(j, from + y * row_bytes, w->row, plane, a, n, to, size[0]);
            }
            from = made;
        }
        const int64_t z = top - (p->n[2] - 1);
        for (int64_t y = 0; z >= 0 && y < size[1]; y += 4) {
            sums->four(j, w->stack + z * plane_bytes + y * row_bytes, w->row, plane, final, last,
                       (void *[]){w->out[0], w->out[1], w->out[2], w->out[3]}, size[0]);
            for (int64_t i = 0; i < vp_min64(4, size[1] - y); i++)
                sums->store(j, w->out[i], at[0], size[0], at[1] + y + i, at[2] + z);
        }
    }
    return bad;
}

int vp_convolve_direct(struct vp_convolve_job *j, void *scratch, int threads, struct vp_err *err)
{
    const struct vp_convolve_params *p = j->p;
    const struct vp_box *out = &j->out->box;
    struct work ignored;
    const size_t bytes = lay_out(&ignored, p, NULL);
    const int64_t side[3] = {WIDE, HIGH, depth(p)}, n = vp_box_tiles(out, side);
    int rc = 0;

    #pragma omp parallel num_threads(threads)
    {
        struct vp_err own = VP_ERR_INIT;
        struct work w;
        char *const mem = (char *)scratch + (size_t)omp_get_thread_num() * bytes;
        memset(mem, 0, bytes); /* the ends of rows are read, though never used */
        lay_out(&w, p, mem);
        #pragma omp for schedule(dynamic)
        for (int64_t i = 0; i < n; i++) {
            const struct vp_box box = vp_box_tile(out, side, i);
            const int64_t size[3] = {vp_box_size(&box, 0), vp_box_size(&box, 1), vp_box_size(&box, 2)};
            if (block(j, &w, box.lo, size) && vp_convolve_spoil(j, &box, &own)) {
                vp_err_keep(err, &own);
                #pragma omp atomic write
                rc = -1;
            }
        }
    }
    return rc;
}

/* [z][y][x] in the order of samples, with three rows of zeros before and behind those of each plane. */
static float *make_taps(const float *k, const int64_t n[3], struct vp_err *err)
{
    const int64_t rows = n[1] + 6;
    float *t = vp_alloc((size_t)(n[0] * rows * n[2]), sizeof *t, "the taps", err);

    for (int64_t z = 0; t && z < n[2]; z++)
        for (int64_t y = 0; y < n[1]; y++)
            for (int64_t x = 0; x < n[0]; x++)
                t[(z * rows + 3 + y) * n[0] + x] = k[((n[2] - 1 - z) * n[1] + n[1] - 1 - y) * n[0] + n[0] - 1 - x];
    return t;
}

/* Whether a kernel is a product of one along each axis, to the precision of f32; then factor[a] are these. */
static bool is_product(const struct vp_convolve_params *p, float *const factor[3])
{
    const int64_t n = p->n[0] * p->n[1] * p->n[2];
    int64_t top = 0;

    for (int64_t i = 0; i < n; i++)
        top = fabsf(p->kernels[i]) > fabsf(p->kernels[top]) ? i : top;
    const double most = p->kernels[top];
    const int64_t at[3] = {top % p->n[0], top / p->n[0] % p->n[1], top / p->n[0] / p->n[1]};
    const int64_t step[3] = {1, p->n[0], p->n[0] * p->n[1]};
    const int first = p->n[0] > 1 ? 0 : p->n[1] > 1 ? 1 : 2; /* has the scale: the others have 1 at the largest sample */
    if (most == 0)
        return false;
    for (int a = 0; a < 3; a++)
        for (int64_t i = 0; i < p->n[a]; i++)
            factor[a][i] = (float)(p->kernels[top + (i - at[a]) * step[a]] / (a == first ? 1 : most));
    double off = 0, sum = 0;
    for (int64_t i = 0; i < n; i++) {
        const double product = (double)factor[0][i % p->n[0]] * factor[1][i / p->n[0] % p->n[1]]
                               * factor[2][i / p->n[0] / p->n[1]];
        off += fabs(product - p->kernels[i]);
        sum += fabs((double)p->kernels[i]);
    }
    return off <= 1.5e-7 * sum;
}

bool vp_convolve_separable(const struct vp_convolve_params *p, struct vp_err *err)
{
    struct vp_convolve_cpu *c = p->cpu;
    float *factor[3] = {NULL, NULL, NULL};
    bool ok = true;

    for (int a = 0; a < 3; a++)
        ok = (factor[a] = vp_alloc((size_t)p->n[a], sizeof *factor[a], "the factors of the kernel", err)) && ok;
    ok = ok && is_product(p, factor);
    for (int a = 0; a < 3 && ok; a++) {
        const int64_t n[3] = {a == 0 ? p->n[0] : 1, a == 1 ? p->n[1] : 1, a == 2 ? p->n[2] : 1};
        ok = (c->taps[a] = make_taps(factor[a], n, err));
    }
    for (int a = 0; a < 3; a++)
        free(factor[a]);
    return ok;
}

int vp_convolve_direct_make(struct vp_convolve_params *p, struct vp_err *err)
{
    p->cpu->taps[0] = make_taps(p->kernels, p->n, err);
    return p->cpu->taps[0] ? 0 : -1;
}
