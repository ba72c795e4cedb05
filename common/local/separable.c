/* SPDX-License-Identifier: BSD-3-Clause */
/* Separable filters: their passes (separable_passes.inc) in f32, and the operation; separable.h has the arithmetic. */
#include "local/separable.h"

#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/isa.h"
#include "base/size.h"
#include "local/separable_isa.h"

#define REAL float
#define REAL_TYPE VP_F32
#define TAG(name) vp_separable_##name
#define KERNELS VP_ISA_FIND(vp_separable, NULL)
#define TAPS(t) (*(t))
#define EDGE_TAPS vp_taps_edge
#include "local/separable_passes.inc"

static const struct vp_separable_cpu in_f32 = {scratch, run, &carry};

/* ---- the operation ---- */

int vp_separable_check(const double sigma[3], double truncate, const double spacing[3], struct vp_err *err)
{
    for (int a = 0; a < 3; a++) {
        if (!(sigma[a] >= 0 && isfinite(sigma[a])))
            return vp_fail(err, VP_EUSAGE, "--sigma: expected 0 or more along %c, got %g", "xyz"[a], sigma[a]);
        if (!(spacing[a] > 0 && isfinite(spacing[a])))
            return vp_fail(err, VP_EUSAGE, "the voxel size along %c is %g: expected more than 0", "xyz"[a], spacing[a]);
    }
    if (!(truncate > 0 && isfinite(truncate)))
        return vp_fail(err, VP_EUSAGE, "--truncate: expected more than 0, got %g", truncate);
    return 0;
}

static void add(struct vp_separable_sum *s, const struct vp_taps *taps, int from)
{
    s->term[s->n].taps = taps;
    s->term[s->n++].from = from;
}

void vp_separable_connect(struct vp_separable *p)
{
    struct vp_separable_sum curved = {0}, smooth = {0}; /* p and q of log.h; a single filter has q alone */
    const int last = p->filters - 1;

    p->edge = p->taps[0][0].edge;
    for (int a = 0; a < 3; a++)
        p->radius[a] = p->taps[a][last].radius;
    p->x[p->channels_x++] = &p->taps[0][0];
    if (last && p->radius[0]) {
        p->x[p->channels_x++] = &p->taps[0][1];
        add(&curved, &p->taps[1][0], 1);
    }
    if (last && p->radius[1])
        add(&curved, &p->taps[1][1], 0);
    add(&smooth, &p->taps[1][0], 0);
    if (curved.n) {
        add(&p->z, &p->taps[2][0], p->channels_y);
        p->y[p->channels_y++] = curved;
    }
    if (!last || p->radius[2]) {
        add(&p->z, &p->taps[2][last], p->channels_y);
        p->y[p->channels_y++] = smooth;
    }
}

void vp_separable_free(void *params)
{
    struct vp_separable *const p = params;

    if (!p || --p->users > 0)
        return;
    for (int a = 0; a < 3; a++)
        for (int f = 0; f < p->filters; f++)
            vp_taps_free(&p->taps[a][f]);
    free(p);
}

void vp_separable_stage(struct vp_op *op, const int64_t size[3], const double sigma[3], const char *more)
{
    const struct vp_separable *const p = op->params;
    const struct vp_separable_cpu *const cpu = op->in == VP_F64 ? &vp_separable_f64 : &in_f32;
    const int *const radius = p->radius;
    double steps = 0;

    op->inputs = 1;
    for (int a = 0; a < 3; a++) {
        const struct vp_taps *taps[4];
        op->image[a] = size[a];
        op->halo[a] = p->radius[a];
        if (p->edge == VP_EDGE_WRAP && p->radius[a])
            op->halo[a] = VP_UNKNOWN;
        for (int t = taps_along(p, a, taps) - 1; t >= 0; t--)
            op->holds += vp_taps_edge_floats(taps[t])
                         * (sizeof(float) + (op->in == VP_F64 ? sizeof(double) : 0));
    }
    for (int c = 0; c < p->channels_x; c++)
        steps += p->radius[0];
    for (int c = 0; c < p->channels_y; c++)
        steps += p->y[c].n * p->radius[1];
    op->cost = (1.15 * p->channels_x + 0.036 * (steps + p->z.n * p->radius[2])) * (op->in == VP_F64 ? 2 : 1);
    op->scratch = cpu->scratch;
    op->run = cpu->run;
    op->carry = cpu->carry;
    snprintf(op->text, sizeof op->text, "%s sigma %g %g %g, %d x %d x %d taps%s, %s, %s", op->kernel, sigma[0], sigma[1],
             sigma[2], 2 * radius[0] + 1, 2 * radius[1] + 1, 2 * radius[2] + 1, more, vp_edge_name(p->edge),
             vp_isa_name());
    if (op->in == VP_F64)
        snprintf(op->text + strlen(op->text), sizeof op->text - strlen(op->text), ", in f64");
}
