/* SPDX-License-Identifier: BSD-3-Clause */
/* Kernels by formula. */
#include "local/psf.h"

#include "base/err.h"

#include <math.h>

static const double RADIAN = 0.017453292519943295;
static const double FIRST_DARK_RING = 3.8317059702075125; /* the first zero of J1 */

/* Returns the extent of a shape along each axis, voxels. */
static void reach_of(const struct vp_psf *p, double reach[3])
{
    const double c = fabs(cos(p->angle * RADIAN)), s = fabs(sin(p->angle * RADIAN));
    const double x = p->shape == VP_PSF_MOTION ? p->width[0] / 2 : 4 * p->width[0];
    const double y = p->shape == VP_PSF_MOTION ? 0 : p->shape == VP_PSF_AIRY ? x : 4 * p->width[1];

    reach[0] = p->shape == VP_PSF_MOTION ? c * x : hypot(c * x, s * y);
    reach[1] = p->shape == VP_PSF_MOTION ? s * x : hypot(s * x, c * y);
    reach[2] = p->shape == VP_PSF_GAUSSIAN ? 4 * p->width[2] : 0;
}

void vp_psf_size(struct vp_psf *p)
{
    double reach[3];

    reach_of(p, reach);
    for (int a = 0; a < 3; a++) {
        /* to the outer edge of the last pixel */
        const double r = reach[a] + fabs(p->shift[a]) - (p->shape == VP_PSF_MOTION ? .5 : 0) - 1e-9;
        p->size[a] = 2 * (int64_t)ceil(fmax(r, 0)) + 1;
    }
}

/* 2 J1(x) / x */
static double jinc(double x)
{
    return fabs(x) < 1e-8 ? 1 : 2 * j1(x) / x;
}

/* Returns the unnormalised value at a point d from the centre. */
static double value(const struct vp_psf *p, const double d[3])
{
    const double c = cos(p->angle * RADIAN), s = sin(p->angle * RADIAN);
    const double u = c * d[0] + s * d[1], v = c * d[1] - s * d[0];
    double q[3] = {u, v, d[2]}, sum = 0;

    if (p->shape == VP_PSF_AIRY) {
        const double x = hypot(u, v) / p->width[0] * FIRST_DARK_RING, e = p->obstruction;
        const double a = jinc(x) - (e > 0 ? e * e * jinc(e * x) : 0);
        return a * a;
    }
    for (int a = 0; a < 3; a++) {
        if (q[a] != 0) /* a width of 0 is a point */
            sum += p->width[a] > 0 ? q[a] / p->width[a] * (q[a] / p->width[a]) : INFINITY;
    }
    if (p->shape == VP_PSF_MOFFAT) /* half of its height at half its width */
        return pow(1 + 4 * (exp2(1 / p->beta) - 1) * sum, -p->beta);
    return exp(-sum / 2);
}

/* Returns the length of the motion within the pixel at d from its centre. */
static double length_within(const struct vp_psf *p, const double d[2])
{
    const double way[2] = {cos(p->angle * RADIAN), sin(p->angle * RADIAN)};
    double from = -p->width[0] / 2, to = p->width[0] / 2;

    for (int a = 0; a < 2; a++) {
        if (fabs(way[a]) < 1e-12) { /* along an edge: half of it on each side */
            if (fabs(d[a]) > .5 + 1e-12)
                return 0;
            continue;
        }
        const double t = (d[a] - .5) / way[a], u = (d[a] + .5) / way[a];
        from = fmax(from, fmin(t, u));
        to = fmin(to, fmax(t, u));
    }
    return fmax(to - from, 0);
}

static double voxel(const struct vp_psf *p, const double d[3])
{
    const int n = p->samples, deep = p->size[2] > 1 ? n : 1;
    double sum = 0;

    if (p->shape == VP_PSF_MOTION && p->width[0] > 0)
        return length_within(p, d);
    if (p->shape == VP_PSF_MOTION)
        return fmax(0, 1 - fabs(d[0])) * fmax(0, 1 - fabs(d[1]));
    for (int k = 0; k < deep; k++)
        for (int j = 0; j < n; j++)
            for (int i = 0; i < n; i++) {
                const double at[3] = {d[0] + (i + .5) / n - .5, d[1] + (j + .5) / n - .5, d[2] + (k + .5) / deep - .5};
                sum += value(p, at);
            }
    return sum;
}

int vp_psf_make(const struct vp_psf *p, float *kernel, struct vp_err *err)
{
    const int64_t *n = p->size, count = n[0] * n[1] * n[2];
    double sum = 0;

    for (int pass = 0; pass < 2; pass++) {
        if (pass && !(sum > 0))
            return vp_fail_hint(err, VP_EUSAGE, "--samples N evaluates N x N points of each pixel; or make it wider, or "
                                                "change --size or --shift",
                                "the kernel is so narrow, or so far away, that it is 0 at the centres of all pixels");
        for (int64_t i = 0; i < count; i++) {
            const int64_t at[3] = {i % n[0], i / n[0] % n[1], i / n[0] / n[1]};
            double d[3];
            for (int a = 0; a < 3; a++)
                d[a] = (double)(at[a] - n[a] / 2) - p->shift[a];
            const double v = voxel(p, d);
            if (pass)
                kernel[i] = (float)(v / sum);
            else
                sum += v;
        }
    }
    return 0;
}
