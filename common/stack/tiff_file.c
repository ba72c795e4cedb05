/* SPDX-License-Identifier: BSD-3-Clause */
/* TIFF from files: all directories are walked at open, so the number of pages and any cut are known before work starts.
 * Plain strips are read straight to where they belong; pages that need a decoder go through libtiff. */
#include "base/err.h"
#include "base/size.h"
#include "stack/libtiff.h"
#include "stack/tiff_images.h"
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* The most by which a decoder is believed to expand: far above deflate (1032) and LZW, and low enough that a
 * small file cannot claim a terabyte. */
enum { EXPANSION = 1 << 16 };

struct tiff_file {
    struct vp_tiff_images t;
    struct vp_tiff_image *image; /* each is `channels` pages of the stack */
    struct vp_libtiff_reader *libtiff;
    pthread_mutex_t lock; /* protects all below */
    int64_t page; /* page of the directory in ifd; -1: none */
    struct vp_ifd ifd;
};

/* Checks that what libtiff is to decode is inside the file, and can hold what it claims. */
static int check_coded(struct vp_source *s, struct vp_tiff_images *t, const struct vp_ifd *d, struct vp_tiff_image *p,
                       struct vp_err *err)
{
    const char *kind = d->form.compression == CODEC_NONE ? "samples" : "compressed data";
    const uint64_t size = s->in.size;
    uint64_t have = 0;
    for (int64_t i = 0; i < d->n_strips; i++) {
        if (d->count[i] && (d->offset[i] > size || d->count[i] > size - d->offset[i]))
            return vp_tiff_fail(&t->tiff, err, "truncated: expected %s up to byte %llu, got %llu bytes", kind,
                                (unsigned long long)(d->offset[i] + d->count[i]), (unsigned long long)size);
        have += d->count[i];
    }
    have = have && !d->sparse ? have : size;
    p->sparse = d->sparse;
    const double bytes = (double)vp_form_row_bytes(&d->form, d->form.nx) * (double)d->form.ny;
    if (bytes / EXPANSION > (double)have)
        return vp_tiff_fail(&t->tiff, err, "%llu bytes of %s cannot hold %.0f", (unsigned long long)have, kind, bytes);
    s->by_rows = false;
    for (int whole = 0; whole < 2; whole++) {
        const uint64_t need = vp_libtiff_need(d, whole);
        uint64_t *const most = &s->decoding[whole];
        *most = need > *most ? need : *most;
    }
    return 0;
}

/* Adds the image of a directory, image tiff.page. */
static int add_image(struct vp_source *s, struct tiff_file *f, struct vp_ifd *d, struct vp_tiff_image *p,
                     struct vp_err *err)
{
    if (vp_tiff_check(s, &f->t, d, err))
        return -1;
    if (vp_ifd_plain(d) ? vp_tiff_place(s, &f->t, d, p, err) : check_coded(s, &f->t, d, p, err))
        return -1;
    if (f->t.tiff.page == f->t.tiff.first)
        vp_tiff_first(s, &f->t, d, p);
    return 0;
}

/* Makes room in the table for image n. */
static int grow(struct vp_source *s, struct tiff_file *f, int64_t n, int64_t *room, struct vp_err *err)
{
    struct vp_tiff_image *image = vp_grow(f->image, n, room, sizeof *image, "the table of its pages", s->name, err);
    f->image = image ? image : f->image;
    return image ? 0 : -1;
}

/* Makes the stack of the images in f->image, where `room` are allocated. */
static int finish(struct vp_source *s, struct tiff_file *f, int64_t images, int64_t room, struct vp_err *err)
{
    const struct vp_tiff_images *t = &f->t;
    s->stack.pages = images * s->channels * t->images;
    s->need += (uint64_t)room * sizeof *f->image;
    const uint64_t page = vp_page_bytes(&s->stack), there = t->images > 1 ? s->in.size - f->image[0].data : 0;
    if (there / page < (uint64_t)t->images && t->images > 1)
        return vp_source_cut(s, (int64_t)(there / page), there % page, err);
    if (t->form.channels > 1 && vp_form_axes(&s->stack.meta, &t->form, images))
        return vp_fail(err, VP_ERESOURCE, "%s: out of memory: its metadata", s->name);
    return 0;
}

/* Images of a walk along the directories of a file. */
enum walk {
    IMAGES, /* all but thumbnails and masks, which are to be alike */
    ALL,    /* all, if there are no others */
    LISTED  /* those of IMAGES, only listed: the pages of each in its place `data` */
};

/* Walks along all directories of a file. */
static int walk(struct vp_source *s, struct tiff_file *f, uint64_t first, enum walk how, struct vp_err *err)
{
    struct vp_tiff *const tiff = &f->t.tiff;
    const int64_t *const n = &tiff->page;
    int64_t room = 1, power = 1, lap = 0;
    uint64_t mark = 0; /* Brent's cycle finder: an offset seen at a power of two */
    struct vp_ifd d = {0};
    int rc = 0;
    tiff->page = 0;
    for (uint64_t at = first; at && !rc; at = d.next) {
        if (at == mark) {
            rc = vp_tiff_fail(tiff, err, "the chain of directories returns to byte %llu", (unsigned long long)at);
            break;
        }
        if (++lap == power) {
            mark = at;
            power *= 2;
            lap = 0;
        }
        vp_ifd_free(&d);
        rc = grow(s, f, *n, &room, err) || vp_tiff_ifd(tiff, at, *n == 0, &d, err) ? -1 : 0;
        if (rc || (d.minor && how != ALL))
            continue;
        f->image[*n] = (struct vp_tiff_image){.ifd = at, .data = (uint64_t)d.form.channels};
        rc = how == LISTED ? 0 : add_image(s, f, &d, &f->image[*n], err);
        tiff->page += !rc;
    }
    vp_ifd_free(&d);
    if (!rc && *n == 0 && how == IMAGES)
        return walk(s, f, first, ALL, err);
    if (rc || how == LISTED)
        return rc;
    return vp_tiff_check_announced(s, &f->t, *n * f->t.images, err) ? -1 : finish(s, f, *n, room, err);
}

/* Lets the picker choose among the n images that are listed. */
static int choose(const struct vp_source *s, const struct tiff_file *f, const struct vp_reader_options *o, int64_t n,
                  bool *keep, struct vp_err *err)
{
    int64_t *const start = vp_alloc_raw((size_t)n + 1, sizeof *start, "a list of pages", err);
    if (!start)
        return -1;
    start[0] = 0;
    for (int64_t i = 0; i < n; i++)
        start[i + 1] = start[i] + (int64_t)f->image[i].data;
    const int rc = o->pick(o->picks, s->name, start, n, keep, err);
    free(start);
    return rc;
}

/* Reads those of images that are not all alike that are picked, which must be alike. */
static int walk_picked(struct vp_source *s, struct tiff_file *f, uint64_t first, const struct vp_reader_options *o,
                       struct vp_err *err)
{
    vp_stack_free(&s->stack);
    s->stack = (struct vp_stack){0};
    s->channels = 1;
    s->by_rows = true;
    s->lost = NULL;
    s->need = s->decoding[0] = s->decoding[1] = 0;
    *err = (struct vp_err)VP_ERR_INIT;
    f->t.images = 1;
    if (walk(s, f, first, LISTED, err))
        return -1;
    struct vp_tiff *const tiff = &f->t.tiff;
    const int64_t n = tiff->page;
    int64_t kept = 0;
    bool *const keep = vp_alloc((size_t)n, sizeof *keep, "a list of images", err);
    struct vp_ifd d = {0};
    int rc = keep ? choose(s, f, o, n, keep, err) : -1;
    for (int64_t i = 0; !rc && i < n; i++) {
        if (!keep[i])
            continue;
        struct vp_tiff_image p = {.ifd = f->image[i].ifd};
        tiff->page = i;
        tiff->first = kept ? tiff->first : i;
        rc = vp_tiff_ifd(tiff, p.ifd, !kept, &d, err) || add_image(s, f, &d, &p, err) ? -1 : 0;
        vp_ifd_free(&d);
        f->image[kept++] = p;
    }
    free(keep);
    tiff->first = 0;
    return rc || finish(s, f, kept, n, err) ? -1 : 0;
}

static int sniff(struct vp_input *in, const struct vp_reader_options *o, struct vp_err *err)
{
    (void)o;
    return in->anywhere ? vp_tiff_sniff(in, err) : 0;
}

static int open_file(struct vp_source *s, const struct vp_reader_options *o, struct vp_err *err)
{
    struct tiff_file *f = s->own = vp_alloc(1, sizeof *f, s->name, err);
    uint64_t first;
    if (!f)
        return -1;
    pthread_mutex_init(&f->lock, NULL);
    f->page = -1;
    f->image = vp_alloc(1, sizeof *f->image, s->name, err);
    if (!f->image || vp_tiff_begin(s, &f->t, o->colours, &first, err))
        return -1;
    int rc = walk(s, f, first, IMAGES, err);
    if (rc && f->t.unlike && o->pick)
        rc = walk_picked(s, f, first, o, err);
    if (rc || vp_tiff_settle(s, err))
        return -1;
    f->t.tiff.allowed = 0; /* later readings cost as much as the samples do */
#ifdef POSIX_FADV_SEQUENTIAL
    posix_fadvise(s->in.fd, 0, 0, POSIX_FADV_SEQUENTIAL);
#endif
    return 0;
}

/* Reads the directory of a page into f->ifd, unless it is there. */
static int load_directory(struct vp_source *s, struct tiff_file *f, int64_t page, struct vp_err *err)
{
    if (f->page == page)
        return 0;
    vp_ifd_free(&f->ifd);
    f->page = -1;
    f->t.tiff.page = page;
    if (vp_tiff_ifd(&f->t.tiff, f->image[page].ifd, false, &f->ifd, err) ||
        vp_ifd_check_page(&f->t.tiff, &f->ifd, &s->stack, 1, err) ||
        vp_ifd_check_strips(&f->t.tiff, &f->ifd, err))
        return -1;
    f->page = page;
    return 0;
}

/* Reads rows of a page whose strips are apart. */
static int read_apart(struct vp_source *s, struct tiff_file *f, int64_t page, int64_t y0, int64_t y1, char *buf,
                      struct vp_err *err)
{
    uint64_t *offset = NULL;
    int64_t per = 1, first = 0;
    pthread_mutex_lock(&f->lock);
    if (!load_directory(s, f, page, err)) { /* a copy of what is needed: the samples are read without the lock */
        per = f->ifd.rows_per_strip;
        first = y0 / per;
        const size_t n = (size_t)((y1 - 1) / per + 1 - first);
        offset = vp_alloc_raw(n, sizeof *offset, "a strip table", err);
        if (offset)
            memcpy(offset, f->ifd.offset + first, n * sizeof *offset);
    }
    pthread_mutex_unlock(&f->lock);
    y0 -= first * per;
    y1 -= first * per;
    const int rc = offset ? vp_tiff_read_strips(s, page, offset, per, y0, y1, buf, err) : -1;
    free(offset);
    return rc;
}

static int rows(struct vp_source *s, int64_t page, int64_t y0, int64_t y1, void *buf, struct vp_err *err)
{
    struct tiff_file *f = s->own;
    if (!s->by_rows) { /* some page needs libtiff */
        if (!f->libtiff &&
            vp_libtiff_reader_open(&f->libtiff, s->in.fd, s->name, &s->stack, &f->t.form, s->in.read, err))
            return -1;
        const struct vp_tiff_image *const image = &f->image[page / s->channels];
        return vp_libtiff_reader_rows(f->libtiff, image->ifd, image->sparse, page, y0, y1, buf, err);
    }
    const struct vp_tiff_image *p = &f->image[f->t.images == 1 ? page : 0];
    const uint64_t at = p->data + (f->t.images == 1 ? 0 : (uint64_t)page * vp_page_bytes(&s->stack));
    if (p->apart ? read_apart(s, f, page, y0, y1, buf, err)
                 : vp_tiff_read_strips(s, page, &at, s->stack.ny, y0, y1, buf, err))
        return -1;
    vp_tiff_finish_rows(s, &f->t, p, buf, y1 - y0);
    return 0;
}

/* Frees what libtiff has read and decoded. */
static void rest(struct vp_source *s)
{
    struct tiff_file *f = s->own;
    vp_libtiff_reader_close(f->libtiff);
    f->libtiff = NULL;
}

static void close_file(struct vp_source *s)
{
    struct tiff_file *f = s->own;
    if (!f)
        return;
    vp_libtiff_reader_close(f->libtiff);
    vp_ifd_free(&f->ifd);
    pthread_mutex_destroy(&f->lock);
    free(f->image);
    free(f);
}

const struct vp_format vp_tiff_file = {
    .name = "TIFF in a file", .sniff = sniff, .open = open_file, .rows = rows, .rest = rest, .close = close_file,
};
