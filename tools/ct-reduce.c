/* SPDX-License-Identifier: BSD-3-Clause */
/* ct-reduce: sums, means, minima or maxima of stacks, or stacks joined along z. */
#include "base/size.h"
#include "pages/reduce.h"
#include "app/open.h"
#include "app/tool.h"

#include <stdlib.h>
#include <string.h>

static const struct vp_example examples[] = {
    {"Reconstruct two halves of the views separately and add them up.",
     "ct-geom --sod 500 --sdd 1000 --detector 64x64 --pitch 2 --views 90 | ct-phantom -g - | ct-filter -o "
     "q.tif\n"
     "ct-backproject --views :45 q.tif -o a.tif\n"
     "ct-backproject --views 45: q.tif -o b.tif\n"
     "ct-reduce a.tif b.tif -o vol.tif"},
    {"The same without intermediate files.",
     "ct-reduce <(ct-backproject --views :45 q.tif) <(ct-backproject --views 45: q.tif) -o vol.tif"},
    {"Join slabs of a volume.",
     "ct-backproject --slab :32 q.tif -o low.tif\n"
     "ct-backproject --slab 32: q.tif -o high.tif\n"
     "ct-reduce --join low.tif high.tif -o vol.tif"},
    {"Average all slices into one page.", "ct-reduce --op mean --pages vol.tif -o mean.tif"},
    {"The largest sample over the slices, for each channel at each time.",
     "img-cat vol.tif | img-convert --set axes=x,y,channel,z,time --set sizes=2,8,4 -o cells.tif\n"
     "ct-reduce --op max --along z cells.tif -o flat.tif"},
    {0},
};

struct work {
    const struct vp_reduce_params *p;
    struct vp_run *run;
    struct vp_reader **readers;
    int n;
    bool along;             /* along the pages of one stack */
    struct vp_along axis;
    struct vp_reduce *sums; /* axis.sums entries; not for --join */
    struct vp_stack out;
};

static int open_sums(struct work *w, struct vp_err *err)
{
    const struct vp_stack *in = vp_reader_stack(w->readers[0]);

    w->sums = vp_alloc((size_t)w->axis.sums, sizeof *w->sums, "the sums", err);
    for (int64_t i = 0; w->sums && i < w->axis.sums; i++)
        if (vp_reduce_open(&w->sums[i], w->p->op, in->type, in->nx * in->ny, (int)w->run->common.threads, err))
            return -1;
    return w->sums ? 0 : -1;
}

/* Makes the header of the result, as far as it is known; `note`: a note for the user. */
static int head(struct work *w, char *note, size_t size, struct vp_err *err)
{
    const struct vp_reduce_params *p = w->p;

    if (p->join)
        return vp_join_stack(w->readers, w->n, &w->out, err);
    w->axis = (struct vp_along){.stride = 1, .count = 1, .sums = 1};
    if (vp_reduce_stack(w->readers, w->n, p->op, &w->out, note, size, err))
        return -1;
    if (w->along && (vp_along_find(&w->axis, p->along, w->readers[0], err)
                     || (w->axis.count > 0 && vp_along_stack(&w->axis, &w->out, err))))
        return -1;
    return open_sums(w, err);
}

static void plan(const struct work *w)
{
    static const char *const names[] = {"sum", "mean", "min", "max"};
    const struct vp_reduce_params *p = w->p;
    const struct vp_stack *in = vp_reader_stack(w->readers[0]);

    for (int i = 0; i < w->n; i++)
        vp_report_plan(w->run, p->join ? "slab" : "operand", "%s: %lld x %lld, %lld pages, %s",
                       vp_reader_name(w->readers[i]), (long long)in->nx, (long long)in->ny,
                       (long long)vp_reader_stack(w->readers[i])->pages, vp_type_name(in->type));
    if (w->along && *w->axis.name && w->axis.count > 0)
        vp_report_plan(w->run, "operation", "%s of %lld along %s", names[p->op], (long long)w->axis.count,
                       w->axis.name);
    else
        vp_report_plan(w->run, "operation", "%s%s", p->join ? "join" : names[p->op], w->along ? " over the pages" : "");
    vp_report_plan(w->run, "output", "%lld x %lld, %lld page%s, %s", (long long)w->out.nx, (long long)w->out.ny,
                   (long long)(w->axis.count < 0 ? 1 : w->out.pages), w->out.pages == 1 || w->axis.count < 0 ? "" : "s",
                   vp_type_name(w->out.type));
}

/* Writes all pages of a pipe of unknown length as one. */
static int write_last(struct work *w, int64_t pages, struct vp_writer **writer, struct vp_err *err)
{
    void *page = vp_alloc_raw(vp_page_bytes(&w->out), 1, "a page", err);

    w->axis.count = pages;
    w->out.pages = pages;
    int rc = page ? vp_along_stack(&w->axis, &w->out, err) : -1;
    if (!rc) {
        vp_reduce_result(w->sums, page);
        rc = vp_open_output(w->run, &w->out, writer, err) || vp_writer_page(*writer, page, err) ? -1 : 0;
    }
    free(page);
    return rc;
}

static int work(struct work *w, struct vp_writer **writer, struct vp_err *err)
{
    const struct vp_reduce_params *p = w->p;
    const bool endless = w->along && w->axis.count < 0;
    struct vp_run *run = w->run;

    /* in addition to pages in flight: the sums, and a page of each of the other operands in turn or of the result */
    const uint64_t held = !p->join ? (uint64_t)w->axis.sums * vp_reduce_bytes(w->sums)
                                         + vp_page_bytes(vp_reader_stack(w->readers[0])) + vp_page_bytes(&w->out) : 0;
    struct vp_pages pages = {.reader = w->readers[0], .memory = run->common.memory,
                             .beside = held + vp_output_holds(run, &w->out, run->common.memory), .stats = run->stats,
                             .progress = run->progress, .stage = "reduce"};
    if (!endless && vp_open_output(run, &w->out, writer, err))
        return -1;
    pages.writer = *writer;
    int rc = p->join    ? vp_join_run(w->readers, w->n, &pages, err)
             : w->along ? vp_along_run(&w->axis, w->sums, w->readers[0], &pages, err)
                        : vp_reduce_run(w->sums, w->readers, w->n, &pages, err);
    if (!rc && endless)
        rc = write_last(w, pages.done, writer, err);
    int64_t nan = 0;
    for (int64_t i = 0; w->sums && i < w->axis.sums; i++)
        nan += w->sums[i].nan;
    if (!rc && nan)
        vp_warn(run, "%lld samples are NaN", (long long)nan);
    return rc;
}

static int ct_reduce(struct vp_run *run, void *params, struct vp_err *err)
{
    const struct vp_reduce_params *p = params;
    const bool along = p->pages || p->along;
    struct work w = {.p = p, .run = run, .n = along ? 1 : run->parsed.n_operands, .along = along};
    struct vp_writer *writer = NULL;
    char note[512] = "";
    int rc = -1;

    if (vp_device_cpu(run, err))
        return -1;
    if (along && p->join)
        return vp_fail(err, VP_EUSAGE, "--%s and --join cannot be combined", p->along ? "along" : "pages");
    if (p->join && vp_given(run, "op"))
        return vp_fail(err, VP_EUSAGE, "--op and --join cannot be combined");
    if (w.n < (along ? 0 : p->join ? 1 : 2)) {
        vp_fail(err, VP_EUSAGE, "%d operand%s, expected %s stack%s", w.n, w.n == 1 ? "" : "s",
                p->join ? "a" : "two or more", p->join ? "" : "s");
        return w.n == 1 ? vp_hint(err, "--pages reduces over the pages of one stack") : -1;
    }
    w.readers = calloc((size_t)w.n, sizeof *w.readers);
    if (!w.readers)
        return vp_fail(err, VP_ERESOURCE, "out of memory");
    const enum vp_samples samples = p->join ? VP_AS_STORED : VP_AS_VALUES;
    if (along ? vp_open_input(run, 0, samples, w.readers, err) : vp_open_each(run, w.n, samples, w.readers, err))
        goto out;
    if (head(&w, note, sizeof note, err))
        goto out;
    plan(&w);
    if (vp_report_plan_done(run)) {
        rc = 0;
        goto out;
    }
    if (note[0])
        vp_warn(run, "%s", note);
    rc = work(&w, &writer, err);
out:
    for (int i = 1; i < w.n; i++)
        if (w.readers[i] && vp_close(run, w.readers[i], NULL, rc, err))
            rc = -1;
    rc = vp_close(run, w.n ? w.readers[0] : NULL, writer, rc, err);
    for (int64_t i = 0; w.sums && i < w.axis.sums; i++)
        vp_reduce_close(&w.sums[i]);
    free(w.sums);
    vp_stack_free(&w.out);
    free(w.readers);
    return rc;
}

const struct vp_tool vp_program = {
    .name = "ct-reduce",
    .operands = "[INPUT]...",
    .summary = "sum, average or join stacks page by page",
    .description =
        "Reads several stacks and writes one: the sum, mean, smallest or largest of the samples at the same place. "
        "The stacks must have the same size, sample type and number of pages. With --pages the operands are one "
        "stack, whose pages are reduced along one axis (--along). With --join the operands are slabs of a volume and "
        "are put one after the other.\n\n"
        "The output has the metadata of the first stack; with --join, of the lowest slab. Scales that img-convert(1) "
        "recorded are undone, so values are reduced even if the stacks have different scales. With --join samples "
        "are copied as they are stored, and all slabs must have the same scale.\n\n"
        "Operands may be pipes. The stacks are read page by page side by side, so memory does not grow with their "
        "length or number. Slabs are read one after the other.",
    .options = vp_reduce_options,
    .params_size = sizeof(struct vp_reduce_params),
    .examples = examples,
    .see_also = "ct-backproject(1), img-cat(1), img-cmp(1), voxpipe-stack(5)",
    .flags = VP_TOOL_JOINS,
    .run = ct_reduce,
};
