/* SPDX-License-Identifier: BSD-3-Clause */
/* Page-locked host memory. cudaHostAlloc gets its pages one by one, in one thread, and zeroes them there; here several
 * threads get large pages first, where the system has them, and the driver only locks what is there. */
#include "host.h"

#include <cuda_runtime_api.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { THREADS = 8, PAGE = 4096 };
static const size_t LARGE = (size_t)2 << 20;  /* a large page */
static const size_t SMALL = (size_t)16 << 20; /* below, it is not worth it */

/* What is mapped here, and not by the driver. */
struct mapping {
    struct mapping *next;
    void *p;
    size_t bytes;
};
static struct mapping *mappings;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

struct range {
    char *from, *to;
};

static void *touch(void *arg)
{
    const struct range *r = arg;
    for (volatile char *p = r->from; p < r->to; p += PAGE)
        *p = 0;
    return NULL;
}

static void touch_all(char *p, size_t bytes)
{
    struct range range[THREADS];
    pthread_t thread[THREADS];
    bool started[THREADS];
    const size_t share = (bytes / THREADS + LARGE - 1) / LARGE * LARGE;

    for (size_t i = 0; i < THREADS; i++) {
        const size_t from = i * share < bytes ? i * share : bytes;
        const size_t to = i < THREADS - 1 && from + share < bytes ? from + share : bytes;
        range[i] = (struct range){p + from, p + to};
        started[i] = from < to && i > 0 && !pthread_create(&thread[i], NULL, touch, &range[i]);
    }
    for (size_t i = 0; i < THREADS; i++)
        if (!started[i])
            touch(&range[i]);
    for (size_t i = 0; i < THREADS; i++)
        if (started[i])
            pthread_join(thread[i], NULL);
}

/* Memory that begins at a large page; munmap'd by size. */
static char *map_aligned(size_t bytes)
{
    char *const all = mmap(NULL, bytes + LARGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (all == MAP_FAILED)
        return NULL;
    char *const p = all + (LARGE - (uintptr_t)all % LARGE) % LARGE;
    if (p > all)
        munmap(all, (size_t)(p - all));
    munmap(p + bytes, (size_t)(all + LARGE - p));
    (void)madvise(p, bytes, MADV_HUGEPAGE); /* only faster */
    return p;
}

static void *lock_mapped(size_t bytes)
{
    struct mapping *m = malloc(sizeof *m);
    char *p = m ? map_aligned(bytes) : NULL;
    if (p) {
        touch_all(p, bytes);
        if (cudaHostRegister(p, bytes, cudaHostRegisterPortable) == cudaSuccess) {
            pthread_mutex_lock(&lock);
            *m = (struct mapping){mappings, p, bytes};
            mappings = m;
            pthread_mutex_unlock(&lock);
            return p;
        }
        cudaGetLastError();
        munmap(p, bytes);
    }
    free(m);
    return NULL;
}

void *vp_cuda_host_alloc(size_t bytes)
{
    void *p = bytes >= SMALL ? lock_mapped((bytes + PAGE - 1) / PAGE * PAGE) : NULL;
    if (p || cudaHostAlloc(&p, bytes, cudaHostAllocPortable) == cudaSuccess)
        return p;
    cudaGetLastError();
    return NULL;
}

void vp_cuda_host_free(void *p)
{
    struct mapping *m = NULL;

    pthread_mutex_lock(&lock);
    for (struct mapping **at = &mappings; p && *at; at = &(*at)->next)
        if ((*at)->p == p) {
            m = *at;
            *at = m->next;
            break;
        }
    pthread_mutex_unlock(&lock);
    if (!m) {
        cudaFreeHost(p);
        return;
    }
    cudaHostUnregister(p);
    munmap(p, m->bytes);
    free(m);
}
