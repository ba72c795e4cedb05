/* SPDX-License-Identifier: BSD-3-Clause */
/* Updates a second of the matched pair (ct/pair.h), projection and transpose, on the CPU, for each instruction set:
 * pair_bench [SIZE [VIEWS [THREADS [ROUNDS [ISA]]]]]. A cone beam, SIZE^3 voxels, views of SIZE x SIZE pixels. 1 GUPS =
 * 2^30 updates a second, the best of the rounds after a first one; also of a second of CPU time, which other processes
 * disturb less. Also <Ax, y> / <x, A'y> - 1, for positive random x and y. */
#include "base/err.h"
#include "base/size.h"
#include "ct/pair.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char *const ISAS[] = {"avx512", "avx2", "generic"};

static float *random_floats(int64_t n)
{
    uint32_t seed = 1;
    struct vp_err err = VP_ERR_INIT;
    float *x = vp_alloc_raw((size_t)n, sizeof *x, "samples", &err);
    for (int64_t i = 0; x && i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        x[i] = (float)(seed >> 8) * 0x1p-24f;
    }
    return x;
}

static double dot(const float *a, const float *b, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += (double)a[i] * (double)b[i];
    return sum;
}

static double cpu_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* The least seconds, and those of the CPU. */
struct best { double wall, cpu; };

static void keep(struct best *b, double wall, double cpu)
{
    b->wall = fmin(b->wall, vp_now() - wall);
    b->cpu = fmin(b->cpu, cpu_now() - cpu);
}

static void measure(const char *isa, int64_t size, int n, int threads, int rounds)
{
    struct vp_view views[VP_PAIR_VIEWS];
    int64_t list[VP_PAIR_VIEWS];
    const double sod = 1000, sdd = 1500, pitch = 400 / (double)size, c = (double)(size - 1) / 2, f = sdd / pitch;
    const double voxel = 2 * sod * sin(atan(200 / sdd)) / (double)size;
    for (int s = 0; s < n; s++) {
        const double b = 0.1 + 2 * M_PI * s / n, w[4] = {sin(b), -cos(b), 0, sod}, u[3] = {cos(b), sin(b), 0};
        views[s] = (struct vp_view){.angle = b, .fu = f, .fv = f, .cu = c, .cv = c, .sod = sod};
        for (int i = 0; i < 4; i++) {
            views[s].P[i] = (i < 3 ? f * u[i] : 0) + c * w[i];
            views[s].P[4 + i] = (i == 2 ? f : 0) + c * w[i];
            views[s].P[8 + i] = w[i];
        }
        list[s] = s;
    }
    const struct vp_projections scan = {.views = views, .n_views = n, .nu = size, .nv = size};
    const struct vp_grid grid = {.n = {size, size, size}, .voxel = {voxel, voxel, voxel}};
    const int64_t voxels = size * size * size, pixels = n * size * size;
    struct vp_pair *p;
    struct vp_err err = VP_ERR_INIT;
    if (vp_pair_open(&p, &scan, &grid, threads, isa, &err)) {
        printf("%-8s %s\n", isa, err.msg);
        return;
    }
    float *x = random_floats(voxels), *y = random_floats(pixels), *back = vp_alloc((size_t)voxels, 4, "x", &err);
    float *forward = vp_alloc((size_t)pixels, 4, "y", &err);
    if (x && y && back && forward) {
        const double updates = (double)voxels * n / 0x1p30;
        struct best to = {INFINITY, INFINITY}, from = to;
        vp_pair_forward(p, x, list, n, forward);
        vp_pair_adjoint(p, y, list, n, 0, size, back);
        const double adjoint = dot(forward, y, pixels) / dot(x, back, voxels) - 1;
        for (int round = 0; round < rounds; round++) {
            double wall = vp_now(), cpu = cpu_now();
            vp_pair_forward(p, x, list, n, forward);
            keep(&to, wall, cpu);
            wall = vp_now();
            cpu = cpu_now();
            vp_pair_adjoint(p, y, list, n, 0, size, back);
            keep(&from, wall, cpu);
        }
        printf("%-8s projection %7.3f GUPS (%.3f of CPU time), transpose %7.3f GUPS (%.3f), adjoint %.1e\n", isa,
               updates / to.wall, updates / to.cpu, updates / from.wall, updates / from.cpu, adjoint);
    }
    free(x);
    free(y);
    free(back);
    free(forward);
    vp_pair_close(p);
}

int main(int argc, char **argv)
{
    const int64_t size = argc > 1 ? atoll(argv[1]) : 256;
    const int n = argc > 2 ? atoi(argv[2]) : VP_PAIR_VIEWS, threads = argc > 3 ? atoi(argv[3]) : vp_cores();
    const int rounds = argc > 4 ? atoi(argv[4]) : 3;
    for (size_t i = 0; i < sizeof ISAS / sizeof *ISAS; i++)
        if (argc <= 5 || !strcmp(argv[5], ISAS[i]))
            measure(ISAS[i], size, n < VP_PAIR_VIEWS ? n : VP_PAIR_VIEWS, threads, rounds);
    return 0;
}
