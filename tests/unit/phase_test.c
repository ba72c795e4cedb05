/* SPDX-License-Identifier: BSD-3-Clause */
/* Paganin's kernel against its marginal, an exponential, and against its transform in float64; lengths of parallel and cone
 * beams; what is refused. */
#include "test.h"

#include "base/err.h"
#include "ct/phase.h"

#include <stdlib.h>

static const double PI = 3.14159265358979323846;

static void test_kernel(double lx, double ly)
{
    struct vp_phase f = {.length = {lx, ly}};
    struct vp_err err = VP_ERR_INIT;
    double sum = 0;

    CHECK_INT(vp_phase_kernel(&f, &err), 0);
    const int64_t nx = f.n[0], ny = f.n[1], cx = nx / 2, cy = ny / 2;
    CHECK(nx % 2 == 1 && ny % 2 == 1 && nx >= 2 * (int64_t)(14 * lx) + 1 && ny >= 2 * (int64_t)(14 * ly) + 1);
    for (int64_t i = 0; i < nx * ny; i++)
        sum += (double)f.kernel[i];
    CHECK_NEAR(sum, 1, 1e-6);
    /* the sum over rows is exp(-|x| / l) / (2 l), but for the band limit, which is near 0 */
    for (int64_t u = 0; u < nx && lx > 4; u++) {
        double column = 0;
        for (int64_t v = 0; v < ny; v++)
            column += (double)f.kernel[v * nx + u];
        const double x = fabs((double)(u - cx));
        CHECK_NEAR(column, exp(-x / lx) / (2 * lx), x < 4 ? 2e-2 / lx : 2e-4 / lx);
    }
    /* its transform is the filter */
    for (int i = 0; i < 6; i++) {
        const double kx = 2 * PI * 0.07 * i, ky = 2 * PI * 0.05 * (i % 3);
        double value = 0;
        for (int64_t v = 0; v < ny; v++)
            for (int64_t u = 0; u < nx; u++)
                value += (double)f.kernel[v * nx + u] * cos(kx * (double)(u - cx)) * cos(ky * (double)(v - cy));
        CHECK_NEAR(value, 1 / (1 + lx * lx * kx * kx + ly * ly * ky * ky), lx < 2 ? 1e-5 : 5e-6);
    }
    for (int64_t v = 0; v < ny; v++)
        for (int64_t u = 0; u < nx; u++)
            CHECK(f.kernel[v * nx + u] == f.kernel[(ny - 1 - v) * nx + nx - 1 - u]);
    free(f.kernel);
}

static void refused(struct vp_phase_params p, const struct vp_geom *g, const char *why)
{
    struct vp_phase f;
    struct vp_err err = VP_ERR_INIT;

    CHECK_INT(vp_phase_lengths(&f, &p, g, &err), -1);
    CHECK_INT(err.code, VP_EUSAGE);
    CHECK(strstr(err.msg, why) != NULL);
    if (!strstr(err.msg, why))
        printf("expected \"%s\", got \"%s\"\n", why, err.msg);
}

static void test_lengths(void)
{
    const struct vp_geom parallel = {.beam = VP_PARALLEL, .du = 0.001, .dv = -0.002};
    const struct vp_geom cone = {.beam = VP_CONE, .sod = 20, .sdd = 100, .du = 0.005, .dv = 0.005};
    struct vp_phase_params p = {.distance = 50, .energy = 20, .delta = 5e-7, .beta = 1e-9};
    struct vp_phase f;
    struct vp_err err = VP_ERR_INIT;
    /* 20 keV are 0.61992 A; mu = 4 pi beta / wavelength */
    const double wavelength = 0.61992099e-7, mu = 4 * PI * 1e-9 / wavelength, length = sqrt(50 * 5e-7 / mu);

    CHECK_INT(vp_phase_lengths(&f, &p, &parallel, &err), 0);
    CHECK_NEAR(f.length[0], length / 0.001, 1e-4);
    CHECK_NEAR(f.length[1], length / 0.002, 1e-4);
    CHECK_NEAR(f.mu, mu, 1e-7);
    CHECK_NEAR(f.fresnel, 1e-6 / (50 * wavelength), 1e-6);
    p.delta = p.beta = 0;
    p.delta_beta = 500;
    CHECK_INT(vp_phase_lengths(&f, &p, &parallel, &err), 0);
    CHECK_NEAR(f.length[0], length / 0.001, 1e-4);
    CHECK(f.mu == 0);
    /* magnification 5: pixels of 0.001 mm, distance 80 / 5 */
    p.distance = 0;
    CHECK_INT(vp_phase_lengths(&f, &p, &cone, &err), 0);
    CHECK_NEAR(f.length[0], length * sqrt(16.0 / 50) / 0.001, 1e-4);

    refused((struct vp_phase_params){.distance = 50, .energy = 20000, .delta_beta = 5}, &parallel, "is it in eV?");
    refused((struct vp_phase_params){.distance = 50, .delta_beta = 5}, &parallel, "expected --energy KEV");
    refused((struct vp_phase_params){.energy = 20, .delta_beta = 5}, &parallel, "expected --distance MM");
    refused((struct vp_phase_params){.energy = 20, .distance = 50}, &parallel, "expected --delta-beta R");
    refused((struct vp_phase_params){.energy = 20, .distance = 50, .delta = 1e-6}, &parallel, "--delta needs --beta");
    refused((struct vp_phase_params){.energy = 20, .distance = 50, .delta_beta = 5, .beta = 1}, &parallel, "cannot be "
                                                                                                           "combined");
    refused((struct vp_phase_params){.length = 3, .energy = 20}, NULL, "--length and --energy cannot be combined");
    refused((struct vp_phase_params){.length = 3, .thickness = true}, NULL, "--thickness needs --delta and --beta");
    refused((struct vp_phase_params){.length = 500}, NULL, "the filter's length is 500 pixels");
    refused((struct vp_phase_params){.energy = 20, .distance = 50, .delta_beta = 5}, NULL, "no scan geometry");
}

int main(void)
{
    test_kernel(1.5, 1.5);
    test_kernel(6, 6);
    test_kernel(11.2, 5.6);
    test_lengths();
    return test_done();
}
