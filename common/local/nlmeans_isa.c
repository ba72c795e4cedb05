/* SPDX-License-Identifier: BSD-3-Clause */
/* Squared differences, sums of patches, and weights of non-local means. */
#include "local/nlmeans_isa.h"

#include "base/isa.h"

INLINE vf pick(vi mask, vf yes, vf no)
{
    return (vf)(((vi)yes & mask) | ((vi)no & ~mask));
}

/* exp(a) for a <= 0, 0 below -87: 2^k e^r with |r| <= ln 2 / 2, e^r by its Taylor polynomial of degree 7 (relative
 * error of the polynomial 6e-9; with rounding below 3e-7). NaN stays. */
INLINE vf exponential(vf a)
{
    const vf round = (vf){0} + 0x1.8p23f; /* adding it leaves the nearest integer in the low bits */
    const vf shifted = a * 0x1.715476p0f + round, k = shifted - round;
    const vf r = (a - k * 0x1.62e4p-1f) - k * 0x1.7f7d1cp-20f;
    vf e = r * (1.0f / 5040) + 1.0f / 720;
    e = e * r + 1.0f / 120;
    e = e * r + 1.0f / 24;
    e = e * r + 1.0f / 6;
    e = e * r + 0.5f;
    e = e * r + 1.0f;
    e = e * r + 1.0f;
    e = (vf)((vu)e + (((vu)shifted - (vu)round) << 23));
    return pick(a >= -87.0f, e, pick(a < -87.0f, (vf){0}, a));
}

#define REAL float
#define V vf
#define V_U vf_u
#define VLANES LANES
#include "local/nlmeans_lines.inc"

const struct vp_nlmeans_isa PASTE(vp_nlmeans_, VP_ISA) = {difference, add_rows, weigh, exponentials};
