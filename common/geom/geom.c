/* SPDX-License-Identifier: BSD-3-Clause */
/* Makes a geometry from a draft and validates it; numbers as text. */
#include "geom/draft.h"
#include "base/err.h"
#include "base/size.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void vp_geom_free(struct vp_geom *g)
{
    if (!g)
        return;
    free(g->angle);
    free(g->matrix);
    g->angle = NULL;
    g->matrix = NULL;
}

struct vp_geom_number vp_geom_number(double x)
{
    const bool plain = fabs(x) >= 1e-4 && fabs(x) < 1e15;
    struct vp_geom_number n;
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(n.text, sizeof n.text, "%.*g", digits, x);
        /* 1000, not 1e+03 */
        if (strtod(n.text, NULL) == x && !(plain && strchr(n.text, 'e')))
            break;
    }
    return n;
}

bool vp_geom_scan(const char **s, double *out, const char *stops)
{
    const char *p = *s;
    while (*p == ' ' || *p == '\t' || *p == '\r' || *p == '\n' || *p == ',')
        p++;
    char *end;
    const double x = strtod(p, &end);
    if (end == p || !isfinite(x))
        return false;
    if (*end && !strchr(" \t\r\n,", *end) && !strchr(stops, *end))
        return false;
    *out = x;
    *s = end;
    return true;
}

/* --- finishing ----------------------------------------------------------------------------------- */

static bool has(const struct vp_draft *d, enum vp_geom_key key)
{
    return d->given & 1u << key;
}

static int fail_derived(const char *name, const char *key, struct vp_err *err)
{
    return vp_fail(err, VP_ERUN, "%s: %s cannot be combined with matrices, which define it", name, key);
}

static int check_combinations(const struct vp_draft *d, const char *name, struct vp_err *err)
{
    const unsigned distances = 1u << VP_GK_SOD | 1u << VP_GK_SDD;
    if (has(d, VP_GK_MATRIX)) {
        for (int k = VP_GK_OFFSET_U; k <= VP_GK_START; k++)
            if (has(d, (enum vp_geom_key)k))
                return fail_derived(name, vp_geom_fields[k].name, err);
        /* A file of matrices may give distances as information; as options they would have no effect. */
        if (!(d->seen & 1u << VP_GK_MATRIX) && d->seen & distances)
            return fail_derived(name, d->seen & 1u << VP_GK_SOD ? "sod" : "sdd", err);
        return 0;
    }
    if (has(d, VP_GK_ANGLES) && d->given & VP_GEOM_COUNTED)
        return vp_fail_hint(err, VP_ERUN, "give views, arc and start together to replace a list of angles",
                            "%s: the angles are given twice: as a list, and by views, arc or start", name);
    if (d->g.beam == VP_PARALLEL && d->seen & 1u << VP_GK_BEAM && d->seen & distances)
        return vp_fail(err, VP_ERUN, "%s: sod and sdd have no meaning in a parallel beam", name);
    return 0;
}

static int missing(const struct vp_draft *d, const char *name, struct vp_err *err)
{
    char list[256] = "";
    const bool matrices = has(d, VP_GK_MATRIX), cone = d->g.beam == VP_CONE;
    for (int k = 0; k < VP_GK_COUNT; k++) {
        bool needed = k == VP_GK_DETECTOR;
        if (!matrices)
            needed |= k == VP_GK_PITCH || (cone && (k == VP_GK_SOD || k == VP_GK_SDD)) ||
                      (k == VP_GK_VIEWS && !has(d, VP_GK_ANGLES));
        else if (d->matrix_mm)
            needed |= k == VP_GK_PITCH;
        if (!needed || has(d, (enum vp_geom_key)k))
            continue;
        snprintf(list + strlen(list), sizeof list - strlen(list), "%s%s", *list ? ", " : "",
                 k == VP_GK_VIEWS ? "views (or angles)" : vp_geom_fields[k].name);
    }
    if (!*list)
        return 0;
    vp_fail(err, VP_ERUN, "%s: the geometry is not complete: it lacks %s", name, list);
    if (d->matrix_mm)
        return vp_hint(err, "the file lacks the detector: ct-geom --detector WxH --pitch MM FILE");
    if (matrices)
        return vp_hint(err, "matrices do not give the number of pixels: ct-geom --detector WxH FILE");
    return vp_hint(err, "the keys, and the options of ct-geom with the same names, are in ct-geometry(5)");
}

/* Converts matrices that map to mm from the detector's centre to pixels. */
static void millimetres_to_pixels(const struct vp_draft *d)
{
    for (int64_t k = 0; k < d->matrix.n / 12; k++) {
        double *m = d->matrix.v + 12 * k;
        for (int i = 0; i < 4; i++) {
            m[i] = m[i] / d->g.du + (double)(d->g.nu - 1) / 2 * m[8 + i];
            m[4 + i] = m[4 + i] / d->g.dv + (double)(d->g.nv - 1) / 2 * m[8 + i];
        }
    }
}

/* Derives the parameters, as information, from matrices: means over the views. */
static int derive(const struct vp_draft *d, struct vp_geom *g, const char *name, struct vp_err *err)
{
    double sod = 0, fu = 0, fv = 0, u = 0, v = 0, tilt_s = 0, tilt_c = 0;
    int64_t parallel = 0;
    g->angle = malloc((size_t)g->views * sizeof *g->angle);
    if (!g->angle)
        return vp_fail(err, VP_ERESOURCE, "%s: out of memory", name);
    for (int64_t k = 0; k < g->views; k++) {
        struct vp_view view;
        const char *wrong = vp_view_from_matrix(&view, g->matrix + 12 * k);
        if (wrong)
            return vp_fail(err, VP_ERUN, "%s: view %lld: %s", name, (long long)k, wrong);
        parallel += vp_view_parallel(&view);
        g->angle[k] = view.angle * VP_DEGREES;
        sod += view.sod;
        fu += fabs(view.fu);
        fv += fabs(view.fv);
        u += view.P[3] / view.P[11] - (double)(g->nu - 1) / 2;
        v += view.P[7] / view.P[11] - (double)(g->nv - 1) / 2;
        tilt_s += (view.P[2] - view.cu * view.P[10]) / view.fu;
        tilt_c += (view.P[6] - view.cv * view.P[10]) / view.fv;
    }
    if (parallel && parallel != g->views)
        return vp_fail(err, VP_ERUN, "%s: some matrices are of a parallel beam, some of a cone", name);
    g->beam = parallel ? VP_PARALLEL : VP_CONE;
    if (has(d, VP_GK_BEAM) && d->g.beam != g->beam)
        return vp_fail(err, VP_ERUN, "%s: beam is %s, but the matrices are of a %s beam", name,
                       parallel ? "cone" : "parallel", parallel ? "parallel" : "cone");
    const double n = (double)g->views;
    g->offset_u = u / n;
    g->offset_v = v / n;
    g->tilt = atan2(tilt_s, tilt_c) * VP_DEGREES;
    if (parallel) {
        g->sod = g->sdd = 0;
    } else {
        if (!has(d, VP_GK_SOD))
            g->sod = sod / n;
        if (!has(d, VP_GK_PITCH) && has(d, VP_GK_SDD)) {
            g->du = g->sdd / (fu / n);
            g->dv = g->sdd / (fv / n);
        } else if (!has(d, VP_GK_SDD)) {
            g->sdd = fabs(g->du) * fu / n;
        }
    }
    return 0;
}

/* True if x is in the range in which matrices and weights are finite floats. */
static bool sensible(double x)
{
    return fabs(x) >= 1e-9 && fabs(x) <= VP_GEOM_LARGEST;
}

/* Degrees: above, the source is on the axis; below, a detector perpendicular to the axis is seen edge on. */
static const double MOST_LAMINO = 85, LEAST_LAMINO = 5;

static int check(const struct vp_geom *g, const char *name, struct vp_err *err)
{
    const bool cone = g->beam == VP_CONE;
    const double distance[2] = {g->sod, g->sdd}, pitch[2] = {g->du, g->dv}, offset[2] = {g->offset_u, g->offset_v};
    for (int64_t k = 0; k < g->views; k++)
        if (!isfinite(g->angle[k]))
            return vp_fail(err, VP_ERUN, "%s: view %lld: the angle is not finite", name, (long long)k);
    if (!isfinite(g->offset_u) || !isfinite(g->offset_v) || !isfinite(g->tilt))
        return vp_fail(err, VP_ERUN, "%s: the detector offset or tilt is not finite", name);
    if (g->curved && !cone)
        return vp_fail(err, VP_ERUN, "%s: a curved detector has no meaning in a parallel beam", name);
    if (g->matrix)
        return 0;
    for (int i = 0; i < 2 && cone; i++)
        if (!(distance[i] > 0))
            return vp_fail(err, VP_ERUN, "%s: %s is %g: expected a positive distance in mm", name, i ? "sdd" : "sod",
                           distance[i]);
    if (cone && g->sdd <= g->sod)
        return vp_fail_hint(err, VP_ERUN, "sod is the distance from source to axis, sdd from source to detector",
                            "%s: sdd is %g mm: expected more than sod, %g mm", name, g->sdd, g->sod);
    for (int i = 0; i < 2; i++) {
        if (!sensible((cone ? g->sdd : 1) / pitch[i]) || !sensible(pitch[i]))
            return vp_fail(err, VP_ERUN, "%s: the pitch is %g mm%s: out of range", name,
                           pitch[i], cone ? " at this distance" : "");
        if (!(fabs(offset[i]) <= VP_GEOM_LARGEST))
            return vp_fail(err, VP_ERUN, "%s: offset-%c is %g pixels: out of range", name,
                           i ? 'v' : 'u', offset[i]);
    }
    if (!(fabs(g->lamino) <= MOST_LAMINO))
        return vp_fail(err, VP_ERUN, "%s: lamino is %g degrees: expected at most %g", name, g->lamino, MOST_LAMINO);
    if (g->fixed && !(fabs(g->lamino) >= LEAST_LAMINO))
        return vp_fail_hint(err, VP_ERUN, "give lamino, the angle of the central ray above the plane z = 0",
                            "%s: a fixed detector lies across the axis, and is seen edge on with lamino %g", name,
                            g->lamino);
    if (g->fixed && !cone)
        return vp_fail(err, VP_ERUN, "%s: a fixed detector is for a cone beam, the beam is parallel", name);
    if (!(fabs(g->pitch_z) <= VP_GEOM_LARGEST))
        return vp_fail(err, VP_ERUN, "%s: pitch-z is %g mm: out of range", name,
                       g->pitch_z);
    if (g->pitch_z != 0 && g->lamino != 0)
        return vp_fail(err, VP_ERUN, "%s: pitch-z and lamino cannot be combined", name);
    if (cone && (!sensible(g->sod) || !sensible(g->sdd)))
        return vp_fail(err, VP_ERUN, "%s: sod is %g mm and sdd %g mm: out of range", name,
                       g->sod, g->sdd);
    return 0;
}

/* Adds a clause to g->doubt. */
__attribute__((format(printf, 2, 3)))
static void add_doubt(struct vp_geom *g, const char *fmt, ...)
{
    const size_t n = strlen(g->doubt);
    va_list ap;
    va_start(ap, fmt);
    if (n + 2 < sizeof g->doubt)
        vsnprintf(stpcpy(g->doubt + n, n ? "; " : ""), sizeof g->doubt - n - (n ? 2 : 0), fmt, ap);
    va_end(ap);
}

/* Warns of undocumented entries of a SkyScan log, unless an option sets them. */
static void doubt_log(const struct vp_draft *d, struct vp_geom *g)
{
    const struct vp_skyscan_log *log = &d->log;
    if (log->aligned != 0 && !(d->seen & 1u << VP_GK_OFFSET_U))
        add_doubt(g, "Postalignment=%g is taken as offset-u %g: if edges come out doubled, try --offset-u %g",
                  log->aligned, -log->aligned, log->aligned);
    if (log->rotated != 0 && !(d->seen & 1u << VP_GK_TILT))
        add_doubt(g, "Image Rotation=%g is not used, its sense is not documented: try --tilt %g and %g", log->rotated,
                  log->rotated, -log->rotated);
    if (log->ratio != 1 && log->ratio != 0 && !(d->seen & 1u << VP_GK_PITCH))
        add_doubt(g, "Camera X/Y Ratio=%g is not used: --pitch 'MM MM' has one number for columns and one for rows",
                  log->ratio);
    if (log->positions > 1)
        add_doubt(g, "the camera stood at %lld horizontal positions: the geometry is that of one",
                  (long long)log->positions);
}

/* Warns of numbers that are valid but implausible. */
static void doubt(const struct vp_draft *d, struct vp_geom *g)
{
    double lo, hi;
    doubt_log(d, g);
    if (g->matrix)
        return;
    vp_geom_range(g, &lo, &hi);
    if (has(d, VP_GK_ANGLES) && d->words > 1 && 2 * d->commas > d->words)
        add_doubt(g, "%s was read as two angles: if the comma is a decimal comma, write a point",
                 d->comma);
    else if (g->views >= 8 && hi - lo <= 6.3)
        add_doubt(g, "the views are within %.4g degrees: are the angles in radians? a full turn is 360", hi - lo);
}

/* Rejects a file whose views move by amounts that it does not give. */
static int unknown_movement(const struct vp_draft *d, const char *name, struct vp_err *err)
{
    if (d->moved && !has(d, VP_GK_SHIFTS))
        return vp_fail_hint(err, VP_ERUN,
                            "ct-geom --shifts FILE takes them, two columns in pixels; --shifts none goes without",
                            "%s: %s: every view is shifted, and the shifts are not in the file", name, d->moved);
    if (d->spiral && !has(d, VP_GK_PITCH_Z))
        return vp_fail_hint(err, VP_ERUN, "give it with ct-geom --pitch-z MM",
                            "%s: %s: the source moves along the axis, and by how much a turn is not in the file", name,
                            d->spiral);
    return 0;
}

/* Makes a matrix per view, with the shifts. */
static int shift_views(const struct vp_draft *d, struct vp_geom *g, const char *name, struct vp_err *err)
{
    const double middle = vp_geom_middle(g);
    if (d->shift.n != 2 * g->views)
        return vp_fail(err, VP_ERUN, "%s: expected the shifts of %lld views, got %lld numbers", name,
                       (long long)g->views, (long long)d->shift.n);
    double *matrix = vp_alloc_raw((size_t)g->views, 12 * sizeof *matrix, "the shifted views", err);
    for (int64_t k = 0; matrix && k < g->views; k++) {
        struct vp_view view = {.sod = 0};
        double *m = matrix + 12 * k;
        const char *wrong = vp_view_of(g, k, middle, &view);
        if (wrong) {
            free(matrix);
            return vp_fail(err, VP_ERUN, "%s: view %lld: %s", name, (long long)k, wrong);
        }
        memcpy(m, view.P, sizeof view.P);
        for (int i = 0; i < 8; i++)
            m[i] += d->shift.v[2 * k + i / 4] * m[8 + i % 4];
    }
    if (!matrix)
        return -1;
    free(g->matrix);
    free(g->angle);
    g->matrix = matrix;
    g->angle = NULL;
    g->pitch_z = g->lamino = 0;
    g->fixed = g->clockwise = false;
    return derive(d, g, name, err);
}

int vp_draft_finish(struct vp_draft *d, struct vp_geom *g, const char *name, struct vp_err *err)
{
    *g = (struct vp_geom){0};
    if (check_combinations(d, name, err) || missing(d, name, err) || unknown_movement(d, name, err))
        return -1;
    if (has(d, VP_GK_MATRIX) && (d->matrix.n == 0 || d->matrix.n % 12))
        return vp_fail(err, VP_ERUN, "%s: expected 12 numbers for each matrix, got %lld in all", name,
                       (long long)d->matrix.n);
    if (has(d, VP_GK_ANGLES) && d->angle.n == 0)
        return vp_fail(err, VP_ERUN, "%s: angles has no value", name);
    if (d->matrix_mm)
        millimetres_to_pixels(d);

    *g = d->g;
    if (g->beam == VP_PARALLEL)
        g->sod = g->sdd = 0;
    if (d->mm & 1u << VP_GK_OFFSET_U)
        g->offset_u /= fabs(g->du);
    if (d->mm & 1u << VP_GK_OFFSET_V)
        g->offset_v /= fabs(g->dv);

    if (has(d, VP_GK_MATRIX)) {
        g->views = d->matrix.n / 12;
        g->matrix = d->matrix.v;
        d->matrix.v = NULL;
        if (derive(d, g, name, err))
            goto fail;
    } else {
        if (!has(d, VP_GK_ANGLES)) {
            const double step = (has(d, VP_GK_ARC) ? d->arc : 360) / d->views;
            d->angle.n = 0;
            for (int64_t k = 0; k < (int64_t)d->views; k++)
                if (vp_draft_append(d, VP_GK_ANGLES, d->start + (double)k * step, name, err))
                    goto fail;
        }
        g->views = d->angle.n;
        g->angle = d->angle.v;
        d->angle.v = NULL;
    }
    if (check(g, name, err))
        goto fail;
    doubt(d, g);
    if (has(d, VP_GK_SHIFTS) && shift_views(d, g, name, err))
        goto fail;
    return 0;
fail:
    vp_geom_free(g);
    return -1;
}
