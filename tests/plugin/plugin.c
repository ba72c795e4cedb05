/* SPDX-License-Identifier: BSD-3-Clause */
/* A plugin for tests, in the place of voxpipe-cuda.so: its devices are pretended (unit/pretend.h), so that whole programs
 * go the way to a device on machines without one. What a device computes there is the operation's own code for the CPU:
 * the bytes must be the same. */
#include "../unit/pretend.h"
#include "../unit/sat_apply.h"
#include "build.h"

const struct vp_kind *vp_plugin(void);

/* As many as $VOXPIPE_PRETEND says; 3 if it says nothing. */
static int count(void)
{
    const char *n = getenv("VOXPIPE_PRETEND");
    return n ? atoi(n) : 3;
}

static struct vp_kernel any;

static const struct vp_kernel *kernel(const char *name)
{
    (void)name;
    return &any;
}

__attribute__((visibility("default"))) const struct vp_kind *vp_plugin(void)
{
    static struct vp_kind table;
    pretend.fail_at = -1;
    any = *pretend_kernel("any");
    pretend_apply = sat_apply; /* the one operation that carries a value */
    table = pretended;
    table.build = VP_BUILD;
    table.name = "cuda";
    table.count = count;
    table.kernel = kernel;
    return &table;
}
