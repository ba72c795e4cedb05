/* SPDX-License-Identifier: BSD-3-Clause */
/* img-cmp: compares two stacks sample by sample; figures on standard output, the result as exit status. */
#include "pages/compare.h"
#include "base/json.h"
#include "pages/select.h"
#include "app/open.h"
#include "app/tool.h"

#include <math.h>
#include <string.h>

struct params {
    double atol, rtol, max_rel_l2, min_psnr, min_correlation, peak, scale;
    bool nan_equal, json;
    const char *mask;
    struct vp_select_params select;
};

static const struct vp_opt options[] = {
    VP_REAL(struct params, atol, "atol", 0, .metavar = "X", .min = 0, .max = HUGE_VAL, .group = "Tolerances",
            .help = "allow a sample to differ by X + rtol |B|",
            .more = "Without any tolerance, all values must be equal. --atol and --rtol are conditions on each "
                    "sample; the other tolerances are conditions on the whole stack. All given tolerances must hold."),
    VP_REAL(struct params, rtol, "rtol", 0, .metavar = "X", .min = 0, .max = HUGE_VAL,
            .help = "allow a sample to differ by atol + X |B|"),
    VP_REAL(struct params, max_rel_l2, "max-rel-l2", 0, .metavar = "X", .min = 0, .max = HUGE_VAL,
            .help = "allow rms(A - B) / rms(B) up to X"),
    VP_REAL(struct params, min_psnr, "min-psnr", 0, .metavar = "DB", .min = -HUGE_VAL, .max = HUGE_VAL,
            .help = "require a peak signal-to-noise ratio of DB or more"),
    VP_REAL(struct params, min_correlation, "min-correlation", 0, .metavar = "R", .min = -1, .max = 1,
            .help = "require a correlation of A and B of R or more"),
    VP_REAL(struct params, peak, "peak", 0, .metavar = "X", .min = 0, .max = HUGE_VAL,
            .help = "peak for the PSNR (default: largest minus smallest sample of B)"),
    VP_FLAG(struct params, nan_equal, "nan-equal", 0,
            .help = "count NaN in both stacks as equal"),
    VP_REAL(struct params, scale, "scale", 0, .metavar = "S", .min = -HUGE_VAL, .max = HUGE_VAL, .def = "1",
            .group = "What is compared",
            .help = "multiply A by S first, to convert it to the unit of B"),
    VP_FILE(struct params, mask, "mask", 0, .metavar = "FILE",
            .help = "compare only samples where FILE is not zero",
            .more = "FILE is a TIFF stack of the same size. A single page applies to every page of the stacks."),
    VP_OPTIONS(struct params, select, vp_select_options),
    VP_FLAG(struct params, json, "json", 0, .group = "Output", .help = "print one JSON object"),
    VP_OPT_END,
};

static const struct vp_example examples[] = {
    {"Check that a change of compression keeps the samples.",
     "ct-phantom --volume 64x64x64 -o a.tif\nimg-convert --compress deflate a.tif -o b.tif\n"
     "img-cmp a.tif b.tif"},
    {"Measure the error of storing a volume with 16 bits; half a step is allowed.",
     "img-convert --type u16 --window 0,0.05 a.tif -o c.tif\n"
     "img-cmp --atol 4e-7 --min-psnr 80 c.tif a.tif"},
    {0},
};

struct job {
    struct vp_compare c;
    const struct vp_select *select;
    const struct vp_pages *pages;
    struct vp_beside b, mask;
    enum vp_type type_a, type_b, type_mask;
};

static int work(void *ctx, int64_t page, int n, void *in, void *out, struct vp_err *err)
{
    struct job *j = ctx;
    const int64_t nx = j->select->x1 - j->select->x0, row = j->pages->row, rows = j->pages->rows;
    const void *b, *mask = NULL;

    (void)out;
    j->c.row = row;
    for (int k = 0; k < n; k++) {
        const char *a = (const char *)in + (size_t)(k * nx * rows) * vp_type_size(j->type_a);
        if (vp_beside_rows(&j->b, j->select, page + k, row, rows, &b, err)
            || (j->mask.reader && vp_beside_rows(&j->mask, j->select, page + k, row, rows, &mask, err)))
            return -1;
        vp_compare_page(&j->c, vp_select_page(j->select, page + k), nx, rows, a, j->type_a, b, j->type_b, mask,
                        j->type_mask);
    }
    return n;
}

/* True if all given tolerances hold; or, without any, if the stacks are identical. */
static bool within_tolerances(const struct vp_run *run, const struct params *p, const struct vp_compare *c)
{
    const bool whole = vp_given(run, "max-rel-l2") || vp_given(run, "min-psnr")
                       || vp_given(run, "min-correlation");
    const bool each = vp_given(run, "atol") || vp_given(run, "rtol");

    if (c->odd || ((each || !whole) && c->beyond))
        return false;
    return (!vp_given(run, "max-rel-l2") || vp_compare_rel_l2(c) <= p->max_rel_l2)
           && (!vp_given(run, "min-psnr") || vp_compare_psnr(c, p->peak) >= p->min_psnr)
           && (!vp_given(run, "min-correlation") || vp_compare_correlation(c) >= p->min_correlation);
}

static void print(const struct vp_run *run, const struct params *p, const struct job *j, bool same)
{
    const struct vp_compare *c = &j->c;
    const int64_t x = c->x + j->select->x0, y = c->y + j->select->y0;
    const struct { const char *key, *name; double v; } figures[] = {
        {"samples", "samples", (double)c->samples},
        {"differing", "differing", (double)c->differing},
        {"beyond", "beyond tolerance", (double)c->beyond},
        {"not_finite", "NaN or infinite", (double)c->odd},
        {"rms", "rms error", vp_compare_rms(c)},
        {"rel_l2", "relative L2", vp_compare_rel_l2(c)},
        {"psnr", "PSNR, dB", vp_compare_psnr(c, p->peak)},
        {"correlation", "correlation", vp_compare_correlation(c)},
        {"max", "largest error", c->max},
    };
    const int n = sizeof figures / sizeof *figures;

    if (p->json) {
        struct vp_json json = {.out = stdout};
        vp_json_open(&json, NULL, '{');
        vp_json_print(&json, "same", same ? "true" : "false");
        for (int i = 0; i < n; i++)
            vp_json_number(&json, figures[i].key, figures[i].v);
        if (c->max > 0) {
            vp_json_open(&json, "at", '{');
            vp_json_print(&json, "x", "%lld", (long long)x);
            vp_json_print(&json, "y", "%lld", (long long)y);
            vp_json_print(&json, "page", "%lld", (long long)c->page);
            vp_json_close(&json, '}');
        }
        vp_json_close(&json, '}');
        putchar('\n');
        return;
    }
    for (int i = 0; i < n; i++) {
        const bool tolerance = vp_given(run, "atol") || vp_given(run, "rtol");
        const bool skip = (!strcmp(figures[i].key, "beyond") && !tolerance)
                          || (!strcmp(figures[i].key, "not_finite") && figures[i].v == 0);
        if (!skip)
            printf("%-16s %.*g\n", figures[i].name, i < 4 ? 15 : 7, figures[i].v);
    }
    if (c->max > 0)
        printf("%-16s x %lld, y %lld, page %lld: %.9g instead of %.9g\n", "  at", (long long)x, (long long)y,
               (long long)c->page, c->a, c->b);
}

static int img_cmp(struct vp_run *run, void *params, struct vp_err *err)
{
    const struct params *p = params;
    struct job j = {.c = {.scale = p->scale, .atol = p->atol, .rtol = p->rtol, .nan_equal = p->nan_equal}};
    struct vp_reader *readers[2] = {NULL}, *a = NULL, *b = NULL, *mask = NULL;
    struct vp_select select = {0};
    int rc = -1;

    if (run->parsed.n_operands != 2)
        return vp_fail(err, VP_EUSAGE, "expected two stacks to compare, got %d", run->parsed.n_operands);
    const int opened = vp_open_each(run, 2, VP_AS_VALUES, readers, err);
    a = readers[0];
    b = readers[1];
    if (opened)
        goto out;
    const struct vp_stack *in = vp_reader_stack(a);
    j.select = &select;
    j.type_a = in->type;
    j.type_b = vp_reader_stack(b)->type;
    if (vp_select_make(&select, &p->select, in, vp_reader_name(a), vp_reader_seekable(a), err)
        || vp_beside_open(&j.b, b, in, false, err))
        goto out;
    if (p->mask) {
        if (vp_open_mask(run, p->mask, &mask, err)
            || vp_beside_open(&j.mask, mask, in, true, err))
            goto out;
        j.type_mask = vp_reader_stack(mask)->type;
    }
    vp_report_plan(run, "compare", "%s (%s) with %s (%s), %lld x %lld", vp_reader_name(a), vp_type_name(j.type_a),
                   vp_reader_name(b), vp_type_name(j.type_b), (long long)in->nx, (long long)in->ny);
    if (vp_report_plan_done(run)) {
        rc = 0;
        goto out;
    }
    struct vp_pages pages = {.reader = a, .memory = run->common.memory, .stats = run->stats,
                           .other_bytes = vp_beside_bytes(&j.b, &select)
                                          + (mask ? vp_beside_bytes(&j.mask, &select) : 0),
                           .height = select.y1 - select.y0, .step = VP_COMPARE_BLOCK, .whole = mask,
                           .progress = run->progress,
                           .stage = "compare", .work = work, .ctx = &j};
    j.pages = &pages;
    if (vp_select_run(&select, &pages, err)
        || vp_beside_finish(&j.b, vp_select_is_all(&select) ? pages.done : in->pages, err)
        || (mask && vp_beside_finish(&j.mask, -1, err)))
        goto out;
    if (p->mask && !j.c.samples) {
        vp_fail(err, VP_ERUN, "%s: the mask selects no sample", p->mask);
        goto out;
    }
    const bool same = within_tolerances(run, p, &j.c);
    if (!run->common.quiet)
        print(run, p, &j, same);
    rc = same ? 0 : 1;
out:
    if (vp_reader_close(mask, err) || vp_reader_close(b, err) || vp_close(run, a, NULL, rc < 0 ? rc : 0, err))
        rc = -1;
    vp_beside_close(&j.mask);
    vp_beside_close(&j.b);
    vp_select_free(&select);
    return rc;
}

const struct vp_tool vp_program = {
    .name = "img-cmp",
    .operands = "A B",
    .summary = "compare two stacks sample by sample",
    .description =
        "Reads two stacks, A and the reference B, and prints how they differ. The exit status is 0 if they agree "
        "within the tolerances, 1 if they differ, and 2 after an error, as with diff(1). With -q nothing is printed.\n\n"
        "The report contains the number of differing samples, the rms of A - B, the same divided by the rms of B "
        "(relative L2), the peak signal-to-noise ratio, the correlation, and the largest difference with its "
        "position.\n\n"
        "The stacks are read page by page, in constant memory; either may be a pipe. Recorded scales are undone, so "
        "values are compared, even if the sample types differ. Values are 64-bit floating point numbers, so integers "
        "beyond 2^53 are rounded. A sample that is NaN or infinite in one stack only exceeds every tolerance. NaN in "
        "both stacks is a difference, too, unless --nan-equal is given.",
    .options = options,
    .params_size = sizeof(struct params),
    .examples = examples,
    .see_also = "img-info(1), diff(1)",
    .flags = VP_TOOL_TEXT | VP_TOOL_DIFF | VP_TOOL_NO_DEVICE,
    .run = img_cmp,
};
