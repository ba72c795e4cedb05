/* SPDX-License-Identifier: BSD-3-Clause */
/* A bounded ring between two threads: one mutex, one condition. Batches are megabytes, so a lock
 * for each costs nothing. */
#include "base/ring.h"

void vp_ring_init(struct vp_ring *r, int slots)
{
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->changed, NULL);
    r->slots = slots;
    r->head = r->used = 0;
    r->ended = r->stopped = false;
}

void vp_ring_destroy(struct vp_ring *r)
{
    pthread_cond_destroy(&r->changed);
    pthread_mutex_destroy(&r->lock);
}

int vp_ring_fill(struct vp_ring *r)
{
    pthread_mutex_lock(&r->lock);
    while (r->used == r->slots && !r->stopped)
        pthread_cond_wait(&r->changed, &r->lock);
    const int slot = r->stopped ? -1 : (r->head + r->used) % r->slots;
    pthread_mutex_unlock(&r->lock);
    return slot;
}

int vp_ring_look(struct vp_ring *r, int ahead)
{
    pthread_mutex_lock(&r->lock);
    while (r->used <= ahead && !r->ended)
        pthread_cond_wait(&r->changed, &r->lock);
    const int slot = r->used > ahead ? (r->head + ahead) % r->slots : -1;
    pthread_mutex_unlock(&r->lock);
    return slot;
}

static void change(struct vp_ring *r, int used, bool ended, bool stopped)
{
    pthread_mutex_lock(&r->lock);
    if (used < 0)
        r->head = (r->head + 1) % r->slots;
    r->used += used;
    r->ended |= ended;
    r->stopped |= stopped;
    pthread_cond_broadcast(&r->changed);
    pthread_mutex_unlock(&r->lock);
}

void vp_ring_filled(struct vp_ring *r) { change(r, 1, false, false); }
void vp_ring_taken(struct vp_ring *r) { change(r, -1, false, false); }
void vp_ring_end(struct vp_ring *r) { change(r, 0, true, false); }
void vp_ring_stop(struct vp_ring *r) { change(r, 0, false, true); }
