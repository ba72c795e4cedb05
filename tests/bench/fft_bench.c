/* SPDX-License-Identifier: BSD-3-Clause */
/* Times of the transforms of base/fft, of every length the quickest stages, as they are in tables:
 *     fft_bench [FROM TO]          forward and back, for base/fft_table.inc (16 to 4096: minutes)
 *     fft_bench weigh [FROM TO]    weighed rows, for base/fft_rows_table.inc (16 to 4096: minutes)
 * What weighs rows is the filter of every scan, so its stages are to be quick with all instruction sets: nanoseconds
 * are those of AVX-512, and those of the others over what they usually take more, in the mean. */
#include "base/err.h"
#include "base/fft.h"
#include "base/size.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const int RADICES[] = {2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 15, 16};

static const struct { const char *isa; double slower; } SETS[] = {{"avx512", 1}, {"avx2", 1.7}, {"generic", 3.2}};
static bool weigh;
static float *x, *k;

static double time_of(const struct vp_line_isa *isa, const struct vp_line *l, double least)
{
    double best = 1e9;

    for (int trial = 0; trial < 12; trial++) {
        const int times = (int)((weigh ? 200000 : 400000) / l->n / 16 / 2) + 1;
        const double t = vp_now();
        for (int i = 0; i < times; i++) {
            if (weigh) {
                isa->weigh(l, x, k);
                continue;
            }
            isa->forward(l, x, 1);
            isa->back(l, x, 1);
            for (int64_t j = 0; i % 4 == 3 && j < l->n * 2 * isa->lanes; j++)
                x[j] *= 1e-12f;
        }
        const double one = (vp_now() - t) / times / (double)l->n * 1e9;
        best = one < best ? one : best;
        for (int64_t j = 0; weigh && j < l->n * 2 * isa->lanes; j++)
            x[j] = 1;
        if (trial == 1 && best > 1.3 * least)
            break;
    }
    return best;
}

/* Of a forward transform and one back, or the mean of all sets. */
static double cost_of(const struct vp_line *l, double least)
{
    double sum = 0;
    int n = 0;

    if (!weigh)
        return time_of(vp_line_isa(NULL), l, least);
    for (size_t i = 0; i < sizeof SETS / sizeof *SETS; i++) {
        const struct vp_line_isa *isa = vp_line_isa(SETS[i].isa);
        if (!isa)
            continue;
        const double one = time_of(isa, l, 1.1 * least * SETS[i].slower * isa->lanes / 16) / SETS[i].slower * 16 / isa->lanes;
        if (one > 1.4 * least)
            return one;
        sum += one;
        n++;
    }
    return sum / n;
}

static void each(int64_t n, int64_t rest, int depth, int *radix, double *best, int *kept)
{
    struct vp_err err = VP_ERR_INIT;
    struct vp_line l;

    if (rest == 1) {
        if (vp_line_make(&l, n, false, radix, &err))
            return;
        const double t = cost_of(&l, *best);
        if (t < *best) {
            *best = t;
            memcpy(kept, radix, (VP_LINE_STAGES) * sizeof *kept);
        }
        vp_line_free(&l);
        return;
    }
    const int most = (n <= 16 ? 1 : n <= 256 ? 2 : n <= 1024 ? 3 : 4) + (weigh && n > 144 && n <= 256);
    if (depth >= most)
        return;
    for (size_t i = 0; i < sizeof RADICES / sizeof *RADICES; i++)
        if (rest % RADICES[i] == 0) {
            radix[depth] = RADICES[i];
            each(n, rest / RADICES[i], depth + 1, radix, best, kept);
            radix[depth] = 0;
        }
}

int main(int argc, char **argv)
{
    struct vp_err err = VP_ERR_INIT;

    weigh = argc > 1 && !strcmp(argv[1], "weigh");
    argc -= weigh, argv += weigh;
    const int64_t from = argc > 1 ? atoi(argv[1]) : 16, to = argc > 2 ? atoi(argv[2]) : 64;
    x = vp_alloc((size_t)to * 2 * 16, sizeof *x, "lines", &err);
    k = vp_alloc((size_t)to, sizeof *k, "factors", &err);
    for (int64_t n = from; n <= to && x && k; n++) {
        int64_t rest = n;
        for (int p = 2; p <= (weigh ? 5 : 7); p++)
            while (rest % p == 0)
                rest /= p;
        if (rest > 1 || n % (n < 64 ? 2 : n < 640 ? 8 : 16))
            continue;
        double best = 1e9;
        int radix[VP_LINE_STAGES] = {0}, kept[VP_LINE_STAGES] = {0};
        for (int64_t i = 0; i < n * 2 * 16; i++)
            x[i] = (float)(i % 7);
        for (int64_t i = 0; i < n; i++)
            k[i] = 1 / (float)n;
        each(n, n, 0, radix, &best, kept);
        if (best > 1e8)
            continue;
        printf("{%lld, %.2f, {%d", (long long)n, best, kept[0]);
        for (int s = 1; s < VP_LINE_STAGES && kept[s]; s++)
            printf(", %d", kept[s]);
        printf("}},\n");
        fflush(stdout);
    }
    free(x);
    free(k);
    return 0;
}
