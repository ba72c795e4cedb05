/* SPDX-License-Identifier: BSD-3-Clause */
/* Page-locked host memory. cudaHostAlloc allocates and zeroes page by page in one thread. Here several threads touch
 * the memory first, in huge pages if the system has them, and the driver only locks it. */
#include "gpu.h"

#include <stdlib.h>

enum { THREADS = 8, PAGE = 4096 };
static const size_t LARGE = (size_t)2 << 20;  /* bytes of a huge page */
static const size_t SMALL = (size_t)16 << 20; /* smaller buffers use cudaHostAlloc */

static void touch(char *p, size_t bytes)
{
#pragma omp parallel for num_threads(THREADS)
    for (size_t from = 0; from < bytes; from += LARGE)
        for (size_t i = from; i < bytes && i < from + LARGE; i += PAGE)
            *(volatile char *)(p + i) = 0;
}

void *vp_cuda_host_alloc(size_t bytes)
{
    struct vp_err ignored = VP_ERR_INIT;
    void *p = bytes >= SMALL ? vp_alloc_raw(bytes, 1, "a buffer", &ignored) : NULL;
    if (p) {
        touch(p, bytes);
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
    cudaGetLastError(); /* not registered here: from cudaHostAlloc */
    cudaFreeHost(p);
}
