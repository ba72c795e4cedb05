/* SPDX-License-Identifier: BSD-3-Clause */
/* Sums over boxes: of samples of every kind and type, against sums that are not rounded either but kept in another
 * way, by every instruction set, by threads, row by row and all at once. */
#include "test.h"

#include "base/err.h"
#include "base/isa.h"
#include "base/size.h"
#include "global/boxes.h"
#include "stack/outfile.h"

#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

/* ---- sums that are not rounded ---- */

/* Numbers that do not overlap, the smallest first (Shewchuk 1997, Grow-Expansion). */
struct expansion { int n; double part[64]; };

static void grow(struct expansion *e, double x)
{
    int n = 0;
    for (int i = 0; i < e->n; i++) {
        const double a = e->part[i], s = x + a, b = s - x, low = (x - (s - b)) + (a - b);
        if (low != 0)
            e->part[n++] = low;
        x = s;
    }
    if (x != 0)
        e->part[n++] = x;
    e->n = n;
}

static double total(const struct expansion *e)
{
    __float128 s = 0;
    for (int i = 0; i < e->n; i++)
        s += e->part[i];
    return (double)s;
}

static uint64_t state;

static uint32_t draw(uint32_t n)
{
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)((state >> 33) * n >> 31);
}

static double unit(void)
{
    return (draw(1u << 30) + 0.5) / (1u << 30);
}

static void test_exact(void)
{
    static const struct { double sum[4], is; } some[] = {
        {{1e308, 1, -1e308, 0}, 1},         {{5e-324, 1e300, -1e300, 5e-324}, 1e-323},
        {{-1, 1e-30, 0, 0}, -1},            {{1, 0x1p-53, 0x1p-106, 0}, 1 + 0x1p-52}, /* not a tie */
        {{1, 0x1p-53, 0, 0}, 1},            {{0x1.8p1023, -0x1.8p1023, -0.0, 0}, 0},
        {{-0x1p52, -0x1p-1074, 0x1p52, 0}, -0x1p-1074},
    };
    for (int i = 0; i < (int)(sizeof some / sizeof *some); i++) {
        struct vp_exact s = {{0}};
        for (int k = 0; k < 4; k++)
            vp_exact_add(&s, some[i].sum[k]);
        CHECK(vp_exact_value(&s) == some[i].is);
    }
    for (int i = 0; i < 2000; i++) {
        struct vp_exact s = {{0}}, half[2] = {{{0}}};
        struct expansion e = {.n = 0};
        const int spread = (int)draw(600) + 1;
        for (int k = 0; k < 30; k++) {
            const double x = ldexp(unit() - 0.5, (int)draw((uint32_t)spread) - spread / 2);
            vp_exact_add(&s, x);
            vp_exact_add(&half[k % 2], x);
            grow(&e, x);
            if (k % 7 == 0)
                vp_exact_carry(&s);
        }
        CHECK(vp_exact_value(&s) == (e.n ? total(&e) : 0));
        vp_exact_carry(&half[1]);
        vp_exact_join(&half[0], &half[1], 1);
        CHECK(vp_exact_value(&half[0]) == vp_exact_value(&s));
        vp_exact_join(&half[0], &half[1], -1);
        vp_exact_join(&half[0], &half[1], 1);
        CHECK(vp_exact_value(&half[0]) == vp_exact_value(&s));
    }
    struct vp_exact s = {{0}}, q = {{0}};
    for (int i = 0; i < 3; i++) {
        vp_exact_add(&s, -0x1p63);
        CHECK(vp_exact_integer(&s) == -(__int128)(i + 1) * ((__int128)1 << 63));
    }
    s = (struct vp_exact){{0}};
    for (int i = 0; i < 4; i++) { /* 2^60, 2^60 + 256 */
        vp_exact_add(&s, 0x1p60 + i % 2 * 256);
        vp_exact_add(&q, 0x1p120);
        vp_exact_add(&q, i % 2 * 0x1p69);
        vp_exact_add(&q, i % 2 * 65536.0);
    }
    CHECK(vp_exact_deviation(&s, &q, 4) == 128);
}

/* Sums n gain x, and a little more or less, for a number x and one half-way to the next: their quotients are known. */
static void test_quotient(void)
{
    for (int i = 0; i < 4000; i++) {
        const uint64_t n = i % 3 ? draw(1u << 20) + 1 : (uint64_t)draw(1u << 30) << 33 | 1;
        const int deep = i % 5 == 4; /* the results are the smallest numbers there are */
        const double x = deep ? ldexp(draw(1000) + 1, -1074) : ldexp(unit() + 1, (int)draw(200) - 100);
        const double next = nextafter(x, INFINITY);
        const double gain = (i % 2 ? -1 : 1) * ldexp(unit() + 1, deep ? 200 : (int)draw(40) - 20);
        const double ulp = next - x, more = fabs(gain) * ulp * 0x1p-40;
        uint64_t bits;
        memcpy(&bits, &x, sizeof bits);
        struct vp_exact s = {{0}};
        vp_exact_less(&s, n, 0);
        CHECK(vp_exact_quotient(&s, n, gain) == 0);
        for (int k = 0; k < 2; k++) { /* n x gain, in parts that are exact */
            const double m = k ? (double)(n >> 32) * 4294967296.0 : (double)(n & UINT32_MAX);
            const double p = m * x, low = fma(m, x, -p);
            for (int j = 0; j < 2 && !deep; j++) {
                const double y = j ? low : p, q = y * gain;
                vp_exact_add(&s, q);
                vp_exact_add(&s, fma(y, gain, -q));
            }
            if (deep) {
                vp_exact_less(&s, (uint64_t)m, -x * gain);
                vp_exact_less(&s, (uint64_t)m, -fma(x, gain, -x * gain));
            }
        }
        CHECK(vp_exact_quotient(&s, n, gain) == x);
        const double v = vp_exact_quotient(&s, n, -gain);
        CHECK(v == -x);
        struct vp_exact tie = s;
        vp_exact_less(&tie, n, -gain * 0.5 * ulp); /* exact: ulp is a power of two */
        CHECK(vp_exact_quotient(&tie, n, gain) == (bits & 1 ? next : x));
        struct vp_exact above = tie, beneath = tie;
        vp_exact_less(&above, 1, -copysign(more, gain));
        vp_exact_less(&beneath, 1, copysign(more, gain));
        CHECK(vp_exact_quotient(&above, n, gain) == next);
        CHECK(vp_exact_quotient(&beneath, n, gain) == x);
    }
    struct vp_exact s = {{0}}; /* the sum is beyond f64, the mean is not */
    vp_exact_less(&s, 3, -0x1.8p1023);
    CHECK(isinf(vp_exact_value(&s)));
    CHECK(vp_exact_quotient(&s, 3, 1) == 0x1.8p1023);
}

/* ---- boxes ---- */

enum kind { UNIFORM, NORMAL, OFFSET, WIDE, CANCEL, BORDERS, ODD, KINDS };
enum { NX = 67, NY = 41, NZ = 3, IMAGES = 2, BOXES = 40 };

/* Any f32 or f64 that is finite: bits at random, of f64 those whose squares f64 can hold. */
static double any(enum vp_type type)
{
    for (;;) {
        const uint64_t bits = (uint64_t)draw(1u << 31) << 40 ^ (uint64_t)draw(1u << 31) << 20 ^ draw(1u << 31);
        const uint32_t narrow = (uint32_t)bits;
        double d;
        float f;
        memcpy(&d, &bits, sizeof d);
        memcpy(&f, &narrow, sizeof f);
        if (type == VP_F32 && isfinite(f))
            return (double)f;
        if (type == VP_F64 && fabs(d) > 1e-130 && fabs(d) < 1e130)
            return d;
    }
}

static double value_of(enum kind kind, enum vp_type type, int64_t i, double before)
{
    switch (kind) {
    case UNIFORM: return unit();
    case NORMAL: return sqrt(-2 * log(unit())) * cos(6.2831853 * unit());
    case OFFSET: return 1e6 + 0.1 * sqrt(-2 * log(unit())) * cos(6.2831853 * unit());
    case WIDE: return any(type);
    case CANCEL: return i % 2 ? -before : draw(5) ? any(type) : 1e-20;
    case BORDERS: return i % NX > 20 && i % NX < 40 ? unit() : draw(2) ? 1e30 : -1e-30;
    default: return draw(300) ? unit() : (const double[]){NAN, INFINITY, -INFINITY}[draw(3)];
    }
}

static void make_samples(void *a, enum vp_type type, enum kind kind, int64_t n)
{
    double x = 0;
    for (int64_t i = 0; i < n; i++) {
        x = value_of(kind, type, i, x);
        if (!vp_type_is_float(type)) { /* all bits, or near the largest (signed: below 0) */
            const uint64_t bits = (uint64_t)draw(1u << 31) << 33 ^ (uint64_t)draw(1u << 31) << 10 ^ draw(1u << 10);
            const uint64_t v = kind == UNIFORM ? bits : ~(bits >> 44);
            const size_t size = vp_type_size(type);
            memcpy((char *)a + (size_t)i * size, (const char *)&v + 8 - size, size);
        } else {
            vp_convert((char *)a + (size_t)i * vp_type_size(type), type, &x, VP_F64, 1, 1, 0);
        }
    }
}

/* A sample in two numbers that are right together. */
static void parts_of(const void *a, enum vp_type type, int64_t i, double part[2])
{
    part[1] = 0;
    if (vp_type_size(type) < 8 || type == VP_F64) {
        vp_convert(part, VP_F64, (const char *)a + (size_t)i * vp_type_size(type), type, 1, 1, 0);
        return;
    }
    const uint64_t v = ((const uint64_t *)a)[i];
    part[0] = type == VP_U64 ? ldexp((double)(v >> 20), 20) : ldexp((double)((int64_t)v >> 20), 20);
    part[1] = (double)(v & ((1 << 20) - 1));
}

/* Sum and deviation of a box of image `at`; of integers the sum in whole. */
static void want_box(const struct vp_box_wanted *w, const void *a, enum vp_type type, int64_t first, int64_t step,
                     double *mean, double *std, char text[64], double *sum)
{
    struct expansion e = {.n = 0};
    double n = 0, part[2];
    double odd = 0;
    __int128 whole = 0;
    for (int pass = 0; pass < 2; pass++) {
        __float128 middle = 0, spread = 0;
        for (int i = 0; i < e.n && pass; i++)
            middle += e.part[i];
        middle /= pass ? n : 1;
        for (int64_t z = w->lo[2]; z < w->hi[2]; z++)
            for (int64_t y = w->lo[1]; y < w->hi[1]; y++)
                for (int64_t x = w->lo[0]; x < w->hi[0]; x++) {
                    parts_of(a, type, ((first + z * step) * NY + y) * NX + x, part);
                    const __float128 d = (__float128)part[0] + part[1] - middle;
                    spread += d * d;
                    if (pass)
                        continue;
                    n++;
                    if (!isfinite(part[0])) {
                        odd += part[0];
                        continue;
                    }
                    grow(&e, part[0]);
                    grow(&e, part[1]);
                    if (!vp_type_is_float(type))
                        whole += (__int128)part[0] + (__int128)part[1];
                }
        *std = sqrt((double)(spread / n)); /* of the second pass */
        if (pass && spread / n > 1e300)
            *std = 1e150 * sqrt((double)(spread / n / 1e300));
    }
    *sum = e.n ? total(&e) : 0;
    *sum += odd;
    if (odd != 0)
        *std = NAN;
    *mean = *sum / n;
    char *at = text + 63;
    unsigned __int128 left = whole < 0 ? -(unsigned __int128)whole : (unsigned __int128)whole;
    for (*at = 0; left || !*at; left /= 10)
        *--at = (char)('0' + (int)(left % 10));
    if (whole < 0)
        *--at = '-';
    memmove(text, at, strlen(at) + 1);
}

static bool agrees(double got, double want, double rtol)
{
    return isnan(want) ? isnan(got) : isinf(want) ? got == want : fabs(got - want) <= rtol * fabs(want);
}

static char list[] = "/tmp/boxes_test.XXXXXX", result[64];

static void make_list(bool volume)
{
    FILE *f = fopen(list, "w");
    const int64_t size[3] = {NX, NY, NZ};
    for (int i = 0; i < BOXES; i++) {
        fprintf(f, "b%d", i);
        for (int a = 0; a < 2 + volume; a++) {
            const int64_t most = i % 3 ? size[a] : vp_min64(size[a], 1 + i % 9), w = 1 + draw((uint32_t)most);
            const int64_t lo = draw((uint32_t)(size[a] - w + 1));
            fprintf(f, " %lld:%lld", (long long)lo, (long long)(lo + w));
        }
        if (i % 5 == 0)
            fprintf(f, " %d", (int)draw(IMAGES));
        fputc('\n', f);
    }
    fclose(f);
}

/* All rows, in portions; what is printed is in `text`. */
static bool measure(struct vp_boxes *b, const void *a, enum vp_type type, bool volume, int threads, int64_t most,
                    char *text, size_t size)
{
    const int64_t n[3] = {NX, NY, volume ? NZ : 1}, rows = NY * IMAGES * n[2];
    struct vp_err err = VP_ERR_INIT;
    int rc = vp_boxes_read(b, list, n, volume, &err) || vp_outfile_open(&b->out, result, &err)
             || vp_boxes_begin(b, type, volume ? IMAGES : 1, IMAGES, threads, &err);
    for (int64_t y = 0, m; y < rows && !rc; y += m) {
        m = vp_min64(1 + draw((uint32_t)most), rows - y);
        rc = vp_boxes_rows(b, y, m, (const char *)a + (size_t)(y * NX) * vp_type_size(type), &err);
    }
    rc = rc || vp_boxes_end(b, &err);
    if (rc)
        printf("%s\n", err.msg);
    FILE *f = fopen(result, "r");
    const size_t got = rc || !f ? 0 : fread(text, 1, size - 1, f);
    text[got] = 0;
    if (f)
        fclose(f);
    return !rc;
}

static void check_lines(const struct vp_boxes *b, const void *a, enum vp_type type, bool volume, char *text)
{
    char *line = strtok(text, "\n");
    for (int64_t image = 0; image < IMAGES; image++)
        for (int64_t i = 0; i < b->n; i++) {
            const struct vp_box_wanted *w = &b->box[i];
            double mean, std, sum;
            char want[64], name[64], sums[64], means[64], stds[64], places[3][64];
            long long at, count;
            if (w->image != VP_EVERY && w->image != image)
                continue;
            want_box(w, a, type, image, volume ? IMAGES : 1, &mean, &std, want, &sum);
            line = strtok(NULL, "\n");
            CHECK(line);
            if (!line)
                return;
            const int got = volume ? sscanf(line, "%63s %lld %63s %63s %63s %lld %63s %63s %63s", name, &at, places[0],
                                            places[1], places[2], &count, sums, means, stds)
                                   : 1 + sscanf(line, "%63s %lld %63s %63s %lld %63s %63s %63s", name, &at, places[0],
                                                places[1], &count, sums, means, stds);
            CHECK_INT(got, 9);
            CHECK_STR(name, w->name);
            CHECK_INT(at, image);
            if (!vp_type_is_float(type))
                CHECK_STR(sums, want);
            const bool good = agrees(strtod(sums, NULL), sum, 1e-15) && agrees(strtod(means, NULL), mean, 1e-15)
                              && agrees(strtod(stds, NULL), std, 1e-12);
            if (!good)
                printf("%s, wanted %.17g %.17g %.17g\n", line, sum, mean, std);
            CHECK(good);
        }
    CHECK(!strtok(NULL, "\n"));
}

static void test_boxes(enum vp_type type, enum kind kind, bool volume)
{
    static const char *const isas[] = {"generic", "avx2", "avx512"};
    enum { TEXT = 1 << 16, SAMPLES = NX * NY * NZ * IMAGES };
    char *first = malloc(TEXT), *text = malloc(TEXT);
    void *a = malloc(SAMPLES * vp_type_size(type));
    make_samples(a, type, kind, SAMPLES);
    make_list(volume);
    for (int i = 0; i < 6; i++) {
        struct vp_boxes b;
        vp_isa_limit(isas[i % 3]);
        CHECK(measure(&b, a, type, volume, i < 3 ? 1 : 2 + i % 2, i % 2 ? 1000 : 9, text, TEXT));
        if (i == 0)
            strcpy(first, text);
        CHECK_STR(text, first);
        if (i == 0)
            check_lines(&b, a, type, volume, text);
        vp_boxes_free(&b);
    }
    free(a);
    free(first);
    free(text);
}

int main(void)
{
    const int fd = mkstemp(list);
    close(fd);
    snprintf(result, sizeof result, "%s.tsv", list);
    state = 5;
    test_exact();
    test_quotient();
    for (int volume = 0; volume < 2; volume++)
        for (int type = 0; type < VP_N_TYPES; type++)
            for (int kind = 0; kind < (vp_type_is_float((enum vp_type)type) ? KINDS : 2); kind++)
                test_boxes((enum vp_type)type, (enum kind)kind, volume);
    unlink(list);
    unlink(result);
    return test_done();
}
