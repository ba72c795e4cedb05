/* SPDX-License-Identifier: BSD-3-Clause */
/* Selection networks for windows: programs of minima and maxima (rank_isa.h) that leave the k-th smallest sample of a
 * window in a register. Private to rank.c. */
#ifndef VP_RANK_NETWORK_H
#define VP_RANK_NETWORK_H

#include "local/rank_isa.h"

#include <stdbool.h>

/* Registers are counted, not yet bytes: a place is file << 24 | register, and an operand may begin dx samples later
 * than its register. */
struct vp_rank_step {
    enum vp_rank_kind kind;
    struct { int32_t file, reg, dx; } a, b, lo, hi;
};

struct vp_rank_program {
    int64_t n, cost;           /* steps; minima and maxima */
    struct vp_rank_step *step;
    int registers;             /* of file 0, the program's own */
};

/* A row of a box: its depth input rows (file 0, registers 0 ... depth - 1) sorted along z and then merged along x:
 * width * depth sorted registers of file 1. Register element i then stands for the window that begins at i. */
int vp_rank_slab(struct vp_rank_program *p, int width, int depth);

/* A box out of height + tile - 1 slabs (files 1, 2, ...; `slab` sorted registers each): the rank-th smallest (from 0)
 * of slabs j ... j + height - 1 into register j of file height + tile, for j < tile <= height. */
int vp_rank_join(struct vp_rank_program *p, int slab, int height, int tile, int64_t rank);

/* Any shape: row i (register i of file 0) gives the samples begin[i] ... begin[i] + length[i] - 1; the rank-th smallest
 * of all into register 0 of file 1. */
int vp_rank_rows(struct vp_rank_program *p, int rows, const int *begin, const int *length, int64_t rank);

void vp_rank_program_free(struct vp_rank_program *p);

#endif
