/* SPDX-License-Identifier: BSD-3-Clause */
/* Sample types, the header of a stack, and samples of one type as those of another. */
#include "base/size.h"
#include "stack/stack.h"
#include <math.h>
#include <string.h>

static const struct {
    const char *name, *alias;
    size_t size;
    double min, max;
} type_table[VP_N_TYPES] = {
    [VP_U8] = {"u8", "uint8", 1, 0, 255},
    [VP_U16] = {"u16", "uint16", 2, 0, 65535},
    [VP_U32] = {"u32", "uint32", 4, 0, 4294967295.0},
    [VP_U64] = {"u64", "uint64", 8, 0, 18446744073709551615.0},
    [VP_I8] = {"i8", "int8", 1, -128, 127},
    [VP_I16] = {"i16", "int16", 2, -32768, 32767},
    [VP_I32] = {"i32", "int32", 4, -2147483648.0, 2147483647.0},
    [VP_I64] = {"i64", "int64", 8, -9223372036854775808.0, 9223372036854775807.0},
    [VP_F32] = {"f32", "float32", 4, -INFINITY, INFINITY},
    [VP_F64] = {"f64", "float64", 8, -INFINITY, INFINITY},
};

size_t vp_type_size(enum vp_type t)
{
    return type_table[t].size;
}

const char *vp_type_name(enum vp_type t)
{
    return type_table[t].name;
}

bool vp_type_parse(const char *name, enum vp_type *out)
{
    for (int t = 0; t < VP_N_TYPES; t++) {
        if (!strcmp(name, type_table[t].name) || !strcmp(name, type_table[t].alias)) {
            *out = (enum vp_type)t;
            return true;
        }
    }
    return false;
}

bool vp_type_is_float(enum vp_type t)
{
    return t == VP_F32 || t == VP_F64;
}

double vp_type_min(enum vp_type t)
{
    return type_table[t].min;
}

double vp_type_max(enum vp_type t)
{
    return type_table[t].max;
}

enum vp_type vp_type_of_values(enum vp_type stored)
{
    return stored == VP_F64 || (!vp_type_is_float(stored) && vp_type_size(stored) >= 4) ? VP_F64 : VP_F32;
}

size_t vp_page_bytes(const struct vp_stack *s)
{
    size_t n;
    if (s->nx <= 0 || s->ny <= 0 || !vp_mul_size(&n, (size_t)s->nx, (size_t)s->ny) ||
        !vp_mul_size(&n, n, vp_type_size(s->type)) || n > PTRDIFF_MAX)
        return 0;
    return n;
}

int vp_stack_copy(struct vp_stack *dst, const struct vp_stack *src)
{
    struct vp_meta meta = {0, NULL, NULL};
    if (vp_meta_copy(&meta, &src->meta))
        return -1;
    *dst = *src;
    dst->meta = meta;
    return 0;
}

void vp_stack_free(struct vp_stack *s)
{
    vp_meta_free(&s->meta);
}

/* ---- conversion ---- */

/* Everything goes through blocks of doubles that stay in the first-level
 * cache, so there is one loop for each type and direction instead of one for each pair; the pairs that every
 * reader needs are direct, and so are those that doubles do not hold. */
enum { BLOCK = 1024 };

/* Rounds to nearest even for |v| < 2^51 (default rounding mode); unlike rint() it vectorises everywhere. */
#define ROUND_MAGIC 6755399441055744.0

/* dst[i] = src[i], where that needs no rounding but to TO. */
#define SPREAD(T, TO)                                                                                                  \
    do {                                                                                                               \
        const T *s = src;                                                                                              \
        for (int64_t i = 0; i < n; i++)                                                                                \
            dst[i] = (TO)s[i];                                                                                         \
    } while (0)

static void load(double *restrict dst, enum vp_type type, const void *restrict src, int n)
{
#define LOAD(TYPE, T) case VP_##TYPE: SPREAD(T, double); break;
    switch (type) {
    VP_EACH_TYPE(LOAD)
    default: break;
    }
#undef LOAD
}

/* Widens exactly to f32. */
static bool widen_f32(float *restrict dst, const void *restrict src, enum vp_type type, int64_t n)
{
    switch (type) {
    case VP_U8: SPREAD(uint8_t, float); return true;
    case VP_U16: SPREAD(uint16_t, float); return true;
    case VP_I8: SPREAD(int8_t, float); return true;
    case VP_I16: SPREAD(int16_t, float); return true;
    default: return false;
    }
}

/* Rounds and clamps to whole numbers in [lo, hi], |lo|, |hi| <= 2^32, in place. */
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
#define STORE_64(T, LEAST, MOST, BEYOND)                                                                     \
    do {                                                                                                     \
        T *o = dst;                                                                                          \
        for (int i = 0; i < n; i++) {                                                                        \
            const double v = rint(d[i]);                                                                     \
            const bool ok = v >= (double)LEAST && v < BEYOND;                                                \
            bad += !ok;                                                                                      \
            o[i] = ok ? (T)v : v > 0 ? MOST : v < 0 ? LEAST : 0;                                             \
        }                                                                                                    \
    } while (0)
    switch (type) {
    case VP_U8: STORE(uint8_t, int32_t); break;
    case VP_U16: STORE(uint16_t, int32_t); break;
    case VP_U32: STORE(uint32_t, int64_t); break;
    case VP_I8: STORE(int8_t, int32_t); break;
    case VP_I16: STORE(int16_t, int32_t); break;
    case VP_I32: STORE(int32_t, int32_t); break;
    case VP_U64: STORE_64(uint64_t, 0, UINT64_MAX, 0x1p64); break;
    case VP_I64: STORE_64(int64_t, INT64_MIN, INT64_MAX, 0x1p63); break;
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
#undef STORE_64
    return bad;
}

/* Converts between the 64-bit integers, for what lies beyond 2^53 is not rounded: those that both have are the same
 * bits. */
static int64_t cross(uint64_t *dst, const uint64_t *src, int64_t n, uint64_t clamped)
{
    int64_t bad = 0;
    for (int64_t i = 0; i < n; i++) {
        const uint64_t v = src[i];
        bad += v > INT64_MAX;
        dst[i] = v > INT64_MAX ? clamped : v;
    }
    return bad;
}

double vp_scale_value(const double scale[2], double stored)
{
    return (stored - scale[1]) / scale[0] + 0.0; /* never -0 */
}

double vp_scale_stored(const double scale[2], double value)
{
    return value * scale[0] + scale[1];
}

double vp_scale_steps(const double scale[2], double difference)
{
    return difference * fabs(scale[0]);
}

double vp_scale_floor(const double scale[2], double value)
{
    const double at = floor(vp_scale_stored(scale, value));
    if (!(fabs(at) < 0x1p52)) /* also NaN */
        return at;
    return vp_scale_value(scale, at) > value ? at - 1 : vp_scale_value(scale, at + 1) <= value ? at + 1 : at;
}

/* Converts through doubles; undo: what was v * gain + offset becomes v. */
static int64_t blocks(void *dst, enum vp_type dst_type, const void *src, enum vp_type src_type, int64_t n, double gain,
                      double offset, bool undo)
{
    const size_t in = vp_type_size(src_type), out = vp_type_size(dst_type);
    const bool same = gain == 1 && offset == 0;
    int64_t bad = 0;
    double block[BLOCK];
    for (int64_t i = 0; i < n; i += BLOCK) {
        const int m = (int)(n - i < BLOCK ? n - i : BLOCK);
        load(block, src_type, (const char *)src + (size_t)i * in, m);
        if (undo)
            for (int k = 0; k < m; k++)
                block[k] = vp_scale_value((const double[]){gain, offset}, block[k]);
        else if (!same)
            for (int k = 0; k < m; k++)
                block[k] = block[k] * gain + offset;
        bad += store((char *)dst + (size_t)i * out, dst_type, block, m);
    }
    return bad;
}

int64_t vp_convert(void *dst, enum vp_type dst_type, const void *src, enum vp_type src_type, int64_t n,
                   double gain, double offset)
{
    if (gain == 1 && offset == 0) {
        if (dst_type == src_type) {
            memmove(dst, src, (size_t)n * vp_type_size(src_type));
            return 0;
        }
        if (dst_type == VP_F32 && widen_f32(dst, src, src_type, n))
            return 0;
        if (src_type == VP_U64 && dst_type == VP_I64)
            return cross(dst, src, n, INT64_MAX);
        if (src_type == VP_I64 && dst_type == VP_U64)
            return cross(dst, src, n, 0);
    }
    return blocks(dst, dst_type, src, src_type, n, gain, offset, false);
}

int64_t vp_unscale(void *dst, enum vp_type dst_type, const void *src, enum vp_type src_type, int64_t n,
                   const double scale[2])
{
    return scale[0] == 1 && scale[1] == 0 ? vp_convert(dst, dst_type, src, src_type, n, 1, 0)
                                          : blocks(dst, dst_type, src, src_type, n, scale[0], scale[1], true);
}
