/* SPDX-License-Identifier: BSD-3-Clause */
/* img-reslice: axes in another order or direction; views and sinograms; turns by any angle. */
#include "app/image_run.h"
#include "app/open.h"
#include "app/tool.h"
#include "local/rotate.h"
#include "pages/reframe.h"
#include "pages/reslice.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct params {
    const char *axes, *flip;
    bool sinograms, views, enlarge;
    int turn, about, method;
    struct vp_reals rotate;
    const char *outside;
    struct vp_image_params image;
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
    VP_REALS(struct params, rotate, "rotate", 0, .metavar = "DEGREES", .min = -1e6, .max = 1e6,
             .group = "Rotation by any angle",
             .help = "rotate by any angle about the center, in the sense of --turn",
             .more = "The axis is that of --about. The result has the voxel size of the input. Angles are those of "
                     "physical space: voxels that are not cubes are taken into account. Cannot be combined with "
                     "--axes, --turn and --flip: use a pipe."),
    VP_CHOICE(struct params, method, "method", 0, "nearest|linear|cubic", .metavar = "METHOD", .def = "linear",
              .help = "interpolation of --rotate: nearest, linear or cubic",
              .more = "Use nearest for labels and masks, because it makes no new values. cubic is the one of "
                      "img-resize (Catmull-Rom)."),
    VP_FLAG(struct params, enlarge, "enlarge", 0,
            .help = "enlarge the result of --rotate so that it contains the whole image",
            .more = "Without it, the result has the size of the input, and corners are cut off."),
    VP_STRING(struct params, outside, "outside", 0, .metavar = "VALUE|edge", .choices = "edge",
              .help = "value of --rotate outside the image (default: 0)",
              .more = "In the unit of the values of the input, rounded to a sample; floats may have nan. With edge, it is "
                      "the value at the nearest position on the edge of the image."),
    VP_INSTEAD("angle", 0, "rotate"),
    VP_INSTEAD("axis", 0, "about"),
    VP_INSTEAD("reshape", 0, "enlarge"),
    VP_OPTIONS(struct params, image, vp_image_without_lengths),
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
    {"Straighten a volume that is tilted by 3.5 degrees.",
     "img-reslice --rotate -3.5 --about y --method cubic vol.tif -o straight.tif"},
    {"Rotate labels by 30 degrees, and keep the corners.",
     "img-threshold --otsu vol.tif | img-reslice --rotate 30 --method nearest --enlarge -o labels.tif"},
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
                            "expected --axes, --sinograms, --views, --turn, --flip or --rotate, got none");
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

/* ---- turns by any angle ---- */

struct job {
    struct vp_run *run;
    struct vp_rotate_params turn;
};

/* Moves the origin, so that the center of the image stays where it is. */
static int header(void *ctx, const struct vp_stack *in, struct vp_stack *out, struct vp_err *err)
{
    const struct job *job = ctx;
    struct vp_reframe frame;
    struct vp_stack bare = {0};
    char note[160];
    int rc = -1;

    for (int a = 0; a < 3; a++) {
        frame.first[a] = a == job->turn.about ? 0 : (double)(job->turn.in[a] - job->turn.out[a]) / 2;
        frame.step[a] = 1;
    }
    if (vp_stack_copy(&bare, in)) {
        vp_fail(err, VP_ERESOURCE, "out of memory: the metadata");
        goto out;
    }
    const bool scan = vp_meta_get(&in->meta, "geom.sdd") || vp_meta_get(&in->meta, "geom.views");
    vp_meta_remove_prefix(&bare.meta, "geom.");
    vp_meta_remove_prefix(&out->meta, "geom.");
    rc = vp_reframe_resized(&frame, &bare, out, note, sizeof note, err);
    if (!rc && scan)
        vp_warn(job->run, "the scan geometry is left out: rows are not those of a detector");
out:
    vp_stack_free(&bare);
    return rc;
}

/* Reads --outside: edge, or a value that becomes a sample. */
static int outside(struct vp_rotate_params *t, const char *text, const struct vp_images *im, enum vp_type type,
                   struct vp_err *err)
{
    char *end;

    t->edge = text && !strcmp(text, "edge");
    if (t->edge)
        return 0;
    const double value = text ? strtod(text, &end) : 0;
    if (text && (end == text || *end))
        return vp_fail(err, VP_EUSAGE, "--outside: expected a number or edge, got '%s'", text);
    t->outside = vp_scale_stored(im->scale, value);
    if (vp_type_is_float(type))
        return 0;
    t->outside = rint(t->outside);
    if (!(t->outside >= vp_type_min(type) && t->outside <= vp_type_max(type)))
        return vp_fail_hint(err, VP_EUSAGE, "--outside edge needs none",
                            "--outside %.9g: expected a value in the range of %s samples, %.9g to %.9g", value,
                            vp_type_name(type), vp_scale_value(im->scale, vp_type_min(type)),
                            vp_scale_value(im->scale, vp_type_max(type)));
    return 0;
}

static int rotate(struct vp_run *run, const struct params *p, struct vp_err *err)
{
    struct job job = {.run = run};
    struct vp_rotate_params *const t = &job.turn;
    struct vp_images im = {0};
    struct vp_chain chain = {0};
    int rc = -1;

    *t = (struct vp_rotate_params){.about = p->about, .degrees = p->rotate.v[0],
                                   .method = (enum vp_rotate_method)p->method};
    if (p->rotate.n != 1)
        return vp_fail(err, VP_EUSAGE, "--rotate: expected one angle, got %d", p->rotate.n);
    if (vp_images_open(&im, run, &p->image, 1, (1u << VP_N_TYPES) - 1, err))
        goto out;
    if (im.flat && p->about != 2) {
        vp_fail(err, VP_EUSAGE, "--about %c: the pages of this stack are single images: expected pages along z",
                'x' + p->about);
        goto out;
    }
    if (p->about != 2 && (im.nz >= VP_UNKNOWN || im.outer >= VP_UNKNOWN) && vp_images_keep(&im, run, false, err))
        goto out;
    for (int a = 0; a < 3; a++) {
        t->in[a] = im.size[a];
        t->voxel[a] = im.voxel[a];
    }
    if (p->enlarge)
        vp_rotate_whole(t);
    else
        vp_rotate_same(t);
    if (outside(t, p->outside, &im, im.type, err) || vp_rotate_chain(&chain, t, im.type, err))
        goto out;
    im.header = header;
    im.ctx = &job;
    rc = vp_images_run(&im, run, &chain, NULL, err);
out:
    vp_chain_free(&chain);
    vp_images_close(&im);
    return rc;
}

/* Refuses options that have no meaning with or without --rotate. */
static int check_rotate(const struct vp_run *run, const struct params *p, struct vp_err *err)
{
    static const char *const with[] = {"method", "enlarge", "outside", "chunk"},
                      *const without[] = {"axes", "sinograms", "views", "turn", "flip"};
    for (size_t i = 0; !p->rotate.n && i < sizeof with / sizeof *with; i++)
        if (vp_given(run, with[i]))
            return vp_fail(err, VP_EUSAGE, "--%s needs --rotate", with[i]);
    for (size_t i = 0; p->rotate.n && i < sizeof without / sizeof *without; i++)
        if (vp_given(run, without[i]))
            return vp_fail_hint(err, VP_EUSAGE, "use a pipe: img-reslice --axes xz | img-reslice --rotate 30",
                                "--rotate and --%s cannot be combined", without[i]);
    return 0;
}

static int img_reslice(struct vp_run *run, void *params, struct vp_err *err)
{
    const struct params *p = params;
    if (check_rotate(run, p, err))
        return -1;
    if (p->rotate.n)
        return rotate(run, p, err);
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
    if (name_layout(p, &in, name, err) || vp_reslice_make(&r, &in, p->image.flat, name, err)
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
    .summary = "exchange, rotate and flip axes; rotate by any angle; convert views to sinograms",
    .description =
        "Reads a stack and writes it with its axes in another order or direction: slices from the side, sinograms "
        "from views and back, rotations, mirror images. Samples of any type are copied; --rotate interpolates, unless "
        "every voxel lies on a sample or --method is nearest.\n\n"
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
        "In the last two cases a pipe is first copied to memory or to $TMPDIR.\n\n"
        "ROTATION BY ANY ANGLE\n"
        "--rotate turns the image about the line through its center along the axis of --about, in the sense of "
        "--turn: about z from x to y, which is clockwise on the screen; about x from y to z; about y from z to x. "
        "Multiples of 90 degrees give the samples of --turn wherever the result has the same voxels: cubes in "
        "--enlarge, or in a square.\n\n"
        "Samples are squares. A voxel whose center lies in one of them gets a value, all others the one of --outside. "
        "Positions and values are computed in f64, and the result is rounded once: integers to the nearest (halves to "
        "even), within the range of their type. Weights are those of the samples that exist and sum to one, so a "
        "constant stays constant up to the edge. If a NaN or infinite sample has a weight, the voxel is NaN or "
        "infinite. 64-bit integers need --method nearest or a multiple of 90 degrees.\n\n"
        "About z pages pass through one after the other, also from a pipe. About x and y, memory holds the planes "
        "that a plane of the result needs: height * sin(angle) of them about x. Between 90 and 270 degrees "
        "they need the whole volume in memory: use --turn 180 with the same --about first. The origin moves so that the center stays where it is. "
        "The scan geometry is left out with a warning. The bits of the result do not depend on threads, memory or "
        "chunks.",
    .see_also = "img-cat(1), img-resize(1), img-view(1), ct-geometry(5), voxpipe-stack(5)",
    .flags = VP_TOOL_NO_DEVICE,
    .run = img_reslice,
};
