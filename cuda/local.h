/* SPDX-License-Identifier: BSD-3-Clause */
/* Local operations (common/run/op.h) on CUDA devices.
 *
 * To add an operation: cuda/NAME.cu defines one `const struct vp_kernel vp_gpu_NAME`, and the list in device.c names it.
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

extern const struct vp_kernel vp_gpu_gauss, vp_gpu_log, vp_gpu_min, vp_gpu_max, vp_gpu_rank, vp_gpu_entropy,
    vp_gpu_mean, vp_gpu_var, vp_gpu_std, vp_gpu_wiener, vp_gpu_above, vp_gpu_threshold, vp_gpu_subtract, vp_gpu_nlmeans,
    vp_gpu_math, vp_gpu_morphrecon;

#ifdef __cplusplus
}
#endif
#endif
