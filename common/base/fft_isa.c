/* SPDX-License-Identifier: BSD-3-Clause */
/* Transforms of lines, built once for each instruction set. */
#include "base/fft.h"

#include "base/isa.h"
#include "base/transpose.h"

#include <stddef.h>
#include <string.h>

struct cv { vf re, im; };

/* Elements that stay in the first-level cache from stage to stage. */
enum { NEAR = 40 * 1024 / (8 * LANES) };

INLINE struct cv add(struct cv a, struct cv b) { return (struct cv){a.re + b.re, a.im + b.im}; }
INLINE struct cv sub(struct cv a, struct cv b) { return (struct cv){a.re - b.re, a.im - b.im}; }
/* a + s b, a + i s b */
INLINE struct cv add_by(struct cv a, struct cv b, float s) { return (struct cv){a.re + b.re * s, a.im + b.im * s}; }
INLINE struct cv add_i_by(struct cv a, struct cv b, float s) { return (struct cv){a.re - b.im * s, a.im + b.re * s}; }
/* a + i b, or a - i b */
INLINE struct cv add_i(struct cv a, struct cv b, bool minus)
{
    return minus ? (struct cv){a.re + b.im, a.im - b.re} : (struct cv){a.re - b.im, a.im + b.re};
}
INLINE struct cv mul(struct cv a, struct cv b)
{
    return (struct cv){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
/* a (c + i s), or a (c - i s) */
INLINE struct cv turned(struct cv a, float c, float s, bool conj)
{
    return conj ? (struct cv){a.re * c + a.im * s, a.im * c - a.re * s}
                : (struct cv){a.re * c - a.im * s, a.im * c + a.re * s};
}

/* ---- small transforms: r numbers that lie `s` apart, roots exp(2 pi i / r), or their conjugates (`back`) ---- */

INLINE void dft2(struct cv *y, int s)
{
    const struct cv a = y[0], b = y[s];

    y[0] = add(a, b);
    y[s] = sub(a, b);
}

INLINE void dft3(struct cv *y, int s, bool back)
{
    const float h = back ? -0.866025403784438647f : 0.866025403784438647f;
    const struct cv sum = add(y[s], y[2 * s]), gap = sub(y[s], y[2 * s]), mid = add_by(y[0], sum, -0.5f);

    y[0] = add(y[0], sum);
    y[s] = add_i_by(mid, gap, h);
    y[2 * s] = add_i_by(mid, gap, -h);
}

INLINE void dft4(struct cv *y, int s, bool back)
{
    const struct cv a = add(y[0], y[2 * s]), b = sub(y[0], y[2 * s]);
    const struct cv c = add(y[s], y[3 * s]), d = sub(y[s], y[3 * s]);

    y[0] = add(a, c);
    y[s] = add_i(b, d, back);
    y[2 * s] = sub(a, c);
    y[3 * s] = add_i(b, d, !back);
}

INLINE void dft5(struct cv *y, int s, bool back)
{
    const float c1 = 0.309016994374947424f, c2 = -0.809016994374947424f;
    const float s1 = back ? -0.951056516295153572f : 0.951056516295153572f, ratio = 0.618033988749894848f;
    const struct cv p = add(y[s], y[4 * s]), q = add(y[2 * s], y[3 * s]);
    const struct cv d = sub(y[s], y[4 * s]), e = sub(y[2 * s], y[3 * s]);
    const struct cv m1 = add_by(add_by(y[0], p, c1), q, c2), m2 = add_by(add_by(y[0], p, c2), q, c1);
    /* both still to be multiplied by s1: sin(4 pi / 5) = ratio * sin(2 pi / 5) */
    const struct cv n1 = add_by(d, e, ratio), n2 = {d.re * ratio - e.re, d.im * ratio - e.im};

    y[0] = add(y[0], add(p, q));
    y[s] = add_i_by(m1, n1, s1);
    y[2 * s] = add_i_by(m2, n2, s1);
    y[3 * s] = add_i_by(m2, n2, -s1);
    y[4 * s] = add_i_by(m1, n1, -s1);
}

INLINE void dft7(struct cv *y, bool back)
{
    const float c1 = 0.623489801858733531f, c2 = -0.222520933956314404f, c3 = -0.900968867902419126f;
    const float s1 = back ? -0.781831482468029809f : 0.781831482468029809f;
    const float s2 = back ? -0.974927912181823607f : 0.974927912181823607f;
    const float s3 = back ? -0.433883739117558120f : 0.433883739117558120f;
    const struct cv p1 = add(y[1], y[6]), p2 = add(y[2], y[5]), p3 = add(y[3], y[4]);
    const struct cv d1 = sub(y[1], y[6]), d2 = sub(y[2], y[5]), d3 = sub(y[3], y[4]);
    const struct cv m1 = add_by(add_by(add_by(y[0], p1, c1), p2, c2), p3, c3);
    const struct cv m2 = add_by(add_by(add_by(y[0], p1, c2), p2, c3), p3, c1);
    const struct cv m3 = add_by(add_by(add_by(y[0], p1, c3), p2, c1), p3, c2);

    y[0] = add(y[0], add(add(p1, p2), p3));
    y[1] = add_i_by(add_i_by(add_i_by(m1, d1, s1), d2, s2), d3, s3);
    y[6] = add_i_by(add_i_by(add_i_by(m1, d1, -s1), d2, -s2), d3, -s3);
    y[2] = add_i_by(add_i_by(add_i_by(m2, d1, s2), d2, -s3), d3, -s1);
    y[5] = add_i_by(add_i_by(add_i_by(m2, d1, -s2), d2, s3), d3, s1);
    y[3] = add_i_by(add_i_by(add_i_by(m3, d1, s3), d2, -s1), d3, s2);
    y[4] = add_i_by(add_i_by(add_i_by(m3, d1, -s3), d2, s1), d3, -s2);
}

INLINE void dft8(struct cv *y, bool back)
{
    const float h = 0.707106781186547524f, hb = back ? -h : h;
    const struct cv a0 = add(y[0], y[4]), b0 = sub(y[0], y[4]), a1 = add(y[1], y[5]), b1 = sub(y[1], y[5]);
    const struct cv a2 = add(y[2], y[6]), b2 = sub(y[2], y[6]), a3 = add(y[3], y[7]), b3 = sub(y[3], y[7]);
    const struct cv p = add(a0, a2), q = sub(a0, a2), u = add(a1, a3), v = sub(a1, a3);
    const struct cv f = add_i(b0, b2, back), g = add_i(b0, b2, !back);
    /* b1 and b3 turned by one and three eighths are (sum +- gap) times h */
    const struct cv one = add_i(b1, b1, back);
    const struct cv three = back ? (struct cv){b3.im - b3.re, -b3.im - b3.re} : (struct cv){-b3.re - b3.im, b3.re - b3.im};
    const struct cv sum = add(one, three), gap = sub(one, three);

    y[0] = add(p, u);
    y[4] = sub(p, u);
    y[2] = add_i(q, v, back);
    y[6] = add_i(q, v, !back);
    y[1] = add_by(f, sum, h);
    y[5] = add_by(f, sum, -h);
    y[3] = add_i_by(g, gap, hb);
    y[7] = add_i_by(g, gap, -hb);
}

/* Maps: two factors without a common divisor need no twiddles between them (Good 1958): index i b + j a of a b. */
INLINE void dft_good(struct cv *y, int a, int b, bool back)
{
    struct cv t[16];

#pragma GCC unroll 8
    for (int i = 0; i < a; i++)
#pragma GCC unroll 8
        for (int j = 0; j < b; j++)
            t[i * b + j] = y[(i * b + j * a) % (a * b)];
#pragma GCC unroll 8
    for (int i = 0; i < a; i++)
        b == 2 ? dft2(t + i * b, 1) : b == 4 ? dft4(t + i * b, 1, back) : dft5(t + i * b, 1, back);
#pragma GCC unroll 8
    for (int j = 0; j < b; j++)
        a == 3 ? dft3(t + j, b, back) : dft5(t + j, b, back);
#pragma GCC unroll 16
    for (int k = 0; k < a * b; k++)
        y[k] = t[k % a * b + k % b];
}

INLINE void dft9(struct cv *y, bool back)
{
    struct cv t[9];

#pragma GCC unroll 3
    for (int i = 0; i < 3; i++)
        dft3(y + i, 3, back);
    y[4] = turned(y[4], 0.766044443118978035f, 0.642787609686539327f, back);
    y[5] = turned(y[5], 0.173648177666930349f, 0.984807753012208059f, back);
    y[7] = turned(y[7], 0.173648177666930349f, 0.984807753012208059f, back);
    y[8] = turned(y[8], -0.939692620785908384f, 0.342020143325668733f, back);
#pragma GCC unroll 3
    for (int i = 0; i < 3; i++)
        dft3(y + 3 * i, 1, back);
#pragma GCC unroll 9
    for (int i = 0; i < 9; i++)
        t[i] = y[i];
#pragma GCC unroll 9
    for (int i = 0; i < 9; i++)
        y[i] = t[i % 3 * 3 + i / 3];
}

INLINE void dft16(struct cv *y, bool back)
{
    const float c = 0.923879532511286756f, s = 0.382683432365089772f, h = 0.707106781186547524f;
    const struct cv none = {{0}, {0}};
    struct cv t[16];

#pragma GCC unroll 4
    for (int i = 0; i < 4; i++)
        dft4(y + i, 4, back);
    y[5] = turned(y[5], c, s, back);
    y[6] = turned(y[6], h, h, back);
    y[7] = turned(y[7], s, c, back);
    y[9] = turned(y[9], h, h, back);
    y[10] = add_i(none, y[10], back);
    y[11] = turned(y[11], -h, h, back);
    y[13] = turned(y[13], s, c, back);
    y[14] = turned(y[14], -h, h, back);
    y[15] = turned(y[15], -c, -s, back);
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++)
        dft4(y + 4 * i, 1, back);
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++)
        t[i] = y[i];
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++)
        y[i] = t[i % 4 * 4 + i / 4];
}

INLINE void dft(int r, bool back, struct cv *y)
{
    switch (r) {
    case 2: dft2(y, 1); break;
    case 3: dft3(y, 1, back); break;
    case 4: dft4(y, 1, back); break;
    case 5: dft5(y, 1, back); break;
    case 6: dft_good(y, 3, 2, back); break;
    case 7: dft7(y, back); break;
    case 8: dft8(y, back); break;
    case 9: dft9(y, back); break;
    case 10: dft_good(y, 5, 2, back); break;
    case 12: dft_good(y, 3, 4, back); break;
    case 15: dft_good(y, 3, 5, back); break;
    default: dft16(y, back);
    }
}

/* Calls f(radix, ...), written once and compiled for each radix. */
#define FOR_RADIX(r, f, ...) \
    switch (r) { \
    case 2: f(2, __VA_ARGS__); break; \
    case 3: f(3, __VA_ARGS__); break; \
    case 4: f(4, __VA_ARGS__); break; \
    case 5: f(5, __VA_ARGS__); break; \
    case 6: f(6, __VA_ARGS__); break; \
    case 7: f(7, __VA_ARGS__); break; \
    case 8: f(8, __VA_ARGS__); break; \
    case 9: f(9, __VA_ARGS__); break; \
    case 10: f(10, __VA_ARGS__); break; \
    case 12: f(12, __VA_ARGS__); break; \
    case 15: f(15, __VA_ARGS__); break; \
    default: f(16, __VA_ARGS__); \
    }

/* ---- stages ---- */

/* Memory that is needed soon, prefetched a little at a time during computation. */
struct soon { const char *at, *end; bool twice; };

INLINE void fetch(struct soon *s, int vectors)
{
    if (s->at >= s->end)
        return;
#pragma GCC unroll 16
    for (int i = 0; i < vectors; i++)
        __builtin_prefetch(s->at + 64 * i, 0, 2);
    s->at += 64 * vectors;
    if (!s->twice)
        return;
#pragma GCC unroll 16
    for (int i = 0; i < vectors; i++)
        __builtin_prefetch(s->at + 64 * i, 0, 2);
    s->at += 64 * vectors;
}

/* Input of the first stage, and output of the last one back: elements; real ones, whose imaginary parts are not looked
 * at; or the rows of real columns, of which those from lo to hi - 1 are wanted back. */
enum kind { COMPLEX, REAL, ROWS };
struct rows { const float *from; float *to; int64_t pitch; vf less; int64_t lo, hi; };

/* Does one block: its r parts of q elements each. `w` NULL: not turned, of elements. */
INLINE void block(int r, bool back, enum kind kind, struct cv *x, int64_t q, const float *w, struct soon *soon,
                  struct rows rows)
{
    const int64_t half = r * q;

    for (int64_t j = 0; j < q; j++) {
        struct cv y[16];
        if (soon)
            fetch(soon, r);
#pragma GCC unroll 16
        for (int i = 0; i < r; i++) {
            const int64_t at = j + i * q;
            if (kind == ROWS && !back)
                y[i] = (struct cv){vf_at(rows.from + at * rows.pitch) - rows.less,
                                   vf_at(rows.from + (at + half) * rows.pitch) - rows.less};
            else if (kind == REAL && !back)
                y[i] = i ? (struct cv){x[at].re * w[2 * i - 2], x[at].re * w[2 * i - 1]} : (struct cv){x[at].re, {0}};
            else
                y[i] = x[at];
            if (i && !back && (w || kind == ROWS) && kind != REAL)
                y[i] = turned(y[i], w[2 * i - 2], w[2 * i - 1], false);
        }
        dft(r, back, y);
#pragma GCC unroll 16
        for (int i = 0; i < r; i++) {
            const int64_t at = j + i * q;
            const bool turn = i && back && (w || kind != COMPLEX);
            const struct cv z = turn ? turned(y[i], w[2 * i - 2], w[2 * i - 1], true) : y[i];
            if (kind == REAL && back)
                x[at].re = z.re;
            else if (kind != ROWS || !back)
                x[at] = z;
            if (kind == ROWS && back && at >= rows.lo && at < rows.hi)
                *(vf_u *)(rows.to + at * rows.pitch) = z.re;
            if (kind == ROWS && back && at + half >= rows.lo && at + half < rows.hi)
                *(vf_u *)(rows.to + (at + half) * rows.pitch) = z.im;
        }
    }
}

/* Does `blocks` of them; those of one element each are worth code of their own. */
INLINE void blocks_of(int r, bool back, struct cv *x, int64_t blocks, int64_t q, const float *w, struct soon *soon)
{
    const struct rows none = {0};

    if (!w) {
        block(r, back, COMPLEX, x, q, NULL, soon, none);
    } else if (q == 1) {
        for (int64_t b = 0; b < blocks; b++, x += r, w += 2 * (r - 1))
            block(r, back, COMPLEX, x, 1, w, soon, none);
    } else {
        for (int64_t b = 0; b < blocks; b++, x += r * q, w += 2 * (r - 1))
            block(r, back, COMPLEX, x, q, w, soon, none);
    }
}

static void forward_stage(int r, struct cv *x, int64_t blocks, int64_t q, const float *w)
{
    FOR_RADIX(r, blocks_of, false, x, blocks, q, w, NULL)
}

static void back_stage(int r, struct cv *x, int64_t blocks, int64_t q, const float *w)
{
    FOR_RADIX(r, blocks_of, true, x, blocks, q, w, NULL)
}

static void back_stage_fetching(int r, struct cv *x, int64_t blocks, int64_t q, const float *w, struct soon *soon)
{
    FOR_RADIX(r, blocks_of, true, x, blocks, q, w, soon)
}

/* Turns of stage s from block b on. */
INLINE const float *turns(const struct vp_line *l, int s, int64_t b)
{
    return l->turn[s] ? l->turn[s] + b * 2 * (l->radix[s] - 1) : NULL;
}

/* Stages s ... of `blocks` blocks, of len elements together, the first of which is number b of stage s, or the way back
 * through them; depth first while they are large. */
static void stages(const struct vp_line *l, int s, bool back, struct cv *x, int64_t b, int64_t blocks, int64_t len)
{
    const int64_t each = len / blocks;

    if (s == l->stages)
        return;
    if (len > NEAR && blocks > 1) {
        for (int64_t i = 0; i < blocks; i++)
            stages(l, s, back, x + i * each, b + i, 1, each);
        return;
    }
    const int r = l->radix[s];
    if (!back)
        forward_stage(r, x, blocks, each / r, turns(l, s, b));
    stages(l, s + 1, back, x, b * r, blocks * r, len);
    if (back)
        back_stage(r, x, blocks, each / r, turns(l, s, b));
}

static void forward(const struct vp_line *l, float *x, int64_t inner)
{
    stages(l, 0, false, (struct cv *)x, 0, 1, l->n * inner);
}

static void back(const struct vp_line *l, float *x, int64_t inner)
{
    stages(l, 0, true, (struct cv *)x, 0, 1, l->n * inner);
}

/* ---- the middle: a product where the last stage ends and the first one back begins ---- */

/* Floats of a factor. */
INLINE int factor(bool real) { return real ? 1 : 2 * LANES; }

/* Does the last stage there, if it is wanted, times complex factors, or real ones, and the first one back. */
INLINE void middle_of(int r, bool there, bool real, const struct cv *x, const float *k, struct cv *to, int64_t blocks,
                      const float *w)
{
    for (int64_t b = 0; b < blocks; b++, x += r, to += r, k += r * factor(real)) {
        struct cv y[16];
#pragma GCC unroll 16
        for (int i = 0; i < r; i++)
            y[i] = there && i && w ? turned(x[i], w[2 * i - 2], w[2 * i - 1], false) : x[i];
        if (there)
            dft(r, false, y);
#pragma GCC unroll 16
        for (int i = 0; i < r; i++)
            y[i] = real ? (struct cv){y[i].re * k[i], y[i].im * k[i]} : mul(y[i], ((const struct cv *)k)[i]);
        dft(r, true, y);
#pragma GCC unroll 16
        for (int i = 0; i < r; i++)
            to[i] = i && w ? turned(y[i], w[2 * i - 2], w[2 * i - 1], true) : y[i];
        if (w)
            w += 2 * (r - 1);
    }
}

static void middle(int r, struct cv *x, const float *k, int64_t blocks, const float *w)
{
    FOR_RADIX(r, middle_of, true, false, x, k, x, blocks, w)
}

static void middle_real(int r, struct cv *x, const float *k, int64_t blocks, const float *w)
{
    FOR_RADIX(r, middle_of, true, true, x, k, x, blocks, w)
}

static void first_back(int r, const struct cv *x, const float *k, struct cv *to, int64_t blocks, const float *w)
{
    FOR_RADIX(r, middle_of, false, false, x, k, to, blocks, w)
}

/* Does stages() backwards. */
static void there_and_back(const struct vp_line *l, int s, bool real, struct cv *x, const float *k, int64_t b,
                           int64_t blocks, int64_t len)
{
    const int r = l->radix[s];
    const int64_t each = len / blocks;

    if (s == l->stages - 1) {
        (real ? middle_real : middle)(r, x, k, blocks, turns(l, s, b));
        return;
    }
    if (len > NEAR && blocks > 1) {
        for (int64_t i = 0; i < blocks; i++)
            there_and_back(l, s, real, x + i * each, k + i * each * factor(real), b + i, 1, each);
        return;
    }
    forward_stage(r, x, blocks, each / r, turns(l, s, b));
    there_and_back(l, s + 1, real, x, k, b * r, blocks * r, len);
    back_stage(r, x, blocks, each / r, turns(l, s, b));
}

static void convolve(const struct vp_line *l, float *x, const float *k)
{
    there_and_back(l, 0, false, (struct cv *)x, k, 0, 1, l->n);
}

/* ---- real rows, times real factors ---- */

static void weigh(const struct vp_line *l, float *x_, const float *k)
{
    struct cv *const x = (struct cv *)x_;
    const int r = l->radix[0];
    const int64_t q = l->n / r;

    if (l->stages == 1) {
        for (int64_t i = 0; i < l->n; i++)
            x[i].im = (vf){0};
        middle_real(r, x, k, 1, l->turn[0]);
        return;
    }
    const struct rows none = {0};
    FOR_RADIX(r, block, false, REAL, x, q, l->turn[0], NULL, none)
    there_and_back(l, 1, true, x, k, 0, r, l->n);
    FOR_RADIX(r, block, true, REAL, x, q, l->turn[0], NULL, none)
}

static void product_back(const struct vp_line *l, const float *x, const float *k, float *to, const float *next)
{
    const int last = l->stages - 1;
    int64_t blocks = l->n / l->radix[last];
    struct cv *const y = (struct cv *)to;
    struct soon soon = {(const char *)next, next ? (const char *)(next + l->n * 2 * LANES) : NULL, last == 1};

    first_back(l->radix[last], (const struct cv *)x, k, y, blocks, l->turn[last]);
    for (int s = last - 1; s >= 0; s--) {
        blocks /= l->radix[s];
        back_stage_fetching(l->radix[s], y, blocks, l->n / blocks / l->radix[s], l->turn[s], &soon);
    }
}

static void product(float *y_, const float *x_, const float *k_, int64_t n, bool more)
{
    struct cv *const y = (struct cv *)y_;
    const struct cv *const x = (const struct cv *)x_, *const k = (const struct cv *)k_;

    for (int64_t i = 0; i < n; i++)
        y[i] = more ? add(y[i], mul(x[i], k[i])) : mul(x[i], k[i]);
}

/* ---- real columns ---- */

static void columns(const struct vp_line *l, const float *from, int64_t pitch, const float *less, float *x_)
{
    struct cv *const x = (struct cv *)x_;
    const int r = l->radix[0];
    const struct rows rows = {.from = from, .pitch = pitch, .less = vf_at(less)};

    FOR_RADIX(r, block, false, ROWS, x, l->n / r, l->turn[0], NULL, rows)
    stages(l, 1, false, x, 0, r, l->n);
}

static void columns_back(const struct vp_line *l, float *x_, float *to, int64_t pitch, int64_t lo, int64_t hi)
{
    struct cv *const x = (struct cv *)x_;
    const int r = l->radix[0];
    const struct rows rows = {.to = to, .pitch = pitch, .lo = lo, .hi = hi};

    stages(l, 1, true, x, 0, r, l->n);
    FOR_RADIX(r, block, true, ROWS, x, l->n / r, l->turn[0], NULL, rows)
}

/* ---- columns to rows and back ---- */

static void gather(float *x_, const float *const *from, int64_t at, int64_t blocks)
{
    struct cv *x = (struct cv *)x_;

    for (int64_t b = 0; b < blocks; b++, x += LANES) {
        const struct cv *const f = (const struct cv *)from[b] + at;
        transpose(&f->re, &x->re, 2);
        transpose(&f->im, &x->im, 2);
    }
}

static void scatter(const float *x_, float *const *to, int64_t at, int64_t blocks)
{
    const struct cv *x = (const struct cv *)x_;

    for (int64_t b = 0; b < blocks; b++, x += LANES) {
        struct cv *const t = (struct cv *)to[b] + at;
        transpose(&x->re, &t->re, 2);
        transpose(&x->im, &t->im, 2);
    }
}

static void scatter_sum(const float *x_, const float *y_, const float *u, const float *v, float *const *to, int64_t at,
                        int64_t blocks)
{
    const struct cv *x = (const struct cv *)x_, *y = (const struct cv *)y_;

    for (int64_t b = 0; b < blocks; b++, x += LANES, y += LANES, u += LANES, v += LANES) {
        struct cv *const t = (struct cv *)to[b] + at;
        struct cv s[LANES];
#pragma GCC unroll 16
        for (int l = 0; l < LANES; l++)
            s[l] = (struct cv){x[l].re * u[l] + y[l].re * v[l], x[l].im * u[l] + y[l].im * v[l]};
        transpose(&s->re, &t->re, 2);
        transpose(&s->im, &t->im, 2);
    }
}

extern const struct vp_line_isa PASTE(vp_line_, VP_ISA);
const struct vp_line_isa PASTE(vp_line_, VP_ISA) = {TEXT(VP_ISA), LANES, forward, back, columns, columns_back, gather,
                                                    scatter, scatter_sum, convolve, weigh, product_back, product};
