/* SPDX-License-Identifier: BSD-3-Clause */
/* The CPU as a backend, and the way to the plugin of another: looked for in $VOXPIPE_PLUGINS, beside the
 * programs, and in ../lib/voxpipe beside them, so that a tree that was moved still finds its own. */
#include "backend.h"
#include "base/err.h"
#include "base/size.h"
#include "base/tool.h"
#include "ops/backproject.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int cpu_count(void)
{
    return 1;
}

static int cpu_device(int device, struct vp_device *info, struct vp_err *err)
{
    (void)device;
    (void)err;
    snprintf(info->name, sizeof info->name, "cpu");
    info->free = info->total = 0;
    return 0;
}

static int cpu_plan(const struct vp_bp_job *j, struct vp_bp_plan *plan, struct vp_err *err)
{
    plan->host = vp_backproject_bytes(j->n_views, j->nu, j->nv, j->grid, j->z0, j->z1, j->threads);
    plan->device = 0;
    return vp_backproject_kernel(j->views, j->n_views, j->nu, j->nv, j->grid, plan->kernel, sizeof plan->kernel,
                                 err);
}

static int cpu_open(void **bp, const struct vp_bp_job *j, struct vp_err *err)
{
    struct vp_backproject *b = NULL;
    const int rc = vp_backproject_open(&b, j->views, j->n_views, j->nu, j->nv, j->grid, j->z0, j->z1, j->threads,
                                       NULL, err);
    *bp = b;
    return rc;
}

static int cpu_add(void *bp, int64_t first, int64_t n, const float *proj, struct vp_err *err)
{
    return vp_backproject_add(bp, first, n, proj, err);
}

static int cpu_flush(void *bp, struct vp_err *err)
{
    return vp_backproject_flush(bp, err);
}

static int cpu_slices(void *bp, int64_t z, int64_t n, float *out, struct vp_err *err)
{
    (void)err;
    vp_backproject_slices(bp, z, n, out);
    return 0;
}

static void cpu_close(void *bp)
{
    vp_backproject_close(bp);
}

const struct vp_backend vp_backend_cpu = {
    .abi = VP_BACKEND_ABI,
    .name = "cpu",
    .count = cpu_count,
    .device = cpu_device,
    .bp_plan = cpu_plan,
    .bp_open = cpu_open,
    .bp_add = cpu_add,
    .bp_flush = cpu_flush,
    .bp_slices = cpu_slices,
    .bp_close = cpu_close,
};

/* The plugin is opened once and stays. NULL with the reason in `why` if it is not there or does not fit. */
static const struct vp_backend *open_plugin(char *why, size_t size)
{
    char path[3][PATH_MAX + 64], exe[PATH_MAX];
    const char *given = vp_plugins();
    int n = 0;

    if (given) {
        snprintf(path[n++], sizeof path[0], "%s/voxpipe-cuda.so", given);
    } else {
        const ssize_t len = readlink("/proc/self/exe", exe, sizeof exe - 1);
        if (len > 0) {
            exe[len] = 0;
            char *slash = strrchr(exe, '/');
            if (slash)
                *slash = 0;
            snprintf(path[n++], sizeof path[0], "%s/../lib/voxpipe/voxpipe-cuda.so", exe);
            snprintf(path[n++], sizeof path[0], "%s/voxpipe-cuda.so", exe);
        }
    }
    for (int i = 0; i < n; i++) {
        if (access(path[i], R_OK))
            continue;
        void *lib = dlopen(path[i], RTLD_NOW | RTLD_LOCAL);
        if (!lib) {
            snprintf(why, size, "%s", dlerror());
            return NULL;
        }
        const struct vp_backend *(*get)(void);
        *(void **)&get = dlsym(lib, VP_BACKEND_SYMBOL);
        const struct vp_backend *b = get ? get() : NULL;
        if (b && b->abi == VP_BACKEND_ABI)
            return b;
        snprintf(why, size, "%.200s belongs to another build of voxpipe", path[i]);
        return NULL;
    }
    snprintf(why, size, "no voxpipe-cuda.so %s%s", given ? "in " : "beside the programs", given ? given : "");
    return NULL;
}

int vp_backend_find(const struct vp_backend **backend, int *device, const char *name, struct vp_err *err)
{
    char why[PATH_MAX + 256] = "";

    *backend = &vp_backend_cpu;
    *device = 0;
    if (!strcmp(name, "cpu"))
        return 0;
    const struct vp_backend *plugin = open_plugin(why, sizeof why);
    const int count = plugin ? plugin->count() : 0;
    if (!strcmp(name, "auto")) {
        if (count > 0)
            *backend = plugin;
        return 0;
    }
    if (!plugin) {
        vp_fail(err, VP_ERESOURCE, "device %s: %s", name, why);
        return vp_hint(err, "use --device cpu, or auto");
    }
    if (strchr(name, ','))
        return vp_fail(err, VP_EUSAGE, "device %s: one device at a time is supported", name);
    const int wanted = name[4] == ':' ? atoi(name + 5) : 0;
    if (wanted >= count) {
        vp_fail(err, VP_ERESOURCE, "device %s: there %s %d CUDA device%s", name, count == 1 ? "is" : "are", count,
                count == 1 ? "" : "s");
        return vp_hint(err, "use --device cpu, or auto");
    }
    *backend = plugin;
    *device = wanted;
    return 0;
}
