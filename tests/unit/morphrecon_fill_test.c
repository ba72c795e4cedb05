/* SPDX-License-Identifier: BSD-3-Clause */
/* Reconstruction in memory against Vincent's hybrid algorithm, for all keys, neighbourhoods, instruction sets and
 * numbers of threads, on images that are hard in different ways; and the two references against the definition. */
#include "base/err.h"
#include "base/isa.h"
#include "global/morphrecon.h"
#include "morphrecon_ref.h"
#include "test.h"

#include <stdlib.h>

static const int CONNECTIVITY[] = {4, 8, 6, 18, 26};

static uint64_t random_state = 1;

static uint32_t random_bits(void)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(random_state >> 32);
}

static int random_below(int n)
{
    return (int)(random_bits() % (unsigned)n);
}

/* ---- images of 32 bit levels, of which keys are made ---- */

enum mask { NOISE, TEXTURE, PLATEAUS, SPIRAL, RISING, FALLING, SERPENTINE, COMB, FLAT, MASKS };
static const char *const MASK_NAME[] = {"noise", "texture", "plateaus", "spiral", "rising spiral", "falling spiral",
                                        "serpentine", "comb", "flat"};
enum marker { LOWERED, SEEDS, EDGE, CORNER, NOTHING, ALL, RANDOM, MARKERS };
static const char *const MARKER_NAME[] = {"lowered", "seeds", "edge", "corner", "nothing", "all", "random"};

static void smooth(uint32_t *image, const int64_t n[3], int axis, int radius)
{
    const int64_t step = axis == 0 ? 1 : axis == 1 ? n[0] : n[0] * n[1], all = n[0] * n[1] * n[2];
    uint32_t *const copy = malloc((size_t)all * sizeof *copy);

    memcpy(copy, image, (size_t)all * sizeof *copy);
    for (int64_t i = 0; i < all; i++) {
        const int64_t at = i / step % n[axis];
        uint64_t sum = 0, count = 0;
        for (int64_t k = at < radius ? -at : -radius; k <= radius && at + k < n[axis]; k++, count++)
            sum += copy[i + k * step];
        image[i] = (uint32_t)(sum / count);
    }
    free(copy);
}

/* A one pixel path from the corner inwards, with one pixel between its turns; `level` begins at the corner. */
static void spiral(uint32_t *plane, int64_t w, int64_t h, uint32_t level, int32_t step)
{
    int64_t x = 0, y = 0, lo[2] = {0, 0}, hi[2] = {w - 1, h - 1};
    int dx = 1, dy = 0;

    for (bool first = true;; first = false) {
        int64_t length = dx ? (dx > 0 ? hi[0] - x : x - lo[0]) : (dy > 0 ? hi[1] - y : y - lo[1]);
        if (length <= 0 && !first)
            return;
        for (; length >= 0; length--, x += dx, y += dy, level += (uint32_t)step)
            plane[y * w + x] = level;
        x -= dx;
        y -= dy;
        if (dx > 0)
            lo[1] = y + 2;
        else if (dy > 0)
            hi[0] = x - 2;
        else if (dx < 0)
            hi[1] = y - 2;
        else
            lo[0] = x + 2;
        const int turned = dx;
        dx = -dy;
        dy = turned;
    }
}

static void make_mask(uint32_t *image, enum mask kind, const int64_t n[3])
{
    const int64_t plane = n[0] * n[1], all = plane * n[2];
    const uint32_t low = random_below(2) ? 0 : 1u << 28;

    for (int64_t i = 0; i < all; i++) {
        const int64_t x = i % n[0], y = i / n[0] % n[1], z = i / plane;
        const bool wall = z & 1 && n[2] > 1; /* between planes of paths, with a door */
        switch (kind) {
        case NOISE: case TEXTURE: case PLATEAUS:
            image[i] = random_bits();
            break;
        case SERPENTINE:
            image[i] = !wall && (y % 2 == 0 || x == (y % 4 == 1 ? n[0] - 1 : 0)) ? 200u << 24 : low;
            break;
        case COMB:
            image[i] = !wall && (y == (z % 4 ? n[1] - 1 : 0) || x % 2 == 0)
                       ? 100u << 24 | (uint32_t)(x % 97 << 24) : low;
            break;
        default:
            image[i] = kind == FLAT ? 7u << 28 : low;
        }
        if (wall && kind >= SPIRAL && kind < FLAT && x == 0 && y == 0)
            image[i] = 0xf0000000;
    }
    if (kind == TEXTURE || kind == PLATEAUS) {
        for (int axis = 0; axis < (n[2] > 1 ? 3 : 2); axis++)
            for (int k = 0; k < 2; k++)
                smooth(image, n, axis, 1 + random_below(4));
        for (int64_t i = 0; i < all; i++) /* spread again */
            image[i] = (uint32_t)(image[i] < 1u << 30 ? 0 : image[i] - (1u << 30) > 0x7fffffff ? UINT32_MAX
                                  : (image[i] - (1u << 30)) * 2);
    }
    for (int64_t i = 0; i < all && kind == PLATEAUS; i++)
        image[i] &= 0xe0000000;
    for (int64_t z = 0; z < n[2] && kind >= SPIRAL && kind <= FALLING; z += 2)
        spiral(image + z * plane, n[0], n[1], kind == RISING ? 1u << 30 : kind == FALLING ? 0xf0000000u : 200u << 24,
               kind == SPIRAL ? 0 : (int32_t)((1u << 31) / (uint32_t)plane) * (kind == RISING ? 1 : -1));
}

static void make_marker(uint32_t *marker, const uint32_t *mask, enum marker kind, const int64_t n[3])
{
    const int64_t all = n[0] * n[1] * n[2];
    const uint32_t by = 1u << (22 + random_below(8));
    const int rare = 1 + random_below(random_below(2) ? 20 : 2000);

    for (int64_t i = 0; i < all; i++) {
        const int64_t at[3] = {i % n[0], i / n[0] % n[1], i / n[0] / n[1]};
        bool edge = false;
        for (int a = 0; a < 3; a++)
            edge |= n[a] > 1 && (at[a] == 0 || at[a] == n[a] - 1);
        const uint32_t g = mask[i];
        marker[i] = kind == LOWERED ? g > by ? g - by : 0 : kind == SEEDS ? random_below(rare) ? 0 : g
                  : kind == EDGE ? edge ? g : 0 : kind == CORNER ? i ? 0 : g : kind == NOTHING ? 0 : kind == ALL ? g
                  : (uint32_t)((uint64_t)g * random_bits() >> 32);
    }
}

static void to_keys(void *keys, const uint32_t *level, int64_t n, int key)
{
    for (int64_t i = 0; i < n; i++)
        if (key == 0)
            ((uint8_t *)keys)[i] = (uint8_t)(level[i] >> 24);
        else if (key == 1)
            ((uint16_t *)keys)[i] = (uint16_t)(level[i] >> 16);
        else if (key == 2)
            ((uint32_t *)keys)[i] = level[i];
        else
            ((uint64_t *)keys)[i] = (uint64_t)level[i] * 0x100000001u;
}

/* ---- ours, in rows with gaps and in planes apart ---- */

static void *ours(int key, const void *marker, const void *mask, const int64_t n[3], int connectivity, int threads,
                  int64_t gap)
{
    const size_t bytes = (size_t)1 << key, row = (size_t)n[0] * bytes, stride = (size_t)(n[0] + gap) * bytes;
    const size_t plane = (size_t)n[1] * row, length = (size_t)(n[1] - 1) * stride + row; /* no byte more */
    void **const j = malloc((size_t)n[2] * sizeof *j);
    const void **const g = malloc((size_t)n[2] * sizeof *g);
    char *const result = malloc(plane * (size_t)n[2]);
    struct vp_err err = VP_ERR_INIT;
    bool outside = false;

    for (int64_t z = 0; z < n[2]; z++) {
        char *const a = malloc(length), *const b = malloc(length);
        memset(a, 0xa5, length);
        memset(b, 0xff, length);
        for (int64_t y = 0; y < n[1]; y++) {
            memcpy(a + (size_t)y * stride, (const char *)marker + (size_t)z * plane + (size_t)y * row, row);
            memcpy(b + (size_t)y * stride, (const char *)mask + (size_t)z * plane + (size_t)y * row, row);
        }
        j[z] = a;
        g[z] = b;
    }
    const uint64_t room = vp_morphrecon_scratch((enum vp_key)key, n, connectivity, threads);
    void *const scratch = aligned_alloc(64, (room + 63) / 64 * 64);
    memset(scratch, 0x5a, room);
    CHECK_INT(vp_morphrecon_fill((enum vp_key)key, j, g, n[0] + gap, n, connectivity, scratch, threads, &err), 0);
    for (int64_t z = 0; z < n[2]; z++) {
        for (int64_t y = 0; y < n[1]; y++) {
            const char *const from = (char *)j[z] + (size_t)y * stride;
            memcpy(result + (size_t)z * plane + (size_t)y * row, from, row);
            for (size_t i = row; i < stride && y + 1 < n[1]; i++)
                outside |= from[i] != (char)0xa5;
        }
        free(j[z]);
        free((void *)(uintptr_t)g[z]);
    }
    CHECK(!outside);
    free(scratch);
    free(j);
    free(g);
    return result;
}

static int64_t first_difference(const void *a, const void *b, int64_t bytes)
{
    for (int64_t i = 0; i < bytes; i++)
        if (((const char *)a)[i] != ((const char *)b)[i])
            return i;
    return -1;
}

static void compare(const int64_t n[3], int key, int connectivity, enum mask mask, enum marker marker, int threads)
{
    const int64_t all = n[0] * n[1] * n[2], bytes = all << key;
    uint32_t *const level = malloc((size_t)all * sizeof *level), *const low = malloc((size_t)all * sizeof *low);
    char *const g = malloc((size_t)bytes), *const j = malloc((size_t)bytes), *const want = malloc((size_t)bytes);

    make_mask(level, mask, n);
    make_marker(low, level, marker, n);
    to_keys(g, level, all, key);
    to_keys(j, low, all, key);
    memcpy(want, j, (size_t)bytes);
    CHECK(ref_hybrid(key, want, g, n, connectivity));
    if (all < 100000) {
        char *const other = malloc((size_t)bytes);
        memcpy(other, j, (size_t)bytes);
        CHECK(ref_priority(key, other, g, n, connectivity));
        CHECK_INT(first_difference(other, want, bytes), -1);
        free(other);
    }
    char *const got = ours(key, j, g, n, connectivity, threads, random_below(3) * random_below(40));
    const int64_t at = first_difference(got, want, bytes) >> key;
    CHECK_INT(at, -1);
    if (at >= 0)
        printf("  %s under %s, %d bytes, %lld x %lld x %lld, %d neighbours, %d threads: at %lld %lld %lld\n",
               MARKER_NAME[marker], MASK_NAME[mask], 1 << key, (long long)n[0], (long long)n[1], (long long)n[2],
               connectivity, threads, (long long)(at % n[0]), (long long)(at / n[0] % n[1]),
               (long long)(at / n[0] / n[1]));
    free(got);
    free(want);
    free(j);
    free(g);
    free(low);
    free(level);
}

static void test_all(const char *isa)
{
    if (!vp_isa_limit(isa))
        return;
    for (int i = 0; i < 420; i++) {
        const int connectivity = CONNECTIVITY[i % 5], key = i / 5 % 4;
        const bool planes = i % 5 > 1, large = i % 7 == 0;
        const int64_t n[3] = {1 + random_below(planes ? large ? 150 : 70 : large ? 500 : 200),
                              1 + random_below(planes ? large ? 60 : 30 : large ? 300 : 120),
                              planes ? 1 + random_below(large ? 40 : 20) : 1};
        compare(n, key, connectivity, (enum mask)random_below(MASKS), (enum marker)random_below(MARKERS),
                1 + random_below(4));
    }
}

/* Large enough for threads of their own, and for paths through many tiles. */
static void test_large(void)
{
    vp_isa_limit("avx512");
    for (int mask = 0; mask < MASKS; mask++) {
        const int64_t flat[3] = {1500 + random_below(100), 900 + random_below(100), 1}, deep[3] = {180, 75, 70};
        const enum marker marker = mask < SPIRAL ? random_below(2) ? LOWERED : EDGE : mask == RISING ? RANDOM : CORNER;
        compare(flat, mask % 2, 4, (enum mask)mask, marker, 4);
        compare(flat, 2 * (mask % 2), 8, (enum mask)mask, marker, 3);
        compare(deep, mask % 4, CONNECTIVITY[2 + mask % 3], (enum mask)mask, marker, 4);
    }
}

/* ---- the references against the definition: raised by the best neighbour until nothing changes ---- */

static void naive(uint8_t *j, const uint8_t *g, const int64_t n[3], int connectivity)
{
    const int reach = connectivity == 26 ? 3 : connectivity == 8 || connectivity == 18 ? 2 : 1;

    for (bool changed = true; changed;) {
        changed = false;
        for (int64_t i = 0; i < n[0] * n[1] * n[2]; i++) {
            const int64_t at[3] = {i % n[0], i / n[0] % n[1], i / n[0] / n[1]};
            for (int k = 0; k < 27; k++) {
                const int64_t d[3] = {k % 3 - 1, k / 3 % 3 - 1, k / 9 - 1};
                bool in = llabs(d[0]) + llabs(d[1]) + llabs(d[2]) <= reach;
                for (int a = 0; a < 3; a++)
                    in &= at[a] + d[a] >= 0 && at[a] + d[a] < n[a];
                if (!in)
                    continue;
                const uint8_t other = j[i + d[0] + n[0] * (d[1] + n[1] * d[2])], v = other < g[i] ? other : g[i];
                if (v > j[i]) {
                    j[i] = v;
                    changed = true;
                }
            }
        }
    }
}

static void test_references(void)
{
    for (int i = 0; i < 60; i++) {
        const int connectivity = CONNECTIVITY[i % 5];
        const int64_t n[3] = {1 + random_below(20), 1 + random_below(20), i % 5 > 1 ? 1 + random_below(10) : 1};
        const int64_t all = n[0] * n[1] * n[2];
        uint32_t level[4000], low[4000];
        uint8_t g[4000], j[4000], a[4000], b[4000];
        make_mask(level, (enum mask)(i % MASKS), n);
        make_marker(low, level, (enum marker)random_below(MARKERS), n);
        to_keys(g, level, all, 0);
        to_keys(j, low, all, 0);
        memcpy(a, j, sizeof a);
        memcpy(b, j, sizeof b);
        naive(j, g, n, connectivity);
        ref_hybrid(0, a, g, n, connectivity);
        ref_priority(0, b, g, n, connectivity);
        CHECK(!memcmp(a, j, (size_t)all));
        CHECK(!memcmp(b, j, (size_t)all));
    }
}

static void test_scratch(void)
{
    for (int key = 0; key < 4; key++)
        for (int k = 0; k < 5; k++) {
            const int64_t n[3] = {k < 2 ? 4096 : 256, k < 2 ? 4096 : 256, k < 2 ? 1 : 256};
            CHECK(vp_morphrecon_scratch((enum vp_key)key, n, CONNECTIVITY[k], 2) <= 4 * 4096 * 4096);
            CHECK(vp_morphrecon_scratch((enum vp_key)key, n, CONNECTIVITY[k], 64) <= 4 * 4096 * 4096);
        }
}

int main(void)
{
    test_references();
    test_all("generic");
    test_all("avx2");
    test_all("avx512");
    test_large();
    test_scratch();
    return test_done();
}
