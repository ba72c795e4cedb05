/* SPDX-License-Identifier: BSD-3-Clause */
#include "app/each.h"
#include "base/places.h"
#include "base/size.h"
#include "base/sort.h"
#include "base/stats.h"
#include "stack/paths.h"
#include "stack/writer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- extensions ---- */

static const char others[] = " png jpg jpeg jp2 bmp gif webp tif tiff btf tf8 raw mha mhd nrrd nhdr nii h5 hdf "
                             "hdf5 dcm npy npz zarr vtk vti vtr pdf txt csv xml json geom zip gz zst xz bz2 7z ";

enum promise { NOTHING, FITS, ANOTHER };

static bool is_picture(const struct vp_run *run)
{
    return run->tool->flags & VP_TOOL_NO_STACK;
}

/* Returns the extensions that fit the output, the usual one first. */
static const char *fitting(const struct vp_run *run)
{
    return vp_writes_text(run)     ? (vp_given(run, "json") ? " json txt " : " txt csv json ")
           : is_picture(run)       ? " png "
           : run->common.raw_out   ? " raw "
                                   : " tif tiff btf tf8 ";
}

/* Returns the dot before the extension; NULL if there is none. */
static const char *dot_of(const char *name)
{
    const char *slash = strrchr(name, '/'), *base = slash ? slash + 1 : name, *dot = strrchr(base, '.');
    return dot == base ? NULL : dot;
}

static enum promise promise(const char *name, const char *good, char word[12])
{
    const char *dot = dot_of(name);
    if (!dot || strlen(dot + 1) >= 8 || strchr(dot, ' '))
        return NOTHING;
    snprintf(word, 12, " %s ", dot + 1);
    return strcasestr(good, word) ? FITS : strcasestr(others, word) ? ANOTHER : NOTHING;
}

int vp_ending_check(const struct vp_run *run, const char *name, struct vp_err *err)
{
    const bool picture = is_picture(run), raw_out = run->common.raw_out;
    char word[12];
    if (vp_writes_text(run) || promise(name, fitting(run), word) != ANOTHER
        || (!picture && !raw_out && vp_output_format(name)))
        return 0;
    const bool is_tiff = strcasestr(" tif tiff btf tf8 ", word), is_raw = strcasestr(" raw ", word);
    vp_fail(err, VP_EUSAGE, "%s: the output is %s", name,
            picture ? "a PNG" : raw_out ? "samples without a header" : "TIFF");
    return picture              ? vp_hint(err, "give a name that ends in .png; img-cat writes TIFF")
           : raw_out && is_tiff ? vp_hint(err, "leave out --raw-out, or give a name that ends in .raw")
           : is_raw             ? vp_hint(err, "add --raw-out, or give a name that ends in .tif")
           : !raw_out && strcasestr(" png jpg jpeg bmp gif webp jp2 pdf ", word)
               ? vp_hint(err, "give a name that ends in .tif; img-view makes pictures of it")
               : vp_hint(err, "give a name that ends in %s", raw_out ? ".raw" : ".tif");
}

/* Returns the name in `folder` for the result of the file `input`: its own name, with an extension that fits. malloc'd;
 * NULL if out of memory. */
static char *ending_name(const struct vp_run *run, const char *folder, const char *input)
{
    const char *slash = strrchr(input, '/'), *base = slash ? slash + 1 : input, *good = fitting(run);
    const size_t length = strlen(folder);
    char word[12], ending[8], *name = NULL;
    sscanf(good, "%7s", ending);
    const enum promise what = promise(base, good, word);
    const int keep = (int)(what == ANOTHER ? (size_t)(dot_of(base) - base) : strlen(base));
    const bool as_it_is = what == FITS || (what == NOTHING && *ending == 't' && !vp_writes_text(run));
    return asprintf(&name, "%s%s%.*s%s%s", folder, length && folder[length - 1] == '/' ? "" : "/", keep, base,
                    as_it_is ? "" : ".", as_it_is ? "" : ending) < 0 ? NULL : name;
}

/* ---- the runs ---- */

/* The output of one input file; name NULL: standard output, or a plan. */
struct result { char *name; const char *of; };

struct identity { dev_t device; ino_t inode; const char *of; };

/* Returns the output folder; NULL: standard output of text. */
static const char *folder_of(const struct vp_run *run)
{
    const char *path = run->common.output;
    return path && strcmp(path, "-") ? path : NULL;
}

static int by_name(const void *a, const void *b)
{
    const struct result *x = a, *y = b;
    const int order = strcmp(x->name, y->name);
    return order ? order : strcmp(x->of, y->of);
}

static int by_identity(const void *a, const void *b)
{
    const struct identity *x = a, *y = b;
    return x->device != y->device ? (x->device > y->device) - (x->device < y->device)
                                  : (x->inode > y->inode) - (x->inode < y->inode);
}

static bool identify(const char *path, struct identity *id)
{
    struct stat st;
    if (stat(path, &st))
        return false;
    *id = (struct identity){st.st_dev, st.st_ino, path};
    return true;
}

/* Checks files that options name: inputs must be readable in each run, and further outputs are not allowed. */
static int check_option(void *ctx, const struct vp_opt *row, const char *path)
{
    struct vp_err *err = ctx;
    struct stat st;
    if (!row || !strcmp(row->name, "output") || !strcmp(row->name, "stats"))
        return 0;
    if (row->type == VP_T_OUTFILE)
        return vp_fail(err, VP_EUSAGE, "--each-file: --%s names one file for all results", row->name);
    if (strcmp(path, "-") && (stat(path, &st) || S_ISREG(st.st_mode) || S_ISDIR(st.st_mode)))
        return 0;
    return vp_fail_hint(err, VP_EUSAGE, "give a file",
                        "--each-file: --%s %s: a pipe can be read for one of the inputs only", row->name, path);
}

static int check_folder(const char *folder, struct vp_err *err)
{
    struct stat st;
    if (!stat(folder, &st) && !S_ISDIR(st.st_mode))
        errno = ENOTDIR;
    else if (!access(folder, W_OK))
        return 0;
    const bool missing = errno == ENOENT;
    vp_fail_errno(err, "--each-file: %s", folder);
    return missing ? vp_hint(err, "make the folder first: mkdir %s", folder) : -1;
}

/* Checks that no result is the same file as another or as an input. `sorted` and `input`: room for n. */
static int check_results(const struct vp_run *run, const struct result *results, int64_t n, struct result *sorted,
                         struct identity *input, struct vp_err *err)
{
    int64_t inputs = 0;
    for (int64_t i = 0; i < n; i++) {
        sorted[i] = results[i];
        inputs += identify(results[i].of, &input[inputs]);
    }
    vp_sort(sorted, (size_t)n, sizeof *sorted, by_name);
    vp_sort(input, (size_t)inputs, sizeof *input, by_identity);
    for (int64_t i = 1; i < n; i++)
        if (!strcmp(sorted[i - 1].name, sorted[i].name))
            return vp_fail(err, VP_EUSAGE, "--each-file: %s and %s would both become %s", sorted[i - 1].of,
                           sorted[i].of, sorted[i].name);
    for (int64_t i = 0; i < n; i++) {
        struct identity own;
        const struct identity *same = identify(results[i].name, &own)
                                          ? bsearch(&own, input, (size_t)inputs, sizeof own, by_identity) : NULL;
        if (same)
            return vp_fail_hint(err, VP_EUSAGE, "name another folder", "--each-file: %s, to be made of %s, is an input",
                                results[i].name, results[i].of);
        if (vp_stats_apart(run, results[i].name, err))
            return -1;
    }
    return 0;
}

static int name_results(const struct vp_run *run, const struct vp_paths *files, struct result *results,
                        struct vp_err *err)
{
    const char *folder = folder_of(run);
    for (int64_t i = 0; i < files->n; i++) {
        results[i].of = files->path[i];
        if (!strcmp(files->path[i], "-"))
            return vp_fail(err, VP_EUSAGE, "--each-file: expected names of files, got standard input");
        if (folder && !(results[i].name = ending_name(run, folder, files->path[i])))
            return vp_fail(err, VP_ERESOURCE, "out of memory");
    }
    if (!folder)
        return 0;
    struct result *sorted = vp_alloc_raw((size_t)files->n, sizeof *sorted, "a list of results", err);
    struct identity *input = vp_alloc_raw((size_t)files->n, sizeof *input, "a list of inputs", err);
    const int rc = sorted && input ? check_results(run, results, files->n, sorted, input, err) : -1;
    free(sorted);
    free(input);
    return rc;
}

static int run_one(const struct vp_run *run, const struct result *r, const void *params, struct vp_err *err)
{
    const char *operand = r->of;
    struct vp_run one = *run;
    one.common.output = r->name;
    one.parsed.operands = &operand;
    one.parsed.n_operands = 1;
    one.plan = NULL;
    one.n_plan = 0;
    void *const own = vp_alloc(1, run->tool->params_size, "parameters", err);
    /* a run that writes to standard output closes it */
    const int kept = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
    int status = own && kept >= 0 ? 0 : own ? vp_fail_errno(err, "standard output") : -1;
    if (!status) {
        memcpy(own, params, run->tool->params_size);
        vp_report_plan(&one, "file", "%s", r->of);
        status = run->tool->run(&one, own, err);
    }
    if (kept >= 0 && dup2(kept, STDOUT_FILENO) < 0 && !status)
        status = vp_fail_errno(err, "standard output");
    if (kept >= 0)
        close(kept);
    while (one.n_plan)
        free(one.plan[--one.n_plan].value);
    free(one.plan);
    free(own);
    return status;
}

int vp_each_file(const struct vp_run *run, const void *params, struct vp_err *err)
{
    struct vp_paths files = {0};
    int rank;
    if (vp_launched(&rank) > 1)
        return vp_fail(err, VP_EUSAGE, "--each-file: expected one process, got one of several ranks");
    if (!run->parsed.n_operands)
        return vp_fail(err, VP_EUSAGE, "--each-file: expected names of files, got none");
    if (vp_parsed_files(&run->parsed, check_option, err)
        || (folder_of(run) && !run->common.plan && check_folder(folder_of(run), err))
        || vp_paths_expand(&files, run->parsed.operands, run->parsed.n_operands, NULL, err))
        return -1;
    struct result *results = vp_alloc((size_t)files.n, sizeof *results, "a list of results", err);
    int status = results ? name_results(run, &files, results, err) : -1;
    for (int64_t i = 0; !status && i < files.n; i++)
        status = run_one(run, &results[i], params, err);
    for (int64_t i = 0; results && i < files.n; i++)
        free(results[i].name);
    free(results);
    vp_paths_free(&files);
    if (!status)
        vp_stats_number(run->stats, "files", (double)files.n);
    return status;
}
