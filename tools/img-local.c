/* SPDX-License-Identifier: BSD-3-Clause */
/* img-local: a statistic of the neighbourhood of every voxel: mean, median, minimum, maximum, standard deviation,
 * variance, entropy, percentile; box or ellipsoid, any size. Contract: at the edge of the image only existing voxels
 * count; results do not depend on the chunks. */
#include "app/tool.h"
#include "local/entropy.h"
#include "stack/stack.h"
#include "app/radius_map.h"
#include "app/stat.h"
#include "app/image_run.h"
#include "app/missing.h"

struct params {
    struct vp_stat_params stat;
    struct vp_radius_map_given map;
    struct vp_missing_given missing;
    struct vp_image_params image;
};

static const struct vp_opt options[] = {
    VP_OPTIONS(struct params, stat, vp_stat_options),
    VP_OPTIONS(struct params, map, vp_radius_map_options),
    VP_OPTIONS(struct params, missing, vp_missing_options),
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
    {"Replace dead pixels, which are 0, by the median of their neighbours, and change nothing else.",
     "img-local --2d --missing 0 vol.tif -o filled.tif\nimg-math 'if(a == 0, b, a)' vol.tif filled.tif -o repaired.tif"},
    {"Depth of field: blur a page more, the farther from its middle; and a threshold whose window has another size for "
     "every pixel.",
     "img-cat --pages 32 vol.tif -o page.tif\nimg-math 'min(abs(x - 32) / 4, 7)' --type u8 page.tif -o radii.tif\n"
     "img-local --stat mean --radius-map radii.tif page.tif -o blurred.tif\n"
     "img-math 'a > b' --type u8 page.tif blurred.tif -o mask.tif"},
    {"The entropy around each voxel, in bits.",
     "img-local --stat entropy --radius 2 --range 0,0.03 vol.tif -o entropy.tif"},
    {0},
};

/* Does the work of --radius-map. */
static int with_map(struct vp_run *run, const struct params *p, const struct vp_image_params *image, struct vp_err *err)
{
    struct vp_images im = {0};
    struct vp_result result = {0};
    const int rc = vp_stat_check(&p->stat, err) || vp_images_open(&im, run, image, 1, VP_STAT_TYPES, err)
                   || vp_radius_map_chain(&im, run, &p->map, &p->stat, &result, err);

    return vp_images_end(&im, run, rc, &result, err);
}

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
    if (vp_radius_map_check(&p->map, run, &p->stat, err))
        return -1;
    if (p->map.file)
        return with_map(run, p, &image, err);
    int rc = vp_stat_check(&p->stat, err) || vp_images_open(&im, run, &image, 1, VP_STAT_TYPES, err)
             || vp_missing_open(&im, run, &p->missing, err)
             || vp_footprint_open(&f, run, &p->stat.window, &im, err);
    if (!rc && vp_stat_is_f64(&p->stat))
        vp_images_as_f64(&im, true);
    rc = rc || vp_missing_fill(&im, run, &p->missing, vp_stat_type(&p->stat, im.type), err);
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
        "are u8, u16, i16 or f32, and on the CPU u32, i32 or f64; i8 is read as i16.\n\n"
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
        "max and entropy ignore NaN. For median and percentile a NaN is larger than every number.\n\n"
        "RADIUS MAPS\n"
        "With --radius-map FILE each voxel has a box of its own size: the voxels that are at most as far away along "
        "x, y and, in volumes, z as the sample of FILE says. The radii may come from a depth map, from a formula "
        "(img-math), or from the result of another filter.\n\n"
        "A result is computed from four entries of summed area tables (in volumes eight), so its time does not "
        "depend on its radius. The tables cover the chunk and the reach of its boxes, so memory grows with the "
        "largest radius, not with the image.\n\n"
        "Sums are exact, so results do not depend on chunks or on other boxes:\n\n"
        "- Integers are added as they are. The type auto of a sum is that of img-sat(1).\n"
        "- Floats are added in steps of 2^-94 of the largest magnitude in the stack. This keeps every digit of f32 "
        "down to 2^-70 of that magnitude, and of f64 down to 2^-41. Floats are read twice for this; input from a "
        "pipe is stored.\n"
        "- var and std have steps of 2^-47 of half of the range of the stack, and are within 1e-14 of that range.\n\n"
        "A NaN makes every result NaN whose box contains it. An infinite sample makes sum and mean infinite (NaN "
        "together with one of the other sign), var and std NaN.",
    .flags = VP_TOOL_CUDA,
    .see_also = "img-morph(1), img-gauss(1), img-nlmeans(1), img-sat(1), img-threshold(1), voxpipe-stack(5)",
    .run = img_local,
};
