/* SPDX-License-Identifier: BSD-3-Clause */
/* Lengths and the kernel of Paganin's filter. */
#include "ct/phase.h"

#include "base/err.h"
#include "base/fft.h"
#include "base/size.h"

#include <math.h>
#include <stdlib.h>

enum { REACH = 14 /* L: 4e-6 of the kernel lies beyond */, LEAST = 72 /* samples on each side: the band limit's tail of short lengths */ };
static const double PI = 3.14159265358979323846, HC = 1.239841984e-6; /* wavelength times energy, mm keV */

/* Checks energy and material. */
static int check(const struct vp_phase_params *p, struct vp_err *err)
{
    if (!(p->energy > 0))
        return vp_fail(err, VP_EUSAGE, "expected --energy KEV, or --length PIXELS");
    if (p->energy > 1000)
        return vp_fail_hint(err, VP_EUSAGE, "20000 eV are 20 keV", "--energy: expected at most 1000 keV, got %g: is it "
                                                                   "in eV?",
                            p->energy);
    if (p->delta_beta > 0 && (p->delta > 0 || p->beta > 0))
        return vp_fail(err, VP_EUSAGE, "--delta-beta and --%s cannot be combined", p->delta > 0 ? "delta" : "beta");
    if (p->delta_beta <= 0 && !(p->delta > 0 && p->beta > 0))
        return vp_fail(err, VP_EUSAGE, p->delta > 0   ? "--delta needs --beta"
                                       : p->beta > 0 ? "--beta needs --delta"
                                                      : "expected --delta-beta R, or --delta D and --beta B");
    return 0;
}

int vp_phase_lengths(struct vp_phase *f, const struct vp_phase_params *p, const struct vp_geom *g, struct vp_err *err)
{
    *f = (struct vp_phase){0};
    if (p->length > 0) {
        if (p->energy > 0 || p->distance > 0 || p->delta_beta > 0 || p->delta > 0 || p->beta > 0)
            return vp_fail(err, VP_EUSAGE, "--length and --%s cannot be combined",
                           p->energy > 0 ? "energy" : p->distance > 0 ? "distance" : p->delta_beta > 0 ? "delta-beta"
                           : p->delta > 0 ? "delta" : "beta");
        f->length[0] = f->length[1] = p->length;
    } else {
        if (check(p, err))
            return -1;
        if (!g)
            return vp_fail_hint(err, VP_EUSAGE, "give -g FILE, or --length PIXELS",
                                "no scan geometry: expected one with the pixel pitch");
        if (!(fabs(g->du) > 0 && fabs(g->dv) > 0))
            return vp_fail_hint(err, VP_EUSAGE, "give --length PIXELS", "the geometry has no pixel pitch");
        const bool cone = g->beam == VP_CONE;
        const double m = cone ? g->sdd / g->sod : 1;
        const double distance = p->distance > 0 ? p->distance : cone ? g->sdd - g->sod : 0;
        if (!(distance > 0))
            return vp_fail(err, VP_EUSAGE, "expected --distance MM, from the object to the detector");
        const double wavelength = HC / p->energy, ratio = p->delta_beta > 0 ? p->delta_beta : p->delta / p->beta;
        const double length = sqrt(distance / m * ratio * wavelength / (4 * PI));
        f->length[0] = length / (fabs(g->du) / m);
        f->length[1] = length / (fabs(g->dv) / m);
        f->fresnel = g->du * g->du / (m * m) / (wavelength * distance / m);
        f->mu = p->beta > 0 ? 4 * PI * p->beta / wavelength : 0;
    }
    if (p->thickness && !(f->mu > 0))
        return vp_fail(err, VP_EUSAGE, "--thickness needs --delta and --beta");
    for (int i = 0; i < 2; i++)
        if (f->length[i] > VP_PHASE_LONGEST)
            return vp_fail_hint(err, VP_EUSAGE, "bin the views first, or check the units: mm, keV",
                                "the filter's length is %.4g pixels: expected at most %g", f->length[i], VP_PHASE_LONGEST);
    return 0;
}

/* Transforms n real and even samples, of which `in` has those from 0 to n / 2, into out[0 ... last], divided by n. */
static int even_transform(const double *in, int64_t n, int64_t last, double *work, double *out, struct vp_err *err)
{
    double *const complex = work, *const result = work + 2 * n;

    for (int64_t k = 0; k < n; k++) {
        complex[2 * k] = in[k <= n / 2 ? k : n - k];
        complex[2 * k + 1] = 0;
    }
    if (vp_dft(complex, result, n, err))
        return -1;
    for (int64_t k = 0; k <= last; k++)
        out[k] = result[2 * k] / (double)n;
    return 0;
}

int vp_phase_kernel(struct vp_phase *f, struct vp_err *err)
{
    int64_t reach[2], n[2];

    for (int i = 0; i < 2; i++) {
        reach[i] = vp_max64((int64_t)ceil(REACH * f->length[i]), LEAST);
        f->n[i] = 2 * reach[i] + 1;
        for (n[i] = 256; n[i] < 4 * f->n[i];)
            n[i] *= 2;
    }
    const int64_t rows = n[1] / 2 + 1, longest = vp_max64(n[0], n[1]);
    double *half = vp_alloc_raw((size_t)rows, (size_t)(reach[0] + 1) * sizeof *half, "the kernel", err);
    double *line = vp_alloc_raw((size_t)longest, 2 * sizeof *line, "the kernel", err), sum = 0;
    double *work = vp_alloc_raw((size_t)longest, 4 * sizeof *work, "the kernel", err);
    float *kernel = vp_alloc_raw((size_t)f->n[0], (size_t)f->n[1] * sizeof *kernel, "the kernel", err);
    double *quarter = vp_alloc_raw((size_t)(reach[0] + 1), (size_t)(reach[1] + 1) * sizeof *quarter, "the kernel", err);
    int rc = half && line && work && kernel && quarter ? 0 : -1;

    for (int64_t v = 0; v < rows && !rc; v++) { /* along rows, as far as the kernel reaches, ... */
        const double kv = 2 * PI * f->length[1] * (double)v / (double)n[1];
        for (int64_t u = 0; u <= n[0] / 2; u++) {
            const double ku = 2 * PI * f->length[0] * (double)u / (double)n[0];
            line[u] = 1 / (1 + ku * ku + kv * kv);
        }
        rc = even_transform(line, n[0], reach[0], work, half + v * (reach[0] + 1), err);
    }
    for (int64_t u = 0; u <= reach[0] && !rc; u++) { /* ... then along columns */
        for (int64_t v = 0; v < rows; v++)
            line[v] = half[v * (reach[0] + 1) + u];
        rc = even_transform(line, n[1], reach[1], work, quarter + u * (reach[1] + 1), err);
    }
    for (int64_t u = -reach[0]; u <= reach[0] && !rc; u++)
        for (int64_t v = -reach[1]; v <= reach[1]; v++)
            sum += quarter[llabs(u) * (reach[1] + 1) + llabs(v)];
    for (int64_t v = -reach[1]; v <= reach[1] && !rc; v++)
        for (int64_t u = -reach[0]; u <= reach[0]; u++)
            kernel[(v + reach[1]) * f->n[0] + u + reach[0]] =
                (float)(quarter[llabs(u) * (reach[1] + 1) + llabs(v)] / sum);
    free(half);
    free(line);
    free(work);
    free(quarter);
    f->kernel = rc ? NULL : kernel;
    if (rc)
        free(kernel);
    return rc;
}
