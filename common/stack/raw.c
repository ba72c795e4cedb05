/* SPDX-License-Identifier: BSD-3-Clause */
/* Headerless samples, of a layout that the user states: WxH[xN]:TYPE[le|be][,skip=BYTES]. */
#include "base/err.h"
#include "base/size.h"
#include "stack/source.h"
#include "stack/tiff.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct raw {
    struct vp_source source;
    struct vp_input in; /* a pipe */
    int fd;
    bool swap;
    uint64_t skip;
    int64_t page, row; /* position in a pipe */
};

static bool count(const char **s, int64_t *out)
{
    int64_t v = 0;
    const char *p = *s;
    for (; *p >= '0' && *p <= '9' && v < INT64_MAX / 16; p++)
        v = 10 * v + (*p - '0');
    if (p == *s)
        return false;
    *s = p;
    *out = v;
    return true;
}

static int parse(struct raw *r, const char *spec, struct vp_err *err)
{
    struct vp_stack *s = &r->source.stack;
    const char *p = spec;
    char type[16];
    int64_t skip = 0;
    bool ok = count(&p, &s->nx) && *p++ == 'x' && count(&p, &s->ny);
    s->pages = -1;
    if (ok && *p == 'x') {
        p++;
        ok = count(&p, &s->pages) && s->pages > 0;
    }
    ok = ok && *p++ == ':';
    size_t n = ok ? strcspn(p, ",") : 0;
    ok = ok && n > 0 && n < sizeof type;
    if (ok) {
        memcpy(type, p, n);
        type[n] = '\0';
        p += n;
        if (n > 2 && (!strcmp(type + n - 2, "le") || !strcmp(type + n - 2, "be"))) {
            r->swap = type[n - 2] == 'b';
            type[n - 2] = '\0';
        }
        ok = vp_type_parse(type, &s->type);
    }
    if (ok && !strncmp(p, ",skip=", 6)) {
        p += 6;
        ok = count(&p, &skip);
    }
    ok = ok && !*p && s->nx > 0 && s->ny > 0;
    r->skip = (uint64_t)skip;
    if (!ok)
        return vp_fail(
            err, VP_EUSAGE,
            "raw layout '%s': expected WxH[xN]:TYPE[le|be][,skip=BYTES] with TYPE u8 u16 u32 u64 i8 "
            "i16 i32 i64 f32 or f64",
            spec);
    if (!vp_page_bytes(s))
        return vp_fail(err, VP_EUSAGE, "raw layout '%s': a page is too large", spec);
    return 0;
}

static int cut_page(const struct raw *r, int64_t page, uint64_t got, struct vp_err *err)
{
    return vp_fail(err, VP_ERUN, "%s: page %lld: truncated: expected %zu bytes, got %llu", r->source.name,
                   (long long)page, vp_page_bytes(&r->source.stack), (unsigned long long)got);
}

static int file_begin(struct vp_source *source, int64_t page, struct vp_err *err)
{
    (void)err;
    return page < source->stack.pages;
}

static int file_rows(struct vp_source *source, int64_t page, int64_t y0, int64_t y1, void *buf,
                     struct vp_err *err)
{
    struct raw *r = (struct raw *)source;
    const size_t size = vp_type_size(source->stack.type), row = (size_t)source->stack.nx * size,
                 n = (size_t)(y1 - y0) * row;
    const uint64_t offset = r->skip + (uint64_t)page * vp_page_bytes(&source->stack) + (uint64_t)y0 * row;
    const int64_t got = vp_pread_all(r->fd, buf, n, offset);
    if (got < 0)
        return vp_fail_errno(err, "%s", source->name);
    if ((size_t)got < n)
        return cut_page(r, page, (uint64_t)y0 * row + (uint64_t)got, err);
    source->bytes += n;
    if (r->swap)
        vp_swap_samples(buf, size, n / size);
    return 0;
}

/* Skip to the start of `row` of `page`; 0 at the end of the input. */
static int pipe_skip(struct raw *r, int64_t page, int64_t row, struct vp_err *err)
{
    const struct vp_stack *s = &r->source.stack;
    const size_t bytes = (size_t)s->nx * vp_type_size(s->type);
    while (r->page < page || (r->page == page && r->row < row)) {
        const int64_t to = r->page < page ? s->ny : row;
        const uint64_t n = (uint64_t)(to - r->row) * bytes, before = (uint64_t)r->row * bytes;
        const int64_t got = vp_input_skip(&r->in, n, err);
        if (got < 0)
            return -1;
        if ((uint64_t)got < n)
            return before + (uint64_t)got == 0 && s->pages < 0
                       ? 0
                       : cut_page(r, r->page, before + (uint64_t)got, err);
        r->row = to;
        if (to == s->ny && r->page < page)
            r->page++, r->row = 0;
    }
    return 1;
}

static int pipe_begin(struct vp_source *source, int64_t page, struct vp_err *err)
{
    struct raw *r = (struct raw *)source;
    const int rc = pipe_skip(r, page, 0, err);
    if (rc <= 0)
        return rc;
    const unsigned char *p;
    const int64_t n = vp_input_peek(&r->in, &p, 1, err);
    if (n < 0)
        return -1;
    const int64_t pages = source->stack.pages;
    if (pages > 0 && page >= pages && n > 0)
        return vp_fail(err, VP_ERUN, "%s: trailing data: expected %lld pages of %zu bytes, got more",
                       source->name, (long long)pages, vp_page_bytes(&source->stack));
    if (pages > 0 && page < pages && n == 0)
        return vp_fail(err, VP_ERUN, "%s: expected %lld pages, got %lld", source->name, (long long)pages,
                       (long long)page);
    return n > 0;
}

static int pipe_rows(struct vp_source *source, int64_t page, int64_t y0, int64_t y1, void *buf,
                     struct vp_err *err)
{
    struct raw *r = (struct raw *)source;
    const size_t size = vp_type_size(source->stack.type), row = (size_t)source->stack.nx * size,
                 n = (size_t)(y1 - y0) * row;
    if (page < r->page || (page == r->page && y0 < r->row))
        return vp_fail(err, VP_ERUN, "%s: page %lld cannot be read again from a pipe", source->name,
                       (long long)page);
    if (pipe_skip(r, page, y0, err) <= 0)
        return -1;
    const int64_t got = vp_input_read(&r->in, buf, n, err);
    if (got < 0)
        return -1;
    source->bytes = r->in.position;
    if ((size_t)got < n)
        return cut_page(r, page, (uint64_t)y0 * row + (uint64_t)got, err);
    r->row = y1;
    if (r->swap)
        vp_swap_samples(buf, size, n / size);
    return 0;
}

static void close_raw(struct vp_source *source)
{
    struct raw *r = (struct raw *)source;
    close(r->fd);
    vp_input_free(&r->in);
    free(source->name);
    free(r);
}

static int check_size(struct raw *r, uint64_t size, struct vp_err *err)
{
    struct vp_stack *s = &r->source.stack;
    const size_t page = vp_page_bytes(s);
    const char *name = r->source.name;
    const uint64_t have = size > r->skip ? size - r->skip : 0;
    if (s->pages > 0) {
        size_t want;
        if (!vp_mul_size(&want, page, (size_t)s->pages) || want != have)
            return vp_fail(err, VP_ERUN, "%s: expected %lld pages of %zu bytes%s, got %llu bytes", name,
                           (long long)s->pages, page, r->skip ? " after those skipped" : "",
                           (unsigned long long)have);
        return 0;
    }
    if (have == 0 || have % page)
        return vp_fail(err, VP_ERUN,
                       "%s: expected a multiple of %zu bytes (a page of %lldx%lld %s)%s, got %llu", name,
                       page, (long long)s->nx, (long long)s->ny, vp_type_name(s->type),
                       r->skip ? " after those skipped" : "", (unsigned long long)have);
    s->pages = (int64_t)(have / page);
    return 0;
}

int vp_source_raw(struct vp_source **out, int fd, const char *name, const char *spec, size_t hold, struct vp_err *err)
{
    struct raw *r = calloc(1, sizeof *r);
    char *copy = strdup(name);
    if (!r || !copy) {
        free(r);
        free(copy);
        close(fd);
        return vp_fail(err, VP_ERESOURCE, "%s: not enough memory", name);
    }
    r->fd = fd;
    r->source = (struct vp_source){.name = copy, .close = close_raw, .by_rows = true, .channels = 1};
    struct stat st;
    int rc = parse(r, spec, err);
    if (!rc && fstat(fd, &st))
        rc = vp_fail_errno(err, "%s", name);
    if (!rc && S_ISREG(st.st_mode) && lseek(fd, 0, SEEK_CUR) == 0) {
        r->source.seekable = true;
        r->source.begin = file_begin;
        r->source.rows = file_rows;
        rc = check_size(r, (uint64_t)st.st_size, err);
    } else if (!rc) {
        r->source.begin = pipe_begin;
        r->source.rows = pipe_rows;
        rc = vp_input_init(&r->in, fd, copy, err);
        const int64_t got = rc ? 0 : vp_input_skip(&r->in, r->skip, err);
        if (!rc && (got < 0 || (uint64_t)got < r->skip))
            rc = vp_fail(err, VP_ERUN, "%s: truncated: expected %llu bytes to skip, got %lld", name,
                         (unsigned long long)r->skip, (long long)got);
        /* a single page is an image, several are a volume: some must know that now, as they do of a file */
        struct vp_stack *s = &r->source.stack;
        const size_t page = vp_page_bytes(s);
        const bool look = s->pages < 0 && page <= hold;
        const unsigned char *p;
        const int64_t n = rc ? -1 : vp_input_peek(&r->in, &p, look ? page + 1 : 1, err);
        if (n <= 0)
            rc = n < 0 ? -1 : vp_fail(err, VP_ERUN, "%s: empty: expected pages of %zu bytes", name, page);
        else if (look && (size_t)n == page)
            s->pages = 1;
    }
    if (rc) {
        close_raw(&r->source);
        return -1;
    }
    *out = &r->source;
    return 0;
}
