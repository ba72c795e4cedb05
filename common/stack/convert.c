/* SPDX-License-Identifier: BSD-3-Clause */
/* Samples of one type to another. Everything goes through blocks of doubles that stay in the first-level
 * cache, so there is one loop for each type and direction instead of one for each pair; the pairs that every
 * reader needs are direct, and so are those that doubles do not hold. */
#include "stack/stack.h"
#include <math.h>
#include <string.h>

enum { BLOCK = 1024 };

/* Rounds to nearest even for |v| < 2^51 (default rounding mode); unlike rint() it vectorises everywhere. */
#define ROUND_MAGIC 6755399441055744.0

static void load(double *restrict d, enum vp_type type, const void *restrict src, int n)
{
#define LOAD(T)                                                                                              \
    do {                                                                                                     \
        const T *s = src;                                                                                    \
        for (int i = 0; i < n; i++)                                                                          \
            d[i] = (double)s[i];                                                                             \
    } while (0)
    switch (type) {
    case VP_U8: LOAD(uint8_t); break;
    case VP_U16: LOAD(uint16_t); break;
    case VP_U32: LOAD(uint32_t); break;
    case VP_U64: LOAD(uint64_t); break;
    case VP_I8: LOAD(int8_t); break;
    case VP_I16: LOAD(int16_t); break;
    case VP_I32: LOAD(int32_t); break;
    case VP_I64: LOAD(int64_t); break;
    case VP_F32: LOAD(float); break;
    default: memcpy(d, src, (size_t)n * sizeof *d); break;
    }
#undef LOAD
}

/* Round and clamp to whole numbers in [lo, hi], |lo|, |hi| <= 2^32, in place. */
static int64_t clamp_small(double *d, int n, double lo, double hi)
{
    int64_t bad = 0;
    for (int i = 0; i < n; i++) {
        double v = d[i];
        v = v < lo - 1 ? lo - 1 : v; /* NaN passes through both */
        v = v > hi + 1 ? hi + 1 : v;
        v = (v + ROUND_MAGIC) - ROUND_MAGIC;
        bad += !(v >= lo && v <= hi);
        v = v < lo ? lo : v;
        v = v > hi ? hi : v;
        d[i] = v == v ? v : 0;
    }
    return bad;
}

static int64_t store_u64(uint64_t *dst, const double *d, int n)
{
    int64_t bad = 0;
    for (int i = 0; i < n; i++) {
        const double v = rint(d[i]);
        const bool ok = v >= 0 && v < 0x1p64;
        bad += !ok;
        dst[i] = ok ? (uint64_t)v : v > 0 ? UINT64_MAX : 0;
    }
    return bad;
}

static int64_t store_i64(int64_t *dst, const double *d, int n)
{
    int64_t bad = 0;
    for (int i = 0; i < n; i++) {
        const double v = rint(d[i]);
        const bool ok = v >= -0x1p63 && v < 0x1p63;
        bad += !ok;
        dst[i] = ok ? (int64_t)v : v > 0 ? INT64_MAX : v < 0 ? INT64_MIN : 0;
    }
    return bad;
}

static int64_t store(void *restrict dst, enum vp_type type, double *restrict d, int n)
{
    int64_t bad = 0;
#define STORE(T, VIA)                                                                                        \
    do {                                                                                                     \
        T *o = dst;                                                                                          \
        bad = clamp_small(d, n, vp_type_min(type), vp_type_max(type));                                       \
        for (int i = 0; i < n; i++)                                                                          \
            o[i] = (T)(VIA)d[i];                                                                             \
    } while (0)
    switch (type) {
    case VP_U8: STORE(uint8_t, int32_t); break;
    case VP_U16: STORE(uint16_t, int32_t); break;
    case VP_U32: STORE(uint32_t, int64_t); break;
    case VP_I8: STORE(int8_t, int32_t); break;
    case VP_I16: STORE(int16_t, int32_t); break;
    case VP_I32: STORE(int32_t, int32_t); break;
    case VP_U64: bad = store_u64(dst, d, n); break;
    case VP_I64: bad = store_i64(dst, d, n); break;
    case VP_F32: {
        float *o = dst;
        for (int i = 0; i < n; i++) {
            o[i] = (float)d[i];
            bad += isinf(o[i]) && !isinf(d[i]); /* out of the range of f32 */
        }
        break;
    }
    default: memcpy(dst, d, (size_t)n * sizeof *d); break;
    }
#undef STORE
    return bad;
}

/* The exact widenings to f32. */
static bool widen_f32(float *restrict dst, const void *restrict src, enum vp_type type, int64_t n)
{
#define WIDEN(T)                                                                                             \
    do {                                                                                                     \
        const T *s = src;                                                                                    \
        for (int64_t i = 0; i < n; i++)                                                                      \
            dst[i] = (float)s[i];                                                                            \
    } while (0)
    switch (type) {
    case VP_U8: WIDEN(uint8_t); return true;
    case VP_U16: WIDEN(uint16_t); return true;
    case VP_I8: WIDEN(int8_t); return true;
    case VP_I16: WIDEN(int16_t); return true;
    default: return false;
    }
#undef WIDEN
}

/* Between the 64-bit integers: what lies beyond 2^53 is not rounded. */
static int64_t unsigned_to_signed(int64_t *dst, const uint64_t *src, int64_t n)
{
    int64_t bad = 0;
    for (int64_t i = 0; i < n; i++) {
        const uint64_t v = src[i];
        bad += v > INT64_MAX;
        dst[i] = v > INT64_MAX ? INT64_MAX : (int64_t)v;
    }
    return bad;
}

static int64_t signed_to_unsigned(uint64_t *dst, const int64_t *src, int64_t n)
{
    int64_t bad = 0;
    for (int64_t i = 0; i < n; i++) {
        const int64_t v = src[i];
        bad += v < 0;
        dst[i] = v < 0 ? 0 : (uint64_t)v;
    }
    return bad;
}

int64_t vp_convert(void *dst, enum vp_type dst_type, const void *src, enum vp_type src_type, int64_t n,
                   double gain, double offset)
{
    const bool same = gain == 1 && offset == 0;
    const size_t in = vp_type_size(src_type), out = vp_type_size(dst_type);
    if (same && dst_type == src_type) {
        memmove(dst, src, (size_t)n * in);
        return 0;
    }
    if (same && dst_type == VP_F32 && widen_f32(dst, src, src_type, n))
        return 0;

    if (same && src_type == VP_U64 && dst_type == VP_I64)
        return unsigned_to_signed(dst, src, n);
    if (same && src_type == VP_I64 && dst_type == VP_U64)
        return signed_to_unsigned(dst, src, n);

    int64_t bad = 0;
    double block[BLOCK];
    for (int64_t i = 0; i < n; i += BLOCK) {
        const int m = (int)(n - i < BLOCK ? n - i : BLOCK);
        load(block, src_type, (const char *)src + (size_t)i * in, m);
        if (!same)
            for (int k = 0; k < m; k++)
                block[k] = block[k] * gain + offset;
        bad += store((char *)dst + (size_t)i * out, dst_type, block, m);
    }
    return bad;
}

int64_t vp_unscale(void *dst, enum vp_type dst_type, const void *src, enum vp_type src_type, int64_t n,
                   const double scale[2])
{
    const double gain = scale[0], offset = scale[1];
    const size_t in = vp_type_size(src_type), out = vp_type_size(dst_type);
    if (gain == 1 && offset == 0)
        return vp_convert(dst, dst_type, src, src_type, n, 1, 0);
    int64_t bad = 0;
    double block[BLOCK];
    for (int64_t i = 0; i < n; i += BLOCK) {
        const int m = (int)(n - i < BLOCK ? n - i : BLOCK);
        load(block, src_type, (const char *)src + (size_t)i * in, m);
        for (int k = 0; k < m; k++)
            block[k] = (block[k] - offset) / gain;
        bad += store((char *)dst + (size_t)i * out, dst_type, block, m);
    }
    return bad;
}
