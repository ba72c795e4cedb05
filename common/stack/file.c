/* SPDX-License-Identifier: BSD-3-Clause */
/* TIFF, or samples alone, from a file that can be read anywhere. All directories are walked at open, so the number of
 * pages and any cut are known before work starts. Plain strips are read straight to where they belong; pages that need
 * a decoder go through libtiff. */
#include "base/err.h"
#include "base/size.h"
#include "stack/axes.h"
#include "stack/foreign.h"
#include "stack/libtiff.h"
#include "stack/source.h"
#include "stack/tiff.h"
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { WINDOW = 4096 };

/* The most by which a decoder is believed to expand: far above deflate (1032) and LZW, and low enough that a
 * small file cannot claim a terabyte. */
enum { EXPANSION = 1 << 16 };

struct page {
    uint64_t ifd;
    uint64_t data : 63; /* all strips in one piece here; 0: look at the directory again */
    uint64_t invert : 1; /* zero is white */
};

struct file {
    struct vp_source source;
    struct vp_tiff tiff;
    int fd;
    char *memory; /* in the place of a file */
    uint64_t size;
    struct page *pages; /* one an image: `channels` pages of the stack */
    bool one_directory; /* an ImageJ stack, or samples alone: pages[0] stands for all, one behind the other */
    bool decode; /* some page needs libtiff */
    struct vp_libtiff_reader *libtiff;
    pthread_mutex_t lock; /* of all below, for rows() in several threads */
    int64_t ifd_page; /* whose directory is in ifd; -1: none */
    struct vp_ifd ifd;
    uint64_t window_at; /* bytes around the directory read last */
    size_t window_n;
    unsigned char window[WINDOW];
};

static int fetch(struct vp_tiff *t, uint64_t offset, void *buf, size_t n, struct vp_err *err)
{
    struct file *f = (struct file *)((char *)t - offsetof(struct file, tiff));
    if (offset + n > f->size) {
        if (t->page < 0)
            return vp_fail(err, VP_ERUN, "%s: truncated: expected a TIFF header, got %llu bytes", t->name,
                           (unsigned long long)f->size);
        return vp_tiff_fail(t, err, "truncated: expected its directory up to byte %llu, got %llu bytes",
                            (unsigned long long)(offset + n), (unsigned long long)f->size);
    }
    const bool windowed = n <= WINDOW;
    if (!windowed || offset < f->window_at || offset + n > f->window_at + f->window_n) {
        const int64_t got = vp_pread_all(f->fd, windowed ? f->window : buf, windowed ? WINDOW : n, offset);
        if (got < 0)
            return vp_fail_errno(err, "%s", t->name);
        if ((size_t)got < n)
            return vp_tiff_fail(t, err, "truncated while it is read");
        if (windowed) {
            f->window_at = offset;
            f->window_n = (size_t)got;
        }
    }
    if (windowed)
        memcpy(buf, f->window + (offset - f->window_at), n);
    return 0;
}

static int cut_page(const struct file *f, int64_t page, uint64_t got, struct vp_err *err)
{
    return vp_fail(err, VP_ERUN, "%s: page %lld: truncated: expected %zu bytes, got %llu", f->source.name,
                   (long long)page, vp_page_bytes(&f->source.stack), (unsigned long long)got);
}

/* Are the samples of the page inside the file? Fills in where they are. */
static int check_data(struct file *f, const struct vp_ifd *d, int64_t page, struct page *out,
                      struct vp_err *err)
{
    const size_t page_bytes = vp_page_bytes(&f->source.stack);
    if (!vp_ifd_plain(d)) {
        const char *kind = d->form.compression == CODEC_NONE ? "samples" : "compressed data";
        uint64_t have = 0;
        for (int64_t i = 0; i < d->n_strips; i++) {
            if (d->offset[i] > f->size || d->count[i] > f->size - d->offset[i])
                return vp_tiff_fail(&f->tiff, err, "truncated: expected %s up to byte %llu, got %llu bytes", kind,
                                    (unsigned long long)(d->offset[i] + d->count[i]), (unsigned long long)f->size);
            have += d->count[i];
        }
        have = have ? have : f->size;
        const double bytes = (double)vp_form_row_bytes(&d->form, d->form.nx) * (double)d->form.ny;
        if (bytes / EXPANSION > (double)have)
            return vp_tiff_fail(&f->tiff, err, "%llu bytes of %s cannot hold %.0f", (unsigned long long)have, kind,
                                bytes);
        f->decode = true;
        for (int whole = 0; whole < 2; whole++) {
            const uint64_t need = vp_libtiff_need(d, whole);
            uint64_t *const most = &f->source.decoding[whole];
            *most = need > *most ? need : *most;
        }
        return 0;
    }
    if (vp_ifd_check_strips(&f->tiff, d, err))
        return -1;
    uint64_t inside = 0;
    bool joined = true;
    for (int64_t i = 0; i < d->n_strips; i++) {
        const uint64_t left = d->offset[i] < f->size ? f->size - d->offset[i] : 0;
        inside += d->count[i] < left ? d->count[i] : left;
        joined = joined && (i == 0 || d->offset[i] == d->offset[i - 1] + d->count[i - 1]);
    }
    if (inside < page_bytes)
        return cut_page(f, page, inside, err);
    out->data = joined ? d->offset[0] : 0;
    out->invert = d->form.invert;
    return 0;
}

/* One directory, N pages behind each other: ImageJ's way around 4 GiB. */
static int imagej_pages(struct file *f, const struct vp_ifd *d, struct vp_err *err)
{
    const int64_t images = d->text ? vp_imagej_images(d->text, d->text_len) : 1;
    const size_t page_bytes = vp_page_bytes(&f->source.stack);
    if (images < 2 || !f->pages[0].data || f->decode)
        return 0;
    const int64_t there = (int64_t)((f->size - f->pages[0].data) / page_bytes);
    if (there < images)
        return cut_page(f, there, (f->size - f->pages[0].data) % page_bytes, err);
    f->source.stack.pages = images;
    f->one_directory = true;
    return 0;
}

static int grow(struct file *f, int64_t n, int64_t *room, struct vp_err *err)
{
    if (n < *room)
        return 0;
    const int64_t more = *room ? 2 * *room : 16;
    if (vp_memory_claim((uint64_t)more * sizeof *f->pages, "the table of its pages", f->source.name, err))
        return -1;
    struct page *pages = realloc(f->pages, (size_t)more * sizeof *pages);
    if (!pages)
        return vp_fail(err, VP_ERESOURCE, "%s: not enough memory for a table of %lld pages", f->source.name,
                       (long long)more);
    f->pages = pages;
    *room = more;
    return 0;
}

/* The image of a directory as the n-th. */
static int add_image(struct file *f, uint64_t at, const struct vp_ifd *d, int64_t n, struct vp_err *err)
{
    struct vp_source *s = &f->source;
    if (n == 0 ? vp_ifd_stack(&f->tiff, d, &s->stack, err)
               : vp_ifd_check_page(&f->tiff, d, &s->stack, s->channels, err))
        return -1;
    f->pages[n] = (struct page){.ifd = at};
    if (n == 0) {
        s->channels = d->form.channels;
        f->source.need += d->text_cost;
    }
    if (check_data(f, d, n, &f->pages[n], err))
        return -1;
    s->stack.pages = (n + 1) * s->channels;
    return 0;
}

/* All directories, or all but thumbnails and masks. */
static int walk(struct file *f, uint64_t first, bool all, struct vp_err *err)
{
    int64_t n = 0, room = 0, power = 1, lap = 0;
    uint64_t mark = 0; /* Brent's cycle finder: an offset seen at a power of two */
    struct vp_ifd d = {0};
    struct vp_form form = {0};
    int rc = 0;
    for (uint64_t at = first; at && !rc; at = d.next) {
        f->tiff.page = n;
        if (at == mark) {
            rc = vp_tiff_fail(&f->tiff, err, "the chain of directories returns to byte %llu", (unsigned long long)at);
            break;
        }
        if (++lap == power) {
            mark = at;
            power *= 2;
            lap = 0;
        }
        vp_ifd_free(&d);
        rc = grow(f, n, &room, err) || vp_tiff_ifd(&f->tiff, at, n == 0, &d, err) ? -1 : 0;
        if (rc || (d.minor && !all))
            continue;
        rc = add_image(f, at, &d, n, err);
        if (!rc && n++ == 0) {
            form = d.form;
            if (!d.next)
                rc = imagej_pages(f, &d, err);
        }
    }
    vp_ifd_free(&d);
    if (!rc && n == 0 && !all)
        return walk(f, first, true, err);
    if (!rc && form.channels > 1 && vp_form_axes(&f->source.stack.meta, &form, n))
        rc = vp_fail(err, VP_ERESOURCE, "%s: not enough memory for its metadata", f->source.name);
    f->source.need += (uint64_t)room * sizeof *f->pages;
    return rc;
}

static int begin(struct vp_source *source, int64_t page, struct vp_err *err)
{
    (void)err;
    return page < source->stack.pages;
}

static int read_at(struct file *f, int64_t page, uint64_t offset, void *buf, size_t n, struct vp_err *err)
{
    if (f->memory)
        memcpy(buf, f->memory + offset, n);
    const int64_t got = f->memory ? (int64_t)n : vp_pread_all(f->fd, buf, n, offset);
    if (got < 0)
        return vp_fail_errno(err, "%s", f->source.name);
    if ((size_t)got < n) /* it was whole at open */
        return vp_fail(err, VP_ERUN,
                       "%s: page %lld: truncated while it is read: expected %zu bytes at %llu, got %lld",
                       f->source.name, (long long)page, n, (unsigned long long)offset, (long long)got);
    f->source.bytes += n;
    return 0;
}

/* Have the directory of `page` in f->ifd. */
static int load_directory(struct file *f, int64_t page, struct vp_err *err)
{
    if (f->ifd_page == page)
        return 0;
    vp_ifd_free(&f->ifd);
    f->ifd_page = -1;
    f->tiff.page = page;
    if (vp_tiff_ifd(&f->tiff, f->pages[page].ifd, false, &f->ifd, err) ||
        vp_ifd_check_page(&f->tiff, &f->ifd, &f->source.stack, 1, err) ||
        vp_ifd_check_strips(&f->tiff, &f->ifd, err))
        return -1;
    f->ifd_page = page;
    return 0;
}

static int strips(struct file *f, int64_t page, int64_t y0, int64_t y1, char *buf, size_t row,
                  struct vp_err *err)
{
    uint64_t *offset = NULL;
    int64_t per = 0, first = 0, n = 0;
    pthread_mutex_lock(&f->lock);
    int rc = load_directory(f, page, err);
    if (!rc) { /* a copy of what is needed: the samples are read without the lock */
        per = f->ifd.rows_per_strip;
        first = y0 / per;
        n = (y1 - 1) / per + 1 - first;
        offset = vp_alloc_raw((size_t)n, sizeof *offset, "a strip table", err);
        rc = offset ? 0 : -1;
        if (offset)
            memcpy(offset, f->ifd.offset + first, (size_t)n * sizeof *offset);
    }
    pthread_mutex_unlock(&f->lock);
    for (int64_t y = y0; !rc && y < y1;) {
        const int64_t s = y / per, in_strip = y % per, left = per - in_strip;
        const int64_t m = left < y1 - y ? left : y1 - y;
        rc = read_at(f, page, offset[s - first] + (uint64_t)in_strip * row, buf, (size_t)m * row, err);
        buf += (size_t)m * row;
        y += m;
    }
    free(offset);
    return rc;
}

static int rows(struct vp_source *source, int64_t page, int64_t y0, int64_t y1, void *buf, struct vp_err *err)
{
    struct file *f = (struct file *)source;
    const struct vp_stack *s = &source->stack;
    const size_t size = vp_type_size(s->type), row = (size_t)s->nx * size, n = (size_t)(y1 - y0) * row;
    if (f->decode) {
        if (!f->libtiff && vp_libtiff_reader_open(&f->libtiff, f->fd, source->name, &source->bytes, err))
            return -1;
        const int64_t image = page / source->channels;
        return vp_libtiff_reader_rows(f->libtiff, f->pages[image].ifd, s, image, page % source->channels,
                                      source->channels, y0, y1, buf, err);
    }
    const int64_t entry = f->one_directory ? 0 : page;
    const uint64_t behind = f->one_directory ? (uint64_t)page * vp_page_bytes(s) : 0;
    const int rc = f->one_directory || f->pages[entry].data
                       ? read_at(f, page, f->pages[entry].data + behind + (uint64_t)y0 * row, buf, n, err)
                       : strips(f, page, y0, y1, buf, row, err);
    if (!rc && f->tiff.swap)
        vp_swap_samples(buf, size, n / size);
    if (!rc && f->pages[entry].invert)
        vp_form_invert(buf, s->type, n / size);
    return rc;
}

static void rest(struct vp_source *source)
{
    struct file *f = (struct file *)source;
    vp_libtiff_reader_close(f->libtiff); /* with all that it read and decoded */
    f->libtiff = NULL;
}

static void close_file(struct vp_source *source)
{
    struct file *f = (struct file *)source;
    vp_libtiff_reader_close(f->libtiff);
    if (f->fd >= 0)
        close(f->fd);
    free(f->memory);
    vp_ifd_free(&f->ifd);
    pthread_mutex_destroy(&f->lock);
    vp_stack_free(&source->stack);
    free(f->pages);
    free(source->name);
    free(f);
}

/* `pages`: of its table; NULL without memory. */
static struct file *new_file(int fd, const char *name, int64_t pages, struct vp_err *err)
{
    struct file *f = calloc(1, sizeof *f);
    char *copy = strdup(name);
    if (!f || !copy || (pages && !(f->pages = calloc((size_t)pages, sizeof *f->pages)))) {
        free(f);
        free(copy);
        if (fd >= 0)
            close(fd);
        vp_fail(err, VP_ERESOURCE, "%s: not enough memory", name);
        return NULL;
    }
    f->source = (struct vp_source){.name = copy, .begin = begin, .rows = rows, .rest = rest, .close = close_file,
                                   .seekable = true, .channels = 1};
    f->tiff = (struct vp_tiff){.name = copy, .page = -1, .at = fetch};
    f->fd = fd;
    f->ifd_page = -1;
    pthread_mutex_init(&f->lock, NULL);
    return f;
}

int vp_source_file_of(struct vp_source **out, int fd, const char *name, const struct vp_samples_at *r,
                      struct vp_err *err)
{
    struct file *f = new_file(fd, name, 1, err);
    if (!f)
        return -1;
    f->source.stack = r->stack;
    f->source.by_rows = f->one_directory = true;
    f->pages[0].data = r->skip;
    f->tiff.swap = r->swap;
    f->memory = r->memory;
    *out = &f->source;
    return 0;
}

int vp_source_file(struct vp_source **out, int fd, const char *name, struct vp_err *err)
{
    struct file *f = new_file(fd, name, 0, err);
    if (!f)
        return -1;
    struct stat st;
    uint64_t first;
    unsigned char start[8];
    int rc = fstat(fd, &st) ? vp_fail_errno(err, "%s", name) : 0;
    f->size = rc ? 0 : (uint64_t)st.st_size;
    f->tiff.allowed = 16 * f->size + (1 << 20);
    if (!rc && f->size == 0)
        rc = vp_fail(err, VP_ERUN, "%s: empty: expected a TIFF", name);
    const int64_t n = rc ? 0 : vp_pread_all(fd, start, 8, 0);
    if (n >= 2 && n < 8 && memcmp(start, "II", 2) && memcmp(start, "MM", 2))
        rc = vp_not_tiff(name, start, (size_t)n, err);
    rc = rc || vp_tiff_header(&f->tiff, &first, err) || walk(f, first, false, err);
    if (!rc && vp_axes_settle(&f->source.stack))
        rc = vp_fail(err, VP_ERESOURCE, "%s: not enough memory for its metadata", name);
    if (rc) {
        close_file(&f->source);
        return -1;
    }
    f->tiff.allowed = 0; /* what is read again later costs as much as the samples do */
    f->source.by_rows = !f->decode;
#ifdef POSIX_FADV_SEQUENTIAL
    posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
#endif
    *out = &f->source;
    return 0;
}
