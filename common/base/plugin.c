/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/plugin.h"
#include "base/places.h"
#include "build.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Reason why an existing plugin was not loaded, which begins with its name; or "". */
static char refused[2 * PATH_MAX];

const char *vp_plugin_refused(const char *name)
{
    return strncmp(refused, name, strlen(name)) ? "" : refused;
}

const void *vp_plugin_open(const char *name, bool global, char *why, size_t size)
{
    static const char *const beside[] = {"/../lib/voxpipe", ""};
    char path[PATH_MAX + 64], program[PATH_MAX] = "", reason[PATH_MAX + 128];
    const char *given = vp_plugins();
    const ssize_t n = given ? 0 : readlink("/proc/self/exe", program, sizeof program - 1);
    char *const slash = strrchr(program, '/');

    if (slash)
        *slash = 0;
    for (int i = 0; i < (given ? 1 : n > 0 ? 2 : 0); i++) {
        snprintf(path, sizeof path, "%s%s/%s", given ? given : program, given ? "" : beside[i], name);
        if (access(path, R_OK))
            continue;
        if (!vp_trusted(path, given, reason, sizeof reason)) {
            snprintf(why, size, "%s is not loaded: %s", name, reason);
            snprintf(refused, sizeof refused, "%s", why);
            return NULL;
        }
        void *lib = dlopen(path, RTLD_NOW | (global ? RTLD_GLOBAL : RTLD_LOCAL));
        if (!lib) {
            snprintf(why, size, "%s", dlerror());
            return NULL;
        }
        const void *(*get)(void);
        *(void **)&get = dlsym(lib, VP_PLUGIN_SYMBOL);
        const uint64_t *table = get ? get() : NULL; /* the build comes first */
        if (table && *table == VP_BUILD)
            return table;
        snprintf(why, size, "%.200s belongs to another build of voxpipe", get ? path : name);
        return NULL;
    }
    snprintf(why, size, "no %s %s%s", name, given ? "in " : "beside the programs", given ? given : "");
    return NULL;
}
