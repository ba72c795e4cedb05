/* SPDX-License-Identifier: BSD-3-Clause */
/* pdhg-tv: primal-dual hybrid gradients (Chambolle and Pock 2011) for
 *
 *     least (y - A x)'W(y - A x) / 2 + tv TV(x), min <= x <= max,
 *
 * with a dual q of the projections, of W^(1/2) A, and a dual p of the differences D of neighbours, |p| <= tv:
 *
 *     x += -tau (g + D'p, extrapolated), within the bounds        g = A'W^(1/2) q
 *     q  = (q + s W^(1/2) (A x - y)) / (1 + s)
 *     p  = p + r D x, cut to tv
 *
 * q is as large as the projections, but enters by g alone, and its update is linear with one factor for all pixels: so g
 * is updated with A'W(A x - y), which is what a pass sums, and only volumes are held. It is the dual form of the
 * algorithm: the duals are extrapolated, not x, so the pass measures the residual of the volume that the iteration made.
 *
 * The method converges if tau (s |A'W A| + r |D'D|) <= 1 (Condat 2013). |A'W A| is at most the norm (iterate_norm.c), |D'D|
 * 4 for each axis. */
#include "ct/iterate_internal.h"

#include "base/size.h"
#include "base/stats.h"

#include <math.h>

enum { PD_DATA, PD_NORM };              /* |y|^2, the norm */
enum { PD_G, PD_P, PD_H = PD_P + 3 };   /* volumes: g, three of p, the extrapolated sum */

/* s, a damping: less is faster at first, but small structures swing longer; and the part of 1 that tau s |A'W A| takes.
 * Errors of a measured slice (examples/few-views.sh, 36 views, 60 iterations; the limit is 0.056), part 0.8: s 0.03 0.0625,
 * 0.1 0.0580, 0.3 0.0706; s 0.1, part 0.3 0.0652, 0.5 0.0600, 0.95 0.0593. */
static const double S = 0.1, PART = 0.8;

struct duals {
    struct vp_iteration *it;
    const float *x;
    float *g, *p[3], *h;
    float r, tv;            /* step of p, and its bound */
};

/* Returns the transposed differences of p at voxel i of a row that begins at `at`, in row j of slice k. */
static inline float transposed(const struct duals *d, int64_t at, int64_t i, int64_t j, int64_t k)
{
    const int64_t m = at + i;
    float sum = -d->p[0][m] - d->p[1][m] - d->p[2][m];
    sum += i > 0 ? d->p[0][m - 1] : 0;
    sum += j > 0 ? d->p[1][m - d->it->job->grid->n[0]] : 0;
    sum += k > 0 ? d->p[2][m - d->it->page] : 0;
    return sum;
}

/* Updates g, and leaves in h, which holds A'W(y - A x), the part of the extrapolation 2 (g + D'p) - (g + D'p before) that
 * does not need the next p. */
static void update_g(const void *ctx, int64_t row)
{
    const struct duals *d = ctx;
    const int64_t *n = d->it->job->grid->n, at = row * n[0], j = row % n[1], k = row / n[1];
    for (int64_t i = 0; i < n[0]; i++) {
        const double before = (double)d->g[at + i], next = (before - S * (double)d->h[at + i]) / (1 + S);
        d->g[at + i] = (float)next;
        d->h[at + i] = (float)(2 * next - before - (double)transposed(d, at, i, j, k));
    }
}

static void update_p(const void *ctx, int64_t row)
{
    const struct duals *d = ctx;
    const int64_t *n = d->it->job->grid->n, page = d->it->page, at = row * n[0], j = row % n[1], k = row / n[1];
    const float *x = d->x + at;
    float *px = d->p[0] + at, *py = d->p[1] + at, *pz = d->p[2] + at;
    for (int64_t i = 0; i < n[0]; i++) {
        const float a = px[i] + d->r * (i + 1 < n[0] ? x[i + 1] - x[i] : 0);
        const float b = py[i] + d->r * (j + 1 < n[1] ? x[i + n[0]] - x[i] : 0);
        const float c = pz[i] + d->r * (k + 1 < n[2] ? x[i + page] - x[i] : 0);
        const float size = sqrtf(a * a + b * b + c * c), by = size > d->tv ? d->tv / size : 1;
        px[i] = a * by;
        py[i] = b * by;
        pz[i] = c * by;
    }
}

static void extrapolate(const void *ctx, int64_t row)
{
    const struct duals *d = ctx;
    const int64_t *n = d->it->job->grid->n, at = row * n[0], j = row % n[1], k = row / n[1];
    for (int64_t i = 0; i < n[0]; i++)
        d->h[at + i] += 2 * transposed(d, at, i, j, k);
}

/* Updates the duals of x. */
static int ascend(struct vp_iteration *it, struct vp_iterate_state *state, struct vp_pass_sums *sums, struct vp_err *err)
{
    const struct vp_iterate *const job = it->job;
    const int64_t *n = job->grid->n;
    const double tau = PART / (S * job->norm);
    float *const *const volume = it->volume;
    const int axes = (n[0] > 1) + (n[1] > 1) + (n[2] > 1);
    const struct duals d = {.it = it, .x = job->x, .g = volume[PD_G], .p = {volume[PD_P], volume[PD_P + 1], volume[PD_P + 2]},
                      .h = volume[PD_H], .tv = (float)job->tv,
                      .r = (float)((1 - PART) / (4 * tau * (axes > 0 ? axes : 1)))};
    vp_iterate_clear(it, d.h);
    if (vp_iterate_pass(it, VP_ITERATE_RESIDUAL, it->order, it->views, job->x, d.h, sums, err))
        return -1;
    const double begun = vp_now();
    state->scalar[PD_DATA] = sums->data;
    vp_iterate_next(it, d.p[2], false);
    vp_iterate_rows(it, &(struct vp_slice_use){.read = {d.p[0], d.p[1], d.p[2]}, .write = {d.g, d.h}}, update_g, &d);
    vp_iterate_rows(it, &(struct vp_slice_use){.read = {d.x}, .write = {d.p[0], d.p[1], d.p[2]}}, update_p, &d);
    vp_iterate_next(it, d.p[2], false);
    vp_iterate_rows(it, &(struct vp_slice_use){.read = {d.p[0], d.p[1], d.p[2]}, .write = {d.h}}, extrapolate, &d);
    vp_stats_time(job->stats, "prox", vp_now() - begun);
    return 0;
}

static int start_duals(struct vp_iteration *it, struct vp_iterate_state *state, bool resumed, struct vp_err *err)
{
    struct vp_pass_sums sums;
    if (resumed) {
        it->job->norm = state->scalar[PD_NORM];
        return 0;
    }
    if (vp_iterate_norm(it, err))
        return -1;
    state->scalar[PD_NORM] = it->job->norm;
    for (int i = PD_G; i < PD_H; i++)
        vp_iterate_clear(it, it->volume[i]);
    return ascend(it, state, &sums, err);
}

/* x += factor by, within the mask and the bounds */
static void descend(void *ctx, int64_t at, int64_t n, struct vp_volume_sums *sums)
{
    const struct vp_update *u = ctx;
    for (int64_t i = at; i < at + n; i++) {
        const float before = u->x[i];
        if (!u->mask || u->mask[i] != 0)
            u->x[i] = vp_update_bounded(u->job, (double)before + u->factor * (double)u->by[i]);
        vp_update_count(sums, before, u->x[i]);
    }
}

static int step_duals(struct vp_iteration *it, struct vp_iterate_state *state, struct vp_iterate_line *line,
                      struct vp_volume_sums *sums, struct vp_err *err)
{
    struct vp_iterate *const job = it->job;
    struct vp_pass_sums t;
    line->step = PART / (S * job->norm);
    *sums = vp_iterate_update(it, descend, (struct vp_update){.x = job->x, .by = it->volume[PD_H], .factor = -line->step});
    if (ascend(it, state, &t, err))
        return -1;
    line->residual = sqrt(t.square);
    line->relative = t.data > 0 ? sqrt(t.square / t.data) : 0;
    line->objective = t.square / 2 + job->tv * vp_iterate_variation(it, job->x);
    return 0;
}

const struct vp_method vp_method_pdhg_tv = {
    .name = "pdhg-tv", .options = " min max tv norm ", .iterations = 100, .volumes = 5, .kept = 6, .scalars = 2,
    .start = start_duals, .step = step_duals,
};
