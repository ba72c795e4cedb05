/* SPDX-License-Identifier: BSD-3-Clause */
/* For one type of samples, T with keys K: included by morphrecon.c once for each, with OF_KEY(k, erosion), and NAME()
 * for what bears the type's. REAL where there are NaN. */
#define TO_KEY NAME(vp_key)
#define REAL (sizeof(K) > sizeof(uint16_t))

/* Of a sample and itself: whether it is NaN. */
static inline bool NAME(differ)(T v, T same)
{
    return v != same;
}

/* Keys of a row: of the mask into `mask` (which may be the samples themselves), and of the marker, at most the mask's,
 * into `marker`. */
static void NAME(load)(const struct vp_morphrecon_params *p, const int64_t image[3], const int64_t at[3], int64_t n,
                       const void *given, const void *samples, void *marker, void *mask, struct vp_morphrecon_told *told)
{
    const T *const v = samples, *const m = given, h = REAL ? (T)p->h : 0;
    K *const to = marker, *const g = mask;
    const bool erosion = p->erosion;
    const K floor = (K)p->floor, lowest = (K)vp_key_lowest(p->key);
    uint64_t clipped = 0, nan = 0;

    if ((const void *)g != samples)
        for (int64_t i = 0; i < n; i++)
            g[i] = TO_KEY(v[i], erosion);
    if (REAL)
        for (int64_t i = 0; i < n; i++)
            nan += NAME(differ)(v[i], v[i]);
    switch (p->marker) {
    case VP_MARKER_GIVEN:
        for (int64_t i = 0; i < n; i++) {
            const K k = TO_KEY(m[i], erosion), least = REAL && NAME(differ)(m[i], m[i]) ? lowest : k;
            clipped += least > g[i] && (!REAL || g[i] > 0);
            to[i] = least < g[i] ? least : g[i];
        }
        if (REAL)
            for (int64_t i = 0; i < n; i++)
                nan += NAME(differ)(m[i], m[i]);
        break;
    case VP_MARKER_SHIFT:
        for (int64_t i = 0; i < n; i++) {
            const K k = REAL ? TO_KEY((T)(erosion ? v[i] + h : v[i] - h), erosion)
                             : p->h >= (double)g[i] - (double)floor ? floor : (K)(g[i] - (K)p->h);
            to[i] = k < g[i] ? k : g[i];
        }
        break;
    case VP_MARKER_LESS:
        for (int64_t i = 0; i < n; i++)
            to[i] = (K)(g[i] - (g[i] > lowest));
        break;
    case VP_MARKER_BORDER:
    case VP_MARKER_SEED:
        for (int64_t i = 0; i < n; i++)
            to[i] = floor < g[i] ? floor : g[i];
        if (p->marker == VP_MARKER_SEED) {
            const int64_t x = p->seed[0] - at[0];
            if (at[1] == p->seed[1] && at[2] == p->seed[2] && x >= 0 && x < n)
                to[x] = g[x];
        } else if (vp_morphrecon_at_border((const int64_t[3]){1, image[1], image[2]}, 0, at[1], at[2])) {
            memcpy(to, g, (size_t)n * sizeof(K));
        } else {
            to[0] = vp_morphrecon_at_border(image, at[0], at[1], at[2]) ? g[0] : to[0];
            to[n - 1] = vp_morphrecon_at_border(image, at[0] + n - 1, at[1], at[2]) ? g[n - 1] : to[n - 1];
        }
        break;
    }
    told->clipped += clipped;
    told->nan += nan;
}

static void NAME(raise)(void *key, const void *to)
{
    if (*(K *)key < *(const K *)to)
        *(K *)key = *(const K *)to;
}

/* The results of a row, which may lie where the keys do. */
static void NAME(store)(const struct vp_morphrecon_params *p, int64_t n, const void *keys, const void *masks,
                        const void *samples, void *out)
{
    const K *const r = keys, *const g = masks;
    const T *const v = samples;
    const bool erosion = p->erosion;
    T *const same = out;

    if (p->result == VP_RECON_MARK)
        for (int64_t i = 0; i < n; i++)
            ((uint8_t *)out)[i] = r[i] != g[i];
    else if (p->result == VP_RECON_VALUE)
        for (int64_t i = 0; i < n; i++)
            same[i] = OF_KEY(r[i], erosion);
    else if (!REAL)
        for (int64_t i = 0; i < n; i++)
            ((K *)out)[i] = (K)(g[i] - r[i]);
    else
        for (int64_t i = 0; i < n; i++) {
            const K k = r[i];
            const T w = OF_KEY(k, erosion), u = v[i];
            same[i] = (T)(NAME(differ)(u, u) ? u : k == g[i] ? 0 : erosion ? w - u : u - w);
        }
}

#undef T
#undef K
#undef NAME
#undef OF_KEY
#undef TO_KEY
#undef REAL
