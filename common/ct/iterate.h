/* SPDX-License-Identifier: BSD-3-Clause */
/* Iterative reconstruction with the exact pair of ct/pair.h. Views stream, whatever the method: only volumes are held.
 * W are the weights of pixels, a factor between A x - y and A'.
 *
 *   sirt     x += relax C A'(W R (y - A x)), R = 1 / (A 1), C = 1 / (A'W): converges for relax between 0 and 2
 *   os-sart  the same for one block of views after the other (Andersen and Kak 1984, Wang and Jiang 2004)
 *   cgls     conjugate gradients on A'W A x = A'W y (Hestenes and Stiefel 1952); no projections are kept: the residual's
 *            image s = A'W(y - A x) is updated with A'W A p, and made anew from y every VP_ITERATE_RENEWAL iterations
 *   mlem     x *= A'(W y / A x) / A'W (Shepp and Vardi 1982)
 *   osem     the same block after block (Hudson and Larkin 1994)
 *   fista-tv least (y - A x)'W(y - A x) / 2 + tv TV(x), min <= x <= max (Beck and Teboulle 2009), with the step 1 / norm,
 *            VP_ITERATE_INNER steps on the dual of the total variation, and a restart where the momentum points uphill
 *            (O'Donoghue and Candes 2015)
 *   pdhg-tv  the same by primal-dual steps (iterate_pdhg.c)
 *
 * Norm: an upper bound of the largest eigenvalue of A'W A, from the quotients of a positive volume before and after it
 * (Collatz 1942, Wielandt 1950), since A has no negative entries. */
#pragma once

#include "ct/pair.h"
#include "ct/share.h"

struct vp_err;
struct vp_progress;
struct vp_stats;

/* The methods: constant, name, and table in ct/iterate_*.c. */
#define VP_ITERATE_METHODS(M)                                                                                          \
    M(VP_SIRT, "sirt", vp_method_sirt)                                                                                 \
    M(VP_OS_SART, "os-sart", vp_method_os_sart)                                                                        \
    M(VP_CGLS, "cgls", vp_method_cgls)                                                                                 \
    M(VP_MLEM, "mlem", vp_method_mlem)                                                                                 \
    M(VP_OSEM, "osem", vp_method_osem)                                                                                 \
    M(VP_FISTA_TV, "fista-tv", vp_method_fista_tv)                                                                     \
    M(VP_PDHG_TV, "pdhg-tv", vp_method_pdhg_tv)

#define VP_ITERATE_CONSTANT(id, name, method) id,
enum vp_iterate_method { VP_ITERATE_METHODS(VP_ITERATE_CONSTANT) VP_METHODS };
enum { VP_ITERATE_RENEWAL = 16, VP_ITERATE_INNER = 10, VP_ITERATE_VOLUMES = 8, VP_ITERATE_SCALARS = 8 };

/* Rules that end a run before its last iteration; 0: none. */
struct vp_iterate_stop {
    double residual;        /* |W^(1/2) (y - A x)| / |W^(1/2) y| is less */
    double noise;           /* standard deviation of the noise: |W^(1/2) (y - A x)| is less than 1.02 times its part */
    double change;          /* |change of x| / |x| is less */
    double gradient;        /* |A'W(y - A x)| is less than this part of that of the first iteration */
};

/* One iteration. The residual is that of the volume after it (cgls, pdhg-tv), or before it (the others: they measure it on
 * the way; methods of blocks each block in turn). */
struct vp_iterate_line {
    int64_t iteration;      /* 1: one update */
    double seconds;         /* since the run began */
    double residual, relative; /* |W^(1/2) (y - A x)|, and by |W^(1/2) y| */
    double objective;       /* half its square, and of fista-tv and pdhg-tv tv TV(x); of mlem and osem the negative log
                               likelihood */
    double step;            /* cgls: alpha; fista-tv: 1 / norm; pdhg-tv: tau; the others: relax */
    double min, mean, max, change; /* values of the volume; |change| / |x| */
    double gradient;        /* cgls: |A'W(y - A x)| of the volume after it, by the first; the others: -1 */
    bool converged;         /* no iteration would change the volume */
};

/* All that a run goes on from, after an iteration: volumes (the result first) and numbers. */
struct vp_iterate_state {
    int64_t iteration;
    int volumes, scalars;
    float *volume[VP_ITERATE_VOLUMES];
    double scalar[VP_ITERATE_SCALARS];
};

struct vp_iterate {
    struct vp_pair_place place;
    const struct vp_projections *scan; /* its source, or function, is read again if vp_iterate_rereads() */
    const struct vp_grid *grid;
    int64_t first, last;        /* views [first, last) */
    enum vp_iterate_method method;
    int64_t iterations, blocks; /* blocks of views: os-sart and osem, else 1 */
    double relax;               /* sirt and os-sart */
    double min, max;            /* bounds of x; +-infinity: none. Not cgls */
    double tv;                  /* fista-tv, pdhg-tv */
    double norm;                /* fista-tv, pdhg-tv; 0: it is computed */
    struct vp_views *weights;   /* a page for each view; or NULL */
    const float *pixels;        /* weights of one page for all views, in addition; or NULL: 1 */
    const float *mask;          /* voxels that may change: not 0; NULL: all */
    float *x;                   /* in: the initial volume; out: the result. slices of ny x nx */
    bool started;               /* x is not zero */
    struct vp_iterate_stop stop;
    int threads;
    struct vp_share share;      /* ranks: each projects a part of the views, and holds and sums a part of the slices. The part
                                   of x that is planned, and all of the mask, are set on each */
    uint64_t memory;            /* bytes that it may take, with x and the mask */
    const char *scratch;        /* folder for volumes beyond them, if devices of one process work; NULL: none */
    int spilled;                /* out: volumes in that folder */
    struct vp_pair *pair;       /* planned by vp_iterate_plan(), which vp_iterate_run() closes; NULL: none is planned */
    int64_t block;              /* out: views that are projected at once, */
    int64_t turn;               /* by all ranks together, */
    bool given;                 /* and no volume holds the sum of cgls: it goes from the devices into its gradient */
    bool kept;                  /* and lengths of rays are kept */
    bool mask_held;             /* in: there will be a mask, for vp_iterate_plan() */
    struct vp_stats *stats;
    struct vp_progress *progress;
    /* Called after each iteration, from one thread; 0 or -1. NULL: no call. */
    int (*each)(void *ctx, const struct vp_iterate_line *line, const struct vp_iterate_state *state, struct vp_err *err);
    /* Called once before the first iteration to fill the state of one that ran before, its volumes in place; 1, 0: there
     * is none, -1. NULL: there is none. */
    int (*resume)(void *ctx, struct vp_iterate_state *state, struct vp_err *err);
    void *ctx;

    /* out: */
    int64_t done;               /* iterations */
    double missed;              /* part of the samples' sum that rays beside the volume measured, after an iteration */
    const char *stopped_by;     /* "iterations", "residual", "noise", "change", "gradient", "convergence" */
    double least_norm;          /* the last quotient of norms, a lower bound of the norm */
};

/* Returns "os-sart". */
const char *vp_iterate_name(enum vp_iterate_method method);
/* Returns the number of iterations by default. */
int vp_iterate_usual(enum vp_iterate_method method);
/* True if the method has the option, such as "relax", or the rule "gradient" of --stop. */
bool vp_iterate_has(enum vp_iterate_method method, const char *option);
/* True if the method takes neither negative samples nor an initial volume of zeros. */
bool vp_iterate_positive(enum vp_iterate_method method);
/* True if the projections are read more than once. */
bool vp_iterate_rereads(const struct vp_iterate *it);
/* Opens the pair and plans its devices, blocks of views and volumes. 0 or -1. */
int vp_iterate_plan(struct vp_iterate *it, struct vp_err *err);
/* Returns the bytes of host memory that the planned run takes. */
uint64_t vp_iterate_bytes(const struct vp_iterate *it);
/* Returns the volumes that it has, x and the mask included; and the number of those of which a rank among several holds its
 * part only. */
int vp_iterate_volumes(const struct vp_iterate *it);
int vp_iterate_parts(const struct vp_iterate *it);
/* Return x, of zeros, and the mask, in memory or in the scratch folder as planned, to be freed by vp_spill_close(); NULL: an
 * error. */
float *vp_iterate_open_result(const struct vp_iterate *it, struct vp_err *err);
float *vp_iterate_open_mask(const struct vp_iterate *it, struct vp_err *err);
/* Returns the number at whose multiples parts of the slices begin, once the place is known. */
int64_t vp_iterate_unit(const struct vp_iterate *it);
/* Return the updates of voxels (voxels times views) of one planned iteration, of all ranks, and the bytes that it copies to
 * and from devices. */
double vp_iterate_updates(const struct vp_iterate *it);
double vp_iterate_traffic(const struct vp_iterate *it);
/* Runs it. 0, or -1: VP_ERESOURCE, VP_ERUN for samples that are not finite (or, mlem and osem, negative) and have
 * weight, for projections of which none meets the volume, and for weights or a mask that are all zero. Ranks call it
 * together; volumes of a state, and x at the end, hold the slices of the rank. */
int vp_iterate_run(struct vp_iterate *it, struct vp_err *err);
