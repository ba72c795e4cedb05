/* SPDX-License-Identifier: BSD-3-Clause */
/* Lines of separable filters in f64. */
#include "local/separable_isa.h"

#include "base/isa.h"

#include <string.h>
#if defined(__FMA__)
#include <immintrin.h>
#endif

enum { VLANES = LANES / 2 };
typedef double vd __attribute__((vector_size(4 * LANES)));
typedef double vd_u __attribute__((vector_size(4 * LANES), aligned(8)));

/* Returns a b + c: fused by name where it can be, not by leave of the compiler. */
INLINE vd fused(vd a, vd b, vd c)
{
#if defined(__AVX512F__)
    return (vd)_mm512_fmadd_pd((__m512d)a, (__m512d)b, (__m512d)c);
#elif defined(__FMA__)
    return (vd)_mm256_fmadd_pd((__m256d)a, (__m256d)b, (__m256d)c);
#else
    return a * b + c;
#endif
}

#define REAL double
#define V vd
#define V_U vd_u
#define TAG(name) vp_separable_f64_##name
#include "local/separable_line.inc"

static void load(double *restrict dst, const void *restrict src, enum vp_type type, int64_t n)
{
    (void)type;
    memcpy(dst, src, (size_t)n * sizeof *dst);
}

static void store(void *restrict dst, enum vp_type type, const double *restrict src, int64_t n, bool bypass)
{
    (void)bypass;
    vp_convert(dst, type, src, VP_F64, n, 1, 0);
}

static void columns(double *restrict column, const double *const *row, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        for (int r = 0; r < VP_SEPARABLE_COLUMNS; r++)
            column[i * VP_SEPARABLE_COLUMNS + r] = row[r][i];
}

static void rows(double *const *row, const double *restrict column, int64_t n)
{
    for (int r = 0; r < VP_SEPARABLE_COLUMNS; r++)
        for (int64_t i = 0; i < n; i++)
            row[r][i] = column[i * VP_SEPARABLE_COLUMNS + r];
}

const struct vp_separable_f64_isa PASTE(vp_separable_f64_, VP_ISA) = {
    BLOCK, any_line, load, store, columns, rows,
};
