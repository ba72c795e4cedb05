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

static void exponentials(float *e, const float *a, int64_t n)
{
    for (int64_t i = 0; i < n; i += LANES)
        *(vf_u *)(e + i) = exponential(vf_at(a + i));
}

static void difference(float *d, const float *a, const float *b, int64_t n)
{
    for (int64_t i = 0; i < n; i += LANES) {
        const vf v = vf_at(a + i) - vf_at(b + i);
        *(vf_u *)(d + i) = v * v;
    }
}

INLINE void add_these(float *sum, const float *const *row, const int64_t rows, int64_t n)
{
    for (int64_t i = 0; i < n; i += LANES) {
        vf s = vf_at(row[0] + i);
        for (int64_t r = 1; r < rows; r++)
            s += vf_at(row[r] + i);
        *(vf_u *)(sum + i) = s;
    }
}

static void add_rows(float *restrict sum, const float *const *row, int64_t rows, int64_t n)
{
    switch (rows) {
    case 3: add_these(sum, row, 3, n); break;
    case 5: add_these(sum, row, 5, n); break;
    case 7: add_these(sum, row, 7, n); break;
    default: add_these(sum, row, rows, n);
    }
}

INLINE void weigh_taps(float *total, float *value, const float *sum, const int64_t taps, const float *rx, float rate,
                       float noise, float strength, const float *here, const float *there, int64_t n)
{
    for (int64_t i = 0; i < n; i += LANES) {
        vf s = vf_at(sum + i);
        for (int64_t t = 1; t < taps; t++)
            s += vf_at(sum + i + t);
        const vf d2 = s * (vf_at(rx + i) * rate);
        const vf a = (noise - d2) * strength;
        const vf w = exponential(pick(a > 0.0f, (vf){0}, a)); /* NaN stays */
        *(vf_u *)(total + i) = vf_at(total + i) + w;
        *(vf_u *)(value + i) = vf_at(value + i) + w * (vf_at(there + i) - vf_at(here + i));
    }
}

static void weigh(float *total, float *value, const float *sum, int64_t taps, const float *rx, float rate, float noise,
                  float strength, const float *here, const float *there, int64_t n)
{
    switch (taps) {
    case 1: weigh_taps(total, value, sum, 1, rx, rate, noise, strength, here, there, n); break;
    case 3: weigh_taps(total, value, sum, 3, rx, rate, noise, strength, here, there, n); break;
    case 5: weigh_taps(total, value, sum, 5, rx, rate, noise, strength, here, there, n); break;
    case 7: weigh_taps(total, value, sum, 7, rx, rate, noise, strength, here, there, n); break;
    default: weigh_taps(total, value, sum, taps, rx, rate, noise, strength, here, there, n);
    }
}

const struct vp_nlmeans_isa PASTE(vp_nlmeans_, VP_ISA) = {difference, add_rows, weigh, exponentials};
