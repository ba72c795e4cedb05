/* SPDX-License-Identifier: BSD-3-Clause */
/* Convolution as a sum of products: with a small kernel, or axis by axis with a separable one. A thread works on blocks
 * of output whose samples fit the L2 cache, plane by plane: each plane is filtered along x and y once, and completes
 * the results of which it is the last plane. Positions of blocks are fixed relative to the image, because a constant is
 * subtracted from each plane of a block; taps are added in one order, each row of them as a sum of its own. */
#include "local/convolve_internal.h"

#include "base/err.h"
#include "base/size.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { WIDE = 256, HIGH = 32, PAST = 64 };

struct convolve_direct_work {
    char *plane[2];              /* separable: samples; samples after the filter along x */
    char *stack;                 /* planes of a block and its kernel's reach, input of the last filter */
    char *out[4];
    double *plane_less, *off;    /* constant subtracted from each plane of samples; from the planes under a kernel */
    int64_t row, rows, planes;   /* samples of a row, rows of a plane, planes */
};

/* Filters four rows with set `set` of taps, of n[] samples; rows with to[i] NULL are not wanted. */
static void four(const struct vp_convolve_job *j, const char *from, int64_t row, int64_t plane, int set,
                 const int64_t n[3], char *const *to, int64_t wide)
{
    const struct vp_convolve_rows r = {.from = from, .row = row, .plane = plane, .taps = j->c->taps[set], .nx = n[0],
                                       .ny = n[1], .nz = n[2], .to = {to[0], to[1], to[2], to[3]}, .n = wide};
    (j->p->exact ? j->c->isa->rows_f64 : j->c->isa->rows)(&r);
}

static int64_t size_of(const struct vp_convolve_params *p)
{
    return p->exact ? sizeof(double) : sizeof(float);
}

/* Sizes of a block; for a separable kernel more planes pay. */
static int64_t depth(const struct vp_convolve_params *p)
{
    return p->n[2] == 1 ? 1 : p->cpu->method == VP_SEPARABLE ? 64 : 8;
}

static size_t workspace_layout(struct convolve_direct_work *w, const struct vp_convolve_params *p, void *mem)
{
    const int64_t size = size_of(p);
    size_t at = 0;

    w->row = (WIDE + p->n[0] - 1 + PAST + 15) / 16 * 16;
    w->rows = HIGH + p->n[1] - 1 + 3;
    w->planes = depth(p) + p->n[2] - 1;
    for (int i = 0; i < 2; i++)
        w->plane[i] = vp_place(mem, &at, p->cpu->method == VP_SEPARABLE ? (size_t)(w->row * w->rows * size) : 0);
    w->stack = vp_place(mem, &at, (size_t)(w->row * w->rows * w->planes * size));
    for (int i = 0; i < 4; i++)
        w->out[i] = vp_place(mem, &at, (size_t)((WIDE + PAST) * size));
    w->plane_less = vp_place(mem, &at, (size_t)w->planes * sizeof *w->plane_less);
    w->off = vp_place(mem, &at, (size_t)p->n[2] * sizeof *w->off);
    return at;
}

uint64_t vp_convolve_direct_scratch(const struct vp_op *op, int threads)
{
    struct convolve_direct_work w;

    return workspace_layout(&w, op->params, NULL) * (uint64_t)threads;
}

/* Computes the constants subtracted from the planes under the kernel, for results of plane z of a block: plane k of the
 * kernel is over plane z + n[2] - 1 - k of samples. */
static struct vp_convolve_less less_of(const struct vp_convolve_params *p, const struct convolve_direct_work *w,
                                       int64_t z)
{
    const double *const less = w->plane_less + z + p->n[2] - 1, base = less[-p->centre[2]];
    bool any = false;

    for (int64_t k = 0; k < p->n[2]; k++) {
        w->off[k] = less[-k] - base;
        any = any || w->off[k] != 0;
    }
    return (struct vp_convolve_less){.base = base, .off = any ? w->off : NULL};
}

/* Makes the results of a block. */
static int block(const struct vp_convolve_job *j, const struct vp_box *box, void *mem, bool *bad, struct vp_err *err)
{
    const struct vp_convolve_params *p = j->p;
    const int64_t *at = box->lo, size[3] = {vp_box_size(box, 0), vp_box_size(box, 1), vp_box_size(box, 2)};
    const bool separable = j->c->method == VP_SEPARABLE;
    struct convolve_direct_work w;
    workspace_layout(&w, p, mem);
    const int64_t wide = size[0] + p->n[0] - 1, high = size[1] + p->n[1] - 1, deep = size[2] + p->n[2] - 1;
    const int64_t plane = w.row * w.rows, row_bytes = w.row * size_of(p), plane_bytes = row_bytes * w.rows;
    const int final = !separable ? 0 : p->n[2] > 1 ? 2 : p->n[1] > 1 ? 1 : 0; /* last filter */
    const int64_t last[3] = {!separable || final == 0 ? p->n[0] : 1, !separable || final == 1 ? p->n[1] : 1,
                             !separable || final == 2 ? p->n[2] : 1};
    int before[2], filters = 0;

    (void)err;
    for (int a = 0; a < final; a++)
        if (p->n[a] > 1) /* else its factor is 1 */
            before[filters++] = a;
    for (int64_t top = 0; top < deep; top++) {
        char *from = filters ? w.plane[0] : w.stack + top * plane_bytes;
        const int64_t in_z = at[2] + p->centre[2] - (p->n[2] - 1) + top, from_z = vp_convolve_place(j, 2, in_z);
        w.plane_less[top] = vp_convolve_constant(j, box, from_z < 0 ? in_z : from_z);
        for (int64_t y = 0; y < high; y++)
            *bad |= vp_convolve_load(j, from + y * row_bytes, at[0] + p->centre[0] - (p->n[0] - 1), wide,
                                     at[1] + p->centre[1] - (p->n[1] - 1) + y, in_z, w.plane_less[top]);
        for (int f = 0; f < filters; f++) {
            const int a = before[f];
            const int64_t n[3] = {a == 0 ? p->n[0] : 1, a == 1 ? p->n[1] : 1, 1}, rows = a == 0 ? high : size[1];
            char *const made = f == filters - 1 ? w.stack + top * plane_bytes : w.plane[1];
            for (int64_t y = 0; y < rows; y += 4) {
                char *to[4];
                for (int i = 0; i < 4; i++)
                    to[i] = y + i < rows ? made + (y + i) * row_bytes : NULL;
                four(j, from + y * row_bytes, w.row, plane, a, n, to, size[0]);
            }
            from = made;
        }
        const int64_t z = top - (p->n[2] - 1);
        if (z < 0)
            continue;
        struct vp_convolve_less less = less_of(p, &w, z);
        for (int64_t y = 0; y < size[1]; y += 4) {
            four(j, w.stack + z * plane_bytes + y * row_bytes, w.row, plane, final, last,
                       w.out, size[0]);
            for (int64_t i = 0; i < vp_min64(4, size[1] - y); i++)
                vp_convolve_store(j, w.out[i], at[0], size[0], at[1] + y + i, at[2] + z, &less);
        }
    }
    return 0;
}

int vp_convolve_direct(struct vp_convolve_job *j, void *scratch, int threads, struct vp_err *err)
{
    const int64_t side[3] = {WIDE, HIGH, depth(j->p)};
    struct convolve_direct_work w;
    const size_t bytes = workspace_layout(&w, j->p, NULL);

    memset(scratch, 0, bytes * (size_t)threads); /* ends of rows are read, but not used */
    return vp_convolve_tiles(j, side, bytes, scratch, threads, block, err);
}

/* Makes taps [z][y][x] in the order of samples, with three rows of zeros before and after those of each plane; k NULL:
 * those of the kernel. Sets the block. */
static int make_taps(const struct vp_convolve_params *p, int set, const double *k, const int64_t n[3],
                     struct vp_err *err)
{
    const int64_t rows = n[1] + 6, all = n[0] * n[1] * n[2];
    void *const t = p->cpu->taps[set] = vp_alloc((size_t)(n[0] * rows * n[2]), (size_t)size_of(p), "the taps", err);

    memcpy(p->cpu->out, (const int64_t[]){WIDE, HIGH, 1}, sizeof p->cpu->out);
    for (int64_t i = 0; t && i < all; i++) {
        const int64_t to = (i / n[0] / n[1] * rows + 3 + i / n[0] % n[1]) * n[0] + i % n[0];
        const double tap = k ? k[all - 1 - i] : vp_convolve_kernel_at(p, all - 1 - i);
        if (p->exact)
            ((double *)t)[to] = tap;
        else
            ((float *)t)[to] = (float)tap;
    }
    return t ? 0 : -1;
}

/* True if a kernel is a product of one along each axis, to the precision of its samples; factor[a] are then these. */
static bool is_product(const struct vp_convolve_params *p, double *const factor[3])
{
    const int64_t n = p->n[0] * p->n[1] * p->n[2], step[3] = {1, p->n[0], p->n[0] * p->n[1]};
    int64_t top = 0;

    for (int64_t i = 0; i < n; i++)
        top = fabs(vp_convolve_kernel_at(p, i)) > fabs(vp_convolve_kernel_at(p, top)) ? i : top;
    const double most = vp_convolve_kernel_at(p, top);
    const int64_t at[3] = {top % p->n[0], top / p->n[0] % p->n[1], top / p->n[0] / p->n[1]};
    const int first = p->n[0] > 1 ? 0 : p->n[1] > 1 ? 1 : 2; /* includes the scale: the others are 1 at the largest sample */
    if (most == 0)
        return false;
    for (int a = 0; a < 3; a++)
        for (int64_t i = 0; i < p->n[a]; i++) {
            const double f = vp_convolve_kernel_at(p, top + (i - at[a]) * step[a]) / (a == first ? 1 : most);
            factor[a][i] = p->exact ? f : (float)f;
        }
    double off = 0, sum = 0;
    for (int64_t i = 0; i < n; i++) {
        const double one = vp_convolve_kernel_at(p, i);
        off += fabs(factor[0][i % p->n[0]] * factor[1][i / p->n[0] % p->n[1]] * factor[2][i / p->n[0] / p->n[1]] - one);
        sum += fabs(one);
    }
    return off <= (p->exact ? 1e-15 : 1.5e-7) * sum;
}

bool vp_convolve_separable(const struct vp_convolve_params *p, struct vp_err *err)
{
    double *factor[3] = {NULL, NULL, NULL};
    bool ok = true;

    for (int a = 0; a < 3; a++)
        ok = (factor[a] = vp_alloc((size_t)p->n[a], sizeof *factor[a], "the factors of the kernel", err)) && ok;
    ok = ok && is_product(p, factor);
    for (int a = 0; a < 3 && ok; a++) {
        const int64_t n[3] = {a == 0 ? p->n[0] : 1, a == 1 ? p->n[1] : 1, a == 2 ? p->n[2] : 1};
        ok = !make_taps(p, a, factor[a], n, err);
    }
    for (int a = 0; a < 3; a++)
        free(factor[a]);
    return ok;
}

int vp_convolve_direct_make(struct vp_convolve_params *p, struct vp_err *err)
{
    return make_taps(p, 0, NULL, p->n, err);
}
