/* SPDX-License-Identifier: BSD-3-Clause */
/* The CPU as a kind of device: what is queued is done at once, its memory is the host's. */
#include "base/err.h"
#include "base/size.h"
#include "base/stats.h"
#include "device/device.h"
#include "build.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct vp_event { double when; /* 0: not marked */ };

static int count(void)
{
    return 1;
}

static int info(int device, struct vp_device_info *out, struct vp_err *err)
{
    (void)device, (void)err;
    *out = (struct vp_device_info){.name = "cpu"};
    return 0;
}

static int take(int device, uint64_t bytes, void **p, struct vp_err *err)
{
    (void)device;
    *p = bytes <= SIZE_MAX ? aligned_alloc(VP_ALIGN, (size_t)(bytes + VP_ALIGN - 1) / VP_ALIGN * VP_ALIGN) : NULL;
    return *p ? 0 : vp_fail(err, VP_ERESOURCE, "not enough memory");
}

static void release(int device, void *p)
{
    (void)device;
    free(p);
}

static void *host_alloc(size_t bytes)
{
    struct vp_err ignored = VP_ERR_INIT;
    return vp_alloc_raw(bytes, 1, "a buffer", &ignored);
}

/* A queue has no state: any address will do. */
static int queue(int device, struct vp_queue **q, struct vp_err *err)
{
    static char nothing;
    (void)device, (void)err;
    *q = (struct vp_queue *)(void *)&nothing;
    return 0;
}

static void unqueue(struct vp_queue *q)
{
    (void)q;
}

static int event(int device, bool quiet, struct vp_event **e, struct vp_err *err)
{
    (void)device, (void)quiet;
    *e = calloc(1, sizeof **e);
    return *e ? 0 : vp_fail(err, VP_ERESOURCE, "not enough memory");
}

static void unevent(struct vp_event *e)
{
    free(e);
}

static int copy(struct vp_queue *q, const struct vp_pitched *to, const struct vp_pitched *from, const int64_t n[3],
                enum vp_way way, struct vp_err *err)
{
    (void)q, (void)way, (void)err;
    for (int64_t z = 0; z < n[2]; z++)
        for (int64_t y = 0; y < n[1]; y++)
            memcpy((char *)to->data + z * to->plane + y * to->row,
                   (const char *)from->data + z * from->plane + y * from->row, (size_t)n[0]);
    return 0;
}

static int mark(struct vp_queue *q, struct vp_event *e, struct vp_err *err)
{
    (void)q, (void)err;
    e->when = vp_now();
    return 0;
}

static int after(struct vp_queue *q, struct vp_event *e, struct vp_err *err)
{
    (void)q, (void)e, (void)err;
    return 0;
}

static int wait_for(struct vp_event *e, struct vp_err *err)
{
    (void)e, (void)err;
    return 0;
}

static bool passed(struct vp_event *e)
{
    (void)e;
    return true;
}

static double between(struct vp_event *from, struct vp_event *to)
{
    return from->when > 0 && to->when > 0 ? to->when - from->when : 0;
}

const struct vp_kind vp_cpu = {
    .build = VP_BUILD, .name = "cpu", .on_host = true, .count = count, .info = info, .alloc = take, .release = release,
    .host_alloc = host_alloc, .host_free = free, .queue = queue, .unqueue = unqueue, .event = event,
    .unevent = unevent, .copy = copy, .mark = mark, .after = after, .wait = wait_for, .passed = passed,
    .between = between,
};
