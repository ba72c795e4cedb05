/* SPDX-License-Identifier: BSD-3-Clause */
/* Device groups of a reconstruction, and the slices that each of them makes. */
#pragma once

#include <stdint.h>

/* The devices that make one slab, one for each subset of the views. */
struct vp_device_group {
    double speed;
    uint64_t free, total; /* bytes, of the device that has the least */
    int64_t most, depth;  /* slices a pass: that fit, and that it makes */
};

/* Returns the whole units that a group can make of `slices`: the last one may be cut short by the end of the volume. */
int64_t vp_device_group_units(const struct vp_device_group *group, int64_t slices, int64_t unit);
/* Shares `slices` out to n groups in whole units, in proportion to their speed and at most `most` to each, so that the
 * slowest is done as early as possible. Sets `depth`; returns the units that no group has room for. */
int64_t vp_device_groups_share(struct vp_device_group *group, int n, int64_t slices, int64_t unit);
