/* SPDX-License-Identifier: BSD-3-Clause */
/* img-morph: erosion, dilation and operations composed of them, with boxes and balls. */
#include "local/morph.h"
#include "app/footprint.h"
#include "app/image_run.h"
#include "app/missing.h"
#include "app/tool.h"

struct params {
    int op;
    struct vp_footprint_params window;
    int64_t iterations;
    struct vp_missing_given missing;
    struct vp_image_params image;
};

static const struct vp_opt options[] = {
    VP_CHOICE(struct params, op, "op", 0, VP_MORPH_CHOICES, .metavar = "OPERATION", .group = "Operation",
              .help = "erode|dilate|open|close|tophat|bothat|gradient",
              .more = "- erode: the smallest value of the neighbourhood\n"
                      "- dilate: the largest value\n"
                      "- open: erode, then dilate; it removes bright details that do not contain the neighbourhood\n"
                      "- close: dilate, then erode; it removes dark details that do not contain the neighbourhood\n"
                      "- tophat: the image minus its opening; it shows the bright details\n"
                      "- bothat: the closing minus the image; it shows the dark details\n"
                      "- gradient: the dilation minus the erosion; it shows outlines"),
    VP_INT(struct params, iterations, "iterations", 'n', .metavar = "N", .def = "1", .min = 1, .max = 100,
           .help = "erode and dilate N times",
           .more = "open and close erode N times and dilate N times. A box applied N times is one box with N times "
                   "the radius."),
    VP_OPTIONS(struct params, window, vp_footprint_options),
    VP_OPTIONS(struct params, missing, vp_missing_options),
    VP_OPTIONS(struct params, image, vp_image_options),
    VP_OPT_END,
};

static const struct vp_example examples[] = {
    {"Close gaps of up to four voxels in a volume.",
     "ct-phantom --volume 64x64x64 -o vol.tif\nimg-morph --op close --radius 2 vol.tif -o closed.tif"},
    {"Remove bright specks smaller than a ball of radius 3.",
     "img-morph --op open --shape ball --radius 3 vol.tif > clean.tif"},
    {"Extract structures up to 20 pixels wide from an uneven background, slice by slice.",
     "img-morph --op tophat --2d --radius 10 vol.tif -o flat.tif"},
    {"An opening by a line that rises to the right, drawn as a stack of 0 and 1.",
     "img-cat --region 0:7,0:7 --pages 0 vol.tif | img-math 'x + y == 6' --type u8 -o line.tif\n"
     "img-morph --op open --footprint line.tif vol.tif -o lines.tif"},
    {"Outlines, with the six neighbours of each voxel.", "img-morph --op gradient --shape ball vol.tif -o edges.tif"},
    {0},
};

/* Makes the images' chain: with missing samples that of floats, between the stages that convert. */
static int chain(struct vp_images *im, const struct vp_run *run, const struct params *p, const struct vp_footprint *f,
                 struct vp_err *err)
{
    const enum vp_morph what = (enum vp_morph)p->op;
    const bool differs = what == VP_TOPHAT || what == VP_BOTHAT || what == VP_GRADIENT;
    const enum vp_type out = differs && im->type == VP_I16 ? VP_U16 : differs && im->type == VP_I32 ? VP_U32 : im->type;

    if (!im->missing.on)
        return vp_morph_chain(&im->chain, what, p->iterations, f, im->size, im->type, err);
    if (vp_missing_fill(im, run, &p->missing, out, err)
        || vp_missing_load(&im->chain, &im->missing, im->size, im->type, err)
        || vp_morph_chain(&im->chain, what, p->iterations, f, im->size, vp_missing_type(im->type), err)
        || (!vp_type_is_float(out) && vp_missing_store(&im->chain, &im->missing, out, err)))
        return -1;
    return vp_missing_chain(&im->chain, &im->missing, err);
}

static int img_morph(struct vp_run *run, void *params, struct vp_err *err)
{
    const struct params *p = params;
    struct vp_images im = {0};
    struct vp_footprint f = {0};

    if (!vp_given(run, "op")) {
        vp_fail(err, VP_EUSAGE, "expected an operation, got none");
        return vp_hint(err, "add --op " VP_MORPH_CHOICES);
    }
    const int rc = vp_images_open(&im, run, &p->image, 1, VP_EXTREMUM_TYPES | VP_TYPES_WIDE, err)
                   || vp_missing_open(&im, run, &p->missing, err)
                   || vp_footprint_open(&f, run, &p->window, &im, err)
                   || chain(&im, run, p, &f, err);
    vp_footprint_free(&f);
    return vp_images_end(&im, run, rc, p->op >= VP_TOPHAT ? &(struct vp_result){VP_SPREADS, NULL} : NULL, err);
}

const struct vp_tool vp_program = {
    .name = "img-morph",
    .operands = "[INPUT]...",
    .summary = "erode, dilate, open, close, top-hat, gradient",
    .description =
        "Applies gray-value morphology with a flat neighbourhood: erosion, dilation, opening, closing, top-hat, "
        "gradient. On a mask of 0 and 255 these are the binary operations. Pages along z are a volume; with --2d "
        "each page is an image of its own. Samples are u8, u16, i8, i16 or f32, and on the CPU u32, i32 or f64.\n\n"
        "Results are exact. At the edge of the image only voxels that exist are used. With a box the time does not "
        "depend on the radius. The bits of the result do not depend on threads, memory or chunks.",
    .options = options,
    .params_size = sizeof(struct params),
    .examples = examples,
    .sections =
        "NOTES\n"
        "Let B be the offsets of a neighbourhood. An erosion is the minimum of f(x + b) over all b in B, a dilation "
        "the maximum of f(x - b). With a --footprint that is not symmetric they therefore use opposite sides, as "
        "grey_erosion and grey_dilation of scipy.ndimage do. An opening is never above the image, a closing never "
        "below it, and repeating them changes nothing.\n\n"
        "- If no sample of a footprint lies in the image, an erosion is the largest value of the type, a dilation "
        "the smallest (floats: NaN).\n"
        "- A gradient needs a footprint that contains its centre.\n"
        "- tophat, bothat and gradient of i8 and i16 are u16, those of i32 are u32, so nothing is clamped.\n"
        "- NaN is ignored in minima and maxima.",
    .see_also = "img-local(1), img-math(1), voxpipe-stack(5)",
    .flags = VP_TOOL_CUDA,
    .run = img_morph,
};
