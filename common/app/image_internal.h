/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of a run over images share: opening (image.c, image_stacks.c), the plan (image_plan.c, image_show.c)
 * and the run (image_run.c). */
#ifndef VP_IMAGE_INTERNAL_H
#define VP_IMAGE_INTERNAL_H

#include "engine/plan.h"
#include "app/image.h"

/* Which stacks are one page for all pages of the others; sizes, voxel and axes of the one that counts. */
int vp_images_stacks(struct vp_images *im, struct vp_err *err);
/* Make stacks of one row, column or sample a page as large as the others. What comes from a pipe is kept in memory: its
 * row is wanted again. */
int vp_images_spread(struct vp_images *im, const struct vp_run *run, struct vp_err *err);
/* im->type and im->all_i8: one of `types` (a mask) that holds the samples of all stacks, else refused with the way
 * out. */
int vp_images_type(struct vp_images *im, const struct vp_run *run, unsigned types, struct vp_err *err);

/* What is planned for, and with it what the executor must know of devices. */
struct vp_image_job {
    struct vp_problem problem;
    struct vp_plan plan;
    int device[VP_MAX_DEVICES];
    char name[128];                /* of the first device */
    struct vp_chain *chain;        /* whose step and halo are the CPU's, */
    int64_t step[3], halo[3];      /* these, or those that the device's kernel asks for */
    uint64_t spare;                /* of problem.beside, what the writer takes so that short streams are as files are */
};

/* Problem, device and plan; `stored`: the type of the result; `writes`: it is written, bands of it in any order where
 * that can be. The chain's steps and halos are then those of the device that was chosen. */
int vp_images_plan(const struct vp_images *im, struct vp_run *run, struct vp_chain *chain, enum vp_type stored,
                   bool writes, struct vp_image_job *j, struct vp_err *err);
/* The plan alone, for a problem that has changed. */
int vp_images_plan_again(const struct vp_images *im, struct vp_run *run, struct vp_image_job *j, struct vp_err *err);
/* The table of --plan. */
void vp_images_show(const struct vp_images *im, struct vp_run *run, const struct vp_image_job *j,
                    enum vp_type stored_out);

/* Voxels that the output has more than the input along an axis of pages and planes; below 0: less. */
static inline int64_t vp_images_grown(const struct vp_images *im, const struct vp_op *op, int axis)
{
    return im->pad[axis] + (op->mapping ? op->image[axis] - op->input[axis] : 0);
}

#endif
