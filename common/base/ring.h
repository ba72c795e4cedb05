/* A bounded ring of slots between one producer thread and one consumer thread. The slots' buffers
 * are the caller's; the ring only says whose turn each slot is. */
#pragma once

#include <pthread.h>
#include <stdbool.h>

struct vp_ring {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int slots, head, used;   /* head: next slot to consume; used: slots filled and not yet released */
    bool ended, stopped;
};

void vp_ring_init(struct vp_ring *r, int slots);
void vp_ring_destroy(struct vp_ring *r);

/* Returns the next free slot to the producer (waits), or -1 if the consumer stopped. */
int vp_ring_fill(struct vp_ring *r);
void vp_ring_filled(struct vp_ring *r);
/* Ends the production. */
void vp_ring_end(struct vp_ring *r);

/* Returns the next filled slot to the consumer (waits), or, `ahead`, one further: the slots before it are taken, but
 * not yet given back. -1 at the end. */
int vp_ring_look(struct vp_ring *r, int ahead);
void vp_ring_taken(struct vp_ring *r);
/* Ends the consumption; a waiting producer returns -1. */
void vp_ring_stop(struct vp_ring *r);
