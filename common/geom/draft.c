/* SPDX-License-Identifier: BSD-3-Clause */
/* A geometry while it is put together: `key = value` from files and options. */
#include "geom/draft.h"
#include "base/err.h"
#include "base/size.h"
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define AT(field) .offset = offsetof(struct vp_draft, field), .most = 1
#define DISTANCE .units = "m", .expected = "a distance in mm"
#define OFFSET .units = "mp", .expected = "a number of pixels, or of mm (like 1.5mm)"
#define ANGLE .units = "", .expected = "an angle in degrees"

const struct vp_geom_field vp_geom_fields[VP_GK_COUNT] = {
    [VP_GK_BEAM] = {.name = "beam", .words = {"cone", "parallel"}},
    [VP_GK_SOD] = {.name = "sod", AT(g.sod), DISTANCE, .note = "mm, source to axis"},
    [VP_GK_SDD] = {.name = "sdd", AT(g.sdd), DISTANCE, .note = "mm, source to detector"},
    [VP_GK_DETECTOR] = {.name = "detector", .note = "columns x rows"},
    [VP_GK_PITCH] = {.name = "pitch", .offset = offsetof(struct vp_draft, g.du), .most = 2, .units = "m",
                     .expected = "one or two numbers of mm", .note = "mm"},
    [VP_GK_SHAPE] = {.name = "detector-shape", .words = {"flat", "curved"}, .note = "curved: columns at equal angles"},
    [VP_GK_OFFSET_U] = {.name = "offset-u", AT(g.offset_u), OFFSET,
                        .note = "pixels, of the axis from the centre column"},
    [VP_GK_OFFSET_V] = {.name = "offset-v", AT(g.offset_v), OFFSET, .note = "pixels, of the orbit from the centre row"},
    [VP_GK_TILT] = {.name = "tilt", AT(g.tilt), ANGLE, .note = "degrees, of the detector in its plane"},
    [VP_GK_PITCH_Z] = {.name = "pitch-z", AT(g.pitch_z), DISTANCE, .note = "mm along z a turn"},
    [VP_GK_LAMINO] = {.name = "lamino", AT(g.lamino), ANGLE, .note = "degrees, from the axis to the columns' plane"},
    [VP_GK_MOTION] = {.name = "detector-motion", .words = {"turning", "fixed"}, .note = "around the axis"},
    [VP_GK_DIRECTION] = {.name = "direction", .words = {"counterclockwise", "clockwise"},
                         .note = "of the source, seen from +z"},
    [VP_GK_ANGLES] = {.name = "angles", .note = "degrees"},
    [VP_GK_VIEWS] = {.name = "views", AT(views), .units = "", .expected = "a number of views"},
    [VP_GK_ARC] = {.name = "arc", AT(arc), ANGLE},
    [VP_GK_START] = {.name = "start", AT(start), ANGLE},
    [VP_GK_MATRIX] = {.name = "matrix"},
    [VP_GK_SHIFTS] = {.name = "shifts"},
};
_Static_assert(offsetof(struct vp_geom, dv) == offsetof(struct vp_geom, du) + sizeof(double), "a pitch is two numbers");

void vp_draft_free(struct vp_draft *d)
{
    free(d->angle.v);
    free(d->matrix.v);
    free(d->shift.v);
}

static bool is_list(enum vp_geom_key key)
{
    return key == VP_GK_ANGLES || key == VP_GK_MATRIX || key == VP_GK_SHIFTS;
}

static struct vp_geom_list *list_of(struct vp_draft *d, enum vp_geom_key key)
{
    return key == VP_GK_MATRIX ? &d->matrix : key == VP_GK_SHIFTS ? &d->shift : &d->angle;
}

/* Returns the numbers per view. */
static int64_t each_of(enum vp_geom_key key)
{
    return key == VP_GK_MATRIX ? 12 : key == VP_GK_SHIFTS ? 2 : 1;
}

void vp_draft_mark(struct vp_draft *d, enum vp_geom_key key)
{
    d->given |= 1u << key;
    d->seen |= 1u << key;
}

int vp_draft_append(struct vp_draft *d, enum vp_geom_key key, double number, const char *where, struct vp_err *err)
{
    const int64_t each = each_of(key);
    struct vp_geom_list *list = list_of(d, key);
    if (list->n >= each * VP_GEOM_MAX_VIEWS)
        return vp_fail(err, VP_ERUN, "%s: more than %d views", where, VP_GEOM_MAX_VIEWS);
    if (list->n == list->room) {
        const int64_t room = list->room ? 2 * list->room : 256;
        /* including all per-view data of a run */
        if (vp_memory_claim((uint64_t)(list->n / each) * VP_GEOM_VIEW_BYTES, "the views of a geometry", where, err))
            return -1;
        double *v = realloc(list->v, (size_t)room * sizeof *v);
        if (!v)
            return vp_fail(err, VP_ERESOURCE, "out of memory: %lld numbers of the geometry", (long long)room);
        list->v = v;
        list->room = room;
    }
    list->v[list->n++] = number;
    return 0;
}

/* --- values -------------------------------------------------------------------------------------- */

static bool at_end(const char *s)
{
    return !s[strspn(s, " \t\r\n,")];
}

static int bad_value(const char *where, const char *value, const char *expected, struct vp_err *err)
{
    return vp_fail(err, VP_ERUN, "%s: '%.60s' is not %s", where, value, expected);
}

/* Sets one number or two, each with or without a unit; a single number is used for both. */
static int set_numbers(struct vp_draft *d, enum vp_geom_key key, const char *value, const char *where,
                       struct vp_err *err)
{
    const struct vp_geom_field *f = &vp_geom_fields[key];
    double x[2];
    int n = 0;
    bool mm = false;
    for (const char *s = value; n == 0 || !at_end(s); n++) {
        if (n == f->most || !vp_geom_scan(&s, &x[n], f->units))
            return bad_value(where, value, f->expected, err);
        const char *unit = s + strspn(s, " \t");
        mm = *f->units && !strncmp(unit, "mm", 2);
        if (mm || (strchr(f->units, 'p') && !strncmp(unit, "px", 2)))
            s = unit + 2;
    }
    if (n == 1)
        x[1] = x[0];
    if (key == VP_GK_PITCH && (x[0] == 0 || x[1] == 0))
        return bad_value(where, value, "a pixel pitch in mm: it must not be 0", err);
    if (key == VP_GK_VIEWS && (x[0] < 1 || x[0] != floor(x[0]) || x[0] > VP_GEOM_MAX_VIEWS))
        return bad_value(where, value, "a number of views (1 to 10000000)", err);
    memcpy((char *)d + f->offset, x, (size_t)f->most * sizeof *x);
    d->mm = (d->mm & ~(1u << key)) | (unsigned)mm << key;
    return 0;
}

static int set_detector(struct vp_draft *d, const char *value, const char *where, struct vp_err *err)
{
    long long nu, nv;
    int used = 0;
    if (sscanf(value, "%9lld x%9lld %n", &nu, &nv, &used) != 2 || value[used] || nu <= 0 || nv <= 0)
        return bad_value(where, value, "a detector size WxH (columns x rows, like 560x1)", err);
    d->g.nu = nu;
    d->g.nv = nv;
    return 0;
}

static int set_word(struct vp_draft *d, enum vp_geom_key key, const char *value, const char *where,
                    struct vp_err *err)
{
    const char *const *words = vp_geom_fields[key].words;
    const bool second = !strcmp(value, words[1]);
    if (!second && strcmp(value, words[0]))
        return vp_fail(err, VP_ERUN, "%s: '%.60s': expected %s or %s", where, value, words[0], words[1]);
    if (key == VP_GK_BEAM)
        d->g.beam = second ? VP_PARALLEL : VP_CONE;
    else if (key == VP_GK_MOTION)
        d->g.fixed = second;
    else if (key == VP_GK_SHAPE)
        d->g.curved = second;
    else
        d->g.clockwise = second;
    return 0;
}

static int bad_angle(const char *where, const char *item, struct vp_err *err)
{
    bad_value(where, item, "an angle in degrees, or start:step:count", err);
    if (!strncasecmp(item, "to ", 3) || strstr(item, "..") || !strncmp(item, "- ", 2))
        return vp_hint(err, "a range is start:step:count, 0:0.5:720 for 0, 0.5, ... 359.5");
    return -1;
}

/* Records words like 12,5, which are read as two angles but may have been meant as one. */
static void find_commas(struct vp_draft *d, const char *value)
{
    for (const char *s = value; *(s += strspn(s, " \t\r\n"));) {
        const size_t n = strcspn(s, " \t\r\n"), sign = *s == '-' || *s == '+';
        const size_t whole = strspn(s + sign, "0123456789"), comma = sign + whole;
        const size_t part = s[comma] == ',' ? strspn(s + comma + 1, "0123456789") : 0;
        d->words++;
        if (whole && part && comma + 1 + part == n && !d->commas++)
            snprintf(d->comma, sizeof d->comma, "%.*s", (int)(n < sizeof d->comma ? n : sizeof d->comma - 1), s);
        s += n;
    }
}

/* Appends numbers separated by blanks or commas; for angles also start:step:count. */
static int add_list(struct vp_draft *d, enum vp_geom_key key, const char *value, const char *where, struct vp_err *err)
{
    const bool angles = key == VP_GK_ANGLES;
    const char *s = value;
    if (angles)
        find_commas(d, value);
    while (!at_end(s)) {
        double start, step, count;
        const char *item = s + strspn(s, " \t\r\n,");
        if (!vp_geom_scan(&s, &start, angles ? ":" : ""))
            return angles ? bad_angle(where, item, err) : bad_value(where, item, "a number", err);
        if (*s != ':') {
            if (vp_draft_append(d, key, start, where, err))
                return -1;
            continue;
        }
        s++;
        if (!vp_geom_scan(&s, &step, ":") || *s++ != ':' || !vp_geom_scan(&s, &count, "") || count < 1 ||
            count != floor(count))
            return bad_angle(where, item, err);
        if (count > VP_GEOM_MAX_VIEWS)
            return vp_fail(err, VP_ERUN, "%s: more than %d views", where, VP_GEOM_MAX_VIEWS);
        for (int64_t k = 0; k < (int64_t)count; k++)
            if (vp_draft_append(d, key, start + (double)k * step, where, err))
                return -1;
    }
    return 0;
}

/* Replaces an evenly spaced list by another number of views over the same arc. */
static void keep_arc(struct vp_draft *d)
{
    const int64_t n = d->angle.n;
    const double *angle = d->angle.v, step = n > 1 ? (angle[n - 1] - angle[0]) / (double)(n - 1) : 0;
    for (int64_t k = 0; k < n; k++)
        if (!(fabs(angle[k] - angle[0] - (double)k * step) <= 1e-6))
            return;
    if (n < 2)
        return;
    /* a last view that repeats the first does not lengthen the turn */
    const double turn = fabs(step) * (double)(n - 1);
    if (!(d->seen & 1u << VP_GK_ARC)) {
        d->arc = fabs(turn - 360) < 1e-6 ? copysign(360, step) : step * (double)n;
        d->given |= 1u << VP_GK_ARC;
    }
    if (!(d->seen & 1u << VP_GK_START)) {
        d->start = angle[0];
        d->given |= 1u << VP_GK_START;
    }
}

int vp_draft_set(struct vp_draft *d, enum vp_geom_key key, const char *value, const char *where,
                 struct vp_err *err)
{
    const bool list = is_list(key);
    if (!list && d->seen & 1u << key)
        return vp_fail(err, VP_ERUN, "%s: %s is given twice", where, vp_geom_fields[key].name);
    /* Options on angles replace those of the file. */
    const unsigned list_bit = 1u << VP_GK_ANGLES;
    if (key == VP_GK_ANGLES && !(d->seen & list_bit)) {
        d->angle.n = d->commas = d->words = 0;
        d->given &= ~(VP_GEOM_COUNTED & ~d->seen);
    }
    if (key == VP_GK_SHIFTS && !(d->seen & 1u << key))
        d->shift.n = 0;
    if (key == VP_GK_VIEWS && d->given & list_bit && !(d->seen & list_bit)) {
        keep_arc(d);
        d->given &= ~list_bit;
    }
    vp_draft_mark(d, key);
    return list                            ? add_list(d, key, value, where, err)
           : vp_geom_fields[key].words[0] ? set_word(d, key, value, where, err)
           : key == VP_GK_DETECTOR        ? set_detector(d, value, where, err)
                                          : set_numbers(d, key, value, where, err);
}

/* --- our own text -------------------------------------------------------------------------------- */

int vp_geom_key_find(const char *name, enum vp_geom_key *key, const char *where, struct vp_err *err)
{
    int nearest = -1, distance = 0;
    for (int k = 0; k < VP_GK_COUNT; k++) {
        const char *word = vp_geom_fields[k].name;
        const int d = vp_opt_nearness(name, strlen(name), word, strlen(word));
        if (d == 0) {
            *key = (enum vp_geom_key)k;
            return 0;
        }
        if (d > 0 && (nearest < 0 || d < distance))
            distance = d, nearest = k;
    }
    vp_fail(err, VP_ERUN, "%s: unknown key '%.40s'", where, name);
    if (nearest >= 0)
        return vp_hint(err, "did you mean '%s'?", vp_geom_fields[nearest].name);
    return vp_hint(err, "the keys of a geometry file are in ct-geometry(5)");
}

/* Removes blanks at both ends. */
static char *trim(char *text)
{
    while (isspace((unsigned char)*text))
        text++;
    for (size_t n = strlen(text); n > 0 && isspace((unsigned char)text[n - 1]);)
        text[--n] = 0;
    return text;
}

/* Reads a line. A line that begins with a number continues the list of angles or matrices above it. */
static int read_line(struct vp_draft *d, char *line, enum vp_geom_key *list, const char *where, struct vp_err *err)
{
    char *equals = strchr(line, '=');
    if (!equals) {
        if (*list != VP_GK_COUNT && strchr("+-.0123456789", *line))
            return vp_draft_set(d, *list, line, where, err);
        return vp_fail(err, VP_ERUN, "%s: expected 'key = value', got '%.40s'", where, line);
    }
    *equals = 0;
    line = trim(line);
    const char *value = trim(equals + 1);
    enum vp_geom_key key = VP_GK_COUNT;
    if (vp_geom_key_find(line, &key, where, err))
        return -1;
    if (!*value && !is_list(key))
        return vp_fail(err, VP_ERUN, "%s: %s has no value", where, line);
    *list = is_list(key) ? key : VP_GK_COUNT;
    return vp_draft_set(d, key, value, where, err);
}

/* Reads a text of lines `key = value`, or only the angles or matrices of a list, one per line. Modifies the text. */
static int read_lines(struct vp_draft *d, char *text, enum vp_geom_key list, const char *name, struct vp_err *err)
{
    const bool only = list != VP_GK_COUNT;
    char where[512], *line;
    for (int64_t number = 1; (line = strsep(&text, "\n")); number++) {
        const int64_t before = only ? list_of(d, list)->n : 0;
        snprintf(where, sizeof where, "%.400s: line %lld", name, (long long)number);
        if (only && list == VP_GK_ANGLES && strlen(line) >= 256)
            return vp_fail(err, VP_ERUN, "%s: too long: expected one angle a line", where);
        line[strcspn(line, "#")] = 0;
        /* Control characters would get into messages on a terminal. */
        for (char *c = line; *c; c++)
            if (iscntrl((unsigned char)*c))
                *c = isspace((unsigned char)*c) ? ' ' : '?';
        line = trim(line);
        if (!*line || (only && at_end(line)))
            continue;
        if (only ? vp_draft_set(d, list, line, where, err) : read_line(d, line, &list, where, err))
            return -1;
        if (only && list != VP_GK_ANGLES && list_of(d, list)->n - before != each_of(list))
            return vp_fail(err, VP_ERUN, "%s: expected the %s, got %lld", where,
                           list == VP_GK_MATRIX ? "12 numbers of a 3x4 matrix"
                                                : "2 shifts of a view, along columns and rows",
                           (long long)(list_of(d, list)->n - before));
    }
    return 0;
}

static bool has_assignment(const char *text)
{
    bool comment = false;
    for (; *text; text++) {
        comment = *text == '#' || (comment && *text != '\n');
        if (!comment && *text == '=')
            return true;
    }
    return false;
}

static bool looks_like_numbers(const char *text)
{
    for (;;) {
        text += strspn(text, " \t\r\n");
        if (*text != '#')
            return *text && strchr("+-.0123456789", *text);
        text += strcspn(text, "\n");
    }
}

int vp_draft_text(struct vp_draft *d, char *text, size_t len, const char *name, struct vp_err *err)
{
    if (memchr(text, 0, len))
        return vp_fail(err, VP_ERUN, "%s: not a geometry file: it holds binary data", name);
    if (!strncmp(text, "\xef\xbb\xbf", 3))
        text += 3;
    d->seen = 0;
    const int foreign = vp_draft_import(d, text, name, err);
    if (foreign)
        return foreign < 0 ? -1 : 0;
    if (!has_assignment(text) && looks_like_numbers(text))
        return read_lines(d, text, VP_GK_MATRIX, name, err);
    if (at_end(text))
        return vp_fail(err, VP_ERUN, "%s: empty: expected a geometry", name);
    return read_lines(d, text, VP_GK_COUNT, name, err);
}

int vp_draft_list(struct vp_draft *d, enum vp_geom_key key, char *text, size_t len, const char *name,
                  struct vp_err *err)
{
    const char *expected = key == VP_GK_SHIFTS ? "two shifts a line" : "angles, one a line";
    if (memchr(text, 0, len))
        return vp_fail(err, VP_ERUN, "%s: not text: expected %s", name, expected);
    list_of(d, key)->n = 0;
    if (read_lines(d, text, key, name, err))
        return -1;
    return list_of(d, key)->n ? 0 : vp_fail(err, VP_ERUN, "%s: empty: expected %s", name, expected);
}
