/* SPDX-License-Identifier: BSD-3-Clause */
/* For one type of keys, K, named KEY, with edges EDGE: included by morphrecon_solve.c once for each. */

/* Of a slot: edges are put in slots by their upper digits, the largest first. */
static inline uint32_t NAME(slot)(K cap)
{
    enum { SHIFT = sizeof(K) > 2 ? 8 * sizeof(K) - 16 : 0 };
    return (uint32_t)(SLOTS - 1) - (uint32_t)(cap >> SHIFT);
}

/* A way between two voxels of different boxes, or an edge inside one; a and b are nodes. What one of the two has
 * already is given at once; the rest is counted, and in the second pass put in its slot. */
static inline void NAME(join)(struct solve *s, int64_t a, int64_t b, K cap)
{
    K *const value = s->value;
    const K *const mask = s->mask;
    const bool a_stays = a < s->nodes && value[a] == mask[a], b_stays = b < s->nodes && value[b] == mask[b];
    K *const low = value[a] < value[b] ? &value[a] : &value[b];
    if (cap <= *low || (a_stays && b_stays))
        return;
    if (a_stays || b_stays) { /* that one's value is its mask, so not below the way */
        K *const other = a_stays ? &value[b] : &value[a];
        *other = cap > *other ? cap : *other;
        return;
    }
    struct slot *const slot = &s->slot[NAME(slot)(cap)];
    if (s->edge)
        ((EDGE *)s->edge)[slot->from + slot->n] = (EDGE){(uint32_t)a, (uint32_t)b, cap};
    slot->n++;
}

static int NAME(read)(struct solve *s, int64_t box, void *entry, struct vp_err *err)
{
    const struct vp_morphrecon_entry *e = entry;
    if (vp_store_get(s->store, s->first + box, entry, err))
        return -1;
    memcpy((K *)s->value + s->of[box].base, (char *)entry + vp_entry_value(), e->voxels * sizeof(K));
    memcpy((K *)s->mask + s->of[box].base, (char *)entry + vp_entry_mask(KEY, e->voxels), e->voxels * sizeof(K));
    return 0;
}

static int NAME(join_inside)(struct solve *s, int64_t box, void *entry, struct vp_err *err)
{
    const struct vp_morphrecon_entry *e = entry;
    const EDGE *const edge = (const EDGE *)((const char *)entry + vp_entry_edge(KEY, s->of[box].voxels));
    if (vp_store_get(s->store, s->first + box, entry, err))
        return -1;
    for (uint32_t i = 0; i < e->edges; i++) {
        int64_t node[2] = {edge[i].a, edge[i].b};
        for (int j = 0; j < 2; j++)
            node[j] = node[j] < e->voxels ? s->of[box].base + node[j] : s->of[box].inner + node[j] - e->voxels;
        NAME(join)(s, node[0], node[1], edge[i].cap);
    }
    return 0;
}

static void NAME(join_across)(struct solve *s, int64_t box)
{
    const K *const mask = s->mask;
    struct around around[27];
    look_around(s, box, around);
    const struct vp_shell shell = around[13].shell;
    int64_t node = s->of[box].base;
    for (int64_t from[3] = {-1, 0, 0}; vp_shell_next(&shell, from); node++)
        for (int i = s->neighbours / 2; i < s->neighbours; i++) { /* those behind it: each pair once */
            const int64_t *o = s->offset[i], at[3] = {from[0] + o[0], from[1] + o[1], from[2] + o[2]};
            const bool inside = at[0] >= 0 && at[0] < shell.size[0] && at[1] >= 0 && at[1] < shell.size[1]
                                && at[2] >= 0 && at[2] < shell.size[2];
            const int64_t other = inside ? -1 : node_at(around, at);
            if (other >= 0)
                NAME(join)(s, node, other, mask[node] < mask[other] ? mask[node] : mask[other]);
        }
}

/* The largest first. */
static int NAME(compare)(const void *a, const void *b)
{
    const K x = (K)((const EDGE *)a)->cap, y = (K)((const EDGE *)b)->cap;
    return (x < y) - (x > y);
}

/* Kruskal: sets of nodes are joined by the best edges first, the smaller under the larger, and links stay as they were
 * made. The way from a node to another along links is a best one (of all links on a way up, each was made later), so
 * values go up along the links and down again. */
static void NAME(spread)(struct solve *s)
{
    EDGE *const edge = s->edge;
    K *const value = s->value, *const cap = s->cap;
    uint32_t *const parent = s->parent, *const order = s->order;
    uint64_t links = 0;

    for (int64_t k = 0; k < SLOTS; k++) {
        const struct slot slot = s->slot[k];
        if (sizeof(K) > 2 && slot.n > 1)
            vp_sort(edge + slot.from, slot.n, sizeof(EDGE), NAME(compare));
        for (uint64_t i = slot.from; i < slot.from + slot.n; i++) {
            uint32_t a = edge[i].a, b = edge[i].b;
            while (parent[a] != a)
                a = parent[a];
            while (parent[b] != b)
                b = parent[b];
            if (a == b)
                continue;
            if (s->rank[a] > s->rank[b]) {
                const uint32_t swap = a;
                a = b;
                b = swap;
            }
            s->rank[b] = (uint8_t)(s->rank[b] + (s->rank[a] == s->rank[b]));
            parent[a] = b;
            cap[a] = (K)edge[i].cap;
            order[links++] = a;
        }
    }
    for (uint64_t i = 0; i < links; i++) {
        const uint32_t a = order[i], up = parent[a];
        const K v = value[a] < cap[a] ? value[a] : cap[a];
        value[up] = v > value[up] ? v : value[up];
    }
    for (uint64_t i = links; i > 0; i--) {
        const uint32_t a = order[i - 1], up = parent[a];
        const K v = value[up] < cap[a] ? value[up] : cap[a];
        value[a] = v > value[a] ? v : value[a];
    }
}

static int NAME(join_all)(struct solve *s, void *entry, struct vp_err *err)
{
    for (int64_t i = 0; i < s->boxes; i++) {
        NAME(join_across)(s, i);
        if (NAME(join_inside)(s, i, entry, err))
            return -1;
    }
    return 0;
}

/* One image. */
static int NAME(solve)(struct solve *s, void *entry, struct vp_err *err)
{
    const uint64_t all = (uint64_t)s->all;
    if (!(s->value = take(s, all * sizeof(K), err)) || !(s->mask = take(s, (uint64_t)s->nodes * sizeof(K), err)))
        return -1;
    memset((K *)s->value + s->nodes, 0, (all - (uint64_t)s->nodes) * sizeof(K));
    for (int64_t i = 0; i < s->boxes; i++)
        if (NAME(read)(s, i, entry, err))
            return -1;
    memset(s->slot, 0, SLOTS * sizeof *s->slot);
    if (NAME(join_all)(s, entry, err))
        return -1;
    uint64_t room = 0;
    for (int64_t i = 0; i < SLOTS; i++) {
        s->slot[i].from = room;
        room += s->slot[i].n;
        s->slot[i].n = 0;
    }
    if (room > 0) {
        if (!(s->edge = take(s, room * sizeof(EDGE), err)) || !(s->parent = take(s, all * sizeof *s->parent, err))
            || !(s->order = take(s, all * sizeof *s->order, err)) || !(s->cap = take(s, all * sizeof(K), err))
            || !(s->rank = take(s, all, err)))
            return -1;
        for (uint64_t i = 0; i < all; i++) {
            s->parent[i] = (uint32_t)i;
            s->rank[i] = 0;
        }
        if (NAME(join_all)(s, entry, err)) /* no more than were counted: values have only risen */
            return -1;
        NAME(spread)(s);
    }
    for (int64_t i = 0; i < s->boxes; i++) {
        struct vp_morphrecon_entry *const e = entry;
        *e = (struct vp_morphrecon_entry){.bytes = vp_entry_mask(KEY, s->of[i].voxels), .voxels = s->of[i].voxels};
        memcpy((char *)entry + vp_entry_value(), (K *)s->value + s->of[i].base, s->of[i].voxels * sizeof(K));
        if (vp_store_put(s->store, s->first + i, entry, e->bytes, err))
            return -1;
    }
    return 0;
}

#undef K
#undef KEY
#undef NAME
