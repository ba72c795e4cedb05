/* SPDX-License-Identifier: BSD-3-Clause */
#include "device/choose.h"

int vp_choose(const struct vp_effort *e, int devices)
{
    int n = 1;

    if (e->asked <= 1 && e->on_cpu < e->start)
        return 0;
    if (e->all > 0 && e->work >= e->all)
        n = devices;
    else if (e->each > 0)
        n = e->work / e->each < devices ? (int)(e->work / e->each) + 1 : devices;
    if (e->asked > n && e->asked <= devices)
        n = e->asked;
    return n > 1 ? n : 1;
}
