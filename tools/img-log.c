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
             .more = "An axis with 0 has no part in it; else at least 0.25 voxels. With --physical in the unit of the "
                     "voxel size. A bright ball of radius r is answered most strongly (by a minimum at its centre) at "
                     "sigma = r / 1.73, a disk in a page at r / 1.41, if --scale-normalize is given."),
    VP_REAL(struct params, truncate, "truncate", 0, .metavar = "T", .def = "4", .max = INFINITY,
            .help = "cut the Gaussian off at T standard deviations",
            .more = "The radius is T * sigma rounded to the nearest voxel, at least 2 and at most 2048."),
    VP_CHOICE(struct params, edge, "edge", 0, VP_EDGE_CHOICES, .metavar = "RULE", .def = "renormalize",
              .help = "beyond the edge: renormalize|nearest|mirror|zero|wrap",
              .more = "renormalize uses the voxels that exist: the clipped weights of the Gaussian sum to one, and "
                      "those of its second derivative are corrected (least squares, by a quadratic times the "
                      "Gaussian) so that a constant and a ramp give 0 and a quadratic its curvature, up to the last "
                      "voxel. The others make voxels up, for comparison with other software (in SciPy: nearest, "
                      "reflect, constant, wrap)."),
    VP_FLAG(struct params, normalize, "scale-normalize", 0,
            .help = "times sigma^2 along each axis: comparable between scales",
            .more = "The result then has the unit of the samples, with --physical or without."),
    VP_OPTIONS(struct params, image, vp_image_options),
    VP_OPT_END,
};

static const struct vp_example examples[] = {
    {"Edges and blobs of a volume at a scale of 2 voxels.",
     "ct-phantom --volume 64x64x64 -o vol.tif\nimg-log --sigma 2 vol.tif -o log.tif"},
    {"Each page by itself, in a pipe.", "img-cat vol.tif | img-log --2d --sigma 1.5 > log2d.tif"},
    {"Two scales that can be compared: the stronger answer is that of a blob's size.",
     "img-log --sigma 2 --scale-normalize vol.tif -o small.tif\n"
     "img-log --sigma 5 --scale-normalize vol.tif -o large.tif"},
    {"Per mm^2, at a scale of 1 mm.", "img-log --physical --sigma 1 vol.tif -o log-mm.tif"},
    {0},
};

static int img_log(struct vp_run *run, void *params, struct vp_err *err)
{
    const unsigned types = 1u << VP_U8 | 1u << VP_U16 | 1u << VP_I16 | 1u << VP_F32 | VP_TYPES_WIDE;
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
    vp_images_as_f64(&im, false);
    rc = rc || vp_log_chain(&im.chain, &l, im.size, im.type, err);
    return vp_images_end(&im, run, rc, &(struct vp_result){VP_DIFFERENCES, "Laplacian of Gaussian"}, err);
}

const struct vp_tool vp_program = {
    .name = "img-log",
    .operands = "[INPUT]...",
    .summary = "Laplacian of Gaussian (no logarithm: img-math 'log(a)')",
    .description =
        "Edges and blobs at a scale (no logarithm: img-math 'log(a)'): the sum of the second derivatives along all "
        "axes of the image smoothed with a Gaussian, as f32: pages along z as a volume, or with --2d each page by "
        "itself; channels and times are never mixed. Input samples are u8, u16, i8, i16 or f32, or on the CPU u32, i32 or f64, the "
        "result of which is computed in f64 and is f64. Derivatives are per "
        "voxel, or with --physical per unit of the voxel size.\n\n"
        "Zero on constants (exactly) and ramps, the exact curvature on quadratics, to the rounding of f32 and, with "
        "the default --edge renormalize, at the edges too: there is no frame of false edges around the image, and "
        "along an axis of one or two voxels the second derivative is 0. For this the weights are corrected "
        "everywhere; those of scipy.ndimage.gaussian_laplace are not: from sigma 1 on they differ by up to 1 % with "
        "--truncate 4 (more on a large constant, which does not vanish there) and hardly with 8; below, whatever that "
        "is, by some percent at sigma 0.7 and by half at 0.5.\n\n"
        "The bits of the result do not depend on threads, memory or chunks. NaN and infinity in the input "
        "make NaN or infinity of all voxels whose Gaussian reaches them; so may samples beyond 8e37, the differences "
        "of which f32 does not hold.",
    .options = options,
    .params_size = sizeof(struct params),
    .examples = examples,
    .see_also = "img-gauss(1), voxpipe-stack(5)",
    .flags = VP_TOOL_CUDA,
    .run = img_log,
};
