/* SPDX-License-Identifier: BSD-3-Clause */
/* For one type of keys, K, named KEY: included by morphrecon_forest.c once for each. */

/* All places of the list in the order of their keys, the largest first; the result is in one of the two lists. */
static uint32_t *NAME(sorted)(const K *key, uint32_t *list, uint32_t *other, int64_t n)
{
    enum { DIGIT = sizeof(K) > 1 ? 1 << 11 : 1 << 8, BITS = sizeof(K) > 1 ? 11 : 8 };
    uint32_t count[DIGIT + 1];
    for (int shift = 0; shift < 8 * (int)sizeof(K); shift += BITS) {
        memset(count, 0, sizeof count);
        for (int64_t i = 0; i < n; i++)
            count[DIGIT - 1 - (key[list[i]] >> shift & (DIGIT - 1)) + 1]++;
        bool same = false;
        for (int d = 1; d <= DIGIT && !same; d++)
            same = count[d] == (uint32_t)n;
        if (same)
            continue;
        for (int d = 0; d < DIGIT; d++)
            count[d + 1] += count[d];
        for (int64_t i = 0; i < n; i++)
            other[count[DIGIT - 1 - (key[list[i]] >> shift & (DIGIT - 1))]++] = list[i];
        uint32_t *const swap = list;
        list = other;
        other = swap;
    }
    return list;
}

/* Marks what may rise, and lists of it what the shell can see; how much that is. */
static int64_t NAME(seen)(const struct vp_forest *f, const struct ring *r, const int64_t *around)
{
    const K *const value = f->value, *const mask = f->mask;
    int32_t *const parent = f->parent;
    int64_t n = 0, unsaturated = 0;

    for (int64_t i = -f->guard; i < f->size[2] * f->plane + f->guard; i++)
        parent[i] = WALL;
    for (int64_t z = 0; z < f->size[2]; z++)
        for (int64_t y = 0; y < f->size[1]; y++) {
            const int64_t at = z * f->plane + y * f->stride;
            for (int64_t x = 0; x < f->size[0]; x++) {
                parent[at + x] = value[at + x] < mask[at + x] ? UNSEEN : WALL;
                unsaturated += value[at + x] < mask[at + x];
            }
        }
    /* mostly one large region: to go through it takes longer than what it leaves out is worth */
    const bool all_of_it = unsaturated > f->size[0] * f->size[1] * f->size[2] / 2;
    for (int64_t z = 0; z < f->size[2]; z++)
        for (int64_t y = 0; y < f->size[1]; y++) {
            const bool all = all_of_it || vp_shell_at(&f->shell, 2, z) || vp_shell_at(&f->shell, 1, y);
            const int64_t at = z * f->plane + y * f->stride;
            for (int64_t x = 0; x < f->size[0]; x += all || x == f->size[0] - 1 ? 1 : f->size[0] - 1)
                if ((all || vp_shell_at(&f->shell, 0, x)) && parent[at + x] == UNSEEN) {
                    parent[at + x] = SEEN;
                    f->list[n++] = (uint32_t)(at + x);
                }
        }
    for (int64_t i = 0; i < n && !all_of_it; i++)
        for (int k = 0; k < r->n; k++) {
            const int64_t to = f->list[i] + around[k];
            if (parent[to] == UNSEEN && r->mine >> k & 1) {
                parent[to] = SEEN;
                f->list[n++] = (uint32_t)to;
            }
        }
    return n;
}

/* Roots that stand for a node of the shell say which; so for a start do these nodes, where they have been seen. `where`,
 * unless it is NULL, gets their places. */
static void NAME(number)(const struct vp_forest *f, uint32_t *where)
{
    uint32_t node = 0;

    for (int64_t z = 0; z < f->size[2]; z++)
        for (int64_t y = 0; y < f->size[1]; y++) {
            const bool all = vp_shell_at(&f->shell, 2, z) || vp_shell_at(&f->shell, 1, y);
            const int64_t at = z * f->plane + y * f->stride;
            for (int64_t x = 0; x < f->size[0]; x += all || x == f->size[0] - 1 ? 1 : f->size[0] - 1)
                if (all || vp_shell_at(&f->shell, 0, x)) {
                    if (f->parent[at + x] == SEEN)
                        f->parent[at + x] = LATER + (int32_t)node;
                    if (where)
                        where[node] = (uint32_t)(at + x);
                    node++;
                }
        }
}

/* Ways that are known already, between places: a, b, cap of each, and their order. */
struct NAME(ways) {
    const uint32_t *a, *b, *order;
    const K *cap;
    int64_t n;
};

/* Two sets become one. */
static inline void NAME(unite)(int32_t *parent, int32_t a, int32_t b, K cap, EDGE **edge)
{
    a = find(parent, a);
    b = find(parent, b);
    if (a == b)
        return;
    if (parent[a] == NOBODY) {
        parent[a] = b;
        return;
    }
    if (parent[b] != NOBODY)
        *(*edge)++ = (EDGE){(uint32_t)(-2 - parent[a]), (uint32_t)(-2 - parent[b]), cap};
    parent[b] = a;
}

/* Kruskal, over the places of the list and their neighbours, and the ways. The edges; how many there are. */
static uint32_t NAME(join)(const struct vp_forest *f, const struct ring *r, const int64_t *around, const uint32_t *list,
                           int64_t n, const struct NAME(ways) *w, EDGE *edge)
{
    const K *const mask = f->mask;
    const EDGE *const first = edge;
    int32_t *const parent = f->parent;

    for (int64_t i = 0, k = 0; i < n || k < w->n;) {
        if (i == n || (k < w->n && mask[list[i]] < w->cap[w->order[k]])) {
            const uint32_t way = w->order[k++];
            NAME(unite)(parent, (int32_t)w->a[way], (int32_t)w->b[way], w->cap[way], &edge);
            continue;
        }
        const uint32_t p = list[i++];
        uint32_t there = 0, to;
        for (int m = 0; m < r->n; m++)
            there |= (uint32_t)(parent[p + around[m]] >= PROCESSED) << m;
        parent[p] = parent[p] == SEEN ? NOBODY : -2 - (parent[p] - LATER);
        if (!(there & r->mine))
            continue;
        to = apart(r, there);
        if (parent[p] == NOBODY) {
            const int32_t q = (int32_t)(p + around[__builtin_ctz(to)]);
            parent[p] = parent[q] >= 0 ? parent[q] : q;
            to &= to - 1;
        }
        for (; to; to &= to - 1)
            NAME(unite)(parent, (int32_t)p, (int32_t)(p + around[__builtin_ctz(to)]), mask[p], &edge);
    }
    return (uint32_t)(edge - first);
}

/* One block in its room: its ways, between places of the box; how many. */
static int64_t NAME(block)(const struct vp_forest *f, const struct blocks *b, const struct ring *r, int64_t number,
                           char *room, uint32_t *wa, uint32_t *wb, K *cap)
{
    struct vp_forest in = *f;
    int64_t lo[3], around[VP_MAX_NEIGHBOURS];

    block_of(f, b, number, lo, &in.shell);
    for (int a = 0; a < 3; a++)
        in.size[a] = in.shell.size[a];
    in.stride = b->stride;
    in.plane = b->plane;
    in.guard = b->guard;
    K *const value = (K *)room, *const mask = value + b->places;
    in.value = value;
    in.mask = mask;
    in.parent = (int32_t *)(void *)(mask + b->places) + b->guard;
    in.list = (uint32_t *)in.parent - b->guard + b->places;
    in.sorted = in.list + b->places;
    uint32_t *const where = in.sorted + b->places;
    EDGE *const edge = (EDGE *)(void *)(where + b->shell);
    for (int64_t z = 0; z < in.size[2]; z++)
        for (int64_t y = 0; y < in.size[1]; y++) {
            const int64_t from = (lo[2] + z) * f->plane + (lo[1] + y) * f->stride + lo[0];
            const int64_t to = z * in.plane + y * in.stride;
            memcpy(value + to, (const K *)f->value + from, (size_t)in.size[0] * sizeof(K));
            memcpy(mask + to, (const K *)f->mask + from, (size_t)in.size[0] * sizeof(K));
        }
    ring_around(r, &in, around);
    const int64_t n = NAME(seen)(&in, r, around);
    NAME(number)(&in, where);
    const int64_t edges = NAME(join)(&in, r, around, NAME(sorted)(mask, in.list, in.sorted, n), n,
                                     &(struct NAME(ways)){0}, edge);
    for (int64_t i = 0; i < edges; i++) {
        uint32_t *const end[2] = {&wa[i], &wb[i]};
        for (int k = 0; k < 2; k++) {
            const int64_t at = where[k ? edge[i].b : edge[i].a];
            const int64_t z = at / in.plane, y = (at - z * in.plane) / in.stride, x = at - z * in.plane - y * in.stride;
            *end[k] = (uint32_t)((lo[2] + z) * f->plane + (lo[1] + y) * f->stride + lo[0] + x);
        }
        cap[i] = (K)edge[i].cap;
    }
    return edges;
}

/* Lists the places at faces of blocks that may rise; how many there are. All others are walls. */
static int64_t NAME(faces)(const struct vp_forest *f, const struct blocks *b)
{
    const K *const value = f->value, *const mask = f->mask;
    int32_t *const parent = f->parent;
    int64_t n = 0;

    for (int64_t i = -f->guard; i < f->size[2] * f->plane + f->guard; i++)
        parent[i] = WALL;
    for (int64_t i = 0; i < b->n[0] * b->n[1] * b->n[2]; i++) {
        struct vp_shell s;
        int64_t lo[3];
        block_of(f, b, i, lo, &s);
        for (int64_t z = 0; z < s.size[2]; z++)
            for (int64_t y = 0; y < s.size[1]; y++) {
                const bool all = vp_shell_at(&s, 2, z) || vp_shell_at(&s, 1, y);
                const int64_t at = (lo[2] + z) * f->plane + (lo[1] + y) * f->stride + lo[0];
                for (int64_t x = 0; x < s.size[0]; x += all || x == s.size[0] - 1 ? 1 : s.size[0] - 1)
                    if ((all || vp_shell_at(&s, 0, x)) && value[at + x] < mask[at + x]) {
                        parent[at + x] = SEEN;
                        f->list[n++] = (uint32_t)(at + x);
                    }
            }
    }
    return n;
}

static void NAME(forest)(const struct vp_forest *f, int threads, struct vp_morphrecon_entry *e)
{
    EDGE *const edge = (EDGE *)((char *)e + vp_entry_edge(KEY, e->voxels));
    int64_t around[VP_MAX_NEIGHBOURS], n = 0;
    struct NAME(ways) w = {0};
    struct ring r;
    struct blocks b;

    ring_of(f->connectivity, &r);
    ring_around(&r, f, around);
    if (cut(f, sizeof(K), &threads, &b)) {
        /* after the list: the ends of the ways; after the other: their orders and their caps */
        uint32_t *const wa = f->list + b.total, *const wb = wa + b.total;
        uint32_t *order = f->sorted + b.total, *const other = order + b.total;
        K *const cap = (K *)(void *)(other + b.total);
        const int64_t blocks = b.n[0] * b.n[1] * b.n[2];
        #pragma omp parallel for num_threads(threads) schedule(dynamic) if (threads > 1)
        for (int64_t i = 0; i < blocks; i++) {
            const int64_t at = i * b.shell;
            const int64_t ways = NAME(block)(f, &b, &r, i, (char *)(f->parent - f->guard)
                                             + (size_t)omp_get_thread_num() * b.room, wa + at, wb + at, cap + at);
            if (ways < b.shell)
                wa[at + ways] = UINT32_MAX; /* the end */
        }
        for (int64_t i = 0; i < blocks; i++)
            for (int64_t k = i * b.shell; k < (i + 1) * b.shell && wa[k] != UINT32_MAX; k++)
                order[w.n++] = (uint32_t)k;
        w = (struct NAME(ways)){wa, wb, NAME(sorted)(cap, order, other, w.n), cap, w.n};
        /* what is left are places at the faces of blocks, each beside those of another one */
        n = NAME(faces)(f, &b);
    } else {
        n = NAME(seen)(f, &r, around);
    }
    NAME(number)(f, NULL);
    e->edges = NAME(join)(f, &r, around, NAME(sorted)(f->mask, f->list, f->sorted, n), n, &w, edge);
    e->nodes = e->voxels;
    e->bytes = vp_entry_edge(KEY, e->voxels) + e->edges * sizeof(EDGE);
}
