/* SPDX-License-Identifier: BSD-3-Clause */
/* Thresholds of histograms against their definitions over all candidates, and masks made in two visits of random
 * boxes. */
#include "base/err.h"
#include "base/size.h"
#include "boxes.h"
#include "samples.h"
#include "global/threshold.h"
#include "engine/store.h"

#include <math.h>

/* ---- the thresholds: of a list of samples, whose classes are added up anew for every candidate ---- */

struct parts { double n[2], sum[2], squares[2]; };

static struct parts parts_of(const uint64_t *count, int bins, double t)
{
    struct parts p = {{0}, {0}, {0}};

    for (int i = 0; i < bins; i++) {
        const int k = (double)i > t;
        p.n[k] += (double)count[i];
        p.sum[k] += (double)count[i] * i;
        p.squares[k] += (double)count[i] * (double)count[i];
    }
    return p;
}

/* The best of the candidates from `lo` to below `hi`, the first of several. */
static int best(const uint64_t *count, int bins, int lo, int hi, double (*merit)(const struct parts *p))
{
    double most = -INFINITY;
    int at = lo;

    for (int t = lo; t < hi; t++) {
        const struct parts p = parts_of(count, bins, t);
        const double m = merit(&p);
        if (m > most * (1 + 1e-12)) {
            most = m;
            at = t;
        }
    }
    return at;
}

static double between(const struct parts *p)
{
    const double n = p->n[0] + p->n[1], mean = (p->sum[0] + p->sum[1]) / n;
    double sum = 0;

    for (int k = 0; k < 2; k++)
        sum += p->n[k] / n * pow(p->sum[k] / p->n[k] - mean, 2);
    return sum;
}

static double correlation(const struct parts *p)
{
    const double n = p->n[0] + p->n[1];
    return -log(p->squares[0] / n / n * (p->squares[1] / n / n)) + 2 * log(p->n[0] / n * (p->n[1] / n));
}

static void histograms(void)
{
    for (int trial = 0; trial < 300; trial++) {
        enum { BINS = 90 };
        uint64_t count[BINS] = {0};
        const int lo = (int)random_in(0, 20), hi = (int)random_in(lo + 2, BINS);
        const struct vp_levels l = {count, BINS, -3, .5};
        for (int i = lo; i < hi; i++) /* two hills */
            count[i] = (uint64_t)(1000 * exp(-pow((i - 30) / 6., 2)) + 400 * exp(-pow((i - 65) / 8., 2)))
                     + (uint64_t)random_in(0, trial % 2 ? 300 : 3);
        count[lo]++;
        count[hi - 1]++;
        CHECK_NEAR(vp_threshold_find(VP_OTSU, &l), -3 + .5 * best(count, BINS, lo, hi - 1, between), 1e-9);
        CHECK_NEAR(vp_threshold_find(VP_YEN, &l), -3 + .5 * best(count, BINS, lo, hi - 1, correlation), 1e-9);
        /* half-way between the means on both sides, to less than a level, and no lower one is */
        const double iso = (vp_threshold_find(VP_ISODATA, &l) + 3) / .5;
        for (int t = lo; t <= (int)iso; t++) {
            const struct parts p = parts_of(count, BINS, t);
            const double far = (p.sum[0] / p.n[0] + p.sum[1] / p.n[1]) / 2 - t;
            CHECK_INT(far >= 0 && far < 1, t == (int)iso);
        }
        /* a fixed point of Li's iteration: no better threshold beside it than the rounding to levels makes */
        uint64_t *from = count + lo;
        const double li = (vp_threshold_find(VP_LI, &l) + 3) / .5 - lo;
        const struct parts p = parts_of(from, hi - lo, li);
        const double a = p.sum[0] / p.n[0], b = p.sum[1] / p.n[1];
        if (a > 0) /* else only the lowest level is below it */
            CHECK_NEAR((a - b) / (log(a) - log(b)), li, 1);
        else
            CHECK(li < 1 || p.n[0] == (double)from[0]);
        /* the farthest from the line between the peak and the far end */
        int peak = lo;
        for (int i = lo; i < hi; i++)
            peak = count[i] > count[peak] ? i : peak;
        const int end = hi - 1 - peak > peak - lo ? hi - 1 : lo;
        const int tri = (int)lrint((vp_threshold_find(VP_TRIANGLE, &l) + 3) / .5);
        double most = -INFINITY;
        for (int i = end < peak ? end : peak + 1; i < (end < peak ? peak : end + 1); i++)
            most = fmax(most, (double)count[peak] * abs(i - end) - (double)count[i] * abs(peak - end));
        CHECK(tri >= lo && tri < hi);
        CHECK_NEAR((double)count[peak] * abs(tri - end) - (double)count[tri] * abs(peak - end), most,
                   1e-9 * fabs(most));
    }
}

static void odd_histograms(void)
{
    static const enum vp_threshold methods[] = {VP_OTSU, VP_TRIANGLE, VP_LI, VP_YEN, VP_ISODATA};
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
        uint64_t count[16] = {0};
        const struct vp_levels l = {count, 16, 10, 2};
        CHECK(isnan(vp_threshold_find(methods[i], &l)));
        count[7] = 5;
        CHECK_NEAR(vp_threshold_find(methods[i], &l), 24, 0);
        count[11] = 5; /* two levels: between them */
        const double t = vp_threshold_find(methods[i], &l);
        CHECK(t >= 24 && t < 32);
    }
}

/* ---- the operation ---- */

static void make(void *p, enum vp_type type, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        const uint64_t r = random_bits() & 0xffffff;
        if (type == VP_U8)
            ((uint8_t *)p)[i] = (uint8_t)(r % 2 ? r % 90 : 140 + r % 60);
        else if (type == VP_U16)
            ((uint16_t *)p)[i] = (uint16_t)(r % 2 ? r % 9000 : 14000 + r % 50000);
        else if (type == VP_I16)
            ((int16_t *)p)[i] = (int16_t)(r % 2 ? -(int)(r % 20000) : 9000 + (int)(r % 9000));
        else
            ((float *)p)[i] = r % 97 == 0 ? NAN : r % 89 == 0 ? INFINITY : (float)r / 1e6f;
    }
}

/* Two images in two visits of random boxes. */
static void visits(const struct vp_op *op, const void *image, uint8_t *out, struct vp_found *found)
{
    const int64_t *n = op->image, count = n[0] * n[1] * n[2];
    const size_t size = vp_type_size(op->in);
    /* a histogram of u16 is large */
    const int64_t least = op->in == VP_U8 ? 1 : 9;
    const int64_t step[3] = {random_in(vp_min64(least, n[0]), n[0]), random_in(vp_min64(least, n[1]), n[1]),
                             random_in(1, n[2])};
    struct vp_err err = VP_ERR_INIT;
    struct vp_store *store = NULL;
    struct vp_op own = *op;
    int64_t boxes = 2;

    for (int a = 0; a < 3; a++)
        boxes *= (n[a] + step[a] - 1) / step[a];
    CHECK_INT(vp_store_open(&store, boxes, 1, &err), 0);
    for (int visit = 0; visit < 2; visit++) {
        int64_t box = 0;
        for (int k = 0; k < 2; k++)
            for (int64_t z = 0; z < n[2]; z += step[2])
                for (int64_t y = 0; y < n[1]; y += step[1])
                    for (int64_t x = 0; x < n[0]; x += step[0], box++) {
                        const struct vp_box b = {{x, y, z}, {vp_min64(x + step[0], n[0]), vp_min64(y + step[1], n[1]),
                                                             vp_min64(z + step[2], n[2])}};
                        const int threads = (int)random_in(1, 3);
                        void **in = malloc((size_t)n[2] * sizeof *in), **to = malloc((size_t)n[2] * sizeof *to);
                        void *scratch = NULL, *entry = malloc(op->two_pass->summary(op, &b));
                        uint64_t bytes;
                        CHECK_INT(posix_memalign(&scratch, 64, op->scratch(op, &b, &b, threads)), 0);
                        for (int64_t i = 0; i < n[2]; i++) {
                            in[i] = (char *)(uintptr_t)image + (size_t)(k * count + i * n[0] * n[1]) * size;
                            to[i] = i < vp_box_size(&b, 2) ? out + k * count + ((z + i) * n[1] + y) * n[0] + x : NULL;
                        }
                        const struct vp_part pi = {{{0, 0, 0}, {n[0], n[1], n[2]}}, n[0], in}, po = {b, n[0], to};
                        if (!visit) {
                            CHECK_INT(op->two_pass->summarize(op, &pi, &b, entry, scratch, threads, &err), 0);
                            memcpy(&bytes, entry, sizeof bytes);
                            CHECK_INT(vp_store_put(store, box, entry, bytes, &err), 0);
                        } else {
                            CHECK_INT(vp_store_get(store, box, entry, &err), 0);
                            CHECK_INT(op->two_pass->finish(op, &pi, &po, entry, scratch, threads, &err), 0);
                        }
                        free(scratch);
                        free(entry);
                        free(to);
                        free(in);
                    }
        if (!visit)
            CHECK_INT(op->two_pass->solve(&own, store, NULL, 0, 2, &err), 0);
    }
    CHECK_INT(found->n, 2);
    vp_store_close(store);
}

static void masks(void)
{
    static const enum vp_type TYPES[] = {VP_U8, VP_U16, VP_I16, VP_F32};

    for (int trial = 0; trial < 32; trial++) {
        const enum vp_type type = TYPES[trial % 4];
        const int64_t n[3] = {random_in(2, 40), random_in(2, 20), random_in(1, 4)}, count = n[0] * n[1] * n[2];
        const bool below = trial % 3 == 0;
        struct vp_found found = {0};
        struct vp_threshold_params want = {.method = VP_OTSU, .below = below, .mark = 255, .bins = 500, .lo = 1,
                                           .hi = 12, .found = &found};
        void *image = malloc((size_t)(2 * count) * 4);
        uint8_t *got = malloc((size_t)(2 * count));
        struct vp_err err = VP_ERR_INIT;
        struct vp_op op;
        int bad = 0;
        make(image, type, 2 * count);
        CHECK_INT(vp_threshold_op(&op, &want, n, type, &err), 0);
        memset(got, 0x77, (size_t)(2 * count));
        visits(&op, image, got, &found);
        const int bins = type == VP_U8 ? 256 : type == VP_F32 ? 500 : 65536;
        const double width = type == VP_F32 ? 11. / 500 : 1;
        const double first = type == VP_F32 ? 1 + width / 2 : type == VP_I16 ? -32768 : 0;
        for (int k = 0; k < 2; k++) {
            uint64_t *h = calloc((size_t)bins, sizeof *h);
            for (int64_t i = k * count; i < (k + 1) * count; i++) {
                const double v = sample(image, type, i);
                const double at = type == VP_F32 ? fmin(fmax(floor((v - 1) / width), 0), 499) : v - first;
                if (isfinite(v))
                    h[(int)at]++;
            }
            const double t = vp_threshold_find(VP_OTSU, &(struct vp_levels){h, bins, first, width});
            CHECK(found.limit[k] == t);
            for (int64_t i = k * count; i < (k + 1) * count; i++) {
                const double v = sample(image, type, i);
                bad += got[i] != (isnan(v) ? 0 : (v > t) != below ? 255 : 0);
            }
            free(h);
        }
        CHECK_INT(bad, 0);
        vp_found_free(&found);
        free(got);
        free(image);
        op.free(op.params);
    }
}

/* A threshold that is given: any number, fractions and those beyond the type too. */
static void given(void)
{
    static const double limits[] = {0, 1, 99.5, -1, 255, 65535, -32768, -32769, 1e300, -1e300, 1e-320, 0.1, INFINITY,
                                    -INFINITY, 16777217};
    static const enum vp_type TYPES[] = {VP_U8, VP_U16, VP_I16, VP_F32};
    enum { N = 600 };

    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
        for (int k = 0; k < 8; k++) {
            const enum vp_type type = TYPES[k % 4];
            const struct vp_threshold_params want = {.limit = limits[i], .below = k > 3, .mark = 3};
            struct vp_err err = VP_ERR_INIT;
            struct vp_op op;
            float image[N];
            uint8_t got[N];
            int bad = 0;
            make(image, type, N);
            if (type == VP_F32) {
                const float special[] = {-INFINITY, 0, -0.f, 0.1f, 16777216, 16777218, 3e38f, -3e38f, 1e-40f};
                memcpy(image, special, sizeof special);
            }
            CHECK_INT(vp_threshold_op(&op, &want, (int64_t[]){30, 20, 1}, type, &err), 0);
            CHECK_INT(local_whole(&op, image, got, 2), 0);
            for (int v = 0; v < N; v++) {
                const double x = sample(image, type, v);
                bad += got[v] != (isnan(x) ? 0 : (x > limits[i]) != want.below ? 3 : 0);
            }
            CHECK_INT(bad, 0);
            if (k == (int)i % 8)
                check_boxes(&op, image, got, 1);
            op.free(op.params);
        }
}

static void refused(void)
{
    struct vp_err err = VP_ERR_INIT;
    struct vp_op op;
    const int64_t n[3] = {4, 4, 1};

    CHECK_INT(vp_threshold_op(&op, &(struct vp_threshold_params){0}, n, VP_U64, &err), -1);
    CHECK_INT(err.code, VP_EUSAGE);
    err = (struct vp_err)VP_ERR_INIT;
    CHECK_INT(vp_threshold_op(&op, &(struct vp_threshold_params){.method = VP_LI, .bins = 1}, n, VP_F32, &err), -1);
    CHECK_INT(err.code, VP_EUSAGE);
    err = (struct vp_err)VP_ERR_INIT;
    CHECK_INT(vp_threshold_op(&op, &(struct vp_threshold_params){.method = VP_LI, .bins = 9, .lo = 1}, n, VP_F32, &err),
              -1);
    CHECK_INT(err.code, VP_EUSAGE);
}

int main(void)
{
    histograms();
    odd_histograms();
    masks();
    given();
    refused();
    return test_done();
}
