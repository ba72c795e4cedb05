/* SPDX-License-Identifier: BSD-3-Clause */
/* Metadata as ordered `key = value` lines, and their text form in tag 270. */
#include "base/text.h"
#include "stack/foreign.h"
#include "stack/stack.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_LINE "voxpipe = 1"

static bool blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

/* Strips blanks at both ends, in place. */
static char *trim(char *s)
{
    while (blank(*s))
        s++;
    for (char *end = s + strlen(s); end > s && blank(end[-1]);)
        *--end = '\0';
    return s;
}

static bool key_ok(const char *key)
{
    return *key && !key[strspn(key, "abcdefghijklmnopqrstuvwxyz0123456789._-")];
}

static bool value_ok(const char *value)
{
    return !strchr(value, '\n') && !blank(value[0]) && (!*value || !blank(value[strlen(value) - 1]));
}

static int find(const struct vp_meta *m, const char *key)
{
    for (int i = 0; i < m->n; i++)
        if (!strcmp(m->key[i], key))
            return i;
    return -1;
}

/* Removes all lines whose key begins with `key`, and ends with it if `whole`, but line `but`; in one pass. */
static void remove_lines(struct vp_meta *m, const char *key, bool whole, int but)
{
    const size_t n = strlen(key);
    int kept = 0;
    for (int i = 0; i < m->n; i++) {
        if (i != but && !strncmp(m->key[i], key, n) && !(whole && m->key[i][n])) {
            free(m->key[i]);
            free(m->value[i]);
            continue;
        }
        m->key[kept] = m->key[i];
        m->value[kept] = m->value[i];
        kept++;
    }
    m->n = kept; /* the capacity rule of grow(): arrays larger than it thinks are only reallocated smaller */
}

/* Makes room: capacity is the power of two not below n, so that it need not be stored. */
static bool grow(struct vp_meta *m)
{
    if (m->n & (m->n - 1))
        return true;
    const size_t cap = m->n ? 2 * (size_t)m->n : 1;
    char **key = realloc(m->key, cap * sizeof *key);
    if (key)
        m->key = key;
    char **value = realloc(m->value, cap * sizeof *value);
    if (value)
        m->value = value;
    return key && value;
}

const char *vp_meta_get(const struct vp_meta *m, const char *key)
{
    const int i = find(m, key);
    return i < 0 ? NULL : m->value[i];
}

int vp_meta_set(struct vp_meta *m, const char *key, const char *value)
{
    const int at = find(m, key);
    if (value && at >= 0) {
        char *v = value_ok(value) ? strdup(value) : NULL;
        if (!v)
            return -1;
        free(m->value[at]);
        m->value[at] = v;
    } else if (value) {
        return vp_meta_add(m, key, value);
    }
    remove_lines(m, key, true, value ? at : -1);
    return 0;
}

int vp_meta_setf(struct vp_meta *m, const char *key, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    char *value = NULL;
    const int n = vasprintf(&value, fmt, ap);
    va_end(ap);
    if (n < 0)
        return -1;
    const int rc = vp_meta_set(m, key, value);
    free(value);
    return rc;
}

int vp_meta_add(struct vp_meta *m, const char *key, const char *value)
{
    if (!key_ok(key) || !value_ok(value) || !grow(m))
        return -1;
    char *k = strdup(key), *v = strdup(value);
    if (!k || !v) {
        free(k);
        free(v);
        return -1;
    }
    m->key[m->n] = k;
    m->value[m->n] = v;
    m->n++;
    return 0;
}

void vp_meta_remove_prefix(struct vp_meta *m, const char *prefix)
{
    remove_lines(m, prefix, false, -1);
}

int vp_meta_copy(struct vp_meta *dst, const struct vp_meta *src)
{
    struct vp_meta copy = {0, NULL, NULL};
    for (int i = 0; i < src->n; i++) {
        if (vp_meta_add(&copy, src->key[i], src->value[i])) {
            vp_meta_free(&copy);
            return -1;
        }
    }
    vp_meta_free(dst);
    *dst = copy;
    return 0;
}

void vp_meta_free(struct vp_meta *m)
{
    for (int i = 0; i < m->n; i++) {
        free(m->key[i]);
        free(m->value[i]);
    }
    free(m->key);
    free(m->value);
    *m = (struct vp_meta){0, NULL, NULL};
}

bool vp_meta_numbers(const struct vp_meta *m, const char *key, int n, double *out)
{
    const char *s = vp_meta_get(m, key);
    if (!s)
        return false;
    for (int i = 0; i < n; i++) {
        char *end;
        const double v = strtod(s, &end);
        if (end == s || (*end && !blank(*end)))
            return false;
        out[i] = v;
        s = end;
    }
    while (blank(*s))
        s++;
    return !*s;
}

char *vp_meta_format(const struct vp_meta *m, const char *mark)
{
    FILE *f = vp_text_open();
    if (!f)
        return NULL;
    fprintf(f, "%s" FIRST_LINE "\n", mark);
    for (int i = 0; i < m->n; i++)
        fprintf(f, "%s%s = %s\n", mark, m->key[i], m->value[i]);
    return vp_text_close(f, NULL);
}

/* Lines that begin with `mark`. */
static int parse_lines(struct vp_meta *m, char *text, const char *mark)
{
    const size_t skip = strlen(mark);
    for (char *line; (line = strsep(&text, "\n"));) {
        char *eq = strncmp(line, mark, skip) ? NULL : strchr(line + skip, '=');
        if (!eq)
            continue;
        *eq = '\0';
        const char *key = trim(line + skip);
        /* A line that another program damaged is not worth losing the image for. */
        if (key_ok(key) && vp_meta_add(m, key, trim(eq + 1)))
            return -1;
    }
    return 0;
}

/* Returns our lines, after their first one; NULL if there are none. In a description that begins as ImageJ's they are
 * comments. */
static char *own_lines(char *text, const char **mark)
{
    const bool imagej = vp_is_imagej(text);
    *mark = imagej ? VP_META_MARK : "";
    char *p = imagej ? strstr(text, "\n" VP_META_MARK FIRST_LINE) : text;
    p = p && imagej ? p + strlen("\n" VP_META_MARK) : p;
    if (!p || strncmp(p, FIRST_LINE, strlen(FIRST_LINE)))
        return NULL;
    p += strlen(FIRST_LINE);
    return *p && !strchr("\r\n", *p) ? NULL : p + strcspn(p, "\n");
}

int vp_meta_parse(struct vp_meta *m, const char *text, size_t len, const struct vp_page_tags *t)
{
    const char *mark;
    char *copy = strndup(text, len), *lines = copy ? own_lines(copy, &mark) : NULL;
    const int rc = !copy ? -1 : lines ? parse_lines(m, lines, mark) : vp_meta_foreign(m, copy, t);
    free(copy);
    return rc;
}
