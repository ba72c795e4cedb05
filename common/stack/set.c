/* SPDX-License-Identifier: BSD-3-Clause */
/* --set KEY=VALUE: known keys are checked and brought into their form, others are taken as they are. */
#include "stack/set.h"

#include "base/err.h"
#include "base/text.h"
#include "stack/axes.h"
#include "stack/foreign.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct vp_opt vp_set_options[] = {
    VP_STRINGS(struct vp_set_params, set, "set", 0, .metavar = "KEY=VALUE", .group = "Metadata",
               .help = "add what the file does not record: voxel=0.5,0.5,2mm, axes=x,y,z, ...",
               .more = "KEY is a key of voxpipe-stack(5), or one of your own. KEY= without a value removes the line.\n\n"
                       "- voxel and origin take a unit: nm, um, mm (the default), cm or m. They are stored in mm. "
                       "One length of a voxel is for all axes.\n"
                       "- axes names the axes, fastest first. If pages have more than one axis, sizes=3,40 gives the "
                       "number of pages along each."),
    VP_OPT_END,
};

enum { LONGEST = 256 };

int vp_set_numbers(struct vp_meta *m, const char *key, int n, const double *v)
{
    char text[4 * 32] = "", one[32];

    for (int i = 0; i < n; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s", i ? " " : "", vp_format_number(one, v[i]));
    return vp_meta_set(m, key, text);
}

/* Parses up to `most` numbers separated by commas or blanks, each or the last with a unit of length after it, in that
 * unit (*mm: millimetres in it; 1 if none is given). Returns their number, or 0. */
static int numbers(const char *text, int most, double *v, bool lengths, double *mm)
{
    char unit[16] = "";
    int n = 0;

    while (*text) {
        char *end, one[16];
        if (n == most)
            return 0;
        v[n] = strtod(text, &end);
        if (end == text || !isfinite(v[n]))
            return 0;
        n++;
        text = end + strspn(end, " ");
        const size_t len = strcspn(text, ", ");
        const bool has_unit = len > 0 && lengths && !strchr("0123456789+-.", *text);
        if (has_unit) {
            if (len >= sizeof one)
                return 0;
            snprintf(one, sizeof one, "%.*s", (int)len, text);
            if (!(vp_unit_mm(one) > 0) || (*unit && strcmp(unit, one)))
                return 0;
            strcpy(unit, one);
            text += len;
        }
        text += strspn(text, " ");
        if (*text == ',' && !*++text)
            return 0;
    }
    *mm = *unit ? vp_unit_mm(unit) : 1;
    return n;
}

static int wrong(const char *key, const char *value, const char *expected, struct vp_err *err)
{
    return vp_fail(err, VP_EUSAGE, "--set %s: expected %s, got '%s'", key, expected, value);
}

/* Keys whose value is `least` to `most` numbers. */
static const struct key_kind { const char *key; int least, most; bool lengths; const char *expected; } kinds[] = {
    {"voxel", 1, 3, true, "one to three lengths as in 0.5,0.5,2mm"},
    {"origin", 3, 3, true, "three coordinates as in 0,0,-25.5mm"},
    {"scale", 2, 2, false, "GAIN,OFFSET with a gain that is not 0"},
};
enum { VOXEL, ORIGIN, SCALE, KINDS };

static int set_numbers(struct vp_meta *m, int kind, const char *value, struct vp_err *err)
{
    const struct key_kind *k = &kinds[kind];
    double v[3], mm = 1;
    int n = numbers(value, k->most, v, k->lengths, &mm);
    bool good = n >= k->least && (kind != SCALE || v[0] != 0);
    for (int i = 0; i < n; i++)
        good = good && (kind != VOXEL || v[i] > 0) && isfinite(v[i] * mm);
    if (!good)
        return wrong(k->key, value, k->expected, err);
    if (n == 1) {
        v[2] = v[1] = v[0];
        n = 3;
    }
    const int rc = !k->lengths ? vp_set_numbers(m, k->key, n, v)
                   : n == 2    ? vp_meta_setf(m, k->key, "%.15g %.15g", v[0] * mm, v[1] * mm)
                               : vp_meta_setf(m, k->key, "%.15g %.15g %.15g", v[0] * mm, v[1] * mm, v[2] * mm);
    return rc || (k->lengths && vp_meta_set(m, "unit", "mm")) ? vp_fail(err, VP_ERESOURCE, "out of memory") : 0;
}

/* Sets names or numbers with blanks between them. */
static int set_words(struct vp_meta *m, const char *key, const char *value, const char *letters, const char *expected,
                     struct vp_err *err)
{
    char text[LONGEST], *p = text;
    for (const char *s = value; *s;) {
        s += strspn(s, ", ");
        const size_t n = strspn(s, letters);
        if (!*s)
            break;
        if (n == 0 || n >= VP_AXIS_NAME || (s[n] && s[n] != ',' && s[n] != ' ') || p + n + 2 > text + sizeof text)
            return wrong(key, value, expected, err);
        p += sprintf(p, "%s%.*s", p > text ? " " : "", (int)n, s);
        s += n;
    }
    if (p == text)
        return wrong(key, value, expected, err);
    return vp_meta_set(m, key, text) ? vp_fail(err, VP_ERESOURCE, "out of memory") : 0;
}

static int set_one(struct vp_meta *m, const char *key, const char *value, struct vp_err *err)
{
    if (!strcmp(key, "history") || !strncmp(key, "geom.", 5)) {
        vp_fail(err, VP_EUSAGE, "--set %s: it is written by the programs", key);
        return *key == 'g' ? vp_hint(err, "a geometry is given with -g FILE") : -1;
    }
    if (*value && !strcmp(key, "palette")) {
        vp_fail(err, VP_EUSAGE, "--set palette: it comes with the images");
        return vp_hint(err, "--set palette= takes it away");
    }
    if (!*value)
        return vp_meta_set(m, key, NULL) ? vp_fail(err, VP_ERESOURCE, "out of memory") : 0;
    for (int k = 0; k < KINDS; k++)
        if (!strcmp(key, kinds[k].key))
            return set_numbers(m, k, value, err);
    if (!strcmp(key, "axes"))
        return set_words(m, key, value, "abcdefghijklmnopqrstuvwxyz0123456789_-", "names as in x,y,z", err);
    if (!strcmp(key, "sizes"))
        return set_words(m, key, value, "0123456789", "numbers as in 3,40", err);
    if (!strcmp(key, "unit") && strcmp(value, "mm") && strcmp(value, "pixel")) {
        wrong(key, value, "mm or pixel", err);
        return vp_hint(err, "other lengths are given as in --set voxel=12um");
    }
    /* one line, without controls of a terminal */
    for (const char *s = value; *s; s++)
        if ((unsigned char)*s < ' ' || *s == 0x7f)
            return wrong(key, value, "one line without control characters", err);
    value += strspn(value, " ");
    char text[LONGEST];
    size_t n = strlen(value);
    while (n && value[n - 1] == ' ')
        n--;
    if (n >= sizeof text)
        return vp_fail(err, VP_EUSAGE, "--set %s: expected less than %d bytes, got %zu", key, LONGEST, n);
    snprintf(text, sizeof text, "%.*s", (int)n, value);
    return vp_meta_set(m, key, text) ? vp_fail(err, VP_ERESOURCE, "out of memory") : 0;
}

/* Checks that the axes given are those of the pages. */
static int check_axes(struct vp_stack *s, bool sizes, struct vp_err *err)
{
    struct vp_axes a;
    const char *axes = vp_meta_get(&s->meta, "axes");

    vp_axes_get(s, &a);
    for (int i = 0; i < a.n; i++)
        for (int k = 0; k < i; k++)
            if (!strcmp(a.name[i], a.name[k]))
                return vp_fail(err, VP_EUSAGE, "--set axes: %s is named twice", a.name[i]);
    if (axes && !strchr(axes, ' '))
        return vp_fail(err, VP_EUSAGE, "--set axes: expected at least two, as in x,y");
    if (a.n == 0 && axes && s->pages > 1)
        return vp_fail_hint(err, VP_EUSAGE, "name their axis, as in --set axes=x,y,z",
                            "--set axes: '%s' has no axis for the %lld pages", axes, (long long)s->pages);
    double said;
    const bool mismatch = a.n == 1 && sizes && s->pages >= 0
                          && !(vp_meta_numbers(&s->meta, "sizes", 1, &said) && said == (double)s->pages);
    if ((a.n > 1 && !a.sized) || mismatch || (sizes && a.n == 0)) {
        char pages[32] = "the pages";
        if (s->pages >= 0)
            snprintf(pages, sizeof pages, "%lld pages", (long long)s->pages);
        return vp_fail_hint(err, VP_EUSAGE, "give both, as in --set axes=x,y,channel,z --set sizes=3,40",
                            "--set: axes %s and sizes %s are not those of %s", axes ? axes : "unknown",
                            sizes ? vp_meta_get(&s->meta, "sizes") : "not given", pages);
    }
    if (a.n && vp_axes_set(&s->meta, &a))
        return vp_fail(err, VP_ERESOURCE, "out of memory");
    return 0;
}

int vp_set_stack(const struct vp_set_params *p, struct vp_stack *out, struct vp_err *err)
{
    bool axes = false, sizes = false;

    for (int i = 0; i < p->set.n; i++) {
        const char *text = p->set.v[i], *eq = strchr(text, '=');
        const size_t n = eq ? (size_t)(eq - text) : 0;
        char key[64];
        if (n == 0 || n >= sizeof key || n != strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789._-"))
            return vp_fail(err, VP_EUSAGE,
                           "--set: expected KEY=VALUE with a key of lower-case letters, digits and ._-, got '%s'",
                           text);
        snprintf(key, sizeof key, "%.*s", (int)n, text);
        if (set_one(&out->meta, key, eq + 1, err))
            return -1;
        axes = axes || !strcmp(key, "axes");
        sizes = sizes || (!strcmp(key, "sizes") && eq[1]);
    }
    return axes || sizes ? check_axes(out, sizes, err) : 0;
}
