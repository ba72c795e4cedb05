/* SPDX-License-Identifier: BSD-3-Clause */
/* Samples alone from a pipe, and TIFF: any whose directories and strips come in the order in which they are needed. */
#include "base/err.h"
#include "base/size.h"
#include "stack/axes.h"
#include "stack/foreign.h"
#include "stack/source.h"
#include "stack/tiff.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct stream {
    struct vp_source source;
    struct vp_tiff tiff; /* tiff.page counts the directories read */
    struct vp_input in;
    struct vp_ifd ifd; /* of page `page` */
    int64_t page; /* the page whose directory was read last; -1: none */
    int64_t row; /* rows of it already read */
    int64_t images; /* pages that lie behind one directory (large ImageJ stacks), else 1 */
    bool bare; /* no directory at all: `images` may be too many */
    uint64_t end; /* past the last byte that any directory named */
    bool announced; /* page_total of page 0 was believed */
};

static int cut_page(const struct stream *s, uint64_t got, struct vp_err *err)
{
    return vp_fail(err, VP_ERUN, "%s: page %lld: truncated: expected %zu bytes, got %llu", s->source.name,
                   (long long)s->page, vp_page_bytes(&s->source.stack), (unsigned long long)got);
}

static int fetch(struct vp_tiff *t, uint64_t offset, void *buf, size_t n, struct vp_err *err)
{
    struct stream *s = (struct stream *)((char *)t - offsetof(struct stream, tiff));
    if (offset < s->in.position)
        return 1;
    const uint64_t gap = offset - s->in.position;
    const int64_t skipped = vp_input_skip(&s->in, gap, err);
    if (skipped < 0)
        return -1;
    const int64_t got = (uint64_t)skipped == gap ? vp_input_read(&s->in, buf, n, err) : 0;
    if (got < 0)
        return -1;
    if ((size_t)got == n)
        return 0;
    if (offset == 0 && s->in.position == 0)
        return vp_fail(err, VP_ERUN, "%s: empty: expected a TIFF", t->name),
               vp_hint(err, "the program that should have written it may have failed");
    if (offset < 16 && t->page < 0)
        return vp_fail(err, VP_ERUN, "%s: truncated: expected a TIFF header, got %llu bytes", t->name,
                       (unsigned long long)s->in.position);
    return vp_tiff_fail(t, err, "truncated: expected its directory up to byte %llu, got %llu bytes",
                        (unsigned long long)(offset + n), (unsigned long long)s->in.position);
}

/* What lies behind the samples that come next, if it is not far behind. */
static int ahead(struct vp_tiff *t, uint64_t offset, void *buf, size_t n, struct vp_err *err)
{
    enum { FAR = 16 << 20 };
    struct stream *s = (struct stream *)((char *)t - offsetof(struct stream, tiff));
    const uint64_t most = vp_memory_most() / 16 < FAR ? vp_memory_most() / 16 : FAR;
    if (offset < s->in.position || offset - s->in.position > most || n > most - (offset - s->in.position))
        return 1;
    const size_t want = (size_t)(offset - s->in.position) + n;
    const unsigned char *start;
    const int64_t got = vp_input_peek(&s->in, &start, want, err);
    if (got < 0)
        return -1;
    if ((size_t)got < want) /* cut: the samples will tell */
        return 1;
    memcpy(buf, start + want - n, n);
    s->source.need = want > s->source.need ? want : s->source.need;
    return 0;
}

static int out_of_order(const struct stream *s, const char *what, struct vp_err *err)
{
    vp_fail(err, VP_ERUN, "%s: TIFF is not in stream order (%s)", s->source.name, what);
    return vp_hint(err, "give the file name instead, or use --spool");
}

/* 0; 1: there is none but of thumbnails and masks, which are passed over; -1. */
static int read_directory(struct stream *s, uint64_t offset, bool first, struct vp_err *err)
{
    vp_ifd_free(&s->ifd);
    s->tiff.page = s->page + 1;
    const int rc = vp_tiff_ifd(&s->tiff, offset, first, &s->ifd, err);
    char what[80];
    snprintf(what, sizeof what, "page %lld data precedes its directory", (long long)s->tiff.page);
    if (rc == 1) {
        snprintf(what, sizeof what, "the directory of page %lld precedes other data",
                 (long long)s->tiff.page);
        return out_of_order(s, what, err);
    }
    if (rc)
        return -1;
    if (s->ifd.minor && !first) {
        s->end = s->ifd.end > s->end ? s->ifd.end : s->end;
        for (int64_t i = 0; i < s->ifd.n_strips; i++)
            if (s->ifd.offset[i] <= INT64_MAX && s->ifd.count[i] <= INT64_MAX)
                s->end = vp_max64((int64_t)s->end, (int64_t)(s->ifd.offset[i] + s->ifd.count[i]));
        return s->ifd.next ? read_directory(s, s->ifd.next, false, err) : 1;
    }
    const struct vp_form *form = &s->ifd.form;
    const char *kind = !vp_ifd_plain(&s->ifd) ? (s->ifd.tiled                      ? "tiled"
                                                 : form->compression != CODEC_NONE ? "compressed"
                                                 : s->ifd.fill_order != 1          ? "bit-reversed"
                                                 : form->channels > 1              ? "colour"
                                                 : form->orientation != 1          ? "turned"
                                                                                   : "packed")
                       : s->ifd.minor && first && s->ifd.next ? "it is a thumbnail: such a" : NULL;
    if (vp_ifd_problem(&s->tiff, &s->ifd, err))
        return -1;
    if (kind) {
        vp_tiff_fail(&s->tiff, err, "%s TIFF cannot be read from a pipe", kind);
        return vp_hint(err, "give the file name instead, or use --spool");
    }
    if (vp_ifd_check_strips(&s->tiff, &s->ifd, err))
        return -1;
    uint64_t at = s->in.position;
    for (int64_t i = 0; i < s->ifd.n_strips; i++) {
        if (s->ifd.offset[i] < at)
            return out_of_order(s, what, err);
        at = s->ifd.offset[i] + s->ifd.count[i];
    }
    if (s->ifd.end > s->end)
        s->end = s->ifd.end;
    s->page++;
    s->row = 0;
    return 0;
}

/* Bytes of rows [row, y1) into buf (NULL: dropped), strip by strip. */
static int read_rows(struct stream *s, int64_t y1, void *buf, struct vp_err *err)
{
    const struct vp_ifd *f = &s->ifd;
    const size_t row_bytes = (size_t)f->form.nx * vp_type_size(f->form.type);
    char *p = buf;
    while (s->row < y1) {
        const int64_t strip = s->row / f->rows_per_strip, in_strip = s->row % f->rows_per_strip;
        int64_t rows = vp_ifd_strip_rows(f, strip) - in_strip;
        rows = rows < y1 - s->row ? rows : y1 - s->row;
        const uint64_t before = (uint64_t)s->row * row_bytes,
                       gap = f->offset[strip] + (uint64_t)in_strip * row_bytes - s->in.position;
        const size_t n = (size_t)rows * row_bytes;
        int64_t got = vp_input_skip(&s->in, gap, err);
        if (got < 0)
            return -1;
        if ((uint64_t)got < gap)
            return cut_page(s, before, err);
        got = p ? vp_input_read(&s->in, p, n, err) : vp_input_skip(&s->in, n, err);
        if (got < 0)
            return -1;
        if ((size_t)got < n)
            return cut_page(s, before + (uint64_t)got, err);
        s->source.bytes = s->in.position;
        s->row += rows;
        p = p ? p + n : NULL;
    }
    return 0;
}

/* A page of a one-directory ImageJ stack: like the one before it, right behind its samples. */
static void follow(struct stream *s)
{
    s->ifd.rows_per_strip = s->ifd.form.ny;
    s->ifd.n_strips = 1;
    s->ifd.offset[0] = s->in.position;
    s->page++;
    s->row = 0;
}

/* After the last page: nothing but what a directory named. */
static int check_end(struct stream *s, struct vp_err *err)
{
    const struct vp_stack *k = &s->source.stack;
    if (s->announced && k->pages != s->page + 1)
        return vp_fail(err, VP_ERUN, "%s: expected %lld pages, got %lld", s->source.name, (long long)k->pages,
                       (long long)s->page + 1);
    const int64_t named = s->end > s->in.position ? vp_input_skip(&s->in, s->end - s->in.position, err) : 0;
    if (named < 0)
        return -1;
    if (s->end > s->in.position)
        return vp_fail(err, VP_ERUN, "%s: truncated: its directories name bytes up to %llu, got %llu", s->source.name,
                       (unsigned long long)s->end, (unsigned long long)s->in.position);
    const unsigned char *p;
    const uint64_t at = s->in.position;
    const int64_t n = vp_input_peek(&s->in, &p, 1, err);
    if (n < 0)
        return -1;
    if (n > 0) {
        vp_fail(err, VP_ERUN, "%s: trailing data after page %lld, at byte %llu", s->source.name,
                (long long)s->page, (unsigned long long)at);
        return vp_hint(err, "TIFF streams cannot be joined with cat(1), use img-cat");
    }
    return 0;
}

/* Does a page without a directory follow? */
static int more(struct stream *s, struct vp_err *err)
{
    const unsigned char *p;
    const int64_t n = vp_input_peek(&s->in, &p, 1, err), pages = s->source.stack.pages, next = s->page + 1;
    if (n < 0)
        return -1;
    if (pages > 0 && next >= pages && n > 0)
        return vp_fail(err, VP_ERUN, "%s: trailing data: expected %lld pages of %zu bytes, got more", s->source.name,
                       (long long)pages, vp_page_bytes(&s->source.stack));
    if (pages > 0 && next < pages && n == 0)
        return vp_fail(err, VP_ERUN, "%s: expected %lld pages, got %lld", s->source.name, (long long)pages,
                       (long long)next);
    return n > 0;
}

static int begin(struct vp_source *source, int64_t page, struct vp_err *err)
{
    struct stream *s = (struct stream *)source;
    while (s->page < page) {
        if (read_rows(s, s->ifd.form.ny, NULL, err))
            return -1;
        const int rc = s->bare ? more(s, err) : 1;
        if (rc <= 0)
            return rc;
        if (s->page + 1 < s->images)
            follow(s);
        else if (!s->ifd.next)
            return check_end(s, err);
        else {
            const int none = read_directory(s, s->ifd.next, false, err);
            if (none == 1)
                return check_end(s, err);
            if (none || vp_ifd_check_page(&s->tiff, &s->ifd, &source->stack, 1, err))
                return -1;
        }
        if (s->announced && s->page >= source->stack.pages)
            return vp_fail(err, VP_ERUN, "%s: expected %lld pages, got more", source->name,
                           (long long)source->stack.pages);
    }
    return 1;
}

static int rows(struct vp_source *source, int64_t page, int64_t y0, int64_t y1, void *buf, struct vp_err *err)
{
    struct stream *s = (struct stream *)source;
    if (page != s->page || y0 < s->row)
        return vp_fail(err, VP_ERUN, "%s: page %lld cannot be read again from a pipe", source->name,
                       (long long)page);
    if (read_rows(s, y0, NULL, err) || read_rows(s, y1, buf, err))
        return -1;
    const struct vp_form *form = &s->ifd.form;
    const size_t n = (size_t)(y1 - y0) * (size_t)form->nx;
    if (s->tiff.swap)
        vp_swap_samples(buf, vp_type_size(form->type), n);
    if (form->invert)
        vp_form_invert(buf, form->type, n);
    return 0;
}

static void close_stream(struct vp_source *source)
{
    struct stream *s = (struct stream *)source;
    close(s->in.fd);
    vp_input_free(&s->in);
    vp_ifd_free(&s->ifd);
    vp_stack_free(&source->stack);
    free(source->name);
    free(s);
}

/* NULL without memory. */
static struct stream *new_stream(int fd, const char *name, struct vp_err *err)
{
    struct stream *s = calloc(1, sizeof *s);
    char *copy = strdup(name);
    if (!s || !copy || vp_input_init(&s->in, fd, copy, err)) {
        free(s);
        free(copy);
        close(fd);
        vp_fail(err, VP_ERESOURCE, "%s: not enough memory", name);
        return NULL;
    }
    s->source = (struct vp_source){
        .name = copy, .begin = begin, .rows = rows, .close = close_stream, .by_rows = true, .channels = 1};
    s->tiff = (struct vp_tiff){.name = copy, .page = -1, .at = fetch, .ahead = ahead, .forward = true};
    s->page = -1;
    return s;
}

int vp_source_stream_of(struct vp_source **out, int fd, const char *name, const struct vp_samples_at *r, size_t hold,
                        struct vp_err *err)
{
    struct stream *s = new_stream(fd, name, err);
    if (!s)
        return -1;
    struct vp_stack *k = &s->source.stack;
    *k = r->stack;
    s->ifd = (struct vp_ifd){.form = {.nx = k->nx, .ny = k->ny, .type = k->type},
                             .offset = calloc(1, sizeof *s->ifd.offset)};
    s->tiff.swap = r->swap;
    s->images = INT64_MAX;
    s->bare = true;
    int rc = s->ifd.offset ? 0 : vp_fail(err, VP_ERESOURCE, "%s: not enough memory", name);
    const int64_t got = rc ? 0 : vp_input_skip(&s->in, r->skip, err);
    if (!rc && (got < 0 || (uint64_t)got < r->skip))
        rc = vp_fail(err, VP_ERUN, "%s: truncated: expected %llu bytes to skip, got %lld", name,
                     (unsigned long long)r->skip, (long long)got);
    const size_t page = vp_page_bytes(k);
    const bool look = k->pages < 0 && page <= hold;
    const unsigned char *p;
    const int64_t n = rc ? -1 : vp_input_peek(&s->in, &p, look ? page + 1 : 1, err);
    if (n <= 0) {
        rc = n < 0 ? -1 : vp_fail(err, VP_ERUN, "%s: empty: expected pages of %zu bytes", name, page);
        close_stream(&s->source);
        return rc;
    }
    if (look && (size_t)n == page)
        k->pages = 1;
    follow(s);
    *out = &s->source;
    return 0;
}

int vp_source_stream(struct vp_source **out, int fd, const char *name, struct vp_err *err)
{
    struct stream *s = new_stream(fd, name, err);
    if (!s)
        return -1;
    const unsigned char *start;
    const int64_t n = vp_input_peek(&s->in, &start, 8, err);
    uint64_t first;
    if (n < 0 ||
        (n >= 2 && n < 8 && memcmp(start, "II", 2) && memcmp(start, "MM", 2) &&
         vp_not_tiff(name, start, (size_t)n, err)) ||
        vp_tiff_header(&s->tiff, &first, err) || read_directory(s, first, true, err) ||
        vp_ifd_stack(&s->tiff, &s->ifd, &s->source.stack, err)) {
        close_stream(&s->source);
        return -1;
    }
    s->source.lost = s->ifd.lost;
    s->source.need += s->ifd.text_cost;
    s->images = s->ifd.next ? 1 : vp_imagej_images(s->ifd.text ? s->ifd.text : "", s->ifd.text_len);
    if (!s->ifd.next) {
        s->source.stack.pages = s->images;
    } else if (s->ifd.page_number == 0 && s->ifd.page_total > 0) {
        s->source.stack.pages = s->ifd.page_total;
        s->announced = true;
    }
    if (vp_axes_settle(&s->source.stack)) {
        close_stream(&s->source);
        return vp_fail(err, VP_ERESOURCE, "%s: not enough memory for its metadata", name);
    }
    *out = &s->source;
    return 0;
}
