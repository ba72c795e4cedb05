/* SPDX-License-Identifier: BSD-3-Clause */
/* What a kernel of an operation offers to the engine, for each kind of device by the operation's name. */
#ifndef VP_KERNEL_H
#define VP_KERNEL_H

#include "base/anywhere.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct vp_err;
struct vp_op;
struct vp_queue;

/* Half open, axes x, y, z. */
struct vp_box { int64_t lo[3], hi[3]; };

static inline int64_t vp_box_size(const struct vp_box *b, int axis)
{
    return b->hi[axis] - b->lo[axis];
}

/* Rows, and every buffer that the engine hands out on a device, begin at multiples of this many bytes. Behind the last
 * row of an area as many bytes may be read (not written) as complete the row's pitch. */
enum { VP_ROW_ALIGN = 16, VP_ALIGN = 256 };

/* A box of an image in a device's memory: voxel (x, y, z) of the image is sample
 * ((z - box.lo[2]) * plane + (y - box.lo[1]) * pitch + (x - box.lo[0])) of `data`. */
struct vp_area {
    struct vp_box box;
    int64_t pitch, plane; /* in samples */
    void *data;
};

/* What to make of a part. Most operations only see the first of these. */
enum vp_visit {
    VP_MAKE,  /* the result; continue from `state`, and leave there what the next part continues from. At z = 0: from
                 nothing, whatever `state` holds */
    /* Of operations that carry a value along z (engine/op.h): */
    VP_LOCAL, /* the result as if nothing had been before, and the total in `state` */
    VP_APPLY, /* `out` holds what VP_LOCAL made: add what was before, which is in `state` */
    /* Of operations that visit every box twice: */
    VP_SUMMARY, /* nothing to `out` but its box: what there is to know of it, to `state`; the first 8 bytes say how many */
    VP_FINISH   /* the result; `state` holds the entry of the box as it was solved */
};

/* One part of the work of an operation. */
struct vp_work {
    enum vp_visit visit;
    void *state;               /* of state() bytes */
    /* op->inputs areas of type op->in: each has at least out->box grown by the halo and clipped to what there is; their
     * boxes (and pitches) may differ. */
    const struct vp_area *in;
    const struct vp_area *out; /* every voxel of out->box is to be written, nothing beside it; two where the operation
                                  has a twin */
    const void *table;         /* what fill() made, on the device */
    void *scratch;             /* of scratch() bytes; holds anything at first */
    struct vp_queue *queue;    /* launches on one queue never overlap: they share the scratch */
};

struct vp_kernel {
    const char *name; /* vp_op.kernel */
    /* Whether it does op with its types and parameters; if not, why (one clause: "no kernel for f64"). */
    bool (*has)(const struct vp_op *op, char *why, size_t size);
    /* Device bytes beside the areas, for areas of at most in[] -> out[] voxels. NULL: none. */
    uint64_t (*scratch)(const struct vp_op *op, const int64_t in[3], const int64_t out[3]);
    /* Constants on the device, made once when a worker opens: nothing in them may depend on image[2]. NULL: none. */
    uint64_t (*table)(const struct vp_op *op);
    void (*fill)(const struct vp_op *op, void *table);
    /* Queue the work; returns at once. op->image[] is what it is now: read it at each call. The size of an area is
     * never 0. -1 if it did not start. */
    int (*launch)(const struct vp_op *op, const struct vp_work *work, struct vp_err *err);
    /* Bytes that are carried from part to part (as many as keeps() says), or the most of an entry (as summary() says),
     * for parts of at most out[] voxels. NULL: none. */
    uint64_t (*state)(const struct vp_op *op, const int64_t out[3]);
    /* The step and the halo that it asks for instead of the operation's, where its tiles are not those of the CPU: they
     * hold the operation's own at first. Of chains of one operation. NULL: the same. */
    void (*demand)(const struct vp_op *op, int64_t step[3], int64_t halo[3]);
    /* Bytes behind the table for what the device itself makes of it, and the making: queued once, when the table is
     * there. NULL: none. */
    uint64_t (*made)(const struct vp_op *op);
    int (*make)(const struct vp_op *op, void *table, struct vp_queue *queue, struct vp_err *err);
};

#endif
