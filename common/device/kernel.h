/* SPDX-License-Identifier: BSD-3-Clause */
/* The interface between an operation's kernel on a device and the engine; found by the operation's name. */
#pragma once

#include "base/anywhere.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct vp_err;
struct vp_op;
struct vp_queue;

/* A half-open box, axes x, y, z. */
struct vp_box { int64_t lo[3], hi[3]; };

static inline int64_t vp_box_size(const struct vp_box *b, int axis)
{
    return b->hi[axis] - b->lo[axis];
}

/* Alignment in bytes of rows and of every buffer that the engine allocates on a device. After the last row of an area,
 * bytes up to the row's pitch may be read (not written). */
enum { VP_ROW_ALIGN = 16, VP_ALIGN = 256 };

/* A box of an image in device memory: voxel (x, y, z) of the image is sample ((z - box.lo[2]) * plane + (y - box.lo[1])
 * * pitch + (x - box.lo[0])) of `data`. */
struct vp_area {
    struct vp_box box;
    int64_t pitch, plane; /* in samples */
    void *data;
};

/* The pass in which a part is processed. Most operations use only the first. */
enum vp_pass {
    /* Computes the result; continues from `state` and updates it for the next part. At z = 0 it starts from nothing,
     * whatever `state` holds. */
    VP_MAKE,
    /* Operations with a value carried along z (engine/op.h): */
    VP_LOCAL, /* computes the result without its predecessors, and the total in `state` */
    VP_APPLY, /* adds the total of all predecessors, in `state`, to the VP_LOCAL result in `out` */
    /* Operations with two passes over all boxes: */
    /* Writes the summary of the box to `state`, whose first 8 bytes are its size; of `out` only the box is used. */
    VP_SUMMARY,
    VP_FINISH,  /* computes the result from the solved entry of the box in `state` */
    /* Operations that hold an image in the scratch, from its first plane in to its last plane out: */
    VP_GATHER,  /* takes the planes of `in`, in order from z = 0 on; of `out` only the box is used */
    VP_SCATTER  /* computes the result after settle(); `in` is not used */
};

/* One part of an operation's work. */
struct vp_work {
    enum vp_pass pass;
    void *state;               /* state() bytes */
    /* op->inputs areas of type op->in. Each covers at least out->box grown by the halo and clipped to the available
     * data; their boxes (and pitches) may differ. */
    const struct vp_area *in;
    /* Every voxel of out->box must be written and nothing else; two areas if the operation has a second output. */
    const struct vp_area *out;
    const void *table;         /* filled by fill(), on the device */
    void *scratch;             /* scratch() bytes, uninitialized */
    struct vp_queue *queue;    /* launches on one queue never overlap: they share the scratch */
};

struct vp_kernel {
    const char *name; /* vp_op.kernel */
    /* True if the kernel supports op with its types and parameters; else the reason in `why` (one clause: "no kernel
     * for f64"). */
    bool (*has)(const struct vp_op *op, char *why, size_t size);
    /* Returns the device bytes needed in addition to the areas, for areas of at most in[] -> out[] voxels. NULL: none.
     * */
    uint64_t (*scratch)(const struct vp_op *op, const int64_t in[3], const int64_t out[3]);
    /* Constants on the device, made once when a worker opens; they must not depend on image[2]. NULL: none. */
    uint64_t (*table)(const struct vp_op *op);
    void (*fill)(const struct vp_op *op, void *table);
    /* Queues the work and returns at once. Reads op->image[] at each call. Areas are never empty. -1 if it could not be
     * started. */
    int (*launch)(const struct vp_op *op, const struct vp_work *work, struct vp_err *err);
    /* Returns the bytes carried from part to part (struct vp_carry), or the largest size of an entry (that of
     * summary()), for parts of at most out[] voxels. NULL: none. */
    uint64_t (*state)(const struct vp_op *op, const int64_t out[3]);
    /* Replaces the operation's step and halo, passed in, if the kernel's tiles differ from those of the CPU. Only in
     * chains of one operation. NULL: no change. */
    void (*demand)(const struct vp_op *op, int64_t step[3], int64_t halo[3]);
    /* Returns the bytes after the table that the device computes itself; make() queues that once the table is there.
     * NULL: none. */
    uint64_t (*made)(const struct vp_op *op);
    int (*make)(const struct vp_op *op, void *table, struct vp_queue *queue, struct vp_err *err);
    /* Returns the bytes of scratch in which the device holds the image of op->image[] voxels, 0 if it cannot, and sets
     * the multiple of planes at which the parts of VP_GATHER and VP_SCATTER begin. NULL: no operation of this kernel
     * can be held. */
    uint64_t (*hold)(const struct vp_op *op, int64_t *step);
    /* Computes what VP_SCATTER needs once all planes are gathered, waits for it, and stores the counts of the report
     * (op->report) on the host. -1 with VP_ERESOURCE: the image takes more memory than the device has, which is known
     * only now. */
    int (*settle)(const struct vp_op *op, void *scratch, void *counts, struct vp_queue *queue, struct vp_err *err);
};
