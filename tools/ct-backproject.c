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
    {"The middle slices only, from a file.",
     "ct-geom --sod 500 --sdd 1000 --detector 64x64 --pitch 2 --views 90 |\n"
     "ct-phantom -g - | ct-filter -o filtered.tif\n"
     "ct-backproject --slab 28:36 filtered.tif -o middle.tif"},
    {"Two halves of the views, perhaps on two machines, added up.",
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
              .help = "weight of a sample: of FDK, or the transpose of ct-project",
              .more = "adjoint is the exact transpose of ct-project(1), for iterative methods: any projections are summed, "
                      "on the CPU, with the weights that ct-project gives the voxels. It counts views equally, and on a "
                      "helix all that see a voxel."),
    VP_OPT_END,
};
#undef P

/* Checks what the transpose cannot do yet, before anything is opened; `auto` is the CPU. */
static int check(struct vp_run *run, const struct params *p, struct vp_err *err)
{
    if (p->weight != WEIGHT_ADJOINT)
        return 0;
    if (p->reconstruct.subsets > 1)
        return vp_fail(err, VP_EUSAGE, "--weight adjoint and --subsets cannot be combined");
    if (vp_device_cpu(run, err))
        return -1;
    run->common.device = "cpu";
    return 0;
}

static int ct_backproject(struct vp_run *run, void *params, struct vp_err *err)
{
    const struct params *p = params;
    struct vp_session s = {0};
    int rc = check(run, p, err) || vp_session_open(&s, run, &p->reconstruct, VP_NEED_FILTERED, err) ? -1 : 0;

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
        "Sums filtered projections (from ct-filter) into a volume of attenuation, in 1/mm: for each voxel "
        "and each "
        "view the detector is sampled bilinearly where the voxel's image falls, and weighted by the square "
        "of the "
        "source-axis distance over the voxel's depth. Samples outside the detector count as zero.\n\n"
        "The geometry comes with the projections or from -g, as circular orbit or as one 3x4 matrix a view; "
        "where the "
        "matrices are those of an untilted detector on a circular orbit, a kernel is used that does a "
        "fraction of the "
        "arithmetic, and another half is saved where the volume and the detector are centred in z.\n\n"
        "On a helix each slice counts the views of a turn and a bit about its height (ct-geometry(5), HELICES).\n\n"
        "The views stream through in order, one volume is held in memory. If it does not fit --memory, projections "
        "that can be read again (files, not pipes) are read several times, each pass making as many slices as fit; "
        "a pipe is refused before anything is read. With --device cuda the volume is on all GPUs, with cuda:0,2 on "
        "those, in slabs; what the driver takes on the host comes on top of --memory. The result of a voxel does "
        "not depend on slabs, passes, threads or the number of GPUs, unless these share the views (see --subsets); "
        "ct-fdk(1) says more about them.",
    .options = options,
    .params_size = sizeof(struct params),
    .examples = examples,
    .see_also = "ct-filter(1), ct-fdk(1), ct-project(1), ct-reduce(1), ct-geometry(5)",
    .flags = VP_TOOL_CUDA | VP_TOOL_VIEWS,
    .run = ct_backproject,
};
