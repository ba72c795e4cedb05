/* SPDX-License-Identifier: BSD-3-Clause */
/* The plugin's table: the functions of device/device.h for CUDA devices, and the list of their kernels. */
#include "ct/pair_device.h"
#include "device/device.h"
#include "build.h"
#include "gpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const void *vp_plugin(void);

/* The entries of VP_GPU_KERNEL: the linker names the ends of their section. */
extern const struct vp_kernel *const __start_vp_kernels[] __attribute__((visibility("hidden")));
extern const struct vp_kernel *const __stop_vp_kernels[] __attribute__((visibility("hidden")));

struct vp_event {
    cudaEvent_t event;
    int device;
    bool recorded;
};

static int failed(struct vp_err *err, cudaError_t e)
{
    return vp_gpu_check(err, e, "the CUDA device failed");
}

static int unusable(struct vp_err *err, cudaError_t e)
{
    return vp_gpu_check(err, e, "cannot use the CUDA device");
}

/* Numbers of the devices before set_visible() hid others, for messages. */
static const int *original;
static int n_original;

static int name_of(int device)
{
    return device < n_original ? original[device] : device;
}

/* Returns token i of a comma-separated list, NULL if it has fewer. */
static const char *token(const char *list, int i)
{
    for (; list && i > 0; i--) {
        list = strchr(list, ',');
        list += list != NULL;
    }
    return list;
}

/* Sets CUDA_VISIBLE_DEVICES to device[], which are indices into its present list if there is one. CUDA initialises
 * every visible device, 0.1 to 0.2 s each. Returns 0 or -1. */
static int set_visible(const int *device, int n)
{
    const char *given = getenv("CUDA_VISIBLE_DEVICES");
    char list[1024] = "", one[128];
    size_t at = 0;

    for (int i = 0; i < n; i++) {
        const char *from = given ? token(given, device[i]) : NULL;
        if (given && !from)
            return -1;
        if (from)
            snprintf(one, sizeof one, "%.*s", (int)strcspn(from, ","), from);
        else
            snprintf(one, sizeof one, "%d", device[i]);
        at += (size_t)snprintf(list + at, sizeof list - at, "%s%s", i ? "," : "", one);
        if (at >= sizeof list)
            return -1;
    }
    original = device;
    n_original = n;
    return setenv("CUDA_VISIBLE_DEVICES", list, 1);
}

static int count(void)
{
    int n = 0;
    return cudaGetDeviceCount(&n) == cudaSuccess ? n : 0;
}

static int info(int device, struct vp_device_info *info, struct vp_err *err)
{
    struct cudaDeviceProp prop;
    size_t available = 0, total = 0;
    int khz = 0;
    if (unusable(err, cudaSetDevice(device)) || unusable(err, cudaGetDeviceProperties(&prop, device)) ||
        unusable(err, cudaDeviceGetAttribute(&khz, cudaDevAttrClockRate, device)) ||
        unusable(err, cudaMemGetInfo(&available, &total)))
        return -1;
    snprintf(info->name, sizeof info->name, "%.*s", (int)sizeof info->name - 1, prop.name);
    info->free = available;
    info->total = total;
    info->driver = 128 << 20;
    info->speed = 1e-6 * khz * prop.multiProcessorCount;
    info->id = 0;
    for (size_t i = 0; i < sizeof prop.uuid.bytes; i++)
        info->id = info->id * 1099511628211u + (unsigned char)prop.uuid.bytes[i];
    return 0;
}

/* ---- memory ---- */

static int device_alloc(int device, uint64_t bytes, void **p, struct vp_err *err)
{
    if (unusable(err, cudaSetDevice(device)))
        return -1;
    const cudaError_t e = cudaMalloc(p, bytes);
    if (e == cudaErrorMemoryAllocation) {
        cudaGetLastError();
        return vp_fail(err, VP_ERESOURCE, "no %.1f MiB of memory left on CUDA device %d", (double)bytes / 1048576,
                       name_of(device));
    }
    return failed(err, e);
}

static void device_free(int device, void *p)
{
    cudaSetDevice(device);
    cudaFree(p);
}

/* ---- page-locked host memory, which any device may copy from ----
 *
 * cudaHostAlloc allocates and zeroes page by page in one thread. Here several threads touch the memory first, in huge
 * pages if the system has them, and the driver only locks it. */

enum { THREADS = 8, PAGE = 4096 };
static const size_t LARGE = (size_t)2 << 20;  /* bytes of a huge page */
static const size_t SMALL = (size_t)16 << 20; /* smaller buffers use cudaHostAlloc */

static void touch(char *p, size_t bytes)
{
#pragma omp parallel for num_threads(THREADS)
    for (size_t from = 0; from < bytes; from += LARGE)
        for (size_t i = from; i < bytes && i < from + LARGE; i += PAGE)
            *(volatile char *)(p + i) = 0;
}

static void *host_alloc(size_t bytes)
{
    struct vp_err ignored = VP_ERR_INIT;
    void *p = bytes >= SMALL ? vp_alloc_raw(bytes, 1, "a buffer", &ignored) : NULL;
    if (p) {
        touch(p, bytes);
        if (cudaHostRegister(p, bytes, cudaHostRegisterPortable) == cudaSuccess)
            return p;
        free(p);
    }
    if (cudaHostAlloc(&p, bytes, cudaHostAllocPortable) == cudaSuccess)
        return p;
    cudaGetLastError();
    return NULL;
}

static void host_free(void *p)
{
    if (p && cudaHostUnregister(p) == cudaSuccess) {
        free(p);
        return;
    }
    cudaGetLastError(); /* not registered here: from cudaHostAlloc */
    cudaFreeHost(p);
}

/* ---- queues and events ---- */

static void queue_destroy(struct vp_queue *q)
{
    if (!q)
        return;
    cudaSetDevice(q->device);
    cudaStreamSynchronize(q->stream);
    cudaStreamDestroy(q->stream);
    free(q);
}

static int queue_create(int device, struct vp_queue **out, struct vp_err *err)
{
    struct vp_queue *q = *out = calloc(1, sizeof *q);
    if (!q)
        return vp_fail(err, VP_ERESOURCE, "out of memory");
    q->device = device;
    if (!unusable(err, cudaSetDevice(device)) &&
        !unusable(err, cudaDeviceGetAttribute(&q->sms, cudaDevAttrMultiProcessorCount, device)) &&
        !unusable(err, cudaStreamCreateWithFlags(&q->stream, cudaStreamNonBlocking)))
        return 0;
    free(q);
    *out = NULL;
    return -1;
}

static void event_destroy(struct vp_event *e)
{
    if (!e)
        return;
    cudaSetDevice(e->device);
    cudaEventDestroy(e->event);
    free(e);
}

static int event_create(int device, bool quiet, struct vp_event **out, struct vp_err *err)
{
    const unsigned flags = quiet ? cudaEventDisableTiming | cudaEventBlockingSync : 0;
    struct vp_event *v = *out = calloc(1, sizeof *v);
    if (!v)
        return vp_fail(err, VP_ERESOURCE, "out of memory");
    v->device = device;
    if (!unusable(err, cudaSetDevice(device)) && !unusable(err, cudaEventCreateWithFlags(&v->event, flags)))
        return 0;
    free(v);
    *out = NULL;
    return -1;
}

static int event_record(struct vp_queue *q, struct vp_event *e, struct vp_err *err)
{
    e->recorded = true;
    cudaSetDevice(q->device);
    return failed(err, cudaEventRecord(e->event, q->stream));
}

static int queue_wait(struct vp_queue *q, struct vp_event *e, struct vp_err *err)
{
    cudaSetDevice(q->device);
    return e->recorded ? failed(err, cudaStreamWaitEvent(q->stream, e->event, 0)) : 0;
}

static int event_synchronize(struct vp_event *e, struct vp_err *err)
{
    return e->recorded ? failed(err, cudaEventSynchronize(e->event)) : 0;
}

static bool event_query(struct vp_event *e)
{
    const bool yes = !e->recorded || cudaEventQuery(e->event) != cudaErrorNotReady;
    cudaGetLastError(); /* clear "not ready", which is recorded as the last error */
    return yes;
}

static double event_elapsed(struct vp_event *from, struct vp_event *to)
{
    float ms = 0;
    if (!from->recorded || !to->recorded)
        return 0;
    cudaSetDevice(from->device);
    return cudaEventElapsedTime(&ms, from->event, to->event) == cudaSuccess ? 1e-3 * (double)ms : 0;
}

/* ---- copies ---- */

/* Copies with as few calls as the layout allows. */
static int copy(struct vp_queue *q, const struct vp_pitched *to, const struct vp_pitched *from, const int64_t n[3],
                enum vp_way way, struct vp_err *err)
{
    static const enum cudaMemcpyKind kinds[] = {cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost,
                                                cudaMemcpyDeviceToDevice};
    const enum cudaMemcpyKind kind = kinds[way];
    const size_t width = (size_t)n[0];
    cudaError_t e = cudaSetDevice(q->device);

    if (e != cudaSuccess)
        return failed(err, e);
    const bool dense = n[2] == 1 || (to->plane == to->row * n[1] && from->plane == from->row * n[1]);
    const bool whole_rows = to->plane % to->row == 0 && from->plane % from->row == 0;
    if (dense && to->row == n[0] && from->row == n[0]) {
        e = cudaMemcpyAsync(to->data, from->data, width * (size_t)(n[1] * n[2]), kind, q->stream);
    } else if (dense) {
        e = cudaMemcpy2DAsync(to->data, (size_t)to->row, from->data, (size_t)from->row, width,
                              (size_t)(n[1] * n[2]), kind, q->stream);
    } else if (whole_rows) {
        struct cudaMemcpy3DParms p = {.kind = kind, .extent = {width, (size_t)n[1], (size_t)n[2]}};
        p.srcPtr = (struct cudaPitchedPtr){from->data, (size_t)from->row, width, (size_t)(from->plane / from->row)};
        p.dstPtr = (struct cudaPitchedPtr){to->data, (size_t)to->row, width, (size_t)(to->plane / to->row)};
        e = cudaMemcpy3DAsync(&p, q->stream);
    } else {
        for (int64_t z = 0; z < n[2] && e == cudaSuccess; z++)
            e = cudaMemcpy2DAsync((char *)to->data + z * to->plane, (size_t)to->row,
                                  (const char *)from->data + z * from->plane, (size_t)from->row, width, (size_t)n[1],
                                  kind, q->stream);
    }
    return vp_gpu_check(err, e, way == VP_DOWN ? "cannot copy from the CUDA device" : "cannot copy to the CUDA device");
}

/* ---- the table ---- */

const struct vp_kernel *vp_gpu_kernel(const char *name); /* for missing.cuh */

const struct vp_kernel *vp_gpu_kernel(const char *name)
{
    for (const struct vp_kernel *const *k = __start_vp_kernels; k < __stop_vp_kernels; k++)
        if (!strcmp((*k)->name, name))
            return *k;
    return NULL;
}

extern const struct vp_pair_kernels vp_gpu_pair; /* pair.cu */

static const void *tables_of(const char *name)
{
    return !strcmp(name, "backproject") ? (const void *)&vp_gpu_backproject
         : !strcmp(name, "filter")      ? (const void *)&vp_gpu_filter
         : !strcmp(name, "pair")        ? (const void *)&vp_gpu_pair
                                        : NULL;
}

static const struct vp_backend table = {
    .build = VP_BUILD, .name = "cuda", .set_visible = set_visible, .count = count, .info = info,
    .alloc = device_alloc, .release = device_free, .host_alloc = host_alloc, .host_free = host_free,
    .queue_create = queue_create, .queue_destroy = queue_destroy,
    .event_create = event_create, .event_destroy = event_destroy,
    .copy = copy, .event_record = event_record, .queue_wait = queue_wait, .event_synchronize = event_synchronize,
    .event_query = event_query, .event_elapsed = event_elapsed,
    .kernel = vp_gpu_kernel, .kernels = tables_of,
};

__attribute__((visibility("default"))) const void *vp_plugin(void)
{
    return &table;
}
