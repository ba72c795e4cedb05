/* SPDX-License-Identifier: BSD-3-Clause */
/* A volume: slices of a grid, in slabs in the memory of devices or of the host, or in a file that is written once.
 *
 * In a device's memory the slices of a slab lie one after the other, nx x ny samples each: [z0, z1), then, if it is
 * mirrored, those of [nz - z1, nz - z0) that are not among them. In host memory they lie in tiles (ct/tiles.h). */
#pragma once

#include "ct/backproject.h"

struct vp_backend;
struct vp_event;
struct vp_queue;
struct vp_writer;

struct vp_slab {
    int64_t z0, z1;
    bool mirrored;          /* and slices [nz - z1, nz - z0) */
    int device;
    float *voxels;
    struct vp_tiles tiles;  /* layout in host memory */
    struct vp_queue *down;  /* copies to the host, on a device, */
    struct vp_event *copied; /* and the end of the last one */
    uint64_t downloaded;    /* bytes */
};

/* Slabs of different slices, or of the same ones: then the volume is their sum, which the caller adds up. */
struct vp_volume {
    const struct vp_grid *grid;
    int threads;                      /* threads of the host, for its copies */

    /* In memory: */
    const struct vp_backend *backend; /* backend of the devices; the CPU: host memory */
    int slabs;
    struct vp_slab *slab;

    /* In a file, which begins with slice z0; or elsewhere, by put(): slices [z, z + n) of the grid, from one thread. */
    int64_t z0;
    struct vp_writer *writer;
    bool any_order;                   /* slices may come in any order, else from the lowest on */
    int (*put)(void *ctx, int64_t z, int64_t n, const float *slices, struct vp_err *err);
    void *ctx;
};

/* Returns the bytes of a slab on a device. */
uint64_t vp_slab_bytes(const struct vp_grid *grid, int64_t z0, int64_t z1, bool mirrored);

/* Allocates a slab for each of n jobs, side by side. Voxels hold anything. The job's grid stays the caller's. On an
 * error nothing is open; VP_ERESOURCE. */
int vp_volume_open(struct vp_volume *v, const struct vp_backend *backend, const struct vp_bp_part *part, int n,
                   struct vp_err *err);
/* Copies slices [z, z + n) of slab i to the host, ny x nx each. On a device once `after` (NULL: nothing) has passed. */
int vp_volume_get(struct vp_volume *v, int i, int64_t z, int64_t n, struct vp_event *after, float *slices,
                  struct vp_err *err);
/* Stores slices [z, z + n) of a volume in a file. */
int vp_volume_put(struct vp_volume *v, int64_t z, int64_t n, const float *slices, struct vp_err *err);
/* Releases the slabs; nothing may be queued for them. The file stays open. NULL slabs are fine. */
void vp_volume_close(struct vp_volume *v);
