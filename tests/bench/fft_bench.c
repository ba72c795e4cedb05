/* SPDX-License-Identifier: BSD-3-Clause */
/* Times of the transforms of base/fft: fft_bench [FROM TO] prints of every length the quickest stages, as they are in
 * base/fft_table.h (16 to 1200: minutes). */
#include "base/err.h"
#include "base/fft.h"
#include "base/size.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const int RADICES[] = {2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 15, 16};

static double time_of(const struct vp_line_isa *isa, const struct vp_line *l, float *x, double least)
{
    double best = 1e9;

    for (int trial = 0; trial < 12; trial++) {
        const int times = (int)(400000 / l->n / 16 / 2) + 1;
        const double t = vp_now();
        for (int i = 0; i < times; i++) {
            isa->forward(l, x, 1);
            isa->back(l, x, 1);
            for (int64_t j = 0; i % 4 == 3 && j < l->n * 2 * isa->lanes; j++)
                x[j] *= 1e-12f;
        }
        const double one = (vp_now() - t) / times / (double)l->n * 1e9;
        best = one < best ? one : best;
        if (trial == 1 && best > 1.3 * least)
            break;
    }
    return best;
}

static void each(const struct vp_line_isa *isa, int64_t n, int64_t rest, int depth, int *radix, float *x, double *best,
                 int *kept)
{
    struct vp_err err = VP_ERR_INIT;
    struct vp_line l;

    if (rest == 1) {
        if (vp_line_make(&l, n, false, radix, &err))
            return;
        const double t = time_of(isa, &l, x, *best);
        if (t < *best) {
            *best = t;
            memcpy(kept, radix, (VP_LINE_STAGES) * sizeof *kept);
        }
        vp_line_free(&l);
        return;
    }
    const int most = n <= 16 ? 1 : n <= 256 ? 2 : n <= 1024 ? 3 : 4;
    if (depth >= most)
        return;
    for (size_t i = 0; i < sizeof RADICES / sizeof *RADICES; i++)
        if (rest % RADICES[i] == 0) {
            radix[depth] = RADICES[i];
            each(isa, n, rest / RADICES[i], depth + 1, radix, x, best, kept);
            radix[depth] = 0;
        }
}

int main(int argc, char **argv)
{
    const struct vp_line_isa *isa = vp_line_isa(NULL);
    struct vp_err err = VP_ERR_INIT;
    const int64_t from = argc > 1 ? atoi(argv[1]) : 16, to = argc > 2 ? atoi(argv[2]) : 64;
    float *x = vp_alloc(VP_LINE_MAX * 2 * 16, sizeof *x, "lines", &err);

    for (int64_t n = from; n <= to && x; n++) {
        int64_t rest = n;
        for (int p = 2; p <= 7; p++)
            while (rest % p == 0)
                rest /= p;
        if (rest > 1 || n % (n < 64 ? 2 : n < 640 ? 8 : 16))
            continue;
        double best = 1e9;
        int radix[VP_LINE_STAGES] = {0}, kept[VP_LINE_STAGES] = {0};
        for (int64_t i = 0; i < n * 2 * isa->lanes; i++)
            x[i] = (float)(i % 7);
        each(isa, n, n, 0, radix, x, &best, kept);
        if (best > 1e8)
            continue;
        printf("{%lld, %.2f, {%d", (long long)n, best, kept[0]);
        for (int s = 1; s < VP_LINE_STAGES && kept[s]; s++)
            printf(", %d", kept[s]);
        printf("}},\n");
        fflush(stdout);
    }
    free(x);
    return 0;
}
