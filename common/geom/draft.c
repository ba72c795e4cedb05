/* SPDX-License-Identifier: BSD-3-Clause */
/* A geometry while it is put together: `key = value` from files and options, then the finished thing. */
#include "geom/draft.h"
#include "base/err.h"
#include "base/size.h"
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const key_names[VP_GK_COUNT] = {
    [VP_GK_BEAM] = "beam",           [VP_GK_SOD] = "sod",       [VP_GK_SDD] = "sdd",
    [VP_GK_DETECTOR] = "detector",   [VP_GK_PITCH] = "pitch",   [VP_GK_OFFSET_U] = "offset-u",
    [VP_GK_OFFSET_V] = "offset-v",   [VP_GK_TILT] = "tilt",     [VP_GK_ANGLES] = "angles",
    [VP_GK_VIEWS] = "views",         [VP_GK_ARC] = "arc",       [VP_GK_START] = "start",
    [VP_GK_DIRECTION] = "direction", [VP_GK_MATRIX] = "matrix",
};

void vp_draft_free(struct vp_draft *d)
{
    free(d->angle);
    free(d->matrix);
    d->angle = d->matrix = NULL;
}

static bool has(const struct vp_draft *d, enum vp_geom_key key)
{
    return d->given & 1u << key;
}

void vp_draft_mark(struct vp_draft *d, enum vp_geom_key key)
{
    d->given |= 1u << key;
    d->seen |= 1u << key;
}

static int append(double **list, int64_t *n, int64_t *cap, int64_t most, double x, const char *where,
                  struct vp_err *err)
{
    if (*n >= most)
        return vp_fail(err, VP_ERUN, "%s: more than %d views", where, VP_GEOM_MAX_VIEWS);
    if (*n == *cap) {
        const int64_t cap2 = *cap ? 2 * *cap : 256;
        /* `most` numbers are VP_GEOM_MAX_VIEWS views: with what a run makes of them. */
        const uint64_t views = (uint64_t)(*n / (most / VP_GEOM_MAX_VIEWS));
        if (vp_memory_claim(views * VP_GEOM_VIEW_BYTES, "a geometry of so many views", where, err))
            return -1;
        double *p = realloc(*list, (size_t)cap2 * sizeof *p);
        if (!p)
            return vp_fail(err, VP_ERESOURCE, "out of memory for %lld numbers of the geometry",
                           (long long)cap2);
        *list = p;
        *cap = cap2;
    }
    (*list)[(*n)++] = x;
    return 0;
}

static int add_angle(struct vp_draft *d, double degrees, const char *where, struct vp_err *err)
{
    return append(&d->angle, &d->n_angle, &d->cap_angle, VP_GEOM_MAX_VIEWS, degrees, where, err);
}

int vp_draft_add_matrix(struct vp_draft *d, double number, const char *where, struct vp_err *err)
{
    return append(&d->matrix, &d->n_matrix, &d->cap_matrix, 12ll * VP_GEOM_MAX_VIEWS, number, where, err);
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

static int set_number(double *out, const char *value, const char *where, const char *expected,
                      struct vp_err *err)
{
    const char *s = value;
    double x;
    if (!vp_geom_scan(&s, &x, "") || !at_end(s))
        return bad_value(where, value, expected, err);
    *out = x;
    return 0;
}

/* A number at *s, and the unit behind it if there is one. */
static bool scan_mm(const char **s, double *out)
{
    if (!vp_geom_scan(s, out, "m"))
        return false;
    const char *unit = *s + strspn(*s, " \t");
    *s = strncmp(unit, "mm", 2) ? *s : unit + 2;
    return true;
}

static int set_distance(double *out, const char *value, const char *where, struct vp_err *err)
{
    const char *s = value;
    double x;
    if (!scan_mm(&s, &x) || !at_end(s))
        return bad_value(where, value, "a distance in mm", err);
    *out = x;
    return 0;
}

static int set_offset(struct vp_draft *d, int axis, const char *value, const char *where, struct vp_err *err)
{
    const char *s = value;
    double x;
    if (!vp_geom_scan(&s, &x, "mp"))
        return bad_value(where, value, "a number of pixels, or of mm (like 1.5mm)", err);
    s += strspn(s, " \t");
    const bool mm = !strncmp(s, "mm", 2), pixels = !strncmp(s, "px", 2);
    if (!at_end(s + (mm || pixels ? 2 : 0)))
        return bad_value(where, value, "a number of pixels, or of mm (like 1.5mm)", err);
    d->offset[axis] = x;
    d->offset_mm[axis] = mm;
    return 0;
}

static int set_detector(struct vp_draft *d, const char *value, const char *where, struct vp_err *err)
{
    long long nu, nv;
    int used = 0;
    if (sscanf(value, "%9lld x%9lld %n", &nu, &nv, &used) != 2 || value[used] || nu <= 0 || nv <= 0)
        return bad_value(where, value, "a detector size WxH (columns x rows, like 560x1)", err);
    d->nu = nu;
    d->nv = nv;
    return 0;
}

static int set_pitch(struct vp_draft *d, const char *value, const char *where, struct vp_err *err)
{
    const char *s = value;
    double du = 0, dv;
    const bool first = scan_mm(&s, &du);
    dv = du;
    if (!first || (!at_end(s) && !scan_mm(&s, &dv)) || !at_end(s))
        return bad_value(where, value, "one or two numbers of mm", err);
    if (du == 0 || dv == 0)
        return bad_value(where, value, "a pixel pitch in mm: it must not be 0", err);
    d->du = du;
    d->dv = dv;
    return 0;
}

static int set_choice(int *out, const char *a, const char *b, const char *value, const char *where,
                      struct vp_err *err)
{
    if (strcmp(value, a) && strcmp(value, b))
        return vp_fail(err, VP_ERUN, "%s: '%.60s': expected %s or %s", where, value, a, b);
    *out = !strcmp(value, b);
    return 0;
}

static int bad_angle(const char *where, const char *item, struct vp_err *err)
{
    bad_value(where, item, "an angle in degrees, or start:step:count", err);
    if (!strncasecmp(item, "to ", 3) || strstr(item, "..") || !strncmp(item, "- ", 2))
        return vp_hint(err, "a range is start:step:count, 0:0.5:720 for 0, 0.5, ... 359.5");
    return -1;
}

/* Words like 12,5, which are two angles here, but may have been meant as one. */
static void look_for_commas(struct vp_draft *d, const char *value)
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

/* Numbers and start:step:count, blanks or commas between. */
static int add_angles(struct vp_draft *d, const char *value, const char *where, struct vp_err *err)
{
    const char *s = value;
    look_for_commas(d, value);
    while (!at_end(s)) {
        double start, step, count;
        const char *item = s + strspn(s, " \t\r\n,");
        if (!vp_geom_scan(&s, &start, ":"))
            return bad_angle(where, item, err);
        if (*s != ':') {
            if (add_angle(d, start, where, err))
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
            if (add_angle(d, start + (double)k * step, where, err))
                return -1;
    }
    return 0;
}

static int add_matrix(struct vp_draft *d, const char *value, const char *where, struct vp_err *err)
{
    const char *s = value;
    while (!at_end(s)) {
        const char *item = s + strspn(s, " \t\r\n,");
        double x;
        if (!vp_geom_scan(&s, &x, ""))
            return bad_value(where, item, "a number", err);
        if (vp_draft_add_matrix(d, x, where, err))
            return -1;
    }
    return 0;
}

/* Another number of views over the arc of an evenly spaced list, which it replaces. */
static void keep_arc(struct vp_draft *d)
{
    const int64_t n = d->n_angle;
    const double step = n > 1 ? (d->angle[n - 1] - d->angle[0]) / (double)(n - 1) : 0;
    for (int64_t k = 0; k < n; k++)
        if (!(fabs(d->angle[k] - d->angle[0] - (double)k * step) <= 1e-6))
            return;
    if (n < 2)
        return;
    /* a last view that repeats the first does not make the turn longer */
    const double turn = fabs(step) * (double)(n - 1);
    if (!(d->seen & 1u << VP_GK_ARC)) {
        d->arc = fabs(turn - 360) < 1e-6 ? copysign(360, step) : step * (double)n;
        d->given |= 1u << VP_GK_ARC;
    }
    if (!(d->seen & 1u << VP_GK_START)) {
        d->start = d->angle[0];
        d->given |= 1u << VP_GK_START;
    }
}

int vp_draft_set(struct vp_draft *d, enum vp_geom_key key, const char *value, const char *where,
                 struct vp_err *err)
{
    const bool list = key == VP_GK_ANGLES || key == VP_GK_MATRIX;
    if (!list && d->seen & 1u << key)
        return vp_fail(err, VP_ERUN, "%s: %s is given twice", where, key_names[key]);
    /* What the options say about the angles replaces what the file said. */
    const unsigned list_bit = 1u << VP_GK_ANGLES,
                   count_bits = 1u << VP_GK_VIEWS | 1u << VP_GK_ARC | 1u << VP_GK_START;
    if (key == VP_GK_ANGLES && !(d->seen & list_bit)) {
        d->n_angle = d->commas = d->words = 0;
        d->given &= ~(count_bits & ~d->seen);
    }
    if (key == VP_GK_VIEWS && d->given & list_bit && !(d->seen & list_bit)) {
        keep_arc(d);
        d->given &= ~list_bit;
    }
    vp_draft_mark(d, key);

    int choice = 0, status = 0;
    double number = 0;
    switch (key) {
    case VP_GK_BEAM:
        status = set_choice(&choice, "cone", "parallel", value, where, err);
        d->beam = choice ? VP_PARALLEL : VP_CONE;
        return status;
    case VP_GK_DIRECTION:
        status = set_choice(&choice, "counterclockwise", "clockwise", value, where, err);
        d->clockwise = choice;
        return status;
    case VP_GK_SOD: return set_distance(&d->sod, value, where, err);
    case VP_GK_SDD: return set_distance(&d->sdd, value, where, err);
    case VP_GK_TILT: return set_number(&d->tilt, value, where, "an angle in degrees", err);
    case VP_GK_ARC: return set_number(&d->arc, value, where, "an angle in degrees", err);
    case VP_GK_START: return set_number(&d->start, value, where, "an angle in degrees", err);
    case VP_GK_DETECTOR: return set_detector(d, value, where, err);
    case VP_GK_PITCH: return set_pitch(d, value, where, err);
    case VP_GK_OFFSET_U: return set_offset(d, 0, value, where, err);
    case VP_GK_OFFSET_V: return set_offset(d, 1, value, where, err);
    case VP_GK_ANGLES: return add_angles(d, value, where, err);
    case VP_GK_MATRIX: return add_matrix(d, value, where, err);
    case VP_GK_VIEWS:
        if (set_number(&number, value, where, "a number of views", err))
            return -1;
        if (number < 1 || number != floor(number) || number > VP_GEOM_MAX_VIEWS)
            return bad_value(where, value, "a number of views (1 to 10000000)", err);
        d->views = (int64_t)number;
        return 0;
    default:
        return 0;
    }
}

/* --- our own text -------------------------------------------------------------------------------- */

int vp_geom_key_find(const char *name, enum vp_geom_key *key, const char *where, struct vp_err *err)
{
    int nearest = -1, distance = 0;
    for (int k = 0; k < VP_GK_COUNT; k++) {
        const int d = vp_opt_nearness(name, strlen(name), key_names[k], strlen(key_names[k]));
        if (d == 0) {
            *key = (enum vp_geom_key)k;
            return 0;
        }
        if (d > 0 && (nearest < 0 || d < distance))
            distance = d, nearest = k;
    }
    vp_fail(err, VP_ERUN, "%s: unknown key '%.40s'", where, name);
    if (nearest >= 0)
        return vp_hint(err, "did you mean '%s'?", key_names[nearest]);
    return vp_hint(err, "the keys of a geometry file are in ct-geometry(5)");
}

/* Without blanks at both ends. */
static char *trim(char *text)
{
    while (isspace((unsigned char)*text))
        text++;
    for (size_t n = strlen(text); n > 0 && isspace((unsigned char)text[n - 1]);)
        text[--n] = 0;
    return text;
}

/* A line that begins with a number continues the list of angles or matrices above it. */
static int parse_line(struct vp_draft *d, char *line, int *list, const char *where, struct vp_err *err)
{
    line[strcspn(line, "#")] = 0;
    line = trim(line);
    if (!*line)
        return 0;

    char *equals = strchr(line, '=');
    if (!equals) {
        if (*list >= 0 && strchr("+-.0123456789", *line))
            return vp_draft_set(d, (enum vp_geom_key)*list, line, where, err);
        return vp_fail(err, VP_ERUN, "%s: expected 'key = value', got '%.40s'", where, line);
    }
    *equals = 0;
    line = trim(line);
    const char *value = trim(equals + 1);
    enum vp_geom_key key = VP_GK_COUNT;
    if (vp_geom_key_find(line, &key, where, err))
        return -1;
    const bool is_list = key == VP_GK_ANGLES || key == VP_GK_MATRIX;
    if (!*value && !is_list)
        return vp_fail(err, VP_ERUN, "%s: %s has no value", where, line);
    *list = is_list ? (int)key : -1;
    return vp_draft_set(d, key, value, where, err);
}

/* Calls `use` for every line of text, a copy that may be changed. */
static int each_line(const char *text, const char *name, struct vp_err *err, void *ctx,
                     int (*use)(void *ctx, char *line, const char *where, struct vp_err *err))
{
    char where[512];
    int64_t number = 0;
    while (*text) {
        const size_t n = strcspn(text, "\n");
        char *line = malloc(n + 1);
        if (!line)
            return vp_fail(err, VP_ERESOURCE, "%s: out of memory", name);
        /* Control characters would end up in messages on a terminal. */
        for (size_t i = 0; i < n; i++) {
            const unsigned char c = (unsigned char)text[i];
            line[i] = !iscntrl(c) ? text[i] : isspace(c) ? ' ' : '?';
        }
        line[n] = 0;
        snprintf(where, sizeof where, "%.400s: line %lld", name, (long long)++number);
        const int failed = use(ctx, line, where, err);
        free(line);
        if (failed)
            return -1;
        text += n + (text[n] == '\n');
    }
    return 0;
}

struct own { struct vp_draft *d; int list; };

static int own_line(void *ctx, char *line, const char *where, struct vp_err *err)
{
    struct own *own = ctx;
    return parse_line(own->d, line, &own->list, where, err);
}

/* Nothing but numbers: one matrix a line. */
static int matrix_line(void *ctx, char *line, const char *where, struct vp_err *err)
{
    struct vp_draft *d = ctx;
    line[strcspn(line, "#")] = 0;
    if (at_end(line))
        return 0;
    const int64_t before = d->n_matrix;
    if (vp_draft_set(d, VP_GK_MATRIX, line, where, err))
        return -1;
    if (d->n_matrix - before != 12)
        return vp_fail(err, VP_ERUN, "%s: expected the 12 numbers of a 3x4 matrix, got %lld", where,
                       (long long)(d->n_matrix - before));
    return 0;
}

static int angle_line(void *ctx, char *line, const char *where, struct vp_err *err)
{
    if (strlen(line) >= 256)
        return vp_fail(err, VP_ERUN, "%s: too long: expected one angle a line", where);
    line[strcspn(line, "#")] = 0;
    return vp_draft_set(ctx, VP_GK_ANGLES, line, where, err);
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

int vp_draft_text(struct vp_draft *d, const char *text, size_t len, const char *name, struct vp_err *err)
{
    if (memchr(text, 0, len))
        return vp_fail(err, VP_ERUN, "%s: not a geometry file: it holds binary data", name);
    char *copy = strndup(text, len);
    if (!copy)
        return vp_fail(err, VP_ERESOURCE, "%s: out of memory", name);
    const char *start = copy + (strncmp(copy, "\xef\xbb\xbf", 3) ? 0 : 3);
    struct own own = {d, -1};
    int status;
    d->seen = 0;
    if (vp_draft_import(d, start, name, &status, err))
        ;
    else if (!has_assignment(start) && looks_like_numbers(start))
        status = each_line(start, name, err, d, matrix_line);
    else if (at_end(start))
        status = vp_fail(err, VP_ERUN, "%s: empty: expected a geometry", name);
    else
        status = each_line(start, name, err, &own, own_line);
    free(copy);
    return status;
}

int vp_draft_angles(struct vp_draft *d, const char *text, size_t len, const char *name, struct vp_err *err)
{
    if (memchr(text, 0, len))
        return vp_fail(err, VP_ERUN, "%s: not text: expected angles, one a line", name);
    char *copy = strndup(text, len);
    if (!copy)
        return vp_fail(err, VP_ERESOURCE, "%s: out of memory", name);
    d->n_angle = 0;
    int status = each_line(copy, name, err, d, angle_line);
    free(copy);
    if (!status && d->n_angle == 0)
        status = vp_fail(err, VP_ERUN, "%s: empty: expected angles, one a line", name);
    return status;
}

/* --- finishing ----------------------------------------------------------------------------------- */

static int matrices_say(const char *name, const char *key, struct vp_err *err)
{
    return vp_fail(err, VP_ERUN, "%s: %s cannot be combined with matrices: they say it already", name, key);
}

static int refuse(const struct vp_draft *d, const char *name, struct vp_err *err)
{
    const unsigned counted = 1u << VP_GK_VIEWS | 1u << VP_GK_ARC | 1u << VP_GK_START;
    if (has(d, VP_GK_MATRIX)) {
        static const enum vp_geom_key clash[] = {VP_GK_OFFSET_U, VP_GK_OFFSET_V, VP_GK_TILT, VP_GK_ANGLES,
                                                 VP_GK_VIEWS, VP_GK_ARC, VP_GK_START, VP_GK_DIRECTION};
        for (size_t i = 0; i < sizeof clash / sizeof *clash; i++)
            if (has(d, clash[i]))
                return matrices_say(name, key_names[clash[i]], err);
        /* A file of matrices may say its distances, for people to read; an option would change nothing. */
        if (!(d->seen & 1u << VP_GK_MATRIX) && d->seen & (1u << VP_GK_SOD | 1u << VP_GK_SDD))
            return matrices_say(name, d->seen & 1u << VP_GK_SOD ? "sod" : "sdd", err);
        return 0;
    }
    if (has(d, VP_GK_ANGLES) && d->given & counted)
        return vp_fail_hint(err, VP_ERUN, "give views, arc and start together to replace a list of angles",
                            "%s: the angles are given twice: as a list, and by views, arc or start", name);
    if (d->beam == VP_PARALLEL && d->seen & 1u << VP_GK_BEAM && d->seen & (1u << VP_GK_SOD | 1u << VP_GK_SDD))
        return vp_fail(err, VP_ERUN, "%s: sod and sdd have no meaning in a parallel beam", name);
    return 0;
}

static int missing(const struct vp_draft *d, const char *name, struct vp_err *err)
{
    char list[256] = "";
    const bool matrices = has(d, VP_GK_MATRIX), cone = d->beam == VP_CONE;
    for (int k = 0; k < VP_GK_COUNT; k++) {
        bool needed = k == VP_GK_DETECTOR;
        if (!matrices)
            needed |= k == VP_GK_PITCH || (cone && (k == VP_GK_SOD || k == VP_GK_SDD)) ||
                      (k == VP_GK_VIEWS && !has(d, VP_GK_ANGLES));
        else if (d->matrix_mm)
            needed |= k == VP_GK_PITCH;
        if (!needed || has(d, (enum vp_geom_key)k))
            continue;
        snprintf(list + strlen(list), sizeof list - strlen(list), "%s%s", *list ? ", " : "",
                 k == VP_GK_VIEWS ? "views (or angles)" : key_names[k]);
    }
    if (!*list)
        return 0;
    vp_fail(err, VP_ERUN, "%s: the geometry is not complete: it lacks %s", name, list);
    if (d->matrix_mm)
        return vp_hint(err, "the file does not know the detector: ct-geom --detector WxH --pitch MM FILE");
    if (matrices)
        return vp_hint(err, "the matrices do not say how many pixels there are: ct-geom --detector WxH FILE");
    return vp_hint(err, "the keys, and the options of ct-geom with the same names, are in ct-geometry(5)");
}

/* Matrices that map to mm on the detector, seen from its centre, to pixels. */
static void millimetres_to_pixels(const struct vp_draft *d)
{
    for (int64_t k = 0; k < d->n_matrix / 12; k++) {
        double *m = d->matrix + 12 * k;
        for (int i = 0; i < 4; i++) {
            m[i] = m[i] / d->du + (double)(d->nu - 1) / 2 * m[8 + i];
            m[4 + i] = m[4 + i] / d->dv + (double)(d->nv - 1) / 2 * m[8 + i];
        }
    }
}

/* What the parameters would be, for people to read: means over the views. */
static int derive(const struct vp_draft *d, struct vp_geom *g, const char *name, struct vp_err *err)
{
    double sod = 0, fu = 0, fv = 0, u = 0, v = 0, tilt_s = 0, tilt_c = 0;
    int64_t parallel = 0;
    g->angle = malloc((size_t)g->views * sizeof *g->angle);
    if (!g->angle)
        return vp_fail(err, VP_ERESOURCE, "%s: out of memory", name);
    for (int64_t k = 0; k < g->views; k++) {
        struct vp_view view;
        const char *wrong = vp_view_from_matrix(&view, g->matrix + 12 * k);
        if (wrong)
            return vp_fail(err, VP_ERUN, "%s: view %lld: %s", name, (long long)k, wrong);
        parallel += vp_view_parallel(&view);
        g->angle[k] = view.angle * VP_DEGREES;
        sod += view.sod;
        fu += fabs(view.fu);
        fv += fabs(view.fv);
        u += view.P[3] / view.P[11] - (double)(g->nu - 1) / 2;
        v += view.P[7] / view.P[11] - (double)(g->nv - 1) / 2;
        tilt_s += (view.P[2] - view.cu * view.P[10]) / view.fu;
        tilt_c += (view.P[6] - view.cv * view.P[10]) / view.fv;
    }
    if (parallel && parallel != g->views)
        return vp_fail(err, VP_ERUN, "%s: some matrices are of a parallel beam, some of a cone", name);
    g->beam = parallel ? VP_PARALLEL : VP_CONE;
    if (has(d, VP_GK_BEAM) && d->beam != g->beam)
        return vp_fail(err, VP_ERUN, "%s: beam is %s, but the matrices are of a %s beam", name,
                       parallel ? "cone" : "parallel", parallel ? "parallel" : "cone");
    const double n = (double)g->views;
    g->offset_u = u / n;
    g->offset_v = v / n;
    g->tilt = atan2(tilt_s, tilt_c) * VP_DEGREES;
    if (parallel) {
        g->sod = g->sdd = 0;
    } else {
        if (!has(d, VP_GK_SOD))
            g->sod = sod / n;
        if (!has(d, VP_GK_PITCH) && has(d, VP_GK_SDD)) {
            g->du = g->sdd / (fu / n);
            g->dv = g->sdd / (fv / n);
        } else if (!has(d, VP_GK_SDD)) {
            g->sdd = fabs(g->du) * fu / n;
        }
    }
    return 0;
}

/* Numbers that are allowed, but hardly meant. */
static void doubt(const struct vp_draft *d, struct vp_geom *g)
{
    double lo = INFINITY, hi = -INFINITY;
    if (g->matrix)
        return;
    for (int64_t k = 0; k < g->views; k++) {
        lo = fmin(lo, g->angle[k]);
        hi = fmax(hi, g->angle[k]);
    }
    if (has(d, VP_GK_ANGLES) && d->words > 1 && 2 * d->commas > d->words)
        snprintf(g->doubt, sizeof g->doubt, "%s was read as two angles: if the comma is a decimal comma, write a point",
                 d->comma);
    else if (g->views >= 8 && hi - lo <= 6.3)
        snprintf(g->doubt, sizeof g->doubt,
                 "the views are within %.4g degrees: are the angles in radians? a full turn is 360", hi - lo);
}

int vp_draft_finish(struct vp_draft *d, struct vp_geom *g, const char *name, struct vp_err *err)
{
    *g = (struct vp_geom){0};
    if (refuse(d, name, err) || missing(d, name, err))
        return -1;
    if (has(d, VP_GK_MATRIX) && (d->n_matrix == 0 || d->n_matrix % 12))
        return vp_fail(err, VP_ERUN, "%s: expected 12 numbers for each matrix, got %lld in all", name,
                       (long long)d->n_matrix);
    if (has(d, VP_GK_ANGLES) && d->n_angle == 0)
        return vp_fail(err, VP_ERUN, "%s: angles has no value", name);
    if (d->matrix_mm)
        millimetres_to_pixels(d);

    *g = (struct vp_geom){
        .beam = d->beam, .sod = d->beam == VP_CONE ? d->sod : 0, .sdd = d->beam == VP_CONE ? d->sdd : 0,
        .nu = d->nu, .nv = d->nv, .du = d->du, .dv = d->dv, .tilt = d->tilt, .clockwise = d->clockwise,
    };
    g->offset_u = d->offset_mm[0] ? d->offset[0] / fabs(d->du) : d->offset[0];
    g->offset_v = d->offset_mm[1] ? d->offset[1] / fabs(d->dv) : d->offset[1];

    if (has(d, VP_GK_MATRIX)) {
        g->views = d->n_matrix / 12;
        g->matrix = d->matrix;
        d->matrix = NULL;
        if (derive(d, g, name, err))
            goto fail;
    } else {
        if (!has(d, VP_GK_ANGLES)) {
            const double step = (has(d, VP_GK_ARC) ? d->arc : 360) / (double)d->views;
            d->n_angle = 0;
            for (int64_t k = 0; k < d->views; k++)
                if (add_angle(d, d->start + (double)k * step, name, err))
                    goto fail;
        }
        g->views = d->n_angle;
        g->angle = d->angle;
        d->angle = NULL;
    }
    if (vp_geom_validate(g, name, err))
        goto fail;
    doubt(d, g);
    return 0;
fail:
    vp_geom_free(g);
    return -1;
}
