/* SPDX-License-Identifier: BSD-3-Clause */
/* What the verbs of device/device.h stand on here: a queue is a stream of one device. */
#ifndef VP_QUEUE_H
#define VP_QUEUE_H

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

#include <stdbool.h>

struct vp_queue {
    cudaStream_t stream;
    int device, sms; /* sms: its multiprocessors, for choosing a grid */
};

struct vp_event {
    cudaEvent_t event;
    int device;
    bool marked;
};

#ifdef __cplusplus
}
#endif
#endif
