/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of morphological reconstruction share. */
#ifndef VP_MORPHRECON_INTERNAL_H
#define VP_MORPHRECON_INTERNAL_H

#include "image/morphrecon.h"

struct vp_store;

enum { VP_MAX_NEIGHBOURS = 26 };

/* The offsets of the neighbours of a voxel: first those before it (in x fastest order), then their opposites. How many
 * there are. */
int vp_morphrecon_neighbours(int connectivity, int64_t offset[VP_MAX_NEIGHBOURS][3]);

/* An image of one row of many planes is one plane of many rows. */
bool vp_morphrecon_flat(const struct vp_op *op);

/* A box of keys as the forest wants it: voxel (x, y, z) at [z * plane + y * stride + x] of all three, where every voxel
 * has neighbours on all sides: the first and the last are `guard` places from the ends of `parent` at least, and rows
 * and planes are apart. Fewer than VP_MAX_BOX places. */
enum { VP_MAX_BOX = 1 << 30 };
struct vp_forest {
    enum vp_key key;
    int64_t size[3], stride, plane, guard;
    const void *value, *mask;
    int connectivity;
    int32_t *parent;
    void *scratch;      /* vp_morphrecon_forest_bytes() */
    struct vp_shell shell;
};

/* The edges of the box's entry, of which the header says `voxels`. */
uint64_t vp_morphrecon_forest_bytes(enum vp_key key, const int64_t size[3], int connectivity, int threads);
void vp_morphrecon_forest(struct vp_forest *f, struct vp_morphrecon_entry *e, int threads);

/* vp_op.solve */
int vp_morphrecon_solve(struct vp_op *op, struct vp_store *entries, const int64_t box[3], uint64_t memory,
                        int threads, struct vp_err *err);

#endif
