/* SPDX-License-Identifier: BSD-3-Clause */
/* Rows of samples for convolution, minus a constant and with samples outside by the edge rule, and rows of results, to
 * which the constant's response is added: so rounding errors scale with the contrast, not with the grey value. */
#include "local/convolve_internal.h"

#include "base/err.h"
#include "base/size.h"
#include "engine/chain.h"

#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

int64_t vp_convolve_place(const struct vp_convolve_job *j, int axis, int64_t q)
{
    const struct vp_convolve_params *p = j->p;
    const int64_t n = j->op->image[axis];

    if (q >= j->lo[axis] && q < j->hi[axis])
        return q;
    /* no result depends on it: a tile extends beyond the image */
    if (q < p->centre[axis] - (p->n[axis] - 1) || q >= n + p->centre[axis])
        return -1;
    if (!vp_convolve_makes_up(p))
        return -1;
    return j->lo[axis] + vp_edge_from(p->edge, q - j->lo[axis], j->hi[axis] - j->lo[axis]);
}

static double sample(enum vp_type type, const void *row, int64_t i)
{
    switch (type) {
    case VP_U8: return ((const uint8_t *)row)[i];
    case VP_U16: return ((const uint16_t *)row)[i];
    case VP_I16: return ((const int16_t *)row)[i];
    case VP_F32: return ((const float *)row)[i];
    default: return ((const double *)row)[i];
    }
}

bool vp_convolve_load(const struct vp_convolve_job *j, void *row, int64_t x, int64_t n, int64_t y, int64_t z,
                      double less)
{
    const struct vp_convolve_params *p = j->p;
    const size_t size = vp_type_size(p->in), wide = p->exact ? sizeof(double) : sizeof(float);
    const int64_t from_y = vp_convolve_place(j, 1, y), from_z = vp_convolve_place(j, 2, z);
    const int64_t a = vp_min64(vp_max64(j->lo[0] - x, 0), n), b = vp_max64(vp_min64(j->hi[0] - x, n), a);
    char *const to = row;
    bool bad = false;

    if (from_y < 0 || from_z < 0) {
        memset(to, 0, (size_t)n * wide);
        return false;
    }
    if (b > a)
        bad = j->c->isa->load(to + (size_t)a * wide, vp_part_at(j->in, size, x + a, from_y, from_z), p->in, b - a, less);
    if (b - a == n)
        return bad;
    memset(to, 0, (size_t)a * wide);
    memset(to + (size_t)b * wide, 0, (size_t)(n - b) * wide);
    const void *const first = vp_part_at(j->in, size, j->in->box.lo[0], from_y, from_z);
    for (int64_t i = a ? 0 : b; vp_convolve_makes_up(p) && i < n; i = i + 1 == a ? b : i + 1) {
        const int64_t at = vp_convolve_place(j, 0, x + i);
        const double v = at < 0 ? less : sample(p->in, first, at - j->in->box.lo[0]);
        bad |= !isfinite(v);
        if (p->exact)
            ((double *)row)[i] = isfinite(v) ? v - less : 0;
        else
            ((float *)row)[i] = isfinite(v) ? (float)v - (float)less : 0;
    }
    return bad;
}

double vp_convolve_constant(const struct vp_convolve_job *j, const struct vp_box *box, int64_t z)
{
    static const int at[][2] = {{2, 2}, {1, 1}, {3, 3}, {3, 1}, {1, 3}}; /* quarters of the box */
    enum { N = sizeof at / sizeof *at };
    double v[N];
    int n = 0;

    z = vp_min64(vp_max64(z, j->lo[2]), j->hi[2] - 1);
    for (int i = 0; i < N; i++) {
        int64_t q[2];
        for (int a = 0; a < 2; a++)
            q[a] = vp_min64(vp_max64(box->lo[a] + vp_box_size(box, a) * at[i][a] / 4, j->lo[a]), j->hi[a] - 1);
        const double one = sample(j->p->in, vp_part_at(j->in, vp_type_size(j->p->in), q[0], q[1], z), 0);
        int k = n;
        if (!isfinite(one))
            continue;
        for (; k > 0 && v[k - 1] > one; k--)
            v[k] = v[k - 1];
        v[k] = one;
        n++;
    }
    return n ? v[n / 2] : 0;
}

bool vp_convolve_is_spiked(const struct vp_convolve_params *p, const double *most, int64_t n, double base)
{
    const double far = 1 / 65536.0, top = p->exact ? 1e290 : 1e30; /* below this, transforms do not overflow */
    double largest = 0, rest = 0;
    int64_t high = 0;

    for (int64_t i = 0; i < n; i++)
        largest = most[i] > largest ? most[i] : largest;
    for (int64_t i = 0; i < n; i++) {
        const bool one = most[i] > largest * far;
        high += one;
        rest = one || most[i] < rest ? rest : most[i];
    }
    return largest > top || (4 * high < n && (rest > 0 || base != 0));
}

/* ---- results ---- */

/* Finds the samples of a kernel over the image along one axis: indices a ... b - 1. */
static void inside(const struct vp_convolve_job *j, int axis, int64_t at, int64_t *a, int64_t *b)
{
    const struct vp_convolve_params *p = j->p;

    *a = vp_min64(vp_max64(at + p->centre[axis] - j->hi[axis] + 1, 0), p->n[axis]);
    *b = vp_max64(vp_min64(at + p->centre[axis] - j->lo[axis] + 1, p->n[axis]), *a);
}

static double sum_of(const struct vp_convolve_params *p, int64_t node, const int64_t a[3], const int64_t b[3])
{
    const int64_t row = p->n[0] + 1, plane = row * (p->n[1] + 1);
    const double *s = p->sums + node * plane * (p->n[2] + 1);
    if (a[1] == 0 && b[1] == p->n[1] && a[2] == 0 && b[2] == p->n[2]) /* outside the image in x: the most frequent case */
        return s[p->n[2] * plane + p->n[1] * row + b[0]] - s[p->n[2] * plane + p->n[1] * row + a[0]];
#define AT(x, y, z) s[(z) * plane + (y) * row + (x)]
#define FLAT(z) (AT(b[0], b[1], z) - AT(a[0], b[1], z) - AT(b[0], a[1], z) + AT(a[0], a[1], z))
    return FLAT(b[2]) - FLAT(a[2]);
}

/* Computes the share of less->off for a kernel whose planes a ... b - 1 are over the image. */
static double sum_off(const struct vp_convolve_params *p, const struct vp_convolve_less *less, const int64_t a[3],
                      const int64_t b[3])
{
    double sum = 0;

    for (int64_t k = a[2]; less->off && k < b[2]; k++)
        if (less->off[k] != 0)
            sum += less->off[k] * sum_of(p, 0, (const int64_t[]){a[0], a[1], k}, (const int64_t[]){b[0], b[1], k + 1});
    return sum;
}

/* Computes the ending of a voxel whose kernel is over the image with its samples a[] ... b[] - 1. */
static struct vp_convolve_ending ending_at(const struct vp_convolve_job *j, const int64_t at[3], const int64_t a[3],
                                           const int64_t b[3], const struct vp_convolve_less *less)
{
    const struct vp_convolve_params *p = j->p;
    const bool grid = vp_convolve_is_grid(p);
    double all = grid ? 0 : p->total[0], in = grid ? 0 : sum_of(p, 0, a, b);
    int64_t lo[2], hi[2];

    for (int i = 0; grid && i < 2; i++)
        vp_convolve_nodes_near(p, i, at[i], at[i] + 1, &lo[i], &hi[i]);
    for (int64_t v = lo[1]; grid && v <= hi[1]; v++) {
        const double wy = vp_convolve_weight(p, 1, v, at[1]);
        for (int64_t u = lo[0]; u <= hi[0] && wy != 0; u++) {
            const double w = wy * vp_convolve_weight(p, 0, u, at[0]);
            if (w == 0)
                continue;
            all += w * p->total[v * p->nodes[0] + u];
            in += w * sum_of(p, v * p->nodes[0] + u, a, b);
        }
    }
    const double off = less->off ? sum_off(p, less, a, b) : 0;
    if (p->edge == VP_EDGE_ZERO)
        return (struct vp_convolve_ending){1, off + less->base * in};
    return in != 0 ? (struct vp_convolve_ending){all / in, off * (all / in) + less->base * all} : (struct vp_convolve_ending){0, 0};
}

/* Applies the endings to n results. */
static void end_each(const struct vp_convolve_params *p, void *v, int64_t n, const struct vp_convolve_ending *e)
{
    for (int64_t i = 0; i < n && p->exact; i++)
        ((double *)v)[i] = ((double *)v)[i] * e[i].factor + e[i].more;
    for (int64_t i = 0; i < n && !p->exact; i++)
        ((float *)v)[i] = (float)(((float *)v)[i] * e[i].factor + e[i].more);
}

static void end_run(const struct vp_convolve_params *p, void *v, int64_t n, struct vp_convolve_ending e)
{
    for (int64_t i = 0; i < n && p->exact; i++)
        ((double *)v)[i] = ((double *)v)[i] * e.factor + e.more;
    for (int64_t i = 0; i < n && !p->exact; i++)
        ((float *)v)[i] = (float)(((float *)v)[i] * e.factor + e.more);
}

/* Adds the response to the constant (times the sum of their kernels) to results x ... x + n - 1, away from edges. */
static void add_constant(const struct vp_convolve_job *j, void *v, int64_t x, int64_t n, int64_t y,
                         const struct vp_convolve_less *less)
{
    const struct vp_convolve_params *p = j->p;
    int64_t lo, hi, c = 0;

    if (!vp_convolve_is_grid(p)) {
        const double more = vp_convolve_more(p, less);
        if (p->exact)
            end_run(p, v, n, (struct vp_convolve_ending){1, more});
        else
            j->c->isa->add(v, (float)more, n);
        return;
    }
    vp_convolve_nodes_near(p, 1, y, y + 1, &lo, &hi);
    for (int64_t q = x; q < x + n;) {
        while (p->start[0][c + 1] <= q)
            c++;
        const int64_t end = vp_min64(p->start[0][c + 1], x + n), nodes = p->nodes[0];
        const int64_t left = vp_max64(c - 1, 0), right = vp_min64(c, nodes - 1);
        double first = 0, second = 0;
        for (int64_t i = lo; i <= hi; i++) {
            const double w = vp_convolve_weight(p, 1, i, y);
            first += w * p->total[i * nodes + left];
            second += w * p->total[i * nodes + right];
        }
        first *= less->base;
        second = second * less->base - first;
        for (; q < end; q++) {
            if (p->exact)
                ((double *)v)[q - x] += second == 0 ? first : first + second * vp_convolve_weight(p, 0, right, q);
            else
                ((float *)v)[q - x] += (float)(first + second * p->after[0][q]);
        }
    }
}

double vp_convolve_more(const struct vp_convolve_params *p, const struct vp_convolve_less *less)
{
    double more = less->base * p->total[0];

    for (int64_t k = 0; less->off && k < p->n[2]; k++)
        more += less->off[k] * p->plane[k];
    return more;
}

/* True if results near the edge differ from those inside. With weights of the source they are already complete. */
static bool is_clipped(const struct vp_convolve_params *p)
{
    return p->crop != VP_CROP_VALID && !vp_convolve_makes_up(p);
}

/* Completes a row of one kernel, away from edges along y and z. */
static void complete_row(const struct vp_convolve_job *j, char *v, int64_t x, int64_t n, const int64_t at[3],
                         int64_t a[3], int64_t b[3], struct vp_convolve_less *less)
{
    const struct vp_convolve_params *p = j->p;
    const int64_t size = p->exact ? sizeof(double) : sizeof(float);
    const int64_t left = vp_min64(vp_max64(j->lo[0] + p->n[0] - 1 - p->centre[0] - x, 0), n);
    const int64_t right = vp_max64(vp_min64(j->hi[0] - p->centre[0] - x, n), left);
    struct vp_convolve_ending one, *const known = less->ending;

    if (right > left)
        add_constant(j, v + left * size, x + left, right - left, at[1], less);
    for (int64_t i = left > 0 ? 0 : right; i < n; i = i + 1 == left ? right : i + 1) {
        struct vp_convolve_ending *const e = known ? &known[i] : &one;
        if (!known || less->x0 != x || less->n != n) {
            inside(j, 0, x + i, &a[0], &b[0]);
            *e = ending_at(j, at, a, b, less);
        }
        if (!known)
            end_run(p, v + i * size, 1, one);
    }
    if (!known)
        return;
    less->x0 = x;
    less->n = n;
    end_each(p, v, left, known);
    end_each(p, v + right * size, n - right, known + right);
}

static void complete(const struct vp_convolve_job *j, void *v, int64_t x, int64_t n, int64_t y, int64_t z,
                     struct vp_convolve_less *less)
{
    const struct vp_convolve_params *p = j->p;
    const int64_t size = p->exact ? sizeof(double) : sizeof(float);
    const bool grid = vp_convolve_is_grid(p);
    int64_t a[3], b[3], at[3] = {x, y, z};

    if (p->edge != VP_EDGE_RENORMALIZE && less->base == 0 && !less->off)
        return;
    if (!is_clipped(p)) {
        add_constant(j, v, x, n, y, less);
        return;
    }
    inside(j, 1, y, &a[1], &b[1]);
    inside(j, 2, z, &a[2], &b[2]);
    const bool whole = b[1] - a[1] == p->n[1] && b[2] - a[2] == p->n[2];
    if (whole && !grid) {
        complete_row(j, v, x, n, at, a, b, less);
        return;
    }
    for (int64_t run; at[0] < x + n; at[0] += run) {
        inside(j, 0, at[0], &a[0], &b[0]);
        const bool row = b[0] - a[0] == p->n[0];
        char *const to = (char *)v + (at[0] - x) * size;
        run = row ? vp_min64(x + n, vp_max64(at[0] + 1, j->hi[0] - p->centre[0])) - at[0] : 1;
        if (row && whole) {
            add_constant(j, to, at[0], run, y, less);
            continue;
        }
        run = grid ? 1 : run;
        end_run(p, to, run, ending_at(j, at, a, b, less));
    }
}

void vp_convolve_store(const struct vp_convolve_job *j, void *row, int64_t x, int64_t n, int64_t y, int64_t z,
                       struct vp_convolve_less *less)
{
    const struct vp_convolve_params *p = j->p;
    const struct vp_box *box = &j->out->box;
    const int64_t x0 = vp_max64(x, box->lo[0]), x1 = vp_min64(x + n, box->hi[0]);

    if (x1 <= x0 || y < box->lo[1] || y >= box->hi[1] || z < box->lo[2] || z >= box->hi[2])
        return;
    void *const v = (char *)row + (size_t)(x0 - x) * (p->exact ? sizeof(double) : sizeof(float));
    if (p->weights == VP_WEIGHTS_OUTPUT)
        complete(j, v, x0, x1 - x0, y, z, less);
    void *const to = vp_part_at(j->out, vp_type_size(p->out), x0, y, z);
    if (p->exact)
        vp_convert(to, p->out, v, VP_F64, x1 - x0, 1, 0);
    else
        j->c->isa->store(to, p->out, v, x1 - x0);
}

/* Returns the number of the node after x (nodes: none), and its weight. */
static int64_t cell_at(const struct vp_convolve_params *p, int axis, double x, double *after)
{
    const double *at = p->node[axis];
    const int64_t n = p->nodes[axis];
    int64_t c = 0; /* nodes up to here */

    for (int64_t half = n; half > 0;) { /* the first node after q */
        const int64_t step = half / 2;
        if (at[c + step] <= x) {
            c += step + 1;
            half -= step + 1;
        } else {
            half = step;
        }
    }
    *after = c == 0 ? 1 : c == n ? 0 : (x - at[c - 1]) / (at[c] - at[c - 1]);
    return c;
}

double vp_convolve_weight(const struct vp_convolve_params *p, int axis, int64_t node, int64_t q)
{
    double after;
    const int64_t c = cell_at(p, axis, (double)q, &after);

    if (p->nodes[axis] == 1)
        return 1;
    after = p->exact ? after : (float)after;
    after = node == c ? after : node == c - 1 ? 1 - after : 0;
    return p->exact ? after : (float)after;
}

void vp_convolve_nodes_near(const struct vp_convolve_params *p, int axis, int64_t lo, int64_t hi, int64_t *a,
                            int64_t *b)
{
    const int64_t n = p->nodes[axis];

    *a = 0;
    while (*a < n - 1 && p->node[axis][*a + 1] <= (double)lo)
        ++*a;
    *b = n - 1;
    while (*b > *a && p->node[axis][*b - 1] >= (double)(hi - 1))
        --*b;
}

/* ---- the direct sum ---- */

/* Adds a kernel's products to n sums of row (y, z) from x on; `row` and `weight`: workspace for n samples and its
 * reach. */
static void add_kernel(const struct vp_convolve_job *j, double *sum, int64_t x, int64_t n, int64_t y, int64_t z,
                       double base, int64_t u, int64_t v, void *row, double *weight)
{
    const struct vp_convolve_params *p = j->p;
    const int64_t wide = n + p->n[0] - 1, left = x + p->centre[0] - (p->n[0] - 1);
    const bool source = p->weights == VP_WEIGHTS_SOURCE;

    for (int64_t i = 0; i < wide; i++)
        weight[i] = source ? vp_convolve_weight(p, 0, u, left + i) : 1;
    for (int64_t k = 0; k < p->n[1] * p->n[2]; k++) {
        const int64_t from = y + p->centre[1] - k % p->n[1];
        const double down = source ? vp_convolve_weight(p, 1, v, from) : 1;
        const int64_t taps = ((v * p->nodes[0] + u) * p->n[2] * p->n[1] + k) * p->n[0];
        if (down == 0)
            continue;
        vp_convolve_load(j, row, left, wide, from, z + p->centre[2] - k / p->n[1], base);
        if (j->c->isa->most(row, p->exact, wide) == 0)
            continue;
        for (int64_t t = 0; t < p->n[0]; t++) {
            const double tap = down * vp_convolve_kernel_at(p, taps + p->n[0] - 1 - t);
            for (int64_t i = 0; i < n && p->exact; i++)
                sum[i] += tap * (weight[i + t] * ((double *)row)[i + t]);
            for (int64_t i = 0; i < n && !p->exact; i++)
                sum[i] += tap * (weight[i + t] * ((float *)row)[i + t]);
        }
    }
}

int vp_convolve_sum(const struct vp_convolve_job *j, const struct vp_box *box, double base, void *to,
                    struct vp_err *err)
{
    const struct vp_convolve_params *p = j->p;
    struct vp_convolve_less less = {.base = base};
    const bool source = p->weights == VP_WEIGHTS_SOURCE;
    const int64_t n = vp_box_size(box, 0), wide = n + p->n[0] - 1, x = box->lo[0];
    const size_t size = p->exact ? sizeof(double) : sizeof(float);
    double *const mem = vp_alloc_raw((size_t)(2 * n + 2 * wide), sizeof *mem, "sums of a tile", err);
    double *const all = mem + n, *const weight = mem + 2 * n, *const row = weight + wide;
    int64_t lo[2], hi[2];

    if (!mem)
        return -1;
    for (int64_t z = box->lo[2]; z < box->hi[2]; z++)
        for (int64_t y = box->lo[1]; y < box->hi[1]; y++) {
            vp_convolve_nodes_near(p, 0, source ? x + p->centre[0] - (p->n[0] - 1) : x,
                                   source ? x + n + p->centre[0] : x + n, &lo[0], &hi[0]);
            vp_convolve_nodes_near(p, 1, source ? y + p->centre[1] - (p->n[1] - 1) : y,
                                   source ? y + 1 + p->centre[1] : y + 1, &lo[1], &hi[1]);
            memset(all, 0, (size_t)n * sizeof *all);
            for (int64_t v = lo[1]; v <= hi[1]; v++)
                for (int64_t u = lo[0]; u <= hi[0]; u++) {
                    const double down = source ? 1 : vp_convolve_weight(p, 1, v, y);
                    memset(mem, 0, (size_t)n * sizeof *mem);
                    add_kernel(j, mem, x, n, y, z, base, u, v, row, weight);
                    for (int64_t i = 0; i < n; i++)
                        all[i] += mem[i] * down * (source ? 1 : vp_convolve_weight(p, 0, u, x + i));
                }
            for (int64_t i = 0; i < n && !p->exact; i++)
                ((float *)row)[i] = (float)all[i];
            void *const made = p->exact ? all : row;
            if (to)
                to = (char *)memcpy(to, made, (size_t)n * size) + (size_t)n * size;
            else
                vp_convolve_store(j, made, x, n, y, z, &less);
        }
    free(mem);
    return 0;
}

/* ---- samples that are not finite ---- */

/* Dilates marks in place: sets each of `count` marks, `step` apart, if one of the n marks from it on is set. */
static void spread(unsigned char *mark, int64_t step, int64_t count, int64_t n)
{
    int64_t next = -1; /* last mark seen, from the end */

    for (int64_t i = count - 1; i >= 0; i--) {
        if (mark[i * step])
            next = i;
        mark[i * step] = next >= 0 && next - i < n;
    }
}

static void mark_row(const struct vp_convolve_job *j, unsigned char *mark, int64_t x, int64_t n, int64_t y, int64_t z)
{
    const int64_t from_y = vp_convolve_place(j, 1, y), from_z = vp_convolve_place(j, 2, z);

    memset(mark, 0, (size_t)n);
    if (from_y < 0 || from_z < 0)
        return;
    for (int64_t i = 0; i < n; i++) {
        const int64_t from = vp_convolve_place(j, 0, x + i);
        const void *const at = from < 0 ? NULL : vp_part_at(j->in, vp_type_size(j->p->in), from, from_y, from_z);
        mark[i] = at && !(j->p->in == VP_F64 ? isfinite(*(const double *)at) : isfinite(*(const float *)at));
    }
}

int vp_convolve_spoil(const struct vp_convolve_job *j, const struct vp_box *box, struct vp_err *err)
{
    const struct vp_convolve_params *p = j->p;
    struct vp_box b;
    int64_t n[3];

    for (int a = 0; a < 3; a++) {
        b.lo[a] = vp_max64(box->lo[a], j->out->box.lo[a]);
        b.hi[a] = vp_min64(box->hi[a], j->out->box.hi[a]);
        if (b.hi[a] <= b.lo[a])
            return 0;
        n[a] = vp_box_size(&b, a) + p->n[a] - 1;
    }
    unsigned char *mark = vp_alloc_raw((size_t)(n[0] * n[1] * n[2]), 1, "marks of samples that are not finite", err);
    if (!mark)
        return -1;
    for (int64_t z = 0; z < n[2]; z++)
        for (int64_t y = 0; y < n[1]; y++) {
            unsigned char *const row = mark + (z * n[1] + y) * n[0];
            mark_row(j, row, b.lo[0] - (p->n[0] - 1 - p->centre[0]), n[0], b.lo[1] - (p->n[1] - 1 - p->centre[1]) + y,
                     b.lo[2] - (p->n[2] - 1 - p->centre[2]) + z);
            spread(row, 1, n[0], p->n[0]);
        }
    for (int64_t z = 0; z < n[2]; z++)
        for (int64_t x = 0; x < n[0]; x++)
            spread(mark + z * n[1] * n[0] + x, n[0], n[1], p->n[1]);
    for (int64_t i = 0; p->n[2] > 1 && i < n[1] * n[0]; i++)
        spread(mark + i, n[1] * n[0], n[2], p->n[2]);
    for (int64_t z = b.lo[2]; z < b.hi[2]; z++)
        for (int64_t y = b.lo[1]; y < b.hi[1]; y++) {
            const unsigned char *const row = mark + ((z - b.lo[2]) * n[1] + y - b.lo[1]) * n[0];
            void *const to = vp_part_at(j->out, vp_type_size(p->out), b.lo[0], y, z);
            for (int64_t x = 0; x < vp_box_size(&b, 0); x++)
                if (row[x] && p->out == VP_F64)
                    ((double *)to)[x] = NAN;
                else if (row[x] && p->out == VP_F32)
                    ((float *)to)[x] = NAN;
                else if (row[x]) /* NaN becomes 0 */
                    ((uint32_t *)to)[x] = 0;
        }
    free(mark);
    return 0;
}

/* ---- a box ---- */

int vp_convolve_tiles(struct vp_convolve_job *j, const int64_t side[3], size_t bytes, void *scratch, int threads,
                      int (*make)(const struct vp_convolve_job *j, const struct vp_box *tile, void *mem, bool *bad,
                                  struct vp_err *err),
                      struct vp_err *err)
{
    const int64_t n = vp_box_tiles(&j->out->box, side);
    int rc = 0;

    #pragma omp parallel for num_threads(threads) schedule(dynamic) reduction(min : rc)
    for (int64_t i = 0; i < n; i++) {
        struct vp_err own = VP_ERR_INIT;
        const struct vp_box tile = vp_box_tile(&j->out->box, side, i);
        bool bad = false;
        if (make(j, &tile, (char *)scratch + (size_t)omp_get_thread_num() * bytes, &bad, &own)
            || (bad && vp_convolve_spoil(j, &tile, &own)))
            rc = vp_err_keep(err, &own);
    }
    return rc;
}
