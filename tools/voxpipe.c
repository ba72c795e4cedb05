/* SPDX-License-Identifier: BSD-3-Clause */
/* voxpipe: the list of all programs, their manuals, and a report on this machine. */
#include "app/doctor.h"
#include "app/open.h"
#include "app/tool.h"
#include "base/text.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct params { bool none; };

static const struct vp_opt options[] = {
    VP_OPT_END,
};

static const struct vp_example examples[] = {
    {"List the programs.", "voxpipe"},
    {"Show what this machine offers and what is missing.", "voxpipe doctor"},
    {"Show a manual, even from a tree that is not installed.", "voxpipe img-gauss"},
    {0},
};

/* A heading (name NULL), or a program. */
static const struct entry { const char *name, *text; } entries[] = {
    {NULL, "Reconstruct"},
    {"ct-geom", "make, import and explain a scan geometry"},
    {"ct-phantom", "simulate projections or voxels of ellipsoids"},
    {"ct-normalize", "counts to line integrals: flats, darks, zingers"},
    {"ct-center", "find the axis of rotation and the detector's roll"},
    {"ct-rings", "remove stripes, which become rings"},
    {"ct-phase", "phase contrast (Paganin) to thickness"},
    {"ct-filter", "weight and ramp-filter projections"},
    {"ct-backproject", "filtered projections into a volume"},
    {"ct-fdk", "counts to a volume in one process"},
    {"ct-iterate", "iterative: SIRT, CGLS, likelihood, total variation"},
    {"ct-project", "project a volume, or subtract its projections"},
    {"ct-reduce", "add, average or join volumes"},
    {NULL, "Look, convert and cut"},
    {"img-info", "size, type, metadata, statistics, histogram"},
    {"img-view", "pictures: slices, projections, histograms"},
    {"img-cat", "join stacks, select pages and regions"},
    {"img-resize", "bin, shrink or enlarge"},
    {"img-reslice", "slices from the side, sinograms, turns, flips"},
    {"img-convert", "sample type, scale, compression, layout"},
    {"img-math", "an expression over stacks: img-math '-log(a)'"},
    {"img-cmp", "compare two stacks within tolerances"},
    {"img-fit", "a stack as the best sum of others"},
    {NULL, "Filter and segment"},
    {"img-gauss", "Gaussian, its derivatives, high-pass"},
    {"img-log", "Laplacian of Gaussian"},
    {"img-local", "median, percentile, mean, extremes, deviation"},
    {"img-nlmeans", "non-local means: remove noise, keep edges"},
    {"img-wiener", "adaptive noise filter"},
    {"img-convolve", "convolve with any kernel"},
    {"img-deconvolve", "undo a known blur"},
    {"img-psf", "make or measure kernels"},
    {"img-morph", "erode, dilate, open, close, top-hat, gradient"},
    {"img-morphrecon", "fill holes, h-maxima, clear the border"},
    {"img-threshold", "Otsu and others, or local thresholds"},
    {"img-sat", "summed area tables"},
    {NULL, "Help"},
    {"voxpipe", "this list; voxpipe PROGRAM: its manual; voxpipe doctor"},
};
enum { ENTRIES = sizeof entries / sizeof *entries };

/* Pages that are no program's. */
static const char *const pages[] = {"ct-geometry", "voxpipe-stack"};

static void list(FILE *out)
{
    for (int i = 0; i < ENTRIES; i++)
        if (entries[i].name)
            fprintf(out, "  %-15s %s\n", entries[i].name, entries[i].text);
        else
            fprintf(out, "%s%s\n", i ? "\n" : "", entries[i].text);
    fprintf(out, "\nNAME --help is a summary, voxpipe NAME the manual, voxpipe doctor a check of this machine.\n"
                 "man 7 voxpipe describes what all programs share.\n");
}

/* Fills the folder of this program. */
static const char *folder_of(char *folder)
{
    const ssize_t n = readlink("/proc/self/exe", folder, PATH_MAX - 1);
    folder[n > 0 ? n : 0] = '\0';
    char *const slash = strrchr(folder, '/');
    if (slash)
        *slash = '\0';
    return folder;
}

/* Replaces the process by man(1): for the page beside the programs (installed, or in the tree), or else of the name. */
static int show_page(const char *name, char section, const char *folder, struct vp_err *err)
{
    char path[2 * PATH_MAX];

    for (int i = 0; i < 2; i++) {
        if (i == 0)
            snprintf(path, sizeof path, "%s/../share/man/man%c/%s.%c", folder, section, name, section);
        else
            snprintf(path, sizeof path, "%s/../../man/%s.%c", folder, name, section);
        if (!access(path, R_OK))
            execlp("man", "man", "-l", path, (char *)NULL);
    }
    execlp("man", "man", name, (char *)NULL);
    return vp_fail_hint(err, VP_ERESOURCE, "install man-db or mandoc; NAME --help needs neither",
                        "cannot run man: %s", strerror(errno));
}

static int suggest(const char *word, struct vp_err *err)
{
    const char *near = NULL;
    int best = INT_MAX;

    for (int i = 0; i < ENTRIES; i++) {
        if (!entries[i].name)
            continue;
        const char *const names[] = {entries[i].name, strchr(entries[i].name, '-')};
        for (int k = 0; k < 2; k++) {
            const char *const one = names[k] && k ? names[k] + 1 : names[k];
            const int d = one ? vp_opt_nearness(word, strlen(word), one, strlen(one)) : -1;
            if (one && (d >= 0 || !strcmp(word, one)) && d < best) {
                best = d;
                near = entries[i].name;
            }
        }
    }
    vp_fail(err, VP_EUSAGE, "no program is named '%s'", word);
    return near ? vp_hint(err, "did you mean %s?", near) : vp_hint(err, "voxpipe without a name lists them");
}

static int voxpipe(struct vp_run *run, void *params, struct vp_err *err)
{
    const char *const word = run->parsed.n_operands ? run->parsed.operands[0] : "";
    char folder[PATH_MAX];
    size_t n = 0;

    (void)params;
    folder_of(folder);
    if (run->parsed.n_operands > 1)
        return vp_fail(err, VP_EUSAGE, "expected one name, got %d", run->parsed.n_operands);
    vp_report_plan(run, "output", "%s", !*word ? "list" : !strcmp(word, "doctor") ? "doctor" : "manual");
    if (vp_report_plan_done(run))
        return 0;
    if (*word && strcmp(word, "doctor")) {
        for (int i = 0; i < ENTRIES; i++)
            if (entries[i].name && !strcmp(word, entries[i].name))
                return show_page(word, '1', folder, err);
        for (size_t i = 0; i < sizeof pages / sizeof *pages; i++)
            if (!strcmp(word, pages[i]))
                return show_page(word, '5', folder, err);
        return suggest(word, err);
    }
    FILE *const out = vp_text_open();
    if (!out)
        return vp_fail(err, VP_ERESOURCE, "out of memory");
    if (*word)
        vp_doctor(out, folder);
    else
        list(out);
    char *const text = vp_text_close(out, &n);
    const int rc = text ? vp_output_text(run, text, n, err) : vp_fail(err, VP_ERESOURCE, "out of memory");
    free(text);
    return rc;
}

const struct vp_tool vp_program = {
    .name = "voxpipe",
    .operands = "[PROGRAM|doctor]",
    .summary = "list the programs, show a manual, check this machine",
    .description =
        "Without an operand, it lists all programs in groups. With the name of a program, ct-geometry or "
        "voxpipe-stack, it shows the manual, even if the programs are not installed.\n\n"
        "`voxpipe doctor` reports the processor and its instruction set, memory, scratch space, GPUs, plugins and "
        "libraries. If something is missing, it prints how to get it. voxpipe(7) describes what all programs share, "
        "and has an index of tasks.",
    .options = options,
    .params_size = sizeof(struct params),
    .examples = examples,
    .see_also = "voxpipe(7)",
    .flags = VP_TOOL_TEXT | VP_TOOL_SOURCE | VP_TOOL_NO_DEVICE,
    .run = voxpipe,
};
