/* SPDX-License-Identifier: BSD-3-Clause */
/* ct-geom: makes a scan geometry from options, or reads one in any known format and overrides it by options; writes it
 * as a geometry file, or describes it. Text only: reads no pixels. */
#include "geom/geom.h"
#include "app/open.h"
#include "app/tool.h"
#include <stdlib.h>
#include <string.h>

enum { FORMAT_GEOM, FORMAT_MATRICES };

struct params {
    struct vp_geom_params geom;
    int format;
    bool show;
};

static const struct vp_opt options[] = {
    VP_OPTIONS(struct params, geom, vp_geom_options),
    VP_CHOICE(struct params, format, "format", 0, "geom|matrices", .def = "geom", .group = "Output",
              .help = "format of the output: parameters, or one 3x4 matrix for each view"),
    VP_FLAG(struct params, show, "show", 0,
            .help = "describe the geometry in words and numbers, with warnings, instead of writing it",
            .more = "The report contains the magnification, the field of view, the default voxel size and volume of "
                    "the other programs, the fan and cone angles, whether the scan is full or short and which "
                    "weights it gets, and a warning for each parameter that looks wrong."),
    VP_INSTEAD("old-s", 's', "show"),
    VP_OPT_END,
};

static const struct vp_example examples[] = {
    {"Write a fan beam scan of 720 views to a file.",
     "ct-geom --sod 410.66 --sdd 553.74 --detector 560x1 --pitch 0.2 \\\n"
     "    --views 720 -o scan.geom"},
    {"Show magnification, field of view, voxel size and weights of a geometry.", "ct-geom --show scan.geom"},
    {"Change a geometry: the axis three pixels off centre, and the other direction of rotation.",
     "ct-geom --offset-u 3 --clockwise scan.geom"},
    {"A helix of ten turns, 40 mm apart.",
     "ct-geom --sod 300 --sdd 450 --detector 160x80 --pitch 1.5 \\\n"
     "    --views 1800 --arc 3600 --pitch-z 40 -o helix.geom"},
    {"Planar CT: the source circles 45 degrees above the board, and the detector does not rotate.",
     "ct-geom --sod 300 --sdd 450 --detector 160x160 --pitch 1.5 \\\n"
     "    --views 360 --lamino 45 --fixed-detector -o board.geom"},
    {"One 3x4 matrix for each view, for other programs.", "ct-geom --format matrices scan.geom -o scan.matrices"},
    {0},
};

static void warn(void *run, const char *text)
{
    vp_warn(run, "%s", text);
}

static int ct_geom(struct vp_run *run, void *params, struct vp_err *err)
{
    const struct params *p = params;
    struct vp_geom g = {0};
    struct vp_view *views = NULL;
    struct vp_scan scan;
    char *text = NULL;
    int status = -1;

    if (run->parsed.n_operands > 1)
        return vp_fail(err, VP_EUSAGE, "expected one geometry, got %d files", run->parsed.n_operands);
    if (!run->parsed.n_operands && !run->parsed.n_uses)
        return vp_fail_hint(err, VP_EUSAGE,
                            "for example: ct-geom --sod 400 --sdd 600 --detector 512x512 --pitch 0.2 --views 720",
                            "no geometry: expected a FILE or options that make one");
    if (vp_geom_make(&g, run->parsed.n_operands ? run->parsed.operands[0] : NULL, &p->geom, err) ||
        vp_geom_views(&g, &views, &scan, err))
        goto out;
    vp_report_plan(run, "output", "%s",
                   p->show                        ? "explanation"
                   : p->format == FORMAT_MATRICES ? "matrices"
                                           : "geometry");
    vp_report_plan(run, "views", "%lld", (long long)g.views);
    if (vp_report_plan_done(run)) {
        status = 0;
        goto out;
    }
    struct vp_err refused = VP_ERR_INIT;
    if (p->show || run->common.verbose) {
        vp_geom_warn(&g, views, &scan, warn, run);
        if (vp_scan_check(&scan, &refused))
            vp_warn(run, "cannot be filtered: %s", refused.msg);
    } else if (g.doubt[0])
        vp_warn(run, "%s", g.doubt);
    text = p->show ? vp_geom_explain(&g, views, &scan) : vp_geom_format(&g, p->format == FORMAT_MATRICES);
    if (!text) {
        vp_fail(err, VP_ERESOURCE, "out of memory");
        goto out;
    }
    status = vp_output_text(run, text, strlen(text), err);
out:
    free(text);
    free(views);
    vp_geom_free(&g);
    return status;
}

const struct vp_tool vp_program = {
    .name = "ct-geom",
    .operands = "[FILE]",
    .summary = "make, convert and explain scan geometries",
    .description =
        "Makes the geometry of a scan from options, or reads one from FILE and changes it by options. The output is "
        "a geometry file: plain text that you can edit, and that the other ct- programs read with -g.\n\n"
        "FILE is one of these; - is standard input:\n\n"
        "- a geometry file\n"
        "- a text file with one 3x4 projection matrix a line\n"
        "- RTK XML, Nikon .xtekct or Bruker (SkyScan) .log\n"
        "- a stack with a geometry in its metadata\n\n"
        "Lengths are in mm, angles in degrees, detector offsets in pixels. ct-geometry(5) has a drawing, the "
        "formulas and all keys.",
    .options = options,
    .params_size = sizeof(struct params),
    .examples = examples,
    .see_also = "ct-geometry(5), ct-phantom(1), ct-fdk(1)",
    .flags = VP_TOOL_TEXT | VP_TOOL_SOURCE | VP_TOOL_NO_DEVICE,
    .run = ct_geom,
};
