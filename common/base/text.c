/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/text.h"

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
