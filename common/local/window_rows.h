/* Template for *_isa.c: rows of states of type A, parts of which are put together by OF(a, b): a minimum, a sum. NAME:
 * for the functions, those of struct vp_window_rows. */

/* The row with the halo on both sides: `state` of each sample v, or `none` where there is no image. */
#define PAD(name, T, state, none) \
    INLINE void name(const struct vp_tile *t, const T *restrict src, A *restrict row) \
    { \
        const int64_t in = vp_box_size(&t->in, 0), left = vp_window_left(t); \
        const int64_t all = (int64_t)(t->lane / sizeof(A)) + 2 * t->w->op->halo[0]; \
        for (int64_t i = 0; i < left; i++) \
            row[i] = none; \
        for (int64_t i = 0; i < in; i++) { \
            const T v = src[i]; \
            row[left + i] = state; \
        } \
        for (int64_t i = left + in; i < all; i++) \
            row[i] = none; \
    }

static void PASTE(combine_, NAME)(const struct vp_tile *t, void *dst, const void *a, const void *b, double ka,
                                  double kb, double unit)
{
    const int64_t n = (int64_t)(t->lane / sizeof(A)) * t->w->lanes;
    const A *p = a, *q = b;
    A *d = dst;

    (void)ka, (void)kb, (void)unit;
    INDEPENDENT
    for (int64_t i = 0; i < n; i++)
        d[i] = OF(p[i], q[i]);
}

static void PASTE(grow_, NAME)(const struct vp_tile *t, void *state, const void *smaller, int64_t h)
{
    const int64_t n = (int64_t)(t->lane / sizeof(A)), r = t->w->op->halo[0];

    for (int l = 0; l < t->w->lanes; l++) {
        const A *a = (const A *)t->rows + vp_window_row(sizeof(A), t->n, r) * (size_t)l + r - h, *b = a + 2 * h;
        const A *s = (const A *)smaller + n * l;
        A *restrict d = (A *)state + n * l;
        if (h == 0)
            memcpy(d, a, (size_t)n * sizeof(A));
        else
            for (int64_t i = 0; i < n; i++)
                d[i] = OF(s[i], OF(a[i], b[i]));
    }
}

INLINE void PASTE(gather_some_, NAME)(A *restrict d, const void *const *row, const int rows, int64_t n)
{
    for (int64_t j = 0; j < n; j++) {
        A sum = d[j];
        for (int i = 0; i < rows; i++)
            sum = OF(sum, ((const A *)row[i])[j]);
        d[j] = sum;
    }
}

static void PASTE(gather_, NAME)(const struct vp_tile *t, void *dst, const void *const *row, int64_t rows, bool first)
{
    const int64_t n = (int64_t)(t->lane / sizeof(A)) * t->w->lanes;
    int64_t i = 0;

    if (first)
        memcpy(dst, row[i++], (size_t)n * sizeof(A));
    for (; i + 4 <= rows; i += 4)
        PASTE(gather_some_, NAME)(dst, row + i, 4, n);
    switch (rows - i) {
    case 3: PASTE(gather_some_, NAME)(dst, row + i, 3, n); break;
    case 2: PASTE(gather_some_, NAME)(dst, row + i, 2, n); break;
    case 1: PASTE(gather_some_, NAME)(dst, row + i, 1, n);
    }
}
