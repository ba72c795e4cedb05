/* SPDX-License-Identifier: BSD-3-Clause */
/* img-convert: changes the sample type, with one scale for the whole stack that is recorded in the metadata;
 * compression and raw output are common options. */
#include "base/err.h"
#include "base/size.h"
#include "pages/channel.h"
#include "stack/set.h"
#include "pages/statistics.h"
#include "app/open.h"
#include "app/tool.h"
#include "app/whole_scan.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct params {
    int type;                 /* 0: not given, else enum vp_type + 1 */
    struct vp_reals scale, window;
    bool whole, unscale;
    const char *channel;
    int palette;              /* 1: resolve */
    struct vp_select_params select;
    struct vp_set_params label;
    struct vp_whole_scan scan;
};

static const struct vp_opt options[] = {
    VP_CHOICE(struct params, type, "type", 't', "same|u8|u16|u32|u64|i8|i16|i32|i64|f32|f64",
              .metavar = "TYPE",
              .def = "same", .group = "Conversion",
              .help = "sample type: u8 u16 u32 u64 i8 i16 i32 i64 f32 f64",
              .more = "In an integer type, values are rounded to the nearest integer (halves to even) and clamped to "
                      "the range of the type, and NaN becomes 0. A message reports the number of clamped samples. "
                      "With --scale or --unscale, `same` means f32 for integers of 8 and 16 bits, and f64 for those "
                      "of 32 and 64."),
    VP_REALS(struct params, scale, "scale", 0, .metavar = "GAIN,OFFSET",
             .help = "store value * GAIN + OFFSET",
             .more = "The scale is recorded as `scale` in the metadata. --unscale undoes it."),
    VP_REALS(struct params, window, "window", 0, .metavar = "LO,HI",
             .help = "choose the scale that maps the values LO..HI to the full range of the type",
             .more = "For f32 and f64 the range is 0..1. If the metadata record a scale already, LO and HI are "
                     "values, not stored samples."),
    VP_FLAG(struct params, whole, "auto", 0,
            .help = "use a window from the smallest to the largest sample of the stack",
            .more = "All pages get the same scale. The samples are read twice, so the input must be a file, or "
                    "--spool must be given."),
    VP_FLAG(struct params, unscale, "unscale", 0, .help = "undo the scale that the metadata records"),
    VP_STRING(struct params, channel, "channel", 0, .metavar = "N|luminance",
              .help = "write one channel of a colour image, counted from 0, or its luminance",
              .more = "The input must have an axis `channel`, as colour images have. Red is 0, green 1, blue 2. The "
                      "luminance is 0.299 red + 0.587 green + 0.114 blue."),
    VP_CHOICE(struct params, palette, "palette", 0, "index|expand", .def = "index",
              .help = "for images with a palette: keep the index, or expand it to colours",
              .more = "In such an image the sample is an index, and the palette is the colours in which the indices "
                      "are shown. With index, the palette is copied if the samples stay u8 and do not change. expand "
                      "writes three pages, red, green and blue, for each page, in u8, or in u16 if the colours of "
                      "the palette have more than 8 bits; from a pipe this needs --spool."),
    VP_OPTIONS(struct params, select, vp_select_options),
    VP_OPTIONS(struct params, label, vp_set_options),
    VP_OPTIONS(struct params, scan, vp_whole_scan_options),
    VP_OPT_END,
};

static const struct vp_example examples[] = {
    {"Store a volume in 16 bits, over its whole range.",
     "ct-phantom --volume 64x64x64 -o vol.tif\nimg-convert --type u16 --auto vol.tif -o vol16.tif"},
    {"Convert it back to attenuation in 1/mm.", "img-convert --unscale vol16.tif -o back.tif"},
    {"8 bits with a given window, compressed.",
     "img-convert --type u8 --window 0,0.05 --compress deflate vol.tif -o vol8.tif"},
    {"Convert a file without a header to a stack.",
     "img-convert --raw-out vol16.tif -o vol16.raw\nimg-convert --raw-in 64x64:u16le vol16.raw -o again.tif"},
    {"The same, with axes and voxel size.",
     "img-convert --raw-in 64x64:u16le --set axes=x,y,z --set voxel=0.5,0.5,2mm vol16.raw -o again.tif"},
    {0},
};

struct job {
    const struct vp_select *select;
    const struct vp_pages *pages;
    struct vp_channel channel;
    enum vp_type from, to;
    double gain, offset;
    bool undo;                /* undo a recorded scale instead */
    double scale[2];
    int64_t lost;             /* number of samples clamped, or NaN to integer */
    struct vp_sample_range extent;
    struct vp_flatness before, after;
};

static int64_t samples(const struct job *j, int n)
{
    return n * (j->select->x1 - j->select->x0) * j->pages->rows;
}

static int convert(void *ctx, int64_t page, int n, void *in, void *out, struct vp_err *err)
{
    enum { PART = 1 << 16 };
    struct job *j = ctx;
    enum vp_type from = j->from;
    int64_t lost = 0;

    (void)page;
    if (vp_channel_mix(&j->channel, samples(j, 1), &in, &n, &from, err))
        return -1;
    const int64_t total = samples(j, n);
    #pragma omp parallel for schedule(static) reduction(+ : lost)
    for (int64_t at = 0; at < total; at += PART) {
        char *to = (char *)out + (size_t)at * vp_type_size(j->to);
        const char *const part = (const char *)in + (size_t)at * vp_type_size(from);
        const int64_t m = total - at < PART ? total - at : PART;
        lost += j->undo ? vp_unscale(to, j->to, part, from, m, j->scale)
                        : vp_convert(to, j->to, part, from, m, j->gain, j->offset);
    }
    j->lost += lost;
    vp_flatness_add(&j->before, in, from, total);
    vp_flatness_add(&j->after, out, j->to, total);
    return n;
}

static int range(void *ctx, int64_t page, int n, void *in, void *out, struct vp_err *err)
{
    struct job *j = ctx;
    enum vp_type from = j->from;

    (void)page;
    (void)out;
    if (vp_channel_mix(&j->channel, samples(j, 1), &in, &n, &from, err))
        return -1;
    vp_sample_range_add(&j->extent, in, from, samples(j, n));
    return n;
}

/* Prepares a pass over output pages; with luminance, the channels of a page come one after the other, and their sums
 * take up to half of the memory, or MUCH. */
static void set_pages(struct job *j, struct vp_pages *pages, const struct vp_stack *out)
{
    enum { MUCH = 64 << 20 };
    const uint64_t sum = (uint64_t)(out->nx * out->ny) * sizeof(double);
    const int64_t sums = vp_min64((int64_t)(pages->memory / 2), MUCH) / (int64_t)sum;

    j->pages = pages;
    pages->height = out->ny;
    pages->whole = j->channel.luminance;
    if (pages->whole) {
        pages->batch = vp_max64(1, 3 * sums - 2);
        pages->beside += (uint64_t)vp_channel_sums(pages->batch) * sum;
    }
}

/* Sets the window to stored samples lo and hi; their order is reversed if the scale is. */
static void set_window(struct job *j, double lo, double hi)
{
    const bool real = vp_type_is_float(j->to);
    const double min = real ? 0 : vp_type_min(j->to), max = real ? 1 : vp_type_max(j->to);

    j->gain = hi > lo || hi < lo ? (max - min) / (hi - lo) : 1;
    j->offset = min - lo * j->gain;
}

static int check(const struct params *p, struct vp_err *err)
{
    if ((p->scale.n > 0) + (p->window.n > 0) + p->whole + p->unscale > 1)
        return vp_fail(err, VP_EUSAGE, "--scale, --window, --auto and --unscale cannot be combined");
    if (p->scale.n && (p->scale.n != 2 || !isfinite(p->scale.v[0]) || !isfinite(p->scale.v[1])
                       || p->scale.v[0] == 0))
        return vp_fail(err, VP_EUSAGE, "--scale: expected GAIN,OFFSET with a gain that is not 0");
    if (p->window.n && (p->window.n != 2 || !(p->window.v[0] < p->window.v[1])
                        || !isfinite(p->window.v[1] - p->window.v[0])))
        return vp_fail(err, VP_EUSAGE, "--window: expected LO,HI with LO < HI");
    if ((p->scan.flat.n || p->scan.dark.n) && (p->channel || p->palette || p->select.pages || p->select.region))
        return vp_fail(err, VP_EUSAGE, "--flat and --dark cannot be combined with --channel, --palette, --pages and --region");
    return 0;
}

/* Determines scale and type, and the metadata of both; --auto reads the samples for it. */
static int prepare(struct vp_run *run, const struct params *p, struct job *j, struct vp_reader *reader,
                   struct vp_stack *out, struct vp_err *err)
{
    const char *name = vp_reader_name(reader);
    const bool scaled = p->scale.n || p->unscale;
    double old[2] = {1, 0};

    j->to = p->type ? (enum vp_type)(p->type - 1) : scaled ? vp_type_of_values(j->from) : j->from;
    j->gain = 1;
    j->offset = 0;
    if ((p->window.n || p->whole) && !p->type)
        return vp_fail_hint(err, VP_EUSAGE, "add --type, as --type u16", "--%s: --type is missing",
                            p->whole ? "auto" : "window");
    if (p->unscale && !vp_meta_get(&out->meta, "scale"))
        return vp_fail(err, VP_ERUN, "%s: --unscale: no scale is recorded in the metadata", name);
    if ((scaled || p->window.n || p->whole) && vp_scale_of(&out->meta, name, old, err))
        return -1;
    if (p->whole && !vp_reader_seekable(reader))
        return vp_fail_hint(err, VP_EUSAGE, "give --window LO,HI, or --spool",
                            "%s: --auto reads the samples twice: expected a file, got a pipe", name);
    out->type = j->to;
    if (run->common.plan)
        return 0;
    if (p->whole) {
        struct vp_pages pages = {.reader = reader, .memory = run->common.memory, .stats = run->stats,
                               .progress = run->progress, .stage = "range", .work = range, .ctx = j};
        set_pages(j, &pages, out);
        if (vp_select_run(j->select, &pages, err) || vp_reader_seek(reader, 0, err))
            return -1;
        if (!j->extent.any)
            return vp_fail(err, VP_ERUN, "%s: --auto: no sample is finite", name);
        if (!isfinite(j->extent.max - j->extent.min))
            return vp_fail(err, VP_ERUN, "%s: --auto: the range %g to %g is beyond f64", name, j->extent.min,
                           j->extent.max);
        set_window(j, j->extent.min, j->extent.max);
        vp_note(run, "window %.9g to %.9g", vp_scale_value(old, j->extent.min), vp_scale_value(old, j->extent.max));
    } else if (p->window.n) {
        set_window(j, vp_scale_stored(old, p->window.v[0]), vp_scale_stored(old, p->window.v[1]));
    } else if (p->scale.n) {
        j->gain = p->scale.v[0];
        j->offset = p->scale.v[1];
    } else if (p->unscale) {
        memcpy(j->scale, old, sizeof old);
        j->undo = true;
    }
    int rc = 0;
    if (j->gain != 1 || j->offset != 0 || j->undo || j->channel.luminance) /* colours do not apply to other samples */
        vp_meta_set(&out->meta, "palette", NULL);
    if (p->unscale)
        rc = vp_meta_set(&out->meta, "scale", NULL);
    else if (j->gain != 1 || j->offset != 0)
        rc = vp_set_numbers(&out->meta, "scale", 2,
                               (const double[]){old[0] * j->gain, old[1] * j->gain + j->offset});
    return rc ? vp_fail(err, VP_ERESOURCE, "out of memory") : 0;
}

static int img_convert(struct vp_run *run, void *params, struct vp_err *err)
{
    struct params *p = params;
    struct vp_reader *reader = NULL;
    struct vp_writer *writer = NULL;
    struct vp_select select = {0};
    struct vp_stack out = {0};
    struct job j = {.select = &select};
    const struct vp_parsed given = run->parsed;
    const char **inputs = NULL;
    char note[160];
    int rc = -1;

    if (check(p, err) || vp_whole_scan_append(run, &p->scan, &inputs, err)
        || (!inputs && vp_whole_scan_left_out(run, err))
        || vp_open_pages(run, 0, VP_AS_STORED, p->palette, &p->select, &reader, err))
        goto out;
    const struct vp_stack *in = vp_reader_stack(reader);
    const char *name = vp_reader_name(reader);
    j.from = in->type;
    if (vp_channel_select(&j.channel, p->channel, &select, &p->select, in, name, vp_reader_seekable(reader), &out,
                          note, sizeof note, err)
        || vp_set_stack(&p->label, &out, err)
        || vp_whole_scan_header(run, &p->scan, name, &out, err)
        || prepare(run, p, &j, reader, &out, err)
        || vp_whole_scan_counts(run, name, &out, err))
        goto out;
    vp_report_plan(run, "convert", "%s: %lld x %lld, %lld pages, %s to %s", name, (long long)out.nx,
                   (long long)out.ny, (long long)out.pages, vp_type_name(j.from), vp_type_name(j.to));
    if (p->whole)
        vp_report_plan(run, "passes", "2");
    if (vp_report_plan_done(run)) {
        rc = 0;
        goto out;
    }
    if (note[0])
        vp_warn(run, "%s: %s", name, note);
    if (vp_open_output(run, &out, &writer, err))
        goto out;
    struct vp_pages pages = {.reader = reader, .writer = writer, .out_bytes = vp_page_bytes(&out),
                           .memory = run->common.memory,
                           .beside = vp_output_holds(run, &out, run->common.memory),
                           .stats = run->stats, .progress = run->progress,
                           .stage = "convert", .work = convert, .ctx = &j};
    set_pages(&j, &pages, &out);
    rc = vp_select_run(&select, &pages, err);
    if (!rc && j.before.varies && !j.after.varies)
        vp_warn(run, "%s: every sample became the same %s: --auto or --scale keeps the differences", name,
                vp_type_name(j.to));
    if (!rc && j.lost)
        vp_warn(run, "%s: %lld samples do not fit %s: clamped, NaN to 0", name, (long long)j.lost,
                vp_type_name(j.to));
out:
    rc = vp_close(run, reader, writer, rc, err);
    run->parsed = given;
    vp_channel_free(&j.channel);
    vp_stack_free(&out);
    vp_select_free(&select);
    free(p->select.picked);
    free(inputs);
    return rc;
}

const struct vp_tool vp_program = {
    .name = "img-convert",
    .operands = "[INPUT]...",
    .summary = "change sample type, scale, compression or container",
    .description =
        "Reads a stack and writes it with another sample type, scale, compression or container. Values stay as they "
        "are if the new type can hold them. A scale is computed in double precision, is the same for the whole "
        "stack, and is recorded in the metadata (stored = value * gain + offset), so that --unscale restores the "
        "values.\n\n"
        "--scale is applied to the stored samples. If the stack has a scale already, the metadata then record the "
        "combination of both.\n\n"
        "--compress compresses pages without loss. --raw-in and --raw-out read and write samples without a header. "
        "Only --auto reads the input twice, and memory does not grow with the number of pages.",
    .options = options,
    .params_size = sizeof(struct params),
    .examples = examples,
    .see_also = "img-cat(1), img-view(1), voxpipe-stack(5)",
    .flags = VP_TOOL_NO_DEVICE,
    .run = img_convert,
};
