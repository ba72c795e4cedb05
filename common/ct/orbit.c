/* SPDX-License-Identifier: BSD-3-Clause */
/* Symmetries of a scan, found by testing its matrices. The grid is convex and u, v are projective, so every
 * extreme is at a corner of the grid. */
#include "ct/orbit.h"

#include <math.h>

struct vp_column_view vp_orbit_column(const double P[12], int64_t nv, const int64_t n[3], bool flip_v)
{
    const double hx = 0.5 * (double)(n[0] - 1), hy = 0.5 * (double)(n[1] - 1), last = (double)(nv - 1);
    double row1[4];
    for (int c = 0; c < 4; c++)
        row1[c] = flip_v ? last * P[8 + c] - P[4 + c] : P[4 + c];
    const double turn = P[8] * P[8] + P[9] * P[9];
    /* In parallel beam v does not fix where z / w is counted from: the middle row keeps the mirror test
     * simple. */
    const double cv = turn > 0 ? (row1[0] * P[8] + row1[1] * P[9]) / turn : 0.5 * last;
    return (struct vp_column_view){
        .ux = P[0],
        .uy = P[1],
        .uc = P[3] + P[0] * hx + P[1] * hy,
        .wx = P[8],
        .wy = P[9],
        .wc = P[11] + P[8] * hx + P[9] * hy,
        .vz = row1[2],
        .vc = row1[3] - cv * P[11],
        .cv = cv,
    };
}

/* Returns the largest error in pixels of describing the view by its column form. */
static double column_error(const double P[12], const struct vp_column_view *c, bool flip_v, int64_t nv,
                           const int64_t n[3])
{
    const double sign = flip_v ? -1 : 1, shift = flip_v ? (double)(nv - 1) : 0;
    const double along_x = sign * P[4] + shift * P[8] - c->cv * P[8],
                 along_y = sign * P[5] + shift * P[9] - c->cv * P[9];
    const double w = vp_orbit_nearest(P, n), nz = (double)(n[2] - 1);
    /* A depth that changes along k moves u and v by at most their distance from the origin of the detector.
     */
    const double reach = fabs(c->ux) * (double)n[0] + fabs(c->uy) * (double)n[1] + fabs(c->uc) + (double)nv;
    return (fabs(P[2]) * nz + fabs(P[10]) * nz * reach / w + fabs(along_x) * (double)n[0] +
            fabs(along_y) * (double)n[1]) /
           w;
}

static void widen_to_corners(struct vp_orbit_shape *shape, const double P[12], const int64_t n[3])
{
    for (int corner = 0; corner < 8; corner++) {
        double at[3];
        for (int a = 0; a < 3; a++)
            at[a] = corner >> a & 1 ? (double)(n[a] - 1) : 0;
        const double w = vp_orbit_dot(P + 8, at[0], at[1], at[2]);
        for (int r = 0; r < 2; r++) {
            const double place = vp_orbit_dot(P + 4 * r, at[0], at[1], at[2]) / w;
            shape->reach = fmax(shape->reach, fabs(place));
            shape->step = fmax(shape->step, fabs(P[4 * r + 2] - place * P[10]) / w);
        }
    }
}

static bool turned_by_half(const struct vp_column_view *a, const struct vp_column_view *b, double w, const int64_t n[3])
{
    const double nx = (double)n[0], ny = (double)n[1];
    const double du = fabs(a->ux + b->ux) * nx + fabs(a->uy + b->uy) * ny + fabs(a->uc - b->uc);
    const double dw = fabs(a->wx + b->wx) * nx + fabs(a->wy + b->wy) * ny + fabs(a->wc - b->wc);
    const double dv = fabs(a->vz - b->vz) * (double)n[2] + fabs(a->vc - b->vc);
    const double reach =
        (fabs(a->ux) * nx + fabs(a->uy) * ny + fabs(a->uc) + fabs(a->vz) * (double)n[2] + fabs(a->vc)) / w;
    return (du + dv + dw * reach) / w + fabs(a->cv - b->cv) <= VP_ORBIT_SAME;
}

struct vp_orbit_shape vp_orbit_test(const double *P, int64_t n_views, int64_t nv, const int64_t n[3])
{
    struct vp_orbit_shape shape = {.positive = true,
                                   .level = true,
                                   .columns = n_views > 0,
                                   .mirror = true,
                                   .opposite = n_views > 0 && n_views % 2 == 0,
                                   .s_min = HUGE_VAL};
    shape.flip_v = n_views > 0 && P[6] < 0;
    for (int64_t s = 0; s < n_views; s++) {
        const double *p = P + 12 * s, w = vp_orbit_nearest(p, n);
        if (!(w > VP_ORBIT_NEAREST)) {
            shape.positive = shape.columns = false;
            break;
        }
        widen_to_corners(&shape, p, n);
        shape.level = shape.level && fabs(p[10]) * (double)(n[2] - 1) * shape.reach <= VP_ORBIT_SAME * w;
        const struct vp_column_view c = vp_orbit_column(p, nv, n, shape.flip_v);
        if (!(c.vz > 0) || !(column_error(p, &c, shape.flip_v, nv, n) <= VP_ORBIT_SAME)) {
            shape.columns = false;
            continue;
        }
        const double w_max = w + fabs(p[8]) * (double)(n[0] - 1) + fabs(p[9]) * (double)(n[1] - 1);
        shape.s_min = fmin(shape.s_min, c.vz / w_max);
        shape.s_max = fmax(shape.s_max, c.vz / w);
        if (!(fabs(c.cv - 0.5 * (double)(nv - 1)) + fabs(0.5 * c.vz * (double)(n[2] - 1) + c.vc) / w <= VP_ORBIT_SAME))
            shape.mirror = false;
        if (shape.opposite && s >= n_views / 2) {
            const struct vp_column_view first = vp_orbit_column(P + 12 * (s - n_views / 2), nv, n, shape.flip_v);
            shape.opposite = turned_by_half(&first, &c, w, n);
        }
    }
    shape.mirror &= shape.columns;
    shape.opposite &= shape.columns;
    return shape;
}

void vp_orbit_rows(const double *P, int64_t n_views, int64_t nv, const int64_t n[3], bool flip_v, double k0, double k1,
                   int64_t *v0, int64_t *v1)
{
    double lo = HUGE_VAL, hi = -HUGE_VAL;
    for (int64_t s = 0; s < n_views; s++) {
        const struct vp_column_view c = vp_orbit_column(P + 12 * s, nv, n, flip_v);
        const double span = 0.5 * (fabs(c.wx) * (double)(n[0] - 1) + fabs(c.wy) * (double)(n[1] - 1));
        for (int corner = 0; corner < 4; corner++) {
            const double w = c.wc + (corner & 1 ? span : -span), k = corner & 2 ? k1 : k0;
            const double v = c.cv + (c.vz * k + c.vc) / w;
            lo = fmin(lo, v), hi = fmax(hi, v);
        }
    }
    const double last = (double)nv;
    *v0 = (int64_t)fmin(fmax(floor(lo - 1e-3), 0), last);
    *v1 = (int64_t)fmin(fmax(floor(hi + 1e-3) + 2, (double)*v0), last);
}

/* ---- one view ---- */

static void widen(struct vp_extent *r, double x)
{
    r->lo = fmin(r->lo, x);
    r->hi = fmax(r->hi, x);
}

bool vp_orbit_box(const double P[12], const int64_t n[3], int64_t z0, int64_t z1, struct vp_extent *v,
                  struct vp_extent *w)
{
    bool in_front = true;
    for (int c = 0; c < 8; c++) {
        const double i = c & 1 ? (double)(n[0] - 1) : 0, j = c & 2 ? (double)(n[1] - 1) : 0;
        const double k = (double)(c & 4 ? z1 - 1 : z0);
        const double depth = vp_orbit_dot(P + 8, i, j, k);
        widen(w, depth);
        if (depth > VP_ORBIT_NEAREST)
            widen(v, vp_orbit_dot(P + 4, i, j, k) / depth);
        else
            in_front = false;
    }
    return in_front && isfinite(v->lo) && isfinite(v->hi);
}

double vp_orbit_nearest(const double P[12], const int64_t n[3])
{
    struct vp_extent v = VP_EXTENT_NONE, w = VP_EXTENT_NONE;
    vp_orbit_box(P, n, 0, n[2], &v, &w);
    return fmax(w.lo, VP_ORBIT_NEAREST);
}

bool vp_orbit_upright(const double P[12], int64_t pixels, const int64_t n[3])
{
    const double f = 1 / vp_orbit_nearest(P, n), height = (double)(n[2] - 1);
    return fabs(P[2]) * height * f <= VP_ORBIT_SAME && fabs(P[10]) * height * f * (double)pixels <= VP_ORBIT_SAME;
}

bool vp_orbit_opposed(const double a[12], const double b[12], int64_t pixels, const int64_t n[3])
{
    double error = 0;
    for (int r = 0; r < 3; r++) {
        const double *p = a + 4 * r, *q = b + 4 * r;
        const double hx = 0.5 * (double)(n[0] - 1), hy = 0.5 * (double)(n[1] - 1);
        const double middle = q[0] * hx + q[1] * hy + q[3] - (p[0] * hx + p[1] * hy + p[3]);
        const double sum = fabs(p[0] + q[0]) * (double)n[0] + fabs(p[1] + q[1]) * (double)n[1]
                         + fabs(p[2] - q[2]) * (double)n[2] + fabs(middle);
        error += sum * (r < 2 ? 1 : (double)pixels);
    }
    return error <= VP_ORBIT_SAME * fmin(vp_orbit_nearest(a, n), vp_orbit_nearest(b, n));
}

bool vp_orbit_mirrored(const double P[12], int64_t sum, const int64_t n[3])
{
    const double m = (double)sum;
    const double error = fabs(2 * P[4] - m * P[8]) * (double)n[0] + fabs(2 * P[5] - m * P[9]) * (double)n[1]
                       + fabs(2 * P[7] + P[6] * (double)(n[2] - 1) - m * P[11]);
    return error <= VP_ORBIT_SAME * vp_orbit_nearest(P, n);
}
