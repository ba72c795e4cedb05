/* Files named *_isa.c are compiled once for each instruction set (VP_ISA names it), and what they export is chosen at run
 * time. For them: names that carry the set, and vectors as wide as it has. For the others: the choice. */
#ifndef VP_ISA_H
#define VP_ISA_H

#ifndef VP_ISA

/* The one of three that this processor runs best, or the one called "avx512", "avx2" or "generic"; NULL if it cannot run
 * that. Sets that the build has not got are NULL. */
const void *vp_isa_choose(const char *name, const void *avx512, const void *avx2, const void *generic);

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

/* of 32 bits */
#if defined(__AVX512F__)
#define LANES 16
#elif defined(__AVX__)
#define LANES 8
#else
#define LANES 4
#endif

typedef float vf __attribute__((vector_size(4 * LANES)));
typedef float vf_u __attribute__((vector_size(4 * LANES), aligned(4)));
typedef int32_t vi __attribute__((vector_size(4 * LANES)));
typedef uint32_t vu __attribute__((vector_size(4 * LANES)));

#endif
#endif
