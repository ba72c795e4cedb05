/* SPDX-License-Identifier: BSD-3-Clause */
/* Internal to image*.c: opening (image.c, image_stacks.c), planning (image_plan.c) and running (image_run.c). */
#pragma once

#include "engine/plan.h"
#include "app/image.h"

/* Determines stacks of one page; sizes, voxel and axes of the first stack. */
int vp_images_stacks(struct vp_images *im, struct vp_err *err);
/* Repeats stacks of one row, column or sample per page to full size. A piped one is kept in memory, since its row is
 * read repeatedly. */
int vp_images_spread(struct vp_images *im, const struct vp_run *run, struct vp_err *err);
/* Sets im->type and im->all_i8: one of `types` (a mask) that holds the samples of all stacks, else an error with a
 * hint. */
int vp_images_type(struct vp_images *im, const struct vp_run *run, unsigned types, struct vp_err *err);

/* A problem, its plan, and device information for the executor. */
struct vp_image_job {
    struct vp_problem problem;
    struct vp_plan plan;
    int device[VP_MAX_DEVICES];
    char name[128];                /* name of the first device */
    struct vp_chain *chain;        /* its step and halo are those of the CPU */
    int64_t step[3], halo[3];      /* those of the device's kernel, if it has its own */
    /* Part of problem.beside that lets the writer hold short streams like files. */
    uint64_t spare;
};

/* Makes problem, device and plan; `stored`: type of the result; `writes`: it is written, in bands of any order if
 * possible. The chain's steps and halos are then those of the chosen device. */
int vp_images_plan(const struct vp_images *im, struct vp_run *run, struct vp_chain *chain, enum vp_type stored,
                   bool writes, struct vp_image_job *j, struct vp_err *err);
/* Makes only the plan, after the problem has changed. */
int vp_images_plan_again(const struct vp_images *im, struct vp_run *run, struct vp_image_job *j, struct vp_err *err);
/* Prints the table of --plan. */
void vp_images_show(const struct vp_images *im, struct vp_run *run, const struct vp_image_job *j,
                    enum vp_type stored_out);

/* Voxels that the output has more than the input along an axis of pages and planes; below 0: less. */
static inline int64_t vp_images_grown(const struct vp_images *im, const struct vp_op *op, int axis)
{
    return im->pad[axis] + (op->mapping ? op->image[axis] - op->input[axis] : 0);
}
