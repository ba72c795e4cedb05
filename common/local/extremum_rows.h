/* Template of extremum_isa.c: the row functions of one type. A: the state; MOST: the largest; IN, OUT: sample to state
 * and back; NAME: for the functions. */

#define OF(a, b) ((a) < (b) ? (a) : (b))
#include "local/window_rows.h"

PAD(PASTE(pad_, NAME), A, IN(v, flip_of(t)), MOST)

static void PASTE(load_, NAME)(const struct vp_tile *t, const void *src)
{
    PASTE(pad_, NAME)(t, src, t->rows);
}

/* Windows grow threefold in each step. */
static void PASTE(across_, NAME)(const struct vp_tile *t, const void *src, void *state)
{
    const int64_t n = (int64_t)(t->lane / sizeof(A)), r = t->w->op->halo[0], w = 2 * r + 1;
    A *from = t->rows, *to = from + vp_window_row(sizeof(A), t->n, r);

    PASTE(pad_, NAME)(t, src, r ? from : state);
    for (int64_t length = 1; length < w;) {
        const int64_t next = vp_min64(3 * length, w), far = next - length, mid = vp_min64(length, far);
        /* whole vectors: there is room */
        const int64_t count = (int64_t)(vp_round64((size_t)(n + w - next) * sizeof(A)) / sizeof(A));
        const A *restrict a = from, *restrict b = from + mid, *restrict c = from + far;
        A *restrict d = next == w ? state : to;
        if (mid == far)
            for (int64_t i = 0; i < count; i++)
                d[i] = OF(a[i], b[i]);
        else
            for (int64_t i = 0; i < count; i++)
                d[i] = OF(OF(a[i], b[i]), c[i]);
        to = from;
        from = d;
        length = next;
    }
}

static void PASTE(finish_, NAME)(const struct vp_tile *t, void *out, const void *state, const void *src, int64_t times)
{
    const A flip = (A)flip_of(t), *restrict s = state;
    A *restrict d = out;
    const int64_t n = t->n;

    (void)src, (void)times;
    for (int64_t i = 0; i < n; i++)
        d[i] = OUT(s[i], flip);
}

#undef OF
#undef A
#undef MOST
#undef IN
#undef OUT
#undef NAME
