/* SPDX-License-Identifier: BSD-3-Clause */
#include "app/image_run.h"
#include "base/size.h"
#include "base/stats.h"
#include "stack/set.h"
#include "engine/execute.h"
#include "engine/pages.h"
#include "local/moments.h"
#include "pages/statistics.h"
#include "stack/axes.h"
#include "app/image_internal.h"
#include "app/missing.h"
#include "app/open.h"

#include <math.h>
#include <string.h>

/* ---- the result ---- */

/* Returns the type of the samples in the file: the last stage's, or i8 again where i16 stood in for it. */
static enum vp_type type_in_file(const struct vp_images *im, const struct vp_chain *chain)
{
    const enum vp_type out = chain->stage[chain->n - 1].out;
    return im->all_i8 && im->type == VP_I16 && out == VP_I16 ? VP_I8 : out;
}

/* Moves the origin to the first voxel of the result. */
static int move_origin(struct vp_meta *meta, const int64_t corner[3])
{
    double voxel[3], origin[3];

    if (!(corner[0] || corner[1] || corner[2]) || !vp_meta_numbers(meta, "origin", 3, origin))
        return 0;
    if (!vp_meta_numbers(meta, "voxel", 3, voxel))
        return vp_meta_set(meta, "origin", NULL);
    for (int a = 0; a < 3; a++)
        origin[a] += (double)corner[a] * voxel[a];
    return vp_set_numbers(meta, "origin", 3, origin);
}

/* Sets the metadata of the samples. */
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
    return vp_set_numbers(meta, "scale", 2, (const double[]){gain, 0});
}

/* Changes the sizes if the result is larger or smaller than the input. */
static int resize(const struct vp_images *im, struct vp_stack *out, const struct vp_op *op)
{
    const int64_t more[3] = {vp_images_grown(im, op, 0), vp_images_grown(im, op, 1), vp_images_grown(im, op, 2)};
    struct vp_axes axes;
    out->nx += more[0];
    out->ny += more[1];
    if (more[0] || more[1]) /* the geometry does not describe projections of another size */
        vp_meta_remove_prefix(&out->meta, "geom.");
    vp_axes_get(out, &axes);
    const int z = vp_axes_z(&axes);
    if (!more[2] || axes.n < 2 || !axes.sized || z < 0)
        return 0;
    axes.size[z] += more[2];
    return vp_axes_set(&out->meta, &axes);
}

static int pad(const struct vp_images *im, int64_t nz, struct vp_writer *w, struct vp_err *err)
{
    const int64_t planes = im->pad[2] * im->inner;
    return !im->pad[0] && !im->pad[1] && !planes ? 0
           : vp_writer_pad(w, &(struct vp_padding){im->pad[0], im->pad[1], planes,
                                                   nz < VP_UNKNOWN ? nz * im->inner + planes : 0}, err);
}

/* Opens the output, with its metadata and length; the second output, if there is one, is writer[1]. */
static int open_result(const struct vp_images *im, struct vp_run *run, const struct vp_chain *chain,
                     const struct vp_result *result, struct vp_writer *writer[2], struct vp_err *err)
{
    const struct vp_op *last = &chain->stage[chain->n - 1];
    struct vp_stack out = {0};
    int rc = -1;

    writer[0] = writer[1] = NULL;
    if (vp_stack_copy(&out, vp_reader_stack(im->reader[im->first])) || resize(im, &out, last)
        || move_origin(&out.meta, im->corner) || describe(&out.meta, result)) {
        vp_fail(err, VP_ERESOURCE, "out of memory: the metadata");
    } else if (!im->header || !im->header(im->ctx, vp_reader_stack(im->reader[im->first]), &out, err)) {
        out.type = type_in_file(im, chain);
        if (im->outer < VP_UNKNOWN && im->nz < VP_UNKNOWN)
            out.pages = im->lines ? im->outer : im->inner * (im->nz + vp_images_grown(im, last, 2)) * im->outer;
        rc = vp_open_output(run, &out, &writer[0], err) || pad(im, last->image[2], writer[0], err) ? -1 : 0;
        if (!rc && last->second) {
            out.type = *last->second;
            rc = vp_open_result(run, im->second, &out, &writer[1], err);
            rc = rc || pad(im, last->image[2], writer[1], err) ? -1 : 0;
        }
    }
    vp_stack_free(&out);
    for (int i = 0; rc && i < 2; i++) {
        vp_writer_abort(writer[i]);
        writer[i] = NULL;
    }
    return rc;
}

/* ---- the run ---- */

enum { TRIES = 8 };

/* An output that is opened after the first pass. */
struct late {
    const struct vp_images *im;
    struct vp_run *run;
    const struct vp_chain *chain;
    const struct vp_result *result;
    struct vp_writer **writer;
};

static int open_late(void *ctx, struct vp_execute *e, struct vp_err *err)
{
    struct late *l = ctx;
    if (l->writer[0]) /* second try */
        return 0;
    if (l->im->solved(l->im->ctx, l->run, err) || open_result(l->im, l->run, l->chain, l->result, l->writer, err))
        return -1;
    e->writer = l->writer[0];
    e->second_writer = l->writer[1];
    return 0;
}

/* Runs the plan; with smaller plans if a device has less memory than it reported. */
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
        vp_stats_text(run->stats, "device", j->problem.backend ? j->problem.backend->name : "cpu");
        const int rc = vp_execute_plan(e, &full, err);
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
        j->problem.parted |= j->plan.held > 0;
        if (vp_images_plan_again(im, run, j, err)) {
            *err = why; /* the cause: less memory than planned */
            return -1;
        }
    }
    return -1;
}

int vp_images_run(struct vp_images *im, struct vp_run *run, struct vp_chain *chain, const struct vp_result *result,
                  struct vp_err *err)
{
    const enum vp_type stored = type_in_file(im, chain);
    /* open early, so that pages of a file in memory are allocated while the device starts; others after planning */
    const bool waits = im->solved, early = vp_output_any_order(run) && !run->common.plan && !waits;
    struct vp_image_job job;
    struct vp_writer *writer[2] = {NULL};
    struct late output = {im, run, chain, result, writer};
    int rc = -1;

    if (early && open_result(im, run, chain, result, writer, err))
        goto out;
    if (vp_images_plan(im, run, chain, stored, true, &job, err))
        goto out;
    vp_images_show(im, run, &job, stored);
    if (vp_report_plan_done(run)) {
        rc = 0;
        goto out;
    }
    if (!early && !waits && open_result(im, run, chain, result, writer, err))
        goto out;
    if (job.plan.bands > 1 && !job.plan.flow && !(waits ? vp_output_any_order(run) : vp_writer_random(writer[0]))) {
        job.problem.rows = false;
        if (vp_images_plan_again(im, run, &job, err))
            goto out;
    }
    struct vp_execute e = {.writer = writer[0], .second_writer = writer[1], .stored_out = stored,
                           .solved = waits ? open_late : NULL, .ctx = &output};
    rc = execute(im, run, chain, &job, &e, err);
out:
    for (int k = im->n - 1; k > 0; k--) {
        vp_stats_count(run->stats, "bytes_read", vp_reader_bytes(im->reader[k]));
        if (vp_reader_close(im->reader[k], rc || run->common.plan ? NULL : err))
            rc = -1;
        im->reader[k] = NULL;
    }
    /* errors at the end of the input come before any result is renamed */
    rc = vp_close(run, im->reader[0], NULL, rc, err);
    im->reader[0] = NULL;
    for (int i = 1; i >= 0; i--)
        rc = vp_close(run, NULL, writer[i], rc, err);
    im->n = 0;
    return rc;
}

int vp_images_end(struct vp_images *im, struct vp_run *run, int rc, const struct vp_result *result,
                  struct vp_err *err)
{
    if (!rc)
        rc = vp_images_run(im, run, &im->chain, result, err);
    vp_images_close(im);
    return rc ? -1 : 0;
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
                                "%s: the samples are read twice: expected a file, got a pipe",
                                vp_reader_name(im->reader[k]));
    int rc = vp_images_plan(im, run, chain, e.stored_out, false, &job, err);
    if (!rc && run->common.plan)
        return 0;
    rc = rc || execute(im, run, chain, &job, &e, err) ? -1 : 0;
    for (int k = 0; k < im->n && !rc; k++)
        rc = vp_reader_seek(im->reader[k], 0, err);
    return rc;
}

/* ---- the range ---- */

struct range {
    struct vp_sample_range extent;
    const struct vp_pages *pages;
};

static int add_pages(void *ctx, int64_t page, int n, void *in, void *out, struct vp_err *err)
{
    struct range *r = ctx;
    const struct vp_stack *s = vp_reader_stack(r->pages->reader);

    (void)page;
    (void)out;
    (void)err;
    vp_sample_range_add(&r->extent, in, s->type, n * r->pages->rows * s->nx);
    return n;
}

int vp_images_range(struct vp_images *im, struct vp_run *run, double range[2], struct vp_err *err)
{
    struct vp_reader *reader = im->reader[0];
    struct range r = {.pages = NULL};
    struct vp_pages pages = {.reader = reader, .height = vp_reader_stack(reader)->ny, .memory = run->common.memory,
                             .stats = run->stats, .progress = run->progress, .stage = "range", .work = add_pages,
                             .ctx = &r};

    if (im->missing.on)
        return vp_missing_range(im, run, range, err);
    r.pages = &pages;
    if (!im->seekable)
        return vp_fail_hint(err, VP_EUSAGE, "give --range LO,HI, or --spool",
                            "%s: the range for the bins needs the samples twice: expected a file, got a pipe",
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

/* ---- the noise ---- */

/* Sums over blocks of a page, which do not depend on the number of rows that arrive at once. */
struct sums {
    struct vp_squares squares;
    int64_t page, n;            /* number of page, and of samples in the current block */
    enum vp_type type;
    double held[VP_MOMENTS_BLOCK];
};

static void add_held(struct sums *s)
{
    vp_squares_add(&s->squares, s->held, s->type, s->n);
    s->n = 0;
}

static int add_rows(void *ctx, int64_t page, const void *samples, int64_t n, struct vp_err *err)
{
    struct sums *s = ctx;
    const size_t size = vp_type_size(s->type);
    (void)err;
    if (page != s->page)
        add_held(s);
    s->page = page;
    for (const char *from = samples; n > 0;) {
        const int64_t blocks = n / VP_MOMENTS_BLOCK * VP_MOMENTS_BLOCK, more = vp_min64(n, VP_MOMENTS_BLOCK - s->n);
        const bool whole = s->n == 0 && blocks > 0;
        if (whole) {
            vp_squares_add(&s->squares, from, s->type, blocks);
        } else {
            memcpy((char *)s->held + (size_t)s->n * size, from, (size_t)more * size);
            s->n += more;
            if (s->n == VP_MOMENTS_BLOCK)
                add_held(s);
        }
        from += (size_t)(whole ? blocks : more) * size;
        n -= whole ? blocks : more;
    }
    return 0;
}

int vp_images_noise(struct vp_images *im, struct vp_run *run, const struct vp_footprint *f, double *noise,
                    struct vp_err *err)
{
    struct vp_chain chain = {0};
    struct vp_op op;
    struct sums sum = {.type = vp_type_of_values(im->type)};
    struct vp_missing missing = im->missing;
    int rc = -1;

    missing.filled = false; /* NaN does not count, a number would */
    *noise = -1;
    /* deviations, since a variance may underflow or overflow in f32 */
    if (!vp_moments_local(&op, VP_STD, false, f, im->size, im->type, sum.type, err) && !vp_chain_add(&chain, &op, err)
        && !vp_missing_chain(&chain, &missing, err) && !vp_images_scan(im, run, &chain, add_rows, &sum, err))
        rc = 0;
    add_held(&sum);
    if (!run->common.plan)
        *noise = sum.squares.n ? vp_squares_mean(&sum.squares) : 0;
    vp_chain_free(&chain);
    return rc;
}
