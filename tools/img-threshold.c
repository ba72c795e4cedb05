/* SPDX-License-Identifier: BSD-3-Clause */
/* img-threshold: masks of samples above (or below) a threshold: given, found in the histogram of the image, or adapted
 * to the neighbourhood. Contract: results do not depend on the chunks. */
#include "base/stats.h"
#include "base/text.h"
#include "global/morphrecon_derive.h"
#include "global/threshold.h"
#include "stack/stack.h"
#include "app/adaptive.h"
#include "app/image_run.h"
#include "app/missing.h"
#include "app/tool.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct params {
    double at;
    bool otsu, triangle, li, yen, isodata;
    struct vp_adaptive_params local;
    int64_t bins;
    struct vp_reals range;
    struct vp_reals hysteresis;
    double weak;
    int connectivity;
    bool below;
    double value;
    struct vp_missing_given missing;
    struct vp_image_params image;
};

static const struct vp_opt options[] = {
    VP_REAL(struct params, at, "at", 'a', .metavar = "V", .min = -INFINITY, .max = INFINITY, .group = "Threshold",
            .help = "use the threshold V",
            .more = "In the unit of the values (if a scale is recorded, not of the stored samples)."),
    VP_FLAG(struct params, otsu, "otsu", 0,
            .help = "threshold from the histogram: best separation of two classes (Otsu)",
            .more = "The five methods from the histogram compute a threshold for each image: for each volume, or "
                    "with --2d each page, of each channel and time. The history of the result records the thresholds "
                    "with all digits, in the order of the images, so --at can repeat them. -v prints the lowest and "
                    "the highest, --stats FILE lists all. The input is read twice; input from a pipe is stored."),
    VP_FLAG(struct params, triangle, "triangle", 0,
            .help = "threshold from the histogram: bend of one large peak with a tail (Zack)"),
    VP_FLAG(struct params, li, "li", 0,
            .help = "threshold from the histogram: least cross entropy (Li)"),
    VP_FLAG(struct params, yen, "yen", 0,
            .help = "threshold from the histogram: largest correlation (Yen)"),
    VP_FLAG(struct params, isodata, "isodata", 0,
            .help = "threshold from the histogram: midway between the means of both classes (Ridler)"),
    VP_OPTIONS(struct params, local, vp_adaptive_options),
    VP_INT(struct params, bins, "bins", 0, .metavar = "N", .def = "256", .min = 2, .max = VP_THRESHOLD_BINS,
           .group = "Histogram",
           .help = "number of bins of the histogram for floats, u32 and i32",
           .more = "u8, u16, i8 and i16 have one bin for each value, even if a scale is recorded. So have u32 and "
                   "i32 if their range has at most 65536 values and --bins is not given."),
    VP_REALS(struct params, range, "range", 0, .metavar = "LO,HI",
             .help = "range of values that these bins divide (default: the range of the stack)",
             .more = "Values outside count in the first and the last bin. The default reads the stack once more, to "
                     "find its smallest and largest value."),
    VP_REALS(struct params, hysteresis, "hysteresis", 0, .metavar = "LOW,HIGH", .group = "Hysteresis",
             .help = "mark voxels above LOW that are connected with a voxel above HIGH",
             .more = "Two voxels are connected if a path of neighbours, all above LOW, joins them. With --below, "
                     "voxels not above HIGH are marked if such a path, of voxels not above HIGH, joins them with a "
                     "voxel not above LOW."),
    VP_REAL(struct params, weak, "weak", 0, .metavar = "D", .min = 0, .max = INFINITY,
            .help = "hysteresis for any other threshold: neighbours of marked voxels may miss it by D",
            .more = "In the unit of the values."),
    VP_CHOICE(struct params, connectivity, "connectivity", 0, "auto|4|8|6|18|26", .metavar = "N", .def = "auto",
              .help = "neighbours: 4|8 of a pixel, 6|18|26 of a voxel",
              .more = "auto is 8 and 26. (apply_hysteresis_threshold of scikit-image uses 4 and 6.)"),
    VP_FLAG(struct params, below, "below", 0, .group = "Mask",
            .help = "mark voxels that are not above the threshold"),
    VP_REAL(struct params, value, "value", 0, .metavar = "N", .def = "255", .min = -INFINITY, .max = INFINITY,
           .help = "value of marked voxels; all others are 0",
           .more = "255 suits img-morph, img-view and ImageJ. With 1, the mean of the mask is the marked fraction."),
    VP_OPTIONS(struct params, missing, vp_missing_mask_options),
    VP_OPTIONS(struct params, image, vp_image_options),
    VP_OPT_END,
};

static const struct vp_example examples[] = {
    {"Mark voxels above 0.015 per mm.",
     "ct-phantom --volume 64x64x64 -o vol.tif\nimg-threshold --at 0.015 vol.tif -o dense.tif"},
    {"Separate object and air by a threshold from the histogram (-v prints it).",
     "img-threshold --otsu vol.tif -o object.tif"},
    {"On an uneven background, page by page: 0.001 above the mean of 31 x 31 pixels.",
     "img-threshold --local mean --2d --window 31 --offset -0.001 vol.tif -o bright.tif"},
    {"Dense parts, with all connected voxels above 0.008.",
     "img-threshold --hysteresis 0.008,0.02 vol.tif -o parts.tif"},
    {"Dark writing on a page, at the end of a pipe.",
     "img-convert --type u8 --window 0,0.05 vol.tif | img-threshold --local sauvola --2d --window 25 --below > "
     "writing.tif"},
    {0},
};

/* Thresholds in samples, and their images; `record` converts them to values. */
struct found {
    struct vp_found in;
    const struct vp_images *images;
};

enum how { NONE, AT, LOCAL, GLOBAL };

/* Selects the kind of threshold, and the method of a histogram. */
static int choose(const struct vp_run *run, const struct params *p, enum how *how, enum vp_threshold *method,
                  struct vp_err *err)
{
    const struct { const char *name; enum how how; enum vp_threshold method; } ways[] = {
        {"at", AT, VP_AT}, {"hysteresis", AT, VP_AT}, {"local", LOCAL, VP_AT}, {"otsu", GLOBAL, VP_OTSU},
        {"triangle", GLOBAL, VP_TRIANGLE},
        {"li", GLOBAL, VP_LI}, {"yen", GLOBAL, VP_YEN}, {"isodata", GLOBAL, VP_ISODATA}};
    static const char *const of_local[] = {"window", "shape", "edge", "k", "r", "offset"};
    static const char *const of_bins[] = {"bins", "range"};
    const char *first = NULL;

    *how = NONE;
    if (!(p->value >= 1 && p->value <= 255 && p->value == rint(p->value)))
        return vp_fail_hint(err, VP_EUSAGE, "--at V is the threshold",
                            "--value: expected a whole number from 1 to 255 for what is marked, got %g", p->value);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        if (!vp_given(run, ways[i].name))
            continue;
        if (first)
            return vp_fail(err, VP_EUSAGE, "--%s and --%s cannot be combined: expected one threshold", first,
                           ways[i].name);
        first = ways[i].name;
        *how = ways[i].how;
        *method = ways[i].method;
    }
    if (*how == NONE) {
        vp_fail(err, VP_EUSAGE, "expected a threshold, got none%s",
                vp_given(run, "value") ? " (--value is what marked voxels become)" : "");
        return vp_hint(err, "--at V, --hysteresis LOW,HIGH, --otsu (or --triangle, --li, --yen, --isodata), or --local "
                            VP_ADAPTIVE_CHOICES);
    }
    for (size_t i = 0; i < sizeof of_local / sizeof *of_local && *how != LOCAL; i++)
        if (vp_given(run, of_local[i]))
            return vp_fail(err, VP_EUSAGE, "--%s needs --local, got --%s", of_local[i], first);
    if (vp_given(run, "coverage") && *how != LOCAL)
        return vp_fail(err, VP_EUSAGE, "--coverage needs --local, got --%s", first);
    for (size_t i = 0; i < sizeof of_bins / sizeof *of_bins && *how != GLOBAL; i++)
        if (vp_given(run, of_bins[i]))
            return vp_fail(err, VP_EUSAGE, "--%s needs a threshold of the histogram, got --%s", of_bins[i],
                           first);
    if (p->range.n && (p->range.n != 2 || !(p->range.v[0] < p->range.v[1]) || !isfinite(p->range.v[1] - p->range.v[0])))
        return vp_fail(err, VP_EUSAGE, "--range: expected LO,HI with LO < HI");
    if (p->hysteresis.n && (p->hysteresis.n != 2 || !(p->hysteresis.v[0] <= p->hysteresis.v[1])))
        return vp_fail(err, VP_EUSAGE, "--hysteresis: expected LOW,HIGH with LOW <= HIGH");
    if (p->hysteresis.n && vp_given(run, "weak"))
        return vp_fail(err, VP_EUSAGE, "--weak and --hysteresis cannot be combined: --hysteresis has two thresholds");
    if (vp_given(run, "connectivity") && !p->hysteresis.n && !vp_given(run, "weak"))
        return vp_fail(err, VP_EUSAGE, "--connectivity needs --hysteresis or --weak");
    return *how == LOCAL ? vp_adaptive_check(&p->local, err) : 0;
}

/* Adds the mask of samples above the local threshold, or at most `weak` below it. */
static int add_local(struct vp_chain *c, const struct params *p, const struct vp_images *im, double weak,
                     struct vp_err *err)
{
    struct vp_footprint f = {0};
    struct vp_limit limit;
    struct vp_op op;
    int rc = -1;

    if (!vp_adaptive_limit(&limit, &p->local, im, p->below ? -weak : weak, p->below, (uint8_t)p->value, err)
        && !vp_adaptive_window(&f, &p->local, im, err)
        && !vp_moments_above(&op, &limit, &f, (enum vp_edge)p->local.edge, im->size, im->type, err)
        && !vp_chain_add(c, &op, err))
        rc = 0;
    vp_footprint_free(&f);
    return rc;
}

/* Adds the mask of `t`, whose limit is a value; for integers it becomes the largest sample whose value is not above it.
 * */
static int add_global(struct vp_chain *c, const struct vp_threshold_params *t, const struct vp_images *im,
                      struct vp_err *err)
{
    const bool real = vp_type_is_float(im->type), given = t->method == VP_AT;
    struct vp_threshold_params stored = *t;
    struct vp_op op;

    if (given && !real)
        stored.limit = vp_scale_floor(im->scale, t->limit);
    if (im->missing.on && !c->n && vp_missing_load(c, &im->missing, im->size, im->type, err))
        return -1;
    if (im->missing.on && !vp_threshold_ranges(im->type)) { /* a bin for every value, as of integers */
        stored.lo = vp_type_min(im->type) - .5;
        stored.hi = vp_type_max(im->type) + .5;
        stored.bins = (int64_t)(stored.hi - stored.lo);
    }
    if (vp_threshold_op(&op, &stored, im->size, im->missing.on ? vp_missing_type(im->type) : im->type, err))
        return -1;
    if (im->missing.on)
        op.from[0] = 0;
    if (given)
        snprintf(op.text, sizeof op.text, "threshold, %s %.9g", t->below ? "up to" : "above", t->limit);
    else if (vp_threshold_ranges(im->type) && t->lo == 0 && t->hi == 0) /* still unknown: --plan does not read */
        snprintf(strrchr(op.text, ',') + 1, 64, " %lld bins over the range of the stack", (long long)t->bins);
    return vp_chain_add(c, &op, err);
}

/* Reconstructs the strong mask under the weak one, the last two of the chain. */
static int add_connected(struct vp_chain *c, const struct params *p, const struct vp_images *im,
                         struct vp_morphrecon_counts *counts, struct vp_err *err)
{
    static const int neighbours[] = {0, 4, 8, 6, 18, 26};
    const struct vp_morphrecon_want want = {.what = VP_RECONSTRUCT, .staged = true, .counts = counts,
                                            .connectivity = neighbours[p->connectivity]};

    return vp_morphrecon_chain(c, &want, im->size, im->flat, VP_U8, err);
}

static int ignore(void *ctx, int64_t page, const void *samples, int64_t n, struct vp_err *err)
{
    (void)ctx, (void)page, (void)samples, (void)n, (void)err;
    return 0;
}

/* Records the thresholds, as values, in the history, the statistics and the notes of the run. */
static int record(void *ctx, struct vp_run *run, struct vp_err *err)
{
    const struct found *f = ctx;
    double lowest = INFINITY, highest = -INFINITY;
    FILE *out = vp_text_open();
    char number[32], *line;

    if (out)
        fprintf(out, "%s # threshold%s", run->history, f->in.n > 1 ? "s" : "");
    for (int64_t i = 0; i < f->in.n && out; i++) {
        double *v = &f->in.limit[i];
        *v = vp_scale_value(f->images->scale, *v);
        lowest = fmin(lowest, *v);
        highest = fmax(highest, *v);
        fprintf(out, " %s", vp_format_number(number, *v));
    }
    if (!out || !(line = vp_text_close(out, NULL)))
        return vp_fail(err, VP_ERESOURCE, "out of memory: the thresholds");
    free(run->history);
    run->history = line;
    vp_stats_list(run->stats, "thresholds", f->in.limit, f->in.n);
    if (f->in.n == 1)
        vp_note(run, "threshold %s", vp_format_number(number, lowest));
    else if (lowest <= highest)
        vp_note(run, "%lld thresholds, from %.9g to %.9g", (long long)f->in.n, lowest, highest);
    return 0;
}

/* Finds the threshold of the histogram in a separate pass, for results other than a mask. It is a value then; with
 * --plan it is NaN, and `text` names its source. */
static int find(struct vp_run *run, struct vp_images *im, struct vp_threshold_params *t, struct found *f,
                char text[160], struct vp_err *err)
{
    struct vp_chain chain = {0};
    int rc = -1;

    if (im->inner * im->outer > 1)
        return vp_fail_hint(err, VP_EUSAGE, "take one after the other, or --hysteresis LOW,HIGH for all",
                            "--weak: %lld images have a threshold of their own each",
                            (long long)(im->inner * im->outer));
    if (!add_global(&chain, t, im, err) && !vp_images_scan(im, run, &chain, ignore, NULL, err)
        && (run->common.plan || !record(f, run, err)))
        rc = 0;
    if (!rc)
        memcpy(text, chain.stage[chain.n - 1].text, sizeof chain.stage[0].text);
    vp_chain_free(&chain);
    t->method = VP_AT;
    t->limit = f->in.n ? f->in.limit[0] : NAN;
    return rc;
}

/* Gives integers that lie in a range of few values a bin for each. */
static void one_for_each(struct vp_threshold_params *t)
{
    const double values = t->hi - t->lo + 1;

    if (values > VP_THRESHOLD_BINS || values < 2)
        return;
    t->bins = (int64_t)values;
    t->lo -= .5;
    t->hi += .5;
}

/* Makes the images' chain. `t`: a global threshold. */
static int make(const struct params *p, enum how how, struct vp_threshold_params *t, struct found *f,
                struct vp_run *run, struct vp_images *im, struct vp_morphrecon_counts *counts, struct vp_err *err)
{
    struct vp_chain *const c = &im->chain;
    const bool two = p->hysteresis.n || vp_given(run, "weak"), ranges = vp_threshold_ranges(im->type);
    double range[2] = {t->lo, t->hi};
    char text[160] = "";

    if (how == GLOBAL) {
        if (vp_images_keep(im, run, false, err)
            || (ranges && !p->range.n && vp_images_range(im, run, range, err)))
            return -1;
        t->lo = p->range.n ? vp_scale_stored(im->scale, range[0]) : range[0];
        t->hi = p->range.n ? vp_scale_stored(im->scale, range[1]) : range[1];
        if (ranges && !p->range.n && !vp_type_is_float(im->type) && !vp_given(run, "bins") && !run->common.plan)
            one_for_each(t);
        if (two && find(run, im, t, f, text, err))
            return -1;
    }
    if (two && how != GLOBAL && vp_images_keep(im, run, true, err))
        return -1;
    if (how == LOCAL)
        return add_local(c, p, im, 0, err) || (two && (add_local(c, p, im, p->weak, err)
                                                       || add_connected(c, p, im, counts, err)))
               || vp_missing_chain(c, &im->missing, err) ? -1 : 0;
    if (add_global(c, t, im, err))
        return -1;
    if (!two)
        return 0;
    t->limit = p->hysteresis.n ? p->hysteresis.v[p->below] : t->limit + (p->below ? p->weak : -p->weak);
    if (add_global(c, t, im, err))
        return -1;
    if (how == GLOBAL && run->common.plan) {
        struct vp_op *const strong = &c->stage[c->n - 2], *const weak = strong + 1;
        snprintf(strong->text, sizeof strong->text, "%s", text);
        snprintf(weak->text, sizeof weak->text, "threshold, %s that one %s %.9g",
                 p->below ? "up to" : "above", p->below ? "plus" : "less", p->weak);
    }
    return add_connected(c, p, im, counts, err);
}

static int img_threshold(struct vp_run *run, void *params, struct vp_err *err)
{
    const struct params *p = params;
    struct vp_image_params image = p->image;
    struct vp_images im = {0};
    struct vp_morphrecon_counts counts = {0};
    struct found found = {.images = &im};
    enum vp_threshold method = VP_AT;
    enum how how;

    if (choose(run, p, &how, &method, err))
        return -1;
    image.values = how == LOCAL && p->local.edge == VP_EDGE_ZERO; /* the 0 beyond the edge is a value */
    image.steps = !image.values;
    struct vp_threshold_params t = {.method = method, .below = p->below, .mark = (uint8_t)p->value, .bins = p->bins,
                                    .limit = p->hysteresis.n ? p->hysteresis.v[!p->below] : p->at, .found = &found.in,
                                    .lo = p->range.v[0], .hi = p->range.v[1]};
    int rc = vp_images_open(&im, run, &image, 1, (how == LOCAL ? VP_MOMENTS_TYPES : VP_THRESHOLD_TYPES) | VP_TYPES_WIDE, err)
             || vp_missing_open(&im, run, &p->missing, err)
             || make(p, how, &t, &found, run, &im, &counts, err);
    im.solved = t.method == VP_AT ? NULL : record;
    im.ctx = &found;
    rc = vp_images_end(&im, run, rc, &(struct vp_result){VP_NO_VALUES, "mask"}, err);
    vp_found_free(&found.in);
    return rc;
}

const struct vp_tool vp_program = {
    .name = "img-threshold",
    .operands = "[INPUT]...",
    .summary = "make masks by a threshold: given, from the histogram, or local",
    .description =
        "Reads images and writes masks of u8: 255 for voxels above a threshold, 0 for all others. The threshold is "
        "given (--at, --hysteresis), computed from the histogram of the image (--otsu and others), or computed from "
        "the neighbourhood of each voxel (--local). Pages along z are a volume; with --2d each page is an image of "
        "its own. Samples are u8, u16, i8, i16 or f32, and on the CPU u32, i32 or f64.\n\n"
        "A voxel equal to its threshold is not above it. A NaN is never marked, nor is a voxel with a NaN in its "
        "neighbourhood by a local threshold, unless --missing nan leaves it out.\n\n"
        "The bits of the result do not depend on threads, memory or chunks. On a GPU they are the same as on the "
        "CPU, except for local thresholds of f32: there, a sample that equals its threshold within rounding may be "
        "on its other side.",
    .options = options,
    .params_size = sizeof(struct params),
    .examples = examples,
    .sections =
        "NOTES\n"
        "Formulas and names are those of scikit-image (threshold_local, threshold_niblack, threshold_sauvola, "
        "threshold_otsu and so on). The masks are equal, with these exceptions:\n\n"
        "- At the edge of the image, local thresholds use only voxels that exist. With --edge mirror, nearest, zero "
        "or wrap they equal threshold_local with mode reflect, nearest, constant or wrap. (threshold_niblack and "
        "threshold_sauvola reflect at the centre of the last pixel; no rule here does.)\n"
        "- A voxel that lies on its threshold may differ, because integers of 8 and 16 bits are compared without "
        "rounding errors here.",
    .see_also = "img-morph(1), img-local(1), img-math(1), voxpipe-stack(5)",
    .flags = VP_TOOL_CUDA,
    .run = img_threshold,
};
