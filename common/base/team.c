/* SPDX-License-Identifier: BSD-3-Clause */
/* One loop that idle threads share, and one back-off for all that spin. */
#include "base/team.h"

#include <sched.h>
#include <stddef.h>

void vp_team_pause(int64_t idle)
{
    enum { SPINS = 200 };

    if (idle > SPINS)
        sched_yield();
}

static void take(struct vp_team_loop *l, void *thread)
{
    int64_t left;

    while ((left = __atomic_fetch_sub(&l->left, 1, __ATOMIC_ACQ_REL)) > 0) {
        l->body(l->ctx, thread, l->n - left);
        __atomic_add_fetch(&l->done, 1, __ATOMIC_RELEASE);
    }
}

void vp_team_run(struct vp_team_loop *l, int64_t n, void (*body)(const void *ctx, void *thread, int64_t i),
                 const void *ctx, void *thread)
{
    if (!l || n == 1) {
        for (int64_t i = 0; i < n; i++)
            body(ctx, thread, i);
        return;
    }
    l->n = n;
    l->body = body;
    l->ctx = ctx;
    __atomic_store_n(&l->done, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&l->left, n, __ATOMIC_RELEASE);
    take(l, thread);
    vp_team_wait(&l->done, n);
}

bool vp_team_help(struct vp_team_loop *loops, int threads, void *thread)
{
    bool some = false;

    for (int i = 0; i < threads; i++)
        if (__atomic_load_n(&loops[i].left, __ATOMIC_RELAXED) > 0) {
            take(&loops[i], thread);
            some = true;
        }
    return some;
}
