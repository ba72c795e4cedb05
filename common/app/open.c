/* SPDX-License-Identifier: BSD-3-Clause */
/* Opens and closes inputs and outputs, with the common options applied. */
#include "app/open.h"
#include "base/size.h"
#include "base/stats.h"
#include "geom/geom.h"
#include "pages/select.h"
#include "stack/given.h"
#include "stack/paths.h"
#include "stack/outfile.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool holds_standard(const char *const *paths, int n)
{
    bool standard = n == 0;
    for (int i = 0; i < n; i++)
        standard = standard || !strcmp(paths[i], "-");
    return standard;
}

/* Returns the hint of the error for several volumes. */
static const char *volumes_hint(const struct vp_run *run)
{
    return vp_has_common(run->tool, "join")
               ? vp_has_common(run->tool, "each-file")
                     ? "--join makes them one stack, --each-file -o FOLDER works on each by itself"
                     : "--join makes them one stack"
               : "img-cat joins them";
}

static int open_stacks(struct vp_run *run, const char *const *paths, int n, const struct vp_reader_options *how,
                       struct vp_reader **reader, struct vp_err *err)
{
    struct vp_reader_options o = *how;
    o.spool = run->common.spool;
    o.output = run->common.output;
    o.views = run->tool->flags & VP_TOOL_VIEWS;
    if (holds_standard(paths, n) && isatty(STDIN_FILENO))
        return vp_fail_hint(err, VP_EUSAGE, "name a file, or send one through a pipe",
                            "standard input is a terminal: expected a stack");
    if (vp_reader_open(reader, paths, n, &o, err))
        return -1;
    if ((*reader)->lost)
        vp_warn(run, "%s: its %s cannot be read from a pipe and is left out: give the file name instead, "
                "or use --spool", vp_reader_name(*reader), (*reader)->lost);
    if ((*reader)->remark)
        vp_warn(run, "%s: %s", vp_reader_name(*reader), (*reader)->remark);
    return 0;
}

int vp_open_input(struct vp_run *run, size_t hold, enum vp_samples samples, struct vp_reader **reader,
                  struct vp_err *err)
{
    return vp_open_pages(run, hold, samples, false, NULL, reader, err);
}

int vp_open_pages(struct vp_run *run, size_t hold, enum vp_samples samples, bool colours, struct vp_select_params *p,
                  struct vp_reader **reader, struct vp_err *err)
{
    const bool join = run->common.join || run->tool->flags & VP_TOOL_JOINS;
    const struct vp_reader_options o = {.raw = run->common.raw_in, .hold = hold, .samples = samples,
                                        .volumes = join ? NULL : volumes_hint(run), .colours = colours,
                                        .pick = p && p->pages ? vp_select_pick : NULL, .picks = p};
    return open_stacks(run, run->parsed.operands, run->parsed.n_operands, &o, reader, err);
}

int vp_open_each(struct vp_run *run, int n, enum vp_samples samples, struct vp_reader **readers, struct vp_err *err)
{
    const struct vp_reader_options o = {.raw = run->common.raw_in, .samples = samples,
                                        .volumes = run->common.join ? NULL : volumes_hint(run)};
    const char *const *paths = run->parsed.operands, *path;
    int standard = 0;
    for (int i = 0; i < n; i++)
        if (!strcmp(paths[i], "-") && standard++)
            return vp_fail(err, VP_EUSAGE, "standard input ('-') is given more than once: expected one of the stacks");
    for (int i = 0; i < n; i++)
        if (n > 1 && vp_path_apart(paths[i], run->common.output, err))
            return -1;
    for (int i = 0; i < n; i++) {
        if (open_stacks(run, &paths[i], 1, &o, &readers[i], err))
            return -1;
        for (int64_t k = 0; n > 1 && (path = vp_reader_path(readers[i], k)); k++)
            if (vp_path_apart(path, run->common.output, err))
                return -1;
    }
    return 0;
}

int vp_open_values(struct vp_run *run, const char *path, struct vp_reader **reader, struct vp_err *err)
{
    const struct vp_reader_options o = {.raw = run->common.raw_in, .samples = VP_AS_VALUES,
                                        .volumes = volumes_hint(run)};
    return open_stacks(run, &path, 1, &o, reader, err);
}

int vp_open_mask(struct vp_run *run, const char *path, struct vp_reader **reader, struct vp_err *err)
{
    const struct vp_reader_options o = {.samples = VP_AS_VALUES, .volumes = volumes_hint(run)};
    return open_stacks(run, &path, 1, &o, reader, err);
}

int vp_open_joined(struct vp_run *run, const char *const *paths, int n, struct vp_reader **reader, struct vp_err *err)
{
    const struct vp_reader_options o = {.raw = run->common.raw_in, .samples = VP_AS_VALUES};
    return open_stacks(run, paths, n, &o, reader, err);
}

bool vp_standard_input(const struct vp_run *run)
{
    return holds_standard(run->parsed.operands, run->parsed.n_operands);
}

int vp_list_apart(const struct vp_run *run, const char *option, const char *list, struct vp_err *err)
{
    if (strcmp(list, "-") || !vp_standard_input(run))
        return 0;
    return vp_fail_hint(err, VP_EUSAGE, "name the file of one of the two", "%s -: standard input is the image already",
                        option);
}

/* True if memory may be given to the pipe that the output is. */
static bool gives(const struct vp_run *run)
{
    const char *path = run->common.output;
    const bool standard = !path || !strcmp(path, "-");
    struct stat st;
    if ((run->common.plan && !path) /* the plan goes there; it is that of a file */
        || run->common.threads < VP_GIVEN_THREADS)
        return false;
    return !(standard ? fstat(STDOUT_FILENO, &st) : stat(path, &st)) && S_ISFIFO(st.st_mode);
}

static struct vp_writer_options output_options(const struct vp_run *run)
{
    return (struct vp_writer_options){.raw = run->common.raw_out, .compress = (enum vp_compress)run->common.compress,
                                      .pyramid = run->pyramid, .gives = gives(run),
                                      .memory = run->common.memory};
}

uint64_t vp_output_holds(const struct vp_run *run, const struct vp_stack *out, uint64_t memory)
{
    const struct vp_writer_options o = output_options(run);
    return vp_writer_holds(out, &o, memory);
}

int vp_output_history(const struct vp_run *run, struct vp_stack *out, struct vp_err *err)
{
    char *const line = strdup(run->history ? run->history : ""), *end = line ? line + strlen(line) : NULL;
    int rc = line ? 0 : -1;
    for (char *p = line; p < end; p++) /* a single line, whatever the arguments contain */
        if (*p == '\n' || *p == '\r' || *p == '\t')
            *p = ' ';
    while (end > line && end[-1] == ' ')
        *--end = '\0';
    if (end > line)
        rc = vp_meta_add(&out->meta, "history", line + strspn(line, " "));
    free(line);
    return rc ? vp_fail(err, VP_ERESOURCE, "out of memory: the metadata") : 0;
}

int vp_open_output(struct vp_run *run, const struct vp_stack *out, struct vp_writer **writer,
                   struct vp_err *err)
{
    return vp_open_result(run, run->common.output, out, writer, err);
}

/* Describes the views of a stack by its geometry, which the caller frees. False: there are none. */
static bool describe_scan(const struct vp_run *run, const struct vp_stack *s, struct vp_geom *g, struct vp_frames *f)
{
    const char *const axes = vp_meta_get(&s->meta, "axes");
    struct vp_err ignored = VP_ERR_INIT;

    *g = (struct vp_geom){0};
    if (!axes || strcmp(axes, "u v view") || vp_geom_from_meta(g, &s->meta, "", &ignored) != 1 || !g->angle)
        return false;
    for (int64_t i = 0; g->clockwise && i < g->views; i++)
        g->angle[i] = -g->angle[i];
    *f = (struct vp_frames){run->flats, run->darks, g->views, g->angle, {fabs(g->du), fabs(g->dv)},
                            g->beam == VP_CONE ? g->sod : 0, g->beam == VP_CONE ? g->sdd : 0};
    return true;
}

int vp_open_result(struct vp_run *run, const char *path, const struct vp_stack *out, struct vp_writer **writer,
                   struct vp_err *err)
{
    const char *const format = path ? vp_output_format(path) : NULL;
    struct vp_frames frames;
    struct vp_geom geom = {0};
    struct vp_stack stack;
    if (vp_stack_copy(&stack, out))
        return vp_fail(err, VP_ERESOURCE, "out of memory: the metadata");
    if (vp_output_history(run, &stack, err)) {
        vp_stack_free(&stack);
        return -1;
    }
    struct vp_writer_options o = output_options(run);
    if (format && !strcmp(format, "HDF5") && describe_scan(run, &stack, &geom, &frames))
        o.frames = &frames;
    const int rc = vp_writer_open(writer, path, &stack, &o, err);
    vp_geom_free(&geom);
    vp_stack_free(&stack);
    return rc;
}

int vp_output_text(const struct vp_run *run, const char *text, size_t n, struct vp_err *err)
{
    struct vp_outfile *out = NULL;
    if (vp_outfile_open(&out, run->common.output, err))
        return -1;
    return vp_outfile_end(out, vp_outfile_write(out, text, n, err), err);
}

uint64_t vp_output_given(const struct vp_run *run, uint64_t memory)
{
    return gives(run) ? vp_given_holds(memory) : 0;
}

bool vp_output_any_order(const struct vp_run *run)
{
    /* a plan without an output name is that of a file */
    const bool file = run->common.plan && !run->common.output ? true : vp_outfile_is_new(run->common.output);
    return file && !run->common.compress && !(run->common.output && vp_output_in_order(run->common.output));
}

int vp_close(struct vp_run *run, struct vp_reader *reader, struct vp_writer *writer, int rc, struct vp_err *err)
{
    if (reader) {
        vp_stats_count(run->stats, "bytes_read", vp_reader_bytes(reader));
        if (!rc && reader->disagrees && !run->flats && !run->darks) /* flats may come without the views' geometry */
            vp_warn(run, "%s: the inputs differ in %s: the first one's is kept", vp_reader_name(reader),
                    reader->disagrees);
    }
    /* After a failure the reader's own error would only hide the cause. */
    if (vp_reader_close(reader, rc ? NULL : err) || rc) {
        vp_writer_abort(writer);
        return -1;
    }
    if (!writer)
        return 0;
    vp_stats_count(run->stats, "bytes_written", vp_writer_bytes(writer));
    return vp_writer_close(writer, err);
}
