/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/image_run.h"
#include "base/stats.h"
#include "run/execute.h"
#include "tool/image_internal.h"
#include "tool/open.h"

#include <string.h>

enum { TRIES = 8 };

/* Run the plan; where a device has less memory than it said, with smaller plans. */
static int execute(struct vp_images *im, struct vp_run *run, struct vp_chain *chain, struct vp_image_job *j,
                   struct vp_execute *e, struct vp_err *err)
{
    bool full = false;
    e->problem = &j->problem;
    e->plan = &j->plan;
    e->chain = chain;
    e->held = im->type;
    for (int k = 0; k < im->n; k++)
        e->reader[k] = im->reader[k];
    memcpy(e->device, j->device, sizeof e->device);
    e->stats = run->stats;
    e->progress = run->progress;
    for (int i = 0; i < TRIES; i++) {
        vp_stats_text(run->stats, "device", j->problem.kind ? j->problem.kind->name : "cpu");
        const int rc = j->plan.twice ? vp_execute_twice(e, &full, err) : vp_execute(e, &full, err);
        if (!rc && e->smaller)
            vp_note(run, "a device ran short of memory %d time%s: the work went on in smaller parts", e->smaller,
                    e->smaller > 1 ? "s" : "");
        if (!rc || !full || i == TRIES - 1)
            return rc;
        vp_note(run, "%s: planning smaller parts", err->msg);
        const struct vp_err why = *err;
        *err = (struct vp_err)VP_ERR_INIT;
        for (int d = 0; d < j->problem.devices; d++)
            j->problem.free[d] = j->problem.free[d] / 10 * 7;
        if (vp_images_plan_again(im, run, j, err)) {
            *err = why; /* the cause: there was less than planned */
            return -1;
        }
    }
    return -1;
}

int vp_images_run(struct vp_images *im, struct vp_run *run, struct vp_chain *chain, const struct vp_result *result,
                  struct vp_err *err)
{
    const enum vp_type stored = vp_images_stored(im, chain);
    /* while a device starts, memory for a file in memory gets ready; others get nothing before all is well */
    const bool early = vp_output_any_order(run) && !run->common.plan;
    struct vp_image_job job;
    struct vp_writer *writer[2] = {NULL};
    int rc = -1;

    if (early && vp_images_result(im, run, chain, result, writer, err))
        goto out;
    if (vp_images_plan(im, run, chain, stored, true, &job, err))
        goto out;
    vp_images_show(im, run, &job, stored);
    if (vp_plan_done(run)) {
        rc = 0;
        goto out;
    }
    if (!early && vp_images_result(im, run, chain, result, writer, err))
        goto out;
    if (job.plan.bands > 1 && !job.plan.flow && !vp_writer_random(writer[0])) {
        job.problem.rows = false;
        if (vp_images_plan_again(im, run, &job, err))
            goto out;
    }
    struct vp_execute e = {.writer = writer[0], .twin_writer = writer[1], .stored_out = stored};
    rc = execute(im, run, chain, &job, &e, err);
out:
    for (int k = im->n - 1; k > 0; k--) {
        struct vp_err late = VP_ERR_INIT;
        vp_stats_count(run->stats, "bytes_read", vp_reader_bytes(im->reader[k]));
        if (vp_reader_close(im->reader[k], rc || run->common.plan ? &late : err))
            rc = -1;
        im->reader[k] = NULL;
    }
    if (vp_close(run, NULL, writer[1], rc != 0, err))
        rc = -1;
    if (vp_close(run, im->reader[0], writer[0], rc != 0, err))
        rc = -1;
    im->reader[0] = NULL;
    im->n = 0;
    return rc;
}

int vp_images_scan(struct vp_images *im, struct vp_run *run, struct vp_chain *chain,
                   int (*page)(void *ctx, int64_t page, const void *samples, int64_t n, struct vp_err *err), void *ctx,
                   struct vp_err *err)
{
    struct vp_execute e = {.page = page, .ctx = ctx, .stored_out = chain->stage[chain->n - 1].out};
    struct vp_image_job job;

    for (int k = 0; k < im->n; k++)
        if (!im->seekable && !vp_reader_seekable(im->reader[k]))
            return vp_fail_hint(err, VP_EUSAGE, "give a file, or --spool",
                                "%s: the samples are read twice, which a pipe cannot give",
                                vp_reader_name(im->reader[k]));
    int rc = vp_images_plan(im, run, chain, e.stored_out, false, &job, err);
    if (!rc && run->common.plan)
        return 0;
    rc = rc || execute(im, run, chain, &job, &e, err) ? -1 : 0;
    for (int k = 0; k < im->n && !rc; k++)
        rc = vp_reader_seek(im->reader[k], 0, err);
    return rc;
}
