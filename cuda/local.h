/* SPDX-License-Identifier: BSD-3-Clause */
/* Local operations (common/plan/local.h) on one CUDA device: what a kernel offers to the worker of local.c.
 *
 * To add an operation: cuda/NAME.cu defines one `const struct vp_gpu_kernel vp_gpu_NAME`, and the list in local.c
 * names it. The promise of plan/local.h holds here too: the bits of an output voxel depend on the image and the
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
#include "plan/local.h"

/* Rows, and every buffer that the worker hands out, begin at multiples of this many bytes. Behind the last row of a
 * part as many bytes may be read (not written) as complete the row's pitch. */
enum { VP_GPU_ROW_ALIGN = 16, VP_GPU_ALIGN = 256 };

/* A box of an image in device memory: voxel (x, y, z) of the image is sample
 * ((z - box.lo[2]) * plane + (y - box.lo[1]) * pitch + (x - box.lo[0])) of `data`. */
struct vp_gpu_part {
    struct vp_box box;
    int64_t pitch, plane; /* in samples */
    void *data;
};

struct vp_gpu_args {
    /* op->inputs parts of type op->in: each has at least out->box grown by the halo and clipped to the image; their
     * boxes (and pitches) may differ. */
    const struct vp_gpu_part *in;
    const struct vp_gpu_part *out; /* every voxel of out->box is to be written, nothing beside it */
    const void *table;             /* what fill() made, in device memory */
    void *scratch;                 /* of scratch() bytes; holds anything at first */
    cudaStream_t stream;           /* launches of one worker never overlap: they share the scratch */
    int sms;                       /* multiprocessors of the device, for choosing a grid */
};

struct vp_gpu_kernel {
    const char *name; /* vp_local.kernel */
    /* Whether it does op with its types and parameters; if not, why (one clause: "no kernel for f64"). */
    bool (*has)(const struct vp_local *op, char *why, size_t size);
    /* Device bytes beside the parts, for parts of at most in[] -> out[] voxels. NULL: none. */
    uint64_t (*scratch)(const struct vp_local *op, const int64_t in[3], const int64_t out[3]);
    /* Constants in device memory, made once when the worker opens: nothing in them may depend on image[2]. NULL:
     * none. */
    uint64_t (*table)(const struct vp_local *op);
    void (*fill)(const struct vp_local *op, void *table);
    /* Queue the work on args->stream; returns at once. op->image[] is what it is now: read it at each call. The size of
     * a part is never 0. -1 if a kernel did not start: see launch.cuh. */
    int (*launch)(const struct vp_local *op, const struct vp_gpu_args *args, struct vp_err *err);
};

extern const struct vp_gpu_kernel vp_gpu_gauss, vp_gpu_log, vp_gpu_min, vp_gpu_max, vp_gpu_rank, vp_gpu_entropy,
    vp_gpu_mean, vp_gpu_var, vp_gpu_std, vp_gpu_wiener, vp_gpu_subtract, vp_gpu_nlmeans, vp_gpu_math;

/* Behind backend.h. */
bool vp_gpu_local_has(const struct vp_chain *chain, char *why, size_t size);
uint64_t vp_gpu_local_bytes(const struct vp_chain *chain, const int64_t in[3], const int64_t out[3], int lanes);
int vp_gpu_local_open(void **worker, const struct vp_chain *chain, int device, const int64_t in[3],
                      const int64_t out[3], int lanes, struct vp_err *err);
int vp_gpu_local_submit(void *worker, int lane, const struct vp_part *in, const struct vp_part *out, int64_t carry,
                        struct vp_err *err);
int vp_gpu_local_wait(void *worker, int lane, struct vp_err *err);
void vp_gpu_local_close(void *worker);
void vp_gpu_local_stats(void *worker, double *seconds, uint64_t *up, uint64_t *down);

#ifdef __cplusplus
}
#endif
#endif
