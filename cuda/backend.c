/* SPDX-License-Identifier: BSD-3-Clause */
/* The plugin's table: what fills the contract of backend.h on CUDA devices. */
#include "backend.h"
#include "gpu_error.h"
#include "host.h"
#include "local.h"
#include "reconstruct_cuda.h"

#include <cuda_runtime_api.h>
#include <stdio.h>

const struct vp_backend *vp_backend_plugin(void);

static int count(void)
{
    int n = 0;
    return cudaGetDeviceCount(&n) == cudaSuccess ? n : 0;
}

static int device_info(int device, struct vp_device *info, struct vp_err *err)
{
    struct cudaDeviceProp prop;
    size_t available = 0, total = 0;
    int khz = 0;
    cudaError_t e = cudaSetDevice(device);
    if (e == cudaSuccess)
        e = cudaGetDeviceProperties(&prop, device);
    if (e == cudaSuccess)
        e = cudaDeviceGetAttribute(&khz, cudaDevAttrClockRate, device);
    if (e == cudaSuccess)
        e = cudaMemGetInfo(&available, &total);
    if (vp_gpu_check(err, e, "cannot use the CUDA device"))
        return -1;
    snprintf(info->name, sizeof info->name, "%.*s", (int)sizeof info->name - 1, prop.name);
    info->free = available;
    info->total = total;
    info->speed = 1e-6 * khz * prop.multiProcessorCount;
    return 0;
}

/* GB a second of the fastest of a few copies. */
static cudaError_t time_copies(void *to, const void *from, size_t bytes, double *speed)
{
    cudaEvent_t start = NULL, end = NULL;
    cudaError_t e = cudaEventCreate(&start);
    if (e == cudaSuccess)
        e = cudaEventCreate(&end);
    *speed = 0;
    for (int i = 0; i < 4 && e == cudaSuccess; i++) {
        float ms = 0;
        cudaEventRecord(start, 0);
        e = cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, 0);
        cudaEventRecord(end, 0);
        if (e == cudaSuccess)
            e = cudaEventSynchronize(end);
        if (e == cudaSuccess)
            e = cudaEventElapsedTime(&ms, start, end);
        if (ms > 0 && (double)bytes * 1e-6 / (double)ms > *speed)
            *speed = (double)bytes * 1e-6 / (double)ms;
    }
    if (start)
        cudaEventDestroy(start);
    if (end)
        cudaEventDestroy(end);
    return e;
}

static int copy_speed(int device, double speed[3], struct vp_err *err)
{
    const size_t bytes = (size_t)256 << 20;
    void *a = NULL, *b = NULL, *host = NULL;
    cudaError_t e = cudaSetDevice(device);
    if (e == cudaSuccess)
        e = cudaMalloc(&a, bytes);
    if (e == cudaSuccess)
        e = cudaMalloc(&b, bytes);
    if (e == cudaSuccess)
        e = cudaMallocHost(&host, bytes);
    if (e == cudaSuccess)
        e = time_copies(b, a, bytes, &speed[0]);
    if (e == cudaSuccess)
        e = time_copies(b, host, bytes, &speed[1]);
    if (e == cudaSuccess)
        e = time_copies(host, b, bytes, &speed[2]);
    speed[0] *= 2;
    cudaFree(a);
    cudaFree(b);
    cudaFreeHost(host);
    return vp_gpu_check(err, e, "cannot measure the CUDA device");
}

static const struct vp_backend table = {
    .abi = VP_BACKEND_ABI,
    .name = "cuda",
    .count = count,
    .device = device_info,
    .copy_speed = copy_speed,
    .bp_plan = vp_cuda_bp_plan,
    .bp_open = vp_cuda_bp_open,
    .bp_add = vp_cuda_bp_add,
    .bp_wait = vp_cuda_bp_wait,
    .bp_flush = vp_cuda_bp_flush,
    .bp_slices = vp_cuda_bp_slices,
    .bp_stats = vp_cuda_bp_stats,
    .bp_close = vp_cuda_bp_close,
    .local_has = vp_gpu_local_has,
    .local_bytes = vp_gpu_local_bytes,
    .local_open = vp_gpu_local_open,
    .local_submit = vp_gpu_local_submit,
    .local_wait = vp_gpu_local_wait,
    .local_close = vp_gpu_local_close,
    .local_stats = vp_gpu_local_stats,
    .host_alloc = vp_cuda_host_alloc,
    .host_free = vp_cuda_host_free,
};

__attribute__((visibility("default"))) const struct vp_backend *vp_backend_plugin(void)
{
    return &table;
}
