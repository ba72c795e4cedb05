/* SPDX-License-Identifier: BSD-3-Clause */
/* What CUDA reports as an error of base/err.h: the one way of everything in cuda/, from C and C++. */
#ifndef VP_GPU_ERROR_H
#define VP_GPU_ERROR_H

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif
#include "base/err.h"
#ifdef __cplusplus
}
#endif

/* "WHAT: reason", VP_ERESOURCE where device memory fell short, VP_ERUN else. Returns -1. */
static inline int vp_gpu_fail(struct vp_err *err, cudaError_t e, const char *what)
{
    cudaGetLastError(); /* or the next launch would report it again */
    return vp_fail(err, e == cudaErrorMemoryAllocation ? VP_ERESOURCE : VP_ERUN, "%s: %s", what, cudaGetErrorString(e));
}

/* The same of a call that may have gone well: 0 then. */
static inline int vp_gpu_check(struct vp_err *err, cudaError_t e, const char *what)
{
    return e == cudaSuccess ? 0 : vp_gpu_fail(err, e, what);
}

#endif
