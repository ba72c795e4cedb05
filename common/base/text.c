/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/text.h"

#include "base/err.h"
#include "base/places.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct text {
    char *at;
    size_t n, room;
    bool lost;
};

static _Thread_local struct text *closed;

static ssize_t put(void *cookie, const char *from, size_t n)
{
    struct text *t = cookie;
    if (t->lost || n > t->room - t->n) {
        const size_t room = 2 * t->room + n;
        char *more = t->lost ? NULL : realloc(t->at, room);
        t->lost = !more;
        if (!more)
            return 0;
        t->at = more;
        t->room = room;
    }
    memcpy(t->at + t->n, from, n);
    t->n += n;
    return (ssize_t)n;
}

static int done(void *cookie)
{
    closed = cookie;
    return 0;
}

FILE *vp_text_open(void)
{
    struct text *t = calloc(1, sizeof *t);
    FILE *f = t ? fopencookie(t, "w", (cookie_io_functions_t){.write = put, .close = done}) : NULL;
    if (!f)
        free(t);
    return f;
}

char *vp_text_close(FILE *f, size_t *n)
{
    const bool lost = putc('\0', f) == EOF, failed = fclose(f) != 0;
    struct text *t = closed;
    char *text = t->at;
    if (lost || failed || t->lost) {
        free(text);
        text = NULL;
    } else if (n) {
        *n = t->n - 1;
    }
    free(t);
    return text;
}

const char *vp_text_name(const char *path)
{
    return strcmp(path, "-") ? path : "standard input";
}

int vp_text_lines(const char *path,
                  int (*take)(void *ctx, const char *name, int64_t number, char *line, struct vp_err *err), void *ctx,
                  struct vp_err *err)
{
    const bool standard = !strcmp(path, "-");
    const char *const name = vp_text_name(path);
    FILE *f = standard ? stdin : vp_fopen(path, "re");
    char *line = NULL;
    size_t room = 0;
    int rc = f ? 0 : vp_fail_errno(err, "%s", name);
    for (int64_t number = 1; !rc; number++) {
        ssize_t n = getline(&line, &room, f);
        if (n < 0)
            break;
        while (n && (line[n - 1] == '\n' || line[n - 1] == '\r'))
            line[--n] = '\0';
        rc = take(ctx, name, number, line, err);
    }
    if (!rc && ferror(f))
        rc = vp_fail_errno(err, "%s", name);
    free(line);
    if (f && !standard)
        fclose(f);
    return rc;
}
