/* SPDX-License-Identifier: BSD-3-Clause */
/* Slabs on CUDA devices. */
#ifndef VP_RECONSTRUCT_CUDA_H
#define VP_RECONSTRUCT_CUDA_H

#include "ops/slab.h"

extern const struct vp_slabs vp_cuda_slabs;

#endif
