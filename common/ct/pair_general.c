/* SPDX-License-Identifier: BSD-3-Clause */
/* The pair for any matrix: the edges of each voxel are projected, in float64. */
#include "ct/pair_internal.h"

#include "ct/orbit.h"

#include <math.h>

/* Image of a voxel on the detector, in pixels counted from the detector's edge: a box, and the share of its area. */
struct box { double u0, u1, v0, v1, amount; };

/* Projects the point (x, y, z). False if it is too near to the source's plane, or beyond. */
static bool image_of(const double P[12], const double x[3], double *u, double *v)
{
    const double w = vp_orbit_dot(P + 8, x[0], x[1], x[2]);
    if (!(w > VP_ORBIT_NEAREST))
        return false;
    *u = vp_orbit_dot(P, x[0], x[1], x[2]) / w + 0.5;
    *v = vp_orbit_dot(P + 4, x[0], x[1], x[2]) / w + 0.5;
    return true;
}

/* Sets the box of a voxel. False: it has no weight. */
static bool box_of(const struct vp_pair *p, const struct vp_pair_view *view, const int64_t at[3], struct box *b)
{
    double u[2][2], v[2][2]; /* [axis][end] */
    int axis[2], n = 0;
    for (int a = 0; a < 3; a++)
        if (a != view->march)
            axis[n++] = a;
    for (int a = 0; a < 2; a++)
        for (int end = 0; end < 2; end++) {
            double x[3] = {(double)at[0], (double)at[1], (double)at[2]};
            x[axis[a]] += end - 0.5;
            if (!image_of(view->P, x, &u[a][end], &v[a][end]))
                return false;
        }
    const double du[2] = {u[0][1] - u[0][0], u[1][1] - u[1][0]}, dv[2] = {v[0][1] - v[0][0], v[1][1] - v[1][0]};
    const int across = fabs(du[0] * dv[1]) >= fabs(du[1] * dv[0]) ? 0 : 1, along = 1 - across;
    const double area = fabs(du[across] * dv[along]);
    if (!(area > 0))
        return false;
    b->u0 = fmin(u[across][0], u[across][1]);
    b->u1 = fmax(u[across][0], u[across][1]);
    b->v0 = fmin(v[along][0], v[along][1]);
    b->v1 = fmax(v[along][0], v[along][1]);
    b->amount = fabs(du[0] * dv[1] - du[1] * dv[0]) / area;
    return b->u1 > 0 && b->v1 > 0 && b->u0 < (double)p->nu && b->v0 < (double)p->nv;
}

static inline double overlap(double lo, double hi, int64_t pixel)
{
    const double length = fmin(hi, (double)(pixel + 1)) - fmax(lo, (double)pixel);
    return length > 0 ? length : 0;
}

/* Sets [*first, *last), the pixels of [p0, p1) that [lo, hi] meets. */
static inline void pixels(double lo, double hi, int64_t p0, int64_t p1, int64_t *first, int64_t *last)
{
    *first = (int64_t)fmax(floor(lo), (double)p0);
    *last = (int64_t)fmin(ceil(hi), (double)p1);
}

void vp_pair_general_spread(const struct vp_pair *p, const struct vp_pair_view *view, const float *x, int64_t u0,
                            int64_t u1, double *sums)
{
    for (int64_t k = 0; k < p->n[2]; k++)
        for (int64_t j = 0; j < p->n[1]; j++)
            for (int64_t i = 0; i < p->n[0]; i++) {
                const double value = x[(k * p->n[1] + j) * p->n[0] + i];
                struct box b;
                int64_t a, z, r, end;
                if (value == 0 || !box_of(p, view, (const int64_t[3]){i, j, k}, &b))
                    continue;
                pixels(b.u0, b.u1, u0, u1, &a, &z);
                for (pixels(b.v0, b.v1, 0, p->nv, &r, &end); r < end; r++) {
                    const double part = value * b.amount * overlap(b.v0, b.v1, r);
                    for (int64_t u = a; u < z; u++)
                        sums[r * p->nu + u] += part * overlap(b.u0, b.u1, u);
                }
            }
}

void vp_pair_general_collect(const struct vp_pair *p, const struct vp_pair_view *view, const struct vp_pair_tile *t,
                             const float *rows)
{
    for (int n = 0; n < t->ni * t->nj; n++)
        for (int k = t->first; k < t->last; k++) {
            const int ii = n % t->ni, jj = n / t->ni;
            struct box b;
            int64_t a, z, r, end;
            double sum = 0;
            if (!box_of(p, view, (const int64_t[3]){t->i0 + ii, t->j0 + jj, t->k0 + k}, &b))
                continue;
            pixels(b.u0, b.u1, 0, p->nu, &a, &z);
            for (pixels(b.v0, b.v1, 0, p->nv, &r, &end); r < end; r++) {
                const double part = b.amount * overlap(b.v0, b.v1, r);
                for (int64_t u = a; u < z; u++)
                    sum += part * overlap(b.u0, b.u1, u) * (double)rows[r * p->nu + u];
            }
            t->samples[(jj * PAIR_TILE + ii) * PAIR_PITCH + PAIR_PAD + k] += (float)sum;
        }
}
