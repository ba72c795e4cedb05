/* SPDX-License-Identifier: BSD-3-Clause */
/* Deconvolution: operation "deconvolve", by Richardson-Lucy iteration or as regularised least squares (Wiener), with
 * one kernel or a grid of kernels.
 *
 * The unknown x is defined on a frame that exceeds the image by the reach of a kernel. Only the image is data: data =
 * (A x) inside, and A x outside is unconstrained. So no samples outside have to be invented, which cause the usual
 * ringing at edges; samples that are not finite are treated as missing in the same way. A is convolution on the frame
 * with zeros outside, A' its adjoint (correlation, with weights of the source and of the output exchanged).
 *
 * VP_RICHARDSON_LUCY, from the mean of the data: x <- x / (A' 1) A'(data / (A x + background)); with damping divided by
 * 1 - tv div(grad x / |grad x|) (Dey et al. 2006); with acceleration from a point extrapolated along the last step
 * (Biggs & Andrews 1997). Data below 0 count as 0.
 *
 * VP_LEAST_SQUARES: the minimiser of |A x - data|^2 + noise |x - mean|^2, by conjugate gradients.
 *
 * All iterations run over the whole image: in memory, where it is one box; or, if it does not fit, on the CPU out of a
 * file, in two passes (engine/op.h): the samples become the entries, solve() iterates box by box, and the results
 * replace the samples. Convolutions do not depend on boxes, and sums over voxels are added row by row in one order, so
 * the bits are those of one box and one thread. */
#pragma once

#include "local/convolve.h"

enum vp_deconvolve_method { VP_RICHARDSON_LUCY, VP_LEAST_SQUARES };

struct vp_deconvolve_given {
    struct vp_convolve_given kernel; /* n, nodes, kernels, node, weights; kernels are normalised */
    enum vp_deconvolve_method method;
    int64_t iterations;
    double stop;       /* relative decrease of the residual below which to stop; 0: all iterations */
    double tv;         /* damping by total variation; 0: none */
    double background; /* constant in the data that is not blurred */
    double noise;      /* Wiener: the ratio of noise to signal, in power */
    bool accelerate;
    /* Reports progress of an image, from any thread; or NULL. rms of A x + background - data, relative to that of the
     * data, after `iteration` iterations; last: these were all. */
    void (*tell)(void *ctx, int64_t page, int64_t iteration, double residual, bool last);
    void *ctx;
};

/* op->params. One input: u8 u16 i16 f32, and on the CPU f64, computed in f64 throughout; the result has the same type
 * or f32. */
struct vp_deconvolve_params {
    struct vp_deconvolve_given g; /* without the pointers to kernels */
    enum vp_type in, out;
    int64_t before[3], frame[3];  /* position of the image in the frame; its voxels, z is 1 for kernels of images */
    struct vp_op forward, adjoint;
};

int vp_deconvolve_local(struct vp_op *op, const struct vp_deconvolve_given *g, const int64_t image[3], enum vp_type in,
                        enum vp_type out, struct vp_err *err);
