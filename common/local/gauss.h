/* SPDX-License-Identifier: BSD-3-Clause */
/* Gaussian filter, its derivatives and its complement (high-pass): operation "gauss", separable. */
#pragma once

#include "local/separable.h"

struct vp_gauss_params {
    double sigma[3];          /* voxels; 0: axis untouched */
    double truncate;          /* sigmas */
    int order[3];             /* derivative along each axis: 0, 1, 2 */
    double spacing[3];        /* units per voxel, for derivatives (1: per voxel) */
    enum vp_edge edge;
    bool highpass;
    int64_t iterations;       /* >= 1; f32 in between */
};

/* Appends `iterations` stages to the chain: of stack 0, an image of `size` voxels (size[2] may be VP_UNKNOWN), if the
 * chain is empty, else of the last stage's result. VP_EUSAGE for invalid parameters, naming --sigma, --derivative or
 * --iterations; VP_ERESOURCE: out of memory. */
int vp_gauss_chain(struct vp_chain *c, const struct vp_gauss_params *p, const int64_t size[3], enum vp_type in,
                   enum vp_type out, struct vp_err *err);
