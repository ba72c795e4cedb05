/* SPDX-License-Identifier: BSD-3-Clause */
/* Recording errors. The first one wins: what follows a failure is usually its echo. */
#include "base/err.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static int record(struct vp_err *err, int code, const char *fmt, va_list ap)
    __attribute__((format(printf, 3, 0)));

static int record(struct vp_err *err, int code, const char *fmt, va_list ap)
{
    if (!err || err->code)
        return 0;
    err->code = code;
    err->hint[0] = '\0';
    vsnprintf(err->msg, sizeof err->msg, fmt, ap);
    return 1;
}

int vp_fail(struct vp_err *err, int code, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    record(err, code, fmt, ap);
    va_end(ap);
    return -1;
}

int vp_fail_errno(struct vp_err *err, const char *fmt, ...)
{
    const int number = errno;
    va_list ap;
    va_start(ap, fmt);
    const int recorded = record(err, VP_ERUN, fmt, ap);
    va_end(ap);
    if (recorded) {
        char text[128];
        const size_t n = strlen(err->msg);
        /* the GNU strerror_r: thread safe, may return a constant instead of filling text */
        snprintf(err->msg + n, sizeof err->msg - n, ": %s", strerror_r(number, text, sizeof text));
    }
    return -1;
}

int vp_hint(struct vp_err *err, const char *fmt, ...)
{
    if (err && err->code && !err->hint[0]) {
        va_list ap;
        va_start(ap, fmt);
        vsnprintf(err->hint, sizeof err->hint, fmt, ap);
        va_end(ap);
    }
    return -1;
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
