/* SPDX-License-Identifier: BSD-3-Clause */
/* The filter of ops/filter.h on one CUDA device: the same weights, the same kernel (taps, not only its shape), each
 * row read once and written once. A row's bits depend on nothing but that row: not on the batch, the range of rows
 * or the place in them. They are not the CPU's bits: the two differ by less than 5e-7 (relative L2). */
#ifndef VP_FILTER_CUDA_H
#define VP_FILTER_CUDA_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct vp_err;
struct vp_filter;
struct vp_filtercuda;

struct vp_filtercuda_plan {
    char kernel[128];    /* "ramp ram-lak, cutoff 1, no weights, complex fft length 1024 (16x16x4), one pass" */
    int64_t nu_out;      /* samples of an output row: as vp_filter_widen left it */
    uint64_t bytes;      /* device memory for tables; input and output are the caller's */
    /* Expected for one input sample, from rates measured on an H100, by multiprocessors and clock; for the CPU see
     * vp_filter_seconds. 1024 projections of 1024x1024 take 4.7 ms there and 0.29 s on 16 cores; back-projecting them
     * into 1024^3 voxels at 2800 GUPS takes 0.37 s. So the CPU pays only where its filtering hides behind the
     * back-projection and the GPUs would filter the same rows many times over (slabs, passes). */
    double seconds;
};

/* Functions return 0 or -1; VP_ERESOURCE: device memory fell short. */

/* What the device would do; allocates nothing there. Fails where rows are too long for its shared memory (with their
 * padding 16384 samples fit on most cards, 8192 on all): filter on the CPU then. */
int vp_filtercuda_plan(const struct vp_filter *host, int device, struct vp_filtercuda_plan *plan, struct vp_err *err);
/* Tables to the device. Call it after vp_filter_widen, if that is called at all. `host` may be closed afterwards.
 * `stream` is a cudaStream_t on which everything is queued. */
int vp_filtercuda_open(struct vp_filtercuda **f, const struct vp_filter *host, int device, void *stream,
                       struct vp_err *err);

/* Queue: n views from view `first` of the scan, rows [v0, v1) of each. `in` and `out` are device memory: in is n x
 * (v1 - v0) x nu, out is n x (v1 - v0) x nu_out; they may be the same if nu_out = nu, and must not overlap otherwise.
 * Samples that are not finite count as 0. */
int vp_filtercuda_run(struct vp_filtercuda *f, int64_t first, int64_t n, int64_t v0, int64_t v1, const float *in,
                      float *out, struct vp_err *err);
void vp_filtercuda_close(struct vp_filtercuda *f);

#ifdef __cplusplus
}
#endif
#endif
