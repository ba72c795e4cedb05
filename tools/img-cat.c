/* SPDX-License-Identifier: BSD-3-Clause */
/* img-cat: joins stacks, selects pages, cuts regions; metadata and scan geometry follow the pixels. */
#include "base/size.h"
#include "stack/set.h"
#include "pages/select.h"
#include "app/open.h"
#include "app/tool.h"

#include <stdlib.h>

struct params {
    struct vp_select_params select;
    struct vp_set_params label;
};

static const struct vp_opt options[] = {
    VP_OPTIONS(struct params, select, vp_select_options),
    VP_FLAG(struct params, select.reverse, "reverse", 0, .help = "the pages (of --pages) in reverse order"),
    VP_OPTIONS(struct params, label, vp_set_options),
    VP_OPT_END,
};

static const struct vp_example examples[] = {
    {"The middle of a volume.",
     "ct-phantom --volume 64x64x64 -o vol.tif\n"
     "img-cat --pages 16:48 --region 16:48,16:48 vol.tif -o middle.tif"},
    {"Every second view of a scan; the geometry goes along.",
     "ct-geom --sod 500 --sdd 1000 --detector 64x64 --pitch 2 --views 90 |\n"
     "ct-phantom -g - | img-cat --pages ::2 -o half.tif"},
    {"Two stacks after one another.", "img-cat middle.tif middle.tif -o twice.tif"},
    {0},
};

static int img_cat(struct vp_run *run, void *params, struct vp_err *err)
{
    struct params *p = params;
    struct vp_reader *reader = NULL;
    struct vp_writer *writer = NULL;
    struct vp_select select = {0};
    struct vp_stack out = {0};
    char note[160];
    int rc = -1;

    if (vp_open_pages(run, 0, VP_AS_STORED, false, &p->select, &reader, err))
        goto out;
    const struct vp_stack *in = vp_reader_stack(reader);
    const char *name = vp_reader_name(reader);
    if (vp_select_make(&select, &p->select, in, name, vp_reader_seekable(reader), err)
        || vp_select_stack(&select, in, &out, note, sizeof note, err) || vp_set_stack(&p->label, &out, err))
        goto out;
    vp_report_plan(run, "input", "%s: %lld x %lld, %lld pages, %s", name, (long long)in->nx, (long long)in->ny,
                   (long long)in->pages, vp_type_name(in->type));
    vp_report_plan(run, "output", "%lld x %lld, %lld pages, %s", (long long)out.nx, (long long)out.ny,
                   (long long)out.pages,
                   out.pages < 0 ? "size not known yet"
                          : vp_bytes_text((uint64_t)out.pages * vp_page_bytes(&out)).text);
    if (vp_report_plan_done(run)) {
        rc = 0;
        goto out;
    }
    if (note[0])
        vp_warn(run, "%s: %s", name, note);
    if (vp_open_output(run, &out, &writer, err))
        goto out;
    struct vp_pages pages = {.reader = reader, .writer = writer, .memory = run->common.memory,
                           .beside = vp_output_holds(run, &out, run->common.memory), .height = out.ny,
                           .stats = run->stats, .progress = run->progress, .stage = "select"};
    rc = vp_select_run(&select, &pages, err);
out:
    rc = vp_close(run, reader, writer, rc, err);
    vp_stack_free(&out);
    vp_select_free(&select);
    free(p->select.picked);
    return rc;
}

const struct vp_tool vp_program = {
    .name = "img-cat",
    .operands = "[INPUT]...",
    .summary = "join stacks, pick pages, cut regions",
    .description =
        "Writes its inputs as one stack, or a part of it: pages by number, a region of each page, or both. "
        "Samples are not changed.\n\n"
        "What the metadata says stays true: the origin moves with the region and "
        "the first slice, the voxel grows where only every n-th slice is kept, and in projections the "
        "detector, its offset, the angles and the matrices of the scan geometry follow the pixels, so that a "
        "cropped or thinned scan reconstructs in the same place. Pages with more than one axis stay what they are "
        "where they still make a grid: one channel, the slices of one time, every second slice of both. What cannot be "
        "said any more (the origin of reversed slices, the geometry of detector rows that are not evenly spaced, axes "
        "of a mixture of channels and slices) is left out with a warning.\n\n"
        "Of a file whose pages are not alike (a pyramid, a whole slide image) --pages picks some that are. Files are "
        "read where pages are wanted, in any order. From a pipe pages come in "
        "increasing order, and it is read and checked to its end.",
    .options = options,
    .params_size = sizeof(struct params),
    .examples = examples,
    .see_also = "img-convert(1), img-info(1), voxpipe-stack(5)",
    .flags = VP_TOOL_NO_DEVICE | VP_TOOL_JOINS,
    .run = img_cat,
};
