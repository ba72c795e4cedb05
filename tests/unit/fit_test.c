/* SPDX-License-Identifier: BSD-3-Clause */
/* Least squares against sums in long double and Cramer's rule; the same bits for any number of threads. */
#include "test.h"

#include "base/err.h"
#include "pages/fit.h"

enum { NX = 31, NY = 17, PAGES = 5, N = NX * NY };

static uint32_t state = 1;
static double random01(void)
{
    state = state * 1664525u + 1013904223u;
    return (state >> 8) / 16777216.0;
}

static float target[PAGES][N], a[PAGES][N], b[PAGES][N], mask[PAGES][N];

static struct vp_fit_result run(bool with_mask, int threads)
{
    struct vp_fit f;
    struct vp_fit_result r;
    struct vp_err err = VP_ERR_INIT;

    vp_fit_open(&f, 2, false, threads);
    for (int p = 0; p < PAGES; p++)
        CHECK_INT(vp_fit_page(&f, target[p], (const float *const[]){a[p], b[p]}, with_mask ? mask[p] : NULL, NX, NY,
                              &err), 0);
    CHECK_INT(vp_fit_solve(&f, &r, &err), 0);
    vp_fit_close(&f);
    return r;
}

static void compare(bool with_mask)
{
    long double aa = 0, ab = 0, bb = 0, at = 0, bt = 0, rest = 0, n = 0;

    for (int p = 0; p < PAGES; p++)
        for (int i = 0; i < N; i++) {
            if (with_mask && mask[p][i] == 0)
                continue;
            const long double x = (long double)a[p][i], y = (long double)b[p][i], t = (long double)target[p][i];
            aa += x * x, ab += x * y, bb += y * y, at += x * t, bt += y * t, n++;
        }
    const long double det = aa * bb - ab * ab, ca = (at * bb - bt * ab) / det, cb = (aa * bt - ab * at) / det;
    for (int p = 0; p < PAGES; p++)
        for (int i = 0; i < N; i++)
            if (!with_mask || mask[p][i] != 0) {
                const long double d = (long double)target[p][i] - ca * (long double)a[p][i] - cb * (long double)b[p][i];
                rest += d * d;
            }
    const struct vp_fit_result r = run(with_mask, 1), again = run(with_mask, 3);
    CHECK_NEAR(r.factor[0], (double)ca, 1e-11);
    CHECK_NEAR(r.factor[1], (double)cb, 1e-11);
    CHECK_NEAR(r.rms, sqrt((double)(rest / n)), 1e-9);
    CHECK_NEAR(r.error[0], sqrt((double)(rest / (n - 2) * bb / det)), 1e-9);
    CHECK_NEAR(r.error[1], sqrt((double)(rest / (n - 2) * aa / det)), 1e-9);
    CHECK(!memcmp(&r, &again, sizeof r));
}

int main(void)
{
    for (int p = 0; p < PAGES; p++)
        for (int i = 0; i < N; i++) {
            a[p][i] = (float)random01();
            b[p][i] = (float)(a[p][i] * a[p][i]);
            target[p][i] = (float)(1.5 * (double)a[p][i] - 0.3 * (double)b[p][i] + 0.1 * random01());
            mask[p][i] = random01() < 0.3;
        }
    compare(false);
    compare(true);
    return test_done();
}
