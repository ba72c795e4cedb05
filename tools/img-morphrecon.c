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
            .more = "A hole is what no way out of the image leads from without going over something brighter. By "
                    "erosion from the image's border, over faces (4 or 6 neighbours), so that a diagonal wall is "
                    "tight. The border is the first and the last voxel along every axis of more than one voxel: of a "
                    "volume of one slice, and of each page with --2d, first and last row and column."),
    VP_FLAG(struct params, clear_border, "clear-border", 0,
            .help = "take away bright structures that touch the border",
            .more = "The image less its reconstruction from the border, where the ground is 0: what stands on the "
                    "ground and touches the border becomes 0, the rest stays. The border is that of --fill-holes: an "
                    "axis of one voxel has none. (Of i8 and i16 the result is u16.)"),
    VP_REAL(struct params, hmax, "hmax", 0, .metavar = "H", .max = HUGE_VAL,
            .help = "take away maxima that rise less than H",
            .more = "The reconstruction of the image less H: maxima that rise by H or more stay, lower by H. Where a "
                    "scale is recorded H is a value: of integers it is rounded to whole steps of the samples (-v "
                    "prints how many), and refused if it rounds to none."),
    VP_REAL(struct params, hmin, "hmin", 0, .metavar = "H", .max = HUGE_VAL,
            .help = "fill minima that are less than H deep",
            .more = "The reconstruction by erosion of the image plus H."),
    VP_REAL(struct params, hdome, "hdome", 0, .metavar = "H", .max = HUGE_VAL,
            .help = "the maxima alone, up to H high: the image less its --hmax",
            .more = "Bright structures are distinguished from an uneven background by their height above it, not by "
                    "their value. The --hmax of integers is nowhere below the least number of their type (of i8: "
                    "-128), so where H exceeds all differences in the image a dome is no higher than its top is above "
                    "that."),
    VP_FLAG(struct params, regional_max, "regional-max", 0,
            .help = "1 on plateaus that have no higher neighbour, else 0",
            .more = "As u8. An image that is constant at the lowest value of its type has none."),
    VP_FLAG(struct params, regional_min, "regional-min", 0,
            .help = "1 on plateaus that have no lower neighbour, else 0"),
    VP_REALS(struct params, open, "open", 0, .metavar = "R|RX,RY,RZ", .max = 1e6,
             .help = "take away bright structures that a ball of radius R does not fit into",
             .more = "Opening by reconstruction: of what is eroded by the ball something must be left; then all of it "
                     "is there again, to the voxel. With R = 0 and --footprint FILE in place of the ball: the erosion "
                     "is by the footprint, and the dilation of --close by its opposite, as in img-morph. Not of f64."),
    VP_REALS(struct params, close, "close", 0, .metavar = "R|RX,RY,RZ", .max = 1e6,
             .help = "fill dark structures that a ball of radius R does not fit into"),
    VP_REALS(struct params, seed, "seed", 0, .metavar = "X,Y[,Z]", .max = 1e9,
             .help = "what a voxel reaches: the least sample on the best way from it",
             .more = "Counted from 0. With --by erosion the largest sample on the lowest way."),
    VP_OPTIONS(struct params, window, vp_footprint_file_options),
    VP_CHOICE(struct params, by, "by", 0, "dilation|erosion", .metavar = "WAY", .def = "dilation",
              .group = "Reconstruction", .help = "of MARKER under MASK, or of MARKER above MASK: dilation|erosion"),
    VP_CHOICE(struct params, connectivity, "connectivity", 0, "auto|4|8|6|18|26", .metavar = "N", .def = "auto",
              .help = "neighbours: 4|8 of a pixel, 6|18|26 of a voxel",
              .more = "auto is 8 and 26; for --fill-holes 4 and 6."),
    VP_OPTIONS(struct params, image, vp_image_options),
    VP_OPT_END,
};

static const struct vp_example examples[] = {
    {"The pores of a segmented volume: what filling its holes adds.",
     "ct-phantom --volume 64x64x64 -o vol.tif\nimg-math 'a > 0.019' --type u8 vol.tif -o solid.tif\n"
     "img-morphrecon --fill-holes solid.tif -o filled.tif\nimg-math 'a - b' --type u8 filled.tif solid.tif -o "
     "pores.tif"},
    {"What is bright by 0.002 or more on uneven ground.", "img-morphrecon --hdome 0.002 vol.tif -o bright.tif"},
    {"Only what does not touch the border.", "img-morphrecon --clear-border solid.tif -o inside.tif"},
    {"Minima that are deep enough to be markers of a watershed.",
     "img-morphrecon --hmin 0.002 vol.tif | img-morphrecon --regional-min > markers.tif"},
    {"Components of a mask that hold a marker: reconstruction of two stacks.",
     "img-math 'a > 0.03' --type u8 vol.tif -o marker.tif\nimg-morphrecon -q marker.tif solid.tif -o marked.tif"},
    {0},
};

static const char sections[] =
    "RECIPES\n"
    "With pictures in examples/pictures, each made by the commands beside it (the last one of them img-view).\n\n"
    "Holes in what is segmented (morphrecon-holes.png: a slice of HTC 2022, its holes filled, the holes): "
    "img-morphrecon --fill-holes seg.tif -o filled.tif; img-math 'a - b' filled.tif seg.tif -o holes.tif. In a volume "
    "a pore that a crack leads out of is no hole, even if it looks like one in every slice; --2d works slice by "
    "slice.\n\n"
    "Bright spots on uneven ground (morphrecon-cells.png: foci in nuclei): img-morphrecon --hdome 300 cells.tif. The "
    "height is that above the surroundings: a spot on a bright ground counts as much as one on a dark ground, and no "
    "more than 300 of a bright one. Noise is a dome, too, as high as it is: smooth before (img-gauss), or take away "
    "what is small (img-morphrecon --open 1) after it.\n\n"
    "Not what is cut off by the border (morphrecon-border.png: galaxies): img-morphrecon --clear-border field.tif. Of "
    "grey images the ground should be near 0: subtract it first, as with img-morph --op tophat.\n\n"
    "Markers of a watershed (morphrecon-minima.png: a retina): img-gauss --sigma 2 eye.tif | img-morphrecon --hmin 5 | "
    "img-morphrecon --regional-min. Without --hmin every dip of the noise is a minimum; 5 is the depth from which on "
    "they count.\n\n"
    "LARGE IMAGES\n"
    "An image that fits in memory with its result is worked on as a whole, in one visit. A larger one is visited "
    "twice, chunk by chunk: first each chunk is reconstructed by itself, and what its outside can see of it is noted, "
    "a small part of its samples; that is solved for all chunks as a whole; then each chunk is finished. So every "
    "sample is read twice and written once, whatever the image, and the result is the same to the bit. --plan says "
    "which way is taken, --stats counts. What is noted is in memory as far as it goes, else in $TMPDIR, which must be "
    "on a disk for that.\n\n"
    "A GPU holds a volume as a whole, if it comes from a file and there are about 8 bytes of the GPU's memory for a voxel "
    "of u8, 12 of u16, 21 of f32 (not for --hdome and --clear-border of floats): its planes are read once, one after "
    "the other, and the result leaves it when all of it is there, so that the host needs memory for some planes only.\n\n"
    "What comes from a pipe is copied first if it is a volume (or pages too large for that are), to memory up to a "
    "quarter of --memory, else to $TMPDIR; the plan says where. Pages that stand alone flow through one by one. To "
    "write chunks in the order in which they are made, a page larger than memory needs -o.";

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
    .summary = "morphological reconstruction: fill holes, h-maxima, clear the border",
    .description =
        "Reconstructs MARKER under MASK: every sample becomes the best that any way through the image brings it, where "
        "a way is as good as the least sample of the mask on it, and begins with a sample of the marker. So what is "
        "marked comes back as the mask has it, to the voxel, and what is not marked is levelled. With --by erosion all "
        "is upside down. The other options make the marker themselves, out of one stack.\n\n"
        "Pages along z are a volume, or with --2d each page is an image of its own; channels and times are never "
        "mixed. Samples are u8, u16, i8, i16, f32 or f64, and on the CPU u32 or i32; masks of 0 and 1 or 255 are u8. MARKER and MASK have the "
        "same size and type; one of a single page goes with every page of the other. Where the marker is above the "
        "mask (with --by erosion: below) it counts as the mask's, and how often is said.\n\n"
        "The result is exact: it is unique, and its samples are samples of the input. So its bits do not depend on "
        "threads, memory, chunks or devices.\n\n"
        "NaN: where the mask is NaN the result is, and no way leads over it; NaN in the marker marks nothing. -0 "
        "counts as less than +0.",
    .options = options,
    .params_size = sizeof(struct params),
    .examples = examples,
    .sections = sections,
    .see_also = "img-morph(1), img-math(1), voxpipe-stack(5)",
    .flags = VP_TOOL_CUDA,
    .run = img_morphrecon,
};
