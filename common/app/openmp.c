/* SPDX-License-Identifier: BSD-3-Clause */
/* What GCC's OpenMP runtime has to say, in our form: it prints and exits by itself. The Makefile lets the linker
 * send its calls here where the runtime is linked statically. */
#include "base/err.h"
#include "app/tool.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void __wrap_gomp_error(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void __wrap_gomp_fatal(const char *fmt, ...) __attribute__((format(printf, 1, 2), noreturn));

int vp_openmp_status = VP_ERESOURCE;

static void say(const char *word, const char *fmt, va_list ap)
{
    char text[512];
    vsnprintf(text, sizeof text, fmt, ap);
    fprintf(stderr, "%s: %s: OpenMP: %s\n", program_invocation_short_name, word, text);
}

/* The runtime goes on: a variable of the environment that it does not understand. */
void __wrap_gomp_error(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    say("warning", fmt, ap);
    va_end(ap);
}

/* It does not: most often a thread that cannot be had. */
void __wrap_gomp_fatal(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    say("error", fmt, ap);
    va_end(ap);
    fprintf(stderr, "%s: hint: use fewer --threads, or allow more\n", program_invocation_short_name);
    exit(vp_openmp_status);
}
