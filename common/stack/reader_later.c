/* SPDX-License-Identifier: BSD-3-Clause */
/* A pipe that is read again: its rows are copied to a file when they are read for the first time, so that the first pass
 * over them takes place while they come. */
#include "base/err.h"
#include "base/places.h"
#include "base/size.h"
#include "stack/outfile.h"
#include "stack/reader_internal.h"

#include <stdlib.h>
#include <unistd.h>

enum { PIECE_BYTES = 1 << 20 };

struct vp_later {
    struct vp_reader from; /* the pipe; its stack and its name are those of the reader that replaces it */
    int fd;                /* the copy; closed by the source that reads it */
    size_t row;            /* bytes */
    int64_t rows;          /* rows of a piece */
    char *piece;           /* rows that are copied before they are requested */
    bool failed;
    pthread_mutex_t lock;  /* protects all of it */
};

int vp_later_open(struct vp_later **out, const struct vp_reader *r, struct vp_err *err)
{
    struct vp_later *l = vp_alloc(1, sizeof *l, r->name, err);
    if (!l)
        return -1;
    l->from = *r;
    l->row = vp_page_bytes(&r->stack) / (size_t)r->stack.ny;
    l->rows = vp_max64(1, (int64_t)(PIECE_BYTES / l->row));
    l->piece = vp_alloc_raw((size_t)l->rows, l->row, "rows of the input", err);
    l->fd = l->piece ? vp_unnamed_file(vp_tmpdir()) : -1;
    if (l->fd < 0) {
        if (l->piece)
            vp_fail_errno(err, "%s: cannot be copied to %s", r->name, vp_tmpdir());
        free(l->piece);
        free(l);
        return -1;
    }
    pthread_mutex_init(&l->lock, NULL);
    *out = l;
    return 0;
}

void vp_later_free(struct vp_later *l)
{
    pthread_mutex_destroy(&l->lock);
    free(l->piece);
    free(l);
}

struct vp_reader *vp_later_from(struct vp_later *l)
{
    return &l->from;
}

int vp_later_fd(const struct vp_later *l)
{
    return l->fd;
}

/* Returns the number of rows that were copied. */
static int64_t copied(const struct vp_later *l)
{
    return l->from.position * l->from.stack.ny + l->from.line;
}

bool vp_later_behind(struct vp_later *l, int64_t page, int64_t y1)
{
    pthread_mutex_lock(&l->lock);
    const bool behind = copied(l) < page * l->from.stack.ny + y1;
    pthread_mutex_unlock(&l->lock);
    return behind;
}

/* Copies the next n rows, by way of buf. */
static int copy_rows(struct vp_later *l, int64_t n, void *buf, struct vp_err *err)
{
    const off_t at = (off_t)((uint64_t)copied(l) * l->row);
    const int64_t got = vp_reader_lines(&l->from, n, 0, 0, buf, 1, err);
    if (got < 0)
        return -1;
    if (got < n)
        return vp_fail(err, VP_ERUN, "%s: expected %lld pages, got %lld", l->from.name, (long long)l->from.stack.pages,
                       (long long)l->from.position);
    return vp_write_two(l->fd, at, buf, (size_t)n * l->row, NULL, 0, vp_tmpdir(), err);
}

int vp_later_read(struct vp_later *l, int64_t page, int64_t y0, int64_t y1, void *buf, struct vp_err *err)
{
    const int64_t ny = l->from.stack.ny, first = page * ny + y0, end = page * ny + y1;
    pthread_mutex_lock(&l->lock);
    const bool fresh = copied(l) < end, here = fresh && buf && copied(l) == first;
    int rc = fresh && l->failed ? vp_fail(err, VP_ERUN, "%s: reading it has failed", l->from.name) : 0;
    for (int64_t at; !rc && (at = copied(l)) < end;) {
        const int64_t n = vp_min64(l->rows, end - at);
        rc = copy_rows(l, n, here ? (char *)buf + (size_t)(at - first) * l->row : l->piece, err);
    }
    if (fresh && !rc && l->from.position == l->from.stack.pages)
        rc = vp_reader_ended(&l->from, err);
    l->failed = l->failed || rc;
    pthread_mutex_unlock(&l->lock);
    return rc ? -1 : here;
}
