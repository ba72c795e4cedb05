/* SPDX-License-Identifier: BSD-3-Clause */
/* Selection of a local statistic. */
#include "app/stat.h"

#include "base/err.h"
#include "local/entropy.h"
#include "local/extremum.h"
#include "local/moments.h"
#include "local/rank.h"
#include "stack/stack.h"
#include "app/image_run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STATS "mean|median|min|max|std|var|entropy|percentile:"

const struct vp_opt vp_stat_options[] = {
    VP_STRING(struct vp_stat_params, stat, "stat", 0, .metavar = "NAME", .choices = STATS, .def = "median",
              .group = "Statistic",
              .help = "mean, median, min, max, std, var, entropy, or percentile:P",
              .more = "- percentile:P is the sample of rank ceil(P/100 * n) among the n samples of the neighbourhood "
                      "in ascending order (nearest rank). percentile:0 is the minimum, percentile:100 the maximum.\n"
                      "- median is percentile:50. For an even number of samples, as at edges, it is the lower of the "
                      "two in the middle, so it is always a value of the image.\n"
                      "- entropy is in bits, from the histogram of the neighbourhood (--bins, --range)."),
    VP_OPTIONS(struct vp_stat_params, window, vp_footprint_options),
    VP_INT(struct vp_stat_params, iterations, "iterations", 'n', .metavar = "N", .def = "1", .min = 1, .max = 1000,
           .group = "Result",
           .help = "apply the filter N times",
           .more = "Not with entropy. Results of mean, std and var are f32 in between; --type applies to the last."),
    VP_CHOICE(struct vp_stat_params, type, "type", 't', "auto|same|f32", .metavar = "TYPE", .def = "auto",
              .help = "sample type of mean, std and var: auto, same or f32",
              .more = "same is the type of the input: values are rounded to the nearest integer (halves to even) and "
                      "clamped to its range. auto is same for the mean, and f32 for std and var. Median, "
                      "percentiles, minimum and maximum always keep the type; entropy is always f32."),
    VP_FLAG(struct vp_stat_params, sample, "sample", 0,
            .help = "divide by n - 1 instead of n in std and var",
            .more = "If the neighbourhood is a single voxel, the result is 0."),
    VP_INT(struct vp_stat_params, bins, "bins", 0, .metavar = "N", .def = "256", .min = 1, .max = VP_ENTROPY_BINS,
           .group = "Entropy",
           .help = "number of bins of the histogram"),
    VP_REALS(struct vp_stat_params, range, "range", 0, .metavar = "LO,HI",
             .help = "range of values that the bins divide (default: 0,255 for u8, otherwise the range of the stack)",
             .more = "Bins are equally wide. HI belongs to the last bin; values outside belong to the first and the "
                     "last bin. The default reads the stack once more, to find its smallest and largest sample, so "
                     "the input must be a file, or --spool must be given. All pages have the same bins."),
    VP_INSTEAD("old-s", 's', "stat"),
    VP_OPT_END,
};

enum kind { MEAN, MEDIAN, MIN, MAX, STD, VAR, ENTROPY, PERCENTILE, KINDS };
static const char *const NAME[KINDS] = {"mean", "median", "min", "max", "std", "var", "entropy", "percentile:"};

static int parse(const char *text, enum kind *kind, double *percent, struct vp_err *err)
{
    const size_t prefix = strlen(NAME[PERCENTILE]);
    char *end;

    *percent = 50;
    for (int k = 0; k < PERCENTILE; k++)
        if (!strcmp(text, NAME[k])) {
            *kind = (enum kind)k;
            return 0;
        }
    *kind = PERCENTILE;
    if (!strncmp(text, NAME[PERCENTILE], prefix)) {
        *percent = strtod(text + prefix, &end);
        if (end != text + prefix && !*end && *percent >= 0 && *percent <= 100)
            return 0;
        return vp_fail_hint(err, VP_EUSAGE, "as percentile:95",
                            "--stat: expected percentile:0 to percentile:100, got '%s'", text);
    }
    return vp_fail(err, VP_EUSAGE,
                   "--stat: expected mean, median, min, max, std, var, entropy or percentile:P, got '%s'", text);
}

int vp_stat_check(const struct vp_stat_params *p, struct vp_err *err)
{
    enum kind kind;
    double percent;

    if (parse(p->stat, &kind, &percent, err))
        return -1;
    if (p->type && kind != MEAN && kind != STD && kind != VAR)
        return vp_fail_hint(err, VP_EUSAGE, "pipe the result into img-convert",
                            "--type needs --stat mean, std or var, got %s", p->stat);
    if (p->sample && kind != STD && kind != VAR)
        return vp_fail(err, VP_EUSAGE, "--sample needs --stat std or var, got %s", p->stat);
    if (kind != ENTROPY && (p->range.n || p->bins != 256))
        return vp_fail(err, VP_EUSAGE, "%s needs --stat entropy, got %s", p->range.n ? "--range" : "--bins",
                       p->stat);
    if (p->range.n && (p->range.n != 2 || !(p->range.v[0] < p->range.v[1]) || !isfinite(p->range.v[1] - p->range.v[0])))
        return vp_fail(err, VP_EUSAGE, "--range: expected LO,HI with LO < HI");
    if (kind == ENTROPY && p->iterations > 1)
        return vp_fail(err, VP_EUSAGE, "--iterations: the entropy of an entropy is not offered");
    return 0;
}

void vp_stat_scale(const struct vp_stat_params *p, struct vp_image_params *image)
{
    image->values = !strcmp(p->stat, NAME[VAR]) && p->iterations > 1;
    image->steps = !strcmp(p->stat, NAME[ENTROPY]);
}

bool vp_stat_needs_range(const struct vp_stat_params *p, enum vp_type type)
{
    return !strcmp(p->stat, NAME[ENTROPY]) && !p->range.n && type != VP_U8;
}

static int make_entropy(struct vp_op *op, const struct vp_stat_params *p, const struct vp_footprint *f,
                        const struct vp_images *im, const double *range, struct vp_err *err)
{
    static const double bytes[2] = {0, UINT8_MAX}, unknown[2] = {0, 0};
    const bool scan = vp_stat_needs_range(p, im->type);
    const double given[2] = {vp_scale_stored(im->scale, p->range.v[0]), vp_scale_stored(im->scale, p->range.v[1])};
    const double *r = p->range.n ? given : !scan ? bytes : range ? range : unknown;
    char shape[96], over[64] = "the range of the stack";

    if (vp_entropy_local(op, f, p->bins, r[0], r[1], im->size, im->type, err))
        return -1;
    if (!scan || range)
        snprintf(over, sizeof over, "%.9g to %.9g", vp_scale_value(im->scale, r[0]), vp_scale_value(im->scale, r[1]));
    snprintf(op->text, sizeof op->text, "entropy, %s, %lld bins over %s", vp_footprint_text(f, shape, sizeof shape),
             (long long)p->bins, over);
    return 0;
}

int vp_stat_chain(struct vp_chain *c, const struct vp_stat_params *p, const struct vp_footprint *f,
                  const struct vp_images *im, const double *range, struct vp_result *result, struct vp_err *err)
{
    enum vp_type in = im->type;
    enum kind kind;
    double percent;
    int rc;

    if (parse(p->stat, &kind, &percent, err))
        return -1;
    const bool moment = kind == MEAN || kind == STD || kind == VAR;
    const bool f32 = p->type == 2 || (p->type == 0 && kind != MEAN);
    *result = kind == STD                          ? (struct vp_result){VP_SPREADS, "local standard deviation"}
              : kind == VAR && p->iterations == 1 ? (struct vp_result){VP_SQUARES, "local variance"}
              : kind == VAR                        ? (struct vp_result){VP_NO_VALUES, "local variance"}
              : kind == ENTROPY                    ? (struct vp_result){VP_NO_VALUES, "local entropy (bits)"}
                                                   : (struct vp_result){VP_VALUES, NULL};
    for (int64_t i = 0; i < p->iterations; i++) {
        struct vp_op op;
        /* intermediate results of iterations are not rounded to integers */
        const enum vp_type type = moment && (f32 || i + 1 < p->iterations) ? VP_F32 : im->type;
        if (moment)
            rc = vp_moments_local(&op, kind == MEAN ? VP_MEAN : kind == VAR ? VP_VAR : VP_STD, p->sample, f, im->size,
                                  in, type, err);
        else if (kind == MIN || kind == MAX)
            rc = vp_extremum_local(&op, kind == MAX, f, im->size, in, err);
        else if (kind == ENTROPY)
            rc = make_entropy(&op, p, f, im, range, err);
        else
            rc = vp_rank_local(&op, percent, f, im->size, in, false, err);
        if (rc)
            return -1;
        op.from[0] = c->n ? c->n - 1 : ~0;
        in = op.out;
        if (vp_chain_add(c, &op, err))
            return -1;
    }
    return 0;
}
