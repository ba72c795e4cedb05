/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/range.h"

#include "base/err.h"
#include "image/statistics.h"
#include "run/pages.h"
#include "stack/reader.h"
#include "tool/image.h"
#include "tool/tool.h"

struct range {
    struct vp_extent extent;
    const struct vp_pages *pages;
};

static int add_pages(void *ctx, int64_t page, int n, void *in, void *out, struct vp_err *err)
{
    struct range *r = ctx;
    const struct vp_stack *s = vp_reader_stack(r->pages->reader);

    (void)page;
    (void)out;
    (void)err;
    vp_extent_add(&r->extent, in, s->type, n * r->pages->rows * s->nx);
    return n;
}

int vp_images_range(struct vp_images *im, struct vp_run *run, double range[2], struct vp_err *err)
{
    struct vp_reader *reader = im->reader[0];
    struct range r = {.pages = NULL};
    struct vp_pages pages = {.reader = reader, .height = vp_reader_stack(reader)->ny, .memory = run->common.memory,
                             .stats = run->stats, .progress = run->progress, .stage = "range", .work = add_pages,
                             .ctx = &r};

    r.pages = &pages;
    if (!im->seekable)
        return vp_fail_hint(err, VP_EUSAGE, "give --range LO,HI, or --spool",
                            "%s: the range for the bins needs the samples twice, which a pipe cannot give",
                            vp_reader_name(reader));
    if (vp_pages_fit(&pages, err)) {
        err->hint[0] = '\0';
        return vp_hint(err, "allow more with --memory, or give --range LO,HI");
    }
    if (run->common.plan)
        return 0;
    if (vp_pages_run(&pages, err) || vp_reader_seek(reader, 0, err))
        return -1;
    if (!r.extent.any)
        return vp_fail(err, VP_ERUN, "%s: no sample is finite", vp_reader_name(reader));
    range[0] = r.extent.min;
    range[1] = r.extent.max;
    return 0;
}
