/* SPDX-License-Identifier: BSD-3-Clause */
/* From the command line to operations: options, inputs, lengths, neighbourhoods. */
#include "app/image.h"
#include "app/image_internal.h"
#include "base/size.h"
#include "app/open.h"

#include <string.h>

const struct vp_opt vp_image_chunk[] = {
    {.name = "chunk", .type = VP_T_SIZE, .metavar = "WxHxD", .group = "Images",
     .help = "work on boxes of this size (default: chosen to be fast)",
     .more = "The result does not depend on it; --plan shows what is chosen."},
    VP_OPT_END,
};

static const struct vp_opt flat[] = {
    VP_FLAG(struct vp_image_params, flat, "2d", 0, .group = "Images",
            .help = "process each page as a separate 2-D image",
            .more = "Without it, the pages along z form one volume. Pages along other axes (view, channel, time) are "
                    "never mixed: each channel at each time is a volume of its own."),
    VP_OPT_END,
};

const struct vp_opt vp_image_without_lengths[] = {
    {.type = VP_T_TABLE, .table = flat},
    VP_OPTIONS(struct vp_image_params, chunk, vp_image_chunk),
    VP_OPT_END,
};

const struct vp_opt vp_image_options[] = {
    {.type = VP_T_TABLE, .table = flat},
    VP_FLAG(struct vp_image_params, physical, "physical", 0,
            .help = "give lengths in the unit of the voxel size instead of in voxels",
            .more = "The voxel size is `voxel` in the metadata, and its unit is `unit`; img-info shows both."),
    VP_OPTIONS(struct vp_image_params, chunk, vp_image_chunk),
    VP_OPT_END,
};

int vp_images_open(struct vp_images *im, struct vp_run *run, const struct vp_image_params *p, int stacks,
                   unsigned types, struct vp_err *err)
{
    const int n = run->parsed.n_operands;
    *im = (struct vp_images){.params = *p};
    if (stacks > 1 && n > stacks)
        return vp_fail(err, VP_EUSAGE, "expected at most %d stacks, got %d", stacks, n);
    if (stacks == 1 || n <= 1) {
        /* a page and its result are in memory at least */
        const uint64_t hold = stacks == 1 ? run->common.memory / 2 : 0;
        if (vp_open_input(run, hold < SIZE_MAX ? (size_t)hold : SIZE_MAX,
                          p->values ? VP_AS_VALUES : p->steps ? VP_AS_STEPS : VP_UPRIGHT, &im->reader[0], err))
            return -1;
        im->n = 1;
        const struct vp_stack *stack = vp_reader_stack(im->reader[0]);
        const size_t page = vp_page_bytes(stack);
        if (run->common.raw_in && !vp_reader_seekable(im->reader[0]) && stack->pages < 2 && page <= hold)
            im->held = page;
    }
    if (!im->n) {
        im->n = n;
        if (vp_open_each(run, n, VP_AS_VALUES, im->reader, err))
            return -1;
    }
    if (p->voxels && vp_images_spread(im, run, err))
        return -1;
    if (!vp_meta_numbers(&vp_reader_stack(im->reader[0])->meta, "scale", 2, im->scale))
        memcpy(im->scale, (const double[]){1, 0}, sizeof im->scale);
    im->seekable = true;
    for (int k = 0; k < im->n; k++)
        im->seekable = im->seekable && vp_reader_seekable(im->reader[k]);
    return vp_images_stacks(im, err) || vp_images_type(im, run, types, err) ? -1 : 0;
}

int vp_images_keep(struct vp_images *im, struct vp_run *run, bool once, struct vp_err *err)
{
    const size_t page = vp_page_bytes(vp_reader_stack(im->reader[0]));
    if (once && im->flat && page < run->common.memory / 16)
        return 0;
    for (int k = 0; k < im->n; k++) {
        struct vp_reader *r = im->reader[k];
        const uint64_t quarter = run->common.memory / 4;
        uint64_t held = 0;
        if (vp_reader_seekable(r))
            continue;
        if (vp_reader_keep(r, quarter > im->held ? quarter - im->held : 0, &held, err))
            return -1;
        im->held += held;
        const uint64_t bytes = (uint64_t)page * (uint64_t)vp_reader_stack(r)->pages;
        vp_report_plan(run, "spool", "%s: %s copied %s, to be read again", vp_reader_name(r),
                       vp_bytes_text(bytes).text, held ? "to memory" : "to $TMPDIR");
    }
    im->seekable = true;
    return vp_images_stacks(im, err);
}

void vp_images_join(struct vp_images *im, int64_t *inner, int64_t *nz)
{
    const bool endless = im->nz >= VP_UNKNOWN || im->outer >= VP_UNKNOWN;
    *inner = im->inner;
    *nz = im->flat ? 1 : im->nz;
    im->nz = im->size[2] = endless ? VP_UNKNOWN : im->inner * im->nz * im->outer;
    im->inner = im->outer = 1;
    im->flat = false;
}

void vp_images_lines(struct vp_images *im)
{
    im->lines = true;
    im->nz = im->size[2] = im->size[1];
    im->size[1] = 1;
}

int vp_image_lengths(const struct vp_images *im, const char *option, const struct vp_reals *given, double out[3],
                     struct vp_err *err)
{
    const int axes = im->flat ? 2 : 3;
    if (given->n != 1 && given->n != 3 && !(given->n == 2 && im->flat)) {
        vp_fail(err, VP_EUSAGE, "--%s: expected one length%s three, got %d", option, im->flat ? ", two or" : " or",
                given->n);
        return im->flat         ? -1
               : given->n == 2 ? vp_hint(err, "x, y and z; with --2d, where every page is an image of its own, x and y")
                               : vp_hint(err, "x, y and z, or one for all of them");
    }
    if (given->n == 3 && im->flat && given->v[2] != 0)
        return vp_fail_hint(err, VP_EUSAGE, "give x and y only",
                            "--%s: %g along z: the pages of this stack are single images", option, given->v[2]);
    if (im->params.physical && !im->has_voxel)
        return vp_fail_hint(err, VP_ERUN, "set it first: img-convert --set voxel=0.5,0.5,2mm",
                            "--physical: the size of a voxel is not in the metadata of the input");
    out[2] = 0;
    for (int a = 0; a < axes; a++)
        out[a] = given->v[given->n == 1 ? 0 : a] / (im->params.physical ? im->voxel[a] : 1);
    return 0;
}

void vp_images_close(struct vp_images *im)
{
    for (int k = 0; k < im->n; k++)
        vp_reader_close(im->reader[k], NULL);
    vp_chain_free(&im->chain);
    *im = (struct vp_images){0};
}
