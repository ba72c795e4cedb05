/* SPDX-License-Identifier: BSD-3-Clause */
/* img-resize against sums over all samples in f64, axis by axis; and what the planner is told of regions. */
#include "apply.h"
#include "base/err.h"
#include "local/resize.h"
#include "pretend.h"

static double keys(double t)
{
    return t <= 1 ? 1.5 * t * t * t - 2.5 * t * t + 1 : t < 2 ? -0.5 * t * t * t + 2.5 * t * t - 4 * t + 2 : 0;
}

/* Returns the weight of sample j in voxel i of m, by the definition. */
static double weight(const struct vp_resize_axis *a, int64_t i, int64_t j)
{
    const double r = a->ratio, s = fmax(1, r),
                 lo = a->rational ? (double)(i * a->n) / (double)a->m : a->edge + (double)i * r,
                 hi = a->rational ? (double)((i + 1) * a->n) / (double)a->m : lo + r,
                 centre = a->rational ? (double)((2 * i + 1) * a->n) / (double)(2 * a->m)
                                      : a->edge + (double)(2 * i + 1) * r / 2,
                 t = fabs((double)j + 0.5 - centre) / s;
    switch (a->method) {
    case VP_RESIZE_AREA: return fmax(0, fmin((double)j + 1, hi) - fmax((double)j, lo));
    case VP_RESIZE_LINEAR: return fmax(0, 1 - t);
    case VP_RESIZE_CUBIC: return keys(t);
    default: return j == vp_max64(0, vp_min64(a->n - 1, (int64_t)floor(centre)));
    }
}

/* Resamples one axis of `from` (size[] voxels) into `to` (m along it). */
static void reference(const double *from, const int64_t size[3], int axis, const struct vp_resize_axis *x, double *to)
{
    const int64_t stride = axis == 0 ? 1 : axis == 1 ? size[0] : size[0] * size[1], n = size[axis],
                  all = size[0] * size[1] * size[2] / n;
    for (int64_t line = 0; line < all; line++)
        for (int64_t i = 0; i < x->m; i++) {
            const int64_t low = line % stride, high = line / stride;
            double sum = 0, total = 0;
            for (int64_t j = 0; j < n; j++) {
                const double w = x->bin ? j / x->bin == i : weight(x, i, j);
                sum += w * from[low + stride * (j + n * high)];
                total += w;
            }
            to[low + stride * (i + x->m * high)] = sum / total;
        }
}

static void draw_axis(struct vp_resize_axis *a, int64_t n)
{
    const enum vp_resize_method method = (enum vp_resize_method)dice(0, 3);
    switch (dice(0, 3)) {
    case 0: vp_resize_bins(a, n, dice(1, vp_min64(n, 4))); break;
    case 1: vp_resize_by(a, n, (double)dice(30, 300) / 97, method); break;
    default: vp_resize_to(a, n, dice(1, 3 * n), method); break;
    }
}

static void test_reference(void)
{
    static const enum vp_type types[] = {VP_F32, VP_F64, VP_U8, VP_I16, VP_U32};
    int rounded = 0;
    for (int trial = 0; trial < 200; trial++) {
        const enum vp_type type = types[trial % 5];
        const int64_t n[3] = {dice(1, 40), dice(1, 20), dice(1, 9)};
        struct vp_resize_params p;
        struct vp_chain c = {0};
        struct vp_err err = VP_ERR_INIT;
        int64_t size[3] = {n[0], n[1], n[2]};
        double *step[4];
        for (int a = 0; a < 3; a++)
            draw_axis(&p.axis[a], n[a]);
        step[0] = malloc((size_t)(n[0] * n[1] * n[2]) * sizeof(double));
        for (int64_t i = 0; i < n[0] * n[1] * n[2]; i++)
            step[0][i] = type == VP_U32 ? (double)dice(0, UINT32_MAX) : (double)dice(0, 255);
        for (int a = 0; a < 3; a++) {
            int64_t next[3] = {size[0], size[1], size[2]};
            next[a] = p.axis[a].m;
            step[a + 1] = malloc((size_t)(next[0] * next[1] * next[2]) * sizeof(double));
            reference(step[a], size, a, &p.axis[a], step[a + 1]);
            memcpy(size, next, sizeof size);
        }
        const int64_t voxels = size[0] * size[1] * size[2];
        void *in = malloc((size_t)(n[0] * n[1] * n[2]) * 8), *out = malloc((size_t)voxels * 8);
        double *got = malloc((size_t)voxels * sizeof(double)), *clamped = malloc((size_t)voxels * sizeof(double));
        vp_convert(in, type, step[0], VP_F64, n[0] * n[1] * n[2], 1, 0);
        CHECK_INT(vp_resize_chain(&c, &p, type, type, &err), 0);
        CHECK_INT(vp_chain_apply(&c, (const void *[]){in}, out, 2, &err), 0);
        vp_convert(got, VP_F64, out, type, voxels, 1, 0);
        vp_convert(out, type, step[3], VP_F64, voxels, 1, 0);
        vp_convert(clamped, VP_F64, out, type, voxels, 1, 0);
        double most = 0;
        for (int64_t i = 0; i < voxels; i++) {
            const bool tie = !vp_type_is_float(type) && fabs(fabs(step[3][i] - rint(step[3][i])) - 0.5) < 1e-6;
            most = fmax(most, fabs(got[i] - clamped[i]) - (tie ? 1 : 0)); /* the reference may round a half otherwise */
            rounded += !vp_type_is_float(type);
        }
        CHECK(most <= (type == VP_F32 ? 3e-5 : type == VP_F64 ? 1e-11 : type == VP_U32 ? 1 : 0));
        vp_chain_free(&c);
        for (int a = 0; a < 4; a++)
            free(step[a]);
        free(in);
        free(out);
        free(got);
        free(clamped);
    }
    CHECK(rounded > 1000);
}

/* Regions grow at both ends, hold every tap, and are no larger than the planner is told. */
static void test_regions(void)
{
    for (int trial = 0; trial < 2000; trial++) {
        struct vp_resize_params p;
        struct vp_chain c = {0};
        struct vp_err err = VP_ERR_INIT;
        draw_axis(&p.axis[0], dice(1, 200));
        vp_resize_bins(&p.axis[1], 1, 1);
        vp_resize_bins(&p.axis[2], 1, 1);
        CHECK_INT(vp_resize_chain(&c, &p, VP_F32, VP_F32, &err), 0);
        const int64_t m = p.axis[0].m, lo = dice(0, m - 1), hi = dice(lo + 1, m);
        const struct vp_box in = vp_op_region(c.stage, &(struct vp_box){{lo, 0, 0}, {hi, 1, 1}}),
                            next = vp_op_region(c.stage, &(struct vp_box){{lo, 0, 0}, {vp_min64(m, hi + 1), 1, 1}});
        double weights[2000];
        for (int64_t i = lo; i < hi; i++) {
            int64_t first;
            const int64_t taps = vp_resize_taps(&p.axis[0], i, &first, weights);
            CHECK(first >= in.lo[0] && first + taps <= in.hi[0] && taps <= vp_resize_most(&p.axis[0]));
        }
        CHECK(in.lo[0] >= 0 && in.hi[0] <= p.axis[0].n && next.lo[0] == in.lo[0] && next.hi[0] >= in.hi[0]);
        CHECK(in.hi[0] - in.lo[0] <= vp_op_extent(c.stage, 0, hi - lo));
        vp_chain_free(&c);
    }
}

/* A constant stays the same to the bit, and a NaN spoils no voxel in which it has no weight. */
static void test_exact(void)
{
    for (int trial = 0; trial < 100; trial++) {
        const bool f64 = trial % 2;
        const int64_t n[3] = {dice(1, 30), dice(1, 10), dice(1, 5)};
        struct vp_resize_params p;
        struct vp_chain c = {0};
        struct vp_err err = VP_ERR_INIT;
        for (int a = 0; a < 3; a++)
            draw_axis(&p.axis[a], n[a]);
        const int64_t voxels = p.axis[0].m * p.axis[1].m * p.axis[2].m, samples = n[0] * n[1] * n[2];
        CHECK_INT(vp_resize_chain(&c, &p, f64 ? VP_F64 : VP_F32, f64 ? VP_F64 : VP_F32, &err), 0);
        CHECK_INT(vp_chain_changes(&c, f64, samples, voxels, &err), 0);
        vp_chain_free(&c);
    }
    struct vp_resize_params p;
    struct vp_chain c = {0};
    struct vp_err err = VP_ERR_INIT;
    float in[4] = {1, NAN, 3, 4}, out[12];
    vp_resize_to(&p.axis[0], 4, 12, VP_RESIZE_CUBIC);
    vp_resize_bins(&p.axis[1], 1, 1);
    vp_resize_bins(&p.axis[2], 1, 1);
    CHECK_INT(vp_resize_chain(&c, &p, VP_F32, VP_F32, &err), 0);
    CHECK_INT(vp_chain_apply(&c, (const void *[]){in}, out, 1, &err), 0);
    CHECK(out[1] == 1 && out[7] == 3 && out[10] == 4 && isnan(out[4]) && isnan(out[2]) && isnan(out[5]));
    vp_chain_free(&c);
}

static void test_refused(void)
{
    struct vp_resize_params p;
    struct vp_chain c = {0};
    struct vp_err err = VP_ERR_INIT;
    for (int a = 0; a < 3; a++)
        vp_resize_bins(&p.axis[a], 4, 2);
    CHECK_INT(vp_resize_chain(&c, &p, VP_U64, VP_U64, &err), -1);
    CHECK_INT(err.code, VP_EUSAGE);
    err = (struct vp_err)VP_ERR_INIT;
    vp_resize_bins(&p.axis[1], 4, 5);
    CHECK_INT(vp_resize_chain(&c, &p, VP_U8, VP_U8, &err), -1);
    CHECK_STR(err.msg, "expected at least 5 voxels along y, got 4");
}

int main(void)
{
    test_reference();
    test_regions();
    test_exact();
    test_refused();
    return test_done();
}
