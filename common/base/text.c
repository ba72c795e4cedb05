/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/text.h"

#include "base/err.h"
#include "base/places.h"
#include "base/size.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

/* Not getline(3): that of glibc 2.36 takes a lack of memory for the end of the file. */
enum { LONGEST_LINE = 1 << 20, MOST_BYTES = 1 << 30 };

struct lines {
    const char *name;
    int fd;
    bool ended;                 /* nothing more is to be read */
    char *text;                 /* room for LONGEST_LINE and a 0 */
    size_t at, n;               /* the first byte that is not taken, and the first that is not read yet */
    int64_t number, bytes;      /* number of the line taken last, from 1; bytes read in all */
};

/* Reads on after what is not taken. */
static int read_on(struct lines *l, struct vp_err *err)
{
    memmove(l->text, l->text + l->at, l->n - l->at);
    l->n -= l->at;
    l->at = 0;
    if (l->n == LONGEST_LINE)
        return vp_fail(err, VP_ERUN, "%s: line %lld: expected at most %s, got a longer line", l->name,
                       (long long)l->number, vp_bytes_text(LONGEST_LINE).text);
    ssize_t got;
    do
        got = read(l->fd, l->text + l->n, LONGEST_LINE - l->n);
    while (got < 0 && errno == EINTR);
    if (got < 0)
        return vp_fail_errno(err, "%s", l->name);
    l->ended = got == 0;
    l->n += (size_t)got;
    l->bytes += got;
    return l->bytes <= MOST_BYTES ? 0
                                  : vp_fail(err, VP_ERUN, "%s: expected a list of at most %s, got more", l->name,
                                            vp_bytes_text(MOST_BYTES).text);
}

/* Puts the next line, without its end, into *line: 1, 0 at the end of the file, or -1. */
static int next_line(struct lines *l, char **line, struct vp_err *err)
{
    char *end;
    l->number++;
    for (size_t seen = 0; !(end = memchr(l->text + l->at + seen, '\n', l->n - l->at - seen)) && !l->ended;) {
        seen = l->n - l->at;
        if (read_on(l, err))
            return -1;
        if (memchr(l->text + seen, 0, l->n - seen))
            break;
    }
    if (l->at == l->n)
        return 0;
    *line = l->text + l->at;
    char *last = end ? end : l->text + l->n;
    if (memchr(*line, 0, (size_t)(last - *line)))
        return vp_fail(err, VP_ERUN, "%s: line %lld: expected text, got a byte of zero", l->name, (long long)l->number);
    l->at = (size_t)(last - l->text) + (end != NULL);
    while (last > *line && last[-1] == '\r')
        last--;
    *last = '\0';
    return 1;
}

int vp_text_lines(const char *path,
                  int (*take)(void *ctx, const char *name, int64_t number, char *line, struct vp_err *err), void *ctx,
                  struct vp_err *err)
{
    const bool standard = !strcmp(path, "-");
    struct lines l = {.name = vp_text_name(path),
                      .fd = standard ? STDIN_FILENO : vp_open_fd(path, O_RDONLY | O_CLOEXEC, 0)};
    if (l.fd < 0)
        return vp_fail_errno(err, "%s", l.name);
    l.text = vp_alloc_raw(LONGEST_LINE + 1, 1, l.name, err);
    char *line;
    int got = l.text ? 1 : -1, rc = 0;
    while (got > 0 && !rc) {
        got = next_line(&l, &line, err);
        if (got > 0)
            rc = take(ctx, l.name, l.number, line, err);
    }
    free(l.text);
    if (!standard)
        close(l.fd);
    return rc ? rc : got;
}

int vp_text_number(char *line, char key[64], double *number)
{
    char *const comment = strchr(line, '#'), rest[2];
    if (comment)
        *comment = 0;
    if (!line[strspn(line, " \t\r\n")])
        return 0;
    return sscanf(line, " %63[A-Za-z0-9_] = %lf %1s", key, number, rest) == 2 && *number >= 0 && isfinite(*number) ? 1 : -1;
}

/* ---- text of unknown origin, made harmless; numbers ---- */

/* Returns the length of the well-formed UTF-8 sequence at s, 0 if there is none. */
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

/* Returns the character of a sequence of that length. */
static int decode(const unsigned char *s, int length)
{
    static const unsigned char first[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    int c = s[0] & first[length];
    for (int i = 1; i < length; i++)
        c = c << 6 | (s[i] & 0x3f);
    return c;
}

/* Finds what does something else than to stand where it is: C0, DEL, C1; ends of lines and paragraphs; and what changes
 * the direction of others (UAX #9, 2), by which a name may look like another. */
static bool is_control(int c)
{
    return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x61c || c == 0x200e || c == 0x200f || (c >= 0x2028 && c <= 0x202e)
           || (c >= 0x2066 && c <= 0x2069);
}

static void put_harmless(FILE *out, const char *text, bool json)
{
    for (const unsigned char *s = (const unsigned char *)text; *s;) {
        const int n = utf8_length(s), c = decode(s, n), bytes = n ? n : 1;
        if (n && !is_control(c)) {
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
    put_harmless(out, text, false);
}

void vp_put_escaped(FILE *out, const char *text)
{
    put_harmless(out, text, true);
}

const char *vp_format_number(char *buf, double v)
{
    if (isnan(v))
        return snprintf(buf, 32, "nan"), buf;
    for (int digits = 15; digits <= 17; digits++) { /* %g drops trailing zeros */
        snprintf(buf, 32, "%.*g", digits, v);
        if (strtod(buf, NULL) == v)
            break;
    }
    return buf;
}
