/* SPDX-License-Identifier: BSD-3-Clause */
/* Maps of the detector against their definition by brute force in float64; rings that are taken away, walls and clean scans
 * that stay; sorting against its definition. */
#include "test.h"

#include "base/err.h"
#include "ct/rings.h"

#include <stdlib.h>

enum { NU = 37, NV = 23, VIEWS = 50, PIXELS = NU * NV };

static uint32_t state = 1;
static double random01(void)
{
    state = state * 1664525u + 1013904223u;
    return (state >> 8) / 16777216.0;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double median(double *x, int n)
{
    qsort(x, (size_t)n, sizeof *x, by_value);
    return n % 2 ? x[n / 2] : (x[n / 2 - 1] + x[n / 2]) / 2;
}

/* The map of blocks of equal size, by definition. */
static void reference(const float *in, int views, int blocks, int rows, int columns, double *map)
{
    double *mean = calloc((size_t)blocks * PIXELS, sizeof *mean), *rest = calloc((size_t)blocks * PIXELS, sizeof *rest);
    double window[64];

    for (int b = 0; b < blocks; b++) {
        double *const m = mean + b * PIXELS, *const h = rest + b * PIXELS;
        const int lo = b * views / blocks, hi = (b + 1) * views / blocks;
        for (int k = lo; k < hi; k++)
            for (int i = 0; i < PIXELS; i++)
                m[i] += (double)in[k * PIXELS + i] / (hi - lo);
        for (int i = 0; i < PIXELS; i++) {
            int n = 0;
            for (int v = i / NU - rows / 2; v <= i / NU + rows / 2; v++)
                if (v >= 0 && v < NV)
                    window[n++] = m[v * NU + i % NU];
            h[i] = rows == 1 ? m[i] : m[i] - median(window, n);
        }
        for (int i = 0; i < PIXELS; i++) {
            int n = 0;
            for (int u = i % NU - columns / 2; u <= i % NU + columns / 2; u++)
                if (u >= 0 && u < NU)
                    window[n++] = h[i / NU * NU + u];
            m[i] = h[i] - median(window, n);
        }
    }
    for (int i = 0; i < PIXELS; i++) {
        for (int b = 0; b < blocks; b++)
            window[b] = mean[b * PIXELS + i];
        map[i] = median(window, blocks);
    }
    free(mean);
    free(rest);
}

static struct vp_rings *estimate(const struct vp_rings_params *p, const float *in, int at_once,
                                 struct vp_rings_facts *f)
{
    struct vp_rings *r;
    struct vp_err err = VP_ERR_INIT;

    CHECK_INT(vp_rings_open(&r, p, &err), 0);
    for (int k = 0; k < p->views; k += at_once)
        vp_rings_add(r, k, k + at_once < p->views ? at_once : p->views - k, in + k * PIXELS);
    CHECK_INT(vp_rings_finish(r, f, &err), 0);
    return r;
}

/* A wall about the axis, an object that turns, a layer, noise; and pixels that are off by `rings`. */
static float *scan_of(double rings, double *off)
{
    float *in = malloc(VIEWS * PIXELS * sizeof *in);

    state = 3;
    for (int i = 0; i < PIXELS; i++)
        off[i] = random01() < 0.2 ? rings * (random01() - 0.5) : 0;
    for (int k = 0; k < VIEWS; k++)
        for (int i = 0; i < PIXELS; i++) {
            const int u = i % NU, v = i / NU;
            const double inner = 18 + 10 * sin(0.7 * k) - u;
            in[k * PIXELS + i] = (float)((u == 5 || u == 31 ? 2 : 0) + (v > 11 ? 1 : 0) + (fabs(inner) < 4 ? 1 : 0) +
                                         0.01 * (random01() - 0.5) + off[i]);
        }
    return in;
}

static double rms(const float *map, const double *off)
{
    double sum = 0;
    for (int i = 0; i < PIXELS; i++)
        sum += ((double)map[i] - off[i]) * ((double)map[i] - off[i]);
    return sqrt(sum / PIXELS);
}

static void test_maps(void)
{
    static const int cases[][3] = {{12, 9, 9}, {7, 5, 13}, {1, 3, 3}, {50, 1, 9}};
    double off[PIXELS], want[PIXELS];
    float *const in = scan_of(0.5, off);
    struct vp_rings_facts f;
    int64_t n;

    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct vp_rings_params p = {NU, NV, VIEWS, cases[c][0], cases[c][1], cases[c][2], false, 1};
        struct vp_rings *a = estimate(&p, in, 1, &f);
        p.threads = 3;
        struct vp_rings *b = estimate(&p, in, 17, &f);
        reference(in, VIEWS, cases[c][0], cases[c][1], cases[c][2], want);
        const float *const map = vp_rings_maps(a, &n);
        CHECK_INT(n, 1);
        for (int i = 0; i < PIXELS; i++)
            CHECK_NEAR(map[i], want[i], 1e-6);
        CHECK(!memcmp(map, vp_rings_maps(b, &n), PIXELS * sizeof *map));
        vp_rings_close(a);
        vp_rings_close(b);
    }
    free(in);
}

static void test_promises(void)
{
    const struct vp_rings_params p = {NU, NV, VIEWS, 12, 9, 9, false, 2};
    double off[PIXELS], none[PIXELS] = {0};
    struct vp_rings_facts f;
    int64_t n;
    float *in = scan_of(0.5, off);

    double whole = 0;
    for (int i = 0; i < PIXELS; i++)
        whole += off[i] * off[i] / PIXELS;
    struct vp_rings *r = estimate(&p, in, 5, &f);
    CHECK_NEAR(rms(vp_rings_maps(r, &n), off) / sqrt(whole), 0, 0.5); /* the error is found */
    CHECK(f.agreement > 0.9);
    vp_rings_close(r);
    free(in);
    in = scan_of(0, off); /* a clean scan, with its wall and its layer, stays */
    r = estimate(&p, in, 5, &f);
    CHECK(rms(vp_rings_maps(r, &n), none) < 0.002);
    CHECK(f.agreement < 0.5);
    /* subtracting: views and sinograms, in place */
    float *sino = malloc(VIEWS * PIXELS * sizeof *sino);
    for (int v = 0; v < NV; v++)
        for (int k = 0; k < VIEWS; k++)
            memcpy(sino + (v * VIEWS + k) * NU, in + k * PIXELS + v * NU, NU * sizeof *sino);
    struct vp_rings *s;
    struct vp_err err = VP_ERR_INIT;
    CHECK_INT(vp_rings_open(&s, &p, &err), 0);
    vp_rings_add_sinograms(s, 0, 10, sino);
    vp_rings_add_sinograms(s, 10, NV - 10, sino + 10 * VIEWS * NU);
    CHECK_INT(vp_rings_finish(s, &f, &err), 0);
    CHECK(!memcmp(vp_rings_maps(r, &n), vp_rings_maps(s, &n), PIXELS * sizeof(float)));
    vp_rings_subtract(r, 0, VIEWS, in);
    vp_rings_subtract_sinograms(s, 0, NV, sino);
    for (int v = 0; v < NV; v++)
        for (int k = 0; k < VIEWS; k++)
            CHECK(!memcmp(sino + (v * VIEWS + k) * NU, in + k * PIXELS + v * NU, NU * sizeof *sino));
    vp_rings_close(r);
    vp_rings_close(s);
    free(in);
    free(sino);
}

static void test_drift(void)
{
    const struct vp_rings_params p = {NU, NV, VIEWS, 10, 9, 9, true, 2};
    float *in = calloc(VIEWS * PIXELS, sizeof *in);
    struct vp_rings_facts f;
    int64_t n;
    const int at = 9 * NU + 17;

    for (int k = 0; k < VIEWS; k++)
        in[k * PIXELS + at] = (float)k;
    struct vp_rings *r = estimate(&p, in, 50, &f);
    CHECK(vp_rings_maps(r, &n) && n == 10);
    vp_rings_subtract(r, 0, VIEWS, in);
    for (int k = 8; k < VIEWS - 8; k++)
        CHECK_NEAR(in[k * PIXELS + at], 0, 1e-4);
    vp_rings_close(r);
    free(in);
}

static void test_nan(void)
{
    const struct vp_rings_params p = {NU, NV, VIEWS, 5, 9, 9, false, 1};
    float *in = calloc(VIEWS * PIXELS, sizeof *in);
    struct vp_rings_facts f;
    int64_t n;

    for (int k = 0; k < VIEWS; k++)
        in[k * PIXELS + 100] = k % 3 ? 1 : NAN;
    struct vp_rings *r = estimate(&p, in, 7, &f);
    CHECK_NEAR(vp_rings_maps(r, &n)[100], 1, 1e-7);
    CHECK_NEAR(vp_rings_maps(r, &n)[101], 0, 0);
    vp_rings_close(r);
    free(in);
}

static void test_sort(void)
{
    enum { N = 40 };
    float in[N * NU], out[2][N * NU];
    double squares[2] = {0, 0}, want[N * NU], window[16];
    int order[NU][N];
    struct vp_err err = VP_ERR_INIT;

    for (int i = 0; i < N * NU; i++)
        in[i] = (float)((int)(8 * random01())) + (i % NU == 20 && i / NU < 25 ? 3 : 0); /* ties, a partial stripe */
    for (int u = 0; u < NU; u++) { /* by insertion, equals in the order of views */
        for (int k = 0; k < N; k++) {
            int at = k;
            for (; at > 0 && in[order[u][at - 1] * NU + u] > in[k * NU + u]; at--)
                order[u][at] = order[u][at - 1];
            order[u][at] = k;
        }
    }
    for (int k = 0; k < N; k++)
        for (int u = 0; u < NU; u++) {
            int n = 0;
            for (int w = u - 3; w <= u + 3; w++)
                if (w >= 0 && w < NU)
                    window[n++] = (double)in[order[w][k] * NU + w];
            want[order[u][k] * NU + u] = median(window, n);
        }
    for (int t = 0; t < 2; t++) {
        memcpy(out[t], in, sizeof in);
        CHECK_INT(vp_rings_sort(out[t], NU, N, 7, 1 + 2 * t, &squares[t], &err), 0);
    }
    for (int i = 0; i < N * NU; i++)
        CHECK_NEAR(out[0][i], want[i], 0);
    CHECK(!memcmp(out[0], out[1], sizeof out[0]) && squares[0] == squares[1]);
}

int main(void)
{
    test_maps();
    test_promises();
    test_drift();
    test_nan();
    test_sort();
    return test_done();
}
