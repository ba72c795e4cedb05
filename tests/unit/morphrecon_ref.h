/* Two ways to reconstruct that others take, for keys of 1, 2, 4 and 8 bytes: what ours is held against.
 *
 * hybrid: Vincent's fast hybrid algorithm: a raster scan, a scan back, and a queue of the pixels that can still raise
 *   a neighbour.
 * priority: largest values first: whoever leaves the heap is final. */
#ifndef REF_T

#ifndef VP_MORPHRECON_REF_H
#define VP_MORPHRECON_REF_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Offsets of the neighbours in planes with a border of one: those before a sample, then those after it. */
static inline int ref_offsets(int connectivity, int64_t row, int64_t plane, int64_t offset[26])
{
    const int reach = connectivity == 26 ? 3 : connectivity == 8 || connectivity == 18 ? 2 : 1;
    const int dz = connectivity == 4 || connectivity == 8 ? 0 : 1;
    int n = 0;

    for (int z = -dz; z <= dz; z++)
        for (int y = -1; y <= 1; y++)
            for (int x = -1; x <= 1; x++)
                if ((x || y || z) && !!x + !!y + !!z <= reach)
                    offset[n++] = z * plane + y * row + x;
    return n;
}

#define REF_T uint8_t
#define REF(name) name##_u8
#include "morphrecon_ref.h"
#define REF_T uint16_t
#define REF(name) name##_u16
#include "morphrecon_ref.h"
#define REF_T uint32_t
#define REF(name) name##_u32
#include "morphrecon_ref.h"
#define REF_T uint64_t
#define REF(name) name##_u64
#include "morphrecon_ref.h"

/* Reconstructs by the hybrid algorithm. key: log2 of the bytes; the marker becomes the result. False if out of memory.
 * */
static inline bool ref_hybrid(int key, void *marker, const void *mask, const int64_t size[3], int connectivity)
{
    return key == 0 ? ref_hybrid_u8(marker, mask, size, connectivity)
         : key == 1 ? ref_hybrid_u16(marker, mask, size, connectivity)
         : key == 2 ? ref_hybrid_u32(marker, mask, size, connectivity)
         : ref_hybrid_u64(marker, mask, size, connectivity);
}

static inline bool ref_priority(int key, void *marker, const void *mask, const int64_t size[3], int connectivity)
{
    return key == 0 ? ref_priority_u8(marker, mask, size, connectivity)
         : key == 1 ? ref_priority_u16(marker, mask, size, connectivity)
         : key == 2 ? ref_priority_u32(marker, mask, size, connectivity)
         : ref_priority_u64(marker, mask, size, connectivity);
}

#endif
#else

/* Images with a border where the mask is 0. */
struct REF(ref) {
    REF_T *j, *g;
    int64_t row, plane, lo, hi; /* all samples that are not border lie between lo and hi */
    int64_t size[3], from[3], offset[26];
    int n;
};

static inline REF_T *REF(ref_framed)(const struct REF(ref) *r, const REF_T *image)
{
    REF_T *const to = calloc((size_t)r->hi, sizeof(REF_T));

    for (int64_t z = 0; z < r->size[2] && to; z++)
        for (int64_t y = 0; y < r->size[1]; y++)
            memcpy(to + (z + r->from[2]) * r->plane + (y + 1) * r->row + 1, image + (z * r->size[1] + y) * r->size[0],
                   (size_t)r->size[0] * sizeof(REF_T));
    return to;
}

static inline bool REF(ref_open)(struct REF(ref) *r, const REF_T *marker, const REF_T *mask, const int64_t size[3],
                                 int connectivity)
{
    const bool flat = connectivity == 4 || connectivity == 8;

    memcpy(r->size, size, sizeof r->size);
    r->row = size[0] + 2;
    r->plane = r->row * (size[1] + 2);
    r->from[0] = r->from[1] = 1;
    r->from[2] = !flat;
    r->lo = r->plane * r->from[2];
    r->hi = r->plane * (size[2] + 2 * r->from[2]);
    r->n = ref_offsets(connectivity, r->row, r->plane, r->offset);
    r->j = REF(ref_framed)(r, marker);
    r->g = REF(ref_framed)(r, mask);
    return r->j && r->g;
}

static inline void REF(ref_close)(struct REF(ref) *r, REF_T *marker)
{
    for (int64_t z = 0; z < r->size[2] && r->j; z++)
        for (int64_t y = 0; y < r->size[1]; y++)
            memcpy(marker + (z * r->size[1] + y) * r->size[0],
                   r->j + (z + r->from[2]) * r->plane + (y + 1) * r->row + 1,
                   (size_t)r->size[0] * sizeof(REF_T));
    free(r->j);
    free(r->g);
}

static inline bool REF(ref_hybrid)(REF_T *marker, const REF_T *mask, const int64_t size[3], int connectivity)
{
    struct REF(ref) r;
    int64_t room = 1 << 20, head = 0, length = 0, *queue = malloc((size_t)room * sizeof *queue);
    bool ok = REF(ref_open)(&r, marker, mask, size, connectivity) && queue;
    REF_T *const j = r.j, *const g = r.g;
    const int n = r.n, half = n / 2;
    int64_t offset[26];

    memcpy(offset, r.offset, sizeof offset);
    for (int64_t z = 0; z < size[2] && ok; z++)
        for (int64_t y = 0; y < size[1]; y++) {
            const int64_t at = (z + r.from[2]) * r.plane + (y + 1) * r.row + 1;
            for (int64_t p = at; p < at + size[0]; p++) {
                REF_T v = j[p];
                for (int k = 0; k < half; k++)
                    v = j[p + offset[k]] > v ? j[p + offset[k]] : v;
                j[p] = v < g[p] ? v : g[p];
            }
        }
    for (int back = 1; ok && (back || length > 0);) {
        if (back) {
            back = 0;
            for (int64_t z = size[2]; z-- > 0 && ok;)
                for (int64_t y = size[1]; y-- > 0 && ok;) {
                    const int64_t at = (z + r.from[2]) * r.plane + (y + 1) * r.row + 1;
                    for (int64_t p = at + size[0]; p-- > at;) {
                        REF_T v = j[p];
                        bool more = false;
                        for (int k = half; k < n; k++)
                            v = j[p + offset[k]] > v ? j[p + offset[k]] : v;
                        j[p] = v = v < g[p] ? v : g[p];
                        for (int k = half; k < n; k++)
                            more |= (j[p + offset[k]] < v) & (j[p + offset[k]] < g[p + offset[k]]);
                        if (!more)
                            continue;
                        if (length == room) {
                            int64_t *const larger = realloc(queue, 2 * (size_t)room * sizeof *queue);
                            if (!larger) {
                                ok = false;
                                break;
                            }
                            queue = larger;
                            room *= 2;
                        }
                        queue[length++] = p;
                    }
                }
            continue;
        }
        const int64_t p = queue[head];
        const REF_T v = j[p];
        head = (head + 1) & (room - 1);
        length--;
        if (length + n > room) { /* a larger ring, its head at 0 */
            int64_t *const larger = malloc(2 * (size_t)room * sizeof *queue);
            if (!larger) {
                ok = false;
                break;
            }
            for (int64_t i = 0; i < length; i++)
                larger[i] = queue[(head + i) & (room - 1)];
            free(queue);
            queue = larger;
            head = 0;
            room *= 2;
        }
        for (int k = 0; k < n; k++) {
            const int64_t q = p + offset[k];
            if (j[q] < v && j[q] != g[q]) {
                j[q] = v < g[q] ? v : g[q];
                queue[(head + length++) & (room - 1)] = q;
            }
        }
    }
    free(queue);
    REF(ref_close)(&r, marker);
    return ok;
}

/* The queue: a heap, or for narrow keys one stack per key. */
struct REF(ref_item) { REF_T v; int64_t p, next; };

struct REF(ref_queue) {
    struct REF(ref_item) *item;
    int64_t room, length, waiting;
    int64_t *stack, free, top; /* the last items of the stacks, -1: none; free items; the largest key */
};

static inline bool REF(ref_put)(struct REF(ref_queue) *q, REF_T v, int64_t p)
{
    int64_t i = q->length;

    if (q->length == q->room && (!q->stack || q->free < 0)) {
        struct REF(ref_item) *const larger = realloc(q->item,
                                                     (size_t)(q->room ? 2 * q->room : 1 << 16) * sizeof *larger);
        if (!larger)
            return false;
        q->item = larger;
        q->room = q->room ? 2 * q->room : 1 << 16;
    }
    q->waiting++;
    if (q->stack) {
        if (q->free >= 0) {
            i = q->free;
            q->free = q->item[i].next;
        } else {
            q->length++;
        }
        q->item[i] = (struct REF(ref_item)){v, p, q->stack[v]};
        q->stack[v] = i;
        q->top = (int64_t)v > q->top ? (int64_t)v : q->top;
        return true;
    }
    for (q->length++; i > 0 && q->item[(i - 1) / 2].v < v; i = (i - 1) / 2)
        q->item[i] = q->item[(i - 1) / 2];
    q->item[i] = (struct REF(ref_item)){v, p, -1};
    return true;
}

static inline struct REF(ref_item) REF(ref_take)(struct REF(ref_queue) *q)
{
    q->waiting--;
    if (q->stack) {
        while (q->stack[q->top] < 0)
            q->top--;
        const int64_t i = q->stack[q->top];
        q->stack[q->top] = q->item[i].next;
        q->item[i].next = q->free;
        q->free = i;
        return q->item[i];
    }
    const struct REF(ref_item) top = q->item[0], last = q->item[--q->length];
    int64_t i = 0;
    for (int64_t k; (k = 2 * i + 1) < q->length; i = k) {
        k += k + 1 < q->length && q->item[k + 1].v > q->item[k].v;
        if (q->item[k].v <= last.v)
            break;
        q->item[i] = q->item[k];
    }
    q->item[i] = last;
    return top;
}

static inline bool REF(ref_priority)(REF_T *marker, const REF_T *mask, const int64_t size[3], int connectivity)
{
    struct REF(ref) r;
    struct REF(ref_queue) q = {.free = -1};
    const size_t stacks = sizeof(REF_T) <= 2 ? (size_t)1 << 8 * (sizeof(REF_T) & 3) : 0;
    bool ok = REF(ref_open)(&r, marker, mask, size, connectivity);
    REF_T *const j = r.j, *const g = r.g;

    if (stacks > 0) {
        q.stack = malloc(stacks * sizeof *q.stack);
        ok = ok && q.stack;
        for (size_t i = 0; i < stacks && ok; i++)
            q.stack[i] = -1;
    }
    for (int64_t p = r.lo; p < r.hi && ok; p++) { /* samples that can raise a neighbour */
        const REF_T v = j[p];
        bool can = false;
        for (int k = 0; k < r.n && v > 0; k++)
            can |= j[p + r.offset[k]] < v && j[p + r.offset[k]] < g[p + r.offset[k]];
        ok = !can || REF(ref_put)(&q, v, p);
    }
    while (ok && q.waiting > 0) {
        const struct REF(ref_item) top = REF(ref_take)(&q);
        if (j[top.p] != top.v)
            continue; /* it was raised and queued again since */
        for (int k = 0; k < r.n && ok; k++) {
            const int64_t p = top.p + r.offset[k];
            if (j[p] < top.v && j[p] < g[p]) {
                j[p] = top.v < g[p] ? top.v : g[p];
                ok = REF(ref_put)(&q, j[p], p);
            }
        }
    }
    free(q.item);
    free(q.stack);
    REF(ref_close)(&r, marker);
    return ok;
}

#undef REF_T
#undef REF
#endif
