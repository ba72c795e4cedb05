/* SPDX-License-Identifier: BSD-3-Clause */
/* Entries are held one by one; those that do not fit go to the end of the file. */
#include "engine/store.h"
#include "base/err.h"
#include "base/places.h"
#include "base/size.h"
#include "stack/outfile.h"
#include "stack/source.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define KNOWN "the summary of the boxes"

struct entry {
    void *data;   /* NULL: in the file, at `at`, or empty */
    uint64_t n, at;
};

struct vp_store {
    int64_t count;
    uint64_t memory, held, end; /* bytes: the limit, what is held, the file */
    uint64_t files;             /* bytes of other files */
    int fd;
    pthread_mutex_t lock;
    struct entry entry[];
};

int vp_store_open(struct vp_store **out, int64_t count, uint64_t memory, struct vp_err *err)
{
    size_t bytes;
    struct vp_store *s = NULL;
    if (vp_mul_size(&bytes, (size_t)count, sizeof *s->entry) && vp_add_size(&bytes, bytes, sizeof *s))
        s = calloc(1, bytes);
    *out = s;
    if (!s)
        return vp_fail(err, VP_ERESOURCE, "out of memory: %lld boxes", (long long)count);
    s->count = count;
    s->memory = memory;
    s->fd = -1;
    pthread_mutex_init(&s->lock, NULL);
    return 0;
}

int64_t vp_store_count(const struct vp_store *s)
{
    return s->count;
}

int vp_store_put(struct vp_store *s, int64_t i, const void *data, uint64_t n, struct vp_err *err)
{
    struct entry *e = &s->entry[i];
    int rc = 0;
    pthread_mutex_lock(&s->lock);
    s->held -= e->data ? e->n : 0;
    free(e->data);
    *e = (struct entry){.n = n};
    const bool here = !s->memory || s->held + n <= s->memory;
    if (here && n > 0 && !(e->data = malloc((size_t)n)))
        rc = vp_fail(err, VP_ERESOURCE, "out of memory: the entry of a box");
    s->held += here ? n : 0;
    if (!here)
        rc = vp_scratch_allow(s->end + n, 0, KNOWN, err);
    if (!here && !rc && s->fd < 0 && (s->fd = vp_unnamed_file(vp_tmpdir())) < 0)
        rc = vp_fail_errno(err, "%s", vp_tmpdir());
    e->at = s->end;
    s->end += here ? 0 : n;
    pthread_mutex_unlock(&s->lock);
    if (!rc && here && n > 0)
        memcpy(e->data, data, (size_t)n);
    return rc || (!here && vp_write_two(s->fd, (off_t)e->at, data, (size_t)n, NULL, 0, vp_tmpdir(), err)) ? -1 : 0;
}

uint64_t vp_store_bytes(const struct vp_store *s, int64_t i)
{
    return s->entry[i].n;
}

int vp_store_read(const struct vp_store *s, int64_t i, uint64_t at, void *to, uint64_t n, struct vp_err *err)
{
    const struct entry *e = &s->entry[i];
    if (e->data) {
        memcpy(to, (const char *)e->data + at, (size_t)n);
        return 0;
    }
    const int64_t got = n ? vp_pread_all(s->fd, to, (size_t)n, e->at + at) : 0;
    if (got < 0)
        return vp_fail_errno(err, "%s", vp_tmpdir());
    return (uint64_t)got < n ? vp_fail(err, VP_ERUN, "%s: cut", vp_tmpdir()) : 0;
}

int vp_store_get(const struct vp_store *s, int64_t i, void *to, struct vp_err *err)
{
    return vp_store_read(s, i, 0, to, s->entry[i].n, err);
}

int vp_store_write(struct vp_store *s, int64_t i, uint64_t at, const void *from, uint64_t n, struct vp_err *err)
{
    struct entry *e = &s->entry[i];
    if (!e->data)
        return vp_write_two(s->fd, (off_t)(e->at + at), from, (size_t)n, NULL, 0, vp_tmpdir(), err);
    memcpy((char *)e->data + at, from, (size_t)n);
    return 0;
}

void *vp_store_peek(struct vp_store *s, int64_t i)
{
    return s->entry[i].data;
}

void vp_store_cut(struct vp_store *s, int64_t i, uint64_t n)
{
    struct entry *e = &s->entry[i];
    pthread_mutex_lock(&s->lock);
    if (e->data) {
        void *const less = realloc(e->data, (size_t)(n ? n : 1));
        e->data = less ? less : e->data;
        s->held -= e->n - n;
    }
    e->n = n;
    pthread_mutex_unlock(&s->lock);
}

int vp_store_file(struct vp_store *s, uint64_t bytes, uint64_t room, struct vp_err *err)
{
    if (vp_scratch_allow(bytes, room, KNOWN, err))
        return -1;
    const int fd = vp_unnamed_file(vp_tmpdir());
    if (fd >= 0)
        while ((errno = posix_fallocate(fd, 0, (off_t)bytes)) == EINTR)
            ;
    if (fd < 0 || errno) {
        vp_fail_errno(err, "%s: no room for %s of " KNOWN, vp_tmpdir(), vp_bytes_text(bytes).text);
        if (fd >= 0)
            close(fd);
        return -1;
    }
    s->files += bytes;
    return fd;
}

uint64_t vp_store_spilled(const struct vp_store *s)
{
    return s->end + s->files;
}

void vp_store_close(struct vp_store *s)
{
    if (!s)
        return;
    for (int64_t i = 0; i < s->count; i++)
        free(s->entry[i].data);
    if (s->fd >= 0)
        close(s->fd);
    pthread_mutex_destroy(&s->lock);
    free(s);
}
