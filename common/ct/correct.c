/* SPDX-License-Identifier: BSD-3-Clause */
/* Drift of the beam and beam hardening. */
#include "ct/correct.h"

#include "base/err.h"
#include "base/size.h"
#include "base/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Parses "A:B", a range that is not empty; NULL if it is none, else what follows. */
static const char *range_of(const char *text, int64_t *lo, int64_t *hi)
{
    char *end;

    *lo = strtoll(text, &end, 10);
    if (end == text || *end != ':')
        return NULL;
    text = end + 1;
    *hi = strtoll(text, &end, 10);
    return end == text || *lo < 0 || *hi <= *lo ? NULL : end;
}

static int read_air(struct vp_correct *c, const struct vp_correct_params *p, int64_t nu, int64_t nv, struct vp_err *err)
{
    if (p->air.n > 2)
        return vp_fail(err, VP_EUSAGE, "--air: expected one or two regions, got %d", p->air.n);
    for (int i = 0; i < p->air.n; i++) {
        struct vp_air *a = &c->air[i];
        const char *const text = p->air.v[i], *rest = range_of(text, &a->c0, &a->c1);
        a->r0 = 0;
        a->r1 = nv;
        if (rest && *rest == ',')
            rest = range_of(rest + 1, &a->r0, &a->r1);
        if (!rest || *rest)
            return vp_fail(err, VP_EUSAGE, "--air: expected C0:C1 or C0:C1,R0:R1, columns and rows, got '%s'", text);
        if (a->c1 > nu || a->r1 > nv)
            return vp_fail(err, VP_EUSAGE, "--air %s: expected a region of the %lld x %lld pixels", text, (long long)nu,
                           (long long)nv);
        c->n_air++;
    }
    if (c->n_air == 2 && c->air[1].c0 < c->air[0].c0) {
        const struct vp_air first = c->air[0];
        c->air[0] = c->air[1];
        c->air[1] = first;
    }
    if (c->n_air == 2 && c->air[1].c0 < c->air[0].c1)
        return vp_fail(err, VP_EUSAGE, "--air: the columns of both regions overlap: expected one on each side");
    return 0;
}

/* A list of numbers that grows. */
struct numbers { double *v; int64_t n, room; int per_line; };

static int take_line(void *ctx, const char *name, int64_t number, char *line, struct vp_err *err)
{
    struct numbers *const list = ctx;
    int got = 0;

    line[strcspn(line, "#")] = '\0';
    for (char *at = line, *end; at += strspn(at, " \t\r,;"), *at; at = end, got++) {
        const double x = strtod(at, &end);
        if (end == at || !isfinite(x))
            return vp_fail(err, VP_ERUN, "%s: line %lld: expected a number, got '%.20s'", name, (long long)number, at);
        double *const grown = vp_grow(list->v, list->n, &list->room, sizeof *list->v, "numbers", name, err);
        if (!grown)
            return -1;
        list->v = grown;
        list->v[list->n++] = x;
    }
    if (got && list->per_line && got != list->per_line)
        return vp_fail(err, VP_ERUN, "%s: line %lld: expected %d numbers, got %d", name, (long long)number,
                       list->per_line,
                       got);
    return 0;
}

static int read_monitor(struct vp_correct *c, const char *path, struct vp_err *err)
{
    struct numbers list = {0};
    const int rc = vp_text_lines(path, take_line, &list, err);

    c->monitor = list.v;
    c->n_monitor = list.n;
    for (int64_t i = 0; i < list.n && !rc; i++)
        if (!(list.v[i] > 0))
            return vp_fail(err, VP_ERUN, "%s: number %lld: expected more than 0, got %g", vp_text_name(path),
                           (long long)i + 1, list.v[i]);
    if (!rc && !list.n)
        return vp_fail(err, VP_ERUN, "%s: no numbers", vp_text_name(path));
    return rc;
}

static int read_curve(struct vp_correct *c, const char *path, struct vp_err *err)
{
    struct numbers list = {.per_line = 2};
    const int rc = vp_text_lines(path, take_line, &list, err);

    c->curve = list.v;
    c->n_curve = list.n / 2;
    if (rc)
        return -1;
    if (c->n_curve < 2)
        return vp_fail(err, VP_ERUN, "%s: expected two pairs of line integrals or more, got %lld", vp_text_name(path),
                       (long long)c->n_curve);
    for (int64_t i = 1; i < c->n_curve; i++)
        if (!(list.v[2 * i] > list.v[2 * i - 2]) || !(list.v[2 * i + 1] > list.v[2 * i - 1]))
            return vp_fail(err, VP_ERUN, "%s: pair %lld: expected both numbers to increase", vp_text_name(path),
                           (long long)i + 1);
    return 0;
}

int vp_correct_open(struct vp_correct *c, const struct vp_correct_params *p, int64_t nu, int64_t nv, bool transmission,
                    struct vp_err *err)
{
    *c = (struct vp_correct){.transmission = transmission, .drift = {INFINITY, -INFINITY}};
    if (p->air.n && p->monitor)
        return vp_fail(err, VP_EUSAGE, "--air and --monitor cannot be combined");
    if (p->curve && transmission)
        return vp_fail(err, VP_EUSAGE, "--curve and --no-log cannot be combined");
    return read_air(c, p, nu, nv, err) || (p->monitor && read_monitor(c, p->monitor, err)) ||
           (p->curve && read_curve(c, p->curve, err)) ? -1 : 0;
}

void vp_correct_free(struct vp_correct *c)
{
    free(c->monitor);
    free(c->curve);
    c->monitor = c->curve = NULL;
}

/* Computes the mean transmission of a region. */
static double mean_of(const struct vp_correct *c, const struct vp_air *a, const float *view, int64_t nu)
{
    double sum = 0;

    for (int64_t v = a->r0; v < a->r1; v++)
        for (int64_t u = a->c0; u < a->c1; u++)
            sum += c->transmission ? (double)view[v * nu + u] : exp(-(double)view[v * nu + u]);
    return sum / (double)((a->c1 - a->c0) * (a->r1 - a->r0));
}

/* Returns the true line integral of a measured one: on lines between the pairs, which go on beyond the first and
 * last. */
static float along_curve(const struct vp_correct *c, float p)
{
    int64_t lo = 0, hi = c->n_curve - 1;

    while (hi - lo > 1) {
        const int64_t mid = (lo + hi) / 2;
        if (c->curve[2 * mid] <= (double)p)
            lo = mid;
        else
            hi = mid;
    }
    const double *const a = c->curve + 2 * lo;
    return (float)(a[1] + ((double)p - a[0]) * (a[3] - a[1]) / (a[2] - a[0]));
}

/* Divides the transmission of a row by beam + slope u, and corrects its line integrals. */
static void correct_row(const struct vp_correct *c, double beam, double slope, int64_t nu, float *row)
{
    if (c->transmission)
        for (int64_t u = 0; u < nu; u++)
            row[u] = (float)((double)row[u] / (beam + slope * (double)u));
    else if (slope != 0)
        for (int64_t u = 0; u < nu; u++)
            row[u] = (float)((double)row[u] + log(beam + slope * (double)u));
    else if (beam != 1) {
        const double add = log(beam);
        for (int64_t u = 0; u < nu; u++)
            row[u] = (float)((double)row[u] + add);
    }
    for (int64_t u = 0; u < nu && c->curve; u++)
        row[u] = along_curve(c, row[u]);
}

/* Finds the beam of a view: at column 0, and its slope. */
static int beam_of(struct vp_correct *c, int64_t view, int64_t nu, const float *samples, double *beam, double *slope,
                   struct vp_err *err)
{
    double mean[2] = {1, 1};

    *beam = c->monitor ? c->monitor[view] : 1;
    *slope = 0;
    for (int i = 0; i < c->n_air; i++) {
        mean[i] = mean_of(c, &c->air[i], samples, nu);
        if (!(mean[i] > 0) || isinf(mean[i]))
            return vp_fail(err, VP_ERUN, "view %lld: --air %lld:%lld: the mean transmission is %g: expected open beam",
                           (long long)view, (long long)c->air[i].c0, (long long)c->air[i].c1, mean[i]);
        c->drift[0] = fmin(c->drift[0], mean[i]);
        c->drift[1] = fmax(c->drift[1], mean[i]);
    }
    if (c->n_air)
        *beam = mean[0];
    if (c->n_air == 2) {
        const double x0 = 0.5 * (double)(c->air[0].c0 + c->air[0].c1 - 1);
        const double x1 = 0.5 * (double)(c->air[1].c0 + c->air[1].c1 - 1);
        *slope = (mean[1] - mean[0]) / (x1 - x0);
        *beam = mean[0] - *slope * x0;
        if (!(*beam > 0) || !(*beam + *slope * (double)(nu - 1) > 0))
            return vp_fail(err, VP_ERUN, "view %lld: --air: the line through both regions, %g and %g, falls below 0 on "
                                         "the "
                           "detector", (long long)view, mean[0], mean[1]);
    }
    return 0;
}

int vp_correct_views(struct vp_correct *c, int64_t first, int64_t n, int64_t nu, int64_t nv, int64_t sinogram_views,
                     float *samples, struct vp_err *err)
{
    const int64_t rows = sinogram_views > 0 ? sinogram_views : nv;

    if (c->monitor && (sinogram_views > 0 ? sinogram_views : first + n) > c->n_monitor)
        return vp_fail(err, VP_ERUN, "--monitor: %lld numbers: expected one for each view", (long long)c->n_monitor);
    for (int64_t k = 0; k < n; k++) {
        float *const page = samples + k * rows * nu;
        double beam = 1, slope = 0;
        if (!sinogram_views && beam_of(c, first + k, nu, page, &beam, &slope, err))
            return -1;
        #pragma omp parallel for schedule(static)
        for (int64_t v = 0; v < rows; v++)
            correct_row(c, sinogram_views && c->monitor ? c->monitor[v] : beam, slope, nu, page + v * nu);
    }
    return 0;
}
