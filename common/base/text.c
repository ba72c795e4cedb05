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

/* ---- text of unknown origin, made harmless ---- */

/* Length of the well-formed UTF-8 sequence at s, 0 if there is none. */
static int utf8_length(const unsigned char *s)
{
    const int n = s[0] < 0x80 ? 1 : s[0] >= 0xc2 && s[0] < 0xe0 ? 2 : s[0] >= 0xe0 && s[0] < 0xf0 ? 3
                : s[0] >= 0xf0 && s[0] < 0xf5 ? 4 : 0;
    for (int i = 1; i < n; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) || (s[0] == 0xf0 && s[1] < 0x90)
        || (s[0] == 0xf4 && s[1] > 0x8f))
        return 0;
    return n;
}

/* The control character at s, or -1; C1 is U+0080 to U+009F. */
static int control(const unsigned char *s, int length)
{
    return length == 1 && (*s < 0x20 || *s == 0x7f) ? *s : length == 2 && *s == 0xc2 && s[1] < 0xa0 ? s[1] : -1;
}

static void put_safe(FILE *out, const char *text, bool json)
{
    for (const unsigned char *s = (const unsigned char *)text; *s;) {
        const int n = utf8_length(s), c = control(s, n), bytes = n ? n : 1;
        if (n && c < 0) {
            if (json && (*s == '"' || *s == '\\'))
                putc('\\', out);
            fwrite(s, 1, (size_t)n, out);
        } else if (!json) {
            for (int i = 0; i < bytes; i++)
                fprintf(out, "\\x%02x", s[i]);
        } else if (!n) {
            fputs("\\ufffd", out);
        } else if (c == '\n' || c == '\t') {
            fputs(c == '\n' ? "\\n" : "\\t", out);
        } else {
            fprintf(out, "\\u%04x", (unsigned)c);
        }
        s += bytes;
    }
}

void vp_put_plain(FILE *out, const char *text)
{
    put_safe(out, text, false);
}

void vp_json_string(FILE *out, const char *text)
{
    putc('"', out);
    put_safe(out, text ? text : "", true);
    putc('"', out);
}
