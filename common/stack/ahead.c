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
#include <sys/stat.h>
#include <unistd.h>

/* ONCE: of one read, as much as a pipe holds. LARGE: less is read directly. */
enum { ONCE = 1 << 20, LARGE = 128 << 10 };

struct vp_ahead {
    int fd, quit[2], news[2]; /* pipes: a byte ends the thread; a byte says that `waits` is over */
    struct vp_relay relay;
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

void vp_relay_close(struct vp_relay *relay)
{
    for (int i = 0; i < 2 && relay->open; i++)
        close(relay->fd[i]);
    relay->open = false;
    relay->off = true;
}

/* A pipe is locked while bytes are copied into it, or out of it, so its writer waits while its reader copies. splice(2)
 * passes pages on to a pipe of our own, from which they are copied without that lock: 2.35 to 2.64 instead of 1.78 to 1.88
 * GB/s from cat on 16 cores. */
static void open_relay(int fd, struct vp_relay *relay)
{
    struct stat st;
    relay->off = fstat(fd, &st) || !S_ISFIFO(st.st_mode) || pipe2(relay->fd, O_CLOEXEC);
    relay->open = !relay->off;
#ifdef F_SETPIPE_SZ /* a user who has many pipes gets small ones */
    if (relay->open && fcntl(relay->fd[0], F_SETPIPE_SZ, ONCE) < 0 && fcntl(relay->fd[0], F_GETPIPE_SZ) < LARGE)
        vp_relay_close(relay);
#endif
}

/* Reads all n bytes that are in the relay. Returns n, or -1 with errno. */
static ssize_t empty_relay(const struct vp_relay *relay, struct iovec v[2], int n, size_t bytes)
{
    for (size_t left = bytes; left > 0;) {
        const ssize_t k = readv(relay->fd[0], v, n);
        if (k < 0 && errno == EINTR)
            continue;
        if (k == 0)
            errno = EIO; /* they are there */
        if (k <= 0)
            return -1;
        left -= (size_t)k;
        for (size_t i = 0, rest = (size_t)k; i < (size_t)n && rest > 0; i++) {
            const size_t m = rest < v[i].iov_len ? rest : v[i].iov_len;
            v[i].iov_base = (char *)v[i].iov_base + m;
            v[i].iov_len -= m;
            rest -= m;
        }
    }
    return (ssize_t)bytes;
}

/* Does one read. */
static ssize_t read_once(int fd, const struct iovec *v, int n, struct vp_relay *relay)
{
    struct iovec to[2] = {v[0], n > 1 ? v[1] : (struct iovec){0}};
    const size_t all = to[0].iov_len + to[1].iov_len;
    if (!relay || relay->off || all < LARGE)
        return n == 1 ? read(fd, v->iov_base, v->iov_len) : readv(fd, v, n);
    if (!relay->open)
        open_relay(fd, relay);
#ifdef __linux__
    if (relay->open) {
        const ssize_t k = splice(fd, NULL, relay->fd[1], NULL, all, 0);
        if (k > 0)
            return empty_relay(relay, to, n, (size_t)k);
        if (k == 0 || errno == EINTR || errno == EAGAIN)
            return k;
        vp_relay_close(relay); /* refused */
    }
#endif
    return readv(fd, v, n);
}

ssize_t vp_read_waits(int fd, const struct iovec *v, int n, int wake, struct vp_relay *relay)
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
        const ssize_t k = read_once(fd, v, n, relay);
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
            k = vp_read_waits(a->fd, &(struct iovec){a->ring + at, n < ONCE ? n : ONCE}, 1, a->quit[0], &a->relay);
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
    const ssize_t k = vp_read_waits(a->news[0], &(struct iovec){&byte, 1}, 1, wake, NULL);
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
    vp_relay_close(&a->relay);
    free(a->ring);
    free(a);
}
