/* Files named *_isa.c are compiled once for each instruction set (VP_ISA names it), and what they export is chosen
 * at run time. For them: names that carry the set, and vectors as wide as it has. For the others: the choice. */
#pragma once

#ifndef VP_ISA

#include <stdbool.h>

/* Returns the one of three that this processor runs best, or the one called "avx512", "avx2" or "generic"; NULL if it
 * cannot run that. Sets that the build has not got are NULL. */
const void *vp_isa_choose(const char *name, const void *avx512, const void *avx2, const void *generic);
/* Limits later choices without a name to the instruction set of this name and below. False: there is no such
 * set. */
bool vp_isa_limit(const char *name);
/* Returns the name of the set chosen without a name. */
const char *vp_isa_name(void);

#ifdef __x86_64__
#define VP_ISA_FIND(prefix, name) vp_isa_choose(name, &prefix##_avx512, &prefix##_avx2, &prefix##_generic)
#else
#define VP_ISA_FIND(prefix, name) vp_isa_choose(name, NULL, NULL, &prefix##_generic)
#endif

#else

#include <stdint.h>

#define PASTE_(a, b) a##b
#define PASTE(a, b) PASTE_(a, b)
#define TEXT_(a) #a
#define TEXT(a) TEXT_(a)
#define INLINE static inline __attribute__((always_inline))

/* The iterations of the loop that follows do not depend on each other. */
#ifdef __clang__
#define INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define INDEPENDENT _Pragma("GCC ivdep")
#endif

/* 32-bit elements of a vector */
#if defined(__AVX512F__)
#define LANES 16
#define LANE_NUMBERS {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}
#elif defined(__AVX__)
#define LANES 8
#define LANE_NUMBERS {0, 1, 2, 3, 4, 5, 6, 7}
#else
#define LANES 4
#define LANE_NUMBERS {0, 1, 2, 3}
#endif

typedef float vf __attribute__((vector_size(4 * LANES)));
typedef float vf_u __attribute__((vector_size(4 * LANES), aligned(4)));
typedef int32_t vi __attribute__((vector_size(4 * LANES)));
typedef uint32_t vu __attribute__((vector_size(4 * LANES)));

/* Loads a vector from any address. */
INLINE vf vf_at(const float *p) { return *(const vf_u *)p; }

/* Returns a vector whose lane i is lane place[i] modulo 2 LANES of a and b in a row. */
INLINE vf shuffle(vf a, vf b, vi place)
{
#ifndef __clang__
    return __builtin_shuffle(a, b, place);
#elif LANES == 16
    return __builtin_ia32_vpermi2varps512(a, place, b);
#elif LANES == 8 && defined(__AVX2__)
    return __builtin_ia32_blendvps256(__builtin_ia32_permvarsf256(a, place), __builtin_ia32_permvarsf256(b, place),
                                      (vf)(place << 28));
#else
    vf to;
    for (int i = 0; i < LANES; i++)
        to[i] = place[i] & LANES ? b[place[i] & (LANES - 1)] : a[place[i] & (LANES - 1)];
    return to;
#endif
}

/* Stores past the caches; `to` is aligned to a vector. */
INLINE void put_past(float *to, vf v)
{
#ifdef __clang__
    __builtin_nontemporal_store(v, (vf *)to);
#elif defined(__AVX512F__)
    __builtin_ia32_movntps512(to, v);
#elif defined(__AVX__)
    __builtin_ia32_movntps256(to, v);
#elif defined(__SSE__)
    __builtin_ia32_movntps(to, v);
#else
    *(vf *)to = v;
#endif
}

#endif
