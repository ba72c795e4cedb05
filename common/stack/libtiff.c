/* SPDX-License-Identifier: BSD-3-Clause */
/* libtiff where it is needed: pages with a decoder, compressed output. It reads and writes through our own
 * functions, so that errno is known and nothing is mapped into memory (a file cut while it is read must be an
 * error, not SIGBUS). */
#include "stack/libtiff.h"
#include "base/err.h"
#include "base/size.h"
#include "stack/foreign.h"
#include "stack/outfile.h"
#include "stack/pyramid.h"
#include "stack/source.h"
#include "stack/tiff.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <tiffio.h>

enum { STRIP_BYTES = 1 << 20, LARGEST_TILE = 1 << 30 };

/* The last message of libtiff, in the thread that called it. Its handlers are global; a thread-local text keeps
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
    errno = 0;
}

/* Leaves libtiff's handle to the end of the process where memory ran out: it counts what it does not hold, and
 * crashes as it is closed. */
static void leave_if_broken(TIFF **tiff)
{
    if (errno == ENOMEM)
        *tiff = NULL;
}

/* A position of our own in a descriptor that others read too. */
struct io {
    int fd, error; /* errno of the first failure */
    uint64_t position;
    _Atomic uint64_t *read; /* counts bytes; or NULL */
};

static tmsize_t io_read(thandle_t h, void *buf, tmsize_t n)
{
    struct io *io = h;
    const int64_t got = n > 0 ? vp_pread_all(io->fd, buf, (size_t)n, io->position) : 0;
    if (got < 0) { /* libtiff takes -1 for a length in places: nothing was read, and every caller looks at io.error */
        io->error = io->error ? io->error : errno;
        return 0;
    }
    io->position += (uint64_t)got;
    if (io->read)
        *io->read += (uint64_t)got;
    return (tmsize_t)got;
}

static tmsize_t io_write(thandle_t h, void *buf, tmsize_t n)
{
    struct io *io = h;
    if (vp_write_two(io->fd, (off_t)io->position, buf, (size_t)n, NULL, 0, "", NULL)) {
        io->error = io->error ? io->error : errno;
        return -1;
    }
    io->position += (uint64_t)n;
    return n;
}

static toff_t io_size(thandle_t h)
{
    struct io *const io = h;
    struct stat st;
    if (!fstat(io->fd, &st))
        return (toff_t)st.st_size;
    io->error = io->error ? io->error : errno;
    return 0;
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

static TIFF *open_tiff(struct io *io, const char *name, const char *mode)
{
    init();
    return TIFFClientOpen(name, mode, io, io_read, io_write, io_seek, io_close, io_size, NULL, NULL);
}

/* Reports an error of libtiff, with the system's if there was one. */
static int failed(const struct io *io, const char *name, int64_t page, struct vp_err *err)
{
    if (io->error) {
        errno = io->error;
        return vp_fail_errno(err, "%s", name);
    }
    return vp_page_fail(name, page, err, "cannot be decoded%s%s", said[0] ? ": " : "", said);
}

/* Output rows of some channels of the current directory, one channel after the other. */
struct window {
    int64_t c0, c1, y0, y1;
};

struct vp_libtiff_reader {
    TIFF *tiff;
    struct io io;
    const char *name;
    const struct vp_stack *stack;
    int64_t channels, image; /* pages of an image; the one that is read */
    bool colours, shown_white; /* options of the form */
    bool sparse; /* the current image has strips that are left out */
    uint64_t ifd; /* the current directory; 0: none */
    struct vp_form form; /* and what is in it */
    const uint16_t *map[3];
    bool tiled;
    int64_t block_nx, block_ny; /* a tile, or a strip */
    size_t block_row, block_bytes; /* as decoded */
    struct window held; /* content of `cache`; y1 0: none */
    unsigned char *cache, *block;
    size_t cache_bytes, block_room;
};

int vp_libtiff_reader_open(struct vp_libtiff_reader **out, int fd, const char *name, const struct vp_stack *stack,
                           const struct vp_form *like, _Atomic uint64_t *bytes, struct vp_err *err)
{
    struct vp_libtiff_reader *r = vp_alloc(1, sizeof *r, name, err);
    if (!r)
        return -1;
    *r = (struct vp_libtiff_reader){.name = name, .stack = stack, .channels = like->channels,
                                    .colours = like->colours, .shown_white = like->shown_white,
                                    .io = {.fd = fd, .read = bytes}};
    r->tiff = open_tiff(&r->io, name, "rmh"); /* m: no mapping; h: no directory yet */
    if (!r->tiff) {
        failed(&r->io, name, 0, err);
        vp_libtiff_reader_close(r);
        return -1;
    }
    *out = r;
    return 0;
}

void vp_libtiff_reader_close(struct vp_libtiff_reader *r)
{
    if (!r)
        return;
    if (r->tiff)
        TIFFClose(r->tiff);
    free(r->cache);
    free(r->block);
    free(r);
}

/* Returns the room for images of several channels, and those whose rows lie as columns, are decoded as a whole and
 * kept, so that nothing is decoded twice, as long as that takes no more than this. */
static uint64_t whole_room(void)
{
    const uint64_t most = vp_memory_most();
    return most == UINT64_MAX ? (uint64_t)1 << 30 : most / 8;
}

/* Reads the form of the current directory, as libtiff has it. */
static void get_form(struct vp_libtiff_reader *r, struct vp_form *f)
{
    TIFF *t = r->tiff;
    uint32_t w = 0, h = 0;
    uint16_t bits = 0, samples = 0, compression = 0, format = 0, photometric = 0, planar = 0, orientation = 0,
             n_extra = 0, *extra = NULL, *map[3] = {NULL, NULL, NULL};
    TIFFGetFieldDefaulted(t, TIFFTAG_COMPRESSION, &compression);
    const bool known = TIFFGetField(t, TIFFTAG_PHOTOMETRIC, &photometric);
    if (compression == CODEC_JPEG && photometric == PHOTO_YCBCR)
        TIFFSetField(t, TIFFTAG_JPEGCOLORMODE, JPEGCOLORMODE_RGB);
    if (compression == CODEC_LOG || compression == CODEC_LOG24)
        TIFFSetField(t, TIFFTAG_SGILOGDATAFMT, SGILOGDATAFMT_FLOAT);
    TIFFGetField(t, TIFFTAG_IMAGEWIDTH, &w);
    TIFFGetField(t, TIFFTAG_IMAGELENGTH, &h);
    TIFFGetFieldDefaulted(t, TIFFTAG_BITSPERSAMPLE, &bits);
    TIFFGetFieldDefaulted(t, TIFFTAG_SAMPLESPERPIXEL, &samples);
    TIFFGetFieldDefaulted(t, TIFFTAG_SAMPLEFORMAT, &format);
    TIFFGetFieldDefaulted(t, TIFFTAG_PLANARCONFIG, &planar);
    TIFFGetFieldDefaulted(t, TIFFTAG_ORIENTATION, &orientation);
    TIFFGetFieldDefaulted(t, TIFFTAG_EXTRASAMPLES, &n_extra, &extra);
    *f = (struct vp_form){.nx = w, .ny = h, .bits = bits, .samples = samples, .format = format, .planar = planar,
                          .photometric = known ? photometric : PHOTO_NOT_SAID, .orientation = orientation,
                          .compression = compression, .extra = n_extra ? extra[0] : 0,
                          .colours = r->colours, .shown_white = r->shown_white};
    r->map[0] = r->map[1] = r->map[2] = NULL;
    if (vp_form_mapped(f) && bits <= 16 && TIFFGetField(t, TIFFTAG_COLORMAP, &map[0], &map[1], &map[2])) {
        f->coarse_map = true;
        for (int c = 0; c < 3; c++) {
            for (int64_t i = 0; i < (int64_t)1 << bits; i++)
                vp_form_colour(f, map[c][i]);
            r->map[c] = map[c];
        }
    }
    vp_form_judge(f);
}

static int set_directory(struct vp_libtiff_reader *r, uint64_t ifd, struct vp_err *err)
{
    if (r->ifd == ifd)
        return 0;
    r->ifd = 0;
    r->held = (struct window){0};
    if (!TIFFSetSubDirectory(r->tiff, ifd))
        return failed(&r->io, r->name, r->image, err);
    const struct vp_stack *s = r->stack;
    struct vp_form *f = &r->form;
    get_form(r, f);
    /* libtiff repairs what it thinks is wrong: what it will decode must be what was checked. */
    if (*f->problem || vp_form_nx(f) != s->nx || vp_form_ny(f) != s->ny || f->type != s->type ||
        f->channels != r->channels || (vp_form_mapped(f) && !r->map[0]))
        return vp_page_fail(r->name, r->image, err, "its directory contradicts itself");
    if (!TIFFIsCODECConfigured((uint16_t)f->compression))
        return vp_page_fail(r->name, r->image, err, "compression %u is unknown to this libtiff", f->compression),
               vp_hint(err, "write it anew without compression, or with deflate, where it was made");
    uint32_t tw = 0, th = 0, per = 0;
    r->tiled = TIFFIsTiled(r->tiff);
    TIFFGetField(r->tiff, TIFFTAG_TILEWIDTH, &tw);
    TIFFGetField(r->tiff, TIFFTAG_TILELENGTH, &th);
    TIFFGetFieldDefaulted(r->tiff, TIFFTAG_ROWSPERSTRIP, &per);
    r->block_nx = r->tiled ? tw : f->nx;
    r->block_ny = r->tiled ? th : per && per < f->ny ? per : f->ny;
    size_t row = f->rgba ? 4 * (size_t)r->block_nx : vp_form_row_bytes(f, r->block_nx), bytes = 0;
    const tmsize_t decoded = r->tiled ? TIFFTileSize(r->tiff) : TIFFStripSize(r->tiff);
    if (!row || !vp_mul_size(&bytes, row, (size_t)r->block_ny) || bytes > PTRDIFF_MAX ||
        (r->tiled && bytes > LARGEST_TILE))
        return vp_page_fail(r->name, r->image, err, "tiles of %ux%u: expected at most %d MiB", tw, th,
                            LARGEST_TILE >> 20);
    if (!f->rgba && (uint64_t)decoded != bytes)
        return vp_page_fail(r->name, r->image, err, "its %s hold %lld bytes: expected %zu",
                            r->tiled ? "tiles" : "strips", (long long)decoded, bytes);
    r->block_row = row;
    r->block_bytes = bytes;
    r->ifd = ifd;
    return 0;
}

static int need_room(unsigned char **p, size_t *room, size_t n, struct vp_err *err)
{
    if (*room >= n)
        return 0;
    free(*p);
    *room = 0;
    *p = vp_alloc_raw(1, n, "a decoded strip", err);
    *room = *p ? n : 0;
    return *p ? 0 : -1;
}

/* Decodes the block at stored pixel (x, y), of one sample if they lie in planes. With libdeflate, libtiff takes
 * damaged data that seem to hold too much for whole, and leaves the rest of the buffer as it was: never what lay in
 * our memory, and the same for any request of rows. */
static int read_block(struct vp_libtiff_reader *r, int64_t x, int64_t y, int64_t sample, void *to, size_t bytes,
                      struct vp_err *err)
{
    TIFF *t = r->tiff;
    const uint32_t x32 = (uint32_t)x, y32 = (uint32_t)y;
    const uint16_t plane = (uint16_t)(r->form.planar == 2 ? sample : 0);
    const tmsize_t n = (tmsize_t)bytes;
    memset(to, 0, bytes);
    const uint32_t k = r->tiled ? TIFFComputeTile(t, x32, y32, 0, plane) : TIFFComputeStrip(t, y32, plane);
    /* libtiff may have made up the length of a single strip */
    if (r->sparse && (r->block_ny >= r->form.ny || !TIFFGetStrileOffset(t, k) || !TIFFGetStrileByteCount(t, k)))
        return r->io.error ? failed(&r->io, r->name, r->image, err) : 0;
    const bool whole = r->form.rgba ? (r->tiled ? TIFFReadRGBATile(t, x32, y32, to) : TIFFReadRGBAStrip(t, y32, to))
                       : r->tiled ? TIFFReadEncodedTile(t, k, to, n) == n : TIFFReadEncodedStrip(t, k, to, n) == n;
    return whole && !r->io.error ? 0 : failed(&r->io, r->name, r->image, err);
}

/* Decodes the window into `to`: whole rows of blocks of it, or the whole image. */
static int decode(struct vp_libtiff_reader *r, const struct window *w, char *to, struct vp_err *err)
{
    const struct vp_form *f = &r->form;
    const bool planes = f->planar == 2 && !f->rgba, back = f->orientation == 3 || f->orientation == 4;
    const int64_t rows = w->y1 - w->y0;
    const int64_t b0 = f->turned ? 0 : back ? f->ny - w->y1 : w->y0, b1 = f->turned ? f->ny : b0 + rows;
    const size_t size = vp_type_size(f->type), plane = (size_t)rows * (size_t)r->stack->nx;
    ptrdiff_t origin, dx, dy;
    if (f->direct && !r->tiled) { /* a strip, decoded in place */
        if (read_block(r, 0, w->y0, 0, to, plane * size, err))
            return -1;
        if (f->invert)
            vp_form_invert(to, f->type, plane);
        return 0;
    }
    vp_form_place(f, rows, &origin, &dx, &dy);
    if (need_room(&r->block, &r->block_room, r->block_bytes, err))
        return -1;
    if (f->rgba) /* the raster is turned by libtiff otherwise */
        TIFFSetField(r->tiff, TIFFTAG_ORIENTATION, ORIENTATION_TOPLEFT);
    for (int64_t y = b0; y < b1; y += r->block_ny)
        for (int64_t c = w->c0; c < w->c1; c += planes ? 1 : w->c1 - w->c0)
            for (int64_t x = 0; x < f->nx; x += r->block_nx) {
                const int64_t nx = vp_min64(f->nx - x, r->block_nx), ny = vp_min64(f->ny - y, r->block_ny);
                const int64_t flip = r->tiled ? r->block_ny - 1 : ny - 1; /* rasters begin at the bottom */
                if (read_block(r, x, y, c, r->block, (size_t)(r->tiled ? r->block_ny : ny) * r->block_row, err))
                    return -1;
                for (int64_t k = 0; k < ny; k++)
                    for (int64_t i = c; i < (planes ? c + 1 : w->c1); i++)
                        vp_form_row(f, r->block + (size_t)(f->rgba ? flip - k : k) * r->block_row, i, r->map, nx,
                                    to + ((ptrdiff_t)((size_t)(i - w->c0) * plane) + origin + x * dx +
                                          (y - b0 + k) * dy) * (ptrdiff_t)size,
                                    dx);
            }
    return 0;
}

/* Returns the window to decode at once for output row y of a channel. */
static struct window window_of(const struct vp_libtiff_reader *r, int64_t channel, int64_t y)
{
    const struct vp_form *f = &r->form;
    const int64_t rows = r->stack->ny;
    if (f->channels > 1 && vp_page_bytes(r->stack) <= whole_room() / (uint64_t)f->channels)
        return (struct window){0, f->channels, 0, rows};
    if (f->turned)
        return (struct window){channel, channel + 1, 0, rows};
    const bool back = f->orientation == 3 || f->orientation == 4;
    const int64_t b0 = (back ? f->ny - 1 - y : y) / r->block_ny * r->block_ny, b1 = vp_min64(f->ny, b0 + r->block_ny);
    return (struct window){channel, channel + 1, back ? f->ny - b1 : b0, back ? f->ny - b0 : b1};
}

static int rows(struct vp_libtiff_reader *r, int64_t channel, int64_t y0, int64_t y1, char *to, struct vp_err *err)
{
    const size_t row = (size_t)r->stack->nx * vp_type_size(r->stack->type);
    struct window *const h = &r->held;
    int64_t stop;
    for (int64_t y = y0; y < y1; to += (size_t)(stop - y) * row, y = stop) {
        const struct window w = window_of(r, channel, y);
        stop = vp_min64(w.y1, y1);
        const bool here = channel >= h->c0 && channel < h->c1 && y >= h->y0 && stop <= h->y1;
        if (!here && w.y0 == y && w.y1 <= y1 && w.c1 - w.c0 == 1) { /* all of it is wanted */
            if (decode(r, &w, to, err))
                return -1;
            continue;
        }
        if (!here) {
            h->y1 = h->c1 = 0;
            const size_t bytes = (size_t)(w.y1 - w.y0) * row * (size_t)(w.c1 - w.c0);
            if (need_room(&r->cache, &r->cache_bytes, bytes, err) || decode(r, &w, (char *)r->cache, err))
                return -1;
            *h = w;
        }
        const size_t at = (size_t)((channel - h->c0) * (h->y1 - h->y0) + y - h->y0) * row;
        memcpy(to, r->cache + at, (size_t)(stop - y) * row);
    }
    return 0;
}

int vp_libtiff_reader_rows(struct vp_libtiff_reader *r, uint64_t ifd, bool sparse, int64_t page, int64_t y0, int64_t y1,
                           void *buf, struct vp_err *err)
{
    if (!r->tiff)
        return vp_fail(err, VP_ERESOURCE, "%s: out of memory", r->name);
    init();
    r->io.error = 0;
    r->image = page / r->channels;
    r->sparse = sparse;
    const int rc = set_directory(r, ifd, err) || rows(r, page % r->channels, y0, y1, buf, err) ? -1 : 0;
    if (rc)
        leave_if_broken(&r->tiff);
    return rc;
}

uint64_t vp_libtiff_need(const struct vp_ifd *d, bool whole)
{
    const struct vp_form *f = &d->form;
    const int64_t nx = d->tiled ? d->tile_nx : f->nx, ny = d->tiled ? d->tile_ny : vp_min64(d->rows_per_strip, f->ny);
    const double page = (double)f->nx * (double)f->ny * (double)vp_type_size(f->type),
                 block = (double)vp_form_row_bytes(f, nx) * (double)ny,
                 band = (double)f->nx * (double)vp_min64(ny, f->ny) * (double)vp_type_size(f->type);
    uint64_t raw = 0;
    for (int64_t i = 0; i < d->n_strips; i++)
        raw = d->count[i] > raw ? d->count[i] : raw;
    /* see decode(): some strips are decoded where they belong */
    double need = (double)raw + (f->direct && !d->tiled ? 0 : block) + (f->rgba ? 4.0 * (double)nx * (double)ny : 0);
    if (f->channels > 1 && page * (double)f->channels <= (double)whole_room())
        need += page * (double)f->channels;
    else if (!whole)
        need += f->turned ? page : band;
    return need < 1e18 ? (uint64_t)need : (uint64_t)1e18;
}

struct vp_libtiff_writer {
    TIFF *tiff;
    struct io io;
    const char *name, *text;
    const uint16_t *palette;
    const struct vp_stack *stack;
    int compression;
    int64_t page;
    bool failed; /* a page could not be written */
    char *scratch; /* libtiff's predictors work in place */
    uint32_t rows;
    struct vp_pyramid *pyramid; /* NULL: strips, in one size */
    int levels;
};

int vp_libtiff_compression(enum vp_compress compress, const char *name, struct vp_err *err)
{
    const int compression = compress == VP_COMPRESS_ZSTD ? COMPRESSION_ZSTD : COMPRESSION_ADOBE_DEFLATE;
    if (TIFFIsCODECConfigured((uint16_t)compression))
        return compression;
    return vp_fail(err, VP_EUSAGE, "%s: this libtiff has no %s compression", name,
                   compress == VP_COMPRESS_ZSTD ? "zstd" : "deflate");
}

/* Returns the rows of a strip. */
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

int vp_libtiff_writer_open(struct vp_libtiff_writer **out, int fd, const char *name, const struct vp_stack *stack,
                           const char *text, const uint16_t *palette, enum vp_compress compress, bool big,
                           struct vp_err *err)
{
    const int compression = vp_libtiff_compression(compress, name, err);
    if (compression < 0)
        return -1;
    struct vp_libtiff_writer *w = vp_alloc(1, sizeof *w, name, err);
    if (!w)
        return -1;
    *w = (struct vp_libtiff_writer){.io.fd = fd, .name = name, .text = text, .palette = palette,
                                    .stack = stack, .compression = compression, .rows = strip_of(stack)};
    w->scratch = vp_alloc_raw(w->rows, (size_t)stack->nx * vp_type_size(stack->type), "a strip", err);
    w->tiff = w->scratch ? open_tiff(&w->io, name, big ? "w8l" : "wl") : NULL;
    if (!w->tiff) {
        failed(&w->io, name, 0, err);
        (void)vp_libtiff_writer_close(w, NULL);
        return -1;
    }
    *out = w;
    return 0;
}

int vp_libtiff_writer_pyramid(struct vp_libtiff_writer *w, struct vp_err *err)
{
    char *const tile = vp_alloc_raw((size_t)VP_PYRAMID_TILE * VP_PYRAMID_TILE, vp_type_size(w->stack->type), "a tile", err);
    if (!tile || vp_pyramid_open(&w->pyramid, w->stack, err)) {
        free(tile);
        return -1;
    }
    free(w->scratch);
    w->scratch = tile;
    w->levels = vp_pyramid_levels(w->stack->nx, w->stack->ny);
    return 0;
}

/* Sets the tags of a page, or of a smaller size of it. */
static bool set_tags(struct vp_libtiff_writer *w, const int64_t size[2], bool reduced)
{
    const struct vp_stack *s = w->stack;
    double mm[2];
    const uint32_t tags[][2] = {
        {TIFFTAG_IMAGEWIDTH, (uint32_t)size[0]},
        {TIFFTAG_IMAGELENGTH, (uint32_t)size[1]},
        {TIFFTAG_BITSPERSAMPLE, 8 * (uint32_t)vp_type_size(s->type)},
        {TIFFTAG_SAMPLESPERPIXEL, 1},
        {TIFFTAG_SAMPLEFORMAT, vp_sample_format(s->type)},
        {TIFFTAG_PHOTOMETRIC, w->palette ? PHOTOMETRIC_PALETTE : PHOTOMETRIC_MINISBLACK},
        {TIFFTAG_PLANARCONFIG, PLANARCONFIG_CONTIG},
        {w->pyramid ? TIFFTAG_TILEWIDTH : TIFFTAG_ROWSPERSTRIP, w->pyramid ? VP_PYRAMID_TILE : w->rows},
        {TIFFTAG_COMPRESSION, (uint32_t)w->compression},
    };
    bool ok = TIFFSetField(w->tiff, TIFFTAG_SOFTWARE, "voxpipe");
    if (ok && w->pyramid)
        ok = TIFFSetField(w->tiff, TIFFTAG_TILELENGTH, VP_PYRAMID_TILE)
             && TIFFSetField(w->tiff, TIFFTAG_SUBFILETYPE, reduced ? FILETYPE_REDUCEDIMAGE : 0);
    for (size_t i = 0; ok && i < sizeof tags / sizeof *tags; i++)
        ok = TIFFSetField(w->tiff, tags[i][0], tags[i][1]);
    /* ImageJ reads deflate, but with a predictor wrongly; who reads zstd has libtiff, or as much */
    if (ok && w->compression == COMPRESSION_ZSTD)
        ok = TIFFSetField(w->tiff, TIFFTAG_PREDICTOR,
                          vp_type_is_float(s->type) ? PREDICTOR_FLOATINGPOINT : PREDICTOR_HORIZONTAL);
    if (ok && w->palette)
        ok = TIFFSetField(w->tiff, TIFFTAG_COLORMAP, w->palette, w->palette + VP_PALETTE, w->palette + 2 * VP_PALETTE);
    if (ok && !reduced && vp_voxel_mm(&s->meta, mm))
        ok = TIFFSetField(w->tiff, TIFFTAG_XRESOLUTION, 10 / mm[0]) &&
             TIFFSetField(w->tiff, TIFFTAG_YRESOLUTION, 10 / mm[1]) &&
             TIFFSetField(w->tiff, TIFFTAG_RESOLUTIONUNIT, RESUNIT_CENTIMETER);
    if (!ok || reduced)
        return ok;
    if (w->levels) {
        const uint64_t later[VP_PYRAMID_MAX] = {0}; /* the directories that follow are theirs */
        ok = TIFFSetField(w->tiff, TIFFTAG_SUBIFD, w->levels, later);
    }
    if (ok && w->page == 0)
        ok = TIFFSetField(w->tiff, TIFFTAG_IMAGEDESCRIPTION, w->text);
    if (ok && w->page <= UINT16_MAX)
        ok = TIFFSetField(w->tiff, TIFFTAG_PAGENUMBER, (int)w->page,
                          (int)(s->pages > 0 && s->pages <= UINT16_MAX ? s->pages : 0));
    return ok;
}

static bool write_strips(struct vp_libtiff_writer *w, const void *page)
{
    const struct vp_stack *s = w->stack;
    const size_t row = (size_t)s->nx * vp_type_size(s->type);
    uint32_t strip = 0;
    bool ok = true;
    for (int64_t y = 0; ok && y < s->ny; y += w->rows, strip++) {
        const size_t n = (size_t)(s->ny - y < w->rows ? s->ny - y : w->rows) * row;
        memcpy(w->scratch, (const char *)page + (size_t)y * row, n);
        ok = TIFFWriteEncodedStrip(w->tiff, strip, w->scratch, (tmsize_t)n) >= 0;
    }
    return ok;
}

/* Writes the tiles of a page or level; what is beyond the image is zeros. */
static bool write_tiles(struct vp_libtiff_writer *w, const char *image, const int64_t size[2])
{
    const size_t sample = vp_type_size(w->stack->type), row = (size_t)size[0] * sample, side = VP_PYRAMID_TILE * sample;
    uint32_t tile = 0;
    bool ok = true;
    for (int64_t y0 = 0; ok && y0 < size[1]; y0 += VP_PYRAMID_TILE)
        for (int64_t x0 = 0; ok && x0 < size[0]; x0 += VP_PYRAMID_TILE, tile++) {
            const size_t n = (size_t)vp_min64(VP_PYRAMID_TILE, size[0] - x0) * sample;
            memset(w->scratch, 0, VP_PYRAMID_TILE * side);
            for (int64_t y = y0; y < vp_min64(y0 + VP_PYRAMID_TILE, size[1]); y++)
                memcpy(w->scratch + (size_t)(y - y0) * side, image + (size_t)y * row + (size_t)x0 * sample, n);
            ok = TIFFWriteEncodedTile(w->tiff, tile, w->scratch, (tmsize_t)(VP_PYRAMID_TILE * side)) >= 0;
        }
    return ok;
}

int vp_libtiff_writer_page(struct vp_libtiff_writer *w, const void *page, struct vp_err *err)
{
    int64_t size[2] = {w->stack->nx, w->stack->ny};
    init();
    bool ok = set_tags(w, size, false) && (w->pyramid ? write_tiles(w, page, size) : write_strips(w, page));
    for (int k = 0; ok && k < w->levels; k++) {
        ok = TIFFWriteDirectory(w->tiff);
        const void *const level = ok ? vp_pyramid_next(w->pyramid, k ? NULL : page, size) : NULL;
        ok = ok && set_tags(w, size, true) && write_tiles(w, level, size);
    }
    ok = ok && TIFFWriteDirectory(w->tiff) && !w->io.error;
    w->failed = !ok;
    if (!ok)
        leave_if_broken(&w->tiff);
    if (!ok && !w->io.error && strstr(said, "Maximum TIFF file size"))
        return vp_page_fail(w->name, w->page, err, "more than 4 GiB");
    if (!ok && !w->io.error)
        return vp_page_fail(w->name, w->page, err, "cannot be compressed: %s", said);
    if (!ok)
        return failed(&w->io, w->name, w->page, err);
    w->page++;
    return 0;
}

int vp_libtiff_writer_close(struct vp_libtiff_writer *w, struct vp_err *err)
{
    struct vp_err ignored = VP_ERR_INIT;
    init();
    /* To close is to write what is pending: after a failure it may not even be whole in memory. */
    if (w->tiff && (w->failed || !err))
        TIFFSetMode(w->tiff, O_RDONLY);
    if (w->tiff)
        TIFFClose(w->tiff);
    const int rc = w->io.error ? failed(&w->io, w->name, w->page, err ? err : &ignored) : 0;
    free(w->scratch);
    vp_pyramid_close(w->pyramid);
    free(w);
    return rc;
}
