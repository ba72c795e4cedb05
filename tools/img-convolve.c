/* SPDX-License-Identifier: BSD-3-Clause */
/* img-convolve: convolution with a kernel, or with a grid of kernels that change over the image. */
#include "base/fft64.h"
#include "local/convolve.h"
#include "app/image_run.h"
#include "app/kernels.h"
#include "app/missing.h"
#include "app/tool.h"

#include <string.h>

struct params {
    struct vp_kernel_params kernel;
    bool correlate, normalize;
    int edge, crop, type;
    struct vp_missing_given missing;
    struct vp_image_params image;
};

static const struct vp_opt options[] = {
    VP_OPTIONS(struct params, kernel, vp_kernel_options),
    VP_FLAG(struct params, normalize, "normalize", 0, .help = "divide each kernel by the sum of its samples"),
    VP_FLAG(struct params, correlate, "correlate", 0, .group = "Filter",
            .help = "correlation: the kernel is not turned around"),
    VP_CHOICE(struct params, edge, "edge", 0, "auto|" VP_EDGE_CHOICES, .metavar = "RULE", .def = "auto",
              .help = "beyond the edge: renormalize|nearest|mirror|zero|wrap",
              .more = "renormalize uses the voxels that exist and scales the sum by what is missing of the kernel's: a "
                      "constant stays one. It needs kernels that add up to more than 0. nearest, mirror "
                      "(c b a | a b c), zero and wrap make voxels up, with weights of the source by the places where "
                      "these would be. auto is renormalize, and zero where the result is full."),
    VP_CHOICE(struct params, crop, "crop", 0, "same|full|valid", .metavar = "SIZE", .def = "same",
              .help = "size of the result: same as the input's, full or valid",
              .more = "full is all that a sample of the kernel reaches: N + K - 1 voxels along each axis, for N of the "
                      "image and K of the kernel. Any rule for edges but renormalize goes with it. valid is where the "
                      "kernel lies in the image: N - K + 1 voxels, for which no rule for edges counts. Along z both "
                      "change volumes whose kernel has several planes. Of a grid, weights beyond the image are those "
                      "of the outermost kernels; places are those in the input. The metadata's `origin` moves with the "
                      "first voxel; the geometry of projections, which have another size now, is left out.\n\n"
                      "full and valid are those of scipy.signal.fftconvolve and, with --correlate, correlate (and with "
                      "--edge mirror or wrap full is convolve2d's with boundary symm or wrap). same is that of "
                      "scipy.ndimage.convolve and correlate; scipy.signal's begins a voxel before it where a kernel of "
                      "even size is convolved with."),
    VP_CHOICE(struct params, type, "type", 't', "auto|f32|same", .metavar = "TYPE", .def = "auto",
              .help = "sample type of the output: f32, or same as the input's",
              .more = "auto is f64 for f64, and else f32. To integers results are rounded to the nearest (halves to "
                      "even) and clamped to the range of the type."),
    VP_OPTIONS(struct params, missing, vp_missing_options),
    VP_OPTIONS(struct params, image, vp_image_without_lengths),
    VP_OPT_END,
};

static const struct vp_example examples[] = {
    {"Blur an image with a kernel from a file.",
     "ct-phantom --volume 96x96x1 -o disc.tif\n"
     "img-cat --region 0:21,0:21 disc.tif | img-math 'exp(-(x-10)^2/8 - (y-10)^2/30)' -o kernel.tif\n"
     "img-convolve -k kernel.tif --normalize disc.tif -o blurred.tif"},
    {"A kernel that changes from left to right: two pages, weighted bilinearly in between.",
     "img-cat --region 0:21,0:21 disc.tif | img-math 'exp(-(x-10)^2/30 - (y-10)^2/8)' -o other.tif\n"
     "img-cat kernel.tif other.tif | img-convolve -k - --grid 2x1 --normalize disc.tif -o varied.tif"},
    {"All that the blur spreads, and only what no edge touches.",
     "img-convolve -k kernel.tif --crop full disc.tif -o full.tif\n"
     "img-convolve -k kernel.tif --crop valid disc.tif -o valid.tif"},
    {"Look for what resembles a pattern: correlation.",
     "img-convolve -k kernel.tif --correlate --edge zero disc.tif -o score.tif"},
    {0},
};

static enum vp_edge edge_of(const struct params *p)
{
    return p->edge ? (enum vp_edge)(p->edge - 1) : p->crop == VP_CROP_FULL ? VP_EDGE_ZERO : VP_EDGE_RENORMALIZE;
}

static int img_convolve(struct vp_run *run, void *params, struct vp_err *err)
{
    const struct params *p = params;
    struct vp_image_params image = p->image;
    struct vp_images im = {0};
    struct vp_convolve_given g = {0};
    struct vp_op op;

    image.values = true;
    int rc = vp_images_open(&im, run, &image, 1, VP_CONVOLVE_TYPES | 1u << VP_F64, err)
             || vp_missing_open(&im, run, &p->missing, VP_CONVOLVE_TYPES | 1u << VP_F64, err)
             || vp_missing_fill(&im, run, &p->missing, vp_kernels_type(p->type, im.type), err)
             || vp_kernels_read(&g, run, &p->kernel, &im, err);
    g.fft = &vp_fftw;
    g.correlate = p->correlate;
    g.normalize = p->normalize;
    g.edge = edge_of(p);
    g.crop = (enum vp_crop)p->crop;
    rc = rc || vp_convolve_local(&op, &g, im.size, im.type, vp_kernels_type(p->type, im.type), err)
         || vp_chain_add(&im.chain, &op, err);
    vp_kernels_free(&g);
    if (!rc)
        memcpy(im.corner, ((const struct vp_convolve_params *)op.params)->first, sizeof im.corner);
    rc = rc || vp_missing_chain(&im.chain, &im.missing, err);
    return vp_images_end(&im, run, rc, NULL, err);
}

const struct vp_tool vp_program = {
    .name = "img-convolve",
    .operands = "[INPUT]...",
    .summary = "convolve with a kernel, or with one that changes over the image",
    .description =
        "Convolves images and volumes with any kernel: small ones by the sum of products, those that are a product of "
        "one along each axis (which is found out) axis by axis, all others by fast Fourier transforms of tiles. With "
        "--grid or --positions the kernel changes over the image, as in instruments that blur every corner in a way of "
        "its own. Pages along z are a volume; channels and times are never mixed. Samples are u8, u16, i8, i16, "
        "f32 or f64.\n\n"
        "Bits of the results do not depend on threads, memory or chunks: tiles lie where the image says, and the "
        "choice of a method depends on the sizes of kernel and image alone.",
    .options = options,
    .params_size = sizeof(struct params),
    .examples = examples,
    .sections =
        "ACCURACY\n"
        "A constant is taken off the samples of each tile, and added to the results times the sum of the weights. So "
        "rounding errors are those of the contrast, whatever the brightness: a result is within 5e-7 of the contrast "
        "of the image (largest sample less smallest) times the sum of the kernel's magnitudes, and the last digit of "
        "the result, of what the sum in f64 gives. In particular:\n\n"
        "A constant image stays that constant to the last digit, up to the edges, with --normalize and any --edge but "
        "zero; with --weights source the weights of a voxel need not add up to 1.\n\n"
        "Kernels that add up to 0 (edges, derivatives, differences of Gaussians) are as exact on an offset as without. "
        "A kernel's sum is that of its samples as they are stored: if that is not 0, an offset shows.\n\n"
        "Where --edge zero puts zeros next to an offset, these are contrast. Where an edge is renormalised, errors "
        "grow with the factor.\n\n"
        "f64 samples are worked on in f64 (on the CPU, by transforms of FFTW; a program that was built without it "
        "refuses them): with 2e-14 instead of 5e-7, and 1e-15 of the offset in grids and where zeros are beyond an "
        "edge.\n\n"
        "f32 and f64 samples that stand out of a tile of transforms by more than 65536 times the contrast of most of "
        "its rows or columns, or that are larger than 1e30 (f64: 1e290), change no voxel that they do not reach: such "
        "a tile is summed up directly, which takes longer. A NaN or an infinite sample makes NaN of every voxel that "
        "the kernel spreads it to, and changes no other. With --missing nan a NaN is left out.",
    .see_also = "img-gauss(1), img-log(1), img-local(1), voxpipe-stack(5)",
    .flags = VP_TOOL_CUDA,
    .run = img_convolve,
};
