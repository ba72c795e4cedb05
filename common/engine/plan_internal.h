/* What a plan takes and what it costs (plan_price.c), for the search (plan.c). */
#ifndef VP_PLAN_INTERNAL_H
#define VP_PLAN_INTERNAL_H

#include "engine/plan.h"

/* Of a problem, what all its plans share. */
struct vp_plan_model {
    const struct vp_problem *p;
    const struct vp_rates *rates;
    bool device;
    int64_t looks;              /* so far, at plans and at what a device needs */
    int64_t image[3], n;        /* guessed where unknown; planes of the stream */
    int64_t input[3], input_n;  /* the same of the input, but VP_UNKNOWN where unknown */
    const struct vp_op *mapped; /* the operation whose output has another size, or NULL */
    int64_t halo[3], step[3];
    bool whole[3];
    int64_t given[3];           /* sizes of parts where there is no choice, else 0 */
    bool carries;               /* a value along z: no part by itself */
    const struct vp_op *twice;  /* parts are boxes that this operation visits twice */
    bool boxed;                 /* that are given: those of its step */
    uint64_t entries;           /* the most bytes for what it finds that are in memory */
    bool bands;                 /* there may be some, */
    bool flow;                  /* which follow each other */
    bool streams;               /* there may be some */
    int stacks;                 /* that are not single */
    size_t in_size, out_size;
    double voxels;              /* of the stream */
    double read, write;         /* seconds, of every voxel once */
    struct vp_plan_stage *stage; /* of the chain */
    int64_t cut[3];             /* the parts for which it says what they make and look at */
};

struct vp_plan_stage {
    int64_t reach[3];           /* halo around its result */
    double made[3], looked[3];  /* how much more than the image the parts of each axis make, and look at */
};

extern const char *const vp_plan_limits[2]; /* the host's memory, the device's */

/* m->stage is the caller's to free. */
int vp_plan_model(struct vp_plan_model *m, const struct vp_problem *p, bool twice, struct vp_err *err);
/* Seconds of one core for all stages, with what is done again on the halos of parts of so many planes. */
double vp_plan_work(struct vp_plan_model *m, const struct vp_plan *plan, int64_t depth);
/* Voxels that all parts look at across x and y, each with its halo. */
double vp_plan_across(const struct vp_plan_model *m, const struct vp_plan *plan);
/* How many planes the stream has, if it is not of bands so many. */
static inline int64_t vp_plan_planes(const struct vp_plan_model *m, const struct vp_plan *plan, int64_t planes)
{
    return plan->flow ? m->n * m->p->inner * plan->bands : planes;
}
/* Rows of input that all bands read. */
double vp_plan_rows(const struct vp_plan_model *m, const struct vp_plan *plan);
/* Planes of the window that a slab must have; of `depth` planes of output. */
int64_t vp_plan_window(const struct vp_plan_model *m, const struct vp_plan *plan);
/* Workers, parts, and the bytes that follow from them alone. False: not a plan. */
bool vp_plan_derive(const struct vp_plan_model *m, struct vp_plan *plan);
/* The deepest part of these columns, at most `most` planes, that fits a device with so much room; 0: none does. */
int64_t vp_plan_deepest(struct vp_plan_model *m, const struct vp_plan *plan, uint64_t room, int64_t most);
/* Whether it is under all vp_plan_limits; what stands in the way is in `limit`. */
bool vp_plan_fits(struct vp_plan_model *m, struct vp_plan *plan);
/* Its seconds. */
void vp_plan_price(struct vp_plan_model *m, struct vp_plan *plan);

#endif
