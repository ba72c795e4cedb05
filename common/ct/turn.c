/* SPDX-License-Identifier: BSD-3-Clause */
#include "ct/turn.h"

#include <math.h>

/* Fills the weights of the four samples around a place that is x after the second, 0 <= x < 1. */
static void keys(double x, float w[4])
{
    const double y = 1 - x;
    w[0] = (float)(-0.5 * x * y * y);
    w[1] = (float)(1 - 2.5 * x * x + 1.5 * x * x * x);
    w[2] = (float)(1 - 2.5 * y * y + 1.5 * y * y * y);
    w[3] = (float)(-0.5 * y * x * x);
}

static float sample(const struct vp_turn *t, const float *in, double u, double v)
{
    if (!(u > -2 && v > -2 && u < (double)t->in_nu + 1 && v < (double)t->in_nv + 1))
        return 0;
    const int64_t i = (int64_t)floor(u), j = (int64_t)floor(v);
    float across[4], along[4], sum = 0;
    keys(u - (double)i, across);
    keys(v - (double)j, along);
    for (int64_t b = 0; b < 4; b++) {
        const int64_t row = j - 1 + b;
        if (row < 0 || row >= t->in_nv)
            continue;
        float line = 0;
        for (int64_t a = 0; a < 4; a++) {
            const int64_t column = i - 1 + a;
            const float x = column >= 0 && column < t->in_nu ? in[row * t->in_nu + column] : 0;
            line += isfinite(x) ? across[a] * x : 0;
        }
        sum += along[b] * line;
    }
    return sum;
}

void vp_turn_view(const struct vp_turn *t, int64_t view, int64_t v0, int64_t v1, const float *in, float *out,
                  int threads)
{
    const double *to = t->to + 9 * view;

    #pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t v = v0; v < v1; v++)
        for (int64_t u = 0; u < t->nu; u++) {
            double at[3];
            for (int r = 0; r < 3; r++)
                at[r] = to[3 * r] * (double)u + to[3 * r + 1] * (double)v + to[3 * r + 2];
            double x = at[0] / at[2], y = at[1] / at[2];
            if (t->curved) {
                const double row = y;
                vp_view_bend(&t->curved[view], &x, &y);
                y = t->in_nv == 1 ? row : y;
            }
            out[(v - v0) * t->nu + u] = at[2] > 0 ? sample(t, in, x, y) : 0;
        }
}
