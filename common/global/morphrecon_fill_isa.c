/* SPDX-License-Identifier: BSD-3-Clause */
/* Morphological reconstruction inside a tile, compiled once for each instruction set.
 *
 * Sweeps reach the fixed point: along y and z lanes are neighbours along x, and for x the tile is transposed, so that a
 * sweep is a chain of maximum and minimum of all lanes at once and carries a value across the tile. Winding paths take
 * many sweeps, so a tile that is not stable after a few is finished with a queue of raised pixels (the second phase of
 * Vincent's hybrid algorithm). So is at once a tile of which few pixels are raised from outside. */
#include "global/morphrecon_fill_isa.h"

#include "base/isa.h"

#include <stdbool.h>
#include <string.h>
#ifdef __SSE2__
#include <immintrin.h>
#endif

/* ---- vectors of unsigned numbers of `s` bytes, s being constant ---- */

#define OF_SIZE(w, s, name, a, b) ((s) == 1 ? w##_##name##8(a, b) : (s) == 2 ? w##_##name##16(a, b) \
                                   : (s) == 4 ? w##_##name##32(a, b) : w##_##name##64(a, b))
#if defined(__AVX512BW__)
typedef __m512i vec;
INLINE vec most(int s, vec a, vec b) { return OF_SIZE(_mm512, s, max_epu, a, b); }
INLINE vec least(int s, vec a, vec b) { return OF_SIZE(_mm512, s, min_epu, a, b); }
INLINE vec collect(vec sum, vec a, vec b) { return _mm512_ternarylogic_epi64(sum, a, b, 0xf6); }
INLINE bool any(vec v) { return _mm512_test_epi64_mask(v, v) != 0; }
/* Shifts the lanes one up, the last one of `before` first; and one down. */
INLINE vec up(int s, vec before, vec v)
{
    if (s == 8)
        return _mm512_alignr_epi64(v, before, 7);
    if (s == 4)
        return _mm512_alignr_epi32(v, before, 15);
    const vec lane = _mm512_alignr_epi64(v, before, 6);
    return s == 2 ? _mm512_alignr_epi8(v, lane, 14) : _mm512_alignr_epi8(v, lane, 15);
}
INLINE vec down(int s, vec v, vec after)
{
    if (s == 8)
        return _mm512_alignr_epi64(after, v, 1);
    if (s == 4)
        return _mm512_alignr_epi32(after, v, 1);
    const vec lane = _mm512_alignr_epi64(after, v, 2);
    return s == 2 ? _mm512_alignr_epi8(lane, v, 2) : _mm512_alignr_epi8(lane, v, 1);
}
/* Interleaves lanes of a and b, of the lower halves of their 16-byte pieces, and of the upper halves. */
INLINE vec lower(int s, vec a, vec b) { return OF_SIZE(_mm512, s, unpacklo_epi, a, b); }
INLINE vec upper(int s, vec a, vec b) { return OF_SIZE(_mm512, s, unpackhi_epi, a, b); }
/* Loads pieces of 16 bytes, one from each of four addresses. */
INLINE vec pieces(const char *p, size_t step)
{
    vec v = _mm512_castsi128_si512(_mm_loadu_si128((const __m128i *)p));
    v = _mm512_inserti64x2(v, _mm_loadu_si128((const __m128i *)(p + step)), 1);
    v = _mm512_inserti64x2(v, _mm_loadu_si128((const __m128i *)(p + 2 * step)), 2);
    return _mm512_inserti64x2(v, _mm_loadu_si128((const __m128i *)(p + 3 * step)), 3);
}
/* Returns a bit for each byte in which lanes differ */
INLINE uint64_t differ(vec a, vec b) { return _mm512_cmpneq_epi8_mask(a, b); }

#elif defined(__AVX2__)
typedef __m256i vec;
INLINE vec above(vec a, vec b) /* 8 bytes a lane */
{
    const vec sign = _mm256_set1_epi64x(INT64_MIN);
    return _mm256_cmpgt_epi64(_mm256_xor_si256(a, sign), _mm256_xor_si256(b, sign));
}
INLINE vec most(int s, vec a, vec b)
{
    return s == 1 ? _mm256_max_epu8(a, b) : s == 2 ? _mm256_max_epu16(a, b) : s == 4 ? _mm256_max_epu32(a, b)
         : _mm256_blendv_epi8(b, a, above(a, b));
}
INLINE vec least(int s, vec a, vec b)
{
    return s == 1 ? _mm256_min_epu8(a, b) : s == 2 ? _mm256_min_epu16(a, b) : s == 4 ? _mm256_min_epu32(a, b)
         : _mm256_blendv_epi8(a, b, above(a, b));
}
INLINE vec collect(vec sum, vec a, vec b) { return _mm256_or_si256(sum, _mm256_xor_si256(a, b)); }
INLINE bool any(vec v) { return !_mm256_testz_si256(v, v); }
INLINE vec up(int s, vec before, vec v)
{
    const vec lane = _mm256_permute2x128_si256(before, v, 0x21);
    return s == 1 ? _mm256_alignr_epi8(v, lane, 15) : s == 2 ? _mm256_alignr_epi8(v, lane, 14)
         : s == 4 ? _mm256_alignr_epi8(v, lane, 12) : _mm256_alignr_epi8(v, lane, 8);
}
INLINE vec down(int s, vec v, vec after)
{
    const vec lane = _mm256_permute2x128_si256(v, after, 0x21);
    return s == 1 ? _mm256_alignr_epi8(lane, v, 1) : s == 2 ? _mm256_alignr_epi8(lane, v, 2)
         : s == 4 ? _mm256_alignr_epi8(lane, v, 4) : _mm256_alignr_epi8(lane, v, 8);
}
INLINE vec lower(int s, vec a, vec b) { return OF_SIZE(_mm256, s, unpacklo_epi, a, b); }
INLINE vec upper(int s, vec a, vec b) { return OF_SIZE(_mm256, s, unpackhi_epi, a, b); }
INLINE vec pieces(const char *p, size_t step)
{
    return _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)p)),
                                   _mm_loadu_si128((const __m128i *)(p + step)), 1);
}
INLINE uint64_t differ(vec a, vec b) { return ~(uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(a, b)); }

#else
typedef uint8_t vec __attribute__((vector_size(16)));
typedef uint16_t vec16 __attribute__((vector_size(16)));
typedef uint32_t vec32 __attribute__((vector_size(16)));
typedef uint64_t vec64 __attribute__((vector_size(16)));
INLINE vec above(int s, vec a, vec b)
{
    return s == 1 ? (vec)(a > b) : s == 2 ? (vec)((vec16)a > (vec16)b) : s == 4 ? (vec)((vec32)a > (vec32)b)
         : (vec)((vec64)a > (vec64)b);
}
INLINE vec most(int s, vec a, vec b)
{
#ifdef __SSE2__
    if (s == 1)
        return (vec)_mm_max_epu8((__m128i)a, (__m128i)b);
    if (s == 2)
        return (vec)_mm_adds_epu16(_mm_subs_epu16((__m128i)a, (__m128i)b), (__m128i)b);
#endif
    const vec m = above(s, a, b);
    return (a & m) | (b & ~m);
}
INLINE vec least(int s, vec a, vec b)
{
#ifdef __SSE2__
    if (s == 1)
        return (vec)_mm_min_epu8((__m128i)a, (__m128i)b);
    if (s == 2)
        return (vec)((vec16)a - (vec16)_mm_subs_epu16((__m128i)a, (__m128i)b));
#endif
    const vec m = above(s, a, b);
    return (b & m) | (a & ~m);
}
INLINE vec collect(vec sum, vec a, vec b) { return sum | (a ^ b); }
INLINE bool any(vec v) { return (((vec64)v)[0] | ((vec64)v)[1]) != 0; }
#define PART(a, b, at) __builtin_shufflevector(a, b, at, at + 1, at + 2, at + 3, at + 4, at + 5, at + 6, at + 7, \
    at + 8, at + 9, at + 10, at + 11, at + 12, at + 13, at + 14, at + 15)
INLINE vec up(int s, vec before, vec v)
{
    return s == 1 ? PART(before, v, 15) : s == 2 ? PART(before, v, 14) : s == 4 ? PART(before, v, 12)
         : PART(before, v, 8);
}
INLINE vec down(int s, vec v, vec after)
{
    return s == 1 ? PART(v, after, 1) : s == 2 ? PART(v, after, 2) : s == 4 ? PART(v, after, 4) : PART(v, after, 8);
}
INLINE vec lower(int s, vec a, vec b)
{
    return s == 1 ? __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
         : s == 2 ? (vec)__builtin_shufflevector((vec16)a, (vec16)b, 0, 8, 1, 9, 2, 10, 3, 11)
         : s == 4 ? (vec)__builtin_shufflevector((vec32)a, (vec32)b, 0, 4, 1, 5)
         : (vec)__builtin_shufflevector((vec64)a, (vec64)b, 0, 2);
}
INLINE vec upper(int s, vec a, vec b)
{
    return s == 1 ? __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)
         : s == 2 ? (vec)__builtin_shufflevector((vec16)a, (vec16)b, 4, 12, 5, 13, 6, 14, 7, 15)
         : s == 4 ? (vec)__builtin_shufflevector((vec32)a, (vec32)b, 2, 6, 3, 7)
         : (vec)__builtin_shufflevector((vec64)a, (vec64)b, 1, 3);
}
INLINE vec pieces(const char *p, size_t step)
{
    vec v;
    (void)step;
    memcpy(&v, p, sizeof v);
    return v;
}
INLINE uint64_t differ(vec a, vec b)
{
#ifdef __SSE2__
    return (uint16_t)~_mm_movemask_epi8(_mm_cmpeq_epi8((__m128i)a, (__m128i)b));
#else
    uint64_t bits = 0;
    for (int i = 0; i < 16; i++)
        bits |= (uint64_t)(a[i] != b[i]) << i;
    return bits;
#endif
}
#endif

enum { BYTES = sizeof(vec) };

INLINE vec get(const void *p)
{
    vec v;
    memcpy(&v, p, sizeof v);
    return v;
}

INLINE void put(void *p, vec v) { memcpy(p, &v, sizeof v); }
INLINE vec zero(void) { return (vec){0}; }

/* Returns the number of lanes of s bytes with a bit set. */
INLINE int lanes(int s, uint64_t bits)
{
    if (s >= 2)
        bits |= bits >> 1;
    if (s >= 4)
        bits |= bits >> 2;
    if (s == 8)
        bits |= bits >> 4;
    return __builtin_popcountll(s == 1 ? bits : bits & (s == 2 ? 0x5555555555555555u : s == 4 ? 0x1111111111111111u
                                                                                           : 0x0101010101010101u));
}

/* ---- faces, which other threads read and write ---- */

typedef uint64_t word __attribute__((may_alias));

INLINE void read_face(void *to, const void *from, size_t bytes)
{
    for (size_t i = 0; i < bytes / 8; i++)
        ((word *)to)[i] = __atomic_load_n((const word *)from + i, __ATOMIC_RELAXED);
}

/* True if the face's value changed. */
INLINE bool write_face(void *to, const void *from, size_t bytes)
{
    uint64_t changed = 0;
    for (size_t i = 0; i < bytes / 8; i++) {
        const uint64_t old = __atomic_load_n((const word *)to + i, __ATOMIC_RELAXED), now = ((const word *)from)[i];
        if (old != now)
            __atomic_store_n((word *)to + i, now, __ATOMIC_RELAXED);
        changed |= old ^ now;
    }
    return changed != 0;
}

/* Conditions for the queue: up to FEW pixels raised from outside (given up after STEPS steps); up to FEW raised by a
 * round of sweeps; ROUNDS rounds. */
enum { FEW = 24, STEPS = 512, ROUNDS = 4 };

/* Bits of the neighbours across faces that have changed. */
INLINE uint32_t neighbours(unsigned faces, int reach)
{
    uint32_t to = 0;
    for (int dz = -1; dz <= 1; dz++)
        for (int dy = -1; dy <= 1; dy++)
            for (int dx = -1; dx <= 1; dx++) {
                const bool x = !dx || faces >> (dx > 0) & 1, y = !dy || faces >> (2 + (dy > 0)) & 1,
                           z = !dz || faces >> (4 + (dz > 0)) & 1;
                const int apart = !!dx + !!dy + !!dz;
                if (apart && apart <= reach && x && y && z)
                    to |= (uint32_t)1 << (dx + 1 + 3 * (dy + 1) + 9 * (dz + 1));
            }
    return to;
}

#define APART static __attribute__((noinline))

#define T uint8_t
#define S 1
#define BX 128
#define BY 64
#define BZ 1
#define NAME 8_2
#include "global/morphrecon_tile.inc"

#define T uint16_t
#define S 2
#define BX 64
#define BY 64
#define BZ 1
#define NAME 16_2
#include "global/morphrecon_tile.inc"

#define T uint32_t
#define S 4
#define BX 64
#define BY 32
#define BZ 1
#define NAME 32_2
#include "global/morphrecon_tile.inc"

#define T uint64_t
#define S 8
#define BX 32
#define BY 32
#define BZ 1
#define NAME 64_2
#include "global/morphrecon_tile.inc"

#define T uint8_t
#define S 1
#define BX 64
#define BY 16
#define BZ 8
#define NAME 8_3
#include "global/morphrecon_tile.inc"

#define T uint16_t
#define S 2
#define BX 32
#define BY 16
#define BZ 16
#define NAME 16_3
#include "global/morphrecon_tile.inc"

#define T uint32_t
#define S 4
#define BX 32
#define BY 16
#define BZ 8
#define NAME 32_3
#include "global/morphrecon_tile.inc"

#define T uint64_t
#define S 8
#define BX 32
#define BY 16
#define BZ 16
#define NAME 64_3
#include "global/morphrecon_tile.inc"

#define KIND(name) {{PASTE(BX_, name), PASTE(BY_, name), PASTE(BZ_, name)}, sizeof(struct PASTE(room_, name)), \
                    PASTE(visit_, name)}

const struct vp_recon_isa PASTE(vp_recon_, VP_ISA) = {
    TEXT(VP_ISA), {{KIND(8_2), KIND(16_2), KIND(32_2), KIND(64_2)}, {KIND(8_3), KIND(16_3), KIND(32_3), KIND(64_3)}}
};
