/* SPDX-License-Identifier: BSD-3-Clause */
/* Asynchronous copies from global to shared memory: by the kernel's threads (cp.async, compute capability 8.0) and by
 * the bulk copy engine (tensor memory accelerator, 9.0), with the mbarriers on which the latter arrives. */
#pragma once

#include <cuda.h>
#include <cuda_pipeline_primitives.h>
#include <stdint.h>

namespace vp
{

__device__ __forceinline__ uint32_t shared_address(const void *p)
{
    return (uint32_t)__cvta_generic_to_shared(p);
}

/* ---- by threads ----
 *
 * CUDA's primitives __pipeline_* do the same. extremum_strip.cuh calls these, since with the functions below the
 * compiler schedules its address arithmetic differently. */

/* Copies 4, 8 or 16 bytes, aligned to their size. 16 bytes bypass the L1 cache. */
template <int BYTES> __device__ __forceinline__ void copy_async(void *to, const void *from)
{
    const unsigned a = shared_address(to);
    if (BYTES == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(a), "l"(from) : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(a), "l"(from), "n"(BYTES) : "memory");
}

/* Commits the copies issued since the last call as a group. */
__device__ __forceinline__ void copies_close()
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

/* Waits until all groups but the last LEFT are complete. */
template <int LEFT> __device__ __forceinline__ void copies_wait()
{
    asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory");
}

/* Commits a group and waits for all. */
__device__ __forceinline__ void copies_done()
{
    asm volatile("cp.async.commit_group;\n cp.async.wait_group 0;" ::: "memory");
}

/* ---- by the bulk copy engine ----
 *
 * One lane arrives for its whole warp after __syncwarp, which orders the other lanes' reads before the arrival.
 * compute-sanitizer's racecheck does not model this and reports the reuse of the guarded memory as a hazard. */

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

/* Makes initialised barriers visible to the copy engine and to the block. */
__device__ __forceinline__ void barriers_ready()
{
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    __syncthreads();
}

/* Copies the box of the tensor map at (x, y, z) (elements, innermost first) to shared memory; arrives at `full` with
 * its bytes. */
__device__ __forceinline__ void copy_box(void *to, const CUtensorMap *map, int x, int y, int z, uint64_t *full)
{
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], "
                 "[%1, {%2, %3, %4}], [%5];" ::"r"(shared_address(to)),
                 "l"(map), "r"(x), "r"(y), "r"(z), "r"(shared_address(full))
                 : "memory");
}

}
