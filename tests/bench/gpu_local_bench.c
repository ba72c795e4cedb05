/* SPDX-License-Identifier: BSD-3-Clause */
/* Local operations on a GPU, samples in its memory: milliseconds of the kernels (events, the best of several), what
 * that is of the rate of a copy on the device (of the bytes that are read and written), the samples of a smaller image
 * that are not those of the CPU, and a sum of the large result, to hold two builds against each other.
 * usage: gpu_local_bench [REPEATS [NAME...]]: the rows whose names begin with one of these */
#include "../unit/apply.h"
#include "base/err.h"
#include "base/size.h"
#include "device/device.h"
#include "local/math.h"
#include "global/threshold.h"
#include "local/entropy.h"
#include "local/extremum.h"
#include "local/gauss.h"
#include "local/log.h"
#include "local/moments.h"
#include "local/nlmeans.h"
#include "local/rank.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct row {
    const char *name;
    enum vp_type type;
    int64_t size[3];
    int (*make)(struct vp_chain *c, const struct row *row, const int64_t size[3], struct vp_err *err);
    double by[3];               /* sigmas, or radii of the window */
    enum vp_shape shape;
    enum vp_type out;
    int backend;                   /* order of derivatives, enum vp_moment, enum vp_edge, enum vp_threshold, ... */
    const char *text;           /* an expression */
    struct vp_limit limit;
};

static int make_gauss(struct vp_chain *c, const struct row *r, const int64_t size[3], struct vp_err *err)
{
    const struct vp_gauss_params p = {{r->by[0], r->by[1], r->by[2]}, 3, {0, 0, 0}, {1, 1, 1},
                                      (enum vp_edge)r->backend, false, 1};
    return vp_gauss_chain(c, &p, size, r->type, r->out, err);
}

static int make_log(struct vp_chain *c, const struct row *r, const int64_t size[3], struct vp_err *err)
{
    const struct vp_log_params p = {{r->by[0], r->by[1], r->by[2]}, 3, {1, 1, 1}, false, VP_EDGE_RENORMALIZE};
    return vp_log_chain(c, &p, size, r->type, err);
}

static int make_math(struct vp_chain *c, const struct row *r, const int64_t size[3], struct vp_err *err)
{
    struct vp_math *m;
    return vp_math_parse(&m, r->text, 1, r->type, err) || vp_math_add(c, m, size, 1, r->out, err) ? -1 : 0;
}

static int make_nlmeans(struct vp_chain *c, const struct row *r, const int64_t size[3], struct vp_err *err)
{
    const int64_t search[3] = {(int64_t)r->by[0], (int64_t)r->by[1], (int64_t)r->by[2]};
    const int64_t patch[3] = {3, 3, size[2] > 1 ? 3 : 0};
    struct vp_op op;
    return vp_nlmeans_local(&op, r->type == VP_F32 ? .1 : 30, 0, search, patch, size, r->type, r->out, err)
           || vp_chain_add(c, &op, err) ? -1 : 0;
}

static int make_histogram(struct vp_chain *c, const struct row *r, const int64_t size[3], struct vp_err *err)
{
    const struct vp_threshold_params t = {.method = (enum vp_threshold)r->backend, .limit = 100, .mark = 255,
                                          .bins = 256, .hi = 1};
    struct vp_op op;
    return vp_threshold_op(&op, &t, size, r->type, err) || vp_chain_add(c, &op, err) ? -1 : 0;
}

enum { MINIMUM = VP_ABOVE + 1, MEDIAN, ENTROPY };

static int make_window(struct vp_chain *c, const struct row *r, const int64_t size[3], struct vp_err *err)
{
    struct vp_footprint f = {0};
    struct vp_op op;
    int rc = vp_footprint_init(&f, r->shape, r->by, err);

    if (rc)
        return -1;
    switch (r->backend) {
    case MINIMUM: rc = vp_extremum_local(&op, false, &f, size, r->type, err); break;
    case MEDIAN: rc = vp_rank_local(&op, 50, &f, size, r->type, false, err); break;
    case ENTROPY: rc = vp_entropy_local(&op, &f, 256, 0, vp_type_max(r->type), size, r->type, err); break;
    case VP_WIENER: rc = vp_moments_wiener(&op, .08, &f, size, r->type, r->out, err); break;
    case VP_ABOVE: rc = vp_moments_above(&op, &r->limit, &f, VP_EDGE_RENORMALIZE, size, r->type, err); break;
    default: rc = vp_moments_local(&op, (enum vp_moment)r->backend, false, &f, size, r->type, r->out, err);
    }
    vp_footprint_free(&f);
    return rc ? rc : vp_chain_add(c, &op, err);
}

#define PLANE(n) {n, n, 1}
#define CUBE {512, 512, 256}
#define ODD {251, 243, 180}
#define GAUSS(from, to, n, edge, x, y, z) \
    {.name = "gauss", .type = from, .out = to, .size = n, .make = make_gauss, .backend = edge, .by = {x, y, z}}
#define LOG(from, n, x, y, z) \
    {.name = "log", .type = from, .out = VP_F32, .size = n, .make = make_log, .by = {x, y, z}}
#define WINDOW(is, what, from, to, n, form, x, y, z) \
    {.name = is, .type = from, .out = to, .size = n, .make = make_window, .backend = what, .shape = form, .by = {x, y, z}}
#define ABOVE(is, from, n, x, z, ...) \
    {.name = is, .type = from, .out = VP_U8, .size = n, .make = make_window, .backend = VP_ABOVE, .by = {x, x, z}, \
     .limit = {.mark = 255, __VA_ARGS__}}
#define MATH(expression, from, to, n) \
    {.name = "math", .type = from, .out = to, .size = n, .make = make_math, .text = expression}
#define NLMEANS(from, n, x, y, z) \
    {.name = "nlmeans", .type = from, .out = from, .size = n, .make = make_nlmeans, .by = {x, y, z}}
#define HISTOGRAM(is, method, from, n) \
    {.name = is, .type = from, .out = VP_U8, .size = n, .make = make_histogram, .backend = method}

static const struct row ROWS[] = {
    GAUSS(VP_F32, VP_F32, CUBE, 0, .33, .33, .33),
    GAUSS(VP_F32, VP_F32, CUBE, 0, 1, 1, 1),
    GAUSS(VP_F32, VP_F32, CUBE, 0, 2, 2, 2),
    GAUSS(VP_F32, VP_F32, CUBE, 0, 4, 4, 4),
    GAUSS(VP_F32, VP_F32, CUBE, VP_EDGE_MIRROR, 8, 8, 8),
    GAUSS(VP_F32, VP_F32, CUBE, 0, 30, 30, 30),
    GAUSS(VP_U8, VP_U8, CUBE, 0, 1, 1, 1),
    GAUSS(VP_U16, VP_U16, CUBE, 0, 2.66, 2.66, 2.66),
    GAUSS(VP_I16, VP_F32, ODD, VP_EDGE_WRAP, 4, 3, 2),
    GAUSS(VP_U16, VP_F32, ODD, VP_EDGE_ZERO, 7, 6.66, 8),
    GAUSS(VP_F32, VP_F32, PLANE(4096), 0, 2, 2, 0),
    GAUSS(VP_U8, VP_U8, PLANE(4096), 0, 5, 5, 0),
    GAUSS(VP_U16, VP_U16, PLANE(4096), 0, 20, 20, 0),
    GAUSS(VP_F32, VP_F32, CUBE, 0, 0, 0, 2),
    GAUSS(VP_F32, VP_F32, CUBE, 0, 0, 5, 0),
    GAUSS(VP_U16, VP_U16, CUBE, 0, 6, 0, 0),
    LOG(VP_F32, CUBE, 1.33, 1.33, 1.33),
    LOG(VP_U8, CUBE, 2.66, 2.66, 2.66),
    LOG(VP_F32, PLANE(4096), 3, 3, 0),
    WINDOW("min", MINIMUM, VP_U8, VP_U8, CUBE, VP_BOX, 1, 1, 1),
    WINDOW("min", MINIMUM, VP_F32, VP_F32, CUBE, VP_BOX, 4, 4, 4),
    WINDOW("min", MINIMUM, VP_U16, VP_U16, CUBE, VP_BOX, 15, 15, 15),
    WINDOW("min", MINIMUM, VP_F32, VP_F32, CUBE, VP_BOX, 100, 100, 100),
    WINDOW("min", MINIMUM, VP_I16, VP_I16, ODD, VP_BOX, 7, 2, 30),
    WINDOW("min", MINIMUM, VP_U8, VP_U8, PLANE(4096), VP_BOX, 50, 50, 0),
    WINDOW("min ball", MINIMUM, VP_U8, VP_U8, CUBE, VP_BALL, 5, 5, 5),
    WINDOW("min ball", MINIMUM, VP_F32, VP_F32, CUBE, VP_BALL, 2, 2, 2),
    WINDOW("min ball", MINIMUM, VP_U16, VP_U16, PLANE(4096), VP_BALL, 20, 20, 0),
    WINDOW("mean", VP_MEAN, VP_F32, VP_F32, CUBE, VP_BOX, 4, 4, 4),
    WINDOW("std", VP_STD, VP_U16, VP_F32, CUBE, VP_BOX, 4, 4, 4),
    WINDOW("std", VP_STD, VP_F32, VP_F32, CUBE, VP_BOX, 2, 2, 2),
    WINDOW("std", VP_STD, VP_U8, VP_F32, PLANE(4096), VP_BOX, 50, 50, 0),
    WINDOW("std", VP_STD, VP_I16, VP_F32, PLANE(4096), VP_BOX, 7, 7, 0),
    WINDOW("std ball", VP_STD, VP_U16, VP_F32, CUBE, VP_BALL, 5, 5, 5),
    WINDOW("wiener", VP_WIENER, VP_F32, VP_F32, CUBE, VP_BOX, 2, 2, 2),
    WINDOW("median", MEDIAN, VP_U16, VP_U16, CUBE, VP_BOX, 1, 1, 1),
    WINDOW("median", MEDIAN, VP_F32, VP_F32, CUBE, VP_BOX, 1, 1, 1),
    WINDOW("median", MEDIAN, VP_U8, VP_U8, PLANE(4096), VP_BOX, 2, 2, 0),
    WINDOW("median", MEDIAN, VP_U16, VP_U16, PLANE(2048), VP_BOX, 7, 7, 0),
    WINDOW("median ball", MEDIAN, VP_U8, VP_U8, ODD, VP_BALL, 3, 3, 3),
    WINDOW("entropy", ENTROPY, VP_U8, VP_F32, PLANE(2048), VP_BALL, 5, 5, 0),
    NLMEANS(VP_U8, PLANE(1024), 10, 10, 0),
    NLMEANS(VP_F32, ODD, 3, 3, 3),
    MATH("(a - 1.5) * 2", VP_F32, VP_F32, CUBE),
    MATH("sqrt(abs(a - 100)) + x", VP_U16, VP_F32, CUBE),
    MATH("a ^ 1.5", VP_U8, VP_U8, CUBE),
    MATH("if(a > 100, a, 0)", VP_U8, VP_U8, CUBE),
    ABOVE("sauvola", VP_U8, PLANE(4096), 50, 0, .mean = .8, .both = .2 / 127.5),
    ABOVE("sauvola", VP_U8, PLANE(16384), 50, 0, .mean = .8, .both = .2 / 127.5),
    ABOVE("sauvola", VP_U8, PLANE(16384), 7, 0, .mean = .8, .both = .2 / 127.5),
    ABOVE("niblack", VP_U16, PLANE(16384), 50, 0, .mean = 1, .std = -.2),
    ABOVE("above mean", VP_U8, PLANE(16384), 50, 0, .mean = 1),
    ABOVE("above mean", VP_U16, PLANE(16384), 250, 0, .mean = 1),
    ABOVE("niblack", VP_F32, PLANE(8192), 7, 0, .mean = 1, .std = -.2),
    ABOVE("niblack", VP_U8, CUBE, 7, 7, .mean = 1, .std = -.2),
    HISTOGRAM("above", VP_AT, VP_U8, PLANE(16384)),
    HISTOGRAM("histogram", VP_OTSU, VP_U8, PLANE(16384)),
    HISTOGRAM("histogram", VP_OTSU, VP_U16, PLANE(16384)),
    HISTOGRAM("histogram", VP_OTSU, VP_F32, PLANE(16384)),
};

static const struct vp_backend *gpu;
static int device;

static void die(const struct vp_err *err)
{
    fprintf(stderr, "gpu_local_bench: error: %s\n", err->msg);
    exit(1);
}

static void *memory(uint64_t bytes)
{
    struct vp_err err = VP_ERR_INIT;
    void *p = NULL;
    if (bytes && gpu->alloc(device, bytes, &p, &err))
        die(&err);
    return p;
}

/* Bins of the whole image that have another count on the CPU. */
static int64_t unlike(const struct vp_op *op, const void *host, const struct vp_threshold_entry *got)
{
    struct vp_err err = VP_ERR_INIT;
    const int64_t *n = op->image;
    const struct vp_box whole = {{0, 0, 0}, {n[0], n[1], n[2]}};
    const uint64_t bytes = op->two_pass->summary(op, &whole);
    struct vp_threshold_entry *want = malloc(bytes);
    void *plane[1] = {(void *)(uintptr_t)host}, *scratch = malloc(op->scratch(op, &whole, &whole, 4));
    const struct vp_part part = {whole, n[0], plane};
    int64_t wrong = got->bytes != bytes || !got->first;

    if (op->two_pass->summarize(op, &part, &whole, want, scratch, 4, &err))
        die(&err);
    for (uint64_t i = 0; i < (bytes - sizeof *want) / sizeof *want->count; i++)
        wrong += got->count[i] != want->count[i];
    free(scratch);
    free(want);
    return wrong;
}

/* Noise on waves, so that what is near its threshold changes place by place. */
static void fill(void *samples, enum vp_type type, const int64_t size[3])
{
    const int64_t n = size[0] * size[1] * size[2];
    #pragma omp parallel for
    for (int64_t i = 0; i < n; i++) {
        uint32_t s = (uint32_t)i * 2654435761u;
        s = (s ^ s >> 15) * 0x846ca68bu;
        const double v = .5 + .2 * sin((double)(i % size[0]) / 90) + .3 * ((double)(s >> 8) * 0x1p-24 - .5);
        if (type == VP_F32)
            ((float *)samples)[i] = (float)v;
        else if (type == VP_U16)
            ((uint16_t *)samples)[i] = (uint16_t)(v * 60000);
        else if (type == VP_I16)
            ((int16_t *)samples)[i] = (int16_t)(v * 60000 - 30000);
        else
            ((uint8_t *)samples)[i] = (uint8_t)(v * 255);
    }
}

/* Rows of so many bytes, those of one side `to_row`, of the other `from_row` apart. */
static void copy(struct vp_queue *q, void *to, int64_t to_row, void *from, int64_t from_row, int64_t bytes,
                 int64_t rows, enum vp_way way)
{
    struct vp_err err = VP_ERR_INIT;
    const struct vp_pitched t = {to, to_row, to_row * rows}, f = {from, from_row, from_row * rows};
    if (gpu->copy(q, &t, &f, (int64_t[]){bytes, rows, 1}, way, &err))
        die(&err);
}

static void wait_for(struct vp_queue *q, struct vp_event *end)
{
    struct vp_err err = VP_ERR_INIT;
    if (gpu->event_record(q, end, &err) || gpu->event_synchronize(end, &err))
        die(&err);
}

static void check(int rc, const struct vp_err *err)
{
    if (rc)
        die(err);
}

static uint64_t sum(const uint64_t *words, uint64_t n)
{
    uint64_t h = 0;
    for (uint64_t i = 0; i < n; i++)
        h = (h ^ words[i]) * 0x9e3779b97f4a7c15u;
    return h;
}

struct result { double seconds, copied; int64_t wrong; uint64_t sum; };

/* Of an image of this size; what differs from the CPU's only where `compared`. */
static struct result measure(const struct row *r, const int64_t size[3], int repeats, bool compared)
{
    struct vp_err err = VP_ERR_INIT;
    struct result result = {INFINITY, INFINITY, -1, 0};
    struct vp_chain c = {0};
    struct vp_event *start, *end;
    struct vp_queue *q;
    char why[200];

    check(r->make(&c, r, size, &err), &err);
    const struct vp_op *op = &c.stage[0];
    const struct vp_kernel *k = gpu->kernel(op->kernel);
    if (c.n != 1 || !k || !k->has(op, why, sizeof why)) {
        fprintf(stderr, "gpu_local_bench: error: no kernel for %s\n", r->name);
        exit(1);
    }
    check(gpu->queue_create(device, &q, &err) || gpu->event_create(device, false, &start, &err)
              || gpu->event_create(device, false, &end, &err), &err);

    const int64_t zi = (int64_t)vp_type_size(op->in), zo = (int64_t)vp_type_size(op->out);
    const int64_t pitch = (size[0] + 15) / 16 * 16, rows = size[1] * size[2], all = pitch * rows;
    const int64_t half = all * (zi + zo) / 2, room = all * (zi > zo ? zi : zo);
    const uint64_t n = (uint64_t)(size[0] * rows);
    const uint64_t filled = k->table ? k->table(op) : 0, made = k->made ? k->made(op) : 0;
    const bool summary = op->two_pass != NULL;
    void *host = malloc(n * (size_t)zi), *got = calloc((n * (size_t)zo + 7) / 8, 8), *constants = malloc(filled + 1);
    void *in = memory((uint64_t)room), *out = memory((uint64_t)room);
    void *table = memory(filled + made), *state = memory(k->state ? k->state(op, size) : op->report ? op->report->bytes : 0);
    void *scratch = memory(k->scratch ? k->scratch(op, size, size) : 0);
    const struct vp_box whole = {{0, 0, 0}, {size[0], size[1], size[2]}};
    const struct vp_area a = {whole, pitch, pitch * size[1], in}, b = {whole, pitch, pitch * size[1], out};
    const struct vp_work work = {summary ? VP_SUMMARY : VP_MAKE, state, &a, &b, table, scratch, q};

    fill(host, r->type, size);
    copy(q, in, pitch * zi, host, size[0] * zi, size[0] * zi, rows, VP_UP);
    if (filled) {
        k->fill(op, constants);
        copy(q, table, (int64_t)filled, constants, (int64_t)filled, (int64_t)filled, 1, VP_UP);
    }
    check(k->make && k->make(op, table, q, &err), &err);
    for (int i = 0; i < 2 * repeats; i++) {
        double *const least = i % 2 ? &result.seconds : &result.copied;
        check(gpu->event_record(q, start, &err), &err);
        if (i % 2)
            check(k->launch(op, &work, &err), &err);
        else
            copy(q, out, half, in, half, half, 1, VP_WITHIN);
        wait_for(q, end);
        *least = fmin(*least, gpu->event_elapsed(start, end));
    }
    if (summary) {
        const int64_t entry = (int64_t)k->state(op, size);
        struct vp_threshold_entry *e = malloc((size_t)entry);
        copy(q, e, entry, state, entry, entry, 1, VP_DOWN);
        wait_for(q, end);
        if (compared)
            result.wrong = unlike(op, host, e);
        free(e);
    } else {
        copy(q, got, size[0] * zo, out, pitch * zo, size[0] * zo, rows, VP_DOWN);
        wait_for(q, end);
        result.sum = sum(got, (n * (uint64_t)zo + 7) / 8);
    }
    if (compared && !summary) {
        char *const want = malloc(n * (size_t)zo);
        check(vp_chain_apply(&c, (const void *[]){host}, want, 4, &err), &err);
        result.wrong = 0;
        for (uint64_t i = 0; i < n; i++)
            result.wrong += memcmp((char *)got + i * (size_t)zo, want + i * (size_t)zo, (size_t)zo) != 0;
        free(want);
    }
    vp_chain_free(&c);
    void *const device_memory[] = {in, out, table, state, scratch};
    for (size_t i = 0; i < sizeof device_memory / sizeof *device_memory; i++)
        if (device_memory[i])
            gpu->release(device, device_memory[i]);
    gpu->event_destroy(start);
    gpu->event_destroy(end);
    gpu->queue_destroy(q);
    free(host);
    free(got);
    free(constants);
    return result;
}

static bool asked(const char *name, int argc, char **argv)
{
    bool any = argc < 3;
    for (int i = 2; i < argc; i++)
        any = any || !strncmp(name, argv[i], strlen(argv[i]));
    return any;
}

int main(int argc, char **argv)
{
    const int repeats = argc > 1 ? atoi(argv[1]) : 5;
    struct vp_err err = VP_ERR_INIT;
    int *devices, n;

    if (vp_devices_find(&gpu, &devices, &n, "cuda", &err)) {
        printf("skipped: %s\n", err.msg);
        return 0;
    }
    device = devices[0];
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        const struct row *r = &ROWS[i];
        const bool deep = r->size[2] > 1;
        const int64_t small[3] = {deep ? 70 : 1531, deep ? 61 : 907, deep ? 40 : 1};
        if (!asked(r->name, argc, argv))
            continue;
        const struct result checked = measure(r, small, 1, true), m = measure(r, r->size, repeats, false);
        printf("%-12s %s>%s %lld x %lld x %lld by %g %g %g %s: %8.3f ms, a copy %.3f: %.2f of it; "
               "%lld unlike the CPU's; %016llx\n", r->name, vp_type_name(r->type), vp_type_name(r->out),
               (long long)r->size[0], (long long)r->size[1], (long long)r->size[2], r->by[0], r->by[1], r->by[2],
               r->text ? r->text : "", 1e3 * m.seconds, 1e3 * m.copied, m.copied / m.seconds, (long long)checked.wrong,
               (unsigned long long)m.sum);
        fflush(stdout);
    }
    free(devices);
    return 0;
}
