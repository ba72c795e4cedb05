/* SPDX-License-Identifier: BSD-3-Clause */
/* Tensor maps: how the bulk copy engine addresses boxes of an array in device memory (copy.cuh). */
#pragma once

#include <cuda.h>

#include "gpu.h"

/* Encodes an array of size[0] x size[1] x size[2] elements of `floats` floats (1 or 2), innermost first; stride[0] and
 * stride[1]: bytes from row to row and from plane to plane. Boxes are box[0] x box[1] x box[2] elements; elements outside
 * the array are 0. 0 or -1. */
static inline int vp_tensor_map(CUtensorMap *map, int floats, const void *array, const int64_t size[3],
                                const int64_t stride[2], const int box[3], struct vp_err *err)
{
    typedef CUresult (*encode_function)(CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *, const cuuint64_t *,
                                        const cuuint64_t *, const cuuint32_t *, const cuuint32_t *,
                                        CUtensorMapInterleave, CUtensorMapSwizzle, CUtensorMapL2promotion,
                                        CUtensorMapFloatOOBfill);
    void *symbol = NULL;
    cudaDriverEntryPointQueryResult found;
    if (vp_gpu_check(
            err, cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &symbol, 12000, cudaEnableDefault, &found),
            "tensor maps"))
        return -1;
    if (!symbol || found != cudaDriverEntryPointSuccess)
        return vp_fail(err, VP_ERUN, "the driver has no tensor maps");
    const cuuint64_t sizes[3] = {(cuuint64_t)size[0], (cuuint64_t)size[1], (cuuint64_t)size[2]};
    const cuuint64_t strides[2] = {(cuuint64_t)stride[0], (cuuint64_t)stride[1]};
    const cuuint32_t boxes[3] = {(cuuint32_t)box[0], (cuuint32_t)box[1], (cuuint32_t)box[2]}, step[3] = {1, 1, 1};
    const CUresult r = ((encode_function)symbol)(
        map, floats == 2 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT64 : CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 3, (void *)array, sizes,
        strides, boxes, step, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
        CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    return r == CUDA_SUCCESS ? 0 : vp_fail(err, VP_ERUN, "the driver rejected a tensor map (error %d)", (int)r);
}
