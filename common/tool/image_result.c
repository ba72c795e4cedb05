/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/image_result.h"
#include "image/label.h"
#include "stack/axes.h"
#include "tool/open.h"

#include <math.h>
#include <string.h>

enum vp_type vp_images_stored(const struct vp_images *im, const struct vp_chain *chain)
{
    const enum vp_type out = chain->stage[chain->n - 1].out;
    return im->all_i8 && im->type == VP_I16 && out == VP_I16 ? VP_I8 : out;
}

/* Where the first voxel is now. */
static int move_origin(struct vp_meta *meta, const int64_t corner[3])
{
    double voxel[3], origin[3];

    if (!(corner[0] || corner[1] || corner[2]) || !vp_meta_numbers(meta, "origin", 3, origin))
        return 0;
    if (!vp_meta_numbers(meta, "voxel", 3, voxel))
        return vp_meta_set(meta, "origin", NULL);
    for (int a = 0; a < 3; a++)
        origin[a] += (double)corner[a] * voxel[a];
    return vp_label_numbers(meta, "origin", 3, origin);
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
    return vp_label_numbers(meta, "scale", 2, (const double[]){gain, 0});
}

/* The result may be larger or smaller than the input. */
static int resize(const struct vp_images *im, struct vp_stack *out, const struct vp_op *op)
{
    const int64_t more[3] = {vp_op_grows(op, 0), vp_op_grows(op, im->lines ? 2 : 1), im->lines ? 0 : vp_op_grows(op, 2)};
    struct vp_axes axes;
    out->nx += more[0];
    out->ny += more[1];
    if (more[0] || more[1]) /* projections of another size are not those that the geometry speaks of */
        vp_meta_remove_prefix(&out->meta, "geom.");
    vp_axes_get(out, &axes);
    const int z = vp_axes_z(&axes);
    if (!more[2] || axes.n < 2 || !axes.sized || z < 0)
        return 0;
    axes.size[z] += more[2];
    return vp_axes_set(&out->meta, &axes);
}

int vp_images_result(const struct vp_images *im, struct vp_run *run, const struct vp_chain *chain,
                     const struct vp_result *result, struct vp_writer *writer[2], struct vp_err *err)
{
    const struct vp_op *last = &chain->stage[chain->n - 1];
    struct vp_stack out = {0};
    int rc = -1;

    writer[0] = writer[1] = NULL;
    if (vp_stack_copy(&out, vp_reader_stack(im->reader[im->first])) || resize(im, &out, last)
        || move_origin(&out.meta, im->corner) || describe(&out.meta, result)) {
        vp_fail(err, VP_ERESOURCE, "not enough memory for the metadata");
    } else {
        out.type = vp_images_stored(im, chain);
        if (im->outer < VP_UNKNOWN && im->nz < VP_UNKNOWN)
            out.pages = im->lines ? im->outer : im->inner * (im->nz + vp_op_grows(last, 2)) * im->outer;
        rc = vp_open_output(run, &out, &writer[0], err);
        out.type = last->twin_out;
        rc = rc || (last->twin && vp_open_result(run, im->twin, &out, &writer[1], err)) ? -1 : 0;
    }
    vp_stack_free(&out);
    if (rc) {
        vp_writer_abort(writer[0]);
        writer[0] = NULL;
    }
    return rc;
}
