/* SPDX-License-Identifier: BSD-3-Clause */
#include "ct/truncation.h"

#include "base/size.h"

#include <math.h>

enum { SHORTEST = 32, MOST_FITTED = 64 };

static double sample(const float *row, int64_t i)
{
    return isfinite(row[i]) ? (double)row[i] : 0;
}

/* Returns the mean of n samples from `first` on. */
static double mean_of(const float *row, int64_t first, int64_t n)
{
    double sum = 0;

    for (int64_t i = 0; i < n; i++)
        sum += sample(row, first + i);
    return sum / (double)n;
}

/* Fits p^2 = a - b t^2 to the last n samples, t from the axis: the end at distance `axis` or, if the row is cut close
 * to its axis or beyond, as if it was a quarter of the row's length away. */
static struct vp_row_end fit(const float *row, int64_t nu, int64_t n, int step, double axis, int64_t reach)
{
    const int64_t edge = step > 0 ? 0 : nu - 1;
    double st = 0, sp = 0, stt = 0, stp = 0, noise = 0;

    axis = fmax(axis, 0.25 * (double)nu);
    for (int64_t i = 0; i < n; i++) {
        const double p = sample(row, edge + step * i), t = axis - (double)i, x = t * t - axis * axis;
        st += x, stt += x * x, sp += p * p, stp += x * p * p;
    }
    const double slope = (stp - st * sp / (double)n) / (stt - st * st / (double)n);
    const double square = (sp - slope * st) / (double)n, value = sqrt(fmax(square, 0));
    for (int64_t i = 0; i < n; i++) {
        const double p = sample(row, edge + step * i), t = axis - (double)i, x = t * t - axis * axis;
        const double e = p - sqrt(fmax(square + slope * x, 0));
        noise += e * e;
    }
    const double most = (double)reach * (2 * axis + (double)reach);
    if (!(value > 4 * sqrt(noise / (double)n)))
        return (struct vp_row_end){0};
    return (struct vp_row_end){(float)value, (float)axis, (float)fmax(-slope / square, 1 / most)};
}

float vp_row_ends(const float *row, int64_t nu, double center, int64_t reach, struct vp_row_end end[2])
{
    const int64_t n = vp_min64(nu / 16 > 4 ? nu / 16 : 4, MOST_FITTED);
    double peak = 0;

    end[0] = end[1] = (struct vp_row_end){0};
    if (nu < SHORTEST)
        return 0;
    for (int64_t i = 0; i + n <= nu; i += n)
        peak = fmax(peak, mean_of(row, i, n));
    peak = fmax(peak, mean_of(row, nu - n, n));
    if (mean_of(row, 0, n) > 0.1 * peak)
        end[0] = fit(row, nu, n, 1, center, reach);
    if (mean_of(row, nu - n, n) > 0.1 * peak)
        end[1] = fit(row, nu, n, -1, (double)(nu - 1) - center, reach);
    for (int i = 0; i < 2; i++)
        if (!((double)end[i].value > 0.1 * peak))
            end[i] = (struct vp_row_end){0};
    return (float)peak;
}

/* Half octaves: 2^(bin / 2 - 128) and more. */
static int bin_of(float value)
{
    int exponent;
    const float part = frexpf(value, &exponent);

    if (!(value > 0))
        return 0;
    return (int)vp_min64(vp_max64(2 * (exponent + 128) + (part >= (float)M_SQRT1_2), 1), VP_TRUNCATION_BINS - 1);
}

void vp_truncation_look(struct vp_truncation *t, const float *row, int64_t nu, double center, bool left, bool right)
{
    struct vp_row_end end[2];
    const float peak = vp_row_ends(row, nu, center, nu, end);

    t->peaks[bin_of(peak)]++;
    t->ends[bin_of(fmaxf(left ? end[0].value : 0, right ? end[1].value : 0))]++;
}

void vp_truncation_add(struct vp_truncation *t, const struct vp_truncation *more)
{
    for (int i = 0; i < VP_TRUNCATION_BINS; i++) {
        t->peaks[i] += more->peaks[i];
        t->ends[i] += more->ends[i];
    }
}

double vp_truncation_part(const struct vp_truncation *t)
{
    int highest = VP_TRUNCATION_BINS - 1;
    int64_t rows = 0, cut = 0;

    while (highest > 0 && !t->peaks[highest])
        highest--;
    for (int i = (int)vp_max64(highest - 7, 1); i < VP_TRUNCATION_BINS; i++) { /* 7 half octaves: a factor of 11 */
        rows += t->peaks[i];
        cut += t->ends[i];
    }
    return rows ? (double)cut / (double)rows : 0;
}
