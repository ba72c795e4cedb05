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
    VP_FLAG(struct params, select.reverse, "reverse", 0,
            .help = "reverse the order of the (selected) pages"),
    VP_OPTIONS(struct params, label, vp_set_options),
    VP_OPT_END,
};

static const struct vp_example examples[] = {
    {"Cut the middle out of a volume.",
     "ct-phantom --volume 64x64x64 -o vol.tif\n"
     "img-cat --pages 16:48 --region 16:48,16:48 vol.tif -o middle.tif"},
    {"Keep every second view of a scan, with its geometry.",
     "ct-geom --sod 500 --sdd 1000 --detector 64x64 --pitch 2 --views 90 |\n"
     "ct-phantom -g - | img-cat --pages ::2 -o half.tif"},
    {"Join two stacks.", "img-cat middle.tif middle.tif -o twice.tif"},
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
    .summary = "join stacks, select pages, cut regions",
    .description =
        "Reads stacks and writes them as one stack, or a part of them: selected pages (--pages), a region of each "
        "page (--region), or both. Samples are copied without change.\n\n"
        "The metadata are adapted to the part. The origin moves with the region and the first slice. The voxel gets "
        "thicker if only every nth slice is kept. In projections, the detector, its offset, the angles and the "
        "matrices of the geometry are adapted, so that a cropped or thinned scan reconstructs in the same place. If "
        "pages have several axes, they keep them if the selected pages still form a grid: one channel, the slices of "
        "one time, every second slice of both. Metadata that are no longer true are left out with a warning, for "
        "example the origin of reversed slices.\n\n"
        "If the pages of a file differ (an image pyramid, a whole slide image), select pages of one kind with "
        "--pages. Files are read at the selected pages, in any order. A pipe gives pages in increasing order only, "
        "and is read and checked to its end.",
    .options = options,
    .params_size = sizeof(struct params),
    .examples = examples,
    .see_also = "img-convert(1), img-info(1), voxpipe-stack(5)",
    .flags = VP_TOOL_NO_DEVICE | VP_TOOL_JOINS,
    .run = img_cat,
};
