/* The one table of functions that a compute backend fills: the CPU's in ops/backend.c, the GPU's in the plugin
 * voxpipe-cuda.so, which the programs open at run time. Plain C; nothing here names CUDA. */
#ifndef VP_BACKEND_H
#define VP_BACKEND_H

#include "geom/geom.h"

/* Changes whenever this file does: a plugin of another build is refused. */
enum { VP_BACKEND_ABI = 1 };

struct vp_device {
    char name[128];
    uint64_t free, total; /* bytes of its own memory; 0: it works in the host's */
};

/* A slab of a back-projection (contract: ops/backproject.h). */
struct vp_bp_job {
    const struct vp_view *views; /* of the whole scan */
    int64_t n_views;
    int64_t first, last; /* views [first, last) will come */
    int64_t nu, nv;
    const struct vp_grid *grid;
    int64_t z0, z1;
    int threads; /* on the host */
    int device;
};

struct vp_bp_plan {
    char kernel[160];      /* what the matrices and the device led to */
    uint64_t host, device; /* bytes that an open job takes */
};

struct vp_backend {
    int abi;
    const char *name;
    int (*count)(void); /* devices that can be used; 0 if there are none or no driver */
    int (*device)(int device, struct vp_device *info, struct vp_err *err);

    /* Back-projection. bp_plan allocates nothing that stays. VP_ERESOURCE where memory falls short. */
    int (*bp_plan)(const struct vp_bp_job *job, struct vp_bp_plan *plan, struct vp_err *err);
    int (*bp_open)(void **bp, const struct vp_bp_job *job, struct vp_err *err);
    /* Views in increasing order, each nv x nu; proj may be reused on return. */
    int (*bp_add)(void *bp, int64_t first, int64_t n, const float *proj, struct vp_err *err);
    int (*bp_flush)(void *bp, struct vp_err *err);
    int (*bp_slices)(void *bp, int64_t z, int64_t n, float *out, struct vp_err *err);
    void (*bp_close)(void *bp);
};

/* What the plugin exports, by this name: `const struct vp_backend *vp_backend_plugin(void)`. */
#define VP_BACKEND_SYMBOL "vp_backend_plugin"

extern const struct vp_backend vp_backend_cpu;

/* The backend and device for `device` (auto, cpu, cuda, cuda:N). auto is the first GPU if there is a plugin and a device,
 * else the CPU. VP_ERESOURCE if what is asked for by name cannot be had, saying why. */
int vp_backend_find(const struct vp_backend **backend, int *device, const char *name, struct vp_err *err);

#endif
