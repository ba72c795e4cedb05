/* SPDX-License-Identifier: BSD-3-Clause */
/* Bytes from descriptors: whole reads, skips, a small buffer for headers. */
#include "base/err.h"
#include "stack/reader.h"
#include "stack/source.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BUFFER = 1 << 16, PIPE_BYTES = 1 << 20 };

static _Thread_local int wake = -1;

void vp_input_wake(int fd)
{
    wake = fd;
}

static int resize(struct vp_input *in, size_t room, struct vp_err *err)
{
    unsigned char *buf = realloc(in->buf, room);
    if (!buf)
        return vp_fail(err, VP_ERESOURCE, "%s: out of memory: an input buffer", in->name);
    in->buf = buf;
    in->room = room;
    return 0;
}

int vp_input_open(struct vp_input *in, int fd, const char *name, _Atomic uint64_t *read, struct vp_err *err)
{
    struct stat st;
    *in = (struct vp_input){.fd = fd, .name = name, .read = read};
    int rc = fstat(fd, &st) ? vp_fail_errno(err, "%s", name) : 0;
    if (!rc && S_ISDIR(st.st_mode)) {
        errno = EISDIR;
        rc = vp_fail_errno(err, "%s", name);
    }
    in->anywhere = !rc && S_ISREG(st.st_mode) && lseek(fd, 0, SEEK_CUR) == 0;
    in->size = in->anywhere ? (uint64_t)st.st_size : 0;
    if (rc || (!in->anywhere && resize(in, BUFFER, err))) {
        vp_input_close(in);
        return -1;
    }
#ifdef F_SETPIPE_SZ
    if (S_ISFIFO(st.st_mode))
        (void)!fcntl(fd, F_SETPIPE_SZ, PIPE_BYTES);
#endif
    return 0;
}

void vp_input_close(struct vp_input *in)
{
    if (in->fd >= 0)
        close(in->fd);
    free(in->buf);
    free(in->memory);
}

/* Does one read(2); 0 at the end. */
static int64_t read_some(struct vp_input *in, void *buf, size_t n, struct vp_err *err)
{
    if (in->eof)
        return 0;
    for (;;) {
        if (wake >= 0) {
            struct pollfd p[2] = {{in->fd, POLLIN, 0}, {wake, POLLIN, 0}};
            if (poll(p, 2, -1) < 0 && errno != EINTR)
                return vp_fail_errno(err, "%s", in->name);
            if (p[1].revents)
                return vp_fail(err, VP_ERUN, "%s: reading was cancelled", in->name);
            if (!p[0].revents)
                continue;
        }
        const ssize_t k = read(in->fd, buf, n);
        if (k < 0 && errno == EINTR)
            continue;
        if (k < 0 && errno == EAGAIN) { /* another process made the pipe non-blocking */
            if (wake < 0) /* else it was waited for above */
                (void)poll(&(struct pollfd){in->fd, POLLIN, 0}, 1, -1);
            continue;
        }
        if (k < 0)
            return vp_fail_errno(err, "%s", in->name);
        in->eof = k == 0;
        return k;
    }
}

static int fill_to(struct vp_input *in, size_t n, struct vp_err *err)
{
    if (in->start && in->start + n > in->room) {
        memmove(in->buf, in->buf + in->start, in->fill);
        in->start = 0;
    }
    if (n > in->room && resize(in, n, err))
        return -1;
    const size_t last = in->start + n > BUFFER ? in->start + n : BUFFER; /* more is read to where it belongs */
    while (in->fill < n) {
        const size_t end = in->start + in->fill;
        const int64_t k = read_some(in, in->buf + end, last - end, err);
        if (k < 0)
            return -1;
        if (k == 0)
            break;
        in->fill += (size_t)k;
    }
    return 0;
}

static void moved(struct vp_input *in, uint64_t n)
{
    in->position += n;
    if (in->read)
        *in->read += n;
}

static size_t take(struct vp_input *in, void *buf, size_t n)
{
    n = n < in->fill ? n : in->fill;
    if (buf)
        memcpy(buf, in->buf + in->start, n);
    in->fill -= n;
    in->start = in->fill ? in->start + n : 0;
    moved(in, n);
    if (in->room > BUFFER && in->fill <= BUFFER) { /* a page was looked at; it is not to be kept twice */
        memmove(in->buf, in->buf + in->start, in->fill);
        in->start = 0;
        (void)resize(in, BUFFER, NULL);
    }
    return n;
}

int64_t vp_input_read(struct vp_input *in, void *buf, size_t n, struct vp_err *err)
{
    char *p = buf;
    size_t done = take(in, p, n);
    while (done < n) {
        int64_t k;
        if (n - done >= BUFFER) { /* straight to where it belongs */
            k = read_some(in, p + done, n - done, err);
            moved(in, k > 0 ? (uint64_t)k : 0);
        } else {
            if (fill_to(in, n - done, err))
                return -1;
            k = (int64_t)take(in, p + done, n - done);
        }
        if (k < 0)
            return -1;
        if (k == 0)
            break;
        done += (size_t)k;
    }
    return (int64_t)done;
}

int64_t vp_input_peek(struct vp_input *in, const unsigned char **start, size_t n, struct vp_err *err)
{
    if (fill_to(in, n, err))
        return -1;
    *start = in->buf + in->start;
    return (int64_t)(in->fill < n ? in->fill : n);
}

int64_t vp_pread_all(int fd, void *buf, size_t n, uint64_t offset)
{
    size_t done = 0;
    while (done < n) {
        const ssize_t k = pread(fd, (char *)buf + done, n - done, (off_t)(offset + done));
        if (k < 0 && errno == EINTR)
            continue;
        if (k < 0)
            return -1;
        if (k == 0)
            break;
        done += (size_t)k;
    }
    return (int64_t)done;
}

int64_t vp_input_at(struct vp_input *in, uint64_t offset, void *buf, size_t n, struct vp_err *err)
{
    if (in->anywhere) {
        n = offset > in->size ? 0 : n < in->size - offset ? n : (size_t)(in->size - offset);
        const int64_t got = in->memory ? (int64_t)n : vp_pread_all(in->fd, buf, n, offset);
        if (in->memory)
            memcpy(buf, in->memory + offset, n);
        return got < 0 ? vp_fail_errno(err, "%s", in->name) : got;
    }
    while (in->position < offset) {
        const uint64_t gap = offset - in->position;
        if (!in->fill && fill_to(in, 1, err))
            return -1;
        if (!in->fill)
            return 0;
        take(in, NULL, gap < BUFFER ? (size_t)gap : BUFFER);
    }
    return vp_input_read(in, buf, n, err);
}
