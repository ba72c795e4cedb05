/* SPDX-License-Identifier: BSD-3-Clause */
/* Minima and maxima against the definition, for all types, shapes and instruction sets, and in random boxes. */
#include "base/err.h"
#include "boxes.h"
#include "samples.h"
#include "local/morph.h"

static const char *const ISAS[] = {"generic", "avx2", "avx512"};
static const enum vp_type TYPES[] = {VP_U8, VP_U16, VP_I16, VP_F32};

static void fill(void *p, enum vp_type type, int64_t n, bool specials)
{
    for (int64_t i = 0; i < n; i++) {
        const uint64_t b = random_bits();
        if (type == VP_U8)
            ((uint8_t *)p)[i] = (uint8_t)b;
        else if (type == VP_U16)
            ((uint16_t *)p)[i] = (uint16_t)b;
        else if (type == VP_I16)
            ((int16_t *)p)[i] = (int16_t)b;
        else
            ((float *)p)[i] = specials && b % 3 == 0 ? (float[]){NAN, -NAN, INFINITY, -INFINITY, 0.f, -0.f}[b / 3 % 6]
                                                     : (float)((double)b / 4e12 - 500);
    }
}

/* Is the offset in the neighbourhood, by its definition? */
static bool holds(enum vp_shape shape, const double r[3], const int64_t d[3])
{
    double sum = 0;

    for (int a = 0; a < 3; a++) {
        if (fabs((double)d[a]) > r[a] + 1e-6)
            return false;
        if (d[a])
            sum += (double)(d[a] * d[a]) / ((r[a] + 1e-6) * (r[a] + 1e-6));
    }
    return shape == VP_BOX || sum <= 1;
}

static int64_t from(int64_t i)
{
    return i < 0 ? 0 : i;
}

static double naive(const void *image, enum vp_type type, const int64_t n[3], const int64_t at[3], bool max,
                    enum vp_shape shape, const double r[3])
{
    double best = NAN;

    for (int64_t z = from(at[2] - (int64_t)r[2] - 1); z < n[2] && z <= at[2] + r[2] + 1; z++)
        for (int64_t y = from(at[1] - (int64_t)r[1] - 1); y < n[1] && y <= at[1] + r[1] + 1; y++)
            for (int64_t x = from(at[0] - (int64_t)r[0] - 1); x < n[0] && x <= at[0] + r[0] + 1; x++) {
                if (!holds(shape, r, (int64_t[]){x - at[0], y - at[1], z - at[2]}))
                    continue;
                const double v = sample(image, type, (z * n[1] + y) * n[0] + x);
                if (isnan(best) || (max ? v > best : v < best)
                    || (v == 0 && best == 0 && (max ? signbit(best) > signbit(v) : signbit(best) < signbit(v))))
                    best = v;
            }
    return best;
}

static void compare(const int64_t n[3], enum vp_type type, bool max, enum vp_shape shape, const double r[3],
                    bool specials)
{
    const int64_t count = n[0] * n[1] * n[2];
    const size_t size = vp_type_size(type);
    struct vp_err err = VP_ERR_INIT;
    struct vp_footprint f;
    struct vp_op op;
    char *image = malloc((size_t)count * size), *got = malloc((size_t)count * size);
    int bad = 0;

    fill(image, type, count, specials);
    CHECK_INT(vp_footprint_init(&f, shape, r, &err), 0);
    CHECK_INT(vp_extremum_local(&op, max, &f, n, type, &err), 0);
    vp_footprint_free(&f);
    for (size_t i = 0; i < sizeof ISAS / sizeof *ISAS; i++) {
        if (!use_isa(ISAS[i]))
            continue;
        memset(got, 0x77, (size_t)count * size);
        CHECK_INT(local_whole(&op, image, got, 2), 0);
        for (int64_t v = 0; v < count; v++) {
            const int64_t at[3] = {v % n[0], v / n[0] % n[1], v / n[0] / n[1]};
            const double want = naive(image, type, n, at, max, shape, r), have = sample(got, type, v);
            if (!(want == have && signbit(want) == signbit(have)) && !(isnan(want) && isnan(have)) && bad++ < 3)
                printf("%s at %lld %lld %lld: expected %g, got %g\n", op.text, (long long)at[0], (long long)at[1],
                       (long long)at[2], want, have);
        }
        CHECK_INT(bad, 0);
        check_boxes(&op, image, got, 3);
    }
    op.free(op.params);
    free(image);
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
                const enum vp_type type = TYPES[turn % 4 == 0 ? turn / 4 % 4 : turn % 4];
                compare(sizes[i], type, turn / 2 % 2, shape ? VP_BALL : VP_BOX, radii[j], turn % 5 != 0);
            }
}

/* a row long enough that every step of the widening along x is made of whole vectors */
static void long_rows(void)
{
    for (int t = 0; t < 4; t++)
        for (int max = 0; max < 2; max++) {
            compare((int64_t[]){700, 3, 1}, TYPES[t], max, VP_BOX, (double[]){15, 1, 0}, false);
            compare((int64_t[]){300, 4, 2}, TYPES[t], max, VP_BALL, (double[]){9, 3, 1}, false);
        }
}

static void footprints(void)
{
    static const struct { double r[3]; enum vp_shape shape; int64_t count, reach[3]; } want[] = {
        {{1, 1, 1}, VP_BALL, 7, {1, 1, 1}},  {{1.5, 1.5, 1.5}, VP_BALL, 19, {1, 1, 1}},
        {{1.8, 1.8, 1.8}, VP_BALL, 27, {1, 1, 1}}, {{3, 3, 3}, VP_BALL, 123, {3, 3, 3}},
        {{0, 0, 0}, VP_BALL, 1, {0, 0, 0}}, {{1, 1, 0}, VP_BALL, 5, {1, 1, 0}}, {{0, 0, 2.5}, VP_BALL, 5, {0, 0, 2}},
        {{2, 1, 0}, VP_BOX, 15, {2, 1, 0}}, {{1.9, 0, 2.9999999}, VP_BOX, 21, {1, 0, 3}},
    };
    struct vp_err err = VP_ERR_INIT;
    struct vp_footprint f;
    char text[80];

    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        CHECK_INT(vp_footprint_init(&f, want[i].shape, want[i].r, &err), 0);
        CHECK_INT(f.count, want[i].count);
        for (int a = 0; a < 3; a++)
            CHECK_INT(f.reach[a], want[i].reach[a]);
        vp_footprint_free(&f);
    }
    CHECK_INT(vp_footprint_init(&f, VP_BALL, (double[]){2, 2, 2}, &err), 0);
    CHECK_STR(vp_footprint_text(&f, text, sizeof text), "ball of radius 2 2 2, 33 voxels");
    vp_footprint_free(&f);
    CHECK_INT(vp_footprint_init(&f, VP_BOX, (double[]){-1, 0, 0}, &err), -1);
    CHECK_INT(err.code, VP_EUSAGE);
    err = (struct vp_err)VP_ERR_INIT;
    CHECK_INT(vp_footprint_init(&f, VP_BALL, (double[]){3000, 3000, 3000}, &err), -1);
    CHECK_INT(err.code, VP_EUSAGE);
}

/* The end of a pipe comes late: halo and tiles made before it is known must do. */
static void unknown_depth(void)
{
    const int64_t n[3] = {20, 9, 11};
    struct vp_err err = VP_ERR_INIT;
    struct vp_footprint f;
    struct vp_op known, late;
    uint16_t image[20 * 9 * 11], want[20 * 9 * 11], got[20 * 9 * 11];

    fill(image, VP_U16, 20 * 9 * 11, false);
    for (int shape = 0; shape < 2; shape++) {
        CHECK_INT(vp_footprint_init(&f, shape ? VP_BALL : VP_BOX, (double[]){3, 3, 7}, &err), 0);
        CHECK_INT(vp_extremum_local(&known, true, &f, n, VP_U16, &err), 0);
        CHECK_INT(vp_extremum_local(&late, true, &f, (int64_t[]){20, 9, VP_UNKNOWN}, VP_U16, &err), 0);
        vp_footprint_free(&f);
        local_whole(&known, image, want, 2);
        const uint64_t before = late.scratch(&late, NULL, &(struct vp_box){{0, 0, 0}, {20, 9, 11}}, 2);
        late.image[2] = 11;
        CHECK_INT(late.scratch(&late, NULL, &(struct vp_box){{0, 0, 0}, {20, 9, 11}}, 2), before);
        local_whole(&late, image, got, 2);
        CHECK(!memcmp(got, want, sizeof got));
        known.free(known.params);
        late.free(late.params);
    }
}

static void tiles(void)
{
    static const int64_t n[3] = {530, 34, 21};
    static const double radius[3] = {4, 5, 3.5};
    const int64_t count = 530 * 34 * 21;
    uint16_t *image = malloc((size_t)count * sizeof *image), *got = malloc((size_t)count * sizeof *got);
    struct vp_err err = VP_ERR_INIT;
    struct vp_footprint f;
    struct vp_op op;

    fill(image, VP_U16, count, false);
    for (int shape = 0; shape < 2; shape++) {
        CHECK_INT(vp_footprint_init(&f, shape ? VP_BALL : VP_BOX, radius, &err), 0);
        CHECK_INT(vp_extremum_local(&op, true, &f, n, VP_U16, &err), 0);
        vp_footprint_free(&f);
        check_tiles(&op, image, got);
        for (int64_t i = 0; i < count; i += 397)
            CHECK_INT(got[i], naive(image, VP_U16, n, (int64_t[]){i % 530, i / 530 % 34, i / 530 / 34}, true,
                                    shape ? VP_BALL : VP_BOX, radius));
        op.free(op.params);
    }
    free(image);
    free(got);
}

static void refused(void)
{
    struct vp_err err = VP_ERR_INIT;
    struct vp_footprint f;
    struct vp_op op;

    CHECK_INT(vp_footprint_init(&f, VP_BOX, (double[]){1, 1, 1}, &err), 0);
    CHECK_INT(vp_extremum_local(&op, true, &f, (int64_t[]){4, 4, 4}, VP_U64, &err), -1);
    CHECK_INT(err.code, VP_EUSAGE);
    CHECK(strstr(err.msg, "got u64"));
}

/* Morphology composed of naive minima and maxima. */
static void naive_image(const double *from, double *to, const int64_t n[3], bool max, enum vp_shape shape,
                        const double r[3])
{
    const int64_t count = n[0] * n[1] * n[2];
    float *as_float = malloc((size_t)count * sizeof *as_float);

    for (int64_t i = 0; i < count; i++)
        as_float[i] = (float)from[i];
    for (int64_t i = 0; i < count; i++)
        to[i] = naive(as_float, VP_F32, n, (int64_t[]){i % n[0], i / n[0] % n[1], i / n[0] / n[1]}, max, shape, r);
    free(as_float);
}

static void morphology(void)
{
    enum { NX = 17, NY = 9, NZ = 8, N = NX * NY * NZ };
    static const int64_t n[3] = {NX, NY, NZ};
    static const double radius[3] = {1.5, 1, 1.5};
    static double image[N], first[N], second[N], t[N];
    static uint16_t samples[2 * N], got[2 * N]; /* room for f32 */

    for (int turn = 0; turn < 7 * 4 * 2 * 2; turn++) {
        const enum vp_morph what = (enum vp_morph)(turn % 7);
        const enum vp_type type = TYPES[turn / 7 % 4];
        const enum vp_shape shape = turn / 28 % 2 ? VP_BALL : VP_BOX;
        const int times = 1 + turn / 56;
        const bool max = what == VP_DILATE || what == VP_CLOSE || what == VP_BOTHAT;
        struct vp_err err = VP_ERR_INIT;
        struct vp_chain chain = {0};
        struct vp_footprint f;
        int bad = 0;

        fill(samples, type, N, false);
        for (int i = 0; i < N; i++)
            image[i] = sample(samples, type, i);
        memcpy(t, image, sizeof t);
        for (int i = 0; i < times; i++, memcpy(t, first, sizeof t))
            naive_image(t, first, n, max, shape, radius);
        if (what == VP_GRADIENT)
            memcpy(t, image, sizeof t);
        for (int i = 0; i < times; i++, memcpy(t, second, sizeof t))
            naive_image(t, second, n, !max, shape, radius);
        CHECK_INT(vp_footprint_init(&f, shape, radius, &err), 0);
        CHECK_INT(vp_morph_chain(&chain, what, times, &f, n, type, &err), 0);
        vp_footprint_free(&f);
        CHECK_INT(vp_chain_apply(&chain, (const void *[]){samples}, got, 2, &err), 0);
        const enum vp_type out = chain.stage[chain.n - 1].out;
        CHECK_INT(out, what >= VP_TOPHAT && type == VP_I16 ? VP_U16 : type);
        for (int i = 0; i < N; i++) {
            double want = what <= VP_DILATE ? first[i] : second[i];
            if (what >= VP_TOPHAT)
                want = what == VP_TOPHAT ? image[i] - second[i] : what == VP_BOTHAT ? second[i] - image[i]
                     : second[i] - first[i];
            if (type == VP_F32)
                want = (double)(float)want;
            bad += sample(got, out, i) != want || (what >= VP_TOPHAT && want < 0);
        }
        CHECK_INT(bad, 0);
        vp_chain_free(&chain);
    }
}

int main(void)
{
    morphology();
    footprints();
    all();
    long_rows();
    unknown_depth();
    tiles();
    refused();
    return test_done();
}
