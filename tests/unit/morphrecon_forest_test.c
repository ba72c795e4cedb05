/* SPDX-License-Identifier: BSD-3-Clause */
/* What a box says of itself: whatever its shell is raised to from outside, the edges say what that does to the rest of
 * the shell, as a reconstruction of the whole box does. For all keys and neighbourhoods, in boxes of one tile and of
 * many. */
#include "global/morphrecon_internal.h"
#include "morphrecon_ref.h"
#include "test.h"

static const int CONNECTIVITY[] = {4, 8, 6, 18, 26};

static uint64_t random_state = 7;

static uint32_t random_bits(void)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(random_state >> 32);
}

static int random_below(int n)
{
    return (int)(random_bits() % (unsigned)n);
}

static uint64_t get(const void *keys, int key, int64_t i)
{
    return key == 0 ? ((const uint8_t *)keys)[i] : key == 1 ? ((const uint16_t *)keys)[i]
         : key == 2 ? ((const uint32_t *)keys)[i] : ((const uint64_t *)keys)[i];
}

static void set(void *keys, int key, int64_t i, uint64_t v)
{
    if (key == 0)
        ((uint8_t *)keys)[i] = (uint8_t)v;
    else if (key == 1)
        ((uint16_t *)keys)[i] = (uint16_t)v;
    else if (key == 2)
        ((uint32_t *)keys)[i] = (uint32_t)v;
    else
        ((uint64_t *)keys)[i] = v;
}

/* Noise, or a landscape of few levels, or a path to and fro with walls. */
static void make(void *mask, void *marker, int key, const int64_t n[3])
{
    const int kind = random_below(4), rare = 1 + random_below(400), few = 1 + random_below(12);

    for (int64_t i = 0; i < n[0] * n[1] * n[2]; i++) {
        const int64_t x = i % n[0], y = i / n[0] % n[1], z = i / n[0] / n[1];
        const double wave = 4 + sin((double)x * .21) + sin((double)y * .13 + (double)z * .3)
                            + cos((double)(x + y) * .05);
        uint64_t g = kind == 0 ? random_bits() >> 24 : kind == 1 ? (uint64_t)(wave * 32) : kind == 2
                   ? (uint64_t)random_below(few) : y % 2 == 0 || x == (y % 4 == 1 ? n[0] - 1 : 0) ? 200 : 3;
        g = key == 0 ? g : g << (key == 1 ? 7 : key == 2 ? 23 : 50) | (kind < 2 ? random_bits() & 0x7f : 0);
        set(mask, key, i, g);
        set(marker, key, i, random_below(rare) ? 0 : g - g / 8);
    }
}

static void test(int number)
{
    const int connectivity = CONNECTIVITY[number % 5], key = number / 5 % 4, threads = 1 + random_below(4);
    const bool flat = connectivity == 4 || connectivity == 8, large = number % 3 == 0;
    const int64_t n[3] = {2 + random_below(flat ? large ? 700 : 90 : large ? 70 : 20),
                          1 + random_below(flat ? large ? 200 : 90 : large ? 40 : 20),
                          flat ? 1 : 1 + random_below(large ? 40 : 20)};
    const int64_t all = n[0] * n[1] * n[2], stride = n[0] + 1, plane = stride * (n[1] + 1);
    const int64_t guard = stride + 1 + (flat ? 0 : plane), places = n[2] * plane + 2 * guard;
    struct vp_forest f = {.key = (enum vp_key)key, .size = {n[0], n[1], n[2]}, .stride = stride, .plane = plane,
                          .guard = guard, .connectivity = connectivity};
    char *const mask = malloc((size_t)all << key), *const value = malloc((size_t)all << key);
    char *const g = calloc((size_t)places, (size_t)1 << key), *const j = calloc((size_t)places, (size_t)1 << key);
    int32_t *const parent = malloc((size_t)places * sizeof *parent);

    for (int a = 0; a < 3; a++) {
        f.shell.size[a] = n[a];
        f.shell.lo[a] = random_below(3) > 0 && n[a] > 1;
        f.shell.hi[a] = random_below(3) > 0 && n[a] > 1;
    }
    make(mask, value, key, n);
    CHECK(ref_hybrid(key, value, mask, n, connectivity));
    for (int64_t i = 0; i < all; i++) {
        const int64_t at = guard + i / n[0] / n[1] * plane + i / n[0] % n[1] * stride + i % n[0];
        set(g, key, at, get(mask, key, i));
        set(j, key, at, get(value, key, i));
    }
    f.mask = g + ((size_t)guard << key);
    f.value = j + ((size_t)guard << key);
    f.parent = parent + guard;
    f.scratch = aligned_alloc(64, (vp_morphrecon_forest_bytes(f.key, n, connectivity, threads) + 63) / 64 * 64);
    const uint64_t voxels = (uint64_t)vp_shell_voxels(&f.shell);
    struct vp_morphrecon_entry *const e = calloc(1, vp_entry_bytes(f.key, voxels));
    e->voxels = (uint32_t)voxels;
    vp_morphrecon_forest(&f, e, threads);
    CHECK(e->edges <= voxels);
    CHECK_INT(e->nodes, voxels);
    CHECK_INT(e->bytes, vp_entry_edge(f.key, voxels) + e->edges * vp_entry_edge_size(f.key));

    /* some of the shell rises */
    uint64_t *const node = calloc(voxels + 1, sizeof *node);
    const int rare = 1 + random_below(60);
    for (int64_t i = 0; i < all; i++) {
        const int64_t k = vp_shell_index(&f.shell, i % n[0], i / n[0] % n[1], i / n[0] / n[1]);
        if (k < 0)
            continue;
        const uint64_t v = get(value, key, i), top = get(mask, key, i);
        node[k] = random_below(rare) ? v : v + (top - v) / (1 + (unsigned)random_below(3));
        set(value, key, i, node[k]);
    }
    CHECK(ref_hybrid(key, value, mask, n, connectivity));
    const void *const edges = (const char *)e + vp_entry_edge(f.key, voxels);
    for (bool changed = true; changed;) {
        changed = false;
        for (uint32_t i = 0; i < e->edges; i++) {
            const struct vp_morphrecon_edge32 *const narrow = (const struct vp_morphrecon_edge32 *)edges + i;
            const struct vp_morphrecon_edge64 *const wide = (const struct vp_morphrecon_edge64 *)edges + i;
            const uint32_t a = key == 3 ? wide->a : narrow->a, b = key == 3 ? wide->b : narrow->b;
            const uint64_t cap = key == 3 ? wide->cap : narrow->cap;
            for (int way = 0; way < 2; way++) {
                const uint64_t from = node[way ? b : a], v = from < cap ? from : cap;
                uint64_t *const to = &node[way ? a : b];
                if (*to < v) {
                    *to = v;
                    changed = true;
                }
            }
        }
    }
    int wrong = 0;
    for (int64_t i = 0; i < all; i++) {
        const int64_t k = vp_shell_index(&f.shell, i % n[0], i / n[0] % n[1], i / n[0] / n[1]);
        wrong += k >= 0 && node[k] != get(value, key, i);
    }
    CHECK_INT(wrong, 0);
    if (wrong)
        printf("  number %d: %lld x %lld x %lld, %d bytes, %d neighbours, %d threads\n", number, (long long)n[0],
               (long long)n[1], (long long)n[2], 1 << key, connectivity, threads);
    free(node);
    free(e);
    free(f.scratch);
    free(parent);
    free(j);
    free(g);
    free(value);
    free(mask);
}

int main(void)
{
    for (int i = 0; i < 400; i++)
        test(i);
    return test_done();
}
