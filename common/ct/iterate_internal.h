/* SPDX-License-Identifier: BSD-3-Clause */
/* Declarations shared by the loop (iterate.c), its passes and volumes (iterate_*.c), and the methods, a file each. */
#pragma once

#include "ct/iterate.h"
#include "base/err.h"
#include "ct/pair.h"

#include <math.h>

/* A pass over views: A x is made of each, then pixels that are added to `sum` by A'. */
enum vp_iterate_kind {
    VP_ITERATE_RESIDUAL,   /* W (y - A x) */
    VP_ITERATE_SCALED,     /* W R (y - A x) */
    VP_ITERATE_RATIO,      /* W y / A x */
    VP_ITERATE_NORMAL,     /* W A x */
    VP_ITERATE_WEIGHTS     /* W */
};

/* Sums over the pixels of a pass, each view by itself in float64, views in order. */
struct vp_pass_sums {
    double square;      /* W (y - A x)^2; of VP_ITERATE_NORMAL W (A x)^2 */
    double data;        /* W y^2 */
    double likelihood;  /* W (A x - y log A x) */
    double weights;     /* W */
    double total, ones; /* W y, and of VP_ITERATE_SCALED W A 1 */
    double missed;      /* W y of rays that miss the volume */
    int64_t bad, negative; /* pixels with weight whose y is not finite, or negative */
};

/* Sums over the voxels, each slice by itself in float64, slices in order. */
struct vp_volume_sums { double min, max, sum, square, change, product; };

struct vp_iteration {
    struct vp_iterate *job;
    struct vp_pair *pair;
    int64_t page, voxels, view, views; /* voxels of a slice and in all; pixels of a view; number of views */
    int64_t grain, z0, z1;      /* slices [z0, z1) are those of this rank, of parts that begin at multiples of the grain */
    int64_t *order;             /* views, block after block */
    int64_t block;              /* views that the pair takes at once */
    float *y, *weight;          /* VP_PAIR_VIEWS views */
    int64_t turn;               /* views that all ranks together project at once */
    float *projected;           /* a turn of views; or, */
    int blocks;                 /* if this is 2, two turns: devices of one process hold all slabs, and a turn is a block */
    float *ones;                /* A 1 of all views, if it is kept; or of a turn */
    bool kept;
    float *volume[VP_ITERATE_VOLUMES]; /* the method's, beside x */
    float *unit;                /* volume of ones, or the mask */
    struct vp_volume_sums *slices;
    struct vp_pass_sums *sums;  /* for a turn of views */
    struct vp_err trouble;      /* error of messages between ranks in a loop over voxels; later loops have no result */
    int64_t looked;             /* views whose rays beside the volume have been looked at, */
    double missed, measured;    /* their samples, and all: W y */
    double begun;
};

/* A method; each is the only public name of its file. start() prepares it, unless `resumed` from the state; step() makes one
 * iteration. */
struct vp_method {
    const char *name;
    const char *options;    /* those that it has, each between spaces; "gradient": that rule of --stop */
    int iterations;         /* by default */
    bool positive;          /* takes neither negative samples nor an initial volume of zeros */
    int volumes;            /* beside x */
    int kept, scalars;      /* volumes of the state, x and the first of these; and numbers */
    bool unit;              /* needs A 1 */
    bool gives;             /* takes the sum of a pass from the pair, in place of its last volume */
    int reads;              /* iterations for which the projections are read once */
    int (*start)(struct vp_iteration *it, struct vp_iterate_state *state, bool resumed, struct vp_err *err);
    int (*step)(struct vp_iteration *it, struct vp_iterate_state *state, struct vp_iterate_line *line,
                struct vp_volume_sums *sums, struct vp_err *err);
};

#define VP_ITERATE_METHOD(id, name, method) extern const struct vp_method method;
VP_ITERATE_METHODS(VP_ITERATE_METHOD)

/* Runs a pass over n views of the order. x NULL: A x is 0. `sum` is added to, which holds 0; NULL, if the pair gives sums:
 * vp_pair_give() ends it. 0 or -1. */
int vp_iterate_pass(struct vp_iteration *it, enum vp_iterate_kind pass, const int64_t *view, int64_t n, const float *x,
                    float *sum, struct vp_pass_sums *sums, struct vp_err *err);

/* Returns the views that ranks project together, each at most a block. */
int64_t vp_iterate_turn(const struct vp_iterate *job, int64_t block);
/* Returns the bytes of the slices of a rank, of one volume. */
uint64_t vp_iterate_part_bytes(const struct vp_iterate *job);
/* Makes the plans of all ranks alike, after a step that has failed on this one if rc is not 0. 0 or -1. */
int vp_iterate_agree(struct vp_iterate *job, int rc, struct vp_err *err);
/* Sets `to`, unless it is NULL, to A'W of n views. 0 or -1. */
int vp_iterate_sum_weights(struct vp_iteration *it, const int64_t *view, int64_t n, float *to, struct vp_pass_sums *sums,
                           struct vp_err *err);

/* Makes A 1 of all views, if there is memory to keep it. 0 or -1. */
int vp_iterate_ones(struct vp_iteration *it, struct vp_err *err);

/* Volumes that a loop reads and changes, in any place; others NULL. */
enum { VP_USE = 6 };
struct vp_slice_use { const float *read[VP_USE], *write[VP_USE]; };

/* Calls work() for the slices of this rank, slab after slab if volumes are in the scratch folder. */
void vp_iterate_walk(struct vp_iteration *it, const struct vp_slice_use *use, void (*work)(void *ctx, int64_t z0, int64_t z1),
                     void *ctx);
/* Returns the bytes of memory that each volume of n[2] slices in the scratch folder takes. */
uint64_t vp_iterate_window(const int64_t *n);

/* Calls work() for each row of the slices of this rank, counted from the first slice, from several threads. */
typedef void vp_row_work(const void *ctx, int64_t row);
void vp_iterate_rows(struct vp_iteration *it, const struct vp_slice_use *use, vp_row_work *work, const void *ctx);

/* Calls work() for each slice of this rank, from several threads, and combines the sums of all ranks. */
typedef void vp_slice_work(void *ctx, int64_t at, int64_t n, struct vp_volume_sums *sums);
struct vp_volume_sums vp_iterate_slices(struct vp_iteration *it, const struct vp_slice_use *use, vp_slice_work *work,
                                        void *ctx);
/* Brings the slice before those of this rank, or the one after them, from the rank that has it. */
void vp_iterate_next(struct vp_iteration *it, float *x, bool after);
double vp_iterate_dot(struct vp_iteration *it, const float *a, const float *b);
void vp_iterate_clear(struct vp_iteration *it, float *x);
void vp_iterate_copy(struct vp_iteration *it, float *to, const float *from);

/* Arguments of a vp_slice_work that updates volumes. */
struct vp_update {
    const struct vp_iterate *job;
    const float *mask;      /* mask of the job */
    float *x, *to, *more;
    const float *by, *over;
    double factor;
};
/* Calls work() as vp_iterate_slices() does, with the job and its mask in the arguments. */
struct vp_volume_sums vp_iterate_update(struct vp_iteration *it, vp_slice_work *work, struct vp_update u);
/* x += factor by, all voxels; returns the sums of x and its change. */
struct vp_volume_sums vp_iterate_add(struct vp_iteration *it, float *x, double factor, const float *by);
/* Sets x to zero elsewhere than in the mask. */
void vp_iterate_cut_out(struct vp_iteration *it, float *x);
/* Sets x to the value in the mask, elsewhere to zero. */
void vp_iterate_fill(struct vp_iteration *it, float *x, double value);

/* Returns x within the bounds of the job. */
static inline float vp_update_bounded(const struct vp_iterate *job, double x)
{
    return (float)fmin(fmax(x, job->min), job->max);
}

/* Adds a voxel and its change to the sums. */
static inline void vp_update_count(struct vp_volume_sums *s, float before, float after)
{
    const double a = (double)after, d = a - (double)before;
    s->min = a < s->min ? a : s->min;
    s->max = a > s->max ? a : s->max;
    s->sum += a;
    s->square += a * a;
    s->change += d * d;
}

/* Bounds the largest eigenvalue of A'W A from above, and sets job->norm; or checks in one pass that job->norm is not less
 * than a lower bound. Volumes 0 and 1 are used. 0 or -1. */
int vp_iterate_norm(struct vp_iteration *it, struct vp_err *err);

/* Sets x to the volume nearest to z, of squares / 2 plus weight TV, within [min, max] and, elsewhere than in the mask,
 * as it was; p, three volumes, are the dual, which goes on from where it was. */
void vp_iterate_smooth(struct vp_iteration *it, const float *z, double weight, float *const p[3], float *x);
/* Returns the total variation. */
double vp_iterate_variation(struct vp_iteration *it, const float *x);

/* Volumes in the order in which they leave the memory: the mask, ones, the result, and those of the method. */
enum { VP_ITERATE_MASK, VP_ITERATE_UNIT, VP_ITERATE_RESULT, VP_ITERATE_FIRST };

/* Returns a volume of the plan, of zeros if it is the result, to be freed by vp_spill_close(); NULL: an error. */
float *vp_iterate_open_volume(const struct vp_iterate *job, int i, struct vp_err *err);
/* Returns the table of a method. */
const struct vp_method *vp_method_of(enum vp_iterate_method method);
/* Returns the blocks of views that are held at once, of one process. */
int vp_iterate_buffers(const struct vp_iterate *job);
/* Divides the memory. If it is too small for all volumes, the number of them in the scratch folder is the one that copies
 * least: more of them leave memory for larger blocks of views. */
void vp_iterate_divide(struct vp_iterate *job);
