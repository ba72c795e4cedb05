/* SPDX-License-Identifier: BSD-3-Clause */
/* What everything in cuda/ stands on, from C and C++: errors, sizes, queues, page-locked memory and the tables of
 * kernels.
 *
 * To add an operation: cuda/NAME.cu defines one `const struct vp_kernel vp_gpu_NAME`, and the list below names it.
 * The promise of engine/op.h holds here too: the bits of an output voxel depend on the image and the
 * parameters, never on the boxes, the pitch, the lane or the device's number of multiprocessors. */
#ifndef VP_GPU_H
#define VP_GPU_H

#include <cuda_runtime_api.h>
#include <math.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifdef __CUDACC__
#define VP_ANYWHERE __host__ __device__
#endif
#include "base/err.h"
#include "base/size.h"
#include "ct/kernels.h"
#include "engine/op.h"

/* 0, or -1 of a call that failed: "WHAT: reason", VP_ERESOURCE where device memory fell short, VP_ERUN else. */
static inline int vp_gpu_check(struct vp_err *err, cudaError_t e, const char *what)
{
    if (e == cudaSuccess)
        return 0;
    cudaGetLastError(); /* or the next launch would report it again */
    return vp_fail(err, e == cudaErrorMemoryAllocation ? VP_ERESOURCE : VP_ERUN, "%s: %s", what, cudaGetErrorString(e));
}

/* What the pieces of `size` that hold n hold together. */
static inline int64_t vp_round_up(int64_t n, int64_t size)
{
    return vp_div_up(n, size) * size;
}

/* What the verbs of device/device.h stand on: a queue is a stream of one device. */
struct vp_queue {
    cudaStream_t stream;
    int device, sms; /* sms: its multiprocessors, for choosing a grid */
};

/* host.c: page-locked memory, host_alloc and host_free of device/device.h. Any device may copy from it. A device of the
 * calling thread has to be set. NULL if it cannot be had. */
void *vp_cuda_host_alloc(size_t bytes);
void vp_cuda_host_free(void *p);

extern const struct vp_backproject_kernels vp_gpu_backproject; /* backproject.cu */
extern const struct vp_filter_kernels vp_gpu_filter;           /* filter.cu */

/* The kernels of operations, one line for each: vp_gpu_gauss is defined by separable.cu and found as "gauss". */
#define VP_GPU_KERNELS(X) \
    X(gauss) \
    X(log) \
    X(min) \
    X(max) \
    X(rank) \
    X(entropy) \
    X(mean) \
    X(var) \
    X(std) \
    X(wiener) \
    X(above) \
    X(threshold) \
    X(subtract) \
    X(nlmeans) \
    X(math) \
    X(convolve) \
    X(deconvolve) \
    X(sat) \
    X(morphrecon)

#define VP_GPU_KERNEL(name) extern const struct vp_kernel vp_gpu_##name;
VP_GPU_KERNELS(VP_GPU_KERNEL)
#undef VP_GPU_KERNEL

#ifdef __cplusplus
}
#endif
#endif
