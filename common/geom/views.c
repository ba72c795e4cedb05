/* SPDX-License-Identifier: BSD-3-Clause */
/* From a geometry to one matrix a view, its decomposition, and the scan that the views make.
 *
 * Circular matrices: Chen et al., iFDK (SC19), eq. 2-3, up to index flips; the tilt turns the detector in its
 * plane about the foot of the central ray. General matrices are decomposed as P = K [R | t] with K upper
 * triangular (Hartley and Zisserman, Multiple View Geometry, 6.2.4), by Gram-Schmidt from the last row up.
 * Angular weights are the trapezoidal rule on the circle, equal angles sharing one weight. */
#include "geom/draft.h"
#include "base/err.h"
#include "base/size.h"
#include "base/sort.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double PI = 3.14159265358979323846;

void vp_sincosd(double degrees, double *s, double *c)
{
    const double r = remainder(degrees, 360);
    const double quarter = nearbyint(r / 90);
    const double t = (r - 90 * quarter) * (PI / 180);
    const double turned[4] = {sin(t), cos(t), -sin(t), -cos(t)};
    *s = turned[(int)quarter & 3];
    *c = turned[((int)quarter + 1) & 3];
}

static double turn(double degrees)
{
    const double r = fmod(degrees, 360);
    return (r < 0 ? r + 360 : r + 0.0) * (PI / 180);
}

void vp_geom_range(const struct vp_geom *g, double *lo, double *hi)
{
    *lo = INFINITY;
    *hi = -INFINITY;
    for (int64_t k = 0; k < g->views; k++) {
        *lo = fmin(*lo, g->angle[k]);
        *hi = fmax(*hi, g->angle[k]);
    }
}

/* Returns the middle of the angles, which is at z = 0 on a helix. */
double vp_geom_middle(const struct vp_geom *g)
{
    double lo, hi;
    vp_geom_range(g, &lo, &hi);
    return (lo + hi) / 2;
}

void vp_view_raise(struct vp_view *v, double z)
{
    for (int i = 0; i < 12; i += 4)
        v->P[i + 3] += v->P[i + 2] * z;
}

/* Makes the matrix of a detector perpendicular to the axis, `columns` along x. On its plane, which contains the foot of
 * the central ray, u is (x - foot) / du, x being the intersection with the ray from the source through (x, y, z). */
static void fixed_from_geom(const struct vp_geom *g, double sb, double cb, double m[12])
{
    double st, ct, sl, cl;
    vp_sincosd(g->tilt, &st, &ct);
    vp_sincosd(g->lamino, &sl, &cl);
    const double toward[2] = {-sb * cl, cb * cl}, w[4] = {0, 0, -1, g->sod * sl}; /* depth below the source */
    for (int c = 0; c < 4; c++) {
        double from[2]; /* the foot on the plane, times the depth */
        for (int i = 0; i < 2; i++)
            from[i] = g->sdd * (toward[i] * w[c] + sl * (c == i ? 1 : c == 3 ? -g->sod * toward[i] : 0));
        const double p = from[0], q = from[1];
        m[c] = (ct * p + st * q) / g->du + ((double)(g->nu - 1) / 2 + g->offset_u) * w[c];
        m[4 + c] = (ct * q - st * p) / g->dv + ((double)(g->nv - 1) / 2 + g->offset_v) * w[c];
        m[8 + c] = w[c];
    }
}

/* Makes the matrix of a view of the circle with the source elevated by `lamino`. */
static void tilted_from_geom(const struct vp_geom *g, double sb, double cb, double m[12])
{
    const bool cone = g->beam == VP_CONE;
    const double fu = (cone ? g->sdd : 1) / g->du, fv = (cone ? g->sdd : 1) / g->dv;
    double st, ct, sl, cl;
    vp_sincosd(g->tilt, &st, &ct);
    vp_sincosd(g->lamino, &sl, &cl);
    const double across[4] = {cb, sb, 0, 0}, up[4] = {sl * sb, -sl * cb, cl, 0};
    const double depth[4] = {cone ? cl * sb : 0, cone ? -cl * cb : 0, cone ? -sl : 0, cone ? g->sod : 1};
    for (int i = 0; i < 4; i++) {
        m[i] = fu * (ct * across[i] + st * up[i]) + ((double)(g->nu - 1) / 2 + g->offset_u) * depth[i];
        m[4 + i] = fv * (ct * up[i] - st * across[i]) + ((double)(g->nv - 1) / 2 + g->offset_v) * depth[i];
        m[8 + i] = depth[i];
    }
}

/* Makes view k; `middle` is that of the angles, for a helix. */
static const char *view_from_geom(const struct vp_geom *g, int64_t k, double middle, struct vp_view *v)
{
    const bool cone = g->beam == VP_CONE;
    const double degrees = g->clockwise ? -g->angle[k] : g->angle[k];
    double sb, cb, st, ct;
    vp_sincosd(degrees, &sb, &cb);
    vp_sincosd(g->tilt, &st, &ct);
    if (g->lamino != 0 || g->fixed) {
        double m[12];
        (g->fixed ? fixed_from_geom : tilted_from_geom)(g, sb, cb, m);
        return vp_view_from_matrix(v, m);
    }

    *v = (struct vp_view){
        .angle = turn(degrees),
        .fu = (cone ? g->sdd : 1) / g->du,
        .fv = (cone ? g->sdd : 1) / g->dv,
        .cu = (double)(g->nu - 1) / 2 + g->offset_u,
        .cv = (double)(g->nv - 1) / 2 + g->offset_v,
        .sod = cone ? g->sod : 0,
    };
    const double across[4] = {cb, sb, 0, 0}, up[4] = {0, 0, 1, 0};
    const double depth[4] = {cone ? sb : 0, cone ? -cb : 0, 0, cone ? g->sod : 1};
    for (int i = 0; i < 4; i++) {
        v->P[i] = v->fu * (ct * across[i] + st * up[i]) + v->cu * depth[i];
        v->P[4 + i] = v->fv * (ct * up[i] - st * across[i]) + v->cv * depth[i];
        v->P[8 + i] = depth[i];
    }
    if (g->pitch_z != 0)
        vp_view_raise(v, -g->pitch_z * (g->angle[k] - middle) / 360);
    return NULL;
}

const char *vp_view_of(const struct vp_geom *g, int64_t k, double middle, struct vp_view *v)
{
    return g->matrix ? vp_view_from_matrix(v, &g->matrix[12 * k]) : view_from_geom(g, k, middle, v);
}

static void cross3(const double *a, const double *b, double *c)
{
    c[0] = a[1] * b[2] - a[2] * b[1];
    c[1] = a[2] * b[0] - a[0] * b[2];
    c[2] = a[0] * b[1] - a[1] * b[0];
}

/* Returns the component of `row` perpendicular to the unit vector r; false if it is only rounding error. */
static bool split(const double *row, const double *r, double *along, double unit[3], double *len)
{
    *along = r ? vp_dot3(row, r) : 0;
    for (int i = 0; i < 3; i++)
        unit[i] = row[i] - (r ? *along * r[i] : 0);
    *len = sqrt(vp_dot3(unit, unit));
    if (!(*len > 1e-9 * sqrt(vp_dot3(row, row))))
        return false;
    for (int i = 0; i < 3; i++)
        unit[i] /= *len;
    return true;
}

static const char *parallel_from_matrix(struct vp_view *v)
{
    double r1[3], r2[3], d[3], skew, unused;
    const double w = v->P[11];
    for (int i = 0; i < 12; i++)
        v->P[i] /= w;
    if (!split(&v->P[4], NULL, &unused, r2, &v->fv) || !split(&v->P[0], r2, &skew, r1, &v->fu))
        return "the matrix is singular";
    if (r2[2] < 0) {
        v->fv = -v->fv;
        for (int i = 0; i < 3; i++)
            r2[i] = -r2[i];
    }
    cross3(r1, r2, d);
    v->angle = atan2(d[0], -d[1]);
    v->cu = v->P[3];
    v->cv = v->P[7];
    v->sod = 0;
    return NULL;
}

static const char *cone_from_matrix(struct vp_view *v)
{
    double *const P = v->P;
    double r1[3], r2[3], r3[3], skew, unused, len;
    if (!split(&P[8], NULL, &unused, r3, &len))
        return "the matrix is singular";
    if (!(fabs(P[11]) > 1e-9 * len))
        return "the origin lies in the plane of the source: the depth there must not be 0";
    /* P is known up to a factor: depth in mm, positive at the origin. */
    const double scale = (P[11] < 0 ? -1 : 1) / len;
    for (int i = 0; i < 12; i++)
        P[i] *= scale;
    for (int i = 0; i < 3; i++)
        r3[i] = P[8 + i];
    if (!split(&P[4], r3, &v->cv, r2, &v->fv))
        return "the matrix is singular";
    double across[3], rest[3];
    v->cu = vp_dot3(&P[0], r3);
    for (int i = 0; i < 3; i++)
        across[i] = P[i] - v->cu * r3[i];
    if (!split(across, r2, &skew, r1, &v->fu) || !(v->fu > 1e-9 * sqrt(vp_dot3(P, P))))
        return "the matrix is singular";
    v->sod = P[11];

    double s[3];
    rest[2] = P[11];
    rest[1] = (P[7] - v->cv * rest[2]) / v->fv;
    rest[0] = (P[3] - skew * rest[1] - v->cu * rest[2]) / v->fu;
    for (int i = 0; i < 3; i++)
        s[i] = -(rest[0] * r1[i] + rest[1] * r2[i] + rest[2] * r3[i]);
    /* A source on the axis has no angle: use the direction of the central ray. */
    v->angle = hypot(s[0], s[1]) > 1e-9 * v->sod ? atan2(-s[0], s[1]) : atan2(r3[0], -r3[1]);
    if (r1[0] * cos(v->angle) + r1[1] * sin(v->angle) < -1e-6)
        v->fu = -v->fu;
    if (r2[2] < -1e-6)
        v->fv = -v->fv;
    return NULL;
}

/* True if everything derived from the matrix stays within the range of float. */
static bool sensible(const struct vp_view *v)
{
    bool good = true;
    for (int i = 0; i < 12; i++)
        good &= fabs(v->P[i]) <= VP_GEOM_LARGEST * VP_GEOM_LARGEST;
    const double length[] = {v->fu, v->fv, v->cu, v->cv, v->sod};
    for (int i = 0; i < 5; i++)
        good &= fabs(length[i]) <= VP_GEOM_LARGEST;
    return good && fabs(v->fu) >= 1e-9 && fabs(v->fv) >= 1e-9 && (vp_view_parallel(v) || v->sod >= 1e-9) &&
           isfinite(v->angle);
}

const char *vp_view_from_matrix(struct vp_view *view, const double m[12])
{
    *view = (struct vp_view){0};
    for (int i = 0; i < 12; i++) {
        if (!isfinite(m[i]))
            return "the matrix has a number that is not finite";
        view->P[i] = m[i];
    }
    const bool parallel = m[8] == 0 && m[9] == 0 && m[10] == 0;
    if (parallel && m[11] == 0)
        return "the matrix is singular";
    const char *wrong = parallel ? parallel_from_matrix(view) : cone_from_matrix(view);
    if (!wrong && !sensible(view))
        wrong = "the matrix is singular, or its numbers are too large or too small to compute with";
    if (view->angle < 0)
        view->angle += 2 * PI;
    return wrong;
}

/* Solves M x = b, M the left 3x3 part of P, by the adjugate, without the factor 1 / det, which is returned. */
static double solve3(const double P[12], const double b[3], double x[3])
{
    double c12[3], c20[3], c01[3];
    cross3(&P[4], &P[8], c12);
    cross3(&P[8], &P[0], c20);
    cross3(&P[0], &P[4], c01);
    for (int i = 0; i < 3; i++)
        x[i] = b[0] * c12[i] + b[1] * c20[i] + b[2] * c01[i];
    return 1 / vp_dot3(&P[0], c12);
}

void vp_view_source(const struct vp_view *view, double s[3])
{
    const double *P = view->P;
    if (vp_view_parallel(view)) {
        cross3(&P[0], &P[4], s);
        const double n = sqrt(vp_dot3(s, s)) * (s[0] * sin(view->angle) - s[1] * cos(view->angle) > 0 ? -1 : 1);
        for (int i = 0; i < 3; i++)
            s[i] /= n;
        return;
    }
    const double b[3] = {-P[3], -P[7], -P[11]};
    const double f = solve3(P, b, s);
    for (int i = 0; i < 3; i++)
        s[i] *= f;
}

void vp_view_rays(const struct vp_view *view, double y[3][3])
{
    const bool parallel = vp_view_parallel(view);
    const double *A = &view->P[0], *B = &view->P[4], *C = &view->P[8];
    double s[3];
    if (parallel) {
        vp_view_source(view, s);
        C = s;
    }
    cross3(B, C, y[0]);
    cross3(C, A, y[1]);
    cross3(A, B, y[2]);
    const double det = vp_dot3(C, y[2]);
    for (int i = 0; i < 3; i++) {
        y[0][i] /= det;
        y[1][i] /= det;
        y[2][i] = parallel ? -view->P[3] * y[0][i] - view->P[7] * y[1][i] : y[2][i] / det;
    }
}

double vp_view_fan(const struct vp_view *view, double u)
{
    const double *P = view->P;
    if (vp_view_parallel(view))
        return (u - view->cu) / view->fu;
    const double b[3] = {u, P[7] / P[11], 1};
    double d[3];
    const double f = solve3(P, b, d);
    const double s = sin(view->angle), c = cos(view->angle);
    return atan2(f * (d[0] * c + d[1] * s), f * (d[0] * s - d[1] * c));
}

/* --- the scan ------------------------------------------------------------------------------------ */

struct stop { double angle; int64_t view; };      /* a view on the circle */

static int by_angle(const void *pa, const void *pb)
{
    const struct stop *a = pa, *b = pb;
    if (a->angle != b->angle)
        return a->angle < b->angle ? -1 : 1;
    return (a->view > b->view) - (a->view < b->view);
}

/* `least`: gaps that are longer are open; `second`: the longest gap that is not open. */
struct circle { bool open; double largest, second, step, start, least, missing; int64_t groups, gaps; };

/* A gap is open if it exceeds both `longer` radians and `many` typical gaps. `all`: every such gap, not only the
 * largest. */
struct rule { double longer, many; bool all; };

/* Sorts the views on a circle of `period` radians and sets their weights. `stops` and `gaps` are scratch of n and 2 n
 * entries. */
static struct circle weight_views(struct vp_view *views, int64_t n, double period, struct rule rule, struct stop *stops,
                                  double *gaps)
{
    /* Angles that differ by a tiny part of the mean step are one direction, measured several times. */
    const double same = 1e-4 * period / (double)n;
    for (int64_t k = 0; k < n; k++) {
        double a = fmod(views[k].angle, period);
        if (a > period - same)
            a -= period;
        stops[k] = (struct stop){a, k};
    }
    vp_sort(stops, (size_t)n, sizeof *stops, by_angle);

    int64_t groups = 0, last = 0;
    double *const sorted = gaps + n;
    for (int64_t k = 1; k <= n; k++) {
        const double gap = (k < n ? stops[k].angle : stops[0].angle + period) - stops[last].angle;
        if (k < n && gap <= same)
            continue;
        gaps[groups++] = gap;
        last = k;
    }

    memcpy(sorted, gaps, (size_t)groups * sizeof *gaps);
    vp_sort(sorted, (size_t)groups, sizeof *sorted, vp_by_double);
    const double largest = sorted[groups - 1], typical = sorted[(groups - 1) / 2];
    const double least = fmax(rule.longer, rule.many * typical) * (1 + 1e-9);
    struct circle c = {.open = largest > least, .largest = largest, .groups = groups};
    if (groups > 1) {
        /* median of all but the last gap, which closes the circle */
        const int64_t middle = (groups - 2) / 2;
        c.step = sorted[middle] < gaps[groups - 1] ? sorted[middle] : sorted[middle + 1];
        int64_t closed = groups - 2;
        while (rule.all && closed > 0 && sorted[closed] > least)
            closed--;
        c.second = sorted[closed];
    }
    int64_t widest = 0;
    while (gaps[widest] != largest)
        widest++;
    const int64_t next = (widest + 1) % groups;
    c.least = !c.open ? INFINITY : rule.all ? least : largest * (1 - 1e-9);
    c.missing = c.open ? period : 0;

    int64_t k = 0;
    for (int64_t i = 0; i < groups; i++) {
        int64_t end = k + 1;
        while (end < n && stops[end].angle - stops[k].angle <= same)
            end++;
        const int64_t before = (i + groups - 1) % groups;
        double lo = gaps[before], hi = gaps[i];
        if (c.open && groups > 1) {
            /* The ends of an arc have the weight of a full local step. */
            const bool ends = rule.all ? hi > least : i == widest, begins = rule.all ? lo > least : i == next;
            hi = !ends ? hi : begins && rule.all ? typical : gaps[before];
            lo = !begins ? lo : ends && rule.all ? typical : gaps[i];
            c.gaps += ends;
            c.missing -= 0.5 * (lo + hi);
        }
        if (i == next)
            c.start = views[stops[k].view].angle;
        for (int64_t j = k; j < end; j++)
            views[stops[j].view].weight = 0.5 * (lo + hi) / (double)(end - k);
        k = end;
    }
    return c;
}

double vp_view_column(const struct vp_geom *g, const struct vp_view *view, double u)
{
    double v = view->cv;
    if (g->curved)
        vp_view_flatten(view, &u, &v);
    return u;
}

/* Fills the scan's fields on the detector's sides. True if the detector sees one side of the axis less far than the
 * other, over all views together, since single views may be shifted. */
static bool measure_detector(const struct vp_geom *g, const struct vp_view *views, struct vp_scan *scan)
{
    const double nu = (double)g->nu;
    double sides[2] = {0, 0};
    scan->overlap = scan->half_fan_lo = INFINITY;
    scan->half_fan_hi = -INFINITY;
    for (int64_t k = 0; k < g->views; k++) {
        const struct vp_view *v = &views[k];
        const double center = v->P[3] / v->P[11];
        const double left = center + 0.5, right = nu - 0.5 - center;
        scan->overlap = fmin(scan->overlap, fmin(left, right));
        scan->larger = fmax(scan->larger, fmax(left, right));
        sides[0] += left / (double)g->views;
        sides[1] += right / (double)g->views;
        if (vp_view_parallel(v))
            continue;
        const double a = vp_view_fan(v, vp_view_column(g, v, 0)), b = vp_view_fan(v, vp_view_column(g, v, nu - 1));
        scan->half_fan_lo = fmin(scan->half_fan_lo, fmin(a, b));
        scan->half_fan_hi = fmax(scan->half_fan_hi, fmax(a, b));
    }
    if (g->beam == VP_PARALLEL)
        scan->half_fan_lo = scan->half_fan_hi = 0;
    return scan->overlap < 0.9 * scan->larger && fmin(sides[0], sides[1]) < 0.9 * fmax(sides[0], sides[1]) * (1 + 1e-9);
}

static void classify_orbit(const struct vp_geom *g, const struct vp_view *views, struct vp_scan *scan)
{
    double mean = 0;
    scan->circular = scan->untilted = true;
    for (int64_t k = 0; k < g->views; k++)
        mean += views[k].sod / (double)g->views;
    for (int64_t k = 0; k < g->views; k++) {
        const struct vp_view *v = &views[k];
        double s[3];
        vp_view_source(v, s);
        if (g->beam == VP_PARALLEL) {
            scan->circular &= fabs(s[2]) <= 1e-6;
        } else {
            const double r = sqrt(vp_dot3(s, s));
            scan->circular &= fabs(s[2]) <= 1e-6 * r && fabs(r - mean) <= 1e-6 * mean;
            for (int i = 0; i < 3; i++)
                scan->circular &= fabs(v->P[8 + i] + s[i] / r) <= 1e-6;
        }
        scan->untilted &= fabs(v->P[2]) <= 1e-9 * fabs(v->fu) && fabs(v->P[10]) <= 1e-9;
    }
}

/* Computes the weights of the views and the kind of scan. */
static int make_scan(const struct vp_geom *g, struct vp_view *views, struct vp_scan *scan, struct vp_err *err)
{
    const size_t n = (size_t)g->views;
    struct stop *stops = vp_alloc_raw(n, sizeof *stops, "the views' angles", err);
    double *gaps = vp_alloc_raw(n, 2 * sizeof *gaps, "the views' angles", err);
    if (!stops || !gaps) {
        free(stops);
        free(gaps);
        return -1;
    }

    *scan = (struct vp_scan){.curved = g->curved};
    const bool one_sided = measure_detector(g, views, scan);
    classify_orbit(g, views, scan);
    if (g->views > 2 && vp_path_helix(g, views, scan, gaps, &scan->helix)) {
        const double step = (scan->helix.hi - scan->helix.lo) / (double)g->views * 2 * PI;
        *scan = (struct vp_scan){.kind = VP_SCAN_FULL, .arc = 2 * PI, .start = views[0].angle, .largest_gap = step,
                                 .half_fan_lo = scan->half_fan_lo, .half_fan_hi = scan->half_fan_hi,
                                 .overlap = scan->overlap, .larger = scan->larger, .step = step, .widest = step,
                                 .directions = (int64_t)fmin(ceil(2 * PI / step - 1e-6), (double)g->views),
                                 .offset = one_sided, .curved = g->curved, .untilted = scan->untilted,
                                 .helix = scan->helix};
        free(stops);
        free(gaps);
        return vp_path_turned(g, views, scan, err);
    }

    /* A gap is covered from the opposite side, unless the detector sees only one side of the axis: there the views at
     * both ends of a small gap replace it, and the filter's weights handle larger ones. */
    const bool filled = !one_sided && g->beam == VP_CONE;
    const struct rule whole = {(filled ? 1 : 20) * PI / 180, filled ? 2.75 : 4, .all = one_sided};
    struct circle c = weight_views(views, g->views, 2 * PI, whole, stops, gaps);
    const bool turn = c.largest < 2 * PI / 3 * (1 - 1e-9); /* except for its gaps */
    double period = 2 * PI;
    scan->kind = c.open ? VP_SCAN_SHORT : VP_SCAN_FULL;
    scan->directions = c.groups;
    scan->step = c.step;
    scan->widest = c.open ? c.second : c.largest;
    /* Opposite views of a parallel beam are mirror images: the half circle is enough, unless the detector sees only one
     * side of the axis and the opposite views complete it. Only the views at its ends can replace a gap; beyond 50
     * degrees their weight would be too large. */
    if (g->beam == VP_PARALLEL && !(one_sided && (turn || !c.open))) {
        period = PI;
        c = weight_views(views, g->views, PI, (struct rule){50 * PI / 180, 4, false}, stops, gaps);
        scan->kind = VP_SCAN_PARALLEL;
    } else if (one_sided && c.open && !turn) {
        c = weight_views(views, g->views, 2 * PI, (struct rule){whole.longer, whole.many, false}, stops, gaps);
        scan->widest = c.second;
    }
    scan->largest_gap = c.largest;
    scan->arc = c.open ? period - c.largest : period;
    scan->start = c.open ? c.start : views[0].angle;
    scan->gaps = c.gaps;
    scan->gap = c.least;
    scan->missing = c.missing;
    scan->offset = scan->kind != VP_SCAN_PARALLEL && one_sided && (turn || !c.open);
    free(stops);
    free(gaps);
    return vp_path_turned(g, views, scan, err);
}

int vp_geom_views(const struct vp_geom *g, struct vp_view **views, struct vp_scan *scan, struct vp_err *err)
{
    struct vp_scan unasked;
    const char *wrong = NULL;
    const double middle = vp_geom_middle(g);
    if (vp_memory_claim((uint64_t)g->views * VP_GEOM_VIEW_BYTES, "its views", "geometry", err))
        return -1;
    struct vp_view *v = vp_alloc((size_t)g->views, sizeof *v, "the views' matrices", err);
    for (int64_t k = 0; v && !wrong && k < g->views; k++) {
        wrong = vp_view_of(g, k, middle, &v[k]);
        if (!wrong && !sensible(&v[k]))
            wrong = "the numbers of the geometry are too large or too small to compute with";
        if (wrong)
            vp_fail(err, VP_ERUN, "geometry: view %lld: %s", (long long)k, wrong);
    }
    if (!v || wrong || make_scan(g, v, scan ? scan : &unasked, err)) {
        free(v);
        return -1;
    }
    *views = v;
    return 0;
}

void vp_view_on_grid(const struct vp_view *view, const struct vp_grid *grid, double Pv[12])
{
    for (int row = 0; row < 3; row++) {
        const double *p = &view->P[4 * row];
        double shift = p[3];
        for (int i = 0; i < 3; i++) {
            Pv[4 * row + i] = p[i] * grid->voxel[i];
            shift += p[i] * (grid->center[i] - (double)(grid->n[i] - 1) / 2 * grid->voxel[i]);
        }
        Pv[4 * row + 3] = shift;
    }
}
