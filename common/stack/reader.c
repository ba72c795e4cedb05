/* SPDX-License-Identifier: BSD-3-Clause */
/* One or many inputs as one stack. */
#include "stack/reader_internal.h"
#include "base/err.h"
#include "base/places.h"
#include "base/size.h"
#include "base/text.h"
#include "stack/ahead.h"
#include "stack/axes.h"
#include "stack/form.h"
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CONVERT_BYTES = 256 << 10, COUNT_BYTES = 1 << 20 };

uint64_t vp_reader_holds(const struct vp_reader *r, bool whole)
{
    enum { NOTHING = 1 << 20 }; /* every program takes more than that */
    return (r->need > NOTHING ? r->need : 0) + r->decoding[whole] + r->spooled;
}

static void leave(struct vp_reader *r)
{
    if (r->now)
        vp_inputs_give(r, r->at);
    r->now = NULL;
}

/* Replaces the axes of the first input by those of all, `joined`, as far as these are known. */
static int say_axes(const struct vp_reader *r, const struct vp_axes *joined, struct vp_meta *m)
{
    const char *said = vp_meta_get(m, "axes");
    const int64_t images = r->stack.pages < 0 ? -1 : r->stack.pages / r->channels;
    if (r->channels > 1 && (joined->n < 2 || !joined->sized)) {
        struct vp_axes a = {.n = 2, .sized = images > 0, .name = {"channel", "z"}, .size = {r->channels, images}};
        if (joined->n)
            memcpy(a.name[0], joined->name[0], sizeof a.name[0]);
        return vp_axes_set(m, &a);
    }
    if (said && !strcmp(said, "x y"))
        return vp_meta_set(m, "axes", NULL) || vp_meta_set(m, "sizes", NULL) ? -1 : 0;
    return joined->sized && joined->n > 1 ? vp_axes_set(m, joined) : vp_meta_set(m, "sizes", NULL);
}

/* Inputs with the same page axes are joined along the last of them. */
static void join_axes(struct vp_axes *a, const struct vp_stack *s)
{
    struct vp_axes b;
    vp_axes_get(s, &b);
    const int last = a->n - 1;
    a->sized = a->sized && b.sized && b.n == a->n;
    for (int i = 0; a->sized && i < a->n; i++)
        a->sized = !strcmp(a->name[i], b.name[i]) && (i == last || a->size[i] == b.size[i]);
    if (a->sized)
        a->size[last] += b.size[last];
}

/* Counts the memory that reading rows or whole pages of an input takes. */
static void count_decoding(struct vp_reader *r, const struct vp_source *s)
{
    for (int whole = 0; whole < 2; whole++) {
        const uint64_t need = s->decoding[whole && !s->scaled]; /* values are made of some rows at a time */
        r->decoding[whole] = need > r->decoding[whole] ? need : r->decoding[whole];
    }
}

/* Reads the headers of all inputs that can be read again; the others come when it is their turn. */
static int survey(struct vp_reader *r, struct vp_err *err)
{
    const int64_t n = r->in->paths.n;
    r->in->first = vp_alloc((size_t)n + 1, sizeof *r->in->first, "a list of inputs", err);
    r->in->input = vp_alloc((size_t)n, sizeof *r->in->input, "a list of inputs", err);
    if (!r->in->first || !r->in->input || !(r->now = vp_inputs_take(r, 0, err)))
        return -1;
    if (vp_stack_copy(&r->stack, &r->now->stack))
        return vp_fail(err, VP_ERESOURCE, "%s: out of memory", r->now->name);
    r->stack.type = vp_type_read(r->now);
    double upright[2] = {-r->now->scale[0], /* about the middle of the type */
                         vp_type_max(r->stack.type) + vp_type_min(r->stack.type) - r->now->scale[1]};
    if ((r->now->scaled && vp_meta_set(&r->stack.meta, "scale", NULL))
        || (r->turned && vp_meta_setf(&r->stack.meta, "scale", "%.17g %.17g", upright[0], upright[1])))
        return vp_fail(err, VP_ERESOURCE, "%s: out of memory", r->now->name);
    if (r->options.samples != VP_AS_STORED) /* it is one of samples that go through as they are */
        vp_meta_set(&r->stack.meta, "palette", NULL);
    r->channels = r->now->channels;
    r->lost = r->now->lost;
    r->remark = r->now->remark;
    r->seekable = r->now->seekable;
    uint64_t most = r->now->need;
    count_decoding(r, r->now);
    r->concurrent = r->seekable && r->now->by_rows;
    r->in->first[1] = r->now->stack.pages;
    struct vp_axes axes;
    vp_axes_get(&r->now->stack, &axes);
    for (int64_t i = 1; i < n; i++) {
        if (!vp_input_lasts(r->in->paths.path[i]) && !r->options.spool) {
            r->seekable = r->concurrent = axes.sized = false;
            r->in->first[i + 1] = -1;
            continue;
        }
        const struct vp_source *s = vp_inputs_take(r, i, err);
        if (!s)
            return -1;
        r->seekable = r->seekable && s->seekable;
        r->concurrent = r->concurrent && s->seekable && s->by_rows;
        r->in->first[i + 1] = r->in->first[i] < 0 || s->stack.pages < 0 ? -1 : r->in->first[i] + s->stack.pages;
        most = s->need > most ? s->need : most;
        count_decoding(r, s);
        join_axes(&axes, &s->stack);
        vp_inputs_give(r, i);
    }
    r->need = r->now->need + (n > 1 ? 2 * most : 0); /* the next, and one that is not used any more */
    if (vp_memory_claim(r->need, "reading it", r->name, err))
        return -1;
    r->stack.pages = r->stored.pages = r->in->first[n];
    struct vp_axes all; /* a first page that has the sizes of all: numbered files (stack/series.h) */
    vp_axes_get(&r->stack, &all);
    if (n > 1 && r->in->first[1] == 1 && all.sized && all.n > 1)
        axes = all;
    if (n > 1 && (say_axes(r, &axes, &r->stack.meta) || say_axes(r, &axes, &r->stored.meta)))
        return vp_fail(err, VP_ERESOURCE, "%s: out of memory", r->now->name);
    if (r->seekable)
        leave(r);
    return 0;
}

static char *make_name(const struct vp_paths *p)
{
    char *name = NULL;
    if (p->n == 1)
        return strdup(vp_text_name(p->path[0]));
    if (asprintf(&name, "%lld files (%s ... %s)", (long long)p->n, p->path[0], p->path[p->n - 1]) < 0)
        return NULL;
    return name;
}

static void release_inputs(struct vp_reader *r)
{
    leave(r);
    for (int64_t i = 0; r->in->input && i < r->in->paths.n; i++)
        vp_source_close(r->in->input[i].source);
    free(r->in->input);
    pthread_cond_destroy(&r->in->opened);
    pthread_mutex_destroy(&r->in->lock);
    vp_paths_free(&r->in->paths);
    free(r->in->first);
}

static void release(struct vp_reader *r)
{
    release_inputs(r);
    if (r->later) {
        release_inputs(vp_later_from(r->later));
        vp_later_free(r->later);
        free(r->in);
    }
    vp_stack_free(&r->stack);
    vp_stack_free(&r->stored);
    free(r->name);
    free(r);
}

int vp_reader_open(struct vp_reader **out, const char *const *paths, int n, const struct vp_reader_options *o,
                   struct vp_err *err)
{
    struct vp_reader *r = vp_alloc(1, sizeof *r + sizeof *r->in, "a list of inputs", err);
    if (!r)
        return -1;
    r->in = (struct vp_inputs *)(r + 1);
    pthread_mutex_init(&r->in->lock, NULL);
    pthread_cond_init(&r->in->opened, NULL);
    r->options = o ? *o : (struct vp_reader_options){0};
    int rc = vp_paths_expand(&r->in->paths, paths, n, r->options.output, err);
    if (!rc && !(r->name = make_name(&r->in->paths)))
        rc = vp_fail(err, VP_ERESOURCE, "out of memory");
    if (rc || survey(r, err)) {
        release(r);
        return -1;
    }
    *out = r;
    return 0;
}

const char *vp_reader_path(const struct vp_reader *r, int64_t i)
{
    return i < r->in->paths.n ? r->in->paths.path[i] : NULL;
}

uint64_t vp_reader_bytes(const struct vp_reader *r)
{
    return r->later ? vp_later_from(r->later)->in->bytes : r->in->bytes;
}

/* Makes the source of the next page stand at it, if it is not anywhere at once: 1, or 0 at the end of the stack. */
static int advance(struct vp_reader *r, struct vp_err *err)
{
    if (r->seekable)
        return r->position < r->stack.pages;
    while (r->at < r->in->paths.n) {
        if (!r->now && !(r->now = vp_inputs_take(r, r->at, err)))
            return -1;
        const int rc = vp_source_begin(r->now, r->page, err);
        if (rc)
            return rc;
        leave(r);
        r->at++;
        r->page = 0;
    }
    if (r->stack.pages >= 0 && r->position < r->stack.pages)
        return vp_fail(err, VP_ERUN, "%s: expected %lld pages, got %lld", r->name, (long long)r->stack.pages,
                       (long long)r->position);
    return 0;
}

int64_t vp_count_bad(const float *v, size_t n)
{
    enum { BLOCK = 1 << 16 };
    int64_t bad = 0;
    for (size_t i = 0; i < n; i += BLOCK) {
        const size_t m = n - i < BLOCK ? n - i : BLOCK;
        uint32_t some = 0; /* as wide as the samples: twice as fast as counting in 64 bits */
        for (size_t k = 0; k < m; k++) {
            uint32_t bits;
            memcpy(&bits, v + i + k, sizeof bits);
            some += (bits & 0x7f800000u) == 0x7f800000u;
        }
        bad += some;
    }
    return bad;
}

static int64_t columns_of(const struct vp_reader *r, const struct vp_wanted *w)
{
    return w->x1 ? w->x1 - w->x0 : r->stack.nx;
}

static size_t stride_of(const struct vp_reader *r, const struct vp_wanted *w)
{
    return w->stride ? w->stride : (size_t)columns_of(r, w) * vp_type_size(w->f32 ? VP_F32 : r->stack.type);
}

/* Reads rows of a page as they are stored, inverted if the source is. */
static int stored_rows(struct vp_source *s, int64_t page, int64_t y0, int64_t y1, void *buf, struct vp_err *err)
{
    if (vp_source_rows(s, page, y0, y1, buf, err))
        return -1;
    if (s->turned)
        vp_form_invert(buf, s->stack.type, (size_t)((y1 - y0) * s->stack.nx));
    return 0;
}

/* Reads rows of a page that has one row or one column, spread over the stack's (vp_reader_spread). */
static int spread_rows(const struct vp_reader *r, struct vp_source *s, const struct vp_wanted *w, int64_t page,
                       int64_t y0, int64_t y1, char *to, int64_t *bad, struct vp_err *err)
{
    const enum vp_type stored = s->stack.type, type = w->f32 ? VP_F32 : r->stack.type;
    const size_t size = vp_type_size(type), out = stride_of(r, w);
    const int64_t columns = columns_of(r, w), own = s->stack.nx == 1 ? 1 : columns, x0 = own == columns ? w->x0 : 0;
    char *const row = vp_alloc_raw((size_t)s->stack.nx, vp_type_size(stored), "rows to convert", err);
    int rc = row ? 0 : -1;
    for (int64_t y = y0; !rc && y < y1; y++, to += out) {
        if (s->stack.ny == 1 && y > y0) {
            memcpy(to, to - out, (size_t)columns * size);
            continue;
        }
        const int64_t from = s->stack.ny == 1 ? 0 : y;
        const char *const at = row + (size_t)x0 * vp_type_size(stored);
        rc = stored_rows(s, page, from, from + 1, row, err);
        if (!rc && s->scaled)
            vp_unscale(to, type, at, stored, own, s->scale);
        else if (!rc)
            vp_convert(to, type, at, stored, own, 1, 0);
        for (int64_t done = own, m; !rc && done < columns; done += m) {
            m = vp_min64(done, columns - done);
            memcpy(to + (size_t)done * size, to, (size_t)m * size);
        }
    }
    if (!rc && bad && w->f32 && vp_type_is_float(r->stack.type))
        for (int64_t y = y0; y < y1; y++)
            *bad += vp_count_bad((const float *)(const void *)(to - (size_t)(y1 - y) * out), (size_t)columns);
    free(row);
    return rc;
}

/* Reads rows of a page of one of the inputs, as requested: in pieces that stay in the cache between being read and
 * being cut, converted or counted. Nowhere if buf is NULL. */
static int rows_of(const struct vp_reader *r, struct vp_source *s, const struct vp_wanted *w, int64_t page, int64_t y0,
                   int64_t y1, void *buf, int64_t *bad, struct vp_err *err)
{
    if (vp_reader_is_spread(r))
        return spread_rows(r, s, w, page, y0, y1, buf, bad, err);
    const enum vp_type stored = s->stack.type, type = w->f32 ? VP_F32 : r->stack.type;
    const int64_t columns = columns_of(r, w);
    const size_t row = (size_t)r->stack.nx * vp_type_size(stored), out = stride_of(r, w);
    const bool rows = !w->stride && columns == r->stack.nx, direct = type == stored && !s->scaled && rows && buf;
    const bool count = w->f32 && bad && vp_type_is_float(r->stack.type);
    const int64_t piece = (int64_t)((direct ? COUNT_BYTES : CONVERT_BYTES) / row);
    const int64_t step = !direct || (count && s->by_rows) ? vp_min64(vp_max64(piece, 1), y1 - y0) : y1 - y0;
    char own[CONVERT_BYTES]; /* on the stack: the heaps of many threads that come and go hold megabytes */
    const bool fits = direct || (size_t)step * row <= sizeof own;
    char *const scratch = fits ? own : vp_alloc_raw((size_t)step, row, "rows to convert", err);
    int rc = scratch ? 0 : -1;
    for (int64_t y = y0; !rc && y < y1; y += step) {
        const int64_t n = vp_min64(step, y1 - y), together = rows ? n : 1, samples = together * columns;
        char *to = buf ? (char *)buf + (size_t)(y - y0) * out : NULL;
        rc = stored_rows(s, page, y, y + n, direct ? to : scratch, err);
        for (int64_t k = 0; !rc && buf && k < n; k += together, to += out) {
            const char *from = direct ? to : scratch + (size_t)k * row + (size_t)w->x0 * vp_type_size(stored);
            if (s->scaled)
                vp_unscale(to, type, from, stored, samples, s->scale);
            else if (!direct)
                vp_convert(to, type, from, stored, samples, 1, 0);
            if (count)
                *bad += vp_count_bad((const float *)(const void *)to, (size_t)samples);
        }
    }
    if (!fits)
        free(scratch);
    return rc;
}

/* Has rows of a page copied that were not read before. 1: they are in buf, as requested; 0: they can be read; -1. */
static int first_time(const struct vp_reader *r, const struct vp_wanted *w, int64_t page, int64_t y0, int64_t y1,
                      void *buf, int64_t *bad, struct vp_err *err)
{
    if (vp_reader_is_spread(r))
        return vp_later_read(r->later, page, 0, r->stored.ny, NULL, err);
    const bool same = !w->stride && columns_of(r, w) == r->stack.nx && (!w->f32 || r->stack.type == VP_F32);
    const int rc = vp_later_read(r->later, page, y0, y1, same ? buf : NULL, err);
    if (rc == 1 && w->f32 && bad)
        *bad += vp_count_bad(buf, (size_t)((y1 - y0) * r->stack.nx));
    return rc;
}

/* Reads rows of any page of a seekable stack. */
static int rows_at(struct vp_reader *r, const struct vp_wanted *w, int64_t page, int64_t y0, int64_t y1, void *buf,
                   int64_t *bad, struct vp_err *err)
{
    if (!r->seekable)
        return vp_fail(err, VP_ERUN, "%s: rows of a pipe cannot be read in any order", r->name),
               vp_hint(err, "give the file name instead, or use --spool");
    if (page < 0 || page >= r->stack.pages || y0 < 0 || y1 > r->stack.ny || y0 > y1)
        return vp_fail(err, VP_ERUN, "%s: rows %lld to %lld of page %lld: expected %lld pages of %lld rows",
                       r->name, (long long)y0, (long long)y1, (long long)page, (long long)r->stack.pages,
                       (long long)r->stack.ny);
    if (y0 == y1)
        return 0;
    const int there = r->later ? first_time(r, w, page, y0, y1, buf, bad, err) : 0;
    if (there)
        return there < 0 ? -1 : 0;
    const int64_t i = vp_pages_part(r->in->first, r->in->paths.n, page);
    struct vp_source *s = vp_inputs_take(r, i, err);
    if (!s)
        return -1;
    page -= r->in->first[i];
    int rc;
    if (page >= s->stack.pages) /* it was opened again, and is another file now */
        rc = vp_page_fail(s->name, page, err, "truncated while it is read");
    else
        rc = rows_of(r, s, w, page, y0, y1, buf, bad, err);
    vp_inputs_give(r, i);
    return rc;
}

struct shared {
    struct vp_reader *r;
    const struct vp_wanted *w;
    void *const *to;
    int64_t page, y0;
    _Atomic int64_t bad;
};

static int read_piece(void *ctx, int64_t i, int64_t y0, int64_t y1, struct vp_err *err)
{
    struct shared *p = ctx;
    int64_t bad = 0;
    const int rc = rows_at(p->r, p->w, p->page + i, p->y0 + y0, p->y0 + y1,
                           (char *)p->to[i] + (size_t)y0 * stride_of(p->r, p->w), p->w->bad ? &bad : NULL, err);
    if (bad)
        p->bad += bad;
    return rc;
}

/* Reads rows [y0, y1) of n pages of a seekable stack, by several threads where possible. */
static int read_rows(struct vp_reader *r, const struct vp_wanted *w, int64_t page, int64_t n, int64_t y0, int64_t y1,
                     void *const *to, struct vp_err *err)
{
    const size_t row = (size_t)r->stack.nx * vp_type_size(r->stack.type);
    struct shared p = {r, w, to, page, y0, 0};
    int rc = 0;
    if (r->concurrent && w->threads > 1 && !(r->later && vp_later_behind(r->later, page + n - 1, y1)))
        rc = vp_share_rows(n, y1 - y0, row, w->threads, read_piece, &p, err);
    else
        for (int64_t i = 0; !rc && i < n; i++)
            rc = rows_at(r, w, page + i, y0, y1, to[i], w->bad, err);
    if (w->bad)
        *w->bad += p.bad;
    return rc;
}

/* Reads rows [y0, y1) of the page that comes next: 1, 0 at the end of the stack, or -1. */
static int next_rows(struct vp_reader *r, const struct vp_wanted *w, int64_t y0, int64_t y1, void *to,
                     struct vp_err *err)
{
    int rc = advance(r, err);
    if (rc == 1 && (r->seekable ? read_rows(r, w, r->position, 1, y0, y1, &to, err)
                                : rows_of(r, r->now, w, r->page, y0, y1, to, w->bad, err)))
        rc = -1;
    r->failed = r->failed || rc < 0;
    return rc;
}

int64_t vp_reader_read(struct vp_reader *r, const struct vp_wanted *w, void *const *to, struct vp_err *err)
{
    const int64_t y1 = w->y1 ? w->y1 : r->stack.ny;
    if (w->page != VP_NEXT)
        return read_rows(r, w, w->page, w->n, w->y0, y1, to, err) ? -1 : w->n;
    if (r->seekable) {
        const int64_t n = vp_min64(w->n, r->stack.pages - r->position);
        if (read_rows(r, w, r->position, n, w->y0, y1, to, err))
            return -1;
        r->position += n;
        return n;
    }
    for (int64_t i = 0; i < w->n; i++, r->page++, r->position++) {
        const int rc = next_rows(r, w, w->y0, y1, to[i], err);
        if (rc <= 0)
            return rc < 0 ? -1 : i;
    }
    return w->n;
}

int64_t vp_reader_lines(struct vp_reader *r, int64_t n, int64_t x0, int64_t x1, void *buf, int threads,
                        struct vp_err *err)
{
    const int64_t ny = r->stack.ny;
    const struct vp_wanted w = {.x0 = x0, .x1 = x1, .threads = threads};
    for (int64_t done = 0, m; done < n; done += m) {
        m = vp_min64(n - done, ny - r->line);
        char *const to = buf ? (char *)buf + (size_t)done * stride_of(r, &w) : NULL;
        const int rc = next_rows(r, &w, r->line, r->line + m, to, err);
        if (rc < 1)
            return rc < 0 ? -1 : done;
        r->line = (r->line + m) % ny;
        r->page += !r->line;
        r->position += !r->line;
    }
    return n;
}

int vp_reader_skip(struct vp_reader *r, int64_t pages, struct vp_err *err)
{
    for (; pages > 0; pages--, r->page++, r->position++) {
        const int rc = advance(r, err);
        r->failed = r->failed || rc < 0;
        if (rc <= 0)
            return rc;
    }
    return 1;
}

int vp_reader_seek(struct vp_reader *r, int64_t page, struct vp_err *err)
{
    if (!r->seekable)
        return vp_fail(err, VP_ERUN, "%s: a pipe cannot be read again", r->name),
               vp_hint(err, "give the file name instead, or use --spool");
    if (page < 0 || page > r->stack.pages)
        return vp_page_fail(r->name, page, err, "expected 0 to %lld", (long long)r->stack.pages - 1);
    r->position = page;
    r->line = 0;
    return 0;
}

/* Makes the `pages` pages that were kept the only input. */
static int become(struct vp_reader *r, struct vp_kept *k, int64_t pages, struct vp_err *err)
{
    struct vp_input in = vp_kept_input(k);
    struct vp_source *s;
    if (vp_source_samples(&s, &in, &r->stack, pages, err))
        return -1;
    leave(r);
    for (int64_t i = 0; i < r->in->paths.n; i++) {
        vp_source_close(r->in->input[i].source);
        if (i > 0)
            free(r->in->paths.path[i]);
    }
    r->in->n_idle = 0;
    r->in->paths.n = 1;
    r->in->input[0] = (struct vp_opened){.source = s, .keep = true};
    r->in->first[0] = 0;
    r->in->first[1] = r->stack.pages = r->stored.pages = pages;
    r->seekable = r->concurrent = true;
    r->at = r->page = r->position = r->line = 0;
    return 0;
}

/* Makes a copy of the inputs, which comes when they are read, the only input. */
static int become_later(struct vp_reader *r, uint64_t bytes, struct vp_err *err)
{
    struct vp_inputs *const in = vp_alloc(1, sizeof *in, "a list of inputs", err);
    int64_t *const first = in ? vp_alloc(2, sizeof *first, "a list of inputs", err) : NULL;
    struct vp_opened *const input = first ? vp_alloc(1, sizeof *input, "a list of inputs", err) : NULL;
    char **const path = input ? vp_alloc(1, sizeof *path, "a list of inputs", err) : NULL;
    char *const name = path ? strdup(r->name) : NULL;
    struct vp_later *later = NULL;
    struct vp_source *s = NULL;
    int rc = name ? vp_later_open(&later, r, err) : path ? vp_fail(err, VP_ERESOURCE, "out of memory") : -1;
    if (!rc) {
        struct vp_input copy = {.fd = vp_later_fd(later), .name = r->name, .anywhere = true, .size = bytes};
        rc = vp_source_samples(&s, &copy, &r->stack, r->stack.pages, err);
    }
    if (rc) {
        if (later)
            vp_later_free(later);
        free(name);
        free(path);
        free(input);
        free(first);
        free(in);
        return -1;
    }
    *path = name;
    *input = (struct vp_opened){.source = s, .keep = true};
    first[1] = r->stack.pages;
    *in = (struct vp_inputs){.paths = {.path = path, .n = 1}, .first = first, .input = input};
    pthread_mutex_init(&in->lock, NULL);
    pthread_cond_init(&in->opened, NULL);
    r->in = in;
    r->later = later;
    r->now = NULL;
    r->seekable = r->concurrent = true;
    r->at = r->page = r->position = r->line = 0;
    return 0;
}

int vp_reader_keep(struct vp_reader *r, uint64_t memory, uint64_t *held, struct vp_err *err)
{
    enum { PIECE_BYTES = 1 << 23 };
    const int64_t ny = r->stack.ny;
    const size_t page = vp_page_bytes(&r->stack), row = page / (size_t)ny;
    const int64_t some = vp_min64(ny, vp_max64(1, (int64_t)(PIECE_BYTES / row)));
    size_t all = SIZE_MAX;
    const bool known = r->stack.pages >= 0 && vp_mul_size(&all, page, (size_t)r->stack.pages);
    if (known && held && all > memory && !r->position && !r->line) {
        if (vp_scratch_allow(all, vp_memory_most() / 2, r->name, err) || become_later(r, all, err))
            return -1;
        *held = vp_scratch_in_memory() ? all : 0;
        return 0;
    }
    const size_t piece = (size_t)some * row;
    const uint64_t most = known && all < memory ? all : memory, few = 16 * (uint64_t)page;
    struct vp_kept kept;
    int rc = vp_kept_open(&kept, r->name, memory, (size_t)((known || most < few ? most : few) / piece) + 2, piece, err);
    for (int64_t got = 1; !rc && got > 0;) {
        const int64_t n = vp_min64(some, ny - r->line);
        void *to = vp_kept_next(&kept, piece, err);
        if (to && r->stack.pages >= 0 && r->position == r->stack.pages)
            rc = vp_reader_ended(r, err);
        got = !to || rc ? -1 : vp_reader_lines(r, n, 0, 0, to, 1, err);
        rc = got < 0 ? -1 : got > 0 ? vp_kept_add(&kept, (size_t)got * row, held, err) : 0;
    }
    if (!rc && held)
        *held = kept.fd < 0 || vp_scratch_in_memory() ? kept.bytes : 0;
    if (!rc)
        return become(r, &kept, (int64_t)(kept.bytes / page), err);
    vp_kept_free(&kept);
    return rc > 0 ? 1 : rc;
}

/* Returns the bytes that reading ahead may take. */
static uint64_t ahead_bytes(const struct vp_reader *r, uint64_t memory)
{
    enum { SHARE = 16, LEAST = 32 << 20 }; /* less comes in a few milliseconds */
    const uint64_t most = memory / SHARE < (uint64_t)2 << 30 ? memory / SHARE : (uint64_t)2 << 30;
    const int64_t left = r->stored.pages < 0 ? -1 : r->stored.pages - r->position;
    const double bytes = left < 0 ? (double)most : (double)left * (double)vp_page_bytes(&r->stored);
    return r->seekable || !r->now || r->now->in.anywhere || most < LEAST || bytes < LEAST ? 0
         : bytes < (double)most ? (uint64_t)bytes : most;
}

uint64_t vp_reader_ahead(struct vp_reader *r, uint64_t memory, bool begin)
{
    const uint64_t bytes = ahead_bytes(r, memory);
    if (!bytes || !begin || r->now->in.ahead)
        return bytes;
    return (r->now->in.ahead = vp_ahead_start(r->now->in.fd, bytes)) ? bytes : 0;
}

uint64_t vp_reader_ahead_stop(struct vp_reader *r)
{
    return r->now && r->now->in.ahead ? vp_ahead_stop(r->now->in.ahead) : 0;
}

void vp_reader_spread(struct vp_reader *r, int64_t nx, int64_t ny)
{
    assert((r->stored.nx == nx || r->stored.nx == 1) && (r->stored.ny == ny || r->stored.ny == 1));
    assert(r->seekable);
    r->stack.nx = nx;
    r->stack.ny = ny;
}

int vp_reader_ended(struct vp_reader *r, struct vp_err *err)
{
    const int rc = advance(r, err);
    return rc == 1 ? vp_fail(err, VP_ERUN, "%s: expected %lld pages, got more", r->name, (long long)r->stack.pages) : rc;
}

int vp_reader_close(struct vp_reader *r, struct vp_err *err)
{
    if (!r)
        return 0;
    int rc = 0;
    if (!r->failed && !r->seekable && r->stack.pages >= 0 && r->position == r->stack.pages)
        rc = vp_reader_ended(r, err);
    release(r);
    return rc;
}
