/* SPDX-License-Identifier: BSD-3-Clause */
/* The device for the matched pair of projectors (ct/pair.h), as --device says. */
#pragma once

#include "ct/pair.h"

struct vp_backend;
struct vp_opt;
struct vp_run;

struct vp_place_params { uint64_t device_memory; };
extern const struct vp_opt vp_place_options[];

/* Chooses the place for that number of updates of voxels (voxels times views, in both directions), with at most `memory`
 * bytes of each device (0: what is free). VP_ERESOURCE if one that is named does not exist. vp_place_settle() must follow
 * before the program ends. */
int vp_place_choose(const struct vp_run *run, double updates, uint64_t memory, struct vp_pair_place *place,
                    struct vp_err *err);
/* Makes a place of those devices of a backend. */
struct vp_pair_place vp_place_of(const struct vp_run *run, const struct vp_backend *backend, const int *devices, int n,
                                 uint64_t memory);
/* Reports where a planned pair works, the views of a block, and the seconds that a number of updates takes there, with copies
 * of `bytes`. */
void vp_place_plan(struct vp_run *run, const struct vp_pair_place *place, int64_t block, const char *what, double updates,
                   double bytes);
/* Records in the statistics where the work was, and notes why not on a device. */
void vp_place_report(struct vp_run *run, const struct vp_pair_place *place);

void vp_place_settle(void);
