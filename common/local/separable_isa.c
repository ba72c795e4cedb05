/* SPDX-License-Identifier: BSD-3-Clause */
/* Lines of separable filters over first differences; separable.h has the arithmetic.
 *
 * Neighbours across the axis are the lanes. A block of outputs along the axis is made together: going inwards, output
 * b needs at one step the very difference that its neighbour needed at the step before, so the differences move
 * through registers, and a step of the whole block loads two vectors and one tap. */
#include "local/separable_isa.h"

#include "base/isa.h"
#include "base/transpose.h"

#include <math.h>
#include <string.h>
#if defined(__FMA__)
#include <immintrin.h>
#endif

enum { BLOCK = LANES == 16 ? 8 : 4 };

INLINE vf both(float s) { return s - (vf){0}; }

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

/* The differences of a block at step k: U[b] = d[b + k], L[b] = d[b - 1 - k], b modulo the turns made so far, and the
 * samples that the next ones are made with. */
struct window { vf U[BLOCK], L[BLOCK], u, l; };

/* One step at tap k; the window then is that of k - 1. */
INLINE void step(struct window *w, vf *acc, const struct vp_separable_line *l, int64_t x, int64_t k, int turn, bool odd,
                 bool edge)
{
    if (edge) {
        for (int b = 0; b < BLOCK; b++) {
            acc[b] = fused(both(l->edge[b].up[k]), w->U[(b + BLOCK - turn) % BLOCK], acc[b]);
            acc[b] = fused(both(l->edge[b].down[k]), w->L[(b + turn) % BLOCK], acc[b]);
        }
    } else {
        const vf t = both(l->t[k]);
        for (int b = 0; b < BLOCK; b++) {
            const vf up = w->U[(b + BLOCK - turn) % BLOCK], down = w->L[(b + turn) % BLOCK];
            acc[b] = fused(t, odd ? up + down : up - down, acc[b]);
        }
    }
    const vf u = vf_at(l->g[k - 1] + x), d = vf_at(l->g[BLOCK - k] + x);
    __builtin_prefetch(l->g[k - 1] + x + 2 * LANES);
    __builtin_prefetch(l->g[BLOCK - k] + x + 2 * LANES);
    w->U[(2 * BLOCK - 1 - turn) % BLOCK] = w->u - u;
    w->L[turn % BLOCK] = d - w->l;
    w->u = u;
    w->l = d;
}

/* Order 0 near an edge: what `acc` has of the samples outside is taken back. */
INLINE vf inside(const struct vp_separable_line *l, int b, int64_t x, vf here, vf acc)
{
    const struct vp_separable_edge *const e = &l->edge[b];

    if (e->scale == 0)
        return here + acc;
    return fused(both(e->scale), fused(both(e->weight), vf_at(l->g[e->at] + x) - here, acc), here);
}

INLINE void line(const struct vp_separable_line *l, bool odd, bool edge)
{
    const int64_t r = l->radius;

    for (int64_t x = l->at; x < l->at + l->n; x += LANES) {
        vf acc[BLOCK];
        struct window w = {.u = vf_at(l->g[r - 1] + x), .l = vf_at(l->g[BLOCK - r] + x)};
        int64_t k = r - 1;

        for (int b = 0; b < BLOCK; b++) {
            acc[b] = (vf){0};
            w.U[b] = vf_at(l->g[b + r] + x) - vf_at(l->g[b + r - 1] + x);
            w.L[b] = vf_at(l->g[b + 1 - r] + x) - vf_at(l->g[b - r] + x);
        }
        for (; k >= BLOCK - 1; k -= BLOCK) {
            #pragma GCC unroll 8
            for (int s = 0; s < BLOCK; s++)
                step(&w, acc, l, x, k - s, s, odd, edge);
        }
        #pragma GCC unroll 8
        for (int s = 0; s < BLOCK - 1; s++) {
            if (s > k)
                break;
            step(&w, acc, l, x, k - s, s, odd, edge);
        }
        #pragma GCC unroll 8
        for (int b = 0; b < BLOCK; b++) {
            if (b >= l->count)
                break;
            float *const to = l->out + b * l->step + x - l->at;
            vf y = acc[b];
            if (l->order == 0)
                y = !edge && l->edge ? inside(l, b, x, vf_at(l->g[b] + x), y) : vf_at(l->g[b] + x) + y;
            if (l->add)
                y = vf_at(to) + y;
            *(vf_u *)to = y;
        }
    }
}

/* Radius 0: the samples as they are. */
static void copy(const struct vp_separable_line *l)
{
    for (int b = 0; b < l->count; b++)
        for (int64_t x = 0; x < l->n; x += LANES) {
            float *const to = l->out + b * l->step + x;
            *(vf_u *)to = l->add ? vf_at(to) + vf_at(l->g[b] + l->at + x) : vf_at(l->g[b] + l->at + x);
        }
}

static void any_line(const struct vp_separable_line *l)
{
    if (!l->radius)
        copy(l);
    else if (!l->t)
        line(l, false, true);
    else if (l->order == 1)
        line(l, true, false);
    else
        line(l, false, false);
}

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
