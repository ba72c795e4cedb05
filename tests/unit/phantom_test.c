/* SPDX-License-Identifier: BSD-3-Clause */
/* Line integrals against closed forms and against numerical integration, voxels against the definition,
 * photon counts against the Poisson distribution. */
#include "test.h"
#include "base/err.h"
#include "ct/phantom.h"

#include <stdlib.h>
#include <unistd.h>

/* Rows [v0, v1) of one view. */
static void line_integrals(const struct vp_ellipsoid *list, int n, const struct vp_view *view, enum vp_beam beam,
                           int64_t nu, int64_t v0, int64_t v1, int samples, float *out)
{
    const struct vp_phantom_scan s = {.list = list, .n = n, .views = view, .beam = beam, .nu = nu, .samples = samples};
    vp_phantom_block(&s, 0, v0, v1, out);
}

#define PI 3.14159265358979323846

/* The view of geom.h's frame, written out: rows of P for a detector of nu x nv pixels of pitch d. */
static struct vp_view make_view(enum vp_beam beam, double b, double sod, double sdd, double d, int64_t nu,
                                int64_t nv)
{
    const double c = cos(b), s = sin(b), cu = 0.5 * (double)(nu - 1), cv = 0.5 * (double)(nv - 1);
    struct vp_view v = {.angle = b, .cu = cu, .cv = cv};

    if (beam == VP_PARALLEL) {
        const double P[12] = {c / d, s / d, 0, cu, 0, 0, 1 / d, cv, 0, 0, 0, 1};
        memcpy(v.P, P, sizeof P);
    } else {
        const double f = sdd / d;
        const double P[12] = {
            f * c + cu * s, f * s - cu * c, 0, cu * sod, cv * s, -cv * c, f, cv * sod, s, -c, 0, sod};
        memcpy(v.P, P, sizeof P);
        v.sod = sod;
    }
    return v;
}

/* Source (cone) or a point far back (parallel), and the unit direction of the ray of pixel (u, v). */
static void ray_of(enum vp_beam beam, double b, double sod, double sdd, double d, int64_t nu, int64_t nv,
                   double u, double v, double p[3], double e[3])
{
    const double x = (u - 0.5 * (double)(nu - 1)) * d, z = (v - 0.5 * (double)(nv - 1)) * d;
    const double across[3] = {cos(b), sin(b), 0}, along[3] = {sin(b), -cos(b), 0};
    double norm = 0;

    for (int i = 0; i < 3; i++) {
        const double up = i == 2 ? z : 0;
        p[i] = beam == VP_PARALLEL ? -1000 * along[i] + x * across[i] + up : -sod * along[i];
        e[i] = beam == VP_PARALLEL ? along[i] : sdd * along[i] + x * across[i] + up;
        norm += e[i] * e[i];
    }
    for (int i = 0; i < 3; i++)
        e[i] /= sqrt(norm);
}

static double sphere_chord(const double c[3], double r, const double p[3], const double e[3])
{
    double t = 0, q = 0;

    for (int i = 0; i < 3; i++)
        t += (c[i] - p[i]) * e[i];
    for (int i = 0; i < 3; i++) {
        const double miss = p[i] + t * e[i] - c[i];
        q += miss * miss;
    }
    return q < r * r ? 2 * sqrt(r * r - q) : 0;
}

static bool inside(const struct vp_ellipsoid *e, double x, double y, double z)
{
    const double c = cos(e->phi * PI / 180), s = sin(e->phi * PI / 180);
    const double dx = x - e->center[0], dy = y - e->center[1], dz = z - e->center[2];
    const double a = (c * dx + s * dy) / e->axis[0], b = (-s * dx + c * dy) / e->axis[1], g = dz / e->axis[2];
    return a * a + b * b + g * g <= 1;
}

static void test_spheres(void)
{
    enum { NU = 61, NV = 47 };
    static float out[NU * NV];
    const struct vp_ellipsoid list[] = {{{5, -3, 2}, {7, 7, 7}, 0, 0.02}, {{-9, 4, -6}, {3, 3, 3}, 50, 0.05},
                                        {{0.3, 0.2, 9}, {0.9, 0.9, 0.9}, 0, 1}};

    for (int beam = 0; beam < 2; beam++)
        for (int k = 0; k < 7; k++) {
            const double b = k * 0.93 - 1, sod = 80, sdd = 170, d = beam == VP_CONE ? 1.3 : 0.7;
            const struct vp_view view = make_view(beam, b, sod, sdd, d, NU, NV);
            double worst = 0, total = 0;
            line_integrals(list, 3, &view, beam, NU, 0, NV, 1, out);
            for (int v = 0; v < NV; v++)
                for (int u = 0; u < NU; u++) {
                    double p[3], e[3], want = 0;
                    ray_of(beam, b, sod, sdd, d, NU, NV, u, v, p, e);
                    for (int i = 0; i < 3; i++)
                        want += list[i].density * sphere_chord(list[i].center, list[i].axis[0], p, e);
                    worst = fmax(worst, fabs(out[v * NU + u] - want));
                    total += want;
                }
            /* half a unit in the last place of the largest value, about 1.8 */
            CHECK_NEAR(worst, 0, 1.3e-7);
            CHECK(total > 10);
        }
}

/* Turned ellipsoids, by counting points along the ray, for rays through a tilted matrix as well. */
static void test_ellipsoids(void)
{
    enum { NU = 24, NV = 18, STEPS = 200000 };
    static float out[NU * NV];
    const struct vp_ellipsoid list[] = {{{4, 2, -1}, {8, 3, 5}, 35, 0.03},
                                        {{-3, -6, 1}, {1, 9, 2}, -70, 0.5}};
    struct vp_view view = make_view(VP_CONE, 0.7, 60, 120, 3, NU, NV);
    double p[3], e[3];

    line_integrals(list, 2, &view, VP_CONE, NU, 0, NV, 1, out);
    for (int at = 5; at < NU * NV; at += 37) {
        int hits[2] = {0};
        ray_of(VP_CONE, 0.7, 60, 120, 3, NU, NV, at % NU, at / NU, p, e);
        for (int i = 0; i < STEPS; i++) {
            const double t = (i + 0.5) * 120.0 / STEPS;
            for (int j = 0; j < 2; j++)
                hits[j] += inside(&list[j], p[0] + t * e[0], p[1] + t * e[1], p[2] + t * e[2]);
        }
        const double want = 120.0 / STEPS * (list[0].density * hits[0] + list[1].density * hits[1]);
        CHECK_NEAR(out[at], want, 1e-3);
    }

    /* the detector turned in its plane: pixel (u, v) becomes (cu + u' , cv + v') with u', v' turned by 30
     * degrees */
    static float turned[NU * NV];
    const double c = cos(PI / 6), s = sin(PI / 6), *const P = view.P;
    struct vp_view tilted = view;
    for (int i = 0; i < 4; i++) {
        const double u = P[i] - view.cu * P[8 + i], v = P[4 + i] - view.cv * P[8 + i];
        tilted.P[i] = c * u + s * v + view.cu * P[8 + i];
        tilted.P[4 + i] = -s * u + c * v + view.cv * P[8 + i];
    }
    line_integrals(list, 2, &tilted, VP_CONE, NU, 0, NV, 1, turned);
    for (int at = 3; at < NU * NV; at += 29) {
        const double u = at % NU - view.cu, v = at / NU - view.cv;
        int hits[2] = {0};
        ray_of(VP_CONE, 0.7, 60, 120, 3, NU, NV, c * u - s * v + view.cu, s * u + c * v + view.cv, p, e);
        for (int i = 0; i < STEPS; i++) {
            const double t = (i + 0.5) * 120.0 / STEPS;
            for (int j = 0; j < 2; j++)
                hits[j] += inside(&list[j], p[0] + t * e[0], p[1] + t * e[1], p[2] + t * e[2]);
        }
        CHECK_NEAR(turned[at], 120.0 / STEPS * (list[0].density * hits[0] + list[1].density * hits[1]), 1e-3);
    }
}

/* A tiny sphere seen from very far: chords to full accuracy, where a discriminant would have lost them. */
static void test_conditioning(void)
{
    enum { N = 65 };
    static float out[N * N];
    const struct vp_ellipsoid one = {{40, 25, 3}, {0.01, 0.01, 0.01}, 0, 1};
    const double sod = 2000;
    struct vp_view view = make_view(VP_CONE, 0, sod, 2 * sod, 1, N, N);
    double p[3], e[3], worst = 0, most = 0;

    /* a detector of fine pixels around the image of the sphere */
    const double w = sod - 25, u = 2 * sod * 40 / w, v = 2 * sod * 3 / w, fine = 2.6 * 0.02 / N;
    for (int i = 0; i < 4; i++) {
        view.P[i] = (i == 0) * 2 * sod / fine + (0.5 * (N - 1) - u / fine) * view.P[8 + i];
        view.P[4 + i] = (i == 2) * 2 * sod / fine + (0.5 * (N - 1) - v / fine) * view.P[8 + i];
    }
    line_integrals(&one, 1, &view, VP_CONE, N, 0, N, 1, out);
    for (int y = 0; y < N; y++)
        for (int x = 0; x < N; x++) {
            const double du = u + (x - 0.5 * (N - 1)) * fine, dv = v + (y - 0.5 * (N - 1)) * fine;
            const double norm = sqrt(du * du + 4 * sod * sod + dv * dv);
            p[0] = p[2] = 0;
            p[1] = sod;
            e[0] = du / norm;
            e[1] = -2 * sod / norm;
            e[2] = dv / norm;
            const double want = sphere_chord(one.center, 0.01, p, e);
            most = fmax(most, want);
            /* next to the edge the chord's slope is unbounded */
            if (want > 0.002)
                worst = fmax(worst, fabs(out[y * N + x] - want));
        }
    CHECK_NEAR(most, 0.02, 1e-4);
    CHECK_NEAR(worst, 0, 2e-9);
}

/* From far away a cone beam is a parallel one. */
static void test_limit(void)
{
    enum { NU = 40, NV = 30 };
    static float cone[NU * NV], parallel[NU * NV];
    struct vp_ellipsoid *list;
    int n;
    struct vp_err err = VP_ERR_INIT;

    CHECK(!vp_phantom_load(&list, &n, "shepp-logan", 18, 0.02, &err));
    CHECK_INT(n, 10);
    const double far = 1e7;
    for (int k = 0; k < 5; k++) {
        const struct vp_view a = make_view(VP_CONE, k, far, far, 1, NU, NV),
                             b = make_view(VP_PARALLEL, k, 0, 0, 1, NU, NV);
        line_integrals(list, n, &a, VP_CONE, NU, 0, NV, 2, cone);
        line_integrals(list, n, &b, VP_PARALLEL, NU, 0, NV, 2, parallel);
        double worst = 0;
        for (int i = 0; i < NU * NV; i++)
            worst = fmax(worst, fabs(cone[i] - parallel[i]));
        CHECK_NEAR(worst, 0, 3e-5);
        CHECK_NEAR(parallel[NV / 2 * NU + NU / 2], 18 * 2 * 0.02 * 1.02 * 0.8, 0.3);
    }
    free(list);
}

/* The source inside an ellipsoid, or ellipsoids beside and behind it: the part in front of the source counts.
 */
static void test_near(void)
{
    enum { NU = 21, NV = 11 };
    static float out[NU * NV];
    const struct vp_ellipsoid around = {{0, 0, 0}, {50, 50, 50}, 0, 1},
                              behind = {{0, 60, 0}, {5, 5, 5}, 0, 1};
    const struct vp_view view = make_view(VP_CONE, 0, 30, 60, 2, NU, NV);

    line_integrals(&around, 1, &view, VP_CONE, NU, 0, NV, 1, out);
    CHECK_NEAR(out[NV / 2 * NU + NU / 2], 80, 1e-5);
    double p[3], e[3], t = 0;
    ray_of(VP_CONE, 0, 30, 60, 2, NU, NV, 3, 2, p, e);
    for (int i = 0; i < 3; i++)
        t -= p[i] * e[i];
    CHECK_NEAR(out[2 * NU + 3], t + sqrt(t * t - 30 * 30 + 50 * 50), 1e-5);

    line_integrals(&behind, 1, &view, VP_CONE, NU, 0, NV, 1, out);
    for (int i = 0; i < NU * NV; i++)
        if (out[i] != 0) {
            CHECK_NEAR(out[i], 0, 0);
            break;
        }
}

/* Sub-samples are rays at the centres of a grid within the pixel. */
static void test_samples(void)
{
    enum { N = 12, S = 3 };
    static float coarse[N * N], fine[N * N * S * S];
    const struct vp_ellipsoid list[] = {{{1, 0.5, -0.6}, {3, 2, 4}, 20, 1}};
    const struct vp_view a = make_view(VP_CONE, 0.4, 50, 100, 1.5, N, N),
                         b = make_view(VP_CONE, 0.4, 50, 100, 0.5, S * N, S * N);

    line_integrals(list, 1, &a, VP_CONE, N, 0, N, S, coarse);
    line_integrals(list, 1, &b, VP_CONE, S * N, 0, S * N, 1, fine);
    for (int y = 0; y < N; y++)
        for (int x = 0; x < N; x++) {
            double sum = 0;
            for (int i = 0; i < S * S; i++)
                sum += fine[(S * y + i / S) * S * N + S * x + i % S];
            CHECK_NEAR(coarse[y * N + x], sum / (S * S), 1e-6);
        }
}

static void brightest(const float *p, int64_t nu, int64_t n, int64_t *u, int64_t *v)
{
    int64_t at = 0;

    for (int64_t i = 0; i < n; i++)
        if (p[i] > p[at])
            at = i;
    *u = at % nu;
    *v = at / nu;
}

/* Sense of rotation and direction of the detector's axes, with single spheres and with "asymmetric". */
static void test_orientation(void)
{
    enum { N = 41, C = N / 2 };
    static float out[N * N];
    const struct vp_ellipsoid x = {{8, 0, 0}, {2, 2, 2}, 0, 1}, y = {{0, 8, 0}, {2, 2, 2}, 0, 1},
                              z = {{0, 0, 8}, {2, 2, 2}, 0, 1};
    int64_t u, v;

    for (int beam = 0; beam < 2; beam++) {
        const struct vp_view zero = make_view(beam, 0, 100, 100, 1, N, N),
                             quarter = make_view(beam, PI / 2, 100, 100, 1, N, N);
        line_integrals(&x, 1, &zero, beam, N, 0, N, 1, out);
        brightest(out, N, N * N, &u, &v);
        CHECK(u == C + 8 && v == C);
        line_integrals(&z, 1, &zero, beam, N, 0, N, 1, out);
        brightest(out, N, N * N, &u, &v);
        CHECK(u == C && v == C + 8);
        line_integrals(&y, 1, &quarter, beam, N, 0, N, 1, out);
        brightest(out, N, N * N, &u, &v);
        CHECK(u == C + 8 && v == C);
        line_integrals(&x, 1, &quarter, beam, N, 0, N, 1, out);
        brightest(out, N, N * N, &u, &v);
        CHECK(u == C && v == C);
    }

    /* no flip or exchange of axes maps the phantom's voxels onto themselves */
    struct vp_ellipsoid *list;
    struct vp_err err = VP_ERR_INIT;
    int n;
    const int order[6][3] = {{0, 1, 2}, {1, 0, 2}, {0, 2, 1}, {2, 1, 0}, {1, 2, 0}, {2, 0, 1}};
    CHECK(!vp_phantom_load(&list, &n, "asymmetric", 10, 1, &err));
    for (int m = 1; m < 48; m++) {
        int differ = 0;
        for (int k = 0; k < 20 * 20 * 20; k++) {
            const double q[3] = {k % 20 - 9.5, k / 20 % 20 - 9.5, k / 400 - 9.5};
            double r[3], a = 0, b = 0;
            for (int i = 0; i < 3; i++)
                r[i] = (m % 8 >> i & 1 ? -1 : 1) * q[order[m / 8][i]];
            for (int i = 0; i < n; i++) {
                a += list[i].density * inside(&list[i], q[0], q[1], q[2]);
                b += list[i].density * inside(&list[i], r[0], r[1], r[2]);
            }
            differ += fabs(a - b) > 0.1;
        }
        CHECK(differ > 40);
    }
    free(list);
}

static void test_voxels(void)
{
    struct vp_ellipsoid *list;
    struct vp_err err = VP_ERR_INIT;
    int n;
    const struct vp_grid grid = {{13, 11, 9}, {1.7, 2, 2.3}, {0.4, -0.3, 0.2}};
    static float out[13 * 11];

    CHECK(!vp_phantom_load(&list, &n, "shepp-logan-contrast", 10, 0.05, &err));
    for (int samples = 1; samples <= 3; samples += 2)
        for (int k = 0; k < 9; k++) {
            vp_phantom_slice(list, n, &grid, k, samples, out);
            int wrong = 0;
            for (int at = 0; at < 13 * 11; at++) {
                double want = 0;
                for (int m = 0; m < samples * samples * samples; m++) {
                    const double o[3] = {(m % samples + 0.5) / samples - 0.5,
                                         (m / samples % samples + 0.5) / samples - 0.5,
                                         (m / samples / samples + 0.5) / samples - 0.5};
                    const int64_t ijk[3] = {at % 13, at / 13, k};
                    double q[3];
                    for (int a = 0; a < 3; a++)
                        q[a] = grid.center[a]
                               + ((double)ijk[a] - 0.5 * (double)(grid.n[a] - 1) + o[a]) * grid.voxel[a];
                    for (int i = 0; i < n; i++)
                        want += list[i].density * inside(&list[i], q[0], q[1], q[2]);
                }
                wrong += fabs(out[at] - want / (samples * samples * samples)) > 1e-8;
            }
            CHECK_INT(wrong, 0);
        }
    /* the head in Toft's contrast: skull 1, brain 0.2, ventricles 0, the big blob on top 0.4 */
    const struct {
        double x, y, z, want;
    } at[] = {{0, 9.0, 0, 1},      {0, -5, 3, 0.2}, {2.2, 0, -2.5, 0},       {-2.2, 0, -2.5, 0},
              {0, 4.5, -2.5, 0.4}, {9.5, 0, 0, 0},  {0.6, -1.05, 6.25, 0.4}, {0, 1, 6.25, 0}};
    for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
        double got = 0;
        for (int j = 0; j < n; j++)
            got += list[j].density * inside(&list[j], at[i].x, at[i].y, at[i].z);
        CHECK_NEAR(got, 0.05 * at[i].want, 1e-12);
    }
    free(list);
}

static void test_named(void)
{
    const char *const names[] = {"shepp-logan", "shepp-logan-contrast", "spheres", "ball", "asymmetric"};
    struct vp_ellipsoid *list;
    struct vp_err err = VP_ERR_INIT;
    int n;

    for (int i = 0; i < 5; i++) {
        CHECK(vp_phantom_named(names[i]));
        CHECK(!vp_phantom_load(&list, &n, names[i], 30, 0.02, &err));
        /* all of it within the radius: its points farthest from the axes' origin */
        for (int j = 0; j < n; j++)
            for (int a = 0; a < 200; a++)
                for (int b = 0; b <= 100; b++) {
                    const double s = a * PI / 100, t = b * PI / 100 - PI / 2, f = list[j].phi * PI / 180;
                    const double x = list[j].axis[0] * cos(s) * cos(t), y = list[j].axis[1] * sin(s) * cos(t);
                    const double px = list[j].center[0] + cos(f) * x - sin(f) * y,
                                 py = list[j].center[1] + sin(f) * x + cos(f) * y;
                    const double pz = list[j].center[2] + list[j].axis[2] * sin(t);
                    if (!(px * px + py * py + pz * pz <= 900 * (1 + 1e-12))) {
                        CHECK_NEAR(sqrt(px * px + py * py + pz * pz), 0, 30);
                        a = b = 1000;
                    }
                }
        free(list);
    }
    CHECK(!vp_phantom_named("head"));
}

static int load_text(const char *text, struct vp_ellipsoid **list, int *n, struct vp_err *err)
{
    char path[] = "phantom_test.XXXXXX";
    const int fd = mkstemp(path);

    CHECK(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    close(fd);
    *err = (struct vp_err)VP_ERR_INIT;
    const int rc = vp_phantom_load(list, n, path, 1, 1, err);
    unlink(path);
    return rc;
}

static void test_file(void)
{
    struct vp_ellipsoid *list;
    struct vp_err err;
    int n;

    CHECK(!load_text("# two\n1 2 3  4 5 6  30 0.5 # first\n\n -1,-2,-3, 1e1,1,1, 0, -2\n", &list, &n, &err));
    CHECK_INT(n, 2);
    CHECK(list[0].center[1] == 2 && list[0].axis[2] == 6 && list[0].phi == 30 && list[0].density == 0.5);
    CHECK(list[1].center[2] == -3 && list[1].axis[0] == 10 && list[1].density == -2);
    free(list);
    CHECK(load_text("1 2 3 4 5 6 7\n", &list, &n, &err) && strstr(err.msg, "line 1: expected 8 numbers")
          && !list);
    CHECK(load_text("\n1 2 3 4 5 6 7 8x\n", &list, &n, &err) && strstr(err.msg, "line 2: '8x' is not"));
    CHECK(load_text("1 2 3 4 0 6 7 8\n", &list, &n, &err)
          && strstr(err.msg, "half axes must be positive, got 0"));
    CHECK(load_text("1 2 3 nan 5 6 7 8\n", &list, &n, &err) && strstr(err.msg, "'nan' is not"));
    CHECK(load_text("1 2 3 4 5 6 7 8 9\n", &list, &n, &err) && strstr(err.msg, "got 9"));
    CHECK(load_text("# nothing\n", &list, &n, &err) && strstr(err.msg, "got none"));
    err = (struct vp_err)VP_ERR_INIT;
    CHECK(vp_phantom_load(&list, &n, "no-such-phantom", 1, 1, &err)
          && strstr(err.msg, "no-such-phantom: No such file"));
    CHECK(strstr(err.hint, "asymmetric") != NULL);
}

/* The largest sphere that no view cuts off: rays at the detector's edges touch it. */
static void test_radius(void)
{
    struct vp_view views[4];
    struct vp_scan scan = {.offset = false};

    for (int i = 0; i < 4; i++)
        views[i] = make_view(VP_CONE, i * PI / 2, 100, 200, 0.5, 100, 80);
    CHECK_NEAR(vp_phantom_radius(views, 4, &scan, 100, 80), 100 * sin(atan(20.0 / 200)), 1e-12);
    CHECK_NEAR(vp_phantom_radius(views, 4, &scan, 100, 100), 100 * sin(atan(20.0 / 200)),
               1e-9); /* row 79.5 is cut at 20 mm below */
    for (int i = 0; i < 4; i++)
        views[i] = make_view(VP_CONE, i * PI / 2, 100, 200, 0.5, 100, 1);
    CHECK_NEAR(vp_phantom_radius(views, 4, &scan, 100, 1), 100 * sin(atan(25.0 / 200)), 1e-12);
    for (int i = 0; i < 4; i++)
        views[i] = make_view(VP_PARALLEL, i, 0, 0, 0.5, 100, 60);
    CHECK_NEAR(vp_phantom_radius(views, 4, &scan, 100, 60), 15, 1e-12);
    /* the centre moved by 20 columns: one side sees 15 mm, the other 35 */
    for (int i = 0; i < 4; i++)
        views[i].P[3] += 20;
    CHECK_NEAR(vp_phantom_radius(views, 4, &scan, 100, 200), 15, 1e-12);
    scan.offset = true;
    CHECK_NEAR(vp_phantom_radius(views, 4, &scan, 100, 1), 35, 1e-12);
}

/* Mean and variance of a Poisson distribution are its parameter; the third central moment as well. */
static void test_poisson(void)
{
    enum { N = 200000 };
    static float p[N];
    const double means[] = {0.05, 0.7, 3, 9.9, 10.1, 30, 400, 1e5};

    for (size_t m = 0; m < sizeof means / sizeof *means; m++) {
        const double want = means[m];
        double mean = 0, var = 0, skew = 0;
        for (int i = 0; i < N; i++)
            p[i] = (float)log(1e6 / want);
        const double actual = 1e6 * exp(-(double)p[0]);
        vp_phantom_noise(p, N, 1e6, true, 7, (int64_t)m, 0);
        for (int i = 0; i < N; i++)
            mean += p[i] / N;
        for (int i = 0; i < N; i++) {
            const double d = p[i] - mean;
            var += d * d / N;
            skew += d * d * d / N;
        }
        /* five standard errors: var(mean) = m / N, var(var) = (m + 2 m^2) / N, var(skew) = (m + 24 m^2 + 15
         * m^3) / N about */
        CHECK_NEAR(mean, actual, 5 * sqrt(want / N));
        CHECK_NEAR(var, actual, 5 * sqrt((want + 2 * want * want) / N));
        CHECK_NEAR(skew, actual, 5 * sqrt((want + 24 * want * want + 15 * want * want * want) / N));
        bool whole = true;
        for (int i = 0; i < N; i++)
            whole &= p[i] >= 0 && p[i] == floorf(p[i]);
        CHECK(whole);
    }

    /* frequencies of small counts, for both methods: chi-square of the counts within 4 sigma of the mean */
    for (int big = 0; big < 2; big++) {
        const double mean = big ? 12 : 6;
        double bins[64] = {0}, chi = 0, expected = exp(-mean);
        int cells = 0;
        for (int i = 0; i < N; i++)
            p[i] = 0;
        vp_phantom_noise(p, N, mean, true, 3, 0, 0);
        for (int i = 0; i < N; i++)
            bins[p[i] < 63 ? (int)p[i] : 63]++;
        for (int k = 0; k < 63; k++, expected *= mean / k) {
            if (expected * N < 20)
                continue;
            chi += (bins[k] - expected * N) * (bins[k] - expected * N) / (expected * N);
            cells++;
        }
        CHECK(cells > 15);
        CHECK_NEAR(chi, cells, 5 * sqrt(2.0 * cells));
    }
}

/* The noise of a pixel depends on seed, view and pixel alone. */
static void test_streams(void)
{
    enum { N = 3000 };
    static float a[N], b[N];
    int same = 0;

    for (int i = 0; i < N; i++)
        a[i] = b[i] = 0.001f * (float)i;
    vp_phantom_noise(a, N, 1e4, false, 5, 3, 0);
    for (int i = 0; i < N; i += 100)
        vp_phantom_noise(b + i, 100, 1e4, false, 5, 3, i);
    CHECK(!memcmp(a, b, sizeof a));
    CHECK_NEAR(a[0], 0, 0.06);
    CHECK_NEAR(a[N - 1], 3, 0.3);
    for (int variant = 0; variant < 3; variant++) {
        for (int i = 0; i < N; i++)
            b[i] = 0.001f * (float)i;
        vp_phantom_noise(b, N, 1e4, false, variant == 0 ? 6 : 5, variant == 1 ? 4 : 3, variant == 2 ? 1 : 0);
        same = 0;
        for (int i = 0; i < N; i++)
            same += a[i] == b[i];
        CHECK(same < N / 30);
    }
    /* no photon is taken as one */
    a[0] = 100;
    vp_phantom_noise(a, 1, 1e4, false, 1, 0, 0);
    CHECK_NEAR(a[0], log(1e4), 1e-6);
}

int main(void)
{
    test_spheres();
    test_ellipsoids();
    test_conditioning();
    test_limit();
    test_near();
    test_samples();
    test_orientation();
    test_voxels();
    test_named();
    test_file();
    test_radius();
    test_poisson();
    test_streams();
    return test_done();
}
