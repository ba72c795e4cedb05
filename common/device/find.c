/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds plugins, and devices by name. */
#include "base/err.h"
#include "base/places.h"
#include "base/plugin.h"
#include "base/size.h"
#include "device/device.h"
#include "build.h"

#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const struct vp_backend vp_cpu = {.build = VP_BUILD, .name = "cpu", .on_host = true, .host_free = free};

const char *vp_devices_refused(void)
{
    return vp_plugin_refused("voxpipe-cuda.so");
}

static pthread_mutex_t plugin_lock = PTHREAD_MUTEX_INITIALIZER;

/* The only visible devices, if restricted. */
static int *shown, n_shown;

static const struct vp_backend *open_plugin(char *why, size_t size)
{
    static const struct vp_backend *opened;
    if (!opened)
        opened = vp_plugin_open("voxpipe-cuda.so", false, why, size);
    return opened;
}

/* A copy of the plugin's backend that reports at most `most` free bytes per device. */
static struct {
    struct vp_backend backend;
    const struct vp_backend *of;
    uint64_t most;
} limited;

static int limited_info(int device, struct vp_device_info *info, struct vp_err *err)
{
    const int rc = limited.of->info(device, info, err);
    if (!rc && info->free > limited.most)
        info->free = limited.most;
    return rc;
}

static int limit(const struct vp_backend **backend, struct vp_err *err)
{
    const char *text = vp_device_memory();
    if (!text)
        return 0;
    if (limited.of) { /* other threads may be using it */
        *backend = &limited.backend;
        return 0;
    }
    if (!vp_parse_bytes(text, &limited.most) || !limited.most) {
        vp_fail(err, VP_EUSAGE, "VOXPIPE_DEVICE_MEMORY: expected a size, got '%s'", text);
        return vp_hint(err, "a size is a number of bytes, or 512M, 4GiB");
    }
    limited.of = *backend;
    limited.backend = **backend;
    limited.backend.info = limited_info;
    *backend = &limited.backend;
    return 0;
}

/* Parses the number at *at and moves *at past it. */
static int next_number(const char **at)
{
    char *end;
    const long n = strtol(*at, &end, 10);
    *at = end + (*end == ',');
    return n >= 0 && n < INT_MAX ? (int)n : INT_MAX;
}

/* Parses the list after "cuda:", each device once; returns its length, 0 if out of memory. */
static int listed(const char *list, int **devices)
{
    int n = 0;
    *devices = malloc((strlen(list) + 1) * sizeof **devices);
    while (*devices && *list) {
        const int device = next_number(&list);
        bool known = false;
        for (int i = 0; i < n; i++)
            known |= (*devices)[i] == device;
        if (!known)
            (*devices)[n++] = device;
    }
    return n;
}

void vp_devices_only(const char *name)
{
    char why[2 * PATH_MAX];
    int *devices = NULL;

    pthread_mutex_lock(&plugin_lock);
    const struct vp_backend *backend = !strncmp(name, "cuda:", 5) && !n_shown ? open_plugin(why, sizeof why) : NULL;
    if (backend && backend->set_visible) {
        const int n = listed(name + 5, &devices);
        if (n > 0 && !backend->set_visible(devices, n)) {
            shown = devices;
            n_shown = n;
            devices = NULL;
        }
    }
    pthread_mutex_unlock(&plugin_lock);
    free(devices);
}

/* Returns the current number of device `number`. */
static int number_now(int number)
{
    for (int i = 0; i < n_shown; i++)
        if (shown[i] == number)
            return i;
    return n_shown ? INT_MAX : number;
}

int vp_devices_find(const struct vp_backend **backend, int **devices, int *n, const char *name, struct vp_err *err)
{
    char why[2 * PATH_MAX] = "";
    const bool cpu = !strcmp(name, "cpu"), some = !strncmp(name, "cuda:", 5);

    pthread_mutex_lock(&plugin_lock);
    *backend = cpu ? NULL : open_plugin(why, sizeof why);
    int count = *backend ? (*backend)->count() : 0;
    const int wrong = *backend ? limit(backend, err) : 0;
    pthread_mutex_unlock(&plugin_lock);
    *devices = NULL;
    if (wrong)
        return -1;
    if (cpu || (!count && !strcmp(name, "auto"))) {
        *backend = &vp_cpu;
        count = 1;
    }
    if (!*backend) {
        vp_fail(err, VP_ERESOURCE, "device %s: %s", name, why);
        return vp_hint(err, "use --device cpu, or auto");
    }
    *n = some ? listed(name + 5, devices) : count;
    if (!some)
        *devices = malloc((size_t)(count > 0 ? count : 1) * sizeof **devices);
    if (!*devices)
        return vp_fail(err, VP_ERESOURCE, "out of memory");
    bool there = *n > 0;
    for (int i = 0; i < *n; i++) {
        (*devices)[i] = some ? number_now((*devices)[i]) : i;
        there &= (*devices)[i] < count;
    }
    if (there)
        return 0;
    free(*devices);
    *devices = NULL;
    if (n_shown)
        vp_fail(err, VP_ERESOURCE, "device %s: %s", name,
                n_shown > 1 ? "some of these CUDA devices do not exist" : "no such CUDA device");
    else
        vp_fail(err, VP_ERESOURCE, "device %s: there %s %d CUDA device%s", name, count == 1 ? "is" : "are", count,
                count == 1 ? "" : "s");
    return vp_hint(err, "use --device cpu, or auto");
}

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
    struct vp_device_info info;
    struct vp_err ignored = VP_ERR_INIT;
    w->backend->info(w->device, &info, &ignored);
    return NULL;
}

void vp_devices_start(const struct vp_backend *backend, const int *devices, int n)
{
    struct warm *w = calloc((size_t)(n > 0 ? n : 1), sizeof *w);

    for (int i = 0; w && i < n; i++) {
        w[i] = (struct warm){.backend = backend, .device = devices[i]};
        w[i].started = !pthread_create(&w[i].thread, NULL, warm_device, &w[i]);
    }
    for (int i = 0; w && i < n; i++)
        if (w[i].started)
            pthread_join(w[i].thread, NULL);
    free(w);
}

static void *warm_all(void *arg)
{
    char *name = arg;
    const struct vp_backend *backend;
    struct vp_err ignored = VP_ERR_INIT;
    int *devices, n;

    if (!vp_devices_find(&backend, &devices, &n, name, &ignored)) {
        if (backend != &vp_cpu)
            vp_devices_start(backend, devices, strcmp(name, "auto") ? n : 1); /* auto may need only one */
        free(devices);
    }
    free(name);
    return NULL;
}

void vp_devices_settle(void)
{
    if (begun)
        pthread_join(warming, NULL);
    begun = false;
}

void vp_devices_warm(const char *name)
{
    char *copy = begun || !strcmp(name, "cpu") ? NULL : strdup(name);
    if (!copy)
        return;
    begun = !pthread_create(&warming, NULL, warm_all, copy);
    if (!begun)
        free(copy);
}
