/* SPDX-License-Identifier: BSD-3-Clause */
/* Images of another size: operation "resize". Each axis is resampled by itself, in f64; a result is rounded once, to
 * the type of the output.
 *
 * Samples are squares: sample j of the input covers [j, j + 1], and voxel i of the output [edge + i r, edge + (i + 1)
 * r] on the same axis. So the image as a whole keeps its place, whatever the size.
 *   area     the mean of the input over the voxel, samples at its ends in proportion
 *   linear   weights 1 - |t| / s, |t| < s, at the distance t of the centres, s = max(1, r)
 *   cubic    weights of Keys (1981) with a = -1/2 (Catmull-Rom), |t| < 2 s, stretched by s likewise
 *   nearest  the sample under the voxel's centre, untouched
 * Weights are those of the samples that exist, and sum to one. Whole bins are the mean of their samples, added up
 * exactly if they are integers of at most 32 bits; the rest at the end belongs to no bin. */
#pragma once

#include "engine/chain.h"

enum vp_resize_method { VP_RESIZE_AREA, VP_RESIZE_LINEAR, VP_RESIZE_CUBIC, VP_RESIZE_NEAREST };

/* An axis of n samples that becomes one of m. Made by the functions below. */
struct vp_resize_axis {
    int64_t n, m;        /* VP_UNKNOWN until the end of a pipe (bins only) */
    int64_t bin;         /* samples of a bin; 1: the axis stays as it is; 0: no bins */
    double ratio, edge;  /* samples of the input per voxel; place of the first voxel's lower side */
    bool rational;       /* ratio is n / m, without rounding */
    enum vp_resize_method method;
};

/* Fill an axis: bins of `bin` samples (less than one: m is 0); m voxels that cover all n samples; voxels of `ratio`
 * samples, their number so that they cover about n, in the middle of them. */
void vp_resize_bins(struct vp_resize_axis *a, int64_t n, int64_t bin);
void vp_resize_to(struct vp_resize_axis *a, int64_t n, int64_t m, enum vp_resize_method method);
void vp_resize_by(struct vp_resize_axis *a, int64_t n, double ratio, enum vp_resize_method method);

/* Returns the position of the centre of voxel i, in samples: 0 is the centre of the first. */
double vp_resize_centre(const struct vp_resize_axis *a, int64_t i);
/* Returns the number of samples that make voxel i, and sets the first of them; fills their weights, unless NULL. */
int64_t vp_resize_taps(const struct vp_resize_axis *a, int64_t i, int64_t *first, double *weight);
/* Returns the most samples that make a voxel. */
int64_t vp_resize_most(const struct vp_resize_axis *a);

struct vp_resize_params { struct vp_resize_axis axis[3]; };

/* Appends the stage. `in` is any type; 64-bit integers with the method nearest only (VP_EUSAGE). VP_ERUN: there would
 * be no voxel. VP_ERESOURCE: memory. */
int vp_resize_chain(struct vp_chain *c, const struct vp_resize_params *p, enum vp_type in, enum vp_type out,
                    struct vp_err *err);
