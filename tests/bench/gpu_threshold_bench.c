/* SPDX-License-Identifier: BSD-3-Clause */
/* Thresholds on a GPU, samples and masks in its memory: milliseconds of the kernels (events, the best of several), what
 * that is of the rate of a copy on the device (a byte read and one written: as much as the mask of u8 takes), and the
 * samples of a smaller image that are not those of the CPU. usage: gpu_threshold_bench [REPEATS] */
#include "base/err.h"
#include "base/size.h"
#include "device/device.h"
#include "image/threshold.h"
#include "local/moments.h"
#include "run/chain.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct row {
    const char *name;
    enum vp_type type;
    int64_t n, nz; /* image n x n x nz */
    int window, deep;
    struct vp_limit limit;
    enum vp_threshold method; /* window 0 */
} rows[] = {
    {"sauvola 101, u8", VP_U8, 4096, 1, 101, 1, {.mean = .8, .both = .2 / 127.5, .mark = 255}, VP_AT},
    {"sauvola 101, u8", VP_U8, 16384, 1, 101, 1, {.mean = .8, .both = .2 / 127.5, .mark = 255}, VP_AT},
    {"sauvola 15, u8", VP_U8, 16384, 1, 15, 1, {.mean = .8, .both = .2 / 127.5, .mark = 255}, VP_AT},
    {"niblack 101, u16", VP_U16, 16384, 1, 101, 1, {.mean = 1, .std = -.2, .mark = 255}, VP_AT},
    {"mean 101, u8", VP_U8, 16384, 1, 101, 1, {.mean = 1, .mark = 255}, VP_AT},
    {"mean 501, u16", VP_U16, 16384, 1, 501, 1, {.mean = 1, .mark = 255}, VP_AT},
    {"niblack 15, f32", VP_F32, 8192, 1, 15, 1, {.mean = 1, .std = -.2, .mark = 255}, VP_AT},
    {"niblack 15^3, u8", VP_U8, 512, 512, 15, 15, {.mean = 1, .std = -.2, .mark = 255}, VP_AT},
    {"given, u8", VP_U8, 16384, 1, 0, 0, {.mean = 1}, VP_AT},
    {"histogram, u8", VP_U8, 16384, 1, 0, 0, {.mean = 1}, VP_OTSU},
    {"histogram, u16", VP_U16, 16384, 1, 0, 0, {.mean = 1}, VP_OTSU},
    {"histogram, f32", VP_F32, 16384, 1, 0, 0, {.mean = 1}, VP_OTSU},
};

static const struct vp_kind *gpu;
static int device;

static void die(const struct vp_err *err)
{
    fprintf(stderr, "gpu_threshold_bench: error: %s\n", err->msg);
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

static void make(struct vp_op *op, const struct row *r, const int64_t size[3])
{
    struct vp_err err = VP_ERR_INIT;
    struct vp_footprint f = {0};
    const double radius[3] = {r->window / 2, r->window / 2, r->deep / 2};
    const struct vp_threshold_params t = {.method = r->method, .limit = 100, .mark = 255, .bins = 256, .hi = 1};

    if (r->window ? vp_footprint_init(&f, VP_BOX, radius, &err)
                        || vp_moments_above(op, &r->limit, &f, VP_EDGE_RENORMALIZE, size, r->type, &err)
                  : vp_threshold_op(op, &t, size, r->type, &err))
        die(&err);
    vp_footprint_free(&f);
}

/* Bins of the whole image that have another count on the CPU. */
static int64_t unlike(const struct vp_op *op, const void *host, const struct vp_threshold_entry *got)
{
    struct vp_err err = VP_ERR_INIT;
    const int64_t *n = op->image;
    const struct vp_box whole = {{0, 0, 0}, {n[0], n[1], n[2]}};
    const uint64_t bytes = op->summary(op, &whole);
    struct vp_threshold_entry *want = malloc(bytes);
    void *plane[1] = {(void *)(uintptr_t)host}, *scratch = malloc(op->scratch(op, &whole, &whole, 4));
    const struct vp_part part = {whole, n[0], plane};
    int64_t wrong = got->bytes != bytes || !got->first;

    if (op->summarize(op, &part, &whole, want, scratch, 4, &err))
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

static double measure(const struct row *r, const int64_t size[3], int repeats, double *copied, int64_t *wrong)
{
    struct vp_err err = VP_ERR_INIT;
    const int64_t z = (int64_t)vp_type_size(r->type), pitch = (size[0] + 15) / 16 * 16, row = size[0] * z;
    const int64_t rows = size[1] * size[2], all = pitch * rows;
    const uint64_t n = (uint64_t)(size[0] * rows);
    struct vp_event *start, *end;
    struct vp_queue *q;
    struct vp_op op;
    char why[200];
    make(&op, r, size);
    const struct vp_kernel *k = gpu->kernel(op.kernel);
    if (!k || !k->has(&op, why, sizeof why) || gpu->queue(device, &q, &err) || gpu->event(device, false, &start, &err)
        || gpu->event(device, false, &end, &err))
        die(&err);
    void *host = malloc(n * (size_t)z), *in = memory((uint64_t)(all * z)), *out = memory((uint64_t)all);
    void *state = memory(k->state ? k->state(&op, size) : 0);
    void *scratch = memory(k->scratch ? k->scratch(&op, size, size) : 0);
    uint8_t *got = malloc(n), *want = malloc(n);
    const struct vp_box whole = {{0, 0, 0}, {size[0], size[1], size[2]}};
    const struct vp_area a = {whole, pitch, pitch * size[1], in}, b = {whole, pitch, pitch * size[1], out};
    const struct vp_work work = {.visit = r->window || r->method == VP_AT ? VP_MAKE : VP_SUMMARY, .state = state,
                                 .in = &a, .out = &b, .scratch = scratch, .queue = q};
    double best = INFINITY;
    fill(host, r->type, size);
    copy(q, in, pitch * z, host, row, row, rows, VP_UP);
    for (int i = 0; i < 2 * repeats; i++) {
        double *const least = i % 2 ? &best : copied;
        if (gpu->mark(q, start, &err))
            die(&err);
        if (i % 2) {
            if (k->launch(&op, &work, &err))
                die(&err);
        } else {
            copy(q, out, all, in, all, all, 1, VP_WITHIN);
        }
        if (gpu->mark(q, end, &err) || gpu->wait(end, &err))
            die(&err);
        *least = fmin(*least, gpu->between(start, end));
    }
    if (wrong && work.visit == VP_SUMMARY) {
        const int64_t entry = (int64_t)k->state(&op, size);
        struct vp_threshold_entry *e = malloc((size_t)entry);
        copy(q, e, entry, state, entry, entry, 1, VP_DOWN);
        if (gpu->mark(q, end, &err) || gpu->wait(end, &err))
            die(&err);
        *wrong = unlike(&op, host, e);
        free(e);
    }
    if (wrong && work.visit == VP_MAKE) {
        struct vp_chain c = {0};
        const void *from[] = {host};
        copy(q, got, size[0], out, pitch, size[0], rows, VP_DOWN);
        if (gpu->mark(q, end, &err) || gpu->wait(end, &err) || vp_chain_add(&c, &op, &err)
            || vp_chain_apply(&c, from, want, 4, &err))
            die(&err);
        *wrong = 0;
        for (uint64_t i = 0; i < n; i++)
            *wrong += got[i] != want[i];
        vp_chain_free(&c);
    } else {
        op.free(op.params);
    }
    gpu->release(device, in);
    gpu->release(device, out);
    if (state)
        gpu->release(device, state);
    if (scratch)
        gpu->release(device, scratch);
    gpu->unevent(start);
    gpu->unevent(end);
    gpu->unqueue(q);
    free(host);
    free(got);
    free(want);
    return best;
}

int main(int argc, char **argv)
{
    struct vp_err err = VP_ERR_INIT;
    int *devices, n;

    if (vp_devices_find(&gpu, &devices, &n, "cuda", &err)) {
        printf("skipped: %s\n", err.msg);
        return 0;
    }
    device = devices[0];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct row *r = &rows[i];
        const int64_t small[3] = {r->nz > 1 ? 70 : 1531, r->nz > 1 ? 61 : 907, r->nz > 1 ? 40 : 1};
        const int64_t size[3] = {r->n, r->n, r->nz};
        double copied = INFINITY;
        int64_t wrong = -1;
        measure(r, small, 1, &copied, &wrong);
        copied = INFINITY;
        const double s = measure(r, size, argc > 1 ? atoi(argv[1]) : 5, &copied, NULL);
        printf("%-18s %lld^2 x %lld: %8.3f ms, a copy %.3f ms: %.2f of it; "
               "%lld samples or bins differ from the CPU's\n", r->name, (long long)r->n, (long long)r->nz,
               1e3 * s, 1e3 * copied, copied / s, (long long)wrong);
        fflush(stdout);
    }
    free(devices);
    return 0;
}
