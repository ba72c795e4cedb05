/* SPDX-License-Identifier: BSD-3-Clause */
/* img-nlmeans: non-local means, which reduces noise by averaging voxels with similar surroundings. Contract: at the
 * edge of the image only existing voxels count; results do not depend on the chunks. */
#include "app/tool.h"
#include "local/nlmeans.h"
#include "stack/stack.h"
#include "app/image_run.h"
#include "app/missing.h"

#include <math.h>

enum { SAME, F32, F64 };

struct params {
    double h, sigma;
    struct vp_reals search, patch;
    int type;                 /* index into same|f32|f64 */
    struct vp_missing_given missing;
    struct vp_image_params image;
};

static const struct vp_opt options[] = {
    VP_REAL(struct params, h, "h", 0, .metavar = "VALUE", .min = 0, .max = INFINITY, .group = "Filter",
            .help = "filter strength, in units of the values (must be given)",
            .more = "It defines how different the surroundings of two voxels may be: with a root mean square "
                    "difference of h, the weight is 1/e. A good value is about 1.5 times the standard deviation of "
                    "the noise, or about once if --sigma is given. img-local --stat std on a uniform part shows the "
                    "noise."),
    VP_REAL(struct params, sigma, "sigma", 0, .metavar = "VALUE", .min = 0, .max = INFINITY, .def = "0",
            .help = "standard deviation of the noise, which is subtracted from differences"),
    VP_REALS(struct params, search, "search", 0, .metavar = "R | RX,RY,RZ", .min = 0, .max = 1e6,
             .help = "radius of the search window (default: 10, in volumes 5)",
             .more = "One number for all axes, or one for each of x, y, z; at most 64 voxels. The time grows with the "
                     "number of voxels in this window."),
    VP_REALS(struct params, patch, "patch", 0, .metavar = "R | RX,RY,RZ", .min = 0, .max = 1e6,
             .help = "radius of the surroundings (patches) that are compared (default: 2, in volumes 1)",
             .more = "One number or three, as for --search; at most 64 voxels."),
    VP_CHOICE(struct params, type, "type", 't', "same|f32|f64", .metavar = "TYPE", .def = "same",
              .help = "sample type of the result: same, f32 or f64",
              .more = "same rounds to the nearest integer (halves to even) if the input has integers. f64 computes "
                      "in f64, on the CPU."),
    VP_OPTIONS(struct params, missing, vp_missing_options),
    VP_OPTIONS(struct params, image, vp_image_options),
    VP_OPT_END,
};

static const struct vp_example examples[] = {
    {"Remove noise from a volume and keep its edges.",
     "ct-phantom --volume 48x48x16 -o vol.tif\nimg-nlmeans --h 0.002 vol.tif -o clean.tif"},
    {"Each page separately, with known noise.",
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
    int rc = vp_images_open(&im, run, &p->image, 1, VP_NLMEANS_TYPES | VP_TYPES_WIDE, err);
    const enum vp_type same = vp_images_as_f64(&im, p->type == F64);
    const enum vp_type out = p->type == F32 ? VP_F32 : p->type == F64 ? VP_F64 : same;
    rc = rc || vp_missing_open(&im, run, &p->missing, err)
         || vp_missing_fill(&im, run, &p->missing, out, err)
         || radii(&im, "search", &p->search, 10, 5, search, err) || radii(&im, "patch", &p->patch, 2, 1, patch, err)
         || vp_nlmeans_local(&op, vp_scale_steps(im.scale, p->h), vp_scale_steps(im.scale, p->sigma), search, patch,
                             im.size, im.type, out, err)
         || vp_chain_add(&im.chain, &op, err) || vp_missing_chain(&im.chain, &im.missing, err);
    return vp_images_end(&im, run, rc, NULL, err);
}

const struct vp_tool vp_program = {
    .name = "img-nlmeans",
    .operands = "[INPUT]...",
    .summary = "non-local means: remove noise, keep edges and texture",
    .description =
        "Removes noise and keeps edges and texture, by non-local means (Buades, Coll and Morel 2005). Each voxel "
        "becomes a weighted mean of the voxels in a search window around it; the weight is large for voxels whose "
        "surroundings look alike. Pages along z are a volume; with --2d each page is an image of its own. Samples "
        "are u8, u16, i16 or f32, and on the CPU u32, i32 or f64, which are computed in f64; i8 is read as i16.\n\n"
        "The weight of voxel y for voxel x is exp(-max(d2 - 2 sigma^2, 0) / h^2), where d2 is the mean squared "
        "difference between the surroundings (patches) of x and y. At the edge of the image, d2 is the mean over the "
        "pairs of voxels that exist. A NaN affects all voxels within the sum of both radii; "
        "--missing nan leaves it out. The bits of the result "
        "do not depend on threads, memory or chunks.\n\n"
        "The time is proportional to the number of voxels in the search window: 441 by default, 1331 in volumes. With "
        "--search 3 a volume takes a quarter of the default's time.",
    .options = options,
    .params_size = sizeof(struct params),
    .examples = examples,
    .flags = VP_TOOL_CUDA,
    .see_also = "img-local(1), img-gauss(1), img-wiener(1), voxpipe-stack(5)",
    .run = img_nlmeans,
};
