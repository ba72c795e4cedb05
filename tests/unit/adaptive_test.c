/* SPDX-License-Identifier: BSD-3-Clause */
/* Local thresholds: the formula in long double (of integers: in exact sums), for all types, shapes and instruction
 * sets, for every rule for edges; in random boxes; what lies exactly on its threshold; NaN. And what methods and
 * options are of it. */
#include "base/err.h"
#include "base/size.h"
#include "boxes.h"
#include "samples.h"
#include "app/adaptive.h"
#include "app/image.h"

#include <math.h>

static const char *const ISAS[] = {"generic", "avx2", "avx512"};
static const enum vp_type TYPES[] = {VP_U8, VP_U16, VP_I16, VP_F32};

static bool holds(const struct vp_footprint *f, int64_t dx, int64_t dy, int64_t dz)
{
    const int64_t d[3] = {dx, dy, dz};
    double sum = 0;

    for (int a = 0; a < 3; a++) {
        if (llabs(d[a]) > f->reach[a])
            return false;
        if (d[a])
            sum += (double)(d[a] * d[a]) / ((f->radius[a] + 1e-6) * (f->radius[a] + 1e-6));
    }
    return f->shape == VP_BOX || sum <= 1;
}

/* The place in [0, n) whose sample counts for p, step by step; -1: a 0 does. */
static int64_t made_of(enum vp_edge edge, int64_t p, int64_t n)
{
    while (p < 0 || p >= n) {
        if (edge == VP_EDGE_ZERO)
            return -1;
        if (edge == VP_EDGE_MIRROR)
            p = p < 0 ? -p - 1 : 2 * n - 1 - p;
        else if (edge == VP_EDGE_WRAP)
            p += p < 0 ? n : -n;
        else
            p += p < 0 ? 1 : -1;
    }
    return p;
}

/* How far the sample is above its threshold, by the definition. */
static long double above(const struct vp_limit *l, const struct vp_footprint *f, enum vp_edge edge, const void *image,
                         enum vp_type type, const int64_t n[3], const int64_t at[3])
{
    long double sum = 0, dev = 0, k = 0;
    int64_t lo[3], hi[3];

    for (int a = 0; a < 3; a++) {
        lo[a] = edge ? at[a] - f->reach[a] : vp_max64(at[a] - f->reach[a], 0);
        hi[a] = edge ? at[a] + f->reach[a] + 1 : vp_min64(at[a] + f->reach[a] + 1, n[a]);
    }
    for (int pass = 0; pass < 2; pass++)
        for (int64_t z = lo[2]; z < hi[2]; z++)
            for (int64_t y = lo[1]; y < hi[1]; y++)
                for (int64_t x = lo[0]; x < hi[0]; x++) {
                    if (!holds(f, x - at[0], y - at[1], z - at[2]))
                        continue;
                    const int64_t p[3] = {made_of(edge, x, n[0]), made_of(edge, y, n[1]), made_of(edge, z, n[2])};
                    const bool made = p[0] >= 0 && p[1] >= 0 && p[2] >= 0;
                    const long double v = made ? sample(image, type, (p[2] * n[1] + p[1]) * n[0] + p[0]) : 0;
                    if (pass)
                        dev += (v - sum / k) * (v - sum / k);
                    else {
                        sum += v;
                        k++;
                    }
                }
    const long double m = sum / k, s = sqrtl(dev / k);
    return sample(image, type, (at[2] * n[1] + at[1]) * n[0] + at[0])
         - (l->base + l->mean * m + l->std * s + l->both * m * s);
}

static void compare(const int64_t n[3], enum vp_type type, enum vp_shape shape, const double r[3],
                    const struct vp_limit *l, enum vp_edge edge, const void *image)
{
    const int64_t count = n[0] * n[1] * n[2];
    struct vp_err err = VP_ERR_INIT;
    struct vp_footprint f;
    struct vp_op op;
    uint8_t *got = malloc((size_t)count), *first = malloc((size_t)count);
    bool any = false;

    CHECK_INT(vp_footprint_init(&f, shape, r, &err), 0);
    CHECK_INT(vp_moments_above(&op, l, &f, edge, n, type, &err), 0);
    for (size_t i = 0; i < sizeof ISAS / sizeof *ISAS; i++) {
        int bad = 0;
        if (!use_isa(ISAS[i]))
            continue;
        memset(got, 0x77, (size_t)count);
        CHECK_INT(local_whole(&op, image, got, 2), 0);
        for (int64_t v = 0; v < count; v++) {
            const int64_t at[3] = {v % n[0], v / n[0] % n[1], v / n[0] / n[1]};
            const long double d = above(l, &f, edge, image, type, n, at);
            const long double near = type == VP_F32 ? 1e-10L : 1e-12L * vp_type_max(type);
            /* what is so near may be on either side */
            const bool is = fabsl(d) > near ? d > 0 : (got[v] == l->mark) != l->below;
            bad += got[v] != (is != l->below ? l->mark : 0);
        }
        CHECK_INT(bad, 0);
        check_boxes(&op, image, got, 1);
        if (type != VP_F32) { /* the bits of integers are those of every set */
            CHECK(!any || !memcmp(first, got, (size_t)count));
            memcpy(first, got, (size_t)count);
            any = true;
        }
    }
    op.free(op.params);
    vp_footprint_free(&f);
    free(first);
    free(got);
}

static void all(void)
{
    static const int64_t sizes[][3] = {{41, 9, 6}, {1, 1, 1}, {70, 11, 1}, {3, 17, 5}, {1, 9, 4}};
    static const double radii[][3] = {{0, 0, 0}, {1, 1, 1}, {3, 2, 1}, {2.6, 0, 3}, {40, 1, 2}, {100, 100, 100}};
    static const struct vp_limit limits[] = {
        {.mean = 1}, {.mean = 1, .base = 3.25}, {.mean = .85}, {.mean = 1, .std = -.2}, {.mean = 1, .std = .5},
        {.mean = .8, .both = .2 / 128}, {.mean = 1.2, .both = -.2 / 128, .base = -2},
        {.mean = .5, .std = .1, .both = -.01}};
    int turn = 0;

    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (size_t j = 0; j < sizeof radii / sizeof *radii; j++)
            for (size_t k = 0; k < sizeof limits / sizeof *limits; k++, turn++) {
                const enum vp_type type = TYPES[turn % 9 % 4];
                const int64_t count = sizes[i][0] * sizes[i][1] * sizes[i][2];
                struct vp_limit l = limits[k];
                void *image = malloc((size_t)count * 4);
                l.below = turn % 3 == 0;
                l.mark = turn % 5 ? 255 : 1;
                for (int64_t v = 0; v < count; v++) /* flat parts, so that samples lie on their threshold */
                    put(image, type, v, v % 37 < 9 ? 7 : type == VP_F32 ? (double)(random_bits() & 0xffffff) / 1e5 - 60
                        : type == VP_I16 ? (double)(random_bits() & 0xffff) - 32768
                        : (double)(random_bits() & (type == VP_U8 ? 0xff : 0xffff)));
                compare(sizes[i], type, turn % 4 == 1 ? VP_BALL : VP_BOX, radii[j], &l, VP_EDGE_RENORMALIZE, image);
                if (radii[j][2] < 100) /* the definition takes long */
                    compare(sizes[i], type, turn % 5 == 1 ? VP_BALL : VP_BOX, radii[j], &l,
                            (enum vp_edge)(1 + turn % 17 % 4), image);
                free(image);
            }
}

/* A sample that is equal to its threshold is not above it: constants of any size, and a mean that no sample misses. */
static void on_it(void)
{
    enum { NX = 60, NY = 40, N = NX * NY };
    static const struct vp_limit limits[] = {{.mean = 1, .mark = 255}, {.mean = 1, .std = -.2, .mark = 255}};
    static uint16_t whole[N];
    static float real[N];
    uint8_t got[N];

    for (int turn = 0; turn < 8; turn++) {
        struct vp_err err = VP_ERR_INIT;
        struct vp_footprint f;
        struct vp_op op;
        int marked = 0;
        for (int i = 0; i < N; i++) {
            whole[i] = (uint16_t)(turn & 4 ? 65535 : 31);
            real[i] = turn & 4 ? 1e30f : .1f;
        }
        CHECK_INT(vp_footprint_init(&f, VP_BOX, (double[]){9, 13, 0}, &err), 0);
        CHECK_INT(vp_moments_above(&op, &limits[turn & 1], &f, VP_EDGE_RENORMALIZE, (int64_t[]){NX, NY, 1},
                                   turn & 2 ? VP_F32 : VP_U16, &err), 0);
        CHECK_INT(local_whole(&op, turn & 2 ? (void *)real : (void *)whole, got, 2), 0);
        for (int i = 0; i < N; i++)
            marked += got[i] != 0;
        CHECK_INT(marked, 0);
        op.free(op.params);
        vp_footprint_free(&f);
    }
}

static void not_a_number(void)
{
    enum { N = 31 * 21 };
    static float image[N];
    uint8_t got[N];

    for (int turn = 0; turn < 4; turn++) {
        const struct vp_limit l = {.mean = 1, .std = turn & 1 ? -.5 : 0, .below = turn & 2, .mark = 9};
        struct vp_err err = VP_ERR_INIT;
        struct vp_footprint f;
        struct vp_op op;
        int hit = 0, left = 0;
        for (int i = 0; i < N; i++)
            image[i] = (float)(random_bits() & 0xffffff);
        image[10 * 31 + 15] = NAN;
        CHECK_INT(vp_footprint_init(&f, VP_BOX, (double[]){2, 3, 0}, &err), 0);
        CHECK_INT(vp_moments_above(&op, &l, &f, VP_EDGE_RENORMALIZE, (int64_t[]){31, 21, 1}, VP_F32, &err), 0);
        CHECK_INT(local_whole(&op, image, got, 1), 0);
        for (int i = 0; i < N; i++) {
            const bool near = llabs(i % 31 - 15) <= 2 && llabs(i / 31 - 10) <= 3;
            hit += near && got[i];
            left += !near && got[i] == 9;
        }
        CHECK_INT(hit, 0);
        CHECK(left > 100);
        op.free(op.params);
        vp_footprint_free(&f);
    }
}

/* Names and options. */
static void methods(void)
{
    struct vp_err err = VP_ERR_INIT;
    struct vp_images im = {.size = {100, 100, 1}, .flat = true, .type = VP_U8, .scale = {1, 0}};
    struct vp_adaptive_params p = {.window = {1, {15}}};
    struct vp_footprint f;
    struct vp_limit l;

    p.method = VP_LOCAL_MEAN;
    p.offset = 4;
    CHECK_INT(vp_adaptive_limit(&l, &p, &im, .5, false, 255, &err), 0);
    CHECK(l.base == -4.5 && l.mean == 1 && l.std == 0 && l.both == 0);
    p.offset = 0;
    p.method = VP_LOCAL_NIBLACK;
    CHECK_INT(vp_adaptive_limit(&l, &p, &im, 0, true, 1, &err), 0);
    CHECK(l.mean == 1 && l.std == -.2 && l.both == 0 && l.below && l.mark == 1);
    p.method = VP_LOCAL_SAUVOLA;
    p.k = (struct vp_reals){1, {.25}};
    CHECK_INT(vp_adaptive_limit(&l, &p, &im, 0, false, 255, &err), 0);
    CHECK(l.mean == .75 && l.std == 0 && l.both == .25 / 127.5);
    im.type = VP_I16;
    im.all_i8 = true;
    CHECK_INT(vp_adaptive_limit(&l, &p, &im, 0, false, 255, &err), 0);
    CHECK(l.both == .25 / 127.5);
    im.all_i8 = false;
    CHECK_INT(vp_adaptive_limit(&l, &p, &im, 0, false, 255, &err), 0);
    CHECK(l.both == .25 / 32767.5);
    im.type = VP_F32;
    CHECK_INT(vp_adaptive_limit(&l, &p, &im, 0, false, 255, &err), -1);
    CHECK_INT(err.code, VP_EUSAGE);
    p.r = 2;
    CHECK_INT(vp_adaptive_limit(&l, &p, &im, 0, false, 255, &err), 0);
    CHECK(l.both == .125);
    p.method = VP_LOCAL_BRADLEY;
    p.k.n = 0;
    CHECK_INT(vp_adaptive_limit(&l, &p, &im, 0, false, 255, &err), 0);
    CHECK(l.mean == 1 - .15 && l.both == 0);
    CHECK_INT(vp_adaptive_window(&f, &p, &im, &err), 0);
    CHECK(f.reach[0] == 7 && f.reach[1] == 7 && f.reach[2] == 0);
    p.window.v[0] = 14;
    CHECK_INT(vp_adaptive_window(&f, &p, &im, &err), -1);
    im.params.physical = im.has_voxel = true;
    im.voxel[0] = im.voxel[1] = 2;
    CHECK_INT(vp_adaptive_window(&f, &p, &im, &err), 0);
    CHECK(f.reach[0] == 3 && f.reach[1] == 3);
}

int main(void)
{
    all();
    on_it();
    not_a_number();
    methods();
    return test_done();
}
