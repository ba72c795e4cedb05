/* SPDX-License-Identifier: BSD-3-Clause */
/* Sum, mean, variance and standard deviation over a box of another size for every voxel, from summed area tables of the
 * part in work (Crow 1984): the time of a voxel does not depend on its box. A box is cut at the edges of the image.
 *
 * Exact: tables are of integers that are never rounded, so a result does not depend on where a table begins. Integers
 * are their own; floats are counted in steps of a power of two that the range of the whole image sets: 2^-94 of the
 * largest magnitude for sums and means, for deviations 2^-47 of half of the range, from its middle. Smaller than that,
 * a sample is rounded to the nearest step; samples of f32 that are at least 2^-70 of the largest magnitude (deviations:
 * 2^-23 of the range) are not. NaN and infinite samples are counted apart: a NaN makes NaN of every result whose box
 * holds it; an infinity makes sum and mean infinite (or NaN, of both signs), variance and deviation NaN. */
#pragma once

#include "engine/op.h"

enum vp_radius_stat { VP_RADIUS_MEAN, VP_RADIUS_SUM, VP_RADIUS_VAR, VP_RADIUS_STD };

/* op->params of "radius_map". */
struct vp_radius_map {
    enum vp_radius_stat stat;
    bool sample;           /* VAR, STD: divided by n - 1 (0 where n is 1) instead of n */
    bool whole;            /* samples are integers, in `from` */
    enum vp_type from;     /* type of the stack */
    bool volume;           /* boxes have planes, too */
    int64_t reach;         /* largest radius */
    double lo, hi;         /* floats: finite range of the image */
    double base;           /* sample that counts as 0 */
    int shift;             /* a sample counts (sample - base) 2^shift */
};

/* Fills *op from stat, sample, whole, from, volume, reach, lo and hi of `want`; op->free releases its params. Two
 * inputs, samples and radii (whole numbers from 0 to reach), both of type `in`, f32 or f64, which holds all of `from`;
 * stacks 0 and 1. out: a float, `from`, or for a sum of integers u32, i32, u64 or i64; rounded to the nearest, halves to
 * even, and clamped. VP_EUSAGE (boxes of 2^31 voxels or more) or VP_ERESOURCE. */
int vp_radius_map_local(struct vp_op *op, const struct vp_radius_map *want, const int64_t image[3], enum vp_type in,
                        enum vp_type out, struct vp_err *err);
