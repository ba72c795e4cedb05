/* SPDX-License-Identifier: BSD-3-Clause */
/* Phase retrieval of a homogeneous object from one distance (Paganin et al., J. Microsc. 206 (2002) 33). The
 * transmission is filtered with 1 / (1 + L^2 k^2), k = 2 pi frequency, L^2 = z delta / mu, which is a convolution
 * with the kernel K0(r / L) / (2 pi L^2). In a cone beam of magnification M the distance is z / M and the pixel
 * pitch / M. */
#pragma once

#include "geom/geom.h"

struct vp_phase_params {
    double distance;     /* --distance, from the object to the detector, mm; 0: that of the geometry */
    double energy;       /* --energy, keV */
    double delta_beta;   /* --delta-beta; 0: not given */
    double delta, beta;  /* --delta, --beta; 0: not given */
    double length;       /* --length, in pixels, in place of all of these; 0: not given */
    bool thickness;      /* --thickness: of the object, in mm, not its line integrals */
};

struct vp_phase {
    double length[2];    /* L in columns and in rows */
    double fresnel;      /* pixel^2 / (wavelength distance); 0: unknown */
    double mu;           /* attenuation, 1/mm; 0: unknown */
    int64_t n[2];        /* samples of the kernel, odd */
    float *kernel;       /* n[1] x n[0], of sum 1; malloc'd */
};

/* Longest L, pixels: of longer ones the kernel is larger than is reasonable. */
#define VP_PHASE_LONGEST 120.0

/* Computes lengths from the parameters and the geometry (NULL: none, only with `length`). VP_EUSAGE with the way out
 * for what is missing, contradicts itself or is of another unit. */
int vp_phase_lengths(struct vp_phase *f, const struct vp_phase_params *p, const struct vp_geom *g, struct vp_err *err);
/* Makes the kernel of these lengths: the inverse transform of the filter, cut off at 12 L where it has fallen below
 * 1e-6. The caller frees it. VP_ERESOURCE. */
int vp_phase_kernel(struct vp_phase *f, struct vp_err *err);
