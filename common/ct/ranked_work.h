/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages between ranks while they reconstruct: views within a column of the grid (ct/mesh.h), before they are
 * back-projected, and partial sums of slices within a row, before they are written. */
#pragma once

#include "ct/mesh.h"
#include "ct/reconstruct.h"

struct vp_ranks;

/* Views: a source of projections (vp_projections.read). A batch is shared out to the ranks of the column in order; each
 * reads its part, normalises it, filters it where the CPU does that, and sends every other rank the detector rows that
 * its slab takes. */
struct vp_sharing {
    struct vp_ranks *ranks;
    const struct vp_reconstruct *of;
    bool filter;          /* here, not on the devices */
    int first, n, it;     /* first rank of the column, ranks of it, and this one's number */
    const int64_t (*rows)[2]; /* detector rows of each rank */
    struct vp_normalize_report *repaired;
    int64_t bad;          /* NaN and infinite samples of the views that were read here */
    struct vp_truncation truncation; /* ends of the rows of the same views */
    double load, work, gather; /* seconds */
    uint64_t sent;        /* bytes */
    float *own[2];   /* views of the last two batches, whose messages may be on their way; then longer rows */
    size_t room[2];
    struct vp_message **message[2], **taken;
    int messages[2], most;
    int turn;
};

/* Returns the bytes that sharing takes with batches of `batch` views. */
uint64_t vp_sharing_bytes(const struct vp_reconstruct *r, int ranks, int batch);
int vp_sharing_read(void *sharing, int64_t first, int n, int64_t v0, int64_t v1, float *to, struct vp_err *err);
/* Waits, after the last view, until all messages have been received. */
int vp_sharing_finish(struct vp_sharing *s, struct vp_err *err);
void vp_sharing_free(struct vp_sharing *s, bool well);

/* Slices: the result of a reconstruction (vp_volume.put). Every rank of the row adds up the rows of an image that are
 * its own, in the order of the columns, and writes them. */
struct vp_adding {
    struct vp_ranks *ranks;
    const struct vp_reconstruct *of;
    int row, rows, columns, it; /* row, rows and columns of the grid, and this rank's column */
    struct vp_writer *writer;   /* NULL: they are discarded */
    int64_t z0;                 /* slice of page 0 */
    int64_t group;              /* slices that come at once, at most */
    double reduce, store;       /* seconds */
    float *partial;             /* columns - 1 of those rows */
    struct vp_message **message;
};

uint64_t vp_adding_bytes(const struct vp_reconstruct *r, int columns, int64_t group);
int vp_adding_put(void *adding, int64_t z, int64_t n, const float *slices, struct vp_err *err);
void vp_adding_free(struct vp_adding *a, bool well);
