/* SPDX-License-Identifier: BSD-3-Clause */
/* OLE2 compound files. A stream is a chain of sectors in a table (FAT); short streams are chains of small sectors within
 * one stream of the root (mini stream). Chains may run in circles: none is followed further than there are sectors. */
#include "stack/ole.h"
#include "base/err.h"
#include "base/size.h"
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { HEADER = 512, IN_HEADER = 109, ENTRY = 128, NAME = 32, STORAGE = 1, STREAM = 2, ROOT = 5 };
static const uint32_t LAST = 0xfffffffa, NONE = 0xffffffff; /* sectors are below LAST */

struct item { char name[NAME + 1]; int kind; uint32_t left, right, child, start; uint64_t bytes; int64_t parent; };

struct vp_ole {
    struct vp_input *in;
    uint32_t sector, mini; /* bytes */
    uint32_t *fat, *minifat;
    int64_t sectors, minis; /* entries of the tables */
    uint32_t *ministream;   /* its sectors */
    int64_t ministream_n;
    struct item *item;
    int64_t items;
    uint64_t cut; /* shorter streams are in the mini stream */
};

static uint32_t word(const unsigned char *p)
{
    return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static int damaged(const struct vp_ole *o, const char *what, struct vp_err *err)
{
    return vp_fail(err, VP_ERUN, "%s: damaged or truncated: %s", o->in->name, what);
}

static int read_at(const struct vp_ole *o, uint64_t at, void *to, size_t n, struct vp_err *err)
{
    const int64_t got = vp_input_at(o->in, at, to, n, err);
    return got < 0 ? -1 : (size_t)got < n ? damaged(o, "a sector lies past the end of the file", err) : 0;
}

static int read_sector(const struct vp_ole *o, uint32_t i, void *to, struct vp_err *err)
{
    return read_at(o, ((uint64_t)i + 1) * o->sector, to, o->sector, err);
}

/* Lists the sectors of a chain in a table of n; *count of them. NULL: an error. */
static uint32_t *chain(const struct vp_ole *o, const uint32_t *table, int64_t n, uint32_t start, int64_t *count,
                       struct vp_err *err)
{
    int64_t room = 0, k = 0;
    uint32_t *list = vp_grow(NULL, 0, &room, sizeof *list, "a chain of sectors", o->in->name, err);
    for (uint32_t i = start; list && i < LAST; i = table[i]) {
        uint32_t *const more = i < n && k < n ? vp_grow(list, k, &room, sizeof *list, "a chain of sectors", o->in->name, err)
                                              : NULL;
        if (!more) {
            if (!(i < n && k < n))
                damaged(o, "a chain of sectors has no end", err);
            free(list);
            return NULL;
        }
        list = more;
        list[k++] = i;
    }
    *count = k;
    return list;
}

/* Reads the table of sectors: those that it is in are listed in the header, and in further sectors. */
static int read_fat(struct vp_ole *o, const unsigned char *head, struct vp_err *err)
{
    const int64_t per = o->sector / 4, most = (int64_t)(o->in->size / o->sector) + 1;
    unsigned char *const list = vp_alloc_raw(2, o->sector, "the table of sectors", err), *const raw = list + o->sector;
    const int64_t want = word(head + 44);
    uint32_t next = word(head + 68);
    int rc = !list ? -1 : want > most / per + 1 ? damaged(o, "its table of sectors is larger than the file", err) : 0;
    if (!rc && !(o->fat = vp_alloc((size_t)(want ? want : 1), o->sector, "the table of sectors", err)))
        rc = -1;
    for (int64_t i = 0; !rc && i < want; i++) {
        const int64_t k = i - IN_HEADER;
        if (k >= 0 && k % (per - 1) == 0) {
            rc = next < LAST ? read_sector(o, next, list, err) : damaged(o, "its table of sectors is short", err);
            next = rc ? NONE : word(list + 4 * (per - 1));
        }
        const uint32_t at = rc ? NONE : k < 0 ? word(head + 76 + 4 * i) : word(list + 4 * (k % (per - 1)));
        rc = rc ? rc : at < LAST ? read_sector(o, at, raw, err) : damaged(o, "its table of sectors is short", err);
        for (int64_t j = 0; !rc && j < per; j++)
            o->fat[o->sectors++] = word(raw + 4 * j);
    }
    free(list);
    return rc;
}

/* Reads all sectors of a chain. malloc'd; *n bytes. */
static unsigned char *read_chain(const struct vp_ole *o, uint32_t start, size_t *n, struct vp_err *err)
{
    int64_t count = 0;
    uint32_t *const list = chain(o, o->fat, o->sectors, start, &count, err);
    *n = (size_t)count * o->sector;
    unsigned char *all = !list || vp_memory_claim(*n, "its tables", o->in->name, err)
                             ? NULL : vp_alloc_raw(*n ? *n : 1, 1, "its tables", err);
    for (int64_t i = 0; all && i < count; i++)
        if (read_sector(o, list[i], all + (size_t)i * o->sector, err)) {
            free(all);
            all = NULL;
        }
    free(list);
    return all;
}

/* Sets the parents of a storage's items, which are a tree in no order that matters. */
static int walk(struct vp_ole *o, uint32_t *stack, struct vp_err *err)
{
    int64_t n = 0;
    uint32_t at[3] = {o->item[0].child, NONE, NONE};
    int64_t parent[3] = {0, 0, 0};
    for (;;) {
        for (int i = 0; i < 3; i++) {
            if (at[i] == NONE)
                continue;
            if (at[i] >= o->items || o->item[at[i]].parent >= 0 || !at[i])
                return damaged(o, "its directory is no tree", err);
            o->item[at[i]].parent = parent[i];
            stack[n++] = at[i]; /* each once */
        }
        if (!n)
            return 0;
        const uint32_t i = stack[--n];
        const struct item *const e = &o->item[i];
        at[0] = e->left;
        at[1] = e->right;
        at[2] = e->kind == STORAGE ? e->child : NONE;
        parent[0] = parent[1] = e->parent;
        parent[2] = i;
    }
}

static int read_directory(struct vp_ole *o, uint32_t start, bool old, struct vp_err *err)
{
    size_t n;
    unsigned char *const raw = read_chain(o, start, &n, err);
    o->items = raw ? (int64_t)(n / ENTRY) : 0;
    uint32_t *const stack = raw ? vp_alloc((size_t)o->items + 1, sizeof *stack, "the directory", err) : NULL;
    o->item = stack ? vp_alloc((size_t)o->items + 1, sizeof *o->item, "the directory", err) : NULL;
    int rc = o->item ? 0 : -1;
    for (int64_t i = 0; !rc && i < o->items; i++) {
        const unsigned char *const p = raw + i * ENTRY;
        struct item *const e = &o->item[i];
        for (int k = 0; k < NAME && (p[2 * k] || p[2 * k + 1]); k++)
            e->name[k] = p[2 * k + 1] || p[2 * k] > 126 ? '?' : (char)p[2 * k];
        e->kind = p[66];
        e->left = word(p + 68);
        e->right = word(p + 72);
        e->child = word(p + 76);
        e->start = word(p + 116);
        e->bytes = word(p + 120) | (old ? 0 : (uint64_t)word(p + 124) << 32);
        e->parent = -1;
    }
    if (!rc)
        rc = o->items && o->item[0].kind == ROOT ? walk(o, stack, err) : damaged(o, "its directory has no root", err);
    free(stack);
    free(raw);
    return rc;
}

int vp_ole_open(struct vp_ole **out, struct vp_input *in, struct vp_err *err)
{
    unsigned char head[HEADER];
    struct vp_ole *const o = *out = vp_alloc(1, sizeof *o, in->name, err);
    if (!o)
        return -1;
    o->in = in;
    if (read_at(o, 0, head, HEADER, err))
        return -1;
    const int version = head[26], power = head[30], small = head[32];
    if ((power != 9 && power != 12) || small < 5 || small > power)
        return damaged(o, "sectors are of no known size", err);
    o->sector = 1u << power;
    o->mini = 1u << small;
    o->cut = word(head + 56);
    size_t n;
    if (read_fat(o, head, err) || read_directory(o, word(head + 48), version == 3, err))
        return -1;
    unsigned char *const raw = read_chain(o, word(head + 60), &n, err);
    o->minifat = raw ? vp_alloc(n ? n : 1, 1, "the table of small sectors", err) : NULL;
    for (o->minis = 0; o->minifat && (size_t)o->minis < n / 4; o->minis++)
        o->minifat[o->minis] = word(raw + 4 * o->minis);
    free(raw);
    if (!o->minifat)
        return -1;
    o->ministream = chain(o, o->fat, o->sectors, o->item[0].start, &o->ministream_n, err);
    return o->ministream ? 0 : -1;
}

void vp_ole_close(struct vp_ole *o)
{
    if (!o)
        return;
    free(o->fat);
    free(o->minifat);
    free(o->ministream);
    free(o->item);
    free(o);
}

uint64_t vp_ole_need(const struct vp_ole *o)
{
    return (uint64_t)(o->sectors + o->minis + o->ministream_n) * 4 + (uint64_t)o->items * sizeof *o->item;
}

int64_t vp_ole_find(const struct vp_ole *o, const char *path, uint64_t *bytes)
{
    int64_t at = 0;
    for (const char *p = path; at >= 0 && *p;) {
        const size_t n = strcspn(p, "/");
        int64_t i = 1;
        while (i < o->items && !(o->item[i].parent == at && o->item[i].kind == (p[n] ? STORAGE : STREAM)
                                 && strlen(o->item[i].name) == n && !strncasecmp(o->item[i].name, p, n)))
            i++;
        at = i < o->items ? i : -1;
        p += n + (p[n] == '/');
    }
    if (at > 0 && bytes)
        *bytes = o->item[at].bytes;
    return at > 0 ? at : -1;
}

int vp_ole_read(const struct vp_ole *o, int64_t stream, uint64_t at, void *to, size_t n, struct vp_err *err)
{
    const struct item *const e = &o->item[stream];
    const bool small = e->bytes < o->cut;
    const uint32_t unit = small ? o->mini : o->sector, *const table = small ? o->minifat : o->fat;
    const int64_t limit = small ? o->minis : o->sectors;
    uint32_t i = e->start;
    char *p = to;
    if (at > e->bytes || n > e->bytes - at)
        return damaged(o, "a stream is shorter than its contents", err);
    for (int64_t k = 0; n; k++, i = table[i]) {
        if (i >= limit || k >= limit)
            return damaged(o, "a chain of sectors ends too early, or has no end", err);
        if (at >= unit) {
            at -= unit;
            continue;
        }
        const size_t m = n < unit - at ? n : (size_t)(unit - at);
        const uint64_t in = (uint64_t)i * unit + at;
        if (small && (int64_t)(in / o->sector) >= o->ministream_n)
            return damaged(o, "a small stream lies past the others", err);
        const uint64_t place = small ? ((uint64_t)o->ministream[in / o->sector] + 1) * o->sector + in % o->sector
                                     : ((uint64_t)i + 1) * o->sector + at;
        if (read_at(o, place, p, m, err))
            return -1;
        p += m;
        n -= m;
        at = 0;
    }
    return 0;
}
