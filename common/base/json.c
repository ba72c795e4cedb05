/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/json.h"
#include "base/text.h"

#include <assert.h>
#include <math.h>
#include <stdarg.h>

static void put_string(FILE *out, const char *text)
{
    putc('"', out);
    vp_put_escaped(out, text);
    putc('"', out);
}

/* Writes what precedes a value. */
static void begin(struct vp_json *j, const char *key)
{
    const bool comma = j->some[j->depth];

    if (j->lines && j->depth == 1)
        fputs(comma ? ",\n " : "\n ", j->out);
    else if (comma)
        fputs(", ", j->out);
    j->some[j->depth] = true;
    if (key) {
        put_string(j->out, key);
        fputs(": ", j->out);
    }
}

void vp_json_open(struct vp_json *j, const char *key, char bracket)
{
    begin(j, key);
    putc(bracket, j->out);
    assert(j->depth < VP_JSON_DEEPEST);
    j->some[++j->depth] = false;
}

void vp_json_close(struct vp_json *j, char bracket)
{
    assert(j->depth > 0);
    if (j->lines && j->depth == 1)
        putc('\n', j->out);
    j->depth--;
    putc(bracket, j->out);
}

void vp_json_string(struct vp_json *j, const char *key, const char *text)
{
    begin(j, key);
    put_string(j->out, text ? text : "");
}

void vp_json_number(struct vp_json *j, const char *key, double v)
{
    char buf[32];

    vp_json_print(j, key, "%s", isfinite(v) ? vp_format_number(buf, v) : "null");
}

void vp_json_print(struct vp_json *j, const char *key, const char *fmt, ...)
{
    va_list ap;

    begin(j, key);
    va_start(ap, fmt);
    vfprintf(j->out, fmt, ap);
    va_end(ap);
}
