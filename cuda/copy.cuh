/* SPDX-License-Identifier: BSD-3-Clause */
/* Copies from device to shared memory that a kernel does not wait for: by its own threads (from compute capability 8.0
 * on) and by the bulk copy engine (9.0), with the barriers that the latter arrives at. */
#ifndef VP_COPY_CUH
#define VP_COPY_CUH

#include <cuda.h>
#include <cuda_pipeline_primitives.h>
#include <stdint.h>

namespace vp
{

__device__ __forceinline__ uint32_t shared_address(const void *p)
{
    return (uint32_t)__cvta_generic_to_shared(p);
}

/* ---- a thread's own ----
 *
 * CUDA's primitives __pipeline_* do the same. extremum_strip.cuh calls them: with ours the compiler works out its
 * addresses elsewhere. */

/* 4, 8 or 16 bytes, aligned to as many. 16 bytes bypass the first cache. */
template <int BYTES> __device__ __forceinline__ void copy_async(void *to, const void *from)
{
    const unsigned a = shared_address(to);
    if (BYTES == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(a), "l"(from) : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(a), "l"(from), "n"(BYTES) : "memory");
}

/* What was asked for since the last time is a group. */
__device__ __forceinline__ void copies_close()
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

/* All groups but the last LEFT have come. */
template <int LEFT> __device__ __forceinline__ void copies_wait()
{
    asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory");
}

__device__ __forceinline__ void copies_done()
{
    asm volatile("cp.async.commit_group;\n cp.async.wait_group 0;" ::: "memory");
}

/* ---- the engine's ----
 *
 * One lane of a warp arrives for all of it after __syncwarp, which orders the other lanes' reads before the arrival.
 * compute-sanitizer's racecheck does not follow that step and reports the reuse of what a barrier guards. */

__device__ __forceinline__ void barrier_init(uint64_t *b, int arrivals)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(b)), "r"(arrivals) : "memory");
}

__device__ __forceinline__ void barrier_arrive(uint64_t *b)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(b)) : "memory");
}

__device__ __forceinline__ void barrier_expect(uint64_t *b, int bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(b)), "r"(bytes)
                 : "memory");
}

__device__ __forceinline__ void barrier_wait(uint64_t *b, unsigned parity)
{
    asm volatile("{\n"
                 ".reg .pred done;\n"
                 "again_%=:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
                 "@!done bra again_%=;\n"
                 "}" ::"r"(shared_address(b)),
                 "r"(parity)
                 : "memory");
}

__device__ __forceinline__ void barriers_ready()
{
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    __syncthreads();
}

/* Box of the map at (x, y, z) (innermost first, in elements of the map) to shared memory; arrives at `full`
 * with its bytes. */
__device__ __forceinline__ void copy_box(void *to, const CUtensorMap *map, int x, int y, int z, uint64_t *full)
{
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], "
                 "[%1, {%2, %3, %4}], [%5];" ::"r"(shared_address(to)),
                 "l"(map), "r"(x), "r"(y), "r"(z), "r"(shared_address(full))
                 : "memory");
}

}

#endif
