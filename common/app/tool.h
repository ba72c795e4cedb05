/* What every program shares: its description, the common options, and vp_main(), the only place
 * that prints errors and exits. */
#ifndef VP_TOOL_H
#define VP_TOOL_H

#include "base/err.h"
#include "base/opt.h"
#include <stdio.h>

struct vp_stats;
struct vp_progress;

struct vp_example {
    const char *what;     /* a sentence */
    const char *command;  /* runs as it stands; several lines joined by backslash-newline are allowed */
};

enum {
    VP_TOOL_TEXT = 1,      /* standard output is text (a terminal is fine) */
    VP_TOOL_SOURCE = 2,    /* reads no stack from standard input when no operand is given */
    VP_TOOL_DIFF = 4,      /* exit status 0 same, 1 different, 2 trouble (img-cmp) */
    VP_TOOL_NO_DEVICE = 8, /* has no work for a device: leaves out --device */
    VP_TOOL_NO_OUTPUT = 16,/* writes to standard output only: leaves out -o (VP_TOOL_DIFF does as well) */
    VP_TOOL_NO_STACK = 32, /* the output is no stack (a picture): leaves out --raw-out and --compress */
    VP_TOOL_CUDA = 64,     /* can work on a GPU: looks for the device itself */
    VP_TOOL_RANKS = 128,   /* can be one of several ranks: of wrong usage the first one speaks */
    VP_TOOL_JOINS = 256,   /* joins its inputs whatever they are, or has a rule of its own: leaves out --join */
    VP_TOOL_VIEWS = 512    /* pages of which nothing is said are views, not slices */
};

/* Common options that a program has: VP_TOOL_TEXT leaves out --raw-out, --compress and --force;
 * VP_TOOL_SOURCE leaves out --raw-in, --spool, --join and --each-file if it takes no operands or is VP_TOOL_TEXT
 * (ct-geom), VP_TOOL_DIFF --each-file.
 * The value of an option that is left out is its default. */

struct vp_run;

struct vp_tool {
    const char *name;          /* "ct-fdk" */
    const char *operands;      /* "[INPUT]..."; NULL: none (given ones are refused) */
    const char *summary;       /* one line for --help, NAME and the README table */
    const char *description;   /* paragraphs separated by blank lines */
    const struct vp_opt *options; /* of `params_size` bytes of parameters */
    size_t params_size;
    const struct vp_example *examples; /* ended by {0} */
    const char *sections;      /* further man text: "HEADING\n" in capitals, paragraphs below; or NULL */
    const char *see_also;      /* "ct-filter(1), ct-geometry(5)" */
    unsigned flags;
    const char *text_with;     /* the option with which standard output is text; or NULL */
    /* The work. 0: done; -1: err says why; > 0: that exit status without a message (VP_TOOL_DIFF). */
    int (*run)(struct vp_run *run, void *params, struct vp_err *err);
};

/* The common options, filled before tool->run is called. */
struct vp_common {
    const char *output;        /* -o FILE; NULL or "-": standard output */
    const char *device;        /* -d; "auto", "cpu", "cuda", "cuda:0,2" */
    int64_t threads;           /* -j; after parsing: >= 1 (and omp_set_num_threads was called) */
    uint64_t memory;           /* -m; after parsing: > 0 (default 80 % of what is available) */
    bool plan;                 /* --plan */
    const char *stats;         /* --stats FILE */
    int progress;              /* 0 auto, 1 always, 2 never */
    bool quiet;                /* -q */
    bool verbose;              /* -v */
    bool force;                /* --force: binary output to a terminal */
    /* input and output of stacks */
    const char *raw_in;        /* --raw-in 2048x2048:u16le[,skip=1024] */
    bool raw_out;              /* --raw-out */
    bool spool;                /* --spool */
    bool join;                 /* --join: inputs that are volumes by themselves become one */
    bool each_file;            /* --each-file: a run for each input file; `output` is the folder of the results */
    int compress;              /* --compress none|deflate|zstd (-o only) */
    bool help, version;
};

/* The rows of the common options that the tool has, ended. None changes the pixels, so none is history. */
enum { VP_MAX_COMMON = 32 };
void vp_tool_common(const struct vp_tool *tool, struct vp_opt out[VP_MAX_COMMON]);
bool vp_has_common(const struct vp_tool *tool, const char *option);

struct vp_run {
    const struct vp_tool *tool;
    struct vp_common common;
    struct vp_parsed parsed;        /* parsed.operands are the inputs */
    struct vp_stats *stats;         /* stage times and byte counts; never NULL */
    struct vp_progress *progress;   /* never NULL */
    char *history;                  /* "ct-filter --window hann": this run, for the metadata */
    bool all_threads, all_memory;   /* nobody said how many: as many as there are */
    struct vp_plan_line { const char *key; char *value; } *plan;
    int n_plan;
};

/* Parse, set up, run, report, exit status. `main` of every program is `return vp_main(&tool, argc, argv);`
 * and nothing else: docs/generate.c takes the place of vp_main() to get at the table. */
int vp_main(const struct vp_tool *tool, int argc, char **argv);

bool vp_given(const struct vp_run *run, const char *option);

/* True if the output is text. */
bool vp_writes_text(const struct vp_run *run);

/* Print an error as vp_main() does, and give the exit status that goes with it: for one of several processes, where the
 * others are silent. */
int vp_report(const struct vp_run *run, const struct vp_err *err);

/* "0.1.0+1a2b3c4-dirty". */
extern const char vp_version[];

/* Messages to standard error, one line each: "ct-fdk: warning: ...". Warnings are silent with -q,
 * notes are shown with -v. For tools/ and for what several programs share around their work (it takes a
 * struct vp_run); operations return what they have to say. */
void vp_warn(const struct vp_run *run, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void vp_note(const struct vp_run *run, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* The plan: "key: value" lines collected by the tool before it touches pixels. vp_plan_done() shows
 * them: with --plan on standard output and returns true (the tool then returns 0), with -v on
 * standard error. */
void vp_plan(struct vp_run *run, const char *key, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
bool vp_plan_done(struct vp_run *run);

/* Refuse --stats FILE if FILE is `path`, an input or the output (VP_EUSAGE). vp_main() calls it for all names on the
 * command line. */
int vp_stats_apart(const struct vp_run *run, const char *path, struct vp_err *err);

/* Refuse `--device cuda...` where the operation cannot be had on a device (VP_ERESOURCE).
 * 0 if the work runs on the CPU. vp_main() calls it for every program with --device. */
int vp_device_cpu(const struct vp_run *run, struct vp_err *err);

/* The exit status where OpenMP's runtime gives up. */
extern int vp_openmp_status;

#endif
