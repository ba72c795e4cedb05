/* SPDX-License-Identifier: BSD-3-Clause */
/* Between the command line and the executor: axes of the inputs, lengths of options, the table of --plan, output. */
#include "run/image.h"
#include "base/size.h"
#include "base/stats.h"
#include "run/execute.h"
#include "stack/axes.h"
#include "stack/open.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TRIES = 8, STEP = 64 << 20 };

/* Below, auto takes one device of several: to start one takes longer than its share of the work. */
static const double WORTH_ALL = 4e9; /* bytes */
/* Work that the CPU does in less is done before a device has started (context and pinned memory). */
static const double WORTH_DEVICE = 0.5; /* seconds */

const struct vp_opt vp_image_chunk[] = {
    {.name = "chunk", .type = VP_T_SIZE, .metavar = "WxHxD", .group = "Images",
     .help = "work on boxes of this size (default: chosen to be fast)",
     .more = "The result does not depend on it; --plan shows what is chosen."},
    VP_OPT_END,
};

const struct vp_opt vp_image_options[] = {
    VP_FLAG(struct vp_image_params, flat, "2d", 0, .group = "Images",
            .help = "every page is an image of its own",
            .more = "Otherwise pages along z make a volume, and each channel at each time is one; pages along other "
                    "axes (view, channel, time) are never mixed."),
    VP_FLAG(struct vp_image_params, physical, "physical", 0,
            .help = "lengths are in the unit of the voxel size, not in voxels",
            .more = "The metadata's `voxel` tells the size of a voxel, and `unit` its unit (img-info shows them)."),
    VP_OPTIONS(struct vp_image_params, chunk, vp_image_chunk),
    VP_OPT_END,
};

struct state {
    int64_t inner, nz, outer;      /* pages = inner * nz * outer; VP_UNKNOWN where the end of a pipe tells */
    bool single[VP_MAX_INPUTS];
    bool all_i8;
    int first;                     /* the stack whose axes and metadata count */
    uint64_t held;                 /* bytes that the reader holds (a page, to see whether another follows) */
};

/* ---- types ---- */

static bool is_signed(enum vp_type t)
{
    return t >= VP_I8 && t <= VP_I64;
}

/* The smallest type that holds the values of both; false if there is none, and f64 is the next best. */
static bool common_type(enum vp_type a, enum vp_type b, enum vp_type *out)
{
    const size_t na = vp_type_size(a), nb = vp_type_size(b), wide = na > nb ? na : nb;
    if (a == b) {
        *out = a;
    } else if (vp_type_is_float(a) || vp_type_is_float(b)) {
        const bool large = (!vp_type_is_float(a) && na > 4) || (!vp_type_is_float(b) && nb > 4);
        const bool narrow = (vp_type_is_float(a) ? na == 4 : na <= 2) && (vp_type_is_float(b) ? nb == 4 : nb <= 2);
        *out = narrow ? VP_F32 : VP_F64;
        return !large;
    } else if (is_signed(a) == is_signed(b)) {
        *out = na > nb ? a : b;
    } else {
        const size_t of_unsigned = is_signed(a) ? nb : na, n = of_unsigned < wide ? wide : 2 * of_unsigned;
        *out = n == 2 ? VP_I16 : n == 4 ? VP_I32 : n == 8 ? VP_I64 : VP_F64;
        return n <= 8;
    }
    return true;
}

/* "u8, u16 or f32" */
static void list_types(unsigned types, char *text, size_t size)
{
    size_t n = 0;
    text[0] = '\0';
    for (int t = 0; t < VP_N_TYPES && n < size; t++) {
        if (!(types & 1u << t))
            continue;
        types &= ~(1u << t);
        n += (size_t)snprintf(text + n, size - n, "%s%s", n == 0 ? "" : types ? ", " : " or ",
                              vp_type_name((enum vp_type)t));
    }
}

static int choose_type(struct vp_images *im, struct vp_run *run, unsigned types, struct vp_err *err)
{
    struct state *s = im->state;
    s->all_i8 = true;
    for (int k = 0; k < im->n; k++) {
        const enum vp_type t = vp_reader_stack(im->reader[k])->type;
        s->all_i8 = s->all_i8 && t == VP_I8;
        if (k == 0) {
            im->type = t;
        } else if (!common_type(im->type, t, &im->type) && !im->params.any_types) {
            vp_fail(err, VP_ERUN, "%s has %s samples and %s %s: no type holds both", vp_reader_name(im->reader[0]),
                    vp_type_name(vp_reader_stack(im->reader[0])->type), vp_reader_name(im->reader[k]), vp_type_name(t));
            return vp_hint(err, "with --type both are taken as f64, or convert one of them: img-convert --type f64");
        }
    }
    if (types & 1u << im->type)
        return 0;
    if (im->type == VP_I8 && types & 1u << VP_I16) {
        im->type = VP_I16;
        return 0;
    }
    s->all_i8 = false;
    char list[80];
    list_types(types | (types & 1u << VP_I16 ? 1u << VP_I8 : 0), list, sizeof list);
    vp_fail(err, VP_ERUN, "%s: expected samples of %s, got %s", vp_reader_name(im->reader[0]), list,
            vp_type_name(im->type));
    return vp_hint(err, "convert first: img-convert --type %s | %s",
                   types & 1u << VP_F32 ? "f32" : types & 1u << VP_F64 ? "f64" : "u16", run->tool->name);
}

/* ---- axes ---- */

static int find_axes(struct vp_images *im, struct vp_err *err)
{
    struct state *s = im->state;
    const struct vp_reader *reader = im->reader[s->first];
    const struct vp_stack *stack = vp_reader_stack(reader);
    struct vp_axes axes;

    vp_axes_get(stack, &axes);
    const int z = vp_axes_z(&axes);
    s->inner = s->nz = s->outer = 1;
    /* pages without a named axis are slices; a single one is just an image */
    im->flat = im->params.flat || (axes.n ? z < 0 : stack->pages == 1);
    if (im->flat) {
        s->outer = stack->pages < 0 ? VP_UNKNOWN : stack->pages;
    } else if (axes.n < 2) {
        s->nz = stack->pages < 0 ? VP_UNKNOWN : stack->pages;
    } else if (axes.sized) {
        for (int i = 0; i < axes.n; i++)
            *(i < z ? &s->inner : i == z ? &s->nz : &s->outer) *= axes.size[i];
    } else {
        const char *sizes = vp_meta_get(&stack->meta, "sizes");
        vp_fail(err, VP_ERUN, "%s: the axes are %s, but how many of each is not known: sizes %s, %lld pages",
                vp_reader_name(reader), vp_meta_get(&stack->meta, "axes"), sizes ? sizes : "are missing",
                (long long)stack->pages);
        return vp_hint(err, "%simg-convert --set sizes=... says how many",
                       im->params.voxels ? "" : "with --2d every page is an image of its own; ");
    }
    if (im->flat && !im->params.flat && !im->params.voxels && stack->pages != 1 && axes.n == 1 &&
        !strcmp(axes.name[0], VP_AXIS_PAGE)) {
        vp_fail(err, VP_ERUN, "%s: what its pages are is not known: the axes are %s", vp_reader_name(reader),
                vp_meta_get(&stack->meta, "axes"));
        return vp_hint(err, "with --2d every page is an image of its own; "
                            "img-convert --set axes=x,y,z makes them a volume");
    }
    im->size[0] = stack->nx;
    im->size[1] = stack->ny;
    im->size[2] = im->flat ? 1 : s->nz;
    const char *unit = vp_meta_get(&stack->meta, "unit");
    im->voxel[0] = im->voxel[1] = im->voxel[2] = 1;
    double v[3];
    if ((vp_meta_numbers(&stack->meta, "voxel", 3, v) && v[2] > 0) ||
        (im->flat && vp_meta_numbers(&stack->meta, "voxel", 2, v))) {
        im->has_voxel = v[0] > 0 && v[1] > 0 && !(unit && !strcmp(unit, "pixel"));
        for (int a = 0; im->has_voxel && a < (im->flat ? 2 : 3); a++)
            im->voxel[a] = v[a];
    }
    return 0;
}

/* Which stacks are one page for all pages of the others. */
static int compare_stacks(struct vp_images *im, struct vp_err *err)
{
    struct state *s = im->state;
    const struct vp_stack *a = vp_reader_stack(im->reader[0]);
    int64_t pages = 1;
    for (int k = 0; k < im->n; k++) {
        const struct vp_stack *b = vp_reader_stack(im->reader[k]);
        if (a->nx != b->nx || a->ny != b->ny)
            return vp_fail(err, VP_ERUN, "%s has pages of %lldx%lld, %s of %lldx%lld: expected the same size",
                           vp_reader_name(im->reader[0]), (long long)a->nx, (long long)a->ny,
                           vp_reader_name(im->reader[k]), (long long)b->nx, (long long)b->ny);
        if (b->pages == 1)
            continue;
        if (pages == 1)
            s->first = k;
        else if (b->pages > 0 && pages > 0 && b->pages != pages)
            return vp_fail(err, VP_ERUN, "%s has %lld pages, %s %lld: expected as many, or one",
                           vp_reader_name(im->reader[s->first]), (long long)pages, vp_reader_name(im->reader[k]),
                           (long long)b->pages);
        if (pages < 0 && b->pages > 0) /* a file knows how long the pipe beside it must be */
            s->first = k;
        pages = pages > 1 ? pages : b->pages;
    }
    for (int k = 0; k < im->n; k++)
        s->single[k] = pages != 1 && vp_reader_stack(im->reader[k])->pages == 1;
    return 0;
}

int vp_images_open(struct vp_images *im, struct vp_run *run, const struct vp_image_params *p, int stacks,
                   unsigned types, struct vp_err *err)
{
    const struct vp_parsed *given = &run->parsed;
    *im = (struct vp_images){.params = *p, .state = calloc(1, sizeof(struct state))};
    if (!im->state)
        return vp_fail(err, VP_ERESOURCE, "not enough memory");
    if (stacks == 1 || given->n_operands <= 1) {
        /* a page and its result are in memory at least */
        const uint64_t hold = stacks == 1 ? run->common.memory / 2 : 0;
        im->n = 1;
        if (vp_open_held(run, hold < SIZE_MAX ? (size_t)hold : SIZE_MAX, p->values ? VP_AS_VALUES : VP_UPRIGHT,
                         &im->reader[0], err)) {
            im->n = 0;
            return -1;
        }
        const struct vp_stack *stack = vp_reader_stack(im->reader[0]);
        const size_t page = vp_page_bytes(stack);
        if (run->common.raw_in && !vp_reader_seekable(im->reader[0]) && stack->pages < 2 && page <= hold)
            ((struct state *)im->state)->held = page;
    } else if (given->n_operands > stacks) {
        return vp_fail(err, VP_EUSAGE, "expected at most %d stacks, got %d", stacks, given->n_operands);
    } else {
        int standard = 0;
        for (int k = 0; k < given->n_operands; k++)
            standard += !strcmp(given->operands[k], "-");
        if (standard > 1)
            return vp_fail(err, VP_EUSAGE, "'-': standard input can be one of the stacks only");
        for (; im->n < given->n_operands; im->n++)
            if (vp_open_values(run, &given->operands[im->n], 1, &im->reader[im->n], err))
                return -1;
    }
    double scale[2];
    im->gain = vp_meta_numbers(&vp_reader_stack(im->reader[0])->meta, "scale", 2, scale) ? scale[0] : 1;
    im->seekable = true;
    for (int k = 0; k < im->n; k++)
        im->seekable = im->seekable && vp_reader_seekable(im->reader[k]);
    return compare_stacks(im, err) || find_axes(im, err) || choose_type(im, run, types, err) ? -1 : 0;
}

void vp_images_join(struct vp_images *im, int64_t *inner, int64_t *nz)
{
    struct state *s = im->state;
    const bool endless = s->nz >= VP_UNKNOWN || s->outer >= VP_UNKNOWN;
    *inner = s->inner;
    *nz = im->flat ? 1 : s->nz;
    s->nz = im->size[2] = endless ? VP_UNKNOWN : s->inner * s->nz * s->outer;
    s->inner = s->outer = 1;
    im->flat = false;
}

int vp_image_lengths(const struct vp_images *im, const char *option, const struct vp_reals *given, double out[3],
                     struct vp_err *err)
{
    const int axes = im->flat ? 2 : 3;
    if (given->n != 1 && given->n != 3 && !(given->n == 2 && im->flat)) {
        vp_fail(err, VP_EUSAGE, "--%s: expected one length%s three, got %d", option, im->flat ? ", two or" : " or",
                given->n);
        return im->flat         ? -1
               : given->n == 2 ? vp_hint(err, "x, y and z; with --2d, where every page is an image of its own, x and y")
                               : vp_hint(err, "x, y and z, or one for all of them");
    }
    if (given->n == 3 && im->flat && given->v[2] != 0) {
        vp_fail(err, VP_EUSAGE, "--%s: %g along z: the pages of this stack stand alone", option, given->v[2]);
        return vp_hint(err, "give x and y only");
    }
    if (im->params.physical && !im->has_voxel)
        return vp_fail(err, VP_ERUN, "--physical: the size of a voxel is not in the metadata of the input");
    out[2] = 0;
    for (int a = 0; a < axes; a++)
        out[a] = given->v[given->n == 1 ? 0 : a] / (im->params.physical ? im->voxel[a] : 1);
    return 0;
}

/* ---- the plan ---- */

/* What is planned for, and with it what the executor must know of devices. */
struct job {
    struct vp_problem problem;
    struct vp_plan plan;
    int device[VP_MAX_DEVICES];
    char name[128];                /* of the first device */
    uint64_t spare;                /* of problem.beside, what the writer takes so that short streams are as files are */
};

static void make_problem(const struct vp_images *im, const struct vp_run *run, const struct vp_chain *chain,
                         enum vp_type result, bool writes, struct vp_problem *p, uint64_t *spare)
{
    const struct state *s = im->state;
    *p = (struct vp_problem){.chain = chain, .image = {im->size[0], im->size[1], im->size[2]}, .inner = s->inner,
                             .outer = s->outer, .threads = (int)run->common.threads,
                             .stored_out = vp_type_size(result)};
    /* what readers and the writer keep; the page that a pipe was looked at for goes before one is held back */
    const bool unknown = s->nz >= VP_UNKNOWN || s->outer >= VP_UNKNOWN;
    const struct vp_stack *first = vp_reader_stack(im->reader[s->first]);
    const struct vp_stack out = {first->nx, first->ny, unknown ? -1 : 1, result, {0, NULL, NULL}};
    const uint64_t least = writes ? vp_output_holds(run, &out, 0) : 0;
    p->beside = writes ? vp_output_holds(run, &out, run->common.memory) : 0;
    *spare = p->beside - least;
    p->beside = p->beside > s->held ? p->beside : s->held;
    for (int k = 0; k < im->n; k++)
        p->beside += vp_reader_holds(im->reader[k], true);
    p->memory = run->common.memory > p->beside ? run->common.memory - p->beside : 0;
    p->rows = vp_output_any_order(run) && !unknown;
    for (int k = 0; k < im->n; k++) {
        p->single[k] = s->single[k];
        if (s->single[k])
            continue;
        p->stored_in += vp_type_size(vp_reader_stack(im->reader[k])->type);
        p->rows = p->rows && vp_reader_concurrent(im->reader[k]);
    }
    for (int a = 0; a < im->params.chunk.n; a++)
        p->chunk[a] = im->params.chunk.v[a];
    if (im->params.chunk.n == 1)
        p->chunk[1] = p->chunk[2] = p->chunk[0];
}

/* Voxels of all images; a great many if a pipe does not say. */
static double voxels_of(const struct vp_images *im, const struct vp_problem *p)
{
    return (double)im->size[0] * (double)im->size[1] * (p->image[2] < VP_UNKNOWN ? (double)p->image[2] : 1e9)
           * (p->outer < VP_UNKNOWN ? (double)p->outer : 1e9) * (double)p->inner;
}

/* What the CPU would take, roughly. */
static double cpu_seconds(const struct vp_images *im, const struct vp_run *run, const struct vp_problem *p)
{
    double cost = 0;

    for (int s = 0; s < p->chain->n; s++)
        cost += p->chain->stage[s].cost;
    return voxels_of(im, p) * cost * 1e-9 / (double)run->common.threads;
}

/* The devices that --device names, if they can run the chain. */
static int find_devices(const struct vp_images *im, struct vp_run *run, struct job *j, struct vp_err *err)
{
    struct vp_problem *p = &j->problem;
    const bool automatic = !strcmp(run->common.device, "auto");
    int *devices = NULL, n = 0;
    char why[256] = "";
    int rc = 0;

    p->kind = NULL;
    if (!(run->tool->flags & VP_TOOL_CUDA) || !strcmp(run->common.device, "cpu"))
        return 0;
    if (automatic && cpu_seconds(im, run, p) < WORTH_DEVICE)
        return 0;
    const struct vp_kind *kind = NULL;
    if (vp_devices_find(&kind, &devices, &n, run->common.device, err))
        return -1;
    if (kind->on_host) {
        if (*vp_devices_refused())
            vp_warn(run, "on the CPU: %s", vp_devices_refused());
        goto out;
    }
    if (!vp_lanes_have(kind, p->chain, why, sizeof why)) {
        if (automatic)
            vp_note(run, "on the CPU: %s: %s", kind->name, why);
        else
            rc = vp_fail(err, VP_ERESOURCE, "device %s: %s", run->common.device, why),
            vp_hint(err, "use --device cpu, or auto");
        goto out;
    }
    if (automatic && voxels_of(im, p) * (double)p->stored_in < WORTH_ALL)
        n = 1;
    p->devices = 0;
    for (int i = 0; i < n && p->devices < VP_MAX_DEVICES && !rc; i++) {
        struct vp_device_info info = {0};
        rc = kind->info(devices[i], &info, err);
        if (i == 0)
            snprintf(j->name, sizeof j->name, "%s", info.name);
        j->device[p->devices] = devices[i];
        p->free[p->devices++] = info.free / 10 * 9 / STEP * STEP; /* like devices get like plans */
    }
    if (!rc)
        p->kind = kind;
    else if (automatic) {
        vp_note(run, "on the CPU: %s", err->msg);
        *err = (struct vp_err)VP_ERR_INIT;
        rc = 0;
    }
out:
    free(devices);
    return rc;
}

static int make_plan(const struct vp_images *im, struct vp_run *run, struct job *j, struct vp_err *err)
{
    if (!vp_plan_make(&j->plan, &j->problem, err))
        return 0;
    if (err->code == VP_ERESOURCE && j->spare) { /* not worth a refusal */
        const uint64_t spare = vp_min64((int64_t)j->spare, (int64_t)j->problem.beside);
        j->problem.beside -= spare;
        j->problem.memory += spare;
        *err = (struct vp_err)VP_ERR_INIT;
        if (!vp_plan_make(&j->plan, &j->problem, err))
            return 0;
    }
    if (j->problem.kind && !strcmp(run->common.device, "auto") && err->code == VP_ERESOURCE) {
        vp_note(run, "on the CPU: %s", err->msg);
        *err = (struct vp_err)VP_ERR_INIT;
        j->problem.kind = NULL;
        if (!vp_plan_make(&j->plan, &j->problem, err))
            return 0;
    }
    if (err->code != VP_ERESOURCE)
        return -1;
    return vp_hint(err, j->problem.rows ? "allow more with --memory"
                        : im->seekable
                            ? "allow more with --memory, or give uncompressed files, and one to write with -o"
                            : "allow more with --memory, or give files (or --spool), and one to write with -o");
}

/* Problem, device and plan; `writes`: the result is written, bands of it in any order where that can be. */
static int prepare(const struct vp_images *im, struct vp_run *run, const struct vp_chain *chain, enum vp_type stored,
                   bool writes, struct job *j, struct vp_err *err)
{
    for (int s = 0; s < chain->n; s++)
        if (chain->stage[s].whole[2] && im->size[2] >= VP_UNKNOWN) {
            vp_fail(err, VP_EUSAGE,
                    "%s: how many pages a pipe has is not known before its end, but %s needs all of them",
                    vp_reader_name(im->reader[0]), chain->stage[s].kernel);
            return vp_hint(err, "give a file, or --spool");
        }
    memset(j, 0, sizeof *j);
    make_problem(im, run, chain, stored, writes, &j->problem, &j->spare);
    j->problem.rows = j->problem.rows && writes;
    return find_devices(im, run, j, err) || make_plan(im, run, j, err) ? -1 : 0;
}

static const char *count(char *text, size_t size, int64_t n)
{
    if (n >= VP_UNKNOWN)
        snprintf(text, size, "?");
    else
        snprintf(text, size, "%lld", (long long)n);
    return text;
}

/* "12, 12, 3": how deep the parts are on each device; one number if all have the same. */
static void list_depths(const struct job *j, char *text, size_t size)
{
    const struct vp_plan *plan = &j->plan;
    bool same = true;
    size_t n = 0;
    for (int d = 1; d < j->problem.devices; d++)
        same = same && plan->depth[d] == plan->depth[0];
    text[0] = '\0';
    for (int d = 0; d < (same ? 1 : j->problem.devices) && n < size; d++)
        n += (size_t)snprintf(text + n, size - n, "%s%lld", d ? ", " : "", (long long)plan->depth[d]);
}

static void show_device(struct vp_run *run, const struct job *j, const double input, const char *back)
{
    const struct vp_problem *p = &j->problem;
    const struct vp_plan *plan = &j->plan;
    char a[32], b[32], depths[128];
    uint64_t least = p->free[0], most = p->free[0];
    for (int i = 1; i < p->devices; i++) {
        least = p->free[i] < least ? p->free[i] : least;
        most = p->free[i] > most ? p->free[i] : most;
    }
    list_depths(j, depths, sizeof depths);
    vp_plan(run, "device", "%d x %s: at most %s of %s%s%s", p->devices, j->name,
            vp_format_bytes(a, sizeof a, plan->on_device), vp_format_bytes(b, sizeof b, least),
            most > least ? " to " : "", most > least ? vp_format_bytes((char[32]){0}, 32, most) : "");
    vp_plan(run, "workers", "%d, each with %d set%s of buffers, in chunks of %s planes", plan->workers, plan->lanes,
            plan->lanes > 1 ? "s" : "", depths);
    if (input > 0)
        vp_plan(run, "transfers", "to the device %.3f times the input, %s; back %s%s", plan->copied,
                vp_format_bytes(a, sizeof a, (uint64_t)(plan->copied * input)), back,
                plan->stream ? "; planes that chunks share stay there" : "");
    else
        vp_plan(run, "transfers", "to the device %.3f times the input; back the output%s", plan->copied,
                plan->stream ? "; planes that chunks share stay there" : "");
}

static void show(const struct vp_images *im, struct vp_run *run, const struct job *j, enum vp_type stored_out)
{
    const struct state *s = im->state;
    const struct vp_problem *p = &j->problem;
    const struct vp_plan *plan = &j->plan;
    const bool endless = p->image[2] >= VP_UNKNOWN || p->outer >= VP_UNKNOWN;
    const double voxels = endless ? 0 : (double)p->image[0] * (double)p->image[1] * (double)p->image[2]
                                            * (double)p->inner * (double)p->outer;
    char a[32], b[32], c[32], d[32];
    int64_t halo[3];

    vp_chain_halo(p->chain, halo);
    vp_plan(run, "image", "%lld x %lld x %s, %s to %s", (long long)im->size[0], (long long)im->size[1],
            count(a, sizeof a, im->size[2]), vp_type_name(im->type), vp_type_name(stored_out));
    if (s->inner > 1 || s->outer != 1)
        vp_plan(run, "images", "%s side by side, %s after one another", count(a, sizeof a, s->inner),
                count(b, sizeof b, s->outer));
    for (int i = 0; i < p->chain->n; i++)
        vp_plan(run, "operation", "%s",
                p->chain->stage[i].text[0] ? p->chain->stage[i].text : p->chain->stage[i].kernel);
    vp_plan(run, "halo", "%lld x %lld x %lld voxels on every side", (long long)halo[0], (long long)halo[1],
            (long long)halo[2]);
    if (endless)
        vp_plan(run, "volume", "as long as the pipe, read %.3f times", plan->read);
    else
        vp_plan(run, "volume", "%s of input, read %.3f times; %s of output",
                vp_format_bytes(a, sizeof a, (uint64_t)(voxels * (double)p->stored_in)), plan->read,
                vp_format_bytes(b, sizeof b, (uint64_t)(voxels * (double)p->stored_out)));
    if (plan->bands > 1)
        vp_plan(run, "bands", "%lld of %lld rows, one after the other", (long long)plan->bands, (long long)plan->band);
    if (endless)
        vp_plan(run, "slabs", "%lld page%s of output each", (long long)(plan->slab * s->inner),
                plan->slab * s->inner > 1 ? "s" : "");
    else
        vp_plan(run, "slabs", "%lld of %lld page%s of output each",
                (long long)((p->image[2] * p->outer + plan->slab - 1) / plan->slab), (long long)(plan->slab * s->inner),
                plan->slab * s->inner > 1 ? "s" : "");
    vp_plan(run, "chunks", "%lld x %lld x %lld, with the halo %lld x %lld x %lld; %lld x %lld x %lld of them a slab%s",
            (long long)plan->part[0], (long long)plan->part[1], (long long)plan->part[2], (long long)plan->in[0],
            (long long)plan->in[1], (long long)plan->in[2], (long long)plan->parts[0], (long long)plan->parts[1],
            (long long)plan->parts[2], plan->together > 1 ? ", a thread on each" : "");
    vp_plan(run, "host", "%s of %s: %s for %lld pages of input, %s for %d slab%s of output, %s to work in",
            vp_format_bytes(a, sizeof a, plan->host + p->beside), vp_format_bytes(b, sizeof b, p->memory + p->beside),
            vp_format_bytes(c, sizeof c, plan->input), (long long)(plan->window * s->inner),
            vp_format_bytes(d, sizeof d, plan->output), plan->slabs, plan->slabs > 1 ? "s" : "",
            vp_format_bytes((char[32]){0}, 32, plan->scratch));
    if (p->beside)
        vp_plan(run, "beside", "%s of those for what decodes the input and holds back the output",
                vp_format_bytes(a, sizeof a, p->beside));
    if (plan->kept)
        vp_plan(run, "kept", "%s of those to work in stay from slab to slab: no plane is worked on twice",
                vp_format_bytes(a, sizeof a, plan->kept));
    if (plan->device)
        show_device(run, j, voxels * (double)vp_type_size(im->type) * im->n,
                    vp_format_bytes(a, sizeof a,
                                    (uint64_t)(voxels * (double)vp_type_size(p->chain->stage[p->chain->n - 1].out))));
    vp_plan(run, "threads", "%d", p->threads);
    vp_plan(run, "limit", "%s%s", *plan->limit ? plan->limit : "none",
            *plan->limit ? ": with more the work would be quicker" : "");
}

/* ---- running ---- */

static enum vp_type stored_type(const struct vp_images *im, const struct vp_chain *chain)
{
    const struct state *s = im->state;
    const enum vp_type out = chain->stage[chain->n - 1].out;
    return s->all_i8 && im->type == VP_I16 && out == VP_I16 ? VP_I8 : out;
}

/* Run the plan; where a device has less memory than it said, with smaller plans. */
static int execute(struct vp_images *im, struct vp_run *run, struct vp_chain *chain, struct job *j,
                   struct vp_execute *e, struct vp_err *err)
{
    bool full = false;
    e->problem = &j->problem;
    e->plan = &j->plan;
    e->chain = chain;
    e->held = im->type;
    for (int k = 0; k < im->n; k++)
        e->reader[k] = im->reader[k];
    memcpy(e->device, j->device, sizeof e->device);
    e->stats = run->stats;
    e->progress = run->progress;
    for (int i = 0; i < TRIES; i++) {
        vp_stats_text(run->stats, "device", j->problem.kind ? j->problem.kind->name : "cpu");
        const int rc = vp_execute(e, &full, err);
        if (!rc && e->smaller)
            vp_note(run, "a device ran short of memory %d time%s: the work went on in smaller parts", e->smaller,
                    e->smaller > 1 ? "s" : "");
        if (!rc || !full || i == TRIES - 1)
            return rc;
        vp_note(run, "%s: planning smaller parts", err->msg);
        const struct vp_err why = *err;
        *err = (struct vp_err)VP_ERR_INIT;
        for (int d = 0; d < j->problem.devices; d++)
            j->problem.free[d] = j->problem.free[d] / 10 * 7;
        if (make_plan(im, run, j, err)) {
            *err = why; /* the cause: there was less than planned */
            return -1;
        }
    }
    return -1;
}

/* What the samples now are. */
static int describe(struct vp_meta *meta, const struct vp_result *result)
{
    double scale[2];
    int rc = 0;

    if (!result)
        return 0;
    if (result->quantity)
        rc = vp_meta_set(meta, "quantity", *result->quantity ? result->quantity : NULL)
             || vp_meta_set(meta, "value-unit", NULL);
    if (rc || result->values == VP_VALUES || !vp_meta_numbers(meta, "scale", 2, scale))
        return rc;
    return result->values == VP_DIFFERENCES ? vp_meta_setf(meta, "scale", "%.17g 0", scale[0])
           : result->values == VP_SPREADS   ? vp_meta_setf(meta, "scale", "%.17g 0", fabs(scale[0]))
           : result->values == VP_SQUARES   ? vp_meta_setf(meta, "scale", "%.17g 0", scale[0] * scale[0])
                                            : vp_meta_set(meta, "scale", NULL);
}

/* Of the result: its metadata and length. Then it is opened. */
static int open_result(const struct vp_images *im, struct vp_run *run, enum vp_type stored,
                       const struct vp_result *result, struct vp_writer **writer, struct vp_err *err)
{
    const struct state *s = im->state;
    struct vp_stack out = {0};
    int rc = -1;

    if (vp_stack_copy(&out, vp_reader_stack(im->reader[s->first])) || describe(&out.meta, result)) {
        vp_fail(err, VP_ERESOURCE, "not enough memory for the metadata");
    } else {
        out.type = stored;
        if (s->outer < VP_UNKNOWN && s->nz < VP_UNKNOWN)
            out.pages = s->inner * s->nz * s->outer;
        rc = vp_open_output(run, &out, writer, err);
    }
    vp_stack_free(&out);
    return rc;
}

int vp_images_run(struct vp_images *im, struct vp_run *run, struct vp_chain *chain, const struct vp_result *result,
                  struct vp_err *err)
{
    const enum vp_type stored = stored_type(im, chain);
    /* while a device starts, memory for a file in memory gets ready; others get nothing before all is well */
    const bool early = vp_output_any_order(run) && !run->common.plan;
    struct job job;
    struct vp_writer *writer = NULL;
    int rc = -1;

    if (early && open_result(im, run, stored, result, &writer, err))
        goto out;
    if (prepare(im, run, chain, stored, true, &job, err))
        goto out;
    show(im, run, &job, stored);
    if (vp_plan_done(run)) {
        rc = 0;
        goto out;
    }
    if (!early && open_result(im, run, stored, result, &writer, err))
        goto out;
    if (job.plan.bands > 1 && !vp_writer_random(writer)) {
        job.problem.rows = false;
        if (make_plan(im, run, &job, err))
            goto out;
    }
    struct vp_execute e = {.writer = writer, .stored_out = stored};
    rc = execute(im, run, chain, &job, &e, err);
out:
    for (int k = im->n - 1; k > 0; k--) {
        struct vp_err late = VP_ERR_INIT;
        vp_stats_count(run->stats, "bytes_read", vp_reader_bytes(im->reader[k]));
        if (vp_reader_close(im->reader[k], rc || run->common.plan ? &late : err))
            rc = -1;
        im->reader[k] = NULL;
    }
    if (vp_close(run, im->reader[0], writer, rc != 0, err))
        rc = -1;
    im->reader[0] = NULL;
    im->n = 0;
    return rc;
}

void vp_images_close(struct vp_images *im)
{
    for (int k = 0; k < im->n; k++)
        vp_reader_close(im->reader[k], NULL);
    free(im->state);
    *im = (struct vp_images){0};
}

int vp_images_scan(struct vp_images *im, struct vp_run *run, struct vp_chain *chain,
                   int (*page)(void *ctx, int64_t page, const void *samples, int64_t n, struct vp_err *err), void *ctx,
                   struct vp_err *err)
{
    struct vp_execute e = {.page = page, .ctx = ctx, .stored_out = chain->stage[chain->n - 1].out};
    struct job job;

    if (!im->seekable) {
        for (int k = 0; k < im->n; k++)
            if (!vp_reader_seekable(im->reader[k]))
                vp_fail(err, VP_EUSAGE, "%s: the samples are read twice, which a pipe cannot give",
                        vp_reader_name(im->reader[k]));
        return vp_hint(err, "give a file, or --spool");
    }
    int rc = prepare(im, run, chain, e.stored_out, false, &job, err);
    if (!rc && run->common.plan)
        return 0;
    rc = rc || execute(im, run, chain, &job, &e, err) ? -1 : 0;
    for (int k = 0; k < im->n && !rc; k++)
        rc = vp_reader_seek(im->reader[k], 0, err);
    return rc;
}
