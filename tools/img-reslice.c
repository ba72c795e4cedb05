/* SPDX-License-Identifier: BSD-3-Clause */
/* img-reslice: axes in another order or direction; views and sinograms. */
#include "app/open.h"
#include "app/tool.h"
#include "pages/reslice.h"

#include <string.h>

struct params {
    const char *axes, *flip;
    bool sinograms, views, flat;
    int turn, about;
};

static const struct vp_opt options[] = {
    VP_STRING(struct params, axes, "axes", 0, .metavar = "AXES", .choices = "xz|yz|zy|zx|yx|xy", .group = "Axes",
              .help = "axes that become columns and rows: xz, yz, zy, zx, yx",
              .more = "x and y are the columns and rows of the input, z is the axis of its pages, whatever their "
                      "names. With xz each page of the result shows x and z, and there is one page for each y."),
    VP_FLAG(struct params, sinograms, "sinograms", 0,
            .help = "convert views to sinograms: one page for each detector row",
            .more = "The same as --axes xz for a stack of views. The metadata record the layout."),
    VP_FLAG(struct params, views, "views", 0,
            .help = "convert sinograms to views: one page for each angle"),
    VP_CHOICE(struct params, turn, "turn", 0, "0|90|180|270", .metavar = "DEGREES", .def = "0",
              .help = "rotate by 90, 180 or 270 degrees, clockwise on the screen",
              .more = "With --about x the rotation is from y to z, with --about y from z to x."),
    VP_CHOICE(struct params, about, "about", 0, "x|y|z", .metavar = "AXIS", .def = "z",
              .help = "axis of the rotation: x, y or z"),
    VP_STRING(struct params, flip, "flip", 0, .metavar = "AXES", .choices = "x|y|z|xy|xz|yz|xyz",
              .help = "reverse axes: x mirrors each page left to right, y top to bottom, z reverses the pages",
              .more = "The order is --axes, then --turn, then --flip."),
    VP_FLAG(struct params, flat, "2d", 0,
            .help = "process each page as a separate 2-D image"),
    VP_OPT_END,
};

static const struct vp_example examples[] = {
    {"View a volume from the side.",
     "ct-phantom --volume 64x64x48 -o vol.tif\nimg-reslice --axes xz vol.tif | img-view -o side.png"},
    {"Convert a scan to sinograms; the geometry is kept.",
     "ct-geom --sod 500 --sdd 1000 --detector 64x48 --pitch 2 --views 90 | ct-phantom -g - -o scan.tif\n"
     "img-reslice --sinograms scan.tif -o sinograms.tif\n"
     "ct-fdk --layout sinograms sinograms.tif -o vol2.tif"},
    {"Rotate each image clockwise by 90 degrees.", "img-reslice --turn 90 vol.tif -o turned.tif"},
    {"Correct a scan whose views are upside down.", "img-reslice --flip y scan.tif -o upright.tif"},
    {0},
};

/* Sets the order of the axes from two letters, or three. */
static int order(struct vp_reslice *r, const char *text, struct vp_err *err)
{
    const size_t n = strlen(text);
    int seen = 0, a = 0;

    for (; a < 3 && text[a]; a++) {
        if (text[a] < 'x' || text[a] > 'z')
            break;
        r->from[a] = text[a] - 'x';
        seen |= 1 << r->from[a];
    }
    const int third = seen == 3 ? 2 : seen == 5 ? 1 : seen == 6 ? 0 : -1;
    if ((n == 2 && a == 2 && third >= 0) || (n == 3 && a == 3 && seen == 7)) {
        if (n == 2)
            r->from[2] = third;
        return 0;
    }
    return vp_fail(err, VP_EUSAGE, "--axes: expected two of x, y and z, such as xz, got '%s'", text);
}

static int parse(struct vp_reslice *r, const struct params *p, struct vp_err *err)
{
    const int given = !!p->axes + p->sinograms + p->views;

    vp_reslice_none(r);
    if (given > 1)
        return vp_fail(err, VP_EUSAGE, "expected one of --axes, --sinograms and --views, got %d", given);
    if (!given && !p->turn && !p->flip)
        return vp_fail_hint(err, VP_EUSAGE, "--axes xz shows a volume from the side, --turn 90 turns each page",
                            "expected --axes, --sinograms, --views, --turn or --flip, got none");
    if (given && order(r, p->axes ? p->axes : "xz", err))
        return -1;
    for (int i = 0; i < p->turn; i++)
        vp_reslice_turn(r, p->about);
    for (const char *f = p->flip; f && *f; f++) {
        if (*f < 'x' || *f > 'z' || strchr(f + 1, *f))
            return vp_fail(err, VP_EUSAGE, "--flip: expected x, y, z or several of them, got '%s'", p->flip);
        vp_reslice_flip(r, *f - 'x');
    }
    return 0;
}

/* Names the axes of projections if the options do; refuses those that have that layout already. */
static int name_layout(const struct params *p, struct vp_stack *in, const char *name, struct vp_err *err)
{
    const char *const axes = vp_meta_get(&in->meta, "axes"), *const from = p->sinograms ? "u v view" : "u view v",
               *const to = p->sinograms ? "u view v" : "u v view";

    if (!p->sinograms && !p->views)
        return 0;
    if (axes && !strcmp(axes, to))
        return vp_fail(err, VP_ERUN, "%s: the axes are %s already", name, to);
    if (axes && strcmp(axes, from))
        return vp_fail_hint(err, VP_ERUN, "--axes xz exchanges the last two axes of any stack",
                            "%s: expected the axes %s, got %s", name, from, axes);
    return vp_meta_set(&in->meta, "axes", from) ? vp_fail(err, VP_ERESOURCE, "out of memory: the metadata") : 0;
}

/* Makes a pipe seekable whose pages are needed in another order. */
static int keep(struct vp_run *run, struct vp_reader *reader, uint64_t *held, struct vp_err *err)
{
    if (vp_reader_keep(reader, run->common.memory / 2, held, err))
        return -1;
    vp_report_plan(run, "spool", "%s: copied to %s, to be read in another order", vp_reader_name(reader),
                   *held ? "memory" : "$TMPDIR");
    return 0;
}

static int img_reslice(struct vp_run *run, void *params, struct vp_err *err)
{
    const struct params *p = params;
    struct vp_reader *reader = NULL;
    struct vp_writer *writer = NULL;
    struct vp_reslice r;
    struct vp_stack in = {0}, out = {0};
    uint64_t held = 0;
    char note[160];
    int rc = -1;

    if (parse(&r, p, err) || vp_open_input(run, 0, VP_AS_STORED, &reader, err))
        goto out;
    const char *name = vp_reader_name(reader);
    if (!vp_reader_seekable(reader) && (r.from[2] != 2 || r.flip[2]) && keep(run, reader, &held, err))
        goto out;
    if (vp_stack_copy(&in, vp_reader_stack(reader))) {
        vp_fail(err, VP_ERESOURCE, "out of memory: the metadata");
        goto out;
    }
    if (name_layout(p, &in, name, err) || vp_reslice_make(&r, &in, p->flat, name, err)
        || vp_reslice_stack(&r, &in, &out, note, sizeof note, err))
        goto out;
    struct vp_pages pages = {.reader = reader, .memory = run->common.memory,
                             .beside = held + vp_output_holds(run, &out, run->common.memory), .stats = run->stats,
                             .progress = run->progress};
    vp_report_plan(run, "input", "%s: %lld x %lld, %lld pages, %s", name, (long long)in.nx, (long long)in.ny,
                   (long long)in.pages, vp_type_name(in.type));
    vp_report_plan(run, "output", "%lld x %lld, %lld pages", (long long)out.nx, (long long)out.ny,
                   (long long)out.pages);
    vp_report_plan(run, "reads", "%lld of all of the input", (long long)vp_reslice_passes(&r, &pages));
    if (vp_report_plan_done(run)) {
        rc = 0;
        goto out;
    }
    if (note[0])
        vp_warn(run, "%s: %s", name, note);
    if (vp_open_output(run, &out, &writer, err))
        goto out;
    pages.writer = writer;
    rc = vp_reslice_run(&r, &pages, err);
out:
    rc = vp_close(run, reader, writer, rc, err);
    vp_stack_free(&in);
    vp_stack_free(&out);
    return rc;
}

const struct vp_tool vp_program = {
    .name = "img-reslice",
    .operands = "[INPUT]...",
    .summary = "exchange, rotate and flip axes; convert views to sinograms",
    .description =
        "Reads a stack and writes it with its axes in another order or direction: slices from the side, sinograms "
        "from views and back, rotations by 90 degrees, mirror images. Samples of any type are copied, and none is "
        "interpolated.\n\n"
        "The third axis is z, or the only axis that the pages have. Channels and times are never mixed. The metadata "
        "are adapted: voxel and origin, the names of axes and, if detector columns stay columns, the scan geometry. "
        "Metadata that are no longer true are left out with a warning. (The origin of a reversed axis is kept if the "
        "image is centred on 0, as reconstructions are.)",
    .options = options,
    .params_size = sizeof(struct params),
    .examples = examples,
    .sections =
        "NOTES\n"
        "How the input is read depends on what becomes a page:\n\n"
        "- If pages stay pages, they pass through one after the other, also from a pipe.\n"
        "- If rows of all pages become a page (--axes xz), uncompressed files are read once, in bands of rows.\n"
        "- If columns become a page (--axes yz), and for compressed files, a stack that does not fit in memory is "
        "read several times; --plan shows how often.\n\n"
        "In the last two cases a pipe is first copied to memory or to $TMPDIR.",
    .see_also = "img-cat(1), img-resize(1), img-view(1), ct-geometry(5), voxpipe-stack(5)",
    .flags = VP_TOOL_NO_DEVICE,
    .run = img_reslice,
};
