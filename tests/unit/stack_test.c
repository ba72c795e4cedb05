/* SPDX-License-Identifier: BSD-3-Clause */
/* The stack: types, conversion, metadata, writer, every reader, many files and views. */
#include "stacks.h"
#include "base/err.h"
#include "stack/foreign.h"
#include "stack/outfile.h"
#include "stack/reader.h"
#include "stack/views.h"
#include "stack/writer.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <tiffio.h>
#include <unistd.h>

/* Read all pages of an input; the number of pages, or -1. With `check` the samples are compared. */
static int64_t read_all(const char *path, struct vp_stack *head, bool check, struct vp_err *err)
{
    struct vp_reader *r = NULL;
    const char *paths[] = {path};
    if (vp_reader_open(&r, paths, 1, &plain, err))
        return -1;
    const struct vp_stack *s = vp_reader_stack(r);
    const size_t bytes = vp_page_bytes(s);
    int64_t pages = 0;
    int rc = 1;
    if (head)
        vp_stack_copy(head, s);
    if (bytes > (size_t)32 << 20) { /* damaged headers may claim what only a caller can refuse */
        vp_reader_close(r, NULL);
        return vp_fail(err, VP_ERESOURCE, "too large for this test");
    }
    char *got = malloc(bytes), *want = malloc(bytes);
    while ((rc = vp_reader_next(r, got, err)) == 1) {
        if (check) {
            fill(want, s->type, pages, s->nx * s->ny);
            CHECK(!memcmp(got, want, bytes));
        }
        pages++;
    }
    free(got);
    free(want);
    struct vp_err ignored = VP_ERR_INIT;
    if (vp_reader_close(r, rc < 0 ? &ignored : err))
        rc = -1;
    return rc < 0 ? -1 : pages;
}

static int64_t read_bytes(const void *buf, size_t n, bool pipe_, bool check, struct vp_stack *head,
                          struct vp_err *err)
{
    char path[32];
    const int fd = as_input(buf, n, pipe_, path);
    const int64_t pages = read_all(path, head, check, err);
    close(fd);
    return pages;
}

static void types(void)
{
    enum vp_type t;
    CHECK(vp_type_parse("u16", &t) && t == VP_U16);
    CHECK(vp_type_parse("float32", &t) && t == VP_F32);
    CHECK(vp_type_parse("int64", &t) && t == VP_I64);
    CHECK(!vp_type_parse("u17", &t) && !vp_type_parse("", &t) && !vp_type_parse("u16x", &t));
    CHECK_STR(vp_type_name(VP_F64), "f64");
    CHECK_INT(vp_type_size(VP_I32), 4);
    CHECK(vp_type_min(VP_I16) == -32768 && vp_type_max(VP_U8) == 255);
    struct vp_stack s = {INT64_C(1) << 40, INT64_C(1) << 40, 1, VP_F64, {0, NULL, NULL}};
    CHECK_INT(vp_page_bytes(&s), 0);
    s.ny = 2;
    CHECK(vp_page_bytes(&s) == (size_t)1 << 44);
    s.nx = 0;
    CHECK_INT(vp_page_bytes(&s), 0);
}

static void convert(void)
{
    const double in[] = {0,     0.5,   1.5, 2.5, -0.5, -0.6,     254.5,
                         255.4, 255.5, 300, -7,  NAN,  INFINITY, -INFINITY};
    const uint8_t u8[] = {0, 0, 2, 2, 0, 0, 254, 255, 255, 255, 0, 0, 255, 0};
    const int8_t i8[] = {0, 0, 2, 2, 0, -1, 127, 127, 127, 127, -7, 0, 127, -128};
    enum { N = sizeof in / sizeof *in };
    uint8_t a[N];
    int8_t b[N];
    CHECK_INT(vp_convert(a, VP_U8, in, VP_F64, N, 1, 0), 7); /* -0.6 255.5 300 -7 NaN inf -inf */
    CHECK_INT(vp_convert(b, VP_I8, in, VP_F64, N, 1, 0), 7); /* 254.5 255.4 255.5 300 NaN inf -inf */
    for (int i = 0; i < N; i++) {
        CHECK_INT(a[i], u8[i]);
        CHECK_INT(b[i], i8[i]);
    }
    const double big[] = {0x1p64,       0x1p63,      -1, 1e30, NAN, 4503599627370497.0, 4503599627370495.5,
                          4294967295.4, 4294967295.5};
    uint64_t u64[9];
    int64_t i64[9];
    uint32_t u32[9];
    CHECK_INT(vp_convert(u64, VP_U64, big, VP_F64, 9, 1, 0), 4);
    CHECK(u64[0] == UINT64_MAX && u64[1] == (uint64_t)1 << 63 && u64[2] == 0 && u64[3] == UINT64_MAX &&
          u64[4] == 0);
    CHECK(u64[5] == 4503599627370497 && u64[6] == 4503599627370496);
    CHECK_INT(vp_convert(i64, VP_I64, big, VP_F64, 9, 1, 0), 4);
    CHECK(i64[0] == INT64_MAX && i64[1] == INT64_MAX && i64[2] == -1 && i64[4] == 0);
    CHECK_INT(vp_convert(u32, VP_U32, big, VP_F64, 9, 1, 0), 8);
    CHECK(u32[7] == UINT32_MAX && u32[8] == UINT32_MAX);
    const uint64_t exact[] = {UINT64_MAX, (UINT64_C(1) << 53) + 1};
    vp_convert(u64, VP_U64, exact, VP_U64, 2, 1, 0);
    CHECK(u64[0] == exact[0] && u64[1] == exact[1]);
    const int64_t negative[] = {INT64_MIN, -1, INT64_MAX};
    CHECK_INT(vp_convert(i64, VP_I64, exact, VP_U64, 2, 1, 0), 1);
    CHECK(i64[0] == INT64_MAX && i64[1] == (INT64_C(1) << 53) + 1);
    CHECK_INT(vp_convert(u64, VP_U64, negative, VP_I64, 3, 1, 0), 2);
    CHECK(u64[0] == 0 && u64[1] == 0 && u64[2] == INT64_MAX);
    float f[2];
    const double wide[] = {1e300, INFINITY};
    CHECK_INT(vp_convert(f, VP_F32, wide, VP_F64, 2, 1, 0), 1);
    CHECK(isinf(f[0]) && isinf(f[1]));

    /* Every pair of types, long enough for every block, against one sample at a time. */
    enum { M = 3000 };
    double *src = malloc(M * sizeof *src);
    char *from = malloc(M * 8), *to = malloc(M * 8), *one = malloc(8);
    for (int i = 0; i < M; i++)
        src[i] = (i * 37 % 1001) / 8.0;
    for (int s = 0; s < VP_N_TYPES; s++) {
        vp_convert(from, (enum vp_type)s, src, VP_F64, M, 1, 0);
        for (int t = 0; t < VP_N_TYPES; t++) {
            const size_t in_size = vp_type_size((enum vp_type)s), out_size = vp_type_size((enum vp_type)t);
            vp_convert(to, (enum vp_type)t, from, (enum vp_type)s, M, 1.5, -2);
            int wrong = 0;
            for (int i = 0; i < M; i += 7) {
                double v, r;
                vp_convert(&v, VP_F64, from + (size_t)i * in_size, (enum vp_type)s, 1, 1, 0);
                vp_convert(&r, VP_F64, to + (size_t)i * out_size, (enum vp_type)t, 1, 1, 0);
                v = v * 1.5 - 2;
                if (!vp_type_is_float((enum vp_type)t))
                    v = fmin(fmax(rint(v), vp_type_min((enum vp_type)t)), vp_type_max((enum vp_type)t));
                wrong += fabs(v - r) > (t == VP_F32 ? 1e-5 : 0);
            }
            CHECK_INT(wrong, 0);
        }
    }
    free(src);
    free(from);
    free(to);
    free(one);
}

/* Undoing a scale: in double, rounded once, and 0 where it was stored as such. */
static void unscale(void)
{
    const double scale[2] = {10, 7}, odd[2] = {-3212499.88, 123.456};
    const uint16_t in[4] = {7, 8, 0, 65535};
    float f[4];
    double d[4];
    int16_t i[4];
    CHECK_INT(vp_unscale(f, VP_F32, in, VP_U16, 4, scale), 0);
    for (int k = 0; k < 4; k++)
        CHECK(f[k] == (float)((in[k] - 7.0) / 10));
    CHECK(f[0] == 0 && !signbit(f[0]));
    CHECK_INT(vp_unscale(d, VP_F64, in, VP_U16, 4, odd), 0);
    for (int k = 0; k < 4; k++)
        CHECK(d[k] == (in[k] - odd[1]) / odd[0]);
    CHECK_INT(vp_unscale(i, VP_I16, in, VP_U16, 4, scale), 0);
    CHECK(i[0] == 0 && i[1] == 0 && i[2] == -1 && i[3] == 6553);
    const uint64_t big = 9007199254740993;
    uint64_t same = 0;
    CHECK_INT(vp_unscale(&same, VP_U64, &big, VP_U64, 1, (const double[]){1, 0}), 0);
    CHECK(same == big);
    for (int t = 0; t < VP_N_TYPES; t++)
        CHECK(vp_type_of_values((enum vp_type)t)
              == (t == VP_U8 || t == VP_U16 || t == VP_I8 || t == VP_I16 || t == VP_F32 ? VP_F32 : VP_F64));
}

static void meta(void)
{
    struct vp_meta m = {0, NULL, NULL}, n = {0, NULL, NULL};
    double v[3];
    CHECK(!vp_meta_set(&m, "axes", "x y z") && !vp_meta_add(&m, "history", "a") &&
          !vp_meta_add(&m, "history", "b = c"));
    CHECK(!vp_meta_setf(&m, "voxel", "%g %g %g", 0.1, 0.2, 0.3) && !vp_meta_add(&m, "geom.sod", "100") &&
          !vp_meta_add(&m, "empty", ""));
    CHECK(vp_meta_set(&m, "axes", "two\nlines") && vp_meta_set(&m, "axes", " blank") &&
          vp_meta_set(&m, "Axes", "x") && vp_meta_set(&m, "", "x"));
    CHECK_STR(vp_meta_get(&m, "axes"), "x y z");
    char *text = vp_meta_format(&m, "");
    CHECK_STR(
        text,
        "voxpipe = 1\naxes = x y z\nhistory = a\nhistory = b = c\nvoxel = 0.1 0.2 0.3\ngeom.sod = 100\nempty = \n");
    CHECK(!vp_meta_parse(&n, text, strlen(text) + 1, NULL));
    char *again = vp_meta_format(&n, "");
    CHECK_STR(again, text);
    free(again);
    CHECK(vp_meta_numbers(&n, "voxel", 3, v) && v[2] == 0.3);
    CHECK(!vp_meta_numbers(&n, "voxel", 2, v) && !vp_meta_numbers(&n, "voxel", 4, v) &&
          !vp_meta_numbers(&n, "axes", 1, v));
    CHECK(!vp_meta_set(&n, "history", "only"));
    CHECK_STR(vp_meta_get(&n, "history"), "only");
    CHECK_INT(n.n, 5);
    CHECK(!vp_meta_set(&n, "history", NULL) && !vp_meta_get(&n, "history"));
    vp_meta_remove_prefix(&n, "geom.");
    CHECK(!vp_meta_get(&n, "geom.sod") && vp_meta_get(&n, "empty"));
    for (int i = 0; i < 50; i++)
        CHECK(!vp_meta_add(&n, "history", "x"));
    CHECK(!vp_meta_copy(&n, &m) && n.n == m.n);
    free(text);
    vp_meta_free(&n);

    /* what others write */
    const char *foreign = "first line\r\nsecond \\ line\n";
    CHECK(!vp_meta_parse(&n, foreign, strlen(foreign), NULL) && n.n == 1);
    CHECK_STR(vp_meta_get(&n, "description"), "first line\\nsecond \\\\ line");
    vp_meta_free(&n);
    const char *ij =
        "ImageJ=1.53t\nimages=24\nchannels=2\nslices=4\nframes=3\nhyperstack=true\nunit=micron\nspacing=2\n";
    CHECK(!vp_meta_parse(&n, ij, strlen(ij), NULL));
    CHECK_STR(vp_meta_get(&n, "axes"), "x y channel z time");
    CHECK_STR(vp_meta_get(&n, "sizes"), "2 4 3");
    vp_meta_free(&n);
    const char *lie = "ImageJ=1.53t\nimages=7\nchannels=2\nslices=4\n";
    CHECK(!vp_meta_parse(&n, lie, strlen(lie), NULL));
    CHECK_STR(vp_meta_get(&n, "axes"), "x y page");
    CHECK(!vp_meta_get(&n, "sizes"));
    vp_meta_free(&n);
    CHECK(!vp_meta_parse(&n, "voxpipe = 1\nno equals\nBad Key = 1\n good = 2 \r\n", 47, NULL) && n.n == 1);
    CHECK_STR(vp_meta_get(&n, "good"), "2");
    vp_meta_free(&n);
    vp_meta_free(&m);
}

static void round_trips(void)
{
    for (int t = 0; t < VP_N_TYPES; t++) {
        for (int unknown = 0; unknown < 2; unknown++) {
            struct vp_err err = VP_ERR_INIT;
            struct vp_stack s;
            CHECK(!write_stack(path_of("a.tif"), (enum vp_type)t, 13, 7, 5, unknown, &stream));
            CHECK_INT(read_all(path_of("a.tif"), &s, true, &err), 5);
            CHECK(s.type == (enum vp_type)t && s.nx == 13 && s.ny == 7 && s.pages == 5);
            CHECK_STR(vp_meta_get(&s.meta, "voxel"), "0.1 0.2 0.3");
            vp_stack_free(&s);
            size_t n;
            unsigned char *bytes = slurp(path_of("a.tif"), &n);
            CHECK_INT(bytes[2], 42); /* Big only when it must be */
            CHECK_INT(read_bytes(bytes, n, true, true, &s, &err), 5);
            CHECK_INT(s.pages, 5);
            vp_stack_free(&s);
            free(bytes);
        }
    }
    /* a single page of unknown number, and resolution as libtiff sees it */
    CHECK(!write_stack(path_of("one.tif"), VP_U16, 3, 2, 1, true, &stream));
    TIFF *t = TIFFOpen(path_of("one.tif"), "r");
    float x = 0, y = 0;
    uint16_t unit = 0, page = 9, total = 9;
    CHECK(t && TIFFGetField(t, TIFFTAG_XRESOLUTION, &x) && TIFFGetField(t, TIFFTAG_YRESOLUTION, &y));
    CHECK(TIFFGetField(t, TIFFTAG_RESOLUTIONUNIT, &unit) && unit == RESUNIT_CENTIMETER);
    CHECK(TIFFGetField(t, TIFFTAG_PAGENUMBER, &page, &total) && page == 0 && total == 1);
    CHECK_NEAR(x, 100, 1e-4);
    CHECK_NEAR(y, 50, 1e-4);
    CHECK_INT(TIFFNumberOfDirectories(t), 1);
    TIFFClose(t);
}

/* Every prefix of a stack is an error, from a file and from a pipe. */
static void cuts(void)
{
    for (int unknown = 0; unknown < 2; unknown++) {
        size_t n;
        CHECK(!write_stack(path_of("cut.tif"), VP_U16, 5, 3, 3, unknown, &stream));
        unsigned char *bytes = slurp(path_of("cut.tif"), &n);
        int whole = 0;
        for (size_t k = 0; k < n; k++) {
            for (int p = 0; p < 2; p++) {
                struct vp_err err = VP_ERR_INIT;
                whole +=
                    read_bytes(bytes, k, p, false, NULL, &err) >= 0 || err.code != VP_ERUN || !err.msg[0];
            }
        }
        CHECK_INT(whole, 0);
        struct vp_err err = VP_ERR_INIT;
        read_bytes(bytes, n - 1, true, false, NULL, &err);
        CHECK(strstr(err.msg, "page 2: truncated: expected 30 bytes, got 29"));
        err = (struct vp_err)VP_ERR_INIT;
        read_bytes(bytes, n - 1, false, false, NULL, &err);
        CHECK(strstr(err.msg, "page 2: truncated: expected 30 bytes, got 29"));
        bytes[n] = 'x';
        err = (struct vp_err)VP_ERR_INIT;
        CHECK_INT(read_bytes(bytes, n + 1, true, false, NULL, &err), -1);
        CHECK(strstr(err.msg, "trailing data") && strstr(err.hint, "img-cat"));
        free(bytes);
    }
    struct vp_err err = VP_ERR_INIT;
    CHECK_INT(read_bytes("", 0, true, false, NULL, &err), -1);
    CHECK(strstr(err.msg, "empty: expected a TIFF"));
    err = (struct vp_err)VP_ERR_INIT;
    CHECK_INT(read_bytes("GIF89a......", 12, true, false, NULL, &err), -1);
    CHECK(strstr(err.msg, "not a TIFF: starts with 'GIF8") != NULL);
    err = (struct vp_err)VP_ERR_INIT;
    CHECK_INT(read_bytes("hello\n", 6, false, false, NULL, &err), -1);
    CHECK(strstr(err.msg, "not a TIFF: starts with 'hello"));
}

static uint32_t random_state = 12345;

static uint32_t random_next(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 17;
    return random_state ^= random_state << 5;
}

/* Damaged bytes give pages or an error, nothing else (the sanitizer builds watch). */
static void fuzz(const char *path, int rounds)
{
    size_t n;
    unsigned char *good = slurp(path, &n), *bad = malloc(n);
    int read = 0, refused = 0;
    for (int k = 0; k < rounds; k++) {
        memcpy(bad, good, n);
        const int changes = 1 + (int)(random_next() % 4);
        for (int c = 0; c < changes; c++) {
            /* mostly in directories, and mostly values that matter */
            static const unsigned char telling[] = {0, 1, 2, 3, 4, 8, 16, 0x7f, 0x80, 0xff};
            const uint32_t r = random_next();
            bad[random_next() % n] = r & 1 ? telling[(r >> 8) % sizeof telling] : (unsigned char)(r >> 8);
        }
        const size_t m = random_next() % 8 ? n : random_next() % n;
        for (int p = 0; p < 2; p++) {
            struct vp_err err = VP_ERR_INIT;
            if (read_bytes(bad, m, p, false, NULL, &err) >= 0)
                read++;
            else
                refused += err.msg[0] != 0;
        }
    }
    CHECK_INT(read + refused, 2 * rounds);
    CHECK(refused > 0);
    free(good);
    free(bad);
}

/* A foreign file. tile: 0 strips of `rows` rows. */
static void foreign(const char *path, const char *mode, enum vp_type t, int compression, int predictor,
                    uint32_t tile, uint32_t rows)
{
    enum { NX = 50, NY = 37, PAGES = 3 };
    const size_t size = vp_type_size(t);
    TIFF *f = TIFFOpen(path, mode);
    char *page = malloc(NX * NY * size);
    for (int p = 0; p < PAGES; p++) {
        fill(page, t, p, NX * NY);
        for (size_t i = 0; !vp_type_is_float(t) && i < NX * NY * size; i++)
            page[i] = (char)~page[i]; /* zero is white */
        TIFFSetField(f, TIFFTAG_IMAGEWIDTH, NX);
        TIFFSetField(f, TIFFTAG_IMAGELENGTH, NY);
        TIFFSetField(f, TIFFTAG_BITSPERSAMPLE, (int)(8 * size));
        TIFFSetField(f, TIFFTAG_SAMPLESPERPIXEL, 1);
        TIFFSetField(f, TIFFTAG_PHOTOMETRIC, PHOTOMETRIC_MINISWHITE);
        TIFFSetField(f, TIFFTAG_SAMPLEFORMAT, vp_type_is_float(t) ? 3 : t >= VP_I8 && t <= VP_I64 ? 2 : 1);
        TIFFSetField(f, TIFFTAG_COMPRESSION, compression);
        if (predictor)
            TIFFSetField(f, TIFFTAG_PREDICTOR, predictor);
        if (tile) {
            char *buf = calloc(tile * tile, size);
            TIFFSetField(f, TIFFTAG_TILEWIDTH, tile);
            TIFFSetField(f, TIFFTAG_TILELENGTH, tile);
            for (uint32_t y = 0; y < NY; y += tile) {
                for (uint32_t x = 0; x < NX; x += tile) {
                    for (uint32_t k = 0; k < tile && y + k < NY; k++)
                        memcpy(buf + k * tile * size, page + ((y + k) * NX + x) * size,
                               (x + tile < NX ? tile : NX - x) * size);
                    TIFFWriteTile(f, buf, x, y, 0, 0);
                }
            }
            free(buf);
        } else {
            TIFFSetField(f, TIFFTAG_ROWSPERSTRIP, rows);
            for (uint32_t y = 0; y < NY; y++)
                TIFFWriteScanline(f, page + y * NX * size, y, 0);
        }
        TIFFWriteDirectory(f);
    }
    TIFFClose(f);
    free(page);
}

static void check_foreign(const char *path)
{
    struct vp_err err = VP_ERR_INIT;
    struct vp_stack s;
    CHECK_INT(read_all(path, &s, true, &err), 3);
    if (err.msg[0])
        printf("%s: %s\n", path, err.msg);
    vp_stack_free(&s);

    /* any rows of any page, and going back */
    struct vp_reader *r;
    float *rows = malloc(50 * 37 * sizeof *rows);
    CHECK(!vp_reader_open(&r, &path, 1, &plain, &err));
    static const int64_t ask[][3] = {{2, 5, 6}, {0, 0, 37}, {1, 30, 37}, {1, 31, 32}, {2, 7, 20}};
    for (int k = 0; k < 5; k++) {
        CHECK(!read_rows(r, ask[k][0], ask[k][1], ask[k][2], true, rows, &err));
        int wrong = 0;
        for (int64_t i = 0; i < (ask[k][2] - ask[k][1]) * 50; i++)
            wrong += rows[i] != sample(ask[k][0], ask[k][1] * 50 + i);
        CHECK_INT(wrong, 0);
    }
    CHECK(!vp_reader_seek(r, 2, &err) && vp_reader_next_f32(r, rows, &err) == 1 &&
          rows[1] == sample(2, 1));
    CHECK_INT(vp_reader_next_f32(r, rows, &err), 0);
    CHECK(!vp_reader_seek(r, 0, &err) && vp_reader_next_f32(r, rows, &err) == 1 &&
          rows[1] == sample(0, 1));
    CHECK(!vp_reader_close(r, &err));
    free(rows);
}

static void foreign_files(void)
{
    static const struct {
        const char *mode;
        enum vp_type t;
        int compression, predictor;
        uint32_t tile, rows;
    } kinds[] = {
        {"w", VP_U16, COMPRESSION_NONE, 0, 0, 37},
        {"w", VP_U8, COMPRESSION_NONE, 0, 0, 5},
        {"wb", VP_U16, COMPRESSION_NONE, 0, 0, 4},
        {"wb", VP_F32, COMPRESSION_NONE, 0, 16, 0},
        {"w8", VP_F64, COMPRESSION_NONE, 0, 0, 1},
        {"w8b", VP_I32, COMPRESSION_NONE, 0, 0, 37},
        {"w", VP_F32, COMPRESSION_ADOBE_DEFLATE, 3, 0, 8},
        {"wb", VP_U16, COMPRESSION_LZW, 2, 0, 10},
        {"w", VP_U16, COMPRESSION_PACKBITS, 0, 0, 3},
        {"w", VP_I16, COMPRESSION_ADOBE_DEFLATE, 2, 32, 0},
        {"w8b", VP_U32, COMPRESSION_ADOBE_DEFLATE, 2, 16, 0},
    };
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        char *path = path_of("foreign.tif");
        foreign(path, kinds[k].mode, kinds[k].t, kinds[k].compression, kinds[k].predictor, kinds[k].tile,
                kinds[k].rows);
        check_foreign(path);
        fuzz(path, 150);
        /* libtiff writes data first: refused from a pipe, read with --spool */
        size_t n;
        unsigned char *bytes = slurp(path, &n);
        struct vp_err err = VP_ERR_INIT;
        CHECK_INT(read_bytes(bytes, n, true, false, NULL, &err), -1);
        CHECK(strstr(err.hint, "--spool"));
        if (kinds[k].compression == COMPRESSION_NONE && !kinds[k].tile)
            CHECK(strstr(err.msg, "TIFF is not in stream order (page 0 data precedes its directory)"));
        char name[32];
        const char *names[] = {name};
        const struct vp_reader_options spool = {.spool = true};
        const int fd = as_input(bytes, n, true, name);
        struct vp_reader *r = NULL;
        float page[50 * 37];
        err = (struct vp_err)VP_ERR_INIT;
        CHECK(!vp_reader_open(&r, names, 1, &spool, &err) && vp_reader_seekable(r));
        int pages = 0;
        while (vp_reader_next_f32(r, page, &err) == 1)
            CHECK(page[100] == sample(pages++, 100));
        CHECK_INT(pages, 3);
        CHECK(!vp_reader_seek(r, 1, &err) && vp_reader_next_f32(r, page, &err) == 1 &&
              page[3] == sample(1, 3));
        CHECK(!vp_reader_close(r, &err));
        close(fd);
        free(bytes);
    }
    static const enum vp_compress compress[] = {VP_COMPRESS_DEFLATE, VP_COMPRESS_ZSTD};
    for (int c = 0; c < 2; c++) {
        for (int t = 0; t < VP_N_TYPES; t++) {
            if (!TIFFIsCODECConfigured(c ? COMPRESSION_ZSTD : COMPRESSION_ADOBE_DEFLATE))
                continue;
            const struct vp_writer_options o = {.compress = compress[c]};
            CHECK(!write_stack(path_of("packed.tif"), (enum vp_type)t, 50, 37, 3, t % 2, &o));
            check_foreign(path_of("packed.tif"));
        }
    }
    struct vp_err err = VP_ERR_INIT;
    struct vp_stack s = {4, 4, 1, VP_U8, {0, NULL, NULL}};
    struct vp_writer *w = NULL;
    CHECK(vp_writer_open(&w, "/dev/null", &s, &(struct vp_writer_options){.compress = VP_COMPRESS_DEFLATE}, &err));
    CHECK_INT(err.code, VP_EUSAGE);
}

static void put(unsigned char **p, bool big_endian, uint64_t v, int n)
{
    for (int i = 0; i < n; i++)
        *(*p)++ = (unsigned char)(v >> 8 * (big_endian ? n - 1 - i : i));
}

/* A stream-ordered TIFF as somebody else may write it: byte order, classic or Big, several strips with gaps,
 * no byte counts of one strip, tags we do not know. 4x6 u16, 2 pages. */
static size_t other_stream(unsigned char *buf, bool be, bool big)
{
    unsigned char *p = buf;
    const int word = big ? 8 : 4, count = big ? 8 : 2, entry = big ? 20 : 12;
    memcpy(p, be ? "MM" : "II", 2);
    p += 2;
    put(&p, be, big ? 43 : 42, 2);
    if (big)
        put(&p, be, 8, 2), put(&p, be, 0, 2);
    put(&p, be, 64, word);
    memset(p, 0xee, (size_t)(buf + 64 - p));
    p = buf + 64;
    for (int page = 0; page < 2; page++) {
        const uint64_t at = (uint64_t)(p - buf), tags = 9,
                       tables = at + (uint64_t)count + tags * (uint64_t)entry + (uint64_t)word;
        const uint64_t data = tables + 100, next = data + 3 * 16 + 2 * 10 + 6;
        const struct {
            int tag, type;
            uint64_t n, v;
        } e[] = {{254, 4, 1, 0},           {256, 3, 1, 4},      {257, 3, 1, 6},
                 {258, 3, 1, 16},          {273, 4, 3, tables}, {278, 3, 1, 2},
                 {279, 4, 3, tables + 20}, {339, 3, 1, 1},      {65000, 2, 5, tables + 60}};
        put(&p, be, tags, count);
        for (size_t i = 0; i < tags; i++) {
            put(&p, be, (uint64_t)e[i].tag, 2);
            put(&p, be, (uint64_t)e[i].type, 2);
            put(&p, be, e[i].n, word);
            unsigned char *field = p;
            memset(p, 0, (size_t)word);
            if (e[i].type == 3)
                put(&field, be, e[i].v, 2);
            else
                put(&field, be, e[i].v, e[i].n == 1 ? 4 : word);
            if (big && e[i].tag == 65000) /* five characters fit */
                memcpy(p, "five\0\0\0\0", 8);
            p += word;
        }
        put(&p, be, page ? 0 : next, word);
        memset(p, 0xdd, 200);
        for (int s = 0; s < 3; s++)
            put(&p, be, data + (uint64_t)s * 26, 4);
        p = buf + tables + 20;
        for (int s = 0; s < 3; s++)
            put(&p, be, 16, 4);
        for (int s = 0; s < 3; s++) {
            p = buf + data + s * 26;
            for (int i = 0; i < 8; i++)
                put(&p, be, (uint64_t)sample(page, 8 * s + i), 2);
        }
        if (page == 0)
            p = buf + next;
    }
    return (size_t)(p - buf);
}

static void other_streams(void)
{
    unsigned char buf[4096];
    for (int k = 0; k < 4; k++) {
        const size_t n = other_stream(buf, k & 1, k & 2);
        for (int p = 0; p < 2; p++) {
            struct vp_err err = VP_ERR_INIT;
            struct vp_stack s;
            CHECK_INT(read_bytes(buf, n, p, true, &s, &err), 2);
            if (err.msg[0])
                printf("kind %d pipe %d: %s\n", k, p, err.msg);
            CHECK(s.nx == 4 && s.ny == 6 && s.type == VP_U16);
            vp_stack_free(&s);
        }
        spit(path_of("other.tif"), buf, n);
        fuzz(path_of("other.tif"), 500);
    }
    /* a chain that bites its tail */
    const size_t n = other_stream(buf, false, false);
    unsigned char *p = buf + 64 + 2 + 9 * 12;
    put(&p, false, 64, 4);
    struct vp_err err = VP_ERR_INIT;
    CHECK_INT(read_bytes(buf, n, false, false, NULL, &err), -1);
    CHECK(strstr(err.msg, "returns to byte 64"));
    err = (struct vp_err)VP_ERR_INIT;
    CHECK_INT(read_bytes(buf, n, true, false, NULL, &err), -1);
    CHECK(strstr(err.msg, "not in stream order"));
    /* three samples per pixel are three pages; form_test.c tells the rest */
    TIFF *t = TIFFOpen(path_of("rgb.tif"), "w");
    TIFFSetField(t, TIFFTAG_IMAGEWIDTH, 2);
    TIFFSetField(t, TIFFTAG_IMAGELENGTH, 1);
    TIFFSetField(t, TIFFTAG_BITSPERSAMPLE, 8);
    TIFFSetField(t, TIFFTAG_SAMPLESPERPIXEL, 3);
    TIFFSetField(t, TIFFTAG_PHOTOMETRIC, PHOTOMETRIC_RGB);
    TIFFWriteScanline(t, (char[]){"abcdef"}, 0, 0);
    TIFFClose(t);
    err = (struct vp_err)VP_ERR_INIT;
    CHECK_INT(read_all(path_of("rgb.tif"), NULL, false, &err), 3);
}

/* A voxel of 13 um: 10 / 0.013 is no decimal fraction, but the one of the tag is 10000 / 13. */
static void fractions(void)
{
    struct vp_err why = VP_ERR_INIT;
    struct vp_stack k = {.nx = 4, .ny = 1, .pages = 1, .type = VP_U8};
    struct vp_writer *v = NULL;
    size_t n;
    vp_meta_set(&k.meta, "voxel", "0.013 0.3333333333333333");
    vp_meta_set(&k.meta, "unit", "mm");
    CHECK(!vp_writer_open(&v, path_of("fraction.tif"), &k, &stream, &why) && !vp_writer_page(v, "abcd", &why) &&
          !vp_writer_close(v, &why));
    unsigned char *bytes = slurp(path_of("fraction.tif"), &n);
    static const unsigned char want[] = {0x10, 0x27, 0, 0, 13, 0, 0, 0};
    CHECK(memmem(bytes, n, want, sizeof want));
    free(bytes);
    TIFF *t = TIFFOpen(path_of("fraction.tif"), "r");
    float y = 0;
    CHECK(t && TIFFGetField(t, TIFFTAG_YRESOLUTION, &y));
    CHECK_NEAR(y, 30, 1e-5);
    TIFFClose(t);
    vp_stack_free(&k);
}

/* Stacks of unknown length: those that end within what is held back are, to the byte, those of known length; longer
 * ones are BigTIFF that says nothing of its length. */
static void held_back(void)
{
    const int64_t nx = 1024, ny = 256, fit = VP_WRITER_HOLD / (nx * ny);
    const struct {
        int64_t ny, pages;
        bool big;
    } cases[] = {{ny, 1, false},       {ny, fit - 1, false}, {ny, fit, false},         {ny, fit + 1, true},
                 {ny, fit + 5, true},  {ny * fit, 1, false}, {ny * fit, 2, true},      {ny * fit + 1, 1, false},
                 {ny * fit + 1, 3, true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (int compress = 0; compress < 2; compress++) {
            const struct vp_writer_options o = {.compress = compress ? VP_COMPRESS_DEFLATE : VP_COMPRESS_NONE};
            struct vp_err err = VP_ERR_INIT;
            struct vp_stack s = {.nx = nx, .ny = cases[i].ny, .pages = -1, .type = VP_U8};
            struct vp_writer *w = NULL;
            unsigned char *page = calloc(1, (size_t)(nx * s.ny));
            CHECK(!vp_writer_open(&w, path_of("held.tif"), &s, &o, &err));
            CHECK(compress || vp_writer_bytes(w) == 16);
            for (int64_t p = 0; p < cases[i].pages; p++) {
                page[0] = (unsigned char)(p + 1);
                CHECK(!vp_writer_page(w, page, &err));
            }
            const uint64_t told = vp_writer_bytes(w);
            CHECK(!vp_writer_close(w, &err));
            s.pages = cases[i].pages;
            CHECK(!vp_writer_open(&w, path_of("known.tif"), &s, &o, &err));
            for (int64_t p = 0; p < cases[i].pages; p++) {
                page[0] = (unsigned char)(p + 1);
                CHECK(!vp_writer_page(w, page, &err));
            }
            CHECK(!vp_writer_close(w, &err));
            size_t n, m;
            unsigned char *held = slurp(path_of("held.tif"), &n), *known = slurp(path_of("known.tif"), &m);
            CHECK_INT(held[2], cases[i].big ? 43 : 42);
            CHECK_INT(known[2], 42);
            CHECK(cases[i].big || (n == m && !memcmp(held, known, n)));
            CHECK(compress || told == n);
            struct vp_reader *r = NULL;
            const char *paths[] = {path_of("held.tif")};
            CHECK(!vp_reader_open(&r, paths, 1, &plain, &err));
            CHECK_INT(vp_reader_stack(r)->pages, cases[i].pages);
            for (int64_t p = 0; p < cases[i].pages; p++)
                CHECK(vp_reader_next(r, page, &err) == 1 && page[0] == p + 1 && page[1] == 0);
            CHECK(!vp_reader_close(r, &err));
            free(held);
            free(known);
            free(page);
        }
    }
    /* given up while pages are held: nothing is left */
    struct vp_err err = VP_ERR_INIT;
    struct vp_stack s = {.nx = 4, .ny = 1, .pages = -1, .type = VP_U8};
    struct vp_writer *w = NULL;
    CHECK(!vp_writer_open(&w, path_of("given-up.tif"), &s, &stream, &err) && !vp_writer_page(w, "abcd", &err));
    vp_writer_abort(w);
    CHECK(access(path_of("given-up.tif"), F_OK));
    CHECK(!vp_writer_open(&w, path_of("none.tif"), &s, &stream, &err));
    CHECK(vp_writer_close(w, &err) && strstr(err.msg, "at least one page"));
}

/* The description that is written: what ImageJ reads, and behind it our lines, which come back. */
static void descriptions(void)
{
    const struct {
        const char *axes, *sizes, *voxel;
        int64_t pages;
        const char *want;
    } cases[] = {
        {NULL, NULL, NULL, 1, "loop=false\n"},
        {NULL, NULL, NULL, 7, "slices=7\nloop=false\n"},
        {NULL, NULL, NULL, -1, "loop=false\n"},
        {"x y z", NULL, "0.1 0.2 0.35", 7, "slices=7\nunit=um\nspacing=350\nloop=false\n"},
        {"x y z", NULL, "0.1 0.2 0.35", -1, "unit=um\nspacing=350\nloop=false\n"},
        {"x y", NULL, "0.1 0.2", 1, "unit=um\nloop=false\n"},
        {"u v view", NULL, "0.1 0.2", 7, "unit=um\nloop=false\n"},
        {"x y time", NULL, "0.1 0.2 3", 7, "frames=7\nhyperstack=true\nmode=grayscale\nunit=um\nloop=false\n"},
        {"x y channel z time", "2 3 4", NULL, 24,
         "channels=2\nslices=3\nframes=4\nhyperstack=true\nmode=grayscale\nloop=false\n"},
        {"x y channel time", "2 4", NULL, -1, "channels=2\nframes=4\nhyperstack=true\nmode=grayscale\nloop=false\n"},
        {"x y channel z", "2 3", NULL, 7, "loop=false\n"}, /* sizes that are not true */
        {"x y z channel", "3 2", "1 1 1", 6, "unit=um\nspacing=1000\nloop=false\n"}, /* not ImageJ's order */
        {"x y z view", "3 2", NULL, 6, "loop=false\n"},
        {"x y page", NULL, "1 1 1", 6, "unit=um\nloop=false\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct vp_stack s = {.nx = 4, .ny = 3, .pages = cases[i].pages, .type = VP_U8};
        struct vp_meta back = {0, NULL, NULL};
        char want[512];
        if (cases[i].axes)
            vp_meta_set(&s.meta, "axes", cases[i].axes);
        if (cases[i].sizes)
            vp_meta_set(&s.meta, "sizes", cases[i].sizes);
        if (cases[i].voxel)
            vp_meta_set(&s.meta, "voxel", cases[i].voxel), vp_meta_set(&s.meta, "unit", "mm");
        vp_meta_add(&s.meta, "history", "a # images=4 \\u \\");
        vp_meta_add(&s.meta, "name", "");
        char *lines = vp_meta_format(&s.meta, "# "), *text = vp_description(&s);
        snprintf(want, sizeof want, "ImageJ=1.11a\nimages=1\n%s%s", cases[i].want, lines);
        CHECK_STR(text, want);
        CHECK(!vp_meta_parse(&back, text, strlen(text) + 1, &(struct vp_page_tags){.x = 100, .y = 100, .unit = 3}));
        char *again = vp_meta_format(&back, "# ");
        CHECK_STR(again, lines);
        free(again);
        free(lines);
        free(text);
        vp_meta_free(&back);
        vp_stack_free(&s);
    }
    /* no marked lines, or not ours */
    struct vp_meta m = {0, NULL, NULL};
    static const char strange[] = "ImageJ=1.5\nslices=2\n# voxpipe = 12\n# axes = a b\n";
    CHECK(!vp_meta_parse(&m, strange, sizeof strange, NULL));
    CHECK_STR(vp_meta_get(&m, "axes"), "x y z");
    vp_meta_free(&m);
    static const char mixed[] = "ImageJ=1.5\nslices=2\n# voxpipe = 1\n# axes = a b\nunit=um\n# good = 1\n";
    CHECK(!vp_meta_parse(&m, mixed, sizeof mixed, NULL) && m.n == 2);
    CHECK_STR(vp_meta_get(&m, "axes"), "a b");
    CHECK_STR(vp_meta_get(&m, "good"), "1");
    vp_meta_free(&m);
}

/* Axes and voxels out of the descriptions of others. */
static void others(void)
{
    #define PIXELS(order, z, c, t, more) \
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?><!-- <Pixels --><OME xmlns=\"x\"><Image ID=\"Image:0\"><Pixels " \
        "DimensionOrder=\"" order "\" SizeX=\"4\" SizeY = '3' SizeZ=\"" z "\" SizeC=\"" c "\" SizeT=\"" t \
        "\" Type=\"uint8\"" more
    #define END "</Pixels></Image></OME>"
    const struct {
        const char *text, *axes, *sizes, *voxel;
    } cases[] = {
        {PIXELS("XYZCT", "4", "2", "3", ">") "<TiffData/>" END, "x y z channel time", "4 2 3", NULL},
        {PIXELS("XYCTZ", "4", "2", "3", "/>") "</Image></OME>", "x y channel time z", "2 3 4", NULL},
        {PIXELS("XYCTZ", "4", "2", "1", " PhysicalSizeX=\"0.5\" PhysicalSizeY='0.25'>") END, "x y channel z", "2 4",
         "0.0005 0.00025"},
        {PIXELS("XYZCT", "4", "1", "1", " PhysicalSizeX=\"2\" PhysicalSizeXUnit=\"nm\" PhysicalSizeY=\"1\" "
         "PhysicalSizeYUnit=\"mm\" PhysicalSizeZ=\"3\" PhysicalSizeZUnit=\"&#181;m\">") END, "x y z", "4",
         "2e-06 1 0.003"},
        {PIXELS("XYZCT", "4", "1", "1", " PhysicalSizeX=\"2\" PhysicalSizeXUnit=\"pixel\" PhysicalSizeY=\"1\">") END,
         "x y z", "4", NULL},
        {PIXELS("XYZCT", "1", "1", "1", ">") END, "x y", NULL, NULL},
        {PIXELS("XYZCT", "1", "3", "1", "><Channel SamplesPerPixel=\"3\"/>") END, "x y", NULL, NULL},
        {PIXELS("XYCZT", "4", "6", "1", "><Channel SamplesPerPixel=\"3\"/><Channel SamplesPerPixel=\"3\"/>") END,
         "x y channel z", "2 4", NULL},
        /* planes in the order said, one by one; and in another */
        {PIXELS("XYCZT", "2", "2", "1", ">") "<TiffData IFD=\"0\" PlaneCount=\"1\"/><TiffData FirstC=\"1\" IFD=\"1\"/>"
         "<TiffData FirstZ=\"1\" IFD=\"2\"/><TiffData FirstC=\"1\" FirstZ=\"1\" IFD=\"3\"/>" END,
         "x y channel z", "2 2", NULL},
        {PIXELS("XYCZT", "2", "2", "1", ">") "<TiffData IFD=\"0\"/><TiffData FirstZ=\"1\" IFD=\"1\"/>" END, "x y page",
         NULL, NULL},
        {PIXELS("XYCZT", "2", "1", "1", ">") "<TiffData IFD=\"0\"><UUID FileName=\"a.tif\">u</UUID></TiffData>"
         "<TiffData IFD=\"1\" FirstZ=\"1\"><UUID FileName=\"b.tif\">v</UUID></TiffData>" END, "x y page", NULL, NULL},
        {PIXELS("XYZ", "4", "2", "3", ">") END, "x y page", NULL, NULL},
        {PIXELS("XYZCT", "4", "0", "3", ">") END, "x y page", NULL, NULL},
        {PIXELS("XYZCT", "4", "1", "1", "/>") "<Pixels/>" END, "x y page", NULL, NULL}, /* two images */
        {"<ome:OME><ome:Pixels DimensionOrder=\"XYZCT\" SizeZ=\"2\" SizeC=\"1\" SizeT=\"2\"/></ome:OME>", "x y z time",
         "2 2", NULL},
        {"<html><OME><Pixels DimensionOrder=\"XYZCT\" SizeZ=\"2\"/></OME>", NULL, NULL, NULL},
        {"<OME><Pixels DimensionOrder=\"XYZCT", NULL, NULL, NULL},
        {"<", NULL, NULL, NULL},
        {"ImageJ=1.53t\nslices=4\nunit=um\nspacing=3\n", "x y z", "4", "1 0.5 0.003"}, /* 10 and 20 per cm */
        {"ImageJ=1.53t\nslices=4\nunit=cm\nspacing=0.5\n", "x y z", "4", "1 0.5 5"},
        {"ImageJ=1.53t\nimages=6\n", "x y z", "6", NULL},
        {"ImageJ=1.53t\nimages=6\nslices=3\n", "x y page", NULL, NULL},
        {"{\"shape\": [4, 20, 30]}", NULL, NULL, NULL},
        {"{\"shape\": [1, 4, 20, 30]}", NULL, NULL, NULL},
        {"{\"shape\": [2, 4, 20, 30]}", "x y page", NULL, NULL},
        {"{\"shape\": [2, 4, 5, 20, 30], \"axes\": \"TZCYX\"}", "x y channel z time", "5 4 2", NULL},
        {"{\"shape\": [2, 1, 5, 20, 30], \"axes\": \"TZCYX\"}", "x y channel time", "5 2", NULL},
        {"{\"shape\": [2, 20, 30], \"axes\": \"TYX\"}", "x y time", "2", NULL},
        {"{\"shape\": [2, 3, 20, 30], \"axes\": \"QZYX\"}", "x y page", NULL, NULL},
        {"{\"shape\": [2, 3, 20", NULL, NULL, NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct vp_meta m = {0, NULL, NULL};
        const size_t n = strlen(cases[i].text);
        char *exact = memcpy(malloc(n), cases[i].text, n); /* no NUL: a byte too many is seen */
        CHECK(!vp_meta_parse(&m, exact, n, &(struct vp_page_tags){.x = 10, .y = 20, .unit = 3}));
        const char *got[] = {vp_meta_get(&m, "axes"), vp_meta_get(&m, "sizes"), vp_meta_get(&m, "voxel")};
        const char *want[] = {cases[i].axes, cases[i].sizes, cases[i].voxel};
        for (int k = 0; k < 3; k++) {
            const bool same = got[k] ? want[k] && !strcmp(got[k], want[k]) : !want[k];
            if (!same)
                printf("  %s\n  %d: %s\n", cases[i].text, k, got[k] ? got[k] : "-");
            CHECK(same);
        }
        for (size_t cut = 0; cut < n; cut++) { /* whatever is missing */
            char *part = memcpy(malloc(cut + 1), cases[i].text, cut);
            struct vp_meta some = {0, NULL, NULL};
            CHECK(!vp_meta_parse(&some, part, cut, NULL));
            vp_meta_free(&some);
            free(part);
        }
        free(exact);
        vp_meta_free(&m);
    }
}

/* One directory and many pages behind it, as ImageJ writes beyond 4 GiB. */
static void imagej(void)
{
    unsigned char buf[1024];
    memset(buf, 0, sizeof buf);
    static const char text[] = "ImageJ=1.53t\nimages=3\nslices=3\nunit=mm\nspacing=0.5\n";
    unsigned char *p = buf;
    memcpy(p, "MM\0\x2a\0\0\0\x08", 8);
    p += 8;
    const struct {
        int tag, type;
        uint32_t n, v;
    } e[] = {{256, 4, 1, 4},   {257, 4, 1, 2}, {258, 3, 1, 8u << 16}, {270, 2, sizeof text, 200},
             {273, 4, 1, 400}, {278, 4, 1, 2}, {279, 4, 1, 8},        {282, 5, 1, 300},
             {283, 5, 1, 300}};
    put(&p, true, 9, 2);
    for (int i = 0; i < 9; i++) {
        put(&p, true, (uint64_t)e[i].tag, 2);
        put(&p, true, (uint64_t)e[i].type, 2);
        put(&p, true, e[i].n, 4);
        put(&p, true, e[i].v, 4);
    }
    memcpy(buf + 200, text, sizeof text);
    p = buf + 300;
    put(&p, true, 20, 4);
    put(&p, true, 2, 4);
    for (int k = 0; k < 3; k++)
        fill(buf + 400 + 8 * k, VP_U8, k, 8);
    for (int k = 0; k < 2; k++) {
        struct vp_err err = VP_ERR_INIT;
        struct vp_stack s;
        CHECK_INT(read_bytes(buf, 424, k, true, &s, &err), 3);
        CHECK_INT(s.pages, 3);
        CHECK_STR(vp_meta_get(&s.meta, "axes"), "x y z");
        CHECK_STR(vp_meta_get(&s.meta, "voxel"), "0.1 0.1 0.5");
        CHECK_STR(vp_meta_get(&s.meta, "unit"), "mm");
        vp_stack_free(&s);
        CHECK_INT(read_bytes(buf, 423, k, false, NULL, &err), -1);
    }
}

static void raw(void)
{
    unsigned char buf[3 + 2 * 2 * 3 * 4];
    unsigned char *p = buf + 3;
    for (int i = 0; i < 24; i++)
        put(&p, true, (uint64_t)(1000 + i), 2);
    const struct {
        const char *spec;
        int64_t n;
        size_t bytes;
    } cases[] = {
        {"2x3:u16be,skip=3", 4, sizeof buf},
        {"2x3x4:u16be,skip=3", 4, sizeof buf},
        {"2x3x5:u16be,skip=3", -1, sizeof buf},
        {"2x3x3:u16be,skip=3", -1, sizeof buf},
        {"2x3:u16be,skip=2", -1, sizeof buf},
        {"2x3:u16be,skip=3", -1, sizeof buf - 1},
        {"2x3:u16be,skip=3", -1, 3},
        {"2x3:u16be,skip=30", -1, 10},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        for (int pipe_ = 0; pipe_ < 2; pipe_++) {
            char name[32];
            const char *names[] = {name};
            const int fd = as_input(buf, cases[k].bytes, pipe_, name);
            const struct vp_reader_options o = {.raw = cases[k].spec};
            struct vp_err err = VP_ERR_INIT;
            struct vp_reader *r = NULL;
            int rc = vp_reader_open(&r, names, 1, &o, &err);
            uint16_t page[6];
            int64_t n = 0;
            while (!rc && (rc = vp_reader_next(r, page, &err)) == 1) {
                CHECK(cases[k].n < 0 || (page[0] == 1000 + 6 * n && page[5] == 1005 + 6 * n));
                n++;
                rc = 0;
            }
            if (rc >= 0)
                rc = vp_reader_close(r, &err);
            else
                vp_reader_close(r, &(struct vp_err)VP_ERR_INIT);
            CHECK_INT(rc < 0 ? -1 : n, cases[k].n);
            CHECK((rc < 0) == (err.msg[0] != 0));
            close(fd);
        }
    }
    static const char *const bad[] = {"",
                                      "2x3",
                                      "2x3:",
                                      "2x3:u17",
                                      "0x3:u8",
                                      "2x-3:u8",
                                      "2x3:u8,skip",
                                      "2x3:u8,skip=",
                                      "2x3:u8 ",
                                      "2x3x0:u8",
                                      "2x3x:u8",
                                      "9999999999x9999999999:f64",
                                      "x3:u8",
                                      "2*3:u8",
                                      "99999999999999999999x1:u8"};
    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) {
        const char *names[] = {path_of("a.tif")};
        const struct vp_reader_options o = {.raw = bad[k]};
        struct vp_err err = VP_ERR_INIT;
        struct vp_reader *r = NULL;
        CHECK(vp_reader_open(&r, names, 1, &o, &err) && err.code == VP_EUSAGE);
    }
    /* written raw, read raw */
    const struct vp_writer_options w = {.raw = true};
    CHECK(!write_stack(path_of("a.raw"), VP_I16, 4, 3, 2, true, &w));
    const char *names[] = {path_of("a.raw")};
    struct vp_err err = VP_ERR_INIT;
    struct vp_reader *r = NULL;
    float page[12];
    CHECK(!vp_reader_open(&r, names, 1, &(struct vp_reader_options){.raw = "4x3x2:int16"}, &err));
    CHECK(vp_reader_next_f32(r, page, &err) == 1 && vp_reader_next_f32(r, page, &err) == 1 &&
          page[11] == sample(1, 11));
    CHECK(!vp_reader_close(r, &err));
}

static void many_files(void)
{
    mkdir(path_of("scan"), 0777);
    static const char *const order[] = {"img1.tif", "img2.TIF", "img10.tiff", "img010.tif", "img20.tif"};
    static const int sequence[] = {0, 1, 3, 2, 4}; /* img010 before img10: equal numbers, then bytes */
    for (int i = 0; i < 5; i++) {
        char name[64];
        sprintf(name, "scan/%s", order[sequence[i]]);
        struct vp_err err = VP_ERR_INIT;
        struct vp_stack s = {2, 2, 2, VP_U8, {0, NULL, NULL}};
        struct vp_writer *w;
        const unsigned char a[4] = {(unsigned char)(2 * i)}, b[4] = {(unsigned char)(2 * i + 1)};
        CHECK(!vp_writer_open(&w, path_of(name), &s, &stream, &err) && !vp_writer_page(w, a, &err) &&
              !vp_writer_page(w, b, &err) && !vp_writer_close(w, &err));
    }
    spit(path_of("scan/notes.txt"), "x", 1);
    spit(path_of("scan/.hidden.tif"), "x", 1);
    FILE *f = fopen(path_of("list.txt"), "w");
    fprintf(f, "%s\n\n%s\r\n", path_of("scan/img20.tif"), path_of("scan"));
    fclose(f);
    char at[300];
    snprintf(at, sizeof at, "@%s", path_of("list.txt"));

    struct vp_err err = VP_ERR_INIT;
    struct vp_reader *r = NULL;
    const char *paths[] = {path_of("scan"), at};
    unsigned char page[4];
    float row[2];
    CHECK(!vp_reader_open(&r, paths, 2, &plain, &err));
    CHECK_INT(vp_reader_stack(r)->pages, 22);
    CHECK(strstr(vp_reader_name(r), "11 files ("));
    for (int i = 0; i < 10; i++)
        CHECK(vp_reader_next(r, page, &err) == 1 && page[0] == i);
    CHECK(!read_rows(r, 3, 0, 1, true, row, &err) && row[0] == 3); /* beside the sequence */
    CHECK(vp_reader_next(r, page, &err) == 1 && page[0] == 8);
    CHECK(vp_reader_next(r, page, &err) == 1 && page[0] == 9);
    for (int i = 0; i < 10; i++)
        CHECK(vp_reader_next(r, page, &err) == 1 && page[0] == i);
    CHECK_INT(vp_reader_next(r, page, &err), 0);
    CHECK(!vp_reader_seek(r, 13, &err) && vp_reader_next(r, page, &err) == 1 && page[0] == 1);
    CHECK(!vp_reader_close(r, &err));

    CHECK(!write_stack(path_of("b.tif"), VP_U16, 4, 2, 1, false, &stream));
    const char *mixed[] = {path_of("scan/img1.tif"), path_of("b.tif")};
    CHECK(vp_reader_open(&r, mixed, 2, &plain, &err));
    CHECK(strstr(err.msg, "b.tif: expected pages of 2x2 u8 as in ") &&
          strstr(err.msg, "img1.tif, got 4x2 u16"));
    err = (struct vp_err)VP_ERR_INIT;
    const char *twice[] = {"-", "-"};
    CHECK(vp_reader_open(&r, twice, 2, &plain, &err) && err.code == VP_EUSAGE);
    err = (struct vp_err)VP_ERR_INIT;
    const char *missing[] = {mixed[0], path_of("nothing.tif")};
    CHECK(vp_reader_open(&r, missing, 2, &plain, &err) && strstr(err.msg, "nothing.tif: No such file"));

    /* a pipe among files: the total is unknown, the pages are right */
    size_t n;
    unsigned char *bytes = slurp(mixed[0], &n);
    char pipe_[32];
    const int fd = as_input(bytes, n, true, pipe_);
    const char *with[] = {mixed[0], pipe_, mixed[0]};
    err = (struct vp_err)VP_ERR_INIT;
    CHECK(!vp_reader_open(&r, with, 3, &plain, &err) && vp_reader_stack(r)->pages == -1 &&
          !vp_reader_seekable(r));
    for (int i = 0; i < 6; i++)
        CHECK(vp_reader_next(r, page, &err) == 1 && page[0] == i % 2);
    CHECK_INT(vp_reader_next(r, page, &err), 0);
    CHECK(!vp_reader_close(r, &err));
    close(fd);
    free(bytes);
}

static void standard_input(void)
{
    const int saved = dup(0);
    struct vp_err err = VP_ERR_INIT;
    struct vp_reader *r = NULL;
    uint16_t page[15];
    CHECK(!write_stack(path_of("in.tif"), VP_U16, 5, 3, 3, false, &stream));
    dup2(open(path_of("in.tif"), O_RDONLY), 0);
    CHECK(!vp_reader_open(&r, NULL, 0, &plain, &err) && vp_reader_seekable(r));
    CHECK_STR(vp_reader_name(r), "standard input");
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 3; i++)
            CHECK(vp_reader_next(r, page, &err) == 1 && page[2] == sample(i, 2));
        CHECK_INT(vp_reader_next(r, page, &err), 0);
        CHECK(!vp_reader_seek(r, 0, &err));
    }
    CHECK(!vp_reader_close(r, &err));

    size_t n;
    unsigned char *bytes = slurp(path_of("in.tif"), &n);
    char path[32];
    dup2(as_input(bytes, n, true, path), 0);
    CHECK(!vp_reader_open(&r, NULL, 0, &plain, &err) && !vp_reader_seekable(r) &&
          vp_reader_stack(r)->pages == 3);
    for (int i = 0; i < 3; i++)
        CHECK(vp_reader_next(r, page, &err) == 1 && page[2] == sample(i, 2));
    CHECK(vp_reader_seek(r, 0, &err) && strstr(err.hint, "--spool"));
    err = (struct vp_err)VP_ERR_INIT;
    CHECK(!vp_reader_close(r, &err)); /* the end was not asked for, and is there */

    /* the same with bytes too many, found when closing */
    bytes[n] = 0;
    dup2(as_input(bytes, n + 1, true, path), 0);
    CHECK(!vp_reader_open(&r, NULL, 0, &plain, &err));
    for (int i = 0; i < 3; i++)
        CHECK(vp_reader_next(r, page, &err) == 1);
    CHECK(vp_reader_close(r, &err) && strstr(err.msg, "standard input: trailing data"));
    free(bytes);
    dup2(saved, 0);
    close(saved);
}

static int files_in(const char *path)
{
    DIR *d = opendir(path);
    int n = 0;
    for (struct dirent *e; (e = readdir(d));)
        n += e->d_name[0] != '.' || strlen(e->d_name) > 2;
    closedir(d);
    return n;
}

static void writer(void)
{
    struct vp_err err = VP_ERR_INIT;
    struct vp_stack s = {3, 2, 2, VP_U8, {0, NULL, NULL}};
    struct vp_writer *w = NULL;
    struct stat st;
    mkdir(path_of("out"), 0777);
    char *path = path_of("out/a.tif");
    spit(path, "precious", 8);
    chmod(path, 0640);
    size_t n;

    /* nothing is seen of an output that is not finished, and nothing is left of one that is thrown away */
    CHECK(!vp_writer_open(&w, path, &s, &stream, &err) && !vp_writer_page(w, "abcdef", &err));
    CHECK_INT(files_in(path_of("out")), 2);
    unsigned char *bytes = slurp(path, &n);
    CHECK(n == 8 && !memcmp(bytes, "precious", 8));
    free(bytes);
    vp_writer_abort(w);
    CHECK_INT(files_in(path_of("out")), 1);
    /* too few pages */
    CHECK(!vp_writer_open(&w, path, &s, &stream, &err) && !vp_writer_page(w, "abcdef", &err) &&
          vp_writer_close(w, &err));
    CHECK(strstr(err.msg, "a.tif: expected 2 pages, got 1"));
    CHECK_INT(files_in(path_of("out")), 1);
    /* too many */
    err = (struct vp_err)VP_ERR_INIT;
    CHECK(!vp_writer_open(&w, path, &s, &stream, &err) && !vp_writer_page(w, "abcdef", &err) &&
          !vp_writer_page(w, "abcdef", &err));
    CHECK(vp_writer_page(w, "abcdef", &err));
    vp_writer_abort(w);
    /* none of an unknown number */
    err = (struct vp_err)VP_ERR_INIT;
    s.pages = -1;
    CHECK(!vp_writer_open(&w, path, &s, &stream, &err) && vp_writer_close(w, &err));
    s.pages = 2;
    /* killed in the middle: the handler's part */
    err = (struct vp_err)VP_ERR_INIT;
    CHECK(!vp_writer_open(&w, path, &s, &stream, &err));
    vp_outputs_unlink();
    CHECK_INT(files_in(path_of("out")), 1);
    vp_writer_abort(w);
    /* finished: through a symbolic link into the file it names, with that file's mode */
    CHECK(!symlink("a.tif", path_of("out/link.tif")));
    CHECK(!vp_writer_open(&w, path_of("out/link.tif"), &s, &stream, &err) &&
          !vp_writer_page(w, "abcdef", &err) && !vp_writer_page(w, "ghijkl", &err) &&
          !vp_writer_close(w, &err));
    CHECK(!lstat(path_of("out/link.tif"), &st) && S_ISLNK(st.st_mode));
    CHECK(!stat(path, &st) && (st.st_mode & 0777) == 0640);
    bytes = slurp(path, &n);
    CHECK(n > 8 && !memcmp(bytes, "II\x2a", 3));
    free(bytes);
    CHECK_INT(files_in(path_of("out")), 2);
    /* the output may be the input */
    struct vp_reader *r;
    const char *paths[] = {path};
    unsigned char page[6];
    CHECK(!vp_reader_open(&r, paths, 1, &plain, &err) &&
          !vp_writer_open(&w, path, vp_reader_stack(r), &stream, &err));
    for (int i = 0; i < 2; i++)
        CHECK(vp_reader_next(r, page, &err) == 1 && !vp_writer_page(w, page, &err));
    CHECK(!vp_reader_close(r, &err) && !vp_writer_close(w, &err));
    CHECK(!vp_reader_open(&r, paths, 1, &plain, &err) && vp_reader_next(r, page, &err) == 1 &&
          !memcmp(page, "abcdef", 6));
    CHECK(!vp_reader_close(r, &err));
    /* full disk, closed directory */
    CHECK(!vp_writer_open(&w, "/dev/full", &s, &stream, &err) ||
          strstr(err.msg, "/dev/full: No space left on device"));
    if (!err.code)
        vp_writer_abort(w);
    err = (struct vp_err)VP_ERR_INIT;
    CHECK(vp_writer_open(&w, path_of("nowhere/a.tif"), &s, &stream, &err) &&
          strstr(err.msg, "nowhere/a.tif: No such file"));
    err = (struct vp_err)VP_ERR_INIT;
    CHECK(vp_writer_open(&w, path_of("out"), &s, &stream, &err) && strstr(err.msg, "Is a directory"));
    /* other files */
    struct vp_outfile *o;
    err = (struct vp_err)VP_ERR_INIT;
    CHECK(!vp_outfile_open(&o, path_of("out/b.txt"), &err) && !vp_outfile_write(o, "text", 4, &err));
    CHECK(stat(path_of("out/b.txt"), &st));
    CHECK(!vp_outfile_close(o, &err) && !stat(path_of("out/b.txt"), &st) && st.st_size == 4);
    CHECK(!vp_outfile_open(&o, path_of("out/c.txt"), &err));
    vp_outfile_abort(o);
    CHECK(stat(path_of("out/c.txt"), &st));
}

/* Pages written together by several threads are the bytes of pages written one by one. */
static void together(void)
{
    enum { SIDE = 300, PAGES = 7, PAGE = SIDE * SIDE };
    struct vp_err err = VP_ERR_INIT;
    struct vp_stack s = {SIDE, SIDE, PAGES, VP_F32, {0, NULL, NULL}};
    struct vp_writer *w = NULL;
    float *pages = malloc(sizeof(float) * PAGE * PAGES);
    for (int i = 0; i < PAGE * PAGES; i++)
        pages[i] = (float)i;
    CHECK(!vp_meta_set(&s.meta, "voxel", "0.1 0.1 0.1") && !vp_meta_set(&s.meta, "unit", "mm"));
    CHECK(!vp_writer_open(&w, path_of("one.tif"), &s, &stream, &err));
    for (int i = 0; i < PAGES; i++)
        CHECK(!vp_writer_page(w, pages + i * PAGE, &err));
    CHECK(!vp_writer_close(w, &err));
    /* one, then three and two together, then one again */
    CHECK(!vp_writer_open(&w, path_of("together.tif"), &s, &stream, &err));
    CHECK(!vp_writer_page(w, pages, &err) && !vp_writer_pages(w, 3, pages + PAGE, 3, &err) &&
          !vp_writer_pages(w, 2, pages + 4 * PAGE, 2, &err));
    CHECK(vp_writer_pages(w, 2, pages, 2, &err) && strstr(err.msg, "expected 7 pages, got at least 8"));
    err = (struct vp_err)VP_ERR_INIT;
    CHECK(!vp_writer_page(w, pages + 6 * PAGE, &err) && !vp_writer_close(w, &err));
    size_t n, m;
    unsigned char *one = slurp(path_of("one.tif"), &n), *all = slurp(path_of("together.tif"), &m);
    CHECK(n > sizeof(float) * PAGE * PAGES && n == m && !memcmp(one, all, n));
    free(one);
    free(all);
    free(pages);
    vp_stack_free(&s);
}

/* A copy of a stack through the streaming writer: what a pipe would get, in a nameless file. */
static int streamed(const struct vp_stack *s, const struct vp_writer_options *o, const void *pages, char path[32])
{
    struct vp_err err = VP_ERR_INIT;
    struct vp_writer *w;
    const int fd = memfd_create("test", 0);
    sprintf(path, "/dev/fd/%d", fd);
    CHECK(!vp_writer_open(&w, path, s, o, &err) && !vp_writer_random(w));
    for (int64_t p = 0; p < s->pages; p++)
        CHECK(!vp_writer_page(w, (const char *)pages + (size_t)p * vp_page_bytes(s), &err));
    CHECK(!vp_writer_close(w, &err));
    return fd;
}

static void same_files(const char *a, const char *b)
{
    size_t n, m;
    unsigned char *x = slurp(a, &n), *y = slurp(b, &m);
    CHECK(n > 0 && n == m && !memcmp(x, y, n));
    free(x);
    free(y);
}

/* Everything that reads several pages or parts of them, against pages read one by one. */
static void many_pages(const char *const *paths, int n, const struct vp_reader_options *o, bool concurrent)
{
    struct vp_err err = VP_ERR_INIT;
    struct vp_reader *r;
    CHECK(!vp_reader_open(&r, paths, n, o, &err));
    const struct vp_stack *s = vp_reader_stack(r);
    const int64_t pages = s->pages, nx = s->nx, ny = s->ny;
    const size_t bytes = vp_page_bytes(s), samples = (size_t)(nx * ny), row = (size_t)nx * vp_type_size(s->type);
    char *want = malloc((size_t)pages * bytes), *got = malloc((size_t)pages * bytes);
    float *want_f = malloc((size_t)pages * samples * 4), *got_f = malloc((size_t)pages * samples * 4);
    void **to = calloc((size_t)pages + 2, sizeof *to);
    float **to_f = calloc((size_t)pages + 2, sizeof *to_f);
    int64_t bad = 0;
    CHECK(vp_reader_concurrent(r) == concurrent);
    for (int64_t p = 0; p < pages; p++)
        CHECK(vp_reader_next(r, want + (size_t)p * bytes, &err) == 1);
    CHECK(!vp_reader_seek(r, 0, &err));
    for (int64_t p = 0; p < pages; p++)
        CHECK(read_pages(r, 1, true, &(void *){want_f + (size_t)p * samples}, &bad, 1, &err) == 1);
    for (int threads = 1; threads <= 5; threads++) {
        memset(got, 1, (size_t)pages * bytes);
        memset(got_f, 1, (size_t)pages * samples * 4);
        to[pages] = to[pages + 1] = got; /* asked for, but past the end */
        for (int64_t p = 0; p < pages; p++) { /* scattered: the pages lie backwards */
            to[p] = got + (size_t)(pages - 1 - p) * bytes;
            to_f[p] = got_f + (size_t)(pages - 1 - p) * samples;
        }
        int64_t counted = 0;
        CHECK(!vp_reader_seek(r, 0, &err));
        CHECK_INT(read_pages(r, 2, false, to, NULL, threads, &err), 2);
        CHECK_INT(read_pages(r, 0, false, to, NULL, threads, &err), 0);
        CHECK_INT(read_pages(r, pages, false, to + 2, NULL, threads, &err), pages - 2);
        CHECK_INT(read_pages(r, 1, false, to, NULL, threads, &err), 0);
        CHECK_INT(vp_reader_next(r, to[0], &err), 0);
        CHECK(!vp_reader_seek(r, 1, &err));
        CHECK_INT(read_pages(r, pages - 1, true, (void **)to_f + 1, &counted, threads, &err), pages - 1);
        CHECK(!vp_reader_seek(r, 0, &err));
        CHECK_INT(read_pages(r, 1, true, (void **)to_f, &counted, threads, &err), 1);
        CHECK_INT(counted, bad);
        int wrong = 0;
        for (int64_t p = 0; p < pages; p++) {
            wrong += memcmp(to[p], want + (size_t)p * bytes, bytes) != 0;
            wrong += memcmp(to_f[p], want_f + (size_t)p * samples, samples * 4) != 0;
        }
        CHECK_INT(wrong, 0);
        CHECK(vp_reader_next(r, got, &err) == 1 && !memcmp(got, want + bytes, bytes)); /* where it stands */
        /* parts, by several threads where that is allowed, beside the sequence */
        int wrong_rows = 0;
#pragma omp parallel for num_threads(threads) reduction(+ : wrong_rows) if (concurrent)
        for (int k = 0; k < 60; k++) {
            struct vp_err e = VP_ERR_INIT;
            const int64_t p = k * 7 % pages, y0 = k * 5 % ny, y1 = k % 4 || !y0 ? y0 + 1 + k * 3 % (ny - y0) : y0;
            char *part = malloc((size_t)(y1 - y0 + 1) * row);
            float *part_f = malloc((size_t)(y1 - y0 + 1) * (size_t)nx * 4);
            wrong_rows += read_rows(r, p, y0, y1, false, part, &e) ||
                          memcmp(part, want + (size_t)p * bytes + (size_t)y0 * row, (size_t)(y1 - y0) * row);
            wrong_rows += read_rows(r, p, y0, y1, true, part_f, &e) ||
                          memcmp(part_f, want_f + (size_t)p * samples + (size_t)(y0 * nx),
                                 (size_t)((y1 - y0) * nx) * 4);
            free(part);
            free(part_f);
        }
        CHECK_INT(wrong_rows, 0);
    }
    CHECK(read_rows(r, pages, 0, 1, false, got, &err) && strstr(err.msg, "of page"));
    CHECK(read_rows(r, 0, 0, ny + 1, false, got, &err) && read_rows(r, 0, 2, 1, false, got, &err));
    err = (struct vp_err)VP_ERR_INIT;
    CHECK(!vp_reader_close(r, &err));
    free(want);
    free(got);
    free(want_f);
    free(got_f);
    free(to);
    free(to_f);
}

static void many_at_once(void)
{
    for (int t = 0; t < VP_N_TYPES; t++) {
        const char *a[] = {path_of("many.tif")};
        CHECK(!write_stack(a[0], (enum vp_type)t, 13, 9, 11, t % 2, &stream)); /* Big if unknown */
        many_pages(a, 1, &plain, true);
    }
    /* pages in several pieces, with NaN */
    const char *large_pages[] = {path_of("pieces.tif")};
    struct vp_err err = VP_ERR_INIT;
    struct vp_stack s = {701, 403, 3, VP_F32, {0, NULL, NULL}};
    struct vp_writer *w;
    float *page = calloc(701 * 403, sizeof *page);
    for (int big = 0; big < 2; big++) {
        s.pages = big ? -1 : 3;
        CHECK(!vp_writer_open(&w, large_pages[0], &s, &stream, &err));
        for (int p = 0; p < 3; p++) {
            for (int i = 0; i < 701 * 403; i++)
                page[i] = (float)(i + p);
            page[p] = page[701 * 200 + p] = NAN;
            page[701 * 403 - 1] = INFINITY;
            CHECK(!vp_writer_page(w, page, &err));
        }
        CHECK(!vp_writer_close(w, &err));
        many_pages(large_pages, 1, &plain, true);
    }
    free(page);
    CHECK(!write_stack(large_pages[0], VP_U16, 701, 403, 3, false, &stream));
    many_pages(large_pages, 1, &plain, true);
    /* a cut that comes after opening: the first page that it hits, whatever the threads */
    for (int threads = 1; threads <= 5; threads++) {
        CHECK(!write_stack(path_of("shrinks.tif"), VP_U16, 701, 403, 9, false, &stream));
        const char *paths[] = {path_of("shrinks.tif")};
        uint16_t *all = malloc((size_t)9 * 701 * 403 * 2);
        void *to[9];
        for (int p = 0; p < 9; p++)
            to[p] = all + p * 701 * 403;
        struct vp_reader *r;
        err = (struct vp_err)VP_ERR_INIT;
        CHECK(!vp_reader_open(&r, paths, 1, &plain, &err) && !truncate(paths[0], 701 * 403 * 2 * 4));
        CHECK_INT(read_pages(r, 9, false, to, NULL, threads, &err), -1);
        CHECK(strstr(err.msg, "shrinks.tif: page 3: truncated while it is read"));
        vp_reader_close(r, &(struct vp_err)VP_ERR_INIT);
        free(all);
    }
    err = (struct vp_err)VP_ERR_INIT;
    /* the files of others: strips, gaps, the other byte order, tiles, compression */
    static const struct {
        const char *mode;
        enum vp_type t;
        int compression;
        uint32_t tile, rows;
    } kinds[] = {
        {"w", VP_U16, COMPRESSION_NONE, 0, 37}, {"w", VP_U8, COMPRESSION_NONE, 0, 5},
        {"wb", VP_F32, COMPRESSION_NONE, 0, 1}, {"w8b", VP_I32, COMPRESSION_NONE, 0, 4},
        {"w", VP_U16, COMPRESSION_NONE, 16, 0}, {"wb", VP_F64, COMPRESSION_ADOBE_DEFLATE, 0, 10},
    };
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        const char *paths[] = {path_of("foreign.tif")};
        foreign(paths[0], kinds[k].mode, kinds[k].t, kinds[k].compression, 0, kinds[k].tile, kinds[k].rows);
        many_pages(paths, 1, &plain, kinds[k].compression == COMPRESSION_NONE && !kinds[k].tile);
    }
    unsigned char buf[4096];
    for (int k = 0; k < 4; k++) { /* strips with gaps between them */
        const char *paths[] = {path_of("other.tif")};
        spit(paths[0], buf, other_stream(buf, k & 1, k & 2));
        many_pages(paths, 1, &plain, true);
    }
    /* raw, of either byte order */
    const struct vp_writer_options raw_out = {.raw = true};
    const char *raws[] = {path_of("many.raw")};
    CHECK(!write_stack(raws[0], VP_U16, 13, 9, 5, false, &raw_out));
    many_pages(raws, 1, &(struct vp_reader_options){.raw = "13x9:u16le"}, true);
    many_pages(raws, 1, &(struct vp_reader_options){.raw = "13x9:u16be"}, true);
    /* more files than stay open; one that cannot be read by several threads among them */
    enum { FILES = 40 };
    const char *files[FILES];
    for (int k = 0; k < FILES; k++) {
        char name[32];
        sprintf(name, "file%d.tif", k);
        files[k] = path_of(name);
        CHECK(!write_stack(files[k], VP_U16, 5, 7, 1 + k % 3, k % 2, &stream));
    }
    many_pages(files, FILES, &plain, true);
    if (TIFFIsCODECConfigured(COMPRESSION_ADOBE_DEFLATE)) {
        const struct vp_writer_options o = {.compress = VP_COMPRESS_DEFLATE};
        CHECK(!write_stack(files[7], VP_U16, 5, 7, 3, false, &o));
        many_pages(files, FILES, &plain, false);
    }
    /* a pipe */
    CHECK(!write_stack(path_of("many.tif"), VP_U16, 13, 9, 5, true, &stream));
    size_t n;
    unsigned char *bytes = slurp(path_of("many.tif"), &n);
    char name[32];
    const char *names[] = {name};
    const int fd = as_input(bytes, n, true, name);
    struct vp_reader *r;
    uint16_t got[6][13 * 9], want[13 * 9];
    void *to[6] = {got[0], got[1], got[2], got[3], got[4], got[5]};
    CHECK(!vp_reader_open(&r, names, 1, &plain, &err) && !vp_reader_concurrent(r));
    CHECK_INT(read_pages(r, 2, false, to, NULL, 3, &err), 2);
    CHECK_INT(read_pages(r, 4, false, to + 2, NULL, 3, &err), 3);
    for (int p = 0; p < 5; p++) {
        fill(want, VP_U16, p, 13 * 9);
        CHECK(!memcmp(got[p], want, sizeof want));
    }
    CHECK(read_rows(r, 0, 0, 1, false, got, &err) && strstr(err.hint, "--spool"));
    vp_reader_close(r, &(struct vp_err)VP_ERR_INIT);
    close(fd);
    free(bytes);
}

/* One opens the file, two join it; pages are dealt out. Nothing has the name before the first one closes, which
 * knows how many rows there should be; who joined and gives up takes the file away. */
static void by_several(const char *path, const struct vp_stack *s, const struct vp_writer_options *o, const char *all,
                       const char *want)
{
    enum { WRITERS = 3 };
    struct vp_err err = VP_ERR_INIT;
    struct vp_writer *w[WRITERS];
    const size_t bytes = vp_page_bytes(s);
    char temporary[400];
    for (int lost = 0; lost <= 2; lost++) {
        int64_t others = 0;
        const struct vp_writer_options first = {.raw = o->raw, .shared = true},
                                       later = {.raw = o->raw, .shared = true, .temporary = temporary};
        CHECK(!vp_writer_open(&w[0], path, s, &first, &err) && vp_writer_temporary(w[0]));
        snprintf(temporary, sizeof temporary, "%s", vp_writer_temporary(w[0]));
        for (int i = 1; i < WRITERS; i++)
            CHECK(!vp_writer_open(&w[i], path, s, &later, &err) && vp_writer_random(w[i]));
        for (int64_t p = s->pages - 1; p >= 0; p--)
            if (lost != 1 || p > 0)
                CHECK(!vp_writer_bands(w[p % WRITERS], p, 1, 0, s->ny, all + (size_t)p * bytes, 1, &err));
        if (lost == 2) {
            vp_writer_others(w[0], vp_writer_rows_put(w[1]) + vp_writer_rows_put(w[2]));
            vp_writer_abort(w[1]);
            CHECK(access(temporary, F_OK) && !vp_writer_close(w[2], &err) && vp_writer_close(w[0], &err));
            CHECK(strstr(err.msg, "No such file"));
            err = (struct vp_err)VP_ERR_INIT;
            continue;
        }
        for (int i = WRITERS - 1; i > 0; i--) {
            others += vp_writer_rows_put(w[i]);
            CHECK(!vp_writer_close(w[i], &err) && !access(temporary, F_OK));
        }
        vp_writer_others(w[0], others);
        if (lost == 0) {
            CHECK(!vp_writer_close(w[0], &err) && access(temporary, F_OK));
            same_files(path, want);
        } else {
            CHECK(vp_writer_close(w[0], &err) && access(temporary, F_OK) && strstr(err.msg, "expected"));
            err = (struct vp_err)VP_ERR_INIT;
        }
        CHECK(vp_writer_open(&w[1], path, s, &later, &err) && strstr(err.msg, "another rank has begun"));
        err = (struct vp_err)VP_ERR_INIT;
    }
}

/* Rows in any order and pages by many threads give the bytes of the stream. `where`: a directory. */
static void any_order(const char *where, enum vp_type t, int64_t nx, int64_t ny, int64_t pages, bool raw_)
{
    struct vp_err err = VP_ERR_INIT;
    struct vp_stack s = {nx, ny, pages, t, {0, NULL, NULL}};
    const struct vp_writer_options o = {.raw = raw_, .compress = VP_COMPRESS_NONE};
    struct vp_writer *w;
    const size_t bytes = vp_page_bytes(&s), row = bytes / (size_t)ny;
    char *all = malloc((size_t)pages * bytes), path[200], want[32];
    snprintf(path, sizeof path, "%s/rows.tif", where);
    for (int64_t p = 0; p < pages; p++)
        fill(all + (size_t)p * bytes, t, p, nx * ny);
    CHECK(!vp_meta_set(&s.meta, "voxel", "0.1 0.1 0.1") && !vp_meta_set(&s.meta, "unit", "mm"));
    const int fd = streamed(&s, &o, all, want);
    if (!raw_)
        CHECK_INT(read_all(want, NULL, true, &err), pages);
    const int64_t bands = pages * 3; /* three uneven bands a page */
    for (int threads = pages > 10 ? 5 : 1; threads <= 5; threads++) {
        CHECK(!vp_writer_open(&w, path, &s, &o, &err) && vp_writer_random(w));
        int failed = 0;
#pragma omp parallel for num_threads(threads) schedule(dynamic) reduction(+ : failed)
        for (int64_t k = 0; k < bands; k++) {
            struct vp_err e = VP_ERR_INIT;
            const int64_t b = (k * 7919 + 5) % bands, p = b / 3; /* 7919 is a prime: every band once */
            const int64_t cut[4] = {0, ny / 5, ny / 2, ny}, y0 = cut[b % 3], y1 = cut[b % 3 + 1];
            failed += vp_writer_bands(w, p, 1, y0, y1, all + (size_t)p * bytes + (size_t)y0 * row, 1, &e) != 0;
        }
        CHECK_INT(failed, 0);
        struct stat st;
        const uint64_t n = vp_writer_bytes(w);
        CHECK(!vp_writer_close(w, &err) && !stat(path, &st));
        CHECK_INT(n, st.st_size);
        same_files(path, want);
        CHECK(!vp_writer_open(&w, path, &s, &o, &err));
        const int64_t half = pages / 2;
        CHECK(!vp_writer_page(w, all, &err) && !vp_writer_pages(w, half, all + bytes, threads, &err) &&
              !vp_writer_pages(w, pages - 1 - half, all + (size_t)(1 + half) * bytes, threads, &err));
        CHECK(!vp_writer_close(w, &err));
        same_files(path, want);
    }
    by_several(path, &s, &o, all, want);
    /* a row too few, one too many, and what is not there */
    CHECK(!vp_writer_open(&w, path, &s, &o, &err));
    CHECK(!vp_writer_bands(w, 0, 1, 0, 1, all, 1, &err) && vp_writer_close(w, &err) &&
          strstr(err.msg, "got 1 rows in all"));
    err = (struct vp_err)VP_ERR_INIT;
    CHECK(!vp_writer_open(&w, path, &s, &o, &err));
    CHECK(vp_writer_bands(w, pages, 1, 0, 1, all, 1, &err) && vp_writer_bands(w, 0, 1, -1, 1, all, 1, &err) &&
          vp_writer_bands(w, 0, 1, 0, ny + 1, all, 1, &err) && !vp_writer_bands(w, 0, 1, 1, 1, all, 1, &err));
    vp_writer_abort(w);
    same_files(path, want); /* the file that was there */
    unlink(path);
    close(fd);
    free(all);
    vp_stack_free(&s);
}

static void any_orders(void)
{
    char shm[] = "/dev/shm/voxpipe-stack-XXXXXX"; /* tmpfs is written in another way */
    const bool have_shm = mkdtemp(shm) != NULL;
    for (int k = 0; k < 1 + have_shm; k++) {
        const char *where = k ? shm : dir;
        for (int t = 0; t < VP_N_TYPES; t++)
            any_order(where, (enum vp_type)t, 13, 9, 5, t % 2);
        any_order(where, VP_F32, 701, 403, 4, false);
        any_order(where, VP_U16, 701, 403, 4, true);
        if (!k)
            any_order(where, VP_U8, 1, 1, 65600, false); /* page numbers have 16 bits */
        any_order(where, VP_F32, 1024, 1024, 17, false); /* large enough to be allocated ahead */
        any_order(where, VP_U16, 64, 64, 700, false); /* many pages in a huge page */
        for (int pages = 1; pages <= 4; pages++)
            any_order(where, VP_U8, 1024, 1024, pages, true); /* half a huge page each */
        any_order(where, VP_U8, 42799, 49, 1, true); /* a byte less than one */
        any_order(where, VP_U8, 699051, 3, 1, true); /* a byte more */
    }
    if (have_shm)
        CHECK(!rmdir(shm));
    /* what must come in order */
    struct vp_err err = VP_ERR_INIT;
    struct vp_stack s = {3, 2, -1, VP_U8, {0, NULL, NULL}};
    struct vp_writer *w;
    for (int k = 0; k < 3; k++) {
        const struct vp_writer_options o = {.raw = k == 2, .compress = k == 1 ? VP_COMPRESS_DEFLATE : VP_COMPRESS_NONE};
        s.pages = k == 1 ? 2 : -1;
        err = (struct vp_err)VP_ERR_INIT;
        CHECK(!vp_writer_open(&w, path_of("order.tif"), &s, &o, &err) && !vp_writer_random(w));
        CHECK(vp_writer_bands(w, 0, 1, 0, 1, "abc", 1, &err) && strstr(err.msg, "must come in order"));
        vp_writer_abort(w);
    }
}

static void pack(const char *from, const char *to)
{
    const struct vp_writer_options deflate = {.compress = VP_COMPRESS_DEFLATE};
    struct vp_err err = VP_ERR_INIT;
    struct vp_reader *r;
    struct vp_writer *w;
    CHECK(!vp_reader_open(&r, &from, 1, &plain, &err) && !vp_writer_open(&w, to, vp_reader_stack(r), &deflate, &err));
    void *page = malloc(vp_page_bytes(vp_reader_stack(r)));
    while (vp_reader_next(r, page, &err) == 1)
        CHECK(!vp_writer_page(w, page, &err));
    CHECK(!vp_reader_close(r, &err) && !vp_writer_close(w, &err));
    free(page);
}

/* Blocks of views, whole and cut, against views one by one, out of a compressed file: these come another way. */
static void blocks_of_views(void)
{
    enum { NV = 23, VIEWS = 50, WIDE = 1500 };
    struct vp_err err = VP_ERR_INIT;
    for (int kind = 0; kind < 8; kind++) {
        const bool sino = kind & 1, pipe_ = kind & 2, floats = kind & 4;
        const size_t nu = pipe_ ? 10 : WIDE; /* a pipe of the test holds 64 KiB; a wide row is read in pieces */
        const char *path = path_of("blocks.tif"), *packed = path_of("packed.tif");
        CHECK(!write_stack(path, floats ? VP_F32 : VP_U8, (int64_t)nu, sino ? VIEWS : NV, sino ? NV : VIEWS,
                           false, &stream));
        if (floats) { /* a NaN in view 7, row 3 */
            const size_t page = nu * (sino ? VIEWS : NV) * 4, p = sino ? 3 : 7, y = sino ? 7 : 3;
            struct vp_reader *r;
            struct vp_writer *w;
            float *data = malloc(page);
            CHECK(!vp_reader_open(&r, &path, 1, &plain, &err) &&
                  !vp_writer_open(&w, path, vp_reader_stack(r), &stream, &err));
            for (size_t k = 0; vp_reader_next_f32(r, data, &err) == 1; k++) {
                if (k == p)
                    data[y * nu + 5] = NAN;
                CHECK(!vp_writer_page(w, data, &err));
            }
            CHECK(!vp_reader_close(r, &err) && !vp_writer_close(w, &err));
            free(data);
        }
        pack(path, packed);
        size_t n;
        unsigned char *bytes = slurp(path, &n);
        float *one = malloc(nu * NV * 4), *many = malloc(nu * NV * VIEWS * 4);
        static const int ask[][4] = {{0, 7, 0, NV},   {7, 1, 3, 4},  {8, 30, 2, 22},
                                     {40, 11, 0, NV}, {0, 50, 4, 5}, {0, 50, 5, 5}};
        for (int threads = 1; threads <= 5; threads++) {
            for (size_t k = 0; k < sizeof ask / sizeof *ask; k++) {
                const int first = ask[k][0], v0 = ask[k][2], v1 = ask[k][3];
                const int there = first + ask[k][1] < VIEWS ? ask[k][1] : VIEWS - first;
                const size_t size = nu * (size_t)(v1 - v0);
                char name[32];
                const char *names[] = {pipe_ ? name : path};
                struct vp_reader *r;
                struct vp_views *v = NULL;
                int64_t bad = 0, want_bad = 0;
                const int fd = pipe_ ? as_input(bytes, n, true, name) : -1;
                CHECK(!vp_reader_open(&r, names, 1, &plain, &err) && !vp_views_open(&v, r, sino, 0, &err));
                CHECK_INT(vp_views_read(v, first, ask[k][1], v0, v1, many, &bad, threads, &err), there);
                vp_views_close(v);
                CHECK(vp_reader_close(r, &(struct vp_err)VP_ERR_INIT) <= 0);
                if (fd >= 0)
                    close(fd);
                names[0] = packed;
                CHECK(!vp_reader_open(&r, names, 1, &plain, &err) && !vp_views_open(&v, r, sino, 0, &err));
                CHECK(!vp_reader_concurrent(r));
                int wrong = 0;
                for (int i = 0; i < there; i++) {
                    CHECK_INT(vp_views_read(v, first + i, 1, v0, v1, one, &want_bad, 1, &err), 1);
                    wrong += memcmp(one, many + (size_t)i * size, size * 4) != 0;
                }
                CHECK_INT(wrong, 0);
                CHECK_INT(bad, want_bad);
                CHECK(vp_views_read(v, 0, 1, 0, NV + 1, many, NULL, threads, &err) < 0);
                err = (struct vp_err)VP_ERR_INIT;
                CHECK_INT(vp_views_read(v, VIEWS, 3, 0, NV, many, NULL, threads, &err), 0);
                vp_views_close(v);
                CHECK(!vp_reader_close(r, &err));
            }
        }
        free(one);
        free(many);
        free(bytes);
    }
}

/* Sizes beyond 4 GiB, in files with holes. */
static void large(void)
{
    struct vp_err err = VP_ERR_INIT;
    char *path = path_of("large.tif");
    const int64_t nx = 70000, ny = 70000; /* 4.9e9 samples */
    CHECK(!write_stack(path, VP_U8, 2049, 2048, 2, true, &stream)); /* Big: not known, and not short */
    size_t n;
    unsigned char *bytes = slurp(path, &n);
    /* the same directory with other sizes: entries 256, 257, 278 and 279 */
    const uint64_t entries = bytes[16];
    uint64_t data = 0;
    for (uint64_t i = 0; i < entries; i++) {
        unsigned char *e = bytes + 24 + 20 * i, *v = e + 12;
        const int tag = e[0] | e[1] << 8;
        if (tag == 273)
            for (int k = 0; k < 8; k++)
                data |= (uint64_t)v[k] << 8 * k;
        if (tag == 256)
            put(&v, false, (uint64_t)nx, 8);
        else if (tag == 257 || tag == 278)
            put(&v, false, (uint64_t)ny, 8);
        else if (tag == 279)
            put(&v, false, (uint64_t)(nx * ny), 8);
    }
    memset(bytes + 24 + 20 * entries, 0, 8); /* no other page */
    spit(path, bytes, (size_t)data);
    free(bytes);
    const int fd = open(path, O_RDWR);
    if (ftruncate(fd, (off_t)data + nx * ny) ||
        pwrite(fd, "xyz", 3, (off_t)data + nx * (ny - 1) + 100) != 3) {
        printf("no room for a file with a hole of 4.9 GB: not tested\n");
        close(fd);
        return;
    }
    struct vp_reader *r = NULL;
    const char *paths[] = {path};
    float *row = malloc((size_t)nx * sizeof *row);
    CHECK(!vp_reader_open(&r, paths, 1, &plain, &err) &&
          vp_page_bytes(vp_reader_stack(r)) == (size_t)(nx * ny));
    CHECK(!read_rows(r, 0, ny - 1, ny, true, row, &err) && row[99] == 0 && row[100] == 'x' &&
          row[102] == 'z');
    CHECK(!vp_reader_close(r, &err));
    if (ftruncate(fd, (off_t)data + nx * ny - 1))
        CHECK(false);
    CHECK(vp_reader_open(&r, paths, 1, &plain, &err) &&
          strstr(err.msg, "page 0: truncated: expected 4900000000 bytes, got 4899999999"));
    close(fd);
    unlink(path);
    free(row);
}

/* NaN and infinities are counted; a converted page equals the page converted. */
static void bad_samples(void)
{
    struct vp_err err = VP_ERR_INIT;
    for (int t = VP_F32; t <= VP_F64; t++) {
        struct vp_stack s = {3, 2, 1, (enum vp_type)t, {0, NULL, NULL}};
        const double v[6] = {1, NAN, INFINITY, -INFINITY, 5, 6};
        double page[6];
        float got[6];
        struct vp_writer *w;
        struct vp_reader *r;
        const char *paths[] = {path_of("bad.tif")};
        int64_t bad = 10;
        vp_convert(page, s.type, v, VP_F64, 6, 1, 0);
        CHECK(!vp_writer_open(&w, paths[0], &s, &stream, &err) && !vp_writer_page(w, page, &err) &&
              !vp_writer_close(w, &err));
        CHECK(!vp_reader_open(&r, paths, 1, &plain, &err)
              && read_pages(r, 1, true, &(void *){got}, &bad, 1, &err) == 1);
        CHECK_INT(bad, 13);
        CHECK(got[0] == 1 && isnan(got[1]) && isinf(got[3]) && got[5] == 6);
        CHECK(!vp_reader_close(r, &err));
    }
}

/* A stream that does not say how many pages it has, as longer ones of unknown length. */
static void forget_total(unsigned char *bytes)
{
    for (int i = 0; i < bytes[16]; i++) {
        unsigned char *e = bytes + 18 + 12 * i;
        if ((e[0] | e[1] << 8) == 297)
            e[10] = e[11] = 0;
    }
}

static void view_layouts(void)
{
    /* nu 4, nv 3, 5 views: value 100 view + 10 row + u, as views and as sinograms */
    struct vp_err err = VP_ERR_INIT;
    enum { NU = 4, NV = 3, VIEWS = 5 };
    for (int sino = 0; sino < 2; sino++) {
        struct vp_stack s = {NU, sino ? VIEWS : NV, sino ? NV : VIEWS, VP_F32, {0, NULL, NULL}};
        for (int unknown = 0; unknown < 2; unknown++) {
            struct vp_writer *w;
            CHECK(!vp_writer_open(&w, path_of("views.tif"), &s, &stream, &err));
            for (int p = 0; p < s.pages; p++) {
                float page[20];
                for (int y = 0; y < s.ny; y++)
                    for (int u = 0; u < NU; u++)
                        page[y * NU + u] = (float)(sino ? 100 * y + 10 * p + u : 100 * p + 10 * y + u);
                CHECK(!vp_writer_page(w, page, &err));
            }
            CHECK(!vp_writer_close(w, &err));
            size_t n;
            unsigned char *bytes = slurp(path_of("views.tif"), &n);
            if (unknown)
                forget_total(bytes);
            for (int pipe_ = 0; pipe_ < 2; pipe_++) {
                char name[32];
                const char *names[] = {name};
                const int fd = as_input(bytes, n, pipe_, name);
                struct vp_reader *r;
                struct vp_views *v;
                float buf[NU * NV];
                CHECK(!vp_reader_open(&r, names, 1, &plain, &err) &&
                      !vp_views_open(&v, r, sino, 100 * sizeof(float), &err));
                CHECK_INT(vp_views_nv(v), NV);
                CHECK(vp_views_seekable(v) == (!pipe_ || sino));
                static const int ask[][3] = {{0, 0, 3}, {1, 1, 2}, {3, 0, 2},
                                             {4, 0, 3}, {0, 0, 3}, {2, 2, 3}};
                for (int k = 0; k < (vp_views_seekable(v) ? 6 : 4); k++) {
                    CHECK_INT(vp_views_read(v, ask[k][0], 1, ask[k][1], ask[k][2], buf, NULL, 1, &err), 1);
                    for (int y = ask[k][1]; y < ask[k][2]; y++)
                        for (int u = 0; u < NU; u++)
                            CHECK(buf[(y - ask[k][1]) * NU + u] == (float)(100 * ask[k][0] + 10 * y + u));
                }
                CHECK_INT(vp_views_read(v, VIEWS, 1, 0, NV, buf, NULL, 1, &err), 0);
                CHECK(!vp_views_finish(v, &err));
                vp_views_close(v);
                CHECK(!vp_reader_close(r, &err));
                if (pipe_ && sino) { /* more than memory holds */
                    const int again = as_input(bytes, n, true, name);
                    CHECK(!vp_reader_open(&r, names, 1, &plain, &err));
                    CHECK(vp_views_open(&v, r, true, 59 * sizeof(float), &err) && err.code == VP_ERESOURCE);
                    err = (struct vp_err)VP_ERR_INIT;
                    vp_reader_close(r, &(struct vp_err)VP_ERR_INIT);
                    close(again);
                }
                close(fd);
            }
            free(bytes);
        }
    }
}

/* Sinograms of a pipe take what their samples do, as they are stored: no more, and no less. */
static void held_sinograms(void)
{
    static const struct { const char *spec; size_t bytes; } kinds[] = {{"4x5x3:u8", 60}, {"4x5x3:f64", 480}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        for (size_t less = 0; less < 2; less++) {
            struct vp_err err = VP_ERR_INIT;
            const unsigned char bytes[480] = {0};
            char name[32], got[32];
            const char *names[] = {name};
            const int fd = as_input(bytes, kinds[i].bytes, true, name);
            struct vp_reader *r;
            struct vp_views *v = NULL;
            float view[12];
            CHECK(!vp_reader_open(&r, names, 1, &(struct vp_reader_options){.raw = kinds[i].spec}, &err));
            CHECK_INT(vp_views_open(&v, r, true, kinds[i].bytes - less, &err), less ? -1 : 0);
            if (less) {
                snprintf(got, sizeof got, "got %zu B", kinds[i].bytes);
                CHECK(err.code == VP_ERESOURCE && strstr(err.msg, got));
                err = (struct vp_err)VP_ERR_INIT;
            } else {
                CHECK_INT(vp_views_bytes(v), kinds[i].bytes);
                CHECK_INT(vp_views_read(v, 4, 1, 0, 3, view, NULL, 1, &err), 1);
                CHECK_INT(vp_views_bytes(v), kinds[i].bytes);
                vp_views_close(v);
            }
            vp_reader_close(r, &(struct vp_err)VP_ERR_INIT);
            close(fd);
        }
}

int main(void)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (!mkdtemp(dir))
        return 2;
    TIFFSetWarningHandler(NULL);
    types();
    convert();
    unscale();
    meta();
    round_trips();
    cuts();
    foreign_files();
    other_streams();
    imagej();
    fractions();
    held_back();
    descriptions();
    others();
    raw();
    many_files();
    standard_input();
    writer();
    together();
    many_at_once();
    any_orders();
    blocks_of_views();
    large();
    bad_samples();
    view_layouts();
    held_sinograms();
    CHECK(!write_stack(path_of("fuzz.tif"), VP_U16, 5, 3, 3, false, &stream));
    fuzz(path_of("fuzz.tif"), 2000);
    CHECK(!write_stack(path_of("fuzz.tif"), VP_F32, 5, 3, 3, true, &stream));
    fuzz(path_of("fuzz.tif"), 2000);
    char command[300];
    snprintf(command, sizeof command, "rm -rf '%s'", dir);
    if (system(command))
        return 2;
    return test_done();
}
