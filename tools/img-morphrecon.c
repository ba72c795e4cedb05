/* SPDX-License-Identifier: BSD-3-Clause */
/* img-morphrecon: morphological reconstruction, and operations composed of it. */
#include "base/stats.h"
#include "global/morphrecon_derive.h"
#include "local/extremum.h"
#include "stack/reader.h"
#include "app/footprint.h"
#include "app/image_run.h"
#include "app/tool.h"

#include <math.h>

struct params {
    bool fill_holes, clear_border, regional_max, regional_min;
    double hmax, hmin, hdome;
    struct vp_reals open, close, seed;
    struct vp_footprint_params window;
    int by, connectivity;
    struct vp_image_params image;
};

static const struct vp_opt options[] = {
    VP_FLAG(struct params, fill_holes, "fill-holes", 0, .group = "Made of one stack",
            .help = "fill dark holes up to the lowest wall around them",
            .more = "A hole is a region from which every path to the border of the image crosses a larger sample. "
                    "Paths go over faces (4 or 6 neighbours), so a diagonal wall is closed. The border is the first "
                    "and the last voxel along each axis that has more than one voxel. In a volume of one slice, and "
                    "with --2d, it is the first and the last row and column."),
    VP_FLAG(struct params, clear_border, "clear-border", 0,
            .help = "remove bright structures that touch the border",
            .more = "The result is the image minus its reconstruction from the border. It expects a background of 0: "
                    "structures that touch the border become 0, others stay as they are. The border is that of "
                    "--fill-holes. For i8 and i16 the result is u16."),
    VP_REAL(struct params, hmax, "hmax", 0, .metavar = "H", .max = HUGE_VAL,
            .help = "remove maxima that rise less than H above their surroundings",
            .more = "The result is the reconstruction of (image - H) under the image. Maxima of height H or more "
                    "stay, lowered by H. If the metadata record a scale, H is a value; for integers it is rounded to "
                    "whole steps of the stored samples (-v prints their number), and must not round to 0."),
    VP_REAL(struct params, hmin, "hmin", 0, .metavar = "H", .max = HUGE_VAL,
            .help = "fill minima that are less than H deep",
            .more = "The result is the reconstruction by erosion of (image + H) above the image."),
    VP_REAL(struct params, hdome, "hdome", 0, .metavar = "H", .max = HUGE_VAL,
            .help = "extract the maxima, up to a height of H: the image minus its --hmax",
            .more = "It separates bright structures from an uneven background by their height above it, not by their "
                    "value. For integers, (image - H) is limited by the smallest value of the type (-128 for i8), so "
                    "a dome is never higher than its top is above that value."),
    VP_FLAG(struct params, regional_max, "regional-max", 0,
            .help = "mark plateaus without a higher neighbour: 1, all others 0",
            .more = "The result is u8. An image that is constant at the smallest value of its type has no regional "
                    "maximum."),
    VP_FLAG(struct params, regional_min, "regional-min", 0,
            .help = "mark plateaus without a lower neighbour: 1, all others 0"),
    VP_REALS(struct params, open, "open", 0, .metavar = "R|RX,RY,RZ", .max = 1e6,
             .help = "remove bright structures that do not contain a ball of radius R",
             .more = "Opening by reconstruction: structures that contain the ball keep their exact shape. With R = 0 "
                     "and --footprint FILE, the footprint replaces the ball: it is used for the erosion, and its "
                     "mirror image for the dilation of --close, as in img-morph. Not for f64."),
    VP_REALS(struct params, close, "close", 0, .metavar = "R|RX,RY,RZ", .max = 1e6,
             .help = "fill dark structures that do not contain a ball of radius R"),
    VP_REALS(struct params, seed, "seed", 0, .metavar = "X,Y[,Z]", .max = 1e9,
             .help = "grow a region from one voxel",
             .more = "The result at a voxel is the largest v for which a path from the seed leads to it over samples "
                     "of at least v. With --by erosion it is the smallest v for which a path leads over samples of "
                     "at most v. So a threshold of the result is the part of the thresholded image that is connected "
                     "with the seed. Coordinates count from 0."),
    VP_OPTIONS(struct params, window, vp_footprint_file_options),
    VP_CHOICE(struct params, by, "by", 0, "dilation|erosion", .metavar = "WAY", .def = "dilation",
              .group = "Reconstruction",
              .help = "direction, dilation|erosion: reconstruct MARKER under or above MASK"),
    VP_CHOICE(struct params, connectivity, "connectivity", 0, "auto|4|8|6|18|26", .metavar = "N", .def = "auto",
              .help = "neighbours: 4|8 of a pixel, 6|18|26 of a voxel",
              .more = "auto is 8 and 26, and for --fill-holes 4 and 6."),
    VP_OPTIONS(struct params, image, vp_image_options),
    VP_OPT_END,
};

static const struct vp_example examples[] = {
    {"Pores of a segmented volume: the voxels that filling its holes adds.",
     "ct-phantom --volume 64x64x64 -o vol.tif\nimg-math 'a > 0.019' --type u8 vol.tif -o solid.tif\n"
     "img-morphrecon --fill-holes solid.tif -o filled.tif\nimg-math 'a - b' --type u8 filled.tif solid.tif -o "
     "pores.tif"},
    {"Structures that are brighter than an uneven background by 0.002 or more.", "img-morphrecon --hdome 0.002 vol.tif -o bright.tif"},
    {"Remove structures that touch the border.", "img-morphrecon --clear-border solid.tif -o inside.tif"},
    {"Minima that are deep enough to be markers of a watershed.",
     "img-morphrecon --hmin 0.002 vol.tif | img-morphrecon --regional-min > markers.tif"},
    {"Components of a mask that contain a marker.",
     "img-math 'a > 0.03' --type u8 vol.tif -o marker.tif\nimg-morphrecon -q marker.tif solid.tif -o marked.tif"},
    {0},
};

static const char sections[] =
    "RECIPES\n"
    "Pictures of these recipes are in examples/pictures; img-view made them.\n\n"
    "Holes of a segmentation (morphrecon-holes.png: a slice of HTC 2022, the same with its holes filled, the holes):\n\n"
    "    img-morphrecon --fill-holes seg.tif -o filled.tif\n"
    "    img-math 'a - b' filled.tif seg.tif -o holes.tif\n\n"
    "In a volume, a pore that a crack connects with the outside is not a hole, even if it looks like one in every "
    "slice. --2d fills slice by slice.\n\n"
    "Bright spots on an uneven background (morphrecon-cells.png: foci in nuclei):\n\n"
    "    img-morphrecon --hdome 300 cells.tif -o spots.tif\n\n"
    "The height of a spot is measured from its surroundings, so spots on bright and dark background count the same; "
    "it is limited to 300. Noise makes small domes, too: smooth first (img-gauss), or remove small domes afterwards "
    "(img-morphrecon --open 1).\n\n"
    "Remove objects that the border cuts off (morphrecon-border.png: galaxies):\n\n"
    "    img-morphrecon --clear-border field.tif -o inside.tif\n\n"
    "In a gray image the background should be near 0; subtract it first, for example with img-morph --op tophat.\n\n"
    "Markers for a watershed (morphrecon-minima.png: a retina):\n\n"
    "    img-gauss --sigma 2 eye.tif | img-morphrecon --hmin 5 |\n"
    "        img-morphrecon --regional-min -o markers.tif\n\n"
    "Without --hmin, noise makes many minima; 5 is the depth from which a minimum counts.\n\n"
    "NOTES\n"
    "NaN in the mask is NaN in the result, and no path leads over it. NaN in the marker marks nothing. -0 counts as "
    "less than +0.\n\n"
    "An image that fits in memory together with its result is processed as a whole. A larger image is processed in "
    "chunks, in two passes:\n\n"
    "- The first pass reconstructs each chunk separately, and keeps a summary of how it connects with its "
    "neighbours.\n"
    "- The summaries are then solved together. They are in memory if they fit, otherwise in $TMPDIR, which must then "
    "be on a disk.\n"
    "- The second pass reads each chunk again and writes the result.\n\n"
    "The bits of the result are the same either way. --plan shows which way is taken, and --stats the counts.\n\n"
    "A GPU holds a volume as a whole if the volume comes from a file and fits: about 8 bytes for each voxel of u8, "
    "12 of u16, 21 of f32. (This does not apply to --hdome and --clear-border of floats.) The volume is then read "
    "once, and the host needs memory for some planes only.\n\n"
    "A volume from a pipe, or a page too large for memory, is copied: to memory first if it takes at most a quarter of "
    "--memory, otherwise to $TMPDIR while the first pass reads it. (If the pipe does not record the number of pages, it "
    "is first copied as a whole.) --plan shows where. Separate pages (--2d) need no copy. A volume whose pages are "
    "larger than memory needs -o, because its chunks are not written in order.";

/* Returns the requested operation; -1 if more than one. */
static int derived(const struct vp_run *run, struct vp_err *err)
{
    static const struct { const char *option; enum vp_derived what; } all[] = {
        {"fill-holes", VP_FILL_HOLES}, {"clear-border", VP_CLEAR_BORDER}, {"hmax", VP_HMAX}, {"hmin", VP_HMIN},
        {"hdome", VP_HDOME}, {"regional-max", VP_REGIONAL_MAX}, {"regional-min", VP_REGIONAL_MIN},
        {"open", VP_OPEN_BY}, {"close", VP_CLOSE_BY}, {"seed", VP_SEED}};
    const char *given = NULL;
    int what = VP_RECONSTRUCT;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (!vp_given(run, all[i].option))
            continue;
        if (given)
            return vp_fail(err, VP_EUSAGE, "--%s and --%s: expected one of them", given, all[i].option);
        given = all[i].option;
        what = (int)all[i].what;
    }
    if (given && what != VP_SEED && vp_given(run, "by"))
        return vp_fail(err, VP_EUSAGE, "--by and --%s cannot be combined", given);
    if (given || run->parsed.n_operands == 2)
        return what;
    return vp_fail_hint(err, VP_EUSAGE, "with --fill-holes, --hmax H and the like one stack is enough",
                        "expected MARKER and MASK, got %d stack%s", run->parsed.n_operands,
                        run->parsed.n_operands == 1 ? "" : "s");
}

static int same_type(const struct vp_images *im, struct vp_err *err)
{
    if (im->n < 2)
        return 0;
    const enum vp_type a = vp_reader_stack(im->reader[0])->type, b = vp_reader_stack(im->reader[1])->type;
    if (a == b)
        return 0;
    vp_fail(err, VP_ERUN, "%s has %s samples, %s has %s: expected the same type", vp_reader_name(im->reader[0]),
            vp_type_name(a), vp_reader_name(im->reader[1]), vp_type_name(b));
    return vp_hint(err, "convert one of them: img-convert --type %s",
                   vp_type_name(vp_type_size(a) > vp_type_size(b) ? a : b));
}

/* Converts H to samples: for integers with a scale the nearest whole number of steps. */
static int height(double h, const char *option, const struct vp_run *run, const struct vp_images *im, double *steps,
                  struct vp_err *err)
{
    const double exact = *steps = vp_scale_steps(im->scale, h);
    if (vp_type_is_float(im->type) || (im->scale[0] == 1 && im->scale[1] == 0))
        return 0;
    *steps = round(exact);
    if (h > 0 && *steps == 0)
        return vp_fail_hint(err, VP_EUSAGE, "a larger H, or img-convert --unscale first",
                            "--%s %g: less than half a step of the samples, which is %.4g", option, h,
                            1 / vp_scale_steps(im->scale, 1));
    vp_note(run, "--%s %.9g: %.0f steps of %.9g", option, h, *steps, 1 / vp_scale_steps(im->scale, 1));
    return 0;
}

static int resolve(const struct params *p, const struct vp_run *run, const struct vp_images *im,
                   struct vp_morphrecon_want *w, struct vp_err *err)
{
    static const int connectivity[] = {0, 4, 8, 6, 18, 26};
    const struct { enum vp_derived what; const char *option; double h; } heights[] = {
        {VP_HMAX, "hmax", p->hmax}, {VP_HMIN, "hmin", p->hmin}, {VP_HDOME, "hdome", p->hdome}};
    w->connectivity = connectivity[p->connectivity];
    w->i8 = im->all_i8;
    for (size_t i = 0; i < sizeof heights / sizeof *heights; i++)
        if (w->what == heights[i].what && height(heights[i].h, heights[i].option, run, im, &w->h, err))
            return -1;
    if (w->what == VP_OPEN_BY || w->what == VP_CLOSE_BY)
        return vp_image_lengths(im, w->what == VP_OPEN_BY ? "open" : "close",
                                w->what == VP_OPEN_BY ? &p->open : &p->close, w->radius, err);
    if (w->what != VP_SEED)
        return 0;
    if (p->seed.n != (im->flat ? 2 : 3) && !(im->flat && p->seed.n == 3 && p->seed.v[2] == 0))
        return vp_fail(err, VP_EUSAGE, "--seed: expected x%s, got %d number%s",
                       im->flat ? " and y: the pages of this stack are single images" : ", y and z", p->seed.n,
                       p->seed.n > 1 ? "s" : "");
    for (int a = 0; a < p->seed.n; a++) {
        w->seed[a] = (int64_t)p->seed.v[a];
        if ((double)w->seed[a] != p->seed.v[a])
            return vp_fail(err, VP_EUSAGE, "--seed: expected whole numbers, got %g", p->seed.v[a]);
    }
    return 0;
}

static int check_footprint(const struct params *p, int what, struct vp_err *err)
{
    const bool opens = what == VP_OPEN_BY;

    if (!p->window.file)
        return p->window.center.n ? vp_fail(err, VP_EUSAGE, "--center needs --footprint") : 0;
    if (!opens && what != VP_CLOSE_BY)
        return vp_fail(err, VP_EUSAGE, "--footprint needs --open 0 or --close 0");
    const struct vp_reals *r = opens ? &p->open : &p->close;
    for (int a = 0; a < r->n; a++)
        if (r->v[a] != 0)
            return vp_fail(err, VP_EUSAGE, "--footprint and --%s %g cannot be combined: expected --%s 0",
                           opens ? "open" : "close", r->v[a], opens ? "open" : "close");
    return 0;
}

static int open_footprint(struct vp_footprint *f, struct vp_morphrecon_want *w, struct vp_run *run,
                          const struct params *p, const struct vp_images *im, struct vp_err *err)
{
    if (!p->window.file)
        return 0;
    w->window = f;
    return vp_footprint_open(f, run, &p->window, im, err);
}

static int img_morphrecon(struct vp_run *run, void *params, struct vp_err *err)
{
    unsigned types = 1u << VP_U8 | 1u << VP_U16 | 1u << VP_I16 | 1u << VP_F32 | VP_TYPES_WIDE;
    const struct params *p = params;
    struct vp_image_params image = p->image;
    struct vp_images im = {0};
    struct vp_morphrecon_counts counts = {0};
    struct vp_footprint window = {0};

    const int what = derived(run, err);
    if (what < 0)
        return -1;
    struct vp_morphrecon_want want = {.what = (enum vp_derived)what, .erosion = p->by, .counts = &counts};
    if (what == VP_OPEN_BY || what == VP_CLOSE_BY)
        types = VP_EXTREMUM_TYPES | VP_TYPES_WIDE;
    image.values = what == VP_CLEAR_BORDER; /* the background is 0 */
    if (check_footprint(p, what, err))
        return -1;
    int rc = vp_images_open(&im, run, &image, what == VP_RECONSTRUCT ? 2 : 1, types, err) || same_type(&im, err)
             || vp_images_keep(&im, run, true, err) || resolve(p, run, &im, &want, err)
             || open_footprint(&window, &want, run, p, &im, err)
             || vp_morphrecon_chain(&im.chain, &want, im.size, im.flat, im.type, err);
    vp_footprint_free(&window);
    const bool marks = what == VP_REGIONAL_MAX || what == VP_REGIONAL_MIN;
    const bool differs = what == VP_HDOME || what == VP_CLEAR_BORDER;
    const struct vp_result result = {marks ? VP_NO_VALUES : differs ? VP_SPREADS : VP_VALUES, marks ? "" : NULL};
    rc = vp_images_end(&im, run, rc, &result, err);
    if (!rc && !run->common.plan) {
        vp_stats_count(run->stats, "clipped", counts.clipped);
        vp_stats_count(run->stats, "nan", counts.nan);
    }
    if (!rc && counts.clipped)
        vp_warn(run, "%llu samples of the marker are %s the mask: clipped to it",
                (unsigned long long)counts.clipped, p->by ? "below" : "above");
    if (!rc && counts.nan)
        vp_warn(run, "%llu samples are NaN: nothing passes them", (unsigned long long)counts.nan);
    return rc;
}

const struct vp_tool vp_program = {
    .name = "img-morphrecon",
    .operands = "[MARKER] MASK",
    .summary = "morphological reconstruction: fill holes, find peaks, clear the border",
    .description =
        "Reads a marker and a mask and writes the reconstruction of MARKER under MASK. In binary images it keeps the "
        "objects of the mask that contain a voxel of the marker, and removes all others. The options listed first "
        "below make the marker themselves and need only one stack.\n\n"
        "In gray images, the result at a voxel is the largest value v for which a path leads to the voxel from a "
        "marker sample of at least v, over mask samples of at least v. This is the same as dilating the marker by "
        "one voxel and limiting it to the mask, again and again, until nothing changes. Marked peaks keep their "
        "exact shape; others are cut down to the level at which they join a marked one. With --by erosion bright and "
        "dark are exchanged.\n\n"
        "MARKER and MASK have the same size and type: u8, u16, i8, i16, f32 or f64, and on "
        "the CPU u32 or i32. A single page is used with every "
        "page of the other stack. Pages along z are a volume; with --2d each page is an image of its own. Where the "
        "marker is above the mask (with --by erosion, below), it is set to the mask, and a message gives the number "
        "of these voxels.\n\n"
        "The result is unique, and its samples are samples of the input, so its bits do not depend on threads, "
        "memory, chunks or devices.",
    .options = options,
    .params_size = sizeof(struct params),
    .examples = examples,
    .sections = sections,
    .see_also = "img-morph(1), img-math(1), voxpipe-stack(5)",
    .flags = VP_TOOL_CUDA,
    .run = img_morphrecon,
};
