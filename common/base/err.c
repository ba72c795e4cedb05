/* SPDX-License-Identifier: BSD-3-Clause */
/* Recording errors. The first one wins: what follows a failure is usually its echo. */
#include "base/err.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* Room for two of the longest names. */
enum { LONGEST = 1 << 14 };

/* Keeps characters of several bytes whole. */
static bool inside_character(char c)
{
    return ((unsigned char)c & 0xc0) == 0x80;
}

static void shorten(char *out, size_t size, const char *text)
{
    static const char gap[] = " ... ";
    const size_t n = strlen(text), room = size - sizeof gap;
    if (n < size) {
        memcpy(out, text, n + 1);
        return;
    }
    size_t head = room / 3, from = n - (room - head);
    while (head && inside_character(text[head]))
        head--;
    while (inside_character(text[from]))
        from++;
    memcpy(out, text, head);
    memcpy(out + head, gap, sizeof gap - 1);
    memcpy(out + head + sizeof gap - 1, text + from, n - from + 1);
}

void vp_format_line(char *out, size_t size, const char *fmt, va_list ap)
{
    char text[LONGEST];
    vsnprintf(text, sizeof text, fmt, ap);
    shorten(out, size, text);
}

/* Fills an error; number: an errno whose text follows, or 0. */
static __attribute__((format(printf, 4, 0)))
int record(struct vp_err *err, int code, int number, const char *fmt, va_list ap)
{
    char text[LONGEST + 160];
    if (!err || err->code)
        return -1;
    err->code = code;
    err->hint[0] = '\0';
    vsnprintf(text, LONGEST, fmt, ap);
    if (number) {
        char reason[128];
        const size_t n = strlen(text);
        /* the GNU strerror_r: thread safe, may return a constant instead of filling its buffer */
        snprintf(text + n, sizeof text - n, ": %s", strerror_r(number, reason, sizeof reason));
    }
    shorten(err->msg, sizeof err->msg, text);
    return -1;
}

int vp_fail(struct vp_err *err, int code, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    record(err, code, 0, fmt, ap);
    va_end(ap);
    return -1;
}

int vp_fail_errno(struct vp_err *err, const char *fmt, ...)
{
    const int number = errno;
    va_list ap;
    va_start(ap, fmt);
    record(err, VP_ERUN, number, fmt, ap);
    va_end(ap);
    return -1;
}

int vp_hint(struct vp_err *err, const char *fmt, ...)
{
    if (err && err->code && !err->hint[0]) {
        va_list ap;
        va_start(ap, fmt);
        vp_format_line(err->hint, sizeof err->hint, fmt, ap);
        va_end(ap);
    }
    return -1;
}

int vp_fail_hint(struct vp_err *err, int code, const char *hint, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    record(err, code, 0, fmt, ap);
    va_end(ap);
    return vp_hint(err, "%s", hint);
}

int vp_err_keep(struct vp_err *err, const struct vp_err *other)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

    pthread_mutex_lock(&lock);
    if (!err->code)
        *err = *other;
    pthread_mutex_unlock(&lock);
    return -1;
}
