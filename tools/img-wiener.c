/* SPDX-License-Identifier: BSD-3-Clause */
/* img-wiener: Wiener's adaptive filter, which smooths most where the local variance is that of the noise. */
#include "local/moments.h"
#include "stack/stack.h"
#include "app/footprint.h"
#include "app/image_run.h"
#include "app/missing.h"
#include "app/tool.h"

#include <math.h>

enum { SAME, F32, F64 };

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
            .more = "In squared units of the values (if a scale is recorded, not of the stored samples). The default "
                    "is the mean of the local variances over the whole stack. It needs a second reading, so the "
                    "input must be a file, or --spool must be given; -v prints the variance."),
    VP_REAL(struct params, sigma, "sigma", 0, .metavar = "SIGMA", .min = 0, .max = INFINITY,
            .help = "standard deviation of the noise, instead of --noise",
            .more = "In the unit of the values; its square is the variance."),
    VP_CHOICE(struct params, type, "type", 't', "same|f32|f64", .metavar = "TYPE", .def = "same",
              .help = "sample type of the output: same as the input's, f32 or f64",
              .more = "Values are rounded to the nearest integer (halves to even) and clamped to the range of an "
                      "integer type. f64 computes in f64, on the CPU."),
    VP_OPTIONS(struct params, window, vp_footprint_options),
    VP_OPTIONS(struct params, missing, vp_missing_options),
    VP_OPTIONS(struct params, image, vp_image_options),
    VP_OPT_END,
};

static const struct vp_example examples[] = {
    {"Remove noise from a volume, with an estimate of its variance.",
     "ct-phantom --volume 64x64x64 -o vol.tif\nimg-wiener --radius 2 vol.tif -o clean.tif"},
    {"Noise of standard deviation 0.0005, slice by slice, in a pipe.",
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
    int rc = vp_images_open(&im, run, &p->image, 1, VP_MOMENTS_TYPES | VP_TYPES_WIDE, err)
             || vp_missing_open(&im, run, &p->missing, err)
             || vp_missing_fill(&im, run, &p->missing, p->type == F32 ? VP_F32 : p->type == F64 ? VP_F64 : im.type, err)
             || vp_footprint_open(&f, run, &p->window, &im, err);
    const double step = vp_scale_steps(im.scale, 1);
    if (!rc && p->type == F64)
        vp_images_as_f64(&im, true);
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
    .summary = "adaptive noise filter by Wiener's formula",
    .description =
        "Removes noise from images and keeps edges and details. It computes the mean m and the variance v of the "
        "neighbourhood of each voxel x. If v is at most the variance of the noise, the result is m; otherwise it is "
        "m + (v - noise) / v * (x - m). Uniform parts are therefore smoothed, and edges hardly change. Pages along z "
        "are a volume; with --2d each page is an image of its own. Samples are u8, u16, i8, i16 or f32; on the CPU "
        "also u32, i32 and f64, which are computed in f64.\n\n"
        "At the edge of the image only voxels that exist are used; scipy.signal.wiener, which has the same formula, "
        "uses zeros there. A NaN in the neighbourhood makes the result NaN, unless --missing nan leaves it "
        "out. The bits of the result do not depend on "
        "threads, memory or chunks.",
    .options = options,
    .params_size = sizeof(struct params),
    .examples = examples,
    .see_also = "img-gauss(1), img-nlmeans(1), img-local(1), voxpipe-stack(5)",
    .flags = VP_TOOL_CUDA,
    .run = img_wiener,
};
