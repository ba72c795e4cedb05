/* SPDX-License-Identifier: BSD-3-Clause */
/* cgls: conjugate gradients on the normal equations, whose residual is that of the volume after the step. */
#include "ct/iterate_internal.h"

#include "base/err.h"
#include "base/spill.h"

#include <math.h>

/* x = by + factor x */
static void scale_and_add(void *ctx, int64_t at, int64_t n, struct vp_volume_sums *sums)
{
    const struct vp_update *u = ctx;
    (void)sums;
    for (int64_t i = at; i < at + n; i++)
        u->x[i] = (float)((double)u->by[i] + u->factor * (double)u->x[i]);
}

enum { CG_SQUARE, CG_DATA, CG_GAMMA, CG_FIRST }; /* |r|^2, |y|^2, |s|^2, and the first of these */

/* Makes s = A'W (y - A x), and |r|^2, of the samples. Volumes: p, s, and A'W A p unless the pair gives it. */
static int renew(struct vp_iteration *it, struct vp_iterate_state *state, bool zero, struct vp_err *err)
{
    struct vp_pass_sums sums;
    float *const s = it->volume[1];
    vp_iterate_clear(it, s);
    if (vp_iterate_pass(it, VP_ITERATE_RESIDUAL, it->order, it->views, zero ? NULL : it->job->x, s, &sums, err))
        return -1;
    if (!(sums.weights > 0))
        return vp_fail(err, VP_ERUN, "the weights of all pixels are 0");
    vp_iterate_cut_out(it, s);
    state->scalar[CG_SQUARE] = sums.square;
    state->scalar[CG_DATA] = sums.data;
    return 0;
}

static int start_gradients(struct vp_iteration *it, struct vp_iterate_state *state, bool resumed, struct vp_err *err)
{
    if (resumed)
        return 0;
    if (renew(it, state, !it->job->started, err))
        return -1;
    vp_iterate_copy(it, it->volume[0], it->volume[1]);
    state->scalar[CG_GAMMA] = state->scalar[CG_FIRST] = vp_iterate_dot(it, it->volume[1], it->volume[1]);
    return 0;
}

struct gradient {
    struct vp_iteration *it;
    float *s;
    double alpha;
};

/* s -= alpha w within the mask, for slices of w as they come from a device. */
static void subtract_slices(void *ctx, int64_t z, int64_t n, const float *w)
{
    const struct gradient *g = ctx;
    const float *const mask = g->it->job->mask;
    const int threads = vp_pair_give_threads(g->it->pair);
    const int64_t first = z * g->it->page;
    const uint64_t bytes = (uint64_t)(n * g->it->page) * sizeof *w;
    if (!vp_spill_fetch(g->s + first, bytes, true) || (mask && !vp_spill_fetch(mask + first, bytes, false)))
        return; /* vp_spill_check() */
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t i = 0; i < n * g->it->page; i++) {
        const float by = !mask || mask[first + i] != 0 ? 0.0f + w[i] : 0; /* no negative zeros */
        g->s[first + i] = (float)((double)g->s[first + i] - g->alpha * (double)by);
    }
    vp_spill_leave(g->s + first, bytes, true);
    if (mask)
        vp_spill_leave(mask + first, bytes, false);
}

static int step_gradients(struct vp_iteration *it, struct vp_iterate_state *state, struct vp_iterate_line *line,
                          struct vp_volume_sums *sums, struct vp_err *err)
{
    struct vp_iterate *const job = it->job;
    float *const p = it->volume[0], *const s = it->volume[1], *const w = it->volume[2];
    struct vp_pass_sums t = {0};
    double *const c = state->scalar, gamma = c[CG_GAMMA];
    if (w)
        vp_iterate_clear(it, w);
    if (gamma > 0 && vp_iterate_pass(it, VP_ITERATE_NORMAL, it->order, it->views, p, w, &t, err))
        return -1;
    const double alpha = t.square > 0 ? gamma / t.square : 0;
    if (!w && gamma > 0 && vp_pair_give(it->pair, subtract_slices, &(struct gradient){it, s, alpha}, err))
        return -1;
    *sums = vp_iterate_add(it, job->x, alpha, p);
    if (w) {
        vp_iterate_cut_out(it, w);
        vp_iterate_add(it, s, -alpha, w);
    }
    c[CG_SQUARE] = fmax(c[CG_SQUARE] - alpha * gamma, 0);
    if (state->iteration % VP_ITERATE_RENEWAL == 0 && alpha > 0 && vp_iterate_rereads(job) && renew(it, state, false, err))
        return -1;
    c[CG_GAMMA] = vp_iterate_dot(it, s, s);
    vp_iterate_update(it, scale_and_add, (struct vp_update){.x = p, .by = s, .factor = gamma > 0 ? c[CG_GAMMA] / gamma : 0});
    line->residual = sqrt(c[CG_SQUARE]);
    line->relative = c[CG_DATA] > 0 ? sqrt(c[CG_SQUARE] / c[CG_DATA]) : 0;
    line->objective = c[CG_SQUARE] / 2;
    line->step = alpha;
    line->gradient = c[CG_FIRST] > 0 ? sqrt(c[CG_GAMMA] / c[CG_FIRST]) : 0;
    line->converged = !(c[CG_GAMMA] > 0 && alpha > 0);
    return 0;
}

const struct vp_method vp_method_cgls = {
    .name = "cgls", .options = " gradient ", .iterations = 10, .volumes = 3, .kept = 3, .scalars = 4, .gives = true,
    .reads = VP_ITERATE_RENEWAL - 1, .start = start_gradients, .step = step_gradients,
};
