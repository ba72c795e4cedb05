/* SPDX-License-Identifier: BSD-3-Clause */
/* img-info: describes a stack (from its header) and its samples (statistics, histogram, percentiles), as text, JSON or
 * bare values for scripts. */
#include "base/text.h"
#include "pages/info.h"
#include "app/open.h"
#include "app/tool.h"

#include <stdlib.h>

static const struct vp_example examples[] = {
    {"Show what a file contains.", "ct-phantom --volume 64x64x64 -o vol.tif\nimg-info vol.tif"},
    {"Statistics of the middle of a volume.",
     "ct-phantom --volume 64x64x64 |\n"
     "img-info --statistics --percentiles 1,50,99 --region 16:48,16:48 --pages 16:48"},
    {"One number, for a script.",
     "mean=$(ct-phantom --volume 64x64x64 | img-info --value mean); echo \"$mean\""},
    {0},
};

/* Makes the report, malloc'd. */
static int report(const struct vp_run *run, const struct vp_info *i, char **text, size_t *size, struct vp_err *err)
{
    FILE *out = vp_text_open();

    if (!out)
        return vp_fail(err, VP_ERESOURCE, "out of memory: the report");
    const int rc = vp_info_print(i, run->common.verbose, out, err);
    *text = vp_text_close(out, size);
    return rc || *text ? rc : vp_fail(err, VP_ERESOURCE, "out of memory: the report");
}

static int img_info(struct vp_run *run, void *params, struct vp_err *err)
{
    struct vp_info_params *p = params;
    struct vp_info i = {0};
    struct vp_reader *reader = NULL, *mask_reader = NULL;
    struct vp_select select = {0};
    struct vp_beside mask = {0};
    char *text = NULL;
    size_t size = 0;
    int rc = -1;

    if (vp_info_ask(&i, p, err))
        goto out;
    /* a header has no values: a scale that cannot be undone is allowed in it; several stacks may have several scales */
    const bool header = !vp_info_needs_samples(&i) && run->parsed.n_operands < 2;
    const enum vp_samples samples = header ? VP_AS_STORED : VP_AS_STEPS;
    if (vp_open_pages(run, 0, samples, false, &p->select, &reader, err))
        goto out;
    i.stack = vp_reader_stack(reader);
    i.stored = &reader->stored;
    i.name = vp_reader_name(reader);
    i.pages = i.stack->pages;
    i.select = &select;
    if (vp_select_make(&select, &p->select, i.stack, i.name, vp_reader_seekable(reader), err))
        goto out;
    if (p->mask) {
        if (vp_open_mask(run, p->mask, &mask_reader, err)
            || vp_beside_open(&mask, mask_reader, i.stack, true, err))
            goto out;
        i.mask = &mask;
    }
    const bool read = vp_info_needs_samples(&i) || !vp_reader_seekable(reader);
    vp_report_plan(run, "input", "%s: %lld x %lld, %s", i.name, (long long)i.stack->nx, (long long)i.stack->ny,
                   vp_type_name(i.stack->type));
    vp_report_plan(run, "reads", read ? "the samples" : "the header");
    if (vp_report_plan_done(run)) {
        rc = 0;
        goto out;
    }
    const struct vp_pages pages = {.reader = reader, .memory = run->common.memory, .stats = run->stats,
                                 .beside = i.mask ? vp_beside_bytes(&mask, &select) : 0,
                                 .stage = "statistics",
                                 .progress = run->progress};
    rc = (read && vp_info_measure(&i, &pages, err)) || (i.mask && vp_beside_finish(&mask, -1, err))
        || report(run, &i, &text, &size, err)
         ? -1 : 0;
out:
    if (vp_reader_close(mask_reader, err) || vp_close(run, reader, NULL, rc, err))
        rc = -1;
    if (!rc && text) /* no report of an input with an error at its end */
        rc = vp_output_text(run, text, size, err);
    free(text);
    vp_beside_close(&mask);
    vp_select_free(&select);
    free(p->select.picked);
    vp_info_free(&i);
    return rc;
}

const struct vp_tool vp_program = {
    .name = "img-info",
    .operands = "[INPUT]...",
    .summary = "show size, type, metadata and statistics of a stack",
    .description =
        "Reads a stack and prints its size, number of pages, sample type and metadata. Of a file only headers are "
        "read; a pipe is read and checked to its end. Several inputs are one stack.\n\n"
        "--statistics, --histogram and --percentiles also read the samples, in one pass and in constant memory. NaN "
        "and infinite samples are counted separately and left out. If the metadata record a scale, the results are "
        "values: integers are counted and added up as they are stored, and the scale is undone in the result. The "
        "standard deviation is that of the samples themselves (divided by n, not n - 1). Results are 64-bit floating "
        "point numbers, so integers beyond 2^53 are rounded. They do not depend on the number of threads.",
    .options = vp_info_options,
    .params_size = sizeof(struct vp_info_params),
    .examples = examples,
    .see_also = "img-cmp(1), img-view(1), ct-geom(1), voxpipe-stack(5)",
    .flags = VP_TOOL_TEXT | VP_TOOL_NO_DEVICE,
    .run = img_info,
};
