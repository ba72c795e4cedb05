/* SPDX-License-Identifier: BSD-3-Clause */
/* Lines of separable filters in f32, and the conversion of samples. */
#include "local/separable_isa.h"

#include "base/isa.h"
#include "base/transpose.h"

#include <math.h>
#include <string.h>
#if defined(__FMA__)
#include <immintrin.h>
#endif

/* a b + c. Fused by name where it can be, not by leave of the compiler: a device must get the same bits. */
INLINE vf fused(vf a, vf b, vf c)
{
#if defined(__AVX512F__)
    return (vf)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined(__FMA__)
    return (vf)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#else
    return a * b + c;
#endif
}

#define REAL float
#define V vf
#define V_U vf_u
#define VLANES LANES
#define TAG(name) vp_separable_##name
#include "local/separable_line.inc"

#define LOAD(T) \
    for (int64_t i = 0; i < n; i++) \
        dst[i] = (float)((const T *)src)[i];

static void load(float *restrict dst, const void *restrict src, enum vp_type type, int64_t n)
{
    switch ((int)type) {
    case VP_U8: LOAD(uint8_t) break;
    case VP_U16: LOAD(uint16_t) break;
    case VP_I16: LOAD(int16_t) break;
    default: LOAD(float) break;
    }
}

/* To the nearest even, NaN to the least. Adding and taking away 3 * 2^22 rounds where no instruction does. */
INLINE float whole(float v, float least, float most)
{
    v = v > least ? v : least;
    v = v < most ? v : most;
#ifdef __AVX__
    return rintf(v);
#else
    return v + 12582912.0f - 12582912.0f;
#endif
}

#define STORE(T, v) \
    for (int64_t i = 0; i < n; i++) \
        ((T *)dst)[i] = (T)(int32_t)(v);

/* Whole vectors of what lies between are written without fetching what was there. */
static void stream(float *restrict dst, const float *restrict src, int64_t n)
{
    int64_t i = 0;

    for (; i < n && (uintptr_t)(dst + i) % sizeof(vf); i++)
        dst[i] = src[i];
    for (; i + LANES <= n; i += LANES)
        put_past(dst + i, vf_at(src + i));
    for (; i < n; i++)
        dst[i] = src[i];
}

static void store(void *restrict dst, enum vp_type type, const float *restrict src, int64_t n, bool bypass)
{
    switch ((int)type) {
    case VP_U8: STORE(uint8_t, whole(src[i], 0, 255)) break;
    case VP_U16: STORE(uint16_t, whole(src[i], 0, 65535)) break;
    case VP_I16: STORE(int16_t, src[i] == src[i] ? whole(src[i], -32768, 32767) : 0) break;
    default:
        if (bypass)
            stream(dst, src, n);
        else
            memcpy(dst, src, (size_t)n * sizeof *src);
    }
}

/* 16 x 16 transposed. */
INLINE void turn(float *const *to, int64_t at, const float *const *from, int64_t where)
{
    for (int r = 0; r < 16; r += LANES)
        for (int c = 0; c < 16; c += LANES) {
            vf v[LANES];
            for (int i = 0; i < LANES; i++)
                v[i] = vf_at(from[r + i] + where + c);
            transpose(v, v, 1);
            for (int i = 0; i < LANES; i++)
                *(vf_u *)(to[c + i] + at + r) = v[i];
        }
}

static void columns(float *column, const float *const *row, int64_t n)
{
    for (int64_t i = 0; i < n; i += 16) {
        float *to[16];
        for (int c = 0; c < 16; c++)
            to[c] = column + (i + c) * 16;
        turn(to, 0, row, i);
    }
}

static void rows(float *const *row, const float *column, int64_t n)
{
    for (int64_t i = 0; i < n; i += 16) {
        const float *from[16];
        for (int c = 0; c < 16; c++)
            from[c] = column + (i + c) * 16;
        turn(row, i, from, 0);
    }
}

const struct vp_separable_isa PASTE(vp_separable_, VP_ISA) = {
    BLOCK, any_line, load, store, columns, rows,
};
