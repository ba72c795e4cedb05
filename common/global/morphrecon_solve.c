/* SPDX-License-Identifier: BSD-3-Clause */
/* Raises the shells of all boxes of an image to their values in the whole image: the solve between the two passes of
 * morphological reconstruction (global/morphrecon.h).
 *
 * The shells form a graph. Its edges are those of the entries, and those between touching voxels of different boxes,
 * with the smaller of the two masks as capacity. A voxel of the result has the largest value that any path brings it: the
 * least capacity on the path, the value at its start included.
 *
 * Only voxels below their mask are nodes, for nothing raises the others. One that is at its mask v gives a neighbour
 * min(v, capacity) = capacity once, and any path through it brings no more than it has itself. In most images these are
 * all but some per cent, so the shells are read by their bits: open[] has one for each voxel that may rise.
 *
 * The best paths between nodes lie on a maximum spanning forest (Hu 1961). Boruvka's rounds build it on all threads
 * (Boruvka 1926): every component picks its largest outgoing edge, ties by the edge's number, and hooks itself to the
 * component at the other end; of two that pick the same edge the one with the lower number becomes the root. Capacities do
 * not decrease on the way from a hooked component to the root, so the capacity of its own hook is that of the whole way:
 * values go up by min(value, hook) when a component is hooked, and down again from the last round to the first. An edge
 * whose capacity is no larger than the values at both ends is dropped at any time. The result is unique, so it depends
 * neither on the number of threads nor on the order of their work.
 *
 * Arrays are in memory if `memory` allows, else in files without names, of which the system keeps in memory what it
 * can. */
#include "global/morphrecon_internal.h"

#include "base/err.h"
#include "base/places.h"
#include "base/size.h"
#include "engine/chain.h"
#include "engine/store.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Edges are parted into SEGMENTS, the unit of work of a thread; rows of a shell likewise into pieces of ROWS. A round
 * at least halves the components. */
enum { SEGMENTS = 256, ROWS = 64, MAX_ROUNDS = 40, MAX_ROOMS = 12 };

struct segment { uint64_t from, n; };
struct room { void *at; uint64_t bytes; bool mapped; };

/* Numbers of offsets. */
struct ways { uint8_t n, of[VP_MAX_NEIGHBOURS]; };

/* The shell of a box. */
struct shell_box {
    void *value;             /* keys, in the entry or, if that is in a file, in a copy */
    const void *mask;
    const void *edge;        /* edges of the entry; NULL: in the file */
    uint64_t *open;          /* bit v % 64 of word v / 64: voxel v is below its mask */
    uint32_t *first;         /* node of the first such voxel of each word */
    uint64_t words, inner;   /* words of open; node of the first inner node of the entry */
    uint32_t voxels, edges;
};

struct solve {
    struct vp_store *store;
    int64_t image[3], part[3], n[3]; /* voxels; voxels of a box; boxes along each axis */
    int64_t first, boxes;            /* the store's entries of this image */
    int threads;
    int neighbours;
    int64_t offset[VP_MAX_NEIGHBOURS][3];
    struct ways leaving[64];         /* neighbours beyond the faces that a voxel is at: face_bits() */
    void *entry;                     /* buffer for an entry of the file; NULL: none is there */
    struct shell_box *box;
    uint64_t nodes, edges;
    void *value, *hook, *largest;    /* keys of each node: value; capacity of its link; of its largest outgoing edge */
    uint32_t *parent, *root, *order; /* link of each node; roots of components; nodes in the order of their links */
    uint64_t *best;                  /* number of the largest outgoing edge of a root */
    void *edge;
    struct segment segment[SEGMENTS];
    struct room room[MAX_ROOMS];
    int rooms;
    uint64_t memory;                 /* bytes left */
};

/* Allocates memory, or maps a file in its place if `memory` is used up. NULL with an error. */
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
            vp_fail_errno(err, "%s: %s for the shells of all boxes", vp_tmpdir(), vp_bytes_text(bytes).text);
        close(fd);
        if (room->at == MAP_FAILED)
            return NULL;
    }
    s->rooms++;
    return room->at;
}

static void release(struct solve *s)
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

/* The 27 boxes around a box, which is number 13: i = 9 (z + 1) + 3 (y + 1) + x + 1. */
struct around {
    struct vp_shell shell;
    const struct shell_box *box; /* NULL: beyond the image */
    int64_t shift[3];            /* voxels from the middle box's corner to its own */
};

static void find_around(const struct solve *s, int64_t box, struct around a[27])
{
    const struct vp_box all = {.hi = {s->image[0], s->image[1], s->image[2]}}, here = vp_box_tile(&all, s->part, box);
    const int64_t at[3] = {box % s->n[0], box / s->n[0] % s->n[1], box / s->n[0] / s->n[1]};
    for (int i = 0; i < 27; i++) {
        const int64_t b[3] = {at[0] + i % 3 - 1, at[1] + i / 3 % 3 - 1, at[2] + i / 9 - 1};
        a[i].box = NULL;
        if (b[0] < 0 || b[1] < 0 || b[2] < 0 || b[0] >= s->n[0] || b[1] >= s->n[1] || b[2] >= s->n[2])
            continue;
        const int64_t index = (b[2] * s->n[1] + b[1]) * s->n[0] + b[0];
        const struct vp_box there = vp_box_tile(&all, s->part, index);
        a[i].shell = vp_shell_of(&there, s->image);
        a[i].box = &s->box[index];
        for (int k = 0; k < 3; k++)
            a[i].shift[k] = there.lo[k] - here.lo[k];
    }
}

/* Returns the faces of a box, shared with others, that voxel `at` is at: bit 2 a below on axis a, bit 2 a + 1 above. */
static inline int face_bits(const struct vp_shell *s, const int64_t at[3])
{
    int bits = 0;
    for (int a = 0; a < 3; a++)
        bits |= (s->lo[a] && at[a] == 0) << 2 * a | (s->hi[a] && at[a] == s->size[a] - 1) << (2 * a + 1);
    return bits;
}

static void find_ways(struct solve *s)
{
    for (int bits = 0; bits < 64; bits++)
        for (int i = 0; i < s->neighbours; i++)
            for (int a = 0; a < 3; a++)
                if (s->offset[i][a] && bits >> (2 * a + (s->offset[i][a] > 0)) & 1) {
                    s->leaving[bits].of[s->leaving[bits].n++] = (uint8_t)i;
                    break;
                }
}

static inline bool is_open(const struct shell_box *b, uint64_t voxel)
{
    return b->open[voxel / 64] >> voxel % 64 & 1;
}

/* Returns the node of an open voxel. */
static inline uint32_t node_of(const struct shell_box *b, uint64_t voxel)
{
    const uint64_t before = b->open[voxel / 64] & (((uint64_t)1 << voxel % 64) - 1);
    return b->first[voxel / 64] + (uint32_t)__builtin_popcountll(before);
}

/* Returns the open voxels of word w that are among [from, to). */
static inline uint64_t open_among(const struct shell_box *b, uint64_t w, uint64_t from, uint64_t to)
{
    uint64_t bits = b->open[w];
    if (w == from / 64)
        bits &= ~(uint64_t)0 << from % 64;
    if (w == to / 64)
        bits &= ((uint64_t)1 << to % 64) - 1;
    return bits;
}

/* Numbers the nodes: open voxels, then the inner nodes of all entries. */
static int number_nodes(struct solve *s, struct vp_err *err)
{
    uint64_t n = 0;
    for (int64_t i = 0; i < s->boxes; i++)
        for (uint64_t w = 0; w < s->box[i].words; w++) {
            s->box[i].first[w] = (uint32_t)n;
            n += (uint64_t)__builtin_popcountll(s->box[i].open[w]);
        }
    for (int64_t i = 0; i < s->boxes; i++) {
        const uint64_t inner = s->box[i].inner;
        s->box[i].inner = n;
        n += inner;
    }
    s->nodes = n;
    return n < UINT32_MAX ? 0 : vp_fail(err, VP_ERESOURCE, "%llu voxels between the boxes may rise: expected at most %llu",
                                        (unsigned long long)n, (unsigned long long)UINT32_MAX - 1);
}

/* Returns the most edges that there can be, with `open` nodes that are voxels: those of the entries, and half of every
 * voxel's neighbours. */
static uint64_t most_edges(const struct solve *s, uint64_t open)
{
    uint64_t most = open * (uint64_t)s->neighbours / 2;
    for (int64_t i = 0; i < s->boxes; i++)
        most += s->box[i].edges;
    return most;
}

#define EACH_KEY "global/morphrecon_solve.inc"
#include "global/morphrecon_keys.inc"

/* Returns entry i of this image: where it lies, or read into the buffer. NULL with an error. */
static struct vp_morphrecon_entry *fetch(const struct solve *s, int64_t i, struct vp_err *err)
{
    void *const there = vp_store_peek(s->store, s->first + i);
    return there ? there : vp_store_get(s->store, s->first + i, s->entry, err) ? NULL : s->entry;
}

/* Fills s->box[] but for the contents of open[] and first[]; adds the counts of the entries to `counts`. */
static int open_boxes(struct solve *s, enum vp_key key, struct vp_morphrecon_counts *counts, struct vp_err *err)
{
    uint64_t words = 0, copies = 0;
    for (int64_t i = 0; i < s->boxes; i++) {
        struct vp_morphrecon_entry *const e = fetch(s, i, err);
        if (!e)
            return -1;
        const bool copied = e == s->entry;
        s->box[i] = (struct shell_box){.voxels = e->voxels, .edges = e->edges, .words = ((uint64_t)e->voxels + 63) / 64,
                                       .inner = e->nodes - e->voxels};
        if (!copied) {
            s->box[i].value = (char *)e + vp_entry_value();
            s->box[i].mask = (char *)e + vp_entry_mask(key, e->voxels);
            s->box[i].edge = (char *)e + vp_entry_edge(key, e->voxels);
        }
        words += s->box[i].words;
        copies += copied ? vp_entry_edge(key, e->voxels) - vp_entry_value() : 0;
        if (counts) {
            counts->clipped += e->clipped;
            counts->nan += e->nan;
        }
    }
    uint64_t *open = take(s, words * sizeof *open, err);
    uint32_t *first = open ? take(s, words * sizeof *first, err) : NULL;
    char *copy = first && copies ? take(s, copies, err) : NULL;
    if (!first || (copies && !copy))
        return -1;
    for (int64_t i = 0; i < s->boxes; i++) {
        struct shell_box *const b = &s->box[i];
        b->open = open;
        b->first = first;
        open += b->words;
        first += b->words;
        if (b->edge)
            continue;
        const uint64_t bytes = vp_entry_edge(key, b->voxels) - vp_entry_value();
        if (vp_store_get(s->store, s->first + i, s->entry, err))
            return -1;
        memcpy(copy, (char *)s->entry + vp_entry_value(), (size_t)bytes);
        b->value = copy;
        b->mask = copy + vp_entry_mask(key, b->voxels) - vp_entry_value();
        copy += bytes;
    }
    return 0;
}

/* Leaves the header and the values in each entry. */
static int close_boxes(struct solve *s, enum vp_key key, struct vp_err *err)
{
    for (int64_t i = 0; i < s->boxes; i++) {
        const struct shell_box *const b = &s->box[i];
        struct vp_morphrecon_entry *const there = vp_store_peek(s->store, s->first + i), *const e = there ? there : s->entry;
        *e = (struct vp_morphrecon_entry){.bytes = vp_entry_mask(key, b->voxels), .voxels = b->voxels};
        if (there) {
            vp_store_cut(s->store, s->first + i, e->bytes);
            continue;
        }
        memcpy((char *)e + vp_entry_value(), b->value, b->voxels * (size_t)vp_key_size(key));
        if (vp_store_put(s->store, s->first + i, e, e->bytes, err))
            return -1;
    }
    return 0;
}

/* Solves one image. */
static int solve_image(struct solve *s, const struct vp_morphrecon_params *p, struct vp_err *err)
{
    if (open_boxes(s, p->key, p->counts, err))
        return -1;
    const int rc = p->key == VP_KEY_U8    ? solve_u8(s, err)
                   : p->key == VP_KEY_U16 ? solve_u16(s, err)
                   : p->key == VP_KEY_U32 ? solve_u32(s, err)
                                          : solve_u64(s, err);
    return rc || close_boxes(s, p->key, err) ? -1 : 0;
}

int vp_morphrecon_solve(struct vp_op *op, struct vp_store *entries, const int64_t part[3], uint64_t memory,
                        int threads, struct vp_err *err)
{
    struct solve s = {.store = entries, .boxes = 1, .threads = threads, .memory = memory};
    const struct vp_morphrecon_params *p = op->params;
    uint64_t most = 0; /* bytes of an entry in the file */
    int rc = 0;

    s.neighbours = vp_morphrecon_neighbours(p->connectivity, s.offset);
    find_ways(&s);
    for (int a = 0; a < 3; a++) {
        s.image[a] = op->image[a];
        s.part[a] = part[a];
        s.n[a] = vp_div_up(s.image[a], s.part[a]);
        s.boxes *= s.n[a];
    }
    for (int64_t i = 0; i < vp_store_count(entries); i++)
        if (!vp_store_peek(entries, i) && vp_store_bytes(entries, i) > most)
            most = vp_store_bytes(entries, i);
    s.box = malloc((size_t)s.boxes * sizeof *s.box);
    if (!s.box)
        return vp_fail(err, VP_ERESOURCE, "out of memory");
    if (most && !(s.entry = vp_alloc_raw(1, (size_t)most, "the shell of a box", err)))
        rc = -1;
    for (; s.first < vp_store_count(entries) && !rc; s.first += s.boxes) {
        rc = solve_image(&s, p, err);
        release(&s);
    }
    free(s.entry);
    free(s.box);
    return rc;
}
