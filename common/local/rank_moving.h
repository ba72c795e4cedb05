/* SPDX-License-Identifier: BSD-3-Clause */
/* The way of rank.c that takes any window: a moving histogram. Private to rank.c. */
#ifndef VP_RANK_MOVING_H
#define VP_RANK_MOVING_H

#include "local/rank.h"
#include "local/rank_isa.h"
#include "local/window.h"

/* Scratch of one thread. */
uint64_t vp_rank_moving_bytes(const struct vp_rank_params *p, const struct vp_box *in, const struct vp_box *out);

/* Fill `out`; mem is `threads` times that, aligned to 64 bytes. */
void vp_rank_moving_run(const struct vp_op *op, const struct vp_part *in, const struct vp_part *out, char *mem,
                        int threads);

/* A place behind *end in a block of memory, which grows by it. */
static inline size_t vp_take(size_t *end, size_t bytes)
{
    const size_t at = *end;

    *end += vp_round64(bytes);
    return at;
}

/* The sample of a key. */
static inline void vp_rank_put(char *to, int32_t key, enum vp_type type)
{
    switch (type) {
    case VP_U8:
        *(uint8_t *)to = (uint8_t)key;
        break;
    case VP_U16:
        *(uint16_t *)(void *)to = (uint16_t)key;
        break;
    case VP_I16:
        *(int16_t *)(void *)to = (int16_t)key;
        break;
    default:
        *(float *)(void *)to = vp_rank_float(key);
    }
}

#endif
