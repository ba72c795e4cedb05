/* SPDX-License-Identifier: BSD-3-Clause */
/* Foreign images of every form against samples put together here bit by bit; what descriptions and tables may cost;
 * and libtiff where the system fails. */
#include "test.h"
#include "base/err.h"
#include "base/size.h"
#include "stack/form.h"
#include "stack/libtiff.h"
#include "stack/reader.h"
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <tiffio.h>
#include <unistd.h>

static char path[] = "/tmp/voxpipe-form-XXXXXX";
static const char *const paths[] = {path};
static const struct vp_reader_options plain = {0}, colours = {.colours = true};

enum { NX = 37, NY = 21, IMAGES = 2 };

struct kind {
    const char *mode;
    int bits, format, samples, planar, photometric, orientation, compression;
    uint32_t tile, rows; /* rows of a strip */
    enum vp_type type;
};

/* Blocks of which every n-th, from the first, is left out; 0: none is. */
static int write_sparse;

static bool left_out(const struct kind *k, int c, int x, int y)
{
    const int bx = k->tile ? (int)k->tile : NX, by = k->tile ? (int)k->tile : (int)k->rows;
    const int across = (NX - 1) / bx + 1, blocks = across * ((NY - 1) / by + 1);
    return write_sparse && ((k->planar == 2 ? c * blocks : 0) + y / by * across + x / bx) % write_sparse == 0;
}

/* Sample c of stored pixel (x, y) as `bits` bits. */
static uint64_t stored(const struct kind *k, int image, int c, int x, int y)
{
    if (left_out(k, c, x, y))
        return 0;
    const uint64_t v = (uint64_t)(x * 7 + y * 13 + c * 29 + image * 5 + (x * y) % 11);
    if (k->format == 3 && k->bits == 16) /* (-1)^x (1 + v % 1024 / 1024) 2^(v % 30 - 14) */
        return (uint64_t)(x % 2) << 15 | (v % 30 + 1) << 10 | v % 1024;
    if (k->format == 3 && k->bits == 24)
        return (uint64_t)(x % 2) << 23 | (v % 126 + 1) << 16 | (v * 77) % 65536;
    if (k->format == 3) {
        const float f = (float)v / 8 - 3;
        uint32_t bits;
        memcpy(&bits, &f, sizeof bits);
        return bits;
    }
    return v * 2654435761u >> 3 & (k->bits < 64 ? ((uint64_t)1 << k->bits) - 1 : UINT64_MAX);
}

static uint16_t colour(int bits, uint64_t v, int c, bool wide)
{
    const uint16_t eight = (uint16_t)((v * (uint64_t)(40 + 20 * c) + (uint64_t)bits) & 255);
    return wide ? (uint16_t)(eight * 256 + (eight + 3) % 256) : (uint16_t)(eight * 257);
}

/* The value that it stands for; looked_up: that of a palette. */
static double value(const struct kind *k, bool looked_up, int image, int c, int x, int y)
{
    const uint64_t v = stored(k, image, looked_up ? 0 : c, x, y);
    const bool wide = k->type == VP_U16;
    if (looked_up)
        return wide ? colour(k->bits, v, c, true) : colour(k->bits, v, c, false) / 257;
    if (k->format == 3 && k->bits == 16)
        return (v >> 15 ? -1 : 1) * ldexp(1 + (double)(v & 1023) / 1024, (int)(v >> 10 & 31) - 15);
    if (k->format == 3 && k->bits == 24)
        return (v >> 23 ? -1 : 1) * ldexp(1 + (double)(v & 65535) / 65536, (int)(v >> 16 & 127) - 63);
    if (k->format == 3) {
        const uint32_t bits = (uint32_t)v;
        float f;
        memcpy(&f, &bits, sizeof f);
        return (double)f;
    }
    double d = (double)v;
    if (k->format == 2 && v >> (k->bits - 1))
        d -= ldexp(1, k->bits);
    if (k->photometric == PHOTOMETRIC_MINISWHITE)
        d = k->format == 2 ? -1 - d : ldexp(1, k->bits) - 1 - d;
    return d;
}

/* `n` bits at bit `at`: the most significant first, or whole samples in the host's order, as libtiff wants them. */
static void put_sample(unsigned char *to, uint64_t i, int bits, uint64_t v)
{
    if (bits % 8 == 0) {
        for (int b = 0; b < bits / 8; b++)
            to[i * (uint64_t)(bits / 8) + (uint64_t)b] = (unsigned char)(v >> 8 * b);
        return;
    }
    for (int b = 0; b < bits; b++) {
        const uint64_t at = i * (uint64_t)bits + (uint64_t)b;
        if (v >> (bits - 1 - b) & 1)
            to[at / 8] |= (unsigned char)(128 >> at % 8);
    }
}

static void write_image(TIFF *t, const struct kind *k, int image)
{
    TIFFSetField(t, TIFFTAG_IMAGEWIDTH, NX);
    TIFFSetField(t, TIFFTAG_IMAGELENGTH, NY);
    TIFFSetField(t, TIFFTAG_BITSPERSAMPLE, k->bits);
    TIFFSetField(t, TIFFTAG_SAMPLESPERPIXEL, k->samples);
    TIFFSetField(t, TIFFTAG_SAMPLEFORMAT, k->format);
    TIFFSetField(t, TIFFTAG_PHOTOMETRIC, k->photometric);
    TIFFSetField(t, TIFFTAG_PLANARCONFIG, k->planar);
    TIFFSetField(t, TIFFTAG_ORIENTATION, k->orientation);
    TIFFSetField(t, TIFFTAG_COMPRESSION, k->compression);
    if (k->photometric == PHOTOMETRIC_RGB && k->samples == 4)
        TIFFSetField(t, TIFFTAG_EXTRASAMPLES, 1, (uint16_t[]){EXTRASAMPLE_UNASSALPHA});
    if (k->photometric == PHOTOMETRIC_PALETTE) {
        uint16_t map[3][65536];
        for (int c = 0; c < 3; c++)
            for (int i = 0; i < 1 << k->bits; i++)
                map[c][i] = colour(k->bits, (uint64_t)i, c, k->type == VP_U16);
        TIFFSetField(t, TIFFTAG_COLORMAP, map[0], map[1], map[2]);
    }
    if (k->tile) {
        TIFFSetField(t, TIFFTAG_TILEWIDTH, k->tile);
        TIFFSetField(t, TIFFTAG_TILELENGTH, k->tile);
    } else {
        TIFFSetField(t, TIFFTAG_ROWSPERSTRIP, k->rows);
    }
    const int bx = k->tile ? (int)k->tile : NX, by = k->tile ? (int)k->tile : (int)k->rows;
    const int inside = k->planar == 2 ? 1 : k->samples;
    const size_t row = ((size_t)(bx * inside * k->bits) + 7) / 8;
    unsigned char *block = malloc(row * (size_t)by);
    for (int plane = 0; plane < (k->planar == 2 ? k->samples : 1); plane++)
        for (int y = 0; y < NY; y += by)
            for (int x = 0; x < NX; x += bx) {
                if (left_out(k, plane, x, y))
                    continue;
                memset(block, 0, row * (size_t)by);
                for (int j = 0; j < by && y + j < NY; j++)
                    for (int i = 0; i < bx && x + i < NX; i++)
                        for (int c = 0; c < inside; c++)
                            put_sample(block + (size_t)j * row, (uint64_t)(i * inside + c), k->bits,
                                       stored(k, image, plane + c, x + i, y + j));
                if (k->tile)
                    TIFFWriteTile(t, block, (uint32_t)x, (uint32_t)y, 0, (uint16_t)plane);
                else
                    TIFFWriteEncodedStrip(t, TIFFComputeStrip(t, (uint32_t)y, (uint16_t)plane), block,
                                          (tmsize_t)(row * (size_t)(y + by > NY ? NY - y : by)));
            }
    free(block);
    TIFFWriteDirectory(t);
}

/* A thumbnail of another size and type. */
static void write_thumbnail(TIFF *t)
{
    TIFFSetField(t, TIFFTAG_SUBFILETYPE, FILETYPE_REDUCEDIMAGE);
    TIFFSetField(t, TIFFTAG_IMAGEWIDTH, 4);
    TIFFSetField(t, TIFFTAG_IMAGELENGTH, 1);
    TIFFSetField(t, TIFFTAG_BITSPERSAMPLE, 8);
    TIFFSetField(t, TIFFTAG_SAMPLESPERPIXEL, 1);
    TIFFSetField(t, TIFFTAG_PHOTOMETRIC, PHOTOMETRIC_MINISBLACK);
    TIFFWriteScanline(t, (char[]){"abc"}, 0, 0);
    TIFFWriteDirectory(t);
}

static void write_kind(const struct kind *k, bool thumbnails)
{
    TIFF *t = TIFFOpen(path, k->mode);
    for (int i = 0; i < IMAGES; i++) {
        if (thumbnails)
            write_thumbnail(t);
        write_image(t, k, i);
    }
    TIFFClose(t);
}

/* Where stored pixel (x, y) is seen: TIFF 6.0, Orientation. */
static void seen(int orientation, int x, int y, int *to_x, int *to_y)
{
    switch (orientation) {
    case 2: *to_x = NX - 1 - x, *to_y = y; break;          /* row 0 is the top, column 0 the right */
    case 3: *to_x = NX - 1 - x, *to_y = NY - 1 - y; break; /* bottom, right */
    case 4: *to_x = x, *to_y = NY - 1 - y; break;          /* bottom, left */
    case 5: *to_x = y, *to_y = x; break;                   /* left, top */
    case 6: *to_x = NY - 1 - y, *to_y = x; break;          /* right, top */
    case 7: *to_x = NY - 1 - y, *to_y = NX - 1 - x; break; /* right, bottom */
    case 8: *to_x = y, *to_y = NX - 1 - x; break;          /* left, bottom */
    default: *to_x = x, *to_y = y; break;
    }
}

static void check_kind(const struct kind *k, bool looked_up)
{
    struct vp_err err = VP_ERR_INIT;
    struct vp_reader *r = NULL;
    const int64_t channels = looked_up ? 3 : k->samples;
    const bool index = k->photometric == PHOTOMETRIC_PALETTE && !looked_up;
    const enum vp_type type = index ? (k->bits > 8 ? VP_U16 : VP_U8) : k->type;
    CHECK(!vp_reader_open(&r, paths, 1, looked_up ? &colours : &plain, &err));
    if (!r) {
        printf("%d bits x %d, photometric %d: %s\n", k->bits, k->samples, k->photometric, err.msg);
        return;
    }
    const struct vp_stack *s = vp_reader_stack(r);
    const bool turned = k->orientation >= 5;
    CHECK_INT(s->nx, turned ? NY : NX);
    CHECK_INT(s->ny, turned ? NX : NY);
    CHECK_INT(s->pages, channels * IMAGES);
    CHECK_STR(vp_type_name(s->type), vp_type_name(type));
    CHECK(!vp_meta_get(&s->meta, "palette") == !(index && k->bits <= 8));
    const size_t size = vp_type_size(s->type);
    double *want = malloc(NX * NY * sizeof *want), *got = malloc(NX * NY * sizeof *got);
    void *raw = malloc(NX * NY * size);
    int wrong = 0, rows_wrong = 0;
    for (int64_t p = 0; p < s->pages; p++) {
        for (int y = 0; y < NY; y++)
            for (int x = 0; x < NX; x++) {
                int tx, ty;
                seen(k->orientation, x, y, &tx, &ty);
                want[ty * s->nx + tx] = value(k, looked_up, (int)(p / channels), (int)(p % channels), x, y);
            }
        CHECK_INT(vp_reader_next(r, raw, &err), 1);
        vp_convert(got, VP_F64, raw, s->type, NX * NY, 1, 0);
        for (int i = 0; i < NX * NY; i++)
            wrong += got[i] != want[i];
        /* some rows, from the last to the first */
        for (int64_t y1 = s->ny; y1 > 0; y1 -= 5) {
            const int64_t y0 = y1 > 5 ? y1 - 5 : 0;
            const struct vp_wanted w = {.page = p, .n = 1, .y0 = y0, .y1 = y1};
            CHECK_INT(vp_reader_read(r, &w, &raw, &err), 1);
            vp_convert(got, VP_F64, raw, s->type, (y1 - y0) * s->nx, 1, 0);
            for (int64_t i = 0; i < (y1 - y0) * s->nx; i++)
                rows_wrong += got[i] != want[y0 * s->nx + i];
        }
    }
    CHECK_INT(vp_reader_next(r, raw, &err), 0);
    CHECK(!vp_reader_close(r, &err));
    CHECK_STR(err.msg, "");
    CHECK_INT(wrong, 0);
    CHECK_INT(rows_wrong, 0);
    if (wrong || rows_wrong)
        printf("%d bits x %d of format %d, planar %d, photometric %d, orientation %d, tile %u\n", k->bits, k->samples,
               k->format, k->planar, k->photometric, k->orientation, k->tile);
    free(want);
    free(got);
    free(raw);
}

/* Damaged files are read or refused; the sanitizers look on. */
static void damaged(const struct kind *k)
{
    write_kind(k, false);
    static unsigned char good[1 << 20], bad[1 << 20];
    const int fd = open(path, O_RDONLY);
    const ssize_t n = read(fd, good, sizeof good);
    close(fd);
    CHECK(n > 8 && n < (ssize_t)sizeof good);
    vp_memory_limit(64 << 20);
    int read = 0, refused = 0;
    for (int i = 0; i < 60; i++) {
        memcpy(bad, good, (size_t)n);
        for (int j = 0; j < 3; j++) { /* directories lie at the end, and have the interesting bytes */
            const ssize_t at = j ? n - 1 - rand() % (n < 700 ? n : 700) : rand() % n;
            bad[at] = (unsigned char)(rand() % 3 ? rand() % 20 : rand());
        }
        FILE *f = fopen(path, "wb");
        fwrite(bad, 1, (size_t)n, f);
        fclose(f);
        struct vp_err err = VP_ERR_INIT;
        struct vp_reader *r = NULL;
        int rc = vp_reader_open(&r, paths, 1, &plain, &err) ? -1 : 1;
        const size_t bytes = rc == 1 ? vp_page_bytes(vp_reader_stack(r)) : 0;
        void *page = bytes && bytes < 16 << 20 ? malloc(bytes) : NULL;
        for (int p = 0; rc == 1 && page && p < 50; p++)
            rc = vp_reader_next(r, page, &err);
        read += rc >= 0;
        refused += rc < 0 && err.msg[0];
        free(page);
        vp_reader_close(r, NULL);
    }
    CHECK_INT(read + refused, 60);
    vp_memory_limit(UINT64_MAX);
}

static void every_form(void)
{
    enum { NONE = COMPRESSION_NONE, LZW = COMPRESSION_LZW, ZIP = COMPRESSION_ADOBE_DEFLATE };
    enum { WHITE = PHOTOMETRIC_MINISWHITE, BLACK = PHOTOMETRIC_MINISBLACK, RGB = PHOTOMETRIC_RGB,
           PALETTE = PHOTOMETRIC_PALETTE, CMYK = PHOTOMETRIC_SEPARATED };
    static const struct kind kinds[] = {
        {"w", 1, 1, 1, 1, BLACK, 1, NONE, 0, 5, VP_U8},
        {"w", 1, 1, 1, 1, WHITE, 1, COMPRESSION_CCITTFAX4, 0, 21, VP_U8},
        {"wb", 2, 1, 1, 1, BLACK, 1, NONE, 16, 0, VP_U8},
        {"w", 4, 1, 1, 1, WHITE, 3, LZW, 0, 4, VP_U8},
        {"wb", 12, 1, 1, 1, BLACK, 1, NONE, 0, 21, VP_U16},
        {"w", 12, 1, 3, 1, RGB, 1, LZW, 0, 6, VP_U16},
        {"w", 10, 2, 1, 1, WHITE, 1, NONE, 0, 7, VP_I16},
        {"wb", 24, 1, 1, 1, BLACK, 1, NONE, 0, 7, VP_U32},
        {"w", 31, 2, 2, 2, BLACK, 1, ZIP, 16, 0, VP_I32},
        {"wb", 16, 3, 1, 1, BLACK, 1, NONE, 0, 9, VP_F32},
        {"w", 24, 3, 1, 1, BLACK, 1, ZIP, 0, 9, VP_F32},
        {"w8", 32, 3, 3, 1, RGB, 1, ZIP, 16, 0, VP_F32},
        {"w", 8, 1, 1, 1, WHITE, 1, NONE, 0, 5, VP_U8},
        {"wb", 16, 2, 1, 1, WHITE, 1, NONE, 0, 5, VP_I16},
        {"w", 32, 3, 1, 1, WHITE, 1, NONE, 0, 5, VP_F32},
        {"w", 64, 1, 2, 1, BLACK, 1, NONE, 0, 5, VP_U64},
        {"w", 8, 1, 3, 1, RGB, 1, NONE, 0, 5, VP_U8},
        {"wb", 8, 1, 4, 2, RGB, 1, ZIP, 0, 5, VP_U8},
        {"wb", 16, 1, 3, 2, RGB, 1, NONE, 16, 0, VP_U16},
        {"w", 16, 1, 4, 1, CMYK, 1, LZW, 32, 0, VP_U16},
        {"w", 1, 1, 1, 1, PALETTE, 1, NONE, 0, 5, VP_U8},
        {"w", 4, 1, 1, 1, PALETTE, 1, LZW, 0, 5, VP_U16},
        {"wb", 8, 1, 1, 1, PALETTE, 8, NONE, 16, 0, VP_U8},
        {"w", 16, 1, 1, 1, PALETTE, 1, NONE, 0, 21, VP_U16},
    };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        write_kind(&kinds[i], i % 2);
        for (int looked_up = 0; looked_up <= (kinds[i].photometric == PALETTE); looked_up++) {
            check_kind(&kinds[i], looked_up);
            vp_memory_limit(1000); /* nothing is decoded as a whole */
            check_kind(&kinds[i], looked_up);
            vp_memory_limit(UINT64_MAX);
        }
    }
    for (int orientation = 1; orientation <= 8; orientation++) {
        const struct kind turned[] = {
            {"w", 8, 1, 1, 1, BLACK, orientation, NONE, 0, 4, VP_U8},
            {"w", 16, 1, 3, 1, RGB, orientation, LZW, 16, 0, VP_U16},
            {"w", 4, 1, 3, 2, RGB, orientation, ZIP, 0, 6, VP_U8},
        };
        for (int i = 0; i < 3; i++) {
            write_kind(&turned[i], false);
            check_kind(&turned[i], false);
            vp_memory_limit(1000);
            check_kind(&turned[i], false);
            vp_memory_limit(UINT64_MAX);
            damaged(&turned[i]);
        }
    }
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        damaged(&kinds[i]);
}

/* Every third block of an image is never written: libtiff leaves such out, and they are zeros. */
static void sparse(void)
{
    enum { NONE = COMPRESSION_NONE, ZIP = COMPRESSION_ADOBE_DEFLATE, WHITE = PHOTOMETRIC_MINISWHITE,
           BLACK = PHOTOMETRIC_MINISBLACK, RGB = PHOTOMETRIC_RGB };
    static const struct kind kinds[] = {
        {"w", 8, 1, 1, 1, BLACK, 1, NONE, 0, 4, VP_U8},  {"wb", 16, 1, 1, 1, BLACK, 1, ZIP, 0, 4, VP_U16},
        {"w", 8, 1, 1, 1, BLACK, 1, NONE, 16, 0, VP_U8}, {"w", 32, 3, 1, 1, BLACK, 1, ZIP, 16, 0, VP_F32},
        {"w", 8, 1, 3, 1, RGB, 1, NONE, 16, 0, VP_U8},   {"w", 8, 1, 3, 2, RGB, 6, ZIP, 16, 0, VP_U8},
        {"w", 8, 1, 1, 1, WHITE, 1, NONE, 16, 0, VP_U8}, {"w", 16, 1, 1, 1, BLACK, 1, ZIP, 0, 20, VP_U16},
    };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        write_sparse = 3;
        write_kind(&kinds[i], false);
        check_kind(&kinds[i], false);
        vp_memory_limit(1000);
        check_kind(&kinds[i], false);
        vp_memory_limit(UINT64_MAX);
        write_sparse = 0;
    }
}

/* SGI's logarithmic luminance comes out as a number, within the step of the code: 0.27 %. */
static void log_luminance(void)
{
    if (!TIFFIsCODECConfigured(COMPRESSION_SGILOG))
        return;
    float line[64], got[64];
    for (int i = 0; i < 64; i++)
        line[i] = 0.01f * powf(1.3f, (float)i);
    TIFF *t = TIFFOpen(path, "w");
    TIFFSetField(t, TIFFTAG_IMAGEWIDTH, 64);
    TIFFSetField(t, TIFFTAG_IMAGELENGTH, 1);
    TIFFSetField(t, TIFFTAG_SAMPLESPERPIXEL, 1);
    TIFFSetField(t, TIFFTAG_PHOTOMETRIC, PHOTOMETRIC_LOGL);
    TIFFSetField(t, TIFFTAG_COMPRESSION, COMPRESSION_SGILOG);
    TIFFSetField(t, TIFFTAG_BITSPERSAMPLE, 16);
    TIFFSetField(t, TIFFTAG_SGILOGDATAFMT, SGILOGDATAFMT_FLOAT);
    CHECK(TIFFWriteEncodedStrip(t, 0, line, sizeof line) > 0);
    TIFFClose(t);
    struct vp_err err = VP_ERR_INIT;
    struct vp_reader *r = NULL;
    CHECK(!vp_reader_open(&r, paths, 1, &plain, &err));
    CHECK_STR(err.msg, "");
    if (!r)
        return;
    CHECK_STR(vp_type_name(vp_reader_stack(r)->type), "f32");
    CHECK_INT(vp_reader_next(r, got, &err), 1);
    for (int i = 0; i < 64; i++)
        CHECK_NEAR(got[i], line[i], 0.003 * line[i]);
    CHECK(!vp_reader_close(r, &err));
}

/* Patches of one colour: what JPEG and YCbCr do to them is rounding. */
static void ycbcr(void)
{
    static const uint8_t patch[3][3] = {{200, 40, 90}, {10, 130, 250}, {128, 128, 128}}; /* R, G, B */
    for (int jpeg = 0; jpeg < 2; jpeg++) {
        if (jpeg && !TIFFIsCODECConfigured(COMPRESSION_JPEG))
            continue;
        TIFF *t = TIFFOpen(path, "w");
        TIFFSetField(t, TIFFTAG_IMAGEWIDTH, 16);
        TIFFSetField(t, TIFFTAG_IMAGELENGTH, 48);
        TIFFSetField(t, TIFFTAG_BITSPERSAMPLE, 8);
        TIFFSetField(t, TIFFTAG_SAMPLESPERPIXEL, 3);
        TIFFSetField(t, TIFFTAG_PHOTOMETRIC, PHOTOMETRIC_YCBCR);
        TIFFSetField(t, TIFFTAG_ROWSPERSTRIP, 16);
        TIFFSetField(t, TIFFTAG_COMPRESSION, jpeg ? COMPRESSION_JPEG : COMPRESSION_NONE);
        if (jpeg)
            TIFFSetField(t, TIFFTAG_JPEGCOLORMODE, JPEGCOLORMODE_RGB), TIFFSetField(t, TIFFTAG_JPEGQUALITY, 100);
        else
            TIFFSetField(t, TIFFTAG_YCBCRSUBSAMPLING, 2, 2),
                TIFFSetField(t, TIFFTAG_REFERENCEBLACKWHITE, (float[]){0, 255, 128, 255, 128, 255});
        for (int i = 0; i < 3; i++) {
            const uint8_t *c = patch[i];
            uint8_t block[16 * 16 * 3];
            const double y = 0.299 * c[0] + 0.587 * c[1] + 0.114 * c[2];
            const uint8_t all[3] = {(uint8_t)lround(y), (uint8_t)lround(128 + (c[2] - y) / 1.772),
                                    (uint8_t)lround(128 + (c[0] - y) / 1.402)};
            size_t n = 0;
            for (int k = 0; k < 16 * 16 / (jpeg ? 1 : 4); k++) /* Y Y Y Y Cb Cr, or R G B */
                for (int j = 0; j < (jpeg ? 3 : 6); j++)
                    block[n++] = jpeg ? c[j] : all[j < 4 ? 0 : j - 3];
            TIFFWriteEncodedStrip(t, (uint32_t)i, block, (tmsize_t)n);
        }
        TIFFClose(t);
        struct vp_err err = VP_ERR_INIT;
        struct vp_reader *r = NULL;
        CHECK(!vp_reader_open(&r, paths, 1, &plain, &err));
        if (!r)
            continue;
        CHECK_INT(vp_reader_stack(r)->pages, 3);
        CHECK_STR(vp_meta_get(&vp_reader_stack(r)->meta, "channels"), "red green blue");
        for (int c = 0; c < 3; c++) {
            uint8_t page[16 * 48];
            CHECK_INT(vp_reader_next(r, page, &err), 1);
            for (int i = 0; i < 3; i++)
                for (int k = 0; k < 16 * 16; k++)
                    if (abs(page[16 * 16 * i + k] - patch[i][c]) > 2) {
                        CHECK_INT(page[16 * 16 * i + k], patch[i][c]);
                        break;
                    }
        }
        CHECK(!vp_reader_close(r, &err));
    }
}

static void meaning(void)
{
    static const struct {
        struct kind kind;
        const char *channels;
    } named[] = {
        {{"w", 8, 1, 4, 1, PHOTOMETRIC_RGB, 1, COMPRESSION_NONE, 0, 21, VP_U8}, "red green blue alpha"},
        {{"w", 8, 1, 4, 1, PHOTOMETRIC_SEPARATED, 1, COMPRESSION_NONE, 0, 21, VP_U8}, "cyan magenta yellow black"},
        {{"w", 4, 1, 1, 1, PHOTOMETRIC_PALETTE, 1, COMPRESSION_NONE, 0, 21, VP_U8}, "red green blue"},
    };
    struct vp_err err = VP_ERR_INIT;
    struct vp_reader *r = NULL;
    for (int i = 0; i < 3; i++) {
        write_kind(&named[i].kind, false);
        CHECK(!vp_reader_open(&r, paths, 1, &colours, &err));
        const struct vp_meta *m = &vp_reader_stack(r)->meta;
        CHECK_STR(vp_meta_get(m, "axes"), "x y channel z");
        CHECK_STR(vp_meta_get(m, "sizes"), i < 2 ? "4 2" : "3 2");
        CHECK_STR(vp_meta_get(m, "channels"), named[i].channels);
        CHECK(!vp_reader_close(r, &err));
    }
    /* the same file twice */
    const char *const twice[] = {path, path};
    CHECK(!vp_reader_open(&r, twice, 2, &colours, &err));
    CHECK_STR(vp_meta_get(&vp_reader_stack(r)->meta, "axes"), "x y channel z");
    CHECK_STR(vp_meta_get(&vp_reader_stack(r)->meta, "sizes"), "3 4");
    CHECK(!vp_reader_close(r, &err));
    /* what other descriptions say of the images stays behind the channels */
    struct vp_meta m = {0};
    const struct vp_form rgb = {.photometric = PHOTO_RGB, .channels = 3};
    static const char *const said[][6] = { /* axes, sizes, images; axes, sizes */
        {"x y z", NULL, "5", "x y channel z", "3 5"},
        {"x y z time", "2 3", "6", "x y channel z time", "3 2 3"},
        {"x y z channel", "4 3", "4", "x y channel z", "3 4"},
        {"x y channel", NULL, "2", "x y sample channel", "3 2"},
        {NULL, NULL, "1", "x y channel", NULL},
        {NULL, NULL, "2", "x y channel z", "3 2"},
        {"x y z", "5", "4", "x y channel page", "3 4"},
        {"x y z time", "2 2", "5", "x y channel page", "3 5"},
    };
    for (size_t i = 0; i < sizeof said / sizeof *said; i++) {
        vp_meta_set(&m, "axes", said[i][0]);
        vp_meta_set(&m, "sizes", said[i][1]);
        CHECK(!vp_form_axes(&m, &rgb, atoi(said[i][2])));
        CHECK_STR(vp_meta_get(&m, "axes"), said[i][3]);
        CHECK(said[i][4] ? !strcmp(vp_meta_get(&m, "sizes"), said[i][4]) : !vp_meta_get(&m, "sizes"));
    }
    vp_meta_free(&m);
    /* what stays out says the way out */
    const struct kind complex = {"w", 64, 6, 1, 1, PHOTOMETRIC_MINISBLACK, 1, COMPRESSION_NONE, 0, 21, VP_F32};
    write_kind(&complex, false);
    CHECK(vp_reader_open(&r, paths, 1, &plain, &err));
    CHECK(strstr(err.msg, "(complex numbers)"));
    CHECK(strstr(err.hint, "the real and the imaginary part"));
    /* colours from a pipe need --spool */
    write_kind(&named[0].kind, false);
    int p[2];
    char name[32];
    const char *const piped[] = {name};
    CHECK(!pipe(p));
    unsigned char bytes[1 << 14];
    const int fd = open(path, O_RDONLY);
    const ssize_t n = read(fd, bytes, sizeof bytes);
    CHECK(write(p[1], bytes, (size_t)n) == n);
    close(fd);
    close(p[1]);
    snprintf(name, sizeof name, "/dev/fd/%d", p[0]);
    err = (struct vp_err)VP_ERR_INIT;
    CHECK(!vp_reader_open(&r, piped, 1, &(struct vp_reader_options){.spool = true}, &err));
    CHECK_INT(vp_reader_stack(r)->pages, 8);
    CHECK(!vp_reader_close(r, &err));
    close(p[0]);
}

/* --- bytes of our own --------------------------------------------------------------------------------- */

static unsigned char *put(unsigned char *p, uint64_t v, int n)
{
    for (int i = 0; i < n; i++)
        *p++ = (unsigned char)(v >> 8 * i);
    return p;
}

static unsigned char *put_entry(unsigned char *p, int tag, int type, uint32_t n, uint32_t v)
{
    return put(put(put(put(p, (uint64_t)tag, 2), (uint64_t)type, 2), n, 4), v, 4);
}

static void to_file(const void *bytes, size_t n)
{
    FILE *f = fopen(path, "wb");
    CHECK_INT(fwrite(bytes, 1, n, f), n);
    fclose(f);
}

/* Directories that all name the same table of strips. */
static void shared_tables(void)
{
    enum { STRIPS = 3000, PAGES = 1000, DIRECTORY = 2 + 7 * 12 + 4, TABLES = 8, DATA = TABLES + 8 * STRIPS,
           FIRST = DATA + STRIPS };
    const size_t n = FIRST + PAGES * DIRECTORY;
    unsigned char *bytes = calloc(n, 1), *p = bytes;
    p = put(put(put(p, 0x4949, 2), 42, 2), FIRST, 4);
    for (uint32_t i = 0; i < STRIPS; i++)
        p = put(p, DATA + i, 4);
    for (int i = 0; i < STRIPS; i++)
        p = put(p, 1, 4);
    p = bytes + FIRST;
    for (uint32_t i = 0; i < PAGES; i++) {
        p = put(p, 7, 2);
        p = put_entry(p, 256, 4, 1, 1);
        p = put_entry(p, 257, 4, 1, STRIPS);
        p = put_entry(p, 258, 3, 1, 8);
        p = put_entry(p, 259, 3, 1, 1);
        p = put_entry(p, 273, 4, STRIPS, TABLES);
        p = put_entry(p, 278, 4, 1, 1);
        p = put_entry(p, 279, 4, STRIPS, TABLES + 4 * STRIPS);
        p = put(p, i + 1 < PAGES ? FIRST + (i + 1) * DIRECTORY : 0, 4);
    }
    to_file(bytes, n);
    struct vp_err err = VP_ERR_INIT;
    struct vp_reader *r = NULL;
    CHECK(vp_reader_open(&r, paths, 1, &plain, &err));
    CHECK(strstr(err.msg, "more than the file's size explains"));
    free(bytes);
}

/* One page of n bytes, with a description and resolutions behind it, from a pipe. */
static void behind_samples(void)
{
    static const char text[] = "voxpipe = 1\nquantity = counts\n";
    for (int far = 0; far < 2; far++) {
        const uint32_t ny = far ? 30000 : 5, data = 8 + 2 + 10 * 12 + 4, after = data + ny;
        const size_t n = after + 8 + sizeof text;
        unsigned char *bytes = calloc(n, 1), *p = bytes;
        p = put(put(put(p, 0x4949, 2), 42, 2), 8, 4);
        p = put(p, 10, 2);
        p = put_entry(p, 256, 4, 1, 1);
        p = put_entry(p, 257, 4, 1, ny);
        p = put_entry(p, 258, 3, 1, 8);
        p = put_entry(p, 259, 3, 1, 1);
        p = put_entry(p, 270, 2, sizeof text, after + 8);
        p = put_entry(p, 273, 4, 1, data);
        p = put_entry(p, 279, 4, 1, ny);
        p = put_entry(p, 282, 5, 1, after);
        p = put_entry(p, 283, 5, 1, after);
        p = put_entry(p, 296, 3, 1, 3);
        put(put(bytes + after, 50, 4), 1, 4);
        memcpy(bytes + after + 8, text, sizeof text);
        memset(bytes + data, 7, ny);
        vp_memory_limit(far ? 16 * 20000 : UINT64_MAX);
        int fds[2];
        char name[32], page[30000];
        const char *const piped[] = {name};
        CHECK(!pipe(fds));
        CHECK(write(fds[1], bytes, n) == (ssize_t)n);
        close(fds[1]);
        snprintf(name, sizeof name, "/dev/fd/%d", fds[0]);
        struct vp_err err = VP_ERR_INIT;
        struct vp_reader *r = NULL;
        CHECK(!vp_reader_open(&r, piped, 1, &plain, &err));
        const struct vp_meta *m = &vp_reader_stack(r)->meta;
        if (far) {
            CHECK_STR(r->lost, "description");
        } else {
            CHECK(!r->lost);
            CHECK_STR(vp_meta_get(m, "quantity"), "counts");
            CHECK_STR(vp_meta_get(m, "voxel"), "0.2 0.2");
        }
        CHECK_INT(vp_reader_next(r, page, &err), 1);
        CHECK(page[0] == 7 && page[ny - 1] == 7);
        CHECK_INT(vp_reader_next(r, page, &err), 0);
        CHECK(!vp_reader_close(r, &err));
        CHECK_STR(err.msg, "");
        vp_memory_limit(UINT64_MAX);
        close(fds[0]);
        free(bytes);
    }
}

/* A description of a million keys takes far more memory than its bytes. */
static void many_keys(void)
{
    const uint32_t lines = 1000000;
    const size_t n = 200 + 12 + 4 * (size_t)lines;
    unsigned char *bytes = calloc(n, 1), *p = bytes;
    p = put(put(put(p, 0x4949, 2), 42, 2), 8, 4);
    p = put(p, 6, 2);
    p = put_entry(p, 256, 4, 1, 1);
    p = put_entry(p, 257, 4, 1, 1);
    p = put_entry(p, 258, 3, 1, 8);
    p = put_entry(p, 270, 2, (uint32_t)(n - 200), 200);
    p = put_entry(p, 273, 4, 1, 100);
    p = put_entry(p, 279, 4, 1, 1);
    memcpy(bytes + 200, "voxpipe = 1\n", 12);
    for (uint32_t i = 0; i < lines; i++)
        memcpy(bytes + 212 + 4 * i, i % 2 ? "z=1\n" : "y=1\n", 4);
    to_file(bytes, n);
    struct vp_err err = VP_ERR_INIT;
    struct vp_reader *r = NULL;
    vp_memory_limit((uint64_t)256 << 20);
    CHECK(vp_reader_open(&r, paths, 1, &plain, &err));
    CHECK_INT(err.code, VP_ERESOURCE);
    CHECK(strstr(err.msg, "its metadata may take"));
    vp_memory_limit(UINT64_MAX);
    err = (struct vp_err)VP_ERR_INIT;
    CHECK(!vp_reader_open(&r, paths, 1, &plain, &err));
    CHECK(vp_reader_holds(r, true) > (uint64_t)256 << 20);
    struct vp_stack s;
    CHECK(!vp_stack_copy(&s, vp_reader_stack(r)));
    CHECK_INT(s.meta.n, lines);
    CHECK(!vp_meta_set(&s.meta, "y", "2") && s.meta.n == (int)lines / 2 + 1); /* at once, not line by line */
    CHECK_STR(s.meta.key[0], "y");
    CHECK_STR(s.meta.value[0], "2");
    CHECK(!vp_meta_set(&s.meta, "z", NULL) && s.meta.n == 1);
    vp_stack_free(&s);
    CHECK(!vp_reader_close(r, &err));
    free(bytes);
}

/* --- where the system fails --------------------------------------------------------------------------- */

static long fail_fstat = -1, fail_realloc = -1, fail_pread = -1; /* calls until they fail, and for good; -1: never */

static bool fails(long *left)
{
    if (*left < 0 || (*left)-- > 0)
        return false;
    *left = 0;
    return true;
}

/* Of this program and of libtiff in it, instead of the C library's. */
int fstat(int fd, struct stat *st)
{
    if (fails(&fail_fstat)) {
        errno = EIO;
        return -1;
    }
    return fstatat(fd, "", st, AT_EMPTY_PATH);
}

ssize_t pread(int fd, void *buf, size_t n, off_t at)
{
    if (fails(&fail_pread)) {
        errno = EIO;
        return -1;
    }
    struct iovec { void *base; size_t n; } v = {buf, n};
    extern ssize_t preadv64(int fd, const struct iovec *v, int count, off_t at);
    return preadv64(fd, &v, 1, at);
}

#ifndef TEST_SANITIZED
extern void *__libc_realloc(void *p, size_t n);
void *realloc(void *p, size_t n)
{
    if (fail_realloc >= 0 && fails(&fail_realloc)) {
        fail_realloc = -1; /* one call only */
        errno = ENOMEM;
        return NULL;
    }
    return __libc_realloc(p, n);
}
#endif

/* 0 if all was written, which then must be there. */
static int write_compressed(struct vp_err *err)
{
    struct vp_stack s = {.nx = 50, .ny = 40, .pages = 3, .type = VP_U16};
    struct vp_libtiff_writer *w = NULL;
    uint16_t page[50 * 40];
    const int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    for (int i = 0; i < 50 * 40; i++)
        page[i] = (uint16_t)(i * 7);
    int rc = vp_libtiff_writer_open(&w, fd, path, &s, "voxpipe = 1\n", NULL, VP_COMPRESS_DEFLATE, false, err);
    for (int p = 0; !rc && p < 3; p++)
        rc = vp_libtiff_writer_page(w, page, err);
    if (w && rc)
        (void)vp_libtiff_writer_close(w, NULL);
    else if (w)
        rc = vp_libtiff_writer_close(w, err);
    fail_fstat = fail_realloc = -1;
    close(fd);
    return rc;
}

static int read_compressed(struct vp_err *err)
{
    struct vp_reader *r = NULL;
    uint16_t page[50 * 40];
    int pages = 0, rc = vp_reader_open(&r, paths, 1, &plain, err) ? -1 : 1;
    while (rc == 1 && (rc = vp_reader_next(r, page, err)) == 1) {
        int wrong = 0;
        for (int i = 0; i < 50 * 40; i++)
            wrong += page[i] != (uint16_t)(i * 7);
        CHECK_INT(wrong, 0);
        pages++;
    }
    vp_reader_close(r, NULL);
    fail_pread = -1;
    return rc ? -1 : pages;
}

static void failing_calls(void)
{
    struct vp_err err = VP_ERR_INIT;
    int failed = 0;
    for (int i = 0; i < 20; i++) {
        err = (struct vp_err)VP_ERR_INIT;
        fail_fstat = i;
        const int rc = write_compressed(&err);
        failed += rc != 0;
        CHECK(rc ? err.msg[0] != 0 : read_compressed(&err) == 3);
    }
    CHECK(failed > 0);
#ifndef TEST_SANITIZED
    failed = 0;
    for (int i = 0; i < 60; i++) {
        err = (struct vp_err)VP_ERR_INIT;
        fail_realloc = i;
        const int rc = write_compressed(&err);
        failed += rc != 0;
        CHECK(rc ? err.msg[0] != 0 : read_compressed(&err) == 3);
    }
    CHECK(failed > 0);
#endif
    CHECK(!write_compressed(&err));
    failed = 0;
    for (int i = 0; i < 20; i++) {
        err = (struct vp_err)VP_ERR_INIT;
        fail_pread = i;
        const int n = read_compressed(&err);
        failed += n < 0;
        CHECK(n < 0 ? strstr(err.msg, "Input/output error") != NULL : n == 3);
    }
    CHECK(failed > 3);
}

int main(void)
{
    const int fd = mkstemp(path);
    close(fd);
    TIFFSetWarningHandler(NULL);
    TIFFSetErrorHandler(NULL);
    every_form();
    sparse();
    log_luminance();
    ycbcr();
    meaning();
    shared_tables();
    behind_samples();
    many_keys();
    failing_calls();
    unlink(path);
    return test_done();
}
