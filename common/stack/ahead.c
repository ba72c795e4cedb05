/* SPDX-License-Identifier: BSD-3-Clause */
/* Reading a pipe ahead: a ring between one thread that reads and one that takes. The start of a device takes 0.3 to 0.6 s,
 * in which a pipe could have brought a gigabyte. Afterwards the ring is taken faster than the pipe fills it; when it is
 * empty, the pipe is read directly again, which saves a copy. */
#include "stack/ahead.h"
#include "base/size.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ONCE: of one read, as much as a pipe holds. */
enum { ONCE = 1 << 20 };

struct vp_ahead {
    int fd, quit[2], news[2]; /* pipes: a byte ends the thread; a byte says that `waits` is over */
    char *ring;
    uint64_t most;
    pthread_t thread;
    pthread_mutex_t lock; /* protects all below */
    pthread_cond_t room;
    uint64_t in, out;     /* bytes that were put in and taken, in all */
    bool waits;           /* the taker, for bytes */
    bool last;            /* the thread ends after its next read */
    bool over, end;       /* it has ended; at the end of the pipe */
    int why;              /* errno of a read that failed */
};

ssize_t vp_read_waits(int fd, const struct iovec *v, int n, int wake)
{
    for (;;) {
        if (wake >= 0) {
            struct pollfd p[2] = {{fd, POLLIN, 0}, {wake, POLLIN, 0}};
            if (poll(p, 2, -1) < 0 && errno != EINTR)
                return -1;
            if (p[1].revents) {
                errno = ECANCELED;
                return -1;
            }
            if (!p[0].revents)
                continue;
        }
        const ssize_t k = n == 1 ? read(fd, v->iov_base, v->iov_len) : readv(fd, v, n);
        if (k < 0 && errno == EINTR)
            continue;
        if (k < 0 && errno == EAGAIN) { /* another process made the pipe non-blocking */
            if (wake < 0) /* else it was waited for above */
                (void)poll(&(struct pollfd){fd, POLLIN, 0}, 1, -1);
            continue;
        }
        return k;
    }
}

static void *read_ahead(void *arg)
{
    struct vp_ahead *a = arg;
    pthread_mutex_lock(&a->lock);
    while (!a->over) {
        while (a->in - a->out == a->most && !a->last)
            pthread_cond_wait(&a->room, &a->lock);
        const uint64_t at = a->in % a->most, free = a->most - (a->in - a->out), whole = a->most - at;
        const uint64_t n = free < whole ? free : whole;
        ssize_t k = -1;
        if (n > 0) {
            pthread_mutex_unlock(&a->lock);
            k = vp_read_waits(a->fd, &(struct iovec){a->ring + at, n < ONCE ? n : ONCE}, 1, a->quit[0]);
            const int why = errno;
            pthread_mutex_lock(&a->lock);
            a->why = k < 0 ? why : 0;
            a->end = k == 0;
            a->in += k > 0 ? (uint64_t)k : 0;
        }
        a->over = k <= 0 || a->last;
        if (a->waits)
            (void)!write(a->news[1], "", 1);
        a->waits = false;
    }
    pthread_mutex_unlock(&a->lock);
    return NULL;
}

struct vp_ahead *vp_ahead_start(int fd, uint64_t most)
{
    struct vp_err ignored = VP_ERR_INIT;
    struct vp_ahead *a = calloc(1, sizeof *a);
    if (!a)
        return NULL;
    *a = (struct vp_ahead){.fd = fd, .quit = {-1, -1}, .news = {-1, -1}, .most = most};
    pthread_mutex_init(&a->lock, NULL);
    pthread_cond_init(&a->room, NULL);
    const bool ready = !pipe2(a->quit, O_CLOEXEC) && !pipe2(a->news, O_CLOEXEC)
                       && (a->ring = vp_alloc_raw((size_t)most, 1, "input that is read ahead", &ignored));
    if (ready && !pthread_create(&a->thread, NULL, read_ahead, a))
        return a;
    a->fd = -1;
    vp_ahead_free(a);
    return NULL;
}

/* Waits until the thread has put something in, or ended. Returns 0; -1 with errno (ECANCELED: woken). */
static int await(struct vp_ahead *a, int wake)
{
    char byte;
    a->waits = a->last = true;
    pthread_mutex_unlock(&a->lock);
    const ssize_t k = vp_read_waits(a->news[0], &(struct iovec){&byte, 1}, 1, wake);
    pthread_mutex_lock(&a->lock);
    return k < 0 ? -1 : 0;
}

int64_t vp_ahead_take(struct vp_ahead *a, void *buf, size_t n, int wake, const char *name, struct vp_err *err)
{
    int64_t got = 0;
    pthread_mutex_lock(&a->lock);
    if (a->in == a->out && !a->over && await(a, wake))
        got = errno == ECANCELED ? vp_fail(err, VP_ERUN, "%s: reading was cancelled", name)
                                 : vp_fail_errno(err, "%s", name);
    const uint64_t at = a->out % a->most, there = a->in - a->out, whole = a->most - at;
    if (!got && there) {
        got = (int64_t)(n < there ? n : there);
        got = got < (int64_t)whole ? got : (int64_t)whole;
    } else if (!got && a->why) {
        errno = a->why;
        got = vp_fail_errno(err, "%s", name);
    } else if (!got && !a->end) {
        got = VP_AHEAD_OVER;
    }
    pthread_mutex_unlock(&a->lock);
    if (got <= 0)
        return got;
    memcpy(buf, a->ring + at, (size_t)got);
    pthread_mutex_lock(&a->lock);
    a->out += (uint64_t)got;
    pthread_cond_signal(&a->room);
    pthread_mutex_unlock(&a->lock);
    return got;
}

uint64_t vp_ahead_stop(struct vp_ahead *a)
{
    pthread_mutex_lock(&a->lock);
    a->last = true;
    const uint64_t there = a->in - a->out + (a->over ? 0 : ONCE);
    pthread_cond_signal(&a->room);
    pthread_mutex_unlock(&a->lock);
    return there < a->most ? there : a->most;
}

void vp_ahead_free(struct vp_ahead *a)
{
    if (!a)
        return;
    if (a->fd >= 0) {
        (void)!write(a->quit[1], "", 1);
        vp_ahead_stop(a);
        pthread_join(a->thread, NULL);
    }
    for (int i = 0; i < 2; i++) {
        if (a->quit[i] >= 0)
            close(a->quit[i]);
        if (a->news[i] >= 0)
            close(a->news[i]);
    }
    pthread_cond_destroy(&a->room);
    pthread_mutex_destroy(&a->lock);
    free(a->ring);
    free(a);
}
