/* SPDX-License-Identifier: BSD-3-Clause */
/* Picking pages and regions of a stack. */
#include "pages/select_internal.h"

#include "base/err.h"
#include "base/size.h"
#include "base/text.h"
#include "stack/source.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct vp_opt vp_select_options[] = {
    VP_STRING(struct vp_select_params, pages, "pages", 'p', .metavar = "LIST", .group = "Selection",
              .help = "select pages by number, from 0: 7, 10:20, ::2, -1, or a list of these",
              .more = "The notation is that of Python:\n\n"
                      "- A:B is the pages from A to B - 1; A:B:STEP takes every STEPth of them.\n"
                      "- A missing A or B is the first or last page. Negative numbers count from the end. A negative "
                      "STEP goes backwards.\n"
                      "- The part of a range beyond the stack is ignored, but at least one page must exist.\n"
                      "- A list with commas gives the pages in its order. A page may be repeated.\n\n"
                      "From a pipe, pages must be in increasing order. If the number of pages is unknown, all "
                      "selected pages must exist."),
    VP_STRING(struct vp_select_params, region, "region", 0, .metavar = "X0:X1,Y0:Y1",
              .help = "cut a region from each page: columns X0 to X1-1, rows Y0 to Y1-1",
              .more = "Either side of a colon may be omitted: 100:,:50 is the first 50 rows without their first 100 "
                      "columns. Negative numbers count from the end."),
    VP_INSTEAD("old-r", 'r', "region"),
    VP_OPT_END,
};

/* ---- parsing ---- */

/* "a:b:step" or "a": which parts are there, and their values. */
enum { A, B, STEP };
struct slice { bool range, has[3]; int64_t part[3]; };

/* Parses one slice, up to a comma or the end of the text. */
static bool parse_slice(const char **at, struct slice *s)
{
    *s = (struct slice){.part = {0, 0, 1}};
    for (int k = A; k <= STEP; k++) {
        s->has[k] = **at == '-' || (**at >= '0' && **at <= '9');
        if (s->has[k]) {
            char *end;
            errno = 0;
            s->part[k] = strtoll(*at, &end, 10);
            if (end == *at || errno)
                return false;
            *at = end;
        }
        if (**at != ':' || k == STEP)
            break;
        s->range = true;
        ++*at;
    }
    return (s->range || s->has[A]) && s->part[STEP] && (**at == ',' || **at == '\0');
}

/* Finds first element, step and count of a slice of n things; count -1 if n is -1 (unknown) and it goes to the
 * end. `clip`: a range is cut to what there is, as in Python. */
static int resolve(const struct slice *s, int64_t n, bool clip, const char *option, const char *text, const char *what,
                   const char *name, struct vp_page_range *span, struct vp_err *err)
{
    const bool back = s->part[STEP] < 0;
    int64_t a = s->part[A], b = s->part[B];

    if (n < 0) {
        if (a < 0 || b < 0 || (back && !s->has[A]))
            return vp_fail_hint(err, VP_EUSAGE, "use --spool, or count from the start",
                                "%s '%s': %s has an unknown number of %s", option, text, name, what);
    } else {
        a += a < 0 ? n : 0;
        b += b < 0 ? n : 0;
        if (clip && s->range) {
            const int64_t low = back ? -1 : 0, high = back ? n - 1 : n;
            a = vp_max64(low, vp_min64(a, high));
            b = vp_max64(low, vp_min64(b, high));
        } else if ((s->has[A] && (a < 0 || a >= n)) || (s->has[B] && (b < 0 || b > n)))
            return vp_fail(err, VP_EUSAGE, "%s '%s': %s has %lld %s, 0 to %lld", option, text, name,
                           (long long)n, what, (long long)n - 1);
    }
    if (!s->has[A])
        a = back ? n - 1 : 0;
    if (!s->has[B])
        b = back ? -1 : n;
    *span = (struct vp_page_range){.first = a, .step = s->part[STEP], .count = s->range ? -1 : 1};
    if (!s->range)
        return 0;
    if (!s->has[B] && !back && n < 0) {
        span->step = vp_min64(span->step, INT64_MAX / 2); /* beyond any stack, and the number of the next page fits */
        return 0;
    }
    if (back ? b >= a : b <= a)
        return vp_fail(err, VP_EUSAGE, "%s '%s': selects no %s", option, text, what);
    /* unsigned, so that no step overflows */
    const uint64_t way = back ? (uint64_t)a - (uint64_t)b : (uint64_t)b - (uint64_t)a;
    const uint64_t stride = back ? -(uint64_t)s->part[STEP] : (uint64_t)s->part[STEP];
    span->count = (int64_t)((way - 1) / stride) + 1;
    return 0;
}

static int parse_pages(struct vp_select *s, const char *text, const char *name, struct vp_err *err)
{
    const char *at = text;
    size_t room = 1;

    for (const char *c = text; *c; c++)
        room += *c == ',';
    s->span = vp_alloc(room, sizeof *s->span, "list of pages", err);
    if (!s->span)
        return -1;
    for (;;) {
        struct slice slice;
        struct vp_page_range *span = &s->span[s->n_spans];
        if (!parse_slice(&at, &slice))
            return vp_fail(err, VP_EUSAGE,
                           "--pages: expected numbers and ranges like 0,5,10:20,::2, got '%s'", text);
        if (resolve(&slice, s->in_pages, true, "--pages", text, "pages", name, span, err) < 0)
            return -1;
        if (span->count == 1)
            span->step = 1;
        s->n_spans++;
        if (*at == '\0')
            return 0;
        at++;
    }
}

int vp_select_pick(void *params, const char *name, const int64_t *first, int64_t images, bool *keep,
                   struct vp_err *err)
{
    struct vp_select_params *const p = params;
    struct vp_select s = {.in_pages = first[images]};
    int64_t *const gone = vp_alloc((size_t)images + 1, sizeof *gone, "list of pages", err); /* before an image */
    FILE *f = NULL;
    int rc = !gone || parse_pages(&s, p->pages, name, err) ? -1 : 0;

    for (int k = 0; !rc && k < s.n_spans; k++)
        for (int64_t i = 0; i < s.span[k].count; i++)
            keep[vp_pages_part(first, images, s.span[k].first + i * s.span[k].step)] = true;
    for (int64_t i = 0; !rc && i < images; i++)
        gone[i + 1] = gone[i] + (keep[i] ? 0 : first[i + 1] - first[i]);
    if (!rc && !(f = vp_text_open()))
        rc = vp_fail(err, VP_ERESOURCE, "out of memory: a list of pages");
    for (int k = 0; !rc && k < s.n_spans; k++)
        for (int64_t i = 0; i < s.span[k].count; i++) {
            const int64_t at = s.span[k].first + i * s.span[k].step;
            fprintf(f, "%s%lld", k || i ? "," : "", (long long)(at - gone[vp_pages_part(first, images, at)]));
        }
    free(p->picked);
    p->picked = f ? vp_text_close(f, NULL) : NULL;
    free(gone);
    vp_select_free(&s);
    return rc || p->picked ? rc : vp_fail(err, VP_ERESOURCE, "out of memory: a list of pages");
}

static int parse_region(struct vp_select *s, const char *text, const char *name, struct vp_err *err)
{
    struct slice x, y;
    struct vp_page_range columns, rows;
    const char *at = text;

    const bool good = parse_slice(&at, &x) && *at++ == ',' && parse_slice(&at, &y) && *at == '\0';
    if (!good || !x.range || !y.range || x.has[STEP] || y.has[STEP])
        return vp_fail(err, VP_EUSAGE, "--region: expected X0:X1,Y0:Y1, got '%s'", text);
    if (resolve(&x, s->nx, false, "--region", text, "columns", name, &columns, err) < 0
        || resolve(&y, s->ny, false, "--region", text, "rows", name, &rows, err) < 0)
        return -1;
    s->x0 = columns.first;
    s->x1 = s->x0 + columns.count;
    s->y0 = rows.first;
    s->y1 = s->y0 + rows.count;
    return 0;
}

/* ---- selection ---- */

static void reverse(struct vp_select *s)
{
    for (int i = 0, j = s->n_spans - 1; i < j; i++, j--) {
        const struct vp_page_range t = s->span[i];
        s->span[i] = s->span[j];
        s->span[j] = t;
    }
    for (int i = 0; i < s->n_spans; i++) {
        struct vp_page_range *p = &s->span[i];
        p->first += (p->count - 1) * p->step;
        p->step = p->count == 1 ? 1 : -p->step;
    }
}

/* Fails: pages are wanted in another order than that of a pipe. */
static int disorder(const char *name, struct vp_err *err)
{
    return vp_fail_hint(err, VP_EUSAGE, "use --spool", "%s: pages out of order cannot be read from a pipe", name);
}

/* Counts the pages of the spans, and checks their order. */
static int count_pages(struct vp_select *s, const struct vp_select_params *p, const char *name, bool seekable,
                       struct vp_err *err)
{
    int64_t after = -1;
    bool increasing = true; /* no page before or equal to the one before it */

    if (p->reverse && s->span[s->n_spans - 1].count < 0)
        return vp_fail_hint(err, VP_EUSAGE, "use --spool", "--reverse: %s has an unknown number of pages", name);
    if (p->reverse)
        reverse(s);
    for (int i = 0; i < s->n_spans; i++) {
        struct vp_page_range *span = &s->span[i];
        span->at = s->pages;
        if (span->count < 0 && i + 1 < s->n_spans)
            return vp_fail_hint(err, VP_EUSAGE, "use --spool",
                                "--pages '%s': %s has an unknown number of pages", p->pages, name);
        increasing = increasing && span->step > 0 && span->first > after;
        s->pages = span->count < 0 ? -1 : s->pages + span->count;
        after = span->count < 0 ? INT64_MAX : span->first + (span->count - 1) * span->step;
    }
    return increasing || seekable ? 0 : disorder(name, err);
}

int vp_select_make(struct vp_select *s, const struct vp_select_params *p, const struct vp_stack *in,
                   const char *name, bool seekable, struct vp_err *err)
{
    struct vp_geom g = {0};

    *s = (struct vp_select){.nx = in->nx, .ny = in->ny, .in_pages = in->pages, .x1 = in->nx, .y1 = in->ny};
    if (s->in_pages < 0 && (p->pages || p->reverse)) {
        const int layout = vp_select_layout(in, &g, name, err);
        if (layout < 0)
            return -1;
        if (layout == VP_VIEWS || layout == VP_SINOGRAMS)
            s->in_pages = layout == VP_VIEWS ? g.views : g.nv;
        vp_geom_free(&g);
    }
    const char *const pages = p->picked ? p->picked : p->pages;
    if (!parse_pages(s, pages ? pages : ":", name, err) && (!p->region || !parse_region(s, p->region, name, err))
        && !count_pages(s, p, name, seekable, err))
        return 0;
    vp_select_free(s);
    return -1;
}

void vp_select_free(struct vp_select *s)
{
    free(s->span);
    s->span = NULL;
}

bool vp_select_all_columns(const struct vp_select *s)
{
    return s->x0 == 0 && s->y0 == 0 && s->x1 == s->nx && s->y1 == s->ny;
}

bool vp_select_all_pages(const struct vp_select *s)
{
    return s->n_spans == 1 && s->span[0].first == 0 && s->span[0].step == 1
           && (s->span[0].count < 0 || s->span[0].count == s->in_pages);
}

bool vp_select_is_all(const struct vp_select *s)
{
    return vp_select_all_columns(s) && vp_select_all_pages(s);
}

int64_t vp_select_page(const struct vp_select *s, int64_t i)
{
    int lo = 0, hi = s->n_spans - 1;

    while (lo < hi) {
        const int mid = (lo + hi + 1) / 2;
        if (s->span[mid].at <= i)
            lo = mid;
        else
            hi = mid - 1;
    }
    return s->span[lo].first + (i - s->span[lo].at) * s->span[lo].step;
}

/* ---- reading the rows of selected pages, and those of a second stack beside them ---- */

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
        return disorder(vp_reader_name(r), err);
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
