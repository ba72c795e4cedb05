/* SPDX-License-Identifier: BSD-3-Clause */
/* Requirements and functions of an operation: the planner reads its sizes, the engine calls its functions on the CPU,
 * and on a device its kernel, found by name (device/kernel.h). An output voxel is a function of the input voxels in its
 * region, or of those and a value carried along z, or of those and the result of a first pass over all boxes.
 *
 * The bits of an output voxel depend on the image and the parameters, never on the boxes, the number of threads or
 * the place of a box in memory. So sums are taken in an order that is fixed relative to the voxel (or to the image),
 * and what happens at an edge depends on the image's edge, not on the box's. */
#pragma once

#include "device/kernel.h"
#include "engine/edge.h"
#include "stack/stack.h"

struct vp_store;

enum { VP_MAX_INPUTS = 8 };
#define VP_UNKNOWN (INT64_MAX / 4)

/* A box of an image in memory: plane[z] points at sample (box.lo[0], box.lo[1]) of plane box.lo[2] + z; the next row
 * is `stride` samples on. */
struct vp_part {
    struct vp_box box;
    int64_t stride;
    void *const *plane;
};

/* Returns the address of sample (x, y, z) of the image. */
static inline void *vp_part_at(const struct vp_part *p, size_t size, int64_t x, int64_t y, int64_t z)
{
    return (char *)p->plane[z - p->box.lo[2]]
           + (size_t)((y - p->box.lo[1]) * p->stride + x - p->box.lo[0]) * size;
}

struct vp_op;

/* Output of another size than the input, or that reads other voxels than those around it: flips, crops, strides. Input
 * and output have coordinates of their own, each from 0 on. The chain has no other stage. */
struct vp_mapping {
    /* Returns the output's voxels along an axis for an input of n; less than 1: there is no output. */
    int64_t (*length)(const struct vp_op *op, int axis, int64_t n);
    /* Returns the input box that `out` needs, within op->input[]. Its ends grow with those of `out` along z. */
    struct vp_box (*region)(const struct vp_op *op, const struct vp_box *out);
    /* Returns the most voxels along an axis of the region of n voxels, wherever these lie: a concave function of n. */
    int64_t (*extent)(const struct vp_op *op, int axis, int64_t n);
    bool any_order;            /* regions along y do not grow with the output: pages are not cut into bands in order */
};

/* State of a column, carried from part to part along z. `state` is aligned to 64 bytes. */
struct vp_carry {
    /* Returns its bytes for columns of out's x and y; 0: there is none. */
    uint64_t (*state_bytes)(const struct vp_op *op, const struct vp_box *out, int threads);
    /* Does as run() for the part that follows the one before, but of the input it gets only the planes that no part
     * before got; there may be none. */
    int (*advance)(const struct vp_op *op, const struct vp_part *in, const struct vp_part *out, void *scratch,
                   void *state, int threads, struct vp_err *err);
    /* A scan: results depend on all planes below, and the state is part of them. There is no run(), halo[2] is 0, the
     * chain has no other stage, and the state is zeros before the first part. Planes z of segment k (of step[2] planes)
     * are out(z) = P_k + L_k(z), where L_k starts from nothing, P_0 is nothing and P_k+1 = P_k + the aggregate of
     * segment k. Otherwise the state may be dropped anywhere and changes no bit. */
    bool scan;
    /* Adds the aggregate that advance() has left after one segment to the prefix `before` it, so that devices make
     * segments side by side. NULL: segments only in turn. */
    void (*combine)(const struct vp_op *op, void *before, const void *aggregate, uint64_t bytes);
};

/* Two passes: summarize() of every box, one solve() over all entries, and finish() of every box instead of run().
 * With a step (for all axes) the boxes are those of the step, so that sums over boxes have one order; without, the
 * bits must not depend on the boxes, which are the plan's parts. Boxes are counted x fastest, then y, z, channels,
 * times. The stage is the chain's last, and the image's size is known. With run() an image that fits in memory is
 * one box and needs one pass; so is each plane if step[2] is 1. */
struct vp_two_pass {
    /* Returns the most bytes of an entry; an entry begins with its size, a uint64_t. */
    uint64_t (*summary)(const struct vp_op *op, const struct vp_box *box);
    int (*summarize)(const struct vp_op *op, const struct vp_part *in, const struct vp_box *box, void *entry,
                     void *scratch, int threads, struct vp_err *err);
    /* Rewrites the entries; may hold `memory` bytes beside them. `box`: size of all boxes but the last of each axis. */
    int (*solve)(struct vp_op *op, struct vp_store *entries, const int64_t box[3], uint64_t memory, int threads,
                 struct vp_err *err);
    int (*finish)(const struct vp_op *op, const struct vp_part *in, const struct vp_part *out, const void *entry,
                  void *scratch, int threads, struct vp_err *err);
    /* Returns the bytes that solve() needs beside the entries. NULL: it makes do with what there is. */
    uint64_t (*least)(const struct vp_op *op, int threads);
};

/* Counts of a part beside its voxels, such as samples that were clamped, of an operation with one pass: a device leaves
 * `bytes` of them in its state. On the CPU run() adds them itself. */
struct vp_report {
    uint64_t bytes;
    void (*add)(const struct vp_op *op, const void *counts); /* from any thread */
};

/* One operation, its parameters resolved for one image. Filled by the operation's file, copied by vp_chain_add. */
struct vp_op {
    const char *kernel;        /* name of its kernel on devices: "gauss" */
    char text[160];            /* for --plan: "gauss sigma 3 3 1, 25 x 25 x 9 taps, renormalised, avx512" */
    /* Voxels of the output (one channel at one time). image[2] is VP_UNKNOWN until the end of a pipe; the engine
     * sets it before any box within the halo of the end is run. So run() reads it at each call, and tables along z
     * are made by distance from the edge, not for every z. */
    int64_t image[3];
    int64_t input[3];          /* voxels of the input, likewise; only with a mapping: otherwise those of the output */
    int inputs;
    int from[VP_MAX_INPUTS];   /* source of each input: s >= 0 is the result of stage s of the chain, ~k stack k of the
                                  program's inputs. All of type `in` */
    enum vp_type in, out;
    const enum vp_type *second; /* type of a second output of the same box, or NULL. run() and its like get two parts,
                                  out[0] and out[1], a device two areas. The chain has no other stage */
    int64_t halo[3];           /* largest distance of an input voxel from its output voxel; VP_UNKNOWN: the whole axis */
    int64_t step[3];           /* boxes of output begin at multiples of it (0, 1: anywhere); they end there or at the
                                  image's end */
    double cost;               /* nanoseconds of one core for an output voxel, roughly: for plans, not for results */
    uint64_t holds;            /* host bytes of its parameters, with tables and spectra that run() adds to them */
    void *params;              /* its own struct, declared in its header, read by its kernel too */
    void (*free)(void *params); /* may be NULL */

    /* Returns the bytes that run() needs beside its parts. NULL: none. */
    uint64_t (*scratch)(const struct vp_op *op, const struct vp_box *in, const struct vp_box *out, int threads);
    /* Fills `out` (one part for each output) from `in` (op->inputs parts, all of the same box: the region of out->box,
     * or larger). `scratch` is aligned to 64 bytes. OpenMP with `threads`. In and out do not overlap. */
    int (*run)(const struct vp_op *op, const struct vp_part *in, const struct vp_part *out, void *scratch,
               int threads, struct vp_err *err);

    /* Tables of the few operations that have them; NULL for all others. */
    const struct vp_mapping *mapping;
    const struct vp_carry *carry;
    const struct vp_two_pass *two_pass;
    const struct vp_report *report;
};

/* True if a value is carried along z on which results depend. */
static inline bool vp_op_scans(const struct vp_op *op)
{
    return op->carry && op->carry->scan;
}
