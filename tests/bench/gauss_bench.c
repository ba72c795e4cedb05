/* SPDX-License-Identifier: BSD-3-Clause */
/* Gaussian and Laplacian of Gaussian of f32 images in memory: seconds and rates with 1 and 2 threads and for each
 * instruction set, beside a plain copy of the same bytes. Medians of several rounds that take the contenders in turn.
 * tests/bench/peers.py has the same images for SciPy and OpenCV. */
#include "base/err.h"
#include "base/isa.h"
#include "base/size.h"
#include "local/gauss.h"
#include "local/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 7 };

static const struct { const char *name, *isa; int threads; } contenders[] = {
    {"2 threads", NULL, 2},
    {"1 thread", NULL, 1},
    {"avx2, 2 threads", "avx2", 2},
    {"generic, 2 threads", "generic", 2},
    {"copy, 1 thread", NULL, 0},
};
enum { ALL = sizeof contenders / sizeof *contenders };

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static int bench(int64_t nx, int64_t ny, int64_t nz, double sigma, bool laplace)
{
    const int64_t size[3] = {nx, ny, nz};
    const double along_z = nz > 1 ? sigma : 0;
    const struct vp_gauss_params g = {.sigma = {sigma, sigma, along_z}, .truncate = 4, .spacing = {1, 1, 1},
                                      .iterations = 1};
    const struct vp_log_params l = {.sigma = {sigma, sigma, along_z}, .truncate = 4, .spacing = {1, 1, 1}};
    const struct vp_box whole = {{0}, {nx, ny, nz}};
    const size_t samples = (size_t)(nx * ny * nz);
    struct vp_err err = VP_ERR_INIT;
    struct vp_chain chain = {0};
    double seconds[ALL][ROUNDS];
    float *const in = vp_alloc_raw(samples, sizeof *in, "input", &err),
          *const out = vp_alloc(samples, sizeof *out, "output", &err);
    void **const planes = malloc(2 * (size_t)nz * sizeof *planes), *scratch = NULL;
    int rc = -1;

    if (!in || !out || !planes)
        goto out;
    for (size_t i = 0; i < samples; i++)
        in[i] = (float)(i * 2654435761u % 1048576) / 1048576;
    for (int64_t z = 0; z < nz; z++) {
        planes[z] = in + z * nx * ny;
        planes[nz + z] = out + z * nx * ny;
    }
    const struct vp_part from = {whole, nx, planes}, to = {whole, nx, planes + nz};
    if (laplace ? vp_log_chain(&chain, &l, size, VP_F32, &err) : vp_gauss_chain(&chain, &g, size, VP_F32, VP_F32, &err))
        goto out;
    scratch = vp_alloc(vp_chain_bytes(&chain, &whole, 2), 1, "scratch", &err);
    if (!scratch)
        goto out;
    for (int r = -1; r < ROUNDS; r++)
        for (int c = 0; c < ALL; c++) {
            const char *const isa = contenders[c].isa;
            vp_isa_limit(isa ? isa : "avx512");
            const bool here = !isa || !strcmp(vp_isa_name(), isa);
            const double t = vp_now();
            if (!contenders[c].threads)
                memcpy(out, in, samples * sizeof *out);
            else if (here && vp_chain_run(&chain, &from, &to, scratch, contenders[c].threads, &err))
                goto out;
            if (r >= 0)
                seconds[c][r] = here ? vp_now() - t : 0;
        }
    printf("%lld x %lld x %lld, %s\n", (long long)nx, (long long)ny, (long long)nz, chain.stage[0].text);
    for (int c = 0; c < ALL; c++) {
        qsort(seconds[c], ROUNDS, sizeof **seconds, by_value);
        const double median = seconds[c][ROUNDS / 2];
        if (median > 0)
            printf("  %-20s %8.4f s %8.0f Mvoxel/s\n", contenders[c].name, median, (double)samples / median * 1e-6);
    }
    rc = 0;
out:
    if (rc)
        fprintf(stderr, "gauss_bench: %s\n", err.msg);
    vp_chain_free(&chain);
    free(scratch);
    free(planes);
    free(in);
    free(out);
    return rc;
}

int main(void)
{
    return bench(256, 256, 256, 1, false) || bench(256, 256, 256, 3, false) || bench(256, 256, 256, 10, false)
           || bench(1024, 1024, 64, 3, false) || bench(4096, 4096, 1, 3, false) || bench(256, 256, 256, 3, true);
}
