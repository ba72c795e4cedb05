/* Threads of a team that wait for each other for shorter than a lock would take: they spin, then yield the processor.
 *
 * The team itself is started by its user (OpenMP). Every count below is increased by __atomic_ functions with release
 * order; a thread that sees it reached sees all that was written before. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Waits a moment before the `idle`-th look (from 0) at what others have to do first. */
void vp_team_pause(int64_t idle);

/* Waits until *count has reached n. */
static inline void vp_team_wait(const int64_t *count, int64_t n)
{
    for (int64_t idle = 0; __atomic_load_n(count, __ATOMIC_ACQUIRE) < n; idle++)
        vp_team_pause(idle);
}

/* A loop of independent iterations that one thread owns and idle threads share. Zero: an empty one. */
struct vp_team_loop {
    _Alignas(64) int64_t left; /* iterations not yet taken; who has taken one may read the rest until it is done */
    int64_t done, n;
    void (*body)(const void *ctx, void *thread, int64_t i);
    const void *ctx;
};

/* Runs body(ctx, thread, i) for i = 0 ... n - 1, and returns when all are done. `thread` is that of the thread which
 * takes an iteration: its buffers. loop: the caller's own; NULL: no other thread takes part. */
void vp_team_run(struct vp_team_loop *loop, int64_t n, void (*body)(const void *ctx, void *thread, int64_t i),
                 const void *ctx, void *thread);

/* Takes iterations of the loops of `threads` owners with buffers of its own; true if there were any. */
bool vp_team_help(struct vp_team_loop *loops, int threads, void *thread);
