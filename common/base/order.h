/* Keys of floating-point numbers: integers in the order of the values, -0 before +0. */
#pragma once

#include "base/anywhere.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* ---- bits to keys, and back: NaN of either sign comes beyond the infinity of that sign ---- */

/* Returns the signed key of the bits of an f32, or the bits of a key: it is its own inverse. */
VP_ANYWHERE static inline int32_t vp_order_i32(int32_t bits)
{
    return bits ^ (bits >> 31 & 0x7fffffff);
}

/* Does the same for f64. */
VP_ANYWHERE static inline int64_t vp_order_i64(int64_t bits)
{
    return bits ^ (bits >> 63 & INT64_MAX);
}

/* Returns the unsigned key of the bits of an f32. */
VP_ANYWHERE static inline uint32_t vp_order_u32(uint32_t bits)
{
    return bits ^ ((uint32_t)((int32_t)bits >> 31) | 0x80000000u);
}

VP_ANYWHERE static inline uint32_t vp_order_u32_bits(uint32_t key)
{
    return key ^ ((uint32_t)((int32_t)~key >> 31) | 0x80000000u);
}

/* Returns the unsigned key of the bits of an f64. */
VP_ANYWHERE static inline uint64_t vp_order_u64(uint64_t bits)
{
    return bits ^ ((uint64_t)((int64_t)bits >> 63) | (uint64_t)1 << 63);
}

VP_ANYWHERE static inline uint64_t vp_order_u64_bits(uint64_t key)
{
    return key ^ ((uint64_t)((int64_t)~key >> 63) | (uint64_t)1 << 63);
}

/* ---- signed keys of floats: all NaN are one key, after +infinity ---- */

/* Their bits. */
#define VP_NAN_F32 0x7fc00000
#define VP_NAN_F64 ((uint64_t)0x7ff8 << 48)

static inline int32_t vp_signed_key_f32(float v)
{
    int32_t bits;
    memcpy(&bits, &v, sizeof bits);
    return v != v ? VP_NAN_F32 : vp_order_i32(bits);
}

static inline float vp_f32_of_signed_key(int32_t key)
{
    const int32_t bits = vp_order_i32(key);
    float v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

static inline int64_t vp_signed_key_f64(double v)
{
    int64_t bits;
    memcpy(&bits, &v, sizeof bits);
    return v != v ? (int64_t)VP_NAN_F64 : vp_order_i64(bits);
}

static inline double vp_f64_of_signed_key(int64_t key)
{
    const int64_t bits = vp_order_i64(key);
    double v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

/* ---- unsigned keys: NaN is 0, below all others, also where `reverse` turns the order of the others around ---- */

/* The lowest key that is not NaN's: of -infinity, or reversed of +infinity. */
#define VP_KEY_LOWEST_F32 ((uint32_t)0x007fffff)
#define VP_KEY_LOWEST_F64 (((uint64_t)1 << 52) - 1)

VP_ANYWHERE static inline uint32_t vp_key_f32(float v, bool reverse)
{
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    const uint32_t key = vp_order_u32(bits);
    return v != v ? 0 : reverse ? ~key : key;
}

VP_ANYWHERE static inline uint64_t vp_key_f64(double v, bool reverse)
{
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    const uint64_t key = vp_order_u64(bits);
    return v != v ? 0 : reverse ? ~key : key;
}

VP_ANYWHERE static inline float vp_f32_of_key(uint32_t key, bool reverse)
{
    const uint32_t bits = key ? vp_order_u32_bits(reverse ? ~key : key) : VP_NAN_F32;
    float v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

VP_ANYWHERE static inline double vp_f64_of_key(uint64_t key, bool reverse)
{
    const uint64_t bits = key ? vp_order_u64_bits(reverse ? ~key : key) : VP_NAN_F64;
    double v;
    memcpy(&v, &bits, sizeof v);
    return v;
}
