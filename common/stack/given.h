/* Pages of memory given to a pipe, instead of copied into it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct vp_err;

/* A pipe that may get pages. Used by one thread. */
struct vp_given {
    int fd;
    const char *name;   /* for messages, kept by the caller */
    bool on;            /* it gets them; false: it is written to */
    bool copies;        /* there is memory to copy what stays the caller's into pages that it gets */
    /* private to given.c */
    char *from, *to;    /* the part of the buffer that may be given: whole huge pages */
    bool some;          /* a part of it was */
    uint64_t pages;     /* that were given since `faults` were counted, of 4 KiB */
    int64_t faults;     /* page faults of the process by then */
};

/* Bytes of two buffers for such copies. */
enum { VP_GIVEN_COPY = 8 << 20 };

/* The least number of threads with which pages are given: fewer do not clear the pages that come in their place faster
 * than write(2) copies (two cores, img-cat between two pipes: 1.0 to 1.7 times the time). */
enum { VP_GIVEN_THREADS = 4 };

/* Prepares a descriptor: it gets pages if it may, is a pipe, the system has huge pages, and vp_given_holds(memory) is
 * not 0. */
void vp_given_open(struct vp_given *g, int fd, const char *name, bool may, uint64_t memory);

/* Returns the bytes that a pipe of a program keeps whose memory is limited to `memory` bytes (0: not): what waits in
 * it, which lies in two huge pages at most, and the copies. 0 if these would be missed: nothing is given. */
uint64_t vp_given_holds(uint64_t memory);

/* Begins with n bytes that the caller does not need afterwards: private memory (vp_alloc_raw), of which no other thread
 * touches a byte until vp_given_end. */
void vp_given_begin(struct vp_given *g, void *buf, size_t n);
/* Writes m bytes of any memory, then n bytes that may be some of that buffer. The pages of these are then the pipe's,
 * too, and must not be written to. */
int vp_given_put(struct vp_given *g, const void *head, size_t m, const void *rows, size_t n, struct vp_err *err);
/* Ends the buffer, also after a failure: what was given of it is no longer mapped, and comes back as other pages, of
 * zeros. 0 or -1. */
int vp_given_end(struct vp_given *g, struct vp_err *err);
