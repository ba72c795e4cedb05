/* The device for the matched pair of projectors (ct/pair.h), as --device says. */
#pragma once

#include "ct/pair.h"

struct vp_run;

/* Chooses the place for that number of updates of voxels (voxels times views). Of several devices the first is taken.
 * VP_ERESOURCE if one that is named does not exist. vp_place_settle() must follow before the program ends. */
int vp_place_choose(const struct vp_run *run, double updates, struct vp_pair_place *place, struct vp_err *err);
/* Records in the statistics where the work was, and notes why not on a device. */
void vp_place_report(struct vp_run *run, const struct vp_pair_place *place);

void vp_place_settle(void);
