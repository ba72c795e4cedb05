/* SPDX-License-Identifier: BSD-3-Clause */
#include "stack/paths.h"
#include "base/err.h"
#include "base/places.h"
#include "base/size.h"
#include "base/sort.h"
#include "base/text.h"
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

/* Runs of digits compare as numbers, all else as bytes; img2 comes before img10. */
static int natural(const void *pa, const void *pb)
{
    static const char digits[] = "0123456789";
    const char *const first_a = *(const char *const *)pa, *const first_b = *(const char *const *)pb;
    const char *a = first_a, *b = first_b;
    while (*a && *b) {
        if (!strchr(digits, *a) || !strchr(digits, *b)) {
            if (*a != *b)
                return (unsigned char)*a < (unsigned char)*b ? -1 : 1;
            a++, b++;
            continue;
        }
        a += strspn(a, "0");
        b += strspn(b, "0");
        const size_t na = strspn(a, digits), nb = strspn(b, digits);
        const int c = na != nb ? (na < nb ? -1 : 1) : strncmp(a, b, na);
        if (c)
            return c;
        a += na;
        b += nb;
    }
    if (*a || *b)
        return *a ? 1 : -1;
    return strcmp(first_a, first_b);
}

static int add(struct vp_paths *p, const char *path, struct vp_err *err)
{
    char **const more = vp_grow(p->path, p->n, &p->room, sizeof *more, "the names of the inputs", path, err);
    if (!more)
        return -1;
    p->path = more;
    p->path[p->n] = strdup(path);
    if (!p->path[p->n])
        return vp_fail(err, VP_ERESOURCE, "%s: out of memory", path);
    p->n++;
    return 0;
}

static bool is_tiff_name(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot && name[0] != '.' && (!strcasecmp(dot, ".tif") || !strcasecmp(dot, ".tiff"));
}

size_t vp_path_file(const char *path)
{
    struct stat st;
    char file[PATH_MAX];
    if (!strchr(path, ':') || !stat(path, &st))
        return strlen(path);
    for (const char *colon = path; (colon = strchr(colon + 1, ':')) && colon - path < PATH_MAX;) {
        snprintf(file, sizeof file, "%.*s", (int)(colon - path), path);
        if (!stat(file, &st) && S_ISREG(st.st_mode))
            return (size_t)(colon - path);
    }
    return strlen(path);
}

/* Copies the name of the file. */
static const char *file_of(const char *path, char file[PATH_MAX])
{
    snprintf(file, PATH_MAX, "%.*s", (int)vp_path_file(path), path);
    return file;
}

static const char *name_of(const char *output)
{
    return output && strcmp(output, "-") ? output : "standard output";
}

static bool is_output(const char *path, const char *output)
{
    char file[PATH_MAX];
    return vp_same_file(strcmp(path, "-") ? file_of(path, file) : "/dev/fd/0", output && strcmp(output, "-") ? output : "/dev/fd/1");
}

int vp_path_apart(const char *path, const char *output, struct vp_err *err)
{
    if (!is_output(path, output))
        return 0;
    vp_fail(err, VP_EUSAGE, "%s: one of several inputs is the output, %s", strcmp(path, "-") ? path : "standard input",
            name_of(output));
    return vp_hint(err, "write it elsewhere, or leave it out of the inputs");
}

static int add_directory(struct vp_paths *p, const char *path, const char *output, struct vp_err *err)
{
    DIR *d = opendir(path);
    if (!d)
        return vp_fail_errno(err, "%s", path);
    const int64_t first = p->n;
    const size_t len = strlen(path);
    const char *slash = len && path[len - 1] == '/' ? "" : "/";
    int rc = 0;
    errno = 0;
    for (struct dirent *e; !rc && (e = readdir(d)); errno = 0) {
        char *full;
        if (!is_tiff_name(e->d_name))
            continue;
        if (asprintf(&full, "%s%s%s", path, slash, e->d_name) < 0) {
            rc = vp_fail(err, VP_ERESOURCE, "%s: out of memory", path);
            break;
        }
        struct stat st;
        const bool there = !stat(full, &st);
        if (there && is_output(full, output)) { /* that of the run before this one, most likely */
            vp_fail(err, VP_EUSAGE, "%s: the input folder contains the output, %s", path,
                    name_of(output));
            rc = vp_hint(err, "write it elsewhere, or remove it first, or name the inputs");
        } else if (!there || !S_ISDIR(st.st_mode))
            rc = add(p, full, err);
        free(full);
    }
    if (!rc && errno)
        rc = vp_fail_errno(err, "%s", path);
    closedir(d);
    if (!rc && p->n == first)
        rc = vp_fail(err, VP_ERUN, "%s: a directory without .tif files", path);
    if (!rc)
        vp_sort(p->path + first, (size_t)(p->n - first), sizeof *p->path, natural);
    return rc;
}

static int add_path(struct vp_paths *p, const char *path, const char *output, struct vp_err *err)
{
    struct stat st;
    if (strcmp(path, "-") && !stat(path, &st) && S_ISDIR(st.st_mode))
        return add_directory(p, path, output, err);
    return add(p, path, err);
}

struct list {
    struct vp_paths *paths;
    const char *output;
};

static int take_line(void *ctx, const char *name, int64_t number, char *line, struct vp_err *err)
{
    const struct list *const l = ctx;
    (void)name, (void)number;
    return *line ? add_path(l->paths, line, l->output, err) : 0;
}

static int add_list(struct vp_paths *p, const char *name, const char *output, struct vp_err *err)
{
    const int64_t first = p->n;
    if (vp_text_lines(name, take_line, &(struct list){p, output}, err))
        return -1;
    return p->n > first ? 0 : vp_fail(err, VP_ERUN, "%s: a list without names", name);
}

int vp_paths_expand(struct vp_paths *out, const char *const *paths, int n, const char *output, struct vp_err *err)
{
    *out = (struct vp_paths){0};
    int rc = n ? 0 : add(out, "-", err), standard = 0;
    for (int i = 0; i < n && !rc; i++)
        rc = paths[i][0] == '@' ? add_list(out, paths[i] + 1, output, err)
                                : add_path(out, paths[i], output, err);
    for (int64_t i = 0; i < out->n && !rc; i++) {
        struct stat st;
        char file[PATH_MAX];
        if (out->n > 1 && vp_path_apart(out->path[i], output, err))
            rc = -1;
        else if (!strcmp(out->path[i], "-"))
            rc = standard++ ? vp_fail(err, VP_EUSAGE, "standard input ('-') is given more than once") : 0;
        else if (stat(file_of(out->path[i], file), &st))
            rc = vp_fail_errno(err, "%s", out->path[i]);
    }
    if (rc)
        vp_paths_free(out);
    return rc;
}

void vp_paths_free(struct vp_paths *p)
{
    for (int64_t i = 0; i < p->n; i++)
        free(p->path[i]);
    free(p->path);
    *p = (struct vp_paths){0};
}
