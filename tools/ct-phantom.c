/* SPDX-License-Identifier: BSD-3-Clause */
/* ct-phantom: from a scan geometry the exact line integrals of an ellipsoid phantom; or its voxels. */
#include "app/tool.h"
#include "base/size.h"
#include "engine/pages.h"
#include "ct/phantom.h"
#include "app/open.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct params {
    const char *geometry;
    const char *phantom;
    double radius, density;
    int64_t samples;
    double noise;
    int64_t seed;
    bool counts;
    int layout;
    struct vp_grid_params grid;
};

#define P struct params
static const struct vp_opt options[] = {
    VP_FILE(P, geometry, "geometry", 'g', .metavar = "FILE", .group = "Scan",
            .help = "scan geometry; - is standard input (the default)",
            .more = "Any format that ct-geom(1) reads. With --volume a geometry is optional and is not read from "
                    "standard input. If it is given, the volume is the one that ct-backproject would make of the "
                    "scan."),
    VP_CHOICE(P, layout, "layout", 0, "views|sinograms", .def = "views",
              .help = "content of a page: one view, or one detector row of all views"),
    VP_STRING(P, phantom, "phantom", 0, .metavar = "NAME", .def = "shepp-logan", .group = "Phantom",
              .help = "name of a phantom, or of a file of ellipsoids",
              .more = "The names are shepp-logan, shepp-logan-contrast, spheres, ball and asymmetric; see PHANTOMS. "
                      "Any other NAME is a file with one ellipsoid a line: x y z a b c phi density, in mm, degrees "
                      "and 1/mm. # begins a comment."),
    VP_REAL(P, radius, "radius", 0, .metavar = "MM", .min = 1e-9, .max = 1e9,
            .help = "radius of the sphere around a named phantom (default: 90 % of the largest that fits)",
            .more = "The largest sphere that fits is centred on the origin and is not cut off in any view; with "
                    "--volume and no geometry, by the volume. A direction in which the detector or volume is less "
                    "than a quarter as large as in the others is ignored, so that a few detector rows show a few "
                    "slices of a larger object."),
    VP_REAL(P, density, "density", 0, .metavar = "MU", .def = "0.02", .min = -1e9, .max = 1e9,
            .help = "attenuation in 1/mm for relative density 1 of a named phantom",
            .more = "The default is about the attenuation of water at 60 keV. With 0 the scan is empty; with "
                    "--counts it is a flat field."),
    VP_INT(P, samples, "samples", 0, .metavar = "N", .def = "1", .min = 1, .max = 64,
           .help = "average N x N rays for each pixel (N x N x N points for each voxel)"),
    VP_REAL(P, noise, "noise", 0, .metavar = "I0", .min = 1, .max = 1e15, .group = "Noise",
            .help = "Poisson noise for I0 photons in each pixel",
            .more = "The line integral p becomes -ln(max(N, 1) / I0), where N is a Poisson number of mean I0 "
                    "exp(-p)."),
    VP_INT(P, seed, "seed", 0, .metavar = "N", .def = "1", .min = 0, .max = 9e15,
           .help = "seed of the random numbers",
           .more = "The same seed gives the same noise, to the bit. The noise of a pixel depends only on the seed, "
                   "the view and the pixel, not on the number of threads or the layout."),
    VP_FLAG(P, counts, "counts", 0,
            .help = "write the counted photons instead of line integrals (needs --noise)"),
    VP_OPTIONS(P, grid, vp_grid_options),
    VP_INSTEAD("old-p", 'p', "phantom"),
    VP_OPT_END,
};
#undef P

static const struct vp_example examples[] = {
    {"Simulate a cone beam scan of the Shepp-Logan head and reconstruct it.",
     "ct-geom --sod 500 --sdd 1000 --detector 64x64 --pitch 2 --views 90 -o scan.geom\n"
     "ct-phantom -g scan.geom | ct-filter | ct-backproject -o vol.tif"},
    {"The voxels of the phantom, to compare with the reconstruction.",
     "ct-phantom -g scan.geom --volume 64x64x64 --samples 3 -o true.tif"},
    {"Noisy projections of spheres, with the geometry from a pipe.",
     "ct-geom scan.geom | ct-phantom --phantom spheres --noise 1e5 -o noisy.tif"},
    {"A phantom of two ellipsoids of your own.",
     "printf '0 0 0  20 30 10  0 0.02\\n5 5 0  3 3 3  0 0.01\\n' >two.txt\n"
     "ct-phantom -g scan.geom --phantom two.txt -o two.tif"},
    {0},
};

static const char sections[] =
    "PHANTOMS\n"
    "shepp-logan: a head made of ten ellipsoids, with the small contrasts of Kak and Slaney, Principles of "
    "Computerized Tomographic Imaging (1988), section 3.6. The relative densities are 2 for the skull, 1.02 for the "
    "brain, 1 for the ventricles.\n\n"
    "shepp-logan-contrast: the same ellipsoids with the contrast of Toft (1996) in the version of Yu, Ye and Wang "
    "(2004): skull 1, brain 0.2, ventricles 0, blobs 0.1 to 0.2 above the brain.\n\n"
    "spheres: eight spheres off the axis with radii of 0.08 to 0.22 of the whole, and densities of 0.5 to 3; some "
    "are far above or below the plane of the orbit.\n\n"
    "ball: one sphere of the whole radius, density 1.\n\n"
    "asymmetric: one sphere along each of +x, +y and +z, all different, and a rotated ellipsoid at negative x, y, z. "
    "Each flip, exchange of axes or wrong direction of rotation changes the picture.";

/* Contents of the pages. */
struct scene {
    const struct params *p;
    struct vp_ellipsoid *list;
    struct vp_geom geom;
    struct vp_view *views;
    struct vp_phantom_scan scan;
    bool volume;            /* voxels instead of projections */
    struct vp_grid grid;
    int64_t z0;             /* slice of the first page */
    struct vp_stack out;
};

/* Rows of a page per task; a slice is one task. */
enum { ROWS = 16 };

static int make(void *ctx, int64_t page, int n, void *in, void *out, struct vp_err *err)
{
    const struct scene *s = ctx;
    const int64_t tasks = s->volume ? 1 : (s->out.ny + ROWS - 1) / ROWS;

    (void)in, (void)err;
    #pragma omp parallel for schedule(dynamic)
    for (int64_t k = 0; k < n * tasks; k++) {
        const int64_t at = page + k / tasks, r0 = k % tasks * ROWS, r1 = vp_min64(r0 + ROWS, s->out.ny);
        float *samples = (float *)out + k / tasks * s->out.nx * s->out.ny;
        if (s->volume)
            vp_phantom_slice(s->list, s->scan.n, &s->grid, s->z0 + at, s->scan.samples, samples);
        else
            vp_phantom_block(&s->scan, at, r0, r1, samples + r0 * s->out.nx);
    }
    return n;
}

/* Sets the radius to 90 % of the largest sphere that the scan or the volume contains. */
static int choose_radius(const struct scene *s, const struct vp_scan *scan, double *radius,
                         struct vp_err *err)
{
    *radius = 0.9 * (s->views ? vp_phantom_radius(s->views, s->geom.views, scan, s->geom.nu, s->geom.nv)
                              : vp_phantom_radius_in(&s->grid));
    if (*radius > 0 && isfinite(*radius))
        return 0;
    return vp_fail_hint(err, VP_EUSAGE, "give --radius MM", "no phantom about the origin would be fully seen");
}

static int open_geometry(struct scene *s, struct vp_scan *scan, struct vp_err *err)
{
    const char *path = s->p->geometry;

    if (!path && s->volume)
        return 0;
    if ((!path || !strcmp(path, "-")) && isatty(STDIN_FILENO))
        return vp_fail_hint(err, VP_EUSAGE, "give -g FILE, or a pipe from ct-geom",
                            "standard input is a terminal: expected a geometry");
    if (vp_geom_make(&s->geom, path ? path : "-", NULL, err))
        return -1;
    return vp_geom_views(&s->geom, &s->views, scan, err);
}

static int header(struct scene *s, const struct vp_scan *scan, struct vp_err *err)
{
    const struct vp_geom *g = &s->geom;
    struct vp_stack *out = &s->out;
    const bool sinograms = s->p->layout == VP_LAYOUT_SINOGRAMS;
    int64_t z0, z1;

    out->type = VP_F32;
    if (s->volume) {
        if (vp_grid_make(&s->grid, &z0, &z1, &s->p->grid, g->views ? g : NULL, s->views, scan, err)
            || vp_grid_to_stack(&s->grid, z0, z1, out, err))
            return -1;
        s->z0 = z0;
        if (vp_meta_set(&out->meta, "quantity", "attenuation")
            || vp_meta_set(&out->meta, "value-unit", "1/mm"))
            return vp_fail(err, VP_ERESOURCE, "out of memory");
        return 0;
    }
    out->nx = g->nu;
    out->ny = sinograms ? g->views : g->nv;
    out->pages = sinograms ? g->nv : g->views;
    if (vp_meta_set(&out->meta, "axes", sinograms ? "u view v" : "u v view")
        || vp_meta_setf(&out->meta, "voxel", "%.17g %.17g", g->du, g->dv)
        || vp_meta_set(&out->meta, "unit", "mm")
        || vp_meta_set(&out->meta, "quantity", s->p->counts ? "counts" : "line integral"))
        return vp_fail(err, VP_ERESOURCE, "out of memory");
    return vp_geom_to_meta(g, &out->meta, err);
}

static int check(const struct params *p, bool volume, struct vp_err *err)
{
    if (p->counts && !(p->noise > 0))
        return vp_fail(err, VP_EUSAGE, "--counts needs --noise I0");
    if (volume && (p->noise > 0 || p->layout == VP_LAYOUT_SINOGRAMS))
        return vp_fail(err, VP_EUSAGE, "--volume cannot be combined with --noise or --layout sinograms");
    if (!volume && (p->grid.center.n || p->grid.slab.given))
        return vp_fail(err, VP_EUSAGE, "--center and --slab need --volume or --voxel");
    return 0;
}

static int ct_phantom(struct vp_run *run, void *params, struct vp_err *err)
{
    const struct params *p = params;
    struct scene s = {.p = p, .volume = p->grid.volume.n || p->grid.voxel.n};
    struct vp_scan scan;
    struct vp_writer *writer = NULL;
    double radius = p->radius;
    int rc = -1;

    if (vp_device_cpu(run, err) || check(p, s.volume, err) || open_geometry(&s, &scan, err)
        || header(&s, &scan, err))
        goto out;
    if (!(radius > 0) && vp_phantom_named(p->phantom) && choose_radius(&s, &scan, &radius, err))
        goto out;
    s.scan = (struct vp_phantom_scan){.views = s.views,
                                      .beam = s.geom.beam,
                                      .curved = s.geom.curved,
                                      .nu = s.geom.nu,
                                      .samples = (int)p->samples,
                                      .i0 = p->noise,
                                      .seed = (uint64_t)p->seed,
                                      .counts = p->counts,
                                      .sinograms = p->layout == VP_LAYOUT_SINOGRAMS};
    if (vp_phantom_load(&s.list, &s.scan.n, p->phantom, radius, p->density, err))
        goto out;
    s.scan.list = s.list;
    vp_report_plan(run, "phantom", "%s, %d ellipsoids", p->phantom, s.scan.n);
    if (vp_phantom_named(p->phantom))
        vp_report_plan(run, "radius", "%g mm", radius);
    vp_report_plan(run, "output", "%lld x %lld, %lld pages of %s", (long long)s.out.nx, (long long)s.out.ny,
                   (long long)s.out.pages, vp_meta_get(&s.out.meta, "quantity"));
    vp_report_plan(run, "threads", "%lld", (long long)run->common.threads);
    struct vp_pages pages = {.count = s.out.pages, .out_bytes = vp_page_bytes(&s.out), .work = make, .ctx = &s,
                             .memory = run->common.memory, .stats = run->stats, .progress = run->progress,
                             .stage = "simulate"};
    if (vp_pages_fit(&pages, err))
        goto out;
    if (vp_report_plan_done(run)) {
        rc = 0;
        goto out;
    }
    if (vp_open_output(run, &s.out, &writer, err))
        goto out;
    pages.writer = writer;
    rc = vp_pages_run(&pages, err);
out:
    rc = vp_close(run, NULL, writer, rc, err);
    free(s.list);
    free(s.views);
    vp_geom_free(&s.geom);
    vp_stack_free(&s.out);
    return rc;
}

const struct vp_tool vp_program = {
    .name = "ct-phantom",
    .summary = "simulate a scan of ellipsoids, or write their voxels",
    .description =
        "Computes the projections of a phantom made of ellipsoids. The input is a scan geometry of any kind; the "
        "output is a stack of line integrals that carries the geometry. With --volume or --voxel the output is the "
        "phantom itself: the volume that a perfect reconstruction would give.\n\n"
        "The line integral of a pixel is the exact length of its ray in each ellipsoid times the attenuation of that "
        "ellipsoid, added up in double precision. Attenuations of overlapping ellipsoids add. If the source is "
        "inside an ellipsoid, only the part in front of the source is counted.\n\n"
        "A ray goes to the centre of a pixel. A real detector averages over each pixel; --samples does so, too.",
    .options = options,
    .params_size = sizeof(struct params),
    .examples = examples,
    .sections = sections,
    .see_also = "ct-geom(1), ct-normalize(1), ct-filter(1), ct-backproject(1), img-cmp(1), ct-geometry(5)",
    .flags = VP_TOOL_SOURCE,
    .run = ct_phantom,
};
