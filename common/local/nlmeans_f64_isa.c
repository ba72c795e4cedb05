/* SPDX-License-Identifier: BSD-3-Clause */
/* Squared differences, sums of patches, and weights of non-local means in f64. */
#include "local/nlmeans_isa.h"

#include "base/isa.h"

enum { VLANES = LANES / 2 };
typedef double vd __attribute__((vector_size(4 * LANES)));
typedef double vd_u __attribute__((vector_size(4 * LANES), aligned(8)));
typedef int64_t vl __attribute__((vector_size(4 * LANES)));
typedef uint64_t vul __attribute__((vector_size(4 * LANES)));

INLINE vd pick(vl mask, vd yes, vd no)
{
    return (vd)(((vl)yes & mask) | ((vl)no & ~mask));
}

/* exp(a) for a <= 0, 0 below -700: 2^k e^r with |r| <= ln 2 / 2, e^r by its Taylor polynomial of degree 13 (relative error
 * of the polynomial 5e-18; with rounding below 5e-16). NaN stays. */
INLINE vd exponential(vd a)
{
    static const double factor[] = {1. / 6227020800, 1. / 479001600, 1. / 39916800, 1. / 3628800, 1. / 362880, 1. / 40320,
                                    1. / 5040, 1. / 720, 1. / 120, 1. / 24, 1. / 6, .5, 1, 1};
    const vd round = (vd){0} + 0x1.8p52; /* adding it leaves the nearest integer in the low bits */
    const vd shifted = a * 0x1.71547652b82fep0 + round, k = shifted - round;
    const vd r = (a - k * 0x1.62e42feep-1) - k * 0x1.a39ef35793c76p-33;
    vd e = (vd){0} + factor[0];
    for (int i = 1; i < 14; i++)
        e = e * r + factor[i];
    e = (vd)((vul)e + (((vul)shifted - (vul)round) << 52));
    return pick(a >= -700, e, pick(a < -700, (vd){0}, a));
}

#define REAL double
#define V vd
#define V_U vd_u
#include "local/nlmeans_lines.inc"

const struct vp_nlmeans_f64_isa PASTE(vp_nlmeans_f64_, VP_ISA) = {difference, add_rows, weigh, exponentials};
