/* SPDX-License-Identifier: BSD-3-Clause */
/* ImageDescription as ImageJ and others write it. ImageJ: lines `key=value`, the first `ImageJ=VERSION`;
 * planes are stored channel fastest, then slice, then frame. */
#include "stack/foreign.h"
#include "base/size.h"
#include "base/text.h"
#include "stack/axes.h"
#include "stack/tiff.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LONGEST_DESCRIPTION = 4096 }; /* longer texts are other programs' private data (OME-XML, tables) */

/* The value of `key=` at the start of a line into buf; false if absent. */
static bool line_value(const char *line, const char *key, char *buf, size_t size)
{
    const size_t n = strlen(key);
    while (strncmp(line, key, n) || line[n] != '=') {
        line = strchr(line, '\n');
        if (!line)
            return false;
        line++;
    }
    line += n + 1;
    snprintf(buf, size, "%.*s", (int)vp_min64((int64_t)strcspn(line, "\r\n"), (int64_t)size - 1), line);
    return true;
}

static double line_number(const char *text, const char *key, double otherwise)
{
    char buf[64], *end;
    if (!line_value(text, key, buf, sizeof buf))
        return otherwise;
    const double v = strtod(buf, &end);
    return end == buf || !isfinite(v) ? otherwise : v;
}

bool vp_is_imagej(const char *text)
{
    return !strncmp(text, "ImageJ=", 7) && text[7];
}

int64_t vp_imagej_images(const char *text)
{
    const double n = vp_is_imagej(text) ? line_number(text, "images", 1) : 1;
    return n >= 1 && n < 1e15 ? (int64_t)n : 1;
}

double vp_unit_mm(const char *unit)
{
    static const struct {
        const char *name;
        double mm;
    } units[] = {
        {"mm", 1},           {"millimeter", 1}, {"micron", 1e-3},   {"microns", 1e-3},    {"um", 1e-3},
        {"\xc2\xb5m", 1e-3}, {"\xb5m", 1e-3},   {"\\u00B5m", 1e-3}, {"micrometer", 1e-3}, {"nm", 1e-6},
        {"cm", 10},          {"m", 1000},       {"inch", 25.4},     {"in", 25.4},
        {"\xce\xbcm", 1e-3}, {"pm", 1e-9},      {"\xc3\x85", 1e-7}, {"angstrom", 1e-7},
    };
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (!strcmp(unit, units[i].name))
            return units[i].mm;
    return 0;
}

int vp_meta_axes(struct vp_meta *m, const char *const *name, const double *size, int n, double pages)
{
    struct vp_axes a = {.sized = true};
    double product = 1;
    for (int i = 0; i < n; i++) {
        if (!(size[i] > 1 && size[i] < 1e15 && size[i] == floor(size[i])))
            continue;
        strcpy(a.name[a.n], name[i]);
        a.size[a.n++] = (int64_t)size[i];
        product *= size[i];
    }
    if (!a.n && pages > 1) { /* a plain stack */
        strcpy(a.name[a.n++], "z");
        product = pages;
    }
    if (pages > 0 && product != pages) /* sizes that are not those of the pages are not believed */
        return vp_axes_lose(m);
    if (vp_axes_set(m, &a))
        return -1;
    /* that of one axis is compared with the pages when these are counted */
    return a.n == 1 ? vp_meta_setf(m, "sizes", "%.0f", product) : 0;
}

/* Of ImageJ's axes behind x and y, and of ours, in the order in which they lie. */
static const char *const counts[] = {"channels", "slices", "frames"}, *const axes[] = {"channel", "z", "time"};

static int imagej(struct vp_meta *m, const char *text, const struct vp_resolution *r)
{
    const double images = line_number(text, "images", 1);
    double size[3];
    for (int i = 0; i < 3; i++)
        size[i] = line_number(text, counts[i], 1);
    if (vp_meta_axes(m, axes, size, 3, images > 1 ? images : 0))
        return -1;

    char unit[64] = "";
    line_value(text, "unit", unit, sizeof unit);
    const double mm = vp_unit_mm(unit);
    if (!(mm > 0) || !r || !(r->x > 0) || !(r->y > 0))
        return 0;
    /* as ImageJ does: numbers per cm where micrometres are spoken of */
    const double flat = r->unit == RESOLUTION_CM && mm == 1e-3 ? 10 : mm;
    const double spacing = fabs(line_number(text, "spacing", 0));
    return vp_meta_voxel(m, flat / r->x, flat / r->y, mm * spacing);
}

/* tifffile: {"shape": [3, 4, 16, 20], "axes": "TZYX"}, slowest first. Pages along an axis with another name than
 * those known here, or along several without names, are not understood. */
static int shaped(struct vp_meta *m, const char *text)
{
    static const char start[] = "{\"shape\": [", word[] = "\"axes\": \"";
    double shape[VP_AXES_MAX], size[VP_AXES_MAX];
    const char *name[VP_AXES_MAX];
    int n = 0, known = 0;
    if (strncmp(text, start, strlen(start)))
        return 0;
    for (const char *p = text + strlen(start); n < VP_AXES_MAX && *p >= '0' && *p <= '9'; n++) {
        for (shape[n] = 0; *p >= '0' && *p <= '9'; p++)
            shape[n] = 10 * shape[n] + (*p - '0');
        p += strspn(p, ", ");
    }
    const char *letters = strstr(text, word);
    letters = letters ? letters + strlen(word) : "";
    const bool lettered = strcspn(letters, "\"") == (size_t)n && letters[n];
    const int yx = lettered && n > 2 && letters[n - 1] == 'S' ? n - 3 : n - 2; /* where these stand: samples may follow */
    const bool named = lettered && yx >= 0 && !strncmp(letters + yx, "YX", 2);
    int pages = 0; /* axes of pages that are longer than one */
    for (int i = yx - 1; i >= 0; i--) {
        if (shape[i] == 1 || (named && letters[i] == 'S'))
            continue;
        pages++;
        const char letter = named ? letters[i] : '?';
        size[known] = shape[i];
        name[known] = letter == 'C' ? "channel" : letter == 'Z' ? "z" : letter == 'T' ? "time" : NULL;
        known += name[known] != NULL;
    }
    return (pages > 1 || named) && known < pages ? vp_axes_lose(m)
           : known && known == pages  ? vp_meta_axes(m, name, size, known, 0) : 0;
}

/* One line: newlines, control characters and backslashes escaped, blanks at the ends cut. */
static int describe(struct vp_meta *m, const char *text)
{
    while (*text && (unsigned char)*text <= ' ')
        text++;
    size_t len = strlen(text);
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

int vp_meta_foreign(struct vp_meta *m, const char *text, const struct vp_resolution *r)
{
    const int rc = vp_is_imagej(text) ? imagej(m, text, r) : vp_meta_ome(m, text);
    return rc < 0 || (!rc && shaped(m, text)) ? -1 : describe(m, text);
}

int vp_meta_voxel(struct vp_meta *m, double x, double y, double z)
{
    const int rc = z > 0 ? vp_meta_setf(m, "voxel", "%.9g %.9g %.9g", x, y, z)
                         : vp_meta_setf(m, "voxel", "%.9g %.9g", x, y);
    return rc || vp_meta_set(m, "unit", "mm") ? -1 : 0;
}

bool vp_voxel_mm(const struct vp_meta *m, double v[2])
{
    const char *unit = vp_meta_get(m, "unit");
    double all[3];
    if (!unit || strcmp(unit, "mm") || !(vp_meta_numbers(m, "voxel", 3, all) || vp_meta_numbers(m, "voxel", 2, all)))
        return false;
    memcpy(v, all, 2 * sizeof *v);
    return v[0] > 1e-8 && v[1] > 1e-8 && v[0] < 1e6 && v[1] < 1e6;
}

/* channels, slices and frames, where the pages lie as ImageJ's do. */
static void put_counts(FILE *f, const struct vp_stack *s)
{
    struct vp_axes a;
    vp_axes_get(s, &a);
    if (!a.n && s->pages > 1)
        a = (struct vp_axes){.n = 1, .sized = true, .name = {"z"}, .size = {s->pages}};
    int64_t count[3] = {1, 1, 1};
    for (int i = 0, k = 0; i < a.n; i++, k++) {
        while (k < 3 && strcmp(a.name[i], axes[k]))
            k++;
        if (k == 3 || !a.sized)
            return;
        count[k] = a.size[i];
    }
    for (int k = 0; k < 3; k++)
        if (count[k] > 1)
            fprintf(f, "%s=%lld\n", counts[k], (long long)count[k]);
    if (count[0] > 1 || count[2] > 1)
        fputs("hyperstack=true\nmode=grayscale\n", f);
}

char *vp_description(const struct vp_stack *s)
{
    struct vp_axes a;
    char *lines = vp_meta_format(&s->meta, VP_META_MARK);
    FILE *f = lines ? vp_text_open() : NULL;
    if (!f) {
        free(lines);
        return NULL;
    }
    /* images=1 is what lies behind a directory: with more ImageJ would take all pages to lie behind the first. Without
     * it, it would look for the word in our lines. */
    fputs("ImageJ=1.11a\nimages=1\n", f);
    put_counts(f, s);
    double flat[2], v[3];
    vp_axes_get(s, &a);
    if (vp_voxel_mm(&s->meta, flat)) {
        fputs("unit=um\n", f); /* with a resolution in cm, which others read as it is */
        if ((!a.n || vp_axes_z(&a) >= 0) && vp_meta_numbers(&s->meta, "voxel", 3, v) && v[2] > 0)
            fprintf(f, "spacing=%.10g\n", 1000 * v[2]);
    }
    fputs("loop=false\n", f);
    fputs(lines, f);
    free(lines);
    return vp_text_close(f, NULL);
}
