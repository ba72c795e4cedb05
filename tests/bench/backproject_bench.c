/* SPDX-License-Identifier: BSD-3-Clause */
/* Back-projection speed in GUPS = nx ny nz views / (seconds 2^30): the naive loop (Algorithm 2 of iFDK,
 * Chen et al. 2019), then every instruction set of this processor on every path, and their errors against
 * float64. usage: backproject_bench [SIZE [VIEWS [REPEATS]]] */
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/size.h"
#include "ct/backproject.h"
#include "../unit/backproject_ref.h"

struct setup {
    const char *name;
    enum vp_beam beam;
    double finer;       /* voxels per detector sample */
    double offset_v, tilt;
    int64_t slices;     /* 0: a cube */
};

static const struct setup SETUPS[] = {
    {"circular orbit", VP_CONE, 1, 0, 0, 0},
    {"circular orbit, off centre", VP_CONE, 1, 0.3, 0, 0},
    {"circular orbit, fine voxels", VP_CONE, 2, 0, 0, 0},
    {"circular orbit, coarse voxels", VP_CONE, 0.6, 0, 0, 0},
    {"circular orbit, one slice", VP_CONE, 1, 0, 0, 1},
    {"parallel beam", VP_PARALLEL, 1, 0, 0, 0},
    {"tilted detector, 1 degree", VP_CONE, 1, 0, 1, 0},
};
enum { N_SETUPS = sizeof SETUPS / sizeof *SETUPS };

static void die(const struct vp_err *err)
{
    fprintf(stderr, "backproject_bench: error: %s\n", err->msg);
    exit(1);
}

static double gups(const struct vp_grid *g, int64_t views, double seconds)
{
    return (double)g->n[0] * (double)g->n[1] * (double)g->n[2] * (double)views / (seconds * 1073741824.0);
}

/* Detector 400 mm wide, source to axis 1000 mm, to the detector 1500 mm; the cube around the field of
 * view. */
static struct vp_view *make_views(const struct setup *s, int64_t n, int64_t n_views, int64_t size,
                                  struct vp_grid *grid)
{
    struct vp_err err = VP_ERR_INIT;
    struct vp_geom g = {.beam = s->beam, .sod = 1000, .sdd = 1500, .nu = n, .nv = n, .du = 400.0 / (double)n,
                        .dv = 400.0 / (double)n,
                        .offset_v = s->offset_v, .tilt = s->tilt, .views = n_views};
    struct vp_scan scan;
    struct vp_view *views;
    g.angle = vp_alloc((size_t)n_views, sizeof *g.angle, "angles", &err);
    if (!g.angle)
        die(&err);
    for (int64_t v = 0; v < n_views; v++)
        g.angle[v] = 0.37 + 360.0 * (double)v / (double)n_views;
    if (vp_geom_views(&g, &views, &scan, &err))
        die(&err);
    const double radius = s->beam == VP_CONE ? 1000 * sin(atan(200.0 / 1500)) : 200;
    *grid = (struct vp_grid){.n = {size, size, s->slices ? s->slices : size}};
    for (int a = 0; a < 3; a++)
        grid->voxel[a] = 2 * radius / (double)size;
    vp_geom_free(&g);
    return views;
}

/* Algorithm 2: for every voxel of every view, in the order of the image. As good as the compiler makes it. */
#if defined __x86_64__ && !defined __clang__
__attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#endif
static double naive_seconds(const struct vp_view *views, int64_t n, int64_t n_views,
                            const struct vp_grid *grid, const float *proj, float *vol)
{
    const double start = vp_now();
    for (int64_t s = 0; s < n_views; s++) {
        const float *q = proj + s * n * n;
        double Pd[12];
        float P[12];
        vp_view_on_grid(&views[s], grid, Pd);
        for (int c = 0; c < 12; c++)
            P[c] = (float)(Pd[c] / views[s].sod);
        for (int64_t k = 0; k < grid->n[2]; k++)
            for (int64_t j = 0; j < grid->n[1]; j++)
                for (int64_t i = 0; i < grid->n[0]; i++) {
                    const float x = (float)i, y = (float)j, z = (float)k;
                    const float f = 1 / (P[8] * x + P[9] * y + P[10] * z + P[11]);
                    const float u = (P[0] * x + P[1] * y + P[2] * z + P[3]) * f;
                    const float v = (P[4] * x + P[5] * y + P[6] * z + P[7]) * f;
                    const int m = (int)u, r = (int)v;
                    if (!(u >= 0 && v >= 0 && m < n - 1 && r < n - 1))
                        continue;
                    const float a = u - (float)m, b = v - (float)r, *p = q + r * n + m;
                    vol[(k * grid->n[1] + j) * grid->n[0] + i] += f * f
                        * ((1 - b) * ((1 - a) * p[0] + a * p[1]) + b * ((1 - a) * p[n] + a * p[n + 1]));
                }
    }
    return vp_now() - start;
}

static double copy_bandwidth(void)
{
    const size_t bytes = 256u << 20;
    char *a = malloc(bytes), *b = malloc(bytes);
    double best = INFINITY;
    if (!a || !b)
        return NAN;
    memset(a, 1, bytes);
    for (int r = 0; r < 4; r++) {
        const double start = vp_now();
        memcpy(b, a, bytes);
        best = fmin(best, vp_now() - start);
    }
    free(a);
    free(b);
    return 2 * (double)bytes / best / 1e9;
}

struct result { double seconds, slices, error; char text[64]; };

static struct result measure(const struct vp_view *views, int64_t n, int64_t n_views,
                             const struct vp_grid *grid, const float *proj, int threads, const char *isa,
                             int repeats)
{
    struct result r = {INFINITY, INFINITY, 0, ""};
    struct vp_err err = VP_ERR_INIT;
    const int64_t slice = grid->n[0] * grid->n[1], some = 32;
    float *out = vp_alloc((size_t)(slice * some), sizeof *out, "slices", &err);
    if (!out)
        die(&err);
    for (int t = 0; t < repeats; t++) {
        struct vp_backproject *b;
        const struct vp_projections scan = {.views = views, .n_views = n_views, .nu = n, .nv = n};
        const struct vp_bp_job job = {.projections = &scan, .grid = grid, .z1 = grid->n[2], .threads = threads};
        float *voxels = NULL;
        if (vp_backproject_open(&b, &job, isa, &err) || !(voxels = backproject_begin(b)))
            die(&err);
        const double start = vp_now();
        if (vp_backproject_add(b, &(struct vp_batch){0, n_views, 0, n, proj}, &err))
            die(&err);
        vp_backproject_end(b);
        r.seconds = fmin(r.seconds, vp_now() - start);
        snprintf(r.text, sizeof r.text, "%s", vp_backproject_describe(b));
        double difference = 0, norm = 0;
        unsigned random = 1;
        const double begin = vp_now();
        for (int64_t z = 0; z < grid->n[2]; z += some)
            vp_tiles_get(vp_backproject_tiles(b), voxels, z, grid->n[2] - z < some ? grid->n[2] - z : some, threads,
                         out);
        r.slices = fmin(r.slices, vp_now() - begin);
        for (int c = 0; t == 0 && c < 8; c++) {
            random = random * 1664525u + 1013904223u;
            const int64_t z = (random >> 8) % grid->n[2];
            vp_tiles_get(vp_backproject_tiles(b), voxels, z, 1, threads, out);
            for (int p = 0; p < 2000; p++) {
                random = random * 1664525u + 1013904223u;
                const int64_t at = (random >> 8) % slice;
                const double want = backproject_ref(views, n_views, n, n, grid, proj, at % grid->n[0],
                                                    at / grid->n[0], z);
                difference += (out[at] - want) * (out[at] - want);
                norm += want * want;
            }
        }
        if (t == 0)
            r.error = sqrt(difference / norm);
        vp_backproject_close(b);
        free(voxels);
    }
    free(out);
    return r;
}

static const char *const ISAS[] = {"avx512", "avx2", "generic"};
enum { N_ISAS = 3 };

static bool have_isa(const struct vp_view *view, const char *isa)
{
    const struct vp_grid grid = {.n = {1, 1, 1}, .voxel = {1, 1, 1}};
    struct vp_err err = VP_ERR_INIT;
    struct vp_backproject *b;
    const struct vp_projections p = {.views = view, .n_views = 1, .nu = 1, .nv = 1};
    const struct vp_bp_job job = {.projections = &p, .grid = &grid, .z1 = 1, .threads = 1};
    if (vp_backproject_open(&b, &job, isa, &err))
        return false;
    vp_backproject_close(b);
    return true;
}

/* `all`: whatever it takes. */
static void bench(int64_t n, int64_t n_views, int repeats, double bandwidth, bool all)
{
    struct vp_err err = VP_ERR_INIT;
    float *proj = vp_alloc((size_t)(n * n * n_views), sizeof *proj, "projections", &err);
    if (!proj)
        die(&err);
    unsigned random = 1;
    for (int64_t i = 0; i < n * n * n_views; i++) {
        random = random * 1664525u + 1013904223u;
        proj[i] = (float)(random >> 8) * 0x1p-24f - 0.5f;
    }
    printf("\n%lld^2 detector, %lld views; best of %d\n", (long long)n, (long long)n_views, repeats);

    struct vp_grid grid;
    struct vp_view *views = make_views(&SETUPS[0], n, n_views, n, &grid);
    float *vol = vp_alloc((size_t)(n * n * n), sizeof *vol, "volume", &err);
    if (!vol)
        die(&err);
    const int64_t few = n >= 512 ? 1 : 4;
    double seconds = INFINITY;
    for (int r = 0; r < 2; r++)
        seconds = fmin(seconds, naive_seconds(views, n, few, &grid, proj, vol));
    const double naive = gups(&grid, few, seconds);
    printf("%-32s %-2s %-36s %7.3f GUPS\n", "circular orbit", "1", "naive Algorithm 2, float", naive);
    free(vol);
    free(views);

    for (int s = 0; s < N_SETUPS; s++) {
        const int64_t size = (int64_t)((double)n * SETUPS[s].finer);
        if (size > 768 && !all)
            continue;
        views = make_views(&SETUPS[s], n, n_views, size, &grid);
        for (int i = 0; i < N_ISAS; i++)
            for (int threads = 1; threads <= omp_get_max_threads(); threads *= 2) {
                if (!have_isa(views, ISAS[i]) || (i > 0 && (threads > 1 || (n > 256 && s > 0 && !all))))
                    continue;
                const struct result r = measure(views, n, n_views, &grid, proj, threads, ISAS[i], repeats);
                const double rate = gups(&grid, n_views, r.seconds);
                printf("%-32s %-2d %-36s %7.3f GUPS  %5.1f x naive  error %.1e  slices %.2f of copying\n",
                       SETUPS[s].name, threads,
                       r.text, rate, rate / naive, r.error,
                       8 * (double)(grid.n[0] * grid.n[1] * grid.n[2]) / r.slices / 1e9 / bandwidth);
                fflush(stdout);
            }
        free(views);
    }
    free(proj);
}

int main(int argc, char **argv)
{
    const double bandwidth = copy_bandwidth();
    printf("memory copy: %.1f GB/s read and written\n", bandwidth);
    const int repeats = argc > 3 ? atoi(argv[3]) : 2;
    if (argc > 1) {
        bench(atoll(argv[1]), argc > 2 ? atoll(argv[2]) : 32, repeats, bandwidth, true);
    } else {
        bench(256, 16, repeats, bandwidth, false);
        bench(512, 16, repeats, bandwidth, false);
    }
    return 0;
}
