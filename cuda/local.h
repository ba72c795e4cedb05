/* SPDX-License-Identifier: BSD-3-Clause */
/* Local operations (common/run/op.h) on CUDA devices.
 *
 * To add an operation: cuda/NAME.cu defines one `const struct vp_kernel vp_gpu_NAME`, and the list below names it.
 * The promise of run/op.h holds here too: the bits of an output voxel depend on the image and the
 * parameters, never on the boxes, the pitch, the lane or the device's number of multiprocessors. */
#ifndef VP_LOCAL_CUDA_H
#define VP_LOCAL_CUDA_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifdef __CUDACC__
#define VP_ANYWHERE __host__ __device__
#endif
#include "gpu_error.h"
#include "queue.h"
#include "run/op.h"

/* The kernels of operations, one line for each: vp_gpu_gauss is defined by gauss.cu and found as "gauss". */
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
