/* SPDX-License-Identifier: BSD-3-Clause */
/* img-nlmeans: non-local means, which reduces noise by averaging voxels with similar surroundings. Contract: at the
 * edge of the image only existing voxels count; results do not depend on the chunks. */
#include "app/tool.h"
#include "local/nlmeans.h"
#include "stack/stack.h"
#include "app/image_run.h"
#include "app/missing.h"

#include <math.h>

struct params {
    double h, sigma;
    struct vp_reals search, patch;
    int type;                 /* index into same|f32 */
    struct vp_missing_given missing;
    struct vp_image_params image;
};

static const struct vp_opt options[] = {
    VP_REAL(struct params, h, "h", 0, .metavar = "VALUE", .min = 0, .max = INFINITY, .group = "Filter",
            .help = "filter strength, in units of the values (must be given)",
            .more = "How far the surroundings of two voxels may be apart for the one to count for the other: a root "
                    "mean square difference of h weighs 1/e. About the standard deviation of the noise where "
                    "--sigma is "
                    "given, about 1.5 times that where it is not; img-local --stat std on a flat part shows it."),
    VP_REAL(struct params, sigma, "sigma", 0, .metavar = "VALUE", .min = 0, .max = INFINITY, .def = "0",
            .help = "standard deviation of the noise, which does not count as a difference"),
    VP_REALS(struct params, search, "search", 0, .metavar = "R | RX,RY,RZ", .min = 0, .max = 1e6,
             .help = "radius of the search window (default: 10, in volumes 5)",
             .more = "One number for all axes, or one for each of x, y, z; at most 64 voxels. The time grows with the "
                     "number of voxels in this window."),
    VP_REALS(struct params, patch, "patch", 0, .metavar = "R | RX,RY,RZ", .min = 0, .max = 1e6,
             .help = "radius of the surroundings that are compared (default: 2, in volumes 1)",
             .more = "One number or three, as for --search; at most 64 voxels."),
    VP_CHOICE(struct params, type, "type", 't', "same|f32", .metavar = "TYPE", .def = "same",
              .help = "sample type of the result: same or f32",
              .more = "same rounds to the nearest integer (halves to even) where the input has integers."),
    VP_OPTIONS(struct params, missing, vp_missing_options),
    VP_OPTIONS(struct params, image, vp_image_options),
    VP_OPT_END,
};

static const struct vp_example examples[] = {
    {"Noise out of a volume, edges kept.",
     "ct-phantom --volume 48x48x16 -o vol.tif\nimg-nlmeans --h 0.002 vol.tif -o clean.tif"},
    {"Each page by itself; the noise is known.",
     "img-nlmeans --2d --h 0.001 --sigma 0.002 --search 7 vol.tif -o clean2d.tif"},
    {0},
};

/* Converts an option to whole voxels, or takes the default. */
static int radii(const struct vp_images *im, const char *option, const struct vp_reals *given, int64_t flat,
                 int64_t volume, int64_t out[3], struct vp_err *err)
{
    const bool plane = im->size[2] == 1;
    double r[3];

    if (!given->n) {
        out[0] = out[1] = plane ? flat : volume;
        out[2] = plane ? 0 : volume;
        return 0;
    }
    if (vp_image_lengths(im, option, given, r, err))
        return -1;
    for (int a = 0; a < 3; a++) {
        if (!(r[a] <= VP_NLMEANS_RADIUS))
            return vp_fail(err, VP_EUSAGE, "--%s: expected 0 to %d voxels, got %g", option, VP_NLMEANS_RADIUS, r[a]);
        out[a] = a == 2 && plane ? 0 : (int64_t)(r[a] + 1e-6); /* 0.3 mm in voxels of 0.1 mm are 3 */
    }
    return 0;
}

static int img_nlmeans(struct vp_run *run, void *params, struct vp_err *err)
{
    const struct params *p = params;
    struct vp_images im = {0};
    struct vp_op op;
    int64_t search[3], patch[3];

    if (!vp_given(run, "h"))
        return vp_fail_hint(err, VP_EUSAGE, "about 1.5 times the standard deviation of the noise", "--h is missing");
    const int rc = vp_images_open(&im, run, &p->image, 1, VP_NLMEANS_TYPES, err)
                   || vp_missing_open(&im, run, &p->missing, VP_NLMEANS_TYPES, err)
                   || vp_missing_fill(&im, run, &p->missing, p->type ? VP_F32 : im.type, err)
                   || radii(&im, "search", &p->search, 10, 5, search, err)
                   || radii(&im, "patch", &p->patch, 2, 1, patch, err)
                   || vp_nlmeans_local(&op, vp_scale_steps(im.scale, p->h), vp_scale_steps(im.scale, p->sigma), search,
                                       patch, im.size, im.type, p->type ? VP_F32 : im.type, err)
                   || vp_chain_add(&im.chain, &op, err) || vp_missing_chain(&im.chain, &im.missing, err);
    return vp_images_end(&im, run, rc, NULL, err);
}

const struct vp_tool vp_program = {
    .name = "img-nlmeans",
    .operands = "[INPUT]...",
    .summary = "non-local means: noise out, edges and texture kept",
    .description =
        "Replaces every voxel v(x) by a weighted mean of the voxels v(y) of a search window around it. The weight is "
        "exp(-max(d2 - 2 sigma^2, 0) / h^2), where d2 is the mean squared difference between the surroundings "
        "(patches) of x and y: voxels that look alike are averaged, whatever lies between them (Buades, Coll "
        "and Morel 2005).\n\n"
        "At the edge of the image the voxels that exist are used: d2 is the mean over the pairs that exist. The "
        "samples are the same to the bit whatever the memory, the number of threads and the boxes that the work "
        "is cut into. "
        "Pages along z are a volume; channels and times are never mixed.\n\n"
        "Samples are u8, u16, i16 or f32 (i8 is taken as i16). A NaN spreads to all voxels within the sum of both "
        "radii; --missing nan leaves it out.",
    .options = options,
    .params_size = sizeof(struct params),
    .examples = examples,
    .flags = VP_TOOL_CUDA,
    .see_also = "img-local(1), img-gauss(1), img-wiener(1), voxpipe-stack(5)",
    .run = img_nlmeans,
};
