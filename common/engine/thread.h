/* SPDX-License-Identifier: BSD-3-Clause */
/* A thread of a run. */
#pragma once

#include "base/err.h"

#include <pthread.h>
#include <stdbool.h>

/* Zero it first. */
struct vp_thread {
    pthread_t id;
    bool running;
    int wake[2]; /* a pipe, for a thread that reads the input */
    int (*run)(void *ctx, struct vp_err *err);
    void *ctx;
    struct vp_err err;
    int rc;
};

/* Starts run(ctx, err). `reads`: it reads the input, and vp_thread_wake ends a read that waits. 0 or -1. */
int vp_thread_start(struct vp_thread *t, int (*run)(void *ctx, struct vp_err *err), void *ctx, bool reads,
                    struct vp_err *err);
void vp_thread_wake(struct vp_thread *t);
/* Waits for its end, if it was started. 0, or -1 if it failed: its error is in *err, unless another one was first. */
int vp_thread_join(struct vp_thread *t, struct vp_err *err);
