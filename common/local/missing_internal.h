/* SPDX-License-Identifier: BSD-3-Clause */
/* Internal to missing*.c: a tile of the output with the samples around it, and the rules that make its voxels. */
#pragma once

#include "local/footprint.h"
#include "local/missing.h"

/* State of a sample: beyond the edge, where none is made up; there; missing. */
enum vp_sample_state { VP_OUTSIDE, VP_PRESENT, VP_ABSENT };

/* Source of a voxel: the operation itself; the rule; there is none. */
enum vp_missing_result { VP_AS_IS, VP_MADE, VP_HOLE };

struct vp_missing_rule;

/* op->params of "missing" over a neighbourhood. */
struct vp_missing_params {
    struct vp_op inner;        /* the operation itself */
    const struct vp_missing_rule *rule;
    struct vp_missing given;
    bool first;                /* the input is the program's: the value and the mask count */
    bool copies;               /* the operation gets a copy of the input, NaN where it is missing */
    enum vp_edge edge;
    int64_t lo[3], hi[3];      /* offsets of the first and the last sample that a voxel needs */
    int64_t shift[3];          /* voxel p of the result lies at p - shift of the input */
    int64_t side[3];           /* largest tile */
    int64_t spans, count;      /* footprints: spans within lo and hi, and their samples */
    struct vp_span *span;
    double none;               /* sample where there is no result; NaN for floats */
};

/* A tile, in the memory of a thread. */
struct vp_missing_work {
    const struct vp_missing_params *m;
    int64_t image[3];          /* voxels of the input */
    struct vp_box tile;        /* output */
    struct vp_box seen;        /* samples that it needs, in the input's coordinates; may lie outside */
    int64_t n[3];              /* sizes of `seen` */
    double *v;                 /* its samples, 0 where there are none */
    uint8_t *state;
    double *row;               /* one row of `seen` */
    int32_t *near;             /* for each voxel of the tile: missing samples within its reach */
    int32_t *counts[2];        /* sums of them along x, and along x and y */
    double *result;            /* one row of the tile */
    uint8_t *what;             /* enum vp_missing_result of it */
    void *own;                 /* memory of the rule */
};

/* A rule makes the voxels of a row of the tile that have something missing near, after prepare() saw the tile. */
struct vp_missing_rule {
    /* Places its memory; returns the bytes. `own` is NULL if only the bytes are wanted. NULL: none is needed. */
    size_t (*layout)(const struct vp_missing_work *w, void *own);
    void (*prepare)(struct vp_missing_work *w);                  /* may be NULL */
    void (*row)(struct vp_missing_work *w, int64_t y, int64_t z); /* fills `result` and `what` */
};

extern const struct vp_missing_rule vp_missing_gauss, vp_missing_convolve, vp_missing_nlmeans; /* missing_sums.c */
extern const struct vp_missing_rule vp_missing_extremum, vp_missing_rank, vp_missing_entropy,
    vp_missing_moments;                                                                        /* missing_window.c */

/* Returns the index in `seen` of the sample at offsets (dx, dy, dz) from voxel (x, y, z) of the result. */
static inline int64_t vp_missing_at(const struct vp_missing_work *w, int64_t x, int64_t y, int64_t z)
{
    const int64_t *s = w->m->shift, *lo = w->seen.lo;

    return ((z - s[2] - lo[2]) * w->n[1] + y - s[1] - lo[1]) * w->n[0] + x - s[0] - lo[0];
}

/* Returns the missing samples near the voxels of a row of the tile. */
static inline const int32_t *vp_missing_near(const struct vp_missing_work *w, int64_t y, int64_t z)
{
    const struct vp_box *t = &w->tile;

    return w->near + ((z - t->lo[2]) * vp_box_size(t, 1) + y - t->lo[1]) * vp_box_size(t, 0);
}

/* Decides on a voxel by the weights that are present and absent; `at`: its sample in `seen`. */
static inline enum vp_missing_result vp_missing_decide(const struct vp_missing_work *w, int64_t at, double present,
                                                       double absent)
{
    const struct vp_missing *g = &w->m->given;

    if (!(present > 0) || present < g->coverage * (present + absent) * (1 - 1e-9))
        return VP_HOLE;
    return g->keeps && w->state[at] == VP_ABSENT ? VP_HOLE : VP_MADE;
}
