/* SPDX-License-Identifier: BSD-3-Clause */
/* The symmetries of a scan, which the back-projections of the CPU and of devices make use of, against every voxel of
 * small grids: what is claimed holds everywhere, what holds by construction is found, and the two agree. */
#include "test.h"

#include "base/err.h"
#include "ct/backproject.h"
#include "ct/orbit.h"
#include "geom/geom.h"

#include <stdlib.h>

struct scan {
    const char *name;
    bool parallel;
    double offset_u, offset_v, tilt; /* tilt: in the detector's plane, degrees */
    double arc;                      /* degrees */
    double shift;                    /* of the grid along z, mm */
    int64_t views, slices;
    bool upside_down;                /* rows counted from the other end */
    bool columns, mirror, half_turn; /* what it has */
    double wobble;                   /* of the detector from view to view, along u, pixels */
};

static const struct scan scans[] = {
    {"circle", false, 0, 0, 0, 360, 0, 24, 20, false, true, true, true, 0},
    {"rows from below", false, 0, 0, 0, 360, 0, 24, 20, true, true, true, true, 0},
    {"odd number of slices", false, 0, 0, 0, 360, 0, 24, 21, false, true, true, true, 0},
    {"odd number of views", false, 0, 0, 0, 360, 0, 23, 20, false, true, true, false, 0},
    {"half the circle", false, 0, 0, 0, 180, 0, 24, 20, false, true, true, false, 0},
    {"off centre in u", false, 4.25, 0, 0, 360, 0, 24, 20, false, true, true, true, 0},
    {"off centre in v", false, 0, 3.5, 0, 360, 0, 24, 20, false, true, false, true, 0},
    {"volume off the plane", false, 0, 0, 0, 360, 2, 24, 20, false, true, false, true, 0},
    {"tilted", false, 0, 0, 3, 360, 0, 24, 20, false, false, false, true, 0},
    {"parallel", true, 0, 0, 0, 360, 0, 24, 20, false, true, true, true, 0},
    {"parallel, half the circle", true, 0, 0, 0, 180, 0, 24, 20, false, true, true, false, 0},
    {"parallel, off centre in v", true, 0, 3.5, 0, 360, 0, 24, 20, false, true, false, true, 0},
    {"a detector that wobbles", true, 0, 0, 0, 360, 0, 24, 20, false, true, true, false, 0.01},
};
enum { SCANS = sizeof scans / sizeof *scans, NU = 30, NV = 26 };

static double *make(const struct scan *s, struct vp_grid *grid, struct vp_view **views)
{
    struct vp_err err = VP_ERR_INIT;
    struct vp_scan scan;
    struct vp_geom g = {.beam = s->parallel ? VP_PARALLEL : VP_CONE, .sod = 40, .sdd = 60, .nu = NU, .nv = NV, .du = 1,
                        .dv = 1, .offset_u = s->offset_u, .offset_v = s->offset_v, .tilt = s->tilt,
                        .views = s->views};
    double *P = malloc((size_t)s->views * 12 * sizeof *P);
    g.angle = malloc((size_t)s->views * sizeof *g.angle);
    for (int64_t k = 0; k < s->views; k++)
        g.angle[k] = s->arc * (double)k / (double)s->views;
    CHECK(!vp_geom_views(&g, views, &scan, &err));
    CHECK_STR(err.msg, "");
    *grid = (struct vp_grid){.n = {15, 18, s->slices}, .voxel = {0.7, 0.7, 0.7}, .center = {0, 0, s->shift}};
    for (int64_t k = 0; k < s->views; k++) {
        double *V = (*views)[k].P;
        for (int c = 0; c < 4 && s->upside_down; c++)
            V[4 + c] = (NV - 1) * V[8 + c] - V[4 + c];
        for (int c = 0; c < 4; c++)
            V[c] += s->wobble * (double)(k * k % 5) * V[8 + c];
        vp_backproject_matrix(&(*views)[k], grid, P + 12 * k);
    }
    vp_geom_free(&g);
    return P;
}

static void project(const double P[12], int64_t i, int64_t j, int64_t k, double image[3])
{
    double x[3];
    for (int r = 0; r < 3; r++)
        x[r] = P[4 * r] * (double)i + P[4 * r + 1] * (double)j + P[4 * r + 2] * (double)k + P[4 * r + 3];
    image[0] = x[0] / x[2];
    image[1] = x[1] / x[2];
    image[2] = x[2];
}

/* What the voxels say: the largest deviation of each symmetry, pixels (depths: of 1). */
struct seen {
    double columns, mirror, half_turn;
    double s_min, s_max, reach;
};

static struct seen look(const double *P, const struct scan *s, const int64_t n[3])
{
    struct seen all = {.s_min = HUGE_VAL};
    for (int64_t view = 0; view < s->views; view++)
        for (int64_t j = 0; j < n[1]; j++)
            for (int64_t i = 0; i < n[0]; i++) {
                double first[3], before[3] = {0};
                project(P + 12 * view, i, j, 0, first);
                for (int64_t k = 0; k < n[2]; k++) {
                    double a[3], b[3];
                    project(P + 12 * view, i, j, k, a);
                    all.columns = fmax(all.columns, fmax(fabs(a[0] - first[0]), fabs(a[2] - first[2])));
                    project(P + 12 * view, i, j, n[2] - 1 - k, b);
                    all.mirror = fmax(all.mirror, fabs(a[1] + b[1] - (NV - 1)));
                    if (s->views % 2 == 0) {
                        project(P + 12 * ((view + s->views / 2) % s->views), n[0] - 1 - i, n[1] - 1 - j, k, b);
                        for (int r = 0; r < 3; r++)
                            all.half_turn = fmax(all.half_turn, fabs(a[r] - b[r]));
                    }
                    const double step = fabs(a[1] - before[1]);
                    all.s_min = k ? fmin(all.s_min, step) : all.s_min;
                    all.s_max = k ? fmax(all.s_max, step) : all.s_max;
                    all.reach = fmax(all.reach, fmax(fabs(a[0]), fabs(a[1])));
                    memcpy(before, a, sizeof a);
                }
            }
    all.half_turn = s->views % 2 ? HUGE_VAL : all.half_turn;
    return all;
}

static void symmetries(void)
{
    for (int t = 0; t < SCANS; t++) {
        const struct scan *s = &scans[t];
        struct vp_err err = VP_ERR_INIT;
        struct vp_grid grid;
        struct vp_view *views = NULL;
        double *P = make(s, &grid, &views);
        const struct seen voxels = look(P, s, grid.n);
        const struct vp_orbit_shape shape = vp_orbit_test(P, s->views, NV, grid.n);
        const int failed = test_failures;

        /* the table is right */
        CHECK((voxels.columns < 1e-9) == s->columns);
        CHECK((voxels.mirror < 1e-9) == s->mirror);
        CHECK((voxels.half_turn < 1e-9) == s->half_turn);
        CHECK(shape.positive);
        CHECK_INT(shape.columns, s->columns);
        CHECK_INT(shape.mirror, s->mirror);
        CHECK_INT(shape.opposite, s->half_turn && s->columns); /* only then is it made use of */
        CHECK_NEAR(shape.reach, voxels.reach, 1e-9 * voxels.reach); /* at a corner */
        if (shape.columns) {
            CHECK_INT(shape.flip_v, s->upside_down);
            CHECK(shape.s_min <= voxels.s_min * (1 + 1e-9) && shape.s_min > 0.8 * voxels.s_min);
            CHECK(shape.s_max >= voxels.s_max * (1 - 1e-9) && shape.s_max < 1.2 * voxels.s_max);
        }
        /* the CPU finds the same */
        struct vp_bp_plan plan;
        const struct vp_projections p = {.views = views, .n_views = s->views, .nu = NU, .nv = NV};
        CHECK(!vp_backproject_plan(&(struct vp_bp_job){.projections = &p, .grid = &grid, .z1 = grid.n[2]}, &plan, &err));
        CHECK_INT(!strstr(plan.kernel, "3x4 matrices"), s->columns);
        /* (twice the middle row may be any integer there) */
        CHECK(strstr(plan.kernel, "z mirror") || !s->mirror);
        if (test_failures > failed)
            printf("in: %s\n", s->name);
        free(P);
        free(views);
    }
}

/* The column form is the matrix, and no row is missing that a slab needs, nor are many given that it does not. */
static void columns_and_rows(void)
{
    for (int t = 0; t < SCANS; t++) {
        const struct scan *s = &scans[t];
        struct vp_grid grid;
        struct vp_view *views = NULL;
        double *P = make(s, &grid, &views);
        const struct vp_orbit_shape shape = vp_orbit_test(P, s->views, NV, grid.n);
        for (int64_t k0 = 0; shape.columns && k0 < grid.n[2]; k0 += 7) {
            const int64_t k1 = k0 + 5 < grid.n[2] ? k0 + 5 : grid.n[2] - 1;
            double lo = HUGE_VAL, hi = -HUGE_VAL, wrong = 0;
            int64_t v0, v1;
            for (int64_t view = 0; view < s->views; view++) {
                const struct vp_column_view c = vp_orbit_column(P + 12 * view, NV, grid.n, shape.flip_v);
                for (int64_t j = 0; j < grid.n[1]; j++)
                    for (int64_t i = 0; i < grid.n[0]; i++)
                        for (int64_t k = k0; k <= k1; k++) {
                            const double x = (double)i - 0.5 * (double)(grid.n[0] - 1);
                            const double y = (double)j - 0.5 * (double)(grid.n[1] - 1);
                            const double w = c.wx * x + c.wy * y + c.wc;
                            const double v = c.cv + (c.vz * (double)k + c.vc) / w;
                            double image[3];
                            project(P + 12 * view, i, j, k, image);
                            image[1] = shape.flip_v ? NV - 1 - image[1] : image[1];
                            wrong = fmax(wrong, fabs((c.ux * x + c.uy * y + c.uc) / w - image[0]));
                            wrong = fmax(wrong, fmax(fabs(v - image[1]), fabs(w - image[2])));
                            lo = fmin(lo, v);
                            hi = fmax(hi, v);
                        }
            }
            CHECK_NEAR(wrong, 0, 1e-9);
            vp_orbit_rows(P, s->views, NV, grid.n, shape.flip_v, (double)k0, (double)k1, &v0, &v1);
            CHECK(v0 >= 0 && v1 <= NV && v0 <= v1);
            CHECK(v0 == 0 || (double)v0 <= lo);
            CHECK(v1 == NV || (double)(v1 - 1) >= hi);
            CHECK((double)v0 > lo - 3 && (double)v1 < hi + 5);
        }
        free(P);
        free(views);
    }
}

/* Voxels behind the source: nothing may be assumed. */
static void source_within_the_volume(void)
{
    struct vp_grid grid;
    struct vp_view *views = NULL;
    double *P = make(&scans[0], &grid, &views);
    free(P);
    grid.voxel[0] = grid.voxel[1] = 20;
    P = malloc((size_t)scans[0].views * 12 * sizeof *P);
    for (int64_t k = 0; k < scans[0].views; k++)
        vp_backproject_matrix(&views[k], &grid, P + 12 * k);
    const struct vp_orbit_shape shape = vp_orbit_test(P, scans[0].views, NV, grid.n);
    CHECK(!shape.positive && !shape.columns && !shape.mirror && !shape.opposite);
    free(P);
    free(views);
}

int main(void)
{
    symmetries();
    columns_and_rows();
    source_within_the_volume();
    return test_done();
}
