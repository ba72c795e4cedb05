/* SPDX-License-Identifier: BSD-3-Clause */
/* img-gauss: Gaussian filter of images and volumes, its derivatives, and the high-pass that complements it. */
#include "app/tool.h"
#include "local/gauss.h"
#include "app/image_run.h"
#include "app/missing.h"

#include <math.h>

enum { AUTO, SAME, F32 };

struct params {
    struct vp_reals sigma, derivative;
    double truncate;
    int edge, type;
    bool highpass;
    int64_t iterations;
    struct vp_missing_given missing;
    struct vp_image_params image;
};

static const struct vp_opt options[] = {
    VP_REALS(struct params, sigma, "sigma", 's', .metavar = "S|SX,SY,SZ", .def = "1", .max = INFINITY,
             .group = "Filter", .help = "standard deviation, in voxels; one for all axes, or one for each",
             .more = "An axis with 0 is left alone. With --physical in the unit of the voxel size. Derivatives need at "
                     "least 0.25 voxels along their axis."),
    VP_REAL(struct params, truncate, "truncate", 0, .metavar = "T", .def = "4", .max = INFINITY,
            .help = "cut the Gaussian off at T standard deviations",
            .more = "The radius is T * sigma rounded to the nearest voxel, as in SciPy, and at most 2048; that of a "
                    "derivative is at least its order, and at edges 2."),
    VP_CHOICE(struct params, edge, "edge", 0, VP_EDGE_CHOICES, .metavar = "RULE", .def = "renormalize",
              .help = "beyond the edge: renormalize|nearest|mirror|zero|wrap",
              .more = "renormalize uses the voxels that exist and scales their weights to sum to one; derivatives "
                      "are corrected so that ramps and quadratics come out right up to the last voxel (a first "
                      "derivative needs three voxels for a quadratic, and of two is their difference). nearest, "
                      "mirror (c b a | a b c), zero and wrap make voxels up, for comparison with other software (in "
                      "SciPy: nearest, reflect, constant, wrap)."),
    VP_REALS(struct params, derivative, "derivative", 0, .metavar = "NX,NY,NZ", .max = 2,
             .help = "order of the derivative along x, y and z",
             .more = "Per voxel, or with --physical per unit of the voxel size. 1,0,0 is the slope along x of the "
                     "smoothed image. The weights are corrected so that a ramp gives its slope and a quadratic its "
                     "curvature. SciPy's are not: from sigma 1 on they differ by up to 1 % with --truncate 4 (more "
                     "where a second derivative lies on a large constant, which does not vanish there) and hardly with "
                     "8; below, whatever that is, at sigma 0.5 by about 15 % in a first derivative and half in a "
                     "second."),
    VP_FLAG(struct params, highpass, "highpass", 0, .help = "the image minus its Gaussian"),
    VP_INT(struct params, iterations, "iterations", 'n', .metavar = "N", .def = "1", .min = 1, .max = 100,
           .help = "filter N times",
           .more = "The same as the program N times in a row with f32 in between: N times a Gaussian is one of sigma * "
                   "sqrt(N); a derivative of a derivative has the sum of their orders; a high-pass gets steeper."),
    VP_CHOICE(struct params, type, "type", 't', "auto|same|f32", .metavar = "TYPE", .def = "auto",
              .help = "sample type of the output: same as the input's, or f32",
              .more = "auto is same, but f32 for --derivative and --highpass. Integers are rounded to the nearest "
                      "(halves to even) and clamped to the range of the type."),
    VP_OPTIONS(struct params, missing, vp_missing_options),
    VP_OPTIONS(struct params, image, vp_image_options),
    VP_OPT_END,
};

static const struct vp_example examples[] = {
    {"Smooth a volume by 1.5 voxels.",
     "ct-phantom --volume 64x64x64 -o vol.tif\nimg-gauss --sigma 1.5 vol.tif -o smooth.tif"},
    {"Less along z than within the slices, at the end of a pipe.",
     "img-cat vol.tif | img-gauss --sigma 2,2,0.5 > smooth.tif"},
    {"Remove slow variations of each page: subtract a wide Gaussian.",
     "img-gauss --2d --sigma 10 --highpass vol.tif -o flat.tif"},
    {"The slope along x in grey values per mm, at a scale of 1 mm.",
     "img-gauss --physical --sigma 1 --derivative 1,0,0 vol.tif -o slope.tif"},
    {"Smooth what lies inside a mask, and nothing from outside.",
     "img-math 'a > 0' --type u8 vol.tif -o inside.tif\n"
     "img-gauss --sigma 3 --mask inside.tif --keep-missing vol.tif -o within.tif"},
    {0},
};

static int orders(const struct vp_images *im, const struct vp_reals *given, int out[3], struct vp_err *err)
{
    if (given->n && given->n != 3 && !(given->n == 2 && im->flat))
        return vp_fail(err, VP_EUSAGE, "--derivative: expected an order for each of x, y%s, got %d",
                       im->flat ? "" : " and z", given->n);
    for (int a = 0; a < given->n; a++) {
        out[a] = (int)given->v[a];
        if (given->v[a] != out[a])
            return vp_fail(err, VP_EUSAGE, "--derivative: expected 0, 1 or 2, got %g", given->v[a]);
    }
    if (im->flat && out[2])
        return vp_fail(err, VP_EUSAGE, "--derivative: %d along z: the pages of this stack are single images", out[2]);
    return 0;
}

static int img_gauss(struct vp_run *run, void *params, struct vp_err *err)
{
    const unsigned types = 1u << VP_U8 | 1u << VP_U16 | 1u << VP_I16 | 1u << VP_F32;
    const struct params *p = params;
    struct vp_image_params image = p->image;
    struct vp_images im = {0};
    struct vp_gauss_params g = {.truncate = p->truncate, .spacing = {1, 1, 1}, .edge = (enum vp_edge)p->edge,
                                .highpass = p->highpass, .iterations = p->iterations};

    image.values = p->edge == VP_EDGE_ZERO; /* the 0 beyond the edge is a value */
    int rc = vp_images_open(&im, run, &image, 1, types, err)
             || vp_image_lengths(&im, "sigma", &p->sigma, g.sigma, err) || orders(&im, &p->derivative, g.order, err);
    const bool derivative = g.order[0] || g.order[1] || g.order[2];
    const bool real = p->type == F32 || (p->type == AUTO && (derivative || p->highpass));
    for (int a = 0; a < 3 && p->image.physical; a++)
        g.spacing[a] = im.voxel[a];
    rc = rc || vp_missing_open(&im, run, &p->missing, types, err)
         || vp_missing_fill(&im, run, &p->missing, real ? VP_F32 : im.type, err)
         || vp_gauss_chain(&im.chain, &g, im.size, im.type, real ? VP_F32 : im.type, err)
         || vp_missing_chain(&im.chain, &im.missing, err);
    const struct vp_result result = {derivative || p->highpass ? VP_DIFFERENCES : VP_VALUES,
                                     derivative ? "derivative" : NULL};
    return vp_images_end(&im, run, rc, &result, err);
}

const struct vp_tool vp_program = {
    .name = "img-gauss",
    .operands = "[INPUT]...",
    .summary = "smooth with a Gaussian, its derivatives, high-pass",
    .description =
        "Convolves every image with a Gaussian: pages along z as a volume, or with --2d each page by itself; "
        "channels and times are never mixed. Samples are u8, u16, i8, i16 or f32.\n\n"
        "At the edges only voxels that exist count, with weights that sum to one, so nothing gets dark or "
        "bright there. The filter is a sum over differences of neighbours: an image that is constant comes out "
        "exactly as it is, whatever its value, and rounding errors are a matter of the contrast that the filter "
        "sees: by measurement 3e-7 of it at sigma 10 and 9e-7 at sigma 512, or about a step of f32 where that is "
        "more. (So where the tail of something bright is all there is, a result may be below zero by as little.)\n\n"
        "The bits of the result do not depend on threads, memory or chunks. NaN and infinity in the input "
        "make NaN or infinity of all voxels whose Gaussian reaches them (--missing nan leaves NaN out); so may samples beyond 8e37, the differences "
        "of which f32 does not hold.",
    .options = options,
    .params_size = sizeof(struct params),
    .examples = examples,
    .see_also = "img-log(1), img-convert(1), voxpipe-stack(5)",
    .flags = VP_TOOL_CUDA,
    .run = img_gauss,
};
