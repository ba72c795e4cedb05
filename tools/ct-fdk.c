/* SPDX-License-Identifier: BSD-3-Clause */
/* ct-fdk: normalizes, filters and back-projects in one process whose stages overlap; the same bits as the pipeline of
 * ct-normalize, ct-filter and ct-backproject. */
#include "ct/filter.h"
#include "app/flats.h"
#include "stack/reader.h"
#include "app/ranked.h"
#include "app/session.h"
#include "app/tool.h"

struct params {
    struct vp_normalize_params normalize;
    struct vp_filter_params filter;
    int filter_on;
    struct vp_reconstruct_params reconstruct;
    struct vp_ranked_params ranked;
};

static const struct vp_opt options[] = {
    VP_OPTIONS(struct params, normalize, vp_normalize_options),
    VP_OPTIONS(struct params, filter, vp_filter_options),
    VP_CHOICE(struct params, filter_on, "filter-on", 0, "auto|cpu|gpu", .def = "auto",
              .help = "device that filters the views",
              .more = "auto filters on the GPU if the back-projection runs there, the GPU can filter rows of this "
                      "length, and this is expected to take less time than on the cores of the host. --plan shows "
                      "the choice. Results of CPU and GPU differ by less than 1e-6 (relative L2)."),
    VP_OPTIONS(struct params, reconstruct, vp_reconstruct_options),
    VP_OPTIONS(struct params, ranked, vp_ranked_options),
    VP_OPT_END,
};

static const struct vp_example examples[] = {
    {"Simulate a scan and reconstruct it.", "ct-geom --sod 500 --sdd 1000 --detector 64x64 --pitch 2 --views 90 |\n"
                                      "ct-phantom -g - -o scan.tif\n"
                                      "ct-fdk scan.tif -o vol.tif"},
    {"Show the planned work and its memory.", "ct-fdk scan.tif --memory 1GiB --plan"},
    {"Show the plan for 64 ranks.", "ct-fdk scan.tif --voxel 0.05 --plan --ranks 64"},
    {"A quick look: one slice of coarse voxels, without a volume on disk.",
     "ct-fdk --volume 64x64x1 scan.tif | img-view -o slice.png"},
    {"Reconstruct raw counts with 60000 photons for each pixel of the open beam.",
     "ct-phantom -g scan.tif --noise 60000 --counts -o counts.tif\n"
     "ct-fdk --i0 60000 counts.tif --window hann -o vol.tif"},
    {0},
};

/* True if any option of normalization is given; vp_normalize_check reports what is missing. */
static bool normalizes(const struct vp_run *run)
{
    static const char *const names[] = {"flat", "flat-at", "dark", "i0", "floor", "zinger", "zinger-size", "dead",
                                       "no-log"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (vp_given(run, names[i]))
            return true;
    return false;
}

/* Prepares everything before the plan. */
static int prepare(struct vp_session *s, struct vp_run *run, struct params *p, struct vp_own_fields *own,
                   struct vp_err *err)
{
    if (vp_ranked_input(s->ranked, run, err) || vp_own_fields(&p->normalize, own, run, err))
        return -1;
    const bool normal = normalizes(run) || p->normalize.flat.n;
    if (normal && vp_normalize_check(&p->normalize, err))
        return -1;
    if (p->normalize.transmission)
        return vp_fail(err, VP_EUSAGE,
                       "--no-log: a transmission cannot be reconstructed, line integrals can");
    if (vp_session_open(s, run, &p->reconstruct, normal ? vp_normalize_need(&p->normalize) : VP_NEED_LINES, err))
        return -1;
    const struct vp_stack *in = vp_reader_stack(s->reader);
    if (!normal && !vp_meta_get(&in->meta, "quantity") && !vp_type_is_float(in->type))
        vp_warn(run, "%s: taken as line integrals, but %s samples look like counts: see --flat and --i0",
                vp_reader_name(s->reader), vp_type_name(in->type));
    if (normal && vp_normalize_load(&s->job.normalize, run, &p->normalize, s->geom.nu, s->geom.nv, s->geom.views,
                                    p->reconstruct.projections.layout == VP_LAYOUT_SINOGRAMS, err))
        return -1;
    if (vp_session_filter(s, &p->filter, (enum vp_filter_on)p->filter_on, err))
        return -1;
    const struct vp_filter_tables *t = vp_filter_tables(s->job.filter);
    if (t->redundancy == VP_RED_WANG && t->warning[0]) /* the warning of a short arc comes with the geometry */
        vp_warn(run, "%s: %s", vp_reader_name(s->reader), t->warning);
    return 0;
}

static int ct_fdk(struct vp_run *run, void *params, struct vp_err *err)
{
    struct params copy = *(const struct params *)params, *const p = &copy; /* flats of the file are added */
    struct vp_own_fields own = {0};
    struct vp_session s = {0};
    int rc = vp_ranked_open(&s.ranked, run, &p->ranked, err);

    if (rc)
        return rc;
    rc = prepare(&s, run, p, &own, err);
    vp_own_fields_free(&own);
    if (s.ranked)
        rc = vp_ranked_run(s.ranked, &s, run, rc, err);
    else if (!rc)
        rc = vp_session_run(&s, run, err);
    vp_session_close(&s);
    return rc;
}

static const char sections[] =
    "MANY HOSTS\n"
    "ct-fdk runs on many hosts as the processes (ranks) of one MPI run: mpirun -n 8 --hostfile hosts ct-fdk scan.tif "
    "-o vol.tif, or srun in a batch job of Slurm. The ranks form a grid of R slabs of the volume by C subsets of the "
    "views.\n\n"
    "What is needed:\n\n"
    "- the plugin voxpipe-mpi.so, which is built if mpicc is found; without it, ranks refuse to start\n"
    "- the same command line on all ranks\n"
    "- projections in files that all ranks can read\n"
    "- -o FILE in a folder that all hosts share; all ranks write parts of this one file, and it appears under its "
    "name when it is complete\n\n"
    "What a rank uses:\n\n"
    "- One GPU of its host, or several if the host has more GPUs than ranks. If it has fewer, ranks share a GPU and "
    "its memory.\n"
    "- On the CPU, the ranks of a host divide the cores that they may use. Launchers often bind a rank to a few "
    "cores; mpirun --bind-to none does not.\n"
    "- The ranks of a host divide its free memory. --memory, --device-memory and --threads are limits of one rank.\n\n"
    "With C = 1 the file is the same, byte by byte, as that of one process. With C > 1 the partial sums of a slab "
    "are added in the order of the subsets: every run gives the same bits, which are those of one process with "
    "--subsets C on as many GPUs.\n\n"
    "How the grid is chosen: of all grids that fit the memory, the one with the least expected time. A grid with "
    "subsets must save at least a quarter of the time. --grid RxC overrides the choice.\n\n"
    "If a rank fails (truncated file, full disk, too little memory), all ranks stop, one of them prints the reason, "
    "the exit status is not 0, and an existing FILE stays as it was. If a rank is killed, the launcher ends the "
    "others:\n\n"
    "- srun does so only with --kill-on-bad-exit=1.\n"
    "- A launcher that uses SIGKILL may leave a hidden file .voxpipe-N-N.tmp beside FILE.\n"
    "- mpirun of Open MPI 4 may hang if a rank is killed while it starts. PMIX_MCA_gds=hash in the environment "
    "avoids this.\n\n"
    "--plan --ranks N prints the grid for N ranks and the expected seconds of each stage, by the model of Chen et "
    "al. 2019 (section 4.2), without starting a rank:\n\n"
    "- T_load reads, T_filter filters, T_allgather exchanges views, T_upload copies them to the device, T_bp "
    "back-projects. These overlap; T_compute is the time for all of them.\n"
    "- T_download then fetches the slices, T_reduce adds those of different subsets, and T_store writes them.\n\n"
    "With --stats the first rank writes the measured times: for each stage, those of the slowest rank.\n\n"
    "The rates of the model are read from --model FILE. `make model` measures them and writes the file, with as many "
    "ranks on a host as the run will have. Unless noted, a rate is that of one rank:\n\n"
    "- load, store: bytes a second that a host reads and writes; load_all, store_all: the same for the storage that "
    "all hosts share\n"
    "- filter: samples a second\n"
    "- exchange, upload, download, reduce: bytes a second\n"
    "- backproject: voxel updates a second if the detector has as many samples a side as the volume; "
    "backproject_fine, backproject_coarse: the same if it has twice and half as many\n"
    "- start: seconds; host_ranks: ranks on each host; memory: bytes that a rank has for its slab\n\n"
    "Without MPI, independent jobs can do the same: each reconstructs a --slab from some --views, and ct-reduce(1) "
    "adds and joins the results. examples/cluster has a Makefile for this, and a batch script for Slurm.\n\n"
    "TIMES\n"
    "With a GPU, --stats contains these times in seconds, counted from the end of planning, before memory is "
    "allocated or samples are read:\n\n"
    "- seconds_to_first_view, seconds_to_last_view: until the first and the last view has been read\n"
    "- seconds_to_first_kernel: until the last GPU has started its first kernel\n"
    "- compute_seconds: until the last kernel has ended, summed over passes\n"
    "- kernel_seconds: back-projection alone, on the busiest GPU\n\n"
    "Three of the stages are specific to GPUs: `devices` starts the GPUs and plans, `prepare` allocates slabs, "
    "`buffers` allocates host memory for fast copies, in several threads.";

const struct vp_tool vp_program = {
    .name = "ct-fdk",
    .operands = "[INPUT]...",
    .summary = "reconstruct a volume from cone-beam or parallel projections",
    .description =
        "Reads the projections of a scan and writes a volume of attenuation, in 1/mm, reconstructed by the method of "
        "Feldkamp, Davis and Kress (FDK). Raw counts are normalised if --flat or --i0 is given; without them the "
        "input must hold line integrals. Each view is then weighted, ramp-filtered and back-projected.\n\n"
        "ct-fdk combines ct-normalize(1), ct-filter(1) and ct-backproject(1) in one process, with the same options. "
        "Intermediate results stay in memory, and reading, computing and writing overlap. On the CPU the volume has "
        "the same bits as that of the pipeline. The only difference: ct-fdk repairs zingers and dead pixels of "
        "sinograms with neighbours in the view, ct-normalize with neighbours in the sinogram.\n\n"
        "The source may move on a circle or on a helix; any other path is an error. If the detector does not rotate "
        "with the source (planar CT), the views are resampled to a detector that does; see ct-geometry(5).\n\n"
        "The views are read once, in order, and the volume is held in memory. If the volume does not fit --memory, "
        "projections in files are read several times, and each pass makes a slab of slices; projections from a pipe "
        "are refused at once.\n\n"
        "On GPUs:\n\n"
        "- With --device cuda all GPUs share the volume in slabs; with cuda:0,2 only those two. The size of a slab "
        "follows the speed and memory of its GPU. All slabs are made from one reading of the projections, or in "
        "several passes if the memory of the GPUs is too small (see --device-memory).\n"
        "- auto takes one GPU for each second of expected back-projection, and none if the CPU would finish before a "
        "GPU has started.\n"
        "- Memory that the GPU driver takes on the host is not included in --memory.\n"
        "- The volume has the same bits for any slabs, passes, batches and number of GPUs of one kind. It differs "
        "from the volume of the CPU by less than 2e-6 (relative L2).\n"
        "- Two cases change the rounding, by less than 1e-6. A full turn that comes from a pipe and does not fit the "
        "memory of the GPU is added view by view instead of in pairs of opposite views. If slabs would be too thin "
        "to keep all GPUs busy, the GPUs share the views instead (see --subsets).",
    .options = options,
    .params_size = sizeof(struct params),
    .examples = examples,
    .sections = sections,
    .see_also =
        "ct-geom(1), ct-normalize(1), ct-filter(1), ct-backproject(1), ct-reduce(1), img-view(1), ct-geometry(5)",
    .flags = VP_TOOL_CUDA | VP_TOOL_RANKS | VP_TOOL_VIEWS,
    .run = ct_fdk,
};
