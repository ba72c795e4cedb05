/* SPDX-License-Identifier: BSD-3-Clause */
/* The CPU as a backend, and the way to the plugin of another: looked for in $VOXPIPE_PLUGINS, beside the
 * programs, and in ../lib/voxpipe beside them, so that a tree that was moved still finds its own. */
#include "backend.h"
#include "base/err.h"
#include "base/places.h"
#include "base/size.h"
#include "base/tool.h"
#include "ops/backproject.h"

#include <assert.h>
#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
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
    memset(plan, 0, sizeof *plan);
    plan->host = vp_backproject_bytes(j->n_views, j->nu, j->nv, j->grid, j->z0, j->z1, j->threads);
    vp_backproject_rows(j->views, j->n_views, j->nv, j->grid, j->z0, j->z1, &plan->v0, &plan->v1);
    if (plan->v0 >= plan->v1) { /* the slab sees nothing: a row that nothing is taken from */
        plan->v0 = plan->v0 < j->nv ? plan->v0 : j->nv - 1;
        plan->v1 = plan->v0 + 1;
    }
    plan->z_step = 1;
    return vp_backproject_kernel(j->views, j->n_views, j->nu, j->nv, j->grid, plan->kernel, sizeof plan->kernel,
                                 err);
}

static int cpu_open(void **bp, const struct vp_bp_job *j, struct vp_err *err)
{
    struct vp_backproject *b = NULL;
    const int rc = vp_backproject_open(&b, j->views, j->n_views, j->nu, j->nv, j->grid, j->z0, j->z1, j->threads,
                                       NULL, err);
    assert(!j->filter && !j->mirrored);
    *bp = b;
    return rc;
}

static int cpu_add(void *bp, int64_t first, int64_t n, int64_t v0, int64_t v1, const float *proj, uint64_t *ticket,
                   struct vp_err *err)
{
    (void)v0;
    (void)v1; /* whole views: the caller spreads what it has of one */
    *ticket = 0;
    return vp_backproject_add(bp, first, n, proj, err);
}

static int cpu_wait(void *bp, uint64_t ticket, struct vp_err *err)
{
    (void)bp;
    (void)ticket;
    (void)err;
    return 0;
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

static void cpu_stats(void *bp, struct vp_bp_stats *stats)
{
    (void)bp;
    memset(stats, 0, sizeof *stats);
}

static void cpu_close(void *bp)
{
    vp_backproject_close(bp);
}

static void *cpu_alloc(size_t bytes)
{
    struct vp_err ignored = VP_ERR_INIT;
    return vp_alloc_raw(bytes, 1, "a buffer", &ignored);
}

const struct vp_backend vp_backend_cpu = {
    .abi = VP_BACKEND_ABI,
    .name = "cpu",
    .count = cpu_count,
    .device = cpu_device,
    .bp_plan = cpu_plan,
    .bp_open = cpu_open,
    .bp_add = cpu_add,
    .bp_wait = cpu_wait,
    .bp_flush = cpu_flush,
    .bp_slices = cpu_slices,
    .bp_stats = cpu_stats,
    .bp_close = cpu_close,
    .host_alloc = cpu_alloc,
    .host_free = free,
};

static pthread_mutex_t plugin_lock = PTHREAD_MUTEX_INITIALIZER;

/* Why a plugin that is there was left alone, or "". */
static char refused[2 * PATH_MAX];

const char *vp_backend_refused(void)
{
    return refused;
}

/* The plugin is opened once and stays. NULL with the reason in `why` if it is not there or does not fit. */
static const struct vp_backend *open_plugin(char *why, size_t size)
{
    static const struct vp_backend *opened;
    char path[3][PATH_MAX + 64], exe[PATH_MAX];
    const char *given = vp_plugins();
    int n = 0;

    if (opened)
        return opened;
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
        char reason[PATH_MAX + 128];
        if (!vp_trusted(path[i], given, reason, sizeof reason)) {
            snprintf(refused, sizeof refused, "voxpipe-cuda.so is not loaded: %s", reason);
            snprintf(why, size, "%s", refused);
            return NULL;
        }
        void *lib = dlopen(path[i], RTLD_NOW | RTLD_LOCAL);
        if (!lib) {
            snprintf(why, size, "%s", dlerror());
            return NULL;
        }
        const struct vp_backend *(*get)(void);
        *(void **)&get = dlsym(lib, VP_BACKEND_SYMBOL);
        const struct vp_backend *b = get ? get() : NULL;
        if (b && b->abi == VP_BACKEND_ABI)
            return opened = b;
        snprintf(why, size, "%.200s belongs to another build of voxpipe", path[i]);
        return NULL;
    }
    snprintf(why, size, "no voxpipe-cuda.so %s%s", given ? "in " : "beside the programs", given ? given : "");
    return NULL;
}

/* The number after `*at`, which moves behind it. */
static int next_number(const char **at)
{
    char *end;
    const long n = strtol(*at, &end, 10);
    *at = end + (*end == ',');
    return n >= 0 && n < INT_MAX ? (int)n : INT_MAX;
}

/* What follows "cuda:", each device once; the number of them, -1 without memory. */
static int listed(const char *list, int **devices)
{
    int n = 0;
    if (!(*devices = malloc((strlen(list) + 1) * sizeof **devices)))
        return -1;
    while (*list) {
        const int device = next_number(&list);
        bool known = false;
        for (int i = 0; i < n; i++)
            known |= (*devices)[i] == device;
        if (!known)
            (*devices)[n++] = device;
    }
    return n;
}

int vp_backend_devices(const struct vp_backend **backend, int **devices, int *n, const char *name, struct vp_err *err)
{
    char why[sizeof refused] = "";
    const bool automatic = !strcmp(name, "auto"), cpu = !strcmp(name, "cpu");

    pthread_mutex_lock(&plugin_lock);
    const struct vp_backend *plugin = cpu ? NULL : open_plugin(why, sizeof why);
    const int count = plugin ? plugin->count() : 0;
    pthread_mutex_unlock(&plugin_lock);
    *devices = NULL;
    if (cpu || (automatic && count == 0)) {
        *backend = &vp_backend_cpu;
        *n = 1;
        *devices = calloc(1, sizeof **devices);
        return *devices ? 0 : vp_fail(err, VP_ERESOURCE, "out of memory");
    }
    *backend = plugin;
    if (!plugin) {
        vp_fail(err, VP_ERESOURCE, "device %s: %s", name, why);
        return vp_hint(err, "use --device cpu, or auto");
    }
    const bool some = !strncmp(name, "cuda:", 5);
    if (some) {
        *n = listed(name + 5, devices);
    } else if ((*devices = malloc((size_t)(count > 0 ? count : 1) * sizeof **devices))) {
        *n = count;
        for (int i = 0; i < count; i++)
            (*devices)[i] = i;
    }
    if (!*devices)
        return vp_fail(err, VP_ERESOURCE, "out of memory");
    bool there = *n > 0;
    for (int i = 0; i < *n; i++)
        there &= (*devices)[i] < count;
    if (there)
        return 0;
    free(*devices);
    *devices = NULL;
    vp_fail(err, VP_ERESOURCE, "device %s: there %s %d CUDA device%s", name, count == 1 ? "is" : "are", count,
            count == 1 ? "" : "s");
    return vp_hint(err, "use --device cpu, or auto");
}

int vp_backend_find(const struct vp_backend **backend, int *device, const char *name, struct vp_err *err)
{
    int *devices, n;

    *backend = &vp_backend_cpu;
    *device = 0;
    if (strchr(name, ','))
        return vp_fail(err, VP_EUSAGE, "device %s: one device at a time is supported", name);
    if (vp_backend_devices(backend, &devices, &n, name, err))
        return -1;
    *device = devices[0];
    free(devices);
    return 0;
}

/* ---- the start of a device, beside other things ---- */

struct warm {
    const struct vp_backend *backend;
    int device;
    pthread_t thread;
    bool started;
};

static pthread_t warming;
static bool begun;

static void *warm_device(void *arg)
{
    const struct warm *w = arg;
    struct vp_device info;
    struct vp_err ignored = VP_ERR_INIT;
    w->backend->device(w->device, &info, &ignored);
    return NULL;
}

static void *warm_all(void *arg)
{
    char *name = arg;
    const struct vp_backend *backend;
    struct vp_err ignored = VP_ERR_INIT;
    int *devices, n;

    if (!vp_backend_devices(&backend, &devices, &n, name, &ignored)) {
        n = backend == &vp_backend_cpu ? 0 : strcmp(name, "auto") ? n : 1; /* auto may be content with one */
        struct warm *w = calloc((size_t)(n > 0 ? n : 1), sizeof *w);
        for (int i = 0; w && i < n; i++) {
            w[i].backend = backend;
            w[i].device = devices[i];
            w[i].started = !pthread_create(&w[i].thread, NULL, warm_device, &w[i]);
        }
        for (int i = 0; w && i < n; i++)
            if (w[i].started)
                pthread_join(w[i].thread, NULL);
        free(w);
        free(devices);
    }
    free(name);
    return NULL;
}

void vp_backend_settle(void)
{
    if (begun)
        pthread_join(warming, NULL);
    begun = false;
}

void vp_backend_warm(const char *name)
{
    char *copy = begun || !strcmp(name, "cpu") ? NULL : strdup(name);
    if (!copy)
        return;
    begun = !pthread_create(&warming, NULL, warm_all, copy);
    if (!begun)
        free(copy);
}
