/* SPDX-License-Identifier: BSD-3-Clause */
/* The grid of ranks, and what a run on it takes: pure functions. R rows of ranks, each of which makes a slab of the
 * volume, by C columns, each of which sums up a subset of the views (Chen et al. 2019, sec. 4); rank = column * R +
 * row, so that the ranks of a column, which share their views, are neighbours. The performance is modelled as there
 * (sec. 4.2): reading, filtering, sharing and back-projecting overlap; then slices are fetched, added and stored. */
#pragma once

#include "ct/reconstruct.h"

/* Rates of a rank, by micro-benchmarks: `make model` writes a file of them. X(name, meaning). All but
 * `start` and counts in units a second; 0: no limit. */
#define VP_MODEL(X) \
    X(load, "bytes of projections that a host reads from storage") \
    X(load_all, "the same of all hosts together; 0: no limit but theirs") \
    X(filter, "samples that a rank filters") \
    X(exchange, "bytes of views that a rank takes from others") \
    X(upload, "bytes that a rank copies to its device; 0: it has none") \
    X(backproject, "voxels that a rank updates with a view each") \
    X(backproject_fine, "the same where the detector has twice as many samples a side as the volume; 0: the same") \
    X(backproject_coarse, "and where it has half as many; 0: the same") \
    X(download, "bytes that a rank copies from its device; 0: it has none") \
    X(reduce, "bytes of its slab that a rank adds to those of others, with sending and taking") \
    X(store, "bytes of the volume that a host writes to storage") \
    X(store_all, "the same of all hosts together; 0: no limit but theirs") \
    X(start, "seconds until the first views are there, and after the last slice") \
    X(host_ranks, "ranks on each host; 0: as they are started") \
    X(memory, "bytes that a rank has for its slab of the volume; 0: as on this machine")

struct vp_model {
#define VP_MODEL_FIELD(name, what) double name;
    VP_MODEL(VP_MODEL_FIELD)
#undef VP_MODEL_FIELD
};

/* Reads lines of `key = value`; # begins a comment, missing keys keep their values, and convolve_... are skipped (for
 * img-convolve). VP_EUSAGE. */
int vp_model_read(struct vp_model *m, const char *path, struct vp_err *err);

/* The reconstruction, and the ranks that share it. */
struct vp_mesh_problem {
    const struct vp_reconstruct *of; /* all views and slices; its limits do not count */
    int sample_bytes;   /* bytes of a sample of the projections in storage */
    int ranks, hosts;
    int64_t unit;       /* slabs are multiples of it, but for the last ones */
    bool mirror;        /* slabs of the lower half with their mirror images can be made */
    int64_t pair;       /* > 0: distance of opposite views, which subsets hold both */
    bool on_host;       /* the CPU back-projects, in turn with all else that it does */
    bool discards;      /* the volume is discarded: nothing is stored */
    bool filter_device; /* views are filtered where they are back-projected, once they are shared */
};

struct vp_mesh {
    int rows, columns;
    bool half;   /* slabs of the lower half, and their mirror images */
    bool gather; /* each rank reads its own views, and takes the others' from the ranks of its column */
    int parts;   /* parts of a slab, which leave one after the other while the rest is made; 0, 1: all at the end */
    double price; /* seconds of a choice, with a penalty for other bits */
};

/* Seconds. */
struct vp_mesh_times {
    double load, filter, gather, upload, backproject;
    double compute; /* all of these, overlapped */
    double download, reduce, store, run;
};

/* Sets [*z0, *z1), the slices of a row of the grid (of the lower half, if half): whole units, as even as possible.
 * False: it has none. */
bool vp_mesh_slab(const struct vp_mesh_problem *p, const struct vp_mesh *m, int row, int64_t *z0, int64_t *z1);

/* Sets [*v0, *v1), the detector rows that a slab needs. */
void vp_mesh_rows(const struct vp_mesh_problem *p, const struct vp_mesh *m, int row, int64_t *v0, int64_t *v1);

void vp_mesh_times(struct vp_mesh_times *t, const struct vp_mesh_problem *p, const struct vp_model *model,
                   const struct vp_mesh *m);

/* Returns all grids of p->ranks ranks, the best first: those without subsets of the views give the bits of one process,
 * and come before others that save less than a quarter of the time, or a tenth of a second. `gather`: -1 as is best, 0,
 * 1. `slabs_apart`: not mirrored. malloc'd; *n of them; NULL without memory or if no grid has a slice for every row (*n
 * = 0). */
struct vp_mesh *vp_mesh_choices(const struct vp_mesh_problem *p, const struct vp_model *model, int gather,
                                bool slabs_apart, int *n);
