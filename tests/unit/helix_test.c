/* SPDX-License-Identifier: BSD-3-Clause */
/* Scans that are not the plain circle: the shares of a helix's views, back-projection with them against its definition in
 * float64, and views that are turned. */
#include "test.h"
#include "geometry.h"
#include "backproject_ref.h"
#include "ct/filter.h"
#include "ct/helix.h"
#include "ct/orbit.h"
#include "ct/turn.h"

struct setting {
    struct vp_geom geom;
    struct vp_view *views;
    struct vp_scan scan;
};

static bool set_up(struct setting *s, const char *text)
{
    struct vp_err err = VP_ERR_INIT;
    *s = (struct setting){.views = NULL};
    if (!parse_geometry(&s->geom, text, strlen(text), "test", &err) && !vp_geom_views(&s->geom, &s->views, &s->scan, &err))
        return true;
    CHECK_STR(err.msg, "");
    return false;
}

static void tear_down(struct setting *s)
{
    free(s->views);
    vp_geom_free(&s->geom);
}

#define SCAN "sod = 300\nsdd = 450\ndetector = 24x20\npitch = 6\n"

/* From every direction the views of all turns have shares that sum to 1. */
static void test_shares(void)
{
    static const char *const pitches[] = {"5", "-17", "40", "80", "130"};
    for (size_t p = 0; p < sizeof pitches / sizeof *pitches; p++) {
        char text[256];
        struct setting s;
        snprintf(text, sizeof text, SCAN "views = 400\narc = 3600\noffset-v = 2\npitch-z = %s\n", pitches[p]);
        CHECK(set_up(&s, text) && s.scan.helix.pitch != 0);
        const struct vp_helix *h = &s.scan.helix;
        const struct vp_grid grid = {.n = {4, 4, 64}, .voxel = {1, 1, (h->z_hi - h->z_lo) / 64},
                                     .center = {0, 0, (h->z_lo + h->z_hi) / 2}};
        const int64_t section = vp_helix_section(h, &grid);
        for (int64_t k = 0; k < 64; k++)
            for (int from = 0; from < 40; from++) {
                double sum = 0;
                for (int turn = 0; turn < 10; turn++)
                    sum += vp_helix_share(h, s.views[from + 40 * turn].turn, &grid, k);
                CHECK_NEAR(sum, 1, 1e-9);
                const double same = vp_helix_share(h, s.views[from].turn, &grid, k / section * section);
                CHECK_NEAR(vp_helix_share(h, s.views[from].turn, &grid, k), same, 0);
            }
        /* nothing of the window is missing at the rim, or the slope is the shortest */
        const double reach = fabs(h->pitch) * (1 + h->slope) / 2, seen = (h->below + h->above) / 2;
        CHECK(reach <= seen * (1 - h->rim) * (1 + 1e-9) || h->slope == h->shortest);
        tear_down(&s);
    }
}

/* Voxel (i, j, k) by the definition; the detector goes on with its edge rows. */
static double reference(const struct setting *s, const struct vp_grid *grid, const float *proj, const int64_t at[3])
{
    const struct vp_helix *h = &s->scan.helix;
    const int64_t nu = s->geom.nu, nv = s->geom.nv;
    const double margin = (double)vp_helix_margin(h, s->views, s->geom.views, nv, grid);
    double sum = 0, P[12];
    for (int64_t n = 0; n < s->geom.views; n++) {
        vp_backproject_matrix(&s->views[n], grid, P);
        const double i = (double)at[0], j = (double)at[1], k = (double)at[2], w = vp_orbit_dot(P + 8, i, j, k);
        const double u = vp_orbit_dot(P, i, j, k) / w, v = vp_orbit_dot(P + 4, i, j, k) / w;
        const double share = vp_helix_share(h, s->views[n].turn, grid, at[2]);
        for (int c = 0; c < 4; c++) {
            const double m = floor(u) + (c & 1), row = floor(v) + (c >> 1);
            const double hat = (1 - fabs(u - m)) * (1 - fabs(v - row));
            if (m < 0 || m >= (double)nu || row < -margin || row >= (double)nv + margin)
                continue;
            const double nearest = fmin(fmax(row, 0), (double)(nv - 1));
            sum += share * hat * (double)proj[(n * nv + (int64_t)nearest) * nu + (int64_t)m] / (w * w);
        }
    }
    return sum;
}

static float *backproject(const struct setting *s, const struct vp_grid *grid, const float *proj, int64_t z0, int64_t z1,
                          int threads, const char *isa)
{
    const struct vp_projections p = {.views = s->views, .n_views = s->geom.views, .nu = s->geom.nu, .nv = s->geom.nv,
                                     .helix = &s->scan.helix};
    const struct vp_bp_job job = {.projections = &p, .grid = grid, .z0 = z0, .z1 = z1, .threads = threads};
    struct vp_err err = VP_ERR_INIT;
    struct vp_backproject *b;
    if (vp_backproject_open(&b, &job, isa, &err)) {
        CHECK_INT(err.code, VP_ERESOURCE); /* this processor has not got the instructions */
        return NULL;
    }
    float *voxels = backproject_begin(b);
    for (int64_t k = 0, n; k < s->geom.views; k += n) {
        n = k % 3 + 5 < s->geom.views - k ? k % 3 + 5 : s->geom.views - k;
        CHECK_INT(vp_backproject_add(b, &(struct vp_batch){k, n, 0, s->geom.nv, proj + k * s->geom.nu * s->geom.nv},
                                     &err), 0);
    }
    vp_backproject_end(b);
    float *out = malloc((size_t)(grid->n[0] * grid->n[1] * (z1 - z0)) * sizeof *out);
    CHECK(out != NULL);
    vp_tiles_get(vp_backproject_tiles(b), voxels, z0, z1 - z0, threads, out);
    vp_backproject_close(b);
    free(voxels);
    return out;
}

static void test_backprojection(void)
{
    static const char *const isas[] = {"avx512", "avx2", "generic"};
    static const struct { const char *text; double voxel_z; int64_t section; } cases[] = {
        {SCAN "views = 70\narc = 1080\npitch-z = 80\n", 7, 1},
        {SCAN "views = 70\narc = 1080\npitch-z = -80\ndirection = clockwise\n", 0.5, 8},
        {SCAN "views = 70\narc = 1080\npitch-z = 80\noffset-v = 1.3\n", 0.13, 16},
        {SCAN "views = 70\narc = 1080\npitch-z = 60\ntilt = 3\n", 0.11, 16},
        {SCAN "views = 50\narc = 1800\npitch-z = 9\n", 0.017, 16},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct setting s;
        CHECK(set_up(&s, cases[c].text) && s.scan.helix.pitch != 0);
        const struct vp_grid grid = {.n = {13, 11, 70}, .voxel = {4, 4, cases[c].voxel_z}, .center = {0, 0, 1}};
        CHECK_INT(vp_helix_section(&s.scan.helix, &grid), cases[c].section);
        const int64_t n = s.geom.views * s.geom.nu * s.geom.nv, slice = 13 * 11;
        float *proj = malloc((size_t)n * sizeof *proj);
        for (int64_t i = 0; i < n; i++)
            proj[i] = (float)(i * 7919 % 1009) / 1009 - 0.5f;
        for (int i = 0; i < 3; i++) {
            float *whole = backproject(&s, &grid, proj, 0, 70, 1, isas[i]);
            float *slab = backproject(&s, &grid, proj, 21, 54, 2, isas[i]);
            double off = 0, norm = 0;
            for (int64_t at = 0; whole && at < 70 * slice; at++) {
                const double want = reference(&s, &grid, proj, (const int64_t[3]){at % 13, at / 13 % 11, at / slice});
                off += (whole[at] - want) * (whole[at] - want);
                norm += want * want;
            }
            if (whole)
                CHECK(norm > 0 && sqrt(off / norm) < 2e-6);
            if (whole && slab)
                CHECK(!memcmp(slab, whole + 21 * slice, (size_t)(33 * slice) * sizeof *slab));
            free(whole);
            free(slab);
        }
        free(proj);
        tear_down(&s);
    }
}

/* Other ways of the source than a circle or a helix about z, and circles that only look like one. */
static void test_ways(void)
{
    struct setting s;
    CHECK(set_up(&s, SCAN "views = 40\narc = 360\npitch-z = 20\n"));
    CHECK(s.scan.helix.pitch == 0 && s.scan.kind == VP_SCAN_FULL); /* a turn alone is no helix */
    tear_down(&s);
    CHECK(set_up(&s, SCAN "views = 80\narc = 720\npitch-z = 1\n"));
    CHECK(s.scan.helix.pitch == 0); /* nor is a turntable that is not quite level */
    tear_down(&s);
    CHECK(set_up(&s, SCAN "views = 80\nlamino = 40\n"));
    CHECK(s.scan.helix.pitch == 0 && !vp_scan_turned(&s.scan) && s.scan.astray < 1e-6);
    tear_down(&s);
    CHECK(set_up(&s, SCAN "views = 80\nlamino = 40\ndetector-motion = fixed\n"));
    CHECK(vp_scan_turned(&s.scan) && s.scan.astray < 1e-6);
    tear_down(&s);
    CHECK(set_up(&s, SCAN "views = 80\narc = 360\npitch-z = 45\n")); /* too little of a helix */
    struct vp_err little = VP_ERR_INIT;
    CHECK_INT(vp_scan_check(&s.scan, &little), -1);
    CHECK_STR(little.msg, "the source moves by 44.4375 mm along z, and the detector sees 80 mm of the axis: expected a "
                          "circle, or a helix of even pitch and more than 1.125 turns");
    tear_down(&s);
    CHECK(set_up(&s, SCAN "views = 400\narc = 1440\npitch-z = 40\ntilt = 30\n"));
    struct vp_err askew = VP_ERR_INIT;
    CHECK_INT(vp_scan_check(&s.scan, &askew), -1);
    CHECK_STR(askew.msg, "the source moves on a helix, and the detector's rows are turned 30 degrees from its path: "
                         "expected at most 10, or 90");
    tear_down(&s);

    /* the circle about y: the same matrices in a frame that is turned about x */
    struct vp_view *views;
    struct vp_scan scan;
    struct vp_err err = VP_ERR_INIT;
    CHECK(set_up(&s, SCAN "views = 80\n"));
    s.geom.matrix = malloc((size_t)(12 * s.geom.views) * sizeof *s.geom.matrix);
    for (int64_t k = 0; k < s.geom.views; k++)
        for (int r = 0; r < 12; r += 4) {
            const double *P = s.views[k].P + r;
            memcpy(s.geom.matrix + 12 * k + r, (const double[4]){P[0], P[2], -P[1], P[3]}, 4 * sizeof *P);
        }
    CHECK_INT(vp_geom_views(&s.geom, &views, &scan, &err), 0);
    CHECK_INT(vp_scan_check(&scan, &err), -1);
    CHECK(strstr(err.msg, "the source path leaves a circle or helix about z by"));
    struct vp_filter *filter;
    struct vp_err again = VP_ERR_INIT;
    CHECK_INT(vp_filter_open(&filter, &(struct vp_filter_params){.cutoff = 1}, &s.geom, views, &scan, 1, &again), -1);
    CHECK_STR(again.msg, err.msg);
    free(views);
    tear_down(&s);
}

/* A turned view sees each ray where the real one does; parabolas are interpolated exactly. */
static void test_turned(void)
{
    struct setting s;
    struct vp_geom turned;
    struct vp_err err = VP_ERR_INIT;
    double *to;
    CHECK(set_up(&s, "sod = 300\nsdd = 450\ndetector = 40x30\npitch = 5 4\nviews = 9\nlamino = 50\n"
                     "detector-motion = fixed\noffset-u = 1.5\n"));
    CHECK_INT(vp_geom_turned(&s.geom, s.views, &s.scan, &turned, &to, &err), 0);
    float *view = malloc(40 * 30 * sizeof *view), *out = malloc((size_t)(turned.nu * turned.nv) * sizeof *out);
    float *rows = malloc((size_t)(turned.nu * 3) * sizeof *rows);
    for (int64_t k = 0; k < s.geom.views; k++) {
        const struct vp_turn turn = {.in_nu = 40, .in_nv = 30, .nu = turned.nu, .nv = turned.nv, .to = to};
        const double *m = turned.matrix + 12 * k, *P = s.views[k].P;
        for (int64_t i = 0; i < 40 * 30; i++)
            view[i] = (float)(0.001 * (double)((i % 40 - 11) * (i % 40 - 11)) - 0.02 * (double)(i % 40) * (double)(i / 40)
                              + 0.3 * (double)(i / 40));
        vp_turn_view(&turn, k, 0, turned.nv, view, out, 2);
        vp_turn_view(&turn, k, 7, 10, view, rows, 1);
        CHECK(!memcmp(rows, out + 7 * turned.nu, (size_t)(3 * turned.nu) * sizeof *rows));
        for (int n = 0; n < 50; n++) {
            /* a point, seen by both, and the way from one place to the other */
            const double x[4] = {n % 7 * 9 - 27, n % 5 * 9 - 18, n % 3 * 8 - 8, 1};
            double a[3], b[3], at[3];
            for (int r = 0; r < 3; r++) {
                a[r] = m[4 * r] * x[0] + m[4 * r + 1] * x[1] + m[4 * r + 2] * x[2] + m[4 * r + 3];
                b[r] = P[4 * r] * x[0] + P[4 * r + 1] * x[1] + P[4 * r + 2] * x[2] + P[4 * r + 3];
            }
            for (int r = 0; r < 3; r++)
                at[r] = to[9 * k + 3 * r] * a[0] / a[2] + to[9 * k + 3 * r + 1] * a[1] / a[2] + to[9 * k + 3 * r + 2];
            CHECK_NEAR(at[0] / at[2], b[0] / b[2], 1e-9);
            CHECK_NEAR(at[1] / at[2], b[1] / b[2], 1e-9);
            const double u = floor(a[0] / a[2]), v = floor(a[1] / a[2]);
            for (int r = 0; r < 3; r++)
                at[r] = to[9 * k + 3 * r] * u + to[9 * k + 3 * r + 1] * v + to[9 * k + 3 * r + 2];
            const double p = at[0] / at[2], q = at[1] / at[2];
            if (p >= 1 && p < 38 && q >= 1 && q < 28)
                CHECK_NEAR(out[(int64_t)v * turned.nu + (int64_t)u], 0.001 * (p - 11) * (p - 11) - 0.02 * p * q + 0.3 * q, 1e-4);
        }
    }
    struct vp_view *views;
    struct vp_scan scan;
    CHECK_INT(vp_geom_views(&turned, &views, &scan, &err), 0);
    CHECK(scan.turned < 1e-9 && scan.kind == s.scan.kind);
    for (int64_t k = 0; k < s.geom.views; k++)
        CHECK_NEAR(views[k].weight, s.views[k].weight, 1e-9);
    free(views);
    free(view);
    free(out);
    free(rows);
    free(to);
    vp_geom_free(&turned);
    tear_down(&s);
}

int main(void)
{
    test_shares();
    test_backprojection();
    test_ways();
    test_turned();
    return test_done();
}
