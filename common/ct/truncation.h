/* SPDX-License-Identifier: BSD-3-Clause */
/* Rows that break off: the object is wider than the detector. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Continuation of a row beyond one of its ends, i samples out: value sqrt(1 - i (2 axis + i) fall), to where that ends.
 * It is the shadow of an ellipse about the axis: its square falls by the square of the distance (Hsieh et al., Med.
 * Phys. 31 (2004) 2385, fit such a cylinder, of water). */
struct vp_row_end {
    float value;   /* at the last sample, fitted; 0: the row ends near zero */
    float axis;    /* samples from there to the axis, or to a quarter of the row's length */
    float fall;
};

/* Fits both ends of a row of nu samples, whose axis lies at column `center`; each is at zero after `reach` samples at
 * the latest. An end is near zero if it is below a tenth of the row's peak (of means over the number of samples of the
 * fit), or not four times the noise about the fit; a row of less than 32 samples is not judged. Samples that are not
 * finite count as 0. Returns the peak. */
float vp_row_ends(const float *row, int64_t nu, double center, int64_t reach, struct vp_row_end end[2]);

/* Findings of many rows together, in any order. */
enum { VP_TRUNCATION_BINS = 512 };
struct vp_truncation {
    int64_t peaks[VP_TRUNCATION_BINS], ends[VP_TRUNCATION_BINS]; /* rows, by half octaves of their peaks and ends */
};

/* Counts a row; `left`, `right`: an end that matters. */
void vp_truncation_look(struct vp_truncation *t, const float *row, int64_t nu, double center, bool left, bool right);
void vp_truncation_add(struct vp_truncation *t, const struct vp_truncation *more);
/* Returns the part of the rows with a peak of at least a tenth of the highest that end as far from zero. */
double vp_truncation_part(const struct vp_truncation *t);
