/* SPDX-License-Identifier: BSD-3-Clause */
/* ct-iterate: iterative reconstruction. Views stream in every iteration, volumes are held. */
#include "app/iterate_inputs.h"
#include "app/iterate_record.h"
#include "app/open.h"
#include "app/place.h"
#include "app/ranked.h"
#include "app/tool.h"
#include "app/volumes.h"
#include "base/size.h"
#include "ct/iterate.h"
#include "stack/views.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct params {
    struct vp_iterate_input_params in;
    struct vp_iterate_record_params record;
    struct vp_place_params place;
    int64_t ranks;
    const char *scratch;
    int method;
    int64_t iterations, blocks;
    double relax, tv, norm;
    struct vp_reals min, max;
    struct vp_strings stop;
};

#define P struct params
static const struct vp_opt options[] = {
    VP_CHOICE(P, method, "method", 0, "sirt|os-sart|cgls|mlem|osem|fista-tv|pdhg-tv", .def = "cgls", .group = "Method",
              .help = "method of reconstruction", .more = "See METHODS."),
    VP_INT(P, iterations, "iterations", 'n', .metavar = "N", .min = 0, .max = 1e9, .def = "0",
           .help = "largest number of iterations (default: cgls, os-sart, osem 10, mlem 20, fista-tv 60, sirt, pdhg-tv 100)"),
    VP_INT(P, blocks, "blocks", 0, .metavar = "N", .min = 1, .max = 1e6, .def = "10",
           .help = "number of blocks of views for os-sart and osem; each gives one update",
           .more = "Block b holds view b and every Nth view after it. Consecutive updates use blocks that are far "
                   "apart."),
    VP_REAL(P, relax, "relax", 0, .metavar = "R", .min = 1e-9, .max = 1.999999, .def = "1",
            .help = "factor of the steps of sirt and os-sart, below 2"),
    VP_REALS(P, min, "min", 0, .metavar = "MU", .min = -1e30, .max = 1e30,
             .help = "smallest attenuation of a voxel, in 1/mm (not for cgls)"),
    VP_REALS(P, max, "max", 0, .metavar = "MU", .min = -1e30, .max = 1e30,
             .help = "largest attenuation of a voxel, in 1/mm (not for cgls)"),
    VP_REAL(P, tv, "tv", 0, .metavar = "L", .min = 0, .max = 1e30, .def = "0.01",
            .help = "weight of the total variation in fista-tv and pdhg-tv",
            .more = "The methods minimise half the sum of the squared residuals plus L times the sum of differences "
                    "between neighbouring voxels, in 1/mm. Smaller voxels, more views and less noise need a smaller "
                    "L."),
    VP_REAL(P, norm, "norm", 0, .metavar = "L", .min = 1e-30, .max = 1e30, .def = NULL,
            .help = "largest eigenvalue of A'A, as reported by an earlier run (fista-tv, pdhg-tv)",
            .more = "By default the program determines an upper bound in five passes over the views, and reports it "
                    "with -v and in --stats. Give it here to save four of these passes; the fifth checks that it is not "
                    "too small."),
    VP_FILE(P, in.initial, "initial", 0, .metavar = "FILE",
            .help = "volume to start from, zero, or fdk (default: zero; mlem, osem: uniform)",
            .more = "FILE must have the size of the result. fdk is the volume that ct-fdk(1) makes of the "
                    "projections without options; the projections are then read once more, so they cannot come from "
                    "a pipe."),
    VP_FILE(P, in.mask, "mask", 0, .metavar = "FILE",
            .help = "volume of the voxels that may change: those that are not 0",
            .more = "All other voxels keep their value in --initial, or 0."),
    VP_FILE(P, in.pixel_weights, "pixel-weights", 0, .metavar = "FILE", .group = "Weights of pixels",
            .help = "weights of pixels, 0 or more: a page for each view, or one page for all",
            .more = "The weight multiplies the squared residual of the pixel. 0 excludes a pixel: shutters, metal, "
                    "missing views. FILE has the layout of the projections; a single page has the size of a view."),
    VP_FILE(P, in.dead, "dead", 0, .metavar = "FILE",
            .help = "mask of dead pixels: one page of the size of a view, not 0 where a pixel is dead"),
    VP_STRINGS(P, stop, "stop", 0, .metavar = "RULE:T", .group = "Run",
               .help = "stop when RULE holds: residual, noise, change or gradient",
               .more = "The run ends when the first of the given rules holds:\n\n"
                       "- residual:T when |Ax - y| / |y| is less than T\n"
                       "- noise:S when |Ax - y| is less than 1.02 S times the square root of the number of pixels; S "
                       "is the standard deviation of the line integrals\n"
                       "- change:T when an iteration changes the volume by less than T of its norm\n"
                       "- gradient:T (cgls) when the gradient is less than T of the first gradient"),
    VP_OUTFILE(P, record.history, "history", 0, .metavar = "FILE",
               .help = "write a line to FILE after each iteration",
               .more = "Columns are separated by tabs: iteration, seconds, residual, residual / |y|, objective, "
                       "step, min, mean, max, change. With cgls and pdhg-tv, residual and objective are those of the "
                       "volume after the iteration. With the other methods they are those of the volume before it, "
                       "which are computed anyway; with fista-tv, of the volume with its momentum."),
    VP_OUTFILE(P, record.preview, "preview", 0, .metavar = "FILE.png",
               .help = "write a picture of the middle slice after each iteration",
               .more = "FILE is replaced as a whole each time, so a viewer that watches it shows the latest slice. Black "
                       "and white are the 0.5 and 99.5 percentiles of the slice."),
    VP_OUTFILE(P, record.checkpoint, "checkpoint", 0, .metavar = "FILE",
               .help = "save the state to FILE every few iterations (see --every)"),
    VP_INT(P, record.every, "every", 0, .metavar = "N", .min = 1, .max = 1e9, .def = "10",
           .help = "iterations between checkpoints"),
    VP_FILE(P, record.resume, "resume", 0, .metavar = "FILE",
            .help = "continue from a checkpoint",
            .more = "The result has the same bits as that of an uninterrupted run. Only --iterations, --stop and the "
                    "names of outputs may differ from the run that wrote the checkpoint."),
    VP_OPTIONS(P, in.projections, vp_projection_options),
    VP_RANGE(P, in.views, "views", 0, .metavar = "A:B",
             .help = "use only views A to B - 1"),
    VP_OPTIONS(P, in.grid, vp_grid_options),
    VP_INT(P, in.margin, "margin", 0, .metavar = "N", .min = -1, .max = 1e6, .def = "-1",
           .help = "slices added at both ends during the iterations (-1: as the rays need)",
           .more = "Rays of a cone beam pass through slices beyond the volume. Without a margin, their attenuation "
                   "would appear as bright rims in the first and last slices."),
    VP_OPTIONS(P, place, vp_place_options),
    {.name = "scratch", .type = VP_T_FILE, .offset = VP_FIELD(P, scratch, const char *), .metavar = "DIR",
     .help = "keep volumes that exceed --memory in files in DIR, if GPUs do the work",
     .more = "DIR must be on a disk. The files have no names, so nothing is left of them, even if the program is killed. "
             "--plan shows their number. The result has the same bits."},
    VP_OPTIONS(P, ranks, vp_ranks_option),
    VP_OPT_END,
};
#undef P

static const struct vp_example examples[] = {
    {"Reconstruct few views by ten iterations of conjugate gradients.",
     "ct-geom --sod 500 --sdd 1000 --detector 64x48 --pitch 2 --views 30 -o scan.geom\n"
     "ct-phantom -g scan.geom --noise 1e5 -o scan.tif\n"
     "ct-iterate scan.tif -o cgls.tif"},
    {"Total variation without negative values, with a log of the iterations.",
     "ct-iterate --method fista-tv --tv 0.002 --min 0 --history run.tsv scan.tif -o tv.tif"},
    {"Start from a filtered back-projection and stop when the residual is that of the noise.",
     "ct-fdk scan.tif -o fdk.tif\n"
     "ct-iterate --method sirt --initial fdk.tif --stop noise:0.005 scan.tif -o sirt.tif"},
    {"The plan for two ranks of MPI.",
     "ct-iterate --plan --ranks 2 scan.tif"},
    {"The residual: what the volume does not explain.", "ct-project --subtract scan.tif cgls.tif -o residual.tif"},
    {0},
};

static const char sections[] =
    "CHOOSING A METHOD\n"
    "- Many views, little noise: ct-fdk(1). Iterations give nothing that its filters do not give faster.\n"
    "- Few or noisy views, any object: cgls with 10 iterations; or sirt with 100 and --min 0, which is smoother and slower.\n"
    "- Few views of an object of few materials: fista-tv with 60 iterations and --min 0. Begin with the default of "
    "--tv. Halve it if fine structures vanish; double it if noise remains.\n"
    "- The same on GPUs, or with little memory: pdhg-tv with 100 iterations.\n"
    "- Many views and little time: os-sart with 2 to 5 iterations.\n"
    "- Pixels of different noise, dead pixels, metal: any method, with --pixel-weights or --dead.\n"
    "- Emission: osem, then mlem for the last iterations.\n\n"
    "Errors of a measured slice, relative to the reconstruction of all 720 views (examples/few-views.sh draws it):\n\n"
    "    views    fdk    sirt   cgls   fista-tv  pdhg-tv\n"
    "       36   0.253  0.072  0.090     0.057    0.056\n"
    "       90   0.136  0.055  0.062     0.053    0.053\n\n"
    "CHOOSING THE ITERATIONS\n"
    "The residual is what the volume does not explain of the projections; it falls to the noise, then below it. The volume "
    "is best when it reaches the noise: later iterations fit the noise. If the noise S of a line integral is known, --stop "
    "noise:S ends there. Otherwise look at the residual of --history and at --preview:\n"
    "- The residual still falls steeply: continue.\n"
    "- The residual is nearly constant and the slice gets grainy: use fewer iterations.\n"
    "- The residual is nearly constant and far above the noise: the scan does not fit its geometry, or the object its "
    "volume. Check the axis (ct-center(1)), beam hardening, motion, and the size of the object; ct-project --subtract shows "
    "where the residual is.\n\n"
    "fista-tv and pdhg-tv do not fit the noise, because --tv holds them back: more iterations do no harm. Use --stop "
    "change:1e-3 or so.\n\n"
    "METHODS\n"
    "A is the projection of ct-project(1), A' its exact transpose, W the weights of the pixels (1 without "
    "--pixel-weights and --dead), y the projections, x the volume. Iteration k is the kth update of the volume.\n\n"
    "sirt: x += relax C A'(W R (y - A x)). R is the inverse of the row sums of A, C the inverse of the column sums "
    "of W A. Smooth, robust and slow.\n\n"
    "os-sart: the same for one block of views after the other; about --blocks times as fast. It ends near the "
    "solution, not at it; fewer blocks or a smaller --relax bring it nearer.\n\n"
    "cgls: conjugate gradients for least squares. Fast, without bounds on voxels. The residual falls with each iteration, "
    "but the error of the volume grows again after 10 to 20 iterations, when noise is fitted.\n\n"
    "mlem, osem: maximum likelihood for Poisson counts (emission tomography), with all views at once or block by "
    "block. Projections and volume are not negative.\n\n"
    "fista-tv: least squares plus --tv times the total variation, within --min and --max. It gives flat regions with sharp "
    "edges. The step is 1 over a proven bound of the norm. The momentum restarts if it points uphill.\n\n"
    "pdhg-tv: the same minimum by primal-dual steps. It takes more iterations, but the total variation, which the CPU "
    "computes, takes a tenth of the time, and the residual is that of the volume itself. At first the residual swings.\n\n"
    "In a voxel that only few rays cross, errors of other voxels collect. If the corners of the volume are outside "
    "the field of view, give a --mask of the field of view.\n\n"
    "Offset detectors, short scans and missing views need no weights: rays that were not measured are not part of the sum. "
    "If the detector truncates the object, voxels near the edge of the field of view are wrong.\n\n"
    "MEMORY\n"
    "fista-tv holds 7 volumes of 32-bit floats in memory, pdhg-tv 6, all other methods 4. "
    "Projections are read again in every iteration; cgls reads them again only every 16 iterations. Projections from "
    "a pipe are kept in memory.\n\n"
    "With --device cuda the GPUs project and back-project; all other work is done on the CPU. "
    "The volumes stay in host memory:\n"
    "- cgls then holds 3 volumes, if the GPUs hold all slabs or the host the projections of all views.\n"
    "- If each GPU has memory for its slabs of 512 slices twice, and for up to 4.5 GiB of views, the GPUs hold all slabs "
    "during an iteration.\n"
    "- Otherwise slabs are brought to the GPUs in turn, once for each block of views; if there is memory for two, the "
    "next one is brought while the present one is worked on. One slab must fit. The projections of a block are held in "
    "host memory: as many as --memory allows, at least 16 to 128.\n"
    "- With --scratch DIR, volumes that exceed --memory are kept in unnamed files in DIR. They are read and written in "
    "order, slab after slab: the speed of the disk decides. --plan shows their number. fista-tv passes over its volumes "
    "more than 20 times in an iteration, all other methods two or three times.\n"
    "- GPUs of compute capability 9.0 and 10.0 sum views half a turn apart together, if the volume is centred on the axis "
    "and half of the views fit in 2.5 GiB. A block is then a whole pass.\n\n"
    "--plan shows which way is taken, the memory of each GPU and an estimate of the time that kernels and copies of "
    "slabs take in an iteration (a wide cone takes several times as long). The result has the same bits for any number "
    "of threads and GPUs, and any limit of memory. Results of the CPU and of GPUs differ by rounding.\n\n"
    "MANY HOSTS\n"
    "ct-iterate also runs as several processes (ranks) of one MPI run: mpirun -n 4 --hostfile hosts ct-iterate scan.tif -o "
    "vol.tif, or srun in a batch job of Slurm. The result has the bits of one process, for any number of ranks.\n\n"
    "- Each rank reads and projects its part of the views, and sums all views into its part of the slices.\n"
    "- Each rank holds its part of the slices of most volumes. It holds the result and one other volume whole, because a "
    "projection needs all slices; with cgls, fista-tv and pdhg-tv --mask is a third one. --plan shows both.\n"
    "- In an iteration each rank receives one volume and the projections of the other ranks: 8 GiB for 1024 views of "
    "1024 x 1024 into 1024 x 1024 x 1024 voxels. os-sart and osem exchange the volume after each block of views, so they need a "
    "fast network.\n"
    "- Projections and other inputs are files that all ranks can read. The first rank writes the result, the history, the "
    "preview and the checkpoint.\n"
    "- A checkpoint may be resumed by another number of ranks.\n"
    "- Ranks of one host share its processors and GPUs. Give each its own, or start one rank for each host: one process uses all "
    "threads and GPUs of a host by itself.\n"
    "- All ranks use GPUs, or none does.\n\n"
    "If a rank fails or is killed, all ranks end, with one message and without a result; the last checkpoint stays.";

struct work {
    const struct params *p;
    struct vp_run *run;
    struct vp_iterate job;
    struct vp_iterate_inputs in;
    struct vp_iterate_record record;
};

/* ---- options ---- */

/* True if --initial is this word. */
static int parse_stop(struct vp_iterate *job, const char *rule, struct vp_err *err)
{
    static const char *const names[] = {"residual", "noise", "change", "gradient"};
    double *const to[] = {&job->stop.residual, &job->stop.noise, &job->stop.change, &job->stop.gradient};
    for (int i = 0; i < 4; i++) {
        const size_t n = strlen(names[i]);
        char *end;
        if (strncmp(rule, names[i], n) || rule[n] != ':')
            continue;
        *to[i] = strtod(rule + n + 1, &end);
        if (end == rule + n + 1 || *end || !(*to[i] > 0) || !isfinite(*to[i]))
            return vp_fail(err, VP_EUSAGE, "--stop %s: expected a number above 0, got '%s'", names[i], rule + n + 1);
        if (i == 3 && !vp_iterate_has(job->method, "gradient"))
            return vp_fail(err, VP_EUSAGE, "--stop gradient needs --method cgls");
        return 0;
    }
    return vp_fail(err, VP_EUSAGE, "--stop: expected residual:T, noise:T, change:T or gradient:T, got '%s'", rule);
}

/* Fills the job from the options, and rejects those that the method does not have. */
static int set_options(struct work *w, struct vp_err *err)
{
    static const char *const options_of[] = {"blocks", "relax", "min", "max", "tv", "norm"};
    const struct params *p = w->p;
    struct vp_iterate *const job = &w->job;
    job->method = (enum vp_iterate_method)p->method;
    for (size_t i = 0; i < sizeof options_of / sizeof *options_of; i++)
        if (vp_given(w->run, options_of[i]) && !vp_iterate_has(job->method, options_of[i]))
            return vp_fail(err, VP_EUSAGE, "--%s and --method %s cannot be combined", options_of[i],
                           vp_iterate_name(job->method));
    if (p->min.n > 1 || p->max.n > 1)
        return vp_fail(err, VP_EUSAGE, "--%s: expected one number", p->min.n > 1 ? "min" : "max");
    job->min = p->min.n ? p->min.v[0] : -INFINITY;
    job->max = p->max.n ? p->max.v[0] : INFINITY;
    if (job->min > job->max)
        return vp_fail(err, VP_EUSAGE, "--min %g is above --max %g", job->min, job->max);
    if (p->scratch && w->in.ranked)
        return vp_fail_hint(err, VP_EUSAGE, "ranks divide the volumes among them", "--scratch is for one process");
    if (vp_given(w->run, "every") && !p->record.checkpoint)
        return vp_fail(err, VP_EUSAGE, "--every needs --checkpoint FILE");
    job->iterations = p->iterations ? p->iterations : vp_iterate_usual(job->method);
    job->blocks = p->blocks;
    job->relax = p->relax;
    job->tv = p->tv;
    job->norm = p->norm;
    for (int i = 0; i < p->stop.n; i++)
        if (parse_stop(job, p->stop.v[i], err))
            return -1;
    return 0;
}

/* ---- plan ---- */

static int plan(struct work *w, struct vp_err *err)
{
    struct vp_run *run = w->run;
    struct vp_iterate_inputs *const in = &w->in;
    const struct vp_grid *g = &in->grid;
    struct vp_iterate *const job = &w->job;
    const uint64_t volume = (uint64_t)(g->n[0] * g->n[1] * g->n[2]) * sizeof(float);
    vp_iterate_inputs_measure(in);
    job->memory = run->common.memory > in->bytes ? run->common.memory - in->bytes : 0;
    job->mask_held = in->mask != NULL;
    job->scratch = w->p->scratch;
    if (vp_iterate_plan(job, err))
        return -1;
    const int volumes = vp_iterate_volumes(job);
    const uint64_t bytes = in->bytes + vp_iterate_bytes(job);
    if (bytes > run->common.memory)
        return vp_fail_hint(err, VP_ERESOURCE, job->place.used && !job->scratch
                            ? "allow more with --memory, keep volumes on a disk with --scratch, or choose larger voxels"
                            : job->scratch && !job->place.used
                            ? "--scratch is for GPUs; on the CPU allow more with --memory, or choose larger voxels"
                            : "allow more with --memory, or choose larger voxels",
                            "%s of %lld x %lld x %lld voxels takes %s: expected at most %s", vp_iterate_name(job->method),
                            (long long)g->n[0], (long long)g->n[1], (long long)g->n[2], vp_bytes_text(bytes).text,
                            vp_bytes_text(run->common.memory).text);
    vp_report_plan(run, "projections", "%lld x %lld, views %lld to %lld of %lld", (long long)in->projections.nu,
                   (long long)in->projections.nv, (long long)job->first, (long long)job->last - 1,
                   (long long)in->projections.n_views);
    vp_report_plan(run, "volume", "%lld x %lld x %lld, voxel %g x %g x %g mm", (long long)g->n[0], (long long)g->n[1],
                   (long long)in->slices, g->voxel[0], g->voxel[1], g->voxel[2]);
    if (g->n[2] > in->slices)
        vp_report_plan(run, "margin", "%lld slices below, %lld above", (long long)in->below,
                       (long long)(g->n[2] - in->slices - in->below));
    vp_report_plan(run, "method", "%s, at most %lld iterations", vp_iterate_name(job->method), (long long)job->iterations);
    if (in->kept)
        vp_report_plan(run, "input", "a pipe: kept in memory, %s", vp_bytes_text(in->kept).text);
    const int parts = vp_iterate_parts(job);
    vp_ranked_plan(in->ranked, run, "slices", g->n[2], vp_iterate_unit(job));
    if (in->ranked)
        vp_report_plan(run, "views", "%lld at once, each rank projects its part of them", (long long)job->turn);
    vp_report_plan(run, "volumes", "%d in host memory, %s each", volumes - job->spilled - parts, vp_bytes_text(volume).text);
    if (parts)
        vp_report_plan(run, "parts", "%d volumes, of which each rank holds its slices", parts);
    if (job->spilled)
        vp_report_plan(run, "scratch", "%d volume%s in %s, %s", job->spilled, job->spilled == 1 ? "" : "s", job->scratch,
                       vp_bytes_text((uint64_t)job->spilled * volume).text);
    vp_report_plan(run, "memory", "%s of %s", vp_bytes_text(bytes).text, vp_bytes_text(run->common.memory).text);
    vp_place_plan(run, &job->place, job->block, "an iteration", vp_iterate_updates(job) / vp_ranked_count(in->ranked),
                  vp_iterate_traffic(job));
    return 0;
}

/* ---- run ---- */

static int prepare(struct work *w, struct vp_err *err)
{
    struct vp_run *const run = w->run;
    struct vp_iterate *const job = &w->job;
    struct vp_iterate_inputs *const in = &w->in;
    if (set_options(w, err) || vp_iterate_inputs_open(in, err))
        return -1;
    job->threads = (int)run->common.threads;
    job->stats = run->stats;
    job->progress = run->progress;
    vp_iterate_record_start(&w->record);
    const double voxels = (double)in->grid.n[0] * (double)in->grid.n[1] * (double)in->grid.n[2];
    const double passes = 2 * (double)job->iterations * (double)(job->last - job->first) / vp_ranked_count(in->ranked);
    return vp_place_choose(run, voxels * passes, w->p->place.device_memory, &job->place, err);
}

/* Each step ends on all ranks before the next begins. */
static int reconstruct(struct work *w, struct vp_writer **writer, struct vp_err *err)
{
    struct vp_iterate *const job = &w->job;
    struct vp_iterate_inputs *const in = &w->in;
    struct vp_ranked *const ranked = in->ranked;
    struct vp_stack out = {0};
    if (vp_ranked_place(ranked, &job->place, prepare(w, err), err) || vp_ranked_together(ranked, plan(w, err), err))
        return -1;
    if (vp_ranked_leads(ranked))
        (void)vp_report_plan_done(w->run);
    if (w->run->common.plan)
        return 0;
    const int opened = vp_ranked_output(ranked, w->run, &out, writer, vp_iterate_inputs_header(in, &out, err), err);
    vp_stack_free(&out);
    if (opened
        || vp_ranked_together(ranked, vp_iterate_inputs_load(in, err) || vp_iterate_record_open(&w->record, err) ? -1 : 0, err)
        || vp_ranked_worked(ranked, vp_iterate_run(job, err), err))
        return -1;
    vp_iterate_record_report(&w->record);
    vp_ranked_count_in(ranked, w->run);
    const int rc = job->last == in->geom.views && vp_views_finish(in->source, err) ? -1 : vp_iterate_inputs_write(in, *writer, err);
    return vp_ranked_worked(ranked, rc, err);
}

static int ct_iterate(struct vp_run *run, void *params, struct vp_err *err)
{
    const struct params *const p = params;
    const struct vp_ranked_params ranked = {.ranks = p->ranks};
    struct work w = {.p = p, .run = run, .in = {.params = &p->in, .run = run}, .record = {.params = &p->record}};
    struct vp_writer *writer = NULL;
    const int opened = vp_ranked_open(&w.in.ranked, run, &ranked, err);
    if (opened)
        return opened;
    w.in.job = &w.job;
    w.record.in = &w.in;
    w.job.share = vp_ranked_share(w.in.ranked);
    const int done = reconstruct(&w, &writer, err);
    int rc = vp_iterate_record_close(&w.record, done, err);
    if (!done)
        rc = vp_ranked_together(w.in.ranked, rc, err);
    vp_pair_close(w.job.pair);
    vp_place_settle();
    rc = vp_ranked_close_output(w.in.ranked, run, w.in.reader, writer, rc, err);
    vp_iterate_inputs_close(&w.in, !rc);
    vp_ranked_close(w.in.ranked);
    return rc;
}

const struct vp_tool vp_program = {
    .name = "ct-iterate",
    .operands = "[INPUT]...",
    .summary = "reconstruct a volume iteratively: least squares, likelihood, total variation",
    .description =
        "Reads line integrals and reconstructs a volume of attenuation, in 1/mm, by iterations of a projection and "
        "its exact transpose. Use it for few or noisy views, for parts of a circle, for missing pixels, and for "
        "prior knowledge that filtered back-projection cannot use (no negative values, flat regions).\n\n"
        "The scan may have any geometry that ct-project(1) supports: cone beams, parallel beams, fans of one row, "
        "offset and tilted detectors, helices, or one 3x4 matrix for each view. The object should lie inside the "
        "volume, because attenuation outside appears at the faces of the volume. Only above the first and below the "
        "last slice is there a margin; it is reconstructed and then left out.",
    .options = options,
    .params_size = sizeof(struct params),
    .examples = examples,
    .sections = sections,
    .see_also = "ct-fdk(1), ct-project(1), ct-backproject(1), ct-center(1), ct-normalize(1), ct-geometry(5)",
    .flags = VP_TOOL_CUDA | VP_TOOL_RANKS | VP_TOOL_VIEWS,
    .run = ct_iterate,
};
