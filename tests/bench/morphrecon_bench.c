/* SPDX-License-Identifier: BSD-3-Clause */
/* Morphological reconstruction in memory: ours with 1 and 2 threads (and all), and two ways that others take, which are
 * the references of the tests: Vincent's hybrid algorithm and the priority order. Minima of several rounds; results are
 * compared. Where there is a GPU, its time from samples to samples in its own memory. `morphrecon_bench NAME...`
 * measures these rows only, with --ours before them without the references; `morphrecon_bench --write DIR NAME`
 * leaves the images as DIR/marker and DIR/mask and says what they are (peers.py gives them to others). */
#include "../unit/morphrecon_ref.h"
#include "base/err.h"
#include "base/size.h"
#include "device/device.h"
#include "global/morphrecon.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 7 };

enum backend { LOWERED, HOLES, SERPENTINE, SPIRAL };

struct row {
    const char *name;
    enum backend backend;
    enum vp_type type;
    double h;            /* of LOWERED, in grey values of 8 bits */
    int64_t size[3];
    int connectivity;
};

static const struct row rows[] = {
    {"hmax-10-u8-8", LOWERED, VP_U8, 10, {4096, 4096, 1}, 8},
    {"hmax-10-u8-4", LOWERED, VP_U8, 10, {4096, 4096, 1}, 4},
    {"hmax-40-u8-8", LOWERED, VP_U8, 40, {4096, 4096, 1}, 8},
    {"hmax-40-u8-4", LOWERED, VP_U8, 40, {4096, 4096, 1}, 4},
    {"holes-u8-8", HOLES, VP_U8, 0, {4096, 4096, 1}, 8},
    {"holes-u8-4", HOLES, VP_U8, 0, {4096, 4096, 1}, 4},
    {"serpentine-u8-4", SERPENTINE, VP_U8, 0, {4096, 4096, 1}, 4},
    {"serpentine-u8-8", SERPENTINE, VP_U8, 0, {4096, 4096, 1}, 8},
    {"spiral-u8-8", SPIRAL, VP_U8, 0, {4096, 4096, 1}, 8},
    {"hmax-10-u16-8", LOWERED, VP_U16, 10, {4096, 4096, 1}, 8},
    {"holes-u16-8", HOLES, VP_U16, 0, {4096, 4096, 1}, 8},
    {"hmax-10-f32-8", LOWERED, VP_F32, 10, {4096, 4096, 1}, 8},
    {"holes-f32-8", HOLES, VP_F32, 0, {4096, 4096, 1}, 8},
    {"hmax-10-u8-26", LOWERED, VP_U8, 10, {256, 256, 256}, 26},
    {"hmax-10-u8-6", LOWERED, VP_U8, 10, {256, 256, 256}, 6},
    {"hmax-40-u8-26", LOWERED, VP_U8, 40, {256, 256, 256}, 26},
    {"holes-u8-26", HOLES, VP_U8, 0, {256, 256, 256}, 26},
    {"holes-u8-6", HOLES, VP_U8, 0, {256, 256, 256}, 6},
    {"holes-u16-26", HOLES, VP_U16, 0, {256, 256, 256}, 26},
    {"holes-f32-26", HOLES, VP_F32, 0, {256, 256, 256}, 26},
    {"serpentine-u8-6", SERPENTINE, VP_U8, 0, {256, 256, 256}, 6},
};

/* ---- images ---- */

/* Each sample becomes the mean of its neighbours along an axis, up to `radius` away, as on a ring. */
static void blur(float *image, float *copy, float *sum, const int64_t n[3], int axis, int64_t radius)
{
    const int64_t inner = axis == 0 ? 1 : axis == 1 ? n[0] : n[0] * n[1], m = n[axis], all = n[0] * n[1] * n[2];
    const float scale = 1 / (float)(2 * radius + 1);

    memcpy(copy, image, (size_t)all * sizeof *image);
    for (int64_t at = 0; at < all; at += inner * m) {
        const float *const from = copy + at;
        float *const to = image + at;
        for (int64_t i = 0; i < inner; i++)
            sum[i] = 0;
        for (int64_t k = -radius; k <= radius; k++)
            for (int64_t i = 0; i < inner; i++)
                sum[i] += from[(k + m) % m * inner + i];
        for (int64_t k = 0; k < m; k++) {
            const int64_t in = (k + radius + 1) % m * inner, out = (k - radius + m) % m * inner;
            for (int64_t i = 0; i < inner; i++) {
                to[k * inner + i] = sum[i] * scale;
                sum[i] += from[in + i] - from[out + i];
            }
        }
    }
}

static void scale(float *image, int64_t n, double to)
{
    double sum = 0, square = 0;

    for (int64_t i = 0; i < n; i++) {
        sum += image[i];
        square += (double)image[i] * image[i];
    }
    const double mean = sum / (double)n, k = to / sqrt(square / (double)n - mean * mean);
    for (int64_t i = 0; i < n; i++)
        image[i] = (float)((image[i] - mean) * k);
}

/* Noise at four scales, the largest the strongest; mean 128, deviation 45. NULL: no memory. */
static float *texture(const int64_t n[3])
{
    static const double radius[2][4] = {{1, 4, 16, 64}, {0.7, 2, 8, 20}},
                        weight[2][4] = {{1, 2.5, 6, 14}, {1, 2, 5, 8}};
    const int64_t all = n[0] * n[1] * n[2];
    float *const image = calloc((size_t)all, sizeof *image), *const noise = malloc((size_t)all * sizeof *noise),
          *const copy = malloc((size_t)all * sizeof *copy), *const sum = malloc((size_t)(n[0] * n[1]) * sizeof *sum);
    uint64_t s = 1;

    if (!image || !noise || !copy || !sum)
        return NULL;
    for (int k = 0; k < 4; k++) {
        const double r = radius[n[2] > 1][k];
        for (int64_t i = 0; i < all; i++) {
            s = s * 6364136223846793005u + 1442695040888963407u;
            noise[i] = (float)((s >> 16 & 0xffff) + (s >> 32 & 0xffff) + (s >> 48));
        }
        for (int axis = 0; axis < (n[2] > 1 ? 3 : 2); axis++)
            for (int pass = 0; pass < 3; pass++)
                blur(noise, copy, sum, n, axis, r < 1 ? pass == 0 : r < 2 ? pass < 2 : (int64_t)(r + 0.5) - 1);
        scale(noise, all, weight[n[2] > 1][k]);
        for (int64_t i = 0; i < all; i++)
            image[i] += noise[i];
    }
    scale(image, all, 45);
    for (int64_t i = 0; i < all; i++)
        image[i] += 128;
    free(noise);
    free(copy);
    free(sum);
    return image;
}

static uint32_t key_of(enum vp_type type, double v)
{
    v = type == VP_F32 ? v : v < 0 ? 0 : v > 255 ? 255 : v;
    return type == VP_U8 ? (uint32_t)v : type == VP_U16 ? (uint32_t)(v * 257) : vp_key_f32((float)v, false);
}

static void set(void *image, enum vp_type type, int64_t i, uint32_t key)
{
    if (type == VP_U8)
        ((uint8_t *)image)[i] = (uint8_t)key;
    else if (type == VP_U16)
        ((uint16_t *)image)[i] = (uint16_t)key;
    else
        ((uint32_t *)image)[i] = key;
}

/* A path of one pixel with walls of one pixel: rows to and fro, planes above each other with a door at their ends. */
static bool on_serpentine(const int64_t n[3], int64_t x, int64_t y, int64_t z)
{
    const int64_t last = (n[1] - 1) / 2 * 2, end = last / 2 % 2 == 0 ? n[0] - 1 : 0;

    if (z & 1)
        return z & 2 ? x == 0 && y == 0 : x == end && y == last;
    return y % 2 == 0 || (y < last && x == (y % 4 == 1 ? n[0] - 1 : 0));
}

/* The path to the middle: rings two apart, each cut beside the step to the next. */
static bool on_spiral(const int64_t n[3], int64_t x, int64_t y)
{
    const int64_t right = n[0] - 1 - x, below = n[1] - 1 - y;
    const int64_t ring = vp_min64(vp_min64(x, right), vp_min64(y, below));

    if (x == ring && y == ring + 1 && ring % 2 == 0)
        return false;
    return ring % 2 == 0 || (y == ring + 1 && x == ring);
}

static bool make(const struct row *row, void *marker, void *mask)
{
    const int64_t *n = row->size;
    const bool path = row->backend == SERPENTINE || row->backend == SPIRAL;
    float *const image = path ? NULL : texture(n);

    if (!path && !image)
        return false;
    for (int64_t z = 0, i = 0; z < n[2]; z++)
        for (int64_t y = 0; y < n[1]; y++)
            for (int64_t x = 0; x < n[0]; x++, i++) {
                const bool on = row->backend == SERPENTINE ? on_serpentine(n, x, y, z) : on_spiral(n, x, y);
                const double v = path ? on ? 200 : 0 : row->backend == HOLES ? 255 - image[i] : image[i];
                const bool seen = row->backend == HOLES ? vp_morphrecon_at_border(n, x, y, z) : i == 0;
                set(mask, row->type, i, key_of(row->type, v));
                set(marker, row->type, i, row->backend == LOWERED ? key_of(row->type, floor(v) - row->h)
                                          : key_of(row->type, seen ? v : row->type == VP_F32 ? -1e30 : 0));
            }
    free(image);
    return true;
}

/* ---- times ---- */

static int ours(const struct row *row, enum vp_key key, void *j, const void *g, void **planes, void *scratch,
                int threads, struct vp_err *err)
{
    const size_t plane = (size_t)(row->size[0] * row->size[1]) << key;
    const void **const mask = (const void **)planes + row->size[2];

    for (int64_t z = 0; z < row->size[2]; z++) {
        planes[z] = (char *)j + (size_t)z * plane;
        mask[z] = (const char *)g + (size_t)z * plane;
    }
    return vp_morphrecon_fill(key, planes, mask, row->size[0], row->size, row->connectivity, scratch, threads, err);
}

/* The first GPU. */
static const struct vp_backend *gpu;
static int gpu_number;

static void find_gpu(void)
{
    struct vp_err err = VP_ERR_INIT;
    int *devices, n;

    if (vp_devices_find(&gpu, &devices, &n, "cuda", &err)) {
        gpu = NULL;
        return;
    }
    gpu_number = devices[0];
    free(devices);
}

/* Keys as samples, or samples as keys, where these differ. */
static void convert(const struct row *row, void *image, int64_t n, bool to_keys)
{
    if (row->type != VP_F32)
        return;
    for (int64_t i = 0; i < n; i++)
        if (to_keys)
            ((uint32_t *)image)[i] = vp_key_f32(((float *)image)[i], false);
        else
            ((float *)image)[i] = vp_f32_of_key(((uint32_t *)image)[i], false);
}

/* Seconds of the fastest of ROUNDS, 0: it failed. `other` gets the result. */
static double on_gpu(const struct row *row, const void *marker, const void *mask, void *other, size_t bytes,
                     struct vp_err *err)
{
    const struct vp_morphrecon_params given = {.type = row->type, .connectivity = row->connectivity,
                                               .marker = VP_MARKER_GIVEN};
    const int64_t *const n = row->size, size[3] = {(int64_t)bytes, 1, 1};
    const struct vp_kernel *const kernel = gpu->kernel("morphrecon");
    struct vp_event *start = NULL, *end = NULL;
    struct vp_queue *queue = NULL;
    void *image[3] = {0}, *scratch = NULL, *state = NULL;
    struct vp_area area[3];
    struct vp_op op;
    double best = 0;

    if (vp_morphrecon_op(&op, &given, n, err))
        return 0;
    int rc = gpu->queue_create(gpu_number, &queue, err) || gpu->event_create(gpu_number, false, &start, err)
             || gpu->event_create(gpu_number, false, &end, err)
             || gpu->alloc(gpu_number, kernel->scratch(&op, n, n), &scratch, err)
             || gpu->alloc(gpu_number, kernel->state(&op, n), &state, err);
    for (int k = 0; k < 3 && !rc; k++) {
        rc = gpu->alloc(gpu_number, bytes, &image[k], err);
        area[k] = (struct vp_area){{{0}, {n[0], n[1], n[2]}}, n[0], n[0] * n[1], image[k]};
        if (!rc && k < 2) {
            memcpy(other, k ? mask : marker, bytes);
            convert(row, other, n[0] * n[1] * n[2], false);
            rc = gpu->copy(queue, &(struct vp_pitched){image[k], size[0], size[0]},
                           &(struct vp_pitched){other, size[0], size[0]}, size, VP_UP, err)
                 || gpu->event_record(queue, end, err) || gpu->event_synchronize(end, err);
        }
    }
    const struct vp_work work = {.pass = VP_MAKE, .state = state, .in = area, .out = &area[2], .scratch = scratch,
                                 .queue = queue};
    for (int i = 0; i < ROUNDS && !rc; i++) {
        rc = gpu->event_record(queue, start, err) || kernel->launch(&op, &work, err) || gpu->event_record(queue, end, err)
             || gpu->event_synchronize(end, err);
        const double seconds = rc ? 0 : gpu->event_elapsed(start, end);
        best = best == 0 ? seconds : fmin(best, seconds);
    }
    rc = rc || gpu->copy(queue, &(struct vp_pitched){other, size[0], size[0]},
                         &(struct vp_pitched){image[2], size[0], size[0]}, size, VP_DOWN, err)
         || gpu->event_record(queue, end, err) || gpu->event_synchronize(end, err);
    convert(row, other, n[0] * n[1] * n[2], true);
    gpu->queue_destroy(queue);
    gpu->event_destroy(start);
    gpu->event_destroy(end);
    for (int k = 0; k < 3; k++)
        if (image[k])
            gpu->release(gpu_number, image[k]);
    if (scratch)
        gpu->release(gpu_number, scratch);
    if (state)
        gpu->release(gpu_number, state);
    op.free(op.params);
    return rc ? 0 : best;
}

static int measure(const struct row *row, bool references, const char *write)
{
    const int64_t n = row->size[0] * row->size[1] * row->size[2];
    const enum vp_key key = row->type == VP_U8 ? VP_KEY_U8 : row->type == VP_U16 ? VP_KEY_U16 : VP_KEY_U32;
    const int cores = vp_cores(), most = cores > 2 ? cores : 2, tried[3] = {1, 2, cores};
    const size_t bytes = (size_t)n << key;
    const uint64_t room = vp_morphrecon_scratch(key, row->size, row->connectivity, most);
    struct vp_err err = VP_ERR_INIT;
    char *marker = vp_alloc_raw(1, bytes, "marker", &err), *mask = vp_alloc_raw(1, bytes, "mask", &err);
    char *j = vp_alloc_raw(1, bytes, "result", &err), *other = vp_alloc_raw(1, bytes, "other result", &err);
    void *scratch = vp_alloc_raw(1, room, "scratch", &err), **planes = calloc(2 * (size_t)row->size[2], sizeof *planes);
    double best[5] = {1e9, 1e9, 1e9, 1e9, 1e9};
    bool equal = true;
    int rc = -1;

    if (!marker || !mask || !j || !other || !scratch || !planes || !make(row, marker, mask))
        goto out;
    if (write) {
        const char *const names[2] = {"marker", "mask"};
        for (int k = 0; k < 2; k++) {
            char path[4096];
            snprintf(path, sizeof path, "%s/%s", write, names[k]);
            FILE *const f = fopen(path, "wb");
            const bool written = f && fwrite(k ? mask : marker, 1, bytes, f) == bytes;
            if (!f || fclose(f) || !written) {
                vp_fail_errno(&err, "%s", path);
                goto out;
            }
        }
        printf("%d %lld %lld %lld %d\n", 1 << key, (long long)row->size[0], (long long)row->size[1],
               (long long)row->size[2], row->connectivity);
        rc = 0;
        goto out;
    }
    for (int i = 0; i < ROUNDS; i++)
        for (int k = 0; k < (cores > 2 ? 3 : 2); k++) {
            memcpy(j, marker, bytes);
            const double start = vp_now();
            if (ours(row, key, j, mask, planes, scratch, tried[k], &err))
                goto out;
            best[k] = fmin(best[k], vp_now() - start);
        }
    /* the order costs most where it helps least: minutes then */
    const int last = key <= VP_KEY_U16 && row->backend != LOWERED ? 5 : 4;
    for (int k = 3; k < last && references; k++)
        for (int i = 0; i < (k == 3 ? 2 : 1); i++) {
            memcpy(other, marker, bytes);
            const double start = vp_now();
            if (!(k == 3 ? ref_hybrid : ref_priority)(key, other, mask, row->size, row->connectivity))
                goto out;
            best[k] = fmin(best[k], vp_now() - start);
            equal &= !memcmp(other, j, bytes);
        }
    printf("%-16s %8.2f ms %8.2f ms", row->name, 1e3 * best[0], 1e3 * best[1]);
    if (cores > 2)
        printf(" %8.2f ms", 1e3 * best[2]);
    if (references)
        printf(" %9.1f ms %5.1f x", 1e3 * best[3], best[3] / best[1]);
    if (references && best[4] < 1e9)
        printf(" %9.1f ms %6.1f x", 1e3 * best[4], best[4] / best[1]);
    else if (references)
        printf(" %21s", "-");
    if (gpu) {
        const double seconds = on_gpu(row, marker, mask, other, bytes, &err);
        if (seconds == 0)
            goto out;
        equal &= !memcmp(other, j, bytes);
        printf(" %8.3f ms", 1e3 * seconds);
    }
    if (!equal)
        printf("  NOT EQUAL");
    printf("  %.2f bytes a sample\n", (double)room / (double)n);
    fflush(stdout);
    rc = equal ? 0 : -1;
out:
    if (rc)
        fprintf(stderr, "%s: %s\n", row->name, err.msg);
    free(marker);
    free(mask);
    free(j);
    free(other);
    free(scratch);
    free(planes);
    return rc;
}

int main(int argc, char **argv)
{
    const bool write = argc == 4 && !strcmp(argv[1], "--write"), alone = argc > 1 && !strcmp(argv[1], "--ours");
    const int first = write ? 3 : alone ? 2 : 1;
    int rc = 0;

    if (!write) {
        find_gpu();
        printf("%-16s %11s %11s", "", "1 thread", "2 threads");
        if (vp_cores() > 2)
            printf(" %6d thr.", vp_cores());
        if (!alone)
            printf(" %12s %7s %12s %8s", "hybrid", "", "priority", "");
        printf(gpu ? " %11s  scratch\n" : "  scratch\n", "GPU");
    }
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        bool wanted = argc == first;
        for (int i = first; i < argc; i++)
            wanted |= !strcmp(argv[i], rows[r].name);
        if (wanted && measure(&rows[r], !alone, write ? argv[2] : NULL))
            rc = 1;
    }
    return rc;
}
