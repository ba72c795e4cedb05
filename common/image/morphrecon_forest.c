/* SPDX-License-Identifier: BSD-3-Clause */
/* What a box looks like from outside. After the reconstruction inside it, a voxel whose value is its mask will not rise,
 * and whatever comes over it is not more than it gives already: such voxels need not be looked at. The others lie in
 * regions, each of one value (else the higher of two neighbours would have raised the lower), and only those that the
 * shell touches can change. In them voxels are joined, the highest mask first (Kruskal); where two sets that have a
 * voxel of the shell each become one, the mask at that moment is the best way between them. */
#include "image/morphrecon_internal.h"

#include <string.h>

/* What parent[] holds beside the number of the parent: */
enum {
    NOBODY = -1,             /* a root that no voxel of the shell belongs to; one of node k has -2 - k */
    PROCESSED = -(1 << 30),  /* no less than that: it is in a set */
    WALL = INT32_MIN,        /* what does not change */
    UNSEEN = INT32_MIN + 1,  /* what may, but nobody has come to it */
    SEEN = INT32_MIN + 2,
    LATER = INT32_MIN + 3    /* + k: node k of the shell, seen */
};

static inline int32_t find(int32_t *parent, int32_t a)
{
    for (int32_t up; (up = parent[a]) >= 0; a = up)
        if (parent[up] >= 0)
            parent[a] = parent[up];
    return a;
}

#define EDGE struct vp_morphrecon_edge32
#define K uint8_t
#define KEY VP_KEY_U8
#define NAME(name) name##_u8
#include "image/morphrecon_forest.h"
#undef K
#undef KEY
#undef NAME
#define K uint16_t
#define KEY VP_KEY_U16
#define NAME(name) name##_u16
#include "image/morphrecon_forest.h"
#undef K
#undef KEY
#undef NAME
#define K uint32_t
#define KEY VP_KEY_U32
#define NAME(name) name##_u32
#include "image/morphrecon_forest.h"
#undef K
#undef KEY
#undef NAME
#undef EDGE
#define EDGE struct vp_morphrecon_edge64
#define K uint64_t
#define KEY VP_KEY_U64
#define NAME(name) name##_u64
#include "image/morphrecon_forest.h"

int vp_morphrecon_neighbours(int connectivity, int64_t offset[VP_MAX_NEIGHBOURS][3])
{
    const bool flat = connectivity < 6 || connectivity == 8;
    const int far = connectivity == 4 || connectivity == 6 ? 1 : connectivity == 18 || connectivity == 8 ? 2 : 3;
    int n = 0;
    for (int i = 0; i < 13; i++) { /* of 27 places the first 13 */
        const int x = i % 3 - 1, y = i / 3 % 3 - 1, z = i / 9 - 1;
        if ((x != 0) + (y != 0) + (z != 0) > far || (flat && z))
            continue;
        memcpy(offset[n++], (int64_t[3]){x, y, z}, sizeof *offset);
    }
    for (int i = 0; i < n; i++)
        for (int a = 0; a < 3; a++)
            offset[n + i][a] = -offset[i][a];
    return 2 * n;
}

void vp_morphrecon_forest(const struct vp_forest *f, struct vp_morphrecon_entry *e)
{
    switch (f->key) {
    case VP_KEY_U8: forest_u8(f, e); break;
    case VP_KEY_U16: forest_u16(f, e); break;
    case VP_KEY_U32: forest_u32(f, e); break;
    case VP_KEY_U64: forest_u64(f, e); break;
    }
}
