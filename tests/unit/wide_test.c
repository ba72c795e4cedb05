/* SPDX-License-Identifier: BSD-3-Clause */
/* Local operations on u32, i32 and f64, by every instruction set: ranks and extrema against sorting, exactly; moments,
 * Gaussians and non-local means against their formulas in long double; boxes of another size for every voxel against sums
 * that are exact; pieces of an image against the whole. */
#include "base/err.h"
#include "local/extremum.h"
#include "local/gauss.h"
#include "local/log.h"
#include "local/moments.h"
#include "local/nlmeans.h"
#include "local/radius_map.h"
#include "local/rank.h"
#include "boxes.h"
#include "samples.h"
#include "test.h"

#include <float.h>
#include <stdlib.h>

enum { NX = 23, NY = 17, NZ = 5, N = NX * NY * NZ };
static const int64_t SIZE[3] = {NX, NY, NZ};
static const enum vp_type TYPES[] = {VP_U32, VP_I32, VP_F64};
static const char *const ISAS[] = {"generic", "avx2", "avx512"};

static double image[N], result[N], whole[N]; /* room for any of the types */

static void fill(enum vp_type type, bool odd)
{
    static const double some[] = {0.0, -0.0, NAN, INFINITY, -INFINITY, 5e-324, -DBL_MAX, DBL_MAX};

    for (int64_t i = 0; i < N; i++) {
        const double u = (double)random_bits() * 0x1p-53;
        put(image, type, i, type == VP_U32 ? floor(u * 4294967296.) : type == VP_I32 ? floor(u * 4294967296.) - 2147483648.
                            : odd && random_bits() % 6 == 0 ? some[random_bits() % 8] : (u - .3) * 1e5);
    }
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    if (x != x || y != y)
        return (x != x) - (y != y);
    return x == 0 && y == 0 ? !!signbit(y) - !!signbit(x) : (x > y) - (x < y);
}

/* Lists the samples of a neighbourhood that exist; returns their number. */
static int64_t list(enum vp_type type, const struct vp_footprint *f, int64_t i, double *to)
{
    const int64_t x = i % NX, y = i / NX % NY, z = i / NX / NY;
    const bool box = f->shape == VP_BOX; /* it has no spans */
    const int64_t wide = 2 * f->reach[1] + 1, rows = box ? wide * (2 * f->reach[2] + 1) : f->spans;
    int64_t n = 0;

    for (int64_t s = 0; s < rows; s++)
        for (int64_t dx = box ? -f->reach[0] : f->span[s].x0; dx <= (box ? f->reach[0] : f->span[s].x1); dx++) {
            const int64_t at[3] = {x + dx, y + (box ? s % wide - f->reach[1] : f->span[s].dy),
                                   z + (box ? s / wide - f->reach[2] : f->span[s].dz)};
            if (at[0] >= 0 && at[0] < NX && at[1] >= 0 && at[1] < NY && at[2] >= 0 && at[2] < NZ)
                to[n++] = sample(image, type, (at[2] * NY + at[1]) * NX + at[0]);
        }
    return n;
}

static bool same(double a, double b)
{
    return a != a ? b != b : memcmp(&a, &b, sizeof a) == 0;
}

/* Runs an operation on the image and releases it; `wrong` results are those that differ from naive(i, v, n), of the n
 * samples v of the neighbourhood, by more than `near` (0: not at all). */
static void compare(struct vp_op *op, enum vp_type type, const struct vp_footprint *f,
                    long double (*naive)(double *v, int64_t n), double near)
{
    double *const v = malloc((size_t)f->count * sizeof *v);
    int64_t wrong = 0;

    CHECK_INT(local_whole(op, image, result, 2), 0);
    for (int64_t i = 0; i < N; i++) {
        const int64_t n = list(type, f, i, v);
        const long double want = naive(v, n);
        const double got = sample(result, op->out, i);
        wrong += near > 0 ? !(fabsl(got - want) <= near) : !same(got, (double)want);
    }
    if (wrong)
        printf("%s of %s\n", op->text, vp_type_name(type));
    CHECK_INT(wrong, 0);
    memcpy(whole, result, sizeof whole);
    check_boxes(op, image, whole, 1);
    op->free(op->params);
    free(v);
}

static long double ranked(double *v, int64_t n, double percent)
{
    const double place = ceil(percent * (double)n / 100 - 1e-9);

    qsort(v, (size_t)n, sizeof *v, by_value);
    return v[place < 1 ? 0 : (int64_t)place - 1];
}

static long double median(double *v, int64_t n) { return ranked(v, n, 50); }
static long double percentile(double *v, int64_t n) { return ranked(v, n, 30); }
static long double least(double *v, int64_t n) { return ranked(v, n, 0); }

/* NaN is left out. */
static long double most(double *v, int64_t n)
{
    qsort(v, (size_t)n, sizeof *v, by_value);
    while (n > 1 && v[n - 1] != v[n - 1])
        n--;
    return v[n - 1];
}

static long double total(const double *v, int64_t n)
{
    long double sum = 0;

    for (int64_t i = 0; i < n; i++)
        sum += v[i];
    return sum;
}

static long double mean(double *v, int64_t n) { return total(v, n) / n; }

static long double deviation(double *v, int64_t n)
{
    const long double m = mean(v, n);
    long double sum = 0;

    for (int64_t i = 0; i < n; i++)
        sum += (v[i] - m) * (v[i] - m);
    return sqrtl(sum / n);
}

static long double rounded_mean(double *v, int64_t n) { return rintl(mean(v, n)); }

static void test_windows(enum vp_type type)
{
    static const struct { enum vp_shape shape; double radius[3]; } windows[] = {
        {VP_BOX, {1, 1, 0}}, {VP_BOX, {3, 2, 1}}, {VP_BALL, {2.5, 2.5, 2.5}}, {VP_BOX, {9, 9, 2}}, {VP_BOX, {0, 0, 0}}};
    const double range = type == VP_F64 ? 1e5 : 4294967296.;
    struct vp_err err = VP_ERR_INIT;

    for (size_t w = 0; w < sizeof windows / sizeof *windows; w++) {
        struct vp_footprint f;
        struct vp_op op;
        CHECK_INT(vp_footprint_init(&f, windows[w].shape, windows[w].radius, &err), 0);
        fill(type, true);
        for (int moving = 0; moving < 2; moving++) {
            CHECK_INT(vp_rank_local(&op, 50, &f, SIZE, type, moving, &err), 0);
            compare(&op, type, &f, median, 0);
            CHECK_INT(vp_rank_local(&op, 30, &f, SIZE, type, moving, &err), 0);
            compare(&op, type, &f, percentile, 0);
        }
        CHECK_INT(vp_extremum_local(&op, false, &f, SIZE, type, &err), 0);
        compare(&op, type, &f, least, 0);
        CHECK_INT(vp_extremum_local(&op, true, &f, SIZE, type, &err), 0);
        compare(&op, type, &f, most, 0);
        fill(type, false);
        CHECK_INT(vp_moments_local(&op, VP_MEAN, false, &f, SIZE, type, VP_F64, &err), 0);
        compare(&op, type, &f, mean, range * 1e-15);
        CHECK_INT(vp_moments_local(&op, VP_STD, false, &f, SIZE, type, VP_F64, &err), 0);
        compare(&op, type, &f, deviation, range * 1e-15);
        CHECK_INT(vp_moments_local(&op, VP_MEAN, false, &f, SIZE, type, type, &err), 0);
        compare(&op, type, &f, type == VP_F64 ? mean : rounded_mean, type == VP_F64 ? range * 1e-15 : 1e-9);
        vp_footprint_free(&f);
    }
}

/* ---- Gaussians ---- */

static int64_t beyond(enum vp_edge edge, int64_t i, int64_t n)
{
    return i >= 0 && i < n ? i : edge == VP_EDGE_RENORMALIZE ? -1 : vp_edge_from(edge, i, n);
}

/* Filters `from` along an axis. */
static void filter_axis(const long double *from, long double *to, int axis, double sigma, enum vp_edge edge)
{
    const int64_t step = axis == 0 ? 1 : axis == 1 ? NX : NX * NY, r = (int64_t)(4 * sigma + .5), n = SIZE[axis];

    for (int64_t i = 0; i < N; i++) {
        const int64_t at = i / step % n;
        long double sum = 0, weight = 0;
        for (int64_t j = -r; j <= r; j++) {
            const int64_t k = beyond(edge, at + j, n);
            const long double g = expl(-.5L * j * j / sigma / sigma);
            if (k >= 0 || edge == VP_EDGE_ZERO)
                weight += g;
            if (k >= 0)
                sum += g * from[i + (k - at) * step];
        }
        to[i] = sum / weight;
    }
}

static void test_gauss(void)
{
    static const double sigma[3] = {1.7, 2.4, .8};
    static long double a[N], b[N];
    struct vp_err err = VP_ERR_INIT;

    for (int edge = VP_EDGE_RENORMALIZE; edge <= VP_EDGE_WRAP; edge++) {
        const struct vp_gauss_params p = {.sigma = {sigma[0], sigma[1], sigma[2]}, .truncate = 4, .spacing = {1, 1, 1},
                                          .edge = (enum vp_edge)edge, .iterations = 1};
        struct vp_chain c = {0};
        fill(VP_F64, false);
        for (int64_t i = 0; i < N; i++)
            a[i] = image[i];
        for (int axis = 0; axis < 3; axis++)
            filter_axis(axis % 2 ? b : a, axis % 2 ? a : b, axis, sigma[axis], p.edge);
        CHECK_INT(vp_gauss_chain(&c, &p, SIZE, VP_F64, VP_F64, &err), 0);
        CHECK_INT(local_whole(&c.stage[0], image, result, 2), 0);
        double off = 0;
        for (int64_t i = 0; i < N; i++)
            off = fmax(off, (double)fabsl(result[i] - b[i]));
        CHECK_NEAR(off / 1e5, 0, 2e-16);
        memcpy(whole, result, sizeof whole);
        check_boxes(&c.stage[0], image, whole, 2);
        if (edge != VP_EDGE_WRAP)
            check_columns(&c.stage[0], image, whole, 2);
        vp_chain_free(&c);
    }
}

/* Quadratics give the exact slope and curvature along x, up to the last voxel. */
static void test_derivatives(void)
{
    struct vp_err err = VP_ERR_INIT;

    for (int order = 1; order <= 2; order++) {
        struct vp_gauss_params p = {.sigma = {1.2, 0, 0}, .truncate = 4, .spacing = {1, 1, 1}, .order = {order},
                                    .iterations = 1};
        struct vp_chain c = {0};
        for (int64_t i = 0; i < N; i++) {
            const double x = (double)(i % NX);
            image[i] = 3 * x * x - 7 * x + 1000 + (double)(i / NX % 7);
        }
        CHECK_INT(vp_gauss_chain(&c, &p, SIZE, VP_F64, VP_F64, &err), 0);
        CHECK_INT(local_whole(&c.stage[0], image, result, 1), 0);
        for (int64_t i = 0; i < N; i++)
            CHECK_NEAR(result[i], order == 1 ? 6 * (double)(i % NX) - 7 : 6, 1e-11);
        vp_chain_free(&c);
    }
    const struct vp_log_params l = {.sigma = {1.5, 1.1, .9}, .truncate = 4, .spacing = {1, 1, 1}};
    struct vp_chain c = {0};
    for (int64_t i = 0; i < N; i++) {
        const double x = (double)(i % NX), y = (double)(i / NX % NY), z = (double)(i / NX / NY);
        image[i] = 3 * x * x - y * y + .5 * z * z + x - z + 1e4;
    }
    CHECK_INT(vp_log_chain(&c, &l, SIZE, VP_F64, &err), 0);
    CHECK_INT(c.stage[0].out, VP_F64);
    CHECK_INT(local_whole(&c.stage[0], image, result, 2), 0);
    for (int64_t i = 0; i < N; i++)
        CHECK_NEAR(result[i], 5, 1e-9);
    memcpy(whole, result, sizeof whole);
    check_columns(&c.stage[0], image, whole, 1);
    vp_chain_free(&c);
}

/* ---- non-local means ---- */

static bool inside(int64_t x, int64_t y) { return x >= 0 && x < NX && y >= 0 && y < NY; }

static long double nlmeans_at(int64_t x, int64_t y, double h, double sigma)
{
    long double weight = 0, value = 0;

    for (int64_t sy = -2; sy <= 2; sy++)
        for (int64_t sx = -2; sx <= 2; sx++) {
            long double d2 = 0;
            int pairs = 0;
            if (!inside(x + sx, y + sy))
                continue;
            for (int64_t py = -1; py <= 1; py++)
                for (int64_t px = -1; px <= 1; px++)
                    if (inside(x + px, y + py) && inside(x + px + sx, y + py + sy)) {
                        const long double d = (long double)image[(y + py) * NX + x + px] - image[(y + py + sy) * NX + x + px + sx];
                        d2 += d * d;
                        pairs++;
                    }
            const long double w = expl(-fmaxl(d2 / pairs - 2 * (long double)sigma * sigma, 0) / ((long double)h * h));
            weight += w;
            value += w * image[(y + sy) * NX + x + sx];
        }
    return value / weight;
}

static void test_nlmeans(void)
{
    const int64_t plane[3] = {NX, NY, 1};
    struct vp_err err = VP_ERR_INIT;
    struct vp_op op;

    fill(VP_F64, false);
    CHECK_INT(vp_nlmeans_local(&op, 3e4, 5e3, (int64_t[]){2, 2, 0}, (int64_t[]){1, 1, 0}, plane, VP_F64, VP_F64, &err), 0);
    CHECK_INT(local_whole(&op, image, result, 2), 0);
    for (int64_t i = 0; i < NX * NY; i++)
        CHECK_NEAR(result[i], (double)nlmeans_at(i % NX, i / NX, 3e4, 5e3), 1e-15 * 1e5);
    memcpy(whole, result, sizeof whole);
    check_boxes(&op, image, whole, 3);
    op.free(op.params);
}

/* ---- boxes of another size for every voxel ---- */

static void test_radius_map(enum vp_type type, enum vp_radius_stat stat, bool volume)
{
    struct vp_radius_map want = {.stat = stat, .whole = type != VP_F64, .from = type, .volume = volume, .reach = 4};
    static double radius[N], samples[N], v[N];
    void *in[2][NZ], *out[NZ];
    struct vp_err err = VP_ERR_INIT;
    struct vp_op op;

    fill(type, false);
    want.lo = INFINITY;
    want.hi = -INFINITY;
    for (int64_t i = 0; i < N; i++) {
        samples[i] = sample(image, type, i);
        radius[i] = (double)random_in(0, 4);
        want.lo = fmin(want.lo, samples[i]);
        want.hi = fmax(want.hi, samples[i]);
    }
    for (int z = 0; z < NZ; z++) {
        in[0][z] = samples + z * NX * NY;
        in[1][z] = radius + z * NX * NY;
        out[z] = result + z * NX * NY;
    }
    CHECK_INT(vp_radius_map_local(&op, &want, SIZE, VP_F64, VP_F64, &err), 0);
    const struct vp_box all = {{0, 0, 0}, {NX, NY, NZ}};
    const struct vp_part from[2] = {{all, NX, in[0]}, {all, NX, in[1]}};
    void *scratch = NULL;
    if (posix_memalign(&scratch, 64, op.scratch(&op, &all, &all, 2)))
        exit(1);
    for (int piece = 0; piece < 6; piece++) { /* of rows, each with tables of its own */
        struct vp_box box = all;
        void *rows[NZ];
        box.lo[1] = piece * 3;
        box.hi[1] = vp_min64(box.lo[1] + 3, NY);
        for (int z = 0; z < NZ; z++)
            rows[z] = (double *)out[z] + box.lo[1] * NX;
        const struct vp_part to = {box, NX, rows};
        CHECK_INT(op.run(&op, from, &to, scratch, 2, &err), 0);
    }
    for (int64_t i = 0; i < N; i++) {
        const int64_t x = i % NX, y = i / NX % NY, z = i / NX / NY, r = (int64_t)radius[i];
        int64_t n = 0;
        for (int64_t k = volume ? vp_max64(z - r, 0) : z; k <= (volume ? vp_min64(z + r, NZ - 1) : z); k++)
            for (int64_t j = vp_max64(y - r, 0); j <= vp_min64(y + r, NY - 1); j++)
                for (int64_t h = vp_max64(x - r, 0); h <= vp_min64(x + r, NX - 1); h++)
                    v[n++] = samples[(k * NY + j) * NX + h];
        const double range = want.hi - want.lo;
        if (stat == VP_RADIUS_STD)
            CHECK_NEAR(result[i], (double)deviation(v, n), range * 1e-14);
        else if (stat == VP_RADIUS_SUM && want.whole)
            CHECK_INT(result[i], total(v, n));
        else if (stat == VP_RADIUS_SUM) /* the sum of few samples, which long double holds */
            CHECK_NEAR(result[i], (double)total(v, n), range * (double)n * 2e-16);
        else
            CHECK_NEAR(result[i], (double)mean(v, n), range * 2e-16);
    }
    free(scratch);
    op.free(op.params);
}

int main(void)
{
    for (size_t isa = 0; isa < sizeof ISAS / sizeof *ISAS; isa++) {
        if (!use_isa(ISAS[isa]))
            continue;
        for (size_t t = 0; t < sizeof TYPES / sizeof *TYPES; t++)
            test_windows(TYPES[t]);
        test_gauss();
        test_derivatives();
        test_nlmeans();
    }
    for (int i = 0; i < 18; i++)
        test_radius_map(TYPES[i % 3], i / 3 % 3 == 0 ? VP_RADIUS_MEAN : i / 3 % 3 == 1 ? VP_RADIUS_SUM : VP_RADIUS_STD,
                        i / 9);
    return test_done();
}
