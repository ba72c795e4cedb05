/* SPDX-License-Identifier: BSD-3-Clause */
/* Solve between the passes: the shells of all boxes of an image as one graph. Its edges are those of the entries, and
 * edges between neighbouring voxels of different boxes, with the minimum of their masks. Only edges between two nodes
 * that may rise are kept: a voxel whose value is its mask carries no more than itself.
 *
 * The graph is in memory up to the limit, else in mapped unnamed files, which the system caches. */
#include "global/morphrecon_internal.h"

#include "base/err.h"
#include "base/places.h"
#include "base/size.h"
#include "base/sort.h"
#include "engine/chain.h"
#include "engine/store.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { SLOTS = 1 << 16, MAX_ROOMS = 8 };

/* Nodes of a box: the first of its shell, the first auxiliary one; voxels of the shell. */
struct known { int64_t base, inner; uint32_t voxels; };
struct slot { uint64_t from, n; };
struct room { void *at; uint64_t bytes; bool mapped; };

struct solve {
    struct vp_store *store;
    int64_t image[3], part[3], n[3]; /* boxes along each axis */
    int64_t first, boxes;            /* entries of this image in the store */
    int64_t nodes, all;              /* nodes of shells; with auxiliary nodes */
    struct known *of;                /* each box */
    int64_t offset[VP_MAX_NEIGHBOURS][3];
    int neighbours;
    void *value, *mask, *edge, *cap; /* keys: value of a node; cap of the link to its parent */
    uint32_t *parent, *order;
    uint8_t *rank;
    struct slot *slot;
    struct room room[MAX_ROOMS];
    int rooms;
    uint64_t memory;                 /* left */
};

/* Allocates memory, or maps an unnamed file. */
static void *take(struct solve *s, uint64_t bytes, struct vp_err *err)
{
    struct room *const room = &s->room[s->rooms];
    const bool mapped = bytes > s->memory;
    bytes = bytes ? bytes : 1;
    *room = (struct room){.bytes = bytes, .mapped = mapped};
    if (!mapped) {
        if (!(room->at = vp_alloc_raw(1, (size_t)bytes, "the shells of all boxes", err)))
            return NULL;
        s->memory -= bytes < s->memory ? bytes : s->memory;
    } else {
        const int fd = vp_store_file(s->store, bytes, s->memory, err);
        if (fd < 0)
            return NULL;
        room->at = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (room->at == MAP_FAILED)
            vp_fail_errno(err, "%s: %s of summaries of the boxes", vp_tmpdir(), vp_bytes_text(bytes).text);
        close(fd);
        if (room->at == MAP_FAILED)
            return NULL;
    }
    s->rooms++;
    return room->at;
}

static void give_back(struct solve *s)
{
    for (int i = 0; i < s->rooms; i++) {
        if (s->room[i].mapped) {
            munmap(s->room[i].at, (size_t)s->room[i].bytes);
            continue;
        }
        free(s->room[i].at);
        s->memory += s->room[i].bytes;
    }
    s->rooms = 0;
    s->edge = NULL;
}

static struct vp_box box_of(const struct solve *s, int64_t box)
{
    return vp_box_tile(&(struct vp_box){.hi = {s->image[0], s->image[1], s->image[2]}}, s->part, box);
}

/* Neighbourhood of a box: boxes before, at and after it along each axis. */
struct around {
    struct vp_shell shell;
    int64_t base;            /* -1: there is none */
    int64_t shift[3];        /* from the middle box's corner to its own */
};

static void look_around(const struct solve *s, int64_t box, struct around a[27])
{
    const int64_t at[3] = {box % s->n[0], box / s->n[0] % s->n[1], box / s->n[0] / s->n[1]};
    for (int i = 0; i < 27; i++) {
        const int64_t b[3] = {at[0] + i % 3 - 1, at[1] + i / 3 % 3 - 1, at[2] + i / 9 - 1};
        a[i].base = -1;
        if (b[0] < 0 || b[1] < 0 || b[2] < 0 || b[0] >= s->n[0] || b[1] >= s->n[1] || b[2] >= s->n[2])
            continue;
        const int64_t index = (b[2] * s->n[1] + b[1]) * s->n[0] + b[0];
        const struct vp_box there = box_of(s, index), here = box_of(s, box);
        a[i].shell = vp_shell_of(&there, s->image);
        a[i].base = s->of[index].base;
        for (int k = 0; k < 3; k++)
            a[i].shift[k] = there.lo[k] - here.lo[k];
    }
}

/* Returns the node of a voxel outside the middle box, next to it, at a position relative to its corner; -1 outside the
 * image. */
static inline int64_t node_at(const struct around around[27], const int64_t at[3])
{
    const int64_t *size = around[13].shell.size;
    int i = 13, step = 1;
    for (int k = 0; k < 3; k++, step *= 3)
        i += at[k] < 0 ? -step : at[k] >= size[k] ? step : 0;
    const struct around *a = &around[i];
    return a->base < 0 ? -1
                       : a->base + vp_shell_index(&a->shell, at[0] - a->shift[0], at[1] - a->shift[1],
                                                  at[2] - a->shift[2]);
}

#define EACH_KEY "global/morphrecon_solve.inc"
#include "global/morphrecon_keys.inc"

/* Reads the headers of an image's entries. */
static int count(struct solve *s, struct vp_morphrecon_counts *counts, void *entry, struct vp_err *err)
{
    struct vp_morphrecon_entry *const e = entry;
    int64_t made = 0;
    s->nodes = 0;
    for (int64_t i = 0; i < s->boxes; i++) {
        if (vp_store_get(s->store, s->first + i, e, err))
            return -1;
        s->of[i] = (struct known){s->nodes, made, e->voxels};
        s->nodes += e->voxels;
        made += e->nodes - e->voxels;
        if (counts) {
            counts->clipped += e->clipped;
            counts->nan += e->nan;
        }
    }
    for (int64_t i = 0; i < s->boxes; i++)
        s->of[i].inner += s->nodes;
    s->all = s->nodes + made;
    return s->all < UINT32_MAX ? 0 : vp_fail(err, VP_ERESOURCE, "the boxes touch in %lld voxels: expected at most %lld",
                                             (long long)s->all, (long long)UINT32_MAX - 1);
}

int vp_morphrecon_solve(struct vp_op *op, struct vp_store *entries, const int64_t part[3], uint64_t memory,
                        int threads, struct vp_err *err)
{
    const struct vp_morphrecon_params *p = op->params;
    struct solve s = {.store = entries, .boxes = 1, .memory = memory};
    uint64_t most = sizeof(struct vp_morphrecon_entry);
    int rc = -1;

    (void)threads;
    s.neighbours = vp_morphrecon_neighbours(p->connectivity, s.offset);
    for (int a = 0; a < 3; a++) {
        const int of = a && vp_morphrecon_flat(op) ? 3 - a : a;
        s.image[a] = op->image[of];
        s.part[a] = part[of];
        s.n[a] = vp_div_up(s.image[a], s.part[a]);
        s.boxes *= s.n[a];
    }
    for (int64_t i = 0; i < vp_store_count(entries); i++)
        most = vp_store_bytes(entries, i) > most ? vp_store_bytes(entries, i) : most;
    void *const entry = vp_alloc_raw(1, (size_t)most, "the histogram of a box", err);
    s.of = malloc((size_t)s.boxes * sizeof *s.of);
    s.slot = malloc(SLOTS * sizeof *s.slot);
    if (!entry || !s.of || !s.slot) {
        vp_fail(err, VP_ERESOURCE, "out of memory");
        goto out;
    }
    rc = 0;
    for (; s.first < vp_store_count(entries) && !rc; s.first += s.boxes) {
        rc = count(&s, p->counts, entry, err);
        if (!rc)
            rc = p->key == VP_KEY_U8    ? solve_u8(&s, entry, err)
                 : p->key == VP_KEY_U16 ? solve_u16(&s, entry, err)
                 : p->key == VP_KEY_U32 ? solve_u32(&s, entry, err)
                                        : solve_u64(&s, entry, err);
        give_back(&s);
    }
out:
    free(s.slot);
    free(s.of);
    free(entry);
    return rc;
}
