/* SPDX-License-Identifier: BSD-3-Clause */
#include "app/image_internal.h"
#include "base/places.h"
#include "base/size.h"
#include "device/device.h"
#include "app/open.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEP = 64 << 20 };

/* Sets the memory of the problem to the rest of `all` bytes. */
static void set_memory(struct vp_problem *p, uint64_t all)
{
    p->memory = all > p->beside ? all - p->beside : 0;
    p->over = p->memory + p->beside - all;
}

static void make_problem(const struct vp_images *im, const struct vp_run *run, const struct vp_chain *chain,
                         enum vp_type result, bool writes, struct vp_problem *p, uint64_t *spare)
{
    const struct vp_op *last = &chain->stage[chain->n - 1];
    *p = (struct vp_problem){.chain = chain, .lines = im->lines, .inner = im->inner,
                             .outer = im->outer, .threads = (int)run->common.threads,
                             .stored_out = vp_type_size(result)};
    memcpy(p->image, last->image, sizeof p->image);
    p->stored_out += last->second ? vp_type_size(*last->second) : 0;
    /* bytes held by readers and writers; the page that was peeked from a pipe is free before one is held back */
    const bool unknown = im->nz >= VP_UNKNOWN || im->outer >= VP_UNKNOWN;
    const struct vp_stack *first = vp_reader_stack(im->reader[im->first]);
    const struct vp_stack out = {first->nx + vp_images_grown(im, last, 0), first->ny + vp_images_grown(im, last, 1),
                                 unknown ? -1 : 1, result, {0, NULL, NULL}};
    const struct vp_stack second = {out.nx, out.ny, out.pages, last->second ? *last->second : result, {0, NULL, NULL}};
    const int results = writes + (writes && last->second);
    uint64_t least = 0;
    for (int i = 0; i < results; i++) {
        const struct vp_stack *s = i ? &second : &out;
        /* rows are collected to pages that are compressed or held back */
        const uint64_t page = im->lines && (unknown || run->common.compress) ? vp_page_bytes(s) : 0;
        least += vp_output_holds(run, s, 0) + page;
        p->beside += vp_output_holds(run, s, run->common.memory) + page;
    }
    *spare = p->beside - least;
    p->beside = p->beside > im->held ? p->beside : im->held;
    const bool padded = im->pad[0] || im->pad[1] || im->pad[2];
    p->flow = !unknown && !padded && !(writes && run->common.compress);
    for (int k = 0; k < im->n; k++) {
        const uint64_t pages = vp_reader_holds(im->reader[k], true), rows = vp_reader_holds(im->reader[k], false);
        p->beside += im->lines || (p->flow && rows > pages) ? rows : pages;
        /* a broadcast page is read again for each page */
        p->flow = p->flow && (!im->single[k] || vp_reader_seekable(im->reader[k]));
    }
    for (int s = 0; s < chain->n; s++)
        p->beside += chain->stage[s].holds;
    set_memory(p, run->common.memory);
    p->once = !im->seekable;
    p->held = vp_scratch_in_memory();
    p->rows = vp_output_any_order(run) && writes && !unknown && !padded && !im->lines;
    for (int k = 0; k < im->n; k++) {
        p->single[k] = im->single[k];
        if (im->single[k])
            continue;
        p->stored_in += vp_type_size(vp_reader_stack(im->reader[k])->type);
        p->rows = p->rows && vp_reader_concurrent(im->reader[k]);
    }
    for (int a = 0; a < im->params.chunk.n; a++)
        p->chunk[a] = im->params.chunk.v[a];
    if (im->params.chunk.n == 1)
        p->chunk[1] = p->chunk[2] = p->chunk[0];
}

/* Returns the voxels of all images; many if the length of a pipe is unknown. */
static double voxels_of(const struct vp_images *im, const struct vp_problem *p)
{
    return (double)im->size[0] * (double)im->size[1] * (p->image[2] < VP_UNKNOWN ? (double)p->image[2] : 1e9)
           * (p->outer < VP_UNKNOWN ? (double)p->outer : 1e9) * (double)p->inner;
}

/* Returns the effort by which `auto` chooses. */
static struct vp_effort effort_of(const struct vp_images *im, const struct vp_problem *p)
{
    const struct vp_rates *rates = p->rates ? p->rates : &vp_rates;
    double cost = 0;

    for (int s = 0; s < p->chain->n; s++)
        cost += p->chain->stage[s].cost;
    return (struct vp_effort){.on_cpu = voxels_of(im, p) * cost * 1e-9 / (double)p->threads,
                              .start = rates->device_start, .work = voxels_of(im, p) * (double)p->stored_in,
                              .all = rates->devices_all};
}

/* Returns the bytes that a plan may take of a device. */
static uint64_t room_of(const struct vp_device_info *info)
{
    return info->free / 10 * 9 / STEP * STEP; /* equal devices get equal plans */
}

/* True if one device has the memory to hold the image, so that others would only take time to start. */
static bool one_holds(const struct vp_backend *backend, int device, const struct vp_problem *p)
{
    struct vp_device_info info = {0};
    struct vp_err ignored = VP_ERR_INIT;
    int64_t step;
    const uint64_t bytes = p->inner == 1 && p->outer == 1 && !p->once && !p->chunk[0]
                           ? vp_lanes_hold(backend, p->chain, &step) : 0;
    return bytes && !backend->info(device, &info, &ignored) && bytes < room_of(&info) / 20 * 19;
}

/* Reads inputs that are pipes ahead, while the devices start. */
static void read_ahead(const struct vp_images *im, const struct vp_run *run, struct vp_problem *p)
{
    for (int k = 0; k < im->n; k++)
        p->beside += vp_reader_ahead(im->reader[k], run->common.memory / (uint64_t)im->n, !run->common.plan);
    set_memory(p, run->common.memory);
}

/* Ends that: no device is used. */
static void read_no_further(const struct vp_images *im, const struct vp_run *run, struct vp_problem *p, uint64_t beside)
{
    p->beside = beside;
    for (int k = 0; k < im->n; k++)
        p->beside += vp_reader_ahead_stop(im->reader[k]);
    set_memory(p, run->common.memory);
}

/* Finds the devices that --device names, if they can run the chain. */
static int find_devices(const struct vp_images *im, struct vp_run *run, struct vp_image_job *j, struct vp_err *err)
{
    struct vp_problem *p = &j->problem;
    const bool automatic = !strcmp(run->common.device, "auto");
    int *devices = NULL, n = 0;
    char why[256] = "";
    int rc = 0;

    p->backend = NULL;
    if (!(run->tool->flags & VP_TOOL_CUDA) || !strcmp(run->common.device, "cpu"))
        return 0;
    const struct vp_effort effort = effort_of(im, p);
    if (automatic && !vp_choose(&effort, 1))
        return 0;
    const struct vp_backend *backend = NULL;
    const uint64_t beside = p->beside;
    read_ahead(im, run, p);
    vp_devices_only(run->common.device);
    if (vp_devices_find(&backend, &devices, &n, run->common.device, err))
        return -1;
    if (backend->on_host) {
        if (*vp_devices_refused())
            vp_warn(run, "on the CPU: %s", vp_devices_refused());
        goto out;
    }
    if (!vp_lanes_have(backend, p->chain, why, sizeof why)) {
        if (automatic)
            vp_note(run, "on the CPU: %s: %s", backend->name, why);
        else
            rc = vp_fail(err, VP_ERESOURCE, "device %s: %s", run->common.device, why),
            vp_hint(err, "use --device cpu, or auto");
        goto out;
    }
    if (automatic)
        n = one_holds(backend, devices[0], p) ? 1 : vp_choose(&effort, n);
    p->devices = 0;
    if (n > 1)
        vp_devices_start(backend, devices, (int)vp_min64(n, VP_MAX_DEVICES));
    for (int i = 0; i < n && p->devices < VP_MAX_DEVICES && !rc; i++) {
        struct vp_device_info info = {0};
        rc = backend->info(devices[i], &info, err);
        if (i == 0)
            snprintf(j->name, sizeof j->name, "%s", info.name);
        j->device[p->devices] = devices[i];
        p->free[p->devices++] = room_of(&info);
    }
    if (!rc)
        p->backend = backend;
    else if (automatic) {
        vp_note(run, "on the CPU: %s", err->msg);
        *err = (struct vp_err)VP_ERR_INIT;
        rc = 0;
    }
out:
    if (!p->backend && !rc)
        read_no_further(im, run, p, beside);
    free(devices);
    return rc;
}

int vp_images_plan_again(const struct vp_images *im, struct vp_run *run, struct vp_image_job *j, struct vp_err *err)
{
    struct vp_problem *p = &j->problem;
    int rc;
    while ((rc = vp_plan_make(&j->plan, p, err))) {
        if (err->code == VP_ERESOURCE && j->spare) { /* the spare holds back pages only */
            const uint64_t spare = vp_min64((int64_t)j->spare, (int64_t)p->beside);
            p->beside -= spare;
            set_memory(p, run->common.memory);
            j->spare = 0;
        } else if (err->code == VP_ERESOURCE && p->backend && !strcmp(run->common.device, "auto")) {
            vp_note(run, "on the CPU: %s", err->msg);
            p->backend = NULL;
            memcpy(j->chain->stage[0].step, j->step, sizeof j->step);
            memcpy(j->chain->stage[0].halo, j->halo, sizeof j->halo);
        } else {
            break;
        }
        *err = (struct vp_err)VP_ERR_INIT;
    }
    if (!rc || err->code != VP_ERESOURCE)
        return rc;
    int64_t halo[3];
    vp_chain_halo(j->chain, halo);
    if (p->held && vp_chain_twice(j->chain))
        return vp_hint(err, "%s is in memory itself: set TMPDIR to a folder on a disk, or allow more --memory",
                       vp_tmpdir());
    const struct vp_op *twice = vp_chain_twice(j->chain);
    if (p->once && twice && twice->run && !p->backend) /* it could be done in two passes */
        return vp_hint(err, "allow more with --memory, or give a file (or --spool)");
    return vp_hint(err, p->rows || (p->flow && (!halo[2] || p->image[2] == 1))
                        ? "allow more with --memory"
                        : im->seekable
                            ? "allow more with --memory, or give uncompressed files, and one to write with -o"
                            : "allow more with --memory, or give files (or --spool), and one to write with -o");
}

int vp_images_plan(const struct vp_images *im, struct vp_run *run, struct vp_chain *chain, enum vp_type stored,
                   bool writes, struct vp_image_job *j, struct vp_err *err)
{
    for (int s = 0; s < chain->n; s++)
        if ((chain->stage[s].halo[2] >= VP_UNKNOWN
             || (chain->stage[s].two_pass && !(chain->stage[s].run && chain->stage[s].step[2] == 1)))
            && im->size[2] >= VP_UNKNOWN)
            return vp_fail_hint(err, VP_EUSAGE, "give a file, or --spool",
                                "%s: the number of pages of a pipe is unknown until its end, but %s needs all of them",
                                vp_reader_name(im->reader[0]), chain->stage[s].kernel);
    memset(j, 0, sizeof *j);
    make_problem(im, run, chain, stored, writes, &j->problem, &j->spare);
    j->chain = chain;
    memcpy(j->step, chain->stage[0].step, sizeof j->step);
    memcpy(j->halo, chain->stage[0].halo, sizeof j->halo);
    if (find_devices(im, run, j, err))
        return -1;
    if (j->problem.backend)
        vp_lanes_demand(j->problem.backend, chain);
    return vp_images_plan_again(im, run, j, err);
}

/* ---- the table of --plan ---- */

static const char *count(char *text, size_t size, int64_t n)
{
    if (n >= VP_UNKNOWN)
        snprintf(text, size, "?");
    else
        snprintf(text, size, "%lld", (long long)n);
    return text;
}

/* Writes the depth of parts on each device, "12, 12, 3"; one number if all are equal. */
static void list_depths(const struct vp_image_job *j, char *text, size_t size)
{
    const struct vp_plan *plan = &j->plan;
    bool same = true;
    size_t n = 0;
    for (int d = 1; d < j->problem.devices && !plan->held; d++)
        same = same && plan->depth[d] == plan->depth[0];
    text[0] = '\0';
    for (int d = 0; d < (same ? 1 : j->problem.devices) && n < size; d++)
        n += (size_t)snprintf(text + n, size - n, "%s%lld", d ? ", " : "", (long long)plan->depth[d]);
}

static void show_device(struct vp_run *run, const struct vp_image_job *j, const double input, const char *back)
{
    const struct vp_problem *p = &j->problem;
    const struct vp_plan *plan = &j->plan;
    char depths[128];
    uint64_t least = p->free[0], most = p->free[0];
    const int used = plan->held ? 1 : p->devices;
    for (int i = 1; i < used; i++) {
        least = p->free[i] < least ? p->free[i] : least;
        most = p->free[i] > most ? p->free[i] : most;
    }
    list_depths(j, depths, sizeof depths);
    vp_report_plan(run, "device", "%d x %s: at most %s of %s%s%s", used, j->name,
                   vp_bytes_text(plan->on_device).text, vp_bytes_text(least).text,
                   most > least ? " to " : "", most > least ? vp_bytes_text(most).text : "");
    vp_report_plan(run, "workers", "%d, each with %d set%s of buffers, in chunks of %s planes", plan->workers,
                   plan->lanes, plan->lanes > 1 ? "s" : "", depths);
    if (input > 0)
        vp_report_plan(run, "transfers", "to the device %.3f times the input, %s; back %s%s", plan->copied,
                       vp_bytes_text((uint64_t)(plan->copied * input)).text, back,
                       plan->stream ? "; planes that chunks share stay there" : "");
    else
        vp_report_plan(run, "transfers", "to the device %.3f times the input; back the output%s", plan->copied,
                       plan->stream ? "; planes that chunks share stay there" : "");
}

void vp_images_show(const struct vp_images *im, struct vp_run *run, const struct vp_image_job *j,
                    enum vp_type stored_out)
{
    const struct vp_problem *p = &j->problem;
    const struct vp_plan *plan = &j->plan;
    const bool endless = p->image[2] >= VP_UNKNOWN || p->outer >= VP_UNKNOWN;
    const struct vp_op *last = &p->chain->stage[p->chain->n - 1];
    const double images = (double)p->inner * (double)p->outer;
    const double voxels = endless ? 0 : (double)p->image[0] * (double)p->image[1] * (double)p->image[2] * images;
    const double input = endless ? 0 : (double)vp_op_input(last, 0) * (double)vp_op_input(last, 1)
                                           * (double)vp_op_input(last, 2) * images;
    const int y = p->lines ? 2 : 1, z = 3 - y;
    char a[32], b[32];
    int64_t halo[3];

    vp_chain_halo(p->chain, halo);
    for (int k = 0; k < 3; k++)
        halo[k] = vp_min64(halo[k], p->image[k]);
    const char *plane = p->lines ? "row" : plan->flow ? "band" : "page";
    const int64_t pages = plan->flow ? 1 : im->inner; /* per plane of the stream */
    if (p->lines)
        vp_report_plan(run, "image", "%lld x %lld, %s to %s", (long long)im->size[0], (long long)im->size[2],
                       vp_type_name(im->type), vp_type_name(stored_out));
    else
        vp_report_plan(run, "image", "%lld x %lld x %s, %s to %s", (long long)im->size[0], (long long)im->size[1],
                       count(a, sizeof a, im->size[2]), vp_type_name(im->type), vp_type_name(stored_out));
    if (vp_images_grown(im, last, 0) || vp_images_grown(im, last, 1) || vp_images_grown(im, last, 2))
        vp_report_plan(run, "result", "%lld x %lld x %s", (long long)(p->image[0] + im->pad[0]),
                       (long long)(p->image[y] + im->pad[1]),
                       count(a, sizeof a, p->lines ? 1 : endless ? VP_UNKNOWN : p->image[2] + im->pad[2]));
    if (im->inner > 1 || im->outer != 1)
        vp_report_plan(run, "images", "%s side by side, %s after one another", count(a, sizeof a, im->inner),
                       count(b, sizeof b, im->outer));
    for (int i = 0; i < p->chain->n; i++)
        vp_report_plan(run, "operation", "%s",
                       p->chain->stage[i].text[0] ? p->chain->stage[i].text : p->chain->stage[i].kernel);
    vp_report_plan(run, "halo", "%lld x %lld x %lld voxels on every side", (long long)halo[0], (long long)halo[1],
                   (long long)halo[2]);
    if (endless)
        vp_report_plan(run, "volume", "as long as the pipe, read %.3f times", plan->read);
    else
        vp_report_plan(run, "volume", "%s of input, read %.3f times; %s of output",
                       vp_bytes_text((uint64_t)(input * (double)p->stored_in)).text, plan->read,
                       vp_bytes_text((uint64_t)(voxels * (double)p->stored_out)).text);
    if (plan->twice)
        vp_report_plan(run, "passes", "two: every chunk is summarized, the summaries are solved as a whole (at most %s of them in "
                       "memory%s%s), every chunk is finished", vp_bytes_text(plan->entries).text,
                       p->held ? "" : ", more in ", p->held ? "" : vp_tmpdir());
    else if (plan->held)
        vp_report_plan(run, "passes", "one: the device holds the image, in %s, until all of it is there",
                       vp_bytes_text(plan->held).text);
    else if (vp_chain_twice(p->chain))
        vp_report_plan(run, "passes", "one: every image is one chunk");
    if (plan->bands > 1)
        vp_report_plan(run, "bands", "%lld of %lld rows%s, one after the other", (long long)plan->bands,
                       (long long)plan->band, plan->flow ? " a page" : "");
    if (endless)
        vp_report_plan(run, "slabs", "%lld %s%s of output each", (long long)(plan->slab * pages), plane,
                       plan->slab * pages > 1 ? "s" : "");
    else
        vp_report_plan(run, "slabs", "%lld of %lld %s%s of output each",
                       (long long)vp_div_up(p->image[2] * p->outer * (plan->flow ? im->inner * plan->bands : 1),
                                            plan->slab),
                       (long long)(plan->slab * pages), plane, plan->slab * pages > 1 ? "s" : "");
    vp_report_plan(run, "chunks",
                   "%lld x %lld x %lld, with the halo %lld x %lld x %lld; %lld x %lld x %lld of them a slab%s",
                   (long long)plan->part[0], (long long)plan->part[y], (long long)plan->part[z], (long long)plan->in[0],
                   (long long)plan->in[y], (long long)plan->in[z], (long long)plan->parts[0], (long long)plan->parts[y],
                   (long long)plan->parts[z], plan->together > 1 ? ", a thread on each" : "");
    vp_report_plan(run, "host", "%s of %s: %s for %lld %ss of input, %s for %d slab%s of output, %s to work in",
                   vp_bytes_text(plan->host + p->beside).text, vp_bytes_text(p->memory + p->beside).text,
                   vp_bytes_text(plan->input).text, (long long)(plan->window * pages), plane,
                   vp_bytes_text(plan->output).text, plan->slabs, plan->slabs > 1 ? "s" : "",
                   vp_bytes_text(plan->scratch).text);
    if (p->beside)
        vp_report_plan(run, "beside",
                       "%s of those for tables of operations, what reads ahead and decodes the input and holds back the output",
                       vp_bytes_text(p->beside).text);
    if (plan->kept)
        vp_report_plan(run, "kept", "%s of those to work in stay from slab to slab: no plane is worked on twice",
                       vp_bytes_text(plan->kept).text);
    if (plan->device)
        show_device(run, j, input * (double)vp_type_size(im->type) * im->n,
                    vp_bytes_text((uint64_t)(voxels *
                                             (double)vp_type_size(p->chain->stage[p->chain->n - 1].out))).text);
    vp_report_plan(run, "threads", "%d", p->threads);
    const double seconds = vp_plan_time(p, plan);
    if (seconds > 0)
        vp_report_plan(run, "time", "about %.2g s, with files in memory", seconds);
    vp_report_plan(run, "limit", "%s%s", *plan->limit ? plan->limit : "none",
                   *plan->limit ? ": more would be faster" : "");
}
