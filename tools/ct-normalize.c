/* SPDX-License-Identifier: BSD-3-Clause */
/* ct-normalize: raw counts to line integrals. Pages stream through; averaged flats and darks and a few pages are held.
 * */
#include "base/size.h"
#include "ct/correct.h"
#include "app/flats.h"
#include "engine/pages.h"
#include "app/open.h"
#include "app/tool.h"

#include <math.h>

struct params {
    struct vp_normalize_params normalize;
    struct vp_correct_params correct;
    struct vp_projection_params projections;
};

static const struct vp_opt options[] = {
    VP_OPTIONS(struct params, normalize, vp_normalize_options),
    VP_STRINGS(struct params, correct.air, "air", 0, .metavar = "C0:C1[,R0:R1]",
               .group = "Corrections",
               .help = "columns (and rows) of open beam: each view is scaled so that their mean transmission is 1",
               .more = "For a beam whose intensity changes from view to view. Given twice, with columns left and right "
                       "of "
                       "the object, the scale is a line between the middles of both. What is in the way of the beam "
                       "there in some views is taken for a weaker beam: -v shows the range of the means. Not for "
                       "sinograms."),
    VP_FILE(struct params, correct.monitor, "monitor", 0, .metavar = "FILE",
            .help = "intensity of the beam in each view, as a part of that in the flats",
            .more = "Text with a number for each view, in their order; # begins a comment."),
    VP_FILE(struct params, correct.curve, "curve", 0, .metavar = "FILE",
            .help = "measured and true line integrals, against beam hardening",
            .more = "Text with two numbers a line, both increasing, as measured with a wedge or steps of the material: "
                    "what "
                    "ct-normalize gives for a thickness, and the line integral that it ought to be. Between them it is "
                    "linear, and the first and the last piece go on beyond them: begin with 0 0. After all other "
                    "corrections."),
    VP_OPTIONS(struct params, projections, vp_projection_options),
    VP_OPT_END,
};

static const struct vp_example examples[] = {
    {"Simulate a scan of counts and 10 flats, normalise it, reconstruct it.",
     "ct-geom --sod 500 --sdd 1000 --detector 64x64 --pitch 2 --views 90 -o scan.geom\n"
     "ct-phantom -g scan.geom --counts --noise 1e5 -o counts.tif\n"
     "ct-phantom -g scan.geom --counts --noise 1e5 --density 0 --seed 2 | img-cat --pages 0:10 -o flat.tif\n"
     "ct-normalize --flat flat.tif counts.tif | ct-filter | ct-backproject -o vol.tif"},
    {"No flats: the number of photons that reach a pixel without the object is given.",
     "ct-normalize --i0 1e5 counts.tif -o proj.tif"},
    {"Flats from before and after the scan, stray bright pixels removed, counts of a scanner without "
     "metadata.",
     "ct-normalize --flat flat.tif --flat flat.tif --zinger 1.5 -g scan.geom counts.tif -o proj.tif"},
    {"A beam that drifts: the outermost columns never see the object.",
     "ct-normalize --flat flat.tif --air 0:4 --air 60:64 counts.tif -o proj.tif"},
    {"Beam hardening, measured with three plates.",
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
};

static int work(void *ctx, int64_t page, int n, void *in, void *out, struct vp_err *err)
{
    struct work *const w = ctx;
    const int64_t rows = vp_normalize_facts(w->normalize).rows;

    if (w->sinograms && rows >= 0 && page + n > rows)
        return vp_fail(err, VP_ERUN, "%s: more sinograms than the %lld detector rows of the flats", w->name,
                       (long long)rows);
    vp_normalize_pages(w->normalize, w->sinograms ? w->views : 0, page, n, in, out, &w->repaired);
    if (w->corrects && vp_correct_views(&w->correct, page, n, w->nu, w->nv, w->sinograms ? w->views : 0, out, err))
        return -1;
    return n;
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
        vp_report_plan(run, "zingers", "above %g times the median of 3 x 3 samples in %s", p->zinger,
                       w->sinograms ? "column and view" : "the view");
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
    if (vp_correct_open(&w.correct, &p->correct, w.nu, w.nv, p->normalize.transmission, err))
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
    const uint64_t held = vp_normalize_facts(normalize).bytes, limit = run->common.memory;
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
    vp_stack_free(&out);
    return rc;
}

const struct vp_tool vp_program = {
    .name = "ct-normalize",
    .operands = "[INPUT]...",
    .summary = "turn raw counts into line integrals: flat and dark field, logarithm",
    .description =
        "Reads the counts of a detector and writes p = -ln((counts - dark) / (flat - dark)), the line "
        "integrals of the attenuation, as 32-bit floats. Flats (open beam) and darks (no beam) are "
        "averaged over their pages; several sets of flats are interpolated over the scan. Without flats, "
        "--i0 says what the open beam counts. A scan in an HDF5 file (NXtomo, DXchange) brings its own: flats are needed "
        "neither with --flat nor --i0 then, and each run of flats between views is a set, at its place.\n"
        "\n"
        "Dead pixels are filled in from their neighbours, zingers on request; samples that are NaN or "
        "infinite are interpolated along the detector row. The transmission has a floor, because a starved "
        "or negative sample has no logarithm. What was repaired is reported.\n"
        "\n"
        "Counts are needed, or with --i0 1 a transmission, of which the logarithm is taken; a stack whose metadata say "
        "that it holds something else is refused.\n"
        "\n"
        "No geometry is needed. One in the metadata travels on, and one given with -g is added to the "
        "output, so that later programs do not need it. With --layout sinograms flats and darks are "
        "sinograms too: a page for each detector row, holding that row of every flat.\n"
        "\n"
        "Pages stream through in constant memory. Arithmetic is in 32-bit floats; p is within 2.5e-7 + "
        "1e-7 p of the value in real numbers, and its bits depend neither on threads nor on the processor.",
    .options = options,
    .params_size = sizeof(struct params),
    .examples = examples,
    .sections =
        "RINGS\n"
        "A pixel that differs from its neighbours in every view draws a ring around the axis: ct-rings(1) takes what "
        "stays of its error after the flats away.\n",
    .see_also = "ct-rings(1), ct-center(1), ct-phase(1), ct-filter(1), ct-fdk(1), ct-phantom(1), img-info(1), "
                "voxpipe-stack(5)",
    .flags = VP_TOOL_VIEWS,
    .run = ct_normalize,
};
