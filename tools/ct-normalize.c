/* SPDX-License-Identifier: BSD-3-Clause */
/* ct-normalize: raw counts to line integrals. Pages stream through; averaged flats and darks and a few pages are held.
 * */
#include "base/size.h"
#include "ct/correct.h"
#include "ct/despike.h"
#include "ct/flat_modes.h"
#include "app/flats.h"
#include "engine/pages.h"
#include "app/open.h"
#include "app/tool.h"

#include <math.h>
#include <stdlib.h>

struct params {
    struct vp_normalize_params normalize;
    struct vp_correct_params correct;
    struct vp_projection_params projections;
    double zinger_views;   /* --zinger-views T; 0: off */
};

static const struct vp_opt options[] = {
    VP_OPTIONS(struct params, normalize, vp_normalize_options),
    VP_INT(struct params, normalize.flat_modes, "flat-modes", 0, .metavar = "N", .min = 1, .max = VP_FLAT_MODES_MOST,
           .group = "Corrections",
           .help = "fit the flat of each view: the mean flat plus at most N components of the flats (try 3)",
           .more = "For beams whose pattern moves, such as those of a monochromator. The program finds the principal "
                   "components of the flats, keeps those that exceed the noise, and mixes them for each view so that "
                   "its transmission has the least total variation (Van Nieuwenhove et al. 2015). It does not "
                   "correct the intensity of the beam; use --air or --monitor for that. It needs one --flat of at "
                   "least five pages; 20 to 50 are usual. Not with sinograms."),
    VP_REAL(struct params, zinger_views, "zinger-views", 0, .metavar = "T", .min = 1, .max = 1e30,
            .help = "replace samples above T times the median of three consecutive views by the median",
            .more = "For spots of any size that are present in one view only. The transmission of each pixel is "
                    "compared with the median over the view, the view before and the view after; for the first and "
                    "the last view, over the three views at that end. The object must change little from view to "
                    "view. It is applied after --zinger, and before all other corrections."),
    VP_STRINGS(struct params, correct.air, "air", 0, .metavar = "C0:C1[,R0:R1]",
               .help = "columns (and rows) of open beam; each view is scaled so that their mean transmission is 1",
               .more = "Use it if the intensity of the beam changes from view to view. If --air is given twice, for "
                       "columns left and right of the object, the scale is interpolated linearly between the centres "
                       "of both. If the object covers these columns in some views, the program takes it for a weaker "
                       "beam; check the range of the means that -v prints. Not with sinograms."),
    VP_FILE(struct params, correct.monitor, "monitor", 0, .metavar = "FILE",
            .help = "relative intensity of the beam in each view, 1 for that of the flats",
            .more = "FILE is text with one number for each view, in order; # begins a comment."),
    VP_FILE(struct params, correct.curve, "curve", 0, .metavar = "FILE",
            .help = "table of measured and true line integrals, to correct beam hardening",
            .more = "FILE is text with two numbers a line, both increasing, measured with a wedge or with plates of "
                    "the material: the line integral that ct-normalize gives for a thickness, and the true line "
                    "integral. Values between two lines are interpolated linearly; values outside are extrapolated "
                    "from the first or the last two lines. The first line should be 0 0. The table is applied after "
                    "all other corrections."),
    VP_OPTIONS(struct params, projections, vp_projection_options),
    VP_OPT_END,
};

static const struct vp_example examples[] = {
    {"Simulate a scan of counts with 10 flats, normalise it and reconstruct it.",
     "ct-geom --sod 500 --sdd 1000 --detector 64x64 --pitch 2 --views 90 -o scan.geom\n"
     "ct-phantom -g scan.geom --counts --noise 1e5 -o counts.tif\n"
     "ct-phantom -g scan.geom --counts --noise 1e5 --density 0 --seed 2 | img-cat --pages 0:10 -o flat.tif\n"
     "ct-normalize --flat flat.tif counts.tif | ct-filter | ct-backproject -o vol.tif"},
    {"Without flats: give the number of photons in the open beam.",
     "ct-normalize --i0 1e5 counts.tif -o proj.tif"},
    {"Flats from before and after the scan, removal of zingers, and raw counts without metadata.",
     "ct-normalize --flat flat.tif --flat flat.tif --zinger 1.5 -g scan.geom counts.tif -o proj.tif"},
    {"Spots of neutrons or gamma rays, a few pixels wide, each in one view.",
     "ct-normalize --flat flat.tif --zinger 1.5 --zinger-size 5 --zinger-views 1.2 counts.tif -o proj.tif"},
    {"A beam whose pattern moves: each view gets the mixture of flats that suits it.",
     "ct-phantom -g scan.geom --counts --noise 1e5 --density 0 --seed 3 |\n"
     "    img-math 'a * (1 + 2e-5 * (x - 31.5) * (page - 44.5))' -o flats.tif\n"
     "ct-normalize --flat flats.tif --flat-modes 3 counts.tif -o proj.tif"},
    {"A beam of changing intensity; the outermost columns never see the object.",
     "ct-normalize --flat flat.tif --air 0:4 --air 60:64 counts.tif -o proj.tif"},
    {"Correct beam hardening that was measured with three plates.",
     "printf '0 0\\n0.9 1\\n1.7 2\\n2.4 3\\n' >curve.txt\n"
     "ct-normalize --flat flat.tif --curve curve.txt counts.tif | ct-rings | ct-fdk -o vol.tif"},
    {0},
};

struct work {
    const struct vp_normalize *normalize;
    const char *name;
    int64_t views;      /* sinograms: rows per page */
    bool sinograms;
    struct vp_normalize_report repaired;
    bool corrects;
    struct vp_correct correct;
    int64_t nu, nv;
    bool across;        /* zingers are found across views */
    struct vp_despike_views views_despiked;
    float *three;       /* sinograms: rows to work in */
};

/* Despikes n pages across views, and corrects those that are ready, at the front of out. Returns their number. */
static int finish(struct work *w, int64_t page, int n, void *in, void *out, struct vp_err *err)
{
    const int64_t sinogram = w->sinograms ? w->views : 0, samples = w->nu * w->nv;
    struct vp_despike_views *const d = &w->views_despiked;
    int64_t first = page, ready = n;

    for (int k = 0; w->across && w->sinograms && k < n; k++)
        d->zingers += vp_despike_sinogram(&d->despike, d->transmission, (float *)out + k * samples, w->views, w->nu,
                                          w->three);
    if (w->across && !w->sinograms) {
        first = vp_max64(d->seen - 2, 0);
        ready = vp_despike_ready(d, n);
        vp_despike_views(d, n, in, out);
    }
    if (w->corrects && vp_correct_views(&w->correct, first, ready, w->nu, w->nv, sinogram, out, err))
        return -1;
    return (int)ready;
}

/* Writes the views that wait for those after them. */
static int write_rest(struct work *w, struct vp_writer *writer, struct vp_err *err)
{
    struct vp_despike_views *const d = &w->views_despiked;
    float *const out = vp_alloc_raw((size_t)(2 * d->n), sizeof(float), "the last views", err);
    const int64_t first = vp_max64(d->seen - 2, 0);
    int rc = -1;

    if (out) {
        const int64_t rest = vp_despike_rest(d, out);
        rc = (w->corrects && vp_correct_views(&w->correct, first, rest, w->nu, w->nv, 0, out, err))
             || vp_writer_pages(writer, rest, out, 1, err) ? -1 : 0;
    }
    free(out);
    return rc;
}

static int open_across(struct work *w, const struct params *p, struct vp_err *err)
{
    const struct vp_despike d = {(float)p->zinger_views, (float)p->normalize.floor, 3};

    w->across = p->zinger_views > 0;
    if (!w->across)
        return 0;
    if (w->sinograms) {
        w->views_despiked = (struct vp_despike_views){.despike = d, .transmission = p->normalize.transmission};
        w->three = vp_alloc_raw((size_t)w->nu, 3 * sizeof(float), "rows of three views", err);
        return w->three ? 0 : -1;
    }
    return vp_despike_views_open(&w->views_despiked, &d, p->normalize.transmission, w->nu * w->nv, err);
}

static int work(void *ctx, int64_t page, int n, void *in, void *out, struct vp_err *err)
{
    struct work *const w = ctx;
    const int64_t rows = vp_normalize_facts(w->normalize).rows;

    if (w->sinograms && rows >= 0 && page + n > rows)
        return vp_fail(err, VP_ERUN, "%s: more sinograms than the %lld detector rows of the flats", w->name,
                       (long long)rows);
    vp_normalize_pages(w->normalize, w->sinograms ? w->views : 0, page, n, in,
                       w->across && !w->sinograms ? in : out, &w->repaired);
    return finish(w, page, n, in, out, err);
}

/* Makes the output's header. *views is the geometry's number of views, -1 without geometry. With -g the geometry
 * replaces that of the metadata, and *pages is the number of pages to expect: else -1. */
static int header(const struct params *p, const struct vp_stack *in, const char *name, struct vp_stack *out,
                  int64_t *views, int64_t *pages, struct vp_err *err)
{
    struct vp_geom geom = {0};
    int rc = -1;

    *views = *pages = -1;
    if (vp_stack_copy(out, in))
        return vp_fail(err, VP_ERESOURCE, "out of memory");
    out->type = VP_F32;
    vp_meta_set(&out->meta, "value-unit", NULL);
    if (vp_meta_set(&out->meta, "quantity", p->normalize.transmission ? "transmission" : "line integral")
        || (!vp_meta_get(&out->meta, "axes")
            && vp_meta_set(&out->meta, "axes",
                           p->projections.layout == VP_LAYOUT_SINOGRAMS ? "u view v" : "u v view")))
        return vp_fail(err, VP_ERESOURCE, "out of memory");
    if (p->projections.geometry) {
        if (vp_geom_of(&geom, &p->projections, in, name, err))
            return -1;
        vp_meta_remove_prefix(&out->meta, "geom.");
        rc = vp_geom_to_meta(&geom, &out->meta, err);
        *views = geom.views;
        *pages = p->projections.layout == VP_LAYOUT_SINOGRAMS ? geom.nv : geom.views;
    } else {
        const int found = vp_geom_from_meta(&geom, &in->meta, name, err);
        rc = found < 0 ? -1 : 0;
        if (found > 0)
            *views = geom.views;
    }
    vp_geom_free(&geom);
    return rc;
}

static void show(struct vp_run *run, const struct vp_normalize_params *p, const struct vp_stack *in,
                 const struct work *w)
{
    vp_report_plan(run, "input", "%lld x %lld, %lld pages, %s", (long long)in->nx, (long long)in->ny,
                   (long long)in->pages, vp_type_name(in->type));
    if (p->flat.n)
        vp_report_plan(run, "flat", "%d set%s%s", p->flat.n, p->flat.n > 1 ? "s" : "",
                       p->flat.n > 1 ? ", interpolated over the views" : "");
    else
        vp_report_plan(run, "flat", "%g counts", p->i0);
    vp_report_plan(run, "dark", "%s", p->dark.n ? "subtracted" : "none");
    if (p->zinger > 0)
        vp_report_plan(run, "zingers", "above %g times the median of %lld x %lld samples in %s", p->zinger,
                       (long long)p->zinger_size, (long long)p->zinger_size,
                       w->sinograms ? "column and view" : "the view");
    if (w->across)
        vp_report_plan(run, "zingers", "above %g times the median of three views",
                       (double)w->views_despiked.despike.times);
    if (p->transmission)
        vp_report_plan(run, "output", "transmission");
    else
        vp_report_plan(run, "output", "line integrals, at most %.4g", -log(p->floor));
    vp_report_plan(run, "memory", "flats, darks and a few pages, at most %s",
                   vp_bytes_text(run->common.memory).text);
    vp_report_plan(run, "threads", "%lld", (long long)run->common.threads);
}

static int ct_normalize(struct vp_run *run, void *params, struct vp_err *err)
{
    struct params copy = *(const struct params *)params, *const p = &copy; /* flats of the file are added */
    struct vp_own_fields own = {0};
    struct vp_reader *reader = NULL;
    struct vp_writer *writer = NULL;
    struct vp_normalize *normalize = NULL;
    struct vp_stack out = {0};
    struct work w = {.sinograms = p->projections.layout == VP_LAYOUT_SINOGRAMS,
                     .corrects = p->correct.air.n || p->correct.monitor || p->correct.curve};
    int64_t views, expected;
    int rc = -1;

    if (vp_device_cpu(run, err) || vp_own_fields(&p->normalize, &own, run, err) || vp_normalize_check(&p->normalize, err)
        || vp_open_input(run, 0, VP_AS_VALUES, &reader, err))
        goto out;
    const struct vp_stack *in = vp_reader_stack(reader);
    w.name = vp_reader_name(reader);
    if (vp_quantity_check(in, vp_normalize_need(&p->normalize), w.name, err)
        || header(p, in, w.name, &out, &views, &expected, err))
        goto out;
    w.nu = in->nx;
    w.nv = in->ny;
    if (w.sinograms && p->correct.air.n) {
        vp_fail(err, VP_EUSAGE, "--air and --layout sinograms cannot be combined");
        goto out;
    }
    if (open_across(&w, p, err)
        || vp_correct_open(&w.correct, &p->correct, w.nu, w.nv, p->normalize.transmission, err))
        goto out;
    const int64_t all = w.sinograms ? in->ny : in->pages;
    if (w.correct.monitor && all > 0 && w.correct.n_monitor != all) {
        vp_fail(err, VP_ERUN, "%s: expected a number for each of %lld views, got %lld", p->correct.monitor,
                (long long)all,
                (long long)w.correct.n_monitor);
        goto out;
    }
    show(run, &p->normalize, in, &w);
    if (vp_report_plan_done(run)) {
        rc = 0;
        goto out;
    }
    const int64_t here = w.sinograms ? in->ny : in->pages, rows = w.sinograms ? in->pages : in->ny;
    w.views = in->ny;
    if (vp_normalize_load(&normalize, run, &p->normalize, in->nx, rows, here > 0 ? here : views, w.sinograms,
                          err))
        goto out;
    w.normalize = normalize;
    const uint64_t across = !w.across || w.sinograms ? 0 : 5 * (uint64_t)(w.nu * w.nv) * sizeof(float);
    const uint64_t held = vp_normalize_facts(normalize).bytes + across, limit = run->common.memory;
    if (held >= limit) {
        vp_fail(err, VP_ERESOURCE, "the flats need %s, the memory limit is %s",
                vp_bytes_text(held).text, vp_bytes_text(limit).text);
        goto out;
    }
    if (vp_open_output(run, &out, &writer, err))
        goto out;
    struct vp_pages pages = {.reader = reader,
                           .writer = writer,
                           .as_f32 = true,
                           .out_bytes = vp_page_bytes(&out),
                           .memory = limit, .beside = held + vp_output_holds(run, &out, run->common.memory),
                           .stats = run->stats,
                           .progress = run->progress,
                           .stage = "normalize",
                           .work = work,
                           .ctx = &w};
    rc = vp_pages_run(&pages, err);
    if (!rc && w.across && !w.sinograms)
        rc = write_rest(&w, writer, err);
    w.repaired.zingers += w.views_despiked.zingers;
    if (!rc && expected >= 0 && pages.done != expected)
        rc = vp_fail(err, VP_ERUN, "%s: expected the %lld %s of %s, got %lld", w.name, (long long)expected,
                     w.sinograms ? "detector rows" : "views", p->projections.geometry, (long long)pages.done);
    if (!rc && w.correct.monitor && !w.sinograms && pages.done != w.correct.n_monitor)
        rc = vp_fail(err, VP_ERUN, "%s: expected a number for each of %lld views, got %lld", p->correct.monitor,
                     (long long)pages.done, (long long)w.correct.n_monitor);
    if (!rc && p->correct.air.n)
        vp_note(run, "--air: mean transmissions from %.6g to %.6g became 1", w.correct.drift[0], w.correct.drift[1]);
    if (!rc)
        vp_blank_report(&w.repaired.blank, w.sinograms ? "detector row" : "view", run);
    if (!rc)
        vp_normalize_warn(normalize, run, &w.repaired, pages.done * in->nx * in->ny, pages.bad);
out:
    rc = vp_close(run, reader, writer, rc, err);
    vp_normalize_close(normalize);
    vp_own_fields_free(&own);
    vp_correct_free(&w.correct);
    vp_despike_views_free(&w.views_despiked);
    free(w.three);
    vp_stack_free(&out);
    return rc;
}

const struct vp_tool vp_program = {
    .name = "ct-normalize",
    .operands = "[INPUT]...",
    .summary = "turn raw counts into line integrals: flat and dark field, logarithm",
    .description =
        "Reads the counts of a detector and writes the line integrals of the attenuation, p = -ln((counts - dark) / "
        "(flat - dark)), as 32-bit floats. Flats are images of the open beam, darks are images without beam; each is "
        "averaged over its pages. Without flats, --i0 is the count of the open beam. A scan in an HDF5 file (NXtomo, "
        "DXchange) brings its own flats and darks: each run of flats between views is a set, at its place.\n\n"
        "What is corrected:\n\n"
        "- With several sets of flats, the flat of a view is interpolated between two sets.\n"
        "- Dead pixels are replaced by their neighbours, zingers only with --zinger.\n"
        "- NaN and infinite samples are interpolated along the detector row.\n"
        "- Transmissions below --floor are raised to it, because they have no useful logarithm.\n\n"
        "The number of corrected samples is reported.\n\n"
        "The input must be counts, or with --i0 1 a transmission. If the metadata name another quantity, the program "
        "refuses the stack.\n\n"
        "No geometry is needed. A geometry in the metadata is passed on, and -g adds one to the output for the "
        "programs that follow. With --layout sinograms flats and darks must be sinograms, too: one page for each "
        "detector row, which holds that row of all flats.\n\n"
        "Memory does not grow with the number of pages. Arithmetic is in 32-bit floats. p is within 2.5e-7 + 1e-7 p "
        "of the exact value, and has the same bits for any number of threads and on every processor.",
    .options = options,
    .params_size = sizeof(struct params),
    .examples = examples,
    .sections =
        "RINGS\n"
        "A pixel that differs from its neighbours in all views draws a ring in the reconstruction. ct-rings(1) "
        "removes the errors that remain after the division by the flat.",
    .see_also = "ct-rings(1), ct-center(1), ct-phase(1), ct-filter(1), ct-fdk(1), ct-phantom(1), img-info(1), "
                "voxpipe-stack(5)",
    .flags = VP_TOOL_VIEWS,
    .run = ct_normalize,
};
