/* SPDX-License-Identifier: BSD-3-Clause */
/* Page-locked host memory: host_alloc and host_free of device.h. */
#ifndef VP_HOST_CUDA_H
#define VP_HOST_CUDA_H

#include <stddef.h>

/* Any device may copy from it. A device of the calling thread has to be set. NULL if it cannot be had. */
void *vp_cuda_host_alloc(size_t bytes);
void vp_cuda_host_free(void *p);

#endif
