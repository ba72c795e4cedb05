/* SPDX-License-Identifier: BSD-3-Clause */
/* Private to the files of morphological reconstruction. */
#pragma once

#include "global/morphrecon.h"

struct vp_store;

enum { VP_MAX_NEIGHBOURS = 26 };

/* Fills offset[] with the neighbours of a voxel: those before it (x fastest), then their opposites. Returns their
 * number. */
int vp_morphrecon_neighbours(int connectivity, int64_t offset[VP_MAX_NEIGHBOURS][3]);

/* Advances at[] from a voxel of the shell, or {-1, 0, 0}, to the next one. False: there is none. */
static inline bool vp_shell_next(const struct vp_shell *s, int64_t at[3])
{
    do {
        const bool all = vp_shell_at(s, 2, at[2]) || vp_shell_at(s, 1, at[1]);
        at[0] += all || at[0] < 0 || at[0] == s->size[0] - 1 ? 1 : s->size[0] - 1;
        for (int a = 0; a < 2 && at[a] == s->size[a]; a++) {
            at[a] = 0;
            at[a + 1]++;
        }
    } while (at[2] < s->size[2] && !vp_shell_at(s, 0, at[0]) && !vp_shell_at(s, 1, at[1]) && !vp_shell_at(s, 2, at[2]));
    return at[2] < s->size[2];
}

/* Box of keys for the forest: voxel (x, y, z) is element z * plane + y * stride + x of value, mask and parent. There is
 * padding between rows and planes, and of `guard` elements at both ends, so that every voxel has all neighbours. Fewer
 * than VP_MAX_BOX elements. */
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

/* Returns the bytes of vp_forest.scratch. */
uint64_t vp_morphrecon_forest_bytes(enum vp_key key, const int64_t size[3], int connectivity, int threads);
/* Makes the edges of the box's entry, whose header has `voxels`. */
void vp_morphrecon_forest(struct vp_forest *f, struct vp_morphrecon_entry *e, int threads);

/* Solves all shells of the images: see vp_op.solve. */
int vp_morphrecon_solve(struct vp_op *op, struct vp_store *entries, const int64_t box[3], uint64_t memory,
                        int threads, struct vp_err *err);
