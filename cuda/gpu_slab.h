/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernels for slabs of a volume (common/ct/slab_kernels.h) on CUDA devices. */
#ifndef VP_GPU_SLAB_H
#define VP_GPU_SLAB_H

#include "queue.h"

#ifdef __cplusplus
extern "C" {
#endif

#include "ct/slab_kernels.h"
#include "device/kernel.h"

extern const struct vp_backproject_kernels vp_gpu_backproject; /* backproject.cu */
extern const struct vp_filter_kernels vp_gpu_filter;           /* filter.cu */

#ifdef __cplusplus
}
#endif
#endif
