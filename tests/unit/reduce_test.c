/* SPDX-License-Identifier: BSD-3-Clause */
/* Accumulators of every sample type against plain loops. */
#include "test.h"

#include "base/err.h"
#include "pages/reduce.h"

#include <stdlib.h>

/* Values that every type can hold, in three pages. */
static const double pages[3][5] = {{1, 2, 3, 100, 0}, {7, 0, 3, 120, 1}, {4, 5, 3, 127, 0}};

static void test_types(void)
{
    for (int type = 0; type < VP_N_TYPES; type++)
        for (int op = VP_REDUCE_SUM; op <= VP_REDUCE_MAX; op++) {
            struct vp_err err = VP_ERR_INIT;
            struct vp_reduce r;
            const enum vp_type to = vp_reduce_type(op, (enum vp_type)type);
            double in[5], result[5], got[5];
            CHECK_INT(vp_reduce_open(&r, op, (enum vp_type)type, 5, 2, &err), 0);
            for (int again = 0; again < 2; again++) {
                for (int p = 0; p < 3; p++) {
                    vp_convert(in, (enum vp_type)type, pages[p], VP_F64, 5, 1, 0);
                    vp_reduce_add(&r, in);
                }
                vp_reduce_result(&r, result);
                vp_convert(got, VP_F64, result, to, 5, 1, 0);
                for (int i = 0; i < 5; i++) {
                    const double a = pages[0][i], b = pages[1][i], c = pages[2][i];
                    const double wants[] = {a + b + c, (a + b + c) / 3, fmin(a, fmin(b, c)),
                                            fmax(a, fmax(b, c))};
                    CHECK_NEAR(got[i], wants[op], 1e-5);
                }
            }
            CHECK_INT(r.nan, 0);
            vp_reduce_close(&r);
        }
    CHECK_INT(vp_reduce_type(VP_REDUCE_SUM, VP_U16), VP_F32);
    CHECK_INT(vp_reduce_type(VP_REDUCE_SUM, VP_I32), VP_F64);
    CHECK_INT(vp_reduce_type(VP_REDUCE_MEAN, VP_F32), VP_F32);
    CHECK_INT(vp_reduce_type(VP_REDUCE_MEAN, VP_F64), VP_F64);
    CHECK_INT(vp_reduce_type(VP_REDUCE_MAX, VP_U8), VP_U8);
}

/* 2^62 and its neighbours are no doubles. */
static void test_large_integers(void)
{
    struct vp_err err = VP_ERR_INIT;
    struct vp_reduce r;
    const int64_t big = (int64_t)1 << 62, a[2] = {big + 1, -big - 1}, b[2] = {big, -big};
    int64_t got[2];

    vp_reduce_open(&r, VP_REDUCE_MAX, VP_I64, 2, 1, &err);
    vp_reduce_add(&r, a);
    vp_reduce_add(&r, b);
    vp_reduce_result(&r, got);
    CHECK_INT(got[0], big + 1);
    CHECK_INT(got[1], -big);
    vp_reduce_close(&r);
}

/* Summed in float, two million times 0.1 would be far off. */
static void test_precision(void)
{
    struct vp_err err = VP_ERR_INIT;
    struct vp_reduce r;
    const float x = 0.1f;
    float sum;

    vp_reduce_open(&r, VP_REDUCE_SUM, VP_F32, 1, 1, &err);
    for (int i = 0; i < 2000000; i++)
        vp_reduce_add(&r, &x);
    vp_reduce_result(&r, &sum);
    CHECK_NEAR(sum, 2e6 * (double)x, 0.02);
    vp_reduce_close(&r);
}

static void test_nan(void)
{
    struct vp_err err = VP_ERR_INIT;
    const double a[3] = {NAN, 1, NAN}, b[3] = {2, NAN, NAN};

    for (int op = VP_REDUCE_SUM; op <= VP_REDUCE_MAX; op++) {
        struct vp_reduce r;
        double got[3];
        vp_reduce_open(&r, op, VP_F64, 3, 1, &err);
        vp_reduce_add(&r, a);
        vp_reduce_add(&r, b);
        vp_reduce_result(&r, got);
        CHECK_INT(r.nan, 4);
        CHECK(isnan(got[2]));
        if (op == VP_REDUCE_MIN || op == VP_REDUCE_MAX) {
            CHECK_NEAR(got[0], 2, 0);
            CHECK_NEAR(got[1], 1, 0);
        } else {
            CHECK(isnan(got[0]) && isnan(got[1]));
        }
        vp_reduce_close(&r);
    }
}

int main(void)
{
    test_types();
    test_large_integers();
    test_precision();
    test_nan();
    return test_done();
}
