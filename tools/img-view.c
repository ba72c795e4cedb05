/* SPDX-License-Identifier: BSD-3-Clause */
/* img-view: pictures of slices, projections, all pages, profiles and histograms, as PNG or in the terminal. */
#include "base/size.h"
#include "base/text.h"
#include "pages/channel.h"
#include "pages/colours.h"
#include "pages/mosaic.h"
#include "pages/plot.h"
#include "pages/png.h"
#include "pages/profile.h"
#include "pages/scale_bar.h"
#include "pages/tally.h"
#include "pages/terminal.h"
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
#include <unistd.h>

struct params {
    int64_t slice, channel, montage, columns, zoom;
    int axis, colours, project, histogram, terminal;
    double scale_bar, animate;
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
    VP_CHOICE(struct params, project, "project", 0, "none|max|mean|min", .metavar = "OP", .def = "none",
              .help = "show the largest, mean or smallest sample along --axis: max, mean or min",
              .more = "All slices go into the picture. With --ortho there are three projections. NaN is left out of "
                      "max and min; a mean with NaN is NaN. The stack is read once."),
    VP_INT(struct params, montage, "montage", 0, .metavar = "N", .min = 1, .max = 10000,
           .help = "N evenly spaced slices along --axis"),
    VP_INT(struct params, columns, "columns", 0, .metavar = "N", .min = 1, .max = 10000,
           .help = "columns of the montage (default: about the number of rows)"),
    VP_REALS(struct params, profile, "profile", 0, .metavar = "X0,Y0,X1,Y1", .min = 0, .max = 1e15,
             .help = "print the values along a line of the slice, as CSV",
             .more = "If the output is a .png, or with --terminal, a plot of them is drawn instead. The columns of the "
                     "CSV are the distance from the first end, x and y in pixels from 0, and the value. The distance "
                     "is in the unit of the voxel size, or in pixels if that is unknown. Values are interpolated "
                     "bilinearly, in steps of about one pixel."),
    VP_CHOICE(struct params, histogram, "histogram", 0, "none|linear|log", .metavar = "COUNTS", .def = "none",
              .help = "draw a histogram of all samples of the stack, with linear or log counts",
              .more = "It has at most 256 bins from the smallest to the largest sample, or over --window. --fit is the "
                      "size of the plot (default: 800x500). img-info --histogram prints counts as text."),
    VP_REAL(struct params, animate, "animate", 0, .metavar = "FPS", .min = 0.1, .max = 60,
            .help = "write all pages as an animated PNG, FPS pages a second",
            .more = "Web browsers play it. Viewers that cannot show the first page. All pages have one window, as in "
                    "a series of pictures."),
    VP_REALS(struct params, window, "window", 'w', .metavar = "LO,HI", .group = "How it is shown",
             .help = "values that are shown black and white"),
    VP_REALS(struct params, percentile, "percentile", 0, .metavar = "LO,HI", .min = 0, .max = 100,
             .def = "0.5,99.5",
             .help = "percentiles of the samples shown that are black and white",
             .more = "Not used if --window is given. Outliers hardly change it. NaN is always black."),
    VP_FLAG(struct params, invert, "invert", 0,
            .help = "show large samples black and small ones white"),
    VP_CHOICE(struct params, colours, "colormap", 0, VP_COLOURS_CHOICES, .metavar = "MAP", .def = "gray",
              .help = "colours: gray, viridis, magma, inferno, plasma, hot, blue-red or labels",
              .more = "blue-red is white in the middle of the window; use it for differences. labels gives each "
                      "whole number a colour of its own and 0 black, without a window; labels are never mixed, "
                      "whatever the size of the picture. A stack in colour is shown as one channel."),
    VP_REAL(struct params, scale_bar, "scale-bar", 0, .metavar = "LENGTH", .min = 1e-9, .max = 1e9, .choices = "auto",
            .help = "draw a scale bar: auto, or its length in the unit of the voxel size",
            .more = "auto is the largest of 1, 2, 5, 10, ... that is at most 0.3 of the picture's width. The bar is at "
                    "the lower right, white with a black outline. The stack must have a voxel size."),
    VP_INT(struct params, zoom, "zoom", 'z', .metavar = "N", .min = 1, .max = 64, .def = "1",
           .help = "show each sample as N x N pixels"),
    VP_SIZE(struct params, fit, "fit", 0, .metavar = "WxH",
            .help = "shrink the picture to at most W x H pixels",
            .more = "Each pixel is the mean over its area. A picture that fits already is not changed."),
    VP_FLAG(struct params, square, "square", 0,
            .help = "one pixel for each sample, whatever the voxel size",
            .more = "Without it, slices of voxels that are not cubes are stretched to their true shape."),
    VP_CHOICE(struct params, terminal, "terminal", 0, VP_TERMINAL_CHOICES, .metavar = "WAY",
              .help = "show the picture in the terminal: auto, kitty, sixel or blocks",
              .more = "- kitty: the graphics protocol of kitty, Ghostty, WezTerm and Konsole\n"
                      "- sixel: foot, mlterm, iTerm2, mintty, Windows Terminal\n"
                      "- blocks: characters with two pixels each, in any terminal with 24-bit colour\n"
                      "- auto: the best of them by TERM, TERM_PROGRAM and similar variables; blocks in tmux and screen\n\n"
                      "The picture is fitted to the terminal, unless --fit is given. auto needs a terminal as standard "
                      "output; the others write to files and pipes, too, for 80 x 24 characters."),
    VP_INSTEAD("colors", 0, "colormap"),
    VP_INSTEAD("cmap", 0, "colormap"),
    VP_INSTEAD("mip", 0, "project"),
    VP_INSTEAD("scalebar", 0, "scale-bar"),
    VP_INSTEAD("fps", 0, "animate"),
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
    {"The largest sample along y, in colour, with a scale bar.",
     "img-view --project max --axis y --colormap magma --scale-bar auto --zoom 4 \\\n  vol.tif -o max.png"},
    {"The values along a line of the middle slice, as text and as a plot.",
     "img-view --profile 0,32,63,32 vol.tif -o line.csv\nimg-view --profile 0,32,63,32 vol.tif -o line.png"},
    {"A histogram of all samples, with logarithmic counts.", "img-view --histogram log vol.tif -o histogram.png"},
    {"All pages as numbered pictures with one window.", "img-view --fit 32x32 vol.tif -o 'page_%03d.png'"},
    {"All pages as an animation, twelve a second.", "img-view --animate 12 --colormap inferno vol.tif -o pages.png"},
    {"A mask or labels, each label in a colour of its own.",
     "img-threshold --otsu vol.tif | img-view --colormap labels -o mask.png"},
    {"In the terminal.", "img-view --terminal blocks --fit 40x40 vol.tif"},
    {0},
};

enum { COLOURS = 3 };

static bool is_plot(const struct params *p)
{
    return p->profile.n || p->histogram;
}

/* Checks what is drawn instead of slices, and where. */
static int check_kind(const struct vp_run *run, const struct params *p, struct vp_err *err)
{
    const bool terminal = vp_given(run, "terminal"), output = run->common.output && strcmp(run->common.output, "-");
    static const char *const slices[] = {"slice", "channel", "axis", "ortho", "montage", "project", "profile"};
    static const char *const looks[] = {"scale-bar", "animate", "zoom", "colormap", "invert", "percentile", "square"};

    for (size_t i = 0; i < sizeof slices / sizeof *slices && p->histogram; i++)
        if (vp_given(run, slices[i]))
            return vp_fail_hint(err, VP_EUSAGE, "img-cat selects pages and regions",
                                "--histogram and --%s cannot be combined: it is of the whole stack", slices[i]);
    if (p->project && (vp_given(run, "slice") || p->montage))
        return vp_fail(err, VP_EUSAGE, "--project and --%s cannot be combined: all slices are in a projection",
                       p->montage ? "montage" : "slice");
    for (size_t i = 0; i < sizeof looks / sizeof *looks && is_plot(p); i++)
        if (vp_given(run, looks[i]))
            return vp_fail(err, VP_EUSAGE, "--%s and --%s cannot be combined", p->profile.n ? "profile" : "histogram", looks[i]);
    if (terminal && p->animate > 0)
        return vp_fail(err, VP_EUSAGE, "--terminal and --animate cannot be combined");
    if (terminal && p->terminal == VP_TERMINAL_AUTO && !run->common.plan && (output || !isatty(STDOUT_FILENO)))
        return vp_fail_hint(err, VP_EUSAGE, "--terminal kitty, sixel or blocks writes to files and pipes, too",
                            "--terminal auto: standard output is not a terminal");
    if (terminal && output && strlen(run->common.output) > 4
        && !strcasecmp(run->common.output + strlen(run->common.output) - 4, ".png"))
        return vp_fail_hint(err, VP_EUSAGE, "leave out --terminal for a PNG",
                            "%s: --terminal writes text with escape sequences", run->common.output);
    return 0;
}

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

/* Selects the channels: *first alone, or red, green and blue. */
static int choose_channels(const struct vp_run *run, const struct params *p, struct vp_reader *reader,
                           struct vp_slices *s, int64_t *first, struct vp_err *err)
{
    const struct vp_stack *in = vp_reader_stack(reader);
    const bool given = vp_given(run, "channel");
    struct vp_axes axes;
    char name[VP_CHANNEL_NAME];

    vp_axes_get(in, &axes);
    const int which = vp_channels_axis(&axes);
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
        vp_channel_name(&in->meta, *first, name);
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
    const bool uncounted = vp_channels_axis(&axes) >= 0 && !axes.sized;
    const bool whole = p->project && !p->ortho;
    const bool by_number = (whole || (vp_given(run, "slice") && p->slice >= 0)) && axis == VP_CUT_Z && !uncounted;
    s->project = (enum vp_slices_project)p->project;
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

static void set_layout(const struct vp_run *run, const struct params *p, const struct vp_stack *in, struct vp_slices *s,
                       struct vp_mosaic *l)
{
    double v[3];

    *l = (struct vp_mosaic){.ortho = p->ortho, .square = p->square, .labels = p->colours == VP_COLOURS_LABELS,
                            .columns = p->columns, .fit = {p->fit.v[0], p->fit.v[1]}};
    if (!vp_mosaic_make(l, in, s) && vp_meta_numbers(&in->meta, "voxel", 3, v))
        vp_warn(run, "voxel size %g x %g x %g is not used for the shape of the picture", v[0], v[1], v[2]);
}

/* Everything of one picture. */
struct view {
    struct vp_run *run;
    const struct params *p;
    struct vp_reader *reader;
    struct vp_slices slices;
    struct vp_picture picture[COLOURS];
    struct vp_mosaic layout;
    struct vp_scale_bar bar;
    bool in_terminal;
    enum vp_terminal way;
    double lo, hi;
    int64_t bad;     /* NaN and infinite samples */
};

static void free_pictures(struct view *v)
{
    for (int i = 0; i < COLOURS; i++)
        vp_picture_free(&v->picture[i]);
}

/* Reads the slices and composes the picture; sets the window if none is given. */
static int draw(struct view *v, bool window, struct vp_err *err)
{
    int64_t bad = 0;
    if (vp_slices_read(&v->slices, v->reader, &bad, err)
        || vp_mosaic_compose(&v->layout, &v->slices, v->picture, err))
        return -1;
    v->bad += bad;
    return window ? vp_picture_window(v->picture, v->slices.colours, v->p->percentile.v[0], v->p->percentile.v[1],
                                      &v->lo, &v->hi, err) : 0;
}

/* Returns the pixels on each side of a sample: with a scale bar, and in a terminal, the canvas itself is enlarged. */
static int zoom_of(const struct view *v)
{
    return v->p->scale_bar != 0 || v->in_terminal ? (int)v->p->zoom : 1;
}

static int samples_of(const struct view *v) { return v->p->colours ? 3 : v->slices.colours; }

/* Returns the bytes of the canvas beyond one byte for each colour of a pixel. */
static double canvas_bytes(const struct view *v)
{
    const double pixels = (double)v->layout.fitted[0] * (double)v->layout.fitted[1], zoom = zoom_of(v);

    return pixels * samples_of(v) * (zoom > 1 ? zoom * zoom + 1 : 1) - pixels * v->slices.colours;
}

/* Makes the pixels of the picture: fits it, colours it, enlarges it and adds the scale bar. */
static int paint(struct view *v, struct vp_canvas *c, struct vp_err *err)
{
    const struct params *p = v->p;
    const int colours = v->slices.colours;

    for (int i = 0; i < colours; i++)
        if (vp_mosaic_fit(&v->layout, &v->picture[i], err))
            return -1;
    if (vp_canvas_new(c, v->layout.fitted[0], v->layout.fitted[1], samples_of(v), 0, err))
        return -1;
    if (p->colours)
        vp_picture_colour(v->picture, (enum vp_colours)p->colours, v->lo, v->hi, p->invert, c->v);
    for (int i = 0; i < colours && !p->colours; i++)
        vp_picture_gray(&v->picture[i], v->lo, v->hi, p->invert, c->v + i, colours);
    if (vp_canvas_enlarge(c, zoom_of(v), err))
        return -1;
    if (p->scale_bar != 0)
        vp_scale_bar_draw(&v->bar, c);
    return 0;
}

/* Writes a text that was printed into memory (NULL: there was none for it), unless rc says that it failed. */
static int put_text(const struct view *v, FILE *f, int rc, struct vp_err *err)
{
    size_t n = 0;
    char *const text = f ? vp_text_close(f, &n) : NULL;

    if (!rc)
        rc = text ? vp_output_text(v->run, text, n, err) : vp_fail(err, VP_ERESOURCE, "out of memory");
    free(text);
    return rc;
}

/* Writes a canvas as a PNG, or to the terminal. */
static int put_canvas(const struct view *v, const struct vp_canvas *c, const char *name, struct vp_err *err)
{
    struct vp_outfile *file = NULL;

    if (v->in_terminal) {
        FILE *const out = vp_text_open();
        return put_text(v, out, out ? vp_terminal_print(v->way, c, out, err) : 0, err);
    }
    const int zoom = zoom_of(v) > 1 ? 1 : (int)v->p->zoom;
    return vp_outfile_open(&file, name, err) ? -1
         : vp_outfile_end(file, vp_png_write(file, c->v, c->samples, c->w, c->h, zoom, err), err);
}

/* Writes the picture as a file or text, or as a frame of an animation. */
static int write_picture(struct view *v, const char *name, struct vp_apng *a, struct vp_err *err)
{
    struct vp_canvas c = {0};
    const int rc = paint(v, &c, err) || (a ? vp_apng_add(a, c.v, err) : put_canvas(v, &c, name, err)) ? -1 : 0;
    vp_canvas_free(&c);
    return rc;
}

/* Writes all pages with one window, each as a picture of its own, or as a frame of an animation. */
static int draw_pages(struct view *v, const struct vp_series *series, struct vp_apng *a, struct vp_err *err)
{
    const char *const output = v->run->common.output;
    const int colours = v->slices.colours;
    struct vp_slice first[COLOURS];
    char name[PATH_MAX];
    int rc = a ? 0 : vp_series_begin(series, output, err);
    const bool begun = !a && !rc;

    memcpy(first, v->slices.slice, (size_t)colours * sizeof *first);
    for (int64_t i = 0; i < v->slices.pages && !rc; i++) {
        memcpy(v->slices.slice, first, (size_t)colours * sizeof *first);
        for (int k = 0; k < colours; k++)
            v->slices.slice[k].at = i;
        if (!a && !vp_series_name(series, output, i, name, sizeof name))
            rc = vp_fail(err, VP_ERUN, "%s: the name is too long", output);
        rc = rc || draw(v, false, err) ? -1 : 0;
        if (!rc && !a)
            vp_series_made(i + 1);
        rc = rc || write_picture(v, name, a, err) ? -1 : 0;
        free_pictures(v);
    }
    if (begun)
        vp_series_end(rc != 0);
    return rc;
}

static int draw_animation(struct view *v, struct vp_err *err)
{
    const int enlarged = zoom_of(v), zoom = enlarged > 1 ? 1 : (int)v->p->zoom;
    struct vp_apng a = {.w = v->layout.fitted[0] * enlarged, .h = v->layout.fitted[1] * enlarged,
                        .colours = samples_of(v), .zoom = zoom, .frames = v->slices.pages, .rate = v->p->animate};

    if (vp_outfile_open(&a.file, v->run->common.output, err))
        return -1;
    const int rc = vp_apng_open(&a, err) || draw_pages(v, NULL, &a, err) || vp_apng_end(&a, err) ? -1 : 0;
    return vp_outfile_end(a.file, rc, err);
}

enum { SAMPLED = 16 };

/* Sets the window of a series: from percentiles of pages that are evenly spaced. */
static int series_window(struct view *v, struct vp_err *err)
{
    struct params several = *v->p;
    struct vp_run silent = *v->run; /* warnings of the choice were printed when the series was chosen */
    struct view all = {.run = v->run, .p = &several, .reader = v->reader};
    int rc = -1;

    several.montage = SAMPLED;
    silent.common.quiet = true;
    if (!choose(&silent, &several, v->reader, &all.slices, err)) {
        set_layout(&silent, &several, vp_reader_stack(v->reader), &all.slices, &all.layout);
        if (!vp_slices_fit(&all.slices, v->reader, all.layout.picture, all.layout.fitted, true, v->run->common.memory,
                           err))
            rc = draw(&all, true, err);
    }
    v->lo = all.lo;
    v->hi = all.hi;
    vp_slices_free(&all.slices);
    free_pictures(&all);
    return rc;
}

/* ---- plots ---- */

/* Prints or draws the values along the line. */
static int put_profile(struct view *v, struct vp_err *err)
{
    const struct vp_stack *const in = vp_reader_stack(v->reader);
    const struct vp_slice *const slice = v->slices.slice;
    const char *const unit = vp_meta_get(&in->meta, "unit");
    double voxel[3] = {1, 1, 1};
    struct vp_profile line = {0};
    struct vp_canvas c = {0};
    char across[64], up[96];
    int64_t bad = 0;
    int rc = -1;

    const bool sized = vp_meta_numbers(&in->meta, "voxel", 3, voxel) || vp_meta_numbers(&in->meta, "voxel", 2, voxel);
    if (!sized)
        voxel[0] = voxel[1] = voxel[2] = 1;
    const double pixel[] = {voxel[slice->axis == VP_CUT_X ? 2 : 0], voxel[slice->axis == VP_CUT_Y ? 2 : 1]};
    if (vp_slices_read(&v->slices, v->reader, &v->bad, err)
        || vp_profile_make(&line, &slice->out, v->p->profile.v, v->p->profile.v + 2, pixel, err))
        goto out;
    if (vp_writes_text(v->run) && !v->in_terminal) {
        FILE *const out = vp_text_open();
        if (out)
            vp_profile_print(&line, out);
        rc = put_text(v, out, 0, err);
        goto out;
    }
    for (int64_t i = 0; i < line.n; i++)
        bad += !isfinite(line.value[i]);
    snprintf(across, sizeof across, "distance (%.40s)", sized && unit ? unit : "pixels");
    vp_plot_name_values(in, up);
    if (!vp_plot_new(&c, v->p->fit.v, v->run->common.memory, err)
        && !vp_plot_line(&c, line.distance, line.value, line.n, v->p->window.n ? v->p->window.v : NULL,
                         &(struct vp_plot_labels){across, up}, err))
        rc = put_canvas(v, &c, v->run->common.output, err);
    if (!rc && bad)
        vp_warn(v->run, "%s: %lld of %lld points of the profile are NaN or infinite: gaps in the plot",
                vp_reader_name(v->reader), (long long)bad, (long long)line.n);
out:
    vp_profile_free(&line);
    vp_canvas_free(&c);
    return rc;
}

static int put_histogram(struct view *v, struct vp_err *err)
{
    struct vp_histogram h = {0};
    struct vp_canvas c = {0};
    char across[96];

    vp_plot_name_values(vp_reader_stack(v->reader), across);
    const uint64_t memory = v->run->common.memory;
    int rc = vp_plot_new(&c, v->p->fit.v, memory, err) ? -1 : 0;
    rc = rc ? rc : vp_tally(v->reader, v->p->window.n ? v->p->window.v : NULL, memory - (uint64_t)(4 * c.w * c.h), &h, err);
    if (!rc) {
        vp_plot_histogram(&c, &h, v->p->histogram == 2, &(struct vp_plot_labels){across, "samples"});
        rc = put_canvas(v, &c, v->run->common.output, err);
    }
    if (!rc && h.nan)
        vp_warn(v->run, "%s: %lld samples are NaN", vp_reader_name(v->reader), (long long)h.nan);
    vp_histogram_free(&h);
    vp_canvas_free(&c);
    return rc;
}

/* ---- the program ---- */

static int check_series(const struct vp_run *run, const struct params *p, struct vp_err *err)
{
    const char *const name = p->animate > 0 ? "--animate" : run->common.output;

    if (p->ortho || p->montage || p->project || vp_given(run, "slice"))
        return vp_fail(err, VP_EUSAGE, "%s: a series has all pages: expected none of --slice, --ortho, --montage and "
                       "--project", name);
    if (vp_given(run, "terminal"))
        return vp_fail(err, VP_EUSAGE, "%s: a series and --terminal cannot be combined", name);
    if (p->axis)
        return vp_fail_hint(err, VP_EUSAGE, "img-reslice --axes xz | img-view cuts across y",
                            "%s: a series is of pages: expected --axis z", name);
    return 0;
}

/* Chooses how the terminal shows the picture, its size and its zoom. */
static void set_terminal(struct view *v, struct params *p)
{
    v->way = p->terminal == VP_TERMINAL_AUTO ? vp_terminal_find() : (enum vp_terminal)p->terminal;
    if (vp_given(v->run, "fit"))
        return;
    p->fit.n = 2;
    vp_terminal_size(v->way, STDOUT_FILENO, p->fit.v);
    for (int i = 0; i < 2; i++)
        p->fit.v[i] = vp_max64(1, p->fit.v[i] / p->zoom);
}

/* Enlarges a small picture by a whole number, as far as the terminal allows. */
static void zoom_to_terminal(const struct view *v, struct params *p)
{
    const int64_t *const size = v->layout.fitted;

    if (!vp_given(v->run, "fit") && !vp_given(v->run, "zoom"))
        p->zoom = vp_max64(1, vp_min64(64, vp_min64(p->fit.v[0] / size[0], p->fit.v[1] / size[1])));
}

static int set_scale_bar(struct view *v, struct vp_err *err)
{
    const struct vp_stack *const in = vp_reader_stack(v->reader);
    const double voxel = v->layout.pixel;

    if (!(voxel > 0) && v->p->square && vp_meta_get(&in->meta, "voxel"))
        return vp_fail_hint(err, VP_EUSAGE, "leave out --square", "--scale-bar: the slices have pixels of different size");
    if (!(voxel > 0))
        return vp_fail_hint(err, VP_EUSAGE, "img-convert --set voxel=0.5 records one, in mm",
                            "--scale-bar: %s has no voxel size", vp_reader_name(v->reader));
    return vp_scale_bar_make(&v->bar, v->p->scale_bar, voxel / (double)v->p->zoom, vp_meta_get(&in->meta, "unit"),
                             v->layout.fitted[0] * v->p->zoom, v->layout.fitted[1] * v->p->zoom, err);
}

/* Draws the picture, once the slices are chosen; prints the plan. */
static int view_slices(struct view *v, const struct vp_series *series, bool all, struct vp_err *err)
{
    const struct params *const p = v->p;
    const uint64_t memory = v->run->common.memory;
    const double canvas = canvas_bytes(v);
    const uint64_t left = canvas < (double)memory ? memory - (uint64_t)canvas : 1;

    if (p->scale_bar != 0 && set_scale_bar(v, err))
        return -1;
    if (vp_slices_fit(&v->slices, v->reader, v->layout.picture, v->layout.fitted, !p->window.n && !all, left, err))
        return -1;
    for (int i = 0; i < v->slices.n / v->slices.colours && !all; i++)
        if (p->project)
            vp_report_plan(v->run, "projection", "along %c", "zyx"[v->slices.slice[i].axis]);
        else
            vp_report_plan(v->run, "slice", "%lld along %c", (long long)v->slices.slice[i].at,
                           "zyx"[v->slices.slice[i].axis]);
    if (all)
        vp_report_plan(v->run, series ? "series" : "animation", "%lld pictures", (long long)v->slices.pages);
    if (vp_report_plan_done(v->run))
        return 0;
    if (p->profile.n)
        return put_profile(v, err);
    if (p->window.n) {
        v->lo = p->window.v[0];
        v->hi = p->window.v[1];
    } else if (all && series_window(v, err)) {
        return -1;
    }
    if (series ? draw_pages(v, series, NULL, err) : all ? draw_animation(v, err) : draw(v, !p->window.n, err))
        return -1;
    vp_note(v->run, "window %.6g to %.6g", v->lo, v->hi);
    if (v->bad)
        vp_warn(v->run, "%s: %lld of the samples shown are NaN or infinite", vp_reader_name(v->reader),
                (long long)v->bad);
    return all ? 0 : write_picture(v, v->run->common.output, NULL, err);
}

static int img_view(struct vp_run *run, void *params, struct vp_err *err)
{
    struct params *const p = params;
    struct vp_series series;
    struct view v = {.run = run, .p = p, .in_terminal = vp_given(run, "terminal")};
    uint64_t held = 0;
    int rc = -1;

    const bool numbered = !is_plot(p) && vp_series_parse(&series, run->common.output);
    const bool all = numbered || p->animate > 0, again = all || p->histogram;
    if (numbered && p->animate > 0)
        return vp_fail(err, VP_EUSAGE, "--animate writes one file: expected a name without %%d, got %s",
                       run->common.output);
    if (check(run, p, err) || check_kind(run, p, err) || (all && check_series(run, p, err))
        || vp_open_input(run, 0, VP_AS_VALUES, &v.reader, err)
        || (again && !vp_reader_seekable(v.reader) && vp_reader_keep(v.reader, run->common.memory / 2, &held, err)))
        goto out;
    if (v.in_terminal)
        set_terminal(&v, p);
    if (p->histogram) {
        vp_report_plan(run, "histogram", "%lld pages", (long long)vp_reader_stack(v.reader)->pages);
        rc = vp_report_plan_done(run) ? 0 : put_histogram(&v, err);
        goto out;
    }
    if (choose(run, p, v.reader, &v.slices, err))
        goto out;
    set_layout(run, p, vp_reader_stack(v.reader), &v.slices, &v.layout);
    if (v.in_terminal)
        zoom_to_terminal(&v, p);
    rc = view_slices(&v, numbered ? &series : NULL, all, err);
out:
    rc = vp_close(run, v.reader, NULL, rc, err);
    vp_slices_free(&v.slices);
    free_pictures(&v);
    return rc;
}

const struct vp_tool vp_program = {
    .name = "img-view",
    .operands = "[INPUT]...",
    .summary = "show slices, projections, animations and histograms as PNG or in the terminal",
    .description =
        "Reads a stack and writes an 8-bit PNG: one slice, three orthogonal slices, or several slices side by side. "
        "The picture is gray, or in colour if the channels of the stack are red, green and blue. An output name with "
        "%03d writes all pages as a series of pictures, --animate writes them as one animated PNG. --project shows the "
        "largest, mean or smallest sample along an axis. --profile and --histogram make plots, and --terminal shows "
        "any of them in the terminal.\n\n"
        "Black and white are the 0.5 and 99.5 percentiles of the samples shown. For a series they are percentiles of "
        "16 pages. With --window they are fixed values, so that pictures of different slices or scans can be "
        "compared. Slices of voxels that are not cubes are shown in their true shape.\n\n"
        "Of a file only the samples shown are read. A pipe is read to its end; memory holds the samples shown, or "
        "all samples if the number of pages is unknown. A series, an animation and a histogram of a pipe need all "
        "samples twice: what exceeds half of --memory is copied to $TMPDIR. The picture has no time or name in it, so the same "
        "samples give the same bytes.",
    .options = options,
    .params_size = sizeof(struct params),
    .examples = examples,
    .see_also = "img-info(1), img-cat(1)",
    .text_with = "profile terminal",
    .flags = VP_TOOL_NO_STACK | VP_TOOL_NO_DEVICE,
    .run = img_view,
};
