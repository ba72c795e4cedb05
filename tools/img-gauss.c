/* SPDX-License-Identifier: BSD-3-Clause */
/* img-gauss: Gaussian filter of images and volumes, its derivatives, and the high-pass that complements it. */
#include "app/tool.h"
#include "local/gauss.h"
#include "app/image_run.h"
#include "app/missing.h"

#include <math.h>

enum { AUTO, SAME, F32, F64 };

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
             .more = "An axis with 0 is not filtered. With --physical in the unit of the voxel size. Along the axis "
                     "of a derivative it is at least 0.25 voxels."),
    VP_REAL(struct params, truncate, "truncate", 0, .metavar = "T", .def = "4", .max = INFINITY,
            .help = "cut the Gaussian off at T standard deviations",
            .more = "The radius is T * sigma, rounded to the nearest voxel as in SciPy, and at most 2048. For a "
                    "derivative it is at least the order of the derivative, and at least 2 for the voxels near an "
                    "edge."),
    VP_CHOICE(struct params, edge, "edge", 0, VP_EDGE_CHOICES, .metavar = "RULE", .def = "renormalize",
              .help = "rule beyond the edge: renormalize|nearest|mirror|zero|wrap",
              .more = "See voxpipe(7), Edges. With renormalize, derivatives are corrected so that they are exact for "
                      "ramps and quadratics up to the last voxel. (Along an axis of two voxels, the first derivative "
                      "is their difference.)"),
    VP_REALS(struct params, derivative, "derivative", 0, .metavar = "NX,NY,NZ", .max = 2,
             .help = "order of the derivative along x, y and z",
             .more = "1,0,0 is the slope along x of the smoothed image. Derivatives are per voxel, or with "
                     "--physical per unit of the voxel size. The weights are corrected so that a ramp gives its "
                     "slope and a quadratic its curvature. SciPy does not correct them, see NOTES."),
    VP_FLAG(struct params, highpass, "highpass", 0,
            .help = "write the image minus its Gaussian"),
    VP_INT(struct params, iterations, "iterations", 'n', .metavar = "N", .def = "1", .min = 1, .max = 100,
           .help = "apply the filter N times",
           .more = "The result is that of N runs of the program with f32 in between:\n\n"
                   "- N Gaussians are one Gaussian of sigma * sqrt(N).\n"
                   "- A derivative of a derivative has the sum of their orders.\n"
                   "- A high-pass gets steeper."),
    VP_CHOICE(struct params, type, "type", 't', "auto|same|f32|f64", .metavar = "TYPE", .def = "auto",
              .help = "sample type of the output: same as the input's, f32 or f64",
              .more = "auto is f32 for --derivative and --highpass (f64 for u32, i32 and f64), otherwise same. "
                      "Values are rounded to the nearest integer (halves to even) and clamped to the range of an "
                      "integer type. f64 computes in f64, on the CPU."),
    VP_OPTIONS(struct params, missing, vp_missing_options),
    VP_OPTIONS(struct params, image, vp_image_options),
    VP_OPT_END,
};

static const struct vp_example examples[] = {
    {"Smooth a volume by 1.5 voxels.",
     "ct-phantom --volume 64x64x64 -o vol.tif\nimg-gauss --sigma 1.5 vol.tif -o smooth.tif"},
    {"Smooth less along z than within the slices, at the end of a pipe.",
     "img-cat vol.tif | img-gauss --sigma 2,2,0.5 > smooth.tif"},
    {"Remove slow variations from each page by subtracting a wide Gaussian.",
     "img-gauss --2d --sigma 10 --highpass vol.tif -o flat.tif"},
    {"The slope along x in gray values per mm, at a scale of 1 mm.",
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
    const unsigned types = 1u << VP_U8 | 1u << VP_U16 | 1u << VP_I16 | 1u << VP_F32 | VP_TYPES_WIDE;
    const struct params *p = params;
    struct vp_image_params image = p->image;
    struct vp_images im = {0};
    struct vp_gauss_params g = {.truncate = p->truncate, .spacing = {1, 1, 1}, .edge = (enum vp_edge)p->edge,
                                .highpass = p->highpass, .iterations = p->iterations};

    image.values = p->edge == VP_EDGE_ZERO; /* the 0 beyond the edge is a value */
    int rc = vp_images_open(&im, run, &image, 1, types, err)
             || vp_image_lengths(&im, "sigma", &p->sigma, g.sigma, err) || orders(&im, &p->derivative, g.order, err);
    const bool derivative = g.order[0] || g.order[1] || g.order[2];
    const enum vp_type same = vp_images_as_f64(&im, p->type == F64);
    const enum vp_type out = p->type == F32 ? VP_F32 : p->type == F64 ? VP_F64
                             : p->type == AUTO && (derivative || p->highpass) ? vp_type_of_values(same) : same;
    for (int a = 0; a < 3 && p->image.physical; a++)
        g.spacing[a] = im.voxel[a];
    rc = rc || vp_missing_open(&im, run, &p->missing, err)
         || vp_missing_fill(&im, run, &p->missing, out, err)
         || vp_gauss_chain(&im.chain, &g, im.size, im.type, out, err) || vp_missing_chain(&im.chain, &im.missing, err);
    const struct vp_result result = {derivative || p->highpass ? VP_DIFFERENCES : VP_VALUES,
                                     derivative ? "derivative" : NULL};
    return vp_images_end(&im, run, rc, &result, err);
}

const struct vp_tool vp_program = {
    .name = "img-gauss",
    .operands = "[INPUT]...",
    .summary = "smooth with a Gaussian; derivatives, high-pass",
    .description =
        "Convolves images with a Gaussian, or with its derivatives (--derivative), or subtracts the Gaussian from "
        "the image (--highpass). Pages along z are a volume; with --2d each page is an image of its own. Samples are "
        "u8, u16, i8, i16 or f32; on the CPU also u32, i32 and f64, which are computed in f64.\n\n"
        "At the edges, weights are scaled to sum to one over the voxels that exist, so the image gets neither darker "
        "nor brighter there. The bits of the result do not depend on threads, memory or chunks.",
    .options = options,
    .params_size = sizeof(struct params),
    .examples = examples,
    .sections =
        "NOTES\n"
        "A constant image stays exactly constant, whatever its value, because the filter is computed as a sum over "
        "differences of neighbours. Rounding errors are therefore relative to the contrast within the filter, not to "
        "the brightness: by measurement 3e-7 of the contrast at sigma 10 and 9e-7 at sigma 512, or about one step of "
        "f32 if that is more. A result in the far tail of something bright may be below zero by that much.\n\n"
        "A NaN or infinite sample makes all voxels within the radius of the Gaussian NaN or infinite. f32 samples "
        "beyond 8e37 may do so, too, because f32 cannot hold their differences.\n\n"
        "Derivatives of SciPy have uncorrected weights, so their values differ:\n\n"
        "- from sigma 1 on by up to 1 % with --truncate 4, and hardly with 8; a second derivative differs more on a "
        "large constant, which SciPy does not reduce to zero\n"
        "- at sigma 0.5, with any --truncate, by about 15 % in a first derivative and by half in a second",
    .see_also = "img-log(1), img-convert(1), voxpipe-stack(5)",
    .flags = VP_TOOL_CUDA,
    .run = img_gauss,
};
