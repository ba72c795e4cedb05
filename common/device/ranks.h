/* SPDX-License-Identifier: BSD-3-Clause */
/* Processes of one run that a launcher has started, on one host or on many: ranks. What passes bytes between them fills
 * this table: the plugin voxpipe-mpi.so, which is opened where the environment of a launcher is seen, and the pretended
 * ranks of the tests. Nothing here names MPI.
 *
 * A plugin passes messages and ends ranks. What several ranks do together is made of that here, in an order that is the
 * same in every run. All ranks call what is for all of them in the same order. */
#ifndef VP_RANKS_H
#define VP_RANKS_H

#include "base/err.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct vp_message;

/* Messages of a lane arrive in the order in which they were sent; those of two lanes in any. */
enum vp_lane { VP_LANE_ALL, VP_LANE_STOP, VP_LANE_VIEWS, VP_LANE_SLICES };

struct vp_ranks {
    int rank, size;
    char host[64];     /* ranks with the same one share its memory and its devices */
    char library[128]; /* what passes the bytes */
    void *own;         /* of who fills the table */

    /* Begin to send or to take n bytes. They stay where they are until the message is done. From any thread. */
    int (*send)(struct vp_ranks *r, int to, enum vp_lane lane, const void *from, size_t n, struct vp_message **m,
                struct vp_err *err);
    int (*take)(struct vp_ranks *r, int from, enum vp_lane lane, void *to, size_t n, struct vp_message **m,
                struct vp_err *err);
    /* Whether it is done; then it is freed, and *m is NULL. */
    int (*test)(struct vp_ranks *r, struct vp_message **m, bool *done, struct vp_err *err);
    /* Whether there is a message of a lane that nobody has begun to take; and whose. */
    bool (*waits)(struct vp_ranks *r, enum vp_lane lane, int *from);
    /* The end; `well`: of all ranks, and no message is left. Frees the table. */
    void (*close)(struct vp_ranks *r, bool well);
    /* End all ranks at once, wherever they are, and the run with `status`. Does not return. */
    void (*abort)(struct vp_ranks *r, int status);

    /* Filled here. */
    int place, places;  /* of this rank among those of its host */
    int hosts;
    atomic_int stopped; /* 1 + the rank that has said that it failed */
    bool told;          /* it was this one */
    int speaker;        /* after ranks have agreed that they failed: who says so */
    bool lost;          /* this one cannot agree with the others any more, who may wait for it: it must abort() */
};

/* The table of the plugin (vp_plugin_open). */
struct vp_ranks_plugin {
    uint64_t build; /* first */
    struct vp_ranks *(*open)(struct vp_err *err);
};

/* The ranks that this process is one of; NULL if it is alone. Where there are several and the plugin cannot be had that
 * is an error: they would all do the same work and write the same file. All ranks at once. After an error *r may be there,
 * lost. */
int vp_ranks_open(struct vp_ranks **r, struct vp_err *err);
/* Fill what the table says of hosts. */
int vp_ranks_meet(struct vp_ranks *r, struct vp_err *err);
/* NULL is fine. */
void vp_ranks_close(struct vp_ranks *r, bool well);

/* `size` bytes of every rank, in their order, into `all`, on every rank. */
int vp_ranks_gather(struct vp_ranks *r, const void *mine, size_t size, void *all, struct vp_err *err);

/* The same where some ranks may have failed (rc, *err): then it fails everywhere, and *err is the same everywhere: that
 * of the first rank that failed of itself, with its name if it is not what all say. A rank that is not heard of for ten
 * seconds after another has failed counts as one that failed. This rank is lost where it cannot speak, or is not heard:
 * *err is its own then. */
int vp_ranks_agree(struct vp_ranks *r, int rc, const void *mine, size_t size, void *all, struct vp_err *err);

/* In the middle of work: say that this rank cannot go on, so that the others stop and come to vp_ranks_agree(). */
void vp_ranks_stop(struct vp_ranks *r);
/* -1 if another rank has said so. */
int vp_ranks_check(struct vp_ranks *r, struct vp_err *err);

/* Wait until n messages are done (NULL ones are), or until a rank has failed: then they are given up, and what they
 * point to must stay. */
int vp_ranks_wait(struct vp_ranks *r, struct vp_message **m, int n, struct vp_err *err);

#endif
