/* SPDX-License-Identifier: BSD-3-Clause */
/* img-fit: the factors with which stacks add up to another one, by least squares. Reads all stacks in lockstep. */
#include "base/progress.h"
#include "base/size.h"
#include "base/stats.h"
#include "base/text.h"
#include "pages/fit.h"
#include "app/open.h"
#include "app/tool.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct params {
    const char *mask;
    bool constant, expression;
};

static const struct vp_opt options[] = {
    VP_FILE(struct params, mask, "mask", 0, .metavar = "FILE", .group = "Fit",
            .help = "use only samples where this stack, or this single page, is not 0"),
    VP_FLAG(struct params, constant, "constant", 0,
            .help = "also fit a constant"),
    VP_FLAG(struct params, expression, "expression", 0, .group = "Output",
            .help = "print the result as an expression of a, b, ... for img-math"),
    VP_OPT_END,
};

static const struct vp_example examples[] = {
    {"Fit a sum of two stacks, with factors 2 and 0.5.",
     "ct-phantom --volume 32x32x32 -o a.tif\n"
     "ct-phantom --volume 32x32x32 --phantom spheres -o b.tif\n"
     "img-math '2*a + 0.5*b' a.tif b.tif -o sum.tif\n"
     "img-fit sum.tif a.tif b.tif"},
    {"Print the result as an expression.", "img-math \"$(img-fit --expression sum.tif a.tif b.tif)\" a.tif b.tif -o again.tif"},
    {"Correct the beam hardening of one material without a calibration: find the polynomial p + c p^2 that makes the "
     "object flat.",
     "ct-geom --sod 500 --sdd 1000 --detector 64x48 --pitch 2 --views 90 -o scan.geom\n"
     "ct-phantom -g scan.geom --phantom ball | img-math 'a - 0.15*a*a' -o p.tif\n"
     "ct-fdk -g scan.geom p.tif -o v1.tif\n"
     "img-math 'a*a' p.tif | ct-fdk -g scan.geom - -o v2.tif\n"
     "img-threshold --otsu v1.tif | img-math 'a > 0' --type f32 -o material.tif\n"
     "img-math \"$(img-fit --expression material.tif v1.tif v2.tif)\" v1.tif v2.tif -o flat.tif"},
    {0},
};

/* Checks that a stack has the size of the target; a single page is a page for all. */
static int check_size(const struct vp_reader *r, const struct vp_reader *target, bool page, struct vp_err *err)
{
    const struct vp_stack *s = vp_reader_stack(r), *t = vp_reader_stack(target);

    if (s->nx != t->nx || s->ny != t->ny)
        return vp_fail(err, VP_ERUN, "%s: expected pages of %lld x %lld as of %s, got %lld x %lld", vp_reader_name(r),
                       (long long)t->nx, (long long)t->ny, vp_reader_name(target), (long long)s->nx, (long long)s->ny);
    if (s->pages > 0 && t->pages > 0 && s->pages != t->pages && !(page && s->pages == 1))
        return vp_fail(err, VP_ERUN, "%s: expected %lld pages as of %s, got %lld", vp_reader_name(r),
                       (long long)t->pages,
                       vp_reader_name(target), (long long)s->pages);
    return 0;
}

/* Reads all stacks page by page. The last reader is the mask, or NULL. */
static int add_pages(struct vp_fit *f, struct vp_reader **reader, int n, struct vp_reader *mask, struct vp_run *run,
                     struct vp_err *err)
{
    const struct vp_stack *s = vp_reader_stack(reader[0]);
    const size_t samples = (size_t)(s->nx * s->ny);
    const bool one = mask && vp_reader_stack(mask)->pages == 1;
    const float *stack[VP_FIT_MOST];
    size_t bytes = SIZE_MAX;

    if (!vp_mul_size(&bytes, samples * sizeof(float), (size_t)n + 1) || bytes > run->common.memory)
        return vp_fail(err, VP_ERESOURCE, "a page of each stack is %s, the memory limit is %s",
                       vp_bytes_text(bytes).text,
                       vp_bytes_text(run->common.memory).text);
    float *pages = vp_alloc_raw(samples, (size_t)(n + 1) * sizeof *pages, "a page of each stack", err);
    int got = pages ? 1 : -1;

    for (int k = 1; k < n; k++)
        stack[k - 1] = pages + (size_t)k * samples;
    vp_progress_start(run->progress, "fitting", "pages", s->pages);
    for (int64_t page = 0; got > 0; page++, vp_progress_add(run->progress, 1)) {
        got = vp_reader_next_f32(reader[0], pages, err);
        for (int k = 1; k <= n && got >= 0; k++) {
            struct vp_reader *const r = k < n ? reader[k] : mask;
            if (!r || (k == n && one && page > 0))
                continue;
            const int more = vp_reader_next_f32(r, pages + (size_t)k * samples, err);
            if (more >= 0 && more != got)
                vp_fail(err, VP_ERUN, "%s: expected as many pages as of %s", vp_reader_name(r),
                        vp_reader_name(reader[0]));
            got = more == got ? got : -1;
        }
        if (got > 0 && vp_fit_page(f, pages, stack, mask ? pages + (size_t)n * samples : NULL, s->nx, s->ny, err))
            got = -1;
    }
    free(pages);
    return got;
}

/* Returns the report, malloc'd. */
static char *report(const struct vp_fit *f, const struct vp_fit_result *r, struct vp_reader **reader, bool expression)
{
    FILE *out = vp_text_open();

    if (!out)
        return NULL;
    for (int k = 0; k < f->terms && expression; k++)
        fprintf(out, k < f->stacks ? "%s(%.15g)*%c" : "%s(%.15g)", k ? "+" : "", r->factor[k], 'a' + k);
    if (expression)
        fputc('\n', out);
    for (int k = 0; k < f->terms && !expression; k++)
        fprintf(out, "%-8.10g # +- %.2g: %s\n", r->factor[k], r->error[k],
                k < f->stacks ? vp_reader_name(reader[k + 1]) : "constant");
    if (!expression)
        fprintf(out, "# rms of the rest %.4g, %.4g of the target explained, %lld samples\n", r->rms, r->of,
                (long long)f->count);
    return vp_text_close(out, NULL);
}

static int img_fit(struct vp_run *run, void *params, struct vp_err *err)
{
    const struct params *p = params;
    const int n = run->parsed.n_operands;
    struct vp_reader *reader[VP_FIT_MOST + 1] = {NULL}, *mask = NULL;
    struct vp_fit f = {0};
    struct vp_fit_result r;
    char *text = NULL;
    int rc = -1;

    if (n < 2 || n > VP_FIT_MOST + 1)
        return vp_fail(err, VP_EUSAGE, "expected a target and 1 to %d stacks, got %d operand%s", VP_FIT_MOST, n,
                       n == 1 ? "" : "s");
    if (vp_open_each(run, n, VP_AS_VALUES, reader, err) || (p->mask && vp_open_mask(run, p->mask, &mask, err)))
        goto out;
    for (int k = 1; k < n; k++)
        if (check_size(reader[k], reader[0], false, err))
            goto out;
    if (mask && check_size(mask, reader[0], true, err))
        goto out;
    for (int k = 0; k < n; k++)
        vp_report_plan(run, k ? "stack" : "target", "%s", vp_reader_name(reader[k]));
    vp_report_plan(run, "threads", "%lld", (long long)run->common.threads);
    if (vp_report_plan_done(run)) {
        rc = 0;
        goto out;
    }
    vp_fit_open(&f, n - 1, p->constant, (int)run->common.threads);
    if (add_pages(&f, reader, n, mask, run, err) || vp_fit_solve(&f, &r, err))
        goto out;
    if (f.skipped)
        vp_warn(run, "%lld samples are NaN or infinite and do not count", (long long)f.skipped);
    text = report(&f, &r, reader, p->expression);
    rc = text ? 0 : vp_fail(err, VP_ERESOURCE, "out of memory: the report");
out:
    for (int k = 1; k < n && k <= VP_FIT_MOST; k++)
        if (reader[k] && vp_close(run, reader[k], NULL, rc != 0, err))
            rc = -1;
    if (vp_reader_close(mask, rc ? NULL : err) || vp_close(run, reader[0], NULL, rc != 0, err))
        rc = -1;
    if (!rc && text)
        rc = vp_output_text(run, text, strlen(text), err);
    free(text);
    vp_fit_close(&f);
    return rc;
}

const struct vp_tool vp_program = {
    .name = "img-fit",
    .operands = "TARGET STACK...",
    .summary = "fit a stack as a weighted sum of other stacks",
    .description =
        "Reads a target and stacks a, b, ..., and prints the factors for which c1 a + c2 b + ... is closest to the "
        "target. The fit is by least squares, over all samples (or those of a mask) that are finite in all stacks.\n\n"
        "The output has one line for each factor, with its standard error. Two lines follow: the root mean square of "
        "the residual, and the part of the target's variance that the fit explains (without --constant, the part of "
        "the sum of squares). If one of the stacks is a combination of the others, the program ends with an error.\n\n"
        "The standard errors assume independent residuals. In a reconstruction, residuals of neighbouring voxels are "
        "correlated, and the standard errors are too small.\n\n"
        "The stacks may be files or pipes. They are read page by page side by side. Samples are converted to f32 and "
        "added up in f64, row by row in order, so the result does not depend on threads.",
    .options = options,
    .params_size = sizeof(struct params),
    .examples = examples,
    .sections =
        "BEAM HARDENING\n"
        "Reconstruction is linear. Let V1, V2 and V3 be the volumes of p, p^2 and p^3, where p are the line "
        "integrals. Then the volume of p + c2 p^2 + c3 p^3 is V1 + c2 V2 + c3 V3. The target is 1 in the material "
        "and 0 in air; make it by a threshold of V1. A --mask may exclude the surface of the object. The third "
        "example shows the commands, and examples/hardening.sh a real scan. The second order removes most of the cupping; the third sometimes removes a "
        "little more. (Kachelriess, Sourbelle and Kalender, Med. Phys. 33 (2006) 1269.)",
    .see_also = "img-math(1), img-cmp(1), ct-normalize(1), ct-fdk(1)",
    .flags = VP_TOOL_TEXT | VP_TOOL_NO_DEVICE,
    .run = img_fit,
};
