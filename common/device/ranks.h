/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks: processes of one run that a launcher has started, on one host or on many. The transport fills this table: the
 * plugin voxpipe-mpi.so, opened if the environment is that of a launcher, or the pretended ranks of the tests. Nothing
 * here names MPI.
 * A plugin passes messages and ends ranks. Collective operations are built from those here, in an order that is the
 * same in every run. All ranks must call collective functions in the same order. */
#pragma once

#include "base/err.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct vp_message;

/* Messages of one lane arrive in the order in which they were sent; those of two lanes in any order. */
enum vp_lane { VP_LANE_ALL, VP_LANE_STOP, VP_LANE_VIEWS, VP_LANE_SLICES };

struct vp_ranks {
    int rank, size;
    char host[64];     /* ranks with the same host share its memory and devices */
    char library[128]; /* name of the message library */
    void *own;         /* private to the plugin */

    /* Start to send or receive n bytes, which must stay valid until the message is done. May be called from any thread.
     * */
    int (*send)(struct vp_ranks *r, int to, enum vp_lane lane, const void *from, size_t n, struct vp_message **m,
                struct vp_err *err);
    int (*take)(struct vp_ranks *r, int from, enum vp_lane lane, void *to, size_t n, struct vp_message **m,
                struct vp_err *err);
    /* Tests for completion; a completed message is freed and *m set to NULL. */
    int (*test)(struct vp_ranks *r, struct vp_message **m, bool *done, struct vp_err *err);
    /* True if a message of the lane is pending that no receive matches yet; *from is its sender. */
    bool (*probe)(struct vp_ranks *r, enum vp_lane lane, int *from);
    /* Shuts down and frees the table; `well`: on all ranks, and no message is pending. */
    void (*close)(struct vp_ranks *r, bool well);
    /* Ends all ranks at once, on every host, and the run with `status`. Does not return. */
    void (*abort)(struct vp_ranks *r, int status);

    /* Filled by ranks.c. */
    int place, places;  /* index of this rank among those of its host, and their number */
    int hosts;
    atomic_int stopped; /* 1 + the first rank known to have failed */
    bool announced;          /* this rank has announced its failure */
    int reporter;        /* rank that reports the error after an agreement on failure */
    bool lost;          /* this rank cannot agree with the others any more, which may wait for it: it must abort() */
};

/* Table of the plugin (vp_plugin_open). */
struct vp_ranks_plugin {
    uint64_t build; /* must be first */
    struct vp_ranks *(*open)(struct vp_err *err);
};

/* Connects to the other ranks; *r is NULL if there are none. It is an error if there are several and the plugin is not
 * available: they would all do the same work and write the same file. Collective. After an error *r may be set, with
 * `lost`. */
int vp_ranks_open(struct vp_ranks **r, struct vp_err *err);
/* Fills host, place and places of the table. */
int vp_ranks_meet(struct vp_ranks *r, struct vp_err *err);
/* Accepts NULL. */
void vp_ranks_close(struct vp_ranks *r, bool well);

/* Gathers `size` bytes of every rank, in rank order, into `all` on every rank. */
int vp_ranks_gather(struct vp_ranks *r, const void *mine, size_t size, void *all, struct vp_err *err);

/* Gathers like vp_ranks_gather if some ranks may have failed (rc, *err): then it fails on every rank, with the same
 * *err: that of the first rank that failed of itself, prefixed with its name unless all ranks have the same error. A
 * rank that is silent for ten seconds after another failed counts as failed. If this rank cannot communicate it is
 * `lost`, and *err is its own. */
int vp_ranks_agree(struct vp_ranks *r, int rc, const void *mine, size_t size, void *all, struct vp_err *err);

/* Announces, in the middle of work, that this rank has failed, so that the others stop and come to vp_ranks_agree(). */
void vp_ranks_stop(struct vp_ranks *r);
/* Returns -1 if another rank has announced a failure. */
int vp_ranks_check(struct vp_ranks *r, struct vp_err *err);

/* Waits until n messages are done (NULL entries are), or until a rank has failed: then they are abandoned, and their
 * memory must stay valid. */
int vp_ranks_wait(struct vp_ranks *r, struct vp_message **m, int n, struct vp_err *err);
