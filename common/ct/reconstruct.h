/* SPDX-License-Identifier: BSD-3-Clause */
/* Projections into a volume, in stages that overlap: a reader thread, then normalisation, filter and
 * back-projection on all cores or on GPUs, then a writer thread. What ct-fdk and ct-backproject run: they differ only
 * in which stages are there, so their results agree bit for bit.
 *
 * The volume is made in slabs of slices, one a device at a time, in proportion to the devices' speed and memory;
 * slabs do not change a bit. One pass over the views if a slab a device is the whole volume; otherwise, from
 * seekable input, several, where the shares follow what each device took for the one before.
 *
 * Where slabs would be too thin to keep all devices busy, several devices make the same slab, each from a subset of the
 * views, and their sums are added on the host, in float32 in the order of the subsets: the grid of R slabs by C
 * subsets of iFDK (Chen et al. 2019, sec. 4). A grid always gives the same bits; but other bits than one device
 * gives, from which it differs by rounding (less than 1e-6, relative L2). */
#pragma once

#include "ct/device_group.h"
#include "ct/filter.h"
#include "ct/normalize.h"
#include "ct/projector.h"
#include "ct/truncation.h"
#include "geom/geom.h"
#include "stack/views.h"
#include "stack/writer.h"

struct vp_backend;
struct vp_progress;
struct vp_ranks;
struct vp_rates;
struct vp_stats;

/* The place of the filter. */
enum vp_filter_on { VP_FILTER_ON_AUTO, VP_FILTER_ON_CPU, VP_FILTER_ON_GPU };

/* The request. */
struct vp_reconstruct {
    /* Geometry of the views that are projected back: the detector that the filter leaves. With read() views come
     * normalised, and filtered (then nu, else in_nu columns wide) unless the devices filter. */
    struct vp_projections projections;
    int64_t first, last; /* views [first, last) are used */
    int64_t in_nu;  /* detector columns of the input; less than nu if the filter widens rows */
    int64_t in_nv;  /* detector rows of the input if the filter turns views, which it takes whole; else 0: nv */
    struct vp_normalize *normalize; /* NULL: the input holds line integrals */
    struct vp_filter *filter;       /* NULL: the input is filtered */
    enum vp_filter_on filter_on;
    const struct vp_grid *grid;
    int64_t z0, z1;  /* slices of the result */
    bool half;       /* these are of the lower half, and their mirror images belong to the result */
    int column, columns; /* subset `column` of `columns` subsets of the views is used; 0 columns: all views */
    uint64_t memory; /* bytes that the stages may take in all */
    uint64_t device_memory; /* and on each device; 0: all that is free */
    int threads;
    bool any_order;                   /* slices can be written in any order */
    const struct vp_backend *backend; /* backend of the devices that project back */
    const int *devices;
    int n_devices;                    /* number of `devices`, the most that are used */
    int want_subsets;                 /* subsets of the views; 0: chosen by their gain */
    const struct vp_rates *rates;     /* NULL: vp_rates */
    struct vp_ranks *ranks;           /* ranks that stop together; NULL: alone */
    struct vp_stats *stats;           /* may be NULL */
    struct vp_progress *progress;     /* may be NULL */
};

enum { VP_RECONSTRUCT_DEVICES = 64 }; /* at most */

/* The plan, from a pass on. */
struct vp_reconstruct_plan {
    const struct vp_reconstruct *of;
    struct vp_bp_plan probe; /* plan of one slice of all views; `opposite` is 0 if views are not read in pairs */
    int64_t made;   /* slices of earlier passes */
    int64_t passes; /* passes that are left, as far as is known */
    int batch;      /* views a batch */
    int used;       /* devices */
    int subsets;    /* subsets of the views for each slab; */
    int columns;    /* with ranks, subsets of each of `columns` parts of the views */
    bool mirrored;  /* slabs are pairs: slices of the lower half, and their mirror images */
    int64_t slab;   /* slices a device and pass, at most (of the lower half, if mirrored) */
    int64_t unit;   /* slabs are multiples of it, but for the last ones */
    int out_slots;  /* pieces of output that wait for the writer, at most, */
    int64_t group;  /* and the slices of each */
    bool filter_device;      /* views are filtered on the devices */
    bool resident;           /* all views stay on the devices, so that slices leave while others are made */
    struct vp_device_group device_group[VP_RECONSTRUCT_DEVICES];
    struct vp_bp_part part[VP_RECONSTRUCT_DEVICES];
    int parts;             /* number of parts of the next pass */
    bool too_large;        /* after an error: no plan keeps to the limits */
    uint64_t bytes;        /* bytes of a pass on the host */
    uint64_t device_bytes; /* and on a device, at most */
    uint64_t device_room;  /* bytes that this device has */
};

/* The state in which a plan is made in the middle of a run. */
struct vp_reconstruct_done {
    const struct vp_reconstruct_plan *plan; /* plan of the pass before, or of this one, for which memory fell short */
    int64_t made;       /* number of slices of all passes before */
    const double *took; /* seconds of each part of the pass before; 0, or NULL: not measured */
    bool shortage;
};

struct vp_reconstruct_result {
    int64_t passes;
    double read, compute; /* seconds from the start to the last view, and to the end of the last back-projection */
    int used;    /* devices, at most */
    int64_t bad; /* NaN and infinite samples in the input */
    struct vp_normalize_report repaired; /* its `blank` also if nothing is normalised */
    struct vp_truncation truncation; /* ends of the rows that are filtered */
};

/* Chooses batch, slabs and subsets from the request and the devices' properties; nothing else counts, and nothing is
 * changed but *p. `done`: NULL at first. VP_ERESOURCE with a hint if the memory does not hold even one slice, or the
 * whole volume where the input can be read only once. */
int vp_reconstruct_plan(struct vp_reconstruct_plan *p, const struct vp_reconstruct *r,
                        const struct vp_reconstruct_done *done, struct vp_err *err);

/* Plans one slice of all views: *plan says how a volume can be cut. *filter_device: the device filters. */
int vp_reconstruct_probe(const struct vp_reconstruct *r, struct vp_bp_plan *plan, bool *filter_device,
                         struct vp_err *err);

/* Runs a plan of the beginning: slices z0 .. z1 - 1, f32, go to `out`, a volume in a file. */
int vp_reconstruct_run(const struct vp_reconstruct_plan *p, struct vp_volume *out,
                       struct vp_reconstruct_result *result, struct vp_err *err);

/* Reads n views from `first` on, rows [v0, v1) of each, from the source. An error if they end before. */
int vp_reconstruct_read(const struct vp_reconstruct *r, int64_t first, int64_t n, int64_t v0, int64_t v1, float *to,
                        int64_t *bad, struct vp_err *err);

/* ---- shared by the plan and those who run it ---- */

enum { VP_RECONSTRUCT_SLOTS = 6 }; /* slots of the ring of views, at most */

/* Views a batch and buffers. A device wants pieces that are worth a copy and all threads, but short ones, for the first
 * has to come before anything else can begin. */
struct vp_reconstruct_buffers {
    int least, most;   /* views a batch */
    int in, wide, out; /* buffers of views, of views that the host filters into longer rows, and of slices */
    int64_t width;     /* columns of the views that come in */
};
struct vp_reconstruct_buffers vp_reconstruct_buffers(const struct vp_reconstruct_plan *p);

/* Returns the slices that are copied at once: enough for large writes, and little of the memory. */
int64_t vp_reconstruct_group(const struct vp_grid *grid, uint64_t memory);
/* The largest batch of views, on the host and with devices. */
enum { VP_RECONSTRUCT_HOST_BATCH = 16, VP_RECONSTRUCT_BATCH = 64 };

/* Slices that are still to be made: [lo, hi), of the lower half if slabs are mirrored. */
struct vp_reconstruct_domain {
    int64_t lo, hi;
};
struct vp_reconstruct_domain vp_reconstruct_domain(const struct vp_reconstruct_plan *p);
