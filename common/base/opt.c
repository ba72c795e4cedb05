/* SPDX-License-Identifier: BSD-3-Clause */
/* The option table: defaults, the parser, suggestions, the history line and the self-check.
 *
 * Suggestions use the distance of optimal string alignment (insert, delete, replace, swap two
 * neighbours), the common typing errors. */
#include "base/opt.h"
#include "base/text.h"
#include "base/err.h"
#include "base/size.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
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

/* A decimal number filling text[0..n) to the last character; no blanks, hexadecimals, nan or inf. */
static bool parse_real(const char *text, size_t n, double *out)
{
    char copy[128], *end;
    if (n == 0 || n >= sizeof copy || strspn(text, "0123456789+-.eE") < n)
        return false;
    memcpy(copy, text, n);
    copy[n] = '\0';
    const double v = strtod(copy, &end);
    if (*end || end == copy || !isfinite(v))
        return false;
    *out = v;
    return true;
}

/* The same for a whole number. */
static bool parse_int(const char *text, size_t n, int64_t *out)
{
    char copy[32], *end;
    if (n == 0 || n >= sizeof copy || strspn(text, "0123456789+-") < n)
        return false;
    memcpy(copy, text, n);
    copy[n] = '\0';
    errno = 0;
    const long long v = strtoll(copy, &end, 10);
    if (*end || end == copy || errno)
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

/* The i-th word of "a|b|c" and its length; NULL past the end. */
static const char *choice_word(const char *choices, int i, size_t *n)
{
    const char *s = choices;
    while (i-- > 0) {
        s = strchr(s, '|');
        if (!s)
            return NULL;
        s++;
    }
    *n = strcspn(s, "|");
    return s;
}

static int min3(int a, int b, int c)
{
    const int m = a < b ? a : b;
    return m < c ? m : c;
}

/* Distance of optimal string alignment; a large number for words too long to be typed wrongly. */
static int distance(const char *a, size_t na, const char *b, size_t nb)
{
    enum { MAX = 63 };
    int row[3][MAX + 1];
    if (na > MAX || nb > MAX)
        return 1000;
    int *before = row[0], *last = row[1], *now = row[2];
    for (size_t j = 0; j <= nb; j++)
        last[j] = (int)j;
    for (size_t i = 1; i <= na; i++) {
        now[0] = (int)i;
        for (size_t j = 1; j <= nb; j++) {
            now[j] = min3(last[j] + 1, now[j - 1] + 1, last[j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && before[j - 2] + 1 < now[j])
                now[j] = before[j - 2] + 1;
        }
        int *const spare = before;
        before = last;
        last = now;
        now = spare;
    }
    return last[nb];
}

/* How far `typed` is from `word`, -1 if too far to be meant. A beginning of the word is near. */
int vp_opt_nearness(const char *typed, size_t nt, const char *word, size_t nw)
{
    if (nt >= 2 && nt < nw && !memcmp(typed, word, nt))
        return 1;
    const int d = distance(typed, nt, word, nw);
    const size_t shorter = nt < nw ? nt : nw;
    return d <= (shorter < 3 ? 1 : shorter < 6 ? 2 : 3) && (size_t)d < shorter ? d : -1;
}

static int set_choice(const struct vp_opt *row, int *out, const char *source, const char *text,
                      struct vp_err *err)
{
    size_t n, nt = strlen(text), near_n = 0;
    const char *word, *near = NULL;
    int best = 1000;
    for (int i = 0; (word = choice_word(row->choices, i, &n)); i++) {
        if (n == nt && !memcmp(word, text, n)) {
            *out = i;
            return 0;
        }
        const int d = vp_opt_nearness(text, nt, word, n);
        if (d >= 0 && d < best) {
            best = d;
            near = word;
            near_n = n;
        }
    }
    char list[512];
    size_t m = 0;
    for (int i = 0; (word = choice_word(row->choices, i, &n)) && m < sizeof list; i++)
        m += (size_t)snprintf(list + m, sizeof list - m, "%s%.*s", i ? ", " : "", (int)n, word);
    vp_fail(err, VP_EUSAGE, "%s: '%s' is not one of %s%s%.*s%s", source, text, list,
            near ? "; did you mean " : "", (int)near_n, near ? near : "", near ? "?" : "");
    return -1;
}

/* Give the row's field its value; `source` is named in messages. */
static int set_value(const char *source, const struct vp_opt *row, void *where, const char *text,
                     struct vp_err *err)
{
    int64_t whole;
    uint64_t bytes;
    double real;
    switch (row->type) {
    case VP_T_FLAG:
        *(bool *)where = true;
        return 0;
    case VP_T_INT:
        if (!parse_int(text, strlen(text), &whole))
            return vp_fail(err, VP_EUSAGE, "%s: '%s' is not a whole number", source, text);
        if (check_range(row, (double)whole, source, text, err))
            return -1;
        *(int64_t *)where = whole;
        return 0;
    case VP_T_REAL:
        if (!parse_real(text, strlen(text), &real))
            return vp_fail(err, VP_EUSAGE, "%s: '%s' is not a number", source, text);
        if (check_range(row, real, source, text, err))
            return -1;
        *(double *)where = real;
        return 0;
    case VP_T_REALS:
        return set_reals(row, where, source, text, err);
    case VP_T_FILE:
    case VP_T_OUTFILE:
    case VP_T_FILES:
    case VP_T_STRINGS:
        if (!*text && row->type != VP_T_STRINGS)
            return vp_fail(err, VP_EUSAGE, "%s: the file name is empty", source);
        if (vp_opt_repeats(row)) {
            struct vp_strings *list = where;
            const char **grown = realloc(list->v, ((size_t)list->n + 1) * sizeof *grown);
            if (!grown)
                return out_of_memory(err);
            list->v = grown;
            list->v[list->n++] = text;
            return 0;
        }
        *(const char **)where = text;
        return 0;
    case VP_T_STRING:
        *(const char **)where = text;
        return 0;
    case VP_T_CHOICE:
        return set_choice(row, where, source, text, err);
    case VP_T_BYTES:
        if (!vp_parse_bytes(text, &bytes))
            return vp_fail(err, VP_EUSAGE, "%s: '%s' is not a number of bytes: expected as in 800M or 1.5GiB",
                           source, text);
        if (check_range(row, (double)bytes, source, text, err))
            return -1;
        *(uint64_t *)where = bytes;
        return 0;
    case VP_T_SIZE:
        return set_size(where, source, text, err);
    case VP_T_RANGE:
        return set_range(where, source, text, err);
    case VP_T_END:
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

static void option_label(char *buf, size_t n, const struct vp_opt *row)
{
    snprintf(buf, n, "--%s", row->name);
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
        [VP_T_RANGE] = sizeof(struct vp_range),
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

struct use {                   /* one use of an option, in the order given */
    const struct vp_opt *row;
    const char *value;         /* NULL: a flag */
};

struct arena {
    int n_uses;
    struct use *uses;          /* room for one each argument and bundled letter */
    int n_lists;
    struct list { struct vp_strings *where; const char **v; } *lists;
};

struct parser {
    const struct vp_opt *table;
    void *params;
    struct vp_parsed *parsed;
    struct arena *arena;
    struct vp_err *err;
};

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

static int unknown(const struct parser *p, const char *shown, int shown_n, const char *name, size_t name_n)
{
    struct search s = {.name = name, .name_n = name_n, .best = 1000};
    vp_opt_each(p->table, 0, match_nearly, &s);
    return vp_fail(p->err, VP_EUSAGE, "unknown option %.*s%s%s%s", shown_n, shown,
                   s.near ? "; did you mean --" : "", s.near ? s.near : "", s.near ? "?" : "");
}

/* The list of a row that repeats may have moved; the arena knows each by its field. */
static int keep_list(struct arena *a, struct vp_strings *where, struct vp_err *err)
{
    for (int i = 0; i < a->n_lists; i++)
        if (a->lists[i].where == where) {
            a->lists[i].v = where->v;
            return 0;
        }
    struct list *grown = realloc(a->lists, ((size_t)a->n_lists + 1) * sizeof *grown);
    if (!grown) {
        free(where->v);
        *where = (struct vp_strings){0};
        return out_of_memory(err);
    }
    a->lists = grown;
    a->lists[a->n_lists++] = (struct list){where, where->v};
    return 0;
}

static int take(const struct parser *p, const struct vp_opt *row, size_t offset, const char *label,
                const char *value)
{
    struct vp_parsed *out = p->parsed;
    void *where = field(p->params, offset);
    if (set_value(label, row, where, value, p->err))
        return -1;
    if (vp_opt_repeats(row) && keep_list(p->arena, where, p->err))
        return -1;
    p->arena->uses[p->arena->n_uses++] = (struct use){row, value};
    for (int i = 0; i < out->n_given; i++)
        if (out->given[i] == row)
            return 0;
    out->given[out->n_given++] = row;
    return 0;
}

/* --name, --name=V, --name V. Returns the number of further arguments used, or -1. */
static int long_option(const struct parser *p, const char *arg, const char *next)
{
    const size_t n = strcspn(arg + 2, "=");
    const char *value = arg[2 + n] ? arg + 3 + n : NULL;
    struct search s = {.name = arg + 2, .name_n = n};
    if (!vp_opt_each(p->table, 0, match, &s))
        return unknown(p, arg, (int)n + 2, arg + 2, n);
    char label[80];
    option_label(label, sizeof label, s.row);
    if (s.row->type == VP_T_FLAG) {
        if (value)
            return vp_fail(p->err, VP_EUSAGE, "%s: takes no value, got '%s'", label, value);
        return take(p, s.row, s.offset, label, NULL);
    }
    if (value)
        return take(p, s.row, s.offset, label, value);
    if (!next)
        return vp_fail(p->err, VP_EUSAGE, "%s: a value is missing", label);
    return take(p, s.row, s.offset, label, next) ? -1 : 1;
}

/* "-sigma" is -s with the value "igma": after an error, ask whether the long name was meant. */
static int one_dash(const struct parser *p, const char *arg)
{
    struct search s = {.name = arg + 1, .name_n = strcspn(arg + 1, "="), .best = 1000};
    if (s.name_n >= 3 && vp_opt_each(p->table, 0, match_nearly, &s) == 0 && s.near)
        vp_hint(p->err, "did you mean --%s?", s.near);
    return -1;
}

/* -x, -xV, -x V, -abc. */
static int short_options(const struct parser *p, const char *arg, const char *next)
{
    for (const char *c = arg + 1; *c; c++) {
        struct search s = {.letter = *c};
        if (!vp_opt_each(p->table, 0, match, &s)) {
            if (c == arg + 1 && arg[2]) /* a long option with one dash? */
                return unknown(p, arg, (int)strlen(arg), arg + 1, strcspn(arg + 1, "="));
            if (isprint((unsigned char)*c))
                return vp_fail(p->err, VP_EUSAGE, "unknown option -%c", *c);
            return vp_fail(p->err, VP_EUSAGE, "unknown option in '%s'", arg);
        }
        char label[80];
        option_label(label, sizeof label, s.row);
        if (s.row->type == VP_T_FLAG) {
            if (take(p, s.row, s.offset, label, NULL))
                return -1;
            continue;
        }
        if (c[1])
            return take(p, s.row, s.offset, label, c + 1) ? one_dash(p, arg) : 0;
        if (!next)
            return vp_fail(p->err, VP_EUSAGE, "-%c (%s): a value is missing", *c, label);
        return take(p, s.row, s.offset, label, next) ? -1 : 1;
    }
    return 0;
}

int vp_opt_parse(const struct vp_opt *table, void *params, int argc, char **argv,
                 struct vp_parsed *parsed, struct vp_err *err)
{
    *parsed = (struct vp_parsed){0};
    size_t room = 1;
    for (int i = 1; i < argc; i++)
        room += 1 + strlen(argv[i]);
    struct arena *arena = calloc(1, sizeof *arena);
    if (!arena)
        return out_of_memory(err);
    parsed->arena = arena;
    arena->uses = calloc(room, sizeof *arena->uses);
    parsed->given = calloc(room, sizeof *parsed->given);
    parsed->operands = calloc((size_t)(argc > 0 ? argc : 1), sizeof *parsed->operands);
    if (!arena->uses || !parsed->given || !parsed->operands) {
        vp_parsed_free(parsed);
        return out_of_memory(err);
    }
    const struct parser p = {table, params, parsed, arena, err};
    bool options = true;
    for (int i = 1; i < argc; i++) {
        const char *arg = argv[i], *next = i + 1 < argc ? argv[i + 1] : NULL;
        if (!options || arg[0] != '-' || !arg[1]) {
            parsed->operands[parsed->n_operands++] = arg;
        } else if (!strcmp(arg, "--")) {
            options = false;
        } else {
            const int used = arg[1] == '-' ? long_option(&p, arg, next) : short_options(&p, arg, next);
            if (used < 0) {
                vp_parsed_free(parsed);
                return -1;
            }
            i += used;
        }
    }
    return 0;
}

bool vp_opt_given(const struct vp_parsed *parsed, const char *name)
{
    for (int i = 0; i < parsed->n_given; i++)
        if (!strcmp(parsed->given[i]->name, name))
            return true;
    return false;
}

int vp_parsed_files(const struct vp_parsed *parsed, int (*fn)(void *ctx, const struct vp_opt *row, const char *path),
                    void *ctx)
{
    const struct arena *arena = parsed->arena;
    int stop = 0;
    for (int i = 0; i < parsed->n_operands && !stop; i++)
        stop = fn(ctx, NULL, parsed->operands[i]);
    for (int i = 0; i < arena->n_uses && !stop; i++) {
        const struct use *u = &arena->uses[i];
        if (u->row->type == VP_T_FILE || u->row->type == VP_T_OUTFILE || u->row->type == VP_T_FILES)
            stop = fn(ctx, u->row, u->value);
    }
    return stop;
}

void vp_parsed_free(struct vp_parsed *parsed)
{
    struct arena *arena = parsed->arena;
    if (arena) {
        for (int i = 0; i < arena->n_lists; i++)
            free(arena->lists[i].v);
        free(arena->lists);
        free(arena->uses);
        free(arena);
    }
    free(parsed->given);
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

/* One word as a shell reads it; line breaks and other controls become '?', for the history is one line. */
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
    const struct arena *arena = parsed->arena;
    for (int g = 0; g < parsed->n_given; g++) {
        const struct vp_opt *row = parsed->given[g];
        int last = -1;
        for (int u = 0; u < arena->n_uses; u++)
            if (arena->uses[u].row == row)
                last = u;
        for (int u = 0; row->history && u <= last; u++) {
            const char *value = arena->uses[u].value;
            if (arena->uses[u].row != row || (u != last && !vp_opt_repeats(row)))
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

/* ---- the self-check ---- */

struct check {
    const struct vp_opt *table;
    const struct vp_opt *self;   /* the row that the others are compared with */
    bool past_self;
    void *params;
    char *text;
    size_t room;
};

static int mistake(const struct check *c, const struct vp_opt *row, const char *what)
{
    snprintf(c->text, c->room, "--%s: %s", row->name ? row->name : "(no name)", what);
    return 1;
}

static int compare_rows(void *ctx, const struct vp_opt *row, size_t offset)
{
    struct check *c = ctx;
    (void)offset;
    if (row == c->self) {
        /* the same row twice is a table embedded twice */
        if (c->past_self)
            return mistake(c, row, "appears twice");
        c->past_self = true;
        return 0;
    }
    if (row->name && !strcmp(row->name, c->self->name))
        return mistake(c, row, "appears twice");
    if (row->letter && row->letter == c->self->letter)
        return mistake(c, row, "its letter belongs to another option as well");
    return 0;
}

static int check_row(void *ctx, const struct vp_opt *row, size_t offset)
{
    struct check *c = ctx;
    if (!row->name || !*row->name)
        return mistake(c, row, "has no name");
    const size_t letters = strspn(row->name, "abcdefghijklmnopqrstuvwxyz0123456789-");
    if (letters > 60 || row->name[letters] || row->name[0] == '-')
        return mistake(c, row, "the name is not of lower case letters, digits and dashes");
    if (row->letter && !isalnum((unsigned char)row->letter))
        return mistake(c, row, "the letter is no letter");
    if (!row->hidden && (!row->help || !*row->help))
        return mistake(c, row, "has no help");
    const size_t n = row->help ? strlen(row->help) : 0;
    const bool ellipsis = n >= 3 && !strcmp(row->help + n - 3, "...");
    if (n && (strchr(row->help, '\n') || (row->help[n - 1] == '.' && !ellipsis)))
        return mistake(c, row, "the help is not one line without a full stop");
    if (row->type == VP_T_CHOICE && (!row->choices || !*row->choices))
        return mistake(c, row, "has no choices");
    if (row->def && (row->type == VP_T_FLAG || vp_opt_repeats(row)))
        return mistake(c, row, "cannot have a default");
    if (row->min > row->max)
        return mistake(c, row, "the least value is above the largest");
    struct vp_err err = VP_ERR_INIT;
    if (set_default(&(struct defaults){c->params, &err}, row, offset))
        return mistake(c, row, err.msg);
    struct check others = {.self = row, .text = c->text, .room = c->room};
    return vp_opt_each(c->table, 0, compare_rows, &others);
}

const char *vp_opt_check(const struct vp_opt *table, void *params)
{
    static _Thread_local char text[1200];
    struct check c = {.table = table, .params = params, .text = text, .room = sizeof text};
    return vp_opt_each(table, 0, check_row, &c) ? text : NULL;
}
