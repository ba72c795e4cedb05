/* SPDX-License-Identifier: BSD-3-Clause */
/* A ring of boxes in shared memory: a producer warp has the bulk copy engine fill stages, consumer warps release them. */
#pragma once

#include "copy.cuh"

namespace vp
{

/* A position in a ring in one register: the index, and above it a phase bit that flips at each wrap. */
struct ring_position {
    unsigned at_wrap = 0;
    __device__ __forceinline__ unsigned at() const { return at_wrap & 0xffff; }
    __device__ __forceinline__ unsigned wrap() const { return at_wrap >> 16; }
    __device__ __forceinline__ void step(unsigned size)
    {
        at_wrap++;
        if (at() == size)
            at_wrap = (at_wrap ^ 0x10000) & 0x10000;
    }
};

constexpr int MAX_STAGES = 8, TICKETS = 2;

struct control {
    uint64_t full[MAX_STAGES], empty[MAX_STAGES], ticket_full[TICKETS], ticket_empty[TICKETS];
    int2 origin[MAX_STAGES];
    int ticket[TICKETS];
};

__host__ __device__ constexpr int box_stride(int bytes)
{
    return (bytes + 127) / 128 * 128;
}

/* Producer, all lanes: copies the box of texels from (u, v) on, at (x, y, z) of the map, to the next stage when it is
 * empty. */
__device__ __forceinline__ void produce_box(control &c, ring_position &stage, int stages, unsigned char *shared,
                                            int bytes, const CUtensorMap &map, int u, int v, int x, int y, int z)
{
    uint64_t *const full = &c.full[stage.at()];
    barrier_wait(&c.empty[stage.at()], stage.wrap() ^ 1);
    if ((threadIdx.x & 31) == 0) {
        c.origin[stage.at()] = make_int2(u, v);
        barrier_expect(full, bytes);
        copy_box(shared + stage.at() * box_stride(bytes), &map, x, y, z, full);
    }
    __syncwarp();
    stage.step(stages);
}

/* Initialises the barriers of a block with one producer warp and `warps` consumers. */
__device__ __forceinline__ void open_ring(control &c, int stages, int warps)
{
    if (threadIdx.x == 0) {
        for (int s = 0; s < stages; s++)
            barrier_init(&c.full[s], 1), barrier_init(&c.empty[s], warps);
        for (int s = 0; s < TICKETS; s++)
            barrier_init(&c.ticket_full[s], 1), barrier_init(&c.ticket_empty[s], warps);
    }
    barriers_ready();
}

/* Producer, all lanes: draws the number of a tile from a counter of all blocks, and publishes it to the consumers. */
__device__ __forceinline__ int draw_ticket(control &c, ring_position &ticket, int *next_tile)
{
    int index = 0;
    barrier_wait(&c.ticket_empty[ticket.at()], ticket.wrap() ^ 1);
    if ((threadIdx.x & 31) == 0) {
        index = atomicAdd(next_tile, 1);
        c.ticket[ticket.at()] = index;
        barrier_arrive(&c.ticket_full[ticket.at()]);
    }
    ticket.step(TICKETS);
    return __shfl_sync(~0u, index, 0);
}

/* Consumer warp: returns the next number that the producer drew. */
__device__ __forceinline__ int take_ticket(control &c, ring_position &ticket)
{
    barrier_wait(&c.ticket_full[ticket.at()], ticket.wrap());
    const int index = c.ticket[ticket.at()];
    __syncwarp();
    if ((threadIdx.x & 31) == 0)
        barrier_arrive(&c.ticket_empty[ticket.at()]);
    ticket.step(TICKETS);
    return index;
}

/* Consumer warp: releases its stage. */
__device__ __forceinline__ void release_stage(control &c, ring_position &stage, int stages)
{
    __syncwarp();
    if ((threadIdx.x & 31) == 0)
        barrier_arrive(&c.empty[stage.at()]);
    stage.step(stages);
}

/* Registers of a thread after setmaxnreg: the launch allots equal shares, and the producer group releases most of
 * its. */
constexpr int PRODUCER_REGISTERS = 32;
__host__ __device__ constexpr int consumer_registers(int warps)
{
    return (65536 / ((warps + 4) * 32) / 8 * 8 * (warps + 4) - 4 * PRODUCER_REGISTERS) / warps / 8 * 8;
}

} // namespace vp
