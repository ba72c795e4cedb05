/* SPDX-License-Identifier: BSD-3-Clause */
/* Rays that are measured twice, and their weights. Short scans: Parker, Med. Phys. 9 (1982) 254, for longer arcs as
 * Silver, Med. Phys. 27 (2000) 773, and Wesarg et al., Med. Phys. 29 (2002) 372, generalised him. Offset detector:
 * Wang, Med. Phys. 29 (2002) 1634, and where views are missing, ray by ray (below). The fan angle g that these weights
 * need grows with the gantry angle b: the ray's direction is b + g, and (b, g) is measured again at (b + pi + 2 g, -g).
 * Both are taken from the matrices, so neither the sense of rotation nor a mirrored detector can turn it round. */
#include "ct/filter_internal.h"

#include "base/err.h"
#include "base/size.h"
#include "base/sort.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static double square(double x) { return x * x; }

/* Returns the position of the view in the arc, radians from its start. */
static double arc_position(double angle, const struct vp_scan *scan)
{
    double b = fmod(angle - scan->start, 2 * M_PI);

    if (b < 0)
        b += 2 * M_PI;
    if (b > scan->arc)                 /* in the gap by rounding: to the nearer end */
        b = b - scan->arc < 2 * M_PI - b ? scan->arc : 0;
    return b;
}

/* Rises from 0 to 1 as t does. */
static double smooth_step(double t)
{
    return t <= 0 ? 0 : t >= 1 ? 1 : square(sin(M_PI / 2 * t));
}

/* Returns the weight of a ray `from` the arc's nearer end, if those up to `common` from it are measured again near the
 * other end: Parker's where `common` is no longer than `slope`, else Wesarg's, one half between two slopes of that
 * length. The other measurement is common - from from its end, and has the rest. */
static double shared(double from, double common, double slope)
{
    if (common <= slope)
        return square(sin(M_PI / 2 * from / common));
    return 0.5 * (smooth_step(from / slope) + smooth_step((from - common) / slope + 1));
}

/* Slopes are as long as Parker's are for the shortest arc that this fan allows, or 30 degrees. */
static double parker(double b, double g, const struct vp_scan *scan)
{
    const double d = (scan->arc - M_PI) / 2, slope = fmax(4 * fmax(-scan->half_fan_lo, scan->half_fan_hi), M_PI / 6);

    if (b < 2 * (d - g))
        return shared(b, 2 * (d - g), slope);
    if (b > M_PI - 2 * g && d + g > 0)
        return shared(scan->arc - b, 2 * (d + g), slope);
    return 1;
}

/* For an arc that Parker's weights do not fit: smooth over the ends, shared by what was measured twice. */
static double shared_smoothly(double b, double g, const struct vp_scan *scan)
{
    const double fan = fmax(-scan->half_fan_lo, scan->half_fan_hi), ramp = (scan->arc - M_PI) / 2 + fan;
    double other = b + M_PI + 2 * g;

    if (other >= 2 * M_PI)
        other -= 2 * M_PI;
    if (other > scan->arc || ramp <= 0)
        return 1;
    const double end_b = fmin(b, scan->arc - b), end_o = fmin(other, scan->arc - other);
    const double cb = end_b < ramp ? square(sin(M_PI / 2 * end_b / ramp)) : 1;
    const double co = end_o < ramp ? square(sin(M_PI / 2 * end_o / ramp)) : 1;
    return cb + co > 0 ? cb / (cb + co) : 0.5;
}

/* Returns Wang's weight of fan angle g, with g and the fan angle `limit` of the overlap's edge, positive towards the
 * side that sees further. Up to `flat` both sides count for one half. */
static double wang(double g, double limit, double flat)
{
    if (g >= limit)
        return 1;
    if (g <= -limit)
        return 0;
    if (flat > 0)
        return 0.5 * (1 + copysign(smooth_step((fabs(g) - flat) / (limit - flat)), g));
    return 0.5 * (1 + sin(M_PI / 2 * g / limit));
}

/* ---- an offset detector with gaps ---- */

/* A part of the circle that no view covers: from half a step after one view to half a step before the next. The two
 * stand in for it. */
struct gap {
    double from, length;         /* radians */
    double view[2], step[2];     /* angle and local step of the views at its ends */
};

/* Quantities that the weights of rays depend on. `limit`, `flat`: those of wang_limit. */
struct rays {
    struct gap *gap;
    int64_t gaps;
    double limit, flat;
    double alone; /* fan angle, from the edge of the overlap inwards, over which rays hand over to those of a gap */
    bool parallel;
};

enum { BRIDGE_POINTS = 160 };
static const double SLOPE = M_PI / 6, FLOOR = 0.005;

struct place { double angle, weight; int64_t view; };

static int by_angle(const void *pa, const void *pb)
{
    const struct place *a = pa, *b = pb;

    if (a->angle != b->angle)
        return a->angle < b->angle ? -1 : 1;
    return (a->view > b->view) - (a->view < b->view);
}

/* Returns the weight of all views at the angle of the i-th, of n in order, seen from it towards `by`: a full local
 * step. */
static double local_step(const struct place *at, int64_t n, int64_t i, int64_t by, double near)
{
    double sum = 0;

    for (int64_t k = 0; k < n; k++) {
        const struct place *other = &at[((i + k * by) % n + n) % n];
        if (fabs(remainder(other->angle - at[i].angle, 2 * M_PI)) > near)
            break;
        sum += other->weight;
    }
    return sum;
}

static int find_gaps(struct rays *r, const struct vp_view *views, int64_t n, const struct vp_scan *scan,
                     struct vp_err *err)
{
    struct place *at = vp_alloc_raw((size_t)n, sizeof *at, "the gaps between views", err);

    r->gap = vp_alloc((size_t)scan->gaps, sizeof *r->gap, "the gaps between views", err);
    if (!at || !r->gap) {
        free(at);
        return -1;
    }
    for (int64_t k = 0; k < n; k++)
        at[k] = (struct place){fmod(views[k].angle, 2 * M_PI), views[k].weight, k};
    vp_sort(at, (size_t)n, sizeof *at, by_angle);
    for (int64_t k = 0; k < n && r->gaps < scan->gaps; k++) {
        const int64_t next = (k + 1) % n;
        const double width = at[next].angle - at[k].angle + (next ? 0 : 2 * M_PI);
        if (!(width > scan->gap))
            continue;
        const double before = local_step(at, n, k, -1, 1e-3 * width), after = local_step(at, n, next, 1, 1e-3 * width);
        const double length = width - 0.5 * (before + after);
        r->gap[r->gaps++] = (struct gap){at[k].angle + 0.5 * before, length, {at[k].angle, at[next].angle},
                                         {before, after}};
    }
    free(at);
    return 0;
}

/* Returns the distance of angle b from the gaps: 0 within one, 1 from SLOPE on. */
static double confidence(const struct rays *r, double b)
{
    double least = SLOPE;

    for (int64_t i = 0; i < r->gaps; i++) {
        double past = fmod(b - r->gap[i].from, 2 * M_PI);
        past += past < 0 ? 2 * M_PI : 0;
        least = fmin(least, past < r->gap[i].length ? 0 : fmin(past - r->gap[i].length, 2 * M_PI - past));
    }
    return FLOOR + (1 - FLOOR) * smooth_step(least / SLOPE);
}

/* Returns the weight of a ray if a view was in the gap: the overlap's rays are measured from the other side, those
 * beyond it are not. A step from the one to the other would ring. */
static double in_gap(const struct rays *r, double g)
{
    return smooth_step((g - r->limit) / r->alone + 1);
}

/* Returns the share of ray (b, g), of confidence `own` by its angle, in the measurement by it and (b + pi + 2 g, -g):
 * wang's where both are as good, or neither is there; where one is missing the other's is its complement. g is positive
 * towards the side that sees further (`turn`: 1 or -1, the sign that it has by the matrix there). */
static double share(const struct rays *r, double own, double b, double g, double turn)
{
    const double other = confidence(r, b + M_PI + (r->parallel ? 0 : 2 * g * turn)), both = wang(g, r->limit, r->flat);

    return own < other ? both + (1 - own / other) * (in_gap(r, g) - both)
                       : both + (1 - other / own) * (1 - in_gap(r, -g) - both);
}

/* Returns the weight at fan angle g in the view at angle b: its share, and its part of gaps beside it, by linear
 * interpolation between the views at their ends. */
static double by_ray(const struct rays *r, double b, double g, double turn)
{
    double weight = share(r, confidence(r, b), b, g, turn);

    for (int64_t i = 0; i < r->gaps; i++)
        for (int end = 0; end < 2; end++) {
            const struct gap *gap = &r->gap[i];
            if (fabs(remainder(b - gap->view[end], 2 * M_PI)) > 0.25 * gap->step[end])
                continue;
            const double width = gap->length + 0.5 * (gap->step[0] + gap->step[1]);
            double sum = 0;
            for (int k = 0; k < BRIDGE_POINTS; k++) {
                const double at = gap->length * (k + 0.5) / BRIDGE_POINTS, far = (at + 0.5 * gap->step[0]) / width;
                sum += (end ? far : 1 - far) * share(r, FLOOR, gap->from + at, g, turn);
            }
            weight += sum * gap->length / BRIDGE_POINTS / gap->step[end];
        }
    return weight;
}

/* ---- fan angles ---- */

/* The angle about z of pixel (u, v)'s ray from that through the origin, positive along (cos b, sin b, 0): its tangent
 * is the quotient of two numbers linear in (u, v). Parallel: the distance from the origin; the second is 1. */
struct fan { double across[3], ahead[3]; };

static struct fan fan_of(const struct vp_view *view)
{
    const double s = sin(view->angle), c = cos(view->angle);
    const bool parallel = vp_view_parallel(view);
    double y[3][3];
    struct fan fan;

    vp_view_rays(view, y);
    for (int i = 0; i < 3; i++) {
        fan.across[i] = y[i][0] * c + y[i][1] * s;
        fan.ahead[i] = parallel ? i == 2 : y[i][0] * s - y[i][1] * c;
    }
    return fan;
}

static double linear(const double a[3], double u, double v)
{
    return a[0] * u + a[1] * v + a[2];
}

static double tangent(const struct fan *fan, double u, double v)
{
    return linear(fan->across, u, v) / linear(fan->ahead, u, v);
}

/* Sets the fan angles of the detector's two sides, to the edges of the pixels: of all rows the nearest to the axis. */
static void sides(const struct vp_filter *f, const struct vp_view *view, bool tilted, double *lo, double *hi)
{
    const double edge[2] = {-0.5, (double)f->t.nu - 0.5};
    double at[2];

    for (int i = 0; i < 2; i++) {
        at[i] = vp_view_fan(view, edge[i]);
        if (!tilted)
            continue;
        const struct fan fan = fan_of(view);
        const bool parallel = vp_view_parallel(view);
        const double t0 = tangent(&fan, edge[i], 0), t1 = tangent(&fan, edge[i], (double)(f->t.nv - 1));
        const double t = at[i] < 0 ? fmax(t0, t1) : fmin(t0, t1);
        at[i] = parallel ? t : atan(t);
    }
    *lo = fmin(at[0], at[1]);
    *hi = fmax(at[0], at[1]);
}

/* Returns the fan angle up to which both sides of the detector see in all views and, if it is tilted, in all rows.
 * Filtered along tilted rows, only views of equal weight make up for each other where the object changes along z: there
 * both sides count for one half in three quarters of the overlap, or in all but the outer 8 pixels of a narrow one. */
static double wang_limit(struct vp_filter *f, const struct vp_view *views, bool tilted, double *flat)
{
    double limit = INFINITY, pixel = 0;

    *flat = 0;

    for (int64_t k = 0; k < f->t.views; k++) {
        double lo, hi;
        sides(f, &views[k], tilted, &lo, &hi);
        limit = fmin(limit, fmin(-lo, hi));
        pixel = fmax(pixel, (hi - lo) / (double)f->t.nu);
    }
    if (tilted)
        *flat = fmax(0, limit - fmax(limit / 4, 8 * pixel));
    if (limit >= pixel)
        return limit;
    snprintf(f->t.warning, sizeof f->t.warning,
             "the tilted detector does not reach past the rotation axis in all its rows: some rays are missing");
    return pixel;
}

/* Extends rows by the ramp's tails on the side that the detector does not see: they belong to the result, as far out as
 * the other side sees. */
static void extend(struct vp_filter *f, const struct vp_view *views, bool tilted)
{
    for (int64_t k = 0; k < f->t.views; k++)
        for (int end = 0; end < (tilted ? 2 : 1); end++) {
            double center = views[k].P[3] / views[k].P[11];
            if (tilted) {
                const struct fan fan = fan_of(&views[k]);
                center = -linear(fan.across, 0, end ? (double)(f->t.nv - 1) : 0) / fan.across[0];
            }
            const double less = fmax(fmin(2 * center - (double)(f->t.nu - 1), (double)f->t.nu), -(double)f->t.nu);
            f->before = vp_max64(f->before, (int64_t)ceil(-less - 1e-6));
            f->after = vp_max64(f->after, (int64_t)ceil(less - 1e-6));
        }
}

static double weight_of(const struct vp_filter *f, const struct vp_view *view, const struct vp_scan *scan,
                        const struct rays *rays, double g)
{
    if (f->t.redundancy == VP_RED_WANG) {
        const double lo = vp_view_fan(view, -0.5), hi = vp_view_fan(view, (double)f->t.nu - 0.5);
        const double turn = copysign(1, fabs(hi) > fabs(lo) ? hi : lo);
        return rays->gaps ? by_ray(rays, view->angle, turn * g, turn) : wang(turn * g, rays->limit, rays->flat);
    }
    const double b = arc_position(view->angle, scan);
    return f->smooth ? shared_smoothly(b, g, scan) : parker(b, g, scan);
}

/* Makes the weights of rays that fan out differently in each row: at equal steps of the tangent, half a pixel or less
 * apart; the view's vp_filter_fan gives the step of a pixel. */
static int make_fans(struct vp_filter *f, const struct vp_view *views, double *first, double *step, struct vp_err *err)
{
    const double u1 = (double)(f->t.nu - 1), v1 = (double)(f->t.nv - 1);
    double lo = INFINITY, hi = -INFINITY;
    struct vp_filter_fan *to = f->t.fan = vp_filter_take(f, f->t.views, sizeof *f->t.fan, "the redundancy weights",
                                                         err);

    if (!to)
        return -1;
    *step = INFINITY;
    for (int64_t k = 0; k < f->t.views; k++) {
        const struct fan fan = fan_of(&views[k]);
        for (int corner = 0; corner < 4; corner++) {
            const double u = corner & 1 ? u1 : 0, v = corner & 2 ? v1 : 0;
            if (!(linear(fan.ahead, u, v) > 0))
                return vp_fail(err, VP_ERUN, "view %lld: a ray points away from the rotation axis (z): no weights for "
                               "rays that are measured twice", (long long)k);
            lo = fmin(lo, tangent(&fan, u, v));
            hi = fmax(hi, tangent(&fan, u, v));
        }
        *step = fmin(*step, fabs(tangent(&fan, u1, v1 / 2) - tangent(&fan, 0, v1 / 2)) / fmax(2 * u1, 1));
    }
    const double steps = ceil((hi - lo) / *step);
    if (!(steps >= 0 && steps < 64 * (double)f->t.nu + 64))
        return vp_fail(err, VP_ERUN, "the views are too different for weights of rays that are measured twice");
    f->t.n_weight = (int64_t)steps + 2;
    *first = lo;
    for (int64_t k = 0; k < f->t.views; k++) {
        const struct fan fan = fan_of(&views[k]);
        const double unit = linear(fan.ahead, u1 / 2, v1 / 2);
        double top[3], bottom[3];
        for (int i = 0; i < 3; i++) {
            top[i] = (fan.across[i] - lo * fan.ahead[i]) / *step / unit;
            bottom[i] = fan.ahead[i] / unit;
        }
        to[k] = (struct vp_filter_fan){(float)top[2], (float)top[0], (float)top[1], (float)bottom[2], (float)bottom[0],
                                       (float)bottom[1]};
    }
    return 0;
}

void vp_filter_weight_row(const struct vp_filter *f, int64_t view, int64_t v, int64_t u0, int64_t u1, float *out)
{
    const struct vp_filter_fan fan = f->t.fan[view];
    const float *const weight = f->t.weight + view * f->t.n_weight, last = (float)(f->t.n_weight - 1);
    const float row = (float)v;

    for (int64_t u = u0; u < u1; u++) {
        const float column = (float)u;
        float at = (fan.a0 + fan.au * column + fan.av * row) / (fan.b0 + fan.bu * column + fan.bv * row);
        at = at > 0 ? at < last ? at : last : 0;
        const int64_t i = at < last ? (int64_t)at : f->t.n_weight - 2;
        out[u - u0] = weight[i] + (at - (float)i) * (weight[i + 1] - weight[i]);
    }
}

static bool same_fan(const struct vp_filter_fan *a, const struct vp_filter_fan *b)
{
    /* a rounding or two of the largest term */
    const float column = 1e-6f * fabsf(b->au), angle = 3e-7f * fabsf(b->b0);

    return fabsf(a->a0 - b->a0) <= 3e-7f * fabsf(b->a0) + column && fabsf(a->au - b->au) <= column
           && fabsf(a->av - b->av) <= column && fabsf(a->b0 - b->b0) <= angle && fabsf(a->bu - b->bu) <= angle * 1e-4f
           && fabsf(a->bv - b->bv) <= angle * 1e-4f;
}

/* Folds the weights into the cosine: one table for all views saves finding the weights of every row. */
static int fold(struct vp_filter *f, struct vp_err *err)
{
    bool same = f->t.fan && (f->cosine || !f->t.lens);

    for (int64_t k = 1; k < f->t.views && same; k++)
        same = same_fan(&f->t.fan[k], &f->t.fan[0])
               && !memcmp(f->t.weight + k * f->t.n_weight, f->t.weight, (size_t)f->t.n_weight * sizeof *f->t.weight);
    if (!same)
        return 0;
    float *row = vp_alloc_raw((size_t)f->t.nu, sizeof *row, "the redundancy weights", err);
    const bool alone = !f->cosine;
    if (row && alone)
        f->cosine = vp_filter_take(f, f->t.nu * f->t.nv, sizeof *f->cosine, "the redundancy weights", err);
    if (!row || !f->cosine) {
        free(row);
        return -1;
    }
    for (int64_t v = 0; v < f->t.nv; v++) {
        float *const to = f->cosine + v * f->t.nu;
        vp_filter_weight_row(f, 0, v, 0, f->t.nu, row);
        for (int64_t u = 0; u < f->t.nu; u++)
            to[u] = alone ? row[u] : to[u] * row[u];
    }
    free(row);
    f->folded = true;
    return 0;
}

int vp_filter_make_weights(struct vp_filter *f, const struct vp_view *views, const struct vp_scan *scan,
                           struct vp_err *err)
{
    const bool tilted = !scan->untilted;
    struct rays rays = {.parallel = vp_view_parallel(&views[0])};
    double first = 0, step = 1;

    f->t.n_weight = f->t.nu;
    if (f->t.redundancy == VP_RED_NONE)
        return 0;
    if (f->t.redundancy == VP_RED_WANG)
        rays.limit = wang_limit(f, views, tilted, &rays.flat);
    rays.alone = fmin(2 * rays.limit, rays.parallel ? rays.limit * scan->largest_gap * 6 / M_PI
                      : scan->largest_gap / 4);
    if (tilted && make_fans(f, views, &first, &step, err))
        return -1;
    f->t.weight = vp_filter_take(f, f->t.views * f->t.n_weight, sizeof *f->t.weight, "the redundancy weights", err);
    if (!f->t.weight || (f->by_ray && find_gaps(&rays, views, f->t.views, scan, err))) {
        free(rays.gap);
        return -1;
    }
    #pragma omp parallel for schedule(dynamic, 8)
    for (int64_t k = 0; k < f->t.views; k++) {
        const bool parallel = vp_view_parallel(&views[k]);
        for (int64_t i = 0; i < f->t.n_weight; i++) {
            const double t = first + (double)i * step;
            const double g = !tilted ? vp_view_fan(&views[k], (double)i) : parallel ? t : atan(t);
            f->t.weight[k * f->t.n_weight + i] = (float)weight_of(f, &views[k], scan, &rays, g);
        }
    }
    free(rays.gap);
    return fold(f, err);
}

int vp_filter_resolve(struct vp_filter *f, int asked, const struct vp_view *views, const struct vp_scan *scan,
                      struct vp_err *err)
{
    const double degrees = 180 / M_PI, arc = scan->arc * degrees;
    const double need = 180 + 2 * degrees * fmax(-scan->half_fan_lo, scan->half_fan_hi);
    const double step = arc / (double)(f->t.views > 1 ? f->t.views - 1 : 1);
    const bool is_short = scan->kind == VP_SCAN_SHORT;

    f->t.redundancy = asked != VP_RED_AUTO ? (enum vp_redundancy)asked
                  : scan->offset ? VP_RED_WANG : is_short ? VP_RED_PARKER : VP_RED_NONE;
    f->by_ray = is_short && f->t.redundancy == VP_RED_WANG;
    f->smooth = is_short && f->t.redundancy == VP_RED_PARKER && arc + step < need;
    if (asked == VP_RED_PARKER) {
        if (vp_view_parallel(&views[0]))
            return vp_fail(err, VP_EUSAGE,
                           "--weights parker: expected a cone or fan beam, got a parallel beam");
        if (!is_short)
            return vp_fail(err, VP_EUSAGE, "--weights parker: expected a short scan, got a full turn");
        if (scan->gaps > 1)
            return vp_fail(err, VP_EUSAGE, "--weights parker: expected one arc, the views leave %lld gaps",
                           (long long)scan->gaps);
        if (f->smooth)
            return vp_fail_hint(err, VP_EUSAGE, "use --weights auto: smooth weights over the arc",
                                "--weights parker: needs an arc of %.6g degrees (180 and the fan), "
                                "the scan covers %.6g", need, arc);
    }
    if (f->t.redundancy == VP_RED_WANG) {
        if (scan->kind == VP_SCAN_PARALLEL || (is_short && scan->largest_gap >= 2 * M_PI / 3 * (1 - 1e-9)))
            return vp_fail(err, VP_EUSAGE, "--weights wang: expected a full turn, the scan covers %.6g degrees",
                           arc);
        if (scan->overlap < 1)
            return vp_fail_hint(err, VP_EUSAGE, "check the detector's offset-u",
                                "%sthe detector does not reach past the rotation axis (%.6g pixels)",
                                asked == VP_RED_WANG ? "--weights wang: " : "", scan->overlap);
        extend(f, views, !scan->untilted);
    }
    if (f->smooth)
        snprintf(f->t.warning, sizeof f->t.warning,
                 "the arc of %.6g degrees is shorter than 180 and the fan (%.6g): "
                 "some rays are missing, expect streaks and shading",
                 arc, need);
    return 0;
}
