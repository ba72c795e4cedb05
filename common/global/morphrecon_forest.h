/* SPDX-License-Identifier: BSD-3-Clause */
/* For one type of keys, K, named KEY, with edges EDGE: included by morphrecon_forest.c once for each. */

/* What stands at these places, the largest key first; the result is in one of the two lists. */
static uint32_t *NAME(sorted)(const K *key, size_t step, uint32_t *list, uint32_t *other, int64_t n)
{
    enum { BITS = sizeof(K) > 1 ? 11 : 8, DIGIT = 1 << BITS };
    uint32_t count[DIGIT];
    for (int shift = 0; shift < 8 * (int)sizeof(K); shift += BITS) {
        memset(count, 0, sizeof count);
        for (int64_t i = 0; i < n; i++)
            count[DIGIT - 1 - (key[list[i] * step] >> shift & (DIGIT - 1))]++;
        uint32_t at = 0;
        bool same = false;
        for (int d = 0; d < DIGIT && !same; d++) {
            same = count[d] == (uint32_t)n;
            const uint32_t here = count[d];
            count[d] = at;
            at += here;
        }
        if (same)
            continue;
        for (int64_t i = 0; i < n; i++)
            other[count[DIGIT - 1 - (key[list[i] * step] >> shift & (DIGIT - 1))]++] = list[i];
        uint32_t *const swap = list;
        list = other;
        other = swap;
    }
    return list;
}

/* Two sets become one; where both stand for a node, that is an edge. The root of both. */
static inline int32_t NAME(join)(int32_t *parent, int32_t root, int32_t other, K cap, EDGE *edge, uint32_t *edges)
{
    if (parent[root] == NOBODY) {
        parent[root] = other;
        return other;
    }
    if (parent[other] != NOBODY)
        edge[(*edges)++] = (EDGE){(uint32_t)(-2 - parent[root]), (uint32_t)(-2 - parent[other]), cap};
    parent[other] = root;
    return root;
}

/* p is in its set now, and that with those of its neighbours that are in sets. */
static inline void NAME(add)(int32_t *parent, int32_t p, K cap, const struct ring *r, const int64_t *around, EDGE *edge,
                             uint32_t *edges)
{
    uint32_t there = 0, to;
    for (int k = 0; k < r->n; k++)
        there |= (uint32_t)(parent[p + around[k]] >= PROCESSED) << k;
    parent[p] = parent[p] == SEEN ? NOBODY : -2 - (parent[p] - LATER);
    if (!(there & r->mine))
        return;
    to = apart(r, there);
    int32_t root = p;
    if (parent[p] == NOBODY) { /* the first one's set gets one more */
        const int32_t q = (int32_t)(p + around[__builtin_ctz(to)]);
        parent[p] = parent[q] >= 0 ? parent[q] : q;
        to &= to - 1;
        if (to)
            root = find(parent, p);
    }
    for (; to; to &= to - 1) {
        const int32_t other = find(parent, (int32_t)(p + around[__builtin_ctz(to)]));
        root = other == root ? root : NAME(join)(parent, root, other, cap, edge, edges);
    }
}

/* The forest of a tile: nodes are its voxels at faces to other tiles and of the box's shell, by their places. They
 * go to node[], edges to edge[]. */
static void NAME(tile)(const struct vp_forest *f, const struct vp_box *b, struct bench *bench, uint32_t *node,
                       uint32_t *nodes, EDGE *edge, uint32_t *edges)
{
    const K *const value = f->value, *const mask = f->mask;
    K *const key = (K *)bench->key;
    int32_t *const parent = bench->parent + bench->guard;
    const struct vp_shell shell = shell_of(f, b);
    int64_t n = 0;

    *nodes = *edges = 0;
    for (int64_t z = b->lo[2]; z < b->hi[2]; z++)
        for (int64_t y = b->lo[1]; y < b->hi[1]; y++) {
            const int64_t from = z * f->plane + y * f->stride + b->lo[0];
            const int32_t to = (int32_t)((z - b->lo[2]) * bench->plane + (y - b->lo[1]) * bench->stride);
            const bool all = vp_shell_at(&shell, 2, z - b->lo[2]) || vp_shell_at(&shell, 1, y - b->lo[1]);
            for (int64_t x = 0; x < shell.size[0]; x++) {
                const bool may = value[from + x] < mask[from + x];
                key[to + x] = mask[from + x];
                parent[to + x] = may ? UNSEEN : WALL;
                bench->list[n] = (uint32_t)(to + x);
                n += may;
                if (may && (all || vp_shell_at(&shell, 0, x))) {
                    parent[to + x] = (int32_t)(LATER + from + x);
                    node[(*nodes)++] = (uint32_t)(from + x);
                }
            }
            for (int64_t x = shell.size[0]; x < bench->stride; x++)
                parent[to + x] = WALL;
        }
    if (*nodes == 0)
        return;
    const int64_t rows = (b->hi[2] - b->lo[2] - 1) * bench->plane + (b->hi[1] - b->lo[1]) * bench->stride;
    for (int64_t z = 0; z < b->hi[2] - b->lo[2]; z++) /* between planes, and behind the last */
        for (int64_t i = (b->hi[1] - b->lo[1]) * bench->stride; i < bench->plane; i++)
            parent[z * bench->plane + i] = WALL;
    for (int64_t i = 0; i < bench->guard; i++)
        parent[rows + i] = WALL;
    uint32_t *all = bench->list, *other = bench->other;
    if (2 * n > shell.size[0] * shell.size[1] * shell.size[2]) { /* most of it hangs together: the rest may come, too */
        for (int64_t i = 0; i < n; i++)
            parent[all[i]] = parent[all[i]] == UNSEEN ? SEEN : parent[all[i]];
    } else {
        int64_t seen = 0;
        for (int64_t i = 0; i < n; i++) {
            other[seen] = all[i];
            seen += parent[all[i]] != UNSEEN;
        }
        for (int64_t i = 0; i < seen; i++)
            for (int k = 0; k < bench->ring->n; k++) {
                const int64_t to = other[i] + bench->around[k];
                if (parent[to] == UNSEEN && bench->ring->mine >> k & 1) {
                    parent[to] = SEEN;
                    other[seen++] = (uint32_t)to;
                }
            }
        n = seen;
        all = bench->other;
        other = bench->list;
    }
    const uint32_t *const list = NAME(sorted)(key, 1, all, other, n);
    for (int64_t i = 0; i < n; i++)
        NAME(add)(parent, (int32_t)list[i], key[list[i]], bench->ring, bench->around, edge, edges);
}

/* All tiles have told their nodes and edges: the same again with these alone, and the shell's voxels as nodes. */
static void NAME(whole)(const struct vp_forest *f, struct vp_morphrecon_entry *e, uint32_t *const list[4], int64_t n,
                        const EDGE *inner, int64_t m, const struct ring *ring)
{
    const K *const mask = f->mask;
    int32_t *const parent = f->parent;
    EDGE *edge = (EDGE *)((char *)e + vp_entry_edge(KEY, e->voxels));
    uint32_t edges = 0, number = 0;
    int64_t around[VP_MAX_NEIGHBOURS];

    ring_around(ring, f->stride, f->plane, around);
    for (int64_t i = 0; i < n; i++)
        parent[list[0][i]] = SEEN;
    for (int64_t at[3] = {-1, 0, 0}; vp_shell_next(&f->shell, at); number++) {
        int32_t *const root = &parent[at[2] * f->plane + at[1] * f->stride + at[0]];
        if (*root == SEEN) /* one that stands for a voxel of the shell says for which */
            *root = LATER + (int32_t)number;
    }
    const uint32_t *const node = NAME(sorted)(mask, 1, list[0], list[1], n);
    const size_t low = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? 0 : sizeof inner->cap / sizeof(K) - 1;
    const uint32_t *const best =
        NAME(sorted)((const K *)&inner->cap + low, sizeof(EDGE) / sizeof(K), list[2], list[3], m);
    for (int64_t i = 0, j = 0; i < n || j < m;) {
        if (i < n && (j == m || mask[node[i]] >= (K)inner[best[j]].cap)) {
            NAME(add)(parent, (int32_t)node[i], mask[node[i]], ring, around, edge, &edges);
            i++;
            continue;
        }
        const EDGE *const way = &inner[best[j++]];
        const int32_t a = find(parent, (int32_t)way->a), b = find(parent, (int32_t)way->b);
        if (a != b)
            NAME(join)(parent, a, b, (K)way->cap, edge, &edges);
    }
    e->edges = edges;
    e->nodes = e->voxels;
    e->bytes = vp_entry_edge(KEY, e->voxels) + edges * sizeof(EDGE);
}

static void NAME(forest)(struct vp_forest *f, struct vp_morphrecon_entry *e, int threads)
{
    struct plan p;
    plan(&p, f->size, f->connectivity, sizeof(EDGE), threads);
    struct ring ring;
    int64_t n = 0, m = 0;
    char *const base = f->scratch;
    int64_t *const first = (int64_t *)base;
    uint32_t *const nodes = (uint32_t *)(first + p.tiles + 1), *const edges = nodes + p.tiles;
    uint32_t *const list[4] = {(uint32_t *)(base + p.lists), (uint32_t *)(base + p.lists) + p.nodes,
                               (uint32_t *)(base + p.lists) + 2 * p.nodes, (uint32_t *)(base + p.lists) + 3 * p.nodes};
    EDGE *const inner = (EDGE *)(base + p.edges);

    ring_of(f->connectivity, &ring);
    first[0] = 0;
    for (int64_t i = 0; i < p.tiles; i++) {
        const struct vp_box b = tile_of(&p, i);
        const struct vp_shell s = shell_of(f, &b);
        first[i + 1] = first[i] + vp_shell_voxels(&s);
    }
    #pragma omp parallel num_threads(threads) if (threads > 1)
    {
        struct bench bench;
        set_up(&bench, &p, &ring, base + p.benches + (size_t)omp_get_thread_num() * p.bench);
        #pragma omp for schedule(dynamic, 8)
        for (int64_t i = 0; i < p.tiles; i++) {
            const struct vp_box b = tile_of(&p, i);
            NAME(tile)(f, &b, &bench, list[0] + first[i], &nodes[i], inner + first[i], &edges[i]);
        }
        #pragma omp for schedule(static)
        for (int64_t i = -f->guard; i < f->size[2] * f->plane + f->guard; i++)
            f->parent[i] = WALL;
    }
    for (int64_t i = 0; i < p.tiles; i++) { /* without the gaps */
        memmove(list[0] + n, list[0] + first[i], nodes[i] * sizeof *list[0]);
        n += nodes[i];
        for (uint32_t k = 0; k < edges[i]; k++)
            list[2][m++] = (uint32_t)(first[i] + k);
    }
    NAME(whole)(f, e, list, n, inner, m, &ring);
}

#undef K
#undef KEY
#undef NAME
