/* SPDX-License-Identifier: BSD-3-Clause */
/* Reports errors of GCC's OpenMP runtime, which prints and exits by itself, in our form. The linker redirects its calls
 * here if the runtime is linked statically (Makefile). */
#include "base/err.h"
#include "app/tool.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void __wrap_gomp_error(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void __wrap_gomp_fatal(const char *fmt, ...) __attribute__((format(printf, 1, 2), noreturn));

int vp_openmp_status = VP_ERESOURCE;

static void print_message(const char *word, const char *fmt, va_list ap)
{
    char text[512];
    vsnprintf(text, sizeof text, fmt, ap);
    fprintf(stderr, "%s: %s: OpenMP: %s\n", program_invocation_short_name, word, text);
}

/* Returns: an environment variable is malformed. */
void __wrap_gomp_error(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    print_message("warning", fmt, ap);
    va_end(ap);
}

/* Does not return. Usual cause: a thread could not be created. */
void __wrap_gomp_fatal(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    print_message("error", fmt, ap);
    va_end(ap);
    fprintf(stderr, "%s: hint: use fewer --threads, or allow more\n", program_invocation_short_name);
    exit(vp_openmp_status);
}
