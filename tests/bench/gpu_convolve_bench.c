/* SPDX-License-Identifier: BSD-3-Clause */
/* Convolution and deconvolution on the first GPU, data resident: milliseconds by the device's clock, spectra of kernels
 * made before, and the largest error at random voxels against the direct sum in float64, over the largest value. usage:
 * gpu_convolve_bench [REPEATS [FIRST [LAST]]] of the list of jobs, from 0 on */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "device/device.h"
#include "local/deconvolve.h"

struct job {
    const char *name;
    int64_t image[3], kernel[3], nodes;
    enum vp_weights weights;
    int iterations; /* of Richardson-Lucy deconvolution; 0: convolution */
};

static const struct job JOBS[] = {
    {"image", {8192, 8192, 1}, {101, 101, 1}, 1, VP_WEIGHTS_OUTPUT, 0},
    {"image", {8192, 8192, 1}, {15, 15, 1}, 1, VP_WEIGHTS_OUTPUT, 0},
    {"image", {8192, 8192, 1}, {31, 31, 1}, 1, VP_WEIGHTS_OUTPUT, 0},
    {"image", {8192, 8192, 1}, {301, 301, 1}, 1, VP_WEIGHTS_OUTPUT, 0},
    {"image", {4096, 4096, 1}, {101, 101, 1}, 1, VP_WEIGHTS_OUTPUT, 0},
    {"images", {256, 256, 1000}, {31, 31, 1}, 1, VP_WEIGHTS_OUTPUT, 0},
    {"volume", {512, 512, 512}, {31, 31, 31}, 1, VP_WEIGHTS_OUTPUT, 0},
    {"volume", {512, 512, 512}, {63, 63, 63}, 1, VP_WEIGHTS_OUTPUT, 0},
    {"volume", {1024, 1024, 512}, {15, 15, 15}, 1, VP_WEIGHTS_OUTPUT, 0},
    {"grid", {4096, 4096, 1}, {100, 100, 1}, 32, VP_WEIGHTS_OUTPUT, 0},
    {"grid", {4096, 4096, 1}, {100, 100, 1}, 8, VP_WEIGHTS_OUTPUT, 0},
    {"grid", {1024, 1024, 1}, {100, 100, 1}, 8, VP_WEIGHTS_OUTPUT, 0},
    {"source", {4096, 4096, 1}, {100, 100, 1}, 32, VP_WEIGHTS_SOURCE, 0},
    {"lucy", {512, 512, 512}, {31, 31, 31}, 1, VP_WEIGHTS_OUTPUT, 50},
    {"lucy", {512, 512, 512}, {63, 63, 63}, 1, VP_WEIGHTS_OUTPUT, 50},
};
enum { N_JOBS = sizeof JOBS / sizeof *JOBS, SAMPLES = 2048 };

static void die(const struct vp_err *err)
{
    fprintf(stderr, "gpu_convolve_bench: error: %s\n", err->msg);
    exit(1);
}

static void *get(size_t bytes)
{
    void *p = malloc(bytes);
    if (!p) {
        fprintf(stderr, "gpu_convolve_bench: error: not enough memory\n");
        exit(3);
    }
    return p;
}

static uint32_t scramble(uint64_t i)
{
    uint32_t x = (uint32_t)i ^ (uint32_t)(i >> 32) * 0x9e3779b9u;
    x = (x ^ x >> 16) * 0x7feb352du;
    x = (x ^ x >> 15) * 0x846ca68bu;
    return x ^ x >> 16;
}

static float random_of(uint64_t i)
{
    return (float)(scramble(i + 99991) >> 8) / 16777216.0f;
}

/* Gaussians that turn and widen over the image, with some noise; each sums to 1. */
static float *make_kernels(const struct job *j)
{
    const int64_t *n = j->kernel, size = n[0] * n[1] * n[2];
    float *k = get((size_t)(j->nodes * j->nodes * size) * sizeof *k);
    for (int64_t node = 0; node < j->nodes * j->nodes; node++) {
        const double down = (double)(node / j->nodes) / (double)j->nodes,
                     across = (double)(node % j->nodes) / (double)j->nodes;
        const double a = 3.14159265358979 / 2 * (down + across), wide = (0.03 + 0.12 * down) * (double)n[0],
                     high = (0.03 + 0.08 * across) * (double)n[1];
        float *const to = k + node * size;
        double sum = 0;
        for (int64_t i = 0; i < size; i++) {
            const double x = (double)(i % n[0] - n[0] / 2), y = (double)(i / n[0] % n[1] - n[1] / 2),
                         z = (double)(i / n[0] / n[1] - n[2] / 2);
            const double u = (cos(a) * x + sin(a) * y) / wide, v = (cos(a) * y - sin(a) * x) / high, w = z / wide;
            to[i] = (float)(exp(-0.5 * (u * u + v * v + w * w))
                            * (0.9 + 0.2 * (double)random_of((uint64_t)(node * size + i))));
            sum += (double)to[i];
        }
        for (int64_t i = 0; i < size; i++)
            to[i] = (float)((double)to[i] / sum);
    }
    return k;
}

static int64_t cell_of(const int64_t *start, int64_t p)
{
    int64_t c = 0;
    while (p >= start[c + 1])
        c++;
    return c;
}

/* The weight of the node with that number at a place. */
static double weight_of(const struct vp_convolve_params *p, int64_t node, int64_t x, int64_t y)
{
    const int64_t at[2] = {x, y}, n[2] = {node % p->nodes[0], node / p->nodes[0]};
    double weight = 1;
    for (int a = 0; a < 2; a++) {
        const int64_t c = cell_of(p->start[a], at[a]);
        const double after = (double)p->after[a][at[a]];
        weight *= c == n[a] ? after : c == n[a] + 1 ? 1 - after : 0;
    }
    return weight;
}

static double reference(const struct vp_convolve_params *p, const int64_t image[3], const float *in,
                        const int64_t at[3])
{
    const int64_t taps = p->n[0] * p->n[1] * p->n[2];
    const bool source = p->weights == VP_WEIGHTS_SOURCE;
    double sum = 0;
    for (int64_t node = 0; node < p->nodes[0] * p->nodes[1]; node++) {
        const double weight = source ? 1 : weight_of(p, node, at[0], at[1]);
        const double away =
            fabs(p->node[0][node % p->nodes[0]] - (double)at[0]) * (double)p->nodes[0] / (double)image[0];
        const double down =
            fabs(p->node[1][node / p->nodes[0]] - (double)at[1]) * (double)p->nodes[1] / (double)image[1];
        if (weight == 0 || (source && p->nodes[0] > 1 && (away > 3 || down > 3))) /* beyond what the kernel sees */
            continue;
        const float *const k = p->kernels + node * taps;
        double one = 0;
        for (int64_t i = 0; i < taps; i++) {
            const int64_t x = at[0] - i % p->n[0] + p->centre[0], y = at[1] - i / p->n[0] % p->n[1] + p->centre[1],
                          z = at[2] - i / p->n[0] / p->n[1] + p->centre[2];
            if (x >= 0 && y >= 0 && z >= 0 && x < image[0] && y < image[1] && z < image[2])
                one += (double)k[i] * (double)in[(z * image[1] + y) * image[0] + x]
                       * (source ? weight_of(p, node, x, y) : 1);
        }
        sum += weight * one;
    }
    return sum;
}

static double error_of(const struct vp_convolve_params *p, const int64_t image[3], const float *in, const float *out)
{
    const int64_t taps = p->n[0] * p->n[1] * p->n[2];
    const int samples = taps > 100000 || p->weights == VP_WEIGHTS_SOURCE ? SAMPLES / 8 : SAMPLES;
    double wrong = 0, most = 0;
#pragma omp parallel for reduction(max : wrong, most) schedule(dynamic, 8)
    for (int i = 0; i < samples; i++) {
        int64_t at[3];
        for (int a = 0; a < 3; a++) /* corners, too */
            at[a] = i < 8 ? (i >> a & 1) * (image[a] - 1) : scramble(3u * (uint64_t)i + (uint64_t)a) % image[a];
        const double right = reference(p, image, in, at);
        const double e = fabs(right - (double)out[(at[2] * image[1] + at[1]) * image[0] + at[0]]);
        wrong = e <= wrong ? wrong : e; /* NaN counts */
        wrong = e == e ? wrong : INFINITY;
        most = fabs(right) > most ? fabs(right) : most;
    }
    return wrong / most;
}

static int ascending(const void *a, const void *b)
{
    const double p = *(const double *)a, q = *(const double *)b;
    return (p > q) - (p < q);
}

static void copy(const struct vp_backend *gpu, struct vp_queue *q, struct vp_event *e, void *to, const void *from,
                 int64_t bytes, enum vp_way way)
{
    struct vp_err err = VP_ERR_INIT;
    const struct vp_pitched t = {to, bytes, bytes}, f = {(void *)(uintptr_t)from, bytes, bytes};
    if (gpu->copy(q, &t, &f, (const int64_t[3]){bytes, 1, 1}, way, &err) || gpu->event_record(q, e, &err) || gpu->event_synchronize(e, &err))
        die(&err);
}

static void *take(const struct vp_backend *gpu, int device, uint64_t bytes)
{
    struct vp_err err = VP_ERR_INIT;
    void *p = NULL;
    if (bytes && gpu->alloc(device, bytes, &p, &err))
        die(&err);
    return p;
}

static void measure(const struct vp_backend *gpu, int device, const struct job *j, int repeats)
{
    struct vp_err err = VP_ERR_INIT;
    const struct vp_kernel *const kernel = gpu->kernel(j->iterations ? "deconvolve" : "convolve");
    const int64_t *const n = j->image, voxels = n[0] * n[1] * n[2];
    float *const in = get((size_t)voxels * sizeof *in), *const out = get((size_t)voxels * sizeof *out);
    float *const kernels = make_kernels(j);
    double *ms = get((size_t)repeats * sizeof *ms);
    char why[160], size[96];
    struct vp_queue *q;
    struct vp_event *from, *to, *quiet;

#pragma omp parallel for
    for (int64_t i = 0; i < voxels; i++)
        in[i] = random_of((uint64_t)i * 3);
    memset(out, 0xff, (size_t)voxels * sizeof *out);
    const struct vp_convolve_given given = {.n = {j->kernel[0], j->kernel[1], j->kernel[2]},
                                            .nodes = {j->nodes, j->nodes}, .kernels = kernels, .weights = j->weights,
                                            .edge = VP_EDGE_ZERO};
    const struct vp_deconvolve_given inverse = {.kernel = given, .iterations = j->iterations};
    struct vp_op op;
    if (j->iterations ? vp_deconvolve_local(&op, &inverse, n, VP_F32, VP_F32, &err)
                      : vp_convolve_local(&op, &given, n, VP_F32, VP_F32, &err))
        die(&err);
    snprintf(size, sizeof size, "%lldx%lldx%lld, %lldx%lld kernels of %lldx%lldx%lld", (long long)n[0], (long long)n[1],
             (long long)n[2], (long long)j->nodes, (long long)j->nodes, (long long)given.n[0], (long long)given.n[1],
             (long long)given.n[2]);
    printf("%-7s %-52s ", j->name, size);
    fflush(stdout);
    if (!kernel || !kernel->has(&op, why, sizeof why)) {
        printf("%s\n", kernel ? why : "no kernel");
        goto out;
    }
    if (gpu->queue_create(device, &q, &err) || gpu->event_create(device, false, &from, &err) || gpu->event_create(device, false, &to, &err)
        || gpu->event_create(device, true, &quiet, &err))
        die(&err);
    const uint64_t table = kernel->table(&op), room = kernel->scratch(&op, n, n), bytes = (uint64_t)voxels * sizeof *in;
    const uint64_t made = kernel->made ? kernel->made(&op) : 0;
    void *const filled = get(table), *const t = take(gpu, device, table + made),
                *const scratch = take(gpu, device, room);
    void *const a = take(gpu, device, bytes + VP_ALIGN), *const b = take(gpu, device, bytes + VP_ALIGN);
    const struct vp_box whole = {{0, 0, 0}, {n[0], n[1], n[2]}};
    const struct vp_area source = {whole, n[0], n[0] * n[1], a}, result = {whole, n[0], n[0] * n[1], b};
    const struct vp_work work = {.in = &source, .out = &result, .table = t, .scratch = scratch, .queue = q};
    kernel->fill(&op, filled);
    copy(gpu, q, quiet, t, filled, (int64_t)table, VP_UP);
    copy(gpu, q, quiet, a, in, (int64_t)bytes, VP_UP);
    copy(gpu, q, quiet, b, out, (int64_t)bytes, VP_UP);
    double once = INFINITY;
    for (int i = 0; i < 3 && kernel->make; i++) {
        if (gpu->event_record(q, from, &err) || kernel->make(&op, t, q, &err) || gpu->event_record(q, to, &err) || gpu->event_synchronize(to, &err))
            die(&err);
        once = fmin(once, 1e3 * gpu->event_elapsed(from, to));
    }
    for (int i = -3; i < repeats; i++) {
        if (gpu->event_record(q, from, &err) || kernel->launch(&op, &work, &err) || gpu->event_record(q, to, &err)
            || gpu->event_synchronize(to, &err))
            die(&err);
        if (i >= 0)
            ms[i] = 1e3 * gpu->event_elapsed(from, to);
    }
    copy(gpu, q, quiet, out, b, (int64_t)bytes, VP_DOWN);
    qsort(ms, (size_t)repeats, sizeof *ms, ascending);
    printf("%8.4f ms (median %.4f; spectra once %.4f), ", ms[0], ms[repeats / 2], once);
    if (j->iterations)
        printf("%d iterations, ", j->iterations);
    else
        printf("error %.2e, ", error_of(op.params, n, in, out));
    printf("table %.0f + %.0f, scratch %.0f MB\n", 1e-6 * (double)table, 1e-6 * (double)made, 1e-6 * (double)room);
    fflush(stdout);
    void *const all[] = {t, scratch, a, b};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i])
            gpu->release(device, all[i]);
    gpu->queue_destroy(q);
    gpu->event_destroy(from);
    gpu->event_destroy(to);
    gpu->event_destroy(quiet);
    free(filled);
out:
    free(in);
    free(out);
    free(kernels);
    op.free(op.params);
    free(ms);
}

int main(int argc, char **argv)
{
    const int repeats = argc > 1 ? atoi(argv[1]) : 15, from = argc > 2 ? atoi(argv[2]) : 0;
    const int last = argc > 3 ? atoi(argv[3]) : argc > 2 ? from : N_JOBS - 1;
    struct vp_err err = VP_ERR_INIT;
    const struct vp_backend *gpu;
    int *devices, n;

    if (repeats < 1 || from < 0) {
        fprintf(stderr, "usage: gpu_convolve_bench [REPEATS [FIRST [LAST]]]\n");
        return 2;
    }
    if (vp_devices_find(&gpu, &devices, &n, "cuda", &err)) {
        printf("skipped: %s\n", err.msg);
        return 0;
    }
    for (int i = from; i <= last && i < N_JOBS; i++)
        measure(gpu, devices[0], &JOBS[i], repeats);
    free(devices);
    return 0;
}
