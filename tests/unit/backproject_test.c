/* SPDX-License-Identifier: BSD-3-Clause */
/* Back-projection against its definition in float64, for every instruction set of this processor; and that
 * the bits of a voxel depend on nothing but its geometry and the projections. */
#include "test.h"
#include "backproject_ref.h"
#include "base/err.h"
#include "ct/backproject.h"
#include <malloc.h>
#include <stdlib.h>

static const char *const ISAS[] = {"avx512", "avx2", "generic"};
enum { N_ISAS = 3 };

static unsigned seed = 1;

static double uniform(void)
{
    seed = seed * 1664525u + 1013904223u;
    return (double)(seed >> 8) * 0x1p-24;
}

/* A scan: nu x nv pixels, views all around. */
struct scan {
    const char *name;
    int64_t n_views, nu, nv;
    double pitch;               /* mm, at sdd = 1500, sod = 1000; parallel: the detector's own */
    double offset_u, offset_v;  /* pixels */
    /* degrees: of the detector in its plane, of the central ray out of the orbit's plane */
    double roll, lean;
    bool parallel, upside_down;
    struct vp_grid grid;
    const char *kernels;        /* what vp_backproject_describe must say before the instruction set */
    double tolerance;
};

static void turn(double a[3], double b[3], double degrees)
{
    const double c = cos(degrees * M_PI / 180), s = sin(degrees * M_PI / 180);
    for (int i = 0; i < 3; i++) {
        const double x = a[i], y = b[i];
        a[i] = c * x + s * y;
        b[i] = c * y - s * x;
    }
}

static void make_view(const struct scan *s, double degrees, struct vp_view *view)
{
    const double sod = s->parallel ? 0 : 1000, a = degrees * M_PI / 180;
    const double f = (s->parallel ? 1 : 1500) / s->pitch;
    const double cu = (double)(s->nu - 1) / 2 + s->offset_u, cv = (double)(s->nv - 1) / 2 + s->offset_v;
    double u[3] = {cos(a), sin(a), 0}, v[3] = {0, 0, s->upside_down ? -1 : 1}, w[3] = {sin(a), -cos(a), 0};
    turn(u, v, s->roll);
    turn(v, w, s->lean);
    *view = (struct vp_view){.angle = a, .fu = f, .fv = f, .cu = cu, .cv = cv, .sod = sod};
    for (int i = 0; i < 4; i++) {
        const double depth = s->parallel ? (i == 3) : i == 3 ? sod : w[i];
        view->P[i] = (i < 3 ? f * u[i] : 0) + cu * depth;
        view->P[4 + i] = (i < 3 ? f * v[i] : 0) + cv * depth;
        view->P[8 + i] = depth;
    }
}

static struct vp_view *make_views(const struct scan *s)
{
    struct vp_view *views = calloc((size_t)s->n_views, sizeof *views);
    for (int64_t k = 0; k < s->n_views; k++)
        make_view(s, 0.37 + 360.0 * (double)k / (double)s->n_views, &views[k]);
    return views;
}

static float *make_projections(const struct scan *s)
{
    const int64_t n = s->n_views * s->nu * s->nv;
    float *proj = malloc((size_t)n * sizeof *proj);
    for (int64_t i = 0; i < n; i++)
        proj[i] = (float)uniform() - 0.5f;
    return proj;
}

static bool have_isa(const char *isa)
{
    const struct vp_grid grid = {.n = {1, 1, 1}, .voxel = {1, 1, 1}};
    const struct scan s = {.n_views = 1, .nu = 1, .nv = 1, .pitch = 1};
    struct vp_view view;
    struct vp_backproject *b;
    struct vp_err err = VP_ERR_INIT;
    make_view(&s, 0, &view);
    const struct vp_projections one = {.views = &view, .n_views = 1, .nu = 1, .nv = 1};
    const struct vp_bp_job job = {.projections = &one, .grid = &grid, .z1 = 1, .threads = 1};
    if (vp_backproject_open(&b, &job, isa, &err)) {
        CHECK_INT(err.code, VP_ERESOURCE);
        return false;
    }
    vp_backproject_close(b);
    return true;
}

static struct vp_projections projections; /* of the last job */

static struct vp_bp_job job_of(const struct scan *s, const struct vp_view *views, int64_t z0, int64_t z1, int threads)
{
    projections = (struct vp_projections){.views = views, .n_views = s->n_views, .nu = s->nu, .nv = s->nv};
    return (struct vp_bp_job){.projections = &projections, .grid = &s->grid, .z0 = z0, .z1 = z1, .threads = threads};
}

static int add(struct vp_backproject *b, int64_t first, int64_t n, int64_t v0, int64_t v1, const float *proj,
               struct vp_err *err)
{
    return vp_backproject_add(b, &(struct vp_batch){first, n, v0, v1, proj}, err);
}

/* How the views are handed over: `chunk` at a time. */
static float *reconstruct(const struct scan *s, const struct vp_view *views, const float *proj, int64_t z0,
                          int64_t z1, int threads, int64_t chunk, const char *isa, char text[64])
{
    struct vp_backproject *b;
    struct vp_err err = VP_ERR_INIT;
    const int64_t slice = s->grid.n[0] * s->grid.n[1];
    const struct vp_bp_job job = job_of(s, views, z0, z1, threads);
    if (vp_backproject_open(&b, &job, isa, &err)) {
        CHECK_STR(err.msg, "");
        return NULL;
    }
    float *voxels = backproject_begin(b);
    for (int64_t k = 0; k < s->n_views; k += chunk) {
        const int64_t n = k + chunk < s->n_views ? chunk : s->n_views - k;
        CHECK_INT(add(b, k, n, 0, s->nv, proj + k * s->nu * s->nv, &err), 0);
    }
    vp_backproject_end(b);
    if (text)
        snprintf(text, 64, "%s", vp_backproject_describe(b));
    float *out = malloc((size_t)(slice * (z1 - z0)) * sizeof *out);
    vp_tiles_get(vp_backproject_tiles(b), voxels, z0, z1 - z0, threads, out);
    vp_backproject_close(b);
    free(voxels);
    return out;
}

/* Relative L2 error of slab [z0, z1) at some voxels. */
static double slab_error(const struct scan *s, const struct vp_view *views, const float *proj,
                         const float *got, int64_t z0, int64_t z1, int64_t samples)
{
    const int64_t slice = s->grid.n[0] * s->grid.n[1], all = slice * (z1 - z0);
    double difference = 0, norm = 0;
    for (int64_t t = 0; t < (samples < all ? samples : all); t++) {
        const int64_t at = samples < all ? (int64_t)(uniform() * (double)all) : t;
        const double want = backproject_ref(views, s->n_views, s->nu, s->nv, &s->grid, proj,
                                            at % s->grid.n[0],
                                            at % slice / s->grid.n[0], z0 + at / slice);
        difference += (got[at] - want) * (got[at] - want);
        norm += want * want;
    }
    return norm > 0 ? sqrt(difference / norm) : sqrt(difference);
}

#define GRID(nx, ny, nz, vx, vy, vz, ...) {.n = {nx, ny, nz}, .voxel = {vx, vy, vz}, __VA_ARGS__}
#define CIRCLE "circular orbit"
#define MIRROR "circular orbit, z mirror"
#define FEW "few slices"
#define MATRIX "3x4 matrices"

static const struct scan SCANS[] = {
    {"even", 24, 64, 64, 6.25, 0, 0, 0, 0, false, false, GRID(64, 64, 64, 4.1, 4.1, 4.1), MIRROR, 3e-7},
    {"odd", 19, 67, 51, 6.25, 0, 0, 0, 0, false, false, GRID(37, 29, 45, 4.1, 4.3, 3.9), MIRROR, 3e-7},
    {"upside down", 9, 67, 51, 6.25, 0, 0, 0, 0, false, true, GRID(37, 29, 45, 4.1, 4.3, 3.9), MIRROR, 3e-7},
    {"upside down, off", 9, 67, 51, 6.25, 0, 3.3, 0, 0, false, true, GRID(37, 29, 45, 4.1, 4.3, 3.9), CIRCLE,
     3e-7},
    {"offset, mirror at a row", 9, 67, 51, 6.25, 20.3, 4, 0, 0, false, false,
     GRID(37, 29, 145, 4.1, 4.3, 2.9), MIRROR, 3e-7},
    {"offset, mirror between", 9, 67, 51, 6.25, 20.3, -3.5, 0, 0, false, false,
     GRID(37, 29, 144, 4.1, 4.3, 2.9), MIRROR, 3e-7},
    {"offset", 9, 67, 51, 6.25, -9.2, 2.2, 0, 0, false, false, GRID(37, 29, 145, 4.1, 4.3, 2.9), CIRCLE,
     3e-7},
    {"center", 9, 67, 51, 6.25, 0, 0, 0, 0, false, false,
     GRID(37, 29, 65, 4.1, 4.3, 3.9, .center = {9, -20, 33}), CIRCLE, 3e-7},
    {"half", 9, 65, 65, 6.25, 0, 0, 0, 0, false, false, GRID(24, 24, 130, 4, 4, 2.05), MIRROR, 3e-7},
    {"half, flipped, off", 9, 65, 65, 6.25, 0, 0.7, 0, 0, false, true, GRID(24, 24, 130, 4, 4, 2.05), CIRCLE,
     3e-7},
    {"half, mirror off", 9, 65, 65, 6.25, 0, -1.5, 0, 0, false, true, GRID(24, 24, 131, 4, 4, 2.05), MIRROR,
     3e-7},
    {"0.7", 9, 65, 65, 6.25, 0, 0, 0, 0, false, false, GRID(24, 24, 130, 4, 4, 2.9), MIRROR, 3e-7},
    {"0.05", 9, 65, 65, 6.25, 0, 0, 0, 0, false, false, GRID(24, 24, 130, 4, 4, 0.2), MIRROR, 3e-7},
    {"1.3", 9, 65, 65, 6.25, 0, 0, 0, 0, false, false, GRID(24, 24, 67, 4, 4, 5.4), MIRROR, 3e-7},
    {"1.7", 9, 65, 165, 6.25, 0, 0.1, 0, 0, false, false, GRID(24, 24, 67, 4, 4, 7.1), CIRCLE, 3e-7},
    {"4", 9, 65, 165, 6.25, 0, 0, 0, 0, false, false, GRID(24, 24, 67, 4, 4, 16), MIRROR, 3e-7},
    {"40", 9, 65, 999, 6.25, 0, 0.1, 0, 0, false, false, GRID(8, 8, 67, 4, 4, 160), CIRCLE, 3e-7},
    {"wide range", 9, 65, 65, 6.25, 0, 0, 0, 0, false, false, GRID(60, 60, 67, 20, 20, 4), MIRROR, 3e-7},
    {"around the source", 9, 65, 65, 25, 0, 0, 0, 0, false, false, GRID(31, 33, 33, 100, 100, 10), MATRIX,
     1e-6},
    {"taller than the detector", 9, 65, 33, 6.25, 0, 0, 0, 0, false, false, GRID(24, 24, 999, 4, 4, 4.3),
     MIRROR, 3e-7},
    {"one slice", 9, 65, 33, 6.25, 0, 0, 0, 0, false, false, GRID(40, 40, 1, 4, 4, 4), FEW, 3e-7},
    {"one row", 9, 65, 1, 6.25, 0, 0, 0, 0, false, false, GRID(40, 41, 1, 4, 4, 4), FEW, 3e-7},
    {"three slices", 9, 65, 33, 6.25, 0, 0, 3, 20, false, true,
     GRID(41, 39, 3, 4, 4, 4, .center = {0, 0, 12}), FEW, 3e-7},
    {"one slice around the source", 9, 65, 33, 25, 0, 0, 0, 0, false, false, GRID(40, 40, 1, 100, 100, 4),
     FEW, 3e-7},
    {"one slice, parallel", 9, 65, 1, 4, 0.4, 0, 0, 0, true, false, GRID(40, 40, 1, 4, 4, 4), FEW, 3e-7},
    {"one voxel wide", 9, 1, 65, 6.25, 0, 0, 0, 0, false, false, GRID(1, 1, 65, 4, 4, 4), MIRROR, 3e-7},
    {"parallel", 9, 65, 65, 4.1, 0, 0, 0, 0, true, false, GRID(64, 64, 64, 4.1, 4.1, 4.1),
     "parallel beam, z mirror", 3e-7},
    {"parallel, off", 9, 65, 65, 4.0, 3.2, 0.2, 0, 0, true, false, GRID(64, 64, 64, 4.1, 4.1, 4.1),
     "parallel beam", 3e-7},
    {"parallel, leaning", 9, 65, 65, 4.0, 3.2, 0.2, 0, 10, true, false, GRID(33, 35, 64, 4.1, 4.1, 4.1),
     "parallel beam", 3e-7},
    {"parallel, rolled", 9, 65, 65, 4.0, 3.2, 0.2, 2, 10, true, false, GRID(33, 35, 64, 4.1, 4.1, 4.1),
     MATRIX, 1e-6},
    {"1 degree", 9, 65, 65, 6.25, 0, 0, 1, 0.5, false, false, GRID(41, 39, 65, 4.1, 4.1, 4.1), MATRIX, 1e-6},
    {"30 degrees", 9, 65, 65, 6.25, 0, 0, 30, 20, false, false, GRID(41, 39, 65, 4.1, 4.1, 4.1), MATRIX,
     1e-6},
    {"90 degrees", 9, 65, 51, 6.25, 0, 0, 90, 0.1, false, false, GRID(41, 39, 65, 4.1, 4.1, 4.1), MATRIX,
     1e-6},
    {"upside down, leaning", 9, 65, 65, 6.25, 0, 0, 3, -60, false, true, GRID(41, 39, 65, 4.1, 4.1, 4.1),
     MATRIX, 1e-6},
    {"leaning, coarse", 9, 65, 65, 6.25, 0, 0, 3, 5, false, false, GRID(21, 29, 65, 20, 20, 12), MATRIX,
     1e-6},
    {"leaning around the source", 9, 65, 65, 25, 0, 0, 3, 25, false, false, GRID(41, 39, 65, 60, 60, 60),
     MATRIX, 1e-6},
};
enum { N_SCANS = sizeof SCANS / sizeof *SCANS };

static void check_errors(void)
{
    for (int c = 0; c < N_SCANS; c++) {
        const struct scan *s = &SCANS[c];
        struct vp_view *views = make_views(s);
        float *proj = make_projections(s);
        for (int i = 0; i < N_ISAS; i++) {
            char text[64] = "";
            if (!have_isa(ISAS[i]))
                continue;
            float *got = reconstruct(s, views, proj, 0, s->grid.n[2], 1, 5, ISAS[i], text);
            if (!got)
                continue;
            char want[64];
            const double error = slab_error(s, views, proj, got, 0, s->grid.n[2], 8000);
            snprintf(want, sizeof want, "%s, %s", s->kernels, ISAS[i]);
            CHECK_STR(text, want);
            CHECK_NEAR(error, 0, s->tolerance);
            if (!(error <= s->tolerance) || strcmp(text, want))
                printf("  in scan \"%s\", %s\n", s->name, text);
            free(got);
        }
        free(views);
        free(proj);
    }
}

/* Sizes at which a coordinate's rounding would show: slabs at the ends and across the middle. */
static void check_large(void)
{
    static const int64_t sizes[] = {128, 256, 512};
    for (int c = 0; c < 3; c++)
        for (int general = 0; general < 2; general++) {
            const int64_t n = sizes[c];
            const double voxel = 2 * 1000 * sin(atan(200.0 / 1500)) / (double)n;
            const struct scan s = {
                .n_views = n == 512 ? 8 : 32, .nu = n, .nv = n, .pitch = 400.0 / (double)n, .roll = general,
                .lean = 0.5 * general, .grid = {.n = {n, n, n}, .voxel = {voxel, voxel, voxel}},
            };
            const int64_t slabs[][2] = {{0, 3}, {n / 2 - 2, n / 2 + 1}, {n - 30, n - 28}};
            struct vp_view *views = make_views(&s);
            float *proj = make_projections(&s);
            for (int i = 0; i < N_ISAS; i++)
                for (int t = 0; t < 3; t++) {
                    if (!have_isa(ISAS[i]) || (general && i == 2))
                        continue;
                    float *got = reconstruct(&s, views, proj, slabs[t][0], slabs[t][1], 2, s.n_views,
                                             ISAS[i], NULL);
                    CHECK_NEAR(slab_error(&s, views, proj, got, slabs[t][0], slabs[t][1], 3000), 0,
                               general ? 1e-6 : 5e-7);
                    free(got);
                }
            free(views);
            free(proj);
        }
}

/* Whole volume, one thread, all views at once, against every other way. */
static void check_bits(void)
{
    const struct scan scans[] = {
        {.n_views = 37, .nu = 40, .nv = 70, .pitch = 6.25, .grid = GRID(19, 21, 151, 4.1, 4.1, 3.9)},
        {.n_views = 37, .nu = 40, .nv = 70, .pitch = 6.25, .grid = GRID(19, 21, 150, 4.1, 4.1, 3.9)},
        {.n_views = 37, .nu = 40, .nv = 70, .pitch = 6.25, .grid = GRID(19, 21, 151, 4.1, 4.1, 2.05)},
        {.n_views = 37, .nu = 40, .nv = 70, .pitch = 6.25, .grid = GRID(19, 21, 150, 4.1, 4.1, 7.4)},
        {.n_views = 9, .nu = 40, .nv = 70, .pitch = 6.25, .grid = GRID(19, 21, 150, 4.1, 4.1, 20)},
        {.n_views = 21, .nu = 40, .nv = 70, .pitch = 6.25, .offset_v = 0.2,
         .grid = GRID(19, 21, 150, 4.1, 4.1, 3.9)},
        {.n_views = 21, .nu = 40, .nv = 70, .pitch = 6.25, .offset_v = 1.5, .upside_down = true,
         .grid = GRID(19, 21, 130, 4.1, 4.1, 2.1)},
        {.n_views = 11, .nu = 40, .nv = 70, .pitch = 6.25, .roll = 2, .lean = 30,
         .grid = GRID(9, 11, 150, 4.1, 4.1, 3.9)},
        {.n_views = 21, .nu = 40, .nv = 70, .pitch = 6.25, .grid = GRID(19, 21, 3, 4.1, 4.1, 3.9)},
    };
    for (size_t c = 0; c < sizeof scans / sizeof *scans; c++) {
        const struct scan *s = &scans[c];
        const int64_t nz = s->grid.n[2], slice = s->grid.n[0] * s->grid.n[1], h = nz / 2;
        const int64_t slabs[][2] = {
            {0, 1}, {1, 3}, {0, 17}, {15, 47}, {31, h}, {h, h + 1}, {h, nz}, {h - 1, h + 1}, {h - 11, h + 2},
            {h - 3, h + 40}, {h + 1, h + 30}, {nz - 1, nz}, {nz - 40, nz - 20}, {3, nz - 3}, {0, nz},
        };
        struct vp_view *views = make_views(s);
        float *proj = make_projections(s);
        for (int i = 0; i < N_ISAS; i++) {
            if (!have_isa(ISAS[i]))
                continue;
            float *whole = reconstruct(s, views, proj, 0, nz, 1, s->n_views, ISAS[i], NULL);
            for (size_t t = 0; t < sizeof slabs / sizeof *slabs; t++) {
                if (slabs[t][0] < 0 || slabs[t][0] >= slabs[t][1] || slabs[t][1] > nz)
                    continue;
                const int threads = t % 4 ? 1 : 1 + (int)(t / 4 % 3); /* 1, 2, 3 */
                const int64_t z0 = slabs[t][0], z1 = slabs[t][1], chunk = 1 + (int64_t)(t * 5 % 19);
                float *slab = reconstruct(s, views, proj, z0, z1, threads, chunk, ISAS[i], NULL);
                const bool same = !memcmp(slab, whole + z0 * slice,
                                          (size_t)((z1 - z0) * slice) * sizeof *slab);
                CHECK(same);
                if (!same)
                    printf("  slab %d:%d of scan %d, %s\n", (int)z0, (int)z1, (int)c, ISAS[i]);
                free(slab);
            }
            free(whole);
        }
        free(views);
        free(proj);
    }
}

/* Views 5..8, 30 and 70..99 of 100: their sum, and the same bits however they are cut. */
static void check_gaps(void)
{
    struct scan s = SCANS[1];
    s.n_views = 100;
    struct vp_view *views = make_views(&s), *some = calloc(100, sizeof *some);
    float *proj = make_projections(&s), *packed = malloc(100 * (size_t)(s.nu * s.nv) * sizeof *packed);
    const int64_t view = s.nu * s.nv, slice = s.grid.n[0] * s.grid.n[1];
    float *out[2];
    int64_t n = 0;
    for (int64_t k = 0; k < 100; k++)
        if ((k >= 5 && k < 9) || k == 30 || k >= 70) {
            some[n] = views[k];
            memcpy(packed + n++ * view, proj + k * view, (size_t)view * sizeof *proj);
        }
    for (int way = 0; way < 2; way++) {
        struct vp_backproject *b;
        struct vp_err err = VP_ERR_INIT;
        out[way] = malloc((size_t)(slice * s.grid.n[2]) * sizeof **out);
        const struct vp_bp_job job = job_of(&s, views, 0, s.grid.n[2], 2);
        projections.n_views = 100;
        CHECK_INT(vp_backproject_open(&b, &job, NULL, &err), 0);
        float *voxels = backproject_begin(b);
        CHECK_INT(add(b, 5, 4, 0, s.nv, proj + 5 * view, &err), 0);
        CHECK_INT(add(b, 30, 1, 0, s.nv, proj + 30 * view, &err), 0);
        for (int64_t k = 70; k < 100; k += way ? 30 : 1)
            CHECK_INT(add(b, k, way ? 30 : 1, 0, s.nv, proj + k * view, &err), 0);
        CHECK_INT(add(b, 99, 1, 0, s.nv, proj, &err), -1); /* out of order */
        vp_backproject_end(b);
        for (int64_t z = 0; z < s.grid.n[2]; z++)
            vp_tiles_get(vp_backproject_tiles(b), voxels, z, 1, 2, out[way] + z * slice);
        vp_backproject_close(b);
        free(voxels);
    }
    CHECK(!memcmp(out[0], out[1], (size_t)(slice * s.grid.n[2]) * sizeof **out));
    s.n_views = n;
    CHECK_NEAR(slab_error(&s, some, packed, out[0], 0, s.grid.n[2], 20000), 0, 3e-7);
    free(out[0]);
    free(out[1]);
    free(views);
    free(some);
    free(proj);
    free(packed);
}

/* Rows that vp_backproject_rows leaves out are not needed: poison them. */
static void check_rows(void)
{
    for (int c = 0; c < N_SCANS; c++) {
        const struct scan *s = &SCANS[c];
        const int64_t nz = s->grid.n[2], z0 = nz / 3, z1 = nz / 3 + 1 + nz / 10;
        const int64_t slice = s->grid.n[0] * s->grid.n[1];
        struct vp_view *views = make_views(s);
        float *proj = make_projections(s);
        int64_t v0, v1;
        float *want = reconstruct(s, views, proj, z0, z1, 1, 16, NULL, NULL);
        vp_backproject_rows(&projections, &s->grid, z0, z1, false, &v0, &v1);
        CHECK(v0 >= 0 && v0 <= v1 && v1 <= s->nv);
        for (int64_t k = 0; k < s->n_views; k++)
            for (int64_t v = 0; v < s->nv; v++)
                for (int64_t u = 0; u < s->nu && (v < v0 || v >= v1); u++)
                    proj[(k * s->nv + v) * s->nu + u] = NAN;
        float *got = reconstruct(s, views, proj, z0, z1, 1, 16, NULL, NULL);
        CHECK(!memcmp(want, got, (size_t)((z1 - z0) * slice) * sizeof *got));
        /* nor need they be there */
        if (v1 > v0) {
            struct vp_backproject *b;
            struct vp_err err = VP_ERR_INIT;
            const struct vp_bp_job job = job_of(s, views, z0, z1, 1);
            CHECK_INT(vp_backproject_open(&b, &job, NULL, &err), 0);
            float *voxels = backproject_begin(b);
            for (int64_t k = 0; k < s->n_views; k++) {
                const size_t size = (size_t)((v1 - v0) * s->nu) * sizeof(float);
                float *rows = malloc(size);
                memcpy(rows, proj + (k * s->nv + v0) * s->nu, size);
                CHECK_INT(add(b, k, 1, v0, v1, rows, &err), 0);
                free(rows);
            }
            vp_backproject_end(b);
            vp_tiles_get(vp_backproject_tiles(b), voxels, z0, z1 - z0, 1, got);
            vp_backproject_close(b);
            free(voxels);
            CHECK(!memcmp(want, got, (size_t)((z1 - z0) * slice) * sizeof *got));
        }
        free(want);
        free(got);
        free(views);
        free(proj);
    }
    /* a central slab does not need the detector's ends */
    const struct scan *s = &SCANS[0];
    struct vp_view *views = make_views(s);
    int64_t v0, v1;
    job_of(s, views, 31, 33, 1);
    vp_backproject_rows(&projections, &s->grid, 31, 33, false, &v0, &v1);
    CHECK(v0 >= 28 && v1 <= 36);
    free(views);
}

/* A dead column of the first view harms the voxels that see it, not those that miss the detector. */
static void check_nan(void)
{
    for (int c = 0; c < N_SCANS; c++) {
        const struct scan *s = &SCANS[c];
        if (strcmp(s->name, "one slice around the source") && strcmp(s->name, "odd")
            && strcmp(s->name, "1 degree"))
            continue;
        struct vp_view *views = make_views(s);
        float *proj = make_projections(s);
        const int64_t slice = s->grid.n[0] * s->grid.n[1];
        for (int64_t v = 0; v < s->nv; v++)
            proj[v * s->nu] = NAN;
        float *got = reconstruct(s, views, proj, 0, s->grid.n[2], 1, 16, NULL, NULL);
        int64_t bad = 0, want = 0;
        for (int64_t at = 0; at < slice * s->grid.n[2]; at++) {
            bad += isnan(got[at]);
            want += isnan(backproject_ref(views, 1, s->nu, s->nv, &s->grid, proj, at % s->grid.n[0],
                                          at % slice / s->grid.n[0], at / slice));
        }
        CHECK(bad >= want && bad <= 3 * want + 8);
        free(got);
        free(views);
        free(proj);
    }
}

/* Bytes promised against bytes taken from the heap. */
static void check_bytes(void)
{
    const struct scan large = {.n_views = 2, .nu = 500, .nv = 700, .pitch = 0.8,
                               .grid = GRID(16, 16, 700, 1, 1, 0.53)};
    for (int c = 0; c <= N_SCANS; c++)
        for (int part = 0; part < 3; part++) {
            const struct scan *s = c < N_SCANS ? &SCANS[c] : &large;
            const int64_t nz = s->grid.n[2], z0 = part == 2 ? nz / 2 : 0, z1 = part == 1 ? nz / 2 + 1 : nz;
            struct vp_view *views = make_views(s);
            struct vp_backproject *b;
            struct vp_err err = VP_ERR_INIT;
            const struct mallinfo2 before = mallinfo2();
            const struct vp_bp_job job = job_of(s, views, z0, z1, 2);
            CHECK_INT(vp_backproject_open(&b, &job, NULL, &err), 0);
            float *voxels = backproject_begin(b);
            const struct mallinfo2 after = mallinfo2();
            const uint64_t taken = after.uordblks + after.hblkhd - before.uordblks - before.hblkhd;
            struct vp_bp_plan plan;
            CHECK_INT(vp_backproject_plan(&job, &plan, &err), 0);
            CHECK_STR(plan.kernel, vp_backproject_describe(b));
            CHECK(taken <= plan.host);
#ifndef TEST_SANITIZED /* which keeps the heap's books itself */
            if (c == N_SCANS)
                CHECK(2 * taken > plan.host);
#endif
            vp_backproject_close(b);
            free(voxels);
            free(views);
        }
    /* and it is not far above what a volume needs */
    const struct scan usual = {.n_views = 720, .nu = 512, .nv = 512, .pitch = 1, .grid = GRID(512, 512, 512, 1, 1, 1)};
    struct vp_view *views = make_views(&usual);
    struct vp_err err = VP_ERR_INIT;
    struct vp_bp_plan plan;
    const struct vp_bp_job job = job_of(&usual, views, 0, 512, 1);
    CHECK_INT(vp_backproject_plan(&job, &plan, &err), 0);
    CHECK((double)plan.host < 1.15 * 4 * 512 * 512 * 512.0);
    free(views);
}

static void check_refusals(void)
{
    const struct scan *s = &SCANS[0];
    struct vp_view *views = make_views(s);
    struct vp_backproject *b;
    struct vp_err err = VP_ERR_INIT;
    struct vp_bp_job job = job_of(s, views, 0, 1, 1);
    CHECK_INT(vp_backproject_open(&b, &job, "mmx", &err), -1);
    CHECK_STR(err.msg, "this processor does not have the instruction set mmx");
    CHECK(b == NULL);
    err = (struct vp_err)VP_ERR_INIT;
    job.z0 = job.z1 = 3;
    CHECK_INT(vp_backproject_open(&b, &job, NULL, &err), -1);
    CHECK_INT(err.code, VP_EUSAGE);
    free(views);
}

int main(void)
{
    check_refusals();
    check_errors();
    check_gaps();
    check_rows();
    check_nan();
    check_bytes();
    check_bits();
    check_large();
    return test_done();
}
