/* SPDX-License-Identifier: BSD-3-Clause */
/* Chunks are invisible: the chain of every program for local operations, with random parameters on random images, gives
 * under random plans, on the CPU and on devices, the bytes of one chunk by one thread; every voxel is made once and
 * every page comes once. All in one process, because to start a GPU takes longer than hundreds of plans.
 *
 *     plans_test [PLANS [SEED [FAMILY]]]     PLANS plans of each family (one for each program)
 *
 * $VOXPIPE_DEVICES lists sets of devices, in the words of --device: "cpu cuda:0 cuda:0,1"; each plan takes one of them.
 * pretend:N are N pretended devices (plans.h). */
#include "app/image_run.h"
#include "global/sat.h"
#include "plans.h"
#include "../plans/family.h"

#include <malloc.h>
#include <signal.h>
#include <stdarg.h>

enum { MAX_SETS = 8, TRIES = 8 };
/* Milliseconds of one core that a plan may take, roughly, and parts of a plan for a real device. */
static const double LONGEST = 20;
static const double MOST_PARTS = 400;

static char dir[] = "/tmp/plans_test.XXXXXX";

enum { MAX_FAMILIES = 64 };
static const struct family *families[MAX_FAMILIES];
static int n_families;

void family_enter(const struct family *f)
{
    if (n_families < MAX_FAMILIES)
        families[n_families++] = f;
}

static struct set {
    const char *name;
    struct vp_backend backend; /* with functions of ours in between; .name NULL: the CPU */
    const struct vp_backend *under;
    bool real;
    int *device, n;
} sets[MAX_SETS];
static int n_sets;
static const struct set *now; /* the one of the plan that runs */

/* ---- what is made, and how often ---- */

static struct {
    int64_t n[3];
    int *count;
    const struct vp_op *last; /* of the chain that runs */
    int (*run)(const struct vp_op *op, const struct vp_part *in, const struct vp_part *out, void *scratch,
               int threads, struct vp_err *err);
    struct vp_carry carry, counted_carry; /* its own, and with functions of ours in between */
    struct vp_two_pass two_pass, counted_two_pass;
} tally;

static void add_tally(const struct vp_box *b)
{
    for (int64_t z = b->lo[2]; z < b->hi[2]; z++)
        for (int64_t y = b->lo[1]; y < b->hi[1]; y++)
            for (int64_t x = b->lo[0]; x < b->hi[0]; x++) {
                #pragma omp atomic
                tally.count[(z * tally.n[1] + y) * tally.n[0] + x]++;
            }
}

static int counted_run(const struct vp_op *op, const struct vp_part *in, const struct vp_part *out, void *scratch,
                       int threads, struct vp_err *err)
{
    add_tally(&out->box);
    return tally.run(op, in, out, scratch, threads, err);
}

static int counted_advance(const struct vp_op *op, const struct vp_part *in, const struct vp_part *out, void *scratch,
                           void *state, int threads, struct vp_err *err)
{
    add_tally(&out->box);
    return tally.carry.advance(op, in, out, scratch, state, threads, err);
}

static int counted_finish(const struct vp_op *op, const struct vp_part *in, const struct vp_part *out,
                          const void *entry, void *scratch, int threads, struct vp_err *err)
{
    add_tally(&out->box);
    return tally.two_pass.finish(op, in, out, entry, scratch, threads, err);
}

static int counted_launch(const struct vp_op *op, const struct vp_work *work, struct vp_err *err)
{
    if (op == tally.last && work->pass != VP_SUMMARY && work->pass != VP_LOCAL && work->pass != VP_GATHER)
        add_tally(&work->out->box);
    return now->under->kernel(op->kernel)->launch(op, work, err);
}

/* The kernel of that name, but for its launch. */
static const struct vp_kernel *counted_kernel(const char *name)
{
    static struct vp_kernel counted[64];
    static int n;
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    const struct vp_kernel *k = now->under->kernel(name), *found = NULL;

    pthread_mutex_lock(&lock);
    for (int i = 0; k && i < n; i++)
        found = counted[i].has == k->has && !strcmp(counted[i].name, k->name) ? &counted[i] : found;
    if (k && !found && n < 64) {
        counted[n] = *k;
        counted[n].launch = counted_launch;
        found = &counted[n++];
    }
    pthread_mutex_unlock(&lock);
    return found;
}

/* Full of what no image has; ordinary memory gets that from M_PERTURB. */
static void *canary_alloc(size_t n)
{
    void *p = now->under->host_alloc(n);
    return p ? memset(p, 0xA5, n) : NULL;
}

/* What was before, to a part of a table that was made without (as a pretended device has it). */
static void add_before(const struct vp_op *op, const struct vp_area *out, const void *state)
{
    const struct vp_sat *p = op->params;
    for (int64_t z = 0; z < vp_box_size(&out->box, 2); z++)
        for (int64_t y = 0; y < vp_box_size(&out->box, 1); y++)
            for (int64_t x = 0; x < vp_box_size(&out->box, 0); x++) {
                const int64_t at = z * out->plane + y * out->pitch + x, from = y * p->width + x;
                if (p->sum[0] == VP_SAT_U32)
                    ((uint32_t *)out->data)[at] += ((const uint32_t *)state)[from];
                else if (p->sum[0] == VP_SAT_U64)
                    ((uint64_t *)out->data)[at] += ((const uint64_t *)state)[from];
                else
                    ((double *)out->data)[at] = ((const double *)state)[from] + ((double *)out->data)[at];
            }
}

/* ---- the devices ---- */

static bool add_set(const char *name)
{
    struct set *s = &sets[n_sets++];
    struct vp_err err = VP_ERR_INIT;

    *s = (struct set){.name = name};
    if (!strncmp(name, "pretend:", 8)) {
        s->n = atoi(name + 8);
        s->under = &pretended;
        s->device = calloc(VP_MAX_DEVICES, sizeof *s->device);
        for (int i = 0; i < VP_MAX_DEVICES; i++)
            s->device[i] = 5 + i;
    } else if (vp_devices_find(&s->under, &s->device, &s->n, name, &err)) {
        printf("%s\n", err.msg);
        return false;
    }
    if (s->n < 1 || s->n > VP_MAX_DEVICES || (!s->under->on_host && !s->under->kernel)) {
        printf("%s: expected 1 to %d devices with local operations\n", name, VP_MAX_DEVICES);
        return false;
    }
    s->real = s->under != &pretended && s->under != &vp_cpu;
    if (s->under == &vp_cpu)
        return true;
    s->backend = *s->under;
    s->backend.kernel = counted_kernel;
    s->backend.host_alloc = canary_alloc;
    return true;
}

/* ---- parameters ---- */

void say(struct params *p, const char *format, ...)
{
    const size_t n = strlen(p->text);
    va_list args;

    va_start(args, format);
    vsnprintf(p->text + n, sizeof p->text - n, format, args);
    va_end(args);
}

int64_t draw_int(int64_t lo, int64_t hi)
{
    return dice(lo, hi);
}

double draw_tenth(double lo, double hi)
{
    return (double)dice((int64_t)(lo * 10), (int64_t)(hi * 10)) / 10;
}

int64_t draw_number(const int64_t *list, int64_t n)
{
    return list[dice(0, n - 1)];
}

const char *draw_text(const char *const *list, int64_t n)
{
    return list[dice(0, n - 1)];
}

struct vp_reals draw_lengths(struct params *p, const struct scene *s, const char *option, double lo, double hi)
{
    struct vp_reals r = {.n = dice(0, 1) ? 1 : 3};
    for (int a = 0; a < r.n; a++)
        r.v[a] = a == 2 && s->flat ? 0 : draw_tenth(lo, hi);
    say(p, r.n == 1 ? " --%s %g" : " --%s %g,%g,%g", option, r.v[0], r.v[1], r.v[2]);
    return r;
}

enum vp_edge draw_edge(struct params *p)
{
    static const char *const name[] = {"renormalize", "nearest", "mirror", "zero", "wrap"};
    const int e = (int)ONE_OF(0, 0, 1, 2, 3, 4);
    say(p, " --edge %s", name[e]);
    return (enum vp_edge)e;
}

struct window draw_window(struct params *p, const struct scene *s)
{
    struct window w = {.n = {1, 1, 1}};

    if (dice(0, 3) == 0) { /* sparse and dense sets */
        const int sparse = (int)dice(1, 4);
        int64_t n = 1;
        for (int a = 0; a < 3; a++) {
            w.n[a] = a == 2 && s->flat ? 1 : dice(1, 6 - a);
            w.center[a] = dice(0, w.n[a] - 1);
            n *= w.n[a];
        }
        for (int64_t i = 0; i < n; i++)
            w.sample[i] = dice(0, sparse) == 0;
        w.sample[dice(0, n - 1)] = 1;
        say(p, " --footprint %dx%dx%d --center %d,%d,%d", (int)w.n[0], (int)w.n[1], (int)w.n[2], (int)w.center[0],
            (int)w.center[1], (int)w.center[2]);
        w.params.file = "random";
        return w;
    }
    const int shape = dice(0, 2) == 0;
    say(p, " --shape %s", shape ? "ball" : "box");
    const int64_t most = shape ? ONE_OF(1, 2, 4) : ONE_OF(1, 2, 4, 20);
    w.params = (struct vp_footprint_params){draw_lengths(p, s, "radius", 0, (double)most), shape, NULL, {0}};
    return w;
}

int make_window(struct vp_footprint *f, const struct window *w, const struct vp_images *im, struct vp_err *err)
{
    return w->params.file ? vp_footprint_set(f, w->sample, w->n, w->center, err)
                          : vp_footprint_make(f, &w->params, im, err);
}

int64_t draw_iterations(struct params *p, int64_t most)
{
    const int64_t n = dice(0, 2) ? 1 : dice(1, most);
    say(p, " --iterations %d", (int)n);
    return n;
}

enum vp_type draw_type(struct params *p)
{
    const bool f32 = dice(0, 3) == 0;
    if (f32)
        say(p, " --type f32");
    return f32 ? VP_F32 : VP_N_TYPES;
}

double grey(const struct scene *s)
{
    return s->held == VP_F32 ? 1 / 7. : s->held == VP_U8 || s->stored[0] == VP_I8 ? 1 : 200;
}

static void draw(struct params *p, const struct scene *s, const struct family *f)
{
    *p = (struct params){.family = f, .out = VP_N_TYPES};
    say(p, "%s%s", f->program, s->flat && !f->pages ? " --2d" : "");
    f->draw(p, s);
}

/* Makes the chain of the program. *lost: img-math's counter of samples that do not fit, or NULL. */
static int make_chain(struct vp_chain *c, const struct params *p, const struct scene *s, bool unknown, int64_t **lost,
                      struct vp_err *err)
{
    struct request r = {.scene = s, .out = p->out == VP_N_TYPES ? s->held : p->out,
                        .im = {.n = s->stacks, .flat = s->flat, .type = s->held, .scale = {1, 0},
                               .size = {s->n[0], s->n[1], unknown && s->outer == 1 ? VP_UNKNOWN : s->n[2]}}};

    *c = (struct vp_chain){0};
    const int rc = p->family->chain(c, &r, err);
    *lost = r.lost;
    return rc ? -1 : 0;
}

/* Sums in float64, whose order is another one on GPUs, and NaN, whose bits are others. */
static bool may_differ(const struct vp_chain *c, const struct scene *s)
{
    for (int i = 0; i < c->n; i++) {
        const struct vp_op *op = &c->stage[i];
        const char *k = op->kernel;
        if (!strcmp(k, "convolve") || !strcmp(k, "deconvolve")) /* by other transforms */
            return true;
        if ((op->in == VP_F32 || op->out == VP_F32)
            && (!strcmp(k, "mean") || !strcmp(k, "var") || !strcmp(k, "std") || !strcmp(k, "wiener")
                || !strcmp(k, "above")))
            return true;
    }
    return s->odd;
}

static double cost_of(const struct vp_chain *c)
{
    double sum = 0;
    for (int i = 0; i < c->n; i++)
        sum += c->stage[i].cost;
    return sum * 1e-6;
}

/* ---- images ---- */

static int64_t pages_of(const struct scene *s)
{
    return s->inner * s->n[2] * s->outer;
}

static int64_t results_of(const struct scene *s)
{
    return s->inner * s->result[2] * s->outer;
}

static size_t result_bytes(const struct scene *s)
{
    return (size_t)(s->result[0] * s->result[1] * results_of(s)) * vp_type_size(s->stored_out);
}

/* Blocks of grey with noise, so that differences and ties both occur. */
static void make_stack(struct scene *s, int k, const int64_t image[3], int64_t pages)
{
    static int number;
    const int64_t n = image[0] * image[1] * pages;
    const enum vp_type type = s->stored[k];
    double *v = malloc((size_t)n * sizeof *v);
    void *stored = malloc((size_t)n * vp_type_size(type));

    for (int64_t i = 0; i < n; i++) {
        const int64_t x = i % image[0], y = i / image[0] % image[1], z = i / image[0] / image[1];
        v[i] = (double)((x / 7 + y / 5 + z / 3) % 5 * 40 + dice(0, 49));
        if (vp_type_is_float(type))
            v[i] = s->odd && dice(0, 400) == 0 ? NAN : v[i] / 7 - 12 + (double)dice(0, 99) / 1000;
        else if (type == VP_I8)
            v[i] -= 128;
        else if (type == VP_U32 || type == VP_I32)
            v[i] = v[i] * 2e7 + (double)dice(0, 9999999) - (type == VP_I32 ? 2147483648. : 0);
        else if (type != VP_U8)
            v[i] = v[i] * 200 + (double)dice(0, 199) - (type == VP_I16 ? 25600 : 0);
    }
    vp_convert(stored, type, v, VP_F64, n, 1, 0);
    s->data[k] = malloc((size_t)n * vp_type_size(s->held));
    vp_convert(s->data[k], s->held, stored, type, n, 1, 0);
    snprintf(s->path[k], sizeof s->path[k], "%s/%d.raw", dir, number++);
    FILE *f = fopen(s->path[k], "wb");
    CHECK(f && fwrite(stored, vp_type_size(type), (size_t)n, f) == (size_t)n && !fclose(f));
    free(stored);
    free(v);
}

static void make_scene(struct scene *s, const struct family *family)
{
    static const enum vp_type types[] = {VP_U8, VP_U16, VP_I16, VP_F32, VP_F32, VP_I8};
    const int64_t larger = dice(0, 3) == 0 ? 2 : 1;
    int64_t channels = 1, times = 1;

    *s = (struct scene){.stacks = 1};
    s->n[0] = dice(1, ONE_OF(40, 40, 60, 9, 3, 1) * larger);
    s->n[1] = dice(1, ONE_OF(32, 32, 20, 9, 3, 1) * larger);
    s->n[2] = dice(1, ONE_OF(20, 20, 12, 6, 2, 1));
    s->flat = dice(0, 5) == 0;
    if (!s->flat && dice(0, 3) == 0) {
        channels = dice(1, 3);
        times = dice(1, 3);
    }
    s->stored[0] = s->stored[1] = types[dice(0, 5)];
    s->held = s->stored[0] == VP_I8 && !family->pages ? VP_I16 : s->stored[0];
    s->inner = channels;
    s->outer = times;
    if (family->adapt)
        family->adapt(s);
    s->odd = vp_type_is_float(s->held) && dice(0, 3) == 0;
    if (s->flat) {
        s->outer = s->n[2];
        s->n[2] = 1;
    }
    for (int k = 0; k < s->stacks; k++)
        make_stack(s, k, s->n, k && s->single ? 1 : pages_of(s));
}

static void free_scene(struct scene *s)
{
    for (int k = 0; k < s->stacks; k++) {
        unlink(s->path[k]);
        free(s->data[k]);
    }
    free(s->want[0]);
    free(s->want[1]);
}

/* What one chunk by one thread makes of every image. */
static int make_want(struct scene *s, struct vp_chain *c, int64_t *lost, struct vp_err *err)
{
    const size_t size = vp_type_size(s->held), made = vp_type_size(s->made), out = vp_type_size(s->stored_out);
    const int64_t page = s->n[0] * s->n[1], made_page = s->result[0] * s->result[1];
    const size_t voxels = (size_t)(page * s->n[2]);
    char *in[2] = {malloc(voxels * size), malloc(voxels * size)}, *result = malloc((size_t)(made_page * s->result[2]) * made);
    const void *given[2] = {in[0], in[1]};
    int rc = 0;

    s->want[0] = malloc(result_bytes(s));
    for (int64_t i = 0; i < s->inner * s->outer && !rc; i++) {
        const int64_t first = i / s->inner * s->n[2] * s->inner + i % s->inner;
        for (int k = 0; k < s->stacks; k++)
            for (int64_t z = 0; z < s->n[2]; z++)
                memcpy(in[k] + (size_t)(z * page) * size,
                       (char *)s->data[k] + (k && s->single ? 0 : (size_t)((first + z * s->inner) * page) * size),
                       (size_t)page * size);
        rc = vp_chain_apply(c, given, result, 1, err);
        const int64_t first_made = i / s->inner * s->result[2] * s->inner + i % s->inner;
        for (int64_t z = 0; z < s->result[2]; z++)
            vp_convert((char *)s->want[0] + (size_t)((first_made + z * s->inner) * made_page) * out, s->stored_out,
                       result + (size_t)(z * made_page) * made, s->made, made_page, 1, 0);
    }
    if (lost)
        s->lost[0] += *lost;
    free(in[0]);
    free(in[1]);
    free(result);
    return rc;
}

/* ---- runs ---- */

struct trial {
    const struct set *set;
    bool piped, unknown, file, chosen; /* chosen: by the planner */
    struct vp_problem problem;
    struct vp_plan plan;
};

/* What stands in the file becomes what was got. */
static bool read_back(const char *path, void *data, size_t bytes)
{
    FILE *f = fopen(path, "rb");
    const bool ok = f && fread(data, 1, bytes, f) == bytes && fgetc(f) == EOF;
    if (f)
        fclose(f);
    return ok;
}

/* Samples that differ; the first of them is *at. NaN is NaN. */
static int64_t compare(const void *got, const void *want, enum vp_type type, int64_t n, int64_t *at)
{
    const size_t size = vp_type_size(type);
    int64_t wrong = 0;
    for (int64_t i = n - 1; memcmp(got, want, (size_t)n * size) && i >= 0; i--) {
        const char *g = (const char *)got + (size_t)i * size, *w = (const char *)want + (size_t)i * size;
        double a, b;
        if (!memcmp(g, w, size))
            continue;
        vp_convert(&a, VP_F64, g, type, 1, 1, 0);
        vp_convert(&b, VP_F64, w, type, 1, 1, 0);
        if (isnan(a) && isnan(b))
            continue;
        wrong++;
        *at = i;
    }
    return wrong;
}

static const char *size_text(char text[24], int64_t n)
{
    snprintf(text, 24, n >= VP_UNKNOWN ? "?" : "%lld", (long long)n);
    return text;
}

static void show(const struct trial *t, const struct params *p, const struct scene *s, const struct vp_chain *c)
{
    const struct vp_problem *q = &t->problem;
    const struct vp_plan *plan = &t->plan;
    char a[24], b[24];
    printf("  %s\n", p->text);
    for (int i = 0; i < c->n; i++)
        printf("    stage %d: %s\n", i, c->stage[i].text);
    printf("  images %d x %d x %d, %d side by side, %d after one another, %d stack%s%s, %s held as %s, made %s, stored "
           "%s%s%s\n", (int)s->n[0], (int)s->n[1], (int)s->n[2], (int)s->inner, (int)s->outer, s->stacks,
           s->stacks > 1 ? "s" : "", s->single ? " (the second is one page)" : "", vp_type_name(s->stored[0]),
           vp_type_name(s->held), vp_type_name(s->made), vp_type_name(s->stored_out), s->flat ? ", flat" : "",
           s->odd ? ", with NaN" : "");
    printf("  problem: planes %s, images %s, %s%s%s, threads %d, memory %llu, chunk %d,%d,%d, device memory",
           size_text(a, q->image[2]), size_text(b, q->outer), t->piped ? "piped" : "from files",
           t->file ? ", to a file" : "", t->chosen ? ", planned" : "", q->threads, (unsigned long long)q->memory,
           (int)q->chunk[0], (int)q->chunk[1], (int)q->chunk[2]);
    for (int d = 0; d < q->devices; d++)
        printf(" %llu", (unsigned long long)q->free[d]);
    printf("\n  plan for %s: .stream = %d, .bands = %d, .band = %d, .slab = %d, .window = %d, .slabs = %d, "
           ".part = {%d, %d, %d}, .workers = %d, .lanes = %d, .together = %d, .depth =", t->set->name, plan->stream,
           (int)plan->bands, (int)plan->band, (int)plan->slab, (int)plan->window, plan->slabs, (int)plan->part[0],
           (int)plan->part[1], (int)plan->part[2], plan->workers, plan->lanes, plan->together);
    for (int d = 0; d < q->devices; d++)
        printf(" %d", (int)plan->depth[d]);
    printf("\n");
}

/* What runs now, for a run that crashes or hangs. */
static struct { const struct trial *trial; const struct params *p; const struct scene *s; const struct vp_chain *c;
} running;

static void show_running(int sig)
{
    printf("signal %d\n", sig);
    if (running.trial)
        show(running.trial, running.p, running.s, running.c);
    fflush(stdout);
    _exit(1);
}

/* Run a plan. The result, in page order, comes to *data (malloc'd). -1 if something went wrong on the way. */
static int run(const struct trial *t, const struct params *p, const struct scene *s, struct vp_chain *c,
               const int64_t *lost_of_math, void **data, int64_t *lost, struct vp_err *err)
{
    const int64_t page = s->result[0] * s->result[1], pages = results_of(s);
    const struct vp_writer_options raw_out = {.raw = true};
    const struct vp_stack out = {.nx = s->result[0], .ny = s->result[1], .pages = t->unknown ? -1 : pages,
                                 .type = s->stored_out};
    struct vp_op *last = &c->stage[c->n - 1];
    struct vp_execute e = {.problem = &t->problem, .plan = &t->plan, .chain = c, .held = s->held,
                           .stored_out = s->stored_out, .page = take_page};
    struct got got = {.data = malloc(result_bytes(s)), .size = vp_type_size(s->stored_out), .page = page,
                      .fail_at = -1};
    struct source source[2] = {0};
    char path[64];
    int rc = 0;

    memset(got.data, 0xA5, result_bytes(s));
    snprintf(path, sizeof path, "%s/out.raw", dir);
    e.ctx = &got;
    now = t->set;
    running.trial = t;
    running.p = p;
    running.s = s;
    running.c = c;
    memcpy(tally.n, s->result, sizeof tally.n);
    tally.last = last;
    tally.count = calloc((size_t)(page * s->result[2]), sizeof *tally.count);
    if (t->problem.backend) {
        memcpy(e.device, t->set->device, (size_t)t->set->n * sizeof *e.device);
    } else {
        tally.run = last->run;
        last->run = counted_run;
        if (last->carry) {
            tally.carry = tally.counted_carry = *last->carry;
            tally.counted_carry.advance = counted_advance;
            last->carry = &tally.counted_carry;
        }
        if (last->two_pass) {
            tally.two_pass = tally.counted_two_pass = *last->two_pass;
            tally.counted_two_pass.finish = counted_finish;
            last->two_pass = &tally.counted_two_pass;
        }
    }
    for (int k = 0; k < s->stacks && !rc; k++) {
        char text[64];
        const enum vp_type type = s->stored[k];
        snprintf(text, sizeof text, "%lldx%lld:%s%s", (long long)s->n[0], (long long)s->n[1], vp_type_name(type),
                 vp_type_size(type) > 1 ? "le" : "");
        const struct vp_reader_options raw_in = {.raw = text};
        rc = source_open(&source[k], s->path[k], &raw_in, t->piped && !(k && s->single), err);
        e.reader[k] = source[k].reader;
    }
    if (!rc && t->file)
        rc = vp_writer_open(&e.writer, path, &out, &raw_out, err);
    if (!rc)
        rc = vp_execute_plan(&e, NULL, err);
    if (e.writer && rc)
        vp_writer_abort(e.writer);
    else if (e.writer)
        rc = vp_writer_close(e.writer, err);
    for (int k = 0; k < s->stacks; k++)
        if (source[k].reader)
            source_close(&source[k]);
    if (!rc && t->file && !read_back(path, got.data, result_bytes(s)))
        rc = vp_fail(err, VP_ERUN, "the file has not the %lld pages that it should have", (long long)pages);
    if (!rc && !t->file && got.next != pages)
        rc = vp_fail(err, VP_ERUN, "expected %lld pages, got %lld", (long long)pages, (long long)got.next);
    for (int64_t i = 0; i < page * s->result[2] && !rc; i++)
        if (tally.count[i] != s->inner * s->outer)
            rc = vp_fail(err, VP_ERUN, "voxel %lld, %lld, %lld was made %d times in %lld images",
                         (long long)(i % s->result[0]), (long long)(i / s->result[0] % s->result[1]), (long long)(i / page),
                         tally.count[i], (long long)(s->inner * s->outer));
    *lost = lost_of_math ? *lost_of_math : 0;
    *data = got.data;
    free(tally.count);
    running.trial = NULL;
    return rc;
}

/* Says where it is not. */
static bool is_right(const void *got, const void *want, const struct scene *s)
{
    const size_t size = vp_type_size(s->stored_out);
    int64_t at = 0;
    const int64_t *n = s->result, wrong = compare(got, want, s->stored_out, n[0] * n[1] * results_of(s), &at);
    const int64_t page = at / (n[0] * n[1]);
    double g, w;

    if (!wrong)
        return true;
    vp_convert(&g, VP_F64, (const char *)got + (size_t)at * size, s->stored_out, 1, 1, 0);
    vp_convert(&w, VP_F64, (const char *)want + (size_t)at * size, s->stored_out, 1, 1, 0);
    printf("%lld voxels differ, the first at x %lld, y %lld, z %lld, channel %lld, time %lld: expected %.17g, "
           "got %.17g\n", (long long)wrong, (long long)(at % n[0]), (long long)(at / n[0] % n[1]),
           (long long)(page / s->inner % n[2]), (long long)(page % s->inner), (long long)(page / s->inner / n[2]), w, g);
    return false;
}

/* Run a plan and compare. True if all is as it should be. */
static bool check_run(const struct trial *t, const struct params *p, const struct scene *s, struct vp_chain *c,
                      const int64_t *lost_of_math)
{
    const int which = t->set->real;
    struct vp_err err = VP_ERR_INIT;
    void *got = NULL;
    int64_t lost = 0;
    bool ok = !run(t, p, s, c, lost_of_math, &got, &lost, &err);

    if (!ok)
        printf("%s\n", err.msg);
    if (ok && lost != s->lost[which])
        printf("%lld samples did not fit: expected %lld\n", (long long)lost, (long long)s->lost[which]);
    ok = ok && is_right(got, s->want[which], s) && lost == s->lost[which];
    if (!ok)
        show(t, p, s, c);
    free(got);
    return ok;
}

static struct vp_problem problem_of(const struct trial *t, const struct scene *s, const struct vp_chain *c)
{
    struct vp_problem p = {.chain = c, .image = {s->result[0], s->result[1], s->result[2]}, .inner = s->inner, .outer = s->outer,
                           .single = {false, s->single}, .stored_out = vp_type_size(s->stored_out), .threads = 1,
                           .memory = 1 << 30};
    for (int k = 0; k < s->stacks; k++)
        p.stored_in += k && s->single ? 0 : vp_type_size(s->stored[k]);
    if (t->unknown && s->outer == 1)
        p.image[2] = VP_UNKNOWN;
    else if (t->unknown)
        p.outer = VP_UNKNOWN;
    if (t->set->backend.name) {
        p.backend = &t->set->backend;
        p.devices = t->set->n;
    }
    for (int d = 0; d < p.devices; d++)
        p.free[d] = 1 << 30;
    return p;
}

static double parts_of(const struct trial *t, const struct scene *s)
{
    const struct vp_plan *plan = &t->plan;
    const int64_t *n = s->result;
    double parts = (double)(s->inner * s->outer);
    for (int a = 0; a < 3; a++)
        parts *= (double)((n[a] + plan->part[a] - 1) / plan->part[a]);
    return parts;
}

/* Not for ever. */
static bool is_short(const struct trial *t, const struct scene *s, const struct vp_chain *c)
{
    const double parts = parts_of(t, s);
    int64_t halo[3];
    double voxels = 1;
    vp_chain_halo(c, halo);
    for (int a = 0; a < 3; a++) /* half the work is done where it looks */
        voxels *= (double)vp_min64(vp_max64(s->n[a], s->result[a]), t->plan.part[a] + halo[a]);
    return t->set->real ? parts <= MOST_PARTS : parts * (voxels * cost_of(c) + 0.01) <= LONGEST;
}

/* A plan at random, or the planner's under random limits. */
static bool make_plan(struct trial *t, const struct scene *s, struct vp_chain *c)
{
    struct vp_problem *p = &t->problem;
    struct vp_err err = VP_ERR_INIT;

    *p = problem_of(t, s, c);
    p->threads = dice(0, 2) ? 1 : (int)dice(2, 4);
    t->chosen = dice(0, 4) == 0;
    p->rows = t->file && !t->piped;
    p->flow = !t->unknown && dice(0, 3);
    if (t->chosen) {
        for (int a = 0; a < 3 && dice(0, 3); a++)
            p->chunk[a] = dice(1, a == 2 && t->unknown ? 20 : s->result[a]);
        const uint64_t bytes = (uint64_t)vp_max64(s->n[0] * s->n[1] * pages_of(s), s->result[0] * s->result[1] * results_of(s)) * (p->stored_in + p->stored_out);
        if (dice(0, 1))
            p->memory = bytes * (uint64_t)dice(4, 40) / 8 + 4096;
        for (int d = 0; d < p->devices; d++)
            p->free[d] = d && dice(0, 1) ? bytes * (uint64_t)dice(4, 40) / 8 + 4096 : p->free[d];
        return !vp_plan_make(&t->plan, p, &err) && is_short(t, s, c) && !(t->plan.twice && t->piped);
    }
    if (!random_plan(&t->plan, p, s->result, s->outer, (p->rows || p->flow) && dice(0, 2) > 0) || !is_short(t, s, c)
        || (t->plan.twice && t->piped) || (t->plan.bands > 1 && !p->rows && !t->plan.flow))
        return false;
    struct vp_problem less = *p;
    struct vp_plan plan = t->plan;
    for (int d = 0; d < p->devices; d++)
        if (dice(0, 1))
            less.free[d] = plan.on_device * (uint64_t)dice(10, 100) / 100;
    if (vp_plan_try(&plan, &less) && is_short(t, s, c)) {
        *p = less;
        t->plan = plan;
    }
    return true;
}

struct count {
    int runs, on[MAX_SETS], streams[MAX_SETS], bands, flow, piped, piped_flow, files, chosen, uneven, without, unlike;
};

/* One chunk on the first real device, which is what plans on real devices must give: that it is what the CPU makes of
 * it, where the bits cannot be others, is another question. */
static bool device_want(struct scene *s, const struct params *p, struct count *n)
{
    const int64_t *r = s->result;
    struct trial t = {.plan = {.bands = 1, .band = r[1], .slabs = 1, .slab = r[2] * s->outer,
                               .window = s->n[2] * s->outer, .part = {r[0], r[1], r[2]}, .lanes = 1}};
    struct vp_err err = VP_ERR_INIT;
    struct vp_chain c;
    int64_t *lost;
    char why[256];
    bool ok = true;

    for (int i = 0; i < n_sets && !t.set; i++)
        if (sets[i].real)
            t.set = &sets[i];
    if (!t.set || make_chain(&c, p, s, false, &lost, &err))
        return !t.set;
    now = t.set;
    if (vp_lanes_have(t.set->under, &c, why, sizeof why)) {
        vp_lanes_demand(t.set->under, &c);
        t.problem = problem_of(&t, s, &c);
        t.problem.devices = 1;
        t.plan.stream = vp_op_scans(&c.stage[0]);
        const bool fits = vp_plan_try(&t.plan, &t.problem);
        ok = fits && !run(&t, p, s, &c, lost, &s->want[1], &s->lost[1], &err);
        if (!ok)
            printf("one chunk: %s\n", fits ? err.msg : "no room for it");
        const bool unlike = ok && !may_differ(&c, s)
                            && (!is_right(s->want[1], s->want[0], s) || s->lost[1] != s->lost[0]);
        n->unlike += unlike;
        if (!ok || (unlike && n->unlike == 1)) {
            printf("%s", unlike ? "  one chunk, on a device and on the CPU:\n" : "");
            show(&t, p, s, &c);
        }
    }
    vp_chain_free(&c);
    return ok;
}

/* One plan. 1: all is well, 0: there was no plan, -1: it failed. */
static int try_plan(const struct params *p, const struct scene *s, struct count *n)
{
    struct trial t = {.set = &sets[dice(0, n_sets - 1)], .piped = dice(0, 2) == 0};
    struct vp_err err = VP_ERR_INIT;
    struct vp_chain c;
    int64_t *lost;
    char why[256];
    bool made = false;

    now = t.set;
    t.file = dice(0, 1);
    t.unknown = t.piped && dice(0, 1);
    if (make_chain(&c, p, s, t.unknown, &lost, &err)) {
        printf("%s: %s\n", p->text, err.msg);
        vp_chain_free(&c);
        return -1;
    }
    for (int i = 0; i < c.n; i++)
        if (t.unknown && s->outer == 1 && (c.stage[i].halo[2] >= VP_UNKNOWN || c.stage[i].two_pass)) { /* the program refuses that */
            vp_chain_free(&c);
            return 0;
        }
    if (t.set->real && !vp_lanes_have(t.set->under, &c, why, sizeof why)) {
        static const struct set cpu = {.name = "the CPU for want of a kernel"};
        n->without++;
        t.set = &cpu;
    }
    if (t.set->real) /* as vp_images_plan does */
        vp_lanes_demand(t.set->under, &c);
    for (int i = 0; i < 40 && !made; i++)
        made = make_plan(&t, s, &c);
    const bool ok = !made || check_run(&t, p, s, &c, lost);
    vp_chain_free(&c);
    if (!made || !ok)
        return ok ? 0 : -1;
    n->runs++;
    for (int i = 0; i < n_sets; i++)
        if (t.set == &sets[i]) {
            n->on[i]++;
            n->streams[i] += t.plan.stream;
        }
    n->bands += t.plan.bands > 1;
    n->flow += t.plan.flow;
    n->piped_flow += t.plan.flow && t.piped;
    n->piped += t.piped;
    n->files += t.file;
    n->chosen += t.chosen;
    for (int d = 1; d < t.problem.devices; d++)
        if (t.plan.depth[d] != t.plan.depth[0]) {
            n->uneven++;
            break;
        }
    return 1;
}

/* Random numbers that depend on the family's name, not on the others. */
static void seed_with(uint64_t seed, const struct family *family, uint64_t number, uint64_t try)
{
    uint64_t hash = 0;
    for (const char *p = family->program; *p; p++)
        hash = hash * 31 + (unsigned char)*p;
    dice_state = (seed * 8 + hash) * 1000003 + number * 64 + try + 1;
    for (int i = 0; i < 8; i++)
        dice_state = dice_state * 6364136223846793005u + 1442695040888963407u;
    next_random();
}

static bool test_family(const struct family *family, int plans, uint64_t seed)
{
    struct count n = {0};
    bool ok = true;

    for (int number = 0; ok && n.runs < plans && number < 4 * plans + 40; number++) {
        struct scene s;
        struct params p;
        struct vp_chain c;
        struct vp_err err = VP_ERR_INIT;
        int64_t *lost;
        bool fits = false;
        seed_with(seed, family, (uint64_t)number, 0);
        make_scene(&s, family);
        for (int i = 0; i < 20 && !fits && ok; i++) {
            draw(&p, &s, family);
            ok = !make_chain(&c, &p, &s, false, &lost, &err);
            for (int a = 0; ok && a < 3; a++)
                s.result[a] = c.stage[c.n - 1].image[a];
            if (ok && (double)(s.result[0] * s.result[1] * results_of(&s)) * cost_of(&c) <= LONGEST / 2) {
                s.made = c.stage[c.n - 1].out;
                s.stored_out = s.stored[0] == VP_I8 && s.held == VP_I16 && s.made == VP_I16 ? VP_I8 : s.made;
                ok = !make_want(&s, &c, lost, &err);
                fits = true;
            }
            vp_chain_free(&c);
        }
        if (!ok)
            printf("%s: %s\n", p.text, err.msg);
        ok = ok && (!fits || device_want(&s, &p, &n));
        for (int i = 1; fits && ok && i <= TRIES; i++) {
            seed_with(seed, family, (uint64_t)number, (uint64_t)i);
            ok = try_plan(&p, &s, &n) >= 0;
        }
        free_scene(&s);
        if (!ok)
            printf("  again: plans_test %d %llu %s (image %d)\n", plans, (unsigned long long)seed, family->program,
                   number);
    }
    printf("%-14s %d plans, %d differ:", family->program, n.runs, !ok);
    for (int i = 0; i < n_sets; i++)
        printf("%s %d on %s (%d streamed)", i ? "," : "", n.on[i], sets[i].name, n.streams[i]);
    printf("; %d in bands (%d that follow each other, %d of these piped), %d piped, %d to a file, %d planned, %d with "
           "devices unlike each other", n.bands, n.flow, n.piped_flow, n.piped, n.files, n.chosen, n.uneven);
    if (n.without)
        printf(", %d on the CPU for want of a kernel", n.without);
    if (n.unlike)
        printf(", %d images whose one chunk on a device is not the CPU's", n.unlike);
    printf("\n");
    CHECK(ok);
    CHECK_INT(n.unlike, 0);
    CHECK(!ok || n.runs >= plans);
    if (ok && plans >= 200) {
        CHECK((family->unbanded || n.bands >= plans / 50) && n.piped >= plans / 10 && n.files >= plans / 10 && n.chosen >= plans / 50);
        for (int i = 0; i < n_sets; i++) {
            const bool streams = sets[i].backend.name ? !n.without : family->keeps;
            CHECK(n.on[i] + n.without > plans / (2 * n_sets));
            CHECK(n.streams[i] || !streams || family->alone);
        }
    }
    return ok;
}

int main(int argc, char **argv)
{
    const int plans = argc > 1 ? atoi(argv[1]) : 208;
    const uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 7;
    const char *given = getenv("VOXPIPE_DEVICES");
    char *list = strdup(given && *given ? given : "cpu pretend:1 pretend:3"), *rest = list;
    bool known = argc < 4;

    mallopt(M_PERTURB, 0x5A);
    setvbuf(stdout, NULL, _IOLBF, 0);
    signal(SIGABRT, show_running);
    signal(SIGTERM, show_running);
#ifndef TEST_SANITIZED /* which tells more */
    signal(SIGSEGV, show_running);
#endif
    pretend.fail_at = -1;
    pretend_apply = add_before;
    for (char *name; (name = strtok_r(rest, " ", &rest));)
        if (n_sets == MAX_SETS || !add_set(name))
            return 1;
    for (int f = 0; f < n_families; f++)
        known = known || !strcmp(argv[3], families[f]->program);
    if (plans < 1 || !n_sets || !n_families || !known || argc > 4 || !mkdtemp(dir)) {
        printf("plans_test [PLANS [SEED [FAMILY]]], $VOXPIPE_DEVICES: such as cpu pretend:3 cuda:0,1\n");
        return 1;
    }
    for (int f = 0; f < n_families; f++)
        if (argc < 4 || !strcmp(argv[3], families[f]->program))
            test_family(families[f], plans, seed);
    CHECK_INT(pretend.open, 0);
    char path[64];
    snprintf(path, sizeof path, "%s/out.raw", dir);
    unlink(path);
    CHECK_INT(rmdir(dir), 0);
    for (int i = 0; i < n_sets; i++)
        free(sets[i].device);
    free(list);
    return test_done();
}
