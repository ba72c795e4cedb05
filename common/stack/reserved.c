/* SPDX-License-Identifier: BSD-3-Clause */
/* Files written in pieces, by several threads.
 *
 * A file system lets one thread at a time write to a file. For a disk that is fast enough. tmpfs
 * gives pages their memory under that lock, one by one, which takes longer than copying into them; so there several
 * threads copy through a mapping, which needs no lock, and memory comes before it is needed:
 *   - in huge pages, if the system has them (Linux 6.1: MADV_COLLAPSE makes one of a piece that has at least one page;
 *     it does so where the mount did not enable them, but not where the administrator denied them). 8 GiB by sixteen
 *     threads, with eight that made them ahead in batches of 16 MiB, took 0.36 to 0.39 s instead of 1.9;
 *   - else in small ones, by a thread of our own that allocates ahead. A thread that is alone then writes: faulting
 *     pages in costs it more than it gains. */
#include "base/err.h"
#include "base/size.h"
#include "stack/outfile.h"
#include <fcntl.h>
#include <omp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25 /* Linux; unknown to older C libraries, as the next is; older systems refuse them */
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

/* PIECE: a huge page. BATCH: pieces for one system call, which first has all processors empty their lists, and at the
 * end has all of them mapped. */
enum { TMPFS = 0x01021994, PIECE = 2 << 20, BATCH = 4, WORTH_A_THREAD = 64 << 20, MOST_AHEAD = 8, MOST_KEPT = 64 };
enum { NOT_YET, UNDER_WAY, HUGE, SMALL };

struct piece {
    atomic_int state;
    atomic_int putting; /* threads that copy into it, if it is a huge one */
};

struct vp_reserved {
    int fd;
    const char *name;
    uint64_t size;
    char *map; /* NULL: not on tmpfs; begins where a huge page may */
    size_t mapped; /* with what lies before it */
    char *mapping;
    uintptr_t page; /* page size of the system */
    atomic_int putting; /* threads in vp_reserved_put */
    atomic_bool huge; /* no huge page has been refused */
    struct piece *piece; /* those that are whole: `pieces` of them */
    uint64_t pieces;
    _Atomic uint64_t kept[MOST_KEPT]; /* for each thread: 1 + the huge page that it copied into last, still mapped */
    pthread_mutex_t lock;
    pthread_cond_t ready;
    pthread_t ahead[MOST_AHEAD];
    int n_ahead;
    _Atomic uint64_t next; /* piece for those that allocate ahead */
    atomic_flag small_ahead; /* one of them is enough for small pages: they wait for each other */
    atomic_bool stop;
};

/* Processor time for a piece (0.3 to 1.2 ms at best): memory that has to be put together first, or that a
 * virtual machine has given back to its host, is not worth waiting for. */
static const double TOO_LONG_SECONDS = 0.003;

/* Returns the processor time of this thread. */
static double processor_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Releases whole pages of a range: they belong to the file, and shall not count as ours. */
static void forget(char *at, size_t n)
{
    (void)madvise(at, n, MADV_DONTNEED);
}

/* Makes huge pages for n pieces that the caller has marked UNDER_WAY. */
static void make_huge(struct vp_reserved *r, uint64_t first, uint64_t n)
{
    const double t = processor_seconds();
    bool made = true;
    for (uint64_t i = first; i < first + n && made; i++)
        made = !fallocate(r->fd, 0, (off_t)(i * PIECE), (off_t)r->page);
    made = made && !madvise(r->map + first * PIECE, (size_t)n * PIECE, MADV_COLLAPSE);
    if (!made || processor_seconds() - t > TOO_LONG_SECONDS * (double)n)
        r->huge = false;
    forget(r->map + first * PIECE, (size_t)n * PIECE);
    pthread_mutex_lock(&r->lock);
    for (uint64_t i = first; i < first + n; i++)
        r->piece[i].state = made ? HUGE : SMALL;
    pthread_cond_broadcast(&r->ready);
    pthread_mutex_unlock(&r->lock);
}

static bool claim(struct vp_reserved *r, uint64_t piece)
{
    int expected = NOT_YET;
    return atomic_compare_exchange_strong(&r->piece[piece].state, &expected, UNDER_WAY);
}

/* True if a piece is a huge page, after waiting for it: nothing was put into it yet, for pages in use would have to be
 * copied. */
static bool await_huge(struct vp_reserved *r, uint64_t piece)
{
    if (piece >= r->pieces)
        return false;
    struct piece *p = &r->piece[piece];
    if (p->state == NOT_YET && r->huge && claim(r, piece))
        make_huge(r, piece, 1);
    if (p->state == UNDER_WAY) {
        pthread_mutex_lock(&r->lock);
        while (p->state == UNDER_WAY)
            pthread_cond_wait(&r->ready, &r->lock);
        pthread_mutex_unlock(&r->lock);
    }
    return p->state == HUGE;
}

/* Allocates until the end or until there is no room: then those who write will say so. */
static void *allocate_ahead(void *arg)
{
    struct vp_reserved *r = arg;
    bool small = false;
    for (uint64_t at; !r->stop && (at = r->next) * PIECE < r->size;) {
        const bool huge = r->huge;
        if (!huge && !small && atomic_flag_test_and_set(&r->small_ahead))
            break;
        small = !huge;
        const uint64_t n = huge ? BATCH : 1, end = at + n < r->pieces ? at + n : r->pieces;
        if (!atomic_compare_exchange_strong(&r->next, &at, at + n))
            continue;
        if (!huge) {
            const uint64_t from = at * PIECE, left = r->size - from;
            if (fallocate(r->fd, 0, (off_t)from, (off_t)(left < PIECE ? left : PIECE)))
                break;
            continue;
        }
        for (uint64_t i = at, j; i < end; i = j + 1) {
            for (j = i; j < end && claim(r, j);)
                j++;
            if (j > i)
                make_huge(r, i, j - i);
        }
    }
    return NULL;
}

static void start_ahead(struct vp_reserved *r)
{
    const int processors = omp_get_num_procs(), threads = omp_get_max_threads();
    int n = (processors < threads ? processors : threads) / 2;
    n = n < MOST_AHEAD ? n : MOST_AHEAD;
    if ((uint64_t)n > r->size / WORTH_A_THREAD)
        n = (int)(r->size / WORTH_A_THREAD);
    for (int i = 0; i < (n > 1 ? n : 1); i++) {
        if (pthread_create(&r->ahead[i], NULL, allocate_ahead, r))
            break;
        r->n_ahead++;
    }
}

static int map_tmpfs(struct vp_reserved *r, bool ahead, struct vp_err *err)
{
    struct statfs fs;
    if (fstatfs(r->fd, &fs) || fs.f_type != TMPFS || r->size > PTRDIFF_MAX - PIECE)
        return 0;
    if (ftruncate(r->fd, (off_t)r->size))
        return vp_fail_errno(err, "%s", r->name);
    /* a place for it that begins where a huge page may */
    r->pieces = r->size / PIECE;
    r->piece = vp_alloc((size_t)r->pieces + 1, sizeof *r->piece, r->name, err);
    if (!r->piece)
        return -1;
    char *place = mmap(NULL, (size_t)r->size + PIECE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (place == MAP_FAILED)
        return 0;
    r->mapping = place;
    r->mapped = (size_t)r->size + PIECE;
    place += -(uintptr_t)place % PIECE;
    if (mmap(place, (size_t)r->size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, r->fd, 0) == MAP_FAILED)
        return 0;
    r->map = place;
    (void)madvise(place, (size_t)r->size, MADV_HUGEPAGE); /* if tmpfs was mounted for it */
    /* with huge pages of another size, madvise says yes to a piece and does nothing */
    r->huge = r->pieces > 0 && r->page * (r->page / sizeof(void *)) == PIECE;
    /* all of it will be needed, but perhaps not before other memory is free again */
    if (ahead && r->size >= WORTH_A_THREAD && r->size <= vp_memory_available() / 2)
        start_ahead(r);
    return 0;
}

/* Keeps a huge page mapped until its thread goes on to another: small pages would fault it in one by one. */
static void keep(struct vp_reserved *r, uint64_t piece)
{
    const uint64_t old = atomic_exchange(&r->kept[omp_get_thread_num() % MOST_KEPT], piece + 1);
    if (old && old != piece + 1 && r->piece[old - 1].putting == 0) /* before, others would have to fault it in again */
        forget(r->map + (old - 1) * PIECE, PIECE);
}

/* Copies to a piece; false if there is no memory: write(2) then reports why. */
static bool copy_mapped(struct vp_reserved *r, uint64_t at, const void *buf, size_t n, bool huge)
{
    char *const to = r->map + at;
    const uintptr_t mask = r->page - 1, begin = (uintptr_t)to, end = begin + n, outer = (end + mask) & ~mask,
                    inner = (begin + mask) & ~mask;
    if (huge) {
        struct piece *p = &r->piece[at / PIECE];
        p->putting++;
        memcpy(to, buf, n);
        p->putting--;
        keep(r, at / PIECE);
        return true;
    }
    /* first: to memcpy a page that cannot be had would be SIGBUS */
    if (madvise(to - (begin & mask), (size_t)(outer - (begin & ~mask)), MADV_POPULATE_WRITE))
        return false;
    memcpy(to, buf, n);
    if ((end & ~mask) > inner)
        forget(to + (inner - begin), (size_t)((end & ~mask) - inner));
    return true;
}

int vp_reserved_open(struct vp_reserved **out, int fd, const char *name, uint64_t size, bool ahead, struct vp_err *err)
{
    struct vp_reserved *r = vp_alloc(1, sizeof *r, name, err);
    if (!r)
        return -1;
    r->fd = fd;
    r->name = name;
    r->size = size;
    r->page = (uintptr_t)sysconf(_SC_PAGESIZE);
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->ready, NULL);
    if (map_tmpfs(r, ahead, err)) {
        vp_reserved_close(r);
        return -1;
    }
    *out = r;
    return 0;
}

/* Puts piece by piece of the file. */
static int put_mapped(struct vp_reserved *r, uint64_t at, const char *from, size_t n, struct vp_err *err)
{
    for (size_t m; n > 0; at += m, from += m, n -= m) {
        const size_t left = PIECE - (size_t)(at % PIECE);
        const bool huge = await_huge(r, at / PIECE), alone = !huge && r->putting == 1;
        m = n < left ? n : left;
        if ((alone || !copy_mapped(r, at, from, m, huge)) &&
            vp_write_two(r->fd, (off_t)at, from, m, NULL, 0, r->name, err))
            return -1;
    }
    return 0;
}

int vp_reserved_put(struct vp_reserved *r, uint64_t at, const void *a, size_t na, const void *b, size_t nb,
                    struct vp_err *err)
{
    if (at > r->size || na > r->size - at || nb > r->size - at - na)
        return vp_fail(err, VP_ERUN, "%s: expected %llu bytes, got at least %llu", r->name,
                       (unsigned long long)r->size, (unsigned long long)(at + na + nb));
    if (!r->map)
        return vp_write_two(r->fd, (off_t)at, a, na, b, nb, r->name, err);
    r->putting++;
    const int rc = put_mapped(r, at, a, na, err) || put_mapped(r, at + na, b, nb, err) ? -1 : 0;
    r->putting--;
    return rc;
}

void vp_reserved_close(struct vp_reserved *r)
{
    if (!r)
        return;
    r->stop = true;
    for (int i = 0; i < r->n_ahead; i++)
        pthread_join(r->ahead[i], NULL);
    if (r->mapping)
        munmap(r->mapping, r->mapped);
    pthread_cond_destroy(&r->ready);
    pthread_mutex_destroy(&r->lock);
    free(r->piece);
    free(r);
}
