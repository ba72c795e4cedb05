/* SPDX-License-Identifier: BSD-3-Clause */
/* Seconds that work takes on a device: pairs of events on one of its queues. */
#pragma once

#include "device/device.h"

struct vp_clock_span {
    struct vp_event *from, *to;
};

/* Zero but for backend and device before the first span. From one thread at a time. */
struct vp_clock {
    const struct vp_backend *backend;
    int device;
    struct vp_clock_span *span;
    int n, capacity;
};

/* Begins a span at the end of the queue, and ends the last one there. 0; -1: an event failed, or VP_ERESOURCE. */
int vp_clock_start(struct vp_clock *c, struct vp_queue *q, struct vp_err *err);
int vp_clock_stop(struct vp_clock *c, struct vp_queue *q, struct vp_err *err);
/* Returns the number of spans, counted from the last one, that the device has not finished; at most `most`. */
int vp_clock_pending(const struct vp_clock *c, int most);
/* Returns the sum of all spans, in seconds. All of them must be finished. */
double vp_clock_seconds(const struct vp_clock *c);
void vp_clock_close(struct vp_clock *c);
