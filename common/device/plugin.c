/* SPDX-License-Identifier: BSD-3-Clause */
#include "device/plugin.h"

#include "base/places.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void *vp_plugin_open(const char *name, bool global, bool *refused, char *why, size_t size)
{
    char path[2][PATH_MAX + 64], exe[PATH_MAX], reason[PATH_MAX + 128];
    const char *given = vp_plugins();
    int n = 0;

    if (given) {
        snprintf(path[n++], sizeof path[0], "%s/%s", given, name);
    } else {
        const ssize_t len = readlink("/proc/self/exe", exe, sizeof exe - 1);
        if (len > 0) {
            exe[len] = 0;
            char *slash = strrchr(exe, '/');
            if (slash)
                *slash = 0;
            snprintf(path[n++], sizeof path[0], "%s/../lib/voxpipe/%s", exe, name);
            snprintf(path[n++], sizeof path[0], "%s/%s", exe, name);
        }
    }
    for (int i = 0; i < n; i++) {
        if (access(path[i], R_OK))
            continue;
        if (!vp_trusted(path[i], given, reason, sizeof reason)) {
            snprintf(why, size, "%s is not loaded: %s", name, reason);
            if (refused)
                *refused = true;
            return NULL;
        }
        void *lib = dlopen(path[i], RTLD_NOW | (global ? RTLD_GLOBAL : RTLD_LOCAL));
        if (!lib)
            snprintf(why, size, "%s", dlerror());
        return lib;
    }
    snprintf(why, size, "no %s %s%s", name, given ? "in " : "beside the programs", given ? given : "");
    return NULL;
}
