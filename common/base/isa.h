/* For files named *_isa.c, which are compiled once for each instruction set (VP_ISA names it) and chosen at run time:
 * names that carry it, and vectors as wide as it has. */
#ifndef VP_ISA_H
#define VP_ISA_H

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
