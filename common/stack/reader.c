/* SPDX-License-Identifier: BSD-3-Clause */
/* One or many inputs as one stack. */
#include "stack/reader.h"
#include "base/err.h"
#include "base/size.h"
#include "stack/source.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CONVERT_BYTES = 256 << 10, COUNT_BYTES = 1 << 20 };

struct vp_reader {
    struct vp_paths paths;
    /* first[i]: stack page of the first page of input i; n + 1 of them; seekable only */
    int64_t *first;
    char *raw;
    bool spool, seekable, failed, any_kept;
    struct vp_stack stack;
    char *name;
    struct vp_source *now; /* of vp_reader_next: input `at`, its page `page` is next; NULL: not open */
    int64_t at, page;
    int64_t position; /* the page of the stack that comes next */
    struct vp_source **kept; /* of inputs that can be read anywhere, but not be opened again */
    struct vp_source *aside; /* of vp_reader_rows_f32, when it needs another input than `now` */
    int64_t aside_at;
    uint64_t bytes; /* of inputs already closed */
    void *scratch; /* samples to be converted */
    size_t scratch_bytes;
};

static int open_descriptor(struct vp_reader *r, const char *path, const char *name, struct vp_err *err)
{
    int fd;
    if (!strcmp(path, "-")) {
        /* Standard input is taken over: a second reader of it must not get bytes of something else, and
         * closing ours tells the program before us that nobody reads any more. */
        fd = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
        const int null = open("/dev/null", O_RDONLY);
        if (null >= 0) {
            dup2(null, STDIN_FILENO);
            if (null != STDIN_FILENO)
                close(null);
        }
    } else {
        fd = open(path, O_RDONLY | O_CLOEXEC);
    }
    if (fd < 0)
        return vp_fail_errno(err, "%s", name);
    struct stat st;
    if (fstat(fd, &st) || S_ISDIR(st.st_mode)) {
        errno = S_ISDIR(st.st_mode) ? EISDIR : errno;
        vp_fail_errno(err, "%s", name);
        close(fd);
        return -1;
    }
    /* A file that was already read from goes on from there, like a pipe. */
    const bool anywhere = S_ISREG(st.st_mode) && lseek(fd, 0, SEEK_CUR) == 0;
    return r->spool && !anywhere ? vp_spool(fd, name, err) : fd;
}

/* Can the input be opened again? */
static bool lasts(const char *path)
{
    struct stat st;
    return strcmp(path, "-") && !stat(path, &st) && S_ISREG(st.st_mode);
}

static int open_source(struct vp_reader *r, int64_t i, struct vp_source **out, struct vp_err *err)
{
    const char *path = r->paths.path[i], *name = strcmp(path, "-") ? path : "standard input";
    if (r->kept[i]) {
        *out = r->kept[i];
        return 0;
    }
    const int fd = open_descriptor(r, path, name, err);
    if (fd < 0)
        return -1;
    struct stat st;
    const bool file = !fstat(fd, &st) && S_ISREG(st.st_mode) && lseek(fd, 0, SEEK_CUR) == 0;
    const int rc = r->raw ? vp_source_raw(out, fd, name, r->raw, err)
                   : file ? vp_source_file(out, fd, name, err)
                          : vp_source_stream(out, fd, name, err);
    if (!rc && (*out)->seekable && !lasts(path))
        r->kept[i] = *out, r->any_kept = true;
    return rc;
}

static int check_like_first(const struct vp_reader *r, const struct vp_source *s, struct vp_err *err)
{
    const struct vp_stack *a = &r->stack, *b = &s->stack;
    if (a->nx == b->nx && a->ny == b->ny && a->type == b->type)
        return 0;
    return vp_fail(err, VP_ERUN, "%s: expected pages of %lldx%lld %s as in %s, got %lldx%lld %s", s->name,
                   (long long)a->nx, (long long)a->ny, vp_type_name(a->type),
                   strcmp(r->paths.path[0], "-") ? r->paths.path[0] : "standard input", (long long)b->nx,
                   (long long)b->ny, vp_type_name(b->type));
}

static bool is_kept(const struct vp_reader *r, const struct vp_source *s)
{
    for (int64_t i = 0; i < r->paths.n; i++)
        if (r->kept[i] == s)
            return true;
    return false;
}

static void close_source(struct vp_reader *r, struct vp_source **s)
{
    if (*s && !(r->any_kept && is_kept(r, *s))) {
        r->bytes += (*s)->bytes;
        (*s)->close(*s);
    }
    *s = NULL;
}

/* Read the headers of all inputs that can be read again; the others come when it is their turn. */
static int survey(struct vp_reader *r, struct vp_err *err)
{
    const int64_t n = r->paths.n;
    r->first = calloc((size_t)n + 1, sizeof *r->first);
    r->kept = calloc((size_t)n, sizeof *r->kept);
    if (!r->first || !r->kept)
        return vp_fail(err, VP_ERESOURCE, "not enough memory for a list of %lld inputs", (long long)n);
    if (open_source(r, 0, &r->now, err))
        return -1;
    if (vp_stack_copy(&r->stack, &r->now->stack))
        return vp_fail(err, VP_ERESOURCE, "%s: not enough memory", r->now->name);
    r->seekable = r->now->seekable;
    r->first[1] = r->now->stack.pages;
    for (int64_t i = 1; i < n; i++) {
        struct vp_source *s = NULL;
        if (!lasts(r->paths.path[i]) && !r->spool) {
            r->seekable = false;
            r->first[i + 1] = -1;
            continue;
        }
        if (open_source(r, i, &s, err))
            return -1;
        const int rc = check_like_first(r, s, err);
        r->seekable = r->seekable && s->seekable;
        r->first[i + 1] = r->first[i] < 0 || s->stack.pages < 0 ? -1 : r->first[i] + s->stack.pages;
        close_source(r, &s);
        if (rc)
            return -1;
    }
    r->bytes = 0;
    r->stack.pages = r->first[n];
    if (n > 1) { /* what the first says about its own pages does not hold for all */
        const char *axes = vp_meta_get(&r->stack.meta, "axes");
        vp_meta_set(&r->stack.meta, "sizes", NULL);
        if (axes && !strcmp(axes, "x y"))
            vp_meta_set(&r->stack.meta, "axes", NULL);
    }
    return 0;
}

static char *make_name(const struct vp_paths *p)
{
    char *name = NULL;
    if (p->n == 1)
        return strdup(strcmp(p->path[0], "-") ? p->path[0] : "standard input");
    if (asprintf(&name, "%lld files (%s ... %s)", (long long)p->n, p->path[0], p->path[p->n - 1]) < 0)
        return NULL;
    return name;
}

static void release(struct vp_reader *r)
{
    close_source(r, &r->now);
    close_source(r, &r->aside);
    for (int64_t i = 0; r->any_kept && i < r->paths.n; i++)
        if (r->kept[i])
            r->kept[i]->close(r->kept[i]);
    free(r->kept);
    vp_paths_free(&r->paths);
    vp_stack_free(&r->stack);
    free(r->first);
    free(r->raw);
    free(r->name);
    free(r->scratch);
    free(r);
}

int vp_reader_open(struct vp_reader **out, const char *const *paths, int n, const struct vp_reader_options *o,
                   struct vp_err *err)
{
    struct vp_reader *r = calloc(1, sizeof *r);
    if (!r)
        return vp_fail(err, VP_ERESOURCE, "not enough memory");
    r->spool = o && o->spool;
    r->raw = o && o->raw ? strdup(o->raw) : NULL;
    int rc = o && o->raw && !r->raw ? vp_fail(err, VP_ERESOURCE, "not enough memory") : 0;
    if (!rc)
        rc = vp_paths_expand(&r->paths, paths, n, err);
    if (!rc && !(r->name = make_name(&r->paths)))
        rc = vp_fail(err, VP_ERESOURCE, "not enough memory");
    if (!rc)
        rc = survey(r, err);
    if (rc) {
        release(r);
        return -1;
    }
    *out = r;
    return 0;
}

const struct vp_stack *vp_reader_stack(const struct vp_reader *r)
{
    return &r->stack;
}

const char *vp_reader_name(const struct vp_reader *r)
{
    return r->name;
}

bool vp_reader_seekable(const struct vp_reader *r)
{
    return r->seekable;
}

uint64_t vp_reader_bytes(const struct vp_reader *r)
{
    uint64_t n = r->bytes;
    for (int64_t i = 0; r->any_kept && i < r->paths.n; i++)
        n += r->kept[i] ? r->kept[i]->bytes : 0;
    if (r->now && !is_kept(r, r->now))
        n += r->now->bytes;
    if (r->aside && !is_kept(r, r->aside))
        n += r->aside->bytes;
    return n;
}

/* Make the source of the next page stand at it: 1, or 0 at the end of the stack. */
static int advance(struct vp_reader *r, struct vp_err *err)
{
    while (r->at < r->paths.n) {
        if (!r->now) {
            if (open_source(r, r->at, &r->now, err) || check_like_first(r, r->now, err))
                return -1;
        }
        const int rc = r->now->begin(r->now, r->page, err);
        if (rc)
            return rc;
        close_source(r, &r->now);
        r->at++;
        r->page = 0;
    }
    if (r->stack.pages >= 0 && r->position < r->stack.pages)
        return vp_fail(err, VP_ERUN, "%s: expected %lld pages, got %lld", r->name, (long long)r->stack.pages,
                       (long long)r->position);
    return 0;
}

static int next(struct vp_reader *r,
                int (*read)(struct vp_reader *r, void *buf, int64_t *bad, struct vp_err *err), void *buf,
                int64_t *bad, struct vp_err *err)
{
    int rc = advance(r, err);
    if (rc == 1 && read(r, buf, bad, err))
        rc = -1;
    if (rc == 1) {
        r->page++;
        r->position++;
    }
    r->failed = r->failed || rc < 0;
    return rc;
}

static int whole_page(struct vp_reader *r, void *buf, int64_t *bad, struct vp_err *err)
{
    (void)bad;
    return r->now->rows(r->now, r->page, 0, r->stack.ny, buf, err);
}

int vp_reader_next(struct vp_reader *r, void *buf, struct vp_err *err)
{
    return next(r, whole_page, buf, NULL, err);
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

/* Rows as f32, in pieces that stay in the cache between being read and being converted or counted. */
static int rows_f32(struct vp_reader *r, struct vp_source *s, int64_t page, int64_t y0, int64_t y1,
                    float *buf, int64_t *bad, struct vp_err *err)
{
    const enum vp_type type = r->stack.type;
    const size_t nx = (size_t)r->stack.nx, row = nx * vp_type_size(type);
    const bool direct = type == VP_F32;
    const size_t piece = direct ? COUNT_BYTES : CONVERT_BYTES;
    int64_t step = s->by_rows && (!direct || bad) ? (int64_t)(piece / row) : y1 - y0;
    step = step < 1 ? 1 : step < y1 - y0 ? step : y1 - y0;
    if (!direct && r->scratch_bytes < (size_t)step * row) {
        free(r->scratch);
        r->scratch_bytes = 0;
        r->scratch = vp_alloc_raw((size_t)step, row, "rows to convert", err);
        if (!r->scratch)
            return -1;
        r->scratch_bytes = (size_t)step * row;
    }
    for (int64_t y = y0; y < y1; y += step) {
        const int64_t n = step < y1 - y ? step : y1 - y;
        float *to = buf + (size_t)(y - y0) * nx;
        if (s->rows(s, page, y, y + n, direct ? (void *)to : r->scratch, err))
            return -1;
        if (!direct)
            vp_convert(to, VP_F32, r->scratch, type, n * (int64_t)nx, 1, 0);
        if (bad && vp_type_is_float(type))
            *bad += vp_count_bad(to, (size_t)n * nx);
    }
    return 0;
}

static int whole_page_f32(struct vp_reader *r, void *buf, int64_t *bad, struct vp_err *err)
{
    return rows_f32(r, r->now, r->page, 0, r->stack.ny, buf, bad, err);
}

int vp_reader_next_f32(struct vp_reader *r, float *buf, int64_t *bad, struct vp_err *err)
{
    return next(r, whole_page_f32, buf, bad, err);
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

static int64_t input_of(const struct vp_reader *r, int64_t page)
{
    int64_t lo = 0, hi = r->paths.n; /* first[lo] <= page < first[hi] */
    while (hi - lo > 1) {
        const int64_t mid = lo + (hi - lo) / 2;
        if (r->first[mid] <= page)
            lo = mid;
        else
            hi = mid;
    }
    return lo;
}

int vp_reader_seek(struct vp_reader *r, int64_t page, struct vp_err *err)
{
    if (!r->seekable)
        return vp_fail(err, VP_ERUN, "%s: a pipe cannot be read again", r->name),
               vp_hint(err, "give the file name instead, or use --spool");
    if (page < 0 || page > r->stack.pages)
        return vp_fail(err, VP_ERUN, "%s: page %lld: expected 0 to %lld", r->name, (long long)page,
                       (long long)r->stack.pages - 1);
    const int64_t i = input_of(r, page);
    if (i != r->at)
        close_source(r, &r->now);
    r->at = i;
    r->page = page - r->first[i];
    r->position = page;
    return 0;
}

int vp_reader_rows_f32(struct vp_reader *r, int64_t page, int64_t y0, int64_t y1, float *buf,
                       struct vp_err *err)
{
    if (!r->seekable)
        return vp_fail(err, VP_ERUN, "%s: rows of a pipe cannot be read in any order", r->name),
               vp_hint(err, "give the file name instead, or use --spool");
    if (page < 0 || page >= r->stack.pages || y0 < 0 || y1 > r->stack.ny || y0 > y1)
        return vp_fail(err, VP_ERUN, "%s: rows %lld to %lld of page %lld: expected %lld pages of %lld rows",
                       r->name, (long long)y0, (long long)y1, (long long)page, (long long)r->stack.pages,
                       (long long)r->stack.ny);
    const int64_t i = input_of(r, page);
    struct vp_source *s = r->now && r->at == i ? r->now : r->aside && r->aside_at == i ? r->aside : NULL;
    if (!s) {
        close_source(r, &r->aside);
        if (open_source(r, i, &r->aside, err) || check_like_first(r, r->aside, err))
            return -1;
        r->aside_at = i;
        s = r->aside;
    }
    return y0 == y1 ? 0 : rows_f32(r, s, page - r->first[i], y0, y1, buf, NULL, err);
}

int vp_reader_close(struct vp_reader *r, struct vp_err *err)
{
    if (!r)
        return 0;
    int rc = 0;
    /* All promised pages were read: now the input must end. */
    if (!r->failed && !r->seekable && r->stack.pages >= 0 && r->position == r->stack.pages) {
        rc = advance(r, err);
        if (rc == 1)
            rc = vp_fail(err, VP_ERUN, "%s: expected %lld pages, got more", r->name,
                         (long long)r->stack.pages);
    }
    release(r);
    return rc;
}
