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

/* Copies the value of `key=` at the start of a line into buf; false if absent. */
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

struct unit {
    const char *name;
    double mm;
};

double vp_unit_mm(const char *unit)
{
    /* all of OME's UnitsLength but pixels; micro and Angstrom in all ways of writing them */
    static const struct unit symbols[] = {
        {"mm", 1},      {"um", 1e-3},   {"\xc2\xb5m", 1e-3}, {"\xce\xbcm", 1e-3}, {"\xb5m", 1e-3}, {"\\u00B5m", 1e-3},
        {"nm", 1e-6},   {"pm", 1e-9},   {"fm", 1e-12},       {"am", 1e-15},       {"zm", 1e-18},    {"ym", 1e-21},
        {"cm", 10},     {"dm", 100},    {"m", 1e3},          {"dam", 1e4},        {"hm", 1e5},      {"km", 1e6},
        {"Mm", 1e9},    {"Gm", 1e12},   {"Tm", 1e15},        {"Pm", 1e18},        {"Em", 1e21},     {"Zm", 1e24},
        {"Ym", 1e27},   {"A", 1e-7},    {"\xc3\x85", 1e-7},  {"\xe2\x84\xab", 1e-7}, {"\xc5", 1e-7}, {"\\u00C5", 1e-7},
        {"in", 25.4},   {"thou", 25.4e-3}, {"li", 25.4 / 12}, {"pt", 25.4 / 72},  {"ft", 304.8},    {"yd", 914.4},
        {"mi", 1609344}, {"ua", 149597870700e3}, {"ly", 9.4607304725808e18}, {"pc", 3.0856775814913673e19},
    };
    static const struct unit words[] = { /* one, or with an s; lower or upper case */
        {"millimeter", 1},     {"millimetre", 1},    {"micron", 1e-3},   {"micrometer", 1e-3}, {"micrometre", 1e-3},
        {"nanometer", 1e-6},   {"nanometre", 1e-6},  {"picometer", 1e-9}, {"picometre", 1e-9}, {"angstrom", 1e-7},
        {"centimeter", 10},    {"centimetre", 10},   {"meter", 1e3},     {"metre", 1e3},       {"inch", 25.4},
        {"kilometer", 1e6},    {"kilometre", 1e6},
    };
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++)
        if (!strcmp(unit, symbols[i].name))
            return symbols[i].mm;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        const size_t n = strlen(words[i].name);
        const char *const rest = strncasecmp(unit, words[i].name, n) ? "?" : unit + n;
        if (!*rest || !strcasecmp(rest, "s") || !strcasecmp(rest, "es"))
            return words[i].mm;
    }
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

/* ImageJ's axes after x and y, and ours, in the order in which they lie unless `order` says another. */
static const char *const counts[] = {"channels", "slices", "frames"}, *const axes[] = {"channel", "z", "time"};

/* Finds the order of the axes after x and y, fastest first, as numbers of those above: "zct", also with xy in front.
 * False if what is said is no order. */
static bool order_of(const char *text, int order[3])
{
    static const char letters[] = "czt";
    char said[16] = "czt";
    line_value(text, "order", said, sizeof said);
    const char *p = said + (strncasecmp(said, "xy", 2) ? 0 : 2);
    int seen = 0;
    for (int i = 0; i < 3; i++) {
        const char *at = p[i] ? strchr(letters, p[i] | 0x20) : NULL;
        if (!at)
            return false;
        order[i] = (int)(at - letters);
        seen |= 1 << order[i];
    }
    return seen == 7 && !p[3];
}

/* Finds the millimetres in the unit that a line says, or else in that of the line `unit=`; 0 if it is none. */
static double line_unit(const char *text, const char *key)
{
    char unit[64] = "";
    if (!line_value(text, key, unit, sizeof unit))
        line_value(text, "unit", unit, sizeof unit);
    return vp_unit_mm(unit);
}

/* Makes a scale of ImageJ's calibration: value = c0 + c1 * pixel; a pixel of signed 16 bits is the sample + 32768. It
 * is about grey values of 8 and 16 bits only. Another function than the straight line is no scale, and whatever needs
 * values refuses it. (ij.measure.Calibration, ij.io.FileOpener.) */
static int calibration(struct vp_meta *m, const char *text, const struct vp_page_tags *t)
{
    enum { STRAIGHT_LINE = 0, NOT_CALIBRATED = 20, OPTICAL_DENSITY = 21, SHIFT = 32768 };
    const double cf = line_number(text, "cf", NOT_CALIBRATED), c1 = line_number(text, "c1", NAN);
    double c0 = line_number(text, "c0", NAN);
    char unit[64] = "", clipped[8] = "", number[2][32];
    if (!t || t->samples != 1 || vp_type_size(t->type) > 2 || cf == NOT_CALIBRATED ||
        (cf != OPTICAL_DENSITY && (isnan(c0) || isnan(c1))))
        return 0;
    line_value(text, "zeroclip", clipped, sizeof clipped);
    if (cf != STRAIGHT_LINE || c1 == 0 || !strcmp(clipped, "true"))
        return vp_meta_setf(m, "scale", "ImageJ's calibration cf=%g%s", cf, *clipped ? ", clipped at 0" : "");
    c0 += t->type == VP_I16 ? SHIFT * c1 : 0;
    line_value(text, "vunit", unit, sizeof unit);
    for (char *p = unit; *p; p++)
        *p = (unsigned char)*p < ' ' || *p == 0x7f ? '?' : *p;
    const bool says = *unit && *unit != ' ' && unit[strlen(unit) - 1] != ' ' && strcasecmp(unit, "gray value");
    if (says && vp_meta_set(m, "value-unit", unit))
        return -1;
    return c0 == 0 && c1 == 1 ? 0 : vp_meta_setf(m, "scale", "%s %s", vp_format_number(number[0], 1 / c1),
                                                 vp_format_number(number[1], 0 - c0 / c1));
}

static int imagej(struct vp_meta *m, const char *text, const struct vp_page_tags *t)
{
    const double images = line_number(text, "images", 1);
    const char *name[3];
    double size[3];
    int order[3];
    const bool ordered = order_of(text, order);
    for (int i = 0; i < 3 && ordered; i++) {
        size[i] = line_number(text, counts[order[i]], 1);
        name[i] = axes[order[i]];
    }
    if ((ordered ? vp_meta_axes(m, name, size, 3, images > 1 ? images : 0) : vp_axes_lose(m)) ||
        calibration(m, text, t))
        return -1;

    const double mm = line_unit(text, "unit"), y = line_unit(text, "yunit"), z = line_unit(text, "zunit");
    if (!(mm > 0) || !(y > 0) || !t || !(t->x > 0) || !(t->y > 0))
        return 0;
    /* as ImageJ does: numbers per cm where micrometres are spoken of */
    const double flat = t->unit == RESOLUTION_CM && mm == 1e-3 ? 10 : mm;
    const double spacing = fabs(line_number(text, "spacing", 0));
    return vp_meta_voxel(m, flat / t->x, flat * (y / mm) / t->y, z * spacing);
}

/* Reads the numbers of tifffile's {"shape": [3, 4, 16, 20]; how many, 0 if it is another text. */
static int shape_of(const char *text, double shape[VP_AXES_MAX])
{
    static const char start[] = "{\"shape\": [";
    int n = 0;
    if (strncmp(text, start, strlen(start)))
        return 0;
    for (const char *p = text + strlen(start); n < VP_AXES_MAX && *p >= '0' && *p <= '9'; n++) {
        for (shape[n] = 0; *p >= '0' && *p <= '9'; p++)
            shape[n] = 10 * shape[n] + (*p - '0');
        p += strspn(p, ", ");
    }
    return n;
}

int64_t vp_foreign_images(const char *text, const struct vp_page_tags *t)
{
    const double nx = (double)t->nx, ny = (double)t->ny, samples = (double)t->samples;
    double shape[VP_AXES_MAX], n = 1;
    const int last = shape_of(text, shape) - 1;
    if (vp_is_imagej(text)) {
        n = line_number(text, "images", 1);
    } else if (last < 0) {
        return vp_ome_images(text, t->samples);
    } else { /* only if it still is the shape of these images: samples may follow rows and columns */
        const bool plain = last >= 1 && shape[last] == nx && shape[last - 1] == ny;
        if (!plain && !(last >= 2 && shape[last] == samples && shape[last - 1] == nx && shape[last - 2] == ny))
            return 0;
        for (int i = 0; i <= last; i++)
            n *= shape[i];
        n /= nx * ny * samples;
    }
    return n >= 1 && n < 1e15 ? (int64_t)n : 0;
}

int vp_meta_metamorph(struct vp_meta *m, const uint32_t *uic2, int64_t n)
{
    struct vp_axes a = {.n = 1, .name = {"z"}};
    bool apart = true, later = true;
    for (int64_t i = 0; i < n; i++) {
        const uint32_t *p = uic2 + i * VP_UIC2_NUMBERS;
        apart = apart && p[0];
        later = later && (i == 0 || memcmp(p + 2, p + 2 - VP_UIC2_NUMBERS, 2 * sizeof *p));
    }
    if (!apart)
        strcpy(a.name[0], "time");
    return apart || later ? vp_axes_set(m, &a) : vp_axes_lose(m);
}

/* --- palettes ---------------------------------------------------------------------------------------- */

int vp_meta_palette(struct vp_meta *m, const uint16_t *map, int64_t n)
{
    bool coarse = true, eight = true, ramp = n == VP_PALETTE;
    for (int64_t i = 0; i < 3 * n; i++) /* 8 bits come as v, v * 256 or v * 257 */
        coarse = coarse && map[i] < 256;
    for (int64_t i = 0; i < 3 * n; i++)
        eight = eight && (coarse || !(map[i] & 0xff) || (map[i] & 0xff) == map[i] >> 8);
    for (int64_t i = 0; i < 3 * n; i++)
        ramp = ramp && eight && (coarse ? map[i] : map[i] >> 8) == i % n;
    if (ramp)
        return 0;
    char *text = malloc((size_t)n * 13 + 1), *p = text;
    if (!text)
        return -1;
    for (int64_t i = 0; i < n; i++) {
        p += sprintf(p, "%s", i ? " " : "");
        for (int c = 0; c < 3; c++) {
            const uint16_t v = map[c * n + i];
            p += eight ? sprintf(p, "%02x", coarse ? v : v >> 8) : sprintf(p, "%04x", v);
        }
    }
    const int rc = vp_meta_set(m, "palette", text);
    free(text);
    return rc;
}

bool vp_palette_get(const struct vp_meta *m, uint16_t map[3 * VP_PALETTE])
{
    const char *p = vp_meta_get(m, "palette");
    memset(map, 0, 3 * VP_PALETTE * sizeof *map);
    int n = 0;
    for (; p && *p && n < VP_PALETTE; n++) {
        const size_t digits = strspn(p, "0123456789abcdefABCDEF");
        if ((digits != 6 && digits != 12) || (p[digits] && p[digits] != ' '))
            return false;
        for (int c = 0; c < 3; c++) {
            char one[5] = "";
            memcpy(one, p + (size_t)c * digits / 3, digits / 3);
            map[c * VP_PALETTE + n] = (uint16_t)(strtoul(one, NULL, 16) * (digits == 6 ? 257 : 1));
        }
        p += digits + strspn(p + digits, " ");
    }
    return n > 0 && !*p;
}

/* --- descriptions ------------------------------------------------------------------------------------ */

/* Reads tifffile's {"shape": [3, 4, 16, 20], "axes": "TZYX"}, slowest first. Pages along an axis with another name than
 * those known here, or along several without names, are not understood. */
static int shaped(struct vp_meta *m, const char *text)
{
    static const char word[] = "\"axes\": \"";
    double shape[VP_AXES_MAX], size[VP_AXES_MAX];
    const char *name[VP_AXES_MAX];
    int known = 0;
    const int n = shape_of(text, shape);
    if (!n)
        return 0;
    const char *letters = strstr(text, word);
    letters = letters ? letters + strlen(word) : "";
    const bool lettered = strcspn(letters, "\"") == (size_t)n && letters[n];
    const int yx = lettered && n > 2 && letters[n - 1] == 'S' ? n - 3 : n - 2; /* place of YX: samples may follow */
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

/* Writes one line: newlines, control characters and backslashes escaped, blanks at the ends cut. */
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

int vp_meta_foreign(struct vp_meta *m, const char *text, const struct vp_page_tags *t)
{
    const int rc = vp_is_imagej(text) ? imagej(m, text, t) : vp_meta_ome(m, text);
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

/* Writes channels, slices and frames, where the pages lie as ImageJ's do. */
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
    /* images=1: one image follows each directory; with more ImageJ would expect all pages after the first. Without it,
     * it would search for the word in our lines. */
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
