/* SPDX-License-Identifier: BSD-3-Clause */
/* img-view: a PNG of a slice, of three orthogonal slices, or of a montage, with a robust or a given
 * window. */
#include "base/size.h"
#include "base/text.h"
#include "pages/channel.h"
#include "pages/colours.h"
#include "pages/profile.h"
#include "pages/render.h"
#include "stack/axes.h"
#include "stack/outfile.h"
#include "stack/series.h"
#include "app/open.h"
#include "app/tool.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct params {
    int64_t slice, channel, montage, columns, zoom;
    int axis, colours;
    bool ortho, invert, square;
    struct vp_reals at, window, percentile, profile;
    struct vp_size fit;
};

static const struct vp_opt options[] = {
    VP_INT(struct params, slice, "slice", 0, .metavar = "N", .group = "What is shown",
           .help = "number of the slice along --axis (default: the middle one)",
           .more = "Counted from 0; negative numbers count from the end. In a stack with channels, slices of one "
                   "channel are counted."),
    VP_INT(struct params, channel, "channel", 'c', .metavar = "N", .min = 0, .max = 1e15,
           .help = "show one channel, in gray (default: in colour, or channel 0)",
           .more = "Counted from 0. A stack is shown in colour if the metadata name its channels red, green and blue "
                   "(see img-info). Of other channels only the first is shown, with a warning."),
    VP_CHOICE(struct params, axis, "axis", 0, "z|y|x", .metavar = "AXIS", .def = "z",
              .help = "cut perpendicular to z (a page), y or x",
              .more = "- z: the picture shows x to the right and y down\n"
                      "- y: the picture shows x to the right and z down\n"
                      "- x: the picture shows z to the right and y down"),
    VP_FLAG(struct params, ortho, "ortho", 0,
            .help = "three orthogonal slices in one picture",
            .more = "The slice perpendicular to z is at the top left, the one perpendicular to x to its right, and "
                    "the one perpendicular to y below it, so rows and columns line up."),
    VP_REALS(struct params, at, "at", 0, .metavar = "X,Y,Z", .min = 0, .max = 1e15,
             .help = "voxel where the slices of --ortho meet (default: the middle)"),
    VP_INT(struct params, montage, "montage", 0, .metavar = "N", .min = 1, .max = 10000,
           .help = "N evenly spaced slices along --axis"),
    VP_INT(struct params, columns, "columns", 0, .metavar = "N", .min = 1, .max = 10000,
           .help = "columns of the montage (default: about the number of rows)"),
    VP_REALS(struct params, profile, "profile", 0, .metavar = "X0,Y0,X1,Y1", .min = 0, .max = 1e15,
             .help = "print the values along a line of the slice, as CSV",
             .more = "No picture is written. The columns are the distance from the first end, x and y in pixels from "
                     "0, and the value. The distance is in the unit of the voxel size, or in pixels if that is "
                     "unknown. Values are interpolated bilinearly, in steps of about one pixel."),
    VP_REALS(struct params, window, "window", 'w', .metavar = "LO,HI", .group = "How it is shown",
             .help = "values that are shown black and white"),
    VP_REALS(struct params, percentile, "percentile", 0, .metavar = "LO,HI", .min = 0, .max = 100,
             .def = "0.5,99.5",
             .help = "percentiles of the samples shown that are black and white",
             .more = "Not used if --window is given. Outliers hardly change it. NaN is always black."),
    VP_FLAG(struct params, invert, "invert", 0,
            .help = "show large samples black and small ones white"),
    VP_CHOICE(struct params, colours, "colormap", 0, VP_COLOURS_CHOICES, .metavar = "MAP", .def = "gray",
              .help = "colours: gray, viridis, heat, blue-red or labels",
              .more = "blue-red is white in the middle of the window; use it for differences. labels gives each "
                      "whole number a colour of its own and 0 black, without a window. A stack in colour is shown as "
                      "one channel."),
    VP_INT(struct params, zoom, "zoom", 'z', .metavar = "N", .min = 1, .max = 64, .def = "1",
           .help = "show each sample as N x N pixels"),
    VP_SIZE(struct params, fit, "fit", 0, .metavar = "WxH",
            .help = "shrink the picture to at most W x H pixels",
            .more = "Each pixel is the mean over its area. A picture that fits already is not changed."),
    VP_FLAG(struct params, square, "square", 0,
            .help = "one pixel for each sample, whatever the voxel size",
            .more = "Without it, slices of voxels that are not cubes are stretched to their true shape."),
    VP_INSTEAD("old-s", 's', "slice"),
    VP_INSTEAD("old-a", 'a', "axis"),
    VP_OPT_END,
};

static const struct vp_example examples[] = {
    {"The middle slice.", "ct-phantom --volume 64x64x64 -o vol.tif\nimg-view vol.tif -o slice.png"},
    {"Three orthogonal slices from a pipe, enlarged twice.",
     "ct-phantom --volume 64x64x64 | img-view --ortho --zoom 2 -o ortho.png"},
    {"Twelve slices with a fixed window.",
     "img-view --montage 12 --columns 4 --window 0,0.03 vol.tif -o montage.png"},
    {"The largest sample along y, in colour.",
     "img-reslice --axes xz vol.tif | ct-reduce --op max --pages | img-view --colormap viridis -o max.png"},
    {"Print the values along a line of the middle slice.", "img-view --profile 0,32,63,32 vol.tif -o line.csv"},
    {"All pages as numbered pictures with one window.", "img-view --fit 32x32 vol.tif -o 'page_%03d.png'"},
    {0},
};

enum { GAP = 2, MAX_STRETCH = 100, COLOURS = 3 };

static int check(const struct vp_run *run, const struct params *p, struct vp_err *err)
{
    if (p->ortho + vp_given(run, "montage") + vp_given(run, "slice") > 1)
        return vp_fail(err, VP_EUSAGE, "--slice, --ortho and --montage cannot be combined");
    if (p->ortho && vp_given(run, "axis"))
        return vp_fail(err, VP_EUSAGE, "--axis: --ortho shows all three");
    if (p->at.n && (p->at.n != 3 || !p->ortho))
        return vp_fail(err, VP_EUSAGE, p->ortho ? "--at: expected X,Y,Z" : "--at: needs --ortho");
    if (p->window.n && (p->window.n != 2 || !(p->window.v[0] < p->window.v[1])))
        return vp_fail(err, VP_EUSAGE, "--window: expected LO,HI with LO < HI");
    if (p->percentile.n != 2 || p->percentile.v[0] > p->percentile.v[1])
        return vp_fail(err, VP_EUSAGE, "--percentile: expected LO,HI with LO <= HI");
    for (int i = 0; i < p->at.n; i++)
        if (p->at.v[i] != floor(p->at.v[i]))
            return vp_fail(err, VP_EUSAGE, "--at: expected whole numbers, got %g", p->at.v[i]);
    if (p->profile.n && (p->profile.n != 4 || p->ortho || p->montage))
        return vp_fail(err, VP_EUSAGE, p->profile.n != 4 ? "--profile: expected X0,Y0,X1,Y1, got %d numbers"
                                                         : "--profile: expected one slice", p->profile.n);
    if (p->columns && !p->montage)
        return vp_fail(err, VP_EUSAGE, "--columns: needs --montage");
    if (p->fit.n && p->fit.n != 2)
        return vp_fail(err, VP_EUSAGE, "--fit: expected WxH");
    return 0;
}

static int64_t length(const struct vp_stack *in, int64_t pages, enum vp_cut axis)
{
    return axis == VP_CUT_Z ? pages : axis == VP_CUT_Y ? in->ny : in->nx;
}

/* Returns the name of a channel in the metadata's `channels`, as " (cyan)"; "" if it has none. */
static void name_channel(const struct vp_stack *in, int64_t k, char name[40])
{
    const char *at = vp_meta_get(&in->meta, "channels");
    int n = 0;
    char word[32] = "";

    for (; at && k >= 0 && sscanf(at, "%31s%n", word, &n) == 1; at += n)
        k--;
    name[0] = '\0';
    if (k < 0)
        snprintf(name, 40, " (%s)", word);
}

/* Returns the axis of the channels; if there is a channel axis, colours are not it. */
static int channels_of(const struct vp_axes *axes)
{
    const int samples = vp_axes_find(axes, "sample");

    return samples >= 0 ? samples : vp_axes_find(axes, "channel");
}

/* Selects the channels: *first alone, or red, green and blue. */
static int choose_channels(const struct vp_run *run, const struct params *p, struct vp_reader *reader,
                           struct vp_slices *s, int64_t *first, struct vp_err *err)
{
    const struct vp_stack *in = vp_reader_stack(reader);
    const bool given = vp_given(run, "channel");
    struct vp_axes axes;
    char name[40];

    vp_axes_get(in, &axes);
    const int which = channels_of(&axes);
    *first = given ? p->channel : 0;
    s->stride = s->count = s->colours = 1;
    if (which >= 0 && axes.sized) {
        s->stride = vp_axes_stride(&axes, which);
        s->count = axes.size[which];
    } else if (given) {
        return vp_fail(err, VP_EUSAGE, "%s: --channel: the stack has no axis of channels (axes %s)",
                       vp_reader_name(reader), vp_meta_get(&in->meta, "axes") ? vp_meta_get(&in->meta, "axes")
                           : "x y z");
    }
    if (*first >= s->count)
        return vp_fail(err, VP_EUSAGE, "%s: --channel %lld: expected 0 to %lld", vp_reader_name(reader),
                       (long long)*first, (long long)s->count - 1);
    if (!given && !p->colours && !p->profile.n && s->count >= 3 && vp_channels_are_colours(&in->meta)) {
        s->colours = 3;
    } else if (!given && s->count > 1) {
        name_channel(in, *first, name);
        vp_warn(run, "%s: channel %lld%s of %lld is shown: --channel N shows another", vp_reader_name(reader),
                (long long)*first, name, (long long)s->count);
    }
    return 0;
}

/* Selects the slices. A page given by number can come from a pipe of unknown length. */
static int choose(const struct vp_run *run, const struct params *p, struct vp_reader *reader,
                  struct vp_slices *s,
                  struct vp_err *err)
{
    const struct vp_stack *in = vp_reader_stack(reader);
    const enum vp_cut axis = (enum vp_cut)p->axis;
    struct vp_axes axes;
    int64_t first;

    vp_axes_get(in, &axes);
    const bool uncounted = channels_of(&axes) >= 0 && !axes.sized;
    const bool by_number = vp_given(run, "slice") && p->slice >= 0 && axis == VP_CUT_Z && !uncounted;
    s->pages = in->pages;
    if ((!by_number && vp_slices_count(s, reader, run->common.memory, err))
        || choose_channels(run, p, reader, s, &first, err))
        return -1;
    s->pages = s->pages < 0 ? -1 : s->pages / s->count;
    const int64_t length_ = length(in, s->pages, axis);
    const int cuts = p->ortho ? 3 : p->montage ? (int)(p->montage < length_ ? p->montage : length_) : 1;
    s->n = cuts * s->colours;
    s->slice = vp_alloc((size_t)s->n, sizeof *s->slice, "slices", err);
    if (!s->slice)
        return -1;
    for (int i = 0; i < s->n; i++) {
        struct vp_slice *c = &s->slice[i];
        const int cut = i % cuts;
        c->channel = first + i / cuts;
        c->axis = p->ortho ? (enum vp_cut)cut : axis;
        c->out.w = c->shape[0] = c->axis == VP_CUT_X ? s->pages : in->nx;
        c->out.h = c->shape[1] = c->axis == VP_CUT_Y ? s->pages : in->ny;
        const int64_t n = length(in, s->pages, c->axis);
        c->at = n / 2;
        if (p->at.n)
            c->at = (int64_t)p->at.v[2 - cut];
        else if (p->montage)
            c->at = (2 * cut + 1) * n / (2 * cuts);
        else if (vp_given(run, "slice"))
            c->at = p->slice + (p->slice < 0 && p->slice >= -n ? n : 0);
    }
    return 0;
}

/* Sizes, known before anything is read. */
struct layout {
    int64_t picture[2];  /* all slices together */
    int64_t fitted[2];   /* the picture, shrunk to fit */
    int columns;
};

/* Sets the shape of the slices, with pixels of the finest sampling among them. */
static void true_shape(const struct vp_run *run, const struct vp_stack *in, struct vp_slices *s)
{
    double v[3], finest = HUGE_VAL, coarsest = 0;
    bool shown[3] = {false};

    if (!vp_meta_numbers(&in->meta, "voxel", 3, v))
        return;
    for (int i = 0; i < s->n; i++)
        for (int a = 0; a < 3; a++)
            shown[a] = shown[a] || a != 2 - (int)s->slice[i].axis;
    for (int a = 0; a < 3; a++)
        if (shown[a]) {
            finest = fmin(finest, v[a]);
            coarsest = fmax(coarsest, v[a]);
        }
    if (!(finest > 0) || coarsest > finest * MAX_STRETCH) {
        vp_warn(run, "voxel size %g x %g x %g is not used for the shape of the picture", v[0], v[1], v[2]);
        return;
    }
    for (int i = 0; i < s->n; i++) {
        struct vp_slice *c = &s->slice[i];
        c->shape[0] = llround((double)c->shape[0] * v[c->axis == VP_CUT_X ? 2 : 0] / finest);
        c->shape[1] = llround((double)c->shape[1] * v[c->axis == VP_CUT_Y ? 2 : 1] / finest);
    }
}

static void set_layout(const struct vp_run *run, const struct params *p, const struct vp_stack *in, struct vp_slices *s,
                    struct layout *l)
{
    if (!p->square)
        true_shape(run, in, s);
    const int cuts = s->n / s->colours;
    l->columns = p->columns ? (int)p->columns : (int)ceil(sqrt(cuts));
    l->columns = l->columns < cuts ? l->columns : cuts;
    const int64_t rows = (cuts + l->columns - 1) / l->columns, *one = s->slice[0].shape;
    l->picture[0] = p->ortho ? one[0] + GAP + s->slice[2].shape[0] : l->columns * (one[0] + GAP) - GAP;
    l->picture[1] = p->ortho ? one[1] + GAP + s->slice[1].shape[1] : rows * (one[1] + GAP) - GAP;
    const double w = (double)l->picture[0], h = (double)l->picture[1];
    const double f = p->fit.n ? fmin(1, fmin((double)p->fit.v[0] / w, (double)p->fit.v[1] / h)) : 1;
    l->fitted[0] = llround(w * f) < 1 ? 1 : llround(w * f);
    l->fitted[1] = llround(h * f) < 1 ? 1 : llround(h * f);
}

/* Composes the slices into one picture, or one per colour, and frees them. With --ortho: z (x right, y down), below it
 * y (x right, z down), to its right x (z right, y down). */
static int compose(const struct params *p, struct vp_slices *s, const struct layout *l, struct vp_picture *out,
                   struct vp_err *err)
{
    const int cuts = s->n / s->colours;

    for (int i = 0; i < s->n; i++) {
        struct vp_picture *const one = &s->slice[i].out;
        if (vp_picture_resize(one, s->slice[i].shape[0], s->slice[i].shape[1], err))
            return -1;
        if (cuts == 1) {
            out[i] = *one;
            *one = (struct vp_picture){0};
        }
    }
    for (int i = 0; i < s->n && cuts > 1; i++) {
        const struct vp_picture *const one = &s->slice[i].out, *const corner = &s->slice[0].out;
        const int cut = i % cuts;
        const int column = p->ortho ? cut == 2 : cut % l->columns, row = p->ortho ? cut == 1 : cut / l->columns;
        if (cut == 0 && vp_picture_new(&out[i / cuts], l->picture[0], l->picture[1], err))
            return -1;
        vp_picture_put(&out[i / cuts], column * (corner->w + GAP), row * (corner->h + GAP), one);
    }
    for (int i = 0; i < s->n; i++)
        vp_picture_free(&s->slice[i].out);
    return 0;
}

static int write_png(const char *name, const struct params *p, const struct vp_picture *picture, int colours,
                     double lo, double hi, struct vp_err *err)
{
    struct vp_outfile *file = NULL;
    const int samples = p->colours ? 3 : colours;
    uint8_t *pixels = vp_alloc_raw((size_t)(picture->w * samples), (size_t)picture->h, "picture", err);
    int rc = -1;

    if (pixels && !vp_outfile_open(&file, name, err)) {
        if (p->colours)
            vp_picture_colour(picture, (enum vp_colours)p->colours, lo, hi, p->invert, pixels);
        for (int i = 0; i < colours && !p->colours; i++)
            vp_picture_gray(&picture[i], lo, hi, p->invert, pixels + i, colours);
        rc = vp_png_write(file, pixels, samples, picture->w, picture->h, (int)p->zoom, err);
        rc = vp_outfile_end(file, rc, err);
    }
    free(pixels);
    return rc;
}

/* Everything of one picture. */
struct view {
    struct vp_reader *reader;
    struct vp_slices slices;
    struct vp_picture picture[COLOURS];
    struct layout layout;
    double lo, hi;
    int64_t bad;     /* NaN and infinite samples */
};

static void free_pictures(struct view *v)
{
    for (int i = 0; i < COLOURS; i++)
        vp_picture_free(&v->picture[i]);
}

/* Reads the slices and composes the picture; sets the window if none is given. */
static int draw(struct view *v, const struct params *p, bool window, struct vp_err *err)
{
    int64_t bad = 0;
    if (vp_slices_read(&v->slices, v->reader, &bad, err) || compose(p, &v->slices, &v->layout, v->picture, err))
        return -1;
    v->bad += bad;
    return window ? vp_picture_window(v->picture, v->slices.colours, p->percentile.v[0], p->percentile.v[1], &v->lo,
                                      &v->hi, err) : 0;
}

static int write_picture(struct view *v, const struct params *p, const char *name, struct vp_err *err)
{
    for (int i = 0; i < v->slices.colours; i++)
        if (vp_picture_resize(&v->picture[i], v->layout.fitted[0], v->layout.fitted[1], err))
            return -1;
    return write_png(name, p, v->picture, v->slices.colours, v->lo, v->hi, err);
}

/* Writes all pages, each as a picture of its own, with one window. */
static int draw_series(struct view *v, const struct vp_run *run, const struct params *p, const struct vp_series *series,
                       struct vp_err *err)
{
    const int64_t pages = v->slices.pages;
    const int colours = v->slices.colours;
    struct vp_slice first[COLOURS];
    char name[PATH_MAX];
    int rc;

    memcpy(first, v->slices.slice, (size_t)colours * sizeof *first);
    if (vp_series_begin(series, run->common.output, err))
        return -1;
    rc = 0;
    for (int64_t i = 0; i < pages && !rc; i++) {
        memcpy(v->slices.slice, first, (size_t)colours * sizeof *first);
        for (int k = 0; k < colours; k++)
            v->slices.slice[k].at = i;
        if (!vp_series_name(series, run->common.output, i, name, sizeof name))
            rc = vp_fail(err, VP_ERUN, "%s: the name is too long", run->common.output);
        rc = rc || draw(v, p, false, err) ? -1 : 0;
        if (!rc)
            vp_series_made(i + 1);
        rc = rc || write_picture(v, p, name, err) ? -1 : 0;
        free_pictures(v);
    }
    vp_series_end(rc != 0);
    return rc;
}

enum { SAMPLED = 16 };

/* Sets the window of a series: from percentiles of pages that are evenly spaced. */
static int series_window(struct view *v, const struct vp_run *run, const struct params *p, struct vp_err *err)
{
    struct params several = *p;
    struct view all = {.reader = v->reader};
    int rc = -1;

    several.montage = SAMPLED;
    if (!choose(run, &several, v->reader, &all.slices, err)) {
        set_layout(run, &several, vp_reader_stack(v->reader), &all.slices, &all.layout);
        if (!vp_slices_fit(&all.slices, v->reader, all.layout.picture, all.layout.fitted, true, run->common.memory,
                           err))
            rc = draw(&all, &several, true, err);
    }
    v->lo = all.lo;
    v->hi = all.hi;
    vp_slices_free(&all.slices);
    free_pictures(&all);
    return rc;
}

/* Prints the values along the line. */
static int print_profile(struct view *v, const struct vp_run *run, const struct params *p, struct vp_err *err)
{
    const struct vp_meta *const meta = &vp_reader_stack(v->reader)->meta;
    const struct vp_slice *const slice = v->slices.slice;
    double voxel[3] = {1, 1, 1};
    size_t n = 0;

    if (!vp_meta_numbers(meta, "voxel", 3, voxel) && !vp_meta_numbers(meta, "voxel", 2, voxel))
        voxel[0] = voxel[1] = voxel[2] = 1;
    const double pixel[] = {voxel[slice->axis == VP_CUT_X ? 2 : 0], voxel[slice->axis == VP_CUT_Y ? 2 : 1]};
    if (vp_slices_read(&v->slices, v->reader, &v->bad, err))
        return -1;
    FILE *const out = vp_text_open();
    if (!out)
        return vp_fail(err, VP_ERESOURCE, "out of memory");
    int rc = vp_profile_print(&slice->out, p->profile.v, p->profile.v + 2, pixel, out, err);
    char *const text = vp_text_close(out, &n);
    if (!rc && !text)
        rc = vp_fail(err, VP_ERESOURCE, "out of memory");
    rc = rc ? rc : vp_output_text(run, text, n, err);
    free(text);
    return rc;
}

static int check_series(const struct vp_run *run, const struct params *p, struct vp_err *err)
{
    if (p->ortho || p->montage || vp_given(run, "slice"))
        return vp_fail(err, VP_EUSAGE, "%s: a series has all pages: expected none of --slice, --ortho and --montage",
                       run->common.output);
    if (p->axis)
        return vp_fail_hint(err, VP_EUSAGE, "img-reslice --axes xz | img-view cuts across y",
                            "%s: a series is of pages: expected --axis z", run->common.output);
    return 0;
}

static int img_view(struct vp_run *run, void *params, struct vp_err *err)
{
    const struct params *p = params;
    struct vp_series series;
    const bool all = !p->profile.n && vp_series_parse(&series, run->common.output);
    struct view v = {0};
    uint64_t held = 0;
    int rc = -1;

    if (check(run, p, err) || (all && check_series(run, p, err)) || vp_open_input(run, 0, VP_AS_VALUES, &v.reader, err)
        || (all && !vp_reader_seekable(v.reader) && vp_reader_keep(v.reader, run->common.memory / 2, &held, err))
        || choose(run, p, v.reader, &v.slices, err))
        goto out;
    set_layout(run, p, vp_reader_stack(v.reader), &v.slices, &v.layout);
    if (vp_slices_fit(&v.slices, v.reader, v.layout.picture, v.layout.fitted, !p->window.n && !all, run->common.memory,
                      err))
        goto out;
    for (int i = 0; i < v.slices.n / v.slices.colours && !all; i++)
        vp_report_plan(run, "slice", "%lld along %c", (long long)v.slices.slice[i].at, "zyx"[v.slices.slice[i].axis]);
    if (all)
        vp_report_plan(run, "series", "%lld pictures", (long long)v.slices.pages);
    if (vp_report_plan_done(run)) {
        rc = 0;
        goto out;
    }
    if (p->profile.n) {
        rc = print_profile(&v, run, p, err);
        goto out;
    }
    if (p->window.n) {
        v.lo = p->window.v[0];
        v.hi = p->window.v[1];
    } else if (all && series_window(&v, run, p, err)) {
        goto out;
    }
    if (all ? draw_series(&v, run, p, &series, err) : draw(&v, p, !p->window.n, err))
        goto out;
    vp_note(run, "window %.6g to %.6g", v.lo, v.hi);
    if (v.bad)
        vp_warn(run, "%s: %lld of the samples shown are NaN or infinite", vp_reader_name(v.reader), (long long)v.bad);
    rc = all ? 0 : write_picture(&v, p, run->common.output, err);
out:
    rc = vp_close(run, v.reader, NULL, rc, err);
    vp_slices_free(&v.slices);
    free_pictures(&v);
    return rc;
}

const struct vp_tool vp_program = {
    .name = "img-view",
    .operands = "[INPUT]...",
    .summary = "make a PNG of a slice, three orthogonal slices or a montage",
    .description =
        "Reads a stack and writes an 8-bit PNG: one slice, three orthogonal slices, or several slices side by side. "
        "The picture is gray, or in colour if the channels of the stack are red, green and blue. An output name with "
        "%03d writes all pages as a series of pictures. --profile prints values along a line instead.\n\n"
        "Black and white are the 0.5 and 99.5 percentiles of the samples shown. For a series they are percentiles of "
        "16 pages. With --window they are fixed values, so that pictures of different slices or scans can be "
        "compared. Slices of voxels that are not cubes are shown in their true shape.\n\n"
        "Of a file only the samples shown are read. A pipe is read to its end; memory holds the samples shown, or "
        "all samples if the number of pages is unknown. The picture has no time, name or text in it, so the same "
        "samples give the same bytes.",
    .options = options,
    .params_size = sizeof(struct params),
    .examples = examples,
    .see_also = "img-info(1), img-cat(1)",
    .text_with = "profile",
    .flags = VP_TOOL_NO_STACK | VP_TOOL_NO_DEVICE,
    .run = img_view,
};
