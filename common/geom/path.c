/* SPDX-License-Identifier: BSD-3-Clause */
/* The source path: a circle about z, a helix, or another one; and the angle of the detector's rows to it. */
#include "geom/draft.h"
#include "base/err.h"
#include "base/size.h"
#include "base/sort.h"
#include <math.h>
#include <stdlib.h>

static const double TURN = 6.28318530717958647692;

enum {
    /* A helix moves the source by more than 1 / LEAST_TRAVEL of the detector's height (at the axis). */
    LEAST_TRAVEL = 10,
    /* It is nowhere off its straight line by more than 1 / EVEN of its pitch. */
    EVEN = 50,
    /* Shortest slope of a window: 1 / SHORTEST of a turn (struct vp_helix). */
    SHORTEST = 8
};
/* Distance of neighbours that define the direction of the source path, in radians, at least and at most. */
static const double NEAR = 0.087, FAR = 0.53;

/* Clips [lo, hi] to the part where a + b z >= 0. */
static void cut(double a, double b, double *lo, double *hi)
{
    if (b > 0)
        *lo = fmax(*lo, -a / b);
    else if (b < 0)
        *hi = fmin(*hi, -a / b);
    else if (a < 0)
        *hi = -INFINITY;
}

void vp_view_axis(const struct vp_geom *g, const struct vp_view *v, double *lo, double *hi)
{
    const double n[2] = {(double)g->nu, (double)g->nv};
    *lo = -INFINITY;
    *hi = INFINITY;
    cut(v->P[11], v->P[10], lo, hi);
    for (int i = 0; i < 2; i++) {
        const double *m = &v->P[4 * i], last = n[i] - 0.5;
        cut(m[3] + 0.5 * v->P[11], m[2] + 0.5 * v->P[10], lo, hi);
        cut(last * v->P[11] - m[3], last * v->P[10] - m[2], lo, hi);
    }
}

/* Computes the unwrapped turn of each view, its source's height, and the part of the axis that it sees relative to
 * that. */
static void measure_heights(const struct vp_geom *g, struct vp_view *views, double *height, struct vp_helix *h)
{
    double turn = views[0].angle / TURN;
    h->below = h->above = 0;
    for (int64_t k = 0; k < g->views; k++) {
        struct vp_view v = views[k];
        double s[3];
        if (k)
            turn += remainder(v.angle - views[k - 1].angle, TURN) / TURN;
        views[k].turn = g->matrix ? turn : (g->clockwise ? -g->angle[k] : g->angle[k]) / 360;
        vp_view_source(&v, s);
        /* parallel beam: height of the detector's middle */
        height[k] = vp_view_parallel(&v) ? ((double)(g->nv - 1) / 2 - v.P[7]) / v.P[6] : s[2];
        vp_view_raise(&v, height[k]);
        double lo, hi;
        vp_view_axis(g, &v, &lo, &hi);
        h->below -= lo / (double)g->views;
        h->above += hi / (double)g->views;
    }
}

bool vp_path_helix(const struct vp_geom *g, struct vp_view *views, struct vp_scan *scan, double *scratch,
                  struct vp_helix *h)
{
    const int64_t n = g->views;
    double *const height = scratch, *const turns = scratch + n;
    double mean_t = 0, mean_z = 0, tt = 0, tz = 0, lowest = INFINITY, highest = -INFINITY;

    *h = (struct vp_helix){0};
    measure_heights(g, views, height, h);
    for (int64_t k = 0; k < n; k++) {
        turns[k] = views[k].turn;
        mean_t += turns[k] / (double)n;
        mean_z += height[k] / (double)n;
        lowest = fmin(lowest, height[k]);
        highest = fmax(highest, height[k]);
    }
    for (int64_t k = 0; k < n; k++) {
        tt += (turns[k] - mean_t) * (turns[k] - mean_t);
        tz += (turns[k] - mean_t) * (height[k] - mean_z);
    }
    const double seen = h->below + h->above, pitch = tz / tt;
    if (!(seen > 0)) { /* the axis is beside the detector */
        h->below = h->above = 0;
        return false;
    }
    scan->travel = highest - lowest;
    if (!(highest - lowest > seen / LEAST_TRAVEL) || !isfinite(pitch) || pitch == 0)
        return false;
    h->z0 = mean_z - pitch * mean_t;
    for (int64_t k = 0; k < n; k++)
        if (!(fabs(height[k] - h->z0 - pitch * turns[k]) <= fabs(pitch) / EVEN))
            return false;

    vp_sort(turns, (size_t)n, sizeof *turns, vp_by_double);
    const double step = (turns[n - 1] - turns[0]) / (double)(n - 1);
    h->lo = turns[0] - step / 2;
    h->hi = turns[n - 1] + step / 2;
    const double shortest = 1.0 / SHORTEST, rim = sin(fmax(-scan->half_fan_lo, scan->half_fan_hi));
    if (!(h->hi - h->lo > 1 + shortest))
        return false;
    scan->travel = 0;
    h->pitch = pitch;
    h->shortest = shortest;
    h->slope = fmax(shortest, seen / fabs(pitch) * (1 - rim) - 1);
    h->rim = rim;
    const double middle = h->z0 + (h->above - h->below) / 2;
    const double a = middle + pitch * (h->lo + (1 + shortest) / 2), b = middle + pitch * (h->hi - (1 + shortest) / 2);
    h->z_lo = fmin(a, b);
    h->z_hi = fmax(a, b);
    /* trapezoidal rule along the path */
    for (int64_t k = 0; k < n; k++) {
        const double *at = bsearch(&views[k].turn, turns, (size_t)n, sizeof *turns, vp_by_double);
        const double before = at > turns ? at[0] - at[-1] : at[1] - at[0];
        const double after = at < turns + n - 1 ? at[1] - at[0] : before;
        views[k].weight = (before + after) / 2 * TURN;
    }
    return true;
}

/* Returns the image of direction t from the image of the point (0, 0, z), in pixels of equal size in mm. */
static void image_of(const struct vp_view *view, double z, const double t[3], double image[2])
{
    struct vp_view v = *view;
    vp_view_raise(&v, z);
    for (int i = 0; i < 2; i++) {
        const double at = v.P[4 * i + 3] / v.P[11];
        image[i] = 0;
        for (int c = 0; c < 3; c++)
            image[i] += (v.P[4 * i + c] - at * v.P[8 + c]) * t[c];
        image[i] /= fabs(i ? v.fv : v.fu);
    }
}

/* Returns the angle between two lines, radians. */
static double between(const double a[2], const double b[2])
{
    return fabs(atan2(fabs(a[0] * b[1] - a[1] * b[0]), fabs(a[0] * b[0] + a[1] * b[1])));
}

void vp_view_tangent(const struct vp_view *view, double t[3])
{
    t[0] = cos(view->angle);
    t[1] = sin(view->angle);
    t[2] = 0;
}

struct place { double angle, s[3]; int64_t view; };

static int by_place(const void *pa, const void *pb)
{
    const struct place *a = pa, *b = pb;
    if (a->angle != b->angle)
        return a->angle < b->angle ? -1 : 1;
    return (a->view > b->view) - (a->view < b->view);
}

int vp_path_turned(const struct vp_geom *g, const struct vp_view *views, struct vp_scan *scan, struct vp_err *err)
{
    static const double row[2] = {1, 0};
    const int64_t n = g->views;
    int64_t found = 0;
    double lowest = INFINITY, highest = -INFINITY;
    struct place *place = vp_alloc_raw((size_t)n, sizeof *place, "the views' sources", err);
    double *off = vp_alloc_raw((size_t)n, sizeof *off, "the views' sources", err);

    for (int64_t k = 0; place && off && k < n; k++) {
        const struct vp_view *v = &views[k];
        double t[3], image[2];
        place[k] = (struct place){.angle = v->angle, .view = k};
        vp_view_source(v, place[k].s);
        vp_view_tangent(v, t);
        image_of(v, scan->helix.pitch != 0 ? place[k].s[2] : 0, t, image);
        scan->turned = fmax(scan->turned, between(image, row));
        lowest = fmin(lowest, atan2(place[k].s[2], hypot(place[k].s[0], place[k].s[1])));
        highest = fmax(highest, atan2(place[k].s[2], hypot(place[k].s[0], place[k].s[1])));
    }
    if (place && off && scan->helix.pitch == 0)
        vp_sort(place, (size_t)n, sizeof *place, by_place);
    /* the chord between neighbours at both sides is parallel to the path between them */
    for (int64_t k = 0, i = 0, j = 0; place && off && scan->helix.pitch == 0 && k < n; k++) {
        const double at = place[k].angle;
        while (i < k && at - place[i + 1].angle >= NEAR)
            i++;
        while (j < n - 1 && (j < k || place[j].angle - at < NEAR))
            j++;
        if (at - place[i].angle < NEAR || place[j].angle - at < NEAR || place[j].angle - place[i].angle > FAR)
            continue;
        double t[3], chord[3], image[2], model[2];
        for (int c = 0; c < 3; c++)
            chord[c] = place[j].s[c] - place[i].s[c];
        vp_view_tangent(&views[place[k].view], t);
        image_of(&views[place[k].view], 0, chord, image);
        image_of(&views[place[k].view], 0, t, model);
        off[found++] = between(image, model);
    }
    if (found) {
        vp_sort(off, (size_t)found, sizeof *off, vp_by_double);
        scan->astray = off[found / 2];
    }
    if (scan->helix.pitch == 0)
        scan->astray = fmax(scan->astray, (highest - lowest) / 2);
    const int rc = place && off ? 0 : -1;
    free(place);
    free(off);
    return rc;
}

/* Angles to the circle: the largest allowed and the smallest that is significant (radians); tolerance of right angles
 * (degrees). */
static const double MOST_ASTRAY = 15 / VP_DEGREES, LEAST_ASTRAY = 0.005, UPRIGHT = 0.5;

int vp_scan_check(const struct vp_scan *scan, struct vp_err *err)
{
    const struct vp_helix *h = &scan->helix;
    if (scan->travel > (h->below + h->above) / 2 && scan->astray > LEAST_ASTRAY)
        return vp_fail_hint(err, VP_ERUN, "z has to be the axis; reconstruct circles at different heights one by one",
                            "the source moves by %.6g mm along z, and the detector sees %.6g mm of the axis: expected "
                            "a circle, or a helix of even pitch and more than %g turns", scan->travel,
                            h->below + h->above, 1 + 1.0 / SHORTEST);
    if (scan->astray > MOST_ASTRAY)
        return vp_fail_hint(err, VP_ERUN, "z has to be the axis of the circle: turn the matrices, or take the views of "
                            "one circle", "the source path leaves a circle or helix about z by %.3g degrees: views "
                            "cannot be filtered along it", scan->astray * VP_DEGREES);
    if (h->pitch != 0 && vp_scan_turned(scan) && fabs(scan->turned * VP_DEGREES - 90) > UPRIGHT)
        return vp_fail_hint(err, VP_ERUN, "turn the images first, so that their rows are across the axis",
                            "the source moves on a helix, and the detector's rows are turned %.4g degrees from its "
                            "path: expected at most 10, or 90", scan->turned * VP_DEGREES);
    if (h->pitch != 0 && fabs(h->pitch) > 2 * (h->below + h->above))
        return vp_fail_hint(err, VP_ERUN, "a pitch of up to the detector's height at the axis is reconstructed well",
                            "the helix moves %.6g mm per turn, the detector sees %.6g mm of the axis: expected at most "
                            "twice that", fabs(h->pitch), h->below + h->above);
    return 0;
}
