/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/xml.h"

#include <stdio.h>
#include <string.h>

static const char blanks[] = " \t\r\n";

/* Returns the '>' of a tag, the '<' that begins another one before it, or the end of the text. */
static const char *find_end(const char *p)
{
    char quote = '\0';

    for (; *p && (quote || (*p != '<' && *p != '>')); p++)
        if (quote ? *p == quote : *p == '"' || *p == '\'')
            quote = quote ? '\0' : *p;
    return p;
}

bool vp_xml_next(const char **at, struct vp_xml_tag *t)
{
    for (const char *p; (p = strchr(*at, '<')); ) {
        if (!strncmp(p, "<!--", 4)) {
            p = strstr(p + 4, "-->");
            if (!p)
                return false;
            *at = p + 3;
            continue;
        }
        const char *const stop = find_end(p + 1);
        *at = stop + (*stop == '>');
        if (*stop == '>' && (p[1] == '?' || p[1] == '!'))
            continue;
        *t = (struct vp_xml_tag){.end = p[1] == '/', .empty = stop[-1] == '/', .stop = *stop == '>' ? stop : NULL};
        t->name = t->attributes = p + 1 + t->end;
        for (; t->attributes < stop && !strchr(" \t\r\n/", *t->attributes); t->attributes++)
            if (*t->attributes == ':')
                t->name = t->attributes + 1;
        t->length = (size_t)(t->attributes - t->name);
        return true;
    }
    return false;
}

bool vp_xml_is(const struct vp_xml_tag *t, const char *name)
{
    return t->length == strlen(name) && !memcmp(t->name, name, t->length);
}

bool vp_xml_attribute(const struct vp_xml_tag *t, const char *name, char *value, size_t size)
{
    const size_t n = strlen(name);
    const char *close;

    for (const char *p = t->attributes, *eq; (eq = memchr(p, '=', (size_t)(t->stop - p))); p = close + 1) {
        const char *open = eq + 1 + strspn(eq + 1, blanks);
        if (*open != '"' && *open != '\'')
            return false;
        close = memchr(open + 1, *open, (size_t)(t->stop - open - 1));
        if (!close)
            return false;
        p += strspn(p, blanks);
        if (!strncmp(p, name, n) && p + n + strspn(p + n, blanks) == eq) {
            const size_t length = (size_t)(close - open - 1);
            snprintf(value, size, "%.*s", (int)(length < size ? length : size - 1), open + 1);
            return true;
        }
    }
    return false;
}
