/* SPDX-License-Identifier: BSD-3-Clause */
/* Minima and maxima of long vectors: the inner loops of rank.c. */
#include "local/rank_isa.h"

#include "base/isa.h"

#include <string.h>

#if defined(__AVX512BW__)
#include <immintrin.h>
enum { BYTES = 64 };
typedef __m512i vec;
INLINE vec load(const char *p) { return _mm512_loadu_si512(p); }
INLINE void store(char *p, vec v) { _mm512_store_si512(p, v); }
#define PAIR(key, suffix) \
    INLINE vec min_##key(vec a, vec b) { return _mm512_min_##suffix(a, b); } \
    INLINE vec max_##key(vec a, vec b) { return _mm512_max_##suffix(a, b); }
PAIR(u8, epu8)
PAIR(u16, epu16)
PAIR(i16, epi16)
PAIR(i32, epi32)
#elif defined(__AVX2__)
#include <immintrin.h>
enum { BYTES = 32 };
typedef __m256i vec;
INLINE vec load(const char *p) { return _mm256_loadu_si256((const __m256i *)p); }
INLINE void store(char *p, vec v) { _mm256_store_si256((__m256i *)p, v); }
#define PAIR(key, suffix) \
    INLINE vec min_##key(vec a, vec b) { return _mm256_min_##suffix(a, b); } \
    INLINE vec max_##key(vec a, vec b) { return _mm256_max_##suffix(a, b); }
PAIR(u8, epu8)
PAIR(u16, epu16)
PAIR(i16, epi16)
PAIR(i32, epi32)
#else
enum { BYTES = 16 };
typedef int64_t vec __attribute__((vector_size(16)));
INLINE vec load(const char *p)
{
    vec v;
    memcpy(&v, p, sizeof v);
    return v;
}
INLINE void store(char *p, vec v) { *(vec *)(void *)p = v; }
#define PAIR(key, type) \
    typedef type lanes_##key __attribute__((vector_size(16))); \
    INLINE vec min_##key(vec a, vec b) \
    { \
        const vec less = (vec)((lanes_##key)a < (lanes_##key)b); \
        return (a & less) | (b & ~less); \
    } \
    INLINE vec max_##key(vec a, vec b) \
    { \
        const vec less = (vec)((lanes_##key)a < (lanes_##key)b); \
        return (b & less) | (a & ~less); \
    }
PAIR(u8, uint8_t)
PAIR(u16, uint16_t)
PAIR(i16, int16_t)
PAIR(i32, int32_t)
#endif

#define PLACE(p) (base[(p) >> VP_RANK_FILE] + ((p) & VP_RANK_OFFSET))

#define RUN(key) \
    INLINE void steps_##key(const struct vp_rank_op *op, int64_t n, char *const *base, const int vectors) \
    { \
        for (const struct vp_rank_op *end = op + n; op < end; op++) { \
            const char *a = PLACE(op->a), *b = PLACE(op->b); \
            if (op->kind == VP_RANK_BOTH) { \
                char *lo = PLACE(op->lo), *hi = PLACE(op->hi); \
                _Pragma("GCC unroll 12") \
                for (int v = 0; v < vectors; v++) { \
                    const vec x = load(a + v * BYTES), y = load(b + v * BYTES); \
                    store(lo + v * BYTES, min_##key(x, y)); \
                    store(hi + v * BYTES, max_##key(x, y)); \
                } \
            } else if (op->kind == VP_RANK_MIN) { \
                char *lo = PLACE(op->lo); \
                _Pragma("GCC unroll 12") \
                for (int v = 0; v < vectors; v++) \
                    store(lo + v * BYTES, min_##key(load(a + v * BYTES), load(b + v * BYTES))); \
            } else { \
                char *hi = PLACE(op->hi); \
                _Pragma("GCC unroll 12") \
                for (int v = 0; v < vectors; v++) \
                    store(hi + v * BYTES, max_##key(load(a + v * BYTES), load(b + v * BYTES))); \
            } \
        } \
    } \
    static void run_##key(const struct vp_rank_op *op, int64_t n, char *const *base, int vectors) \
    { \
        switch (vectors) { \
        case 1: steps_##key(op, n, base, 1); break; \
        case 2: steps_##key(op, n, base, 2); break; \
        case 3: steps_##key(op, n, base, 3); break; \
        case 4: steps_##key(op, n, base, 4); break; \
        case 5: steps_##key(op, n, base, 5); break; \
        case 6: steps_##key(op, n, base, 6); break; \
        case 8: steps_##key(op, n, base, 8); break; \
        case 9: steps_##key(op, n, base, 9); break; \
        default: steps_##key(op, n, base, vectors); \
        } \
    }

RUN(u8)
RUN(u16)
RUN(i16)
RUN(i32)

static void to_keys(int32_t *restrict key, const float *restrict x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        key[i] = vp_rank_key(x[i]);
}

static void from_keys(float *restrict x, const int32_t *restrict key, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        x[i] = vp_rank_float(key[i]);
}

INLINE void add_column(struct vp_rank_column *restrict sum, const struct vp_rank_column *restrict c)
{
    for (int i = 0; i < 256; i++)
        sum->fine[i] += c->fine[i];
    for (int i = 0; i < 16; i++)
        sum->coarse[i] += c->coarse[i];
}

INLINE void take_column(struct vp_rank_column *restrict sum, const struct vp_rank_column *restrict c)
{
    for (int i = 0; i < 256; i++)
        sum->fine[i] -= c->fine[i];
    for (int i = 0; i < 16; i++)
        sum->coarse[i] -= c->coarse[i];
}

INLINE void move_column(struct vp_rank_column *restrict sum, const struct vp_rank_column *restrict in,
                        const struct vp_rank_column *restrict out)
{
    for (int i = 0; i < 256; i++)
        sum->fine[i] += (uint16_t)(in->fine[i] - out->fine[i]);
    for (int i = 0; i < 16; i++)
        sum->coarse[i] += (uint16_t)(in->coarse[i] - out->coarse[i]);
}

/* Constant time a voxel (Perreault and Hebert 2007). Counts stay below 2^16 whatever the order of the sums. */
static void columns(uint8_t *out, int64_t n, const struct vp_rank_column *column, int64_t all, int64_t first,
                    int64_t reach, const int32_t *rank)
{
    struct vp_rank_column sum = {0};
    int64_t have = 0;

    for (int64_t c = first - reach < 0 ? 0 : first - reach; c <= first + reach && c < all; c++, have++)
        add_column(&sum, &column[c]);
    for (int64_t i = 0; i < n; i++) {
        int32_t left = rank[have];
        int at = 0;
        while (left >= sum.coarse[at])
            left -= sum.coarse[at++];
        at *= 16;
        while (left >= sum.fine[at])
            left -= sum.fine[at++];
        out[i] = (uint8_t)at;
        const int64_t in = first + i + reach + 1, gone = first + i - reach;
        if (in < all && gone >= 0) {
            move_column(&sum, &column[in], &column[gone]);
        } else if (in < all) {
            add_column(&sum, &column[in]);
            have++;
        } else if (gone >= 0) {
            take_column(&sum, &column[gone]);
            have--;
        }
    }
}

const struct vp_rank_isa PASTE(vp_rank_, VP_ISA) = {TEXT(VP_ISA), BYTES, {run_u8, run_u16, run_i16, run_i32}, to_keys,
                                                    from_keys, columns};
