/* SPDX-License-Identifier: BSD-3-Clause */
/* Headerless samples, of a layout that the user states: WxH[xN]:TYPE[le|be][,skip=BYTES]. */
#include "base/err.h"
#include "base/size.h"
#include "stack/samples.h"
#include <stdlib.h>
#include <string.h>

struct raw {
    uint64_t skip; /* bytes before the first page */
    bool swap;     /* the other byte order */
    int64_t page;  /* page of a pipe that is next, or being read */
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

static int parse(struct raw *r, struct vp_stack *s, const char *spec, struct vp_err *err)
{
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

static int check_size(const struct raw *r, struct vp_stack *s, const char *name, uint64_t size, struct vp_err *err)
{
    const size_t page = vp_page_bytes(s);
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

/* Passes over what comes before the samples of a pipe. Where a page takes at most `hold` bytes, and it is unknown how
 * many come, peeks whether a second one follows: one page is an image, more are a volume, and some need that at once,
 * as from a file. */
static int begin_pipe(struct vp_source *s, uint64_t skip, size_t hold, struct vp_err *err)
{
    const size_t page = vp_page_bytes(&s->stack);
    const bool look = s->stack.pages < 0 && page <= hold;
    const unsigned char *p;
    if (vp_input_at(&s->in, skip, NULL, 0, err) < 0)
        return -1;
    if (s->in.position < skip)
        return vp_fail(err, VP_ERUN, "%s: truncated: expected %llu bytes to skip, got %llu", s->name,
                       (unsigned long long)skip, (unsigned long long)s->in.position);
    const int64_t n = vp_input_peek(&s->in, &p, look ? page + 1 : 1, err);
    if (n == 0)
        return vp_fail(err, VP_ERUN, "%s: empty: expected pages of %zu bytes", s->name, page);
    if (look && n == (int64_t)page)
        s->stack.pages = 1;
    return n < 0 ? -1 : 0;
}

static int sniff(struct vp_input *in, const struct vp_reader_options *o, struct vp_err *err)
{
    (void)in, (void)err;
    return o->raw != NULL;
}

static int open_raw(struct vp_source *s, const struct vp_reader_options *o, struct vp_err *err)
{
    struct raw *r = s->own = vp_alloc(1, sizeof *r, s->name, err);
    if (!r || parse(r, &s->stack, o->raw, err))
        return -1;
    return s->seekable ? check_size(r, &s->stack, s->name, s->in.size, err) : begin_pipe(s, r->skip, o->hold, err);
}

/* Passes over the rest of a pipe's page. */
static int pass_page(struct vp_source *s, struct vp_err *err)
{
    const struct raw *r = s->own;
    const uint64_t bytes = vp_page_bytes(&s->stack), at = r->skip + (uint64_t)r->page * bytes;
    if (vp_input_at(&s->in, at + bytes, NULL, 0, err) < 0)
        return -1;
    const uint64_t end = s->in.position;
    return end < at + bytes ? vp_source_cut(s, r->page, vp_bytes_before(at, bytes, end), err) : 0;
}

/* True if another page of a pipe follows: 1, 0 or -1. */
static int more(struct vp_source *s, struct vp_err *err)
{
    const unsigned char *p;
    const int64_t n = vp_input_peek(&s->in, &p, 1, err), pages = s->stack.pages,
                  next = ((const struct raw *)s->own)->page + 1;
    if (n < 0)
        return -1;
    if (pages > 0 && next >= pages && n > 0)
        return vp_fail(err, VP_ERUN, "%s: trailing data: expected %lld pages of %zu bytes, got more", s->name,
                       (long long)pages, vp_page_bytes(&s->stack));
    if (pages > 0 && next < pages && n == 0)
        return vp_fail(err, VP_ERUN, "%s: expected %lld pages, got %lld", s->name, (long long)pages, (long long)next);
    return n > 0;
}

int vp_samples_open(struct vp_source *s, uint64_t skip, bool swap, struct vp_err *err)
{
    struct raw *r = s->own = vp_alloc(1, sizeof *r, s->name, err);
    if (!r)
        return -1;
    *r = (struct raw){.skip = skip, .swap = swap};
    if (!vp_page_bytes(&s->stack))
        return vp_fail(err, VP_ERUN, "%s: pages of %lldx%lld cannot be held", s->name, (long long)s->stack.nx,
                       (long long)s->stack.ny);
    s->seekable = s->in.anywhere;
    return s->seekable ? check_size(r, &s->stack, s->name, s->in.size, err) : begin_pipe(s, skip, 0, err);
}

int vp_samples_begin(struct vp_source *s, int64_t page, struct vp_err *err)
{
    struct raw *r = s->own;
    for (; r->page < page; r->page++) {
        const int rc = pass_page(s, err) ? -1 : more(s, err);
        if (rc <= 0)
            return rc;
    }
    return 1;
}

int vp_samples_rows(struct vp_source *s, int64_t page, int64_t y0, int64_t y1, void *buf, struct vp_err *err)
{
    const struct raw *r = s->own; /* NULL: nothing comes before the samples (vp_source_samples) */
    const size_t size = vp_type_size(s->stack.type), n = (size_t)(y1 - y0) * (size_t)s->stack.nx;
    const uint64_t at = (r ? r->skip : 0) + (uint64_t)page * vp_page_bytes(&s->stack)
                        + (uint64_t)y0 * (uint64_t)s->stack.nx * size;
    int rc = vp_source_read(s, page, at, buf, n * size, err);
    if (rc == 1)
        rc = pass_page(s, err);
    if (!rc && r && r->swap)
        vp_source_swap(buf, size, n);
    return rc;
}

void vp_samples_close(struct vp_source *s)
{
    free(s->own);
}

const struct vp_format vp_raw_samples = {
    .name = "raw samples", .sniff = sniff, .open = open_raw, .begin = vp_samples_begin, .rows = vp_samples_rows,
    .close = vp_samples_close,
};
