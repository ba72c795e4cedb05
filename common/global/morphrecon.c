/* SPDX-License-Identifier: BSD-3-Clause */
/* The operation: conversion of samples to keys and back, and the passes over a box. The forest of a box is in
 * morphrecon_forest.c, the solve in morphrecon_solve.c, reconstruction in memory in morphrecon_fill.c. */
#include "global/morphrecon_internal.h"

#include "base/err.h"
#include "base/size.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define T uint8_t
#define K uint8_t
#define NAME(name) name##_u8
#define OF_KEY vp_key_u8
#include "global/morphrecon_rows.inc"
#define T uint16_t
#define K uint16_t
#define NAME(name) name##_u16
#define OF_KEY vp_key_u16
#include "global/morphrecon_rows.inc"
#define T int16_t
#define K uint16_t
#define NAME(name) name##_i16
#define OF_KEY vp_i16_of_key
#include "global/morphrecon_rows.inc"
#define T float
#define K uint32_t
#define NAME(name) name##_f32
#define OF_KEY vp_f32_of_key
#include "global/morphrecon_rows.inc"
#define T double
#define K uint64_t
#define NAME(name) name##_f64
#define OF_KEY vp_f64_of_key
#include "global/morphrecon_rows.inc"

struct rows {
    void (*load)(const struct vp_morphrecon_params *p, const int64_t image[3], const int64_t at[3], int64_t n,
                 const void *given, const void *samples, void *marker, void *mask, struct vp_morphrecon_counts *counts);
    void (*store)(const struct vp_morphrecon_params *p, int64_t n, const void *keys, const void *masks,
                  const void *samples, void *out);
    void (*raise)(void *key, const void *to);
};

static const struct rows rows_of[VP_N_TYPES] = {
    [VP_U8] = {load_u8, store_u8, raise_u8},
    [VP_U16] = {load_u16, store_u16, raise_u16},
    [VP_I16] = {load_i16, store_i16, raise_i16},
    [VP_F32] = {load_f32, store_f32, raise_f32},
    [VP_F64] = {load_f64, store_f64, raise_f64},
};

/* ---- a box of keys ---- */

struct keys {
    const struct vp_op *op;
    const struct vp_morphrecon_params *p;
    struct rows rows;
    struct vp_box box;
    int64_t image[3], n[3];
    size_t size;              /* bytes of a key */
    int64_t stride, plane;
    int64_t guard;            /* padding before the first voxel and after the last, keys */
    void **marker, **mask;    /* planes */
    char *rest;               /* bytes of the scratch */
    void *own;                /* allocated where the planned scratch is too small */
};

static void measure(struct keys *k, const struct vp_op *op, const struct vp_box *box)
{
    const struct vp_morphrecon_params *p = op->params;
    *k = (struct keys){.op = op, .p = p, .rows = rows_of[p->type], .box = *box,
                       .size = (size_t)vp_key_size(p->key)};
    for (int a = 0; a < 3; a++) {
        k->image[a] = op->image[a];
        k->n[a] = vp_box_size(box, a);
    }
    k->stride = (int64_t)(vp_round64((size_t)(k->n[0] + 1) * k->size) / k->size);
    k->plane = k->stride * (k->n[1] + 1);
    const int64_t guard = k->stride + 1 + (p->connectivity == 4 || p->connectivity == 8 ? 0 : k->plane);
    k->guard = (int64_t)(vp_round64((size_t)guard * k->size) / k->size);
}

static size_t area_bytes(const struct keys *k, size_t size)
{
    return vp_round64((size_t)(k->n[2] * k->plane + 2 * k->guard) * size);
}

/* True if the keys are made in place of the result's samples. */
static bool in_result(const struct keys *k)
{
    return vp_type_size(k->op->out) == k->size;
}

/* True if the mask's samples are its keys. */
static bool in_mask(const struct keys *k)
{
    return (k->p->type == VP_U8 || k->p->type == VP_U16) && !k->p->erosion;
}

/* Returns the bytes of the reconstruction's workspace, or of the forest's, which follows it, if that is more. */
static uint64_t work_bytes(const struct keys *k, bool forest, int threads)
{
    const uint64_t fill = vp_morphrecon_scratch(k->p->key, k->n, k->p->connectivity, threads);
    const uint64_t trees = !forest ? 0
                           : area_bytes(k, sizeof(int32_t))
                                 + vp_morphrecon_forest_bytes(k->p->key, k->n, k->p->connectivity, threads);
    return fill > trees ? fill : trees;
}

static uint64_t scratch_of(const struct vp_op *op, const struct vp_box *in, const struct vp_box *out, int threads)
{
    struct keys k;
    bool whole = true;
    (void)in;
    measure(&k, op, out);
    for (int a = 0; a < 3; a++)
        whole = whole && vp_box_size(out, a) == op->image[a];
    if (!whole && k.n[2] * k.plane + 2 * k.guard >= VP_MAX_BOX)
        return UINT64_MAX / 16; /* indices of the forest would overflow: no plan has such boxes */
    const uint64_t areas = (!whole || !in_result(&k)) + (!whole || !in_mask(&k));
    return vp_round64(2 * (size_t)k.n[2] * sizeof(void *)) + areas * area_bytes(&k, k.size)
           + work_bytes(&k, !whole, threads);
}

/* Returns the address of row (y, z) of the box in a part. */
static void *row_of(const struct keys *k, const struct vp_part *p, enum vp_type type, int64_t y, int64_t z)
{
    return vp_part_at(p, vp_type_size(type), k->box.lo[0], k->box.lo[1] + y, k->box.lo[2] + z);
}

static void *key_at(const struct keys *k, void *const *planes, int64_t y, int64_t z)
{
    return (char *)planes[z] + (size_t)(y * k->stride) * k->size;
}

/* Assigns memory to the keys: that of the samples, or scratch. `in` is the mask; `out` NULL: a forest follows. */
static int workspace_layout(struct keys *k, const struct vp_op *op, const struct vp_part *in, const struct vp_part *out,
                   const struct vp_box *box, void *scratch, int threads, struct vp_err *err)
{
    measure(k, op, box);
    const bool there = out && in_result(k) && out->stride <= k->stride;
    const bool as_mask = out && in_mask(k) && in->stride <= k->stride && (!there || in->stride == out->stride);
    const uint64_t planned = scratch_of(op, box, box, threads);
    const uint64_t pointers = vp_round64(2 * (size_t)k->n[2] * sizeof(void *)), area = area_bytes(k, k->size);
    const uint64_t need = pointers + (uint64_t)(!there + !as_mask) * area + work_bytes(k, !out, threads);
    if (need > planned) { /* another stride, or an image of one box in two passes */
        if (!(k->own = vp_alloc_raw(1, (size_t)need, "keys", err)))
            return -1;
        scratch = k->own;
    }
    char *next = (char *)scratch + pointers;
    k->marker = scratch;
    k->mask = k->marker + k->n[2];
    if (there || as_mask) {
        k->stride = there ? out->stride : in->stride;
        k->plane = k->stride * k->n[1];
        k->guard = 0;
    }
    for (int64_t z = 0; z < k->n[2]; z++) {
        k->marker[z] = there ? row_of(k, out, op->out, 0, z) : next + (size_t)(z * k->plane + k->guard) * k->size;
        k->mask[z] = as_mask ? row_of(k, in, op->in, 0, z)
                             : next + (there ? 0 : area) + (size_t)(z * k->plane + k->guard) * k->size;
    }
    k->rest = next + (uint64_t)(!there + !as_mask) * area;
    return 0;
}

static struct vp_morphrecon_counts load(const struct keys *k, const struct vp_part *in, int threads)
{
    const struct vp_part *given = k->p->marker == VP_MARKER_GIVEN ? &in[0] : NULL, *mask = &in[k->op->inputs - 1];
    uint64_t clipped = 0, nan = 0;
    #pragma omp parallel for num_threads(threads) reduction(+ : clipped, nan) schedule(static) if (threads > 1)
    for (int64_t i = 0; i < k->n[1] * k->n[2]; i++) {
        struct vp_morphrecon_counts counts = {0};
        const int64_t y = i % k->n[1], z = i / k->n[1];
        const int64_t at[3] = {k->box.lo[0], k->box.lo[1] + y, k->box.lo[2] + z};
        k->rows.load(k->p, k->image, at, k->n[0], given ? row_of(k, given, k->op->in, y, z) : NULL,
                     row_of(k, mask, k->op->in, y, z), key_at(k, k->marker, y, z), key_at(k, k->mask, y, z), &counts);
        clipped += counts.clipped;
        nan += counts.nan;
    }
    return (struct vp_morphrecon_counts){clipped, nan};
}

static int fill(const struct keys *k, int threads, struct vp_err *err)
{
    return vp_morphrecon_fill(k->p->key, k->marker, (const void *const *)k->mask, k->stride, k->n, k->p->connectivity,
                              k->rest, threads, err);
}

static void store(const struct keys *k, const struct vp_part *in, const struct vp_part *out, int threads)
{
    const struct vp_part *mask = &in[k->op->inputs - 1];
    #pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
    for (int64_t i = 0; i < k->n[1] * k->n[2]; i++) {
        const int64_t y = i % k->n[1], z = i / k->n[1];
        k->rows.store(k->p, k->n[0], key_at(k, k->marker, y, z), key_at(k, k->mask, y, z),
                      row_of(k, mask, k->op->in, y, z), row_of(k, out, k->op->out, y, z));
    }
}

/* ---- the passes ---- */

static void add_counts(const struct vp_op *op, const void *told)
{
    const struct vp_morphrecon_params *p = op->params;
    const struct vp_morphrecon_entry *e = told;
    if (!p->counts)
        return;
    #pragma omp atomic
    p->counts->clipped += e->clipped;
    #pragma omp atomic
    p->counts->nan += e->nan;
}

static int run(const struct vp_op *op, const struct vp_part *in, const struct vp_part *out, void *scratch,
               int threads, struct vp_err *err)
{
    struct keys k;
    if (workspace_layout(&k, op, &in[op->inputs - 1], out, &out->box, scratch, threads, err))
        return -1;
    const struct vp_morphrecon_counts counts = load(&k, in, threads);
    const int rc = fill(&k, threads, err);
    if (!rc) {
        add_counts(op, &(struct vp_morphrecon_entry){.clipped = counts.clipped, .nan = counts.nan});
        store(&k, in, out, threads);
    }
    free(k.own);
    return rc;
}

static uint64_t summary(const struct vp_op *op, const struct vp_box *box)
{
    const struct vp_morphrecon_params *p = op->params;
    const struct vp_shell shell = vp_shell_of(box, op->image);
    return vp_entry_bytes(p->key, (uint64_t)vp_shell_voxels(&shell));
}

/* Copies keys between the shell of a box and an array, in the order of the shell's voxels. */
enum way { FROM_MARKER, FROM_MASK, RAISE };

static void each_of_shell(const struct keys *k, char *array, enum way way)
{
    const struct vp_shell shell = vp_shell_of(&k->box, k->image);
    for (int64_t at[3] = {-1, 0, 0}; vp_shell_next(&shell, at); array += k->size) {
        char *const key = (char *)key_at(k, way == FROM_MASK ? k->mask : k->marker, at[1], at[2])
                          + (size_t)at[0] * k->size;
        if (way == RAISE)
            k->rows.raise(key, array);
        else
            memcpy(array, key, k->size);
    }
}

static int summarize(const struct vp_op *op, const struct vp_part *in, const struct vp_box *box, void *entry,
                     void *scratch, int threads, struct vp_err *err)
{
    struct keys k;
    struct vp_morphrecon_entry *e = entry;
    if (workspace_layout(&k, op, &in[op->inputs - 1], NULL, box, scratch, threads, err))
        return -1;
    const struct vp_morphrecon_counts counts = load(&k, in, threads);
    if (fill(&k, threads, err)) {
        free(k.own);
        return -1;
    }
    const struct vp_shell shell = vp_shell_of(&k.box, k.image);
    *e = (struct vp_morphrecon_entry){.clipped = counts.clipped, .nan = counts.nan,
                                      .voxels = (uint32_t)vp_shell_voxels(&shell)};
    each_of_shell(&k, (char *)e + vp_entry_value(), FROM_MARKER);
    each_of_shell(&k, (char *)e + vp_entry_mask(k.p->key, e->voxels), FROM_MASK);
    struct vp_forest f = {.key = k.p->key, .size = {k.n[0], k.n[1], k.n[2]}, .stride = k.stride, .plane = k.plane,
                          .guard = k.guard, .value = k.marker[0], .mask = k.mask[0],
                          .connectivity = k.p->connectivity, .parent = (int32_t *)k.rest + k.guard,
                          .scratch = k.rest + area_bytes(&k, sizeof(int32_t)), .shell = shell};
    vp_morphrecon_forest(&f, e, threads);
    free(k.own);
    return 0;
}

static int finish(const struct vp_op *op, const struct vp_part *in, const struct vp_part *out, const void *entry,
                  void *scratch, int threads, struct vp_err *err)
{
    struct keys k;
    if (workspace_layout(&k, op, &in[op->inputs - 1], out, &out->box, scratch, threads, err))
        return -1;
    load(&k, in, threads);
    each_of_shell(&k, (char *)(uintptr_t)entry + vp_entry_value(), RAISE);
    const int rc = fill(&k, threads, err);
    if (!rc)
        store(&k, in, out, threads);
    free(k.own);
    return rc;
}

/* ---- the operation ---- */

static const char *const marker_names[] = {"a given marker", "a lower mask", "the mask less one", "its border", "a seed"};

static const struct vp_two_pass two_pass = {summary, summarize, vp_morphrecon_solve, finish, NULL};
static const struct vp_report report = {sizeof(struct vp_morphrecon_entry), add_counts};

/* Returns the nanoseconds of a voxel on one of 16 cores of a Xeon: 14 for h-maxima of solid u8 images and 40 for those
 * of f32, 30 for holes. Paths are longer where the marker is far from the mask. */
static double cost_of(const struct vp_morphrecon_params *p)
{
    static const double of_key[] = {[VP_KEY_U8] = 1, [VP_KEY_U16] = 2, [VP_KEY_U32] = 3, [VP_KEY_U64] = 4};
    const bool solid = p->connectivity != 4 && p->connectivity != 8,
               close = p->marker == VP_MARKER_SHIFT || p->marker == VP_MARKER_LESS;
    return (solid ? 14 : 4) * (close ? 1 : 2) * of_key[p->key];
}

int vp_morphrecon_op(struct vp_op *op, const struct vp_morphrecon_params *given, const int64_t image[3],
                     struct vp_err *err)
{
    struct vp_morphrecon_params *p = malloc(sizeof *p);
    if (!p)
        return vp_fail(err, VP_ERESOURCE, "out of memory");
    *p = *given;
    p->key = vp_key_of(p->type);
    const enum vp_type difference = p->type == VP_I16 ? VP_U16 : p->type;
    *op = (struct vp_op){.kernel = "morphrecon", .image = {image[0], image[1], image[2]},
                         .inputs = p->marker == VP_MARKER_GIVEN ? 2 : 1, .from = {~0, ~1}, .in = p->type,
                         .out = p->result == VP_RECON_MARK         ? VP_U8
                                : p->result == VP_RECON_DIFFERENCE ? difference
                                                                   : p->type,
                         .cost = cost_of(p), .params = p, .free = free, .scratch = scratch_of,
                         .run = run, .two_pass = &two_pass, .report = &report};
    snprintf(op->text, sizeof op->text, "reconstruction by %s from %s, %d neighbours",
             p->erosion ? "erosion" : "dilation", marker_names[p->marker], p->connectivity);
    return 0;
}
