/* SPDX-License-Identifier: BSD-3-Clause */
/* Starting kernels, from any thread; what they work in; types and parameters of operations. */
#ifndef VP_LAUNCH_CUH
#define VP_LAUNCH_CUH

#include "gpu.h"

#include <cstdio>

/* Arrays one after the other in a block of device memory, each from a multiple of VP_ALIGN bytes on. */
struct vp_pieces {
    char *base; /* NULL: they are only counted */
    uint64_t used;

    /* n numbers; NULL: none. */
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

/* Of the device in use; 0 if it does not say. */
static inline int vp_attribute(enum cudaDeviceAttr what)
{
    int device = 0, value = 0;
    const bool known =
        cudaGetDevice(&device) == cudaSuccess && cudaDeviceGetAttribute(&value, what, device) == cudaSuccess;
    return known ? value : 0;
}

/* Shared memory that a thread block can have. */
static inline size_t vp_shared_most(void)
{
    return (size_t)vp_max64(vp_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin), 48 << 10);
}

/* The least of that among the devices of this machine: what does not depend on the one in use asks for it. */
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

/* Let thread blocks of `kernel` have so many bytes of shared memory. The limit is the kernel's, not a launch's: were
 * it set to what this launch needs, another thread could lower it before the launch, which then fails. So it is only
 * ever raised, and at once to the most that there is. (Back-projection has one thread a device and sets its own.)
 * `code`: 90 where its code is for compute capability 9.0: new devices may run that for 8.0. NULL: nobody asks. */
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

/* kernel<<<blocks, threads, shared, stream>>>(args...), and whether it started: of several launches in a row,
 * cudaGetLastError() after the last one does not tell. `attribute`: NULL: none. */
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

/* The same, with as much shared memory as it wants. 0 or -1. */
template <class... P, class... A>
int vp_start(struct vp_err *err, cudaStream_t stream, void (*kernel)(P...), dim3 blocks, dim3 threads, size_t shared,
             const A &...args)
{
    cudaError_t e = shared ? vp_allow_shared(kernel, shared) : cudaSuccess;
    if (e == cudaSuccess)
        e = vp_launch(stream, kernel, blocks, threads, shared, args...);
    return vp_gpu_check(err, e, "cannot start a CUDA kernel");
}

/* The same, but where its code can (`code` is 90 or more), the kernel may begin while the one before it in the stream,
 * which has said so (griddepcontrol.launch_dependents), still runs; it waits itself (griddepcontrol.wait) before it
 * needs what that one writes. vp_allow_shared() comes before both launches, for it takes as long as a small kernel. */
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

/* f(a sample of the type), which is one of TYPES (bits), or else Last. */
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

/* What to launch for u8, u16, i16 or else f32. */
template <class F> auto vp_by_type(int type, const F &f)
{
    return vp_by_type_of<1u << VP_U8 | 1u << VP_U16 | 1u << VP_I16, float>(type, f);
}

/* The range of an integer type, on the device, too. */
template <class T> struct vp_limits {
    static constexpr T MOST = (T)(~0ull >> (64 - 8 * sizeof(T) + ((T)-1 < 0))), LEAST = (T)~MOST;
};

/* What has() says of a kernel that has some types. */
static inline bool vp_has_types(bool yes, const struct vp_op *op, char *why, size_t size)
{
    if (!yes)
        snprintf(why, size, "no kernel for %s", vp_type_name(op->in));
    return yes;
}

/* And of one whose positions are ints: an axis may be as long, and twice as much is an int. Where planes end nobody may
 * know yet. */
constexpr int VP_FAR = (1 << 30) - 1;

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

#endif
