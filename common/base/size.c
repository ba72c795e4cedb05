/* SPDX-License-Identifier: BSD-3-Clause */
/* Checked sizes, byte counts as text, memory and processors. Limits of control groups (containers,
 * batch systems) are read for version 2 and version 1, and hold for every ancestor of our group. */
#include "base/size.h"
#include "base/err.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { ALIGN = 64 };
#define HUGE_PAGE ((size_t)2 << 20)

/* Returns the unit after the number; 0 if it is none. */
static uint64_t byte_unit(const char *s)
{
    static const char letters[] = "KMGT";
    if (!*s || !strcasecmp(s, "B"))
        return 1;
    const char *letter = strchr(letters, toupper((unsigned char)*s));
    if (!letter)
        return 0;
    const bool binary = s[1] == 'i';
    const char *rest = s + (binary ? 2 : 1);
    if (*rest && strcasecmp(rest, "B"))
        return 0;
    uint64_t unit = 1;
    for (const char *l = letters; l <= letter; l++)
        unit *= binary ? 1024 : 1000;
    return unit;
}

bool vp_parse_bytes(const char *text, uint64_t *out)
{
    /* the whole part is kept apart from the fraction, so that large counts stay exact */
    const char *s = text;
    uint64_t whole = 0;
    double fraction = 0, place = 0.1;
    int digits = 0;
    for (; isdigit((unsigned char)*s); s++, digits++)
        if (__builtin_mul_overflow(whole, 10u, &whole)
            || __builtin_add_overflow(whole, (uint64_t)(*s - '0'), &whole))
            return false;
    if (*s == '.')
        for (s++; isdigit((unsigned char)*s); s++, digits++, place /= 10)
            fraction += (*s - '0') * place;
    const uint64_t unit = digits ? byte_unit(s) : 0;
    if (!unit || (unit == 1 && fraction > 0))
        return false;
    uint64_t bytes;
    if (__builtin_mul_overflow(whole, unit, &bytes)
        || __builtin_add_overflow(bytes, (uint64_t)(fraction * (double)unit + 0.5), &bytes))
        return false;
    *out = bytes;
    return true;
}

struct vp_bytes_text vp_bytes_text(uint64_t bytes)
{
    static const char *const unit[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    struct vp_bytes_text out;
    double v = (double)bytes;
    int u = 0;
    for (; v >= (u ? 1023.95 : 1024) && u < 6; u++)
        v /= 1024;
    snprintf(out.text, sizeof out.text, "%.*f %s", u > 0, v, unit[u]);
    return out;
}

/* Zeroes fresh or recycled memory without writing to it: dropped pages of an anonymous mapping come
 * back as zeros when they are first used, by the thread that uses them. */
static void zero_pages(char *p, size_t bytes)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const size_t whole = bytes - bytes % page;
    if ((uintptr_t)p % page || madvise(p, whole, MADV_DONTNEED)) {
        memset(p, 0, bytes);
        return;
    }
    memset(p + whole, 0, bytes - whole);
}

static void *allocate(size_t count, size_t size, bool zero, const char *what, struct vp_err *err)
{
    size_t bytes;
    if (!vp_mul_size(&bytes, count, size) || bytes > (size_t)PTRDIFF_MAX - HUGE_PAGE) {
        vp_fail(err, VP_ERESOURCE, "%s: %zu x %zu bytes do not fit the address space", what, count, size);
        return NULL;
    }
    const bool large = bytes >= HUGE_PAGE;
    void *p = NULL;
    if (posix_memalign(&p, large ? HUGE_PAGE : ALIGN, bytes ? bytes : 1)) {
        vp_fail(err, VP_ERESOURCE, "%s: cannot allocate %zu bytes (%s)", what, bytes,
                vp_bytes_text(bytes).text);
        return NULL;
    }
    if (large && zero)
        zero_pages(p, bytes);
    else if (zero)
        memset(p, 0, bytes ? bytes : 1);
    if (large)
        madvise(p, bytes, MADV_HUGEPAGE); /* a request; not every kernel grants it */
    return p;
}

void *vp_alloc(size_t count, size_t size, const char *what, struct vp_err *err)
{
    return allocate(count, size, true, what, err);
}

void *vp_alloc_raw(size_t count, size_t size, const char *what, struct vp_err *err)
{
    return allocate(count, size, false, what, err);
}

static _Atomic uint64_t memory_most = UINT64_MAX;

void vp_memory_limit(uint64_t bytes)
{
    memory_most = bytes;
}

uint64_t vp_memory_most(void)
{
    return memory_most;
}

int vp_memory_claim(uint64_t bytes, const char *what, const char *name, struct vp_err *err)
{
    const uint64_t most = memory_most;
    enum { NOTHING = 1 << 20 }; /* every run takes that */
    if (bytes <= NOTHING || bytes <= most / 2)
        return 0;
    vp_fail(err, VP_ERESOURCE, "%s: %s may take %s: expected at most half of the %s of memory", name, what,
            vp_bytes_text(bytes).text, vp_bytes_text(most).text);
    return vp_hint(err, "allow more --memory");
}

void *vp_grow(void *array, int64_t n, int64_t *room, size_t size, const char *what, const char *name, struct vp_err *err)
{
    enum { FIRST = 64 };
    if (n < *room)
        return array;
    const int64_t more = *room ? 2 * *room : FIRST;
    size_t bytes = SIZE_MAX;
    if (vp_mul_size(&bytes, (size_t)more, size) && vp_memory_claim(bytes, what, name, err))
        return NULL;
    void *const grown = bytes <= PTRDIFF_MAX ? realloc(array, bytes) : NULL;
    if (grown)
        *room = more;
    else
        vp_fail(err, VP_ERESOURCE, "%s: out of memory: %s", name, what);
    return grown;
}

/* Reads the n numbers after `key` at the start of a line of a file in dir, of /proc or /sys ("" = the first line). */
static bool file_numbers(const char *dir, const char *name, const char *key, uint64_t *out, int n)
{
    char path[PATH_MAX + 128], line[256];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *f = fopen(path, "re");
    if (!f)
        return false;
    bool found = false;
    while (!found && fgets(line, sizeof line, f))
        found = !strncmp(line, key, strlen(key));
    fclose(f);
    char *s = line + strlen(key);
    for (int i = 0; found && i < n; i++) {
        s += strspn(s, " \t");
        errno = 0;
        found = isdigit((unsigned char)*s); /* "max", "-1": no limit */
        const unsigned long long v = strtoull(s, &s, 10);
        found = found && !errno;
        if (found)
            out[i] = v;
    }
    return found;
}

/* Calls visit() for our control group of a controller and each of its ancestors. A path that is not
 * mounted here (containers see only their own part) is skipped. */
static void each_cgroup(const char *controller, void (*visit)(const char *dir, bool v2, void *ctx), void *ctx)
{
    FILE *f = fopen("/proc/self/cgroup", "re");
    if (!f)
        return;
    char line[PATH_MAX];
    while (fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = '\0';
        char *names = strchr(line, ':');
        char *path = names ? strchr(names + 1, ':') : NULL;
        if (!path)
            continue;
        *path++ = '\0';
        names++;
        const bool v2 = !*names;
        bool ours = v2;
        for (char *save = NULL, *t = strtok_r(names, ",", &save); t && !ours; t = strtok_r(NULL, ",", &save))
            ours = !strcmp(t, controller);
        if (!ours)
            continue;
        for (;;) {
            char dir[PATH_MAX + 64];
            snprintf(dir, sizeof dir, "/sys/fs/cgroup%s%s%s", v2 ? "" : "/", v2 ? "" : controller,
                     strcmp(path, "/") ? path : "");
            visit(dir, v2, ctx);
            char *slash = strrchr(path, '/');
            if (!slash || !path[1])
                break;
            slash[slash == path] = '\0';
        }
    }
    fclose(f);
}

static void memory_limit(const char *dir, bool v2, void *ctx)
{
    uint64_t *available = ctx, limit, used, cache = 0;
    if (!file_numbers(dir, v2 ? "memory.max" : "memory.limit_in_bytes", "", &limit, 1)
        || !file_numbers(dir, v2 ? "memory.current" : "memory.usage_in_bytes", "", &used, 1))
        return;
    /* page cache counts as used, but yields */
    file_numbers(dir, "memory.stat", v2 ? "inactive_file " : "total_inactive_file ", &cache, 1);
    used -= cache < used ? cache : used;
    const uint64_t left = limit > used ? limit - used : 0;
    if (left < *available)
        *available = left;
}

uint64_t vp_memory_available(void)
{
    uint64_t available;
    if (file_numbers("/proc", "meminfo", "MemAvailable:", &available, 1))
        available *= 1024;
    else
        available = (uint64_t)sysconf(_SC_PHYS_PAGES) / 2 * (uint64_t)sysconf(_SC_PAGESIZE);
    each_cgroup("memory", memory_limit, &available);
    struct rlimit limit;
    if (!getrlimit(RLIMIT_AS, &limit) && limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < available)
        available = limit.rlim_cur;
    return available;
}

uint64_t vp_memory_peak(void)
{
    struct rusage use;
    return getrusage(RUSAGE_SELF, &use) ? 0 : (uint64_t)use.ru_maxrss * 1024;
}

static void cpu_limit(const char *dir, bool v2, void *ctx)
{
    int *cores = ctx;
    uint64_t of[2]; /* quota and period: "200000 100000", or "max 100000" */
    if (v2 ? !file_numbers(dir, "cpu.max", "", of, 2)
           : !file_numbers(dir, "cpu.cfs_quota_us", "", &of[0], 1)
                 || !file_numbers(dir, "cpu.cfs_period_us", "", &of[1], 1))
        return;
    if (of[0] && of[1] && of[0] <= (uint64_t)*cores * of[1])
        *cores = (int)((of[0] + of[1] - 1) / of[1]);
}

int vp_cores(void)
{
    int cores = omp_get_num_procs();
    each_cgroup("cpu", cpu_limit, &cores);
    return cores;
}

double vp_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
