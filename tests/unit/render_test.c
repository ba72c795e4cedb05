/* SPDX-License-Identifier: BSD-3-Clause */
/* Pictures: resizing and gray values against their definition; PNG read back by a decoder of our own. */
#include "base/err.h"
#include "pages/png.h"
#include "pages/render.h"
#include "stack/outfile.h"
#include "test.h"

#include <stdlib.h>
#include <unistd.h>
#include <zlib.h>

static struct vp_err err = VP_ERR_INIT;

/* Not compressible. */
static uint8_t noise(int64_t i)
{
    uint64_t z = ((uint64_t)i + 1) * 0x9e3779b97f4a7c15u;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    return (uint8_t)(z >> 40);
}

static uint32_t be32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* Pixels of an 8-bit gray PNG, malloc'd; every rule that we use is checked. */
static uint8_t *decode(const uint8_t *png, size_t size, int64_t *w, int64_t *h, int *chunks)
{
    static const uint8_t signature[8] = {137, 80, 78, 71, 13, 10, 26, 10};
    uint8_t *data = malloc(size), *rows = NULL, *out = NULL;
    size_t n = 0, at = 8;
    bool end = false;

    *chunks = 0;
    CHECK(size > 8 && !memcmp(png, signature, 8));
    while (at + 12 <= size && !end) {
        const uint32_t len = be32(png + at);
        const uint8_t *type = png + at + 4, *body = png + at + 8;
        CHECK(at + 12 + len <= size);
        CHECK_INT(be32(body + len), crc32(0, type, len + 4));
        if (!memcmp(type, "IHDR", 4)) {
            const uint8_t rest[5] = {8, 0, 0, 0, 0};
            CHECK_INT(len, 13);
            *w = be32(body);
            *h = be32(body + 4);
            CHECK(!memcmp(body + 8, rest, 5));
        } else if (!memcmp(type, "IDAT", 4)) {
            memcpy(data + n, body, len);
            n += len;
            ++*chunks;
        } else {
            CHECK(!memcmp(type, "IEND", 4));
            end = true;
        }
        at += 12 + len;
    }
    CHECK(end && at == size);
    const size_t line = (size_t)*w + 1;
    uLongf raw = line * (size_t)*h;
    rows = malloc(raw);
    out = calloc((size_t)*w, (size_t)*h);
    CHECK_INT(uncompress(rows, &raw, data, n), Z_OK);
    CHECK_INT(raw, line * (size_t)*h);
    for (int64_t y = 0; y < *h; y++)
        for (int64_t x = 0; x < *w; x++) {
            uint8_t *o = out + y * *w + x;
            const int a = x ? o[-1] : 0, b = y ? o[-*w] : 0, c = x && y ? o[-*w - 1] : 0;
            const int p = a + b - c, pa = abs(p - a), pb = abs(p - b), pc = abs(p - c);
            const int guess[5] = {0, a, b, (a + b) / 2, pa <= pb && pa <= pc ? a : pb <= pc ? b : c};
            const int filter = rows[(size_t)y * line];
            CHECK(filter < 5);
            *o = (uint8_t)(rows[(size_t)y * line + 1 + (size_t)x] + guess[filter]);
        }
    free(data);
    free(rows);
    return out;
}

static void test_png(int64_t w, int64_t h, int zoom, int kind)
{
    char path[] = "render_test.XXXXXX";
    const int fd = mkstemp(path);
    struct vp_outfile *file = NULL;
    uint8_t *gray = malloc((size_t)(w * h)), *png = NULL, *got = NULL;
    int64_t gw = 0, gh = 0;
    int chunks;

    close(fd);
    for (int64_t i = 0; i < w * h; i++)
        gray[i] = kind == 0 ? noise(i) : kind == 1 ? (uint8_t)(i % w + i / w) : 200;
    CHECK(vp_outfile_open(&file, path, &err) == 0);
    CHECK(vp_png_write(file, gray, 1, w, h, zoom, &err) == 0);
    CHECK(vp_outfile_close(file, &err) == 0);
    FILE *f = fopen(path, "rb");
    fseek(f, 0, SEEK_END);
    const long size = ftell(f);
    rewind(f);
    png = malloc((size_t)size);
    CHECK_INT(fread(png, 1, (size_t)size, f), size);
    fclose(f);
    got = decode(png, (size_t)size, &gw, &gh, &chunks);
    CHECK_INT(gw, w * zoom);
    CHECK_INT(gh, h * zoom);
    int64_t wrong = 0;
    for (int64_t y = 0; y < gh; y++)
        for (int64_t x = 0; x < gw; x++)
            wrong += got[y * gw + x] != gray[y / zoom * w + x / zoom];
    CHECK_INT(wrong, 0);
    if (kind == 0 && w > 500)
        CHECK(chunks > 1);
    unlink(path);
    free(gray);
    free(png);
    free(got);
}

static void test_gray(void)
{
    float v[] = {-1, 0, 0.25f, 0.5f, 1, 2, NAN, INFINITY, -INFINITY, 0.001f, 0.002f};
    const uint8_t want[] = {0, 0, 64, 128, 255, 255, 0, 255, 0, 0, 1};
    const uint8_t inverse[] = {255, 255, 191, 127, 0, 0, 0, 0, 255, 255, 254};
    const struct vp_picture p = {v, 11, 1};
    uint8_t got[11];

    vp_picture_gray(&p, 0, 1, false, got, 1);
    CHECK(!memcmp(got, want, 11));
    vp_picture_gray(&p, 0, 1, true, got, 1);
    CHECK(!memcmp(got, inverse, 11));
}

static struct vp_picture ramp(int64_t w, int64_t h, double a, double b, double c)
{
    struct vp_picture p;

    CHECK(vp_picture_new(&p, w, h, &err) == 0);
    for (int64_t y = 0; y < h; y++)
        for (int64_t x = 0; x < w; x++)
            p.v[y * w + x] = (float)(a * (double)x + b * (double)y + c);
    return p;
}

/* Old coordinate of a new pixel's centre. */
static double back(int64_t j, int64_t from, int64_t to)
{
    return ((double)j + 0.5) * (double)from / (double)to - 0.5;
}

/* Linear pictures stay linear, with the pixel grid's centres in place, however they are resized. */
static void test_resize(int64_t w, int64_t h, int64_t nw, int64_t nh)
{
    struct vp_picture p = ramp(w, h, 2, -3, 7);

    CHECK(vp_picture_resize(&p, nw, nh, &err) == 0);
    CHECK_INT(p.w, nw);
    CHECK_INT(p.h, nh);
    double worst = 0;
    for (int64_t y = 0; y < nh; y++)
        for (int64_t x = 0; x < nw; x++) {
            const double bx = fmin(fmax(back(x, w, nw), 0), (double)w - 1);
            const double by = fmin(fmax(back(y, h, nh), 0), (double)h - 1);
            worst = fmax(worst, fabs(p.v[y * nw + x] - (2 * bx - 3 * by + 7)));
        }
    /* shrinking takes means over fractions of pixels, each constant: off the line by up to 1/8 of a
     * pixel's step */
    const bool whole = (nw >= w || w % nw == 0) && (nh >= h || h % nh == 0);
    CHECK(worst < (whole ? 1e-4 : (2 + 3) / 8.0 + 1e-4));
    vp_picture_free(&p);
}

/* The mean of a picture does not change when it shrinks. */
static void test_mean(void)
{
    struct vp_picture p = ramp(31, 17, 0, 0, 0);
    double before = 0, after = 0;

    for (int i = 0; i < 31 * 17; i++) {
        p.v[i] = (float)((i * 7919) % 101);
        before += p.v[i] / (31 * 17);
    }
    CHECK(vp_picture_resize(&p, 12, 5, &err) == 0);
    for (int i = 0; i < 12 * 5; i++)
        after += p.v[i] / (12 * 5);
    CHECK_NEAR(after, before, 1e-4);
    vp_picture_free(&p);
}

static void test_window(void)
{
    struct vp_picture p = ramp(1001, 1, 1, 0, 0);
    double lo, hi;

    p.v[500] = NAN;
    CHECK(vp_picture_window(&p, 1, 0, 100, &lo, &hi, &err) == 0);
    CHECK(lo == 0 && hi == 1000);
    p.v[500] = 500;
    CHECK(vp_picture_window(&p, 1, 1, 99, &lo, &hi, &err) == 0);
    CHECK_NEAR(lo, 10, 1e-9);
    CHECK_NEAR(hi, 990, 1e-9);
    for (int i = 0; i < 1001; i++)
        p.v[i] = 5;
    CHECK(vp_picture_window(&p, 1, 1, 99, &lo, &hi, &err) == 0);
    CHECK(lo < 5 && hi > 5);
    vp_picture_free(&p);
    CHECK(vp_picture_new(&p, 70000, 1, &err) < 0);
}

static void test_compose(void)
{
    struct vp_picture tile[3], z, y, x, out;

    CHECK(vp_picture_new(&out, 9, 7, &err) == 0);
    for (int i = 0; i < 3; i++) {
        tile[i] = ramp(4, 3, 0, 0, i + 1);
        vp_picture_put(&out, i % 2 * 5, i / 2 * 4, &tile[i]);
    }
    CHECK(out.w == 9 && out.h == 7);
    CHECK(out.v[0] == 1 && out.v[5] == 2 && out.v[4 * 9] == 3 && isnan(out.v[4]) && isnan(out.v[4 * 9 + 5]));
    vp_picture_free(&out);
    z = ramp(4, 3, 0, 0, 1);
    y = ramp(4, 6, 0, 0, 2);
    x = ramp(6, 3, 0, 0, 3);
    CHECK(vp_picture_new(&out, 12, 11, &err) == 0);
    vp_picture_put(&out, 0, 0, &z);
    vp_picture_put(&out, 6, 0, &x);
    vp_picture_put(&out, 0, 5, &y);
    CHECK(out.w == 12 && out.h == 11);
    CHECK(out.v[0] == 1 && out.v[6] == 3 && out.v[5 * 12] == 2 && isnan(out.v[5 * 12 + 6]));
    vp_picture_free(&out);
    vp_picture_free(&z);
    vp_picture_free(&y);
    vp_picture_free(&x);
    for (int i = 0; i < 3; i++)
        vp_picture_free(&tile[i]);
}

int main(void)
{
    test_png(1, 1, 1, 0);
    test_png(17, 5, 3, 0);
    test_png(600, 400, 1, 0);
    test_png(300, 200, 1, 1);
    test_png(300, 200, 2, 2);
    test_gray();
    test_resize(8, 6, 8, 6);
    test_resize(8, 6, 4, 3);
    test_resize(10, 7, 7, 3);
    test_resize(8, 6, 24, 20);
    test_resize(1, 9, 5, 2);
    test_mean();
    test_window();
    test_compose();
    return test_done();
}
