/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/image_internal.h"
#include "base/err.h"
#include "stack/axes.h"
#include "stack/reader.h"

#include <string.h>

int vp_images_compare(struct vp_images *im, struct vp_err *err)
{
    const struct vp_stack *a = vp_reader_stack(im->reader[0]);
    int64_t pages = 1;
    for (int k = 0; k < im->n; k++) {
        const struct vp_stack *b = vp_reader_stack(im->reader[k]);
        if (a->nx != b->nx || a->ny != b->ny)
            return vp_fail(err, VP_ERUN, "%s has pages of %lldx%lld, %s of %lldx%lld: expected the same size",
                           vp_reader_name(im->reader[0]), (long long)a->nx, (long long)a->ny,
                           vp_reader_name(im->reader[k]), (long long)b->nx, (long long)b->ny);
        if (b->pages == 1)
            continue;
        if (pages == 1)
            im->first = k;
        else if (b->pages > 0 && pages > 0 && b->pages != pages)
            return vp_fail(err, VP_ERUN, "%s has %lld pages, %s %lld: expected as many, or one",
                           vp_reader_name(im->reader[im->first]), (long long)pages, vp_reader_name(im->reader[k]),
                           (long long)b->pages);
        if (pages < 0 && b->pages > 0) /* a file knows how long the pipe beside it must be */
            im->first = k;
        pages = pages > 1 ? pages : b->pages;
    }
    for (int k = 0; k < im->n; k++)
        im->single[k] = pages != 1 && vp_reader_stack(im->reader[k])->pages == 1;
    return 0;
}

int vp_images_axes(struct vp_images *im, struct vp_err *err)
{
    const struct vp_reader *reader = im->reader[im->first];
    const struct vp_stack *stack = vp_reader_stack(reader);
    struct vp_axes axes;

    vp_axes_get(stack, &axes);
    const int z = vp_axes_z(&axes);
    im->inner = im->nz = im->outer = 1;
    /* pages without a named axis are slices; a single one is just an image */
    im->flat = im->params.flat || (axes.n ? z < 0 : stack->pages == 1);
    if (im->flat) {
        im->outer = stack->pages < 0 ? VP_UNKNOWN : stack->pages;
    } else if (axes.n < 2) {
        im->nz = stack->pages < 0 ? VP_UNKNOWN : stack->pages;
    } else if (axes.sized) {
        for (int i = 0; i < axes.n; i++)
            *(i < z ? &im->inner : i == z ? &im->nz : &im->outer) *= axes.size[i];
    } else {
        const char *sizes = vp_meta_get(&stack->meta, "sizes");
        vp_fail(err, VP_ERUN, "%s: the axes are %s, but how many of each is not known: sizes %s, %lld pages",
                vp_reader_name(reader), vp_meta_get(&stack->meta, "axes"), sizes ? sizes : "are missing",
                (long long)stack->pages);
        return vp_hint(err, "%simg-convert --set sizes=... says how many",
                       im->params.voxels ? "" : "with --2d every page is an image of its own; ");
    }
    if (im->flat && !im->params.flat && !im->params.voxels && stack->pages != 1 && axes.n == 1 &&
        !strcmp(axes.name[0], VP_AXIS_PAGE))
        return vp_fail_hint(err, VP_ERUN, "with --2d every page is an image of its own; "
                            "img-convert --set axes=x,y,z makes them a volume",
                            "%s: what its pages are is not known: the axes are %s",
                            vp_reader_name(reader), vp_meta_get(&stack->meta, "axes"));
    im->size[0] = stack->nx;
    im->size[1] = stack->ny;
    im->size[2] = im->flat ? 1 : im->nz;
    const char *unit = vp_meta_get(&stack->meta, "unit");
    im->voxel[0] = im->voxel[1] = im->voxel[2] = 1;
    double v[3];
    if ((vp_meta_numbers(&stack->meta, "voxel", 3, v) && v[2] > 0) ||
        (im->flat && vp_meta_numbers(&stack->meta, "voxel", 2, v))) {
        im->has_voxel = v[0] > 0 && v[1] > 0 && !(unit && !strcmp(unit, "pixel"));
        for (int a = 0; im->has_voxel && a < (im->flat ? 2 : 3); a++)
            im->voxel[a] = v[a];
    }
    return 0;
}
