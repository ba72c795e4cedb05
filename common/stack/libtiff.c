/* SPDX-License-Identifier: BSD-3-Clause */
/* libtiff where it is needed: pages with a decoder, compressed output. It reads and writes through our own
 * functions, so that errno is known and nothing is mapped into memory (a file cut while it is read must be an
 * error, not SIGBUS). */
#include "stack/libtiff.h"
#include "base/err.h"
#include "base/size.h"
#include "stack/source.h"
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <tiffio.h>
#include <unistd.h>

enum { STRIP_BYTES = 1 << 20, LARGEST_TILE = 64 << 20 };

/* What libtiff said last, in the thread that called it. Its handlers are global; a thread-local text keeps
 * concurrent readers apart. */
static _Thread_local char said[200];

static void keep_error(const char *module, const char *fmt, va_list ap)
{
    (void)module;
    if (!said[0])
        vsnprintf(said, sizeof said, fmt, ap);
}

static void set_handlers(void)
{
    TIFFSetErrorHandler(keep_error);
    TIFFSetWarningHandler(NULL);
    TIFFSetErrorHandlerExt(NULL);
    TIFFSetWarningHandlerExt(NULL);
}

static void init(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, set_handlers);
    said[0] = '\0';
}

/* A position of our own in a descriptor that others read too. */
struct io {
    int fd, error; /* errno of the first failure */
    uint64_t position, bytes;
};

static tmsize_t io_read(thandle_t h, void *buf, tmsize_t n)
{
    struct io *io = h;
    const int64_t got = n > 0 ? vp_pread_all(io->fd, buf, (size_t)n, io->position) : 0;
    if (got < 0) {
        io->error = io->error ? io->error : errno;
        return -1;
    }
    io->position += (uint64_t)got;
    io->bytes += (uint64_t)got;
    return (tmsize_t)got;
}

static tmsize_t io_write(thandle_t h, void *buf, tmsize_t n)
{
    struct io *io = h;
    tmsize_t done = 0;
    while (done < n) {
        const ssize_t k = pwrite(io->fd, (const char *)buf + done, (size_t)(n - done), (off_t)io->position);
        if (k < 0 && errno == EINTR)
            continue;
        if (k < 0) {
            io->error = io->error ? io->error : errno;
            return -1;
        }
        done += k;
        io->position += (uint64_t)k;
    }
    return done;
}

static toff_t io_size(thandle_t h)
{
    struct stat st;
    return fstat(((struct io *)h)->fd, &st) ? 0 : (toff_t)st.st_size;
}

static toff_t io_seek(thandle_t h, toff_t offset, int whence)
{
    struct io *io = h;
    io->position = offset + (whence == SEEK_CUR ? io->position : whence == SEEK_END ? io_size(h) : 0);
    return io->position;
}

static int io_close(thandle_t h)
{
    (void)h;
    return 0;
}

static int io_map(thandle_t h, void **base, toff_t *size)
{
    (void)h, (void)base, (void)size;
    return 0;
}

static void io_unmap(thandle_t h, void *base, toff_t size)
{
    (void)h, (void)base, (void)size;
}

static TIFF *open_tiff(struct io *io, const char *name, const char *mode)
{
    init();
    return TIFFClientOpen(name, mode, io, io_read, io_write, io_seek, io_close, io_size, io_map, io_unmap);
}

/* An error of libtiff, with the system's if there was one. */
static int failed(const struct io *io, const char *name, int64_t page, struct vp_err *err)
{
    if (io->error) {
        errno = io->error;
        return vp_fail_errno(err, "%s", name);
    }
    return vp_fail(err, VP_ERUN, "%s: page %lld: cannot be decoded%s%s", name, (long long)page,
                   said[0] ? ": " : "", said);
}

struct vp_libtiff_reader {
    TIFF *tiff;
    struct io io;
    char *name;
    uint64_t ifd; /* the current directory; 0: none */
    unsigned char *cache; /* one decoded strip or row of tiles */
    size_t cache_bytes;
    int64_t cached; /* which; -1: none */
};

int vp_libtiff_reader_open(struct vp_libtiff_reader **out, int fd, const char *name, struct vp_err *err)
{
    struct vp_libtiff_reader *r = calloc(1, sizeof *r);
    if (!r || !(r->name = strdup(name))) {
        free(r);
        return vp_fail(err, VP_ERESOURCE, "%s: not enough memory", name);
    }
    r->io.fd = fd;
    r->cached = -1;
    r->tiff = open_tiff(&r->io, name, "rmh"); /* m: no mapping; h: no directory yet */
    if (!r->tiff) {
        failed(&r->io, name, 0, err);
        vp_libtiff_reader_close(r);
        return -1;
    }
    *out = r;
    return 0;
}

uint64_t vp_libtiff_reader_bytes(const struct vp_libtiff_reader *r)
{
    return r->io.bytes;
}

void vp_libtiff_reader_close(struct vp_libtiff_reader *r)
{
    if (!r)
        return;
    if (r->tiff)
        TIFFClose(r->tiff);
    free(r->cache);
    free(r->name);
    free(r);
}

static int set_directory(struct vp_libtiff_reader *r, uint64_t ifd, const struct vp_stack *s, int64_t page,
                         struct vp_err *err)
{
    if (r->ifd == ifd)
        return 0;
    r->ifd = 0;
    r->cached = -1;
    if (!TIFFSetSubDirectory(r->tiff, ifd))
        return failed(&r->io, r->name, page, err);
    uint32_t w = 0, h = 0;
    uint16_t bits = 0, samples = 0, compression = 0;
    TIFFGetField(r->tiff, TIFFTAG_IMAGEWIDTH, &w);
    TIFFGetField(r->tiff, TIFFTAG_IMAGELENGTH, &h);
    TIFFGetFieldDefaulted(r->tiff, TIFFTAG_BITSPERSAMPLE, &bits);
    TIFFGetFieldDefaulted(r->tiff, TIFFTAG_SAMPLESPERPIXEL, &samples);
    TIFFGetFieldDefaulted(r->tiff, TIFFTAG_COMPRESSION, &compression);
    /* libtiff repairs what it thinks is wrong: what it will decode must be what was checked. */
    if (w != s->nx || h != s->ny || bits != 8 * vp_type_size(s->type) || samples != 1)
        return vp_fail(err, VP_ERUN, "%s: page %lld: its directory contradicts itself", r->name,
                       (long long)page);
    if (!TIFFIsCODECConfigured(compression))
        return vp_fail(err, VP_ERUN, "%s: page %lld: compression %u is unknown to this libtiff", r->name,
                       (long long)page, compression);
    r->ifd = ifd;
    return 0;
}

static int need_cache(struct vp_libtiff_reader *r, size_t n, struct vp_err *err)
{
    if (r->cache_bytes >= n)
        return 0;
    free(r->cache);
    r->cache_bytes = 0;
    r->cache = vp_alloc_raw(1, n, "a decoded strip", err);
    r->cache_bytes = r->cache ? n : 0;
    return r->cache ? 0 : -1;
}

static int strip_rows(struct vp_libtiff_reader *r, const struct vp_stack *s, int64_t page, int64_t y0,
                      int64_t y1, char *buf, struct vp_err *err)
{
    const size_t row = (size_t)s->nx * vp_type_size(s->type);
    uint32_t per = 0;
    TIFFGetFieldDefaulted(r->tiff, TIFFTAG_ROWSPERSTRIP, &per);
    const int64_t rows = per && per < s->ny ? per : s->ny;
    for (int64_t y = y0; y < y1;) {
        const int64_t strip = y / rows, first = strip * rows,
                      end = first + rows < s->ny ? first + rows : s->ny;
        const int64_t stop = end < y1 ? end : y1;
        const size_t whole = (size_t)(end - first) * row;
        if (y == first && stop == end) { /* decode in place */
            if (TIFFReadEncodedStrip(r->tiff, (uint32_t)strip, buf, (tmsize_t)whole) != (tmsize_t)whole)
                return failed(&r->io, r->name, page, err);
        } else {
            if (r->cached != strip) {
                r->cached = -1;
                if (need_cache(r, whole, err))
                    return -1;
                if (TIFFReadEncodedStrip(r->tiff, (uint32_t)strip, r->cache, (tmsize_t)whole) !=
                    (tmsize_t)whole)
                    return failed(&r->io, r->name, page, err);
                r->cached = strip;
            }
            memcpy(buf, r->cache + (size_t)(y - first) * row, (size_t)(stop - y) * row);
        }
        buf += (size_t)(stop - y) * row;
        y = stop;
    }
    return 0;
}

static int tile_rows(struct vp_libtiff_reader *r, const struct vp_stack *s, int64_t page, int64_t y0,
                     int64_t y1, char *buf, struct vp_err *err)
{
    const size_t size = vp_type_size(s->type), row = (size_t)s->nx * size;
    uint32_t tw = 0, th = 0;
    TIFFGetField(r->tiff, TIFFTAG_TILEWIDTH, &tw);
    TIFFGetField(r->tiff, TIFFTAG_TILELENGTH, &th);
    const tmsize_t tile = TIFFTileSize(r->tiff);
    if (!tw || !th || tile <= 0 || tile > LARGEST_TILE || (uint64_t)tile != (uint64_t)tw * th * size)
        return vp_fail(err, VP_ERUN, "%s: page %lld: tiles of %ux%u: expected at most %d MiB", r->name,
                       (long long)page, tw, th, LARGEST_TILE >> 20);
    /* A row of tiles is decoded once, however few of its rows are asked for at a time. */
    for (int64_t y = y0; y < y1;) {
        const int64_t band = y / th, first = band * th;
        const int64_t end = first + th < s->ny ? first + th : s->ny, stop = end < y1 ? end : y1;
        if (r->cached != band) {
            r->cached = -1;
            if (need_cache(r, (size_t)tile + (size_t)(end - first) * row, err))
                return -1;
            unsigned char *lines = r->cache + tile;
            for (int64_t x = 0; x < s->nx; x += tw) {
                const size_t n = (size_t)(s->nx - x < tw ? s->nx - x : tw) * size;
                if (TIFFReadTile(r->tiff, r->cache, (uint32_t)x, (uint32_t)first, 0, 0) < 0)
                    return failed(&r->io, r->name, page, err);
                for (int64_t k = 0; k < end - first; k++)
                    memcpy(lines + (size_t)k * row + (size_t)x * size, r->cache + (size_t)k * tw * size, n);
            }
            r->cached = band;
        }
        memcpy(buf, r->cache + tile + (size_t)(y - first) * row, (size_t)(stop - y) * row);
        buf += (size_t)(stop - y) * row;
        y = stop;
    }
    return 0;
}

size_t vp_libtiff_reader_cache(struct vp_libtiff_reader *r, uint64_t ifd, const struct vp_stack *s, bool whole)
{
    struct vp_err ignored = VP_ERR_INIT;
    init();
    if (set_directory(r, ifd, s, 0, &ignored)) /* whoever reads will be told */
        return 0;
    uint32_t rows = 0;
    const bool tiled = TIFFIsTiled(r->tiff);
    if (tiled)
        TIFFGetField(r->tiff, TIFFTAG_TILELENGTH, &rows);
    else
        TIFFGetFieldDefaulted(r->tiff, TIFFTAG_ROWSPERSTRIP, &rows);
    rows = rows && rows < s->ny ? rows : (uint32_t)s->ny;
    const size_t band = rows * (size_t)s->nx * vp_type_size(s->type);
    return tiled ? band + (size_t)TIFFTileSize(r->tiff) : whole ? 0 : band;
}

int vp_libtiff_reader_rows(struct vp_libtiff_reader *r, uint64_t ifd, const struct vp_stack *s, int64_t page,
                           int64_t y0, int64_t y1, void *buf, struct vp_err *err)
{
    init();
    r->io.error = 0;
    if (set_directory(r, ifd, s, page, err))
        return -1;
    return TIFFIsTiled(r->tiff) ? tile_rows(r, s, page, y0, y1, buf, err)
                                : strip_rows(r, s, page, y0, y1, buf, err);
}

struct vp_libtiff_writer {
    TIFF *tiff;
    struct io io;
    char *name, *text;
    struct vp_stack stack;
    int compression;
    int64_t page;
    char *scratch; /* libtiff's predictors work in place */
    uint32_t rows;
};

/* Rows of a strip. */
static uint32_t strip_of(const struct vp_stack *stack)
{
    const size_t row = (size_t)stack->nx * vp_type_size(stack->type);
    const uint32_t rows = row >= STRIP_BYTES ? 1 : (uint32_t)(STRIP_BYTES / row);
    return rows < stack->ny ? rows : (uint32_t)stack->ny;
}

size_t vp_libtiff_writer_holds(const struct vp_stack *stack, enum vp_compress compress)
{
    /* ours, the predictor's, and what libtiff has compressed; then the compressor's own tables */
    return 3 * strip_of(stack) * (size_t)stack->nx * vp_type_size(stack->type)
           + (compress == VP_COMPRESS_ZSTD ? 16 << 20 : 1 << 20);
}

int vp_libtiff_writer_open(struct vp_libtiff_writer **out, int fd, const char *name,
                           const struct vp_stack *stack, const char *text, enum vp_compress compress,
                           bool big, struct vp_err *err)
{
    const int compression = compress == VP_COMPRESS_ZSTD ? COMPRESSION_ZSTD : COMPRESSION_ADOBE_DEFLATE;
    if (!TIFFIsCODECConfigured((uint16_t)compression))
        return vp_fail(err, VP_EUSAGE, "%s: this libtiff has no %s compression", name,
                       compress == VP_COMPRESS_ZSTD ? "zstd" : "deflate");
    const size_t row = (size_t)stack->nx * vp_type_size(stack->type);
    struct vp_libtiff_writer *w = calloc(1, sizeof *w);
    if (!w)
        return vp_fail(err, VP_ERESOURCE, "%s: not enough memory", name);
    w->stack =
        (struct vp_stack){.nx = stack->nx, .ny = stack->ny, .pages = stack->pages, .type = stack->type};
    w->compression = compression;
    w->io.fd = fd;
    w->rows = strip_of(stack);
    w->name = strdup(name);
    w->text = strdup(text);
    w->scratch = vp_alloc_raw(w->rows, row, "a strip", err);
    w->tiff = w->name && w->text && w->scratch ? open_tiff(&w->io, w->name, big ? "w8l" : "wl") : NULL;
    if (!w->tiff) {
        failed(&w->io, name, 0, err);
        (void)vp_libtiff_writer_close(w, NULL);
        return -1;
    }
    *out = w;
    return 0;
}

static bool set_tags(struct vp_libtiff_writer *w)
{
    const struct vp_stack *s = &w->stack;
    const bool is_float = vp_type_is_float(s->type), is_signed = s->type >= VP_I8 && s->type <= VP_I64;
    const size_t size = vp_type_size(s->type);
    bool ok =
        TIFFSetField(w->tiff, TIFFTAG_IMAGEWIDTH, (uint32_t)s->nx) &&
        TIFFSetField(w->tiff, TIFFTAG_IMAGELENGTH, (uint32_t)s->ny) &&
        TIFFSetField(w->tiff, TIFFTAG_BITSPERSAMPLE, (int)(8 * size)) &&
        TIFFSetField(w->tiff, TIFFTAG_SAMPLESPERPIXEL, 1) &&
        TIFFSetField(w->tiff, TIFFTAG_SAMPLEFORMAT,
                     is_float    ? SAMPLEFORMAT_IEEEFP
                     : is_signed ? SAMPLEFORMAT_INT
                                 : SAMPLEFORMAT_UINT) &&
        TIFFSetField(w->tiff, TIFFTAG_PHOTOMETRIC, PHOTOMETRIC_MINISBLACK) &&
        TIFFSetField(w->tiff, TIFFTAG_PLANARCONFIG, PLANARCONFIG_CONTIG) &&
        TIFFSetField(w->tiff, TIFFTAG_ROWSPERSTRIP, w->rows) &&
        TIFFSetField(w->tiff, TIFFTAG_COMPRESSION, w->compression) &&
        TIFFSetField(w->tiff, TIFFTAG_PREDICTOR, is_float ? PREDICTOR_FLOATINGPOINT : PREDICTOR_HORIZONTAL) &&
        TIFFSetField(w->tiff, TIFFTAG_SOFTWARE, "voxpipe");
    if (ok && w->page == 0)
        ok = TIFFSetField(w->tiff, TIFFTAG_IMAGEDESCRIPTION, w->text);
    if (ok && w->page <= UINT16_MAX)
        ok = TIFFSetField(w->tiff, TIFFTAG_PAGENUMBER, (int)w->page,
                          (int)(s->pages > 0 && s->pages <= UINT16_MAX ? s->pages : 0));
    return ok;
}

int vp_libtiff_writer_page(struct vp_libtiff_writer *w, const void *page, struct vp_err *err)
{
    const struct vp_stack *s = &w->stack;
    const size_t row = (size_t)s->nx * vp_type_size(s->type);
    init();
    bool ok = set_tags(w);
    uint32_t strip = 0;
    for (int64_t y = 0; ok && y < s->ny; y += w->rows, strip++) {
        const size_t n = (size_t)(s->ny - y < w->rows ? s->ny - y : w->rows) * row;
        memcpy(w->scratch, (const char *)page + (size_t)y * row, n);
        ok = TIFFWriteEncodedStrip(w->tiff, strip, w->scratch, (tmsize_t)n) >= 0;
    }
    ok = ok && TIFFWriteDirectory(w->tiff);
    if (!ok && !w->io.error && strstr(said, "Maximum TIFF file size"))
        return vp_fail(err, VP_ERUN, "%s: page %lld: more than 4 GiB", w->name, (long long)w->page);
    if (!ok && !w->io.error)
        return vp_fail(err, VP_ERUN, "%s: page %lld: cannot be compressed: %s", w->name, (long long)w->page,
                       said);
    if (!ok || w->io.error)
        return failed(&w->io, w->name, w->page, err);
    w->page++;
    return 0;
}

int vp_libtiff_writer_close(struct vp_libtiff_writer *w, struct vp_err *err)
{
    struct vp_err ignored = VP_ERR_INIT;
    init();
    if (w->tiff)
        TIFFClose(w->tiff);
    const int rc = w->io.error ? failed(&w->io, w->name, w->page, err ? err : &ignored) : 0;
    free(w->name);
    free(w->text);
    free(w->scratch);
    free(w);
    return rc;
}
