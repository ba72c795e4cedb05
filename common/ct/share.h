/* SPDX-License-Identifier: BSD-3-Clause */
/* Items in order (views, slices) that ranks divide among themselves: each owns a part, the parts follow each other by rank.
 * All ranks must call the collective functions here in the same order; after -1 from one of them memory that it was given
 * must stay, since messages may still arrive in it. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct vp_err;
struct vp_pair;
struct vp_pair_place;
struct vp_ranks;
struct vp_writer;

/* This rank among all. Zeros: it is alone. */
struct vp_share {
    struct vp_ranks *ranks; /* NULL with size above 1: ranks of a plan, which do not exist */
    int rank, size;
};

/* Returns the first of n items of rank i; parts begin at multiples of `unit`, which must not be 0. i may be the number of
 * ranks: n. */
int64_t vp_share_at(const struct vp_share *s, int i, int64_t n, int64_t unit);

/* Sets [*from, *to) to those of this rank. */
void vp_share_own(const struct vp_share *s, int64_t n, int64_t unit, int64_t *from, int64_t *to);
/* Returns the views of `views` that ranks project together, each at most `block`; one block, if slabs travel for each. */
int64_t vp_share_turn(const struct vp_share *s, bool travels, int64_t block, int64_t views);

/* Brings all items to all ranks: x has n of them, of `bytes` each, of which the own are set. 0 or -1. Collective. */
int vp_share_all(const struct vp_share *s, void *x, int64_t n, int64_t unit, uint64_t bytes, struct vp_err *err);

/* Brings the item before this rank's part of x (`after` false) or the one after it. 0 or -1. Collective. */
int vp_share_next(const struct vp_share *s, void *x, int64_t n, int64_t unit, uint64_t bytes, bool after, struct vp_err *err);

/* Brings item i of x to rank 0. 0 or -1. Collective. */
int vp_share_one(const struct vp_share *s, void *x, int64_t n, int64_t unit, uint64_t bytes, int64_t i, struct vp_err *err);

/* Brings all items to rank 0. 0 or -1. Collective. */
int vp_share_first(const struct vp_share *s, void *x, int64_t n, int64_t unit, uint64_t bytes, struct vp_err *err);

/* Makes all ranks work on devices, or all on CPUs, whose bits differ, after a step that has failed on this one if rc is not 0.
 * Slabs that devices hold begin at multiples of `unit`, which must not differ either. 1: this rank was taken to the CPU, or
 * another one was; 0; or -1. Collective. */
int vp_share_place(const struct vp_share *s, struct vp_pair *pair, struct vp_pair_place *place, int64_t unit, int rc,
                   struct vp_err *err);
/* Replaces *value by the least of all ranks. 0 or -1. Collective. */
int vp_share_least(const struct vp_share *s, int64_t *value, struct vp_err *err);
/* Replaces *value by the sum of all ranks. 0 or -1. Collective. */
int vp_share_sum(const struct vp_share *s, int64_t *value, struct vp_err *err);

/* Before rank 0 opens `path` for writing: makes the others remove its temporary file if a signal ends them, so that none is
 * left if rank 0 is killed. *slot is for vp_outfile_arrived(), once the file is closed. 0 or -1. Collective. */
int vp_share_expect(const struct vp_share *s, const char *path, int *slot, struct vp_err *err);

/* Writes items [first, last) of x, pages of `bytes`, in order, by the writer of rank 0. If that fails, or `writer` is NULL
 * there, the other ranks go on. 0 or -1. Collective. */
int vp_share_write(const struct vp_share *s, struct vp_writer *writer, const void *x, int64_t n, int64_t unit, uint64_t bytes,
                   int64_t first, int64_t last, int threads, struct vp_err *err);
