/* SPDX-License-Identifier: BSD-3-Clause */
/* Reading the rows of selected pages, and those of a second stack beside them. */
#include "pages/select_internal.h"

#include "base/err.h"
#include "base/size.h"

#include <stdlib.h>
#include <string.h>

/* ---- pages ---- */

static int too_few(const struct vp_reader *r, int64_t wanted, struct vp_err *err)
{
    return vp_fail(err, VP_ERUN, "%s: page %lld is out of range: there are %lld pages", vp_reader_name(r),
                   (long long)wanted, (long long)vp_reader_position(r));
}

/* Reads a pipe to its end, so that a cut stream is seen and the program before it ends well. */
static int drain(struct vp_reader *r, struct vp_err *err)
{
    int got = vp_reader_seekable(r) ? 0 : 1;

    while (got > 0)
        got = vp_reader_skip(r, 1, err);
    return got;
}

/* Source of selected pages. */
struct picker {
    const struct vp_select *s;
    struct vp_reader *reader;
};

/* Reads rows [y0, y1) of the region of page `at`. Passes over the others of a pipe: those above the region with its
 * first rows, those below with the last. 1, 0: they are not there, -1. */
static int get_rows(const struct picker *k, int64_t at, int64_t y0, int64_t y1, void *to, int threads,
                    struct vp_err *err)
{
    const struct vp_select *const s = k->s;
    struct vp_reader *const r = k->reader;
    const int64_t n = y1 - y0, above = y0 == 0 ? s->y0 : 0, below = s->y0 + y1 == s->y1 ? s->ny - s->y1 : 0;

    if (vp_reader_seekable(r)) {
        const struct vp_wanted w = {at, 1, s->y0 + y0, s->y0 + y1, .threads = threads, .x0 = s->x0, .x1 = s->x1};
        return (int)vp_reader_read(r, &w, &to, err);
    }
    if (y0 == 0 && at < vp_reader_position(r))
        return vp_select_disorder(vp_reader_name(r), err);
    if (y0 == 0) {
        const int rc = vp_reader_skip(r, at - vp_reader_position(r), err);
        if (rc <= 0)
            return rc;
    }
    for (int part = 0; part < 3; part++) {
        const int64_t rows = part == 0 ? above : part == 1 ? n : below;
        const int64_t got = vp_reader_lines(r, rows, s->x0, s->x1, part == 1 ? to : NULL, threads, err);
        if (got < rows)
            return got < 0 ? -1 : 0;
    }
    return 1;
}

/* Reads rows of the region of selected page i. */
static int read_rows(void *source, int64_t i, int64_t y0, int64_t y1, void *to, int threads, struct vp_err *err)
{
    const struct picker *const k = source;
    const int64_t at = vp_select_page(k->s, i);
    const int got = get_rows(k, at, y0, y1, to, threads, err);

    return got || k->s->pages < 0 ? got : too_few(k->reader, at, err);
}

/* Reads selected pages [i, i + n), their regions to to[]. */
static int64_t read_selected(void *source, int64_t i, int64_t n, void *const *to, int threads, struct vp_err *err)
{
    const struct picker *const k = source;
    const struct vp_select *const s = k->s;

    for (int64_t done = 0, m = 1; done < n; done += m, m = 1) {
        struct vp_wanted w = {vp_select_page(s, i + done), 1, s->y0, s->y1, .threads = threads, .x0 = s->x0,
                              .x1 = s->x1};
        int64_t got;
        if (vp_reader_concurrent(k->reader)) {
            while (done + m < n && vp_select_page(s, i + done + m) == w.page + m)
                m++; /* that follow each other */
            w.n = m;
            got = vp_reader_read(k->reader, &w, to + done, err);
        } else {
            got = read_rows(source, i + done, 0, s->y1 - s->y0, to[done], threads, err);
        }
        if (got <= 0)
            return got < 0 ? -1 : done;
    }
    return n;
}

int vp_select_run(const struct vp_select *s, struct vp_pages *p, struct vp_err *err)
{
    struct picker k = {s, p->reader};

    p->in_bytes = (size_t)((s->x1 - s->x0) * (s->y1 - s->y0)) * vp_type_size(vp_reader_stack(p->reader)->type);
    if (!p->work) {
        p->out_bytes = p->in_bytes;
        p->in_place = true;
    }
    if (!vp_select_is_all(s)) {
        p->read = read_selected;
        p->read_rows = read_rows;
        p->source = &k;
        p->count = s->pages < 0 ? 0 : s->pages;
    }
    if (vp_pages_run(p, err))
        return -1;
    return vp_select_all_pages(s) ? 0 : drain(p->reader, err); /* all of a pipe is checked */
}

/* ---- a second stack ---- */

int vp_beside_open(struct vp_beside *b, struct vp_reader *reader, const struct vp_stack *in, bool repeat,
                   struct vp_err *err)
{
    const struct vp_stack *own = vp_reader_stack(reader);
    const char *name = vp_reader_name(reader);

    *b = (struct vp_beside){.reader = reader, .repeat = repeat, .single = repeat && own->pages == 1,
                            .at = -1};
    if (own->nx != in->nx || own->ny != in->ny)
        return vp_fail(err, VP_ERUN, "%s: expected pages of %lld x %lld, got %lld x %lld", name,
                       (long long)in->nx, (long long)in->ny, (long long)own->nx, (long long)own->ny);
    if (own->pages >= 0 && in->pages >= 0 && own->pages != in->pages && !b->single)
        return vp_fail(err, VP_ERUN, "%s: expected %lld pages, got %lld", name, (long long)in->pages,
                       (long long)own->pages);
    return 0;
}

uint64_t vp_beside_bytes(const struct vp_beside *b, const struct vp_select *s)
{
    return vp_reader_holds(b->reader, vp_select_all_columns(s)) + vp_page_bytes(vp_reader_stack(b->reader));
}

int vp_beside_rows(struct vp_beside *b, const struct vp_select *s, int64_t i, int64_t y0, int64_t n, const void **rows,
                   struct vp_err *err)
{
    const int64_t want = b->single ? 0 : vp_select_page(s, i), height = s->y1 - s->y0;
    const struct picker k = {s, b->reader};
    const size_t row = (size_t)(s->x1 - s->x0) * vp_type_size(vp_reader_stack(b->reader)->type);

    /* allocated with the first rows, which are the most */
    if (!b->rows && !(b->rows = vp_alloc_raw((size_t)n, row, "rows", err)))
        return -1;
    *rows = b->rows;
    if (b->at == want && n == height)
        return 0;
    int got = 1;
    if (b->repeat && b->at < 0 && want > 0 && vp_reader_stack(b->reader)->pages < 0) { /* it may be the only one */
        got = get_rows(&k, 0, y0, y0 + n, b->rows, 1, err);
        b->at = got - 1;
    }
    got = got > 0 ? get_rows(&k, want, y0, y0 + n, b->rows, 1, err) : got;
    if (got < 0)
        return -1;
    b->single = b->single || (!got && b->repeat && b->at == 0 && vp_reader_position(b->reader) == 1);
    if (!got && !b->single) /* a pipe of one page does not say so */
        return too_few(b->reader, want, err);
    b->at = b->single ? 0 : want;
    return 0;
}

int vp_beside_finish(struct vp_beside *b, int64_t pages, struct vp_err *err)
{
    struct vp_reader *const r = b->reader;
    if (drain(r, err) < 0)
        return -1;
    const int64_t have = vp_reader_seekable(r) ? vp_reader_stack(r)->pages : vp_reader_position(r);
    if (pages >= 0 && have != pages && !b->single)
        return vp_fail(err, VP_ERUN, "%s: expected %lld pages, got %lld", vp_reader_name(r), (long long)pages,
                       (long long)have);
    return 0;
}

void vp_beside_close(struct vp_beside *b)
{
    free(b->rows);
    *b = (struct vp_beside){0};
}

int64_t vp_keep_masked(void *samples, enum vp_type type, const void *mask, enum vp_type mask_type, int64_t n)
{
    enum { BLOCK = 4096 };
    const size_t size = vp_type_size(type), mask_size = vp_type_size(mask_type);
    double m[BLOCK];
    int64_t kept = 0;

    for (int64_t start = 0; start < n; start += BLOCK) {
        const int len = (int)(n - start < BLOCK ? n - start : BLOCK);
        vp_convert(m, VP_F64, (const char *)mask + (size_t)start * mask_size, mask_type, len, 1, 0);
        #define KEEP(T) do { T *x = samples; for (int i = 0; i < len; i++) \
            if (m[i] < 0 || m[i] > 0) x[kept++] = x[start + i]; } while (0)
        switch (size) {
        case 1: KEEP(uint8_t); break;
        case 2: KEEP(uint16_t); break;
        case 4: KEEP(uint32_t); break;
        default: KEEP(uint64_t); break;
        }
        #undef KEEP
    }
    return kept;
}
