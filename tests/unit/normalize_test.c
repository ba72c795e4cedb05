/* SPDX-License-Identifier: BSD-3-Clause */
/* Normalisation against the definition, written naively in float64. */
#include "test.h"
#include "base/err.h"
#include "ct/despike.h"
#include "ct/normalize.h"

#include <omp.h>
#include <stdlib.h>

static uint64_t seed = 1;

static double uniform(void)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (double)(seed >> 33) / 2147483648.0;
}

static struct vp_normalize_params defaults(void)
{
    return (struct vp_normalize_params){.floor = 1e-5, .zinger_size = 3};
}

static struct vp_normalize *open_or_fail(const struct vp_normalize_params *p, int64_t nu, int64_t nv,
                                         int64_t views, const float *const *flats, int n_flats,
                                         const float *dark, const uint8_t *dead)
{
    struct vp_err err = VP_ERR_INIT;
    struct vp_normalize *n;

    if (vp_normalize_open(&n, p, nu, nv, views, flats, n_flats, dark, dead, &err))
        printf("%s\n", err.msg);
    CHECK(n != NULL);
    return n;
}

/* View `view`, in place. */
static void one_view(const struct vp_normalize *n, int64_t view, float *page, struct vp_normalize_report *rep)
{
    vp_normalize_pages(n, 0, view, 1, page, page, rep);
}

/* Half the spacing of floats at x: the best that rounding can do. */
static double half_ulp(double x)
{
    const float f = fabsf((float)x);
    return 0.5 * ((double)nextafterf(f, INFINITY) - f);
}

/* -ln over the whole range: with i0 = 1 the transmission is the sample itself, exactly. */
static void test_logarithm(void)
{
    enum { N = 1 << 16 };
    static float x[N], p[N];
    struct vp_normalize_params params = defaults();
    double worst = 0;

    params.i0 = 1;
    params.floor = 1e-30;
    struct vp_normalize *n = open_or_fail(&params, N, 1, 1, NULL, 0, NULL, NULL);
    for (int range = 0; range < 40; range++) {
        for (int i = 0; i < N; i++) {
            const double wide = exp(-69 + 100 * uniform()),
                         near = 1 + (uniform() - 0.5) * exp(-17 * uniform());
            x[i] = (float)(range % 2 ? near : range % 4 ? wide : 0.3 + 0.002 * i / N * range);
        }
        memcpy(p, x, sizeof p);
        one_view(n, 0, p, NULL);
        for (int i = 0; i < N; i++) {
            const double want = -log((double)x[i]);
            worst = fmax(worst, fabs(p[i] - want) / half_ulp(want));
        }
    }
    CHECK(worst < 1.9);   /* half units: below one unit in the last place */
    x[0] = 1;
    one_view(n, 0, x, NULL);
    CHECK(x[0] == 0 && !signbit(x[0]));
    vp_normalize_close(n);
}

enum { NU = 703, NV = 37, SIZE = NU * NV };
static float flat_a[SIZE], flat_b[SIZE], flat_c[SIZE], dark[SIZE], counts[SIZE], page[SIZE];

static void fill(void)
{
    for (int i = 0; i < SIZE; i++) {
        dark[i] = (float)(90 + 20 * uniform());
        flat_a[i] = (float)(20000 + 9000 * uniform());
        flat_b[i] = (float)(21000 + 9000 * uniform());
        flat_c[i] = (float)(17000 + 9000 * uniform());
        counts[i] = (float)floor(130 + 30000 * pow(uniform(), 3));
    }
}

/* Relative rounding of the transmission (three operations and their inputs, all in float) and of the result.
 */
static double tolerance(double p)
{
    return 2.5e-7 + 1e-7 * fabs(p);
}

static void test_flat_dark(void)
{
    struct vp_normalize_params params = defaults();
    const float *const flats[] = {flat_a};
    struct vp_normalize_report rep = {0};

    fill();
    counts[0] = 90;       /* below the dark field */
    dark[0] = 100;
    counts[1] = dark[1] = 95;
    struct vp_normalize *n = open_or_fail(&params, NU, NV, -1, flats, 1, dark, NULL);
    memcpy(page, counts, sizeof page);
    one_view(n, 0, page, &rep);
    int wrong = 0;
    for (int i = 2; i < SIZE; i++) {
        const double want = -log(((double)counts[i] - dark[i]) / ((double)flat_a[i] - dark[i]));
        wrong += !(fabs(page[i] - want) <= tolerance(want));
    }
    CHECK_INT(wrong, 0);
    CHECK_NEAR(page[0], -log(1e-5), 1e-6);
    CHECK_NEAR(page[1], -log(1e-5), 1e-6);
    CHECK_INT(rep.floored, 2);
    CHECK_INT(rep.dead, 0);
    vp_normalize_close(n);

    params.transmission = true;
    n = open_or_fail(&params, NU, NV, -1, flats, 1, NULL, NULL);
    memcpy(page, counts, sizeof page);
    one_view(n, 0, page, &rep);
    for (int i = 0; i < SIZE; i++)
        wrong += !(fabs(page[i] - (double)counts[i] / flat_a[i]) <= 1e-7 * page[i]);
    CHECK_INT(wrong, 0);
    vp_normalize_close(n);

    params.transmission = false;
    params.i0 = 30000;
    n = open_or_fail(&params, NU, NV, -1, NULL, 0, dark, NULL);
    memcpy(page, counts, sizeof page);
    one_view(n, 0, page, &rep);
    for (int i = 2; i < SIZE; i++) {
        const double want = -log(((double)counts[i] - dark[i]) / 30000);
        wrong += !(fabs(page[i] - want) <= tolerance(want));
    }
    CHECK_INT(wrong, 0);
    vp_normalize_close(n);
}

static void test_sets(void)
{
    struct vp_normalize_params params = defaults();
    const float *const flats[] = {flat_a, flat_b, flat_c};
    const double even[] = {0, 10, 20}, given[] = {3, 4.5, 17};

    fill();
    for (int variant = 0; variant < 2; variant++) {
        const double *const at = variant ? given : even;
        if (variant)
            params.flat_at = (struct vp_reals){3, {3, 4.5, 17}};
        struct vp_normalize *n = open_or_fail(&params, NU, NV, variant ? -1 : 21, flats, 3, dark, NULL);
        for (int view = 0; view < 24; view++) {
            int wrong = 0;
            memcpy(page, counts, sizeof page);
            one_view(n, view, page, NULL);
            for (int i = 0; i < SIZE; i++) {
                const int s = view >= at[1];
                const double w = fmin(fmax((view - at[s]) / (at[s + 1] - at[s]), 0), 1);
                const double flat = (1 - w) * flats[s][i] + w * flats[s + 1][i];
                const double want = -log(((double)counts[i] - dark[i]) / (flat - dark[i]));
                wrong += !(fabs(page[i] - want) <= tolerance(want) + 1e-7);
            }
            CHECK_INT(wrong, 0);
        }
        vp_normalize_close(n);
    }

    struct vp_err err = VP_ERR_INIT;
    struct vp_normalize *n;
    params.flat_at.n = 0;
    CHECK(vp_normalize_open(&n, &params, NU, NV, -1, flats, 3, dark, NULL, &err) && !n
          && err.code == VP_EUSAGE);
    CHECK(strstr(err.msg, "the number of views is unknown") != NULL);
}

static double naive_median(const float *v, int64_t nu, int64_t nv, int64_t x, int64_t y, int64_t half)
{
    double list[VP_DESPIKE_MOST * VP_DESPIKE_MOST];
    int m = 0;

    for (int64_t j = y - half; j <= y + half; j++)
        for (int64_t i = x - half; i <= x + half; i++)
            if (i >= 0 && i < nu && j >= 0 && j < nv && isfinite(v[j * nu + i]))
                list[m++] = v[j * nu + i];
    for (int a = 0; a < m; a++)
        for (int b = a + 1; b < m; b++)
            if (list[b] < list[a]) {
                const double t = list[a];
                list[a] = list[b];
                list[b] = t;
            }
    return 0.5 * (list[(m - 1) / 2] + list[m / 2]);
}

/* Zingers on pages of every shape, with and without dead pixels; the transmission is the sample. */
static void test_zingers(void)
{
    const int64_t shapes[][2] = {{1, 1}, {1, 9}, {9, 1}, {2, 2}, {3, 2}, {3, 3}, {5, 4}, {40, 30}, {NU, NV}};
    static uint8_t mask[SIZE];
    static float in[SIZE], seen[SIZE];

    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (int way = 0; way < 8; way++) {
            const int64_t nu = shapes[s][0], nv = shapes[s][1], size = nu * nv, half = (int64_t[]){1, 2, 3, 7}[way / 2];
            const bool with_dead = way % 2;
            struct vp_normalize_params params = defaults();
            struct vp_normalize_report rep = {0};
            int64_t found = 0, dead = 0, wrong = 0;
            if (with_dead && size < 12)
                continue;
            params.i0 = 1;
            params.zinger = 1.25;
            params.zinger_size = 2 * half + 1;
            params.transmission = true;
            for (int64_t i = 0; i < size; i++) {
                in[i] =
                    (float)(0.5 + 0.1 * uniform() + (uniform() < 0.1) * 5 * uniform() - (uniform() < 0.02));
                mask[i] = with_dead && uniform() < 0.03;
                seen[i] = mask[i] ? NAN : in[i];
                dead += mask[i];
            }
            struct vp_normalize *n = open_or_fail(&params, nu, nv, 1, NULL, 0, NULL, with_dead ? mask : NULL);
            memcpy(page, in, (size_t)size * sizeof *page);
            one_view(n, 0, page, &rep);
            for (int64_t i = 0; i < size; i++) {
                if (mask[i])
                    continue;
                const double median = naive_median(seen, nu, nv, i % nu, i / nu, half);
                const bool zinger = in[i] > 1.25f * fmax(median, params.floor);
                found += zinger;
                wrong += fabs(page[i] - (zinger ? median : in[i])) > 1e-7;
            }
            CHECK_INT(wrong, 0);
            CHECK_INT(rep.zingers, found);
            CHECK_INT(rep.dead, dead);
            CHECK(size < 100 || found > size / 20);
            vp_normalize_close(n);
        }
}

static void test_dead(void)
{
    enum { W = 12, H = 9 };
    static float flat[W * H], bias[W * H], in[W * H], got[W * H];
    uint8_t mask[W * H] = {0};
    struct vp_normalize_params params = defaults();
    const float *const flats[] = {flat};
    struct vp_normalize_report rep = {0};

    params.transmission = true;
    for (int i = 0; i < W * H; i++) {
        flat[i] = 1;
        bias[i] = 0;
        in[i] = (float)(i % W + 0.01 * (i / W) * (i / W));
    }
    /* single pixels: by the mask, by its flat, by a NaN in the dark field; a corner; a block of 3 x 3; where
     * the flat is dead the count may be anything */
    mask[2 * W + 2] = 1;
    flat[2 * W + 5] = 0;
    bias[2 * W + 8] = NAN;
    flat[0] = -3;
    for (int y = 5; y < 8; y++)
        for (int x = 4; x < 7; x++)
            mask[y * W + x] = 255;
    memcpy(got, in, sizeof got);
    got[2 * W + 5] = 1e30f;
    got[6 * W + 5] = INFINITY;
    struct vp_normalize *n = open_or_fail(&params, W, H, 1, flats, 1, bias, mask);
    one_view(n, 0, got, &rep);
    CHECK_INT(rep.dead, 13);
    const int single[] = {2 * W + 2, 2 * W + 5, 2 * W + 8};
    for (int k = 0; k < 3; k++) {
        const int at = single[k];
        double sum = 0;
        for (int j = -1; j <= 1; j++)
            for (int i = -1; i <= 1; i++)
                sum += i || j ? in[at + j * W + i] : 0;
        CHECK_NEAR(got[at], sum / 8, 1e-6);
    }
    CHECK_NEAR(got[0], (in[1] + in[W] + in[W + 1]) / 3, 1e-6);
    /* the block: a corner from its 5 live neighbours, a side from 3, the middle from the eight so filled */
    CHECK_NEAR(got[5 * W + 4],
               (in[4 * W + 3] + in[4 * W + 4] + in[4 * W + 5] + in[5 * W + 3] + in[6 * W + 3]) / 5, 1e-6);
    CHECK_NEAR(got[5 * W + 5], (in[4 * W + 4] + in[4 * W + 5] + in[4 * W + 6]) / 3, 1e-6);
    double sum = 0;
    for (int i = 0; i < 9; i++)
        sum += i == 4 ? 0 : got[(5 + i / 3) * W + 4 + i % 3];
    CHECK_NEAR(got[6 * W + 5], sum / 8, 1e-6);
    int changed = 0;
    for (int i = 0; i < W * H; i++)
        changed += got[i] != in[i];
    CHECK(changed <= 13);
    vp_normalize_close(n);

    struct vp_err err = VP_ERR_INIT;
    memset(mask, 1, sizeof mask);
    CHECK(vp_normalize_open(&n, &params, W, H, 1, flats, 1, NULL, mask, &err)
          && strstr(err.msg, "all 108 pixels are dead"));
}

/* NaN and infinity in the counts, and dead pixels in sinograms: a line along the row. */
static void test_bad_samples(void)
{
    enum { W = 10, H = 4 };
    float in[W * H];
    uint8_t mask[3 * W] = {0};
    struct vp_normalize_params params = defaults();
    struct vp_normalize_report rep = {0};

    params.i0 = 1;
    params.transmission = true;
    for (int i = 0; i < W * H; i++)
        in[i] = (float)(1 + i % W * i % W);
    in[3] = NAN;
    in[W] = INFINITY;
    in[W + 5] = in[W + 6] = -INFINITY;
    in[2 * W + 8] = in[2 * W + 9] = NAN;
    for (int i = 0; i < W; i++)
        in[3 * W + i] = NAN;
    float p[W * H];
    memcpy(p, in, sizeof p);
    struct vp_normalize *n = open_or_fail(&params, W, H, 1, NULL, 0, NULL, NULL);
    one_view(n, 0, p, &rep);
    CHECK_INT(rep.dead, 6 + W);
    CHECK_NEAR(p[3], 0.5 * (in[2] + in[4]), 1e-6);
    CHECK_NEAR(p[W], in[W + 1], 1e-6);
    CHECK_NEAR(p[W + 5], in[W + 4] + (in[W + 7] - in[W + 4]) / 3, 1e-5);
    CHECK_NEAR(p[W + 6], in[W + 4] + (in[W + 7] - in[W + 4]) * 2 / 3, 1e-5);
    CHECK_NEAR(p[2 * W + 9], in[2 * W + 7], 0);
    CHECK_NEAR(p[3 * W + 4], 1, 0);
    vp_normalize_close(n);

    mask[2 * W + 4] = 1;   /* detector row 2 */
    n = open_or_fail(&params, W, 3, 1, NULL, 0, NULL, mask);
    memcpy(p, in, sizeof p);
    rep = (struct vp_normalize_report){0};
    vp_normalize_pages(n, H, 2, 1, p, p, &rep);
    CHECK_NEAR(p[3], in[2] + (in[5] - in[2]) / 3, 1e-5);
    CHECK_NEAR(p[2 * W + 4], 0.5 * (in[2 * W + 3] + in[2 * W + 5]), 1e-5);
    CHECK_INT(rep.dead, 6 + W + 3);
    memcpy(p, in, sizeof p);
    vp_normalize_pages(n, H, 1, 1, p, p, NULL);
    CHECK_NEAR(p[2 * W + 4], in[2 * W + 4], 0);
    vp_normalize_close(n);
}

/* Sinograms hold the very numbers of the views. */
static void test_sinograms(void)
{
    enum { VIEWS = 7 };
    static float views[VIEWS][SIZE], sinogram[VIEWS * NU];
    struct vp_normalize_params params = defaults();
    const float *const flats[] = {flat_a, flat_b};
    int differ = 0;

    fill();
    struct vp_normalize *n = open_or_fail(&params, NU, NV, VIEWS, flats, 2, dark, NULL);
    for (int k = 0; k < VIEWS; k++) {
        for (int i = 0; i < SIZE; i++)
            views[k][i] = (float)(150 + 20000 * uniform());
    }
    for (int v = 0; v < NV; v += 9) {
        static float rows[VIEWS][SIZE];
        memcpy(rows, views, sizeof rows);
        for (int k = 0; k < VIEWS; k++) {
            memcpy(sinogram + k * NU, views[k] + v * NU, NU * sizeof(float));
            one_view(n, k, rows[k], NULL);
        }
        vp_normalize_pages(n, VIEWS, v, 1, sinogram, sinogram, NULL);
        for (int k = 0; k < VIEWS; k++)
            differ += !!memcmp(sinogram + k * NU, rows[k] + v * NU, NU * sizeof(float));
    }
    CHECK_INT(differ, 0);
    vp_normalize_close(n);
}

/* Many threads on one object, more than it was opened for: the same bits as one. */
static void test_threads(void)
{
    enum { VIEWS = 40, TALL = 400 };
    static float one[VIEWS][SIZE], many[VIEWS][SIZE];
    struct vp_normalize_params params = defaults();
    const float *const flats[] = {flat_a, flat_b};
    struct vp_normalize_report first = {0}, second = {0};

    fill();
    params.zinger = 1.3;
    flat_a[5000] = 0;
    omp_set_num_threads(2);
    struct vp_normalize *n = open_or_fail(&params, NU, NV, VIEWS, flats, 2, dark, NULL);
    for (int k = 0; k < VIEWS; k++)
        for (int i = 0; i < SIZE; i++)
            one[k][i] = many[k][i] = (float)(80 + 20000 * uniform());
    one[3][77] = many[3][77] = NAN;
    for (int k = 0; k < VIEWS; k++)
        one_view(n, k, one[k], &first);
    #pragma omp parallel for num_threads(5) schedule(dynamic)
    for (int k = 0; k < VIEWS; k++)
        one_view(n, k, many[k], &second);
    CHECK(!memcmp(one, many, sizeof one));
    CHECK(!memcmp(&first, &second, sizeof first));

    /* a page at a time into another buffer, in bands of rows, with threads to spare */
    static float tall[TALL * 700], banded[TALL * 700];
    struct vp_normalize_params plain = defaults();
    uint8_t *mask = calloc(TALL, 700);
    plain.i0 = 20000;
    plain.zinger = 1.3;
    mask[95 * 700 + 300] = mask[280 * 700] = 1;
    for (int i = 0; i < TALL * 700; i++)
        tall[i] = (float)(80 + 20000 * uniform());
    tall[93 * 700 + 5] = NAN;
    struct vp_normalize *big = open_or_fail(&plain, 700, TALL, 1, NULL, 0, NULL, mask);
    struct vp_normalize_report a = {0}, b = {0};
    omp_set_num_threads(3);
    vp_normalize_pages(big, 0, 0, 1, tall, banded, &a);
    one_view(big, 0, tall, &b);
    CHECK(!memcmp(tall, banded, sizeof tall));
    CHECK(!memcmp(&a, &b, sizeof a));
    CHECK(a.dead == 3 && a.zingers > 100);
    vp_normalize_close(big);
    free(mask);

    CHECK_INT(first.dead, VIEWS + 1);
    CHECK(first.zingers > 1000 && first.floored > 100);
    vp_normalize_close(n);
}

/* Spikes across views: streams cut anywhere, and sinograms, against the median of three. */
static void test_across(void)
{
    enum { VIEWS = 11, PIXELS = 37 };
    static float in[VIEWS * PIXELS], want[VIEWS * PIXELS], got[VIEWS * PIXELS], work[3 * PIXELS];
    const struct vp_despike d = {1.5f, 1e-2f, 3};

    for (int way = 0; way < 2 * VIEWS; way++) {
        const bool transmission = way % 2;
        const int64_t views = way / 2 + 1;
        struct vp_despike_views s;
        struct vp_err err = VP_ERR_INIT;
        int64_t zingers = 0;
        for (int64_t i = 0; i < views * PIXELS; i++) {
            const double t = 0.02 * uniform() + (uniform() < 0.1) * 5 * uniform();
            in[i] = (float)(transmission ? t : -log(t + 1e-3));
        }
        for (int64_t v = 0; v < views; v++)
            for (int64_t i = 0; i < PIXELS; i++) {
                const int64_t first = v == 0 ? 0 : v == views - 1 ? views - 3 : v - 1;
                const float x = in[v * PIXELS + i];
                want[v * PIXELS + i] = x;
                if (views < 3)
                    continue;
                const double a = in[first * PIXELS + i], b = in[(first + 1) * PIXELS + i],
                             c = in[(first + 2) * PIXELS + i];
                const double median = fmax(fmin(a, b), fmin(fmax(a, b), c));
                const bool zinger = transmission ? x > (double)d.times * fmax(median, d.floor)
                                                 : fmin(median, -log(d.floor)) - x > log(d.times);
                want[v * PIXELS + i] = zinger ? (float)median : x;
                zingers += zinger;
            }
        CHECK(!vp_despike_views_open(&s, &d, transmission, PIXELS, &err));
        int64_t given = 0;
        for (int64_t v = 0; v < views;) {
            const int64_t n = 1 + (v + way) % 4, take = n < views - v ? n : views - v;
            const int64_t ready = vp_despike_ready(&s, take);
            CHECK(ready <= take);
            vp_despike_views(&s, take, in + v * PIXELS, got + given * PIXELS);
            given += ready;
            v += take;
        }
        given += vp_despike_rest(&s, got + given * PIXELS);
        CHECK_INT(given, views);
        CHECK(!memcmp(got, want, (size_t)(views * PIXELS) * sizeof *got));
        CHECK_INT(s.zingers, zingers);
        CHECK(views < 3 || zingers > 1);
        vp_despike_views_free(&s);
        CHECK_INT(vp_despike_sinogram(&d, transmission, in, views, PIXELS, work), zingers);
        CHECK(!memcmp(in, want, (size_t)(views * PIXELS) * sizeof *in));
    }
}

static void test_check(void)
{
    struct vp_normalize_params params = defaults();
    const char *two[] = {"a", "b"};
    struct vp_err err = VP_ERR_INIT;

    CHECK(vp_normalize_check(&params, &err) && err.code == VP_EUSAGE
          && strstr(err.msg, "neither --flat nor --i0"));
    params.flat = (struct vp_strings){2, two};
    err = (struct vp_err)VP_ERR_INIT;
    CHECK(!vp_normalize_check(&params, &err));
    params.flat_at = (struct vp_reals){1, {5}};
    CHECK(vp_normalize_check(&params, &err) && strstr(err.msg, "expected 2 numbers"));
    params.flat_at = (struct vp_reals){2, {5, 5}};
    err = (struct vp_err)VP_ERR_INIT;
    CHECK(vp_normalize_check(&params, &err) && strstr(err.msg, "must increase"));
    params.flat_at.n = 0;
    params.i0 = 5;
    err = (struct vp_err)VP_ERR_INIT;
    CHECK(vp_normalize_check(&params, &err) && strstr(err.msg, "cannot be combined"));
}

int main(void)
{
    test_logarithm();
    test_flat_dark();
    test_sets();
    test_zingers();
    test_across();
    test_dead();
    test_bad_samples();
    test_sinograms();
    test_threads();
    test_check();
    return test_done();
}
