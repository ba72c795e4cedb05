/* SPDX-License-Identifier: BSD-3-Clause */
/* Launches of kernels, from any thread; layout of their memory; types and parameters of operations. */
#pragma once

#include "gpu.h"

#include <cstdio>

/* Arena: arrays one after the other in a block of device memory, each aligned to VP_ALIGN bytes. */
struct vp_arena {
    char *base;    /* NULL: only sizes are computed */
    uint64_t used; /* bytes */

    /* Returns an array of n elements, NULL if n is 0 or base is NULL. */
    template <class T> T *take(uint64_t n)
    {
        T *const at = base && n ? (T *)(base + used) : NULL;
        used += (uint64_t)vp_round_up((int64_t)(n * sizeof(T)), VP_ALIGN);
        return at;
    }
    template <class T> void take(T *&to, uint64_t n)
    {
        to = take<T>(n);
    }
};

/* Returns an attribute of the current device, 0 on failure. */
static inline int vp_attribute(enum cudaDeviceAttr what)
{
    int device = 0, value = 0;
    const bool known =
        cudaGetDevice(&device) == cudaSuccess && cudaDeviceGetAttribute(&value, what, device) == cudaSuccess;
    return known ? value : 0;
}

/* Returns the shared memory in bytes that a thread block can use on the current device. */
static inline size_t vp_shared_most(void)
{
    return (size_t)vp_max64(vp_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin), 48 << 10);
}

/* Returns the minimum of that over all devices of the machine, for decisions that must not depend on the device. */
static inline size_t vp_shared_least(void)
{
    int n = 0, least = 227 << 10, bytes;
    if (cudaGetDeviceCount(&n) != cudaSuccess)
        n = 0;
    for (int d = 0; d < n; d++)
        if (cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, d) == cudaSuccess && bytes < least)
            least = bytes;
    return (size_t)least;
}

/* Allows thread blocks of `kernel` to use `shared` bytes of dynamic shared memory. The limit belongs to the kernel, not
 * to a launch: if it were set to the needs of this launch, another thread could lower it before the launch, which would
 * fail. So it is only ever raised, and at once to the device's maximum. (Back-projection has one thread for each device
 * and sets its own.) Sets *code unless NULL to the compute capability of the loaded code, 90 for 9.0: newer devices may
 * run code for 8.0. */
template <class Kernel> cudaError_t vp_allow_shared(Kernel *kernel, size_t shared, int *code = NULL)
{
    cudaFuncAttributes a;
    const cudaError_t e = cudaFuncGetAttributes(&a, kernel);
    if (e == cudaSuccess && code)
        *code = a.ptxVersion;
    if (e != cudaSuccess || (size_t)a.maxDynamicSharedSizeBytes >= shared)
        return e;
    return cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                (int)(vp_shared_most() - a.sharedSizeBytes));
}

/* Launches kernel<<<blocks, threads, shared, stream>>>(args...) with an optional attribute. Returns the error of this
 * launch: cudaGetLastError() after several launches does not reveal which one failed. */
template <class... P, class... A>
cudaError_t vp_launch_with(cudaLaunchAttribute *attribute, cudaStream_t stream, void (*kernel)(P...), dim3 blocks,
                           dim3 threads, size_t shared, const A &...args)
{
    cudaLaunchConfig_t c = {};
    c.gridDim = blocks;
    c.blockDim = threads;
    c.dynamicSmemBytes = shared;
    c.stream = stream;
    c.attrs = attribute;
    c.numAttrs = attribute != NULL;
    return cudaLaunchKernelEx(&c, kernel, P(args)...);
}

template <class... P, class... A>
cudaError_t vp_launch(cudaStream_t stream, void (*kernel)(P...), dim3 blocks, dim3 threads, size_t shared,
                      const A &...args)
{
    return vp_launch_with(NULL, stream, kernel, blocks, threads, shared, args...);
}

/* Launches a kernel after allowing its shared memory. Returns 0 or -1. */
template <class... P, class... A>
int vp_start(struct vp_err *err, cudaStream_t stream, void (*kernel)(P...), dim3 blocks, dim3 threads, size_t shared,
             const A &...args)
{
    cudaError_t e = shared ? vp_allow_shared(kernel, shared) : cudaSuccess;
    if (e == cudaSuccess)
        e = vp_launch(stream, kernel, blocks, threads, shared, args...);
    return vp_gpu_check(err, e, "cannot start a CUDA kernel");
}

/* Launches a kernel with programmatic dependent launch if its code supports it (`code` is 90 or more): it may begin
 * while the preceding kernel of the stream, which executes griddepcontrol.launch_dependents, still runs, and must
 * execute griddepcontrol.wait before it reads that kernel's output. vp_allow_shared() has to be called before both
 * launches, since it takes as long as a small kernel. */
template <class... P, class... A>
int vp_start_early(struct vp_err *err, int code, cudaStream_t stream, void (*kernel)(P...), dim3 blocks, dim3 threads,
                   size_t shared, const A &...args)
{
    cudaLaunchAttribute early = {};
    early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early.val.programmaticStreamSerializationAllowed = 1;
    return vp_gpu_check(
        err, vp_launch_with(code >= 90 ? &early : NULL, stream, kernel, blocks, threads, shared, args...),
        "cannot start a CUDA kernel");
}

/* ---- operations ---- */

/* Returns f(S()) with S the sample type `type` if it is one of TYPES (a bit set), else f(Last()). */
#pragma nv_exec_check_disable
template <unsigned TYPES, class Last, class F> VP_ANYWHERE auto vp_by_type_of(int type, const F &f)
{
    switch (type) {
#define VP_OF_TYPE(T, S)                                                                                               \
    case T:                                                                                                            \
        if constexpr (TYPES >> T & 1)                                                                                  \
            return f(S());                                                                                             \
        break
    VP_OF_TYPE(VP_U8, uint8_t);
    VP_OF_TYPE(VP_U16, uint16_t);
    VP_OF_TYPE(VP_U32, uint32_t);
    VP_OF_TYPE(VP_U64, uint64_t);
    VP_OF_TYPE(VP_I8, int8_t);
    VP_OF_TYPE(VP_I16, int16_t);
    VP_OF_TYPE(VP_I32, int32_t);
    VP_OF_TYPE(VP_I64, int64_t);
    VP_OF_TYPE(VP_F32, float);
#undef VP_OF_TYPE
    }
    return f(Last());
}

/* The same for u8, u16, i16, else f32. */
template <class F> auto vp_by_type(int type, const F &f)
{
    return vp_by_type_of<1u << VP_U8 | 1u << VP_U16 | 1u << VP_I16, float>(type, f);
}

/* The range of an integer type, usable on the device. */
template <class T> struct vp_limits {
    static constexpr T MOST = (T)(~0ull >> (64 - 8 * sizeof(T) + ((T)-1 < 0))), LEAST = (T)~MOST;
};

/* Returns `yes`, for has() of a kernel whose types are limited; sets why[] if false. */
static inline bool vp_has_types(bool yes, const struct vp_op *op, char *why, size_t size)
{
    if (!yes)
        snprintf(why, size, "no kernel for %s", vp_type_name(op->in));
    return yes;
}

/* Limit of an axis for kernels whose positions are ints: twice as much still fits an int. */
constexpr int VP_FAR = (1 << 30) - 1;

/* True if the image is within it, for has(); else sets why[]. The number of planes may be unknown. */
static inline bool vp_has_sizes(const struct vp_op *op, char *why, size_t size)
{
    for (int a = 0; a < 3; a++)
        if (op->image[a] >= VP_FAR && !(a == 2 && op->image[a] == VP_UNKNOWN)) {
            snprintf(why, size, "an image of %lld voxels along one axis is too large for the CUDA kernel",
                     (long long)op->image[a]);
            return false;
        }
    return true;
}

template <class Params> const Params *vp_params(const struct vp_op *op)
{
    return (const Params *)op->params;
}
