/* SPDX-License-Identifier: BSD-3-Clause */
/* Every step that all ranks take ends with an agreement: they continue together or stop together. */
#include "app/ranked_internal.h"

#include "base/progress.h"
#include "base/size.h"
#include "base/stats.h"
#include "device/device.h"
#include "app/flats.h"
#include "app/open.h"
#include "stack/outfile.h"

#include <math.h>
#include <omp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

const struct vp_opt vp_ranks_option[] = {
    {.name = "ranks", .type = VP_T_INT, .offset = 0, .min = 0, .max = 1 << 20, .metavar = "N", .def = "0", .group = "Many hosts",
     .help = "with --plan: show the plan for N ranks",
     .more = "No rank is started. Without --plan only 1 is allowed: the process then works alone, even if an MPI "
             "launcher started it."},
    VP_OPT_END,
};

const struct vp_opt vp_ranked_options[] = {
    {.name = "grid", .type = VP_T_SIZE, .offset = VP_FIELD(struct vp_ranked_params, grid, struct vp_size),
     .metavar = "RxC", .group = "Many hosts",
     .help = "R slabs of the volume by C subsets of the views (default: choose)",
     .more = "R times C is the number of ranks. With C = 1 the volume has the bits of a run in one process. With C > "
             "1 every run with the same C gives the same bits, which differ from those with C = 1 by rounding (less "
             "than 1e-6, relative L2).\n\n"
             "The default is the grid that fits the memory of all ranks and has the least expected time. It has "
             "subsets (C > 1) only if these save at least a quarter of the time."},
    {.name = "gather", .type = VP_T_CHOICE, .offset = VP_FIELD(struct vp_ranked_params, gather, int),
     .choices = "auto|yes|no", .metavar = "WHEN", .def = "auto",
     .help = "ranks share the views that they read: auto, yes, no",
     .more = "A column of the grid is the set of ranks that work on the same subset of the views.\n\n"
             "- yes: each rank of a column reads and normalises a part of the views, and filters it if filtering is "
             "on the CPU. It then sends every other rank the detector rows that its slab needs.\n"
             "- no: each rank reads all detector rows that it needs, so some rows are read by several ranks.\n"
             "- auto chooses the faster way. It chooses no, for example, if the files are in the memory of the same "
             "host.\n\n"
             "The volume does not depend on this option."},
    {.name = "slab-files", .type = VP_T_FLAG, .offset = VP_FIELD(struct vp_ranked_params, slab_files, bool),
     .help = "write each slab to a file of its own: FILE with -0, -1, ... before its extension",
     .more = "Use it if the file system does not let several hosts write one file. ct-reduce(1) --join joins the "
             "slabs."},
    VP_OPTIONS(struct vp_ranked_params, ranks, vp_ranks_option),
    {.name = "model", .type = VP_T_FILE, .offset = VP_FIELD(struct vp_ranked_params, model, const char *),
     .metavar = "FILE",
     .help = "measured rates of storage, network and ranks, for --plan and the choice of the grid",
     .more = "FILE holds lines `key = value`. `make model` measures and writes them; see MANY HOSTS."},
    VP_OPT_END,
};

int vp_ranked_count(const struct vp_ranked *r)
{
    return r ? r->size : 1;
}

int vp_ranked_agree(struct vp_ranked *r, int rc, const void *mine, size_t size, void *all, struct vp_err *err)
{
    if (r->ranks)
        return vp_ranks_agree(r->ranks, rc, mine, size, all, err);
    if (!rc && size)
        memcpy(all, mine, size);
    return rc;
}

void *vp_ranked_gather(struct vp_ranked *r, int rc, const void *mine, size_t size, const char *what, struct vp_err *err)
{
    void *all = vp_alloc((size_t)r->size, size, what, err);
    if (!vp_ranked_agree(r, rc || !all ? -1 : 0, mine, size, all, err))
        return all;
    free(all);
    return NULL;
}

int vp_ranked_no_file(const char *name, struct vp_err *err)
{
    return vp_fail_hint(err, VP_EUSAGE, "give the projections as files that all hosts can read",
                        "%s: ranks read their own parts: expected a file, got a pipe", name);
}

int vp_ranked_input(const struct vp_ranked *r, const struct vp_run *run, struct vp_err *err)
{
    return r && vp_standard_input(run) ? vp_ranked_no_file("standard input", err) : 0;
}

/* ---- start ---- */

/* Counts the ranks of this host that may run on the same processors as this one. 0 on errors. */
static int count_busy(struct vp_ranked *r, struct vp_err *err)
{
    struct where {
        char host[sizeof r->ranks->host];
        cpu_set_t may;
    } mine, *all;
    int busy = 0;
    memset(&mine, 0, sizeof mine);
    memcpy(mine.host, r->ranks->host, sizeof mine.host);
    const bool known = !sched_getaffinity(0, sizeof mine.may, &mine.may);
    all = vp_ranked_gather(r, 0, &mine, sizeof mine, "the places of ranks", err);
    for (int i = 0; all && i < r->size; i++) {
        cpu_set_t both;
        CPU_AND(&both, &mine.may, &all[i].may);
        busy += !strcmp(all[i].host, mine.host) && (!known || CPU_COUNT(&both) > 0);
    }
    free(all);
    return busy;
}

/* Silences a rank: only the first one reports, shows progress and writes statistics. */
static void silence(struct vp_run *run)
{
    run->common.quiet = true;
    run->common.verbose = false;
    run->common.stats = NULL;
    vp_progress_free(run->progress);
    run->progress = vp_progress_new(run->tool->name, false, false);
}

/* One rank reports the error, and the others stay until it has, for a launcher ends all when the first one ends. A rank that
 * is lost reports its own and ends all. */
int vp_ranked_end(struct vp_ranked *r, struct vp_run *run, struct vp_err *err)
{
    struct vp_err ignored = VP_ERR_INIT, here = VP_ERR_INIT;
    const int code = err->code ? err->code : VP_ERUN;
    if (!r || !r->ranks)
        return -1;
    if (r->ranks->lost) {
        vp_fail(&here, code, "rank %d (%s): %s", r->ranks->rank, r->ranks->host, err->msg);
        vp_hint(&here, "%s", err->hint);
        vp_report(run, &here);
        r->ranks->abort(r->ranks, code);
    }
    if (r->ranks->reporter == r->rank)
        vp_report(run, err);
    if (!r->ranks->stopped)
        r->ranks->stopped = r->ranks->reporter + 1; /* so that no rank waits for long */
    run->common.stats = NULL;
    vp_ranks_agree(r->ranks, 0, NULL, 0, NULL, &ignored);
    return code;
}

static int join(struct vp_ranked *r, struct vp_run *run, struct vp_err *err)
{
    if (vp_ranks_open(&r->ranks, err))
        return vp_ranked_end(r, run, err);
    if (!r->ranks)
        return 0;
    r->rank = r->ranks->rank;
    r->size = r->ranks->size;
    r->hosts = r->ranks->hosts;
    const int busy = count_busy(r, err);
    if (!busy)
        return vp_ranked_end(r, run, err);
    if (r->rank > 0)
        silence(run);
    if (run->all_threads) {
        run->common.threads = vp_max64(run->common.threads / busy, 1);
        omp_set_num_threads((int)run->common.threads);
        vp_stats_number(run->stats, "threads", (double)run->common.threads);
    }
    if (run->all_memory)
        run->common.memory /= (uint64_t)r->ranks->places;
    return 0;
}

int vp_ranked_open(struct vp_ranked **out, struct vp_run *run, const struct vp_ranked_params *p, struct vp_err *err)
{
    struct vp_ranked *r = calloc(1, sizeof *r);
    int rc = 0;
    *out = NULL;
    if (!r)
        return vp_fail(err, VP_ERESOURCE, "out of memory");
    r->params = p;
    r->size = r->hosts = 1;
    r->expected = -1;
    if (p->ranks > 1 && !run->common.plan) {
        rc = vp_fail(err, VP_EUSAGE, "--ranks %lld without --plan", (long long)p->ranks);
        vp_hint(err, "a launcher starts ranks: mpirun -n %lld %s ...", (long long)p->ranks, run->tool->name);
    } else if (p->ranks > 1) {
        r->size = r->hosts = (int)p->ranks;
    } else if (p->ranks == 0) {
        rc = join(r, run, err);
    }
    if (!rc && r->size == 1 && (p->grid.n || p->slab_files)) {
        rc = vp_fail(err, VP_EUSAGE, "--%s: there is only one process", p->grid.n ? "grid" : "slab-files");
        vp_hint(err, "a launcher starts ranks: mpirun -n N %s ...", run->tool->name);
    }
    if (!rc && r->size == 1 && p->model) /* without effect, but checked */
        rc = vp_model_read(&r->model, p->model, err);
    if (rc || r->size == 1) {
        vp_ranked_close(r);
        return rc;
    }
    *out = r;
    return 0;
}

void vp_ranked_close(struct vp_ranked *r)
{
    if (!r)
        return;
    vp_ranks_close(r->ranks, r->ranks && !r->ranks->stopped);
    free(r->rows);
    free(r->path);
    free(r);
}

/* Devices that a rank was given. */
struct devices_entry {
    char host[64];
    int n;
    uint64_t first; /* identity of its first device: a launcher may give each rank one of its own, all as number 0 */
};

int vp_ranked_devices(struct vp_ranked *r, const struct vp_backend *backend, const int *devices, int *own, int *first,
                      uint64_t *memory, int rc, struct vp_err *err)
{
    struct vp_device_info info = {.free = 0};
    struct devices_entry mine, *all;
    const int n = *own;
    int place = 0, places = 0;

    *first = 0;
    memset(&mine, 0, sizeof mine);
    if (!rc && backend && !backend->on_host)
        rc = backend->info(devices[0], &info, err);
    if (r->ranks)
        memcpy(mine.host, r->ranks->host, sizeof mine.host);
    mine.n = n;
    mine.first = info.id;
    if (!(all = vp_ranked_gather(r, rc, &mine, sizeof mine, "the devices of ranks", err)))
        return -1;
    for (int i = 0; i < r->size && r->ranks; i++)
        if (!memcmp(&all[i], &mine, sizeof mine)) {
            place += i < r->rank;
            places++;
        }
    free(all);
    if (!r->ranks || !backend || backend->on_host)
        return 0;
    if (n >= places) {
        *first = n * place / places;
        *own = n * (place + 1) / places - *first;
        return 0;
    }
    *first = place % n;
    *own = 1;
    /* ranks that share a device share its memory, of which none has allocated any yet */
    const int with = (places - place % n + n - 1) / n;
    if (!*memory)
        *memory = info.free / 20 * 19 / (uint64_t)with;
    return 0;
}

int vp_ranked_session(struct vp_ranked *r, struct vp_session *s, int rc, struct vp_err *err)
{
    struct vp_reconstruct *job = &s->job;
    int first;
    if (vp_ranked_devices(r, job->backend, s->devices, &job->n_devices, &first, &job->device_memory, rc, err))
        return -1;
    job->devices = s->devices + first;
    return 0;
}

/* ---- output files, shared by all ranks or one per slab ---- */

bool vp_ranked_discards(const char *path)
{
    struct stat st, null;
    return path && !stat(path, &st) && !stat("/dev/null", &null) && S_ISCHR(st.st_mode) && st.st_rdev == null.st_rdev;
}

/* Returns the name of the file of a row, malloc'd. */
static char *slab_path(const char *path, int row)
{
    const char *slash = strrchr(path, '/'), *dot = strrchr(path, '.');
    char *out = NULL;
    const int stem = (int)(dot && dot > (slash ? slash + 1 : path) ? (size_t)(dot - path) : strlen(path));
    return asprintf(&out, "%.*s-%d%s", stem, path, row, path + stem) < 0 ? NULL : out;
}

static int check_output(const struct vp_run *run, struct vp_err *err)
{
    const char *path = run->common.output;
    if (!path || !strcmp(path, "-"))
        return vp_fail_hint(err, VP_EUSAGE, "use -o FILE, in a folder that all hosts share",
                            "ranks write the volume side by side, into a file");
    if (run->common.compress)
        return vp_fail(err, VP_EUSAGE,
                       "--compress: ranks write the pages in any order, which a compressed file cannot take");
    if (!vp_output_any_order(run) && !vp_ranked_discards(path))
        return vp_fail(err, VP_EUSAGE, "%s: ranks write a regular file", path);
    return 0;
}

/* Opens the outputs: one rank of those that write a file opens it, the others join. */
static int open_outputs(struct vp_ranked *r, struct vp_session *s, struct vp_run *run, struct vp_err *err)
{
    enum { LONGEST = 4096 };
    const bool apart = r->params->slab_files;
    const int leader = apart ? r->row : 0;
    struct vp_writer_options o = {.raw = run->common.raw_out};
    char name[LONGEST] = "", (*all)[LONGEST];
    struct vp_stack out = {0};
    int slot = -1;

    if (vp_ranked_agree(r, check_output(run, err), NULL, 0, NULL, err))
        return -1;
    if (vp_ranked_discards(run->common.output))
        return 0;
    r->leads = r->rank == leader;
    r->path = apart ? slab_path(run->common.output, r->row) : strdup(run->common.output);
    const struct vp_reconstruct *of = apart ? &s->job : &r->whole;
    int rc = r->path ? vp_session_header(s, run, of->z0, of->z1, &out, err)
                     : vp_fail(err, VP_ERESOURCE, "out of memory");
    o.shared = !apart || r->mesh.columns > 1;
    if (!rc && r->leads)
        rc = vp_outfile_propose(r->path, name, sizeof name, err);
    all = vp_ranked_gather(r, rc, name, sizeof name, "the names of files", err);
    rc = !all || (!r->leads && (slot = vp_outfile_expect(all[leader], err)) < 0) ? -1 : 0;
    free(all);
    rc = vp_ranked_agree(r, rc, NULL, 0, NULL, err);
    if (!rc && r->leads && !(rc = vp_writer_open(&r->writer, r->path, &out, &o, err))) {
        const char *temporary = vp_writer_temporary(r->writer);
        if (!temporary)
            rc = vp_fail(err, VP_ERUN, "%s: ranks write a regular file", r->path);
        else
            snprintf(name, sizeof name, "%s", temporary);
    }
    all = vp_ranked_gather(r, rc, name, sizeof name, "the names of files", err);
    o.temporary = all ? all[leader] : NULL;
    rc = !all || (!r->leads && vp_writer_open(&r->writer, r->path, &out, &o, err)) ? -1 : 0;
    vp_outfile_arrived(slot);
    vp_stack_free(&out);
    free(all);
    return vp_ranked_agree(r, rc, NULL, 0, NULL, err);
}

/* Closes the outputs. Ranks that joined close first, so that the file is complete when the one that opened it renames
 * it. */
static int close_outputs(struct vp_ranked *r, int rc, struct vp_err *err)
{
    int64_t mine = r->writer ? vp_writer_rows_put(r->writer) : 0, others = 0, *all;
    struct vp_writer *w = r->writer;
    if (!rc && w && !r->leads) {
        r->writer = NULL;
        rc = vp_writer_close(w, err);
    }
    all = vp_ranked_gather(r, rc, &mine, sizeof mine, "the rows of ranks", err);
    rc = all ? 0 : -1;
    for (int i = 0; i < r->size && !rc; i++)
        others += i != r->rank && (!r->params->slab_files || i % r->mesh.rows == r->row) ? all[i] : 0;
    free(all);
    if (!rc && r->writer) {
        vp_writer_others(r->writer, others);
        r->writer = NULL;
        rc = vp_writer_close(w, err);
    }
    rc = vp_ranked_agree(r, rc, NULL, 0, NULL, err);
    if (rc)
        vp_writer_abort(r->writer);
    r->writer = NULL;
    return rc;
}

/* ---- the work ---- */

static int work(struct vp_ranked *r, struct vp_session *s, struct vp_reconstruct_result *result, struct vp_err *err)
{
    r->sharing = (struct vp_sharing){.ranks = r->ranks, .of = &s->job,
                                     .filter = s->job.filter && !s->plan.filter_device,
                                     .first = r->column * r->mesh.rows, .n = r->mesh.rows, .it = r->row,
                                     .rows = (const int64_t (*)[2])r->rows, .repaired = &r->repaired};
    r->adding = (struct vp_adding){.ranks = r->ranks, .of = &s->job, .row = r->row, .rows = r->mesh.rows,
                                   .columns = r->mesh.columns, .it = r->column, .writer = r->writer,
                                   .z0 = r->params->slab_files ? s->job.z0 : r->whole.z0, .group = s->plan.group};
    int rc = vp_reconstruct_run(&s->plan, &r->out, result, err);
    if (!rc && r->mesh.gather)
        rc = vp_sharing_finish(&r->sharing, err);
    if (rc)
        vp_ranks_stop(r->ranks);
    return rc;
}

/* Statistics of a rank: seconds, of which the maximum over ranks counts, and counts, which are added up. */
enum { LOAD, PREPARE, GATHER, COMPUTE, REDUCE, STORE, RUN, STEPS };
struct done_entry {
    double seconds[STEPS];
    uint64_t sent;
    int64_t bad;
    struct vp_normalize_report repaired;
    struct vp_truncation truncation;
};

static void report(struct vp_ranked *r, struct vp_session *s, struct vp_run *run, const struct done_entry *all)
{
    static const char *const name[STEPS] = {[LOAD] = "T_load", [PREPARE] = "T_prepare", [GATHER] = "T_allgather",
                                            [COMPUTE] = "T_compute", [REDUCE] = "T_reduce", [STORE] = "T_store",
                                            [RUN] = "T_run"};
    struct done_entry most = all[0];
    for (int i = 1; i < r->size; i++) {
        const struct done_entry *w = &all[i];
        for (int k = 0; k < STEPS; k++)
            most.seconds[k] = fmax(most.seconds[k], w->seconds[k]);
        most.sent += w->sent;
        /* views that were read once count once; of views that several ranks read each saw a part */
        most.bad = r->mesh.gather ? most.bad + w->bad : vp_max64(most.bad, w->bad);
        if (r->mesh.gather)
            vp_truncation_add(&most.truncation, &w->truncation);
        else if (vp_truncation_part(&w->truncation) > vp_truncation_part(&most.truncation))
            most.truncation = w->truncation;
        if (r->mesh.gather) {
            most.repaired.floored += w->repaired.floored;
            most.repaired.zingers += w->repaired.zingers;
            most.repaired.dead += w->repaired.dead;
            vp_blank_add(&most.repaired.blank, w->repaired.blank.pages, w->repaired.blank.first);
        }
    }
    char grid[48];
    snprintf(grid, sizeof grid, "%dx%d", r->mesh.rows, r->mesh.columns);
    vp_stats_number(run->stats, "ranks", r->size);
    vp_stats_number(run->stats, "hosts", r->hosts);
    vp_stats_text(run->stats, "grid", grid);
    vp_stats_text(run->stats, "gather", r->mesh.gather ? "yes" : "no");
    for (int k = 0; k < STEPS; k++)
        vp_stats_number(run->stats, name[k], most.seconds[k]);
    vp_stats_number(run->stats, "T_run_expected", r->times.run);
    vp_stats_count(run->stats, "bytes_of_views_sent", most.sent);
    const struct vp_reconstruct *job = &r->whole;
    vp_blank_report(&most.repaired.blank, "view", run);
    if (job->normalize)
        vp_normalize_warn(job->normalize, run, &most.repaired,
                          job->in_nu * job->projections.nv * (job->last - job->first),
                          most.bad);
    else if (most.bad)
        vp_warn(run, "%s: %s%lld samples are NaN or infinite", vp_reader_name(s->reader),
                r->mesh.gather ? "" : "at least ", (long long)most.bad);
    vp_session_truncated(s, run, &most.truncation);
}

static int reconstruct(struct vp_ranked *r, struct vp_session *s, struct vp_run *run, struct vp_err *err)
{
    struct vp_reconstruct_result result = {0};
    struct done_entry mine, *all = NULL;
    const double start = vp_now();
    if (open_outputs(r, s, run, err)) {
        vp_writer_abort(r->writer);
        r->writer = NULL;
        return -1;
    }
    int rc = work(r, s, &result, err);
    rc = close_outputs(r, rc, err);
    memset(&mine, 0, sizeof mine);
    mine = (struct done_entry){.seconds = {[LOAD] = r->mesh.gather ? r->sharing.load : result.read,
                                          [PREPARE] = r->sharing.work, [GATHER] = r->sharing.gather,
                                          [COMPUTE] = result.compute, [REDUCE] = r->adding.reduce,
                                          [STORE] = r->adding.store, [RUN] = vp_now() - start},
                              .sent = r->sharing.sent,
                              .bad = r->mesh.gather ? r->sharing.bad : result.bad,
                              .repaired = r->mesh.gather ? r->repaired : result.repaired,
                              .truncation = r->mesh.gather ? r->sharing.truncation : result.truncation};
    if (!rc && !(all = vp_ranked_gather(r, 0, &mine, sizeof mine, "statistics of ranks", err)))
        rc = -1;
    vp_sharing_free(&r->sharing, !rc);
    vp_adding_free(&r->adding, !rc);
    if (!rc && r->rank == 0)
        report(r, s, run, all);
    free(all);
    return rc;
}

int vp_ranked_run(struct vp_ranked *r, struct vp_session *s, struct vp_run *run, int rc, struct vp_err *err)
{
    if (vp_ranked_session(r, s, rc, err)
        || vp_ranked_agree(r, vp_ranked_problem(r, s, run, err), NULL, 0, NULL, err) || vp_ranked_choose(r, s, err))
        return vp_ranked_end(r, run, err);
    if (r->rank == 0) {
        vp_ranked_show(r, run);
        vp_session_show(s, run);
        (void)vp_report_plan_done(run);
    }
    if (run->common.plan)
        return 0;
    return reconstruct(r, s, run, err) ? vp_ranked_end(r, run, err) : 0;
}
