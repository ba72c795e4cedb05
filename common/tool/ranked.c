/* SPDX-License-Identifier: BSD-3-Clause */
/* Every step that all ranks take ends with an agreement: they go on together or stop together. */
#include "tool/ranked.h"

#include "base/progress.h"
#include "base/size.h"
#include "base/stats.h"
#include "ct/ranked_work.h"
#include "ct/reconstruct_internal.h"
#include "run/ranks.h"
#include "run/rates.h"
#include "stack/outfile.h"
#include "tool/flats.h"
#include "tool/open.h"
#include "tool/session.h"
#include "tool/tool.h"

#include <math.h>
#include <omp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

const struct vp_opt vp_ranked_options[] = {
    {.name = "grid", .type = VP_T_SIZE, .offset = VP_FIELD(struct vp_ranked_params, grid, struct vp_size),
     .metavar = "RxC", .group = "Many hosts",
     .help = "R slabs of the volume by C subsets of the views (default: choose)",
     .more = "R times C is the number of ranks. With C = 1 the volume is that of one process to the bit; with more it is "
             "the same in every run of that C, and differs by rounding (less than 1e-6, relative L2). What is chosen "
             "fits the memory of all ranks, and is expected to take least; subsets of the views only where they save a "
             "quarter of the time."},
    {.name = "gather", .type = VP_T_CHOICE, .offset = VP_FIELD(struct vp_ranked_params, gather, int),
     .choices = "auto|yes|no", .metavar = "WHEN", .def = "auto",
     .help = "whether ranks share the views that they read: auto, yes, no",
     .more = "yes: of the views that a column of the grid needs, each of its ranks reads its part, normalises it (and "
             "filters it where the CPU does that), and sends the others the detector rows that their slabs need. no: "
             "each reads the rows that it needs. auto reads twice where that is faster, as from the memory of one host. "
             "The volume does not depend on it."},
    {.name = "slab-files", .type = VP_T_FLAG, .offset = VP_FIELD(struct vp_ranked_params, slab_files, bool),
     .help = "write a file for each slab: FILE with -0, -1, ... before its ending",
     .more = "For file systems that do not let several hosts write one file. ct-reduce(1) --join makes a volume of them."},
    {.name = "ranks", .type = VP_T_INT, .offset = VP_FIELD(struct vp_ranked_params, ranks, int64_t), .min = 0,
     .max = 1 << 20, .metavar = "N", .def = "0", .help = "with --plan: as if there were N ranks",
     .more = "Without --plan only 1 is allowed: this process works alone, whatever started it."},
    {.name = "model", .type = VP_T_FILE, .offset = VP_FIELD(struct vp_ranked_params, model, const char *),
     .metavar = "FILE", .help = "rates of storage, network and ranks, for --plan and the choice of the grid",
     .more = "Lines of `key = value`, which `make model` measures: see MANY HOSTS."},
    VP_OPT_END,
};

struct vp_ranked {
    const struct vp_ranked_params *params;
    struct vp_ranks *ranks; /* NULL: only the plan for `size` */
    int rank, size, hosts, place, places, busy; /* busy: ranks that work on the same cores */
    struct vp_model model;
    struct vp_mesh_problem problem;
    struct vp_reconstruct whole; /* all of it; the session's job is this rank's part */
    struct vp_mesh mesh;
    struct vp_mesh_times times;
    int row, column;
    int64_t z0, z1;              /* of this row */
    int64_t (*rows)[2];          /* that the ranks of this column take */
    bool filter_device;
    struct vp_sharing sharing;
    struct vp_adding adding;
    struct vp_normalize_report repaired;
    struct vp_reconstruct_feed feed;
    struct vp_reconstruct_sink sink;
    struct vp_writer *writer;
    char *path; /* of it; NULL: the output */
    bool leads; /* it was opened here */
};

int vp_ranked_count(const struct vp_ranked *r)
{
    return r ? r->size : 1;
}

static int agree(struct vp_ranked *r, int rc, const void *mine, size_t size, void *all, struct vp_err *err)
{
    if (r->ranks)
        return vp_ranks_agree(r->ranks, rc, mine, size, all, err);
    if (!rc && size)
        memcpy(all, mine, size);
    return rc;
}

static int no_file(const char *name, struct vp_err *err)
{
    vp_fail(err, VP_EUSAGE, "%s: ranks read what each of them needs, which a pipe cannot give", name);
    return vp_hint(err, "give the projections as files that all hosts can read");
}

int vp_ranked_input(const struct vp_ranked *r, const struct vp_run *run, struct vp_err *err)
{
    bool standard = run->parsed.n_operands == 0;
    for (int i = 0; i < run->parsed.n_operands; i++)
        standard = standard || !strcmp(run->parsed.operands[i], "-");
    return r && standard ? no_file("standard input", err) : 0;
}

/* ---- the beginning ---- */

/* Ranks of this host that may run on the same processors as this one. */
static int count_busy(struct vp_ranked *r, struct vp_err *err)
{
    struct where {
        char host[sizeof r->ranks->host];
        cpu_set_t may;
    } mine, *all = vp_alloc((size_t)r->size, sizeof *all, "the places of ranks", err);
    memset(&mine, 0, sizeof mine);
    memcpy(mine.host, r->ranks->host, sizeof mine.host);
    const bool known = !sched_getaffinity(0, sizeof mine.may, &mine.may);
    const int rc = all ? vp_ranks_gather(r->ranks, &mine, sizeof mine, all, err) : -1;
    r->busy = 0;
    for (int i = 0; i < r->size && !rc; i++) {
        cpu_set_t both;
        CPU_AND(&both, &mine.may, &all[i].may);
        r->busy += !strcmp(all[i].host, mine.host) && (!known || CPU_COUNT(&both) > 0);
    }
    free(all);
    return rc;
}

/* Only the first rank speaks, shows progress and writes statistics. */
static void hush(struct vp_run *run)
{
    run->common.quiet = true;
    run->common.verbose = false;
    run->common.stats = NULL;
    vp_progress_free(run->progress);
    run->progress = vp_progress_new(run->tool->name, false, false);
}

static int join(struct vp_ranked *r, struct vp_run *run, struct vp_err *err)
{
    if (vp_ranks_open(&r->ranks, err) || !r->ranks)
        return r->ranks || err->code ? -1 : 0;
    r->rank = r->ranks->rank;
    r->size = r->ranks->size;
    r->hosts = r->ranks->hosts;
    r->place = r->ranks->place;
    r->places = r->ranks->places;
    if (count_busy(r, err))
        return -1;
    if (r->rank > 0)
        hush(run);
    if (run->all_threads) {
        run->common.threads = vp_max64(run->common.threads / r->busy, 1);
        omp_set_num_threads((int)run->common.threads);
        vp_stats_number(run->stats, "threads", (double)run->common.threads);
    }
    if (run->all_memory)
        run->common.memory /= (uint64_t)r->places;
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
    r->size = r->hosts = r->places = r->busy = 1;
    if (p->ranks > 1 && !run->common.plan) {
        rc = vp_fail(err, VP_EUSAGE, "--ranks %lld without --plan", (long long)p->ranks);
        vp_hint(err, "a launcher starts ranks: mpirun -n %lld %s ...", (long long)p->ranks, run->tool->name);
    } else if (p->ranks > 1) {
        r->size = r->hosts = (int)p->ranks;
    } else if (p->ranks == 0) {
        rc = join(r, run, err);
    }
    if (!rc && r->size == 1 && (p->grid.n || p->slab_files)) {
        rc = vp_fail(err, VP_EUSAGE, "--%s: this process works alone", p->grid.n ? "grid" : "slab-files");
        vp_hint(err, "a launcher starts ranks: mpirun -n N %s ...", run->tool->name);
    }
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

/* What a rank knows of the devices that it was given. */
struct devices_word {
    char host[64];
    int n;
    uint64_t first; /* which device its first one is: a launcher may give each rank one of its own, all as number 0 */
};

/* Of the devices that this rank found, those that are its own: ranks of a host that see the same share them. */
static int share_devices(struct vp_ranked *r, struct vp_session *s, int rc, struct vp_err *err)
{
    struct vp_reconstruct *job = &s->job;
    struct vp_device_info info = {.free = 0};
    struct devices_word mine, *all = vp_alloc((size_t)r->size, sizeof *all, "the devices of ranks", err);
    const int n = job->n_devices;
    int place = 0, places = 0;

    memset(&mine, 0, sizeof mine);
    if (!rc && !all)
        rc = -1;
    if (!rc && !job->kind->on_host)
        rc = job->kind->info(s->devices[0], &info, err);
    if (r->ranks)
        memcpy(mine.host, r->ranks->host, sizeof mine.host);
    mine.n = n;
    mine.first = info.id;
    rc = agree(r, rc, &mine, sizeof mine, all, err);
    for (int i = 0; i < r->size && !rc && r->ranks; i++)
        if (!memcmp(&all[i], &mine, sizeof mine)) {
            place += i < r->rank;
            places++;
        }
    free(all);
    if (rc || !r->ranks || job->kind->on_host)
        return rc;
    if (n >= places) {
        const int first = n * place / places;
        job->n_devices = n * (place + 1) / places - first;
        job->devices = s->devices + first;
        return 0;
    }
    job->devices = s->devices + place % n;
    job->n_devices = 1;
    /* ranks that share a device share its memory, which none of them has taken yet */
    const int with = (places - place % n + n - 1) / n;
    if (!job->device_memory)
        job->device_memory = info.free / 20 * 19 / (uint64_t)with;
    return 0;
}

/* ---- the plan ---- */

/* Somewhere that nothing is kept. */
static bool discards(const char *path)
{
    struct stat st, null;
    return path && !stat(path, &st) && !stat("/dev/null", &null) && S_ISCHR(st.st_mode) && st.st_rdev == null.st_rdev;
}

/* What is known of the machine from the table of rates, and of the scan. */
static void guess_model(struct vp_ranked *r, const struct vp_session *s, const struct vp_bp_plan *probe)
{
    const struct vp_reconstruct *job = &s->job;
    const struct vp_rates *rates = job->rates ? job->rates : &vp_rates;
    const bool on_host = job->kind->on_host;
    struct vp_device_info info = {.speed = 0};
    struct vp_err ignored = VP_ERR_INIT;
    double filter = job->filter ? vp_filter_seconds(job->filter, rates) : 0;
    if (!on_host && !job->kind->info(job->devices[0], &info, &ignored) && r->filter_device)
        filter = probe->filter_seconds;
    const double speed = info.speed > 0 ? info.speed / rates->gpu_speed : 1;
    r->model = (struct vp_model){
        .load = rates->views_read, .filter = filter > 0 ? 1 / filter : 0, .exchange = rates->ranks_exchange,
        .upload = on_host ? 0 : rates->views_up, .download = on_host ? 0 : rates->views_up,
        .backproject = on_host ? rates->cpu_updates * job->threads : rates->gpu_updates * speed * job->n_devices,
        .reduce = rates->ranks_exchange, .store = rates->volume_write, .start = on_host ? 0 : rates->device_start};
}

static int problem(struct vp_ranked *r, struct vp_session *s, const struct vp_run *run, struct vp_err *err)
{
    struct vp_bp_plan probe;
    if (!vp_views_seekable(s->source))
        return no_file(vp_views_name(s->source), err);
    if (s->job.want_subsets > 1)
        return vp_fail(err, VP_EUSAGE, "--subsets %d: with ranks the columns of --grid are the subsets",
                       s->job.want_subsets);
    if (vp_reconstruct_probe(&s->job, &probe, &r->filter_device, err))
        return -1;
    r->whole = s->job;
    const bool whole = s->job.z0 == 0 && s->job.z1 == s->grid.n[2] && s->grid.n[2] > 1;
    r->problem = (struct vp_mesh_problem){
        .of = &r->whole, .sample_bytes = (int)vp_type_size(vp_reader_stack(s->reader)->type), .ranks = r->size,
        .hosts = r->hosts, .unit = s->job.kind->on_host ? 1 : probe.z_step, .mirror = probe.mirror && whole,
        .pair = probe.partner, .discards = discards(run->common.output), .on_host = s->job.kind->on_host,
        .filter_device = r->filter_device};
    guess_model(r, s, &probe);
    if (r->params->model && vp_model_read(&r->model, r->params->model, err))
        return -1;
    return 0;
}

/* This rank's part with a grid. */
static void take_part(struct vp_ranked *r, struct vp_session *s, const struct vp_mesh *m)
{
    struct vp_reconstruct *job = &s->job;
    r->mesh = *m;
    r->row = r->rank % m->rows;
    r->column = r->rank / m->rows;
    *job = r->whole;
    job->ranks = r->ranks;
    job->want_subsets = 1;
    job->half = m->half;
    job->column = r->column;
    job->columns = m->columns;
    vp_mesh_slab(&r->problem, m, r->row, &job->z0, &job->z1);
    r->z0 = job->z0;
    r->z1 = job->z1;
    r->sink = (struct vp_reconstruct_sink){.ctx = &r->adding, .put = vp_adding_put, .in_order = m->columns > 1};
    r->feed = (struct vp_reconstruct_feed){.ctx = &r->sharing, .read = vp_sharing_read};
    job->sink = &r->sink;
    job->feed = m->gather ? &r->feed : NULL;
    /* of the slices that come at once, at most (a slot of the output, ct/reconstruct_plan.c) */
    const int64_t page = job->grid->n[0] * job->grid->n[1] * (int64_t)sizeof(float);
    const int64_t group = vp_max64(vp_min64(32, (32 << 20) / page), 1);
    const uint64_t more = (m->gather ? vp_sharing_bytes(job, m->rows, job->kind->on_host ? 16 : 64) : 0)
                          + vp_adding_bytes(job, m->columns, group);
    job->memory = more < job->memory / 2 ? job->memory - more : job->memory / 2;
}

/* What ranks tell each other of their plans. */
struct plan_word {
    int64_t batch, group, partner, passes, v0, v1;
    bool fits, filter_device, mirrored, on_host;
};

static void plan_words(const struct vp_session *s, struct plan_word *w)
{
    const struct vp_reconstruct_plan *p = &s->plan;
    *w = (struct plan_word){.batch = p->batch, .group = p->group, .partner = p->partner, .passes = p->passes,
                            .fits = p->passes == 1, .filter_device = p->filter_device, .mirrored = p->mirrored,
                            .on_host = s->job.kind->on_host, .v0 = s->job.nv};
    for (int i = 0; i < p->parts; i++) {
        w->v0 = vp_min64(w->v0, p->part[i].plan.v0);
        w->v1 = vp_max64(w->v1, p->part[i].plan.v1);
    }
}

/* What all ranks of a column, and of a row, have to do alike. */
static int settle(struct vp_ranked *r, struct vp_session *s, const struct plan_word *all, struct vp_err *err)
{
    struct vp_reconstruct_plan *p = &s->plan;
    for (int i = 0; i < r->size; i++) {
        if (all[i].partner != p->partner || all[i].filter_device != p->filter_device || all[i].mirrored != p->mirrored
            || all[i].on_host != s->job.kind->on_host) {
            vp_fail(err, VP_ERESOURCE, "ranks 0 and %d do not work alike: their devices differ", i);
            return vp_hint(err, "say --device and --filter-on, so that they do");
        }
        if (i / r->mesh.rows == r->column)
            p->batch = (int)vp_min64(p->batch, all[i].batch);
        if (i % r->mesh.rows == r->row)
            p->group = vp_min64(p->group, all[i].group);
    }
    free(r->rows);
    if (!(r->rows = vp_alloc((size_t)r->mesh.rows, sizeof *r->rows, "detector rows", err)))
        return -1;
    for (int i = 0; i < r->mesh.rows; i++) {
        r->rows[i][0] = all[r->column * r->mesh.rows + i].v0;
        r->rows[i][1] = all[r->column * r->mesh.rows + i].v1;
    }
    return 0;
}

/* A grid, if it fits all ranks: 1; 0 if not; -1 on errors. */
static int try_mesh(struct vp_ranked *r, struct vp_session *s, const struct vp_mesh *m, struct vp_err *err)
{
    struct plan_word mine, *all = vp_alloc((size_t)r->size, sizeof *all, "the plans of ranks", err);
    bool fits = true;
    take_part(r, s, m);
    vp_reconstruct_plan_free(&s->plan);
    int rc = all ? vp_reconstruct_plan(&s->plan, &s->job, NULL, err) : -1;
    memset(&mine, 0, sizeof mine);
    if (!rc) {
        plan_words(s, &mine);
    } else if (err->code == VP_ERESOURCE && all) {
        *err = (struct vp_err)VP_ERR_INIT;
        rc = 0;
    }
    rc = agree(r, rc, &mine, sizeof mine, all, err);
    for (int i = 0; i < (r->ranks ? r->size : 1) && !rc; i++)
        fits = fits && all[i].fits;
    if (!rc && fits && r->ranks)
        rc = settle(r, s, all, err);
    free(all);
    return rc ? -1 : fits;
}

/* Where a model says what memory a rank has, only that counts. */
static bool model_holds(const struct vp_ranked *r, const struct vp_mesh *m)
{
    int64_t z0, z1;
    vp_mesh_slab(&r->problem, m, 0, &z0, &z1);
    const double bytes = (double)(m->half ? 2 : 1) * (double)(z1 - z0) * (double)r->whole.grid->n[0]
                         * (double)r->whole.grid->n[1] * sizeof(float);
    return bytes <= r->model.memory;
}

static int no_grid(struct vp_ranked *r, struct vp_err *err)
{
    char grid[64] = "no grid of the ranks";
    if (r->params->grid.n)
        snprintf(grid, sizeof grid, "--grid %lldx%lld", (long long)r->params->grid.v[0],
                 (long long)r->params->grid.v[1]);
    vp_fail(err, VP_ERESOURCE, "%s fits: the slab of a rank does not find room in its memory", grid);
    return vp_hint(err, "start more ranks, on more hosts or devices, allow more --memory or --device-memory, or take "
                        "several runs with --slab");
}

static int check_grid(const struct vp_ranked *r, struct vp_err *err)
{
    const struct vp_size *g = &r->params->grid;
    if (g->n == 0 || (g->n == 2 && g->v[0] <= r->size && g->v[0] * g->v[1] == r->size))
        return 0;
    vp_fail(err, VP_EUSAGE, "--grid: expected RxC, with R times C the number of ranks, %d", r->size);
    return vp_hint(err, "for example --grid %dx1", r->size);
}

/* The grid, and this rank's plan on it. */
static int choose(struct vp_ranked *r, struct vp_session *s, struct vp_err *err)
{
    const struct vp_size *g = &r->params->grid;
    const int gather = r->params->gather == 0 ? -1 : r->params->gather == 1;
    int n = 0, rc = 0;
    struct vp_mesh *m = NULL;
    if (!check_grid(r, err))
        m = vp_mesh_choices(&r->problem, &r->model, gather, r->params->slab_files, &n);
    if (!m && !err->code)
        vp_fail(err, VP_EUSAGE, "%d ranks are more than there is work for", r->size);
    rc = agree(r, m ? 0 : -1, NULL, 0, NULL, err);
    for (int i = 0; i < n && !rc; i++) {
        if (g->n && m[i].rows != g->v[0])
            continue;
        if (!r->ranks && r->model.memory > 0) {
            rc = model_holds(r, &m[i]);
            take_part(r, s, &m[i]);
        } else {
            rc = try_mesh(r, s, &m[i], err);
        }
    }
    free(m);
    if (!rc)
        rc = no_grid(r, err);
    if (rc > 0) {
        r->mesh.parts = s->plan.stay ? VP_SLAB_PARTS : 1;
        vp_mesh_times(&r->times, &r->problem, &r->model, &r->mesh);
    }
    return rc < 0 ? -1 : 0;
}

static void show(const struct vp_ranked *r, struct vp_run *run)
{
    const struct vp_mesh *m = &r->mesh;
    const struct vp_mesh_times *t = &r->times;
    vp_plan(run, "ranks", "%d on %d host%s%s%s%s", r->size, r->hosts, r->hosts == 1 ? "" : "s", r->ranks ? " (" : "",
            r->ranks ? r->ranks->library : "", r->ranks ? ")" : ", if they were started");
    vp_plan(run, "grid", "%d slab%s%s x %d subset%s of the views%s", m->rows, m->rows == 1 ? "" : "s",
            m->half ? " with their mirror images" : "", m->columns, m->columns == 1 ? "" : "s",
            m->columns == 1 ? ": the bits of one process" : ", added in their order");
    vp_plan(run, "views", m->gather ? "read once, shared by the %d ranks of a column" : "each rank reads what it needs",
            m->rows);
    vp_plan(run, "T_load", "%.3g s", t->load);
    vp_plan(run, "T_filter", "%.3g s", t->filter);
    vp_plan(run, "T_allgather", "%.3g s", t->gather);
    vp_plan(run, "T_upload", "%.3g s", t->upload);
    vp_plan(run, "T_bp", "%.3g s", t->backproject);
    vp_plan(run, "T_compute", "%.3g s, these overlap", t->compute);
    vp_plan(run, "T_download", "%.3g s", t->download);
    vp_plan(run, "T_reduce", "%.3g s", t->reduce);
    vp_plan(run, "T_store", "%.3g s", t->store);
    vp_plan(run, "T_run", "%.3g s expected", t->run);
}

/* ---- the output ---- */

/* A name for the file of a row. */
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
    if (!path || !strcmp(path, "-")) {
        vp_fail(err, VP_EUSAGE, "ranks write the volume side by side, into a file");
        return vp_hint(err, "use -o FILE, in a folder that all hosts share");
    }
    if (run->common.compress)
        return vp_fail(err, VP_EUSAGE,
                       "--compress: ranks write the pages in any order, which a compressed file cannot take");
    if (!vp_output_any_order(run) && !discards(path))
        return vp_fail(err, VP_EUSAGE, "%s: ranks write a regular file", path);
    return 0;
}

/* One rank of those that write a file opens it, the others join. */
static int open_outputs(struct vp_ranked *r, struct vp_session *s, struct vp_run *run, struct vp_err *err)
{
    enum { LONGEST = 4096 };
    const bool apart = r->params->slab_files;
    const int leader = apart ? r->row : 0;
    const struct vp_writer_options o = {.raw = run->common.raw_out};
    char name[LONGEST] = "", (*all)[LONGEST] = NULL;
    struct vp_stack out = {0};
    int rc = check_output(run, err);
    const bool nothing = discards(run->common.output);

    if (agree(r, rc, NULL, 0, NULL, err))
        return -1;
    if (nothing)
        return 0;
    r->leads = r->rank == leader;
    r->path = apart ? slab_path(run->common.output, r->row) : strdup(run->common.output);
    all = vp_alloc((size_t)r->size, LONGEST, "the names of files", err);
    const int64_t z0 = apart ? r->z0 : r->whole.z0, z1 = apart ? r->z1 : r->whole.z1;
    rc = !all || !r->path || vp_session_header(s, run, z0, z1, &out, err) ? -1 : 0;
    const bool shared = !apart || r->mesh.columns > 1;
    if (!rc && r->leads
        && !(rc = (shared ? vp_writer_begin : vp_writer_open)(&r->writer, r->path, &out, &o, err))) {
        const char *temporary = vp_writer_temporary(r->writer);
        if (!temporary)
            rc = vp_fail(err, VP_ERUN, "%s: ranks write a regular file", r->path);
        else
            snprintf(name, sizeof name, "%s", temporary);
    }
    rc = agree(r, rc, name, sizeof name, all, err);
    if (!rc && !r->leads)
        rc = vp_writer_join(&r->writer, r->path, all[leader], &out, &o, err);
    vp_stack_free(&out);
    free(all);
    return agree(r, rc, NULL, 0, NULL, err);
}

/* Those who joined close first: what the one who opened renames is complete. */
static int close_outputs(struct vp_ranked *r, int rc, struct vp_err *err)
{
    int64_t mine = r->writer ? vp_writer_rows_put(r->writer) : 0, others = 0,
            *all = vp_alloc((size_t)r->size, sizeof *all, "the rows of ranks", err);
    struct vp_writer *w = r->writer;
    rc = rc || !all ? -1 : 0;
    if (!rc && w && !r->leads) {
        r->writer = NULL;
        rc = vp_writer_close(w, err);
    }
    rc = agree(r, rc, &mine, sizeof mine, all, err);
    for (int i = 0; i < r->size && !rc; i++)
        others += i != r->rank && (!r->params->slab_files || i % r->mesh.rows == r->row) ? all[i] : 0;
    free(all);
    if (!rc && r->writer) {
        vp_writer_others(r->writer, others);
        r->writer = NULL;
        rc = vp_writer_close(w, err);
    }
    rc = agree(r, rc, NULL, 0, NULL, err);
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
                                   .z0 = r->params->slab_files ? r->z0 : r->whole.z0, .group = s->plan.group};
    int rc = vp_reconstruct_run(&s->plan, NULL, result, err);
    if (!rc && r->mesh.gather)
        rc = vp_sharing_finish(&r->sharing, err);
    if (rc)
        vp_ranks_stop(r->ranks);
    return rc;
}

/* What each rank has done, in seconds and counts; of all the most, and the sums. */
struct done_word {
    double load, work, gather, compute, reduce, store, run;
    uint64_t sent;
    int64_t bad;
    struct vp_normalize_report repaired;
};

static void tell(struct vp_ranked *r, struct vp_session *s, struct vp_run *run, const struct done_word *all)
{
    struct done_word most = all[0];
    for (int i = 1; i < r->size; i++) {
        const struct done_word *w = &all[i];
        most.load = fmax(most.load, w->load);
        most.work = fmax(most.work, w->work);
        most.gather = fmax(most.gather, w->gather);
        most.compute = fmax(most.compute, w->compute);
        most.reduce = fmax(most.reduce, w->reduce);
        most.store = fmax(most.store, w->store);
        most.run = fmax(most.run, w->run);
        most.sent += w->sent;
        /* views that were read once count once; those that several ranks read were seen by each, in part */
        most.bad = r->mesh.gather ? most.bad + w->bad : vp_max64(most.bad, w->bad);
        if (r->mesh.gather) {
            most.repaired.floored += w->repaired.floored;
            most.repaired.zingers += w->repaired.zingers;
            most.repaired.dead += w->repaired.dead;
        }
    }
    char grid[48];
    snprintf(grid, sizeof grid, "%dx%d", r->mesh.rows, r->mesh.columns);
    vp_stats_number(run->stats, "ranks", r->size);
    vp_stats_number(run->stats, "hosts", r->hosts);
    vp_stats_text(run->stats, "grid", grid);
    vp_stats_text(run->stats, "gather", r->mesh.gather ? "yes" : "no");
    vp_stats_number(run->stats, "T_load", most.load);
    vp_stats_number(run->stats, "T_prepare", most.work);
    vp_stats_number(run->stats, "T_allgather", most.gather);
    vp_stats_number(run->stats, "T_compute", most.compute);
    vp_stats_number(run->stats, "T_reduce", most.reduce);
    vp_stats_number(run->stats, "T_store", most.store);
    vp_stats_number(run->stats, "T_run", most.run);
    vp_stats_number(run->stats, "T_run_expected", r->times.run);
    vp_stats_count(run->stats, "bytes_of_views_sent", most.sent);
    const struct vp_reconstruct *job = &r->whole;
    if (job->normalize)
        vp_normalize_tell(job->normalize, run, &most.repaired, job->in_nu * job->nv * (job->last - job->first),
                          most.bad);
    else if (most.bad)
        vp_warn(run, "%s: %s%lld samples are NaN or infinite", vp_reader_name(s->reader),
                r->mesh.gather ? "" : "at least ", (long long)most.bad);
}

static int reconstruct(struct vp_ranked *r, struct vp_session *s, struct vp_run *run, struct vp_err *err)
{
    struct vp_reconstruct_result result = {0};
    struct done_word mine, *all = vp_alloc((size_t)r->size, sizeof *all, "what ranks did", err);
    const double start = vp_now();
    int rc = agree(r, all ? 0 : -1, NULL, 0, NULL, err);
    if (!rc)
        rc = open_outputs(r, s, run, err);
    if (rc) {
        vp_writer_abort(r->writer);
        r->writer = NULL;
        free(all);
        return -1;
    }
    rc = work(r, s, &result, err);
    rc = close_outputs(r, rc, err);
    memset(&mine, 0, sizeof mine);
    mine = (struct done_word){.load = r->mesh.gather ? r->sharing.load : result.read, .work = r->sharing.work,
                              .gather = r->sharing.gather, .compute = result.compute, .reduce = r->adding.reduce,
                              .store = r->adding.store, .run = vp_now() - start, .sent = r->sharing.sent,
                              .bad = r->mesh.gather ? r->sharing.bad : result.bad,
                              .repaired = r->mesh.gather ? r->repaired : result.repaired};
    if (!rc)
        rc = agree(r, 0, &mine, sizeof mine, all, err);
    vp_sharing_free(&r->sharing, !rc);
    vp_adding_free(&r->adding, !rc);
    if (!rc && r->rank == 0)
        tell(r, s, run, all);
    free(all);
    return rc;
}

/* One rank says why, and the others stay until it has, for a launcher ends all when the first one does. */
static int end(struct vp_ranked *r, struct vp_run *run, struct vp_err *err)
{
    struct vp_err ignored = VP_ERR_INIT;
    const int code = err->code ? err->code : VP_ERUN;
    if (!r->ranks)
        return -1;
    if (r->ranks->speaker == r->rank) {
        run->common.quiet = false;
        vp_report(run, err);
    }
    if (!r->ranks->stopped)
        r->ranks->stopped = r->ranks->speaker + 1; /* so that nobody waits for long */
    run->common.stats = NULL;
    vp_ranks_agree(r->ranks, 0, NULL, 0, NULL, &ignored);
    return code;
}

int vp_ranked_run(struct vp_ranked *r, struct vp_session *s, struct vp_run *run, int rc, struct vp_err *err)
{
    if (share_devices(r, s, rc, err))
        return end(r, run, err);
    rc = problem(r, s, run, err);
    if (agree(r, rc, NULL, 0, NULL, err))
        return end(r, run, err);
    if (choose(r, s, err))
        return end(r, run, err);
    vp_stats_text(run->stats, "device", s->job.kind->name);
    if (s->job.filter)
        vp_stats_text(run->stats, "filter_on", r->filter_device ? "gpu" : "cpu");
    if (r->rank == 0) {
        show(r, run);
        vp_session_show(s, run);
        (void)vp_plan_done(run);
    }
    if (run->common.plan)
        return 0;
    return reconstruct(r, s, run, err) ? end(r, run, err) : 0;
}
