/* SPDX-License-Identifier: BSD-3-Clause */
/* Laplacian of Gaussian in seven 1-D passes; log.h has the arithmetic. */
#include "local/log.h"

#include <stdlib.h>

#include "base/err.h"

static void add(struct vp_separable_sum *s, const struct vp_taps *taps, int from)
{
    s->term[s->n].taps = taps;
    s->term[s->n++].from = from;
}

static struct vp_separable passes(const struct vp_log *l)
{
    struct vp_separable p = {.edge = l->smooth[0].edge, .channels_x = 1, .x = {&l->smooth[0]}};
    struct vp_separable_sum curved = {0}, smooth = {0}; /* p and q of log.h */
    const bool x = l->second[0].radius, y = l->second[1].radius, z = l->second[2].radius;

    for (int a = 0; a < 3; a++)
        p.radius[a] = l->second[a].radius;
    if (x)
        p.x[p.channels_x++] = &l->second[0];
    if (x)
        add(&curved, &l->smooth[1], 1);
    if (y)
        add(&curved, &l->second[1], 0);
    add(&smooth, &l->smooth[1], 0);
    if (curved.n) {
        add(&p.z, &l->smooth[2], p.channels_y);
        p.y[p.channels_y++] = curved;
    }
    if (z) {
        add(&p.z, &l->second[2], p.channels_y);
        p.y[p.channels_y++] = smooth;
    }
    return p;
}

static void free_params(void *params)
{
    struct vp_log *const l = params;

    for (int a = 0; l && a < 3; a++) {
        vp_taps_free(&l->smooth[a]);
        vp_taps_free(&l->second[a]);
    }
    free(l);
}

static int make(struct vp_log *l, const struct vp_log_params *p, struct vp_err *err)
{
    for (int a = 0; a < 3; a++) {
        const double sigma = p->sigma[a], unit = p->normalize ? sigma : 1 / p->spacing[a];
        /* an axis that is left out has taps of radius 0: zeroed but for the edge rule */
        if (sigma == 0) {
            l->smooth[a].edge = l->second[a].edge = p->edge;
            continue;
        }
        if (sigma < 0.25)
            return vp_fail(err, VP_EUSAGE, "--sigma: expected 0 or at least 0.25 voxels along %c, got %g", "xyz"[a],
                           sigma);
        /* both get the radius of a second derivative */
        const double reach = p->truncate * sigma < 2 ? 2 / sigma : p->truncate;
        if (vp_taps_make(&l->smooth[a], sigma, reach, 0, 1, p->edge, err)
            || vp_taps_make(&l->second[a], sigma, reach, 2, unit * unit, p->edge, err))
            return -1;
    }
    l->passes = passes(l);
    return 0;
}

int vp_log_chain(struct vp_chain *c, const struct vp_log_params *p, const int64_t size[3], enum vp_type in,
                 struct vp_err *err)
{
    if (vp_separable_check(p->sigma, p->truncate, p->spacing, err))
        return -1;
    if (p->sigma[0] == 0 && p->sigma[1] == 0 && p->sigma[2] == 0)
        return vp_fail(err, VP_EUSAGE, "--sigma: expected more than 0 along one axis at least");
    struct vp_log *const l = calloc(1, sizeof *l);
    struct vp_op op = {.kernel = "log", .in = in, .out = VP_F32, .from = {c->n ? c->n - 1 : ~0}, .params = l,
                          .free = free_params};
    if (!l)
        return vp_fail(err, VP_ERESOURCE, "out of memory");
    if (make(l, p, err)) {
        free_params(l);
        return -1;
    }
    vp_separable_stage(&op, size, p->sigma, p->normalize ? ", scale-normalised" : "");
    return vp_chain_add(c, &op, err);
}
