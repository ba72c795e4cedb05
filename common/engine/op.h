/* SPDX-License-Identifier: BSD-3-Clause */
/* What an operation asks for (its demand), which is what the planner must know of it, and what the engine calls: on the
 * CPU its functions here, on a device its kernel, by name (device/kernel.h). Every output voxel is a function of the
 * input voxels within a halo around it, or of that and a value that is carried along z, or of that and what a first
 * visit to all boxes has found.
 *
 * The promise behind it: the bits of an output voxel depend on the image and the parameters, never on the boxes,
 * on the number of threads or on the place of a box in memory. So sums are taken in an order that is fixed relative
 * to the voxel (or to the image), and what happens at an edge depends on the image's edge, not on the box's. */
#ifndef VP_OP_H
#define VP_OP_H

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

/* Where sample (x, y) of plane z of the image is. */
static inline void *vp_part_at(const struct vp_part *p, size_t size, int64_t x, int64_t y, int64_t z)
{
    return (char *)p->plane[z - p->box.lo[2]]
           + (size_t)((y - p->box.lo[1]) * p->stride + x - p->box.lo[0]) * size;
}

/* One operation, its parameters resolved for one image. Filled by local/NAME.c, copied by vp_chain_add. */
struct vp_op {
    const char *kernel;    /* the name under which a device finds its kernel: "gauss" */
    char text[160];        /* for --plan: "gauss sigma 3 3 1, 25 x 25 x 9 taps, renormalised, avx512" */
    /* Voxels of the whole image (one channel at one time). image[2] is VP_UNKNOWN while the end of a pipe has not come;
     * the executor sets it before any box is run that lies within the halo of the true end. So run() reads it at each
     * call, and tables along z are made by distance from the edge, not for every z. */
    int64_t image[3];
    /* Where the input lies in image[], if it is not as large: so many voxels of the image come before its first and
     * behind its last one (a result that is larger); below 0, the input begins so much earlier, ends so much later (one
     * that is smaller). An input box is clipped to what there is. |before|, |behind| <= halo; one input, one stage. */
    int64_t before[3], behind[3];
    int inputs;
    int from[VP_MAX_INPUTS]; /* where each input comes from: s >= 0 is the result of stage s of the chain, ~k is
                                stack k of the program's inputs. All of type `in`. */
    enum vp_type in, out;
    /* A second result of the same box, of samples of their own: run() and its like get two parts, out[0] and out[1],
     * and a device two areas. The chain has no other stage. */
    bool twin;
    enum vp_type twin_out;
    int64_t border[3];     /* rows, columns and planes of zeros that the engine puts before what is made (0 or 1 of each):
                              the output is so much larger, of which the operation knows nothing. The chain has no other
                              stage, and pages are not cut into bands */
    int64_t halo[3];       /* how far from an output voxel input voxels are looked at, at most */
    bool whole[3];         /* boxes must have the whole of this axis (wrap) */
    int64_t step[3];       /* boxes of output begin at multiples of it (0, 1: anywhere); they end there or at the
                              image's end */
    double cost;           /* nanoseconds of one core for an output voxel, roughly: for plans, not for results */
    uint64_t holds;        /* bytes of the host that its parameters take, with what run() adds to them: tables, spectra */
    void *params;          /* of the kernel: its own struct, declared in local/NAME.h, read by cuda/NAME.cu too */
    void (*free)(void *params); /* may be NULL */

    /* Bytes that run() needs beside its parts. NULL: none. */
    uint64_t (*scratch)(const struct vp_op *op, const struct vp_box *in, const struct vp_box *out, int threads);
    /* Fill `out` (two where there is a twin) from `in` (op->inputs parts, all of the same box: out->box grown by the
     * halo and clipped to what the inputs have, or larger). `scratch` is aligned to 64 bytes. OpenMP with `threads`.
     * In and out do not overlap. */
    int (*run)(const struct vp_op *op, const struct vp_part *in, const struct vp_part *out, void *scratch,
               int threads, struct vp_err *err);
    /* Optional, for the CPU: parts of a column (equal in x and y) that follow each other along z, the first from z = 0
     * on, need not do again what those before did. keeps(): bytes that hold it between them, for columns of out's x
     * and y; 0: it is of no use. go_on(): as run(), but of the input it is given only the planes that the part before
     * was not, from in->box.lo[2] on; there may be none. `kept` is aligned to 64 and left alone between parts. */
    uint64_t (*keeps)(const struct vp_op *op, const struct vp_box *out, int threads);
    int (*go_on)(const struct vp_op *op, const struct vp_part *in, const struct vp_part *out, void *scratch,
                 void *kept, int threads, struct vp_err *err);
    /* A value carried along z: results depend on all planes below, and what is kept is part of them. Then there is no
     * run(), halo[2] is 0, the chain has no other stage, and `kept` is zeros before the first part. The bits must not
     * depend on who works: planes z of segment k (of step[2] planes) are out(z) = P_k + L_k(z), where L_k begins with
     * nothing, P_0 is nothing and P_k+1 = P_k + the total of segment k. So several devices can work on segments at the
     * same time, each from nothing, and add P_k when it is known; join() is that addition, of what go_on() has left in
     * `total` after one segment to what is carried `before` it. NULL: segments only in turn. */
    bool carries;
    /* Of two visits: an image of one plane may come as one row of many planes (image[] is its width, 1, its height), so
     * that pages of any height flow through (vp_problem.lines). The CPU's functions look at image[] at each call. */
    bool by_rows;
    void (*join)(const struct vp_op *op, void *before, const void *total, uint64_t bytes);
    /* Two visits: summarize() of every box, one solve() over all entries, and finish() of every box instead of run().
     * If `step` is given (for all axes) it says what the boxes are, whatever the plan, so that what is added up over
     * them is added in one way; if not, the bits must not depend on the boxes, which are the plan's parts. They are
     * counted x fastest, then y, z, channels, times. The stage is the chain's last, and the image's size is known. An
     * entry is at most summary() bytes and begins with their number, a uint64_t. solve() may hold `memory` bytes beside
     * the entries; `box` is the size of all boxes but those at the image's upper ends. With run() there is another
     * way, where an image fits in memory: one visit of boxes that are whole images. */
    uint64_t (*summary)(const struct vp_op *op, const struct vp_box *box);
    int (*summarize)(const struct vp_op *op, const struct vp_part *in, const struct vp_box *box, void *entry,
                     void *scratch, int threads, struct vp_err *err);
    int (*solve)(struct vp_op *op, struct vp_store *entries, const int64_t box[3], uint64_t memory, int threads,
                 struct vp_err *err);
    int (*finish)(const struct vp_op *op, const struct vp_part *in, const struct vp_part *out, const void *entry,
                  void *scratch, int threads, struct vp_err *err);
    /* What there is to tell of a part beside its voxels (samples that were odd, say), for operations that have one
     * visit: a device leaves `tells` bytes of it in its state, which tell() gets, from any thread. On the CPU run()
     * sees to it. */
    uint64_t tells;
    void (*tell)(const struct vp_op *op, const void *told);
};

#endif
