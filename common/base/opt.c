/* SPDX-License-Identifier: BSD-3-Clause */
/* The option table: defaults, the parser, suggestions and the history line.
 *
 * Suggestions use the distance of optimal string alignment (insert, delete, replace, swap two
 * neighbours), the common typing errors. */
#include "base/opt.h"
#include "base/text.h"
#include "base/err.h"
#include "base/size.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- values ---- */

static void *field(const void *params, size_t offset)
{
    return (char *)(uintptr_t)params + offset;
}

static int out_of_memory(struct vp_err *err)
{
    return vp_fail(err, VP_ERESOURCE, "out of memory");
}

/* Copies text[0..n), if it is of these characters alone, to `copy`. */
static bool is_of(const char *chars, const char *text, size_t n, char copy[128])
{
    if (n == 0 || n >= 128 || strspn(text, chars) < n)
        return false;
    memcpy(copy, text, n);
    copy[n] = '\0';
    return true;
}

/* Parses a decimal number filling text[0..n) to the last character; no blanks, hexadecimals, nan or inf. */
static bool parse_real(const char *text, size_t n, double *out)
{
    char copy[128], *end = NULL;
    const double v = is_of("0123456789+-.eE", text, n, copy) ? strtod(copy, &end) : 0;
    if (!end || *end || end == copy || !isfinite(v))
        return false;
    *out = v;
    return true;
}

/* Parses a whole number likewise. */
static bool parse_int(const char *text, size_t n, int64_t *out)
{
    char copy[128], *end = NULL;
    errno = 0;
    const long long v = is_of("0123456789+-", text, n, copy) ? strtoll(copy, &end, 10) : 0;
    if (!end || *end || end == copy || errno)
        return false;
    *out = v;
    return true;
}

static int check_range(const struct vp_opt *row, double v, const char *source, const char *text,
                       struct vp_err *err)
{
    if (!(row->min < row->max) || (v >= row->min && v <= row->max))
        return 0;
    if (row->max >= 9e18)
        return vp_fail(err, VP_EUSAGE, "%s: expected at least %.10g, got %s", source, row->min, text);
    if (row->min <= -9e18)
        return vp_fail(err, VP_EUSAGE, "%s: expected at most %.10g, got %s", source, row->max, text);
    return vp_fail(err, VP_EUSAGE, "%s: expected %.10g to %.10g, got %s", source, row->min, row->max, text);
}

static int set_number(const struct vp_opt *row, void *where, const char *source, const char *text, struct vp_err *err)
{
    union { int64_t whole; double real; uint64_t bytes; } v;
    const size_t n = strlen(text);
    if (row->type == VP_T_INT && !parse_int(text, n, &v.whole))
        return vp_fail(err, VP_EUSAGE, "%s: '%s' is not a whole number", source, text);
    if (row->type == VP_T_REAL && row->choices && !strcmp(text, row->choices)) {
        *(double *)where = -1;
        return 0;
    }
    if (row->type == VP_T_REAL && !parse_real(text, n, &v.real))
        return vp_fail(err, VP_EUSAGE, "%s: '%s' is not a number%s%s", source, text, row->choices ? ", nor " : "",
                       row->choices ? row->choices : "");
    if (row->type == VP_T_BYTES && !vp_parse_bytes(text, &v.bytes))
        return vp_fail(err, VP_EUSAGE, "%s: '%s' is not a number of bytes: expected as in 800M or 1.5GiB", source,
                       text);
    const double value = row->type == VP_T_INT ? (double)v.whole : row->type == VP_T_REAL ? v.real : (double)v.bytes;
    if (check_range(row, value, source, text, err))
        return -1;
    memcpy(where, &v, sizeof v);
    return 0;
}

static int set_reals(const struct vp_opt *row, struct vp_reals *out, const char *source, const char *text,
                     struct vp_err *err)
{
    struct vp_reals list = {0};
    for (const char *s = text;; s++) {
        const size_t n = strcspn(s, ",");
        if (list.n == VP_REALS_MAX)
            return vp_fail(err, VP_EUSAGE, "%s: '%s': expected at most %d numbers", source, text, VP_REALS_MAX);
        if (!parse_real(s, n, &list.v[list.n]))
            return vp_fail(err, VP_EUSAGE, "%s: '%s' is not a list of numbers separated by commas",
                           source, text);
        if (check_range(row, list.v[list.n++], source, text, err))
            return -1;
        s += n;
        if (!*s)
            break;
    }
    *out = list;
    return 0;
}

static int set_size(struct vp_size *out, const char *source, const char *text, struct vp_err *err)
{
    struct vp_size size = {0};
    for (const char *s = text;; s++) {
        const size_t n = strcspn(s, "x");
        if (size.n == 3 || !parse_int(s, n, &size.v[size.n]) || size.v[size.n] < 1)
            return vp_fail(err, VP_EUSAGE, "%s: '%s' is not a size: expected up to three numbers above 0 "
                           "separated by x, as in 256x256", source, text);
        size.n++;
        s += n;
        if (!*s)
            break;
    }
    *out = size;
    return 0;
}

static int set_range(struct vp_range *out, const char *source, const char *text, struct vp_err *err)
{
    struct vp_range r = {true, 0, INT64_MAX};
    const size_t n = strcspn(text, ":"), all = strlen(text);
    bool ok = n == 0 ? all > 0 : parse_int(text, n, &r.lo) && r.lo >= 0 && r.lo < INT64_MAX;
    if (n == all)
        r.hi = ok ? r.lo + 1 : 0;
    else if (n + 1 < all)
        ok = ok && parse_int(text + n + 1, all - n - 1, &r.hi);
    if (!ok)
        return vp_fail(err, VP_EUSAGE, "%s: '%s' is not a range: expected FIRST:END of whole numbers from 0, "
                       "either of which may be missing", source, text);
    if (r.lo >= r.hi)
        return vp_fail(err, VP_EUSAGE, "%s: '%s' is empty: expected the end above the first", source, text);
    *out = r;
    return 0;
}

/* Returns the distance of optimal string alignment; a large number for words too long to be typed wrongly. */
static int distance(const char *a, size_t na, const char *b, size_t nb)
{
    enum { MAX = 63 };
    int d[MAX + 1][MAX + 1]; /* distances of their prefixes */
    if (na > MAX || nb > MAX)
        return 1000;
    for (size_t i = 0; i <= na; i++)
        for (size_t j = 0; j <= nb; j++) {
            int64_t least = (int64_t)(i + j);
            if (i && j)
                least = vp_min64(d[i - 1][j - 1] + (a[i - 1] != b[j - 1]), vp_min64(d[i - 1][j], d[i][j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                least = vp_min64(least, d[i - 2][j - 2] + 1);
            d[i][j] = (int)least;
        }
    return d[na][nb];
}

int vp_opt_nearness(const char *typed, size_t nt, const char *word, size_t nw)
{
    if (nt >= 2 && nt < nw && !memcmp(typed, word, nt))
        return 1;
    const int d = distance(typed, nt, word, nw);
    const size_t shorter = nt < nw ? nt : nw;
    return d <= (shorter < 3 ? 1 : shorter < 6 ? 2 : 3) && (size_t)d < shorter ? d : -1;
}

/* Returns our word for a sample type in that of NumPy, C or a viewer, or the text itself. */
static const char *our_type(const char *text)
{
    static const char *const words[][2] = {
        {"uint8", "u8"}, {"uint16", "u16"}, {"uint32", "u32"}, {"uint64", "u64"}, {"int8", "i8"}, {"int16", "i16"},
        {"int32", "i32"}, {"int64", "i64"}, {"float32", "f32"}, {"float64", "f64"}, {"float", "f32"},
        {"double", "f64"}, {"single", "f32"}, {"8-bit", "u8"}, {"16-bit", "u16"}, {"32-bit", "f32"},
    };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!strcmp(text, words[i][0]))
            return words[i][1];
    return text;
}

static int set_choice(const struct vp_opt *row, int *out, const char *source, const char *typed,
                      struct vp_err *err)
{
    const char *const text = strcmp(row->name, "type") ? typed : our_type(typed);
    const size_t nt = strlen(text);
    const char *near = "";
    int best = 1000, near_n = 0, choice = 0;
    char list[512];
    size_t m = 0, n;
    for (const char *word = row->choices;; word += n + 1, choice++) {
        n = strcspn(word, "|");
        const int d = vp_opt_nearness(text, nt, word, n);
        if (n == nt && !memcmp(word, text, n)) {
            *out = choice;
            return 0;
        }
        if (d >= 0 && d < best) {
            best = d;
            near = word;
            near_n = (int)n;
        }
        if (m < sizeof list)
            m += (size_t)snprintf(list + m, sizeof list - m, "%s%.*s", m ? ", " : "", (int)n, word);
        if (!word[n])
            break;
    }
    return vp_fail(err, VP_EUSAGE, "%s: '%s' is not one of %s%s%.*s%s", source, typed, list,
                   near_n ? "; did you mean " : "", near_n, near, near_n ? "?" : "");
}

/* Gives the row's field its value; `source` is named in messages. */
static int set_value(const char *source, const struct vp_opt *row, void *where, const char *text,
                     struct vp_err *err)
{
    const bool path = row->type == VP_T_FILE || row->type == VP_T_OUTFILE || row->type == VP_T_FILES;
    if (path && !*text)
        return vp_fail(err, VP_EUSAGE, "%s: the file name is empty", source);
    switch (row->type) {
    case VP_T_FLAG:
        *(bool *)where = true;
        return 0;
    case VP_T_INT:
    case VP_T_REAL:
    case VP_T_BYTES:
        return set_number(row, where, source, text, err);
    case VP_T_REALS:
        return set_reals(row, where, source, text, err);
    case VP_T_FILES:
    case VP_T_STRINGS: {
        struct vp_strings *list = where;
        const char **grown = realloc(list->v, ((size_t)list->n + 1) * sizeof *grown);
        if (!grown)
            return out_of_memory(err);
        list->v = grown;
        list->v[list->n++] = text;
        return 0;
    }
    case VP_T_STRING:
    case VP_T_FILE:
    case VP_T_OUTFILE:
        *(const char **)where = text;
        return 0;
    case VP_T_CHOICE:
        return set_choice(row, where, source, text, err);
    case VP_T_SIZE:
        return set_size(where, source, text, err);
    case VP_T_RANGE:
        return set_range(where, source, text, err);
    case VP_T_END:
    case VP_T_INSTEAD:
    case VP_T_TABLE:
        break;
    }
    return vp_fail(err, VP_EUSAGE, "%s: takes no value", source);
}

int vp_opt_set_from(const char *source, const struct vp_opt *row, void *params, const char *value,
                    struct vp_err *err)
{
    return set_value(source, row, field(params, row->offset), value, err);
}

/* ---- tables ---- */

int vp_opt_each(const struct vp_opt *table, size_t base,
                int (*fn)(void *ctx, const struct vp_opt *row, size_t offset), void *ctx)
{
    for (const struct vp_opt *row = table; row && row->type != VP_T_END; row++) {
        const size_t offset = base + row->offset;
        const int stop = row->type == VP_T_TABLE ? vp_opt_each(row->table, offset, fn, ctx)
                                                 : fn(ctx, row, offset);
        if (stop)
            return stop;
    }
    return 0;
}

struct defaults {
    void *params;
    struct vp_err *err;
};

static int set_default(void *ctx, const struct vp_opt *row, size_t offset)
{
    static const size_t bytes[] = {
        [VP_T_FLAG] = sizeof(bool), [VP_T_INT] = sizeof(int64_t), [VP_T_REAL] = sizeof(double),
        [VP_T_REALS] = sizeof(struct vp_reals), [VP_T_STRING] = sizeof(char *), [VP_T_FILE] = sizeof(char *),
        [VP_T_OUTFILE] = sizeof(char *), [VP_T_FILES] = sizeof(struct vp_strings),
        [VP_T_STRINGS] = sizeof(struct vp_strings),
        [VP_T_CHOICE] = sizeof(int), [VP_T_BYTES] = sizeof(uint64_t), [VP_T_SIZE] = sizeof(struct vp_size),
        [VP_T_RANGE] = sizeof(struct vp_range), [VP_T_INSTEAD] = 0,
    };
    const struct defaults *d = ctx;
    void *where = field(d->params, offset);
    memset(where, 0, bytes[row->type]);
    if (!row->def || row->type == VP_T_FLAG || vp_opt_repeats(row))
        return 0;
    char label[80];
    snprintf(label, sizeof label, "default of --%s", row->name);
    return set_value(label, row, where, row->def, d->err);
}

int vp_opt_defaults(const struct vp_opt *table, void *params, struct vp_err *err)
{
    return vp_opt_each(table, 0, set_default, &(struct defaults){params, err});
}

/* ---- the parser ---- */

struct search {
    const char *name;
    size_t name_n;
    char letter;               /* searched instead of the name if not 0 */
    const struct vp_opt *row;
    size_t offset;
    int best;
    const char *near;
};

static int match(void *ctx, const struct vp_opt *row, size_t offset)
{
    struct search *s = ctx;
    const bool hit = s->letter ? row->letter == s->letter
                               : strlen(row->name) == s->name_n && !memcmp(row->name, s->name, s->name_n);
    if (!hit)
        return 0;
    s->row = row;
    s->offset = offset;
    return 1;
}

static int match_nearly(void *ctx, const struct vp_opt *row, size_t offset)
{
    struct search *s = ctx;
    (void)offset;
    const int d = row->hidden ? -1 : vp_opt_nearness(s->name, s->name_n, row->name, strlen(row->name));
    if (d >= 0 && d < s->best) {
        s->best = d;
        s->near = row->name;
    }
    return 0;
}

/* Returns the name of an option near to this one; NULL if none. */
static const char *near_name(const struct vp_parsed *p, const char *name)
{
    struct search s = {.name = name, .name_n = strcspn(name, "="), .best = 1000};
    vp_opt_each(p->table, 0, match_nearly, &s);
    return s.near;
}

/* Words of other programs for options that many of ours have. */
static const char *const foreign[][2] = {
    {"dtype", "type"}, {"depth", "type"}, {"crop", "region"}, {"roi", "region"}, {"slices", "pages"},
    {"frames", "pages"}, {"threshold", "at"}, {"nthreads", "threads"}, {"jobs", "threads"}, {"gpu", "device"},
    {"cuda", "device"}, {"dry-run", "plan"}, {"out", "output"}, {"ram", "memory"},
    {"compression", "compress"}, {"pixel-size", "voxel"}, {"spacing", "voxel"}, {"radius", "window"},
    {"kernel-size", "radius"}, {"expr", "expression"}, {"iter", "iterations"}, {"boundary", "edge"}, {"mode", "edge"},
    {"padding", "edge"}, {"stats", "statistics"}, {"resize", "size"}, {"factor", "scale"}, {"zoom", "scale"},
};

/* Returns the option of this table that another program's word means; NULL if none. */
static const char *foreign_name(const struct vp_parsed *p, const char *name)
{
    const size_t n = strcspn(name, "=");
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++) {
        struct search s = {.name = foreign[i][1], .name_n = strlen(foreign[i][1])};
        if (strlen(foreign[i][0]) == n && !memcmp(foreign[i][0], name, n) && vp_opt_each(p->table, 0, match, &s))
            return foreign[i][1];
    }
    return NULL;
}

static int unknown(const struct vp_parsed *p, const char *shown, size_t n, const char *name, struct vp_err *err)
{
    const char *near = foreign_name(p, name);
    near = near ? near : near_name(p, name);
    return vp_fail(err, VP_EUSAGE, "unknown option %.*s%s%s%s", (int)n, shown, near ? "; did you mean --" : "",
                   near ? near : "", near ? "?" : "");
}

/* Fails for a row that is no option: `shown` (n characters) was typed. */
static int instead(const struct vp_opt *row, const char *shown, size_t n, struct vp_err *err)
{
    return vp_fail(err, VP_EUSAGE, "unknown option %.*s; did you mean --%s?", (int)n, shown, row->help);
}

static int take(struct vp_parsed *p, const struct search *s, const char *value, struct vp_err *err)
{
    char label[80];
    snprintf(label, sizeof label, "--%s", s->row->name);
    if (set_value(label, s->row, field(p->params, s->offset), value, err))
        return -1;
    p->uses[p->n_uses++] = (struct vp_use){s->row, value};
    return 0;
}

/* Parses --name, --name=V, --name V. Returns the number of further arguments used, or -1. */
static int long_option(struct vp_parsed *p, const char *arg, const char *next, struct vp_err *err)
{
    const size_t n = strcspn(arg + 2, "=");
    const char *value = arg[2 + n] ? arg + 3 + n : NULL;
    struct search s = {.name = arg + 2, .name_n = n};
    if (!vp_opt_each(p->table, 0, match, &s))
        return unknown(p, arg, n + 2, arg + 2, err);
    if (s.row->type == VP_T_INSTEAD)
        return instead(s.row, arg, n + 2, err);
    if (value && s.row->type == VP_T_FLAG)
        return vp_fail(err, VP_EUSAGE, "--%s: takes no value, got '%s'", s.row->name, value);
    if (value || s.row->type == VP_T_FLAG)
        return take(p, &s, value, err);
    if (!next)
        return vp_fail(err, VP_EUSAGE, "--%s: a value is missing", s.row->name);
    return take(p, &s, next, err) ? -1 : 1;
}

/* Suggests the long name after an error of "-sigma", which is -s with the value "igma". */
static int one_dash(const struct vp_parsed *p, const char *arg, struct vp_err *err)
{
    const char *near = strcspn(arg + 1, "=") >= 3 ? near_name(p, arg + 1) : NULL;
    return near ? vp_hint(err, "did you mean --%s?", near) : -1;
}

/* Parses -x, -xV, -x V, -abc. */
static int short_options(struct vp_parsed *p, const char *arg, const char *next, struct vp_err *err)
{
    for (const char *c = arg + 1; *c; c++) {
        struct search s = {.letter = *c};
        if (!vp_opt_each(p->table, 0, match, &s)) {
            if (c == arg + 1 && arg[2]) /* a long option with one dash? */
                return unknown(p, arg, strlen(arg), arg + 1, err);
            if (isprint((unsigned char)*c))
                return vp_fail(err, VP_EUSAGE, "unknown option -%c", *c);
            return vp_fail(err, VP_EUSAGE, "unknown option in '%s'", arg);
        }
        if (s.row->type == VP_T_INSTEAD)
            return instead(s.row, (const char[]){'-', *c}, 2, err);
        if (s.row->type == VP_T_FLAG) {
            if (take(p, &s, NULL, err))
                return -1;
            continue;
        }
        if (c[1])
            return take(p, &s, c + 1, err) ? one_dash(p, arg, err) : 0;
        if (!next)
            return vp_fail(err, VP_EUSAGE, "-%c (--%s): a value is missing", *c, s.row->name);
        return take(p, &s, next, err) ? -1 : 1;
    }
    return 0;
}

int vp_opt_parse(const struct vp_opt *table, void *params, int argc, char **argv,
                 struct vp_parsed *p, struct vp_err *err)
{
    size_t room = 1; /* one each argument and bundled letter */
    for (int i = 1; i < argc; i++)
        room += 1 + strlen(argv[i]);
    *p = (struct vp_parsed){.table = table, .params = params};
    p->uses = calloc(room, sizeof *p->uses);
    p->operands = calloc((size_t)(argc > 0 ? argc : 1), sizeof *p->operands);
    int used = p->uses && p->operands ? 0 : out_of_memory(err);
    bool options = true;
    for (int i = 1; i < argc && used >= 0; i += 1 + used) {
        const char *arg = argv[i], *next = i + 1 < argc ? argv[i + 1] : NULL;
        used = 0;
        if (!options || arg[0] != '-' || !arg[1])
            p->operands[p->n_operands++] = arg;
        else if (!strcmp(arg, "--"))
            options = false;
        else
            used = arg[1] == '-' ? long_option(p, arg, next, err) : short_options(p, arg, next, err);
    }
    if (used < 0)
        vp_parsed_free(p);
    return used < 0 ? -1 : 0;
}

bool vp_opt_given(const struct vp_parsed *parsed, const char *name)
{
    for (int i = 0; i < parsed->n_uses; i++)
        if (!strcmp(parsed->uses[i].row->name, name))
            return true;
    return false;
}

int vp_parsed_files(const struct vp_parsed *parsed, int (*fn)(void *ctx, const struct vp_opt *row, const char *path),
                    void *ctx)
{
    int stop = 0;
    for (int i = 0; i < parsed->n_operands && !stop; i++)
        stop = fn(ctx, NULL, parsed->operands[i]);
    for (int i = 0; i < parsed->n_uses && !stop; i++) {
        const struct vp_use *u = &parsed->uses[i];
        if (u->row->type == VP_T_FILE || u->row->type == VP_T_OUTFILE || u->row->type == VP_T_FILES)
            stop = fn(ctx, u->row, u->value);
    }
    return stop;
}

static int free_list(void *ctx, const struct vp_opt *row, size_t offset)
{
    if (vp_opt_repeats(row)) {
        struct vp_strings *list = field(ctx, offset);
        free(list->v);
        *list = (struct vp_strings){0};
    }
    return 0;
}

void vp_parsed_free(struct vp_parsed *parsed)
{
    vp_opt_each(parsed->table, 0, free_list, parsed->params);
    free(parsed->uses);
    free(parsed->operands);
    *parsed = (struct vp_parsed){0};
}

/* ---- the history line ---- */

static const char *base_name(const char *path)
{
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/') /* "dir/" */
        n--;
    const char *slash = memrchr(path, '/', n);
    return slash && slash + 1 < path + n ? slash + 1 : path;
}

/* Writes one word as a shell reads it; line breaks and other controls become '?', for the history is one line. */
static void put_word(FILE *f, const char *text)
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_@%+=:,./-";
    const bool quote = !*text || text[strspn(text, plain)];
    if (quote)
        putc('\'', f);
    for (; *text; text++) {
        if (*text == '\'')
            fputs("'\\''", f);
        else
            putc((unsigned char)*text < 0x20 || *text == 0x7f ? '?' : *text, f);
    }
    if (quote)
        putc('\'', f);
}

char *vp_opt_history(const struct vp_parsed *parsed, const char *program)
{
    FILE *f = vp_text_open();
    if (!f)
        return NULL;
    fputs(program, f);
    for (int first = 0; first < parsed->n_uses; first++) {
        const struct vp_opt *row = parsed->uses[first].row;
        int last = first;
        bool before = false;
        for (int u = 0; u < parsed->n_uses; u++)
            if (parsed->uses[u].row == row) {
                before = before || u < first;
                last = u;
            }
        for (int u = first; row->history && !before && u <= last; u++) {
            const char *value = parsed->uses[u].value;
            if (parsed->uses[u].row != row || (u != last && !vp_opt_repeats(row)))
                continue;
            fprintf(f, " --%s", row->name);
            if (!value)
                continue;
            putc(' ', f);
            put_word(f, row->type == VP_T_FILE || row->type == VP_T_FILES ? base_name(value) : value);
        }
    }
    return vp_text_close(f, NULL);
}
