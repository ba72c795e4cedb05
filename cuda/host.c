/* SPDX-License-Identifier: BSD-3-Clause */
/* Page-locked host memory. cudaHostAlloc gets its pages one by one, in one thread, and zeroes them there; here several
 * threads get large pages first, where the system has them, and the driver only locks what is there. */
#include "gpu.h"

#include <pthread.h>
#include <stdlib.h>

enum { THREADS = 8, PAGE = 4096 };
static const size_t LARGE = (size_t)2 << 20;  /* a large page */
static const size_t SMALL = (size_t)16 << 20; /* below, it is not worth it */

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
        started[i] = !pthread_create(&thread[i], NULL, touch, &range[i]);
        if (!started[i])
            touch(&range[i]);
    }
    for (size_t i = 0; i < THREADS; i++)
        if (started[i])
            pthread_join(thread[i], NULL);
}

void *vp_cuda_host_alloc(size_t bytes)
{
    struct vp_err ignored = VP_ERR_INIT;
    void *p = bytes >= SMALL ? vp_alloc_raw(bytes, 1, "a buffer", &ignored) : NULL;
    if (p) {
        touch_all(p, bytes);
        if (cudaHostRegister(p, bytes, cudaHostRegisterPortable) == cudaSuccess)
            return p;
        free(p);
    }
    if (cudaHostAlloc(&p, bytes, cudaHostAllocPortable) == cudaSuccess)
        return p;
    cudaGetLastError();
    return NULL;
}

void vp_cuda_host_free(void *p)
{
    if (p && cudaHostUnregister(p) == cudaSuccess) {
        free(p);
        return;
    }
    cudaGetLastError(); /* it was not registered here */
    cudaFreeHost(p);
}
