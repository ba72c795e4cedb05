/* SPDX-License-Identifier: BSD-3-Clause */
/* TIFF from pipes, one page at a time: its directories and strips must come in the order in which they are needed. */
#include "base/err.h"
#include "base/size.h"
#include "stack/tiff_images.h"
#include <stdlib.h>

struct tiff_pipe {
    struct vp_tiff_images t;
    struct vp_tiff_image image; /* that of `page` */
    struct vp_ifd ifd;          /* its directory */
    int64_t page;               /* that is read; -1: none yet */
    bool numbered;              /* page_total of page 0 was believed */
    uint64_t end;               /* past the last byte that any directory named */
};

/* Returns why the image of a directory cannot be read from a pipe; NULL if it can. */
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

/* Adds the image of a directory, image tiff.page. */
static int add_image(struct vp_source *s, struct tiff_pipe *f, struct vp_err *err)
{
    struct vp_ifd *d = &f->ifd;
    if (vp_tiff_check(s, &f->t, d, err))
        return -1;
    if (unfit(d)) {
        vp_tiff_fail(&f->t.tiff, err, "%s TIFF cannot be read from a pipe", unfit(d));
        return vp_hint(err, "give the file name instead, or use --spool");
    }
    if (vp_tiff_place(s, &f->t, d, &f->image, err))
        return -1;
    if (f->t.tiff.page == f->t.tiff.first)
        vp_tiff_first(s, &f->t, d, &f->image);
    return 0;
}

/* Reads the directory of the next image, at `at`: 1; 0: none follows but those of thumbnails and masks, which are
 * passed over; -1. */
static int next_directory(struct vp_source *s, struct tiff_pipe *f, uint64_t at, struct vp_err *err)
{
    struct vp_ifd *d = &f->ifd;
    f->t.tiff.page = f->page + 1;
    for (; at; at = d->next) {
        vp_ifd_free(d);
        if (vp_tiff_ifd(&f->t.tiff, at, f->page < 0, d, err))
            return -1;
        const bool passed = d->minor && f->page >= 0;
        if (!passed && add_image(s, f, err))
            return -1;
        f->end = d->end > f->end ? d->end : f->end;
        if (!passed) {
            f->page++;
            return 1;
        }
        for (int64_t i = 0; i < d->n_strips; i++)
            if (d->offset[i] <= INT64_MAX && d->count[i] <= INT64_MAX && d->offset[i] + d->count[i] > f->end)
                f->end = d->offset[i] + d->count[i];
    }
    return 0;
}

static int sniff(struct vp_input *in, const struct vp_reader_options *o, struct vp_err *err)
{
    (void)o;
    return in->anywhere ? 0 : vp_tiff_sniff(in, err);
}

static int open_pipe(struct vp_source *s, const struct vp_reader_options *o, struct vp_err *err)
{
    struct tiff_pipe *f = s->own = vp_alloc(1, sizeof *f, s->name, err);
    uint64_t first;
    if (!f)
        return -1;
    f->page = -1;
    if (vp_tiff_begin(s, &f->t, o->colours, &first, err) || vp_tiff_keep_front(&f->t.tiff, first, err) ||
        next_directory(s, f, first, err) < 0)
        return -1;
    free(f->t.tiff.front);
    f->t.tiff.front = NULL;
    f->numbered = f->ifd.next && f->ifd.page_number == 0 && f->ifd.page_total > 0;
    s->stack.pages = f->numbered ? f->ifd.page_total : f->ifd.next ? -1 : f->t.images;
    if (!f->ifd.next && vp_tiff_check_announced(s, &f->t, f->t.images, err))
        return -1;
    return vp_tiff_settle(s, err);
}

/* Passes over the rest of the page. */
static int pass_page(struct vp_source *s, struct tiff_pipe *f, struct vp_err *err)
{
    const struct vp_tiff_image *p = &f->image;
    const uint64_t bytes = vp_page_bytes(&s->stack);
    const int64_t last = f->ifd.n_strips - 1;
    const uint64_t stop = p->apart ? f->ifd.offset[last] + f->ifd.count[last] : p->data + bytes;
    if (vp_input_at(&s->in, stop, NULL, 0, err) < 0)
        return -1;
    const uint64_t end = s->in.position;
    const uint64_t got = p->apart ? vp_ifd_bytes_before(&f->ifd, end) : vp_bytes_before(p->data, bytes, end);
    return end < stop ? vp_source_cut(s, f->page, got, err) : 0;
}

/* Checks that nothing follows the last page but what a directory named. */
static int check_end(struct vp_source *s, const struct tiff_pipe *f, struct vp_err *err)
{
    const unsigned char *p;
    if (f->numbered && s->stack.pages != f->page + 1)
        return vp_fail(err, VP_ERUN, "%s: expected %lld pages, got %lld", s->name, (long long)s->stack.pages,
                       (long long)f->page + 1);
    if (vp_tiff_check_announced(s, &f->t, f->page + 1, err) || vp_input_at(&s->in, f->end, NULL, 0, err) < 0)
        return -1;
    const unsigned long long at = s->in.position;
    if (f->end > at)
        return vp_fail(err, VP_ERUN, "%s: truncated: its directories name bytes up to %llu, got %llu", s->name,
                       (unsigned long long)f->end, at);
    const int64_t n = vp_input_peek(&s->in, &p, 1, err);
    if (n <= 0)
        return (int)n;
    vp_fail(err, VP_ERUN, "%s: trailing data after page %lld, at byte %llu", s->name, (long long)f->page, at);
    return vp_hint(err, "TIFF streams cannot be joined with cat(1), use img-cat");
}

static int begin(struct vp_source *s, int64_t page, struct vp_err *err)
{
    struct tiff_pipe *f = s->own;
    while (f->page < page) {
        if (pass_page(s, f, err))
            return -1;
        if (f->page + 1 < f->t.images) { /* like the one before it, directly after its samples */
            f->image.data = s->in.position;
            f->page++;
        } else {
            const int rc = next_directory(s, f, f->ifd.next, err);
            if (rc <= 0)
                return rc < 0 ? -1 : check_end(s, f, err);
        }
        if (f->numbered && f->page >= s->stack.pages)
            return vp_fail(err, VP_ERUN, "%s: expected %lld pages, got more", s->name, (long long)s->stack.pages);
    }
    return 1;
}

static int rows(struct vp_source *s, int64_t page, int64_t y0, int64_t y1, void *buf, struct vp_err *err)
{
    struct tiff_pipe *f = s->own;
    const uint64_t at = f->image.data;
    int rc;
    if (f->image.apart)
        rc = vp_tiff_read_strips(s, page, f->ifd.offset, f->ifd.rows_per_strip, y0, y1, buf, err);
    else
        rc = vp_tiff_read_strips(s, page, &at, s->stack.ny, y0, y1, buf, err);
    if (rc)
        return rc < 0 ? -1 : pass_page(s, f, err);
    vp_tiff_finish_rows(s, &f->t, &f->image, buf, y1 - y0);
    return 0;
}

static void close_pipe(struct vp_source *s)
{
    struct tiff_pipe *f = s->own;
    if (!f)
        return;
    free(f->t.tiff.front);
    vp_ifd_free(&f->ifd);
    free(f);
}

const struct vp_format vp_tiff_pipe = {
    .name = "TIFF on a pipe", .sniff = sniff, .open = open_pipe, .begin = begin, .rows = rows, .close = close_pipe,
};
