/* SPDX-License-Identifier: BSD-3-Clause */
/* Laplacian of Gaussian in seven 1-D passes; log.h has the arithmetic. */
#include "local/log.h"

#include <stdlib.h>

#include "base/err.h"

static int make(struct vp_separable *l, const struct vp_log_params *p, bool f64, struct vp_err *err)
{
    for (int a = 0; a < 3; a++) {
        const double sigma = p->sigma[a], unit = p->normalize ? sigma : 1 / p->spacing[a];
        /* an axis that is left out has taps of radius 0: zeroed but for the edge rule */
        if (sigma == 0) {
            l->taps[a][0].edge = l->taps[a][1].edge = p->edge;
            continue;
        }
        if (sigma < 0.25)
            return vp_fail(err, VP_EUSAGE, "--sigma: expected 0 or at least 0.25 voxels along %c, got %g", "xyz"[a],
                           sigma);
        /* both get the radius of a second derivative */
        const double reach = p->truncate * sigma < 2 ? 2 / sigma : p->truncate;
        if (vp_taps_make(&l->taps[a][0], sigma, reach, 0, 1, p->edge, err)
            || vp_taps_make(&l->taps[a][1], sigma, reach, 2, unit * unit, p->edge, err)
            || (f64 && (vp_taps_make_f64(&l->taps[a][0], err) || vp_taps_make_f64(&l->taps[a][1], err))))
            return -1;
    }
    vp_separable_connect(l);
    return 0;
}

int vp_log_chain(struct vp_chain *c, const struct vp_log_params *p, const int64_t size[3], enum vp_type in,
                 struct vp_err *err)
{
    if (vp_separable_check(p->sigma, p->truncate, p->spacing, err))
        return -1;
    if (p->sigma[0] == 0 && p->sigma[1] == 0 && p->sigma[2] == 0)
        return vp_fail(err, VP_EUSAGE, "--sigma: expected more than 0 along one axis at least");
    struct vp_separable *const l = calloc(1, sizeof *l);
    struct vp_op op = {.kernel = "log", .in = in, .out = in == VP_F64 ? VP_F64 : VP_F32, .from = {c->n ? c->n - 1 : ~0}, .params = l,
                          .free = vp_separable_free};
    if (!l)
        return vp_fail(err, VP_ERESOURCE, "out of memory");
    l->filters = 2;
    if (make(l, p, in == VP_F64, err)) {
        vp_separable_free(l);
        return -1;
    }
    vp_separable_stage(&op, size, p->sigma, p->normalize ? ", scale-normalised" : "");
    return vp_chain_add(c, &op, err);
}
