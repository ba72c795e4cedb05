/* SPDX-License-Identifier: BSD-3-Clause */
/* TIFF, or samples alone, from files that can be read anywhere and from pipes.
 *
 * Of a file all directories are walked at open, so the number of pages and any cut are known before work starts. Plain
 * strips are read straight to where they belong; pages that need a decoder go through libtiff. Of a pipe there is one
 * page at a time; its directories and strips must come in the order in which they are needed. */
#include "stack/source.h"
#include "base/err.h"
#include "base/size.h"
#include "stack/axes.h"
#include "stack/foreign.h"
#include "stack/libtiff.h"
#include "stack/tiff.h"
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* The most by which a decoder is believed to expand: far above deflate (1032) and LZW, and low enough that a
 * small file cannot claim a terabyte. */
enum { EXPANSION = 1 << 16 };

/* Where the samples of an image are. */
struct page {
    uint64_t ifd : 63;
    uint64_t apart : 1; /* its strips: look at the directory again */
    uint64_t data : 62; /* or all of them in one piece here */
    uint64_t sparse : 1; /* some are left out */
    uint64_t invert : 1; /* zero is white */
};

struct source {
    struct vp_source source;
    struct vp_input in;
    struct vp_tiff tiff;
    struct page *pages; /* of a file one an image, which is `channels` pages of the stack; of a pipe that of `page` */
    int64_t images; /* pages that lie one behind the other at pages[0] (ImageJ's, or samples alone), else 1 */
    int64_t announced; /* images that the first page speaks of, or 0 */
    uint16_t announcer; /* the tag that does */
    struct vp_form form; /* of the first page */
    bool unlike; /* the last image that could not be added is not like the first, or of no form that is read */
    int64_t page; /* whose directory is in ifd; -1: none */
    struct vp_ifd ifd;
    /* of files */
    struct vp_libtiff_reader *libtiff;
    pthread_mutex_t lock; /* of ifd */
    /* of pipes */
    bool bare; /* no directory at all: `images` may be too many */
    bool numbered; /* page_total of page 0 was believed */
    uint64_t end; /* past the last byte that any directory named */
};

static int cut_page(const struct source *s, int64_t page, uint64_t got, struct vp_err *err)
{
    return vp_page_fail(s->in.name, page, err, "truncated: expected %zu bytes, got %llu",
                        vp_page_bytes(&s->source.stack), (unsigned long long)got);
}

/* --- where pages are --------------------------------------------------------------------------------- */

static uint64_t before(uint64_t at, uint64_t n, uint64_t end)
{
    return at >= end ? 0 : n < end - at ? n : end - at;
}

/* Bytes of a page's strips that lie before `end`. */
static uint64_t inside(const struct vp_ifd *d, uint64_t end)
{
    uint64_t n = 0;
    for (int64_t i = 0; i < d->n_strips; i++)
        n += before(d->offset[i], d->count[i], end);
    return n;
}

/* Refuse fewer images than the first page speaks of. */
static int check_announced(const struct source *s, int64_t images, struct vp_err *err)
{
    if (images >= s->announced)
        return 0;
    const char *const by = s->announcer == TAG_UIC2 ? "tag of MetaMorph"
                           : s->announcer == TAG_NIH_IMAGE ? "tag of NIH Image" : "description";
    vp_fail(err, VP_ERUN, "%s: expected %lld images, as its %s says, its directories hold %lld", s->in.name,
            (long long)s->announced, by, (long long)images);
    return vp_hint(err, "if those are all, take the tag out of the file: tiffset -u %u FILE", s->announcer);
}

/* Check of a page that needs libtiff that what is to be decoded is inside the file, and can hold what it claims. */
static int check_coded(struct source *s, const struct vp_ifd *d, struct page *p, struct vp_err *err)
{
    const char *kind = d->form.compression == CODEC_NONE ? "samples" : "compressed data";
    const uint64_t size = s->in.size;
    uint64_t have = 0;
    for (int64_t i = 0; i < d->n_strips; i++) {
        if (d->count[i] && (d->offset[i] > size || d->count[i] > size - d->offset[i]))
            return vp_tiff_fail(&s->tiff, err, "truncated: expected %s up to byte %llu, got %llu bytes", kind,
                                (unsigned long long)(d->offset[i] + d->count[i]), (unsigned long long)size);
        have += d->count[i];
    }
    have = have && !d->sparse ? have : size;
    p->sparse = d->sparse;
    const double bytes = (double)vp_form_row_bytes(&d->form, d->form.nx) * (double)d->form.ny;
    if (bytes / EXPANSION > (double)have)
        return vp_tiff_fail(&s->tiff, err, "%llu bytes of %s cannot hold %.0f", (unsigned long long)have, kind, bytes);
    s->source.by_rows = false;
    for (int whole = 0; whole < 2; whole++) {
        const uint64_t need = vp_libtiff_need(d, whole);
        uint64_t *const most = &s->source.decoding[whole];
        *most = need > *most ? need : *most;
    }
    return 0;
}

/* Why a pipe cannot give the image of a directory; NULL if it can. */
static const char *unfit(const struct vp_ifd *d)
{
    const struct vp_form *form = &d->form;
    return vp_ifd_plain(d)                   ? (d->minor && d->next ? "it is a thumbnail: such a" : NULL)
           : d->tiled                        ? "tiled"
           : form->compression != CODEC_NONE ? "compressed"
           : d->sparse                       ? "sparse"
           : d->fill_order != 1              ? "bit-reversed"
           : form->channels > 1              ? "colour"
           : form->orientation != 1          ? "turned"
                                             : "packed";
}

/* Strips as they are: fills in where they are, in a file inside of it, in a pipe behind each other. */
static int place(struct source *s, const struct vp_ifd *d, struct page *p, struct vp_err *err)
{
    if (vp_ifd_check_strips(&s->tiff, d, err))
        return -1;
    const uint64_t there = s->in.anywhere ? inside(d, s->in.size) : 0;
    if (s->in.anywhere && there < vp_page_bytes(&s->source.stack))
        return cut_page(s, s->tiff.page, there, err);
    uint64_t at = s->in.position;
    p->apart = 0;
    for (int64_t i = 0; i < d->n_strips; i++) {
        if (!s->in.anywhere && d->offset[i] < at)
            return vp_tiff_disorder(&s->tiff, false, err);
        p->apart = p->apart || (i > 0 && d->offset[i] != at);
        at = d->offset[i] + d->count[i];
    }
    p->data = d->offset[0];
    p->invert = d->form.invert;
    return 0;
}

/* The image of a directory, image tiff.page, as a page of the stack. */
static int add_image(struct source *s, struct vp_ifd *d, struct page *p, struct vp_err *err)
{
    struct vp_source *source = &s->source;
    const bool first = s->tiff.page == s->tiff.first;
    s->unlike = first ? vp_ifd_stack(&s->tiff, d, &source->stack, err)
                      : vp_ifd_check_page(&s->tiff, d, &source->stack, source->channels, err);
    if (s->unlike)
        return -1;
    if (!s->in.anywhere && unfit(d)) {
        vp_tiff_fail(&s->tiff, err, "%s TIFF cannot be read from a pipe", unfit(d));
        return vp_hint(err, "give the file name instead, or use --spool");
    }
    if (vp_ifd_plain(d) ? place(s, d, p, err) : check_coded(s, d, p, err))
        return -1;
    if (!first)
        return 0;
    s->form = d->form;
    source->channels = d->form.channels;
    source->lost = d->lost;
    source->need = d->text_cost + s->tiff.need;
    s->announced = d->images;
    s->announcer = d->announcer;
    /* one directory, N pages after each other: ImageJ's way around 4 GiB, and MetaMorph's way */
    if (!d->next && d->images > 1 && vp_ifd_plain(d) && !p->apart)
        s->images = d->images;
    return 0;
}

/* The directory of the next image of a pipe, at `at`: 1; 0: there is none but of thumbnails and masks, which are passed
 * over; -1. */
static int next_directory(struct source *s, uint64_t at, struct vp_err *err)
{
    struct vp_ifd *d = &s->ifd;
    s->tiff.page = s->page + 1;
    for (; at; at = d->next) {
        vp_ifd_free(d);
        if (vp_tiff_ifd(&s->tiff, at, s->page < 0, d, err))
            return -1;
        const bool passed = d->minor && s->page >= 0;
        if (!passed && add_image(s, d, s->pages, err))
            return -1;
        s->end = d->end > s->end ? d->end : s->end;
        if (!passed) {
            s->page++;
            return 1;
        }
        for (int64_t i = 0; i < d->n_strips; i++)
            if (d->offset[i] <= INT64_MAX && d->count[i] <= INT64_MAX && d->offset[i] + d->count[i] > s->end)
                s->end = d->offset[i] + d->count[i];
    }
    return 0;
}

static int open_pipe(struct source *s, uint64_t first, struct vp_err *err)
{
    if (vp_tiff_keep_front(&s->tiff, first, err) || next_directory(s, first, err) < 0)
        return -1;
    free(s->tiff.front);
    s->tiff.front = NULL;
    s->numbered = s->ifd.next && s->ifd.page_number == 0 && s->ifd.page_total > 0;
    s->source.stack.pages = s->numbered ? s->ifd.page_total : s->ifd.next ? -1 : s->images;
    return s->ifd.next ? 0 : check_announced(s, s->images, err);
}

static int grow(struct source *s, int64_t n, int64_t *room, struct vp_err *err)
{
    if (n < *room)
        return 0;
    const int64_t more = 2 * *room;
    if (vp_memory_claim((uint64_t)more * sizeof *s->pages, "the table of its pages", s->in.name, err))
        return -1;
    struct page *pages = realloc(s->pages, (size_t)more * sizeof *pages);
    if (!pages)
        return vp_fail(err, VP_ERESOURCE, "%s: not enough memory for a table of %lld pages", s->in.name,
                       (long long)more);
    s->pages = pages;
    *room = more;
    return 0;
}

/* Make the stack of the images in s->pages, where `room` are allocated. */
static int finish(struct source *s, int64_t images, int64_t room, struct vp_err *err)
{
    struct vp_stack *const stack = &s->source.stack;
    stack->pages = images * s->source.channels * s->images;
    s->source.need += (uint64_t)room * sizeof *s->pages;
    const uint64_t page = vp_page_bytes(stack), there = s->images > 1 ? s->in.size - s->pages[0].data : 0;
    if (there / page < (uint64_t)s->images && s->images > 1)
        return cut_page(s, (int64_t)(there / page), there % page, err);
    if (s->form.channels > 1 && vp_form_axes(&stack->meta, &s->form, images))
        return vp_fail(err, VP_ERESOURCE, "%s: not enough memory for its metadata", s->in.name);
    return 0;
}

/* Options of going along the directories of a file. */
enum walk {
    IMAGES, /* all but thumbnails and masks, which are to be alike */
    ALL,    /* all, if there are no others */
    LISTED  /* those of IMAGES are only listed: how many pages each is, in its place `data` */
};

/* Go along all directories of a file. */
static int walk(struct source *s, uint64_t first, enum walk how, struct vp_err *err)
{
    const int64_t *const n = &s->tiff.page;
    int64_t room = 1, power = 1, lap = 0;
    uint64_t mark = 0; /* Brent's cycle finder: an offset seen at a power of two */
    struct vp_ifd d = {0};
    int rc = 0;
    s->tiff.page = 0;
    for (uint64_t at = first; at && !rc; at = d.next) {
        if (at == mark) {
            rc = vp_tiff_fail(&s->tiff, err, "the chain of directories returns to byte %llu", (unsigned long long)at);
            break;
        }
        if (++lap == power) {
            mark = at;
            power *= 2;
            lap = 0;
        }
        vp_ifd_free(&d);
        rc = grow(s, *n, &room, err) || vp_tiff_ifd(&s->tiff, at, *n == 0, &d, err) ? -1 : 0;
        if (rc || (d.minor && how != ALL))
            continue;
        s->pages[*n] = (struct page){.ifd = at, .data = (uint64_t)d.form.channels};
        rc = how == LISTED ? 0 : add_image(s, &d, &s->pages[*n], err);
        s->tiff.page += !rc;
    }
    vp_ifd_free(&d);
    if (!rc && *n == 0 && how == IMAGES)
        return walk(s, first, ALL, err);
    if (rc || how == LISTED)
        return rc;
    return check_announced(s, *n * s->images, err) ? -1 : finish(s, *n, room, err);
}

/* Ask which of the n images that are listed are wanted. */
static int choose(const struct source *s, const struct vp_tiff_options *o, int64_t n, bool *keep, struct vp_err *err)
{
    int64_t *const start = vp_alloc_raw((size_t)n + 1, sizeof *start, "a list of pages", err);
    if (!start)
        return -1;
    start[0] = 0;
    for (int64_t i = 0; i < n; i++)
        start[i + 1] = start[i] + (int64_t)s->pages[i].data;
    const int rc = o->pick(o->picks, s->in.name, start, n, keep, err);
    free(start);
    return rc;
}

/* Read those of images that are not all alike that are wanted, which must be. */
static int walk_picked(struct source *s, uint64_t first, const struct vp_tiff_options *o, struct vp_err *err)
{
    struct vp_source *const source = &s->source;
    vp_stack_free(&source->stack);
    *source = (struct vp_source){.name = source->name, .seekable = true, .by_rows = true, .channels = 1};
    *err = (struct vp_err)VP_ERR_INIT;
    s->images = 1;
    if (walk(s, first, LISTED, err))
        return -1;
    const int64_t n = s->tiff.page;
    int64_t kept = 0;
    bool *const keep = vp_alloc((size_t)n, sizeof *keep, "a list of images", err);
    struct vp_ifd d = {0};
    int rc = keep ? choose(s, o, n, keep, err) : -1;
    for (int64_t i = 0; !rc && i < n; i++) {
        if (!keep[i])
            continue;
        struct page p = {.ifd = s->pages[i].ifd};
        s->tiff.page = i;
        s->tiff.first = kept ? s->tiff.first : i;
        rc = vp_tiff_ifd(&s->tiff, p.ifd, !kept, &d, err) || add_image(s, &d, &p, err) ? -1 : 0;
        vp_ifd_free(&d);
        s->pages[kept++] = p;
    }
    free(keep);
    s->tiff.first = 0;
    return rc || finish(s, kept, n, err) ? -1 : 0;
}

/* --- going on in a pipe ------------------------------------------------------------------------------ */

/* To the end of the page. */
static int pass_page(struct source *s, struct vp_err *err)
{
    const struct page *p = s->pages;
    const uint64_t bytes = vp_page_bytes(&s->source.stack);
    const int64_t last = s->ifd.n_strips - 1;
    const uint64_t stop = p->apart ? s->ifd.offset[last] + s->ifd.count[last] : p->data + bytes;
    if (vp_input_at(&s->in, stop, NULL, 0, err) < 0)
        return -1;
    const uint64_t end = s->in.position;
    return end < stop ? cut_page(s, s->page, p->apart ? inside(&s->ifd, end) : before(p->data, bytes, end), err) : 0;
}

/* After the last page: nothing but what a directory named. */
static int check_end(struct source *s, struct vp_err *err)
{
    const struct vp_stack *k = &s->source.stack;
    const unsigned char *p;
    if (s->numbered && k->pages != s->page + 1)
        return vp_fail(err, VP_ERUN, "%s: expected %lld pages, got %lld", s->in.name, (long long)k->pages,
                       (long long)s->page + 1);
    if (check_announced(s, s->page + 1, err))
        return -1;
    if (vp_input_at(&s->in, s->end, NULL, 0, err) < 0)
        return -1;
    const unsigned long long at = s->in.position;
    if (s->end > at)
        return vp_fail(err, VP_ERUN, "%s: truncated: its directories name bytes up to %llu, got %llu", s->in.name,
                       (unsigned long long)s->end, at);
    const int64_t n = vp_input_peek(&s->in, &p, 1, err);
    if (n <= 0)
        return (int)n;
    vp_fail(err, VP_ERUN, "%s: trailing data after page %lld, at byte %llu", s->in.name, (long long)s->page, at);
    return vp_hint(err, "TIFF streams cannot be joined with cat(1), use img-cat");
}

/* Does a page without a directory follow? */
static int more(struct source *s, struct vp_err *err)
{
    const unsigned char *p;
    const int64_t n = vp_input_peek(&s->in, &p, 1, err), pages = s->source.stack.pages, next = s->page + 1;
    if (n < 0)
        return -1;
    if (pages > 0 && next >= pages && n > 0)
        return vp_fail(err, VP_ERUN, "%s: trailing data: expected %lld pages of %zu bytes, got more", s->in.name,
                       (long long)pages, vp_page_bytes(&s->source.stack));
    if (pages > 0 && next < pages && n == 0)
        return vp_fail(err, VP_ERUN, "%s: expected %lld pages, got %lld", s->in.name, (long long)pages,
                       (long long)next);
    return n > 0;
}

int vp_source_begin(struct vp_source *source, int64_t page, struct vp_err *err)
{
    struct source *s = (struct source *)source;
    if (source->seekable)
        return page < source->stack.pages;
    while (s->page < page) {
        int rc = pass_page(s, err) ? -1 : s->bare ? more(s, err) : 1;
        if (rc <= 0)
            return rc;
        if (s->page + 1 < s->images) { /* like the one before it, right behind its samples */
            s->pages->data = s->in.position;
            s->page++;
        } else if ((rc = next_directory(s, s->ifd.next, err)) <= 0) {
            return rc < 0 ? -1 : check_end(s, err);
        }
        if (s->numbered && s->page >= source->stack.pages)
            return vp_fail(err, VP_ERUN, "%s: expected %lld pages, got more", source->name,
                           (long long)source->stack.pages);
    }
    return 1;
}

/* --- samples ----------------------------------------------------------------------------------------- */

/* Rows out of strips of `per` rows. */
static int read_strips(struct source *s, int64_t page, const uint64_t *offset, int64_t per, int64_t y0, int64_t y1,
                       char *buf, struct vp_err *err)
{
    const size_t row = (size_t)s->source.stack.nx * vp_type_size(s->source.stack.type);
    for (int64_t y = y0; y < y1;) {
        const int64_t in_strip = y % per, m = vp_min64(per - in_strip, y1 - y);
        const uint64_t at = offset[y / per] + (uint64_t)in_strip * row;
        const size_t n = (size_t)m * row;
        if (!s->in.anywhere && at < s->in.position)
            return vp_fail(err, VP_ERUN, "%s: page %lld cannot be read again from a pipe", s->in.name, (long long)page);
        const int64_t got = vp_input_at(&s->in, at, buf, n, err);
        if (got < 0)
            return -1;
        if ((size_t)got < n && !s->in.anywhere)
            return pass_page(s, err);
        if ((size_t)got < n) /* it was whole at open */
            return vp_page_fail(s->in.name, page, err,
                                "truncated while it is read: expected %zu bytes at %llu, got %lld", n,
                                (unsigned long long)at, (long long)got);
        if (s->in.anywhere && s->in.read)
            *s->in.read += n;
        buf += n;
        y += m;
    }
    return 0;
}

/* Have the directory of `page` in s->ifd. */
static int load_directory(struct source *s, int64_t page, struct vp_err *err)
{
    if (s->page == page)
        return 0;
    vp_ifd_free(&s->ifd);
    s->page = -1;
    s->tiff.page = page;
    if (vp_tiff_ifd(&s->tiff, s->pages[page].ifd, false, &s->ifd, err) ||
        vp_ifd_check_page(&s->tiff, &s->ifd, &s->source.stack, 1, err) ||
        vp_ifd_check_strips(&s->tiff, &s->ifd, err))
        return -1;
    s->page = page;
    return 0;
}

/* Rows of a page whose strips are apart. */
static int read_apart(struct source *s, int64_t page, int64_t y0, int64_t y1, char *buf, struct vp_err *err)
{
    uint64_t *offset = NULL;
    int64_t per = 1, first = 0;
    pthread_mutex_lock(&s->lock);
    if (!load_directory(s, page, err)) { /* a copy of what is needed: the samples are read without the lock */
        per = s->ifd.rows_per_strip;
        first = y0 / per;
        const size_t n = (size_t)((y1 - 1) / per + 1 - first);
        offset = vp_alloc_raw(n, sizeof *offset, "a strip table", err);
        if (offset)
            memcpy(offset, s->ifd.offset + first, n * sizeof *offset);
    }
    pthread_mutex_unlock(&s->lock);
    const int rc = offset ? read_strips(s, page, offset, per, y0 - first * per, y1 - first * per, buf, err) : -1;
    free(offset);
    return rc;
}

/* Reverse the bytes of n samples of 2, 4 or 8 bytes in place. */
static void swap(void *buf, size_t size, size_t n)
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

int vp_source_rows(struct vp_source *source, int64_t page, int64_t y0, int64_t y1, void *buf, struct vp_err *err)
{
    struct source *s = (struct source *)source;
    const struct vp_stack *k = &source->stack;
    if (!source->by_rows) { /* some page needs libtiff */
        if (!s->libtiff &&
            vp_libtiff_reader_open(&s->libtiff, s->in.fd, s->in.name, k, &s->form, s->in.read, err))
            return -1;
        const struct page *const image = &s->pages[page / source->channels];
        return vp_libtiff_reader_rows(s->libtiff, image->ifd, image->sparse, page, y0, y1, buf, err);
    }
    const bool table = source->seekable && s->images == 1;
    const struct page *p = &s->pages[table ? page : 0];
    const uint64_t at = p->data + (source->seekable && !table ? (uint64_t)page * vp_page_bytes(k) : 0);
    if (p->apart ? read_apart(s, page, y0, y1, buf, err) : read_strips(s, page, &at, k->ny, y0, y1, buf, err))
        return -1;
    const size_t n = (size_t)(y1 - y0) * (size_t)k->nx;
    if (s->tiff.swap)
        swap(buf, vp_type_size(k->type), n);
    if (p->invert)
        vp_form_invert(buf, k->type, n);
    return 0;
}

/* --- opening and closing ----------------------------------------------------------------------------- */

void vp_source_rest(struct vp_source *source)
{
    struct source *s = (struct source *)source;
    vp_libtiff_reader_close(s->libtiff); /* with all that it read and decoded */
    s->libtiff = NULL;
}

void vp_source_close(struct vp_source *source)
{
    struct source *s = (struct source *)source;
    if (!s)
        return;
    vp_libtiff_reader_close(s->libtiff);
    vp_input_close(&s->in);
    free(s->tiff.front);
    vp_ifd_free(&s->ifd);
    pthread_mutex_destroy(&s->lock);
    vp_stack_free(&source->stack);
    free(s->pages);
    free(s);
}

static struct source *new_source(struct vp_input *in, struct vp_err *err)
{
    struct source *s = vp_alloc(1, sizeof *s, in->name, err);
    struct page *pages = vp_alloc(1, sizeof *pages, in->name, err);
    if (!s || !pages) {
        vp_input_close(in);
        free(pages);
        free(s);
        return NULL;
    }
    s->source = (struct vp_source){.name = in->name, .seekable = in->anywhere, .by_rows = true, .channels = 1};
    s->in = *in;
    s->tiff = (struct vp_tiff){.in = &s->in, .page = -1};
    s->pages = pages;
    s->images = 1;
    s->page = -1;
    pthread_mutex_init(&s->lock, NULL);
    return s;
}

int vp_source_samples(struct vp_source **out, struct vp_input *in, const struct vp_samples_at *at, size_t hold,
                      struct vp_err *err)
{
    struct source *s = new_source(in, err);
    if (!s)
        return -1;
    struct vp_stack *k = &s->source.stack;
    *k = at->stack;
    s->tiff.swap = at->swap;
    s->pages->data = at->skip;
    s->images = INT64_MAX;
    s->bare = true;
    s->page = 0;
    *out = &s->source;
    if (in->anywhere)
        return 0;
    const size_t page = vp_page_bytes(k);
    const bool look = k->pages < 0 && page <= hold;
    const unsigned char *p;
    int64_t n = vp_input_at(&s->in, at->skip, NULL, 0, err);
    if (!n && s->in.position < at->skip)
        n = vp_fail(err, VP_ERUN, "%s: truncated: expected %llu bytes to skip, got %llu", in->name,
                    (unsigned long long)at->skip, (unsigned long long)s->in.position);
    if (!n && !(n = vp_input_peek(&s->in, &p, look ? page + 1 : 1, err)))
        n = vp_fail(err, VP_ERUN, "%s: empty: expected pages of %zu bytes", in->name, page);
    if (look && n == (int64_t)page)
        k->pages = 1;
    if (n < 0)
        vp_source_close(&s->source);
    return n < 0 ? -1 : 0;
}

int vp_source_tiff(struct vp_source **out, struct vp_input *in, const struct vp_tiff_options *o, struct vp_err *err)
{
    struct source *s = new_source(in, err);
    if (!s)
        return -1;
    uint64_t first;
    s->tiff.allowed = in->anywhere ? 16 * in->size + (1 << 20) : 0;
    s->tiff.colours = o->colours;
    int rc = vp_tiff_header(&s->tiff, &first, err) || (in->anywhere ? walk(s, first, IMAGES, err)
                                                                    : open_pipe(s, first, err));
    if (rc && s->unlike && in->anywhere && o->pick)
        rc = walk_picked(s, first, o, err);
    if (!rc && vp_axes_settle(&s->source.stack))
        rc = vp_fail(err, VP_ERESOURCE, "%s: not enough memory for its metadata", in->name);
    if (rc) {
        vp_source_close(&s->source);
        return -1;
    }
    s->tiff.allowed = 0; /* what is read again later costs as much as the samples do */
#ifdef POSIX_FADV_SEQUENTIAL
    if (in->anywhere)
        posix_fadvise(in->fd, 0, 0, POSIX_FADV_SEQUENTIAL);
#endif
    *out = &s->source;
    return 0;
}
