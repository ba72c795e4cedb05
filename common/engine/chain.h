/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations one after the other: what each must make, and a run of all of them on the CPU. */
#pragma once

#include "engine/op.h"

/* Stages in order; the last one's result is the output. `--iterations 3` is three stages, a top-hat is erode,
 * dilate, subtract. */
struct vp_chain {
    int n, room;
    struct vp_op *stage;
    int stacks; /* program's inputs: 1 + the largest k of any ~k */
};

/* Append a copy (params become the chain's, freed by vp_chain_free, also on failure). 0 or -1 (VP_ERESOURCE). */
int vp_chain_add(struct vp_chain *c, const struct vp_op *op, struct vp_err *err);
void vp_chain_free(struct vp_chain *c);
/* Returns the stage that has two passes, or NULL. */
struct vp_op *vp_chain_twice(const struct vp_chain *c);

/* Returns the input box that `out` needs: its mapping's, else `out` grown by the halo and clipped to the image. */
struct vp_box vp_op_region(const struct vp_op *op, const struct vp_box *out);
/* Returns the most voxels along an axis of the regions of n voxels. */
int64_t vp_op_extent(const struct vp_op *op, int axis, int64_t n);
/* Returns the voxels of its inputs along an axis (VP_UNKNOWN before the end of a pipe). */
int64_t vp_op_input(const struct vp_op *op, int axis);

/* Returns the number of boxes of `side` that `of` is cut into, the last of each axis cut off; and the i-th, x
 * fastest. */
int64_t vp_box_tiles(const struct vp_box *of, const int64_t side[3]);
struct vp_box vp_box_tile(const struct vp_box *of, const int64_t side[3], int64_t i);

/* Fills made[s], the box that stage s must make, and given[k], the box of stack k, for the last stage to fill `out`. */
void vp_chain_boxes(const struct vp_chain *c, const struct vp_box *out, struct vp_box *made, struct vp_box *given);
/* Returns the input box that `out` needs, of all stacks; and the most voxels along an axis of those of n voxels. */
struct vp_box vp_chain_region(const struct vp_chain *c, const struct vp_box *out);
int64_t vp_chain_extent(const struct vp_chain *c, int axis, int64_t n);
/* Fills the sum of the halos along the longest path, per axis; VP_UNKNOWN: the whole axis. */
void vp_chain_halo(const struct vp_chain *c, int64_t halo[3]);
/* Returns the planes of output for n planes of input; less than 1: there is no output. vp_chain_end() sets the planes
 * of all stages for an input of n, at the end of a pipe, and returns those of output. */
int64_t vp_chain_planes(const struct vp_chain *c, int64_t n);
int64_t vp_chain_end(struct vp_chain *c, int64_t n);

/* Runs a whole chain on the CPU into `out`; in[k] is stack k, at least its given[k]. Buffers between stages and scratch
 * are in `scratch` (vp_chain_bytes of it, aligned to 64). 0 or -1. */
uint64_t vp_chain_bytes(const struct vp_chain *c, const struct vp_box *out, int threads);
int vp_chain_run(const struct vp_chain *c, const struct vp_part *in, const struct vp_part *out, void *scratch,
                 int threads, struct vp_err *err);
/* Runs one of two passes: the last stage's summarize() (VP_SUMMARY; of `out` only the box counts) or finish(). */
int vp_chain_pass(const struct vp_chain *c, enum vp_pass pass, const struct vp_part *in, const struct vp_part *out,
                  void *entry, void *scratch, int threads, struct vp_err *err);

/* The same for parts of a column that follow each other: struct vp_carry, for chains of one operation that has it (else
 * vp_chain_state_bytes returns 0). */
uint64_t vp_chain_state_bytes(const struct vp_chain *c, const struct vp_box *out, int threads);
int vp_chain_advance(const struct vp_chain *c, const struct vp_part *in, const struct vp_part *out, void *scratch,
                     void *state, int threads, struct vp_err *err);
