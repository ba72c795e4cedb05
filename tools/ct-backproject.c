/* SPDX-License-Identifier: BSD-3-Clause */
/* ct-backproject: filtered projections to an attenuation volume. Views stream through; one volume (or the slab that
 * fits in memory) is held. */
#include "stack/reader.h"
#include "app/session.h"
#include "app/tool.h"

#include <string.h>

static const struct vp_example examples[] = {
    {"Reconstruct a simulated scan.", "ct-geom --sod 500 --sdd 1000 --detector 64x64 --pitch 2 --views 90 |\n"
                                      "ct-phantom -g - | ct-filter | ct-backproject -o vol.tif"},
    {"Only the middle slices, from a file.",
     "ct-geom --sod 500 --sdd 1000 --detector 64x64 --pitch 2 --views 90 |\n"
     "ct-phantom -g - | ct-filter -o filtered.tif\n"
     "ct-backproject --slab 28:36 filtered.tif -o middle.tif"},
    {"Two halves of the views, reconstructed separately and added up.",
     "ct-backproject --views :45 filtered.tif -o a.tif\n"
     "ct-backproject --views 45: filtered.tif -o b.tif\n"
     "ct-reduce a.tif b.tif -o vol.tif"},
    {0},
};

enum { WEIGHT_FDK, WEIGHT_ADJOINT };

struct params {
    struct vp_reconstruct_params reconstruct;
    int weight;
};

#define P struct params
static const struct vp_opt options[] = {
    VP_OPTIONS(P, reconstruct, vp_reconstruct_options),
    VP_CHOICE(P, weight, "weight", 0, "fdk|adjoint", .def = "fdk", .group = "Method",
              .help = "weight of a sample: fdk, or adjoint for the transpose of ct-project",
              .more = "adjoint is the exact transpose of ct-project(1), for iterative methods. It takes any "
                      "projections, and adds them with the weights that ct-project gives the voxels. All views count "
                       "equally; on a helix all views count that see a voxel. It runs on GPUs; a volume that does not fit "
                       "their memory is brought to them in slabs of 512 slices. The volume must fit --memory: else the exit "
                       "status is 3, and --slab makes it in parts."),
    VP_OPT_END,
};
#undef P

static int check(const struct params *p, struct vp_err *err)
{
    if (p->weight != WEIGHT_ADJOINT)
        return 0;
    if (p->reconstruct.subsets > 1)
        return vp_fail(err, VP_EUSAGE, "--weight adjoint and --subsets cannot be combined");
    return 0;
}

static int ct_backproject(struct vp_run *run, void *params, struct vp_err *err)
{
    const struct params *p = params;
    struct vp_session s = {0};
    int rc = check(p, err) || vp_session_open(&s, run, &p->reconstruct, VP_NEED_FILTERED, err) ? -1 : 0;

    if (!rc && p->weight == WEIGHT_ADJOINT) {
        rc = vp_session_adjoint(&s, run, err);
    } else if (!rc) {
        const char *quantity = vp_meta_get(&vp_reader_stack(s.reader)->meta, "quantity");
        if (quantity && strcmp(quantity, "filtered projection"))
            vp_warn(run, "%s: holds '%s', not 'filtered projection': filter it first with ct-filter",
                    vp_reader_name(s.reader), quantity);
        rc = vp_session_run(&s, run, err);
    }
    vp_session_close(&s);
    return rc;
}

const struct vp_tool vp_program = {
    .name = "ct-backproject",
    .operands = "[INPUT]...",
    .summary = "back-project filtered projections into a volume",
    .description =
        "Reads filtered projections from ct-filter and writes a volume of attenuation, in 1/mm. For each voxel and "
        "each view, the detector is sampled bilinearly at the image of the voxel, and the sample is weighted by the "
        "square of (source-axis distance / depth of the voxel). Samples outside the detector count as zero.\n\n"
        "The geometry comes from the metadata of the projections or from -g: a circular orbit, a helix, or one 3x4 "
        "matrix for each view. Circular orbits with an untilted detector have a faster kernel, also if they are "
        "given as matrices. It is faster still if the volume and the detector are centred in z.\n\n"
        "On a helix, each slice uses the views of slightly more than one turn around its height; see ct-geometry(5), "
        "HELICES.\n\n"
        "Views are read in order, and the volume is held in memory. If the volume does not fit --memory, projections "
        "in files are read several times, and each pass makes as many slices as fit; projections from a pipe are "
        "refused at the start. With --device cuda all GPUs share the volume in slabs. Memory of the GPU driver on "
        "the host is not included in --memory.\n\n"
        "The bits of a voxel do not depend on slabs, passes, threads or the number of GPUs, except with --subsets. "
        "ct-fdk(1) has the details.",
    .options = options,
    .params_size = sizeof(struct params),
    .examples = examples,
    .see_also = "ct-filter(1), ct-fdk(1), ct-project(1), ct-reduce(1), ct-geometry(5)",
    .flags = VP_TOOL_CUDA | VP_TOOL_VIEWS,
    .run = ct_backproject,
};
