/* SPDX-License-Identifier: BSD-3-Clause */
/* Writes the man pages and completions of all programs, for `make docs` and for tests; built for that, not installed.
 *     generate DIR [KIND]...     DIR/man/NAME.1, DIR/completions/bash/NAME ...; all but examples if none is named
 * The programs are linked into it: the Makefile compiles tools/NAME.c once more, with vp_program renamed. */
#include "docs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define X(program) extern const struct vp_tool program;
#include "programs.h"
#undef X

static const struct kind {
    const char *name, *before, *after; /* path: before NAME after */
    void (*write)(const struct vp_help *d, FILE *out);
} kinds[] = {
    {"man", "man/", ".1", vp_docs_man},
    {"bash", "completions/bash/", "", vp_docs_bash},
    {"zsh", "completions/zsh/_", "", vp_docs_zsh},
    {"fish", "completions/fish/", ".fish", vp_docs_fish},
    {"examples", "examples/", ".sh", vp_docs_examples}, /* must be last: only if named */
};
enum { KINDS = sizeof kinds / sizeof *kinds };

/* Returns a description of errors in the tables, or NULL. */
static const char *check(const struct vp_help *d, struct vp_err *err)
{
    const size_t after = (sizeof(struct vp_common) + 63) / 64 * 64;
    static const struct vp_opt none[] = {VP_OPT_END};
    const struct vp_opt table[] = {
        {.type = VP_T_TABLE, .offset = after, .table = d->tool->options ? d->tool->options : none},
        {.type = VP_T_TABLE, .offset = 0, .table = d->common},
        VP_OPT_END
    };
    char *params = calloc(1, after + d->tool->params_size);
    const char *wrong = !params ? "out of memory"
                      : vp_opt_defaults(table, params, err) ? err->msg : vp_docs_check(table, params);
    free(params);
    return wrong;
}

/* Creates the file and missing folders above it. */
static FILE *create(char *path)
{
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        const int rc = mkdir(path, 0777);
        *slash = '/';
        if (rc && errno != EEXIST)
            return NULL;
    }
    return fopen(path, "w");
}

static int fail(const char *what, const char *why)
{
    fprintf(stderr, "generate: %s: %s\n", what, why);
    return 1;
}

/* Writes the program's files. */
static int generate(const struct vp_tool *tool, int argc, char **argv)
{
    struct vp_err err = VP_ERR_INIT;
    struct vp_opt common[VP_MAX_COMMON];
    const struct vp_help d = {tool, common};

    vp_tool_common(tool, common);
    const char *wrong = check(&d, &err);
    if (wrong)
        return fail(tool->name, wrong);
    for (int k = 0; k < KINDS; k++) {
        bool asked = argc == 2 && k < KINDS - 1;
        for (int i = 2; i < argc; i++)
            asked = asked || !strcmp(argv[i], kinds[k].name);
        if (!asked)
            continue;
        char *path = NULL;
        if (asprintf(&path, "%s/%s%s%s", argv[1], kinds[k].before, tool->name, kinds[k].after) < 0)
            return fail(tool->name, "out of memory");
        FILE *f = create(path);
        if (f)
            kinds[k].write(&d, f);
        const bool bad = f && ferror(f);
        const int rc = !f || fclose(f) || bad ? fail(path, strerror(errno)) : 0;
        free(path);
        if (rc)
            return rc;
    }
    return 0;
}

static bool known(const char *kind)
{
    for (int k = 0; k < KINDS; k++)
        if (!strcmp(kind, kinds[k].name))
            return true;
    return false;
}

int main(int argc, char **argv)
{
#define X(program) &program,
    static const struct vp_tool *const programs[] = {
#include "programs.h"
    };
    for (int i = 2; i < argc; i++)
        if (!known(argv[i]))
            return fail(argv[i], "is not one of man, bash, zsh, fish, examples") + 1;
    if (argc < 2)
        return fail("expected", "DIR [KIND]...") + 1;
    int status = 0;
    for (size_t i = 0; i < sizeof programs / sizeof *programs && !status; i++)
        status = generate(programs[i], argc, argv);
    return status;
}
