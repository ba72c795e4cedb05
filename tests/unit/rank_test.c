/* SPDX-License-Identifier: BSD-3-Clause */
/* Median and percentiles against sorting the samples that exist, for every type, shape, size, instruction set and way;
 * pieces of an image against the whole. */
#include "base/err.h"
#include "local/rank.h"
#include "boxes.h"
#include "test.h"

#include <stdlib.h>

static const struct { const char *isa; bool moving; } WAYS[] = {
    {"generic", false}, {"avx2", false}, {"avx512", false}, {"generic", true}, {"avx512", true},
};
enum { N_WAYS = sizeof WAYS / sizeof *WAYS };

static float number(const void *image, enum vp_type type, int64_t i)
{
    switch (type) {
    case VP_U8: return ((const uint8_t *)image)[i];
    case VP_U16: return ((const uint16_t *)image)[i];
    case VP_I16: return ((const int16_t *)image)[i];
    default: return ((const float *)image)[i];
    }
}

static int rank_class(float x)
{
    return x != x ? 2 : 1;
}

/* The documented order: numbers, -0 before +0, NaN last. */
static int by_value(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;

    if (rank_class(x) != rank_class(y) || x != x)
        return rank_class(x) - rank_class(y);
    if (x == 0 && y == 0)
        return !!signbit(y) - !!signbit(x);
    return (x > y) - (x < y);
}

static bool holds(const struct vp_footprint *f, int64_t dx, int64_t dy, int64_t dz)
{
    double sum = 0;

    if (f->shape == VP_BOX)
        return true;
    const int64_t d[3] = {dx, dy, dz};
    for (int a = 0; a < 3; a++)
        sum += d[a] ? pow((double)d[a] / (f->radius[a] + 1e-6), 2) : 0;
    return sum <= 1;
}

static float naive(const void *image, enum vp_type type, const int64_t n[3], const struct vp_footprint *f,
                   double percent, int64_t x, int64_t y, int64_t z, float *room)
{
    int64_t count = 0;

    for (int64_t dz = -f->reach[2]; dz <= f->reach[2]; dz++)
        for (int64_t dy = -f->reach[1]; dy <= f->reach[1]; dy++)
            for (int64_t dx = -f->reach[0]; dx <= f->reach[0]; dx++)
                if (x + dx >= 0 && x + dx < n[0] && y + dy >= 0 && y + dy < n[1] && z + dz >= 0 && z + dz < n[2]
                    && holds(f, dx, dy, dz))
                    room[count++] = number(image, type, ((z + dz) * n[1] + y + dy) * n[0] + x + dx);
    qsort(room, (size_t)count, sizeof *room, by_value);
    const double place = ceil(percent * (double)count / 100 - 1e-9);
    return room[place < 1 ? 0 : (int64_t)place - 1];
}

static bool same(float a, float b)
{
    return a != a ? b != b : memcmp(&a, &b, sizeof a) == 0;
}

static void *random_image(enum vp_type type, int64_t n, int levels)
{
    char *image = malloc((size_t)n * vp_type_size(type));
    static const float odd[] = {0.0f, -0.0f, NAN, INFINITY, -INFINITY, -NAN, 1e-42f, -1e-42f};

    for (int64_t i = 0; image && i < n; i++) {
        const uint32_t r = (uint32_t)(levels ? random_bits() % (uint32_t)levels : random_bits());
        switch (type) {
        case VP_U8: ((uint8_t *)image)[i] = (uint8_t)r; break;
        case VP_U16: ((uint16_t *)(void *)image)[i] = (uint16_t)r; break;
        case VP_I16: ((int16_t *)(void *)image)[i] = (int16_t)(levels ? (int)r - levels / 2 : (int)r); break;
        default:
            ((float *)(void *)image)[i] = random_bits() % 8 == 0 ? odd[random_bits() % 8] : ((float)r - 1e9f) * 1e-5f;
        }
    }
    return image;
}

static void compare(enum vp_type type, const int64_t n[3], enum vp_shape shape, const double radius[3], double percent,
                    int levels)
{
    const int64_t voxels = n[0] * n[1] * n[2];
    const size_t size = vp_type_size(type);
    struct vp_err err = VP_ERR_INIT;
    struct vp_footprint f;
    char *image = random_image(type, voxels, levels), *out = malloc((size_t)voxels * size);
    float *want = malloc((size_t)voxels * sizeof *want);

    CHECK_INT(vp_footprint_init(&f, shape, radius, &err), 0);
    float *room = malloc((size_t)f.count * sizeof *room);
    for (int64_t i = 0; i < voxels; i++)
        want[i] = naive(image, type, n, &f, percent, i % n[0], i / n[0] % n[1], i / n[0] / n[1], room);
    for (int k = 0; k < N_WAYS; k++) {
        struct vp_chain c = {0};
        struct vp_op op;
        const void *in = image;
        int64_t wrong = 0;
        if (!use_isa(WAYS[k].isa))
            continue;
        CHECK_INT(vp_rank_local(&op, percent, &f, n, type, WAYS[k].moving, &err), 0);
        CHECK_INT(vp_chain_add(&c, &op, &err), 0);
        memset(out, 0x5a, (size_t)voxels * size);
        CHECK_INT(vp_chain_apply(&c, &in, out, 2, &err), 0);
        for (int64_t i = 0; i < voxels; i++)
            wrong += !same(number(out, type, i), want[i]);
        check_boxes(&c.stage[0], image, out, 1);
        if (wrong)
            printf("%s of %s, %lld x %lld x %lld\n", op.text, vp_type_name(type), (long long)n[0], (long long)n[1],
                   (long long)n[2]);
        CHECK_INT(wrong, 0);
        vp_chain_free(&c);
    }
    vp_footprint_free(&f);
    free(room);
    free(want);
    free(image);
    free(out);
}

static void test_everything(void)
{
    static const enum vp_type types[] = {VP_U8, VP_U16, VP_I16, VP_F32};
    static const struct { int64_t n[3]; enum vp_shape shape; double r[3]; double percent; int levels; } cases[] = {
        {{37, 19, 1}, VP_BOX, {1, 1, 0}, 50, 0},   {{70, 23, 1}, VP_BOX, {2, 2, 0}, 50, 0},
        {{21, 9, 8}, VP_BOX, {1, 1, 1}, 50, 0},    {{14, 11, 9}, VP_BOX, {2, 2, 2}, 50, 0},
        {{16, 8, 9}, VP_BOX, {3, 3, 3}, 50, 9},    {{40, 12, 3}, VP_BOX, {3, 1, 1}, 20, 0},
        {{150, 7, 2}, VP_BOX, {0, 2, 0}, 95, 0},   {{9, 7, 12}, VP_BOX, {0, 0, 3}, 50, 0},
        {{333, 5, 1}, VP_BOX, {4, 0, 0}, 33.3, 0}, {{9, 8, 7}, VP_BOX, {0, 0, 0}, 50, 0},
        {{13, 13, 13}, VP_BALL, {1, 1, 1}, 50, 0}, {{15, 11, 12}, VP_BALL, {2.5, 2, 1.5}, 75, 0},
        {{31, 29, 1}, VP_BALL, {4, 4, 0}, 50, 0},  {{20, 17, 2}, VP_BOX, {6, 6, 1}, 50, 0},
        {{3, 4, 2}, VP_BOX, {5, 6, 7}, 50, 0},     {{1, 1, 1}, VP_BOX, {3, 3, 3}, 50, 0},
        {{5, 1, 30}, VP_BOX, {2, 2, 2}, 50, 0},    {{12, 3, 4}, VP_BOX, {1, 4, 4}, 60, 0},
        {{4, 5, 3}, VP_BALL, {9, 9, 9}, 50, 0},    {{40, 9, 5}, VP_BOX, {1, 1, 1}, 0, 0},
        {{11, 9, 5}, VP_BOX, {1, 1, 1}, 100, 4},   {{30, 12, 2}, VP_BOX, {5, 5, 1}, 50, 0},
        {{60, 9, 1}, VP_BALL, {20, 6, 0}, 10, 0}, {{64, 6, 6}, VP_BALL, {1.5, 1.5, 1.5}, 50, 0},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (size_t t = 0; t < sizeof types / sizeof *types; t++)
            compare(types[t], cases[i].n, cases[i].shape, cases[i].r, cases[i].percent, cases[i].levels);
}

/* images long enough for several strips and pieces of rows */
static void test_large(void)
{
    compare(VP_U8, (const int64_t[]){50, 42, 1}, VP_BOX, (const double[]){18, 19, 0}, 50, 0);
    compare(VP_U8, (const int64_t[]){530, 3, 3}, VP_BOX, (const double[]){11, 8, 2}, 30, 0);
    compare(VP_U8, (const int64_t[]){20, 5, 12}, VP_BOX, (const double[]){30, 8, 9}, 70, 7);
    compare(VP_U8, (const int64_t[]){1600, 5, 1}, VP_BOX, (const double[]){1, 1, 0}, 50, 0);
    compare(VP_U16, (const int64_t[]){410, 4, 3}, VP_BOX, (const double[]){1, 1, 1}, 50, 0);
    compare(VP_F32, (const int64_t[]){40, 140, 1}, VP_BOX, (const double[]){2, 2, 0}, 50, 0);
}

/* A constant stays, an impulse goes, an edge stays where it is. */
static void test_analytic(void)
{
    enum { N = 16 };
    const int64_t n[3] = {N, N, N};
    static uint16_t image[N * N * N], out[N * N * N];
    struct vp_err err = VP_ERR_INIT;
    struct vp_footprint f;
    struct vp_op op;
    struct vp_chain c = {0};
    const void *in = image;
    int64_t wrong = 0;

    CHECK_INT(vp_footprint_init(&f, VP_BOX, (const double[]){1, 1, 1}, &err), 0);
    CHECK_INT(vp_rank_local(&op, 50, &f, n, VP_U16, false, &err), 0);
    CHECK_INT(vp_chain_add(&c, &op, &err), 0);
    for (int64_t i = 0; i < N * N * N; i++)
        image[i] = i % N < N / 2 ? 100 : 60000;
    image[(5 * N + 5) * N + 3] = 65535;
    CHECK_INT(vp_chain_apply(&c, &in, out, 2, &err), 0);
    for (int64_t i = 0; i < N * N * N; i++)
        wrong += out[i] != (i % N < N / 2 ? 100 : 60000);
    CHECK_INT(wrong, 0);
    vp_chain_free(&c);
    vp_footprint_free(&f);
}

static void test_index(void)
{
    CHECK_INT(vp_rank_index(50000000, 27), 13);
    CHECK_INT(vp_rank_index(50000000, 18), 8);
    CHECK_INT(vp_rank_index(50000000, 1), 0);
    CHECK_INT(vp_rank_index(0, 9), 0);
    CHECK_INT(vp_rank_index(100000000, 9), 8);
    CHECK_INT(vp_rank_index(99900000, 1000), 998);
    CHECK_INT(vp_rank_index(50000000, 3000000001), 1500000000);
}

static void test_errors(void)
{
    const int64_t n[3] = {4, 4, 4};
    struct vp_err err = VP_ERR_INIT;
    struct vp_footprint f;
    struct vp_op op;

    CHECK_INT(vp_footprint_init(&f, VP_BOX, (const double[]){1, 1, 1}, &err), 0);
    CHECK_INT(vp_rank_local(&op, 50, &f, n, VP_U64, false, &err), -1);
    CHECK_INT(err.code, VP_EUSAGE);
    err = (struct vp_err)VP_ERR_INIT;
    CHECK_INT(vp_rank_local(&op, 101, &f, n, VP_U8, false, &err), -1);
    CHECK_INT(err.code, VP_EUSAGE);
    err = (struct vp_err)VP_ERR_INIT;
    CHECK_INT(vp_rank_local(&op, NAN, &f, n, VP_U8, false, &err), -1);
}

int main(void)
{
    test_index();
    test_errors();
    test_analytic();
    test_everything();
    test_large();
    return test_done();
}
