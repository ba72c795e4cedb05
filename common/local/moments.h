/* Mean, variance and standard deviation over a neighbourhood; the cost of a box is (almost) independent of the radius.
 *
 * Types u8, u16, i16, f32 to f32, integers to their own type, and f32 (between two iterations) to any of them: rounded
 * to the nearest, halves to even, clamped, NaN 0. The CPU also takes u32, i32 and f64, and makes them and f64 of any.
 * Integers: exact sums, n sum(x^2) - sum(x)^2 without rounding, the rest in float64. Floats, and integers of 32 bits for
 * more than the mean: in float64, by merging the sums and squared deviations of parts (Chan, Golub and LeVeque
 * 1983), which never subtracts accumulated values: no cancellation for any offset, constants give 0 exactly, no finite
 * input gives NaN. The parts lie on a grid fixed to the image (y, z) or to the voxel (x), so results do not depend on
 * boxes. A NaN makes NaN of every result whose neighbourhood contains it; an infinity makes the mean infinite and the
 * variance infinite or NaN. If no sample of a set lies in the image, the result is NaN (0 of integers). */
#pragma once

#include "local/footprint.h"

#include <math.h>

enum vp_moment { VP_MEAN, VP_VAR, VP_STD, VP_WIENER, VP_ABOVE };

/* Local threshold from the mean m and the standard deviation s of the neighbourhood: base + mean m + std s + both m s. */
struct vp_limit {
    double base, mean, std, both;
    bool below;   /* marks samples not above it, instead of those above it; none where it is NaN */
    uint8_t mark; /* value of marked samples; others become 0 */
};

/* Returns the mark of x, whose neighbourhood of n samples has the sum `sum` and n^2 times the variance `spread`, on the CPU
 * and in kernels. Compares without division or root: with L = n x - n base - mean sum and F = both sum + std n, x is
 * above the limit if n L |n L| > F |F| spread, or without `spreads` if L > 0. No product is added outside fma(), so
 * compilers have nothing to contract. */
VP_ANYWHERE static inline double vp_limit_mark(const struct vp_limit *l, bool spreads, double n, double sum, double spread,
                                               double x)
{
    const double above = l->below ? 0 : l->mark, below = l->below ? l->mark : 0;
    const double left = fma(-l->mean, sum, n * (x - l->base)), factor = fma(l->both, sum, n * l->std);
    const double a = spreads ? n * left * fabs(n * left) : left, b = spreads ? factor * fabs(factor) * spread : 0;
    return a > b ? above : a <= b ? below : 0; /* 0: the limit is NaN */
}

/* State of the CPU's sums. Integers: sum, sum of squares (one lane if only the mean is wanted), modulo 2^32 or
 * 2^64, wide enough for the results. Floats: sum; or sum, squared deviations (box: times the samples along x)
 * and, for a ball, samples. */
enum vp_sums { VP_SUM_U32, VP_SUM_U64, VP_SUM_WIDE, VP_SUM_F64, VP_SUM_SPREAD, VP_SUM_N };

/* op->params of "mean", "var", "std", "wiener" and (local thresholds) "above". */
struct vp_moments_params {
    struct vp_footprint f;
    enum vp_moment moment;
    bool sample;            /* VP_VAR, VP_STD: divided by n - 1 (0 where n is 1) instead of n */
    double noise;           /* VP_WIENER: variance of the noise */
    struct vp_limit limit;  /* VP_ABOVE */
    enum vp_edge edge;      /* VP_ABOVE; others VP_EDGE_RENORMALIZE: the samples that exist */
    bool spreads;           /* with variance, not the mean alone */
    enum vp_sums sums;
    enum vp_type in, out;
};

/* Types of all devices; the CPU takes VP_TYPES_WIDE, too. */
#define VP_MOMENTS_TYPES (1u << VP_U8 | 1u << VP_U16 | 1u << VP_I16 | 1u << VP_F32)

/* Fills *op; `f` is copied. The input is stack 0; set op->from[0] for another. VP_EUSAGE (types) or VP_ERESOURCE. */
int vp_moments_local(struct vp_op *op, enum vp_moment moment, bool sample, const struct vp_footprint *f,
                     const int64_t image[3], enum vp_type in, enum vp_type out, struct vp_err *err);

/* Wiener's adaptive filter (Lee 1980; Lim 1990, as in scipy.signal.wiener): with m and v the mean and variance of the
 * neighbourhood, out = m where v <= noise, else m + (v - noise) / v (x - m). */
int vp_moments_wiener(struct vp_op *op, double noise, const struct vp_footprint *f, const int64_t image[3],
                      enum vp_type in, enum vp_type out, struct vp_err *err);

/* Marks the samples above the limit, as u8; samples outside follow the edge rule. For integers the result is that of
 * exact arithmetic except for the rounding of the limit's factors, the same on every processor and device. */
int vp_moments_above(struct vp_op *op, const struct vp_limit *limit, const struct vp_footprint *f, enum vp_edge edge,
                     const int64_t image[3], enum vp_type in, struct vp_err *err);
