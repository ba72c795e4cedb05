/* SPDX-License-Identifier: BSD-3-Clause */
/* Morphological reconstruction in memory: tiles that may change are visited until none is left.
 *
 * Each thread sweeps back and forth over its own part of the tiles, so a value that travels with the sweep gets far in
 * one pass. A visit marks the tiles that it may have made unstable, of any thread; idle threads help where many tiles
 * are marked. The fixed point is unique, so the result depends neither on the order nor on the threads. */
#include "global/morphrecon_fill_isa.h"

#include "base/err.h"
#include "base/isa.h"
#include "base/size.h"

#include <omp.h>
#include <sched.h>
#include <string.h>
#include <time.h>

enum { MUCH = 8 }; /* minimum marked tiles a thread, for others to help */

struct work {
    struct vp_recon r;
    const struct vp_recon_kind *kind;
    int64_t tiles, words;   /* all; 8 states are a word */
    int64_t pending;        /* tiles marked or being visited */
    char *rooms;            /* one for each thread */
};

typedef uint64_t word __attribute__((may_alias));

/* Fills *f except its images, with states, faces and workspaces in `scratch` (NULL: none). Returns the bytes. */
static uint64_t workspace_layout(struct work *w, enum vp_key key, const int64_t size[3], int connectivity, int *threads,
                        void *scratch)
{
    const struct vp_recon_isa *const found = VP_ISA_FIND(vp_recon, NULL);
    const bool planes = connectivity != 4 && connectivity != 8;
    size_t used = 0;

    *w = (struct work){.kind = &found->kind[planes][key], .tiles = 1};
    const int *const tile = w->kind->tile;
    for (int a = 0; a < 3; a++) {
        w->r.size[a] = size[a];
        w->r.tiles[a] = vp_div_up(size[a], tile[a]);
        w->tiles *= w->r.tiles[a];
    }
    w->words = (w->tiles + 7) / 8;
    w->r.reach = connectivity == 26 ? 3 : connectivity == 8 || connectivity == 18 ? 2 : 1;
    const int samples[VP_RECON_KEPT] = {tile[1] * tile[2], tile[1] * tile[2], tile[0] * tile[2], tile[0] * tile[2],
                                        planes ? tile[0] * tile[1] : 0, planes ? tile[0] * tile[1] : 0,
                                        tile[1] * tile[2], tile[1] * tile[2]};
    for (int f = 0; f < VP_RECON_KEPT; f++)
        w->r.face[f + 1] = w->r.face[f] + (uint32_t)vp_round64((size_t)samples[f] << key);
    /* limited by one byte of workspace a sample */
    const int64_t most = w->tiles * tile[0] * tile[1] * tile[2] / (int64_t)w->kind->room;
    *threads = (int)vp_max64(vp_min64(*threads, most), 1);
    w->r.state = vp_place(scratch, &used, (size_t)w->words * 8);
    w->r.faces = vp_place(scratch, &used, (size_t)w->tiles * w->r.face[VP_RECON_KEPT]);
    w->rooms = vp_place(scratch, &used, (size_t)*threads * vp_round64(w->kind->room));
    return used;
}

static void place(const struct work *w, int64_t number, int64_t t[3])
{
    t[0] = number % w->r.tiles[0];
    t[1] = number / w->r.tiles[0] % w->r.tiles[1];
    t[2] = number / w->r.tiles[0] / w->r.tiles[1];
}

/* Marks the neighbours named by a visit, each with its face towards the tile: in y, else z, else x. */
static void wake(struct work *w, int64_t number, const int64_t t[3], uint32_t to)
{
    for (; to; to &= to - 1) {
        const int k = __builtin_ctz(to), dx = k % 3 - 1, dy = k / 3 % 3 - 1, dz = k / 9 - 1;
        if (t[0] + dx < 0 || t[1] + dy < 0 || t[2] + dz < 0 || t[0] + dx >= w->r.tiles[0]
            || t[1] + dy >= w->r.tiles[1] || t[2] + dz >= w->r.tiles[2])
            continue;
        uint8_t *const state = w->r.state + number + (dz * w->r.tiles[1] + dy) * w->r.tiles[0] + dx;
        const uint8_t face = (uint8_t)(1u << (dy ? 2 + (dy < 0) : dz ? 4 + (dz < 0) : dx < 0));
        __atomic_add_fetch(&w->pending, 1, __ATOMIC_RELAXED);
        if (__atomic_fetch_or(state, face, __ATOMIC_ACQ_REL) & VP_RECON_WOKEN)
            __atomic_sub_fetch(&w->pending, 1, __ATOMIC_RELAXED);
    }
}

/* Visits the tile if it is marked and no other thread visits it. */
static bool visit(struct work *w, void *room, int64_t number)
{
    uint8_t *const state = w->r.state + number, old = __atomic_load_n(state, __ATOMIC_RELAXED);

    if (!(old & VP_RECON_WOKEN) || old & VP_RECON_BUSY
        || !__atomic_compare_exchange_n(state, &old, (uint8_t)((old & VP_RECON_FRESH) | VP_RECON_BUSY), false,
                                        __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
        return false;
    int64_t t[3];
    place(w, number, t);
    const uint32_t to = w->kind->visit(&w->r, room, t, old);
    const unsigned off = VP_RECON_BUSY | (to & VP_RECON_STILL_FRESH ? 0 : VP_RECON_FRESH);
    __atomic_fetch_and(state, (uint8_t)~off, __ATOMIC_ACQ_REL);
    wake(w, number, t, to & ~(uint32_t)VP_RECON_STILL_FRESH);
    __atomic_sub_fetch(&w->pending, 1, __ATOMIC_ACQ_REL);
    return true;
}

/* Visits marked tiles of the words lo ... hi - 1 of states, forward or back. Returns the number of visits, `most` at
 * most. */
static int64_t go(struct work *w, void *room, int64_t lo, int64_t hi, bool back, int64_t most)
{
    const uint64_t marked = VP_RECON_WOKEN * 0x0101010101010101u;
    int64_t visited = 0;

    for (int64_t i = 0; i < hi - lo && visited < most; i++) {
        const int64_t at = back ? hi - 1 - i : lo + i;
        if (!(__atomic_load_n((const word *)w->r.state + at, __ATOMIC_RELAXED) & marked))
            continue;
        for (int k = 0; k < 8; k++)
            visited += visit(w, room, 8 * at + (back ? 7 - k : k));
    }
    return visited;
}

static void take_part(struct work *w, char *room, int me, int threads)
{
    bool back = 2 * me >= threads; /* from both ends inwards */
    int idle = 0;

    while (__atomic_load_n(&w->pending, __ATOMIC_ACQUIRE) > 0) {
        int64_t visited = go(w, room, w->words * me / threads, w->words * (me + 1) / threads, back, INT64_MAX);
        back = !back;
        for (int k = 1; k < threads && !visited; k++) {
            const int other = (me + k) % threads;
            if (__atomic_load_n(&w->pending, __ATOMIC_RELAXED) < (int64_t)MUCH * threads)
                break;
            visited = go(w, room, w->words * other / threads, w->words * (other + 1) / threads, true, MUCH);
        }
        if (visited)
            idle = 0;
        else if (++idle > 64)
            nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
        else if (idle > 8)
            sched_yield();
    }
}

uint64_t vp_morphrecon_scratch(enum vp_key key, const int64_t size[3], int connectivity, int threads)
{
    struct work w;

    return workspace_layout(&w, key, size, connectivity, &threads, NULL);
}

int vp_morphrecon_fill(enum vp_key key, void *const *marker, const void *const *mask, int64_t stride,
                       const int64_t size[3], int connectivity, void *scratch, int threads, struct vp_err *err)
{
    struct work w;

    if (connectivity != 4 && connectivity != 8 && connectivity != 6 && connectivity != 18 && connectivity != 26)
        return vp_fail(err, VP_EUSAGE, "reconstruction with %d neighbours", connectivity);
    workspace_layout(&w, key, size, connectivity, &threads, scratch);
    w.r.marker = marker;
    w.r.mask = mask;
    w.r.stride = stride;
    w.pending = w.tiles;
    memset(w.r.state, 0, (size_t)w.words * 8);
    memset(w.r.state, VP_RECON_WOKEN | VP_RECON_FRESH, (size_t)w.tiles);
    memset(w.r.faces, 0, (size_t)w.tiles * w.r.face[VP_RECON_KEPT]);
    #pragma omp parallel num_threads(threads) if (threads > 1)
    {
        const int me = omp_get_thread_num();
        char *const room = w.rooms + (size_t)me * vp_round64(w.kind->room);
        memset(room, 0, w.kind->room);
        take_part(&w, room, me, omp_get_num_threads());
    }
    return 0;
}
