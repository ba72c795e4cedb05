/* SPDX-License-Identifier: BSD-3-Clause */
/* Bytes from descriptors: whole reads, skips, a small buffer for headers. */
#include "base/err.h"
#include "base/places.h"
#include "base/size.h"
#include "stack/ahead.h"
#include "stack/outfile.h"
#include "stack/reader.h"
#include "stack/source.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

/* AHEAD: read with samples, so that the directory that comes after them costs no call of its own. */
enum { BUFFER = 1 << 16, AHEAD = 1 << 12, PIPE_BYTES = 1 << 20 };

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
    vp_ahead_free(in->ahead);
    vp_relay_close(&in->relay);
    if (in->fd >= 0)
        close(in->fd);
    free(in->buf);
    free(in->memory);
}

/* Does one read(2), of n bytes and of `ahead` more into the empty buffer of the input. Returns the number of the n that
 * came; 0 at the end. */
static int64_t read_some(struct vp_input *in, void *buf, size_t n, size_t ahead, struct vp_err *err)
{
    const struct iovec v[2] = {{buf, n}, {in->buf, ahead}};
    if (in->eof)
        return 0;
    if (in->ahead) {
        const int64_t k = vp_ahead_take(in->ahead, buf, n, wake, in->name, err);
        in->eof = k == 0;
        if (k != VP_AHEAD_OVER)
            return k;
        vp_ahead_free(in->ahead);
        in->ahead = NULL;
    }
    const ssize_t k = vp_read_waits(in->fd, v, ahead ? 2 : 1, wake, &in->relay);
    if (k < 0)
        return errno == ECANCELED ? vp_fail(err, VP_ERUN, "%s: reading was cancelled", in->name)
                                  : vp_fail_errno(err, "%s", in->name);
    in->eof = k == 0;
    in->fill = (size_t)k > n ? (size_t)k - n : in->fill;
    return (size_t)k > n ? (int64_t)n : k;
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
        const int64_t k = read_some(in, in->buf + end, last - end, 0, err);
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
            k = read_some(in, p + done, n - done, in->buf ? AHEAD : 0, err);
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

/* ---- a pipe as a file that can be read anywhere: a copy without a name, gone with the process ---- */

int vp_kept_open(struct vp_kept *k, const char *name, uint64_t memory, size_t count, size_t n, struct vp_err *err)
{
    *k = (struct vp_kept){.name = name, .fd = -1, .memory = memory};
    k->data = vp_alloc_raw(count, n, "copy of the input", err);
    k->room = count * n; /* vp_alloc_raw has checked it */
    return k->data ? 0 : -1;
}

void *vp_kept_next(struct vp_kept *k, size_t n, struct vp_err *err)
{
    const size_t used = k->fd < 0 ? (size_t)k->bytes : 0;
    if (n > k->room - used) {
        char *more = realloc(k->data, 2 * k->room + n);
        if (!more) {
            vp_fail(err, VP_ERESOURCE, "out of memory: the copy of the input");
            return NULL;
        }
        k->data = more;
        k->room = 2 * k->room + n;
    }
    return k->data + used;
}

int vp_kept_add(struct vp_kept *k, size_t n, bool file, struct vp_err *err)
{
    const char *dir = vp_tmpdir();
    size_t fresh = n;
    const bool beyond = k->fd >= 0 || n > k->memory - k->bytes;
    if (beyond && !file)
        return 1;
    if (beyond && vp_scratch_allow(k->bytes + n, vp_memory_most() / 2, k->name, err))
        return -1;
    if (beyond && k->fd < 0) {
        k->fd = vp_unnamed_file(dir);
        if (k->fd < 0)
            return vp_fail_errno(err, "%s: cannot be copied to %s", k->name, dir);
        fresh = (size_t)k->bytes + n;
    }
    k->bytes += n;
    return k->fd < 0 ? 0 : vp_write_two(k->fd, -1, k->data, fresh, NULL, 0, dir, err);
}

struct vp_input vp_kept_input(struct vp_kept *k)
{
    const struct vp_input in = {.fd = k->fd, .name = k->name, .anywhere = true, .size = k->bytes,
                                .memory = k->fd < 0 ? k->data : NULL};
    if (k->fd < 0)
        k->data = NULL;
    k->fd = -1;
    vp_kept_free(k);
    return in;
}

void vp_kept_free(struct vp_kept *k)
{
    free(k->data);
    if (k->fd >= 0)
        close(k->fd);
}

int vp_spool(struct vp_input *in, struct vp_err *err)
{
    enum { BLOCK = 1 << 20 };
    struct vp_kept k;
    int64_t n = vp_kept_open(&k, in->name, 0, 1, BLOCK, err) ? -1 : BLOCK;
    while (n > 0) {
        n = vp_input_read(in, k.data, BLOCK, err);
        if (n > 0 && vp_kept_add(&k, (size_t)n, true, err))
            n = -1;
    }
    _Atomic uint64_t *const read = in->read;
    vp_input_close(in);
    if (n < 0) {
        vp_kept_free(&k);
        return -1;
    }
    *in = vp_kept_input(&k);
    in->read = read;
    return 0;
}
