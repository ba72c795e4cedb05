/* SPDX-License-Identifier: BSD-3-Clause */
#include "app/image_measure.h"

#include "base/size.h"
#include "pages/statistics.h"
#include "local/moments.h"
#include "engine/pages.h"
#include "stack/reader.h"
#include "app/image_run.h"
#include "app/tool.h"

#include <string.h>

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
    float held[VP_MOMENTS_BLOCK];
};

static void add_held(struct sums *s)
{
    vp_squares_add(&s->squares, s->held, s->n);
    s->n = 0;
}

static int add_rows(void *ctx, int64_t page, const void *samples, int64_t n, struct vp_err *err)
{
    struct sums *s = ctx;
    (void)err;
    if (page != s->page)
        add_held(s);
    s->page = page;
    for (const float *from = samples; n > 0;) {
        const int64_t blocks = n / VP_MOMENTS_BLOCK * VP_MOMENTS_BLOCK, more = vp_min64(n, VP_MOMENTS_BLOCK - s->n);
        const bool whole = s->n == 0 && blocks > 0;
        if (whole) {
            vp_squares_add(&s->squares, from, blocks);
        } else {
            memcpy(s->held + s->n, from, (size_t)more * sizeof *from);
            s->n += more;
            if (s->n == VP_MOMENTS_BLOCK)
                add_held(s);
        }
        from += whole ? blocks : more;
        n -= whole ? blocks : more;
    }
    return 0;
}

int vp_images_noise(struct vp_images *im, struct vp_run *run, const struct vp_footprint *f, double *noise,
                    struct vp_err *err)
{
    struct vp_chain chain = {0};
    struct vp_op op;
    struct sums sum = {.n = 0};
    int rc = -1;

    *noise = -1;
    /* deviations, since a variance may underflow or overflow in f32 */
    if (!vp_moments_local(&op, VP_STD, false, f, im->size, im->type, VP_F32, err) && !vp_chain_add(&chain, &op, err)
        && !vp_images_scan(im, run, &chain, add_rows, &sum, err))
        rc = 0;
    add_held(&sum);
    if (!run->common.plan)
        *noise = sum.squares.n ? vp_squares_mean(&sum.squares) : 0;
    vp_chain_free(&chain);
    return rc;
}
