/* SPDX-License-Identifier: BSD-3-Clause */
/* Flats that change in shape: their mean and the principal components of what they differ by, of which each view takes
 * the mixture that leaves it least total variation (Van Nieuwenhove et al. 2015, Opt. Express 23, 27975). Components
 * are those of the flats' ratio to their mean, each flat scaled to the mean's intensity, weighted with the mean, so that
 * the noise of photons is alike everywhere. */
#pragma once

#include <stdint.h>

struct vp_err;

enum { VP_FLAT_MODES_MOST = 8, VP_FLAT_MODES_LEAST = 5 /* flats that components are made of, at least */ };

struct vp_flat_modes {
    int64_t nu, nv;
    int64_t flats;       /* number of flats */
    int n;               /* components that stand out of the noise */
    float *ratio;        /* a page for each: change of the flat by its mean, of a weighted rms of 1 */
    double part;         /* out: part of the flats' variance that they have */
    float *small;        /* binned pages that are fitted */
    double *sums;        /* one set a row of those */
};

/* Finds the components, at most `most`, of `flats` pages of nu x nv; they are overwritten. mean is that of the pages;
 * dark may be NULL. Free with vp_flat_modes_free() in any case. VP_ERUN for too few flats, or one without beam. */
int vp_flat_modes_open(struct vp_flat_modes *m, float *pages, int64_t flats, const float *mean, const float *dark,
                       int64_t nu, int64_t nv, int most, struct vp_err *err);
/* Returns the bytes that it holds, of `n` components. */
uint64_t vp_flat_modes_bytes(int64_t nu, int64_t nv, int n);
/* Finds weight[0 .. n) for a view of counts; range is mean - dark, NaN where pixels are dead. Sums are added in f64 row
 * by row: bits do not depend on threads. Uses OpenMP; one call at a time. */
void vp_flat_modes_fit(struct vp_flat_modes *m, const float *range, const float *dark, const float *view,
                       double weight[VP_FLAT_MODES_MOST]);
/* Sets out to the range of `count` pixels from `at` on, with these weights; `range` begins there. */
void vp_flat_modes_range(const struct vp_flat_modes *m, const double *weight, int64_t at, int count, const float *range,
                         float *out);
void vp_flat_modes_free(struct vp_flat_modes *m);
