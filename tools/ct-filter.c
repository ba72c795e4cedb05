/* SPDX-License-Identifier: BSD-3-Clause */
/* ct-filter: line integrals to filtered projections, weighted and scaled for ct-backproject. Pages stream through; a
 * few are held. */
#include "base/size.h"
#include "base/stats.h"
#include "ct/filter.h"
#include "ct/quantity.h"
#include "ct/truncation.h"
#include "engine/pages.h"
#include "app/flats.h"
#include "app/open.h"
#include "app/tool.h"

#include <stdlib.h>

struct params {
    struct vp_projection_params projections;
    struct vp_filter_params filter;
};

static const struct vp_opt options[] = {
    VP_OPTIONS(struct params, projections, vp_projection_options),
    VP_OPTIONS(struct params, filter, vp_filter_options),
    VP_OPT_END,
};

static const struct vp_example examples[] = {
    {"Filter a simulated scan and reconstruct it.",
     "ct-geom --sod 500 --sdd 1000 --detector 64x64 --pitch 2 --views 90 |\n"
     "ct-phantom -g - -o scan.tif\n"
     "ct-filter scan.tif | ct-backproject -o vol.tif"},
    {"A smoother window: less noise, less sharpness.", "ct-filter --window hann --cutoff 0.8 scan.tif -o filtered.tif"},
    {"Show the scan, the weights, the length of the transform and the memory.", "ct-filter --plan scan.tif"},
    {0},
};

struct work {
    struct vp_filter *filter;
    const char *name;
    int64_t pages;      /* pages of the whole input */
    int64_t samples;    /* samples of a page */
    bool sinograms;
    struct vp_blank blank;
    struct vp_truncation seen;
};

static int work(void *ctx, int64_t page, int n, void *in, void *out, struct vp_err *err)
{
    struct work *const w = ctx;

    if (page + n > w->pages)
        return vp_fail(err, VP_ERUN, "%s: more pages than the %lld of its geometry", w->name,
                       (long long)w->pages);
    vp_blank_look(&w->blank, in, page, n, w->samples);
    const int64_t nv = vp_filter_tables(w->filter)->nv;
    if (w->sinograms) {
        vp_filter_look_sinograms(w->filter, page, n, in, &w->seen);
        vp_filter_sinograms(w->filter, page, n, in, out);
    } else {
        vp_filter_look(w->filter, page, n, 0, nv, in, &w->seen);
        vp_filter_rows(w->filter, page, n, 0, nv, in, out);
    }
    return n;
}

/* Makes the output's header: the input's with the filtered detector's geometry. */
static int output_header(const struct vp_stack *in, const struct vp_geom *g, int64_t pages, bool turned,
                         struct vp_stack *out, struct vp_err *err)
{
    if (vp_stack_copy(out, in))
        return vp_fail(err, VP_ERESOURCE, "out of memory");
    if (out->nx != g->nu || turned)
        vp_meta_set(&out->meta, "origin", NULL);
    out->nx = g->nu;
    if (turned)
        out->ny = g->nv;
    out->pages = pages;
    out->type = VP_F32;
    vp_meta_set(&out->meta, "value-unit", NULL);
    if (vp_meta_set(&out->meta, "quantity", "filtered projection"))
        return vp_fail(err, VP_ERESOURCE, "out of memory");
    vp_meta_remove_prefix(&out->meta, "geom.");
    return vp_geom_to_meta(g, &out->meta, err);
}

static void show(struct vp_run *run, const struct vp_scan *scan, const struct vp_filter *f,
                 const struct vp_stack *in, const struct vp_stack *out)
{
    static const char *const kinds[] = {"full turn", "short scan", "parallel beam"};

    vp_report_plan(run, "input", "%lld x %lld, %lld pages", (long long)in->nx, (long long)in->ny,
                   (long long)out->pages);
    vp_report_plan(run, "scan", "%s, %.6g degrees", kinds[scan->kind], scan->arc * 57.29577951308232);
    vp_report_plan(run, "filter", "%s", vp_filter_tables(f)->describe);
    if (vp_filter_tables(f)->turns)
        vp_report_plan(run, "output", "%lld x %lld: turned, so that rows follow the source", (long long)out->nx,
                       (long long)out->ny);
    else if (out->nx != in->nx)
        vp_report_plan(run, "output", "%lld columns: the side that the detector does not see is added",
                       (long long)out->nx);
    vp_report_plan(run, "memory", "%s of %s for tables, the rest for pages",
                   vp_bytes_text(vp_filter_tables(f)->bytes).text, vp_bytes_text(run->common.memory).text);
    vp_report_plan(run, "threads", "%lld", (long long)run->common.threads);
}

static int ct_filter(struct vp_run *run, void *params, struct vp_err *err)
{
    const struct params *p = params;
    struct vp_reader *reader = NULL;
    struct vp_writer *writer = NULL;
    struct vp_geom geom = {0};
    struct vp_view *views = NULL;
    struct vp_scan scan;
    struct work w = {.sinograms = p->projections.layout == VP_LAYOUT_SINOGRAMS};
    struct vp_stack out = {0};
    int rc = -1;

    if (vp_device_cpu(run, err)
        || vp_open_input(run, 0, VP_AS_VALUES, &reader, err))
        goto out;
    const struct vp_stack *in = vp_reader_stack(reader);
    w.name = vp_reader_name(reader);
    w.samples = in->nx * in->ny;
    if (vp_quantity_check(in, VP_NEED_LINES, w.name, err)
        || vp_geom_of(&geom, &p->projections, in, w.name, err) || vp_geom_views(&geom, &views, &scan, err)
        || vp_filter_open(&w.filter, &p->filter, &geom, views, &scan, (int)run->common.threads, err))
        goto out;
    if (w.sinograms && vp_filter_tables(w.filter)->turns) {
        vp_fail_hint(err, VP_EUSAGE, "give the views as pages, or use ct-fdk",
                     "--layout sinograms: the detector's rows do not follow the source, so whole views have to be "
                     "turned");
        goto out;
    }
    w.pages = w.sinograms ? geom.nv : geom.views;
    vp_filter_widen(w.filter, &geom);
    if (output_header(in, &geom, w.pages, vp_filter_tables(w.filter)->turns, &out, err))
        goto out;
    show(run, &scan, w.filter, in, &out);
    const uint64_t held = vp_filter_tables(w.filter)->bytes, limit = run->common.memory;
    if (held >= limit) {
        vp_fail(err, VP_ERESOURCE, "the filter's tables need %s, the memory limit is %s",
                vp_bytes_text(held).text, vp_bytes_text(limit).text);
        goto out;
    }
    if (vp_report_plan_done(run)) {
        rc = 0;
        goto out;
    }
    char missing[256];
    if (vp_geom_missing(missing, sizeof missing, views, &scan))
        vp_warn(run, "%s: %s", w.name, missing);
    if (vp_filter_tables(w.filter)->warning[0])
        vp_warn(run, "%s: %s", w.name, vp_filter_tables(w.filter)->warning);
    if (vp_open_output(run, &out, &writer, err))
        goto out;
    struct vp_pages pages = {.reader = reader, .writer = writer, .as_f32 = true,
                           .out_bytes = vp_page_bytes(&out), .memory = limit,
                           .beside = held + vp_output_holds(run, &out, run->common.memory),
                           .stats = run->stats, .progress = run->progress, .stage = "filter",
                           .work = work, .ctx = &w};
    rc = vp_pages_run(&pages, err);
    if (!rc && pages.done < w.pages)
        rc = vp_fail(err, VP_ERUN, "%s: expected %lld pages, got %lld", w.name, (long long)w.pages,
                     (long long)pages.done);
    vp_stats_text(run->stats, "filter", vp_filter_tables(w.filter)->describe);
    if (!rc)
        vp_blank_report(&w.blank, w.sinograms ? "detector row" : "view", run);
    if (!rc && pages.bad)
        vp_warn(run, "%s: %lld samples are NaN or infinite, taken as 0", w.name, (long long)pages.bad);
    char truncated[192];
    if (!rc && vp_filter_truncated(&w.seen, truncated, sizeof truncated))
        vp_warn(run, "%s: %s", w.name, truncated);
out:
    rc = vp_close(run, reader, writer, rc, err);
    vp_filter_close(w.filter);
    free(views);
    vp_geom_free(&geom);
    vp_stack_free(&out);
    return rc;
}

const struct vp_tool vp_program = {
    .name = "ct-filter",
    .operands = "[INPUT]...",
    .summary = "weight and ramp-filter projections for back-projection",
    .description =
        "Reads line integrals from ct-normalize or ct-phantom and writes filtered projections for ct-backproject. "
        "Each sample is weighted by the cosine of its ray and by its share of rays that are measured twice; each "
        "detector row is then convolved with the band-limited ramp. The result is scaled so that the sum over the "
        "views is attenuation in 1/mm, whatever the magnification, pitch or number of views.\n\n"
        "The weights follow from the geometry. A cone or fan beam over less than a full turn gets Parker weights. A "
        "full turn with the detector offset to one side gets Wang weights; the output rows are then longer, because "
        "the filter also has values on the side that the detector does not cover. The geometry in the output "
        "describes the longer rows.\n\n"
        "Detector rows have to run along the direction in which the source moves. If they do not, each view is first "
        "resampled to a detector whose rows do, for example if the detector does not rotate with the source. The "
        "output then has the size and geometry of that detector; see ct-geometry(5), LAMINOGRAPHY AND PLANAR CT. The "
        "source must move on a circle or on a helix around z.\n\n"
        "Rows are padded with zeros. If the ends of the rows are far from zero, the object is wider than the "
        "detector and the reconstructed values are too high; a warning appears, and --pad corrects it. NaN and "
        "infinite samples count as 0, and their number is reported. The bits of a filtered row depend on that row "
        "only, not on threads, batches or the layout of the stack.",
    .options = options,
    .params_size = sizeof(struct params),
    .examples = examples,
    .sections =
        "REFERENCES\n"
        "Feldkamp, Davis and Kress, J. Opt. Soc. Am. A 1 (1984) 612. Kak and Slaney, Principles of Computerized "
        "Tomographic Imaging (1988), chapter 3. Parker, Med. Phys. 9 (1982) 254. Wang, Med. Phys. 29 (2002) 1634. "
        "--pad auto: Hsieh et al., Med. Phys. 31 (2004) 2385.",
    .see_also = "ct-normalize(1), ct-backproject(1), ct-fdk(1), ct-geometry(5)",
    .flags = VP_TOOL_VIEWS,
    .run = ct_filter,
};
