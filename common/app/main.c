/* SPDX-License-Identifier: BSD-3-Clause */
/* main of all programs, in an object file of its own: tests have mains of their own. The program is the one by whose name
 * it is called. Those that this file is not linked with have no address. */
#include "app/tool.h"
#include "base/places.h"

#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

#define X(program) extern const struct vp_tool program __attribute__((weak));
#include "programs.h"
#undef X

static const struct vp_tool *const programs[] = {
#define X(program) &program,
#include "programs.h"
};
enum { PROGRAMS = sizeof programs / sizeof *programs };

static const struct vp_tool *named(const char *path)
{
    const char *const slash = strrchr(path, '/');
    for (int i = 0; i < PROGRAMS; i++)
        if (programs[i] && !strcmp(programs[i]->name, slash ? slash + 1 : path))
            return programs[i];
    return NULL;
}

/* Returns the program of a path, or of the first link on its way that has the name of one: links to programs may have any
 * name. */
static const struct vp_tool *linked(const char *path)
{
    const struct vp_tool *tool = named(path);
    char *now = tool ? NULL : strdup(path);
    while (now && !tool) {
        char *const next = vp_next_link(now);
        free(now);
        now = next;
        tool = now ? named(now) : NULL;
    }
    free(now);
    return tool;
}

int main(int argc, char **argv)
{
    const char *const path = (const char *)getauxval(AT_EXECFN); /* argv[0] may be anything */
    const struct vp_tool *tool = argc > 0 ? named(argv[0]) : NULL;
    if (!tool && path)
        tool = linked(path);
    if (!tool) {
        fprintf(stderr, "%s: error: expected the name of a program, as img-info\n", argc > 0 ? argv[0] : "voxpipe");
        return 2;
    }
    return vp_main(tool, argc, argv);
}
