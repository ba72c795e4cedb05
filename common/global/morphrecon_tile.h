/* Template of morphrecon_fill_isa.c: tiles of one type and size. T: the type, S: its bytes; BX, BY, BZ: the size,
 * powers of two, BZ being 1 in images of one plane; NAME: for the functions. */

#define F(name) PASTE(name##_, NAME)
#define ROWS (BY * BZ)
#define N (BX * ROWS)
#define LONG (BX > BY ? BX : BY)
#define WIDE (BZ > BY ? BZ : BZ > 1 ? BY : 1) /* rows of a face */
#define PAD (64 / S)
#define NX (BX * S / BYTES)                   /* vectors of a row */
#define NT (ROWS * S / BYTES)                 /* ... of a row of the transposed tile */

enum { F(BX) = BX, F(BY) = BY, F(BZ) = BZ };

struct F(room) {
    T j[N], g[N];                             /* result and mask: x, y, z */
    T jt[N], gt[N];                           /* transposed: y, z, x */
    T before[N];
    T offer[VP_RECON_FACES][LONG * WIDE];     /* what the samples at a face can be raised to from outside */
    T around[(LONG + 2 * PAD) * (WIDE + 2)];
    T row[BX];
    uint16_t queue[N];
    uint8_t queued[N];
};

struct F(place) {
    int64_t tile[3], lo[3];
    int n[3];                                 /* samples of the tile that are in the image */
    char *faces;
};

INLINE int64_t F(number)(const struct vp_recon *r, const int64_t t[3])
{
    return (t[2] * r->tiles[1] + t[1]) * r->tiles[0] + t[0];
}

APART void F(turn)(T *restrict to, const T *restrict from, const int rows, const int columns)
{
    enum { B = 16 / S };

    for (int y = 0; y < rows; y += BYTES / S)
        for (int x = 0; x < columns; x += B) {
            vec v[B], u[B];
            #pragma GCC unroll 16
            for (int i = 0; i < B; i++)
                v[i] = pieces((const char *)(from + (y + i) * columns + x), (size_t)(B * columns * S));
            #pragma GCC unroll 4
            for (int k = 1; k < B; k *= 2) {
                #pragma GCC unroll 8
                for (int i = 0; i < B / 2; i++) {
                    u[2 * i] = lower(S, v[i], v[i + B / 2]);
                    u[2 * i + 1] = upper(S, v[i], v[i + B / 2]);
                }
                #pragma GCC unroll 16
                for (int i = 0; i < B; i++)
                    v[i] = u[i];
            }
            #pragma GCC unroll 16
            for (int i = 0; i < B; i++)
                put(to + (x + i) * rows + y, v[i]);
        }
}

/* ---- sweeps; they tell whether anything was raised ---- */

/* A row with its neighbours along x */
INLINE void F(spread)(vec *to, const vec *row)
{
    #pragma GCC unroll 8
    for (int k = 0; k < NX; k++)
        to[k] = most(S, row[k], most(S, up(S, k > 0 ? row[k - 1] : zero(), row[k]),
                                     down(S, row[k], k + 1 < NX ? row[k + 1] : zero())));
}

INLINE vec F(raise)(T *j, const T *g, vec by, vec *changed)
{
    const vec old = get(j), now = least(S, get(g), most(S, old, by));

    *changed = collect(*changed, old, now);
    put(j, now);
    return now;
}

INLINE bool F(sweep_y)(struct F(room) *c, const int reach, const bool back)
{
    vec changed = zero();

    for (int z = 0; z < BZ; z++) {
        vec by[NX], now[NX];
        #pragma GCC unroll 8
        for (int k = 0; k < NX; k++)
            by[k] = zero();
        for (int i = 0; i < BY; i++) {
            const int at = (z * BY + (back ? BY - 1 - i : i)) * BX;
            #pragma GCC unroll 8
            for (int k = 0; k < NX; k++)
                now[k] = F(raise)(c->j + at + k * (BYTES / S), c->g + at + k * (BYTES / S), by[k], &changed);
            if (reach > 1)
                F(spread)(by, now);
            else
                memcpy(by, now, sizeof by);
        }
    }
    return any(changed);
}

#if BZ > 1
INLINE bool F(sweep_z)(struct F(room) *c, const int reach, const bool back)
{
    vec plain[2][BY + 2][NX], wide[2][BY + 2][NX], changed = zero(); /* rows of the plane before, and nothing around */

    memset(plain, 0, sizeof plain);
    memset(wide, 0, sizeof wide);
    for (int i = 0; i < BZ; i++) {
        const int z = back ? BZ - 1 - i : i, b = i & 1, a = !b;
        for (int y = 0; y < BY; y++) {
            const int at = (z * BY + y) * BX;
            #pragma GCC unroll 8
            for (int k = 0; k < NX; k++) {
                const vec by = reach == 1 ? plain[b][y + 1][k]
                             : reach == 2 ? most(S, wide[b][y + 1][k], most(S, plain[b][y][k], plain[b][y + 2][k]))
                             : most(S, wide[b][y + 1][k], most(S, wide[b][y][k], wide[b][y + 2][k]));
                plain[a][y + 1][k] = F(raise)(c->j + at + k * (BYTES / S), c->g + at + k * (BYTES / S), by, &changed);
            }
            if (reach > 1)
                F(spread)(wide[a][y + 1], plain[a][y + 1]);
        }
    }
    return any(changed);
}
#endif

INLINE bool F(sweep_x)(struct F(room) *c)
{
    vec by[NT], changed = zero();

    F(turn)(c->jt, c->j, ROWS, BX);
    for (int back = 0; back < 2; back++) {
        for (int k = 0; k < NT; k++)
            by[k] = zero();
        for (int i = 0; i < BX; i++) {
            const int at = (back ? BX - 1 - i : i) * ROWS;
            for (int k = 0; k < NT; k++)
                by[k] = F(raise)(c->jt + at + k * (BYTES / S), c->gt + at + k * (BYTES / S), by[k], &changed);
        }
    }
    if (!any(changed))
        return false;
    F(turn)(c->j, c->jt, BX, ROWS);
    return true;
}

/* ---- pixel by pixel ---- */

INLINE void F(push)(struct F(room) *c, unsigned *tail, unsigned p)
{
    if (!c->queued[p]) {
        c->queued[p] = 1;
        c->queue[(*tail)++ % N] = (uint16_t)p;
    }
}

INLINE void F(show)(const struct vp_recon *r, const struct F(place) *at, int x, int y, int z, T v, unsigned *changed)
{
    const int where[VP_RECON_FACES] = {z * BY + y, z * BY + y, z * BX + x, z * BX + x, y * BX + x, y * BX + x};
    const unsigned faces = (x == 0) | (x == at->n[0] - 1) << 1 | (y == 0) << 2 | (y == at->n[1] - 1) << 3
                           | (BZ > 1 && z == 0) << 4 | (BZ > 1 && z == at->n[2] - 1) << 5;

    *changed |= faces;
    for (int f = 0; f < VP_RECON_FACES; f++)
        if (faces >> f & 1)
            __atomic_store_n((T *)(void *)(at->faces + r->face[f]) + where[f], v, __ATOMIC_RELAXED);
}

/* Lets the pixels in the queue raise others, in the tile that begins at j[] and g[], until none is left; `r` is where
 * faces are shown, if they are. False: that took more than `steps` and was given up. */
INLINE bool F(flood_of)(const struct vp_recon *r, struct F(room) *c, const struct F(place) *at, T *const *j,
                     const T *const *g, int64_t stride, unsigned tail, const int reach, int64_t steps,
                      unsigned *changed)
{
    for (unsigned head = 0; head != tail; head++) {
        const unsigned p = c->queue[head % N];
        const int x = (int)(p % BX), y = (int)(p / BX % BY), z = (int)(p / (BX * BY));
        const int64_t here = y * stride + x;
        const bool inside = x > 0 && x < at->n[0] - 1 && y > 0 && y < at->n[1] - 1
                            && (BZ == 1 || (z > 0 && z < at->n[2] - 1));
        const T v = j[z][here];

        if (steps-- == 0) {
            for (; head != tail; head++)
                c->queued[c->queue[head % N]] = 0;
            return false;
        }
        c->queued[p] = 0;
        if (!inside && r)
            F(show)(r, at, x, y, z, v, changed);
        #pragma GCC unroll 3
        for (int dz = BZ > 1 ? -1 : 0; dz <= (BZ > 1); dz++) {
            if (!inside && (z + dz < 0 || z + dz >= at->n[2]))
                continue;
            T *const jz = j[z + dz];
            const T *const gz = g[z + dz];
            #pragma GCC unroll 3
            for (int dy = -1; dy <= 1; dy++)
                #pragma GCC unroll 3
                for (int dx = -1; dx <= 1; dx++) {
                    const int apart = !!dx + !!dy + !!dz;
                    if (apart == 0 || apart > reach
                        || (!inside && (y + dy < 0 || y + dy >= at->n[1] || x + dx < 0 || x + dx >= at->n[0])))
                        continue;
                    const int64_t there = here + dy * stride + dx;
                    if (jz[there] < v && jz[there] < gz[there]) {
                        jz[there] = v < gz[there] ? v : gz[there];
                        F(push)(c, &tail, (unsigned)((int)p + dx + BX * dy + BX * BY * dz));
                    }
                }
        }
    }
    return true;
}

/* Queues what differs from `before`, unless that is more than `most`. */
APART bool F(queue_changed)(struct F(room) *c, unsigned *tail, int most)
{
    int count = 0;

    for (int i = 0; i < N; i += BYTES / S)
        count += lanes(S, differ(get(c->j + i), get(c->before + i)));
    if (count > most)
        return false;
    for (int i = 0; i < N; i += BYTES / S) {
        uint64_t bits = differ(get(c->j + i), get(c->before + i));
        while (bits) {
            const int k = __builtin_ctzll(bits) / S;
            bits &= ~((((uint64_t)1 << S) - 1) << k * S);
            F(push)(c, tail, (unsigned)(i + k));
        }
    }
    return true;
}

/* From here to a tile that is stable; whether jt is it, too. */
INLINE bool F(settle_of)(struct F(room) *c, const struct F(place) *at, const int reach)
{
    unsigned tail = 0;

    for (int round = 0;; round++) {
        bool raised = false, later = false, first; /* before the last axis; and after what would have to see it */

        if (round > 0)
            memcpy(c->before, c->j, sizeof c->j);
#if BZ > 1
        raised = F(sweep_z)(c, reach, false);
        later = F(sweep_z)(c, reach, true);
        raised |= later;
        later &= reach > 1;
        first = F(sweep_y)(c, reach, false);
        later |= first | F(sweep_y)(c, reach, true);
        raised |= later;
#else
        first = F(sweep_y)(c, reach, false);
        later = F(sweep_y)(c, reach, true);
        raised = first | later;
        later &= reach > 1; /* alone, there and back is all */
#endif
        if (round > 0 && !raised)
            return true;
        /* What was raised since all was stable along x is all that can raise anything. */
        if (round > 0 && F(queue_changed)(c, &tail, round < ROUNDS ? FEW : N))
            break;
        if (!F(sweep_x)(c) && !later)
            return true;
    }
    T *j[BZ];
    const T *g[BZ];
    for (int z = 0; z < BZ; z++) {
        j[z] = c->j + z * BX * BY;
        g[z] = c->g + z * BX * BY;
    }
    F(flood_of)(NULL, c, at, j, g, BX, tail, reach, INT64_MAX, NULL);
    return false;
}

/* These are compiled for each reach. */
#define F_REACH(reach) \
    APART bool F(flood_##reach)(const struct vp_recon *r, struct F(room) *c, const struct F(place) *at, T *const *j, \
                                const T *const *g, int64_t stride, unsigned tail, unsigned *changed) \
    { \
        return F(flood_of)(r, c, at, j, g, stride, tail, reach, STEPS, changed); \
    } \
    APART bool F(settle_##reach)(struct F(room) *c, const struct F(place) *at) \
    { \
        return F(settle_of)(c, at, reach); \
    }

F_REACH(1)
F_REACH(2)
#if BZ > 1
F_REACH(3)
#define OF_REACH(reach, f, ...) \
    ((reach) == 1 ? F(f##_1)(__VA_ARGS__) : (reach) == 2 ? F(f##_2)(__VA_ARGS__) : F(f##_3)(__VA_ARGS__))
#else
#define OF_REACH(reach, f, ...) ((reach) == 1 ? F(f##_1)(__VA_ARGS__) : F(f##_2)(__VA_ARGS__))
#endif

/* ---- what comes from outside ---- */

/* What the samples at face f can be raised to by those beyond it; how many would be, unless the tile is fresh. */
APART int F(ask)(const struct vp_recon *r, struct F(room) *c, const struct F(place) *at, const int f, const int reach,
                  const bool fresh)
{
    const int axis = f / 2, along = axis == 0, across = axis == 2 ? 1 : 2;
    const int na = axis == 0 ? BY : BX, nb = axis == 2 ? BY : BZ, pitch = na + 2 * PAD;
    T *const e = c->around + pitch + PAD, *const offer = c->offer[f];
    int count = 0;

    memset(c->around, 0, (size_t)(pitch * (nb + 2)) * sizeof(T));
    for (int db = nb > 1 ? -1 : 0; db <= (nb > 1); db++)
        for (int da = -1; da <= 1; da++) {
            if (!!da + !!db >= reach)
                continue;
            int64_t t[3] = {at->tile[0], at->tile[1], at->tile[2]};
            t[axis] += f & 1 ? 1 : -1;
            t[along] += da;
            t[across] += db;
            if (t[0] < 0 || t[1] < 0 || t[2] < 0 || t[0] >= r->tiles[0] || t[1] >= r->tiles[1] || t[2] >= r->tiles[2])
                continue;
            const int64_t number = F(number)(r, t);
            if (__atomic_load_n(r->state + number, __ATOMIC_RELAXED) & VP_RECON_FRESH)
                continue;
            const T *const from = (const T *)(void *)(r->faces + number * r->face[VP_RECON_KEPT] + r->face[f ^ 1]);
            for (int b = db < 0 ? nb - 1 : 0; b < (db > 0 ? 1 : nb); b++) {
                T *const to = e + (db ? db < 0 ? -1 : nb : b) * pitch;
                if (da == 0)
                    read_face(to, from + b * na, (size_t)na * sizeof(T));
                else
                    to[da < 0 ? -1 : na] = __atomic_load_n(from + b * na + (da < 0 ? na - 1 : 0), __ATOMIC_RELAXED);
            }
        }
    for (int b = 0; b < nb; b++) {
        const T *const m = e + b * pitch, *const l = m - pitch, *const u = m + pitch;
        T *const to = offer + b * na;
        for (int a = 0; a < na; a++) {
            T v = m[a];
#define ALSO(x) v = v > (x) ? v : (x)
            if (reach > 1) {
                ALSO(m[a - 1]);
                ALSO(m[a + 1]);
                if (nb > 1) {
                    ALSO(l[a]);
                    ALSO(u[a]);
                }
            }
            if (reach > 2) {
                ALSO(l[a - 1]);
                ALSO(l[a + 1]);
                ALSO(u[a - 1]);
                ALSO(u[a + 1]);
            }
#undef ALSO
            to[a] = v;
        }
    }
    for (int b = 0; b < (axis == 0 ? 1 : nb); b++) {
        const int n = axis == 0 ? ROWS : BX, y = axis == 1 ? f & 1 ? at->n[1] - 1 : 0 : b,
                  z = axis == 2 ? f & 1 ? at->n[2] - 1 : 0 : b;
        const T *const own = (const T *)(void *)(at->faces + r->face[f]) + b * n, *g = c->g + (z * BY + y) * BX;
        if (axis == 0) {
            g = (const T *)(void *)(at->faces + r->face[6 + f]);
        } else if (!fresh) {
            if (y >= at->n[1] || z >= at->n[2]) {
                memset(offer + b * n, 0, (size_t)((nb - b) * n) * sizeof(T));
                break;
            }
            g = (const T *)r->mask[at->lo[2] + z] + (at->lo[1] + y) * r->stride + at->lo[0];
            if (at->n[0] < BX) {
                memset(c->row, 0, sizeof c->row);
                memcpy(c->row, g, (size_t)at->n[0] * sizeof(T));
                g = c->row;
            }
        }
        for (int a = 0; a < n; a += BYTES / S) {
            const vec v = least(S, get(offer + b * n + a), get(g + a));
            put(offer + b * n + a, v);
            if (!fresh) {
                const vec now = get(own + a);
                count += lanes(S, differ(most(S, v, now), now));
            }
        }
    }
    return count;
}

/* The tile's copy is raised to it. */
APART void F(take)(struct F(room) *c, const struct F(place) *at, const int f)
{
    const int axis = f / 2;
    const T *const offer = c->offer[f];

    if (axis == 0) {
        T *const j = c->j + (f & 1 ? at->n[0] - 1 : 0);
        for (int i = 0; i < ROWS; i++)
            if (j[i * BX] < offer[i])
                j[i * BX] = offer[i];
        return;
    }
    for (int b = 0; b < (axis == 1 ? BZ : BY); b++) {
        const int y = axis == 1 ? f & 1 ? at->n[1] - 1 : 0 : b, z = axis == 2 ? f & 1 ? at->n[2] - 1 : 0 : b;
        T *const j = c->j + (z * BY + y) * BX;
        for (int a = 0; a < BX; a += BYTES / S)
            put(j + a, most(S, get(j + a), get(offer + b * BX + a)));
    }
}

/* The image is raised to it, and what was raised is queued. */
APART void F(sow)(const struct vp_recon *r, struct F(room) *c, const struct F(place) *at, T *const *j, const int f,
                   unsigned *tail)
{
    const int axis = f / 2, n = axis == 0 ? ROWS : BX * (axis == 1 ? BZ : BY);
    const T *const offer = c->offer[f], *const own = (const T *)(void *)(at->faces + r->face[f]);

    for (int i = 0; i < n; i += BYTES / S) {
        const vec now = get(own + i);
        uint64_t bits = differ(most(S, get(offer + i), now), now);
        while (bits) {
            const int k = i + __builtin_ctzll(bits) / S;
            bits &= ~((((uint64_t)1 << S) - 1) << (k - i) * S);
            const int x = axis == 0 ? f & 1 ? at->n[0] - 1 : 0 : k % BX,
                      y = axis == 1 ? f & 1 ? at->n[1] - 1 : 0 : axis == 0 ? k % BY : k / BX,
                      z = axis == 2 ? f & 1 ? at->n[2] - 1 : 0 : axis == 0 ? k / BY : k / BX;
            T *const to = j[z] + y * r->stride + x;
            if (*to < offer[k]) {
                *to = offer[k];
                F(push)(c, tail, (unsigned)((z * BY + y) * BX + x));
            }
        }
    }
}

/* ---- a visit ---- */

/* A tile of an image into its room, 0 where the image ends; whether it is anything else. */
APART bool F(load)(const struct vp_recon *r, const struct F(place) *at, const void *const *plane, T *to)
{
    vec sum = zero();

    for (int i = 0; i < ROWS; i++) {
        const int y = i % BY, z = i / BY;
        if (y >= at->n[1] || z >= at->n[2]) {
            memset(to + i * BX, 0, BX * sizeof(T));
            continue;
        }
        const T *const from = (const T *)plane[at->lo[2] + z] + (at->lo[1] + y) * r->stride + at->lo[0];
        if (at->n[0] < BX) {
            memset(to + i * BX, 0, BX * sizeof(T));
            memcpy(to + i * BX, from, (size_t)at->n[0] * sizeof(T));
            for (int k = 0; k < NX; k++)
                sum = collect(sum, get(to + i * BX + k * (BYTES / S)), zero());
            continue;
        }
        for (int k = 0; k < BX; k += PAD) /* of the next tile */
            __builtin_prefetch(from + BX + k, 0, 2);
        #pragma GCC unroll 8
        for (int k = 0; k < NX; k++) {
            const vec v = get(from + k * (BYTES / S));
            put(to + i * BX + k * (BYTES / S), v);
            sum = collect(sum, v, zero());
        }
    }
    return any(sum);
}

APART void F(store)(const struct vp_recon *r, const struct F(place) *at, const T *from)
{
    for (int z = 0; z < at->n[2]; z++)
        for (int y = 0; y < at->n[1]; y++) {
            const T *const row = from + (z * BY + y) * BX;
            T *const to = (T *)r->marker[at->lo[2] + z] + (at->lo[1] + y) * r->stride + at->lo[0];
            if (at->n[0] < BX) {
                memcpy(to, row, (size_t)at->n[0] * sizeof(T));
                continue;
            }
            #pragma GCC unroll 8
            for (int k = 0; k < NX; k++) {
                const vec v = get(row + k * (BYTES / S));
                if (differ(get(to + k * (BYTES / S)), v))
                    put(to + k * (BYTES / S), v);
            }
        }
}

/* All faces; those that have changed. */
APART unsigned F(publish)(const struct vp_recon *r, struct F(room) *c, const struct F(place) *at, bool turned)
{
    unsigned changed = 0;

    for (int f = 0; f < 2; f++) {
        const int x = f ? at->n[0] - 1 : 0;
        T *from = c->jt + x * ROWS;
        if (!turned)
            for (int i = 0; i < ROWS; i++)
                from[i] = c->j[i * BX + x];
        changed |= (unsigned)write_face(at->faces + r->face[f], from, ROWS * sizeof(T)) << f;
    }
    for (int f = 2; f < 4; f++)
        for (int z = 0; z < BZ; z++)
            changed |= (unsigned)write_face(at->faces + r->face[f] + (size_t)z * BX * sizeof(T),
                                            c->j + (z * BY + (f == 2 ? 0 : at->n[1] - 1)) * BX, BX * sizeof(T)) << f;
    for (int f = 4; f < 6 && BZ > 1; f++)
        changed |= (unsigned)write_face(at->faces + r->face[f], c->j + (f == 4 ? 0 : at->n[2] - 1) * BX * BY,
                                        BX * BY * sizeof(T)) << f;
    return changed;
}

/* Whether a tile beside this one was visited before. */
APART bool F(company)(const struct vp_recon *r, const struct F(place) *at)
{
    for (int dz = BZ > 1 ? -1 : 0; dz <= (BZ > 1); dz++)
        for (int dy = -1; dy <= 1; dy++)
            for (int dx = -1; dx <= 1; dx++) {
                const int64_t t[3] = {at->tile[0] + dx, at->tile[1] + dy, at->tile[2] + dz};
                if ((dx || dy || dz) && t[0] >= 0 && t[1] >= 0 && t[2] >= 0 && t[0] < r->tiles[0] && t[1] < r->tiles[1]
                    && t[2] < r->tiles[2]
                    && !(__atomic_load_n(r->state + F(number)(r, t), __ATOMIC_RELAXED) & VP_RECON_FRESH))
                    return true;
            }
    return false;
}

APART uint32_t F(run)(const struct vp_recon *r, struct F(room) *c, const struct F(place) *at, unsigned state,
                       const int reach)
{
    unsigned changed = 0, few = 0;

    if (state & VP_RECON_FRESH) {
        if (!F(load)(r, at, (const void *const *)r->marker, c->j) && !F(company)(r, at))
            return VP_RECON_STILL_FRESH;
        F(load)(r, at, r->mask, c->g);
        F(turn)(c->gt, c->g, ROWS, BX);
        memcpy(at->faces + r->face[6], c->gt, ROWS * sizeof(T));
        memcpy(at->faces + r->face[7], c->gt + (at->n[0] - 1) * ROWS, ROWS * sizeof(T));
        for (int f = 0; f < (BZ > 1 ? 6 : 4); f++) {
            F(ask)(r, c, at, f, reach, true);
            F(take)(c, at, f);
        }
    } else {
        int count = 0;
        for (int f = 0; f < (BZ > 1 ? 6 : 4); f++)
            if (state >> f & 1) {
                const int n = F(ask)(r, c, at, f, reach, false);
                few |= (unsigned)(n > 0) << f;
                count += n;
            }
        if (count == 0)
            return 0;
        if (count <= FEW) {
            T *j[BZ] = {0};
            const T *g[BZ] = {0};
            unsigned tail = 0;
            for (int z = 0; z < at->n[2]; z++) {
                j[z] = (T *)r->marker[at->lo[2] + z] + at->lo[1] * r->stride + at->lo[0];
                g[z] = (const T *)r->mask[at->lo[2] + z] + at->lo[1] * r->stride + at->lo[0];
            }
            for (int f = 0; f < (BZ > 1 ? 6 : 4); f++)
                if (few >> f & 1)
                    F(sow)(r, c, at, j, f, &tail);
            if (OF_REACH(reach, flood, r, c, at, j, g, r->stride, tail, &changed))
                return neighbours(changed, reach);
        }
        F(load)(r, at, (const void *const *)r->marker, c->j);
        F(load)(r, at, r->mask, c->g);
        for (int f = 0; f < (BZ > 1 ? 6 : 4); f++)
            if (few >> f & 1)
                F(take)(c, at, f);
        F(turn)(c->gt, c->g, ROWS, BX);
    }
    changed |= F(publish)(r, c, at, OF_REACH(reach, settle, c, at));
    F(store)(r, at, c->j);
    return neighbours(changed, reach);
}

static uint32_t F(visit)(const struct vp_recon *r, void *room, const int64_t tile[3], unsigned state)
{
    const int n[3] = {BX, BY, BZ};
    struct F(place) at = {.faces = r->faces + F(number)(r, tile) * r->face[VP_RECON_KEPT]};

    for (int a = 0; a < 3; a++) {
        at.tile[a] = tile[a];
        at.lo[a] = tile[a] * n[a];
        at.n[a] = (int)(r->size[a] - at.lo[a] < n[a] ? r->size[a] - at.lo[a] : n[a]);
    }
    return F(run)(r, room, &at, state, r->reach);
}

#undef T
#undef S
#undef BX
#undef BY
#undef BZ
#undef NAME
#undef F
#undef F_REACH
#undef OF_REACH
#undef ROWS
#undef N
#undef LONG
#undef WIDE
#undef PAD
#undef NX
#undef NT
