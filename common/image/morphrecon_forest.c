/* SPDX-License-Identifier: BSD-3-Clause */
/* What a box looks like from outside. After the reconstruction inside it, a voxel whose value is its mask will not rise,
 * and whatever comes over it is not more than it gives already: such voxels need not be looked at. The others lie in
 * regions, each of one value (else the higher of two neighbours would have raised the lower), and only those that the
 * shell touches can change. In them voxels are joined, the highest mask first (Kruskal); where two sets that have a
 * voxel of the shell each become one, the mask at that moment is the best way between them. */
#include "image/morphrecon_internal.h"

#include "base/size.h"

#include <omp.h>
#include <stdlib.h>
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

/* The voxels around one, of which not all need be its neighbours. */
struct ring {
    int n;
    int64_t offset[VP_MAX_NEIGHBOURS][3];
    uint32_t mine, beside[VP_MAX_NEIGHBOURS]; /* bits: which are neighbours of the middle, and of each other */
    uint8_t flat[256];                        /* apart(), of a ring of 8 */
};

static inline uint32_t find_apart(const struct ring *r, uint32_t there)
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

/* Of those voxels of a ring that are in sets, as many neighbours as have to be joined to the middle: the others are
 * connected to one of these already, around the ring. In a picture that is one for most. */
static inline uint32_t apart(const struct ring *r, uint32_t there)
{
    return r->n == 8 ? r->flat[there] : find_apart(r, there);
}

static void ring_of(int connectivity, struct ring *r)
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

static void ring_around(const struct ring *r, const struct vp_forest *f, int64_t *around)
{
    for (int i = 0; i < r->n; i++)
        around[i] = r->offset[i][2] * f->plane + r->offset[i][1] * f->stride + r->offset[i][0];
}

/* A box may be cut into blocks that caches hold, for threads. Each is a box of its own, in a room of its own; then what
 * is known of them is joined as they are joined to each other, at their faces. */
enum { BLOCK_2D = 512, BLOCK_3D = 64, LEAST_2D = 64, LEAST_3D = 16 };

struct blocks {
    int64_t n[3], size[3];         /* how many, of which size (the last ones may be smaller) */
    int64_t stride, plane, guard;  /* in a room */
    int64_t places, shell, total;  /* of a room, of a shell, of all shells; at most, and even */
    size_t room;                   /* bytes */
};

static void block_of(const struct vp_forest *f, const struct blocks *b, int64_t number, int64_t lo[3],
                     struct vp_shell *s)
{
    const int64_t at[3] = {number % b->n[0], number / b->n[0] % b->n[1], number / b->n[0] / b->n[1]};

    for (int a = 0; a < 3; a++) {
        lo[a] = at[a] * b->size[a];
        s->size[a] = vp_min64(b->size[a], f->size[a] - lo[a]);
        s->lo[a] = lo[a] > 0 || f->shell.lo[a];
        s->hi[a] = lo[a] + s->size[a] < f->size[a] || f->shell.hi[a];
    }
}

/* Whether there are blocks: what they need has to fit where the box's own trees would be, which are at least as large as
 * the box four bytes each. Fewer threads may do. */
static bool cut(const struct vp_forest *f, size_t key, int *threads, struct blocks *b)
{
    const bool flat = f->size[2] == 1;
    const uint64_t there = (uint64_t)(f->size[2] * f->plane) * sizeof(int32_t);

    for (int64_t edge = flat ? BLOCK_2D : BLOCK_3D; edge >= (flat ? LEAST_2D : LEAST_3D); edge = edge * 3 / 4) {
        int64_t blocks = 1, shell = 1, inner = 1;
        for (int a = 0; a < 3; a++) {
            b->n[a] = (f->size[a] + edge - 1) / edge;
            b->size[a] = (f->size[a] + b->n[a] - 1) / b->n[a];
            b->n[a] = (f->size[a] + b->size[a] - 1) / b->size[a];
            blocks *= b->n[a];
            shell *= b->size[a];
            inner *= a == 2 && flat ? 1 : vp_max64(b->size[a] - 2, 0);
        }
        b->stride = b->size[0] + 1;
        b->plane = b->stride * (b->size[1] + 1);
        b->guard = (flat ? 0 : b->plane) + b->stride + 1;
        b->places = (b->size[2] * b->plane + 2 * b->guard + 1) / 2 * 2;
        b->shell = (shell - inner + 1) / 2 * 2;
        b->total = blocks * b->shell;
        b->room = ((size_t)b->places * (2 * key + 12) + (size_t)b->shell * (4 + sizeof(struct vp_morphrecon_edge64))
                   + 63) / 64 * 64;
        if (blocks == 1)
            continue;
        const int64_t most = (int64_t)(there / b->room);
        if (most >= (edge * 3 / 4 < (flat ? LEAST_2D : LEAST_3D) ? 1 : *threads)
            && (uint64_t)b->total * (12 + key) <= there) {
            *threads = (int)vp_min64(*threads, most);
            return true;
        }
    }
    return false;
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

void vp_morphrecon_forest(const struct vp_forest *f, int threads, struct vp_morphrecon_entry *e)
{
    switch (f->key) {
    case VP_KEY_U8: forest_u8(f, threads, e); break;
    case VP_KEY_U16: forest_u16(f, threads, e); break;
    case VP_KEY_U32: forest_u32(f, threads, e); break;
    case VP_KEY_U64: forest_u64(f, threads, e); break;
    }
}
