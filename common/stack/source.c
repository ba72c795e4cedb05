/* SPDX-License-Identifier: BSD-3-Clause */
/* The formats of inputs, and what they share. */
#include "stack/source.h"
#include "base/err.h"
#include "base/size.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ENTRY(format) &format,
static const struct vp_format *const formats[] = {VP_FORMATS(ENTRY)};

const struct vp_format *vp_format_of(const char *path)
{
    const char *const slash = path ? strrchr(path, '/') : NULL, *const base = slash ? slash + 1 : path,
               *const dot = base ? strrchr(base, '.') : NULL;
    char word[12];
    if (!dot || dot == base || strlen(dot) > 8 || strchr(dot, ' '))
        return NULL;
    snprintf(word, sizeof word, " %s ", dot + 1);
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (formats[i]->endings && strcasestr(formats[i]->endings, word))
            return formats[i];
    return NULL;
}

/* Fails, with a hint where the format is a well-known one. */
static int refuse(struct vp_input *in, struct vp_err *err)
{
    static const struct {
        const char *magic;
        size_t n, at; /* bytes; the first one's place in the file */
        const char *what;
    } known[] = {
        {"\x89PNG", 4, 0, "it is a PNG; ImageJ saves it as TIFF"},
        {"\x1f\x8b", 2, 0, "it is compressed; use zcat"},
        {"\x28\xb5\x2f\xfd", 4, 0, "it is compressed; use zstdcat"},
        {"\xfd\x37zXZ", 5, 0, "it is compressed; use xzcat"},
        {"BZh", 3, 0, "it is compressed; use bzcat"},
        {"PK\3\4", 4, 0, "it is a zip archive; use unzip"},
        {"\xff\xd8\xff", 3, 0, "it is a JPEG; ImageJ saves it as TIFF"},
        {"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", 8, 0, "it is an OLE2 file, as Zeiss' txrm and xrm; export it as TIFF there"},
        {"\x93NUMPY", 6, 0, "it is a NumPy file; --raw-in WxHxD:f32,skip=128 reads it, with its own size and type"},
        {"NRRD", 4, 0, "it is a NRRD file; --raw-in WxHxD:TYPE,skip=N reads uncompressed samples after its header"},
        {"ObjectType", 10, 0, "it is a MetaImage header; --raw-in WxHxD:TYPE reads the samples in its ElementDataFile"},
        {"NDims", 5, 0, "it is a MetaImage header; --raw-in WxHxD:TYPE reads the samples in its ElementDataFile"},
        {"SIMPLE  =", 9, 0, "it is a FITS file; --raw-in WxHxD:f32be,skip=2880 reads it, with its own size, type and header"},
        {"\x5c\x01\0\0", 4, 0, "it is a NIfTI file; --raw-in WxHxD:TYPE,skip=352 reads it, with its own size and type"},
        {"DICM", 4, 128, "it is a DICOM file; ImageJ saves it as TIFF"},
        {"{", 1, 0, "if it is an EDF file, --raw-in WxH:TYPE,skip=1024 reads it, with its own size, type and header"},
    };
    unsigned char head[VP_HEAD];
    char shown[64] = "", *q = shown;
    const int64_t n = vp_source_starts(in, head, sizeof head, err);
    if (n < 0)
        return -1;
    for (int64_t i = 0; i < n && i < 8; i++)
        q += sprintf(q, isprint(head[i]) && head[i] != '\'' && head[i] != '\\' ? "%c" : "\\x%02x", head[i]);
    vp_fail(err, VP_ERUN, "%s: not a TIFF: starts with '%s'", in->name, shown);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if ((size_t)n >= known[i].at + known[i].n && !memcmp(head + known[i].at, known[i].magic, known[i].n))
            return vp_hint(err, "%s", known[i].what);
    return vp_hint(err, "for headerless samples give their layout, as in --raw-in 2048x2048:u16le");
}

/* Makes a source of a format, which takes the input, also on failure; open() is still to be called. */
static struct vp_source *new_source(const struct vp_format *format, struct vp_input *in, struct vp_err *err)
{
    struct vp_source *s = vp_alloc(1, sizeof *s, in->name, err);
    if (!s) {
        vp_input_close(in);
        return NULL;
    }
    *s = (struct vp_source){.format = format, .in = *in, .name = in->name, .seekable = in->anywhere, .by_rows = true,
                            .channels = 1};
    return s;
}

/* Finds the format of an input; NULL if it is of none. */
static int recognise(struct vp_input *in, const struct vp_reader_options *o, const struct vp_format **format,
                     struct vp_err *err)
{
    int rc = 0;
    for (size_t i = 0; !rc && i < sizeof formats / sizeof *formats; i++) {
        *format = formats[i];
        rc = (*format)->sniff(in, o, err);
    }
    *format = rc == 1 ? *format : NULL;
    return rc < 0 ? -1 : 0;
}

int vp_source_holds_fields(struct vp_input *in, const struct vp_reader_options *o, struct vp_err *err)
{
    const struct vp_format *format;
    return recognise(in, o, &format, err) ? -1 : format && format->parts;
}

int vp_source_open(struct vp_source **out, struct vp_input *in, const struct vp_reader_options *o, struct vp_err *err)
{
    const struct vp_format *format;
    if (recognise(in, o, &format, err) || (!format && refuse(in, err))) {
        vp_input_close(in);
        return -1;
    }
    if (o->part && !format->parts) {
        vp_fail(err, VP_ERUN, "%s: only files of several data sets have parts (HDF5): expected its name alone", in->name);
        vp_input_close(in);
        return -1;
    }
    struct vp_source *s = new_source(format, in, err);
    if (!s)
        return -1;
    if (format->open(s, o, err)) {
        vp_source_close(s);
        return -1;
    }
    *out = s;
    return 0;
}

int vp_source_samples(struct vp_source **out, struct vp_input *in, const struct vp_stack *like, int64_t pages,
                      struct vp_err *err)
{
    struct vp_source *s = new_source(&vp_raw_samples, in, err);
    if (!s)
        return -1;
    s->stack = (struct vp_stack){.nx = like->nx, .ny = like->ny, .pages = pages, .type = like->type};
    *out = s;
    return 0;
}

int vp_source_begin(struct vp_source *s, int64_t page, struct vp_err *err)
{
    return s->seekable ? page < s->stack.pages : s->format->begin(s, page, err);
}

int vp_source_rows(struct vp_source *s, int64_t page, int64_t y0, int64_t y1, void *buf, struct vp_err *err)
{
    return s->format->rows(s, page, y0, y1, buf, err);
}

void vp_source_rest(struct vp_source *s)
{
    if (s->format->rest)
        s->format->rest(s);
}

void vp_source_close(struct vp_source *s)
{
    if (!s)
        return;
    if (s->format->close)
        s->format->close(s);
    free(s->fields.at);
    vp_input_close(&s->in);
    vp_stack_free(&s->stack);
    free(s);
}

int64_t vp_source_starts(struct vp_input *in, unsigned char head[VP_HEAD], size_t n, struct vp_err *err)
{
    const unsigned char *at;
    if (in->anywhere)
        return vp_input_at(in, 0, head, n, err);
    const int64_t got = vp_input_peek(in, &at, n, err);
    if (got > 0)
        memcpy(head, at, (size_t)got);
    return got;
}

int vp_source_read(struct vp_source *s, int64_t page, uint64_t at, void *buf, size_t n, struct vp_err *err)
{
    if (!s->in.anywhere && at < s->in.position)
        return vp_fail(err, VP_ERUN, "%s: page %lld cannot be read again from a pipe", s->name, (long long)page);
    const int64_t got = vp_input_at(&s->in, at, buf, n, err);
    if (got < 0)
        return -1;
    if ((size_t)got < n && !s->in.anywhere)
        return 1;
    if ((size_t)got < n) /* it was whole at open */
        return vp_page_fail(s->name, page, err, "truncated while it is read: expected %zu bytes at %llu, got %lld", n,
                            (unsigned long long)at, (long long)got);
    if (s->in.anywhere && s->in.read)
        *s->in.read += n;
    return 0;
}

int vp_source_cut(const struct vp_source *s, int64_t page, uint64_t got, struct vp_err *err)
{
    return vp_page_fail(s->name, page, err, "truncated: expected %zu bytes, got %llu", vp_page_bytes(&s->stack),
                        (unsigned long long)got);
}

void vp_source_swap(void *buf, size_t size, size_t n)
{
#define SWAP(BITS)                                                                                                     \
    for (uint##BITS##_t *p = buf, *end = p + n; p < end; p++)                                                          \
        *p = __builtin_bswap##BITS(*p)
    if (size == 2)
        SWAP(16);
    else if (size == 4)
        SWAP(32);
    else if (size == 8)
        SWAP(64);
#undef SWAP
}

/* ---- pages in pieces, for several threads ---- */

int64_t vp_pages_part(const int64_t *first, int64_t n, int64_t at)
{
    int64_t lo = 0, hi = n; /* first[lo] <= at < first[hi] */
    while (hi - lo > 1) {
        const int64_t mid = lo + (hi - lo) / 2;
        if (first[mid] <= at)
            lo = mid;
        else
            hi = mid;
    }
    return lo;
}

/* A piece is large enough to forget the system call and small enough to share out evenly. */
enum { LARGE_PIECE = 2 << 20, SMALL_PIECE = 256 << 10, PIECES_A_THREAD = 4 };

int vp_share_rows(int64_t pages, int64_t height, size_t row, int threads,
                  int (*work)(void *ctx, int64_t page, int64_t y0, int64_t y1, struct vp_err *err), void *ctx,
                  struct vp_err *err)
{
    if (pages <= 0 || height <= 0)
        return 0;
    const double all = (double)row * (double)height * (double)pages; /* only to find a good size */
    const double even = threads > 1 ? all / PIECES_A_THREAD / threads : all;
    const size_t piece = even > LARGE_PIECE ? LARGE_PIECE : even < SMALL_PIECE ? SMALL_PIECE : (size_t)even;
    int64_t rows = (int64_t)(piece / row);
    rows = rows < 1 ? 1 : rows < height ? rows : height;
    const int64_t per_page = (height - 1) / rows + 1, pieces = pages * per_page;
    /* small pages are taken a few at a time */
    const int64_t some = per_page > 1 ? 1 : (int64_t)(piece / (row * (size_t)height)), chunk = some > 1 ? some : 1;
    const int64_t shares = (pieces - 1) / chunk + 1;
    const int n = threads < 1 ? 1 : shares < threads ? (int)shares : threads;
    _Atomic int64_t failed = INT64_MAX; /* the first piece, in order, that did */
#pragma omp parallel for num_threads(n) schedule(dynamic, chunk) if (n > 1)
    for (int64_t i = 0; i < pieces; i++) {
        struct vp_err why = VP_ERR_INIT;
        const int64_t page = i / per_page, y0 = i % per_page * rows, y1 = height - y0 < rows ? height : y0 + rows;
        if (i > failed || !work(ctx, page, y0, y1, &why))
            continue;
#pragma omp critical(vp_share_failed)
        if (i < failed) {
            failed = i;
            *err = why;
        }
    }
    return failed == INT64_MAX ? 0 : -1;
}
