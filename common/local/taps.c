/* SPDX-License-Identifier: BSD-3-Clause */
/* Taps of Gaussian filters and their derivatives, inside and at the edges: see taps.h. */
#include "local/taps.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"

/* Returns the unnormalised Gaussian at j. */
static double bell(const struct vp_taps *t, int64_t j)
{
    return t->bell[j < 0 ? -j : j];
}

/* Returns the derivative at j divided by the Gaussian: a weight of x[i + j], with the sign that gives a ramp its slope. */
static double shape(const struct vp_taps *t, int64_t j)
{
    const double x = (double)j / t->sigma;
    return t->order == 1 ? x / t->sigma : (x * x - 1) / (t->sigma * t->sigma);
}

/* Correction polynomial p of clipped weights bell(j) * (shape(j) + p(j)): it gives them the moments of the derivative.
 * Degree 2, or 1 for order 1 with a symmetric support. Coefficients p[] in the basis orthogonal under the bell over the
 * support, P0 = 1, P1 = j - c0, P2 = (j - c1) P1 - r P0, where each moment fixes one of them. Order 0: p = 1 / sum. */
struct fit { int degree; double c0, c1, r, p[3]; };

static double weight(const struct vp_taps *t, const struct fit *f, int64_t j)
{
    const double p1 = (double)j - f->c0, p2 = ((double)j - f->c1) * p1 - f->r;

    if (t->order == 0)
        return bell(t, j) * f->p[0];
    return bell(t, j) * (shape(t, j) + f->p[0] + f->p[1] * p1 + (f->degree == 2 ? f->p[2] * p2 : 0)) * t->gain;
}

static struct fit fit_moments(const struct vp_taps *t, int64_t lo, int64_t hi)
{
    struct fit f = {.degree = t->order == 2 || (lo != hi && lo + hi > 1) ? 2 : 1};
    double s[4] = {0}, w[3] = {0}; /* inner products under the bell: of P0 P1 P2 with themselves and with shape */

    for (int64_t j = -lo; j <= hi; j++) {
        s[0] += bell(t, j);
        s[1] += bell(t, j) * (double)j;
    }
    if (t->order == 0) {
        f.p[0] = 1 / s[0];
        return f;
    }
    f.c0 = s[1] / s[0];
    s[1] = 0;
    for (int64_t j = -lo; j <= hi; j++) {
        const double p1 = (double)j - f.c0;
        s[1] += bell(t, j) * p1 * p1;
        s[3] += bell(t, j) * p1 * p1 * (double)j;
    }
    f.c1 = s[3] / s[1];
    f.r = s[1] / s[0];
    for (int64_t j = -lo; j <= hi; j++) {
        const double g = bell(t, j), p1 = (double)j - f.c0, p2 = ((double)j - f.c1) * p1 - f.r;
        s[2] += g * p2 * p2;
        w[0] += g * shape(t, j);
        w[1] += g * shape(t, j) * p1;
        w[2] += g * shape(t, j) * p2;
    }
    /* moments: the derivatives of P0, P1, P2 at j = 0 */
    f.p[0] = -w[0] / s[0];
    f.p[1] = ((t->order == 1 ? 1 : 0) - w[1]) / s[1];
    if (f.degree == 2)
        f.p[2] = ((t->order == 1 ? -f.c0 - f.c1 : 2) - w[2]) / s[2];
    return f;
}

/* Defines vp_taps_edge for taps of type REAL. */
#define EDGE(NAME, REAL) \
    void NAME(const struct vp_taps *t, int64_t lo, int64_t hi, REAL *up, REAL *down) \
    { \
        const int64_t r = t->radius; \
 \
        lo = vp_min64(lo, r); \
        hi = vp_min64(hi, r); \
        if (lo >= t->reach && hi >= t->reach) \
            lo = hi = t->reach; \
        memset(up, 0, (size_t)r * sizeof *up); \
        memset(down, 0, (size_t)r * sizeof *down); \
        if (lo + hi < t->order) \
            return; \
        const struct fit f = fit_moments(t, lo, hi); \
        double sum = 0; \
        for (int64_t k = hi - 1; k >= 0; k--) { \
            sum += weight(t, &f, k + 1); \
            up[k] = (REAL)sum; \
        } \
        sum = 0; \
        for (int64_t k = lo - 1; k >= 0; k--) { \
            sum += weight(t, &f, -k - 1); \
            down[k] = (REAL)-sum; \
        } \
    }

EDGE(vp_taps_edge, float)
EDGE(vp_taps_edge_f64, double)

void vp_taps_free(struct vp_taps *t)
{
    free(t->bell);
    free(t->t);
    free(t->up);
    free(t->f64.t);
    free(t->f64.up);
    t->bell = NULL;
    t->f64 = (struct vp_taps_f64){0};
    t->t = t->scale = t->up = t->down = t->far_up = t->far_down = NULL;
}

int vp_taps_make(struct vp_taps *t, double sigma, double truncate, int order, double gain, enum vp_edge edge,
                 struct vp_err *err)
{
    const double radius = floor(truncate * sigma + 0.5);

    *t = (struct vp_taps){.order = order, .edge = edge, .sigma = sigma, .gain = gain};
    if (!(radius <= VP_TAPS_MAX_RADIUS)) {
        vp_fail(err, VP_EUSAGE, "--sigma: %g voxels truncated at %g sigmas: the radius is %g voxels, the limit is %d", sigma,
                truncate, radius, VP_TAPS_MAX_RADIUS);
        return vp_hint(err, "reduce the image first, or use a smaller --truncate");
    }
    t->reach = (int)radius < order ? order : (int)radius;
    t->radius = order == 1 && t->reach == 1 && edge == VP_EDGE_RENORMALIZE ? 2 : t->reach;
    if (t->radius == 0)
        return 0;
    const size_t r = (size_t)t->radius;
    t->bell = vp_alloc_raw(r + 1, sizeof *t->bell, "a filter's taps", err);
    t->t = vp_alloc_raw(2 * r, sizeof *t->t, "a filter's taps", err);
    if (!t->bell || !t->t) {
        vp_taps_free(t);
        return -1;
    }
    for (size_t j = 0; j <= r; j++)
        t->bell[j] = exp(-0.5 * ((double)j / sigma) * ((double)j / sigma));
    vp_taps_edge(t, t->radius, t->radius, t->t, t->t + r);
    if (edge != VP_EDGE_RENORMALIZE)
        return 0;
    if (order == 0) {
        t->scale = t->t + r; /* in place of the taps `down` */
        for (size_t e = 0; e < r; e++)
            t->scale[e] = (float)(1 / (1 - (double)t->t[e]));
        return 0;
    }
    t->up = vp_alloc_raw(4 * r * r, sizeof *t->up, "a filter's taps at the edges", err);
    if (!t->up) {
        vp_taps_free(t);
        return -1;
    }
    t->down = t->up + r * r;
    t->far_up = t->down + r * r;
    t->far_down = t->far_up + r * r;
    const float s = order == 1 ? 1 : -1;
    for (size_t i = 0; i < r; i++)
        vp_taps_edge(t, (int64_t)i, t->radius, t->up + i * r, t->down + i * r);
    for (size_t i = 0; i < r * r; i++) {
        t->far_up[i] = s * t->down[i];
        t->far_down[i] = s * t->up[i];
    }
    return 0;
}

int vp_taps_make_f64(struct vp_taps *t, struct vp_err *err)
{
    const size_t r = (size_t)t->radius;
    struct vp_taps_f64 *const to = &t->f64;

    if (r == 0)
        return 0;
    to->t = vp_alloc_raw(2 * r, sizeof *to->t, "a filter's taps", err);
    if (!to->t)
        return -1;
    vp_taps_edge_f64(t, t->radius, t->radius, to->t, to->t + r);
    if (t->scale) {
        to->scale = to->t + r;
        for (size_t e = 0; e < r; e++)
            to->scale[e] = 1 / (1 - to->t[e]);
    }
    if (!t->up)
        return 0;
    to->up = vp_alloc_raw(4 * r * r, sizeof *to->up, "a filter's taps at the edges", err);
    if (!to->up)
        return -1;
    to->down = to->up + r * r;
    to->far_up = to->down + r * r;
    to->far_down = to->far_up + r * r;
    const double s = t->order == 1 ? 1 : -1;
    for (size_t i = 0; i < r; i++)
        vp_taps_edge_f64(t, (int64_t)i, t->radius, to->up + i * r, to->down + i * r);
    for (size_t i = 0; i < r * r; i++) {
        to->far_up[i] = s * to->down[i];
        to->far_down[i] = s * to->up[i];
    }
    return 0;
}
