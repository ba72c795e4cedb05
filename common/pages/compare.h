/* Two stacks of the same size, sample by sample: a is judged, b is the reference. */
#pragma once

#include "stack/stack.h"

struct vp_compare {
    /* set by the caller before the first page */
    double scale;             /* a is multiplied by it; 1 for none */
    double atol, rtol;        /* within tolerance: |a - b| <= atol + rtol |b| */
    bool nan_equal;           /* NaN is within tolerance of NaN */
    int64_t row;              /* row of a page, where the next samples begin */
    /* results */
    int64_t samples;          /* looked at */
    int64_t n;                /* samples finite in both; the figures below the counts are of these only */
    int64_t differing;        /* not equal (two NaN differ unless nan_equal) */
    int64_t beyond;           /* not within tolerance */
    int64_t odd;              /* samples NaN or infinite in one or (NaN) both */
    double max;               /* largest |a - b| ... */
    double a, b;              /* ... its values ... */
    int64_t page, x, y;       /* ... and its place (first one); page -1 if n = 0 */
    double d2, b2;            /* sums of (a - b)^2 and b^2 */
    double mean_a, mean_b, a_a, a_b, b_b;   /* means; sums of products of deviations */
    double min_b, max_b;
};

/* Samples of a block are summed up by themselves: rows that follow each other are the same as their page if all but the
 * last have a multiple of it. */
enum { VP_COMPARE_BLOCK = 2048 };

/* Adds page number `page`, or rows of it, nx x ny samples of each; those where mask is zero (or NaN) are left out; mask
 * may be NULL. Results do not depend on threads. 64-bit integers of the same type are compared exactly. */
void vp_compare_page(struct vp_compare *c, int64_t page, int64_t nx, int64_t ny, const void *a,
                     enum vp_type type_a, const void *b, enum vp_type type_b, const void *mask,
                     enum vp_type type_mask);

/* Returns the root mean square of a - b; 0 if n = 0. */
double vp_compare_rms(const struct vp_compare *c);
/* Returns rms(a - b) / rms(b); infinite if b is 0 and a is not */
double vp_compare_rel_l2(const struct vp_compare *c);
/* Returns the ratio in dB; peak <= 0: max b - min b; infinite if equal */
double vp_compare_psnr(const struct vp_compare *c, double peak);
/* Returns Pearson's coefficient; 1 if equal; NaN if a or b is constant */
double vp_compare_correlation(const struct vp_compare *c);
