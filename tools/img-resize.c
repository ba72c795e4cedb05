/* SPDX-License-Identifier: BSD-3-Clause */
/* img-resize: images and volumes of another size; metadata and scan geometry follow the voxels. */
#include "app/image_run.h"
#include "app/tool.h"
#include "base/size.h"
#include "local/resize.h"
#include "pages/reframe.h"
#include "stack/writer.h"

#include <math.h>
#include <string.h>

enum { AUTO, AREA };
enum { SAME, F32 };

struct params {
    struct vp_reals bin, scale, voxel;
    struct vp_size size;
    int method, type;
    bool pyramid;
    struct vp_image_params image;
};

static const struct vp_opt options[] = {
    VP_REALS(struct params, bin, "bin", 0, .metavar = "N|NX,NY,NZ", .min = 1, .max = 1e6, .group = "Size",
             .help = "one voxel of the result is the mean of N voxels along each axis",
             .more = "Integers are added up exactly. Voxels at the end that do not fill a bin are left out. For sums "
                     "multiply: img-math 'a*4'."),
    VP_REALS(struct params, scale, "scale", 0, .metavar = "S|SX,SY,SZ", .min = 1e-6, .max = 1e6,
             .help = "S times as many voxels, rounded: 0.5 halves an image, 2 doubles it"),
    VP_SIZE(struct params, size, "size", 0, .metavar = "WxH[xD]",
            .help = "number of columns, rows and planes of the result",
            .more = "Without a depth the planes stay as they are; so does an axis of single pages."),
    VP_REALS(struct params, voxel, "voxel", 0, .metavar = "V|VX,VY,VZ", .min = 0, .max = INFINITY,
             .help = "size of the result's voxels, in the unit of the metadata's `voxel`",
             .more = "One number for all axes makes voxels cubes. The result has as many as fit best; they are in the "
                     "middle of the image. 0 leaves an axis alone."),
    VP_CHOICE(struct params, method, "method", 0, "auto|area|linear|cubic|nearest", .metavar = "METHOD", .def = "auto",
              .group = "Filter", .help = "area, linear, cubic or nearest",
              .more = "auto is area for axes that get shorter, and cubic for those that get longer. nearest makes no "
                      "new values: take it for labels and masks."),
    VP_CHOICE(struct params, type, "type", 't', "same|f32", .metavar = "TYPE", .def = "same",
              .help = "sample type of the output: same as the input's, or f32",
              .more = "Integers are rounded to the nearest (halves to even) and clamped to the range of the type."),
    VP_FLAG(struct params, pyramid, "pyramid", 0, .group = "Output",
            .help = "each page in smaller sizes, too, as OME-TIFF for viewers",
            .more = "Tiles of 512 x 512, compressed (--compress says how; deflate if not given); each size is the mean of 2 "
                    "x 2 of the one before, as --2d --bin 2, 4, 8 make them of the page, until one fits a tile. QuPath, "
                    "Bio-Formats and tifffile read them as levels of one image. Needs --output; name it .ome.tif. The "
                    "file has sizes, axes (z, channel, time) and the voxel size, but no other metadata: no history, no "
                    "geometry. Without a size the image itself stays as it is."),
    VP_OPTIONS(struct params, image, vp_image_without_lengths),
    VP_OPT_END,
};

static const struct vp_example examples[] = {
    {"Bin a volume by 2 along every axis.",
     "ct-phantom --volume 64x64x64 --voxel 0.5 -o vol.tif\nimg-resize --bin 2 vol.tif -o small.tif"},
    {"Bin a scan before reconstruction: the geometry goes along.",
     "ct-geom --sod 500 --sdd 1000 --detector 128x96 --pitch 1 --views 90 | ct-phantom -g - -o scan.tif\n"
     "img-resize --bin 2 scan.tif | ct-fdk -o quick.tif"},
    {"Make voxels cubes of 0.4 mm.",
     "img-convert --set voxel=0.5,0.5,1mm vol.tif | img-resize --voxel 0.4 -o cubes.tif"},
    {"A pyramid for QuPath and other viewers.", "img-resize --pyramid vol.tif -o vol.ome.tif"},
    {"A mask in the size of another volume.",
     "img-threshold --otsu small.tif | img-resize --size 64x64x64 --method nearest -o mask.tif"},
    {0},
};

struct job {
    struct vp_run *run;
    struct vp_reframe frame;
};

static int header(void *ctx, const struct vp_stack *in, struct vp_stack *out, struct vp_err *err)
{
    const struct job *job = ctx;
    char note[160];
    const int rc = vp_reframe_resized(&job->frame, in, out, note, sizeof note, err);
    if (!rc && note[0])
        vp_warn(job->run, "%s", note);
    return rc;
}

/* Returns the method along an axis that gets `m` voxels out of n. */
static enum vp_resize_method method_of(const struct params *p, int64_t n, double m)
{
    return p->method != AUTO ? (enum vp_resize_method)(p->method - AREA)
           : m < (double)n   ? VP_RESIZE_AREA : VP_RESIZE_CUBIC;
}

/* Reads one number or three; single pages take 1, which changes nothing, along z. */
static int factors(const struct vp_images *im, const char *option, const struct vp_reals *given, double out[3],
                   struct vp_err *err)
{
    struct vp_reals v = *given;
    if (im->flat && v.n == 3 && v.v[2] == 1)
        v.n = 2;
    if (vp_image_lengths(im, option, &v, out, err))
        return -1;
    out[2] = im->flat ? 1 : out[2];
    return 0;
}

static int bins(struct vp_resize_params *r, const struct params *p, const struct vp_images *im, struct vp_err *err)
{
    double bin[3];
    if (p->method != AUTO)
        return vp_fail(err, VP_EUSAGE, "--bin and --method cannot be combined");
    if (factors(im, "bin", &p->bin, bin, err))
        return -1;
    for (int a = 0; a < 3; a++) {
        const double n = bin[a];
        if (n != floor(n))
            return vp_fail_hint(err, VP_EUSAGE, "--scale takes fractions", "--bin: expected whole numbers, got %g", n);
        vp_resize_bins(&r->axis[a], im->size[a], (int64_t)n);
        if (!r->axis[a].m)
            return vp_fail(err, VP_ERUN, "--bin: expected at least %g voxels along %c, got %lld", n, 'x' + a,
                           (long long)im->size[a]);
    }
    return 0;
}

static int scales(struct vp_resize_params *r, const struct params *p, const struct vp_images *im, struct vp_err *err)
{
    double scale[3];
    if (factors(im, "scale", &p->scale, scale, err))
        return -1;
    for (int a = 0; a < 3; a++) {
        const double s = scale[a], m = s * (double)im->size[a];
        if (s == 1)
            vp_resize_bins(&r->axis[a], im->size[a], 1);
        else if (m > 1e15)
            return vp_fail(err, VP_ERESOURCE, "--scale: a result of %g voxels along %c", m, 'x' + a);
        else
            vp_resize_to(&r->axis[a], im->size[a], vp_max64(1, llrint(m)), method_of(p, im->size[a], m));
    }
    return 0;
}

static int sizes(struct vp_resize_params *r, const struct params *p, const struct vp_images *im, struct vp_err *err)
{
    if (p->size.n == 1)
        return vp_fail(err, VP_EUSAGE, "--size: expected WxH or WxHxD, got one number");
    if (p->size.n == 3 && im->flat && p->size.v[2] != 1)
        return vp_fail(err, VP_EUSAGE, "--size: the pages of this stack are single images: expected WxH");
    for (int a = 0; a < 3; a++) {
        const int64_t n = im->size[a], m = a < p->size.n ? p->size.v[a] : n;
        if (m == n || (a == 2 && im->flat))
            vp_resize_bins(&r->axis[a], n, 1);
        else
            vp_resize_to(&r->axis[a], n, m, method_of(p, n, (double)m));
    }
    return 0;
}

static int voxels(struct vp_resize_params *r, const struct params *p, const struct vp_images *im, struct vp_err *err)
{
    double voxel[3];
    if (!im->has_voxel)
        return vp_fail_hint(err, VP_ERUN, "set it first: img-convert --set voxel=0.5,0.5,2mm",
                            "--voxel: the size of a voxel is not in the metadata of the input");
    if (vp_image_lengths(im, "voxel", &p->voxel, voxel, err))
        return -1;
    for (int a = 0; a < 3; a++) {
        const double ratio = voxel[a] > 0 ? voxel[a] / im->voxel[a] : 1, m = (double)im->size[a] / ratio;
        if (ratio == 1)
            vp_resize_bins(&r->axis[a], im->size[a], 1);
        else if (m > 1e15)
            return vp_fail(err, VP_ERESOURCE, "--voxel: a result of %g voxels along %c", m, 'x' + a);
        else
            vp_resize_by(&r->axis[a], im->size[a], ratio, method_of(p, im->size[a], m));
    }
    return 0;
}

static int same(struct vp_resize_params *r, const struct vp_images *im)
{
    for (int a = 0; a < 3; a++)
        vp_resize_bins(&r->axis[a], im->size[a], 1);
    return 0;
}

/* Makes the output a pyramid. */
static int pyramid(struct vp_run *run, struct vp_err *err)
{
    const char *const name = run->common.output;
    if (run->common.raw_out)
        return vp_fail(err, VP_EUSAGE, "--pyramid and --raw-out cannot be combined");
    if ((!name && !run->common.plan) || (name && !strcmp(name, "-")))
        return vp_fail_hint(err, VP_EUSAGE, "use -o NAME.ome.tif", "--pyramid: standard output cannot be one");
    run->pyramid = true;
    if (!run->common.compress)
        run->common.compress = VP_COMPRESS_DEFLATE;
    return 0;
}

/* True if the number of planes must be known before the first is made. */
static bool needs_depth(const struct params *p, const struct vp_images *im)
{
    const struct vp_reals *given = p->scale.n ? &p->scale : &p->voxel;
    if (im->flat || p->bin.n || p->size.n == 2)
        return false;
    return p->size.n || (given->n == 3 ? given->v[2] != (p->scale.n ? 1 : 0) : given->n == 1);
}

static int img_resize(struct vp_run *run, void *params, struct vp_err *err)
{
    const struct params *p = params;
    const int given = !!p->bin.n + !!p->scale.n + !!p->size.n + !!p->voxel.n;
    struct job job = {.run = run};
    struct vp_images im = {0};
    struct vp_chain chain = {0};
    struct vp_resize_params r;
    int rc = -1;

    if (p->pyramid && pyramid(run, err))
        return -1;
    if (given != 1 && !(p->pyramid && !given))
        return vp_fail_hint(err, VP_EUSAGE, "--bin 2 halves each axis, --scale 2 doubles it",
                            "expected one of --bin, --scale, --size and --voxel, got %d", given);
    if (vp_images_open(&im, run, &p->image, 1, (1u << VP_N_TYPES) - 1, err)
        || ((im.nz >= VP_UNKNOWN || im.outer >= VP_UNKNOWN) && (p->pyramid || needs_depth(p, &im))
            && vp_images_keep(&im, run, false, err))
        || (!given       ? same(&r, &im)
            : p->bin.n   ? bins(&r, p, &im, err)
            : p->scale.n ? scales(&r, p, &im, err)
            : p->size.n  ? sizes(&r, p, &im, err)
                         : voxels(&r, p, &im, err))
        || vp_resize_chain(&chain, &r, im.type, p->type == F32 && im.type != VP_F64 ? VP_F32 : im.type, err))
        goto out;
    for (int a = 0; a < 3; a++) {
        const struct vp_resize_axis *x = &r.axis[a];
        job.frame.first[a] = vp_resize_centre(x, 0);
        job.frame.step[a] = x->ratio;
    }
    im.header = header;
    im.ctx = &job;
    rc = vp_images_run(&im, run, &chain, NULL, err);
out:
    vp_chain_free(&chain);
    vp_images_close(&im);
    return rc;
}

const struct vp_tool vp_program = {
    .name = "img-resize",
    .operands = "[INPUT]...",
    .summary = "bin, shrink or enlarge images and volumes",
    .description =
        "Writes images of another size: pages along z as a volume, or with --2d each page by itself; channels and "
        "times are never mixed. Samples are of any type (64-bit integers with --method nearest only).\n\n"
        "Samples are squares side by side, and an image of another size covers the same place. The metadata follow: "
        "`voxel`, the `origin` (the centre of the first voxel) and, of projections, the detector's size, pitch and "
        "offset and the matrices of the scan geometry, so that a binned scan reconstructs in the same place.\n\n"
        "Each axis is resampled by itself, in f64, and the result is rounded once. Shrinking never skips a sample: "
        "linear and cubic are then as wide as a voxel of the result, so no fine pattern turns into a coarse one. At "
        "the edges the samples that exist count, with weights that sum to one: a constant image stays exactly that "
        "constant. The bits of the result do not depend on threads, memory or chunks.",
    .options = options,
    .params_size = sizeof(struct params),
    .examples = examples,
    .sections =
        "METHODS\n"
        "area: the mean of what the voxel covers, samples at its ends in proportion.\n\n"
        "linear: straight lines between the centres of neighbours. It equals scipy.ndimage.zoom with order=1, "
        "grid_mode=True and mode=nearest where an axis gets longer, and Pillow's BILINEAR on floats in general.\n\n"
        "cubic: the cubics of Keys (1981) with a = -1/2, also named Catmull-Rom. It equals Pillow's BICUBIC on floats. "
        "It may overshoot next to an edge of the object.\n\n"
        "nearest: the sample under the centre of the voxel, untouched; of two that are as near, the one with the "
        "larger index.\n\n"
        "Voxels with a NaN or an infinite sample among those that have a weight are NaN or infinite.\n\n"
        "PIPES\n"
        "Pages come and go one after the other where planes stay or are binned. Otherwise the number of planes must be "
        "known, so a pipe without it is copied first (to memory, or to $TMPDIR); --pyramid always has to know it.",
    .see_also = "img-reslice(1), img-cat(1), img-convert(1), voxpipe-stack(5)",
    .flags = VP_TOOL_NO_DEVICE,
    .run = img_resize,
};
