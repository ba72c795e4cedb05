/* SPDX-License-Identifier: BSD-3-Clause */
/* The geometry as a value: checking, and numbers as text. */
#include "geom/draft.h"
#include "base/err.h"
#include <math.h>
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

static bool positive(double x)
{
    return isfinite(x) && x > 0;
}

static bool nonzero(double x)
{
    return isfinite(x) && x != 0;
}

/* Beyond these, matrices and weights leave the range of float. */
static bool sensible(double x)
{
    return fabs(x) >= 1e-9 && fabs(x) <= VP_GEOM_LARGEST;
}

static int validate_sizes(const struct vp_geom *g, const char *name, struct vp_err *err)
{
    const double f = g->beam == VP_CONE ? g->sdd : 1, pitch[2] = {g->du, g->dv}, offset[2] = {g->offset_u, g->offset_v};
    for (int i = 0; i < 2; i++) {
        if (!sensible(f / pitch[i]) || !sensible(pitch[i]))
            return vp_fail(err, VP_ERUN, "%s: the pitch is %g mm%s: that is nothing that can be computed with", name,
                           pitch[i], g->beam == VP_CONE ? " at this distance" : "");
        if (!(fabs(offset[i]) <= VP_GEOM_LARGEST))
            return vp_fail(err, VP_ERUN, "%s: offset-%c is %g pixels: that is nothing that can be computed with", name,
                           i ? 'v' : 'u', offset[i]);
    }
    if (g->beam == VP_CONE && (!sensible(g->sod) || !sensible(g->sdd)))
        return vp_fail(err, VP_ERUN, "%s: sod is %g mm and sdd %g mm: that is nothing that can be computed with", name,
                       g->sod, g->sdd);
    return 0;
}

int vp_geom_validate(const struct vp_geom *g, const char *name, struct vp_err *err)
{
    if (g->nu <= 0 || g->nv <= 0)
        return vp_fail(err, VP_ERUN,
                       "%s: detector is %lldx%lld: expected positive numbers of columns and rows", name,
                       (long long)g->nu, (long long)g->nv);
    if (g->views <= 0 || !g->angle)
        return vp_fail(err, VP_ERUN, "%s: the geometry has no views", name);
    for (int64_t k = 0; k < g->views; k++)
        if (!isfinite(g->angle[k]))
            return vp_fail(err, VP_ERUN, "%s: view %lld: the angle is not finite", name, (long long)k);
    if (!isfinite(g->offset_u) || !isfinite(g->offset_v) || !isfinite(g->tilt))
        return vp_fail(err, VP_ERUN, "%s: the detector offset or tilt is not finite", name);
    if (g->matrix)
        return 0;
    if (!nonzero(g->du) || !nonzero(g->dv))
        return vp_fail(err, VP_ERUN, "%s: pitch is %g %g: expected numbers of mm other than zero", name,
                       g->du, g->dv);
    if (g->beam == VP_PARALLEL)
        return validate_sizes(g, name, err);
    if (!positive(g->sod))
        return vp_fail(err, VP_ERUN, "%s: sod is %g: expected a positive distance in mm", name, g->sod);
    if (!positive(g->sdd))
        return vp_fail(err, VP_ERUN, "%s: sdd is %g: expected a positive distance in mm", name, g->sdd);
    if (g->sdd <= g->sod)
        return vp_fail_hint(err, VP_ERUN, "sod is the distance from source to axis, sdd from source to detector",
                            "%s: sdd is %g mm: expected more than sod, %g mm", name, g->sdd, g->sod);
    return validate_sizes(g, name, err);
}
