/* SPDX-License-Identifier: BSD-3-Clause */
/* What computes: memory, queues, copies, events and kernels by name. GPUs fill this table through the plugin
 * voxpipe-cuda.so, which the programs open at run time (find.c), and so do the pretended devices of the tests. Nothing
 * here names CUDA.
 *
 * A queue does what it is given in order, beside the host; an event marks a place in it. Every verb can fail, and a
 * failure may be of work that was queued before. From any thread. */
#ifndef VP_DEVICE_H
#define VP_DEVICE_H

#include "device/kernel.h"

struct vp_event;

struct vp_device_info {
    char name[128];
    uint64_t free, total; /* bytes of its own memory; 0: it works in the host's */
    uint64_t driver;      /* of those that are free, what its driver may yet take: code, local memory */
    double speed;         /* to share work among devices: multiprocessors times GHz; 0: unknown */
    uint64_t id;          /* of the device itself, whatever its number is in this process; 0: unknown */
};

/* Rows of bytes in planes, in the memory of the host or of a device. */
struct vp_pitched {
    void *data;
    int64_t row, plane; /* bytes from a row, a plane to the next */
};

enum vp_way { VP_UP, VP_DOWN, VP_WITHIN }; /* host to device, back, within a device */

struct vp_backend {
    uint64_t build; /* first */
    const char *name;
    bool on_host;   /* it works in the host's memory, without any of the verbs below but host_free */
    /* Before all else: of all devices only these will be used, and are numbers 0 ... n - 1 from now on, as far as they
     * exist. -1: that cannot be had. NULL: it never can. */
    int (*set_visible)(const int *device, int n);
    int (*count)(void); /* devices that can be used; 0 if there are none or no driver */
    int (*info)(int device, struct vp_device_info *info, struct vp_err *err);

    /* Its own memory, aligned to VP_ALIGN. VP_ERESOURCE where it falls short. */
    int (*alloc)(int device, uint64_t bytes, void **p, struct vp_err *err);
    void (*release)(int device, void *p);
    /* Host memory that it copies from and to at full speed; NULL if it cannot be had. */
    void *(*host_alloc)(size_t bytes);
    void (*host_free)(void *p);

    int (*queue_create)(int device, struct vp_queue **q, struct vp_err *err);
    void (*queue_destroy)(struct vp_queue *q); /* waits for what is in it. NULL is fine */
    /* Without timing where `quiet`: such an event is only waited for. */
    int (*event_create)(int device, bool quiet, struct vp_event **e, struct vp_err *err);
    void (*event_destroy)(struct vp_event *e); /* NULL is fine */

    /* n[0] bytes of each of n[1] rows of n[2] planes. What lies on the host must stay until the copy is done. */
    int (*copy)(struct vp_queue *q, const struct vp_pitched *to, const struct vp_pitched *from, const int64_t n[3],
                enum vp_way way, struct vp_err *err);
    int (*event_record)(struct vp_queue *q, struct vp_event *e, struct vp_err *err);
    int (*queue_wait)(struct vp_queue *q, struct vp_event *e, struct vp_err *err); /* the queue waits, if it was marked */
    int (*event_synchronize)(struct vp_event *e, struct vp_err *err);                      /* the host waits */
    bool (*event_query)(struct vp_event *e); /* or never marked */
    /* Seconds from one event to another, of one device, both passed; 0 if they were not marked. */
    double (*event_elapsed)(struct vp_event *from, struct vp_event *to);

    const struct vp_kernel *(*kernel)(const char *name); /* NULL: it has none of that name */
    /* Table of kernels of an operation that the engine does not run: "backproject", "filter" (ct/kernels.h). NULL: it
     * has none of that name. */
    const void *(*kernels)(const char *name);
};

extern const struct vp_backend vp_cpu;

/* What a plugin exports: `const void *vp_plugin(void)`, its table, which begins with the build: a hash of all headers
 * that it shares with the programs (VP_BUILD). */
#define VP_PLUGIN_SYMBOL "vp_plugin"

/* The table of the plugin `name`, which is opened to be found by other libraries (`global`), or not: in
 * $VOXPIPE_PLUGINS, or else in ../lib/voxpipe beside the programs and beside them, so that a tree that was moved still
 * finds its own. NULL with the reason in `why` if it is not there, not of this build or not to be trusted
 * (vp_devices_refused). It stays open. */
const void *vp_plugin_open(const char *name, bool global, char *why, size_t size);

/* The kind and all devices that `name` (auto, cpu, cuda, cuda:0,2) allows: cuda is every GPU. *devices is malloc'd.
 * auto is every GPU if there is one, else the CPU: how many are worth it is for the caller to say. VP_ERESOURCE if what
 * is asked for by name cannot be had, saying why. */
int vp_devices_find(const struct vp_backend **backend, int **devices, int *n, const char *name, struct vp_err *err);

/* What `auto` means, whether work is worth a device, and how many of them. Of the work as a whole, from its sizes and
 * the table of rates (engine/rates.h): */
struct vp_effort {
    double on_cpu;  /* seconds that the CPU would take, with all its threads */
    double start;   /* seconds that a device takes to start: the CPU has done before what takes it less */
    double work;    /* what the devices do, in seconds or in bytes, and in the same: */
    double each;    /* ... what pays for the start of one device more; 0: nothing does */
    double all;     /* ... from which on all of them pay; 0: nothing does */
    int asked;      /* so many were asked for, and where they are there they are taken; 0: none */
};

/* How many of so many devices; 0: the CPU. */
int vp_choose(const struct vp_effort *e, int devices);

/* For programs, before the first _find: this name is the only one that it will be asked for. Drivers start all devices
 * that they show, one after the other; if it is a list ("cuda:0"), those beside it need not be started. */
void vp_devices_only(const char *name);

/* Start these devices, all at the same time; what fails will fail again when they are used. */
void vp_devices_start(const struct vp_backend *backend, const int *devices, int n);

/* Why a plugin that was found was not loaded, where `auto` took the CPU instead; "" if there is nothing to say. */
const char *vp_devices_refused(void);

/* Begin, in a thread of its own, what makes the first use of a device slow. Optional; it has to be waited for before
 * the process ends, for a driver must not be torn down while it starts. */
void vp_devices_warm(const char *name);
void vp_devices_settle(void);

#endif
