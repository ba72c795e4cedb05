/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations one after the other: what each must make, and a run of all of them on the CPU. */
#ifndef VP_CHAIN_H
#define VP_CHAIN_H

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
/* The stage that visits boxes twice, or NULL. */
struct vp_op *vp_chain_twice(const struct vp_chain *c);

/* What `op` looks at to make `out`; and how many voxels its inputs have along an axis (VP_UNKNOWN before the end of a
 * pipe). */
struct vp_box vp_op_support(const struct vp_op *op, const struct vp_box *out);
int64_t vp_op_input(const struct vp_op *op, int axis);
/* How many voxels more the output has along an axis than the inputs, with its border; below 0: fewer. */
int64_t vp_op_grows(const struct vp_op *op, int axis);

/* The boxes of such sides that `of` is cut into, the last of each axis cut off: how many, and the i-th, x fastest. */
int64_t vp_box_tiles(const struct vp_box *of, const int64_t side[3]);
struct vp_box vp_box_tile(const struct vp_box *of, const int64_t side[3], int64_t i);

/* What each stage must make (made[s]) and what each stack must give (given[k]) so that the last stage can fill `out`:
 * boxes grown by the halos of all later stages and clipped to the image. */
void vp_chain_boxes(const struct vp_chain *c, const struct vp_box *out, struct vp_box *made, struct vp_box *given);
/* Sum of the halos along the longest way, per axis. */
void vp_chain_halo(const struct vp_chain *c, int64_t halo[3]);

/* Run a whole chain on the CPU into `out`; in[k] is stack k, at least its given[k]. Buffers between stages and scratch
 * are in `scratch` (vp_chain_bytes of it, aligned to 64). */
uint64_t vp_chain_bytes(const struct vp_chain *c, const struct vp_box *out, int threads);
int vp_chain_run(const struct vp_chain *c, const struct vp_part *in, const struct vp_part *out, void *scratch,
                 int threads, struct vp_err *err);
/* One of two visits: the last stage's summarize() (VP_SUMMARY; of `out` only the box counts) or finish(). */
int vp_chain_visit(const struct vp_chain *c, enum vp_visit visit, const struct vp_part *in, const struct vp_part *out,
                   void *entry, void *scratch, int threads, struct vp_err *err);

/* The same for parts of a column that follow each other: keeps() and go_on() above, for chains of one operation that
 * has them (else vp_chain_keeps is 0). */
uint64_t vp_chain_keeps(const struct vp_chain *c, const struct vp_box *out, int threads);
int vp_chain_go_on(const struct vp_chain *c, const struct vp_part *in, const struct vp_part *out, void *scratch,
                   void *kept, int threads, struct vp_err *err);

#endif
