/* SPDX-License-Identifier: BSD-3-Clause */
/* Means, variances and standard deviations against the definition in float64 (integers: in 64 bits), for all types,
 * shapes and instruction sets, and in random boxes. */
#include "base/err.h"
#include "boxes.h"
#include "samples.h"
#include "local/moments.h"

#include <float.h>

static const char *const ISAS[] = {"generic", "avx2", "avx512"};
static const enum vp_type TYPES[] = {VP_U8, VP_U16, VP_I16, VP_F32};

static double uniform(void)
{
    return (double)random_bits() * 0x1p-53;
}

static bool holds(const struct vp_footprint *f, int64_t dx, int64_t dy, int64_t dz)
{
    const int64_t d[3] = {dx, dy, dz};
    double sum = 0;

    for (int a = 0; a < 3; a++) {
        const double r = f->radius[a] + 1e-6;
        if (fabs((double)d[a]) > r)
            return false;
        if (d[a])
            sum += (double)(d[a] * d[a]) / (r * r);
    }
    return f->shape == VP_BOX || sum <= 1;
}

/* Mean and sum of squared deviations of the samples under the footprint: in two passes, in long double. */
static int64_t naive(const void *image, enum vp_type type, const int64_t n[3], const int64_t at[3],
                     const struct vp_footprint *f, long double *mean, long double *m2)
{
    int64_t count = 0;

    *mean = *m2 = 0;
    for (int pass = 0; pass < 2; pass++) {
        int64_t lo[3], hi[3];
        for (int a = 0; a < 3; a++) {
            lo[a] = at[a] - f->reach[a] - 1 < 0 ? 0 : at[a] - f->reach[a] - 1;
            hi[a] = at[a] + f->reach[a] + 2 > n[a] ? n[a] : at[a] + f->reach[a] + 2;
        }
        for (int64_t z = lo[2]; z < hi[2]; z++)
            for (int64_t y = lo[1]; y < hi[1]; y++)
                for (int64_t x = lo[0]; x < hi[0]; x++) {
                    if (!holds(f, x - at[0], y - at[1], z - at[2]))
                        continue;
                    const long double v = (long double)sample(image, type, (z * n[1] + y) * n[0] + x);
                    if (pass == 0) {
                        *mean += v;
                        count++;
                    } else
                        *m2 += (v - *mean) * (v - *mean);
                }
        if (pass == 0)
            *mean /= (long double)count;
    }
    return count;
}

/* How far a stored result may be from the true one. */
static double tolerance(enum vp_type out, double want)
{
    return out == VP_F32 ? fabs(want) * FLT_EPSILON / 2 * 1.001 + FLT_MIN : .5;
}

struct trial {
    int64_t n[3];
    enum vp_type in, out;
    enum vp_moment moment;
    bool sample;
    enum vp_shape shape;
    double r[3];
    int boxes;
};

static void compare(const struct trial *c, const void *image)
{
    const int64_t *n = c->n, count = n[0] * n[1] * n[2];
    const size_t bytes = (size_t)count * vp_type_size(c->out);
    struct vp_err err = VP_ERR_INIT;
    struct vp_footprint f;
    struct vp_op op;
    char *got = malloc(bytes);
    int bad = 0;

    CHECK_INT(vp_footprint_init(&f, c->shape, c->r, &err), 0);
    CHECK_INT(vp_moments_local(&op, c->moment, c->sample, &f, n, c->in, c->out, &err), 0);
    for (size_t i = 0; i < sizeof ISAS / sizeof *ISAS; i++) {
        if (!use_isa(ISAS[i]))
            continue;
        memset(got, 0x77, bytes);
        CHECK_INT(local_whole(&op, image, got, 2), 0);
        for (int64_t v = 0; v < count; v++) {
            const int64_t at[3] = {v % n[0], v / n[0] % n[1], v / n[0] / n[1]};
            long double mean, m2;
            const int64_t k = naive(image, c->in, n, at, &f, &mean, &m2);
            const int64_t left = k - c->sample > 0 ? k - c->sample : 1;
            double want = (double)(c->moment == VP_MEAN ? mean : m2 / (long double)left);
            if (c->moment == VP_STD)
                want = sqrt(want);
            /* the mean of integers: the nearest, not just a near one, even if it lies half-way */
            const double have = sample(got, c->out, v), tol = tolerance(c->out, want);
            const bool half = c->out != VP_F32 && want - floor(want) == .5 && have != 2 * rint(have / 2)
                              && want < vp_type_max(c->out) && want > vp_type_min(c->out);
            const double kept = fmax(fmin(want, vp_type_max(c->out)), vp_type_min(c->out));
            if (!(fabs(have - kept) <= tol && !half) && bad++ < 3)
                printf("%s at %lld %lld %lld: expected %.9g, got %.9g\n", op.text, (long long)at[0],
                       (long long)at[1], (long long)at[2], want, have);
        }
        CHECK_INT(bad, 0);
        check_boxes(&op, image, got, c->boxes);
    }
    op.free(op.params);
    vp_footprint_free(&f);
    free(got);
}

static void all(void)
{
    static const int64_t sizes[][3] = {{37, 8, 7}, {1, 1, 1}, {70, 5, 1}, {3, 17, 6}, {5, 1, 13}, {1, 9, 4}};
    static const double radii[][3] = {{0, 0, 0}, {1, 1, 1}, {3, 2, 1}, {1.5, 1.5, 1.5}, {2.6, 0, 3}, {0, 4, 0},
                                      {40, 1, 2}, {6, 30, 30}, {100, 100, 100}, {20, 5, 4}};
    int turn = 0;

    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (size_t j = 0; j < sizeof radii / sizeof *radii; j++)
            for (int shape = 0; shape < 2; shape++, turn++) {
                struct trial c = {.in = TYPES[turn % 7 % 4], .moment = (enum vp_moment)(turn % 3), .sample = turn % 2,
                                  .shape = shape ? VP_BALL : VP_BOX, .boxes = 1};
                const int64_t count = sizes[i][0] * sizes[i][1] * sizes[i][2];
                void *image = malloc((size_t)count * 4);
                c.out = turn % 5 ? VP_F32 : c.in != VP_F32 ? c.in : turn % 2 ? VP_U16 : VP_I16;
                memcpy(c.n, sizes[i], sizeof c.n);
                memcpy(c.r, radii[j], sizeof c.r);
                for (int64_t v = 0; v < count; v++)
                    put(image, c.in, v, c.in == VP_F32 ? 40 * uniform() - 10 : c.in == VP_I16
                        ? floor(65536 * uniform()) - 32768 : floor(uniform() * (vp_type_max(c.in) + 1)));
                compare(&c, image);
                free(image);
            }
}

/* 1e6 with noise, steps of twenty orders of magnitude, the largest values: nothing cancels or overflows. */
static void hard_values(void)
{
    enum { NX = 29, NY = 9, NZ = 8, N = NX * NY * NZ };
    static float image[N];
    static uint16_t large[N];

    for (int shape = 0; shape < 2; shape++)
        for (int kind = 0; kind < 4; kind++) {
            for (int i = 0; i < N; i++)
                image[i] = kind == 0 ? 1e6f + (float)(uniform() - .5) * .5f
                         : kind == 1 ? (i % NX < 12 ? 1e-10f : 1e10f) * (float)(1 + uniform())
                         : kind == 2 ? (float)((uniform() - .5) * 6e38) : 1e6f + (float)(i == N / 2) * .0625f;
            for (int m = 0; m < 3; m++)
                if (kind != 2 || m != VP_VAR) /* beyond float32 */
                    compare(&(struct trial){{NX, NY, NZ}, VP_F32, VP_F32, (enum vp_moment)m, false,
                            shape ? VP_BALL : VP_BOX, {3, 2, 2.5}, 1}, image);
        }
    for (int i = 0; i < N; i++)
        large[i] = (uint16_t)(65535 - (i % 17 == 0));
    compare(&(struct trial){{NX, NY, NZ}, VP_U16, VP_F32, VP_VAR, false, VP_BOX, {9, 9, 9}, 1}, large);
    compare(&(struct trial){{NX, NY, NZ}, VP_U16, VP_U16, VP_STD, true, VP_BOX, {3, 3, 3}, 1}, large);
}

/* Sums of more than 2^31 and products of more than 2^63: the widest path. */
static void wide(void)
{
    const int64_t n[3] = {120, 70, 9};
    uint16_t *image = malloc(sizeof *image * 120 * 70 * 9);
    float *got = malloc(sizeof *got * 120 * 70 * 9);
    struct vp_err err = VP_ERR_INIT;
    struct vp_footprint f;
    struct vp_op op;

    for (int i = 0; i < 120 * 70 * 9; i++)
        image[i] = (uint16_t)(65535 - random_bits() % 3);
    CHECK_INT(vp_footprint_init(&f, VP_BOX, (double[]){75, 55, 9}, &err), 0);
    CHECK_INT(vp_moments_local(&op, VP_VAR, false, &f, n, VP_U16, VP_F32, &err), 0);
    local_whole(&op, image, got, 2);
    for (int i = 0; i < 120 * 70 * 9; i += 1999) {
        long double mean, m2;
        const int64_t at[3] = {i % 120, i / 120 % 70, i / 120 / 70};
        const int64_t k = naive(image, VP_U16, n, at, &f, &mean, &m2);
        CHECK(k > 32768);
        CHECK_NEAR(got[i], (double)(m2 / (long double)k), 1e-7);
    }
    op.free(op.params);
    vp_footprint_free(&f);
    free(image);
    free(got);
}

static void constants(void)
{
    static const float values[] = {0.1f, 1e6f, -3.14159265f, 1e-38f, 3e38f, 16777215.f};
    static float image[40 * 13 * 11], got[40 * 13 * 11];
    struct vp_err err = VP_ERR_INIT;
    struct vp_footprint f;
    struct vp_op op;

    for (size_t k = 0; k < sizeof values / sizeof *values; k++)
        for (int m = 0; m < 3; m++)
            for (int shape = 0; shape < 2; shape++)
                for (size_t s = 0; s < sizeof ISAS / sizeof *ISAS; s++) {
                    int bad = 0;
                    for (int i = 0; i < 40 * 13 * 11; i++)
                        image[i] = values[k];
                    vp_footprint_init(&f, shape ? VP_BALL : VP_BOX, (double[]){5, 3, 3.5}, &err);
                    CHECK_INT(vp_moments_local(&op, (enum vp_moment)m, false, &f, (int64_t[]){40, 13, 11}, VP_F32,
                                               VP_F32, &err), 0);
                    if (use_isa(ISAS[s])) {
                        local_whole(&op, image, got, 2);
                        for (int i = 0; i < 40 * 13 * 11; i++)
                            bad += got[i] != (m == VP_MEAN ? values[k] : 0);
                        CHECK_INT(bad, 0);
                    }
                    op.free(op.params);
                    vp_footprint_free(&f);
                }
}

/* NaN spoils the neighbourhoods that hold it and no other. */
static void not_finite(void)
{
    static float image[30 * 9 * 9], got[30 * 9 * 9];
    struct vp_err err = VP_ERR_INIT;
    struct vp_footprint f;
    struct vp_op op;

    for (int special = 0; special < 2; special++)
        for (int m = 0; m < 3; m++)
            for (int shape = 0; shape < 2; shape++) {
                int bad = 0;
                for (int i = 0; i < 30 * 9 * 9; i++)
                    image[i] = (float)uniform();
                image[(4 * 9 + 5) * 30 + 11] = special ? INFINITY : NAN;
                vp_footprint_init(&f, shape ? VP_BALL : VP_BOX, (double[]){2, 1, 2}, &err);
                CHECK_INT(vp_moments_local(&op, (enum vp_moment)m, false, &f, (int64_t[]){30, 9, 9}, VP_F32, VP_F32,
                                           &err), 0);
                local_whole(&op, image, got, 1);
                for (int i = 0; i < 30 * 9 * 9; i++) {
                    const bool hit = holds(&f, i % 30 - 11, i / 30 % 9 - 5, i / 270 - 4);
                    bad += !hit ? !isfinite(got[i]) : !special ? !isnan(got[i])
                         : m == VP_MEAN ? got[i] != INFINITY : isfinite(got[i]);
                }
                CHECK_INT(bad, 0);
                op.free(op.params);
                vp_footprint_free(&f);
            }
}

static void tiles(void)
{
    static const int64_t n[3] = {530, 34, 21};
    const int64_t count = 530 * 34 * 21;
    float *image = malloc((size_t)count * sizeof *image), *got = malloc((size_t)count * sizeof *got);
    struct vp_err err = VP_ERR_INIT;
    struct vp_footprint f;
    struct vp_op op;

    for (int turn = 0; turn < 8; turn++) {
        const enum vp_type type = turn & 1 ? VP_F32 : VP_U16;
        for (int64_t i = 0; i < count; i++)
            put(image, type, i, floor(65536 * uniform()));
        CHECK_INT(vp_footprint_init(&f, turn & 2 ? VP_BALL : VP_BOX, (double[]){4, 5, 3.5}, &err), 0);
        CHECK_INT(vp_moments_local(&op, turn & 4 ? VP_MEAN : VP_STD, false, &f, n, type, VP_F32, &err), 0);
        check_tiles(&op, image, got);
        for (int64_t i = 0; i < count; i += 1999) {
            long double mean, m2;
            const int64_t k = naive(image, type, n, (int64_t[]){i % 530, i / 530 % 34, i / 530 / 34}, &f, &mean, &m2);
            const double want = turn & 4 ? (double)mean : sqrt((double)(m2 / (long double)k));
            CHECK_NEAR(got[i], want, want * 1e-7);
        }
        op.free(op.params);
        vp_footprint_free(&f);
    }
    free(image);
    free(got);
}

static void refused(void)
{
    struct vp_err err = VP_ERR_INIT;
    struct vp_footprint f;
    struct vp_op op;

    CHECK_INT(vp_footprint_init(&f, VP_BOX, (double[]){1e6, 1e6, 1e6}, &err), 0);
    CHECK_INT(vp_moments_local(&op, VP_STD, false, &f, (int64_t[]){4, 4, 4}, VP_U64, VP_F64, &err), -1);
    CHECK_INT(err.code, VP_EUSAGE);
    err = (struct vp_err)VP_ERR_INIT;
    CHECK_INT(vp_moments_local(&op, VP_STD, false, &f, (int64_t[]){4, 4, 4}, VP_U8, VP_U16, &err), -1);
    CHECK_INT(err.code, VP_EUSAGE);
    err = (struct vp_err)VP_ERR_INIT;
    CHECK_INT(vp_moments_local(&op, VP_MEAN, false, &f, (int64_t[]){1 << 20, 1 << 20, 4}, VP_U8, VP_U8, &err), -1);
    CHECK_INT(err.code, VP_EUSAGE);
}

int main(void)
{
    all();
    hard_values();
    wide();
    constants();
    not_finite();
    tiles();
    refused();
    return test_done();
}
