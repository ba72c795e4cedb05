/* SPDX-License-Identifier: BSD-3-Clause */
/* vp_main(): the common part of every program before and after its work. Only this file of the library reads the
 * environment, prints messages and handles terminals and signals. */
#include "app/tool.h"
#include "engine/rates.h"
#include "app/each.h"
#include "app/help.h"
#include "base/isa.h"
#include "base/places.h"
#include "base/progress.h"
#include "base/signals.h"
#include "base/size.h"
#include "base/stats.h"
#include "base/text.h"

#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <omp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { MAX_THREADS = 4096 };

/* ---- the common options ---- */

#define IO "Input and output"
#define COMMON "Common options"

#define STDIN_NAME "/dev/fd/0"
#define STDOUT_NAME "/dev/fd/1"

static const struct vp_opt common_options[] = {
    VP_OUTFILE(struct vp_common, output, "output", 'o', .metavar = "FILE", .group = IO,
        .help = "write to FILE instead of standard output",
        .more = "A regular FILE appears under its name only when it is complete. If the run fails or is interrupted, "
                "an existing FILE stays as it was. FILE may be the input; if there are several inputs, it must not "
                "be one of them.\n\n"
                "A FILE whose name contains one %d or %04d is a series: each page becomes a file of its own, "
                "numbered from 0 (slice_%04d.tif; for img-view slice_%04d.png). The files appear when all pages are "
                "complete. Given as slice_*.tif, or as the folder that holds them, they read back as the same stack."),
    VP_CHOICE(struct vp_common, compress, "compress", 0, "none|deflate|zstd", .metavar = "METHOD",
        .def = "none", .group = IO, .help = "compress the pages of FILE",
        .more = "Needs --output: output to a pipe is never compressed. Compression does not change the samples. "
                "deflate opens in ImageJ, ITK, OpenCV and other programs. zstd uses a predictor and opens only in "
                "programs whose libtiff supports it."),
    VP_STRING(struct vp_common, raw_in, "raw-in", 0, .metavar = "SPEC", .group = IO,
        .help = "inputs are samples without a header, such as 2048x2048:u16le[,skip=1024]",
        .more = "SPEC is WIDTHxHEIGHT:TYPE or WIDTHxHEIGHTxPAGES:TYPE. TYPE is one of u8 u16 u32 u64 i8 i16 i32 i64 "
                "f32 f64, followed by le (little endian) or be (big endian). skip is the number of bytes before the "
                "first sample. The input must hold a whole number of pages."),
    VP_FLAG(struct vp_common, raw_out, "raw-out", 0, .group = IO,
        .help = "write samples without a header, little endian"),
    VP_FLAG(struct vp_common, spool, "spool", 0, .group = IO,
        .help = "copy piped input that must be read out of order to $TMPDIR",
        .more = "Use it for a TIFF on a pipe whose pages are not in stream order, or if the program has to read its "
                "input more than once. The copy has no name and disappears when the program ends."),
    VP_FLAG(struct vp_common, join, "join", 0, .group = IO,
        .help = "take inputs that are volumes as one stack",
        .more = "Several input files are read as one stack. Without --join this is an error if one of the files is a "
                "volume, that is, has more than one page along z. Single pages and the views of a scan need no "
                "--join."),
    VP_FLAG(struct vp_common, each_file, "each-file", 0, .group = IO,
        .help = "process each input file separately; -o names a folder",
        .more = "Each file is a run of its own. Its result has the name of the input and lies in the folder that "
                "--output names; the folder must exist. The extension becomes .png for pictures, .raw with "
                "--raw-out, and .txt or .json for text. Text goes to standard output if there is no --output. Two "
                "inputs of the same name, and a result that would replace an input, are errors that end the program "
                "before any work. If a file fails, the results of the files before it stay."),
    VP_FLAG(struct vp_common, force, "force", 0, .group = IO,
        .help = "write binary output even to a terminal"),
    VP_STRING(struct vp_common, device, "device", 'd', .metavar = "DEVICE", .def = "auto", .group = COMMON,
        .choices = "auto|cpu|cuda",
        .help = "where to compute: auto, cpu, cuda or cuda:0,2",
        .more = "auto chooses the fastest device that is available. If you name a device that is not available, the "
                "program ends with status 3; it never uses another device instead."),
    VP_INT(struct vp_common, threads, "threads", 'j', .metavar = "N", .min = 1, .max = MAX_THREADS,
        .group = COMMON,
        .help = "number of CPU threads (default: the cores that the process may use)",
        .more = "The result does not depend on N."),
    VP_BYTES(struct vp_common, memory, "memory", 'm', .metavar = "BYTES", .min = 1, .max = 1.9e19,
        .group = COMMON,
        .help = "memory limit, such as 800M or 6.5GiB (default: 80 % of what is free)",
        .more = "The limit covers samples, tables, and the memory of decoders and compressors. It does not cover the "
                "program itself (5 to 9 MB) or the libraries and buffers of a GPU driver (about 110 MB). If even the "
                "smallest portion of the work does not fit, the program ends with status 3 before it reads any "
                "samples. The result does not depend on the limit."),
    VP_FLAG(struct vp_common, plan, "plan", 0, .group = COMMON,
        .help = "print the planned work and its memory, and exit",
        .more = "Only headers are read, and nothing is written. Without --output, the plan is for output to a file; "
                "with -o - it is for standard output."),
    VP_OUTFILE(struct vp_common, stats, "stats", 0, .metavar = "FILE", .group = COMMON,
        .help = "write times and byte counts to FILE as JSON",
        .more = "The file holds one JSON object: total seconds, seconds of each stage, peak memory in bytes, and "
                "counters of the program. It is written when the run succeeds; - means standard output. An existing "
                "FILE is replaced only if it is empty or holds such statistics. If FILE cannot be written at the "
                "end, the exit status is 1, but the result is complete."),
    VP_CHOICE(struct vp_common, progress, "progress", 0, "auto|always|never", .metavar = "WHEN",
        .def = "auto", .group = COMMON, .help = "show progress on standard error: auto, always, never",
        .more = "auto shows progress if standard error is a terminal, the run takes longer than a second, and the "
                "result does not go to standard output; so in a pipeline only the last program shows it. always "
                "shows progress at once, wherever standard error goes."),
    VP_FLAG(struct vp_common, quiet, "quiet", 'q', .group = COMMON,
            .help = "print errors only"),
    VP_FLAG(struct vp_common, verbose, "verbose", 'v', .group = COMMON,
        .help = "print each step and the time that it took"),
    VP_FLAG(struct vp_common, help, "help", 'h', .group = COMMON, .help = "print this help and exit"),
    VP_FLAG(struct vp_common, version, "version", 'V', .group = COMMON, .help = "print the version and exit"),
    VP_OPT_END
};

static bool takes_operands(const struct vp_tool *tool)
{
    return tool->operands && *tool->operands;
}

bool vp_has_common(const struct vp_tool *tool, const char *name)
{
    const unsigned f = tool->flags;
    const bool stack_in = !(f & VP_TOOL_SOURCE) || (takes_operands(tool) && !(f & VP_TOOL_TEXT));
    const struct { const char *name; bool has; } rule[] = {
        {"output", !(f & (VP_TOOL_NO_OUTPUT | VP_TOOL_DIFF))},
        {"compress", !(f & (VP_TOOL_TEXT | VP_TOOL_NO_STACK))},
        {"raw-out", !(f & (VP_TOOL_TEXT | VP_TOOL_NO_STACK))},
        {"raw-in", stack_in},
        {"spool", stack_in},
        {"join", stack_in && !(f & VP_TOOL_JOINS)},
        {"each-file", stack_in && !(f & VP_TOOL_DIFF)},
        {"force", !(f & VP_TOOL_TEXT)},
        {"device", !(f & VP_TOOL_NO_DEVICE)},
    };
    for (size_t i = 0; i < sizeof rule / sizeof *rule; i++)
        if (!strcmp(rule[i].name, name))
            return rule[i].has;
    return true;
}

void vp_tool_common(const struct vp_tool *tool, struct vp_opt out[VP_MAX_COMMON])
{
    int n = 0;
    for (const struct vp_opt *row = common_options; row->type != VP_T_END; row++)
        if (vp_has_common(tool, row->name)) {
            out[n] = *row;
            out[n++].history = false;
        }
    out[n] = (struct vp_opt)VP_OPT_END;
}

/* ---- messages ---- */

/* Prints "NAME: error: text", the word in colour on a terminal. Escapes control characters: file names and metadata may
 * contain anything, but a message is one line and must not control the terminal. */
static void print_line(const char *program, const char *word, const char *colour, const char *text)
{
    const char *no_color = getenv("NO_COLOR"), *term = getenv("TERM");
    const bool coloured = colour && isatty(STDERR_FILENO) && !(no_color && *no_color)
                          && !(term && !strcmp(term, "dumb"));
    fflush(stdout);
    FILE *text_of = vp_text_open(), *f = text_of ? text_of : stderr; /* in one write, if there is memory for it */
    if (!word)
        fprintf(f, "%s: ", program);
    else if (coloured)
        fprintf(f, "%s: \033[%sm%s:\033[0m ", program, colour, word);
    else
        fprintf(f, "%s: %s: ", program, word);
    vp_put_plain(f, text);
    putc('\n', f);
    char *line = text_of ? vp_text_close(text_of, NULL) : NULL;
    if (line)
        fputs(line, stderr);
    free(line);
}

static void print_message(const struct vp_run *run, const char *word, const char *colour, const char *fmt, va_list ap)
{
    char text[2048];
    vp_format_line(text, sizeof text, fmt, ap);
    vp_progress_clear(run->progress);
    print_line(run->tool->name, word, colour, text);
}

void vp_warn(const struct vp_run *run, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    if (!run->common.quiet)
        print_message(run, "warning", "1;33", fmt, ap);
    va_end(ap);
}

void vp_note(const struct vp_run *run, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    if (run->common.verbose)
        print_message(run, NULL, NULL, fmt, ap);
    va_end(ap);
}

int vp_report(const struct vp_run *run, const struct vp_err *err)
{
    const char *name = run->tool->name;
    vp_progress_clear(run->progress);
    print_line(name, "error", "1;31", err->msg[0] ? err->msg : "failed without a reason (please report this)");
    if (err->hint[0])
        print_line(name, "hint", "1;36", err->hint);
    if (err->code == VP_EUSAGE)
        fprintf(stderr, "Try '%s --help'.\n", name);
    if (run->tool->flags & VP_TOOL_DIFF)
        return 2;
    return err->code ? err->code : VP_ERUN;
}

bool vp_given(const struct vp_run *run, const char *option)
{
    return vp_opt_given(&run->parsed, option);
}

/* ---- the plan ---- */

void vp_report_plan(struct vp_run *run, const char *key, const char *fmt, ...)
{
    struct vp_plan_line *grown = NULL;
    if (run->common.plan || run->common.verbose)
        grown = realloc(run->plan, ((size_t)run->n_plan + 1) * sizeof *grown);
    if (!grown)
        return;
    run->plan = grown;
    grown[run->n_plan].key = key;
    va_list ap;
    va_start(ap, fmt);
    run->n_plan += vasprintf(&grown[run->n_plan].value, fmt, ap) >= 0;
    va_end(ap);
}

bool vp_report_plan_done(struct vp_run *run)
{
    size_t width = 0;
    for (int i = 0; i < run->n_plan; i++)
        width = strlen(run->plan[i].key) > width ? strlen(run->plan[i].key) : width;
    for (int i = 0; i < run->n_plan; i++) {
        const struct vp_plan_line *l = &run->plan[i];
        const int pad = (int)(width + 1 - strlen(l->key));
        if (run->common.plan) {
            printf("%s:%*s", l->key, pad, "");
            vp_put_plain(stdout, l->value);
            putchar('\n');
        } else
            vp_note(run, "%s:%*s%s", l->key, pad, "", l->value);
    }
    return run->common.plan;
}

/* ---- the device ---- */

/* True for auto, cpu, cuda, cuda:0,2. */
static bool device_well_formed(const char *device)
{
    if (!strcmp(device, "auto") || !strcmp(device, "cpu") || !strcmp(device, "cuda"))
        return true;
    if (strncmp(device, "cuda:", 5))
        return false;
    for (const char *s = device + 5;; s++) {
        const size_t n = strspn(s, "0123456789");
        s += n;
        if (n < 1 || n > 4 || *s != ',')
            return n >= 1 && n <= 4 && !*s;
    }
}

int vp_device_cpu(const struct vp_run *run, struct vp_err *err)
{
    const char *device = run->common.device;
    /* the environment applies to all programs of a pipeline, also to those without work for a GPU */
    if (!device || strncmp(device, "cuda", 4) || !vp_given(run, "device"))
        return 0;
    return vp_fail_hint(err, VP_ERESOURCE, "use --device cpu, or auto", "device %s: %s works on the CPU only", device,
                        run->tool->name);
}

/* ---- streams ---- */

/* Occupies closed standard streams with a descriptor that fails on use: the next file opened would get the number, and
 * messages would end up in an output. */
static void hold_standard_streams(void)
{
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF && open("/dev/null", fd ? O_RDONLY : O_WRONLY) < 0)
            return;
}

/* Flushes and closes the descriptor of standard output and checks that all data was written. The stream itself stays
 * open: print_line() still flushes it. */
static int close_stdout(struct vp_err *err)
{
    errno = 0;
    const bool bad = fflush(stdout) || ferror(stdout);
    /* a writer that has closed it has also checked it */
    if (bad || (close(STDOUT_FILENO) && errno != EBADF)) {
        if (errno == EPIPE) { /* SIGPIPE was inherited as ignored: end like the other programs of a pipeline */
            signal(SIGPIPE, SIG_DFL);
            raise(SIGPIPE);
        }
        if (!errno)
            errno = EIO;
        return vp_fail_errno(err, "standard output");
    }
    return 0;
}

/* ---- vp_main ---- */

static void version(const struct vp_tool *tool)
{
    printf("%s (voxpipe) %s\n", tool->name, vp_version);
#ifdef __clang__
    printf("clang %s", __clang_version__);
#else
    printf("gcc %s", __VERSION__);
#endif
    printf("; OpenMP %d; %s\n", _OPENMP,
#ifdef __x86_64__
           "x86-64"
#elif defined __aarch64__
           "aarch64"
#else
           "generic"
#endif
    );
}

/* Takes a value from the environment: option > environment > default. */
static int from_environment(struct vp_run *run, const char *name, const char *variable, struct vp_err *err)
{
    const char *text = getenv(variable);
    const struct vp_opt *row = common_options;
    if (!text || !*text || !vp_has_common(run->tool, name) || vp_given(run, name))
        return 0;
    while (strcmp(row->name, name))
        row++;
    return vp_opt_set_from(variable, row, &run->common, text, err);
}

static int resolve_common(struct vp_run *run, struct vp_err *err)
{
    struct vp_common *c = &run->common;
    if (from_environment(run, "device", "VOXPIPE_DEVICE", err)
        || from_environment(run, "threads", "VOXPIPE_THREADS", err)
        || from_environment(run, "memory", "VOXPIPE_MEMORY", err))
        return -1;
    const char *isa = getenv("VOXPIPE_ISA"); /* ENVVAR VOXPIPE_ISA: limit of the instruction set */
    if (isa && *isa && !vp_isa_limit(isa))
        return vp_fail(err, VP_EUSAGE, "VOXPIPE_ISA: '%s': expected generic, avx2 or avx512", isa);
    const char *rates = getenv("VOXPIPE_RATES"); /* ENVVAR VOXPIPE_RATES: speeds of this machine */
    if (rates && *rates && vp_rates_read(rates, err))
        return vp_hint(err, "VOXPIPE_RATES names this file");
    if (vp_has_common(run->tool, "device") && !device_well_formed(c->device))
        return vp_fail(err, VP_EUSAGE, "%s: '%s' is not a device: expected auto, cpu, cuda or cuda:0,2",
                       vp_given(run, "device") ? "--device" : "VOXPIPE_DEVICE", c->device);
    run->all_threads = !c->threads;
    run->all_memory = !c->memory;
    if (run->all_threads) {
        const char *omp = getenv("OMP_NUM_THREADS"); /* batch systems set it to the number of threads of a job */
        c->threads = omp && *omp ? omp_get_max_threads() : vp_cores();
    }
    c->threads = vp_min64(c->threads, MAX_THREADS);
    omp_set_num_threads((int)c->threads);
    if (run->all_memory)
        c->memory = vp_memory_available() / 5 * 4;
    c->memory = c->memory > INT64_MAX ? INT64_MAX : c->memory ? c->memory : 1;
    vp_memory_limit(c->memory);
    return run->tool->flags & VP_TOOL_CUDA ? 0 : vp_device_cpu(run, err);
}

static bool to_stdout(const char *path)
{
    return !path || !strcmp(path, "-");
}

/* Returns the open descriptor that path names, or -1. */
static int descriptor_of(const char *path)
{
    if (to_stdout(path) || !strcmp(path, "/dev/stdout"))
        return STDOUT_FILENO;
    if (!strcmp(path, "/dev/stderr"))
        return STDERR_FILENO;
    if (!strncmp(path, "/dev/fd/", 8) && path[8] && !path[8 + strspn(path + 8, "0123456789")])
        return atoi(path + 8);
    return -1;
}

bool vp_writes_text(const struct vp_run *run)
{
    const struct vp_tool *tool = run->tool;
    const char *word = tool->text_with, *const output = run->common.output;
    const size_t length = output ? strlen(output) : 0;
    char option[32];
    bool text = tool->flags & VP_TOOL_TEXT;
    for (int n = 0; word && sscanf(word, "%31s%n", option, &n) == 1; word += n)
        text = text || vp_given(run, option);
    /* a plot instead */
    return text && !(tool->flags & VP_TOOL_NO_STACK && length > 4 && !strcasecmp(output + length - 4, ".png"));
}

/* True if standard output is appended to a non-empty file: a reader would not find a TIFF or a PNG there. */
static bool follows_something(void)
{
    struct stat st;
    return !fstat(STDOUT_FILENO, &st) && S_ISREG(st.st_mode)
           && (fcntl(STDOUT_FILENO, F_GETFL) & O_APPEND ? st.st_size : lseek(STDOUT_FILENO, 0, SEEK_CUR)) > 0;
}

static int check_common(const struct vp_run *run, struct vp_err *err)
{
    const struct vp_common *c = &run->common;
    const unsigned flags = run->tool->flags;
    if (run->parsed.n_operands && !takes_operands(run->tool))
        return vp_fail(err, VP_EUSAGE, "'%s': no operand is expected", run->parsed.operands[0]);
    for (int i = 0; i < run->parsed.n_operands; i++)
        if (!*run->parsed.operands[i])
            return vp_fail(err, VP_EUSAGE, "operand %d is empty: expected %s", i + 1, run->tool->operands);
    if (!c->each_file && !to_stdout(c->output) && vp_ending_check(run, c->output, err))
        return -1;
    if (c->quiet && c->verbose)
        return vp_fail(err, VP_EUSAGE, "--quiet and --verbose cannot be combined");
    if (c->compress && c->raw_out)
        return vp_fail(err, VP_EUSAGE, "--compress and --raw-out cannot be combined");
    if (c->compress && to_stdout(c->output) && !(c->plan && !c->output))
        return vp_fail_hint(err, VP_EUSAGE, "use -o FILE", "--compress: standard output cannot be compressed");
    const bool binary = !vp_writes_text(run) && to_stdout(c->output) && !c->plan;
    if (binary && c->each_file)
        return vp_fail_hint(err, VP_EUSAGE, "use -o FOLDER", "--each-file: each result is a file of its own");
    if (binary && c->stats && descriptor_of(c->stats) == STDOUT_FILENO)
        return vp_fail_hint(err, VP_EUSAGE, "use --stats FILE or --stats /dev/stderr",
                            "--stats: standard output already holds the result");
    if (binary && !c->force && isatty(STDOUT_FILENO))
        return vp_fail(err, VP_EUSAGE, "standard output is a terminal; redirect, pipe, or use -o FILE "
                       "(--force to override)");
    if (binary && !c->raw_out && follows_something())
        return vp_fail_hint(err, VP_EUSAGE, flags & VP_TOOL_NO_STACK ? "give each picture a file of its own"
                                                                     : "img-cat joins stacks; --raw-out has no header",
                            "standard output is a file that is not empty");
    return 0;
}

/* Opens a stream for path. Names of open descriptors are duplicated: opening /dev/stderr anew would truncate the file
 * that it was redirected to. */
static FILE *open_report(const char *path)
{
    const int fd = descriptor_of(path);
    if (fd < 0)
        return vp_fopen(path, "we");
    fflush(stdout);
    const int copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    FILE *f = copy < 0 ? NULL : fdopen(copy, "w");
    if (!f && copy >= 0)
        close(copy);
    return f;
}

static int is_statistics(void *ctx, const struct vp_opt *row, size_t offset)
{
    (void)ctx, (void)offset;
    return !strcmp(row->name, "statistics");
}

/* Checks before a long run that the statistics file can be written. Existing files of other content are kept, since the
 * name may be that of an input, as in img-info --stats *.tif. */
static int check_stats(const struct vp_run *run, struct vp_err *err)
{
    const char *const path = run->common.stats;
    struct stat st;
    if (!to_stdout(path) && !stat(path, &st) && S_ISDIR(st.st_mode))
        errno = EISDIR;
    else if (to_stdout(path) || !access(path, W_OK)) {
        if (descriptor_of(path) >= 0 || vp_stats_replaceable(path))
            return 0;
        vp_fail(err, VP_EUSAGE, "--stats: %s exists and is not a statistics file: it would be overwritten", path);
        return vp_opt_each(run->tool->options, 0, is_statistics, NULL)
                 ? vp_hint(err, "--statistics shows those of the samples; --stats FILE writes times and byte counts")
                 : vp_hint(err, "give the name of a new file");
    }
    char *folder = errno == ENOENT ? vp_folder(path) : NULL;
    const int rc = folder && !access(folder, W_OK) ? 0 : vp_fail_errno(err, "%s", path);
    free(folder);
    return rc;
}

static int write_stats(const struct vp_run *run, struct vp_err *err)
{
    const char *path = run->common.stats;
    if (!path)
        return 0;
    const bool taken = descriptor_of(path) < 0 && !vp_stats_replaceable(path); /* by a file that was created in the
                                                                                  meantime */
    FILE *f = taken ? NULL : open_report(path);
    if (taken)
        errno = EEXIST;
    bool ok = f && !vp_stats_write(run->stats, run->tool->name, f);
    if (f && fclose(f))
        ok = false;
    return ok ? 0 : vp_fail_errno(err, "the result is complete, but its statistics are not: %s", path);
}

static bool want_progress(const struct vp_run *run)
{
    const struct vp_common *c = &run->common;
    if (c->progress)
        return c->progress == 1;
    /* a report is the end of its pipeline, wherever it goes */
    return !c->quiet && isatty(STDERR_FILENO) && (!to_stdout(c->output) || vp_writes_text(run));
}

int vp_stats_apart(const struct vp_run *run, const char *path, struct vp_err *err)
{
    const char *stats = run->common.stats;
    if (!stats || !strcmp(path, "-") || !vp_same_file(to_stdout(stats) ? STDOUT_NAME : stats, path))
        return 0;
    return vp_fail(err, VP_EUSAGE, "--stats: %s is the input or the output", stats);
}

struct apart {
    const struct vp_run *run;
    struct vp_err *err;
};

static int check_stats_name(void *ctx, const struct vp_opt *row, const char *path)
{
    const struct apart *a = ctx;
    const bool list = *path == '@' && (!row || row->type != VP_T_OUTFILE);
    if (row && !strcmp(row->name, "stats"))
        return 0;
    return vp_stats_apart(a->run, path, a->err) || (list && vp_stats_apart(a->run, path + 1, a->err)) ? -1 : 0;
}

/* Rejects --stats over the output or an input. Files in a list or a folder are protected by check_stats(). */
static int check_stats_target(const struct vp_run *run, struct vp_err *err)
{
    const struct vp_common *c = &run->common;
    /* text may share a destination with the statistics if both use one descriptor */
    const bool text = (vp_writes_text(run) || c->plan) && descriptor_of(c->stats) >= 0;
    if (to_stdout(c->output) && !text && vp_stats_apart(run, STDOUT_NAME, err))
        return -1;
    return vp_stats_apart(run, STDIN_NAME, err)
           || vp_parsed_files(&run->parsed, check_stats_name, &(struct apart){run, err}) ? -1 : 0;
}

/* Rejects a stack limit that is too small: it is also that of threads, and TIFF readers keep tables on the stack. */
static int check_stack(struct vp_err *err)
{
    enum { LEAST = 1 << 20 };
    struct rlimit most;
    if (getrlimit(RLIMIT_STACK, &most) || most.rlim_cur >= LEAST)
        return 0;
    return vp_fail_hint(err, VP_ERESOURCE, "ulimit -s 8192 allows more", "the stack may take %s: expected at least %s",
                        vp_bytes_text(most.rlim_cur).text, vp_bytes_text(LEAST).text);
}

/* Makes glibc load libgcc_s, as the first backtrace() does. Otherwise glibc loads it when the first thread ends by
 * pthread_exit(), as OpenMP's do, and aborts if memory is exhausted then. */
static int load_unwinder(struct vp_err *err)
{
    void *caller[1];
    return backtrace(caller, 1) ? 0
                                : vp_fail(err, VP_ERESOURCE,
                                          "libgcc_s.so.1, which threads need to end, cannot be loaded");
}

/* Runs the work, from a successful parse to the end. */
static int work(struct vp_run *run, void *params, struct vp_err *err)
{
    if (check_stack(err) || check_common(run, err) || resolve_common(run, err)
        || (run->common.stats && (check_stats_target(run, err) || check_stats(run, err))))
        return -1;
    run->stats = vp_stats_new();
    run->progress = vp_progress_new(run->tool->name, want_progress(run), !run->common.progress);
    run->history = vp_opt_history(&run->parsed, run->tool->name);
    if (!run->stats || !run->progress || !run->history)
        return vp_fail(err, VP_ERESOURCE, "out of memory");
    if (vp_has_common(run->tool, "device") && !(run->tool->flags & VP_TOOL_CUDA))
        vp_stats_text(run->stats, "device", "cpu");
    vp_stats_number(run->stats, "threads", (double)run->common.threads);
    if (run->common.threads > 1 && load_unwinder(err))
        return -1;
    vp_signals_install();
    const double start = vp_now();
    const int status = run->common.each_file ? vp_each_file(run, params, err) : run->tool->run(run, params, err);
    vp_progress_clear(run->progress);
    if (status < 0 || run->common.plan)
        return status;
    vp_note(run, "%.3g s, peak memory %s", vp_now() - start, vp_bytes_text(vp_memory_peak()).text);
    return write_stats(run, err) ? -1 : status;
}

/* Idle OpenMP threads spin for milliseconds by default, which takes the cores from the other programs of a pipeline:
 * four filters in a row on two cores took three times as long. The runtime reads the environment once, in a
 * constructor; ours runs before it if the runtime is linked statically. */
__attribute__((constructor(101))) static void spin_little(void)
{
    if (getenv("OMP_WAIT_POLICY")) /* ENVVAR OMP_WAIT_POLICY: active lets idle threads spin */
        return;
#ifdef __clang__
    setenv("KMP_BLOCKTIME", "0", 0);
#else
    setenv("GOMP_SPINCOUNT", "10000", 0);
#endif
}

/* True if the first rank reports the error: errors before ranks have connected are most likely those of all, and its
 * launcher ends the others if they do not exit earlier. A rank that is still running after a while reports it, too,
 * except for a wrong command line, which all share. */
static bool reported_elsewhere(const struct vp_tool *tool, const struct vp_err *err)
{
    int rank = 0;
    if (!(tool->flags & VP_TOOL_RANKS) || vp_launched(&rank) <= 1 || rank == 0)
        return false;
    const bool usage = err->code == VP_EUSAGE;
    nanosleep(&(struct timespec){usage ? 0 : 2, usage ? 500000000 : 0}, NULL);
    return usage;
}

int vp_main(const struct vp_tool *tool, int argc, char **argv)
{
    static const struct vp_opt no_options[] = {VP_OPT_END};
    struct vp_opt common[VP_MAX_COMMON];
    struct vp_err err = VP_ERR_INIT;
    struct vp_run run = {.tool = tool};

    vp_openmp_status = tool->flags & VP_TOOL_DIFF ? 2 : VP_ERESOURCE;
    if (tool->arguments)
        tool->arguments(argc, argv);
    hold_standard_streams();
    vp_tool_common(tool, common);
    /* one block holds the common options and the tool's, so that one table describes both */
    const size_t after = (sizeof run.common + 63) / 64 * 64;
    char *params = vp_alloc(1, after + tool->params_size, "parameters", &err);
    const struct vp_opt table[] = {
        {.type = VP_T_TABLE, .offset = after, .table = tool->options ? tool->options : no_options},
        {.type = VP_T_TABLE, .offset = 0, .table = common},
        VP_OPT_END
    };
    int status = -1;
    if (params && !vp_opt_defaults(table, params, &err)
        && !vp_opt_parse(table, params, argc, argv, &run.parsed, &err)) {
        memcpy(&run.common, params, sizeof run.common);
        if (!run.common.device)
            run.common.device = "auto";
        status = 0;
        if (run.common.help)
            vp_help_print(&(struct vp_help){tool, common}, stdout);
        else if (run.common.version)
            version(tool);
        else
            status = work(&run, params + after, &err);
    }
    if (status >= 0 && close_stdout(&err))
        status = -1;
    /* errors before the work are those of all ranks */
    if (status < 0 && (run.history || !reported_elsewhere(tool, &err)))
        status = vp_report(&run, &err);
    else if (status < 0)
        status = err.code;
    vp_progress_free(run.progress);
    vp_stats_free(run.stats);
    vp_parsed_free(&run.parsed);
    while (run.n_plan)
        free(run.plan[--run.n_plan].value);
    free(run.plan);
    free(run.history);
    free(params);
    return status;
}
