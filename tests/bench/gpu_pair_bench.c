/* SPDX-License-Identifier: BSD-3-Clause */
/* Updates a second of the matched pair (ct/pair_device.h) on a GPU: gpu_pair_bench [LARGEST [VIEWS [DEVICE]]]. A cone
 * beam, SIZE^3 voxels and views of SIZE x SIZE pixels, for SIZE 512 and 1024 up to LARGEST. 1 GUPS = 2^30 updates a
 * second, of the kernels by events. Errors: relative L2 of VIEWS_CPU views, and of the slices of one segment, against
 * the CPU (which is within 1e-6 of float64); <Ax, y> / <x, A'y> - 1 for positive random x and y. */
#include "base/err.h"
#include "base/size.h"
#include "ct/pair.h"
#include "ct/pair_device.h"
#include "device/device.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VIEWS_CPU = 4 };
enum { SLICES = 128 }; /* that a transpose on the CPU makes */

static void die(const struct vp_err *err)
{
    fprintf(stderr, "gpu_pair_bench: error: %s\n", err->msg);
    exit(1);
}

static float *floats(int64_t n)
{
    uint32_t seed = 1;
    struct vp_err err = VP_ERR_INIT;
    float *x = vp_alloc_raw((size_t)n, sizeof *x, "samples", &err);
    if (!x)
        die(&err);
    for (int64_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        x[i] = (float)(seed >> 8) * 0x1p-24f;
    }
    return x;
}

static double dot(const float *a, const float *b, int64_t n)
{
    double sum = 0;
#pragma omp parallel for reduction(+ : sum)
    for (int64_t i = 0; i < n; i++)
        sum += (double)a[i] * (double)b[i];
    return sum;
}

static double error_of(const float *got, const float *want, int64_t n)
{
    double e = 0, q = 0;
#pragma omp parallel for reduction(+ : e, q)
    for (int64_t i = 0; i < n; i++) {
        e += ((double)got[i] - (double)want[i]) * ((double)got[i] - (double)want[i]);
        q += (double)want[i] * (double)want[i];
    }
    return sqrt(e / q);
}

static struct vp_view *make_views(int64_t size, int64_t n, struct vp_grid *grid)
{
    struct vp_err err = VP_ERR_INIT;
    const double sod = 1000, sdd = 1500, pitch = 400 / (double)size, c = (double)(size - 1) / 2, f = sdd / pitch;
    struct vp_view *views = vp_alloc((size_t)n, sizeof *views, "views", &err);
    if (!views)
        die(&err);
    for (int64_t s = 0; s < n; s++) {
        const double b = 2 * M_PI * (double)s / (double)n, w[4] = {sin(b), -cos(b), 0, sod}, u[3] = {cos(b), sin(b), 0};
        views[s] = (struct vp_view){.angle = b, .fu = f, .fv = f, .cu = c, .cv = c, .sod = sod};
        for (int i = 0; i < 4; i++) {
            views[s].P[i] = (i < 3 ? f * u[i] : 0) + c * w[i];
            views[s].P[4 + i] = (i == 2 ? f : 0) + c * w[i];
            views[s].P[8 + i] = w[i];
        }
    }
    *grid = (struct vp_grid){.n = {size, size, size}};
    for (int a = 0; a < 3; a++)
        grid->voxel[a] = 2 * sod * sin(atan(200 / sdd)) / (double)size;
    return views;
}

static void measure(const struct vp_backend *gpu, int device, int64_t size, int64_t n)
{
    struct vp_err err = VP_ERR_INIT;
    struct vp_grid grid;
    struct vp_view *views = make_views(size, n, &grid);
    const struct vp_projections scan = {.views = views, .n_views = n, .nu = size, .nv = size};
    const int64_t page = size * size, voxels = page * size;
    struct vp_pair *cpu;
    struct vp_pair_device *d;
    if (vp_pair_open(&cpu, &scan, &grid, 0, NULL, &err) || vp_pair_device_open(&d, cpu, gpu, device, &err))
        die(&err);
    float *x = floats(voxels), *y = floats(VP_PAIR_VIEWS * page), *got = floats(VP_PAIR_VIEWS * page);
    float *want = floats(VIEWS_CPU * page), *back = vp_alloc((size_t)voxels, sizeof *back, "x", &err);
    float *segment = vp_alloc((size_t)(SLICES * page), sizeof *segment, "x", &err);
    int64_t list[VP_PAIR_VIEWS], group = 0;
    double project = 0, collect = 0, before_project = 0, before_collect, left = 0;
    if (!back || !segment)
        die(&err);
    if (vp_pair_device_load(d, x, &err))
        die(&err);
    for (int64_t s = 0; s + VP_PAIR_VIEWS <= n; s += VP_PAIR_VIEWS, group++) {
        /* views of a group are neighbours; the first group warms up */
        for (int64_t i = 0; i < VP_PAIR_VIEWS; i++)
            list[i] = s + i;
        if (group == 1)
            vp_pair_device_seconds(d, &before_project, &before_collect);
        if ((group == 0 && vp_pair_device_clear(d, &err)) || vp_pair_device_forward(d, list, VP_PAIR_VIEWS, got, &err)
            || vp_pair_device_adjoint(d, y, list, VP_PAIR_VIEWS, &err))
            die(&err);
        left += dot(got, y, VP_PAIR_VIEWS * page);
    }
    if (vp_pair_device_add(d, 0, size, back, &err))
        die(&err);
    vp_pair_device_seconds(d, &project, &collect);
    const double updates = (double)voxels * (double)((group - 1) * VP_PAIR_VIEWS) / 0x1p30;
    const double sums = (double)voxels * (double)(group * VP_PAIR_VIEWS) / 0x1p30; /* views are summed many at once */
    const double adjoint = left / dot(x, back, voxels) - 1;
    /* against the CPU: the last group */
    memset(back, 0, (size_t)voxels * sizeof *back);
    if (vp_pair_device_clear(d, &err) || vp_pair_device_adjoint(d, y, list, VP_PAIR_VIEWS, &err)
        || vp_pair_device_add(d, 0, size, back, &err))
        die(&err);
    vp_pair_forward(cpu, x, list, VIEWS_CPU, want);
    vp_pair_adjoint(cpu, y, list, VP_PAIR_VIEWS, SLICES, 2 * SLICES, segment);
    printf("%4lld^3, %lld views: projection %7.1f GUPS, transpose %7.1f GUPS; errors %.1e %.1e; adjoint %.1e\n",
           (long long)size, (long long)n, updates / (project - before_project), sums / collect,
           error_of(got, want, VIEWS_CPU * page),
           error_of(back + SLICES * page, segment, SLICES * page), adjoint);
    fflush(stdout);
    vp_pair_device_close(d);
    vp_pair_close(cpu);
    float *const all[] = {x, y, got, want, back, segment};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
    free(views);
}

int main(int argc, char **argv)
{
    const int64_t largest = argc > 1 ? atoll(argv[1]) : 1024, views = argc > 2 ? atoll(argv[2]) : 256;
    const struct vp_backend *gpu;
    struct vp_err err = VP_ERR_INIT;
    int *devices, n;
    if (vp_devices_find(&gpu, &devices, &n, argc > 3 ? argv[3] : "cuda", &err)) {
        printf("%s\n", err.msg);
        return 0;
    }
    for (int64_t size = largest < 512 ? largest : 512; size <= largest; size *= 2)
        measure(gpu, devices[0], size, views);
    free(devices);
    return 0;
}
