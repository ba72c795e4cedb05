/* SPDX-License-Identifier: BSD-3-Clause */
/* Local operations on images in memory: times of the library with 1 and 2 threads, and how the time compares with that
 * of copying as many bytes in the same run. `local_bench NAME...` measures these rows only (tests/bench/peers.py asks
 * for those that it has peers for). Medians of several rounds. */
#include "../unit/apply.h"
#include "base/err.h"
#include "base/size.h"
#include "local/entropy.h"
#include "local/extremum.h"
#include "local/nlmeans.h"
#include "local/rank.h"
#include "local/moments.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ROUNDS = 5 };

struct row {
    const char *name;
    int64_t size[3];
    enum vp_type type;
    enum vp_shape shape;
    double radius[3];
    int (*make)(struct vp_op *op, const struct row *row, const struct vp_footprint *f, struct vp_err *err);
};

static int make_min(struct vp_op *op, const struct row *row, const struct vp_footprint *f, struct vp_err *err)
{
    return vp_extremum_local(op, false, f, row->size, row->type, err);
}

static int make_mean(struct vp_op *op, const struct row *row, const struct vp_footprint *f, struct vp_err *err)
{
    return vp_moments_local(op, VP_MEAN, false, f, row->size, row->type, VP_F32, err);
}

static int make_std(struct vp_op *op, const struct row *row, const struct vp_footprint *f, struct vp_err *err)
{
    return vp_moments_local(op, VP_STD, false, f, row->size, row->type, VP_F32, err);
}

/* Sauvola's threshold. */
static int make_sauvola(struct vp_op *op, const struct row *row, const struct vp_footprint *f, struct vp_err *err)
{
    const struct vp_limit limit = {.mean = .8, .both = .2 / 127.5, .mark = 255};

    return vp_moments_above(op, &limit, f, VP_EDGE_RENORMALIZE, row->size, row->type, err);
}

static int make_wiener(struct vp_op *op, const struct row *row, const struct vp_footprint *f, struct vp_err *err)
{
    return vp_moments_wiener(op, .08, f, row->size, row->type, VP_F32, err);
}

static int make_median(struct vp_op *op, const struct row *row, const struct vp_footprint *f, struct vp_err *err)
{
    return vp_rank_local(op, 50, f, row->size, row->type, false, err);
}

static int make_entropy(struct vp_op *op, const struct row *row, const struct vp_footprint *f, struct vp_err *err)
{
    return vp_entropy_local(op, f, 256, 0, vp_type_max(row->type), row->size, row->type, err);
}

/* The radius is that of the search window. */
static int make_nlmeans(struct vp_op *op, const struct row *row, const struct vp_footprint *f, struct vp_err *err)
{
    const int64_t patch[3] = {3, 3, row->size[2] > 1 ? 3 : 0};
    const double h = row->type == VP_F32 ? 0.3 : 30;

    return vp_nlmeans_local(op, h, 0, f->reach, patch, row->size, row->type, row->type, err);
}

static const struct row rows[] = {
    {"min-3-u16", {256, 256, 256}, VP_U16, VP_BOX, {1, 1, 1}, make_min},
    {"min-31-u16", {256, 256, 256}, VP_U16, VP_BOX, {15, 15, 15}, make_min},
    {"min-31-f32", {256, 256, 256}, VP_F32, VP_BOX, {15, 15, 15}, make_min},
    {"min-31-u8-2d", {4096, 4096, 1}, VP_U8, VP_BOX, {15, 15, 0}, make_min},
    {"min-ball-5-u8", {256, 256, 256}, VP_U8, VP_BALL, {5, 5, 5}, make_min},
    {"mean-9-f32", {256, 256, 256}, VP_F32, VP_BOX, {4, 4, 4}, make_mean},
    {"std-9-f32", {256, 256, 256}, VP_F32, VP_BOX, {4, 4, 4}, make_std},
    {"std-9-u16", {256, 256, 256}, VP_U16, VP_BOX, {4, 4, 4}, make_std},
    {"sauvola-101-u8-2d", {4096, 4096, 1}, VP_U8, VP_BOX, {50, 50, 0}, make_sauvola},
    {"std-ball-5-u16", {256, 256, 256}, VP_U16, VP_BALL, {5, 5, 5}, make_std},
    {"median-3-u16", {256, 256, 256}, VP_U16, VP_BOX, {1, 1, 1}, make_median},
    {"median-3-f32", {256, 256, 256}, VP_F32, VP_BOX, {1, 1, 1}, make_median},
    {"median-5-u16", {128, 128, 128}, VP_U16, VP_BOX, {2, 2, 2}, make_median},
    {"median-7-u16", {96, 96, 96}, VP_U16, VP_BOX, {3, 3, 3}, make_median},
    {"median-ball-3-u16", {128, 128, 128}, VP_U16, VP_BALL, {3, 3, 3}, make_median},
    {"median-3-u8-2d", {4096, 4096, 1}, VP_U8, VP_BOX, {1, 1, 0}, make_median},
    {"median-5-u8-2d", {4096, 4096, 1}, VP_U8, VP_BOX, {2, 2, 0}, make_median},
    {"median-5-u16-2d", {4096, 4096, 1}, VP_U16, VP_BOX, {2, 2, 0}, make_median},
    {"median-15-u16-2d", {2048, 2048, 1}, VP_U16, VP_BOX, {7, 7, 0}, make_median},
    {"median-101-u8-2d", {2048, 2048, 1}, VP_U8, VP_BOX, {50, 50, 0}, make_median},
    {"entropy-disc-5-u8", {4096, 1024, 1}, VP_U8, VP_BALL, {5, 5, 0}, make_entropy},
    {"nlmeans-10-u8-2d", {512, 512, 1}, VP_U8, VP_BOX, {10, 10, 0}, make_nlmeans},
    {"nlmeans-3-f32", {64, 64, 32}, VP_F32, VP_BOX, {3, 3, 3}, make_nlmeans},
    {"wiener-5-f32", {256, 256, 256}, VP_F32, VP_BOX, {2, 2, 2}, make_wiener},
};

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *seconds)
{
    qsort(seconds, ROUNDS, sizeof *seconds, by_value);
    return seconds[ROUNDS / 2];
}

static void fill(void *samples, enum vp_type type, int64_t n)
{
    uint32_t s = 1;

    for (int64_t i = 0; i < n; i++) {
        s = s * 1664525 + 1013904223;
        if (type == VP_F32)
            ((float *)samples)[i] = (float)(s >> 8) * 0x1p-24f;
        else if (vp_type_size(type) == 2)
            ((uint16_t *)samples)[i] = (uint16_t)(s >> 16);
        else
            ((uint8_t *)samples)[i] = (uint8_t)(s >> 24);
    }
}

static int measure(const struct row *row)
{
    const int64_t n = row->size[0] * row->size[1] * row->size[2];
    const size_t bytes = (size_t)n * vp_type_size(row->type);
    struct vp_err err = VP_ERR_INIT;
    struct vp_footprint f = {0};
    struct vp_chain chain = {0};
    struct vp_op op;
    double seconds[3][ROUNDS];
    char *in = vp_alloc_raw(1, bytes, "input", &err), *out = vp_alloc_raw((size_t)n, sizeof(float), "output", &err);
    int rc = -1;

    if (!in || !out || vp_footprint_init(&f, row->shape, row->radius, &err) || row->make(&op, row, &f, &err)
        || vp_chain_add(&chain, &op, &err))
        goto out;
    fill(in, row->type, n);
    memset(out, 0, (size_t)n * sizeof(float));
    const size_t both = bytes + (size_t)n * vp_type_size(chain.stage[0].out);
    for (int i = 0; i < ROUNDS; i++)
        for (int k = 0; k < 3; k++) {
            const double start = now();
            if (k < 2 && vp_chain_apply(&chain, (const void *[]){in}, out, k + 1, &err))
                goto out;
            if (k == 2)
                memcpy(out, in, bytes);
            seconds[k][i] = now() - start;
        }
    const double one = median(seconds[0]), two = median(seconds[1]), copy = median(seconds[2]);
    const double copied = copy * (double)both / (double)(2 * bytes);
    printf("%-17s %8.2f ms %8.2f ms %8.0f Mvoxels/s, %4.1f x a copy: %s\n", row->name, 1e3 * one, 1e3 * two,
           1e-6 * (double)n / two, two / copied, chain.stage[0].text);
    fflush(stdout);
    rc = 0;
out:
    if (rc)
        fprintf(stderr, "%s: %s\n", row->name, err.msg);
    vp_chain_free(&chain);
    vp_footprint_free(&f);
    free(in);
    free(out);
    return rc;
}

int main(int argc, char **argv)
{
    int rc = 0;

    printf("%-17s %11s %11s\n", "", "1 thread", "2 threads");
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        int wanted = argc == 1;
        for (int i = 1; i < argc; i++)
            wanted |= !strcmp(argv[i], rows[r].name);
        if (wanted && measure(&rows[r]))
            rc = 1;
    }
    return rc;
}
