/* SPDX-License-Identifier: BSD-3-Clause */
/* Samples that do not exist: the rule of the edges, inside the image. An operation over a neighbourhood is made from the
 * samples that are there, and its weights are those that are there.
 *
 *     gauss, convolve   sum of K x over present samples, times S / sum of K over them; S = 1, or the kernel's sum
 *     min, max, rank    of present samples; the percentile counts in them
 *     mean ... above    mean and deviations of n present samples
 *     entropy           of present samples
 *     nlmeans           d2 is the mean over pairs of which both are present; candidates are present samples
 *
 * Coverage of a voxel: the weight of present samples divided by that of all samples that the image has there (for
 * nlmeans: the present part of the search window). A result exists if something is present and the coverage suffices,
 * also in place of a missing sample, unless holes are kept. Where none exists, floats are NaN, integers `fill`.
 *
 * One operation, "missing", stands for all: vp_missing_chain replaces the stages of a chain by ones that run them as
 * they are, and then make anew, in float64, what a missing sample reaches. So all other voxels have the bits of the
 * operation itself. Between stages a missing sample is NaN. On a device (u8, u16, i16, f32) the kernel "missing" does the
 * same with the kernels of the stages, with the same bits. */
#pragma once

#include "engine/chain.h"

/* Request; `on` is false if all samples exist. */
struct vp_missing {
    bool on;
    bool valued, masked;  /* samples equal to `value` are missing; stack 1 is a mask: 0 is missing. NaN always is */
    double value;         /* in samples */
    double coverage;      /* least coverage of a result, 0 to 1; 0: anything present is enough */
    bool keeps;           /* missing samples stay missing */
    bool filled;          /* floats get `fill`, too */
    double fill;          /* sample of the last result where there is none; floats: NaN */
};

/* Returns the type that holds samples of a type and NaN: f32, or f64 for wider types. */
enum vp_type vp_missing_type(enum vp_type type);

/* Appends the input as such samples, NaN where it is missing. VP_ERESOURCE. */
int vp_missing_load(struct vp_chain *c, const struct vp_missing *m, const int64_t image[3], enum vp_type type,
                    struct vp_err *err);
/* Appends the last stage's result as `type`, `fill` where it is NaN. VP_ERESOURCE. */
int vp_missing_store(struct vp_chain *c, const struct vp_missing *m, enum vp_type type, struct vp_err *err);

/* Replaces all operations of the chain that know what is missing; the others must treat NaN as their users expect.
 * Extrema and entropies must be of floats (after vp_missing_load). Without m->on the chain stays as it is. VP_EUSAGE: a
 * grid of kernels, a kernel with samples below 0, a derivative. VP_ERESOURCE. */
int vp_missing_chain(struct vp_chain *c, const struct vp_missing *m, struct vp_err *err);
