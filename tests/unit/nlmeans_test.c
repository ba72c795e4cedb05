/* SPDX-License-Identifier: BSD-3-Clause */
/* Non-local means against the formula in float64 over the voxels that exist; pieces of an image against the whole. */
#include "base/err.h"
#include "local/nlmeans.h"
#include "local/nlmeans_isa.h"
#include "boxes.h"
#include "samples.h"
#include "test.h"

#include <stdlib.h>

static const char *const ISAS[] = {"generic", "avx2", "avx512"};

static bool inside(const int64_t n[3], int64_t x, int64_t y, int64_t z)
{
    return x >= 0 && x < n[0] && y >= 0 && y < n[1] && z >= 0 && z < n[2];
}

struct setting { double h, sigma; int64_t search[3], patch[3]; };

static double distance(const double *v, const int64_t n[3], const struct setting *s, const int64_t at[3],
                       const int64_t d[3])
{
    double sum = 0;
    int count = 0;

    for (int64_t k = -s->patch[2]; k <= s->patch[2]; k++)
        for (int64_t j = -s->patch[1]; j <= s->patch[1]; j++)
            for (int64_t i = -s->patch[0]; i <= s->patch[0]; i++) {
                const int64_t x = at[0] + i, y = at[1] + j, z = at[2] + k;
                if (!inside(n, x, y, z) || !inside(n, x + d[0], y + d[1], z + d[2]))
                    continue;
                const double e = v[(z * n[1] + y) * n[0] + x] - v[((z + d[2]) * n[1] + y + d[1]) * n[0] + x + d[0]];
                sum += e * e;
                count++;
            }
    return sum / count;
}

static double naive(const double *v, const int64_t n[3], const struct setting *s, const int64_t at[3])
{
    double total = 0, value = 0;
    int64_t d[3];

    for (d[2] = -s->search[2]; d[2] <= s->search[2]; d[2]++)
        for (d[1] = -s->search[1]; d[1] <= s->search[1]; d[1]++)
            for (d[0] = -s->search[0]; d[0] <= s->search[0]; d[0]++) {
                if (!inside(n, at[0] + d[0], at[1] + d[1], at[2] + d[2]))
                    continue;
                const double d2 = distance(v, n, s, at, d);
                const double w = exp(-fmax(d2 - 2 * s->sigma * s->sigma, 0) / (s->h * s->h));
                total += w;
                value += w * v[((at[2] + d[2]) * n[1] + at[1] + d[1]) * n[0] + at[0] + d[0]];
            }
    return value / total;
}

static void compare(enum vp_type in, enum vp_type out_type, const int64_t n[3], const struct setting *s)
{
    const int64_t voxels = n[0] * n[1] * n[2];
    struct vp_err err = VP_ERR_INIT;
    const size_t bytes = (size_t)voxels * vp_type_size(out_type);
    char *image = malloc((size_t)voxels * vp_type_size(in)), *out = malloc(bytes);
    double *v = malloc((size_t)voxels * sizeof *v);
    const void *from = image;

    for (int64_t i = 0; i < voxels; i++) {
        const int r = (int)(random_bits() % 64) + 100 * (int)(i / 5 % 2);
        switch (in) {
        case VP_U8: ((uint8_t *)image)[i] = (uint8_t)r; break;
        case VP_U16: ((uint16_t *)(void *)image)[i] = (uint16_t)(r + 60000); break;
        case VP_I16: ((int16_t *)(void *)image)[i] = (int16_t)(r - 100); break;
        default: ((float *)(void *)image)[i] = (float)r * 0.37f;
        }
        v[i] = sample(image, in, i);
    }
    for (size_t k = 0; k < sizeof ISAS / sizeof *ISAS; k++) {
        struct vp_chain c = {0};
        struct vp_op op;
        int64_t wrong = 0;
        CHECK(k || use_isa(ISAS[k]));
        if (!use_isa(ISAS[k]))
            continue;
        CHECK_INT(vp_nlmeans_local(&op, s->h, s->sigma, s->search, s->patch, n, in, out_type, &err), 0);
        CHECK_INT(vp_chain_add(&c, &op, &err), 0);
        CHECK_INT(vp_chain_apply(&c, &from, out, 2, &err), 0);
        for (int64_t i = 0; i < voxels; i++) {
            const double want = naive(v, n, s, (const int64_t[]){i % n[0], i / n[0] % n[1], i / n[0] / n[1]});
            const double tol = (out_type == VP_F32 ? 0 : 0.5) + 2e-4 + 2e-7 * fabs(want);
            wrong += !(fabs(sample(out, out_type, i) - want) <= tol);
        }
        CHECK_INT(wrong, 0);
        check_boxes(&c.stage[0], image, out, 1);
        vp_chain_free(&c);
    }
    free(image);
    free(out);
    free(v);
}

static void test_naive(void)
{
    const struct setting plane = {30, 0, {4, 4, 0}, {2, 2, 0}}, noisy = {20, 15, {5, 3, 0}, {1, 2, 0}};
    const struct setting volume = {25, 10, {2, 2, 2}, {1, 1, 1}}, odd = {40, 0, {3, 1, 2}, {2, 0, 1}};
    const struct setting wide = {60, 0, {9, 9, 9}, {4, 4, 4}}, point = {50, 0, {1, 1, 1}, {0, 0, 0}};

    compare(VP_U8, VP_U8, (const int64_t[]){40, 21, 1}, &plane);
    compare(VP_F32, VP_F32, (const int64_t[]){150, 18, 1}, &noisy);
    compare(VP_I16, VP_I16, (const int64_t[]){33, 9, 2}, &plane);
    compare(VP_U16, VP_F32, (const int64_t[]){20, 18, 9}, &volume);
    compare(VP_F32, VP_F32, (const int64_t[]){12, 11, 10}, &odd);
    compare(VP_U8, VP_F32, (const int64_t[]){7, 6, 5}, &wide);
    compare(VP_U8, VP_F32, (const int64_t[]){1, 1, 1}, &wide);
    compare(VP_I16, VP_I16, (const int64_t[]){70, 3, 3}, &point);
}

/* The fast exponential keeps its promise. */
static void test_exponential(void)
{
    enum { N = 64 };
    float a[N], e[N];

    for (size_t k = 0; k < sizeof ISAS / sizeof *ISAS; k++) {
        double worst = 0;
        if (use_isa(ISAS[k])) {
            const struct vp_nlmeans_isa *const isa = VP_ISA_FIND(vp_nlmeans, NULL);
            for (int i = 0; i < 2000; i++) {
                for (int j = 0; j < N; j++)
                    a[j] = -87.0f * powf((float)(i * N + j) / (2000 * N), 3);
                isa->exponential(e, a, N);
                for (int j = 0; j < N; j++)
                    worst = fmax(worst, fabs(e[j] / exp((double)a[j]) - 1));
            }
            CHECK(worst > 0 && worst < 3e-7);
            const float odd[] = {0, -0.0f, -INFINITY, -88, NAN, -87.5f, -1e30f, -1e-30f};
            for (int j = 0; j < N; j++)
                a[j] = odd[j % 8];
            isa->exponential(e, a, N);
            CHECK(e[0] == 1 && e[1] == 1 && e[2] == 0 && e[3] == 0);
            CHECK(e[4] != e[4] && e[5] == 0 && e[6] == 0 && e[7] == 1);
        }
    }
}

/* Constants stay to the bit, and a step much higher than h. */
static void test_exact(void)
{
    const int64_t n[3] = {40, 20, 1}, search[3] = {5, 5, 0}, patch[3] = {2, 2, 0};
    static float image[800], out[800];
    struct vp_err err = VP_ERR_INIT;
    const void *in = image;
    struct vp_op op;

    for (int turn = 0; turn < 2; turn++) {
        struct vp_chain c = {0};
        int wrong = 0;
        for (int i = 0; i < 800; i++)
            image[i] = turn && i % 40 >= 20 ? 1000.1f : 0.1f;
        CHECK_INT(vp_nlmeans_local(&op, 1, 0, search, patch, n, VP_F32, VP_F32, &err), 0);
        CHECK_INT(vp_chain_add(&c, &op, &err), 0);
        CHECK_INT(vp_chain_apply(&c, &in, out, 2, &err), 0);
        for (int i = 0; i < 800; i++)
            wrong += out[i] != image[i];
        CHECK_INT(wrong, 0);
        vp_chain_free(&c);
    }
}

/* A NaN reaches what its help text says, and no farther. */
static void test_nan(void)
{
    const int64_t n[3] = {40, 20, 1}, search[3] = {3, 3, 0}, patch[3] = {1, 1, 0};
    static float image[800], out[800];
    struct vp_err err = VP_ERR_INIT;
    struct vp_chain c = {0};
    const void *in = image;
    struct vp_op op;
    int wrong = 0;

    for (int i = 0; i < 800; i++)
        image[i] = (float)(random_bits() % 100);
    image[10 * 40 + 20] = NAN;
    CHECK_INT(vp_nlmeans_local(&op, 50, 0, search, patch, n, VP_F32, VP_F32, &err), 0);
    CHECK_INT(vp_chain_add(&c, &op, &err), 0);
    CHECK_INT(vp_chain_apply(&c, &in, out, 2, &err), 0);
    for (int i = 0; i < 800; i++) {
        const bool near = abs(i % 40 - 20) <= 4 && abs(i / 40 - 10) <= 4;
        wrong += near != (out[i] != out[i]);
    }
    CHECK_INT(wrong, 0);
    vp_chain_free(&c);
}

static void test_errors(void)
{
    const int64_t n[3] = {8, 8, 8}, ok[3] = {1, 1, 1}, far[3] = {65, 1, 1};
    struct vp_op op;
    static const struct { double h, sigma; } bad[] = {{0, 0}, {-1, 0}, {NAN, 0}, {INFINITY, 0}, {1, -1}, {1, NAN}};

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct vp_err err = VP_ERR_INIT;
        CHECK_INT(vp_nlmeans_local(&op, bad[i].h, bad[i].sigma, ok, ok, n, VP_U8, VP_U8, &err), -1);
        CHECK_INT(err.code, VP_EUSAGE);
    }
    struct vp_err err = VP_ERR_INIT;
    CHECK_INT(vp_nlmeans_local(&op, 1, 0, far, ok, n, VP_U8, VP_U8, &err), -1);
    err = (struct vp_err)VP_ERR_INIT;
    CHECK_INT(vp_nlmeans_local(&op, 1, 0, ok, ok, n, VP_U8, VP_U16, &err), -1);
    err = (struct vp_err)VP_ERR_INIT;
    CHECK_INT(vp_nlmeans_local(&op, 1, 0, ok, ok, n, VP_U64, VP_U64, &err), -1);
    CHECK_INT(err.code, VP_EUSAGE);
}

int main(void)
{
    test_exponential();
    test_exact();
    test_nan();
    test_naive();
    test_errors();
    return test_done();
}
