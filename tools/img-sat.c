/* SPDX-License-Identifier: BSD-3-Clause */
/* img-sat: summed area tables of images and volumes. */
#include "base/places.h"
#include "global/boxes.h"
#include "global/sat.h"
#include "engine/pages.h"
#include "stack/outfile.h"
#include "stack/reader.h"
#include "app/image_run.h"
#include "app/open.h"
#include "app/tool.h"

#include <string.h>

enum { AUTO, U32, U64, I32, I64, F32, F64 };

struct params {
    bool volume, exclusive;
    int type;
    const char *squares, *boxes;
    bool json;
    struct vp_image_params image;
};

static const struct vp_opt options[] = {
    VP_FLAG(struct params, volume, "3d", 0, .group = "Table",
            .help = "make tables of volumes: sums over x, y and z",
            .more = "Without it, each page is an image of its own. Pages along other axes than z (view, channel, "
                    "time) are never mixed."),
    VP_FLAG(struct params, exclusive, "exclusive", 'x',
            .help = "add a first row and column of zeros (with --3d also a page)",
            .more = "Entry (x, y) is then the sum of all samples before x and before y, as in cv2.integral. The sum "
                    "over a box [x0, x1) x [y0, y1) is t[y1][x1] - t[y0][x1] - t[y1][x0] + t[y0][x0], without a "
                    "special case at the edge. Without this option, the sum includes the samples at x and y, as in "
                    "skimage.transform.integral_image."),
    {.name = "squares", .type = VP_T_OUTFILE, .offset = VP_FIELD(struct params, squares, const char *),
     .metavar = "FILE",
     .help = "also write the table of the squares, in the same pass",
     .more = "FILE may be a pipe to another program (/dev/fd/N). The type is u64 if the main table is of integers, "
             "otherwise f64."},
    VP_CHOICE(struct params, type, "type", 't', "auto|u32|u64|i32|i64|f32|f64", .metavar = "TYPE", .def = "auto",
              .help = "sample type of the table",
              .more = "- auto: f64 for f32 and f64. For integers, 32 bits (u32, or i32 for signed types) if no sum "
                      "can exceed that range, judged by size and type only; otherwise 64 bits.\n"
                      "- Integer types: sums are modulo 2^32 or 2^64. The sum over a box is right if it fits the "
                      "type, even if the table has wrapped around.\n"
                      "- f32: sums are computed in f64 and rounded to 24 bits at the end. The sum over a small box "
                      "far from the origin may then have no correct digit."),
    VP_FILE(struct params, boxes, "boxes", 'b', .metavar = "FILE", .group = "Boxes",
            .help = "measure boxes instead: print their sum, mean and standard deviation",
            .more = "Each line of FILE is a box: an optional name, X0:X1, Y0:Y1, with --3d Z0:Z1, and an optional "
                    "page number (with --3d the number of the volume), separated by tabs, commas or blanks. Without "
                    "a number the box is measured on every page. Ranges are half open. Empty lines, lines that begin "
                    "with #, and a first line of words are ignored. FILE may be - (standard input) if the image is a "
                    "named file. All boxes are measured in one pass, and printed by page, then in the order of the "
                    "lines."),
    VP_FLAG(struct params, json, "json", 0,
            .help = "print JSON instead of columns separated by tabs"),
    VP_INSTEAD("old-s", 's', "squares"),
    VP_OPT_END,
};

static const struct vp_example examples[] = {
    {"The table of an image, with zeros in front.",
     "ct-phantom --volume 64x48x1 | img-convert --type u8 --window 0,0.05 > image.tif\n"
     "img-sat --exclusive image.tif -o table.tif"},
    {"The tables of the values and of the squares of a volume, from a pipe.",
     "ct-phantom --volume 64x48x20 | img-sat --3d --squares squares.tif -o sums.tif"},
    {"Mean and standard deviation in two boxes of every page.",
     "ct-phantom --volume 64x48x4 -o vol.tif\nprintf 'left 4:20 10:30\\nright 40:60 10:30\\n' > boxes.txt\n"
     "img-sat --boxes boxes.txt vol.tif"},
    {0},
};

static int open_images(struct vp_images *im, struct vp_run *run, const struct params *p, struct vp_err *err)
{
    struct vp_image_params how = p->image;
    how.flat = !p->volume;
    how.values = !p->boxes; /* sums of boxes are those of integers, whatever their scale */
    how.steps = p->boxes;
    if (vp_images_open(im, run, &how, 1, (1u << VP_N_TYPES) - 1, err))
        return -1;
    if (p->volume && im->flat && vp_reader_stack(im->reader[0])->pages != 1)
        return vp_fail_hint(err, VP_EUSAGE, "without --3d each has a table of its own; "
                            "img-convert --set axes=x,y,z makes them a volume",
                            "--3d: %s: its pages are not slices", vp_reader_name(im->reader[0]));
    if (!p->volume && !p->boxes)
        vp_images_lines(im);
    im->second = p->squares;
    if (p->exclusive)
        memcpy(im->pad, (const int64_t[]){1, 1, p->volume}, sizeof im->pad);
    return 0;
}

/* Returns the type of the table; by default it depends on the number of samples that an entry may sum. */
static enum vp_type type_of(const struct vp_images *im, const struct params *p)
{
    static const enum vp_type types[] = {[U32] = VP_U32, [U64] = VP_U64, [I32] = VP_I32, [I64] = VP_I64,
                                         [F32] = VP_F32, [F64] = VP_F64};
    double samples = 1;
    for (int a = 0; a < 3; a++)
        samples *= im->size[a] < VP_UNKNOWN ? (double)im->size[a] : 0;
    return p->type == AUTO ? vp_sat_type(im->type, samples) : types[p->type];
}

/* Rejects a pipe if the type of the table would depend on its unknown number of planes. */
static int check_type(const struct vp_images *im, const struct params *p, const char *name, struct vp_err *err)
{
    const bool decided = p->type != AUTO || im->size[2] < VP_UNKNOWN;
    const enum vp_type least = vp_sat_type(im->type, (double)im->size[0] * (double)im->size[1]);
    if (decided || least == vp_sat_type(im->type, 0)) /* 64 bits for any number */
        return 0;
    vp_fail(err, VP_ERUN, "%s: the number of planes is unknown, and so is the type of the table", name);
    return vp_hint(err, "--type %s is enough for any number of them", vp_type_name(vp_sat_type(im->type, 0)));
}

static int measure_boxes(struct vp_images *im, struct vp_run *run, const struct params *p, struct vp_err *err)
{
    const enum vp_type type = vp_reader_stack(im->reader[0])->type;
    const int64_t images = im->outer < VP_UNKNOWN ? im->inner * im->outer : VP_UNKNOWN,
                  size[3] = {im->size[0], im->size[1], p->volume ? im->size[2] : 1};
    struct vp_pages pages = {.reader = im->reader[0], .memory = run->common.memory, .stats = run->stats,
                             .progress = run->progress, .stage = "sums"};
    struct vp_boxes boxes;
    int rc = vp_boxes_read(&boxes, p->boxes, size, p->volume, err);
    boxes.json = p->json;
    if (im->scale[0] != 1 || im->scale[1] != 0)
        memcpy(boxes.scale, im->scale, sizeof boxes.scale);
    if (!rc) {
        vp_boxes_pages(&boxes, im->inner, &pages);
        rc = vp_pages_fit(&pages, err);
        vp_report_plan(run, "boxes", "%lld in one pass, on %lld thread%s", (long long)boxes.n,
                       (long long)run->common.threads, run->common.threads > 1 ? "s" : "");
    }
    const bool planned = rc || vp_report_plan_done(run);
    if (!planned)
        rc = vp_outfile_open(&boxes.out, run->common.output, err)
             || vp_boxes_begin(&boxes, type, im->inner, images, (int)run->common.threads, err)
             || vp_pages_run(&pages, err) ? -1 : 0;
    if (vp_close(run, im->reader[0], NULL, rc, err) || (!planned && vp_boxes_end(&boxes, err)))
        rc = -1;
    vp_boxes_free(&boxes);
    im->reader[0] = NULL;
    vp_images_close(im);
    return rc;
}

static int img_sat(struct vp_run *run, void *params, struct vp_err *err)
{
    const struct params *p = params;
    const char *output = run->common.output;
    struct vp_images im = {0};
    struct vp_op op;

    if (p->squares && (!strcmp(p->squares, "-")
                       || vp_same_file(p->squares, output && strcmp(output, "-") ? output : "/dev/fd/1")))
        return vp_fail(err, VP_EUSAGE, "--squares %s: the table of squares needs a file of its own", p->squares);
    if (p->boxes && (p->squares || p->exclusive || p->type != AUTO || run->common.raw_out || run->common.compress))
        return vp_fail(err, VP_EUSAGE,
                       "--boxes prints numbers and writes no table: options of tables cannot be combined with it");
    if (p->json && !p->boxes)
        return vp_fail(err, VP_EUSAGE, "--json needs --boxes");
    if ((p->boxes && (vp_device_cpu(run, err) || vp_list_apart(run, "--boxes", p->boxes, err))) ||
        open_images(&im, run, p, err))
        return vp_images_end(&im, run, -1, NULL, err);
    if (p->boxes)
        return measure_boxes(&im, run, p, err);
    const struct vp_sat_request table = {.volume = p->volume, .exclusive = p->exclusive, .squares = p->squares,
                                         .out = type_of(&im, p)};
    const struct vp_result result = {.values = VP_NO_VALUES, .quantity = ""};
    const int rc = check_type(&im, p, vp_reader_name(im.reader[0]), err)
                   || vp_sat_op(&op, &table, im.size, im.type, err) || vp_chain_add(&im.chain, &op, err);
    return vp_images_end(&im, run, rc, &result, err);
}

const struct vp_tool vp_program = {
    .name = "img-sat",
    .operands = "[INPUT]...",
    .summary = "make summed area tables (integral images), or measure boxes",
    .description =
        "Reads images or volumes (--3d) and writes their summed area tables. Each entry is the sum of all samples at "
        "or before its x and y (and z). The sum over any box, however large, is then four entries of the table added "
        "and subtracted (eight in a volume). --boxes FILE prints sums, means and standard deviations of boxes "
        "instead.\n\n"
        "Images of any size are processed in one pass; only a band of rows (with --3d, of pages) is in memory. If "
        "the metadata record a scale, it is undone first. The bits of the result do not depend on threads, memory, "
        "chunks or devices.\n\n"
        "To smooth an image with a box, use img-local(1) --stat mean. It needs no table, and treats the edges "
        "correctly.",
    .options = options,
    .params_size = sizeof(struct params),
    .examples = examples,
    .sections =
        "NOTES\n"
        "Tables of integers are exact. Tables of floats are summed in f64:\n\n"
        "- They are exact if all samples are multiples of one power of two, and their absolute values add up to at "
        "most 2^53 times that power. This holds for 16-bit integers stored as f32, and for 24-bit integers in 32768 "
        "x 32768 samples if they are on average at most half of the largest.\n"
        "- Otherwise the error of an entry is about 2e-15 of the sum of all absolute values up to it (measured with "
        "32768 x 32768 samples). The mean over a box is then right to 1e-12 if the box holds at least 1/500 of that "
        "sum (1500 x 1500 of 32768 x 32768 equal samples), and to 3e-8 for a box of 8 x 8.\n\n"
        "--boxes does not have this error, because sums over boxes are not rounded at all before they are printed. "
        "Thousands of boxes are measured in one pass, on the CPU, in memory that does not depend on the number of "
        "pages. Some details:\n\n"
        "- Sums of integers are printed in full. Integers with a scale are added up as they are stored; the scale is "
        "undone once, for the sum.\n"
        "- The standard deviation is divided by the number of samples. It is right even for small differences from a "
        "large mean.\n"
        "- A NaN or infinite sample affects only the boxes that contain it. Their standard deviation is NaN.\n"
        "- The standard deviation of f64 samples is infinite if a sample is beyond 1e154; samples below 1e-146 count "
        "as 0 for it.",
    .see_also = "img-local(1), img-info(1), voxpipe-stack(5)",
    .flags = VP_TOOL_CUDA,
    .text_with = "boxes",
    .run = img_sat,
};
