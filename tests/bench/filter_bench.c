/* SPDX-License-Identifier: BSD-3-Clause */
/* Ramp filtering of square projections: rates with 1 and 2 threads, beside FFTW (r2c and back, row by row,
 * measured plans, one thread) and a plain copy of the same bytes, all in this one run. Medians of several
 * rounds that take the contenders in turn. */
#include "base/err.h"
#include "base/size.h"
#include "ct/filter.h"

#include <fftw3.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 7 };

struct fftw { fftwf_plan there, back; float *row, *kernel; int64_t length; };

static void fftw_open(struct fftw *w, int64_t nu)
{
    for (w->length = 2; w->length < 2 * nu - 1; w->length *= 2)
        ;
    w->row = fftwf_malloc((size_t)(w->length + 2) * sizeof *w->row);
    w->kernel = malloc((size_t)(w->length / 2 + 1) * sizeof *w->kernel);
    w->there = fftwf_plan_dft_r2c_1d((int)w->length, w->row, (fftwf_complex *)w->row, FFTW_MEASURE);
    w->back = fftwf_plan_dft_c2r_1d((int)w->length, (fftwf_complex *)w->row, w->row, FFTW_MEASURE);
    for (int64_t k = 0; k <= w->length / 2; k++)
        w->kernel[k] = (float)k / (float)w->length / (float)w->length;
}

static void fftw_rows(const struct fftw *w, int64_t nu, int64_t rows, int64_t nv, const float *gain,
                      const float *in, float *out)
{
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t u = 0; u < nu; u++)
            w->row[u] = in[r * nu + u] * gain[r % nv * nu + u];
        memset(w->row + nu, 0, (size_t)(w->length + 2 - nu) * sizeof *w->row);
        fftwf_execute(w->there);
        for (int64_t k = 0; k <= w->length / 2; k++) {
            w->row[2 * k] *= w->kernel[k];
            w->row[2 * k + 1] *= w->kernel[k];
        }
        fftwf_execute(w->back);
        memcpy(out + r * nu, w->row, (size_t)nu * sizeof *out);
    }
}

static void fftw_close(struct fftw *w)
{
    fftwf_destroy_plan(w->there);
    fftwf_destroy_plan(w->back);
    fftwf_free(w->row);
    free(w->kernel);
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static int bench(int64_t nu, int64_t nv, int64_t views)
{
    struct vp_err err = VP_ERR_INIT;
    struct vp_geom g = {.beam = VP_CONE, .sod = 500, .sdd = 1000, .nu = nu, .nv = nv, .du = 0.1, .dv = 0.1,
                        .views = views};
    struct vp_view *seen = NULL;
    struct vp_scan scan;
    const struct vp_filter_params p = {.cutoff = 1};
    const struct { const char *name, *isa; int threads; } ours[] = {
        {"voxpipe, 1 thread", NULL, 1},
        {"voxpipe, 2 threads", NULL, 2},
        {"voxpipe avx2, 1 thread", "avx2", 1},
        {"voxpipe generic, 1 thread", "generic", 1},
    };
    enum { OURS = sizeof ours / sizeof *ours, FFTW = OURS, COPY, ALL };
    struct vp_filter *f[OURS] = {0};
    struct fftw w = {0};
    double seconds[ALL][ROUNDS];
    const size_t samples = (size_t)(nu * nv * views);
    float *in = vp_alloc_raw(samples, sizeof *in, "input", &err),
          *out = vp_alloc(samples, sizeof *out, "output", &err);
    float *gain = vp_alloc_raw((size_t)(nu * nv), sizeof *gain, "weights", &err);
    int rc = -1;

    g.angle = malloc((size_t)views * sizeof *g.angle);
    if (!in || !out || !gain || !g.angle)
        goto out;
    for (int64_t k = 0; k < views; k++)
        g.angle[k] = 360.0 * (double)k / (double)views;
    for (size_t i = 0; i < samples; i++)
        in[i] = (float)(i * 2654435761u % 1048576) / 1048576;
    for (int64_t i = 0; i < nu * nv; i++)
        gain[i] = 0.9f;
    if (vp_geom_views(&g, &seen, &scan, &err))
        goto out;
    for (int i = 0; i < OURS; i++) {
        if (vp_filter_open(&f[i], &p, &g, seen, &scan, ours[i].threads, &err))
            goto out;
        if (ours[i].isa && !vp_filter_use(f[i], ours[i].isa)) {
            vp_filter_close(f[i]);
            f[i] = NULL;
        }
    }
    fftw_open(&w, nu);
    for (int r = -1; r < ROUNDS; r++)
        for (int c = 0; c < ALL; c++) {
            const double t = vp_now();
            if (c == FFTW)
                fftw_rows(&w, nu, nv * views, nv, gain, in, out);
            else if (c == COPY)
                memcpy(out, in, samples * sizeof *out);
            else if (f[c])
                vp_filter_views(f[c], 0, views, in, out);
            if (r >= 0)
                seconds[c][r] = vp_now() - t;
        }
    double median[ALL];
    for (int c = 0; c < ALL; c++) {
        qsort(seconds[c], ROUNDS, sizeof **seconds, by_value);
        median[c] = seconds[c][ROUNDS / 2];
    }
    const double bytes = 2.0 * (double)samples * sizeof *in;
    printf("%lld x %lld, %s\n", (long long)nu, (long long)nv, vp_filter_tables(f[0])->describe);
    for (int c = 0; c < ALL; c++)
        if (c >= OURS || f[c])
            printf("  %-26s %8.1f projections/s %7.2f GB/s  %5.2f x fftw\n",
                   c == FFTW ? "fftw r2c a row, 1 thread" : c == COPY ? "copy, 1 thread" : ours[c].name,
                   (double)views / median[c], bytes / median[c] * 1e-9, median[FFTW] / median[c]);
    fftw_close(&w);
    rc = 0;
out:
    if (rc)
        fprintf(stderr, "filter_bench: %s\n", err.msg);
    for (int i = 0; i < OURS; i++)
        vp_filter_close(f[i]);
    free(seen);
    vp_geom_free(&g);
    free(in);
    free(out);
    free(gain);
    return rc;
}

int main(void)
{
    return bench(512, 512, 64) || bench(1024, 1024, 16) || bench(2048, 2048, 8) || bench(560, 560, 64);
}
