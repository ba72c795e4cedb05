/* SPDX-License-Identifier: BSD-3-Clause */
/* The schedule of a back-projection to one slab on a device with memory of its own. The functions of ct/projector.h
 * call those of the same names, for each slab. */
#pragma once

#include "ct/projector.h"

struct vp_bp_schedule;

int vp_bp_schedule_plan(const struct vp_backend *backend, const struct vp_bp_job *job, struct vp_bp_plan *plan,
                        struct vp_err *err);
int vp_bp_schedule_open(struct vp_bp_schedule **s, const struct vp_backend *backend, const struct vp_bp_job *job,
                        struct vp_err *err);
/* `voxels`: a slab in memory of the device. */
void vp_bp_schedule_begin(struct vp_bp_schedule *s, float *voxels, bool set);
int vp_bp_schedule_add(struct vp_bp_schedule *s, const struct vp_batch *views, uint64_t *ticket, struct vp_err *err);
int vp_bp_schedule_wait(struct vp_bp_schedule *s, uint64_t ticket, struct vp_err *err);
int vp_bp_schedule_end(struct vp_bp_schedule *s, struct vp_err *err);
int vp_bp_schedule_parts(const struct vp_bp_schedule *s);
int vp_bp_schedule_part_of(const struct vp_bp_schedule *s, int64_t z);
/* Returns the event after which the slices of a part are complete. */
struct vp_event *vp_bp_schedule_ready(const struct vp_bp_schedule *s, int part);
/* Fills all but `downloaded`. */
void vp_bp_schedule_stats(struct vp_bp_schedule *s, struct vp_bp_stats *stats);
void vp_bp_schedule_close(struct vp_bp_schedule *s); /* NULL is fine */
