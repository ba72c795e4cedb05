/* Errors are values: a function that can fail takes a struct vp_err *, fills it and
 * returns -1. Only vp_main() prints it and exits. */
#pragma once

#include <stdarg.h>
#include <stddef.h>

/* Exit status of every program; also the `code` of an error. */
enum {
    VP_OK = 0,       /* done */
    VP_ERUN = 1,     /* the run failed: I/O, bad or cut data, device error */
    VP_EUSAGE = 2,   /* unknown option, bad value, refused terminal, impossible combination */
    VP_ERESOURCE = 3 /* no such device, memory too small for the smallest chunk */
};

struct vp_err {
    int code;        /* VP_ERUN, VP_EUSAGE or VP_ERESOURCE; 0 if no error was recorded */
    char msg[1024];  /* one line, lower case, no full stop, file before detail */
    char hint[512];  /* the remedy, or "" */
};

#define VP_ERR_INIT {0, "", ""}

/* Formats as vsnprintf; a text too long loses its middle, marked with " ... ": names come first, reasons last. */
void vp_format_line(char *out, size_t size, const char *fmt, va_list ap) __attribute__((format(printf, 3, 0)));

/* Records an error (printf style; the first one recorded wins); returns -1. */
int vp_fail(struct vp_err *err, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Does the same with code VP_ERUN and ": " strerror(errno) appended. errno is read first. */
int vp_fail_errno(struct vp_err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Adds the remedy to an error already recorded; returns -1, so `return vp_hint(...)` reads well. */
int vp_hint(struct vp_err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* vp_fail with a remedy that is always the same. */
int vp_fail_hint(struct vp_err *err, int code, const char *hint, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* Keeps another thread's error, from any thread, unless one is recorded already. Returns -1, for loops with
 * reduction(min : rc). */
int vp_err_keep(struct vp_err *err, const struct vp_err *other);
