/* The typed option table: the only source of the parser, --help, the OPTIONS part of the man
 * pages and the completions.
 *
 * A table is an array of struct vp_opt ended by {0}. A row writes its value into a struct of
 * parameters at `offset`; the macros check at compile time that the field has the type that the
 * row says. VP_OPTIONS embeds the table of an operation (with its parameter struct as a member),
 * so that ct-fdk shows the very options of ct-normalize, ct-filter and ct-backproject.
 *
 * Values are parsed whole ("3px" is an error), checked against [min, max] (if min < max), and the
 * last one wins. Options are GNU: --name=V, --name V, -xV, bundled flags, `--` ends them, exact
 * names only; on a miss the nearest name is suggested. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct vp_err;

enum vp_opt_type {
    VP_T_END = 0,
    VP_T_FLAG,     /* bool; no value */
    VP_T_INT,      /* int64_t */
    VP_T_REAL,     /* double; the word in `choices`, if there is one, is -1 */
    VP_T_REALS,    /* struct vp_reals: 1 to 32 numbers separated by commas */
    VP_T_STRING,   /* const char * (points into argv; NULL if not given) */
    VP_T_FILE,     /* const char *: a file that is read; completed as a file name */
    VP_T_OUTFILE,  /* const char *: a file that is written */
    VP_T_FILES,    /* struct vp_strings: repeatable; each a file, a directory or @list */
    VP_T_STRINGS,  /* struct vp_strings: repeatable; text */
    VP_T_CHOICE,   /* int: index into `choices`, which is "auto|cpu|gpu" */
    VP_T_BYTES,    /* uint64_t: 4GiB */
    VP_T_SIZE,     /* struct vp_size: 1 to 3 positive integers separated by x: 256, WxH, WxHxD */
    VP_T_RANGE,    /* struct vp_range: a:b, half open, either side may be missing; "a" is a:a+1 */
    VP_T_INSTEAD,  /* no option, but what users of other programs or of older versions type: `help` names the option
                      that is meant, without dashes; has no field */
    VP_T_TABLE     /* an embedded table */
};

enum { VP_REALS_MAX = 32 };
struct vp_reals { int n; double v[VP_REALS_MAX]; }; /* n = 0: not given */
struct vp_size { int n; int64_t v[3]; };            /* n = 0: not given */
struct vp_range { bool given; int64_t lo, hi; };    /* missing side: lo = 0, hi = INT64_MAX */
struct vp_strings { int n; const char **v; };       /* v is freed by vp_parsed_free() */

struct vp_opt {
    const char *name;      /* long name without dashes; exact */
    char letter;           /* or 0 */
    enum vp_opt_type type;
    size_t offset;         /* offset of the field in the parameter struct */
    double min, max;       /* VP_T_INT, VP_T_REAL, VP_T_REALS, VP_T_BYTES; may be infinite; unchecked if both are 0 */
    const char *def;       /* default as the user would write it, parsed at start; NULL: the zero value */
    const char *metavar;   /* "MM", "FILE", "WxHxD" */
    const char *help;      /* one line, no full stop; shown by --help with the default */
    const char *more;      /* further sentences for the man page, or NULL */
    const char *choices;   /* VP_T_CHOICE: "a|b|c"; VP_T_STRING: words that the completions offer; VP_T_REAL:
                              a word instead of a number that is not negative */
    const char *group;     /* heading in --help and the man page; NULL continues the previous row's */
    const struct vp_opt *table; /* VP_T_TABLE */
    bool hidden;           /* not in --help, man page, completions */
    bool history;          /* false for options that do not change the pixels; set by VP_O rows, see below */
};

/* Compile-time check that field f of struct S has type T; yields its offset. */
#define VP_FIELD(S, f, T) (offsetof(S, f) + 0 * sizeof(&((S *)0)->f == (T *)0))

#define VP_FLAG(S, f, nm, ch, ...)    {.name = nm, .letter = ch, .type = VP_T_FLAG, .offset = VP_FIELD(S, f, bool), .history = true, __VA_ARGS__}
#define VP_INT(S, f, nm, ch, ...)     {.name = nm, .letter = ch, .type = VP_T_INT, .offset = VP_FIELD(S, f, int64_t), .history = true, __VA_ARGS__}
#define VP_REAL(S, f, nm, ch, ...)    {.name = nm, .letter = ch, .type = VP_T_REAL, .offset = VP_FIELD(S, f, double), .history = true, __VA_ARGS__}
#define VP_REALS(S, f, nm, ch, ...)   {.name = nm, .letter = ch, .type = VP_T_REALS, .offset = VP_FIELD(S, f, struct vp_reals), .history = true, __VA_ARGS__}
#define VP_STRING(S, f, nm, ch, ...)  {.name = nm, .letter = ch, .type = VP_T_STRING, .offset = VP_FIELD(S, f, const char *), .history = true, __VA_ARGS__}
#define VP_FILE(S, f, nm, ch, ...)    {.name = nm, .letter = ch, .type = VP_T_FILE, .offset = VP_FIELD(S, f, const char *), .history = true, __VA_ARGS__}
#define VP_OUTFILE(S, f, nm, ch, ...) {.name = nm, .letter = ch, .type = VP_T_OUTFILE, .offset = VP_FIELD(S, f, const char *), .history = false, __VA_ARGS__}
#define VP_FILES(S, f, nm, ch, ...)   {.name = nm, .letter = ch, .type = VP_T_FILES, .offset = VP_FIELD(S, f, struct vp_strings), .history = true, __VA_ARGS__}
#define VP_STRINGS(S, f, nm, ch, ...) {.name = nm, .letter = ch, .type = VP_T_STRINGS, .offset = VP_FIELD(S, f, struct vp_strings), .history = true, __VA_ARGS__}
#define VP_CHOICE(S, f, nm, ch, list, ...) {.name = nm, .letter = ch, .type = VP_T_CHOICE, .offset = VP_FIELD(S, f, int), .choices = list, .history = true, __VA_ARGS__}
#define VP_BYTES(S, f, nm, ch, ...)   {.name = nm, .letter = ch, .type = VP_T_BYTES, .offset = VP_FIELD(S, f, uint64_t), .history = true, __VA_ARGS__}
#define VP_LIMIT(S, f, nm, ch, ...)   {.name = nm, .letter = ch, .type = VP_T_BYTES, .offset = VP_FIELD(S, f, uint64_t), .history = false, __VA_ARGS__}
#define VP_SIZE(S, f, nm, ch, ...)    {.name = nm, .letter = ch, .type = VP_T_SIZE, .offset = VP_FIELD(S, f, struct vp_size), .history = true, __VA_ARGS__}
#define VP_RANGE(S, f, nm, ch, ...)   {.name = nm, .letter = ch, .type = VP_T_RANGE, .offset = VP_FIELD(S, f, struct vp_range), .history = true, __VA_ARGS__}
#define VP_INSTEAD(nm, ch, meant)     {.name = nm, .letter = ch, .type = VP_T_INSTEAD, .help = meant, .hidden = true}
#define VP_OPTIONS(S, f, rows)        {.type = VP_T_TABLE, .offset = offsetof(S, f), .table = rows}
#define VP_OPT_END                    {.type = VP_T_END}

/* A finished parse: how options were used, in the order given, and the operands. */
struct vp_parsed {
    int n_uses;
    struct vp_use { const struct vp_opt *row; const char *value; } *uses; /* value NULL: a flag */
    int n_operands;
    const char **operands;         /* pointers into argv, as values are */
    const struct vp_opt *table;    /* parsed, with its parameters; both must stay until it is freed */
    void *params;
};

/* True if an option may be given several times, each adding to a list. */
static inline bool vp_opt_repeats(const struct vp_opt *row)
{
    return row->type == VP_T_FILES || row->type == VP_T_STRINGS;
}

/* Sets the defaults of `table` (recursively) in `params`. */
int vp_opt_defaults(const struct vp_opt *table, void *params, struct vp_err *err);

/* Parses argv[1..] into `params`. 0, or -1 with code VP_EUSAGE. */
int vp_opt_parse(const struct vp_opt *table, void *params, int argc, char **argv,
                 struct vp_parsed *parsed, struct vp_err *err);
bool vp_opt_given(const struct vp_parsed *parsed, const char *name);
/* Calls fn for the operands (row NULL) and the files that options name, lists still with their '@'. Stops at the first
 * non-zero. */
int vp_parsed_files(const struct vp_parsed *parsed, int (*fn)(void *ctx, const struct vp_opt *row, const char *path),
                    void *ctx);
void vp_parsed_free(struct vp_parsed *parsed);

/* Sets one row from text, as the command line would; messages name `source` ("VOXPIPE_THREADS",
 * "scan.geom: line 3: sod"). `value` must outlive params; a VP_T_FILES or VP_T_STRINGS row grows params' list, which
 * the caller then frees. */
int vp_opt_set_from(const char *source, const struct vp_opt *row, void *params, const char *value,
                    struct vp_err *err);

/* Returns "ct-filter --window hann": the program and the given options whose rows say `history`, by long
 * name in the order given, the last value of each, files by base name; quoted as a shell needs.
 * malloc'd; NULL if out of memory. */
char *vp_opt_history(const struct vp_parsed *parsed, const char *program);

/* Calls fn for every row, embedded tables expanded (their offsets added). Stops at the first non-zero. */
int vp_opt_each(const struct vp_opt *table, size_t base,
                int (*fn)(void *ctx, const struct vp_opt *row, size_t offset), void *ctx);

/* Returns the edits from the typed text (nt characters) to a word (nw), or -1 if it is too far to suggest. A
 * prefix of the word is near. */
int vp_opt_nearness(const char *typed, size_t nt, const char *word, size_t nw);
