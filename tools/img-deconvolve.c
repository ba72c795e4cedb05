/* SPDX-License-Identifier: BSD-3-Clause */
/* img-deconvolve: restores an image that was blurred by a known kernel. */
#include "base/fft64.h"
#include "base/stats.h"
#include "local/deconvolve.h"
#include "app/image_run.h"
#include "app/kernels.h"
#include "app/tool.h"

#include <math.h>
#include <pthread.h>

struct params {
    struct vp_kernel_params kernel;
    int method, type;
    int64_t iterations;
    double stop, tv, background, noise;
    bool accelerate;
    struct vp_image_params image;
};

static const struct vp_opt options[] = {
    VP_OPTIONS(struct params, kernel, vp_kernel_options),
    VP_CHOICE(struct params, method, "method", 0, "richardson-lucy|wiener", .metavar = "NAME", .def = "richardson-lucy",
              .group = "Method",
              .help = "algorithm: richardson-lucy or wiener",
              .more = "- richardson-lucy is for counts of light. The result is not negative, and approaches the one "
                      "most likely under Poisson noise, starting from a constant. More iterations are sharper and "
                      "noisier.\n"
                      "- wiener is the least squares solution in which --noise limits the noise, by conjugate "
                      "gradients."),
    VP_INT(struct params, iterations, "iterations", 'n', .metavar = "N", .def = "30", .min = 1, .max = 100000,
           .help = "largest number of iterations"),
    VP_REAL(struct params, stop, "stop", 0, .metavar = "X", .def = "0", .max = 1,
            .help = "stop if an iteration reduces the residual by less than this fraction",
            .more = "The residual is the rms difference between the blurred result and the input, divided by the rms "
                    "of the input. -v prints it for every iteration, --stats records the last. With 0.01 the run "
                    "ends when an iteration reduces it by less than 1 %. With 0 all iterations are done."),
    VP_REAL(struct params, tv, "tv", 0, .metavar = "X", .def = "0", .max = 0.5,
            .help = "damping by total variation, such as 0.002 (richardson-lucy)",
            .more = "Smooths noise between edges and keeps edges (Dey et al. 2006)."),
    VP_FLAG(struct params, accelerate, "accelerate", 0,
            .help = "extrapolate along the last step: one third of the iterations give the same (richardson-lucy)",
            .more = "Biggs and Andrews 1997. It takes three more volumes of memory."),
    VP_REAL(struct params, background, "background", 0, .metavar = "VALUE", .def = "0", .min = -INFINITY,
            .max = INFINITY,
            .help = "constant background of the input"),
    VP_REAL(struct params, noise, "noise", 0, .metavar = "X", .def = "0.001", .max = INFINITY,
            .help = "ratio of the power of the noise to that of the signal (wiener)"),
    VP_CHOICE(struct params, type, "type", 't', "auto|f32|same", .metavar = "TYPE", .def = "auto",
              .help = "sample type of the output: f32, or same as the input's",
              .more = "auto is f64 for f64, and f32 for other types."),
    VP_OPTIONS(struct params, image, vp_image_without_lengths),
    VP_OPT_END,
};

static const struct vp_example examples[] = {
    {"Blur an image and remove the blur again.",
     "ct-phantom --volume 96x96x1 -o disc.tif\n"
     "img-cat --region 0:15,0:15 disc.tif | img-math 'exp(-((x-7)^2 + (y-7)^2)/8)' -o kernel.tif\n"
     "img-convolve -k kernel.tif --normalize disc.tif -o blurred.tif\n"
     "img-deconvolve -k kernel.tif -n 50 --accelerate blurred.tif -o sharp.tif"},
    {"Reduce noise, and stop when iterations bring little.",
     "img-deconvolve -k kernel.tif --tv 0.002 --stop 0.005 blurred.tif -o clean.tif"},
    {"The linear method, for images that may be negative.",
     "img-deconvolve -k kernel.tif --method wiener --noise 1e-4 blurred.tif -o wiener.tif"},
    {0},
};

struct reports { const struct vp_run *run; pthread_mutex_t lock; int64_t iterations, images; double residual; };

static void report(void *ctx, int64_t page, int64_t iteration, double residual, bool last)
{
    struct reports *t = ctx;

    pthread_mutex_lock(&t->lock);
    vp_note(t->run, "page %lld: %s%lld iterations: residual %.6g", (long long)page, last ? "ended after " : "",
            (long long)iteration, residual);
    if (last) {
        t->images++;
        t->iterations = iteration > t->iterations ? iteration : t->iterations;
        t->residual = fmax(t->residual, residual);
    }
    pthread_mutex_unlock(&t->lock);
}

/* Rejects options of the other method. */
static int check(const struct vp_run *run, const struct params *p, struct vp_err *err)
{
    static const struct { const char *option, *method; int of; } all[] = {
        {"tv", "richardson-lucy", VP_RICHARDSON_LUCY}, {"accelerate", "richardson-lucy", VP_RICHARDSON_LUCY},
        {"noise", "wiener", VP_LEAST_SQUARES}};

    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (vp_given(run, all[i].option) && p->method != all[i].of)
            return vp_fail(err, VP_EUSAGE, "--%s needs --method %s", all[i].option, all[i].method);
    return 0;
}

static int img_deconvolve(struct vp_run *run, void *params, struct vp_err *err)
{
    const struct params *p = params;
    struct vp_image_params image = p->image;
    struct reports reports = {.run = run};
    struct vp_images im = {0};
    struct vp_deconvolve_given g = {
        .method = (enum vp_deconvolve_method)p->method, .iterations = p->iterations, .stop = p->stop, .tv = p->tv,
        .background = p->background, .noise = p->noise, .accelerate = p->accelerate, .tell = report, .ctx = &reports};
    struct vp_op op;

    if (check(run, p, err))
        return -1;
    image.values = true;
    pthread_mutex_init(&reports.lock, NULL);
    int rc = vp_images_open(&im, run, &image, 1, VP_CONVOLVE_TYPES | 1u << VP_F64, err)
             || vp_kernels_read(&g.kernel, run, &p->kernel, &im, err);
    g.kernel.fft = &vp_fftw;
    rc = rc || vp_deconvolve_local(&op, &g, im.size, im.type, vp_kernels_type(p->type, im.type), err)
         || vp_chain_add(&im.chain, &op, err);
    vp_kernels_free(&g.kernel);
    rc = vp_images_end(&im, run, rc, NULL, err);
    if (!rc && reports.images) {
        vp_stats_number(run->stats, "iterations", (double)reports.iterations);
        vp_stats_number(run->stats, "residual", reports.residual);
    }
    pthread_mutex_destroy(&reports.lock);
    return rc;
}

const struct vp_tool vp_program = {
    .name = "img-deconvolve",
    .operands = "[INPUT]...",
    .summary = "remove a known blur: Richardson-Lucy, Wiener",
    .description =
        "Reads images that are blurred by a known kernel and estimates the images before the blur. A kernel of one "
        "page is for images, a kernel of several pages for volumes. With --grid or --positions the kernel changes "
        "over the image, as in img-convolve(1), which explains --weights. Each kernel is divided by its sum, and a "
        "constant image stays constant.\n\n"
        "Nothing is assumed about the image beyond its edges. The estimate extends over them by the reach of the "
        "kernel, and may have any values there, so bright parts at or beyond an edge do not cause ringing. NaN and "
        "infinite samples are treated in the same way: they are ignored, and their places are estimated. If an image "
        "has no other samples, the result is NaN. Richardson-Lucy replaces negative samples of input and kernel by "
        "0.\n\n"
        "Every iteration processes the whole image or volume. It needs 6 volumes of f32, each as large as image and "
        "kernel together; --accelerate and wiener need 8. They are stored\n\n"
        "- on a GPU, in its memory. If they do not fit, the program ends with an error; with --device auto it uses "
        "the CPU.\n"
        "- on the CPU in memory, if --memory allows.\n"
        "- otherwise, and always with --chunk, in an unnamed file in $TMPDIR. Iterations then process box after box, "
        "with memory for a few tiles. The input is read twice, so a pipe needs --spool.\n\n"
        "The bits of the result are the same in memory and in a file, for any number of threads and any --memory. "
        "f64 samples are processed in f64, on the CPU, with twice the memory, by transforms of FFTW; a program built "
        "without FFTW refuses them.",
    .options = options,
    .params_size = sizeof(struct params),
    .examples = examples,
    .sections =
        "PICTURE\n"
        "examples/pictures/deconvolve.png shows a part of the Hubble deep field three times: as it is, blurred by "
        "the optics of a survey camera, whose point spread function was measured and changes over the field, and "
        "restored. The commands:\n\n"
        "    img-convolve -k psf.tif --grid 8x8 sky.tif -o blurred.tif\n"
        "    img-deconvolve -k psf.tif --grid 8x8 -n 60 --accelerate blurred.tif \\\n"
        "        -o restored.tif\n\n"
        "Over the whole image, the rms difference to the original is 10.9 gray values blurred and 4.6 restored.",
    .see_also = "img-convolve(1), img-psf(1), voxpipe-stack(5)",
    .flags = VP_TOOL_CUDA,
    .run = img_deconvolve,
};
