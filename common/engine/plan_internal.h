/* Bytes and seconds of a plan (plan_price.c), for the choice (plan.c) and for tests. */
#pragma once

#include "engine/plan.h"

/* Facts that all plans of a problem share. */
struct vp_plan_model {
    const struct vp_problem *p;
    const struct vp_rates *rates;
    bool device;
    int64_t image[3], n;        /* voxels of an image, planes of the stream; guesses where unknown */
    int64_t input[3], input_n;  /* the same of the input; VP_UNKNOWN where unknown */
    const struct vp_op *mapped; /* the operation whose output has another size, or NULL */
    int64_t halo[3], step[3];
    bool whole[3];              /* parts need the whole axis */
    int64_t given[3];           /* sizes of parts where there is no choice, else 0 */
    bool carries;               /* the operation carries a value along z */
    const struct vp_op *twice;  /* the operation with two passes, or NULL */
    uint64_t least;             /* bytes that its solve needs beside the entries */
    bool boxed;                 /* its parts are boxes of its step */
    uint64_t held;              /* bytes in which a device holds the image, or 0 */
    uint64_t entries;           /* most bytes of memory for the entries of its first pass */
    bool bands, flow, streams;  /* plans may have bands; bands that follow each other; a stream */
    int stacks;                 /* stacks that are not single */
    size_t in_size, out_size;   /* bytes of a voxel */
    double voxels;              /* voxels of the stream */
    double cores;               /* cores of the CPU that are as fast as a device */
    double read, write;         /* seconds, every voxel once */
    struct vp_box *made;        /* workspace for vp_chain_boxes(), a box for each stage; then those of the whole image; malloc */
    int64_t worked[3];          /* the part of the last result of work_seconds() */
    double work;                /* that result */
};

extern const char *const vp_plan_limits[2]; /* the host's memory, the device's */

/* Fills the model of a problem; m->made is the caller's to free. 0, or -1 with VP_ERESOURCE: no memory. */
int vp_plan_model(struct vp_plan_model *m, const struct vp_problem *p, bool twice, struct vp_err *err);
/* Changes the model to plans that hold the image on a device. False: there are none. */
bool vp_plan_hold(struct vp_plan_model *m);
/* Returns the length of the input along an axis for `size` voxels of output, the most that any part needs. */
int64_t vp_plan_need(struct vp_plan_model *m, int axis, int64_t size);
/* Returns a lower bound of the seconds of all plans with the bands, part[0] and part[1] of this one. */
double vp_plan_bound(struct vp_plan_model *m, const struct vp_plan *plan);
/* Returns the share of the input that all parts read across x and y, each with its halo; 1: every voxel once. */
double vp_plan_across(struct vp_plan_model *m, const struct vp_plan *plan);
/* Returns the planes of the stream: `planes`, or where bands follow each other the number of bands. */
static inline int64_t vp_plan_planes(const struct vp_plan_model *m, const struct vp_plan *plan, int64_t planes)
{
    return plan->flow ? m->n * m->p->inner * plan->bands : planes;
}
/* Returns the least number of input planes in memory for plan->slab planes of output. */
int64_t vp_plan_window(const struct vp_plan_model *m, const struct vp_plan *plan);
/* Fills what follows from bands, band, slab, window, slabs, part[], stream, lanes. False: the operation or the
 * executor cannot work so. */
bool vp_plan_derive(struct vp_plan_model *m, struct vp_plan *plan);
/* Returns the depth of the deepest part of these columns, at most `most` planes, that fits `room` bytes of a device;
 * 0: none does. */
int64_t vp_plan_deepest(struct vp_plan_model *m, const struct vp_plan *plan, uint64_t room, int64_t most);
/* True if a derived plan is within all limits; else plan->limit is the one that it exceeds. Fills scratch, host,
 * depth[] and on_device. */
bool vp_plan_fits(struct vp_plan_model *m, struct vp_plan *plan);
/* Fills seconds, read and copied of a derived plan. */
void vp_plan_price(struct vp_plan_model *m, struct vp_plan *plan);
