/* SPDX-License-Identifier: BSD-3-Clause */
/* Minima and maxima of long vectors: the inner loops of rank.c. */
#include "local/rank_internal.h"

#include "base/isa.h"

enum { BYTES = sizeof(vf) };

#define PLACE(p) (base[(p) >> VP_RANK_FILE] + ((p) & VP_RANK_OFFSET))
#define ALIGNED(p) __builtin_assume_aligned(PLACE(p), BYTES)

/* Loops over a constant number of whole vectors, which compilers unroll to minima and maxima. */
#define RUN(T) \
    INLINE void steps_##T(const struct vp_rank_op *op, int64_t n, char *const *base, const int vectors) \
    { \
        const int many = vectors * BYTES / (int)sizeof(T); \
        for (const struct vp_rank_op *end = op + n; op < end; op++) { \
            const T *a = (const void *)PLACE(op->a), *b = (const void *)PLACE(op->b); \
            if (op->kind == VP_RANK_BOTH) { \
                T *lo = ALIGNED(op->lo), *hi = ALIGNED(op->hi); \
                INDEPENDENT \
                for (int i = 0; i < many; i++) { \
                    const T x = a[i], y = b[i]; \
                    lo[i] = x < y ? x : y; \
                    hi[i] = x < y ? y : x; \
                } \
            } else if (op->kind == VP_RANK_MIN) { \
                T *lo = ALIGNED(op->lo); \
                INDEPENDENT \
                for (int i = 0; i < many; i++) \
                    lo[i] = a[i] < b[i] ? a[i] : b[i]; \
            } else { \
                T *hi = ALIGNED(op->hi); \
                INDEPENDENT \
                for (int i = 0; i < many; i++) \
                    hi[i] = a[i] < b[i] ? b[i] : a[i]; \
            } \
        } \
    } \
    static void run_##T(const struct vp_rank_op *op, int64_t n, char *const *base, int vectors) \
    { \
        switch (vectors) { \
        case 1: steps_##T(op, n, base, 1); break; \
        case 2: steps_##T(op, n, base, 2); break; \
        case 3: steps_##T(op, n, base, 3); break; \
        case 4: steps_##T(op, n, base, 4); break; \
        case 5: steps_##T(op, n, base, 5); break; \
        case 6: steps_##T(op, n, base, 6); break; \
        case 8: steps_##T(op, n, base, 8); break; \
        case 9: steps_##T(op, n, base, 9); break; \
        default: steps_##T(op, n, base, VP_RANK_VECTORS); \
        } \
    }

RUN(uint8_t)
RUN(uint16_t)
RUN(int16_t)
RUN(int32_t)
RUN(int64_t)

#define KEYS(type, T, K, to_key, of_key) \
    static void to_keys_##type(void *restrict to, const void *restrict from, int64_t n) \
    { \
        K *restrict key = to; \
        const T *restrict x = from; \
        for (int64_t i = 0; i < n; i++) \
            key[i] = to_key(x[i]); \
    } \
    static void from_keys_##type(void *restrict to, const void *restrict from, int64_t n) \
    { \
        T *restrict x = to; \
        const K *restrict key = from; \
        for (int64_t i = 0; i < n; i++) \
            x[i] = of_key(key[i]); \
    }

#define U32_OF_KEY(key) ((uint32_t)(key) ^ 0x80000000u)
KEYS(f32, float, int32_t, vp_signed_key_f32, vp_f32_of_signed_key)
KEYS(u32, uint32_t, int32_t, vp_rank_key_u32, U32_OF_KEY)
KEYS(f64, double, int64_t, vp_signed_key_f64, vp_f64_of_signed_key)

INLINE void add_column(struct vp_rank_column *restrict sum, const struct vp_rank_column *restrict c, const int times)
{
    for (int i = 0; i < 256; i++)
        sum->fine[i] += (uint16_t)(times * c->fine[i]);
    for (int i = 0; i < 16; i++)
        sum->coarse[i] += (uint16_t)(times * c->coarse[i]);
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
        add_column(&sum, &column[c], 1);
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
            add_column(&sum, &column[in], 1);
            have++;
        } else if (gone >= 0) {
            add_column(&sum, &column[gone], -1);
            have--;
        }
    }
}

const struct vp_rank_isa PASTE(vp_rank_, VP_ISA) = {
    BYTES,
    {[VP_U8] = run_uint8_t, [VP_U16] = run_uint16_t, [VP_I16] = run_int16_t, [VP_F32] = run_int32_t,
     [VP_U32] = run_int32_t, [VP_I32] = run_int32_t, [VP_F64] = run_int64_t},
    {[VP_F32] = to_keys_f32, [VP_U32] = to_keys_u32, [VP_F64] = to_keys_f64},
    {[VP_F32] = from_keys_f32, [VP_U32] = from_keys_u32, [VP_F64] = from_keys_f64}, columns,
};
