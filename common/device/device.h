/* SPDX-License-Identifier: BSD-3-Clause */
/* The interface of compute devices: memory, queues, copies, events and kernels by name. The plugin voxpipe-cuda.so,
 * which the programs open at run time (find.c), fills this table for GPUs; the tests fill it for pretended devices.
 * Nothing here names CUDA.
 * A queue executes its work in order, asynchronously to the host; an event marks a position in it. Every verb can fail,
 * also because of work that was queued before. All may be called from any thread. */
#pragma once

#include "device/kernel.h"

struct vp_event;

struct vp_device_info {
    char name[128];
    uint64_t free, total; /* bytes of device memory; 0: the device works in host memory */
    uint64_t driver;      /* bytes of `free` that the driver may still allocate: code, local memory */
    double speed;         /* relative speed, to share work among devices: multiprocessors times GHz; 0: unknown */
    uint64_t id;          /* number of the physical device, independent of its index in this process; 0: unknown */
};

/* Rows of bytes in planes, in host or device memory. */
struct vp_pitched {
    void *data;
    int64_t row, plane; /* distance of rows, of planes, in bytes */
};

enum vp_way { VP_UP, VP_DOWN, VP_WITHIN }; /* host to device, back, within a device */

struct vp_backend {
    uint64_t build; /* must be first */
    const char *name;
    bool on_host;   /* works in host memory, with none of the functions below except host_free */
    /* Restricts the process to these devices, which then have the numbers 0 ... n - 1, as far as they exist. Must be
     * called first. -1: not possible now. NULL: not supported. */
    int (*set_visible)(const int *device, int n);
    int (*count)(void); /* number of usable devices; 0 if there are none or there is no driver */
    int (*info)(int device, struct vp_device_info *info, struct vp_err *err);

    /* Allocates device memory, aligned to VP_ALIGN. VP_ERESOURCE if it is exhausted. */
    int (*alloc)(int device, uint64_t bytes, void **p, struct vp_err *err);
    void (*release)(int device, void *p);
    /* Allocates host memory for copies at full speed (pinned); NULL if that is impossible. */
    void *(*host_alloc)(size_t bytes);
    void (*host_free)(void *p);

    int (*queue_create)(int device, struct vp_queue **q, struct vp_err *err);
    void (*queue_destroy)(struct vp_queue *q); /* waits for queued work; NULL is fine */
    /* Creates an event; `quiet`: without timing, for synchronization only. */
    int (*event_create)(int device, bool quiet, struct vp_event **e, struct vp_err *err);
    void (*event_destroy)(struct vp_event *e); /* NULL is fine */

    /* Copies n[0] bytes of each of n[1] rows of n[2] planes. Host memory must stay valid until the copy is done. */
    int (*copy)(struct vp_queue *q, const struct vp_pitched *to, const struct vp_pitched *from, const int64_t n[3],
                enum vp_way way, struct vp_err *err);
    int (*event_record)(struct vp_queue *q, struct vp_event *e, struct vp_err *err);
    int (*queue_wait)(struct vp_queue *q, struct vp_event *e, struct vp_err *err); /* makes the queue wait for e if it
                                                                                      was recorded */
    int (*event_synchronize)(struct vp_event *e, struct vp_err *err);                      /* makes the host wait */
    bool (*event_query)(struct vp_event *e); /* true if reached or never recorded */
    /* Returns the seconds between two events of one device, both reached; 0 if not recorded. */
    double (*event_elapsed)(struct vp_event *from, struct vp_event *to);

    const struct vp_kernel *(*kernel)(const char *name); /* NULL: it has none of that name */
    /* Table of kernels of an operation that the engine does not run: "backproject", "filter" (ct/kernels.h). NULL: it
     * has none of that name. */
    const void *(*kernels)(const char *name);
};

extern const struct vp_backend vp_cpu;

/* Finds the backend and all devices that `name` (auto, cpu, cuda, cuda:0,2) allows: cuda is every GPU; auto is every
 * GPU if there is one, else the CPU (the caller decides on the number to use). *devices is malloc'd. VP_ERESOURCE with
 * the reason if a device requested by name is not available. */
int vp_devices_find(const struct vp_backend **backend, int **devices, int *n, const char *name, struct vp_err *err);

/* Estimated effort of a piece of work, from its sizes and the table of rates (engine/rates.h), by which `auto` chooses
 * the number of devices: */
struct vp_effort {
    double on_cpu;  /* seconds on the CPU with all its threads */
    double start;   /* seconds until a device has started: the CPU is chosen for less work */
    double work;    /* work for the devices, in seconds or bytes; the unit of `each` and `all` */
    double each;    /* work that pays for the start of one more device; 0: none does */
    double all;     /* work from which on all devices pay; 0: none does */
    int asked;      /* number of devices requested, used if they exist; 0: no request */
};

/* Returns the number of devices to use out of `devices`; 0: the CPU. */
int vp_choose(const struct vp_effort *e, int devices);

/* Announces, before the first vp_devices_find, that it will be called with this name only. Drivers start all visible
 * devices one after the other; with a list ("cuda:0") the others need not be started. */
void vp_devices_only(const char *name);

/* Starts these devices concurrently; a failure is reported when the device is used. */
void vp_devices_start(const struct vp_backend *backend, const int *devices, int n);

/* Returns the reason why a plugin was not loaded although it was found, if `auto` took the CPU instead; "" if there is
 * none. */
const char *vp_devices_refused(void);

/* Starts the slow initialization of a device in a thread of its own. Optional. vp_devices_warmed() must be called
 * before the process ends, since a driver must not be torn down while it starts. */
void vp_devices_warm(const char *name);
void vp_devices_settle(void);
