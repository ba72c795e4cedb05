/* SPDX-License-Identifier: BSD-3-Clause */
/* The pair of ct/pair.h on one device with memory of its own: the kernels that it offers, found by the name "pair", and
 * the host's side of them. The kernels lay out the volumes and the views (plan). */
#pragma once

#include "ct/pair.h"

#ifdef __cplusplus
extern "C" {
#endif

struct vp_backend;
struct vp_queue;

enum { VP_PAIR_SLOTS = 128 };

/* A view, in voxel indices of the grid. */
struct vp_pair_view {
    double P[12];       /* to (u w, row w, w), w = 1 at the isocentre */
    double ray[3][3];   /* direction of pixel (u, v), mm: ray[0] u + ray[1] v + ray[2] */
    int march;          /* 0: x, 1: y, 2: z */
    bool column;        /* u and depth are the same along a column, */
    bool flip;          /* and rows are counted from the other end, so that they grow with k */
};

/* Sizes that kernels need, the views of a call, and what the kernels plan. */
struct vp_pair_shape {
    int64_t n[3], nu, nv, n_views;
    double voxel[3];
    const struct vp_pair_view *views; /* views of the scan, in device memory, */
    const struct vp_pair_view *scan;  /* and in the host's */
    bool may_pair;              /* views have room to wait for those half a turn away */
    int view[VP_PAIR_SLOTS];    /* views of a call, of a transpose one in each slot, */
    int place[VP_PAIR_SLOTS];   /* their places in y (weigh); */
    int other[VP_PAIR_SLOTS], other_place[VP_PAIR_SLOTS]; /* and, if slots are pairs, the opposite views */
    int count;                  /* views, slots */
    bool pairs;                 /* each slot is two views half a turn apart */
    int row_taps, voxel_taps;   /* rows that a voxel meets, and voxels that a row meets, at most: 2, 3 or 5 */
    double rows_least, rows_most, voxels_most; /* rows a voxel, voxels a row */
    double columns;             /* columns a pixel is wide, at most */
    int line_taps;              /* lines that a column meets, at most: 3 or 4 */
    bool general;               /* the edges of each voxel are projected, and the fields above from row_taps on are 0: */
    bool flat;                  /* fans (one slice, one row), views of any matrix, very large or small voxels */

    /* set by plan(): bytes of device memory, */
    uint64_t x_bytes, sum_bytes, lines_bytes, work_bytes;
    int slots;                  /* slots that the transpose takes at once, at most VP_PAIR_SLOTS */
    bool opposite;              /* slots may be pairs: view n_views / 2 + i is view i of the grid turned by half a turn */
    bool slices;                /* the sum lies slice after slice */
    /* and private to the kernels; [1]: of pairs */
    int projector, collector, channels, set, box_rows[2], stages[2];
    int rows_met[2];            /* rows that are projected: from, to */
    bool high_boxes;            /* blocks have half the rows, so that their boxes fit */
};

/* All work is queued, 0 or -1. Memory is the device's. x, sum and lines are cleared before they are used. */
struct vp_pair_kernels {
    /* Chooses the kernels for a scan. VP_ERESOURCE if the device cannot be used. */
    int (*plan)(int device, struct vp_pair_shape *shape, struct vp_err *err);
    int (*clear)(struct vp_queue *q, float *p, uint64_t bytes, struct vp_err *err);
    /* Copies slices [z, z + n), ny x nx each, to x; and from sum, unless it lies in slices. */
    int (*lift)(struct vp_queue *q, const struct vp_pair_shape *shape, int64_t z, int64_t n, const float *slices, float *x,
                struct vp_err *err);
    int (*lower)(struct vp_queue *q, const struct vp_pair_shape *shape, int64_t z, int64_t n, const float *sum,
                 float *slices, struct vp_err *err);
    /* Sets y, shape->count views of nv x nu, to the projections of x. */
    int (*project)(struct vp_queue *q, const struct vp_pair_shape *shape, const float *x, float *work, float *y,
                   struct vp_err *err);
    /* Fills slots [0, shape->count) of lines with views of y, weighted with the length of rays. */
    int (*weigh)(struct vp_queue *q, const struct vp_pair_shape *shape, const float *y, float *lines, struct vp_err *err);
    /* Adds the transpose of the views in slots [0, shape->count) to the sum. */
    int (*collect)(struct vp_queue *q, const struct vp_pair_shape *shape, const float *lines, float *work, float *sum,
                   struct vp_err *err);
    /* Copies slices to sum, unless it lies in slices: the opposite of lower(). */
    int (*raise)(struct vp_queue *q, const struct vp_pair_shape *shape, int64_t z, int64_t n, const float *slices,
                 float *sum, struct vp_err *err);
};

struct vp_pair_device;
struct vp_pair_stage;

/* Chooses the kernels and their memory for the pair on a device. VP_ERESOURCE as vp_pair_device_open(). */
int vp_pair_device_plan(struct vp_pair_shape *shape, const struct vp_pair *pair, const struct vp_backend *backend, int device,
                        struct vp_err *err);
/* Returns the bytes of device memory that a planned pair takes for these parts. */
uint64_t vp_pair_device_bytes(const struct vp_pair_shape *shape, const struct vp_pair *pair, unsigned use);
/* Returns a number of views: a sum that is fetched after a multiple of it, and sent back, has the same bits as one that
 * was not; 0: only after all views of a pass. */
int64_t vp_pair_device_step(const struct vp_pair_shape *shape);
/* Returns the bytes of these that pairs of one device, whose calls do not overlap, may share; and true if `a` shares those of
 * `b`. */
uint64_t vp_pair_device_common(const struct vp_pair_shape *shape, const struct vp_pair *pair, unsigned use);
bool vp_pair_device_shares(const struct vp_pair_shape *a, const struct vp_pair_shape *b);
/* Opens a planned one, for parts of the work. `stage`: of the same device, or NULL; the caller's. `lead`: one whose memory it
 * shares, to be closed in the same go, and whose adjoint() adds views to the sums of all that share; or NULL. */
int vp_pair_device_open_planned(struct vp_pair_device **d, const struct vp_pair *pair, const struct vp_pair_shape *planned,
                                unsigned use, const struct vp_backend *backend, int device, struct vp_pair_stage *stage,
                                struct vp_pair_device *lead, struct vp_err *err);
/* Opens host memory for copies of slices at full speed, by one vp_pair_device at a time, with that number of threads. */
int vp_pair_stage_open(struct vp_pair_stage **s, const struct vp_pair *pair, const struct vp_backend *backend, int device,
                       int threads, struct vp_err *err);
uint64_t vp_pair_stage_bytes(const struct vp_pair *pair);
void vp_pair_stage_close(struct vp_pair_stage *s); /* NULL is fine */

/* Opens the pair on a device. VP_ERESOURCE if the backend has no such kernels or memory falls short. */
int vp_pair_device_open(struct vp_pair_device **d, const struct vp_pair *pair, const struct vp_backend *backend,
                        int device, struct vp_err *err);
/* Copies a volume to the device, which forward() projects from then on. */
int vp_pair_device_load(struct vp_pair_device *d, const float *x, struct vp_err *err);
int vp_pair_device_forward(struct vp_pair_device *d, const int64_t *view, int n, float *y, struct vp_err *err);
/* Sets the sum of adjoint() to 0; adds n views to it, many of them at once, and those half a turn apart together: bits do
 * not depend on n; and adds the sum to x, slices [z0, z1). */
int vp_pair_device_clear(struct vp_pair_device *d, struct vp_err *err);
void vp_pair_device_rest(struct vp_pair_device *d); /* views are not added to its sum, until the next clear() */
int vp_pair_device_adjoint(struct vp_pair_device *d, const float *y, const int64_t *view, int n, struct vp_err *err);
int vp_pair_device_add(struct vp_pair_device *d, int64_t z0, int64_t z1, float *x, struct vp_err *err);
/* Gives slices [z0, z1) of the sum to take(), from the first to the last. */
int vp_pair_device_take(struct vp_pair_device *d, int64_t z0, int64_t z1, vp_pair_slices *take, void *ctx, struct vp_err *err);
/* Sets slices [z0, z1) of the sum to x. */
int vp_pair_device_raise(struct vp_pair_device *d, int64_t z0, int64_t z1, const float *x, struct vp_err *err);
/* Returns the seconds that kernels of projection and of transpose have taken. */
void vp_pair_device_seconds(const struct vp_pair_device *d, double *project, double *collect);
void vp_pair_device_close(struct vp_pair_device *d); /* NULL is fine */

#ifdef __cplusplus
}
#endif
