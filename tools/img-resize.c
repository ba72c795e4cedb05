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
             .help = "average N voxels along each axis into one",
             .more = "Integers are added up exactly. Voxels at the end that do not fill a bin are left out. To get "
                     "sums, multiply the result: img-math 'a*4'."),
    VP_REALS(struct params, scale, "scale", 0, .metavar = "S|SX,SY,SZ", .min = 1e-6, .max = 1e6,
             .help = "factor of the number of voxels: 0.5 halves an image, 2 doubles it",
             .more = "The number is rounded to the nearest integer."),
    VP_SIZE(struct params, size, "size", 0, .metavar = "WxH[xD]",
            .help = "number of columns, rows and planes of the result",
            .more = "Without D, the number of planes does not change; nor does it for single pages."),
    VP_REALS(struct params, voxel, "voxel", 0, .metavar = "V|VX,VY,VZ", .min = 0, .max = INFINITY,
             .help = "voxel size of the result, in the unit of `voxel` in the metadata",
             .more = "One number for all axes gives cubic voxels. The number of voxels is the one that fits best, "
                     "and the result is centred in the image. 0 leaves an axis unchanged."),
    VP_CHOICE(struct params, method, "method", 0, "auto|area|linear|cubic|nearest", .metavar = "METHOD", .def = "auto",
              .group = "Filter", .help = "area, linear, cubic or nearest",
              .more = "auto is area for axes that get shorter, and cubic for axes that get longer. Use nearest for "
                      "labels and masks, because it makes no new values. See METHODS."),
    VP_CHOICE(struct params, type, "type", 't', "same|f32", .metavar = "TYPE", .def = "same",
              .help = "sample type of the output: same as the input's, or f32",
              .more = "Values are rounded to the nearest integer (halves to even) and clamped to the range of an "
                      "integer type."),
    VP_FLAG(struct params, pyramid, "pyramid", 0, .group = "Output",
            .help = "write each page in several sizes, as OME-TIFF for viewers",
            .more = "Each size is half of the one before: level k is the mean of bins of 2^k x 2^k samples, as --2d --bin "
                    "2^k makes it of the page. The last one fits a tile of 512 x 512. QuPath, Bio-Formats and tifffile "
                    "read the sizes as levels of one image. The tiles are compressed, with deflate unless --compress "
                    "says otherwise. Needs --output; name the file .ome.tif. The file records sizes, axes (z, channel, "
                    "time) and the voxel size, but no other metadata: no history and no geometry. Without --bin, "
                    "--scale, --size and --voxel the image itself does not change."),
    VP_OPTIONS(struct params, image, vp_image_without_lengths),
    VP_OPT_END,
};

static const struct vp_example examples[] = {
    {"Bin a volume by 2 along every axis.",
     "ct-phantom --volume 64x64x64 --voxel 0.5 -o vol.tif\nimg-resize --bin 2 vol.tif -o small.tif"},
    {"Bin a scan before its reconstruction; the geometry is adapted.",
     "ct-geom --sod 500 --sdd 1000 --detector 128x96 --pitch 1 --views 90 | ct-phantom -g - -o scan.tif\n"
     "img-resize --bin 2 scan.tif | ct-fdk -o quick.tif"},
    {"Convert to cubic voxels of 0.4 mm.",
     "img-convert --set voxel=0.5,0.5,1mm vol.tif | img-resize --voxel 0.4 -o cubes.tif"},
    {"Write a pyramid for QuPath and other viewers.", "img-resize --pyramid vol.tif -o vol.ome.tif"},
    {"Resize a mask to the size of another volume.",
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
        "Reads images or volumes and writes them with another number of voxels: binned, reduced or enlarged. Pages "
        "along z are a volume; with --2d each page is an image of its own. Samples may have any type; 64-bit "
        "integers need --method nearest.\n\n"
        "Samples are squares side by side, and the result covers the same area as the input. The metadata are "
        "adapted: `voxel`, `origin` (the centre of the first voxel) and, for projections, the size, pitch and offset "
        "of the detector and the matrices of the geometry. A binned scan therefore reconstructs in the same place.\n\n"
        "Each axis is resampled in turn, in f64, and the result is rounded once. All samples contribute when an "
        "image is reduced: linear and cubic are then as wide as a voxel of the result, which avoids aliasing. At the "
        "edges weights are scaled to sum to one over the samples that exist, so a constant image stays constant. The "
        "bits of the result do not depend on threads, memory or chunks.",
    .options = options,
    .params_size = sizeof(struct params),
    .examples = examples,
    .sections =
        "METHODS\n"
        "area: the mean over the area of the voxel; samples at its ends count by their covered part.\n\n"
        "linear: straight lines between the centres of neighbours. If an axis gets longer, it equals "
        "scipy.ndimage.zoom with order=1, grid_mode=True and mode=nearest. For floats it always equals BILINEAR of "
        "Pillow.\n\n"
        "cubic: the cubics of Keys (1981) with a = -1/2, also named Catmull-Rom. For floats it equals BICUBIC of "
        "Pillow. It may overshoot next to an edge of the object.\n\n"
        "nearest: the sample under the centre of the voxel; if two samples are equally near, the one with the larger "
        "index.\n\n"
        "NOTES\n"
        "If a NaN or infinite sample contributes to a voxel, the voxel is NaN or infinite.\n\n"
        "Pages pass through one after the other if the planes stay or are binned. For other changes along z the "
        "number of planes must be known, so a pipe that does not record it is first copied to memory or to $TMPDIR. "
        "--pyramid always needs the number.",
    .see_also = "img-reslice(1), img-cat(1), img-convert(1), voxpipe-stack(5)",
    .flags = VP_TOOL_NO_DEVICE,
    .run = img_resize,
};
