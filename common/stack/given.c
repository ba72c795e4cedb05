/* SPDX-License-Identifier: BSD-3-Clause */
/* Pages given to a pipe.
 *
 * write(2) to a pipe allocates a page for every 4 KiB and copies into it, on one core. vmsplice(2) passes on the pages
 * of the buffer themselves. They must never be written again: a reader may have spliced them on (as pv does), and then
 * there is no sign of when the last one is read. So the buffer gets other pages: these are unmapped, and the workers
 * that fill it next, on all cores, find new ones. That is faster with huge pages only (with pages of 4 KiB 0.5 to 0.6
 * times the speed of write on two cores) and with some threads (VP_GIVEN_THREADS): img-cat to cat 6.2 instead of 2.4
 * GB/s on 16 cores. So whole huge pages are given, the rest of a buffer is written, and all of it is if vmsplice is
 * refused (by a filter of system calls, or a descriptor of another kind), or memory comes in small pages. The bytes are
 * the same. */
#include "stack/given.h"
#include "base/err.h"
#include "stack/outfile.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

/* PAGE: of x86-64; where they are larger nothing is given. LEAST: smaller pieces are copied as fast. */
enum { HUGE = 2 << 20, PAGE = 4096, LEAST = 16 << 10, WAITING = 2 * HUGE, TIMES = 16 };

static bool affords(uint64_t memory, uint64_t bytes)
{
    return memory == 0 || memory / TIMES >= bytes;
}

uint64_t vp_given_holds(uint64_t memory)
{
    return affords(memory, WAITING + 2 * VP_GIVEN_COPY) ? WAITING + 2 * VP_GIVEN_COPY
           : affords(memory, WAITING)                   ? WAITING : 0;
}

/* True if madvise(2) can have huge pages of the size that we expect. */
static bool has_huge_pages(void)
{
    char text[64] = "";
    FILE *f = sysconf(_SC_PAGESIZE) == PAGE ? fopen("/sys/kernel/mm/transparent_hugepage/enabled", "re") : NULL;
    const bool got = f && fgets(text, sizeof text, f);
    if (f)
        fclose(f);
    return got && !strstr(text, "[never]");
}

static int64_t count_faults(void)
{
    struct rusage u;
    return getrusage(RUSAGE_SELF, &u) ? 0 : u.ru_minflt;
}

void vp_given_open(struct vp_given *g, int fd, const char *name, bool may, uint64_t memory)
{
    struct stat st;
    *g = (struct vp_given){.fd = fd, .name = name};
#ifdef __linux__
    g->on = may && vp_given_holds(memory) && !fstat(fd, &st) && S_ISFIFO(st.st_mode) && has_huge_pages();
    g->copies = g->on && affords(memory, WAITING + 2 * VP_GIVEN_COPY);
#endif
}

void vp_given_begin(struct vp_given *g, void *buf, size_t n)
{
    const uintptr_t begin = (uintptr_t)buf, end = begin + n;
    const size_t before = -begin % HUGE, after = end % HUGE;
    g->from = g->to = buf;
    if (!g->on || n < before + after + HUGE)
        return;
    g->from += before;
    g->to += n - after;
}

/* Gives n bytes, or, if the descriptor refuses, the first *given of them. */
static int give(struct vp_given *g, const char *from, size_t n, size_t *given, struct vp_err *err)
{
    *given = 0;
#ifdef __linux__
    while (*given < n) {
        const struct iovec v = {(char *)from + *given, n - *given};
        const ssize_t k = vmsplice(g->fd, &v, 1, 0);
        if (k > 0) {
            *given += (size_t)k;
            g->some = true;
        } else if (k < 0 && (errno == EINTR || errno == EAGAIN || errno == EPIPE)) {
            if (vp_write_again(g->fd, g->name, err))
                return -1;
        } else { /* write(2) does it, or reports why not */
            g->on = false;
            break;
        }
    }
#endif
    g->pages += *given / PAGE;
    return 0;
}

int vp_given_put(struct vp_given *g, const void *head, size_t m, const void *rows, size_t n, struct vp_err *err)
{
    const char *const at = rows, *const end = at + n;
    const char *const from = at > g->from ? at : g->from, *const to = end < g->to ? end : g->to;
    size_t given;
    if (!g->on || from >= to || to - from < LEAST)
        return vp_write_two(g->fd, -1, head, m, rows, n, g->name, err);
    if (vp_write_two(g->fd, -1, head, m, at, (size_t)(from - at), g->name, err) ||
        give(g, from, (size_t)(to - from), &given, err))
        return -1;
    return vp_write_two(g->fd, -1, from + given, (size_t)(end - from) - given, NULL, 0, g->name, err);
}

/* Gives up giving if the memory that came in place of what was given came in small pages. */
static void judge(struct vp_given *g)
{
    enum { ENOUGH = 32 << 20 };
    if (g->pages < ENOUGH / PAGE)
        return;
    const int64_t faults = count_faults();
    if (g->faults && faults - g->faults > (int64_t)g->pages / 2)
        g->on = false;
    g->faults = faults;
    g->pages = 0;
}

int vp_given_end(struct vp_given *g, struct vp_err *err)
{
    const size_t n = (size_t)(g->to - g->from);
    const bool some = g->some;
    char *const from = g->from;
    g->from = g->to = NULL;
    g->some = false;
    if (!some)
        return 0;
    judge(g);
    return madvise(from, n, MADV_DONTNEED) ? vp_fail_errno(err, "%s: memory given to a pipe stays mapped", g->name) : 0;
}
