/* Two ways to reconstruct that others take, for keys of 1, 2, 4 and 8 bytes: what ours is held against.
 *
 * hybrid: Vincent's fast hybrid algorithm: a raster scan, a scan back, and a queue of the pixels that can still raise a neighbour.
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

/* key: log2 of the bytes; the marker becomes the result. False: no memory. */
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

/* Images with a border where the mask is 0, and what of them is not border. */
struct REF(ref) {
    REF_T *j, *g;
    int64_t row, plane, lo, hi; /* all samples between these */
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
            memcpy(marker + (z * r->size[1] + y) * r->size[0], r->j + (z + r->from[2]) * r->plane + (y + 1) * r->row + 1,
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

struct REF(ref_item) { REF_T v; int64_t p; };

static inline bool REF(ref_priority)(REF_T *marker, const REF_T *mask, const int64_t size[3], int connectivity)
{
    struct REF(ref) r;
    struct REF(ref_item) *heap = NULL;
    int64_t room = 0, length = 0;
    bool ok = REF(ref_open)(&r, marker, mask, size, connectivity);
    REF_T *const j = r.j, *const g = r.g;

    for (int64_t scan = 0; ok && (scan < r.hi || length > 0);) {
        int64_t p = scan;
        const bool seed = scan < r.hi;
        if (seed) { /* whoever can raise a neighbour is put in, below */
            scan++;
            if (j[p] == 0)
                continue;
        } else { /* the largest is taken out */
            const struct REF(ref_item) top = heap[0], last = heap[--length];
            int64_t i = 0;
            for (int64_t k; (k = 2 * i + 1) < length; i = k) {
                k += k + 1 < length && heap[k + 1].v > heap[k].v;
                if (heap[k].v <= last.v)
                    break;
                heap[i] = heap[k];
            }
            heap[i] = last;
            p = top.p;
            if (j[p] != top.v)
                continue; /* it was raised after that and put in again */
        }
        const REF_T v = j[p];
        for (int k = 0; k < r.n && ok; k++) {
            const int64_t q = p + r.offset[k];
            if (j[q] >= v || j[q] >= g[q])
                continue;
            if (!seed)
                j[q] = v < g[q] ? v : g[q];
            if (length == room) {
                struct REF(ref_item) *const larger = realloc(heap, (size_t)(room ? 2 * room : 1 << 16) * sizeof *heap);
                if (!larger) {
                    ok = false;
                    break;
                }
                heap = larger;
                room = room ? 2 * room : 1 << 16;
            }
            const struct REF(ref_item) item = seed ? (struct REF(ref_item)){v, p} : (struct REF(ref_item)){j[q], q};
            int64_t i = length++;
            for (; i > 0 && heap[(i - 1) / 2].v < item.v; i = (i - 1) / 2)
                heap[i] = heap[(i - 1) / 2];
            heap[i] = item;
            if (seed)
                break;
        }
    }
    free(heap);
    REF(ref_close)(&r, marker);
    return ok;
}

#undef REF_T
#undef REF
#endif
