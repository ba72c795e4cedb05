/* SPDX-License-Identifier: BSD-3-Clause */
/* Kernels by formula: their sums, centres, second moments, widths at half maximum, dark rings and lengths, as the
 * formulas say; and a kernel that is found again in stars, between the pixels, in noise and among wrong ones. */
#include "base/err.h"
#include "boxes.h"
#include "local/psf.h"

#include <math.h>
#include <unistd.h>

struct moments { double sum, mean[3], square[3], xy; };

static float *make(struct vp_psf *p, bool own_size, struct moments *m)
{
    if (!own_size)
        vp_psf_size(p);
    const int64_t *n = p->size, count = n[0] * n[1] * n[2];
    float *k = malloc((size_t)count * sizeof *k);
    struct vp_err err = VP_ERR_INIT;

    CHECK_INT(vp_psf_make(p, k, &err), 0);
    *m = (struct moments){0};
    for (int64_t i = 0; i < count; i++) {
        const double d[3] = {(double)(i % n[0] - n[0] / 2), (double)(i / n[0] % n[1] - n[1] / 2),
                             (double)(i / n[0] / n[1] - n[2] / 2)}, v = (double)k[i];
        CHECK(v >= 0);
        m->sum += v;
        for (int a = 0; a < 3; a++) {
            m->mean[a] += v * d[a];
            m->square[a] += v * d[a] * d[a];
        }
        m->xy += v * d[0] * d[1];
    }
    CHECK(n[0] % 2 && n[1] % 2 && n[2] % 2);
    CHECK_NEAR(m->sum, 1, 1e-6);
    return k;
}

static void gaussians(void)
{
    struct moments m;
    struct vp_psf p = {.shape = VP_PSF_GAUSSIAN, .width = {2, 2, 0}, .samples = 1};

    float *k = make(&p, false, &m);
    CHECK(p.size[0] == 17 && p.size[1] == 17 && p.size[2] == 1);
    CHECK_NEAR(m.mean[0], 0, 1e-7);
    CHECK_NEAR(m.square[0], 4, 1e-2); /* cut at four sigma */
    CHECK_NEAR(k[8 * 17 + 10] / k[8 * 17 + 8], exp(-.5), 1e-6);
    free(k);
    /* turned, shifted, wide: covariances of the turned ellipse, sampled means of pixels add 1/12 */
    p = (struct vp_psf){.shape = VP_PSF_GAUSSIAN, .width = {3, 1.5, 0}, .angle = 30, .shift = {.3, -.4, 0},
                        .samples = 9, .size = {61, 61, 1}};
    k = make(&p, true, &m);
    const double c = cos(M_PI / 6), s = sin(M_PI / 6);
    CHECK_NEAR(m.mean[0], .3, 1e-6);
    CHECK_NEAR(m.mean[1], -.4, 1e-6);
    CHECK_NEAR(m.square[0] - .09, 9 * c * c + 2.25 * s * s + (1 - 1. / 81) / 12, 1e-4);
    CHECK_NEAR(m.square[1] - .16, 9 * s * s + 2.25 * c * c + (1 - 1. / 81) / 12, 1e-4);
    CHECK_NEAR(m.xy + .12, (9 - 2.25) * s * c, 1e-4);
    free(k);
    /* of volumes; a width of 0 is a point */
    p = (struct vp_psf){.shape = VP_PSF_GAUSSIAN, .width = {1, 0, 2.5}, .samples = 1};
    k = make(&p, false, &m);
    CHECK(p.size[0] == 9 && p.size[1] == 1 && p.size[2] == 21);
    CHECK_NEAR(m.square[2], 6.25, 2e-2);
    free(k);
    p = (struct vp_psf){.shape = VP_PSF_GAUSSIAN, .samples = 1};
    k = make(&p, false, &m);
    CHECK(p.size[0] == 1 && k[0] == 1);
    free(k);
}

static void rings(void)
{
    struct moments m;
    struct vp_psf p = {.shape = VP_PSF_MOFFAT, .width = {8, 12, 0}, .beta = 3, .samples = 1};
    float *k = make(&p, false, &m);
    const int64_t w = p.size[0], mid = p.size[1] / 2 * w + w / 2;

    CHECK_NEAR(k[mid + 4] / k[mid], .5, 1e-6);     /* half as high at half the width */
    CHECK_NEAR(k[mid - 6 * w] / k[mid], .5, 1e-6);
    const double out = (double)k[mid + 30] / (double)k[mid], a = 4 / sqrt(exp2(1. / 3) - 1);
    CHECK_NEAR(out, pow(1 + 900 / a / a, -3), 1e-7);
    free(k);
    p = (struct vp_psf){.shape = VP_PSF_AIRY, .width = {5, 5, 0}, .samples = 1};
    k = make(&p, false, &m);
    const int64_t n = p.size[0], c = n * n / 2;
    CHECK_NEAR(k[c + 5] / k[c], 0, 1e-12);         /* the first dark ring */
    CHECK_NEAR(k[c + 3 * n + 4], k[c + 5 * n], 1e-9);
    CHECK_NEAR(k[c + 7] / k[c], pow(2 * j1(7 / 5. * 3.8317059702) / (7 / 5. * 3.8317059702), 2), 1e-7);
    free(k);
    /* an obstruction moves the ring inwards, and light into the rings */
    p.obstruction = .5;
    k = make(&p, true, &m);
    CHECK(k[c + 5] / k[c] > 1e-3 && k[c + 4] / k[c] < 1e-2);
    free(k);
}

static void motions(void)
{
    struct moments m;
    struct vp_psf p = {.shape = VP_PSF_MOTION, .width = {4, 0, 0}, .samples = 1};
    float *k = make(&p, false, &m);

    CHECK(p.size[0] == 5 && p.size[1] == 1);
    CHECK_NEAR(k[0], .125, 1e-7);
    CHECK_NEAR(k[1], .25, 1e-7);
    CHECK_NEAR(k[4], .125, 1e-7);
    free(k);
    p = (struct vp_psf){.shape = VP_PSF_MOTION, .width = {5, 0, 0}, .angle = 90, .samples = 1};
    k = make(&p, false, &m);
    CHECK(p.size[0] == 1 && p.size[1] == 5);
    CHECK_NEAR(k[0], .2, 1e-7);
    free(k);
    p = (struct vp_psf){.shape = VP_PSF_MOTION, .width = {10 * M_SQRT2, 0, 0}, .angle = 45, .samples = 1};
    k = make(&p, false, &m);
    for (int i = 0; i < 11; i++) /* the diagonal alone: nine whole pixels and two halves */
        CHECK_NEAR(k[i * 11 + i], i == 0 || i == 10 ? .05 : .1, 1e-6);
    free(k);
    p = (struct vp_psf){.shape = VP_PSF_MOTION, .width = {31, 0, 0}, .angle = 17, .shift = {.25, .5, 0}, .samples = 1};
    k = make(&p, false, &m);
    CHECK_NEAR(m.mean[0], .25, .05);
    CHECK_NEAR(m.mean[1], .5, .05);
    CHECK_NEAR(m.square[0] + m.square[1], 31 * 31 / 12. + .25 * .25 + .25, .5);
    free(k);
    p = (struct vp_psf){.shape = VP_PSF_MOTION, .samples = 1};
    k = make(&p, false, &m);
    CHECK(p.size[0] == 1 && p.size[1] == 1 && k[0] == 1);
    free(k);
}

/* ---- stars ---- */

static double noise(void)
{
    double sum = 0;
    for (int i = 0; i < 12; i++)
        sum += (double)random_bits() * 0x1p-53;
    return sum - 6;
}

/* Of a turned Gaussian, (longer along z) in a volume. */
static double spot(double x, double y, double z)
{
    const double u = .8 * x + .6 * y, v = .8 * y - .6 * x;
    return exp(-(u * u / 5.3 + v * v / 3.1 + z * z / 8) / 2);
}

static void stars(bool deep, double sigma, bool wrong)
{
    enum { NX = 240, NY = 200, DEEP = 60, STARS = 20 };
    const int64_t nz = deep ? DEEP : 1, size[3] = {19, 17, deep ? 21 : 1}, image[3] = {NX, NY, nz};
    float *volume = malloc((size_t)(NX * NY * nz) * sizeof *volume);
    float *kernel = malloc((size_t)(size[0] * size[1] * size[2]) * sizeof *kernel);
    struct vp_stars s = {.n = STARS, .star = calloc(STARS, sizeof *s.star)};
    struct vp_err err = VP_ERR_INIT;
    double true_at[STARS][3], sum = 0, most = 0, far = 0;

    for (int64_t i = 0; i < NX * NY * nz; i++)
        volume[i] = (float)(100 + sigma * noise());
    for (int i = 0; i < STARS; i++) {
        double *at = true_at[i];
        const double high = 200 + 40 * (i % 7);
        at[0] = 30 + 45 * (i % 5) + (double)random_in(-50, 50) / 100;
        at[1] = 30 + 45 * (i / 5) + (double)random_in(-50, 50) / 100;
        at[2] = deep ? DEEP / 2 + (double)random_in(-300, 300) / 100 : 0;
        for (int64_t z = 0; z < nz; z++)
            for (int y = (int)at[1] - 20; y < (int)at[1] + 21; y++)
                for (int x = (int)at[0] - 20; x < (int)at[0] + 21; x++)
                    volume[(z * NY + y) * NX + x] += (float)(high * spot(x - at[0], y - at[1], (double)z - at[2]));
        if (wrong && i % 6 == 5) /* a neighbour in the wings */
            for (int y = -2; y < 3; y++)
                for (int x = -2; x < 3; x++)
                    volume[((nz / 2) * NY + (int)at[1] + 6 + y) * NX + (int)at[0] - 6 + x] += 60;
        for (int a = 0; a < 3; a++) /* known to about a voxel */
            s.star[i].at[a] = at[a] + (a < 2 || deep ? (double)random_in(-80, 80) / 100 : 0);
    }
    if (wrong) { /* one at the edge, one that is not there */
        s.star[3].at[0] = 3;
        s.star[4].at[1] = 8;
        volume[(int)true_at[7][1] * NX + (int)true_at[7][0] + nz / 2 * NX * NY] = NAN;
    }
    CHECK_INT(vp_stars_open(&s, size, image, 1 << 30, &err), 0);
    for (int64_t z = 0; z < nz; z++)
        vp_stars_page(&s, volume + z * NX * NY, NX, z);
    CHECK_INT(vp_stars_average(&s, false, sigma > 0, kernel, &err), 0);
    CHECK_INT(s.used, wrong ? STARS - 3 : STARS);
    for (int i = 0; i < STARS; i++)
        for (int a = 0; a < 3 && !s.star[i].out && !wrong; a++)
            far = fmax(far, fabs(s.star[i].at[a] - true_at[i][a]));
    CHECK(far < (sigma > 0 ? .1 : .01));
    for (int pass = 0; pass < 2; pass++) {
        double all = 0;
        for (int64_t i = 0; i < size[0] * size[1] * size[2]; i++) {
            const double v = spot((double)(i % size[0] - size[0] / 2), (double)(i / size[0] % size[1] - size[1] / 2),
                                  (double)(i / size[0] / size[1] - size[2] / 2));
            if (pass)
                most = fmax(most, fabs((double)kernel[i] * sum - v));
            else
                sum += v;
            all += (double)kernel[i];
        }
        CHECK_NEAR(all, 1, 1e-6);
    }
    if (!(most < (sigma > 0 ? .03 : wrong ? .02 : .01)))
        printf("%s, noise %g%s: %g of the peak\n", deep ? "beads" : "stars", sigma, wrong ? ", wrong ones" : "", most);
    CHECK(most < (sigma > 0 ? .03 : wrong ? .02 : .01));
    vp_stars_free(&s);
    free(kernel);
    free(volume);
}

static void given(void)
{
    const int64_t size[3] = {5, 5, 1}, image[3] = {30, 30, 1};
    struct vp_stars s = {.n = 1, .star = calloc(1, sizeof *s.star)};
    struct vp_err err = VP_ERR_INIT;
    float page[900] = {0}, kernel[25];

    page[15 * 30 + 14] = 3;
    page[15 * 30 + 15] = 1;
    page[16 * 30 + 16] = -1;
    s.star[0] = (struct vp_star){.at = {14, 15, 0}};
    CHECK_INT(vp_stars_open(&s, size, image, 1 << 20, &err), 0);
    vp_stars_page(&s, page, 30, 0);
    CHECK_INT(vp_stars_average(&s, true, true, kernel, &err), 0);
    CHECK_NEAR(kernel[12], 1, 1e-6); /* 3 of a sum of 3 */
    CHECK_NEAR(kernel[13], 1 / 3., 1e-6);
    CHECK_NEAR(kernel[19], -1 / 3., 1e-6);
    vp_stars_free(&s);
    s = (struct vp_stars){.n = 1, .star = calloc(1, sizeof *s.star)};
    s.star[0] = (struct vp_star){.at = {1, 15, 0}};
    CHECK_INT(vp_stars_open(&s, size, image, 1 << 20, &err), 0);
    CHECK_INT(vp_stars_average(&s, true, true, kernel, &err), -1);
    CHECK_INT(err.code, VP_ERUN);
    vp_stars_free(&s);
}

static void lists(void)
{
    static const struct { const char *text; int n; } files[] = {
        {"1 2\n3 4 # five\n\n# six\n", 2}, {"x y z\n1,2,3\n 4\t5,6 \n", 2}, {"1 2\n3 4 5\n", -1}, {"1\n", -1},
        {"1 2\nx y\n", -1}, {"1 nan\n2 3\n", 1}, {"\n", -1}, {"1 2 3 4\n", -1}, {"1;2\n1 2x\n", -1}};
    char path[] = "/tmp/psf_test.XXXXXX";
    const int fd = mkstemp(path);

    CHECK(fd >= 0);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        struct vp_err err = VP_ERR_INIT;
        struct vp_stars s;
        FILE *f = fopen(path, "w");
        fputs(files[i].text, f);
        fclose(f);
        CHECK_INT(vp_stars_read(&s, path, &err), files[i].n < 0 ? -1 : 0);
        if (files[i].n > 0) {
            CHECK_INT(s.n, files[i].n);
            vp_stars_free(&s);
        }
    }
    close(fd);
    unlink(path);
}

int main(void)
{
    gaussians();
    rings();
    motions();
    for (int deep = 0; deep < 2; deep++) {
        stars(deep, 0, false);
        stars(deep, 0, true);
        stars(deep, 2, false);
    }
    given();
    lists();
    return test_done();
}
