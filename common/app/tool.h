/* The common part of every program: its description, the common options, and vp_main(), the only function that prints
 * errors and exits. */
#pragma once

#include "base/err.h"
#include "base/opt.h"
#include <stdio.h>

struct vp_stats;
struct vp_progress;

struct vp_example {
    const char *what;     /* one sentence */
    const char *command;  /* complete as given; several lines joined by backslash-newline are allowed */
};

enum {
    VP_TOOL_TEXT = 1,      /* standard output is text (a terminal is fine) */
    VP_TOOL_SOURCE = 2,    /* reads no stack from standard input when no operand is given */
    VP_TOOL_DIFF = 4,      /* exit status 0 same, 1 different, 2 trouble (img-cmp) */
    VP_TOOL_NO_DEVICE = 8, /* has no GPU code: without --device */
    VP_TOOL_NO_OUTPUT = 16,/* writes to standard output only: without -o (also VP_TOOL_DIFF) */
    VP_TOOL_NO_STACK = 32, /* the output is not a stack (a picture): without --raw-out and --compress */
    VP_TOOL_CUDA = 64,     /* has GPU code and opens the device itself */
    VP_TOOL_RANKS = 128,   /* can be one of several ranks: only the first reports usage errors */
    VP_TOOL_JOINS = 256,   /* joins inputs of any kind, or has its own rule: without --join */
    VP_TOOL_VIEWS = 512    /* pages without a named axis are views, not slices */
};

/* Common options of a program: VP_TOOL_TEXT removes --raw-out, --compress and --force; VP_TOOL_SOURCE removes --raw-in,
 * --spool, --join and --each-file if it takes no operands or is VP_TOOL_TEXT (ct-geom); VP_TOOL_DIFF removes
 * --each-file. A removed option has its default value. */

struct vp_run;

struct vp_tool {
    const char *name;          /* "ct-fdk" */
    const char *operands;      /* "[INPUT]..."; NULL: none allowed */
    const char *summary;       /* one line for --help, NAME and the README table */
    const char *description;   /* paragraphs separated by blank lines */
    const struct vp_opt *options; /* table for `params_size` bytes of parameters */
    size_t params_size;
    const struct vp_example *examples; /* ended by {0} */
    const char *sections;      /* further man text: "HEADING\n" in capitals, paragraphs below; or NULL */
    const char *see_also;      /* "ct-filter(1), ct-geometry(5)" */
    unsigned flags;
    const char *text_with;     /* option that makes standard output text; or NULL */
    /* Runs the program. 0: done; -1: err holds the error; > 0: exit status without a message (VP_TOOL_DIFF). */
    void (*arguments)(int argc, char **argv); /* rewrites arguments before they are parsed, or NULL */
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
    bool join;                 /* --join: join inputs that are volumes */
    bool each_file;            /* --each-file: one run for each input file; `output` is the folder of the results */
    int compress;              /* --compress none|deflate|zstd (-o only) */
    bool help, version;
};

/* The program's rows of the common options, ended. None changes pixels, so none is in the history. */
enum { VP_MAX_COMMON = 32 };
void vp_tool_common(const struct vp_tool *tool, struct vp_opt out[VP_MAX_COMMON]);
bool vp_has_common(const struct vp_tool *tool, const char *option);

struct vp_run {
    const struct vp_tool *tool;
    struct vp_common common;
    struct vp_parsed parsed;        /* parsed.operands are the inputs */
    struct vp_stats *stats;         /* stage times and byte counts; never NULL */
    struct vp_progress *progress;   /* never NULL */
    char *history;                  /* this run for the metadata: "ct-filter --window hann" */
    bool all_threads, all_memory;   /* defaults of -j and -m apply */
    bool pyramid;                   /* the output is one; set by the program */
    int64_t flats, darks;           /* last pages of the output, HDF5; set by the program */
    struct vp_plan_line { const char *key; char *value; } *plan;
    int n_plan;
};

/* The program, which tools/NAME.c defines; compiled as vp_program_NAME, for all are linked into one. */
extern const struct vp_tool vp_program;

/* Parses, sets up, runs, reports; returns the exit status. */
int vp_main(const struct vp_tool *tool, int argc, char **argv);

bool vp_given(const struct vp_run *run, const char *option);

/* True if the output is text. */
bool vp_writes_text(const struct vp_run *run);

/* Prints an error as vp_main() does and returns its exit status: for one of several processes that reports for all. */
int vp_report(const struct vp_run *run, const struct vp_err *err);

/* "0.1.0+1a2b3c4-dirty". */
extern const char vp_version[];

/* Print messages to standard error, one line each: "ct-fdk: warning: ...". Warnings are suppressed by -q, notes are
 * shown with -v. For tools/ and app/ only (they take a struct vp_run); operations return their reports. */
void vp_warn(const struct vp_run *run, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void vp_note(const struct vp_run *run, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Collect and show the plan: "key: value" lines added by the tool before it processes pixels. vp_report_plan_done()
 * prints them: with --plan to standard output and returns true (the tool then returns 0), with -v to standard error. */
void vp_report_plan(struct vp_run *run, const char *key, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
bool vp_report_plan_done(struct vp_run *run);

/* Rejects --stats FILE if FILE is `path`, an input or the output (VP_EUSAGE). vp_main() calls it for all names on the
 * command line. */
int vp_stats_apart(const struct vp_run *run, const char *path, struct vp_err *err);

/* Rejects `--device cuda...` for an operation without GPU code (VP_ERESOURCE). 0 if the work runs on the CPU. vp_main()
 * calls it for every program with --device. */
int vp_device_cpu(const struct vp_run *run, struct vp_err *err);

/* Exit status if OpenMP's runtime fails. */
extern int vp_openmp_status;
