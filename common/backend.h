/* The one table of functions that a compute backend fills: the CPU's in ops/backend.c, the GPU's in the plugin
 * voxpipe-cuda.so, which the programs open at run time. Plain C; nothing here names CUDA. */
#ifndef VP_BACKEND_H
#define VP_BACKEND_H

#include "geom/geom.h"
#include "plan/local.h"

/* Changes whenever this file does: a plugin of another build is refused. */
enum { VP_BACKEND_ABI = 4 };

struct vp_device {
    char name[128];
    uint64_t free, total; /* bytes of its own memory; 0: it works in the host's */
    double speed;         /* to share work among devices: multiprocessors times GHz; 0: unknown */
};

struct vp_filter;

/* A slab of a back-projection on one device (contract: ops/backproject.h). */
struct vp_bp_job {
    const struct vp_view *views; /* of the whole scan */
    int64_t n_views;
    int64_t first, last; /* views [first, last) will come */
    bool pairs; /* and [first, last) + plan.partner too; only for a plan of the whole scan that has a partner */
    int64_t nu, nv;
    const struct vp_grid *grid;
    int64_t z0, z1;
    bool mirrored; /* slices [nz - z1, nz - z0) as well; z1 <= (nz + 1) / 2, and only where the plan says `mirror` */
    const struct vp_filter *filter; /* NULL: views come filtered; else in_nu columns wide, and the device filters */
    int64_t in_nu;
    bool any_order;         /* the caller hands views over in the order that the plan asks for, else increasing */
    int threads;            /* on the host */
    int device;
    uint64_t device_memory; /* bytes of its own memory that the device may use; 0: what is free */
    int64_t together; /* of bp_open: so many views may come before their partners, as a plan said; else 0 */
};

struct vp_bp_plan {
    char kernel[160];      /* what the matrices and the device led to */
    uint64_t host, device; /* bytes that an open job takes */
    uint64_t room;         /* bytes of its own that the device has for it (0: it has none of its own) */
    int64_t v0, v1;        /* detector rows that the slab needs; others need not be given */
    int64_t partner;       /* > 0, and the order is free: best is views [o, o + n), then those from o + partner on */
    int64_t together;      /* so many views at most, before their partners come */
    int64_t z_step;        /* slabs that begin and end at multiples of this waste nothing */
    bool mirror;           /* there is a mirror plane: slabs may be `mirrored` */
    char filter[128];      /* how the device filters, if the job has a filter ... */
    double filter_seconds; /* ... and what a sample of the input is expected to take */
};

struct vp_bp_stats {
    double kernel, filter;       /* seconds that the device back-projected and filtered; 0: not measured */
    double first, phase;         /* seconds from the call of bp_open to the first kernel, to the end of the last */
    uint64_t uploaded, downloaded; /* bytes */
};

struct vp_backend {
    int abi;
    const char *name;
    int (*count)(void); /* devices that can be used; 0 if there are none or no driver */
    int (*device)(int device, struct vp_device *info, struct vp_err *err);
    /* For benchmarks: bytes copied in a second, in 1e9: within the device (read and written), to it, from it. */
    int (*copy_speed)(int device, double speed[3], struct vp_err *err);

    /* Back-projection. bp_plan allocates nothing that stays. VP_ERESOURCE where memory falls short. */
    int (*bp_plan)(const struct vp_bp_job *job, struct vp_bp_plan *plan, struct vp_err *err);
    int (*bp_open)(void **bp, const struct vp_bp_job *job, struct vp_err *err);
    /* n views from `first`, rows [v0, v1) of each (on the CPU all rows), one after the other. Views come in increasing
     * order, or in that of the plan. proj must stay as it is until bp_wait has returned for *ticket. */
    int (*bp_add)(void *bp, int64_t first, int64_t n, int64_t v0, int64_t v1, const float *proj, uint64_t *ticket,
                  struct vp_err *err);
    int (*bp_wait)(void *bp, uint64_t ticket, struct vp_err *err);
    /* No more views come. Slices can be asked for; what is not ready is waited for, so begin with the lowest. */
    int (*bp_flush)(void *bp, struct vp_err *err);
    int (*bp_slices)(void *bp, int64_t z, int64_t n, float *out, struct vp_err *err);
    void (*bp_stats)(void *bp, struct vp_bp_stats *stats); /* after the last slice */
    void (*bp_close)(void *bp); /* waits until nothing is copied any more */

    /* Local operations (plan/local.h). A worker belongs to one device and has `lanes` sets of buffers for parts of at
     * most in[] -> out[] voxels, so that the copies of one lane overlap the work of another. All NULL where the backend
     * has none of it. */
    /* Whether every stage has a kernel for its types and parameters; else why not. */
    bool (*local_has)(const struct vp_chain *chain, char *why, size_t size);
    /* Device bytes of a worker. */
    uint64_t (*local_bytes)(const struct vp_chain *chain, const int64_t in[3], const int64_t out[3], int lanes);
    /* VP_ERESOURCE where device memory falls short (the caller plans smaller parts). */
    int (*local_open)(void **worker, const struct vp_chain *chain, int device, const int64_t in[3],
                      const int64_t out[3], int lanes, struct vp_err *err);
    /* Queue: upload in[0 .. chain->stacks-1], all of one box, run all stages, download into `out`. Returns at
     * once; the host memory must stay until local_wait. The first `carry` planes of in[] are the last ones of the part
     * submitted before this one (by whatever lane): they are taken from there, not uploaded (and the host need not
     * have them any more). carry may be all planes of in[]. */
    int (*local_submit)(void *worker, int lane, const struct vp_part *in, const struct vp_part *out, int64_t carry,
                        struct vp_err *err);
    int (*local_wait)(void *worker, int lane, struct vp_err *err);
    void (*local_close)(void *worker);
    /* Seconds that the device itself worked so far, and bytes over the bus: for --stats. */
    void (*local_stats)(void *worker, double *seconds, uint64_t *up, uint64_t *down);
    /* Host memory that the device copies from and to at full speed; NULL if it cannot be had. */
    void *(*host_alloc)(size_t bytes);
    void (*host_free)(void *p);
};

/* What the plugin exports, by this name: `const struct vp_backend *vp_backend_plugin(void)`. */
#define VP_BACKEND_SYMBOL "vp_backend_plugin"

extern const struct vp_backend vp_backend_cpu;

/* The backend and device for `device` (auto, cpu, cuda, cuda:N). auto is the first GPU if there is a plugin and a
 * device, else the CPU. VP_ERESOURCE if what is asked for by name cannot be had, saying why. */
int vp_backend_find(const struct vp_backend **backend, int *device, const char *name, struct vp_err *err);

/* The same, all devices that `name` allows: cuda is every GPU, cuda:0,2 those. *devices is malloc'd. auto lists every
 * GPU too: how many are worth it is for the caller to say. */
int vp_backend_devices(const struct vp_backend **backend, int **devices, int *n, const char *name, struct vp_err *err);
/* Why a plugin that was found was not loaded, where `auto` took the CPU instead; "" if there is nothing to say. */
const char *vp_backend_refused(void);
/* Begin, in a thread of its own, what makes the first use of a device slow. Optional; it has to be waited for before
 * the process ends, for a driver must not be torn down while it starts. */
void vp_backend_warm(const char *name);
void vp_backend_settle(void);

#endif
