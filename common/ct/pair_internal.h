/* SPDX-License-Identifier: BSD-3-Clause */
/* Declarations shared by pair.c, pair_general.c, pair_isa.c, pair_slabs.c and
 * pair_travel.c. */
#pragma once

#include "base/size.h"
#include "ct/pair_device.h"

#include <math.h>

enum {
    PAIR_TILE = 8,
    PAIR_COLUMNS = PAIR_TILE * PAIR_TILE,
    PAIR_PAD = 48,      /* zeros around a column or a line: the reach of any load */
    PAIR_PITCH = VP_PAIR_SEGMENT + 2 * PAIR_PAD /* floats from column to column of a tile */
};

/* Columns of a tile, PAIR_PITCH apart, of the segment that begins with slice k0 and has n. Slice k0 + k is sample
 * PAIR_PAD + k of a column; the samples around are zero where the tile is read. */
struct vp_pair_tile {
    int64_t i0, j0, k0;
    int ni, nj;         /* columns along x and y that the grid has */
    int n;
    int first, last;    /* slices of the segment that are needed, of a transpose */
    float *samples;
};

/* Lines that a tile may meet in a view: its image is within [lo, hi], pixels from the detector's edge. */
struct vp_pair_extent { float lo, hi; };

struct vp_pair_isa;
struct vp_pair_slab;

struct vp_pair {
    const struct vp_pair_isa *isa;
    struct vp_pair_view *views;
    int64_t n_views, nu, nv, n[3];
    double voxel[3];
    bool flat;          /* one slice, one row */
    int threads;
    int64_t pitch;      /* floats from line to line, a line being the rows of one u */
    int64_t tiles_x, tiles;
    int64_t part;       /* floats of a thread's own memory */
    float *parts;
    struct vp_pair_extent *seen; /* VP_PAIR_VIEWS a tile */
    float *lines;       /* VP_PAIR_VIEWS views, weighted with the length of rays; column views line after line, others
                           row after row */
    char text[64];

    struct vp_pair_slab *slabs; /* NULL: the CPU */
    int n_slabs, n_devices;
    bool planned, travels, ahead;
    unsigned use;               /* VP_PAIR_PROJECTS, VP_PAIR_SUMS */
    const struct vp_backend *backend;
    struct vp_pair_lane *lanes; /* one for each device */
    const float *from;          /* volume that is projected */
    float *to;                  /* slices [z0, z1) of a volume that is summed; NULL: they are given away */
    int64_t z0, z1;
    bool begun;                 /* to holds the sum of views before */
    const float *held_y;        /* views that wait for vp_pair_give() */
    const int64_t *held;
    int64_t n_held;
};

/* Slices of the volume on a device. */
struct vp_pair_slab {
    struct vp_pair part;        /* sizes and views of these slices */
    struct vp_pair_shape shape; /* as planned */
    struct vp_pair_device *device; /* NULL: it travels */
    int64_t z0;                 /* first slice */
    int owner;                  /* place of its device in the list of devices */
    float *y;                   /* VP_PAIR_VIEWS projections of it; NULL: it is the only one, or travels */
};

/* A device. */
struct vp_pair_lane {
    int number;
    struct vp_pair_stage *stage[2];
    float *y[2];                /* VP_PAIR_VIEWS projections of slabs that travel */
    double project, back;       /* seconds of kernels of slabs that have travelled */
};

/* Slices of a slab that begins with z0, for vp_pair_slices. */
struct vp_pair_gift { vp_pair_slices *take; void *ctx; int64_t z0; };
void vp_pair_pass_on(void *gift, int64_t z, int64_t n, const float *sum);

/* Sets the slices of the slab that are summed, of all. False if there are none. */
static inline bool vp_pair_part(const struct vp_pair *p, const struct vp_pair_slab *s, int64_t *z0, int64_t *z1)
{
    *z0 = vp_max64(p->z0, s->z0);
    *z1 = vp_min64(p->z1, s->z0 + s->part.n[2]);
    return *z0 < *z1;
}

/* The functions of ct/pair.h on devices. */
int vp_pair_slabs_plan(struct vp_pair *p, struct vp_pair_place *place, struct vp_err *err);
int vp_pair_slabs_open(struct vp_pair *p, struct vp_err *err);
void vp_pair_slabs_close(struct vp_pair *p);
/* Returns the bytes of host memory that copies take. */
uint64_t vp_pair_slabs_holds(const struct vp_pair *p);
int vp_pair_slabs_load(struct vp_pair *p, struct vp_err *err);
int vp_pair_slabs_project(struct vp_pair *p, const int64_t *view, int64_t n, float *y, struct vp_err *err);
int vp_pair_slabs_begin(struct vp_pair *p, struct vp_err *err);
int vp_pair_slabs_back(struct vp_pair *p, const float *y, const int64_t *view, int64_t n, struct vp_err *err);
int vp_pair_slabs_end(struct vp_pair *p, vp_pair_slices *take, void *ctx, struct vp_err *err);
void vp_pair_slabs_seconds(const struct vp_pair *p, double *project, double *back);
/* Calls work() for each device, of several at once. The first failure counts. stop(ctx), if it is not NULL, is called if
 * not all of them start: others may wait for them. */
int vp_pair_on_devices(struct vp_pair *p, int (*work)(struct vp_pair *p, int device, void *ctx, struct vp_err *err), void *ctx,
                       void (*stop)(void *ctx), struct vp_err *err);

/* The same for slabs that travel (pair_travel.c). take NULL: the sum is put into p->to. */
int vp_pair_travel_project(struct vp_pair *p, const int64_t *view, int64_t n, float *y, struct vp_err *err);
int vp_pair_travel_back(struct vp_pair *p, const float *y, const int64_t *view, int64_t n, vp_pair_slices *take, void *ctx,
                        struct vp_err *err);

/* Returns the length of a pixel's ray within a layer of voxels, mm. */
static inline double vp_pair_length(const struct vp_pair *p, const struct vp_pair_view *view, double u, double v)
{
    double ray[3];
    for (int a = 0; a < 3; a++)
        ray[a] = view->ray[0][a] * u + view->ray[1][a] * v + view->ray[2][a];
    const double along = fabs(ray[view->march]);
    const double size = sqrt(ray[0] * ray[0] + ray[1] * ray[1] + ray[2] * ray[2]);
    const double length = p->voxel[view->march] * size / along; /* always made, so that loops of it have no branch */
    return along > 1e-6 * size ? length : 0;
}

struct vp_pair_isa {
    const char *name;
    /* Copies a tile of the volume x. False: it holds nothing but zeros. */
    bool (*load)(const struct vp_pair *p, const struct vp_pair_tile *t, const float *x);
    /* Adds slices [first, last) of the tile to x, which begins with slice z0. */
    void (*add)(const struct vp_pair *p, const struct vp_pair_tile *t, int64_t z0, float *x);
    /* Fills lines [u0, u1) of a column view with its pixels times the length of their rays. */
    void (*fill)(const struct vp_pair *p, const struct vp_pair_view *view, const float *y, int64_t u0, int64_t u1,
                 float *lines);
    /* Stores lines [u0, u1), with which `lines` begins, times the length of rays as pixels. */
    void (*store)(const struct vp_pair *p, const struct vp_pair_view *view, int64_t u0, int64_t u1, const float *lines,
                  float *y);
    /* Adds the shares of a tile to lines [u0, u1) of a column view; `lines` begins with line u0. */
    void (*spread)(const struct vp_pair *p, const struct vp_pair_view *view, const struct vp_pair_tile *t, int64_t u0,
                   int64_t u1, float *lines, float *scratch);
    /* Adds the shares of all lines of a column view to a tile. */
    void (*collect)(const struct vp_pair *p, const struct vp_pair_view *view, const struct vp_pair_tile *t,
                    const float *lines, float *scratch);
};

extern const struct vp_pair_isa vp_pair_isa_avx512, vp_pair_isa_avx2, vp_pair_isa_generic;

/* Returns the floats of `scratch` above, aligned to 64 bytes. */
static inline int64_t vp_pair_scratch(int64_t pitch)
{
    return 4 * (pitch + PAIR_PITCH);
}

/* Do the same for any matrix. `sums` are nu x nv doubles, of which columns [u0, u1) are added to. */
void vp_pair_general_spread(const struct vp_pair *p, const struct vp_pair_view *view, const float *x, int64_t u0,
                            int64_t u1, double *sums);
void vp_pair_general_collect(const struct vp_pair *p, const struct vp_pair_view *view, const struct vp_pair_tile *t,
                             const float *rows);
