/* SPDX-License-Identifier: BSD-3-Clause */
/* Local entropy against the formula in float64 over the samples that exist; pieces of an image against the whole. */
#include "base/err.h"
#include "local/entropy.h"
#include "boxes.h"
#include "samples.h"
#include "test.h"

#include <stdlib.h>

/* The histogram as the help text has it, and its entropy; NaN if there is nothing. */
static double naive(const void *image, enum vp_type type, const int64_t n[3], const struct vp_footprint *f, int bins,
                    double lo, double hi, int64_t x, int64_t y, int64_t z, int *count)
{
    double sum = 0;
    int all = 0;

    memset(count, 0, (size_t)bins * sizeof *count);
    for (int64_t dz = -f->reach[2]; dz <= f->reach[2]; dz++)
        for (int64_t dy = -f->reach[1]; dy <= f->reach[1]; dy++)
            for (int64_t dx = -f->reach[0]; dx <= f->reach[0]; dx++) {
                const double r = hypot(hypot((double)dx / (f->radius[0] + 1e-6), (double)dy / (f->radius[1] + 1e-6)),
                                       (double)dz / (f->radius[2] + 1e-6));
                if (x + dx < 0 || x + dx >= n[0] || y + dy < 0 || y + dy >= n[1] || z + dz < 0 || z + dz >= n[2]
                    || (f->shape == VP_BALL && r > 1))
                    continue;
                const double v = sample(image, type, ((z + dz) * n[1] + y + dy) * n[0] + x + dx);
                if (v != v)
                    continue;
                const double bin = hi > lo ? floor((v - lo) * (bins / (hi - lo))) : 0;
                count[bin < 0 ? 0 : bin > bins - 1 ? bins - 1 : (int)bin]++;
                all++;
            }
    for (int b = 0; b < bins; b++)
        if (count[b])
            sum += count[b] * log2((double)all / count[b]);
    return all ? sum / all : NAN;
}

static void compare(enum vp_type type, const int64_t n[3], enum vp_shape shape, const double radius[3], int bins,
                    double lo, double hi, int levels)
{
    const int64_t voxels = n[0] * n[1] * n[2];
    const size_t size = vp_type_size(type);
    struct vp_err err = VP_ERR_INIT;
    struct vp_footprint f;
    struct vp_chain c = {0};
    struct vp_op op;
    char *image = malloc((size_t)voxels * size);
    float *out = malloc((size_t)voxels * sizeof *out);
    int *count = malloc((size_t)bins * sizeof *count);
    const void *in = image;
    int64_t wrong = 0;

    for (int64_t i = 0; i < voxels; i++) {
        const uint32_t r = (uint32_t)random_bits() % (uint32_t)levels;
        switch (type) {
        case VP_U8: ((uint8_t *)image)[i] = (uint8_t)r; break;
        case VP_U16: ((uint16_t *)(void *)image)[i] = (uint16_t)r; break;
        case VP_I16: ((int16_t *)(void *)image)[i] = (int16_t)((int)r - levels / 2); break;
        default: ((float *)(void *)image)[i] = r % 7 == 0 ? NAN : r % 11 == 0 ? INFINITY : (float)r * 0.125f - 3;
        }
    }
    CHECK_INT(vp_footprint_init(&f, shape, radius, &err), 0);
    CHECK_INT(vp_entropy_local(&op, &f, bins, lo, hi, n, type, &err), 0);
    CHECK_INT(vp_chain_add(&c, &op, &err), 0);
    CHECK_INT(vp_chain_apply(&c, &in, out, 2, &err), 0);
    for (int64_t i = 0; i < voxels; i++) {
        const double want = naive(image, type, n, &f, bins, lo, hi, i % n[0], i / n[0] % n[1], i / n[0] / n[1], count);
        /* one rounding to f32, and the table's unit */
        wrong += want != want ? out[i] == out[i] : !(fabs(out[i] - want) <= 6e-8 * want + 1e-9);
    }
    CHECK_INT(wrong, 0);
    check_boxes(&c.stage[0], image, out, 1);
    vp_chain_free(&c);
    vp_footprint_free(&f);
    free(image);
    free(out);
    free(count);
}

static void test_naive(void)
{
    compare(VP_U8, (const int64_t[]){40, 30, 1}, VP_BALL, (const double[]){5, 5, 0}, 256, 0, 255, 256);
    compare(VP_U8, (const int64_t[]){14, 12, 10}, VP_BOX, (const double[]){2, 1, 3}, 16, 0, 255, 256);
    compare(VP_U8, (const int64_t[]){5, 6, 3}, VP_BOX, (const double[]){9, 9, 9}, 256, 0, 255, 256);
    compare(VP_U8, (const int64_t[]){9, 6, 3}, VP_BOX, (const double[]){0, 0, 0}, 256, 0, 255, 256);
    compare(VP_U16, (const int64_t[]){20, 15, 6}, VP_BALL, (const double[]){3, 2, 2}, 100, 1000, 50000, 65536);
    compare(VP_U16, (const int64_t[]){20, 5, 4}, VP_BOX, (const double[]){2, 2, 2}, 65535, 0, 65535, 300);
    compare(VP_I16, (const int64_t[]){30, 15, 2}, VP_BOX, (const double[]){3, 3, 1}, 64, -500, 500, 1001);
    compare(VP_F32, (const int64_t[]){30, 15, 3}, VP_BOX, (const double[]){1, 1, 1}, 256, -3, 29, 256);
    compare(VP_F32, (const int64_t[]){12, 8, 3}, VP_BOX, (const double[]){1, 0, 0}, 7, 2, 2, 9);
}

/* Constants have none; n different samples have log2 n; the largest value is in the last bin, with its neighbours. */
static void test_analytic(void)
{
    const int64_t n[3] = {8, 8, 1};
    struct vp_err err = VP_ERR_INIT;
    struct vp_footprint f;
    uint8_t image[64];
    float out[64], many[64];
    const void *in = image;
    struct vp_op op;

    CHECK_INT(vp_footprint_init(&f, VP_BOX, (const double[]){8, 8, 0}, &err), 0);
    for (int turn = 0; turn < 3; turn++) {
        struct vp_chain c = {0};
        for (int i = 0; i < 64; i++)
            image[i] = (uint8_t)(turn == 0 ? 200 : turn == 1 ? 4 * i : i % 2 ? 255 : 250);
        CHECK_INT(vp_entropy_local(&op, &f, turn == 2 ? 16 : 256, 0, 255, n, VP_U8, &err), 0);
        CHECK_INT(vp_chain_add(&c, &op, &err), 0);
        CHECK_INT(vp_chain_apply(&c, &in, turn == 1 ? many : out, 1, &err), 0);
        for (int i = 0; i < 64; i++)
            CHECK_NEAR((turn == 1 ? many : out)[i], turn == 1 ? 6 : 0, 0);
        vp_chain_free(&c);
    }
    vp_footprint_free(&f);
}

static void test_errors(void)
{
    const int64_t n[3] = {8, 8, 8};
    struct vp_footprint f;
    struct vp_op op;
    struct vp_err err = VP_ERR_INIT;

    CHECK_INT(vp_footprint_init(&f, VP_BOX, (const double[]){1, 1, 1}, &err), 0);
    static const struct { enum vp_type type; int64_t bins; double lo, hi; } bad[] = {
        {VP_U64, 256, 0, 1}, {VP_U8, 0, 0, 1}, {VP_U8, 65536, 0, 1}, {VP_U8, 256, 1, 0}, {VP_U8, 256, 0, INFINITY},
        {VP_U8, 256, NAN, 1},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        err = (struct vp_err)VP_ERR_INIT;
        CHECK_INT(vp_entropy_local(&op, &f, bad[i].bins, bad[i].lo, bad[i].hi, n, bad[i].type, &err), -1);
        CHECK_INT(err.code, VP_EUSAGE);
    }
    err = (struct vp_err)VP_ERR_INIT;
    CHECK_INT(vp_footprint_init(&f, VP_BOX, (const double[]){100, 100, 100}, &err), 0);
    CHECK_INT(vp_entropy_local(&op, &f, 256, 0, 1, n, VP_U8, &err), -1);
    CHECK_INT(err.code, VP_EUSAGE);
}

int main(void)
{
    test_naive();
    test_analytic();
    test_errors();
    return test_done();
}
