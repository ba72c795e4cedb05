/* SPDX-License-Identifier: BSD-3-Clause */
/* Sorting in place. qsort of a libc may take as much memory again as the array (glibc up to a quarter of the machine's),
 * which no --memory knows of, and leaves equals in an order that depends on the libc. */
#pragma once

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

enum { VP_SORT_MOST = 128 /* bytes of an element */, VP_SORT_FEW = 16, VP_SORT_DEEPEST = 64 };

#define VP_SORT_INLINE static inline __attribute__((always_inline))
typedef int vp_order(const void *, const void *);

VP_SORT_INLINE void vp_sort_swap(char *a, char *b, size_t size)
{
    char kept[VP_SORT_MOST];
    memcpy(kept, a, size);
    memcpy(a, b, size);
    memcpy(b, kept, size);
}

/* Sorts by heapsort: n log n steps at worst, but all over the array. */
VP_SORT_INLINE void vp_sort_heap(char *at, size_t n, size_t size, vp_order *order)
{
    for (size_t start = n / 2, end = n; end > 1;) {
        if (start > 0)
            start--;
        else if (--end > 0)
            vp_sort_swap(at, at + end * size, size);
        for (size_t root = start, child; (child = 2 * root + 1) < end; root = child) {
            child += child + 1 < end && order(at + child * size, at + (child + 1) * size) < 0;
            if (order(at + root * size, at + child * size) >= 0)
                break;
            vp_sort_swap(at + root * size, at + child * size, size);
        }
    }
}

VP_SORT_INLINE void vp_sort_insert(char *at, size_t n, size_t size, vp_order *order)
{
    char kept[VP_SORT_MOST];
    for (size_t i = 1, k; i < n; i++) {
        memcpy(kept, at + i * size, size);
        for (k = i; k > 0 && order(at + (k - 1) * size, kept) > 0; k--)
            memcpy(at + k * size, at + (k - 1) * size, size);
        memcpy(at + k * size, kept, size);
    }
}

/* Splits at a median of three (Hoare): how many come before or are equal, at least 1 and fewer than n. */
VP_SORT_INLINE size_t vp_sort_split(char *at, size_t n, size_t size, vp_order *order)
{
    char pivot[VP_SORT_MOST];
    char *const mid = at + n / 2 * size, *const last = at + (n - 1) * size;
    if (order(mid, at) < 0)
        vp_sort_swap(mid, at, size);
    if (order(last, mid) < 0)
        vp_sort_swap(last, mid, size);
    if (order(mid, at) < 0)
        vp_sort_swap(mid, at, size);
    memcpy(pivot, mid, size);
    for (char *low = at, *high = last;; low += size, high -= size) {
        while (order(low, pivot) < 0)
            low += size;
        while (order(pivot, high) < 0)
            high -= size;
        if (low >= high)
            return (size_t)(low - at) / size + (low == high);
        vp_sort_swap(low, high, size);
    }
}

/* Sorts n elements of `size` bytes (VP_SORT_MOST at most) so that order(a, b) <= 0 for each a before b. Equal
 * elements come in no particular order: let `order` decide where it matters. Inlined, so that size and order are constant.
 * Quicksort, and heapsort where that finds no good splits (Musser, Introspective sorting and selection algorithms, 1997). */
VP_SORT_INLINE void vp_sort(void *array, size_t n, size_t size, vp_order *order)
{
    struct { char *at; size_t n; int depth; } todo[VP_SORT_DEEPEST] = {{array, n, 0}}; /* the longer half waits */
    int most = 4;
    assert(size <= VP_SORT_MOST);
    for (size_t k = n; k > 1; k /= 2)
        most += 2;
    for (int waiting = 1; waiting > 0;) {
        char *at = todo[--waiting].at;
        size_t left = todo[waiting].n;
        int depth = todo[waiting].depth;
        while (left > VP_SORT_FEW && depth++ < most) {
            const size_t k = vp_sort_split(at, left, size, order);
            const bool first = k < left - k;
            todo[waiting].at = first ? at + k * size : at;
            todo[waiting].n = first ? left - k : k;
            todo[waiting++].depth = depth;
            at += first ? 0 : k * size;
            left = first ? k : left - k;
        }
        if (left > VP_SORT_FEW)
            vp_sort_heap(at, left, size, order);
        else
            vp_sort_insert(at, left, size, order);
    }
}

/* Orders doubles; of NaN it knows nothing. */
static inline int vp_by_double(const void *pa, const void *pb)
{
    const double a = *(const double *)pa, b = *(const double *)pb;
    return (a > b) - (a < b);
}
