/* SPDX-License-Identifier: BSD-3-Clause */
/* What a box looks like from outside. After the reconstruction inside it, a voxel whose value is its mask will not rise,
 * and whatever comes over it is not more than it gives already: such voxels need not be looked at. Of the others sets
 * are joined, the highest mask first (Kruskal); where two become one that have a voxel of the shell each, the mask at
 * that moment is the best way between them.
 *
 * That is done for tiles first, which stay in the cache, as if the rest of the box were outside; then for what these
 * have told, a small part of the voxels. */
#include "image/morphrecon_internal.h"

#include "base/size.h"

#include <omp.h>
#include <string.h>

/* What parent[] holds beside the number of the parent: */
enum {
    NOBODY = -1,             /* a root that no node belongs to; one of node k has -2 - k */
    PROCESSED = -(1 << 30),  /* no less than that: it is in a set */
    WALL = INT32_MIN,        /* what does not change */
    SEEN = INT32_MIN + 1,    /* what may */
    LATER = INT32_MIN + 2    /* + k: the same, and it is node k */
};
enum { ALIGN = 64 };

static inline int32_t find(int32_t *parent, int32_t a)
{
    for (int32_t up; (up = parent[a]) >= 0; a = up)
        if (parent[up] >= 0)
            parent[a] = parent[up];
    return a;
}

/* ---- tiles ---- */

/* How a box is cut, and where things are in the scratch. */
struct plan {
    int64_t size[3], tile[3], n[3], tiles, nodes;
    int64_t stride, plane, guard; /* of a tile on a bench */
    size_t lists, edges, benches, bench, bytes;
};

/* What a thread works on a tile with. */
struct bench {
    int64_t stride, plane, guard;
    void *key;
    int32_t *parent;
    uint32_t *list, *other;
    int64_t around[VP_MAX_NEIGHBOURS];
    int neighbours;
};

static size_t round_up(size_t n)
{
    return (n + ALIGN - 1) / ALIGN * ALIGN;
}

static struct vp_box tile_of(const struct plan *p, int64_t i)
{
    const int64_t at[3] = {i % p->n[0], i / p->n[0] % p->n[1], i / p->n[0] / p->n[1]};
    struct vp_box b;
    for (int a = 0; a < 3; a++) {
        b.lo[a] = at[a] * p->tile[a];
        b.hi[a] = vp_min64(b.lo[a] + p->tile[a], p->size[a]);
    }
    return b;
}

/* Faces of a tile: to other tiles, and those of the box that other boxes touch. */
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
    *p = (struct plan){.tile = {flat ? 64 : 32, flat ? 64 : 32, flat ? 1 : 16}, .tiles = 1};
    int64_t most = 1, inside = 1;
    for (int a = 0; a < 3; a++) {
        p->size[a] = size[a];
        p->tile[a] = vp_min64(p->tile[a], size[a]);
        p->n[a] = (size[a] + p->tile[a] - 1) / p->tile[a];
        p->tiles *= p->n[a];
        most *= p->tile[a];
        inside *= a == 2 && flat ? 1 : vp_max64(0, p->tile[a] - 2);
    }
    p->nodes = p->tiles * (most - inside);
    p->stride = p->tile[0] + 1;
    p->plane = p->stride * (p->tile[1] + 1);
    p->guard = p->stride + 1 + (flat ? 0 : p->plane);
    const size_t places = (size_t)(p->tile[2] * p->plane + 2 * p->guard);
    p->bench = round_up(places * sizeof(uint64_t)) + round_up(places * sizeof(int32_t))
               + 2 * round_up((size_t)(most + 1) * sizeof(uint32_t));
    p->lists = round_up((size_t)(p->tiles + 1) * 16);
    p->edges = p->lists + round_up(4 * (size_t)p->nodes * sizeof(uint32_t));
    p->benches = p->edges + round_up((size_t)p->nodes * edge);
    p->bytes = p->benches + (size_t)threads * p->bench;
}

static void set_up(struct bench *b, const struct plan *p, int64_t (*offset)[3], char *memory)
{
    const size_t places = (size_t)(p->tile[2] * p->plane + 2 * p->guard);
    const size_t most = (size_t)(p->tile[0] * p->tile[1] * p->tile[2]) + 1;
    *b = (struct bench){.stride = p->stride, .plane = p->plane, .guard = p->guard, .key = memory,
                        .parent = (int32_t *)(memory + round_up(places * sizeof(uint64_t)))};
    b->list = (uint32_t *)((char *)b->parent + round_up(places * sizeof(int32_t)));
    b->other = (uint32_t *)((char *)b->list + round_up(most * sizeof(uint32_t)));
    for (int64_t i = 0; i < p->guard; i++)
        b->parent[i] = WALL;
    while (b->neighbours < VP_MAX_NEIGHBOURS && (offset[b->neighbours][0] || offset[b->neighbours][1] || offset[b->neighbours][2])) {
        const int64_t *o = offset[b->neighbours];
        b->around[b->neighbours++] = o[2] * p->plane + o[1] * p->stride + o[0];
    }
}

uint64_t vp_morphrecon_forest_bytes(enum vp_key key, const int64_t size[3], int connectivity, int threads)
{
    struct plan p;
    plan(&p, size, connectivity, (size_t)vp_entry_edge_size(key), threads);
    return p.bytes;
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

void vp_morphrecon_forest(struct vp_forest *f, struct vp_morphrecon_entry *e, int threads)
{
    switch (f->key) {
    case VP_KEY_U8: forest_u8(f, e, threads); break;
    case VP_KEY_U16: forest_u16(f, e, threads); break;
    case VP_KEY_U32: forest_u32(f, e, threads); break;
    case VP_KEY_U64: forest_u64(f, e, threads); break;
    }
}
