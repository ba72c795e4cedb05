/* SPDX-License-Identifier: BSD-3-Clause */
/* Completion of results of a grid with weights of the source: adds the subtracted constant times the sum of the
 * weights, computed in double for every voxel (the result of an image of ones), by which results at edges are
 * renormalised. */
#include "local/convolve_internal.h"

#include "base/size.h"

#include <math.h>
#include <string.h>

void vp_convolve_ones_place(struct vp_convolve_ones *o, const struct vp_convolve_params *p, void *mem, size_t *at)
{
    const int64_t *out = p->cpu->out;
    const int64_t on = p->weights == VP_WEIGHTS_SOURCE ? (int64_t)sizeof(double) : 0;

    for (int i = 0; i < 2; i++) {
        o->ones[i] = vp_place(mem, at, (size_t)(out[0] * out[1] * on));
        o->sums[i] = vp_place(mem, at, (size_t)((vp_max64(p->n[0], p->n[1]) + 1) * on));
    }
    o->rows = vp_place(mem, at, (size_t)(out[0] * p->n[1] * on));
}

/* True if a tile's samples are all in the image. */
static bool is_inside(const struct vp_convolve_job *j, const int64_t at[3])
{
    for (int a = 0; a < 3; a++)
        if (at[a] - (j->p->n[a] - 1 - j->p->centre[a]) < j->lo[a]
            || vp_min64(at[a] + j->c->out[a], j->op->image[a]) + j->p->centre[a] > j->hi[a])
            return false;
    return true;
}

/* Makes the weights of a node along an axis, a piecewise linear function: alpha[i] + beta[i] q for at[i] <= q < at[i +
 * 1] (the first and the last piece are unbounded). With `there` it is 0 outside the image. */
struct pieces { int n; int64_t at[8]; double alpha[7], beta[7]; };

static struct pieces pieces_of(const struct vp_convolve_job *j, int axis, int64_t node, bool there)
{
    const struct vp_convolve_params *p = j->p;
    const double *at = p->node[axis];
    const int64_t n = p->nodes[axis], ends[2] = {j->lo[axis], j->hi[axis]};
    int64_t cut[5];
    int cuts = 0;
    struct pieces f = {0};

    for (int64_t i = vp_max64(node - 1, 0); i <= vp_min64(node + 1, n - 1); i++)
        cut[cuts++] = (int64_t)ceil(at[i]);
    for (int e = 0; e < 2 && there; e++) {
        int k = cuts++;
        for (; k > 0 && cut[k - 1] > ends[e]; k--)
            cut[k] = cut[k - 1];
        cut[k] = ends[e];
    }
    for (int i = 0; i <= cuts; i++) {
        const int64_t from = i ? cut[i - 1] : INT64_MIN / 4, end = i < cuts ? cut[i] : INT64_MAX / 4;
        if (from >= end)
            continue;
        const double q = (double)from;
        double alpha = 0, beta = 0;
        if (node > 0 && q >= at[node - 1] && q < at[node]) {
            beta = 1 / (at[node] - at[node - 1]);
            alpha = -at[node - 1] * beta;
        } else if (node < n - 1 && q >= at[node] && q < at[node + 1]) {
            beta = -1 / (at[node + 1] - at[node]);
            alpha = -at[node + 1] * beta;
        } else if ((node == 0 && q < at[0]) || (node == n - 1 && q >= at[n - 1])) {
            alpha = 1;
        }
        if (there && (from < ends[0] || from >= ends[1]))
            alpha = beta = 0;
        f.at[f.n] = from;
        f.alpha[f.n] = alpha;
        f.beta[f.n++] = beta;
        f.at[f.n] = end;
    }
    return f;
}

/* Returns the sum over k = 0 ... n - 1 of values (given by their prefix sums sums[]) times f(q - k). */
static double weighted_sum(const struct pieces *f, double *const sums[2], int64_t n, int64_t q)
{
    double sum = 0;

    for (int i = 0; i < f->n; i++) {
        const int64_t a = vp_min64(vp_max64(q - f->at[i + 1] + 1, 0), n), b = vp_max64(vp_min64(q - f->at[i] + 1, n), a);
        if (b > a && (f->alpha[i] != 0 || f->beta[i] != 0))
            sum += (f->alpha[i] + f->beta[i] * (double)q) * (sums[0][b] - sums[0][a]) - f->beta[i] * (sums[1][b] - sums[1][a]);
    }
    return sum;
}

/* Computes the response of the kernels to ones with weights at the source, everywhere (0) or inside the image (1). */
static void make_ones(const struct vp_convolve_job *j, const struct vp_convolve_ones *w, const int64_t at[3], int which)
{
    const struct vp_convolve_params *p = j->p;
    const struct vp_convolve_cpu *c = j->c;
    const int64_t wide = c->out[0], high = c->out[1], *n = p->n;
    int64_t lo[2], hi[2];

    for (int a = 0; a < 2; a++)
        vp_convolve_nodes_near(p, a, at[a] + p->centre[a] - (n[a] - 1), at[a] + c->out[a] + p->centre[a], &lo[a], &hi[a]);
    memset(w->ones[which], 0, (size_t)(wide * high) * sizeof *w->ones[which]);
    for (int64_t v = lo[1]; v <= hi[1]; v++) {
        const struct pieces down = pieces_of(j, 1, v, which == 1);
        for (int64_t u = lo[0]; u <= hi[0]; u++) {
            const struct pieces across = pieces_of(j, 0, u, which == 1);
            const int64_t k = (v * p->nodes[0] + u) * n[0] * n[1];
            w->sums[0][0] = w->sums[1][0] = 0;
            for (int64_t y = 0; y < n[1]; y++) {
                for (int64_t x = 0; x < n[0]; x++) {
                    const double one = vp_convolve_kernel_at(p, k + y * n[0] + x);
                    w->sums[0][x + 1] = w->sums[0][x] + one;
                    w->sums[1][x + 1] = w->sums[1][x] + (double)x * one;
                }
                for (int64_t x = 0; x < wide; x++)
                    w->rows[y * wide + x] = weighted_sum(&across, w->sums, n[0], at[0] + x + p->centre[0]);
            }
            for (int64_t x = 0; x < wide; x++) {
                for (int64_t y = 0; y < n[1]; y++) {
                    w->sums[0][y + 1] = w->sums[0][y] + w->rows[y * wide + x];
                    w->sums[1][y + 1] = w->sums[1][y] + (double)y * w->rows[y * wide + x];
                }
                for (int64_t y = 0; y < high; y++)
                    w->ones[which][y * wide + x] += weighted_sum(&down, w->sums, n[1], at[1] + y + p->centre[1]);
            }
        }
    }
}

void vp_convolve_store_source(const struct vp_convolve_job *j, const struct vp_convolve_ones *w, const int64_t at[3],
                              void *image, double base)
{
    const struct vp_convolve_params *p = j->p;
    const int64_t *out = j->c->out, n = out[0] * out[1], size = p->exact ? sizeof(double) : sizeof(float);
    const bool scaled = p->edge == VP_EDGE_RENORMALIZE && !is_inside(j, at), all = vp_convolve_makes_up(p);
    struct vp_convolve_less none = {0};

    if (scaled || all)
        make_ones(j, w, at, 0);
    if (scaled || !all)
        make_ones(j, w, at, 1);
    const double *const ones = w->ones[!all];
    for (int64_t i = 0; i < n; i++) {
        const double one = p->exact ? ((double *)image)[i] : ((float *)image)[i];
        const double factor = !scaled ? 1 : w->ones[1][i] != 0 ? w->ones[0][i] / w->ones[1][i] : 0;
        const double made = one * factor + base * (scaled && factor != 0 ? w->ones[0][i] : ones[i]);
        if (p->exact)
            ((double *)image)[i] = made;
        else
            ((float *)image)[i] = (float)made;
    }
    for (int64_t y = 0; y < out[1]; y++)
        vp_convolve_store(j, (char *)image + y * out[0] * size, at[0], out[0], at[1] + y, at[2], &none);
}
