/* SPDX-License-Identifier: BSD-3-Clause */
/* Geometry: matrices against the formulas of ct-geometry(5) written out, decomposition against random
 * cameras, weights against sums that must come out, files against themselves, importers against facts about
 * their files. */
#include "geometry.h"
#include "test.h"
#include "base/err.h"
#include "base/size.h"
#include "geom/geom.h"
#include "stack/writer.h"
#include <stdlib.h>
#include <unistd.h>

static const double PI = 3.14159265358979323846;

static double random01(void)
{
    static uint64_t s = 88172645463325252ull;
    s ^= s << 13, s ^= s >> 7, s ^= s << 17;
    return (double)(s >> 11) / 9007199254740992.0;
}

static double between(double a, double b)
{
    return a + (b - a) * random01();
}

/* Parse or complain; false if it failed. */
static bool parse(struct vp_geom *g, const char *text)
{
    struct vp_err err = VP_ERR_INIT;
    const int status = parse_geometry(g, text, strlen(text), "t.geom", &err);
    if (status)
        printf("%s\n", err.msg);
    return status == 0;
}

static bool look(const struct vp_geom *g, struct vp_view **views, struct vp_scan *scan)
{
    struct vp_err err = VP_ERR_INIT;
    const int status = vp_geom_views(g, views, scan, &err);
    if (status)
        printf("%s\n", err.msg);
    return status == 0;
}

static double weight_sum(const struct vp_geom *g, const struct vp_view *v)
{
    double sum = 0;
    for (int64_t k = 0; k < g->views; k++)
        sum += v[k].weight;
    return sum;
}

static void project(const double P[12], const double x[3], double uvw[3])
{
    double h[3];
    for (int i = 0; i < 3; i++)
        h[i] = P[4 * i] * x[0] + P[4 * i + 1] * x[1] + P[4 * i + 2] * x[2] + P[4 * i + 3];
    uvw[0] = h[0] / h[2];
    uvw[1] = h[1] / h[2];
    uvw[2] = h[2];
}

/* --- matrices ------------------------------------------------------------------------------------ */

/* The formulas of the manual: where a point falls, and how deep it lies. */
static void formula(const struct vp_geom *g, int64_t k, const double x[3], double uvw[3])
{
    const double b = (g->clockwise ? -1 : 1) * g->angle[k] * PI / 180, t = g->tilt * PI / 180;
    const double w = g->beam == VP_CONE ? g->sod + x[0] * sin(b) - x[1] * cos(b) : 1;
    const double f = g->beam == VP_CONE ? g->sdd / w : 1;
    const double p = f * (x[0] * cos(b) + x[1] * sin(b)), q = f * x[2];
    uvw[0] = (double)(g->nu - 1) / 2 + g->offset_u + (p * cos(t) + q * sin(t)) / g->du;
    uvw[1] = (double)(g->nv - 1) / 2 + g->offset_v + (q * cos(t) - p * sin(t)) / g->dv;
    uvw[2] = w;
}

static void test_matrices(void)
{
    static const char *const texts[] = {
        "sod=410.66\nsdd=553.74\ndetector=560x300\npitch=0.2 0.3\nviews=37\n",
        "sod=100\nsdd=350\ndetector=64x48\npitch=0.5 -0.4\n"
        "views=11\nstart=17\ndirection=clockwise\noffset-u=3.5\n"
        "offset-v=-2mm\ntilt=1.5\n",
        "beam=parallel\ndetector=640x2\npitch=0.01\nangles=0:0.994475:181\noffset-u=-24\ntilt=-0.25\n",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct vp_geom g;
        struct vp_view *v = NULL;
        struct vp_scan scan;
        if (!parse(&g, texts[i]) || !look(&g, &v, &scan)) {
            CHECK(!"parsed");
            continue;
        }
        double worst = 0;
        for (int64_t k = 0; k < g.views; k++)
            for (int n = 0; n < 20; n++) {
                const double x[3] = {between(-40, 40), between(-40, 40), between(-30, 30)};
                double got[3], want[3];
                project(v[k].P, x, got);
                formula(&g, k, x, want);
                for (int c = 0; c < 3; c++)
                    worst = fmax(worst, fabs(got[c] - want[c]));
            }
        CHECK_NEAR(worst, 0, 1e-9);
        CHECK(scan.circular);
        CHECK(scan.untilted == (g.tilt == 0));
        free(v);
        vp_geom_free(&g);
    }
}

/* Source on +y at angle 0, on -x at 90 degrees; u grows along +x at angle 0. */
static void test_frame(void)
{
    struct vp_geom g;
    struct vp_view *v = NULL;
    struct vp_scan scan;
    double uvw[3];
    CHECK(parse(&g, "sod=100\nsdd=200\ndetector=11x5\npitch=1\nangles=0 90\n") && look(&g, &v, &scan));
    project(v[0].P, (double[]){0, 50, 0}, uvw);
    CHECK_NEAR(uvw[2], 50, 0);
    project(v[0].P, (double[]){1, 0, 0}, uvw);
    CHECK_NEAR(uvw[0], 7, 0);
    project(v[0].P, (double[]){0, 0, 1}, uvw);
    CHECK_NEAR(uvw[1], 4, 0);
    project(v[1].P, (double[]){-50, 0, 0}, uvw);
    CHECK_NEAR(uvw[2], 50, 0);
    project(v[1].P, (double[]){0, 1, 0}, uvw);
    CHECK_NEAR(uvw[0], 7, 0);
    CHECK_NEAR(v[1].angle, PI / 2, 1e-15);
    free(v);
    vp_geom_free(&g);
    /* The image of +z turns from +v towards +u. */
    CHECK(parse(&g, "sod=100\nsdd=200\ndetector=11x5\npitch=1\nangles=0\ntilt=30\n") && look(&g, &v, &scan));
    project(v[0].P, (double[]){0, 0, 1}, uvw);
    CHECK_NEAR(uvw[0] - 5, 1, 1e-12);
    CHECK_NEAR(uvw[1] - 2, sqrt(3), 1e-12);
    free(v);
    vp_geom_free(&g);
}

/* Rows of numbers as calibrated matrices come, rounded to ten digits and scaled at random, are the clockwise
 * circular orbit that they were made from. */
static void test_rows_of_numbers(void)
{
    const double sod = 410.66, f = 553.74 / 0.2, cu = 279.5;
    struct vp_geom circle, rows = {0};
    struct vp_view *vc = NULL, *vr = NULL;
    struct vp_scan sc, sr;
    struct vp_err err = VP_ERR_INIT;
    char *text = malloc(721 * 512);
    char path[] = "/tmp/geom_test_XXXXXX";
    size_t n = 0;
    for (int k = 0; k <= 720; k++) {
        const double b = -0.5 * k * PI / 180, s = sin(b), c = cos(b), scale = between(-3, 3);
        const double m[12] = {f * c + cu * s, f * s - cu * c, 0, cu * sod, 0, 0, f, 0, s, -c, 0, sod};
        for (int i = 0; i < 12; i++)
            n += (size_t)sprintf(text + n, "%.11g%s", scale * m[i], i < 11 ? " " : "\n");
    }
    const int fd = mkstemp(path);
    FILE *file = fdopen(fd, "w");
    fprintf(file, "# one matrix a line\n%s", text);
    fclose(file);
    CHECK_INT(vp_geom_make(&rows, path, &(struct vp_geom_params){.detector = "560x1", .pitch = "0.2"}, &err),
              0);
    remove(path);
    free(text);
    CHECK(
        parse(&circle,
              "sod=410.66\nsdd=553.74\ndetector=560x1\npitch=0.2\nangles=0:0.5:721\ndirection=clockwise\n"));
    CHECK_INT(rows.views, 721);
    CHECK_NEAR(rows.sod, 410.66, 1e-6);
    CHECK_NEAR(rows.sdd, 553.74, 1e-6);
    if (rows.views == 721 && look(&circle, &vc, &sc) && look(&rows, &vr, &sr)) {
        double worst = 0, weights = 0, angles = 0;
        for (int k = 0; k <= 720; k++) {
            for (int i = 0; i < 12; i++)
                worst = fmax(worst, fabs(vc[k].P[i] - vr[k].P[i]) / 114779.47);
            weights = fmax(weights, fabs(vc[k].weight - vr[k].weight));
            angles = fmax(angles, fabs(remainder(vc[k].angle - vr[k].angle, 2 * PI)));
        }
        CHECK_NEAR(worst, 0, 1e-9);
        CHECK_NEAR(weights, 0, 1e-7);
        CHECK_NEAR(angles, 0, 1e-7);
        CHECK_INT(sr.kind, VP_SCAN_FULL);
        CHECK(sr.circular && sr.untilted && !sr.offset);
        /* The last view repeats the first: half the weight each. */
        CHECK_NEAR(vr[0].weight, vr[1].weight / 2, 1e-9);
        CHECK_NEAR(vr[720].weight, vr[1].weight / 2, 1e-9);
    }
    free(vc);
    free(vr);
    vp_geom_free(&circle);
    vp_geom_free(&rows);
}

static void rotation(double R[9])
{
    double q[4], n = 0;
    for (int i = 0; i < 4; i++) {
        q[i] = between(-1, 1);
        n += q[i] * q[i];
    }
    for (int i = 0; i < 4; i++)
        q[i] /= sqrt(n);
    const double w = q[0], x = q[1], y = q[2], z = q[3];
    const double r[9] = {1 - 2 * (y * y + z * z), 2 * (x * y - w * z),     2 * (x * z + w * y),
                         2 * (x * y + w * z),     1 - 2 * (x * x + z * z), 2 * (y * z - w * x),
                         2 * (x * z - w * y),     2 * (y * z + w * x),     1 - 2 * (x * x + y * y)};
    memcpy(R, r, sizeof r);
}

static void test_decomposition(void)
{
    double worst = 0;
    for (int trial = 0; trial < 200; trial++) {
        const double fu = between(500, 5000), fv = between(500, 5000), skew = between(-5, 5);
        const double cu = between(-100, 600), cv = between(-100, 600),
                     scale = between(0.01, 10) * (trial % 2 ? -1 : 1);
        double R[9], S[3], P[12], depth;
        do {
            rotation(R);
            for (int i = 0; i < 3; i++)
                S[i] = between(-500, 500);
            depth = -(R[6] * S[0] + R[7] * S[1] + R[8] * S[2]);
        } while (depth < 50);
        const double K[9] = {fu, skew, cu, 0, fv, cv, 0, 0, 1};
        for (int i = 0; i < 3; i++) {
            P[4 * i + 3] = 0;
            for (int j = 0; j < 3; j++) {
                P[4 * i + j] = 0;
                for (int l = 0; l < 3; l++)
                    P[4 * i + j] += scale * K[3 * i + l] * R[3 * l + j];
                P[4 * i + 3] -= P[4 * i + j] * S[j];
            }
        }
        struct vp_geom g = {
            .beam = VP_CONE, .nu = 512, .nv = 512, .views = 1, .matrix = P, .angle = (double[]){0}};
        struct vp_view *v = NULL;
        if (!look(&g, &v, NULL)) {
            CHECK(!"decomposed");
            continue;
        }
        const double error[] = {(fabs(v->fu) - fu) / fu,
                                (fabs(v->fv) - fv) / fv,
                                (v->cu - cu) / fu,
                                (v->cv - cv) / fv,
                                (v->sod - depth) / depth,
                                remainder(v->angle - atan2(-S[0], S[1]), 2 * PI),
                                hypot(hypot(v->P[8], v->P[9]), v->P[10]) - 1,
                                (v->P[0] * S[0] + v->P[1] * S[1] + v->P[2] * S[2] + v->P[3]) / (1000 * fu)};
        for (size_t i = 0; i < sizeof error / sizeof *error; i++)
            worst = fmax(worst, fabs(error[i]));
        CHECK(v->angle >= 0 && v->angle < 2 * PI + 1e-12);
        free(v);
    }
    CHECK_NEAR(worst, 0, 1e-9);
}

static void test_bad_matrices(void)
{
    static const struct { const char *matrix, *want; } bad[] = {
        {"1 0 0 0 2 0 0 0 0 0 1 5", "view 1: the matrix is singular"},
        {"1 0 0 0 0 1 0 0 0 0 0 0", "view 1: the matrix is singular"},
        {"1 0 0 0 0 1 0 0 0 0 1 0", "view 1: the origin lies in the plane of the source"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char text[512];
        struct vp_geom g;
        struct vp_err err = VP_ERR_INIT;
        snprintf(text, sizeof text, "detector=4x4\npitch=1\nmatrix=1 0 0 0 0 0 1 0 0 -1 0 5\nmatrix=%s\n",
                 bad[i].matrix);
        CHECK_INT(parse_geometry(&g, text, strlen(text), "t.geom", &err), -1);
        CHECK(strstr(err.msg, bad[i].want) != NULL);
    }
}

/* A detector whose rows count downwards or columns leftwards keeps the right fan angle and depth. */
static void test_mirrored(void)
{
    struct vp_geom g;
    struct vp_view *v = NULL;
    struct vp_scan scan, same;
    CHECK(parse(&g, "sod=100\nsdd=200\ndetector=101x31\npitch=-1 -1\nviews=360\noffset-u=10\n") &&
          look(&g, &v, &scan));
    CHECK_NEAR(v[7].fu, -200, 0);
    CHECK_NEAR(atan((0 - v[7].cu) / v[7].fu), scan.half_fan_hi, 1e-12);
    char *text = vp_geom_format(&g, true);
    struct vp_geom m;
    struct vp_view *vm = NULL;
    CHECK(text && parse(&m, text) && look(&m, &vm, &same));
    CHECK_NEAR(vm[7].fu, -200, 1e-9);
    CHECK_NEAR(vm[7].fv, -200, 1e-9);
    CHECK_NEAR(vm[7].angle, v[7].angle, 1e-12);
    CHECK_NEAR(same.half_fan_lo, scan.half_fan_lo, 1e-12);
    CHECK(same.circular && same.untilted);
    free(text);
    free(v);
    free(vm);
    vp_geom_free(&g);
    vp_geom_free(&m);
}

/* --- scans --------------------------------------------------------------------------------------- */

#define FAN "sod=400\nsdd=600\ndetector=560x1\npitch=0.2\n"
#define CONE "sod=400\nsdd=600\ndetector=160x72\npitch=1\n"
#define PAR "beam=parallel\ndetector=560x1\npitch=0.2\n"

static void check_scan(const char *text, enum vp_scan_kind kind, double arc, double sum, bool offset)
{
    struct vp_geom g;
    struct vp_view *v = NULL;
    struct vp_scan scan;
    if (!parse(&g, text) || !look(&g, &v, &scan)) {
        CHECK(!"parsed");
        return;
    }
    if (scan.kind != kind || scan.offset != offset)
        printf("scan: %s", text);
    CHECK_INT(scan.kind, kind);
    CHECK_INT(scan.offset, offset);
    CHECK_NEAR(scan.arc * 180 / PI, arc, 1e-6);
    CHECK_NEAR(weight_sum(&g, v) * 180 / PI, sum, 1e-6);
    free(v);
    vp_geom_free(&g);
}

static void test_scans(void)
{
    check_scan(FAN "views=720\n", VP_SCAN_FULL, 360, 360, false);
    check_scan(FAN "views=12\n", VP_SCAN_FULL, 360, 360, false);
    check_scan(FAN "views=1\n", VP_SCAN_FULL, 360, 360, false);
    check_scan(FAN "angles=0:0.5:721\n", VP_SCAN_FULL, 360, 360, false);
    check_scan(FAN "angles=350:-0.5:1441\n", VP_SCAN_FULL, 360, 360, false);
    check_scan(FAN "angles=0:0.5:720\n", VP_SCAN_FULL, 360, 360, false);
    /* A view or two that are missing do not open a turn, but what is missing is measured from the other side; */
    check_scan(FAN "angles=0:0.5:719\n", VP_SCAN_FULL, 360, 360, false);
    check_scan(FAN "angles=0:0.5:711\n", VP_SCAN_SHORT, 355, 355.5, false);
    check_scan(FAN "angles=0:1:346\n", VP_SCAN_SHORT, 345, 346, false);
    /* not if the detector sees only one side of the axis. */
    check_scan(FAN "angles=0:0.5:711\noffset-u=60\n", VP_SCAN_FULL, 360, 360, true);
    /* Arcs: the ends count for a full step, so the sum is the arc and a step. */
    check_scan(FAN "angles=0:0.5:385\n", VP_SCAN_SHORT, 192, 192.5, false);
    check_scan(FAN "angles=300:0.5:385\ndirection=clockwise\n", VP_SCAN_SHORT, 192, 192.5, false);
    check_scan(FAN "angles=0:10:21\n", VP_SCAN_SHORT, 200, 210, false);
    check_scan(FAN "angles=0 1\n", VP_SCAN_SHORT, 1, 2, false);
    /* Offset detectors: Wang weights on full scans only. */
    check_scan(FAN "views=720\noffset-u=10\n", VP_SCAN_FULL, 360, 360, false);
    check_scan(FAN "views=720\noffset-u=60\n", VP_SCAN_FULL, 360, 360, true);
    check_scan(FAN "views=720\noffset-u=-60\n", VP_SCAN_FULL, 360, 360, true);
    check_scan(FAN "angles=0:0.5:385\noffset-u=60\n", VP_SCAN_SHORT, 192, 192.5, false);
    /* Parallel: the half circle, whichever way it is covered. */
    check_scan(PAR "views=181\narc=180\n", VP_SCAN_PARALLEL, 180, 180, false);
    check_scan(PAR "angles=0:1:181\n", VP_SCAN_PARALLEL, 180, 180, false);
    check_scan(PAR "views=360\n", VP_SCAN_PARALLEL, 180, 180, false);
    check_scan(PAR "views=361\n", VP_SCAN_PARALLEL, 180, 180, false);
    check_scan(PAR "angles=0:0.994475:181\noffset-u=-24\n", VP_SCAN_PARALLEL, 180, 180, false);
    check_scan(PAR "angles=0:1:121\n", VP_SCAN_PARALLEL, 120, 121, false);
    check_scan(PAR "views=360\noffset-u=100\n", VP_SCAN_FULL, 360, 360, true);
    /* An offset detector's gaps are all open, up to a third of a turn each, */
    check_scan(FAN "angles=0:1:331\noffset-u=160\n", VP_SCAN_SHORT, 330, 331, true);
    check_scan(FAN "angles=0:1:251\noffset-u=160\n", VP_SCAN_SHORT, 250, 251, true);
    check_scan(FAN "angles=0:1:231\noffset-u=160\n", VP_SCAN_SHORT, 230, 231, false);
    check_scan(FAN "angles=0:1:10 40:1:10 80:1:240\noffset-u=160\n", VP_SCAN_SHORT, 319, 260, true);
    check_scan(PAR "angles=0:1:331\noffset-u=100\n", VP_SCAN_SHORT, 330, 331, true);
    /* a parallel beam's is closed up to 50 degrees, and not there where the views opposite fill it. */
    check_scan(PAR "angles=0:1:136\n", VP_SCAN_PARALLEL, 180, 180, false);
    check_scan(PAR "angles=0:1:128\n", VP_SCAN_PARALLEL, 127, 128, false);
    check_scan(PAR "angles=0:1:301\n", VP_SCAN_PARALLEL, 180, 180, false);
    check_scan(PAR "views=180\narc=180\noffset-u=100\n", VP_SCAN_PARALLEL, 180, 180, false);
}

/* The weights of a scan do not depend on the order of its views, and views of the same angle share one. */
static void test_weights(void)
{
    struct vp_geom g, turns, shuffled;
    struct vp_view *v = NULL, *vt = NULL, *vs = NULL;
    struct vp_scan scan;
    CHECK(parse(&g, FAN "views=100\nstart=3\n") && look(&g, &v, &scan));
    CHECK(parse(&turns, FAN "angles=3:3.6:300\n") && look(&turns, &vt, &scan));
    CHECK_INT(scan.kind, VP_SCAN_FULL);
    for (int k = 0; k < 300; k++)
        CHECK_NEAR(vt[k].weight, v[0].weight / 3, 1e-12);
    CHECK(parse(&shuffled, FAN "views=100\nstart=3\n"));
    for (int k = 0; k < 100; k++)
        shuffled.angle[k] = g.angle[(37 * k) % 100] + 360 * (k % 3 - 1);
    CHECK(look(&shuffled, &vs, &scan));
    for (int k = 0; k < 100; k++)
        CHECK_NEAR(vs[k].weight, v[0].weight, 1e-12);
    free(v);
    free(vt);
    free(vs);
    vp_geom_free(&g);
    vp_geom_free(&turns);
    vp_geom_free(&shuffled);

    /* Uneven steps: half the gaps to both neighbours. */
    CHECK(parse(&g, FAN "angles=0 100 130 240\n") && look(&g, &v, &scan));
    const double want[] = {110, 65, 70, 115};
    for (int k = 0; k < 4; k++)
        CHECK_NEAR(v[k].weight * 180 / PI, want[k], 1e-10);
    CHECK_NEAR(scan.largest_gap * 180 / PI, 120, 1e-10);
    free(v);
    vp_geom_free(&g);

    /* An arc across 0 degrees begins where the angles begin to grow, also for a clockwise source. */
    CHECK(parse(&g, FAN "angles=300:1:200\n") && look(&g, &v, &scan));
    CHECK_NEAR(scan.start * 180 / PI, 300, 1e-10);
    CHECK_NEAR(v[0].weight, v[100].weight, 1e-12);
    CHECK_NEAR(v[199].weight, v[100].weight, 1e-12);
    free(v);
    vp_geom_free(&g);
    CHECK(parse(&g, FAN "angles=300:1:200\ndirection=clockwise\n") && look(&g, &v, &scan));
    CHECK_NEAR(scan.start, v[199].angle, 0);
    free(v);
    vp_geom_free(&g);

    CHECK(parse(&g, FAN "views=720\noffset-u=60\n") && look(&g, &v, &scan));
    CHECK_NEAR(scan.overlap, 220, 1e-9);
    CHECK_NEAR(scan.half_fan_hi, atan((279.5 - 60) * 0.2 / 600), 1e-12);
    CHECK_NEAR(scan.half_fan_lo, -atan((279.5 + 60) * 0.2 / 600), 1e-12);
    free(v);
    vp_geom_free(&g);
}

/* --- the volume ---------------------------------------------------------------------------------- */

static void check_grid(const char *text, const struct vp_grid_params *o, int64_t nx, int64_t ny, int64_t nz,
                       double voxel)
{
    struct vp_geom g;
    struct vp_view *v = NULL;
    struct vp_scan scan;
    struct vp_grid grid;
    struct vp_err err = VP_ERR_INIT;
    int64_t z0, z1;
    CHECK(parse(&g, text) && look(&g, &v, &scan));
    CHECK_INT(vp_grid_make(&grid, &z0, &z1, o, &g, v, &scan, &err), 0);
    CHECK_INT(grid.n[0], nx);
    CHECK_INT(grid.n[1], ny);
    CHECK_INT(grid.n[2], nz);
    CHECK_NEAR(grid.voxel[0], voxel, 1e-9 * voxel);
    CHECK_NEAR(grid.voxel[2], voxel, 1e-9 * voxel);
    CHECK(z0 == 0 && z1 == nz);
    free(v);
    vp_geom_free(&g);
}

static void test_grid(void)
{
    const struct vp_grid_params none = {0};
    const double pixel = 0.2 * 410.66 / 553.74, radius = 410.66 * sin(atan(56 / 553.74));
    static const char htc[] = "sod=410.66\nsdd=553.74\ndetector=560x1\npitch=0.2\nviews=720\n";
    check_grid(htc, &none, 558, 558, 1, pixel);
    check_grid(htc, &(struct vp_grid_params){.volume = {2, {512, 512}}}, 512, 512, 1, 2 * radius / 512);
    check_grid(htc, &(struct vp_grid_params){.volume = {1, {512}}}, 512, 512, 1, 2 * radius / 512);
    check_grid(htc, &(struct vp_grid_params){.volume = {3, {256, 512, 7}}}, 256, 512, 7, 2 * radius / 512);
    check_grid(htc, &(struct vp_grid_params){.voxel = {1, {1}}}, 84, 84, 1, 1);
    check_grid(htc, &(struct vp_grid_params){.voxel = {1, {0.5}}, .volume = {3, {10, 20, 30}}}, 10, 20, 30,
               0.5);
    check_grid("sod=100\nsdd=200\ndetector=100x80\npitch=0.2\nviews=90\n", &none, 100, 100, 80, 0.1);
    check_grid("sod=100\nsdd=200\ndetector=100x80\npitch=0.2\nviews=90\noffset-v=5\n", &none, 100, 100, 90,
               0.1);
    check_grid("sod=100\nsdd=200\ndetector=100x80\npitch=0.2 -0.4\nviews=90\n", &none, 100, 100, 160, 0.1);
    /* Off centre the larger side counts if the scan completes it, else the smaller. */
    check_grid("beam=parallel\ndetector=640x2\npitch=1\nangles=0:0.994475:181\noffset-u=-24\n", &none, 592,
               592, 2, 1);
    check_grid("beam=parallel\ndetector=640x2\npitch=1\nviews=360\noffset-u=-100\n", &none, 840, 840, 2, 1);

    struct vp_geom g;
    struct vp_view *v = NULL;
    struct vp_scan scan;
    struct vp_grid grid;
    struct vp_err err = VP_ERR_INIT;
    int64_t z0, z1;
    CHECK(parse(&g, "sod=100\nsdd=200\ndetector=100x80\npitch=0.2\nviews=90\ntilt=2\n") &&
          look(&g, &v, &scan));
    struct vp_grid_params o = {.slab = {true, 10, 20}, .center = {3, {1, 2, 3}}};
    CHECK_INT(vp_grid_make(&grid, &z0, &z1, &o, &g, v, &scan, &err), 0);
    CHECK(z0 == 10 && z1 == 20);
    /* Projecting voxel indices is projecting their centres. */
    for (int n = 0; n < 50; n++) {
        const double ijk[3] = {between(0, 99), between(0, 99), between(0, 79)};
        double x[3], Pv[12], got[3], want[3];
        for (int i = 0; i < 3; i++)
            x[i] = grid.center[i] + (ijk[i] - (double)(grid.n[i] - 1) / 2) * grid.voxel[i];
        vp_view_on_grid(&v[n], &grid, Pv);
        project(Pv, ijk, got);
        project(v[n].P, x, want);
        for (int i = 0; i < 3; i++)
            CHECK_NEAR(got[i], want[i], 1e-10);
    }
    struct vp_stack s = {0};
    double origin[3];
    CHECK_INT(vp_grid_to_stack(&grid, z0, z1, &s, &err), 0);
    CHECK_INT(s.nx, 100);
    CHECK_INT(s.pages, 10);
    CHECK_STR(vp_meta_get(&s.meta, "axes"), "x y z");
    CHECK_STR(vp_meta_get(&s.meta, "unit"), "mm");
    CHECK(vp_meta_numbers(&s.meta, "origin", 3, origin));
    CHECK_NEAR(origin[2], grid.center[2] + (10 - (double)(grid.n[2] - 1) / 2) * grid.voxel[2], 1e-12);
    vp_stack_free(&s);
    o.slab.hi = 1000;
    CHECK_INT(vp_grid_make(&grid, &z0, &z1, &o, &g, v, &scan, &err), -1);
    CHECK(strstr(err.msg, "--slab: 10:1000 is not within the volume's slices 0:") != NULL);
    free(v);
    vp_geom_free(&g);
}

/* --- files --------------------------------------------------------------------------------------- */

static bool same_bits(const struct vp_geom *a, const struct vp_geom *b)
{
    if (a->beam != b->beam || a->sod != b->sod || a->sdd != b->sdd || a->nu != b->nu || a->nv != b->nv ||
        a->du != b->du || a->dv != b->dv || a->offset_u != b->offset_u || a->offset_v != b->offset_v ||
        a->tilt != b->tilt || a->clockwise != b->clockwise || a->views != b->views ||
        !a->matrix != !b->matrix)
        return false;
    return !memcmp(a->angle, b->angle, (size_t)a->views * sizeof *a->angle) &&
           (!a->matrix || !memcmp(a->matrix, b->matrix, (size_t)a->views * 12 * sizeof *a->matrix));
}

static void check_round_trip(const struct vp_geom *g)
{
    struct vp_geom back = {0}, again = {0};
    struct vp_meta meta = {0};
    struct vp_err err = VP_ERR_INIT;
    char *text = vp_geom_format(g, false);
    CHECK(text && parse(&back, text));
    CHECK(text && back.views == g->views && same_bits(g, &back));
    CHECK_INT(vp_geom_to_meta(g, &meta, &err), 0);
    CHECK_INT(vp_geom_from_meta(&again, &meta, "t.tif", &err), 1);
    CHECK(again.views == g->views && same_bits(g, &again));
    free(text);
    vp_meta_free(&meta);
    vp_geom_free(&back);
    vp_geom_free(&again);
}

static void test_round_trip(void)
{
    static const char *const texts[] = {
        "sod=410.66\nsdd=553.74\ndetector=560x1\npitch=0.2\nangles=0:0.5:721\ndirection=clockwise\n",
        "sod=76.7511959075928\nsdd=1127.464\ndetector=1500x2000\npitch=0.2 -0.2\n"
        "angles=3.36500000953674:0.11457670273711:3142\noffset-u=0.1\noffset-v=1e-300\n"
        "tilt=-0.3333333333333333\n",
        "beam=parallel\ndetector=5x6\npitch=0.1\nangles=1 2 4 8 16.000000000000004 -32 64 1e3 -0.1 0.2\n  5, 6 # more\n 7\n",
        "beam=parallel\ndetector=5x6\npitch=0.1\nviews=997\narc=359.9\nstart=-17.3\n",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct vp_geom g, m;
        if (!parse(&g, texts[i])) {
            CHECK(!"parsed");
            continue;
        }
        check_round_trip(&g);
        char *matrices = vp_geom_format(&g, true);
        CHECK(matrices && parse(&m, matrices));
        check_round_trip(&m);
        struct vp_view *v = NULL, *vm = NULL;
        CHECK(look(&g, &v, NULL) && look(&m, &vm, NULL));
        double worst = 0;
        for (int64_t k = 0; k < g.views; k++)
            for (int j = 0; j < 12; j++)
                worst = fmax(worst, fabs(v[k].P[j] - vm[k].P[j]) / (fabs(v[k].P[j]) + 1));
        CHECK_NEAR(worst, 0, 1e-14);
        free(v);
        free(vm);
        free(matrices);
        vp_geom_free(&g);
        vp_geom_free(&m);
    }
    /* Equal steps are written as such only if that gives the same bits. */
    struct vp_geom g;
    CHECK(parse(&g, texts[0]));
    char *text = vp_geom_format(&g, false);
    CHECK(strstr(text, "angles = 0:0.5:721 ") != NULL);
    CHECK(strstr(text, "sod = 410.66 ") != NULL);
    free(text);
    g.angle[5] = nextafter(g.angle[5], 100);
    g.sod = 400;
    text = vp_geom_format(&g, false);
    CHECK(strstr(text, ":721") == NULL);
    CHECK(strstr(text, "sod = 400 ") != NULL);
    check_round_trip(&g);
    free(text);
    vp_geom_free(&g);
}

static void test_nonsense(void)
{
    static const struct { const char *text, *want, *hint;
    } bad[] = {
        {"", "t.geom: empty", ""},
        {"hello\n", "t.geom: line 1: expected 'key = value', got 'hello'", ""},
        {"sod = 1\n\nsodd = 3\n", "t.geom: line 3: unknown key 'sodd'", "did you mean 'sod'?"},
        {"offset_u = 3\n", "t.geom: line 1: unknown key 'offset_u'", "did you mean 'offset-u'?"},
        {"sod = ten\n", "t.geom: line 1: 'ten' is not a distance in mm", ""},
        {"sod = 10px\n", "t.geom: line 1: '10px' is not a distance in mm", ""},
        {"sod = nan\n", "'nan' is not", ""},
        {"sod = 1\nsod = 2\n", "t.geom: line 2: sod is given twice", ""},
        {"detector = 560\n", "'560' is not a detector size WxH", ""},
        {"detector = 0x5\n", "'0x5' is not a detector size WxH", ""},
        {"detector = 5x5x5\n", "is not a detector size WxH", ""},
        {"pitch = 0\n", "it must not be 0", ""},
        {"pitch = 1 2 3\n", "is not one or two numbers", ""},
        {"angles = 0:1\n", "'0:1' is not an angle", ""},
        {"angles = 0:1:2.5\n", "is not an angle", ""},
        {"angles = 0:1:99999999999\n", "more than 10000000 views", ""},
        {"views = 1.5\n", "'1.5' is not a number of views", ""},
        {"views = -3\n", "'-3' is not a number of views", ""},
        {"beam = fan\n", "'fan': expected cone or parallel", ""},
        {"direction = left\n", "'left': expected counterclockwise or clockwise", ""},
        {"offset-u = 3 cm\n", "'3 cm' is not a number of pixels", ""},
        {"sod =\n", "t.geom: line 1: sod has no value", ""},
        {"sod=400\n", "the geometry is not complete: it lacks sdd, detector, pitch, views (or angles)", ""},
        {FAN "views=3\nangles=1 2 3\n", "the angles are given twice", ""},
        {"sod=600\nsdd=400\ndetector=5x5\npitch=1\nviews=9\n",
         "sdd is 400 mm: expected more than sod, 600 mm", ""},
        {"sod=-1\nsdd=400\ndetector=5x5\npitch=1\nviews=9\n", "sod is -1: expected a positive distance", ""},
        {"detector=5x5\npitch=1\nmatrix=1 2 3\n", "expected 12 numbers for each matrix, got 3", ""},
        {"detector=5x5\nmatrix=1 0 0 0 0 0 1 0 0 -1 0 5\ntilt=3\n", "tilt cannot be combined with matrices",
         ""},
        {"1 2 3 4 5 6 7 8 9 10 11\n", "t.geom: line 1: expected the 12 numbers of a 3x4 matrix, got 11", ""},
        {"1 0 0 0 0 0 1 0 0 -1 0 5\n", "the geometry is not complete: it lacks detector",
         "ct-geom --detector WxH FILE"},
        {"<xml/>", "XML, but not an RTKThreeDCircularGeometry", ""},
        {"<RTKThreeDCircularGeometry><Projection<Projection>", "a tag that does not end: '<Projection'", ""},
        {"[Something]\na=1\n", "expected a Nikon .xtekct", ""},
        {"[XTekCT]\nSrcToObject=1\n", "'SrcToDetector' is missing", ""},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct vp_geom g;
        struct vp_err err = VP_ERR_INIT;
        CHECK_INT(parse_geometry(&g, bad[i].text, strlen(bad[i].text), "t.geom", &err), -1);
        if (!strstr(err.msg, bad[i].want) || !strstr(err.hint, bad[i].hint)) {
            printf("got: %s | %s\n", err.msg, err.hint);
            CHECK_STR(err.msg, bad[i].want);
        }
        CHECK(!strchr(err.msg, '\n'));
    }
    struct vp_geom g;
    struct vp_err err = VP_ERR_INIT;
    CHECK_INT(parse_geometry(&g, "sod\0=1", 6, "t.geom", &err), -1);
    CHECK(strstr(err.msg, "binary") != NULL);
    /* what a short file asks for stays within the memory */
    static const char many[] = FAN "views = 10000000\n";
    err = (struct vp_err)VP_ERR_INIT;
    vp_memory_limit(256 << 20);
    CHECK_INT(parse_geometry(&g, many, strlen(many), "t.geom", &err), -1);
    CHECK_INT(err.code, VP_ERESOURCE);
    CHECK(strstr(err.msg, "t.geom: the views of a geometry may take") != NULL);
    vp_memory_limit(UINT64_MAX);
}

/* --- importers ----------------------------------------------------------------------------------- */

static bool import(struct vp_geom *g, const char *text, const struct vp_geom_params *o)
{
    struct vp_err err = VP_ERR_INIT;
    char path[] = "/tmp/geom_test_XXXXXX";
    const int fd = mkstemp(path);
    FILE *f = fdopen(fd, "w");
    fputs(text, f);
    fclose(f);
    const int status = vp_geom_make(g, path, o, &err);
    remove(path);
    if (status)
        printf("%s\n", err.msg);
    return status == 0;
}

static void test_nikon(void)
{
    struct vp_geom g;
    const struct vp_geom_params none = {0};
    struct vp_view *v = NULL;
    double uvw[3];
    static const char text[] =
        "[XTekCT]\r\nName=x\r\nSrcToObject=76.7511959075928\r\nSrcToDetector=1127.464\r\n"
        "DetectorPixelsX=1500\r\nDetectorPixelsY=2000\r\nDetectorPixelSizeX=0.2\r\n"
        "DetectorPixelSizeY=0.2\r\nCentreOfRotationTop=0.0\r\nCentreOfRotationBottom=0.0\r\n"
        "Projections=3142\r\nInitialAngle=3.36500000953674\r\nAngularStep=0.11457670273711\r\n";
    CHECK(import(&g, text, &none));
    CHECK_INT(g.views, 3142);
    CHECK(g.nu == 1500 && g.nv == 2000 && g.offset_u == 0 && g.tilt == 0 && !g.clockwise);
    /* The file's own VoxelSizeX. */
    CHECK_NEAR(g.du * g.sod / g.sdd, 0.013614837863123, 1e-9);
    CHECK_NEAR(g.angle[3141], 3.36500000953674 + 3141 * 0.11457670273711, 1e-12);
    CHECK(look(&g, &v, NULL));
    project(v[0].P, (double[]){0, 0, 1}, uvw);
    CHECK(uvw[1] < 999); /* the first row is on top */
    free(v);
    vp_geom_free(&g);

    char more[2048];
    snprintf(more, sizeof more, "%s", text);
    memcpy(strstr(more, "Top=0.0"), "Top=3.0", 7);
    memcpy(strstr(more, "Bottom=0.0"), "Bottom=1.0", 10);
    CHECK(import(&g, more, &none) && look(&g, &v, NULL));
    CHECK_NEAR(g.offset_u, 10, 1e-12);
    /* The axis is seen 3 mm off at the top of the detector, 1 mm at the bottom. */
    const double half = 200 * g.sod / g.sdd / cos(g.tilt * PI / 180);
    project(v[0].P, (double[]){0, 0, half}, uvw);
    CHECK_NEAR((uvw[0] - 749.5) * 0.2, 3, 1e-4);
    CHECK_NEAR(uvw[1], -0.5, 0.01);
    project(v[0].P, (double[]){0, 0, -half}, uvw);
    CHECK_NEAR((uvw[0] - 749.5) * 0.2, 1, 1e-4);
    free(v);
    vp_geom_free(&g);
}

static void test_bruker(void)
{
    struct vp_geom g;
    const struct vp_geom_params none = {0};
    CHECK(import(
        &g,
        "[System]\nScanner=SkyScan1275\nCamera Pixel Size (um)=75.0\n[Acquisition]\nNumber Of Files=  601\n"
        "Number Of Rows= 1536\nNumber Of Columns= 1944\nCamera binning=1x1\nOptical Axis (line)=  760\n"
        "Object to Source (mm)=24.755\nCamera to Source (mm)=286.0\nImage Pixel Size (um)=7.000817\n"
        "Rotation Step (deg)=0.600\nUse 360 Rotation=YES\nRotation Direction=CC\n",
        &none));
    CHECK(g.beam == VP_CONE && g.views == 601 && g.nu == 1944 && g.nv == 1536 && !g.clockwise);
    CHECK_NEAR(g.du * g.sod / g.sdd, 0.007000817, 1e-12);
    CHECK_NEAR(g.offset_v, -7.5, 0);
    CHECK_NEAR(g.angle[600], 360, 1e-9);
    vp_geom_free(&g);
    CHECK(import(
        &g,
        "[System]\nCamera Pixel Size (um)=10\n[Acquisition]\nNumber of Files=10\nNumber of Rows=4\n"
        "Number of Columns=6\nCamera binning=2x2\nObject to Source (mm)=50\nCamera to Source (mm)=100\n"
        "Rotation Step (deg)=18\n",
        &none));
    CHECK_NEAR(g.du, 0.02, 1e-15);
    vp_geom_free(&g);
    CHECK(import(
        &g,
        "[System]\n[Acquisition]\nObject to Source (mm)=1000000\nNumber Of Files=720\nNumber Of Rows=8\n"
        "Number Of Columns=6\nImage Pixel Size (um)=11.5\nRotation Step (deg)=0.5\nRotation Direction=CW\n",
        &none));
    CHECK(g.beam == VP_PARALLEL && g.clockwise);
    CHECK_NEAR(g.du, 0.0115, 1e-15);
    vp_geom_free(&g);
}

#define RTK_VIEW                                                                                             \
    "<GantryAngle>271.847274780273</GantryAngle><ProjectionOffsetX>-117.056503295898</ProjectionOffsetX>"    \
    "<ProjectionOffsetY>-1.01195001602173</ProjectionOffsetY>"
#define RTK_HEAD                                                                                             \
    "<?xml version=\"1.0\"?>\n<!DOCTYPE RTKGEOMETRY>\n<RTKThreeDCircularGeometry version=\"3\">\n"           \
    "<!-- mm --><SourceToIsocenterDistance>1000</SourceToIsocenterDistance>\n"                               \
    "<SourceToDetectorDistance>1536</SourceToDetectorDistance>\n"

static void test_rtk(void)
{
    const struct vp_geom_params detector = {.detector = "1024x768", .pitch = "0.388"};
    struct vp_geom given, made;
    struct vp_view *vg = NULL, *vm = NULL;
    struct vp_scan scan;
    struct vp_err err = VP_ERR_INIT;
    /* The example of RTK's documentation (its matrix is rounded to 15 digits). */
    CHECK(import(
        &given,
        RTK_HEAD
        "<Projection>" RTK_VIEW "<Matrix>\n -166.5093078829 0 -1531.42837748039 -117056.503295898\n"
        " -1.01142410874151 -1536 0.0326206557691505 -1011.95001602173\n"
        " -0.999480303105996 0 0.0322354417240802 -1000\n</Matrix></Projection></RTKThreeDCircularGeometry>",
        &detector));
    CHECK(import(&made, RTK_HEAD "<Projection>" RTK_VIEW "</Projection></RTKThreeDCircularGeometry>",
                 &detector));
    CHECK(look(&given, &vg, &scan) && look(&made, &vm, &scan));
    for (int i = 0; i < 12; i++)
        CHECK_NEAR(vg[0].P[i], vm[0].P[i], 1e-6);
    CHECK_NEAR(made.sod, 1000, 1e-9);
    CHECK_NEAR(made.sdd, 1536, 1e-9);
    CHECK(scan.circular && scan.untilted);
    /* RTK's source is at (sin g, 0, cos g) SID; x = X, y = Z, z = -Y. */
    const double g = 271.847274780273 * PI / 180;
    CHECK_NEAR(remainder(vm[0].angle + g, 2 * PI), 0, 1e-9);
    double uvw[3];
    /* (X, Y, Z) = (0, 10, 0) is seen at 10 * SDD / SID mm along its v, less the projection's offset. */
    project(vm[0].P, (double[]){0, 0, -10}, uvw);
    CHECK_NEAR(uvw[1], 383.5 + (15.36 + 1.01195001602173) / 0.388, 1e-9);
    CHECK_NEAR(uvw[0], 511.5 + 117.056503295898 / 0.388, 1e-9);
    CHECK(vm[0].fu > 0 && vm[0].fv < 0);
    free(vg);
    free(vm);
    vp_geom_free(&given);
    vp_geom_free(&made);

    static const char text[] = RTK_HEAD "<Projection>" RTK_VIEW "</Projection></RTKThreeDCircularGeometry>";
    CHECK_INT(parse_geometry(&made, text, strlen(text), "a.xml", &err), -1);
    CHECK(strstr(err.msg, "a.xml: the geometry is not complete: it lacks detector, pitch") != NULL);
    CHECK(strstr(err.hint, "--detector WxH --pitch MM") != NULL);
}

struct heard { const char *want; int n; bool found; };

static void hear(void *ctx, const char *text)
{
    struct heard *h = ctx;
    h->n++;
    h->found |= h->want && strstr(text, h->want);
    if (!h->want)
        printf("unexpected: %s\n", text);
}

static void test_explain(void)
{
    static const struct { const char *text, *want; } cases[] = {
        {FAN "angles=0:0.5:381\n", "less than 180 + fan angle"},
        {FAN "angles=0:0.5:385\noffset-u=90\n", "off centre in a short scan"},
        {PAR "angles=0:0.5:300\n", "less than 180: directions are missing"},
        {FAN "angles=0:0:400\n", "all 400 views have the same angle"},
        {FAN "angles=0:1:360 17 18 19\n", "3 views repeat"},
        {FAN "views=40\n", "expect streaks"},
        {FAN "views=720\noffset-u=300\n", "outside the detector"},
        {"sod=400\nsdd=600\ndetector=56x1\npitch=200\nviews=100\n", "is the pitch in mm?"},
        {CONE "views=720\narc=3600\npitch-z=40\n", NULL},
        {CONE "views=720\narc=3600\npitch-z=50\n", "moves 50 mm per turn, more than the 48 mm"},
        {CONE "views=720\narc=3600\npitch-z=-100\n", NULL}, /* it is refused */
        {FAN "angles=0:0.5:320 170:0.5:360\n", "uneven steps"},
        {FAN "angles=0:0.5:721\n", NULL},
        {FAN "angles=0:0.5:400\n", NULL},
        {FAN "angles=0:0.5:1440\n", NULL},
        {PAR "views=500\narc=180\n", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct vp_geom g;
        struct vp_view *v = NULL;
        struct vp_scan scan;
        CHECK(parse(&g, cases[i].text) && look(&g, &v, &scan));
        char *text = vp_geom_explain(&g, v, &scan);
        struct heard heard = {.want = cases[i].want};
        vp_geom_warn(&g, v, &scan, hear, &heard);
        const bool found = cases[i].want ? heard.found : !heard.n;
        if (!found)
            printf("%s: expected %s\n", cases[i].text, cases[i].want ? cases[i].want : "no warning");
        CHECK(found);
        CHECK(text && strstr(text, "field of view"));
        free(text);
        free(v);
        vp_geom_free(&g);
    }
}

/* A stack that carries a geometry is one. */
static void test_tiff(void)
{
    char path[] = "/tmp/geom_test_XXXXXX";
    struct vp_geom g, back;
    struct vp_err err = VP_ERR_INIT;
    struct vp_stack s = {.nx = 5, .ny = 4, .pages = 3, .type = VP_F32};
    struct vp_writer *w = NULL;
    const float page[20] = {0};
    CHECK(parse(&g, "sod=400\nsdd=600\ndetector=5x4\npitch=0.2 -0.2\nviews=3\noffset-u=0.1\n"));
    close(mkstemp(path));
    CHECK_INT(vp_geom_to_meta(&g, &s.meta, &err), 0);
    CHECK_INT(vp_writer_open(&w, path, &s, &(struct vp_writer_options){0}, &err), 0);
    for (int i = 0; i < 3; i++)
        CHECK_INT(vp_writer_page(w, page, &err), 0);
    CHECK_INT(vp_writer_close(w, &err), 0);
    CHECK_INT(vp_geom_make(&back, path, NULL, &err), 0);
    CHECK(same_bits(&g, &back));
    vp_geom_free(&back);
    vp_meta_remove_prefix(&s.meta, "geom.");
    CHECK_INT(vp_writer_open(&w, path, &s, &(struct vp_writer_options){0}, &err), 0);
    for (int i = 0; i < 3; i++)
        CHECK_INT(vp_writer_page(w, page, &err), 0);
    CHECK_INT(vp_writer_close(w, &err), 0);
    CHECK_INT(vp_geom_make(&back, path, NULL, &err), -1);
    CHECK(strstr(err.msg, "carries no scan geometry") != NULL);
    remove(path);
    vp_stack_free(&s);
    vp_geom_free(&g);
}

/* --- the geometry of a stack --------------------------------------------------------------------- */

static void test_of_a_stack(void)
{
    struct vp_geom g, back;
    struct vp_err err = VP_ERR_INIT;
    struct vp_stack s = {.nx = 560, .ny = 1, .pages = 720, .type = VP_F32};
    const struct vp_projection_params views = {0}, sinograms = {.layout = VP_LAYOUT_SINOGRAMS};
    CHECK(parse(&g, FAN "views=720\n"));
    CHECK_INT(vp_geom_of(&back, &views, &s, "proj.tif", &err), -1);
    CHECK_INT(err.code, VP_EUSAGE);
    CHECK_STR(err.msg, "proj.tif carries no scan geometry");
    err = (struct vp_err)VP_ERR_INIT;
    CHECK_INT(vp_geom_to_meta(&g, &s.meta, &err), 0);
    CHECK_INT(vp_geom_of(&back, &views, &s, "proj.tif", &err), 0);
    CHECK(same_bits(&g, &back));
    vp_geom_free(&back);
    s.nx = 500;
    CHECK_INT(vp_geom_of(&back, &views, &s, "proj.tif", &err), -1);
    CHECK_STR(err.msg, "proj.tif is 500x1, the geometry's detector 560x1");
    err = (struct vp_err)VP_ERR_INIT;
    s.nx = 560, s.pages = 719;
    CHECK_INT(vp_geom_of(&back, &views, &s, "proj.tif", &err), -1);
    CHECK_STR(err.msg, "proj.tif has 719 pages, the geometry 720 views");
    err = (struct vp_err)VP_ERR_INIT;
    s.ny = 720, s.pages = 1;
    CHECK_INT(vp_geom_of(&back, &views, &s, "proj.tif", &err), -1);
    CHECK_STR(err.hint, "use --layout sinograms");
    err = (struct vp_err)VP_ERR_INIT;
    CHECK_INT(vp_geom_of(&back, &sinograms, &s, "proj.tif", &err), 0);
    vp_geom_free(&back);
    vp_meta_set(&s.meta, "geom.pitch", "-");
    CHECK_INT(vp_geom_of(&back, &sinograms, &s, "proj.tif", &err), -1);
    CHECK_STR(err.msg, "proj.tif: geom.pitch: '-' is not one or two numbers of mm");
    vp_geom_free(&g);
    vp_stack_free(&s);
}

int main(void)
{
    test_matrices();
    test_frame();
    test_rows_of_numbers();
    test_decomposition();
    test_bad_matrices();
    test_mirrored();
    test_scans();
    test_weights();
    test_grid();
    test_round_trip();
    test_nonsense();
    test_nikon();
    test_bruker();
    test_rtk();
    test_explain();
    test_tiff();
    test_of_a_stack();
    return test_done();
}
