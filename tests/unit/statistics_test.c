/* SPDX-License-Identifier: BSD-3-Clause */
/* Moments, histograms, quantiles and comparisons against naive references in long double and sorting. */
#include "base/err.h"
#include "pages/compare.h"
#include "pages/statistics.h"
#include "test.h"

#include <float.h>
#include <omp.h>
#include <stdlib.h>

static uint64_t state = 1;

static uint64_t random64(void)
{
    state += 0x9e3779b97f4a7c15u;
    uint64_t z = state;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static double uniform(void)
{
    return (double)(random64() >> 11) / 9007199254740992.0;
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* n random samples of any type; floats get NaN and infinities now and then. */
static void *make(enum vp_type type, int64_t n)
{
    char *v = malloc((size_t)n * vp_type_size(type));

    for (int64_t i = 0; i < n; i++) {
        uint64_t bits = random64();
        if (type == VP_F32) {
            const float f = (float)((uniform() - 0.5) * exp(20 * uniform() - 10));
            const float x = i % 97 == 3 ? NAN : i % 101 == 5 ? -INFINITY : i % 10 == 1 ? 1 : f;
            memcpy(v + 4 * i, &x, 4);
        } else if (type == VP_F64) {
            const double x = i % 97 == 3 ? NAN : i % 101 == 5 ? INFINITY
                : (uniform() - 0.3) * exp(9 * uniform());
            memcpy(v + 8 * i, &x, 8);
        } else {
            /* 64-bit integers that doubles hold exactly, of both signs */
            if (type == VP_U64)
                bits >>= 12;
            if (type == VP_I64)
                bits = (uint64_t)((int64_t)bits >> 12);
            memcpy(v + i * (int64_t)vp_type_size(type), &bits, vp_type_size(type));
        }
    }
    return v;
}

static const double NONE[2] = {1, 0}; /* no scale */

static void test_moments(enum vp_type type)
{
    const int64_t n = 40037;
    void *v = make(type, n);
    double *d = malloc((size_t)n * sizeof *d);
    struct vp_moments m = {0};
    int64_t count = 0, nan = 0, inf = 0;
    long double sum = 0, dev = 0;
    double lo = INFINITY, hi = -INFINITY;

    vp_convert(d, VP_F64, v, type, n, 1, 0);
    for (int64_t i = 0; i < n; i++) {
        nan += isnan(d[i]);
        inf += isinf(d[i]) != 0;
        if (!isfinite(d[i]))
            continue;
        count++;
        sum += d[i];
        lo = fmin(lo, d[i]);
        hi = fmax(hi, d[i]);
    }
    const long double mean = sum / count;
    for (int64_t i = 0; i < n; i++)
        if (isfinite(d[i]))
            dev += (d[i] - mean) * (d[i] - mean);
    const int64_t half = n / 3;
    vp_moments_add(&m, v, type, half);
    vp_moments_add(&m, (char *)v + (size_t)half * vp_type_size(type), type, n - half);
    CHECK_INT(m.n, count);
    CHECK_INT(m.nan, nan);
    CHECK_INT(m.inf, inf);
    CHECK(m.min == lo && m.max == hi);
    struct vp_sample_range e = {0};
    vp_sample_range_add(&e, v, type, half);
    vp_sample_range_add(&e, (char *)v + (size_t)half * vp_type_size(type), type, n - half);
    CHECK(e.any && e.min == lo && e.max == hi);
    const double std = (double)sqrtl(dev / count);
    CHECK_NEAR(m.mean, (double)mean, 1e-15 * (fabs((double)mean) + std));
    CHECK_NEAR(vp_moments_std(&m), std, 1e-13 * std);
    if (!vp_type_is_float(type) && vp_type_size(type) < 8)
        CHECK(vp_moments_sum(&m, NONE) == (double)sum);
    else
        CHECK_NEAR(vp_moments_sum(&m, NONE), (double)sum, 1e-15 * std * (double)count);
    if (type == VP_F32) {
        struct vp_squares t = {0};
        CHECK(isnan(vp_squares_mean(&t)));
        vp_squares_add(&t, v, VP_F32, half);
        vp_squares_add(&t, (float *)v + half, VP_F32, n - half);
        CHECK_INT(t.n, count);
        const long double square = dev / count + mean * mean;
        CHECK_NEAR(vp_squares_mean(&t), (double)square, 1e-14 * (double)square);
    }
    free(d);
    free(v);
}

/* Small deviations on a huge offset: a sum of squares would lose them all. */
static void test_offset(void)
{
    enum { N = 300000 };
    double *v = malloc(N * sizeof *v);
    struct vp_moments m = {0};

    for (int i = 0; i < N; i++)
        v[i] = 1e12 + (i % 2 ? 1 : -1);
    vp_moments_add(&m, v, VP_F64, N);
    CHECK(m.mean == 1e12);
    CHECK_NEAR(vp_moments_std(&m), 1, 1e-12);
    free(v);
}

/* Deviations of a few units in the last place, also after samples of another size, and none at all. */
static void test_spreads(void)
{
    enum { N = 100000, MOST = 3 };
    static const struct { double offset, step, first; } some[] = {
        {1e9, 0x1p-23, 1e9}, {1.1, 0x1p-52, 1.1}, {-3e15, 0.5, -3e15}, {1e9, 0x1p-23, 0}, {0.1, 0, 0.1},
        {1e300, 0, 1e300}};
    double *v = malloc(N * sizeof *v);

    for (int k = 0; k < (int)(sizeof some / sizeof *some); k++) {
        struct vp_moments m = {0};
        __float128 sum = 0, dev = 0;
        for (int i = 0; i < N; i++) {
            v[i] = some[k].offset + some[k].step * (double)((i / 5000 + i * 7) % (MOST + 1));
            v[i] = i ? v[i] : some[k].first;
            sum += v[i];
        }
        for (int i = 0; i < N; i++)
            dev += (v[i] - sum / N) * (v[i] - sum / N);
        const double std = sqrt((double)(dev / N));
        for (int i = 0; i < N; i += 20480)
            vp_moments_add(&m, v + i, VP_F64, N - i < 20480 ? N - i : 20480);
        if (some[k].step == 0)
            CHECK(vp_moments_std(&m) == 0);
        else
            CHECK_NEAR(vp_moments_std(&m), std, 1e-12 * std);
    }
    free(v);
}

/* Sums of scaled samples: exact, then the scale is undone. */
static void test_scaled_sum(void)
{
    const uint16_t v[4] = {30000, 30001, 30000, 30001};
    struct vp_moments m = {0};

    vp_moments_add(&m, v, VP_U16, 4);
    CHECK(vp_moments_sum(&m, (const double[]){4, 30000}) == 0.5);
    CHECK(vp_moments_sum(&m, (const double[]){-4, 30000}) == -0.5);
    CHECK(vp_moments_sum(&m, (const double[]){1, 0.1}) == 120002 - 0.4);
}

static void test_empty(void)
{
    const float v[3] = {NAN, INFINITY, NAN};
    struct vp_moments m = {0};

    vp_moments_add(&m, v, VP_F32, 3);
    CHECK_INT(m.n, 0);
    CHECK_INT(m.nan, 2);
    CHECK_INT(m.inf, 1);
    CHECK(isnan(vp_moments_std(&m)));
}

/* The extremes at every place of short and long rows, alone among NaN and infinities. */
static void test_extent(void)
{
    enum { N = 700001 };
    static const int64_t lengths[] = {1, 2, 15, 16, 17, 100, 65536, 65537, N};
    static const float odd[3] = {NAN, INFINITY, -INFINITY};
    float *v = malloc(N * sizeof *v);

    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        for (int try = 0; try < 40; try++) {
            const int64_t n = lengths[i];
            const int64_t lo = (int64_t)(random64() % (uint64_t)n), hi = (int64_t)(random64() % (uint64_t)n);
            struct vp_sample_range e = {0};
            for (int64_t k = 0; k < n; k++)
                v[k] = odd[(k + try) % 3];
            vp_sample_range_add(&e, v, VP_F32, n);
            CHECK(!e.any);
            v[lo] = -3;
            v[hi] = 7;
            vp_sample_range_add(&e, v, VP_F32, n);
            CHECK(e.any && e.min == (lo == hi ? 7 : -3) && e.max == 7);
            v[lo] = v[hi] = -FLT_MAX;
            e = (struct vp_sample_range){0};
            vp_sample_range_add(&e, v, VP_F32, n);
            CHECK(e.any && e.min == -FLT_MAX && e.max == -FLT_MAX);
        }
    free(v);
}

static void test_threads(void)
{
    const int64_t n = 3000001;
    float *v = make(VP_F32, n), *w = make(VP_F32, n);
    struct vp_moments m[3] = {{0}};
    struct vp_squares s[3] = {{0}};
    struct vp_compare c[3];
    const int threads[3] = {1, 2, 5}, before = omp_get_max_threads();

    for (int t = 0; t < 3; t++) {
        omp_set_num_threads(threads[t]);
        vp_moments_add(&m[t], v, VP_F32, n);
        vp_squares_add(&s[t], v, VP_F32, n);
        memset(&c[t], 0, sizeof c[t]);
        c[t].scale = 1;
        vp_compare_page(&c[t], 0, n, 1, v, VP_F32, w, VP_F32, NULL, VP_U8);
    }
    omp_set_num_threads(before);
    CHECK(!memcmp(&s[0], &s[1], sizeof s[0]) && !memcmp(&s[0], &s[2], sizeof s[0]));
    CHECK(!memcmp(&m[0], &m[1], sizeof m[0]) && !memcmp(&m[0], &m[2], sizeof m[0]));
    CHECK(!memcmp(&c[0], &c[1], sizeof c[0]) && !memcmp(&c[0], &c[2], sizeof c[0]));
    free(v);
    free(w);
}

static void test_histogram(void)
{
    enum { N = 100000, BINS = 37 };
    struct vp_err err = VP_ERR_INIT;
    struct vp_histogram h;
    double *v = malloc(N * sizeof *v);
    int64_t want[BINS] = {0}, below = 0, above = 0;

    CHECK(vp_histogram_init(&h, (const double[]){-0.7, 1.3}, NONE, BINS, &err) == 0);
    for (int i = 0; i < N; i++) {
        /* half of them exactly on edges */
        v[i] = i % 2 ? h.edge[random64() % (BINS + 1)] : 3 * uniform() - 1.2;
        if (i % 1000 == 0)
            v[i] = NAN;
        int b = -1;
        for (int k = 0; k < BINS; k++)
            if (v[i] >= h.edge[k] && (v[i] < h.edge[k + 1] || (k == BINS - 1 && v[i] == h.edge[BINS])))
                b = k;
        if (b >= 0)
            want[b]++;
        below += v[i] < h.edge[0];
        above += v[i] > h.edge[BINS];
    }
    vp_histogram_add(&h, v, VP_F64, N / 3);
    vp_histogram_add(&h, v + N / 3, VP_F64, N - N / 3);
    CHECK(!memcmp(h.count, want, sizeof want));
    CHECK_INT(h.below, below);
    CHECK_INT(h.above, above);
    CHECK_INT(h.nan, N / 1000);
    vp_histogram_free(&h);
    CHECK(vp_histogram_init(&h, (const double[]){1, 1}, NONE, 4, &err) < 0 && err.code == VP_EUSAGE);
    free(v);
}

static void test_quantiles(enum vp_type type, int64_t n)
{
    static const double percent[] = {0, 1, 25, 50, 50.5, 99, 99.9, 100};
    enum { P = sizeof percent / sizeof *percent };
    struct vp_err err = VP_ERR_INIT;
    void *v = make(type, n);
    double *d = malloc((size_t)n * sizeof *d);
    int64_t count = 0;

    vp_convert(d, VP_F64, v, type, n, 1, 0);
    for (int64_t i = 0; i < n; i++)
        if (isfinite(d[i]))
            d[count++] = d[i];
    qsort(d, (size_t)count, sizeof *d, ascending);
    for (int single = 0; single < 2; single++) {
        struct vp_quantiles *q;
        int passes = 0;
        CHECK(vp_quantiles_open(&q, type, percent, P, single, &err) == 0);
        do {
            vp_quantiles_add(q, v, n / 2);
            vp_quantiles_add(q, (char *)v + (size_t)(n / 2) * vp_type_size(type), n - n / 2);
            passes++;
        } while (vp_quantiles_again(q));
        const bool exact = !single || vp_type_size(type) <= 2;
        CHECK(vp_quantiles_exact(q) == exact);
        CHECK_INT(passes, exact && vp_type_size(type) > 2 ? (int)vp_type_size(type) / 2 : 1);
        for (int i = 0; i < P; i++) {
            const double at = (double)(count - 1) * (percent[i] / 100);
            const int64_t k = (int64_t)at;
            const double a = d[k], b = k + 1 < count ? d[k + 1] : a, t = at - (double)k;
            const double want = a + (b - a) * t;
            if (exact)
                CHECK_NEAR(vp_quantiles_get(q, i), want, 1e-15 * fabs(want));
            else /* the bins of the neighbours of the true value */
                CHECK_NEAR(vp_quantiles_get(q, i), want, ldexp(fmax(fabs(a), fabs(b)), -11) + (b - a));
            CHECK(vp_quantiles_get(q, i) >= d[0] && vp_quantiles_get(q, i) <= d[count - 1]);
        }
        vp_quantiles_close(q);
    }
    free(d);
    free(v);
}

/* Samples that are zero are zero, also in one pass. */
static void test_zeros(void)
{
    const float v[5] = {0, 0, 0, 1, -0.0f};
    const double percent[2] = {0, 50};
    struct vp_err err = VP_ERR_INIT;
    struct vp_quantiles *q;

    CHECK(vp_quantiles_open(&q, VP_F32, percent, 2, true, &err) == 0);
    vp_quantiles_add(q, v, 5);
    CHECK(!vp_quantiles_again(q));
    CHECK(vp_quantiles_get(q, 0) == 0 && vp_quantiles_get(q, 1) == 0);
    vp_quantiles_close(q);
}

static void test_no_quantiles(void)
{
    const float v[2] = {NAN, INFINITY};
    const double half = 50;
    struct vp_err err = VP_ERR_INIT;
    struct vp_quantiles *q;

    CHECK(vp_quantiles_open(&q, VP_F32, &half, 1, false, &err) == 0);
    vp_quantiles_add(q, v, 2);
    CHECK(!vp_quantiles_again(q));
    CHECK(isnan(vp_quantiles_get(q, 0)));
    vp_quantiles_close(q);
    const double bad = 101;
    CHECK(vp_quantiles_open(&q, VP_F32, &bad, 1, false, &err) < 0 && err.code == VP_EUSAGE);
}

static void test_compare(void)
{
    enum { NX = 123, NY = 91, N = NX * NY };
    double *a = malloc(N * sizeof *a);
    float *b = malloc(N * sizeof *b);
    uint8_t *mask = malloc(N);

    for (int use = 0; use < 2; use++) {
        struct vp_compare c = {.scale = 2, .atol = 0.5, .rtol = 0.25};
        long double d2 = 0, b2 = 0, sa = 0, sb = 0, aa = 0, ab = 0, bb = 0;
        double max = -1, lo = INFINITY, hi = -INFINITY;
        int64_t n = 0, beyond = 0, odd = 0, samples = 0;
        int where = 0;
        for (int i = 0; i < N; i++) {
            b[i] = i % 50 == 7 ? NAN : (float)(1e6 + 10 * uniform());
            a[i] = i % 80 == 9 ? INFINITY : i % 50 == 7 ? NAN : 0.5 * (double)b[i] + uniform();
            mask[i] = (uint8_t)(random64() % 3);
            if (use && !mask[i])
                continue;
            samples++;
            if (!isfinite(a[i]) || isnan(b[i])) {
                odd++;
                continue;
            }
            const double v = 2 * a[i], d = v - b[i];
            n++;
            beyond += fabs(d) > 0.5 + 0.25 * fabs((double)b[i]);
            if (fabs(d) > max) {
                max = fabs(d);
                where = i;
            }
            lo = fmin(lo, b[i]);
            hi = fmax(hi, b[i]);
            d2 += d * (long double)d;
            b2 += b[i] * (long double)b[i];
            sa += v;
            sb += b[i];
        }
        for (int i = 0; i < N; i++)
            if ((!use || mask[i]) && isfinite(a[i]) && isfinite(b[i])) {
                const long double da = 2 * a[i] - sa / n, db = b[i] - sb / n;
                aa += da * da;
                ab += da * db;
                bb += db * db;
            }
        vp_compare_page(&c, 4, NX, NY, a, VP_F64, b, VP_F32, use ? mask : NULL, VP_U8);
        CHECK_INT(c.samples, samples);
        CHECK_INT(c.n, n);
        CHECK_INT(c.odd, odd);
        CHECK_INT(c.beyond, beyond + odd);
        CHECK(c.max == max);
        CHECK_INT(c.page, 4);
        CHECK_INT(c.y * NX + c.x, where);
        CHECK(c.a == 2 * a[where] && c.b == b[where]);
        const double rms = (double)sqrtl(d2 / n);
        CHECK_NEAR(vp_compare_rms(&c), rms, 1e-13 * rms);
        CHECK_NEAR(vp_compare_rel_l2(&c), (double)sqrtl(d2 / b2), 1e-13 * (double)sqrtl(d2 / b2));
        CHECK_NEAR(vp_compare_psnr(&c, 0), 20 * log10((hi - lo) / rms), 1e-10);
        CHECK_NEAR(vp_compare_psnr(&c, 100), 20 * log10(100 / rms), 1e-10);
        CHECK_NEAR(vp_compare_correlation(&c), (double)(ab / sqrtl(aa * bb)), 1e-11);
    }
    struct vp_compare c = {.scale = 1, .nan_equal = true};
    vp_compare_page(&c, 0, NX, NY, b, VP_F32, b, VP_F32, NULL, VP_U8);
    CHECK_INT(c.beyond, 0);
    CHECK_INT(c.differing, 0);
    CHECK(vp_compare_correlation(&c) == 1);
    free(a);
    free(b);
    free(mask);
}

/* Neighbours that doubles cannot tell apart. */
static void test_compare_exact(void)
{
    const uint64_t a[2] = {UINT64_MAX, UINT64_MAX - 1}, b[2] = {UINT64_MAX, UINT64_MAX};
    const int64_t s[2] = {INT64_MIN, INT64_MIN + 1}, t[2] = {INT64_MIN, INT64_MIN};
    struct vp_compare c = {.scale = 1}, e = {.scale = 1};

    vp_compare_page(&c, 0, 2, 1, a, VP_U64, b, VP_U64, NULL, VP_U8);
    CHECK_INT(c.differing, 1);
    CHECK(c.max == 1);
    CHECK_INT(c.x, 1);
    vp_compare_page(&e, 0, 2, 1, s, VP_I64, t, VP_I64, NULL, VP_U8);
    CHECK_INT(e.differing, 1);
}

int main(void)
{
    for (int t = 0; t < VP_N_TYPES; t++) {
        test_moments((enum vp_type)t);
        test_quantiles((enum vp_type)t, 20011);
        test_quantiles((enum vp_type)t, 2);
    }
    test_offset();
    test_spreads();
    test_scaled_sum();
    test_empty();
    test_extent();
    test_threads();
    test_histogram();
    test_zeros();
    test_no_quantiles();
    test_compare();
    test_compare_exact();
    return test_done();
}
