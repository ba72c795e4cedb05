/* SPDX-License-Identifier: BSD-3-Clause */
/* Sets of offsets as neighbourhoods, against the definition: a function of the samples at x + p - c for all positions p
 * of the set that are in the image. Sums and squares are taken in long double, ranks by sorting. */
#include "base/err.h"
#include "base/sort.h"
#include "boxes.h"
#include "samples.h"
#include "local/entropy.h"
#include "local/moments.h"
#include "local/morph.h"
#include "local/rank.h"

#include <math.h>

static const char *const ISAS[] = {"generic", "avx2", "avx512"};
static const enum vp_type TYPES[] = {VP_U8, VP_U16, VP_I16, VP_F32};

enum { MOST = 400 };
struct set { int64_t n[3], center[3]; uint8_t sample[MOST]; };

static struct set random_set(int64_t nx, int64_t ny, int64_t nz, int sparse, bool centered)
{
    struct set s = {.n = {nx, ny, nz}};

    for (int a = 0; a < 3; a++)
        s.center[a] = centered ? s.n[a] / 2 : random_in(0, s.n[a] - 1);
    for (int64_t i = 0; i < nx * ny * nz; i++)
        s.sample[i] = random_in(0, sparse) == 0;
    s.sample[random_in(0, nx * ny * nz - 1)] = 1;
    return s;
}

/* Lists the samples of voxel `at`; with `back` those of the opposite set. */
static int list(double *v, const struct set *s, bool back, const void *image, enum vp_type type, const int64_t n[3],
                int64_t at)
{
    const int64_t x[3] = {at % n[0], at / n[0] % n[1], at / n[0] / n[1]};
    int count = 0;

    for (int64_t i = 0; i < s->n[0] * s->n[1] * s->n[2]; i++) {
        const int64_t p[3] = {i % s->n[0], i / s->n[0] % s->n[1], i / s->n[0] / s->n[1]};
        int64_t q[3];
        bool in = s->sample[i];
        for (int a = 0; a < 3; a++) {
            q[a] = back ? x[a] - (p[a] - s->center[a]) : x[a] + p[a] - s->center[a];
            in = in && q[a] >= 0 && q[a] < n[a];
        }
        if (in)
            v[count++] = sample(image, type, (q[2] * n[1] + q[1]) * n[0] + q[0]);
    }
    return count;
}

enum kind { MIN, MAX, MEDIAN, LOW, MEAN, VAR, STD, SAMPLE, WIENER, ENTROPY, KINDS };

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    if (isnan(x) || isnan(y))
        return isnan(x) - isnan(y);
    return x != y ? (x > y) - (x < y) : (signbit(y) != 0) - (signbit(x) != 0);
}

static double ranked(const double *v, int n, enum kind kind)
{
    return v[kind == MEDIAN ? (n + 1) / 2 - 1 : n < 5 ? 0 : (n + 4) / 5 - 1];
}

static double moment(const double *v, int n, enum kind kind, double x)
{
    long double sum = 0, dev = 0;

    for (int i = 0; i < n; i++)
        sum += v[i];
    for (int i = 0; i < n; i++)
        dev += (v[i] - sum / n) * (v[i] - sum / n);
    if (kind == MEAN)
        return (double)(sum / n);
    if (kind == SAMPLE)
        return (double)(dev / (n > 1 ? n - 1 : 1));
    const long double var = dev / n;
    if (kind == WIENER)
        return (double)(var > 900 ? sum / n + (var - 900) / var * (x - sum / n) : sum / n);
    return (double)(kind == VAR ? var : sqrtl(var));
}

/* 16 bins over -64 to 192 */
static double entropy(const double *v, int n)
{
    int count[16] = {0};
    double sum = 0;

    for (int i = 0; i < n; i++)
        count[v[i] < -48 ? 0 : v[i] >= 176 ? 15 : (int)floor((v[i] + 64) / 16)]++;
    for (int i = 0; i < 16; i++)
        sum += count[i] ? -(double)count[i] / n * log2((double)count[i] / n) : 0;
    return sum;
}

/* The result without a sample in the image. */
static double of_none(enum kind kind, enum vp_type type, enum vp_type out)
{
    if (out == VP_F32)
        return NAN;
    return kind == MIN ? vp_type_max(type) : kind == MAX ? vp_type_min(type) : 0;
}

static double naive(double *v, int n, enum kind kind, double x, enum vp_type type, enum vp_type out)
{
    if (!n)
        return of_none(kind, type, out);
    vp_sort(v, (size_t)n, sizeof *v, by_value);
    if (kind == MIN)
        return v[0];
    if (kind == MAX)
        return v[n - 1];
    return kind <= LOW ? ranked(v, n, kind) : kind == ENTROPY ? entropy(v, n) : moment(v, n, kind, x);
}

static int make(struct vp_op *op, enum kind kind, const struct vp_footprint *f, const int64_t n[3], enum vp_type type,
                struct vp_err *err)
{
    switch (kind) {
    case MIN:
    case MAX: return vp_extremum_local(op, kind == MAX, f, n, type, err);
    case MEDIAN:
    case LOW: return vp_rank_local(op, kind == MEDIAN ? 50 : 20, f, n, type, false, err);
    case MEAN: return vp_moments_local(op, VP_MEAN, false, f, n, type, VP_F32, err);
    case VAR:
    case SAMPLE: return vp_moments_local(op, VP_VAR, kind == SAMPLE, f, n, type, VP_F32, err);
    case STD: return vp_moments_local(op, VP_STD, false, f, n, type, VP_F32, err);
    case WIENER: return vp_moments_wiener(op, 900, f, n, type, VP_F32, err);
    default: return vp_entropy_local(op, f, 16, -64, 192, n, type, err);
    }
}

static void fill(void *p, enum vp_type type, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        put(p, type, i, type == VP_F32 ? (double)(float)((double)random_in(-60000, 180000) / 1000)
                      : (double)random_in(type == VP_I16 ? -300 : 0, type == VP_U8 ? 255 : 700));
}

static void compare(const struct set *s, const int64_t n[3], enum vp_type type, enum kind kind)
{
    const int64_t count = n[0] * n[1] * n[2];
    struct vp_err err = VP_ERR_INIT;
    struct vp_footprint f;
    struct vp_op op;
    char *image = malloc((size_t)count * vp_type_size(type)), *got = malloc((size_t)count * sizeof(float));
    double v[MOST];
    int bad = 0;

    fill(image, type, count);
    CHECK_INT(vp_footprint_set(&f, s->sample, s->n, s->center, &err), 0);
    for (size_t i = 0; i < sizeof ISAS / sizeof *ISAS; i++) {
        if (!use_isa(ISAS[i]))
            continue;
        CHECK_INT(make(&op, kind, &f, n, type, &err), 0);
        memset(got, 0x77, (size_t)count * sizeof(float));
        CHECK_INT(local_whole(&op, image, got, 2), 0);
        for (int64_t at = 0; at < count; at++) {
            const int all = list(v, s, false, image, type, n, at);
            const double want = naive(v, all, kind, sample(image, type, at), type, op.out);
            const double have = sample(got, op.out, at), error = kind <= LOW ? 0 : 2e-7 * fabs(want) + 1e-9;
            if (!(isnan(want) && isnan(have)) && !(fabs(want - have) <= error) && bad++ < 3)
                printf("%s at %lld: expected %.9g, got %.9g\n", op.text, (long long)at, want, have);
        }
        CHECK_INT(bad, 0);
        check_boxes(&op, image, got, 2);
        op.free(op.params);
    }
    vp_footprint_free(&f);
    free(image);
    free(got);
}

static void definition(void)
{
    static const int64_t sizes[][3] = {{37, 8, 7}, {1, 1, 1}, {70, 5, 1}, {3, 17, 6}, {1, 9, 4}, {5, 1, 13}};
    static const int64_t sets[][3] = {{3, 3, 1}, {4, 4, 1}, {2, 2, 2}, {1, 1, 1}, {7, 1, 3}, {6, 5, 4}, {1, 8, 1},
                                      {41, 3, 1}, {1, 1, 2}};
    int turn = 0;

    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (size_t j = 0; j < sizeof sets / sizeof *sets; j++)
            for (int kind = 0; kind < KINDS; kind++, turn++) {
                const struct set s = random_set(sets[j][0], sets[j][1], sets[j][2], turn % 3 ? 1 : 4, turn % 2);
                compare(&s, sizes[i], TYPES[(turn + turn / 4) % 4], (enum kind)kind);
            }
}

/* Sets beside the voxel, whose windows are empty near one edge, or all over a small image. */
static void outside(void)
{
    for (int kind = 0; kind < KINDS; kind++)
        for (int t = 0; t < 4; t++) {
            struct set s = {.n = {5, 4, 3}, .center = {0, 3, 1}};
            s.sample[4] = s.sample[3] = s.sample[5] = 1;
            compare(&s, (int64_t[]){9, 6, 3}, TYPES[t], (enum kind)kind);
            compare(&s, (int64_t[]){3, 2, 1}, TYPES[t], (enum kind)kind);
            memset(s.sample, 0, sizeof s.sample);
            s.sample[5 * 4 + 9] = 1; /* one sample alone */
            compare(&s, (int64_t[]){9, 6, 3}, TYPES[t], (enum kind)kind);
        }
}

/* An L in a wide image, in which a row is cut in tiles, with any number of threads. */
static void tiles(void)
{
    static const int64_t n[3] = {1300, 24, 3};
    const int64_t count = 1300 * 24 * 3;
    struct set s = {.n = {9, 7, 2}, .center = {2, 5, 0}};
    float *image = malloc((size_t)count * sizeof *image), *got = malloc((size_t)count * sizeof *got);

    for (int i = 0; i < 7; i++)
        s.sample[9 * i] = s.sample[9 * 7 + 9 * 6 + i] = 1;
    fill(image, VP_F32, count);
    for (int kind = 0; kind < KINDS; kind++) {
        struct vp_err err = VP_ERR_INIT;
        struct vp_footprint f;
        struct vp_op op;
        double v[MOST];
        CHECK_INT(vp_footprint_set(&f, s.sample, s.n, s.center, &err), 0);
        CHECK_INT(make(&op, (enum kind)kind, &f, n, VP_F32, &err), 0);
        vp_footprint_free(&f);
        check_tiles(&op, image, got);
        for (int64_t i = 0; i < count; i += 397) {
            const int all = list(v, &s, false, image, VP_F32, n, i);
            const double want = naive(v, all, (enum kind)kind, (double)image[i], VP_F32, VP_F32);
            CHECK(fabs((double)got[i] - want) <= 2e-7 * fabs(want) + 1e-9);
        }
        op.free(op.params);
    }
    free(image);
    free(got);
}

/* NaN and infinity, alone in a neighbourhood and with others. */
static void specials(void)
{
    static const int64_t n[3] = {8, 1, 1};
    const float image[8] = {1, NAN, 3, 4, INFINITY, 6, 7, 8};
    const uint8_t pair[3] = {1, 0, 1};
    static const struct { enum kind kind; float want[8]; } all[] = {
        {MIN, {NAN, 1, 4, 3, 4, 7, 6, 7}}, {MAX, {NAN, 3, 4, INFINITY, 6, INFINITY, 8, 7}},
        {MEDIAN, {NAN, 1, 4, 3, 4, 7, 6, 7}}, {MEAN, {NAN, 2, NAN, INFINITY, 5, INFINITY, 7, 7}},
        {VAR, {NAN, 1, NAN, NAN, 1, NAN, 1, 0}}};

    for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
        struct vp_err err = VP_ERR_INIT;
        struct vp_footprint f;
        struct vp_op op;
        float got[8];
        CHECK_INT(vp_footprint_set(&f, pair, (int64_t[]){3, 1, 1}, (int64_t[]){1, 0, 0}, &err), 0);
        CHECK_INT(make(&op, all[k].kind, &f, n, VP_F32, &err), 0);
        vp_footprint_free(&f);
        CHECK_INT(local_whole(&op, image, got, 1), 0);
        for (int i = 0; i < 8; i++)
            CHECK(got[i] == all[k].want[i] || (isnan(all[k].want[i]) && (isnan(got[i])
                  || (all[k].kind == VAR && isinf(got[i])))));
        op.free(op.params);
    }
}

/* ---- morphology ---- */

static void naive_image(const double *from, double *to, const int64_t n[3], bool max, const struct set *s)
{
    double v[MOST];

    for (int64_t i = 0; i < n[0] * n[1] * n[2]; i++) {
        const int all = list(v, s, max, from, VP_F64, n, i);
        to[i] = max ? -INFINITY : INFINITY;
        for (int k = 0; k < all; k++)
            to[i] = max ? fmax(to[i], v[k]) : fmin(to[i], v[k]);
    }
}

static void morphology(void)
{
    enum { NX = 17, NY = 9, NZ = 5, N = NX * NY * NZ };
    static const int64_t n[3] = {NX, NY, NZ};
    static double image[N], first[N], second[N], t[N];
    static uint16_t samples[2 * N], got[2 * N]; /* room for f32 */

    for (int turn = 0; turn < 7 * 4 * 6; turn++) {
        const enum vp_morph what = (enum vp_morph)(turn % 7);
        const enum vp_type type = TYPES[turn / 7 % 4];
        const int times = 1 + turn / 28 % 2;
        const bool max = what == VP_DILATE || what == VP_CLOSE || what == VP_BOTHAT;
        struct set s = random_set(random_in(1, 5), random_in(1, 4), random_in(1, 3), 1, true);
        struct vp_err err = VP_ERR_INIT;
        struct vp_chain chain = {0};
        struct vp_footprint f;
        int bad = 0;

        s.sample[(s.center[2] * s.n[1] + s.center[1]) * s.n[0] + s.center[0]] = 1;
        fill(samples, type, N);
        for (int i = 0; i < N; i++)
            image[i] = sample(samples, type, i);
        memcpy(t, image, sizeof t);
        for (int i = 0; i < times; i++, memcpy(t, first, sizeof t))
            naive_image(t, first, n, max, &s);
        if (what == VP_GRADIENT)
            memcpy(t, image, sizeof t);
        for (int i = 0; i < times; i++, memcpy(t, second, sizeof t))
            naive_image(t, second, n, !max, &s);
        CHECK_INT(vp_footprint_set(&f, s.sample, s.n, s.center, &err), 0);
        CHECK_INT(vp_morph_chain(&chain, what, times, &f, n, type, &err), 0);
        vp_footprint_free(&f);
        CHECK_INT(vp_chain_apply(&chain, (const void *[]){samples}, got, 2, &err), 0);
        const enum vp_type out = chain.stage[chain.n - 1].out;
        for (int i = 0; i < N; i++) {
            const double have = sample(got, out, i);
            double want = what <= VP_DILATE ? first[i] : second[i];
            if (what >= VP_TOPHAT)
                want = what == VP_TOPHAT ? image[i] - second[i] : what == VP_BOTHAT ? second[i] - image[i]
                     : second[i] - first[i];
            if (type == VP_F32)
                want = (double)(float)want;
            bad += have != want || (what >= VP_TOPHAT && want < 0) || (what == VP_OPEN && have > image[i])
                   || (what == VP_CLOSE && have < image[i]);
        }
        CHECK_INT(bad, 0);
        vp_chain_free(&chain);
    }
}

/* Openings by sets without their centre: of integers a voxel that no window covers is the smallest value. */
static void without_center(void)
{
    static const int64_t n[3] = {6, 1, 1};
    const uint8_t image[6] = {5, 9, 2, 7, 7, 4}, pair[3] = {1, 1, 0};
    struct vp_err err = VP_ERR_INIT;
    struct vp_chain chain = {0};
    struct vp_footprint f, back;
    uint8_t got[6];

    CHECK_INT(vp_footprint_set(&f, pair, (int64_t[]){2, 1, 1}, (int64_t[]){1, 0, 0}, &err), 0);
    CHECK(vp_footprint_centered(&f));
    CHECK_INT(vp_footprint_reflect(&back, &f, &err), 0);
    CHECK_INT(back.lo[0], 0);
    CHECK_INT(back.hi[0], 1);
    vp_footprint_free(&back);
    vp_footprint_free(&f);
    /* x - 2 and x - 1 */
    CHECK_INT(vp_footprint_set(&f, pair, (int64_t[]){3, 1, 1}, (int64_t[]){2, 0, 0}, &err), 0);
    CHECK(!vp_footprint_centered(&f));
    CHECK_INT(vp_morph_chain(&chain, VP_GRADIENT, 1, &f, n, VP_U8, &err), -1);
    CHECK_INT(err.code, VP_EUSAGE);
    err = (struct vp_err)VP_ERR_INIT;
    CHECK_INT(vp_morph_chain(&chain, VP_OPEN, 1, &f, n, VP_U8, &err), 0);
    vp_footprint_free(&f);
    CHECK_INT(vp_chain_apply(&chain, (const void *[]){image}, got, 1, &err), 0);
    /* erosion: 255 (none), 5, 5, 2, 2, 7; its dilation over x + 1 and x + 2 */
    CHECK(!memcmp(got, (const uint8_t[]){5, 5, 2, 7, 7, 0}, 6));
    vp_chain_free(&chain);
}

/* ---- boxes and balls are recognised ---- */

static void recognised(void)
{
    static const struct { enum vp_shape shape; double r[3]; bool known; } all[] = {
        {VP_BOX, {0, 0, 0}, true}, {VP_BOX, {2, 1, 0}, true}, {VP_BOX, {1, 2, 2}, true},
        {VP_BALL, {1, 1, 1}, true}, {VP_BALL, {3, 3, 0}, true}, {VP_BALL, {3.5, 3.5, 0}, true},
        {VP_BALL, {3, 2, 1}, true}, {VP_BALL, {2.5, 2.5, 2.5}, true}, {VP_BALL, {M_SQRT2, M_SQRT2, M_SQRT2}, true}};

    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        struct set s = {.n = {8, 8, 6}, .center = {4, 4, 3}};
        struct vp_err err = VP_ERR_INIT;
        struct vp_footprint f, want;
        CHECK_INT(vp_footprint_init(&want, all[i].shape, all[i].r, &err), 0);
        for (int64_t p = 0; p < 8 * 8 * 6; p++) {
            double sum = 0;
            bool in = true;
            for (int a = 0; a < 3; a++) {
                const double d = (double)((int64_t[]){p % 8, p / 8 % 8, p / 64}[a] - s.center[a]), r = all[i].r[a] + 1e-6;
                in = in && fabs(d) <= r;
                sum += d * d / (r * r);
            }
            s.sample[p] = in && (all[i].shape == VP_BOX || sum <= 1);
        }
        CHECK_INT(vp_footprint_set(&f, s.sample, s.n, s.center, &err), 0);
        CHECK_INT(f.shape, all[i].shape);
        CHECK_INT(f.count, want.count);
        for (int a = 0; a < 3; a++)
            CHECK_INT(f.reach[a], want.reach[a]);
        vp_footprint_free(&f);
        s.center[0]--; /* beside the voxel: no box, no ball */
        CHECK_INT(vp_footprint_set(&f, s.sample, s.n, s.center, &err), 0);
        CHECK_INT(f.shape, VP_OFFSETS);
        CHECK_INT(f.count, want.count);
        CHECK_INT(f.lo[0], 1 - want.reach[0]);
        CHECK_INT(f.hi[0], 1 + want.reach[0]);
        vp_footprint_free(&f);
        vp_footprint_free(&want);
    }
}

int main(void)
{
    recognised();
    definition();
    outside();
    tiles();
    specials();
    morphology();
    without_center();
    return test_done();
}
