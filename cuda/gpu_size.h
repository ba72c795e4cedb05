/* SPDX-License-Identifier: BSD-3-Clause */
/* Sizes in whole pieces. */
#ifndef VP_GPU_SIZE_H
#define VP_GPU_SIZE_H

#ifdef __cplusplus
extern "C" {
#endif
#include "base/size.h"
#ifdef __cplusplus
}
#endif

/* Pieces of `size` that hold n, and what they hold together. */
static inline int64_t vp_groups(int64_t n, int64_t size)
{
    return (n + size - 1) / size;
}

static inline int64_t vp_round_up(int64_t n, int64_t size)
{
    return vp_groups(n, size) * size;
}

#endif
