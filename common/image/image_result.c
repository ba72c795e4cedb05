/* SPDX-License-Identifier: BSD-3-Clause */
#include "image/image_result.h"
#include "image/report.h"
#include "stack/open.h"

#include <math.h>

enum vp_type vp_images_stored(const struct vp_images *im, const struct vp_chain *chain)
{
    const enum vp_type out = chain->stage[chain->n - 1].out;
    return im->all_i8 && im->type == VP_I16 && out == VP_I16 ? VP_I8 : out;
}

/* What the samples now are. */
static int describe(struct vp_meta *meta, const struct vp_result *result)
{
    double scale[2];
    int rc = 0;

    if (!result)
        return 0;
    if (result->quantity)
        rc = vp_meta_set(meta, "quantity", *result->quantity ? result->quantity : NULL)
             || vp_meta_set(meta, "value-unit", NULL);
    if (rc || result->values == VP_VALUES || !vp_meta_numbers(meta, "scale", 2, scale))
        return rc;
    if (result->values == VP_NO_VALUES)
        return vp_meta_set(meta, "scale", NULL);
    const double gain = result->values == VP_SPREADS   ? fabs(scale[0])
                        : result->values == VP_SQUARES ? scale[0] * scale[0] : scale[0];
    return vp_report_numbers(meta, "scale", 2, (const double[]){gain, 0});
}

int vp_images_result(const struct vp_images *im, struct vp_run *run, enum vp_type stored,
                     const struct vp_result *result, struct vp_writer **writer, struct vp_err *err)
{
    struct vp_stack out = {0};
    int rc = -1;

    if (vp_stack_copy(&out, vp_reader_stack(im->reader[im->first])) || describe(&out.meta, result)) {
        vp_fail(err, VP_ERESOURCE, "not enough memory for the metadata");
    } else {
        out.type = stored;
        if (im->outer < VP_UNKNOWN && im->nz < VP_UNKNOWN)
            out.pages = im->inner * im->nz * im->outer;
        rc = vp_open_output(run, &out, writer, err);
    }
    vp_stack_free(&out);
    return rc;
}
