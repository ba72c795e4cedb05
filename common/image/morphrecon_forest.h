/* SPDX-License-Identifier: BSD-3-Clause */
/* For one type of keys, K, named KEY: included by morphrecon_forest.c once for each. */

/* All places of the list in the order of their masks, the largest first; the result is in one of the two lists. */
static uint32_t *NAME(sorted)(const K *mask, uint32_t *list, uint32_t *other, int64_t n)
{
    enum { DIGIT = sizeof(K) > 1 ? 1 << 11 : 1 << 8, BITS = sizeof(K) > 1 ? 11 : 8 };
    uint32_t count[DIGIT + 1];
    for (int shift = 0; shift < 8 * (int)sizeof(K); shift += BITS) {
        memset(count, 0, sizeof count);
        for (int64_t i = 0; i < n; i++)
            count[DIGIT - 1 - (mask[list[i]] >> shift & (DIGIT - 1)) + 1]++;
        bool same = false;
        for (int d = 1; d <= DIGIT && !same; d++)
            same = count[d] == (uint32_t)n;
        if (same)
            continue;
        for (int d = 0; d < DIGIT; d++)
            count[d + 1] += count[d];
        for (int64_t i = 0; i < n; i++)
            other[count[DIGIT - 1 - (mask[list[i]] >> shift & (DIGIT - 1))]++] = list[i];
        uint32_t *const swap = list;
        list = other;
        other = swap;
    }
    return list;
}

static void NAME(forest)(const struct vp_forest *f, struct vp_morphrecon_entry *e)
{
    const K *const value = f->value, *const mask = f->mask;
    int32_t *const parent = f->parent;
    EDGE *edge = (EDGE *)((char *)e + vp_entry_edge(KEY, e->voxels));
    int64_t around[VP_MAX_NEIGHBOURS], offset[VP_MAX_NEIGHBOURS][3], n = 0;
    const int neighbours = vp_morphrecon_neighbours(f->connectivity, offset);
    uint32_t edges = 0, node = 0;

    for (int i = 0; i < neighbours; i++)
        around[i] = offset[i][2] * f->plane + offset[i][1] * f->stride + offset[i][0];
    for (int64_t i = -f->guard; i < f->size[2] * f->plane + f->guard; i++)
        parent[i] = WALL;
    for (int64_t z = 0; z < f->size[2]; z++)
        for (int64_t y = 0; y < f->size[1]; y++) {
            const int64_t at = z * f->plane + y * f->stride;
            for (int64_t x = 0; x < f->size[0]; x++)
                parent[at + x] = value[at + x] < mask[at + x] ? UNSEEN : WALL;
        }
    /* what of these regions the shell can see */
    for (int64_t z = 0; z < f->size[2]; z++)
        for (int64_t y = 0; y < f->size[1]; y++) {
            const bool all = vp_shell_at(&f->shell, 2, z) || vp_shell_at(&f->shell, 1, y);
            const int64_t at = z * f->plane + y * f->stride;
            for (int64_t x = 0; x < f->size[0]; x += all || x == f->size[0] - 1 ? 1 : f->size[0] - 1)
                if ((all || vp_shell_at(&f->shell, 0, x)) && parent[at + x] == UNSEEN) {
                    parent[at + x] = SEEN;
                    f->list[n++] = (uint32_t)(at + x);
                }
        }
    for (int64_t i = 0; i < n; i++)
        for (int k = 0; k < neighbours; k++) {
            const int64_t to = f->list[i] + around[k];
            if (parent[to] == UNSEEN) {
                parent[to] = SEEN;
                f->list[n++] = (uint32_t)to;
            }
        }
    const uint32_t *const list = NAME(sorted)(mask, f->list, f->sorted, n);
    /* a root that stands for a node of the shell says which; so for a start do these nodes */
    for (int64_t z = 0; z < f->size[2]; z++)
        for (int64_t y = 0; y < f->size[1]; y++) {
            const bool all = vp_shell_at(&f->shell, 2, z) || vp_shell_at(&f->shell, 1, y);
            const int64_t at = z * f->plane + y * f->stride;
            for (int64_t x = 0; x < f->size[0]; x += all || x == f->size[0] - 1 ? 1 : f->size[0] - 1)
                if (all || vp_shell_at(&f->shell, 0, x)) {
                    if (parent[at + x] == SEEN)
                        parent[at + x] = LATER + (int32_t)node;
                    node++;
                }
        }
    for (int64_t i = 0; i < n; i++) {
        const uint32_t p = list[i];
        int32_t root = (int32_t)p;
        parent[p] = parent[p] == SEEN ? NOBODY : -2 - (parent[p] - LATER);
        for (int k = 0; k < neighbours; k++) {
            if (parent[p + around[k]] < PROCESSED)
                continue;
            const int32_t other = find(parent, (int32_t)(p + around[k]));
            if (other == root)
                continue;
            if (parent[root] == NOBODY) {
                parent[root] = other;
                root = other;
            } else {
                if (parent[other] != NOBODY)
                    edge[edges++] = (EDGE){(uint32_t)(-2 - parent[root]), (uint32_t)(-2 - parent[other]), mask[p]};
                parent[other] = root;
            }
        }
    }
    e->edges = edges;
    e->nodes = e->voxels;
    e->bytes = vp_entry_edge(KEY, e->voxels) + edges * sizeof(EDGE);
}
