/* SPDX-License-Identifier: BSD-3-Clause */
/* Stream TIFF: header, then for each page its directory, the values that do not fit the directory, padding to
 * 16 bytes, and one strip of samples. All offsets are known in advance, so nothing is revisited and a pipe,
 * standard output and a file get their bytes from the same code. TIFF 6.0 (1992), BigTIFF (2007). */
#include "base/err.h"
#include "base/size.h"
#include "stack/directory.h"
#include "stack/given.h"
#include "stack/hdf5_out.h"
#include "stack/libtiff.h"
#include "stack/pyramid.h"
#include "stack/outfile.h"
#include "stack/series.h"
#include "stack/source.h"
#include <omp.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "pages are written as they lie in memory");

/* VP_WRITER_HOLD is not a matter of --memory, for that may not change a byte. */
enum { PADDED_BYTES = 1 << 20, LEAST_COPIERS = 4, COPIED_AT_ONCE = 2 << 20 };
static const uint64_t CLASSIC_LIMIT = (UINT64_C(1) << 32) - (UINT64_C(1) << 16);

struct vp_writer {
    struct vp_outfile *file;
    struct vp_given given; /* the same descriptor, if nothing else writes to it */
    char *copied; /* two buffers of VP_GIVEN_COPY, in turn copied to and given */
    struct vp_libtiff_writer *libtiff; /* compressed */
    struct vp_h5_writer *hdf5;
    const struct vp_format *format; /* NULL: TIFF or raw */
    uint64_t lead; /* bytes of the format's header */
    struct vp_stack stack;
    /* numbered files (stack/series.h): the file is a temporary one, whose pages are written anew with these options */
    bool numbered;
    struct vp_series series;
    struct vp_writer_options options;
    size_t page_bytes;
    bool raw;
    bool joined; /* another process has opened the file, and closes it after us */
    enum vp_compress compress;
    bool begun; /* it is decided what kind of TIFF it is */
    struct vp_directory directory;
    struct vp_reserved *reserved; /* pages and rows may come in any order */
    int64_t written; /* pages, in order */
    int64_t line; /* rows of the next page that were given */
    _Atomic int64_t rows; /* rows of pages, in any order */
    uint64_t head[3]; /* bytes of the directory, with its values, of the pages of each kind */
    char *held; /* pages that wait to know whether more than `hold` come, then whether one is the last; and rows of one
                   that must be whole */
    int64_t n_held, hold;
    struct vp_padding pad;
    char *padded; /* rows with their padding */
    int64_t padded_rows; /* appended so far, with those of zeros */
};

/* The first page has the description; a page number has 16 bits. */
enum { FIRST, NUMBERED, UNNUMBERED };

static int kind_of(int64_t page)
{
    return page == 0 ? FIRST : page <= UINT16_MAX ? NUMBERED : UNNUMBERED;
}

static int write_header(struct vp_writer *w, struct vp_err *err)
{
    unsigned char header[VP_TIFF_HEADER];
    vp_directory_header(w->directory.big, header);
    return vp_outfile_write(w->file, header, sizeof header, err);
}

/* Returns the offset of the directory of a page (raw: of its samples). */
static uint64_t place(const struct vp_writer *w, int64_t page)
{
    if (w->raw)
        return w->lead + (uint64_t)page * w->page_bytes;
    uint64_t at = VP_TIFF_HEADER;
    const int64_t numbered = page > UINT16_MAX + 1 ? UINT16_MAX : page - 1;
    if (page > 0)
        at += vp_tiff_align(w->head[FIRST] + w->page_bytes)
              + (uint64_t)numbered * vp_tiff_align(w->head[NUMBERED] + w->page_bytes);
    if (page > 1 + numbered)
        at += (uint64_t)(page - 1 - numbered) * vp_tiff_align(w->head[UNNUMBERED] + w->page_bytes);
    return at;
}

/* Returns the offset past the last byte of a page's samples. There is no gap after the last page; a gap before a
 * directory is written with it. */
static uint64_t place_end(const struct vp_writer *w, int64_t page)
{
    return place(w, page) + (w->raw ? 0 : w->head[kind_of(page)]) + w->page_bytes;
}

/* Composes all that comes between the samples of the page before and those of this one, into `head`. */
static size_t compose_all(const struct vp_writer *w, int64_t page, unsigned char *head)
{
    const uint64_t at = place(w, page);
    const size_t gap = page > 0 ? (size_t)(at - place_end(w, page - 1)) : 0;
    memset(head, 0, gap);
    return gap + vp_directory_compose(&w->directory, page, at, head + gap);
}

/* Writes rows of a page, its directory before the first of them: at their place of a reserved file, else where it
 * stands. */
static int put_rows(struct vp_writer *w, int64_t page, int64_t y0, int64_t y1, const void *rows, struct vp_err *err)
{
    const size_t row = (size_t)w->stack.nx * vp_type_size(w->stack.type), n = (size_t)(y1 - y0) * row;
    const size_t most = w->head[kind_of(page)] + VP_TIFF_ALIGN;
    unsigned char small[512], *head = small;
    size_t m = 0;
    if (y0 == 0 && !w->raw) {
        if (most > sizeof small && !(head = vp_alloc_raw(1, most, "a directory", err)))
            return -1;
        m = compose_all(w, page, head);
    }
    const uint64_t at = place_end(w, page) - w->page_bytes + (uint64_t)y0 * row - m;
    const int rc = w->reserved ? vp_reserved_put(w->reserved, at, head, m, rows, n, err)
                               : vp_given_put(&w->given, head, m, rows, n, err);
    if (head != small)
        free(head);
    return rc;
}

static void release(struct vp_writer *w)
{
    vp_stack_free(&w->stack);
    free(w->directory.text);
    free(w->held);
    free(w->padded);
    free(w->copied);
    free(w);
}

/* Sets what depends on the number of pages: the kind of TIFF, its description, the lengths of its directories. */
static int lay_out(struct vp_writer *w, struct vp_err *err)
{
    const struct vp_stack *s = &w->stack;
    free(w->directory.text);
    w->directory.text = w->options.pyramid ? vp_pyramid_text(s, err) : vp_description(s);
    if (!w->directory.text)
        return w->options.pyramid ? -1 : vp_fail_errno(err, "%s", w->file->name);
    w->directory.text_len = strlen(w->directory.text) + 1;

    size_t total = 0;
    const bool known = s->pages > 0 && vp_add_size(&total, w->page_bytes, vp_directory_limit(&w->directory)) &&
                       vp_mul_size(&total, total, (size_t)s->pages) && vp_add_size(&total, total, VP_TIFF_ALIGN);
    w->directory.big = !known || total >= CLASSIC_LIMIT; /* whatever the target: a pipe and a file get the same bytes */
    for (int k = FIRST; k <= UNNUMBERED; k++)
        w->head[k] = vp_directory_compose(&w->directory, k == UNNUMBERED ? UINT16_MAX + 1 : k, VP_TIFF_HEADER, NULL);
    return 0;
}

static int begin(struct vp_writer *w, struct vp_err *err)
{
    w->begun = true;
    if (lay_out(w, err))
        return -1;
    if (w->joined || !w->compress)
        return w->joined ? 0 : write_header(w, err);
    if (vp_libtiff_writer_open(&w->libtiff, w->file->fd, w->file->name, &w->stack, w->directory.text,
                               w->directory.coloured ? w->directory.palette : NULL, w->compress, w->directory.big, err))
        return -1;
    return w->options.pyramid ? vp_libtiff_writer_pyramid(w->libtiff, err) : 0;
}

static int open_tiff(struct vp_writer *w, struct vp_err *err)
{
    const struct vp_stack *s = &w->stack;
    const char *name = w->file->name;
    if (s->nx > UINT32_MAX || s->ny > UINT32_MAX)
        return vp_fail(err, VP_ERUN, "%s: pages of %lldx%lld are too large for TIFF", name, (long long)s->nx,
                       (long long)s->ny);
    if (w->compress && !w->file->temporary)
        return vp_fail(err, VP_EUSAGE, "%s: compressed TIFF cannot be written to a pipe or device; use -o FILE", name);
    if (w->compress && vp_libtiff_compression(w->compress, name, err) < 0)
        return -1;
    if (s->pages > 0)
        return begin(w, err);
    w->hold = w->page_bytes < VP_WRITER_HOLD ? (int64_t)(VP_WRITER_HOLD / w->page_bytes) : 1;
    return 0;
}

/* Opens an output of another format. */
static int open_format(struct vp_writer *w, struct vp_err *err)
{
    const char *const name = w->file->name;
    if (w->joined)
        return vp_fail(err, VP_EUSAGE, "%s: several ranks write TIFF only", name);
    if (!w->format->head)
        return vp_h5_writer_open(&w->hdf5, w->file->temporary, name, &w->stack, w->compress, w->options.frames,
                                 err);
    if (w->compress)
        return vp_fail(err, VP_EUSAGE, "%s: %s is written without compression", name, w->format->name);
    if (w->stack.pages < 0 && !w->file->temporary)
        return vp_fail(err, VP_EUSAGE, "%s: %s begins with the number of pages, which is not known: use -o FILE", name,
                       w->format->name);
    w->raw = true;
    return vp_format_lead(w->format, &w->stack, w->file, false, &w->lead, err);
}

/* Writes all pages that are held. */
static int write_held(struct vp_writer *w, bool ending, struct vp_err *err)
{
    int rc = w->begun || w->format ? 0 : begin(w, err);
    vp_given_begin(&w->given, w->held, (size_t)w->n_held * w->page_bytes);
    for (int64_t i = 0; i < w->n_held && !rc; i++, w->written += !rc) {
        const char *page = w->held + (size_t)i * w->page_bytes;
        w->directory.ending = ending && i == w->n_held - 1;
        rc = w->libtiff ? vp_libtiff_writer_page(w->libtiff, page, err)
             : w->hdf5  ? vp_h5_writer_page(w->hdf5, page, err)
                        : put_rows(w, w->written, 0, w->stack.ny, page, err);
    }
    w->n_held = rc ? w->n_held : 0;
    return vp_given_end(&w->given, err) || rc ? -1 : 0;
}

/* Adds rows of a page that must be whole, and may have to wait for others then. */
static int hold_rows(struct vp_writer *w, int64_t n, const char *rows, struct vp_err *err)
{
    const size_t row = w->page_bytes / (size_t)w->stack.ny;
    if (w->hold && w->n_held == w->hold) { /* these come after them, so none is the last */
        if (write_held(w, false, err))
            return -1;
        if (w->hold > 1) {
            free(w->held);
            w->held = NULL;
        }
        w->hold = 1;
    }
    const size_t pages = w->hold ? (size_t)w->hold : 1;
    if (!w->held && !(w->held = vp_alloc_raw(pages, w->page_bytes, "the pages held back", err)))
        return -1;
    memcpy(w->held + (size_t)w->n_held * w->page_bytes + (size_t)w->line * row, rows, (size_t)n * row);
    w->n_held += w->line + n == w->stack.ny;
    return w->n_held && !w->hold ? write_held(w, false, err) : 0;
}

uint64_t vp_writer_holds(const struct vp_stack *stack, const struct vp_writer_options *o, uint64_t memory)
{
    const uint64_t page = vp_page_bytes(stack), packing = o->compress ? vp_libtiff_writer_holds(stack, o->compress) : 0,
                   levels = o->pyramid ? vp_pyramid_holds(stack) : 0;
    const bool many = page < VP_WRITER_HOLD && memory >= 16 * (uint64_t)VP_WRITER_HOLD;
    const uint64_t given = o->gives ? vp_given_holds(memory) : 0;
    return packing + levels + given + (stack->pages >= 0 || o->raw ? 0 : many ? VP_WRITER_HOLD : page);
}

int vp_writer_open(struct vp_writer **out, const char *path, const struct vp_stack *stack,
                   const struct vp_writer_options *o, struct vp_err *err)
{
    const char *name = path ? path : "standard output";
    struct vp_writer *w = vp_alloc(1, sizeof *w, name, err);
    if (!w)
        return -1;
    w->raw = o->raw;
    w->numbered = !o->temporary && vp_series_parse(&w->series, path);
    w->format = w->numbered || o->raw ? NULL : vp_format_of(path);
    w->options = (struct vp_writer_options){o->raw, o->compress, o->pyramid, .frames = w->format ? o->frames : NULL};
    w->compress = w->numbered ? VP_COMPRESS_NONE : o->compress;
    w->joined = o->temporary;
    w->page_bytes = w->directory.page_bytes = vp_page_bytes(stack);
    w->directory.stack = &w->stack;
    int rc = 0;
    if (vp_stack_copy(&w->stack, stack))
        rc = vp_fail(err, VP_ERESOURCE, "%s: out of memory", name);
    else /* it is a tag of its own, and not of raw files or of wider samples */
        w->directory.coloured = vp_palette_get(&w->stack.meta, w->directory.palette) && w->stack.type == VP_U8;
    if (!w->numbered)
        vp_meta_set(&w->stack.meta, "palette", NULL);
    if (!rc && !w->page_bytes)
        rc = vp_fail(err, VP_ERUN, "%s: pages of %lldx%lld cannot be held", name, (long long)stack->nx,
                     (long long)stack->ny);
    if (!rc && o->raw && o->compress != VP_COMPRESS_NONE)
        rc = vp_fail(err, VP_EUSAGE, "raw output cannot be compressed");
    if (!rc && o->pyramid && (w->directory.coloured || w->numbered || w->format))
        rc = vp_fail(err, VP_EUSAGE, w->directory.coloured
                                     ? "--pyramid: the samples are indices of a palette, which have no mean"
                                     : w->numbered ? "--pyramid: expected the name of one file"
                                                   : "--pyramid: expected the name of a TIFF file");
    if (!rc)
        rc = w->joined ? vp_outfile_join(&w->file, path, o->temporary, err) : vp_outfile_open(&w->file, path, err);
    if (!rc)
        vp_given_open(&w->given, w->file->fd, w->file->name, o->gives, o->memory);
    if (!rc && !o->raw)
        rc = w->format ? open_format(w, err) : open_tiff(w, err);
    if (!rc && !w->compress && !w->hdf5 && stack->pages > 0 && w->file->temporary)
        rc = vp_reserved_open(&w->reserved, w->file->fd, w->file->name,
                              place_end(w, stack->pages - 1), !o->shared, err);
    if (rc) {
        vp_writer_abort(w);
        return -1;
    }
    *out = w;
    return 0;
}

const char *vp_writer_temporary(const struct vp_writer *w)
{
    return w->reserved ? w->file->temporary : NULL;
}

int64_t vp_writer_rows_put(const struct vp_writer *w)
{
    return w->rows;
}

void vp_writer_others(struct vp_writer *w, int64_t rows)
{
    w->rows += rows;
}

static int too_many(const struct vp_writer *w, int64_t got, struct vp_err *err)
{
    return vp_fail(err, VP_ERUN, "%s: expected %lld pages, got %s%lld", w->file->name,
                   (long long)w->stack.pages, got > w->stack.pages ? "at least " : "", (long long)got);
}

struct bands {
    struct vp_writer *w;
    int64_t page, y0, height;
    const char *from;
};

/* True if pages must be whole. */
static bool collects(const struct vp_writer *w) { return w->libtiff || w->hdf5; }
static int put_piece(void *ctx, int64_t i, int64_t y0, int64_t y1, struct vp_err *err)
{
    const struct bands *b = ctx;
    const size_t row = (size_t)b->w->stack.nx * vp_type_size(b->w->stack.type);
    return put_rows(b->w, b->page + i, b->y0 + y0, b->y0 + y1, b->from + (size_t)(i * b->height + y0) * row, err);
}

static int put_bands(struct vp_writer *w, int64_t page, int64_t n, int64_t y0, int64_t y1, const void *rows,
                     int threads, struct vp_err *err)
{
    struct bands b = {w, page, y0, y1 - y0, rows};
    return vp_share_rows(n, y1 - y0, (size_t)w->stack.nx * vp_type_size(w->stack.type), threads, put_piece, &b, err);
}

static int append_rows(struct vp_writer *w, int64_t n, const void *rows, int threads, struct vp_err *err)
{
    const int64_t ny = w->stack.ny;
    const char *from = rows;
    if (w->stack.pages > 0 && n > (w->stack.pages - w->written) * ny - w->line)
        return too_many(w, w->stack.pages + 1, err);
    for (int64_t m; n > 0; n -= m) {
        const int64_t pages = w->reserved && !w->line && n > ny ? n / ny : 1;
        m = vp_min64(n, pages * ny - w->line);
        const bool held = w->hold || (collects(w) && m < ny);
        if (held           ? hold_rows(w, m, from, err)
            : w->libtiff   ? vp_libtiff_writer_page(w->libtiff, from, err)
            : w->hdf5      ? vp_h5_writer_page(w->hdf5, from, err)
            : w->reserved  ? put_bands(w, w->written, pages, w->line, w->line + m / pages, from, threads, err)
                           : put_rows(w, w->written, w->line, w->line + m, from, err))
            return -1;
        w->written += held ? 0 : (w->line + m) / ny;
        w->line = (w->line + m) % ny;
        from += (size_t)m * (w->page_bytes / (size_t)ny);
    }
    return 0;
}

/* Rows of zeros that come at row `at` of the stack. */
static int64_t zero_rows(const struct vp_writer *w, int64_t at)
{
    const struct vp_padding *p = &w->pad;
    const int64_t page = at / w->stack.ny, y = at % w->stack.ny;
    return ((p->every ? page % p->every : page) < p->pages ? w->stack.ny : vp_max64(p->rows, y)) - y;
}

/* Appends rows with the zeros before them, block by block. */
static int append_padded(struct vp_writer *w, int64_t n, const char *from, int threads, struct vp_err *err)
{
    const size_t size = vp_type_size(w->stack.type), row = (size_t)w->stack.nx * size,
                 zeros = (size_t)w->pad.columns * size;
    const int64_t most = vp_max64(1, (int64_t)(PADDED_BYTES / row));
    while (n > 0) {
        const int64_t none = zero_rows(w, w->padded_rows), left = w->stack.ny - w->padded_rows % w->stack.ny;
        const int64_t m = vp_min64(none ? none : vp_min64(n, left), most);
        if (none)
            memset(w->padded, 0, (size_t)m * row);
        for (int64_t y = 0; y < m && !none; y++, from += row - zeros) {
            memset(w->padded + (size_t)y * row, 0, zeros);
            memcpy(w->padded + (size_t)y * row + zeros, from, row - zeros);
        }
        if (append_rows(w, m, w->padded, threads, err))
            return -1;
        w->padded_rows += m;
        n -= none ? 0 : m;
    }
    return 0;
}

int vp_writer_pad(struct vp_writer *w, const struct vp_padding *pad, struct vp_err *err)
{
    const size_t row = (size_t)w->stack.nx * vp_type_size(w->stack.type);
    w->pad = *pad;
    w->padded = vp_alloc_raw(1, row > PADDED_BYTES ? row : PADDED_BYTES, "padded rows", err);
    return w->padded ? 0 : -1;
}

/* True if copies of these rows are given to a pipe: write(2) copies on one core only. */
static bool copies(const struct vp_writer *w, int64_t n, int threads)
{
    const size_t row = w->page_bytes / (size_t)w->stack.ny;
    return w->given.on && w->given.copies && threads >= LEAST_COPIERS && !w->hold
           && row <= VP_GIVEN_COPY / 4 && (uint64_t)n * row >= 2 * COPIED_AT_ONCE;
}

/* Appends rows whose memory stays as it is: while one thread gives copies to the pipe, others make the next. Each has a
 * huge page of its own: those that met in one would all make it, and all but one for nothing. */
static int append_copies(struct vp_writer *w, int64_t n, const char *from, int threads, struct vp_err *err)
{
    const size_t row = w->page_bytes / (size_t)w->stack.ny;
    const int64_t most = (int64_t)(VP_GIVEN_COPY / row), portions = vp_div_up(n, most);
    int rc = 0;
    if (!w->copied && !(w->copied = vp_alloc_raw(2, VP_GIVEN_COPY, "copies for a pipe", err)))
        return -1;
#pragma omp parallel num_threads((int)vp_min64(threads, 1 + VP_GIVEN_COPY / COPIED_AT_ONCE))
    for (int64_t i = 0; i <= portions; i++) {
        const int64_t me = omp_get_thread_num(), team = omp_get_num_threads();
        const int64_t first = i > 0 && team > 1; /* the threads before it do not copy */
        const int64_t m = vp_max64(0, vp_min64(most, n - i * most)), before = vp_min64(most, n - (i - 1) * most);
        const size_t bytes = (size_t)m * row;
        for (size_t k = (size_t)(me - first) * COPIED_AT_ONCE; me >= first && k < bytes;
             k += (size_t)(team - first) * COPIED_AT_ONCE)
            memcpy(w->copied + (size_t)(i % 2) * VP_GIVEN_COPY + k, from + (size_t)(i * most) * row + k,
                   bytes - k < COPIED_AT_ONCE ? bytes - k : COPIED_AT_ONCE);
        if (me == 0 && i > 0 && !rc) {
            char *const copy = w->copied + (size_t)((i - 1) % 2) * VP_GIVEN_COPY;
            vp_given_begin(&w->given, copy, VP_GIVEN_COPY);
            rc = append_rows(w, before, copy, 1, err);
            rc = vp_given_end(&w->given, err) || rc ? -1 : 0;
        }
#pragma omp barrier
    }
    return rc;
}

int vp_writer_lines(struct vp_writer *w, int64_t n, const void *rows, int threads, struct vp_err *err)
{
    return w->padded              ? append_padded(w, n, rows, threads, err)
           : copies(w, n, threads) ? append_copies(w, n, rows, threads, err)
                                   : append_rows(w, n, rows, threads, err);
}

int vp_writer_pages(struct vp_writer *w, int64_t n, const void *pages, int threads, struct vp_err *err)
{
    return vp_writer_lines(w, n * (w->stack.ny - w->pad.rows), pages, threads, err);
}

int vp_writer_give_lines(struct vp_writer *w, int64_t n, void *rows, int threads, struct vp_err *err)
{
    if (w->padded || w->hold || collects(w) || w->reserved) /* they are copied first, or it is no pipe */
        return vp_writer_lines(w, n, rows, threads, err);
    vp_given_begin(&w->given, rows, (size_t)n * (w->page_bytes / (size_t)w->stack.ny));
    const int rc = append_rows(w, n, rows, threads, err);
    return vp_given_end(&w->given, err) || rc ? -1 : 0;
}

int vp_writer_give_pages(struct vp_writer *w, int64_t n, void *pages, int threads, struct vp_err *err)
{
    return vp_writer_give_lines(w, n * (w->stack.ny - w->pad.rows), pages, threads, err);
}

bool vp_writer_by_rows(const struct vp_writer *w)
{
    return !w->hold && !collects(w);
}

int vp_writer_bands(struct vp_writer *w, int64_t page, int64_t n, int64_t y0, int64_t y1, const void *rows, int threads,
                    struct vp_err *err)
{
    const struct vp_stack *s = &w->stack;
    if (!w->reserved)
        return vp_fail(err, VP_ERUN, "%s: pages of this output must come in order", w->file->name);
    if (page < 0 || n < 0 || page > s->pages - n || y0 < 0 || y1 > s->ny || y0 > y1)
        return vp_fail(err, VP_ERUN, "%s: rows %lld to %lld of page %lld: expected %lld pages of %lld rows",
                       w->file->name, (long long)y0, (long long)y1, (long long)(page + n - 1),
                       (long long)s->pages, (long long)s->ny);
    const int rc = put_bands(w, page, n, y0, y1, rows, threads, err);
    if (!rc)
        w->rows += n * (y1 - y0);
    return rc;
}

uint64_t vp_writer_bytes(struct vp_writer *w)
{
    const int64_t rows = w->rows, pages = w->written + w->n_held + rows / w->stack.ny;
    const uint64_t some = (uint64_t)(rows % w->stack.ny) * (w->page_bytes / (uint64_t)w->stack.ny);
    if (w->raw || w->compress || w->hdf5)
        return w->lead + (uint64_t)pages * w->page_bytes + some;
    const int64_t said = w->stack.pages;
    if (!w->begun && pages) { /* as if it ended here */
        w->stack.pages = pages;
        (void)lay_out(w, NULL);
        w->stack.pages = said;
    }
    return (pages ? place_end(w, pages - 1) : VP_TIFF_HEADER) + some;
}

static uint64_t samples_at(const void *writer, int64_t page)
{
    const struct vp_writer *const w = writer;
    return place_end(w, page) - w->page_bytes;
}

/* Copies the pages of the temporary file into numbered ones. */
static int write_numbered(struct vp_writer *w, struct vp_err *err)
{
    if (w->stack.pages < 0)
        w->stack.pages = w->written;
    return vp_series_write(&w->series, w->file->name, &w->stack, w->file->fd, samples_at, w, &w->options, err);
}

int vp_writer_close(struct vp_writer *w, struct vp_err *err)
{
    const struct vp_stack *s = &w->stack;
    const char *name = w->file->name;
    int rc = 0;
    if (w->line)
        rc = vp_fail(err, VP_ERUN, "%s: expected %lld rows of page %lld, got %lld", name, (long long)s->ny,
                     (long long)w->written, (long long)w->line);
    if (!rc && w->n_held) {
        if (!w->begun)
            w->stack.pages = w->n_held;
        rc = write_held(w, true, err);
    }
    const int64_t all = w->written * s->ny + w->rows;
    if (!rc && !w->joined && w->rows && all != s->pages * s->ny)
        rc = vp_fail(err, VP_ERUN, "%s: expected %lld pages of %lld rows, got %lld rows in all", name,
                     (long long)s->pages, (long long)s->ny, (long long)all);
    if (!rc && !w->joined && !w->rows && s->pages > 0 && w->written != s->pages)
        rc = too_many(w, w->written, err);
    if (!rc && !w->joined && !all && (!w->raw || w->format))
        rc = vp_fail(err, VP_ERUN, "%s: a TIFF needs at least one page, got none", name);
    if (!rc && w->lead && s->pages < 0) {
        w->stack.pages = w->written;
        rc = vp_format_lead(w->format, &w->stack, w->file, true, &w->lead, err);
    }
    if (w->hdf5 && vp_h5_writer_close(w->hdf5, rc ? NULL : err))
        rc = -1;
    w->hdf5 = NULL;
    if (w->libtiff && vp_libtiff_writer_close(w->libtiff, err))
        rc = -1;
    w->libtiff = NULL;
    if (rc) {
        vp_writer_abort(w);
        return -1;
    }
    vp_reserved_close(w->reserved);
    if (w->numbered) {
        w->reserved = NULL;
        rc = write_numbered(w, err);
        vp_outfile_abort(w->file);
    } else {
        rc = vp_outfile_close(w->file, err);
    }
    release(w);
    return rc;
}

void vp_writer_abort(struct vp_writer *w)
{
    if (!w)
        return;
    if (w->libtiff)
        (void)vp_libtiff_writer_close(w->libtiff, NULL);
    (void)vp_h5_writer_close(w->hdf5, NULL);
    vp_reserved_close(w->reserved);
    vp_outfile_abort(w->file);
    release(w);
}
