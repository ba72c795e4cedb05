/* SPDX-License-Identifier: BSD-3-Clause */
#include "app/missing.h"

#include "app/image_internal.h"
#include "app/image_run.h"
#include "app/open.h"
#include "base/err.h"
#include "local/missing.h"
#include "pages/statistics.h"
#include "stack/paths.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct vp_opt which[] = {
    VP_STRING(struct vp_missing_given, missing, "missing", 0, .metavar = "nan|VALUE", .group = "Missing samples",
              .help = "samples that are NaN, or equal to VALUE, do not exist",
              .more = "Results are made from the samples that exist, as at the edges: see \"Missing samples\" in "
                      "voxpipe(7). VALUE is in the unit of the values; NaN is missing, too."),
    VP_FILE(struct vp_missing_given, mask, "mask", 0, .metavar = "FILE",
            .help = "samples do not exist where FILE is 0",
            .more = "A u8 stack with as many pages as the input, or one page, which holds for all of them."),
    VP_REAL(struct vp_missing_given, coverage, "coverage", 0, .metavar = "FRACTION", .min = 0, .max = 1, .def = "0",
            .help = "part of the weight that must exist for a result",
            .more = "0: one sample is enough. 1: nothing may be missing. What lies beyond the edge does not count."),
    VP_OPT_END,
};

const struct vp_opt vp_missing_mask_options[] = {
    {.type = VP_T_TABLE, .table = which},
    VP_OPT_END,
};

const struct vp_opt vp_missing_options[] = {
    {.type = VP_T_TABLE, .table = which},
    VP_FLAG(struct vp_missing_given, keeps, "keep-missing", 0, .help = "missing samples stay missing",
            .more = "Without it they get a value, too, where the coverage is enough: holes are filled in."),
    VP_REAL(struct vp_missing_given, fill, "fill", 0, .metavar = "VALUE", .min = -INFINITY, .max = INFINITY,
            .help = "value where there is no result",
            .more = "In the unit of the values of the input. By default floats are NaN there, and integers are the VALUE "
                    "of --missing; without one they need --fill."),
    VP_OPT_END,
};

/* Converts a value of an option to a sample of `type`, as the file has it. */
static int to_sample(const struct vp_images *im, const char *option, double value, enum vp_type type, double *sample,
                     struct vp_err *err)
{
    const double exact = vp_scale_stored(im->scale, value);
    const enum vp_type file = im->all_i8 && type == VP_I16 ? VP_I8 : type;

    *sample = type == VP_F32 ? (double)(float)exact : exact;
    if (vp_type_is_float(type))
        return 0;
    *sample = rint(exact);
    if (fabs(exact - *sample) > 1e-6 * fmax(1, fabs(exact)) || *sample < vp_type_min(file) || *sample > vp_type_max(file))
        return vp_fail(err, VP_EUSAGE, "--%s %.9g: expected a value that %s samples have", option, value,
                       vp_type_name(file));
    return 0;
}

/* Returns the type of the samples, also if they are read as f64. */
static enum vp_type type_of(const struct vp_images *im)
{
    return im->type == VP_F64 ? vp_reader_stack(im->reader[0])->type : im->type;
}

/* Opens the mask as the second stack. */
static int open_mask(struct vp_images *im, struct vp_run *run, const char *path, struct vp_err *err)
{
    const struct vp_stack *a = vp_reader_stack(im->reader[0]);

    if (vp_list_apart(run, "mask", path, err) || vp_path_apart(path, run->common.output, err)
        || vp_open_mask(run, path, &im->reader[1], err))
        return -1;
    im->n = 2;
    const struct vp_reader *r = im->reader[1];
    const struct vp_stack *b = vp_reader_stack(r);
    if (b->type != VP_U8)
        return vp_fail_hint(err, VP_ERUN, "img-math 'a != 0' --type u8 makes one",
                            "%s: expected a mask of u8, got %s", vp_reader_name(r), vp_type_name(b->type));
    if (a->nx != b->nx || a->ny != b->ny)
        return vp_fail(err, VP_ERUN, "%s has pages of %lldx%lld, the mask %s of %lldx%lld: expected the same size",
                       vp_reader_name(im->reader[0]), (long long)a->nx, (long long)a->ny, vp_reader_name(r),
                       (long long)b->nx, (long long)b->ny);
    if (b->pages > 0 && a->pages > 0 && b->pages != 1 && b->pages != a->pages)
        return vp_fail(err, VP_ERUN, "%s has %lld pages, the mask %s %lld: expected equal numbers, or a mask of one page",
                       vp_reader_name(im->reader[0]), (long long)a->pages, vp_reader_name(r), (long long)b->pages);
    im->single[1] = b->pages == 1 && a->pages != 1;
    im->seekable = im->seekable && vp_reader_seekable(r);
    return 0;
}

int vp_missing_open(struct vp_images *im, struct vp_run *run, const struct vp_missing_given *given,
                    struct vp_err *err)
{
    static const char *const more[] = {"coverage", "keep-missing", "fill"};
    struct vp_missing *const m = &im->missing;
    const bool nan = given->missing && !strcmp(given->missing, "nan");

    m->on = given->missing || given->mask;
    for (size_t i = 0; i < sizeof more / sizeof *more && !m->on; i++)
        if (vp_given(run, more[i]))
            return vp_fail(err, VP_EUSAGE, "--%s needs --missing or --mask", more[i]);
    if (!m->on)
        return 0;
    m->coverage = given->coverage;
    m->keeps = given->keeps;
    m->valued = given->missing && !nan;
    m->masked = given->mask;
    const enum vp_type type = type_of(im);
    if (nan && !vp_type_is_float(type) && !given->mask)
        return vp_fail_hint(err, VP_EUSAGE, "--missing VALUE, or --mask FILE",
                            "--missing nan: expected floats, got %s", vp_type_name(type));
    if (m->valued) {
        char *end;
        const double value = strtod(given->missing, &end);
        if (end == given->missing || *end || !isfinite(value))
            return vp_fail(err, VP_EUSAGE, "--missing: expected nan or a number, got '%s'", given->missing);
        if (to_sample(im, "missing", value, type, &m->value, err))
            return -1;
    }
    return given->mask ? open_mask(im, run, given->mask, err) : 0;
}

int vp_missing_fill(struct vp_images *im, const struct vp_run *run, const struct vp_missing_given *given,
                    enum vp_type out, struct vp_err *err)
{
    struct vp_missing *const m = &im->missing;
    const bool given_fill = vp_given(run, "fill");

    if (!m->on)
        return 0;
    m->filled = given_fill;
    if (given_fill)
        return to_sample(im, "fill", given->fill, out, &m->fill, err);
    if (vp_type_is_float(out))
        return 0;
    m->fill = m->value;
    if (m->valued && out == type_of(im))
        return 0;
    return vp_fail_hint(err, VP_EUSAGE, "--fill 0, or a result of f32",
                        "%s results: expected --fill VALUE for where nothing is there", vp_type_name(out));
}

struct extent { struct vp_sample_range range; enum vp_type type; };

static int add_samples(void *ctx, int64_t page, const void *samples, int64_t n, struct vp_err *err)
{
    struct extent *const e = ctx;

    (void)page, (void)err;
    vp_sample_range_add(&e->range, samples, e->type, n);
    return 0;
}

int vp_missing_range(struct vp_images *im, struct vp_run *run, double range[2], struct vp_err *err)
{
    struct vp_chain chain = {0};
    struct extent extent = {.type = vp_missing_type(im->type)};
    const int rc = vp_missing_load(&chain, &im->missing, im->size, im->type, err)
                   || vp_images_scan(im, run, &chain, add_samples, &extent, err);

    vp_chain_free(&chain);
    if (rc || run->common.plan)
        return rc ? -1 : 0;
    if (!extent.range.any)
        return vp_fail(err, VP_ERUN, "%s: no sample that exists is finite", vp_reader_name(im->reader[0]));
    range[0] = extent.range.min;
    range[1] = extent.range.max;
    return 0;
}
