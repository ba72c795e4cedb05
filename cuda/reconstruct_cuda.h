/* SPDX-License-Identifier: BSD-3-Clause */
/* The functions bp_* of backend.h on a CUDA device: see there. */
#ifndef VP_RECONSTRUCT_CUDA_H
#define VP_RECONSTRUCT_CUDA_H

#include "backend.h"

int vp_cuda_bp_plan(const struct vp_bp_job *job, struct vp_bp_plan *plan, struct vp_err *err);
int vp_cuda_bp_open(void **bp, const struct vp_bp_job *job, struct vp_err *err);
int vp_cuda_bp_add(void *bp, int64_t first, int64_t n, int64_t v0, int64_t v1, const float *proj, uint64_t *ticket,
                   struct vp_err *err);
int vp_cuda_bp_wait(void *bp, uint64_t ticket, struct vp_err *err);
int vp_cuda_bp_flush(void *bp, struct vp_err *err);
int vp_cuda_bp_slices(void *bp, int64_t z, int64_t n, float *out, struct vp_err *err);
void vp_cuda_bp_stats(void *bp, struct vp_bp_stats *stats);
void vp_cuda_bp_close(void *bp);

#endif
