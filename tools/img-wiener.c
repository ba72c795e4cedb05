/* SPDX-License-Identifier: BSD-3-Clause */
/* img-wiener: Wiener's adaptive filter, which smooths most where the local variance is that of the noise. */
#include "local/moments.h"
#include "stack/stack.h"
#include "app/footprint.h"
#include "app/image_run.h"
#include "app/missing.h"
#include "app/tool.h"

#include <math.h>

enum { SAME, F32 };

struct params {
    double noise, sigma;
    int type;
    struct vp_footprint_params window;
    struct vp_missing_given missing;
    struct vp_image_params image;
};

static const struct vp_opt options[] = {
    VP_REAL(struct params, noise, "noise", 0, .metavar = "VARIANCE", .min = 0, .max = INFINITY, .group = "Filter",
            .help = "variance of the noise (default: estimated)",
            .more = "In squared units of the values (where a scale is recorded, not of the samples as stored). Without "
                    "it the mean of the local variances over the whole stack is taken, and the input is read twice, so "
                    "it must be a file (or --spool); -v shows the value."),
    VP_REAL(struct params, sigma, "sigma", 0, .metavar = "SIGMA", .min = 0, .max = INFINITY,
            .help = "standard deviation of the noise, instead of --noise",
            .more = "In the unit of the values; its square is the variance."),
    VP_CHOICE(struct params, type, "type", 't', "same|f32", .metavar = "TYPE", .def = "same",
              .help = "sample type of the output: same as the input's, or f32",
              .more = "Integers are rounded to the nearest (halves to even) and clamped to the range of the type."),
    VP_OPTIONS(struct params, window, vp_footprint_options),
    VP_OPTIONS(struct params, missing, vp_missing_options),
    VP_OPTIONS(struct params, image, vp_image_options),
    VP_OPT_END,
};

static const struct vp_example examples[] = {
    {"Take noise out of a volume; how much there is, is estimated.",
     "ct-phantom --volume 64x64x64 -o vol.tif\nimg-wiener --radius 2 vol.tif -o clean.tif"},
    {"Noise of standard deviation 0.0005, each slice by itself, in a pipe.",
     "img-cat vol.tif | img-wiener --2d --sigma 0.0005 --radius 3 > clean.tif"},
    {0},
};

static int img_wiener(struct vp_run *run, void *params, struct vp_err *err)
{
    const struct params *p = params;
    struct vp_images im = {0};
    struct vp_footprint f = {0};
    struct vp_op op;
    const bool sigma = vp_given(run, "sigma");
    double noise = sigma ? p->sigma * p->sigma : p->noise;

    if (sigma && vp_given(run, "noise"))
        return vp_fail(err, VP_EUSAGE, "--noise and --sigma cannot be combined: a variance, and its square root");
    int rc = vp_images_open(&im, run, &p->image, 1, VP_MOMENTS_TYPES, err)
             || vp_missing_open(&im, run, &p->missing, VP_MOMENTS_TYPES, err)
             || vp_missing_fill(&im, run, &p->missing, p->type == F32 ? VP_F32 : im.type, err)
             || vp_footprint_open(&f, run, &p->window, &im, err);
    const double step = vp_scale_steps(im.scale, 1);
    if (!rc && !sigma && !vp_given(run, "noise")) {
        rc = vp_images_noise(&im, run, &f, &noise, err);
        vp_report_plan(run, "passes", "2, the first for the noise");
        if (!rc && !run->common.plan)
            vp_note(run, "noise variance %.9g, standard deviation %.9g", noise / step / step, sqrt(noise) / step);
    } else {
        noise *= step * step;
    }
    rc = rc || vp_moments_wiener(&op, noise, &f, im.size, im.type, p->type == F32 ? VP_F32 : im.type, err)
         || vp_chain_add(&im.chain, &op, err) || vp_missing_chain(&im.chain, &im.missing, err);
    vp_footprint_free(&f);
    return vp_images_end(&im, run, rc, NULL, err);
}

const struct vp_tool vp_program = {
    .name = "img-wiener",
    .operands = "[INPUT]...",
    .summary = "adaptive noise filter after Wiener",
    .description =
        "From the mean m and the variance v of a voxel's neighbourhood every value x becomes m where v is no "
        "larger than the variance of the noise, and m + (v - noise) / v * (x - m) elsewhere: smooth where there is "
        "nothing but noise, nearly untouched at edges and details. scipy.signal.wiener has the same formula; here the "
        "neighbourhood at the edge of an image is the part of it that exists, instead of zeros.\n\n"
        "Pages along z are a volume, or with --2d each page is an image of its own; channels and times are never "
        "mixed. Samples are u8, u16, i8, i16 or f32. In f32 a NaN makes NaN of the results whose neighbourhood "
        "holds it, unless --missing nan leaves it out.\n\n"
        "The bits of the result do not depend on threads, memory or chunks.",
    .options = options,
    .params_size = sizeof(struct params),
    .examples = examples,
    .see_also = "img-gauss(1), img-nlmeans(1), img-local(1), voxpipe-stack(5)",
    .flags = VP_TOOL_CUDA,
    .run = img_wiener,
};
