/* SPDX-License-Identifier: BSD-3-Clause */
/* Non-local means: the tiles (nlmeans_tiles.inc) in f32, and the operation. */
#include "local/nlmeans.h"

#include "base/err.h"
#include "base/isa.h"
#include "base/size.h"
#include "local/nlmeans_isa.h"
#include "engine/chain.h"

#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REAL float
#define REAL_TYPE VP_F32
#define TAG(name) vp_nlmeans_##name
#define KERNELS VP_ISA_FIND(vp_nlmeans, NULL)
#include "local/nlmeans_tiles.inc"

/* ---- make ---- */

/* Returns a number of f32 or f64, -1 if it is not finite. */
static double number(double v, bool f64)
{
    const double n = f64 ? v : (double)(float)v;

    return isfinite(n) ? n : -1;
}

int vp_nlmeans_local(struct vp_op *op, double h, double sigma, const int64_t search[3], const int64_t patch[3],
                     const int64_t image[3], enum vp_type in, enum vp_type out, struct vp_err *err)
{
    const bool f64 = in == VP_F64;
    double offsets = 1;

    *op = (struct vp_op){0};
    if ((!(VP_NLMEANS_TYPES & 1u << in) && !f64) || (out != in && out != VP_F32 && !(f64 && VP_TYPES_WIDE & 1u << out)))
        return vp_fail(err, VP_EUSAGE, "non-local means takes u8, u16, i16, f32 and f64 to the same or f32, not %s to %s",
                       vp_type_name(in), vp_type_name(out));
    if (!(h > 0 && isfinite(h) && number(1 / (h * h), f64) > 0))
        return vp_fail(err, VP_EUSAGE, "--h: expected %s, got %g", f64 ? "1e-154 to 1e154" : "6e-20 to 3e22", h);
    if (!(sigma >= 0 && number(2 * sigma * sigma, f64) >= 0))
        return vp_fail(err, VP_EUSAGE, "--sigma: expected 0 to %s, got %g", f64 ? "1e153" : "1e19", sigma);
    for (int a = 0; a < 3; a++) {
        if (search[a] < 0 || search[a] > VP_NLMEANS_RADIUS || patch[a] < 0 || patch[a] > VP_NLMEANS_RADIUS)
            return vp_fail(err, VP_EUSAGE, "--search, --patch: expected 0 to %d voxels", VP_NLMEANS_RADIUS);
        offsets *= 2 * (double)search[a] + 1;
    }
    struct vp_nlmeans_params *p = calloc(1, sizeof *p);
    if (!p)
        return vp_fail(err, VP_ERESOURCE, "out of memory");
    *p = (struct vp_nlmeans_params){.h = h, .sigma = sigma, .in = in, .out = out};
    memcpy(p->search, search, sizeof p->search);
    memcpy(p->patch, patch, sizeof p->patch);
    *op = (struct vp_op){.kernel = "nlmeans", .inputs = 1, .from = {~0}, .in = in, .out = out, .params = p,
                            .free = free, .cost = offsets * (patch[2] || search[2] ? 2 : 1.6) * (f64 ? 2 : 1),
                            .scratch = f64 ? vp_nlmeans_f64.scratch : scratch, .run = f64 ? vp_nlmeans_f64.run : run};
    for (int a = 0; a < 3; a++) {
        op->image[a] = image[a];
        op->halo[a] = vp_min64(search[a] + patch[a], image[a] - 1);
    }
    snprintf(op->text, sizeof op->text,
             "non-local means, h %g, sigma %g, search %lld %lld %lld, patch %lld %lld %lld, %s", h, sigma,
             (long long)search[0], (long long)search[1], (long long)search[2],
             (long long)patch[0], (long long)patch[1], (long long)patch[2], vp_isa_name());
    if (f64)
        snprintf(op->text + strlen(op->text), sizeof op->text - strlen(op->text), ", in f64");
    return 0;
}
