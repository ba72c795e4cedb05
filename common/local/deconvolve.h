/* SPDX-License-Identifier: BSD-3-Clause */
/* What an image was before it was blurred: kernel "deconvolve" of engine/op.h, by Richardson and Lucy's iteration, or
 * as the least squares that Wiener's filter gives, with one kernel or a grid of them.
 *
 * The unknown lies on a frame that is larger than the image by what a kernel reaches, and the image is a window on what
 * the kernels make of it: data = (A x) inside, and nothing is said of A x outside. So no voxel has to be made up, which
 * is what rings at edges elsewhere; samples that are not finite are left out in the same way. A is convolution on the
 * frame with zeros beyond it, A' its adjoint (correlation; weights of the source become those of the output, and the
 * other way round).
 *
 * VP_RICHARDSON_LUCY, from the mean of the data on: x <- x / (A' 1) A'(data / (A x + background)), with damping
 * divided by 1 - tv div(grad x / |grad x|) (Dey et al. 2006), with acceleration from a point ahead in the direction
 * of the last step (Biggs & Andrews 1997). Data below 0 count as 0.
 *
 * VP_LEAST_SQUARES: the x with the least |A x - data|^2 + noise |x - mean|^2, by conjugate gradients.
 *
 * All iterations are made over the whole image, which is one box: it has to fit the memory. Sums over voxels are
 * added up row by row in one order, so threads change no bit. */
#ifndef VP_DECONVOLVE_H
#define VP_DECONVOLVE_H

#include "local/convolve.h"

enum vp_deconvolve_method { VP_RICHARDSON_LUCY, VP_LEAST_SQUARES };

struct vp_deconvolve_given {
    struct vp_convolve_given kernel; /* n, nodes, kernels, node, weights; each is divided by its sum */
    enum vp_deconvolve_method method;
    int64_t iterations;
    double stop;       /* end where the residual gets less by no more than so much of it; 0: all iterations */
    double tv;         /* damping by total variation; 0: none */
    double background; /* in the data beside what is blurred */
    double noise;      /* Wiener: the ratio of noise to signal, in power */
    bool accelerate;
    /* NULL, or told of each image: the rms of A x + background - data in units of that of the data after so many
     * iterations; with `last` after all of them. From any thread. */
    void (*tell)(void *ctx, int64_t page, int64_t iteration, double residual, bool last);
    void *ctx;
};

/* op->params. One input, u8 u16 i16 f32, and on the CPU f64, for which all is done in f64; the result is the same or
 * f32. */
struct vp_deconvolve_params {
    struct vp_deconvolve_given g; /* without what points to the kernels */
    enum vp_type in, out;
    int64_t before[3], frame[3];  /* of the image in the frame; voxels of it, whose z is 1 for kernels of images */
    struct vp_op forward, adjoint;
};

int vp_deconvolve_local(struct vp_op *op, const struct vp_deconvolve_given *g, const int64_t image[3], enum vp_type in,
                        enum vp_type out, struct vp_err *err);

#endif
