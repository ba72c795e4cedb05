/* Template of moments_isa.c: rows of sums of type A (unsigned: exact modulo its range); NAME: for the functions. */

/* Sums of w = 2 r + 1 numbers from those of 1, 2, 4 ... numbers: relative to the window always the same ones. */
static void PASTE(window_, NAME)(A *row, A *restrict sum, int64_t n, int64_t r)
{
    const int64_t w = 2 * r + 1;
    int64_t done = 1;

    memcpy(sum, row, (size_t)n * sizeof(A));
    for (int64_t length = 1; 2 * length <= w; length *= 2) {
        const int64_t count = n + w - 2 * length;
        INDEPENDENT
        for (int64_t i = 0; i < (count + 15) / 16 * 16; i++) /* whole vectors: there is room */
            row[i] += row[i + length];
        if (!(w & 2 * length))
            continue;
        const A *restrict part = row + done;
        for (int64_t i = 0; i < n; i++)
            sum[i] += part[i];
        done += 2 * length;
    }
}

#define OF(a, b) ((a) + (b))
#include "local/window_rows.h"
#undef OF

/* Rows of samples of type T, and of their squares. */
#define SAMPLES(T, type) \
    PAD(PASTE(PASTE(plain_, NAME), type), T, (A)v, 0) \
    PAD(PASTE(PASTE(square_, NAME), type), T, SQUARE(v), 0) \
    static void PASTE(PASTE(load_, NAME), type)(const struct vp_tile *t, const void *src) \
    { \
        A *row = t->rows; \
        PASTE(PASTE(plain_, NAME), type)(t, src, row); \
        if (t->w->lanes == 2) \
            PASTE(PASTE(square_, NAME), type)(t, src, row + vp_window_row(sizeof(A), t->n, t->w->op->halo[0])); \
    } \
    static void PASTE(PASTE(across_, NAME), type)(const struct vp_tile *t, const void *src, void *state) \
    { \
        const int64_t n = (int64_t)(t->lane / sizeof(A)); \
        for (int l = 0; l < t->w->lanes; l++) { \
            if (l) \
                PASTE(PASTE(square_, NAME), type)(t, src, t->rows); \
            else \
                PASTE(PASTE(plain_, NAME), type)(t, src, t->rows); \
            PASTE(window_, NAME)(t->rows, (A *)state + n * l, n, t->w->op->halo[0]); \
        } \
    }
