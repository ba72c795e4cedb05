/* Template of sat_isa.c: tables of integers, modulo the range of A (V: a vector of N of them); NAME: for the
 * functions. */

INLINE V PASTE(scan_, NAME)(V v)
{
    const V zeros = {0};
    v += __builtin_shufflevector(v, zeros, PLACES(1));
    if (N > 2)
        v += __builtin_shufflevector(v, zeros, PLACES(2));
    if (N > 4)
        v += __builtin_shufflevector(v, zeros, PLACES(4));
    if (N > 8)
        v += __builtin_shufflevector(v, zeros, PLACES(8));
    return v;
}

INLINE V PASTE(last_of_, NAME)(V v)
{
    return __builtin_shufflevector(v, v, LASTS);
}

/* WIDEN: what N samples are in the vector's lanes; where the compiler is not told it goes one by one. */
#ifdef __AVX2__
#define WIDEN(IN, SUFFIX, LOADED, WIDER)                                                                               \
    INLINE V PASTE(PASTE(widen_, NAME), SUFFIX)(const IN *from)                                                        \
    {                                                                                                                  \
        return (V)WIDER(LOADED(from));                                                                                 \
    }
#else
#define WIDEN(IN, SUFFIX, LOADED, WIDER)                                                                               \
    INLINE V PASTE(PASTE(widen_, NAME), SUFFIX)(const IN *from)                                                        \
    {                                                                                                                  \
        V v;                                                                                                           \
        for (int i = 0; i < N; i++)                                                                                    \
            v[i] = (A)from[i];                                                                                         \
        return v;                                                                                                      \
    }
#endif

/* `rows`, `past`, `square` and `planes` are constants, so there is a loop for each case that matters. */
#define INTEGERS(IN, SUFFIX, LOADED, WIDER)                                                                            \
    WIDEN(IN, SUFFIX, LOADED, WIDER)                                                                                   \
                                                                                                                       \
    INLINE void PASTE(PASTE(make_, NAME), SUFFIX)(const struct vp_sat_rows *b, int rows, bool past, bool square,       \
                                                  bool planes)                                                         \
    {                                                                                                                  \
        A *const above = b->above, *const left = b->left;                                                              \
        const int64_t columns = b->columns;                                                                            \
        const IN *src[VP_SAT_ROWS];                                                                                    \
        A *dst[VP_SAT_ROWS], *plane[VP_SAT_ROWS];                                                                      \
        V carry[VP_SAT_ROWS];                                                                                          \
        for (int r = 0; r < rows; r++) {                                                                               \
            src[r] = b->src[r];                                                                                        \
            dst[r] = b->dst[r];                                                                                        \
            plane[r] = b->plane[r];                                                                                    \
            carry[r] = (V){0} + left[r];                                                                               \
        }                                                                                                              \
        for (int64_t x = 0; x < columns; x += N) {                                                                     \
            V sum;                                                                                                     \
            memcpy(&sum, above + x, sizeof sum);                                                                       \
            for (int r = 0; r < rows; r++) {                                                                           \
                V v = PASTE(PASTE(widen_, NAME), SUFFIX)(src[r] + x);                                                  \
                v = carry[r] + PASTE(scan_, NAME)(square ? v * v : v);                                                 \
                carry[r] = PASTE(last_of_, NAME)(v);                                                                   \
                sum += v;                                                                                              \
                V out = sum;                                                                                           \
                if (planes) {                                                                                          \
                    memcpy(&out, plane[r] + x, sizeof out);                                                            \
                    out += sum;                                                                                        \
                    memcpy(plane[r] + x, &out, sizeof out);                                                            \
                }                                                                                                      \
                if (past)                                                                                              \
                    put_past((float *)(dst[r] + x), (vf)out);                                                          \
                else                                                                                                   \
                    memcpy(dst[r] + x, &out, sizeof out);                                                              \
            }                                                                                                          \
            memcpy(above + x, &sum, sizeof sum);                                                                       \
        }                                                                                                              \
        for (int r = 0; r < rows; r++)                                                                                 \
            left[r] = carry[r][0];                                                                                     \
    }                                                                                                                  \
                                                                                                                       \
    static void PASTE(NAME, SUFFIX)(const struct vp_sat_rows *b)                                                       \
    {                                                                                                                  \
        const bool all = b->rows == VP_SAT_ROWS, planes = b->plane[0];                                                 \
        if (all && b->past && !planes && !b->square)                                                                   \
            PASTE(PASTE(make_, NAME), SUFFIX)(b, VP_SAT_ROWS, true, false, false);                                     \
        else if (all && b->past && !planes)                                                                            \
            PASTE(PASTE(make_, NAME), SUFFIX)(b, VP_SAT_ROWS, true, true, false);                                      \
        else if (all && b->past && !b->square)                                                                         \
            PASTE(PASTE(make_, NAME), SUFFIX)(b, VP_SAT_ROWS, true, false, true);                                      \
        else if (all && !planes && !b->square)                                                                         \
            PASTE(PASTE(make_, NAME), SUFFIX)(b, VP_SAT_ROWS, false, false, false);                                    \
        else                                                                                                           \
            PASTE(PASTE(make_, NAME), SUFFIX)(b, b->rows, false, b->square, planes);                                   \
    }
