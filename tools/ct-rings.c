/* SPDX-License-Identifier: BSD-3-Clause */
/* ct-rings: takes errors of detector pixels from line integrals, which would be rings. Views are read twice, for the
 * map and to subtract it; or once with a map that exists; or sinograms are sorted. */
#include "base/size.h"
#include "base/stats.h"
#include "ct/quantity.h"
#include "ct/rings.h"
#include "engine/pages.h"
#include "geom/geom.h"
#include "app/open.h"
#include "app/tool.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct params {
    int layout;
    int64_t blocks;
    struct vp_size size;
    bool drift;
    const char *map, *apply;
    int64_t sort;
};

#define P struct params
static const struct vp_opt options[] = {
    VP_CHOICE(P, layout, "layout", 0, "views|sinograms", .def = "views", .group = "Projections",
              .help = "what a page is: one view, or one detector row of all views"),
    VP_INT(P, blocks, "blocks", 0, .metavar = "K", .min = 1, .max = VP_RINGS_BLOCKS, .def = "12", .group = "Map",
           .help = "number of parts of the scan that must agree",
           .more = "An error that is present in less than half of the parts is not removed. Memory holds one page of "
                   "32-bit floats for each part."),
    VP_SIZE(P, size, "size", 0, .metavar = "COLUMNSxROWS", .def = "9x9",
            .help = "windows of the medians, along rows and along columns; odd numbers",
            .more = "An error that is as wide as half a window in both directions is not found. For dust on the "
                    "scintillator, use about 5 times its width. With one row (9x1) the median is along rows only, "
                    "and then walls around the axis are taken for rings."),
    VP_FLAG(P, drift, "drift", 0,
            .help = "use a map for each block, for pixels whose error changes during the scan",
            .more = "Each map is the median of three blocks. Between the middles of two blocks, the maps are "
                    "interpolated."),
    VP_OUTFILE(P, map, "map", 0, .metavar = "FILE",
               .help = "also write the map of errors",
               .more = "The map is one page of the detector's size; with --drift, one page for each block."),
    VP_FILE(P, apply, "apply", 0, .metavar = "FILE",
            .help = "subtract this map; the input is then read only once"),
    VP_INT(P, sort, "sort", 0, .metavar = "N", .min = 3, .max = VP_RINGS_WINDOW, .group = "Sinograms",
           .help = "sort each sinogram, apply a median over N columns, and sort back (try 7)",
           .more = "For stripes that are present in a part of the views only. No map is used. It removes more of the "
                   "object than a map does: walls around the axis and fine detail. Needs --layout sinograms."),
    VP_OPT_END,
};
#undef P

static const struct vp_example examples[] = {
    {"Simulate a detector whose pixels are wrong by 2 %, correct the scan and reconstruct it.",
     "ct-geom --sod 500 --sdd 1000 --detector 64x48 --pitch 2 --views 90 -o scan.geom\n"
     "ct-phantom -g scan.geom -o true.tif\n"
     "ct-phantom -g scan.geom --noise 2500 --density 0 | img-cat --pages 0 -o gain.tif\n"
     "img-math 'a + b' true.tif gain.tif -o scan.tif\n"
     "ct-rings scan.tif | ct-fdk -o vol.tif"},
    {"Write the map only, to look at it; then apply it in a pipe.",
     "ct-rings --map map.tif scan.tif -o clean.tif\n"
     "img-view map.tif -o map.png\n"
     "cat scan.tif | ct-rings --apply map.tif -o again.tif\n"
     "img-cmp clean.tif again.tif"},
    {"Stripes that are present in a part of the views.",
     "ct-phantom -g scan.geom --layout sinograms -o sinograms.tif\n"
     "ct-rings --sort 7 --layout sinograms sinograms.tif -o sorted.tif"},
    {0},
};

struct work {
    struct vp_rings *rings;
    struct vp_rings_params p;
    const char *name;
    bool sinograms;
    int64_t sort;
    int64_t rows;      /* sinograms: rows of the detector, -1: any number */
    int threads;
    double squares;    /* sum of the squares of what sorting took away */
};

static int add(void *ctx, int64_t page, int n, void *in, void *out, struct vp_err *err)
{
    struct work *const w = ctx;

    (void)out, (void)err;
    (w->sinograms ? vp_rings_add_sinograms : vp_rings_add)(w->rings, page, n, in);
    return n;
}

static int subtract(void *ctx, int64_t page, int n, void *in, void *out, struct vp_err *err)
{
    struct work *const w = ctx;

    (void)out;
    if (w->sinograms && page + n > w->p.nv)
        return vp_fail(err, VP_ERUN, "%s: more sinograms than the %lld rows of the map", w->name, (long long)w->p.nv);
    (w->sinograms ? vp_rings_subtract_sinograms : vp_rings_subtract)(w->rings, page, n, in);
    return n;
}

static int sort(void *ctx, int64_t page, int n, void *in, void *out, struct vp_err *err)
{
    struct work *const w = ctx;
    float *const samples = in;
    const int64_t size = w->p.nu * w->p.views;

    (void)page, (void)out;
    for (int64_t i = 0; i < n * size; i++)
        if (!isfinite(samples[i]))
            samples[i] = 0;
    for (int k = 0; k < n; k++)
        if (vp_rings_sort(samples + k * size, w->p.nu, w->p.views, w->sort, w->threads, &w->squares, err))
            return -1;
    return n;
}

/* Checks the options against each other. */
static int check(const struct vp_run *run, const struct params *p, struct vp_err *err)
{
    static const char *const of_map[] = {"blocks", "size", "drift", "map"};
    const char *const other = p->apply ? "apply" : p->sort ? "sort" : NULL;

    for (size_t i = 0; other && i < sizeof of_map / sizeof *of_map; i++)
        if (vp_given(run, of_map[i]))
            return vp_fail(err, VP_EUSAGE, "--%s and --%s cannot be combined", other, of_map[i]);
    if (p->apply && p->sort)
        return vp_fail(err, VP_EUSAGE, "--apply and --sort cannot be combined");
    if (p->sort && p->layout != VP_LAYOUT_SINOGRAMS)
        return vp_fail(err, VP_EUSAGE, "--sort needs --layout sinograms");
    if (p->sort % 2 == 0 && p->sort)
        return vp_fail(err, VP_EUSAGE, "--sort: expected an odd number, got %lld", (long long)p->sort);
    for (int i = 0; i < 2; i++)
        if (p->size.n != 2 || p->size.v[i] % 2 == 0 || p->size.v[i] > VP_RINGS_WINDOW || p->size.v[0] < 3)
            return vp_fail(err, VP_EUSAGE, "--size: expected COLUMNSxROWS, odd, at most %dx%d, at least 3x1",
                           VP_RINGS_WINDOW, VP_RINGS_WINDOW);
    return 0;
}

/* Opens the map of --apply. */
static int load_map(struct vp_run *run, const struct params *p, struct work *w, struct vp_err *err)
{
    struct vp_reader *r = NULL;
    float *maps = NULL;
    int rc = -1;

    if (vp_open_mask(run, p->apply, &r, err))
        return -1;
    const struct vp_stack *s = vp_reader_stack(r);
    const char *name = vp_reader_name(r), *quantity = vp_meta_get(&s->meta, "quantity");
    const int64_t rows = w->sinograms ? w->rows : w->p.nv;
    if (quantity && strcmp(quantity, "ring map"))
        vp_fail_hint(err, VP_EUSAGE, "ct-rings --map writes one", "%s: holds %s, not a map of rings", name, quantity);
    else if (s->nx != w->p.nu || (rows >= 0 && s->ny != rows))
        vp_fail(err, VP_ERUN, "%s: expected a map of %lld x %lld pixels, got %lld x %lld", name, (long long)w->p.nu,
                (long long)(rows >= 0 ? rows : s->ny), (long long)s->nx, (long long)s->ny);
    else if (s->pages < 1 || s->pages > VP_RINGS_BLOCKS)
        vp_fail(err, VP_ERUN, "%s: expected 1 to %d maps", name, VP_RINGS_BLOCKS);
    else if (s->pages > 1 && w->p.views < 0)
        vp_fail_hint(err, VP_ERUN, "give the file, or use --spool", "%s: the number of views is unknown: expected it, "
                                                                    "since "
                     "the map changes during the scan", w->name);
    else {
        w->p.nv = s->ny;
        w->p.blocks = s->pages;
        maps = vp_alloc_raw(vp_page_bytes(s) / vp_type_size(s->type), (size_t)s->pages * sizeof *maps, "the maps", err);
        rc = maps ? 0 : -1;
        for (int64_t k = 0; k < s->pages && !rc; k++)
            if (vp_reader_next_f32(r, maps + k * s->nx * s->ny, err) != 1)
                rc = vp_fail(err, VP_ERUN, "%s: truncated", name);
        if (!rc)
            rc = vp_rings_open_maps(&w->rings, &w->p, maps, s->pages, err);
    }
    free(maps);
    if (vp_reader_close(r, rc ? NULL : err))
        rc = -1;
    return rc;
}

/* Writes the maps to a file. */
static int write_map(struct vp_run *run, const struct params *p, const struct work *w, const struct vp_stack *in,
                     struct vp_err *err)
{
    int64_t n;
    const float *maps = vp_rings_maps(w->rings, &n);
    struct vp_stack out = {.nx = w->p.nu, .ny = w->p.nv, .pages = n, .type = VP_F32};
    struct vp_writer *writer = NULL;
    int rc = -1;

    (void)in;
    if (vp_meta_set(&out.meta, "quantity", "ring map") || vp_meta_set(&out.meta, "axes",
                                                                      n > 1 ? "u v time" : "u v view"))
        vp_fail(err, VP_ERESOURCE, "out of memory");
    else if (!vp_open_result(run, p->map, &out, &writer, err)) {
        rc = vp_writer_pages(writer, n, maps, 1, err);
        if (rc)
            vp_writer_abort(writer);
        else
            rc = vp_writer_close(writer, err);
    }
    vp_stack_free(&out);
    return rc;
}

/* Reports the maps. */
static void report(struct vp_run *run, const struct vp_rings_facts *f)
{
    vp_note(run, "taken away: %.3g rms, at most %.3g", f->rms, f->most);
    if (!isnan(f->agreement))
        vp_note(run, "odd and even blocks agree to %.2f: 1 is all pixels, 0 is all noise", f->agreement);
    vp_stats_number(run->stats, "taken_rms", f->rms);
    vp_stats_number(run->stats, "taken_most", f->most);
    if (!isnan(f->agreement))
        vp_stats_number(run->stats, "agreement", f->agreement);
}

/* Reads all views for the map. */
static int estimate(struct vp_run *run, const struct params *p, struct work *w, struct vp_reader *reader,
                    uint64_t beside,
                    struct vp_err *err)
{
    struct vp_rings_facts facts;
    struct vp_pages pages = {.reader = reader, .as_f32 = true, .memory = run->common.memory, .beside = beside,
                             .stats = run->stats, .progress = run->progress, .stage = "map", .work = add, .ctx = w};

    if (vp_rings_open(&w->rings, &w->p, err) || vp_pages_run(&pages, err))
        return -1;
    if (pages.done != (w->sinograms ? w->p.nv : w->p.views))
        return vp_fail(err, VP_ERUN, "%s: ends after %lld pages", w->name, (long long)pages.done);
    if (vp_rings_finish(w->rings, &facts, err))
        return -1;
    report(run, &facts);
    if (p->map && write_map(run, p, w, vp_reader_stack(reader), err))
        return -1;
    return vp_reader_seek(reader, 0, err);
}

static void show(struct vp_run *run, const struct params *p, const struct work *w, const struct vp_stack *in)
{
    vp_report_plan(run, "input", "%lld x %lld, %lld pages", (long long)in->nx, (long long)in->ny, (long long)in->pages);
    if (p->sort)
        vp_report_plan(run, "method", "sorting, median of %lld columns", (long long)p->sort);
    else if (p->apply)
        vp_report_plan(run, "method", "a map that is given, read once");
    else
        vp_report_plan(run, "method", "a map from %lld blocks, medians of %lld columns and %lld rows, read twice",
                       (long long)w->p.blocks, (long long)w->p.columns, (long long)w->p.rows);
    vp_report_plan(run, "memory", "%s of %s for maps", vp_bytes_text(p->sort ? 0 : vp_rings_bytes(&w->p)).text,
                   vp_bytes_text(run->common.memory).text);
    vp_report_plan(run, "threads", "%lld", (long long)run->common.threads);
}

/* Sets the sizes from the stack, as far as they are known. */
static void sizes(struct work *w, const struct params *p, const struct vp_stack *in)
{
    w->rows = w->sinograms ? in->pages : in->ny;
    w->p = (struct vp_rings_params){.nu = in->nx, .nv = vp_max64(w->rows, 1),
                                    .views = w->sinograms ? in->ny : in->pages,
                                    .blocks = p->blocks, .columns = p->size.v[0], .rows = p->size.v[1], .drift = p->drift,
                                    .threads = w->threads};
}

/* Least number of views of a map. */
enum { FEW = 3 };

/* Makes ready what is subtracted: a map that is given, or one from the input. */
static int prepare(struct vp_run *run, const struct params *p, struct work *w, struct vp_reader *reader,
                   struct vp_stack *out, struct vp_writer **writer, uint64_t *beside, struct vp_err *err)
{
    const struct vp_stack *in = vp_reader_stack(reader);
    uint64_t held = 0;

    if (!p->sort && !p->apply) {
        if (!vp_reader_seekable(reader) && vp_reader_keep(reader, run->common.memory / 2, &held, err))
            return -1;
        run->common.memory -= held;
        sizes(w, p, in);
        out->pages = in->pages;
        if (w->p.views >= 0 && w->p.views < FEW)
            return vp_fail(err, VP_ERUN, "%s: expected %d views or more, got %lld: errors of pixels are what does not change "
                           "from view to view", w->name, FEW, (long long)w->p.views);
        if (w->p.nv < 5 && w->p.rows > 1) {
            vp_warn(run,
                    "%s: %lld detector row%s: walls about the axis cannot be distinguished from rings: both are taken away",
                    w->name, (long long)w->p.nv, w->p.nv == 1 ? "" : "s");
            w->p.rows = 1;
        }
    }
    if (p->apply && load_map(run, p, w, err))
        return -1;
    *beside = p->sort ? (uint64_t)(w->p.nu * w->p.views * 8) : vp_rings_bytes(&w->p);
    if (*beside >= run->common.memory) {
        vp_fail(err, VP_ERESOURCE, "%s needs %s, the memory limit is %s", p->sort ? "sorting" : "the map",
                vp_bytes_text(*beside).text, vp_bytes_text(run->common.memory).text);
        return p->sort || p->apply ? -1 : vp_hint(err, "use fewer --blocks");
    }
    if (vp_open_output(run, out, writer, err))
        return -1;
    return p->sort || p->apply ? 0 : estimate(run, p, w, reader, *beside, err);
}

static int ct_rings(struct vp_run *run, void *params, struct vp_err *err)
{
    const struct params *p = params;
    struct vp_reader *reader = NULL;
    struct vp_writer *writer = NULL;
    struct vp_stack out = {0};
    struct work w = {.sinograms = p->layout == VP_LAYOUT_SINOGRAMS, .sort = p->sort,
                     .threads = (int)run->common.threads};
    uint64_t beside = 0;
    int rc = -1;

    if (vp_device_cpu(run, err) || check(run, p, err) || vp_open_input(run, 0, VP_AS_VALUES, &reader, err))
        goto out;
    const struct vp_stack *in = vp_reader_stack(reader);
    w.name = vp_reader_name(reader);
    sizes(&w, p, in);
    if (vp_quantity_check(in, VP_NEED_LINES, w.name, err))
        goto out;
    show(run, p, &w, in);
    if (vp_report_plan_done(run)) {
        rc = 0;
        goto out;
    }
    if (vp_stack_copy(&out, in)) {
        vp_fail(err, VP_ERESOURCE, "out of memory");
        goto out;
    }
    out.type = VP_F32;
    if (prepare(run, p, &w, reader, &out, &writer, &beside, err))
        goto out;
    struct vp_pages pages = {.reader = reader, .writer = writer, .as_f32 = true, .out_bytes = vp_page_bytes(&out),
                             .in_place = true, .memory = run->common.memory,
                             .beside = beside + vp_output_holds(run, &out, run->common.memory), .stats = run->stats,
                             .progress = run->progress, .stage = "rings", .work = p->sort ? sort : subtract, .ctx = &w};
    rc = vp_pages_run(&pages, err);
    if (!rc && p->apply && w.sinograms && pages.done != w.p.nv)
        rc = vp_fail(err, VP_ERUN, "%s: expected the %lld sinograms of the map, got %lld", w.name, (long long)w.p.nv,
                     (long long)pages.done);
    if (!rc && p->sort) {
        const double rms = sqrt(w.squares / (double)(pages.done * w.p.nu * w.p.views));
        vp_note(run, "taken away: %.3g rms", rms);
        vp_stats_number(run->stats, "taken_rms", rms);
    }
    if (!rc && pages.bad)
        vp_warn(run, "%s: %lld samples are NaN or infinite%s", w.name, (long long)pages.bad,
                p->sort ? ", taken as 0" : "");
out:
    rc = vp_close(run, reader, writer, rc, err);
    vp_rings_close(w.rings);
    vp_stack_free(&out);
    return rc;
}

const struct vp_tool vp_program = {
    .name = "ct-rings",
    .operands = "[INPUT]...",
    .summary = "remove constant errors of detector pixels, which become rings",
    .description =
        "Reads the line integrals of ct-normalize, finds the constant error of each detector pixel, and subtracts "
        "it. Without this step such pixels become rings in the reconstruction. The output is line integrals again.\n\n"
        "The program averages the views in blocks. From the mean of each block it subtracts the median along "
        "columns, then the median along rows; only what is small in both directions remains. The map of errors is "
        "the median of these blocks, pixel by pixel. Details that rotate with the object are therefore not in the "
        "map, nor are details that are long in one direction, such as walls of a container around the axis or edges "
        "of layers. In a clean scan only noise changes, by its standard deviation divided by the square root of the "
        "number of views. The method assumes nothing about the beam or the axis.\n\n"
        "-v and --stats report the size of the correction, and the correlation between the maps of odd and even "
        "blocks: 1 if the errors are all in the pixels, 0 if the map is only noise. You can look at the map (--map "
        "FILE), change it with img-math, and use it with --apply.\n\n"
        "The input is read twice. A pipe is copied to memory; if that would take more than half of --memory, to an "
        "unnamed file in $TMPDIR. With --apply the input is read once, in order. NaN and infinite samples are "
        "ignored and stay as they are. The result does not depend on threads or the layout of the stack.",
    .options = options,
    .params_size = sizeof(struct params),
    .examples = examples,
    .sections =
        "LIMITS\n"
        "With fewer than 5 detector rows only the median along rows is used, and walls around the axis are taken for "
        "rings; a warning appears. Dust and scratches wider than half a window are not removed: see --size. Errors "
        "that are present in some views only are not removed: see --drift and --sort.\n\n"
        "REFERENCES\n"
        "Boin and Haibel, Opt. Express 14 (2006) 12071. Vo, Atwood and Drakopoulos, Opt. Express 26 (2018) 28396, "
        "algorithm 3: --sort.",
    .see_also = "ct-normalize(1), ct-fdk(1), img-math(1), img-view(1)",
    .flags = VP_TOOL_VIEWS,
    .run = ct_rings,
};
