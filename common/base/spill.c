/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/spill.h"

#include "base/err.h"
#include "base/places.h"
#include "base/size.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MADV_POPULATE_READ /* Linux 5.14 */
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif

enum { MOST = 32 };

struct spilled { char *at; uint64_t bytes; int fd; };

static struct spilled table[MOST];
static int failure; /* errno of a part that could not be read, or 0 */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct spilled find(const void *p)
{
    struct spilled found = {.fd = -1};
    pthread_mutex_lock(&lock);
    for (int i = 0; i < MOST; i++)
        if (table[i].at && (const char *)p >= table[i].at && (const char *)p < table[i].at + table[i].bytes)
            found = table[i];
    pthread_mutex_unlock(&lock);
    return found;
}

/* Returns an unnamed file of `bytes`, or -1 with an error. */
static int make_file(const char *dir, uint64_t bytes, const char *what, struct vp_err *err)
{
    if (vp_in_memory(dir))
        return vp_fail(err, VP_ERESOURCE, "%s: expected a folder on a disk: its files are in memory", dir);
    const int fd = vp_unnamed_file(dir);
    if (fd < 0)
        return vp_fail_errno(err, "%s", dir);
    int why;
    while ((why = posix_fallocate(fd, 0, (off_t)bytes)) == EINTR)
        ;
    if (why) {
        errno = why;
        vp_fail_errno(err, "%s: no room for %s of %s", dir, vp_bytes_text(bytes).text, what);
        close(fd);
        return -1;
    }
    return fd;
}

void *vp_spill_open(const char *dir, uint64_t bytes, const char *what, struct vp_err *err)
{
    struct spilled new = {.bytes = bytes, .fd = make_file(dir, bytes, what, err)};
    int i = 0;
    if (new.fd < 0)
        return NULL;
    void *const at = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_SHARED, new.fd, 0);
    if (at == MAP_FAILED) {
        vp_fail_errno(err, "%s: %s of %s", dir, vp_bytes_text(bytes).text, what);
        close(new.fd);
        return NULL;
    }
    new.at = at;
    pthread_mutex_lock(&lock);
    while (i < MOST && table[i].at)
        i++;
    if (i < MOST)
        table[i] = new;
    pthread_mutex_unlock(&lock);
    if (i < MOST)
        return at;
    munmap(at, (size_t)bytes);
    close(new.fd);
    vp_fail(err, VP_ERESOURCE, "%s: more than %d arrays", dir, MOST);
    return NULL;
}

void vp_spill_close(void *p)
{
    const struct spilled s = find(p);
    if (!s.at) {
        free(p);
        return;
    }
    pthread_mutex_lock(&lock);
    for (int i = 0; i < MOST; i++)
        if (table[i].at == s.at)
            table[i] = (struct spilled){0};
    pthread_mutex_unlock(&lock);
    munmap(s.at, (size_t)s.bytes);
    close(s.fd);
}

bool vp_spill_holds(const void *p)
{
    return find(p).at != NULL;
}

/* Rounds a part to pages: its begin down, its end up or down. 0: none is left. */
static size_t round_part(const struct spilled *s, const void *p, uint64_t bytes, bool up, char **from)
{
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), at = (uint64_t)((const char *)p - s->at);
    const uint64_t end = at + bytes >= s->bytes ? s->bytes : (at + bytes + (up ? page - 1 : 0)) / page * page;
    const uint64_t begin = at / page * page;
    *from = s->at + begin;
    return end > begin ? (size_t)(end - begin) : 0;
}

bool vp_spill_fetch(const void *p, uint64_t bytes, bool written)
{
    const struct spilled s = find(p);
    char *from;
    const size_t n = s.at ? round_part(&s, p, bytes, true, &from) : 0;
    if (n == 0)
        return true;
    /* a disk's error is a signal later, unless the part is brought in here */
    int rc, why = 0;
    do
        rc = madvise(from, n, written ? MADV_POPULATE_WRITE : MADV_POPULATE_READ);
    while (rc && (errno == EINTR || errno == EAGAIN));
    if (rc && (errno == EFAULT || errno == EHWPOISON))
        why = errno == EFAULT ? EIO : errno;
    pthread_mutex_lock(&lock);
    failure = failure ? failure : why;
    why = failure;
    pthread_mutex_unlock(&lock);
    return !why;
}

void vp_spill_leave(const void *p, uint64_t bytes, bool written)
{
    const struct spilled s = find(p);
    char *from;
    const size_t n = s.at ? round_part(&s, p, bytes, false, &from) : 0;
    if (n == 0)
        return;
    madvise(from, n, MADV_DONTNEED); /* the file has it */
    if (written)
        sync_file_range(s.fd, from - s.at, (off_t)n, SYNC_FILE_RANGE_WRITE);
}

int vp_spill_check(struct vp_err *err)
{
    pthread_mutex_lock(&lock);
    const int why = failure;
    pthread_mutex_unlock(&lock);
    errno = why;
    return why ? vp_fail_errno(err, "a volume in the scratch folder") : 0;
}
