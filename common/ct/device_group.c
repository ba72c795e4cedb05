/* SPDX-License-Identifier: BSD-3-Clause */
#include "ct/device_group.h"

#include "base/size.h"

int64_t vp_device_group_units(const struct vp_device_group *group, int64_t slices, int64_t unit)
{
    return group->most >= slices ? vp_div_up(slices, unit) : group->most / unit;
}

int64_t vp_device_groups_share(struct vp_device_group *group, int n, int64_t slices, int64_t unit)
{
    int64_t left = vp_div_up(slices, unit), room = 0;
    double none = 0, all = 0; /* times in which too little and enough can be done */

    for (int i = 0; i < n; i++) {
        group[i].depth = 0;
        room += vp_device_group_units(&group[i], slices, unit);
        all = (double)(left + 1) / group[i].speed > all ? (double)(left + 1) / group[i].speed : all;
    }
    for (int k = 0; k < 64 && room > left; k++) {
        const double time = (none + all) / 2;
        int64_t done = 0;
        for (int i = 0; i < n; i++)
            done += vp_min64((int64_t)(time * group[i].speed), vp_device_group_units(&group[i], slices, unit));
        *(done >= left ? &all : &none) = time;
    }
    const bool enough = room > left;
    for (int i = 0; i < n; i++) {
        const int64_t most = vp_device_group_units(&group[i], slices, unit);
        const int64_t fair = enough ? (int64_t)(all * group[i].speed) : most;
        const int64_t share = vp_min64(vp_min64(fair, most), left);
        group[i].depth = share * unit;
        left -= share;
    }
    return left;
}
