/* SPDX-License-Identifier: BSD-3-Clause */
/* Files written in pieces, by several threads.
 *
 * A file system lets one thread at a time write to a file. Where a disk is behind it that is fast enough. tmpfs
 * gives pages their memory under that lock, one by one, which takes longer than copying into them; so there
 *   - a thread of our own allocates ahead, from the moment the size is known: while the input is read and the
 *     work is done, the memory for the result gets ready;
 *   - several threads copy through a mapping, which needs no lock: 4 GiB that had been allocated took eight threads
 *     0.29 s so, where one thread took 0.85 s with write(2), and write(2) would wait for the lock of the thread that
 *     allocates. A thread that is alone writes: faulting pages in costs it more than it gains. */
#include "stack/reserved.h"
#include "base/err.h"
#include "base/size.h"
#include "stack/outfile.h"
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>

enum { TMPFS = 0x01021994, PIECE = 2 << 20, WORTH_A_THREAD = 64 << 20 };

struct vp_reserved {
    int fd;
    const char *name;
    uint64_t size;
    char *map; /* NULL: not on tmpfs */
    uintptr_t page; /* of the system */
    atomic_int putting; /* threads in vp_reserved_put */
    pthread_t ahead;
    bool have_ahead;
    atomic_bool stop;
};

#ifdef MADV_POPULATE_WRITE
/* Allocates until the end or until there is no room: then those who write will say so. */
static void *allocate_ahead(void *arg)
{
    struct vp_reserved *r = arg;
    for (uint64_t at = 0; at < r->size && !r->stop; at += PIECE)
        if (fallocate(r->fd, 0, (off_t)at, (off_t)(r->size - at < PIECE ? r->size - at : PIECE)))
            break;
    return NULL;
}

static int map_tmpfs(struct vp_reserved *r, struct vp_err *err)
{
    struct statfs fs;
    if (fstatfs(r->fd, &fs) || fs.f_type != TMPFS || r->size > PTRDIFF_MAX)
        return 0;
    if (ftruncate(r->fd, (off_t)r->size))
        return vp_fail_errno(err, "%s", r->name);
    void *map = mmap(NULL, (size_t)r->size, PROT_READ | PROT_WRITE, MAP_SHARED, r->fd, 0);
    if (map == MAP_FAILED)
        return 0;
    r->map = map;
    (void)madvise(map, (size_t)r->size, MADV_HUGEPAGE); /* where tmpfs was mounted for it */
    /* all of it will be needed, but perhaps not before other memory is free again */
    if (r->size >= WORTH_A_THREAD && r->size <= vp_memory_available() / 2)
        r->have_ahead = !pthread_create(&r->ahead, NULL, allocate_ahead, r);
    return 0;
}

/* False if there is no memory: write(2) then says why. */
static bool copy_mapped(struct vp_reserved *r, uint64_t at, const void *buf, size_t n)
{
    char *const to = r->map + at;
    const uintptr_t mask = r->page - 1, begin = (uintptr_t)to, end = begin + n, outer = (end + mask) & ~mask,
                    inner = (begin + mask) & ~mask;
    /* first: to memcpy a page that cannot be had would be SIGBUS */
    if (madvise(to - (begin & mask), (size_t)(outer - (begin & ~mask)), MADV_POPULATE_WRITE))
        return false;
    memcpy(to, buf, n);
    /* the pages belong to the file now, and shall not count as ours */
    if ((end & ~mask) > inner)
        (void)madvise(to + (inner - begin), (size_t)((end & ~mask) - inner), MADV_DONTNEED);
    return true;
}
#else
static int map_tmpfs(struct vp_reserved *r, struct vp_err *err)
{
    (void)r, (void)err;
    return 0;
}

static bool copy_mapped(struct vp_reserved *r, uint64_t at, const void *buf, size_t n)
{
    (void)r, (void)at, (void)buf, (void)n;
    return false;
}
#endif

int vp_reserved_open(struct vp_reserved **out, int fd, const char *name, uint64_t size, struct vp_err *err)
{
    struct vp_reserved *r = vp_alloc(1, sizeof *r, name, err);
    if (!r)
        return -1;
    r->fd = fd;
    r->name = name;
    r->size = size;
    r->page = (uintptr_t)sysconf(_SC_PAGESIZE);
    if (map_tmpfs(r, err)) {
        vp_reserved_close(r);
        return -1;
    }
    *out = r;
    return 0;
}

static int copy_or_write(struct vp_reserved *r, uint64_t at, const char *from, size_t n, struct vp_err *err)
{
    return copy_mapped(r, at, from, n) ? 0 : vp_write_two(r->fd, (off_t)at, from, n, NULL, 0, r->name, err);
}

int vp_reserved_put(struct vp_reserved *r, uint64_t at, const void *a, size_t na, const void *b, size_t nb,
                    struct vp_err *err)
{
    if (at > r->size || na > r->size - at || nb > r->size - at - na)
        return vp_fail(err, VP_ERUN, "%s: expected %llu bytes, got at least %llu", r->name,
                       (unsigned long long)r->size, (unsigned long long)(at + na + nb));
    if (!r->map)
        return vp_write_two(r->fd, (off_t)at, a, na, b, nb, r->name, err);
    const char *head = a, *rest = b;
    int rc = 0;
    r->putting++;
    while (!rc && na + nb > 0) {
        const size_t whole = PIECE - (size_t)(at % PIECE), n = na < whole ? na : whole,
                     m = nb < whole - n ? nb : whole - n;
        if (r->putting == 1)
            rc = vp_write_two(r->fd, (off_t)at, head, n, rest, m, r->name, err);
        else
            rc = (n && copy_or_write(r, at, head, n, err)) || (m && copy_or_write(r, at + n, rest, m, err)) ? -1 : 0;
        at += n + m;
        head = n ? head + n : head;
        na -= n;
        rest = m ? rest + m : rest;
        nb -= m;
    }
    r->putting--;
    return rc;
}

void vp_reserved_close(struct vp_reserved *r)
{
    if (!r)
        return;
    r->stop = true;
    if (r->have_ahead)
        pthread_join(r->ahead, NULL);
    if (r->map)
        munmap(r->map, (size_t)r->size);
    free(r);
}
