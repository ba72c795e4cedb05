/* SPDX-License-Identifier: BSD-3-Clause */
/* The pair of ct/pair.h on one device with memory of its own: the kernels that it offers, found by the name "pair", and
 * the host's side of them. Volumes lie in columns there: (y nx + x) pitch + VP_PAIR_EDGE + z, pitch = nz + 2
 * VP_PAIR_EDGE, with zeros at both ends. Views whose u or depth changes along a column are not projected there. */
#pragma once

#include "ct/pair.h"

#ifdef __cplusplus
extern "C" {
#endif

struct vp_backend;
struct vp_queue;

enum { VP_PAIR_EDGE = 5 };

/* A view, in voxel indices of the grid. */
struct vp_pair_view {
    double P[12];       /* to (u w, row w, w), w = 1 at the isocentre */
    double ray[3][3];   /* direction of pixel (u, v), mm: ray[0] u + ray[1] v + ray[2] */
    int march;          /* 0: x, 1: y, 2: z */
    bool column;        /* u and depth are the same along a column, */
    bool flip;          /* and rows are counted from the other end, so that they grow with k */
};

/* Sizes that kernels need, and the views of a call. */
struct vp_pair_shape {
    int64_t n[3], nu, nv;
    double voxel[3];
    const struct vp_pair_view *views; /* of the scan, in device memory */
    int view[VP_PAIR_VIEWS];
    int count;
    int row_taps, voxel_taps;   /* rows that a voxel meets, and voxels that a row meets, at most: 2, 3 or 5 */
};

/* All work is queued, 0 or -1. Memory is the device's. */
struct vp_pair_kernels {
    int (*clear)(struct vp_queue *q, float *p, uint64_t bytes, struct vp_err *err);
    /* Copies slices [z, z + n), ny x nx each, to columns, and back. */
    int (*lift)(struct vp_queue *q, const int64_t size[3], int64_t z, int64_t n, const float *slices, float *columns,
                struct vp_err *err);
    int (*lower)(struct vp_queue *q, const int64_t size[3], int64_t z, int64_t n, const float *columns, float *slices,
                 struct vp_err *err);
    /* Sets y, shape->count views of nv x nu, to the projections of the columns. */
    int (*project)(struct vp_queue *q, const struct vp_pair_shape *shape, const float *columns, float *y,
                   struct vp_err *err);
    /* Fills lines with the views of y, weighted with the length of rays: view, u, VP_PAIR_EDGE + row + VP_PAIR_EDGE. */
    int (*weigh)(struct vp_queue *q, const struct vp_pair_shape *shape, const float *y, float *lines, struct vp_err *err);
    /* Adds the transpose of the lines to the columns. */
    int (*collect)(struct vp_queue *q, const struct vp_pair_shape *shape, const float *lines, float *columns,
                   struct vp_err *err);
};

struct vp_pair_device;

/* Opens the pair on a device. VP_ERESOURCE if the backend has no such kernels, if they do not do for the scan, or if
 * memory falls short; all with the reason. */
int vp_pair_device_open(struct vp_pair_device **d, const struct vp_pair *pair, const struct vp_backend *backend,
                        int device, struct vp_err *err);
/* Returns the bytes of device memory that it takes. */
uint64_t vp_pair_device_bytes(const struct vp_pair *pair);
/* Copies a volume to the device, which forward() projects from then on. */
int vp_pair_device_load(struct vp_pair_device *d, const float *x, struct vp_err *err);
int vp_pair_device_forward(struct vp_pair_device *d, const int64_t *view, int n, float *y, struct vp_err *err);
/* Sets the sum of adjoint() to 0; adds n views to it; and adds it to x. */
int vp_pair_device_clear(struct vp_pair_device *d, struct vp_err *err);
int vp_pair_device_adjoint(struct vp_pair_device *d, const float *y, const int64_t *view, int n, struct vp_err *err);
int vp_pair_device_add(struct vp_pair_device *d, float *x, struct vp_err *err);
/* Returns the seconds that kernels of projection and of transpose have taken. */
void vp_pair_device_seconds(const struct vp_pair_device *d, double *project, double *collect);
void vp_pair_device_close(struct vp_pair_device *d); /* NULL is fine */

#ifdef __cplusplus
}
#endif
