/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by everything in cuda/, C and C++: errors, sizes, queues and the tables of kernels.
 *
 * To add an operation: cuda/NAME.cu ends in VP_GPU_KERNEL(NAME, ...).
 * The promise of engine/op.h holds here too: the bits of an output voxel depend on the image and the
 * parameters, never on the boxes, the pitch, the lane or the device's number of multiprocessors. */
#pragma once

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

/* Returns 0 if e is cudaSuccess, else -1 with the message "WHAT: reason"; code VP_ERESOURCE if device memory is
 * exhausted, else VP_ERUN. */
static inline int vp_gpu_check(struct vp_err *err, cudaError_t e, const char *what)
{
    if (e == cudaSuccess)
        return 0;
    cudaGetLastError(); /* clear it, or the next launch reports it again */
    return vp_fail(err, e == cudaErrorMemoryAllocation ? VP_ERESOURCE : VP_ERUN, "%s: %s", what, cudaGetErrorString(e));
}

/* Returns n rounded up to a multiple of `size`. */
static inline int64_t vp_round_up(int64_t n, int64_t size)
{
    return vp_div_up(n, size) * size;
}

/* A queue of device/device.h: a stream of one device. */
struct vp_queue {
    cudaStream_t stream;
    int device;
    int sms; /* multiprocessors of the device, for choosing a grid */
};

extern const struct vp_backproject_kernels vp_gpu_backproject; /* backproject.cu */
extern const struct vp_filter_kernels vp_gpu_filter;           /* filter.cu */

/* Defines the kernel of operation NAME and enters it in the plugin's table, in which it is found by that name:
 *     VP_GPU_KERNEL(NAME, has, scratch, ...);     the fields of struct vp_kernel after its name
 * The table is the section vp_kernels of the plugin (device.c), so no list names the kernels. */
#define VP_GPU_KERNEL(name, ...) \
    extern "C" const struct vp_kernel vp_gpu_##name; \
    const struct vp_kernel vp_gpu_##name = {#name, __VA_ARGS__}; \
    __attribute__((section("vp_kernels"), used)) static const struct vp_kernel *const vp_entry_##name = &vp_gpu_##name

#ifdef __cplusplus
}
#endif
