/* SPDX-License-Identifier: BSD-3-Clause */
/* Wiener's filter: a moment (moments.c) and the noise that it takes away. */
#include "local/wiener.h"

int vp_wiener_local(struct vp_op *op, double noise, const struct vp_footprint *f, const int64_t image[3],
                    enum vp_type in, enum vp_type out, struct vp_err *err)
{
    if (vp_moments_local(op, VP_WIENER, false, f, image, in, out, err))
        return -1;
    ((struct vp_moments_params *)op->params)->noise = noise;
    vp_moments_use(op, NULL);
    return 0;
}
