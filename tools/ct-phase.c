/* SPDX-License-Identifier: BSD-3-Clause */
/* ct-phase: Paganin's phase retrieval, as a convolution of the transmission. */
#include "ct/phase.h"
#include "ct/quantity.h"
#include "local/convolve.h"
#include "local/math.h"
#include "stack/axes.h"
#include "app/image.h"
#include "app/image_run.h"
#include "app/tool.h"
#include "stack/reader.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct params {
    const char *geometry;
    struct vp_phase_params phase;
    bool transmission;
};

#define P struct params
static const struct vp_opt options[] = {
    VP_FILE(P, geometry, "geometry", 'g', .metavar = "FILE", .group = "Projections",
            .help = "scan geometry (default: the one in the input's metadata)",
            .more = "The geometry gives the pixel pitch and, for a cone beam, the distances. The output carries it."),
    VP_FLAG(P, transmission, "transmission", 0,
            .help = "take the input as a transmission (default: as the metadata say)"),
    VP_REAL(P, phase.distance, "distance", 0, .metavar = "MM", .min = 1e-9, .max = 1e9, .group = "Filter",
            .help = "distance from object to detector in mm (default for a cone beam: sdd - sod)"),
    VP_REAL(P, phase.energy, "energy", 0, .metavar = "KEV", .min = 1e-3, .max = 1e9,
            .help = "photon energy in keV"),
    VP_REAL(P, phase.delta_beta, "delta-beta", 0, .metavar = "R", .min = 1e-9, .max = 1e12,
            .help = "ratio delta / beta of the material, whose refractive index is 1 - delta + i beta"),
    VP_REAL(P, phase.delta, "delta", 0, .metavar = "D", .min = 1e-30, .max = 1,
            .help = "delta of the material; needs --beta"),
    VP_REAL(P, phase.beta, "beta", 0, .metavar = "B", .min = 1e-30, .max = 1,
            .help = "beta of the material; needs --delta"),
    VP_REAL(P, phase.length, "length", 0, .metavar = "PIXELS", .min = 1e-3, .max = 1e6,
            .help = "length L of the filter in pixels, instead of all the options above"),
    VP_FLAG(P, phase.thickness, "thickness", 0, .group = "Output",
            .help = "write the thickness in mm (default: line integrals of the attenuation)",
            .more = "The thickness is the line integral divided by mu = 4 pi beta / wavelength. Needs --delta and "
                    "--beta."),
    VP_INSTEAD("old-z", 'z', "distance"),
    VP_INSTEAD("old-e", 'e', "energy"),
    VP_OPT_END,
};
#undef P

static const struct vp_example examples[] = {
    {"Retrieve the phase of a scan with 50 mm between object and detector, and reconstruct it.",
     "ct-geom --beam parallel --detector 96x48 --pitch 0.001 --views 60 --arc 180 -o scan.geom\n"
     "ct-phantom -g scan.geom --radius 0.03 --density 5 --noise 1e4 -o scan.tif\n"
     "ct-phase --distance 50 --energy 20 --delta-beta 20 scan.tif | ct-fdk -o vol.tif"},
    {"Show the planned work and the length of the filter.",
     "ct-phase --plan --distance 50 --energy 20 --delta-beta 20 scan.tif"},
    {"A cone beam scan, whose distances are in the geometry.",
     "ct-geom --sod 20 --sdd 200 --detector 64x48 --pitch 0.05 --views 60 |\n"
     "ct-phantom -g - --density 0.5 | ct-phase --energy 30 --delta-beta 300 -o phase.tif"},
    {"The thickness in mm of a material with known delta and beta.",
     "ct-phase --distance 50 --energy 20 --delta 1.4e-6 --beta 7e-8 --thickness scan.tif -o thickness.tif"},
    {0},
};

/* Reads the geometry, from a file or the metadata, and puts that of a file into the metadata. *found: there is one. */
static int read_geometry(const struct params *p, struct vp_reader *reader, struct vp_geom *g, bool *found,
                         struct vp_err *err)
{
    struct vp_stack *in = &reader->stack;
    const int rc = p->geometry ? 1 : vp_geom_from_meta(g, &in->meta, vp_reader_name(reader), err);

    *found = rc > 0;
    if (!p->geometry)
        return rc < 0 ? -1 : 0;
    const struct vp_projection_params o = {.geometry = p->geometry};
    if (vp_geom_of(g, &o, in, vp_reader_name(reader), err))
        return -1;
    vp_meta_remove_prefix(&in->meta, "geom.");
    return vp_geom_to_meta(g, &in->meta, err);
}

/* Checks the input: *transmission is what it holds. */
static int check_input(const struct params *p, const struct vp_stack *in, const char *name, bool *transmission,
                       struct vp_err *err)
{
    const char *quantity = vp_meta_get(&in->meta, "quantity"), *axes = vp_meta_get(&in->meta, "axes");

    *transmission = p->transmission || (quantity && !strcmp(quantity, "transmission"));
    if (axes && !strncmp(axes, "u view", 6))
        return vp_fail(err, VP_EUSAGE, "%s: pages are sinograms: expected views, which are filtered along rows and "
                                       "columns",
                       name);
    return vp_quantity_check(in, *transmission ? VP_NEED_UNIT : VP_NEED_LINES, name, err);
}

/* Appends an expression of what the last stage made, or of the input, to the chain. */
static int add_math(struct vp_chain *chain, const struct vp_images *im, enum vp_type in, const char *text,
                    struct vp_err *err)
{
    struct vp_math *m = NULL;

    if (vp_math_parse(&m, text, 1, in, err) || vp_math_add(chain, m, im->size, 1, VP_F32, err))
        return -1;
    if (chain->n > 1)
        chain->stage[chain->n - 1].from[0] = chain->n - 2;
    return 0;
}

/* Makes the chain: transmission, convolution, logarithm. */
static int make_chain(struct vp_chain *chain, const struct vp_images *im, const struct vp_phase *f, bool transmission,
                      bool thickness, struct vp_err *err)
{
    const struct vp_convolve_given g = {.n = {f->n[0], f->n[1], 1}, .nodes = {1, 1}, .kernels = f->kernel,
                                        .normalize = true,
                                        .edge = VP_EDGE_NEAREST};
    struct vp_op op;
    char log[80];

    snprintf(log, sizeof log, "-log(max(a,1e-30))/%.17g", thickness ? f->mu : 1);
    if (add_math(chain, im, im->type, transmission ? "max(a,0)" : "exp(-a)", err))
        return -1;
    if (vp_convolve_local(&op, &g, im->size, VP_F32, VP_F32, err))
        return -1;
    op.from[0] = 0;
    if (vp_chain_add(chain, &op, err))
        return -1;
    return add_math(chain, im, VP_F32, log, err);
}

static int ct_phase(struct vp_run *run, void *params, struct vp_err *err)
{
    const struct params *p = params;
    const struct vp_image_params image = {.flat = true, .values = true};
    struct vp_images im = {0};
    struct vp_geom geom = {0};
    struct vp_phase f = {0};
    struct vp_chain chain = {0};
    bool found, transmission;
    char *input = NULL; /* name, once the reader is closed */
    int rc = -1;

    if (vp_images_open(&im, run, &image, 1, VP_CONVOLVE_TYPES, err))
        goto out;
    const char *name = vp_reader_name(im.reader[0]);
    if (!(input = strdup(name))) {
        vp_fail(err, VP_ERESOURCE, "out of memory");
        goto out;
    }
    if (check_input(p, vp_reader_stack(im.reader[0]), name, &transmission, err) ||
        read_geometry(p, im.reader[0], &geom, &found, err) ||
        vp_phase_lengths(&f, &p->phase, found ? &geom : NULL, err) || vp_phase_kernel(&f, err))
        goto out;
    vp_report_plan(run, "length", "%.4g x %.4g pixels", f.length[0], f.length[1]);
    vp_report_plan(run, "kernel", "%lld x %lld", (long long)f.n[0], (long long)f.n[1]);
    if (f.fresnel > 0)
        vp_report_plan(run, "fresnel", "%.3g: pixel^2 / (wavelength x distance)", f.fresnel);
    if (f.fresnel > 0 && f.fresnel < 0.05)
        vp_warn(run, "%s: the Fresnel number of a pixel is %.2g: below 0.05 the filter's model fails at edges", name,
                f.fresnel);
    if (make_chain(&chain, &im, &f, transmission, p->phase.thickness, err))
        goto out;
    const struct vp_result result = {VP_VALUES, p->phase.thickness ? "thickness" : "line integral"};
    rc = vp_images_run(&im, run, &chain, &result, err);
    const int64_t bad = ((const struct vp_math *)chain.stage[chain.n - 1].params)->lost;
    if (!rc && bad)
        vp_warn(run, "%s: %lld samples of the result are NaN or infinite: one spreads over the kernel, %lld x %lld pixels",
                input, (long long)bad, (long long)f.n[0], (long long)f.n[1]);
out:
    free(input);
    vp_chain_free(&chain);
    free(f.kernel);
    vp_geom_free(&geom);
    vp_images_close(&im);
    return rc;
}

const struct vp_tool vp_program = {
    .name = "ct-phase",
    .operands = "[INPUT]...",
    .summary = "phase retrieval by Paganin's filter, for parallel and cone beams",
    .description =
        "Reads the line integrals of ct-normalize, or a transmission, and applies the phase retrieval filter of "
        "Paganin. The output is line integrals again, so that a reconstruction gives attenuation in 1/mm.\n\n"
        "Between object and detector, phase turns into intensity: bright and dark fringes along edges. If the object "
        "consists of one material whose delta / beta is known, a low-pass filter of the transmission I undoes this: "
        "T = -ln F'[F(I) / (1 + L^2 k^2)]. F is the Fourier transform, k is 2 pi times the frequency, and L^2 = "
        "distance x delta / mu. The filter also removes noise.\n\n"
        "In a cone beam of magnification M = sdd / sod, the filter is that of a parallel beam with the pixel pitch "
        "and the distance divided by M. Both follow from the geometry.\n\n"
        "The filter is a convolution with a kernel cut off at 14 L. It uses the code of img-convolve(1), with its "
        "accuracy, on CPU or GPU, with any limit of memory. Beyond the edges the outermost samples are repeated. The "
        "result is within 1e-5 of that of the kernel that is not cut off. A NaN makes all samples NaN that the kernel "
        "reaches from it, and a warning appears; ct-normalize leaves none, and img-local --missing nan fills holes.",
    .options = options,
    .params_size = sizeof(struct params),
    .examples = examples,
    .sections =
        "CHOOSING DELTA / BETA\n"
        "If delta / beta is too small, fringes remain; if it is too large, the result is "
        "blurred. With half of the true value, the thickness at the rim of a sphere is wrong by 1 to 16 %. At a "
        "boundary between two materials the right value is (delta1 - delta2) / (beta1 - beta2).\n\n"
        "The model is the transport-of-intensity equation. It holds if pixel^2 / (wavelength x distance) is large; "
        "--plan prints this number. Errors at the rim of an object are about 1 % of the thickness above 0.3, and 4 % "
        "at 0.08. Below 0.05 a warning appears.\n\n"
        "REFERENCES\n"
        "Paganin et al., J. Microsc. 206 (2002) 33.",
    .see_also = "ct-normalize(1), ct-fdk(1), img-convolve(1), ct-geometry(5)",
    .flags = VP_TOOL_CUDA | VP_TOOL_VIEWS,
    .run = ct_phase,
};
