/* SPDX-License-Identifier: BSD-3-Clause */
/* A pipe that is read ahead: the same bytes, however small the ring, and whenever the taker comes; its end, its errors, and
 * a taker that is woken. */
#include "test.h"
#include "base/err.h"
#include "stack/ahead.h"
#include "stack/source.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static unsigned char byte_at(uint64_t i)
{
    return (unsigned char)((i * 2654435761u) >> 13);
}

struct writer {
    int fd, pause; /* microseconds before every piece */
    size_t n, piece;
};

static void *send(void *arg)
{
    const struct writer *w = arg;
    unsigned char *buf = malloc(w->piece);
    CHECK(buf);
    for (size_t at = 0; at < w->n;) {
        const size_t n = w->n - at < w->piece ? w->n - at : w->piece;
        for (size_t i = 0; i < n; i++)
            buf[i] = byte_at(at + i);
        if (w->pause)
            usleep((unsigned)w->pause);
        for (size_t done = 0; done < n;) {
            const ssize_t k = write(w->fd, buf + done, n - done);
            CHECK(k > 0);
            done += (size_t)k;
        }
        at += n;
    }
    close(w->fd);
    free(buf);
    return NULL;
}

/* All bytes through an input that is read ahead from its 1,000th byte on, by a taker that comes `late` microseconds later. */
static void pass(size_t n, size_t ring, size_t piece, int pause, int late, size_t some)
{
    struct vp_err err = VP_ERR_INIT;
    struct vp_input in;
    int fd[2];
    pthread_t thread;
    _Atomic uint64_t read = 0;
    unsigned char *buf = malloc(some + 1000);
    CHECK(buf);
    CHECK_INT(pipe2(fd, O_CLOEXEC), 0);
    struct writer w = {fd[1], pause, n, piece};
    CHECK_INT(pthread_create(&thread, NULL, send, &w), 0);
    CHECK_INT(vp_input_open(&in, fd[0], "pipe", &read, &err), 0);
    uint64_t at = 0;
    CHECK_INT(vp_input_read(&in, buf, 1000, &err), 1000);
    for (; at < 1000; at++)
        CHECK(buf[at] == byte_at(at));
    in.ahead = vp_ahead_start(in.fd, ring);
    CHECK(in.ahead);
    usleep((unsigned)late);
    for (int64_t k = 1; k > 0; at += (uint64_t)k) {
        k = vp_input_read(&in, buf, some, &err);
        CHECK(k >= 0);
        for (int64_t i = 0; i < k; i++)
            CHECK(buf[i] == byte_at(at + (uint64_t)i));
    }
    CHECK_INT(at, n);
    CHECK_INT(read, n);
    CHECK_INT(vp_input_read(&in, buf, 1, &err), 0);
    pthread_join(thread, NULL);
    vp_input_close(&in);
    free(buf);
}

static void test_bytes(void)
{
    static const size_t ring[] = {1, 4097, 70001, 1 << 20, 5 << 20}, some[] = {77, 65536, 300007, 3 << 20};
    for (size_t r = 0; r < sizeof ring / sizeof *ring; r++)
        for (size_t s = 0; s < sizeof some / sizeof *some; s++) {
            const size_t n = ring[r] < 100 ? 5003 : 3000017;
            pass(n, ring[r], 100003, 0, 0, some[s]);
            pass(n, ring[r], 100003, 0, 5000, some[s]);
            pass(n, ring[r], 250007, 300, 1000, some[s]);
        }
}

/* After a stop at most one more read goes into the ring, and the rest stays in the pipe. */
static void test_stop(void)
{
    struct vp_err err = VP_ERR_INIT;
    enum { RING = 1 << 20 };
    char *buf = malloc(RING);
    int fd[2];
    CHECK(buf);
    CHECK_INT(pipe2(fd, O_CLOEXEC | O_NONBLOCK), 0);
    memset(buf, 7, RING);
    struct vp_ahead *a = vp_ahead_start(fd[0], RING);
    CHECK(a);
    CHECK_INT(write(fd[1], buf, 1000), 1000);
    CHECK_INT(vp_ahead_take(a, buf, 10, -1, "pipe", &err), 10);
    const uint64_t held = vp_ahead_stop(a);
    CHECK(held >= 990 && held <= RING);
    CHECK_INT(write(fd[1], buf, 500), 500); /* comes with the last read, or is left in the pipe */
    int64_t got = 0, k;
    while ((k = vp_ahead_take(a, buf, RING, -1, "pipe", &err)) > 0)
        got += k;
    CHECK_INT(k, VP_AHEAD_OVER);
    CHECK(got == 990 || got == 1490);
    vp_ahead_free(a);
    if (got == 990)
        CHECK_INT(read(fd[0], buf, RING), 500);
    CHECK_INT(read(fd[0], buf, RING), -1);
    close(fd[0]);
    close(fd[1]);
    free(buf);
}

static void *wake_later(void *arg)
{
    usleep(20000);
    CHECK_INT(write(*(int *)arg, "", 1), 1);
    return NULL;
}

static void test_woken(void)
{
    struct vp_err err = VP_ERR_INIT;
    int fd[2], wake[2];
    char byte;
    pthread_t thread;
    CHECK_INT(pipe2(fd, O_CLOEXEC), 0);
    CHECK_INT(pipe2(wake, O_CLOEXEC), 0);
    struct vp_ahead *a = vp_ahead_start(fd[0], 1 << 20);
    CHECK(a);
    CHECK_INT(pthread_create(&thread, NULL, wake_later, &wake[1]), 0);
    CHECK_INT(vp_ahead_take(a, &byte, 1, wake[0], "scan.tif", &err), -1);
    CHECK(strstr(err.msg, "scan.tif: reading was cancelled"));
    pthread_join(thread, NULL);
    vp_ahead_free(a); /* its thread waits for a byte that never comes */
    close(fd[0]);
    close(fd[1]);
    close(wake[0]);
    close(wake[1]);
}

static void test_failure(void)
{
    struct vp_err err = VP_ERR_INIT;
    char byte;
    const int fd = open("/", O_RDONLY | O_CLOEXEC); /* it cannot be read */
    struct vp_ahead *a = vp_ahead_start(fd, 1 << 20);
    CHECK(a);
    CHECK_INT(vp_ahead_take(a, &byte, 1, -1, "scan.tif", &err), -1);
    CHECK(strstr(err.msg, "scan.tif: Is a directory"));
    vp_ahead_free(a);
    close(fd);
}

int main(void)
{
    test_bytes();
    test_stop();
    test_woken();
    test_failure();
    return test_done();
}
