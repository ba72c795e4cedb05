/* SPDX-License-Identifier: BSD-3-Clause */
/* The matched pair against its definition in float64, against chords and ellipsoids, and against itself: the transpose
 * is exact, and bits depend on neither threads nor slabs nor on how views are cut into calls. */
#include "test.h"
#include "geometry.h"
#include "base/size.h"
#include "ct/pair.h"
#include "ct/phantom.h"

static const char *const ISAS[] = {"avx512", "avx2", "generic"};
enum { N_ISAS = 3 };

static unsigned seed = 7;

static double uniform(void)
{
    seed = seed * 1664525u + 1013904223u;
    return (double)(seed >> 8) * 0x1p-24;
}

struct scan {
    const char *name, *text;
    int64_t n[3];
    double voxel[3], center[3];
    const char *kernels;
};

#define CONE "beam = cone\nsod = 100\nsdd = 150\n"
static const struct scan SCANS[] = {
    {"a circle", CONE "detector = 40x36\npitch = 1.5\nviews = 9\n", {24, 21, 30}, {1, 1, 1}, {0}, "columns"},
    {"several segments", CONE "detector = 24x300\npitch = 1.5\nviews = 5\n", {9, 17, 290}, {1, 1, 1}, {0}, "columns"},
    {"small voxels", CONE "detector = 20x18\npitch = 3\nviews = 7\n", {24, 21, 30}, {1, 1, 1}, {0}, "columns"},
    {"large voxels", CONE "detector = 90x80\npitch = 0.4\nviews = 7\n", {13, 12, 11}, {1.6, 1.6, 1.6}, {0}, "columns"},
    {"an offset", CONE "detector = 30x24\npitch = 1.5\noffset-u = 9.3\noffset-v = -2.7\nviews = 8\n", {24, 24, 20},
     {1, 1.1, 0.8}, {0}, "columns"},
    {"flipped", CONE "detector = 30x24\npitch = -1.5,-1.7\nviews = 8\n", {20, 18, 20}, {1, 1, 1}, {1, -2, 3}, "columns"},
    {"parallel", "beam = parallel\ndetector = 30x24\npitch = 0.9\nviews = 8\n", {22, 20, 23}, {1, 1, 1}, {0}, "columns"},
    {"a fan", CONE "detector = 60x1\npitch = 1\nviews = 11\n", {30, 31, 1}, {1, 1, 1}, {0}, "fan"},
    {"one slice", CONE "detector = 40x9\npitch = 1\nviews = 6\n", {20, 21, 1}, {1, 1, 1}, {0}, "columns"},
    {"one row", CONE "detector = 40x1\npitch = 1\nviews = 6\n", {20, 21, 3}, {1, 1, 0.3}, {0}, "columns"},
    {"tilted", CONE "detector = 30x26\npitch = 1.5\ntilt = 4\nviews = 7\n", {14, 15, 16}, {1, 1, 1}, {0}, "3x4 matrices"},
    {"laminography", CONE "detector = 40x40\npitch = 1.5\nlamino = 50\nviews = 7\n", {16, 16, 7}, {1, 1, 1}, {0},
     "3x4 matrices"},
    {"a helix", CONE "detector = 30x12\npitch = 1.5\npitch-z = 12\nviews = 20\narc = 720\n", {14, 15, 24}, {1, 1, 1}, {0},
     "columns"},
    {"the source in the volume", CONE "detector = 30x26\npitch = 1.5\nviews = 4\n", {40, 30, 10}, {8, 8, 2}, {0}, "columns"},
};
enum { N_SCANS = sizeof SCANS / sizeof *SCANS };

struct setting {
    struct vp_geom geom;
    struct vp_view *views;
    struct vp_projections scan;
    struct vp_grid grid;
    int64_t voxels, view;
};

static struct setting set_up(const struct scan *s)
{
    struct setting t = {.grid = {.n = {s->n[0], s->n[1], s->n[2]}}};
    struct vp_err err = VP_ERR_INIT;
    struct vp_scan scan;
    for (int a = 0; a < 3; a++) {
        t.grid.voxel[a] = s->voxel[a];
        t.grid.center[a] = s->center[a];
    }
    if (parse_geometry(&t.geom, s->text, strlen(s->text), s->name, &err) || vp_geom_views(&t.geom, &t.views, &scan, &err))
        CHECK_STR(err.msg, "");
    t.scan = (struct vp_projections){.views = t.views, .n_views = t.geom.views, .nu = t.geom.nu, .nv = t.geom.nv};
    t.voxels = s->n[0] * s->n[1] * s->n[2];
    t.view = t.geom.nu * t.geom.nv;
    return t;
}

static void tear_down(struct setting *t)
{
    vp_geom_free(&t->geom);
    free(t->views);
}

static struct vp_pair *open_pair(const struct setting *t, int threads, const char *isa)
{
    struct vp_pair *p;
    struct vp_err err = VP_ERR_INIT;
    if (vp_pair_open(&p, &t->scan, &t->grid, threads, isa, &err)) {
        CHECK_INT(err.code, VP_ERESOURCE);
        return NULL;
    }
    return p;
}

static float *random_floats(int64_t n, double from)
{
    float *x = malloc((size_t)n * sizeof *x);
    for (int64_t i = 0; i < n; i++)
        x[i] = (float)(uniform() + from);
    return x;
}

/* Projects all views, `chunk` at a time. */
static float *forward(const struct setting *t, const float *x, int threads, int chunk, const char *isa)
{
    struct vp_pair *p = open_pair(t, threads, isa);
    float *y = malloc((size_t)(t->scan.n_views * t->view) * sizeof *y);
    for (int64_t s = 0; p && s < t->scan.n_views; s += chunk) {
        int64_t view[VP_PAIR_VIEWS], n = vp_min64(chunk, t->scan.n_views - s);
        for (int64_t i = 0; i < n; i++)
            view[i] = s + i;
        vp_pair_forward(p, x, view, (int)n, y + s * t->view);
    }
    vp_pair_close(p);
    return y;
}

static float *adjoint(const struct setting *t, const float *y, int threads, int64_t thick, const char *isa)
{
    struct vp_pair *p = open_pair(t, threads, isa);
    float *x = calloc((size_t)t->voxels, sizeof *x);
    const int64_t nz = t->grid.n[2], page = t->voxels / nz;
    for (int64_t z = 0; p && z < nz; z += thick)
        for (int64_t s = 0; s < t->scan.n_views; s += VP_PAIR_VIEWS) {
            int64_t view[VP_PAIR_VIEWS], n = vp_min64(VP_PAIR_VIEWS, t->scan.n_views - s);
            for (int64_t i = 0; i < n; i++)
                view[i] = s + i;
            vp_pair_adjoint(p, y + s * t->view, view, (int)n, z, vp_min64(z + thick, nz), x + z * page);
        }
    vp_pair_close(p);
    return x;
}

/* ---- the definition ---- */

static void solve(const double M[3][3], const double b[3], double x[3])
{
    const double det = M[0][0] * (M[1][1] * M[2][2] - M[1][2] * M[2][1]) - M[0][1] * (M[1][0] * M[2][2] - M[1][2] * M[2][0])
                     + M[0][2] * (M[1][0] * M[2][1] - M[1][1] * M[2][0]);
    for (int c = 0; c < 3; c++) {
        double N[3][3];
        for (int r = 0; r < 3; r++)
            for (int i = 0; i < 3; i++)
                N[r][i] = i == c ? b[r] : M[r][i];
        x[c] = (N[0][0] * (N[1][1] * N[2][2] - N[1][2] * N[2][1]) - N[0][1] * (N[1][0] * N[2][2] - N[1][2] * N[2][0])
                + N[0][2] * (N[1][0] * N[2][1] - N[1][1] * N[2][0])) / det;
    }
}

/* Direction of a pixel's ray, mm. */
static void ray_of(const struct vp_view *view, double u, double v, double d[3])
{
    const double *P = view->P;
    if (vp_view_parallel(view)) {
        const double cross[3] = {P[1] * P[6] - P[2] * P[5], P[2] * P[4] - P[0] * P[6], P[0] * P[5] - P[1] * P[4]};
        memcpy(d, cross, sizeof cross);
        return;
    }
    const double M[3][3] = {{P[0], P[1], P[2]}, {P[4], P[5], P[6]}, {P[8], P[9], P[10]}};
    solve(M, (const double[3]){u, v, 1}, d);
}

static double overlap(double a, double b, int64_t p)
{
    const double lo = fmax(fmin(a, b), (double)p - 0.5), hi = fmin(fmax(a, b), (double)p + 0.5);
    return hi > lo ? hi - lo : 0;
}

static bool image(const double P[12], double sod, double x, double y, double z, double *u, double *v)
{
    const double w = P[8] * x + P[9] * y + P[10] * z + P[11];
    *u = (P[0] * x + P[1] * y + P[2] * z + P[3]) / w;
    *v = (P[4] * x + P[5] * y + P[6] * z + P[7]) / w;
    return w > (sod > 0 ? sod : 1) / 1024;
}

static int march_of(const struct setting *t, int64_t s, bool flat)
{
    const struct vp_view *view = &t->views[s];
    double u, v, d[3];
    const double *c = t->grid.center, *P = view->P;
    image(P, 0, c[0], c[1], c[2], &u, &v);
    ray_of(view, u, v, d);
    const int m = fabs(d[1]) > fabs(d[0]) ? 1 : 0;
    return !flat && fabs(d[2]) > fabs(d[m]) ? 2 : m;
}

/* Calls `each` for all weights of a voxel in a view. */
typedef void each_weight(void *ctx, int64_t u, int64_t v, double weight);

static void weights(const struct setting *t, int64_t s, const int64_t at[3], each_weight *each, void *ctx)
{
    const struct vp_view *view = &t->views[s];
    const bool flat = t->geom.nv == 1 && t->grid.n[2] == 1;
    const int m = march_of(t, s, flat), a = m == 0 ? 1 : 0, b = m == 2 ? 1 : 2;
    double P[12], u[4], v[4];
    vp_view_on_grid(view, &t->grid, P);
    for (int e = 0; e < 4; e++) {
        double x[3] = {(double)at[0], (double)at[1], (double)at[2]};
        if (!flat || e < 2)
            x[e < 2 ? a : b] += e & 1 ? 0.5 : -0.5;
        if (!image(P, view->sod, x[0], x[1], x[2], &u[e], &v[e]))
            return;
    }
    if (flat) {
        v[2] = -0.5;
        v[3] = 0.5;
    }
    double du = u[1] - u[0], dv = v[3] - v[2], amount = 1;
    int across = 0, along = 2;
    if (!flat) {
        const double area = fabs(du * dv), other = fabs((u[3] - u[2]) * (v[1] - v[0]));
        amount = fabs(du * dv - (u[3] - u[2]) * (v[1] - v[0])) / fmax(area, other);
        if (other > area) {
            across = 2;
            along = 0;
        }
    }
    const double v_lo = fmin(v[along], v[along + 1]), v_hi = fmax(v[along], v[along + 1]);
    const double u_lo = fmin(u[across], u[across + 1]), u_hi = fmax(u[across], u[across + 1]);
    for (int64_t r = (int64_t)fmax(v_lo - 1, 0); r < t->geom.nv && (double)r < v_hi + 1; r++)
        for (int64_t c = (int64_t)fmax(u_lo - 1, 0); c < t->geom.nu && (double)c < u_hi + 1; c++) {
            const double area = overlap(u[across], u[across + 1], c) * overlap(v[along], v[along + 1], r) * amount;
            double d[3];
            if (area == 0)
                continue;
            ray_of(view, (double)c, (double)r, d);
            each(ctx, c, r, area * t->grid.voxel[m] * sqrt(d[0] * d[0] + d[1] * d[1] + d[2] * d[2]) / fabs(d[m]));
        }
}

struct sums { const struct setting *t; const float *y; double *to, value; int64_t s; };

static void spread_one(void *ctx, int64_t u, int64_t v, double weight)
{
    struct sums *c = ctx;
    c->to[(c->s * c->t->geom.nv + v) * c->t->geom.nu + u] += weight * c->value;
}

static void collect_one(void *ctx, int64_t u, int64_t v, double weight)
{
    struct sums *c = ctx;
    c->value += weight * (double)c->y[(c->s * c->t->geom.nv + v) * c->t->geom.nu + u];
}

static void reference(const struct setting *t, const float *x, const float *y, double *Ax, double *Aty)
{
    for (int64_t i = 0; i < t->voxels; i++) {
        const int64_t at[3] = {i % t->grid.n[0], i / t->grid.n[0] % t->grid.n[1], i / t->grid.n[0] / t->grid.n[1]};
        Aty[i] = 0;
        for (int64_t s = 0; s < t->scan.n_views; s++) {
            weights(t, s, at, spread_one, &(struct sums){t, NULL, Ax, (double)x[i], s});
            struct sums back = {t, y, NULL, 0, s};
            weights(t, s, at, collect_one, &back);
            Aty[i] += back.value;
        }
    }
}

static double error_of(const float *got, const double *want, int64_t n)
{
    double e = 0, q = 0;
    for (int64_t i = 0; i < n; i++) {
        e += (got[i] - want[i]) * (got[i] - want[i]);
        q += want[i] * want[i];
    }
    return q > 0 ? sqrt(e / q) : 1;
}

static double dot(const float *a, const float *b, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += (double)a[i] * (double)b[i];
    return sum;
}

/* ---- tests ---- */

static void test_scan(const struct scan *s)
{
    struct setting t = set_up(s);
    const int64_t n = t.scan.n_views * t.view;
    for (int signs = 0; signs < 2; signs++) {
        const double from = signs ? -0.5 : 0;
        float *x = random_floats(t.voxels, from), *y = random_floats(n, from);
        double *Ax = calloc((size_t)n, sizeof *Ax), *Aty = calloc((size_t)t.voxels, sizeof *Aty);
        reference(&t, x, y, Ax, Aty);
        for (int i = 0; i < N_ISAS; i++) {
            struct vp_pair *p = open_pair(&t, 1, ISAS[i]);
            if (!p)
                continue;
            char want[64];
            snprintf(want, sizeof want, "%s, %s", s->kernels, ISAS[i]);
            CHECK_STR(vp_pair_describe(p), want);
            vp_pair_close(p);
            float *a = forward(&t, x, 1, 16, ISAS[i]), *b = forward(&t, x, 3, 5, ISAS[i]);
            float *c = adjoint(&t, y, 1, t.grid.n[2], ISAS[i]), *d = adjoint(&t, y, 3, 7, ISAS[i]);
            const double e = error_of(a, Ax, n), f = error_of(c, Aty, t.voxels);
            const double left = dot(a, y, n), right = dot(c, x, t.voxels), size = sqrt(dot(a, a, n) * dot(y, y, n));
            if (e > 1e-6 || f > 1e-6 || fabs(left - right) > 1e-7 * size)
                printf("%s, %s: forward %.2e, transpose %.2e, adjoint %.2e\n", s->name, ISAS[i], e, f,
                       fabs(left - right) / size);
            CHECK(e <= 1e-6);
            CHECK(f <= 1e-6);
            CHECK(fabs(left - right) <= 1e-7 * size);
            if (memcmp(a, b, (size_t)n * sizeof *a))
                printf("%s, %s: other bits\n", s->name, ISAS[i]);
            CHECK(!memcmp(a, b, (size_t)n * sizeof *a));
            CHECK(!memcmp(c, d, (size_t)t.voxels * sizeof *c));
            free(a);
            free(b);
            free(c);
            free(d);
        }
        free(x);
        free(y);
        free(Ax);
        free(Aty);
    }
    tear_down(&t);
}

/* All of a small matrix, read off by unit vectors from both sides. */
static void test_dense(const char *isa)
{
    const struct scan s = {"dense", CONE "detector = 9x10\npitch = 1.7\nviews = 12\n", {8, 8, 8}, {1, 1, 1}, {0}, ""};
    struct setting t = set_up(&s);
    struct vp_pair *p = open_pair(&t, 1, isa);
    const int64_t n = t.scan.n_views * t.view;
    float *A = malloc((size_t)(n * t.voxels) * sizeof *A), *x = calloc((size_t)t.voxels, sizeof *x);
    float *y = calloc((size_t)n, sizeof *y);
    int64_t view[12];
    double worst = 0;
    for (int64_t i = 0; i < 12; i++)
        view[i] = i;
    for (int64_t i = 0; p && i < t.voxels; i++) {
        x[i] = 1;
        vp_pair_forward(p, x, view, 12, A + i * n);
        x[i] = 0;
    }
    for (int64_t j = 0; p && j < n; j++) {
        memset(x, 0, (size_t)t.voxels * sizeof *x);
        y[j] = 1;
        vp_pair_adjoint(p, y, view, 12, 0, 8, x);
        y[j] = 0;
        for (int64_t i = 0; i < t.voxels; i++)
            worst = fmax(worst, fabs((double)x[i] - (double)A[i * n + j]));
    }
    CHECK(worst <= 1e-6);
    vp_pair_close(p);
    free(A);
    free(x);
    free(y);
    tear_down(&t);
}

/* Rays through all layers of a box of ones measure its chords. */
static void test_chords(void)
{
    const struct scan s = {"chords", CONE "detector = 32x32\npitch = 1\nviews = 4\n", {32, 32, 32}, {1, 1, 1}, {0}, ""};
    struct setting t = set_up(&s);
    float *x = malloc((size_t)t.voxels * sizeof *x);
    for (int64_t i = 0; i < t.voxels; i++)
        x[i] = 1;
    float *y = forward(&t, x, 2, 4, NULL);
    double worst = 0;
    for (int64_t i = 0; i < 4 * t.view; i++) {
        const double u = (double)(i % 32) - 15.5, v = (double)(i / 32 % 32) - 15.5;
        /* the ray leaves the box through its far face, with a pixel to spare */
        if (fabs(u) * 116 / 150 < 15 && fabs(v) * 116 / 150 < 15)
            worst = fmax(worst, fabs((double)y[i] / (32 * sqrt(1 + (u * u + v * v) / (150 * 150))) - 1));
    }
    CHECK(worst > 0);
    CHECK(worst <= 1e-6);
    free(x);
    free(y);
    tear_down(&t);
}

/* Three ellipsoids, voxels and pixels averaged over points and rays: the errors are those of the voxels. */
static void test_ellipsoids(int pixels, double pitch, double l2, double interior)
{
    static const struct vp_ellipsoid list[3] = {{{0, 0, 0}, {105, 95, 100}, 20, 0.02},
                                                {{30, -20, 15}, {40, 50, 35}, -35, -0.004},
                                                {{-45, 25, -30}, {30, 25, 40}, 10, 0.004}};
    char text[160];
    snprintf(text, sizeof text, "beam = cone\nsod = 1000\nsdd = 1500\ndetector = %dx%d\npitch = %.17g\nviews = 16\n", pixels,
             pixels, pitch);
    const struct scan s = {"ellipsoids", text, {128, 128, 128}, {2.05, 2.05, 2.05}, {0}, ""};
    struct setting t = set_up(&s);
    const int64_t page = 128 * 128, n = 16 * t.view;
    float *x = malloc((size_t)t.voxels * sizeof *x), *want = malloc((size_t)n * sizeof *want);
    const struct vp_phantom_scan rays = {.list = list, .n = 3, .views = t.views, .beam = VP_CONE, .nu = pixels, .samples = 4};
#pragma omp parallel for
    for (int64_t k = 0; k < 128; k++)
        vp_phantom_slice(list, 3, &t.grid, k, 3, x + k * page);
#pragma omp parallel for
    for (int64_t v = 0; v < 16; v++)
        vp_phantom_block(&rays, v, 0, pixels, want + v * t.view);
    float *y = forward(&t, x, 2, 16, NULL);
    double e = 0, q = 0, most = 0, worst = 0;
    for (int64_t i = 0; i < n; i++)
        most = fmax(most, (double)want[i]);
    for (int64_t i = 0; i < n; i++) {
        const double d = (double)y[i] - (double)want[i];
        e += d * d;
        q += (double)want[i] * (double)want[i];
        worst = want[i] > 0.7 * most ? fmax(worst, fabs(d / (double)want[i])) : worst;
    }
    if (sqrt(e / q) > l2 || worst > interior)
        printf("ellipsoids, %d pixels: %.2e, %.2e\n", pixels, sqrt(e / q), worst);
    CHECK(sqrt(e / q) <= l2);
    CHECK(worst <= interior);
    free(x);
    free(y);
    free(want);
    tear_down(&t);
}

int main(void)
{
    for (int i = 0; i < N_SCANS; i++)
        test_scan(&SCANS[i]);
    for (int i = 0; i < N_ISAS; i++)
        test_dense(ISAS[i]);
    test_chords();
    test_ellipsoids(64, 6.2, 3.3e-3, 3.6e-3);
    test_ellipsoids(128, 3.1, 5.0e-3, 7.5e-3);
    return test_done();
}
