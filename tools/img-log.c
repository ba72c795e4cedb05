/* SPDX-License-Identifier: BSD-3-Clause */
/* img-log: Laplacian of Gaussian of images and volumes. */
#include "app/tool.h"
#include "local/log.h"
#include "app/image_run.h"

#include <math.h>

struct params {
    struct vp_reals sigma;
    double truncate;
    int edge;
    bool normalize;
    struct vp_image_params image;
};

static const struct vp_opt options[] = {
    VP_REALS(struct params, sigma, "sigma", 's', .metavar = "S|SX,SY,SZ", .def = "1", .max = INFINITY,
             .group = "Filter", .help = "standard deviation, in voxels; one for all axes, or one for each",
             .more = "Along an axis with 0 no derivative is taken; other values are at least 0.25 voxels. With "
                     "--physical in the unit of the voxel size. With --scale-normalize, a bright ball of radius r "
                     "gives the strongest response (a minimum at its centre) at sigma = r / 1.73, and a disk in a "
                     "page at r / 1.41."),
    VP_REAL(struct params, truncate, "truncate", 0, .metavar = "T", .def = "4", .max = INFINITY,
            .help = "cut the Gaussian off at T standard deviations",
            .more = "The radius is T * sigma, rounded to the nearest voxel, at least 2 and at most 2048."),
    VP_CHOICE(struct params, edge, "edge", 0, VP_EDGE_CHOICES, .metavar = "RULE", .def = "renormalize",
              .help = "rule beyond the edge: renormalize|nearest|mirror|zero|wrap",
              .more = "See voxpipe(7), Edges. With renormalize, the weights of the second derivative are corrected "
                      "(least squares, by a quadratic times the Gaussian), so that up to the last voxel a constant "
                      "and a ramp give 0, and a quadratic gives its curvature."),
    VP_FLAG(struct params, normalize, "scale-normalize", 0,
            .help = "multiply by sigma^2 along each axis, to compare scales",
            .more = "The result then has the unit of the samples, with and without --physical."),
    VP_OPTIONS(struct params, image, vp_image_options),
    VP_OPT_END,
};

static const struct vp_example examples[] = {
    {"Edges and blobs of a volume at a scale of 2 voxels.",
     "ct-phantom --volume 64x64x64 -o vol.tif\nimg-log --sigma 2 vol.tif -o log.tif"},
    {"Each page separately, in a pipe.", "img-cat vol.tif | img-log --2d --sigma 1.5 > log2d.tif"},
    {"Compare two scales; the stronger response is at the scale of the blob.",
     "img-log --sigma 2 --scale-normalize vol.tif -o small.tif\n"
     "img-log --sigma 5 --scale-normalize vol.tif -o large.tif"},
    {"In 1/mm^2, at a scale of 1 mm.", "img-log --physical --sigma 1 vol.tif -o log-mm.tif"},
    {0},
};

static int img_log(struct vp_run *run, void *params, struct vp_err *err)
{
    const unsigned types = 1u << VP_U8 | 1u << VP_U16 | 1u << VP_I16 | 1u << VP_F32;
    const struct params *p = params;
    struct vp_image_params image = p->image;
    struct vp_images im = {0};
    struct vp_log_params l = {.truncate = p->truncate, .spacing = {1, 1, 1}, .normalize = p->normalize,
                              .edge = (enum vp_edge)p->edge};

    image.values = p->edge == VP_EDGE_ZERO; /* the 0 beyond the edge is a value */
    int rc = vp_images_open(&im, run, &image, 1, types, err)
             || vp_image_lengths(&im, "sigma", &p->sigma, l.sigma, err);
    for (int a = 0; a < 3 && p->image.physical; a++)
        l.spacing[a] = im.voxel[a];
    rc = rc || vp_log_chain(&im.chain, &l, im.size, im.type, err);
    return vp_images_end(&im, run, rc, &(struct vp_result){VP_DIFFERENCES, "Laplacian of Gaussian"}, err);
}

const struct vp_tool vp_program = {
    .name = "img-log",
    .operands = "[INPUT]...",
    .summary = "Laplacian of Gaussian (no logarithm: img-math 'log(a)')",
    .description =
        "Finds blobs and edges of a given scale (no logarithm: img-math 'log(a)'). Reads images of u8, u16, i8, i16 "
        "or f32, smooths them with a Gaussian, and writes the sum of the second derivatives along all axes, as f32. "
        "Pages along z are a volume; with --2d each page is an image of its own. Derivatives are per voxel, or with "
        "--physical per unit of the voxel size.\n\n"
        "The result is exactly zero for constants, zero for ramps, and the exact curvature for quadratics, within "
        "the rounding of f32. With the default --edge renormalize this holds at the edges, too, so there are no "
        "false edges around the image. Along an axis of one or two voxels the second derivative is 0.\n\n"
        "The bits of the result do not depend on threads, memory or chunks.",
    .options = options,
    .params_size = sizeof(struct params),
    .examples = examples,
    .sections =
        "NOTES\n"
        "A NaN or infinite sample makes all voxels within the radius of the Gaussian NaN or infinite. Samples beyond "
        "8e37 may do so, too, because f32 cannot hold their differences.\n\n"
        "scipy.ndimage.gaussian_laplace does not correct its weights, so its results differ:\n\n"
        "- from sigma 1 on by up to 1 % with --truncate 4, and by more on a large constant, which it does not reduce "
        "to zero; hardly with --truncate 8\n"
        "- at sigma 0.7 by some percent, at sigma 0.5 by half, with any --truncate",
    .see_also = "img-gauss(1), voxpipe-stack(5)",
    .flags = VP_TOOL_CUDA,
    .run = img_log,
};
