/* SPDX-License-Identifier: BSD-3-Clause */
/* Entries are held one by one; those that do not fit go to the end of the file. */
#include "run/store.h"
#include "base/err.h"
#include "base/places.h"
#include "base/size.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct entry {
    void *data;   /* NULL: in the file, at `at`, or empty */
    uint64_t n, at;
};

struct vp_store {
    int64_t count;
    uint64_t memory, held, end; /* bytes: the limit, what is held, the file */
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
        return vp_fail(err, VP_ERESOURCE, "not enough memory for %lld boxes", (long long)count);
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

static int write_at(struct vp_store *s, const char *data, uint64_t n, uint64_t at, struct vp_err *err)
{
    while (n > 0) {
        const ssize_t put = pwrite(s->fd, data, n, (off_t)at);
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return vp_fail_errno(err, "%s", vp_tmpdir());
        data += put;
        n -= (uint64_t)put;
        at += (uint64_t)put;
    }
    return 0;
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
        rc = vp_fail(err, VP_ERESOURCE, "not enough memory for what is known of a box");
    s->held += here ? n : 0;
    if (!here && s->fd < 0 && (s->fd = vp_unnamed_file(vp_tmpdir())) < 0)
        rc = vp_fail_errno(err, "%s", vp_tmpdir());
    e->at = s->end;
    s->end += here ? 0 : n;
    pthread_mutex_unlock(&s->lock);
    if (!rc && here && n > 0)
        memcpy(e->data, data, (size_t)n);
    return rc || (!here && write_at(s, data, n, e->at, err)) ? -1 : 0;
}

uint64_t vp_store_bytes(const struct vp_store *s, int64_t i)
{
    return s->entry[i].n;
}

int vp_store_get(const struct vp_store *s, int64_t i, void *to, struct vp_err *err)
{
    const struct entry *e = &s->entry[i];
    if (e->data) {
        memcpy(to, e->data, (size_t)e->n);
        return 0;
    }
    for (uint64_t done = 0; done < e->n;) {
        const ssize_t got = pread(s->fd, (char *)to + done, (size_t)(e->n - done), (off_t)(e->at + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return got < 0 ? vp_fail_errno(err, "%s", vp_tmpdir()) : vp_fail(err, VP_ERUN, "%s: cut", vp_tmpdir());
        done += (uint64_t)got;
    }
    return 0;
}

uint64_t vp_store_spilled(const struct vp_store *s)
{
    return s->end;
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
