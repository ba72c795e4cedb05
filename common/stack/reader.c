/* SPDX-License-Identifier: BSD-3-Clause */
/* One or many inputs as one stack. */
#include "stack/reader.h"
#include "base/err.h"
#include "base/places.h"
#include "base/size.h"
#include "stack/source.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CONVERT_BYTES = 256 << 10, COUNT_BYTES = 1 << 20, IDLE = 16 };

/* One of the files. Its source is shared by all who read it, and stays open for a while after the last. */
struct input {
    struct vp_source *source; /* NULL: not open */
    int users;
    bool opening; /* somebody is at it */
    bool keep; /* can be read anywhere, but not be opened again */
    uint64_t counted; /* bytes of it that are in `bytes` below */
};

struct vp_reader {
    struct vp_paths paths;
    /* first[i]: stack page of the first page of input i; n + 1 of them; seekable only */
    int64_t *first;
    char *raw;
    size_t hold;
    bool spool, seekable, concurrent, failed;
    struct vp_stack stack;
    const char *disagrees; /* see vp_reader_disagrees */
    char *name;
    struct vp_source *now; /* of vp_reader_next: input `at`, its page `page` is next; NULL: not open */
    int64_t at, page;
    int64_t position; /* the page of the stack that comes next */
    pthread_mutex_t lock; /* of all below */
    pthread_cond_t opened;
    struct input *input; /* paths.n */
    int64_t idle[IDLE]; /* open inputs that nobody uses, oldest first; only the last one holds more than its table */
    int n_idle;
    uint64_t bytes; /* read from inputs that nobody uses */
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
        fd = vp_open_fd(path, O_RDONLY | O_CLOEXEC, 0);
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

const char *vp_reader_disagrees(const struct vp_reader *r)
{
    return r->disagrees;
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
    const int fd = open_descriptor(r, path, name, err);
    if (fd < 0)
        return -1;
    struct stat st;
    const bool file = !fstat(fd, &st) && S_ISREG(st.st_mode) && lseek(fd, 0, SEEK_CUR) == 0;
    return r->raw ? vp_source_raw(out, fd, name, r->raw, r->hold, err)
           : file ? vp_source_file(out, fd, name, err)
                  : vp_source_stream(out, fd, name, err);
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

/* What a later input says of its samples or of the scan, otherwise than the first one. */
static const char *disagreement(const struct vp_meta *a, const struct vp_meta *b)
{
    static const char *const keys[] = {"quantity", "value-unit", "scale", "voxel"};

    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const char *x = vp_meta_get(a, keys[i]), *y = vp_meta_get(b, keys[i]);
        if (x && y && strcmp(x, y))
            return keys[i];
    }
    for (int i = 0; i < b->n; i++) {
        const char *x = strncmp(b->key[i], "geom.", 5) ? NULL : vp_meta_get(a, b->key[i]);
        if (x && strcmp(x, b->value[i]))
            return "scan geometry";
    }
    return NULL;
}

/* Use input i, opened if it is not. */
static struct vp_source *take(struct vp_reader *r, int64_t i, struct vp_err *err)
{
    struct input *in = &r->input[i];
    struct vp_source *s = NULL;
    pthread_mutex_lock(&r->lock);
    const int64_t last = r->n_idle ? r->idle[r->n_idle - 1] : i;
    if (last != i && r->input[last].source->rest)
        r->input[last].source->rest(r->input[last].source);
    while (in->opening)
        pthread_cond_wait(&r->opened, &r->lock);
    if (in->source) {
        for (int k = 0; k < r->n_idle; k++)
            if (r->idle[k] == i) {
                memmove(r->idle + k, r->idle + k + 1, (size_t)(--r->n_idle - k) * sizeof *r->idle);
                break;
            }
        in->users++;
        s = in->source;
        pthread_mutex_unlock(&r->lock);
        return s;
    }
    in->opening = true;
    pthread_mutex_unlock(&r->lock);

    if (open_source(r, i, &s, err))
        s = NULL;
    if (s && r->stack.nx && check_like_first(r, s, err)) {
        s->close(s);
        s = NULL;
    }
    const char *key = s && i > 0 ? disagreement(&r->stack.meta, &s->stack.meta) : NULL;
    pthread_mutex_lock(&r->lock);
    r->disagrees = r->disagrees ? r->disagrees : key;
    in->opening = false;
    in->source = s;
    in->users = s != NULL;
    in->counted = 0;
    in->keep = s && s->seekable && !lasts(r->paths.path[i]);
    pthread_cond_broadcast(&r->opened);
    pthread_mutex_unlock(&r->lock);
    return s;
}

/* Input i is not used any more. It stays open, for it may be wanted again soon. */
static void give(struct vp_reader *r, int64_t i)
{
    struct input *in = &r->input[i];
    struct vp_source *closing = NULL;
    pthread_mutex_lock(&r->lock);
    if (--in->users == 0) {
        r->bytes += in->source->bytes - in->counted;
        in->counted = in->source->bytes;
        struct input *old = in->source->seekable ? NULL : in;
        if (!old && !in->keep) {
            if (r->n_idle == IDLE) {
                old = &r->input[r->idle[0]];
                memmove(r->idle, r->idle + 1, (size_t)(--r->n_idle) * sizeof *r->idle);
            }
            r->idle[r->n_idle++] = i;
        }
        if (old) {
            closing = old->source;
            old->source = NULL;
        }
    }
    pthread_mutex_unlock(&r->lock);
    if (closing)
        closing->close(closing);
}

size_t vp_reader_holds(struct vp_reader *r, bool whole)
{
    struct vp_err ignored = VP_ERR_INIT;
    struct vp_source *s = r->seekable && !r->failed ? take(r, 0, &ignored) : NULL;
    const size_t n = s && s->holds ? s->holds(s, whole) : 0;
    if (s)
        give(r, 0);
    return n;
}

static void leave(struct vp_reader *r)
{
    if (r->now)
        give(r, r->at);
    r->now = NULL;
}

/* Read the headers of all inputs that can be read again; the others come when it is their turn. */
static int survey(struct vp_reader *r, struct vp_err *err)
{
    const int64_t n = r->paths.n;
    r->first = calloc((size_t)n + 1, sizeof *r->first);
    r->input = calloc((size_t)n, sizeof *r->input);
    if (!r->first || !r->input)
        return vp_fail(err, VP_ERESOURCE, "not enough memory for a list of %lld inputs", (long long)n);
    if (!(r->now = take(r, 0, err)))
        return -1;
    if (vp_stack_copy(&r->stack, &r->now->stack))
        return vp_fail(err, VP_ERESOURCE, "%s: not enough memory", r->now->name);
    r->seekable = r->now->seekable;
    r->concurrent = r->seekable && r->now->by_rows;
    r->first[1] = r->now->stack.pages;
    for (int64_t i = 1; i < n; i++) {
        if (!lasts(r->paths.path[i]) && !r->spool) {
            r->seekable = r->concurrent = false;
            r->first[i + 1] = -1;
            continue;
        }
        const struct vp_source *s = take(r, i, err);
        if (!s)
            return -1;
        r->seekable = r->seekable && s->seekable;
        r->concurrent = r->concurrent && s->seekable && s->by_rows;
        r->first[i + 1] = r->first[i] < 0 || s->stack.pages < 0 ? -1 : r->first[i] + s->stack.pages;
        give(r, i);
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
    leave(r);
    for (int64_t i = 0; r->input && i < r->paths.n; i++)
        if (r->input[i].source)
            r->input[i].source->close(r->input[i].source);
    free(r->input);
    pthread_cond_destroy(&r->opened);
    pthread_mutex_destroy(&r->lock);
    vp_paths_free(&r->paths);
    vp_stack_free(&r->stack);
    free(r->first);
    free(r->raw);
    free(r->name);
    free(r);
}

int vp_reader_open(struct vp_reader **out, const char *const *paths, int n, const struct vp_reader_options *o,
                   struct vp_err *err)
{
    struct vp_reader *r = calloc(1, sizeof *r);
    if (!r)
        return vp_fail(err, VP_ERESOURCE, "not enough memory");
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->opened, NULL);
    r->spool = o && o->spool;
    r->hold = o ? o->hold : 0;
    r->raw = o && o->raw ? strdup(o->raw) : NULL;
    int rc = o && o->raw && !r->raw ? vp_fail(err, VP_ERESOURCE, "not enough memory") : 0;
    if (!rc)
        rc = vp_paths_expand(&r->paths, paths, n, o ? o->output : NULL, err);
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

const char *vp_reader_path(const struct vp_reader *r, int64_t i)
{
    return i < r->paths.n ? r->paths.path[i] : NULL;
}

const char *vp_reader_name(const struct vp_reader *r)
{
    return r->name;
}

bool vp_reader_seekable(const struct vp_reader *r)
{
    return r->seekable;
}

bool vp_reader_concurrent(const struct vp_reader *r)
{
    return r->concurrent;
}

int64_t vp_reader_position(const struct vp_reader *r)
{
    return r->position;
}

uint64_t vp_reader_bytes(const struct vp_reader *r)
{
    return r->bytes + (r->now ? r->now->bytes - r->input[r->at].counted : 0);
}

/* Make the source of the next page stand at it: 1, or 0 at the end of the stack. */
static int advance(struct vp_reader *r, struct vp_err *err)
{
    while (r->at < r->paths.n) {
        if (!r->now) {
            r->now = take(r, r->at, err);
            if (!r->now)
                return -1;
        }
        const int rc = r->now->begin(r->now, r->page, err);
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
static int rows_f32(const struct vp_reader *r, struct vp_source *s, int64_t page, int64_t y0, int64_t y1,
                    float *buf, int64_t *bad, struct vp_err *err)
{
    const enum vp_type type = r->stack.type;
    const size_t nx = (size_t)r->stack.nx, row = nx * vp_type_size(type);
    const bool direct = type == VP_F32;
    const size_t piece = direct ? COUNT_BYTES : CONVERT_BYTES;
    int64_t step = s->by_rows && (!direct || bad) ? (int64_t)(piece / row) : y1 - y0;
    step = step < 1 ? 1 : step < y1 - y0 ? step : y1 - y0;
    void *scratch = direct ? NULL : vp_alloc_raw((size_t)step, row, "rows to convert", err);
    int rc = direct || scratch ? 0 : -1;
    for (int64_t y = y0; !rc && y < y1; y += step) {
        const int64_t n = step < y1 - y ? step : y1 - y;
        float *to = buf + (size_t)(y - y0) * nx;
        rc = s->rows(s, page, y, y + n, direct ? (void *)to : scratch, err);
        if (!rc && !direct)
            vp_convert(to, VP_F32, scratch, type, n * (int64_t)nx, 1, 0);
        if (!rc && bad && vp_type_is_float(type))
            *bad += vp_count_bad(to, (size_t)n * nx);
    }
    free(scratch);
    return rc;
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
        leave(r);
    r->at = i;
    r->page = page - r->first[i];
    r->position = page;
    return 0;
}

/* Rows of any page into exactly one of raw and f32. */
static int rows_anywhere(struct vp_reader *r, int64_t page, int64_t y0, int64_t y1, void *raw, float *f32,
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
    const int64_t i = input_of(r, page);
    struct vp_source *s = take(r, i, err);
    if (!s)
        return -1;
    page -= r->first[i];
    int rc;
    if (page >= s->stack.pages) /* it was opened again, and is another file now */
        rc = vp_fail(err, VP_ERUN, "%s: page %lld: truncated while it is read", s->name, (long long)page);
    else
        rc = f32 ? rows_f32(r, s, page, y0, y1, f32, bad, err) : s->rows(s, page, y0, y1, raw, err);
    give(r, i);
    return rc;
}

int vp_reader_rows(struct vp_reader *r, int64_t page, int64_t y0, int64_t y1, void *buf, struct vp_err *err)
{
    return rows_anywhere(r, page, y0, y1, buf, NULL, NULL, err);
}

int vp_reader_rows_f32(struct vp_reader *r, int64_t page, int64_t y0, int64_t y1, float *buf,
                       struct vp_err *err)
{
    return rows_anywhere(r, page, y0, y1, NULL, buf, NULL, err);
}

int vp_reader_rows_counted(struct vp_reader *r, int64_t page, int64_t y0, int64_t y1, float *buf, int64_t *bad,
                           struct vp_err *err)
{
    return rows_anywhere(r, page, y0, y1, NULL, buf, bad, err);
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
