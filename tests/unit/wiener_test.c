/* SPDX-License-Identifier: BSD-3-Clause */
/* Wiener's filter against its formula in float64, and what it is for: noise goes, edges stay. */
#include "base/err.h"
#include "boxes.h"
#include "samples.h"
#include "local/moments.h"

#include <float.h>

enum { NX = 34, NY = 11, NZ = 7, N = NX * NY * NZ };
static const int64_t SIZE[3] = {NX, NY, NZ};

static double uniform(void)
{
    return (double)random_bits() * 0x1p-53;
}

static double naive(const double *image, const int64_t at[3], const int64_t r[3], double noise)
{
    double mean = 0, var = 0, n = 0;

    for (int pass = 0; pass < 2; pass++) {
        for (int64_t z = at[2] - r[2]; z <= at[2] + r[2]; z++)
            for (int64_t y = at[1] - r[1]; y <= at[1] + r[1]; y++)
                for (int64_t x = at[0] - r[0]; x <= at[0] + r[0]; x++) {
                    if (x < 0 || x >= NX || y < 0 || y >= NY || z < 0 || z >= NZ)
                        continue;
                    const double v = image[(z * NY + y) * NX + x];
                    mean += pass ? 0 : v;
                    var += pass ? (v - mean) * (v - mean) : 0;
                    n += !pass;
                }
        mean /= pass ? 1 : n;
    }
    var /= n;
    const double x = image[(at[2] * NY + at[1]) * NX + at[0]];
    return mean + fmax(0, var - noise) / fmax(var, noise > 0 ? noise : DBL_MIN) * (x - mean);
}

static void formula(void)
{
    static const enum vp_type types[] = {VP_U8, VP_U16, VP_I16, VP_F32};
    static const char *const isas[] = {"generic", "avx2", "avx512"};
    static double image[N];
    static float samples[N], got[N];

    for (int turn = 0; turn < 4 * 2 * 3; turn++) {
        const enum vp_type type = types[turn % 4], out = turn / 4 % 2 ? VP_F32 : type;
        const double noise = (double[]){0, 60, 1e9}[turn / 8];
        const int64_t r[3] = {1 + turn % 3, 2, turn % 2};
        struct vp_err err = VP_ERR_INIT;
        struct vp_footprint f;
        struct vp_op op;
        for (int i = 0; i < N; i++) {
            const double v = floor((i % NX > 15 ? 150 : 50) + 30 * uniform());
            image[i] = v;
            if (type == VP_U8)
                ((uint8_t *)samples)[i] = (uint8_t)v;
            else if (type == VP_U16)
                ((uint16_t *)samples)[i] = (uint16_t)v;
            else if (type == VP_I16)
                ((int16_t *)samples)[i] = (int16_t)v;
            else
                samples[i] = (float)v;
        }
        CHECK_INT(vp_footprint_init(&f, VP_BOX, (double[]){(double)r[0], (double)r[1], (double)r[2]}, &err), 0);
        CHECK_INT(vp_moments_wiener(&op, noise, &f, SIZE, type, out, &err), 0);
        for (int k = 0; k < 3; k++) {
            int bad = 0;
            if (!use_isa(isas[k]))
                continue;
            local_whole(&op, samples, got, 2);
            for (int i = 0; i < N; i++) {
                const double want = naive(image, (int64_t[]){i % NX, i / NX % NY, i / NX / NY}, r, noise);
                bad += !(fabs(sample(got, out, i) - want) <= (out == VP_F32 ? 2e-5 : .5 + 1e-9));
            }
            CHECK_INT(bad, 0);
            check_boxes(&op, samples, got, 3);
        }
        op.free(op.params);
        vp_footprint_free(&f);
    }
}

/* A step with noise: the flat parts get smoother by the square root of the window, the step stays where it is. */
static void purpose(void)
{
    static float samples[N], got[N];
    struct vp_err err = VP_ERR_INIT;
    struct vp_footprint f;
    struct vp_op op;
    double before = 0, after = 0;

    for (int i = 0; i < N; i++)
        samples[i] = (float)((i % NX > 16 ? 1000 : 0) + uniform() - .5);
    CHECK_INT(vp_footprint_init(&f, VP_BOX, (double[]){2, 2, 2}, &err), 0);
    CHECK_INT(vp_moments_wiener(&op, .12, &f, SIZE, VP_F32, VP_F32, &err), 0); /* of the uniform noise: 1/12 */
    local_whole(&op, samples, got, 1);
    for (int i = 0; i < N; i++) {
        const double truth = i % NX > 16 ? 1000 : 0;
        if (abs(i % NX - 16) > 3) {
            before += (samples[i] - truth) * (samples[i] - truth);
            after += (got[i] - truth) * (got[i] - truth);
        }
        CHECK(fabs(got[i] - truth) < 1);
    }
    CHECK(after * 30 < before);
    op.free(op.params);
    vp_footprint_free(&f);
}

int main(void)
{
    formula();
    purpose();
    return test_done();
}
