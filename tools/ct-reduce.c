/* SPDX-License-Identifier: BSD-3-Clause */
/* ct-reduce: stacks into one: summed, averaged, their smallest or largest samples, or joined along z. */
#include "base/size.h"
#include "image/reduce.h"
#include "tool/open.h"
#include "tool/tool.h"

#include <stdlib.h>
#include <string.h>

static const struct vp_example examples[] = {
    {"Two halves of the views, reconstructed apart, added up.",
     "ct-geom --sod 500 --sdd 1000 --detector 64x64 --pitch 2 --views 90 | ct-phantom -g - | ct-filter -o "
     "q.tif\n"
     "ct-backproject --views :45 q.tif -o a.tif\n"
     "ct-backproject --views 45: q.tif -o b.tif\n"
     "ct-reduce a.tif b.tif -o vol.tif"},
    {"The same without the files between.",
     "ct-reduce <(ct-backproject --views :45 q.tif) <(ct-backproject --views 45: q.tif) -o vol.tif"},
    {"Slabs of a volume joined.",
     "ct-backproject --slab :32 q.tif -o low.tif\n"
     "ct-backproject --slab 32: q.tif -o high.tif\n"
     "ct-reduce --join low.tif high.tif -o vol.tif"},
    {"The mean of all pages, as one page.", "ct-reduce --op mean --pages vol.tif -o mean.tif"},
    {0},
};

/* Each operand is a stack of its own, unless their pages are to be reduced together. */
static int open_all(struct vp_run *run, const struct vp_reduce_params *p, struct vp_reader **readers, int n,
                    struct vp_err *err)
{
    const char *const *paths = run->parsed.operands;
    int standard = 0;

    if (p->pages)
        return vp_open_values(run, paths, run->parsed.n_operands, &readers[0], err);
    for (int i = 0; i < n; i++)
        if (!strcmp(paths[i], "-") && standard++)
            return vp_fail(err, VP_EUSAGE, "standard input is given twice");
    for (int i = 0; i < n; i++)
        if (vp_open_paths(run, &paths[i], 1, p->join ? VP_AS_STORED : VP_AS_VALUES, &readers[i], err))
            return -1;
    return 0;
}

static int run(struct vp_run *run_, void *params, struct vp_err *err)
{
    static const char *const names[] = {"sum", "mean", "min", "max"};
    const struct vp_reduce_params *p = params;
    const int n = p->pages ? 1 : run_->parsed.n_operands, threads = (int)run_->common.threads;
    struct vp_reader **readers = NULL;
    struct vp_writer *writer = NULL;
    struct vp_reduce reduce = {0};
    struct vp_stack out = {0};
    void *page = NULL;
    char note[512] = "";
    int rc = -1;

    if (vp_device_cpu(run_, err))
        return -1;
    if (p->pages && p->join)
        return vp_fail(err, VP_EUSAGE, "--pages and --join do not go together");
    if (p->join && vp_given(run_, "op"))
        return vp_fail(err, VP_EUSAGE, "--op and --join do not go together");
    if (n < (p->pages ? 0 : p->join ? 1 : 2)) {
        vp_fail(err, VP_EUSAGE, "%d operand%s, expected %s stack%s", n, n == 1 ? "" : "s",
                p->join ? "a" : "two or more", p->join ? "" : "s");
        return n == 1 ? vp_hint(err, "--pages reduces over the pages of one stack") : -1;
    }
    readers = calloc((size_t)n, sizeof *readers);
    if (!readers)
        return vp_fail(err, VP_ERESOURCE, "out of memory");
    if (open_all(run_, p, readers, n, err))
        goto out;
    const struct vp_stack *in = vp_reader_stack(readers[0]);
    if (p->join ? vp_join_stack(readers, n, &out, err)
                : vp_reduce_stack(readers, n, p->op, &out, note, sizeof note, err))
        goto out;
    if (!p->join && vp_reduce_open(&reduce, p->op, in->type, in->nx * in->ny, threads, err))
        goto out;
    if (p->pages) {
        out.pages = 1;
        vp_meta_set(&out.meta, "sizes", NULL);
        vp_meta_remove_prefix(&out.meta, "geom.");
    }
    for (int i = 0; i < n; i++)
        vp_plan(run_, p->join ? "slab" : "operand", "%s: %lld x %lld, %lld pages, %s",
                vp_reader_name(readers[i]), (long long)in->nx, (long long)in->ny,
                (long long)vp_reader_stack(readers[i])->pages, vp_type_name(in->type));
    vp_plan(run_, "operation", "%s%s", p->join ? "join" : names[p->op], p->pages ? " over the pages" : "");
    vp_plan(run_, "output", "%lld x %lld, %lld pages, %s", (long long)out.nx, (long long)out.ny,
            (long long)out.pages, vp_type_name(out.type));
    if (vp_plan_done(run_)) {
        rc = 0;
        goto out;
    }
    if (note[0])
        vp_warn(run_, "%s", note);

    /* besides the pages in flight: the sums, and a page of each of the other operands in turn or of the
     * result */
    const uint64_t held = !p->join ? vp_reduce_bytes(&reduce) + vp_page_bytes(in) + vp_page_bytes(&out) : 0;
    struct vp_pages pages = {.reader = readers[0], .memory = run_->common.memory,
                           .beside = held + vp_output_holds(run_, &out, run_->common.memory),
                           .stats = run_->stats, .progress = run_->progress, .stage = "reduce"};
    if (p->pages && !(page = vp_alloc_raw(vp_page_bytes(&out), 1, "a page", err)))
        goto out;
    if (vp_open_output(run_, &out, &writer, err))
        goto out;
    pages.writer = p->pages ? NULL : writer;
    rc = p->join ? vp_join_run(readers, n, &pages, err) : vp_reduce_run(&reduce, readers, n, &pages, err);
    if (!rc && p->pages) {
        vp_reduce_result(&reduce, page);
        rc = vp_writer_page(writer, page, err);
    }
    if (!rc && reduce.nan)
        vp_warn(run_, "%lld samples are NaN", (long long)reduce.nan);
out:
    for (int i = 1; i < n; i++)
        if (readers[i] && vp_close(run_, readers[i], NULL, rc != 0, err))
            rc = -1;
    if (vp_close(run_, n ? readers[0] : NULL, writer, rc != 0, err))
        rc = -1;
    vp_reduce_close(&reduce);
    vp_stack_free(&out);
    free(page);
    free(readers);
    return rc;
}

static const struct vp_tool tool = {
    .name = "ct-reduce",
    .operands = "[INPUT]...",
    .summary = "sum, average or join stacks page by page",
    .description =
        "Takes each operand as a stack of its own and reduces samples at the same place to one: their sum, "
        "mean, smallest or largest. Sizes, sample types and numbers of pages must agree. With --pages the "
        "operands are one stack, and its pages are reduced to one page. With --join the operands are slabs "
        "of a volume, which are put one on top of the other.\n\n"
        "The metadata is that of the first stack (of the lowest slab). Scales that img-convert(1) recorded are undone: "
        "values are reduced, whatever the scale of each stack. Slabs are joined as they are stored, and must have the "
        "same.\n\n"
        "Operands may be pipes. They are read in lockstep: a page of the first, the same page of the "
        "second, and so on, so that memory does not grow with the stacks nor with their number. Slabs are "
        "read one after the other.",
    .options = vp_reduce_options,
    .params_size = sizeof(struct vp_reduce_params),
    .examples = examples,
    .see_also = "ct-backproject(1), img-cat(1), img-cmp(1), voxpipe-stack(5)",
    .run = run,
};

int main(int argc, char **argv)
{
    return vp_main(&tool, argc, argv);
}
