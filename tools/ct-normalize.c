/* SPDX-License-Identifier: BSD-3-Clause */
/* ct-normalize: raw counts to line integrals. Pages stream through; averaged flats and darks and a few pages are held.
 * */
#include "base/size.h"
#include "app/flats.h"
#include "engine/pages.h"
#include "app/open.h"
#include "app/tool.h"

#include <math.h>

struct params {
    struct vp_normalize_params normalize;
    struct vp_projection_params projections;
};

static const struct vp_opt options[] = {
    VP_OPTIONS(struct params, normalize, vp_normalize_options),
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
    {"Rings taken away: see there.",
     "ct-reduce --op mean --pages proj.tif | img-gauss --2d --highpass --sigma 1 -o rings.tif\n"
     "img-math 'a - clip(b, -0.05, 0.05)' proj.tif rings.tif | ct-fdk -o vol.tif"},
    {0},
};

struct work {
    const struct vp_normalize *normalize;
    const char *name;
    int64_t views;      /* sinograms: rows per page */
    bool sinograms;
    struct vp_normalize_report repaired;
};

static int work(void *ctx, int64_t page, int n, void *in, void *out, struct vp_err *err)
{
    struct work *const w = ctx;
    const int64_t rows = vp_normalize_facts(w->normalize).rows;

    if (w->sinograms && rows >= 0 && page + n > rows)
        return vp_fail(err, VP_ERUN, "%s: more sinograms than the %lld detector rows of the flats", w->name,
                       (long long)rows);
    vp_normalize_pages(w->normalize, w->sinograms ? w->views : 0, page, n, in, out, &w->repaired);
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
    const struct params *p = params;
    struct vp_reader *reader = NULL;
    struct vp_writer *writer = NULL;
    struct vp_normalize *normalize = NULL;
    struct vp_stack out = {0};
    struct work w = {.sinograms = p->projections.layout == VP_LAYOUT_SINOGRAMS};
    int64_t views, expected;
    int rc = -1;

    if (vp_device_cpu(run, err) || vp_normalize_check(&p->normalize, err)
        || vp_open_input(run, 0, VP_AS_VALUES, &reader, err))
        goto out;
    const struct vp_stack *in = vp_reader_stack(reader);
    w.name = vp_reader_name(reader);
    if (vp_quantity_check(in, vp_normalize_need(&p->normalize), w.name, err)
        || header(p, in, w.name, &out, &views, &expected, err))
        goto out;
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
    if (!rc)
        vp_blank_report(&w.repaired.blank, w.sinograms ? "detector row" : "view", run);
    if (!rc)
        vp_normalize_warn(normalize, run, &w.repaired, pages.done * in->nx * in->ny, pages.bad);
out:
    rc = vp_close(run, reader, writer, rc, err);
    vp_normalize_close(normalize);
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
        "--i0 says what the open beam counts.\n"
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
        "A pixel that differs from its neighbours in every view draws a ring around the axis. What stays of the gain "
        "after the flats can be had from the projections: their mean over the views (ct-reduce --op mean --pages) is "
        "smooth, as the object turns, but for such pixels; its high-pass (img-gauss --highpass) is what they are off "
        "by, and is subtracted from every view (img-math, one page with all pages). Edges of the object that turn "
        "about the axis stay in the mean as well: they are large, so clip() with the greatest error of a pixel, 0.05 "
        "for 5 % of gain, leaves them. sigma 1 finds pixels and columns by themselves, 2 or 3 groups of them; either "
        "costs a little sharpness, so it is for scans that show rings.\n\n"
        "Of sinograms the mean over the views is the mean over the rows of a page. img-local with a radius of at least "
        "the number of views gives every row that mean, and the high-pass goes along columns and detector rows:\n\n"
        "  img-local --stat mean --radius 0,720,0 sinograms.tif |\n"
        "      img-gauss --highpass --sigma 1,0,1 -o rings.tif\n"
        "  img-math 'a - clip(b, -0.05, 0.05)' sinograms.tif rings.tif |\n"
        "      ct-fdk --layout sinograms -g scan.geom -o vol.tif\n",
    .see_also = "ct-filter(1), ct-fdk(1), ct-phantom(1), img-info(1), voxpipe-stack(5)",
    .flags = VP_TOOL_VIEWS,
    .run = ct_normalize,
};
