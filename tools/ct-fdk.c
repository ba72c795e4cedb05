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
              .help = "where views are filtered",
              .more = "auto filters on the GPU if the back-projection runs there, can filter rows of this length, and "
                      "is expected to take less time than the cores of the host; --plan says where. The two differ by "
                      "less than 1e-6 (relative L2)."),
    VP_OPTIONS(struct params, reconstruct, vp_reconstruct_options),
    VP_OPTIONS(struct params, ranked, vp_ranked_options),
    VP_OPT_END,
};

static const struct vp_example examples[] = {
    {"Reconstruct a simulated scan.", "ct-geom --sod 500 --sdd 1000 --detector 64x64 --pitch 2 --views 90 |\n"
                                      "ct-phantom -g - -o scan.tif\n"
                                      "ct-fdk scan.tif -o vol.tif"},
    {"What would be done, with how much memory.", "ct-fdk scan.tif --memory 1GiB --plan"},
    {"How it would go on 64 ranks.", "ct-fdk scan.tif --voxel 0.05 --plan --ranks 64"},
    {"Quick look: one slice, coarse voxels, no volume on disk.",
     "ct-fdk --volume 64x64x1 scan.tif | img-view -o slice.png"},
    {"From raw counts, of 60000 photons a pixel in the open beam.",
     "ct-phantom -g scan.tif --noise 60000 --counts -o counts.tif\n"
     "ct-fdk --i0 60000 counts.tif --window hann -o vol.tif"},
    {0},
};

/* True if any option of normalization is given; vp_normalize_check reports what is missing. */
static bool normalizes(const struct vp_run *run)
{
    static const char *const asks[] = {"flat", "flat-at", "dark", "i0", "floor", "zinger", "dead", "no-log"};
    for (size_t i = 0; i < sizeof asks / sizeof *asks; i++)
        if (vp_given(run, asks[i]))
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
    "Started by an MPI launcher, as `mpirun -n 8 --hostfile hosts ct-fdk scan.tif -o vol.tif` or srun in a batch "
    "job of Slurm, processes work together as ranks: on a grid of R slabs of the volume by C subsets of the views. "
    "Without a launcher nothing is different. What speaks MPI is a plugin, voxpipe-mpi.so, built where mpicc is "
    "found; where ranks are started and it is missing, they refuse to work. All ranks need the same command line, "
    "projections in files that all can read, and -o FILE in a folder that all share: they write one file side by "
    "side, which appears under its name when it is complete.\n\n"
    "Each rank takes one GPU of its host, or several if there are more GPUs than ranks; if there are fewer, ranks "
    "share one and its memory. On the CPU, ranks of a host divide the cores that they may run on (launchers bind "
    "ranks to few cores by default; mpirun --bind-to none does not). They divide its free memory; --memory, "
    "--device-memory and --threads are for each rank.\n\n"
    "With C = 1 the file is that of one process, to the byte. With more the partial sums of a slab are added in the "
    "order of the subsets, each rank of a row adding its part of every slice: the same bits in every run, and those "
    "of one process with --subsets C on as many GPUs. R is as small as memory allows or larger; of the grids that "
    "fit, the one that is expected to take least is taken, one without subsets unless those save a quarter of the "
    "time. --grid overrides it.\n\n"
    "Where one rank fails (a cut file, a full disk, too little memory), all stop: one of them says why, the exit "
    "status is not 0, and an older volume stays as it was. Where one is killed the launcher ends the others; say so "
    "to srun: srun --kill-on-bad-exit=1 (one that ends all with SIGKILL may leave a hidden .voxpipe-N-N.tmp beside "
    "FILE). mpirun of Open MPI 4 itself may hang when a rank is killed while it starts, unless PMIX_MCA_gds=hash is "
    "in the environment.\n\n"
    "--plan --ranks N shows the grid and what each stage would take on N ranks, without starting any: reading "
    "(T_load), filtering, sharing views (T_allgather), copying them to the device, back-projection (T_bp), which "
    "overlap (T_compute), then fetching slices, adding (T_reduce) and writing them (T_store), as modelled by Chen "
    "et al. 2019 (section 4.2). The rates come from --model FILE, in which `make model` writes what it measures "
    "with as many ranks a host: load, filter, exchange, upload, backproject, download, reduce and store, in bytes, "
    "samples or voxel updates a second, of a rank (load and store of a host, load_all and store_all of the storage "
    "that all share; backproject where the detector has as many samples a side as the volume, backproject_fine and "
    "backproject_coarse where it has twice and half as many); start, in seconds; host_ranks, the ranks a host; memory, "
    "the bytes that a rank has for its slab. With --stats the first rank writes what all took: T_load and so on are "
    "those of the slowest.\n\n"
    "Without MPI the same is done by independent jobs: each reconstructs a --slab from some --views, and ct-reduce(1) "
    "adds and joins them; examples/cluster has a Makefile for it, and a batch script for Slurm.";

const struct vp_tool vp_program = {
    .name = "ct-fdk",
    .operands = "[INPUT]...",
    .summary = "reconstruct a volume from cone-beam or parallel projections",
    .description =
        "Turns the projections of a scan into a volume of attenuation, in 1/mm, by the method of Feldkamp, "
        "Davis and "
        "Kress: normalises raw counts (if --flat or --i0 is given; otherwise the input holds line "
        "integrals), weights and "
        "ramp-filters each view, and back-projects it. Reading, computing and writing overlap.\n\n"
        "It takes the options of ct-normalize(1), ct-filter(1) and ct-backproject(1), means the same by them, and on "
        "the CPU gives the same result to the bit; what the pipeline passes between processes stays in memory here. "
        "Only zingers and dead pixels in sinograms are repaired otherwise: here in the view, as in the other "
        "layout.\n\n"
        "The source moves on a circle or on a helix; a detector that does not turn with it (planar CT) is made one "
        "that does. ct-geometry(5) says what comes out. Another way of the source is refused.\n\n"
        "The views stream through in order and one volume is held. Memory never exceeds --memory: if the volume does "
        "not fit, projections that can be read again are read several times, a slab of slices each time; a pipe is "
        "refused before anything is read.\n\n"
        "With --device cuda the volume is on all GPUs, with cuda:0,2 on those: each makes a slab of it, in proportion "
        "to its speed and memory, from one reading of the projections, or several in turn where its memory forces that "
        "(see --device-memory). auto takes a GPU for each second of back-projection that is expected, and none for "
        "what the CPU does as fast as a GPU starts. What the driver takes on the host comes on top of --memory. The "
        "volume does not depend on slabs, passes, batches or the number of GPUs (all of one kind): not a bit of it. It "
        "differs from the CPU's by less than 2e-6 (relative L2). Two exceptions: a full turn from a pipe, too large "
        "for the memory of the GPU, is summed view by view and not in pairs of opposite views; and where slabs would "
        "be too thin to keep several GPUs busy, they share the views instead (see --subsets). Both change the rounding "
        "(less than 1e-6).\n\n"
        "With a GPU, --stats says where the time goes, in seconds from the finished plan on, before anything is "
        "allocated or read: seconds_to_first_view, seconds_to_first_kernel (of the device that comes last), "
        "compute_seconds (to the end of the last kernel; of several passes the sum), seconds_to_last_view. "
        "kernel_seconds is what the back-projection itself took on the busiest device; of the stages, devices is the "
        "time to start the devices and to plan, prepare to allocate slabs, and buffers to allocate memory that is "
        "copied fast (in several threads).",
    .options = options,
    .params_size = sizeof(struct params),
    .examples = examples,
    .sections = sections,
    .see_also =
        "ct-geom(1), ct-normalize(1), ct-filter(1), ct-backproject(1), ct-reduce(1), img-view(1), ct-geometry(5)",
    .flags = VP_TOOL_CUDA | VP_TOOL_RANKS | VP_TOOL_VIEWS,
    .run = ct_fdk,
};
