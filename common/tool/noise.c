/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/noise.h"

#include "image/statistics.h"
#include "local/moments.h"
#include "tool/image_run.h"
#include "tool/tool.h"

static int add_page(void *ctx, int64_t page, const void *samples, int64_t n, struct vp_err *err)
{
    (void)page;
    (void)err;
    vp_squares_add(ctx, samples, n);
    return 0;
}

int vp_wiener_noise(struct vp_images *im, struct vp_run *run, const struct vp_footprint *f, double *noise,
                    struct vp_err *err)
{
    struct vp_chain chain = {0};
    struct vp_op op;
    struct vp_squares sum = {0};
    int rc = -1;

    *noise = -1;
    /* deviations, for a variance may be too small or too large for f32 */
    if (!vp_moments_local(&op, VP_STD, false, f, im->size, im->type, VP_F32, err) && !vp_chain_add(&chain, &op, err)
        && !vp_images_scan(im, run, &chain, add_page, &sum, err))
        rc = 0;
    if (!run->common.plan)
        *noise = sum.n ? vp_squares_mean(&sum) : 0;
    vp_chain_free(&chain);
    return rc;
}
