/* SPDX-License-Identifier: BSD-3-Clause */
/* What a kind of device that is not the host offers to slabs of a volume (ct/slab.h): back-projection and the filter,
 * functions that work on a queue and in memory of the device which they are given. struct vp_backend points to them.
 *
 * vol(i, j, k) += sum over views of q(u, v) / w^2, bilinear in q, zero outside the detector and where w <= 1 / 1024,
 * with (u w, v w, w) = P (i, j, k, 1). Projections pass through a packed buffer of `orbits` slots: pack() fills
 * slots, run() adds them to the volume. An orbit is what the kernel treats together: one view, or, when the scan
 * repeats itself after half a turn, view o and view o + n_views / 2.
 *
 * The contribution of the orbits is added in the order in which run() is called, so a voxel's bits depend neither on
 * the slab nor on how the orbits are cut into calls. They do depend on the kernel (see plan.kernel): devices of one
 * architecture agree. */
#ifndef VP_SLAB_KERNELS_H
#define VP_SLAB_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct vp_err;
struct vp_filter;
struct vp_queue;
struct vp_devbp;
struct vp_devfilter;

struct vp_devbp_problem {
    const double *P; /* n_views x 12, row major, voxel indices -> pixels, 1 / w^2 is the weight; the caller's */
    int64_t n_views;
    int64_t nu, nv;  /* detector columns and rows, */
    int64_t margin;  /* rows at either end that are not given: their samples are those of the nearest that is */
    /* Helix, else NULL: what the view's matrix is multiplied with for the section of slice k; 0: it does not count there.
     * Sections are multiples of `section` slices (ct/helix.h). */
    double (*scale)(const void *of, int64_t view, int64_t k);
    const void *scale_of;
    int64_t section;
    int64_t n[3];    /* the whole grid */
    int64_t z0, z1;  /* the slab [z0, z1) ... */
    /* ... and [n[2] - z1, n[2] - z0) too (z1 <= (n[2] + 1) / 2): both halves of a mirrored pair at the cost of one.
     * Only for scans with a mirror plane. */
    bool mirrored;
    bool single;     /* views half a turn apart are not paired */
    int64_t orbits;  /* slots of the packed buffer; 0: all orbits of the scan */
    int device;
};

struct vp_devbp_plan {
    char kernel[160];    /* "columns, half-turn pairs, z mirror, s 1, 16 slices a thread, tensor tiles" */
    int views_per_orbit; /* 1 or 2 */
    bool mirror;         /* there is a mirror plane, and it may be used: slabs can be `mirrored` */
    int64_t orbits;      /* of the scan: n_views / views_per_orbit */
    int64_t v0, v1;      /* detector rows that are read */
    int64_t z_step;      /* slabs that begin and end at multiples of this waste nothing (mirror plane: counted from
                            the nearer end of the grid) */
    int64_t good_batch;  /* orbits a run from which on the volume's traffic is hidden */
    uint64_t bytes_volume, bytes_orbit, bytes_fixed; /* device memory: volume + slots * orbit + fixed */
};

/* Memory of the device, of so many bytes, each aligned to VP_ALIGN; holds anything. */
struct vp_devbp_memory {
    void *volume, *packed, *fixed; /* packed: slots * bytes_orbit */
};

/* Functions return 0 or -1. */
struct vp_backproject_kernels {
    /* Which kernel the matrices and the device lead to and what it takes; allocates nothing that stays. */
    int (*plan)(const struct vp_devbp_problem *p, struct vp_devbp_plan *plan, struct vp_err *err);
    /* Everything but where() is queued on `queue`. */
    int (*open)(struct vp_devbp **b, const struct vp_devbp_problem *p, const struct vp_devbp_memory *memory,
                struct vp_queue *queue, struct vp_err *err);
    /* Queue n filtered views in device memory, rows [v0, v1) of each (at least the plan's), row major. `q` holds views
     * first .. first + n - 1; with two views an orbit `half_turn` holds their partners (first + n_views / 2 ...);
     * either may be NULL, both together are fastest. Orbit o lives in slot o % orbits. 0 <= first,
     * first + n <= plan.orbits, n <= slots. */
    int (*pack)(struct vp_devbp *b, int64_t first, int64_t n, int64_t v0, int64_t v1, const float *q,
                const float *half_turn, struct vp_err *err);
    /* Queue the back-projection of n packed orbits, in increasing order, into part `part` of `parts` of the slab, which
     * are numbered from its lowest slices on (0 of 1: all of it): its slices are then ready while others are worked on.
     * `fresh`: nothing was added to them before. */
    int (*run)(struct vp_devbp *b, int64_t first, int64_t n, int part, int parts, bool fresh, struct vp_err *err);
    /* The number of parts to use, at most `most`, and the one that slice z of the slab belongs to. */
    int (*parts)(const struct vp_devbp *b, int most);
    int (*part_of)(const struct vp_devbp *b, int64_t z, int parts);
    /* Where slice z of the whole grid's numbering is (nx x ny samples), and how many follow it there in memory, itself
     * included. NULL if it is not in the slab. */
    float *(*where)(const struct vp_devbp *b, int64_t z, int64_t *run);
    /* Queue: the slab becomes a x + keep times what it is, each product rounded. x: another slab of the same problem,
     * or NULL; keep 0: what the slab holds is not looked at. */
    int (*blend)(struct vp_devbp *b, float a, const float *x, float keep, struct vp_err *err);
    void (*close)(struct vp_devbp *b); /* once nothing of it is queued any more */
};

/* The filter of ct/filter.h: the same weights, the same kernel (taps, not only its shape). A row's bits depend on
 * nothing but that row; they differ from the CPU's by less than 5e-7 (relative L2). */
struct vp_devfilter_plan {
    char kernel[160];    /* "ramp ram-lak, cutoff 1, no weights, complex fft length 1024 (16x16x4), one pass" */
    int64_t nu_out;      /* samples of an output row: as vp_filter_widen left it */
    uint64_t bytes;      /* device memory for tables; input and output are the caller's */
    /* Expected for one input sample, from rates measured on an H100, by multiprocessors and clock (1024 projections of
     * 1024x1024: 4.7 ms; 16 cores: 0.29 s). So the CPU pays only where its filtering hides behind the back-projection
     * and the GPUs would filter the same rows many times over (slabs, passes). */
    double seconds;
};

struct vp_filter_kernels {
    /* What the device would do; allocates nothing there. Fails where rows are too long for its shared memory (with
     * their padding 16384 samples fit on most cards, 8192 on all): filter on the CPU then. */
    int (*plan)(const struct vp_filter *host, int device, struct vp_devfilter_plan *plan, struct vp_err *err);
    /* Tables into `memory`, plan.bytes of the device, aligned to VP_ALIGN. Call it after vp_filter_widen, if that is
     * called at all. `host` may be closed afterwards. Everything is queued on `queue`. */
    int (*open)(struct vp_devfilter **f, const struct vp_filter *host, int device, void *memory,
                struct vp_queue *queue, struct vp_err *err);
    /* Queue: n views from view `first` of the scan, rows [v0, v1) of each. `in` and `out` are device memory: in is n x
     * (v1 - v0) x nu, out is n x (v1 - v0) x nu_out; they may be the same if nu_out = nu, and must not overlap
     * otherwise. Samples that are not finite count as 0. */
    int (*run)(struct vp_devfilter *f, int64_t first, int64_t n, int64_t v0, int64_t v1, const float *in, float *out,
               struct vp_err *err);
    void (*close)(struct vp_devfilter *f); /* once nothing of it is queued any more */
};

#endif
