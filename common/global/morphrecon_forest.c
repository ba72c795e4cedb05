/* SPDX-License-Identifier: BSD-3-Clause */
/* Summary of a box: a forest of maximin paths between the voxels of its shell.
 *
 * After the reconstruction of the box alone, a voxel whose value is its mask cannot rise, and a path through it carries
 * no more than the voxel itself: such voxels are walls. The others are joined to sets in descending order of the mask
 * (Kruskal's algorithm by union-find); where two sets with a node each are joined, the current mask is the maximin path
 * between the two nodes, an edge.
 *
 * Tiles that fit the cache go first, with the voxels at their faces as nodes; then the same for the nodes and edges of
 * all tiles, a small part of the voxels. */
#include "global/morphrecon_internal.h"

#include "base/size.h"
#include "engine/chain.h"

#include <omp.h>
#include <stdlib.h>
#include <string.h>

/* Values of parent[] other than the index of the parent: */
enum {
    NO_NODE = -1,            /* root of a set without a node; -2 - k: root of the set of node k */
    PROCESSED = -(1 << 30),  /* values from here on: in a set */
    WALL = INT32_MIN,        /* cannot rise */
    UNSEEN = INT32_MIN + 1,  /* may rise, not known to be connected to a node */
    SEEN = INT32_MIN + 2,    /* may rise, connected to a node */
    LATER = INT32_MIN + 3    /* + k: node k, not yet in a set */
};

static inline int32_t find(int32_t *parent, int32_t a)
{
    for (int32_t up; (up = parent[a]) >= 0; a = up)
        if (parent[up] >= 0)
            parent[a] = parent[up];
    return a;
}

/* ---- neighbourhood of a voxel ---- */

/* Voxels around one, not all of which are its neighbours. */
struct forest_ring {
    int n;
    int64_t offset[VP_MAX_NEIGHBOURS][3];
    uint32_t mine, beside[VP_MAX_NEIGHBOURS]; /* bits: neighbours of the middle; of each voxel of the ring */
    uint8_t flat[256];                        /* table of apart() for a ring of 8 */
};

static inline uint32_t find_apart(const struct forest_ring *r, uint32_t there)
{
    uint32_t left = there & r->mine, to = 0;

    while (left) {
        uint32_t set = left & -left, front = set;
        to |= set;
        for (left &= ~set; left && front; left &= ~set) {
            const uint32_t more = r->beside[__builtin_ctz(front)] & there & ~set;
            front = (front & (front - 1)) | more;
            set |= more;
        }
    }
    return to;
}

/* Returns the neighbours that must be joined to the middle, one for each connected part of the ring voxels `there` that
 * are in sets: the others are connected to one of these around the ring. In images that is mostly one. */
static inline uint32_t apart(const struct forest_ring *r, uint32_t there)
{
    return r->n == 8 ? r->flat[there] : find_apart(r, there);
}

static void ring_of(int connectivity, struct forest_ring *r)
{
    const bool flat = connectivity == 4 || connectivity == 8;
    const int reach = connectivity == 26 ? 3 : connectivity == 8 || connectivity == 18 ? 2 : 1;

    memset(r, 0, sizeof *r);
    r->n = vp_morphrecon_neighbours(flat ? 8 : connectivity == 6 ? 18 : 26, r->offset);
    for (int i = 0; i < r->n; i++) {
        const int64_t *const a = r->offset[i];
        r->mine |= (uint32_t)((a[0] != 0) + (a[1] != 0) + (a[2] != 0) <= reach) << i;
        for (int k = 0; k < r->n; k++) {
            const int64_t *const b = r->offset[k];
            const bool near = i != k && llabs(a[0] - b[0]) <= 1 && llabs(a[1] - b[1]) <= 1 && llabs(a[2] - b[2]) <= 1;
            r->beside[i] |= (uint32_t)(near && (a[0] != b[0]) + (a[1] != b[1]) + (a[2] != b[2]) <= reach) << k;
        }
    }
    for (uint32_t i = 0; i < 256 && flat; i++)
        r->flat[i] = (uint8_t)find_apart(r, i);
}

static void ring_around(const struct forest_ring *r, int64_t stride, int64_t plane, int64_t *around)
{
    for (int i = 0; i < r->n; i++)
        around[i] = r->offset[i][2] * plane + r->offset[i][1] * stride + r->offset[i][0];
}

/* ---- tiles ---- */

/* Division of a box into tiles, and layout of the scratch. */
struct plan {
    int64_t size[3], tile[3], tiles, nodes;
    int64_t stride, plane, guard; /* a tile with its padding */
    size_t lists, edges, works, work, bytes;
};

/* Workspace of a thread, for one tile. */
struct forest_work {
    int64_t stride, plane, guard;
    void *key;
    int32_t *parent;
    uint32_t *list, *other;
    const struct forest_ring *ring;
    int64_t around[VP_MAX_NEIGHBOURS];
};

static struct vp_box tile_of(const struct plan *p, int64_t i)
{
    return vp_box_tile(&(struct vp_box){.hi = {p->size[0], p->size[1], p->size[2]}}, p->tile, i);
}

/* Faces of a tile: shared with other tiles, or with other boxes. */
static struct vp_shell shell_of(const struct vp_forest *f, const struct vp_box *b)
{
    struct vp_shell s = vp_shell_of(b, f->size);
    for (int a = 0; a < 3; a++) {
        s.lo[a] = s.lo[a] || f->shell.lo[a];
        s.hi[a] = s.hi[a] || f->shell.hi[a];
    }
    return s;
}

static void plan(struct plan *p, const int64_t size[3], int connectivity, size_t edge, int threads)
{
    const bool flat = connectivity == 4 || connectivity == 8;
    *p = (struct plan){.tile = {flat ? 256 : 64, flat ? 256 : 64, flat ? 1 : 32}, .tiles = 1};
    int64_t most = 1, inside = 1;
    for (int a = 0; a < 3; a++) {
        p->size[a] = size[a];
        p->tile[a] = vp_min64(p->tile[a], size[a]);
        p->tiles *= vp_div_up(size[a], p->tile[a]);
        most *= p->tile[a];
        inside *= a == 2 && flat ? 1 : vp_max64(0, p->tile[a] - 2);
    }
    p->nodes = p->tiles * (most - inside);
    p->stride = p->tile[0] + 1;
    p->plane = p->stride * (p->tile[1] + 1);
    p->guard = p->stride + 1 + (flat ? 0 : p->plane);
    const size_t places = (size_t)(p->tile[2] * p->plane + 2 * p->guard);
    p->work = vp_round64(places * sizeof(uint64_t)) + vp_round64(places * sizeof(int32_t))
               + 2 * vp_round64((size_t)(most + 1) * sizeof(uint32_t));
    p->lists = vp_round64((size_t)(p->tiles + 1) * 16);
    p->edges = p->lists + vp_round64(4 * (size_t)p->nodes * sizeof(uint32_t));
    p->works = p->edges + vp_round64((size_t)p->nodes * edge);
    p->bytes = p->works + (size_t)threads * p->work;
}

static void workspace_layout(struct forest_work *b, const struct plan *p, const struct forest_ring *ring, char *memory)
{
    const size_t places = (size_t)(p->tile[2] * p->plane + 2 * p->guard);
    const size_t most = (size_t)(p->tile[0] * p->tile[1] * p->tile[2]) + 1;
    *b = (struct forest_work){.stride = p->stride, .plane = p->plane, .guard = p->guard, .key = memory,
                        .ring = ring, .parent = (int32_t *)(memory + vp_round64(places * sizeof(uint64_t)))};
    b->list = (uint32_t *)((char *)b->parent + vp_round64(places * sizeof(int32_t)));
    b->other = (uint32_t *)((char *)b->list + vp_round64(most * sizeof(uint32_t)));
    for (int64_t i = 0; i < p->guard; i++)
        b->parent[i] = WALL;
    ring_around(ring, p->stride, p->plane, b->around);
}

uint64_t vp_morphrecon_forest_bytes(enum vp_key key, const int64_t size[3], int connectivity, int threads)
{
    struct plan p;
    plan(&p, size, connectivity, (size_t)vp_entry_edge_size(key), threads);
    return p.bytes;
}

#define EACH_KEY "global/morphrecon_forest.inc"
#include "global/morphrecon_keys.inc"

int vp_morphrecon_neighbours(int connectivity, int64_t offset[VP_MAX_NEIGHBOURS][3])
{
    const bool flat = connectivity < 6 || connectivity == 8;
    const int far = connectivity == 4 || connectivity == 6 ? 1 : connectivity == 18 || connectivity == 8 ? 2 : 3;
    int n = 0;
    for (int i = 0; i < 13; i++) { /* the first 13 of 27 positions */
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

void vp_morphrecon_forest(struct vp_forest *f, struct vp_morphrecon_entry *e, int threads)
{
    void (*const forest[])(struct vp_forest *, struct vp_morphrecon_entry *, int) = {
        [VP_KEY_U8] = forest_u8, [VP_KEY_U16] = forest_u16, [VP_KEY_U32] = forest_u32, [VP_KEY_U64] = forest_u64};
    forest[f->key](f, e, threads);
}
