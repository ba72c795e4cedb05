/* SPDX-License-Identifier: BSD-3-Clause */
/* ImageDescription as ImageJ and others write it. ImageJ: lines `key=value`, the first `ImageJ=VERSION`;
 * planes are stored channel fastest, then slice, then frame. */
#include "stack/foreign.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LONGEST_DESCRIPTION = 4096 }; /* longer texts are other programs' private data (OME-XML, tables) */

/* The value of `key=` at the start of a line into buf; false if absent. */
static bool line_value(const char *text, size_t len, const char *key, char *buf, size_t size)
{
    const size_t key_len = strlen(key);
    const char *end = text + len;
    while (text < end) {
        const char *nl = memchr(text, '\n', (size_t)(end - text));
        const char *stop = nl ? nl : end;
        if ((size_t)(stop - text) > key_len && !memcmp(text, key, key_len) && text[key_len] == '=') {
            const size_t n = (size_t)(stop - text) - key_len - 1;
            snprintf(buf, size, "%.*s", (int)(n < size ? n : size - 1), text + key_len + 1);
            buf[strcspn(buf, "\r")] = '\0';
            return true;
        }
        text = nl ? nl + 1 : end;
    }
    return false;
}

static double line_number(const char *text, size_t len, const char *key, double otherwise)
{
    char buf[64], *end;
    if (!line_value(text, len, key, buf, sizeof buf))
        return otherwise;
    const double v = strtod(buf, &end);
    return end == buf || !isfinite(v) ? otherwise : v;
}

static bool is_imagej(const char *text, size_t len)
{
    return len > 7 && !memcmp(text, "ImageJ=", 7);
}

int64_t vp_imagej_images(const char *text, size_t len)
{
    const double n = is_imagej(text, len) ? line_number(text, len, "images", 1) : 1;
    return n >= 1 && n < 1e15 ? (int64_t)n : 1;
}

/* Millimetres in one of the units that ImageJ writes, 0 if it is not a length. */
static double unit_mm(const char *unit)
{
    static const struct {
        const char *name;
        double mm;
    } units[] = {
        {"mm", 1},           {"millimeter", 1}, {"micron", 1e-3},   {"microns", 1e-3},    {"um", 1e-3},
        {"\xc2\xb5m", 1e-3}, {"\xb5m", 1e-3},   {"\\u00B5m", 1e-3}, {"micrometer", 1e-3}, {"nm", 1e-6},
        {"cm", 10},          {"m", 1000},       {"inch", 25.4},     {"in", 25.4},
    };
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (!strcmp(unit, units[i].name))
            return units[i].mm;
    return 0;
}

static int imagej(struct vp_meta *m, const char *text, size_t len, double xres, double yres)
{
    static const struct {
        const char *key, *axis;
    } order[] = {{"channels", "channel"}, {"slices", "z"}, {"frames", "time"}};
    const double images = line_number(text, len, "images", 1);
    char axes[64] = "x y";
    double size[3], product = 1;
    int n = 0;
    for (int i = 0; i < 3; i++) {
        const double v = line_number(text, len, order[i].key, 1);
        if (!(v > 1 && v < 1e15 && v == floor(v)))
            continue;
        strcat(strcat(axes, " "), order[i].axis);
        product *= size[n++] = v;
    }
    /* A plain stack may say only images=N; sizes that do not multiply to it are not believed. */
    if (!n && images > 1)
        strcat(axes, " z");
    else if (n && product != images)
        strcpy(axes, images > 1 ? "x y z" : "x y"), n = 0;
    if (vp_meta_set(m, "axes", axes))
        return -1;
    if (n == 2 && vp_meta_setf(m, "sizes", "%.0f %.0f", size[0], size[1]))
        return -1;
    if (n == 3 && vp_meta_setf(m, "sizes", "%.0f %.0f %.0f", size[0], size[1], size[2]))
        return -1;

    char unit[64] = "";
    line_value(text, len, "unit", unit, sizeof unit);
    const double mm = unit_mm(unit);
    if (!(mm > 0) || !(xres > 0) || !(yres > 0))
        return 0;
    const double spacing = fabs(line_number(text, len, "spacing", 0));
    const int rc = spacing > 0
                       ? vp_meta_setf(m, "voxel", "%.9g %.9g %.9g", mm / xres, mm / yres, mm * spacing)
                       : vp_meta_setf(m, "voxel", "%.9g %.9g", mm / xres, mm / yres);
    return rc || vp_meta_set(m, "unit", "mm") ? -1 : 0;
}

/* One line: newlines, control characters and backslashes escaped, blanks at the ends cut. */
static int describe(struct vp_meta *m, const char *text, size_t len)
{
    while (len && (unsigned char)text[0] <= ' ')
        text++, len--;
    while (len && (unsigned char)text[len - 1] <= ' ')
        len--;
    if (!len || len >= LONGEST_DESCRIPTION)
        return 0;
    char *value = malloc(4 * len + 1), *p = value;
    if (!value)
        return -1;
    for (size_t i = 0; i < len; i++) {
        const unsigned char c = (unsigned char)text[i];
        if (c == '\n')
            p = stpcpy(p, "\\n");
        else if (c == '\\')
            p = stpcpy(p, "\\\\");
        else if (c == '\t')
            *p++ = ' ';
        else if (c < ' ' || c == 0x7f)
            p += c == '\r' ? 0 : sprintf(p, "\\x%02x", c);
        else
            *p++ = (char)c;
    }
    *p = '\0';
    const int rc = vp_meta_set(m, "description", value);
    free(value);
    return rc;
}

int vp_meta_foreign(struct vp_meta *m, const char *text, size_t len, double xres, double yres)
{
    if (is_imagej(text, len) && imagej(m, text, len, xres, yres))
        return -1;
    return describe(m, text, len);
}
