/* SPDX-License-Identifier: BSD-3-Clause */
/* Preloaded library that makes one system call or allocation of a program fail. $FAULT is CALL:N:HOW, for the N-th call
 * of that name: HOW is an errno, "short" (half of the bytes are read or written) or "end" (none). $FAULT_COUNT names a
 * file that gets the number of calls of each name at the end. Calls before main(), and those of FAULT_COUNT itself, are
 * not counted; with $FAULT_OURS only those of the program and its plugins are (an MPI does not survive all faults). */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <malloc.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define CALLS(X) X(open) X(read) X(pread) X(write) X(pwrite) X(pwritev) X(readv) X(vmsplice) X(splice) X(mmap) X(ftruncate) \
    X(fallocate) X(lseek) \
    X(fstat) X(stat) X(fsync) X(rename) X(link) X(fchmod) X(close) X(pipe2) X(malloc) X(calloc) X(realloc) X(memalign) \
    X(pthread_create)
#define ENUM(name) CALL_##name,
#define TEXT(name) #name,
enum { CALLS(ENUM) N_CALLS };
static const char *const names[N_CALLS] = {CALLS(TEXT)};
static atomic_long count[N_CALLS];
static int fails = -1, how;
static long at;
static bool on, shorter, ours_only;
static uintptr_t exempt[2]; /* libtiff's code: as of 4.5 it crashes if one of its own allocations fails */

extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);

static void said(void)
{
    const char *path = getenv("FAULT_COUNT");
    char text[2048];
    int n = 0;

    on = false;
    for (int i = 0; i < N_CALLS; i++)
        n += snprintf(text + n, sizeof text - (size_t)n, "%s %ld\n", names[i], atomic_load(&count[i]));
    const int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    if (fd < 0 || syscall(SYS_write, fd, text, n) != n)
        abort();
    syscall(SYS_close, fd);
}

static int find_libtiff(struct dl_phdr_info *info, size_t size, void *unused)
{
    (void)size, (void)unused;
    if (info->dlpi_name && strstr(info->dlpi_name, "/libtiff.so"))
        for (int i = 0; i < info->dlpi_phnum; i++)
            if (info->dlpi_phdr[i].p_flags & PF_X) {
                exempt[0] = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
                exempt[1] = exempt[0] + info->dlpi_phdr[i].p_memsz;
            }
    return 0;
}

__attribute__((constructor)) static void start(void)
{
    const char *what = getenv("FAULT");

    dl_iterate_phdr(find_libtiff, NULL);
    ours_only = getenv("FAULT_OURS");
    if (what) {
        char call[32], with[16];
        if (sscanf(what, "%31[^:]:%ld:%15s", call, &at, with) != 3)
            abort();
        for (int i = 0; i < N_CALLS; i++)
            if (!strcmp(call, names[i]))
                fails = i;
        shorter = !strcmp(with, "short");
        how = shorter || !strcmp(with, "end") ? 0 : atoi(with);
        if (fails < 0)
            abort();
    }
    if (getenv("FAULT_COUNT"))
        atexit(said);
    on = true;
}

static bool ours(void *caller)
{
    struct dl_find_object in;
    const char *name = _dl_find_object(caller, &in) ? NULL : in.dlfo_link_map->l_name;
    return name && (!*name || strstr(name, "/voxpipe-"));
}

static bool hit_of(int call, void *caller)
{
    if (!on || (ours_only && !ours(caller)) || (atomic_fetch_add(&count[call], 1) + 1 != at) || call != fails)
        return false;
    errno = how;
    return true;
}

static bool hit_memory(int call, void *caller)
{
    return ((uintptr_t)caller < exempt[0] || (uintptr_t)caller >= exempt[1]) && hit_of(call, caller);
}

#define CALLER __builtin_return_address(0)
#define hit(call) hit_of(call, CALLER)

static void *next(const char *name)
{
    const bool was = on;
    on = false;
    void *f = dlsym(RTLD_NEXT, name);
    on = was;
    return f;
}

/* Looks up the real function once. */
#define REAL(type, name, ...) static type (*real)(__VA_ARGS__); \
    if (!real) { union { void *p; type (*f)(__VA_ARGS__); } u = {next(#name)}; real = u.f; }
#define WRAP(type, call, name, params, args, ...) type name params { REAL(type, name, __VA_ARGS__) \
    return hit(CALL_##call) ? -1 : real args; }
#define MOVE(call, name, buf, params, args, n, ...) ssize_t name params { REAL(ssize_t, name, __VA_ARGS__) \
    if (!hit(CALL_##call)) return real args; \
    if (how) return -1; \
    if (!shorter) return 0; \
    n = n > 1 ? n / 2 : n; \
    return real args; }
#define OPEN(name, params, args, ...) int name params { \
    REAL(int, name, __VA_ARGS__) int mode = 0; \
    if (flags & (O_CREAT | __O_TMPFILE)) { va_list l; va_start(l, flags); mode = va_arg(l, int); va_end(l); } \
    return hit(CALL_open) ? -1 : real args; }

OPEN(open, (const char *path, int flags, ...), (path, flags, mode), const char *, int, ...)
OPEN(open64, (const char *path, int flags, ...), (path, flags, mode), const char *, int, ...)
OPEN(openat, (int fd, const char *path, int flags, ...), (fd, path, flags, mode), int, const char *, int, ...)
OPEN(openat64, (int fd, const char *path, int flags, ...), (fd, path, flags, mode), int, const char *, int, ...)
MOVE(read, read, buf, (int fd, void *buf, size_t n), (fd, buf, n), n, int, void *, size_t)
MOVE(pread, pread, buf, (int fd, void *buf, size_t n, off_t o), (fd, buf, n, o), n, int, void *, size_t, off_t)
MOVE(pread, pread64, buf, (int fd, void *buf, size_t n, off64_t o), (fd, buf, n, o), n, int, void *, size_t, off64_t)
MOVE(write, write, buf, (int fd, const void *buf, size_t n), (fd, buf, n), n, int, const void *, size_t)
MOVE(pwrite, pwrite, buf, (int fd, const void *buf, size_t n, off_t o), (fd, buf, n, o), n, int, const void *, size_t,
     off_t)
MOVE(pwrite, pwrite64, buf, (int fd, const void *buf, size_t n, off64_t o), (fd, buf, n, o), n, int, const void *,
     size_t,
     off64_t)
WRAP(ssize_t, pwritev, pwritev64, (int fd, const struct iovec *v, int n, off64_t o), (fd, v, n, o), int,
     const struct iovec *, int, off64_t)
WRAP(ssize_t, vmsplice, vmsplice, (int fd, const struct iovec *v, size_t n, unsigned flags), (fd, v, n, flags), int,
     const struct iovec *, size_t, unsigned)
MOVE(splice, splice, n, (int from, off64_t *a, int to, off64_t *b, size_t n, unsigned flags), (from, a, to, b, n, flags), n, int,
     off64_t *, int, off64_t *, size_t, unsigned)
ssize_t readv(int fd, const struct iovec *v, int n)
{
    REAL(ssize_t, readv, int, const struct iovec *, int)
    struct iovec half = *v;
    if (!hit(CALL_readv))
        return real(fd, v, n);
    half.iov_len = half.iov_len > 1 ? half.iov_len / 2 : half.iov_len;
    return how ? -1 : shorter ? real(fd, &half, 1) : 0;
}
WRAP(int, ftruncate, ftruncate, (int fd, off_t n), (fd, n), int, off_t)
WRAP(int, ftruncate, ftruncate64, (int fd, off64_t n), (fd, n), int, off64_t)
WRAP(int, fallocate, fallocate64, (int fd, int mode, off64_t o, off64_t n), (fd, mode, o, n), int, int, off64_t,
     off64_t)
int posix_fallocate64(int fd, off64_t o, off64_t n)
{
    REAL(int, posix_fallocate64, int, off64_t, off64_t)
    return hit(CALL_fallocate) ? how : real(fd, o, n);
}
WRAP(off_t, lseek, lseek, (int fd, off_t o, int from), (fd, o, from), int, off_t, int)
WRAP(off64_t, lseek, lseek64, (int fd, off64_t o, int from), (fd, o, from), int, off64_t, int)
WRAP(int, fstat, fstat, (int fd, struct stat *s), (fd, s), int, struct stat *)
WRAP(int, fstat, fstat64, (int fd, struct stat64 *s), (fd, s), int, struct stat64 *)
WRAP(int, stat, stat64, (const char *p, struct stat64 *s), (p, s), const char *, struct stat64 *)
WRAP(int, open, mkostemp64, (char *path, int flags), (path, flags), char *, int)
WRAP(int, fsync, fsync, (int fd), (fd), int)
WRAP(int, rename, rename, (const char *a, const char *b), (a, b), const char *, const char *)
WRAP(int, link, linkat, (int d, const char *a, int e, const char *b, int f), (d, a, e, b, f), int, const char *, int,
     const char *, int)
WRAP(int, fchmod, fchmod, (int fd, mode_t m), (fd, m), int, mode_t)
WRAP(int, pipe2, pipe2, (int fd[2], int flags), (fd, flags), int *, int)
int close(int fd) /* the descriptor is closed even on errors, as on Linux */
{
    REAL(int, close, int)
    const bool now = hit(CALL_close);
    const int rc = real(fd);
    if (now)
        errno = how;
    return now ? -1 : rc;
}
void *mmap64(void *p, size_t n, int prot, int flags, int fd, off64_t o)
{
    REAL(void *, mmap64, void *, size_t, int, int, int, off64_t)
    return hit(CALL_mmap) ? MAP_FAILED : real(p, n, prot, flags, fd, o);
}
int pthread_create(pthread_t *t, const pthread_attr_t *a, void *(*f)(void *), void *arg)
{
    REAL(int, pthread_create, pthread_t *, const pthread_attr_t *, void *(*)(void *), void *)
    return hit(CALL_pthread_create) ? EAGAIN : real(t, a, f, arg);
}
#define GET(type, name, params, args, ...) type name params { REAL(type, name, __VA_ARGS__) \
    return hit(CALL_open) ? NULL : real args; }
GET(FILE *, fopen, (const char *path, const char *mode), (path, mode), const char *, const char *)
GET(FILE *, fopen64, (const char *path, const char *mode), (path, mode), const char *, const char *)
GET(DIR *, opendir, (const char *path), (path), const char *)
void *malloc(size_t n) { return hit_memory(CALL_malloc, CALLER) ? NULL : __libc_malloc(n); }
void *calloc(size_t n, size_t m) { return hit_memory(CALL_calloc, CALLER) ? NULL : __libc_calloc(n, m); }
void *realloc(void *p, size_t n) { return hit_memory(CALL_realloc, CALLER) ? NULL : __libc_realloc(p, n); }
void *memalign(size_t a, size_t n) { return hit(CALL_memalign) ? NULL : __libc_memalign(a, n); }
void *aligned_alloc(size_t a, size_t n) { return hit(CALL_memalign) ? NULL : __libc_memalign(a, n); }
int posix_memalign(void **p, size_t a, size_t n)
{
    void *const q = hit(CALL_memalign) ? NULL : __libc_memalign(a, n);
    *p = q ? q : *p;
    return q || !n ? 0 : ENOMEM;
}
