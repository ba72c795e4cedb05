/* SPDX-License-Identifier: BSD-3-Clause */
/* img-local: a statistic of the neighbourhood of every voxel: mean, median, minimum, maximum, standard deviation,
 * variance, entropy, percentile; box or ellipsoid, any size. Contract: at the edge of the image only existing voxels
 * count; results do not depend on the chunks. */
#include "app/tool.h"
#include "local/entropy.h"
#include "stack/stack.h"
#include "app/stat.h"
#include "app/image_run.h"

struct params {
    struct vp_stat_params stat;
    struct vp_image_params image;
};

static const struct vp_opt options[] = {
    VP_OPTIONS(struct params, stat, vp_stat_options),
    VP_OPTIONS(struct params, image, vp_image_options),
    VP_OPT_END,
};

static const struct vp_example examples[] = {
    {"Remove noise from a volume: the median of 3 x 3 x 3 voxels.",
     "ct-phantom --volume 64x64x64 -o vol.tif\nimg-local vol.tif -o median.tif"},
    {"The median of each page separately, over a disc.",
     "img-local --2d --shape ball --radius 2 vol.tif -o disc.tif"},
    {"A background: the 10th percentile of a wide neighbourhood.",
     "img-local --stat percentile:10 --radius 6,6,2 vol.tif -o background.tif"},
    {"A background: the median over a ring, which is drawn as a stack of 0 and 1.",
     "img-cat --region 0:15,0:15 --pages 0 vol.tif | img-math '(x-7)^2 + (y-7)^2 > 25 and (x-7)^2 + (y-7)^2 <= 49'"
     " --type u8 -o ring.tif\nimg-local --footprint ring.tif vol.tif -o background.tif"},
    {"The entropy around each voxel, in bits.",
     "img-local --stat entropy --radius 2 --range 0,0.03 vol.tif -o entropy.tif"},
    {0},
};

static int img_local(struct vp_run *run, void *params, struct vp_err *err)
{
    const struct params *p = params;
    struct vp_image_params image = p->image;
    struct vp_images im = {0};
    struct vp_result result = {0};
    struct vp_footprint f = {0};
    double range[2];
    bool known = false;

    vp_stat_scale(&p->stat, &image);
    int rc = vp_stat_check(&p->stat, err) || vp_images_open(&im, run, &image, 1, VP_STAT_TYPES, err)
             || vp_footprint_open(&f, run, &p->stat.window, &im, err);
    if (!rc && vp_stat_needs_range(&p->stat, im.type)) {
        rc = vp_images_range(&im, run, range, err);
        known = !rc && !run->common.plan; /* --plan does not read */
        vp_report_plan(run, "passes", "2, the first for the range");
        if (known)
            vp_note(run, "bins over %.9g to %.9g", vp_scale_value(im.scale, range[0]),
                    vp_scale_value(im.scale, range[1]));
    }
    rc = rc || vp_stat_chain(&im.chain, &p->stat, &f, &im, known ? range : NULL, &result, err);
    vp_footprint_free(&f);
    return vp_images_end(&im, run, rc, &result, err);
}

const struct vp_tool vp_program = {
    .name = "img-local",
    .operands = "[INPUT]...",
    .summary = "local statistics: median, percentile, mean, min, max, std, var, entropy",
    .description =
        "Replaces each voxel by a statistic of the voxels around it: median, percentile, mean, minimum, maximum, "
        "standard deviation, variance or entropy. The neighbourhood is a box, an ellipsoid, or any set of voxels "
        "(--footprint), of any size. Pages along z are a volume; with --2d each page is an image of its own. Samples "
        "are u8, u16, i16 or f32; i8 is read as i16.\n\n"
        "At the edge of the image only voxels that exist are used. The bits of the result do not depend on threads, "
        "memory or chunks.\n\n"
        "Other programs for similar questions:\n\n"
        "- img-sat --boxes measures sums, means and deviations of given boxes, in one pass, without writing an "
        "image.\n"
        "- img-threshold --local marks voxels brighter than their neighbourhood, without rounding a mean in between.",
    .options = options,
    .params_size = sizeof(struct params),
    .examples = examples,
    .sections =
        "NOTES\n"
        "With --footprint, a sample of FILE at offset b selects the voxel at x + b, as in the filters of "
        "scipy.ndimage. If no voxel of the footprint lies in the image, the result is NaN (0 for integers); the "
        "minimum is then the largest value of the type, the maximum the smallest.\n\n"
        "A NaN in the neighbourhood makes mean, std and var NaN; an infinite sample makes them NaN or infinite. min, "
        "max and entropy ignore NaN. For median and percentile a NaN is larger than every number.",
    .flags = VP_TOOL_CUDA,
    .see_also = "img-morph(1), img-gauss(1), img-nlmeans(1), img-sat(1), img-threshold(1), voxpipe-stack(5)",
    .run = img_local,
};
