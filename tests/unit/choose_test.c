/* SPDX-License-Identifier: BSD-3-Clause */
/* What `auto` means: the CPU for what it has done before a device has started, and as many devices as pay. */
#include "device/device.h"
#include "test.h"

/* Seconds of work, one device more for each of two. */
static int shared(double on_cpu, double work, int devices, int asked)
{
    return vp_choose(&(struct vp_effort){.on_cpu = on_cpu, .start = 0.5, .work = work, .each = 2, .asked = asked},
                     devices);
}

/* Bytes, all devices from a thousand on. */
static int all(double on_cpu, double work, int devices)
{
    return vp_choose(&(struct vp_effort){.on_cpu = on_cpu, .start = 0.5, .work = work, .all = 1000}, devices);
}

int main(void)
{
    /* the CPU, whatever devices there are */
    CHECK_INT(shared(0.49, 100, 8, 0), 0);
    CHECK_INT(all(0.49, 1e9, 8), 0);
    CHECK_INT(shared(0.51, 0, 8, 0), 1);
    CHECK_INT(all(0.51, 0, 8), 1);
    /* that many subsets need devices */
    CHECK_INT(shared(0.1, 0.1, 8, 1), 0);
    CHECK_INT(shared(0.1, 0.1, 8, 2), 2);

    /* one for every share that is begun, no more than there are */
    CHECK_INT(shared(10, 1.9, 4, 0), 1);
    CHECK_INT(shared(10, 2, 4, 0), 2);
    CHECK_INT(shared(10, 5.9, 4, 0), 3);
    CHECK_INT(shared(10, 7.9, 4, 0), 4);
    CHECK_INT(shared(10, 8, 4, 0), 4);
    CHECK_INT(shared(10, 1e300, 4, 0), 4);
    CHECK_INT(shared(10, 5.9, 1, 0), 1);

    /* one or all */
    CHECK_INT(all(10, 999, 4), 1);
    CHECK_INT(all(10, 1000, 4), 4);
    CHECK_INT(all(10, 1e30, 1), 1);

    /* as many as were asked for, or more; where there are so many */
    CHECK_INT(shared(10, 1, 4, 3), 3);
    CHECK_INT(shared(10, 7, 4, 3), 4);
    CHECK_INT(shared(10, 3, 4, 5), 2);

    /* nothing pays for a second */
    CHECK_INT(vp_choose(&(struct vp_effort){.on_cpu = 1, .start = 0.5, .work = 1e9}, 4), 1);
    return test_done();
}
