/* SPDX-License-Identifier: BSD-3-Clause */
/* img-convolve: convolution with a kernel, or with a grid of kernels that change over the image. */
#include "base/fft64.h"
#include "local/convolve.h"
#include "app/convolve_plan.h"
#include "app/image_run.h"
#include "app/kernels.h"
#include "app/missing.h"
#include "app/tool.h"

#include <string.h>

struct params {
    struct vp_kernel_params kernel;
    bool correlate, normalize;
    int edge, crop, type;
    const char *model;
    struct vp_missing_given missing;
    struct vp_image_params image;
};

static const struct vp_opt options[] = {
    VP_OPTIONS(struct params, kernel, vp_kernel_options),
    VP_FLAG(struct params, normalize, "normalize", 0, .help = "divide each kernel by the sum of its samples"),
    VP_FLAG(struct params, correlate, "correlate", 0, .group = "Filter",
            .help = "do not mirror the kernel: correlation"),
    VP_CHOICE(struct params, edge, "edge", 0, "auto|" VP_EDGE_CHOICES, .metavar = "RULE", .def = "auto",
              .help = "rule beyond the edge: renormalize|nearest|mirror|zero|wrap",
              .more = "See voxpipe(7), Edges. renormalize uses the voxels that exist, and divides the sum by the "
                      "part of the kernel's sum that they cover, so a constant image stays constant; each kernel "
                      "must have a sum above 0. With --weights source, the added voxels of the other rules have the "
                      "weights of their positions. auto is renormalize; it is zero for --crop full, and for "
                      "--weights source of positions that form no grid."),
    VP_CHOICE(struct params, crop, "crop", 0, "same|full|valid", .metavar = "SIZE", .def = "same",
              .help = "size of the result: same as the input, full or valid",
              .more = "With N voxels of the image and K of the kernel along an axis:\n\n"
                      "- full has N + K - 1 voxels: all that the kernel reaches. renormalize is not possible.\n"
                      "- valid has N - K + 1 voxels: those at which the kernel lies inside the image. --edge has no "
                      "effect.\n\n"
                      "Along z they change only volumes whose kernel has several planes. In a grid of kernels, "
                      "positions are those of the input, and beyond it the outermost weights are used. The `origin` "
                      "in the metadata moves with the first voxel; the geometry of projections is left out, because "
                      "their size changes.\n\n"
                      "full and valid are those of scipy.signal.fftconvolve, and with --correlate of "
                      "scipy.signal.correlate; full with --edge mirror or wrap is that of convolve2d with boundary "
                      "symm or wrap. same is that of scipy.ndimage.convolve and correlate. For convolution with a "
                      "kernel of even size, same of scipy.signal begins one voxel earlier."),
    VP_CHOICE(struct params, type, "type", 't', "auto|f32|same", .metavar = "TYPE", .def = "auto",
              .help = "sample type of the output: f32, or same as the input's",
              .more = "auto is f64 for u32, i32 and f64, and f32 for other types. In an integer type, values are "
                      "rounded to the nearest integer (halves to even) and clamped to its range."),
    VP_FILE(struct params, model, "model", 0, .metavar = "FILE",
              .help = "with --plan: the speed of this machine, as make model measures it",
              .more = "Lines of `convolve_vector = NUMBER` and `convolve_scalar = NUMBER`, the times of transforms and of "
                      "plain code over those of the built-in table. See PLAN."),
    VP_OPTIONS(struct params, missing, vp_missing_options),
    VP_OPTIONS(struct params, image, vp_image_without_lengths),
    VP_OPT_END,
};

static const struct vp_example examples[] = {
    {"Blur an image with a kernel from a file.",
     "ct-phantom --volume 96x96x1 -o disc.tif\n"
     "img-cat --region 0:21,0:21 disc.tif | img-math 'exp(-(x-10)^2/8 - (y-10)^2/30)' -o kernel.tif\n"
     "img-convolve -k kernel.tif --normalize disc.tif -o blurred.tif"},
    {"A kernel that changes from left to right: two pages, interpolated in between.",
     "img-cat --region 0:21,0:21 disc.tif | img-math 'exp(-(x-10)^2/30 - (y-10)^2/8)' -o other.tif\n"
     "img-cat kernel.tif other.tif | img-convolve -k - --grid 2x1 --normalize disc.tif -o varied.tif"},
    {"The blurred image with all that spreads beyond it, and only the part that no edge affects.",
     "img-convolve -k kernel.tif --crop full disc.tif -o full.tif\n"
     "img-convolve -k kernel.tif --crop valid disc.tif -o valid.tif"},
    {"Find parts that resemble a pattern: correlation.",
     "img-convolve -k kernel.tif --correlate --edge zero disc.tif -o score.tif"},
    {0},
};

static enum vp_edge edge_of(const struct params *p, const struct vp_convolve_given *g)
{
    const bool zero = p->crop == VP_CROP_FULL || (g->between && g->weights == VP_WEIGHTS_SOURCE);

    return p->edge ? (enum vp_edge)(p->edge - 1) : zero ? VP_EDGE_ZERO : VP_EDGE_RENORMALIZE;
}

static int img_convolve(struct vp_run *run, void *params, struct vp_err *err)
{
    const struct params *p = params;
    struct vp_image_params image = p->image;
    struct vp_images im = {0};
    struct vp_convolve_given g = {0};
    struct vp_op op;

    image.values = true;
    int rc = vp_images_open(&im, run, &image, 1, VP_CONVOLVE_TYPES | VP_TYPES_WIDE, err)
             || vp_missing_open(&im, run, &p->missing, err);
    const enum vp_type same = vp_images_as_f64(&im, false);
    rc = rc || vp_missing_fill(&im, run, &p->missing, vp_kernels_type(p->type, same), err)
         || vp_kernels_read(&g, run, &p->kernel, &im, err);
    g.fft = &vp_fftw;
    g.correlate = p->correlate;
    g.normalize = p->normalize;
    g.edge = edge_of(p, &g);
    g.crop = (enum vp_crop)p->crop;
    rc = rc || vp_convolve_local(&op, &g, im.size, im.type, vp_kernels_type(p->type, same), err)
         || vp_chain_add(&im.chain, &op, err);
    rc = rc || vp_convolve_plan(run, &im, &op, p->model, err);
    const bool anywhere = g.between;
    vp_kernels_free(&g);
    if (!rc && !anywhere)
        memcpy(im.corner, ((const struct vp_convolve_params *)op.params)->first, sizeof im.corner);
    rc = rc || vp_missing_chain(&im.chain, &im.missing, err);
    return vp_images_end(&im, run, rc, NULL, err);
}

const struct vp_tool vp_program = {
    .name = "img-convolve",
    .operands = "[INPUT]...",
    .summary = "convolve with a kernel, or with one that changes over the image",
    .description =
        "Convolves images or volumes with any kernel. A kernel of one page is for images and the slices of volumes; "
        "a kernel of several pages is for volumes. With --grid or --positions the kernel changes over the image, as "
        "in instruments whose blur differs from place to place. Samples are u8, u16, "
        "i8, i16, f32 or f64, or u32 or i32, which are computed in f64.\n\n"
        "The method depends only on the sizes of kernel and image:\n\n"
        "- Small kernels: a sum of products.\n"
        "- Separable kernels, which are detected: one axis after the other.\n"
        "- All other kernels: fast Fourier transforms of tiles.\n\n"
        "The bits of the result do not depend on threads, memory or chunks.",
    .options = options,
    .params_size = sizeof(struct params),
    .examples = examples,
    .sections =
        "ACCURACY\n"
        "The error of a result is at most 5e-7 of the contrast of the image (largest minus smallest sample) times "
        "the sum of the kernel's magnitudes, plus the rounding of the result, compared with the sum in f64. It does "
        "not depend on the brightness, because a constant is subtracted from each tile and added again at the end. "
        "In particular:\n\n"
        "- A constant image stays exactly constant up to the edges, with --normalize and any --edge except zero. "
        "With --weights source the weights of a voxel need not add up to 1.\n"
        "- Kernels whose sum is 0 (edges, derivatives, differences of Gaussians) are as exact on a large offset as "
        "without it. The sum is that of the stored samples; if it is not 0, the offset remains in the result.\n"
        "- With --edge zero, the step from an offset to zero is contrast.\n"
        "- With --edge renormalize, errors grow with the factor at the edge.\n\n"
        "f64 samples are processed in f64, with 2e-14 instead of 5e-7, and an additional 1e-15 of the offset in "
        "grids and beside zeros beyond an edge. This runs on the CPU and needs FFTW for transforms; a program built "
        "without FFTW refuses f64.\n\n"
        "A NaN or infinite sample makes only those voxels NaN that the kernel spreads it to; --missing nan "
        "leaves NaN out. Very large samples (f32 "
        "and f64: more than 65536 times the contrast of most rows or columns of a tile, or above 1e30, for f64 "
        "1e290) do not change voxels that they do not reach, either: such a tile is summed directly, which takes "
        "longer.\n\n"
        "PLAN\n"
        "For kernels of images, --plan adds a model of the CPU's part, without reading and writing, for 1, 2, 4 ... "
        "threads up to -j. It has the three parts of Kepner's (J. Parallel Distrib. Comput. 63, 2003):\n\n"
        "- Computation: the tiles, the kernels that have weights in one, and the additions and multiplications of a "
        "kernel. A tile of T1 x T2 samples costs its loading, one transform there, a product and rows back for each "
        "kernel, columns back for each row of kernels, and the storing of N1 x N2 results. Of kernels at positions "
        "that form no grid each goes over the tile by itself, and its results are weighted and added.\n"
        "- Communication: copies of borders. A tile loads T1 T2 samples for N1 N2 results; the rest is loaded by its "
        "neighbours, too. Transforms of kernels are made once, by one thread, and read by all.\n"
        "- Balance: the largest share of a thread over the mean. In grids an idle thread takes parts of the tiles of "
        "others, so it is near 1; tiles of kernels anywhere are taken whole.\n\n"
        "The time of n threads is (all work) / n times the balance, plus the start; the efficiency is the time of one "
        "thread over n times that. Times are those of an instruction set on one machine; --model brings those of "
        "another (make model writes them). On the two cores where the table was measured, 42 times of 21 jobs of 512^2 to "
        "4096^2 pixels were within 20 %. Cores that share memory or caches with other work are slower, and so are "
        "images in which tiles are summed directly (see ACCURACY), such as small objects in zeros.",
    .see_also = "img-gauss(1), img-log(1), img-local(1), voxpipe-stack(5)",
    .flags = VP_TOOL_CUDA,
    .run = img_convolve,
};
