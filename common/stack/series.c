/* SPDX-License-Identifier: BSD-3-Clause */
#include "stack/series.h"

#include "base/err.h"
#include "base/size.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PIECE = 4 << 20, MOST_DIGITS = 18 };

bool vp_series_parse(struct vp_series *s, const char *name)
{
    const char *const slash = name ? strrchr(name, '/') : NULL, *const last = slash ? slash + 1 : name;
    const char *const at = name ? strchr(last, '%') : NULL;

    if (!at || strchr(at + 1, '%'))
        return false;
    const size_t n = strspn(at + 1, "0123456789");
    if (at[1 + n] != 'd' || (n && at[1] != '0') || n > 3)
        return false;
    *s = (struct vp_series){(int)(at - name), n ? atoi(at + 1) : 0, (int)(at - name + 2 + (long)n)};
    return s->digits <= MOST_DIGITS;
}

bool vp_series_name(const struct vp_series *s, const char *name, int64_t i, char *to, size_t size)
{
    char digits[24];
    int n = 0;
    do
        digits[n++] = (char)('0' + i % 10);
    while ((i /= 10) || n < s->digits);
    const size_t tail = strlen(name + s->after) + 1;
    if ((size_t)s->before + (size_t)n + tail > size)
        return false;
    memcpy(to, name, (size_t)s->before);
    for (int k = 0; k < n; k++)
        to[s->before + k] = digits[n - 1 - k];
    memcpy(to + s->before + n, name + s->after, tail);
    return true;
}

/* The series that is being written: files before `made` exist. A signal handler reads it. */
static struct {
    struct vp_series series;
    char name[PATH_MAX];
    volatile sig_atomic_t made;
} unfinished;

void vp_series_unlink(void)
{
    char path[PATH_MAX + 32];
    for (int i = 0; i < unfinished.made; i++)
        if (vp_series_name(&unfinished.series, unfinished.name, i, path, sizeof path))
            unlink(path);
    unfinished.made = 0;
}

int vp_series_begin(const struct vp_series *s, const char *name, struct vp_err *err)
{
    if (strlen(name) >= sizeof unfinished.name)
        return vp_fail(err, VP_ERUN, "%s: the name is too long", name);
    unfinished.made = 0;
    unfinished.series = *s;
    strcpy(unfinished.name, name);
    return 0;
}

void vp_series_made(int64_t n)
{
    unfinished.made = (sig_atomic_t)n;
}

void vp_series_end(bool failed)
{
    if (failed)
        vp_series_unlink();
    unfinished.made = 0;
}

static int read_at(int fd, void *to, size_t n, uint64_t at, const char *name, struct vp_err *err)
{
    for (char *p = to; n;) {
        const ssize_t got = pread(fd, p, n, (off_t)at);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return got < 0 ? vp_fail_errno(err, "%s", name)
                           : vp_fail(err, VP_ERUN, "%s: the temporary file was cut", name);
        p += got;
        n -= (size_t)got;
        at += (uint64_t)got;
    }
    return 0;
}

/* Copies a page in pieces of whole rows. */
static int copy_page(struct vp_writer *w, const struct vp_stack *s, int fd, uint64_t at, void *buffer, int64_t rows,
                     const char *name, struct vp_err *err)
{
    const size_t row = (size_t)s->nx * vp_type_size(s->type);
    for (int64_t y = 0; y < s->ny; y += rows) {
        const int64_t n = vp_min64(rows, s->ny - y);
        if (read_at(fd, buffer, (size_t)n * row, at + (uint64_t)y * row, name, err)
            || vp_writer_lines(w, n, buffer, 1, err))
            return -1;
    }
    return 0;
}

/* Removes what is true of all pages together. */
static int single(struct vp_stack *page)
{
    vp_meta_remove_prefix(&page->meta, "geom.");
    return vp_meta_set(&page->meta, "sizes", NULL) || vp_meta_set(&page->meta, "axes", NULL);
}

int vp_series_write(const struct vp_series *s, const char *name, const struct vp_stack *stack, int fd,
                    uint64_t (*place)(const void *ctx, int64_t page), const void *ctx,
                    const struct vp_writer_options *o, struct vp_err *err)
{
    const size_t row = (size_t)stack->nx * vp_type_size(stack->type);
    const int64_t rows = vp_max64(1, vp_min64(stack->ny, PIECE / (int64_t)row));
    void *const buffer = vp_alloc_raw((size_t)rows, row, "rows", err);
    struct vp_stack page = {0};
    char path[PATH_MAX + 32];
    int rc = buffer ? 0 : -1;

    if (!rc && stack->pages > INT_MAX)
        rc = vp_fail(err, VP_ERUN, "%s: expected at most %d files, got %lld", name, INT_MAX, (long long)stack->pages);
    if (!rc && vp_stack_copy(&page, stack))
        rc = vp_fail(err, VP_ERESOURCE, "out of memory: the metadata");
    page.pages = 1;
    rc = rc || vp_series_begin(s, name, err) ? -1 : 0;
    for (int64_t i = 0; i < stack->pages && !rc; i++) {
        struct vp_writer *w = NULL;
        if (i == 1 && single(&page))
            rc = vp_fail(err, VP_ERESOURCE, "out of memory: the metadata");
        if (!rc && !vp_series_name(s, name, i, path, sizeof path))
            rc = vp_fail(err, VP_ERUN, "%s: the name is too long", name);
        rc = rc || vp_writer_open(&w, path, &page, o, err) ? -1 : 0;
        if (!rc && copy_page(w, stack, fd, place(ctx, i), buffer, rows, name, err)) {
            vp_writer_abort(w);
            rc = -1;
        } else if (!rc) {
            vp_series_made(i + 1);
            rc = vp_writer_close(w, err);
        }
    }
    vp_series_end(rc != 0);
    vp_stack_free(&page);
    free(buffer);
    return rc;
}
