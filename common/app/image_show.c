/* SPDX-License-Identifier: BSD-3-Clause */
#include "app/image_internal.h"
#include "base/places.h"
#include "base/size.h"
#include "app/tool.h"

#include <stdio.h>

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
                       "%s of those for tables of operations, what decodes the input and holds back the output",
                       vp_bytes_text(p->beside).text);
    if (plan->kept)
        vp_report_plan(run, "kept", "%s of those to work in stay from slab to slab: no plane is worked on twice",
                       vp_bytes_text(plan->kept).text);
    if (plan->device)
        show_device(run, j, input * (double)vp_type_size(im->type) * im->n,
                    vp_bytes_text((uint64_t)(voxels *
                                             (double)vp_type_size(p->chain->stage[p->chain->n - 1].out))).text);
    vp_report_plan(run, "threads", "%d", p->threads);
    vp_report_plan(run, "limit", "%s%s", *plan->limit ? plan->limit : "none",
                   *plan->limit ? ": more would be faster" : "");
}
