/* SPDX-License-Identifier: BSD-3-Clause */
/* Replaces a detector that does not turn by one that turns with the source. */
#include "geom/draft.h"
#include "base/err.h"
#include "base/size.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Largest angle from the central ray to the edge of a curved detector, radians. */
static const double STEEPEST = 85 / VP_DEGREES;

/* Angle between the detector's rows and the source path beyond which views are turned, radians. */
static const double MOST_TURNED = 10 / VP_DEGREES;

bool vp_scan_turned(const struct vp_scan *scan)
{
    return scan->turned > MOST_TURNED;
}

/* Frame of such a detector: unit vectors along its rows, along its columns (z >= 0) and from the source to the axis at
 * the source's height z; depth of that point. */
struct frame { double row[3], column[3], ahead[3], z, depth; };

static void frame_of(const struct vp_view *view, const struct vp_helix *h, struct frame *f)
{
    double s[3], t[3];
    vp_view_source(view, s);
    vp_view_tangent(view, t);
    f->z = h->pitch != 0 ? h->z0 + h->pitch * view->turn : 0;
    s[2] -= vp_view_parallel(view) ? 0 : f->z;
    const double far = sqrt(vp_dot3(s, s));
    f->depth = vp_view_parallel(view) ? 1 : far;
    for (int i = 0; i < 3; i++)
        f->ahead[i] = -s[i] / far;
    const double along = vp_dot3(t, f->ahead);
    for (int i = 0; i < 3; i++)
        f->row[i] = t[i] - along * f->ahead[i];
    const double length = sqrt(vp_dot3(f->row, f->row));
    for (int i = 0; i < 3; i++)
        f->row[i] /= length;
    for (int i = 0; i < 3; i++)
        f->column[i] = f->row[(i + 1) % 3] * f->ahead[(i + 2) % 3] - f->row[(i + 2) % 3] * f->ahead[(i + 1) % 3];
    if (f->column[2] < 0)
        for (int i = 0; i < 3; i++)
            f->column[i] = -f->column[i];
}

/* Returns the pixels by which the image of the frame's origin moves per mm of motion along `by`. */
static double pixels(const struct vp_view *view, const struct frame *f, const double by[3])
{
    struct vp_view v = *view;
    double move[2];
    vp_view_raise(&v, f->z);
    for (int i = 0; i < 2; i++)
        move[i] = (vp_dot3(&v.P[4 * i], by) - v.P[4 * i + 3] / v.P[11] * vp_dot3(&v.P[8], by)) / v.P[11];
    return hypot(move[0], move[1]);
}

/* Widens [lo, hi] to the positions of the detector's corners in the frame, per unit of depth. -1 if a corner is not
 * ahead of the source. */
static int widen(const struct vp_geom *g, const struct vp_view *view, const struct frame *f, double lo[2], double hi[2])
{
    const bool parallel = vp_view_parallel(view);
    struct vp_view v = *view;
    double y[3][3];
    vp_view_raise(&v, f->z);
    vp_view_rays(&v, y);
    for (int corner = 0; corner < 4; corner++) {
        double p = corner & 1 ? (double)g->nu - 0.5 : -0.5, q = corner & 2 ? (double)g->nv - 0.5 : -0.5;
        if (g->curved && fabs((p - view->cu) / view->fu) > STEEPEST)
            return -1;
        if (g->curved)
            vp_view_flatten(view, &p, &q);
        double ray[3];
        for (int i = 0; i < 3; i++)
            ray[i] = y[0][i] * p + y[1][i] * q + y[2][i];
        const double depth = parallel ? 1 : vp_dot3(ray, f->ahead);
        if (!(depth > 0.02 * sqrt(vp_dot3(ray, ray))))
            return -1;
        const double at[2] = {vp_dot3(ray, f->row) / depth, vp_dot3(ray, f->column) / depth};
        for (int i = 0; i < 2; i++) {
            lo[i] = fmin(lo[i], at[i]);
            hi[i] = fmax(hi[i], at[i]);
        }
    }
    return 0;
}

/* Computes a view's matrix on the new detector, and the map back to the old one: (u w, v w, w) = to (u', v', 1). */
static void turn_view(const struct vp_view *view, const struct frame *f, const double scale[2], const double center[2],
                      double m[12], double to[9])
{
    const bool parallel = vp_view_parallel(view);
    const double *axis[2] = {f->row, f->column};
    for (int c = 0; c < 4; c++) {
        const double place[3] = {0, 0, -f->z}; /* from the frame's origin */
        m[8 + c] = parallel ? c == 3 : c < 3 ? f->ahead[c] : f->depth + vp_dot3(place, f->ahead);
        for (int i = 0; i < 2; i++)
            m[4 * i + c] = scale[i] * (c < 3 ? axis[i][c] : vp_dot3(place, axis[i])) + center[i] * m[8 + c];
    }
    struct vp_view v = *view;
    vp_view_raise(&v, f->z);
    for (int r = 0; r < 3; r++) {
        const double *M = &v.P[4 * r];
        const double straight = parallel ? M[3] : vp_dot3(M, f->ahead);
        const double by[2] = {vp_dot3(M, f->row) / scale[0], vp_dot3(M, f->column) / scale[1]};
        to[3 * r] = by[0];
        to[3 * r + 1] = by[1];
        to[3 * r + 2] = straight - center[0] * by[0] - center[1] * by[1];
    }
}

int vp_geom_turned(const struct vp_geom *g, const struct vp_view *views, const struct vp_scan *scan,
                   struct vp_geom *out, double **to, struct vp_err *err)
{
    double scale[2] = {0, 0}, lo[2] = {INFINITY, INFINITY}, hi[2] = {-INFINITY, -INFINITY}, center[2], size[2];
    double distance = 0;
    struct frame f;

    *out = *g;
    out->matrix = NULL;
    out->angle = NULL;
    *to = NULL;
    for (int64_t k = 0; k < g->views; k++) {
        frame_of(&views[k], &scan->helix, &f);
        distance += f.depth / (double)g->views;
        scale[0] = fmax(scale[0], f.depth * pixels(&views[k], &f, f.row));
        scale[1] = fmax(scale[1], f.depth * pixels(&views[k], &f, f.column));
        if (widen(g, &views[k], &f, lo, hi))
            return vp_fail(err, VP_ERUN, "view %lld: the detector is seen edge on from the source", (long long)k);
    }
    if (g->curved && g->nv == 1) { /* a fan beam stays one */
        const double middle = (lo[1] + hi[1]) / 2;
        lo[1] = middle - 0.5 / scale[1];
        hi[1] = middle + 0.5 / scale[1];
    }
    for (int i = 0; i < 2; i++) {
        center[i] = -0.5 - lo[i] * scale[i];
        size[i] = ceil((hi[i] - lo[i]) * scale[i] - 1e-6);
        if (!(size[i] <= 1 << 20))
            return vp_fail(err, VP_ERUN,
                           "the views are too different to be turned so that their rows follow the source");
    }
    out->nu = (int64_t)size[0];
    out->nv = (int64_t)size[1];
    out->sod = g->beam == VP_CONE ? distance : 0;
    out->sdd = out->du = out->dv = out->offset_u = out->offset_v = out->tilt = out->pitch_z = out->lamino = 0;
    out->clockwise = out->fixed = out->curved = false;
    out->matrix = vp_alloc_raw((size_t)g->views, 12 * sizeof *out->matrix, "the turned views", err);
    out->angle = vp_alloc_raw((size_t)g->views, sizeof *out->angle, "the turned views", err);
    *to = vp_alloc_raw((size_t)g->views, 9 * sizeof **to, "the turned views", err);
    if (!out->matrix || !out->angle || !*to) {
        vp_geom_free(out);
        free(*to);
        *to = NULL;
        return -1;
    }
    for (int64_t k = 0; k < g->views; k++) {
        frame_of(&views[k], &scan->helix, &f);
        turn_view(&views[k], &f, scale, center, out->matrix + 12 * k, *to + 9 * k);
        out->angle[k] = views[k].angle * VP_DEGREES;
    }
    return 0;
}
