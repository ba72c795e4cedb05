/* SPDX-License-Identifier: BSD-3-Clause */
/* Flats that change in shape: made of two known patterns, with the noise of photons, before and after an object. */
#include "base/err.h"
#include "ct/flat_modes.h"
#include "test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { NU = 120, NV = 90, SIZE = NU * NV, FLATS = 24, VIEWS = 12 };

static float flats[FLATS * SIZE], flat[SIZE], dark[SIZE], range[SIZE], view[SIZE], out[SIZE];
static unsigned long long state = 1;

static double uniform(void)
{
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return ((double)(state >> 11) + 0.5) / 9007199254740992.0;
}

static double normal(void)
{
    return sqrt(-2 * log(uniform())) * cos(6.283185307179586 * uniform());
}

/* The beam with two patterns of amplitudes a and b, and its level. */
static double beam(int64_t i, double a, double b)
{
    const double u = (double)(i % NU) / NU, v = (double)(i / NU) / NV;
    return 2e4 * (1 - 0.5 * (u - 0.5) * (u - 0.5)) * (1 + a * sin(25 * v + 3 * u) + b * cos(40 * v));
}

static double object(int64_t i, int at)
{
    const double u = (double)(i % NU) - NU / 2.0 - at, v = (double)(i / NU) - NV / 2.0;
    return exp(-2 * sqrt(fmax(0, 1 - u * u / 900 - v * v / 700)) - (fabs(u - 10) < 4 && fabs(v) < 9));
}

static void count(float *to, int at, double a, double b, double level)
{
    for (int64_t i = 0; i < SIZE; i++) {
        const double n = level * beam(i, a, b) * (at < 0 ? 1 : object(i, at));
        to[i] = (float)(100 + n + sqrt(n) * normal());
    }
}

static void make(double size)
{
    double *const sum = calloc(SIZE, sizeof *sum);
    for (int k = 0; k < FLATS; k++) {
        count(flats + k * SIZE, -1, size * normal(), 0.4 * size * normal(), 1 + 0.02 * normal());
        for (int64_t i = 0; i < SIZE; i++)
            sum[i] += (double)flats[k * SIZE + i] / FLATS;
    }
    for (int64_t i = 0; i < SIZE; i++) {
        flat[i] = (float)sum[i];
        dark[i] = 100;
        range[i] = i == 777 ? NAN : flat[i] - 100;
    }
    free(sum);
}

/* Mean square of the error of the transmission, against the object at `at` at the best level. */
static double error(const float *by, int at)
{
    double product = 0, square = 0, sum = 0;
    for (int pass = 0; pass < 2; pass++)
        for (int64_t i = 0; i < SIZE; i++) {
            const double t = ((double)view[i] - 100) / (double)by[i], o = object(i, at);
            if (!isfinite(t))
                continue;
            if (pass)
                sum += (t - product / square * o) * (t - product / square * o);
            else {
                product += t * o;
                square += o * o;
            }
        }
    return sum / SIZE;
}

static void test_views(void)
{
    struct vp_flat_modes m;
    struct vp_err err = VP_ERR_INIT;
    make(0.05);
    CHECK_INT(vp_flat_modes_open(&m, flats, FLATS, flat, dark, NU, NV, 5, &err), 0);
    CHECK_INT(m.n, 2);
    CHECK(m.part > 0.8 && m.part < 1);
    /* a weighted rms of 1, and no change of the level */
    for (int k = 0; k < m.n; k++) {
        double sum = 0, square = 0, weights = 0;
        for (int64_t i = 0; i < SIZE; i++) {
            const double r = (double)m.ratio[k * SIZE + i], w = (double)flat[i] - 100;
            sum += w * r;
            square += w * r * r;
            weights += w;
        }
        CHECK_NEAR(sum / weights, 0, 1e-3);
        CHECK_NEAR(sqrt(square / weights), 1, 1e-3);
    }
    for (int k = 0; k < VIEWS; k++) {
        double weight[VP_FLAT_MODES_MOST], again[VP_FLAT_MODES_MOST];
        const double a = 0.05 * normal(), b = 0.02 * normal(), level = 1 + 0.02 * normal();
        count(view, k, a, b, level);
        vp_flat_modes_fit(&m, range, dark, view, weight);
        vp_flat_modes_fit(&m, range, dark, view, again);
        CHECK(!memcmp(weight, again, (size_t)m.n * sizeof *weight));
        vp_flat_modes_range(&m, weight, 0, SIZE, range, out);
        /* the best flat there is: the beam itself, at the mean's level */
        double noise = 0, rest = 0;
        for (int64_t i = 0; i < SIZE; i++) {
            const double t = object(i, k) * level, e = ((double)view[i] - 100) / beam(i, a, b) - t;
            noise += e * e / SIZE;
        }
        /* what remains beyond noise is mostly that of the mean flat, and little beside what the mean alone leaves */
        rest = error(out, k);
        CHECK(rest < 1.25 * noise);
        CHECK(fabs(a) < 0.02 || error(range, k) > 3 * rest);
    }
    vp_flat_modes_free(&m);
}

/* Flats that differ by noise and level alone: nothing stands out. */
static void test_steady(void)
{
    for (int seed = 1; seed <= 5; seed++) {
        struct vp_flat_modes m;
        struct vp_err err = VP_ERR_INIT;
        state = (unsigned long long)seed;
        make(0);
        CHECK_INT(vp_flat_modes_open(&m, flats, FLATS, flat, dark, NU, NV, 5, &err), 0);
        CHECK_INT(m.n, 0);
        vp_flat_modes_free(&m);
    }
}

static void test_refused(void)
{
    struct vp_flat_modes m;
    struct vp_err err = VP_ERR_INIT;
    make(0.05);
    CHECK_INT(vp_flat_modes_open(&m, flats, 4, flat, dark, NU, NV, 5, &err), -1);
    CHECK(strstr(err.msg, "expected 5 flats or more, got 4") != NULL);
    vp_flat_modes_free(&m);
    memset(flats + SIZE, 0, SIZE * sizeof *flats);
    err = (struct vp_err)VP_ERR_INIT;
    CHECK_INT(vp_flat_modes_open(&m, flats, FLATS, flat, dark, NU, NV, 5, &err), -1);
    CHECK(strstr(err.msg, "flat 1 is not above the dark field") != NULL);
    vp_flat_modes_free(&m);
}

int main(void)
{
    test_views();
    test_steady();
    test_refused();
    return test_done();
}
