/* SPDX-License-Identifier: BSD-3-Clause */
/* A plugin for tests that replaces voxpipe-cuda.so: its devices are pretended (unit/pretend.h), so that whole programs
 * use a device on machines without one. These devices run the operation's own CPU code: the bytes must be the same. */
#include "../unit/pretend.h"
#include "../unit/sat_apply.h"
#include "build.h"

const void *vp_plugin(void);

static const int *shown;
static int n_shown;

static int set_visible(const int *device, int n)
{
    shown = device;
    n_shown = n;
    return 0;
}

/* Returns the number in $VOXPIPE_PRETEND, by default 3; limited to the leading visible devices that exist. */
static int count(void)
{
    const char *n = getenv("VOXPIPE_PRETEND");
    const int all = n ? atoi(n) : 3;
    int there = 0;
    while (there < n_shown && shown[there] < all)
        there++;
    return shown ? there : all;
}

static int info(int device, struct vp_device_info *info, struct vp_err *err)
{
    const int rc = pretended.info(device, info, err);
    if (shown)
        snprintf(info->name, sizeof info->name, "pretended device %d", shown[device]);
    return rc;
}

static struct vp_kernel any;

static const struct vp_kernel *kernel(const char *name)
{
    (void)name;
    return &any;
}

__attribute__((visibility("default"))) const void *vp_plugin(void)
{
    static struct vp_backend table;
    pretend.fail_at = -1;
    any = *pretend_kernel("any");
    pretend_apply = sat_apply; /* the only operation that carries a value */
    table = pretended;
    table.build = VP_BUILD;
    table.name = "cuda";
    table.set_visible = set_visible;
    table.count = count;
    table.info = info;
    table.kernel = kernel;
    return &table;
}
