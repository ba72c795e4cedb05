/* SPDX-License-Identifier: BSD-3-Clause */
/* ct-project: projections of a volume, or what is left of measured ones after they are subtracted. */
#include "app/open.h"
#include "app/place.h"
#include "app/ranked.h"
#include "app/tool.h"
#include "app/volumes.h"
#include "base/size.h"
#include "ct/forward.h"
#include "ct/quantity.h"
#include "stack/views.h"

#include <stdlib.h>
#include <string.h>

struct params {
    const char *geometry;
    int layout;
    struct vp_range views;
    const char *subtract;
    double noise;
    int64_t seed;
    bool counts;
    struct vp_place_params place;
    int64_t ranks;
};

#define P struct params
static const struct vp_opt options[] = {
    VP_FILE(P, geometry, "geometry", 'g', .metavar = "FILE", .group = "Scan",
            .help = "scan geometry (default: that of the file given with --subtract)",
            .more = "Any format that ct-geom(1) reads."),
    VP_CHOICE(P, layout, "layout", 0, "views|sinograms", .def = "views",
              .help = "content of a page: one view, or one detector row of all views",
              .more = "The file given with --subtract must have the same layout."),
    VP_RANGE(P, views, "views", 0, .metavar = "A:B",
             .help = "project only views A to B - 1"),
    VP_FILE(P, subtract, "subtract", 0, .metavar = "FILE",
            .help = "write the projections in FILE minus those of the volume",
            .more = "The result is the residual: noise, parts of the object outside the volume, and errors of the "
                    "geometry. FILE holds line integrals, with as many views as the geometry."),
    VP_REAL(P, noise, "noise", 0, .metavar = "I0", .min = 1, .max = 1e15, .group = "Noise",
            .help = "Poisson noise for I0 photons in each pixel",
            .more = "The same as in ct-phantom(1)."),
    VP_INT(P, seed, "seed", 0, .metavar = "N", .def = "1", .min = 0, .max = 9e15,
           .help = "seed of the random numbers",
           .more = "The same seed gives the same noise, to the bit."),
    VP_FLAG(P, counts, "counts", 0,
            .help = "write the counted photons instead of line integrals (needs --noise)"),
    VP_OPTIONS(P, place, vp_place_options),
    VP_OPTIONS(P, ranks, vp_ranks_option),
    VP_OPT_END,
};
#undef P

static const struct vp_example examples[] = {
    {"Project a volume.",
     "ct-geom --sod 500 --sdd 1000 --detector 64x64 --pitch 2 --views 90 -o scan.geom\n"
     "ct-phantom -g scan.geom --volume 64x64x64 --samples 3 -o vol.tif\n"
     "ct-project -g scan.geom vol.tif -o proj.tif"},
    {"The residual of a reconstruction.",
     "ct-phantom -g scan.geom --noise 1e5 -o scan.tif\n"
     "ct-fdk scan.tif | ct-project --subtract scan.tif -o residual.tif"},
    {"Simulate every fourth view of a noisy scan.",
     "ct-project -g scan.geom --noise 1e5 vol.tif | img-cat --pages ::4 -o few.tif"},
    {0},
};

static const char sections[] =
    "METHOD\n"
    "The projection is distance-driven (De Man and Basu 2004). The share of a voxel in a pixel is the area of the "
    "pixel that the image of the voxel covers, times the length of the pixel's ray inside one layer of voxels. "
    "Layers are perpendicular to x or y, whichever is closer to the ray through the middle of the volume; this is "
    "chosen for each view. The image of the voxel is approximated by a rectangle: along the detector rows it reaches "
    "from edge to edge of the voxel, along the columns from edge to edge of the slice, both at the depth of the "
    "voxel's centre. Projections of a uniform object are therefore uniform for any sizes of voxels and pixels. "
    "ct-backproject --weight adjoint is the exact transpose; ct-iterate uses both.\n\n"
    "If the detector columns are not parallel to the axis of the volume (tilts, C-arms, laminography, most "
    "matrices), the edges of each voxel are projected. This is slower. If there is one slice and one row, they form "
    "a fan, and slice and row have the same height. Voxels on the far side of the source have no share.\n\n"
    "Sums run in segments of 128 slices, so the result has the same bits for any number of threads.\n\n"
    "MANY HOSTS\n"
    "ct-project also runs as several processes (ranks) of one MPI run: mpirun -n 4 ct-project -g scan.geom vol.tif -o proj.tif. "
    "Each rank holds the whole volume and projects a part of the views; the first rank writes them. The result has the bits of "
    "one process. Inputs are files that all ranks can read, and all ranks use GPUs, or none does.";

struct project {
    const struct params *p;
    struct vp_ranked *ranked;   /* NULL: one process */
    struct vp_reader *volume, *measured;
    struct vp_views *source;
    struct vp_geom geom;
    struct vp_view *views;
    struct vp_scan scan;
    struct vp_grid grid;
    struct vp_projections projections;
    struct vp_forward job;
    float *samples;
    struct vp_stack out;
};

static int check(const struct vp_run *run, const struct params *p, struct vp_err *err)
{
    if (p->counts && !(p->noise > 0))
        return vp_fail(err, VP_EUSAGE, "--counts needs --noise I0");
    if (p->subtract && p->noise > 0)
        return vp_fail(err, VP_EUSAGE, "--subtract and --noise cannot be combined");
    if (!p->geometry && !p->subtract)
        return vp_fail_hint(err, VP_EUSAGE, "give -g FILE", "the scan geometry is unknown");
    return (p->geometry && vp_list_apart(run, "--geometry", p->geometry, err))
        || (p->subtract && vp_list_apart(run, "--subtract", p->subtract, err)) ? -1 : 0;
}

static int open_scan(struct project *w, struct vp_run *run, struct vp_err *err)
{
    const struct params *p = w->p;
    const bool sinograms = p->layout == VP_LAYOUT_SINOGRAMS;
    if (p->subtract) {
        const struct vp_projection_params from = {.geometry = p->geometry, .layout = p->layout};
        if (vp_open_values(run, p->subtract, &w->measured, err))
            return -1;
        const struct vp_stack *s = vp_reader_stack(w->measured);
        if (vp_quantity_check(s, VP_NEED_LINES, vp_reader_name(w->measured), err)
            || vp_geom_of(&w->geom, &from, s, vp_reader_name(w->measured), err)
            || vp_views_open(&w->source, w->measured, sinograms, run->common.memory, err))
            return -1;
    } else if (vp_geom_make(&w->geom, p->geometry, NULL, err)) {
        return -1;
    }
    if (vp_geom_views(&w->geom, &w->views, &w->scan, err))
        return -1;
    if (w->scan.curved)
        return vp_fail_hint(err, VP_EUSAGE, "ct-geom without --curved describes the flat one that touches it",
                            "the detector is curved: expected a flat one");
    w->projections = (struct vp_projections){.views = w->views, .n_views = w->geom.views, .nu = w->geom.nu,
                                             .nv = w->geom.nv, .source = w->source};
    w->job.first = p->views.given ? p->views.lo : 0;
    w->job.last = p->views.given && p->views.hi != INT64_MAX ? p->views.hi : w->geom.views;
    if (w->job.first >= w->job.last || w->job.last > w->geom.views)
        return vp_fail(err, VP_EUSAGE, "--views %lld:%lld: the scan has %lld views", (long long)w->job.first,
                       (long long)w->job.last, (long long)w->geom.views);
    return 0;
}

/* Makes the geometry of the views that are written: all, or some, as matrices on a helix, whose height is counted from
 * the middle of all. */
static int shorten(struct project *w, struct vp_geom *g, struct vp_err *err)
{
    const int64_t n = w->job.last - w->job.first;
    if (n == g->views)
        return 0;
    if (g->pitch_z != 0 && !g->matrix) {
        if (!(g->matrix = vp_alloc((size_t)g->views, 12 * sizeof(double), "the matrices", err)))
            return -1;
        for (int64_t s = 0; s < g->views; s++)
            memcpy(g->matrix + 12 * s, w->views[s].P, 12 * sizeof(double));
    }
    if (g->angle)
        memmove(g->angle, g->angle + w->job.first, (size_t)n * sizeof *g->angle);
    if (g->matrix)
        memmove(g->matrix, g->matrix + 12 * w->job.first, (size_t)n * 12 * sizeof *g->matrix);
    g->views = n;
    return 0;
}

/* Makes the header: that of projections, with the history of the volume. */
static int header(struct project *w, struct vp_err *err)
{
    const struct vp_meta *from = &vp_reader_stack(w->volume)->meta;
    const bool sinograms = w->p->layout == VP_LAYOUT_SINOGRAMS;
    struct vp_geom *g = &w->geom;
    struct vp_stack *out = &w->out;
    if (shorten(w, g, err))
        return -1;
    for (int i = 0; i < from->n; i++)
        if (!strcmp(from->key[i], "history") && vp_meta_add(&out->meta, "history", from->value[i]))
            return vp_fail(err, VP_ERESOURCE, "out of memory");
    out->type = VP_F32;
    out->nx = g->nu;
    out->ny = sinograms ? g->views : g->nv;
    out->pages = sinograms ? g->nv : g->views;
    if (vp_meta_set(&out->meta, "axes", sinograms ? "u view v" : "u v view")
        || vp_meta_setf(&out->meta, "voxel", "%.17g %.17g", g->du, g->dv) || vp_meta_set(&out->meta, "unit", "mm")
        || vp_meta_set(&out->meta, "quantity", w->p->counts ? "counts" : "line integral"))
        return vp_fail(err, VP_ERESOURCE, "out of memory");
    return vp_geom_to_meta(g, &out->meta, err);
}

/* Checks the memory, and makes the plan. */
static int plan(struct project *w, struct vp_run *run, struct vp_err *err)
{
    const struct vp_grid *g = &w->grid;
    const bool held = w->job.sinograms && !vp_output_any_order(run);
    const double voxels = (double)g->n[0] * (double)g->n[1] * (double)g->n[2];
    const uint64_t volume = (uint64_t)(g->n[0] * g->n[1] * g->n[2]) * sizeof(float);
    const uint64_t others = volume + vp_reader_holds(w->volume, false) + (w->source ? vp_views_bytes(w->source) : 0);
    if (vp_forward_plan(&w->job, run->common.memory > others ? run->common.memory - others : 0, held, err))
        return -1;
    const uint64_t bytes = others + vp_forward_bytes(&w->job, held);
    if (bytes > run->common.memory)
        return vp_fail_hint(err, VP_ERESOURCE, "allow more with --memory, or project fewer slices or pixels",
                            "%s: the volume and its projections take %s: expected at most %s", vp_reader_name(w->volume),
                            vp_bytes_text(bytes).text, vp_bytes_text(run->common.memory).text);
    vp_report_plan(run, "volume", "%lld x %lld x %lld, voxel %g x %g x %g mm", (long long)g->n[0], (long long)g->n[1],
                   (long long)g->n[2], g->voxel[0], g->voxel[1], g->voxel[2]);
    vp_report_plan(run, "projections", "%lld x %lld, views %lld to %lld of %lld", (long long)w->projections.nu,
                   (long long)w->projections.nv, (long long)w->job.first, (long long)w->job.last - 1,
                   (long long)w->projections.n_views);
    vp_report_plan(run, "memory", "%s of %s", vp_bytes_text(bytes).text, vp_bytes_text(run->common.memory).text);
    vp_ranked_plan(w->ranked, run, "views of a turn", w->job.turn, 1);
    vp_place_plan(run, &w->job.place, w->job.block, "to project",
                  (double)(w->job.last - w->job.first) * voxels / vp_ranked_count(w->ranked), vp_forward_traffic(&w->job));
    return 0;
}

static int read_volume(struct project *w, struct vp_run *run, struct vp_err *err)
{
    const struct vp_grid *g = &w->grid;
    int64_t bad = 0;
    if (!(w->samples = vp_alloc_raw((size_t)(g->n[0] * g->n[1] * g->n[2]), sizeof(float), "the volume", err))
        || vp_volumes_read(w->volume, g->n[2], (int)run->common.threads, w->samples, &bad, err))
        return -1;
    if (bad)
        return vp_fail_hint(err, VP_ERUN, "img-math 'if(isnan(a) or abs(a) == inf, 0, a)' replaces them",
                            "%s: %lld voxels are NaN or infinite", vp_reader_name(w->volume), (long long)bad);
    w->job.volume = w->samples;
    return 0;
}

static int prepare(struct project *w, struct vp_run *run, struct vp_err *err)
{
    const struct params *p = w->p;
    if (check(run, p, err) || vp_ranked_input(w->ranked, run, err) || vp_open_input(run, 0, VP_AS_VALUES, &w->volume, err)
        || open_scan(w, run, err) || vp_ranked_file(w->ranked, w->volume, err) || vp_ranked_file(w->ranked, w->measured, err)
        || vp_volumes_grid(w->volume, run->common.memory / 2, &w->grid, err))
        return -1;
    w->job.scan = &w->projections;
    w->job.grid = &w->grid;
    w->job.i0 = p->noise;
    w->job.seed = (uint64_t)p->seed;
    w->job.counts = p->counts;
    w->job.sinograms = p->layout == VP_LAYOUT_SINOGRAMS;
    w->job.threads = (int)run->common.threads;
    w->job.stats = run->stats;
    w->job.progress = run->progress;
    const double voxels = (double)w->grid.n[0] * (double)w->grid.n[1] * (double)w->grid.n[2];
    const double views = (double)(w->job.last - w->job.first) / vp_ranked_count(w->ranked);
    return vp_place_choose(run, voxels * views, p->place.device_memory, &w->job.place, err);
}

/* Each step ends on all ranks before the next begins. */
static int project(struct project *w, struct vp_run *run, struct vp_writer **writer, struct vp_err *err)
{
    struct vp_ranked *const ranked = w->ranked;
    if (vp_ranked_place(ranked, &w->job.place, prepare(w, run, err), err) || vp_ranked_together(ranked, plan(w, run, err), err))
        return -1;
    if (vp_ranked_leads(ranked))
        (void)vp_report_plan_done(run);
    if (run->common.plan)
        return 0;
    if (vp_ranked_output(ranked, run, &w->out, writer, read_volume(w, run, err) || header(w, err) ? -1 : 0, err))
        return -1;
    w->job.writer = *writer;
    if (vp_ranked_worked(ranked, vp_forward_run(&w->job, err), err))
        return -1;
    vp_place_report(run, &w->job.place);
    vp_ranked_count_in(ranked, run);
    if (w->job.bad)
        vp_warn(run, "%s: %lld samples are NaN or infinite", vp_reader_name(w->measured), (long long)w->job.bad);
    return 0;
}

static int ct_project(struct vp_run *run, void *params, struct vp_err *err)
{
    struct project w = {.p = params};
    const struct vp_ranked_params ranked = {.ranks = w.p->ranks};
    struct vp_writer *writer = NULL;
    const int opened = vp_ranked_open(&w.ranked, run, &ranked, err);
    if (opened)
        return opened;
    w.job.share = vp_ranked_share(w.ranked);
    const int done = project(&w, run, &writer, err);
    vp_pair_close(w.job.pair);
    vp_place_settle();
    vp_views_close(w.source);
    vp_reader_close(w.measured, NULL);
    const int rc = vp_ranked_close_output(w.ranked, run, w.volume, writer, done, err);
    vp_ranked_close(w.ranked);
    vp_stack_free(&w.out);
    vp_geom_free(&w.geom);
    free(w.views);
    free(w.samples);
    return rc;
}

const struct vp_tool vp_program = {
    .name = "ct-project",
    .operands = "[INPUT]...",
    .summary = "project a volume, or subtract its projections from measured ones",
    .description =
        "Reads a volume of attenuation, in 1/mm, and writes its line integrals along the rays of a scan geometry: "
        "the projections that a scan of this volume would measure. With --subtract FILE the output is the difference "
        "between measured projections and these. Voxel size and position come from the metadata of the volume; the "
        "output carries the geometry, so that ct-filter(1), ct-fdk(1) and ct-iterate(1) can read it.\n\n"
        "The geometry may be a cone beam, a parallel beam, a fan of one row, an offset or tilted detector, a helix, "
        "or one 3x4 matrix for each view. Rays end at the faces of the volume.\n\n"
        "The volume is held in memory as 32-bit floats. Projections are written view by view while others are "
        "computed. With --device cuda the GPUs project; if their memory does not hold the volume, slabs of 512 slices are "
        "brought to them in turn for each block of views, as many as --memory allows.",
    .options = options,
    .params_size = sizeof(struct params),
    .examples = examples,
    .sections = sections,
    .see_also = "ct-phantom(1), ct-backproject(1), ct-iterate(1), ct-geom(1), ct-geometry(5)",
    .flags = VP_TOOL_CUDA | VP_TOOL_RANKS,
    .run = ct_project,
};
