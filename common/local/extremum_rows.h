/* Template of extremum_isa.c: the row functions of one type. T: the state; LEAST, MOST: its range; IN, OUT: sample to
 * state and back, given the state of NaN; NAME: for the functions. */

INLINE T PASTE(least_, NAME)(bool max)
{
    return max ? (T)LEAST : (T)MOST;
}

INLINE T PASTE(of_, NAME)(T a, T b, bool max)
{
    return max ? (a > b ? a : b) : (a < b ? a : b);
}

INLINE int64_t PASTE(states_, NAME)(const struct vp_tile *t)
{
    return (int64_t)(t->lane / sizeof(T));
}

/* The row with the halo on both sides; what is not in the image never wins. */
INLINE void PASTE(pad_, NAME)(const struct vp_tile *t, const T *restrict src, T *restrict row, bool max)
{
    const T none = PASTE(least_, NAME)(max);
    const int64_t r = t->w->op->halo[0], in = vp_box_size(&t->in, 0), left = r - (t->out.lo[0] - t->in.lo[0]);
    const int64_t all = PASTE(states_, NAME)(t) + 2 * r;

    for (int64_t i = 0; i < left; i++)
        row[i] = none;
    for (int64_t i = 0; i < in; i++)
        row[left + i] = IN(src[i], none);
    for (int64_t i = left + in; i < all; i++)
        row[i] = none;
}

/* Windows grow threefold in each step. */
INLINE void PASTE(across_, NAME)(const struct vp_tile *t, const void *src, void *state, bool max)
{
    const int64_t n = PASTE(states_, NAME)(t), r = t->w->op->halo[0], w = 2 * r + 1;
    T *from = t->rows, *to = from + vp_extremum_row(sizeof(T), t->n, r);

    PASTE(pad_, NAME)(t, src, r ? from : state, max);
    for (int64_t length = 1; length < w;) {
        const int64_t next = vp_min64(3 * length, w), far = next - length, mid = vp_min64(length, far);
        /* whole vectors: there is room */
        const int64_t count = (int64_t)(vp_round64((size_t)(n + w - next) * sizeof(T)) / sizeof(T));
        const T *restrict a = from, *restrict b = from + mid, *restrict c = from + far;
        T *restrict d = next == w ? state : to;
        if (mid == far)
            for (int64_t i = 0; i < count; i++)
                d[i] = PASTE(of_, NAME)(a[i], b[i], max);
        else
            for (int64_t i = 0; i < count; i++)
                d[i] = PASTE(of_, NAME)(PASTE(of_, NAME)(a[i], b[i], max), c[i], max);
        to = from;
        from = d;
        length = next;
    }
}

INLINE void PASTE(combine_, NAME)(const struct vp_tile *t, void *dst, const void *a, const void *b, bool max)
{
    const int64_t n = PASTE(states_, NAME)(t);
    const T *p = a, *q = b;
    T *d = dst;

    INDEPENDENT
    for (int64_t i = 0; i < n; i++)
        d[i] = PASTE(of_, NAME)(p[i], q[i], max);
}

INLINE void PASTE(grow_, NAME)(const struct vp_tile *t, void *state, const void *smaller, int64_t h, bool max)
{
    const int64_t n = PASTE(states_, NAME)(t);
    const T *a = (const T *)t->rows + t->w->op->halo[0] - h, *b = a + 2 * h, *s = smaller;
    T *restrict d = state;

    if (h == 0)
        memcpy(d, a, (size_t)n * sizeof(T));
    else
        for (int64_t i = 0; i < n; i++)
            d[i] = PASTE(of_, NAME)(s[i], PASTE(of_, NAME)(a[i], b[i], max), max);
}

INLINE void PASTE(gather_, NAME)(const struct vp_tile *t, void *dst, const void *const *row, int64_t rows, bool first,
                                 bool max)
{
    const int64_t n = PASTE(states_, NAME)(t);
    T *restrict d = dst;
    int64_t i = 0;

    if (first)
        memcpy(d, row[i++], (size_t)n * sizeof(T));
    for (; i < rows; i += 4) { /* more than once is as good as once */
        const T *a = row[i], *b = row[vp_min64(i + 1, rows - 1)], *c = row[vp_min64(i + 2, rows - 1)];
        const T *e = row[vp_min64(i + 3, rows - 1)];
        for (int64_t j = 0; j < n; j++) {
            const T l = PASTE(of_, NAME)(a[j], b[j], max), h = PASTE(of_, NAME)(c[j], e[j], max);
            d[j] = PASTE(of_, NAME)(d[j], PASTE(of_, NAME)(l, h, max), max);
        }
    }
}

INLINE void PASTE(finish_, NAME)(const struct vp_tile *t, void *out, const void *state, bool max)
{
    const T none = PASTE(least_, NAME)(max), *restrict s = state;
    T *restrict d = out;

    (void)none;
    for (int64_t i = 0; i < t->n; i++)
        d[i] = OUT(s[i], none);
}

#define EACH(op, is_max) \
    static void PASTE(across_##op, NAME)(const struct vp_tile *t, const void *src, void *state) \
    { \
        PASTE(across_, NAME)(t, src, state, is_max); \
    } \
    static void PASTE(combine_##op, NAME)(const struct vp_tile *t, void *dst, const void *a, const void *b, double ka, \
                                          double kb, double unit) \
    { \
        (void)ka, (void)kb, (void)unit; \
        PASTE(combine_, NAME)(t, dst, a, b, is_max); \
    } \
    static void PASTE(load_##op, NAME)(const struct vp_tile *t, const void *src) \
    { \
        PASTE(pad_, NAME)(t, src, t->rows, is_max); \
    } \
    static void PASTE(grow_##op, NAME)(const struct vp_tile *t, void *state, const void *smaller, int64_t h) \
    { \
        PASTE(grow_, NAME)(t, state, smaller, h, is_max); \
    } \
    static void PASTE(gather_##op, NAME)(const struct vp_tile *t, void *dst, const void *const *row, int64_t n, \
                                         bool first) \
    { \
        PASTE(gather_, NAME)(t, dst, row, n, first, is_max); \
    } \
    static void PASTE(finish_##op, NAME)(const struct vp_tile *t, void *out, const void *state, const void *src, \
                                         int64_t times) \
    { \
        (void)src, (void)times; \
        PASTE(finish_, NAME)(t, out, state, is_max); \
    }
EACH(min_, false)
EACH(max_, true)

#undef EACH
#undef T
#undef LEAST
#undef MOST
#undef IN
#undef OUT
#undef NAME
