/* SPDX-License-Identifier: BSD-3-Clause */
/* From inputs, options and a chain of operations to the planner's problem, devices and a plan. */
#ifndef VP_IMAGE_PLAN_H
#define VP_IMAGE_PLAN_H

#include "run/plan.h"
#include "tool/image.h"

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

#endif
