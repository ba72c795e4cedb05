/* SPDX-License-Identifier: BSD-3-Clause */
/* A pipe that is read into memory by a thread of its own, while a device starts. */
#pragma once

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

struct vp_ahead;

/* Starts to read the pipe `fd` into a ring of `most` bytes. Returns NULL if there is no memory or thread for it: nothing
 * was read then. No other thread reads fd until vp_ahead_take has returned VP_AHEAD_OVER. */
struct vp_ahead *vp_ahead_start(int fd, uint64_t most);

/* Copies the next bytes of the pipe, n at most, into buf; waits until there are some. Returns their number, 0 at the end
 * of the pipe, -1 with an error, which begins with `name`; or VP_AHEAD_OVER: all that was read ahead has been taken, and
 * the pipe is the caller's again. The thread ends when the ring is found empty. */
enum { VP_AHEAD_OVER = -2 };
int64_t vp_ahead_take(struct vp_ahead *a, void *buf, size_t n, int wake, const char *name, struct vp_err *err);

/* Reads no further. Returns the bytes that the ring has or will get. */
uint64_t vp_ahead_stop(struct vp_ahead *a);
void vp_ahead_free(struct vp_ahead *a);

/* A pipe of our own between a pipe and the one that reads it. Zero it first. */
struct vp_relay { int fd[2]; bool open, off; };

/* Reads some bytes into v[0] and, if n is 2, more into v[1]; waits for the first one, and a byte in `wake` ends that (-1:
 * nothing does). Large pieces of a pipe come by way of the relay. Returns the bytes, 0 at the end, -1 with errno
 * (ECANCELED: woken). */
ssize_t vp_read_waits(int fd, const struct iovec *v, int n, int wake, struct vp_relay *relay);
void vp_relay_close(struct vp_relay *relay);
