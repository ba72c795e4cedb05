/* SPDX-License-Identifier: BSD-3-Clause */
/* Gaussian filter: see gauss.h; separable.c does the work. */
#include "local/gauss.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"

static int make(struct vp_separable *g, const struct vp_gauss_params *p, bool f64, struct vp_err *err)
{
    for (int a = 0; a < 3; a++) {
        if (p->order[a] && p->sigma[a] < 0.25) {
            vp_fail(err, VP_EUSAGE, "--derivative: expected a --sigma of at least 0.25 voxels along %c, got %g",
                    "xyz"[a], p->sigma[a]);
            return vp_hint(err, "--sigma 1 smooths by one voxel");
        }
        if (vp_taps_make(&g->taps[a][0], p->sigma[a], p->truncate, p->order[a], pow(p->spacing[a], -p->order[a]),
                         p->edge, err)
            || (f64 && vp_taps_make_f64(&g->taps[a][0], err)))
            return -1;
    }
    vp_separable_connect(g);
    return 0;
}

int vp_gauss_chain(struct vp_chain *c, const struct vp_gauss_params *p, const int64_t size[3], enum vp_type in,
                   enum vp_type out, struct vp_err *err)
{
    const bool derivative = p->order[0] || p->order[1] || p->order[2];

    if (vp_separable_check(p->sigma, p->truncate, p->spacing, err))
        return -1;
    for (int a = 0; a < 3; a++)
        if (p->order[a] < 0 || p->order[a] > 2)
            return vp_fail(err, VP_EUSAGE, "--derivative: expected 0, 1 or 2 along %c, got %d", "xyz"[a],
                           p->order[a]);
    if (derivative && p->highpass)
        return vp_fail(err, VP_EUSAGE, "--derivative and --highpass cannot be combined");
    if (p->iterations < 1)
        return vp_fail(err, VP_EUSAGE, "--iterations: expected 1 or more, got %lld", (long long)p->iterations);
    struct vp_separable *const g = calloc(1, sizeof *g);
    if (!g)
        return vp_fail(err, VP_ERESOURCE, "out of memory");
    *g = (struct vp_separable){.filters = 1, .users = 1, .highpass = p->highpass};
    const enum vp_type between = in == VP_F64 ? VP_F64 : VP_F32;
    int rc = make(g, p, in == VP_F64, err);
    for (int64_t i = 0; !rc && i < p->iterations; i++) {
        struct vp_op op = {.kernel = "gauss", .in = i ? between : in, .out = i + 1 < p->iterations ? between : out,
                              .from = {c->n ? c->n - 1 : ~0}, .params = g, .free = vp_separable_free};
        char more[48] = "";

        if (derivative)
            snprintf(more, sizeof more, ", derivative %d %d %d", p->order[0], p->order[1], p->order[2]);
        vp_separable_stage(&op, size, p->sigma, p->highpass ? ", high-pass" : more); /* one excludes the other */
        op.holds = i ? 0 : op.holds;
        g->users++; /* released by the chain */
        rc = vp_chain_add(c, &op, err);
    }
    vp_separable_free(g);
    return rc;
}
