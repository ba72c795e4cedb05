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
    if (t->lost || n >= t->room - t->n) {
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
    enum { ROOM = 1024 };
    struct text *t = calloc(1, sizeof *t);
    FILE *f = NULL;

    if (t && (t->at = malloc(ROOM))) {
        t->room = ROOM;
        f = fopencookie(t, "w", (cookie_io_functions_t){.write = put, .close = done});
    }
    if (!f && t) {
        free(t->at);
        free(t);
    }
    return f;
}

char *vp_text_close(FILE *f, size_t *n)
{
    const bool lost = fclose(f) != 0;
    struct text *t = closed;
    char *text = t->at;

    if (lost || t->lost) {
        free(text);
        text = NULL;
    } else {
        text[t->n] = '\0';
        if (n)
            *n = t->n;
    }
    free(t);
    return text;
}
