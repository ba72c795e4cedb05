/* SPDX-License-Identifier: BSD-3-Clause */
/* ct-center: finds the axis of rotation and the detector's roll in a scan, reports how certain they are, and writes the
 * geometry with both. */
#include "base/size.h"
#include "base/stats.h"
#include "base/text.h"
#include "ct/center.h"
#include "ct/quantity.h"
#include "ct/trial.h"
#include "pages/label.h"
#include "pages/png.h"
#include "pages/render.h"
#include "stack/outfile.h"
#include "stack/views.h"
#include "app/open.h"
#include "app/tool.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct params {
    struct vp_projection_params projections;
    struct vp_center_params center;
    const char *picture;
    struct vp_reals trials;
};

#define P struct params
static const struct vp_opt options[] = {
    VP_OPTIONS(P, projections, vp_projection_options),
    VP_REALS(P, center.search, "search", 0, .metavar = "LO,HI", .min = -1e9, .max = 1e9, .group = "Search",
             .help = "range of offset-u in pixels (default: anywhere)",
             .more = "By default the axis may be anywhere on the detector, except within 5 % of its columns at "
                     "either end."),
    VP_RANGE(P, center.rows, "rows", 0, .metavar = "A:B", .help = "use only detector rows A to B-1",
             .more = "Default for a parallel beam: 16 groups of rows, spread over the detector. Default for a fan or "
                     "cone beam: the rows within 1/64 of the number of columns from the plane of the orbit, because "
                     "other rows have no opposite rays."),
    VP_INT(P, center.pairs, "pairs", 0, .metavar = "N", .min = 1, .max = 4096, .def = "32",
           .help = "compare at most N views with their opposite views"),
    VP_FLAG(P, center.roll, "roll", 0,
            .help = "also estimate the roll of the detector (tilt)",
            .more = "The roll is searched within 3 degrees of the tilt in the geometry. It needs 16 detector rows or "
                    "more. The more the object changes from row to row, the more certain the result."),
    VP_REAL(P, center.least, "least", 0, .metavar = "Z", .min = 0, .max = 1e6, .def = "5.5",
            .help = "smallest significance that counts as a result",
            .more = "The significance is explained above. Lower it for small detectors, or if you check the result "
                    "by other means."),
    VP_OUTFILE(P, picture, "try", 0, .metavar = "FILE.png", .group = "Trial slices",
               .help = "write a picture of the middle slice for several axes",
               .more = "Each slice is labelled with its offset-u; a star marks the slice of least entropy. The "
                       "trials are spread around the axis that was found. If none was found, they are around the "
                       "middle of --search or the axis of the geometry, and the exit status is 1, as without --try. "
                       "Judge the picture by eye: entropy alone may be wrong. If the input is counts without a flat "
                       "field, the slices serve only for comparison."),
    VP_REALS(P, trials, "trials", 0, .metavar = "N,STEP", .min = 1e-6, .max = 1e6, .def = "9,1",
             .help = "number of slices, and pixels between their axes"),
    VP_OPT_END,
};
#undef P

static const struct vp_example examples[] = {
    {"Find an axis that is 3.4 pixels from its place in the geometry.",
     "ct-geom --beam parallel --detector 96x64 --pitch 1 --views 180 --arc 180 --offset-u 3.4 -o true.geom\n"
     "ct-geom --offset-u 0 true.geom -o scan.geom\n"
     "ct-phantom -g true.geom --noise 1e5 -o scan.tif\n"
     "ct-center -g scan.geom scan.tif"},
    {"Write the corrected geometry to a file and reconstruct with it.",
     "ct-center -g scan.geom scan.tif -o found.geom\n"
     "ct-fdk -g found.geom scan.tif -o vol.tif"},
    {"Find the axis and the roll.", "ct-center --roll -g scan.geom scan.tif"},
    {"A picture of 9 trial slices, half a pixel apart.",
     "ct-center --try sheet.png --trials 9,0.5 -g scan.geom scan.tif"},
    {"Half acquisition: over a full turn, the axis is near the end of the detector, which sees a little more than half "
     "of the object. The commands are the same.",
     "ct-geom --beam parallel --detector 96x24 --pitch 1 --views 360 --offset-u -26 -o half.geom\n"
     "ct-phantom -g half.geom --phantom spheres --radius 70 --noise 1e5 -o half.tif\n"
     "ct-geom --offset-u 0 half.geom -o nominal.geom\n"
     "ct-center -g nominal.geom half.tif -o both.geom\n"
     "ct-fdk -g both.geom half.tif -o whole.tif"},
    {0},
};

enum {
    SHEET = 256,      /* pixels of a trial slice */
    FEW_COLUMNS = 40, /* on which smooth objects are alike about several axes */
};

/* Checks the options against each other. */
static int check(const struct params *p, struct vp_err *err)
{
    const struct vp_reals *s = &p->center.search, *t = &p->trials;

    if (s->n && (s->n != 2 || !(s->v[0] < s->v[1])))
        return vp_fail(err, VP_EUSAGE, "--search: expected LO,HI with LO < HI");
    if (t->n != 2 || t->v[0] != floor(t->v[0]) || t->v[0] < 3 || t->v[0] > VP_TRIAL_MOST)
        return vp_fail(err, VP_EUSAGE, "--trials: expected N,STEP with 3 to %d slices", VP_TRIAL_MOST);
    return 0;
}

/* Checks that the axis is a parameter of the geometry. */
static int check_geometry(const struct vp_geom *g, const char *name, struct vp_err *err)
{
    if (g->matrix)
        return vp_fail_hint(err, VP_EUSAGE, "give the geometry by its parameters: see ct-geom",
                            "%s: the geometry is made of matrices: expected one with an offset-u to correct", name);
    if (g->pitch_z != 0 || g->lamino != 0 || g->fixed)
        return vp_fail_hint(err, VP_EUSAGE, "ct-fdk with several --offset-u of ct-geom shows which is right",
                            "%s: on a helix and in laminography no ray has an opposite one: expected a circular orbit", name);
    return 0;
}

/* Opens the views so that any can be read at any time. */
static int open_views(struct vp_run *run, const struct params *p, struct vp_reader *reader, struct vp_geom *geom,
                      struct vp_views **source, struct vp_err *err)
{
    const bool sinograms = p->projections.layout == VP_LAYOUT_SINOGRAMS;
    const struct vp_stack *in = vp_reader_stack(reader);
    uint64_t held = 0;

    if (!vp_reader_seekable(reader) && vp_reader_keep(reader, run->common.memory / 2, &held, err))
        return -1;
    run->common.memory -= held;
    const int64_t want = sinograms ? geom->nv : geom->views;
    if (in->pages != want)
        return vp_fail(err, VP_ERUN, "%s: expected the %lld %s of its geometry, got %lld", vp_reader_name(reader),
                       (long long)want, sinograms ? "sinograms" : "views", (long long)in->pages);
    return vp_views_open(source, reader, sinograms, run->common.memory, err);
}

/* Writes the trial slices side by side, each with its offset. */
static int write_sheet(const char *path, const struct vp_trial *t, struct vp_err *err)
{
    const int64_t columns = (int64_t)ceil(sqrt(t->n)), rows = (t->n + columns - 1) / columns, gap = 4;
    const int64_t cell = t->size + gap, tall = cell + 2 * VP_LABEL_HEIGHT;
    const int64_t w = columns * cell - gap, h = rows * tall - gap;
    struct vp_picture slice = {t->slice, t->size, t->size * t->n};
    struct vp_outfile *file = NULL;
    double lo, hi;
    uint8_t *pixels = vp_alloc((size_t)w, (size_t)h, "the picture", err);
    int rc = pixels ? vp_picture_window(&slice, 1, 0.5, 99.5, &lo, &hi, err) : -1;

    for (int k = 0; k < t->n && !rc; k++) {
        const int64_t x = k % columns * cell, y = k / columns * tall;
        char text[32];
        for (int64_t row = 0; row < t->size; row++) {
            const struct vp_picture line = {t->slice + (k * t->size + row) * t->size, t->size, 1};
            vp_picture_gray(&line, lo, hi, false, pixels + (y + row) * w + x, 1);
        }
        snprintf(text, sizeof text, "%.6g%s", t->offset[k], k == t->best ? " *" : "");
        vp_label_draw(pixels, w, h, x + 2, y + t->size, 2, text);
    }
    rc = rc || vp_outfile_open(&file, path, err) ? -1 : 0;
    if (!rc)
        rc = vp_outfile_end(file, vp_png_write(file, pixels, 1, w, h, 1, err), err);
    free(pixels);
    return rc;
}

/* Results of a run. */
struct found {
    struct vp_center center;
    bool sure;              /* the axis was found */
    bool tried;
    struct vp_trial trial;
    bool roll;
};

/* Makes trial slices, and the picture of them. */
static int try_slices(const struct params *p, const struct vp_center_request *q, struct found *f, struct vp_err *err)
{
    const struct vp_reals *s = &p->center.search;
    struct vp_geom tilted = *q->geom;
    struct vp_center_request r = *q;
    const double middle = f->sure ? f->center.offset_u : s->n ? 0.5 * (s->v[0] + s->v[1]) : q->geom->offset_u;

    tilted.tilt = f->sure ? f->center.tilt : q->geom->tilt;
    r.geom = &tilted;
    f->tried = true;
    return vp_trial_make(&f->trial, &r, middle, p->trials.v[1], (int)p->trials.v[0], SHEET, err) ||
           write_sheet(p->picture, &f->trial, err) ? -1 : 0;
}

/* Warns of what makes the result doubtful. */
static void doubt(const struct vp_run *run, const struct found *f, int64_t nu, const char *name)
{
    const struct vp_center *c = &f->center;

    if (c->second > VP_CENTER_DOUBT && !c->mass)
        vp_warn(run, "%s: another axis, at column %.6g, is %.2f as high as the best: see --try, or give --search", name,
                c->second_axis, c->second);
    if (!c->mass && c->overlap < fmin(FEW_COLUMNS, 0.5 * (double)nu))
        vp_warn(run, "%s: opposite rays are compared on %.0f columns, expected %d or more: the axis may be another one, see --try",
                name, c->overlap, FEW_COLUMNS);
    if (!f->roll && fabs(c->drift) > 0.5 && fabs(c->drift) > 5 * c->error)
        vp_warn(run, "%s: the axis differs by %.2g pixels between lower and upper rows: the detector may be rolled, "
                     "see "
                "--roll", name, c->drift);
}

/* Returns the report, malloc'd. `mark`: put before the lines that are not comments. */
static char *report(const struct found *f, const struct vp_geom *geom, const char *mark)
{
    const struct vp_center *c = &f->center;
    FILE *out = vp_text_open();

    if (!out)
        return NULL;
    fprintf(out, "%soffset-u = %.3f      # +- %.3f pixels: the axis is at column %.3f of %lld\n", mark, c->offset_u,
            c->error,
            c->axis, (long long)geom->nu);
    if (f->roll)
        fprintf(out, "%stilt = %.3f      # +- %.3f degrees\n", mark, c->tilt, c->roll_error);
    fprintf(out, "# significance %.1f: below %g it is chance\n", c->z, VP_CENTER_LEAST);
    fprintf(out, "# next best %.2f as high, at column %.1f: from %g on there is doubt\n", c->second, c->second_axis,
            VP_CENTER_DOUBT);
    fprintf(out, "# from %lld views and %lld rows, correlation %.3f over %.0f columns\n", (long long)c->pairs,
            (long long)c->rows, c->r, c->overlap);
    if (c->mass)
        fprintf(out, "# refined with the centers of mass of the views\n");
    if (f->tried)
        fprintf(out, "# entropy of the trial slices is least at offset-u %.3f%s\n", f->trial.least,
                f->trial.end ? ", the end of those tried" : "");
    return vp_text_close(out, NULL);
}

/* Writes the report to standard output, and with -o the geometry to a file. */
static int publish(const struct vp_run *run, const struct found *f, struct vp_geom *geom, struct vp_err *err)
{
    const bool file = run->common.output != NULL;
    char *text = report(f, geom, ""), *head = report(f, geom, "# "), *body = NULL, *all = NULL;
    int rc = -1;

    geom->offset_u = f->center.offset_u;
    geom->tilt = f->center.tilt;
    if (file && (body = vp_geom_format(geom, false)) && head && (all = malloc(strlen(head) + strlen(body) + 1))) {
        const size_t first = strcspn(body, "\n") + (strchr(body, '\n') != NULL); /* the line that names the format */
        sprintf(all, "%.*s%s%s", (int)first, body, head, body + first);
    }
    if (!text || (file && !all))
        vp_fail(err, VP_ERESOURCE, "out of memory: the report");
    else
        rc = vp_output_text(run, file ? all : text, strlen(file ? all : text), err);
    if (!rc && file && strcmp(run->common.output, "-") && (fputs(text, stdout) < 0 || fflush(stdout)))
        rc = vp_fail_errno(err, "standard output");
    free(text);
    free(head);
    free(body);
    free(all);
    return rc;
}

static void show(struct vp_run *run, const struct params *p, const struct vp_geom *g, const struct vp_stack *in,
                 bool logarithm)
{
    vp_report_plan(run, "input", "%lld x %lld, %lld pages%s", (long long)in->nx, (long long)in->ny,
                   (long long)in->pages,
                   logarithm ? ", of which the logarithm is taken" : "");
    vp_report_plan(run, "method", "%s", g->beam == VP_PARALLEL ? "opposite views" : "opposite rays near the plane of "
                                                                                    "the orbit");
    vp_report_plan(run, "views", "at most %lld of %lld, and their opposites", (long long)p->center.pairs,
                   (long long)g->views);
    if (p->picture)
        vp_report_plan(run, "trials", "%g slices, %g pixels apart", p->trials.v[0], p->trials.v[1]);
    vp_report_plan(run, "memory", "%s", vp_bytes_text(run->common.memory).text);
    vp_report_plan(run, "threads", "%lld", (long long)run->common.threads);
}

/* Searches the axis, and makes trial slices if they are wanted, found or not. */
static int search(struct vp_run *run, const struct params *p, const struct vp_center_request *q, struct found *f,
                  struct vp_err *err)
{
    struct vp_err none = VP_ERR_INIT;
    const double begin = vp_now();

    f->roll = p->center.roll;
    f->sure = !vp_center_find(q, &f->center, &none);
    const double end = vp_now();
    vp_stats_time(run->stats, "search", end - begin);
    if (p->picture && (f->sure || none.code == VP_ERUN)) {
        if (try_slices(p, q, f, err))
            return -1;
        vp_stats_time(run->stats, "trials", vp_now() - end);
    }
    if (f->sure)
        return 0;
    *err = none;
    if (!f->tried)
        return -1;
    err->hint[0] = '\0';
    return vp_hint(err, "look at %s, and give the right one to ct-geom --offset-u; entropy is least at %.6g",
                   p->picture,
                   f->trial.least);
}

static int ct_center(struct vp_run *run, void *params, struct vp_err *err)
{
    const struct params *p = params;
    struct vp_reader *reader = NULL;
    struct vp_views *source = NULL;
    struct vp_geom geom = {0};
    struct vp_view *views = NULL;
    struct vp_scan scan;
    struct found f = {0};
    int rc = -1;

    if (check(p, err) || vp_open_input(run, 0, VP_AS_VALUES, &reader, err))
        goto out;
    const struct vp_stack *in = vp_reader_stack(reader);
    const char *name = vp_reader_name(reader), *quantity = vp_meta_get(&in->meta, "quantity");
    const bool counts = quantity ? !strcmp(quantity, "counts") || !strcmp(quantity, "transmission")
                                 : !vp_type_is_float(reader->stored.type);
    if ((!counts && vp_quantity_check(in, VP_NEED_LINES, name, err)) || vp_geom_of(&geom, &p->projections, in, name,
                                                                                   err) ||
        check_geometry(&geom, name, err) || vp_geom_views(&geom, &views, &scan, err))
        goto out;
    show(run, p, &geom, in, counts);
    if (vp_report_plan_done(run)) {
        rc = 0;
        goto out;
    }
    if (open_views(run, p, reader, &geom, &source, err))
        goto out;
    const struct vp_center_request q = {.p = &p->center, .geom = &geom, .views = views, .source = source,
                                        .logarithm = counts, .progress = run->progress, .pieces = vp_reader_concurrent(reader),
                                        .memory = run->common.memory, .threads = (int)run->common.threads};
    rc = search(run, p, &q, &f, err);
    if (!rc)
        doubt(run, &f, geom.nu, name);
out:
    vp_views_close(source);
    rc = vp_close(run, reader, NULL, rc, err);
    if (!rc && !run->common.plan)
        rc = publish(run, &f, &geom, err);
    vp_trial_free(&f.trial);
    free(views);
    vp_geom_free(&geom);
    return rc;
}

const struct vp_tool vp_program = {
    .name = "ct-center",
    .operands = "[INPUT]...",
    .summary = "find the axis of rotation and the detector's roll in a scan",
    .description =
        "Reads a scan and prints where the axis of rotation meets the detector: offset-u, and with --roll also tilt, "
        "as lines of a geometry file, with their uncertainty in comments. -o FILE writes the whole geometry with "
        "these values, for -g of the other programs. The input may be line integrals, transmissions or counts.\n\n"
        "The method compares rays that are measured twice, from opposite sides. In a parallel beam, a view and the "
        "view half a turn later are mirror images. In a fan or cone beam, rays in the plane of the orbit have "
        "opposites. The program correlates rows with their opposites for every position of the axis on the detector, "
        "over the columns that both cover. It needs no first guess and no range, and an axis near the end of the "
        "detector (half acquisition) is no special case.\n\n"
        "Views may be in any order. A half turn, a full turn, and arcs in which some views have opposites will do. "
        "If the last view is one step short of the opposite of the first view, both are extrapolated. The logarithm "
        "is taken of transmissions and counts. A stack of integers without a quantity in its metadata is taken as "
        "counts.\n\n"
        "The significance is the height of the best axis above all others, in units of their standard deviation; "
        "noise alone gives 3 to 5. There is no result, and the exit status is 1, in these cases:\n\n"
        "- the significance is below --least\n"
        "- another axis in the range reaches 0.7 of the height of the best\n"
        "- the best axis is at the end of the range\n"
        "- no rays have opposites\n"
        "- the rays of a fan beam agree better for the other direction of rotation\n\n"
        "A half turn of a parallel beam has only a few pairs of opposite views. If the object stays inside the detector in "
        "all views, their centers of mass (of up to 64 views) are compared with it. If they agree within their "
        "uncertainties, and within a pixel, they refine the axis, the report says so, and neither a low significance nor "
        "another axis matters (unless --least is larger than its default).\n\n"
        "A warning appears if another axis reaches 0.4 of the height of the best, or if opposite rays share fewer than 40 "
        "columns. The uncertainty is the standard "
        "deviation over eight parts of the data. It does not include errors that all parts share, such as an object "
        "that bends or a wrong distance. The last line gives the correlation of rows with their opposites. If it is "
        "far below 1 in a scan of little noise, the angles may be wrong; an object of few details then gives an axis "
        "all the same.\n\n"
        "If no axis is found, set it by hand with ct-geom --offset-u. Only the needed parts of a file are read. A "
        "pipe is copied to memory; if that would take more than half of --memory, to an unnamed file in $TMPDIR.",
    .options = options,
    .params_size = sizeof(struct params),
    .examples = examples,
    .sections =
        "ROLL\n"
        "With --roll, both views of a pair are rotated by each candidate angle before they are compared. (The axes "
        "of single rows do not give the roll, because a detail of the object is on another row in the opposite "
        "view.) The program first finds the axis with the tilt of the geometry, then the roll, then the axis again. "
        "Rotations of the detector around its rows or columns are not estimated.\n\n"
        "TRIAL SLICES\n"
        "Use --try for short scans without opposite rays, and for objects that moved. It reconstructs the slice in "
        "the plane of the orbit for several axes. The right axis gives the sharpest slice, which has the least "
        "entropy: the histogram of the gray values inside the field of view is narrowest. All slices have the gray "
        "range of the middle one.\n\n"
        "REFERENCES\n"
        "Padfield, IEEE Trans. Image Process. 21 (2012) 2706: masked correlation. Donath, Beckmann and Schreyer, J. "
        "Opt. Soc. Am. A 23 (2006) 1048: entropy of trial slices.",
    .see_also = "ct-geom(1), ct-normalize(1), ct-fdk(1), ct-geometry(5)",
    .flags = VP_TOOL_TEXT | VP_TOOL_NO_DEVICE | VP_TOOL_VIEWS,
    .run = ct_center,
};
